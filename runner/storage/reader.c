/* reader.c - reads arrays, also those that are stored in several data sets; counts and reports the elements that
 * conversions changed, or that decoding or missing sources made NaN. */
#include "reader.h"
#include "../../kernels/core/cut.h"
#include "../base/fail.h"
#include "../base/interrupt.h"
#include "elements/layout.h"
#include "h5/h5file.h"
#include "h5/h5virtual.h"
#include "random.h"
#include "raw/rawread.h"
#include "untrusted/fence.h"
#include "untrusted/h5guard.h"
#include "untrusted/h5open.h"
#include "untrusted/h5sources.h"
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 16 };              /* elements that HDF5 reads and that are converted at a time */
#define PART_BYTES (INT64_C(16) << 20) /* bytes of a piece that are read at a time, unless a chunk is larger */

/* A reader may have pieces, and each piece has a reader, so these functions and those of readers call each other. */
/* The pieces of a concatenated input: data set `object` of each file. */
static struct pieces *pieces_of_parts(const struct array *array, const char *object);
static void pieces_close(struct pieces *pieces);
static void pieces_free(struct pieces *pieces);
static enum status pieces_read(struct pieces *pieces, const struct box *box, void *data, struct read_counts *counts,
                               struct trace *trace, struct error *error);

/* ---- opening and closing ---- */

