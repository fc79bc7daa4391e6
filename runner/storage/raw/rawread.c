/* rawread.c - reads selected elements of a contiguous or chunked data set into memory without HDF5. Workers read pieces
 * of contiguous storage, or read and decode chunks. */
#include "rawread.h"

#include "../../base/fail.h"
#include "../../base/file_io.h"
#include "../../base/workers.h"
#include "../elements/layout.h"
#include "../h5/filters.h"
#include "../h5/h5file.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PIECE_BYTES (INT64_C(1) << 17) /* bytes of one pread of contiguous storage */
#define BLOCK       1024               /* elements that are converted at a time */
#define SMALL_BYTES (INT64_C(1) << 16) /* chunks up to this size are read without checking the size of the file */

struct chunk {
    bool known; /* `location` is known */
    struct h5_chunk_location location;
};

struct rawread {
    const struct h5_dataset *dataset;
    struct shape extent, chunk; /* along the data set's own axes */
    int descriptor;
    int64_t size; /* bytes of an element */
    bool swap;
    haddr_t address; /* of contiguous storage */
    /* Chunked: */
    struct filters filters;
    bool unfiltered_edges; /* chunks that extend beyond the data set are not filtered */
    int64_t chunk_bytes;   /* bytes of a decoded chunk */
    hid_t lookup;          /* second handle of the data set, to look up chunks */
    struct chunk *chunks;  /* all chunks of the grid; looked up when first needed */
    uint64_t fill;         /* the fill value, in the first `size` bytes */
    struct filter_lanes lanes;
};

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* The descriptor of the file that holds a data set; -1: HDF5 does not access it as a single POSIX file. */
static int find_descriptor(hid_t id) {
    OWNED_ID hid_t file = H5Iget_file_id(id), access = H5Fget_access_plist(file);
    void *handle = NULL;
    bool single = H5Pget_driver(access) == H5FD_SEC2 && H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) >= 0 && handle;
    return single ? *(int *)handle : -1;
}

/* Finds the address of a contiguous data set. false: it has none, so HDF5 must read the data set. */
static bool find_address(struct rawread *raw, hid_t creation) {
    if (H5Pget_external_count(creation) > 0) return false;
    raw->address = h5_extent_address(raw->dataset->id);
    return raw->address != HADDR_UNDEF;
}

/* TO_READ: read elements. TO_CHECK: only decode chunks, before HDF5 does. TO_DESCRIBE: find out whether TO_READ would
 * succeed. */
enum purpose { TO_READ, TO_CHECK, TO_DESCRIBE };

/* Prepares to read the chunks. false: HDF5 must read them. With TO_DESCRIBE it opens and allocates nothing. */
static bool open_chunks(struct rawread *raw, hid_t creation, hid_t type, enum purpose purpose) {
    const struct h5_dataset *dataset = raw->dataset;
    unsigned options = 0;
    if (H5Pget_chunk_opts(creation, &options) < 0) return false;
    raw->unfiltered_edges = options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS;
    bool supported = filters_find(creation, &raw->filters);
    if (purpose == TO_CHECK ? !filters_have_compressor(&raw->filters) : !supported) return false;
    if (purpose != TO_CHECK && H5Pget_fill_value(creation, type, &raw->fill) < 0) return false;
    if (purpose == TO_DESCRIBE) return true;
    raw->lookup = dataset->write_failure ? dataset->id : h5_open_lookup(dataset->id, raw->descriptor);
    if (raw->lookup < 0) return false;
    raw->chunk_bytes = raw->size * shape_elements(&raw->chunk);
    raw->chunks = calloc((size_t)layout_chunks(&raw->extent, &raw->chunk), sizeof *raw->chunks);
    if (!raw->chunks) return false;
    raw->lanes = filter_lanes_create(raw->chunk_bytes);
    return true;
}

