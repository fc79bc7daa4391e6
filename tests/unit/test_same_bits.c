/* test_same_bits.c - when the parts of a run have the same bits as the whole: checks what the kernel says of its
 * launches, for every size that the parts, and the last tiles along the other loops, can have. */
#include "../../runner/plan/limits.h"
#include "../../runner/plan/same_bits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

/* A product of 100 x 44 with k 50, in tiles of 40 x 32 x 50. */
static struct geometry geometry;
static struct kernel kernel;
static struct run run;

static int set_up(void **state) {
    struct error error = {.status = STATUS_OK};
    struct op_options options = {.alpha = 1};
    const struct shape shapes[2] = {{2, {100, 50}}, {2, {50, 44}}};
    const enum dtype dtypes[2] = {FLOAT32, FLOAT32};
    kernel = (struct kernel){.name = "any", .op = OP_MATMUL, .divisible = true};
    run = (struct run){.kernel = &kernel, .tiling.tile = {1, 40, 32, 50}};
    return operations[OP_MATMUL]->geometry(&options, shapes, dtypes, &geometry, &error);
}

static bool agree(int64_t whole, int64_t part, int64_t rest, int multiprocessors) {
    const int64_t sizes[] = {whole, part, rest};
    return same_bits_at_sizes(&geometry, &run, &run.tiling, LOOP_M, sizes, 3, multiprocessors);
}

static uint64_t by_rows(const struct launch *launch) {
    return launch->args.matmul.m < 16;
}

static uint64_t by_rows_of_the_last_columns(const struct launch *launch) {
    return launch->args.matmul.n < 32 && launch->args.matmul.m < 16;
}

static uint64_t by_rows_of_other_columns(const struct launch *launch) {
    return launch->args.matmul.n == 32 && launch->args.matmul.m < 16;
}

static uint64_t by_multiprocessors(const struct launch *launch) {
    return launch->args.matmul.m < launch->multiprocessors;
}

static uint64_t by_choice(const struct launch *launch) {
    return launch->choice[1] == 3 && launch->args.matmul.m < 16;
}

static void sizes_are_asked_for(void **state) {
    assert_true(agree(40, 3, 1, 10)); /* any size has the same bits */
    kernel.way = by_rows;
    assert_true(agree(40, 16, 16, 10) && agree(40, 16, 0, 10) && agree(15, 15, 1, 10) && agree(40, 0, 0, 10));
    assert_false(agree(40, 15, 0, 10) || agree(40, 40, 15, 10) || agree(40, 0, 15, 10) || agree(15, 16, 0, 10));
    kernel.way = by_multiprocessors;
    assert_true(agree(40, 30, 20, 20) && agree(40, 30, 20, 41));
    assert_false(agree(40, 30, 20, 21) || agree(40, 30, 20, 40));
    kernel.way = by_choice;
    assert_true(agree(40, 15, 0, 10));
    run.choice[1] = 3;
    assert_false(agree(40, 15, 0, 10));
}

static void last_tiles_of_other_loops_too(void **state) {
    kernel.way = by_rows_of_the_last_columns;
    assert_false(agree(40, 15, 0, 10)); /* 44 = 32 + 12 */
    run.tiling.tile[LOOP_N] = 44;
    assert_true(agree(40, 15, 0, 10));
    run.tiling.tile[LOOP_N] = 22; /* all tiles are so narrow */
    assert_false(agree(40, 15, 0, 10));
    kernel.way = by_rows_of_other_columns;
    assert_true(agree(40, 15, 0, 10));
    run.tiling.tile[LOOP_N] = 32;
    assert_false(agree(40, 15, 0, 10));
    assert_true(agree(40, 16, 0, 10));
}

static void what_needs_no_question(void **state) {
    kernel.way = by_rows;
    kernel.divisible = false;
    assert_false(agree(40, 40, 0, 10));
    kernel.is_roof = true;
    assert_true(agree(40, 15, 0, 10));
    kernel.is_roof = false;
    run.skip = "why";
    assert_true(agree(40, 15, 0, 10));
    run.skip = NULL;
    run.kernel = NULL;
    assert_true(agree(40, 15, 0, 10));
    assert_true(same_bits_in_parts(&geometry, &run, LOOP_M, 7));
    run.kernel = &kernel;
    assert_false(same_bits_in_parts(&geometry, &run, LOOP_M, 7));
    run.skip = "why";
    assert_true(same_bits_in_parts(&geometry, &run, LOOP_M, 7));
}

