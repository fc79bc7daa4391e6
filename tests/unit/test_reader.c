/* test_reader.c - operands are read wherever they are, and their hash does not depend on how they lie. */
#include "../../kernels/core/axes.h"
#include "../../runner/storage/h5/h5io.h"
#include "../../runner/storage/operand.h"
#include "../../runner/storage/random.h"
#include "../../runner/storage/raw/rawread.h"
#include "../../runner/storage/reader.h"
#include "scratch.h"

#include <string.h>
#include <xxhash.h>

/* The hash as reader.h defines it, computed plainly from values in memory (rows of `columns` elements). */
static void plain_hash(const char *data, int64_t rows, int64_t columns, int64_t size, char text[READER_HASH_TEXT]) {
    uint64_t low = 0, high = 0, number = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c += 1024, number++) {
            int64_t count = columns - c < 1024 ? columns - c : 1024;
            XXH128_hash_t hash = XXH3_128bits_withSeed(data + (r * columns + c) * size, (size_t)(count * size), number);
            high += hash.high64 + (low + hash.low64 < low);
            low += hash.low64;
        }
    snprintf(text, READER_HASH_TEXT, "%016llx%016llx", (unsigned long long)high, (unsigned long long)low);
}

/* An input: a data set, or a band of its rows. */
struct fixture {
    struct job_input input;
    struct array array;
    struct reader reader;
};

static void open_fixture(struct fixture *f, const char *path, const int64_t rows[2]) {
    struct error error = {.status = STATUS_OK};
    f->input = (struct job_input){.name = "x", .label = "", .file = (char *)path, .dataset = "/x"};
    assert_int_equal(array_describe(&f->input, &f->array, &error), STATUS_OK);
    if (rows) array_narrow(&f->array, 0, rows[0], rows[1]);
    reader_init(&f->reader, &f->array);
    assert_int_equal(reader_open(&f->reader, &error), STATUS_OK);
}

static void close_fixture(struct fixture *f) {
    reader_free(&f->reader);
    array_free(&f->array);
}

/* Stores `data` in the given layout, reads it back from there and returns its hash. */
static void stored_hash(enum dtype dtype, const struct shape *shape, const struct h5_layout *layout, const void *data,
                        char text[READER_HASH_TEXT]) {
    struct error error = {.status = STATUS_OK};
    store_array(in_folder("x.h5"), dtype, shape, layout, data);
    struct fixture f;
    open_fixture(&f, in_folder("x.h5"), NULL);
    assert_int_equal(reader_hash(&f.reader, &error), STATUS_OK);
    memcpy(text, f.reader.hash, READER_HASH_TEXT);
    close_fixture(&f);
}

