/* h5list.c - visits the links of a file, describes each data set by its properties, without reading elements, and names
 * its axes. */
#include "h5list.h"
#include "../../base/path.h"
#include "../../base/texts.h"
#include "../h5/filters.h"
#include "../h5/h5attribute.h"
#include "../h5/h5element.h"
#include "../h5/h5scale.h"
#include "../h5/h5virtual.h"
#include "fence.h"
#include "h5fault.h"
#include "h5guard.h"
#include "h5open.h"
#include "h5visit.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one data set ------------------------------------------------------------------------------------------------ */

/* Returns sizes as a text, "100x512x512"; the caller frees. */
static char *sizes_text(int rank, const hsize_t size[]) {
    char text[H5S_MAX_RANK * 24] = "";
    for (int i = 0, length = 0; i < rank; i++)
        length +=
            snprintf(text + length, sizeof text - (size_t)length, "%s%llu", i ? "x" : "", (unsigned long long)size[i]);
    return must_strdup(text);
}

/* Does an element contain a pointer to variable-length data: itself, in an array, or as a member of a compound? */
static bool is_variable_length(hid_t type) {
    if (H5Tget_class(type) == H5T_STRING) return H5Tis_variable_str(type) > 0;
    bool found = H5Tdetect_class(type, H5T_VLEN) > 0;
    hid_t base = H5Tget_class(type) == H5T_ARRAY ? H5Tget_super(type) : -1;
    if (base >= 0) found = is_variable_length(base), H5Tclose(base);
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

/* Writes the name of filter `number`, the level of deflate, and whether the filter is missing here. */
static void print_filter(FILE *to, hid_t creation, unsigned number) {
    unsigned flags, configuration, values[8] = {0};
    size_t count = 8;
    char registered[64] = ""; /* name in the file */
    H5Z_filter_t id =
        H5Pget_filter2(creation, number, &flags, &count, values, sizeof registered, registered, &configuration);
    const char *name = codec_name((int)id);
    for (size_t i = 0; i < sizeof filter_names / sizeof *filter_names; i++)
        if (filter_names[i].id == id) name = filter_names[i].name;
    fputs(number ? ", " : "", to);
    if (name)
        fputs(name, to);
    else
        fprintf(to, "filter %d%s%.40s", (int)id, *registered ? " " : "", registered);
    if (id == H5Z_FILTER_DEFLATE && count > 0) fprintf(to, " %u", values[0]);
    OWNED char *missing = filters_missing(creation, number);
    if (missing) fputs(" (not installed)", to);
}

static char *filters_text(hid_t creation) {
    char *text;
    FILE *to = must_stream(&text);
    for (int i = 0; i < H5Pget_nfilters(creation); i++) print_filter(to, creation, (unsigned)i);
    fclose(to);
    return text;
}

static char *chunks_text(hid_t creation) {
    hsize_t chunk[H5S_MAX_RANK];
    OWNED char *sizes = sizes_text(H5Pget_chunk(creation, H5S_MAX_RANK, chunk), chunk);
    return must_printf("chunks %s", sizes);
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

/* Sets number and bytes of the chunks of an entry whose rank is set and whose axes have sizes `size`; they stay 0 if it
 * has no chunks. Chunks of HDF5 are not empty. */
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

/* Describes an object that cannot be opened (`dataset` is negative; array_describe reports why), or a data set whose
 * sources must not be opened: HDF5 would open them to find the shape of a virtual data set. */
static struct h5_entry describe_unknown(hid_t dataset, hid_t creation) {
    struct h5_entry entry = {.shape = must_strdup("unknown"), .filters = must_strdup("")};
    OWNED_ID hid_t type = dataset < 0 ? H5I_INVALID_HID : H5Dget_type(dataset);
    entry.type = type < 0 ? must_strdup("unknown") : h5_type_text(type);
    entry.layout = dataset < 0 ? must_strdup("unknown") : layout_text(creation);
    return entry;
}

/* Describes a data set, except for its name and the other members that depend on the links to it. */
static struct h5_entry describe_dataset(hid_t dataset, hid_t creation) {
    OWNED_ID hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
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
    h5_list_fields(type, &entry.fields);
    if (!is_virtual && H5Pget_external_count(creation) == 0) entry.stored = (double)H5Dget_storage_size(dataset);
    return entry;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* The context of visit_link. */
struct link_walk {
    struct h5_list *list;
    const char *path, *group; /* path of the file; name of the group: "/raw", "" for the root */
    struct h5_guard *guard;
};

/* Does the data set refer only to files of its folder? */
static bool is_permitted(const char *path, const char *name, hid_t dataset, hid_t creation) {
    if (!h5_is_scattered(creation)) return true;
    struct error refused = {0};
    H5_GUARD(guard, EXTERNAL_SAME_FOLDER, path, name);
    h5_guard_check_open(&guard, dataset, &refused);
    return !refused.status;
}

/* Appends an entry to the list, which owns `name` from then on. `dataset` is negative if it cannot be opened. An object
 * without an address gets one of its own, so that it is no other name of another. */
static void append_dataset(struct h5_list *list, const char *path, hid_t dataset, char *name) {
    struct h5_entry *entry = APPEND(list->entries, list->count);
    OWNED_ID hid_t creation = dataset < 0 ? H5I_INVALID_HID : H5Dget_create_plist(dataset);
    bool known = dataset >= 0 && is_permitted(path, name, dataset, creation);
    *entry = (known ? describe_dataset : describe_unknown)(dataset, creation);
    entry->name = name;
    if (dataset >= 0) entry->marks = h5_attribute_marks(dataset);
    H5O_info_t about;
    if (dataset < 0 || H5Oget_info2(dataset, &about, H5O_INFO_BASIC) < 0)
        about.fileno = ULONG_MAX, about.addr = (haddr_t)list->count;
    entry->file = about.fileno;
    entry->address = about.addr;
}

/* Records whether the entry is reached by a soft or an external link, and the target of an external one. */
static void record_link(hid_t group, const char *name, const H5L_info_t *link, struct h5_entry *entry) {
    const char *file, *object;
    unsigned flags;
    entry->linked = link->type != H5L_TYPE_HARD;
    if (link->type != H5L_TYPE_EXTERNAL || link->u.val_size == 0) return;
    OWNED char *value = must_malloc(link->u.val_size);
    if (H5Lget_val(group, name, value, link->u.val_size, H5P_DEFAULT) >= 0 &&
        H5Lunpack_elink_val(value, link->u.val_size, &flags, &file, &object) >= 0) {
        entry->link_file = must_strdup(file);
        entry->link_object = must_strdup(object);
    }
}

/* Callback of h5_visit: adds a data set, or an object that exists but cannot be opened, to the list, and counts links
 * that lead nowhere or that the guard refused. Always returns 0, so that all links are visited. */
static herr_t visit_link(hid_t group, const char *name, const H5L_info_t *link, void *context) {
    struct link_walk *walk = context;
    fence_renew(); /* a file may contain a million links */
    OWNED char *path = must_printf("%s/%s", walk->group, name);
    walk->guard->error.status = STATUS_OK;
    OWNED_ID hid_t object = H5Oopen(group, name, walk->guard->links);
    if (object >= 0 && H5Iget_type(object) == H5I_DATASET) {
        append_dataset(walk->list, walk->path, object, disown(&path));
        record_link(group, name, link, &walk->list->entries[walk->list->count - 1]);
    } else if (object < 0 && walk->guard->error.status) {
        if (walk->list->outside++ == 0) walk->list->first_outside = disown(&path);
    } else if (object < 0 && (link->type == H5L_TYPE_HARD || H5Oexists_by_name(group, name, walk->guard->links) > 0)) {
        append_dataset(walk->list, walk->path, object, disown(&path));
    } else if (object < 0 && walk->list->broken++ == 0) {
        OWNED char *fault = h5_link_fault(group, walk->path, name);
        walk->list->first_broken = fault ? must_printf("%s, %s", path, fault) : must_strdup(path);
    }
    return 0;
}

/* Counts an object that cannot be read, or whose links cannot. */
static herr_t count_damaged(hid_t group, const char *name, const H5L_info_t *link, void *context) {
    (void)group, (void)link;
    struct link_walk *walk = context;
    const char *why = h5_error_text(), *rest = strstr(why, " < "); /* the calls that the first reason made fail */
    int length = rest ? (int)(rest - why) : (int)strlen(why);
    if (walk->list->damaged++ == 0)
        walk->list->first_damaged = must_printf("'%s/%s' is damaged: %.*s", walk->group, name, length, why);
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

/* Lists the data set `name`, or the data sets below the group `name`. */
static enum status walk_object(hid_t file, const char *path, const char *name, struct h5_list *list,
                               struct error *error) {
    H5_GUARD(guard, EXTERNAL_SAME_FOLDER, path, *name ? name : "/");
    hid_t object = H5Oopen(file, guard.dataset, guard.links);
    if (object < 0)
        return guard.error.status ? fail(error, guard.error.status, "%s", guard.error.text)
                                  : h5_fail_object(file, path, name, error);
    enum status status = STATUS_OK;
    H5I_type_t kind = H5Iget_type(object);
    struct link_walk walk = {list, path, name, &guard};
    if (kind == H5I_DATASET)
        append_dataset(list, path, object, must_strdup(name));
    else if (kind != H5I_GROUP)
        status = fail(error, STATUS_USAGE, "%s: '%s' is a named data type, not a data set", path, name);
    else if (h5_visit(object, H5_ITER_NATIVE, visit_link, count_damaged, &walk) < 0)
        status = fail(error, STATUS_USAGE, "%s: is a damaged HDF5 file: %s", path, h5_error_text());
    if (!status && list->count == 0 && list->damaged > 0)
        status = fail(error, STATUS_USAGE, "%s: %s", path, list->first_damaged);
    H5Oclose(object);
    if (list->count > 0) qsort(list->entries, (size_t)list->count, sizeof *list->entries, compare_names);
    if (!status) h5_find_kinds(file, list, strlen(name));
    return status;
}

enum status h5_list(const char *path, const char *object, struct h5_list *list, struct error *error) {
    *list = (struct h5_list){.file = H5I_INVALID_HID};
    FENCE(path);
    TRY(h5_open_file(path, &list->file, error));
    OWNED char *name = absolute_name(object);
    return walk_object(list->file, path, name, list, error);
}

void h5_list_free(struct h5_list *list) {
    for (int i = 0; i < list->count; i++) {
        struct h5_entry *entry = &list->entries[i];
        char *const texts[] = {entry->name,    entry->type, entry->shape,     entry->layout,
                               entry->filters, entry->note, entry->link_file, entry->link_object};
        for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) free(texts[t]);
        for (int axis = 0; axis < MAX_RANK; axis++) free(entry->axes[axis]);
        texts_clear(&entry->fields);
    }
    free(list->entries);
    FENCE("the file that was listed");
    if (list->file > 0) H5Fclose(list->file);
    free(list->first_broken);
    free(list->first_outside);
    free(list->first_damaged);
    *list = (struct h5_list){0};
}

/* ---- axes -------------------------------------------------------------------------------------------------------- */

/* Returns the last component of the name of a scale: from the list if it has the scale, because H5Iget_name searches
 * the whole file. The caller frees. */
static char *scale_name(const struct h5_list *list, hid_t scale) {
    H5O_info_t about;
    if (H5Oget_info2(scale, &about, H5O_INFO_BASIC) >= 0)
        for (int i = 0; i < list->count; i++)
            if (list->entries[i].file == about.fileno && list->entries[i].address == about.addr)
                return must_strdup(strrchr(list->entries[i].name, '/') + 1);
    return h5_scale_name(scale);
}

/* The name of the first scale of an axis that can be opened; NULL: there is none. The caller frees. */
static char *first_scale(const struct h5_list *list, hid_t dataset, int axis) {
    hid_t *scales;
    char *name = NULL;
    int count = h5_axis_scales(dataset, axis, &scales);
    for (int i = 0; i < count && !name; i++)
        if (scales[i] >= 0) name = scale_name(list, scales[i]);
    h5_close_scales(count, scales);
    return name;
}

/* Returns the name of an axis; NULL: it has none. The caller frees. */
static char *axis_name(const struct h5_list *list, hid_t dataset, hid_t group, int rank, int axis) {
    char *name = h5_axis_label(dataset, axis);
    if (!name) name = first_scale(list, dataset, axis);
    if (!name) name = h5_axis_text(dataset, "_ARRAY_DIMENSIONS", rank, axis); /* xarray */
    if (!name) name = h5_axis_text(dataset, "axisLabels", rank, axis);        /* openPMD, also of a group */
    if (!name && group >= 0) name = h5_axis_text(group, "axisLabels", rank, axis);
    if (!name && group >= 0) name = h5_axis_text(group, "axes", rank, axis); /* NeXus */
    return name;
}

/* Opens the group of an entry; negative: it has no attributes, or cannot be opened. */
static hid_t open_group(hid_t file, hid_t links, const struct h5_entry *entry) {
    OWNED char *path = path_folder(entry->name);
    const hid_t group = H5Oopen(file, path, links);
    if (group < 0 || h5_has_attributes(group)) return group;
    H5Oclose(group);
    return H5I_INVALID_HID;
}

/* Is `other` in the group of `one`? */
static bool in_one_group(const struct h5_entry *one, const struct h5_entry *other) {
    size_t length = (size_t)(strrchr(one->name, '/') + 1 - one->name);
    return strncmp(one->name, other->name, length) == 0 && !strchr(other->name + length, '/');
}

/* Sets the axis names of an entry. `group`: its group, if that has attributes; else negative. */
static void find_axes(hid_t links, const struct h5_list *list, hid_t group, struct h5_entry *entry) {
    if (group < 0 && !(entry->marks & H5_MARK_ANY)) return;
    OWNED_ID hid_t dataset = H5Oopen(list->file, entry->name, links);
    for (int axis = 0; axis < entry->rank && axis < MAX_RANK && dataset >= 0; axis++) {
        free(entry->axes[axis]);
        entry->axes[axis] = axis_name(list, dataset, group, entry->rank, axis);
    }
}

void h5_list_axes(const char *path, const struct h5_list *list, struct h5_entry *const which[], int count) {
    FENCE(path);
    H5_GUARD(guard, EXTERNAL_SAME_FOLDER, path, "/");
    OWNED_ID hid_t group = H5I_INVALID_HID; /* stays open, because the next data set is often in the same group */
    for (int i = 0; i < count; i++) {
        fence_renew();
        if (i == 0 || !in_one_group(which[i - 1], which[i])) {
            h5_release_id(&group);
            group = open_group(list->file, guard.links, which[i]);
        }
        find_axes(guard.links, list, group, which[i]);
    }
}
