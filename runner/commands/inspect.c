/* inspect.c - `tilerun inspect FILE [DATASET]`: lists the data sets that a job can read, or prints a first job. */
#include "inspect.h"

struct inspect_settings {
    bool job, all;
};

static enum status inspect(const struct invocation *invocation, struct error *error) {
    const struct inspect_settings *settings = invocation->settings;
    const char *path = invocation->operands[0], *object = invocation->count > 1 ? invocation->operands[1] : "/";
    FREED_BY(listing_free) struct listing listing = {0};
    TRY(listing_make(path, object, settings->all, &listing, error));
    if (settings->job)
        TRY(inspect_print_job(&listing, error));
    else
        (listing.list.count == 1 && invocation->count > 1 ? inspect_print_one : inspect_print_table)(&listing);
    const struct h5_list *list = &listing.list;
    if (list->damaged == 0) return STATUS_OK;
    return fail(error, STATUS_IO, "%s: %s (%d damaged in all; the others are listed)", path, list->first_damaged,
                list->damaged);
}

static const struct option_row rows[] = {
    {"job", 0, NULL, "print a first job for this file, chosen by names and shapes",
     PARSE_FLAG(struct inspect_settings, job)},
    {"all", 0, NULL,
     "list every data set: also scalars, netCDF dimensions without a variable, parts of indices, and data sets that "
     "are like others",
     PARSE_FLAG(struct inspect_settings, all)},
    {0},
};

const struct command command_inspect = {
    .name = "inspect",
    .summary = "List the data sets of an HDF5 file that a job can read: shapes, types, chunks, filters, sizes, rates.",
    .description = "FILE is an HDF5 file. DATASET is one of its data sets, which is described in more detail, or a "
                   "group. Rates are predictions for this machine.\n",
    .operands = {"FILE [DATASET]", WORD_FILE, .min = 1, .max = 2},
    .rows = rows,
    .settings_bytes = sizeof(struct inspect_settings),
    .run = inspect,
};
