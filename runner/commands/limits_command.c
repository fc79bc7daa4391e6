/* limits_command.c - loads, measures and stores the limits of devices. */
#include "../base/cpu_load.h"
#include "../base/fail.h"
#include "../base/text.h"
#include "../limits/limits_file.h"
#include "../limits/limits_measure.h"
#include "command.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

struct device_limits *command_limits(const struct device_facts *facts) {
    return limits_load(facts, limits_program(facts->kind));
}

enum status command_measure(const struct device_facts *facts, int number, bool again, bool verbose,
                            struct device_limits **limits, struct error *error) {
    const char *name = limits_program(facts->kind);
    /* Two processes that measure at once would halve each other's limits. */
    OWNED_DESCRIPTOR int lock = limits_lock(facts, name);
    *limits = again ? NULL : limits_load(facts, name);
    if (*limits) return STATUS_OK;
    if (verbose)
        text_print_stderr("tilerun: measuring the limits of %s, once: about %.1f s\n", facts->id, LIMITS_SECONDS);
    struct cpu_load load = cpu_load_now();
    TRY(limits_measure(number, limits, error));
    const struct cpu_load after = cpu_load_now();
    if (verbose && facts->kind == DEVICE_CPU && cpu_load_is_busy(&load, &after))
        text_print_stderr("tilerun: other processes used the CPUs meanwhile, so the limits may be too low; "
                          "`tilerun devices --measure` measures them again\n");
    if (limits_save(facts, name, *limits) || !verbose) return STATUS_OK;
    const char *why = strerror(errno);
    OWNED char *path = limits_path(facts, name);
    text_print_stderr("tilerun: the limits cannot be stored%s%s: %s\n", path ? " in " : "", path ? path : "",
                      path ? why : "neither XDG_CACHE_HOME nor HOME is set to a folder");
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
        enum status status = command_measure(&plan->facts[kind], number, false, verbose, &limits, error);
        if (status == STATUS_INTERRUPTED) return status;
        if (status) {
            text_print_stderr("tilerun: %s\n", error->text);
            *error = (struct error){.status = STATUS_OK};
        }
        plan_use_limits(plan, (enum kernel_device)kind, limits);
    }
    return STATUS_OK;
}
