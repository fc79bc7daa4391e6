/* h5virtual.c - creates virtual data sets and iterates over their mappings. */
#include "h5virtual.h"

#include "../../base/fail.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static void to_hsize(int rank, const int64_t from[], hsize_t to[]) {
    for (int i = 0; i < rank; i++) to[i] = (hsize_t)from[i];
}

/* HDF5 replaces "%b" in a name by a number, and "%%" by a percent sign, so each "%" is doubled. The caller frees. */
static char *escape_percent(const char *name) {
    char *text = must_malloc(2 * strlen(name) + 1), *to = text;
    for (; *name; *to++ = *name++)
        if (*name == '%') *to++ = '%';
    *to = '\0';
    return text;
}

static enum status map_source(hid_t creation, hid_t space, const struct h5_source *source, struct error *error) {
    hsize_t start[MAX_RANK], count[MAX_RANK];
    to_hsize(source->place.rank, source->place.start, start);
    to_hsize(source->place.rank, source->place.count, count);
    hid_t from = H5Screate_simple(source->place.rank, count, NULL);
    char *file = escape_percent(source->file), *name = escape_percent(source->name);
    bool failed = from < 0 || H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) < 0 ||
                  H5Pset_virtual(creation, space, file, name, from) < 0;
    enum status status = failed ? FAIL_CALL(error, STATUS_IO, "H5Pset_virtual", h5_error_text()) : STATUS_OK;
    if (from >= 0) H5Sclose(from);
    free(name);
    free(file);
    return status;
}

enum status h5_create_virtual(hid_t file, const char *path, enum dtype dtype, const struct shape *shape,
                              const struct h5_source sources[], int count, struct error *error) {
    const char *name = strrchr(path, '/');
    char *parent = must_printf("%.*s", (int)(name - path), path);
    unsigned char missing_value[16];
    hid_t group = H5I_INVALID_HID;
    enum status status = h5_group(file, parent, &group, error);
    free(parent);
    if (status) return status;
    hsize_t size[MAX_RANK];
    to_hsize(shape->rank, shape->size, size);
    hid_t creation = h5_creation(H5P_DATASET_CREATE), type = h5_type(dtype);
    hid_t space = H5Screate_simple(shape->rank, size, NULL), id = H5I_INVALID_HID;
    memset(missing_value, 0xff, sizeof missing_value); /* NaN in all floating-point types */
    H5Pset_fill_value(creation, type, missing_value);
    for (int i = 0; i < count && !status; i++) status = map_source(creation, space, &sources[i], error);
    if (!status) {
        H5Sselect_all(space);
        id = H5Dcreate2(group, name + 1, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
        if (id < 0) status = FAIL_CALL(error, STATUS_IO, "H5Dcreate2", h5_error_text());
    }
    if (id >= 0) H5Dclose(id);
    H5Sclose(space);
    H5Tclose(type);
    H5Pclose(creation);
    H5Gclose(group);
    return status;
}

bool h5_is_virtual(hid_t dataset) {
    hid_t creation = H5Dget_create_plist(dataset);
    bool is = H5Pget_layout(creation) == H5D_VIRTUAL;
    H5Pclose(creation);
    return is;
}

bool h5_is_linked(hid_t file) {
    return H5Aexists(file, H5_LINKED) > 0;
}

/* May the mapping show a part of the selection? */
static bool overlaps(hid_t creation, size_t mapping, const struct selection *seen) {
    hsize_t first[H5S_MAX_RANK], last[H5S_MAX_RANK];
    hid_t space = H5Pget_virtual_vspace(creation, mapping);
    bool is = true, bounded = H5Sget_select_bounds(space, first, last) >= 0; /* an unlimited selection has no bounds */
    for (int axis = 0; bounded && axis < seen->rank; axis++)
        is = is && (int64_t)last[axis] >= seen->start[axis] &&
             (int64_t)first[axis] <= seen->start[axis] + (seen->count[axis] - 1) * seen->step[axis];
    H5Sclose(space);
    return is;
}

void h5_each_source(hid_t creation, const struct selection *seen,
                    bool (*visit)(void *context, const char *file, const char *dataset), void *context) {
    size_t count = 0;
    char file[2][PATH_MAX] = {"", ""},
         dataset[2][PATH_MAX] = {"", ""}; /* of this mapping and of the previous one, alternating */
    int now = 0;
    if (H5Pget_layout(creation) == H5D_VIRTUAL) H5Pget_virtual_count(creation, &count);
    for (size_t i = 0; i < count; i++) {
        if (seen && !overlaps(creation, i, seen)) continue;
        H5Pget_virtual_filename(creation, i, file[now], PATH_MAX);
        H5Pget_virtual_dsetname(creation, i, dataset[now], PATH_MAX);
        bool same = strcmp(file[0], file[1]) == 0 && strcmp(dataset[0], dataset[1]) == 0;
        if (!same && !visit(context, file[now], dataset[now])) return;
        now = 1 - now;
    }
}
