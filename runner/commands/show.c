/* show.c - `tilerun show RESULTS`: the rows of a results file, or of a job that is not done, as a table. */
#include "../base/table.h"
#include "../base/text.h"
#include "../show/result_file.h"
#include "../show/result_view.h"
#include "command.h"
#include "results_open.h"

#include <getopt.h>
#include <stdlib.h>

enum {
    OPTION_CSV = OPTION_OWN,
    OPTION_JSON,
    OPTION_MARKDOWN,
    OPTION_COLUMNS,
    OPTION_BASELINE,
    OPTION_SORT,
    OPTION_WHERE
};
enum { MOST_WHERE = 32 };

struct show_arguments {
    int format; /* OPTION_CSV, OPTION_JSON, OPTION_MARKDOWN; 0: a table */
    struct view_options view;
    const char *where[MOST_WHERE];
};

static enum status parse(int argc, char **argv, struct show_arguments *arguments, struct error *error) {
    static const struct option options[] = {
        {"csv", no_argument, NULL, OPTION_CSV},
        {"json", no_argument, NULL, OPTION_JSON},
        {"md", no_argument, NULL, OPTION_MARKDOWN},
        {"columns", required_argument, NULL, OPTION_COLUMNS},
        {"baseline", required_argument, NULL, OPTION_BASELINE},
        {"sort", required_argument, NULL, OPTION_SORT},
        {"where", required_argument, NULL, OPTION_WHERE},
        {0},
    };
    struct view_options *view = &arguments->view;
    view->where = arguments->where;
    for (int code; (code = getopt_long(argc, argv, ":", options, NULL)) != -1;) switch (code) {
        case OPTION_CSV:
        case OPTION_JSON:
        case OPTION_MARKDOWN: arguments->format = code; break;
        case OPTION_COLUMNS: view->columns = optarg; break;
        case OPTION_BASELINE: view->baseline = optarg; break;
        case OPTION_SORT: view->sort = optarg; break;
        case OPTION_WHERE:
            if (view->where_count == MOST_WHERE)
                return fail(error, STATUS_USAGE, "show: more than %d --where", MOST_WHERE);
            arguments->where[view->where_count++] = optarg;
            break;
        default: return command_misused(&command_show, code, argv, error);
        }
    bool table = arguments->format == 0 || arguments->format == OPTION_MARKDOWN;
    if (!table && (view->columns || view->baseline))
        return fail(error, STATUS_USAGE,
                    "show: %s is of tables; --csv and --json have all columns of /runs, and no ratio",
                    view->columns ? "--columns" : "--baseline");
    return command_operands(&command_show, argc, 1, 1, error);
}

static void print(const struct view *view, int format, FILE *to) {
    if (format == 0) {
        view_print(view, table_room(), "--columns chooses", to);
    } else if (format == OPTION_MARKDOWN) {
        view_print_markdown(view, to);
    } else {
        int count;
        struct result_row *rows = view_rows(view, &count);
        (format == OPTION_CSV ? result_print_csv : result_print_json)(rows, count, to);
        free(rows);
    }
}

/* How far the job is stands above the table; where a program reads the rows, on stderr. */
static void print_standing(const char *standing, int format) {
    if (format == OPTION_CSV || format == OPTION_JSON) {
        text_say("tilerun: %s\n", standing);
    } else if (format == OPTION_MARKDOWN) {
        text_print_markdown(standing, stdout);
        fputs("\n\n", stdout);
    } else {
        text_print_wrapped(standing, 0, table_room(), stdout);
    }
}

static enum status show(int argc, char **argv, struct error *error) {
    struct show_arguments arguments = {0};
    TRY(parse(argc, argv, &arguments, error));
    struct results_file *file;
    struct view *view = NULL;
    TRY(command_results_open(argv[optind], &file, error));
    struct error what = {STATUS_OK, ""};
    enum status status = view_make(file->rows, file->count, &arguments.view, &view, &what);
    if (status) fail(error, status, "show: %s", what.text);
    if (!status && file->standing) print_standing(file->standing, arguments.format);
    bool empty =
        file->count == 0 && file->standing && arguments.format != OPTION_CSV && arguments.format != OPTION_JSON;
    if (!status && !empty) print(view, arguments.format, stdout);
    view_free(view);
    results_file_close(file);
    return status;
}

const struct command command_show = {
    .name = "show",
    .arguments = "[OPTION...] RESULTS",
    .summary = "print the summary of a results file as a table",
    /* clang-format off */
    .help = "  --columns A,B,...    these: of the table, of /runs, parameters (n or p_n)\n"
            "  --baseline VARIANT   what ratios refer to (default: the first variant)\n"
            "  --sort COLUMN        smallest first; -COLUMN: largest first\n"
            "  --where COLUMN=VALUE these runs (repeatable; also != < <= > >=):\n"
            "                       op=matmul, n>=512, total<2ms\n"
            "  --md                 a table in GitHub's Markdown\n"
            "  --csv                all columns of /runs, comma-separated\n"
            "  --json               an array of objects, one a run\n"
            "\n"
            "Columns of the table: operation, parameters, variant, shape, median, ci (half\n"
            "of the median's 95 % interval), rate, roof (share of the measured limit),\n"
            "ratio, total (wall time from reading to writing), error, flags, status. A\n"
            "terminal that is too narrow gets fewer, a pipe gets all. RESULTS may be the\n"
            "output of a job that is not done: its finished runs are shown.\n",
    /* clang-format on */
    .run = show,
};
