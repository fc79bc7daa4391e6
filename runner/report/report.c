/* report.c - the page: what ran, in a sentence, then the sections that have something to show. */
#include "report.h"

#include "../base/fail.h"
#include "../record/environment.h"
#include "report_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char report_plot_beginning[] = "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"tilerun\"";
const char report_beginning[] = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                                "<meta name=\"generator\" content=\"tilerun report";

/* ---- what is reported ---- */

/* The number of a text among the `count` known ones, to which it is added. */
static int number_of(const char *text, const char **known, int *count) {
    int number = 0;
    while (number < *count && strcmp(known[number], text) != 0) number++;
    if (number == *count) known[(*count)++] = text;
    return number;
}

/* Gives each variant a colour that no other variant of its operations has, as far as there are enough, and of those the
 * one that fewest have; and a marker, in turn. */
static void choose_looks(struct report *report, const int *operation, int kinds) {
    int variants = report->variant_count, users[COLOURS] = {0};
    size_t cells = (size_t)variants * (size_t)kinds;
    bool *has = must_malloc(cells + 1); /* variant by operation */
    memset(has, 0, cells + 1);
    for (int row = 0; row < report->count; row++) has[report->variant[row] * (size_t)kinds + operation[row]] = true;
    for (int v = 0; v < variants; v++) {
        int beside[COLOURS] = {0}, best = 0;
        for (int other = 0; other < v; other++)
            for (int i = 0; i < kinds; i++)
                beside[report->looks[other].colour] += has[v * (size_t)kinds + i] && has[other * (size_t)kinds + i];
        for (int colour = 1; colour < COLOURS; colour++)
            if (beside[colour] < beside[best] || (beside[colour] == beside[best] && users[colour] < users[best]))
                best = colour;
        users[best]++;
        report->looks[v] = (struct look){best, v % SHAPES};
    }
    free(has);
}

static struct report gather(struct results_file *const *files, int file_count) {
    struct report report = {.files = files, .file_count = file_count};
    for (int f = 0; f < file_count; f++) report.count += files[f]->count;
    size_t count = (size_t)report.count;
    report.rows = must_malloc(count * sizeof *report.rows + 1);
    report.file = must_malloc(count * sizeof *report.file + 1);
    report.variant = must_malloc(count * sizeof *report.variant + 1);
    report.variants = must_malloc(count * sizeof *report.variants + 1);
    const char **known = must_malloc(count * sizeof *known + 1);
    int *operation = must_malloc(count * sizeof *operation + 1), kinds = 0, row = 0;
    for (int f = 0; f < file_count; f++)
        for (int i = 0; i < files[f]->count; i++, row++) {
            report.rows[row] = files[f]->rows[i];
            report.file[row] = f;
            report.variant[row] = number_of(report.rows[row].variant, report.variants, &report.variant_count);
            operation[row] = number_of(report.rows[row].operation, known, &kinds);
        }
    report.looks = must_malloc((size_t)report.variant_count * sizeof *report.looks + 1);
    choose_looks(&report, operation, kinds);
    report.swept = swept_of(report.rows, report.count);
    free(operation);
    free(known);
    return report;
}

static void release(struct report *report) {
    swept_free(&report->swept);
    free(report->looks);
    free(report->variants);
    free(report->variant);
    free(report->file);
    free(report->rows);
}

/* ---- the summary ---- */

/* "5 ok, 2 skipped": how many rows have each status, in the order in which they are met. */
static void write_counts(const struct report *report, FILE *to) {
    const char **known = must_malloc((size_t)report->count * sizeof *known + 1);
    int *counts = must_malloc((size_t)report->count * sizeof *counts + 1), kinds = 0;
    for (int row = 0; row < report->count; row++) {
        int kind = 0;
        while (kind < kinds && strcmp(known[kind], report->rows[row].status) != 0) kind++;
        if (kind == kinds) {
            known[kinds] = report->rows[row].status;
            counts[kinds++] = 0;
        }
        counts[kind]++;
    }
    for (int kind = 0; kind < kinds; kind++) {
        fprintf(to, "%s%d ", kind ? ", " : "", counts[kind]);
        html_text(to, known[kind][0] ? known[kind] : "without a status");
    }
    free(counts);
    free(known);
}

