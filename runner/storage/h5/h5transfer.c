/* h5transfer.c - reads and writes boxes of data sets by HDF5, one thread at a time. */
#define H5_USE_110_API
#include "../../../kernels/core/cut.h"

#include "../../base/fail.h"
#include "../elements/layout.h"
#include "h5type.h"
#include <pthread.h>
#include <stdlib.h>

enum { ARRAYS_BYTES = 16 << 20 }; /* bytes of array elements that are read at a time */

typedef herr_t transfer_function(hid_t dataset, hid_t type, hid_t memory_space, hid_t file_space, void *data);

static herr_t transfer_read(hid_t dataset, hid_t type, hid_t memory_space, hid_t file_space, void *data) {
    return H5Dread(dataset, type, memory_space, file_space, H5P_DEFAULT, data);
}

static herr_t transfer_write(hid_t dataset, hid_t type, hid_t memory_space, hid_t file_space, void *data) {
    return H5Dwrite(dataset, type, memory_space, file_space, H5P_DEFAULT, data);
}

/* Fails with the names of the data set and its file, and the HDF5 error text. */
static enum status transfer_failed(const struct h5_dataset *dataset, const char *call, struct error *error) {
    const char *reason = h5_error_text();
    char name[256] = "", file[512] = "";
    H5Iget_name(dataset->id, name, sizeof name);
    H5Fget_name(dataset->id, file, sizeof file);
    return fail(error, STATUS_IO, "'%s' in %s: %s failed: %s", name, file, call, reason);
}

/* The memory type. If the file has the bits of the dtype, it is the type of the file in this machine's byte order, so
 * that bits, padding included, are transferred unchanged. */
static hid_t memory_type(const struct h5_dataset *dataset) {
    if (dataset->memory >= 0) return H5Tcopy(dataset->memory);
    hid_t stored = H5Dget_type(dataset->id), type = H5Tcopy(stored);
    H5Tset_order(type, H5T_ORDER_LE);
    H5Tclose(stored);
    return type;
}

/* Transfers whole elements: a selection of the own axes of the data set. */
static enum status transfer(struct h5_dataset *dataset, const struct selection *selection, void *data,
                            transfer_function *function, const char *name, struct error *error) {
    struct box packed = selection_packed(selection);
    if (box_elements(&packed) == 0) return STATUS_OK;
    if (function == transfer_read && dataset->read) function = dataset->read;
    hsize_t start[MAX_RANK] = {0}, count[MAX_RANK] = {0}, step[MAX_RANK] = {0};
    int rank = selection->rank;
    for (int i = 0; i < rank; i++) {
        start[i] = (hsize_t)selection->start[i];
        count[i] = (hsize_t)selection->count[i];
        step[i] = (hsize_t)selection->step[i];
    }
    hid_t type = memory_type(dataset), file_space = H5Dget_space(dataset->id);
    hid_t memory_space = rank ? H5Screate_simple(rank, count, NULL) : H5Screate(H5S_SCALAR);
    herr_t result = 0;
    if (rank) result = H5Sselect_hyperslab(file_space, H5S_SELECT_SET, start, step, count, NULL);
    if (result >= 0) result = function(dataset->id, type, memory_space, file_space, data);
    enum status status = result < 0 ? transfer_failed(dataset, name, error) : STATUS_OK;
    H5Sclose(memory_space);
    H5Sclose(file_space);
    H5Tclose(type);
    return status;
}

/* Reads elements that are arrays: whole elements pass through memory of bounded size. */
static enum status read_arrays(struct h5_dataset *dataset, const struct selection *selection, void *data,
                               struct error *error) {
    struct selection own = *selection, within = {.rank = dataset->inner};
    struct shape inner = {.rank = dataset->inner};
    own.rank -= dataset->inner;
    for (int axis = 0; axis < inner.rank; axis++) {
        inner.size[axis] = dataset->shape.size[own.rank + axis];
        within.start[axis] = selection->start[own.rank + axis];
        within.count[axis] = selection->count[own.rank + axis];
        within.step[axis] = selection->step[own.rank + axis];
    }
    int64_t size = (int64_t)dtype_size(dataset->dtype), element_bytes = shape_elements(&inner) * size;
    struct box packed = selection_packed(&own), taken = selection_packed(&within);
    struct cut cut = cut_box(&packed, NULL, element_bytes < ARRAYS_BYTES ? ARRAYS_BYTES / (element_bytes + 1) : 1);
    if (box_elements(&packed) == 0 || box_elements(&taken) == 0) return STATUS_OK;
    if (box_elements(&taken) == shape_elements(&inner))
        return transfer(dataset, &own, data, transfer_read, "H5Dread", error);
    struct cells cells = layout_cells(&within, &inner, &inner);
    struct cell cell = layout_cell(&cells, 0);
    struct walk walk = layout_cell_walk(&cells, &cell, false);
    char *to = data, *memory = NULL;
    enum status status = STATUS_OK;
    for (int64_t number = 0; number < cut.pieces && !status; number++) {
        struct box piece = cut_piece(&cut, number);
        struct selection some = own;
        for (int axis = 0; axis < own.rank; axis++) {
            some.start[axis] += piece.start[axis] * own.step[axis];
            some.count[axis] = piece.count[axis];
        }
        int64_t elements = box_elements(&piece);
        if (!memory) memory = malloc((size_t)(elements * element_bytes)); /* no later piece is larger */
        if (!memory)
            return fail(error, STATUS_IO, "not enough memory for elements of %lld bytes, which are arrays",
                        (long long)element_bytes);
        status = transfer(dataset, &some, memory, transfer_read, "H5Dread", error);
        for (int64_t row = 0; row < elements * walk.rows && !status; row++) {
            int64_t from, at, element = row / walk.rows;
            layout_row(&walk, row % walk.rows, &from, &at);
            layout_gather(memory + element * element_bytes + from * size, walk.length, walk.step, (size_t)size,
                          to + (element * box_elements(&taken) + at) * size);
        }
        to += elements * box_elements(&taken) * size;
    }
    free(memory);
    return status;
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
    h5_lock();
    enum status status = h5_fail_write(dataset->id, *dataset->write_failure, error);
    h5_unlock();
    return status;
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
    struct error unreadable = {STATUS_OK, ""};
    h5_lock();
    enum status status = dataset->inner ? read_arrays(dataset, selection, data, &unreadable)
                                        : transfer(dataset, selection, data, transfer_read, "H5Dread", &unreadable);
    h5_unlock();
    TRY(h5_check_writes(dataset, error)); /* bytes that were never written are arbitrary, or fail their checksum */
    return status ? fail(error, status, "%s", unreadable.text) : STATUS_OK;
}

enum status h5_write(struct h5_dataset *dataset, const struct box *box, const void *data, struct error *error) {
    struct selection selection = selection_of_box(box);
    h5_lock();
    enum status status = transfer(dataset, &selection, (void *)data, transfer_write, "H5Dwrite", error);
    h5_unlock();
    return status ? status : h5_check_writes(dataset, error);
}
