/* before.c - makes the geometry, the launches and the reference result of any operation, with a map before it if there
 * is one. */
#include "before.h"

#include "../core/axes.h"
#include "../core/map.h"
#include "reference_map.h"

#include <math.h>
#include <string.h>

bool has_map_before(const struct geometry *geometry) {
    return geometry->options.map && geometry->op != OP_MAP;
}

const struct operand *first_operand(const struct geometry *geometry) {
    return has_map_before(geometry) ? &geometry->map_result : &geometry->in[0];
}

/* ---- geometry ---------------------------------------------------------------------------------------------------- */

/* A loop that the map's result does not use: the loop of an axis along which an input repeats an element. */
static enum loop unused_loop(const struct operand *map_result) {
    bool used[LOOPS] = {false};
    int loop = LOOP_B;
    for (int axis = 0; axis < map_result->shape.rank; axis++) used[map_result->loop[axis]] = true;
    while (used[loop]) loop++;
    return (enum loop)loop;
}

/* The operand of one input of the map: the axes of `map_result` that the input has. If the input has one element along
 * all axes of a group, but the result has more, the input repeats the element, and the group gets an unused loop.
 * `rank`: the number of axes of the result's array. */
static struct operand input_of_map(const struct operand *map_result, const struct shape *shape, enum dtype dtype,
                                   int rank) {
    struct operand in = {.dtype = dtype};
    const struct axes *axes = &map_result->axes;
    bool plain = operand_is_plain(map_result);
    int missing_axes = rank - shape->rank;
    for (int group = 0, axis = 0, end; group < map_result->shape.rank; group++, axis = end) {
        /* Does the input vary along the group as the result does? */
        bool keeps_group = map_result->shape.size[group] == 1;
        end = axis + (plain ? 1 : axes->group[group]);
        for (int i = axis; i < end; i++) {
            int input_axis = (plain ? i : axes->array_axis[i]) - missing_axes;
            keeps_group = keeps_group || (input_axis >= 0 && shape->size[input_axis] != 1);
        }
        axes_begin(&in.axes);
        for (int i = axis; i < end && keeps_group; i++) {
            int input_axis = (plain ? i : axes->array_axis[i]) - missing_axes;
            int64_t size = plain ? map_result->shape.size[i] : axes->size[i];
            axes_append(&in.axes, size, input_axis >= 0 && shape->size[input_axis] == size ? input_axis : -1);
        }
        in.loop[group] = keeps_group ? map_result->loop[group] : unused_loop(map_result);
    }
    in.axes.array_rank = shape->rank;
    in.shape = axes_merged_shape(&in.axes);
    return in;
}

