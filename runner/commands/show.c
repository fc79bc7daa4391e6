/* show.c - `tilerun show RESULTS`: prints the rows of a results file, or of an unfinished job, as a table. */
#include "../base/table.h"
#include "../base/text.h"
#include "../show/result_view.h"
#include "command.h"

enum show_format { FORMAT_TABLE, FORMAT_MARKDOWN, FORMAT_CSV, FORMAT_JSON };

struct show_settings {
    enum show_format format;
    const char *columns, *baseline, *sort;
    struct option_list where;
};

/* Is the format for programs that read it? */
static bool is_data(enum show_format format) {
    return format == FORMAT_CSV || format == FORMAT_JSON;
}

static enum status validate(const void *settings, struct error *error) {
    const struct show_settings *given = settings;
    if (!is_data(given->format) || given->columns || !given->baseline) return STATUS_OK;
    return fail(error, STATUS_USAGE, "--baseline needs --columns here: --csv and --json print all columns of /runs");
}

/* Prints the rows in the wanted format; CSV and JSON without --columns have all columns of /runs. */
static void print(const struct results_view *view, const struct show_settings *settings, FILE *to) {
    enum show_format format = settings->format;
    if (format == FORMAT_TABLE) {
        view_print(view, table_terminal_width(), "--columns chooses", to);
    } else if (format == FORMAT_MARKDOWN) {
        view_print_markdown(view, to);
    } else if (settings->columns) {
        view_print_data(view, format == FORMAT_JSON, to);
    } else {
        int count;
        OWNED struct result_row *rows = view_rows(view, &count);
        (format == FORMAT_CSV ? result_print_csv : result_print_json)(rows, count, to);
    }
}

/* Prints how far an unfinished job is: above the table, or on stderr if a program reads the rows. */
static void print_standing(const char *standing, enum show_format format) {
    if (is_data(format)) {
        text_print_stderr("tilerun: %s\n", standing);
    } else if (format == FORMAT_MARKDOWN) {
        text_print_markdown(standing, stdout);
        fputs("\n\n", stdout);
    } else {
        text_print_wrapped(standing, 0, table_terminal_width(), stdout);
    }
}

/* Reads the rows that the conditions keep, sorts them, and prints them in the wanted format. */
static enum status show(const struct invocation *invocation, struct error *error) {
    const struct show_settings *settings = invocation->settings;
    struct view_options options = {.columns = settings->columns,
                                   .baseline = settings->baseline,
                                   .sort = settings->sort,
                                   .where = settings->where.items,
                                   .where_count = settings->where.count};
    FREED_BY(results_file_release) struct results_file *file = NULL;
    FREED_BY(results_view_release) struct results_view *view = NULL;
    struct error wrong = {.status = STATUS_OK};
    TRY(command_results_open(invocation->operands[0], &file, error));
    options.tags = file->tags;
    options.tag_count = file->tag_count;
    if (view_make(file->rows, file->count, &options, &view, &wrong))
        return fail(error, wrong.status, "show: %s", wrong.text);
    if (file->standing) print_standing(file->standing, settings->format);
    if (file->missing) fputs(file->missing, is_data(settings->format) ? stderr : stdout);
    bool empty = file->count == 0 && file->standing && !is_data(settings->format);
    if (!empty) print(view, settings, stdout);
    if (settings->where.count == 0 || !view_is_empty(view)) return STATUS_OK;
    return is_data(settings->format) ? fail(error, STATUS_RUN, "show: no run matches --where") : STATUS_RUN;
}

static const struct option_row rows[] = {
    {"columns", 0, "A,B,...",
     "print these columns: of the table, of /runs, parameters (n or p_n; of variants: tile or v_tile), or tags "
     "(tag.card)",
     PARSE_TEXT(struct show_settings, columns)},
    {"baseline", 0, "VARIANT", "divide by this variant's time for ratios (default: the first variant)",
     PARSE_TEXT(struct show_settings, baseline)},
    {"sort", 0, "COLUMN", "print the smallest first; -COLUMN: the largest first",
     PARSE_TEXT(struct show_settings, sort)},
    {"where", 0, "COLUMN=VALUE",
     "print only these runs (repeatable; also != < <= > >=): op=matmul, n>=512, total<2ms, roof>50%",
     PARSE_LIST(struct show_settings, where)},
    {"md", 0, NULL, "print a table in GitHub's Markdown", PARSE_NUMBER(struct show_settings, format, FORMAT_MARKDOWN)},
    {"csv", 0, NULL, "print comma-separated values: all columns of /runs, or those of --columns",
     PARSE_NUMBER(struct show_settings, format, FORMAT_CSV)},
    {"json", 0, NULL, "print an array of objects, one for each run",
     PARSE_NUMBER(struct show_settings, format, FORMAT_JSON)},
    {0},
};

const struct command command_show = {
    .name = "show",
    .summary = "Print the summary of a results file as a table.",
    .description =
        "Columns of the table: operation, parameters, variant, shape, median, ci (half of the median's 95 % interval), "
        "rate, roof (share of the measured limit), ratio, total (wall time from reading to writing), error, flags, "
        "status. A narrow terminal gets fewer columns, a pipe gets all. RESULTS may be the output of an unfinished "
        "job: show prints its finished runs. In CSV and JSON times are in seconds, rates in GFLOP/s or GB/s, ci and "
        "roof in "
        "percent.\n"
        "\n"
        "The exit code is 1 if no run matches --where.\n",
    .operands = {"RESULTS", WORD_RESULTS, .min = 1, .max = 1},
    .rows = rows,
    .settings_bytes = sizeof(struct show_settings),
    .validate = validate,
    .run = show,
};
