/* compare_print.c - prints comparisons for people: the context, a table of ratios, runs without a partner, counts. */
#include "compare.h"

#include "../base/fail.h"
#include "../base/table.h"
#include "../base/text.h"
#include "../show/result_view_columns.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LISTED   10 /* runs without a partner that are listed, for each file */
#define LINE_COLUMNS 80 /* a longer line of the context is wrapped */

/* ---- the context ------------------------------------------------------------------------------------------------- */

static void print_file(const char *role, const struct results_file *file, FILE *to) {
    OWNED char *created = results_file_text(file, "/", "created"), *status = results_file_text(file, "/", "status");
    const char *state = status ? status : file->standing ? file->standing : "complete"; /* "unfinished: 2 of 4 ..." */
    bool complete = strcmp(state, "complete") == 0;
    text_print(to, "%s  %s%s%s%s%.*s\n", role, file->path, created ? ", " : "", created ? created : "",
               complete ? "" : ", ", complete ? 0 : (int)strcspn(state, ":"), state);
}

static const char *or_nothing(const char *text) {
    return *text ? text : "-";
}

void comparison_print_files(const struct comparison *comparison, FILE *to) {
    print_file("base", comparison->base, to);
    print_file("new ", comparison->new, to);
}

void context_print(const struct context *context, FILE *to) {
    fprintf(to, context->count ? "What differs:\n" : "Program, machine, job and inputs: no difference is recorded.\n");
    for (int i = 0; i < context->count; i++) {
        const struct context_difference *item = &context->items[i];
        const char *base = or_nothing(item->base), *new = or_nothing(item->new);
        OWNED char *line = must_printf("%s: %s -> %s", item->what, base, new);
        if (text_width(line) + 2 <= LINE_COLUMNS) {
            text_print(to, "  %s\n", line);
        } else {
            text_print(to, "  %s:\n", item->what);
            text_print_wrapped(base, 4, table_terminal_width(), to);
            fputs("  ->\n", to);
            text_print_wrapped(new, 4, table_terminal_width(), to);
        }
    }
    fputc('\n', to);
}

/* ---- one row ----------------------------------------------------------------------------------------------------- */

/* Has a run of the pair a result? */
static bool is_compared(const struct run_pair *pair) {
    return result_row_done(pair->base) || result_row_done(pair->new);
}

static void cell_seconds(struct table *table, int column, double seconds) {
    char text[VIEW_CELL] = "";
    view_seconds_text(seconds, text);
    table_cell(table, column, "%s", text);
}

static const char *verdict_of(const struct run_pair *pair) {
    return pair->worse ? "WORSE" : ratio_verdict_names[pair->ratio.verdict];
}

/* Fills a cell with the words that qualify a verdict and, for an UNSURE that no other reason explains, with the
 * number of further samples that would resolve it: "noisy, bimodal, +40". */
static void cell_reason(struct table *table, int column, const struct run_pair *pair) {
    const char *reason = comparison_reason(pair);
    OWNED char *words = must_strdup(reason);
    if (pair->noisy && strcmp(reason, FLAG_NOISY) != 0) must_append(&words, ", %s", FLAG_NOISY);
    if (pair->bimodal && strcmp(reason, FLAG_BIMODAL) != 0) must_append(&words, ", %s", FLAG_BIMODAL);
    bool doubted = !*reason || strcmp(reason, FLAG_NOISY) == 0 || strcmp(reason, FLAG_BIMODAL) == 0;
    if (pair->ratio.verdict == RATIO_UNSURE && doubted)
        must_append(&words, pair->ratio.more >= 1e6 ? "%s+%.0e" : "%s+%.0f", *words ? ", " : "", pair->ratio.more);
    if (*words) table_cell(table, column, "%s", words);
}

/* Writes "1.024" into `text` and returns it; beyond a factor of ten only the power: ">10x", "<0.01x". */
static const char *ratio_text(double value, char text[16]) {
    double power = floor(fabs(log10(value)));
    if (!(power >= 1))
        snprintf(text, 16, "%.3f", value);
    else if (value > 1)
        snprintf(text, 16, ">%.0fx", pow(10, fmin(power, 9)));
    else
        snprintf(text, 16, "<%.*fx", (int)fmin(power, 9), pow(10, -fmin(power, 9)));
    return text;
}

/* Fills a cell with "0.981-1.024"; an end beyond a factor of ten is "<0.1" or ">10". */
static void cell_interval(struct table *table, int column, const struct ratio *ratio) {
    if (isnan(ratio->low)) return;
    char low[16] = "<0.1", high[16] = ">10";
    if (ratio->low >= 0.1) snprintf(low, sizeof low, "%.3f", fmin(ratio->low, 1e6));
    if (ratio->high <= 10) snprintf(high, sizeof high, "%.3f", ratio->high);
    table_cell(table, column, "%s-%s", low, high);
}

