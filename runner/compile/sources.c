/* sources.c - follows `#include "x"` by reading lines, with comments blanked: every file that any condition may include
 * counts. `#include MACRO` is refused, because its file is unknown here. */
#include "sources.h"

#include "../base/fail.h"
#include "../base/file_io.h"
#include "../base/hash.h"
#include "../base/path.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_BYTES (4 << 20) /* of one file */
#define MAX_FOUND 4096      /* headers of the toolkit that count for the key */

/* ---- one file ---------------------------------------------------------------------------------------------------- */

/* The text of a regular file; NULL, with errno set: it cannot be read. The caller frees. */
static char *read_file(const char *path) {
    struct stat about;
    size_t length = 0;
    /* O_NONBLOCK: a pipe would wait for its writer. */
    OWNED_DESCRIPTOR int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return NULL;
    bool regular = fstat(file, &about) == 0 && S_ISREG(about.st_mode);
    errno = S_ISDIR(about.st_mode) ? EISDIR : EOPNOTSUPP;
    char *text = regular ? file_read_all(file, MAX_BYTES, &length) : NULL;
    if (length <= MAX_BYTES) return text;
    free(text);
    errno = EFBIG;
    return NULL;
}

/* Replaces comments by blanks but keeps their newlines. */
static void blank_comments(char *text) {
    for (char *c = text; *c; c++) {
        if (*c == '"' || *c == '\'') { /* a text; it ends with its line at the latest */
            for (char quote = *c++; *c && *c != quote && *c != '\n'; c++)
                if (*c == '\\' && c[1]) c++;
            if (!*c) return;
        } else if (*c == '/' && c[1] == '/') {
            while (*c && *c != '\n') *c++ = ' ';
            if (!*c) return;
        } else if (*c == '/' && c[1] == '*') {
            const char *end = strstr(c + 2, "*/");
            for (; *c && (!end || c < end + 2); c++)
                if (*c != '\n') *c = ' ';
            if (!*c) return;
            c--;
        }
    }
}

/* An `#include` in a text. */
struct include {
    int line;
    char open;        /* '"', '<', or '\0': something else */
    const char *name; /* not terminated */
    int length;
};

/* Finds the next include at or after *at, in line *line or later, and moves both behind its line. false: there are no
 * more. */
static bool next_include(const char **at, int *line, struct include *include) {
    while (**at) {
        const char *c = *at + strspn(*at, " \t");
        const char *end = strchr(c, '\n');
        *at = end ? end + 1 : c + strlen(c);
        include->line = (*line)++;
        if (*c++ != '#') continue;
        c += strspn(c, " \t");
        if (strncmp(c, "include", 7) != 0 || isalnum((unsigned char)c[7]) || c[7] == '_') continue;
        c += 7 + strspn(c + 7, " \t");
        include->open = *c == '"' || *c == '<' ? *c : '\0';
        include->name = c + (include->open != '\0');
        include->length = (int)strcspn(include->name, include->open == '<' ? ">\n" : "\"\n");
        return true;
    }
    return false;
}

/* ---- the source and its headers ---------------------------------------------------------------------------------- */

/* Removes "." and "name/.." from a relative path. false: it leads out of the folder. */
static bool normalise(char *path) {
    char *to = path, *part = path;
    int depth = 0;
    while (*part) {
        size_t length = strcspn(part, "/");
        bool more = part[length] == '/';
        if (length == 2 && strncmp(part, "..", 2) == 0) {
            if (depth-- == 0) return false;
            to--; /* the slash after the folder that `..` leaves */
            while (to > path && to[-1] != '/') to--;
        } else if (length > 0 && !(length == 1 && *part == '.')) {
            memmove(to, part, length + more);
            to += length + more;
            depth += more;
        }
        part += length + more;
    }
    *to = '\0';
    return true;
}

static bool has_file(const struct sources *sources, const char *name) {
    for (int i = 0; i < sources->count; i++)
        if (strcmp(sources->files[i].name, name) == 0) return true;
    return false;
}

/* Adds a file, whose text the sources then own. */
static void add_source(struct sources *sources, const char *name, const char *path, char *text) {
    struct source_file *file = APPEND(sources->files, sources->count);
    *file = (struct source_file){.name = must_strdup(name), .path = must_strdup(path), .text = text};
    sha256_hex(text, strlen(text), file->sha256);
}

