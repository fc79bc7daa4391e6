/* merge.c - `tilerun merge JOB`: joins what the shards of a job have made into its results file. */
#include "../base/interrupt.h"
#include "../execute/execute.h"
#include "command.h"

#include <getopt.h>
#include <stdlib.h>

enum { OPTION_OVERWRITE = OPTION_OWN, OPTION_PROGRESS, OPTION_JSON };

struct merge_arguments {
    struct command_overrides overrides;
    struct execute_options execute;
};

static enum status parse(int argc, char **argv, struct merge_arguments *arguments, struct error *error) {
    static const struct option options[] = {OVERRIDE_ALL,
                                            {"output", required_argument, NULL, 'o'},
                                            {"overwrite", no_argument, NULL, OPTION_OVERWRITE},
                                            {"progress", required_argument, NULL, OPTION_PROGRESS},
                                            {"json", no_argument, NULL, OPTION_JSON},
                                            {0}};
    struct execute_options *wanted = &arguments->execute;
    enum status status = STATUS_OK;
    for (int code; !status && (code = getopt_long(argc, argv, ":o:", options, NULL)) != -1;) switch (code) {
        case 'o': arguments->overrides.job.output = optarg; break;
        case OPTION_OVERWRITE: wanted->overwrite = true; break;
        case OPTION_PROGRESS:
            if (!progress_parse(optarg, &wanted->progress))
                return fail(error, STATUS_USAGE, "merge: --progress is auto, plain or none, not '%s'", optarg);
            break;
        case OPTION_JSON: wanted->print = result_print_json; break;
        default: status = command_override(&command_merge, code, argv, &arguments->overrides, error);
        }
    wanted->restricted = arguments->overrides.job.only != NULL;
    return status ? status : command_operands(&command_merge, argc, 1, 1, error);
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
    struct merge_arguments arguments = {
        .execute = {.print = result_print_table, .resume = true, .merge = true, .single = true}};
    char *line = command_line(argc, argv);
    struct job *job = NULL;
    struct plan *plan = NULL;
    enum status status = interrupt_begin(error);
    if (!status) status = parse(argc, argv, &arguments, error);
    /* It computes nothing: a GPU that the job demands may be missing. */
    if (!status) status = command_load(argv[optind], &arguments.overrides.job, false, &job, &plan, error);
    if (!status) {
        arguments.execute.command_line = line;
        status = join(plan, &arguments.execute, error);
    }
    plan_free(plan);
    job_free(job);
    free(line);
    return status;
}

const struct command command_merge = {
    .name = "merge",
    .arguments = "[OPTION...] JOB",
    .summary = "join what the shards of a job have made (`run --shard`) into one results file",
    /* clang-format off */
    .help = "  -o, --output FILE  the results file, as the shards were given it\n"
            HELP_DEVICE HELP_MEMORY HELP_SET HELP_ONLY HELP_RUNS
            "  --overwrite        replace whatever file is there by what the shards have made\n"
            "  --progress MODE    auto, plain or none\n"
            "  --json             the summary as JSON instead of a table\n"
            "\n"
            "The options that say what the job is must be those of the shards. The file is the\n"
            "one that a single process would have written. If runs are missing, it says which\n"
            "shards lack them and where these ran, and exits with 3; parts of another job,\n"
            "other inputs or another tilerun are named and not taken. It computes nothing; but\n"
            "where the job depends on what devices are there (device: auto), it must run on\n"
            "a machine like those of the shards.\n",
    /* clang-format on */
    .run = merge,
};
