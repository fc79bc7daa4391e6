/* provenance.h - writes where results come from into results files, parts and shard manifests: the job, the machine,
 * the sources of user kernels, a profiler's report. */
#ifndef RUNNER_PROVENANCE_H
#define RUNNER_PROVENANCE_H

#include "../plan/plan.h"
#include "../storage/h5/h5io.h"
#include "environment.h"

#define RESULT_SCHEMA "tilerun-results"
#define PART_SCHEMA   "tilerun-part"

/* Writes /job and /job_resolved. `key`: of all runs together; NULL: writes neither the key nor the job's tags. */
enum status provenance_write_job(hid_t file, const struct job *job, const char *key, struct error *error);
/* Creates a data set that holds a text, and opens it as *dataset, which the caller closes. STATUS_IO: it failed. */
enum status provenance_write_text(hid_t file, const char *name, const char *text, size_t length, hid_t *dataset,
                                  struct error *error);
/* Reads a text that provenance_write_text has written, such as "/job_resolved"; NULL: there is no such data set. The
 * caller frees. */
char *provenance_read_text(hid_t file, const char *name);
/* Writes the facts as attributes of /environment. */
enum status provenance_write_environment(hid_t file, const struct environment *environment, struct error *error);
/* Records the path and hash of a profiler's report as attributes of the finished results file `path` of one run.
 * `profiler`: its program. */
enum status provenance_write_report(const char *path, const char *profiler, const char *report, const char *sha256,
                                    struct error *error);
/* Writes the sources of user kernels: OWN_SOURCES/0, OWN_SOURCES/1..., each a text with the attributes `name`
 * (as the job names the file, or beside it) and `sha256`. Writes nothing if the job has no user kernels. */
enum status provenance_write_sources(hid_t file, const struct plan *plan, struct error *error);
#define OWN_SOURCES "/sources"

#endif
