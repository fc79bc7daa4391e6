/* reproduce.c - `tilerun reproduce RESULTS`: runs the job of a results file again on the recorded inputs, and reports
 * whether outputs and times are the same, and if not what has changed. */
#include "../base/interrupt.h"
#include "../base/path.h"
#include "../base/text.h"
#include "../compare/compare.h"
#include "../plan/plan_user_kernels.h"
#include "../show/recorded.h"
#include "../show/result_view.h"
#include "command.h"
#include "pin.h"

#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct reproduce_settings {
    struct job_settings job; /* output, device */
    const char *inputs;      /* the folder with the inputs; NULL: their recorded paths */
    double threshold;
    int retry;
    bool keep, overwrite, allow_source;
    enum progress_mode progress;
};

struct reproduction {
    const struct reproduce_settings *settings;
    const char *path; /* of the original results */
    char *folder;     /* the temporary folder of the new results; NULL: they are kept elsewhere */
    char *output;     /* path of the new results */
    char *sources;    /* the temporary folder of user kernels; NULL: the job has none */
    struct results_file *base, *new;
};

/* ---- the place of the new results -------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *about, int type, struct FTW *level) {
    (void)about, (void)type, (void)level;
    return remove(path);
}

/* Makes a temporary folder beside the results or, if that folder is read-only, in TMPDIR. STATUS_USAGE: neither can be
 * made. */
static enum status make_folder(struct reproduction *r, struct error *error) {
    const char *given = getenv("TMPDIR"), *elsewhere = given && *given ? given : "/tmp";
    r->folder = path_beside(r->path, ".tilerun-reproduce-XXXXXX");
    if (mkdtemp(r->folder)) return STATUS_OK;
    free(r->folder);
    r->folder = must_printf("%s/tilerun-reproduce-XXXXXX", elsewhere);
    if (mkdtemp(r->folder)) return STATUS_OK;
    int number = errno;
    free(r->folder);
    r->folder = NULL;
    return fail(error, STATUS_USAGE,
                "%s: no temporary folder can be made beside it or in %s: %s; -o FILE writes the new results elsewhere",
                r->path, elsewhere, strerror(number));
}

/* "results/run.h5" -> "results/run.reproduced.h5" */
static char *kept_name(const char *path) {
    const char *suffix = path_suffix(path);
    return must_printf("%.*s.reproduced%s", (int)(suffix - path), path, *suffix ? suffix : ".h5");
}

/* Sets r->output: the file that -o or --keep names, else one in a temporary folder. */
static enum status choose_output(struct reproduction *r, struct error *error) {
    if (r->settings->job.overrides.output) {
        r->output = must_strdup(r->settings->job.overrides.output);
    } else if (r->settings->keep) {
        r->output = kept_name(r->path);
    } else {
        TRY(make_folder(r, error));
        r->output = must_printf("%s/out.h5", r->folder);
    }
    return STATUS_OK;
}

/* ---- the second run ---------------------------------------------------------------------------------------------- */

/* Makes the job that the results record, writing to r->output, with its recorded sources and inputs. Sets *job in any
 * case; the caller frees it. Planning prints mistakes in the job. */
static enum status load_job(struct reproduction *r, struct job **job, struct error *error) {
    OWNED char *text = results_file_job(r->base, true);
    *job = NULL;
    const char *standing = r->base->standing;
    if (!text) return fail(error, STATUS_USAGE, "%s: %s", r->path, standing ? standing : "holds no job to run again");
    struct job_overrides overrides = {.output = r->output, .device = r->settings->job.overrides.device};
    *job = job_parse(r->path, text, &overrides);
    /* Runs the variants that a search has found, instead of searching again. */
    OWNED char *only = pin_only(*job, r->base->rows, r->base->count);
    bool names_variants = strchr(only, ':') != NULL;
    if (names_variants) {
        job_free(*job);
        overrides.only = only;
        overrides.winners = true;
        *job = job_parse(r->path, text, &overrides);
    }
    for (int i = 0; i < (*job)->operation_count; i++) { /* do not write the original's files */
        struct job_operation *operation = &(*job)->operations[i];
        free(operation->to_file);
        operation->to_file = NULL;
    }
    if (yaml_error_count((*job)->document) > 0) return STATUS_OK; /* planning prints what is wrong */
    TRY(recorded_sources_place(r->base, *job, &r->sources, error));
    return recorded_inputs_find(r->base, *job, r->settings->inputs, error);
}

