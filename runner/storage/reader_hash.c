/* reader_hash.c - computes the hash of an array's values, a sum over its segments (reader.h), and the hashes of its
 * bands; opens and checks readers: if a file was written while the job ran, the hash decides whether it still holds the
 * values that were read. */
#include "reader.h"

#include "../../kernels/core/cpu.h"
#include "../../kernels/core/cut.h"

#include "../base/fail.h"
#include "../base/interrupt.h"
#include "../base/workers.h"
#include "raw/rawread.h"
#include "untrusted/fence.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum {
    SEGMENT = READER_SEGMENT,
    GROUP = 128,           /* segments that a worker hashes at a time */
    BAND_BYTES = 16 << 20, /* bytes that reader_hash reads at a time, unless a chunk is larger */
    ROW_BYTES = 64 << 20   /* the same, of filtered chunks that make up whole segments */
};

#define MAX_REHASHES 4 /* of a file that is written again and again */

/* ---- the hash ---------------------------------------------------------------------------------------------------- */

/* Adds a term to a sum modulo 2^128, which does not depend on the order of boxes and threads. */
static void hash_add(XXH128_hash_t *sum, XXH128_hash_t term) {
    uint64_t low = sum->low64 + term.low64;
    sum->high64 += term.high64 + (low < term.low64);
    sum->low64 = low;
}

/* Does the band consist of whole segments of its array? */
static bool band_is_whole_segments(const struct array *array) {
    const struct array_band *band = &array->band;
    int last = array->shape.rank - 1;
    int64_t end = band->first + array->shape.size[last];
    return band->axis < last ||
           (band->first % SEGMENT == 0 && (end % SEGMENT == 0 || end == band->input->shape.size[last]));
}

/* Returns the shape whose segments number those of the array: its own, or for a band of complete segments that of the
 * complete input. `origin`: the position of the array in that shape. */
static const struct shape *numbering_of(const struct array *array, int64_t origin[MAX_RANK]) {
    memset(origin, 0, MAX_RANK * sizeof *origin);
    if (!array->band.input || !band_is_whole_segments(array)) return &array->shape;
    origin[array->band.axis] = array->band.first;
    return &array->band.input->shape;
}

/* The segments of a box, which begins at a multiple of SEGMENT along the last axis. */
struct hashing {
    const struct array *array;
    const struct box *box;
    const char *data;
    int64_t rows, columns; /* extent of the box */
    int64_t in_row;        /* segments in one row of the box */
    XXH128_hash_t *sums;   /* one for each thread */
};

/* Hashes GROUP segments of the box, each with its number in the whole array as seed. */
static void hash_group(void *context, int64_t group, int thread) {
    const struct hashing *hashing = context;
    const struct box *box = hashing->box;
    int64_t origin[MAX_RANK];
    const int64_t *extent = numbering_of(hashing->array, origin)->size;
    int last = box->rank - 1;
    int64_t columns = hashing->columns, size = (int64_t)dtype_size(hashing->array->dtype);
    int64_t segments_in_row = (extent[last] + SEGMENT - 1) / SEGMENT;
    int64_t end = min_int64((group + 1) * GROUP, hashing->rows * hashing->in_row);
    for (int64_t i = group * GROUP; i < end; i++) {
        int64_t row_of_box = i / hashing->in_row, column = i % hashing->in_row * SEGMENT;
        int64_t row = 0; /* row number in the whole array */
        for (int64_t axis = last - 1, row_rest = row_of_box, rows = 1; axis >= 0; rows *= extent[axis--]) {
            row += (origin[axis] + box->start[axis] + row_rest % box->count[axis]) * rows;
            row_rest /= box->count[axis];
        }
        int64_t number = row * segments_in_row + (origin[last] + box->start[last] + column) / SEGMENT;
        hash_add(&hashing->sums[thread],
                 XXH3_128bits_withSeed(hashing->data + (row_of_box * columns + column) * size,
                                       (size_t)(min_int64(SEGMENT, columns - column) * size), (XXH64_hash_t)number));
    }
}

