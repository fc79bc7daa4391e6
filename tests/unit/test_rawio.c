/* test_rawio.c - reading and writing without HDF5 gives what HDF5 reads and writes, in every layout, for any box. */
#include "../../runner/base/clock.h"
#include "../../runner/storage/elements/layout.h"
#include "../../runner/storage/h5/h5file.h"
#include "../../runner/storage/raw/rawread.h"
#include "../../runner/storage/raw/rawwrite.h"
#include "../../runner/storage/untrusted/h5open.h"
#include "scratch.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct error error;
static uint64_t seed = 1;

static int64_t draw(int64_t below) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((seed >> 33) % (uint64_t)below);
}

static struct box random_box(const struct shape *shape) {
    struct box box = {.rank = shape->rank};
    for (int axis = 0; axis < shape->rank; axis++) {
        box.start[axis] = draw(shape->size[axis]);
        box.count[axis] = 1 + draw(shape->size[axis] - box.start[axis]);
    }
    return box;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

enum { SHUFFLE = 1, DEFLATE = 2, FLETCHER = 4, FLETCHER_FIRST = 8, BIG = 16, HOLES = 32, CONTIGUOUS = 64, EDGES = 128 };

/* Creates /x with random values, many of them small so that they compress, with the properties in `how`, by HDF5
 * alone. */
static void make_file(const char *path, const struct shape *shape, const struct shape *chunk, hid_t type,
                      unsigned how) {
    hsize_t size[MAX_RANK], chunks[MAX_RANK], count[MAX_RANK];
    for (int axis = 0; axis < shape->rank; axis++) {
        size[axis] = (hsize_t)shape->size[axis];
        chunks[axis] = (hsize_t)chunk->size[axis];
        count[axis] = how & HOLES && axis == 0 ? (size[axis] + 1) / 2 : size[axis];
    }
    hid_t creation = H5Pcreate(H5P_DATASET_CREATE), stored = H5Tcopy(type);
    if (how & BIG) H5Tset_order(stored, H5T_ORDER_BE);
    if (!(how & CONTIGUOUS)) H5Pset_chunk(creation, shape->rank, chunks);
    int fill = 77;
    H5Pset_fill_value(creation, H5T_NATIVE_INT, &fill);
    if (how & FLETCHER_FIRST) H5Pset_fletcher32(creation);
    if (how & SHUFFLE) H5Pset_shuffle(creation);
    if (how & DEFLATE) H5Pset_deflate(creation, 4);
    if (how & FLETCHER) H5Pset_fletcher32(creation);
    if (how & EDGES) H5Pset_chunk_opts(creation, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    if (how & EDGES) H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    H5Pclose(access);
    hid_t space = H5Screate_simple(shape->rank, size, NULL), memory = H5Screate_simple(shape->rank, count, NULL);
    hid_t id = H5Dcreate2(file, "x", stored, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    assert_true(id >= 0);
    int64_t elements = shape_elements(shape);
    int *values = malloc((size_t)elements * sizeof *values);
    for (int64_t i = 0; i < elements; i++) values[i] = (int)draw(draw(4) ? 5 : 100);
    hsize_t start[MAX_RANK] = {0};
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    assert_true(H5Dwrite(id, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, values) >= 0);
    free(values);
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(id);
    H5Fclose(file);
    H5Tclose(stored);
    H5Pclose(creation);
}

/* Checks that many boxes read the same both ways. */
static void compare_reads(const char *path, bool expect_raw) {
    struct h5_dataset *dataset;
    struct rawread *raw;
    assert_int_equal(h5_open(path, "/x", &dataset, &error), STATUS_OK);
    raw = rawread_open(dataset);
    assert_int_equal(raw != NULL, expect_raw);
    size_t bytes = (size_t)shape_elements(&dataset->shape) * dtype_size(dataset->dtype);
    char *expected = malloc(bytes + 1), *found = malloc(bytes + 1);
    for (int i = 0; raw && i < 30; i++) {
        struct box box = i ? random_box(&dataset->shape) : box_whole(&dataset->shape);
        size_t length = (size_t)box_elements(&box) * dtype_size(dataset->dtype);
        memset(found, 0xEE, bytes + 1);
        assert_int_equal(h5_read(dataset, &box, expected, &error), STATUS_OK);
        assert_int_equal(rawread_read(raw, &box, found, &error), STATUS_OK);
        assert_memory_equal(found, expected, length);
        assert_int_equal((unsigned char)found[length], 0xEE);
    }
    free(expected);
    free(found);
    rawread_close(&raw);
    h5_close(&dataset);
}

static void every_layout_is_read_as_by_hdf5(void **state) {
    static const struct shape shapes[] = {{1, {1001}}, {2, {61, 83}}, {3, {5, 17, 29}}, {2, {1, 700}}, {2, {700, 1}}};
    static const struct shape chunks[] = {{1, {64}}, {2, {16, 83}}, {3, {2, 5, 7}}, {2, {1, 33}}, {2, {50, 1}}};
    static const unsigned hows[] = {
        0,
        SHUFFLE,
        DEFLATE,
        FLETCHER,
        SHUFFLE | DEFLATE,
        SHUFFLE | DEFLATE | FLETCHER,
        FLETCHER_FIRST | DEFLATE,
        FLETCHER_FIRST | SHUFFLE | DEFLATE | FLETCHER,
        CONTIGUOUS,
        SHUFFLE | DEFLATE | EDGES,
        DEFLATE | FLETCHER | EDGES,
    };
    const hid_t types[] = {H5T_STD_I8LE, H5T_STD_U16LE, H5T_IEEE_F32LE, H5T_IEEE_F64LE, H5T_STD_I64LE};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t h = 0; h < sizeof hows / sizeof *hows; h++)
            for (size_t t = 0; t < sizeof types / sizeof *types; t++)
                for (unsigned more = 0; more < 4; more++) {
                    unsigned how = hows[h] | (more & 1 ? BIG : 0) | (more & 2 ? HOLES : 0);
                    make_file(in_folder("x.h5"), &shapes[s], &chunks[s], types[t], how);
                    compare_reads(in_folder("x.h5"), true);
                }
}

/* Runs longer than one pread, and rows that are cut. */
static void large_extents_are_read(void **state) {
    struct shape shape = {2, {3, 700001}}, chunk = {2, {2, 300000}};
    make_file(in_folder("large.h5"), &shape, &chunk, H5T_IEEE_F64LE, CONTIGUOUS);
    compare_reads(in_folder("large.h5"), true);
    make_file(in_folder("large.h5"), &shape, &chunk, H5T_IEEE_F64LE, SHUFFLE | DEFLATE);
    compare_reads(in_folder("large.h5"), true);
}

/* A chunk that was written without some of its filters has them in its mask. */
static void masks_are_honoured(void **state) {
    struct shape shape = {1, {100}}, chunk = {1, {10}};
    make_file(in_folder("mask.h5"), &shape, &chunk, H5T_STD_I32LE, SHUFFLE | DEFLATE | FLETCHER);
    hid_t file = H5Fopen(in_folder("mask.h5"), H5F_ACC_RDWR, H5P_DEFAULT), id = H5Dopen2(file, "x", H5P_DEFAULT);
    int plain[10] = {5, 4, 3, 2, 1, 0, -1, -2, -3, -4};
    hsize_t corner = 20;
    assert_true(H5Dwrite_chunk(id, H5P_DEFAULT, 7, &corner, sizeof plain, plain) >= 0);
    H5Dclose(id);
    H5Fclose(file);
    compare_reads(in_folder("mask.h5"), true);
}

/* HDF5's own functions would take 10 s here, and four times as long for twice as many chunks. */
static void many_chunks_are_found_soon(void **state) {
    struct shape shape = {1, {160000}}, chunk = {1, {4}};
    make_file(in_folder("many.h5"), &shape, &chunk, H5T_STD_I16LE, SHUFFLE);
    struct h5_dataset *dataset;
    struct rawread *raw;
    int16_t *expected = malloc(160000 * sizeof *expected), *found = malloc(160000 * sizeof *found);
    struct box whole = box_whole(&shape);
    assert_int_equal(h5_open(in_folder("many.h5"), "/x", &dataset, &error), STATUS_OK);
    assert_int_equal(h5_read(dataset, &whole, expected, &error), STATUS_OK);
    raw = rawread_open(dataset);
    double begin = now_s();
    assert_int_equal(rawread_read(raw, &whole, found, &error), STATUS_OK);
    assert_true(now_s() - begin < 3);
    assert_memory_equal(found, expected, 160000 * sizeof *found);
    rawread_close(&raw);
    h5_close(&dataset);
    free(expected);
    free(found);
}

static void a_damaged_chunk_is_named(void **state) {
    struct shape shape = {2, {40, 40}}, chunk = {2, {10, 10}};
    const unsigned hows[] = {FLETCHER, DEFLATE};
    const char *const whys[] = {"fletcher32", "cannot be inflated"};
    for (int i = 0; i < 2; i++) {
        make_file(in_folder("hurt.h5"), &shape, &chunk, H5T_STD_I32LE, hows[i]);
        hid_t file = H5Fopen(in_folder("hurt.h5"), H5F_ACC_RDONLY, H5P_DEFAULT), id = H5Dopen2(file, "x", H5P_DEFAULT);
        hsize_t corner[2] = {20, 30}, bytes;
        haddr_t address;
        unsigned mask;
        assert_true(H5Dget_chunk_info_by_coord(id, corner, &mask, &address, &bytes) >= 0);
        H5Dclose(id);
        H5Fclose(file);
        int descriptor = open(in_folder("hurt.h5"), O_WRONLY);
        assert_int_equal(pwrite(descriptor, "\377\377\377\377\377\377\377\377", 8, (off_t)address), 8);
        close(descriptor);
        struct h5_dataset *dataset;
        struct rawread *raw;
        int32_t values[1600];
        assert_int_equal(h5_open(in_folder("hurt.h5"), "/x", &dataset, &error), STATUS_OK);
        raw = rawread_open(dataset);
        struct box whole = box_whole(&shape), beside = {2, {0, 0}, {20, 40}};
        assert_int_equal(rawread_read(raw, &beside, values, &error), STATUS_OK);
        assert_int_equal(rawread_read(raw, &whole, values, &error), STATUS_IO);
        assert_non_null(strstr(error.text, "hurt.h5: chunk at [20, 30] cannot be read"));
        assert_non_null(strstr(error.text, whys[i]));
        error = (struct error){.status = STATUS_OK};
        rawread_close(&raw);
        h5_close(&dataset);
    }
}

static void what_is_unusual_is_left_to_hdf5(void **state) {
    hsize_t size = 100, chunk = 10;
    int values[100] = {1, 2, 3};
    for (int which = 0; which < 3; which++) {
        hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
        if (which == 0) H5Pset_layout(creation, H5D_COMPACT);
        if (which == 1) H5Pset_external(creation, in_folder("values.raw"), 0, H5F_UNLIMITED);
        if (which == 2) {
            H5Pset_chunk(creation, 1, &chunk);
            H5Pset_scaleoffset(creation, H5Z_SO_INT, 0);
        }
        hid_t file = H5Fcreate(in_folder("odd.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        hid_t space = H5Screate_simple(1, &size, NULL);
        hid_t id = H5Dcreate2(file, "x", H5T_STD_I32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
        assert_true(H5Dwrite(id, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
        H5Dclose(id);
        H5Sclose(space);
        H5Fclose(file);
        H5Pclose(creation);
        compare_reads(in_folder("odd.h5"), false);
    }
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Writes /x in a grid of boxes and reads it back by HDF5. */
static void write_and_compare(const struct shape *shape, const struct h5_layout *layout, const struct shape *tile) {
    hid_t file;
    struct h5_dataset *dataset;
    struct rawwrite *raw;
    int64_t elements = shape_elements(shape);
    float *values = malloc((size_t)elements * sizeof *values), *back = malloc((size_t)elements * sizeof *back);
    float *box_values = malloc((size_t)elements * sizeof *box_values);
    for (int64_t i = 0; i < elements; i++) values[i] = (float)draw(draw(4) ? 5 : 100000);
    assert_int_equal(h5_create_file(in_folder("out.h5"), &file, &error), STATUS_OK);
    assert_int_equal(h5_create(file, "/x", FLOAT32, shape, layout, &dataset, &error), STATUS_OK);
    assert_int_equal(rawwrite_open(dataset, draw(2) << 20, &raw, &error), STATUS_OK);
    assert_non_null(raw);
    const struct write_source source = {box_values, FLOAT32, NULL};
    struct box whole = box_whole(shape);
    struct selection all = selection_of_box(&whole);
    struct chunk_cells cells = layout_cells(&all, shape, tile);
    for (int64_t number = cells.count - 1; number >= 0; number--) { /* backwards, because any order must work */
        struct chunk_cell cell = layout_cell(&cells, number);
        struct box box = {.rank = shape->rank};
        memcpy(box.start, cell.corner, sizeof box.start);
        memcpy(box.count, cell.count, sizeof box.count);
        struct selection selection = selection_of_box(&box);
        struct rows rows = layout_rows(&selection, shape, true, box_elements(&box));
        for (int64_t row = 0; row < rows.walk.rows; row++) {
            int64_t from, to;
            layout_row(&rows.walk, row, &from, &to);
            memcpy(box_values + to, values + from, (size_t)rows.walk.length * sizeof *values);
        }
        assert_int_equal(rawwrite_write(raw, &box, &source, NULL, &error), STATUS_OK);
    }
    struct rawread *readback; /* as verification reads, before the end */
    for (int by_hdf5 = draw(2) != 0, i = 0; i < 2; i++, by_hdf5 = !by_hdf5) {
        memset(back, 0xEE, (size_t)elements * sizeof *back);
        if (by_hdf5) {
            assert_int_equal(h5_read(dataset, &whole, back, &error), STATUS_OK);
        } else {
            assert_int_equal(h5_flush(dataset, &error), STATUS_OK);
            readback = rawread_open(dataset);
            assert_non_null(readback);
            assert_int_equal(rawread_read(readback, &whole, back, &error), STATUS_OK);
            rawread_close(&readback);
        }
        assert_memory_equal(back, values, (size_t)elements * sizeof *back);
    }
    rawwrite_close(&raw);
    h5_close(&dataset);
    assert_int_equal(h5_close_file(file, &error), STATUS_OK);
    memset(back, 0xEE, (size_t)elements * sizeof *back);
    assert_int_equal(h5_open(in_folder("out.h5"), "/x", &dataset, &error), STATUS_OK);
    assert_int_equal(h5_read(dataset, &whole, back, &error), STATUS_OK);
    assert_memory_equal(back, values, (size_t)elements * sizeof *back);
    h5_close(&dataset);
    compare_reads(in_folder("out.h5"), true);
    free(values);
    free(back);
    free(box_values);
}

/* What is encoded at once, not read and changed: at the edge of the data set the chunk's remainder, too. */
static void whole_chunks_are_known(void **state) {
    const struct shape shape = {2, {5, 10}}, chunk = {2, {4, 4}};
    const struct box boxes[] = {{2, {0, 0}, {5, 10}}, {2, {3, 0}, {2, 9}}};
    static const bool whole[][6] = {{true, true, true, true, true, true}, {false, false, false, true, true, false}};
    for (int b = 0; b < 2; b++) {
        struct selection selection = selection_of_box(&boxes[b]);
        struct chunk_cells cells = layout_cells(&selection, &shape, &chunk);
        assert_int_equal(cells.count, 6);
        for (int number = 0; number < 6; number++)
            assert_int_equal(layout_cell(&cells, number).covers_chunk, whole[b][number]);
    }
}

static void every_layout_is_written_as_by_hdf5(void **state) {
    static const struct shape shapes[] = {{1, {1001}}, {2, {61, 83}}, {3, {5, 17, 29}}};
    static const struct shape chunks[] = {{1, {64}}, {2, {16, 20}}, {3, {2, 5, 7}}};
    /* Tiles that are whole chunks, parts of chunks, rows, everything. */
    static const struct shape tiles[][4] = {{{1, {128}}, {1, {50}}, {1, {1}}, {1, {1001}}},
                                            {{2, {32, 40}}, {2, {10, 33}}, {2, {1, 83}}, {2, {61, 83}}},
                                            {{3, {2, 10, 14}}, {3, {1, 4, 29}}, {3, {5, 1, 3}}, {3, {5, 17, 29}}}};
    for (int s = 0; s < 3; s++)
        for (int t = 0; t < 4; t++)
            for (unsigned filters = 0; filters < 17; filters++) {
                struct h5_layout layout = {.chunk = chunks[s], .compression = filters % 4, .level = 4};
                layout.shuffle = filters & 4;
                layout.fletcher32 = filters & 8;
                if (h5_compression_needs(layout.compression)) continue;
                if (filters == 16) layout = (struct h5_layout){.level = 0}; /* contiguous */
                write_and_compare(&shapes[s], &layout, &tiles[s][t]);
            }
}

/* Lets the process have that many bytes more than it has; -1: as many as it likes. */
static void limit_memory(int64_t more) {
    static struct rlimit before;
    long long pages = 0;
    if (more < 0) {
        assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
        return;
    }
    FILE *from = fopen("/proc/self/statm", "r");
    assert_non_null(from);
    assert_int_equal(fscanf(from, "%lld", &pages), 1); // NOLINT(cert-err34-c): the kernel's own number
    fclose(from);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    struct rlimit now = {(rlim_t)(pages * sysconf(_SC_PAGESIZE) + more), before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &now), 0);
}

/* Chunks of 64 MiB that there is no room to encode, whole or in part. */
static void missing_memory_is_a_failure(void **state) {
#ifdef __SANITIZE_ADDRESS__
    skip(); /* it needs memory of its own */
#endif
    const struct shape shape = {2, {32768, 1024}};
    const struct h5_layout layout = {.chunk = {2, {16384, 1024}}, .compression = COMPRESSION_GZIP, .level = 1};
    float *values = calloc(16384 * 1024, sizeof *values); /* its pages are never written */
    const struct write_source source = {values, FLOAT32, NULL};
    for (int part = 0; part < 2; part++) {
        hid_t file;
        struct h5_dataset *dataset;
        struct rawwrite *raw;
        const struct box box = {2, {part ? 100 : 16384, 0}, {part ? 16000 : 16384, 1024}};
        assert_int_equal(h5_create_file(in_folder("out.h5"), &file, &error), STATUS_OK);
        assert_int_equal(h5_create(file, "/x", FLOAT32, &shape, &layout, &dataset, &error), STATUS_OK);
        assert_int_equal(rawwrite_open(dataset, 0, &raw, &error), STATUS_OK);
        assert_non_null(raw);
        limit_memory(24 << 20);
        enum status status = rawwrite_write(raw, &box, &source, NULL, &error);
        limit_memory(-1);
        assert_int_equal(status, STATUS_IO);
        assert_non_null(strstr(error.text, "Cannot allocate memory"));
        error = (struct error){.status = STATUS_OK};
        rawwrite_close(&raw);
        h5_close(&dataset);
        h5_close_file(file, &error);
        error = (struct error){.status = STATUS_OK};
    }
    free(values);
}

/* HDF5 has to decode a chunk of which a part is written, and says why it cannot; since 1.14.4, which lets no filter
 * speak for itself, only that it cannot. */
static void a_damaged_chunk_cannot_be_changed(void **state) {
    const struct shape shape = {2, {40, 40}};
    const struct box whole = box_whole(&shape), part = {2, {15, 5}, {20, 30}};
    const struct h5_layout layouts[] = {{.chunk = {2, {10, 10}}, .compression = COMPRESSION_GZIP, .level = 1},
                                        {.chunk = {2, {10, 10}}, .fletcher32 = true}};
#if H5_VERSION_GE(1, 14, 4)
    const char *const whys[] = {"filter returned failure during read", "filter returned failure during read"};
#else
    const char *const whys[] = {"inflate() failed", "data error detected by Fletcher32 checksum"};
#endif
    const hsize_t corner[2] = {30, 20};
    float values[1600] = {1};
    const struct write_source source = {values, FLOAT32, NULL};
    for (int i = 0; i < 2; i++) {
        hid_t file;
        struct h5_dataset *dataset;
        struct rawwrite *raw;
        struct h5_chunk_location place;
        assert_int_equal(h5_create_file(in_folder("hurt.h5"), &file, &error), STATUS_OK);
        assert_int_equal(h5_create(file, "/x", FLOAT32, &shape, &layouts[i], &dataset, &error), STATUS_OK);
        assert_int_equal(rawwrite_open(dataset, 0, &raw, &error), STATUS_OK);
        assert_int_equal(rawwrite_write(raw, &whole, &source, NULL, &error), STATUS_OK);
        assert_int_equal(h5_find_chunk(dataset->id, corner, &place, &error), STATUS_OK);
        int descriptor = h5_descriptor(dataset->id, NULL);
        assert_int_equal(pwrite(descriptor, "\377\377\377\377\377\377\377\377", 8, (off_t)place.address), 8);
        assert_int_equal(rawwrite_write(raw, &part, &source, NULL, &error), STATUS_IO);
        if (!strstr(error.text, whys[i])) fail_msg("%s", error.text);
        error = (struct error){.status = STATUS_OK};
        rawwrite_close(&raw);
        h5_close(&dataset);
        h5_close_file(file, &error);
        error = (struct error){.status = STATUS_OK};
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_is_read_as_by_hdf5),
        cmocka_unit_test(large_extents_are_read),
        cmocka_unit_test(masks_are_honoured),
        cmocka_unit_test(many_chunks_are_found_soon),
        cmocka_unit_test(a_damaged_chunk_is_named),
        cmocka_unit_test(what_is_unusual_is_left_to_hdf5),
        cmocka_unit_test(whole_chunks_are_known),
        cmocka_unit_test(every_layout_is_written_as_by_hdf5),
        cmocka_unit_test(missing_memory_is_a_failure),
        cmocka_unit_test(a_damaged_chunk_cannot_be_changed),
    };
    return cmocka_run_group_tests_name("rawio", tests, make_folder, remove_folder);
}
