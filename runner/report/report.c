/* report.c - the page: the sections that have something to show, or the first plot alone. */
#include "report.h"

#include "../base/fail.h"
#include "../record/environment.h"
#include "../storage/untrusted/fence.h"
#include "report_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char report_plot_beginning[] = "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"tilerun\"";
const char report_beginning[] = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                                "<meta name=\"generator\" content=\"tilerun report";

static const struct section {
    const char *id, *title, *class;
    enum status (*write)(const struct report *report, FILE *to, struct error *error);
} sections[] = {
    {"speed", "Speed", "figures", report_speed},
    {"limits", "Limits and accuracy", "figures", report_limits},
    {"runs", "All runs", "table", report_runs},
    {"job", "Job", "text", report_jobs},
    {"facts", "Environment and inputs", "table", report_facts},
};
enum { SECTIONS = sizeof sections / sizeof *sections };

const char *const report_extras[REPORT_EXTRAS] = {"registers", "spill_bytes", "shared_bytes", "occupancy"};

/* Reads a column of /runs, if the file has it and it holds numbers. */
static void read_extra(const struct results_file *file, const char *name, double *to) {
    FENCE(file->path);
    hid_t id = file->id >= 0 ? H5Dopen2(file->id, "/runs", H5P_DEFAULT) : H5I_INVALID_HID;
    for (int i = 0; i < file->count; i++) to[i] = NAN;
    if (id < 0) return;
    hid_t type = H5Dget_type(id), space = H5Dget_space(id), row = H5Tcreate(H5T_COMPOUND, sizeof *to);
    bool found = H5Tget_class(type) == H5T_COMPOUND && H5Tget_member_index(type, name) >= 0;
    H5Tinsert(row, name, 0, H5T_NATIVE_DOUBLE);
    if (found && H5Sget_simple_extent_npoints(space) == file->count &&
        H5Dread(id, row, H5S_ALL, H5S_ALL, H5P_DEFAULT, to) < 0)
        for (int i = 0; i < file->count; i++) to[i] = NAN;
    H5Tclose(row);
    H5Sclose(space);
    H5Tclose(type);
    H5Dclose(id);
}

static void release(struct report *report) {
    for (int i = 0; i < REPORT_EXTRAS; i++) free(report->extra[i]);
    for (int f = 0; f < report->file_count; f++) view_free(report->views[f]);
    comparison_free(&report->comparison);
    swept_free(&report->swept);
    free(report->variants);
    free(report->variant);
    free(report->file);
    free(report->rows);
    free(report->first);
    free(report->letter);
    free(report->views);
}

static enum status gather(struct results_file *const *files, int file_count, struct report *report,
                          struct error *error) {
    static const struct view_options as_they_are = {0};
    static const struct compare_options as_compare = {.threshold = VERDICT_THRESHOLD};
    *report = (struct report){.files = files, .file_count = file_count};
    for (int f = 0; f < file_count; f++) report->count += files[f]->count;
    size_t count = (size_t)report->count;
    report->views = must_malloc((size_t)file_count * sizeof *report->views);
    report->letter = must_malloc((size_t)file_count * sizeof *report->letter);
    report->first = must_malloc((size_t)file_count * sizeof *report->first);
    report->rows = must_malloc(count * sizeof *report->rows + 1);
    report->file = must_malloc(count * sizeof *report->file + 1);
    report->variant = must_malloc(count * sizeof *report->variant + 1);
    report->variants = must_malloc(count * sizeof *report->variants + 1);
    for (int i = 0; i < REPORT_EXTRAS; i++) report->extra[i] = must_malloc(count * sizeof(double) + 1);
    enum status status = STATUS_OK;
    for (int f = 0, row = 0; f < file_count; f++) {
        report->views[f] = NULL;
        file_letter(f, report->letter[f]);
        if (file_count == 1) report->letter[f][0] = '\0';
        report->first[f] = row;
        for (int i = 0; i < REPORT_EXTRAS; i++) read_extra(files[f], report_extras[i], report->extra[i] + row);
        if (!status) status = view_make(files[f]->rows, files[f]->count, &as_they_are, &report->views[f], error);
        for (int i = 0; i < files[f]->count; i++, row++) {
            report->rows[row] = files[f]->rows[i];
            report->file[row] = f;
            report->variant[row] = number_of(report->rows[row].variant, report->variants, &report->variant_count);
        }
    }
    report->swept = swept_of(report->rows, report->count);
    if (file_count == 2) comparison_pair(files[0], files[1], &report->comparison);
    if (!status) status = comparison_judge(&report->comparison, &as_compare, error);
    if (status) release(report);
    return status;
}

static void write_head(const struct report *report, const char *title, FILE *to) {
    fprintf(to, "%s %s\">\n", report_beginning, tilerun_version);
    report_policy(to);
    html(to,
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta name=\"color-scheme\" content=\"light dark\">\n<title>%s: report of %d run%s</title>\n",
         title, report->count, report->count == 1 ? "" : "s");
    report_style(to);
    fputs("</head>\n", to);
}

static void write_page(const struct report *report, char *const contents[SECTIONS], FILE *to) {
    char *title = report_title(report);
    write_head(report, title, to);
    html(to, "<body>\n<a class=\"skip\" href=\"#content\">Skip to the content</a>\n<header>\n<h1>%s</h1>\n", title);
    report_header(report, to);
    fputs("<nav aria-label=\"Sections\"><ul>\n", to);
    for (int i = 0; i < SECTIONS; i++)
        if (*contents[i]) fprintf(to, "<li><a href=\"#%s\">%s</a></li>\n", sections[i].id, sections[i].title);
    fputs("</ul></nav>\n</header>\n<main id=\"content\" tabindex=\"-1\">\n", to);
    for (int i = 0; i < SECTIONS; i++) {
        const struct section *it = &sections[i];
        if (*contents[i])
            fprintf(to,
                    "<section id=\"%s\" aria-labelledby=\"%s-title\">\n<h2 id=\"%s-title\">%s</h2>\n"
                    "<div class=\"%s\">\n%s</div>\n</section>\n",
                    it->id, it->id, it->id, it->title, it->class, contents[i]);
    }
    html(to, "</main>\n<footer><p>Written by tilerun %s (%s).</p></footer>\n", tilerun_version, tilerun_git_commit);
    report_script(to);
    fputs("</body>\n</html>\n", to);
    free(title);
}

static enum status write_section(const struct report *report, int section, char **content, struct error *error) {
    size_t length;
    FILE *to = must_stream(content, &length);
    enum status status = sections[section].write(report, to, error);
    fclose(to);
    return status;
}

enum status report_write_plot(struct results_file *const *files, int count, FILE *to, struct error *error) {
    struct report report;
    char *style = report_plot_style(), *plot;
    enum status status = gather(files, count, &report, error);
    if (!status) {
        report.alone = style;
        status = write_section(&report, 0, &plot, error);
        if (!status && !*plot) status = fail(error, STATUS_USAGE, "there is nothing to plot: no two runs have rates");
        if (!status) fputs(plot, to);
        free(plot);
        release(&report);
    }
    free(style);
    return status;
}

enum status report_write(struct results_file *const *files, int count, FILE *to, struct error *error) {
    struct report report;
    char *contents[SECTIONS] = {NULL};
    TRY(gather(files, count, &report, error));
    enum status status = STATUS_OK;
    for (int i = 0; i < SECTIONS && !status; i++) status = write_section(&report, i, &contents[i], error);
    if (!status) write_page(&report, contents, to);
    for (int i = 0; i < SECTIONS; i++) free(contents[i]);
    release(&report);
    return status;
}
