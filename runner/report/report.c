/* report.c - writes the page: what ran, on what, from which files, and the sections that have something to show; or the
 * first plot alone. */
#include "report.h"

#include "../base/fail.h"
#include "../record/environment.h"
#include "report_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEVICES_NAMED = 6, MAX_MESSAGES = 20 }; /* in the head of the page */

const char report_plot_beginning[] = "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"tilerun\"";
const char report_beginning[] = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                                "<meta name=\"generator\" content=\"tilerun report";

static const struct section {
    const char *id, *title, *class;
    void (*write)(const struct report *report, FILE *to);
} sections[] = {
    {"speed", "Speed", "figures", report_speed},
    {"limits", "Limits and accuracy", "figures", report_limits},
    {"runs", "All runs", "table", report_runs},
    {"job", "Job", "text", report_jobs},
    {"facts", "Environment and inputs", "table", report_facts},
};
enum { SECTIONS = sizeof sections / sizeof *sections };

/* ---- what is reported ---- */

static void report_free(struct report *report) {
    for (int f = 0; f < report->file_count; f++) view_free(report->files[f].view);
    for (int i = 0; i < report->count; i++) free(report->runs[i].deviation);
    swept_free(&report->swept);
    free(report->variants);
    free(report->files);
    free(report->runs);
}

/* Adds the runs of file number `number` to the report, with their samples. */
static enum status add_file(struct report *report, int number, struct error *error) {
    static const struct view_options as_they_are = {0};
    struct report_file *report_file = &report->files[number];
    const struct results_file *file = report_file->results;
    struct report_run *runs = &report->runs[report_file->first];
    if (report->file_count > 1) file_letter(number, report_file->letter);
    TRY(view_make(file->rows, file->count, &as_they_are, &report_file->view, error));
    for (int i = 0; i < file->count; i++) {
        runs[i] = (struct report_run){.row = &file->rows[i], .file = report_file, .spread = NAN};
        runs[i].variant = report_find_or_add(runs[i].row->variant, report->variants, &report->variant_count);
        report->count++;
    }
    for (int i = 0; i < file->count && !report->alone; i++) TRY(report_read_samples(&runs[i], error));
    return STATUS_OK;
}

/* Splits the parameters of all runs, whichever file they are from, into columns. */
static void find_swept(struct report *report) {
    OWNED struct result_row *rows = must_malloc((size_t)report->count * sizeof *rows + 1);
    for (int i = 0; i < report->count; i++) rows[i] = *report->runs[i].row;
    report->swept = swept_of(rows, report->count);
}

/* Collects the runs of the files. `alone`: see struct report. */
static enum status gather(struct results_file *const *files, int file_count, const char *alone, struct report *report,
                          struct error *error) {
    int count = 0;
    *report = (struct report){.file_count = file_count, .alone = alone};
    report->files = must_malloc((size_t)file_count * sizeof *report->files);
    for (int f = 0; f < file_count; count += files[f++]->count)
        report->files[f] = (struct report_file){.results = files[f], .first = count};
    report->runs = must_malloc((size_t)count * sizeof *report->runs + 1);
    report->variants = must_malloc((size_t)count * sizeof *report->variants + 1);
    for (int f = 0; f < file_count; f++) TRY(add_file(report, f, error));
    find_swept(report);
    return STATUS_OK;
}

/* ---- the head of the page ---- */

/* Writes "30 runs in 2 files: 28 ok, 2 skipped; measured on NVIDIA H200, AMD EPYC." */
static void write_summary(const struct report *report, FILE *to) {
    OWNED const char **statuses = must_malloc((size_t)report->count * sizeof *statuses + 1);
    OWNED const char **devices = must_malloc((size_t)report->count * sizeof *devices + 1);
    OWNED int *runs_of_status = must_zeroed((size_t)report->count * sizeof *runs_of_status);
    int status_count = 0, device_count = 0;
    for (int i = 0; i < report->count; i++)
        runs_of_status[report_find_or_add(report->runs[i].row->status, statuses, &status_count)]++;
    fprintf(to, "<p class=\"lead\">%d run%s", report->count, report->count == 1 ? "" : "s");
    if (report->file_count > 1) fprintf(to, " in %d files", report->file_count);
    for (int i = 0; i < status_count; i++)
        html(to, "%s%d %s", i ? ", " : ": ", runs_of_status[i], *statuses[i] ? statuses[i] : "without a status");
    for (int i = 0; i < report->count; i++) {
        const struct result_row *row = report->runs[i].row;
        const char *name = row->device_name[0] ? row->device_name : row->device;
        int before = device_count;
        if (!result_row_done(row) || !*name || report_find_or_add(name, devices, &device_count) < before) continue;
        if (before < MAX_DEVICES_NAMED) html(to, "%s%s", before ? ", " : "; measured on ", name);
    }
    fputs(device_count > MAX_DEVICES_NAMED ? " and others.</p>\n" : ".</p>\n", to);
}

/* Writes for each file its letter, its path, when it was made, and how far its job is. */
static void write_files(const struct report *report, FILE *to) {
    fputs("<ul class=\"files\">\n", to);
    for (int i = 0; i < report->file_count; i++) {
        const struct results_file *file = report->files[i].results;
        OWNED char *created = results_file_text(file, "/", "created");
        html(to, "<li><b>%s</b> <code>%s</code>", report->files[i].letter, file->path);
        if (created) html(to, ", %s", created);
        if (file->standing) html(to, ", <b>%s</b>", file->standing);
        fputs("</li>\n", to);
    }
    fputs("</ul>\n", to);
}