/* Prepares to read a data set without HDF5. NULL: its layout, type or filters need HDF5 for this purpose. */
static struct rawread *open_raw(const struct h5_dataset *dataset, enum purpose purpose) {
    const bool for_check = purpose == TO_CHECK;
    struct rawread *raw = must_malloc(sizeof *raw);
    *raw = (struct rawread){.dataset = dataset,
                            .size = (int64_t)(for_check ? dataset->element : dtype_size(dataset->dtype))};
    raw->extent = h5_dataset_axes(dataset, &dataset->shape);
    raw->chunk = h5_dataset_axes(dataset, &dataset->chunk);
    raw->lookup = H5I_INVALID_HID;
    hid_t creation = dataset->creation;
    OWNED_ID hid_t stored = H5Dget_type(dataset->id), type = H5Tcopy(dataset->memory >= 0 ? dataset->memory : stored);
    H5T_order_t order = H5Tget_order(stored);
    H5D_layout_t layout = H5Pget_layout(creation);
    raw->swap = order == H5T_ORDER_BE;
    if (purpose != TO_DESCRIBE)
        raw->descriptor = dataset->write_failure ? h5_descriptor(dataset->id, NULL) : find_descriptor(dataset->id);
    else if (H5Pget_driver(H5P_FILE_ACCESS_DEFAULT) != H5FD_SEC2) /* h5_open_to_read uses the default driver */
        raw->descriptor = -1;
    if (dataset->plain) H5Tset_order(type, H5T_ORDER_LE);
    bool has_elements = raw->extent.rank > 0 && shape_elements(&dataset->shape) > 0;
    bool able = raw->descriptor >= 0 && (for_check || dataset->plain) && has_elements;
    if (layout == H5D_CONTIGUOUS)
        able = able && !for_check && find_address(raw, creation);
    else
        able = able && layout == H5D_CHUNKED && open_chunks(raw, creation, type, purpose);
    if (!able) rawread_close(&raw);
    return raw;
}

struct rawread *rawread_open(const struct h5_dataset *dataset) {
    return open_raw(dataset, TO_READ);
}

struct rawread *rawread_open_check(const struct h5_dataset *dataset) {
    return open_raw(dataset, TO_CHECK);
}

bool rawread_can_read(const struct h5_dataset *dataset) {
    FREED_BY(rawread_close) struct rawread *raw = open_raw(dataset, TO_DESCRIBE);
    return raw != NULL;
}

void rawread_close(struct rawread **closed) {
    struct rawread *raw = *closed;
    *closed = NULL;
    if (!raw) return;
    filter_lanes_free(&raw->lanes);
    free(raw->chunks);
    if (raw->lookup != raw->dataset->id) h5_close_lookup(raw->lookup);
    free(raw);
}

/* ---- reading: both kinds of storage ------------------------------------------------------------------------------ */

/* One call of rawread_selected. */
struct reading {
    struct rawread *raw;
    const struct rawread_visitor *visitor;
    struct trace *trace;
    const struct read_target *target; /* NULL: chunks are only checked */
    struct rows rows;                 /* contiguous */
    struct chunk_cells cells;         /* chunked */
    atomic_llong next;                /* next piece or cell */
    pthread_mutex_t mutex;
    struct read_counts counts; /* the mutex guards `counts` and `failure` */
    struct error failure;      /* the first failure */
};

/* Keeps the first failure. `corner`: of the chunk that failed; NULL: no chunk. */
static void report_failure(struct reading *reading, const int64_t *corner, const char *why) {
    const struct h5_dataset *dataset = reading->raw->dataset;
    char name[256] = "", file[512] = "", chunk[200] = "";
    int rank = reading->raw->extent.rank, length = corner ? snprintf(chunk, sizeof chunk, ": chunk at [") : 0;
    for (int axis = 0; corner && axis < rank; axis++)
        length += snprintf(chunk + length, sizeof chunk - (size_t)length, "%lld%s", (long long)corner[axis],
                           axis < rank - 1 ? ", " : "]");
    pthread_mutex_lock(&reading->mutex);
    if (reading->failure.status == STATUS_OK) {
        h5_lock();
        H5Iget_name(dataset->id, name, sizeof name);
        H5Fget_name(dataset->id, file, sizeof file);
        h5_unlock();
        fail(&reading->failure, STATUS_IO, "'%s' in %s%s cannot be read: %s", name, file, chunk, why);
    }
    pthread_mutex_unlock(&reading->mutex);
}

/* Adds a worker's counts to those of the reading. */
static void add_counts(struct reading *reading, const struct read_counts *counts) {
    pthread_mutex_lock(&reading->mutex);
    read_counts_add(&reading->counts, counts);
    pthread_mutex_unlock(&reading->mutex);
}

/* Returns the address of element number `index` of the target. */
static char *target_at(const struct reading *reading, int64_t index) {
    return (char *)reading->target->data + index * (int64_t)dtype_size(reading->target->dtype);
}

