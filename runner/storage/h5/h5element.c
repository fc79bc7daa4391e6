/* h5element.c - classifies element types: bits that are read as they are, numbers that HDF5 converts, fields of tables.
 */
#include "h5element.h"

#include "../../base/fail.h"
#include "../../base/text.h"
#include "h5type.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FIELDS_SHOWN = 12, FIELDS_MOST = 256 };

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static const enum dtype integer_types[2][4] = {{UINT8, UINT16, UINT32, UINT64}, {INT8, INT16, INT32, INT64}};

/* The smallest integer type of at least `bytes` bytes; false: there is none. */
static bool integer_of(size_t bytes, bool is_signed, enum dtype *dtype) {
    for (int i = 0; i < 4; i++)
        if (bytes <= (size_t)1 << i) return *dtype = integer_types[is_signed][i], true;
    return false;
}

/* Do the bits of the number fill all bytes of the type, in one of the two byte orders? */
static bool uses_all_bits(hid_t type, size_t bytes) {
    H5T_order_t order = H5Tget_order(type);
    return H5Tget_size(type) == bytes && H5Tget_precision(type) == 8 * bytes && H5Tget_offset(type) == 0 &&
           (bytes == 1 || order == H5T_ORDER_LE || order == H5T_ORDER_BE);
}

static bool find_integer(hid_t type, struct h5_element *element) {
    size_t bytes = H5Tget_size(type), precision = H5Tget_precision(type);
    bool is_signed = H5Tget_class(type) == H5T_INTEGER && H5Tget_sign(type) == H5T_SGN_2;
    if (bytes > 8) bytes = (precision + 7) / 8;
    if (!integer_of(bytes, is_signed, &element->dtype)) return false;
    element->plain = uses_all_bits(type, dtype_size(element->dtype));
    return true;
}

/* Is it a bool as h5py, netCDF4 and others write it: FALSE is 0 and TRUE is 1? */
static bool is_bool(hid_t type) {
    static const char *const names[] = {"FALSE", "TRUE"};
    if (H5Tget_nmembers(type) != 2) return false;
    for (unsigned i = 0; i < 2; i++) {
        char *name = H5Tget_member_name(type, i);
        unsigned char value[64] = {0};
        hid_t super = H5Tget_super(type);
        int64_t number = -1;
        bool fits = H5Tget_size(type) <= 8 && H5Tget_member_value(type, i, value) >= 0;
        if (fits && H5Tconvert(super, H5T_NATIVE_INT64, 1, value, NULL, H5P_DEFAULT) >= 0)
            memcpy(&number, value, sizeof number);
        bool right = name && (number == 0 || number == 1) && strcasecmp(name, names[number]) == 0;
        H5Tclose(super);
        H5free_memory(name);
        if (!right) return false;
    }
    return true;
}

static bool find_enumeration(hid_t type, struct h5_element *element) {
    hid_t super = H5Tget_super(type);
    bool found = find_integer(super, element), boolean = is_bool(type);
    H5Tclose(super);
    if (!found) return false;
    element->plain = element->plain && (!boolean || dtype_size(element->dtype) == 1);
    if (boolean) element->dtype = UINT8;
    element->codes = !boolean;
    element->kind = boolean ? "bool" : NULL;
    element->memory = h5_type(element->dtype);
    return true;
}

/* HDF5 converts bit fields only to bit fields. */
static bool find_bit_field(hid_t type, struct h5_element *element) {
    if (!find_integer(type, element)) return false;
    element->kind = "bit field";
    if (element->plain) return true;
    element->memory = H5Tcopy(H5T_STD_B64LE);
    H5Tset_size(element->memory, dtype_size(element->dtype));
    return true;
}

static bool find_number(hid_t type, struct h5_element *element) {
    switch (H5Tget_class(type)) {
    case H5T_INTEGER:
        if (!find_integer(type, element)) return false;
        break;
    case H5T_FLOAT: h5_find_float(type, &element->dtype, &element->plain); break;
    case H5T_ENUM: return find_enumeration(type, element);
    case H5T_BITFIELD: return find_bit_field(type, element);
    default: return false;
    }
    if (!element->plain) element->memory = h5_type(element->dtype);
    return true;
}

/* ---- tables and arrays ------------------------------------------------------------------------------------------- */

/* Finds the member of a compound type that `field` begins with, and the rest of `field` after a '/'. Names of members
 * may contain slashes. Negative: there is none. */
static int find_member(hid_t type, const char *field, const char **rest) {
    int members = H5Tget_nmembers(type), found = -1;
    size_t longest = 0;
    for (int i = 0; i < members; i++) {
        char *name = H5Tget_member_name(type, (unsigned)i);
        size_t length = name ? strlen(name) : 0;
        bool fits = length > 0 && strncmp(field, name, length) == 0 && (field[length] == '/' || !field[length]);
        if (fits && length > longest) {
            found = i, longest = length;
            *rest = field[length] ? field + length + 1 : NULL;
        }
        H5free_memory(name);
    }
    return found;
}

