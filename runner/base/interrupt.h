/* interrupt.h - signals that ask the process to stop, keep finished runs and exit with 75: TERM, USR1, USR2,
 * INT and HUP. Schedulers differ in which of them they send.
 *
 * One thread, the watcher, waits for these signals; all other threads block them. The first signal sets a flag, and the
 * watcher acknowledges it at once with a line on stderr. Working threads call interrupt_check() between steps, repeats,
 * reads and writes: once the flag is set they fail with STATUS_INTERRUPTED and release their resources, as after any
 * other failure.
 *
 * Some work cannot stop midway: a kernel launch, one large read, a sync. If the process still runs when a grace period
 * after the first signal is over, or when an INT follows it, the watcher ends the process without waiting for other
 * threads. So a signal ends the process within about a second, whatever it is doing.
 *
 * Work may also have a deadline of its own: interrupt_check() then fails with STATUS_TIMEOUT once it has passed. If the
 * work still goes on when its grace period is over too, as a kernel does that never ends, the process ends as after a
 * signal: nothing else can end that work.
 *
 * In all these cases an exit handler cleans up and prints how much of the job is done. It runs once: interrupt_finish()
 * calls it if the work has stopped by itself, else the watcher does. */
#ifndef RUNNER_INTERRUPT_H
#define RUNNER_INTERRUPT_H

#include "fail.h"

#include <stdbool.h>

/* Lets signals wait until interrupt_begin, instead of killing the process; interrupt_release undoes it, for commands
 * that do not begin. */
void interrupt_hold(void);
void interrupt_release(void);
/* Starts the watcher, which runs until the process ends. Call this before any other thread starts: threads inherit
 * blocked signals. It also ignores SIGXFSZ and SIGPIPE, so that writes beyond a file size limit, or into a pipe without
 * a reader, fail instead of killing the process. STATUS_DEVICE: no thread can be created. */
enum status interrupt_begin(struct error *error);

/* Returns STATUS_INTERRUPTED once a signal has come, STATUS_TIMEOUT once the deadline has passed. Any thread may call
 * it. */
enum status interrupt_check(struct error *error);
/* Sets the flag, as the signal `number` does; 0 clears it (for tests). */
void interrupt_request(int number);

/* Sets the deadline, a time of now_s(); INFINITY: there is none. If the work still goes on `grace_s` after it, the
 * process ends, unless no thread could be started to watch for that. */
void interrupt_set_deadline(double at_s, double grace_s);
/* For the exit handler: does the process end because the deadline and its grace period have passed? */
bool interrupt_by_deadline(void);

/* The name of a signal that the watcher handles: "SIGTERM". */
const char *interrupt_name(int number);

/* Sets the function that acknowledges a signal with a line, and the exit handler. When the watcher calls them, in this
 * order, all other threads are still running. Neither is called once the work is over. Before this call nothing is
 * acknowledged, and the exit handler prints one line. */
void interrupt_set_handlers(void (*acknowledge)(void *context, int number), void (*exit_handler)(void *context),
                            void *context);
/* Reports that the work is over with this status; for STATUS_INTERRUPTED it calls the exit handler. A later signal
 * can end the process sooner but not change its exit code. Does not return once the watcher ends the process. */
void interrupt_finish(enum status status);
/* For the two handlers: writes text without stdio's locks, and drops the rest if a pipe stays full for WRITE_MS. */
void interrupt_write(int descriptor, const char *text);

#endif
