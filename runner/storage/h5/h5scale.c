/* h5scale.c - reading, copying and attaching dimension scales. */
#define H5_USE_110_API
#include "h5scale.h"

#include "../../base/fail.h"
#include "h5type.h"
#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 1 << 20 }; /* of a scale that is copied by reading it */

/* ---- what a data set says of its axes -------------------------------------------------------------------------- */

static int rank_of(hid_t dataset) {
    hid_t space = H5Dget_space(dataset);
    int rank = H5Sget_simple_extent_ndims(space);
    H5Sclose(space);
    return rank;
}

/* Opens an attribute that has an element for each axis; negative: there is none. */
static hid_t open_by_axis(hid_t object, const char *name, H5T_class_t class, int rank) {
    if (rank <= 0 || H5Aexists(object, name) <= 0) return H5I_INVALID_HID;
    hid_t attribute = H5Aopen(object, name, H5P_DEFAULT);
    if (attribute < 0) return attribute;
    hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    bool fits = H5Tget_class(type) == class && H5Sget_simple_extent_npoints(space) == rank;
    H5Sclose(space);
    H5Tclose(type);
    if (fits) return attribute;
    H5Aclose(attribute);
    return H5I_INVALID_HID;
}

char *h5_axis_text(hid_t object, const char *name, int rank, int axis) {
    hid_t attribute = open_by_axis(object, name, H5T_STRING, rank);
    if (attribute < 0) return NULL;
    hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    bool variable = H5Tis_variable_str(type) > 0;
    size_t size = H5Tget_size(type), bytes = size * (size_t)rank;
    char *texts = calloc(bytes + 1, 1), *label = NULL; /* a damaged file may claim any size */
    if (texts && H5Aread(attribute, type, texts) >= 0) {
        const char *text = variable ? ((char **)(void *)texts)[axis] : texts + (size_t)axis * size;
        if (text) label = variable ? must_strdup(text) : must_printf("%.*s", (int)strnlen(text, size), text);
        if (variable) H5Dvlen_reclaim(type, space, H5P_DEFAULT, texts);
    }
    free(texts);
    H5Sclose(space);
    H5Tclose(type);
    H5Aclose(attribute);
    if (label && *label && h5_is_utf8(label)) return label;
    free(label);
    return NULL;
}

char *h5_axis_label(hid_t dataset, int axis) {
    return h5_axis_text(dataset, "DIMENSION_LABELS", rank_of(dataset), axis);
}

int h5_axis_scales(hid_t dataset, int axis, hid_t **scales) {
    *scales = NULL;
    hid_t attribute = open_by_axis(dataset, "DIMENSION_LIST", H5T_VLEN, rank_of(dataset));
    if (attribute < 0) return 0;
    hid_t type = H5Aget_type(attribute), base = H5Tget_super(type), space = H5Aget_space(attribute);
    hvl_t *lists = must_malloc((size_t)rank_of(dataset) * sizeof *lists);
    int count = 0;
    if (H5Tequal(base, H5T_STD_REF_OBJ) > 0 && H5Aread(attribute, type, lists) >= 0) {
        const hobj_ref_t *references = lists[axis].p;
        *scales = must_malloc((lists[axis].len + 1) * sizeof **scales);
        for (size_t i = 0; i < lists[axis].len; i++) {
            hid_t scale = H5Rdereference2(dataset, H5P_DEFAULT, H5R_OBJECT, &references[i]);
            H5O_type_t kind;
            if (scale < 0 && H5Rget_obj_type2(dataset, H5R_OBJECT, &references[i], &kind) < 0) continue;
            if (scale < 0 || H5Iget_type(scale) == H5I_DATASET)
                (*scales)[count++] = scale;
            else
                H5Oclose(scale);
        }
        H5Dvlen_reclaim(type, space, H5P_DEFAULT, lists);
    }
    free(lists);
    H5Sclose(space);
    H5Tclose(base);
    H5Tclose(type);
    H5Aclose(attribute);
    return count;
}

bool h5_axis_has_scales(hid_t dataset, int axis) {
    hid_t *scales;
    int count = h5_axis_scales(dataset, axis, &scales);
    for (int i = 0; i < count; i++)
        if (scales[i] >= 0) H5Dclose(scales[i]);
    free(scales);
    return count > 0;
}

char *h5_scale_name(hid_t scale) {
    ssize_t length = H5Iget_name(scale, NULL, 0);
    char *path = must_malloc((size_t)(length > 0 ? length : 0) + 1);
    path[0] = '\0';
    if (length > 0) H5Iget_name(scale, path, (size_t)length + 1);
    const char *slash = strrchr(path, '/'), *last = slash ? slash + 1 : path;
    char *name = must_strdup(*last && h5_is_utf8(last) ? last : "scale");
    free(path);
    return name;
}

/* ---- copying --------------------------------------------------------------------------------------------------- */

