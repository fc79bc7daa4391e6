/* progress_text.h - what the live line says, and how long a job will still take, as pure functions of numbers. */
#ifndef RUNNER_PROGRESS_TEXT_H
#define RUNNER_PROGRESS_TEXT_H

#include <stdbool.h>
#include <stdint.h>

/* What a job does at a moment: of one run, or before the first run and after the last. */
enum progress_phase { PHASE_BEGIN, PHASE_WAIT, PHASE_TILES, PHASE_VERIFY, PHASE_WARM_UP, PHASE_REPEAT, PHASE_ASSEMBLE };

/* A run's work as the plan predicts it, and how much of it is done. */
struct progress_work {
    double pass_s, verify_s, repeat_s; /* predicted seconds; verify_s includes the warm-up, repeat_s is one repeat's */
    int repeats;                       /* that are expected */
    double bytes;                      /* that the pass moves */
    const void *kind; /* equal in runs whose predictions are wrong by the same factor, as two sizes of one variant */
    double done_s;    /* how much of the predicted seconds is done, */
    double spent_s;   /* and the seconds that it took */
    int repeated, repeats_left;
    double paced_s; /* that the last `paced` of the repeats took */
    int paced;
    double pace_s;  /* of a repeat; 0: not known yet */
    bool ended;     /* it was told so, so it is counted */
    bool elsewhere; /* another process does it: it is not counted */
    bool over;      /* the run is over; with spent_s 0 it tells nothing about the others */
};

/* Of a run's predicted seconds, those that are done when `done` of `total` of a phase are. */
double progress_done_s(const struct progress_work *work, enum progress_phase phase, int64_t done, int64_t total);
/* Seconds until all runs are over: what the plan predicts of the rest, times what the runs so far took of what was
 * predicted of them. `idle_s`: seconds since `current`, the run in hand (-1: none), last told of its work. NaN: nothing
 * is known yet, or the run in hand takes longer than what is known lets expect. Never negative. */
double progress_left_s(const struct progress_work *work, int runs, int current, double idle_s);

/* What the line says. Unknown numbers are NaN or 0. */
struct progress_view {
    int run, runs;    /* 5 of 6 */
    const char *what; /* "product cpu n=1024"; of PHASE_WAIT "waits for 'product' of shard 1 of 4" */
    enum progress_phase phase;
    int64_t done, total;       /* of tiles, of repeats */
    double bytes, bytes_total; /* of the run's pass, moved and in all */
    double phase_s;            /* seconds that the phase has lasted */
    double seconds_each;       /* of a repeat */
    double job_s, left_s;      /* seconds since the job began, seconds that are left */
};
/* Writes the line in at most `width` columns, without a line's end: less important parts are left out, the name is
 * shortened. Returns `line`.
 *     [5/6] product cpu n=1024  repeat 3/20  1.2 s each  job 0:41, ~1:10 left */
#define PROGRESS_LINE 640
#define PROGRESS_WHAT 256
char *progress_line(const struct progress_view *view, int width, char line[PROGRESS_LINE]);

/* Copies a name, up to PROGRESS_WHAT bytes. What is no printable UTF-8 becomes '?', so that it cannot move a terminal's
 * cursor. */
void progress_name(char name[PROGRESS_WHAT], const char *text);
/* Columns that text takes on a terminal, at most: characters that may be wide are. */
int progress_columns(const char *text);

#endif