/* Decodes or converts elements to the type of the target. */
static void convert(const struct read_target *target, enum dtype stored, const void *from, int64_t count, void *to,
                    struct casts *casts) {
    if (target->decoding)
        decode_elements(target->decoding, from, count, target->dtype, to, casts);
    else
        convert_elements(stored, from, count, target->dtype, to, casts);
}

/* Does the target want elements as they are stored, apart from their byte order? */
static bool is_as_stored(const struct reading *reading) {
    return reading->raw->dataset->dtype == reading->target->dtype && !reading->target->decoding;
}

/* Copies `count` elements, `step` apart, to `to` in the target: gathers them, swaps their bytes and converts them. */
static void store_run(const struct reading *reading, const char *from, int64_t count, int64_t step, char *to,
                      struct read_counts *counts) {
    const struct rawread *raw = reading->raw;
    enum dtype stored = raw->dataset->dtype, wanted = reading->target->dtype;
    size_t size = (size_t)raw->size;
    uint64_t block[BLOCK];
    if (is_as_stored(reading)) {
        if (from != to) layout_gather(from, count, step, size, to);
        if (raw->swap) swap_bytes(to, count, size);
        return;
    }
    for (int64_t at = 0; at < count; at += BLOCK) {
        int64_t some = count - at < BLOCK ? count - at : BLOCK;
        const char *first = from + at * step * raw->size;
        bool direct = step == 1 && !raw->swap;
        if (!direct) layout_gather(first, some, step, size, block);
        if (raw->swap) swap_bytes(block, some, size);
        convert(reading->target, stored, direct ? (const void *)first : block, some,
                to + at * (int64_t)dtype_size(wanted), &counts->casts);
    }
}

/* Reads `bytes` bytes at `address`. Returns NULL, or why they cannot be read. */
static const char *read_bytes(int descriptor, void *data, int64_t bytes, haddr_t address) {
    ssize_t got = file_read_at(descriptor, data, (size_t)bytes, (off_t)address);
    return got < 0 ? strerror(errno) : got < bytes ? "the file ends before it" : NULL;
}

/* ---- contiguous -------------------------------------------------------------------------------------------------- */

/* A buffer with the elements begin .. end - 1 of the data set, which one pread delivered; none if begin is end. */
struct window {
    char *buffer;
    int64_t begin, end;
};

/* Finds the elements of a run in the window, `*step` apart from `*from` on, or reads them into it: one by one or, if
 * the run is covered, with the gaps between them and the rows near them. Returns NULL, or why it failed. */
static const char *read_run(const struct reading *reading, const struct row_run *run, struct window *window,
                            const char **from, int64_t *step, struct read_counts *counts) {
    const struct rawread *raw = reading->raw;
    haddr_t address = raw->address + (haddr_t)(run->in_array * raw->size);
    const char *why = NULL;
    *from = window->buffer;
    if (!reading->rows.covered) {
        *step = 1;
        counts->bytes += run->elements * raw->size;
        for (int64_t i = 0; i < run->elements && !why; i++)
            why = read_bytes(raw->descriptor, window->buffer + i * raw->size, raw->size,
                             address + (haddr_t)(i * run->step * raw->size));
        return why;
    }
    *step = run->step;
    if (run->in_array < window->begin || run->in_array >= window->end) {
        *window = (struct window){window->buffer, run->in_array, run->in_array + run->reach};
        counts->bytes += run->reach * raw->size;
        why = read_bytes(raw->descriptor, window->buffer, run->reach * raw->size, address);
    }
    *from += (run->in_array - window->begin) * raw->size;
    return why;
}

/* Reads the runs of a piece: directly into the target if the elements are stored as they are wanted, else through
 * a buffer. */
static void read_row_piece(struct reading *reading, int64_t piece, int thread) {
    const struct rows *rows = &reading->rows;
    struct read_counts counts = {0};
    struct row_run run;
    const char *why = NULL, *from;
    bool straight = rows->walk.step == 1 && !rows->near && is_as_stored(reading);
    OWNED char *buffer = straight ? NULL : must_malloc(PIECE_BYTES);
    struct window window = {buffer, 0, 0};
    for (int64_t number = 0; !why && layout_run(rows, piece, number, &run); number++) {
        char *to = target_at(reading, run.in_box);
        int64_t step;
        if (straight) window = (struct window){to, 0, 0};
        why = read_run(reading, &run, &window, &from, &step, &counts);
        if (why) break;
        store_run(reading, from, run.elements, step, to, &counts);
        if (reading->visitor)
            reading->visitor->visit(reading->visitor->context, thread, run.in_array, run.elements, to);
    }
    if (why) report_failure(reading, NULL, why);
    add_counts(reading, &counts);
}

