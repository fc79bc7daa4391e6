/* result_view.c - makes a view: its columns, the rows that meet the conditions, their order, and their baselines. */
#include "result_view_columns.h"

#include "../base/fail.h"
#include "../base/spelling.h"
#include "../job/job_parameters.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- baselines of ratios ---- */

/* Is the row the first of a task? A task's rows are adjacent. */
static bool begins_task(const struct results_view *view, int row) {
    const struct result_row *one = &view->rows[row - (row > 0)], *other = &view->rows[row];
    return row == 0 || strcmp(one->operation, other->operation) != 0 || strcmp(one->parameters, other->parameters) != 0;
}

/* Reports that no row has the variant `name`. Returns STATUS_USAGE. */
static enum status no_such_variant(const struct results_view *view, const char *name, struct error *error) {
    OWNED const char **names = must_malloc((size_t)view->count * sizeof *names + 1);
    for (int i = 0; i < view->count; i++) names[i] = view->rows[i].variant;
    const char *near = nearest_name(name, names, view->count);
    return near ? fail(error, STATUS_USAGE, "no variant '%s' (did you mean '%s'?)", name, near)
                : fail(error, STATUS_USAGE, "no variant '%s'; --columns variant lists them", name);
}

/* Finds the variant called `name` among the rows [first, end) of a task: by its label, or by its name if only one
 * variant has that. *found NULL: the task lacks the variant. STATUS_USAGE: several variants have the name. */
static enum status find_base(const struct results_view *view, int first, int end, const char *name,
                             const struct result_row **found, struct error *error) {
    const struct result_row *other = NULL;
    *found = NULL;
    for (int i = first; i < end; i++) {
        const struct result_row *row = &view->rows[i];
        if (strcmp(row->variant, name) == 0) {
            *found = row;
            return STATUS_OK;
        }
        if (!view_variant_is(row->variant, name)) continue;
        if (*found && strcmp((*found)->variant, row->variant) != 0)
            other = row;
        else
            *found = row;
    }
    if (!other) return STATUS_OK;
    return fail(error, STATUS_USAGE, "--baseline %s: is ambiguous: '%s' or '%s'", name, (*found)->variant,
                other->variant);
}

/* Sets the baselines of all rows. Without a name a task's baseline is its first variant, and a task with one variant
 * has none. */
static enum status find_bases(struct results_view *view, const char *name, struct error *error) {
    bool found = view->count == 0 || !name, any_base = false;
    view->baseline = name;
    view->baseline_chosen = name != NULL;
    for (int first = 0, end; first < view->count; first = end) {
        const struct result_row *base = NULL;
        for (end = first + 1; end < view->count && !begins_task(view, end);) end++;
        if (name) {
            TRY(find_base(view, first, end, name, &base, error));
        } else if (end - first > 1) {
            int candidate = first; /* a variant that lost its search is no baseline */
            while (candidate < end - 1 && result_row_lost(&view->rows[candidate])) candidate++;
            base = &view->rows[candidate];
            if (!any_base) view->baseline = base->variant;
            if (view->baseline && strcmp(base->variant, view->baseline) != 0) view->baseline = NULL;
            any_base = true;
        }
        found = found || base;
        for (int i = first; i < end; i++) view->base[i] = base;
    }
    return found ? STATUS_OK : no_such_variant(view, name, error);
}

/* ---- conditions ---- */

enum comparison { EQUAL, UNEQUAL, LESS, AT_MOST, MORE, AT_LEAST };
static const struct {
    const char *sign;
    enum comparison comparison;
} signs[] = {{"!=", UNEQUAL}, {"<=", AT_MOST}, {">=", AT_LEAST}, {"==", EQUAL}, {"=", EQUAL}, {"<", LESS}, {">", MORE}};

/* A condition of --where: COLUMN, comparison, VALUE. */
struct condition {
    struct view_column column;
    enum comparison comparison;
    const char *value;
    double number;
    bool is_integer; /* the value is `integer` */
    int64_t integer;
};

/* Reads a text that is an integer of 64 bits. */
static bool read_integer(const char *text, int64_t *integer) {
    char *end;
    errno = 0;
    *integer = strtoll(text, &end, 10);
    return end != text && !*end && !errno;
}

/* Reads a number, which may have the unit that the table prints: "1.5ms", "10 GB/s", "50%". */
static bool read_measure(const char *text, const struct view_column *column, double *number) {
    static const struct {
        const char *name, *column;
        double factor;
    } units[] = {{"s", "", 1},           {"ms", "", 1e-3},          {"us", "", 1e-6},         {"ns", "", 1e-9},
                 {"min", "", 60},        {"GB/s", "rate", 1},       {"MB/s", "rate", 1e-3},   {"TB/s", "rate", 1e3},
                 {"GFLOP/s", "rate", 1}, {"MFLOP/s", "rate", 1e-3}, {"TFLOP/s", "rate", 1e3}, {"%", "ci", 1},
                 {"%", "roof", 1}};
    const char *name = view_column_is_time(column) ? "" : view_column_name(column);
    char *end;
    *number = strtod(text, &end);
    if (end == text || isnan(*number)) return false;
    end += strspn(end, " ");
    if (!*end) return true;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].name) == 0 && strcmp(name, units[i].column) == 0)
            return *number *= units[i].factor, true;
    return false;
}

