/* test_h5type.c - the types of elements; HDF5's words about its errors; a text whose length is not what its file
 * claims. */
#include "../../runner/storage/h5/h5attribute.h"
#include "../../runner/storage/h5/h5io.h"
#include "../../runner/storage/untrusted/h5open.h"
#include "scratch.h"

#include <string.h>
#include <sys/resource.h>

/* Makes a file with a text that claims to have so many bytes. */
static void make_text(const char *path, const char *text, uint32_t claims) {
    struct error error = {.status = STATUS_OK};
    static char data[1 << 16];
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_int_equal(h5_set_text(file, "text", text, &error), STATUS_OK);
    H5Fclose(file);
    FILE *both = fopen(path, "r+b");
    size_t size = fread(data, 1, sizeof data, both);
    const char *heap = memmem(data, size, "GCOL", 4);
    assert_non_null(heap);
    struct {
        uint32_t length, address[2]; /* as the attribute has them */
    } is = {(uint32_t)strlen(text), {(uint32_t)(heap - data), 0}};
    const char *place = memmem(data, size, &is, sizeof is);
    assert_non_null(place);
    fseek(both, place - data, SEEK_SET);
    assert_int_equal(fwrite(&claims, sizeof claims, 1, both), 1);
    fclose(both);
}

/* HDF5 takes as much memory as a text claims, twice, but for a limit that is the process's own again afterwards. */
static void a_text_that_claims_much(void **state) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* it takes memory of its own */
#endif
    static const uint32_t claims[] = {11, 300 << 20, 600 << 20, UINT32_MAX};
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        struct error error = {.status = STATUS_OK};
        struct rlimit limits[2];
        struct rusage used[2];
        hid_t file;
        make_text(in_folder("x.h5"), "millimetres", claims[i]);
        assert_int_equal(h5_open_file(in_folder("x.h5"), &file, &error), STATUS_OK);
        getrusage(RUSAGE_SELF, &used[0]), getrlimit(RLIMIT_AS, &limits[0]);
        char *text = h5_get_text(file, "text");
        getrusage(RUSAGE_SELF, &used[1]), getrlimit(RLIMIT_AS, &limits[1]);
        if (i == 0) assert_string_equal(text, "millimetres");
        assert_true(used[1].ru_maxrss - used[0].ru_maxrss < 200 << 10); /* KiB */
        assert_memory_equal(&limits[1], &limits[0], sizeof *limits);
        free(text);
        H5Fclose(file);
    }
}

/* The cause comes first. Calls that succeed after the failure take nothing away; the next failure counts. */
static void words_of_an_error(void **state) {
    for (int i = 0; i < 2; i++) {
        hid_t list = H5Pcreate(H5P_FILE_ACCESS);
        assert_true(H5Fopen(in_folder("nowhere.h5"), H5F_ACC_RDONLY, list) < 0);
        H5Pclose(list);
        assert_int_equal(strncmp(h5_error_text(), "unable to open file: name = ", 28), 0);
        assert_non_null(strstr(h5_error_text(), " < "));
        assert_true(H5Dopen2(list, "nothing", H5P_DEFAULT) < 0);
        assert_null(strstr(h5_error_text(), "unable to open file"));
    }
    h5_set_error_text("of ours");
    assert_string_equal(h5_error_text(), "of ours");
}

/* The types are those of HDF5; it lacks float16 and bfloat16. */
static void standard_types(void **state) {
    h5_prepare();
    const struct {
        enum dtype dtype;
        hid_t standard;
    } types[] = {
        {INT8, H5T_STD_I8LE},      {INT16, H5T_STD_I16LE},    {INT32, H5T_STD_I32LE},  {INT64, H5T_STD_I64LE},
        {UINT8, H5T_STD_U8LE},     {UINT16, H5T_STD_U16LE},   {UINT32, H5T_STD_U32LE}, {UINT64, H5T_STD_U64LE},
        {FLOAT32, H5T_IEEE_F32LE}, {FLOAT64, H5T_IEEE_F64LE},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        hid_t type = h5_type(types[i].dtype);
        assert_true(H5Tequal(type, types[i].standard) > 0);
        assert_int_equal(H5Tclose(type), 0);
    }
    const enum dtype small[] = {FLOAT16, BFLOAT16};
    for (int i = 0; i < 2; i++) {
        hid_t type = h5_type(small[i]);
        assert_int_equal(H5Tget_size(type), 2);
        assert_int_equal(H5Tget_precision(type), 16);
        assert_int_equal(H5Tget_ebias(type), small[i] == FLOAT16 ? 15 : 127);
        assert_int_equal(H5Tclose(type), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(standard_types),
        cmocka_unit_test(words_of_an_error),
        cmocka_unit_test(a_text_that_claims_much),
    };
    return cmocka_run_group_tests_name("h5type", tests, make_folder, remove_folder);
}