static void print_table(const struct table *table, bool markdown, FILE *to) {
    if (markdown)
        table_print_markdown(table, to);
    else
        table_print(table, table_terminal_width(), "--json has all", to);
}

static void cell_output(struct table *table, int column, const struct output_difference *output) {
    if (!output->known) return;
    if (output->identical)
        table_cell(table, column, "same");
    else
        table_cell(table, column, "%.0e", output->relative);
}

/* The columns that every table begins with. */
enum { OPERATION, PARAMETERS, VARIANT, SHAPE, BASE, FIRST_OWN };
#define NAMING_COLUMNS                                                                                                 \
    {.name = "operation"}, {.name = "parameters"}, {.name = "variant"}, {.name = "shape", .priority = 9}, {            \
        .name = "base", .right = true, .priority = 4                                                                   \
    }

/* Adds a row and fills NAMING_COLUMNS. */
static void name_row(struct table *table, const struct run_pair *pair) {
    table_row(table);
    table_cell(table, OPERATION, "%s", pair->base->operation);
    table_cell(table, PARAMETERS, "%s", pair->base->parameters);
    table_cell(table, VARIANT, "%s", pair->base->variant);
    table_cell(table, SHAPE, "%s", pair->base->shape);
    cell_seconds(table, BASE, isnan(pair->ratio.base_s) ? pair->base->kernel_median_s : pair->ratio.base_s);
}

static double slowness(const struct run_pair *pair) {
    return pair->worse ? INFINITY : isnan(pair->ratio.value) ? -1 : pair->ratio.value;
}

/* Orders worse results first, then the largest ratios; pairs without a ratio come last. */
static int compare_slowness(const void *a, const void *b) {
    const struct run_pair *x = a, *y = b;
    double p = slowness(x), q = slowness(y);
    return p != q ? (p < q) - (p > q) : (x->base > y->base) - (x->base < y->base);
}

void comparison_sort(struct comparison *comparison) {
    qsort(comparison->pairs, (size_t)comparison->count, sizeof *comparison->pairs, compare_slowness);
}

/* ---- one new file ------------------------------------------------------------------------------------------------ */

/* Prints the comparison with one new file: a row for each pair. */
static void print_pairs(const struct comparison *comparison, bool markdown, FILE *to) {
    enum { NEW = FIRST_OWN, RATIO, INTERVAL, VERDICT, REASON, OUTPUT };
    static const struct table_column columns[] = {
        NAMING_COLUMNS,
        {.name = "new", .right = true, .priority = 3},
        {.name = "ratio", .right = true},
        {.name = "95 %", .priority = 2},
        {.name = "verdict"},
        {.name = "reason", .heading = "", .joined = true},
        {.name = "output", .priority = 5},
    };
    FREED_BY(table_release) struct table *table = table_create(columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < comparison->count; i++) {
        const struct run_pair *pair = &comparison->pairs[i];
        const struct ratio *ratio = &pair->ratio;
        char text[16];
        if (!is_compared(pair)) continue;
        name_row(table, pair);
        cell_seconds(table, NEW, isnan(ratio->new_s) ? pair->new->kernel_median_s : ratio->new_s);
        if (!isnan(ratio->value)) table_cell(table, RATIO, "%s", ratio_text(ratio->value, text));
        cell_interval(table, INTERVAL, ratio);
        table_cell(table, VERDICT, "%s", verdict_of(pair));
        cell_reason(table, REASON, pair);
        cell_output(table, OUTPUT, &pair->output);
        if (pair->note[0]) table_remark(table, pair->note);
    }
    print_table(table, markdown, to);
}

/* Prints the runs that have a result in neither file, grouped by their note. */
static void print_without_result(const struct comparison *comparison, FILE *to) {
    OWNED bool *printed = must_zeroed((unsigned long)comparison->count * sizeof *printed);
    for (int i = 0; i < comparison->count; i++) {
        const struct run_pair *pair = &comparison->pairs[i];
        int alike = 0;
        if (printed[i] || is_compared(pair)) continue;
        for (int j = i; j < comparison->count; j++) {
            if (is_compared(&comparison->pairs[j]) || strcmp(comparison->pairs[j].note, pair->note) != 0) continue;
            printed[j] = true;
            alike++;
        }
        text_print(to, "%d run%s %s\n", alike, alike == 1 ? "" : "s", pair->note);
    }
}