/* A sum for each thread, all 0; add_sums frees them. */
static XXH128_hash_t *new_sums(void) {
    return must_zeroed((size_t)workers_count() * sizeof(XXH128_hash_t));
}

/* Adds the sums of all threads, which cover `elements` elements, to the hash, and frees them. */
static void add_sums(struct reader *reader, XXH128_hash_t *sums, int64_t elements) {
    XXH128_hash_t sum = {reader->hash_low, reader->hash_high};
    for (int i = 0; i < workers_count(); i++) hash_add(&sum, sums[i]);
    reader->hash_low = sum.low64;
    reader->hash_high = sum.high64;
    reader->hashed += elements;
    free(sums);
}

/* Does the box, which has an axis, consist of whole segments? */
static bool box_is_whole_segments(const struct reader *reader, const struct box *box) {
    int last = box->rank - 1;
    int64_t end = box->start[last] + box->count[last];
    return box->start[last] % SEGMENT == 0 && (end % SEGMENT == 0 || end == reader->array->shape.size[last]);
}

bool reader_needs_hash(const struct reader *reader) {
    return reader->array->from_job && (reader->file || reader->pieces) && reader->hash[0] == '\0';
}

void reader_hash_begin(struct reader *reader) {
    reader->hash_low = reader->hash_high = 0;
    reader->hashed = 0;
}

/* Adds a packed box to the hash; reader->hashed becomes -1 if the box has parts of segments. */
static void hash_box(struct reader *reader, const struct box *box, const void *data) {
    static const struct box single = {1, {0}, {1}}; /* a number without axes is hashed as a vector */
    if (box->rank > 0 && !box_is_whole_segments(reader, box)) reader->hashed = -1;
    if (reader->hashed < 0 || box_elements(box) == 0) return;
    if (box->rank == 0) box = &single;
    int64_t columns = box->count[box->rank - 1], in_row = (columns + SEGMENT - 1) / SEGMENT;
    struct hashing hashing = {reader->array, box, data, box_elements(box) / columns, columns, in_row, new_sums()};
    workers_run((hashing.rows * in_row + GROUP - 1) / GROUP, hash_group, &hashing);
    add_sums(reader, hashing.sums, box_elements(box));
}

void reader_hash_end(struct reader *reader) {
    if (reader->hashed == shape_elements(&reader->array->shape)) reader_hash_set(reader);
}

void reader_hash_set(struct reader *reader) {
    snprintf(reader->hash, sizeof reader->hash, "%016llx%016llx", (unsigned long long)reader->hash_high,
             (unsigned long long)reader->hash_low);
}

struct run_hashing {
    const struct array *array;
    XXH128_hash_t *sums; /* one for each thread */
};

/* Hashes a run of a contiguous data set (struct rawread_visitor). Runs and rows consist of whole segments, so numbers
 * are consecutive. */
static void hash_run(void *context, int thread, int64_t first, int64_t elements, const void *data) {
    const struct run_hashing *hashing = context;
    const struct array *array = hashing->array;
    int64_t origin[MAX_RANK], size = (int64_t)dtype_size(array->dtype);
    numbering_of(array, origin);
    int64_t before = array->view.first[0] - origin[0]; /* elements of the data set before segment 0 */
    for (int axis = 1; axis < array->shape.rank; axis++) before *= array->shape.size[axis];
    for (int64_t done = 0; done < elements; done += SEGMENT)
        hash_add(&hashing->sums[thread], XXH3_128bits_withSeed((const char *)data + done * size,
                                                               (size_t)(min_int64(SEGMENT, elements - done) * size),
                                                               (XXH64_hash_t)((first - before + done) / SEGMENT)));
}

/* Does the array cover that axis of its data set? Yes if no data set is open. */
static bool is_whole_axis(const struct reader *reader, int axis) {
    return !reader->dataset || reader->array->shape.size[axis] == reader->dataset->shape.size[axis];
}

