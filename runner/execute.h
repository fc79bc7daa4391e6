/* execute.h - carries out a plan: every run is streamed, verified, measured and kept as a part; then the parts become
 * the results file. */
#ifndef RUNNER_EXECUTE_H
#define RUNNER_EXECUTE_H

#include "base/progress.h"
#include "result/result.h"

struct execute_options {
    bool overwrite, resume;
    bool restricted; /* `--only` left something out: the results are partial */
    int cuda_number; /* the GPU to open, if a run needs one */
    enum progress_mode progress;
    const char *trace; /* file for the timeline; NULL: none */
    const char *command_line;
};

/* Fills rows[0 .. plan->run_count-1]. STATUS_RUN: a run failed or was wrong; STATUS_INTERRUPTED: a signal came and the
 * rest waits for `resume`. Rows are valid in both cases and with STATUS_OK. */
enum status execute_plan(const struct plan *plan, const struct execute_options *options, struct result_row *rows,
                         struct error *error);

#endif
