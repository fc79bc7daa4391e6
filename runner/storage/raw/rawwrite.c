/* rawwrite.c - writes boxes to contiguous and chunked data sets.
 *
 *     contiguous          rows are written to their addresses in the file
 *     chunks, plain       rows of each chunk are written to their addresses in it
 *     chunks, filtered    each worker gathers a chunk that the box covers, encodes it, lets HDF5 allocate space for it
 *                         and writes it there, while other workers encode; HDF5 writes parts of chunks
 *
 * Elements of another type are converted on the way, in blocks that fit into the first-level cache, or while their
 * chunk is gathered.
 *
 * Rows are written through a mapping if that is known to be fast and cannot fail for lack of space; else by pwrite. A
 * file takes pwrites one at a time (6 GB/s on the host of an H200, with any number of threads), but several threads can
 * write pages of a mapping at once (4 threads: 11.5 GB/s; 8 hinder each other: 2.2 GB/s; more if pages are populated
 * ahead, mapping.c). */
#include "rawwrite.h"

#include "../../base/fail.h"
#include "../../base/file_io.h"
#include "../../base/workers.h"
#include "../elements/layout.h"
#include "../h5/filters.h"
#include "../h5/h5file.h"
#include "mapping.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#define PIECE_BYTES (INT64_C(1) << 20) /* bytes that one pwrite writes, or one worker copies at a time */
#define BLOCK_BYTES (16 << 10)         /* bytes of a block of converted elements */
#define MAPPERS     4                  /* workers that write to one mapping */

struct rawwrite {
    struct h5_dataset *dataset;
    int descriptor, *failure;     /* the file's; errno of its first failed write (h5_descriptor) */
    bool mappable;                /* blocks are allocated, and the file system writes mappings fast */
    struct file_mapping *mapping; /* maps all unfiltered data; NULL: pwrite is used */
    int64_t size;                 /* bytes of an element */
    haddr_t address;              /* contiguous */
    haddr_t *addresses;           /* addresses of unfiltered chunks, in row-major order of the grid */
    int64_t chunk_bytes;          /* bytes of an unencoded chunk; 0: contiguous */
    struct filters filters;
    struct filter_lanes lanes; /* filtered chunks only */
};

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Is the file on a local file system? Writing through a mapping is slow over a network. */
static bool is_local(int descriptor) {
    struct statfs about;
    if (fstatfs(descriptor, &about) != 0) return false;
    return about.f_type == EXT4_SUPER_MAGIC || about.f_type == XFS_SUPER_MAGIC || about.f_type == BTRFS_SUPER_MAGIC ||
           about.f_type == TMPFS_MAGIC;
}

/* Allocates disk blocks for space that HDF5 has allocated, so that writes need not allocate blocks one by one and
 * cannot run out of space. Does nothing on a file system without fallocate. */
static void allocate_blocks(struct rawwrite *raw, haddr_t address, int64_t bytes) {
    int failed;
    do failed = fallocate(raw->descriptor, 0, (off_t)address, (off_t)bytes);
    while (failed && errno == EINTR);
    if (!failed) return;
    raw->mappable = false;
    bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO;
    if (full && *raw->failure == 0) *raw->failure = errno;
}

/* Asks HDF5 for the address of every chunk, and has the file system allocate its blocks. */
static enum status place_chunks(struct rawwrite *raw, struct error *error) {
    const struct shape *shape = &raw->dataset->shape;
    struct box full = box_whole(shape);
    struct selection all = selection_of_box(&full);
    struct chunk_cells cells = layout_cells(&all, shape, &raw->dataset->chunk);
    raw->addresses = must_malloc((unsigned long)cells.count * sizeof *raw->addresses);
    for (int64_t number = 0; number < cells.count; number++) {
        struct chunk_cell cell = layout_cell(&cells, number);
        struct h5_chunk_location location;
        hsize_t corner[MAX_RANK];
        for (int axis = 0; axis < shape->rank; axis++) corner[axis] = (hsize_t)cell.corner[axis];
        TRY(h5_find_chunk(raw->dataset->id, corner, &location, error));
        if (location.address == HADDR_UNDEF)
            return FAIL_CALL(error, STATUS_IO, "H5Dcreate2", "HDF5 allocated no space for a chunk");
        raw->addresses[number] = location.address;
        allocate_blocks(raw, raw->addresses[number], raw->chunk_bytes);
    }
    return STATUS_OK;
}

