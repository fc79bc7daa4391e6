/* h5cf.c - converts between HDF5 attributes and struct cf (decode.h), which holds those of the CF conventions. */
#include "h5cf.h"

#include "../../base/fail.h"
#include "../../base/texts.h"
#include "../h5/h5attribute.h"
#include "../h5/h5scale.h"
#include "../h5/h5type.h"
#include "fence.h"
#include "h5open.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const packing[] = {"scale_factor", "add_offset", "_FillValue",  "missing_value",
                                      "valid_min",    "valid_max",  "valid_range", "_Unsigned"};

/* Factors and offsets of other conventions (NWB, openPMD, HDF-EOS, NASA's ocean colour), which are not applied, and the
 * numbers with which they change nothing. */
static const struct {
    const char *name;
    double neutral;
} foreign[] = {{"conversion", 1}, {"offset", 0}, {"unitSI", 1}, {"ScaleFactor", 1}, {"Offset", 0},
               {"slope", 1},      {"Slope", 1},  {"gain", 1},   {"intercept", 0},   {"Intercept", 0}};

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* The type as which the numbers of an attribute are read: their own, or for an unusual width the next wider one; int64
 * for enumerations; float64 for what is no number. */
static enum dtype type_of_number(hid_t type) {
    enum dtype dtype = FLOAT64;
    bool plain;
    if (H5Tget_class(type) == H5T_ENUM) return INT64;
    if (H5Tget_class(type) == H5T_FLOAT) h5_find_float(type, &dtype, &plain);
    if (H5Tget_class(type) != H5T_INTEGER) return dtype;
    return cf_integer_dtype(H5Tget_size(type), H5Tget_sign(type) == H5T_SGN_2);
}

/* Reads at most `max` numbers (2 * CF_MISSING or less) of an attribute and returns their count; 0: it does not exist or
 * cannot be used. *unusable becomes true if the attribute exists, but holds no numbers, or more than `max`. */
static int read_numbers(hid_t object, const char *name, int max, struct cf_number numbers[], bool *unusable) {
    FREED_BY(h5_attribute_close) struct h5_attribute attribute = {0};
    *unusable = false;
    if (!h5_attribute_open(object, name, &attribute)) return 0;
    hssize_t count = attribute.count;
    enum dtype dtype = type_of_number(attribute.type);
    double reals[2 * CF_MISSING];
    int64_t integers[2 * CF_MISSING] = {0};
    bool is_float = dtype_is_float(dtype);
    bool has_numbers = attribute.class == H5T_INTEGER || attribute.class == H5T_FLOAT || attribute.class == H5T_ENUM;
    *unusable = !has_numbers || count < 1 || count > max;
    if (!*unusable) *unusable = H5Aread(attribute.id, H5T_NATIVE_DOUBLE, reals) < 0;
    if (!*unusable && !is_float)
        *unusable = H5Aread(attribute.id, dtype == UINT64 ? H5T_NATIVE_UINT64 : H5T_NATIVE_INT64, integers) < 0;
    for (int i = 0; i < count && !*unusable; i++) numbers[i] = (struct cf_number){true, dtype, reals[i], integers[i]};
    return *unusable ? 0 : (int)count;
}

/* Returns a sentence: the attribute is not `min` to `max` numbers, and is ignored. The caller frees. */
static char *ignored_text(hid_t object, const char *name, int min, int max) {
    OWNED char *text = h5_get_text(object, name);
    if (text) return must_printf("attribute %s is the text \"%.60s\", not a number, and is ignored", name, text);
    if (min < max) return must_printf("attribute %s is not %d to %d numbers, and is ignored", name, min, max);
    return must_printf("attribute %s is not %s, and is ignored", name, max == 1 ? "one number" : "two numbers");
}

/* One call of read_attributes. */
struct cf_reading {
    hid_t object;
    char **ignored; /* receives ignored_text of the first such attribute */
};

/* Reads an attribute of `min` to `max` numbers. Returns their number; 0: it is missing, or ignored as unusable. */
static int read_attribute(const struct cf_reading *reading, const char *name, int min, int max,
                          struct cf_number numbers[]) {
    bool unusable;
    int count = read_numbers(reading->object, name, max, numbers, &unusable);
    unusable = unusable || (count > 0 && count < min);
    if (unusable && !*reading->ignored) *reading->ignored = ignored_text(reading->object, name, min, max);
    return unusable ? 0 : count;
}

