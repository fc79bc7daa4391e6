/* limits_command.c - loads, measures and stores the limits of devices. */
#include "limits_command.h"

#include "../base/clock.h"
#include "../base/text.h"
#include "../limits/limits_file.h"
#include "../limits/limits_measure.h"
#include "../record/environment.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Names the build, because another one may have other kernels. The caller frees. */
static char *build_name(void) {
    return must_printf("%s %s %s", tilerun_version, tilerun_git_commit, tilerun_program_hash());
}

struct device_limits *command_limits(const struct device_facts *facts) {
    char *name = build_name();
    struct device_limits *limits = limits_load(facts, name);
    free(name);
    return limits;
}

enum status command_measure(const struct device_facts *facts, int number, bool verbose, struct device_limits **limits,
                            struct error *error) {
    double begin = now_s();
    if (verbose) text_print_stderr("tilerun: measuring the limits of %s, once", facts->id);
    fflush(stderr);
    enum status status = limits_measure(number, limits, error);
    if (verbose) fprintf(stderr, status ? ": failed\n" : " (%.1f s)\n", now_s() - begin);
    if (status) return status;
    char *name = build_name();
    if (!limits_save(facts, name, *limits) && verbose)
        text_print_stderr("tilerun: the limits cannot be stored: %s\n", strerror(errno));
    free(name);
    return STATUS_OK;
}

void command_predict(struct plan *plan) {
    for (int kind = 0; kind < 2; kind++)
        if (plan->present[kind]) plan_use_limits(plan, (enum kernel_device)kind, command_limits(&plan->facts[kind]));
}

/* Does the job time runs on this kind of device? If not, it does not wait for a measurement. */
static bool is_timed_on(const struct plan *plan, enum kernel_device kind) {
    for (int i = 0; i < plan->run_count; i++) {
        const struct run *run = &plan->runs[i];
        const struct run_options *options = &plan->tasks[run->task].operation->run;
        if (!run->skip && run->device == kind && job_is_timed(options)) return true;
    }
    return false;
}

enum status command_predict_measured(struct plan *plan, int cuda_number, bool verbose, struct error *error) {
    command_predict(plan);
    for (int kind = 0; kind < 2; kind++) {
        struct device_limits *limits = NULL;
        if (!plan->present[kind] || plan->facts[kind].limits || !is_timed_on(plan, (enum kernel_device)kind)) continue;
        int number = kind == DEVICE_CUDA ? cuda_number : -1;
        enum status status = command_measure(&plan->facts[kind], number, verbose, &limits, error);
        if (status == STATUS_INTERRUPTED) return status;
        if (status) {
            text_print_stderr("tilerun: %s\n", error->text);
            *error = (struct error){.status = STATUS_OK};
        }
        plan_use_limits(plan, (enum kernel_device)kind, limits);
    }
    return STATUS_OK;
}
