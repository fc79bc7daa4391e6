/* merge.c - `tilerun merge RESULTS`: joins what the shards of a job have made into its results file. */
#include "../base/interrupt.h"
#include "../base/text.h"
#include "../execute/execute.h"
#include "../show/result_file.h"
#include "../show/result_view.h"
#include "command.h"
#include "results_open.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPTION_OVERWRITE = OPTION_OWN, OPTION_LINK, OPTION_PROGRESS, OPTION_JSON };

static enum status parse(int argc, char **argv, struct execute_options *wanted, struct error *error) {
    static const struct option options[] = {{"overwrite", no_argument, NULL, OPTION_OVERWRITE},
                                            {"link", no_argument, NULL, OPTION_LINK},
                                            {"progress", required_argument, NULL, OPTION_PROGRESS},
                                            {"json", no_argument, NULL, OPTION_JSON},
                                            {0}};
    for (int code; (code = getopt_long(argc, argv, ":", options, NULL)) != -1;) switch (code) {
        case OPTION_OVERWRITE: wanted->overwrite = true; break;
        case OPTION_LINK: wanted->link = true; break;
        case OPTION_PROGRESS:
            if (!progress_parse(optarg, &wanted->progress))
                return fail(error, STATUS_USAGE, "merge: --progress is auto, plain or none, not '%s'", optarg);
            break;
        case OPTION_JSON: wanted->print = result_print_json; break;
        default: return command_misused(&command_merge, code, argv, error);
        }
    return command_operands(&command_merge, argc, 1, 1, error);
}

/* The job as the shards run it, whose text stays theirs: the output is the same file by whatever name. */
static struct job *load_job(const char *path, const struct shard_job *found) {
    struct job *job = job_parse(found->path, found->resolved, &(struct job_overrides){.output = NULL});
    job->verbatim = must_strdup(found->text);
    free(job->output);
    job->output = must_strdup(path);
    return job;
}

/* No shard has left its note: a file that is done is shown, and what a killed merge had still to remove goes. */
static enum status show_done(const char *path, const struct execute_options *options, struct error *error) {
    struct results_file *file;
    if (access(path, F_OK) != 0)
        return fail(error, STATUS_USAGE,
                    "merge: no shard has left anything in %s.parts; `tilerun run JOB -o %s --shard I/N` makes the "
                    "parts that are joined here",
                    path, path);
    TRY(command_results_open(path, &file, error));
    results_sweep(path);
    char *outcome = results_file_text(file, "/", "status");
    bool failed = outcome && strcmp(outcome, "failed") == 0;
    if (options->progress != PROGRESS_NONE)
        text_say("tilerun: %s is %s, and no shard has left anything beside it: nothing to do\n", path,
                 failed    ? "complete, with failed runs"
                 : outcome ? outcome
                           : "unfinished");
    options->print(file->rows, file->count, stdout);
    free(outcome);
    results_file_close(file);
    return failed ? STATUS_RUN : STATUS_OK;
}

static enum status join(const struct plan *plan, const struct execute_options *options, struct error *error) {
    struct result_row *rows = must_malloc((unsigned long)plan->run_count * sizeof *rows + 1);
    bool wrote;
    enum status status = execute_plan(plan, options, rows, &wrote, error);
    bool done = status == STATUS_OK || status == STATUS_RUN;
    if (done) options->print(rows, plan->run_count, stdout);
    if (done && wrote && options->progress != PROGRESS_NONE) command_name_output(plan->job->output);
    free(rows);
    return status;
}

static enum status merge(int argc, char **argv, struct error *error) {
    struct execute_options options = {.print = result_print_table, .resume = true, .merge = true, .single = true};
    char *line = command_line(argc, argv);
    struct shard_job found = {.partial = false};
    struct job *job = NULL;
    struct plan *plan = NULL;
    enum status status = interrupt_begin(error);
    if (!status) status = parse(argc, argv, &options, error);
    const char *path = argv[optind];
    options.command_line = line;
    if (!status && !shards_find_job(path, &found)) {
        status = show_done(path, &options, error);
    } else if (!status) {
        options.restricted = found.partial;
        options.later = found.later;
        job = load_job(path, &found);
        const struct device_facts *cuda = found.present[DEVICE_CUDA] ? &found.facts[DEVICE_CUDA] : NULL;
        status = command_plan_for(job, &found.facts[DEVICE_CPU], cuda, &plan, error);
        struct panels *panels = status ? NULL : panels_make(plan, found.shards, found.by);
        if (panels && panels_divide(panels)) options.panels = panels;
        if (!status) status = join(plan, &options, error);
        panels_free(panels);
    }
    plan_free(plan);
    job_free(job);
    shard_job_free(&found);
    free(line);
    return status;
}

const struct command command_merge = {
    .name = "merge",
    .arguments = "[OPTION...] RESULTS",
    .summary = "join what the shards of a job have made (`run --shard`) into one results file",
    /* clang-format off */
    .help = "  --overwrite        replace whatever file is there by what the shards have made\n"
            "  --link             leave the outputs in RESULTS.parts, which must then stay beside\n"
            "                     RESULTS, and show them there: seconds instead of a copy\n"
            "  --progress MODE    auto, plain or none\n"
            "  --json             the summary as JSON instead of a table\n"
            "\n"
            "RESULTS is the name that the shards were given with -o. The job, its options and\n"
            "the devices that it is planned for are those of the shards, so that any machine\n"
            "that sees the file system will do; nothing is computed. The file is the one that\n"
            "a single process would have written; /shards says where each run was done. If\n"
            "runs are missing, it says which shards lack them and where these ran, and exits\n"
            "with 3; parts of another job, other inputs or another tilerun are named and not\n"
            "taken.\n"
            "\n"
            "The outputs of a linked file are virtual data sets, which HDF5's tools read like\n"
            "any other. It may be moved together with RESULTS.parts; without it, it has no\n"
            "outputs, and show, compare and the others say so and exit with 2. merge\n"
            "--overwrite without --link makes a file of copies of it and removes the parts.\n",
    /* clang-format on */
    .run = merge,
};
