/* plan.c - `tilerun plan JOB`: what a run would do, without doing it. */
#include "../base/table.h"
#include "command.h"
#include "limits_command.h"

#include <getopt.h>
#include <stdlib.h>

enum { OPTION_RESOLVED = OPTION_OWN, OPTION_DETAIL, OPTION_JSON };

static enum status plan_command(int argc, char **argv, struct error *error) {
    static const struct option options[] = {OVERRIDE_ALL,
                                            {"resolved", no_argument, NULL, OPTION_RESOLVED},
                                            {"detail", no_argument, NULL, OPTION_DETAIL},
                                            {"json", no_argument, NULL, OPTION_JSON},
                                            {0}};
    struct command_overrides overrides = {.job = {0}};
    int view = 0;
    enum status status = STATUS_OK;
    for (int code; !status && (code = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        if (code == OPTION_RESOLVED || code == OPTION_DETAIL || code == OPTION_JSON)
            view = code;
        else
            status = command_override(&command_plan, code, argv, &overrides, error);
    }
    if (!status) status = command_operands(&command_plan, argc, 1, 1, error);
    if (status) return status;
    struct job *job;
    struct plan *plan;
    status = command_load(argv[optind], &overrides.job, false, &job, &plan, error);
    if (!status && view != OPTION_RESOLVED) command_predict(plan);
    if (!status) switch (view) {
        case OPTION_RESOLVED: fputs(job->resolved, stdout); break;
        case OPTION_DETAIL: plan_print_detail(plan, stdout); break;
        case OPTION_JSON: plan_print_json(plan, stdout); break;
        default: plan_print_table(plan, table_room(), stdout);
        }
    plan_free(plan);
    job_free(job);
    return status;
}

const struct command command_plan = {
    .name = "plan",
    .arguments = "[OPTION...] JOB",
    .summary = "print each run with its predicted time, memory and share of the machine's limits",
    .help = HELP_SET HELP_DEVICE HELP_MEMORY HELP_ONLY HELP_RUNS
    "  --detail           the tiles, bytes, flops, memory and bound of each run\n"
    "  --json             the predictions as JSON\n"
    "  --resolved         print the job after parameters, defaults and merges\n",
    .run = plan_command,
};
