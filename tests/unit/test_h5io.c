/* test_h5io.c - data sets: every type both ways, boxes, layouts, and the messages about unusable files. */
#include "../../runner/storage/h5/h5attribute.h"
#include "../../runner/storage/h5/h5file.h"
#include "../../runner/storage/untrusted/h5open.h"
#include "draws.h"
#include "scratch.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static hid_t create(const char *name) {
    struct error error = {.status = STATUS_OK};
    hid_t file;
    assert_int_equal(h5_create_file(in_folder(name), &file, &error), STATUS_OK);
    return file;
}

static void finish(hid_t file) {
    struct error error = {.status = STATUS_OK};
    assert_int_equal(h5_close_file(file, &error), STATUS_OK);
}

static const struct h5_layout contiguous = {.level = 0};

/* Checks that opening fails with a sentence that contains `words`. */
static void assert_refused(const char *path, const char *dataset, const char *words) {
    struct error error = {.status = STATUS_OK};
    struct h5_dataset *opened;
    assert_int_equal(h5_open(path, dataset, &opened, &error), STATUS_USAGE);
    assert_null(opened);
    if (!strstr(error.text, words)) fail_msg("\"%s\" lacks \"%s\"", error.text, words);
    assert_non_null(strstr(error.text, path));
}

static void test_types_survive(void **state) {
    hid_t file = create("types.h5");
    struct shape shape = {1, {300}};
    struct box whole = box_whole(&shape);
    unsigned char bytes[300 * 8], back[300 * 8];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * 37 + i / 251);
    for (int t = 0; t < DTYPE_COUNT; t++) {
        struct error error = {.status = STATUS_OK};
        struct h5_dataset *dataset;
        assert_int_equal(h5_create(file, dtype_name(t), t, &shape, &contiguous, &dataset, &error), STATUS_OK);
        assert_int_equal(h5_write(dataset, &whole, bytes, &error), STATUS_OK);
        h5_close(&dataset);
    }
    finish(file);
    for (int t = 0; t < DTYPE_COUNT; t++) {
        struct error error = {.status = STATUS_OK};
        struct h5_dataset *dataset;
        assert_int_equal(h5_open(in_folder("types.h5"), dtype_name(t), &dataset, &error), STATUS_OK);
        assert_int_equal(dataset->dtype, t);
        assert_int_equal(h5_read(dataset, &whole, back, &error), STATUS_OK);
        assert_memory_equal(back, bytes, 300 * dtype_size(t)); /* NaN payloads too */
        h5_close(&dataset);
    }
}

static void test_big_endian(void **state) {
    static const unsigned char stored[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    hid_t file = create("big.h5");
    for (int t = 0; t < DTYPE_COUNT; t++) {
        hsize_t count = 8 / dtype_size(t);
        hid_t type = h5_type(t), space = H5Screate_simple(1, &count, NULL);
        H5Tset_order(type, H5T_ORDER_BE);
        hid_t id = H5Dcreate2(file, dtype_name(t), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        assert_true(H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, stored) >= 0);
        H5Dclose(id);
        H5Sclose(space);
        H5Tclose(type);
    }
    finish(file);
    for (int t = 0; t < DTYPE_COUNT; t++) {
        struct error error = {.status = STATUS_OK};
        struct h5_dataset *dataset;
        unsigned char back[8];
        size_t size = dtype_size(t);
        assert_int_equal(h5_open(in_folder("big.h5"), dtype_name(t), &dataset, &error), STATUS_OK);
        assert_int_equal(dataset->dtype, t);
        struct box whole = box_whole(&dataset->shape);
        assert_int_equal(h5_read(dataset, &whole, back, &error), STATUS_OK);
        for (size_t i = 0; i < 8; i++) assert_int_equal(back[i], stored[i / size * size + size - 1 - i % size]);
        h5_close(&dataset);
    }
}

/* A box in the middle of a stack, in every layout of the file. */
static void test_boxes_and_layouts(void **state) {
    const struct h5_layout layouts[] = {
        contiguous,
        {.fletcher32 = true},
        {.chunk = {3, {1, 4, 100}}, .compression = COMPRESSION_GZIP, .level = 4, .shuffle = true, .fletcher32 = true},
    };
    struct shape shape = {3, {3, 10, 20}};
    struct box whole = box_whole(&shape), box = {3, {1, 2, 3}, {2, 5, 7}};
    int32_t values[600], back[70];
    for (int i = 0; i < 600; i++) values[i] = i;
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
        struct error error = {.status = STATUS_OK};
        struct h5_dataset *dataset;
        hid_t file = create("boxes.h5");
        assert_int_equal(h5_create(file, "/a/b/values", INT32, &shape, &layouts[l], &dataset, &error), STATUS_OK);
        assert_int_equal(dataset->chunk.rank, l ? 3 : 0);
        assert_int_equal(dataset->filtered, l > 0);
        if (l == 2) assert_int_equal(dataset->chunk.size[2], 20); /* no larger than the array */
        assert_int_equal(h5_write(dataset, &whole, values, &error), STATUS_OK);
        h5_close(&dataset);
        finish(file);
        assert_int_equal(h5_open(in_folder("boxes.h5"), "/a/b/values", &dataset, &error), STATUS_OK);
        assert_int_equal(dataset->chunk.rank, l ? 3 : 0);
        assert_int_equal(h5_read(dataset, &box, back, &error), STATUS_OK);
        for (int i = 0; i < 70; i++) assert_int_equal(back[i], (1 + i / 35) * 200 + (2 + i / 7 % 5) * 20 + 3 + i % 7);
        h5_close(&dataset);
    }
}

