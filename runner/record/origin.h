/* origin.h - writes what results files, parts and shard manifests have in common: the job, the machine, and names. */
#ifndef RUNNER_ORIGIN_H
#define RUNNER_ORIGIN_H

#include "../plan/plan.h"
#include "../storage/h5/h5io.h"
#include "environment.h"

#define RESULT_SCHEMA "tilerun-results"
#define PART_SCHEMA   "tilerun-part"

/* Writes /job and /job_resolved. `key`: that of all runs together; NULL: writes neither it nor the job's tags. */
enum status results_write_job(hid_t file, const struct job *job, const char *key, struct error *error);
/* Creates a data set that holds a text, and opens it. */
enum status results_write_text(hid_t file, const char *name, const char *text, size_t length, hid_t *dataset,
                               struct error *error);
/* Reads a text that results_write_job has written, such as "/job_resolved"; NULL: there is none. The caller frees. */
char *results_read_text(hid_t file, const char *name);
enum status results_write_environment(hid_t file, const struct environment *environment, struct error *error);
/* Records a profiler's report of the run that a finished results file is about. */
enum status results_write_report(const char *path, const char *profiler, const char *report, const char *sha256,
                                 struct error *error);
/* Writes the sources of user kernels: OWN_SOURCES/0, OWN_SOURCES/1..., each a text with the attributes `name`
 * (as the job names the file, or beside it) and `sha256`. Nothing, if the job has none. */
enum status results_write_sources(hid_t file, const struct plan *plan, struct error *error);
#define OWN_SOURCES "/sources"
/* The absolute path without symbolic links; the path itself if no file exists there. The caller frees. */
char *results_absolute(const char *path);

/* The data sets that store a run's samples. */
enum { SAMPLE_KINDS = 6 };
struct sample_kind {
    const char *in_part; /* its name in a part: "power_w" */
    const char *suffix;  /* what follows /samples/RUN in the results file: "_power_w" */
};
extern const struct sample_kind sample_kinds[SAMPLE_KINDS];

/* The path of an object in a results file: "/outputs/n=512/product"; the caller frees. */
char *results_path_of(const char *root, const char *label, const char *name);

#endif
