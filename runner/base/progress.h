/* progress.h - shows a job's progress on stderr. On a terminal it is one live line, which a thread redraws each second;
 * otherwise a line for each finished run, and one a minute while a run lasts.
 *
 *     progress_begin                      starts the thread; shows "reading inputs"
 *       progress_run                      a run begins or continues
 *         progress_tiles, progress_step   its pass, tile by tile
 *         progress_verify
 *         progress_repeat                 warm-up, then each repeat
 *       progress_outcome                  the run is over
 *       progress_assemble
 *     progress_end                        clears the line and ends the thread
 *
 * The job's threads only update numbers under a lock. The holder of the lock never waits for a terminal or a pipe: if a
 * descriptor cannot take a live line or a heartbeat at once, the text is dropped. So the program can acknowledge a
 * signal at any time. */
#ifndef RUNNER_PROGRESS_H
#define RUNNER_PROGRESS_H

#include "progress_text.h"

#include <pthread.h>

enum progress_mode { PROGRESS_AUTO, PROGRESS_PLAIN, PROGRESS_NONE };

struct progress {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* `closing` was set */
    pthread_t thread;
    bool live, plain;  /* draws the live line, or prints plain lines; both false: shows nothing */
    bool started;      /* the thread runs */
    bool closing;      /* the thread must end */
    bool paused;       /* other text is being printed: do not draw */
    bool acknowledged; /* a signal was acknowledged: do not draw any more */
    bool shown;        /* a live line is on the terminal and must be cleared */
    double period_s;   /* seconds from one line to the next */
    int run_count;     /* all runs of the job, the entries of `work`; view.runs counts those that this process does */
    struct progress_work *work;
    char **names; /* names of the runs that have begun; NULL for the others */
    char *waits;  /* view.what while the process waits; NULL: the process has not waited yet */
    struct progress_view view;
    int current;  /* the current run; -1: no run is being done */
    int finished; /* number of finished runs */
    /* Times of now_s(): when the job began, the phase began, the current run was last updated, a line was last drawn.
     * (view.phase_s is a duration.) */
    double begun_s, phase_s, updated_s, drawn_s;
};

/* Starts to show progress. `work`: the plan's prediction for each run, which is copied. */
void progress_begin(struct progress *progress, enum progress_mode mode, const struct progress_work *work, int runs);
/* Clears the live line and ends the thread. Does nothing after the first call. */
void progress_end(struct progress *progress);

/* Reports that the process waits for another one; `what`: for what. The first of consecutive calls draws a line. */
void progress_wait(struct progress *progress, const char *what);
/* Reports that run `number` begins, and its name `what`; the next three functions are about this run. */
void progress_run(struct progress *progress, int number, const char *what);
/* Reports that the run's pass begins, or begins again. */
void progress_tiles(struct progress *progress, int64_t tiles);
/* Reports one more finished tile, for which `bytes` were moved. */
void progress_step(struct progress *progress, double bytes);
/* Reports that the verification of the run begins. */
void progress_verify(struct progress *progress);
/* Reports that run `number`, which has begun, has done `done` of at most `max_repeats` repeats, the last of which took
 * `seconds_each` a launch. `done` 0: its warm-up begins. Runs may take turns: a call with the same `done` as before
 * means that a turn of this run begins. */
void progress_repeat(struct progress *progress, int number, int done, int max_repeats, double seconds_each);
/* Reports that run `number` is over; `outcome` is its status or time: "ok, 1.2 ms". `worked`: the run came to its end,
 * so its time helps to predict those of other runs. */
void progress_outcome(struct progress *progress, int number, const char *outcome, bool worked);
/* Reports that all runs are over and the results file is assembled. */
void progress_assemble(struct progress *progress);

/* Prints a line for the user as printf does, in every mode. */
void progress_note(struct progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Between these two calls nothing is drawn, and the caller may print on stderr. */
void progress_pause(struct progress *progress);
void progress_resume(struct progress *progress);
/* Prints at once, in every mode, that the signal `number` has come and what the job is doing; nothing is drawn
 * afterwards. For the thread that handles signals. */
void progress_announce_signal(struct progress *progress, int number);

#endif
