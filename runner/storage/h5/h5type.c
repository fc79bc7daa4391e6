/* h5type.c - element types, groups, attributes and error texts of HDF5. */
#define H5_USE_110_API /* later libraries keep the signatures of 1.10 under this name */
#include "h5type.h"

#include "../../base/fail.h"
#include "filters.h"
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    LONGEST_TEXT = 128 << 20, /* bytes */
    MOST_COMPACT = 65535      /* most attributes in an object header: the limit of HDF5 */
};

/* ---- errors ---- */

struct error_record {
    char text[512];
    bool any;
};
static _Thread_local struct error_record error_record; /* of the last failed call */

/* H5E_WALK_UPWARD begins at the cause; the description by the API function comes last. */
static herr_t append_error(unsigned number, const H5E_error2_t *entry, void *context) {
    struct error_record *to = context;
    size_t used = strlen(to->text);
    const char *sentence = entry->desc && *entry->desc ? entry->desc : entry->func_name;
    if (number == 0 || !strstr(to->text, sentence))
        snprintf(to->text + used, sizeof to->text - used, "%s%s", to->any ? " < " : "", sentence);
    to->any = true;
    return 0;
}

/* HDF5 calls this when a call fails, before it returns. Any later call, for example H5Pclose, clears the error stack.
 */
static herr_t record_error(hid_t stack, void *context) {
    (void)context;
    error_record = (struct error_record){.any = false};
    return H5Ewalk2(stack, H5E_WALK_UPWARD, append_error, &error_record);
}

const char *h5_error_text(void) {
    return error_record.any ? error_record.text : "no details";
}

void h5_set_error_text(const char *text) {
    error_record = (struct error_record){.any = true};
    snprintf(error_record.text, sizeof error_record.text, "%s", text);
}

void h5_record_errors(void) {
    H5Eset_auto2(H5E_DEFAULT, record_error, NULL);
}

void h5_prepare(void) {
    /* When the process ends, HDF5 must not try again to close a file that could not be closed because of a full
     * disk. */
    H5dont_atexit();
    setenv("HDF5_EXTFILE_PREFIX", "${ORIGIN}",
           0); /* external storage lies beside its file, not in the current folder */
    h5_record_errors();
    filters_register();
}

const char *h5_version(char text[H5_VERSION_TEXT]) {
    unsigned major, minor, release;
    H5get_libversion(&major, &minor, &release);
    snprintf(text, H5_VERSION_TEXT, "%u.%u.%u", major, minor, release);
    return text;
}

/* ---- types ---- */

struct float_layout {
    size_t size, sign, exponent, exponent_bits, fraction, fraction_bits, bias; /* bytes; bit positions, widths */
};

static const struct {
    enum dtype dtype;
    struct float_layout layout;
} floats[] = {
    {FLOAT16, {2, 15, 10, 5, 0, 10, 15}},
    {BFLOAT16, {2, 15, 7, 8, 0, 7, 127}},
    {FLOAT32, {4, 31, 23, 8, 0, 23, 127}},
    {FLOAT64, {8, 63, 52, 11, 0, 52, 1023}},
};

static hid_t small_float(const struct float_layout *layout) {
    hid_t type = H5Tcopy(H5T_IEEE_F32LE);
    H5Tset_fields(type, layout->sign, layout->exponent, layout->exponent_bits, layout->fraction, layout->fraction_bits);
    H5Tset_size(type, layout->size);
    H5Tset_ebias(type, layout->bias);
    return type;
}

hid_t h5_type(enum dtype dtype) {
    switch (dtype) {
    case FLOAT32: return H5Tcopy(H5T_IEEE_F32LE);
    case FLOAT64: return H5Tcopy(H5T_IEEE_F64LE);
    case FLOAT16: return small_float(&floats[0].layout);
    case BFLOAT16: return small_float(&floats[1].layout);
    case INT8: return H5Tcopy(H5T_STD_I8LE);
    case INT16: return H5Tcopy(H5T_STD_I16LE);
    case INT32: return H5Tcopy(H5T_STD_I32LE);
    case INT64: return H5Tcopy(H5T_STD_I64LE);
    case UINT8: return H5Tcopy(H5T_STD_U8LE);
    case UINT16: return H5Tcopy(H5T_STD_U16LE);
    case UINT32: return H5Tcopy(H5T_STD_U32LE);
    case UINT64: return H5Tcopy(H5T_STD_U64LE);
    case DTYPE_COUNT: break;
    }
    return H5I_INVALID_HID;
}

