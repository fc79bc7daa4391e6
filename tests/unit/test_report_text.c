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

static void rates_have_the_units_of_the_table(void **state) {
    static const struct {
        double number;
        bool flops;
        const char *text;
    } cases[] = {
        {1e3, true, "1e-06 GFLOP/s"},      {4e6, false, "0.004 GB/s"},        {0.5e9, true, "0.500 GFLOP/s"},
        {2e9, false, "2.00 GB/s"},         {9.994e9, true, "9.99 GFLOP/s"},   {9.996e9, true, "10.0 GFLOP/s"},
        {999.94e9, true, "999.9 GFLOP/s"}, {999.96e9, true, "1.00 TFLOP/s"},  {4450.2e9, false, "4450.2 GB/s"},
        {216e12, true, "216.0 TFLOP/s"},   {3.5e20, true, "3.5e+08 TFLOP/s"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[VIEW_CELL];
        assert_string_equal(view_rate_text(cases[i].number, cases[i].flops, text), cases[i].text);
    }
}

static void files_have_letters(void **state) {
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

/* The first of equal ones; what is no number is never it, but where it comes first. */
static void the_largest_is_found(void **state) {
    const double values[] = {-1, NAN, 3, -INFINITY, 3, 0}, one[] = {-7};
    assert_int_equal(report_largest(values, 6), 2);
    assert_int_equal(report_largest(values, 1), 0);
    assert_int_equal(report_largest(one, 1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_shortened_to_characters),
        cmocka_unit_test(rates_have_the_units_of_the_table),
        cmocka_unit_test(files_have_letters),
        cmocka_unit_test(the_largest_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