enum status reader_read_hashed(struct reader *reader, const struct box *box, void *data, struct trace *trace,
                               struct error *error) {
    TRY(interrupt_check(error));
    int last = box->rank - 1;
    bool rows_fit = box->rank == 1 || (box->rank > 1 && reader->array->shape.size[last] % SEGMENT == 0);
    for (int axis = 1; axis < box->rank; axis++) rows_fit = rows_fit && is_whole_axis(reader, axis);
    /* Runs of the data set consist of the segments of the box: each thread hashes the run that it has read. */
    bool by_run = reader->raw && rawread_is_contiguous(reader->raw) && view_is_box(&reader->array->view) && rows_fit &&
                  reader->hashed >= 0 && box_is_whole_segments(reader, box);
    if (!by_run) {
        TRY(reader_read(reader, box, data, trace, error));
        hash_box(reader, box, data);
        return STATUS_OK;
    }
    reader->used = true;
    struct run_hashing hashing = {.array = reader->array, .sums = new_sums()};
    struct rawread_visitor visitor = {hash_run, &hashing};
    struct selection selection = view_selection(&reader->array->view, box);
    const struct read_target target = {data, reader->array->dtype, reader->decoding, &reader->counts};
    enum status status = rawread_selected(reader->raw, &selection, &target, &visitor, trace, error);
    add_sums(reader, hashing.sums, box_elements(box));
    return reader_note_failure(reader, status, error);
}

/* Shrinks a grain of chunks along its first axes to at most `limit` elements of a box, so that a piece touches as few
 * chunks as possible: each piece decodes all chunks that it touches. Returns the grain's elements as cut_box
 * counts them. */
static int64_t shrink_grain(struct shape *grain, const struct box *box, int64_t limit) {
    int64_t elements = 1;
    for (int axis = 0; axis < grain->rank; axis++) elements *= min_int64(grain->size[axis], box->count[axis] + 1);
    for (int axis = 0; axis + 1 < grain->rank && elements > limit; axis++) {
        int64_t size = grain->size[axis], others = elements / min_int64(size, box->count[axis] + 1);
        int64_t fitting = limit > others ? min_int64(limit / others, size) : 1;
        while (size % fitting > 0) fitting--; /* pieces end where chunks end */
        grain->size[axis] = fitting;
        elements = others * min_int64(fitting, box->count[axis] + 1);
    }
    return elements;
}

/* Sets *grid to the chunks whose rows end at segments, and returns the most elements that are read at a time. */
static int64_t hash_grid(const struct array *array, const struct box *full, struct grid *grid) {
    int64_t size = (int64_t)dtype_size(array->dtype), limit = BAND_BYTES / size;
    int last = array->shape.rank - 1;
    *grid = array_grid(array);
    bool chunked = array->filtered && grid->grain.rank > 0;
    int64_t chunk = chunked ? shape_elements(&grid->grain) : 1;
    if (grid->grain.rank == 0) grid->grain = (struct shape){array->shape.rank, {1, 1, 1, 1, 1, 1, 1, 1}};
    if (last >= 0) grid->grain.size[last] = (grid->grain.size[last] + SEGMENT - 1) / SEGMENT * SEGMENT;
    if (chunk > limit) limit = chunk;
    if (!chunked) return limit;
    int64_t row = ROW_BYTES / size > limit ? ROW_BYTES / size : limit;
    int64_t grain = shrink_grain(&grid->grain, full, row);
    return grain > limit && grain <= row ? grain : limit;
}

