/* job_free.c - frees a job, or a part of it. */
#include "../base/fail.h"
#include "expression/expression.h"
#include "job_parts.h"

#include <stdlib.h>

static void job_input_free(struct job_input *input) {
    free(input->name);
    free(input->label);
    free(input->file);
    free(input->file_as_written);
    free(input->dataset);
    free(input->field);
}

/* Frees the members of an operation. */
static void job_operation_free(struct job_operation *operation) {
    free(operation->id);
    free(operation->label);
    for (int i = 0; i < operation->variant_count; i++) job_variant_free(&operation->variants[i]);
    free(operation->variants);
    free(operation->to_file);
    free(operation->to_name);
    free(operation->resolved);
    map_free(operation->options.map);
}

void job_free(struct job *job) {
    if (!job) return;
    for (int i = 0; i < job->input_count; i++) job_input_free(&job->inputs[i]);
    for (int i = 0; i < job->operation_count; i++) job_operation_free(&job->operations[i]);
    free(job->inputs);
    free(job->operations);
    free(job->device_numbers);
    free(job->path);
    free(job->name);
    free(job->description);
    free(job->output);
    free(job->notes);
    for (int i = 0; i < job->tag_count; i++) free(job->tags[i].name);
    free(job->tags);
    for (int i = 0; i < job->variable_count; i++) free(job->variables[i]);
    free(job->variables);
    free(job->resolved);
    free(job->remarks);
    free(job->unreadable);
    free(job->verbatim);
    yaml_close(job->document);
    free(job);
}

int job_remove(struct job *job, const bool *inputs) {
    OWNED int *input_at = must_malloc((size_t)job->input_count * sizeof *input_at + 1);
    OWNED int *operation_at = must_malloc((size_t)job->operation_count * sizeof *operation_at + 1);
    int kept = 0;
    for (int i = 0; i < job->input_count; i++) {
        input_at[i] = inputs[i] ? -1 : kept;
        if (inputs[i])
            job_input_free(&job->inputs[i]);
        else
            job->inputs[kept++] = job->inputs[i];
    }
    job->input_count = kept;
    kept = 0;
    for (int i = 0; i < job->operation_count; i++) {
        struct job_operation operation = job->operations[i];
        bool complete = true;
        for (int k = 0; k < operation.input_count; k++) {
            struct job_reference *from = &operation.inputs[k];
            from->index = (from->is_input ? input_at : operation_at)[from->index];
            complete &= from->index >= 0;
        }
        operation_at[i] = complete ? kept : -1;
        if (complete)
            job->operations[kept++] = operation;
        else
            job_operation_free(&operation);
    }
    int removed = job->operation_count - kept;
    job->operation_count = kept;
    return removed;
}
