/* test_table.c - tables for people: drawn tables at all widths, and the words of some by heart. */
#include "../../runner/base/fail.h"
#include "../../runner/base/table.h"
#include "../../runner/base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static char *printed(const struct table *table, int width, const char *hint) {
    char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    if (width < 0)
        table_print_markdown(table, to);
    else
        table_print(table, width, hint, to);
    fclose(to);
    return text;
}

static void check(const struct table *table, int width, const char *hint, const char *expected) {
    char *text = printed(table, width, hint);
    assert_string_equal(text, expected);
    free(text);
}

/* ---- by heart ---- */

static const struct table_column columns[] = {
    {.name = "variant"},
    {.name = "shape", .priority = 9},
    {.name = "median", .right = true},
    {.name = "ci", .heading = "+-", .right = true, .joined = true, .priority = 5},
    {.name = "ratio", .heading = "x naive", .right = true, .priority = 2},
    {.name = "status"},
};

static void fill(struct table *table, const char *variant, const char *shape, const char *status) {
    table_row(table);
    table_cell(table, 0, "%s", variant);
    table_cell(table, 1, "%s", shape);
    table_cell(table, 2, "%.2f us", 12.345);
    table_cell(table, 3, "+-0.4%%");
    table_cell(table, 4, "%.2fx", 190.0);
    table_cell(table, 5, "%s", status);
}

static void test_columns_go(void **state) {
    struct table *table = table_create(columns, 6);
    check(table, 80, NULL, "");
    fill(table, "tiled,tile=16", "512x512", "ok");
    fill(table, "naive", "4x4", "wrong");
    table_remark(table, "element (1, 2) is 3, not 4");
    check(table, 0, "hint",
          "variant        shape      median     +-  x naive  status\n"
          "tiled,tile=16  512x512  12.35 us +-0.4%  190.00x  ok\n"
          "naive          4x4      12.35 us +-0.4%  190.00x  wrong: element (1, 2) is 3, not 4\n");
    check(table, 60, "hint",
          "variant        shape      median     +-  x naive  status\n"
          "tiled,tile=16  512x512  12.35 us +-0.4%  190.00x  ok\n"
          "naive          4x4      12.35 us +-0.4%  190.00x  wrong\n"
          "    element (1, 2) is 3, not 4\n");
    check(table, 40, "--columns chooses",
          "variant          median  x naive  status\n"
          "tiled,tile=16  12.35 us  190.00x  ok\n"
          "naive          12.35 us  190.00x  wrong\n"
          "    element (1, 2) is 3, not 4\n"
          "omitted columns: shape, ci; --columns\n"
          "chooses\n");
    check(table, 30, NULL,
          "variant          median  st~us\n"
          "tiled,tile=16  12.35 us  ok\n"
          "naive          12.35 us  wrong\n"
          "    element (1, 2) is 3, not 4\n"
          "omitted columns: shape, ci,\n"
          "ratio\n");
    check(table, -1, NULL,
          "| variant | shape | median | +- | x naive | status |\n"
          "| --- | --- | ---: | ---: | ---: | --- |\n"
          "| tiled,tile=16 | 512x512 | 12.35 us | +-0.4% | 190.00x | ok |\n"
          "| naive | 4x4 | 12.35 us | +-0.4% | 190.00x | wrong: element (1, 2) is 3, not 4 |\n");
    table_free(table);
}

static void test_texts_are_cut(void **state) {
    struct table *table = table_create(columns, 6);
    fill(table, "tiled,with=a,very=long,label=of,more=than,the=terminal,has=columns,of=room,here=8", "512x512", "ok");
    char *text = printed(table, 72, NULL);
    assert_non_null(strstr(text, "~"));
    assert_non_null(strstr(text, "190.00x"));
    assert_null(strstr(text, "not shown"));
    free(text);
    table_free(table);
}

static void test_characters(void **state) {
    assert_int_equal(text_width("Größe"), 5);
    assert_int_equal(text_width("Gro\xcc\x88\xc3\x9f"), 4);
    assert_int_equal(text_width("行列"), 4);
    assert_int_equal(text_width("\xff\xc3"), 2);
    struct table *table = table_create(columns, 6);
    fill(table, "行列", "a\nb\tc", "by_pixel");
    fill(table, "Größe", "\x1b[31m\xff\xc2\x9b", "_a|b\\*");
    check(table, 0, NULL,
          "variant  shape      median     +-  x naive  status\n"
          "行列     a b c    12.35 us +-0.4%  190.00x  by_pixel\n"
          "Größe    ?[31m??  12.35 us +-0.4%  190.00x  _a|b\\*\n");
    char *text = printed(table, -1, NULL);
    assert_non_null(strstr(text, "| by_pixel |\n"));
    assert_non_null(strstr(text, "| ?\\[31m?? |"));
    assert_non_null(strstr(text, "| \\_a\\|b\\\\\\* |\n"));
    free(text);
    table_free(table);
}

