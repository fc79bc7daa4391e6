/* plan_decode.c - decides which array entries of the plan keep the stored numbers instead of the decoded values.
 * Operations that only move elements read the stored numbers; all others compute, and read decoded values. An array
 * that both read has two entries, linked by `counterpart`. */
#include "plan_parts.h"

#include "../base/fail.h"

#include <stdlib.h>

/* Does the operation move the stored numbers of an array, instead of computing with its values? */
static bool moves_stored(const struct job_operation *operation, const struct array *array) {
    enum dtype stored = operation->has_dtype ? operation->as : array->decoding->stored;
    return operations[operation->op]->exact && array_can_pack(array, stored);
}

/* Appends a copy of array entry `original` to the plan's `*count` entries, and links the two. */
static struct array *append_counterpart(struct plan *plan, int original, int *count) {
    struct array *array = &plan->arrays[*count];
    *array = array_copy(&plan->arrays[original]);
    array->counterpart = &plan->arrays[original];
    free(array->remark); /* it is printed once, for the original */
    array->remark = NULL;
    plan->arrays[original].counterpart = array;
    ++*count;
    return array;
}

void plan_pack_inputs(struct plan *plan) {
    const struct job *job = plan->job;
    enum { MOVED = 1, COMPUTED = 2 };
    OWNED unsigned char *uses = must_zeroed((size_t)job->input_count);
    for (int i = 0; i < job->operation_count; i++) {
        const struct job_operation *operation = &job->operations[i];
        for (int k = 0; k < operation->input_count; k++) {
            struct job_reference from = operation->inputs[k];
            if (!from.is_input || !plan->arrays[from.index].decoding) continue;
            uses[from.index] |= moves_stored(operation, &plan->arrays[from.index]) ? MOVED : COMPUTED;
        }
    }
    for (int i = 0; i < job->input_count; i++) {
        if (uses[i] == MOVED) array_pack(&plan->arrays[i]);
        if (uses[i] == (MOVED | COMPUTED)) array_pack(append_counterpart(plan, i, &plan->input_count));
    }
}

int plan_operand(struct plan *plan, const struct job_operation *operation, int array) {
    const struct array *named = &plan->arrays[array];
    if (!named->decoding || named->keeps_stored == moves_stored(operation, named)) return array;
    if (!named->counterpart) array_unpack(append_counterpart(plan, array, &plan->array_count));
    return (int)(named->counterpart - plan->arrays);
}

void plan_describe_moved(const struct job_operation *operation, const struct array *in, struct array *out) {
    if (!operations[operation->op]->exact) return;
    const struct job_input *input = in->from_job;
    out->moved_from = !input ? in->moved_from : input->random || input->field ? NULL : in;
    if (!in->keeps_stored) return;
    struct decoding decoding;
    char *useless;
    decoding_make(&in->decoding->attributes, out->dtype, &decoding, &useless);
    free(useless); /* it was reported for the input */
    out->decoding = decoding_copy(&decoding);
    out->keeps_stored = true;
}

int plan_producer(const struct plan *plan, int array) {
    /* The plan's entries are the inputs, then the tasks' results, then second entries of results. */
    if (array >= plan->input_count + plan->task_count) array = (int)(plan->arrays[array].counterpart - plan->arrays);
    return array < plan->input_count ? -1 : array - plan->input_count;
}
