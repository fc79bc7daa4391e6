/* compare.c - pairs the runs of two results files and judges each pair. */
#include "compare.h"

#include "../show/result_view.h"

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

/* Orders rows by the texts that identify a run in both files. */
static int compare_texts(const struct result_row *a, const struct result_row *b) {
    int order = strcmp(a->operation, b->operation);
    if (!order) order = strcmp(a->op, b->op);
    if (!order) order = strcmp(a->variant, b->variant);
    if (!order) order = strcmp(a->parameters, b->parameters);
    if (!order) order = strcmp(a->shape, b->shape);
    if (!order) order = strcmp(a->dtype, b->dtype);
    return order ? order : strncmp(a->device, b->device, 3); /* "cpu", "cuda:0": the kind, not the number */
}

/* Orders entries by compare_texts, then by their place in the file. */
static int compare_entries(const void *a, const void *b) {
    const struct result_row *x = ((const struct entry *)a)->row, *y = ((const struct entry *)b)->row;
    int order = compare_texts(x, y);
    return order ? order : (x > y) - (x < y);
}

/* The rows of a file, sorted, without partners yet. The caller frees. */
static struct entry *sorted_entries(const struct results_file *file) {
    struct entry *entries = must_malloc((unsigned long)file->count * sizeof *entries);
    for (int i = 0; i < file->count; i++) entries[i] = (struct entry){.row = &file->rows[i]};
    qsort(entries, (size_t)file->count, sizeof *entries, compare_entries);
    return entries;
}

/* The partner of each row of `file` in the file's order; NULL: the row has none. The caller frees. */
static const struct result_row **partners(const struct results_file *file, const struct entry *entries) {
    const struct result_row **partner_rows = must_malloc((unsigned long)file->count * sizeof *partner_rows);
    for (int i = 0; i < file->count; i++)
        partner_rows[entries[i].row - file->rows] = entries[i].partner ? entries[i].partner->row : NULL;
    return partner_rows;
}

/* Pairs equal rows of two sorted lists, the first with the first, the second with the second. */
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

/* Do both runs have a time, and known devices that differ? */
static bool on_two_devices(const struct comparison *comparison, const struct run_pair *pair) {
    if (!result_row_done(pair->base) || !result_row_done(pair->new)) return false;
    OWNED char *base = device_of(comparison->base, pair->base), *new = device_of(comparison->new, pair->new);
    return strcmp(base, new) != 0 && *base && *new;
}

/* Sorts the rows of both files by name, pairs equal ones, and restores the order of the files. */
void comparison_pair(const struct results_file *base, const struct results_file *new, struct comparison *comparison) {
    OWNED struct entry *base_entries = sorted_entries(base), *new_entries = sorted_entries(new);
    find_partners(base_entries, base->count, new_entries, new->count);
    OWNED const struct result_row **of_base = partners(base, base_entries), **of_new = partners(new, new_entries);
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
}

const struct result_row *comparison_partner(const struct results_file *file, const struct result_row *row) {
    const struct result_row *found = NULL; /* among equal rows, that with the same number */
    for (int i = 0; i < file->count; i++)
        if (compare_texts(&file->rows[i], row) == 0 && (!found || file->rows[i].run == row->run))
            found = &file->rows[i];
    return found;
}

/* Is one row a copy of the other, among the rows of a file? The run's number does not suffice: panels share it. */
static bool is_same_row(const struct result_row *one, const struct result_row *other) {
    return one->run == other->run && strcmp(one->operation, other->operation) == 0 &&
           strcmp(one->variant, other->variant) == 0 && strcmp(one->parameters, other->parameters) == 0 &&
           strcmp(one->message, other->message) == 0;
}

/* Marks the rows of a file that meet the conditions, in an array that the caller frees; *count: their number. */
static enum status rows_that_meet(const struct results_file *file, const struct view_options *options, bool **meet,
                                  int *count, struct error *error) {
    FREED_BY(results_view_release) struct results_view *view = NULL;
    struct view_options of_file = *options;
    of_file.tags = file->tags;
    of_file.tag_count = file->tag_count;
    TRY(view_make(file->rows, file->count, &of_file, &view, error));
    OWNED struct result_row *rows = view_rows(view, count);
    *meet = must_malloc((size_t)file->count * sizeof **meet + 1);
    for (int i = 0, k = 0; i < file->count; i++) { /* both are in the order of the plan */
        (*meet)[i] = k < *count && is_same_row(&rows[k], &file->rows[i]);
        k += (*meet)[i];
    }
    return STATUS_OK;
}

