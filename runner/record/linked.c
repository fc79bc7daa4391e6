/* linked.c - checks that a linked results file finds its parts. (Whether the files of `to` exist, result_file.c finds
 * out.) */
#include "linked.h"

#include "../base/fail.h"
#include "../storage/h5/h5virtual.h"
#include "../storage/untrusted/h5sources.h"
#include "../storage/untrusted/h5visit.h"
#include <stdlib.h>

struct missing_sources {
    const char *path; /* of the results file */
    char *first;      /* the first missing source; NULL: none is missing so far */
    int outputs;      /* how many lack their source */
};

/* For h5_visit: counts an output whose part is missing; one that shows a file of `to` does not count. */
static herr_t check_output(hid_t group, const char *name, const H5L_info_t *about, void *context) {
    struct missing_sources *missing = context;
    if (about->type != H5L_TYPE_HARD) return 0;
    hid_t id = H5Oopen(group, name, H5P_DEFAULT);
    char *source = id >= 0 && H5Aexists(id, LINK_TO_FILE) <= 0 ? h5_absent_source(id, missing->path) : NULL;
    if (id >= 0) H5Oclose(id);
    missing->outputs += source != NULL;
    if (missing->first)
        free(source);
    else
        missing->first = source;
    return 0;
}

char *link_broken(hid_t file, const char *path) {
    static const char *const roots[] = {"outputs", "variants"}; /* groups that hold outputs */
    struct missing_sources missing = {.path = path};
    for (int i = 0; i < 2 && h5_is_linked(file); i++) {
        OWNED_ID hid_t group = H5Oopen(file, roots[i], H5P_DEFAULT);
        if (group < 0) continue;
        h5_visit(group, H5_ITER_INC, check_output, NULL, &missing);
    }
    if (!missing.first) return NULL;
    char *why =
        must_printf("its parts are missing: %s; %d of its outputs cannot be read", missing.first, missing.outputs);
    free(missing.first);
    return why;
}
