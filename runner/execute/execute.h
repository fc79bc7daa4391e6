/* execute.h - carries out a plan: finds each unit, or streams, verifies, measures and keeps it as a part; then
 * publishes the results file. Shards keep parts only, and `merge` publishes what they have kept. */
#ifndef RUNNER_EXECUTE_H
#define RUNNER_EXECUTE_H

#include "../base/progress.h"
#include "../store/store.h"

struct execute_options {
    bool overwrite, resume;
    const struct shard *shard; /* do its units and publish nothing; NULL: do the whole job */
    double wait_s;             /* a shard waits so long for a result of another */
    bool merge;                /* do nothing, and join the parts that are there; with `resume` */
    bool link;                 /* ...by virtual data sets */
    bool partial;              /* ...also if units are missing: the results are then "partial" */
    const char *later;         /* `merge`: the folder of a shard that has begun another job since; NULL: none has */
    bool single;               /* no later call takes up what a signal leaves: `resume` is not advised */
    bool restricted;           /* `--only` left something out: the results are "partial" */
    enum progress_mode progress;
    const char *trace; /* path of the timeline's file; NULL: none */
    const char *command_line;
    /* Prints the rows of a shard's units, else those of the whole: after a signal, and with `shows` at the end. */
    bool shows;
    void (*print)(const struct result_row *rows, int count, FILE *to);
};

/* *wrote: there is a new results file; else it was complete already (may be NULL). STATUS_RUN: a run failed or was
 * wrong. STATUS_INTERRUPTED: a signal came or a shard has waited too long, `resume` takes up the remaining runs, and a
 * message is already printed. STATUS_IO of `merge`: parts are missing. If work in progress does not stop after a
 * signal, the process ends without a return (interrupt.h). */
enum status execute_plan(const struct units *units, const struct execute_options *options, bool *wrote,
                         struct error *error);

#endif
