/* plan_task.c - fits an operation to the shapes and types of its inputs, and describes its result. */
#include "../../kernels/core/map.h"
#include "../../kernels/map/before.h"
#include "plan_parts.h"

#include "../base/fail.h"
#include "../storage/operand.h"

#include <string.h>

/* The value of one of the operation's run options, from `defaults` if it is there. */
static const struct yaml_node *option_value(const struct job *job, const struct job_operation *operation,
                                            const char *key) {
    const struct yaml_node *defaults = yaml_get(yaml_root(job->document), "defaults");
    return job_value(operation->node, key, -1, job_value(defaults, key, -1, operation->where));
}

/* Reports a compression that cannot be written here, and chunks of another rank than the result. */
static void check_layout(const struct job *job, const struct job_operation *operation, const struct shape *shape) {
    const struct shape *chunks = &operation->run.chunks;
    const char *lacks = h5_compression_needs(operation->run.compression);
    char text[SHAPE_TEXT];
    if (lacks)
        plan_mistake(job, option_value(job, operation, "compression"), "",
                     "%s: %s cannot be written here: %s is missing", operation->id,
                     operation->run.compression == COMPRESSION_LZF ? "LZF" : "zstd", lacks);
    if (chunks->rank > 0 && chunks->rank != shape->rank)
        plan_mistake(job, option_value(job, operation, "chunks"), operation->label,
                     "%s: 'chunks' has %d sizes, but its result is %s", operation->id, chunks->rank,
                     shape_format(shape, text));
}

/* Finds the loop that runs along axis `axis` of an operand's array, and the axis's number among the axes that are
 * merged for that loop. false: no loop runs along the axis. */
static bool find_axis(const struct operand *operand, int axis, enum loop *loop, int *within) {
    const struct axes *axes = &operand->axes;
    *within = 0;
    if (operand_is_plain(operand)) return *loop = operand->loop[axis], true;
    for (int group = 0, i = 0; group < axes->groups; i += axes->group[group++])
        for (*within = 0; *within < axes->group[group]; ++*within)
            if (axes->array_axis[i + *within] == axis) return *loop = operand->loop[group], true;
    return false;
}

/* Copies metadata of axes to the result: for each of its axes from the first input that has metadata for an axis of the
 * same loop. */
static void copy_axis_metadata(const struct plan *plan, const struct task *task, struct array *out) {
    const struct geometry *geometry = &task->geometry;
    enum loop loop, other;
    int within, other_within;
    for (int axis = 0; axis < out->shape.rank; axis++)
        for (int i = 0; i < geometry->inputs; i++) {
            const struct array *in = &plan->arrays[task->in[i]];
            for (int j = 0; j < in->shape.rank && !out->axes[axis].input; j++)
                if (find_axis(&geometry->out, axis, &loop, &within) &&
                    find_axis(&geometry->in[i], j, &other, &other_within) && loop == other && within == other_within)
                    out->axes[axis] = in->axes[j];
        }
}

/* Do all variants that the job names support `dtype`? Ignores variants that do not support the inputs' own type
 * either. */
static bool variants_support(const struct job_operation *operation, enum dtype dtype, enum dtype input_dtype) {
    for (int i = 0; i < operation->variant_count; i++) {
        const struct kernel *kernel = kernel_find(operation->op, operation->variants[i].name);
        if (kernel && kernel->dtypes & DTYPE_BIT(input_dtype) && !(kernel->dtypes & DTYPE_BIT(dtype))) return false;
    }
    return true;
}

/* Makes the operation's geometry. If its `dtype` is wider than the type that it would compute in, its inputs are
 * converted to a type that holds both, provided that its variants support that type and the operation fits it. */
static enum status make_geometry(const struct job_operation *operation, const struct shape shapes[],
                                 const enum dtype dtypes[], struct geometry *geometry, struct error *error) {
    const struct operation *op = operations[operation->op];
    struct geometry widened;
    enum dtype wide_dtypes[MAX_INPUTS], wide = DTYPE_COUNT; /* DTYPE_COUNT: no wider type is asked for */
    enum status status = operation_geometry(operation->op, &operation->options, shapes, dtypes, geometry, error);
    if (operation->has_dtype && op->computes_in && !operation->options.map)
        wide = op->computes_in(&operation->options, dtypes, operation->as);
    if (wide == DTYPE_COUNT || (wide == dtypes[0] && wide == dtypes[operation->input_count - 1])) return status;
    if (!status && !variants_support(operation, wide, dtypes[0])) return status;
    for (int i = 0; i < operation->input_count; i++) wide_dtypes[i] = wide;
    struct error unfit = {0};
    if (operation_geometry(operation->op, &operation->options, shapes, wide_dtypes, &widened, &unfit)) return status;
    *geometry = widened;
    *error = (struct error){0}; /* the error was about the inputs' own types */
    return STATUS_OK;
}

/* Finds mistakes that show from one operand of two, number `given`: assumes that the other one fits, with the same or
 * the transposed shape. */
static void check_one_operand(const struct job_operation *operation, int given, struct shape shapes[],
                              enum dtype dtypes[], struct geometry *geometry, struct error *error) {
    struct shape *other = &shapes[1 - given];
    int rank = shapes[given].rank;
    *other = rank < 2 ? (struct shape){2, {1, 1}} : shapes[given];
    dtypes[1 - given] = dtype_is_float(dtypes[given]) ? dtypes[given] : FLOAT32;
    if (make_geometry(operation, shapes, dtypes, geometry, error) == STATUS_OK) return;
    if (rank >= 2) {
        other->size[rank - 1] = shapes[given].size[rank - 2];
        other->size[rank - 2] = shapes[given].size[rank - 1];
        *error = (struct error){0};
        make_geometry(operation, shapes, dtypes, geometry, error);
    }
    if (error->key && error->item != given) *error = (struct error){0}; /* the error is about the other operand */
}

