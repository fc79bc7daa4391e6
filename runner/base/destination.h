/* destination.h - resolves symbolic links in the path that a job writes a file to, and looks up what exists there. A
 * symbolic link stays: the new file is written into the folder of the link's target, and a rename then replaces the
 * target. */
#ifndef RUNNER_DESTINATION_H
#define RUNNER_DESTINATION_H

#include "fail.h"

#include <stdbool.h>
#include <sys/stat.h>

struct destination {
    const char *kind;  /* "output", "trace": messages begin with kind and name */
    char *name;        /* the path as the user wrote it */
    char *path;        /* the file itself, after following symbolic links */
    char *folder;      /* the folder of `path` */
    bool exists;       /* something exists at `path` */
    struct stat about; /* what exists there */
};

/* Follows links and looks up what exists there; changes nothing. STATUS_USAGE: stat fails. The caller calls
 * destination_free, whatever the status. */
enum status destination_find(const char *kind, const char *name, struct destination *destination, struct error *error);
/* Looks up again what exists there. STATUS_USAGE: stat fails. */
enum status destination_look(struct destination *destination, struct error *error);
void destination_free(struct destination *destination);
/* Checks that a file can be created there or renamed to it. STATUS_USAGE: the path is a directory or names no file, the
 * folder is missing or not writable, or it is sticky and the file belongs to another user. */
enum status destination_check(const struct destination *destination, struct error *error);
/* Are the two destinations the same file, whether it exists yet or not? */
bool destination_same(const struct destination *one, const struct destination *other);
/* Renames a finished file to the destination and gives it the permissions of the file that it replaces. STATUS_IO: it
 * failed; `finished` keeps its name. */
enum status destination_put(const struct destination *destination, const char *finished, struct error *error);

#endif
