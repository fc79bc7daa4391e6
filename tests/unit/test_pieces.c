/* test_pieces.c - pieces cover their box once, keep within the limit and meet the chunks of the file. */
#include "../../runner/storage/pieces.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* Every element of the box is in exactly one piece; returns the number of pieces. */
static int64_t check_cover(const struct box *box, const struct shape *chunk, int64_t shift, int64_t limit) {
    struct pieces pieces = pieces_cut(box, chunk, shift, limit);
    int64_t size[MAX_RANK] = {1, 1, 1}, total = box_elements(box);
    for (int axis = 0; axis < box->rank; axis++) size[axis] = box->count[axis];
    char *seen = calloc((size_t)total + 1, 1);
    for (int64_t number = 0; number < pieces.total; number++) {
        struct box piece = pieces_get(&pieces, number);
        int64_t count[MAX_RANK] = {1, 1, 1}, start[MAX_RANK] = {0};
        assert_true(box_elements(&piece) > 0 && box_elements(&piece) <= limit);
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
    free(seen);
    return pieces.total;
}

static const struct shape none = {0, {0}};

static void a_small_box_is_one_piece(void **state) {
    (void)state;
    struct box box = {2, {5, 7}, {10, 20}};
    assert_int_equal(check_cover(&box, &none, 0, 200), 1);
    assert_int_equal(check_cover(&box, &(struct shape){2, {4, 4}}, 0, 1000), 1);
}

static void pieces_are_whole_rows(void **state) {
    (void)state;
    struct box box = {2, {5, 7}, {10, 20}};
    struct pieces pieces = pieces_cut(&box, &none, 0, 65);
    assert_int_equal(pieces.total, 4);
    struct box last = pieces_get(&pieces, 3);
    assert_true(last.start[0] == 14 && last.count[0] == 1 && last.start[1] == 7 && last.count[1] == 20);
    assert_int_equal(check_cover(&box, &none, 0, 65), 4);
    assert_int_equal(check_cover(&box, &none, 0, 7), 30);
}

static void pieces_end_where_chunks_do(void **state) {
    (void)state;
    struct box box = {2, {5, 7}, {30, 40}};
    struct shape chunk = {2, {8, 16}};
    struct pieces pieces = pieces_cut(&box, &chunk, 3, 300); /* two chunks; row 5 of the box is row 8 of the file */
    for (int64_t number = 0; number < pieces.total; number++) {
        struct box piece = pieces_get(&pieces, number);
        int64_t row = piece.start[0] + piece.count[0] + 3, column = piece.start[1] + piece.count[1];
        assert_true(row % 8 == 0 || row == 38);
        assert_true(column % 16 == 0 || column == 47);
    }
    check_cover(&box, &chunk, 3, 300);
}

/* Then the limit counts, and chunks are opened more than once. */
static void a_chunk_beyond_the_limit_is_cut(void **state) {
    (void)state;
    struct box box = {2, {0, 0}, {30, 40}};
    assert_true(check_cover(&box, &(struct shape){2, {100, 100}}, 0, 64) >= 20);
}

static void any_box_is_covered(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (int round = 0; round < 2000; round++) {
        int64_t draw[8];
        for (int i = 0; i < 8; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            draw[i] = (int64_t)(seed >> 33);
        }
        struct box box = {1 + (int)(draw[0] % 3), {0}, {0}};
        struct shape chunk = {draw[1] % 2 ? box.rank : 0, {0}};
        for (int axis = 0; axis < box.rank; axis++) {
            box.start[axis] = draw[2 + axis] % 9;
            box.count[axis] = draw[2 + axis] / 9 % 17;
            chunk.size[axis] = 1 + draw[5 + axis] % 11;
        }
        check_cover(&box, &chunk, draw[6] % 5, 1 + draw[7] % 300);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_box_is_one_piece),   cmocka_unit_test(pieces_are_whole_rows),
        cmocka_unit_test(pieces_end_where_chunks_do), cmocka_unit_test(a_chunk_beyond_the_limit_is_cut),
        cmocka_unit_test(any_box_is_covered),
    };
    return cmocka_run_group_tests_name("pieces", tests, NULL, NULL);
}