void h5_find_float(hid_t type, enum dtype *dtype, bool *plain) {
    struct float_layout it = {.size = H5Tget_size(type), .bias = H5Tget_ebias(type)};
    H5T_order_t order = H5Tget_order(type);
    H5Tget_fields(type, &it.sign, &it.exponent, &it.exponent_bits, &it.fraction, &it.fraction_bits);
    *plain = true;
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        if (memcmp(&it, &floats[i].layout, sizeof it) == 0 && H5Tget_norm(type) == H5T_NORM_IMPLIED &&
            (order == H5T_ORDER_LE || order == H5T_ORDER_BE)) {
            *dtype = floats[i].dtype;
            return;
        }
    *plain = false;
    bool fits = it.fraction_bits <= 23 && it.exponent_bits <= 8 && it.bias <= 127;
    *dtype = fits && ((size_t)1 << it.exponent_bits) <= it.bias + 129 ? FLOAT32 : FLOAT64;
}

/* ---- groups ---- */

hid_t h5_creation(hid_t class) {
    hid_t properties = H5Pcreate(class);
    if (class != H5P_DATASET_CREATE)
        H5Pset_link_creation_order(properties, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    H5Pset_attr_creation_order(properties, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    H5Pset_attr_phase_change(properties, MOST_COMPACT, 0);
    return properties;
}

enum status h5_group(hid_t file, const char *path, hid_t *group, struct error *error) {
    hid_t creation = h5_creation(H5P_GROUP_CREATE);
    char *copy = must_strdup(path), *save = NULL;
    hid_t at = H5Gopen2(file, "/", H5P_DEFAULT);
    for (char *name = strtok_r(copy, "/", &save); name && at >= 0; name = strtok_r(NULL, "/", &save)) {
        hid_t next = H5Lexists(at, name, H5P_DEFAULT) > 0 ? H5Gopen2(at, name, H5P_DEFAULT)
                                                          : H5Gcreate2(at, name, H5P_DEFAULT, creation, H5P_DEFAULT);
        enum status status = next < 0 ? FAIL_CALL(error, STATUS_IO, "H5Gcreate", h5_error_text()) : STATUS_OK;
        H5Gclose(at);
        at = status ? H5I_INVALID_HID : next;
    }
    free(copy);
    H5Pclose(creation);
    *group = at;
    return at < 0 ? fail(error, STATUS_IO, "%s: %s", path, h5_error_text()) : STATUS_OK;
}

/* ---- attributes ---- */

enum status h5_set_attribute(hid_t object, const char *name, hid_t type, hid_t space, const void *value,
                             struct error *error) {
    if (H5Aexists(object, name) > 0) H5Adelete(object, name);
    hid_t attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    enum status status = STATUS_OK;
    if (attribute < 0 || H5Awrite(attribute, type, value) < 0)
        status = FAIL_CALL(error, STATUS_IO, "H5Awrite", h5_error_text());
    if (attribute >= 0) H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(type);
    return status;
}

bool h5_has_attributes(hid_t object) {
    H5O_info_t about;
    return H5Oget_info2(object, &about, H5O_INFO_NUM_ATTRS) >= 0 && about.num_attrs > 0;
}

enum status h5_set_text(hid_t object, const char *name, const char *value, struct error *error) {
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    return h5_set_attribute(object, name, type, H5Screate(H5S_SCALAR), &value, error);
}

enum status h5_set_integer(hid_t object, const char *name, int64_t value, struct error *error) {
    return h5_set_attribute(object, name, h5_type(INT64), H5Screate(H5S_SCALAR), &value, error);
}

enum status h5_set_real(hid_t object, const char *name, double value, struct error *error) {
    return h5_set_attribute(object, name, h5_type(FLOAT64), H5Screate(H5S_SCALAR), &value, error);
}

enum status h5_set_shape(hid_t object, const char *name, const struct shape *shape, struct error *error) {
    hsize_t rank = (hsize_t)shape->rank;
    return h5_set_attribute(object, name, h5_type(INT64), H5Screate_simple(1, &rank, NULL), shape->size, error);
}

/* Bytes of address space that the process uses; 0: not known. */
static rlim_t used_address_space(void) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file) return 0;
    if (fscanf(file, "%lu", &pages) != 1) pages = 0;
    fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* Reads a variable-length text. A damaged file may claim a length of gibibytes, which HDF5 allocates twice and fills
 * before it detects the damage. So the address space of the process, all its threads, is limited to LONGEST_TEXT more
 * for that moment. */
static char *read_long_text(hid_t attribute, hid_t type) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    struct rlimit before = {0}, now;
    char *value = NULL, *text = NULL;
    pthread_mutex_lock(&mutex);
    rlim_t bytes = used_address_space();
    bool limited = bytes > 0 && getrlimit(RLIMIT_AS, &before) == 0;
    now = before;
    if (limited && now.rlim_cur > bytes + LONGEST_TEXT) now.rlim_cur = bytes + LONGEST_TEXT;
    limited = limited && setrlimit(RLIMIT_AS, &now) == 0;
    bool read = H5Aread(attribute, type, &value) >= 0;
    if (limited) setrlimit(RLIMIT_AS, &before);
    pthread_mutex_unlock(&mutex);
    if (read && value) text = must_strdup(value);
    H5free_memory(value);
    return text;
}

