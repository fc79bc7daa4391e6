/* table.c - chooses the columns that fit and their widths, then prints the rows as text or as Markdown. */
#include "table.h"

#include "text.h"
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* In characters: texts are cut to GOOD_TEXT before columns are omitted, and to MIN_TEXT at worst. */
enum { GOOD_TEXT = 16, MIN_TEXT = 4, INDENT = 4 };
enum { USUAL_WIDTH = 80 }; /* of a terminal that does not tell its width */

struct table {
    int column_count, rows;
    struct table_column *columns;
    size_t *headings;      /* offset of each heading in `texts` */
    char *texts;           /* the texts of all cells, each NUL-terminated; the first is "" */
    size_t used, capacity; /* bytes of `texts` used and allocated */
    size_t *cells;         /* offset of each cell's text, row by row: one cell a column, then the remark */
    size_t cells_capacity;
};

/* Stores a cleaned copy of a text; returns its offset. */
static size_t store(struct table *table, const char *text) {
    if (!*text) return 0;
    OWNED char *clean = text_clean(text);
    size_t length = strlen(clean), at = table->used;
    while (length > 0 && clean[length - 1] == ' ') length--; /* lines do not end in spaces */
    if (at + length + 1 > table->capacity) {
        table->capacity = 2 * (at + length + 1);
        table->texts = must_realloc(table->texts, table->capacity);
    }
    memcpy(table->texts + at, clean, length);
    table->texts[at + length] = '\0';
    if (length == 0) return 0;
    table->used += length + 1;
    return at;
}

struct table *table_create(const struct table_column *columns, int count) {
    struct table *table = must_malloc(sizeof *table);
    *table = (struct table){.column_count = count, .used = 1, .capacity = 4096};
    table->columns = must_malloc((size_t)count * sizeof *table->columns + 1);
    memcpy(table->columns, columns, (size_t)count * sizeof *table->columns);
    table->texts = must_malloc(table->capacity);
    table->texts[0] = '\0';
    table->headings = must_malloc((size_t)count * sizeof *table->headings + 1);
    for (int i = 0; i < count; i++)
        table->headings[i] = store(table, columns[i].heading ? columns[i].heading : columns[i].name);
    return table;
}

void table_free(struct table *table) {
    if (!table) return;
    free(table->columns);
    free(table->headings);
    free(table->texts);
    free(table->cells);
    free(table);
}

void table_row(struct table *table) {
    size_t wide = (size_t)table->column_count + 1, cells = (size_t)++table->rows * wide;
    if (cells > table->cells_capacity) {
        table->cells_capacity = 2 * cells;
        table->cells = must_realloc(table->cells, table->cells_capacity * sizeof *table->cells);
    }
    memset(table->cells + cells - wide, 0, wide * sizeof *table->cells);
}

static size_t *cell_at(const struct table *table, int row, int column) {
    return &table->cells[(size_t)row * ((size_t)table->column_count + 1) + (size_t)column];
}

static const char *text_at(const struct table *table, int row, int column) {
    return table->texts + *cell_at(table, row, column);
}

void table_cell(struct table *table, int column, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    OWNED char *text = must_vprintf(format, arguments);
    va_end(arguments);
    *cell_at(table, table->rows - 1, column) = store(table, text);
}

void table_remark(struct table *table, const char *text) {
    *cell_at(table, table->rows - 1, table->column_count) = store(table, text);
}

static const char *heading_of(const struct table *table, int column) {
    return table->texts + table->headings[column];
}

/* ---- column widths ----------------------------------------------------------------------------------------------- */

/* The widths of the columns, in characters. */
struct fit {
    const struct table *table;
    int *widest;  /* the widest cell; 0: all cells are empty */
    int *natural; /* the widest cell or the heading; 0: the column is not printed */
    int *width;   /* printed width; 0: the column is omitted */
};

/* The blanks before a column: none before the first that is printed, one if it is joined to its left neighbour. */
static int gap_before(const struct fit *fit, int column) {
    bool first = true;
    for (int i = 0; i < column && first; i++) first = fit->width[i] == 0;
    if (first) return 0;
    return fit->table->columns[column].joined && fit->width[column - 1] > 0 ? 1 : 2;
}

static int total_width(const struct fit *fit) {
    int sum = 0;
    for (int i = 0; i < fit->table->column_count; i++)
        if (fit->width[i] > 0) sum += gap_before(fit, i) + fit->width[i];
    return sum;
}