/* The work of one thread: takes pieces of a contiguous data set until none is left. */
static void read_rows(void *context, int64_t lane, int thread) {
    (void)lane;
    struct reading *reading = context;
    for (int64_t piece; (piece = atomic_fetch_add(&reading->next, 1)) < reading->rows.pieces;)
        read_row_piece(reading, piece, thread);
}

static atomic_int contiguous_threads; /* most workers that read contiguous storage; 0: all */

void rawread_limit_plain(int threads) {
    atomic_store(&contiguous_threads, threads);
}

/* ---- chunked ----------------------------------------------------------------------------------------------------- */

/* Asks HDF5 for the addresses of the chunks that are not known yet. */
static enum status look_up_chunks(struct reading *reading) {
    struct rawread *raw = reading->raw;
    struct error error = {.status = STATUS_OK};
    struct chunk_cell cell;
    enum status status = STATUS_OK;
    int rank = raw->extent.rank;
    h5_lock();
    for (int64_t number = 0; number < reading->cells.count && !status; number++) {
        cell = layout_cell(&reading->cells, number);
        struct chunk *chunk = &raw->chunks[cell.number];
        hsize_t corner[MAX_RANK];
        if (chunk->known) continue;
        for (int axis = 0; axis < rank; axis++) corner[axis] = (hsize_t)cell.corner[axis];
        status = h5_find_chunk(raw->lookup, corner, &chunk->location, &error);
        chunk->known = !status;
    }
    h5_unlock();
    if (status) report_failure(reading, cell.corner, error.text);
    return status;
}

/* Copies the selected part of a decoded chunk to its position in the target. */
static void scatter(const struct reading *reading, const struct chunk_cell *cell, const char *decoded,
                    struct read_counts *counts) {
    struct walk walk = layout_cell_walk(&reading->cells, cell, false);
    int64_t source, target;
    for (int64_t number = 0; number < walk.rows; number++) {
        layout_row(&walk, number, &source, &target);
        store_run(reading, decoded + source * reading->raw->size, walk.length, walk.step, target_at(reading, target),
                  counts);
    }
}

/* Like scatter, but for a chunk that was never stored: its elements are the fill value. */
static void scatter_fill(const struct reading *reading, const struct chunk_cell *cell, struct read_counts *counts) {
    const struct rawread *raw = reading->raw;
    struct walk walk = layout_cell_walk(&reading->cells, cell, false);
    size_t size = dtype_size(reading->target->dtype);
    uint64_t fill = 0;
    struct casts once = {0};
    int64_t source, target, elements = layout_cell_elements(&reading->cells, cell);
    convert(reading->target, raw->dataset->dtype, &raw->fill, 1, &fill, &once);
    for (int64_t number = 0; number < walk.rows; number++) {
        layout_row(&walk, number, &source, &target);
        layout_repeat(&fill, walk.length, size, target_at(reading, target));
    }
    counts->casts.overflowed += once.overflowed * elements;
    counts->casts.wrapped += once.wrapped * elements;
    counts->casts.truncated += once.truncated * elements;
    counts->casts.rounded += once.rounded * elements;
    counts->casts.missing += once.missing * elements;
}

/* Does the chunk extend beyond the data set? */
static bool is_partial(const struct rawread *raw, const struct chunk_cell *cell) {
    for (int axis = 0; axis < raw->extent.rank; axis++)
        if (cell->corner[axis] + raw->chunk.size[axis] > raw->extent.size[axis]) return true;
    return false;
}

/* The address of a chunk in the target, if the chunk is contiguous there and unchanged; else NULL. */
static char *whole_target(const struct reading *reading, const struct chunk_cell *cell) {
    const struct rawread *raw = reading->raw;
    const struct walk walk = layout_cell_walk(&reading->cells, cell, false);
    int64_t source, target;
    bool whole_chunk = walk.rows == 1 && walk.step == 1 && walk.length * raw->size == raw->chunk_bytes;
    if (!whole_chunk || raw->swap || !is_as_stored(reading)) return NULL;
    layout_row(&walk, 0, &source, &target);
    return target_at(reading, target);
}

/* Reads and decodes a chunk, and copies its selected elements to the target. Without a target it only checks that the
 * chunk can be decoded. */
