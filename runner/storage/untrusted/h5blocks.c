/* h5blocks.c - searches folders and groups for numbered names. */
#define H5_USE_110_API
#include "h5blocks.h"

#include "../../base/fail.h"
#include "h5claims.h"
#include "h5names.h"
#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is_numbered(const char *stored) {
    bool numbered;
    free(h5_block_name(stored, 0, &numbered));
    return numbered;
}

/* The block number with which `stored` becomes `name`; -1: none. */
static int block_of(const char *stored, const char *name) {
    size_t before = 0; /* length of `name` before the number */
    const char *at = stored;
    for (; *at && !(at[0] == '%' && at[1] == 'b'); at += *at == '%' && at[1] ? 2 : 1, before++)
        if (name[before] != *at) return -1;
    if (!*at || strspn(name + before, "0123456789") == 0) return -1;
    long block = strtol(name + before, NULL, 10);
    if (block < 0 || block >= H5_MOST_BLOCKS) return -1;
    bool numbered;
    char *made = h5_block_name(stored, (int)block, &numbered);
    bool same = strcmp(made, name) == 0;
    free(made);
    return same ? (int)block : -1;
}

struct search {
    const char *stored; /* last component of the stored name */
    int last, found;
};

static void count_name(struct search *search, const char *name) {
    int block = block_of(search->stored, name);
    search->found += block >= 0;
    if (block > search->last) search->last = block;
}

/* Searches the folder of a path for names whose last component is numbered. */
static void search_folder(const char *path, struct search *search) {
    const char *slash = strrchr(path, '/');
    bool numbered;
    char *stored = must_printf("%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    char *folder = h5_block_name(stored, 0, &numbered);
    DIR *open = opendir(*folder ? folder : "/");
    search->stored = slash ? slash + 1 : path;
    for (const struct dirent *entry; open && (entry = readdir(open));) count_name(search, entry->d_name);
    if (open) closedir(open);
    free(folder);
    free(stored);
}

static herr_t count_link(hid_t group, const char *name, const H5L_info_t *link, void *context) {
    (void)group;
    (void)link;
    count_name(context, name);
    return 0;
}

/* Searches the group of a data set, in the first file that can be opened. */
static void search_group(const struct h5_names *names, const char *dataset, hid_t links, struct search *search) {
    const char *slash = strrchr(dataset, '/');
    bool numbered;
    char *stored = must_printf("%.*s", slash ? (int)(slash - dataset) : 0, dataset);
    char *parent = h5_block_name(stored, 0, &numbered);
    hid_t file = H5I_INVALID_HID;
    for (int i = 0; i < names->count && file < 0; i++) file = h5_open_to_read(names->path[i], H5P_DEFAULT);
    hid_t group = file < 0 ? file : H5Oopen(file, *parent ? parent : "/", links);
    search->stored = slash ? slash + 1 : dataset;
    if (group >= 0 && H5Iget_type(group) == H5I_GROUP)
        H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, count_link, search);
    if (group >= 0) H5Oclose(group);
    if (file >= 0) H5Fclose(file);
    free(parent);
    free(stored);
}

int h5_last_block(const char *from, const char *file, const char *dataset, hid_t links, int *found) {
    struct search search = {.last = -1};
    *found = 1;
    if (!is_numbered(file) && !is_numbered(dataset)) return 0;
    bool same = strcmp(file, ".") == 0, numbered;
    char *in_file = is_numbered(file) ? must_strdup(file) : h5_block_name(file, 0, &numbered);
    struct h5_names names = h5_names_of(from, same ? from : in_file, "HDF5_VDS_PREFIX");
    if (is_numbered(file))
        for (int i = 0; i < names.count; i++) {
            struct search folder = {.last = -1};
            search_folder(names.path[i], &folder);
            if (folder.last > search.last) search.last = folder.last;
            if (folder.found > search.found) search.found = folder.found;
        }
    else
        search_group(&names, dataset, links, &search);
    h5_names_free(&names);
    free(in_file);
    *found = search.found;
    return search.last;
}
