/* h5io.c - creates and closes data sets. */
#define H5_USE_110_API /* later libraries keep the signatures of 1.10 under this name */
#include "h5io.h"

#include "../../../kernels/core/cpu.h"

#include "../../base/fail.h"
#include "../../base/text.h"
#include "filters.h"
#include "h5type.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_BYTES = 1 << 20,  /* size of a chunk that h5_chunk chooses */
    CACHE_BYTES = 64 << 20, /* largest chunk cache of a data set, unless one chunk is larger */
    CACHE_SLOTS = 10007,    /* a prime, about 100 times the chunks that fit, as the HDF5 manual advises */
};

struct shape h5_dataset_axes(const struct h5_dataset *dataset, const struct shape *shape) {
    struct shape own = *shape;
    if (own.rank) own.rank -= dataset->inner;
    return own;
}

void h5_close(struct h5_dataset *dataset) {
    if (!dataset) return;
    if (dataset->memory >= 0) H5Tclose(dataset->memory);
    if (dataset->creation >= 0) H5Pclose(dataset->creation);
    if (dataset->id >= 0) H5Dclose(dataset->id);
    if (dataset->file >= 0) H5Fclose(dataset->file);
    free(dataset);
}

/* Boxes seldom end at chunk boundaries. A cache of one band of chunks avoids decoding them again for the next box. */
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

/* Chooses a chunk of about CHUNK_BYTES: square in the last two axes and, if the array is too small for that, longer in
 * the other axes. */
static struct shape choose_chunk(enum dtype dtype, const struct shape *shape) {
    struct shape chunk = {.rank = shape->rank, .size = {1, 1, 1, 1, 1, 1, 1, 1}};
    int64_t room = CHUNK_BYTES / (int64_t)dtype_size(dtype), side = 1;
    while (4 * side * side <= room) side *= 2;
    int columns = shape->rank - 1, rows = shape->rank - 2;
    if (rows < 0) {
        chunk.size[columns] = min_int64(shape->size[columns], room);
        return chunk;
    }
    chunk.size[columns] = min_int64(shape->size[columns], side);
    chunk.size[rows] = min_int64(shape->size[rows], room / chunk.size[columns]);
    chunk.size[columns] = min_int64(shape->size[columns], room / chunk.size[rows]);
    room /= chunk.size[rows] * chunk.size[columns];
    for (int axis = rows - 1; axis >= 0; axis--) {
        chunk.size[axis] = min_int64(shape->size[axis], room);
        room /= chunk.size[axis];
    }
    return chunk;
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
    const char *name = strrchr(path, '/');
    char *parent = must_strdup(path);
    parent[name ? name - path : 0] = '\0';
    hid_t group = H5I_INVALID_HID;
    enum status status = h5_group(file, parent, &group, error);
    free(parent);
    if (status) return status;

    hsize_t size[MAX_RANK];
    for (int i = 0; i < shape->rank; i++) size[i] = (hsize_t)shape->size[i];
    struct shape chunk = h5_chunk(dtype, shape, layout);
    hid_t creation = creation_properties(dtype, &chunk, layout);
    hid_t access = h5_cache_access(dtype_size(dtype), shape, &chunk), type = h5_type(dtype);
    hid_t space = shape->rank ? H5Screate_simple(shape->rank, size, NULL) : H5Screate(H5S_SCALAR);
    hid_t id = H5Dcreate2(group, name ? name + 1 : path, type, space, H5P_DEFAULT, creation, access);
    if (id < 0) status = FAIL_CALL(error, STATUS_IO, "H5Dcreate2", h5_error_text());
    H5Sclose(space);
    H5Tclose(type);
    H5Pclose(access);
    H5Pclose(creation);
    H5Gclose(group);
    if (status) return status;

    *result = must_malloc(sizeof **result);
    **result = (struct h5_dataset){.file = H5I_INVALID_HID, .id = id, .dtype = dtype, .shape = *shape, .chunk = chunk};
    (*result)->plain = true;
    (*result)->element = dtype_size(dtype);
    (*result)->memory = H5I_INVALID_HID;
    (*result)->creation = H5Dget_create_plist(id);
    (*result)->write_failure = h5_write_failure(id);
    (*result)->filtered = chunk.rank && h5_filtered(layout);
    return STATUS_OK;
}