/* Do the samples leave open whether a run's time differs from the original's? */
static bool is_unsure(void *context, const struct result_row *row, const struct samples *samples) {
    const struct reproduction *r = context;
    struct run_pair pair = {.base = comparison_partner(r->base, row), .new = row};
    FREED_BY(samples_free) struct samples base = {0};
    if (!pair.base || results_file_samples(r->base, pair.base, &base, IGNORED)) return false;
    run_pair_judge(&pair, &base, samples, r->settings->threshold);
    return pair.ratio.verdict == RATIO_UNSURE;
}

/* Executes the job and opens its results as r->new. Failed runs are no error: the comparison names them. */
static enum status run_again(struct reproduction *r, const struct plan *plan, const char *line, struct error *error) {
    const struct execute_options options = {.overwrite = r->settings->overwrite,
                                            .progress = r->settings->progress,
                                            .print = result_print_table,
                                            .single = true,
                                            .retry = r->settings->retry,
                                            .undecided = is_unsure,
                                            .context = r,
                                            .command_line = line};
    FREED_BY(units_release) struct units *units = units_make(plan, 1, SHARD_BY_RUNS);
    enum status status =
        r->folder ? execute_plan(units, &options, NULL, error) : command_execute(units, &options, error);
    if (status == STATUS_RUN && !error->text[0]) status = STATUS_OK; /* some runs failed; the comparison names them */
    return status ? status : command_results_open(r->output, &r->new, error);
}

/* ---- the verdict ------------------------------------------------------------------------------------------------- */

/* Counts of the original's outputs. */
struct tally {
    int outputs, identical, within, differ; /* all; bit for bit; within tolerance; beyond it, or other promised bits */
    int missing;                            /* the new results lack them */
    int gone;                               /* the original has lost them */
    int lost;                               /* runs that succeeded in the original and not now */
    bool same_origin; /* program and device are the same, so variants that promise the same bits must give them */
};

/* Does the run promise the same bits as before? A sum that is split among tiles depends on how much memory is free. */
static bool promises_bits(const struct plan *plan, const struct run_pair *pair) {
    const struct run *run = &plan->runs[pair->new->run];
    const struct geometry *geometry = &plan->tasks[run->task].geometry;
    for (int loop = 0; loop < LOOPS; loop++)
        if (geometry->reduces[loop] && run->tiling.tiles[loop] > 1) return false;
    return run->kernel && !run->kernel->atomic_order;
}

/* Does the context, what differs between the two files, have an entry of this name? */
static bool differs(const struct context *context, const char *what) {
    for (int i = 0; i < context->count; i++)
        if (strcmp(context->items[i].what, what) == 0) return true;
    return false;
}

static bool same_device(const struct comparison *comparison, const struct context *context) {
    return !comparison->other_device && !differs(context, "threads") && !differs(context, "cpu") &&
           !differs(context, "gpu_name");
}

static bool same_program(const struct context *context) {
    return !differs(context, "tool_version") && !differs(context, "git_commit") && !differs(context, "program_hash");
}

/* Counts one output, and notes how it differs. */
static void count_output(const struct plan *plan, struct run_pair *pair, struct tally *tally) {
    char text[160];
    const struct output_difference *output = &pair->output;
    bool promised = tally->same_origin && promises_bits(plan, pair);
    tally->outputs++;
    if (!output->known) {
        tally->missing++;
    } else if (output->identical) {
        tally->identical++;
    } else if (!promised && output->relative <= pair->allowed) {
        tally->within++;
    } else {
        tally->differ++;
        const char *why = promised               ? "this variant promises the same bits every run"
                          : isnan(pair->allowed) ? "no tolerance is recorded"
                                                 : "more than both tolerances allow";
        snprintf(text, sizeof text, "the output differs by %.1e of its largest element: %s", output->relative, why);
        if (!pair->worse) snprintf(pair->note, sizeof pair->note, "%s", text);
        pair->worse = true;
    }
}

