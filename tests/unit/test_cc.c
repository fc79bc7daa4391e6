/* test_cc.c - a compiler that cannot be started is an error, not a crash. */
#include "../../runner/compile/cc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* With one descriptor left tilerun.h can be written, but the compiler's pipe needs two. */
static void test_no_pipe(void **state) {
    const struct cc_source source = {.path = "mine.c", .kernel = "mine"};
    struct cc_code code;
    struct error error = {.status = STATUS_OK};
    struct rlimit before, few;
    int free_one = dup(STDIN_FILENO);
    assert_true(free_one >= 0 && close(free_one) == 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
    few = before;
    few.rlim_cur = (rlim_t)free_one + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    enum status status = cc_compile(&source, NULL, &code, &error);
    setrlimit(RLIMIT_NOFILE, &before);
    cc_code_free(&code);
    assert_int_equal(status, STATUS_USAGE);
    assert_non_null(strstr(error.text, "cannot be run"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_pipe)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