char *h5_get_text(hid_t object, const char *name) {
    if (H5Aexists(object, name) <= 0) return NULL;
    hid_t attribute = H5Aopen(object, name, H5P_DEFAULT), type = H5Aget_type(attribute);
    hid_t space = H5Aget_space(attribute);
    char *text = NULL;
    if (H5Tget_class(type) == H5T_STRING && H5Sget_simple_extent_npoints(space) == 1) {
        if (H5Tis_variable_str(type) > 0) {
            text = read_long_text(attribute, type);
        } else {
            size_t size = H5Tget_size(type);
            text = size < SIZE_MAX ? calloc(size + 1, 1) : NULL; /* a damaged file may claim any size */
            if (text && H5Aread(attribute, type, text) < 0) *text = '\0';
        }
    }
    H5Sclose(space);
    H5Tclose(type);
    H5Aclose(attribute);
    return text;
}

bool h5_get_number(hid_t object, const char *name, enum dtype dtype, void *value) {
    if (H5Aexists(object, name) <= 0) return false;
    hid_t attribute = H5Aopen(object, name, H5P_DEFAULT), type = h5_type(dtype), space = H5Aget_space(attribute);
    bool read = H5Sget_simple_extent_npoints(space) == 1 && H5Aread(attribute, type, value) >= 0;
    H5Sclose(space);
    H5Tclose(type);
    H5Aclose(attribute);
    return read;
}

bool h5_is_utf8(const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        int more = *at < 0x80                  ? 0
                   : *at >= 0xC2 && *at < 0xE0 ? 1
                   : *at >= 0xE0 && *at < 0xF0 ? 2
                   : *at >= 0xF0 && *at < 0xF5 ? 3
                                               : -1;
        if (more < 0) return false;
        for (at++; more > 0; more--, at++)
            if ((*at & 0xC0) != 0x80) return false;
    }
    return true;
}

char *h5_get_trimmed_text(hid_t object, const char *name) {
    char *text = h5_get_text(object, name);
    if (!text) return NULL;
    size_t blank = strspn(text, " \t\r\n"), length = strlen(text);
    while (length > blank && strchr(" \t\r\n", text[length - 1])) length--;
    memmove(text, text + blank, length - blank);
    text[length - blank] = '\0';
    if (*text && h5_is_utf8(text)) return text;
    free(text);
    return NULL;
}