enum status reader_hash(struct reader *reader, struct error *error) {
    if (!reader_needs_hash(reader)) return STATUS_OK;
    if (reader->unreadable) return fail(error, STATUS_IO, "%s", reader->unreadable);
    const struct array *array = reader->array;
    bool opened = !reader->dataset && !reader->pieces;
    TRY(reader_open(reader, error));
    struct box full = box_whole(&array->shape);
    struct grid from;
    int64_t limit = hash_grid(array, &full, &from);
    struct cut cut = cut_box(&full, &from, limit);
    OWNED void *data = try_malloc((size_t)limit * dtype_size(array->dtype));
    if (!data) {
        if (opened) reader_close(reader);
        return fail(error, STATUS_IO, "no memory left to hash input '%s'", array->name);
    }
    enum status status = STATUS_OK;
    bool counted = reader_needs_casts(reader);
    if (counted) reader_casts_begin(reader);
    reader_hash_begin(reader);
    for (int64_t number = 0; number < cut.pieces && !status; number++) {
        struct box piece = cut_piece(&cut, number);
        struct read_counts before = reader->counts;
        status = reader_read_hashed(reader, &piece, data, NULL, error);
        if (counted) reader_casts_add(reader, &before, &piece);
    }
    if (!status) reader_hash_end(reader);
    if (!status) status = reader_check(reader, error); /* compares the hash if the file was written meanwhile */
    if (status) reader->hash[0] = '\0';
    if (opened) reader_close(reader);
    return status;
}

/* ---- bands ------------------------------------------------------------------------------------------------------- */

/* The beginning of the first segment at or after `element`; `axis_end`, the end of the axis, if there is none. */
static int64_t next_segment(int64_t element, int64_t axis_end) {
    return min_int64((element + SEGMENT - 1) / SEGMENT * SEGMENT, axis_end);
}

enum status reader_share(struct reader *reader, struct error *error) {
    const struct array *array = reader->array, *whole = array->band.input;
    if (!whole || reader->shared) return STATUS_OK;
    reader->share_low = reader->hash_low;
    reader->share_high = reader->hash_high;
    if (!band_is_whole_segments(array)) {
        int axis = array->band.axis;
        int64_t axis_end = whole->shape.size[axis], first = next_segment(array->band.first, axis_end);
        int64_t end = next_segment(array->band.first + array->shape.size[axis], axis_end);
        FREED_BY(array_free) struct array segments = array_copy(whole);
        FREED_BY(reader_free) struct reader segment_reader = {0};
        array_narrow(&segments, axis, first, end - first);
        segments.band = (struct array_band){whole, axis, first};
        reader_init(&segment_reader, &segments);
        enum status status = end > first ? reader_hash(&segment_reader, error) : STATUS_OK;
        reader->share_low = segment_reader.hash_low;
        reader->share_high = segment_reader.hash_high;
        reader_note_failure(reader, status, error);
        TRY(status);
    }
    reader->shared = true;
    return STATUS_OK;
}

/* Sums the hashes and losses of an array's bands to those of the array. false: one of them is not known. */
static bool sum_bands(const struct readers *readers, struct reader *whole) {
    XXH128_hash_t sum = {0, 0};
    struct casts casts = {0};
    int64_t next = 0;
    bool counted = true;
    for (int i = 0; i < readers->count; i++) {
        const struct reader *reader = &readers->items[i];
        const struct array_band *band = &reader->array->band;
        if (band->input != whole->array) continue;
        bool known = reader->shared || (reader->hash[0] && band_is_whole_segments(reader->array));
        /* The bands of a division are in order; one that begins at 0 begins another division. */
        if (band->first == 0) sum = (XXH128_hash_t){0, 0}, casts = (struct casts){0}, next = 0, counted = true;
        if (!known || band->first != next) continue;
        hash_add(&sum, reader->shared ? (XXH128_hash_t){reader->share_low, reader->share_high}
                                      : (XXH128_hash_t){reader->hash_low, reader->hash_high});
        casts_add(&casts, &reader->casts);
        counted &= !reader_needs_casts(reader);
        next += reader->array->shape.size[band->axis];
        if (next != whole->array->shape.size[band->axis]) continue;
        whole->hash_low = sum.low64;
        whole->hash_high = sum.high64;
        reader_hash_set(whole);
        if (counted && reader_needs_casts(whole)) reader_casts_set(whole, &casts);
        return true;
    }
    return false;
}

enum status readers_hash(struct readers *readers, int number, struct error *error) {
    struct reader *reader = &readers->items[number];
    if (!reader_needs_hash(reader)) return STATUS_OK;
    return reader->array->has_bands && sum_bands(readers, reader) ? STATUS_OK : reader_hash(reader, error);
}

