/* test_result_view.c - rows as people look at them: ratios and their baseline, conditions, order, the lines below the
 * table, and drawn rows at all widths. */
#include "../../runner/base/fail.h"
#include "../../runner/base/text.h"
#include "../../runner/show/result_view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MANY = 64 };
static struct result_row rows[MANY];
static int count;

static struct result_row *add(const char *operation, const char *parameters, const char *variant, const char *status,
                              double median) {
    struct result_row *row = &rows[count];
    memset(row, 0, sizeof *row);
    row->run = count++;
    snprintf(row->operation, sizeof row->operation, "%s", operation);
    snprintf(row->op, sizeof row->op, "matmul");
    snprintf(row->parameters, sizeof row->parameters, "%s", parameters);
    snprintf(row->variant, sizeof row->variant, "%s", variant);
    snprintf(row->status, sizeof row->status, "%s", status);
    double *const unknown[] = {&row->kernel_ci_low_s, &row->kernel_ci_high_s, &row->total_s, &row->percent_of_bound,
                               &row->kernel_median_s, &row->gflops,           &row->error};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) *unknown[i] = NAN;
    if (median > 0) row->kernel_median_s = median;
    return row;
}

static struct results_view *view_of(struct view_options options) {
    struct error error = {.status = STATUS_OK};
    struct results_view *view;
    if (view_make(rows, count, &options, &view, &error)) fail_msg("%s", error.text);
    return view;
}

static char *printed(const struct results_view *view, int room) {
    char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    if (room < 0)
        view_print_markdown(view, to);
    else
        view_print(view, room, NULL, to);
    fclose(to);
    return text;
}

static void check(struct view_options options, int room, const char *expected) {
    struct results_view *view = view_of(options);
    char *text = printed(view, room);
    assert_string_equal(text, expected);
    free(text);
    view_free(view);
}

static void check_refused(struct view_options options, const char *words) {
    struct error error = {.status = STATUS_OK};
    struct results_view *view;
    assert_int_equal(view_make(rows, count, &options, &view, &error), STATUS_USAGE);
    assert_null(view);
    if (!strstr(error.text, words)) fail_msg("\"%s\" lacks \"%s\"", error.text, words);
}

static void two_operations(void) {
    count = 0;
    add("product", "n=512", "naive", "ok", 4e-3);
    add("product", "n=512", "tiled,tile=16", "ok", 2e-3);
    add("product", "n=512", "tiled,tile=32", "wrong", 0);
    add("product", "n=1024", "naive", "failed", 0);
    add("product", "n=1024", "tiled,tile=16", "unchecked", 1.5);
    add("product", "n=1024", "tiled,tile=32", "ok", 999.9999e-6);
    add("means", "", "cpu", "ok", 999.994e-6);
}

static void test_ratios(void **state) {
    two_operations();
    check((struct view_options){.columns = "variant,n,median,ratio"}, 0,
          "variant         p_n     median  x naive\n"
          "naive           512   4.000 ms    1.00x\n"
          "tiled,tile=16   512   2.000 ms    2.00x\n"
          "tiled,tile=32   512\n"
          "naive          1024\n"
          "tiled,tile=16  1024    1.500 s        -\n"
          "tiled,tile=32  1024   1.000 ms        -\n"
          "cpu                  999.99 us\n"
          "no ratio for product n=1024: its baseline, naive, has no time there; `show --baseline` sets another\n");
    check((struct view_options){.columns = "variant,ratio", .baseline = "tiled,tile=16"}, 0,
          "variant        x tiled,tile=16\n"
          "naive                    0.50x\n"
          "tiled,tile=16            1.00x\n"
          "tiled,tile=32\n"
          "naive\n"
          "tiled,tile=16            1.00x\n"
          "tiled,tile=32            1500x\n"
          "cpu                          -\n"
          "no ratio for means: its baseline, tiled,tile=16, has no time there; `show --baseline` sets another\n");
    check_refused((struct view_options){.baseline = "tiled"}, "is ambiguous: 'tiled,tile=16' or 'tiled,tile=32'");
    check_refused((struct view_options){.baseline = "nave"}, "no variant 'nave' (did you mean 'naive'?)");
    check_refused((struct view_options){.baseline = ""}, "no variant ''");
    add("means", "", "blocked", "ok", 333.4e-6);
    check((struct view_options){.columns = "variant,ratio",
                                .where = (const char *const[]){"op!=x", "n="},
                                .where_count = 2},
          0,
          "variant  x first\n"
          "cpu        1.00x\n"
          "blocked    3.00x\n");
    count = 0; /* as many digits as fit, also where a number is rounded up to one more */
    add("means", "", "first", "ok", 999.5);
    static const double others[] = {1, 1.0001, 0.9995, 999.5 / 0.0995, 999.5 / 0.09949, 1e-3};
    for (int i = 0; i < 6; i++) add("means", "", (char[]){(char)('a' + i), 0}, "ok", others[i]);
    check((struct view_options){.columns = "variant,ratio"}, 0,
          "variant  x first\n"
          "first      1.00x\n"
          "a          1000x\n"
          "b        999.40x\n"
          "c          1000x\n"
          "d          0.10x\n"
          "e        0.0995x\n"
          "f        999500x\n");
    count = 0; /* and from a million on in powers of ten */
    add("means", "", "first", "ok", 3e6);
    static const double millions[] = {3.00001, 3, 2.99999, 3e-3};
    for (int i = 0; i < 4; i++) add("means", "", (char[]){(char)('a' + i), 0}, "ok", millions[i]);
    check((struct view_options){.columns = "variant,ratio"}, 0,
          "variant  x first\n"
          "first      1.00x\n"
          "a        999997x\n"
          "b         1e+06x\n"
          "c         1e+06x\n"
          "d         1e+09x\n");
    two_operations();
    count = 3; /* the heading names the first variant also where conditions leave it out */
    static const char *const where[] = {"variant=tiled"};
    check((struct view_options){.columns = "variant,ratio", .where = where, .where_count = 1}, 0,
          "variant        x naive\n"
          "tiled,tile=16    2.00x\n"
          "tiled,tile=32\n");
}

