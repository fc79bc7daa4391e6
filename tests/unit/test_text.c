/* test_text.c - sizes and times in words, and texts that end up in messages. */
#include "../../runner/base/text.h"
#include "draws.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    double seconds, least; /* the least time that is told in this unit, but for what is rounded up to it */
} units[] = {{"days", 86400, 259200}, {"h", 3600, 7200}, {"min", 60, 600}, {"s", 1, 1},
             {"ms", 1e-3, 1e-3},      {"us", 1e-6, 0}};
enum { UNITS = sizeof units / sizeof *units };

static void times_have_a_unit(void **state) {
    static const struct {
        double seconds;
        const char *words;
    } cases[] = {
        {0, "0.00 us"},         {1e-8, "0.01 us"},     {1e-6, "1.00 us"},         {0.9994e-3, "999 us"},
        {0.9996e-3, "1.00 ms"}, {9.99e-3, "9.99 ms"},  {9.996e-3, "10.0 ms"},     {99.9e-3, "99.9 ms"},
        {99.96e-3, "100 ms"},   {0.9994, "999 ms"},    {0.9996, "1.00 s"},        {45.6, "45.6 s"},
        {599.6, "600 s"},       {599.8, "10.0 min"},   {7196, "120 min"},         {7197, "2.00 h"},
        {259000, "71.9 h"},     {259100, "3.00 days"}, {30 * 86400, "30.0 days"}, {3e9, "34722 days"},
    };
    char text[32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(duration_text(cases[i].seconds, text), cases[i].words);
}

/* Of any time the words say three digits, in the largest unit that is not too large. */
static void times_are_told_to_three_digits(void **state) {
    state_of_draws = 1;
    for (int i = 0; i < 20000; i++) {
        double seconds = pow(10, draw() * 14 - 6);
        char text[32], *end;
        double value = strtod(duration_text(seconds, text), &end);
        int u = 0;
        while (u < UNITS && strcmp(end + 1, units[u].name) != 0) u++;
        assert_true(*end == ' ' && u < UNITS);
        assert_true(fabs(value * units[u].seconds - seconds) <= 0.00501 * seconds);
        assert_true(seconds >= units[u].least * 0.999);
        if (u > 0) assert_true(seconds < units[u - 1].least);
    }
}

static void sizes_have_a_unit(void **state) {
    static const struct {
        double bytes;
        const char *words;
    } cases[] = {
        {0, "0 B"},          {1023, "1023 B"},      {1024, "1.0 KiB"},   {1536, "1.5 KiB"},
        {0x1p20, "1.0 MiB"}, {0x1.8p30, "1.5 GiB"}, {0x1p40, "1.0 TiB"}, {0x1p50, "1024.0 TiB"},
    };
    char text[32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(size_text(cases[i].bytes, text), cases[i].words);
}

/* Only a newline that the format ends with stays one. */
static void what_is_printed_is_a_line_or_a_part_of_one(void **state) {
    static const struct {
        const char *format, *text, *printed;
    } cases[] = {
        {"%s", "", ""},           {"%s\n", "", "\n"},        {"%s", "\n", " "},          {"%s\n", "\n", " \n"},
        {"%s", "a\nb\n", "a b "}, {"%s\n", "a\nb", "a b\n"}, {"(%s)", "\t\x1b", "( ?)"}, {"%s", "ö\xff", "ö?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *printed;
        size_t length;
        FILE *to = open_memstream(&printed, &length);
        assert_non_null(to);
        text_print(to, cases[i].format, cases[i].text);
        fclose(to);
        assert_string_equal(printed, cases[i].printed);
        free(printed);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_have_a_unit),
        cmocka_unit_test(times_are_told_to_three_digits),
        cmocka_unit_test(sizes_have_a_unit),
        cmocka_unit_test(what_is_printed_is_a_line_or_a_part_of_one),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