herr_t h5_copy_attribute(hid_t from, const char *name, const H5A_info_t *about, void *to) {
    (void)about;
    hid_t old = H5Aopen(from, name, H5P_DEFAULT);
    if (old < 0) return -1;
    hid_t held = H5Aget_type(old), type = H5Tcopy(held), space = H5Aget_space(old); /* a type of no file */
    hid_t new = H5Acreate2(*(hid_t *)to, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    void *value = calloc(H5Tget_size(type) * (size_t)H5Sget_simple_extent_npoints(space) + 1, 1);
    herr_t copied = new < 0 || !value ? -1 : H5Aread(old, type, value);
    if (copied >= 0) {
        copied = H5Awrite(new, type, value);
        H5Dvlen_reclaim(type, space, H5P_DEFAULT, value); /* frees the texts */
    }
    free(value);
    if (new >= 0) H5Aclose(new);
    H5Sclose(space);
    H5Tclose(type);
    H5Tclose(held);
    H5Aclose(old);
    return copied;
}

struct copying {
    hid_t to;
    bool (*leave_out)(const char *name);
};

static herr_t copy_one(hid_t from, const char *name, const H5A_info_t *about, void *context) {
    const struct copying *copying = context;
    hid_t to = copying->to;
    static const char *const of_its_file[] = {"REFERENCE_LIST", "DIMENSION_LIST", "_Netcdf4Dimid",
                                              "_Netcdf4Coordinates", "_NCProperties"};
    for (size_t i = 0; i < sizeof of_its_file / sizeof *of_its_file; i++)
        if (strcmp(name, of_its_file[i]) == 0) return 0;
    if (copying->leave_out && copying->leave_out(name)) return 0;
    hid_t attribute = H5Aopen(from, name, H5P_DEFAULT), type = H5Aget_type(attribute);
    bool refers = type < 0 || H5Tdetect_class(type, H5T_REFERENCE) > 0;
    if (type >= 0) H5Tclose(type);
    if (attribute >= 0) H5Aclose(attribute);
    if (!refers && h5_copy_attribute(from, name, about, &to) < 0) H5Adelete(to, name);
    return 0;
}

/* Where it fails in the middle of an iteration, HDF5 1.10 frees attributes twice; a search for a name that is not there
 * reads them as well, unless they are many, and fails safely. */
bool h5_copy_attributes(hid_t from, hid_t to, bool (*leave_out)(const char *name)) {
    struct copying copying = {to, leave_out};
    return H5Aexists(from, "tilerun: no attribute has this name") >= 0 &&
           H5Aiterate2(from, H5_INDEX_NAME, H5_ITER_INC, NULL, copy_one, &copying) >= 0;
}

/* Copies `rows` of the first axis, every step-th from `first` on, piece by piece; of a scalar its element. */
static bool copy_elements(hid_t from, hid_t to, hid_t type, int rank, const hsize_t size[], hsize_t first, hsize_t rows,
                          hsize_t step) {
    hsize_t row = 1, start[H5S_MAX_RANK] = {0}, count[H5S_MAX_RANK] = {1};
    hsize_t steps[H5S_MAX_RANK];
    for (int i = 0; i < rank; i++) steps[i] = i ? 1 : step;
    for (int i = 1; i < rank; i++) row *= count[i] = size[i];
    size_t row_bytes = (size_t)row * H5Tget_size(type);
    hsize_t most = row_bytes > 0 && row_bytes < PIECE_BYTES ? PIECE_BYTES / row_bytes : 1;
    bool good = true;
    for (hsize_t done = 0; done < rows && row_bytes > 0 && good; done += count[0]) {
        count[0] = rows - done < most ? rows - done : most;
        hid_t memory = rank ? H5Screate_simple(rank, count, NULL) : H5Screate(H5S_SCALAR);
        hid_t old = H5Dget_space(from), new = H5Dget_space(to);
        char *data = calloc((size_t)count[0], row_bytes);
        start[0] = first + done * step;
        good = data && (!rank || H5Sselect_hyperslab(old, H5S_SELECT_SET, start, steps, count, NULL) >= 0);
        start[0] = done;
        good = good && (!rank || H5Sselect_hyperslab(new, H5S_SELECT_SET, start, NULL, count, NULL) >= 0);
        good = good && H5Dread(from, type, memory, old, H5P_DEFAULT, data) >= 0;
        if (good) {
            good = H5Dwrite(to, type, memory, new, H5P_DEFAULT, data) >= 0;
            H5Dvlen_reclaim(type, memory, H5P_DEFAULT, data);
        }
        free(data);
        H5Sclose(memory);
        H5Sclose(old);
        H5Sclose(new);
    }
    return good;
}

/* Has the scale no elements but the default fill value? netCDF writes a dimension without coordinates like that. */
static bool is_unwritten(hid_t scale) {
    H5D_fill_value_t fill = H5D_FILL_VALUE_ERROR;
    hid_t creation = H5Dget_create_plist(scale);
    H5D_layout_t layout = H5Pget_layout(creation);
    H5Pfill_value_defined(creation, &fill);
    bool here = (layout == H5D_CONTIGUOUS && H5Pget_external_count(creation) <= 0) || layout == H5D_CHUNKED;
    H5Pclose(creation);
    return here && fill == H5D_FILL_VALUE_DEFAULT && H5Dget_storage_size(scale) == 0;
}

static void set_class(hid_t scale) {
    static const char class[] = "DIMENSION_SCALE"; /* as H5DSset_scale writes it */
    hid_t type = H5Tcopy(H5T_C_S1), scalar = H5Screate(H5S_SCALAR);
    H5Tset_size(type, sizeof class);
    hid_t attribute = H5Acreate2(scale, "CLASS", type, scalar, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, type, class);
    H5Aclose(attribute);
    H5Sclose(scalar);
    H5Tclose(type);
}

/* A new data set and not H5Ocopy's: the header of a copy may be of HDF5's first version, which has no room for what
 * many outputs add to REFERENCE_LIST. */
const char *h5_copy_scale(hid_t scale, int64_t length, int64_t first, int64_t count, int64_t step, hid_t group,
                          const char *name) {
    hsize_t size[H5S_MAX_RANK] = {1}, kept[H5S_MAX_RANK];
    hid_t held = H5Dget_type(scale), type = H5Tcopy(held), space = H5Dget_space(scale);
    hid_t creation = h5_creation(H5P_DATASET_CREATE), new = H5I_INVALID_HID;
    int rank = H5Sget_simple_extent_dims(space, size, NULL);
    bool part = count >= 0 && rank > 0 && size[0] == (hsize_t)length;
    memcpy(kept, size, sizeof kept);
    if (part) kept[0] = (hsize_t)count;
    hid_t new_space = rank > 0 ? H5Screate_simple(rank, kept, NULL) : H5Scopy(space);
    const char *why = H5Tdetect_class(type, H5T_REFERENCE) > 0 ? "it holds references" : NULL;
    if (!why) new = H5Dcreate2(group, name, type, new_space, H5P_DEFAULT, creation, H5P_DEFAULT);
    bool empty = H5Sget_simple_extent_type(space) == H5S_NULL || is_unwritten(scale);
    if (!why && new < 0) why = h5_words();
    if (!why && !empty &&
        !copy_elements(scale, new, type, rank, size, part ? (hsize_t)first : 0, kept[0], part ? (hsize_t)step : 1))
        why = h5_words();
    if (!why && !h5_copy_attributes(scale, new, NULL))
        why = "this HDF5 cannot read its attributes, which a later one has written";
    if (!why && H5Aexists(new, "CLASS") <= 0) set_class(new);
    if (new >= 0) H5Dclose(new);
    if (new >= 0 && why) H5Ldelete(group, name, H5P_DEFAULT);
    H5Sclose(new_space);
    H5Pclose(creation);
    H5Sclose(space);
    H5Tclose(type);
    H5Tclose(held);
    return why;
}

/* ---- attaching ------------------------------------------------------------------------------------------------- */

enum status h5_set_scales(hid_t dataset, int rank, const struct h5_axis_list axes[], struct error *error) {
    hvl_t lists[MAX_RANK] = {{0}};
    hsize_t size = (hsize_t)rank;
    for (int i = 0; i < rank; i++) lists[i] = (hvl_t){(size_t)axes[i].count, axes[i].scales};
    hid_t type = H5Tvlen_create(H5T_STD_REF_OBJ);
    return h5_set_attribute(dataset, "DIMENSION_LIST", type, H5Screate_simple(1, &size, NULL), lists, error);
}

enum status h5_set_axis_labels(hid_t dataset, int rank, char *const labels[], struct error *error) {
    const char *texts[MAX_RANK];
    hsize_t size = (hsize_t)rank;
    for (int i = 0; i < rank; i++) texts[i] = labels[i] ? labels[i] : "";
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    return h5_set_attribute(dataset, "DIMENSION_LABELS", type, H5Screate_simple(1, &size, NULL), texts, error);
}

enum status h5_set_attached(hid_t scale, int count, const struct h5_attached axes[], struct error *error) {
    hsize_t size = (hsize_t)count;
    hid_t type = H5Tcreate(H5T_COMPOUND, sizeof *axes);
    H5Tinsert(type, "dataset", HOFFSET(struct h5_attached, dataset), H5T_STD_REF_OBJ);
    H5Tinsert(type, "dimension", HOFFSET(struct h5_attached, axis), H5T_NATIVE_INT);
    return h5_set_attribute(scale, "REFERENCE_LIST", type, H5Screate_simple(1, &size, NULL), axes, error);
}
