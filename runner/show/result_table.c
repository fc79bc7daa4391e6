/* result_table.c - prints a view as a table, and below it lines about skipped runs, missing ratios and the meaning of
 * flags. */
#include "result_view_columns.h"

#include "../base/fail.h"
#include "../base/table.h"
#include "../base/text.h"
#include "../base/texts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_HEADING = 14,   /* characters of a variant's name in the heading of ratios */
    MANY_REMARKS = 3,   /* from this many rows with one message on, they share a line below the table */
    ROOF_EXCEEDED = 105 /* percent of the roof from which a run is faster, and not just noisy */
};

/* ---- lines below the table ---- */

/* Joins names: "naive, tiled and 3 more"; three or fewer are all named. The caller frees. */
static char *join_names(const struct texts *names) {
    int all = names->count;
    if (all < 2) return must_strdup(all ? names->items[0] : "");
    if (all == 2) return must_printf("%s and %s", names->items[0], names->items[1]);
    if (all == 3) return must_printf("%s, %s and %s", names->items[0], names->items[1], names->items[2]);
    return must_printf("%s, %s and %d more", names->items[0], names->items[1], all - 2);
}

static bool same_variant(const struct result_row *one, const struct result_row *other) {
    return strcmp(one->variant, other->variant) == 0 && strcmp(one->operation, other->operation) == 0;
}

/* Rows with the same message that have the same status, or all have results. */
struct group {
    const struct result_row *first;
    int runs;
    int variants; /* number of different variants of operations */
    struct group_variant {
        const struct result_row *first;
        int runs;
    } * variant;
};

/* Counts a row in its group, and under its variant. */
static void group_add(struct group *group, const struct result_row *row) {
    int i = 0;
    group->runs++;
    while (i < group->variants && !same_variant(group->variant[i].first, row)) i++;
    if (i == group->variants) APPEND(group->variant, group->variants)->first = row;
    group->variant[i].runs++;
}

/* The line about a group: "skipped: product naive n=512, product tiled and 3 more (12 runs): no GPU here". It names the
 * operation if the view has several, and the parameters of a variant with a single run. The caller frees. */
static char *group_line(const struct results_view *view, const struct group *group, const char *word) {
    bool several = false;
    for (int i = 1; i < view->count && !several; i++)
        several = strcmp(view->rows[i].operation, view->rows[0].operation) != 0;
    FREED_BY(texts_clear) struct texts names = {0};
    for (int i = 0; i < group->variants; i++) {
        const struct result_row *row = group->variant[i].first;
        const char *parameters = group->variant[i].runs == 1 ? row->parameters : "";
        texts_add(&names, must_printf("%s%s%s%s%s", several ? row->operation : "", several ? " " : "", row->variant,
                                      *parameters ? " " : "", parameters));
    }
    OWNED char *joined = join_names(&names);
    char runs[32] = "";
    if (group->runs > group->variants) snprintf(runs, sizeof runs, " (%d runs)", group->runs);
    return must_printf("%s: %s%s%s%s", word, joined, runs, *group->first->message ? ": " : "", group->first->message);
}

struct groups {
    int count;
    struct group *items;
};

/* The group that a row belongs to; NULL: there is none yet. */
static struct group *groups_find(const struct groups *groups, const struct result_row *row) {
    for (int i = 0; i < groups->count; i++) {
        const struct result_row *first = groups->items[i].first;
        bool done = result_row_done(first) && result_row_done(row);
        if (strcmp(first->message, row->message) == 0 && (done || strcmp(first->status, row->status) == 0))
            return &groups->items[i];
    }
    return NULL;
}

static void groups_add(struct groups *groups, const struct result_row *row) {
    struct group *group = groups_find(groups, row);
    if (!group) {
        group = APPEND(groups->items, groups->count);
        group->first = row;
    }
    group_add(group, row);
}

static void groups_free(struct groups *groups) {
    for (int i = 0; i < groups->count; i++) free(groups->items[i].variant);
    free(groups->items);
}

/* Is the row omitted from the table? Runs that did not begin are, unless the user has chosen the columns. */
static bool is_omitted(const struct results_view *view, const struct result_row *row) {
    return !view->columns_chosen && (strcmp(row->status, "skipped") == 0 || strcmp(row->status, "interrupted") == 0);
}

/* Groups the omitted rows (`omitted`), or the rows that have a result and a message. */
static struct groups groups_of(const struct results_view *view, bool omitted) {
    struct groups groups = {0};
    for (int i = 0; i < view->chosen; i++) {
        const struct result_row *row = &view->rows[view->order[i]];
        if (omitted ? is_omitted(view, row) : result_row_done(row) && *row->message) groups_add(&groups, row);
    }
    return groups;
}