/* Parses COLUMN=VALUE, or another comparison, and checks that the value fits the column. condition->value points into
 * `text`. STATUS_USAGE: it is malformed. */
static enum status read_condition(const struct results_view *view, const char *text, struct condition *condition,
                                  struct error *error) {
    size_t length = strcspn(text, "=!<>");
    int sign = 0, sign_count = sizeof signs / sizeof *signs;
    while (sign < sign_count && strncmp(text + length, signs[sign].sign, strlen(signs[sign].sign)) != 0) sign++;
    if (length == 0 || sign == sign_count)
        return fail(error, STATUS_USAGE, "--where %s: write COLUMN=VALUE, or !=, <, <=, > or >= instead of =", text);
    OWNED char *name = must_printf("%.*s", (int)length, text);
    TRY(view_column_find(view, name, &condition->column, error));
    condition->comparison = signs[sign].comparison;
    condition->value = text + length + strlen(signs[sign].sign);
    condition->value += strspn(condition->value, " ");
    bool equality = condition->comparison == EQUAL || condition->comparison == UNEQUAL;
    if (view_column_is_text(&condition->column)) {
        if (equality) return STATUS_OK;
        return fail(error, STATUS_USAGE, "--where %s: column '%s' holds texts; compare them by = or !=", text,
                    view_column_name(&condition->column));
    }
    condition->number = NAN;
    condition->is_integer = read_integer(condition->value, &condition->integer);
    if (!*condition->value && equality) return STATUS_OK; /* "error=" selects unknown values */
    if (read_measure(condition->value, &condition->column, &condition->number)) return STATUS_OK;
    return fail(error, STATUS_USAGE, "--where %s: '%s' is not a number, but column '%s' holds numbers", text,
                condition->value, view_column_name(&condition->column));
}

/* Is a swept parameter's value in a label the given value, with the characters that labels replace? */
static bool label_matches(const char *text, const char *value) {
    while (*value && *text == label_character(*value)) text++, value++;
    return !*text && !*value;
}

/* Does a text match the wanted one? One of several flags suffices, and a variant matches by its name too. */
static bool text_matches(const struct view_column *column, const char *text, const char *wanted) {
    const char *name = view_column_name(column);
    if (strcmp(text, wanted) == 0) return true;
    if (column->column && column->column->swept) return label_matches(text, wanted);
    if (strcmp(name, "variant") == 0) return *wanted && view_variant_is(text, wanted);
    if (strcmp(name, "flags") != 0) return false;
    size_t length = strlen(wanted);
    for (const char *flag = text; *flag; flag += strcspn(flag, ","), flag += *flag == ',')
        if (length == strcspn(flag, ",") && strncmp(flag, wanted, length) == 0) return true;
    return false;
}

/* Does a row meet a condition of --where? Integers are compared exactly if the condition has an integer, too. */
static bool meets_condition(const struct results_view *view, int row, const struct condition *condition) {
    if (view_column_is_text(&condition->column)) {
        char text[VIEW_CELL];
        view_column_text(view, &condition->column, row, text);
        return text_matches(&condition->column, text, condition->value) == (condition->comparison == EQUAL);
    }
    double number = view_column_number(view, &condition->column, row), wanted = condition->number;
    int64_t integer;
    if (condition->is_integer && view_column_integer(view, &condition->column, row, &integer)) {
        number = (integer > condition->integer) - (integer < condition->integer);
        wanted = 0;
    }
    bool same = number == wanted || (isnan(number) && isnan(wanted));
    switch (condition->comparison) {
    case EQUAL: return same;
    case UNEQUAL: return !same;
    case LESS: return number < wanted;
    case AT_MOST: return number <= wanted;
    case MORE: return number > wanted;
    case AT_LEAST: return number >= wanted;
    }
    return false;
}

/* Lists, in the order of the rows, those that meet all conditions. */
static enum status choose_rows(struct results_view *view, const struct view_options *options, struct error *error) {
    OWNED struct condition *conditions = must_malloc((size_t)options->where_count * sizeof *conditions + 1);
    for (int i = 0; i < options->where_count; i++) TRY(read_condition(view, options->where[i], &conditions[i], error));
    for (int row = 0; row < view->count; row++) {
        bool meets_all = true;
        for (int i = 0; i < options->where_count && meets_all; i++)
            meets_all = meets_condition(view, row, &conditions[i]);
        if (meets_all) view->order[view->chosen++] = row;
    }
    return STATUS_OK;
}

/* ---- order ---- */

struct sorting {
    const struct results_view *view;
    struct view_column column;
    int sign; /* -1: the largest first */
};

