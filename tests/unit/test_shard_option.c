/* test_shard_option.c - which shard a process is, by the words of a command line and the variables of a batch system.
 */
#include "../../runner/commands/shard_option.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static const struct option_row row = {.name = "shard"};

static void set_variables(const char *const variables[][2]) {
    static const char *const all[] = {"SLURM_ARRAY_TASK_ID",
                                      "SLURM_ARRAY_TASK_MIN",
                                      "SLURM_ARRAY_TASK_COUNT",
                                      "SLURM_ARRAY_TASK_STEP",
                                      "SLURM_PROCID",
                                      "SLURM_NTASKS",
                                      "OMPI_COMM_WORLD_RANK",
                                      "OMPI_COMM_WORLD_SIZE",
                                      "PMI_RANK",
                                      "PMI_SIZE"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) unsetenv(all[i]);
    for (int i = 0; variables && variables[i][0]; i++) setenv(variables[i][0], variables[i][1], 1);
}

/* Reads the text; `expected`: "1/3", or a part of the complaint. */
static void assert_shard(const char *text, const char *expected) {
    struct error error = {.status = STATUS_OK};
    struct shard shard = {.index = 77, .count = 88};
    char numbers[32];
    enum status status = option_shard(&row, text, &shard, &error);
    assert_int_equal(status, error.status);
    snprintf(numbers, sizeof numbers, "%d/%d", shard.index, shard.count);
    if (status == STATUS_OK ? strcmp(numbers, expected) != 0 : !strstr(error.text, expected))
        fail_msg("'%s' is '%s', not '%s'", text, status ? error.text : numbers, expected);
}