/* Reads the valid range: `valid_range` or, without it, `valid_min` and `valid_max`. */
static void read_range(const struct cf_reading *reading, struct cf *cf) {
    struct cf_number range[2];
    if (read_attribute(reading, "valid_range", 2, 2, range) == 2) {
        cf->low = range[0];
        cf->high = range[1];
        return;
    }
    read_attribute(reading, "valid_min", 1, 1, &cf->low);
    read_attribute(reading, "valid_max", 1, 1, &cf->high);
}

/* Reads `_Unsigned`. */
static enum cf_sign read_sign(hid_t object) {
    OWNED char *text = h5_get_trimmed_text(object, "_Unsigned");
    if (text && strcasecmp(text, "true") == 0) return CF_SIGN_UNSIGNED;
    return text && strcasecmp(text, "false") == 0 ? CF_SIGN_SIGNED : CF_SIGN_AS_STORED;
}

/* ---- netCDF-4 ---------------------------------------------------------------------------------------------------- */

/* Did netCDF-4 write the scale? */
static bool is_netcdf_scale(hid_t scale) {
    static const char begin[] = "This is a netCDF dimension";
    OWNED char *name = h5_get_text(scale, "NAME");
    return (name && strncmp(name, begin, strlen(begin)) == 0) || H5Aexists(scale, "_Netcdf4Dimid") > 0;
}

/* Is the data set a variable or dimension of netCDF-4, or does an axis have a scale of it? */
static bool has_netcdf_scales(hid_t dataset, int rank) {
    bool has = H5Aexists(dataset, "_Netcdf4Dimid") > 0 || H5Aexists(dataset, "_Netcdf4Coordinates") > 0;
    for (int axis = 0; axis < rank && !has; axis++) {
        hid_t *scales;
        int count = h5_axis_scales(dataset, axis, &scales);
        for (int i = 0; i < count && !has; i++) has = scales[i] >= 0 && is_netcdf_scale(scales[i]);
        h5_close_scales(count, scales);
    }
    return has;
}

/* Did netCDF-4 write the data set? Files of tilerun do not count: they may contain scales of netCDF, but state every
 * fill value. */
static bool is_netcdf(const struct h5_dataset *dataset, bool has_attributes) {
    OWNED_ID hid_t file = H5Iget_file_id(dataset->id);
    OWNED char *schema = h5_get_text(file, "schema");
    bool by_tilerun = schema && strncmp(schema, "tilerun-", 8) == 0;
    bool marked = H5Aexists_by_name(file, "/", "_NCProperties", H5P_DEFAULT) > 0;
    return !by_tilerun && (marked || (has_attributes && has_netcdf_scales(dataset->id, dataset->shape.rank)));
}

/* Reads the attributes of a data set. Without _FillValue in a file of netCDF, the fill value is netCDF's default,
 * unless _Unsigned changes the type. */
static void read_attributes(const struct h5_dataset *dataset, struct cf *cf, char **ignored) {
    struct cf_reading reading = {dataset->id, ignored};
    *cf = (struct cf){.sign = CF_SIGN_AS_STORED};
    *ignored = NULL;
    bool any = h5_has_attributes(dataset->id);
    if (any) {
        read_attribute(&reading, "scale_factor", 1, 1, &cf->factor);
        read_attribute(&reading, "add_offset", 1, 1, &cf->offset);
        read_attribute(&reading, "_FillValue", 1, 1, &cf->fill);
        cf->missing_count = read_attribute(&reading, "missing_value", 1, CF_MISSING, cf->missing);
        read_range(&reading, cf);
        if (!dtype_is_float(dataset->dtype)) cf->sign = read_sign(dataset->id);
    }
    struct cf_number fill = cf_netcdf_fill(dataset->dtype);
    bool other_sign = cf->sign && dtype_is_signed(dataset->dtype) == (cf->sign == CF_SIGN_UNSIGNED);
    if (other_sign && !dataset->plain) { /* their bits are fewer than those of the type that they are read as */
        cf->sign = CF_SIGN_AS_STORED;
        free(*ignored);
        *ignored = must_strdup("attribute _Unsigned is not of plain integers, and is ignored");
    }
    if (cf->fill.given || !fill.given || other_sign || (any && H5Aexists(dataset->id, "_FillValue") > 0)) return;
    if (!is_netcdf(dataset, any)) return;
    cf->fill = fill;
    cf->netcdf = true;
}

/* Returns a sentence that a packing attribute of whole elements is not applied to `field`; NULL: there is no such
 * attribute. The caller frees. */
