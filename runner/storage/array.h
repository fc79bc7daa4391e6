/* array.h - what an operand is: an input in a file, a generated input, an operation's result. A description, which does
 * not change once the plan is made; reader.h reads what it describes. */
#ifndef RUNNER_ARRAY_H
#define RUNNER_ARRAY_H

#include "../job/job.h"

#include <sys/stat.h>

struct array {
    const char *name, *label; /* the input's or operation's */
    enum dtype dtype;
    struct shape shape;
    const struct job_input *input; /* NULL: an operation's result */
    char *units;                   /* of its elements, owned; NULL: unknown */
    int last_reader;               /* the last task that reads it; -1: none */
    /* Of an input in a file. */
    int64_t first_row;     /* of the band that `rows` names */
    struct shape chunk;    /* rank 0: not in chunks */
    bool filtered, direct; /* its chunks are encoded; it can be read past HDF5 */
    struct stat version;   /* of the file, as it was described; st_ino 0: there is none */
};

/* Describes an input: opens its data set, looks, and closes it. Type and shape are the data set's, `rows` not yet
 * heeded. STATUS_USAGE: it cannot be read. */
enum status array_describe(const struct job_input *input, struct array *array, struct error *error);
void array_free(struct array *array);

#endif
