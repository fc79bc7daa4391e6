/* array.c - operands wherever they are, and their hash. */
#include "array.h"

#include "../../kernels/core/cut.h"

#include "../base/fail.h"
#include "../base/interrupt.h"
#include "../base/workers.h"
#include "random.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { SEGMENT = ARRAY_SEGMENT, GROUP = 128, BAND_BYTES = 16 << 20 };

/* ---- opening and closing ---- */

void array_place(struct array *array, const char *file, const char *object) {
    array_close(array);
    free(array->file);
    free(array->object);
    array->file = must_strdup(file);
    array->object = must_strdup(object);
    array->version.st_ino = 0;
}

/* The same file, and nothing written to it? */
static bool same_version(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static enum status fail_changed(const struct array *array, struct error *error) {
    return fail(error, STATUS_IO, "%s: was changed while the job ran; `--resume` reads it anew", array->file);
}

enum status array_check(const struct array *array, struct error *error) {
    struct stat now;
    if (!array->dataset || !array->file || stat(array->file, &now) != 0) return STATUS_OK;
    /* Another file of that name is no matter: the one that is open stays what it was. */
    if (now.st_dev != array->version.st_dev || now.st_ino != array->version.st_ino) return STATUS_OK;
    return same_version(&now, &array->version) ? STATUS_OK : fail_changed(array, error);
}

/* What the first opening tells. */
static void learn(struct array *array, const struct stat *version) {
    array->version = *version;
    array->chunk = array->dataset->chunk;
    array->filtered = array->dataset->filtered;
    array->direct = array->raw != NULL;
    if (!array->units && array->input) array->units = h5_get_units(array->dataset->id);
}

enum status array_open(struct array *array, struct error *error) {
    if (array->dataset || !array->file) return array_check(array, error);
    struct stat version = {.st_ino = 0};
    bool first = array->version.st_ino == 0;
    stat(array->file, &version); /* h5_open says best why not */
    enum status status = h5_open(array->file, array->object, &array->dataset, error);
    if (!status) status = rawread_open(array->dataset, &array->raw, error);
    if (!status && !first && !same_version(&version, &array->version)) status = fail_changed(array, error);
    if (!status && first) learn(array, &version);
    if (status) array_close(array);
    if (status && !(first && array->input)) error->status = status = STATUS_IO; /* it was there a moment ago */
    return status;
}

void array_close(struct array *array) {
    rawread_close(array->raw);
    h5_close(array->dataset);
    array->raw = NULL;
    array->dataset = NULL;
}

void array_free(struct array *array) {
    array_close(array);
    free(array->file);
    free(array->object);
    free(array->units);
    array->file = array->object = array->units = NULL;
}

void arrays_close_idle(struct array *arrays, int count, int task) {
    int open = 0;
    for (int i = 0; i < count; i++) {
        if (arrays[i].last_reader < task) array_close(&arrays[i]);
        open += arrays[i].dataset != NULL;
    }
    for (int i = 0; i < count && open > ARRAYS_OPEN; i++) array_close(&arrays[i]);
}

/* ---- reading and hashing ---- */

enum status array_read(struct array *array, const struct box *box, void *data, struct trace *trace,
                       struct error *error) {
    TRY(interrupt_check(error));
    if (array->input && array->input->random) {
        random_fill(&array->input->terms, &array->shape, array->dtype, box, data);
        return STATUS_OK;
    }
    if (!array->dataset) return fail(error, STATUS_IO, "the result of '%s' was not stored", array->name);
    struct box in_file = *box;
    in_file.start[0] += array->first_row;
    if (array->raw) return rawread_read(array->raw, &in_file, data, NULL, trace, error);
    return h5_read(array->dataset, &in_file, data, error);
}

/* Sums modulo 2^128 do not care for order: boxes and threads may come as they like. */
static void add(XXH128_hash_t *sum, XXH128_hash_t term) {
    uint64_t low = sum->low64 + term.low64;
    sum->high64 += term.high64 + (low < term.low64);
    sum->low64 = low;
}

static int64_t at_most(int64_t value, int64_t bound) {
    return value < bound ? value : bound;
}

/* The segments of a box, which begins at a multiple of SEGMENT along the last axis, hashed in groups. */
struct hashing {
    const struct array *array;
    const struct box *box;
    const char *data;
    int64_t rows, columns; /* of the box */
    int64_t in_row;        /* segments in a row of the box */
    XXH128_hash_t *sums;   /* by thread */
};

static void hash_group(void *context, int64_t group, int thread) {
    const struct hashing *hashing = context;
    const struct box *box = hashing->box;
    const int64_t *extent = hashing->array->shape.size;
    int last = box->rank - 1;
    int64_t columns = hashing->columns, size = (int64_t)dtype_size(hashing->array->dtype);
    int64_t matrix_rows = box->rank == 3 ? box->count[1] : hashing->rows;
    int64_t segments_in_row = (extent[last] + SEGMENT - 1) / SEGMENT;
    int64_t end = at_most((group + 1) * GROUP, hashing->rows * hashing->in_row);
    for (int64_t i = group * GROUP; i < end; i++) {
        int64_t r = i / hashing->in_row, c = i % hashing->in_row * SEGMENT, row = 0; /* row: of the whole array */
        if (box->rank == 2) row = box->start[0] + r;
        if (box->rank == 3) row = (box->start[0] + r / matrix_rows) * extent[1] + box->start[1] + r % matrix_rows;
        int64_t number = row * segments_in_row + (box->start[last] + c) / SEGMENT;
        add(&hashing->sums[thread],
            XXH3_128bits_withSeed(hashing->data + (r * columns + c) * size,
                                  (size_t)(at_most(SEGMENT, columns - c) * size), (XXH64_hash_t)number));
    }
}

static XXH128_hash_t *new_sums(void) {
    size_t bytes = (size_t)workers_count() * sizeof(XXH128_hash_t);
    return memset(must_malloc(bytes), 0, bytes);
}

/* Adds what the threads have, of so many elements, and frees it. */
static void take_sums(struct array *array, XXH128_hash_t *sums, int64_t elements) {
    XXH128_hash_t sum = {array->hash_low, array->hash_high};
    for (int i = 0; i < workers_count(); i++) add(&sum, sums[i]);
    array->hash_low = sum.low64;
    array->hash_high = sum.high64;
    array->hashed += elements;
    free(sums);
}

static bool box_is_whole_segments(const struct array *array, const struct box *box) {
    int last = box->rank - 1;
    int64_t end = box->start[last] + box->count[last];
    return box->start[last] % SEGMENT == 0 && (end % SEGMENT == 0 || end == array->shape.size[last]);
}

bool array_hash_missing(const struct array *array) {
    return (array->dataset || array->file) && array->hash[0] == '\0';
}

void array_hash_begin(struct array *array) {
    array->hash_low = array->hash_high = 0;
    array->hashed = 0;
}

void array_hash_box(struct array *array, const struct box *box, const void *data) {
    if (!box_is_whole_segments(array, box)) array->hashed = -1;
    if (array->hashed < 0 || box_elements(box) == 0) return;
    int64_t columns = box->count[box->rank - 1], in_row = (columns + SEGMENT - 1) / SEGMENT;
    struct hashing hashing = {array, box, data, box_elements(box) / columns, columns, in_row, new_sums()};
    workers_run((hashing.rows * in_row + GROUP - 1) / GROUP, hash_group, &hashing);
    take_sums(array, hashing.sums, box_elements(box));
}

void array_hash_end(struct array *array) {
    if (array->hashed != shape_elements(&array->shape)) return;
    snprintf(array->hash, sizeof array->hash, "%016llx%016llx", (unsigned long long)array->hash_high,
             (unsigned long long)array->hash_low);
}

/* Whole segments, one after another, of rows that are whole segments: segment numbers simply count. */
struct run_hashing {
    const struct array *array;
    XXH128_hash_t *sums; /* by thread */
};

static void hash_run(void *context, int thread, int64_t first, int64_t elements, const void *data) {
    const struct run_hashing *hashing = context;
    const struct array *array = hashing->array;
    int64_t before = array->first_row, size = (int64_t)dtype_size(array->dtype); /* elements before the band */
    for (int axis = 1; axis < array->shape.rank; axis++) before *= array->shape.size[axis];
    for (int64_t done = 0; done < elements; done += SEGMENT)
        add(&hashing->sums[thread],
            XXH3_128bits_withSeed((const char *)data + done * size, (size_t)(at_most(SEGMENT, elements - done) * size),
                                  (XXH64_hash_t)((first - before + done) / SEGMENT)));
}

enum status array_read_hashed(struct array *array, const struct box *box, void *data, struct trace *trace,
                              struct error *error) {
    TRY(interrupt_check(error));
    int last = box->rank - 1;
    bool counts = box->rank == 1 || array->shape.size[last] % SEGMENT == 0;
    bool at_once = array->raw && rawread_is_contiguous(array->raw) && counts && array->hashed >= 0 &&
                   box_is_whole_segments(array, box);
    if (!at_once) {
        TRY(array_read(array, box, data, trace, error));
        array_hash_box(array, box, data);
        return STATUS_OK;
    }
    struct run_hashing hashing = {.array = array, .sums = new_sums()};
    struct rawread_visitor visitor = {hash_run, &hashing};
    struct box in_file = *box;
    in_file.start[0] += array->first_row;
    enum status status = rawread_read(array->raw, &in_file, data, &visitor, trace, error);
    take_sums(array, hashing.sums, box_elements(box));
    return status;
}

enum status array_hash(struct array *array, struct error *error) {
    if (!array_hash_missing(array)) return STATUS_OK;
    bool opened = !array->dataset;
    TRY(array_open(array, error));
    int64_t size = (int64_t)dtype_size(array->dtype);
    int last = array->shape.rank - 1;
    struct shape grid = array->dataset->chunk;
    if (grid.rank == 0) grid = (struct shape){array->shape.rank, {1, 1, 1}};
    grid.size[last] = (grid.size[last] + SEGMENT - 1) / SEGMENT * SEGMENT;
    int64_t chunk = array->dataset->filtered ? shape_elements(&array->dataset->chunk) : 1, limit = BAND_BYTES / size;
    if (chunk > limit) limit = chunk;
    struct box whole = box_whole(&array->shape);
    struct cut cut = cut_box(&whole, &(struct grid){.grain = grid, .shift = array->first_row}, limit);
    void *data = malloc((size_t)(limit * size));
    if (!data) {
        if (opened) array_close(array);
        return fail(error, STATUS_IO, "no memory left to hash input '%s'", array->name);
    }
    enum status status = STATUS_OK;
    array_hash_begin(array);
    for (int64_t number = 0; number < cut.pieces && !status; number++) {
        struct box piece = cut_piece(&cut, number);
        status = array_read_hashed(array, &piece, data, NULL, error);
    }
    free(data);
    if (!status) status = array_check(array, error);
    if (!status) array_hash_end(array);
    if (opened) array_close(array);
    return status;
}
