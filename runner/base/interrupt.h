/* interrupt.h - signals that mean "stop, keep what is finished, exit 75": TERM, USR1, USR2 and INT, whichever of them a
 * site's scheduler sends.
 *
 * One thread, the watch, waits for these signals; all others block them. The first signal sets a flag, and the watch
 * answers it at once with a line on stderr. Working threads call interrupt_check() between steps, repeats, reads and
 * writes: once the flag is set they fail with STATUS_INTERRUPTED and release what they hold on the way up, as after any
 * other failure.
 *
 * Some work cannot be stopped midway: a kernel's launch, one large read, a sync. If the process still runs a grace time
 * after the first signal, or when an INT follows it, the watch ends the process without waiting for other threads. So
 * a signal ends the process within about a second, whatever it is doing.
 *
 * Either way one function takes leave: it tidies up and prints how much is done. It is called once: by
 * interrupt_finish() where the work stopped by itself, or by the watch if that comes first. */
#ifndef RUNNER_INTERRUPT_H
#define RUNNER_INTERRUPT_H

#include "fail.h"

#include <stdbool.h>

/* Starts the watch, which lasts as long as the process. Call this before any other thread starts: threads inherit
 * blocked signals. It also ignores SIGXFSZ and SIGPIPE, so that a size limit on files and a pipe without a reader show
 * up as failed writes. */
enum status interrupt_begin(struct error *error);

/* STATUS_INTERRUPTED once a signal has come. From any thread. */
enum status interrupt_check(struct error *error);
/* Sets the flag, as a signal does; number 0 clears it (for tests). */
void interrupt_request(int number);

/* "SIGTERM". */
const char *interrupt_name(int number);

/* Names the functions that answer a signal with a line and that take leave. When the watch calls them, all other
 * threads are still running. A signal is answered before anything takes leave because of it, and not once the work is
 * over. Before this call there is no answer, and the leave is one line. */
void interrupt_set_handlers(void (*answer)(void *context, int number), void (*leave)(void *context), void *context);
/* The work is over with this status; STATUS_INTERRUPTED takes leave. A later signal can end the process sooner but not
 * change its exit code. Does not return once the watch has begun to end the process. */
void interrupt_finish(enum status status);
/* For `answer` and `leave`: writes text without stdio's locks; drops what a pipe does not take within SAY_MS. */
void interrupt_write(int descriptor, const char *text);

#endif
