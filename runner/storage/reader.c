/* reader.c - opens, reads and hashes arrays. */
#include "reader.h"

#include "../../kernels/core/cpu.h"
#include "../../kernels/core/cut.h"

#include "../base/fail.h"
#include "../base/interrupt.h"
#include "../base/workers.h"
#include "h5/h5virtual.h"
#include "pieces.h"
#include "random.h"
#include "raw/rawread.h"
#include "untrusted/fence.h"
#include "untrusted/h5guard.h"
#include "untrusted/h5mapped.h"
#include "untrusted/h5open.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { SEGMENT = READER_SEGMENT, GROUP = 128, BAND_BYTES = 16 << 20, PIECE = 1 << 16 };

/* ---- opening and closing ---- */

void reader_init(struct reader *reader, const struct array *array) {
    *reader = (struct reader){.array = array, .decoding = array->packed ? NULL : array->decoding};
    if (!array->input || array->input->random) return;
    reader->foreign = true;
    reader->field = array->input->field;
    if (array->parts) {
        reader->pieces = pieces_of_parts(array, array->input->dataset);
        return;
    }
    reader_set_dataset(reader, array->input->file, array->input->dataset);
    reader->version = array->version;
}

void reader_set_dataset(struct reader *reader, const char *file, const char *object) {
    reader_close(reader);
    free(reader->file);
    free(reader->object);
    reader->file = must_strdup(file);
    reader->object = must_strdup(object);
    reader->version.st_ino = 0;
}

void reader_set_pieces(struct reader *reader, struct pieces *pieces) {
    reader_free(reader);
    reader->pieces = pieces;
}

