/* h5cf.c - reads and writes the attributes of the CF conventions. */
#define H5_USE_110_API
#include "h5cf.h"

#include "../../base/fail.h"
#include "../h5/h5scale.h"
#include "../h5/h5type.h"
#include "fence.h"
#include "h5open.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* The type of the numbers of an attribute; for an unusual width, the type that HDF5 converts them to. */
static enum dtype type_of_number(hid_t type) {
    static const enum dtype integer_types[2][4] = {{UINT8, UINT16, UINT32, UINT64}, {INT8, INT16, INT32, INT64}};
    enum dtype dtype = FLOAT64;
    bool plain;
    int width = 0;
    if (H5Tget_class(type) == H5T_FLOAT) h5_find_float(type, &dtype, &plain);
    if (H5Tget_class(type) != H5T_INTEGER) return dtype;
    while (width < 3 && (size_t)1 << width < H5Tget_size(type)) width++;
    return integer_types[H5Tget_sign(type) == H5T_SGN_2][width];
}

/* Reads at most `most` numbers of an attribute and returns their number; 0: it does not exist or cannot be used.
 * `*unusable`: it exists, but holds no numbers, or too many. */
static int read_numbers(hid_t object, const char *name, int most, struct cf_number numbers[], bool *unusable) {
    *unusable = false;
    if (H5Aexists(object, name) <= 0) return 0;
    hid_t attribute = H5Aopen(object, name, H5P_DEFAULT);
    if (attribute < 0) return 0;
    hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    hssize_t count = H5Sget_simple_extent_npoints(space);
    H5T_class_t kind = H5Tget_class(type);
    enum dtype dtype = type_of_number(type);
    double reals[2 * CF_MISSING];
    int64_t integers[2 * CF_MISSING] = {0};
    bool is_float = dtype_is_float(dtype);
    *unusable = (kind != H5T_INTEGER && kind != H5T_FLOAT) || count < 1 || count > most;
    if (!*unusable) *unusable = H5Aread(attribute, H5T_NATIVE_DOUBLE, reals) < 0;
    if (!*unusable && !is_float)
        *unusable = H5Aread(attribute, dtype == UINT64 ? H5T_NATIVE_UINT64 : H5T_NATIVE_INT64, integers) < 0;
    for (int i = 0; i < count && !*unusable; i++) numbers[i] = (struct cf_number){true, dtype, reals[i], integers[i]};
    H5Sclose(space);
    H5Tclose(type);
    H5Aclose(attribute);
    return *unusable ? 0 : (int)count;
}

static char *ignored_text(hid_t object, const char *name) {
    char *text = h5_get_text(object, name), *sentence;
    if (text)
        sentence = must_printf("attribute %s is the text \"%.60s\", not a number, and is ignored", name, text);
    else
        sentence = must_printf("attribute %s is not one number, and is ignored", name);
    free(text);
    return sentence;
}

struct cf_reading {
    hid_t object;
    char **ignored;
};

static int read_attribute(const struct cf_reading *reading, const char *name, int most, struct cf_number numbers[]) {
    bool unusable;
    int count = read_numbers(reading->object, name, most, numbers, &unusable);
    if (unusable && !*reading->ignored) *reading->ignored = ignored_text(reading->object, name);
    return count;
}

static void read_range(const struct cf_reading *reading, struct cf *cf) {
    struct cf_number range[2];
    if (read_attribute(reading, "valid_range", 2, range) == 2) {
        cf->low = range[0];
        cf->high = range[1];
        return;
    }
    read_attribute(reading, "valid_min", 1, &cf->low);
    read_attribute(reading, "valid_max", 1, &cf->high);
}

static enum cf_sign read_sign(hid_t object) {
    char *text = h5_get_trimmed_text(object, "_Unsigned");
    enum cf_sign sign = CF_SIGN_AS_STORED;
    if (text && strcasecmp(text, "true") == 0) sign = CF_SIGN_UNSIGNED;
    if (text && strcasecmp(text, "false") == 0) sign = CF_SIGN_SIGNED;
    free(text);
    return sign;
}

/* ---- netCDF-4 ---------------------------------------------------------------------------------------------------- */

static bool is_netcdf_scale(hid_t scale) {
    char *name = h5_get_text(scale, "NAME");
    bool is = (name && strncmp(name, "This is a netCDF dimension", 26) == 0) || H5Aexists(scale, "_Netcdf4Dimid") > 0;
    free(name);
    return is;
}