static char *unapplied_text(hid_t object, const char *field) {
    for (size_t i = 0; i < sizeof packing / sizeof *packing; i++)
        if (H5Aexists(object, packing[i]) > 0)
            return must_printf("attribute %s belongs to whole elements, and is not applied to their field '%s'",
                               packing[i], field);
    return NULL;
}

/* Returns a sentence: another convention's factor or offset, which is not applied, changes the numbers. NULL: there is
 * none. The caller frees. */
static char *foreign_text(hid_t object) {
    struct cf_number number;
    char text[CF_NUMBER_TEXT];
    bool unusable;
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (read_numbers(object, foreign[i].name, 1, &number, &unusable) && number.real != foreign[i].neutral)
            return must_printf("attribute %s, %s, is not applied; `map` can do it", foreign[i].name,
                               cf_number_text(&number, text));
    return NULL;
}

/* Appends the numbers of the job key `missing`, for floats as their type has them: 1e20 is no float32. */
static void add_missing(const struct job_missing *missing, enum dtype dtype, struct cf *cf) {
    for (int i = 0; i < missing->count; i++) {
        const struct job_number *number = &missing->numbers[i];
        struct cf_number *added = &cf->missing[cf->missing_count++];
        *added = (struct cf_number){true, number->is_integer ? INT64 : FLOAT64, number->real, number->integer};
        uint64_t element = 0;
        dtype_store(dtype, &element, 0, number->real);
        double rounded = dtype_load(dtype, &element, 0);
        if (dtype_is_float(dtype) && isfinite(rounded)) *added = (struct cf_number){true, dtype, rounded, 0};
    }
    cf->asked = missing->count;
}