/* Extends a range of the file to the bytes of a chunk. */
static void include_chunk(const struct rawwrite *raw, int64_t number, haddr_t *begin, haddr_t *end) {
    const haddr_t chunk = raw->addresses[number], after = chunk + (haddr_t)raw->chunk_bytes;
    if (chunk < *begin) *begin = chunk;
    if (after > *end) *end = after;
}

/* Maps the file from the data set's first byte to its last. `bytes`: size of a contiguous data set. `ahead`: how far
 * pages are populated before the writes (mapping.h); chunks are not written in the order of the file, so it is 0. */
static void map_file(struct rawwrite *raw, int64_t bytes, int64_t ahead) {
    int64_t chunks = raw->addresses ? layout_chunks(&raw->dataset->shape, &raw->dataset->chunk) : 0;
    haddr_t begin = chunks > 0 ? HADDR_MAX : raw->address, end = chunks > 0 ? 0 : begin + (haddr_t)bytes;
    for (int64_t number = 0; number < chunks; number++) include_chunk(raw, number, &begin, &end);
    if (raw->mappable) raw->mapping = mapping_open(raw->descriptor, begin, (int64_t)(end - begin), chunks ? 0 : ahead);
}

enum status rawwrite_open(struct h5_dataset *dataset, int64_t ahead, struct rawwrite **result, struct error *error) {
    *result = NULL;
    int64_t bytes = shape_elements(&dataset->shape) * (int64_t)dtype_size(dataset->dtype);
    if (dataset->shape.rank == 0 || bytes == 0) return STATUS_OK;
    FREED_BY(rawwrite_close) struct rawwrite *raw = must_malloc(sizeof *raw);
    *raw = (struct rawwrite){.dataset = dataset, .size = (int64_t)dtype_size(dataset->dtype)};
    raw->descriptor = h5_descriptor(dataset->id, &raw->failure);
    raw->mappable = is_local(raw->descriptor);
    if (dataset->chunk.rank > 0) raw->chunk_bytes = raw->size * shape_elements(&dataset->chunk);
    if (dataset->filtered) {
        filters_find(dataset->creation, &raw->filters); /* h5_create chose them, so all are supported */
        raw->lanes = filter_lanes_create(raw->chunk_bytes);
    } else if (dataset->chunk.rank > 0) {
        TRY(place_chunks(raw, error));
    } else {
        raw->address = H5Dget_offset(dataset->id);
        if (raw->address == HADDR_UNDEF) return FAIL_CALL(error, STATUS_IO, "H5Dget_offset", h5_error_text());
        allocate_blocks(raw, raw->address, bytes);
    }
    TRY(h5_check_writes(dataset, error));
    if (!dataset->filtered) map_file(raw, bytes, ahead);
    *result = disown(&raw);
    return STATUS_OK;
}

void rawwrite_close(struct rawwrite **closed) {
    struct rawwrite *raw = *closed;
    *closed = NULL;
    if (!raw) return;
    filter_lanes_free(&raw->lanes);
    mapping_close(raw->mapping);
    free(raw->addresses);
    free(raw);
}

/* ---- writing: all kinds of storage ------------------------------------------------------------------------------- */