enum status operation_geometry(enum op op, const struct op_options *options, const struct shape shapes[],
                               const enum dtype dtypes[], struct geometry *geometry, struct error *error) {
    const struct map *map = options->map;
    if (!map || op == OP_MAP) return geometry_make(op, options, shapes, dtypes, geometry, error);
    struct geometry map_geometry;
    struct op_options without_map = *options;
    without_map.map = NULL;
    TRY(geometry_make(OP_MAP, options, shapes, dtypes, &map_geometry, error));
    struct shape shape = operand_array(&map_geometry.out);
    TRY(geometry_make(op, &without_map, &shape, &map_geometry.out.dtype, geometry, error));
    geometry->options.map = options->map;
    geometry->inputs = map->inputs;
    geometry->map_result = geometry->in[0];
    /* The map's result is never in device memory: nothing writes or reads it there. */
    double result_bytes = (double)shape_elements(&shape) * (double)dtype_size(map_geometry.out.dtype);
    geometry->bytes += map_geometry.bytes - 2 * result_bytes;
    geometry->flops += map_geometry.flops;
    for (int i = 0; i < map->inputs; i++) {
        geometry->in[i] = input_of_map(&geometry->map_result, &shapes[i], dtypes[i], shape.rank);
        if (operand_is_plain(&geometry->map_result) && shape_equal(&shapes[i], &shape)) {
            geometry->in[i] = geometry->map_result;
            geometry->in[i].dtype = dtypes[i];
        }
    }
    return STATUS_OK;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

/* The geometry of the operation alone, whose input is the map's result. */
static struct geometry geometry_without_map(const struct geometry *geometry) {
    struct geometry without_map = *geometry;
    without_map.in[0] = geometry->map_result;
    without_map.inputs = 1;
    without_map.options.map = NULL;
    return without_map;
}

void operation_launch(const struct geometry *geometry, const struct tile *tile, bool first, bool last,
                      const void *const in[], void *partial, void *out, struct launch *launch) {
    const struct operation *operation = operations[geometry->op];
    launch->before.map = NULL;
    if (!has_map_before(geometry)) {
        operation->launch(geometry, tile, first, last, in, partial, out, launch);
        return;
    }
    const void *const nowhere[MAX_INPUTS] = {NULL};
    struct geometry without_map = geometry_without_map(geometry);
    operation->launch(&without_map, tile, first, last, nowhere, partial, out, launch);
    launch->before = map_args_of(geometry, &geometry->map_result, tile, in, NULL);
}

int64_t mapped_bytes(const struct kernel *kernel, const struct launch *launch) {
    const struct map_args *args = &launch->before;
    if (!args->map || kernel->fuses) return 0;
    return args->extent[0] * args->extent[1] * args->extent[2] * (int64_t)dtype_size(args->out);
}

/* The variant that computes the map before a launch of `kernel`; NULL: the kernel itself does, or there is no map. */
static const struct kernel *map_variant(const struct kernel *kernel, const struct launch *launch) {
    if (!launch->before.map || kernel->fuses) return NULL;
    return kernel_find(OP_MAP, kernel->device == DEVICE_CPU ? "cpu" : "compiled");
}

const char *launch_refusal(const struct kernel *kernel, const struct launch *launch) {
    const char *refusal = kernel_refusal(kernel, launch);
    const struct kernel *map = map_variant(kernel, launch);
    return refusal || !map ? refusal : kernel_missing(map);
}

int kernel_launch(const struct kernel *kernel, const struct launch *launch) {
    const struct kernel *variant = map_variant(kernel, launch);
    if (!variant) return kernel->launch(launch);
    if (!variant->launch) return 1;                   /* this build has no such variant */
    struct launch map = *launch, reduction = *launch; /* only reductions have a map before them */
    map.kernel = variant;
    map.op = OP_MAP;
    map.dtype = launch->before.dtypes[0];
    map.args.map = launch->before;
    int failed = variant->launch(&map);
    if (failed) return failed;
    reduction.args.reduce.x = launch->before.y;
    reduction.before.map = NULL;
    return kernel->launch(&reduction);
}

/* ---- the truth --------------------------------------------------------------------------------------------------- */

/* The context of a reader that computes the map's values, or bounds of them, from the map's inputs. */
struct map_reader {
    const struct geometry *geometry;
    const struct host_reader *reader;
    enum map_bound bound;
};

/* Reads a box of the map's values, which it computes; or of the output, which it passes on to the given reader. */
static enum status read_values(void *context, int input, const struct box *box, void *data, struct error *error) {
    const struct map_reader *map = context;
    if (input < 0) return map->reader->read(map->reader->context, input, box, data, error);
    return map_values(map->geometry, map->reader, box, data, error);
}

/* Reads a box of the bounds of the map's values, which it computes. */
static enum status read_bounds(void *context, int input, const struct box *box, void *data, struct error *error) {
    const struct map_reader *map = context;
    (void)input;
    return map_bounds(map->geometry, map->reader, box, map->bound, data, error);
}

/* Reduces one bound of the map's values by `operator_`, for a box of the output, into *reduced, which the caller frees
 * with truth_free, also after an error. */
static enum status reduce_bounds(const struct geometry *geometry, const struct host_reader *reader,
                                 const struct box *box, enum map_bound bound, enum reduce_operator operator_,
                                 struct truth *reduced, struct error *error) {
    struct map_reader map_reader = {geometry, reader, bound};
    const struct host_reader bounds = {.read = read_bounds, .context = &map_reader};
    struct geometry without_map = geometry_without_map(geometry);
    without_map.in[0].dtype = without_map.out.dtype = FLOAT64;
    without_map.options.reduce = operator_;
    enum status status = truth_allocate(&without_map, box_elements(box), reduced, error);
    return status != STATUS_OK ? status
                               : operations[geometry->op]->reference(&without_map, &bounds, box, reduced, error);
}

/* The largest distance of a right result from `value`. `distance` combines the distances of the reduced elements from
 * their exact values: it is their sum for a sum, their mean for a mean, their norm for a norm, the largest for var and
 * std, and the sum of the relative distances for a product. */
static double slack_of(const struct op_options *options, double value, double distance) {
    double spread = distance * sqrt(1 + fmax(options->ddof, 0)); /* bounds the norm of n numbers / root (n - ddof) */
    switch (options->reduce) {
    case REDUCE_PROD: return fabs(value) * expm1(distance);
    case REDUCE_STD: return spread;
    case REDUCE_VAR: return spread * (2 * sqrt(fabs(value)) + spread);
    default: return distance;
    }
}

/* Fills truth->slack: how far a right result may lie from truth->value, because the map's values are not exact. Where
 * any result is right, sets truth->overflow instead. */
static enum status add_slack(const struct geometry *geometry, const struct host_reader *reader, const struct box *box,
                             struct truth *truth, struct error *error) {
    enum reduce_operator operator_ = geometry->options.reduce;
    bool selects = operator_ == REDUCE_MIN || operator_ == REDUCE_MAX;
    bool spreads = operator_ == REDUCE_VAR || operator_ == REDUCE_STD, product = operator_ == REDUCE_PROD;
    enum map_bound bound = selects ? MAP_SMALLEST : product ? MAP_RELATIVE : MAP_DISTANCE;
    enum reduce_operator combine = spreads ? REDUCE_MAX : product ? REDUCE_SUM : operator_;
    struct truth reduced = {0}, largest = {0}; /* `reduced` holds the bounds, then the slack */
    enum status status = reduce_bounds(geometry, reader, box, bound, combine, &reduced, error);
    if (status == STATUS_OK && selects)
        status = reduce_bounds(geometry, reader, box, MAP_LARGEST, operator_, &largest, error);
    for (int64_t i = 0; i < box_elements(box) && status == STATUS_OK; i++) {
        double value = truth->value[i];
        double slack = selects ? fmax(value - reduced.value[i], largest.value[i] - value)
                               : slack_of(&geometry->options, value, reduced.value[i]);
        bool any = isinf(slack) || (isnan(slack) && !isnan(value)); /* any result is right */
        if (any) truth->value[i] = 0, truth->overflow[i] = OVERFLOW_ANY;
        reduced.value[i] = any ? INFINITY : isnan(slack) ? 0 : slack;
    }
    if (status == STATUS_OK) {
        truth->slack = reduced.value;
        reduced.value = NULL;
    }
    truth_free(&reduced);
    truth_free(&largest);
    return status;
}

enum status operation_reference(const struct geometry *geometry, const struct host_reader *reader,
                                const struct box *box, struct truth *truth, struct error *error) {
    const struct operation *operation = operations[geometry->op];
    if (!has_map_before(geometry)) return operation->reference(geometry, reader, box, truth, error);
    struct map_reader map_reader = {geometry, reader, MAP_DISTANCE};
    const struct host_reader map_result = {.read = read_values, .context = &map_reader};
    struct geometry without_map = geometry_without_map(geometry);
    enum status status = operation->reference(&without_map, &map_result, box, truth, error);
    if (status != STATUS_OK || !truth->value || map_is_exact(geometry)) return status;
    return add_slack(geometry, reader, box, truth, error);
}
