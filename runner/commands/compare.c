/* compare.c - `tilerun compare BASE NEW...`: which runs became faster or slower, and which results became worse. */
#include "../compare/compare.h"
#include "../base/text.h"
#include "command.h"

#include <stdlib.h>

enum compare_format { FORMAT_TABLE, FORMAT_MARKDOWN, FORMAT_CSV, FORMAT_JSON };

struct compare_settings {
    double threshold;
    enum compare_format format;
    struct option_list where;
    bool sort, any_device, no_outputs, strict;
};

/* Reports that two files were measured on different devices. Returns STATUS_USAGE. */
static enum status refuse_other_device(const struct comparison *comparison, struct error *error) {
    const struct run_pair *pair = comparison->other_device;
    const char *base = pair->base->device_name, *new = pair->new->device_name;
    return fail(error, STATUS_USAGE,
                "%s was measured on '%s', %s on '%s': times of two devices do not show the effect of a change; "
                "--any-device compares them anyway",
                comparison->base->path, *base ? base : "another device", comparison->new->path,
                *new ? new : "another device");
}

/* The open files and what is computed from them. */
struct compared_files {
    int count; /* number of new files */
    struct results_file *base, **news;
    struct comparison *comparisons;
    struct context *contexts;
};

/* Opens the file `path` and compares it with the base, as the next entry of `compared`. */
static enum status compare_one(struct compared_files *compared, const char *path,
                               const struct compare_settings *settings, struct error *error) {
    int number = compared->count;
    TRY(command_results_open(path, &compared->news[number], error));
    struct comparison *comparison = &compared->comparisons[number];
    compared->count++;
    comparison_pair(compared->base, compared->news[number], comparison);
    compared->contexts[number] = context_compare(comparison);
    if (comparison->other_device && !settings->any_device) return refuse_other_device(comparison, error);
    if (settings->where.count > 0)
        TRY(comparison_filter(comparison, settings->where.items, settings->where.count, error));
    const struct compare_options options = {.threshold = settings->threshold, .outputs = !settings->no_outputs};
    return comparison_judge(comparison, &options, error);
}

/* Closes the files and frees what was computed. */
static void compared_free(struct compared_files *compared) {
    for (int i = 0; i < compared->count; i++) {
        context_free(&compared->contexts[i]);
        comparison_free(&compared->comparisons[i]);
        results_file_close(compared->news[i]);
    }
    free(compared->contexts);
    free(compared->comparisons);
    free(compared->news);
    results_file_close(compared->base);
}

/* Prints the comparisons for people: the files, their contexts, the table, the counts. In Markdown all but the table is
 * quoted: lines below a table would be rows of it. */
static void print_tables(const struct compared_files *compared, bool sort, bool markdown) {
    const char *quote = markdown ? "```\n" : "";
    fputs(quote, stdout);
    for (int i = 0; i < compared->count; i++) {
        comparison_print_files(&compared->comparisons[i], stdout);
        context_print(&compared->contexts[i], stdout);
    }
    fputs(quote, stdout);
    comparisons_print_table(compared->comparisons, compared->count, sort, markdown, stdout);
    fputs(quote, stdout);
    comparisons_print_rest(compared->comparisons, compared->count, stdout);
    for (int i = 0; i < compared->count; i++) {
        if (compared->count > 1) text_print(stdout, "%s: ", compared->news[i]->path);
        comparison_print_counts(&compared->comparisons[i], stdout);
    }
    fputs(quote, stdout);
}

/* The number of results of the base that the new file has no run for. */
static int results_lost(const struct comparison *comparison) {
    int lost = 0;
    for (int i = 0; i < comparison->base_only_count; i++) lost += result_row_done(comparison->base_only[i]);
    return lost;
}

/* The exit status: STATUS_RUN if a run became slower or worse or, if `strict`, is undecided or lost. STATUS_USAGE: two
 * files have no run in common, which must not look like success. */
static enum status verdict(const struct compared_files *compared, bool strict, struct error *error) {
    bool bad = false;
    for (int i = 0; i < compared->count; i++) {
        const struct comparison *comparison = &compared->comparisons[i];
        int lost = strict ? results_lost(comparison) : 0;
        if (comparison->count == 0)
            return fail(error, STATUS_USAGE, "%s and %s have no run in common", comparison->base->path,
                        comparison->new->path);
        if (lost > 0)
            return fail(error, STATUS_RUN, "%d result%s of %s %s no run in %s", lost, lost == 1 ? "" : "s",
                        comparison->base->path, lost == 1 ? "has" : "have", comparison->new->path);
        bad |= comparison_count(comparison, RATIO_SLOWER) > 0 || comparison_worse(comparison) > 0;
        bad |= strict && comparison_count(comparison, RATIO_UNSURE) > 0;
    }
    return bad ? STATUS_RUN : STATUS_OK; /* the table has the reason */
}