static bool same_message(const struct report_run *a, const struct report_run *b) {
    return strcmp(a->row->status, b->row->status) == 0 && strcmp(a->row->message, b->row->message) == 0;
}

/* Writes every message, once, with the number of runs that have it. */
static void write_messages(const struct report *report, FILE *to) {
    int shown = 0, left_out = 0;
    for (int i = 0; i < report->count; i++) {
        const struct report_run *run = &report->runs[i];
        int first = 0, same = 0;
        while (!same_message(&report->runs[first], run)) first++;
        if (!run->row->message[0] || first < i) continue;
        if (shown == MAX_MESSAGES) {
            left_out++;
            continue;
        }
        for (int k = i; k < report->count; k++) same += same_message(&report->runs[k], run);
        fputs(shown++ ? "" : "<ul class=\"messages\">\n", to);
        html(to, "<li>%d %s: %s</li>\n", same, run->row->status, run->row->message);
    }
    if (left_out) fprintf(to, "<li>%d more messages are in the table of runs.</li>\n", left_out);
    if (shown) fputs("</ul>\n", to);
}

/* The name of the job, followed by " and other jobs" if the files differ; the caller frees. */
static char *title_of(const struct report *report) {
    char *title = NULL;
    bool others = false;
    for (int i = 0; i < report->file_count; i++) {
        OWNED char *name = results_file_text(report->files[i].results, "/job", "name");
        if (!title)
            title = must_strdup(name && *name ? name : "results");
        else
            others |= !name || strcmp(name, title) != 0;
    }
    if (others) must_append(&title, " and other jobs");
    return title;
}

/* Writes how many runs of the second file are faster, slower, ... than those of the first. */
static void write_verdicts(const struct comparison *comparison, FILE *to) {
    fputs("<p>B beside A: ", to);
    for (enum ratio_verdict verdict = RATIO_FASTER; verdict <= RATIO_UNSURE; verdict++)
        fprintf(to, "%d %s, ", comparison_count(comparison, verdict), ratio_verdict_names[verdict]);
    fprintf(to, "%d with a worse result; %d and %d runs without a partner. A difference within %.0f%% is SAME.%s</p>\n",
            comparison_worse(comparison), comparison->base_only_count, comparison->new_only_count,
            100 * DEFAULT_THRESHOLD,
            comparison->other_device ? " The devices differ, so no ratio shows a change of the program." : "");
}

/* ---- the page ---- */

/* Writes the page. `comparison`: of the second file with the first, or NULL. `contents`: the body of each section; "":
 * the section is omitted. */
static void write_page(const struct report *report, const struct comparison *comparison, char *const contents[SECTIONS],
                       FILE *to) {
    OWNED char *title = title_of(report);
    fprintf(to, "%s %s\">\n", report_beginning, tilerun_version);
    report_policy(to);
    html(to,
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta name=\"color-scheme\" content=\"light dark\">\n<title>%s: report of %d run%s</title>\n",
         title, report->count, report->count == 1 ? "" : "s");
    report_style(to);
    html(to, "</head>\n<body>\n<a class=\"skip\" href=\"#content\">Skip to the content</a>\n<header>\n<h1>%s</h1>\n",
         title);
    write_summary(report, to);
    write_files(report, to);
    if (comparison && comparison->count > 0) write_verdicts(comparison, to);
    write_messages(report, to);
    fputs("<nav aria-label=\"Sections\"><ul>\n", to);
    for (int i = 0; i < SECTIONS; i++)
        if (*contents[i]) fprintf(to, "<li><a href=\"#%s\">%s</a></li>\n", sections[i].id, sections[i].title);
    fputs("</ul></nav>\n</header>\n<main id=\"content\" tabindex=\"-1\">\n", to);
    for (int i = 0; i < SECTIONS; i++) {
        const struct section *section = &sections[i];
        if (*contents[i])
            fprintf(to,
                    "<section id=\"%s\" aria-labelledby=\"%s-title\">\n<h2 id=\"%s-title\">%s</h2>\n"
                    "<div class=\"%s\">\n%s</div>\n</section>\n",
                    section->id, section->id, section->id, section->title, section->class, contents[i]);
    }
    html(to, "</main>\n<footer><p>Written by tilerun %s (%s).</p></footer>\n", tilerun_version, tilerun_git_commit);
    report_script(to);
    fputs("</body>\n</html>\n", to);
}

static char *section_text(const struct report *report, int section) {
    char *text;
    FILE *to = must_stream(&text);
    sections[section].write(report, to);
    fclose(to);
    return text;
}

enum status report_write_plot(struct results_file *const *files, int count, FILE *to, struct error *error) {
    FREED_BY(report_free) struct report report = {0};
    OWNED char *style = report_plot_style();
    TRY(gather(files, count, style, &report, error));
    OWNED char *plot = section_text(&report, 0);
    if (!*plot) return fail(error, STATUS_USAGE, "there is nothing to plot: no two runs have rates");
    fputs(plot, to);
    return STATUS_OK;
}

enum status report_write(struct results_file *const *files, int count, const struct comparison *comparison, FILE *to,
                         struct error *error) {
    FREED_BY(report_free) struct report report = {0};
    char *contents[SECTIONS];
    TRY(gather(files, count, NULL, &report, error));
    for (int i = 0; comparison && i < comparison->count; i++) {
        const struct run_pair *pair = &comparison->pairs[i];
        report.runs[report.files[1].first + (pair->new - comparison->new->rows)].pair = pair;
    }
    for (int i = 0; i < SECTIONS; i++) contents[i] = section_text(&report, i);
    write_page(&report, comparison, contents, to);
    for (int i = 0; i < SECTIONS; i++) free(contents[i]);
    return STATUS_OK;
}
