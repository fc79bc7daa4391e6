/* plan_input.c - describes an input as its operations see it: the data set with the job's `select` or `rows`
 * applied. */
#include "plan_parts.h"

#include "../base/fail.h"
#include "../base/host.h"
#include "../base/text.h"
#include <string.h>

#define CHUNK_ENOUGH (64.0 * 1024 * 1024) /* chunks up to this size are always allowed */

/* STATUS_USAGE: the input's chunks are larger than both the job's memory and CHUNK_ENOUGH; a chunk must be held in
 * memory as a whole, decoded. */
static enum status check_chunk(const struct job *job, const struct job_input *input, const struct array *array,
                               struct error *error) {
    double bytes = (double)dtype_size(array->stored), max_bytes = (double)job->memory_bytes;
    char bytes_text[32], max_text[32];
    if (max_bytes == 0) max_bytes = job->memory_fraction * (double)host_memory().free;
    if (max_bytes < CHUNK_ENOUGH) max_bytes = CHUNK_ENOUGH;
    for (int i = 0; i < array->chunk.rank; i++) bytes *= (double)array->chunk.size[i];
    if (array->chunk.rank == 0 || bytes <= max_bytes) return STATUS_OK;
    return fail(error, STATUS_USAGE, "%s: '%s' has chunks of %s, larger than the %s that 'memory' allows", input->file,
                input->dataset, size_text(bytes, bytes_text), size_text(max_bytes, max_text));
}

/* Applies the key `rows` to an array that has rows. STATUS_USAGE: the array does not have all of the rows. */
static enum status apply_rows(const struct job_input *input, struct array *array, struct error *error) {
    int64_t row_count = array->shape.size[0];
    bool all_present = input->rows[0] >= 0 && input->rows[1] >= 0 && input->rows[0] <= row_count &&
                       input->rows[1] <= row_count - input->rows[0];
    if (!all_present)
        return fail_key(error, "rows", -1, "rows [%lld, %lld] are not all in %s, which has %lld rows",
                        (long long)input->rows[0], (long long)input->rows[1], input->dataset, (long long)row_count);
    array_narrow(array, 0, input->rows[0], input->rows[1]);
    return STATUS_OK;
}

/* Describes the input, applies its keys, and checks that its values can be read. */
static enum status describe_input(const struct job *job, const struct job_input *input, struct array *array,
                                  struct error *error) {
    TRY(array_describe(input, array, error));
    if (!input->random) TRY(check_chunk(job, input, array, error));
    if (input->select.rank) TRY(array_select(array, &input->select, error));
    if (input->random) return STATUS_OK;
    if (input->has_rows && array->shape.rank == 0)
        return fail_key(error, "rows", -1, "'%s' in %s is a single number, which has no rows", input->dataset,
                        input->file);
    if (input->has_rows) TRY(apply_rows(input, array, error));
    TRY(array_check_mostly_empty(array, error));
    return array_check_sources(array, error);
}

void plan_input(const struct job *job, const struct job_input *input, struct array *array) {
    struct error error = {0};
    *array = (struct array){.name = input->name, .label = input->label, .from_job = input, .unknown = true};
    if (!input->unread) {
        array->unknown = describe_input(job, input, array, &error) != STATUS_OK;
        const char *key = error.key ? error.key : input->random ? "random" : "dataset";
        const struct yaml_node *where = job_value(input->node, key, error.item, input->where);
        bool unreadable = strcmp(key, "file") == 0 || array->absent.elements > 0;
        if (array->unknown && job->tolerant && unreadable)
            array->unreadable = must_strdup(error.text);
        else if (array->unknown)
            plan_mistake(job, where, input->label, "%s%s", error.text,
                         strstr(error.text, "did you mean") ? "" : yaml_comment_hint(job->document, where));
    }
    array->first_reader = array->last_reader = -1;
}
