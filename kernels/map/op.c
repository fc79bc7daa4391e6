/* map/op.c - the operation map: an expression of the elements of arrays, which are broadcast as in NumPy. */
#include "../core/reference.h"

#include "../core/axes.h"
#include "program.h"
#include "reference_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* operation->geometry. The shapes come from `merge`, or are all equal. An axis of an input that has size 1, though the
 * result's has not, gets LOOP_K, which the result does not use. */
static enum status map_geometry(const struct op_options *options, const struct shape shapes[],
                                const enum dtype dtypes[], struct geometry *geometry, struct error *error) {
    static const enum loop along[OPERAND_RANK] = {LOOP_B, LOOP_M, LOOP_N};
    const struct map *map = options->map;
    if (!map) return fail(error, STATUS_USAGE, "a map needs an expression");
    struct map_program *program = malloc(sizeof *program);
    if (!program) return fail(error, STATUS_RUN, "no host memory left to compile the map");
    enum status status = map_program(map, dtypes, program, error);
    int type = program->type, functions = 0;
    free(program);
    if (status != STATUS_OK) return status;
    *geometry = (struct geometry){.op = OP_MAP, .options = *options, .extent = {1, 1, 1, 1}, .inputs = map->inputs};
    struct operand *out = &geometry->out;
    *out = (struct operand){.dtype = map_stored(type)};
    for (int i = 0; i < map->inputs; i++)
        if (shapes[i].rank > out->shape.rank) out->shape = shapes[i];
    int rank = out->shape.rank;
    for (int i = 0; i < map->inputs; i++)
        for (int axis = 0; axis < shapes[i].rank; axis++)
            if (out->shape.size[axis] == 1) out->shape.size[axis] = shapes[i].size[axis];
    for (int axis = 0; axis < rank; axis++) {
        out->loop[axis] = along[OPERAND_RANK - rank + axis];
        geometry->extent[out->loop[axis]] = out->shape.size[axis];
    }
    double elements = (double)shape_elements(&out->shape);
    geometry->bytes = elements * (double)dtype_size(out->dtype);
    for (int i = 0; i < map->inputs; i++) {
        struct operand *in = &geometry->in[i];
        *in = (struct operand){.dtype = dtypes[i], .shape = shapes[i]};
        for (int axis = 0; axis < in->shape.rank; axis++)
            in->loop[axis] = in->shape.size[axis] == out->shape.size[axis] ? out->loop[axis] : LOOP_K;
        geometry->bytes += (double)shape_elements(&in->shape) * (double)dtype_size(in->dtype);
    }
    for (int i = 0; i < map->count; i++) functions += map->nodes[i].function > MAP_CONSTANT;
    geometry->flops = elements * functions;
    shape_format(&out->shape, geometry->shape_text);
    return STATUS_OK;
}

void map_axes(const struct operand *result, struct map_axis axes[KERNEL_AXES]) {
    const struct axes *merged = &result->axes;
    int before = OPERAND_RANK - result->shape.rank;
    if (operand_is_plain(result)) {
        for (int axis = 0; axis < result->shape.rank; axis++)
            axes[axis] = (struct map_axis){before + axis, 1, result->shape.size[axis], merged->first[axis]};
        return;
    }
    for (int group = 0, first = 0; group < merged->groups; first += merged->group[group++]) {
        int64_t inner = 1;
        for (int axis = first + merged->group[group] - 1; axis >= first; axis--) {
            if (merged->array_axis[axis] >= 0) /* the operation may have put its axes into another order */
                axes[merged->array_axis[axis]] = (struct map_axis){before + group, inner, merged->size[axis],
                                                                   merged->first[merged->array_axis[axis]]};
            inner *= merged->size[axis];
        }
    }
}

/* ---- broadcasting ------------------------------------------------------------------------------------------------ */

/* The arrays to broadcast, with their axes aligned at the last one. */
struct broadcast {
    int rank;
    int64_t size[MAX_RANK];
    unsigned has[MAX_RANK]; /* the inputs that have more than one element along the axis */
};

/* Finds the shape of the result, and which inputs have each of its axes. */
static enum status broadcast_shapes(const struct map *map, const struct shape shapes[], struct broadcast *all,
                                    struct error *error) {
    char text[SHAPE_TEXT], others[SHAPE_TEXT];
    *all = (struct broadcast){0};
    for (int i = 0; i < map->inputs; i++)
        if (shapes[i].rank > all->rank) all->rank = shapes[i].rank;
    for (int axis = 0; axis < all->rank; axis++) all->size[axis] = 1;
    for (int i = 0; i < map->inputs; i++)
        for (int input_axis = 0; input_axis < shapes[i].rank; input_axis++) {
            int axis = all->rank - shapes[i].rank + input_axis;
            int64_t size = shapes[i].size[input_axis];
            if (size == 1) continue;
            if (all->size[axis] != 1 && all->size[axis] != size) {
                struct shape before = {.rank = all->rank};
                memcpy(before.size, all->size, sizeof before.size);
                return fail_key(error, "inputs", i,
                                "shape %s cannot be broadcast with %s: sizes are matched from the last axis on, and "
                                "%lld and %lld meet%s",
                                shape_format(&shapes[i], text), shape_format(&before, others), (long long)size,
                                (long long)all->size[axis],
                                shapes[i].rank < all->rank ? "; a reduction with `keepdims: true` keeps its axes" : "");
            }
            all->size[axis] = size;
            all->has[axis] |= 1u << i;
        }
    return STATUS_OK;
}

