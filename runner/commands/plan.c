/* plan.c - `tilerun plan JOB`: predicts what a run would do, without running it. */
#include "../base/table.h"
#include "command.h"
#include "plan_print.h"
#include "shard_option.h"

enum plan_view { VIEW_TABLE, VIEW_DETAIL, VIEW_JSON, VIEW_RESOLVED };

struct plan_settings {
    struct job_settings job;
    enum plan_view view;
    struct division_terms division; /* shards 0: --shards is not given */
};

/* For option_row.parse: stores bytes a second, "40GB", as a double. */
static enum status option_bandwidth(const struct option_row *row, const char *argument, void *field,
                                    struct error *error) {
    int64_t bytes;
    double fraction;
    if (job_parse_memory(argument, &bytes, &fraction, IGNORED) || bytes == 0)
        return fail(error, STATUS_USAGE, "--%s must be bytes a second, such as 40GB, not '%s'", row->name, argument);
    *(double *)field = (double)bytes;
    return STATUS_OK;
}

/* Refuses options of shards without --shards, and views that shards do not have. */
static enum status validate(const void *settings, struct error *error) {
    const struct plan_settings *given = settings;
    const struct division_terms *division = &given->division;
    if (division->shards > 0 && (given->view == VIEW_DETAIL || given->view == VIEW_RESOLVED))
        return fail(error, STATUS_USAGE, "--shards cannot be combined with --%s, only with --json",
                    given->view == VIEW_DETAIL ? "detail" : "resolved");
    if (division->shards == 0 && (division->by != SHARD_AUTO || division->bytes_per_s > 0))
        return fail(error, STATUS_USAGE, "--%s needs --shards", division->by != SHARD_AUTO ? "by" : "bandwidth");
    return STATUS_OK;
}

static void print_shards(const struct plan *plan, const struct plan_settings *settings) {
    if (settings->view == VIEW_JSON)
        plan_print_shards_json(plan, &settings->division, stdout);
    else
        plan_print_shards(plan, &settings->division, table_terminal_width(), stdout);
}

static void print_runs(struct plan *plan, enum plan_view view) {
    if (view != VIEW_RESOLVED) command_predict(plan);
    switch (view) {
    case VIEW_TABLE: plan_print_table(plan, table_terminal_width(), stdout); break;
    case VIEW_DETAIL: plan_print_detail(plan, stdout); break;
    case VIEW_JSON: plan_print_json(plan, stdout); break;
    case VIEW_RESOLVED: fputs(plan->job->resolved, stdout); break;
    }
}

/* Plans the job and prints its runs, or its shards. */
static enum status plan_command(const struct invocation *invocation, struct error *error) {
    const struct plan_settings *settings = invocation->settings;
    FREED_BY(job_release) struct job *job = NULL;
    FREED_BY(plan_release) struct plan *plan = NULL;
    TRY(command_load(invocation->operands[0], &settings->job, false, &job, &plan, error));
    command_report_excluded(job);
    if (settings->division.shards > 0)
        print_shards(plan, settings);
    else
        print_runs(plan, settings->view);
    return STATUS_OK;
}

static const struct option_row rows[] = {
    ROWS_JOB(struct plan_settings),
    {"detail", 0, NULL, "print the tiles, bytes, flops, memory and bound of each run",
     PARSE_NUMBER(struct plan_settings, view, VIEW_DETAIL)},
    {"json", 0, NULL, "print the predictions as JSON", PARSE_NUMBER(struct plan_settings, view, VIEW_JSON)},
    {"shards", 0, "N",
     "print a row for each of N shards: its runs, bytes and predicted time; then how even they are, and how many "
     "shards make the job faster",
     .parse = option_shard_count, FIELD_OF(struct plan_settings, division.shards, int)},
    ROW_BY(struct plan_settings, division.by, "with --shards: how to divide the job, as for `run`"),
    {"bandwidth", 0, "RATE",
     "with --shards: bytes a second that the file system gives to all shards together, such as 40GB (default: 3GB for "
     "reads, 1.5GB for writes)",
     .parse = option_bandwidth, FIELD_OF(struct plan_settings, division.bytes_per_s, double)},
    {"resolved", 0, NULL, "print the job after parameters, defaults and merges",
     PARSE_NUMBER(struct plan_settings, view, VIEW_RESOLVED)},
    {0},
};

const struct command command_plan = {
    .name = "plan",
    .summary = "Print each run with its predicted time, memory and share of the machine's limits.",
    .operands = {"JOB", WORD_JOB, .min = 1, .max = 1},
    .rows = rows,
    .settings_bytes = sizeof(struct plan_settings),
    .validate = validate,
    .run = plan_command,
};