static bool has_netcdf_scales(hid_t dataset, int rank) {
    bool has = H5Aexists(dataset, "_Netcdf4Dimid") > 0 || H5Aexists(dataset, "_Netcdf4Coordinates") > 0;
    for (int axis = 0; axis < rank && !has; axis++) {
        hid_t *scales;
        int count = h5_axis_scales(dataset, axis, &scales);
        for (int i = 0; i < count; i++) {
            has = has || (scales[i] >= 0 && is_netcdf_scale(scales[i]));
            if (scales[i] >= 0) H5Dclose(scales[i]);
        }
        free(scales);
    }
    return has;
}

/* Is it in a file of netCDF-4? Files of tilerun may contain netCDF scales, but they state every fill value. */
static bool is_netcdf(const struct h5_dataset *dataset, bool has_attributes) {
    hid_t file = H5Iget_file_id(dataset->id);
    char *schema = h5_get_text(file, "schema");
    bool own = schema && strncmp(schema, "tilerun-", 8) == 0;
    free(schema);
    bool marked = H5Aexists_by_name(file, "/", "_NCProperties", H5P_DEFAULT) > 0;
    H5Fclose(file);
    return !own && (marked || (has_attributes && has_netcdf_scales(dataset->id, dataset->shape.rank)));
}

static void read_attributes(const struct h5_dataset *dataset, struct cf *cf, char **ignored) {
    struct cf_reading reading = {dataset->id, ignored};
    *cf = (struct cf){.sign = CF_SIGN_AS_STORED};
    *ignored = NULL;
    bool any = h5_has_attributes(dataset->id);
    if (any) {
        read_attribute(&reading, "scale_factor", 1, &cf->factor);
        read_attribute(&reading, "add_offset", 1, &cf->offset);
        read_attribute(&reading, "_FillValue", 1, &cf->fill);
        cf->missing_count = read_attribute(&reading, "missing_value", CF_MISSING, cf->missing);
        read_range(&reading, cf);
        if (!dtype_is_float(dataset->dtype)) cf->sign = read_sign(dataset->id);
    }
    struct cf_number fill = cf_netcdf_fill(dataset->dtype);
    if (cf->fill.there || !fill.there || (any && H5Aexists(dataset->id, "_FillValue") > 0)) return;
    if (!is_netcdf(dataset, any)) return;
    cf->fill = fill;
    cf->netcdf = true;
}

/* Appends the numbers of the job key `missing`. */
static void add_missing(const struct job_missing *missing, struct cf *cf) {
    for (int i = 0; i < missing->count; i++) {
        const struct job_number *number = &missing->of[i];
        cf->missing[cf->missing_count++] =
            (struct cf_number){true, number->is_integer ? INT64 : FLOAT64, number->real, number->integer};
    }
    cf->asked = missing->count;
}

