/* link.h - a results file of `merge --link`: its outputs are virtual data sets, whose values lie in OUTPUT.parts. */
#ifndef RUNNER_LINK_H
#define RUNNER_LINK_H

#include <hdf5.h>
#include <stdbool.h>

/* Why the outputs of the open file at `path` cannot be read: "its parts are missing: out.h5.parts/... (and 2 more)";
 * NULL: they can, or it is not linked. It opens all parts. The caller frees. */
char *link_broken(hid_t file, const char *path);

#endif