void reader_init(struct reader *reader, const struct array *array) {
    *reader = (struct reader){.array = array, .decoding = array->keeps_stored ? NULL : array->decoding};
    if (!array->from_job || array->from_job->random) return;
    reader->foreign = true;
    reader->field = array->from_job->field;
    if (array->parts) {
        reader->pieces = pieces_of_parts(array, array->from_job->dataset);
        return;
    }
    reader_set_dataset(reader, array->from_job->file, array->from_job->dataset);
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

bool reader_is_written(const struct reader *reader, struct stat *now) {
    if (!reader->dataset || !reader->file || reader->live || stat(reader->file, now) != 0) return false;
    /* A new file of that name does not matter: the open one keeps its contents. */
    if (now->st_dev != reader->version.st_dev || now->st_ino != reader->version.st_ino) return false;
    return !reader_same_version(now, &reader->version);
}

enum status reader_fail_changed(const struct reader *reader, struct error *error) {
    return fail(error, STATUS_IO, "%s: changed while the job ran; `--resume` reads it again", reader->file);
}

/* Callback of a guard: checks that the chunks of a source decode within bounds. */
static void check_source_chunks(const char *path, const char *name, struct error *error) {
    OWNED_DATASET struct h5_dataset *dataset = NULL;
    if (h5_open_chunks(path, name, &dataset, IGNORED)) return; /* the source is not a data set */
    FREED_BY(rawread_close) struct rawread *check = rawread_open_check(dataset);
    struct box full = box_whole(&dataset->shape);
    struct selection all = selection_of_box(&full);
    if (check) rawread_check_chunks(check, &all, error);
}

/* Chunks that HDF5 will decode in another program's file must decode within bounds. For a virtual data set, checks all
 * chunks that the job reads now; for others, prepares for reader_read to check the chunks of each box before it reads
 * the box. */
static enum status prepare_chunk_check(struct reader *reader, struct error *error) {
    const struct array *array = reader->array;
    if (reader->raw || !reader->foreign) return STATUS_OK;
    reader->chunk_check = rawread_open_check(reader->dataset);
    if (!h5_is_virtual(reader->dataset->id)) return STATUS_OK;
    struct box full = box_whole(&array->shape);
    struct selection seen = view_selection(&array->view, &full);
    seen.rank -= reader->dataset->inner;
    /* array_describe has refused sources that the job does not permit. */
    H5_GUARD(guard, EXTERNAL_ALLOW, reader->file, reader->object);
    guard.seen = &seen;
    guard.visit = check_source_chunks;
    return h5_guard_check_open(&guard, reader->dataset->id, error);
}

/* STATUS_IO: sources of a virtual data set appeared or disappeared since it was described. Sets dataset->read to read
 * source by source if HDF5 itself cannot read the data set. */
static enum status check_sources(const struct reader *reader, struct error *error) {
    struct h5_dataset *dataset = reader->dataset;
    const struct array *array = reader->array;
    struct box full = box_whole(&dataset->shape);
    struct selection seen = selection_of_box(&full);
    struct h5_absent absent = {0};
    if (!dataset->scattered || !reader->foreign) return STATUS_OK;
    if (array->from_job) array_seen_in_file(array, 0, &seen);
    enum status status = h5_find_absent(dataset->id, reader->file, reader->object, &seen, &absent, error);
    dataset->read = absent.read_by_source ? h5_read_by_source : NULL;
    if (!status && array->from_job && absent.elements != array->absent.elements)
        status = fail(error, STATUS_IO, "%s: sources of '%s' appeared or disappeared while the job ran%s%s",
                      reader->file, reader->object, absent.first ? ": " : "", absent.first ? absent.first : "");
    free(absent.first);
    return status;
}

enum status reader_open_dataset(struct reader *reader, struct stat *version, struct error *error) {
    version->st_ino = 0;
    stat(reader->file, version); /* a failure is ignored: h5_open gives the better message */
    TRY(h5_open_field(reader->file, reader->object, reader->field, &reader->dataset, error));
    reader->raw = rawread_open(reader->dataset);
    reader->live = h5_is_swmr(reader->dataset->id);
    if (reader->version.st_ino == 0 || reader->live) reader->version = *version;
    return STATUS_OK;
}

enum status reader_prepare(struct reader *reader, struct error *error) {
    TRY(prepare_chunk_check(reader, error));
    return check_sources(reader, error);
}

enum status reader_fail_open(struct reader *reader, struct error *error) {
    reader_close(reader);
    error->status = STATUS_IO; /* array_describe could read it */
    return reader_note_failure(reader, STATUS_IO, error);
}

enum status reader_note_failure(struct reader *reader, enum status status, const struct error *error) {
    if (status == STATUS_IO && reader->foreign && !reader->unreadable) reader->unreadable = must_strdup(error->text);
    return status;
}

void reader_close(struct reader *reader) {
    FENCE(reader->file);
    rawread_close(&reader->raw);
    rawread_close(&reader->chunk_check);
    h5_close(&reader->dataset);
    if (reader->pieces) pieces_close(reader->pieces);
}

void reader_free(struct reader *reader) {
    reader_close(reader);
    free(reader->file);
    free(reader->object);
    pieces_free(reader->pieces);
    free(reader->unreadable);
    reader->file = reader->object = reader->unreadable = NULL;
    reader->pieces = NULL;
}

/* ---- several data sets ---- */

struct pieces *pieces_create(const struct array *array, int count) {
    struct pieces *pieces = must_malloc(sizeof *pieces + (size_t)count * sizeof *pieces->items);
    *pieces = (struct pieces){.count = count};
    pieces->plain = (struct array){.name = array->name, .label = array->label, .dtype = array->dtype};
    pieces->plain.shape = array->shape;
    if (!array->from_job) pieces->plain.decoding = array->decoding, pieces->plain.keeps_stored = array->keeps_stored;
    for (int i = 0; i < count; i++) {
        pieces->items[i] = (struct array_piece){.box.rank = array->shape.rank};
        reader_init(&pieces->items[i].reader, &pieces->plain);
    }
    return pieces;
}

void pieces_set(struct pieces *pieces, int number, const struct box *box, const char *file, const char *object,
                const struct stat *version) {
    struct array_piece *piece = &pieces->items[number];
    piece->box = *box;
    reader_set_dataset(&piece->reader, file, object);
    piece->reader.version = *version;
}

/* Accepts another version of the piece's file if the piece is an input's, and values were read: reader_check then
 * decides by the hash of the whole array. STATUS_IO: does not accept it. */
static enum status accept_version(struct reader *reader, const struct stat *version, struct error *error) {
    if (reader_same_version(version, &reader->version)) return STATUS_OK;
    if (!reader->foreign || !reader->used) return reader_fail_changed(reader, error);
    reader->doubted = true;
    reader->version = *version;
    return STATUS_OK;
}

/* Opens the reader of a piece, and closes the one that was opened PIECES_OPEN pieces before. */
static enum status open_piece(struct pieces *pieces, struct reader *reader, struct error *error) {
    if (reader->dataset) return STATUS_OK;
    if (reader->unreadable) return fail(error, STATUS_IO, "%s", reader->unreadable);
    struct reader **entry = &pieces->open[pieces->next];
    if (*entry) reader_close(*entry);
    *entry = reader;
    pieces->next = (pieces->next + 1) % PIECES_OPEN;
    FENCE(reader->file);
    struct stat version;
    enum status status = reader_open_dataset(reader, &version, error);
    if (!status) status = accept_version(reader, &version, error);
    if (!status) status = reader_prepare(reader, error);
    return status ? reader_fail_open(reader, error) : STATUS_OK;
}

static struct pieces *pieces_of_parts(const struct array *array, const char *object) {
    const struct concatenated_files *parts = array->parts;
    struct pieces *pieces = pieces_create(array, parts->count);
    for (int i = 0; i < parts->count; i++) {
        pieces_set(pieces, i, &parts->items[i].box, parts->items[i].file, object, &parts->items[i].version);
        pieces->items[i].reader.foreign = true;
        pieces->items[i].reader.field = array->from_job->field;
        if (!array->keeps_stored) pieces->items[i].reader.decoding = parts->items[i].decoding;
    }
    return pieces;
}

enum status pieces_open_first(struct pieces *pieces, const struct h5_dataset **dataset, struct error *error) {
    TRY(open_piece(pieces, &pieces->items[0].reader, error));
    *dataset = pieces->items[0].reader.dataset;
    return STATUS_OK;
}

static void pieces_close(struct pieces *pieces) {
    for (int i = 0; i < pieces->count; i++) reader_close(&pieces->items[i].reader);
    memset(pieces->open, 0, sizeof pieces->open);
}

static void pieces_free(struct pieces *pieces) {
    if (!pieces) return;
    for (int i = 0; i < pieces->count; i++) reader_free(&pieces->items[i].reader);
    free(pieces);
}

/* ---- reading ---- */

/* Reads by HDF5 and converts, in parts that are adjacent in the packed box. */
static enum status read_converted(struct reader *reader, const struct box *box, const struct read_target *target,
                                  struct error *error) {
    enum dtype stored = reader->dataset->dtype;
    struct cut cut = cut_box(box, NULL, BLOCK);
    OWNED uint64_t *block = must_malloc(BLOCK * sizeof *block);
    char *to = target->data;
    for (int64_t number = 0; number < cut.pieces; number++) {
        struct box part = cut_piece(&cut, number);
        struct selection selection = view_selection(&reader->array->view, &part);
        int64_t elements = box_elements(&part);
        TRY(h5_read_selected(reader->dataset, &selection, block, error));
        if (reader->decoding)
            decode_elements(reader->decoding, block, elements, target->dtype, to, &target->counts->casts);
        else
            convert_elements(stored, block, elements, target->dtype, to, &target->counts->casts);
        to += elements * (int64_t)dtype_size(target->dtype);
    }
    return STATUS_OK;
}

/* Reads a box from the array's generator, its pieces, its data set without HDF5, or its data set with HDF5. */
static enum status read_from_source(struct reader *reader, const struct box *box, void *data, struct trace *trace,
                                    struct error *error) {
    const struct array *array = reader->array;
    TRY(interrupt_check(error));
    struct selection selection = view_selection(&array->view, box);
    struct box view_box = *box; /* the view of a generated array, or of one in pieces, is a box */
    memcpy(view_box.start, selection.start, sizeof view_box.start);
    if (array->from_job && array->from_job->random) {
        random_fill(&array->from_job->terms, &array->from_job->shape, array->dtype, &view_box, data);
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

enum status reader_read(struct reader *reader, const struct box *box, void *data, struct trace *trace,
                        struct error *error) {
    reader->used = true;
    return reader_note_failure(reader, read_from_source(reader, box, data, trace, error), error);
}

/* ---- reading several data sets ---- */

/* The box relative to `corner`. */
static struct box relative_to(const struct box *box, const int64_t corner[MAX_RANK]) {
    struct box moved = *box;
    for (int axis = 0; axis < box->rank; axis++) moved.start[axis] -= corner[axis];
    return moved;
}

/* Reads `part` of a piece into its position in `box`, whose packed elements are at `data`. `memory` has room for
 * `part`. */
static enum status read_into_box(struct array_piece *piece, const struct box *part, const struct box *box, char *data,
                                 char *memory, struct trace *trace, struct error *error) {
    int64_t size = (int64_t)dtype_size(piece->reader.array->dtype);
    struct box source = relative_to(part, piece->box.start), target = relative_to(part, box->start);
    struct shape around = {.rank = box->rank};
    memcpy(around.size, box->count, sizeof around.size);
    struct selection all = selection_of_box(&target);
    struct rows rows = layout_rows(&all, &around, true, box_elements(part));
    struct row_run run;
    bool adjacent = rows.walk.rows == 1 && layout_run(&rows, 0, 0, &run);
    if (adjacent) return reader_read(&piece->reader, &source, data + run.in_array * size, trace, error);
    TRY(reader_read(&piece->reader, &source, memory, trace, error));
    for (int64_t number = 0; layout_run(&rows, 0, number, &run); number++)
        memcpy(data + run.in_array * size, memory + run.in_box * size, (size_t)(run.elements * size));
    return STATUS_OK;
}

/* Reads `overlap`, the elements that a piece and `box` share, in parts of bounded size that are cut along the chunks of
 * the piece. */
static enum status read_overlap(struct array_piece *piece, const struct box *overlap, const struct box *box, char *data,
                                struct trace *trace, struct error *error) {
    const struct h5_dataset *dataset = piece->reader.dataset;
    int64_t size = (int64_t)dtype_size(piece->reader.array->dtype), limit = PART_BYTES / size;
    int64_t chunk = dataset->filtered ? shape_elements(&dataset->chunk) : 1;
    if (chunk > limit) limit = chunk;
    struct grid grid = {.grain = dataset->chunk};
    for (int axis = 0; axis < overlap->rank; axis++) grid.shift[axis] = -piece->box.start[axis];
    struct cut cut = cut_box(overlap, &grid, limit);
    int64_t block_elements = box_elements(overlap) < limit ? box_elements(overlap) : limit;
    OWNED char *memory = try_malloc((size_t)(block_elements * size));
    if (!memory) return fail(error, STATUS_IO, "%s: no memory left to read it", piece->reader.file);
    for (int64_t number = 0; number < cut.pieces; number++) {
        struct box part = cut_piece(&cut, number);
        TRY(read_into_box(piece, &part, box, data, memory, trace, error));
    }
    return STATUS_OK;
}

/* Reads a box from the pieces that hold parts of it. */
static enum status pieces_read(struct pieces *pieces, const struct box *box, void *data, struct read_counts *counts,
                               struct trace *trace, struct error *error) {
    for (int i = 0; i < pieces->count; i++) {
        struct array_piece *piece = &pieces->items[i];
        struct stat now;
        struct box overlap;
        if (!box_intersect(box, &piece->box, &overlap)) continue;
        TRY(open_piece(pieces, &piece->reader, error));
        piece->reader.counts = (struct read_counts){0};
        TRY(read_overlap(piece, &overlap, box, data, trace, error));
        read_counts_add(counts, &piece->reader.counts);
        if (reader_is_written(&piece->reader, &now)) TRY(accept_version(&piece->reader, &now, error));
    }
    return STATUS_OK;
}

/* ---- what was lost ----------------------------------------------------------------------------------------------- */

bool reader_needs_casts(const struct reader *reader) {
    return (reader->array->from_job || reader->decoding) && reader->counted != shape_elements(&reader->array->shape);
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
    reader->casts.rounded += reader->counts.casts.rounded - before->casts.rounded;
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
                  {casts->truncated, "lost their fractions in the conversion to"},
                  {casts->rounded, "lost digits beyond 2^53 in the conversion to"}};
    const char *type = dtype_name(reader->array->dtype);
    char *text = NULL;
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        if (losses[i].count == 0) continue;
        if (text)
            must_append(&text, ", %lld %s it", (long long)losses[i].count, losses[i].what);
        else
            text = must_printf("%lld of %lld elements %s %s", (long long)losses[i].count, (long long)reader->counted,
                               losses[i].what, type);
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
    if (unused_default && !array->mixed_decoding) return NULL; /* netCDF's default fill value, which no element has */
    bool only_asked = array->from_job && array->from_job->stored_numbers;
    OWNED char *how = array->mixed_decoding ? must_strdup("each file by its own attributes") : decoding_text(decoding);
    return must_printf("decoded%s: %s; %lld of %lld missing", only_asked ? "" : " as CF says", how, (long long)missing,
                       (long long)reader->counted);
}

char *reader_absent_sources(const struct reader *reader) {
    const struct h5_absent *absent = &reader->array->absent;
    if (absent->sources == 0) return NULL;
    return must_printf("%lld of %lld elements are fill values: %d source%s missing, %s%s", (long long)absent->elements,
                       (long long)shape_elements(&reader->array->shape), absent->sources,
                       absent->sources == 1 ? " is" : "s are", absent->sources == 1 ? "" : "such as ", absent->first);
}
