/* header.c - the head of a page: what ran, on what, from which files, and what its runs said. */
#include "../base/fail.h"
#include "report_parts.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES_NAMED = 6, MOST_MESSAGES = 20 };

/* "30 runs in 2 files: 28 ok, 2 skipped; measured on NVIDIA H200 and AMD EPYC." */
static void write_summary(const struct report *report, FILE *to) {
    const char **known = must_malloc((size_t)report->count * sizeof *known + 1);
    int *runs = must_malloc((size_t)report->count * sizeof *runs + 1), kinds = 0, devices = 0;
    for (int row = 0; row < report->count; row++) {
        int before = kinds, kind = number_of(report->rows[row].status, known, &kinds);
        runs[kind] = kind == before ? 1 : runs[kind] + 1;
    }
    fprintf(to, "<p class=\"lead\">%d run%s", report->count, report->count == 1 ? "" : "s");
    if (report->file_count > 1) fprintf(to, " in %d files", report->file_count);
    for (int kind = 0; kind < kinds; kind++)
        html(to, "%s%d %s", kind ? ", " : ": ", runs[kind], *known[kind] ? known[kind] : "without a status");
    for (int row = 0; row < report->count; row++) {
        const struct result_row *it = &report->rows[row];
        const char *name = it->device_name[0] ? it->device_name : it->device;
        int before = devices;
        if (!result_row_done(it) || !*name || number_of(name, known, &devices) < before) continue;
        if (before < MOST_DEVICES_NAMED) html(to, "%s%s", before ? ", " : "; measured on ", name);
    }
    fputs(devices > MOST_DEVICES_NAMED ? " and others.</p>\n" : ".</p>\n", to);
    free(runs);
    free(known);
}

static bool same_message(const struct result_row *a, const struct result_row *b) {
    return strcmp(a->status, b->status) == 0 && strcmp(a->message, b->message) == 0;
}

/* Every message, once, with the number of runs that have it. */
static void write_messages(const struct report *report, FILE *to) {
    int shown = 0, left_out = 0;
    for (int row = 0; row < report->count; row++) {
        const struct result_row *it = &report->rows[row];
        int first = 0, same = 0;
        while (!same_message(&report->rows[first], it)) first++;
        if (!it->message[0] || first < row) continue;
        if (shown == MOST_MESSAGES) {
            left_out++;
            continue;
        }
        for (int i = row; i < report->count; i++) same += same_message(&report->rows[i], it);
        fputs(shown++ ? "" : "<ul class=\"messages\">\n", to);
        html(to, "<li>%d %s: %s</li>\n", same, it->status, it->message);
    }
    if (left_out) fprintf(to, "<li>%d more messages are in the table of runs.</li>\n", left_out);
    if (shown) fputs("</ul>\n", to);
}

/* Each file: its letter, its path, when and where it was made, and how far its job is. */
static void write_files(const struct report *report, FILE *to) {
    fputs("<ul class=\"files\">\n", to);
    for (int i = 0; i < report->file_count; i++) {
        const struct results_file *file = report->files[i];
        char *created = results_file_text(file, "/", "created");
        html(to, "<li><b>%s</b> <code>%s</code>", report->letter[i], file->path);
        if (created) html(to, ", %s", created);
        if (file->standing) html(to, ", <b>%s</b>", file->standing);
        fputs("</li>\n", to);
        free(created);
    }
    fputs("</ul>\n", to);
}

/* Counts the verdicts on two files. */
static void write_verdicts(const struct comparison *comparison, FILE *to) {
    if (comparison->count == 0) return;
    fputs("<p>B beside A: ", to);
    for (enum ratio_verdict verdict = RATIO_FASTER; verdict <= RATIO_UNSURE; verdict++)
        fprintf(to, "%d %s, ", comparison_count(comparison, verdict), ratio_verdict_names[verdict]);
    fprintf(to, "%d with a worse result; %d and %d runs without a partner. A difference within %.0f%% is SAME.%s</p>\n",
            comparison_worse(comparison), comparison->base_only_count, comparison->new_only_count,
            100 * VERDICT_THRESHOLD,
            comparison->other_device ? " The devices differ, so no ratio shows a change of the program." : "");
}

char *report_title(const struct report *report) {
    char *title = NULL;
    bool others = false;
    for (int i = 0; i < report->file_count; i++) {
        char *name = results_file_text(report->files[i], "/job", "name");
        if (!title)
            title = must_strdup(name && *name ? name : "results");
        else
            others |= !name || strcmp(name, title) != 0;
        free(name);
    }
    char *whole = must_printf("%s%s", title, others ? " and other jobs" : "");
    free(title);
    return whole;
}

void report_header(const struct report *report, FILE *to) {
    write_summary(report, to);
    write_files(report, to);
    write_verdicts(&report->comparison, to);
    write_messages(report, to);
}