static void test_hash_is_as_defined(void **state) {
    static const struct {
        enum dtype dtype;
        struct shape shape;
        struct shape chunks[3];
    } cases[] = {
        {FLOAT32, {2, {300, 2500}}, {{0, {0}}, {2, {7, 1000}}, {2, {300, 1}}}},
        {INT8, {1, {5001}}, {{0, {0}}, {1, {1000}}, {1, {5001}}}},
        {UINT16, {3, {5, 70, 1025}}, {{0, {0}}, {3, {2, 70, 100}}, {3, {5, 1, 1025}}}},
        {FLOAT64, {2, {1, 3000000}}, {{0, {0}}, {2, {1, 999}}, {2, {1, 100000}}}}, /* a row beyond one band */
        {FLOAT64, {3, {1030, 2048, 1}}, {{0, {0}}, {3, {1030, 16, 1}}, {3, {1, 2048, 1}}}},
        {INT16, {1, {3072}}, {{0, {0}}, {1, {1000}}, {1, {1024}}}}, /* whole segments */
        {FLOAT32, {2, {300, 2048}}, {{0, {0}}, {2, {7, 1000}}, {2, {300, 1}}}},
        {INT32, {2, {0, 17}}, {{0, {0}}, {0, {0}}, {0, {0}}}},
        {INT32, {2, {17, 0}}, {{0, {0}}, {0, {0}}, {0, {0}}}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int64_t elements = shape_elements(&cases[c].shape), size = (int64_t)dtype_size(cases[c].dtype);
        int64_t columns = cases[c].shape.size[cases[c].shape.rank - 1];
        char expected[READER_HASH_TEXT], found[READER_HASH_TEXT], *data = malloc((size_t)(elements * size) + 1);
        for (int64_t i = 0; i < elements * size; i++) data[i] = (char)(i * 31 + i / 977);
        plain_hash(data, elements ? elements / columns : 0, columns, size, expected);
        for (int l = 0; l < 3; l++) {
            struct h5_layout layout = {.chunk = cases[c].chunks[l], .fletcher32 = l > 0};
            stored_hash(cases[c].dtype, &cases[c].shape, &layout, data, found);
            assert_string_equal(found, expected);
        }
        free(data);
    }
}

static void test_hash_sees_place(void **state) {
    int32_t values[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}}, swapped[2][4] = {{5, 6, 7, 8}, {1, 2, 3, 4}};
    struct shape shape = {2, {2, 4}};
    struct h5_layout layout = {.level = 0};
    char one[READER_HASH_TEXT], other[READER_HASH_TEXT];
    stored_hash(INT32, &shape, &layout, values, one);
    stored_hash(INT32, &shape, &layout, swapped, other);
    assert_string_not_equal(one, other);
}

/* Boxes in any order give the hash, if all are cut at segments; after one that is not, whatever comes, there is none.
 */
static void test_hash_of_boxes(void **state) {
    enum { ROWS = 4, COLUMNS = 3 * READER_SEGMENT + 1 };
    static const struct {
        struct box boxes[5];
        bool hashed;
    } cases[] = {
        {{{2, {0, 0}, {4, COLUMNS}}}, true},
        {{{2, {2, 0}, {2, COLUMNS}}, {2, {0, 2048}, {2, 1025}}, {2, {0, 0}, {2, 2048}}}, true},
        {{{2, {2, 0}, {2, COLUMNS}}, {2, {0, 2048}, {2, 1025}}, {2, {0, 0}, {1, 2048}}}, false}, /* a row is missing */
        {{{2, {0, 0}, {4, 1023}}, {2, {0, 1023}, {4, COLUMNS - 1023}}}, false},
        {{{2, {0, 0}, {4, 1025}}, {2, {0, 1025}, {4, COLUMNS - 1025}}}, false},
        {{{2, {0, 0}, {1, 1}}, {2, {0, 0}, {4, COLUMNS}}, {2, {3, 3072}, {1, 1}}}, false}, /* as many elements */
        {{{2, {1, 1}, {0, 5}}, {2, {0, 0}, {4, COLUMNS}}, {2, {0, 3072}, {1, 1}}}, false},
        {{{2, {0, 0}, {4, COLUMNS}}, {2, {4, 0}, {0, COLUMNS}}, {2, {0, 1024}, {4, 0}}}, true}, /* nothing more */
        {{{2, {0, 0}, {4, 1024}}, {2, {0, 1024}, {4, 0}}, {2, {0, 1024}, {4, COLUMNS - 1024}}}, true},
    };
    struct error error = {.status = STATUS_OK};
    struct shape shape = {2, {ROWS, COLUMNS}};
    int32_t *values = malloc(sizeof *values * ROWS * COLUMNS), *found = malloc(sizeof *found * ROWS * COLUMNS);
    char expected[READER_HASH_TEXT];
    for (int i = 0; i < ROWS * COLUMNS; i++) values[i] = i * 7;
    plain_hash((char *)values, ROWS, COLUMNS, sizeof *values, expected);
    for (int chunked = 0; chunked < 2; chunked++) {
        const struct h5_layout layout = {.chunk = {chunked ? 2 : 0, {3, 1000}}, .fletcher32 = chunked};
        store_array(in_folder("x.h5"), INT32, &shape, &layout, values);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            struct fixture f;
            open_fixture(&f, in_folder("x.h5"), NULL);
            reader_hash_begin(&f.reader);
            for (const struct box *box = cases[c].boxes; box < cases[c].boxes + 5 && box->rank; box++)
                assert_int_equal(reader_read_hashed(&f.reader, box, found, NULL, &error), STATUS_OK);
            reader_hash_end(&f.reader);
            assert_string_equal(f.reader.hash, cases[c].hashed ? expected : "");
            assert_int_equal(reader_hash(&f.reader, &error), STATUS_OK);
            assert_string_equal(f.reader.hash, expected);
            close_fixture(&f);
        }
    }
    free(found);
    free(values);
}

