/* match.h - names of files with wildcards: `*`, `?` and `[...]`, as in a shell; a backslash takes a character as it is.
 */
#ifndef RUNNER_MATCH_H
#define RUNNER_MATCH_H

#include <stdbool.h>

/* Has the path wildcards, and is there no file that is called just so? */
bool match_is_pattern(const char *path);
/* The regular files that a pattern matches, in natural order. Returns how many; the caller frees each and *paths. */
int match_files(const char *pattern, char ***paths);
/* Why none does, and what is near: "0 files match ../run-*.h5; ../ has run_1.h5, run_2.h5". The caller frees. */
char *match_none(const char *pattern);

/* A path with backslashes where characters would be taken for wildcards. The caller frees. */
char *match_escape(const char *path);
/* The bytes of a pattern before the part of it, between slashes, that has its first wildcard. */
int match_folder_length(const char *pattern);
/* Natural order: a run of digits counts as a number, "run-2" comes before "run-10"; all else by bytes. */
int match_compare(const char *one, const char *other);

#endif
