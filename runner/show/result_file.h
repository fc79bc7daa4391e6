/* result_file.h - a results file read back: what show, compare, reproduce and report work from.
 *
 * Files of earlier versions lack columns: their numbers are NaN and their texts "". */
#ifndef RUNNER_RESULT_FILE_H
#define RUNNER_RESULT_FILE_H

#include "../record/swept.h"
#include "../stream/measure.h"

struct results_file {
    char *path;
    int64_t id;              /* HDF5's, for result/ alone; negative: nothing lies at `path` yet */
    struct result_row *rows; /* in the order of the plan */
    int count;
    struct promise {
        bool result, variant; /* its output is stored as its operation's result, as a variant's */
    } * promised;             /* by row, as the job has it; NULL: not known */
    char *standing; /* how far the job is, a sentence for people: "unfinished: 2 of 4 runs; ..."; NULL: it is done */
    char **parts;   /* by row: the part that its run is in; NULL: all are in the file */
};

/* Opens a results file, complete or not, or a part. STATUS_USAGE: it is neither. The caller frees *file with
 * results_file_close. (commands/results_open.h: also what lies in OUTPUT.parts.) */
enum status results_file_open(const char *path, struct results_file **file, struct error *error);
void results_file_close(struct results_file *file); /* NULL: does nothing */

/* An attribute of an object ("/", "/environment", "/outputs/n=512/product"): its text, which the caller frees, or NULL;
 * its number, or NaN. */
char *results_file_text(const struct results_file *file, const char *object, const char *attribute);
double results_file_number(const struct results_file *file, const char *object, const char *attribute);
/* The job, verbatim or (`resolved`) after parameters and defaults; NULL: the file has none. The caller frees. */
char *results_file_job(const struct results_file *file, bool resolved);

/* The inputs as objects ("/inputs/n=512/A") that results_file_text and results_file_number take, sorted. The caller
 * frees each and *paths. */
int results_file_inputs(const struct results_file *file, char ***paths);

/* The samples of a row's run; none if it has none. The caller frees them with samples_free. */
enum status results_file_samples(const struct results_file *file, const struct result_row *row, struct samples *samples,
                                 struct error *error);
/* Where a row's output is stored: "/outputs/n=512/product"; NULL: it is not stored. The caller frees. */
char *results_file_output(const struct results_file *file, const struct result_row *row);
/* Where it should be, and why it cannot be read: it is gone, no array of numbers, or the file that it lies in lacks
 * it; NULL: it is there, or was never stored. The caller frees. */
char *results_file_gone(const struct results_file *file, const struct result_row *row);

#endif
