/* What ends a process behind a fence: a crash outside of the program's code, and computing without end; a library that
 * comes further may take longer. */
#include "../../runner/storage/untrusted/fence.h"

#include "../../kernels/core/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <hdf5.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char said[512]; /* the child's standard error */

static int wait_status(void (*work)(void)) {
    int pipes[2], status;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], STDERR_FILENO);
        fence_seconds = 1;
        signal(SIGILL, SIG_DFL); /* not cmocka's */
        fence_install();
        work();
        _exit(0);
    }
    close(pipes[1]);
    size_t length = 0;
    for (ssize_t got; (got = read(pipes[0], said + length, sizeof said - 1 - length)) > 0;) length += (size_t)got;
    said[length] = 0;
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static double computed(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void compute(double seconds) {
    for (double begin = computed(); computed() < begin + seconds;) continue;
}

static void loop_behind_a_fence(void) {
    FENCE("loop.h5");
    compute(60);
}

static void loop_after_one(void) {
    { FENCE("loop.h5"); }
    compute(1.5);
}

static void loop_behind_a_long_one(void) {
    FENCE_LONG("loop.h5");
    compute(1.5);
}

static void come_further(void) {
    FENCE("loop.h5");
    for (int i = 0; i < 4; i++) {
        compute(0.5);
        fence_renew();
    }
}

static void abort_behind_another(void) {
    FENCE_LONG("inner.h5");
    abort();
}

static void abort_behind_two(void) {
    FENCE("outer.h5");
    abort_behind_another();
}

static void abort_after_one(void) {
    { FENCE("loop.h5"); }
    abort();
}

/* As if HDF5 were linked into the program, which then is not taken for a library. */
herr_t H5open(void) {
    return 0;
}

static void trap_behind_none(void) {
    fence_catch_exits();
    __builtin_trap();
}

static void test_computing(void **state) {
    int status = wait_status(loop_behind_a_fence);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), STATUS_IO);
    assert_string_equal(said,
                        "tilerun: loop.h5: the HDF5 library does not finish reading this file, which is damaged or "
                        "malicious\n");
    assert_int_equal(wait_status(loop_after_one), 0);
    assert_int_equal(wait_status(loop_behind_a_long_one), 0);
    assert_int_equal(wait_status(come_further), 0);
}

static void test_crashes(void **state) {
    int status = wait_status(abort_behind_two);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), STATUS_IO);
    assert_non_null(strstr(said, "tilerun: inner.h5: the HDF5 library crashed reading this file"));
    status = wait_status(abort_after_one);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    status = wait_status(trap_behind_none); /* a crash in the program's own code stays one */
    assert_true(WIFSIGNALED(status));
    assert_true(WTERMSIG(status) == SIGILL || WTERMSIG(status) == SIGTRAP);
    assert_string_equal(said, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_computing), cmocka_unit_test(test_crashes)};
    return cmocka_run_group_tests_name("fence", tests, NULL, NULL);
}