/* ---- opening and checking ---------------------------------------------------------------------------------------- */

/* Does the plan's description of an input still fit its file? Asked while nothing was read. No for a result, a
 * concatenated input and a field, which are not described again. */
static bool described_alike(const struct array *array) {
    FREED_BY(array_free) struct array again = {0};
    if (!array->from_job || array->parts || array->from_job->field) return false;
    bool alike = !array_describe(array->from_job, &again, IGNORED) && again.stored == array->stored &&
                 again.shape.rank == array->shape.rank && again.filtered == array->filtered &&
                 shape_equal(&again.chunk, &array->chunk) && !again.decoding == !array->decoding;
    for (int i = 0; alike && i < array->shape.rank; i++)
        alike = array->view.first[i] + (array->shape.size[i] - 1) * array->view.step[i] < again.shape.size[i];
    OWNED char *one = alike && array->decoding ? decoding_key(array->decoding) : NULL;
    OWNED char *other = one ? decoding_key(again.decoding) : NULL;
    alike = alike && (!one || strcmp(one, other) == 0);
    return alike;
}

/* Do the files hold the values whose hash is known? `now`: the version of the only file; NULL: the array has pieces.
 * Not if no hash is known, or if the files change again during each of MAX_REHASHES attempts. */
static bool holds_its_values(const struct reader *reader, const struct stat *now) {
    FREED_BY(reader_free) struct reader again = {0};
    if (!reader->hash[0] || reader->rehashes == MAX_REHASHES) return false;
    reader_init(&again, reader->array);
    if (now) again.version = *now;
    for (int i = 0; again.pieces && reader->pieces && i < again.pieces->count; i++)
        again.pieces->items[i].reader.version = reader->pieces->items[i].reader.version;
    again.rehashes = reader->rehashes + 1;
    return !reader_hash(&again, IGNORED) && strcmp(again.hash, reader->hash) == 0;
}

/* Accepts another version of the file if it holds the values that were read or, while nothing was read, if the plan's
 * description fits it. STATUS_IO: does not accept it. */
static enum status accept_version(struct reader *reader, const struct stat *now, struct error *error) {
    const struct stat *version = &reader->version;
    bool good = !reader->foreign || now->st_ino != version->st_ino || now->st_dev != version->st_dev ? false
                : reader->used || reader->hash[0] ? holds_its_values(reader, now)
                                                  : described_alike(reader->array);
    if (!good) return reader_fail_changed(reader, error);
    reader->version = *now;
    return STATUS_OK;
}

/* Checks the values of an array in pieces if the file of one was written after it was read. */
static enum status check_pieces(struct reader *reader, struct error *error) {
    const struct reader *doubted = NULL;
    for (int i = 0; i < reader->pieces->count; i++)
        if (reader->pieces->items[i].reader.doubted) doubted = &reader->pieces->items[i].reader;
    if (!doubted || !reader->foreign) return STATUS_OK;
    if (!holds_its_values(reader, NULL)) return reader_fail_changed(doubted, error);
    for (int i = 0; i < reader->pieces->count; i++) reader->pieces->items[i].reader.doubted = false;
    return STATUS_OK;
}

enum status reader_check(struct reader *reader, struct error *error) {
    struct stat now;
    if (reader->pieces) return check_pieces(reader, error);
    return reader_is_written(reader, &now) ? accept_version(reader, &now, error) : STATUS_OK;
}

enum status reader_open(struct reader *reader, struct error *error) {
    /* An input that could not be read stays unreadable, because keys may have been computed without its hash. */
    if (reader->unreadable) return fail(error, STATUS_IO, "%s", reader->unreadable);
    if (reader->dataset || !reader->file) return reader_check(reader, error);
    FENCE(reader->file);
    struct stat version;
    enum status status = reader_open_dataset(reader, &version, error);
    if (!status && !reader_same_version(&version, &reader->version)) status = accept_version(reader, &version, error);
    if (!status) status = reader_prepare(reader, error);
    return status ? reader_fail_open(reader, error) : STATUS_OK;
}
