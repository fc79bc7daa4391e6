/* h5scale.c - reads, copies and attaches dimension scales. */
#include "h5scale.h"

#include "../../base/fail.h"
#include "../../base/path.h"
#include "../../base/text.h"
#include "../../base/texts.h"
#include "h5type.h"
#include "h5virtual.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE_BYTES = 1 << 20, /* bytes of a scale that are copied at a time */
    MAX_NUMBERS = 1 << 20  /* of a scale that h5_axis_numbers reads */
};

/* ---- labels and scales of an axis ------------------------------------------------------------------------------ */

static int rank_of(hid_t dataset) {
    OWNED_ID hid_t space = H5Dget_space(dataset);
    return H5Sget_simple_extent_ndims(space);
}

/* Opens an attribute that has one element of that class for each axis. false: there is no such attribute. The caller
 * closes *attribute in any case. */
static bool open_axis_attribute(hid_t object, const char *name, H5T_class_t class, int rank,
                                struct h5_attribute *attribute) {
    return rank > 0 && h5_attribute_open(object, name, attribute) && attribute->class == class &&
           attribute->count == rank;
}

/* The text may come from a damaged or foreign file, so it is returned only if it is UTF-8. */
char *h5_axis_text(hid_t object, const char *name, int rank, int axis) {
    FREED_BY(h5_attribute_close) struct h5_attribute attribute = {0};
    if (!open_axis_attribute(object, name, H5T_STRING, rank, &attribute)) return NULL;
    bool variable = H5Tis_variable_str(attribute.type) > 0;
    size_t size = H5Tget_size(attribute.type), bytes = size * (size_t)rank;
    OWNED char *texts = calloc(bytes + 1, 1), *label = NULL; /* a damaged file may claim any size */
    if (texts && H5Aread(attribute.id, attribute.type, texts) >= 0) {
        const char *text = variable ? ((char **)(void *)texts)[axis] : texts + (size_t)axis * size;
        if (text) label = variable ? must_strdup(text) : must_printf("%.*s", (int)strnlen(text, size), text);
        if (variable) H5Dvlen_reclaim(attribute.type, attribute.space, H5P_DEFAULT, texts);
    }
    return label && *label && !text_not_utf8(label) ? disown(&label) : NULL;
}

char *h5_axis_label(hid_t dataset, int axis) {
    return h5_axis_text(dataset, "DIMENSION_LABELS", rank_of(dataset), axis);
}

int h5_axis_scales(hid_t dataset, int axis, hid_t **scales) {
    *scales = NULL;
    FREED_BY(h5_attribute_close) struct h5_attribute attribute = {0};
    if (!open_axis_attribute(dataset, "DIMENSION_LIST", H5T_VLEN, rank_of(dataset), &attribute)) return 0;
    OWNED_ID hid_t base = H5Tget_super(attribute.type);
    OWNED hvl_t *lists = must_malloc((size_t)attribute.count * sizeof *lists);
    int count = 0;
    if (H5Tequal(base, H5T_STD_REF_OBJ) > 0 && H5Aread(attribute.id, attribute.type, lists) >= 0) {
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
        H5Dvlen_reclaim(attribute.type, attribute.space, H5P_DEFAULT, lists);
    }
    return count;
}

void h5_close_scales(int count, hid_t scales[]) {
    for (int i = 0; i < count; i++)
        if (scales[i] >= 0) H5Dclose(scales[i]);
    free(scales);
}

bool h5_axis_has_scales(hid_t dataset, int axis) {
    hid_t *scales;
    int count = h5_axis_scales(dataset, axis, &scales);
    h5_close_scales(count, scales);
    return count > 0;
}

char *h5_scale_name(hid_t scale) {
    ssize_t length = H5Iget_name(scale, NULL, 0);
    OWNED char *path = must_malloc((size_t)(length > 0 ? length : 0) + 1);
    path[0] = '\0';
    if (length > 0) H5Iget_name(scale, path, (size_t)length + 1);
    const char *last = path_name(path);
    return must_strdup(*last && !text_not_utf8(last) ? last : "scale");
}

/* ---- copying --------------------------------------------------------------------------------------------------- */

herr_t h5_copy_attribute(hid_t from, const char *name, const H5A_info_t *about, void *to) {
    (void)about;
    FREED_BY(h5_attribute_close) struct h5_attribute old = {0};
    if (!h5_attribute_open(from, name, &old)) return -1;
    OWNED_ID hid_t type = H5Tcopy(old.type); /* a copy that belongs to no file */
    OWNED_ID hid_t new = H5Acreate2(*(hid_t *)to, name, type, old.space, H5P_DEFAULT, H5P_DEFAULT);
    if (new < 0) return -1;
    OWNED void *value = calloc(H5Tget_size(type) * (size_t)old.count + 1, 1);
    if (!value || H5Aread(old.id, type, value) < 0) return -1;
    herr_t copied = H5Awrite(new, type, value);
    H5Dvlen_reclaim(type, old.space, H5P_DEFAULT, value); /* frees variable-length texts */
    return copied;
}

