/* compare_print.c - prints comparisons for people: the context, a table of ratios, runs without a partner, counts. */
#include "compare.h"

#include "../base/fail.h"
#include "../base/table.h"
#include "../base/text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LISTED 10 /* runs without a partner that are listed, for each file */
#define LINE   80 /* columns of a line of the context */

/* ---- the context ------------------------------------------------------------------------------------------------- */

static void print_file(const char *role, const struct results_file *file, FILE *to) {
    char *created = results_file_text(file, "/", "created"), *status = results_file_text(file, "/", "status");
    text_print(to, "%s  %s%s%s%s%s\n", role, file->path, created ? ", " : "", created ? created : "",
               status && strcmp(status, "complete") != 0 ? ", " : "",
               status && strcmp(status, "complete") != 0 ? status : "");
    free(created);
    free(status);
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
        char *line = must_printf("%s: %s -> %s", item->what, base, new);
        if (text_width(line) + 2 <= LINE) {
            text_print(to, "  %s\n", line);
        } else {
            text_print(to, "  %s:\n", item->what);
            text_print_wrapped(base, 4, table_terminal_width(), to);
            fputs("  ->\n", to);
            text_print_wrapped(new, 4, table_terminal_width(), to);
        }
        free(line);
    }
    fputc('\n', to);
}

/* ---- one row ----------------------------------------------------------------------------------------------------- */

static bool is_compared(const struct run_pair *pair) {
    return result_row_done(pair->base) || result_row_done(pair->new);
}

static void cell_seconds(struct table *table, int column, double seconds) {
    if (isnan(seconds)) return;
    if (seconds < 1e-3)
        table_cell(table, column, "%.2f us", seconds * 1e6);
    else if (seconds < 1)
        table_cell(table, column, "%.3f ms", seconds * 1e3);
    else
        table_cell(table, column, "%.3f s", seconds);
}

static const char *verdict_of(const struct run_pair *pair) {
    return pair->worse ? "WORSE" : ratio_verdict_names[pair->ratio.verdict];
}

