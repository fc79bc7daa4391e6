/* place.h - where a file that a job writes really goes, and what must not be overwritten there. A symbolic link stays:
 * the new file is first written beside the link's target, and a rename then replaces that target. */
#ifndef RUNNER_DESTINATION_H
#define RUNNER_DESTINATION_H

#include "fail.h"

#include <stdbool.h>
#include <sys/stat.h>

struct destination {
    const char *kind;  /* "output", "trace": messages begin with it and the name */
    char *name;        /* as the user wrote it */
    char *path;        /* the file itself, behind symbolic links */
    char *folder;      /* that `path` is in */
    bool exists;       /* does anything lie there? */
    struct stat about; /* then what it is */
};

/* Follows links and looks at what lies there; changes nothing. STATUS_USAGE: stat fails. The caller calls destination_free,
 * whatever the status. */
enum status destination_find(const char *kind, const char *name, struct destination *place, struct error *error);
/* Looks again at what lies there. */
enum status destination_look(struct destination *place, struct error *error);
void destination_free(struct destination *place);
/* Can a file be created there, or renamed to it? STATUS_USAGE: a directory lies there, or its
 * folder is missing or not writable. */
enum status destination_check(const struct destination *place, struct error *error);
/* Do two places name the same file, whether it exists yet or not? */
bool destination_same(const struct destination *one, const struct destination *other);
/* Puts a finished file in place, with the mode of the one that it replaces. STATUS_IO. */
enum status destination_put(const struct destination *place, const char *finished, struct error *error);

/* Is there a file at `path`, links followed, and is it this one? */
bool path_is_file(const char *path, const struct stat *file);
/* The folder that a path is in, "." for a bare name; the caller frees. */
char *path_folder(const char *path);
/* A path that counts from the folder of `file`, from the current directory; the caller frees. */
char *path_beside(const char *file, const char *path);

#endif
