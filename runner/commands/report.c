/* report.c - `tilerun report RESULTS...`: writes results as one HTML page, or the first of its plots. */
#include "../report/report.h"
#include "../base/atomic_file.h"
#include "../base/text.h"
#include "command.h"
#include "results_open.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct report_settings {
    const char *output; /* NULL: default_output */
    bool overwrite;
};

/* "NAME.html" for a results file "DIR/NAME.h5". The caller frees. */
static char *default_output(const char *results) {
    const char *slash = strrchr(results, '/'), *name = slash ? slash + 1 : results, *dot = strrchr(name, '.');
    int length = dot && dot > name && strcmp(dot, ".h5") == 0 ? (int)(dot - name) : (int)strlen(name);
    return must_printf("%.*s.html", length, name);
}

/* Refuses a page that would replace one of the results files, even with --overwrite or before that file exists. */
static enum status check_apart(const char *name, char *const results[], int count, struct error *error) {
    struct destination page, other;
    enum status status = destination_find("report", name, &page, error);
    for (int i = 0; i < count && !status; i++) {
        status = destination_find("results", results[i], &other, error);
        if (!status && destination_same(&page, &other))
            status = fail(error, STATUS_USAGE, "report %s: is one of the results files", name);
        destination_free(&other);
    }
    destination_free(&page);
    return status;
}

static bool is_plot(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot && strcmp(dot, ".svg") == 0;
}

static enum status write_file(const char *name, bool overwrite, struct results_file *const *files, char *const names[],
                              int count, struct error *error) {
    struct atomic_file page;
    TRY(check_apart(name, names, count, error));
    const char *beginning = is_plot(name) ? report_plot_beginning : report_beginning;
    enum status status = atomic_file_open("report", name, beginning, overwrite, &page, error);
    if (!status) status = atomic_file_begin(&page, error);
    if (!status) status = (is_plot(name) ? report_write_plot : report_write)(files, count, page.to, error);
    if (status) {
        atomic_file_discard(&page);
        return status;
    }
    TRY(atomic_file_close(&page, error));
    text_print_stderr("tilerun: report %s\n", name);
    return STATUS_OK;
}

static enum status write_output(const char *output, bool overwrite, struct results_file *const *files,
                                char *const names[], int count, struct error *error) {
    if (output && strcmp(output, "-") == 0) return report_write(files, count, stdout, error);
    char *name = output ? must_strdup(output) : default_output(names[0]);
    enum status status = write_file(name, overwrite, files, names, count, error);
    free(name);
    return status;
}

static enum status report(const struct invocation *invocation, struct error *error) {
    const struct report_settings *settings = invocation->settings;
    int count = invocation->count, opened = 0;
    struct results_file **files = must_malloc((size_t)count * sizeof *files);
    enum status status = STATUS_OK;
    while (opened < count && !status) {
        status = command_results_open(invocation->operands[opened], &files[opened], error);
        opened += status == STATUS_OK;
    }
    if (!status)
        status = write_output(settings->output, settings->overwrite, files, invocation->operands, count, error);
    for (int i = 0; i < opened; i++) results_file_close(files[i]);
    free(files);
    return status;
}

static const struct option_row rows[] = {
    {"output", 'o', "FILE",
     "write the page to FILE (default: NAME.html here, for NAME.h5); - is standard output; NAME.svg gets the first "
     "plot "
     "of rates alone, for other pages",
     TAKE_TEXT(struct report_settings, output), .kind = WORD_FILE},
    {"overwrite", 0, NULL, "replace a FILE that is no report; an earlier report is replaced anyway",
     TAKE_FLAG(struct report_settings, overwrite)},
    {0},
};

const struct command command_report = {
    .name = "report",
    .summary = "Write results as one HTML page: tables, plots, the job, where it ran.",
    .description = "The page needs no network and no other file. Several RESULTS are shown together, as A, B, ...\n",
    .operands = {"RESULTS...", WORD_RESULTS, .least = 1, .most = -1},
    .rows = rows,
    .settings_bytes = sizeof(struct report_settings),
    .run = report,
};
