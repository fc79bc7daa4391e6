/* rehearse.c - runs a launch in a forked child, so that a crash ends only the child. The child starts a new thread for
 * the launch, because OpenMP's worker threads do not exist after a fork. */
#include "rehearse.h"

#include "../base/clock.h"
#include "../base/interrupt.h"
#include "../base/text.h"

#include <dlfcn.h>
#include <errno.h>
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DONE = 77, CHANGED, FORKED, MODES }; /* the child's exit codes, which a kernel that calls `exit` hardly uses */

#define MIN_NAP_S 50e-6 /* between two looks at the child, at first... */
#define MAX_NAP_S 0.01  /* ...and at last */
#define LATE_S    60.0  /* until `late` is printed */

static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
enum { CRASHES = sizeof crashes / sizeof *crashes };

struct rehearsal {
    int (*function)(const struct launch *launch);
    const struct launch *launch;
    const struct launch_inputs *inputs;
};

/* A hash of all inputs, word by word. */
static uint64_t hash_of(const struct launch_inputs *inputs) {
    uint64_t hash = 0, word;
    for (int i = 0; i < inputs->count; i++)
        for (int64_t at = 0; at < inputs->bytes[i]; at += sizeof word) {
            int64_t remaining = inputs->bytes[i] - at;
            word = 0;
            memcpy(&word, (const char *)inputs->memory[i] + at,
                   remaining < (int64_t)sizeof word ? (size_t)remaining : sizeof word);
            hash = (hash ^ word) * 0x9e3779b97f4a7c15; /* odd: any one changed word changes the hash */
            hash ^= hash >> 32;
        }
    return hash;
}

/* At `exit` in the kernel: ends the child before its parent's handlers run, which would take this exit for that of a
 * library. */
static void end_at_exit(void) {
    _exit(0);
}

/* The child's thread: runs the launch, and ends the child if it changed floating-point modes or left a process. */
static void *rehearsal_main(void *argument) {
    const struct rehearsal *rehearsal = argument;
    femode_t before = {0}, after = {0}, restored = {0};
    fegetmode(&before);
    rehearsal->function(rehearsal->launch);
    fegetmode(&after);
    fesetmode(&before); /* all but the flags of exceptions, which femode_t holds too */
    fegetmode(&restored);
    if (memcmp(&after, &restored, sizeof after) != 0) _exit(MODES);
    if (waitpid(-1, NULL, WNOHANG) >= 0) _exit(FORKED);
    return NULL;
}

/* Forks. The child ends with its parent, dies of a crash without a core file, and leads a process group, so that what
 * it forks can be ended with it. */
static pid_t begin_child(void) {
    const struct rlimit none = {0, 0};
    const pid_t parent = getpid(), child = fork();
    setpgid(child, child); /* by both processes, as either may be the first to need it */
    if (child != 0) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(DONE);
    setrlimit(RLIMIT_CORE, &none);
    for (int i = 0; i < CRASHES; i++) signal(crashes[i], SIG_DFL);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    atexit(end_at_exit);
    return child;
}

/* Waits for the child until a signal or the deadline ends the work, or `limit_s` has passed, and ends its process
 * group. Prints `late` when the child has run for LATE_S. Returns what became of the child, as rehearse does. */
static int end_child(pid_t child, const char *late, double limit_s) {
    int state = 0;
    siginfo_t ended = {.si_pid = 0};
    struct error error = {.status = STATUS_OK};
    const double late_s = late ? now_s() + LATE_S : INFINITY, until_s = now_s() + limit_s;
    for (double nap_s = MIN_NAP_S; waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                                   ended.si_pid == 0 && interrupt_check(&error) == STATUS_OK && now_s() < until_s;
         nap_s = fmin(2 * nap_s, MAX_NAP_S)) {
        const struct timespec nap = {.tv_nsec = (long)(nap_s * 1e9)};
        nanosleep(&nap, NULL);
        if (late && now_s() >= late_s) {
            text_print_stderr("%stilerun: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", late);
            late = NULL;
        }
    }
    kill(-child, SIGKILL); /* before waitpid: the number is still the child's */
    while (waitpid(child, &state, 0) < 0)
        if (errno != EINTR) return 0;
    if (error.status) return REHEARSE_STOPPED;
    if (ended.si_pid == 0 && now_s() >= until_s) return REHEARSE_LATE;
    if (WIFEXITED(state)) switch (WEXITSTATUS(state)) {
        case DONE: return 0;
        case CHANGED: return REHEARSE_CHANGED;
        case FORKED: return REHEARSE_FORKED;
        case MODES: return REHEARSE_MODES;
        default: return REHEARSE_EXITED;
        }
    const int number = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
    return number == SIGINT || number == SIGTERM ? 0 : -number; /* those are for the whole job */
}

int rehearse(int (*function)(const struct launch *launch), const struct launch *launch,
             const struct launch_inputs *inputs, const char *late) {
    struct rehearsal rehearsal = {function, launch, inputs};
    pthread_t thread;
    const pid_t child = begin_child();
    if (child < 0) return 0;
    if (child > 0) return end_child(child, late, INFINITY);
    uint64_t before = hash_of(inputs);
    if (pthread_create(&thread, NULL, rehearsal_main, &rehearsal) == 0) pthread_join(thread, NULL);
    _exit(hash_of(inputs) == before ? DONE : CHANGED);
}

int rehearse_load(const char *path) {
    const pid_t child = begin_child();
    if (child < 0) return 0;
    if (child > 0) return end_child(child, NULL, REHEARSE_LOAD_S);
    dlopen(path, RTLD_NOW | RTLD_LOCAL);
    _exit(DONE);
}