static void read_chunk(struct reading *reading, const struct chunk_cell *cell, int lane) {
    const struct rawread *raw = reading->raw;
    const struct h5_chunk_location *chunk = &raw->chunks[cell->number].location;
    struct read_counts counts = {0};
    if (chunk->address == HADDR_UNDEF) {
        if (!reading->target) return;
        scatter_fill(reading, cell, &counts);
        add_counts(reading, &counts);
        return;
    }
    counts.bytes = (int64_t)chunk->bytes;
    struct filter_buffers *buffers = raw->lanes.buffers[lane];
    struct stat about; /* a damaged file may claim any size: check it before allocating */
    bool in_file = chunk->bytes <= SMALL_BYTES || fstat(raw->descriptor, &about) != 0 ||
                   chunk->address + chunk->bytes <= (haddr_t)about.st_size;
    char *stored = in_file ? filter_buffers_reserve(buffers, chunk->bytes) : NULL;
    char *to = reading->target ? whole_target(reading, cell) : NULL; /* NULL: decode to a buffer, then scatter */
    const char *decoded = stored, *why = in_file ? "there is not enough memory for it" : "the file ends before it";
    if (stored) why = read_bytes(raw->descriptor, stored, (int64_t)chunk->bytes, chunk->address);
    if (!why) {
        double begin = range_begin(STAGE_INFLATE);
        bool is_unfiltered = raw->unfiltered_edges && is_partial(raw, cell);
        unsigned mask = is_unfiltered ? ~0u : chunk->mask; /* bit i set: filter i was not applied */
        decoded = filters_decode(&raw->filters, mask, buffers, chunk->bytes, (size_t)raw->chunk_bytes, to, &why);
        double end = range_end();
        if (raw->filters.count > 0) trace_span(reading->trace, STAGE_INFLATE, lane, -1, raw->chunk_bytes, begin, end);
    }
    if (!decoded || why)
        report_failure(reading, cell->corner, why);
    else if (reading->target && decoded != to)
        scatter(reading, cell, decoded, &counts);
    add_counts(reading, &counts);
}

/* The work of one lane: takes chunks until none is left. */
static void read_lane(void *context, int64_t lane, int thread) {
    (void)thread;
    struct reading *reading = context;
    for (int64_t number; (number = atomic_fetch_add(&reading->next, 1)) < reading->cells.count;) {
        struct chunk_cell cell = layout_cell(&reading->cells, number);
        read_chunk(reading, &cell, (int)lane);
    }
}

bool rawread_is_contiguous(const struct rawread *raw) {
    return !raw->chunks;
}

enum status rawread_read(struct rawread *raw, const struct box *box, void *data, struct error *error) {
    struct selection selection = selection_of_box(box);
    struct read_counts counts = {0};
    const struct read_target target = {data, raw->dataset->dtype, NULL, &counts};
    return rawread_selected(raw, &selection, &target, NULL, NULL, error);
}

enum status rawread_selected(struct rawread *raw, const struct selection *selection, const struct read_target *target,
                             const struct rawread_visitor *visitor, struct trace *trace, struct error *error) {
    struct reading reading = {.raw = raw, .visitor = visitor, .trace = trace, .target = target};
    enum status status = STATUS_OK;
    pthread_mutex_init(&reading.mutex, NULL);
    if (raw->chunks) {
        reading.cells = layout_cells(selection, &raw->extent, &raw->chunk);
        status = look_up_chunks(&reading);
        if (!status)
            workers_run(reading.cells.count < raw->lanes.count ? reading.cells.count : raw->lanes.count, read_lane,
                        &reading);
    } else {
        reading.rows = layout_rows(selection, &raw->extent, false, PIECE_BYTES / raw->size);
        int64_t limit = atomic_load(&contiguous_threads), pieces = reading.rows.pieces;
        workers_run(limit > 0 && limit < pieces ? limit : pieces, read_rows, &reading);
    }
    if (reading.failure.status) status = fail(error, reading.failure.status, "%s", reading.failure.text);
    if (target) read_counts_add(target->counts, &reading.counts);
    pthread_mutex_destroy(&reading.mutex);
    return status;
}

enum status rawread_check_chunks(struct rawread *raw, const struct selection *selection, struct error *error) {
    struct selection axes = *selection;
    axes.rank = raw->extent.rank;
    return rawread_selected(raw, &axes, NULL, NULL, NULL, error);
}
