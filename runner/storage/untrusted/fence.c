/* fence.c - the handler of the signals by which a library crashes, and of a timer that counts the thread's own time.
 * The handler calls only what a signal handler may. */
#include "fence.h"

#include "../../base/fail.h"
#include "../../base/text.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

extern const char __executable_start[], etext[]; /* the linker's: where the program's own code begins and ends */

static _Thread_local const char *volatile fenced;

int fence_seconds = 30;
static _Thread_local timer_t timer;
static _Thread_local bool has_timer;

/* Sends TOO_LONG to this thread when it has computed for so many seconds; 0: never. */
enum { TOO_LONG = SIGVTALRM };

static void limit(int seconds) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = TOO_LONG};
    const struct itimerspec time = {.it_value = {.tv_sec = seconds}};
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    if (seconds && !has_timer) has_timer = timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) == 0;
    if (has_timer) timer_settime(timer, 0, &time, NULL);
}

const char *fence_enter(const char *path, int limited) {
    const char *outer = fenced;
    fenced = path;
    if (limited && !outer) limit(fence_seconds);
    return outer;
}

void fence_renew(void) {
    if (fenced) limit(fence_seconds);
}

void fence_leave(const char *const *outer) {
    fenced = *outer;
    if (!fenced) limit(0);
}

static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { CRASHES = sizeof crashes / sizeof *crashes };
static struct sigaction before[CRASHES];

/* Where the thread was; 0: not known on this processor. */
static uintptr_t instruction(const ucontext_t *context) {
#if defined(__x86_64__)
    return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)context->uc_mcontext.pc;
#else
    return (void)context, 0;
#endif
}

static void say(const char *text) {
    for (size_t left = strlen(text); left > 0;) {
        int shown = text_shown(text, left), bytes = shown || *text == '\n' ? shown + !shown : utf8_length(text, left);
        bool clean = shown || (*text == '\n' && left == 1); /* the end of a message */
        if (bytes == 0) bytes = 1;
        if (write(STDERR_FILENO, clean ? text : "?", clean ? (size_t)bytes : 1) < 0) return;
        text += bytes;
        left -= (size_t)bytes;
    }
}

static uintptr_t library_begin, library_end; /* HDF5's code */
static atomic_bool ends;

/* Finds the code that the address is in, unless that is the program's own: a library linked into it. */
static int find_code(struct dl_phdr_info *object, size_t bytes, void *address) {
    uintptr_t inside = (uintptr_t)address, own = (uintptr_t)etext - 1;
    (void)bytes;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t begin = object->dlpi_addr + part->p_vaddr, end = begin + part->p_memsz;
        if (part->p_type != PT_LOAD || inside < begin || inside >= end) continue;
        if (own >= begin && own < end) return 1;
        library_begin = begin;
        library_end = end;
        return 1;
    }
    return 0;
}

static void say_subject(void) {
    const char *subject = fail_subject();
    say("tilerun: ");
    say(fenced ? fenced : subject ? subject : "");
    if (fenced || subject) say(": ");
}

static void ended(void) {
    if (ends) return;
    say_subject();
    say("a library ended the process: the host is out of memory or threads\n");
    _exit(fenced ? STATUS_IO : STATUS_DEVICE);
}

void fence_catch_exits(void) {
    void *hdf5 = dlsym(RTLD_DEFAULT, "H5open");
    if (hdf5) dl_iterate_phdr(find_code, hdf5);
    atexit(ended);
}

void fence_allow_exit(void) {
    ends = true;
}

static bool is_own(uintptr_t at) {
    return at >= (uintptr_t)__executable_start && at < (uintptr_t)etext;
}

static bool is_hdf5(const void *at) {
    Dl_info about;
    if ((uintptr_t)at >= library_begin && (uintptr_t)at < library_end) return true;
    return dladdr(at, &about) && about.dli_sname && strncmp(about.dli_sname, "H5", 2) == 0;
}

/* Did HDF5 crash, or a function of another library, such as memcpy, that it called? The callers say so, from the
 * innermost on: first the handler and the kernel's call of it, then what crashed. */
static bool hdf5_crashed(uintptr_t at) {
    void *callers[64];
    int count = backtrace(callers, sizeof callers / sizeof *callers), i = 0;
    while (i < count && (uintptr_t)callers[i] != at) i++;
    for (; i < count && !is_own((uintptr_t)callers[i]); i++)
        if (is_hdf5(callers[i])) return true;
    return false;
}

static void crashed(int number, siginfo_t *about, void *context) {
    uintptr_t at = instruction(context);
    bool ours = is_own(at);
    (void)about;
    if (fenced && (!ours || number == TOO_LONG)) {
        say("tilerun: ");
        say(fenced);
        say(number == TOO_LONG ? ": the HDF5 library comes to no end" : ": the HDF5 library crashed");
        say(" reading this file, which is damaged or made to do harm\n");
        _exit(STATUS_IO);
    }
    if (number == TOO_LONG) return;
    if (hdf5_crashed(at)) {
        say_subject();
        say("the HDF5 library crashed: a file cannot be read, or the host is out of memory\n");
        _exit(STATUS_IO);
    }
    /* The instruction is tried again, without us. */
    for (int i = 0; i < CRASHES; i++)
        if (crashes[i] == number) sigaction(number, &before[i], NULL);
    if (number == SIGABRT) raise(number);
}

void fence_install(void) {
    static char room[1 << 16]; /* for the main thread's handler: a library that recurses without end leaves no stack */
    const stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
    struct sigaction action = {.sa_sigaction = crashed, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaltstack(&stack, NULL);
    void *loads[1];
    backtrace(loads, 1); /* the first call takes memory, which a handler must not */
    for (int i = 0; i < CRASHES; i++) sigaction(crashes[i], &action, &before[i]);
    sigaction(TOO_LONG, &action, NULL);
}
