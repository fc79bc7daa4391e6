/* result_print.c - prints rows as CSV and JSON. */
#include "../base/fail.h"
#include "../base/json.h"
#include "../base/text.h"
#include "result_view_columns.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Prints a number with the fewest digits that read back as the same number. */
static void print_real(double value, FILE *to) {
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (!(strtod(text, NULL) != value)) break;
    }
    fputs(text, to);
}

/* Prints a cell. JSON has neither NaN nor infinity. */
static void print_cell(const struct column_value *cell, bool json, FILE *to) {
    bool unknown = cell->kind == COLUMN_REAL && (json ? !isfinite(cell->real) : isnan(cell->real));
    if (cell->absent || unknown)
        fputs(json ? "null" : "", to);
    else if (cell->kind == COLUMN_REAL)
        print_real(cell->real, to);
    else if (cell->kind != COLUMN_TEXT)
        fprintf(to, "%" PRId64, cell->integer);
    else if (json)
        json_write_string(to, cell->text, cell->length);
    else
        text_print_csv(cell->text, cell->length, to);
}

/* The value of a view's row in a column; `text` holds a text. */
static struct column_value view_cell(const struct results_view *view, const struct view_column *column, int row,
                                     char text[VIEW_CELL]) {
    struct column_value cell = {.kind = COLUMN_REAL};
    view_column_text(view, column, row, text);
    cell.text = text;
    cell.length = strlen(text);
    if (view_column_is_text(column))
        cell.kind = COLUMN_TEXT;
    else if (view_column_integer(view, column, row, &cell.integer))
        cell.kind = COLUMN_INT64;
    else
        cell.real = view_column_number(view, column, row);
    cell.absent = column->column && column->column->swept && column_cell(column->column, &view->rows[row], row).absent;
    return cell;
}

/* The data to print: the chosen columns of a view, or (`view` NULL) all columns of /runs. */
struct data {
    const struct results_view *view;
    const struct result_row *rows;
    struct columns all;
};

/* Prints CSV, the names of the columns and then a line for each row, or a JSON list with an object for each row. */
static void print_data(const struct data *data, int rows, int columns, bool json, FILE *to) {
    const struct results_view *view = data->view;
    char text[VIEW_CELL];
    if (json) putc('[', to);
    for (int r = json ? 0 : -1; r < rows; r++) { /* CSV begins with the names */
        if (json) fprintf(to, "%s\n  {", r ? "," : "");
        for (int i = 0; i < columns; i++) {
            const char *name = view ? view_column_name(&view->shown[i]) : data->all.items[i].name;
            if (i) fputs(json ? ", " : ",", to);
            if (json) fprintf(to, "\"%s\": ", name);
            if (r < 0) fputs(name, to);
            if (r < 0) continue;
            const struct column_value cell = view ? view_cell(view, &view->shown[i], view->order[r], text)
                                                  : column_cell(&data->all.items[i], &data->rows[r], r);
            print_cell(&cell, json, to);
        }
        putc(json ? '}' : '\n', to);
    }
    if (json) fputs(rows ? "\n]\n" : "]\n", to);
}

static void print_all(const struct result_row *rows, int count, bool json, FILE *to) {
    FREED_BY(columns_free) struct columns columns = columns_of(rows, count);
    print_data(&(struct data){.rows = rows, .all = columns}, count, columns.count, json, to);
}

void result_print_csv(const struct result_row *rows, int count, FILE *to) {
    print_all(rows, count, false, to);
}

void result_print_json(const struct result_row *rows, int count, FILE *to) {
    print_all(rows, count, true, to);
}

void view_print_data(const struct results_view *view, bool json, FILE *to) {
    print_data(&(struct data){.view = view}, view->chosen, view->shown_count, json, to);
}
