/* h5visit.c - walks along hard links, remembers the groups that it has entered, and counts links and depth. */
#include "h5visit.h"

#include "../h5/h5io.h"
#include <limits.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#define LINK_BYTES 16 /* a link takes at least this many bytes of a file */
/* The time of HDF5 grows with the square of the depth: half a millisecond for each link at this depth. */
#define MAX_DEPTH 256

/* The state of h5_visit. */
struct visit {
    hid_t group;
    H5_iter_order_t order;
    H5L_iterate_t callback, damaged; /* the latter may be NULL */
    void *context;
    hsize_t remaining;       /* most links that the file can still contain */
    void *groups;            /* addresses of the groups that were entered: a tree of tsearch */
    char path[PATH_MAX + 1]; /* path of the current object, relative to the group; a group's path ends in '/' */
    size_t length;           /* length of the path of its group, with the '/' */
    int depth;               /* nesting depth of that group */
    bool ended;              /* the visit ends: by a limit, or because a callback asked for it */
};

/* Pushes a reason onto the HDF5 error stack and ends the visit. */
static herr_t stop(struct visit *visit, const char *why) {
    visit->ended = true;
    H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_SYM, H5E_BADVALUE, "%s", why);
    return -1;
}

static int compare_addresses(const void *one, const void *other) {
    const haddr_t a = *(const haddr_t *)one, b = *(const haddr_t *)other;
    return (a > b) - (a < b);
}

/* Is the group visited for the first time? */
static bool add_group(struct visit *visit, haddr_t address) {
    haddr_t *new = must_malloc(sizeof *new);
    *new = address;
    haddr_t **entry = must_have(tsearch(new, &visit->groups, compare_addresses));
    if (*entry == new) return true;
    free(new);
    return false;
}

/* Calls `callback` for a link, then descends into the group that it leads to, once for each group. */
static herr_t visit_link(hid_t group, const char *name, const H5L_info_t *link, void *context) {
    struct visit *visit = context;
    size_t outer = visit->length, length = strlen(name);
    if (visit->remaining-- == 0) return stop(visit, "more links than the file has room for");
    if (outer + length + 2 > sizeof visit->path) return stop(visit, "a path is too long");
    memcpy(visit->path + outer, name, length + 1);
    herr_t result = visit->callback(visit->group, visit->path, link, visit->context);
    visit->ended = result != 0;
    if (result || link->type != H5L_TYPE_HARD) return result;

    H5O_info_t about;
    if (H5Oget_info_by_name2(group, name, &about, H5O_INFO_BASIC, H5P_DEFAULT) < 0)
        return visit->damaged ? visit->damaged(visit->group, visit->path, link, visit->context) : 0;
    if (about.type != H5O_TYPE_GROUP || !add_group(visit, about.addr)) return 0;
    if (visit->depth == MAX_DEPTH) return stop(visit, "groups are nested too deeply");
    memcpy(visit->path + outer + length, "/", 2);
    visit->length = outer + length + 1;
    visit->depth++;
    result = H5Literate_by_name(group, name, H5_INDEX_NAME, visit->order, NULL, visit_link, visit, H5P_DEFAULT);
    visit->depth--;
    visit->length = outer;
    if (result >= 0 || visit->ended) return result;
    visit->path[outer + length] = '\0';
    return visit->damaged ? visit->damaged(visit->group, visit->path, link, visit->context) : 0;
}

herr_t h5_visit(hid_t group, H5_iter_order_t order, H5L_iterate_t callback, H5L_iterate_t damaged, void *context) {
    OWNED struct visit *visit = must_malloc(sizeof *visit);
    *visit =
        (struct visit){.group = group, .order = order, .callback = callback, .damaged = damaged, .context = context};
    H5O_info_t about;
    OWNED_ID hid_t file = H5Iget_file_id(group);
    herr_t result =
        H5Oget_info2(group, &about, H5O_INFO_BASIC) < 0 || H5Fget_filesize(file, &visit->remaining) < 0 ? -1 : 0;
    visit->remaining /= LINK_BYTES;
    if (!result && add_group(visit, about.addr))
        result = H5Literate(group, H5_INDEX_NAME, visit->order, NULL, visit_link, visit);
    tdestroy(visit->groups, free);
    return result;
}
