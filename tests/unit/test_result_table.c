/* test_result_table.c - rows as table, CSV and JSON, and the provenance beside them. */
#include "../../runner/base/clock.h"
#include "../../runner/base/hash.h"
#include "../../runner/compile/sources.h"
#include "../../runner/record/environment.h"
#include "../../runner/record/swept.h"
#include "../../runner/show/result_view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *printed(void (*print)(const struct result_row *, int, FILE *), const struct result_row *rows, int count) {
    char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    print(rows, count, to);
    fclose(to);
    return text;
}

static void test_printing(void **state) {
    struct result_row rows[3];
    memset(rows, 0, sizeof rows);
    for (int i = 0; i < 3; i++) {
        strcpy(rows[i].operation, "double");
        strcpy(rows[i].op, "scale");
        strcpy(rows[i].parameters, "n=4");
        snprintf(rows[i].variant, sizeof rows[i].variant, "%s", i ? "blocked" : "simple");
        rows[i].kernel_median_s = rows[i].gbytes_per_s = rows[i].error = NAN;
        rows[i].kernel_ci_low_s = rows[i].kernel_ci_high_s = rows[i].percent_of_bound = rows[i].total_s = NAN;
    }
    for (int i = 0; i < 2; i++) {
        snprintf(rows[i].status, sizeof rows[i].status, "%s", i ? "unchecked" : "ok");
        strcpy(rows[i].shape, "300x400");
        rows[i].kernel_median_s = i ? 1e-5 : 2e-5;
        rows[i].gbytes_per_s = i ? 96 : 48;
        rows[i].error = 0;
    }
    strcpy(rows[2].status, "failed");
    snprintf(rows[2].message, sizeof rows[2].message, "said \"no\", é\xe2\x80\xae!\xff\n");
    memset(rows[2].shape, 'x', sizeof rows[2].shape - 2); /* the text ends in half a character */
    rows[2].shape[sizeof rows[2].shape - 2] = '\xC3';

    char *table = printed(result_print_table, rows, 2);
    assert_string_equal(table,
                        "operation  parameters  variant  shape      median       rate  x simple    error  status\n"
                        "double     n=4         simple   300x400  20.00 us  48.0 GB/s     1.00x  0.0e+00  ok\n"
                        "double     n=4         blocked  300x400  10.00 us  96.0 GB/s     2.00x  0.0e+00  unchecked\n");
    free(table);
    char *csv = printed(result_print_csv, rows, 3);
    assert_int_equal(strncmp(csv, "run,operation,op,variant,", 25), 0);
    assert_non_null(strstr(csv, ",\"said \"\"no\"\", é?!?\n\"\n"));
    free(csv);
    char *json = printed(result_print_json, rows, 3);
    assert_non_null(strstr(json, "\"message\": \"said \\\"no\\\", é\\u202e!\ufffd\\u000a\"}\n]\n"));
    assert_non_null(strstr(json, "\"kernel_median_s\": 2e-05"));
    assert_non_null(strstr(json, "xx\", \"status\": \"failed\", \"repeats\": 0, \"kernel_median_s\": null"));
    free(json);
    json = printed(result_print_json, rows, 0);
    assert_string_equal(json, "[]\n");
    free(json);
}

static void test_swept(void **state) {
    static const char *const labels[] = {"n=512,dtype=float32,a=0.5", "", "n=9223372036854775808,dtype=int8,a=1",
                                         "a=2"};
    struct result_row rows[4];
    memset(rows, 0, sizeof rows);
    for (int i = 0; i < 4; i++) snprintf(rows[i].parameters, sizeof rows[i].parameters, "%s", labels[i]);
    struct swept swept = swept_of(rows, 4);
    assert_int_equal(swept.count, 3);
    const struct swept_column *n = &swept.columns[0], *dtype = &swept.columns[1], *a = &swept.columns[2];
    assert_true(!strcmp(n->name, "n") && n->kind == SWEPT_REAL && n->number[0] == 512 && isnan(n->number[1]));
    assert_true(!strcmp(dtype->text[2], "int8") && dtype->kind == SWEPT_TEXT && isnan(dtype->number[0]));
    assert_true(a->kind == SWEPT_REAL && a->number[0] == 0.5 && a->number[3] == 2 && !a->text[1][0]);
    swept_free(&swept);
    swept = swept_of(rows, 1);
    assert_int_equal(swept.columns[0].kind, SWEPT_INTEGER);
    swept_free(&swept);
    strcpy(rows[1].parameters, "n=-9007199254740993");
    swept = swept_of(rows, 2);
    assert_int_equal(swept.columns[0].kind, SWEPT_INTEGER);
    swept_free(&swept);
    char *csv = printed(result_print_csv, rows, 2), *json = printed(result_print_json, rows, 2);
    assert_non_null(strstr(csv, ",variant,parameters,p_n,p_dtype,p_a,device,"));
    assert_non_null(strstr(csv, ",\"n=512,dtype=float32,a=0.5\",512,float32,0.5,"));
    assert_non_null(strstr(csv, ",n=-9007199254740993,-9007199254740993,,,"));
    assert_non_null(strstr(json, "\"p_n\": 512, \"p_dtype\": \"float32\", \"p_a\": 0.5, "));
    assert_non_null(strstr(json, "\"p_n\": -9007199254740993, \"p_dtype\": null, \"p_a\": null, "));
    free(json);
    free(csv);
    rows[1].parameters[0] = '\0';
    swept = swept_of(rows, 0);
    assert_int_equal(swept.count, 0);
    swept_free(&swept);
}

static void test_environment(void **state) {
    char hex[65], now[TIME_TEXT];
    sha256_hex("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_int_equal(strlen(time_text(now)), 20);
    struct device_facts facts = {.kind = DEVICE_CPU};
    struct environment environment;
    setenv("SLURM_JOB_ID", "4711", 1);
    environment_collect(&facts, NULL, &environment);
    bool found = false;
    for (int i = 0; i < environment.count; i++)
        if (strcmp(environment.entries[i].name, "slurm_job_id") == 0)
            found = strcmp(environment.entries[i].text, "4711") == 0;
    assert_true(found);
    environment_free(&environment);
    assert_int_equal(environment.count, 0);
    environment_free(&environment); /* once more does no harm */
}

/* Not the width of the terminal that the test is started from. */
static int forget_terminal(void **state) {
    return setenv("COLUMNS", "1000", 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_printing),
        cmocka_unit_test(test_swept),
        cmocka_unit_test(test_environment),
    };
    return cmocka_run_group_tests_name("result_table", tests, forget_terminal, NULL);
}
