/* progress.h - what a person sees on stderr while a job runs. On a terminal one live line, drawn each second by a
 * thread of its own; else a line for each finished run, and one a minute while a run lasts.
 *
 *     progress_begin                      the thread starts; "reading inputs"
 *       progress_run                      a run begins, or is taken up again
 *         progress_tiles, progress_step   its pass, tile by tile
 *         progress_verify
 *         progress_repeat                 warm-up, then each repeat
 *       progress_outcome                  it is over
 *       progress_assemble
 *     progress_end                        the line is cleared, the thread has ended
 *
 * The job's threads only update numbers under a lock. Whoever holds it never waits for a terminal or a pipe: what a
 * descriptor does not take at once of a live line or a heartbeat is dropped. So a signal can be answered at any time.
 */
#ifndef RUNNER_PROGRESS_H
#define RUNNER_PROGRESS_H

#include "progress_text.h"

#include <pthread.h>

enum progress_mode { PROGRESS_AUTO, PROGRESS_PLAIN, PROGRESS_NONE };
bool progress_parse(const char *text, enum progress_mode *mode);

struct progress {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* `closing`, or `period_s` */
    pthread_t thread;
    bool live, plain; /* neither: --progress none */
    bool started;     /* the thread runs */
    bool closing;     /* it shall end */
    bool held;        /* something else is being printed: do not draw */
    bool over;        /* a signal was answered: draw no more */
    bool shown;       /* there is a live line to clear */
    double period_s;  /* from one line to the next */
    int listed;       /* runs in `work`; view.runs are those of this process */
    struct progress_work *work;
    char **names;              /* of the runs that have begun */
    char waits[PROGRESS_WHAT]; /* view.what while the process waits */
    struct progress_view view;
    int current;                              /* the run in hand; -1: none */
    int finished;                             /* runs */
    double begun_s, phase_s, told_s, drawn_s; /* times of now_s(): of the job, the phase, the last news of the
                                                 run in hand, the last line */
};

/* `work`: what the plan predicts of each run; it is copied. */
void progress_begin(struct progress *progress, enum progress_mode mode, const struct progress_work *work, int runs);
/* Clears the live line and ends the thread. Does nothing after the first call. */
void progress_end(struct progress *progress);

/* The process waits for another; `what` says for what. Of the first such news in a row there is a line. */
void progress_wait(struct progress *progress, const char *what);
/* Run `number` begins; the next three calls are about it. */
void progress_run(struct progress *progress, int number, const char *what);
/* Its pass begins, anew if it had begun. */
void progress_tiles(struct progress *progress, int64_t tiles);
/* One more tile is done, and `bytes` were moved for it. */
void progress_step(struct progress *progress, double bytes);
void progress_verify(struct progress *progress);
/* Of run `number`, which has begun, `done` of at most `most` repeats are over, the last of which took `seconds_each` a
 * launch; 0: its warm-up begins. Runs may take turns; told once more with the same `done`, a turn begins. */
void progress_repeat(struct progress *progress, int number, int done, int most, double seconds_each);
/* Run `number` is over; `outcome` is its status or time: "ok, 1.2 ms". `worked`: it was carried out to its end, so that
 * the time that it took tells how long others will take. */
void progress_outcome(struct progress *progress, int number, const char *outcome, bool worked);
void progress_assemble(struct progress *progress);

/* Prints a line for the user in every mode. */
void progress_note(struct progress *progress, const char *text);
/* Between these two calls the caller may print on stderr. */
void progress_pause(struct progress *progress);
void progress_resume(struct progress *progress);
/* Says at once, in every mode, that a signal (SIGINT, say) has come and what is in hand; nothing is drawn afterwards.
 * From the thread that handles signals. */
void progress_announce_signal(struct progress *progress, int number);

#endif