/* One call of rawwrite_write. */
struct writing {
    struct rawwrite *raw;
    struct trace *trace;
    const struct write_source *source;
    bool converts;            /* the source has another type than the data set */
    struct rows rows;         /* contiguous */
    struct chunk_cells cells; /* chunked */
    atomic_llong next;        /* next piece or cell */
    atomic_int failure;       /* errno of a failure; 0: none */
    pthread_mutex_t mutex;    /* held while a filtered chunk is written; guards `error` and the casts of the source */
    struct error error;       /* first failure of HDF5 */
};

/* Writes bytes through the mapping or by pwrite; keeps the errno of a failure, after which pwrites are left out. */
static void write_bytes(struct writing *writing, const char *from, int64_t bytes, haddr_t address) {
    if (writing->raw->mapping) {
        if (!mapping_write(writing->raw->mapping, address, from, bytes)) writing->failure = EIO;
        return;
    }
    if (writing->failure) return;
    int failure = file_write_at(writing->raw->descriptor, from, (size_t)bytes, (off_t)address);
    if (failure) writing->failure = failure;
}

/* Returns the address of element number `index` of the source. */
static const char *source_at(const struct writing *writing, int64_t index) {
    return (const char *)writing->source->data + index * (int64_t)dtype_size(writing->source->dtype);
}

/* Converts elements of the source to the type of the data set. */
static void convert_source(const struct writing *writing, int64_t index, int64_t count, char *to, struct casts *casts) {
    convert_elements(writing->source->dtype, source_at(writing, index), count, writing->raw->dataset->dtype, to, casts);
}

/* Writes `count` elements of the source, from element `index` on, to `address` in the file. */
static void write_elements(struct writing *writing, int64_t index, int64_t count, haddr_t address,
                           struct casts *casts) {
    int64_t size = writing->raw->size, block_elements = BLOCK_BYTES / size;
    char block[BLOCK_BYTES];
    if (!writing->converts) {
        write_bytes(writing, source_at(writing, index), count * size, address);
        return;
    }
    for (int64_t at = 0; at < count; at += block_elements) {
        int64_t some = count - at < block_elements ? count - at : block_elements;
        convert_source(writing, index + at, some, block, casts);
        write_bytes(writing, block, some * size, address + (haddr_t)(at * size));
    }
}

/* Adds a thread's conversion losses to those of the source. */
static void add_casts(struct writing *writing, const struct casts *casts) {
    if (!writing->converts) return;
    pthread_mutex_lock(&writing->mutex);
    casts_add(writing->source->casts, casts);
    pthread_mutex_unlock(&writing->mutex);
}

/* The work of one thread: takes pieces of a contiguous data set until none is left, and writes their runs. */
static void write_rows(void *context, int64_t lane, int thread) {
    (void)lane;
    (void)thread;
    struct writing *writing = context;
    const struct rawwrite *raw = writing->raw;
    struct casts casts = {0};
    for (int64_t piece; (piece = atomic_fetch_add(&writing->next, 1)) < writing->rows.pieces;) {
        struct row_run run;
        for (int64_t number = 0; layout_run(&writing->rows, piece, number, &run); number++)
            write_elements(writing, run.in_box, run.elements, raw->address + (haddr_t)(run.in_array * raw->size),
                           &casts);
    }
    add_casts(writing, &casts);
}

/* The work of one thread: takes chunks without filters until none is left, and writes the rows that the box has in
 * them. */
static void write_plain_chunks(void *context, int64_t lane, int thread) {
    (void)lane;
    (void)thread;
    struct writing *writing = context;
    int64_t size = writing->raw->size;
    struct casts casts = {0};
    for (int64_t number; (number = atomic_fetch_add(&writing->next, 1)) < writing->cells.count;) {
        struct chunk_cell cell = layout_cell(&writing->cells, number);
        struct walk walk = layout_cell_walk(&writing->cells, &cell, true);
        for (int64_t row = 0; row < walk.rows; row++) {
            int64_t in_chunk, in_box;
            layout_row(&walk, row, &in_chunk, &in_box);
            write_elements(writing, in_box, walk.length,
                           writing->raw->addresses[cell.number] + (haddr_t)(in_chunk * size), &casts);
        }
    }
    add_casts(writing, &casts);
}

