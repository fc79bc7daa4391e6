/* h5open.c - opens a data set of another program, checks its type, shape, chunks and filters, and reports every error
 * with a message of its own. */
#include "h5open.h"

#include "../../base/fail.h"
#include "../../base/match.h"
#include "../../base/text.h"
#include "../h5/filters.h"
#include "../h5/h5element.h"
#include "../h5/h5type.h"
#include "../h5/h5virtual.h"
#include "h5claims.h"
#include "h5fault.h"
#include "h5guard.h"
#include "h5sources.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Is `folder` the folder of parts of an output that is not complete? */
static bool holds_parts(const char *folder) {
    OWNED_FOLDER DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        if (strcmp(entry->d_name, "lock") == 0 || strncmp(entry->d_name, "shard-", strlen("shard-")) == 0) return true;
    return false;
}

/* Reports that a file does not exist or cannot be looked up. */
static enum status fail_lookup(const char *path, int number, struct error *error) {
    OWNED char *parts = must_printf("%s.parts", path), *word = text_shell_word(path);
    if (number == ENOENT && holds_parts(parts))
        return fail(error, STATUS_USAGE,
                    "%s: does not exist yet: %s holds its parts; `tilerun show %s` prints how to complete it", path,
                    parts, word);
    OWNED char *hint = number == ENOENT || number == ENOTDIR ? match_hint(path) : must_strdup("");
    return fail(error, STATUS_USAGE, "%s: %s%s", path, strerror(number), hint);
}

enum status h5_open_file(const char *path, hid_t *file, struct error *error) {
    struct stat about;
    if (stat(path, &about) != 0) return fail_lookup(path, errno, error);
    if (S_ISDIR(about.st_mode)) return fail(error, STATUS_USAGE, "%s: %s", path, h5_foreign_format(path));
    if (!S_ISREG(about.st_mode)) return fail(error, STATUS_USAGE, "%s: is not a regular file", path);
    *file = h5_open_to_read(path, H5P_DEFAULT);
    if (*file >= 0) return STATUS_OK;
    if (errno) return fail(error, STATUS_USAGE, "%s: %s", path, strerror(errno));
    return h5_fail_file(path, error);
}

/* The data set to open, and the checks. */
struct opening {
    const char *path, *name;
    const char *field; /* field of a table; NULL: none */
    bool chunks_alone; /* accept elements of any type */
    bool checked;      /* a guard with `rule` follows all references of the data set */
    enum job_external rule;
};

/* Reports why the data set cannot be used. */
static enum status fail_dataset(const struct opening *opening, const char *why, struct error *error) {
    return fail(error, STATUS_USAGE, "%s: '%s' %s", opening->path, opening->name, why);
}

/* STATUS_USAGE: an open object is no data set, or refers to a file that the guard refuses. */
static enum status check_object(const struct opening *opening, struct h5_guard *guard, hid_t object,
                                struct error *error) {
    if (opening->checked) TRY(h5_guard_check_open(guard, object, error));
    H5I_type_t kind = H5Iget_type(object);
    bool constant = kind == H5I_GROUP && H5Aexists(object, "value") > 0 && H5Aexists(object, "shape") > 0;
    if (constant)
        return fail_dataset(opening,
                            "is a constant record of openPMD: a group whose attribute 'value' is the number that all "
                            "elements have; `random: {distribution: constant}` makes such an array",
                            error);
    if (kind == H5I_GROUP)
        return fail_dataset(opening, "is a group, not a data set; `tilerun inspect` lists what it holds", error);
    if (kind != H5I_DATASET) return fail_dataset(opening, "is a named data type, not a data set", error);
    return STATUS_OK;
}

/* Opens the object; after a failure *id is as before. A guard refuses links to pipes even if it does not follow the
 * references of the data set. */
static enum status open_object(const struct opening *opening, hid_t file, hid_t *id, struct error *error) {
    const char *path = opening->path, *dataset = opening->name;
    H5_GUARD(guard, opening->checked ? opening->rule : EXTERNAL_ALLOW, path, dataset);
    hid_t object = H5Oopen(file, dataset, guard.links);
    if (object < 0 && guard.error.status) return fail(error, guard.error.status, "%s", guard.error.text);
    if (object < 0) return h5_fail_object(file, path, dataset, error);
    enum status status = check_object(opening, &guard, object, error);
    if (status)
        H5Oclose(object);
    else
        *id = object;
    return status;
}

#define DIGITS_OF(number) #number
#define MAX_AXES(number)  "has more than " DIGITS_OF(number) " axes"
static const char too_many_axes[] = MAX_AXES(MAX_RANK);
static const char too_many_elements[] = "has more elements than 64 bits can count; is the file damaged?";

/* Sets `shape` to the shape of the data set; rank -1: HDF5 cannot determine it. Returns why such a shape cannot be
 * used; NULL: it can. */
