/* test_report_text.c - how the report writes numbers and names. */
#include "../../runner/report/report_parts.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void texts_are_shortened_to_characters(void **state) {
    (void)state;
    static const struct {
        const char *from, *to;
        int most;
    } cases[] = {
        {"", "", 5},
        {"abcde", "abcde", 5},
        {"abcdef", "ab…ef", 5},
        {"abcdefghijklmnopqrstuvwxyz", "ab…yz", 5},
        {"abcdefghijklmnopqrstuvwxyz", "ab…xyz", 6},
        {"abcdefghijklmnopqrstuvwxyz", "abcdefghijkl…opqrstuvwxyz", 25},
        {"äöü€𝄞", "äöü€𝄞", 5},
        {"äöü€𝄞x", "äö…𝄞x", 5},
        {"𝄞𝄞𝄞𝄞𝄞𝄞𝄞", "𝄞𝄞…𝄞𝄞𝄞", 6},
        {"a\xff\xff\xff\xff\xff", "a\xff…\xff\xff", 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[4 * 25 + 4];
        assert_string_equal(shortened(cases[i].from, cases[i].most, text), cases[i].to);
    }
}

static void numbers_have_three_digits_and_a_unit(void **state) {
    (void)state;
    static const struct {
        double number;
        const char *seconds, *flops, *plain;
    } cases[] = {
        {0, "0 ns", "0 FLOP/s", "0"},
        {1, "1.00 s", "1.00 FLOP/s", "1"},
        {-1, "-1.00 s", "-1.00 FLOP/s", "-1"},
        {0.0625, "62.5 ms", "0.06 FLOP/s", "0.0625"},
        {0.9994, "999 ms", "1.00 FLOP/s", "0.999"},
        {0.9995, "1.00 s", "1.00 FLOP/s", "1"},
        {9.994, "9.99 s", "9.99 FLOP/s", "9.99"},
        {9.995, "10.0 s", "10.0 FLOP/s", "9.99"},
        {99.94, "99.9 s", "99.9 FLOP/s", "99.9"},
        {99.95, "100 s", "100 FLOP/s", "100"},
        {999.5, "1000 s", "1.00 kFLOP/s", "1e+03"},
        {1024, "1024 s", "1.02 kFLOP/s", "1024"},
        {999999, "999999 s", "1.00 MFLOP/s", "999999"},
        {1e6, "1e+06 s", "1.00 MFLOP/s", "1e+06"},
        {3.5e15, "3.5e+15 s", "3.50 PFLOP/s", "3.5e+15"},
        {2.5e-6, "2.50 µs", "2.5e-06 FLOP/s", "2.5e-06"},
        {4e-12, "0.004 ns", "4e-12 FLOP/s", "4e-12"},
        {INFINITY, "", "", ""},
        {NAN, "", "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[NUMBER_BYTES];
        assert_string_equal(seconds_text(cases[i].number, text), cases[i].seconds);
        assert_string_equal(rate_text(cases[i].number, true, text), cases[i].flops);
        assert_string_equal(plain_text(cases[i].number, text), cases[i].plain);
    }
    char text[NUMBER_BYTES];
    assert_string_equal(rate_text(2e9, false, text), "2.00 GB/s");
}

static void files_have_letters(void **state) {
    (void)state;
    static const struct {
        int number;
        const char *letter;
    } cases[] = {{0, "A"},   {1, "B"},    {25, "Z"},    {26, "AA"},
                 {27, "AB"}, {701, "ZZ"}, {702, "AAA"}, {INT32_MAX, "FXSHRXX"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[8];
        assert_string_equal(file_letter(cases[i].number, text), cases[i].letter);
    }
}

/* Equal ones keep their order, and what is no number comes last. */
static void values_are_put_in_order(void **state) {
    (void)state;
    const double values[] = {3, NAN, -1, 3, INFINITY, NAN, 0, -INFINITY};
    static const int up[] = {7, 2, 6, 0, 3, 4, 1, 5}, down[] = {4, 0, 3, 6, 2, 7, 1, 5};
    int order[8];
    order_by(values, 8, false, order);
    assert_memory_equal(order, up, sizeof up);
    order_by(values, 8, true, order);
    assert_memory_equal(order, down, sizeof down);
    order_by(values, 0, true, order);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_shortened_to_characters),
        cmocka_unit_test(numbers_have_three_digits_and_a_unit),
        cmocka_unit_test(files_have_letters),
        cmocka_unit_test(values_are_put_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
