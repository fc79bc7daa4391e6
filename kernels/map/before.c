/* before.c - makes the geometry, the launches and the reference result of an operation whose input is a map. */
#include "before.h"

#include "../core/axes.h"
#include "../core/map.h"
#include "reference_map.h"

#include <math.h>
#include <string.h>

bool has_map_before(const struct geometry *geometry) {
    return geometry->options.map && geometry->op != OP_MAP;
}

const struct operand *operand_seen(const struct geometry *geometry) {
    return has_map_before(geometry) ? &geometry->mapped : &geometry->in[0];
}

/* ---- geometry ---------------------------------------------------------------------------------------------------- */

/* A loop that the operation does not use. It becomes the loop of an axis along which an input repeats an element. */
static enum loop unused_loop(const struct operand *seen) {
    int loop = LOOP_B;
    for (int axis = 0; axis < seen->shape.rank; axis++)
        if ((int)seen->loop[axis] == loop) loop++, axis = -1;
    return (enum loop)loop;
}

/* The operand of one input of the map. It has those axes of the mapped operand `seen` that the input has. If the input
 * has one element along a whole group of axes, it repeats this element, and the group gets an unused loop. `rank`: of
 * the mapped array. */
static struct operand input_of_map(const struct operand *seen, const struct shape *shape, enum dtype dtype, int rank) {
    struct operand in = {.dtype = dtype};
    const struct axes *axes = &seen->axes;
    bool plain = operand_is_plain(seen);
    int missing_axes = rank - shape->rank;
    for (int group = 0, axis = 0, end; group < seen->shape.rank; group++, axis = end) {
        bool has_elements = seen->shape.size[group] == 1;
        end = axis + (plain ? 1 : axes->group[group]);
        for (int i = axis; i < end; i++) {
            int own_axis = (plain ? i : axes->of[i]) - missing_axes;
            has_elements = has_elements || (own_axis >= 0 && shape->size[own_axis] != 1);
        }
        axes_begin(&in.axes);
        for (int i = axis; i < end && has_elements; i++) {
            int own_axis = (plain ? i : axes->of[i]) - missing_axes;
            int64_t size = plain ? seen->shape.size[i] : axes->size[i];
            axes_append(&in.axes, size, own_axis >= 0 && shape->size[own_axis] == size ? own_axis : -1);
        }
        in.loop[group] = has_elements ? seen->loop[group] : unused_loop(seen);
    }
    in.axes.array_rank = shape->rank;
    in.shape = axes_merged_shape(&in.axes);
    return in;
}

static bool same_shape(const struct shape *one, const struct shape *other) {
    bool same = one->rank == other->rank;
    for (int axis = 0; axis < one->rank && same; axis++) same = one->size[axis] == other->size[axis];
    return same;
}

