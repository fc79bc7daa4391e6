/* test_fail.c - the sentences of failures, and the end of a process that finds no memory. */
#include "../../runner/base/fail.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void calls_say_what_failed_in_what(void **state) {
    static const struct {
        const char *about, *words, *expected;
    } cases[] = {{NULL, "no room", "open(x) failed: no room (here.c:12)"},
                 {NULL, NULL, "open(x) failed (here.c:12)"},
                 {NULL, "", "open(x) failed (here.c:12)"},
                 {"product", "no room", "product: open(x) failed: no room (here.c:12)"},
                 {"product", NULL, "product: open(x) failed (here.c:12)"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error error = {.status = STATUS_OK};
        assert_null(fail_set_subject(cases[i].about));
        assert_ptr_equal(fail_subject(), cases[i].about);
        assert_int_equal(fail_call(&error, STATUS_IO, "open(x)", cases[i].words, "here.c", 12), STATUS_IO);
        assert_ptr_equal(fail_set_subject(NULL), cases[i].about);
        assert_int_equal(error.status, STATUS_IO);
        assert_string_equal(error.text, cases[i].expected);
        assert_int_equal(fail_prefix(&error, "input", "X"), STATUS_IO);
        assert_int_equal(error.status, STATUS_IO);
        assert_non_null(strstr(error.text, cases[i].expected));
        assert_true(strncmp(error.text, "input X: ", 9) == 0);
    }
}

static void a_file_that_cannot_be_written(void **state) {
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    for (int limited = 0; limited < 2; limited++) {
        static const char *const words[2][3] = {
            {"a.h5: cannot be written: File too large", "a.h5: cannot be written: Input/output error (the disk failed",
             "a.h5: cannot be written: No space left on device"},
            {"a.h5: cannot be written: it would exceed the file size limit of 1048576 bytes (`ulimit -f`)",
             "a.h5: cannot be written: Input/output error (the disk failed",
             "a.h5: cannot be written: No space left on device"}};
        static const int numbers[] = {EFBIG, EIO, ENOSPC};
        const rlim_t limit = limited ? 1048576 : before.rlim_cur;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){limit, before.rlim_max}), 0);
        for (int i = 0; i < 3; i++) {
            struct error error = {.status = STATUS_OK};
            assert_int_equal(fail_write(&error, "a.h5", numbers[i]), STATUS_IO);
            if (strncmp(error.text, words[limited][i], strlen(words[limited][i])) != 0) fail_msg("%s", error.text);
        }
    }
    setrlimit(RLIMIT_FSIZE, &before);
}

/* What a child says that finds no memory. */
static void assert_ends(const char *about, const char *expected) {
    int ends[2], how;
    char text[256] = "";
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        fail_set_subject(about);
        must_have(NULL);
        _exit(77);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    close(ends[1]);
    assert_true(read(ends[0], text, sizeof text - 1) >= 0);
    close(ends[0]);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), STATUS_DEVICE);
    assert_string_equal(text, expected);
}

static void memory_that_is_missing_ends_the_process(void **state) {
    int there;
    assert_ptr_equal(must_have(&there), &there);
    assert_ends(NULL, "tilerun: out of host memory\n");
    assert_ends("operation product", "tilerun: operation product: out of host memory\n");
}

static void memory_that_is_there(void **state) {
    char *text = must_malloc(0), *copy;
    assert_non_null(text);
    text = must_realloc(text, 4);
    memcpy(text, "abc", 4);
    copy = must_strdup(text);
    assert_string_equal(copy, "abc");
    assert_ptr_not_equal(copy, text);
    free(copy);
    copy = must_printf("%s %d", text, 7);
    assert_string_equal(copy, "abc 7");
    free(copy);
    text = must_realloc(text, 0);
    assert_non_null(text);
    free(text);
    text = must_realpath("/proc/../tmp/.");
    assert_string_equal(text, "/tmp");
    free(text);
    assert_null(must_realpath("/proc/no such file"));
    assert_int_equal(errno, ENOENT);
}

static void a_stream_keeps_all(void **state) {
    char *text, expected[40001] = "";
    FILE *to = must_stream(&text);
    assert_string_equal(text, "");
    for (int i = 0; i < 10000; i++) {
        fprintf(to, "%04d", i);
        snprintf(expected + (size_t)4 * i, sizeof expected - (size_t)4 * i, "%04d", i);
        if (i % 997 == 0) fflush(to);
    }
    fclose(to);
    assert_string_equal(text, expected);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_say_what_failed_in_what),
        cmocka_unit_test(a_file_that_cannot_be_written),
        cmocka_unit_test(memory_that_is_missing_ends_the_process),
        cmocka_unit_test(memory_that_is_there),
        cmocka_unit_test(a_stream_keeps_all),
    };
    return cmocka_run_group_tests_name("fail", tests, NULL, NULL);
}
