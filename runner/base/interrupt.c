/* interrupt.c - runs two threads: the watcher of signals, and the one that ends the process after a deadline. Their
 * state is global, because both concern the whole process. */
#include "interrupt.h"

#include "clock.h"

#include <limits.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define GRACE_S  0.7 /* seconds from the first signal until the watcher ends the process */
#define WRITE_MS 400 /* how long interrupt_write waits for a full pipe */

/* The handlers before interrupt_set_handlers: no run has begun, so there is nothing to acknowledge. */
static void acknowledge_nothing(void *unused, int number) {
    (void)unused, (void)number;
}
static void exit_before_runs(void *unused) {
    (void)unused;
    interrupt_write(STDERR_FILENO, "tilerun: interrupted before the first run\n");
}

static struct {
    atomic_int number; /* the first signal; 0: none has come */
    pthread_mutex_t mutex;
    enum status status; /* the exit status of the process */
    void (*acknowledge)(void *context, int number);
    void (*exit_handler)(void *context); /* NULL once it was called or the work is over */
    void *context;
} interrupt = {.mutex = PTHREAD_MUTEX_INITIALIZER,
               .status = STATUS_INTERRUPTED,
               .acknowledge = acknowledge_nothing,
               .exit_handler = exit_before_runs};

void interrupt_request(int number) {
    atomic_store(&interrupt.number, number);
}

static struct {
    _Atomic(double) at_s; /* INFINITY: there is no deadline */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    double end_s;  /* the deadline and its grace period: the process ends then */
    double wake_s; /* the thread wakes up then and compares the time with end_s */
    bool thread_runs;
    atomic_bool passed; /* end_s has passed: the process ends */
} deadline = {.at_s = INFINITY, .mutex = PTHREAD_MUTEX_INITIALIZER};

enum status interrupt_check(struct error *error) {
    int number = atomic_load_explicit(&interrupt.number, memory_order_relaxed);
    if (number != 0) return fail(error, STATUS_INTERRUPTED, "interrupted by signal %d", number);
    double at_s = atomic_load_explicit(&deadline.at_s, memory_order_relaxed);
    return at_s == INFINITY || now_s() < at_s ? STATUS_OK : fail(error, STATUS_TIMEOUT, "exceeded its timeout");
}

void interrupt_set_handlers(void (*acknowledge)(void *context, int number), void (*exit_handler)(void *context),
                            void *context) {
    pthread_mutex_lock(&interrupt.mutex);
    interrupt.acknowledge = acknowledge;
    interrupt.exit_handler = exit_handler;
    interrupt.context = context;
    pthread_mutex_unlock(&interrupt.mutex);
}

/* Calls the exit handler if the process ends by a signal and nobody has called it yet. The caller holds the mutex. */
static void run_exit_handler(void) {
    if (interrupt.exit_handler && interrupt.status == STATUS_INTERRUPTED) interrupt.exit_handler(interrupt.context);
    interrupt.exit_handler = NULL;
}

void interrupt_finish(enum status status) {
    pthread_mutex_lock(&interrupt.mutex);
    interrupt.status = status;
    run_exit_handler();
    pthread_mutex_unlock(&interrupt.mutex);
}

void interrupt_write(int descriptor, const char *text) {
    for (size_t remaining = strlen(text); remaining > 0;) {
        struct pollfd ready = {.fd = descriptor, .events = POLLOUT};
        if (poll(&ready, 1, WRITE_MS) != 1) return;
        /* A pipe that is ready takes PIPE_BUF bytes at once. */
        ssize_t written = write(descriptor, text, remaining < PIPE_BUF ? remaining : PIPE_BUF);
        if (written <= 0) return;
        text += written;
        remaining -= (size_t)written;
    }
}

/* Waits until `until`, a time of now_s(), or until SIGINT comes. */
static void wait_grace_period(const sigset_t *signals, double until) {
    bool waits = true;
    for (double remaining; waits && (remaining = until - now_s()) > 0;) {
        const struct timespec pause = timespec_of(remaining);
        waits = sigtimedwait(signals, NULL, &pause) != SIGINT;
    }
}

