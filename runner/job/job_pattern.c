/* job_pattern.c - turns patterns into swept parameters. */
#include "job_pattern.h"

#include "../base/fail.h"
#include "../base/match.h"

#include <stdlib.h>
#include <string.h>

/* A copy in which each `$` is doubled, so that it does not begin a parameter. The caller frees. */
static char *escape_dollars(const char *text, size_t length) {
    char *plain = must_malloc(2 * length + 1), *to = plain;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '$') *to++ = '$';
        *to++ = text[i];
    }
    *to = '\0';
    return plain;
}

/* The length of the pattern's extension, ".h5", with which every match ends; 0: it has none or a wildcard in it. */
static size_t extension_length(const char *pattern) {
    const char *dot = strrchr(pattern, '.');
    return dot && dot[strcspn(dot, "*?[]\\/")] == '\0' ? strlen(dot) : 0;
}

/* Adds the parameter and returns the new value of the input's `file`, which the caller frees. `skip`: the length of the
 * job file's folder, which begins each path. */
static char *add_pattern_parameter(struct job_reader *reader, const struct yaml_node *key, const char *pattern,
                                   char *const paths[], int count, size_t skip, const char *const *sets,
                                   int set_count) {
    size_t length = (size_t)match_folder_length(pattern), end = extension_length(pattern);
    bool keeps = memchr(pattern, '\\', length) != NULL; /* an escaped folder is spelled differently in matches */
    if (keeps) length = 0;
    char **values = must_malloc((size_t)count * sizeof *values);
    for (int i = 0; i < count; i++) {
        const char *from = paths[i] + skip + length;
        values[i] = escape_dollars(from, strlen(from) - end);
    }
    parameters_add(&reader->parameters, reader->document, key, values, count, sets, set_count);
    for (int i = 0; i < count; i++) free(values[i]);
    free(values);
    char *before = escape_dollars(pattern, length), *after = escape_dollars(pattern + strlen(pattern) - end, end);
    char *file = must_printf("%s${%s}%s", before, key->text, after);
    free(before);
    free(after);
    return file;
}

/* Can the input be swept under its own name? Reports it if not. */
static bool is_sweepable(struct job_reader *reader, const struct yaml_node *key, const struct yaml_node *file,
                         uint64_t used) {
    bool taken = false;
    for (int i = 0; i < reader->parameters.count; i++)
        taken |= strcmp(reader->parameters.items[i].name, key->text) == 0;
    if (used & reader->parameters.swept)
        yaml_error(reader->document, file, "a pattern cannot change with a swept parameter");
    else if (taken)
        yaml_error(reader->document, key,
                   "'file' is a pattern, so that '%s' becomes a parameter, which there is already", key->text);
    else if (strchr(key->text, '-'))
        yaml_error(reader->document, key, "'file' is a pattern, so '%s' becomes a parameter; rename it without '-'",
                   key->text);
    else
        return true;
    return false;
}

static uint64_t expand_pattern(struct job_reader *reader, const struct yaml_node *key, const struct yaml_node *input,
                               const char *const *sets, int set_count) {
    const struct yaml_node *file = yaml_get(input, "file");
    if (!file || !file->text || !strpbrk(file->text, "*?[") || yaml_get(input, "concatenate")) return 0;
    uint64_t used = parameters_used(&reader->parameters, NULL, file);
    const struct yaml_node *pattern = parameters_replace(&reader->parameters, reader->document, file, NULL);
    if (!pattern) return 0;
    const char *slash = *pattern->text == '/' ? NULL : strrchr(reader->job->path, '/');
    char *folder = must_printf("%.*s", slash ? (int)(slash + 1 - reader->job->path) : 0, reader->job->path);
    char *path = must_printf("%s%s", folder, pattern->text), *escaped = match_escape(folder);
    char *wanted = must_printf("%s%s", escaped, pattern->text), **paths = NULL;
    bool is_pattern = match_is_pattern(path) && is_sweepable(reader, key, file, used);
    int count = is_pattern ? match_files(wanted, &paths) : 0;
    if (count > 0) {
        char *text = add_pattern_parameter(reader, key, pattern->text, paths, count, strlen(folder), sets, set_count);
        yaml_set(reader->document, input, "file", text);
        free(text);
    } else if (is_pattern) {
        char *none = match_none(wanted);
        char *some = must_strdup("none"); /* a placeholder: avoids an error at each use of the parameter */
        char *text = must_printf("${%s}", key->text);
        yaml_error(reader->document, file, "%s", none);
        parameters_add(&reader->parameters, reader->document, key, &some, 1, NULL, 0);
        yaml_set(reader->document, input, "file", text);
        free(text);
        free(some);
        free(none);
    }
    for (int i = 0; i < count; i++) free(paths[i]);
    free(paths);
    free(wanted);
    free(escaped);
    free(path);
    free(folder);
    return used;
}

uint64_t patterns_expand(struct job_reader *reader, const struct yaml_node *inputs, const char *const *sets,
                         int set_count) {
    uint64_t used = 0;
    for (int i = 0; inputs && inputs->kind == YAML_MAP && i < inputs->count; i++)
        if (inputs->items[i]->kind == YAML_MAP)
            used |= expand_pattern(reader, inputs->keys[i], inputs->items[i], sets, set_count);
    parameters_check_sets(&reader->parameters, reader->document, sets, set_count);
    return used;
}
