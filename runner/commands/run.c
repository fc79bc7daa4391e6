/* run.c - `tilerun run JOB`: job -> plan -> stream -> result. */
#include "../base/fail.h"
#include "../base/interrupt.h"
#include "../base/text.h"
#include "../execute/execute.h"
#include "../show/result_view.h"
#include "command.h"
#include "limits_command.h"
#include "shard_option.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPTION_RESUME = OPTION_OWN,
    OPTION_OVERWRITE,
    OPTION_TRACE,
    OPTION_PROGRESS,
    OPTION_JSON,
    OPTION_SHARD,
    OPTION_BY,
    OPTION_WAIT
};

struct run_arguments {
    struct command_overrides overrides;
    struct execute_options execute;
    struct shard shard; /* count 0: the whole job */
};

static enum status parse(int argc, char **argv, struct run_arguments *arguments, struct error *error) {
    static const struct option options[] = {OVERRIDE_ALL,
                                            {"output", required_argument, NULL, 'o'},
                                            {"resume", no_argument, NULL, OPTION_RESUME},
                                            {"overwrite", no_argument, NULL, OPTION_OVERWRITE},
                                            {"progress", required_argument, NULL, OPTION_PROGRESS},
                                            {"json", no_argument, NULL, OPTION_JSON},
                                            {"shard", required_argument, NULL, OPTION_SHARD},
                                            {"by", required_argument, NULL, OPTION_BY},
                                            {"wait", required_argument, NULL, OPTION_WAIT},
                                            {"trace", required_argument, NULL, OPTION_TRACE},
                                            {0}};
    struct execute_options *wanted = &arguments->execute;
    enum status status = STATUS_OK;
    for (int code; !status && (code = getopt_long(argc, argv, ":o:", options, NULL)) != -1;) switch (code) {
        case 'o': arguments->overrides.job.output = optarg; break;
        case OPTION_RESUME: wanted->resume = true; break;
        case OPTION_OVERWRITE: wanted->overwrite = true; break;
        case OPTION_TRACE: wanted->trace = optarg; break;
        case OPTION_SHARD:
            status = command_shard(&command_run, optarg, &arguments->shard.index, &arguments->shard.count, error);
            break;
        case OPTION_BY: status = command_shard_by(&command_run, optarg, &arguments->shard.by, error); break;
        case OPTION_WAIT: status = command_shard_wait(&command_run, optarg, &wanted->wait_s, error); break;
        case OPTION_PROGRESS:
            if (!progress_parse(optarg, &wanted->progress))
                return fail(error, STATUS_USAGE, "run: --progress is auto, plain or none, not '%s'", optarg);
            break;
        case OPTION_JSON: wanted->print = result_print_json; break;
        default: status = command_override(&command_run, code, argv, &arguments->overrides, error);
        }
    wanted->restricted = arguments->overrides.job.only != NULL;
    if (!status && arguments->shard.by != SHARD_AUTO && arguments->shard.count == 0)
        return fail(error, STATUS_USAGE, "run: --by says what --shard deals out; there is no --shard");
    if (!status && wanted->wait_s >= 0 && arguments->shard.count == 0)
        return fail(error, STATUS_USAGE, "run: --wait says how long a shard waits for another; there is no --shard");
    if (wanted->wait_s < 0) wanted->wait_s = SHARD_WAIT_S;
    return status ? status : command_operands(&command_run, argc, 1, 1, error);
}

static enum status execute(const struct plan *plan, const struct run_arguments *arguments, struct error *error) {
    struct result_row *rows = must_malloc((unsigned long)plan->run_count * sizeof *rows + 1);
    for (int i = 0; i < plan->run_count; i++) {
        if (plan->runs[i].note)
            text_say("tilerun: %s: %s\n", plan->tasks[plan->runs[i].task].operation->id, plan->runs[i].note);
    }
    bool wrote;
    enum status status = execute_plan(plan, &arguments->execute, rows, &wrote, error);
    bool done = status == STATUS_OK || status == STATUS_RUN;
    int own = done ? result_rows_own(rows, plan->run_count) : 0;
    if (done) arguments->execute.print(rows, own, stdout);
    if (done && wrote && arguments->execute.progress != PROGRESS_NONE) command_name_output(plan->job->output);
    free(rows);
    return status;
}

static void print_nothing(const struct result_row *rows, int count, FILE *to) {
    (void)rows, (void)count, (void)to;
}