/* Counts the output of a run that both files have, if the run succeeded in the original. */
static void count_pair(const struct comparison *comparison, const struct plan *plan, struct run_pair *pair,
                       struct tally *tally) {
    if (!result_row_done(pair->base)) return;
    OWNED char *stored = results_file_output(comparison->base, pair->base);
    OWNED char *gone = results_file_missing(comparison->base, pair->base);
    if (stored && !gone) count_output(plan, pair, tally);
    tally->outputs += gone != NULL;
    tally->gone += gone != NULL;
    tally->lost += !result_row_done(pair->new);
}

/* Counts the original's outputs, also those of runs that the new results lack. */
static struct tally count_outputs(struct comparison *comparison, const struct plan *plan,
                                  const struct context *context) {
    struct tally tally = {.same_origin = same_program(context) && same_device(comparison, context)};
    for (int i = 0; i < comparison->count; i++) count_pair(comparison, plan, &comparison->pairs[i], &tally);
    for (int i = 0; i < comparison->base_only_count; i++) {
        if (!result_row_done(comparison->base_only[i])) continue;
        OWNED char *stored = results_file_output(comparison->base, comparison->base_only[i]);
        tally.outputs += stored != NULL;
        tally.missing += stored != NULL;
        tally.lost++;
    }
    return tally;
}

/* Prints what may have caused the difference. */
static void print_likely_cause(const struct comparison *comparison, const struct context *context,
                               const struct tally *tally) {
    if (comparison->other_device)
        text_print(stdout, "Likely cause: another device ('%s' then, '%s' now).\n",
                   comparison->other_device->base->device_name, comparison->other_device->new->device_name);
    else if (!same_device(comparison, context))
        printf("Likely cause: another device or thread count (listed above).\n");
    if (!same_program(context)) printf("Likely cause: another build of the program (listed above).\n");
    if (tally->same_origin && tally->differ > 0)
        printf(
            "Inputs, program and device are the same: the stored output was changed, or a kernel gives other bits in "
            "each run.\n");
}

/* Prints one line with the counts of outputs and of times. */
static void print_totals(const struct comparison *comparison, const struct tally *tally) {
    printf("outputs: %d of %d identical", tally->identical, tally->outputs);
    if (tally->within) printf(", %d within tolerance", tally->within);
    if (tally->differ) printf(", %d differ", tally->differ);
    if (tally->missing) printf(", %d not made", tally->missing);
    if (tally->gone) printf(", %d gone", tally->gone);
    if (comparison->other_device) {
        printf("; times: not compared, because the device is another one\n");
        return;
    }
    int slower = comparison_count(comparison, RATIO_SLOWER), faster = comparison_count(comparison, RATIO_FASTER);
    int unsure = comparison_count(comparison, RATIO_UNSURE);
    printf("; times: %d same, %d slower", comparison_count(comparison, RATIO_SAME), slower);
    if (faster) printf(", %d faster", faster);
    if (unsure) printf(", %d unsure", unsure);
    printf("\n");
}

