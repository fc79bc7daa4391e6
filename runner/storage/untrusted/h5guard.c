/* h5guard.c - walks from a data set to the files that it is read from, in the order in which HDF5 looks for them,
 * before HDF5 reads it. A user who can change the files meanwhile can change their contents as well. */
#define H5_USE_110_API
#include "h5guard.h"

#include "../../base/destination.h"
#include "../../base/fail.h"
#include "../../base/text.h"
#include "../h5/h5virtual.h"
#include "h5blocks.h"
#include "h5claims.h"
#include "h5names.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEEPEST = sizeof((struct h5_guard *)0)->chain / sizeof(struct h5_guarded),
    REFUSED = -2,
    MOST_NESTED = 1 << 14, /* most data sets that are visited at nesting depth above NESTED */
    NESTED = 3
};

void h5_guard_begin(struct h5_guard *guard, enum job_external rule, const char *path) {
    *guard = (struct h5_guard){.rule = rule, .path = path, .dataset = "/"};
}

/* Sets the folders in which other files may lie. Most files refer to none, so this is done only when needed. */
static void set_folders(struct h5_guard *guard) {
    if (guard->has_folders) return;
    guard->has_folders = true;
    char *folder = path_folder(guard->path), *real = must_realpath(guard->path);
    guard->folder[0] = must_realpath(folder);
    guard->folder[1] = real ? path_folder(real) : NULL;
    free(folder);
    free(real);
}

void h5_guard_end(struct h5_guard *guard) {
    for (int i = 0; i < 2; i++) free(guard->folder[i]);
}

/* ---- one file ---------------------------------------------------------------------------------------------------- */

/* Does a path without symbolic links lie in the folder, or below it? */
static bool is_below(const char *real, const char *folder) {
    size_t length = folder ? strlen(folder) : 0;
    if (length == 1) return true; /* "/" */
    return folder && strncmp(real, folder, length) == 0 && real[length] == '/';
}

static int refuse(struct h5_guard *guard, const char *how, const char *file, const char *why) {
    char *name = text_clean(guard->dataset), *to = text_clean(file);
    fail(&guard->error, STATUS_USAGE, "%s: '%s' %s %s%s", guard->path, name, how, to, why);
    free(name);
    free(to);
    return REFUSED;
}

static bool is_hdf5(const char *path) {
    hid_t file = h5_open_to_read(path, H5P_DEFAULT);
    if (file >= 0) H5Fclose(file);
    return file >= 0;
}

/* Returns the number of the first path that HDF5 would read, -1 if there is none, or REFUSED if a path before it, or
 * that path, is not permitted. `plain`: the file need not be HDF5. */
static int find_permitted(struct h5_guard *guard, const char *how, const char *name, const struct h5_names *names,
                          bool plain) {
    if (guard->rule == EXTERNAL_DENY) return refuse(guard, how, name, ", and the job says 'external: deny'");
    for (int i = 0; i < names->count; i++) {
        struct stat about;
        char *real = must_realpath(names->path[i]);
        if (!real || stat(real, &about) != 0) {
            free(real);
            continue;
        }
        set_folders(guard);
        bool near = is_below(real, guard->folder[0]) || is_below(real, guard->folder[1]);
        free(real);
        if (guard->rule == EXTERNAL_SAME_FOLDER && !near)
            return refuse(guard, how, names->path[i],
                          ", which is outside of its folder: only 'external: allow' in the job file permits that");
        if (!S_ISREG(about.st_mode)) return refuse(guard, how, names->path[i], ", which is not a regular file");
        if (plain || is_hdf5(names->path[i])) return i;
    }
    return -1;
}

/* HDF5 calls this for each external link before it follows it. */
static herr_t check_link(const char *from, const char *group, const char *file, const char *object, unsigned *flags,
                         hid_t access, void *context) {
    struct h5_guard *guard = context;
    (void)group;
    (void)object;
    (void)access;
    *flags = H5F_ACC_RDONLY;
    struct h5_names names = h5_names_of(from, file, "HDF5_EXT_PREFIX");
    int found = find_permitted(guard, "is an external link to", file, &names, false);
    h5_names_free(&names);
    return found == REFUSED ? -1 : 0;
}

hid_t h5_guard_links(struct h5_guard *guard) {
    hid_t links = H5Pcreate(H5P_LINK_ACCESS);
    H5Pset_elink_cb(links, check_link, guard);
    return links;
}

