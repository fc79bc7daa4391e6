/* fence.c - sets a fence: a path in a variable of the thread, and a timer of the thread's CPU time. One handler
 * receives the signals of crashes and of the timer; it only calls async-signal-safe functions. */
#include "fence.h"

#include "../../base/fail.h"
#include "../../base/text.h"

#include <dlfcn.h>
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
#include <unwind.h>

extern const char __executable_start[], etext[]; /* begin and end of the program code, set by the linker */

static _Thread_local const char *volatile fenced; /* path of the innermost fence; NULL: none */

int fence_seconds = 30;
static _Thread_local timer_t timer;
static _Thread_local bool has_timer;

enum { TOO_LONG = SIGVTALRM }; /* the signal of the timer */

/* Sends TOO_LONG to this thread after `seconds` seconds of CPU time; 0, or if the system gives no timer: never. */
static void set_time_limit(int seconds) {
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
    if (limited && !outer) set_time_limit(fence_seconds);
    return outer;
}

void fence_renew(void) {
    if (fenced) set_time_limit(fence_seconds);
}

void fence_leave(const char *const *outer) {
    fenced = *outer;
    if (!fenced) set_time_limit(0);
}

static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
enum { CRASH_SIGNALS = sizeof crash_signals / sizeof *crash_signals };
static struct sigaction previous_actions[CRASH_SIGNALS];

/* The address of the instruction that crashed; 0: not known on this processor. */
static uintptr_t crash_address(const ucontext_t *context) {
#if defined(__x86_64__)
    return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)context->uc_mcontext.pc;
#else
    return (void)context, 0;
#endif
}

/* Writes a text with a `?` for each character that is not safe to print. */
static void write_stderr(const char *text) {
    for (size_t length = strlen(text); length > 0;) {
        int shown = text_shown(text, length);
        int bytes = shown || *text == '\n' ? shown + !shown : utf8_length(text, length);
        bool clean = shown || (*text == '\n' && length == 1); /* end of the message */
        if (bytes == 0) bytes = 1;
        if (write(STDERR_FILENO, clean ? text : "?", clean ? (size_t)bytes : 1) < 0) return;
        text += bytes;
        length -= (size_t)bytes;
    }
}

static uintptr_t library_begin, library_end; /* HDF5's code */
static atomic_bool exit_allowed;
static pid_t process; /* of fence_catch_exits: its children may exit */
enum { MAX_EXITS = 512 };

/* Callback of dl_iterate_phdr: stores the segment that contains the address of an HDF5 function, unless HDF5 is linked
 * into the program. */
static int find_code(struct dl_phdr_info *object, size_t bytes, void *address) {
    uintptr_t inside = (uintptr_t)address, program = (uintptr_t)etext - 1;
    (void)bytes;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t begin = object->dlpi_addr + part->p_vaddr, end = begin + part->p_memsz;
        if (part->p_type != PT_LOAD || inside < begin || inside >= end) continue;
        if (program >= begin && program < end) return 1;
        library_begin = begin;
        library_end = end;
        return 1;
    }
    return 0;
}

/* Writes the beginning of a message: "tilerun: ", then the fenced file or, without a fence, the operation or file that
 * the process works on (fail_set_subject). */
static void write_subject(void) {
    const char *subject = fail_subject();
    write_stderr("tilerun: ");
    write_stderr(fenced ? fenced : subject ? subject : "");
    if (fenced || subject) write_stderr(": ");
}

static const char *_Atomic kernel; /* of the user, while it runs */

void fence_set_kernel(const char *name) {
    atomic_store(&kernel, name);
}

/* Writes what the user's kernel has done. false: none runs. */
static bool write_kernel(const char *what) {
    const char *name = atomic_load(&kernel);
    if (!name) return false;
    write_subject();
    write_stderr("kernel '");
    write_stderr(name);
    write_stderr("' ");
    write_stderr(what);
    write_stderr(" in a launch after its first; finished runs are kept, and --resume continues\n");
    return true;
}

