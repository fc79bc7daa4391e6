/* array.h - describes an operand: an input in a file, a generated input or an operation's result. The description does
 * not change once the plan is made; reader.h reads what it describes. */
#ifndef RUNNER_ARRAY_H
#define RUNNER_ARRAY_H

#include "../job/job.h"

#include <sys/stat.h>

struct array {
    const char *name, *label; /* of the input or operation; owned by the job */
    enum dtype dtype;
    struct shape shape;
    const struct job_input *input; /* NULL: an operation's result */
    char *units;                   /* unit of its elements, owned; NULL: unknown */
    int last_reader;               /* the last task that reads it; -1: none */
    /* Only of an input in a file. */
    int64_t first_row;     /* of the band of rows that the key `rows` names */
    struct shape chunk;    /* rank 0: not chunked */
    bool filtered, direct; /* its chunks are encoded; it can be read without HDF5 (rawread.h) */
    struct stat version;   /* the file's, when it was described; st_ino 0: there is no file */
};

/* Describes an input: opens its data set, takes its type and shape, and closes it. The key `rows` is not applied yet.
 * STATUS_USAGE: it cannot be read. The caller frees with array_free. */
enum status array_describe(const struct job_input *input, struct array *array, struct error *error);
void array_free(struct array *array);

#endif
