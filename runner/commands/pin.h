/* pin.h - writes a job in which the winners of its searches replace the searches. */
#ifndef RUNNER_PIN_H
#define RUNNER_PIN_H

#include "../base/atomic_file.h"
#include "../record/row.h"

/* Returns the text of an --only that selects all operations of a job ("a,b:tiled,tile=32"), but of each `search` only
 * the combinations that won the search; several may have won, at different combinations of swept parameters. A search
 * without a winner is not restricted. The caller frees. */
char *pin_only(const struct job *job, const struct result_row *rows, int count);

/* Checks, before the job runs, that the pinned job can be written to `path`. STATUS_USAGE: it cannot, `path` is a file
 * of the job, or is not in the job's folder, where the job's paths start. The caller calls atomic_file_close or
 * atomic_file_discard, whatever the status. */
enum status pin_open(const struct job *job, const struct plan *plan, const char *path, bool overwrite,
                     struct atomic_file *file, struct error *error);
/* Writes the pinned job, by the rows of the job's results file, and reports that on stderr. */
enum status pin_write(const struct job *job, const struct job_overrides *overrides, struct atomic_file *file,
                      struct error *error);

#endif
