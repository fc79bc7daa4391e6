/* fuzz.h - what the fuzz targets share: a scratch folder in memory that becomes the current one, files from bytes, and
 * commands whose output nobody reads. Each target is one LLVMFuzzerTestOneInput. */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include "../../runner/commands/command.h"
#include "../../runner/storage/untrusted/fence.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static int shown; /* the standard error that libFuzzer reports to */

/* What a fence catches is no finding: the process ends as if it had done its share. */
void __real__exit(int code) __attribute__((noreturn));
void __wrap__exit(int code) __attribute__((noreturn));
void __wrap__exit(int code) {
    __real__exit(code == STATUS_IO ? 0 : code);
}

/* Nor is what the sanitizer sees of HDF5's own code behind a fence, such as a free of what it never had: there the
 * program may crash, which is fenced, or not notice. The first caller that is no part of the sanitizer decides. */
static int reported;
void __asan_on_error(void);
void __asan_on_error(void) {
    void *callers[32];
    const int count = backtrace(callers, 32);
    Dl_info self, at;
    reported = 1;
    if (!dladdr(__builtin_return_address(0), &self)) return;
    for (int i = 2; i < count; i++) { /* backtrace's, this one, the sanitizer's */
        if (!dladdr(callers[i], &at) || strcmp(at.dli_fname, self.dli_fname) == 0) continue;
        if (strstr(at.dli_fname, "libhdf5") && fence_enter("", 0)) __real__exit(0);
        return;
    }
}

/* What HDF5 has written where it must not, the sanitizer may find as a mistake of its own, without a report. All else
 * is for libFuzzer's own function, which keeps the input. */
void __sanitizer_set_death_callback(void (*callback)(void));
void fuzzer_death(void) __asm__("_ZN6fuzzer6Fuzzer19StaticDeathCallbackEv");
static void fuzz_death(void) {
    if (!reported && fence_enter("", 0)) __real__exit(0);
    fuzzer_death();
}

static void fuzz_leave(void) {
    if (chdir("/") == 0) return;
}

static long fuzz_peak(void) {
    struct rusage use;
    return getrusage(RUSAGE_SELF, &use) ? 0 : use.ru_maxrss; /* KiB */
}

static long peak; /* when the input began */

/* Call last in each input. One that takes a GiB is a finding; libFuzzer's own limit also meets what HDF5 has lost in
 * many inputs before. */
static void fuzz_end(void) {
    if (peak && fuzz_peak() - peak > 1 << 20) abort();
}

/* Call first in each input. What is printed goes to /dev/null; libFuzzer and the sanitizers have the other output. */
static void fuzz_begin(void) {
    static char folder[] = "/dev/shm/tilerun-fuzz-XXXXXX";
    peak = fuzz_peak();
    if (shown) return;
    shown = dup(STDERR_FILENO);
    if (!mkdtemp(folder) || chdir(folder) || !freopen("/dev/null", "w", stdout)) abort();
    setenv("XDG_CACHE_HOME", folder, 1); /* measured limits: not the user's */
    setenv("OMP_NUM_THREADS", "1", 1);
    atexit(fuzz_leave);
    h5_prepare();
    fence_install(); /* as main does; here it is libFuzzer that ends */
    fence_catch_exits();
    fence_allow_exit();
    __sanitizer_set_death_callback(fuzz_death);
    fence_seconds = 5; /* of what HDF5 comes to no end with */
}

static void fuzz_write(const char *path, const void *data, size_t size) {
    int file = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0 || write(file, data, size) != (ssize_t)size || close(file)) abort();
}

/* Runs a command with these words, up to a NULL. Its complaints go to /dev/null. */
static enum status fuzz_command(const struct command *command, char *words[]) {
    struct error error = {0};
    int count = 0, quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
    while (words[count]) count++;
    fflush(stderr);
    dup2(quiet, STDERR_FILENO);
    struct invocation invocation;
    char *line = command_line(count, words);
    enum status status = command_parse(command, count, words, &invocation, &error);
    if (!status) status = command_validate(&invocation, &error);
    invocation.line = line;
    if (!status) status = command->run(&invocation, &error);
    free(line);
    fflush(stdout);
    fflush(stderr);
    dup2(shown, STDERR_FILENO);
    close(quiet);
    if (status != STATUS_OK && memchr(error.text, '\0', sizeof error.text) == NULL) abort();
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