/* One call of h5_copy_attributes. */
struct copying {
    hid_t to;
    bool (*leave_out)(const char *name);
};

/* Copies an attribute unless it describes a relation or is left out; one that cannot be copied is skipped. */
static herr_t copy_unless_left_out(hid_t from, const char *name, const H5A_info_t *about, void *context) {
    const struct copying *copying = context;
    hid_t to = copying->to;
    bool relates_files =
        IS_ONE_OF(name, "REFERENCE_LIST", "DIMENSION_LIST", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_NCProperties");
    if (relates_files || (copying->leave_out && copying->leave_out(name))) return 0;
    FREED_BY(h5_attribute_close) struct h5_attribute attribute = {0};
    if (!h5_attribute_open(from, name, &attribute)) return 0;
    bool refers = H5Tdetect_class(attribute.type, H5T_REFERENCE) > 0;
    if (!refers && h5_copy_attribute(from, name, about, &to) < 0) H5Adelete(to, name);
    return 0;
}

/* Copies attributes. HDF5 1.10 frees attributes twice if an iteration over them fails. Looking for a name that does not
 * exist also reads the attributes (unless they are many), but fails safely; so it goes first. */
bool h5_copy_attributes(hid_t from, hid_t to, bool (*leave_out)(const char *name)) {
    struct copying copying = {to, leave_out};
    return H5Aexists(from, "tilerun: no attribute has this name") >= 0 &&
           H5Aiterate2(from, H5_INDEX_NAME, H5_ITER_INC, NULL, copy_unless_left_out, &copying) >= 0;
}

/* Copies `count` elements, every step-th from `first` on, in pieces. false: a read or write failed, or there is no
 * memory. */
static bool copy_elements(hid_t from, hid_t to, hid_t type, hsize_t first, hsize_t count, hsize_t step) {
    size_t bytes = H5Tget_size(type);
    hsize_t piece = bytes < PIECE_BYTES ? PIECE_BYTES / bytes : 1, now;
    bool good = true;
    for (hsize_t done = 0; done < count && good; done += now) {
        now = count - done < piece ? count - done : piece;
        hsize_t start = first + done * step;
        OWNED_ID hid_t memory = H5Screate_simple(1, &now, NULL), old = H5Dget_space(from), new = H5Dget_space(to);
        char *data = calloc((size_t)now, bytes);
        good = data && H5Sselect_hyperslab(old, H5S_SELECT_SET, &start, &step, &now, NULL) >= 0 &&
               H5Sselect_hyperslab(new, H5S_SELECT_SET, &done, NULL, &now, NULL) >= 0 &&
               H5Dread(from, type, memory, old, H5P_DEFAULT, data) >= 0;
        if (good) {
            good = H5Dwrite(to, type, memory, new, H5P_DEFAULT, data) >= 0;
            H5Dvlen_reclaim(type, memory, H5P_DEFAULT, data);
        }
        free(data);
    }
    return good;
}

/* Was the scale never written, so that all its elements are the default fill value? netCDF creates a dimension without
 * coordinates like that. */
static bool is_unwritten(hid_t scale) {
    H5D_fill_value_t fill = H5D_FILL_VALUE_ERROR;
    OWNED_ID hid_t creation = H5Dget_create_plist(scale);
    H5D_layout_t layout = H5Pget_layout(creation);
    H5Pfill_value_defined(creation, &fill);
    bool here = (layout == H5D_CONTIGUOUS && H5Pget_external_count(creation) <= 0) || layout == H5D_CHUNKED;
    return here && fill == H5D_FILL_VALUE_DEFAULT && H5Dget_storage_size(scale) == 0;
}

/* Sets a fixed-length text, as H5DSset_scale writes `CLASS` and `NAME`. */
static enum status set_fixed_text(hid_t scale, const char *name, const char *value, struct error *error) {
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, strlen(value) + 1);
    return h5_set_attribute(scale, name, type, H5Screate(H5S_SCALAR), value, error);
}

