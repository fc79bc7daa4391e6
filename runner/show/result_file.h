/* result_file.h - reads a results file, for show, compare, reproduce and report.
 *
 * Files of earlier versions have fewer columns: numbers of the missing ones are NaN and texts "". */
#ifndef RUNNER_RESULT_FILE_H
#define RUNNER_RESULT_FILE_H

#include "../base/samples.h"
#include "../base/texts.h"
#include "../record/columns.h"

/* An open results file, or the finished runs of an unfinished job. */
struct results_file {
    char *path;
    int64_t id;              /* the HDF5 file, for show/ only; negative: no file exists at `path` yet */
    struct result_row *rows; /* sorted like the plan */
    int count;
    struct stored_outputs {
        bool result, variant; /* the output should be stored as the operation's result, as the variant's output */
    } * expected;             /* one for each row, according to the job; NULL: not known */
    int tag_count;            /* number of the job's tags; 0 while it is unfinished */
    struct tag *tags;
    char *standing; /* how far an unfinished job is: "unfinished: 2 of 4 runs are done; ..."; NULL: it is done */
    char *missing;  /* a line about each shard that lacks units; NULL: no shard does */
    char **parts;   /* the path of each row's part; NULL: all runs are in the file */
};

/* Opens a results file, complete or not, or a part. STATUS_USAGE: it is neither. The caller frees *file with
 * results_file_close. (command_results_open also finds the runs in OUTPUT.parts.) */
enum status results_file_open(const char *path, struct results_file **file, struct error *error);
void results_file_close(struct results_file *file); /* NULL: does nothing */
RELEASED_BY(results_file, results_file_close)

/* Read an attribute of an object ("/", "/environment", "/outputs/n=512/product") as a text, which the caller frees, or
 * as a number. NULL, NaN: there is no such attribute. */
char *results_file_text(const struct results_file *file, const char *object, const char *attribute);
double results_file_number(const struct results_file *file, const char *object, const char *attribute);
/* The text of the job: verbatim, or with `resolved` after parameters and defaults; NULL: the file has no job. The
 * caller frees. */
char *results_file_job(const struct results_file *file, bool resolved);
/* The text of a recorded source, a data set such as OWN_SOURCES/0 (record/provenance.h); NULL: there is none. The
 * caller frees. */
char *results_file_source(const struct results_file *file, const char *path);

/* Lists the paths of the inputs ("/inputs/n=512/A"), sorted, for results_file_text and results_file_number. Free with
 * texts_clear. */
struct texts results_file_inputs(const struct results_file *file);

/* Reads the samples of a row's run, if it has any. STATUS_IO: they cannot be read. The caller frees them with
 * samples_free. */
enum status results_file_samples(const struct results_file *file, const struct result_row *row, struct samples *samples,
                                 struct error *error);
/* The path at which a row's output is stored: "/outputs/n=512/product"; NULL: it is not stored. The caller frees. */
char *results_file_output(const struct results_file *file, const struct result_row *row);
/* Why a row's output, which should be stored, cannot be read: it is missing, is not an array of numbers, or its source
 * in another file is missing. NULL: it can be read, or was not to be stored. The caller frees. */
char *results_file_missing(const struct results_file *file, const struct result_row *row);

#endif
