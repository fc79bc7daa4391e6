/* h5visit.c - a walk along hard links that ends, whatever the file says. */
#define H5_USE_110_API
#include "h5visit.h"

#include "../../base/fail.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define LINK_BYTES 16  /* of a file, that a link takes at least */
#define DEEPEST    256 /* HDF5 takes time by the square of the depth: half a millisecond a link there */

struct visit {
    hid_t group;
    H5_iter_order_t order;
    H5L_iterate_t each;
    void *context;
    hsize_t left;   /* links that the file may still hold */
    haddr_t *known; /* groups, at places that their addresses give; HADDR_UNDEF: free */
    size_t places, groups;
    char path[PATH_MAX + 1]; /* of what is visited, from the group on; with a '/' behind a group's */
    size_t length;           /* of the path of the group that holds it, with its '/' */
    int depth;               /* of that group */
};

static herr_t refuse(const char *why) {
    H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_SYM, H5E_BADVALUE, "%s", why);
    return -1;
}

/* The place of an address, or the free one where it belongs. */
static haddr_t *place_of(const struct visit *visit, haddr_t address) {
    size_t at = (size_t)(address * 0x9e3779b97f4a7c15 >> 20) & (visit->places - 1);
    while (visit->known[at] != HADDR_UNDEF && visit->known[at] != address) at = (at + 1) & (visit->places - 1);
    return &visit->known[at];
}

static void make_room(struct visit *visit) {
    haddr_t *old = visit->known;
    size_t count = visit->places;
    visit->places = count ? 2 * count : 64;
    visit->known = must_malloc(visit->places * sizeof *visit->known);
    for (size_t i = 0; i < visit->places; i++) visit->known[i] = HADDR_UNDEF;
    for (size_t i = 0; i < count; i++)
        if (old[i] != HADDR_UNDEF) *place_of(visit, old[i]) = old[i];
    free(old);
}

/* Is the group there for the first time? */
static bool is_new(struct visit *visit, haddr_t address) {
    if (2 * visit->groups >= visit->places) make_room(visit);
    haddr_t *place = place_of(visit, address);
    if (*place == address) return false;
    *place = address;
    visit->groups++;
    return true;
}

static herr_t take_link(hid_t group, const char *name, const H5L_info_t *link, void *context) {
    struct visit *visit = context;
    size_t outer = visit->length, length = strlen(name);
    if (visit->left-- == 0) return refuse("more links than the file has room for");
    if (outer + length + 2 > sizeof visit->path) return refuse("a path is too long");
    memcpy(visit->path + outer, name, length + 1);
    herr_t result = visit->each(visit->group, visit->path, link, visit->context);
    if (result || link->type != H5L_TYPE_HARD) return result;

    H5O_info_t about;
    if (H5Oget_info_by_name2(group, name, &about, H5O_INFO_BASIC, H5P_DEFAULT) < 0) return -1;
    if (about.type != H5O_TYPE_GROUP || !is_new(visit, about.addr)) return 0;
    if (visit->depth == DEEPEST) return refuse("groups are nested too deeply");
    memcpy(visit->path + outer + length, "/", 2);
    visit->length = outer + length + 1;
    visit->depth++;
    result = H5Literate_by_name(group, name, H5_INDEX_NAME, visit->order, NULL, take_link, visit, H5P_DEFAULT);
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
    if (!result && is_new(visit, about.addr))
        result = H5Literate(group, H5_INDEX_NAME, visit->order, NULL, take_link, visit);
    free(visit->known);
    free(visit);
    return result;
}
