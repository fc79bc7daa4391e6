/* interrupt.c - the watcher thread and its flag, one of the program's two pieces of global state. */
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

#define GRACE_S  0.7 /* from the first signal until the watcher ends the process */
#define WRITE_MS 400 /* how long interrupt_write waits for a full pipe */

/* The handlers before interrupt_set_handlers: no run has begun, so there is nothing to acknowledge. */
static void acknowledge_nothing(void *unused, int number) {
    (void)unused, (void)number;
}
static void farewell_before_runs(void *unused) {
    (void)unused;
    interrupt_write(STDERR_FILENO, "tilerun: interrupted before the first run\n");
}

static struct {
    atomic_int number; /* the first signal; 0: none has come */
    pthread_mutex_t mutex;
    enum status status; /* the exit status of the process */
    void (*acknowledge)(void *context, int number);
    void (*farewell)(void *context); /* NULL: it was called, or the work is over */
    void *context;
} interrupt = {.mutex = PTHREAD_MUTEX_INITIALIZER,
               .status = STATUS_INTERRUPTED,
               .acknowledge = acknowledge_nothing,
               .farewell = farewell_before_runs};

void interrupt_request(int number) {
    atomic_store(&interrupt.number, number);
}

enum status interrupt_check(struct error *error) {
    int number = atomic_load_explicit(&interrupt.number, memory_order_relaxed);
    return number == 0 ? STATUS_OK : fail(error, STATUS_INTERRUPTED, "interrupted by signal %d", number);
}

void interrupt_set_handlers(void (*acknowledge)(void *context, int number), void (*farewell)(void *context),
                            void *context) {
    pthread_mutex_lock(&interrupt.mutex);
    interrupt.acknowledge = acknowledge;
    interrupt.farewell = farewell;
    interrupt.context = context;
    pthread_mutex_unlock(&interrupt.mutex);
}

/* The caller holds the mutex. */
static void say_farewell(void) {
    if (interrupt.farewell && interrupt.status == STATUS_INTERRUPTED) interrupt.farewell(interrupt.context);
    interrupt.farewell = NULL;
}

void interrupt_finish(enum status status) {
    pthread_mutex_lock(&interrupt.mutex);
    interrupt.status = status;
    say_farewell();
    pthread_mutex_unlock(&interrupt.mutex);
}

void interrupt_write(int descriptor, const char *text) {
    for (size_t left = strlen(text); left > 0;) {
        struct pollfd ready = {.fd = descriptor, .events = POLLOUT};
        if (poll(&ready, 1, WRITE_MS) != 1) return;
        ssize_t put = write(descriptor, text, left < PIPE_BUF ? left : PIPE_BUF); /* a ready pipe takes PIPE_BUF */
        if (put <= 0) return;
        text += put;
        left -= (size_t)put;
    }
}

/* Waits until `until`, as now_s() tells it, or until an INT comes. */
static void wait_grace_period(const sigset_t *signals, double until) {
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

static void *watcher_main(void *unused) {
    (void)unused;
    const sigset_t signals = watched_signals();
    int number;
    while (sigwait(&signals, &number) != 0) {
    }
    double until = now_s() + GRACE_S;
    pthread_mutex_lock(&interrupt.mutex); /* keeps the farewell behind the acknowledgement */
    interrupt_request(number);
    if (interrupt.farewell) interrupt.acknowledge(interrupt.context, number);
    pthread_mutex_unlock(&interrupt.mutex);
    wait_grace_period(&signals, until);
    pthread_mutex_lock(&interrupt.mutex); /* never unlocked: interrupt_finish must not return from now on */
    say_farewell();
    _exit((int)interrupt.status);
}

enum status interrupt_begin(struct error *error) {
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGXFSZ, &ignore, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
    const sigset_t signals = watched_signals();
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    pthread_t thread;
    int code = pthread_create(&thread, NULL, watcher_main, NULL);
    if (code != 0) return FAIL_CALL(error, STATUS_DEVICE, "pthread_create", strerror(code));
    pthread_detach(thread);
    return STATUS_OK;
}
