/* merge.c - `tilerun merge RESULTS`: joins the results of a job's shards into one results file. */
#include "../base/interrupt.h"
#include "../base/text.h"
#include "../show/result_view.h"
#include "../store/survey.h"
#include "command.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct merge_settings {
    bool overwrite, link, partial, json, allow_source;
    enum progress_mode progress;
};

/* Loads the job as the shards have resolved it; planning leaves out what can no longer be read (`tolerant`). Results
 * record the text of the job file (`verbatim`). The output is `path`, that of the command line. */
static struct job *load_job(const char *path, const struct shard_job *found) {
    struct job *job = job_parse(found->path, found->resolved, &(struct job_overrides){.tolerant = true});
    job->verbatim = must_strdup(found->text);
    free(job->output);
    job->output = must_strdup(path);
    return job;
}

/* Prints the results file, where no shard has left a manifest, and removes the leftovers of a killed merge.
 * STATUS_USAGE: there is no results file either. STATUS_RUN: runs in it failed. */
static enum status show_done(const char *path, const struct execute_options *options, struct error *error) {
    FREED_BY(results_file_release) struct results_file *file = NULL;
    OWNED char *word = text_shell_word(path);
    if (access(path, F_OK) != 0)
        return fail(error, STATUS_USAGE,
                    "merge: %s.parts holds no results of shards; `tilerun run JOB -o %s --shard I/N` makes them", path,
                    word);
    TRY(command_results_open(path, &file, error));
    results_sweep(path);
    OWNED char *outcome = results_file_text(file, "/", "status");
    bool failed = outcome && strcmp(outcome, "failed") == 0;
    if (options->progress != PROGRESS_NONE)
        text_print_stderr("tilerun: %s is %s, and there are no results of shards beside it: nothing to do\n", path,
                          failed    ? "complete, with failed runs"
                          : outcome ? outcome
                                    : "unfinished");
    options->print(file->rows, file->count, stdout);
    return failed ? STATUS_RUN : STATUS_OK;
}

/* Rebuilds the shards' job and devices from their manifests, and publishes what the shards have finished. */
static enum status merge(const struct invocation *invocation, struct error *error) {
    const struct merge_settings *settings = invocation->settings;
    OWNED char *path = command_output_of(invocation->operands[0]);
    struct execute_options options = {.overwrite = settings->overwrite,
                                      .link = settings->link,
                                      .partial = settings->partial,
                                      .progress = settings->progress,
                                      .print = settings->json ? result_print_json : result_print_table,
                                      .shows = true,
                                      .resume = true,
                                      .merge = true,
                                      .single = true,
                                      .command_line = invocation->line};
    FREED_BY(shard_job_free) struct shard_job found = {.partial = false};
    TRY(interrupt_begin(error));
    if (options.progress != PROGRESS_NONE) command_begin_log(NULL, NULL);
    TRY(parts_check_readable(path, error));
    if (!shards_find_job(path, &found)) return show_done(path, &options, error);
    FREED_BY(job_release) struct job *job = load_job(path, &found);
    FREED_BY(plan_release) struct plan *plan = NULL;
    const struct device_facts *cuda = found.present[DEVICE_CUDA] ? &found.facts[DEVICE_CUDA] : NULL;
    enum status status = command_plan_for(job, &found.facts[DEVICE_CPU], cuda, &plan, error);
    options.restricted = found.partial;
    options.later = found.later;
    options.unreadable = job->unreadable;
    if (job->unreadable) command_report_remarks(job);
    if (status == STATUS_USAGE)
        text_print_message("merge opens the job's inputs, to check that they are those of the shards");
    TRY(status);
    TRY(command_allow_source(plan, settings->allow_source, error));
    FREED_BY(units_release) struct units *units = units_make(plan, found.divided, found.by);
    return command_execute(units, &options, error);
}

static const struct option_row rows[] = {
    {"overwrite", 0, NULL, "replace any file at RESULTS by the shards' results",
     PARSE_FLAG(struct merge_settings, overwrite)},
    {"link", 0, NULL,
     "leave the outputs in RESULTS.parts, which must then stay beside RESULTS, and link to them: takes seconds instead "
     "of a copy",
     PARSE_FLAG(struct merge_settings, link)},
    {"partial", 0, NULL,
     "publish what the shards have finished, with the status `partial`; RESULTS.parts stays, so that they can go on "
     "and merge can join the rest",
     PARSE_FLAG(struct merge_settings, partial)},
    ROW_ALLOW_SOURCE(struct merge_settings, allow_source),
    ROW_PROGRESS(struct merge_settings, progress),
    {"json", 0, NULL, "print the summary as JSON instead of a table", PARSE_FLAG(struct merge_settings, json)},
    {0},
};

const struct command command_merge = {
    .name = "merge",
    .summary = "Join the results of a job's shards (`run --shard`) into one results file.",
    .description =
        "RESULTS is the name that the shards were given with -o. The job, its options and its devices are those of "
        "the shards, so any machine that sees the job's inputs and its results can merge; it computes nothing. The "
        "file is the one that a single process would have written; /shards records where each run was done. If runs "
        "are missing, merge names the shards that lack them and where these ran, and exits with 3. It names parts of "
        "another job, other inputs or another tilerun, and ignores them.\n"
        "\n"
        "The outputs of a linked file are virtual data sets, which HDF5's tools read like any other. It can be moved "
        "together with RESULTS.parts. Without RESULTS.parts it has no outputs, and show, compare and the others report "
        "that and exit with 2. `merge --overwrite` without --link copies the outputs into the file and removes the "
        "parts.\n",
    .operands = {"RESULTS", WORD_RESULTS, .min = 1, .max = 1},
    .rows = rows,
    .settings_bytes = sizeof(struct merge_settings),
    .stops_early = true,
    .run = merge,
};
