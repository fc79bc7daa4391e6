/* h5guard.c - follows a data set's references to other files, in the order in which HDF5 looks for them, and refuses
 * files that the job does not permit. A file may change between this check and the read, but whoever can change it can
 * also put any contents into it. */
#include "h5guard.h"

#include "../../base/fail.h"
#include "../../base/path.h"
#include "../../base/text.h"
#include "../../base/texts.h"
#include "../h5/h5virtual.h"
#include "h5claims.h"
#include "h5names.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_DEPTH = sizeof((struct h5_guard *)0)->chain / sizeof(struct h5_guarded),
    REFUSED = -2,
    NESTED = 3,          /* a virtual data set deeper than this counts as nested */
    MAX_NESTED = 1 << 14 /* most data sets that one walk follows once it reaches nested ones */
};

/* ---- one file ---------------------------------------------------------------------------------------------------- */

/* Sets the folders in which other files may be. Most files refer to no other file, so only the first use sets them. */
static void set_folders(struct h5_guard *guard) {
    if (guard->has_folders) return;
    guard->has_folders = true;
    OWNED char *folder = path_folder(guard->path), *real = must_realpath(guard->path);
    guard->folder[0] = must_realpath(folder);
    guard->folder[1] = real ? path_folder(real) : NULL;
}

/* Is a path without symbolic links in the folder, or below it? */
static bool is_below(const char *real, const char *folder) {
    size_t length = folder ? strlen(folder) : 0;
    if (length == 1) return true; /* "/" */
    return folder && strncmp(real, folder, length) == 0 && real[length] == '/';
}

/* Sets guard->error to "PATH: 'DATASET' HOW FILE WHY"; returns REFUSED, which ends the walk. */
static int refuse_file(struct h5_guard *guard, const char *how, const char *file, const char *why) {
    OWNED char *name = text_clean(guard->dataset), *to = text_clean(file);
    fail(&guard->error, STATUS_USAGE, "%s: '%s' %s %s%s", guard->path, name, how, to, why);
    return REFUSED;
}

/* Stops the walk because it has reached the wanted file. */
static int refuse_wanted(struct h5_guard *guard, const char *file) {
    guard->found = true;
    return refuse_file(guard, "reads", file, "");
}

static bool is_hdf5(const char *path) {
    OWNED_ID hid_t file = h5_open_to_read(path, H5P_DEFAULT);
    return file >= 0;
}

/* Returns the number of the first of the paths that HDF5 would read; -1: there is none; REFUSED: that path, or an
 * existing one before it, is not permitted. `plain`: the file need not be HDF5. `how`: how the data set names it. */
static int find_permitted(struct h5_guard *guard, const char *how, const char *name, const struct texts *names,
                          bool plain) {
    for (int i = 0; guard->wanted && i < names->count; i++)
        if (path_is_file(names->items[i], guard->wanted)) return refuse_wanted(guard, names->items[i]);
    if (guard->rule == EXTERNAL_DENY) return refuse_file(guard, how, name, ", and the job says 'external: deny'");
    for (int i = 0; i < names->count; i++) {
        struct stat about;
        OWNED char *real = must_realpath(names->items[i]);
        if (!real || stat(real, &about) != 0) continue;
        set_folders(guard);
        bool near = is_below(real, guard->folder[0]) || is_below(real, guard->folder[1]);
        if (guard->rule == EXTERNAL_SAME_FOLDER && !near)
            return refuse_file(guard, how, names->items[i],
                               ", which is outside of its folder: only 'external: allow' in the job file permits that");
        if (!S_ISREG(about.st_mode)) return refuse_file(guard, how, names->items[i], ", which is not a regular file");
        if (plain || is_hdf5(names->items[i])) return i;
    }
    return -1;
}

/* Checks an external link; HDF5 calls this for each external link before it follows it. */
static herr_t check_link(const char *from, const char *group, const char *file, const char *object, unsigned *flags,
                         hid_t access, void *context) {
    struct h5_guard *guard = context;
    (void)group;
    (void)object;
    (void)access;
    *flags = H5F_ACC_RDONLY;
    FREED_BY(texts_clear) struct texts names = h5_names_of(from, file, "HDF5_EXT_PREFIX");
    int found = find_permitted(guard, "is an external link to", file, &names, false);
    return found == REFUSED ? -1 : 0;
}

void h5_guard_begin(struct h5_guard *guard, enum job_external rule, const char *path, const char *dataset) {
    *guard = (struct h5_guard){.rule = rule, .path = path, .dataset = dataset};
    guard->links = H5Pcreate(H5P_LINK_ACCESS);
    H5Pset_elink_cb(guard->links, check_link, guard);
}

void h5_guard_end(struct h5_guard *guard) {
    H5Pclose(guard->links);
    for (int i = 0; i < 2; i++) free(guard->folder[i]);
}

