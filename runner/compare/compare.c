/* compare.c - pairs the runs of two results files and judges each pair. */
#include "compare.h"

#include "../base/fail.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

/* A row and its partner in the other file. */
struct entry {
    const struct result_row *row;
    const struct entry *partner;
};

static int compare_texts(const struct result_row *a, const struct result_row *b) {
    int order = strcmp(a->operation, b->operation);
    if (!order) order = strcmp(a->op, b->op);
    if (!order) order = strcmp(a->variant, b->variant);
    if (!order) order = strcmp(a->parameters, b->parameters);
    if (!order) order = strcmp(a->shape, b->shape);
    if (!order) order = strcmp(a->dtype, b->dtype);
    return order ? order : strncmp(a->device, b->device, 3); /* "cpu", "cuda:0": the kind, not the number */
}

static int compare_entries(const void *a, const void *b) {
    const struct result_row *x = ((const struct entry *)a)->row, *y = ((const struct entry *)b)->row;
    int order = compare_texts(x, y);
    return order ? order : (x > y) - (x < y);
}

static struct entry *sorted_entries(const struct results_file *file) {
    struct entry *entries = must_malloc((unsigned long)file->count * sizeof *entries);
    for (int i = 0; i < file->count; i++) entries[i] = (struct entry){.row = &file->rows[i]};
    qsort(entries, (size_t)file->count, sizeof *entries, compare_entries);
    return entries;
}

/* The partner of each row of `file`, or NULL. The caller frees. */
static const struct result_row **partners(const struct results_file *file, const struct entry *entries) {
    const struct result_row **of = must_malloc((unsigned long)file->count * sizeof *of);
    for (int i = 0; i < file->count; i++)
        of[entries[i].row - file->rows] = entries[i].partner ? entries[i].partner->row : NULL;
    return of;
}

static void find_partners(struct entry *base, int base_count, struct entry *new, int new_count) {
    for (int i = 0, j = 0; i < base_count && j < new_count;) {
        int order = compare_texts(base[i].row, new[j].row);
        if (order == 0) {
            base[i].partner = &new[j];
            new[j].partner = &base[i];
        }
        i += order <= 0;
        j += order >= 0;
    }
}

/* The name of the device that a run was measured on; "": unknown. Files of earlier versions have it in /environment and
 * not in the rows. The caller frees. */
static char *device_of(const struct results_file *file, const struct result_row *row) {
    if (row->device_name[0]) return must_strdup(row->device_name);
    char *name = results_file_text(file, "/environment", strcmp(row->device, "cpu") == 0 ? "cpu" : "gpu_name");
    return name ? name : must_strdup("");
}

static bool on_two_devices(const struct comparison *comparison, const struct run_pair *pair) {
    if (!result_row_done(pair->base) || !result_row_done(pair->new)) return false;
    char *base = device_of(comparison->base, pair->base), *new = device_of(comparison->new, pair->new);
    bool two = *base && *new &&strcmp(base, new) != 0;
    free(base);
    free(new);
    return two;
}

void comparison_pair(const struct results_file *base, const struct results_file *new, struct comparison *comparison) {
    struct entry *base_entries = sorted_entries(base), *new_entries = sorted_entries(new);
    find_partners(base_entries, base->count, new_entries, new->count);
    const struct result_row **of_base = partners(base, base_entries), **of_new = partners(new, new_entries);
    *comparison = (struct comparison){.base = base, .new = new};
    comparison->pairs = must_malloc((unsigned long)base->count * sizeof *comparison->pairs);
    comparison->base_only = must_malloc((unsigned long)base->count * sizeof *comparison->base_only);
    comparison->new_only = must_malloc((unsigned long)new->count * sizeof *comparison->new_only);
    for (int i = 0; i < base->count; i++)
        if (of_base[i])
            comparison->pairs[comparison->count++] =
                (struct run_pair){.base = &base->rows[i], .new = of_base[i], .ratio = ratio_unknown, .allowed = NAN};
        else
            comparison->base_only[comparison->base_only_count++] = &base->rows[i];
    for (int i = 0; i < new->count; i++)
        if (!of_new[i]) comparison->new_only[comparison->new_only_count++] = &new->rows[i];
    for (int i = comparison->count - 1; i >= 0; i--)
        if (on_two_devices(comparison, &comparison->pairs[i])) comparison->other_device = &comparison->pairs[i];
    free(of_new);
    free(of_base);
    free(new_entries);
    free(base_entries);
}

void comparison_free(struct comparison *comparison) {
    free(comparison->pairs);
    free(comparison->base_only);
    free(comparison->new_only);
    *comparison = (struct comparison){.count = 0};
}

/* ---- one pair ---------------------------------------------------------------------------------------------------- */

static void add_note(struct run_pair *pair, bool worse, const char *sentence) {
    size_t length = strlen(pair->note);
    snprintf(pair->note + length, sizeof pair->note - length, "%s%s", length ? "; " : "", sentence);
    pair->worse |= worse;
}