/* Finds the range of the file that contains the bytes of a box. */
static void find_span(const struct writing *writing, haddr_t *begin, haddr_t *end) {
    const struct rawwrite *raw = writing->raw;
    *begin = HADDR_MAX;
    *end = 0;
    for (int64_t number = 0; number < writing->cells.count; number++)
        include_chunk(raw, layout_cell(&writing->cells, number).number, begin, end);
    if (raw->chunk_bytes > 0) return;
    struct row_run first, run = {0};
    layout_run(&writing->rows, 0, 0, &first);
    for (int64_t number = 0; layout_run(&writing->rows, writing->rows.pieces - 1, number, &run);) number++;
    *begin = raw->address + (haddr_t)(first.in_array * raw->size);
    *end = raw->address + (haddr_t)((run.in_array + run.elements) * raw->size);
}

/* Writes unfiltered data by `work`, in as many threads as help: copying to a mapping and converting do, pwrite does
 * not. */
static void write_plain(struct writing *writing, void (*work)(void *context, int64_t lane, int thread)) {
    struct file_mapping *mapping = writing->raw->mapping;
    haddr_t begin, end;
    workers_run(mapping ? MAPPERS : writing->converts ? workers_count() : 1, work, writing);
    if (!mapping) return;
    find_span(writing, &begin, &end);
    mapping_written(mapping, begin, end);
}

/* ---- filtered ---------------------------------------------------------------------------------------------------- */

/* Keeps the first failure of HDF5. */
static void keep_error(struct writing *writing, const struct error *error) {
    pthread_mutex_lock(&writing->mutex);
    if (writing->error.status == STATUS_OK) writing->error = *error;
    pthread_mutex_unlock(&writing->mutex);
    writing->failure = EIO; /* stops all lanes */
}

static int64_t cell_bytes(const struct writing *writing, const struct chunk_cell *cell) {
    return layout_cell_elements(&writing->cells, cell) * writing->raw->size;
}

/* Gathers the elements that the box has in a chunk: one row after the other (`packed`), or each at its place in the
 * chunk, where bytes outside the data set are zero. NULL: out of memory. */
static char *gather_chunk(const struct writing *writing, const struct chunk_cell *cell, bool packed, int lane,
                          struct casts *casts) {
    const struct rawwrite *raw = writing->raw;
    const int64_t bytes = packed ? cell_bytes(writing, cell) : raw->chunk_bytes;
    char *decoded = filter_buffers_reserve(raw->lanes.buffers[lane], (size_t)bytes);
    if (decoded && cell_bytes(writing, cell) < bytes) memset(decoded, 0, (size_t)bytes);
    struct walk walk = layout_cell_walk(&writing->cells, cell, true);
    for (int64_t row = 0; decoded && row < walk.rows; row++) {
        int64_t in_chunk, in_box;
        layout_row(&walk, row, &in_chunk, &in_box);
        int64_t at = packed ? row * walk.length : in_chunk;
        convert_source(writing, in_box, walk.length, decoded + at * raw->size, casts);
    }
    return decoded;
}

/* Lets HDF5 allocate space for an encoded chunk of `bytes` bytes. */
static enum status place_chunk(const struct writing *writing, const struct chunk_cell *cell, size_t bytes,
                               haddr_t *address, struct error *error) {
    const struct h5_dataset *dataset = writing->raw->dataset;
    hsize_t corner[MAX_RANK];
    int rank = dataset->shape.rank;
    for (int axis = 0; axis < rank; axis++) corner[axis] = (hsize_t)cell->corner[axis];
    h5_lock();
    enum status status = h5_allocate_chunk(dataset->id, corner, bytes, address, error);
    h5_unlock();
    return status;
}