/* Compares the new results with the original's, and prints the comparison. STATUS_RUN: an output or a time is worse. */
static enum status judge(const struct reproduction *r, const struct plan *plan, struct error *error) {
    FREED_BY(comparison_free) struct comparison comparison = {0};
    comparison_pair(r->base, r->new, &comparison);
    FREED_BY(context_free) struct context context = context_compare(&comparison);
    context_forget(&context, "command_line"); /* `run` then, `reproduce` now */
    comparison.inputs_differ = false;         /* their values were checked already */
    TRY(comparison_judge(&comparison, &(struct compare_options){r->settings->threshold, true}, error));
    bool other_device = comparison.other_device != NULL;
    for (int i = 0; i < comparison.count && other_device; i++) comparison.pairs[i].ratio.verdict = RATIO_UNKNOWN;
    struct tally tally = count_outputs(&comparison, plan, &context);
    int slower = comparison_count(&comparison, RATIO_SLOWER);
    bool good = tally.differ + tally.missing + tally.lost + slower + comparison_worse(&comparison) == 0;
    context_print(&context, stdout);
    comparisons_print_table(&comparison, 1, false /* in the order of the job */, false /* not Markdown */, stdout);
    comparisons_print_rest(&comparison, 1, stdout);
    if (!good) print_likely_cause(&comparison, &context, &tally);
    print_totals(&comparison, &tally);
    return good ? STATUS_OK : STATUS_RUN;
}

/* Closes the files and removes the temporary folders. */
static void end_reproduction(struct reproduction *r) {
    results_file_close(r->new);
    results_file_close(r->base);
    if (r->folder) nftw(r->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    if (r->sources) nftw(r->sources, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(r->sources);
    free(r->folder);
    free(r->output);
}

/* Runs the recorded job again in a place of its own, and judges what has changed. */
static enum status reproduce(const struct invocation *invocation, struct error *error) {
    FREED_BY(end_reproduction)
    struct reproduction r = {.settings = invocation->settings, .path = invocation->operands[0]};
    FREED_BY(job_release) struct job *job = NULL;
    FREED_BY(plan_release) struct plan *plan = NULL;
    TRY(interrupt_begin(error));
    TRY(command_results_open(r.path, &r.base, error));
    TRY(choose_output(&r, error));
    TRY(load_job(&r, &job, error));
    TRY(command_plan_job(job, true, &plan, error));
    if (r.settings->progress != PROGRESS_NONE) command_begin_log(plan, NULL);
    TRY(command_allow_source(plan, r.settings->allow_source, error));
    TRY(recorded_inputs_check(r.base, plan, error));
    TRY(plan_user_kernels_build(plan, false, error));
    TRY(run_again(&r, plan, invocation->line, error));
    return judge(&r, plan, error);
}

static const struct option_row rows[] = {
    {"inputs", 0, "DIR", "read the inputs from DIR (default: where they were)",
     PARSE_TEXT(struct reproduce_settings, inputs), .kind = WORD_FOLDER},
    {"output", 'o', "FILE", "keep the new results in FILE", PARSE_TEXT(struct reproduce_settings, job.overrides.output),
     .kind = WORD_FILE},
    {"keep", 0, NULL, "keep the new results beside RESULTS, as NAME.reproduced.h5",
     PARSE_FLAG(struct reproduce_settings, keep)},
    {"overwrite", 0, NULL, "replace the file that is kept, if there is one",
     PARSE_FLAG(struct reproduce_settings, overwrite)},
    ROW_THRESHOLD(struct reproduce_settings, threshold),
    ROW_RETRY(struct reproduce_settings, retry, "UNSURE, busy, noisy or not within `until`"),
    ROW_DEVICE(struct reproduce_settings),
    ROW_ALLOW_SOURCE(struct reproduce_settings, allow_source),
    ROW_PROGRESS(struct reproduce_settings, progress),
    {0},
};

const struct command command_reproduce = {
    .name = "reproduce",
    .summary = "Run the job of a results file again and compare outputs and times.",
    .description =
        "The job is the one that ran, with the settings of its command line. Inputs must have the recorded values. "
        "Outputs are compared bit for bit if the variant promises the same bits and program and device are the same, "
        "else within the tolerances. Times are compared as `compare` does. Runs that failed in the original do not "
        "count.\n"
        "\n"
        "The exit code is 1 if an output differs, was not made or is missing from RESULTS, or if a run is slower.\n",
    .operands = {"RESULTS", WORD_RESULTS, .min = 1, .max = 1},
    .rows = rows,
    .settings_bytes = sizeof(struct reproduce_settings),
    .defaults = &(const struct reproduce_settings){.threshold = DEFAULT_THRESHOLD},
    .stops_early = true,
    .run = reproduce,
};
