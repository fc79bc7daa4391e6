/* test_projection.c - sums of a matrix's lines, read in bands, beside plain loops. */
#include "../../runner/verify/projection.h"

#include "draws.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 600, STACK = 3 };

static double at[STACK][MOST * MOST]; /* the matrices of a stack, each [rows][columns] */
static int64_t size[2];               /* rows, columns */

static enum status read_box(void *context, int input, const struct box *box, void *data, struct error *error) {
    (void)context, (void)input, (void)error;
    double *to = data;
    for (int64_t b = 0; b < box->count[0]; b++)
        for (int64_t r = 0; r < box->count[1]; r++, to += box->count[2])
            memcpy(to, &at[box->start[0] + b][(box->start[1] + r) * size[1] + box->start[2]],
                   (size_t)box->count[2] * sizeof *to);
    return STATUS_OK;
}

static void assert_near(double value, double truth, double magnitude) {
    if (!(fabs(value - truth) <= 1e-13 * magnitude)) fail_msg("%.17g, not %.17g", value, truth);
}

/* Sums over one axis with so many blocks, by either way, of a drawn matrix of a stack. */
static void check(int axis, int blocks) {
    static double vectors[MOST * PROJECTION_BLOCKS], sizes[MOST], sums[2][MOST * PROJECTION_BLOCKS], most[2][MOST];
    const struct host_reader reader = {.read = read_box, .context = NULL};
    for (int i = 0; i < 2; i++) size[i] = 1 + draw_below(draw_below(4) ? 70 : MOST);
    const struct operand operand = {.dtype = FLOAT64, .shape = {3, {STACK, size[0], size[1]}}};
    const struct shape chunk = {3, {1, 1 + draw_below(40), 1 + draw_below(40)}};
    const double factor = draw() - 0.5;
    const int64_t b = draw_below(STACK), length = size[axis], lines = size[1 - axis];
    for (int64_t i = 0; i < size[0] * size[1]; i++)
        for (int m = 0; m < STACK; m++) at[m][i] = draw() - 0.5;
    for (int64_t i = 0; i < length * blocks; i++) vectors[i] = draw() - 0.5;
    for (int64_t i = 0; i < length; i++) sizes[i] = draw();
    memset(sums, 0, sizeof sums), memset(most, 0, sizeof most);
    struct weighing weighing = {axis, blocks, (length + blocks - 1) / blocks, vectors, sums[0], most[0]};
    struct multiplication multiplication = {axis, blocks, vectors, sizes, sums[1], most[1]};
    const struct visitor visitors[] = {visit_weighing(&weighing), visit_multiplication(&multiplication)};
    const struct matrix matrix = {.reader = &reader,
                                  .operand = &operand,
                                  .b = b,
                                  .scale = factor,
                                  .chunk = draw_below(2) ? chunk : (struct shape){.rank = 0},
                                  .size = {size[0], size[1]}};
    struct error error = {.status = STATUS_OK};
    assert_int_equal(matrix_visit(&matrix, visitors, 2, &error), STATUS_OK);
    for (int64_t line = 0; line < lines; line++) {
        double of_blocks[PROJECTION_BLOCKS] = {0}, of_vectors[PROJECTION_BLOCKS] = {0}, weighed = 0, magnitude = 0;
        for (int64_t i = 0; i < length; i++) {
            const double x = factor * at[b][axis == 0 ? i * size[1] + line : line * size[1] + i];
            of_blocks[i / weighing.block_length] += vectors[i] * x;
            weighed += fabs(vectors[i] * x), magnitude += sizes[i] * fabs(x);
            for (int block = 0; block < blocks; block++) of_vectors[block] += vectors[i * blocks + block] * x;
        }
        for (int block = 0; block < blocks; block++) {
            assert_near(sums[0][line * blocks + block], of_blocks[block], (double)length);
            assert_near(sums[1][line * blocks + block], of_vectors[block], (double)length);
        }
        assert_near(most[0][line], weighed, (double)length);
        assert_near(most[1][line], magnitude, (double)length);
    }
}

static void sums_are_those_of_plain_loops(void **state) {
    state_of_draws = 3;
    for (int round = 0; round < 20; round++)
        for (int blocks = 1; blocks <= PROJECTION_BLOCKS; blocks *= 2)
            for (int axis = 0; axis < 2; axis++) check(axis, blocks);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_plain_loops),
    };
    return cmocka_run_group_tests_name("projection", tests, NULL, NULL);
}