/* A long name keeps its two ends, in whole characters. */
/* What is shown as 1000 GFLOP/s is shown as 1 TFLOP/s. */
static void test_rates(void **state) {
    static const double gflops[] = {0.0123, 9.99, 999.94, 999.95, 12345};
    count = 0;
    for (size_t i = 0; i < sizeof gflops / sizeof *gflops; i++)
        add("product", "", "cpu", "ok", 1e-3)->gflops = gflops[i];
    check((struct view_options){.columns = "variant,rate"}, 0,
          "variant           rate\n"
          "cpu      0.012 GFLOP/s\n"
          "cpu       9.99 GFLOP/s\n"
          "cpu      999.9 GFLOP/s\n"
          "cpu       1.00 TFLOP/s\n"
          "cpu       12.3 TFLOP/s\n");
}

static void test_long_headings(void **state) {
    static const char *const cases[][2] = {
        {"abcdefghijklmn", "x abcdefghijklmn"},
        {"abcdefghijklmno", "x abcdefg~jklmno"},
        {"a name of many words", "x a name ~ words"},
        {"\xe6\x95\xb0\xe6\x8d\xae\xe9\x9b\x86\xe6\x95\xb0\xe6\x8d\xae\xe9\x9b\x86\xe6\x95\xb0\xe6\x8d\xae",
         "x \xe6\x95\xb0\xe6\x8d\xae\xe9\x9b\x86~\xe9\x9b\x86\xe6\x95\xb0\xe6\x8d\xae"},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "x ???????~??????"},
    };
    for (int i = 0; i < 5; i++) {
        char expected[256];
        count = 0;
        add("product", "", cases[i][0], "ok", 1e-3);
        add("product", "", "other", "ok", 1e-3);
        snprintf(expected, sizeof expected, "%s\n%*s\n%*s\n", cases[i][1], (int)text_width(cases[i][1]), "1.00x",
                 (int)text_width(cases[i][1]), "1.00x");
        check((struct view_options){.columns = "ratio"}, 0, expected);
    }
}

