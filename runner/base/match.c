/* match.c - finds files by glob patterns, and suggests similar names when none match. */
#include "match.h"

#include "fail.h"
#include "spelling.h"
#include "texts.h"

#include <ctype.h>
#include <dirent.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { NAMES_SHOWN = 4 }; /* in a message */

static bool is_file(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

/* The first wildcard; NULL: there is none. */
static const char *find_wildcard(const char *pattern) {
    for (const char *c = pattern; *c; c++) {
        if (*c == '\\' && c[1])
            c++;
        else if (strchr("*?[", *c))
            return c;
    }
    return NULL;
}

bool match_is_pattern(const char *path, const char *written) {
    return find_wildcard(written) && !is_file(path);
}

int match_compare(const char *one, const char *other) {
    const char *a = one, *b = other;
    while (*a && *b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            a += strspn(a, "0");
            b += strspn(b, "0");
            size_t a_digits = strspn(a, "0123456789"), b_digits = strspn(b, "0123456789");
            if (a_digits != b_digits) return a_digits < b_digits ? -1 : 1;
            int order = strncmp(a, b, a_digits);
            if (order != 0) return order;
            a += a_digits;
            b += b_digits;
        } else if (*a != *b) {
            return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
        } else {
            a++, b++;
        }
    }
    if (*a || *b) return *a ? 1 : -1;
    return strcmp(one, other); /* orders "a01" and "a1" */
}

/* For qsort of paths. */
static int compare(const void *one, const void *other) {
    return match_compare(*(const char *const *)one, *(const char *const *)other);
}

int match_files(const char *pattern, char ***paths) {
    glob_t found;
    int count = 0;
    *paths = NULL;
    if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0) {
        *paths = must_malloc((found.gl_pathc + 1) * sizeof **paths);
        for (size_t i = 0; i < found.gl_pathc; i++)
            if (is_file(found.gl_pathv[i])) (*paths)[count++] = must_strdup(found.gl_pathv[i]);
        globfree(&found);
        qsort(*paths, (size_t)count, sizeof **paths, compare);
    }
    return count;
}

char *match_escape(const char *path) {
    char *text = must_malloc(2 * strlen(path) + 1), *to = text;
    for (; *path; *to++ = *path++)
        if (strchr("*?[\\", *path)) *to++ = '\\';
    *to = '\0';
    return text;
}

int match_folder_length(const char *pattern) {
    const char *wildcard = find_wildcard(pattern), *end = wildcard ? wildcard : pattern + strlen(pattern);
    while (end > pattern && end[-1] != '/') end--;
    return (int)(end - pattern);
}

/* ---- similar names ----------------------------------------------------------------------------------------------- */

struct similar_name {
    char *name;
    int similarity;
};

/* Orders the most similar names first, then by match_compare. */
static int compare_candidates(const void *one, const void *other) {
    const struct similar_name *a = one, *b = other;
    if (a->similarity != b->similarity) return a->similarity > b->similarity ? -1 : 1;
    return match_compare(a->name, b->name);
}

/* The length of the common prefix of name and pattern, ignoring case; plus one if their extensions are equal. */
static int similarity(const char *name, const char *pattern) {
    int same = 0;
    while (name[same] && tolower((unsigned char)name[same]) == tolower((unsigned char)pattern[same])) same++;
    const char *dot = strrchr(name, '.'), *other = strrchr(pattern, '.');
    return same + (dot && other && strcasecmp(dot, other) == 0);
}

char *match_unescape(const char *pattern) {
    char *path = must_strdup(pattern), *to = path;
    for (const char *from = path; *from; *to++ = *from++)
        if (*from == '\\' && from[1]) from++;
    *to = '\0';
    return path;
}

/* Compares the names of all files in the pattern's folder with the pattern, and lists the NAMES_SHOWN most similar. */
char *match_none(const char *pattern) {
    int length = match_folder_length(pattern), count = 0;
    OWNED char *escaped = length > 0 ? must_printf("%.*s", length, pattern) : must_strdup("./");
    OWNED char *folder = match_unescape(escaped);
    OWNED_FOLDER DIR *list = opendir(folder);
    OWNED struct similar_name *near = NULL;
    for (struct dirent *entry; list && (entry = readdir(list));) {
        OWNED char *path = must_printf("%s%s", folder, entry->d_name);
        int alike = is_file(path) ? similarity(entry->d_name, pattern + length) : 0;
        if (alike == 0) continue;
        *APPEND(near, count) = (struct similar_name){must_strdup(entry->d_name), alike};
    }
    if (near) qsort(near, (size_t)count, sizeof *near, compare_candidates);
    char *text = must_printf("0 files match %s; %s%s", pattern, folder,
                             !list        ? " cannot be read as a folder"
                             : count == 0 ? " has no file with a similar name"
                                          : " has ");
    for (int i = 0; i < count && i < NAMES_SHOWN; i++) must_append(&text, "%s%s", i ? ", " : "", near[i].name);
    if (count > NAMES_SHOWN) must_append(&text, " and %d more", count - NAMES_SHOWN);
    for (int i = 0; i < count; i++) free(near[i].name);
    return text;
}

/* A hint for a path that goes on behind the name of a file, as `file.h5:/x` and `file.h5/x` do; NULL: this one does
 * not. */
static char *hint_of_file(const char *path) {
    struct stat about;
    for (const char *end = path; (end = strpbrk(end, ":/")); end++) {
        OWNED char *file = must_printf("%.*s", (int)(end - path), path);
        if (end > path && stat(file, &about) == 0 && S_ISREG(about.st_mode))
            return must_printf(" (the file is '%s'; name its data set '%s' separately)", file, end + strspn(end, ":"));
    }
    return NULL;
}

char *match_hint(const char *path) {
    struct stat about;
    if (strstr(path, "://")) return must_strdup(" (it is a URL: download the file)");
    char *of_file = hint_of_file(path);
    if (of_file) return of_file;
    const char *name = path, *end = path + strcspn(path, "/"); /* one component of the path */
    while (*end) { /* until it is a folder that does not exist, or the last one */
        OWNED char *folder = must_printf("%.*s", (int)(end + 1 - path), path);
        if (stat(folder, &about) != 0) break;
        name = end + 1;
        end = name + strcspn(name, "/");
    }
    OWNED char *folder = name > path ? must_printf("%.*s", (int)(name - path), path) : must_strdup(".");
    OWNED char *word = must_printf("%.*s", (int)(end - name), name);
    FREED_BY(texts_clear) struct texts names = {0};
    OWNED_FOLDER DIR *list = opendir(folder);
    for (struct dirent *entry; list && (entry = readdir(list));) {
        OWNED char *other = must_printf("%s/%s", folder, entry->d_name);
        bool fits = stat(other, &about) == 0 && (*end ? S_ISDIR(about.st_mode) : S_ISREG(about.st_mode));
        if (!fits || *entry->d_name == '.') continue;
        texts_add(&names, must_strdup(entry->d_name));
    }
    const char *near = nearest_name(word, (const char *const *)names.items, names.count);
    if (!near) return must_strdup("");
    return must_printf(" (did you mean '%.*s%s%s'?)", (int)(name - path), path, near, end);
}