/* ---- sources of a data set --------------------------------------------------------------------------------------- */

/* Checks the files of external storage of a data set in the file at `path`. */
static void check_external_files(struct h5_guard *guard, hid_t creation, const char *path) {
    int count = H5Pget_external_count(creation);
    for (int i = 0; i < count && !guard->error.status; i++) {
        char file[PATH_MAX] = "";
        off_t offset;
        hsize_t bytes;
        if (H5Pget_external(creation, (unsigned)i, sizeof file - 1, file, &offset, &bytes) < 0) continue;
        FREED_BY(texts_clear) struct texts names = h5_names_external(path, file);
        find_permitted(guard, "is stored in", file, &names, true);
    }
}

/* Checks data set `name` of the file at `path`, if both exist, and lets guard->visit visit it. */
static void check_file(struct h5_guard *guard, const char *path, const char *name);

/* Checks one source of a mapping; file ".": the file at `path` itself. */
static void check_source(struct h5_guard *guard, const char *path, const char *file, const char *dataset) {
    if (strcmp(file, ".") == 0) {
        check_file(guard, path, dataset);
        return;
    }
    FREED_BY(texts_clear) struct texts names = h5_names_of(path, file, "HDF5_VDS_PREFIX");
    int found = find_permitted(guard, "is a virtual data set of", file, &names, false);
    if (found >= 0) check_file(guard, names.items[found], dataset);
}

/* Callback of h5_each_source: checks the sources of a mapping, for all blocks that exist. Checks block 0 first: only
 * then may h5_last_block list the folder that holds the blocks. false: a source was refused. */
static bool check_blocks(void *context, const char *file, const char *dataset) {
    struct h5_guard *guard = context;
    const char *path = guard->chain[guard->depth - 1].path;
    int last_block = 0, ignored;
    for (int block = 0; block <= last_block && !guard->error.status; block++) {
        bool file_numbered, dataset_numbered;
        OWNED char *in_file = h5_block_name(file, block, &file_numbered);
        OWNED char *in_dataset = h5_block_name(dataset, block, &dataset_numbered);
        check_source(guard, path, in_file, in_dataset);
        if (block > 0 || guard->error.status || !(file_numbered || dataset_numbered)) continue;
        last_block = h5_last_block(path, file, dataset, guard->links, &ignored);
    }
    return !guard->error.status;
}

/* Checks all files that an open data set refers to, and its sources in turn. Refuses a data set that reads itself, and
 * virtual data sets that are nested too deeply. */
static void check_dataset(struct h5_guard *guard, hid_t dataset) {
    char path[PATH_MAX] = "";
    H5O_info_t about;
    if (H5Iget_type(dataset) != H5I_DATASET || H5Oget_info2(dataset, &about, H5O_INFO_BASIC) < 0) return;
    for (int i = 0; i < guard->depth; i++)
        if (guard->chain[i].file == about.fileno && guard->chain[i].address == about.addr) {
            refuse_file(guard, "is a virtual data set", "that reads itself", "");
            return;
        }
    guard->visited++;
    if (guard->depth == MAX_DEPTH || (guard->depth > NESTED && guard->visited > MAX_NESTED)) {
        refuse_file(guard, "is made of", "too many virtual data sets of virtual data sets", "");
        return;
    }
    guard->chain[guard->depth++] = (struct h5_guarded){about.fileno, about.addr, path};
    H5Fget_name(dataset, path, sizeof path);
    OWNED_ID hid_t creation = H5Dget_create_plist(dataset);
    check_external_files(guard, creation, path);
    const struct selection *seen = guard->depth == 1 ? guard->seen : NULL;
    if (!guard->error.status) h5_each_source(creation, seen, check_blocks, guard);
    guard->depth--;
}

static void check_file(struct h5_guard *guard, const char *path, const char *name) {
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return;
    OWNED_ID hid_t file = h5_open_to_read(path, H5P_DEFAULT);
    OWNED_ID hid_t dataset = file < 0 ? file : H5Oopen(file, name, guard->links);
    if (dataset >= 0) check_dataset(guard, dataset);
    if (dataset >= 0 && guard->visit && !guard->error.status) guard->visit(path, name, &guard->error);
}

enum status h5_guard_check_open(struct h5_guard *guard, hid_t dataset, struct error *error) {
    check_dataset(guard, dataset);
    return guard->error.status ? fail(error, guard->error.status, "%s", guard->error.text) : STATUS_OK;
}

bool h5_reads_file(const char *path, const char *name, const struct stat *file) {
    H5_GUARD(guard, EXTERNAL_ALLOW, path, name);
    guard.wanted = file;
    guard.found = path_is_file(path, file);
    if (!guard.found) check_file(&guard, path, name);
    return guard.found;
}