static bool find_element(hid_t type, const char *field, struct h5_element *element);

/* The memory type of a part of an element. The caller closes it. */
static hid_t part_memory_type(const struct h5_element *inner, hid_t part) {
    if (inner->memory >= 0) return inner->memory;
    hid_t memory = H5Tcopy(part);
    H5Tset_order(memory, H5T_ORDER_LE);
    return memory;
}

static bool find_field(hid_t type, const char *field, struct h5_element *element) {
    const char *rest = NULL;
    int member = field ? find_member(type, field, &rest) : -1;
    if (member < 0) return false;
    hid_t of = H5Tget_member_type(type, (unsigned)member);
    bool found = of >= 0 && find_element(of, rest, element);
    if (found) {
        char *name = H5Tget_member_name(type, (unsigned)member);
        hid_t part = part_memory_type(element, of);
        element->memory = H5Tcreate(H5T_COMPOUND, H5Tget_size(part));
        H5Tinsert(element->memory, name, 0, part);
        H5Tclose(part);
        H5free_memory(name);
        element->plain = false;
    }
    if (of >= 0) H5Tclose(of);
    return found;
}

static bool find_array(hid_t type, const char *field, struct h5_element *element) {
    hsize_t size[H5S_MAX_RANK];
    hid_t of = H5Tget_super(type);
    int rank = H5Tget_array_dims2(type, size);
    bool found = of >= 0 && rank > 0 && find_element(of, field, element) && element->rank + rank <= MAX_RANK;
    if (found) {
        memmove(element->size + rank, element->size, (size_t)element->rank * sizeof *element->size);
        for (int i = 0; i < rank; i++) element->size[i] = (int64_t)size[i];
        element->rank += rank;
        hid_t part = part_memory_type(element, of);
        element->memory = H5Tarray_create2(part, (unsigned)rank, size);
        H5Tclose(part);
        element->plain = false;
    }
    if (of >= 0) H5Tclose(of);
    return found;
}

