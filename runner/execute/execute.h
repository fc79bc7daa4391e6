/* execute.h - carries out a plan: streams, verifies and measures every run and keeps it as a part; then joins the parts
 * into the results file. Shards keep parts only, and `merge` joins them. */
#ifndef RUNNER_EXECUTE_H
#define RUNNER_EXECUTE_H

#include "../base/progress.h"
#include "../store/store.h"

struct execute_options {
    bool overwrite, resume;
    const struct shard *shard; /* do its runs and join nothing; NULL: do the whole job */
    /* Operations are divided: a shard executes this plan of panels, and `merge` the whole; NULL: they are not. */
    const struct panels *panels;
    double wait_s;     /* a shard waits so long for a result of another */
    bool merge;        /* do nothing, and join the parts that are there; with `resume` */
    bool link;         /* ...by virtual data sets */
    const char *later; /* `merge`: the folder of a shard that has begun another job since; NULL: none has */
    bool single;       /* no later call takes up what a signal leaves: `resume` is not advised */
    bool restricted;   /* `--only` left something out: the results are "partial" */
    enum progress_mode progress;
    const char *trace; /* path of the timeline's file; NULL: none */
    const char *command_line;
    /* Prints rows; execute_plan calls it after a signal. */
    void (*print)(const struct result_row *rows, int count, FILE *to);
};

/* Fills rows[0 .. plan->run_count-1], which are valid with STATUS_OK and STATUS_RUN (a run failed or was wrong); those
 * of other shards have no status.
 * *wrote: there is a new results file; else it was complete already (may be NULL). STATUS_INTERRUPTED: a signal came or
 * a shard has waited too long, `resume` takes up the remaining runs, and rows and message are already printed.
 * STATUS_IO of `merge`: parts are missing. If work in progress does not stop after a signal, the process ends without a
 * return (interrupt.h). */
enum status execute_plan(const struct plan *plan, const struct execute_options *options, struct result_row *rows,
                         bool *wrote, struct error *error);

#endif