/* Called by exit: reports which kernel or file made a library end this process, and replaces the exit status. */
static void library_exited(void) {
    static atomic_flag entered;
    if (exit_allowed || getpid() != process) return;
    while (atomic_flag_test_and_set(&entered)) pause();
    if (write_kernel("ended the process, or its thread,")) _exit(STATUS_DEVICE);
    write_subject();
    write_stderr("a library ended the process, for lack of memory or threads\n");
    _exit(fenced ? STATUS_IO : STATUS_DEVICE);
}

void fence_catch_exits(void) {
    void *hdf5 = dlsym(RTLD_DEFAULT, "H5open");
    if (hdf5) dl_iterate_phdr(find_code, hdf5);
    process = getpid();
    for (int i = 0; i < MAX_EXITS; i++) atexit(library_exited); /* one for each thread that calls exit at once */
}

void fence_allow_exit(void) {
    exit_allowed = true;
}

/* Is the address in the program's own code? */
static bool is_own(uintptr_t at) {
    return at >= (uintptr_t)__executable_start && at < (uintptr_t)etext;
}

/* Is the address in HDF5's code, in a library or linked into the program? */
static bool is_hdf5(uintptr_t at) {
    Dl_info about;
    if (at >= library_begin && at < library_end) return true;
    return dladdr(__executable_start + (at - (uintptr_t)__executable_start), &about) && about.dli_sname &&
           strncmp(about.dli_sname, "H5", 2) == 0;
}

/* A walk of the stack from the innermost frame outwards. */
struct stack_walk {
    uintptr_t crash; /* address of the instruction that crashed */
    bool reached;    /* the frames before it are the handler and the kernel's call of it */
    bool hdf5;       /* a frame of HDF5 is between the crash and the program's own code */
};

/* Callback of _Unwind_Backtrace: behind the crash, looks for the first frame of HDF5 or of the program. */
static _Unwind_Reason_Code visit_frame(struct _Unwind_Context *frame, void *of_walk) {
    struct stack_walk *walk = of_walk;
    uintptr_t at = (uintptr_t)_Unwind_GetIP(frame);
    walk->reached = walk->reached || at == walk->crash;
    if (!walk->reached) return _URC_NO_REASON;
    walk->hdf5 = !is_own(at) && is_hdf5(at);
    return walk->hdf5 || is_own(at) ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/* Did HDF5 crash, or a function of another library that it called, such as memcpy? */
static bool hdf5_was_running(uintptr_t at) {
    struct stack_walk walk = {.crash = at};
    _Unwind_Backtrace(visit_frame, &walk);
    return walk.hdf5;
}

/* Handles a signal. Inside a fence, a crash outside the program's own code, or the timer, ends the process with a
 * message that names the fenced file. Outside a fence a crash inside HDF5 ends it with such a message, too. After any
 * other crash, of which a message names the user's kernel if one runs, the signal has its usual effect. */
static void on_signal(int number, siginfo_t *about, void *context) {
    uintptr_t at = crash_address(context);
    bool ours = is_own(at);
    (void)about;
    if (fenced && (!ours || number == TOO_LONG)) {
        write_subject();
        write_stderr(number == TOO_LONG ? "the HDF5 library does not finish" : "the HDF5 library crashed");
        write_stderr(" reading this file, which is damaged or malicious\n");
        _exit(STATUS_IO);
    }
    if (number == TOO_LONG) return;
    if (hdf5_was_running(at)) {
        write_subject();
        write_stderr("the HDF5 library crashed: a file cannot be read, or the host is out of memory\n");
        _exit(STATUS_IO);
    }
    if (!ours) write_kernel("crashed");
    /* Restores the previous handler; the process then repeats the instruction. */
    for (int i = 0; i < CRASH_SIGNALS; i++)
        if (crash_signals[i] == number) sigaction(number, &previous_actions[i], NULL);
    if (number == SIGABRT) raise(number);
}

void fence_install(void) {
    /* The handler has its own stack in the main thread, because endless recursion of a library uses up the normal one.
     */
    static char handler_stack[1 << 16];
    const stack_t stack = {.ss_sp = handler_stack, .ss_size = sizeof handler_stack};
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaltstack(&stack, NULL);
    for (int i = 0; i < CRASH_SIGNALS; i++) sigaction(crash_signals[i], &action, &previous_actions[i]);
    sigaction(TOO_LONG, &action, NULL);
}
