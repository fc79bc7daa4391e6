/* h5axes.c - finds the names of the axes of data sets. */
#define H5_USE_110_API
#include "../h5/h5scale.h"
#include "fence.h"
#include "h5guard.h"
#include "h5list.h"
#include "h5open.h"
#include <stdlib.h>
#include <string.h>

/* The last component of the name of a scale. Uses the list where possible, because H5Iget_name searches the whole file.
 */
static char *scale_name(const struct h5_list *list, hid_t scale) {
    H5O_info_t about;
    if (H5Oget_info2(scale, &about, H5O_INFO_BASIC) >= 0)
        for (int i = 0; i < list->count; i++)
            if (list->entries[i].file == about.fileno && list->entries[i].address == about.addr)
                return must_strdup(strrchr(list->entries[i].name, '/') + 1);
    return h5_scale_name(scale);
}

static char *first_scale(const struct h5_list *list, hid_t dataset, int axis) {
    hid_t *scales;
    char *name = NULL;
    int count = h5_axis_scales(dataset, axis, &scales);
    for (int i = 0; i < count; i++) {
        if (!name && scales[i] >= 0) name = scale_name(list, scales[i]);
        if (scales[i] >= 0) H5Dclose(scales[i]);
    }
    free(scales);
    return name;
}

/* Returns NULL if the axis has no name. The caller frees. */
static char *axis_name(const struct h5_list *list, hid_t dataset, hid_t group, int rank, int axis) {
    char *name = h5_axis_label(dataset, axis);
    if (!name) name = first_scale(list, dataset, axis);
    if (!name) name = h5_axis_text(dataset, "_ARRAY_DIMENSIONS", rank, axis); /* xarray */
    if (!name) name = h5_axis_text(dataset, "axisLabels", rank, axis);        /* openPMD, also of a group */
    if (!name && group >= 0) name = h5_axis_text(group, "axisLabels", rank, axis);
    if (!name && group >= 0) name = h5_axis_text(group, "axes", rank, axis); /* NeXus */
    return name;
}

/* The group of the previous data set: the next one is often in it. */
struct group {
    char *path;
    hid_t id; /* negative: the group has no attributes, or cannot be opened */
};

static void close_group(struct group *group) {
    if (group->id >= 0) H5Oclose(group->id);
    free(group->path);
}

static void enter_group(hid_t file, hid_t links, const struct h5_entry *entry, struct group *group) {
    const char *slash = strrchr(entry->name, '/');
    char *path = must_printf("%.*s", slash == entry->name ? 1 : (int)(slash - entry->name), entry->name);
    if (group->path && strcmp(path, group->path) == 0) {
        free(path);
        return;
    }
    close_group(group);
    *group = (struct group){path, H5Oopen(file, path, links)};
    if (group->id < 0 || h5_has_attributes(group->id)) return;
    H5Oclose(group->id);
    group->id = H5I_INVALID_HID;
}

static void find_axes(hid_t file, hid_t links, const struct h5_list *list, struct group *group,
                      struct h5_entry *entry) {
    enter_group(file, links, entry, group);
    if (group->id < 0 && !(entry->marks & H5_MARK_ANY)) return;
    hid_t dataset = H5Oopen(file, entry->name, links);
    for (int axis = 0; axis < entry->rank && axis < MAX_RANK && dataset >= 0; axis++) {
        free(entry->axes[axis]);
        entry->axes[axis] = axis_name(list, dataset, group->id, entry->rank, axis);
    }
    if (dataset >= 0) H5Oclose(dataset);
}

void h5_list_axes(const char *path, const struct h5_list *list, struct h5_entry *const which[], int count) {
    FENCE(path);
    hid_t file;
    struct h5_guard guard;
    struct error error = {0};
    if (h5_open_file(path, &file, &error)) return;
    h5_guard_begin(&guard, EXTERNAL_SAME_FOLDER, path);
    guard.dataset = "/";
    hid_t links = h5_guard_links(&guard);
    struct group group = {NULL, H5I_INVALID_HID};
    for (int i = 0; i < count; i++) {
        fence_renew();
        find_axes(file, links, list, &group, which[i]);
    }
    close_group(&group);
    H5Pclose(links);
    h5_guard_end(&guard);
    H5Fclose(file);
}