enum status operation_geometry(enum op op, const struct op_options *options, const struct shape shapes[],
                               const enum dtype dtypes[], struct geometry *geometry, struct error *error) {
    const struct map *map = options->map;
    if (!map || op == OP_MAP) return geometry_make(op, options, shapes, dtypes, geometry, error);
    struct geometry before;
    struct op_options own = *options;
    own.map = NULL;
    TRY(geometry_make(OP_MAP, options, shapes, dtypes, &before, error));
    struct shape shape = operand_array(&before.out);
    TRY(geometry_make(op, &own, &shape, &before.out.dtype, geometry, error));
    geometry->options.map = options->map;
    geometry->inputs = map->inputs;
    geometry->mapped = geometry->in[0];
    /* The mapped array is never stored: nothing writes or reads it in device memory. */
    geometry->bytes += before.bytes - 2 * (double)shape_elements(&shape) * (double)dtype_size(before.out.dtype);
    geometry->flops += before.flops;
    for (int i = 0; i < map->inputs; i++) {
        geometry->in[i] = input_of_map(&geometry->mapped, &shapes[i], dtypes[i], shape.rank);
        if (operand_is_plain(&geometry->mapped) && same_shape(&shapes[i], &shape)) {
            geometry->in[i] = geometry->mapped;
            geometry->in[i].dtype = dtypes[i];
        }
    }
    return STATUS_OK;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

/* The geometry as the operation itself sees it. */
static struct geometry geometry_seen(const struct geometry *geometry) {
    struct geometry seen = *geometry;
    seen.in[0] = geometry->mapped;
    seen.inputs = 1;
    seen.options.map = NULL;
    return seen;
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
    struct geometry seen = geometry_seen(geometry);
    operation->launch(&seen, tile, first, last, nowhere, partial, out, launch);
    launch->before = map_args_of(geometry, &geometry->mapped, tile, in, NULL);
}

int64_t mapped_bytes(const struct kernel *kernel, const struct launch *launch) {
    const struct map_args *args = &launch->before;
    if (!args->map || kernel->fuses) return 0;
    return args->extent[0] * args->extent[1] * args->extent[2] * (int64_t)dtype_size(args->out);
}

/* The variant that computes the map before a launch of `kernel`; NULL: the kernel itself does, or there is no map. */
static const struct kernel *map_before(const struct kernel *kernel, const struct launch *launch) {
    if (!launch->before.map || kernel->fuses) return NULL;
    return kernel_find(OP_MAP, kernel->device == DEVICE_CPU ? "cpu" : "compiled");
}

const char *launch_refusal(const struct kernel *kernel, const struct launch *launch) {
    const char *refusal = kernel_refusal(kernel, launch);
    const struct kernel *map = map_before(kernel, launch);
    return refusal || !map ? refusal : kernel_missing(map);
}

int kernel_launch(const struct kernel *kernel, const struct launch *launch) {
    const struct kernel *before = map_before(kernel, launch);
    if (!before) return kernel->launch(launch);
    if (!before->launch) return 1; /* this build has no such variant */
    struct launch map = *launch, after = *launch;
    map.kernel = before;
    map.op = OP_MAP;
    map.dtype = launch->before.dtypes[0];
    map.args.map = launch->before;
    int failed = before->launch(&map);
    if (failed) return failed;
    after.args.reduce.x = launch->before.y;
    after.before.map = NULL;
    return kernel->launch(&after);
}

/* ---- the truth --------------------------------------------------------------------------------------------------- */

/* The context of a reader that computes the map's values, or bounds of them, from the map's inputs. */
struct mapping {
    const struct geometry *geometry;
    const struct host_reader *reader;
    enum map_bound bound;
};

static enum status read_mapped(void *context, int input, const struct box *box, void *data, struct error *error) {
    const struct mapping *mapping = context;
    if (input < 0) return mapping->reader->read(mapping->reader->context, input, box, data, error);
    return map_values(mapping->geometry, mapping->reader, box, data, error);
}

static enum status read_bounds(void *context, int input, const struct box *box, void *data, struct error *error) {
    const struct mapping *mapping = context;
    (void)input;
    return map_bounds(mapping->geometry, mapping->reader, box, mapping->bound, data, error);
}

/* Reduces bounds of the map's values. The caller frees *reduced with truth_free. */
static enum status reduce_bounds(const struct geometry *geometry, const struct host_reader *reader,
                                 const struct box *box, enum map_bound bound, enum reduce_operator operator_,
                                 struct truth *reduced, struct error *error) {
    struct mapping mapping = {geometry, reader, bound};
    const struct host_reader bounds = {.read = read_bounds, .context = &mapping};
    struct geometry seen = geometry_seen(geometry);
    seen.in[0].dtype = seen.out.dtype = FLOAT64;
    seen.options.reduce = operator_;
    enum status status = truth_allocate(&seen, box_elements(box), reduced, error);
    return status != STATUS_OK ? status : operations[geometry->op]->reference(&seen, &bounds, box, reduced, error);
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

/* Fills truth->slack: the map's values are not exact, so a right result may lie that far from truth->value. */
static enum status add_slack(const struct geometry *geometry, const struct host_reader *reader, const struct box *box,
                             struct truth *truth, struct error *error) {
    enum reduce_operator operator_ = geometry->options.reduce;
    bool selects = operator_ == REDUCE_MIN || operator_ == REDUCE_MAX;
    bool spreads = operator_ == REDUCE_VAR || operator_ == REDUCE_STD, product = operator_ == REDUCE_PROD;
    enum map_bound bound = selects ? MAP_LEAST : product ? MAP_RELATIVE : MAP_DISTANCE;
    enum reduce_operator combine = spreads ? REDUCE_MAX : product ? REDUCE_SUM : operator_;
    struct truth reduced = {0}, greatest = {0}; /* `reduced` holds the bounds, then the slack */
    enum status status = reduce_bounds(geometry, reader, box, bound, combine, &reduced, error);
    if (status == STATUS_OK && selects)
        status = reduce_bounds(geometry, reader, box, MAP_GREATEST, operator_, &greatest, error);
    for (int64_t i = 0; i < box_elements(box) && status == STATUS_OK; i++) {
        double value = truth->value[i];
        double slack = selects ? fmax(value - reduced.value[i], greatest.value[i] - value)
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
    truth_free(&greatest);
    return status;
}

enum status operation_reference(const struct geometry *geometry, const struct host_reader *reader,
                                const struct box *box, struct truth *truth, struct error *error) {
    const struct operation *operation = operations[geometry->op];
    if (!has_map_before(geometry)) return operation->reference(geometry, reader, box, truth, error);
    struct mapping mapping = {geometry, reader, MAP_DISTANCE};
    const struct host_reader mapped = {.read = read_mapped, .context = &mapping};
    struct geometry seen = geometry_seen(geometry);
    enum status status = operation->reference(&seen, &mapped, box, truth, error);
    if (status != STATUS_OK || !truth->value || map_is_exact(geometry)) return status;
    return add_slack(geometry, reader, box, truth, error);
}