/* ---- the deadline ------------------------------------------------------------------------------------------------ */

/* Waits until the deadline, which may be moved meanwhile, and ends the process. */
static void *deadline_main(void *unused) {
    (void)unused;
    pthread_mutex_lock(&deadline.mutex);
    while (now_s() < deadline.end_s) {
        const struct timespec until = timespec_of(deadline.end_s);
        deadline.wake_s = deadline.end_s;
        if (deadline.end_s == INFINITY)
            pthread_cond_wait(&deadline.changed, &deadline.mutex);
        else
            pthread_cond_timedwait(&deadline.changed, &deadline.mutex, &until);
    }
    atomic_store(&deadline.passed, true);
    pthread_mutex_lock(&interrupt.mutex); /* neither mutex is unlocked: the work must not go on from now on */
    run_exit_handler();
    _exit((int)interrupt.status);
}

/* Starts the thread of deadline_main; thread_runs stays false if none can be created. */
static void watch_deadline(void) {
    pthread_t thread;
    condition_init(&deadline.changed);
    deadline.thread_runs = pthread_create(&thread, NULL, deadline_main, NULL) == 0;
    if (deadline.thread_runs) pthread_detach(thread);
}

void interrupt_set_deadline(double at_s, double grace_s) {
    pthread_mutex_lock(&deadline.mutex);
    atomic_store(&deadline.at_s, at_s);
    deadline.end_s = at_s + grace_s;
    if (deadline.thread_runs && deadline.end_s < deadline.wake_s) pthread_cond_signal(&deadline.changed);
    if (!deadline.thread_runs && at_s != INFINITY) watch_deadline();
    pthread_mutex_unlock(&deadline.mutex);
}

bool interrupt_by_deadline(void) {
    return atomic_load(&deadline.passed);
}

/* ---- signals ----------------------------------------------------------------------------------------------------- */

static const struct {
    int number;
    const char *name;
} watched[] = {
    {SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}, {SIGINT, "SIGINT"}, {SIGHUP, "SIGHUP"}};
#define WATCHED (int)(sizeof watched / sizeof *watched)

/* The signals of `watched`, without HUP if the process ignored it at its start, as under nohup. */
static sigset_t watched_signals(void) {
    struct sigaction hangup;
    sigset_t signals;
    sigemptyset(&signals);
    for (int i = 0; i < WATCHED; i++) sigaddset(&signals, watched[i].number);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler == SIG_IGN) sigdelset(&signals, SIGHUP);
    return signals;
}

void interrupt_hold(void) {
    const sigset_t signals = watched_signals();
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

void interrupt_release(void) {
    const sigset_t signals = watched_signals();
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

const char *interrupt_name(int number) {
    for (int i = 0; i < WATCHED; i++)
        if (watched[i].number == number) return watched[i].name;
    return "a signal";
}

/* The watcher: acknowledges the first signal, then ends the process after the grace period or at an INT. */
static void *watcher_main(void *unused) {
    (void)unused;
    const sigset_t signals = watched_signals();
    int number;
    while (sigwait(&signals, &number) != 0) {
    }
    double until = now_s() + GRACE_S;
    pthread_mutex_lock(&interrupt.mutex); /* runs the exit handler after the acknowledgement */
    interrupt_request(number);
    if (interrupt.exit_handler) interrupt.acknowledge(interrupt.context, number);
    pthread_mutex_unlock(&interrupt.mutex);
    wait_grace_period(&signals, until);
    pthread_mutex_lock(&interrupt.mutex); /* never unlocked: interrupt_finish must not return from now on */
    run_exit_handler();
    _exit((int)interrupt.status);
}

enum status interrupt_begin(struct error *error) {
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGXFSZ, &ignore, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
    interrupt_hold();
    pthread_t thread;
    int code = pthread_create(&thread, NULL, watcher_main, NULL);
    if (code != 0) return FAIL_CALL(error, STATUS_DEVICE, "pthread_create", strerror(code));
    pthread_detach(thread);
    return STATUS_OK;
}
