/* link.h - results files whose outputs are virtual data sets. Of `merge --link`: the values lie in OUTPUT.parts. Of
 * large results of a `to`: they lie in its file, which two attributes of the output name:
 *
 *     to_file       "../made.h5": seen from the results file's folder; absolute where the two share no folder
 *     to_dataset    "/group/name", in it
 *
 * Small results of a `to` are copied, and have the attributes too. */
#ifndef RUNNER_LINK_H
#define RUNNER_LINK_H

#include <hdf5.h>
#include <stdbool.h>

/* Why the outputs of the open file at `path` cannot be read: "its parts are missing: '/output' in
 * out.h5.parts/..."; NULL: they can, or it is not linked. It opens all parts. The caller frees. */
char *link_broken(hid_t file, const char *path);

#define LINK_TO_FILE    "to_file"
#define LINK_TO_DATASET "to_dataset"

#endif
