/* h5names.c - builds paths as HDF5 does, and searches folders and groups for numbered names. */
#include "h5names.h"

#include "../../base/fail.h"
#include "../../base/path.h"
#include "../../base/texts.h"
#include "h5claims.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATHS = 32 };

/* ---- paths ------------------------------------------------------------------------------------------------------- */

/* Adds the path of a file. `folder` NULL: the current folder. */
static void add_path(struct texts *names, const char *folder, const char *name) {
    if (names->count == MAX_PATHS) return;
    texts_add(names, folder ? must_printf("%s/%s", folder, name) : must_strdup(name));
}

/* Replaces ${ORIGIN} at the beginning of a folder by `origin`. The caller frees. */
static char *expand_origin(const char *folder, const char *origin) {
    static const char mark[] = "${ORIGIN}";
    bool marked = strncmp(folder, mark, strlen(mark)) == 0;
    return must_printf("%s%s", marked ? origin : "", folder + (marked ? strlen(mark) : 0));
}

/* Adds the paths in the folders that the environment variable names. */
static void add_prefix_folders(struct texts *names, const char *variable, const char *origin, const char *name) {
    const char *folders = getenv(variable);
    OWNED char *list = must_strdup(folders ? folders : "");
    char *rest = list;
    for (char *folder; (folder = strsep(&rest, ":"));) {
        OWNED char *expanded = expand_origin(folder, origin);
        if (*expanded && names->count < MAX_PATHS - 3)
            add_path(names, expanded, name); /* leaves space for the three paths that are always added */
    }
}

/* The folder of the file that `from` leads to by links. The caller frees. */
static char *real_folder(const char *from) {
    OWNED char *real = must_realpath(from);
    return path_folder(real ? real : from);
}

struct texts h5_names_of(const char *from, const char *name, const char *variable) {
    const char *relative = *name == '/' ? path_name(name) : name;
    struct texts names = {0};
    OWNED char *folder = path_folder(from), *origin_folder = real_folder(from);
    if (relative != name) add_path(&names, NULL, name);
    add_prefix_folders(&names, variable, origin_folder, relative);
    add_path(&names, folder, relative);
    add_path(&names, NULL, relative);
    add_path(&names, origin_folder, relative);
    return names;
}

struct texts h5_names_external(const char *from, const char *name) {
    struct texts names = {0};
    const char *prefix = getenv("HDF5_EXTFILE_PREFIX"); /* h5_prepare sets it */
    if (*name == '/' || !prefix || !*prefix || strcmp(prefix, ".") == 0) {
        add_path(&names, NULL, name);
        return names;
    }
    OWNED char *origin_folder = real_folder(from), *folder = expand_origin(prefix, origin_folder);
    add_path(&names, folder, name);
    return names;
}

/* ---- numbered names ---------------------------------------------------------------------------------------------- */

char *h5_block_name(const char *stored, int block, bool *numbered) {
    char *name = must_strdup("");
    *numbered = false;
    for (const char *at = stored; *at; at += *at == '%' && at[1] ? 2 : 1) {
        bool number = at[0] == '%' && at[1] == 'b';
        if (number)
            must_append(&name, "%d", block);
        else
            must_append(&name, "%c", *at);
        *numbered |= number;
    }
    return name;
}

/* The number of the block that has this name; -1: no block has it. `stored`: the name of a virtual data set's source,
 * in which %b stands for the number. */
static int block_of(const char *stored, const char *name) {
    size_t prefix_length = 0; /* length of `name` before the number */
    const char *at = stored;
    for (; *at && !(at[0] == '%' && at[1] == 'b'); at += *at == '%' && at[1] ? 2 : 1, prefix_length++)
        if (name[prefix_length] != *at) return -1;
    if (!*at || strspn(name + prefix_length, "0123456789") == 0) return -1;
    long block = strtol(name + prefix_length, NULL, 10);
    if (block < 0 || block >= H5_MAX_BLOCKS) return -1;
    bool numbered;
    OWNED char *expanded = h5_block_name(stored, (int)block, &numbered);
    bool same = strcmp(expanded, name) == 0;
    return same ? (int)block : -1;
}

/* A search for the blocks of a mapping among the names in a folder or a group. */
struct block_search {
    const char *stored; /* last component of the stored name */
    int last;           /* number of the last block that exists; -1: none */
    int found;          /* how many blocks exist */
};

/* Counts a name if it is that of a block. */
static void count_name(struct block_search *search, const char *name) {
    int block = block_of(search->stored, name);
    search->found += block >= 0;
    if (block > search->last) search->last = block;
}

/* Returns the part of a stored name before the last slash, with the number of block 0, and notes the last component in
 * `search`. The caller frees. */
static char *split_name(const char *stored, struct block_search *search) {
    const char *slash = strrchr(stored, '/');
    bool numbered;
    OWNED char *parent = must_printf("%.*s", slash ? (int)(slash - stored) : 0, stored);
    search->stored = slash ? slash + 1 : stored;
    return h5_block_name(parent, 0, &numbered);
}

/* Searches the folder of a path for names whose last component is numbered. */
static void search_folder(const char *path, struct block_search *search) {
    OWNED char *folder = split_name(path, search);
    OWNED_FOLDER DIR *open = opendir(*folder ? folder : *path == '/' ? "/" : ".");
    for (const struct dirent *entry; open && (entry = readdir(open));) count_name(search, entry->d_name);
}

/* Callback of H5Literate: counts the name of a link. */
static herr_t count_link(hid_t group, const char *name, const H5L_info_t *link, void *context) {
    (void)group;
    (void)link;
    count_name(context, name);
    return 0;
}

/* Searches the group of a data set, in the first file that can be opened. */
static void search_group(const struct texts *names, const char *dataset, hid_t links, struct block_search *search) {
    OWNED char *parent = split_name(dataset, search);
    OWNED_ID hid_t file = H5I_INVALID_HID;
    for (int i = 0; i < names->count && file < 0; i++) file = h5_open_to_read(names->items[i], H5P_DEFAULT);
    OWNED_ID hid_t group = file < 0 ? file : H5Oopen(file, *parent ? parent : "/", links);
    if (group >= 0 && H5Iget_type(group) == H5I_GROUP)
        H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, count_link, search);
}

/* Searches the folder if the file's name is numbered, otherwise the group in the file. */
int h5_last_block(const char *from, const char *file, const char *dataset, hid_t links, int *found) {
    struct block_search search = {.last = -1};
    bool same = strcmp(file, ".") == 0, file_numbered, dataset_numbered;
    OWNED char *first = h5_block_name(file, 0, &file_numbered);
    free(h5_block_name(dataset, 0, &dataset_numbered));
    const char *searched = same ? from : file_numbered ? file : first;
    FREED_BY(texts_clear) struct texts names = h5_names_of(from, searched, "HDF5_VDS_PREFIX");
    if (!file_numbered && !dataset_numbered)
        search = (struct block_search){.last = 0, .found = 1};
    else if (file_numbered)
        for (int i = 0; i < names.count; i++) {
            struct block_search folder = {.last = -1};
            search_folder(names.items[i], &folder);
            if (folder.last > search.last) search.last = folder.last;
            if (folder.found > search.found) search.found = folder.found;
        }
    else
        search_group(&names, dataset, links, &search);
    *found = search.found;
    return search.last;
}
