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

/* Does `path`, links followed, lead to this very file? `path` may be NULL, which leads nowhere. */
bool path_is_file(const char *path, const struct stat *file);
/* The absolute path without symbolic links; a copy of the path itself if no file exists there. The caller frees. */
char *path_absolute(const char *path);
/* What follows the last slash of a path. */
const char *path_name(const char *path);
/* The suffix of a file's name, from the last dot on; "": the name has no dot, or only one as its first character. */
const char *path_suffix(const char *path);
/* The file's name without its suffix; the caller frees. */
char *path_stem(const char *path);
/* The folder of a path, "." for a bare name; the caller frees. */
char *path_folder(const char *path);
/* The folder of files that outlast a process: XDG_CACHE_HOME/tilerun if that is an absolute path, as its specification
 * demands, else HOME/.cache/tilerun. NULL: there is none. The caller frees. */
char *path_cache(void);
/* Converts a path that is relative to the folder of `file` to one relative to the current directory; the caller
 * frees. */
char *path_beside(const char *file, const char *path);

#endif
