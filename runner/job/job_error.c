/* job_error.c - reports mistakes in a job file at their positions, each position once for all combinations. */
#include "job_read.h"

#include "../base/fail.h"
#include "../base/spelling.h"
#include "../base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Was an error at this position reported for another instance? If none was reported at all, records the position. */
static bool is_repeated(struct job_reader *reader, const struct yaml_node *where) {
    for (int i = 0; i < reader->seen_count; i++)
        if (reader->seen[i].source == where->source && reader->seen[i].line == where->line &&
            reader->seen[i].column == where->column)
            return reader->seen[i].instance != reader->instance;
    if (reader->seen_count < YAML_MAX_ERRORS) {
        reader->seen[reader->seen_count].source = where->source;
        reader->seen[reader->seen_count].line = where->line;
        reader->seen[reader->seen_count].column = where->column;
        reader->seen[reader->seen_count++].instance = reader->instance;
    }
    return false;
}

/* Reports `text` about `where`, at `at`: `where` itself, or the value that its parameter has. Names the combination of
 * swept parameters, or the parameter that `where` names without '$', if there is one. Each position is reported once,
 * and a wrong value of a parameter at one position only. Sets reader->failed; returns false. */
static bool report_once(struct job_reader *reader, const struct yaml_node *where, const struct yaml_node *at,
                        const char *text) {
    struct parameters *parameters = &reader->parameters;
    uint64_t used = parameters_used(parameters, where), swept = used & reader->swept;
    bool follows = used & parameters->wrong;
    reader->failed = true;
    int alone = parameters_alone(parameters, where);
    if (alone >= 0) parameters->wrong |= UINT64_C(1) << alone;
    if (follows || is_repeated(reader, at)) return false;
    int bare = where->text ? parameters_find(parameters, where->text, (int)strlen(where->text)) : -1;
    if (bare >= 0 && !(parameters->used >> bare & 1)) {
        parameters->used |= UINT64_C(1) << bare;
        return yaml_error(reader->document, where, "%s; a parameter is $%s", text, where->text);
    }
    OWNED char *label = combination_label(parameters, at == where ? swept : 0, reader->choice);
    return yaml_error(reader->document, at, *label ? "%s (with %s)" : "%s", text, label);
}

bool job_error(struct job_reader *reader, const struct yaml_node *where, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments); // NOLINT(clang-analyzer-valist.Uninitialized): va_start does it
    va_end(arguments);
    return report_once(reader, where, where, text);
}

bool job_error_quoted(struct job_reader *reader, const struct yaml_node *where, const char *what, const char *expected,
                      const char *text) {
    OWNED char *message = must_printf("'%s' must be %s, not '%s': the quotes make it text", what, expected, text);
    return report_once(reader, where, parameters_written(&reader->parameters, where, reader->choice), message);
}

void job_note(struct job_reader *reader, const struct yaml_node *where, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments); // NOLINT(clang-analyzer-valist.Uninitialized): va_start does it
    va_end(arguments);
    OWNED char *position = yaml_place(reader->document, where), *line = must_printf("%s: %s\n", position, text);
    if (!reader->job->remarks || !strstr(reader->job->remarks, line)) must_append(&reader->job->remarks, "%s", line);
}

const char *job_error_unknown(struct job_reader *reader, const struct yaml_node *where, const char *what,
                              const char *word, const char *const names[], int count) {
    /* If errors are only counted by now, no search is worth it. */
    const char *nearest =
        yaml_error_count(reader->document) < YAML_MAX_ERRORS ? nearest_name(word, names, count) : NULL;
    if (strcmp(what, "key") == 0 && yaml_lacks_space(word)) {
        const char *colon = strchr(word, ':');
        job_error(reader, where, "unknown %s '%s': a space must follow its colon: '%.*s: %s'", what, word,
                  (int)(colon - word), word, colon + 1);
        return NULL;
    }
    if (strcmp(what, "key") == 0 && yaml_has_wide_colon(word)) {
        job_error(reader, where, "unknown %s '%s'%s", what, word, YAML_WIDE_COLON);
        return NULL;
    }
    char list[128] = "";
    size_t length = 0;
    for (int i = 0; i < count && length < sizeof list; i++)
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", i ? ", " : "", names[i]);
    if (strstr(word, "\u00a0"))
        job_error(reader, where, "unknown %s '%s': it has a no-break space, U+00A0; write a plain one", what, word);
    else if (nearest)
        job_error(reader, where, "unknown %s '%s' (did you mean '%s'?)", what, word, nearest);
    else if (strpbrk(word, "()"))
        job_error(reader, where, "unknown %s '%s': a text with a comma in it needs quotes", what, word);
    else if (strcmp(what, "key") == 0 && *word >= '0' && *word <= '9')
        job_error(reader, where, "unknown %s '%s': a comma ends a value; a decimal number has a point", what, word);
    else if (length > 0 && length < sizeof list)
        job_error(reader, where, "unknown %s '%s' (one of: %s)", what, word, list);
    else
        job_error(reader, where, "unknown %s '%s'%s", what, word,
                  strcmp(what, "key") == 0 ? "; configs/README.md lists all keys" : "");
    return nearest;
}
