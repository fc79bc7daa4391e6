/* cmd_plan.c - `tilerun plan JOB`: what a run would do, without doing it. */
#include "command.h"

#include <getopt.h>
#include <stdlib.h>

enum { OPTION_SET = 256, OPTION_DEVICE, OPTION_MEMORY, OPTION_ONLY, OPTION_RESOLVED };

static enum status plan_command(int argc, char **argv, struct error *error) {
    static const struct option options[] = {
        {"set", required_argument, NULL, OPTION_SET},       {"device", required_argument, NULL, OPTION_DEVICE},
        {"memory", required_argument, NULL, OPTION_MEMORY}, {"only", required_argument, NULL, OPTION_ONLY},
        {"resolved", no_argument, NULL, OPTION_RESOLVED},   {0}};
    const char *sets[64];
    struct job_overrides overrides = {.sets = sets};
    bool resolved = false;
    for (int code; (code = getopt_long(argc, argv, ":", options, NULL)) != -1;) switch (code) {
        case OPTION_SET:
            if (overrides.set_count == 64) return fail(error, STATUS_USAGE, "plan: more than 64 --set");
            sets[overrides.set_count++] = optarg;
            break;
        case OPTION_DEVICE: overrides.device = optarg; break;
        case OPTION_MEMORY: overrides.memory = optarg; break;
        case OPTION_ONLY: overrides.only = optarg; break;
        case OPTION_RESOLVED: resolved = true; break;
        default: return command_misused(&command_plan, code, argv, error);
        }
    enum status status = command_operands(&command_plan, argc, 1, 1, error);
    if (status) return status;
    struct job *job;
    struct plan *plan;
    status = command_load(argv[optind], &overrides, false, &job, &plan, error);
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
    .help = "  --set NAME=VALUE   replace a parameter (repeatable; VALUE may be a list: 512,1024)\n"
            "  --device D         auto, cpu, cuda or cuda:N\n"
            "  --memory SIZE      working set on the device: 8GiB, 500MB or 90%\n"
            "  --only ID,...      these operations and what they read\n"
            "  --resolved         print the job after parameters, defaults and merges\n",
    .run = plan_command,
};