/* "NVIDIA H200 and AMD EPYC": what the runs that made results were measured on. */
static void write_devices(const struct report *report, FILE *to) {
    enum { MOST = 6 };
    const char *known[MOST];
    int count = 0, more = 0;
    for (int row = 0; row < report->count; row++) {
        const struct result_row *it = &report->rows[row];
        const char *name = it->device_name[0] ? it->device_name : it->device;
        int i = 0;
        if (!result_row_done(it) || !name[0]) continue;
        while (i < count && strcmp(known[i], name) != 0) i++;
        if (i < count) continue;
        if (count == MOST) more = 1;
        if (count < MOST) known[count++] = name;
    }
    for (int i = 0; i < count; i++) {
        fputs(i == 0 ? "; measured on " : i == count - 1 && !more ? " and " : ", ", to);
        html_text(to, known[i]);
    }
    if (more) fputs(" and others", to);
}

static void write_summary(const struct report *report, FILE *to) {
    fprintf(to, "<p class=\"lead\">%d run%s", report->count, report->count == 1 ? "" : "s");
    if (report->file_count > 1) fprintf(to, " in %d files", report->file_count);
    if (report->count > 0) fputs(": ", to);
    write_counts(report, to);
    write_devices(report, to);
    fputs(".</p>\n", to);
}

static bool same_message(const struct result_row *a, const struct result_row *b) {
    return strcmp(a->status, b->status) == 0 && strcmp(a->message, b->message) == 0;
}

/* Every message, once, with the number of runs that have it. */
static void write_messages(const struct report *report, FILE *to) {
    enum { MOST = 20 };
    int shown = 0, left_out = 0;
    for (int row = 0; row < report->count; row++) {
        const struct result_row *it = &report->rows[row];
        int first = 0, same = 0;
        while (!same_message(&report->rows[first], it)) first++;
        if (!it->message[0] || first < row) continue;
        if (shown == MOST) {
            left_out++;
            continue;
        }
        for (int i = row; i < report->count; i++) same += same_message(&report->rows[i], it);
        fprintf(to, "%s<li>%d ", shown++ ? "" : "<ul class=\"messages\">\n", same);
        html_text(to, it->status);
        fputs(": ", to);
        html_text(to, it->message);
        fputs("</li>\n", to);
    }
    if (left_out) fprintf(to, "<li>%d more messages are in the table of runs.</li>\n", left_out);
    if (shown) fputs("</ul>\n", to);
}

/* The name of the job in a file; "results" where it tells none. The caller frees. */
static char *job_name(const struct results_file *file) {
    char *name = results_file_text(file, "/job", "name");
    if (name && name[0]) return name;
    free(name);
    return must_strdup("results");
}

/* The job's name, or those of several jobs. The caller frees. */
static char *title_of(const struct report *report) {
    char *title = job_name(report->files[0]);
    for (int i = 1; i < report->file_count; i++) {
        char *name = job_name(report->files[i]);
        bool known = strcmp(name, title) == 0;
        free(name);
        if (known) continue;
        char *longer = must_printf("%s and other jobs", title);
        free(title);
        return longer;
    }
    return title;
}

/* Each file: its letter, its path, when it was made, and how far its job is. */
static void write_files(const struct report *report, FILE *to) {
    fputs("<ul class=\"files\">\n", to);
    for (int i = 0; i < report->file_count; i++) {
        const struct results_file *file = report->files[i];
        char letter[8];
        char *created = results_file_text(file, "/", "created");
        fputs("<li>", to);
        if (report->file_count > 1) fprintf(to, "<b>%s</b> ", file_letter(i, letter));
        fputs("<code>", to);
        html_text(to, file->path);
        fputs("</code>", to);
        if (created) fputs(", ", to);
        if (created) html_text(to, created);
        if (file->standing) {
            fputs(", <b>", to);
            html_text(to, file->standing);
            fputs("</b>", to);
        }
        fputs("</li>\n", to);
        free(created);
    }
    fputs("</ul>\n", to);
}

/* ---- the page ---- */

struct section {
    const char *id, *title, *class;
    char *content; /* "": the section is left out */
};
enum { SECTIONS = 8 };

