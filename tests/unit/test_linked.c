/* test_linked.c - whether a linked results file still finds its parts: what it lacks is counted, nothing stays open. */
#include "../../runner/record/linked.h"
#include "../../runner/storage/h5/h5file.h"
#include "../../runner/storage/h5/h5virtual.h"
#include "scratch.h"

#include <string.h>
#include <unistd.h>

static const struct shape shape = {1, {4}};

static void store_part(const char *name) {
    static const float values[4] = {1, 2, 3, 4};
    store_array(in_folder(name), FLOAT32, &shape, &(struct h5_layout){.fletcher32 = false}, values);
}

/* A file with two outputs in parts, one of them of two, and one output of its own. The caller closes. */
static hid_t make_linked(const char *path, bool linked) {
    static const char *const outputs[][3] = {{"/outputs/one", "a.h5", "a.h5"}, {"/variants/b/two", "b.h5", "c.h5"}};
    struct error error = {.status = STATUS_OK};
    struct h5_dataset *dataset;
    hid_t file;
    assert_int_equal(h5_create_file(path, &file, &error), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        struct shape both = {1, {8}};
        struct h5_source sources[2];
        for (int s = 0; s < 2; s++)
            sources[s] = (struct h5_source){outputs[i][1 + s], "/x", {.rank = 1, .start = {4 * s}, .count = {4}}};
        assert_int_equal(h5_create_virtual(file, outputs[i][0], FLOAT32, &both, sources, 2, &error), STATUS_OK);
    }
    assert_int_equal(
        h5_create(file, "/outputs/own", FLOAT32, &shape, &(struct h5_layout){.fletcher32 = false}, &dataset, &error),
        STATUS_OK);
    h5_close(&dataset);
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t mark = linked ? H5Acreate2(file, H5_LINKED, H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT) : -1;
    if (linked) assert_true(mark >= 0 && H5Aclose(mark) >= 0);
    H5Sclose(space);
    return file;
}

static void assert_broken(hid_t file, const char *path, const char *expected) {
    ssize_t before = H5Fget_obj_count(file, H5F_OBJ_ALL);
    char *why = link_broken(file, path);
    if (expected)
        assert_string_equal(why, expected);
    else
        assert_null(why);
    free(why);
    assert_int_equal(H5Fget_obj_count(file, H5F_OBJ_ALL), before);
}

static void what_is_lacking_is_said(void **state) {
    static const char *const parts[] = {"a.h5", "b.h5", "c.h5"};
    for (int there = 0; there < 8; there++) {
        char path[128], name[16], expected[200];
        snprintf(name, sizeof name, "%d.h5", there);
        snprintf(path, sizeof path, "%s", in_folder(name));
        for (int i = 0; i < 3; i++)
            if (there >> i & 1) store_part(parts[i]);
        hid_t file = make_linked(path, true);
        bool one = there & 1, two = (there & 6) == 6;
        snprintf(expected, sizeof expected,
                 "its parts are missing: '/x' in %s, which is not there; %d of its outputs cannot be read",
                 !one        ? "a.h5"
                 : there & 2 ? "c.h5"
                             : "b.h5",
                 !one + !two);
        assert_broken(file, path, one && two ? NULL : expected);
        H5Fclose(file);
        for (int i = 0; i < 3; i++) unlink(in_folder(parts[i]));
    }
}

/* Another file may have virtual data sets whose sources are elsewhere. */
static void other_files_need_no_parts(void **state) {
    hid_t file = make_linked(in_folder("other.h5"), false);
    assert_broken(file, in_folder("other.h5"), NULL);
    H5Fclose(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_lacking_is_said),
        cmocka_unit_test(other_files_need_no_parts),
    };
    return cmocka_run_group_tests_name("link", tests, make_folder, remove_folder);
}