/* Fills a cell with what would resolve the verdict UNSURE: more samples, for instance. */
static void cell_needs(struct table *table, int column, const struct run_pair *pair) {
    if (pair->ratio.verdict != RATIO_UNSURE) return;
    if (pair->base->repeats == 1 || pair->new->repeats == 1)
        table_cell(table, column, "noise unknown: 1 sample");
    else if (isinf(pair->ratio.more))
        table_cell(table, column, "floor %.2g%%", 100 * pair->ratio.floor);
    else if (pair->ratio.more >= 1e6)
        table_cell(table, column, "+%.0e", pair->ratio.more);
    else
        table_cell(table, column, "+%.0f", pair->ratio.more);
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

static void name_row(struct table *table, const struct run_pair *pair) {
    table_row(table);
    table_cell(table, OPERATION, "%s", pair->base->operation);
    table_cell(table, PARAMETERS, "%s", pair->base->parameters);
    table_cell(table, VARIANT, "%s", pair->base->variant);
    table_cell(table, SHAPE, "%s", pair->base->shape);
    cell_seconds(table, BASE, isnan(pair->ratio.base_s) ? pair->base->kernel_median_s : pair->ratio.base_s);
}

static double ratio_to_sort_by(const struct run_pair *pair) {
    return isnan(pair->ratio.value) ? -1 : pair->ratio.value;
}

static int compare_slowness(const void *a, const void *b) {
    const struct run_pair *x = *(const struct run_pair *const *)a, *y = *(const struct run_pair *const *)b;
    double p = ratio_to_sort_by(x), q = ratio_to_sort_by(y);
    if (x->worse != y->worse) return y->worse - x->worse;
    if (p != q) return p < q ? 1 : -1;
    return (x > y) - (x < y);
}

/* The pairs in the order in which they are printed; the caller frees. */
static const struct run_pair **in_order(const struct comparison *comparison, bool sort) {
    const struct run_pair **pairs = must_malloc((unsigned long)comparison->count * sizeof *pairs);
    for (int i = 0; i < comparison->count; i++) pairs[i] = &comparison->pairs[i];
    if (sort) qsort(pairs, (size_t)comparison->count, sizeof *pairs, compare_slowness);
    return pairs;
}

/* ---- one new file ------------------------------------------------------------------------------------------------ */

static void print_pairs(const struct comparison *comparison, bool sort, FILE *to) {
    enum { NEW = FIRST_OWN, RATIO, INTERVAL, VERDICT, NEEDS, OUTPUT };
    static const struct table_column columns[] = {
        NAMING_COLUMNS,
        {.name = "new", .right = true, .priority = 3},
        {.name = "ratio", .right = true},
        {.name = "95 %", .priority = 2},
        {.name = "verdict"},
        {.name = "needs", .heading = "", .joined = true},
        {.name = "output", .priority = 5},
    };
    const struct run_pair **pairs = in_order(comparison, sort);
    struct table *table = table_create(columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < comparison->count; i++) {
        const struct run_pair *pair = pairs[i];
        const struct ratio *ratio = &pair->ratio;
        if (!is_compared(pair)) continue;
        name_row(table, pair);
        cell_seconds(table, NEW, isnan(ratio->new_s) ? pair->new->kernel_median_s : ratio->new_s);
        if (!isnan(ratio->value)) table_cell(table, RATIO, "%.3f", ratio->value);
        if (ratio->low > 0 && isfinite(ratio->high)) table_cell(table, INTERVAL, "%.3f-%.3f", ratio->low, ratio->high);
        table_cell(table, VERDICT, "%s", verdict_of(pair));
        cell_needs(table, NEEDS, pair);
        cell_output(table, OUTPUT, &pair->output);
        if (pair->note[0]) table_remark(table, pair->note);
    }
    table_print(table, table_terminal_width(), "--json has all", to);
    table_free(table);
    free(pairs);
}

/* Prints the runs that have a result in neither file, grouped by their note. */
static void print_without_result(const struct comparison *comparison, FILE *to) {
    bool *said = must_malloc((unsigned long)comparison->count * sizeof *said);
    memset(said, 0, (size_t)comparison->count * sizeof *said);
    for (int i = 0; i < comparison->count; i++) {
        const struct run_pair *pair = &comparison->pairs[i];
        int alike = 0;
        if (said[i] || is_compared(pair)) continue;
        for (int j = i; j < comparison->count; j++) {
            if (is_compared(&comparison->pairs[j]) || strcmp(comparison->pairs[j].note, pair->note) != 0) continue;
            said[j] = true;
            alike++;
        }
        text_print(to, "%d run%s %s\n", alike, alike == 1 ? "" : "s", pair->note);
    }
    free(said);
}

static void print_unmatched(const char *role, const struct result_row *const *rows, int count, FILE *to) {
    if (count > 0) text_print(to, "%d run%s only in %s:\n", count, count == 1 ? "" : "s", role);
    for (int i = 0; i < count && i < LISTED; i++)
        text_print(to, "  %s %s%s%s, %s %s on %s%s%s\n", rows[i]->operation, rows[i]->variant,
                   rows[i]->parameters[0] ? " " : "", rows[i]->parameters, rows[i]->shape, rows[i]->dtype,
                   rows[i]->device, result_row_done(rows[i]) ? "" : ", ",
                   result_row_done(rows[i]) ? "" : rows[i]->status);
    if (count > LISTED) fprintf(to, "  and %d more; --json lists all\n", count - LISTED);
}

/* ---- several new files: a history -------------------------------------------------------------------------------- */

/* The pair with that row of the base; NULL: the new file has no partner for it. */
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

static void fill_history_row(struct table *table, const struct comparison *news, int count, int row) {
    const struct result_row *base = &news[0].base->rows[row];
    const struct run_pair *any = NULL;
    for (int i = 0; i < count; i++) {
        const struct run_pair *pair = pair_of(&news[i], base);
        if (pair && is_compared(pair) && !any) name_row(table, any = pair);
    }
    for (int i = 0; any && i < count; i++) {
        const struct run_pair *pair = pair_of(&news[i], base);
        if (!pair)
            table_cell(table, FIRST_OWN + i, "-");
        else if (isnan(pair->ratio.value))
            table_cell(table, FIRST_OWN + i, "%s", verdict_of(pair));
        else
            table_cell(table, FIRST_OWN + i, "%.3f %s", pair->ratio.value, verdict_of(pair));
        if (pair && pair->worse) table_remark(table, pair->note);
    }
}

/* A row of the base file, and the ratio of the last new file there. */
struct history_row {
    int row;
    double slowness;
};

static int compare_history_rows(const void *a, const void *b) {
    const struct history_row *x = a, *y = b;
    if (x->slowness != y->slowness) return x->slowness < y->slowness ? 1 : -1;
    return x->row - y->row;
}

static void print_history(const struct comparison *news, int count, bool sort, FILE *to) {
    static const struct table_column naming[] = {NAMING_COLUMNS};
    struct table_column *columns = must_malloc((unsigned long)(FIRST_OWN + count) * sizeof *columns);
    memcpy(columns, naming, sizeof naming);
    for (int i = 0; i < count; i++) {
        const char *slash = strrchr(news[i].new->path, '/');
        columns[FIRST_OWN + i] = (struct table_column){.name = slash ? slash + 1 : news[i].new->path};
    }
    int rows = news[0].base->count;
    struct history_row *order = must_malloc((unsigned long)rows * sizeof *order);
    for (int row = 0; row < rows; row++) {
        const struct run_pair *pair = pair_of(&news[count - 1], &news[0].base->rows[row]);
        order[row] = (struct history_row){row, pair ? ratio_to_sort_by(pair) : -1};
    }
    if (sort) qsort(order, (size_t)rows, sizeof *order, compare_history_rows);
    struct table *table = table_create(columns, FIRST_OWN + count);
    for (int i = 0; i < rows; i++) fill_history_row(table, news, count, order[i].row);
    table_print(table, table_terminal_width(), "--json has all", to);
    table_free(table);
    free(order);
    free(columns);
}

/* Prints how many of the slower and faster runs have flags: "2 of the slower and faster runs are flagged: throttled,
 * drift". */
static void print_flagged(const struct comparison *comparison, FILE *to) {
    int flagged = 0;
    char *names = must_strdup("");
    for (int i = 0; i < comparison->count; i++) {
        const struct run_pair *pair = &comparison->pairs[i];
        if (pair->ratio.verdict != RATIO_SLOWER && pair->ratio.verdict != RATIO_FASTER) continue;
        flagged += *pair->base->flags || *pair->new->flags;
        const char *const sides[] = {pair->base->flags, pair->new->flags};
        for (int side = 0; side < 2; side++)
            for (const char *flag = sides[side]; *flag;) {
                int length = (int)strcspn(flag, ",");
                char *name = must_printf("%.*s", length, flag);
                char *longer = strstr(names, name) ? NULL : must_printf("%s%s%s", names, *names ? ", " : "", name);
                free(name);
                if (longer) free(names), names = longer;
                flag += length + (flag[length] == ',');
            }
    }
    if (flagged)
        text_print(to, "%d of the slower and faster runs %s flagged: %s (see `tilerun show`)\n", flagged,
                   flagged == 1 ? "is" : "are", names);
    free(names);
}

void comparisons_print(const struct comparison *news, int count, bool sort, FILE *to) {
    if (count == 1)
        print_pairs(news, sort, to);
    else
        print_history(news, count, sort, to);
    for (int i = 0; i < count; i++) {
        const char *path = news[i].new->path;
        if (count == 1) print_without_result(&news[i], to);
        if (count == 1) print_flagged(&news[i], to);
        print_unmatched(count == 1 ? "base" : news[i].base->path, news[i].base_only, news[i].base_only_count, to);
        print_unmatched(count == 1 ? "new" : path, news[i].new_only, news[i].new_only_count, to);
    }
}

void comparison_print_counts(const struct comparison *comparison, FILE *to) {
    int worse = comparison_worse(comparison);
    fprintf(to, "%d slower, %d faster, %d same, %d unsure", comparison_count(comparison, RATIO_SLOWER),
            comparison_count(comparison, RATIO_FASTER), comparison_count(comparison, RATIO_SAME),
            comparison_count(comparison, RATIO_UNSURE));
    fprintf(to, worse ? "; %d result%s got worse\n" : "; no result got worse\n", worse, worse == 1 ? "" : "s");
}