/* Keeps the rows that are marked in `meet`. Returns their number. */
static int keep_rows(const struct result_row **rows, int count, const struct results_file *file, const bool *meet) {
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (meet[rows[i] - file->rows]) rows[kept++] = rows[i];
    return kept;
}

enum status comparison_filter(struct comparison *comparison, const char *const *where, int count, struct error *error) {
    const struct view_options options = {.where = where, .where_count = count};
    OWNED bool *base = NULL, *new = NULL;
    int base_count = 0, new_count = 0, kept = 0;
    TRY(rows_that_meet(comparison->base, &options, &base, &base_count, error));
    TRY(rows_that_meet(comparison->new, &options, &new, &new_count, error));
    if (base_count == 0) return fail(error, STATUS_RUN, "no run of %s matches --where", comparison->base->path);
    for (int i = 0; i < comparison->count; i++)
        if (base[comparison->pairs[i].base - comparison->base->rows]) comparison->pairs[kept++] = comparison->pairs[i];
    comparison->count = kept;
    comparison->base_only_count = keep_rows(comparison->base_only, comparison->base_only_count, comparison->base, base);
    comparison->new_only_count = keep_rows(comparison->new_only, comparison->new_only_count, comparison->new, new);
    return STATUS_OK;
}

void comparison_free(struct comparison *comparison) {
    free(comparison->pairs);
    free(comparison->base_only);
    free(comparison->new_only);
    *comparison = (struct comparison){.count = 0};
}

/* ---- one pair ---------------------------------------------------------------------------------------------------- */

/* Appends a sentence to the pair's note; `worse`: the result got worse by this. */
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

/* The floor of the pair's ratio (ratio_floor). */
static double floor_of(const struct run_pair *pair) {
    return ratio_floor(fmin(pair->base->kernel_median_s, pair->new->kernel_median_s),
                       strcmp(pair->base->device, "cpu") == 0,
                       strstr(pair->base->flags, FLAG_COARSE) || strstr(pair->new->flags, FLAG_COARSE));
}

/* The samples in clock cycles of the device. *clock_sampled: the clock is known at each sample; otherwise the run's
 * median clock gives the cycles. NULL: neither clock is known. The caller frees. */
static double *cycles_of(const struct samples *samples, const struct result_row *row, bool *clock_sampled) {
    *clock_sampled = samples->count > 0;
    for (int i = 0; i < samples->count; i++) *clock_sampled = *clock_sampled && samples->conditions[i].clock_mhz > 0;
    if (!*clock_sampled && !(row->sm_clock_mhz > 0)) return NULL;
    double *cycles = must_malloc((size_t)samples->count * sizeof *cycles + 1);
    for (int i = 0; i < samples->count; i++)
        cycles[i] =
            samples->seconds[i] * 1e6 * (*clock_sampled ? (double)samples->conditions[i].clock_mhz : row->sm_clock_mhz);
    return cycles;
}

static bool is_claim(enum ratio_verdict verdict) {
    return verdict == RATIO_SLOWER || verdict == RATIO_FASTER;
}

/* Replaces the ratio of times by the ratio of cycles if clocks are known. The memory's clock does not change with them,
 * and a median does not show what the clock was at each sample. So for runs that memory limits, and for runs without
 * the clock of each sample, cycles may only refute the verdict of the times. */
static void judge_cycles(struct run_pair *pair, const struct samples *base, const struct samples *new,
                         double threshold) {
    const struct ratio times = pair->ratio;
    bool base_each, new_each;
    OWNED double *base_cycles = cycles_of(base, pair->base, &base_each);
    OWNED double *new_cycles = cycles_of(new, pair->new, &new_each);
    if (base_cycles && new_cycles && times.verdict != RATIO_UNKNOWN) {
        struct ratio cycles = ratio_of(base_cycles, base->count, new_cycles, new->count, times.floor, threshold);
        bool firm = base_each && new_each && strcmp(pair->new->bound_by, "memory") != 0;
        pair->in_cycles = firm || !is_claim(cycles.verdict) || cycles.verdict == times.verdict;
        if (pair->in_cycles) pair->ratio = cycles;
        pair->ratio.base_s = times.base_s;
        pair->ratio.new_s = times.new_s;
        if (!pair->in_cycles && is_claim(times.verdict)) pair->ratio.verdict = RATIO_UNSURE; /* they contradict */
    }
}