/* `rows: [2, 3]` of a file is an array of those rows, with the same values and the same hash. */
static void test_band_of_rows(void **state) {
    struct error error = {.status = STATUS_OK};
    int32_t values[6][2] = {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}}, back[3][2];
    struct shape shape = {2, {6, 2}}, band_shape = {2, {3, 2}};
    struct box whole = box_whole(&band_shape);
    struct h5_layout layout = {.level = 0};
    char path[64], ignored[READER_HASH_TEXT], expected[READER_HASH_TEXT];
    stored_hash(INT32, &band_shape, &layout, values[2], expected);
    stored_hash(INT32, &shape, &layout, values, ignored);
    snprintf(path, sizeof path, "%s/x.h5", folder);
    struct fixture f;
    open_fixture(&f, path, (int64_t[]){2, 3});
    assert_int_equal(reader_read(&f.reader, &whole, back, NULL, &error), STATUS_OK);
    assert_memory_equal(back, values[2], sizeof back);
    assert_int_equal(reader_hash(&f.reader, &error), STATUS_OK);
    assert_string_equal(f.reader.hash, expected);
    close_fixture(&f);
}

/* Of another type, and by HDF5: what the raw paths cannot read is converted in pieces. */
static void test_large_boxes_are_converted(void **state) {
    enum { ROWS = 311, COLUMNS = 601 }; /* nearly three pieces */
    struct error error = {.status = STATUS_OK};
    struct shape shape = {2, {ROWS, COLUMNS}};
    struct box most = {2, {1, 2}, {ROWS - 1, COLUMNS - 3}};
    double *values = malloc(sizeof(double) * ROWS * COLUMNS);
    float *found = malloc(sizeof(float) * (ROWS - 1) * (COLUMNS - 3));
    for (int i = 0; i < ROWS * COLUMNS; i++) values[i] = i + 0.25;
    store_array(in_folder("x.h5"), FLOAT64, &shape, &(struct h5_layout){.level = 0}, values);
    struct fixture f;
    open_fixture(&f, in_folder("x.h5"), NULL);
    rawread_close(&f.reader.raw);
    f.reader.raw = NULL;
    f.array.dtype = FLOAT32;
    assert_int_equal(reader_read(&f.reader, &most, found, NULL, &error), STATUS_OK);
    for (int row = 1, i = 0; row < ROWS; row++)
        for (int column = 2; column < COLUMNS - 1; column++, i++)
            assert_true(found[i] == (float)values[row * COLUMNS + column]);
    close_fixture(&f);
    free(found);
    free(values);
}

static void test_generated_and_missing(void **state) {
    struct error error = {.status = STATUS_OK};
    struct job_input input = {.random = true, .shape = {1, {100}}};
    input.terms = (struct random_terms){.distribution = RANDOM_UNIFORM, .high = 1, .seed = 7};
    struct array generated = {.name = "R", .label = "", .dtype = FLOAT32, .shape = {1, {100}}, .from_job = &input};
    struct array result = {.name = "total", .label = "", .dtype = FLOAT32, .shape = {1, {100}}};
    struct box box = {1, {10}, {20}};
    float expected[20], found[20];
    random_fill(&input.terms, &generated.shape, FLOAT32, &box, expected);
    struct reader generator, missing;
    reader_init(&generator, &generated);
    reader_init(&missing, &result);
    assert_int_equal(reader_read(&generator, &box, found, NULL, &error), STATUS_OK);
    assert_memory_equal(found, expected, sizeof found);
    assert_int_equal(reader_read(&missing, &box, found, NULL, &error), STATUS_IO);
    assert_non_null(strstr(error.text, "'total'"));
}

