/* run.c - `tilerun run JOB`: loads a job, plans it, and executes it whole or one shard of it. */
#include "../base/fail.h"
#include "../base/interrupt.h"
#include "../base/text.h"
#include "../plan/plan_user_kernels.h"
#include "../show/result_view.h"
#include "../store/survey.h"
#include "command.h"
#include "pin.h"
#include "shard_option.h"

#include <stdlib.h>
#include <string.h>

struct run_settings {
    struct job_settings job;
    struct shard shard; /* count 0: the whole job */
    double wait_s;      /* below 0: --wait is not given */
    int retry;
    const char *trace, *pin;
    bool resume, overwrite, json, allow_source, verbose;
    enum progress_mode progress;
};

/* Refuses options that need each other or exclude each other. */
static enum status validate(const void *settings, struct error *error) {
    const struct run_settings *given = settings;
    if (given->retry > 0 && given->job.once)
        return fail(error, STATUS_USAGE, "--retry cannot be combined with --once, which measures no times");
    if (given->pin && given->shard.count > 0)
        return fail(error, STATUS_USAGE, "--pin cannot be combined with --shard: it needs all runs of the job");
    if (given->shard.count > 0) return STATUS_OK;
    if (given->shard.by != SHARD_AUTO) return fail(error, STATUS_USAGE, "--by needs --shard");
    if (given->wait_s >= 0) return fail(error, STATUS_USAGE, "--wait needs --shard");
    return STATUS_OK;
}

/* Prints the notes of the runs, each once, and executes the units. */
static enum status execute(const struct units *units, const struct execute_options *options, struct error *error) {
    const struct plan *plan = units->whole;
    OWNED char *latest = must_strdup("");
    for (int i = 0; i < plan->run_count; i++) {
        const struct run *run = &plan->runs[i];
        if (!run->note) continue;
        char *line = must_printf("%s: %s", plan->tasks[run->task].operation->id, run->note);
        if (strcmp(line, latest) != 0)
            text_print_stderr("tilerun: %s\n", line); /* once for the combinations of a sweep */
        free(latest);
        latest = line;
    }
    return command_execute(units, options, error);
}

/* Does a whole job. Long operations are divided into panels, so that an interrupted job keeps the finished panels. With
 * --resume a job that shards have begun is divided as they divided it, so that their results are found. */
static enum status execute_whole(const struct plan *whole, const struct execute_options *options, struct error *error) {
    enum shard_by by = SHARD_AUTO;
    int divided = 1;
    const int any = 0; /* number of shards */
    bool found = options->resume && shards_find_division(whole->job->output, whole->job, any, &divided, &by);
    FREED_BY(units_release) struct units *units = units_make(whole, divided, found ? by : SHARD_CHECKPOINTED);
    return execute(units, options, error);
}

/* Does one shard of the job, or reports that it has nothing to do. */
static enum status execute_shard(const struct plan *whole, struct shard shard, struct execute_options options,
                                 struct error *error) {
    shard.divided = shard.count;
    if (options.resume) shards_find_division(whole->job->output, whole->job, shard.count, &shard.divided, &shard.by);
    FREED_BY(units_release) struct units *units = units_make(whole, shard.divided, shard.by);
    const struct plan *plan = &units->plan;
    OWNED int *shard_of_task = shard_split(plan, shard.count);
    shard.shard_of_task = shard_of_task;
    options.shard = &shard;
    int runs = shard_runs(&shard, plan);
    enum status status = runs > 0             ? execute(units, &options, error)
                         : options.unreadable ? fail(error, STATUS_IO, "%s", options.unreadable)
                                              : STATUS_OK;
    if (runs == 0)
        text_print_stderr("tilerun: shard %d of %d has nothing to do: the job can be divided among fewer shards only\n",
                          shard.index, shard.count);
    return status;
}

