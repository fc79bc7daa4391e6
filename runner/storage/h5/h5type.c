/* h5type.c - element types, groups, attributes and error texts of HDF5. */
#include "h5type.h"

#include "../../base/fail.h"
#include "../../base/text.h"
#include "filters.h"
#include "h5attribute.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    MAX_TEXT_BYTES = 128 << 20, /* address space for reading a text */
    MAX_COMPACT = 65535         /* most attributes in an object header: the limit of HDF5 */
};

/* ---- errors ---- */

struct error_record {
    char text[512];
    bool any;
};
static _Thread_local struct error_record error_record; /* describes the last failed call */

/* Appends one entry of the error stack. H5E_WALK_UPWARD begins at the cause; the description by the API function comes
 * last. */
static herr_t append_error(unsigned number, const H5E_error2_t *entry, void *context) {
    struct error_record *to = context;
    size_t used = strlen(to->text);
    const char *sentence = entry->desc && *entry->desc ? entry->desc : entry->func_name;
    if (number == 0 || !strstr(to->text, sentence))
        snprintf(to->text + used, sizeof to->text - used, "%s%s", to->any ? " < " : "", sentence);
    to->any = true;
    return 0;
}

/* Records the error stack: HDF5 calls this when a call fails, before it returns. Any later call, such as H5Pclose,
 * clears the error stack. */
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
    /* The files of external storage are beside their file, not in the current folder. If the current folder is gone, or
     * its name is too long, HDF5 would crash looking for it: the prefix /dev/null keeps HDF5 from looking. */
    char folder[1024];
    setenv("HDF5_EXTFILE_PREFIX", getcwd(folder, sizeof folder) ? "${ORIGIN}" : "/dev/null", 0);
    h5_record_errors();
    filters_register();
}

const char *h5_version(char text[H5_VERSION_TEXT]) {
    unsigned major, minor, release;
    H5get_libversion(&major, &minor, &release);
    snprintf(text, H5_VERSION_TEXT, "%u.%u.%u", major, minor, release);
    return text;
}