/* Reports an index, such as i2, of an axis that the result lacks. */
static enum status check_indices(const struct map *map, int rank, struct error *error) {
    for (int i = 0; i < map->count; i++)
        if (map->nodes[i].function == MAP_INDEX && map->nodes[i].number >= rank)
            return fail_key(error, "expression", map->nodes[i].at, "the result has %d ax%s, so there is no i%d", rank,
                            rank == 1 ? "is" : "es", map->nodes[i].number);
    return STATUS_OK;
}

/* Chooses the axes at which the (at most three) groups of merged axes begin. Axes are merged with the one before them,
 * from the left: first those that the same inputs have. So the last two axes stay apart if they can, and tiles can
 * follow a file's chunks. */
static void choose_groups(const struct broadcast *all, bool begins[MAX_RANK]) {
    int groups = all->rank;
    for (int axis = 0; axis < all->rank; axis++) begins[axis] = true;
    for (int pass = 0; pass < 2; pass++)
        for (int axis = 1; axis < all->rank && groups > OPERAND_RANK; axis++) {
            if (!begins[axis] || (pass == 0 && all->has[axis] != all->has[axis - 1])) continue;
            begins[axis] = false;
            groups--;
        }
}

/* operation->merge: broadcasts the inputs, and merges axes until three groups are left. */
static enum status map_merge_axes(const struct op_options *options, const struct shape shapes[], struct merged *merged,
                                  struct error *error) {
    const struct map *map = options->map;
    struct broadcast all;
    bool begins[MAX_RANK];
    enum status status = broadcast_shapes(map, shapes, &all, error);
    if (status == STATUS_OK) status = check_indices(map, all.rank, error);
    if (status != STATUS_OK) return status;
    choose_groups(&all, begins);
    for (int axis = 0; axis < all.rank; axis++) {
        if (begins[axis]) axes_begin(&merged->out);
        axes_append(&merged->out, all.size[axis], axis);
    }
    for (int i = 0; i < map->inputs; i++) {
        struct axes *in = &merged->in[i];
        int missing_axes = all.rank - shapes[i].rank; /* that the input lacks, before its first */
        for (int axis = 0, end; axis < all.rank; axis = end) {
            bool has_group = false; /* the input has more than one element along the group */
            for (end = axis; end < all.rank && (end == axis || !begins[end]); end++)
                has_group = has_group || (all.has[end] >> i & 1);
            axes_begin(in);
            for (int k = axis; k < end && has_group; k++) {
                bool has_axis = all.has[k] >> i & 1 || (all.size[k] == 1 && k >= missing_axes);
                axes_append(in, all.size[k], has_axis ? k - missing_axes : -1);
            }
        }
        in->array_rank = shapes[i].rank;
    }
    return STATUS_OK;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

struct map_args map_args_of(const struct geometry *geometry, const struct operand *result, const struct tile *tile,
                            const void *const in[], void *y) {
    struct map_args args = {.map = geometry->options.map, .extent = {1, 1, 1}, .out = result->dtype, .y = y};
    int before = OPERAND_RANK - result->shape.rank;
    for (int axis = 0; axis < result->shape.rank; axis++) {
        args.extent[before + axis] = tile->count[result->loop[axis]];
        args.start[before + axis] = tile->start[result->loop[axis]];
    }
    for (int i = 0; i < geometry->inputs; i++) {
        const struct operand *operand = &geometry->in[i];
        args.dtypes[i] = operand->dtype;
        args.x[i] = in[i];
        for (int axis = 0; axis < operand->shape.rank; axis++)
            for (int out = 0; out < result->shape.rank; out++)
                if (operand->loop[axis] == result->loop[out]) args.loops[i] |= 1u << (before + out);
    }
    map_axes(result, args.axes);
    return args;
}

static void map_launch(const struct geometry *geometry, const struct tile *tile, bool first, bool last,
                       const void *const in[], void *partial, void *out, struct launch *launch) {
    (void)first, (void)last, (void)partial; /* nothing is reduced */
    launch->op = OP_MAP;
    launch->dtype = geometry->in[0].dtype;
    launch->args.map = map_args_of(geometry, &geometry->out, tile, in, out);
}

/* operation->long_name: the expression. */
static bool map_long_name(const struct op_options *options, const char *const in[], char text[LONG_NAME_TEXT]) {
    (void)in;
    return snprintf(text, LONG_NAME_TEXT, "%s", options->map->text) < LONG_NAME_TEXT;
}

/* operation->unit: unknown. */
// NOLINTNEXTLINE(readability-non-const-parameter): the type is operation->unit
static bool map_unit(const struct op_options *options, const char *const in[], char text[UNITS_TEXT]) {
    (void)options, (void)in, (void)text;
    return false;
}

/* operation->tolerance, relative to |value|; reference.c adds the slack of functions such as exp. */
static struct tolerance map_tolerance(const struct geometry *geometry, enum accuracy accuracy) {
    (void)accuracy;
    enum dtype dtype = geometry->out.dtype;
    return dtype_is_float(dtype) ? (struct tolerance){dtype_epsilon(dtype), dtype_smallest(dtype)}
                                 : (struct tolerance){0, 0};
}

const struct operation operation_map = {
    .name = "map",
    .summary = "computes an expression of the elements of up to 8 arrays, which are broadcast",
    .min_inputs = 1,
    .inputs = MAX_INPUTS,
    .dimensions = 1,
    .geometry = map_geometry,
    .merge = map_merge_axes,
    .launch = map_launch,
    .reference = map_reference,
    .ambiguous_integers = true,
    .unit = map_unit,
    .long_name = map_long_name,
    .tolerance = map_tolerance,
};
