/* clash.c - compares a destination with the job file and with every file that reading the inputs opens. */
#include "clash.h"

#include "../storage/untrusted/h5guard.h"

enum status clash_check(const struct destination *place, const struct plan *plan, struct error *error) {
    const struct job *job = plan->job;
    if (!place->exists) return STATUS_OK;
    if (path_is_file(job->path, &place->about))
        return fail(error, STATUS_USAGE, "%s %s: is the job file itself", place->kind, place->name);
    for (int i = 0; i < job->input_count; i++) {
        const struct job_input *input = &job->inputs[i];
        if (input->random) continue;
        const char *file;
        for (int number = 0; (file = array_file(&plan->arrays[i], number)); number++) {
            if (path_is_file(file, &place->about))
                return fail(error, STATUS_USAGE,
                            "%s %s: is the job's input '%s'; give another name, with 'output' or -o", place->kind,
                            place->name, input->name);
            if (h5_reads_file(file, input->dataset, &place->about))
                return fail(error, STATUS_USAGE, "%s %s: the job's input '%s' in %s reads from it", place->kind,
                            place->name, input->name, file);
        }
    }
    return STATUS_OK;
}
