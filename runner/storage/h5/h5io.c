/* h5io.c - creates and closes data sets; reads and writes boxes of them by HDF5, one thread at a time. */
#include "h5io.h"
#include "../../../kernels/core/cpu.h"
#include "../../../kernels/core/cut.h"
#include "../elements/layout.h"
#include "filters.h"
#include "h5file.h"
#include "h5slab.h"
#include "h5type.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_BYTES = 1 << 20,  /* most bytes of a chunk that h5_chunk chooses */
    ALIGNED = 64,           /* sides of such a chunk that are longer are multiples of this */
    CACHE_BYTES = 64 << 20, /* largest chunk cache of a data set, unless one chunk is larger */
    CACHE_SLOTS = 10007,    /* a prime, about 100 times the chunks that fit, as the HDF5 manual advises */
};

struct shape h5_dataset_axes(const struct h5_dataset *dataset, const struct shape *shape) {
    struct shape axes = *shape;
    if (axes.rank) axes.rank -= dataset->inner;
    return axes;
}

void h5_close(struct h5_dataset **closed) {
    struct h5_dataset *dataset = *closed;
    *closed = NULL;
    if (!dataset) return;
    const hid_t ids[] = {dataset->memory, dataset->creation, dataset->id, dataset->file};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) h5_release_id(&ids[i]);
    free(dataset);
}

/* The cache holds one band of chunks: boxes seldom end at chunk boundaries, and the next box needs these chunks
 * again. */
hid_t h5_cache_access(size_t element, const struct shape *shape, const struct shape *chunk) {
    hid_t access = H5Pcreate(H5P_DATASET_ACCESS);
    double chunk_bytes = (double)element, band_bytes;
    for (int i = 0; i < chunk->rank; i++) chunk_bytes *= (double)chunk->size[i];
    band_bytes = chunk_bytes;
    for (int i = 1; i < chunk->rank; i++) band_bytes *= ceil((double)shape->size[i] / (double)chunk->size[i]);
    if (band_bytes > CACHE_BYTES) band_bytes = CACHE_BYTES;
    if (band_bytes < chunk_bytes) band_bytes = chunk_bytes;
    if (band_bytes < CHUNK_BYTES) band_bytes = CHUNK_BYTES;
    H5Pset_chunk_cache(access, CACHE_SLOTS, (size_t)band_bytes, H5D_CHUNK_CACHE_W0_DEFAULT);
    return access;
}

/* Shrinks a chunk to what leaves its axis in as many chunks: the last chunk of each axis is stored whole. */
static struct shape even_chunk(struct shape chunk, const struct shape *shape) {
    for (int axis = 0; axis < chunk.rank; axis++) {
        int64_t chunks = ceil_div(shape->size[axis], chunk.size[axis]);
        int64_t size = ceil_div(shape->size[axis], chunks), unit = size < ALIGNED ? 1 : ALIGNED;
        chunk.size[axis] = min_int64(chunk.size[axis], ceil_div(size, unit) * unit);
    }
    return chunk;
}

/* Chooses a chunk of at most CHUNK_BYTES: square in the last two axes and, if the array is too small for that, longer
 * in the other axes. The shape has at least one axis, and none is empty. */
static struct shape choose_chunk(enum dtype dtype, const struct shape *shape) {
    struct shape chunk = {.rank = shape->rank, .size = {1, 1, 1, 1, 1, 1, 1, 1}};
    int64_t elements_left = CHUNK_BYTES / (int64_t)dtype_size(dtype), side = 1;
    while (4 * side * side <= elements_left) side *= 2;
    int last = shape->rank - 1, last_but_one = shape->rank - 2;
    if (shape->rank == 1) {
        chunk.size[last] = min_int64(shape->size[last], elements_left);
        return even_chunk(chunk, shape);
    }
    chunk.size[last] = min_int64(shape->size[last], side);
    chunk.size[last_but_one] = min_int64(shape->size[last_but_one], elements_left / chunk.size[last]);
    chunk.size[last] = min_int64(shape->size[last], elements_left / chunk.size[last_but_one]); /* rows are few */
    elements_left /= chunk.size[last_but_one] * chunk.size[last];
    for (int axis = last_but_one - 1; axis >= 0; axis--) {
        chunk.size[axis] = min_int64(shape->size[axis], elements_left);
        elements_left /= chunk.size[axis];
    }
    return even_chunk(chunk, shape);
}

