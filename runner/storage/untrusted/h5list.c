/* h5list.c - walks the links of a file and describes each data set by its properties, without reading elements. */
#define H5_USE_110_API
#include "h5list.h"

#include "../h5/filters.h"
#include "../h5/h5element.h"
#include "../h5/h5type.h"
#include "fence.h"
#include "h5guard.h"
#include "h5open.h"
#include "h5refused.h"
#include "h5visit.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one data set ------------------------------------------------------------------------------------------------ */

/* "100x512x512"; the caller frees. */
static char *sizes_text(int rank, const hsize_t size[]) {
    char text[H5S_MAX_RANK * 24] = "";
    for (int i = 0, length = 0; i < rank; i++)
        length +=
            snprintf(text + length, sizeof text - (size_t)length, "%s%llu", i ? "x" : "", (unsigned long long)size[i]);
    return must_strdup(text);
}

/* Does an element contain only a pointer to variable-length data, alone or in a compound? */
static bool is_variable_length(hid_t type) {
    if (H5Tget_class(type) == H5T_STRING) return H5Tis_variable_str(type) > 0;
    bool found = H5Tdetect_class(type, H5T_VLEN) > 0;
    hid_t of = H5Tget_class(type) == H5T_ARRAY ? H5Tget_super(type) : -1;
    if (of >= 0) found = is_variable_length(of), H5Tclose(of);
    const int members = H5Tget_class(type) == H5T_COMPOUND ? H5Tget_nmembers(type) : 0;
    for (int i = 0; i < members && !found; i++) {
        const hid_t member = H5Tget_member_type(type, (unsigned)i);
        if (member >= 0) found = is_variable_length(member), H5Tclose(member);
    }
    return found;
}

/* Common names of the filters of HDF5 itself. */
static const struct {
    H5Z_filter_t id;
    const char *name;
} filter_names[] = {
    {H5Z_FILTER_DEFLATE, "gzip"}, {H5Z_FILTER_SHUFFLE, "shuffle"}, {H5Z_FILTER_FLETCHER32, "fletcher32"},
    {H5Z_FILTER_SZIP, "szip"},    {H5Z_FILTER_NBIT, "n-bit"},      {H5Z_FILTER_SCALEOFFSET, "scale-offset"},
};

static void print_filter(FILE *to, hid_t creation, unsigned number) {
    unsigned flags, configuration, values[8] = {0};
    size_t count = 8;
    char own[64] = "";
    H5Z_filter_t id = H5Pget_filter2(creation, number, &flags, &count, values, sizeof own, own, &configuration);
    const char *name = codec_name((int)id);
    for (size_t i = 0; i < sizeof filter_names / sizeof *filter_names; i++)
        if (filter_names[i].id == id) name = filter_names[i].name;
    fputs(number ? ", " : "", to);
    if (name)
        fputs(name, to);
    else
        fprintf(to, "filter %d%s%.40s", (int)id, *own ? " " : "", own);
    if (id == H5Z_FILTER_DEFLATE && count > 0) fprintf(to, " %u", values[0]);
    char *missing = filters_missing(creation, number);
    if (missing) fputs(" (not installed)", to);
    free(missing);
}

static char *filters_text(hid_t creation) {
    char *text = NULL;
    size_t length;
    FILE *to = must_stream(&text, &length);
    for (int i = 0; i < H5Pget_nfilters(creation); i++) print_filter(to, creation, (unsigned)i);
    fclose(to);
    return text;
}

static char *chunks_text(hid_t creation) {
    hsize_t chunk[H5S_MAX_RANK];
    char *sizes = sizes_text(H5Pget_chunk(creation, H5S_MAX_RANK, chunk), chunk);
    char *text = must_printf("chunks %s", sizes);
    free(sizes);
    return text;
}

static char *layout_text(hid_t creation) {
    switch (H5Pget_layout(creation)) {
    case H5D_CHUNKED: return chunks_text(creation);
    case H5D_CONTIGUOUS: return must_strdup(H5Pget_external_count(creation) > 0 ? "external" : "contiguous");
    case H5D_COMPACT: return must_strdup("compact");
    case H5D_VIRTUAL: return must_strdup("virtual");
    default: return must_strdup("unknown");
    }
}

static void count_chunks(hid_t creation, const hsize_t size[], double element_bytes, struct h5_entry *entry) {
    hsize_t chunk[H5S_MAX_RANK];
    if (H5Pget_layout(creation) != H5D_CHUNKED || H5Pget_chunk(creation, H5S_MAX_RANK, chunk) != entry->rank) return;
    entry->chunks = 1;
    entry->chunk_bytes = element_bytes;
    for (int i = 0; i < entry->rank; i++) {
        hsize_t along = size[i] / chunk[i] + (size[i] % chunk[i] > 0);
        entry->chunks *= (double)along;
        entry->chunk_bytes *= (double)chunk[i];
    }
}