static void write_figures(const struct report *report, const char *id, int *number, FILE *to) {
    if (strcmp(id, "speed") == 0) {
        report_rates(report, number, to);
    } else {
        report_roofline(report, number, to);
        report_errors(report, number, to);
    }
}

static enum status fill_section(const struct report *report, struct section *section, int *number,
                                struct error *error) {
    size_t length;
    enum status status = STATUS_OK;
    FILE *to = must_stream(&section->content, &length);
    if (strcmp(section->class, "figures") == 0) write_figures(report, section->id, number, to);
    if (strcmp(section->id, "runs") == 0) report_table(report, to);
    if (strcmp(section->id, "samples") == 0) status = report_samples(report, to, error);
    if (strcmp(section->id, "stages") == 0) report_stages(report, to);
    if (strcmp(section->id, "job") == 0) report_jobs(report, to);
    if (strcmp(section->id, "environment") == 0) report_environment(report, to);
    if (strcmp(section->id, "inputs") == 0) report_inputs(report, to);
    fclose(to);
    return status;
}

static void write_head(const struct report *report, const char *title, FILE *to) {
    fprintf(to, "%s %s\">\n", report_beginning, tilerun_version);
    report_policy(to);
    fputs("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
          to);
    html_text(to, title);
    fprintf(to, ": report of %d run%s</title>\n", report->count, report->count == 1 ? "" : "s");
    report_style(to);
    fputs("</head>\n", to);
}

static void write_page(const struct report *report, const struct section sections[SECTIONS], FILE *to) {
    char *title = title_of(report);
    write_head(report, title, to);
    fputs("<body>\n<a class=\"skip\" href=\"#content\">Skip to the content</a>\n<header>\n<h1>", to);
    html_text(to, title);
    fputs("</h1>\n", to);
    write_summary(report, to);
    write_files(report, to);
    write_messages(report, to);
    fputs("<nav aria-label=\"Sections\"><ul>\n", to);
    for (int i = 0; i < SECTIONS; i++)
        if (sections[i].content[0]) fprintf(to, "<li><a href=\"#%s\">%s</a></li>\n", sections[i].id, sections[i].title);
    fputs("</ul></nav>\n</header>\n<main id=\"content\" tabindex=\"-1\">\n", to);
    for (int i = 0; i < SECTIONS; i++) {
        const struct section *it = &sections[i];
        if (it->content[0])
            fprintf(to,
                    "<section id=\"%s\" aria-labelledby=\"%s-title\">\n<h2 id=\"%s-title\">%s</h2>\n"
                    "<div class=\"%s\">\n%s</div>\n</section>\n",
                    it->id, it->id, it->id, it->title, it->class, it->content);
    }
    fprintf(to, "</main>\n<footer><p>Written by tilerun %s (", tilerun_version);
    html_text(to, tilerun_git_commit);
    fputs(").</p></footer>\n", to);
    report_script(to);
    fputs("</body>\n</html>\n", to);
    free(title);
}

enum status report_write_plot(struct results_file *const *files, int count, FILE *to, struct error *error) {
    struct report report = gather(files, count);
    int number = 1;
    report.plot_alone = true;
    report_rates(&report, &number, to);
    release(&report);
    return number > 1 ? STATUS_OK : fail(error, STATUS_USAGE, "there is nothing to plot: no two runs have rates");
}

enum status report_write(struct results_file *const *files, int count, FILE *to, struct error *error) {
    struct section sections[SECTIONS] = {
        {"speed", "Speed", "figures", NULL},
        {"limits", "Limits and accuracy", "figures", NULL},
        {"runs", "All runs", "table", NULL},
        {"samples", "How samples spread", "table", NULL},
        {"stages", "Where the time of a pass went", "table", NULL},
        {"job", "Job", "text", NULL},
        {"environment", "Environment", "table", NULL},
        {"inputs", "Inputs", "table", NULL},
    };
    struct report report = gather(files, count);
    enum status status = STATUS_OK;
    int number = 1;
    for (int i = 0; i < SECTIONS && !status; i++) status = fill_section(&report, &sections[i], &number, error);
    if (!status) write_page(&report, sections, to);
    for (int i = 0; i < SECTIONS; i++) free(sections[i].content);
    release(&report);
    return status;
}