/* Compares the statuses of a pair. A pair without two results is judged by this alone, because it has no samples. */
static void judge_states(struct run_pair *pair) {
    bool before = result_row_done(pair->base), now = result_row_done(pair->new);
    char text[300];
    const char *why = pair->new->message;
    if (before && !now) {
        snprintf(text, sizeof text, "was %s, is %s%s%s", pair->base->status, pair->new->status, *why ? ": " : "", why);
        add_note(pair, true, text);
    } else if (!before && strcmp(pair->base->status, pair->new->status) == 0) {
        snprintf(text, sizeof text, "%s in both%s%s", pair->base->status, *why ? ": " : "", why);
        add_note(pair, false, text);
    } else if (strcmp(pair->base->status, pair->new->status) != 0) {
        snprintf(text, sizeof text, "was %s, is %s", pair->base->status, pair->new->status);
        add_note(pair, false, text);
    }
    if (now && pair->new->error > pair->new->tolerance && !(pair->base->error > pair->base->tolerance)) {
        snprintf(text, sizeof text, "error %.1e is above the tolerance, %.1e", pair->new->error, pair->new->tolerance);
        add_note(pair, before, text);
    }
}

static double floor_of(const struct run_pair *pair) {
    static const char coarse[] = "below_resolution";
    return ratio_floor(fmin(pair->base->kernel_median_s, pair->new->kernel_median_s),
                       strcmp(pair->base->device, "cpu") == 0,
                       strstr(pair->base->flags, coarse) || strstr(pair->new->flags, coarse));
}

static enum status judge_times(const struct comparison *comparison, struct run_pair *pair, double threshold,
                               struct error *error) {
    struct samples base, new;
    enum status status = results_file_samples(comparison->base, pair->base, &base, error);
    if (status) return status;
    status = results_file_samples(comparison->new, pair->new, &new, error);
    if (!status && result_row_done(pair->base) && result_row_done(pair->new)) {
        double floor = floor_of(pair);
        pair->ratio = ratio_of(base.seconds, base.count, new.seconds, new.count, floor, threshold);
    }
    samples_free(&base);
    samples_free(&new);
    return status;
}

/* The square root of the number of terms that are summed for one element. */
static double root_of_terms(const struct run_pair *pair) {
    double terms = pair->base->flops / (double)(pair->output.elements > 0 ? pair->output.elements : 1);
    return terms > 1 ? sqrt(terms) : 1;
}

static void judge_missing(const struct results_file *file, const struct result_row *row, struct run_pair *pair) {
    char *why = results_file_missing(file, row);
    if (why) add_note(pair, true, why);
    free(why);
}

static enum status judge_output(const struct comparison *comparison, struct run_pair *pair, struct error *error) {
    char *base = results_file_output(comparison->base, pair->base);
    char *new = results_file_output(comparison->new, pair->new);
    enum status status = STATUS_OK;
    judge_missing(comparison->base, pair->base, pair);
    judge_missing(comparison->new, pair->new, pair);
    if (base && new &&result_row_done(pair->base) && result_row_done(pair->new))
        status = outputs_compare(comparison->base->path, base, comparison->new->path, new, &pair->output, error);
    free(base);
    free(new);
    if (status || !pair->output.known) return status;
    pair->allowed = (pair->base->tolerance + pair->new->tolerance) * root_of_terms(pair);
    if (!pair->output.alike) add_note(pair, true, "the outputs differ in shape or type");
    if (!pair->output.alike || !(pair->output.relative > pair->allowed)) return STATUS_OK;
    char text[160];
    snprintf(text, sizeof text, "the output differs by %.1e of its largest element, more than both tolerances allow",
             pair->output.relative);
    if (isinf(pair->output.relative))
        snprintf(text, sizeof text, "the outputs have NaNs or infinities at different positions");
    if (!comparison->inputs_differ) add_note(pair, true, text);
    return STATUS_OK;
}

enum status comparison_judge(struct comparison *comparison, const struct compare_options *options,
                             struct error *error) {
    for (int i = 0; i < comparison->count; i++) {
        struct run_pair *pair = &comparison->pairs[i];
        judge_states(pair);
        TRY(judge_times(comparison, pair, options->threshold, error));
        if (options->outputs) TRY(judge_output(comparison, pair, error));
    }
    return STATUS_OK;
}

int comparison_count(const struct comparison *comparison, enum ratio_verdict verdict) {
    int count = 0;
    for (int i = 0; i < comparison->count; i++) count += comparison->pairs[i].ratio.verdict == verdict;
    return count;
}

int comparison_worse(const struct comparison *comparison) {
    int count = 0;
    for (int i = 0; i < comparison->count; i++) count += comparison->pairs[i].worse;
    return count;
}
