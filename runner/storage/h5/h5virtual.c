/* h5virtual.c - creates virtual data sets and iterates over their mappings. */
#include "h5virtual.h"

#include "../../base/fail.h"
#include "h5slab.h"
#include "h5type.h"
#include <limits.h>
#include <string.h>

/* Doubles each "%" in a name: HDF5 replaces "%b" by a number, and "%%" by a percent sign. The caller frees. */
static char *escape_percent(const char *name) {
    char *text = must_malloc(2 * strlen(name) + 1), *to = text;
    for (; *name; *to++ = *name++)
        if (*name == '%') *to++ = '%';
    *to = '\0';
    return text;
}

/* Adds the mapping of a source to creation properties; selects its box in `space`. */
static enum status map_source(hid_t creation, hid_t space, const struct h5_source *source, struct error *error) {
    const struct selection selection = selection_of_box(&source->box);
    OWNED_ID hid_t from = h5_space(selection.rank, selection.count);
    OWNED char *file = escape_percent(source->file), *name = escape_percent(source->name);
    bool failed =
        from < 0 || h5_slab_select(space, &selection) < 0 || H5Pset_virtual(creation, space, file, name, from) < 0;
    return failed ? FAIL_CALL(error, STATUS_IO, "H5Pset_virtual", h5_error_text()) : STATUS_OK;
}

enum status h5_create_virtual(hid_t file, const char *path, enum dtype dtype, const struct shape *shape,
                              const struct h5_source sources[], int count, struct error *error) {
    unsigned char missing_value[16];
    OWNED_ID hid_t creation = h5_creation(H5P_DATASET_CREATE), type = h5_type(dtype);
    OWNED_ID hid_t space = h5_space(shape->rank, shape->size), id = H5I_INVALID_HID;
    memset(missing_value, 0xff, sizeof missing_value); /* NaN in all floating-point types */
    H5Pset_fill_value(creation, type, missing_value);
    for (int i = 0; i < count; i++) TRY(map_source(creation, space, &sources[i], error));
    H5Sselect_all(space);
    return h5_create_id(file, path, type, space, creation, H5P_DEFAULT, &id, error);
}

bool h5_is_virtual(hid_t dataset) {
    OWNED_ID hid_t creation = H5Dget_create_plist(dataset);
    return H5Pget_layout(creation) == H5D_VIRTUAL;
}

bool h5_is_scattered(hid_t creation) {
    return H5Pget_layout(creation) == H5D_VIRTUAL || H5Pget_external_count(creation) > 0;
}

bool h5_is_linked(hid_t file) {
    return H5Aexists(file, H5_LINKED) > 0;
}

/* Does the bounding box of a mapping overlap the one of the selection? */
static bool overlaps(hid_t creation, size_t mapping, const struct selection *seen) {
    hsize_t first[H5S_MAX_RANK], last[H5S_MAX_RANK];
    OWNED_ID hid_t space = H5Pget_virtual_vspace(creation, mapping);
    bool overlap = true;
    bool bounded = H5Sget_select_bounds(space, first, last) >= 0; /* an unlimited selection has no bounds */
    for (int axis = 0; bounded && axis < seen->rank; axis++)
        overlap = overlap && (int64_t)last[axis] >= seen->start[axis] &&
                  (int64_t)first[axis] <= seen->start[axis] + (seen->count[axis] - 1) * seen->step[axis];
    return overlap;
}

void h5_each_source(hid_t creation, const struct selection *seen,
                    bool (*visit)(void *context, const char *file, const char *dataset), void *context) {
    size_t count = 0;
    char file[2][PATH_MAX] = {"", ""},
         dataset[2][PATH_MAX] = {"", ""}; /* names of this mapping's source and of the previous one's, alternating */
    int current = 0;
    if (H5Pget_layout(creation) == H5D_VIRTUAL) H5Pget_virtual_count(creation, &count);
    for (size_t i = 0; i < count; i++) {
        if (seen && !overlaps(creation, i, seen)) continue;
        H5Pget_virtual_filename(creation, i, file[current], PATH_MAX);
        H5Pget_virtual_dsetname(creation, i, dataset[current], PATH_MAX);
        bool same = strcmp(file[0], file[1]) == 0 && strcmp(dataset[0], dataset[1]) == 0;
        if (!same && !visit(context, file[current], dataset[current])) return;
        current = 1 - current;
    }
}