/* Describes a data set whose sources must not be opened: HDF5 opens the sources of a virtual data set to find its
 * shape. */
static struct h5_entry describe_refused(hid_t dataset, hid_t creation) {
    hid_t type = H5Dget_type(dataset);
    struct h5_entry entry = {.type = h5_type_text(type),
                             .shape = must_strdup("unknown"),
                             .layout = layout_text(creation),
                             .filters = must_strdup("")};
    H5Tclose(type);
    return entry;
}

/* Describes all but the name. */
static struct h5_entry describe(hid_t dataset, hid_t creation) {
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    hsize_t size[H5S_MAX_RANK];
    int rank = H5Sget_simple_extent_dims(space, size, NULL);
    bool is_virtual = H5Pget_layout(creation) == H5D_VIRTUAL, empty = H5Sget_simple_extent_type(space) == H5S_NULL;
    struct h5_entry entry = {.type = h5_type_text(type),
                             .shape = empty       ? must_strdup("empty")
                                      : rank == 0 ? must_strdup("scalar")
                                                  : sizes_text(rank, size),
                             .layout = layout_text(creation),
                             .filters = filters_text(creation)};
    if (!empty && !is_variable_length(type)) entry.bytes = (double)H5Tget_size(type);
    entry.rank = rank;
    entry.elements = empty ? 0 : 1;
    for (int i = 0; i < rank; i++) {
        entry.elements *= (double)size[i];
        entry.long_axes += size[i] > 1;
    }
    entry.bytes *= entry.elements;
    count_chunks(creation, size, (double)H5Tget_size(type), &entry);
    if (!is_virtual && H5Pget_external_count(creation) == 0) entry.stored = (double)H5Dget_storage_size(dataset);
    H5Sclose(space);
    H5Tclose(type);
    return entry;
}

