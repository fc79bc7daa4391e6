/* h5element.c - fills struct h5_element for a type: the elements are bits that are read as they are, numbers that HDF5
 * converts, or fields of tables. */
#include "h5element.h"

#include "../../base/fail.h"
#include "../../base/spelling.h"
#include "../../base/text.h"
#include "../../base/texts.h"
#include "h5type.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FIELDS_SHOWN = 12, MAX_FIELDS = 256 }; /* fields of a table in a message, and in a list */

/* Declares the name of a member of a type, which HDF5 allocated. */
#define OWNED_NAME FREED_BY(free_name)
static void free_name(char *const *name) {
    H5free_memory(*name);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Do the bits of the number fill all bytes of the type, in one of the two byte orders? */
static bool uses_all_bits(hid_t type, size_t bytes) {
    H5T_order_t order = H5Tget_order(type);
    return H5Tget_size(type) == bytes && H5Tget_precision(type) == 8 * bytes && H5Tget_offset(type) == 0 &&
           (bytes == 1 || order == H5T_ORDER_LE || order == H5T_ORDER_BE);
}

/* Keeps HDF5 from losing signs. HDF5 has a conversion between byte orders that copies the bits of integers narrower
 * than their bytes, without their sign. Removes it if it would be taken; HDF5 then takes its general conversion. */
static void avoid_lost_signs(hid_t type, size_t bytes) {
    if (H5Tget_order(type) != H5T_ORDER_BE || H5Tget_precision(type) == 8 * bytes) return;
    H5Tunregister(H5T_PERS_SOFT, "ibo", H5I_INVALID_HID, H5I_INVALID_HID, NULL);
    H5Tunregister(H5T_PERS_SOFT, "ibo(opt)", H5I_INVALID_HID, H5I_INVALID_HID, NULL);
}

/* find_element for an integer, bit field or enumeration type; false: it has more than 64 bits. */
static bool find_integer(hid_t type, struct h5_element *element) {
    size_t bytes = H5Tget_size(type), precision = H5Tget_precision(type);
    bool is_signed = H5Tget_class(type) == H5T_INTEGER && H5Tget_sign(type) == H5T_SGN_2;
    if (bytes > 8) bytes = (precision + 7) / 8;
    if (bytes > 8) return false;
    element->dtype = cf_integer_dtype(bytes, is_signed);
    element->plain = uses_all_bits(type, dtype_size(element->dtype));
    avoid_lost_signs(type, H5Tget_size(type));
    return true;
}

/* Is the enumeration a bool as h5py, netCDF4 and others write it: FALSE is 0 and TRUE is 1? */
static bool is_bool(hid_t type) {
    static const char *const names[] = {"FALSE", "TRUE"};
    if (H5Tget_nmembers(type) != 2) return false;
    for (unsigned i = 0; i < 2; i++) {
        OWNED_NAME char *name = H5Tget_member_name(type, i);
        unsigned char value[64] = {0};
        OWNED_ID hid_t super = H5Tget_super(type);
        int64_t number = -1;
        bool fits = H5Tget_size(type) <= 8 && H5Tget_member_value(type, i, value) >= 0;
        if (fits && H5Tconvert(super, H5T_NATIVE_INT64, 1, value, NULL, H5P_DEFAULT) >= 0)
            memcpy(&number, value, sizeof number);
        if (!name || number < 0 || number > 1 || strcasecmp(name, names[number]) != 0) return false;
    }
    return true;
}

/* find_element for an enumeration type: a bool, or codes. */
static bool find_enumeration(hid_t type, struct h5_element *element) {
    OWNED_ID hid_t super = H5Tget_super(type);
    bool found = find_integer(super, element), boolean = is_bool(type);
    if (!found) return false;
    element->plain = element->plain && (!boolean || dtype_size(element->dtype) == 1);
    if (boolean) element->dtype = UINT8;
    element->codes = !boolean;
    element->kind = boolean ? "bool" : NULL;
    element->memory = h5_type(element->dtype);
    return true;
}

/* find_element for a bit field, which is read as a bit field, because HDF5 converts it to nothing else. */
static bool find_bit_field(hid_t type, struct h5_element *element) {
    if (!find_integer(type, element)) return false;
    element->kind = "bit field";
    if (element->plain) return true;
    element->memory = H5Tcopy(H5T_STD_B64LE);
    H5Tset_size(element->memory, dtype_size(element->dtype));
    return true;
}

/* find_element for a type of numbers. */
static bool find_number(hid_t type, struct h5_element *element) {
    switch (H5Tget_class(type)) {
    case H5T_INTEGER:
        if (!find_integer(type, element)) return false;
        break;
    case H5T_FLOAT:
        if (H5Tget_norm(type) == H5T_NORM_MSBSET) return false; /* HDF5 converts no such floats */
        h5_find_float(type, &element->dtype, &element->plain);
        break;
    case H5T_ENUM: return find_enumeration(type, element);
    case H5T_BITFIELD: return find_bit_field(type, element);
    default: return false;
    }
    if (!element->plain) element->memory = h5_type(element->dtype);
    return true;
}

/* ---- tables and arrays ------------------------------------------------------------------------------------------- */

/* Finds the member of a compound type with whose name `field` begins, the longest if there are several; *rest: what
 * follows it after a '/', or NULL. Names of members may contain slashes. Negative: there is no such member. */
static int find_member(hid_t type, const char *field, const char **rest) {
    int members = H5Tget_nmembers(type), found = -1;
    size_t longest = 0;
    for (int i = 0; i < members; i++) {
        OWNED_NAME char *name = H5Tget_member_name(type, (unsigned)i);
        size_t length = name ? strlen(name) : 0;
        bool fits = length > 0 && strncmp(field, name, length) == 0 && (field[length] == '/' || !field[length]);
        if (fits && length > longest) {
            found = i;
            longest = length;
            *rest = field[length] ? field + length + 1 : NULL;
        }
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

/* find_element for a compound type: finds the element in the member that `field` names, and wraps its memory type. */
static bool find_field(hid_t type, const char *field, struct h5_element *element) {
    const char *rest = NULL;
    int member = field ? find_member(type, field, &rest) : -1;
    if (member < 0) return false;
    OWNED_ID hid_t member_type = H5Tget_member_type(type, (unsigned)member);
    if (member_type < 0 || !find_element(member_type, rest, element)) return false;
    OWNED_NAME char *name = H5Tget_member_name(type, (unsigned)member);
    OWNED_ID hid_t part = part_memory_type(element, member_type);
    element->memory = H5Tcreate(H5T_COMPOUND, H5Tget_size(part));
    H5Tinsert(element->memory, name, 0, part);
    element->plain = false;
    return true;
}

/* find_element for an array type: finds the element of the array, and adds the array's axes before its own. */
static bool find_array(hid_t type, const char *field, struct h5_element *element) {
    hsize_t size[H5S_MAX_RANK];
    OWNED_ID hid_t base = H5Tget_super(type);
    int rank = H5Tget_array_dims2(type, size);
    if (base < 0 || rank <= 0 || !find_element(base, field, element) || element->rank + rank > MAX_RANK) return false;
    memmove(element->size + rank, element->size, (size_t)element->rank * sizeof *element->size);
    for (int i = 0; i < rank; i++) element->size[i] = (int64_t)size[i];
    element->rank += rank;
    OWNED_ID hid_t packed_base = part_memory_type(element, base);
    element->memory = H5Tarray_create2(packed_base, (unsigned)rank, size);
    element->plain = false;
    return true;
}

/* Fills `element`, in which the caller has set `memory` to H5I_INVALID_HID. false: the elements cannot be read. */
static bool find_element(hid_t type, const char *field, struct h5_element *element) {
    switch (H5Tget_class(type)) {
    case H5T_COMPOUND: return find_field(type, field, element);
    case H5T_ARRAY: return find_array(type, field, element);
    default: return !field && find_number(type, element);
    }
}

size_t h5_stored_bytes(hid_t type, size_t address_bytes) {
    H5T_class_t class = H5Tget_class(type);
    size_t bytes = H5Tget_size(type);
    /* The file holds a length, and the address and index of the data in its global heap. */
    if (class == H5T_VLEN || (class == H5T_STRING && H5Tis_variable_str(type) > 0)) return 4 + address_bytes + 4;
    const int members = class == H5T_COMPOUND ? H5Tget_nmembers(type) : 0;
    for (int i = 0; i < members; i++) {
        OWNED_ID hid_t member = H5Tget_member_type(type, (unsigned)i);
        bytes += h5_stored_bytes(member, address_bytes) - H5Tget_size(member);
    }
    OWNED_ID hid_t base = class == H5T_ARRAY ? H5Tget_super(type) : H5I_INVALID_HID;
    size_t base_bytes = base < 0 ? 0 : H5Tget_size(base);
    return base_bytes ? bytes / base_bytes * h5_stored_bytes(base, address_bytes) : bytes;
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* The type of the elements in arrays of arrays; with `values`, also the integer type of an enumeration. The caller
 * closes it. */
static hid_t innermost_type(hid_t type, bool values) {
    hid_t base = H5Tcopy(type);
    while (H5Tget_class(base) == H5T_ARRAY || (values && H5Tget_class(base) == H5T_ENUM)) {
        hid_t super = H5Tget_super(base);
        H5Tclose(base);
        base = super;
    }
    return base;
}

/* Adds the names of all fields of a table that hold numbers, "a" or "a/b" for nested tables, up to MAX_FIELDS. */
static void list_fields(hid_t type, const char *before, struct texts *fields) {
    int members = H5Tget_nmembers(type);
    for (int i = 0; i < members && fields->count < MAX_FIELDS; i++) {
        OWNED_NAME char *member_name = H5Tget_member_name(type, (unsigned)i);
        OWNED char *clean = text_clean(member_name ? member_name : "");
        char *name = must_printf("%s%s", before, clean);
        OWNED char *inside = must_printf("%s/", name);
        OWNED_ID hid_t member_type = H5Tget_member_type(type, (unsigned)i), inner = innermost_type(member_type, false);
        struct h5_element element = {.memory = H5I_INVALID_HID};
        bool number = find_element(member_type, NULL, &element);
        h5_release_id(&element.memory);
        if (H5Tget_class(inner) == H5T_COMPOUND) list_fields(inner, inside, fields);
        if (number)
            texts_add(fields, name);
        else
            free(name);
    }
}

/* "x, y, label", at most FIELDS_SHOWN names. The caller frees. */
static char *fields_text(const struct texts *fields) {
    char *text = must_strdup(fields->count ? "" : "no numeric ones");
    for (int i = 0; i < fields->count && i < FIELDS_SHOWN; i++)
        must_append(&text, "%s%s", i ? ", " : "", fields->items[i]);
    if (fields->count > FIELDS_SHOWN) must_append(&text, ", ...");
    return text;
}

void h5_list_fields(hid_t type, struct texts *fields) {
    OWNED_ID hid_t compound = innermost_type(type, false);
    if (H5Tget_class(compound) == H5T_COMPOUND) list_fields(compound, "", fields);
}

/* Is the type a complex number: two floats of one type with one of these pairs of names? */
static bool is_complex(hid_t type) {
    static const char *const names[][2] = {{"r", "i"}, {"re", "im"}, {"real", "imag"}, {"real", "imaginary"}};
    if (H5Tget_class(type) != H5T_COMPOUND || H5Tget_nmembers(type) != 2) return false;
    OWNED_NAME char *first = H5Tget_member_name(type, 0), *second = H5Tget_member_name(type, 1);
    OWNED_ID hid_t real = H5Tget_member_type(type, 0), imaginary = H5Tget_member_type(type, 1);
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        found |= strcasecmp(first, names[i][0]) == 0 && strcasecmp(second, names[i][1]) == 0;
    return found && H5Tget_class(real) == H5T_FLOAT && H5Tequal(real, imaginary) > 0;
}

/* Returns why a table, or its field, cannot be read. The caller frees. */
static char *table_fault(hid_t type, const char *field) {
    FREED_BY(texts_clear) struct texts fields = {0};
    OWNED_ID hid_t compound = innermost_type(type, false);
    h5_list_fields(type, &fields);
    OWNED char *names = fields_text(&fields), *clean = text_clean(field ? field : "");
    const char *near = field ? nearest_name(field, (const char *const *)fields.items, fields.count) : NULL;
    if (field)
        return must_printf("has no numeric field '%s'%s%s%s; `field` must be one of: %s", clean,
                           near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "", names);
    if (fields.count == 2 && is_complex(compound))
        return must_printf("holds complex numbers; `field: %s` or `field: %s` reads a part", fields.items[0],
                           fields.items[1]);
    if (fields.count) return must_printf("holds a table; `field: NAME` reads one of its numeric fields: %s", names);
    return must_strdup("holds a table without numeric fields; tilerun computes with numbers");
}

/* For each class of types: its name, and for those that cannot be read what the user can do. */
static const struct class {
    H5T_class_t class;
    const char *name, *fault;
} classes[] = {
    {H5T_STRING, "string", "holds strings; write the numbers that they represent into another data set"},
    {H5T_VLEN, "sequence", "holds sequences of varying length; write them as rows of one length, or one after another"},
    {H5T_REFERENCE, "reference", "holds references; name the data set that they lead to"},
    {H5T_OPAQUE, "opaque", "holds opaque bytes; write them as numbers, with the program that knows their meaning"},
    {H5T_TIME, "time", "holds times (HDF5 class H5T_TIME); write them as integers"},
    {H5T_INTEGER, "integer", "holds integers of more than 64 bits; write them as float64"},
    {H5T_ARRAY, "array", ""},
    {H5T_ENUM, "enumeration", ""},
    {H5T_NO_CLASS, "unknown", "holds elements of a type that this HDF5 library does not know"},
};

/* The entry of a type's class; that of H5T_NO_CLASS if it has none. */
static const struct class *class_of(hid_t type) {
    const struct class *class = classes;
    while (class->class != H5Tget_class(type) && class->class != H5T_NO_CLASS) class ++;
    return class;
}

char *h5_find_element(hid_t type, const char *field, struct h5_element *element) {
    *element = (struct h5_element){.memory = H5I_INVALID_HID};
    if (find_element(type, field, element)) return NULL;
    h5_release_id(&element->memory);
    *element = (struct h5_element){.memory = H5I_INVALID_HID};
    if (H5Tdetect_class(type, H5T_COMPOUND) > 0 && H5Tget_class(type) != H5T_VLEN) return table_fault(type, field);
    if (field) return must_strdup("is not a table; `field` names a field of a table or a part of a complex number");
    OWNED_ID hid_t base = innermost_type(type, true);
    const struct class *class = class_of(base);
    return must_strdup(class->fault);
}

/* The short name of a table or a complex number. The caller frees. */
static char *compound_text(hid_t type) {
    FREED_BY(texts_clear) struct texts fields = {0};
    if (is_complex(type)) return must_strdup("complex");
    h5_list_fields(type, &fields);
    OWNED char *names = fields_text(&fields);
    return must_printf("table: %s", names);
}

char *h5_type_text(hid_t type) {
    struct h5_element element;
    H5T_class_t class = H5Tget_class(type);
    if (class == H5T_COMPOUND) return compound_text(type);
    OWNED char *unfit = h5_find_element(type, NULL, &element);
    if (unfit) return must_strdup(class_of(type)->name);
    h5_release_id(&element.memory);
    const char *name = dtype_name(element.dtype);
    bool swapped = dtype_size(element.dtype) > 1 && element.plain && H5Tget_order(type) == H5T_ORDER_BE;
    bool custom = !element.plain && (class == H5T_INTEGER || class == H5T_FLOAT);
    return element.codes  ? must_printf("enumeration of %s", name)
           : element.kind ? must_printf("%s (%s)", name, element.kind)
           : element.rank ? must_printf("%s in arrays", name)
           : custom       ? must_printf("%s (%zu bits)", name, H5Tget_precision(type))
                          : must_printf("%s%s", name, swapped ? " big-endian" : "");
}