/* The runs that meet conditions, in order, by number. */
static void check_rows(const char *sort, const char *first, const char *second, const char *expected) {
    const char *const where[] = {first, second};
    struct results_view *view =
        view_of((struct view_options){.sort = sort, .where = where, .where_count = !!first + !!second});
    int chosen;
    struct result_row *found = view_rows(view, &chosen);
    char text[MANY * 4] = "";
    size_t length = 0;
    for (int i = 0; i < chosen; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%d ", found[i].run);
    assert_string_equal(text, expected);
    free(found);
    view_free(view);
}

static void test_conditions_and_order(void **state) {
    two_operations();
    snprintf(rows[0].flags, sizeof rows[0].flags, "throttled,outliers");
    check_rows(NULL, NULL, NULL, "0 1 2 3 4 5 6 ");
    check_rows(NULL, "operation=product", "n=512", "0 1 2 ");
    check_rows(NULL, "p_n==512", "status!=ok", "2 ");
    check_rows(NULL, "n!=512", NULL, "3 4 5 6 ");
    check_rows(NULL, "n>=1e3", NULL, "3 4 5 ");
    check_rows(NULL, "n<1024", NULL, "0 1 2 ");
    check_rows(NULL, "n=", NULL, "6 ");
    check_rows(NULL, "parameters=", NULL, "6 ");
    check_rows(NULL, "variant=tiled", NULL, "1 2 4 5 ");
    check_rows(NULL, "variant=tiled,tile=16", NULL, "1 4 ");
    check_rows(NULL, "flags=outliers", NULL, "0 ");
    check_rows(NULL, "flags=out", NULL, "");
    check_rows(NULL, "median>1ms", "kernel_median_s<= 4 ms", "0 1 ");
    check_rows(NULL, "ratio>1", NULL, "1 ");
    check_rows(NULL, "run=3", NULL, "3 ");
    check_rows("median", NULL, NULL, "6 5 1 0 4 2 3 ");
    check_rows("-median", NULL, NULL, "4 0 1 5 6 2 3 ");
    check_rows("parameters", NULL, NULL, "0 1 2 3 4 5 6 ");
    check_rows("-parameters", NULL, NULL, "3 4 5 0 1 2 6 ");
    check_rows("-n", "status=ok", NULL, "5 0 1 6 ");
    check_rows("operation", NULL, NULL, "6 0 1 2 3 4 5 ");
    const char *const bad[][2] = {
        {"op", "--where op: write COLUMN=VALUE"},
        {"=3", "write COLUMN=VALUE"},
        {"op!3", "write COLUMN=VALUE"},
        {"oq=3", "no column 'oq' (did you mean 'op'?)"},
        {"median>fast", "'fast' is not a number, but column 'median' holds numbers"},
        {"n>3ms", "'3ms' is not a number, but column 'p_n' holds numbers"},
        {"n>", "'' is not a number"},
        {"variant<x", "column 'variant' holds texts"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_refused((struct view_options){.where = bad[i], .where_count = 1}, bad[i][1]);
    check_refused((struct view_options){.sort = "medain"}, "no column 'medain' (did you mean 'median'?)");
    check_refused((struct view_options){.sort = "-"}, "no column ''; the columns are median, ci");
    check_refused((struct view_options){.columns = "variant,,median"}, "no column ''");
    static const char *const none[] = {"n=3"};
    check((struct view_options){.where = none, .where_count = 1}, 40, "no run matches --where\n");
    count = 0;
    check((struct view_options){0}, 80, "no runs\n");
}

static void test_lines_below(void **state) {
    two_operations();
    static const char *const variants[] = {"cublas", "async", "split", "naive"};
    for (int i = 0; i < 4; i++)
        snprintf(add("more", i < 2 ? "n=512" : "", variants[i], "skipped", 0)->message, 64, "no GPU here");
    snprintf(add("more", "n=1024", "cublas", "skipped", 0)->message, 64, "no GPU here");
    snprintf(add("last", "", "cpu", "skipped", 0)->message, 64, "its input 'more' has no result");
    snprintf(rows[0].flags, sizeof rows[0].flags, "throttled,new");
    snprintf(rows[1].flags, sizeof rows[1].flags, "throttled");
    for (int i = 4; i < 7; i++) snprintf(rows[i].message, 64, "no GPU here: on the CPU instead");
    snprintf(rows[2].message, 64, "[0, 0] is 3, should be 4, and that is too long for one line");
    check((struct view_options){0}, 60,
          "operation  parameters  variant           median  status\n"
          "product    n=512       naive           4.000 ms  ok\n"
          "product    n=512       tiled,tile=16   2.000 ms  ok\n"
          "product    n=512       tiled,tile=32             wrong\n"
          "    [0, 0] is 3, should be 4, and that is too long for one\n"
          "    line\n"
          "product    n=1024      naive                     failed\n"
          "product    n=1024      tiled,tile=16    1.500 s  unchecked\n"
          "product    n=1024      tiled,tile=32   1.000 ms  ok\n"
          "means                  cpu            999.99 us  ok\n"
          "omitted columns: ratio, flags\n"
          "skipped: more cublas, more async n=512 and 2 more (5 runs):\n"
          "no GPU here\n"
          "skipped: last cpu: its input 'more' has no result\n"
          "note: product tiled,tile=16 n=1024, product tiled,tile=32\n"
          "n=1024 and means cpu: no GPU here: on the CPU instead\n"
          "no ratio for product n=1024: its baseline, naive, has no\n"
          "time there; `show --baseline` sets another\n"
          "throttled (t): 2 runs: the GPU lowered its clock for heat or\n"
          "power; rates may be higher when it is cool\n"
          "new (?): 1 run: a flag of another version of tilerun\n");
    check((struct view_options){.columns = "flags,operation,status"}, 0,
          "!   operation  status\n"
          "t?  product    ok\n"
          "t   product    ok\n"
          "    product    wrong: [0, 0] is 3, should be 4, and that is too long for one line\n"
          "    product    failed\n"
          "    product    unchecked: no GPU here: on the CPU instead\n"
          "    product    ok: no GPU here: on the CPU instead\n"
          "    means      ok: no GPU here: on the CPU instead\n"
          "    more       skipped: no GPU here\n"
          "    more       skipped: no GPU here\n"
          "    more       skipped: no GPU here\n"
          "    more       skipped: no GPU here\n"
          "    more       skipped: no GPU here\n"
          "    last       skipped: its input 'more' has no result\n"
          "throttled (t): 2 runs: the GPU lowered its clock for heat or power; rates may be higher when "
          "it is cool\n"
          "new (?): 1 run: a flag of another version of tilerun\n");
}

/* ---- drawn ---- */

static unsigned long seed;

static int draw(int below) {
    seed = seed * 6364136223846793005UL + 1442695040888963407UL;
    return (int)(seed >> 33) % below;
}

static void draw_rows(void) {
    static const char *const statuses[] = {"ok", "ok", "unchecked", "wrong", "failed", "skipped", "interrupted"};
    static const char *const words[] = {
        "", "no GPU here", "a limit, not a matmul", "größer als der Speicher",
        "[0, 0] is 1.0000000000000002, should be 1; and /a/very/long/path/to/a/file.h5"};
    static const char *const flags[] = {"", "", "throttled", "outliers,drift", "unheard_of"};
    count = 0;
    for (int tasks = 1 + draw(6), t = 0; t < tasks; t++)
        for (int variants = 1 + draw(5), v = 0; v < variants; v++) {
            char operation[JOB_NAME_BYTES], parameters[JOB_LABEL_BYTES], variant[112];
            snprintf(operation, sizeof operation, "%.*s%d", draw(12), "operation-of-a-name", t / 2);
            snprintf(parameters, sizeof parameters, "n=%d,dtype=float%d", 1 << draw(12), 16 << draw(3));
            snprintf(variant, sizeof variant, "v%.*s,é=%d", draw(8) ? draw(10) : 80,
                     "ery-long-label-of-a-variant-with-many-parameters-that-nobody-would-write-but-a-machine", v);
            struct result_row *row =
                add(operation, draw(3) ? parameters : "", variant, statuses[draw(7)], draw(9) ? exp(draw(30) - 18) : 0);
            snprintf(row->message, sizeof row->message, "%s", words[draw(5)]);
            snprintf(row->flags, sizeof row->flags, "%s", flags[draw(5)]);
            row->gflops = draw(4) ? exp(draw(20) - 5) : NAN;
            row->kernel_ci_low_s = row->kernel_median_s * 0.99;
            row->kernel_ci_high_s = row->kernel_median_s * (1 + draw(3));
            row->total_s = draw(2) ? 1e-3 * draw(1000) : NAN;
            row->error = draw(2) ? 1e-7 : NAN;
            row->percent_of_bound = draw(2) ? (double)draw(120) : NAN;
        }
}

static void test_drawn(void **state) {
    const char *given = getenv("TILERUN_SEED"), *cases = getenv("TILERUN_CASES");
    unsigned long first = given ? strtoul(given, NULL, 10) : (unsigned long)time(NULL);
    printf("seed %lu\n", first);
    seed = first;
    for (int c = 0; c < (cases ? atoi(cases) : 200); c++) {
        draw_rows();
        struct results_view *view = view_of((struct view_options){.sort = draw(2) ? "-rate" : NULL});
        char *all = printed(view, 0);
        for (int width = 20; width <= 200; width += 1 + draw(20)) {
            char *text = printed(view, width), *rest = text;
            for (char *line; (line = strsep(&rest, "\n"));)
                if (text_width(line) > width) fail_msg("seed %lu: wider than %d: \"%s\"", first, width, line);
            free(text);
        }
        /* Every flag is explained, every message told. */
        for (int i = 0; i < count; i++)
            if (!strstr(all, rows[i].message)) fail_msg("seed %lu: \"%s\" is lost in\n%s", first, rows[i].message, all);
        if (strstr(all, "unheard_of")) assert_non_null(strstr(all, "a flag of another version"));
        free(all);
        all = printed(view, -1);
        for (char *line, *rest = all; (line = strsep(&rest, "\n"));)
            assert_true(!*line || *line == '|' || *line == '-');
        free(all);
        view_free(view);
    }
}

static int settle(void **state) {
    return setenv("LC_ALL", "C", 1); /* "+-" */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ratios),        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_long_headings), cmocka_unit_test(test_conditions_and_order),
        cmocka_unit_test(test_lines_below),   cmocka_unit_test(test_drawn),
    };
    return cmocka_run_group_tests_name("result_view", tests, settle, NULL);
}