/* Adds the file NAME of a folder. false: it cannot be read. */
static bool add_if_readable(struct sources *sources, const char *name, const char *folder) {
    OWNED char *path = must_printf("%s/%s", folder, name);
    char *text = read_file(path);
    if (text) add_source(sources, name, path, text);
    return text != NULL;
}

/* The path of the file that an include in the file `name` means, relative to the folder that `name` is relative to. The
 * caller frees. */
static char *name_beside(const char *name, const struct include *include) {
    return must_printf("%.*s%.*s", (int)(path_name(name) - name), name, include->length, include->name);
}

/* Adds the file that an include of file number `from` names, if the file exists. STATUS_USAGE: it lies outside of the
 * folder, or there are too many files. */
static enum status add_include(struct sources *sources, int from, const char *folder, const struct include *include,
                               struct error *error) {
    const char *includer = sources->files[from].path;
    OWNED char *name = name_beside(sources->files[from].name, include);
    if (*include->name == '/' || !normalise(name))
        return fail(error, STATUS_USAGE,
                    "%s:%d:1: includes \"%.*s\" from outside of its folder, which is not stored with the results: "
                    "copy it beside the source",
                    includer, include->line, include->length, include->name);
    if (sources->count == MAX_SOURCES)
        return fail(error, STATUS_USAGE, "%s:%d:1: includes more than %d files", includer, include->line, MAX_SOURCES);
    if (!has_file(sources, name)) add_if_readable(sources, name, folder);
    return STATUS_OK;
}

/* Adds the files that file number `from` includes in quotes, except tilerun.h. STATUS_USAGE: see add_include; or an
 * include is a macro. */
static enum status add_includes(struct sources *sources, int from, const char *folder, struct error *error) {
    OWNED char *text = must_strdup(sources->files[from].text);
    const char *at = text;
    int line = 1;
    struct include include;
    blank_comments(text);
    while (next_include(&at, &line, &include)) {
        if (!include.open)
            return fail(error, STATUS_USAGE, "%s:%d:1: #include needs a name in quotes or <>, not a macro",
                        sources->files[from].path, include.line);
        if (include.open == '"' && strncmp(include.name, "tilerun.h\"", 10) != 0)
            TRY(add_include(sources, from, folder, &include, error));
    }
    return STATUS_OK;
}

enum status sources_read(const char *path, struct sources *sources, struct error *error) {
    *sources = (struct sources){.count = 0};
    char *text = read_file(path);
    if (!text) return fail(error, STATUS_USAGE, "%s cannot be read: %s", path, strerror(errno));
    add_source(sources, path_name(path), path, text);
    OWNED char *folder = path_folder(path);
    for (int i = 0; i < sources->count; i++) TRY(add_includes(sources, i, folder, error));
    return STATUS_OK;
}

void sources_free(struct sources *sources) {
    for (int i = 0; i < sources->count; i++) {
        free(sources->files[i].name);
        free(sources->files[i].path);
        free(sources->files[i].text);
    }
    free(sources->files);
    *sources = (struct sources){.count = 0};
}

/* ---- the toolkit's headers --------------------------------------------------------------------------------------- */

/* Adds to `found` the files that a text includes from `folder`, or from the folder of the header `includer` in it. */
static void find_headers(const char *text, const char *folder, const char *includer, struct sources *found) {
    OWNED char *blanked = must_strdup(text);
    const char *at = blanked;
    int line = 1;
    struct include include;
    blank_comments(blanked);
    while (next_include(&at, &line, &include)) {
        const char *const bases[] = {includer, ""}; /* the includer's folder, then `folder` itself */
        for (int i = 0; i < 2 && include.open && found->count < MAX_FOUND; i++) {
            OWNED char *name = name_beside(bases[i], &include);
            bool inside = normalise(name);
            if (has_file(found, name) || (inside && add_if_readable(found, name, folder))) break;
        }
    }
}

void sources_hash(const struct sources *sources, const char *folder, char sha256[65]) {
    OWNED char *hashes = must_strdup("");
    FREED_BY(sources_free) struct sources headers = {.count = 0};
    for (int i = 0; i < sources->count; i++) {
        must_append(&hashes, "%s\n%s", sources->files[i].name, sources->files[i].sha256);
        if (folder) find_headers(sources->files[i].text, folder, "", &headers);
    }
    for (int i = 0; i < headers.count; i++)
        find_headers(headers.files[i].text, folder, headers.files[i].name, &headers);
    for (int i = 0; i < headers.count; i++) must_append(&hashes, "%s", headers.files[i].sha256);
    sha256_hex(hashes, strlen(hashes), sha256);
}