/* Orders rows by the sort column. Unknown values come last, whatever the direction; equal ones keep their order. */
static int compare_rows(const void *one, const void *other, void *context) {
    const struct sorting *sorting = context;
    int a = *(const int *)one, b = *(const int *)other, result = 0;
    bool a_known, b_known;
    if (view_column_is_text(&sorting->column)) {
        char a_text[VIEW_CELL], b_text[VIEW_CELL];
        view_column_text(sorting->view, &sorting->column, a, a_text);
        view_column_text(sorting->view, &sorting->column, b, b_text);
        a_known = a_text[0] != '\0', b_known = b_text[0] != '\0';
        result = strverscmp(a_text, b_text); /* n=512 before n=1024 */
    } else {
        double a_number = view_column_number(sorting->view, &sorting->column, a);
        double b_number = view_column_number(sorting->view, &sorting->column, b);
        int64_t a_integer, b_integer;
        a_known = !isnan(a_number), b_known = !isnan(b_number);
        result = (a_number > b_number) - (a_number < b_number);
        if (view_column_integer(sorting->view, &sorting->column, a, &a_integer) &&
            view_column_integer(sorting->view, &sorting->column, b, &b_integer))
            result = (a_integer > b_integer) - (a_integer < b_integer);
    }
    if (a_known != b_known) return a_known ? -1 : 1;
    return result ? sorting->sign * (result > 0 ? 1 : -1) : (a > b) - (a < b);
}

/* Sorts the view's rows by a column; '-' before its name: the largest first. */
static enum status sort_rows(struct results_view *view, const char *by, struct error *error) {
    struct sorting sorting = {.view = view, .sign = *by == '-' ? -1 : 1};
    TRY(view_column_find(view, by + (*by == '-'), &sorting.column, error));
    qsort_r(view->order, (size_t)view->chosen, sizeof *view->order, compare_rows, &sorting);
    return STATUS_OK;
}

/* ---- columns ---- */

/* Appends a column to those that are shown. */
static enum status add_column(struct results_view *view, const char *name, int priority, struct error *error) {
    struct view_column *column = &view->shown[view->shown_count];
    TRY(view_column_find(view, name, column, error));
    column->priority = priority;
    view->shown_count++;
    return STATUS_OK;
}

/* Chooses the columns and the order in which narrow tables omit them. The shape goes first, because parameters usually
 * imply it. Columns that the user has named in `names` (NULL: no choice) all have priority 0. */
static enum status choose_columns(struct results_view *view, const char *names, struct error *error) {
    static const struct {
        const char *name;
        int priority;
    } usual[] = {{"operation", 0}, {"parameters", 0}, {"variant", 0}, {"shape", 9}, {"median", 0},
                 {"ci", 3},        {"rate", 4},       {"roof", 5},    {"ratio", 2}, {"total", 7},
                 {"error", 8},     {"flags", 1},      {"status", 0}};
    size_t max_shown = sizeof usual / sizeof *usual;
    for (const char *c = names; c && *c; c++) max_shown += *c == ',';
    view->shown = must_malloc((max_shown + 1) * sizeof *view->shown);
    view->columns_chosen = names != NULL;
    for (size_t i = 0; i < sizeof usual / sizeof *usual && !names; i++)
        TRY(add_column(view, usual[i].name, usual[i].priority, error));
    for (const char *name = names; name;) {
        size_t length = strcspn(name, ",");
        OWNED char *one = must_printf("%.*s", (int)length, name);
        TRY(add_column(view, one, 0, error));
        name = name[length] ? name + length + 1 : NULL;
    }
    return STATUS_OK;
}

enum status view_make(const struct result_row *rows, int count, const struct view_options *options,
                      struct results_view **made, struct error *error) {
    FREED_BY(results_view_release) struct results_view *view = must_malloc(sizeof *view);
    *made = NULL;
    *view = (struct results_view){.rows = rows, .count = count, .columns = columns_of(rows, count)};
    view->tags = columns_of_tags(options->tags, options->tag_count, count);
    view->variants = columns_of_variants(rows, count);
    view->base = must_malloc((size_t)count * sizeof *view->base + 1);
    view->order = must_malloc((size_t)count * sizeof *view->order + 1);
    TRY(choose_columns(view, options->columns, error));
    TRY(find_bases(view, options->baseline, error));
    TRY(choose_rows(view, options, error));
    if (options->sort) TRY(sort_rows(view, options->sort, error));
    *made = disown(&view);
    return STATUS_OK;
}

void view_free(struct results_view *view) {
    if (!view) return;
    columns_free(&view->columns);
    columns_free(&view->tags);
    columns_free(&view->variants);
    free(view->base);
    free(view->order);
    free(view->shown);
    free(view);
}

bool view_is_empty(const struct results_view *view) {
    return view->chosen == 0;
}

struct result_row *view_rows(const struct results_view *view, int *count) {
    struct result_row *rows = must_malloc((size_t)view->chosen * sizeof *rows + 1);
    for (int i = 0; i < view->chosen; i++) rows[i] = view->rows[view->order[i]];
    *count = view->chosen;
    return rows;
}