bool reader_same_version(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static enum status fail_changed(const struct reader *reader, struct error *error) {
    return fail(error, STATUS_IO, "%s: changed while the job ran; `--resume` reads it again", reader->file);
}

enum status reader_check(const struct reader *reader, struct error *error) {
    struct stat now;
    if (!reader->dataset || !reader->file || reader->live || stat(reader->file, &now) != 0) return STATUS_OK;
    /* A new file of that name does not matter: the open one keeps its contents. */
    if (now.st_dev != reader->version.st_dev || now.st_ino != reader->version.st_ino) return STATUS_OK;
    return reader_same_version(&now, &reader->version) ? STATUS_OK : fail_changed(reader, error);
}

static void check_source_chunks(const char *path, const char *name, struct error *error) {
    struct h5_dataset *dataset = NULL;
    struct error ignored = {0}; /* the source is not a data set */
    if (h5_open_chunks(path, name, &dataset, &ignored)) return;
    struct rawread *check = rawread_open_check(dataset);
    struct box whole = box_whole(&dataset->shape);
    struct selection all = selection_of_box(&whole);
    if (check) rawread_check_chunks(check, &all, error);
    rawread_close(check);
    h5_close(dataset);
}

/* Chunks that HDF5 will decode in another program's file must decode within bounds. For a virtual data set this checks
 * all chunks that the job reads, now; for others, reader_read checks each box before it reads it. */
static enum status prepare_chunk_check(struct reader *reader, struct error *error) {
    const struct array *array = reader->array;
    if (reader->raw || !reader->foreign) return STATUS_OK;
    reader->chunk_check = rawread_open_check(reader->dataset);
    if (!h5_is_virtual(reader->dataset->id)) return STATUS_OK;
    struct box whole = box_whole(&array->shape);
    struct selection seen = view_selection(&array->view, &whole);
    seen.rank -= reader->dataset->inner;
    struct h5_guard guard;
    /* array_describe has refused sources that the job does not permit. */
    h5_guard_begin(&guard, EXTERNAL_ALLOW, reader->file);
    guard.seen = &seen;
    guard.visit = check_source_chunks;
    enum status status = h5_guard_check_open(&guard, reader->object, reader->dataset->id, error);
    h5_guard_end(&guard);
    return status;
}

/* Sources may have appeared or disappeared since the data set was described. */
static enum status check_sources(const struct reader *reader, struct error *error) {
    struct h5_dataset *dataset = reader->dataset;
    const struct array *array = reader->array;
    struct box whole = box_whole(&dataset->shape);
    struct selection seen = selection_of_box(&whole);
    struct h5_absent absent = {0};
    if (!dataset->scattered || !reader->foreign) return STATUS_OK;
    if (array->input) array_seen_in_file(array, 0, &seen);
    enum status status = h5_find_absent(dataset->id, reader->file, reader->object, &seen, &absent, error);
    dataset->read = absent.read_by_source ? h5_read_by_source : NULL;
    if (!status && array->input && absent.elements != array->absent.elements)
        status = fail(error, STATUS_IO, "%s: sources of '%s' appeared or disappeared while the job ran%s%s",
                      reader->file, reader->object, absent.first ? ": " : "", absent.first ? absent.first : "");
    free(absent.first);
    return status;
}

enum status reader_open(struct reader *reader, struct error *error) {
    if (reader->dataset || !reader->file) return reader_check(reader, error);
    FENCE(reader->file);
    struct stat version = {.st_ino = 0};
    stat(reader->file, &version); /* a failure is ignored: h5_open gives the better message */
    enum status status = h5_open_field(reader->file, reader->object, reader->field, &reader->dataset, error);
    if (!status) status = rawread_open(reader->dataset, &reader->raw, error);
    reader->live = !status && h5_is_swmr(reader->dataset->id);
    if (!status && (reader->version.st_ino == 0 || reader->live)) reader->version = version;
    if (!status && !reader_same_version(&version, &reader->version)) status = fail_changed(reader, error);
    if (!status) status = prepare_chunk_check(reader, error);
    if (!status) status = check_sources(reader, error);
    if (!status) return STATUS_OK;
    reader_close(reader);
    return error->status = STATUS_IO; /* array_describe could read it */
}

void reader_close(struct reader *reader) {
    FENCE(reader->file);
    rawread_close(reader->raw);
    rawread_close(reader->chunk_check);
    h5_close(reader->dataset);
    if (reader->pieces) pieces_close(reader->pieces);
    reader->raw = reader->chunk_check = NULL;
    reader->dataset = NULL;
}

void reader_free(struct reader *reader) {
    reader_close(reader);
    free(reader->file);
    free(reader->object);
    pieces_free(reader->pieces);
    reader->file = reader->object = NULL;
    reader->pieces = NULL;
}

/* ---- the readers of a job ---- */

void readers_init(struct readers *readers, const struct array *arrays, int count) {
    *readers = (struct readers){.count = count};
    readers->of = must_malloc((unsigned long)count * sizeof *readers->of + 1);
    for (int i = 0; i < count; i++) reader_init(&readers->of[i], &arrays[i]);
}

void readers_free(struct readers *readers) {
    for (int i = 0; i < readers->count; i++) reader_free(&readers->of[i]);
    free(readers->of);
}

/* Removes an entry from the list of open readers. */
static void remove_open(struct readers *readers, int entry) {
    int behind = --readers->open_count - entry;
    memmove(&readers->open[entry], &readers->open[entry + 1], (size_t)behind * sizeof *readers->open);
}

enum status readers_open(struct readers *readers, int array, struct error *error) {
    struct reader *reader = &readers->of[array];
    int entry = 0;
    while (entry < readers->open_count && readers->open[entry] != reader) entry++;
    if (entry == READERS_OPEN) reader_close(readers->open[entry = 0]);
    if (entry < readers->open_count) remove_open(readers, entry);
    readers->open[readers->open_count++] = reader;
    return reader_open(reader, error);
}

void readers_close_before(struct readers *readers, int task) {
    for (int entry = readers->open_count - 1; entry >= 0; entry--) {
        if (readers->open[entry]->array->last_reader >= task) continue;
        reader_close(readers->open[entry]);
        remove_open(readers, entry);
    }
}

/* ---- reading and hashing ---- */

/* Reads by HDF5 and converts, in pieces that are adjacent in the packed box. */
static enum status read_converted(struct reader *reader, const struct box *box, const struct read_target *target,
                                  struct error *error) {
    enum dtype stored = reader->dataset->dtype;
    struct cut cut = cut_box(box, NULL, PIECE);
    uint64_t *piece = must_malloc(PIECE * sizeof *piece);
    char *to = target->data;
    enum status status = STATUS_OK;
    for (int64_t number = 0; number < cut.pieces && !status; number++) {
        struct box part = cut_piece(&cut, number);
        struct selection selection = view_selection(&reader->array->view, &part);
        int64_t elements = box_elements(&part);
        status = h5_read_selected(reader->dataset, &selection, piece, error);
        if (!status && reader->decoding)
            decode_elements(reader->decoding, piece, elements, target->dtype, to, &target->counts->casts);
        else if (!status)
            convert_elements(stored, piece, elements, target->dtype, to, &target->counts->casts);
        to += elements * (int64_t)dtype_size(target->dtype);
    }
    free(piece);
    return status;
}

enum status reader_read(struct reader *reader, const struct box *box, void *data, struct trace *trace,
                        struct error *error) {
    const struct array *array = reader->array;
    TRY(interrupt_check(error));
    struct selection selection = view_selection(&array->view, box);
    struct box view_box = *box; /* the view of a generated array, or of one in pieces, is a box */
    memcpy(view_box.start, selection.start, sizeof view_box.start);
    if (array->input && array->input->random) {
        random_fill(&array->input->terms, &array->input->shape, array->dtype, &view_box, data);
        return STATUS_OK;
    }
    if (reader->pieces) return pieces_read(reader->pieces, &view_box, data, &reader->counts, trace, error);
    if (!reader->dataset) return fail(error, STATUS_IO, "the result of '%s' was not stored", array->name);
    FENCE_LONG(reader->file);
    const struct read_target target = {data, array->dtype, reader->decoding, &reader->counts};
    if (reader->raw) return rawread_selected(reader->raw, &selection, &target, NULL, trace, error);
    reader->counts.bytes += box_elements(box) * (int64_t)dtype_size(reader->dataset->dtype);
    if (reader->chunk_check) TRY(rawread_check_chunks(reader->chunk_check, &selection, error));
    if (reader->dataset->dtype != array->dtype || reader->decoding) return read_converted(reader, box, &target, error);
    return h5_read_selected(reader->dataset, &selection, data, error);
}

/* ---- conversion losses ---- */

bool reader_needs_casts(const struct reader *reader) {
    return (reader->array->input || reader->decoding) && reader->counted != shape_elements(&reader->array->shape);
}

void reader_casts_begin(struct reader *reader) {
    reader->casts = (struct casts){0};
    reader->counted = 0;
}

void reader_casts_add(struct reader *reader, const struct read_counts *before, const struct box *box) {
    reader->casts.missing += reader->counts.casts.missing - before->casts.missing;
    reader->casts.overflowed += reader->counts.casts.overflowed - before->casts.overflowed;
    reader->casts.wrapped += reader->counts.casts.wrapped - before->casts.wrapped;
    reader->casts.truncated += reader->counts.casts.truncated - before->casts.truncated;
    reader->counted += box_elements(box);
}

void reader_casts_set(struct reader *reader, const struct casts *casts) {
    reader->casts = *casts;
    reader->counted = shape_elements(&reader->array->shape);
}

char *reader_cast_losses(const struct reader *reader) {
    const struct casts *casts = &reader->casts;
    const struct {
        int64_t count;
        const char *what;
    } losses[] = {{casts->overflowed, "overflowed"},
                  {casts->wrapped, "wrapped around to"},
                  {casts->truncated, "lost their fractions to"}};
    const char *type = dtype_name(reader->array->dtype);
    char *text = NULL;
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        if (losses[i].count == 0) continue;
        char *longer = text ? must_printf("%s, %lld %s it", text, (long long)losses[i].count, losses[i].what)
                            : must_printf("%s '%s': %lld of %lld elements %s %s",
                                          reader->array->input ? "input" : "result of", reader->array->name,
                                          (long long)losses[i].count, (long long)reader->counted, losses[i].what, type);
        free(text);
        text = longer;
    }
    return text;
}

