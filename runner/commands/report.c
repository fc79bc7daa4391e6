/* report.c - `tilerun report RESULTS...`: writes results as one HTML page, or the first of its plots. */
#include "../report/report.h"
#include "../base/atomic_file.h"
#include "../base/destination.h"
#include "../base/path.h"
#include "../base/text.h"
#include "command.h"

#include <string.h>

struct report_settings {
    const char *output; /* NULL: default_output */
    bool overwrite;
};

/* "NAME.html" for a results file "DIR/NAME.h5". The caller frees. */
static char *default_output(const char *results) {
    OWNED char *stem = path_stem(results);
    return must_printf("%s.html", strcmp(path_suffix(results), ".h5") == 0 ? stem : path_name(results));
}

/* Refuses a page that would replace one of the results files, even with --overwrite or before that file exists. */
static enum status check_apart(const char *name, char *const results[], int count, struct error *error) {
    FREED_BY(destination_free) struct destination page = {0};
    TRY(destination_find("report", name, &page, error));
    for (int i = 0; i < count; i++) {
        FREED_BY(destination_free) struct destination other = {0};
        TRY(destination_find("results", results[i], &other, error));
        if (destination_same(&page, &other))
            return fail(error, STATUS_USAGE, "report %s: is one of the results files", name);
    }
    return STATUS_OK;
}

static bool is_plot(const char *name) {
    return strcmp(path_suffix(name), ".svg") == 0;
}

/* STATUS_USAGE: the name ends in the suffix of a format that `report` cannot write. */
static enum status check_format(const char *name, struct error *error) {
    static const char *const others[] = {".png", ".pdf", ".jpg", ".jpeg", ".eps", ".ps", ".gif", ".tif", ".webp"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(path_suffix(name), others[i]) == 0)
            return fail(error, STATUS_USAGE,
                        "report %s: the name must end in .html (a report) or .svg (its first plot)", name);
    return STATUS_OK;
}

/* Writes the page; two files are compared. */
static enum status write_page(struct results_file *const *files, int count, FILE *to, struct error *error) {
    static const struct compare_options options = {.threshold = DEFAULT_THRESHOLD};
    if (count != 2) return report_write(files, count, NULL, to, error);
    FREED_BY(comparison_free) struct comparison comparison = {0};
    comparison_pair(files[0], files[1], &comparison);
    TRY(comparison_judge(&comparison, &options, error));
    return report_write(files, count, &comparison, to, error);
}

/* Writes the report to the file `name`, whole or not at all; `names`: of the results files. */
static enum status write_file(const char *name, bool overwrite, struct results_file *const *files, char *const names[],
                              int count, struct error *error) {
    FREED_BY(atomic_file_discard) struct atomic_file page = {.descriptor = -1};
    TRY(check_format(name, error));
    TRY(check_apart(name, names, count, error));
    const char *beginning = is_plot(name) ? report_plot_beginning : report_beginning;
    TRY(atomic_file_open("report", name, beginning, overwrite, &page, error));
    TRY(atomic_file_begin(&page, error));
    TRY((is_plot(name) ? report_write_plot : write_page)(files, count, page.to, error));
    TRY(atomic_file_close(&page, error));
    text_print_stderr("tilerun: report %s\n", name);
    return STATUS_OK;
}

static enum status write_output(const char *output, bool overwrite, struct results_file *const *files,
                                char *const names[], int count, struct error *error) {
    if (output && strcmp(output, "-") == 0) return write_page(files, count, stdout, error);
    OWNED char *name = output ? must_strdup(output) : default_output(names[0]);
    return write_file(name, overwrite, files, names, count, error);
}

/* Opens the results files and writes the report. */
static enum status report(const struct invocation *invocation, struct error *error) {
    const struct report_settings *settings = invocation->settings;
    int count = invocation->count, opened = 0;
    OWNED struct results_file **files = must_malloc((size_t)count * sizeof *files);
    enum status status = STATUS_OK;
    while (opened < count && !status) {
        status = command_results_open(invocation->operands[opened], &files[opened], error);
        opened += status == STATUS_OK;
    }
    if (!status)
        status = write_output(settings->output, settings->overwrite, files, invocation->operands, count, error);
    for (int i = 0; i < opened; i++) results_file_close(files[i]);
    return status;
}

static const struct option_row rows[] = {
    {"output", 'o', "FILE",
     "write the page to FILE (default: NAME.html here, for NAME.h5); - is standard output; NAME.svg gets the first "
     "plot of rates alone, for other pages",
     PARSE_TEXT(struct report_settings, output), .kind = WORD_FILE},
    {"overwrite", 0, NULL, "replace a FILE that is not a report; an earlier report needs no --overwrite",
     PARSE_FLAG(struct report_settings, overwrite)},
    {0},
};

const struct command command_report = {
    .name = "report",
    .summary = "Write results as one HTML page: tables, plots, the job, where it ran.",
    .description = "The page needs no network and no other file. Several RESULTS are shown together, as A, B, ...\n",
    .operands = {"RESULTS...", WORD_RESULTS, .min = 1, .max = -1},
    .rows = rows,
    .settings_bytes = sizeof(struct report_settings),
    .run = report,
};
