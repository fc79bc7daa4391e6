/* fuzz_job.c - any bytes as a job file: it becomes a plan or complaints. The job's canonical text is a job again, with
 * the same plan. */
#include "fuzz.h"

static struct device_facts cpu(void) {
    return (struct device_facts){.kind = DEVICE_CPU,
                                 .name = "fuzzed",
                                 .id = "cpu",
                                 .team = 1,
                                 .memory_free = 1 << 30,
                                 .host_threads = 2,
                                 .multiprocessors = 2,
                                 .read_bytes_per_s = 1e9,
                                 .write_bytes_per_s = 1e9};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_begin();
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    struct job_overrides none = {0};
    struct job *job = job_parse("job.yaml", text, &none);
    struct device_facts facts = cpu();
    struct plan *plan = NULL;
    if (plan_make(job, &facts, NULL, &plan) == STATUS_OK) {
        if (yaml_error_count(job->document) > 0) abort();
        plan_print_json(plan, stdout);
        struct job *again = job_parse("job.yaml", job->resolved, &none);
        if (yaml_error_count(again->document) > 0 || strcmp(again->resolved, job->resolved) != 0) abort();
        job_free(again);
    }
    plan_free(plan);
    job_free(job);
    free(text);
    fuzz_end();
    return 0;
}
