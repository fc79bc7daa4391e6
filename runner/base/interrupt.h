/* interrupt.h - signals that mean "stop, keep what is finished, exit 75": TERM, USR1, USR2 and INT, whichever of them a
 * site's scheduler sends.
 *
 * Every thread blocks them but one, the watch, which waits for nothing else. The first signal sets a flag. Whoever is
 * at work asks for it with interrupt_check() between steps, repeats, reads and writes, fails with STATUS_INTERRUPTED,
 * and releases what it holds on the way up, as after any other failure.
 *
 * Some work cannot be stopped midway: a kernel's launch, one large read, a sync. If the process is still there a grace
 * time after the first signal, or when a second INT comes, the watch itself ends it, without waiting for anyone. So
 * every signal ends the process within about a second, wherever it is.
 *
 * Either way one function takes leave: it tidies up and says what is done. It is called once, by whoever comes first:
 * by interrupt_settle(), where the work has stopped by itself, or by the watch. */
#ifndef RUNNER_INTERRUPT_H
#define RUNNER_INTERRUPT_H

#include "fail.h"

#include <stdbool.h>

/* Starts the watch, which lasts as long as the process. To be called before any other thread is started: threads
 * inherit what is blocked. Also has a size limit on files and a pipe without reader reported as errors of writing. */
enum status interrupt_begin(struct error *error);

/* STATUS_INTERRUPTED once a signal has come. From any thread. */
enum status interrupt_check(struct error *error);
/* Sets the flag, as a signal does; number 0 clears it (for tests). */
void interrupt_ask(int number);

/* Names the function that takes leave. On the watch's thread it runs while all others go on. */
void interrupt_leave_by(void (*leave)(void *context), void *context);
/* The work is over, with this status: with STATUS_INTERRUPTED takes leave. From here on a signal can only hasten the
 * end, not change its code. Does not return once the watch has begun to end the process. */
void interrupt_settle(enum status status);
/* For `leave`: writes text without the locks of stdio; what a pipe does not take within a moment is dropped. */
void interrupt_say(int descriptor, const char *text);

#endif