static const char *find_shape(hid_t id, struct shape *shape) {
    OWNED_ID hid_t space = H5Dget_space(id);
    hsize_t size[H5S_MAX_RANK];
    shape->rank = -1;
    if (space < 0) return NULL;
    H5S_class_t kind = H5Sget_simple_extent_type(space);
    int rank = H5Sget_simple_extent_dims(space, size, NULL);
    if (kind == H5S_NULL) return "is empty (it has no shape)";
    if (rank > MAX_RANK) return too_many_axes;
    shape->rank = rank;
    for (int i = 0; i < rank; i++) shape->size[i] = size[i] > INT64_MAX ? INT64_MAX : (int64_t)size[i];
    return shape_countable(shape) ? NULL : too_many_elements;
}

/* Reports that HDF5 cannot determine the shape, and the first absent source: HDF5 1.14 cannot determine the shape of a
 * virtual data set whose last numbered file is unreadable. */
static enum status fail_shape(const struct opening *opening, hid_t id, struct error *error) {
    const struct selection none = {.rank = 0};
    struct h5_absent absent;
    OWNED char *reason = must_strdup(h5_error_text());
    enum status status = h5_find_absent(id, opening->path, opening->name, &none, &absent, error);
    OWNED char *first = absent.first;
    if (status) return status;
    if (first)
        return fail(error, STATUS_USAGE,
                    "%s: '%s' is a virtual data set of %s, without which HDF5 cannot determine its shape",
                    opening->path, opening->name, first);
    return fail(error, STATUS_USAGE, "%s: '%s' has a shape that HDF5 cannot determine: %s", opening->path,
                opening->name, reason);
}

hid_t h5_open_unlocked(const char *path) {
    OWNED_ID hid_t access_list = H5Pcreate(H5P_FILE_ACCESS);
#if H5_VERSION_GE(1, 12, 1) || (H5_VERSION_GE(1, 10, 7) && !H5_VERSION_GE(1, 12, 0))
    H5Pset_file_locking(access_list, false, true);
#endif
    return h5_open_to_read(path, access_list);
}

bool h5_is_array(hid_t file, const char *path, enum dtype dtype, const struct shape *shape) {
    struct shape held = {.rank = 0};
    struct h5_element element = {.memory = H5I_INVALID_HID};
    OWNED_ID hid_t id = H5Oopen(file, path, H5P_DEFAULT);
    if (id < 0) return false;
    OWNED_ID hid_t type = H5Iget_type(id) == H5I_DATASET ? H5Dget_type(id) : H5I_INVALID_HID;
    OWNED char *unfit = type >= 0 ? h5_find_element(type, NULL, &element) : NULL;
    bool same = type >= 0 && !unfit && element.plain && element.dtype == dtype;
    same = same && !find_shape(id, &held) && shape_equal(&held, shape);
    h5_release_id(&element.memory);
    return same;
}

/* Finds the chunk shape and filters. STATUS_USAGE: a filter cannot be decoded here. */
static enum status find_layout(const struct opening *opening, struct h5_dataset *dataset, struct error *error) {
    hid_t creation = dataset->creation = H5Dget_create_plist(dataset->id);
    if (creation < 0) return FAIL_CALL(error, STATUS_IO, "H5Dget_create_plist", h5_error_text());
    OWNED char *missing = NULL;
    dataset->scattered = h5_is_scattered(creation);
    if (H5Pget_layout(creation) == H5D_CHUNKED) {
        hsize_t size[H5S_MAX_RANK];
        dataset->chunk.rank = H5Pget_chunk(creation, H5S_MAX_RANK, size);
        for (int i = 0; i < dataset->chunk.rank; i++) dataset->chunk.size[i] = (int64_t)size[i];
        dataset->filtered = H5Pget_nfilters(creation) > 0;
        missing = filters_needed(dataset->id, creation);
    }
    if (!missing) return STATUS_OK;
    return fail(error, STATUS_USAGE, "%s: '%s' is compressed by HDF5 %s", opening->path, opening->name, missing);
}

/* The size of an address in a data set's file. */
static size_t address_bytes(hid_t dataset) {
    OWNED_ID hid_t file = H5Iget_file_id(dataset), creation = file < 0 ? file : H5Fget_create_plist(file);
    size_t bytes = sizeof(haddr_t), lengths;
    if (creation >= 0) H5Pget_sizes(creation, &bytes, &lengths);
    return bytes;
}

/* Finds how elements are read. `element` receives the array dimensions of their type. STATUS_USAGE: they cannot be
 * read, and not only the chunks count. */
static enum status find_element(const struct opening *opening, struct h5_dataset *dataset, struct h5_element *element,
                                struct error *error) {
    OWNED_ID hid_t type = H5Dget_type(dataset->id);
    OWNED char *unusable = h5_find_element(type, opening->field, element);
    dataset->dtype = element->dtype;
    dataset->element = h5_stored_bytes(type, address_bytes(dataset->id));
    dataset->plain = element->plain;
    dataset->codes = element->codes;
    dataset->memory = element->memory;
    dataset->inner = element->rank;
    if (!unusable || opening->chunks_alone) return STATUS_OK;
    fail_dataset(opening, unusable, error);
    if (opening->field) error->key = "field";
    return STATUS_USAGE;
}