/* Chunks of an array of 6 x 10 x 7 along the axes of an operand of 60 x 7. */
static void test_chunks_of_merged_axes(void **state) {
    static const struct {
        struct shape chunk;
        int64_t shift[3], grain[2], moved[2]; /* grain 0: nowhere that matters */
    } cases[] = {{{3, {2, 10, 7}}, {1, 0, 0}, {20, 7}, {10, 0}},
                 {{3, {1, 4, 7}}, {0, 3, 0}, {4, 7}, {3, 0}},
                 {{3, {1, 1, 5}}, {0, 0, 2}, {1, 5}, {0, 2}},
                 {{3, {3, 2, 2}}, {2, 1, 1}, {30, 2}, {20, 1}},
                 {{0}, {0}, {0}, {0}}};
    struct operand operand = {.dtype = FLOAT64};
    axes_begin(&operand.axes);
    axes_append(&operand.axes, 6, 0);
    axes_append(&operand.axes, 10, 1);
    axes_begin(&operand.axes);
    axes_append(&operand.axes, 7, 2);
    operand.shape = axes_merged_shape(&operand.axes);
    operand.axes.array_rank = 3;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t shift[MAX_RANK] = {0};
        memcpy(shift, cases[i].shift, sizeof cases[i].shift);
        struct shape grain = operand_grain(&operand, &cases[i].chunk, shift);
        assert_int_equal(grain.rank, cases[i].grain[0] ? 2 : 0);
        if (grain.rank == 0) continue;
        assert_memory_equal(grain.size, cases[i].grain, sizeof cases[i].grain);
        assert_memory_equal(shift, cases[i].moved, sizeof cases[i].moved);
    }
}

/* An array of 100 x 360 x 720 whose axes the operand reverses: without chunks, runs of it are whole. */
static void test_chunks_of_reversed_axes(void **state) {
    static const struct {
        struct shape chunk;
        int64_t shift[3], grain[3], moved[3];
    } cases[] = {{{3, {1, 360, 720}}, {5, 0, 0}, {720, 360, 1}, {0, 0, 5}}, {{0}, {0}, {720, 2, 1}, {0}}};
    struct operand operand = {.dtype = FLOAT32};
    for (int axis = 2; axis >= 0; axis--) {
        axes_begin(&operand.axes);
        axes_append(&operand.axes, (const int64_t[]){100, 360, 720}[axis], axis);
    }
    operand.shape = axes_merged_shape(&operand.axes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t shift[MAX_RANK] = {0};
        memcpy(shift, cases[i].shift, sizeof cases[i].shift);
        struct shape grain = operand_grain(&operand, &cases[i].chunk, shift);
        assert_int_equal(grain.rank, 3);
        assert_memory_equal(grain.size, cases[i].grain, sizeof cases[i].grain);
        assert_memory_equal(shift, cases[i].moved, sizeof cases[i].moved);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks_of_reversed_axes),
        cmocka_unit_test(test_chunks_of_merged_axes),
        cmocka_unit_test(test_hash_is_as_defined),
        cmocka_unit_test(test_hash_sees_place),
        cmocka_unit_test(test_hash_of_boxes),
        cmocka_unit_test(test_band_of_rows),
        cmocka_unit_test(test_large_boxes_are_converted),
        cmocka_unit_test(test_generated_and_missing),
    };
    return cmocka_run_group_tests_name("array", tests, make_folder, remove_folder);
}