/* Does a whole job: operations that take long by panels, which are then joined as those of shards are. */
static enum status execute_whole(const struct plan *whole, struct run_arguments *arguments, struct error *error) {
    struct execute_options *options = &arguments->execute, asked = *options;
    struct panels *panels = panels_make(whole, 1, SHARD_CHECKPOINTED);
    enum status status = STATUS_OK;
    if (panels_divide(panels)) {
        int *of_task = must_malloc((unsigned long)panels->plan.task_count * sizeof *of_task);
        memset(of_task, 0, (unsigned long)panels->plan.task_count * sizeof *of_task);
        const struct shard all = {.count = 1, .by = SHARD_CHECKPOINTED, .of_task = of_task};
        options->panels = panels;
        options->shard = &all;
        options->print = print_nothing;
        status = execute(&panels->plan, arguments, error);
        free(of_task);
        *options = asked;
        options->panels = panels;
        options->merge = options->resume = true;
        options->trace = NULL;
        if (status == STATUS_RUN && !error->text[0]) status = STATUS_OK; /* the joined rows say so again */
    }
    if (!status) status = execute(whole, arguments, error);
    panels_free(panels);
    return status;
}

/* Does one shard of the job, or says that it has nothing to do. */
static enum status execute_shard(const struct plan *whole, struct run_arguments *arguments, struct error *error) {
    struct shard *shard = &arguments->shard;
    bool say = arguments->execute.progress != PROGRESS_NONE;
    struct panels *panels = panels_make(whole, shard->count, shard->by);
    const struct plan *plan = panels_divide(panels) ? &panels->plan : whole;
    if (plan != whole) arguments->execute.panels = panels;
    shard->of_task = shard_split(plan, shard->count);
    arguments->execute.shard = shard;
    int runs = shard_runs(shard, plan);
    enum status status = runs > 0 ? execute(plan, arguments, error) : STATUS_OK;
    if (runs == 0)
        text_say("tilerun: shard %d of %d has nothing to do: the job divides into fewer\n", shard->index, shard->count);
    else if (say && (status == STATUS_OK || status == STATUS_RUN))
        text_say("tilerun: shard %d of %d has done %d of %d runs; `tilerun merge %s` joins them\n", shard->index,
                 shard->count, runs, plan->run_count, plan->job->output);
    free(shard->of_task);
    panels_free(panels);
    return status;
}

static enum status run(int argc, char **argv, struct error *error) {
    struct run_arguments arguments = {.execute = {.print = result_print_table, .wait_s = -1}};
    char *line = command_line(argc, argv);
    struct job *job = NULL;
    struct plan *plan = NULL;
    enum status status = interrupt_begin(error);
    if (!status) status = parse(argc, argv, &arguments, error);
    if (!status) status = command_load(argv[optind], &arguments.overrides.job, true, &job, &plan, error);
    if (!status) {
        arguments.execute.command_line = line;
        bool say = arguments.execute.progress != PROGRESS_NONE;
        if (!arguments.overrides.once) status = command_predict_measured(plan, command_cuda_number(job), say, error);
        if (!status && arguments.shard.count > 0)
            status = execute_shard(plan, &arguments, error);
        else if (!status)
            status = execute_whole(plan, &arguments, error);
    }
    plan_free(plan);
    job_free(job);
    free(line);
    return status;
}

const struct command command_run = {
    .name = "run",
    .arguments = "[OPTION...] JOB",
    .summary = "run a job: stream its inputs through its kernels, verify, time, write one results file",
    /* clang-format off */
    .help = "  -o, --output FILE  the results file (default: the job's `output`, or NAME.h5 here)\n"
            HELP_DEVICE HELP_MEMORY HELP_SET HELP_ONLY HELP_RUNS
            "  --resume           keep what an interrupted or failed run of this job finished\n"
            "  --shard I/N        do share I, from 0, of N of the job's runs and leave the rest to\n"
            "                     other processes; `merge` joins them. auto takes I/N from Slurm,\n"
            "                     Open MPI or PMI. A shard waits for what it reads of shards with\n"
            "                     lower numbers\n"
            "  --by runs|tiles    what is dealt out: whole operations with all their variants, or, of\n"
            "                     large ones, panels of the result as well (default: panels if there\n"
            "                     are more shards than operations, or whole ones leave them uneven)\n"
            "  --wait SECONDS     how long a shard waits for a result of another before it exits with 75\n"
            "                     (default: 86400, a day)\n"
            "  --overwrite        replace whatever file is there; without --resume finished runs too\n"
            "  --trace FILE       a timeline of every stage of every step, for Perfetto or chrome://tracing\n"
            "  --progress MODE    auto, plain or none\n"
            "  --json             the summary as JSON instead of a table\n",
    /* clang-format on */
    .run = run,
};