static uint64_t never(const struct launch *launch) {
    fail_msg("asked about %lld x %lld x %lld", (long long)launch->args.matmul.m, (long long)launch->args.matmul.n,
             (long long)launch->args.matmul.k);
    return 0;
}

static double never_predicts(const struct launch *launch) {
    return (double)never(launch);
}

/* Kernels divide by dimensions: none is asked about an operation that has nothing to compute. */
static void kernels_are_not_asked_about_nothing(void **state) {
    struct error error = {.status = STATUS_OK};
    struct op_options options = {.alpha = 1};
    kernel.way = never;
    kernel.seconds = never_predicts;
    for (int empty = 0; empty < 3; empty++) {
        const int64_t m = empty == 0 ? 0 : 4, n = empty == 1 ? 0 : 4, k = empty == 2 ? 0 : 4;
        const struct shape shapes[2] = {{2, {m, k}}, {2, {k, n}}};
        const enum dtype dtypes[2] = {FLOAT32, FLOAT32};
        assert_int_equal(operations[OP_MATMUL]->geometry(&options, shapes, dtypes, &geometry, &error), STATUS_OK);
        const struct launch launch = {.kernel = &kernel};
        assert_true(predicted_seconds(&launch, &geometry) == 0);
        assert_true(agree(4, 2, 0, 10));
    }
}

static int wanted; /* a number of multiprocessors */

static uint64_t by_rows_there(const struct launch *launch) {
    return launch->multiprocessors == wanted && launch->args.matmul.m < 16;
}

/* Parts of 100 rows in tiles of 40, each as if it were the whole: its tiles, and what is left at its end. */
static void parts_have_sizes_of_their_own(void **state) {
    kernel.way = by_rows;
    assert_true(same_bits_in_parts(&geometry, &run, LOOP_M, 1));  /* 40 and 20 */
    assert_false(same_bits_in_parts(&geometry, &run, LOOP_M, 2)); /* 50: 40 and 10 */
    assert_true(same_bits_in_parts(&geometry, &run, LOOP_M, 3));  /* 33 and 34 */
    assert_true(same_bits_in_parts(&geometry, &run, LOOP_M, 6));  /* 16 and 17 */
    assert_false(same_bits_in_parts(&geometry, &run, LOOP_M, 7)); /* 14 and 15 */
    run.tiling.tile[LOOP_M] = 45;                                 /* the whole leaves 10 */
    assert_false(same_bits_in_parts(&geometry, &run, LOOP_M, 3));
    run.tiling.tile[LOOP_M] = 32; /* 96 and 4; 33: 32 and 1 */
    assert_false(same_bits_in_parts(&geometry, &run, LOOP_M, 3));
    run.tiling.tile[LOOP_M] = 25;
    assert_false(same_bits_in_parts(&geometry, &run, LOOP_M, 4)); /* 26: 25 and 1 */
    run.tiling.tile[LOOP_M] = 40;
    kernel.way = by_rows_there;
    for (int i = 0, common[] = {108, 114, 132, 148}; i < 4; i++) { /* A100, H100, H200, B200 */
        wanted = common[i];
        assert_false(same_bits_in_parts(&geometry, &run, LOOP_M, 7));
        assert_true(same_bits_in_parts(&geometry, &run, LOOP_M, 6));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(sizes_are_asked_for, set_up),
        cmocka_unit_test_setup(last_tiles_of_other_loops_too, set_up),
        cmocka_unit_test_setup(what_needs_no_question, set_up),
        cmocka_unit_test_setup(kernels_are_not_asked_about_nothing, set_up),
        cmocka_unit_test_setup(parts_have_sizes_of_their_own, set_up),
    };
    return cmocka_run_group_tests_name("ways", tests, NULL, NULL);
}