/* Prints the runs that only one file has; `role`: its name. */
static void print_unmatched(const char *role, const struct result_row *const *rows, int count, FILE *to) {
    if (count > 0) text_print(to, "%d run%s only in %s:\n", count, count == 1 ? "" : "s", role);
    for (int i = 0; i < count && i < MAX_LISTED; i++)
        text_print(to, "  %s %s%s%s, %s %s on %s%s%s\n", rows[i]->operation, rows[i]->variant,
                   rows[i]->parameters[0] ? " " : "", rows[i]->parameters, rows[i]->shape, rows[i]->dtype,
                   rows[i]->device, result_row_done(rows[i]) ? "" : ", ",
                   result_row_done(rows[i]) ? "" : rows[i]->status);
    if (count > MAX_LISTED) fprintf(to, "  and %d more; --json lists all\n", count - MAX_LISTED);
}

/* ---- several new files: a history -------------------------------------------------------------------------------- */

/* The pair with this row of the base; NULL: the new file has no partner for the row. */
static const struct run_pair *pair_of(const struct comparison *comparison, const struct result_row *base) {
    int low = 0, high = comparison->count; /* pairs are in the order of the base's rows */
    while (low < high) {
        int middle = (low + high) / 2;
        if (comparison->pairs[middle].base < base)
            low = middle + 1;
        else
            high = middle;
    }
    return low < comparison->count && comparison->pairs[low].base == base ? &comparison->pairs[low] : NULL;
}

/* Fills the row of a run of the base in the table of several comparisons: a cell with ratio and verdict for each.
 * Leaves the row empty if no comparison has judged the run. */
static void fill_history_row(struct table *table, const struct comparison *news, int count, int row) {
    const struct result_row *base = &news[0].base->rows[row];
    const struct run_pair *any = NULL;
    for (int i = 0; i < count; i++) {
        const struct run_pair *pair = pair_of(&news[i], base);
        if (any || !pair || !is_compared(pair)) continue;
        any = pair;
        name_row(table, pair);
    }
    for (int i = 0; any && i < count; i++) {
        const struct run_pair *pair = pair_of(&news[i], base);
        char text[16];
        if (!pair)
            table_cell(table, FIRST_OWN + i, "-");
        else if (isnan(pair->ratio.value))
            table_cell(table, FIRST_OWN + i, "%s", verdict_of(pair));
        else
            table_cell(table, FIRST_OWN + i, "%s %s", ratio_text(pair->ratio.value, text), verdict_of(pair));
        if (pair && pair->worse) table_remark(table, pair->note);
    }
}

/* A row of the base file, and how much slower the last new file is there, to sort by; infinity: a result got worse. */
struct history_row {
    int row;
    double slowness;
};

static int compare_history_rows(const void *a, const void *b) {
    const struct history_row *x = a, *y = b;
    if (x->slowness != y->slowness) return x->slowness < y->slowness ? 1 : -1;
    return x->row - y->row;
}

/* Prints the comparison with several new files: a row for each run of the base, a column for each new file. */
static void print_history(const struct comparison *news, int count, bool sort, bool markdown, FILE *to) {
    static const struct table_column naming[] = {NAMING_COLUMNS};
    OWNED struct table_column *columns = must_malloc((unsigned long)(FIRST_OWN + count) * sizeof *columns);
    memcpy(columns, naming, sizeof naming);
    for (int i = 0; i < count; i++) {
        const char *slash = strrchr(news[i].new->path, '/');
        columns[FIRST_OWN + i] = (struct table_column){.name = slash ? slash + 1 : news[i].new->path};
    }
    int rows = news[0].base->count;
    OWNED struct history_row *order = must_malloc((unsigned long)rows * sizeof *order);
    for (int row = 0; row < rows; row++) {
        order[row] = (struct history_row){row, -1};
        for (int i = 0; i < count; i++) {
            const struct run_pair *pair = pair_of(&news[i], &news[0].base->rows[row]);
            if (pair && (pair->worse || i == count - 1))
                order[row].slowness = fmax(order[row].slowness, slowness(pair));
        }
    }
    if (sort) qsort(order, (size_t)rows, sizeof *order, compare_history_rows);
    FREED_BY(table_release) struct table *table = table_create(columns, FIRST_OWN + count);
    for (int i = 0; i < rows; i++) fill_history_row(table, news, count, order[i].row);
    print_table(table, markdown, to);
}