static void test_wrapping(void **state) {
    static const struct {
        const char *text, *lines;
        int indent, room;
    } cases[] = {
        {"one two", "one two\n", 0, 0},
        {"one two", "one two\n", 0, 7},
        {"one  two ", "one\ntwo\n", 0, 6},
        {"one", "on\ne\n", 0, 1}, /* of two columns, which a character may take */
        {"a word-that-is-too-long b", "  a\n  word-th\n  at-is-t\n  oo-long\n  b\n", 2, 9},
        {"行列行列", "行列\n行列\n", 0, 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = NULL;
        size_t length;
        FILE *to = open_memstream(&text, &length);
        text_print_wrapped(cases[i].text, cases[i].indent, cases[i].room, to);
        fclose(to);
        assert_string_equal(text, cases[i].lines);
        free(text);
    }
}

static void test_room(void **state) {
    setenv("COLUMNS", "72", 1);
    assert_int_equal(table_terminal_width(), 72);
    unsetenv("COLUMNS");
    setenv("LC_ALL", "", 1);
    setenv("LC_CTYPE", "de_DE.utf8", 1);
    setenv("LANG", "C", 1);
    assert_true(text_utf8());
    setenv("LC_ALL", "C", 1);
    assert_false(text_utf8());
}

/* ---- drawn ---- */

static unsigned long seed;

static int draw(int below) {
    seed = seed * 6364136223846793005UL + 1442695040888963407UL;
    return (int)(seed >> 33) % below;
}

static const char *draw_text(char text[256], int most) {
    static const char *const pieces[] = {"a", "tile=16", ",", "é", "列", " ", "n=512", "_", "o\xcc\x88", "x"};
    size_t length = 0;
    text[0] = '\0';
    for (int i = draw(most); i > 0; i--)
        length += (size_t)snprintf(text + length, 256 - length, "%s", pieces[draw(10)]);
    return text;
}

enum { MOST_COLUMNS = 12, MOST_ROWS = 6 };

/* Does a cell stand where its heading does? A right one ends there, another begins there, cut or not. */
static bool aligned(const char *line, const char *heading, const char *name, bool right, const char *cell) {
    const char *found = strstr(heading, name);
    size_t length = strlen(cell);
    while (length > 0 && cell[length - 1] == ' ') length--;
    if (!found || length == 0) return true;
    int at = (int)(found - heading); /* headings are ASCII */
    if (!right) return strncmp(line + text_fitting(line, at), cell, text_fitting(cell, 1)) == 0;
    size_t end = text_fitting(line, at + (int)strlen(name));
    return end >= length && strncmp(line + end - length, cell, length) == 0;
}

/* Where each printed column ends or begins must be the same in all lines; what is not there must be named. */
static void check_drawn(const struct table_column *drawn, int count, char cells[][MOST_COLUMNS][256], int rows,
                        int remarks, const struct table *table, int width) {
    char *text = printed(table, width, NULL), *rest = text, *heading = strsep(&rest, "\n");
    for (int r = 0; r < rows && remarks == 0; r++) {
        const char *line = strsep(&rest, "\n");
        for (int i = 0; i < count; i++)
            if (!aligned(line, heading, drawn[i].name, drawn[i].right, cells[r][i]))
                fail_msg("width %d: %s is not aligned:\n%s\n%s", width, drawn[i].name, heading, line);
    }
    for (char *c = rest; *c; c++)
        if (*c == '\n') *c = ' ';
    char *left_out = strstr(rest, "omitted columns:");
    int shown = 0, at = 0;
    for (int i = 0; i < count; i++) {
        bool empty = true;
        for (int r = 0; r < rows; r++) empty = empty && !cells[r][i][0];
        char *found = strstr(heading, drawn[i].name);
        char *named = left_out ? strstr(left_out, drawn[i].name) : NULL;
        if (empty && (found || named)) fail_msg("width %d: the empty %s is shown in\n%s", width, drawn[i].name, text);
        if (!empty && !found == !named) fail_msg("width %d: where is %s?\n%s", width, drawn[i].name, text);
        shown += found != NULL;
        if (found) {
            if (found - heading < at) fail_msg("width %d: %s is out of order", width, drawn[i].name);
            at = (int)(found - heading);
        }
    }
    assert_true(shown > 0 || !heading[0]);
    free(text);
}

static void test_drawn(void **state) {
    const char *given = getenv("TILERUN_SEED");
    unsigned long first = given ? strtoul(given, NULL, 10) : (unsigned long)time(NULL);
    const char *cases = getenv("TILERUN_CASES");
    printf("seed %lu\n", first);
    seed = first;
    for (int c = 0; c < (cases ? atoi(cases) : 300); c++) {
        static char names[MOST_COLUMNS][8], cells[MOST_ROWS][MOST_COLUMNS][256];
        struct table_column drawn[MOST_COLUMNS];
        int count = 1 + draw(MOST_COLUMNS), rows = 1 + draw(MOST_ROWS);
        for (int i = 0; i < count; i++) {
            snprintf(names[i], sizeof names[i], "H%02d", i);
            drawn[i] = (struct table_column){.name = names[i], .right = draw(2), .priority = draw(6)};
            drawn[i].joined = i > 0 && draw(4) == 0;
        }
        struct table *table = table_create(drawn, count);
        int remarks = draw(2) * 3;
        for (int r = 0; r < rows; r++) {
            table_row(table);
            for (int i = 0; i < count; i++) {
                draw_text(cells[r][i], drawn[i].right ? 3 : draw(9) ? 5 : 30);
                if (!cells[r][i][strspn(cells[r][i], " ")]) cells[r][i][0] = '\0'; /* as the table takes it */
                table_cell(table, i, "%s", cells[r][i]);
            }
            char remark[256];
            table_remark(table, draw(3) < remarks ? draw_text(remark, 30) : "");
        }
        for (int width = TABLE_MIN_WIDTH; width <= 200; width += 1 + draw(9)) {
            char *text = printed(table, width, "--columns chooses"), *rest = text;
            for (char *line; (line = strsep(&rest, "\n"));) {
                if (text_width(line) > width) fail_msg("seed %lu: wider than %d: \"%s\"", first, width, line);
                size_t length = strlen(line);
                if (length && line[length - 1] == ' ') fail_msg("\"%s\" ends in a space", line);
            }
            free(text);
            check_drawn(drawn, count, cells, rows, remarks, table, width);
        }
        table_free(table);
    }
}

/* The width of where stdout goes: a pipe, a terminal of so many columns, or what the environment says. */
static void test_where_stdout_goes(void **state) {
    static const struct {
        const char *columns; /* NULL: not set */
        int terminal, room;  /* -1: a pipe */
    } cases[] = {
        {NULL, -1, 0},         {NULL, 132, 132},          {NULL, 1, 1},   {NULL, 0, 80},
        {"90", -1, 90},        {"90", 132, 90},           {"", 132, 132}, {"0", 132, 132},
        {"-5", -1, 0},         {"x", 132, 132},           {"1", -1, 1},   {"2147483646", -1, 2147483646},
        {"2147483647", -1, 0}, {"99999999999", 132, 132},
    };
    const char *before = getenv("COLUMNS");
    char *kept = before ? must_strdup(before) : NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct winsize size = {.ws_col = (unsigned short)(cases[i].terminal < 0 ? 0 : cases[i].terminal)};
        int saved = dup(STDOUT_FILENO), ends[2];
        fflush(stdout);
        if (cases[i].terminal < 0) {
            assert_int_equal(pipe(ends), 0);
        } else {
            ends[0] = posix_openpt(O_RDWR | O_NOCTTY);
            assert_true(ends[0] >= 0 && grantpt(ends[0]) == 0 && unlockpt(ends[0]) == 0);
            ends[1] = open(ptsname(ends[0]), O_RDWR | O_NOCTTY);
            assert_int_equal(ioctl(ends[1], TIOCSWINSZ, &size), 0);
        }
        unsetenv("COLUMNS");
        if (cases[i].columns) setenv("COLUMNS", cases[i].columns, 1);
        dup2(ends[1], STDOUT_FILENO);
        int room = table_terminal_width();
        dup2(saved, STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        close(saved);
        if (room != cases[i].room) fail_msg("case %zu: %d", i, room);
    }
    unsetenv("COLUMNS");
    if (kept) setenv("COLUMNS", kept, 1);
    free(kept);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_go),
        cmocka_unit_test(test_texts_are_cut),
        cmocka_unit_test(test_characters),
        cmocka_unit_test(test_wrapping),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_drawn),
        cmocka_unit_test(test_where_stdout_goes),
    };
    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
