/* progress.c - draws the live line in a thread, prints the plain lines, and acknowledges a signal. */
#include "progress.h"
#include "text.h"

#include "clock.h"
#include "fail.h"
#include "interrupt.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define REDRAW_S     1.0
#define HEARTBEAT_S  60.0
#define MIN_REDRAW_S 0.2 /* a new run redraws the live line only if it is at least this old */
#define CLEAR        "\r\033[K"

#define PLAIN_COLUMNS 640 /* the longest plain line */

static void lock(struct progress *progress) {
    pthread_mutex_lock(&progress->mutex);
}

static void unlock(struct progress *progress) {
    pthread_mutex_unlock(&progress->mutex);
}

/* ---- drawing; the caller holds the lock -------------------------------------------------------------------------- */

/* Writes text in one call, so that no other thread's text interleaves. Writes nothing if the call would block. */
static bool print(const char *text) {
    struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&ready, 1, 0) == 1 && write(STDERR_FILENO, text, strlen(text)) > 0;
}

static int terminal_columns(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* Draws the live line, or prints a plain line. */
static void draw(struct progress *progress) {
    double now = now_s();
    if (progress->paused || progress->acknowledged || !(progress->live || progress->plain)) return;
    progress->drawn_s = now;
    progress->view.job_s = now - progress->begun_s;
    progress->view.phase_s = now - progress->phase_s;
    progress->view.left_s =
        progress_left_s(progress->work, progress->run_count, progress->current, now - progress->updated_s);
    /* Some terminals wrap when the last column is written. */
    int columns = progress->plain ? PLAIN_COLUMNS : terminal_columns() - 1;
    OWNED char *line = progress_line(&progress->view, columns);
    OWNED char *text = progress->plain ? must_printf("%s\n", line) : must_printf(CLEAR "%s", line);
    bool shown = print(text);
    progress->shown |= shown && !progress->plain;
}

/* Removes the live line, if one is shown. */
static void clear(struct progress *progress) {
    if (progress->shown) print(CLEAR);
    progress->shown = false;
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

/* The thread: draws whenever `period_s` has passed since the last drawing, until progress->closing. */
static void *redraw(void *argument) {
    struct progress *progress = argument;
    lock(progress);
    while (!progress->closing) {
        double due = progress->drawn_s + progress->period_s;
        if (now_s() >= due) {
            double before = progress->drawn_s;
            draw(progress);
            if (progress->drawn_s == before) progress->drawn_s = now_s(); /* drawing is paused: try one period later */
            continue;
        }
        const struct timespec until = timespec_of(due);
        pthread_cond_timedwait(&progress->changed, &progress->mutex, &until);
    }
    unlock(progress);
    return NULL;
}

void progress_begin(struct progress *progress, enum progress_mode mode, const struct progress_work *work, int runs) {
    const char *kind = getenv("TERM");
    bool terminal = isatty(STDERR_FILENO) && !(kind && strcmp(kind, "dumb") == 0);
    double now = now_s();
    *progress = (struct progress){.live = mode == PROGRESS_AUTO && terminal,
                                  .plain = mode == PROGRESS_PLAIN || (mode == PROGRESS_AUTO && !terminal),
                                  .run_count = runs,
                                  .view = {.phase = PHASE_BEGIN},
                                  .current = -1,
                                  .begun_s = now,
                                  .phase_s = now,
                                  .updated_s = now,
                                  .drawn_s = now};
    progress->period_s = progress->live ? REDRAW_S : HEARTBEAT_S;
    progress->work = must_malloc((unsigned long)runs * sizeof *work);
    progress->names = must_zeroed((unsigned long)runs * sizeof *progress->names);
    for (int i = 0; i < runs; i++) {
        progress->work[i] = work[i];
        progress->work[i].repeats_left = work[i].repeats;
        progress->view.runs += !work[i].not_here;
    }
    condition_init(&progress->changed);
    pthread_mutex_init(&progress->mutex, NULL);
    /* If the thread cannot start, the line is drawn only when a run begins. */
    if (progress->live || progress->plain)
        progress->started = pthread_create(&progress->thread, NULL, redraw, progress) == 0;
}

void progress_end(struct progress *progress) {
    if (!progress->work) return;
    lock(progress);
    progress->closing = true;
    progress->current = -1;
    clear(progress);
    pthread_cond_signal(&progress->changed);
    unlock(progress);
    if (progress->started) pthread_join(progress->thread, NULL);
    progress->started = false;
    for (int i = 0; i < progress->run_count; i++) free(progress->names[i]);
    free(progress->names);
    free(progress->work);
    free(progress->waits);
    progress->work = NULL;
}

/* ---- updates ----------------------------------------------------------------------------------------------------- */

/* Adds the time since the last update to the current run, and returns this time. */
static double add_elapsed(struct progress *progress) {
    double now = now_s(), passed = now - progress->updated_s;
    if (progress->current >= 0) progress->work[progress->current].spent_s += passed;
    progress->updated_s = now;
    return passed;
}

/* Sets the phase, and how far the current run is: `done` of `total` tiles or repeats of this phase. */
static void set_phase(struct progress *progress, enum progress_phase phase, int64_t done, int64_t total) {
    if (phase != progress->view.phase) progress->phase_s = progress->updated_s;
    progress->view.phase = phase;
    progress->view.done = done;
    progress->view.total = total;
    if (progress->current < 0) return;
    struct progress_work *work = &progress->work[progress->current];
    work->done_s = progress_done_s(work, phase, done, phase == PHASE_REPEAT ? done + work->repeats_left : total);
}

/* Makes another run the current one. */
static void select_run(struct progress *progress, int number) {
    progress->current = number;
    progress->view.run = progress->finished + 1;
    progress->view.what = progress->names[number];
}

void progress_run(struct progress *progress, int number, const char *what) {
    lock(progress);
    add_elapsed(progress);
    free(progress->names[number]);
    progress->names[number] = text_clean(what);
    struct progress_work *work = &progress->work[number];
    if (work->counted) progress->finished--; /* the run is done again */
    work->nothing_left = work->counted = false;
    work->repeated = 0;
    select_run(progress, number);
    progress->view.bytes = 0;
    progress->view.bytes_total = work->bytes;
    progress->view.phase = PHASE_TILES;
    progress->view.done = progress->view.total = 0;
    progress->phase_s = progress->updated_s;
    if (progress->live && (!progress->shown || progress->updated_s - progress->drawn_s >= MIN_REDRAW_S)) draw(progress);
    unlock(progress);
}

void progress_wait(struct progress *progress, const char *what) {
    lock(progress);
    add_elapsed(progress);
    bool begins = progress->view.phase != PHASE_WAIT;
    free(progress->waits);
    progress->waits = text_clean(what);
    progress->current = -1;
    progress->view.what = progress->waits;
    progress->view.phase = PHASE_WAIT;
    progress->view.done = progress->view.total = 0;
    if (begins) draw(progress);
    unlock(progress);
}

void progress_tiles(struct progress *progress, int64_t tiles) {
    lock(progress);
    add_elapsed(progress);
    progress->view.bytes = 0;
    set_phase(progress, PHASE_TILES, 0, tiles);
    unlock(progress);
}

void progress_step(struct progress *progress, double bytes) {
    lock(progress);
    add_elapsed(progress);
    progress->view.bytes += bytes;
    set_phase(progress, PHASE_TILES, progress->view.done + 1, progress->view.total);
    unlock(progress);
}

void progress_verify(struct progress *progress) {
    lock(progress);
    add_elapsed(progress);
    set_phase(progress, PHASE_VERIFY, 0, 0);
    unlock(progress);
}

void progress_repeat(struct progress *progress, int number, int done, int max_repeats, double seconds_each) {
    lock(progress);
    struct progress_work *work = &progress->work[number];
    bool repeats_ended = done > work->repeated; /* false: a turn begins, and the time until now was another run's */
    if (repeats_ended) select_run(progress, number);
    double passed = add_elapsed(progress);
    if (!repeats_ended) select_run(progress, number);
    if (repeats_ended && progress->view.phase == PHASE_REPEAT) {
        work->paced_s += passed;
        work->paced += done - work->repeated;
    }
    work->repeated = done;
    work->pace_s = work->paced > 0 ? work->paced_s / work->paced : seconds_each > 0 && done > 0 ? seconds_each : 0;
    /* With `until` the number of repeats is between the minimum, which the plan expects, and the maximum. Beyond the
     * minimum a quarter more is expected, again and again. */
    int more = done < work->repeats ? work->repeats - done : done / 4 + 1;
    work->repeats_left = more < max_repeats - done ? more : max_repeats - done;
    progress->view.seconds_each = seconds_each;
    set_phase(progress, done == 0 ? PHASE_WARM_UP : PHASE_REPEAT, done, max_repeats);
    unlock(progress);
}

void progress_outcome(struct progress *progress, int number, const char *outcome, bool worked) {
    lock(progress);
    add_elapsed(progress);
    struct progress_work *work = &progress->work[number];
    work->nothing_left = work->counted = true;
    work->done_s = progress_done_s(work, PHASE_ASSEMBLE, 0, 0);
    if (!worked) work->spent_s = 0;
    if (progress->current == number) progress->current = -1;
    progress->finished++;
    if (progress->plain) progress->drawn_s = progress->updated_s;
    unlock(progress);
    if (progress->plain) /* outside the lock: this may block on a pipe */
        text_print_stderr("[%d/%d] %s: %s\n", progress->finished, progress->view.runs, progress->names[number],
                          outcome);
}

void progress_assemble(struct progress *progress) {
    lock(progress);
    add_elapsed(progress);
    progress->current = -1;
    progress->view.run = progress->view.runs;
    set_phase(progress, PHASE_ASSEMBLE, 0, 0);
    unlock(progress);
}

/* ---- other text -------------------------------------------------------------------------------------------------- */

void progress_pause(struct progress *progress) {
    lock(progress);
    clear(progress);
    progress->paused = true;
    unlock(progress);
}

void progress_resume(struct progress *progress) {
    lock(progress);
    progress->paused = false;
    unlock(progress);
}

void progress_note(struct progress *progress, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    OWNED char *text = must_vprintf(format, arguments);
    va_end(arguments);
    progress_pause(progress);
    text_print_stderr("tilerun: %s\n", text);
    progress_resume(progress);
}

/* Uses interrupt_write, which does not wait long for a full pipe: the process must end soon. */
void progress_announce_signal(struct progress *progress, int number) {
    char where[96] = "";
    lock(progress);
    const struct progress_view *view = &progress->view;
    int64_t next = view->done + 1 < view->total ? view->done + 1 : view->total;
    if (view->phase == PHASE_TILES && view->total > 0)
        snprintf(where, sizeof where, "tile %lld of %lld of ", (long long)next, (long long)view->total);
    if (view->phase == PHASE_REPEAT)
        snprintf(where, sizeof where, "repeat %lld of %lld of ", (long long)next, (long long)view->total);
    if (view->phase == PHASE_VERIFY) snprintf(where, sizeof where, "the verification of ");
    if (view->phase == PHASE_WARM_UP) snprintf(where, sizeof where, "the warm-up of ");
    OWNED char *in = view->phase == PHASE_ASSEMBLE ? must_printf("while the results file is assembled")
                     : view->phase == PHASE_WAIT   ? must_printf("while it %s", view->what)
                     : progress->current >= 0      ? must_printf("in %s'%s'", where, view->what)
                     : progress->finished == 0     ? must_printf("before the first run")
                                                   : must_printf("after run %d of %d", progress->finished, view->runs);
    OWNED char *sentence =
        must_printf("%stilerun: %s: stopping within a second, %s; Ctrl-C %sstops at once\n",
                    progress->shown ? CLEAR : "", interrupt_name(number), in, number == SIGINT ? "again " : "");
    progress->shown = false;
    progress->acknowledged = true;
    interrupt_write(STDERR_FILENO, sentence);
    unlock(progress);
}