static void test_chunks_are_tiles(void **state) {
    static const struct {
        enum dtype dtype;
        struct shape shape, chunk;
    } cases[] = {
        {FLOAT32, {2, {4096, 4096}}, {2, {512, 512}}},
        {FLOAT32, {2, {1, 1 << 20}}, {2, {1, 1 << 18}}},
        {FLOAT64, {2, {100000, 8}}, {2, {14336, 8}}}, /* 7 chunks of about equal size */
        {FLOAT64, {4, {229, 35, 151, 29}}, {4, {1, 18, 151, 29}}},
        {INT8, {3, {5000, 10, 10}}, {3, {5000, 10, 10}}},
        {FLOAT64, {1, {1 << 20}}, {1, {1 << 17}}},
        {FLOAT32, {2, {0, 5}}, {0, {0}}},
        {FLOAT32, {0, {0}}, {0, {0}}},
    };
    struct h5_layout layout = {.fletcher32 = true};
    hid_t file = create("chunks.h5");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct error error = {.status = STATUS_OK};
        struct h5_dataset *dataset;
        char name[16];
        snprintf(name, sizeof name, "d%zu", c);
        assert_int_equal(h5_create(file, name, cases[c].dtype, &cases[c].shape, &layout, &dataset, &error), STATUS_OK);
        assert_int_equal(dataset->chunk.rank, cases[c].chunk.rank);
        for (int i = 0; i < dataset->chunk.rank; i++) assert_int_equal(dataset->chunk.size[i], cases[c].chunk.size[i]);
        h5_close(&dataset);
    }
    finish(file);
}

/* Chunks that a layout names are at most as large as the array, along each axis. */
static void test_chunks_are_no_larger(void **state) {
    state_of_draws = 1;
    for (int trial = 0; trial < 500; trial++) {
        struct shape shape = {.rank = 1 + draw_below(MAX_RANK)};
        struct h5_layout layout = {.chunk.rank = shape.rank, .shuffle = draw_below(2)};
        for (int i = 0; i < shape.rank; i++) {
            shape.size[i] = 1 + draw_below(5);
            layout.chunk.size[i] = 1 + draw_below(8);
        }
        struct shape chunk = h5_chunk(FLOAT32, &shape, &layout);
        assert_int_equal(chunk.rank, shape.rank);
        for (int i = 0; i < shape.rank; i++) {
            int64_t size = layout.chunk.size[i];
            assert_int_equal(chunk.size[i], size < shape.size[i] ? size : shape.size[i]);
        }
    }
}