/* Prints how many ratios compare clock cycles. `path`: the new file, if there are several new files; else NULL. */
static void print_cycles(const struct comparison *comparison, const char *path, FILE *to) {
    int count = 0;
    for (int i = 0; i < comparison->count; i++) count += comparison->pairs[i].in_cycles;
    if (count > 0)
        text_print(to,
                   "%s%s%d ratio%s of clock cycles: times multiplied by the device's clock, which both files have\n",
                   path ? path : "", path ? ": " : "", count, count == 1 ? " is one" : "s are those");
}

/* Prints how many of the slower and faster runs have flags: "2 of the slower and faster runs are flagged: throttled,
 * drift". */
static void print_flagged(const struct comparison *comparison, FILE *to) {
    int flagged = 0;
    OWNED char *names = must_strdup("");
    for (int i = 0; i < comparison->count; i++) {
        const struct run_pair *pair = &comparison->pairs[i];
        if (pair->ratio.verdict != RATIO_SLOWER && pair->ratio.verdict != RATIO_FASTER) continue;
        flagged += *pair->base->flags || *pair->new->flags;
        const char *const sides[] = {pair->base->flags, pair->new->flags};
        for (int side = 0; side < 2; side++)
            for (const char *flag = sides[side]; *flag;) {
                int length = (int)strcspn(flag, ",");
                OWNED char *name = must_printf("%.*s", length, flag);
                if (!strstr(names, name)) must_append(&names, "%s%s", *names ? ", " : "", name);
                flag += length + (flag[length] == ',');
            }
    }
    if (flagged)
        text_print(to, "%d of the slower and faster runs %s flagged: %s (see `tilerun show`)\n", flagged,
                   flagged == 1 ? "is" : "are", names);
}

void comparisons_print_table(const struct comparison *news, int count, bool sort, bool markdown, FILE *to) {
    if (count == 1)
        print_pairs(news, markdown, to);
    else
        print_history(news, count, sort, markdown, to);
}

void comparisons_print_rest(const struct comparison *news, int count, FILE *to) {
    for (int i = 0; i < count; i++) {
        const char *path = news[i].new->path;
        if (count == 1) print_without_result(&news[i], to);
        print_cycles(&news[i], count > 1 ? path : NULL, to);
        if (count == 1) print_flagged(&news[i], to);
        print_unmatched(count == 1 ? "base" : news[i].base->path, news[i].base_only, news[i].base_only_count, to);
        print_unmatched(count == 1 ? "new" : path, news[i].new_only, news[i].new_only_count, to);
    }
}

/* The geometric mean of the ratios of the pairs, from number `first` on, that are of the same operation as pair
 * `first`; *count: their number. NaN: no such pair has a ratio. */
static double mean_of_operation(const struct comparison *comparison, int first, int *count) {
    double sum = 0;
    *count = 0;
    for (int i = first; i < comparison->count; i++) {
        const struct run_pair *pair = &comparison->pairs[i];
        if (!(pair->ratio.value > 0) || strcmp(pair->base->operation, comparison->pairs[first].base->operation) != 0)
            continue;
        sum += log(pair->ratio.value);
        ++*count;
    }
    return exp(sum / *count);
}

/* Is this pair the first of its operation? */
static bool begins_operation(const struct comparison *comparison, int number) {
    const char *operation = comparison->pairs[number].base->operation;
    for (int i = 0; i < number; i++)
        if (strcmp(comparison->pairs[i].base->operation, operation) == 0) return false;
    return true;
}

/* Prints "geometric mean of ratios: product 1.020 of 12 runs, sums 0.980 of 3 runs", for operations with several
 * ratios. */
static void print_means(const struct comparison *comparison, FILE *to) {
    OWNED char *means = must_strdup("");
    for (int i = 0; i < comparison->count; i++) {
        int count = 0;
        double mean = begins_operation(comparison, i) ? mean_of_operation(comparison, i, &count) : NAN;
        if (isnan(mean) || count < 2) continue;
        must_append(&means, "%s%s %.3f of %d runs", *means ? ", " : "", comparison->pairs[i].base->operation, mean,
                    count);
    }
    if (*means) {
        OWNED char *line = must_printf("geometric mean of ratios: %s", means);
        text_print_wrapped(line, 0, table_terminal_width(), to);
    }
}

void comparison_print_counts(const struct comparison *comparison, FILE *to) {
    int worse = comparison_worse(comparison);
    fprintf(to, "%d slower, %d faster, %d same, %d unsure", comparison_count(comparison, RATIO_SLOWER),
            comparison_count(comparison, RATIO_FASTER), comparison_count(comparison, RATIO_SAME),
            comparison_count(comparison, RATIO_UNSURE));
    fprintf(to, worse ? "; %d result%s got worse\n" : "; no result got worse\n", worse, worse == 1 ? "" : "s");
    print_means(comparison, to);
}
