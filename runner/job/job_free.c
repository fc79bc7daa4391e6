/* job_free.c - frees a job. */
#include "job_expand.h"

#include <stdlib.h>

static void job_input_free(struct job_input *input) {
    free(input->name);
    free(input->label);
    free(input->file);
    free(input->file_as_written);
    free(input->dataset);
    free(input->field);
}

void job_variant_free(struct job_variant *variant) {
    free(variant->name);
    free(variant->label);
    for (int i = 0; i < variant->count; i++) {
        free(variant->names[i]);
        free(variant->values[i]);
    }
}

static void job_operation_free(struct job_operation *operation) {
    free(operation->id);
    free(operation->label);
    for (int i = 0; i < operation->variant_count; i++) job_variant_free(&operation->variants[i]);
    free(operation->variants);
    free(operation->to_file);
    free(operation->to_name);
    free(operation->resolved);
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
    free(job->resolved);
    free(job->verbatim);
    yaml_close(job->document);
    free(job);
}
