/* atomic_file.h - writes a file that appears complete or not at all: a trace, a report. It is written under a temporary
 * name in the same folder, then renamed; a symbolic link stays, and its target is replaced. A character device, a pipe
 * and the process's own standard output or error are written directly. */
#ifndef RUNNER_ATOMIC_FILE_H
#define RUNNER_ATOMIC_FILE_H

#include "destination.h"

#include <stdio.h>

struct atomic_file {
    struct destination destination;
    int descriptor; /* open for writing directly; -1: atomic_file_begin creates a temporary file */
    char *path;     /* path of the temporary file; NULL: there is no temporary file */
    FILE *to;       /* the stream to write to; NULL: atomic_file_begin was not called */
};

/* Checks the destination and changes nothing there; messages begin with `kind` ("trace"). STATUS_USAGE: it cannot be
 * written, or holds a file that is not empty, does not begin with `beginning` and may not be overwritten. The caller
 * calls atomic_file_close or atomic_file_discard, whatever the status. */
enum status atomic_file_open(const char *kind, const char *name, const char *beginning, bool overwrite,
                             struct atomic_file *file, struct error *error);
/* Creates the temporary file. Write to file->to; atomic_file_close reports failed writes. STATUS_IO: it failed. */
enum status atomic_file_begin(struct atomic_file *file, struct error *error);
/* Renames the written file into place and frees `file`'s members, whatever the status. STATUS_IO: it failed. */
enum status atomic_file_close(struct atomic_file *file, struct error *error);
/* Removes the temporary file and frees `file`'s members. */
void atomic_file_discard(struct atomic_file *file);

#endif