bool h5_filtered(const struct h5_layout *layout) {
    return layout->compression || layout->shuffle || layout->fletcher32;
}

struct shape h5_chunk(enum dtype dtype, const struct shape *shape, const struct h5_layout *layout) {
    if (shape->rank == 0 || shape_elements(shape) == 0 || (!h5_filtered(layout) && layout->chunk.rank == 0))
        return (struct shape){.rank = 0};
    struct shape chunk = layout->chunk.rank ? layout->chunk : choose_chunk(dtype, shape);
    for (int i = 0; i < chunk.rank && i < shape->rank; i++) chunk.size[i] = min_int64(chunk.size[i], shape->size[i]);
    return chunk;
}

/* The creation properties of a new data set; chunk->rank 0: contiguous. The caller closes them. */
static hid_t creation_properties(enum dtype dtype, const struct shape *chunk, const struct h5_layout *layout) {
    hid_t creation = h5_creation(H5P_DATASET_CREATE);
    H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER); /* every element will be written */
    /* Chunks without filters have known sizes, so HDF5 can allocate them now; rawwrite.c writes to these addresses
     * itself. */
    if (chunk->rank == 0 || !h5_filtered(layout)) H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY);
    if (chunk->rank == 0) return creation;
    hsize_t size[MAX_RANK];
    for (int i = 0; i < chunk->rank; i++) size[i] = (hsize_t)chunk->size[i];
    H5Pset_chunk(creation, chunk->rank, size);
    if (layout->shuffle) H5Pset_shuffle(creation);
    filters_add_compressor(creation, layout, (size_t)shape_elements(chunk) * dtype_size(dtype));
    if (layout->fletcher32) H5Pset_fletcher32(creation);
    return creation;
}

enum status h5_create(hid_t file, const char *path, enum dtype dtype, const struct shape *shape,
                      const struct h5_layout *layout, struct h5_dataset **result, struct error *error) {
    *result = NULL;
    if (layout->chunk.rank && layout->chunk.rank != shape->rank) {
        char text[SHAPE_TEXT];
        return fail(error, STATUS_USAGE, "chunks names %d axes, but %s has shape %s", layout->chunk.rank, path,
                    shape_format(shape, text));
    }
    struct shape chunk = h5_chunk(dtype, shape, layout);
    OWNED_ID hid_t creation = creation_properties(dtype, &chunk, layout);
    OWNED_ID hid_t access = h5_cache_access(dtype_size(dtype), shape, &chunk), type = h5_type(dtype);
    OWNED_ID hid_t space = h5_space(shape->rank, shape->size);
    hid_t id;
    TRY(h5_create_id(file, path, type, space, creation, access, &id, error));

    int *failure;
    h5_descriptor(id, &failure);
    *result = must_malloc(sizeof **result);
    **result = (struct h5_dataset){.file = H5I_INVALID_HID,
                                   .id = id,
                                   .dtype = dtype,
                                   .shape = *shape,
                                   .chunk = chunk,
                                   .plain = true,
                                   .element = dtype_size(dtype),
                                   .memory = H5I_INVALID_HID,
                                   .creation = H5Dget_create_plist(id),
                                   .write_failure = failure,
                                   .filtered = chunk.rank && h5_filtered(layout)};
    return STATUS_OK;
}

/* ---- transfers --------------------------------------------------------------------------------------------------- */

enum { ARRAYS_BYTES = 16 << 20 }; /* bytes of array elements that are read at a time */

/* Fails with the names of the data set and its file, and the HDF5 error text; of a filter that is missing, which
 * filters_needed does not see if only later chunks need it, with what to install. */