/* The column to omit next: the printed one with the highest priority, the rightmost of several; -1: none has a priority
 * of at least `min_priority`. */
static int next_to_omit(const struct fit *fit, int min_priority) {
    int found = -1;
    for (int i = 0; i < fit->table->column_count; i++) {
        int priority = fit->table->columns[i].priority;
        if (fit->width[i] > 0 && priority >= min_priority &&
            (found < 0 || priority >= fit->table->columns[found].priority))
            found = i;
    }
    return found;
}

/* Which texts may be cut. Headings come last: a column is omitted before another one's heading is cut. */
enum cutting { NOTHING, TEXTS, HEADINGS };

/* The width that a column gets before columns are omitted; 0: the column is not printed. Numbers are never cut. */
static int wanted(const struct fit *fit, int column, enum cutting cutting) {
    int widest = fit->widest[column], natural = fit->natural[column];
    if (cutting == NOTHING || fit->table->columns[column].right) return natural;
    int min = cutting == HEADINGS ? MIN_TEXT : text_width(heading_of(fit->table, column));
    int enough = widest < GOOD_TEXT ? widest : GOOD_TEXT;
    if (enough < min) enough = min;
    return natural < enough ? natural : enough;
}

/* Omits columns until the rest fits or only those of priority 0 are left; then restores those that fit after all. */
static void omit_columns(struct fit *fit, int max_width, enum cutting cutting) {
    const struct table *table = fit->table;
    int *omitted = must_malloc((size_t)table->column_count * sizeof *omitted + 1), count = 0;
    for (int i = 0; i < table->column_count; i++) fit->width[i] = wanted(fit, i, cutting);
    while (total_width(fit) > max_width && (omitted[count] = next_to_omit(fit, 1)) >= 0) {
        fit->width[omitted[count]] = 0;
        if (++count == table->column_count) break;
    }
    while (count-- > 0) {
        int i = omitted[count];
        fit->width[i] = wanted(fit, i, cutting);
        if (total_width(fit) > max_width) fit->width[i] = 0;
    }
    free(omitted);
}

/* Finds the column to narrow or widen. `sign` 1: the widest printed text column that is wider than `min_width`; `sign`
 * -1: the narrowest one that is cut. Returns -1 if there is none. */
static int extreme_text(const struct fit *fit, int sign, int min_width) {
    int found = -1;
    for (int i = 0; i < fit->table->column_count; i++) {
        bool cut = fit->width[i] < fit->natural[i];
        bool wide = fit->width[i] > min_width;
        if (fit->width[i] == 0 || fit->table->columns[i].right || !(sign > 0 ? wide : cut)) continue;
        if (found < 0 || sign * fit->width[i] > sign * fit->width[found]) found = i;
    }
    return found;
}

/* Makes the table fit into `max_width` by omitting columns; if that does not suffice, also by cutting texts, then
 * headings, then by omitting columns of priority 0. Columns that were cut share the width that remains. */
static void choose_widths(struct fit *fit, int max_width) {
    const struct table *table = fit->table;
    omit_columns(fit, max_width, NOTHING);
    if (total_width(fit) <= max_width) return;
    omit_columns(fit, max_width, TEXTS);
    for (int i = 0; i < table->column_count && total_width(fit) > max_width; i++)
        if (fit->width[i] > 0) fit->width[i] = wanted(fit, i, HEADINGS);
    for (int i; total_width(fit) > max_width && (i = extreme_text(fit, 1, MIN_TEXT)) >= 0;) fit->width[i]--;
    int printed = 0;
    for (int i = 0; i < table->column_count; i++) printed += fit->width[i] > 0;
    for (int i; total_width(fit) > max_width && printed > 1 && (i = next_to_omit(fit, 0)) >= 0; printed--)
        fit->width[i] = 0;
    for (int i; total_width(fit) < max_width && (i = extreme_text(fit, -1, 0)) >= 0;) fit->width[i]++;
    if (total_width(fit) > max_width) fit->width[next_to_omit(fit, 0)] = max_width; /* the only column left */
}

