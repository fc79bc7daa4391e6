/* h5external.c - checks the files of external storage. Together they hold the elements in row-major order. */
#define H5_USE_110_API
#include "h5external.h"

#include "h5names.h"
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

/* The byte range of the data set that contains a selection; false: the selection is empty. */
static bool find_bytes(hid_t dataset, hid_t seen, hsize_t *from, hsize_t *to) {
    hsize_t first[H5S_MAX_RANK], last[H5S_MAX_RANK], size[H5S_MAX_RANK];
    int rank = H5Sget_simple_extent_dims(seen, size, NULL);
    hid_t type = H5Dget_type(dataset);
    hsize_t bytes = H5Tget_size(type), low = 0, high = 0;
    H5Tclose(type);
    if (H5Sget_select_npoints(seen) <= 0) return false;
    bool bounded = rank > 0 && H5Sget_select_bounds(seen, first, last) >= 0;
    for (int i = 0; bounded && i < rank; i++) {
        low = low * size[i] + first[i];
        high = high * size[i] + last[i];
    }
    *from = low * bytes;
    *to = (high + 1) * bytes;
    return true;
}

enum status h5_check_external(hid_t dataset, hid_t creation, const char *path, const char *name, hid_t seen,
                              struct error *error) {
    hsize_t from, to, begins = 0, bytes = 0;
    if (!find_bytes(dataset, seen, &from, &to)) return STATUS_OK;
    int count = H5Pget_external_count(creation);
    for (int i = 0; i < count && begins < to; i++, begins += bytes) {
        char file[PATH_MAX] = "";
        off_t offset;
        struct stat about;
        if (H5Pget_external(creation, (unsigned)i, sizeof file - 1, file, &offset, &bytes) < 0)
            return fail(error, STATUS_USAGE, "%s: '%s' has a list of external files that cannot be read", path, name);
        if (bytes == H5F_UNLIMITED) bytes = HSIZE_UNDEF - begins;
        if (begins + bytes <= from) continue;
        hsize_t needed = (hsize_t)offset + (to < begins + bytes ? to - begins : bytes);
        struct h5_names names = h5_names_external(path, file);
        bool there = stat(names.path[0], &about) == 0;
        if (!there)
            fail(error, STATUS_USAGE, "%s: '%s' is stored in %s, which is not there", path, name, names.path[0]);
        else if ((hsize_t)about.st_size < needed)
            fail(error, STATUS_USAGE, "%s: '%s' is stored in %s, which has %lld bytes of the %llu that are needed",
                 path, name, names.path[0], (long long)about.st_size, (unsigned long long)needed);
        h5_names_free(&names);
        if (error->status) return error->status;
    }
    return STATUS_OK;
}
