/* plan_input.c - describes an input as its operations see it: the data set with the job's `select` or `rows`
 * applied. */
#include "plan_input.h"

#include "../base/host.h"
#include "../base/text.h"

#define CHUNK_ENOUGH (64.0 * 1024 * 1024) /* chunks up to this size are always allowed */

/* Reports chunks that are larger than the job's memory: a chunk must be held in memory as a whole, decoded. */
static void check_chunk(const struct job *job, const struct job_input *input, const struct array *array) {
    double bytes = (double)dtype_size(array->stored), most = (double)job->memory_bytes;
    char has[32], may[32];
    if (most == 0) most = job->memory_fraction * (double)host_memory().free;
    if (most < CHUNK_ENOUGH) most = CHUNK_ENOUGH;
    for (int i = 0; i < array->chunk.rank; i++) bytes *= (double)array->chunk.size[i];
    if (array->chunk.rank == 0 || bytes <= most) return;
    yaml_error(job->document, input->where, "%s: '%s' has chunks of %s, larger than the memory of %s", input->file,
               input->dataset, size_text(bytes, has), size_text(most, may));
}

/* Applies the key `rows`. false: not all of the rows exist. */
static bool take_rows(const struct job *job, const struct job_input *input, struct array *array) {
    int64_t have = array->shape.size[0];
    bool there =
        input->rows[0] >= 0 && input->rows[1] >= 0 && input->rows[0] <= have && input->rows[1] <= have - input->rows[0];
    if (!there)
        yaml_error(job->document, input->where, "rows [%lld, %lld] are not all in %s, which has %lld rows",
                   (long long)input->rows[0], (long long)input->rows[1], input->dataset, (long long)have);
    array_narrow(array, 0, input->rows[0], input->rows[1]);
    return there;
}

void plan_input(const struct job *job, const struct job_input *input, struct array *array) {
    struct error error = {0};
    enum status status = array_describe(input, array, &error);
    array->first_reader = array->last_reader = -1;
    if (status) {
        yaml_error(job->document, input->where, "%s", error.text);
        return;
    }
    if (!input->random) check_chunk(job, input, array);
    if (input->select.rank && array_select(array, &input->select, &error)) {
        yaml_error(job->document, input->select.where, "%s", error.text);
        return;
    }
    if (array->shape.rank == 0)
        yaml_error(job->document, input->where,
                   "'%s' in %s is a single number; an input must be a vector, a matrix or a stack", input->dataset,
                   input->file);
    if (input->random) return;
    if (input->has_rows && array->shape.rank > 0 && !take_rows(job, input, array)) return;
    if (array_check_mostly_empty(array, &error) || array_check_sources(array, &error))
        yaml_error(job->document, input->where, "%s", error.text);
}
