/* test_axes.c - boxes of merged axes are taken apart into boxes of the array's axes: the same elements in the same
 * order, and no more boxes than are needed. */
#include "../../kernels/core/axes.h"
#include "draws.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 1 << 16 };

struct taken {
    int64_t count, boxes, place[MOST]; /* of each element in the axes, row by row */
    int64_t fail_at;                   /* 0: none */
    const struct axes *axes;
};

/* Appends the elements of a box. */
static enum status take(void *context, const struct box *box, struct error *error) {
    struct taken *taken = context;
    int64_t at[MAX_RANK] = {0};
    (void)error;
    if (++taken->boxes == taken->fail_at) return STATUS_IO;
    assert_int_equal(box->rank, taken->axes->rank);
    for (int64_t e = 0, elements = box_elements(box); e < elements; e++) {
        int64_t place = 0;
        for (int axis = 0; axis < box->rank; axis++) {
            assert_true(box->start[axis] + at[axis] < taken->axes->size[axis]);
            place = place * taken->axes->size[axis] + box->start[axis] + at[axis];
        }
        taken->place[taken->count++] = place;
        for (int axis = box->rank - 1; axis >= 0 && ++at[axis] == box->count[axis]; axis--) at[axis] = 0;
    }
    return STATUS_OK;
}

/* An operand of one to three merged axes; what lies behind them must not matter. */
static void draw_operand(struct operand *operand, struct box *box) {
    memset(box, 0x11, sizeof *box);
    *operand = (struct operand){.dtype = FLOAT32};
    struct axes *axes = &operand->axes;
    int groups = 1 + draw_below(OPERAND_RANK);
    box->rank = groups;
    for (int group = 0; group < groups; group++) {
        int members = draw_below(4);
        if (axes->rank + members > MAX_RANK) members = 0;
        axes_begin(axes);
        for (int i = 0; i < members; i++) axes_append(axes, 1 + draw_below(4), axes->rank);
    }
    operand->shape = axes_merged_shape(axes);
    for (int group = 0; group < groups; group++) {
        int64_t size = operand->shape.size[group];
        box->start[group] = draw_below(2) ? 0 : draw_below((int)size);
        box->count[group] = draw_below(2) ? size - box->start[group] : draw_below((int)(size - box->start[group]) + 1);
    }
}

/* The least number of boxes of a range of merged axes: one if the box around it has no other elements. */
static bool is_box(const int64_t *size, int members, int64_t start, int64_t count) {
    int64_t volume = 1;
    for (int axis = members - 1, step = 1; axis >= 0; step *= (int)size[axis--]) {
        int64_t first = INT64_MAX, last = -1;
        for (int64_t e = start; e < start + count; e++) {
            int64_t at = e / step % size[axis];
            if (at < first) first = at;
            if (at > last) last = at;
        }
        volume *= last - first + 1;
    }
    return volume == count;
}

/* How many boxes there may be of the groups from `group` on, whose first axis is `axis`. */
static int64_t most_boxes(const struct axes *axes, const struct box *box, int group, int axis) {
    if (group == axes->groups) return 1;
    int64_t rest = most_boxes(axes, box, group + 1, axis + axes->group[group]);
    if (rest > 1) return box->count[group] * rest;
    if (is_box(axes->size + axis, axes->group[group], box->start[group], box->count[group])) return 1;
    return 2 * axes->group[group] - 1;
}

static void boxes_have_all_elements_in_order(void **state) {
    static struct taken taken;
    state_of_draws = 1;
    for (int trial = 0; trial < 20000; trial++) {
        struct operand operand;
        struct box box;
        struct error error = {.status = STATUS_OK};
        draw_operand(&operand, &box);
        taken = (struct taken){.axes = &operand.axes};
        assert_int_equal(operand_boxes(&operand, &box, take, &taken, &error), STATUS_OK);
        assert_int_equal(taken.count, box_elements(&box));
        for (int64_t e = 0; e < taken.count; e++) {
            int64_t place = 0, scale = 1, rest = e;
            for (int group = box.rank - 1; group >= 0; group--) {
                place += (box.start[group] + rest % box.count[group]) * scale;
                scale *= operand.shape.size[group];
                rest /= box.count[group];
            }
            assert_int_equal(taken.place[e], place);
        }
        int64_t most = taken.count > 0 ? most_boxes(&operand.axes, &box, 0, 0) : 0;
        if (taken.boxes > most)
            fail_msg("trial %d: %lld boxes, not %lld", trial, (long long)taken.boxes, (long long)most);
        if (taken.boxes == 0) continue;
        int64_t fail_at = 1 + draw_below((int)taken.boxes);
        taken = (struct taken){.axes = &operand.axes, .fail_at = fail_at};
        assert_int_equal(operand_boxes(&operand, &box, take, &taken, &error), STATUS_IO);
        assert_int_equal(taken.boxes, fail_at);
    }
}

