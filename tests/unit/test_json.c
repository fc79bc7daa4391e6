/* test_json.c - text of any bytes, written as a JSON string. */
#include "../../runner/base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static void assert_written(const char *text, size_t length, const char *expected) {
    char *written = NULL;
    size_t size;
    FILE *to = open_memstream(&written, &size);
    assert_non_null(to);
    json_write_string(to, text, length);
    fclose(to);
    assert_string_equal(written, expected);
    free(written);
}

#define WRITTEN(text, expected) assert_written(text, sizeof(text) - 1, expected)

static void what_json_reserves_is_escaped(void **state) {
    WRITTEN("", "\"\"");
    WRITTEN("a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
    WRITTEN("\t\n\x1f \x7f", "\"\\u0009\\u000a\\u001f \\u007f\"");
    WRITTEN("\xc2\x9b"
            "2J \xe2\x80\xae",
            "\"\\u009b2J \\u202e\""); /* what a terminal obeys, what turns a line */
    WRITTEN("a\0b", "\"a\\u0000b\"");
    assert_written("longer", 3, "\"lon\"");
}

#define MENDED "\xef\xbf\xbd"

static void what_is_not_utf8_is_mended(void **state) {
    WRITTEN("Größe \xe2\x82\xac \xf0\x9f\x98\x80", "\"Größe \xe2\x82\xac \xf0\x9f\x98\x80\"");
    WRITTEN("\xff|\x80|\xc3", "\"" MENDED "|" MENDED "|" MENDED "\""); /* invalid, not first, cut off */
    WRITTEN("\xc3\"\xe2\x82", "\"" MENDED "\\\"" MENDED MENDED "\"");
    WRITTEN("\xc0\xaf\xed\xa0\x80", "\"" MENDED MENDED MENDED MENDED MENDED "\""); /* overlong, half of a pair */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_json_reserves_is_escaped),
        cmocka_unit_test(what_is_not_utf8_is_mended),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