double *h5_axis_numbers(hid_t dataset, int axis, int64_t length) {
    hsize_t size[H5S_MAX_RANK];
    hid_t *scales;
    int count = h5_axis_scales(dataset, axis, &scales);
    OWNED double *numbers = NULL;
    OWNED_ID hid_t creation = count > 0 && scales[0] >= 0 ? H5Dget_create_plist(scales[0]) : H5I_INVALID_HID;
    if (creation >= 0 && length <= MAX_NUMBERS && !is_unwritten(scales[0]) && !h5_is_scattered(creation)) {
        OWNED_ID hid_t space = H5Dget_space(scales[0]);
        bool fits = H5Sget_simple_extent_dims(space, size, NULL) == 1 && size[0] == (hsize_t)length;
        numbers = must_malloc((size_t)length * sizeof *numbers + 1);
        if (!fits || H5Dread(scales[0], H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers) < 0) {
            free(numbers);
            numbers = NULL;
        }
    }
    h5_close_scales(count, scales);
    return disown(&numbers);
}

/* Creates a new data set instead of using H5Ocopy: a copied header may have the first version of the format, which has
 * no space for the REFERENCE_LIST of many outputs. */
const char *h5_copy_scale(hid_t scale, int64_t length, int64_t first, int64_t count, int64_t step, hid_t group,
                          const char *name) {
    hsize_t size[H5S_MAX_RANK];
    OWNED_ID hid_t stored_type = H5Dget_type(scale), type = H5Tcopy(stored_type), space = H5Dget_space(scale);
    OWNED_ID hid_t creation = h5_creation(H5P_DATASET_CREATE), line = h5_space(1, &count);
    hid_t new = H5I_INVALID_HID;
    const char *why = NULL;
    bool unwritten = is_unwritten(scale); /* netCDF gives that of an unlimited dimension any length */
    if (H5Sget_simple_extent_dims(space, size, NULL) != 1 || (size[0] != (hsize_t)length && !unwritten))
        why = "it has another shape than the axis";
    else if (H5Tdetect_class(type, H5T_REFERENCE) > 0)
        why = "it holds references";
    if (!why) new = H5Dcreate2(group, name, type, line, H5P_DEFAULT, creation, H5P_DEFAULT);
    if (!why && new < 0) why = h5_error_text();
    if (!why && !unwritten && !copy_elements(scale, new, type, (hsize_t)first, (hsize_t)count, (hsize_t)step))
        why = h5_error_text();
    if (!why && !h5_copy_attributes(scale, new, NULL))
        why = "this HDF5 cannot read its attributes, which a later one has written";
    if (!why && H5Aexists(new, "CLASS") <= 0) set_fixed_text(new, "CLASS", "DIMENSION_SCALE", IGNORED);
    if (new >= 0) H5Dclose(new);
    if (new >= 0 && why) H5Ldelete(group, name, H5P_DEFAULT);
    return why;
}

enum status h5_create_placeholder(hid_t group, const char *name, int64_t length, struct error *error) {
    char text[96];
    OWNED_ID hid_t creation = h5_creation(H5P_DATASET_CREATE), line = h5_space(1, &length);
    OWNED_ID hid_t new = H5Dcreate2(group, name, H5T_IEEE_F32BE, line, H5P_DEFAULT, creation, H5P_DEFAULT);
    snprintf(text, sizeof text, H5_PLACEHOLDER_NAME ".%10lld", (long long)length);
    if (new < 0) return FAIL_CALL(error, STATUS_IO, "H5Dcreate2", h5_error_text());
    TRY(set_fixed_text(new, "CLASS", "DIMENSION_SCALE", error));
    return set_fixed_text(new, "NAME", text, error);
}

/* ---- attaching ------------------------------------------------------------------------------------------------- */

enum status h5_set_scales(hid_t dataset, int rank, const struct h5_axis_list axes[], struct error *error) {
    hvl_t lists[MAX_RANK] = {{0}};
    int64_t size = rank;
    for (int i = 0; i < rank; i++) lists[i] = (hvl_t){(size_t)axes[i].count, axes[i].scales};
    hid_t type = H5Tvlen_create(H5T_STD_REF_OBJ);
    return h5_set_attribute(dataset, "DIMENSION_LIST", type, h5_space(1, &size), lists, error);
}

enum status h5_set_axis_labels(hid_t dataset, int rank, char *const labels[], struct error *error) {
    const char *texts[MAX_RANK];
    int64_t size = rank;
    for (int i = 0; i < rank; i++) texts[i] = labels[i] ? labels[i] : "";
    return h5_set_attribute(dataset, "DIMENSION_LABELS", h5_text_type(), h5_space(1, &size), texts, error);
}

enum status h5_set_attached(hid_t scale, int count, const struct h5_attached axes[], struct error *error) {
    int64_t size = count;
    hid_t type = H5Tcreate(H5T_COMPOUND, sizeof *axes);
    H5Tinsert(type, "dataset", HOFFSET(struct h5_attached, dataset), H5T_STD_REF_OBJ);
    H5Tinsert(type, "dimension", HOFFSET(struct h5_attached, axis), H5T_NATIVE_INT);
    return h5_set_attribute(scale, "REFERENCE_LIST", type, h5_space(1, &size), axes, error);
}