/* ---- sources of a data set --------------------------------------------------------------------------------------- */

static void check_external_files(struct h5_guard *guard, hid_t creation, const char *path) {
    int count = H5Pget_external_count(creation);
    for (int i = 0; i < count && !guard->error.status; i++) {
        char file[PATH_MAX] = "";
        off_t offset;
        hsize_t bytes;
        if (H5Pget_external(creation, (unsigned)i, sizeof file - 1, file, &offset, &bytes) < 0) continue;
        struct h5_names names = h5_names_external(path, file);
        find_permitted(guard, "is stored in", file, &names, true);
        h5_names_free(&names);
    }
}

static void check_file(struct h5_guard *guard, const char *path, const char *name);

/* Checks one source of a mapping. */
static void check_source(struct h5_guard *guard, const char *path, const char *file, const char *dataset) {
    if (strcmp(file, ".") == 0) {
        check_file(guard, path, dataset);
        return;
    }
    struct h5_names names = h5_names_of(path, file, "HDF5_VDS_PREFIX");
    int found = find_permitted(guard, "is a virtual data set of", file, &names, false);
    if (found >= 0) check_file(guard, names.path[found], dataset);
    h5_names_free(&names);
}

/* Context of check_blocks: the file at `path` contains the virtual data set. */
struct sources {
    struct h5_guard *guard;
    const char *path;
};

/* Checks all blocks that exist. Checks block 0 before it lists a folder. */
static bool check_blocks(void *context, const char *file, const char *dataset) {
    const struct sources *sources = context;
    struct h5_guard *guard = sources->guard;
    int last = 0, found;
    for (int block = 0; block <= last && !guard->error.status; block++) {
        bool files, datasets;
        char *in_file = h5_block_name(file, block, &files), *of = h5_block_name(dataset, block, &datasets);
        check_source(guard, sources->path, in_file, of);
        free(in_file);
        free(of);
        if (block > 0 || guard->error.status || !(files || datasets)) continue;
        hid_t links = h5_guard_links(guard);
        last = h5_last_block(sources->path, file, dataset, links, &found);
        H5Pclose(links);
    }
    return !guard->error.status;
}

static void check_dataset(struct h5_guard *guard, hid_t dataset) {
    char path[PATH_MAX] = "";
    H5O_info_t about;
    if (H5Iget_type(dataset) != H5I_DATASET || H5Oget_info2(dataset, &about, H5O_INFO_BASIC) < 0) return;
    for (int i = 0; i < guard->depth; i++)
        if (guard->chain[i].file == about.fileno && guard->chain[i].address == about.addr) {
            refuse(guard, "is a virtual data set", "that reads itself", "");
            return;
        }
    guard->visited++;
    if (guard->depth == DEEPEST || (guard->depth > NESTED && guard->visited > MOST_NESTED)) {
        refuse(guard, "is made of", "too many virtual data sets of virtual data sets", "");
        return;
    }
    guard->chain[guard->depth++] = (struct h5_guarded){about.fileno, about.addr};
    H5Fget_name(dataset, path, sizeof path);
    hid_t creation = H5Dget_create_plist(dataset);
    check_external_files(guard, creation, path);
    const struct selection *seen = guard->depth == 1 ? guard->seen : NULL;
    if (!guard->error.status) h5_each_source(creation, seen, check_blocks, &(struct sources){guard, path});
    H5Pclose(creation);
    guard->depth--;
}

static void check_file(struct h5_guard *guard, const char *path, const char *name) {
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return;
    hid_t file = h5_open_to_read(path, H5P_DEFAULT), links = h5_guard_links(guard);
    hid_t dataset = file < 0 ? file : H5Oopen(file, name, links);
    H5Pclose(links);
    if (dataset >= 0) check_dataset(guard, dataset);
    if (dataset >= 0 && guard->visit && !guard->error.status) guard->visit(path, name, &guard->error);
    if (dataset >= 0) H5Oclose(dataset);
    if (file >= 0) H5Fclose(file);
}

enum status h5_guard_check_open(struct h5_guard *guard, const char *name, hid_t dataset, struct error *error) {
    guard->dataset = name;
    check_dataset(guard, dataset);
    return guard->error.status ? fail(error, guard->error.status, "%s", guard->error.text) : STATUS_OK;
}