static void test_scalar_and_wrong_chunks(void **state) {
    struct error error = {.status = STATUS_OK};
    struct shape scalar = {0, {0}};
    struct box whole = box_whole(&scalar);
    struct h5_layout layout = {.fletcher32 = true}, flat = {.chunk = {1, {8}}};
    struct h5_dataset *dataset;
    double value = 2.5, back = 0;
    hid_t file = create("scalar.h5");
    assert_int_equal(h5_create(file, "/total", FLOAT64, &scalar, &layout, &dataset, &error), STATUS_OK);
    assert_int_equal(h5_write(dataset, &whole, &value, &error), STATUS_OK);
    assert_int_equal(h5_read(dataset, &whole, &back, &error), STATUS_OK);
    assert_true(back == value);
    h5_close(&dataset);
    assert_int_equal(h5_create(file, "/x", FLOAT64, &(struct shape){2, {4, 4}}, &flat, &dataset, &error), STATUS_USAGE);
    finish(file);
    error = (struct error){.status = STATUS_OK};
    assert_int_equal(h5_open(in_folder("scalar.h5"), "/total", &dataset, &error), STATUS_OK);
    assert_int_equal(dataset->shape.rank, 0);
    h5_close(&dataset);
}

static void make_odd_data_sets(hid_t file) {
    hsize_t size[9] = {2, 2, 2, 2, 2, 2, 2, 2, 2};
    hid_t space = H5Screate_simple(1, size, NULL), deep = H5Screate_simple(9, size, NULL), null = H5Screate(H5S_NULL);
    hid_t compound = H5Tcreate(H5T_COMPOUND, 16);
    H5Tinsert(compound, "r", 0, H5T_NATIVE_DOUBLE);
    H5Tinsert(compound, "i", 8, H5T_NATIVE_DOUBLE);
    const struct {
        const char *name;
        hid_t type, space;
    } odd[] = {
        {"complex", compound, space},
        {"names", H5T_C_S1, space},
        {"deep", H5T_NATIVE_FLOAT, deep},
        {"empty", H5T_NATIVE_FLOAT, null},
        {"/group/pixels", H5T_NATIVE_FLOAT, space},
    };
    H5Gclose(H5Gcreate2(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        H5Dclose(H5Dcreate2(file, odd[i].name, odd[i].type, odd[i].space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Lcreate_soft("/nowhere", file, "dangling", H5P_DEFAULT, H5P_DEFAULT);
    H5Tclose(compound);
    H5Sclose(space);
    H5Sclose(deep);
    H5Sclose(null);
}

static void test_refusals(void **state) {
    hid_t file = create("odd.h5");
    make_odd_data_sets(file);
    finish(file);
    const char *path = in_folder("odd.h5");
    assert_refused(path, "complex", "complex numbers; `field: r`");
    assert_refused(path, "names", "strings");
    assert_refused(path, "deep", "more than 8 axes");
    assert_refused(path, "empty", "is empty");
    assert_refused(path, "group", "is a group");
    assert_refused(path, "dangling", "is a soft link to");
    assert_refused(path, "/group/pixel", "did you mean '/group/pixels'?");
    assert_refused(path, "/nothing/like/this", "it holds /");
    assert_refused(path, "", "has no data set ''");
}

static void test_unusable_files(void **state) {
    assert_refused(in_folder("absent.h5"), "x", "No such file");
    assert_refused(folder, "x", "is a directory");
    assert_refused("/dev/null", "x", "is not a regular file");
    FILE *text = fopen(in_folder("text.h5"), "w");
    fputs("version: 1\n", text);
    fclose(text);
    assert_refused(in_folder("text.h5"), "x", "is not an HDF5 file");
    hid_t file = create("short.h5");
    finish(file);
    struct stat about;
    assert_int_equal(stat(in_folder("short.h5"), &about), 0);
    assert_int_equal(truncate(in_folder("short.h5"), about.st_size - 8), 0);
    assert_refused(in_folder("short.h5"), "x", "truncated");
    int writer = open(in_folder("types.h5"), O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(writer, LOCK_EX), 0);
    assert_refused(in_folder("types.h5"), "x", "HDF5_USE_FILE_LOCKING");
    close(writer);
    if (geteuid() != 0) {
        chmod(in_folder("text.h5"), 0);
        assert_refused(in_folder("text.h5"), "x", "Permission denied");
    }
}

static void test_attributes(void **state) {
    struct error error = {.status = STATUS_OK};
    hid_t file = create("attributes.h5");
    assert_int_equal(h5_set_text(file, "name", "Größe", &error), STATUS_OK);
    char *text = h5_get_text(file, "name");
    assert_string_equal(text, "Größe");
    free(text);
    assert_null(h5_get_text(file, "absent"));
    char name[16];
    for (int i = 0; i < 40; i++) { /* more than the compact form of a header holds */
        snprintf(name, sizeof name, "n%d", i);
        assert_int_equal(h5_set_integer(file, name, i, &error), STATUS_OK);
    }
    assert_int_equal(h5_set_text(file, "name", "twice", &error), STATUS_OK); /* replaces the text */
    text = h5_get_text(file, "name");
    assert_string_equal(text, "twice");
    free(text);
    double real = 0;
    int64_t integer = 0;
    assert_int_equal(h5_set_real(file, "share", 0.5, &error), STATUS_OK);
    assert_true(h5_get_number(file, "share", FLOAT64, &real) && real == 0.5);
    assert_true(h5_get_number(file, "n39", INT64, &integer) && integer == 39);
    assert_true(h5_get_number(file, "n39", FLOAT64, &real) && real == 39);
    assert_false(h5_get_number(file, "absent", FLOAT64, &real));
    assert_false(h5_get_number(file, "name", INT64, &integer)); /* a text */
    finish(file);
}

static char *whole_file(const char *path, long *size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *size = ftell(file);
    rewind(file);
    char *data = malloc((size_t)*size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)*size, file), *size);
    fclose(file);
    return data;
}

/* Groups, data sets and attributes of a file, in the order of a job. */
static void fill(hid_t file) {
    struct error error = {.status = STATUS_OK};
    hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(creation, false);
    for (int i = 0; i < 60; i++) {
        char name[16];
        hsize_t size = 1 + (hsize_t)i * 7;
        double values[420] = {i};
        snprintf(name, sizeof name, "d%d", i);
        hid_t space = H5Screate_simple(1, &size, NULL);
        hid_t id = H5Dcreate2(file, name, H5T_IEEE_F64LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
        assert_true(H5Dwrite(id, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
        for (int a = 0; a < i % 12; a++) {
            snprintf(name, sizeof name, "a%d", a);
            assert_int_equal(h5_set_integer(id, name, a, &error), STATUS_OK);
        }
        H5Dclose(id);
        H5Sclose(space);
    }
    H5Pclose(creation);
}

/* The second by the clock that HDF5 reads; time() may be a few milliseconds behind it. */
static time_t second_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec;
}

/* Byte for byte it is what HDF5's own driver makes of the same: nothing is scattered, no room is lost. */
static void test_the_driver_is_like_hdf5_s(void **state) {
    long bytes[2];
    time_t begin;
    do { /* the root group holds the second in which it was made */
        begin = second_now();
        hid_t file = create("ours.h5");
        hid_t creation = H5Fget_create_plist(file), access = H5Pcreate(H5P_FILE_ACCESS);
        H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V110);
        fill(file);
        finish(file);
        file = H5Fcreate(in_folder("theirs.h5"), H5F_ACC_TRUNC, creation, access);
        assert_true(file >= 0);
        fill(file);
        H5Fclose(file);
        H5Pclose(creation);
        H5Pclose(access);
    } while (second_now() != begin);
    char *ours = whole_file(in_folder("ours.h5"), &bytes[0]), *theirs = whole_file(in_folder("theirs.h5"), &bytes[1]);
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(ours, theirs, (size_t)bytes[0]);
    free(ours);
    free(theirs);
}

static void test_nothing_stays_open(void **state) {
    assert_int_equal(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types_survive),
        cmocka_unit_test(test_big_endian),
        cmocka_unit_test(test_boxes_and_layouts),
        cmocka_unit_test(test_chunks_are_tiles),
        cmocka_unit_test(test_chunks_are_no_larger),
        cmocka_unit_test(test_scalar_and_wrong_chunks),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_unusable_files),
        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_the_driver_is_like_hdf5_s),
        cmocka_unit_test(test_nothing_stays_open),
    };
    return cmocka_run_group_tests_name("h5io", tests, make_folder, remove_folder);
}
