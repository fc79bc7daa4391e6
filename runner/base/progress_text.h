/* progress_text.h - formats the live line and estimates the time left, as pure functions of numbers. */
#ifndef RUNNER_PROGRESS_TEXT_H
#define RUNNER_PROGRESS_TEXT_H

#include <stdbool.h>
#include <stdint.h>

/* The current activity: PHASE_BEGIN before the first run, PHASE_ASSEMBLE after the last, the others in a run. */
enum progress_phase { PHASE_BEGIN, PHASE_WAIT, PHASE_TILES, PHASE_VERIFY, PHASE_WARM_UP, PHASE_REPEAT, PHASE_ASSEMBLE };

/* A run's work as the plan predicts it, and how much of it is done. */
struct progress_work {
    double pass_s, verify_s, repeat_s; /* predicted seconds; verify_s includes the warm-up, repeat_s is one repeat's */
    int repeats;                       /* expected number of repeats */
    double bytes;                      /* moved by the pass */
    const void *kind;           /* equal for runs whose predictions are off by the same factor: those of one variant */
    double done_s;              /* the part of the predicted seconds that is done... */
    double spent_s;             /* ...and the seconds that this part really took */
    int repeated, repeats_left; /* repeats that are done; that are still expected */
    double paced_s;             /* the time that `paced` repeats took, each measured from one update to the next */
    int paced;
    double pace_s;     /* seconds of one repeat; 0: unknown */
    bool counted;      /* progress_outcome has counted the run as finished; implies `nothing_left` */
    bool not_here;     /* another process does the run, or it cannot run here; implies `nothing_left` */
    bool nothing_left; /* this process has nothing left to do for the run, which may have been skipped */
};

/* The part of a run's predicted seconds that is done when `done` of `total` tiles or repeats of a phase are done. */
double progress_done_s(const struct progress_work *work, enum progress_phase phase, int64_t done, int64_t total);
/* Seconds until all runs are over: the predicted time of the rest, scaled by the ratio of real to predicted time so
 * far. `idle_s`: seconds since the last update of `current`, the current run (-1: none). NaN: nothing is known yet, or
 * the current run already takes longer than estimated. Never negative. */
double progress_left_s(const struct progress_work *work, int runs, int current, double idle_s);

/* The contents of the line. Unknown numbers are NaN or 0. */
struct progress_view {
    int run, runs;    /* 5 of 6 */
    const char *what; /* "product cpu n=1024"; in PHASE_WAIT "waits for 'product' of shard 1 of 4" */
    enum progress_phase phase;
    int64_t done, total;       /* tiles or repeats */
    double bytes, bytes_total; /* bytes that the run's pass has moved, and moves in total */
    double phase_s;            /* seconds that the phase has lasted */
    double seconds_each;       /* time of a repeat */
    double job_s, left_s;      /* seconds since the job began; estimated seconds left */
};
/* The line in at most `width` columns (text_width), without a newline: it omits less important parts and shortens the
 * name to fit. The caller frees.
 *     [5/6] product cpu n=1024  repeat 3/20  1.2 s each  job 0:41, ~1:10 left */
char *progress_line(const struct progress_view *view, int width);

#endif
