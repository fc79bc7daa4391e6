/* plan.c - `tilerun plan JOB`: what a run would do, without doing it. */
#include "command.h"

#include <getopt.h>
#include <stdlib.h>

enum { OPTION_RESOLVED = OPTION_OWN };

static enum status plan_command(int argc, char **argv, struct error *error) {
    static const struct option options[] = {OVERRIDE_ALL, {"resolved", no_argument, NULL, OPTION_RESOLVED}, {0}};
    struct command_overrides overrides = {.job = {0}};
    bool resolved = false;
    enum status status = STATUS_OK;
    for (int code; !status && (code = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        if (code == OPTION_RESOLVED)
            resolved = true;
        else
            status = command_override(&command_plan, code, argv, &overrides, error);
    }
    if (!status) status = command_operands(&command_plan, argc, 1, 1, error);
    if (status) return status;
    struct job *job;
    struct plan *plan;
    status = command_load(argv[optind], &overrides.job, false, &job, &plan, error);
    if (!status && resolved) fputs(job->resolved, stdout);
    if (!status && !resolved) plan_print(plan, stdout);
    plan_free(plan);
    job_free(job);
    return status;
}

const struct command command_plan = {
    .name = "plan",
    .arguments = "[OPTION...] JOB",
    .summary = "print each run, its tiles, bytes, flops, memory and predicted lower bound",
    .help = HELP_SET HELP_DEVICE HELP_MEMORY HELP_ONLY HELP_RUNS
    "  --resolved         print the job after parameters, defaults and merges\n",
    .run = plan_command,
};
