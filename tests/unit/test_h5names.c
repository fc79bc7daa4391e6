/* test_h5names.c - where a file name that stands in an HDF5 file is looked for, in HDF5's order. */
#include "../../runner/base/texts.h"
#include "../../runner/storage/untrusted/h5names.h"
#include "scratch.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Compares with paths, separated by spaces, where ~ stands for the test's folder. */
static void assert_names(struct texts names, const char *expected) {
    char *found = NULL, *wanted = NULL;
    size_t unused;
    FILE *to = open_memstream(&found, &unused);
    for (int i = 0; i < names.count; i++) fprintf(to, i ? " %s" : "%s", names.items[i]);
    fclose(to);
    to = open_memstream(&wanted, &unused);
    for (; *expected; expected++) fprintf(to, "%.*s", *expected == '~' ? 99 : 1, *expected == '~' ? folder : expected);
    fclose(to);
    texts_clear(&names);
    assert_string_equal(found, wanted);
    free(found);
    free(wanted);
}

static const char *from(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s", in_folder(name));
    return path;
}

static void links_and_sources(void **state) {
    unsetenv("HDF5_EXT_PREFIX");
    assert_names(h5_names_of(from("a.h5"), "b.h5", "HDF5_EXT_PREFIX"), "~/b.h5 b.h5 ~/b.h5");
    assert_names(h5_names_of(from("a.h5"), "c/b.h5", "HDF5_EXT_PREFIX"), "~/c/b.h5 c/b.h5 ~/c/b.h5");
    /* An absolute name as it is, then its last part as any other. */
    assert_names(h5_names_of(from("a.h5"), "/x/b.h5", "HDF5_EXT_PREFIX"), "/x/b.h5 ~/b.h5 b.h5 ~/b.h5");
    /* Beside the link, and beside what it leads to. */
    assert_int_equal(mkdir(in_folder("far"), 0777), 0);
    fclose(fopen(in_folder("far/a.h5"), "w"));
    assert_int_equal(symlink("far/a.h5", in_folder("near.h5")), 0);
    assert_names(h5_names_of(from("near.h5"), "b.h5", "HDF5_EXT_PREFIX"), "~/b.h5 b.h5 ~/far/b.h5");
    setenv("HDF5_EXT_PREFIX", "/p::${ORIGIN}:${ORIGIN}/q:r", 1);
    assert_names(h5_names_of(from("near.h5"), "b.h5", "HDF5_EXT_PREFIX"),
                 "/p/b.h5 ~/far/b.h5 ~/far/q/b.h5 r/b.h5 ~/b.h5 b.h5 ~/far/b.h5");
    assert_names(h5_names_of(from("near.h5"), "b.h5", "HDF5_VDS_PREFIX"), "~/b.h5 b.h5 ~/far/b.h5");
    unsetenv("HDF5_EXT_PREFIX");
}

static void external_storage(void **state) {
    unsetenv("HDF5_EXTFILE_PREFIX");
    assert_names(h5_names_external(from("a.h5"), "b.raw"), "b.raw");
    assert_names(h5_names_external(from("a.h5"), "/x/b.raw"), "/x/b.raw");
    setenv("HDF5_EXTFILE_PREFIX", "${ORIGIN}", 1);
    assert_names(h5_names_external(from("a.h5"), "b.raw"), "~/b.raw");
    assert_names(h5_names_external(from("a.h5"), "/x/b.raw"), "/x/b.raw");
    unsetenv("HDF5_EXTFILE_PREFIX");
}

/* However many folders there are: those that always count have room. */
static void many_folders(void **state) {
    char list[400];
    for (size_t i = 0, used = 0; i < 60; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s/f%zu", i ? ":" : "", i);
    setenv("HDF5_EXT_PREFIX", list, 1);
    for (int absolute = 0; absolute < 2; absolute++) {
        struct texts names = h5_names_of(from("a.h5"), absolute ? "/x/b.h5" : "b.h5", "HDF5_EXT_PREFIX");
        assert_int_equal(names.count, 32);
        assert_string_equal(names.items[absolute], "/f0/b.h5");
        assert_string_equal(names.items[28], absolute ? "/f27/b.h5" : "/f28/b.h5");
        assert_string_equal(names.items[29], in_folder("b.h5"));
        assert_string_equal(names.items[30], "b.h5");
        texts_clear(&names);
    }
    unsetenv("HDF5_EXT_PREFIX");
}

static void names_of_blocks(void **state) {
    static const struct {
        const char *stored, *name;
        bool numbered;
    } cases[] = {{"a.h5", "a.h5", false}, {"a%b.h5", "a17.h5", true}, {"%b%b", "1717", true}, {"a%%b", "a%b", false},
                 {"%%%b", "%17", true},   {"a%", "a%", false},        {"", "", false},        {"%", "%", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool numbered = !cases[i].numbered;
        char *name = h5_block_name(cases[i].stored, 17, &numbered);
        assert_string_equal(name, cases[i].name);
        assert_int_equal(numbered, cases[i].numbered);
        free(name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_and_sources),
        cmocka_unit_test(external_storage),
        cmocka_unit_test(many_folders),
        cmocka_unit_test(names_of_blocks),
    };
    return cmocka_run_group_tests_name("h5names", tests, make_folder, remove_folder);
}
