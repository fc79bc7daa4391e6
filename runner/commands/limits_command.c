/* limits_command.c - limits of the devices: kept ones, and measured now. */
#include "limits_command.h"

#include "../base/clock.h"
#include "../base/text.h"
#include "../limits/limits_file.h"
#include "../limits/limits_measure.h"
#include "../record/environment.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Names the build: another one may have other kernels. The caller frees. */
static char *program(void) {
    return must_printf("%s %s %s", tilerun_version, tilerun_git_commit, tilerun_program_hash());
}

struct device_limits *command_limits(const struct device_facts *facts) {
    char *name = program();
    struct device_limits *limits = limits_load(facts, name);
    free(name);
    return limits;
}

enum status command_measure(const struct device_facts *facts, int number, bool say, struct device_limits **limits,
                            struct error *error) {
    double begin = now_s();
    if (say) text_print_stderr("tilerun: measuring the limits of %s, once", facts->id);
    fflush(stderr);
    enum status status = limits_measure(number, limits, error);
    if (say) fprintf(stderr, status ? ": not done\n" : " (%.1f s)\n", now_s() - begin);
    if (status) return status;
    char *name = program();
    if (!limits_save(facts, name, *limits) && say)
        text_print_stderr("tilerun: the limits cannot be kept: %s\n", strerror(errno));
    free(name);
    return STATUS_OK;
}

void command_predict(struct plan *plan) {
    for (int kind = 0; kind < 2; kind++)
        if (plan->present[kind]) plan_use_limits(plan, (enum kernel_device)kind, command_limits(&plan->facts[kind]));
}

/* Does the job time anything there? For results alone nobody should wait for the device to be measured. */
static bool times(const struct plan *plan, enum kernel_device kind) {
    for (int i = 0; i < plan->run_count; i++) {
        const struct run *run = &plan->runs[i];
        const struct run_options *options = &plan->tasks[run->task].operation->run;
        if (!run->skip && run->device == kind && job_is_timed(options)) return true;
    }
    return false;
}

enum status command_predict_measured(struct plan *plan, int cuda_number, bool say, struct error *error) {
    command_predict(plan);
    for (int kind = 0; kind < 2; kind++) {
        struct device_limits *limits = NULL;
        if (!plan->present[kind] || plan->facts[kind].limits || !times(plan, (enum kernel_device)kind)) continue;
        int number = kind == DEVICE_CUDA ? cuda_number : -1;
        enum status status = command_measure(&plan->facts[kind], number, say, &limits, error);
        if (status == STATUS_INTERRUPTED) return status;
        if (status) {
            text_print_stderr("tilerun: %s\n", error->text);
            *error = (struct error){.status = STATUS_OK};
        }
        plan_use_limits(plan, (enum kernel_device)kind, limits);
    }
    return STATUS_OK;
}