bool reader_missing_count(const struct reader *reader, int64_t *missing) {
    *missing = reader->casts.missing;
    return reader->decoding && !reader_needs_casts(reader);
}

char *reader_decoding_text(const struct reader *reader) {
    const struct array *array = reader->array;
    int64_t missing;
    if (!reader_missing_count(reader, &missing)) return NULL;
    const struct decoding *decoding = array->decoding;
    bool unused_default = decoding->attributes.netcdf && !decoding->scales && decoding->mark_count == 1 && missing == 0;
    if (unused_default && !array->mixed) return NULL; /* netCDF's default fill value, which no element has */
    bool only_asked = array->input && array->input->stored_numbers;
    char *how = array->mixed ? must_strdup("each file by its own attributes") : decoding_text(decoding);
    char *text =
        must_printf("%s '%s': decoded%s: %s; %lld of %lld missing", array->input ? "input" : "result of", array->name,
                    only_asked ? "" : " as CF says", how, (long long)missing, (long long)reader->counted);
    free(how);
    return text;
}

char *reader_absent_sources(const struct reader *reader) {
    const struct h5_absent *absent = &reader->array->absent;
    if (absent->sources == 0) return NULL;
    return must_printf("input '%s': %lld of %lld elements are fill values: %d source%s missing, %s%s",
                       reader->array->name, (long long)absent->elements,
                       (long long)shape_elements(&reader->array->shape), absent->sources,
                       absent->sources == 1 ? " is" : "s are", absent->sources == 1 ? "" : "such as ", absent->first);
}

