/* test_h5visit.c - which links are visited, and what is too much. */
#include "../../runner/storage/untrusted/h5visit.h"
#include "scratch.h"

#include <string.h>

enum { LONGEST = 4095 };

struct seen {
    int count;
    size_t length;    /* of the last name */
    bool all_letters; /* it is letters and slashes up to its end */
};

static herr_t note(hid_t group, const char *name, const H5L_info_t *link, void *context) {
    (void)group, (void)link;
    struct seen *seen = context;
    seen->count++;
    seen->length = strlen(name);
    seen->all_letters = strspn(name, "abc/") == seen->length;
    return 0;
}

/* Makes a group, and those above it, in each of `names`; and after that a data set there if `holds`. */
static hid_t make(const char *const names[], bool holds) {
    hid_t file = H5Fcreate(in_folder("x.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), at = file;
    for (int i = 0; names[i]; i++) {
        hid_t group = H5Gcreate2(at, names[i], H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        assert_true(group >= 0);
        if (at != file) H5Gclose(at);
        at = group;
    }
    hid_t space = H5Screate(H5S_SCALAR);
    if (holds) H5Dclose(H5Dcreate2(at, "c", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Sclose(space);
    if (at != file) H5Gclose(at);
    H5Fflush(file, H5F_SCOPE_LOCAL);
    return file;
}

static void paths_end_somewhere(void **state) {
    static char first[LONGEST + 20], second[LONGEST + 20];
    static const size_t lengths[] = {3, 100, LONGEST - 2, LONGEST - 1, LONGEST, LONGEST + 1, LONGEST + 2, LONGEST + 9};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (int parts = 1; parts <= 2; parts++)
            for (int holds = 0; holds < 2; holds++) {
                size_t outer = lengths[l] / (size_t)parts, inner = parts == 1 ? 0 : lengths[l] - outer - 1;
                memset(first, 'a', outer), first[outer] = '\0';
                memset(second, 'b', inner), second[inner] = '\0';
                hid_t file = make((const char *const[]){first, parts == 1 ? NULL : second, NULL}, holds);
                struct seen seen = {0};
                herr_t result = h5_visit(file, H5_ITER_INC, note, NULL, &seen);
                bool path_fits = lengths[l] <= LONGEST, fits = lengths[l] + (holds ? 2 : 0) <= LONGEST;
                assert_int_equal(result, fits ? 0 : -1);
                if (!fits) assert_non_null(strstr(h5_error_text(), "a path is too long"));
                assert_int_equal(seen.count, parts - !path_fits + (holds && fits));
                if (fits) assert_true(seen.length == lengths[l] + (holds ? 2 : 0) && seen.all_letters);
                H5Fclose(file);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_end_somewhere),
    };
    return cmocka_run_group_tests_name("h5visit", tests, make_folder, remove_folder);
}
