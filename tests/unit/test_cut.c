/* test_cut.c - the pieces of a box cover it once, in order; they keep within the limit and end where grains end. */
#include "../../kernels/core/cut.h"
#include "../../runner/storage/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* Checks that every element of the box is in exactly one piece; returns the number of pieces. */
static int64_t check_cover(const struct box *box, const struct grid *grid, int64_t limit) {
    struct cut cut = cut_box(box, grid, limit);
    int64_t size[OPERAND_RANK] = {1, 1, 1}, total = box_elements(box);
    for (int axis = 0; axis < box->rank; axis++) size[axis] = box->count[axis];
    char *seen = calloc((size_t)total + 1, 1);
    int64_t most = 0;
    for (int64_t number = 0; number < cut.pieces; number++) {
        struct box piece = cut_piece(&cut, number);
        int64_t count[OPERAND_RANK] = {1, 1, 1}, start[OPERAND_RANK] = {0};
        assert_true(box_elements(&piece) > 0);
        if (box_elements(&piece) > most) most = box_elements(&piece);
        if (!grid || !grid->keep_grains) assert_true(box_elements(&piece) <= limit);
        for (int axis = 0; axis < box->rank; axis++) {
            count[axis] = piece.count[axis];
            start[axis] = piece.start[axis] - box->start[axis];
        }
        for (int64_t i = 0; i < count[0]; i++)
            for (int64_t j = 0; j < count[1]; j++)
                for (int64_t k = 0; k < count[2]; k++)
                    assert_int_equal(seen[((start[0] + i) * size[1] + start[1] + j) * size[2] + start[2] + k]++, 0);
    }
    for (int64_t i = 0; i < total; i++) assert_int_equal(seen[i], 1);
    assert_true(most <= cut_max_elements(&cut) && cut_max_elements(&cut) <= total);
    if (!grid) assert_int_equal(cut_max_elements(&cut), most);
    free(seen);
    return cut.pieces;
}

static void a_small_box_is_one_piece(void **state) {
    struct box box = {2, {5, 7}, {10, 20}};
    assert_int_equal(check_cover(&box, NULL, 200), 1);
    assert_int_equal(check_cover(&box, &(struct grid){.grain = {2, {4, 4}}}, 1000), 1);
    assert_int_equal(check_cover(&(struct box){0}, NULL, 1), 1); /* a scalar */
    assert_int_equal(check_cover(&(struct box){2, {5, 7}, {10, 0}}, NULL, 1), 0);
}

static void pieces_are_whole_rows(void **state) {
    struct box box = {2, {5, 7}, {10, 20}};
    struct cut cut = cut_box(&box, NULL, 65);
    assert_int_equal(cut.pieces, 4);
    struct box last = cut_piece(&cut, 3);
    assert_true(last.start[0] == 14 && last.count[0] == 1 && last.start[1] == 7 && last.count[1] == 20);
    assert_int_equal(check_cover(&box, NULL, 65), 4);
    assert_int_equal(check_cover(&box, NULL, 7), 30);
}

static void pieces_end_where_grains_do(void **state) {
    struct box box = {2, {5, 7}, {30, 40}};
    struct grid grid = {.grain = {2, {8, 16}}, .shift = {3}}; /* row 5 of the box is row 8 of the array */
    struct cut cut = cut_box(&box, &grid, 300);               /* two grains */
    for (int64_t number = 0; number < cut.pieces; number++) {
        struct box piece = cut_piece(&cut, number);
        int64_t row = piece.start[0] + piece.count[0] + 3, column = piece.start[1] + piece.count[1];
        assert_true(row % 8 == 0 || row == 38);
        assert_true(column % 16 == 0 || column == 47);
    }
    check_cover(&box, &grid, 300);
}

/* If a grain exceeds the limit, either pieces keep to the limit and chunks are opened more than once, or a piece is a
 * whole grain and takes more memory. */
static void a_grain_beyond_the_limit(void **state) {
    struct box box = {2, {0, 0}, {30, 40}};
    struct grid grid = {.grain = {2, {100, 100}}};
    assert_true(check_cover(&box, &grid, 64) >= 20);
    grid.keep_grains = true;
    assert_int_equal(check_cover(&box, &grid, 64), 1);
    grid.grain = (struct shape){2, {8, 16}};
    assert_int_equal(check_cover(&box, &grid, 1), 4 * 3);
    struct cut cut = cut_box(&box, &grid, 1);
    struct box second = cut_piece(&cut, 1);
    assert_true(second.start[0] == 0 && second.count[0] == 8 && second.start[1] == 16 && second.count[1] == 16);
}

static void any_box_is_covered(void **state) {
    uint64_t seed = 1;
    for (int round = 0; round < 2000; round++) {
        int64_t draw[8];
        for (int i = 0; i < 8; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            draw[i] = (int64_t)(seed >> 33);
        }
        struct box box = {1 + (int)(draw[0] % 3), {0}, {0}};
        struct grid grid = {
            {draw[1] % 2 ? box.rank : 0, {0}}, {draw[6] % 5, draw[7] % 7, draw[6] % 3}, draw[1] / 2 % 2};
        for (int axis = 0; axis < box.rank; axis++) {
            box.start[axis] = draw[2 + axis] % 9;
            box.count[axis] = draw[2 + axis] / 9 % 17;
            grid.grain.size[axis] = 1 + draw[5 + axis] % 11;
        }
        check_cover(&box, &grid, 1 + draw[7] % 300);
    }
}

/* Of every step-th element along axes with chunks of 8. */
static void chunks_end_at_grains_of_a_view(void **state) {
    struct data_view view = view_of_all(&(struct shape){5, {100, 100, 100, 100, 100}});
    const int64_t steps[] = {1, 3, 4, 6, 9}, grains[] = {8, 8, 2, 4, 1};
    for (int axis = 0; axis < 5; axis++) view.step[axis] = steps[axis];
    struct shape grain = view_grain(&view, &(struct shape){5, {8, 8, 8, 8, 8}});
    for (int axis = 0; axis < 5; axis++) assert_int_equal(grain.size[axis], grains[axis]);
}

static void boxes_intersect(void **state) {
    struct box one = {2, {5, 7}, {10, 20}}, other = {2, {12, 0}, {10, 9}}, both;
    assert_true(box_intersect(&one, &other, &both));
    assert_true(box_equal(&both, &(struct box){2, {12, 7}, {3, 2}}));
    other.start[0] = 15; /* behind the last row */
    assert_false(box_intersect(&one, &other, &both));
    assert_true(box_intersect(&(struct box){0}, &(struct box){0}, &both)); /* scalars */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_box_is_one_piece),
        cmocka_unit_test(pieces_are_whole_rows),
        cmocka_unit_test(pieces_end_where_grains_do),
        cmocka_unit_test(a_grain_beyond_the_limit),
        cmocka_unit_test(any_box_is_covered),
        cmocka_unit_test(chunks_end_at_grains_of_a_view),
        cmocka_unit_test(boxes_intersect),
    };
    return cmocka_run_group_tests_name("cut", tests, NULL, NULL);
}