/* The caller sets `memory` of `element` to H5I_INVALID_HID. */
static bool find_element(hid_t type, const char *field, struct h5_element *element) {
    switch (H5Tget_class(type)) {
    case H5T_COMPOUND: return find_field(type, field, element);
    case H5T_ARRAY: return find_array(type, field, element);
    default: return !field && find_number(type, element);
    }
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* Numeric fields of a table, including those of nested tables: "x", "position/x". */
struct fields {
    int count;
    char *name[FIELDS_MOST];
};

static void list_fields(hid_t top, hid_t type, const char *before, struct fields *fields) {
    int members = H5Tget_nmembers(type);
    for (int i = 0; i < members && fields->count < FIELDS_MOST; i++) {
        char *own = H5Tget_member_name(type, (unsigned)i), *clean = text_clean(own ? own : "");
        char *name = must_printf("%s%s", before, clean), *inside = must_printf("%s/", name);
        hid_t of = H5Tget_member_type(type, (unsigned)i);
        struct h5_element element = {.memory = H5I_INVALID_HID};
        bool number = find_element(top, name, &element);
        if (element.memory >= 0) H5Tclose(element.memory);
        if (H5Tget_class(of) == H5T_COMPOUND) list_fields(top, of, inside, fields);
        if (number)
            fields->name[fields->count++] = name;
        else
            free(name);
        free(inside);
        free(clean);
        H5Tclose(of);
        H5free_memory(own);
    }
}

static void free_fields(struct fields *fields) {
    for (int i = 0; i < fields->count; i++) free(fields->name[i]);
}

static char *fields_text(const struct fields *fields) {
    char *text = must_strdup(fields->count ? "" : "no numeric ones");
    for (int i = 0; i < fields->count && i < FIELDS_SHOWN; i++) {
        must_append(&text, "%s%s", i ? ", " : "", fields->name[i]);
    }
    if (fields->count <= FIELDS_SHOWN) return text;
    char *longer = must_printf("%s, ...", text);
    free(text);
    return longer;
}

/* Is it a complex number: two floats of one type with one of these pairs of names? */
static bool is_complex(hid_t type) {
    static const char *const names[][2] = {{"r", "i"}, {"re", "im"}, {"real", "imag"}, {"real", "imaginary"}};
    if (H5Tget_class(type) != H5T_COMPOUND || H5Tget_nmembers(type) != 2) return false;
    char *first = H5Tget_member_name(type, 0), *second = H5Tget_member_name(type, 1);
    hid_t real = H5Tget_member_type(type, 0), imaginary = H5Tget_member_type(type, 1);
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        found |= strcasecmp(first, names[i][0]) == 0 && strcasecmp(second, names[i][1]) == 0;
    found = found && H5Tget_class(real) == H5T_FLOAT && H5Tequal(real, imaginary) > 0;
    H5Tclose(real);
    H5Tclose(imaginary);
    H5free_memory(first);
    H5free_memory(second);
    return found;
}

/* Says why a table, or its field, cannot be read. */
static char *table_fault(hid_t type, const char *field) {
    struct fields *fields = must_malloc(sizeof *fields);
    fields->count = 0;
    hid_t compound = H5Tcopy(type);
    while (H5Tget_class(compound) == H5T_ARRAY) {
        hid_t of = H5Tget_super(compound);
        H5Tclose(compound);
        compound = of;
    }
    list_fields(compound, compound, "", fields);
    char *names = fields_text(fields), *fault, *clean = text_clean(field ? field : "");
    const char *near = field ? nearest_name(field, (const char *const *)fields->name, fields->count) : NULL;
    if (field)
        fault = must_printf("has no numeric field '%s'%s%s%s; `field` takes one of: %s", clean,
                            near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "", names);
    else if (is_complex(compound))
        fault = must_printf("holds complex numbers; `field: %s` or `field: %s` reads a part", fields->name[0],
                            fields->name[1]);
    else if (fields->count)
        fault = must_printf("holds a table; `field: NAME` reads one of its numeric fields: %s", names);
    else
        fault = must_strdup("holds a table without numeric fields; tilerun computes with numbers");
    H5Tclose(compound);
    free_fields(fields);
    free(fields);
    free(names);
    free(clean);
    return fault;
}

static const struct {
    H5T_class_t class;
    const char *name, *fault;
} unreadable_classes[] = {
    {H5T_STRING, "string", "holds strings; write the numbers that they represent into another data set"},
    {H5T_VLEN, "sequence", "holds sequences of varying length; write them as rows of one length, or one after another"},
    {H5T_REFERENCE, "reference", "holds references; name the data set that they lead to"},
    {H5T_OPAQUE, "opaque", "holds opaque bytes; write them as numbers, with the program that knows their meaning"},
    {H5T_TIME, "time", "holds times (HDF5 class H5T_TIME); write them as integers"},
    {H5T_INTEGER, "integer", "holds integers of more than 64 bits; write them as float64"},
};

char *h5_find_element(hid_t type, const char *field, struct h5_element *element) {
    *element = (struct h5_element){.memory = H5I_INVALID_HID, .bytes = H5Tget_size(type)};
    if (find_element(type, field, element)) return NULL;
    if (element->memory >= 0) H5Tclose(element->memory);
    *element = (struct h5_element){.memory = H5I_INVALID_HID, .bytes = H5Tget_size(type)};
    if (H5Tdetect_class(type, H5T_COMPOUND) > 0 && H5Tget_class(type) != H5T_VLEN) return table_fault(type, field);
    if (field) return must_strdup("is not a table; `field` names a field of a table or a part of a complex number");
    hid_t of = H5Tcopy(type);
    while (H5Tget_class(of) == H5T_ARRAY || H5Tget_class(of) == H5T_ENUM) {
        hid_t super = H5Tget_super(of);
        H5Tclose(of);
        of = super;
    }
    H5T_class_t class = H5Tget_class(of);
    H5Tclose(of);
    for (size_t i = 0; i < sizeof unreadable_classes / sizeof *unreadable_classes; i++)
        if (unreadable_classes[i].class == class) return must_strdup(unreadable_classes[i].fault);
    return must_strdup("holds elements of a type that this HDF5 library does not know");
}

static char *compound_text(hid_t type) {
    struct fields *fields = must_malloc(sizeof *fields);
    fields->count = 0;
    list_fields(type, type, "", fields);
    char *names = fields_text(fields);
    char *text = must_printf("table: %s", names);
    if (is_complex(type)) {
        free(text);
        text = must_strdup("complex");
    }
    free_fields(fields);
    free(fields);
    free(names);
    return text;
}

char *h5_type_text(hid_t type) {
    struct h5_element element;
    H5T_class_t class = H5Tget_class(type);
    if (class == H5T_COMPOUND) return compound_text(type);
    char *unfit = h5_find_element(type, NULL, &element), *text = NULL;
    for (size_t i = 0; unfit && i < sizeof unreadable_classes / sizeof *unreadable_classes; i++)
        if (unreadable_classes[i].class == class) text = must_strdup(unreadable_classes[i].name);
    if (unfit && !text)
        text = must_strdup(class == H5T_ARRAY ? "array" : class == H5T_ENUM ? "enumeration" : "unknown");
    if (!unfit) {
        const char *name = dtype_name(element.dtype);
        bool swapped = dtype_size(element.dtype) > 1 && element.plain && H5Tget_order(type) == H5T_ORDER_BE;
        bool custom = !element.plain && (class == H5T_INTEGER || class == H5T_FLOAT);
        text = element.codes  ? must_printf("enumeration of %s", name)
               : element.kind ? must_printf("%s (%s)", name, element.kind)
               : element.rank ? must_printf("%s in arrays", name)
               : custom       ? must_printf("%s (%zu bits)", name, H5Tget_precision(type))
                              : must_printf("%s%s", name, swapped ? " big-endian" : "");
        if (element.memory >= 0) H5Tclose(element.memory);
    }
    free(unfit);
    return text;
}