/* Has a run this flag, by its row or by its samples? Files of earlier versions lack newer flags in the rows. */
static bool has_flag(const struct samples *samples, const struct result_row *row, const char *flag) {
    char text[FLAGS_TEXT];
    return strstr(row->flags, flag) || strstr(samples_flags(samples, text), flag);
}

/* Did the same processor's cores run at speeds that differ by more than the noise of the probe, 3 %? false if a probe
 * is NaN, unknown. */
static bool cores_differ(const struct run_pair *pair) {
    return strcmp(pair->base->device_name, pair->new->device_name) == 0 &&
           fabs(log(pair->new->probe_s / pair->base->probe_s)) > 0.03;
}

void run_pair_judge(struct run_pair *pair, const struct samples *base, const struct samples *new, double threshold) {
    enum ratio_verdict *verdict = &pair->ratio.verdict;
    pair->ratio = ratio_of(base->seconds, base->count, new->seconds, new->count, floor_of(pair), threshold);
    judge_cycles(pair, base, new, threshold);
    pair->busy = strstr(pair->base->flags, FLAG_BUSY) || strstr(pair->new->flags, FLAG_BUSY) || cores_differ(pair);
    if (pair->busy && is_claim(*verdict)) *verdict = RATIO_UNSURE;
    const struct ratio *ratio = &pair->ratio;
    pair->noisy = (isfinite(ratio->high) && ratio->high - ratio->low > NOISY * ratio->value) ||
                  has_flag(base, pair->base, FLAG_NOISY) || has_flag(new, pair->new, FLAG_NOISY);
    pair->bimodal = has_flag(base, pair->base, FLAG_BIMODAL) || has_flag(new, pair->new, FLAG_BIMODAL);
}

/* Judges the times of a pair by the samples that its files store, if both runs have a result. */
static enum status judge_times(const struct comparison *comparison, struct run_pair *pair, double threshold,
                               struct error *error) {
    FREED_BY(samples_free) struct samples base = {0};
    FREED_BY(samples_free) struct samples new = {0};
    TRY(results_file_samples(comparison->base, pair->base, &base, error));
    TRY(results_file_samples(comparison->new, pair->new, &new, error));
    if (result_row_done(pair->base) && result_row_done(pair->new)) run_pair_judge(pair, &base, &new, threshold);
    return STATUS_OK;
}

/* The square root of the number of terms that are summed for one element. */
static double root_of_terms(const struct run_pair *pair) {
    double terms = pair->base->flops / (double)(pair->output.elements > 0 ? pair->output.elements : 1);
    return terms > 1 ? sqrt(terms) : 1;
}

/* Notes that a file has lost the stored output of a row. */
static void judge_missing(const struct results_file *file, const struct result_row *row, struct run_pair *pair) {
    OWNED char *why = results_file_missing(file, row);
    if (why) add_note(pair, true, why);
}

/* Compares a pair's stored outputs, if both files have them. Notes lost outputs, other shapes and, if the inputs are
 * equal, differences beyond the tolerances. */
static enum status judge_output(const struct comparison *comparison, struct run_pair *pair, struct error *error) {
    OWNED char *base = results_file_output(comparison->base, pair->base);
    OWNED char *new = results_file_output(comparison->new, pair->new);
    judge_missing(comparison->base, pair->base, pair);
    judge_missing(comparison->new, pair->new, pair);
    if (result_row_done(pair->base) && result_row_done(pair->new) && base && new)
        TRY(outputs_compare(comparison->base->path, base, comparison->new->path, new, &pair->output, error));
    if (!pair->output.known) return STATUS_OK;
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

const char *comparison_reason(const struct run_pair *pair) {
    bool unsure = pair->ratio.verdict == RATIO_UNSURE;
    if (!unsure && pair->in_cycles) return "cycles";
    if (unsure && pair->busy) return "busy";
    if (unsure && (pair->base->repeats == 1 || pair->new->repeats == 1)) return "single";
    if (unsure && isinf(pair->ratio.more)) return "floor";
    return pair->noisy ? FLAG_NOISY : pair->bimodal ? FLAG_BIMODAL : "";
}

int comparison_worse(const struct comparison *comparison) {
    int count = 0;
    for (int i = 0; i < comparison->count; i++) count += comparison->pairs[i].worse;
    return count;
}
