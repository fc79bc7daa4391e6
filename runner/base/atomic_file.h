/* atomic_file.h - a file that appears whole or not at all: a trace, a report. It is written under another name in the folder
 * where it goes, then renamed; a symbolic link stays, its target is replaced. A character device, a pipe and our own
 * standard output or error are written directly. */
#ifndef RUNNER_ATOMIC_FILE_H
#define RUNNER_ATOMIC_FILE_H

#include "destination.h"

#include <stdio.h>

struct atomic_file {
    struct destination place;
    int descriptor; /* of what is written directly; -1: a file, created by atomic_file_begin */
    char *path;     /* of the unfinished file; NULL: none */
    FILE *to;       /* NULL: not begun */
};

/* Looks at the place, `kind` ("trace") for messages, and changes nothing there. STATUS_USAGE: it cannot be written, or
 * it holds a file that is not empty, does not begin with `beginning` and may not be overwritten. The caller calls
 * atomic_file_close or atomic_file_discard, whatever the status. */
enum status atomic_file_open(const char *kind, const char *name, const char *beginning, bool overwrite,
                             struct atomic_file *file, struct error *error);
/* Creates the file. Write to file->to; a failed write is reported by atomic_file_close. STATUS_IO. */
enum status atomic_file_begin(struct atomic_file *file, struct error *error);
/* Puts the written file in its place and frees what `file` holds, whatever the status. STATUS_IO. */
enum status atomic_file_close(struct atomic_file *file, struct error *error);
/* Removes what was written and frees what `file` holds. */
void atomic_file_discard(struct atomic_file *file);

#endif
