/* h5claims.c - compares claims with the size of the file. */
#define H5_USE_110_API
#include "h5claims.h"

#include "../base/fail.h"
#include "../base/text.h"
#include <limits.h>
#include <math.h>
#include <sys/stat.h>

#define MANY_CHUNKS (INT64_C(1) << 20)

/* Bytes of the file that a data set lies in. */
static double file_bytes(hid_t dataset) {
    char path[PATH_MAX] = "";
    struct stat about;
    H5Fget_name(dataset, path, sizeof path);
    return stat(path, &about) == 0 ? (double)about.st_size : 0;
}

static enum status check_extent(const struct h5_dataset *dataset, double bytes, const char *path, const char *name,
                                struct error *error) {
    haddr_t address = H5Dget_offset(dataset->id);
    char text[32];
    if (address == HADDR_UNDEF || bytes == 0 || (double)address + bytes <= file_bytes(dataset->id)) return STATUS_OK;
    return fail(error, STATUS_USAGE, "%s: '%s' is damaged: of its %s some lie beyond the end of the file", path, name,
                size_text(bytes, text));
}

static enum status check_chunks(const struct h5_dataset *dataset, double file, const char *path, const char *name,
                                struct error *error) {
    double chunks = 1;
    for (int i = 0; i < dataset->shape.rank; i++)
        chunks *= (double)dataset->shape.size[i] / (double)dataset->chunk.size[i];
    if (chunks <= MANY_CHUNKS || chunks <= file) return STATUS_OK;
    return fail(error, STATUS_USAGE, "%s: '%s' claims %.3g chunks, more than the file has bytes; it is not read", path,
                name, chunks);
}

enum status h5_check_claims(const struct h5_dataset *dataset, const char *path, const char *name, double *held,
                            struct error *error) {
    double bytes = (double)shape_elements(&dataset->shape) * (double)dtype_size(dataset->dtype);
    double file = file_bytes(dataset->id);
    hid_t creation = H5Dget_create_plist(dataset->id);
    H5D_layout_t layout = H5Pget_layout(creation);
    bool elsewhere = layout == H5D_VIRTUAL || H5Pget_external_count(creation) > 0;
    H5Pclose(creation);
    *held = INFINITY;
    if (elsewhere) return STATUS_OK;
    if (layout == H5D_CONTIGUOUS) TRY(check_extent(dataset, bytes, path, name, error));
    if (layout == H5D_CHUNKED && bytes > 0) TRY(check_chunks(dataset, file, path, name, error));
    *held = fmin(file, (double)H5Dget_storage_size(dataset->id));
    return STATUS_OK;
}
