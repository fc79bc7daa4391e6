/* test_view.c - which axis of a data set is seen as which, and what is read for what is seen. */
#include "../../runner/storage/view.h"
#include "draws.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* A view of a data set of up to 8 axes, each with a step, some of them dropped; `seen`: the shape that is seen. */
static struct data_view draw_view(struct shape *seen) {
    struct shape source = {.rank = 1 + draw_below(MAX_RANK)};
    for (int of = 0; of < source.rank; of++) source.size[of] = 1 + draw_below(40);
    struct data_view view = view_of_all(&source);
    *seen = (struct shape){0};
    for (int of = 0; of < source.rank; of++) {
        view.first[of] = draw_below((int)source.size[of]);
        view.dropped[of] = draw_below(3) == 0;
        if (view.dropped[of]) continue;
        view.step[of] = draw_below(2) ? 1 : 1 + draw_below(9);
        int64_t most = (source.size[of] - view.first[of] + view.step[of] - 1) / view.step[of];
        seen->size[seen->rank++] = 1 + draw_below((int)most);
    }
    return view;
}

static void axes_are_counted_without_the_dropped_ones(void **state) {
    state_of_draws = 1;
    for (int trial = 0; trial < 2000; trial++) {
        struct shape seen;
        struct data_view view = draw_view(&seen), before = view;
        int axis = 0;
        for (int of = 0; of < view.source.rank; of++) {
            if (view.dropped[of]) continue;
            assert_int_equal(view_axis(&view, axis), of);
            view_begin(&view, axis++, 3);
            assert_int_equal(view.first[of], before.first[of] + 3 * before.step[of]);
            view.first[of] = before.first[of];
            assert_memory_equal(&view, &before, sizeof view); /* and nothing else */
        }
        assert_int_equal(axis, seen.rank);
        assert_int_equal(view_axis(&view, axis), view.source.rank); /* there are no more */
    }
    const struct data_view all = {.source = {.rank = 0}};
    for (int axis = 0; axis < MAX_RANK; axis++) assert_int_equal(view_axis(&all, axis), axis);
}

static void what_is_read_beside_what_is_seen(void **state) {
    static const struct {
        int64_t size, chunk, step, seen; /* of one axis; chunk 0: contiguous */
        double excess;
    } cases[] = {
        {16, 4, 1, 16, 1},  /* all */
        {16, 4, 4, 4, 4},   /* an element of each chunk */
        {16, 4, 8, 2, 4},   /* of every other chunk */
        {16, 4, 2, 8, 2},   /* two of each */
        {64, 4, 1, 8, 1.5}, /* a part: 8 elements lie in two chunks or three, 12 elements in the mean */
        {64, 4, 1, 4, 2},   {64, 4, 16, 1, 4}, {64, 64, 1, 1, 64}, {16, 0, 1, 16, 1}, {16, 0, 5, 3, 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int other = 0; other < 3; other++) { /* another axis: none, one seen as it is, one that is dropped */
            int rank = other ? 2 : 1, at = rank - 1;
            struct shape source = {.rank = rank, .size = {[0] = 10}}, seen = source,
                         chunk = {.rank = rank, .size = {10}};
            source.size[at] = cases[i].size;
            chunk.size[at] = cases[i].chunk;
            struct data_view view = view_of_all(&source);
            view.step[at] = cases[i].step;
            view.dropped[0] = other == 2;
            if (other == 2) seen.rank = 1;
            seen.size[seen.rank - 1] = cases[i].seen;
            if (cases[i].chunk == 0) chunk.rank = 0;
            double wanted = cases[i].excess * (other == 2 && cases[i].chunk ? 10 : 1);
            assert_float_equal(view_excess(&view, &seen, &chunk), wanted, 1e-9);
        }
}

/* Of chunks at least what is seen is read, and at most all. */
static void what_is_read_is_at_most_all(void **state) {
    state_of_draws = 2;
    for (int trial = 0; trial < 2000; trial++) {
        struct shape seen;
        struct data_view view = draw_view(&seen);
        struct shape chunk = {.rank = view.source.rank};
        for (int of = 0; of < chunk.rank; of++) chunk.size[of] = 1 + draw_below((int)view.source.size[of]);
        double excess = view_excess(&view, &seen, &chunk), all = 1;
        for (int of = 0; of < view.source.rank; of++) all *= (double)view.source.size[of];
        for (int axis = 0; axis < seen.rank; axis++) all /= (double)seen.size[axis];
        assert_true(excess >= 1 && excess <= all * (1 + 1e-9));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axes_are_counted_without_the_dropped_ones),
        cmocka_unit_test(what_is_read_beside_what_is_seen),
        cmocka_unit_test(what_is_read_is_at_most_all),
    };
    return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}
