/* show.c - `tilerun show RESULTS`: the summary of a results file as a table. */
#include "../result/result_file.h"
#include "command.h"

#include <getopt.h>
#include <stdlib.h>

enum { OPTION_CSV = OPTION_OWN, OPTION_JSON };

static enum status show(int argc, char **argv, struct error *error) {
    static const struct option options[] = {
        {"csv", no_argument, NULL, OPTION_CSV}, {"json", no_argument, NULL, OPTION_JSON}, {0}};
    void (*print)(const struct result_row *, int, FILE *) = result_print_table;
    for (int code; (code = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        if (code == OPTION_CSV)
            print = result_print_csv;
        else if (code == OPTION_JSON)
            print = result_print_json;
        else
            return command_misused(&command_show, code, argv, error);
    }
    enum status status = command_operands(&command_show, argc, 1, 1, error);
    if (status) return status;
    struct results_file *file;
    status = results_file_open(argv[optind], &file, error);
    if (status) return status;
    print(file->rows, file->count, stdout);
    results_file_close(file);
    return STATUS_OK;
}

const struct command command_show = {
    .name = "show",
    .arguments = "[--csv | --json] RESULTS",
    .summary = "print the summary of a results file as a table",
    .help = "  --csv    all columns, comma-separated\n"
            "  --json   an array of objects, one a run\n",
    .run = show,
};