struct decoding *h5cf_decoding(const struct h5_dataset *dataset, const struct job_input *input, bool *unit_lost,
                               char **remark) {
    struct cf cf;
    struct decoding decoding;
    char *useless;
    *remark = NULL;
    if (input->field)
        cf = (struct cf){.missing_count = 0}; /* the attributes belong to the table, not to the field */
    else
        read_attributes(dataset, &cf, remark);
    *unit_lost = false;
    if (input->stored_numbers) {
        decoding_make(&cf, dataset->dtype, &decoding, &useless);
        *unit_lost = decoding.scales || decoding.read_as != decoding.stored;
        free(useless);
        free(*remark);
        *remark = NULL;
        cf = (struct cf){.missing_count = 0};
    }
    add_missing(&input->missing, &cf);
    bool changes = decoding_make(&cf, dataset->dtype, &decoding, &useless);
    if (*remark)
        free(useless);
    else
        *remark = useless;
    return changes ? decoding_copy(&decoding) : NULL;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static const char *const packing[] = {"scale_factor", "add_offset", "_FillValue",  "missing_value",
                                      "valid_min",    "valid_max",  "valid_range", "_Unsigned"};

bool h5cf_is_packing(const char *name) {
    for (size_t i = 0; i < sizeof packing / sizeof *packing; i++)
        if (strcmp(name, packing[i]) == 0) return true;
    return false;
}

static void store_number(enum dtype dtype, void *data, int index, const struct cf_number *number) {
    if (dtype_is_float(dtype) || dtype_is_float(number->dtype))
        dtype_store(dtype, data, index, number->real);
    else
        dtype_store_integer(dtype, data, index, number->integer);
}

/* Writes a scalar if `count` is 0. */
static enum status write_numbers(hid_t dataset, const char *name, enum dtype dtype, const struct cf_number numbers[],
                                 int count, struct error *error) {
    uint64_t values[2 * CF_MISSING];
    hsize_t size = (hsize_t)count;
    for (int i = 0; i < (count ? count : 1); i++) store_number(dtype, values, i, &numbers[i]);
    return h5_set_attribute(dataset, name, h5_type(dtype),
                            count ? H5Screate_simple(1, &size, NULL) : H5Screate(H5S_SCALAR), values, error);
}

static enum status write_number(hid_t dataset, const char *name, const struct cf_number *number, struct error *error) {
    return number->there ? write_numbers(dataset, name, number->dtype, number, 0, error) : STATUS_OK;
}

/* Does the type represent the number? A number that no element equals is not written: in another type, elements might
 * equal it. */
static bool represents(enum dtype dtype, const struct cf_number *number) {
    uint64_t room = 0;
    store_number(dtype, &room, 0, number);
    if (isnan(number->real)) return dtype_is_float(dtype);
    return dtype_load(dtype, &room, 0) == number->real;
}

enum status h5cf_write(hid_t dataset, const struct decoding *decoding, struct error *error) {
    const struct cf *attributes = &decoding->attributes;
    struct cf_number missing[2 * CF_MISSING];
    int count = 0;
    for (int i = 0; i < attributes->missing_count; i++)
        if (represents(decoding->stored, &attributes->missing[i])) missing[count++] = attributes->missing[i];
    enum status status = STATUS_OK;
    if (attributes->sign)
        status = h5_set_text(dataset, "_Unsigned", attributes->sign == CF_SIGN_UNSIGNED ? "true" : "false", error);
    if (!status && attributes->fill.there && represents(decoding->stored, &attributes->fill))
        status = write_numbers(dataset, "_FillValue", decoding->stored, &attributes->fill, 0, error);
    if (!status && count > 0)
        status = write_numbers(dataset, "missing_value", decoding->stored, missing, count > 1 ? count : 0, error);
    if (!status) status = write_number(dataset, "scale_factor", &attributes->factor, error);
    if (!status) status = write_number(dataset, "add_offset", &attributes->offset, error);
    if (!status) status = write_number(dataset, "valid_min", &attributes->low, error);
    if (!status) status = write_number(dataset, "valid_max", &attributes->high, error);
    return status;
}

void h5cf_retype(hid_t dataset, enum dtype dtype) {
    static const char *const names[] = {"_FillValue", "missing_value"};
    for (int n = 0; n < 2; n++) {
        struct cf_number numbers[2 * CF_MISSING];
        struct error ignored = {STATUS_OK, ""};
        bool unusable;
        int count = read_numbers(dataset, names[n], CF_MISSING, numbers, &unusable), kept = 0;
        for (int i = 0; i < count; i++)
            if (represents(dtype, &numbers[i])) numbers[kept++] = numbers[i];
        if (kept > 0)
            write_numbers(dataset, names[n], dtype, numbers, kept > 1 ? kept : 0, &ignored);
        else if (count > 0)
            H5Adelete(dataset, names[n]);
    }
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

/* NULL: there is nothing to print. The caller frees. */
static char *attribute_text(hid_t dataset, const char *name) {
    struct cf_number numbers[2 * CF_MISSING];
    char number[CF_NUMBER_TEXT];
    bool unusable;
    char *text = h5_get_trimmed_text(dataset, name);
    if (text) return text;
    int count = read_numbers(dataset, name, 2 * CF_MISSING, numbers, &unusable);
    for (int i = 0; i < count; i++) {
        char *longer =
            must_printf("%s%s%s%s%s", text ? text : "", text ? ", " : "", cf_number_text(&numbers[i], number),
                        i == count - 1 ? " " : "", i == count - 1 ? dtype_name(numbers[i].dtype) : "");
        free(text);
        text = longer;
    }
    return text;
}

void h5cf_list(const char *path, const char *name, void (*print)(const char *name, const char *text)) {
    static const char *const others[] = {"conversion", "offset", "unit", "unitSI"};
    FENCE(path);
    struct error ignored = {STATUS_OK, ""};
    struct h5_dataset *dataset;
    if (h5_open(path, name, &dataset, &ignored)) return;
    size_t own = sizeof packing / sizeof *packing;
    for (size_t i = 0; i < own + sizeof others / sizeof *others; i++) {
        const char *attribute = i < own ? packing[i] : others[i - own];
        char *text = attribute_text(dataset->id, attribute);
        if (text) print(attribute, text);
        free(text);
    }
    h5_close(dataset);
}