/* Loads, plans and executes the job or a shard of it; then writes the pinned job, if one is wanted. */
static enum status run(const struct invocation *invocation, struct error *error) {
    const struct run_settings *settings = invocation->settings;
    struct job_settings loaded = settings->job;
    loaded.overrides.tolerant = settings->shard.count > 0;
    struct execute_options options = {
        .overwrite = settings->overwrite,
        .resume = settings->resume,
        .wait_s = settings->wait_s < 0 ? DEFAULT_WAIT_S : settings->wait_s,
        .retry = settings->retry,
        .restricted = settings->job.overrides.only != NULL,
        .progress = settings->progress,
        .trace = settings->trace,
        .command_line = invocation->line,
        .print = settings->json ? result_print_json : result_print_table,
        .shows = true,
    };
    FREED_BY(job_release) struct job *job = NULL;
    FREED_BY(plan_release) struct plan *plan = NULL;
    FREED_BY(atomic_file_discard) struct atomic_file pin = {.descriptor = -1};
    TRY(interrupt_begin(error));
    TRY(command_load(invocation->operands[0], &loaded, true, &job, &plan, error));
    options.unreadable = job->unreadable;
    if (options.progress != PROGRESS_NONE) command_begin_log(plan, &settings->shard);
    command_report_excluded(job);
    TRY(command_allow_source(plan, settings->allow_source, error));
    if (settings->pin) TRY(pin_open(job, plan, settings->pin, settings->overwrite, &pin, error));
    TRY(plan_user_kernels_build(plan, settings->verbose, error));
    if (!settings->job.once)
        TRY(command_predict_measured(plan, command_cuda_number(job), options.progress != PROGRESS_NONE, error));
    enum status status = settings->shard.count > 0 ? execute_shard(plan, settings->shard, options, error)
                                                   : execute_whole(plan, &options, error);
    if (settings->pin && (status == STATUS_OK || (status == STATUS_RUN && !error->text[0])))
        TRY(pin_write(job, &settings->job.overrides, &pin, error));
    return status;
}

static const struct option_row rows[] = {
    {"output", 'o', "FILE", "write the results to FILE (default: the job's `output`, or NAME.h5 here)",
     PARSE_TEXT(struct run_settings, job.overrides.output), .kind = WORD_FILE},
    ROWS_JOB(struct run_settings),
    {"resume", 0, NULL, "keep what an interrupted or failed run of this job finished",
     PARSE_FLAG(struct run_settings, resume)},
    {"shard", 0, "I/N",
     "do share I (from 0) of N of the job's runs and leave the rest to other processes; `merge` joins them. auto takes "
     "I/N from Slurm, Open MPI or PMI. A shard waits for inputs that shards with lower numbers make",
     .parse = option_shard, .field = offsetof(struct run_settings, shard), CHOICES("auto")},
    ROW_BY(struct run_settings, shard.by,
           "divide the job into whole operations with all their variants, or divide large operations into panels of "
           "the result as well, by tiles (default: tiles if there are more shards than operations, or if whole "
           "operations leave them uneven)"),
    {"wait", 0, "SECONDS",
     "wait at most this long for a result of another shard, then exit with 75 (default: 86400, a day)",
     .parse = option_seconds, FIELD_OF(struct run_settings, wait_s, double)},
    ROW_RETRY(struct run_settings, retry, "busy, noisy or not within `until`"),
    {"overwrite", 0, NULL, "replace an existing FILE; without --resume also discard finished runs",
     PARSE_FLAG(struct run_settings, overwrite)},
    {"pin", 0, "FILE", "then write the job to FILE with the fastest combination of each `search` in its place",
     PARSE_TEXT(struct run_settings, pin), .kind = WORD_FILE},
    ROW_ALLOW_SOURCE(struct run_settings, allow_source),
    {"verbose", 0, NULL, "compile kernels of the job's own anew, and print what their compilers warn of",
     PARSE_FLAG(struct run_settings, verbose)},
    {"trace", 0, "FILE", "write a timeline of every stage of every step, for Perfetto or chrome://tracing",
     PARSE_TEXT(struct run_settings, trace), .kind = WORD_FILE},
    ROW_PROGRESS(struct run_settings, progress),
    {"json", 0, NULL, "print the summary as JSON instead of a table", PARSE_FLAG(struct run_settings, json)},
    {0},
};

const struct command command_run = {
    .name = "run",
    .summary = "Run a job: stream its inputs through its kernels, verify, time, and write one results file.",
    .operands = {"JOB", WORD_JOB, .min = 1, .max = 1},
    .rows = rows,
    .settings_bytes = sizeof(struct run_settings),
    .defaults = &(const struct run_settings){.wait_s = -1},
    .validate = validate,
    .stops_early = true,
    .run = run,
};