/* Reports why the geometry of an operation cannot be made, at the key that is wrong. */
static void report_misfit(const struct job *job, const struct job_operation *operation, const struct error *error) {
    const char *text_key = operation->op == OP_MAP ? "expression" : "map"; /* its text has positions */
    const char *key = error->key && strcmp(error->key, "expression") == 0 ? text_key : error->key;
    const struct yaml_node *where =
        key ? job_value(operation->node, key, error->item, operation->where) : operation->where;
    int at = key && strcmp(key, text_key) == 0 ? error->item : -1;
    plan_mistake_inside(job, where, at, operation->label, "%s: %s", operation->id, error->text);
}

/* Makes the geometry of a task of which `known` inputs are known, and reports its mistakes. If only one input of a
 * product is known, finds the mistakes that show from it. */
static void fit_task(const struct job *job, struct task *task, int known, struct shape shapes[], enum dtype dtypes[],
                     const bool unknown[]) {
    const struct job_operation *operation = task->operation;
    struct error error = {0};
    bool all = known == operation->input_count, one = !all && known == 1 && operation->op == OP_MATMUL;
    task->geometry = (struct geometry){.op = operation->op, .options = operation->options};
    if (operation->unread || (!all && !one)) return;
    if (all)
        make_geometry(operation, shapes, dtypes, &task->geometry, &error);
    else
        check_one_operand(operation, unknown[0] ? 1 : 0, shapes, dtypes, &task->geometry, &error);
    bool options = !operation->options_unread;
    task->known = all && !error.status && options;
    task->typed = !operation->has_dtype || (!error.status && options);
    if (error.status) task->geometry = (struct geometry){.op = operation->op, .options = operation->options};
    if (error.status) task->geometry.in[0].dtype = dtypes[0];
    /* An error about the inputs may come from an option that could not be read; an error about an option cannot. */
    bool from_options = !options && (!error.key || strcmp(error.key, "inputs") == 0);
    if (error.status && !from_options) report_misfit(job, operation, &error);
}

/* Reports `skip_nan` of an input whose type has no NaN; with `map` the type that counts is not the input's. */
static void check_skip_nan(const struct job *job, const struct job_operation *operation, const struct array *in) {
    if (in->unknown || operation->options_unread || !operation->options.skip_nan || operation->options.map ||
        dtype_is_float(in->dtype))
        return;
    plan_mistake(job, job_value(operation->node, "skip_nan", -1, operation->where), operation->label,
                 "%s: 'skip_nan' ignores NaNs, but '%s' is %s, which has none; `missing` of an input turns stored "
                 "numbers into NaN",
                 operation->id, in->name, dtype_name(in->dtype));
}

void plan_task(struct plan *plan, int index) {
    const struct job *job = plan->job;
    const struct job_operation *operation = &job->operations[index];
    struct task *task = &plan->tasks[index];
    task->operation = operation;
    task->out = plan->input_count + index;
    task->wanted = operation->run.store != STORE_NONE; /* making a later task that reads it sets it too */
    struct shape shapes[MAX_INPUTS] = {{.rank = 0}};
    enum dtype dtypes[MAX_INPUTS] = {0};
    const char *units[MAX_INPUTS] = {NULL}, *names[MAX_INPUTS] = {NULL};
    char text[UNITS_TEXT], name[LONG_NAME_TEXT];
    bool unknown[MAX_INPUTS] = {false};
    int known = 0;
    for (int i = 0; i < operation->input_count; i++) {
        struct job_reference from = operation->inputs[i];
        task->in[i] = plan_operand(plan, operation, from.is_input ? from.index : plan->input_count + from.index);
        struct array *in = &plan->arrays[task->in[i]];
        array_add_reader(in, index);
        if (!from.is_input) plan->tasks[from.index].wanted = true;
        shapes[i] = in->shape;
        dtypes[i] = in->dtype;
        units[i] = in->units;
        names[i] = in->long_name;
        unknown[i] = in->unknown;
        known += !in->unknown;
        check_skip_nan(job, operation, in);
    }
    fit_task(job, task, known, shapes, dtypes, unknown);
    struct shape shape = {.rank = 0};
    if (task->known) {
        shape = operand_array(&task->geometry.out);
        check_layout(job, operation, &shape);
    }
    struct array *out = &plan->arrays[task->out];
    *out = (struct array){.name = operation->id,
                          .label = operation->label,
                          .unknown = !task->known || operation->result_unread,
                          .dtype = operation->has_dtype ? operation->as : task->geometry.out.dtype,
                          .shape = shape,
                          .first_reader = -1,
                          .last_reader = -1};
    if (!task->known) return;
    plan_describe_moved(operation, &plan->arrays[task->in[0]], out);
    copy_axis_metadata(plan, task, out);
    if (has_map_before(&task->geometry)) units[0] = NULL, names[0] = operation->options.map->text;
    if (operations[operation->op]->unit(&operation->options, units, text)) out->units = must_strdup(text);
    if (operations[operation->op]->long_name(&task->geometry.options, names, name)) out->long_name = must_strdup(name);
}
