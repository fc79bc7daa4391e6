/* interrupt.c - the watch and its flag, one of the program's two pieces of global state. */
#include "interrupt.h"

#include "clock.h"
#include "fail.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define GRACE_S 0.7 /* from the first signal until the watch ends the process */
#define SAY_MS  400 /* that interrupt_write waits for a pipe to take more text */

/* Until interrupt_set_handlers names functions that know the plan. There is no answer: what the job does by the time it
 * takes leave is not known yet. */
static void answer_unbegun(void *unused, int number) {
    (void)unused, (void)number;
}
static void leave_unbegun(void *unused) {
    (void)unused;
    interrupt_write(STDERR_FILENO, "tilerun: interrupted before the first run\n");
}

static struct {
    atomic_int number; /* of the first signal; 0: none has come */
    pthread_mutex_t mutex;
    enum status status; /* that the process ends with */
    void (*answer)(void *context, int number);
    void (*leave)(void *context); /* NULL: leave is taken, or the work is over */
    void *context;
} interrupt = {
    .mutex = PTHREAD_MUTEX_INITIALIZER, .status = STATUS_INTERRUPTED, .answer = answer_unbegun, .leave = leave_unbegun};

void interrupt_request(int number) {
    atomic_store(&interrupt.number, number);
}

enum status interrupt_check(struct error *error) {
    int number = atomic_load_explicit(&interrupt.number, memory_order_relaxed);
    return number == 0 ? STATUS_OK : fail(error, STATUS_INTERRUPTED, "interrupted by signal %d", number);
}

void interrupt_set_handlers(void (*answer)(void *context, int number), void (*leave)(void *context), void *context) {
    pthread_mutex_lock(&interrupt.mutex);
    interrupt.answer = answer;
    interrupt.leave = leave;
    interrupt.context = context;
    pthread_mutex_unlock(&interrupt.mutex);
}

/* The caller holds the mutex. */
static void take_leave(void) {
    if (interrupt.leave && interrupt.status == STATUS_INTERRUPTED) interrupt.leave(interrupt.context);
    interrupt.leave = NULL;
}

void interrupt_finish(enum status status) {
    pthread_mutex_lock(&interrupt.mutex);
    interrupt.status = status;
    take_leave();
    pthread_mutex_unlock(&interrupt.mutex);
}

void interrupt_write(int descriptor, const char *text) {
    for (size_t left = strlen(text); left > 0;) {
        struct pollfd ready = {.fd = descriptor, .events = POLLOUT};
        if (poll(&ready, 1, SAY_MS) != 1) return;
        ssize_t put = write(descriptor, text, left < PIPE_BUF ? left : PIPE_BUF); /* a ready pipe takes that much */
        if (put <= 0) return;
        text += put;
        left -= (size_t)put;
    }
}

/* Waits until that time, or until an INT has come. */
static void wait_to_leave(const sigset_t *signals, double until) {
    bool more = true;
    for (double left; more && (left = until - now_s()) > 0;) {
        struct timespec rest = {.tv_sec = (time_t)left, .tv_nsec = (long)((left - (double)(time_t)left) * 1e9)};
        more = sigtimedwait(signals, NULL, &rest) != SIGINT;
    }
}

static const struct {
    int number;
    const char *name;
} watched[] = {{SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}, {SIGINT, "SIGINT"}};

static sigset_t watched_signals(void) {
    sigset_t signals;
    sigemptyset(&signals);
    for (int i = 0; i < 4; i++) sigaddset(&signals, watched[i].number);
    return signals;
}

const char *interrupt_name(int number) {
    for (int i = 0; i < 4; i++)
        if (watched[i].number == number) return watched[i].name;
    return "a signal";
}

static void *watch(void *unused) {
    (void)unused;
    const sigset_t signals = watched_signals();
    int number;
    while (sigwait(&signals, &number) != 0) {
    }
    double until = now_s() + GRACE_S;
    pthread_mutex_lock(&interrupt.mutex); /* so that nobody takes leave before the answer is out */
    interrupt_request(number);
    if (interrupt.leave) interrupt.answer(interrupt.context, number);
    pthread_mutex_unlock(&interrupt.mutex);
    wait_to_leave(&signals, until);
    pthread_mutex_lock(&interrupt.mutex); /* never unlocked: nobody else takes leave or settles now */
    take_leave();
    _exit((int)interrupt.status);
}

enum status interrupt_begin(struct error *error) {
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGXFSZ, &ignore, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
    const sigset_t signals = watched_signals();
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    pthread_t thread;
    int code = pthread_create(&thread, NULL, watch, NULL);
    if (code != 0) return FAIL_CALL(error, STATUS_DEVICE, "pthread_create", strerror(code));
    pthread_detach(thread);
    return STATUS_OK;
}
