/* place.h - where a file that a job is to write really goes, and what must not be overwritten there. A symbolic link is
 * written through: what is written first lies beside the file that it leads to, so that a rename puts it in place. */
#ifndef RUNNER_PLACE_H
#define RUNNER_PLACE_H

#include "fail.h"

#include <stdbool.h>
#include <sys/stat.h>

struct place {
    const char *kind;  /* "output", "trace": messages begin with it and the name */
    char *name;        /* as the user wrote it */
    char *path;        /* the file itself, behind symbolic links */
    char *folder;      /* that `path` is in */
    bool exists;       /* is anything there? Then */
    struct stat about; /* what */
};

/* Follows links and looks what is there; nothing is changed. STATUS_USAGE: that cannot be found out. place_free takes
 * what it gives, whatever the status. */
enum status place_find(const char *kind, const char *name, struct place *place, struct error *error);
/* Looks again what is there. */
enum status place_look(struct place *place, struct error *error);
void place_free(struct place *place);
/* Can a file be made, or renamed to, there? STATUS_USAGE: a directory, or no folder to write in. */
enum status place_check(const struct place *place, struct error *error);
/* Do two places name one file, there or still to be made? */
bool place_same(const struct place *one, const struct place *other);
/* Puts a finished file in place, with the mode of the one that it replaces. STATUS_IO. */
enum status place_put(const struct place *place, const char *finished, struct error *error);

/* Is there a file at `path`, links followed, and is it this one? */
bool place_is_at(const char *path, const struct stat *file);
/* The folder that a path is in, "." for a bare name; the caller frees. */
char *place_folder_of(const char *path);

#endif