static void plain_axes_are_one_box(void **state) {
    static struct taken taken;
    struct error error = {.status = STATUS_OK};
    struct operand operand = {.shape = {2, {4, 5}}};
    struct axes seen = {.rank = 2, .size = {4, 5}};
    struct box box = {2, {1, 2}, {3, 2}};
    taken = (struct taken){.axes = &seen};
    assert_int_equal(operand_boxes(&operand, &box, take, &taken, &error), STATUS_OK);
    assert_true(taken.boxes == 1 && taken.count == 6 && taken.place[0] == 7 && taken.place[5] == 18);
}

static struct geometry geometry_of(enum op op, struct shape first, struct shape second) {
    const struct shape shapes[2] = {first, second};
    const enum dtype dtypes[2] = {FLOAT32, FLOAT32};
    struct op_options options = {.alpha = 1};
    struct geometry geometry;
    struct error error = {.status = STATUS_OK};
    if (geometry_make(op, &options, shapes, dtypes, &geometry, &error)) fail_msg("%s", error.text);
    return geometry;
}

/* What an operation can take as it is stays so; what lies behind its last input must not matter. */
static void axes_are_merged_where_they_must_be(void **state) {
    static const struct {
        enum op op;
        struct shape first, second, result;
        bool plain;
    } cases[] = {
        {OP_MATMUL, {2, {4, 5}}, {2, {5, 6}}, {2, {4, 6}}, true},
        {OP_MATMUL, {2, {1, 5}}, {3, {7, 5, 6}}, {3, {7, 1, 6}}, true},
        {OP_MATMUL, {3, {7, 4, 1}}, {2, {1, 6}}, {3, {7, 4, 6}}, true},
        {OP_MATMUL, {3, {7, 4, 5}}, {3, {7, 5, 6}}, {3, {7, 4, 6}}, true},
        {OP_MATMUL, {3, {1, 4, 5}}, {3, {1, 5, 6}}, {3, {1, 4, 6}}, true},
        {OP_MATMUL, {3, {1, 4, 5}}, {3, {7, 5, 6}}, {3, {7, 4, 6}}, false}, /* one matrix for all */
        {OP_MATMUL, {3, {7, 4, 5}}, {3, {1, 5, 6}}, {3, {7, 4, 6}}, false},
        {OP_MATMUL, {4, {2, 3, 4, 5}}, {4, {2, 3, 5, 6}}, {3, {6, 4, 6}}, false},
        {OP_MATMUL, {2, {4, 5}}, {4, {2, 3, 5, 6}}, {3, {6, 4, 6}}, false},
        {OP_TRANSPOSE, {3, {1, 4, 5}}, {3, {2, 5, 6}}, {3, {1, 5, 4}}, true},
        {OP_TRANSPOSE, {3, {2, 4, 5}}, {5, {1, 1, 1, 1, 1}}, {3, {2, 5, 4}}, true},
        {OP_SCALE, {4, {2, 3, 4, 5}}, {0}, {0}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct geometry geometry = geometry_of(cases[i].op, cases[i].first, cases[i].second);
        bool plain = operand_is_plain(&geometry.out);
        for (int input = 0; input < geometry.inputs; input++) plain = plain && operand_is_plain(&geometry.in[input]);
        if (plain != cases[i].plain) fail_msg("case %zu", i);
        if (cases[i].result.rank == 0) continue;
        assert_int_equal(geometry.out.shape.rank, cases[i].result.rank);
        for (int axis = 0; axis < geometry.out.shape.rank; axis++)
            assert_int_equal(geometry.out.shape.size[axis], cases[i].result.size[axis]);
    }
}

/* `axis: all` is the list of all axes, whatever the rank; any list gives what its axes leave. */
static void axes_that_are_reduced(void **state) {
    for (int rank = 1; rank <= MAX_RANK; rank++)
        for (unsigned gone = 1; gone < 1u << rank; gone++) {
            struct shape shape = {.rank = rank};
            struct op_options named = {.reduce = REDUCE_SUM}, all = {.reduce = REDUCE_SUM, .axis = REDUCE_ALL_AXES};
            int64_t outputs = 1;
            for (int axis = 0; axis < rank; axis++) {
                shape.size[axis] = axis + 2;
                if (gone >> axis & 1)
                    named.axes[named.axis_count++] = axis % 2 ? axis - rank : axis;
                else
                    outputs *= axis + 2;
            }
            struct shape shapes[MAX_INPUTS] = {shape, shape};
            enum dtype dtypes[MAX_INPUTS] = {FLOAT32, FLOAT32};
            struct geometry some, whole;
            struct error error = {.status = STATUS_OK};
            assert_int_equal(geometry_make(OP_REDUCE, &named, shapes, dtypes, &some, &error), STATUS_OK);
            assert_int_equal(geometry_make(OP_REDUCE, &all, shapes, dtypes, &whole, &error), STATUS_OK);
            assert_int_equal(shape_elements(&some.out.shape), outputs);
            assert_int_equal(shape_elements(&whole.out.shape), 1);
        }
}

/* Is one box of both the same elements? */
static void what_is_alike(void **state) {
    const struct operand plain = {.shape = {2, {4, 6, 7}}}, same = {.shape = {2, {4, 6, 8}}},
                         longer = {.shape = {2, {2, 12}}}, flat = {.shape = {1, {4, 6}}};
    assert_true(operands_alike(&plain, &same));
    assert_false(operands_alike(&plain, &longer) || operands_alike(&plain, &flat));
    struct operand straight = {.shape = {2, {6, 4}}, .axes = {.rank = 3, .array_axis = {0, 1, 2}, .size = {2, 3, 4}}};
    struct operand turned = {.shape = {2, {6, 4}}, .axes = {.rank = 3, .array_axis = {1, 0, 2}, .size = {2, 3, 4}}};
    assert_true(operands_alike(&straight, &straight) && operands_alike(&turned, &turned));
    assert_false(operands_alike(&straight, &turned) || operands_alike(&turned, &straight));
    /* Merged in their order they are like any other of that shape; turned ones are only like those of their axes. */
    const struct operand whole = {.shape = {2, {6, 4}}},
                         other = {.shape = {2, {6, 4}},
                                  .axes = {.rank = 3, .array_axis = {0, 1, 2}, .size = {3, 2, 4}}},
                         swapped = {.shape = {2, {6, 4}},
                                    .axes = {.rank = 3, .array_axis = {1, 0, 2}, .size = {3, 2, 4}}},
                         divided = {.shape = {2, {2, 12}}, .axes = turned.axes};
    assert_true(operands_alike(&straight, &other) && operands_alike(&other, &straight));
    assert_true(operands_alike(&straight, &whole) && operands_alike(&whole, &straight));
    assert_false(operands_alike(&turned, &whole) || operands_alike(&whole, &turned));
    assert_false(operands_alike(&turned, &swapped) || operands_alike(&swapped, &turned));
    assert_false(operands_alike(&turned, &divided) || operands_alike(&divided, &turned));
}

/* Of the array that an operand is made of, the axes that it does not have are 1 long. */
static void arrays_have_all_axes(void **state) {
    const struct operand plain = {.shape = {2, {4, 5}}};
    struct shape shape = operand_array(&plain);
    assert_true(shape.rank == 2 && shape.size[0] == 4 && shape.size[1] == 5);
    for (unsigned has = 1; has < 1u << MAX_RANK; has++) {
        struct operand operand = {.dtype = FLOAT32};
        axes_begin(&operand.axes);
        for (int axis = MAX_RANK - 1; axis >= 0; axis--) /* the last first */
            if (has >> axis & 1) axes_append(&operand.axes, axis + 2, axis);
        shape = operand_array(&operand);
        assert_true(has >> shape.rank == 0 && has >> (shape.rank - 1) == 1);
        for (int axis = 0; axis < shape.rank; axis++)
            assert_int_equal(shape.size[axis], has >> axis & 1 ? axis + 2 : 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_have_all_elements_in_order),
        cmocka_unit_test(plain_axes_are_one_box),
        cmocka_unit_test(axes_are_merged_where_they_must_be),
        cmocka_unit_test(axes_that_are_reduced),
        cmocka_unit_test(what_is_alike),
        cmocka_unit_test(arrays_have_all_axes),
    };
    return cmocka_run_group_tests_name("axes", tests, NULL, NULL);
}
