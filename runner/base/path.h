/* path.h - parts of paths, and paths made of others. */
#ifndef RUNNER_PATH_H
#define RUNNER_PATH_H

#include <stdbool.h>
#include <sys/stat.h>

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