static void words(void **state) {
    static const char *const cases[][2] = {
        {"0/4", "0/4"},
        {"3/4", "3/4"},
        {"0/1", "0/1"},
        {"007/010", "7/10"},
        {"4/4", "--shard 4/4: shards are numbered from 0, so the last of 4 is"},
        {"0/0", "from 1 to"},
        {"0/999999999", "--shard 0/999999999: the number of shards must be from 1 to"},
        {"0/0000000003", "not '0/0000000003'"},
        {"-1/3", "--shard must be I/N, such as 0/4, or auto, not '-1/3'"},
        {"1/-3", "not '1/-3'"},
        {"1/", "not '1/'"},
        {"/3", "not '/3'"},
        {"1:3", "not '1:3'"},
        {"1/2/3", "not '1/2/3'"},
        {"1 /3", "not '1 /3'"},
        {"1", "not '1'"},
        {"", "not ''"},
        {"Auto", "not 'Auto'"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) assert_shard(cases[i][0], cases[i][1]);
}

static void batch_systems(void **state) {
    static const struct {
        const char *variables[8][2], *expected;
    } cases[] = {
        {{{"SLURM_ARRAY_TASK_ID", "3"}, {"SLURM_ARRAY_TASK_MIN", "2"}, {"SLURM_ARRAY_TASK_COUNT", "3"}}, "1/3"},
        {{{"SLURM_ARRAY_TASK_ID", "9"},
          {"SLURM_ARRAY_TASK_MIN", "5"},
          {"SLURM_ARRAY_TASK_COUNT", "3"},
          {"SLURM_ARRAY_TASK_STEP", "2"}},
         "2/3"},
        {{{"SLURM_ARRAY_TASK_ID", "6"},
          {"SLURM_ARRAY_TASK_MIN", "5"},
          {"SLURM_ARRAY_TASK_COUNT", "3"},
          {"SLURM_ARRAY_TASK_STEP", "0"}},
         "1/3"},
        /* An array of tasks with one rank each. */
        {{{"SLURM_ARRAY_TASK_ID", "1"},
          {"SLURM_ARRAY_TASK_MIN", "0"},
          {"SLURM_ARRAY_TASK_COUNT", "3"},
          {"SLURM_PROCID", "0"},
          {"SLURM_NTASKS", "1"}},
         "1/3"},
        /* What lacks a variable, or has none that is a number, is none. */
        {{{"SLURM_ARRAY_TASK_MIN", "0"}, {"SLURM_ARRAY_TASK_COUNT", "3"}}, "no batch system says"},
        {{{"SLURM_ARRAY_TASK_ID", "1"}, {"SLURM_ARRAY_TASK_COUNT", "3"}}, "no batch system says"},
        {{{"SLURM_ARRAY_TASK_ID", "1"}, {"SLURM_ARRAY_TASK_MIN", "0"}}, "no batch system says"},
        {{{"SLURM_ARRAY_TASK_ID", "1"}, {"SLURM_ARRAY_TASK_MIN", "0"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}},
         "1/4"},
        {{{"SLURM_ARRAY_TASK_ID", "x"},
          {"SLURM_ARRAY_TASK_MIN", "0"},
          {"SLURM_ARRAY_TASK_COUNT", "3"},
          {"PMI_RANK", "4"},
          {"PMI_SIZE", "5"}},
         "4/5"},
        {{{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "3"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, "2/3"},
        {{{"SLURM_PROCID", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "3"}}, "1/3"},
        {{{"SLURM_NTASKS", "2"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "7"}}, "1/7"},
        {{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}, "0/1"},
        {{{"PMI_RANK", "1"}, {"PMI_SIZE", "3 "}}, "no batch system says"},
        {{{"PMI_RANK", "-1"}, {"PMI_SIZE", "3"}}, "no batch system says"},
        {{{NULL}}, "--shard auto: no batch system says which shard this is; none of these sets is complete"},
        /* Numbers that are no shards. */
        {{{"SLURM_ARRAY_TASK_ID", "9"}, {"SLURM_ARRAY_TASK_MIN", "0"}, {"SLURM_ARRAY_TASK_COUNT", "3"}},
         "SLURM_ARRAY_TASK_ID makes this shard 9 of 3; shards are numbered without gaps, from 0"},
        {{{"SLURM_ARRAY_TASK_ID", "1"}, {"SLURM_ARRAY_TASK_MIN", "4"}, {"SLURM_ARRAY_TASK_COUNT", "3"}},
         "SLURM_ARRAY_TASK_ID makes this shard -1 of 3"},
        {{{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "3"}}, "SLURM_PROCID makes this shard 3 of 3"},
        {{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "0"}},
         "OMPI_COMM_WORLD_RANK makes this shard 1 of 0"},
        {{{"PMI_RANK", "0"}, {"PMI_SIZE", "999999999"}}, "PMI_RANK makes this shard 0 of 999999999"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set_variables(cases[i].variables);
        assert_shard("auto", cases[i].expected);
    }
    set_variables(NULL);
}

static void counts_and_waits(void **state) {
    struct error error = {.status = STATUS_OK};
    double seconds = -1;
    int count = -1;
    assert_int_equal(option_shard_count(&row, "8", &count, &error), STATUS_OK);
    assert_int_equal(count, 8);
    assert_int_equal(option_seconds(&row, "3600", &seconds, &error), STATUS_OK);
    assert_true(seconds == 3600);
    assert_int_equal(option_seconds(&row, "0", &seconds, &error), STATUS_OK);
    assert_true(seconds == 0);
    assert_int_equal(error.status, STATUS_OK);
    static const char *const bad[] = {"", "-1", "x", "8x", "1.5", "9999999999", NULL};
    for (int i = 0; bad[i]; i++) {
        char quoted[32];
        snprintf(quoted, sizeof quoted, "not '%s'", bad[i]);
        for (int what = 0; what < 2; what++) {
            error = (struct error){.status = STATUS_OK};
            enum status status = what ? option_seconds(&row, bad[i], &seconds, &error)
                                      : option_shard_count(&row, bad[i], &count, &error);
            assert_int_equal(status, STATUS_USAGE);
            assert_non_null(strstr(error.text, quoted));
        }
    }
    char most[32], more[32];
    snprintf(most, sizeof most, "%d", MAX_SHARDS);
    snprintf(more, sizeof more, "%d", MAX_SHARDS + 1);
    error = (struct error){.status = STATUS_OK};
    assert_int_equal(option_shard_count(&row, most, &count, &error), STATUS_OK);
    assert_int_equal(option_shard_count(&row, more, &count, &error), STATUS_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),
        cmocka_unit_test(batch_systems),
        cmocka_unit_test(counts_and_waits),
    };
    return cmocka_run_group_tests_name("shard_option", tests, NULL, NULL);
}