/* Gathers, encodes and writes a chunk that the box covers completely. Only the write holds the mutex. */
static void write_whole_chunk(struct writing *writing, const struct chunk_cell *cell, int lane, struct casts *casts) {
    struct rawwrite *raw = writing->raw;
    struct error error = {.status = STATUS_OK};
    size_t bytes = 0;
    haddr_t address = HADDR_UNDEF;
    double begin = range_begin(STAGE_DEFLATE);
    char *decoded = gather_chunk(writing, cell, false, lane, casts);
    const char *stored =
        decoded ? filters_encode(&raw->filters, raw->lanes.buffers[lane], (size_t)raw->chunk_bytes, &bytes) : NULL;
    trace_span(writing->trace, STAGE_DEFLATE, lane, -1, raw->chunk_bytes, begin, range_end());
    if (!stored) {
        writing->failure = ENOMEM;
    } else if (place_chunk(writing, cell, bytes, &address, &error)) {
        keep_error(writing, &error);
    } else {
        pthread_mutex_lock(&writing->mutex); /* pwrites to one file do not run in parallel */
        write_bytes(writing, stored, (int64_t)bytes, address);
        pthread_mutex_unlock(&writing->mutex);
    }
}

/* Lets HDF5 write a part of a chunk: it can change an encoded chunk, and caches chunks for that. */
static void write_partial_chunk(struct writing *writing, const struct chunk_cell *cell, int lane, struct casts *casts) {
    struct rawwrite *raw = writing->raw;
    struct error error = {.status = STATUS_OK};
    struct box box = {.rank = raw->dataset->shape.rank};
    for (int axis = 0; axis < box.rank; axis++) {
        box.start[axis] = cell->corner[axis] + cell->in_chunk[axis];
        box.count[axis] = cell->count[axis];
    }
    char *packed = gather_chunk(writing, cell, true, lane, casts);
    if (!packed)
        writing->failure = ENOMEM;
    else if (h5_write(raw->dataset, &box, packed, &error))
        keep_error(writing, &error);
}

/* The work of one lane: takes filtered chunks until none is left or a write has failed. */
static void write_filtered(void *context, int64_t lane, int thread) {
    (void)thread;
    struct writing *writing = context;
    struct casts casts = {0};
    for (int64_t number; (number = atomic_fetch_add(&writing->next, 1)) < writing->cells.count;) {
        struct chunk_cell cell = layout_cell(&writing->cells, number);
        if (writing->failure) break;
        if (cell.covers_chunk)
            write_whole_chunk(writing, &cell, (int)lane, &casts);
        else
            write_partial_chunk(writing, &cell, (int)lane, &casts);
    }
    add_casts(writing, &casts);
}

enum status rawwrite_write(struct rawwrite *raw, const struct box *box, const struct write_source *source,
                           struct trace *trace, struct error *error) {
    const struct h5_dataset *dataset = raw->dataset;
    struct writing writing = {
        .raw = raw, .trace = trace, .source = source, .converts = source->dtype != dataset->dtype};
    struct selection selection = selection_of_box(box);
    pthread_mutex_init(&writing.mutex, NULL);
    if (raw->chunk_bytes > 0) writing.cells = layout_cells(&selection, &dataset->shape, &dataset->chunk);
    if (dataset->filtered) {
        workers_run(writing.cells.count < raw->lanes.count ? writing.cells.count : raw->lanes.count, write_filtered,
                    &writing);
    } else if (raw->chunk_bytes > 0) {
        write_plain(&writing, write_plain_chunks);
    } else {
        writing.rows = layout_rows(&selection, &dataset->shape, true, PIECE_BYTES / raw->size);
        write_plain(&writing, write_rows);
    }
    pthread_mutex_destroy(&writing.mutex);
    if (writing.error.status) return fail(error, writing.error.status, "%s", writing.error.text);
    if (writing.failure && *raw->failure == 0) *raw->failure = writing.failure;
    return h5_check_writes(raw->dataset, error);
}
