/* plan.c - `tilerun plan JOB`: what a run would do, without doing it. */
#include "../base/table.h"
#include "command.h"
#include "limits_command.h"
#include "plan_shards.h"
#include "plan_table.h"
#include "shard_option.h"

#include <getopt.h>
#include <stdlib.h>

enum { OPTION_RESOLVED = OPTION_OWN, OPTION_DETAIL, OPTION_JSON, OPTION_SHARDS, OPTION_BY, OPTION_BANDWIDTH };

struct view {
    int kind;                     /* OPTION_RESOLVED, OPTION_DETAIL, OPTION_JSON; 0: the table */
    struct division_terms shards; /* shards.shards 0: of runs, not of shards */
};

static enum status read_bandwidth(const char *text, double *bytes_per_s, struct error *error) {
    int64_t bytes;
    double fraction;
    char message[256];
    if (!job_parse_memory(text, &bytes, &fraction, message) || bytes == 0)
        return fail(error, STATUS_USAGE, "plan: --bandwidth is bytes a second, such as 40GB, not '%s'", text);
    *bytes_per_s = (double)bytes;
    return STATUS_OK;
}

static enum status check_view(const struct view *view, struct error *error) {
    const struct division_terms *shards = &view->shards;
    if (shards->shards > 0 && view->kind != 0 && view->kind != OPTION_JSON)
        return fail(error, STATUS_USAGE, "plan: --shards goes with --json, not with --%s",
                    view->kind == OPTION_DETAIL ? "detail" : "resolved");
    if (shards->shards == 0 && (shards->by != SHARD_AUTO || shards->bytes_per_s > 0))
        return fail(error, STATUS_USAGE, "plan: --%s goes with --shards",
                    shards->by != SHARD_AUTO ? "by" : "bandwidth");
    return STATUS_OK;
}

static void print_shards(const struct plan *plan, const struct view *view) {
    if (view->kind == OPTION_JSON)
        plan_print_shards_json(plan, &view->shards, stdout);
    else
        plan_print_shards(plan, &view->shards, table_room(), stdout);
}

static void print_runs(struct plan *plan, int kind) {
    if (kind != OPTION_RESOLVED) command_predict(plan);
    switch (kind) {
    case OPTION_RESOLVED: fputs(plan->job->resolved, stdout); break;
    case OPTION_DETAIL: plan_print_detail(plan, stdout); break;
    case OPTION_JSON: plan_print_json(plan, stdout); break;
    default: plan_print_table(plan, table_room(), stdout);
    }
}

static enum status plan_command(int argc, char **argv, struct error *error) {
    static const struct option options[] = {OVERRIDE_ALL,
                                            {"resolved", no_argument, NULL, OPTION_RESOLVED},
                                            {"detail", no_argument, NULL, OPTION_DETAIL},
                                            {"json", no_argument, NULL, OPTION_JSON},
                                            {"shards", required_argument, NULL, OPTION_SHARDS},
                                            {"by", required_argument, NULL, OPTION_BY},
                                            {"bandwidth", required_argument, NULL, OPTION_BANDWIDTH},
                                            {0}};
    struct command_overrides overrides = {.job = {0}};
    struct view view = {0};
    enum status status = STATUS_OK;
    for (int code; !status && (code = getopt_long(argc, argv, ":", options, NULL)) != -1;) switch (code) {
        case OPTION_RESOLVED:
        case OPTION_DETAIL:
        case OPTION_JSON: view.kind = code; break;
        case OPTION_SHARDS:
            status = command_shard_count(&command_plan, "--shards", optarg, &view.shards.shards, error);
            break;
        case OPTION_BY: status = command_shard_by(&command_plan, optarg, &view.shards.by, error); break;
        case OPTION_BANDWIDTH: status = read_bandwidth(optarg, &view.shards.bytes_per_s, error); break;
        default: status = command_override(&command_plan, code, argv, &overrides, error);
        }
    if (!status) status = check_view(&view, error);
    if (!status) status = command_operands(&command_plan, argc, 1, 1, error);
    if (status) return status;
    struct job *job;
    struct plan *plan;
    status = command_load(argv[optind], &overrides.job, false, &job, &plan, error);
    if (!status && view.shards.shards > 0)
        print_shards(plan, &view);
    else if (!status)
        print_runs(plan, view.kind);
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
    "  --shards N         a row for each of N shards: runs, bytes and predicted time of each; how\n"
    "                     even they are, and how many shards are of use\n"
    "  --by runs|tiles    with --shards: what is dealt out, as for `run`\n"
    "  --bandwidth RATE   with --shards: bytes a second that the file system gives to all shards\n"
    "                     together, such as 40GB (default: 3GB reading, 1.5GB writing)\n"
    "  --resolved         print the job after parameters, defaults and merges\n",
    .run = plan_command,
};
