/* h5sources.c - follows a data set to the files that it is read from. All paths that HDF5 would try for a file count.
 */
#define H5_USE_110_API
#include "h5sources.h"

#include "../../base/destination.h"
#include "../../base/fail.h"
#include "../h5/h5virtual.h"
#include "h5claims.h"
#include "h5names.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 16, MOST_BLOCKS = 1 << 20 };

struct search {
    const struct stat *wanted;
    bool found;
    int depth;
};

/* Context of search_source: the file at `path` contains the data set. */
struct sources {
    struct search *search;
    const char *path;
};

/* Looks for the wanted file among paths. true: at least one of them exists. */
static bool compare_files(struct search *search, const struct h5_names *names) {
    bool any = false;
    struct stat about;
    for (int i = 0; i < names->count; i++) {
        any |= stat(names->path[i], &about) == 0;
        search->found |= path_is_file(names->path[i], search->wanted);
    }
    return any;
}

static void search_dataset(struct search *search, const char *path, const char *name);

/* HDF5 calls this for each external link that it follows. */
static herr_t search_link(const char *from, const char *group, const char *file, const char *object, unsigned *flags,
                          hid_t access, void *context) {
    (void)group;
    (void)object;
    *flags = H5F_ACC_RDONLY;
    (void)access;
    struct h5_names names = h5_names_of(from, file, "HDF5_EXT_PREFIX");
    compare_files(context, &names);
    h5_names_free(&names);
    return 0;
}

static void search_external(struct search *search, hid_t creation, const char *path) {
    int count = H5Pget_external_count(creation);
    for (int i = 0; i < count && !search->found; i++) {
        char file[PATH_MAX] = "";
        off_t offset;
        hsize_t bytes;
        if (H5Pget_external(creation, (unsigned)i, sizeof file - 1, file, &offset, &bytes) < 0) continue;
        struct h5_names names = h5_names_external(path, file);
        compare_files(search, &names);
        h5_names_free(&names);
    }
}

/* Searches the blocks of a source until one has no file. */
static bool search_source(void *context, const char *file, const char *dataset) {
    const struct sources *sources = context;
    struct search *search = sources->search;
    if (strcmp(file, ".") == 0) {
        search_dataset(search, sources->path, dataset);
        return !search->found;
    }
    bool any = true, numbered = true;
    for (int block = 0; any && numbered && !search->found && block < MOST_BLOCKS; block++) {
        char *name = h5_block_name(file, block, &numbered);
        struct h5_names names = h5_names_of(sources->path, name, "HDF5_VDS_PREFIX");
        any = compare_files(search, &names);
        for (int i = 0; i < names.count && !search->found; i++) search_dataset(search, names.path[i], dataset);
        h5_names_free(&names);
        free(name);
    }
    return !search->found;
}

static void search_dataset(struct search *search, const char *path, const char *name) {
    struct stat about;
    if (search->depth == DEEPEST || stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return;
    hid_t file = h5_open_to_read(path, H5P_DEFAULT);
    if (file < 0) return;
    search->depth++;
    hid_t links = H5Pcreate(H5P_LINK_ACCESS);
    H5Pset_elink_cb(links, search_link, search);
    hid_t dataset = H5Oopen(file, name, links);
    H5Pclose(links);
    if (dataset >= 0 && H5Iget_type(dataset) == H5I_DATASET) {
        char real[PATH_MAX] = "";
        H5Fget_name(dataset, real, sizeof real);
        search->found |= path_is_file(real, search->wanted);
        hid_t creation = H5Dget_create_plist(dataset);
        search_external(search, creation, real);
        if (!search->found) h5_each_source(creation, NULL, search_source, &(struct sources){search, real});
        H5Pclose(creation);
    }
    if (dataset >= 0) H5Oclose(dataset);
    H5Fclose(file);
    search->depth--;
}

bool h5_reads_file(const char *path, const char *name, const struct stat *file) {
    struct search search = {.wanted = file};
    search.found = path_is_file(path, file);
    if (!search.found) search_dataset(&search, path, name);
    return search.found;
}
