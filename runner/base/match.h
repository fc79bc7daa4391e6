/* match.h - finds files by glob patterns: `*`, `?` and `[...]`, as in a shell; a backslash makes the next character
 * literal. */
#ifndef RUNNER_MATCH_H
#define RUNNER_MATCH_H

#include <stdbool.h>

/* Does the text of a job that names `path` have wildcards, and does no file have literally this name? Wildcards in the
 * name of the job's own folder do not count. */
bool match_is_pattern(const char *path, const char *written);
/* Lists the regular files that a pattern matches, in natural order. Returns their number; the caller frees each path
 * and *paths. */
int match_files(const char *pattern, char ***paths);
/* A message for a pattern without matches, with similar names: "0 files match ../run-*.h5; ../ has run_1.h5, run_2.h5".
 * The caller frees. */
char *match_none(const char *pattern);

/* A hint for a path that does not exist, " (did you mean 'data/run-1.h5'?)": the nearest name to the first component
 * that does not exist; "": no name is near. Other hints: the path is a URL; it goes on behind the name of a file. The
 * caller frees. */
char *match_hint(const char *path);

/* Returns a pattern that matches exactly this path, with a backslash before each wildcard. The caller frees. */
char *match_escape(const char *path);
/* The path that a pattern without wildcards names: without its backslashes. The caller frees. */
char *match_unescape(const char *pattern);
/* The length in bytes of the folders of a pattern that come before its first component with a wildcard. */
int match_folder_length(const char *pattern);
/* Compares in natural order: digits compare as a number, so "run-2" comes before "run-10"; all else by bytes. */
int match_compare(const char *one, const char *other);

#endif
