/* h5visit.c - walks along hard links; ends whatever the file contains. */
#define H5_USE_110_API
#include "h5visit.h"

#include "../../base/fail.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define LINK_BYTES 16  /* least bytes of a link in a file */
#define DEEPEST    256 /* HDF5 takes time by the square of the depth: half a millisecond for each link at 256 */

struct visit {
    hid_t group;
    H5_iter_order_t order;
    H5L_iterate_t each;
    void *context;
    hsize_t left;   /* most links that the file can still contain */
    haddr_t *known; /* hash table of visited groups by address; HADDR_UNDEF: free */
    size_t table_size, groups;
    char path[PATH_MAX + 1]; /* path of the current object, relative to the group; a group's path ends in '/' */
    size_t length;           /* length of the path of its group, with the '/' */
    int depth;               /* nesting depth of that group */
};

static herr_t refuse(const char *why) {
    H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_SYM, H5E_BADVALUE, "%s", why);
    return -1;
}

/* The table entry of an address, or the free entry for it. */
static haddr_t *find_entry(const struct visit *visit, haddr_t address) {
    size_t at = (size_t)(address * 0x9e3779b97f4a7c15 >> 20) & (visit->table_size - 1);
    while (visit->known[at] != HADDR_UNDEF && visit->known[at] != address) at = (at + 1) & (visit->table_size - 1);
    return &visit->known[at];
}

static void grow_table(struct visit *visit) {
    haddr_t *old = visit->known;
    size_t count = visit->table_size;
    visit->table_size = count ? 2 * count : 64;
    visit->known = must_malloc(visit->table_size * sizeof *visit->known);
    for (size_t i = 0; i < visit->table_size; i++) visit->known[i] = HADDR_UNDEF;
    for (size_t i = 0; i < count; i++)
        if (old[i] != HADDR_UNDEF) *find_entry(visit, old[i]) = old[i];
    free(old);
}

/* Is the group visited for the first time? */
static bool add_group(struct visit *visit, haddr_t address) {
    if (2 * visit->groups >= visit->table_size) grow_table(visit);
    haddr_t *place = find_entry(visit, address);
    if (*place == address) return false;
    *place = address;
    visit->groups++;
    return true;
}

static herr_t visit_link(hid_t group, const char *name, const H5L_info_t *link, void *context) {
    struct visit *visit = context;
    size_t outer = visit->length, length = strlen(name);
    if (visit->left-- == 0) return refuse("more links than the file has room for");
    if (outer + length + 2 > sizeof visit->path) return refuse("a path is too long");
    memcpy(visit->path + outer, name, length + 1);
    herr_t result = visit->each(visit->group, visit->path, link, visit->context);
    if (result || link->type != H5L_TYPE_HARD) return result;

    H5O_info_t about;
    if (H5Oget_info_by_name2(group, name, &about, H5O_INFO_BASIC, H5P_DEFAULT) < 0) return -1;
    if (about.type != H5O_TYPE_GROUP || !add_group(visit, about.addr)) return 0;
    if (visit->depth == DEEPEST) return refuse("groups are nested too deeply");
    memcpy(visit->path + outer + length, "/", 2);
    visit->length = outer + length + 1;
    visit->depth++;
    result = H5Literate_by_name(group, name, H5_INDEX_NAME, visit->order, NULL, visit_link, visit, H5P_DEFAULT);
    visit->depth--;
    visit->length = outer;
    return result;
}

herr_t h5_visit(hid_t group, H5_iter_order_t order, H5L_iterate_t each, void *context) {
    struct visit *visit = must_malloc(sizeof *visit);
    *visit = (struct visit){.group = group, .order = order, .each = each, .context = context};
    H5O_info_t about;
    hid_t file = H5Iget_file_id(group);
    herr_t result = H5Oget_info2(group, &about, H5O_INFO_BASIC) < 0 || H5Fget_filesize(file, &visit->left) < 0 ? -1 : 0;
    visit->left /= LINK_BYTES;
    H5Fclose(file);
    if (!result && add_group(visit, about.addr))
        result = H5Literate(group, H5_INDEX_NAME, visit->order, NULL, visit_link, visit);
    free(visit->known);
    free(visit);
    return result;
}