/* ---- hashing ---- */

/* A sum modulo 2^128 does not depend on the order of boxes and threads. */
static void hash_add(XXH128_hash_t *sum, XXH128_hash_t term) {
    uint64_t low = sum->low64 + term.low64;
    sum->high64 += term.high64 + (low < term.low64);
    sum->low64 = low;
}

/* The segments of a box, which begins at a multiple of SEGMENT along the last axis. */
struct hashing {
    const struct array *array;
    const struct box *box;
    const char *data;
    int64_t rows, columns; /* of the box */
    int64_t in_row;        /* segments in one row of the box */
    XXH128_hash_t *sums;   /* by thread */
};

static void hash_group(void *context, int64_t group, int thread) {
    const struct hashing *hashing = context;
    const struct box *box = hashing->box;
    const int64_t *extent = hashing->array->shape.size;
    int last = box->rank - 1;
    int64_t columns = hashing->columns, size = (int64_t)dtype_size(hashing->array->dtype);
    int64_t segments_in_row = (extent[last] + SEGMENT - 1) / SEGMENT;
    int64_t end = min_int64((group + 1) * GROUP, hashing->rows * hashing->in_row);
    for (int64_t i = group * GROUP; i < end; i++) {
        int64_t r = i / hashing->in_row, c = i % hashing->in_row * SEGMENT;
        int64_t row = 0; /* in the whole array */
        for (int64_t axis = last - 1, left = r, rows = 1; axis >= 0; rows *= extent[axis--]) {
            row += (box->start[axis] + left % box->count[axis]) * rows;
            left /= box->count[axis];
        }
        int64_t number = row * segments_in_row + (box->start[last] + c) / SEGMENT;
        hash_add(&hashing->sums[thread],
                 XXH3_128bits_withSeed(hashing->data + (r * columns + c) * size,
                                       (size_t)(min_int64(SEGMENT, columns - c) * size), (XXH64_hash_t)number));
    }
}