struct decoding *h5cf_decoding(const struct h5_dataset *dataset, const struct job_input *input, bool *unit_lost,
                               char **remark) {
    struct cf cf;
    struct decoding decoding;
    char *useless;
    *remark = NULL;
    if (input->field) {
        cf = (struct cf){.missing_count = 0};
        *remark = unapplied_text(dataset->id, input->field);
    } else {
        read_attributes(dataset, &cf, remark);
    }
    if (!*remark && h5_has_attributes(dataset->id)) *remark = foreign_text(dataset->id);
    *unit_lost = false;
    if (input->stored_numbers) {
        decoding_make(&cf, dataset->dtype, &decoding, &useless);
        *unit_lost = decoding.scales || decoding.read_as != decoding.stored;
        free(useless);
        free(*remark);
        *remark = NULL;
        cf = (struct cf){.missing_count = 0};
    }
    add_missing(&input->missing, dataset->dtype, &cf);
    bool changes = decoding_make(&cf, dataset->dtype, &decoding, &useless);
    if (*remark)
        free(useless);
    else
        *remark = useless;
    return changes ? decoding_copy(&decoding) : NULL;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

bool h5cf_is_packing(const char *name) {
    return text_is_one_of(name, packing, sizeof packing / sizeof *packing);
}

/* Stores a number as element `index` of `data`. */
static void store_number(enum dtype dtype, void *data, int index, const struct cf_number *number) {
    if (dtype_is_float(dtype) || dtype_is_float(number->dtype))
        dtype_store(dtype, data, index, number->real);
    else
        dtype_store_integer(dtype, data, index, number->integer);
}

/* Writes an attribute: an array of `count` numbers, or one scalar if `count` is 0. */
static enum status write_numbers(hid_t dataset, const char *name, enum dtype dtype, const struct cf_number *numbers,
                                 int count, struct error *error) {
    uint64_t values[2 * CF_MISSING];
    hsize_t size = (hsize_t)count;
    for (int i = 0; i < (count ? count : 1); i++) store_number(dtype, values, i, &numbers[i]);
    return h5_set_attribute(dataset, name, h5_type(dtype),
                            count ? H5Screate_simple(1, &size, NULL) : H5Screate(H5S_SCALAR), values, error);
}

/* The `count` of write_numbers: a single number is written as a scalar. */
static int array_length(int numbers) {
    return numbers > 1 ? numbers : 0;
}

/* Writes a number as a scalar attribute of its own type, if it is given. */
static enum status write_number(hid_t dataset, const char *name, const struct cf_number *number, struct error *error) {
    return number->given ? write_numbers(dataset, name, number->dtype, number, 0, error) : STATUS_OK;
}

/* Does the type represent the number exactly? If not, no element equals the number, and it must not be written:
 * rounded to the type, it might equal other elements. */
static bool represents(enum dtype dtype, const struct cf_number *number) {
    uint64_t element = 0;
    store_number(dtype, &element, 0, number);
    if (isnan(number->real)) return dtype_is_float(dtype);
    return dtype_load(dtype, &element, 0) == number->real;
}

/* Sets *stored to the element that stands for the number in the file; false: no element does. With `_Unsigned` the
 * elements of the file are read as the type of the other sign: a number of that type is stored by its bits (65535 as
 * -1). */
static bool stored_number(const struct decoding *decoding, const struct cf_number *number, struct cf_number *stored) {
    uint64_t element = 0;
    *stored = *number;
    if (represents(decoding->stored, number)) return true;
    if (dtype_is_float(decoding->read_as) || !represents(decoding->read_as, number)) return false;
    store_number(decoding->read_as, &element, 0, number);
    stored->dtype = decoding->stored;
    stored->integer = dtype_load_integer(decoding->stored, &element, 0);
    stored->real = dtype_load(decoding->stored, &element, 0);
    return true;
}

enum status h5cf_write(hid_t dataset, const struct decoding *decoding, struct error *error) {
    const struct cf *attributes = &decoding->attributes;
    struct cf_number fill, missing[2 * CF_MISSING];
    int count = 0;
    for (int i = 0; i < attributes->missing_count; i++)
        if (stored_number(decoding, &attributes->missing[i], &missing[count])) count++;
    if (attributes->sign)
        TRY(h5_set_text(dataset, "_Unsigned", attributes->sign == CF_SIGN_UNSIGNED ? "true" : "false", error));
    if (attributes->fill.given && stored_number(decoding, &attributes->fill, &fill))
        TRY(write_numbers(dataset, "_FillValue", decoding->stored, &fill, 0, error));
    if (count > 0) TRY(write_numbers(dataset, "missing_value", decoding->stored, missing, array_length(count), error));
    TRY(write_number(dataset, "scale_factor", &attributes->factor, error));
    TRY(write_number(dataset, "add_offset", &attributes->offset, error));
    TRY(write_number(dataset, "valid_min", &attributes->low, error));
    return write_number(dataset, "valid_max", &attributes->high, error);
}

void h5cf_retype(hid_t dataset, enum dtype dtype) {
    static const char *const names[] = {"_FillValue", "missing_value"};
    for (int n = 0; n < 2; n++) {
        struct cf_number numbers[2 * CF_MISSING];
        bool unusable;
        int count = read_numbers(dataset, names[n], CF_MISSING, numbers, &unusable), kept = 0;
        for (int i = 0; i < count; i++)
            if (represents(dtype, &numbers[i])) numbers[kept++] = numbers[i];
        if (kept > 0)
            write_numbers(dataset, names[n], dtype, numbers, array_length(kept), IGNORED);
        else if (count > 0)
            H5Adelete(dataset, names[n]);
    }
    if (H5Aexists(dataset, "_Unsigned") > 0) H5Adelete(dataset, "_Unsigned"); /* it was of the other type's sign */
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

/* Returns the text or the numbers of an attribute for people; NULL: it has neither. The caller frees. */
static char *attribute_text(hid_t dataset, const char *name) {
    struct cf_number numbers[2 * CF_MISSING];
    char number[CF_NUMBER_TEXT];
    bool unusable;
    char *text = h5_get_trimmed_text(dataset, name);
    if (text) return text;
    int count = read_numbers(dataset, name, 2 * CF_MISSING, numbers, &unusable);
    if (count == 0) return NULL;
    text = must_strdup("");
    for (int i = 0; i < count; i++) must_append(&text, "%s%s", i ? ", " : "", cf_number_text(&numbers[i], number));
    must_append(&text, " %s", dtype_name(numbers[count - 1].dtype));
    return text;
}

void h5cf_list(const char *path, const char *name, void (*print)(const char *name, const char *text)) {
    FENCE(path);
    OWNED_DATASET struct h5_dataset *dataset = NULL;
    if (h5_open(path, name, &dataset, IGNORED)) return;
    size_t count = sizeof packing / sizeof *packing, more = sizeof foreign / sizeof *foreign;
    for (size_t i = 0; i <= count + more; i++) {
        const char *attribute = i < count ? packing[i] : i < count + more ? foreign[i - count].name : "unit";
        OWNED char *text = attribute_text(dataset->id, attribute);
        if (text) print(attribute, text);
    }
}