void h5_release_id(const hid_t *id) {
    if (*id > 0) H5Idec_ref(*id); /* 0: H5P_DEFAULT or H5S_ALL */
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

/* Builds a little-endian type of that layout. The caller closes it. */
static hid_t float_type(const struct float_layout *layout) {
    hid_t type = H5Tcopy(H5T_IEEE_F64LE);
    H5Tset_fields(type, layout->sign, layout->exponent, layout->exponent_bits, layout->fraction, layout->fraction_bits);
    H5Tset_size(type, layout->size);
    H5Tset_ebias(type, layout->bias);
    return type;
}

hid_t h5_type(enum dtype dtype) {
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        if (floats[i].dtype == dtype) return float_type(&floats[i].layout);
    hid_t type = H5Tcopy(dtype_is_signed(dtype) ? H5T_STD_I64LE : H5T_STD_U64LE);
    H5Tset_size(type, dtype_size(dtype));
    return type;
}

void h5_find_float(hid_t type, enum dtype *dtype, bool *plain) {
    struct float_layout layout = {.size = H5Tget_size(type), .bias = H5Tget_ebias(type)};
    H5T_order_t order = H5Tget_order(type);
    H5Tget_fields(type, &layout.sign, &layout.exponent, &layout.exponent_bits, &layout.fraction, &layout.fraction_bits);
    *plain = true;
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        if (memcmp(&layout, &floats[i].layout, sizeof layout) == 0 && H5Tget_norm(type) == H5T_NORM_IMPLIED &&
            (order == H5T_ORDER_LE || order == H5T_ORDER_BE)) {
            *dtype = floats[i].dtype;
            return;
        }
    *plain = false;
    /* float32 holds all numbers if it has enough bits, and exponents as small and as large. */
    bool fits = layout.fraction_bits <= 23 && layout.exponent_bits <= 8 && layout.bias <= 127;
    *dtype = fits && ((size_t)1 << layout.exponent_bits) <= layout.bias + 129 ? FLOAT32 : FLOAT64;
}

/* ---- groups ---- */

hid_t h5_creation(hid_t class) {
    hid_t properties = H5Pcreate(class);
    if (class != H5P_DATASET_CREATE)
        H5Pset_link_creation_order(properties, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    H5Pset_attr_creation_order(properties, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    H5Pset_attr_phase_change(properties, MAX_COMPACT, 0);
    return properties;
}

enum status h5_group(hid_t file, const char *path, hid_t *group, struct error *error) {
    OWNED_ID hid_t creation = h5_creation(H5P_GROUP_CREATE);
    OWNED char *copy = must_strdup(path);
    char *save = NULL;
    hid_t at = H5Gopen2(file, "/", H5P_DEFAULT);
    for (char *name = strtok_r(copy, "/", &save); name && at >= 0; name = strtok_r(NULL, "/", &save)) {
        hid_t next = H5Lexists(at, name, H5P_DEFAULT) > 0 ? H5Gopen2(at, name, H5P_DEFAULT)
                                                          : H5Gcreate2(at, name, H5P_DEFAULT, creation, H5P_DEFAULT);
        enum status status = next < 0 ? FAIL_CALL(error, STATUS_IO, "H5Gcreate", h5_error_text()) : STATUS_OK;
        H5Gclose(at);
        at = status ? H5I_INVALID_HID : next;
    }
    *group = at;
    return at < 0 ? fail(error, STATUS_IO, "%s: %s", path, h5_error_text()) : STATUS_OK;
}

/* ---- data sets ---- */

hid_t h5_space(int rank, const int64_t size[]) {
    hsize_t sizes[MAX_RANK];
    for (int i = 0; i < rank; i++) sizes[i] = (hsize_t)size[i];
    return rank ? H5Screate_simple(rank, sizes, NULL) : H5Screate(H5S_SCALAR);
}

enum status h5_create_id(hid_t file, const char *path, hid_t type, hid_t space, hid_t creation, hid_t access, hid_t *id,
                         struct error *error) {
    const char *slash = strrchr(path, '/');
    OWNED char *parent = must_printf("%.*s", slash ? (int)(slash - path) : 0, path);
    OWNED_ID hid_t group = *id = H5I_INVALID_HID;
    TRY(h5_group(file, parent, &group, error));
    *id = H5Dcreate2(group, slash ? slash + 1 : path, type, space, H5P_DEFAULT, creation, access);
    if (*id < 0) return FAIL_CALL(error, STATUS_IO, "H5Dcreate2", h5_error_text());
    return STATUS_OK;
}

/* ---- attributes ---- */

enum status h5_set_attribute(hid_t object, const char *name, hid_t type, hid_t space, const void *value,
                             struct error *error) {
    if (H5Aexists(object, name) > 0) H5Adelete(object, name);
    OWNED_ID hid_t attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    enum status status = STATUS_OK;
    if (attribute < 0 || H5Awrite(attribute, type, value) < 0)
        status = FAIL_CALL(error, STATUS_IO, "H5Awrite", h5_error_text());
    H5Sclose(space);
    H5Tclose(type);
    return status;
}

void h5_attribute_close(const struct h5_attribute *attribute) {
    h5_release_id(&attribute->space);
    h5_release_id(&attribute->type);
    h5_release_id(&attribute->id);
}

bool h5_attribute_open(hid_t object, const char *name, struct h5_attribute *attribute) {
    hid_t id = H5Aexists(object, name) > 0 ? H5Aopen(object, name, H5P_DEFAULT) : H5I_INVALID_HID;
    if (id < 0) return false;
    *attribute = (struct h5_attribute){.id = id, .type = H5Aget_type(id), .space = H5Aget_space(id)};
    if (attribute->type < 0 || attribute->space < 0) {
        h5_attribute_close(attribute);
        *attribute = (struct h5_attribute){0};
        return false;
    }
    attribute->class = H5Tget_class(attribute->type);
    attribute->count = H5Sget_simple_extent_npoints(attribute->space);
    return true;
}

bool h5_has_attributes(hid_t object) {
    H5O_info_t about;
    return H5Oget_info2(object, &about, H5O_INFO_NUM_ATTRS) >= 0 && about.num_attrs > 0;
}

hid_t h5_text_type(void) {
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    return type;
}

enum status h5_set_text(hid_t object, const char *name, const char *value, struct error *error) {
    return h5_set_attribute(object, name, h5_text_type(), H5Screate(H5S_SCALAR), &value, error);
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
 * before it detects the damage. So the address space of the process, all its threads, is limited to MAX_TEXT_BYTES more
 * for that moment. */
static char *read_long_text(hid_t attribute, hid_t type) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    struct rlimit before = {0}, now;
    char *value = NULL, *text = NULL;
    pthread_mutex_lock(&mutex);
    rlim_t bytes = used_address_space();
    bool limited = bytes > 0 && getrlimit(RLIMIT_AS, &before) == 0;
    now = before;
    if (limited && now.rlim_cur > bytes + MAX_TEXT_BYTES) now.rlim_cur = bytes + MAX_TEXT_BYTES;
    limited = limited && setrlimit(RLIMIT_AS, &now) == 0;
    bool read = H5Aread(attribute, type, &value) >= 0;
    if (limited) setrlimit(RLIMIT_AS, &before);
    pthread_mutex_unlock(&mutex);
    if (read && value) text = must_strdup(value);
    H5free_memory(value);
    return text;
}

char *h5_get_text(hid_t object, const char *name) {
    FREED_BY(h5_attribute_close) struct h5_attribute attribute = {0};
    char *text = NULL;
    if (!h5_attribute_open(object, name, &attribute)) return NULL;
    if (attribute.class == H5T_STRING && attribute.count == 1) {
        if (H5Tis_variable_str(attribute.type) > 0) {
            text = read_long_text(attribute.id, attribute.type);
        } else {
            size_t size = H5Tget_size(attribute.type);
            text = size < SIZE_MAX ? calloc(size + 1, 1) : NULL; /* a damaged file may claim any size */
            if (text && H5Aread(attribute.id, attribute.type, text) < 0) *text = '\0';
        }
    }
    return text;
}

char *h5_get_text_of(hid_t file, const char *object, const char *name) {
    OWNED_ID hid_t id = H5Oopen(file, object, H5P_DEFAULT);
    return id < 0 ? NULL : h5_get_text(id, name);
}

bool h5_get_number(hid_t object, const char *name, enum dtype dtype, void *value) {
    FREED_BY(h5_attribute_close) struct h5_attribute attribute = {0};
    if (!h5_attribute_open(object, name, &attribute)) return false;
    OWNED_ID hid_t type = h5_type(dtype);
    return attribute.count == 1 && H5Aread(attribute.id, type, value) >= 0;
}

int64_t h5_get_integer(hid_t object, const char *name, int64_t missing) {
    int64_t value;
    return h5_get_number(object, name, INT64, &value) ? value : missing;
}

char *h5_get_trimmed_text(hid_t object, const char *name) {
    OWNED char *text = h5_get_text(object, name);
    if (!text) return NULL;
    size_t blank = strspn(text, " \t\r\n"), length = strlen(text);
    while (length > blank && strchr(" \t\r\n", text[length - 1])) length--;
    memmove(text, text + blank, length - blank);
    text[length - blank] = '\0';
    return *text && !text_not_utf8(text) ? disown(&text) : NULL;
}