/* Is a ratio expected for the row, which has a time, but missing because its baseline has none? */
static bool lacks_ratio(const struct results_view *view, int row) {
    const struct result_row *result = &view->rows[row], *base = view->base[row];
    bool compared = base && result_row_done(base) && !isnan(base->kernel_median_s);
    bool wanted = (base || view->baseline_chosen) && !result_row_is_cold(result);
    return wanted && result_row_done(result) && !isnan(result->kernel_median_s) && !compared;
}

/* Names the tasks that have the same baseline as `row` and therefore no ratio: "product n=64, means and 3 more". Clears
 * `unexplained` for their rows. The caller frees. */
static char *tasks_without(const struct results_view *view, int row, bool *unexplained) {
    FREED_BY(texts_clear) struct texts tasks = {0};
    const struct result_row *last = NULL;
    const char *base = view->base[row] ? view->base[row]->variant : NULL;
    for (int i = row; i < view->count; i++) {
        const struct result_row *result = &view->rows[i];
        const char *other = view->base[i] ? view->base[i]->variant : NULL;
        bool same_base = base && other ? strcmp(base, other) == 0 : base == other;
        if (!unexplained[i] || !same_base) continue;
        unexplained[i] = false;
        if (!last || strcmp(last->operation, result->operation) != 0 ||
            strcmp(last->parameters, result->parameters) != 0)
            texts_add(&tasks,
                      must_printf("%s%s%s", result->operation, *result->parameters ? " " : "", result->parameters));
        last = result;
    }
    return join_names(&tasks);
}

/* Explains missing ratios: adds a line for each baseline without a time. */
static void add_missing_ratios(const struct results_view *view, struct texts *lines) {
    OWNED bool *unexplained = must_zeroed((size_t)view->count * sizeof *unexplained);
    for (int i = 0; i < view->chosen; i++) unexplained[view->order[i]] = lacks_ratio(view, view->order[i]);
    for (int row = 0; row < view->count; row++) {
        if (!unexplained[row]) continue;
        const char *base = view->base[row] ? view->base[row]->variant : view->baseline;
        OWNED char *names = tasks_without(view, row, unexplained);
        texts_add(lines,
                  must_printf("no ratio for %s: its baseline, %s, has no time there; `show --baseline` sets another",
                              names, base ? base : "the first variant"));
    }
}

/* ", 41 of 60 samples": how many samples of the runs flagged busy were taken while other programs used the CPUs; "":
 * unknown. The caller frees. */
static char *busy_text(const struct results_view *view) {
    int busy = 0, all = 0;
    for (int i = 0; i < view->chosen; i++) {
        const struct result_row *row = &view->rows[view->order[i]];
        if (!strstr(row->flags, FLAG_BUSY)) continue;
        busy += row->busy_samples;
        all += row->repeats;
    }
    return busy > 0 ? must_printf(", %d of %d samples", busy, all) : must_strdup("");
}

/* Adds a line for each flag of the rows: "throttled (t): 3 runs: the GPU ...". */
static void add_flags(const struct results_view *view, struct texts *lines) {
    struct found {
        const char *flag;
        size_t length;
        int runs;
    };
    OWNED struct found *found = NULL;
    int count = 0;
    for (int i = 0; i < view->chosen; i++) {
        const char *flag = view->rows[view->order[i]].flags;
        for (size_t length; *flag; flag += length + (flag[length] == ',')) {
            int at = 0;
            length = strcspn(flag, ",");
            while (at < count && (found[at].length != length || strncmp(found[at].flag, flag, length) != 0)) at++;
            if (at == count) *APPEND(found, count) = (struct found){flag, length, 0};
            found[at].runs++;
        }
    }
    for (int i = 0; i < count; i++) {
        const struct flag_advice *advice = flag_advice(found[i].flag, found[i].length);
        OWNED char *samples = advice->letter == 'b' ? busy_text(view) : must_strdup("");
        texts_add(lines, must_printf("%.*s (%c): %d run%s%s: %s", (int)found[i].length, found[i].flag, advice->letter,
                                     found[i].runs, found[i].runs == 1 ? "" : "s", samples, advice->words));
    }
}

/* Adds lines if runs exceed their roof: a roof of arithmetic was measured too low; a roof of memory does not hold for
 * data in a cache. */
static void add_low_roof(const struct results_view *view, struct texts *lines) {
    int count = 0, cached = 0;
    for (int i = 0; i < view->chosen; i++) {
        const struct result_row *row = &view->rows[view->order[i]];
        bool above = row->percent_of_bound > ROOF_EXCEEDED, compute = strcmp(row->bound_by, "compute") == 0;
        count += above && compute;
        cached += above && !compute;
    }
    if (cached > 0)
        texts_add(lines, must_printf("cache: %d run%s faster than this device's memory, because %s data fit into its "
                                     "caches",
                                     cached, cached == 1 ? " is" : "s are", cached == 1 ? "its" : "their"));
    if (count > 0)
        texts_add(lines, must_printf("roof: %d run%s faster than this device's measured limit, which is too low; "
                                     "`tilerun devices --measure`, on a quiet machine, measures it again",
                                     count, count == 1 ? " is" : "s are"));
}

