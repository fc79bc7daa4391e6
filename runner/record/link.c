/* link.c - whether a linked results file still finds its parts. Files of a `to` are looked for by who reads them. */
#define H5_USE_110_API
#include "link.h"

#include "../base/fail.h"
#include "../storage/h5/h5virtual.h"
#include "../storage/untrusted/h5mapped.h"
#include "../storage/untrusted/h5visit.h"
#include <stdlib.h>

struct lacking {
    const char *path;
    char *first;
    int outputs;
};

static herr_t look_at(hid_t group, const char *name, const H5L_info_t *about, void *context) {
    struct lacking *lacking = context;
    if (about->type != H5L_TYPE_HARD) return 0;
    hid_t id = H5Oopen(group, name, H5P_DEFAULT);
    char *source = id >= 0 && H5Aexists(id, LINK_TO_FILE) <= 0 ? h5_absent_source(id, lacking->path) : NULL;
    if (id >= 0) H5Oclose(id);
    lacking->outputs += source != NULL;
    if (lacking->first)
        free(source);
    else
        lacking->first = source;
    return 0;
}

char *link_broken(hid_t file, const char *path) {
    static const char *const roots[] = {"outputs", "variants"};
    struct lacking lacking = {.path = path};
    for (int i = 0; i < 2 && h5_is_linked(file); i++) {
        hid_t group = H5Oopen(file, roots[i], H5P_DEFAULT);
        if (group < 0) continue;
        h5_visit(group, H5_ITER_INC, look_at, &lacking);
        H5Oclose(group);
    }
    if (!lacking.first) return NULL;
    char *why = must_printf("its parts are missing: %s, so that %d of its outputs cannot be read", lacking.first,
                            lacking.outputs);
    free(lacking.first);
    return why;
}
