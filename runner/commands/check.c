/* check.c - `tilerun check JOB...`: is a job good? Silent when it is. */
#include "../base/text.h"
#include "../store/store.h"
#include "command.h"

#include <getopt.h>

static enum status check(int argc, char **argv, struct error *error) {
    static const struct option options[] = {OVERRIDE_SET, {0}};
    struct command_overrides overrides = {.job = {0}};
    enum status worst = STATUS_OK;
    for (int code; !worst && (code = getopt_long(argc, argv, ":", options, NULL)) != -1;)
        worst = command_override(&command_check, code, argv, &overrides, error);
    if (!worst) worst = command_operands(&command_check, argc, 1, -1, error);
    if (worst) return worst;
    for (int i = optind; i < argc; i++) {
        struct job *job;
        struct plan *plan;
        enum status status = command_load(argv[i], &overrides.job, false, &job, &plan, error);
        struct error clash = {.status = STATUS_OK};
        if (!status) status = results_check_output(job->output, plan, &clash);
        if (clash.text[0]) text_say("%s: %s\n", argv[i], clash.text);
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
    .help = HELP_SET,
    .run = check,
};