static enum status transfer_failed(const struct h5_dataset *dataset, const char *call, struct error *error) {
    const char *reason = h5_error_text();
    char name[256] = "", file[512] = "";
    H5Iget_name(dataset->id, name, sizeof name);
    H5Fget_name(dataset->id, file, sizeof file);
    bool lacks_filter = strstr(reason, "is not registered");
    for (unsigned i = 0; lacks_filter && (int)i < H5Pget_nfilters(dataset->creation); i++) {
        OWNED char *missing = filters_missing(dataset->creation, i);
        if (missing) return fail(error, STATUS_IO, "'%s' in %s: a chunk is compressed by HDF5 %s", name, file, missing);
    }
    if (lacks_filter)
        return fail(
            error, STATUS_IO,
            "'%s' in %s: a chunk of a source is compressed by an HDF5 filter that is not installed here; `tilerun "
            "inspect` of the source's file names it",
            name, file);
    return fail(error, STATUS_IO, "'%s' in %s: %s failed: %s", name, file, call, reason);
}

/* The memory type. If the file has the bits of the dtype, it is the type of the file in this machine's byte order, so
 * that bits, padding included, are transferred unchanged. */
static hid_t memory_type(const struct h5_dataset *dataset) {
    if (dataset->memory >= 0) return H5Tcopy(dataset->memory);
    OWNED_ID hid_t stored = H5Dget_type(dataset->id);
    hid_t type = H5Tcopy(stored);
    H5Tset_order(type, H5T_ORDER_LE);
    return type;
}

void h5_fill(hid_t creation, hid_t type, hid_t memory_space, void *data) {
    size_t bytes = H5Tget_size(type);
    OWNED char *value = must_zeroed(bytes);
    if (H5Pget_fill_value(creation, type, value) < 0) memset(value, 0, bytes);
    H5Dfill(value, type, data, type, memory_space);
}

/* Does H5Dread leave memory unchanged for elements that were never written? In a virtual data set it may, because a
 * source may be such a data set. */
static bool leaves_gaps(const struct h5_dataset *dataset) {
    H5D_fill_time_t time = H5D_FILL_TIME_NEVER;
    H5Pget_fill_time(dataset->creation, &time);
    return time == H5D_FILL_TIME_NEVER || dataset->scattered;
}

/* Transfers whole elements. `selection` has the axes of the data set, without the array dimensions of its elements. */
static enum status transfer(const struct h5_dataset *dataset, const struct selection *selection, void *data, bool write,
                            struct error *error) {
    struct box packed = selection_packed(selection);
    if (box_elements(&packed) == 0) return STATUS_OK;
    OWNED_ID hid_t type = memory_type(dataset), file_space = H5Dget_space(dataset->id);
    OWNED_ID hid_t memory_space = h5_space(selection->rank, selection->count);
    herr_t result = h5_slab_select(file_space, selection);
    if (!write && leaves_gaps(dataset)) h5_fill(dataset->creation, type, memory_space, data);
    if (result >= 0 && write)
        result = H5Dwrite(dataset->id, type, memory_space, file_space, H5P_DEFAULT, data);
    else if (result >= 0 && dataset->read)
        result = dataset->read(dataset->id, type, memory_space, file_space, data);
    else if (result >= 0)
        result = H5Dread(dataset->id, type, memory_space, file_space, H5P_DEFAULT, data);
    return result < 0 ? transfer_failed(dataset, write ? "H5Dwrite" : "H5Dread", error) : STATUS_OK;
}

/* Reads a part of each element, which is an array. HDF5 can only read whole elements, so they are read piece by piece
 * into `memory`, and the selected part of each is copied to `data`. */