/* Compares each new file with the base and prints the comparisons in the wanted format. */
static enum status compare(const struct invocation *invocation, struct error *error) {
    const struct compare_settings *settings = invocation->settings;
    size_t count = (size_t)invocation->count - 1;
    FREED_BY(compared_free)
    struct compared_files compared = {.news = must_malloc(count * sizeof *compared.news),
                                      .comparisons = must_malloc(count * sizeof *compared.comparisons),
                                      .contexts = must_malloc(count * sizeof *compared.contexts)};
    TRY(command_results_open(invocation->operands[0], &compared.base, error));
    for (int i = 1; i < invocation->count; i++) TRY(compare_one(&compared, invocation->operands[i], settings, error));
    bool history = compared.count > 1 && settings->format <= FORMAT_MARKDOWN;
    for (int i = 0; settings->sort && !history && i < compared.count; i++) comparison_sort(&compared.comparisons[i]);
    if (settings->format == FORMAT_CSV)
        comparisons_print_csv(compared.comparisons, compared.count, stdout);
    else if (settings->format == FORMAT_JSON)
        comparisons_print_json(compared.comparisons, compared.contexts, compared.count, settings->threshold, stdout);
    else
        print_tables(&compared, settings->sort, settings->format == FORMAT_MARKDOWN);
    return verdict(&compared, settings->strict, error);
}

static const struct option_row rows[] = {
    ROW_THRESHOLD(struct compare_settings, threshold),
    {"sort", 0, NULL, "print worse results first, then the slowest runs", PARSE_FLAG(struct compare_settings, sort)},
    {"any-device", 0, NULL, "compare times of different devices too", PARSE_FLAG(struct compare_settings, any_device)},
    {"no-outputs", 0, NULL, "do not read the stored outputs", PARSE_FLAG(struct compare_settings, no_outputs)},
    {"where", 0, "COLUMN=VALUE", "compare only these runs (repeatable; also != < <= > >=), as for `show`",
     PARSE_LIST(struct compare_settings, where)},
    {"strict", 0, NULL, "exit with 1 if a verdict is UNSURE or NEW lacks a result of BASE, too",
     PARSE_FLAG(struct compare_settings, strict)},
    {"md", 0, NULL, "print the table in GitHub's Markdown",
     PARSE_NUMBER(struct compare_settings, format, FORMAT_MARKDOWN)},
    {"csv", 0, NULL, "print a line for each pair, comma-separated",
     PARSE_NUMBER(struct compare_settings, format, FORMAT_CSV)},
    {"json", 0, NULL, "print all numbers as JSON", PARSE_NUMBER(struct compare_settings, format, FORMAT_JSON)},
    {0},
};

const struct command command_compare = {
    .name = "compare",
    .summary = "Compare the times and outputs of the same runs in several results files.",
    .description =
        "Runs are paired by operation, variant, parameters, shape, type and kind of device. The ratio is the new "
        "median divided by the base's. Its 95 % interval comes from order statistics of the samples (Price and Bonett "
        "2002; successive equal samples count once) and is widened by the difference between two processes: 1 % on a "
        "GPU, 2 % on a CPU, and 1.5 us where the clock is too coarse for the samples.\n"
        "\n"
        "Where both files have the clock of the device, the ratio is one of clock cycles: a card that had to lower its "
        "clock is not slower. Of runs that memory limits, and where the clock of each sample is not known, times must "
        "be slower or faster as well.\n"
        "\n"
        "SLOWER, FASTER: the interval excludes 1 and the ratio is beyond the threshold.\n"
        "SAME: the interval is within the threshold.\n"
        "UNSURE: neither. +N: N more samples of each would settle it; floor: more samples would not help, because two "
        "processes differ by as much; single: a run has one sample; busy: other processes used the CPUs during a run, "
        "which is then neither faster nor slower.\n"
        "noisy, beside a verdict: the interval of the ratio, or of a run's median, is wider than 25 %; bimodal: the "
        "samples of a run form two groups.\n"
        "WORSE: the result failed, is missing from a file, has another shape or type, or exceeds the tolerances.\n"
        "\n"
        "`run --retry N` measures busy and noisy runs again; `reproduce --retry N` also those that are UNSURE.\n"
        "\n"
        "The exit code is 1 if a run is slower or a result is worse.\n",
    .operands = {"BASE NEW...", WORD_RESULTS, .min = 2, .max = -1},
    .rows = rows,
    .settings_bytes = sizeof(struct compare_settings),
    .defaults = &(const struct compare_settings){.threshold = DEFAULT_THRESHOLD},
    .run = compare,
};