/* Measures all cells and chooses the widths for a line of `max_width` columns (0: any width). fit_free frees it. */
static struct fit fit_of(const struct table *table, int max_width) {
    struct fit fit = {.table = table};
    fit.widest = must_malloc((size_t)table->column_count * sizeof(int) + 1);
    fit.natural = must_malloc((size_t)table->column_count * sizeof(int) + 1);
    fit.width = must_malloc((size_t)table->column_count * sizeof(int) + 1);
    for (int i = 0; i < table->column_count; i++) {
        fit.widest[i] = 0;
        for (int r = 0; r < table->rows; r++) {
            int width = text_width(text_at(table, r, i));
            if (width > fit.widest[i]) fit.widest[i] = width;
        }
        int heading = text_width(heading_of(table, i));
        bool printed = fit.widest[i] > 0 || table->columns[i].kept;
        fit.natural[i] = printed && fit.widest[i] < heading ? heading : fit.widest[i];
    }
    choose_widths(&fit, max_width > 0 ? max_width : INT32_MAX);
    return fit;
}

static void fit_free(struct fit *fit) {
    free(fit->widest);
    free(fit->natural);
    free(fit->width);
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* Prints a row, or the headings (`row` -1), without trailing spaces; returns the line's width. */
static int print_line(const struct fit *fit, int row, FILE *to) {
    const struct table *table = fit->table;
    int at = 0, spaces = 0;
    for (int i = 0; i < table->column_count; i++) {
        if (fit->width[i] == 0) continue;
        OWNED char *text = text_cut(row < 0 ? heading_of(table, i) : text_at(table, row, i), fit->width[i]);
        int width = text_width(text), beside = fit->width[i] - width; /* a wide character may not fit */
        spaces += gap_before(fit, i);
        if (width > 0) {
            spaces += table->columns[i].right ? beside : 0;
            fprintf(to, "%*s%s", spaces, "", text);
            at += spaces + width;
            spaces = 0;
        }
        if (width == 0 || !table->columns[i].right) spaces += beside;
    }
    return at;
}

/* Prints the line that names the omitted columns, if there are any. */
static void print_omitted(const struct fit *fit, int max_width, const char *hint, FILE *to) {
    OWNED char *names = must_strdup("");
    for (int i = 0; i < fit->table->column_count; i++) {
        if (fit->width[i] > 0 || fit->natural[i] == 0) continue;
        must_append(&names, "%s%s", *names ? ", " : "", fit->table->columns[i].name);
    }
    if (*names) {
        OWNED char *line = must_printf("omitted columns: %s%s%s", names, hint ? "; " : "", hint ? hint : "");
        text_print_wrapped(line, 0, max_width, to);
    }
}

void table_print(const struct table *table, int width, const char *hint, FILE *to) {
    int max_width = width > 0 && width < TABLE_MIN_WIDTH ? TABLE_MIN_WIDTH : width;
    if (table->rows == 0) return;
    FREED_BY(fit_free) struct fit fit = fit_of(table, max_width);
    print_line(&fit, -1, to);
    putc('\n', to);
    for (int r = 0; r < table->rows; r++) {
        const char *remark = text_at(table, r, table->column_count);
        int at = print_line(&fit, r, to);
        bool beside = max_width == 0 || at + 2 + text_width(remark) <= max_width;
        if (*remark && beside) fprintf(to, ": %s", remark);
        putc('\n', to);
        if (*remark && !beside) text_print_wrapped(remark, INDENT, max_width, to);
    }
    print_omitted(&fit, max_width, hint, to);
}

/* ---- Markdown ---------------------------------------------------------------------------------------------------- */

void table_print_markdown(const struct table *table, FILE *to) {
    if (table->rows == 0) return;
    FREED_BY(fit_free) struct fit fit = fit_of(table, 0);
    for (int r = -2; r < table->rows; r++) { /* headings, the line below them, rows */
        putc('|', to);
        for (int i = 0, remaining = table->column_count; i < table->column_count; i++) {
            remaining--;
            if (fit.width[i] == 0) continue;
            if (r == -1) {
                fputs(table->columns[i].right ? " ---: |" : " --- |", to);
                continue;
            }
            putc(' ', to);
            text_print_markdown(r < 0 ? heading_of(table, i) : text_at(table, r, i), to);
            bool last = true;
            for (int j = i + 1; j < table->column_count; j++) last = last && fit.width[j] == 0;
            if (r >= 0 && last && *text_at(table, r, table->column_count)) {
                fputs(": ", to);
                text_print_markdown(text_at(table, r, table->column_count), to);
            }
            fputs(" |", to);
        }
        putc('\n', to);
    }
}

int table_terminal_width(void) {
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    long wanted = columns ? strtol(columns, NULL, 10) : 0;
    if (wanted > 0 && wanted < INT32_MAX) return (int)wanted;
    if (!isatty(STDOUT_FILENO)) return 0;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : USUAL_WIDTH;
}