static XXH128_hash_t *new_sums(void) {
    size_t bytes = (size_t)workers_count() * sizeof(XXH128_hash_t);
    return memset(must_malloc(bytes), 0, bytes);
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

static bool box_is_whole_segments(const struct reader *reader, const struct box *box) {
    int last = box->rank - 1;
    int64_t end = box->start[last] + box->count[last];
    return box->start[last] % SEGMENT == 0 && (end % SEGMENT == 0 || end == reader->array->shape.size[last]);
}

bool reader_needs_hash(const struct reader *reader) {
    return reader->array->input && (reader->file || reader->pieces) && reader->hash[0] == '\0';
}

void reader_hash_begin(struct reader *reader) {
    reader->hash_low = reader->hash_high = 0;
    reader->hashed = 0;
}

static void hash_box(struct reader *reader, const struct box *box, const void *data) {
    if (!box_is_whole_segments(reader, box)) reader->hashed = -1;
    if (reader->hashed < 0 || box_elements(box) == 0) return;
    int64_t columns = box->count[box->rank - 1], in_row = (columns + SEGMENT - 1) / SEGMENT;
    struct hashing hashing = {reader->array, box, data, box_elements(box) / columns, columns, in_row, new_sums()};
    workers_run((hashing.rows * in_row + GROUP - 1) / GROUP, hash_group, &hashing);
    add_sums(reader, hashing.sums, box_elements(box));
}

void reader_hash_end(struct reader *reader) {
    if (reader->hashed != shape_elements(&reader->array->shape)) return;
    snprintf(reader->hash, sizeof reader->hash, "%016llx%016llx", (unsigned long long)reader->hash_high,
             (unsigned long long)reader->hash_low);
}

/* Hashes a run of a contiguous data set. Runs and rows consist of whole segments, so numbers are consecutive. */
struct run_hashing {
    const struct array *array;
    XXH128_hash_t *sums; /* by thread */
};

static void hash_run(void *context, int thread, int64_t first, int64_t elements, const void *data) {
    const struct run_hashing *hashing = context;
    const struct array *array = hashing->array;
    int64_t before = array->view.first[0], size = (int64_t)dtype_size(array->dtype); /* elements before the band */
    for (int axis = 1; axis < array->shape.rank; axis++) before *= array->shape.size[axis];
    for (int64_t done = 0; done < elements; done += SEGMENT)
        hash_add(&hashing->sums[thread], XXH3_128bits_withSeed((const char *)data + done * size,
                                                               (size_t)(min_int64(SEGMENT, elements - done) * size),
                                                               (XXH64_hash_t)((first - before + done) / SEGMENT)));
}

/* Does the array cover that axis of its data set? */
static bool is_whole_axis(const struct reader *reader, int axis) {
    return !reader->dataset || reader->array->shape.size[axis] == reader->dataset->shape.size[axis];
}

enum status reader_read_hashed(struct reader *reader, const struct box *box, void *data, struct trace *trace,
                               struct error *error) {
    TRY(interrupt_check(error));
    int last = box->rank - 1;
    bool rows_fit = box->rank == 1 || reader->array->shape.size[last] % SEGMENT == 0;
    for (int axis = 1; axis < box->rank; axis++) rows_fit = rows_fit && is_whole_axis(reader, axis);
    bool by_run = reader->raw && rawread_is_contiguous(reader->raw) && view_is_box(&reader->array->view) && rows_fit &&
                  reader->hashed >= 0 && box_is_whole_segments(reader, box);
    if (!by_run) {
        TRY(reader_read(reader, box, data, trace, error));
        hash_box(reader, box, data);
        return STATUS_OK;
    }
    struct run_hashing hashing = {.array = reader->array, .sums = new_sums()};
    struct rawread_visitor visitor = {hash_run, &hashing};
    struct selection selection = view_selection(&reader->array->view, box);
    const struct read_target target = {data, reader->array->dtype, reader->decoding, &reader->counts};
    enum status status = rawread_selected(reader->raw, &selection, &target, &visitor, trace, error);
    add_sums(reader, hashing.sums, box_elements(box));
    return status;
}

enum status reader_hash(struct reader *reader, struct error *error) {
    if (!reader_needs_hash(reader)) return STATUS_OK;
    const struct array *array = reader->array;
    bool opened = !reader->dataset && !reader->pieces;
    TRY(reader_open(reader, error));
    int64_t size = (int64_t)dtype_size(array->dtype);
    int last = array->shape.rank - 1;
    struct grid from = array_grid(array);
    int64_t chunk = array->filtered && from.grain.rank > 0 ? shape_elements(&from.grain) : 1, limit = BAND_BYTES / size;
    if (from.grain.rank == 0) from.grain = (struct shape){array->shape.rank, {1, 1, 1, 1, 1, 1, 1, 1}};
    from.grain.size[last] = (from.grain.size[last] + SEGMENT - 1) / SEGMENT * SEGMENT;
    if (chunk > limit) limit = chunk;
    struct box whole = box_whole(&array->shape);
    struct cut cut = cut_box(&whole, &from, limit);
    void *data = malloc((size_t)(limit * size));
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
    free(data);
    if (!status) status = reader_check(reader, error);
    if (!status) reader_hash_end(reader);
    if (opened) reader_close(reader);
    return status;
}
