/* recorded_sources.c - writes the recorded sources to files. Their names come from a results file that may be
 * malicious, so every path is kept within the folder. */
#include "recorded.h"

#include "../base/fail.h"
#include "../compile/cache.h"
#include "../record/provenance.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Returns the path of a file in the folder, with "up" in place of each "..". The caller frees. */
static char *path_within(const char *folder, const char *name) {
    char *path = must_strdup(folder);
    while (*name) {
        size_t length = strcspn(name, "/");
        bool up = length == 2 && strncmp(name, "..", 2) == 0, here = length == 1 && *name == '.';
        if (length > 0 && !here) must_append(&path, "/%.*s", up ? 2 : (int)length, up ? "up" : name);
        name += length + (name[length] == '/');
    }
    return path;
}

/* Writes a file, and the folders in its path that are missing; `path` is changed meanwhile. */
static enum status write_file(char *path, const char *text, struct error *error) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *to = fopen(path, "w");
    bool good = to && fputs(text, to) >= 0;
    good = to && fclose(to) == 0 && good;
    return good ? STATUS_OK : fail_write(error, path, errno);
}

/* Writes all recorded sources into the folder. */
static enum status place_files(const struct results_file *file, const char *folder, struct error *error) {
    for (int i = 0;; i++) {
        OWNED char *object = must_printf("%s/%d", OWN_SOURCES, i);
        OWNED char *name = results_file_text(file, object, "name");
        if (!name) return STATUS_OK;
        OWNED char *text = results_file_source(file, object), *path = path_within(folder, name);
        TRY(write_file(path, text ? text : "", error));
    }
}

/* Makes the variants of an operation use the files in the folder. STATUS_USAGE: the folder lacks one. */
static enum status use_files(const struct results_file *file, struct job_operation *operation, const char *folder,
                             struct error *error) {
    for (int i = 0; i < operation->variant_count; i++) {
        struct job_source *source = operation->variants[i].source;
        struct stat about;
        if (!source) continue;
        free(source->path);
        source->path = path_within(folder, source->as_written);
        if (stat(source->path, &about) != 0)
            return fail(error, STATUS_USAGE, "%s: it does not hold the source '%s'", file->path, source->as_written);
    }
    return STATUS_OK;
}

enum status recorded_sources_place(const struct results_file *file, struct job *job, char **folder,
                                   struct error *error) {
    bool any = false;
    *folder = NULL;
    for (int i = 0; i < job->operation_count; i++)
        for (int v = 0; v < job->operations[i].variant_count; v++) any |= job->operations[i].variants[v].source != NULL;
    if (!any) return STATUS_OK;
    if (!(*folder = cache_temporary_folder()))
        return fail(error, STATUS_IO, "no temporary folder can be made in TMPDIR for the recorded sources");
    TRY(place_files(file, *folder, error));
    for (int i = 0; i < job->operation_count; i++) TRY(use_files(file, &job->operations[i], *folder, error));
    return STATUS_OK;
}