/* Adds the array dimensions of the element type to shape and chunk. */
static enum status add_inner_axes(const struct opening *opening, const struct h5_element *element,
                                  struct h5_dataset *dataset, struct error *error) {
    struct shape *const shapes[] = {&dataset->shape, &dataset->chunk};
    if (dataset->shape.rank + element->rank > MAX_RANK)
        return fail_dataset(opening, MAX_AXES(MAX_RANK) ", with those of the arrays in its elements", error);
    for (int i = 0; i < 2; i++)
        for (int axis = 0; axis < element->rank && (i == 0 || dataset->chunk.rank); axis++)
            shapes[i]->size[shapes[i]->rank++] = element->size[axis];
    return shape_countable(&dataset->shape) ? STATUS_OK : fail_dataset(opening, too_many_elements, error);
}

/* Finds element type, shape and layout of an open data set. A chunked one is opened again with a larger chunk cache. */
static enum status examine(const struct opening *opening, struct h5_dataset *dataset, struct error *error) {
    const char *path = opening->path, *name = opening->name;
    struct h5_element element;
    TRY(find_element(opening, dataset, &element, error));
    const char *unfit = find_shape(dataset->id, &dataset->shape);
    if (unfit) return fail_dataset(opening, unfit, error);
    if (dataset->shape.rank < 0) return fail_shape(opening, dataset->id, error);
    TRY(find_layout(opening, dataset, error));
    if (dataset->chunk.rank == 0) return add_inner_axes(opening, &element, dataset, error);
    if (dataset->chunk.rank != dataset->shape.rank)
        return fail(error, STATUS_USAGE, "%s: '%s' is damaged: its shape has %d axes, its chunks have %d", path, name,
                    dataset->shape.rank, dataset->chunk.rank);
    OWNED_ID hid_t access = h5_cache_access(dataset->element, &dataset->shape, &dataset->chunk);
    H5Dclose(dataset->id);
    dataset->id = H5Dopen2(dataset->file, name, access);
    if (dataset->id < 0) return FAIL_CALL(error, STATUS_IO, "H5Dopen2", h5_error_text());
    return add_inner_axes(opening, &element, dataset, error);
}

/* Opens the file and the object, which the caller closes also after an error; an error about the file has its key. */
static enum status open_file_and_object(const struct opening *opening, struct h5_dataset *dataset,
                                        struct error *error) {
    dataset->file = dataset->id = H5I_INVALID_HID;
    enum status status = h5_open_file(opening->path, &dataset->file, error);
    if (status) return error->key = "file", status;
    return open_object(opening, dataset->file, &dataset->id, error);
}

/* Do other files store the elements of the data set? */
static bool refers_to_files(hid_t dataset) {
    OWNED_ID hid_t creation = H5Dget_create_plist(dataset);
    return creation >= 0 && h5_is_scattered(creation);
}

/* Opens a data set and checks what the file claims about it. *result is NULL after a failure. */
static enum status open_any(const struct opening *opening, struct h5_dataset **result, struct error *error) {
    OWNED_DATASET struct h5_dataset *dataset = must_malloc(sizeof *dataset);
    *dataset = (struct h5_dataset){.file = H5I_INVALID_HID, .id = H5I_INVALID_HID, .memory = H5I_INVALID_HID};
    dataset->creation = H5I_INVALID_HID;
    *result = NULL;
    TRY(open_file_and_object(opening, dataset, error));
    /* HDF5 1.14 remembers what it found in the sources while the guard followed them, so the file is opened anew. */
    if (opening->checked && refers_to_files(dataset->id)) {
        struct opening again = *opening;
        again.checked = false;
        H5Oclose(dataset->id);
        H5Fclose(dataset->file);
        TRY(open_file_and_object(&again, dataset, error));
    }
    dataset->id = h5_reopen_past_gaps(dataset->id);
    if (dataset->id < 0) return FAIL_CALL(error, STATUS_IO, "H5Dopen2", h5_error_text());
    TRY(examine(opening, dataset, error));
    *result = disown(&dataset);
    return STATUS_OK;
}

enum status h5_open(const char *path, const char *name, struct h5_dataset **result, struct error *error) {
    return open_any(&(struct opening){.path = path, .name = name}, result, error);
}

enum status h5_open_field(const char *path, const char *name, const char *field, struct h5_dataset **result,
                          struct error *error) {
    return open_any(&(struct opening){.path = path, .name = name, .field = field}, result, error);
}

enum status h5_open_permitted(enum job_external rule, const char *path, const char *name, const char *field,
                              struct h5_dataset **result, struct error *error) {
    const struct opening opening = {.path = path, .name = name, .field = field, .checked = true, .rule = rule};
    return open_any(&opening, result, error);
}

enum status h5_open_chunks(const char *path, const char *name, struct h5_dataset **result, struct error *error) {
    return open_any(&(struct opening){.path = path, .name = name, .chunks_alone = true}, result, error);
}
