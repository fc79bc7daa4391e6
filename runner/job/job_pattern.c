/* job_pattern.c - turns patterns into swept parameters. */
#include "job_parts.h"

#include "../base/fail.h"
#include "../base/match.h"
#include "../base/path.h"
#include "../base/texts.h"

#include <string.h>
#include <unistd.h>

/* The length of the pattern's extension, ".h5", with which every match ends; 0: it has none or a wildcard in it. */
static size_t extension_length(const char *pattern) {
    const char *dot = strrchr(pattern, '.');
    return dot && dot[strcspn(dot, "*?[]\\/")] == '\0' ? strlen(dot) : 0;
}

/* Adds the parameter and returns the new value of the input's `file`, which the caller frees. `skip`: the length of the
 * job file's folder, which begins each path. */
static char *add_pattern_parameter(struct job_reader *reader, const struct yaml_node *key, const char *pattern,
                                   const struct texts *paths, size_t skip) {
    size_t folder_length = (size_t)match_folder_length(pattern), ending = extension_length(pattern);
    /* An escaped folder is spelled differently in matches. */
    if (memchr(pattern, '\\', folder_length)) folder_length = 0;
    FREED_BY(texts_clear) struct texts values = {0};
    for (int i = 0; i < paths->count; i++) {
        const char *from = paths->items[i] + skip + folder_length;
        texts_add(&values, parameters_escape(from, strlen(from) - ending));
    }
    parameters_add(&reader->parameters, key, values.items, values.count);
    const char *extension = pattern + strlen(pattern) - ending;
    OWNED char *before = parameters_escape(pattern, folder_length), *after = parameters_escape(extension, ending);
    return must_printf("%s${%s}%s", before, key->text, after);
}

/* Can the input be swept under its own name? Reports why not. `used`: the set of parameters in `file`. */
static bool is_sweepable(struct job_reader *reader, const struct yaml_node *key, const struct yaml_node *file,
                         uint64_t used) {
    if (used & reader->parameters.swept)
        yaml_error(reader->document, file, "a pattern cannot change with a swept parameter");
    else if (parameters_find(&reader->parameters, key->text, (int)strlen(key->text)) >= 0)
        yaml_error(reader->document, key,
                   "'file' is a pattern, so '%s' becomes a parameter, but a parameter of that name exists", key->text);
    else if (strchr(key->text, '-'))
        yaml_error(reader->document, key, "'file' is a pattern, so '%s' becomes a parameter; rename it without '-'",
                   key->text);
    else
        return true;
    return false;
}

/* Replaces a pattern in `file` by a swept parameter with the name of the input and a value for each match. If it
 * matches nothing, reports that and gives the parameter a placeholder. If a file has literally this name, escapes it
 * instead. */
static void expand_pattern(struct job_reader *reader, const struct yaml_node *key, struct yaml_node *input) {
    const struct yaml_node *file = yaml_get(input, "file");
    if (!file || !file->text || !strpbrk(file->text, "*?[") || yaml_get(input, "concatenate")) return;
    uint64_t used = parameters_used(&reader->parameters, file);
    const struct yaml_node *pattern = parameters_replace(&reader->parameters, file, NULL);
    if (!pattern) return;
    const char *job = reader->job->path;
    OWNED char *folder = must_printf("%.*s", *pattern->text == '/' ? 0 : (int)(path_name(job) - job), job);
    OWNED char *path = must_printf("%s%s", folder, pattern->text);
    OWNED char *escaped_folder = match_escape(folder), *whole = must_printf("%s%s", escaped_folder, pattern->text);
    FREED_BY(texts_clear) struct texts paths = {0};
    reader->parameters.used |= used;
    if (!match_is_pattern(path, pattern->text)) {
        OWNED char *literal = match_escape(pattern->text), *value = parameters_escape(literal, strlen(literal));
        /* `reproduce` reads the resolved job from another folder, where no file has this name. */
        if (access(path, F_OK) == 0 && !used) yaml_set(reader->document, file, input, "file", value);
        return;
    }
    if (!is_sweepable(reader, key, file, used)) return;
    paths.count = match_files(whole, &paths.items);
    OWNED char *text = NULL;
    if (paths.count > 0) {
        text = add_pattern_parameter(reader, key, pattern->text, &paths, strlen(folder));
    } else {
        OWNED char *message = match_none(whole);
        char *placeholder = "none"; /* avoids an error at each use of the parameter */
        yaml_error(reader->document, file, "%s", message);
        if (reader->parameters.count < MAX_PARAMETERS) reader->unknown |= UINT64_C(1) << reader->parameters.count;
        parameters_add(&reader->parameters, key, &placeholder, 1);
        text = must_printf("${%s}", key->text);
    }
    yaml_set(reader->document, file, input, "file", text);
}

void patterns_expand(struct job_reader *reader, const struct yaml_node *inputs) {
    for (int i = 0; inputs && inputs->kind == YAML_MAP && i < inputs->count; i++)
        if (inputs->items[i]->kind == YAML_MAP) expand_pattern(reader, inputs->keys[i], inputs->items[i]);
    parameters_check_sets(&reader->parameters);
}
