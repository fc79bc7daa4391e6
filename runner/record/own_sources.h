/* own_sources.h - stores the sources of a job's own kernels in its results file: /sources/0, /sources/1..., each a text
 * with the attributes `name` (as the job names the file, or beside it) and `sha256`. */
#ifndef RUNNER_OWN_SOURCES_H
#define RUNNER_OWN_SOURCES_H

#include "../plan/plan.h"
#include "../storage/h5/h5io.h"

#define OWN_SOURCES "/sources"

/* Writes nothing if the job has no kernels of its own. */
enum status results_write_sources(hid_t file, const struct plan *plan, struct error *error);

#endif