/* The lines below the table. `remarked`: groups of rows with a message; large groups get a line here instead of
 * remarks. */
static struct texts lines_below(const struct results_view *view, const struct groups *remarked) {
    struct texts lines = {0};
    FREED_BY(groups_free) struct groups omitted = groups_of(view, true);
    for (int i = 0; i < omitted.count; i++)
        texts_add(&lines, group_line(view, &omitted.items[i], omitted.items[i].first->status));
    for (int i = 0; i < remarked->count; i++)
        if (remarked->items[i].runs >= MANY_REMARKS) texts_add(&lines, group_line(view, &remarked->items[i], "note"));
    for (int i = 0; i < view->shown_count; i++) {
        const char *name = view_column_name(&view->shown[i]);
        if (strcmp(name, "ratio") == 0) add_missing_ratios(view, &lines);
        if (strcmp(name, "flags") == 0) add_flags(view, &lines);
    }
    add_low_roof(view, &lines);
    if (view->chosen == 0) texts_add(&lines, must_strdup(view->count > 0 ? "no run matches --where" : "no runs"));
    return lines;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* Writes the heading of the ratio's column, "x naive", or "x reference blas" if the baseline runs on that library; a
 * long name is cut in its middle. */
static void name_ratio(const struct results_view *view, char heading[VIEW_CELL]) {
    const char *name = view->baseline ? view->baseline : "first";
    for (int i = 0; i < view->count; i++)
        if (strcmp(view->rows[i].variant, name) == 0 && strstr(view->rows[i].message, "reference library"))
            name = "reference blas";
    OWNED char *cut = text_cut(name, MAX_HEADING);
    snprintf(heading, VIEW_CELL, "x %s", cut);
}

/* Makes the table of the rows that are not omitted. A row's message becomes a remark below it, unless its group in
 * `remarked` is so large that it gets a line (lines_below). */
static struct table *table_of(const struct results_view *view, const struct groups *remarked) {
    OWNED struct table_column *columns = must_malloc((size_t)view->shown_count * sizeof *columns + 1);
    char ratio[VIEW_CELL], text[VIEW_CELL];
    bool ends_in_status = false;
    name_ratio(view, ratio);
    for (int i = 0; i < view->shown_count; i++) {
        const struct view_column *shown = &view->shown[i];
        const char *name = view_column_name(shown);
        columns[i] = (struct table_column){.name = name, .priority = shown->priority, .kept = view->columns_chosen};
        columns[i].right = !view_column_is_text(shown);
        columns[i].joined = shown->measure && shown->measure->joined;
        if (strcmp(name, "ci") == 0) columns[i].heading = text_utf8() ? "±" : "+-";
        if (strcmp(name, "flags") == 0) columns[i].heading = "!";
        if (strcmp(name, "roof") == 0) columns[i].heading = "of roof";
        if (strcmp(name, "ratio") == 0) columns[i].heading = ratio;
        ends_in_status = strcmp(name, "status") == 0;
    }
    struct table *table = table_create(columns, view->shown_count);
    for (int i = 0; i < view->chosen; i++) {
        const struct result_row *row = &view->rows[view->order[i]];
        if (is_omitted(view, row)) continue;
        table_row(table);
        for (int c = 0; c < view->shown_count; c++) {
            view_column_cell(view, &view->shown[c], view->order[i], text);
            table_cell(table, c, "%s", text);
        }
        const struct group *group = result_row_done(row) ? groups_find(remarked, row) : NULL;
        if (ends_in_status && !(group && group->runs >= MANY_REMARKS)) table_remark(table, row->message);
    }
    return table;
}

void view_print(const struct results_view *view, int width, const char *hint, FILE *to) {
    FREED_BY(groups_free) struct groups remarked = width > 0 ? groups_of(view, false) : (struct groups){0};
    FREED_BY(table_release) struct table *table = table_of(view, &remarked);
    FREED_BY(texts_clear) struct texts lines = lines_below(view, &remarked);
    table_print(table, width, hint, to);
    for (int i = 0; i < lines.count; i++) text_print_wrapped(lines.items[i], 0, width, to);
}

void view_print_markdown(const struct results_view *view, FILE *to) {
    struct groups remarked = {0};
    FREED_BY(table_release) struct table *table = table_of(view, &remarked);
    FREED_BY(texts_clear) struct texts lines = lines_below(view, &remarked);
    table_print_markdown(table, to);
    for (int i = 0; i < lines.count; i++) {
        fputs(i == 0 ? "\n- " : "- ", to);
        text_print_markdown(lines.items[i], to);
        putc('\n', to);
    }
}

void result_print_table(const struct result_row *rows, int count, FILE *to) {
    FREED_BY(results_view_release) struct results_view *view = NULL;
    if (view_make(rows, count, &(struct view_options){0}, &view, IGNORED) == STATUS_OK)
        view_print(view, table_terminal_width(), "`tilerun show --columns` chooses", to);
}
