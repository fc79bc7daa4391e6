/* test_match.c - file names in natural order: numbers count as numbers, wherever they are. */
#include "../../runner/base/match.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void names_are_in_natural_order(void **state) {
    static const char *const names[] = {
        "",       "01",    "1",       "2",   "010",  "10b", "11",     "11b", "100000000000000000000",
        "A",      "a",     "a0",      "a00", "a01",  "a1",  "a01b",   "a1b", "a1b2",
        "a1b10",  "a1c",   "a2",      "a09", "a9.5", "a10", "a10.h5", "aa",  "b1",
        "b1.1c0", "b1.2c", "b1.10c1", "\xc3"};
    int count = (int)(sizeof names / sizeof *names);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++) {
            int order = match_compare(names[i], names[j]), wanted = (i > j) - (i < j);
            if ((order > 0) - (order < 0) != wanted) fail_msg("'%s' beside '%s': %d", names[i], names[j], order);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_are_in_natural_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