/* Describes an object that cannot be opened; array_describe reports why. */
static struct h5_entry describe_unreadable(void) {
    return (struct h5_entry){.type = must_strdup("unknown"),
                             .shape = must_strdup("unknown"),
                             .layout = must_strdup("unknown"),
                             .filters = must_strdup("")};
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

struct walk {
    struct h5_list *list;
    const char *path, *group; /* path of the file; name of the group: "/raw", "" for the root */
    hid_t links;
    struct h5_guard *guard;
};

/* Only a virtual data set, or one in external storage, leads to other files. */
static bool is_permitted(const char *path, const char *name, hid_t dataset, hid_t creation) {
    if (H5Pget_layout(creation) != H5D_VIRTUAL && H5Pget_external_count(creation) <= 0) return true;
    struct h5_guard guard;
    struct error refused = {0};
    h5_guard_begin(&guard, EXTERNAL_SAME_FOLDER, path);
    h5_guard_check_open(&guard, name, dataset, &refused);
    h5_guard_end(&guard);
    return !refused.status;
}

/* Takes ownership of `name`. `dataset` is negative if it cannot be opened. */
static void append(struct h5_list *list, const char *path, hid_t dataset, char *name) {
    int count = list->count++;
    if ((count & (count - 1)) == 0) /* the array is full when its count is a power of two */
        list->entries = must_realloc(list->entries, (count ? 2 * (unsigned long)count : 1) * sizeof *list->entries);
    struct h5_entry *entry = &list->entries[count];
    hid_t creation = dataset < 0 ? H5I_INVALID_HID : H5Dget_create_plist(dataset);
    *entry = dataset < 0                                   ? describe_unreadable()
             : is_permitted(path, name, dataset, creation) ? describe(dataset, creation)
                                                           : describe_refused(dataset, creation);
    if (creation >= 0) H5Pclose(creation);
    entry->name = name;
    if (dataset >= 0) entry->marks = h5_attribute_marks(dataset);
    H5O_info_t about;
    if (dataset < 0 || H5Oget_info2(dataset, &about, H5O_INFO_BASIC) < 0)
        about.fileno = ULONG_MAX, about.addr = (haddr_t)count;
    entry->file = about.fileno;
    entry->address = about.addr;
}

/* Records the target of an external link. */
static void record_link(hid_t group, const char *name, const H5L_info_t *link, struct h5_entry *entry) {
    const char *file, *object;
    unsigned flags;
    entry->linked = link->type != H5L_TYPE_HARD;
    if (link->type != H5L_TYPE_EXTERNAL || link->u.val_size == 0) return;
    char *value = must_malloc(link->u.val_size);
    if (H5Lget_val(group, name, value, link->u.val_size, H5P_DEFAULT) >= 0 &&
        H5Lunpack_elink_val(value, link->u.val_size, &flags, &file, &object) >= 0) {
        entry->link_file = must_strdup(file);
        entry->link_object = must_strdup(object);
    }
    free(value);
}

static herr_t visit_link(hid_t group, const char *name, const H5L_info_t *link, void *context) {
    struct walk *walk = context;
    fence_renew(); /* a file may contain a million links */
    char *path = must_printf("%s/%s", walk->group, name);
    walk->guard->error.status = STATUS_OK;
    hid_t object = H5Oopen(group, name, walk->links);
    if (object >= 0 && H5Iget_type(object) == H5I_DATASET) {
        append(walk->list, walk->path, object, path);
        record_link(group, name, link, &walk->list->entries[walk->list->count - 1]);
        path = NULL;
    } else if (object < 0 && walk->guard->error.status) {
        if (walk->list->outside++ == 0) {
            walk->list->first_outside = path;
            path = NULL;
        }
    } else if (object < 0 && (link->type == H5L_TYPE_HARD || H5Oexists_by_name(group, name, walk->links) > 0)) {
        append(walk->list, walk->path, object, path);
        path = NULL;
    } else if (object < 0 && walk->list->broken++ == 0) {
        char *fault = h5_link_fault(group, walk->path, name);
        walk->list->first_broken = fault ? must_printf("%s, %s", path, fault) : must_strdup(path);
        free(fault);
    }
    free(path);
    if (object >= 0) H5Oclose(object);
    return 0;
}

static int compare_names(const void *one, const void *other) {
    const struct h5_entry *a = one, *b = other;
    return strcmp(a->name, b->name);
}

/* Gives a name one leading slash and no trailing ones: "/raw"; "" for the root. The caller frees. */
static char *absolute_name(const char *object) {
    object += strspn(object, "/");
    char *path = must_printf("/%s", object);
    for (size_t length = strlen(path); length > 0 && path[length - 1] == '/';) path[--length] = '\0';
    return path;
}

static enum status walk_object(hid_t file, const char *path, const char *name, struct h5_list *list,
                               struct error *error) {
    struct h5_guard guard;
    h5_guard_begin(&guard, EXTERNAL_SAME_FOLDER, path);
    guard.dataset = *name ? name : "/";
    hid_t links = h5_guard_links(&guard), object = H5Oopen(file, guard.dataset, links);
    struct h5_dataset *none = NULL;
    if (object < 0) { /* h5_open gives the message */
        H5Pclose(links);
        h5_guard_end(&guard);
        if (guard.error.status) return fail(error, guard.error.status, "%s", guard.error.text);
        if (!h5_open(path, name, &none, error)) h5_close(none);
        return error->status ? error->status : fail(error, STATUS_USAGE, "%s: '%s' cannot be opened", path, name);
    }
    enum status status = STATUS_OK;
    H5I_type_t kind = H5Iget_type(object);
    struct walk walk = {list, path, name, links, &guard};
    if (kind == H5I_DATASET)
        append(list, path, object, must_strdup(name));
    else if (kind != H5I_GROUP)
        status = fail(error, STATUS_USAGE, "%s: '%s' is a named data type, not a data set", path, name);
    else if (h5_visit(object, H5_ITER_NATIVE, visit_link, &walk) < 0)
        status = fail(error, STATUS_USAGE, "%s: is a damaged HDF5 file: %s", path, h5_error_text());
    H5Oclose(object);
    H5Pclose(links);
    h5_guard_end(&guard);
    if (list->count > 0) qsort(list->entries, (size_t)list->count, sizeof *list->entries, compare_names);
    if (!status) h5_find_kinds(file, list, strlen(name));
    return status;
}

enum status h5_list(const char *path, const char *object, struct h5_list *list, struct error *error) {
    *list = (struct h5_list){.file = H5I_INVALID_HID};
    FENCE(path);
    TRY(h5_open_file(path, &list->file, error));
    char *name = absolute_name(object);
    enum status status = walk_object(list->file, path, name, list, error);
    free(name);
    return status;
}

void h5_list_free(struct h5_list *list) {
    for (int i = 0; i < list->count; i++) {
        struct h5_entry *entry = &list->entries[i];
        char *const texts[] = {entry->name,    entry->type, entry->shape,     entry->layout,
                               entry->filters, entry->note, entry->link_file, entry->link_object};
        for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) free(texts[t]);
        for (int axis = 0; axis < MAX_RANK; axis++) free(entry->axes[axis]);
    }
    free(list->entries);
    FENCE("the file that was listed");
    if (list->file > 0) H5Fclose(list->file);
    free(list->first_broken);
    free(list->first_outside);
    *list = (struct h5_list){0};
}