static enum status read_arrays(struct h5_dataset *dataset, const struct selection *selection, void *data,
                               struct error *error) {
    struct selection outer = *selection, part = {.rank = dataset->inner};
    struct shape inner = {.rank = dataset->inner};
    outer.rank -= dataset->inner;
    for (int axis = 0; axis < inner.rank; axis++) {
        inner.size[axis] = dataset->shape.size[outer.rank + axis];
        part.start[axis] = selection->start[outer.rank + axis];
        part.count[axis] = selection->count[outer.rank + axis];
        part.step[axis] = selection->step[outer.rank + axis];
    }
    int64_t size = (int64_t)dtype_size(dataset->dtype), element_bytes = shape_elements(&inner) * size;
    struct box packed = selection_packed(&outer), taken = selection_packed(&part);
    struct cut cut = cut_box(&packed, NULL, element_bytes < ARRAYS_BYTES ? ARRAYS_BYTES / (element_bytes + 1) : 1);
    if (box_elements(&packed) == 0 || box_elements(&taken) == 0) return STATUS_OK;
    if (box_elements(&taken) == shape_elements(&inner)) return transfer(dataset, &outer, data, false, error);
    struct chunk_cells cells = layout_cells(&part, &inner, &inner);
    struct chunk_cell cell = layout_cell(&cells, 0);
    struct walk walk = layout_cell_walk(&cells, &cell, false);
    char *to = data;
    OWNED char *memory = NULL;
    for (int64_t number = 0; number < cut.pieces; number++) {
        struct box piece = cut_piece(&cut, number);
        struct selection whole_elements = outer;
        for (int axis = 0; axis < outer.rank; axis++) {
            whole_elements.start[axis] += piece.start[axis] * outer.step[axis];
            whole_elements.count[axis] = piece.count[axis];
        }
        int64_t elements = box_elements(&piece);
        if (!memory) memory = try_malloc((size_t)(elements * element_bytes)); /* no later piece is larger */
        if (!memory)
            return fail(error, STATUS_IO, "not enough memory for elements of %lld bytes, which are arrays",
                        (long long)element_bytes);
        TRY(transfer(dataset, &whole_elements, memory, false, error));
        for (int64_t row = 0; row < elements * walk.rows; row++) {
            int64_t from, at, element = row / walk.rows;
            layout_row(&walk, row % walk.rows, &from, &at);
            layout_gather(memory + element * element_bytes + from * size, walk.length, walk.step, (size_t)size,
                          to + (element * box_elements(&taken) + at) * size);
        }
        to += elements * box_elements(&taken) * size;
    }
    return STATUS_OK;
}

static pthread_mutex_t library_mutex = PTHREAD_MUTEX_INITIALIZER;

void h5_lock(void) {
    pthread_mutex_lock(&library_mutex);
    h5_record_errors();
}

void h5_unlock(void) {
    pthread_mutex_unlock(&library_mutex);
}

enum status h5_check_writes(struct h5_dataset *dataset, struct error *error) {
    if (!dataset->write_failure || *dataset->write_failure == 0) return STATUS_OK;
    char path[512] = "";
    h5_lock();
    H5Fget_name(dataset->id, path, sizeof path);
    h5_unlock();
    return fail_write(error, path, *dataset->write_failure);
}

enum status h5_flush(struct h5_dataset *dataset, struct error *error) {
    h5_lock();
    bool flushed = H5Fflush(dataset->id, H5F_SCOPE_LOCAL) >= 0;
    enum status status = flushed ? STATUS_OK : FAIL_CALL(error, STATUS_IO, "H5Fflush", h5_error_text());
    h5_unlock();
    TRY(h5_check_writes(dataset, error)); /* gives a better message for a failed write */
    return status;
}

enum status h5_read(struct h5_dataset *dataset, const struct box *box, void *data, struct error *error) {
    struct selection selection = selection_of_box(box);
    return h5_read_selected(dataset, &selection, data, error);
}

enum status h5_read_selected(struct h5_dataset *dataset, const struct selection *selection, void *data,
                             struct error *error) {
    struct error unreadable = {.status = STATUS_OK};
    h5_lock();
    enum status status = dataset->inner ? read_arrays(dataset, selection, data, &unreadable)
                                        : transfer(dataset, selection, data, false, &unreadable);
    h5_unlock();
    TRY(h5_check_writes(dataset, error)); /* bytes that were never written are arbitrary, or fail their checksum */
    return status ? fail(error, status, "%s", unreadable.text) : STATUS_OK;
}

enum status h5_write(struct h5_dataset *dataset, const struct box *box, const void *data, struct error *error) {
    struct selection selection = selection_of_box(box);
    h5_lock();
    enum status status = transfer(dataset, &selection, (void *)data, true, error);
    h5_unlock();
    return status ? status : h5_check_writes(dataset, error);
}
