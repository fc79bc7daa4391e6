/* linked.h - results files whose outputs are virtual data sets. After `merge --link` the values are in OUTPUT.parts. A
 * large result of a `to` is in the file of `to`, which two attributes of the output name:
 *
 *     to_file       "../made.h5": relative to the results file's folder; absolute if the two share no folder
 *     to_dataset    "/group/name" in that file
 *
 * Small results of a `to` are copied, and have the attributes too. */
#ifndef RUNNER_LINKED_H
#define RUNNER_LINKED_H

#include <hdf5.h>

/* Why outputs of the open file at `path` cannot be read: "its parts are missing: '/output' in out.h5.parts/..."; NULL:
 * they can be read, or the file is not linked. Opens all parts. The caller frees. */
char *link_broken(hid_t file, const char *path);

#define LINK_TO_FILE    "to_file"
#define LINK_TO_DATASET "to_dataset"

#endif
