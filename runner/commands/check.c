/* cmd_check.c - `tilerun check JOB...`: is a job good? Silent when it is. */
#include "../result/result.h"
#include "command.h"

#include <getopt.h>

static enum status check(int argc, char **argv, struct error *error) {
    static const struct option options[] = {{"set", required_argument, NULL, 's'}, {0}};
    const char *sets[64];
    struct job_overrides overrides = {.sets = sets};
    for (int code; (code = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        if (code != 's') return command_misused(&command_check, code, argv, error);
        if (overrides.set_count == 64) return fail(error, STATUS_USAGE, "check: more than 64 --set");
        sets[overrides.set_count++] = optarg;
    }
    enum status worst = command_operands(&command_check, argc, 1, -1, error);
    if (worst) return worst;
    for (int i = optind; i < argc; i++) {
        struct job *job;
        struct plan *plan;
        enum status status = command_load(argv[i], &overrides, false, &job, &plan, error);
        struct error clash = {.status = STATUS_OK};
        if (!status) status = results_check_output(job->output, plan, &clash);
        if (clash.text[0]) fprintf(stderr, "%s: %s\n", argv[i], clash.text);
        if (status) worst = status;
        plan_free(plan);
        job_free(job);
    }
    return worst;
}

const struct command command_check = {
    .name = "check",
    .arguments = "[--set NAME=VALUE]... JOB...",
    .summary = "parse, resolve and shape-check jobs and open their inputs; silent when good",
    .help = "  --set NAME=VALUE   replace a parameter (repeatable; VALUE may be a list: 512,1024)\n",
    .run = check,
};
