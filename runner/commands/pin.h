/* pin.h - writes a job in which the winners of its searches replace the searches. */
#ifndef RUNNER_PIN_H
#define RUNNER_PIN_H

#include "../base/atomic_file.h"
#include "../record/row.h"

/* The operations of a job in the words of --only, each `search` replaced by the combinations that have won it: one, or
 * several if combinations of swept parameters differ. A search that nothing has won stays. The caller frees. */
char *pin_only(const struct job *job, const struct result_row *rows, int count);

/* Checks, before the job runs, that it can be written to `path`, which must be in the job's folder, because the job's
 * paths start there. The caller calls atomic_file_close or atomic_file_discard, whatever the status. */
enum status pin_open(const struct job *job, const struct plan *plan, const char *path, bool overwrite,
                     struct atomic_file *file, struct error *error);
/* Writes the job, by the rows of its results file. */
enum status pin_write(const struct job *job, const struct job_overrides *overrides, struct atomic_file *file,
                      struct error *error);

#endif
