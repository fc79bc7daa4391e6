/* sources.h - a kernel's source file and the headers that it includes, read into memory. Its own headers must lie in
 * its folder or below; they are stored in results files. Headers of the CUDA toolkit only count for the cache's key. */
#ifndef RUNNER_SOURCES_H
#define RUNNER_SOURCES_H

#include "../../kernels/core/status.h"

#include <stdbool.h>
#include <stddef.h>

#define MAX_SOURCES 256 /* files of one kernel */

struct source_file {
    char *name; /* relative to the folder of the first file: "mine.c", "sub/load.h" */
    char *path; /* as it is opened */
    char *text;
    char sha256[65];
};

struct sources {
    int count;
    struct source_file *files; /* first the source itself */
};

/* Reads a source and, in turn, its own headers. STATUS_USAGE: the source cannot be read, is too large, or includes a
 * file outside of its folder. The compiler reports a header that does not exist. The caller calls sources_free, also
 * after an error. */
enum status sources_read(const char *path, struct sources *sources, struct error *error);
void sources_free(struct sources *sources);
/* The SHA-256 of all names and texts, in hexadecimal. `folder`: adds the toolkit's headers in this folder that the
 * texts include; NULL: adds none. */
void sources_hash(const struct sources *sources, const char *folder, char sha256[65]);

#endif
