/* result_unfinished.h - an output that is not finished. For result_file.c and result_unfinished.c only. */
#ifndef RUNNER_RESULT_UNFINISHED_H
#define RUNNER_RESULT_UNFINISHED_H

#include "../storage/h5/h5io.h"
#include "result_file.h"

/* Reads the finished runs of an output that does not exist yet: fills rows, parts and standing of a file whose path is
 * set. false: nothing of tilerun's is there. */
bool unfinished_read(struct results_file *file);
/* Fills `standing` of a file that is open. */
void unfinished_look(struct results_file *file);
/* Opens the part that a row came from; negative: there is none. */
hid_t unfinished_open_part(const struct results_file *file, const struct result_row *row);

#endif
