/* whole.h - a file that appears whole or not at all: a trace, a report. It is written under another name in the folder
 * where it goes, then renamed; a symbolic link stays, its target is replaced. A character device, a pipe and our own
 * standard output or error are written directly. */
#ifndef RUNNER_WHOLE_H
#define RUNNER_WHOLE_H

#include "place.h"

#include <stdio.h>

struct whole {
    struct place place;
    int descriptor; /* of what is written directly; -1: a file, created by whole_begin */
    char *path;     /* of the unfinished file; NULL: none */
    FILE *to;       /* NULL: not begun */
};

/* Looks at the place, `kind` ("trace") for messages, and changes nothing there. STATUS_USAGE: it cannot be written, or
 * it holds a file that is not empty, does not begin with `beginning` and may not be overwritten. The caller calls
 * whole_close or whole_discard, whatever the status. */
enum status whole_open(const char *kind, const char *name, const char *beginning, bool overwrite, struct whole *whole,
                       struct error *error);
/* Creates the file. Write to whole->to; a failed write is reported by whole_close. STATUS_IO. */
enum status whole_begin(struct whole *whole, struct error *error);
/* Puts the written file in its place and frees what `whole` holds, whatever the status. STATUS_IO. */
enum status whole_close(struct whole *whole, struct error *error);
/* Removes what was written and frees what `whole` holds. */
void whole_discard(struct whole *whole);

#endif
