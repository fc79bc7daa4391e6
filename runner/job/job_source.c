/* job_source.c - the keys of a variant with its own source file, and `where` of any variant. In their expressions
 * `$name` is a parameter of the variant, or else of the job. */
#include "../base/fail.h"
#include "../base/path.h"
#include "../base/text.h"
#include "expression/expression.h"
#include "job_parts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- values of parameters in expressions ------------------------------------------------------------------------- */

/* The value of `$name`, a parameter of the variant, else of the job; NULL: there is no such parameter, or it has no
 * value. */
static const char *value_of(struct job_reader *reader, const struct job_variant *values, const char *name, int length) {
    for (int i = 0; i < values->count; i++)
        if (strncmp(values->names[i], name, (size_t)length) == 0 && !values->names[i][length]) return values->values[i];
    int found = parameters_find(&reader->parameters, name, length);
    if (found < 0) return NULL;
    const struct yaml_node *value = parameters_value(&reader->parameters, found, reader->choice);
    return value ? value->text : NULL;
}

/* The text with its parameters replaced: by numbers in parentheses, by other values in quotes. NULL, and
 * reader->failed: a parameter has no value. The caller frees. */
static char *with_values(struct job_reader *reader, const char *text, const struct job_variant *values) {
    char *out = must_strdup("");
    while (*text) {
        size_t plain = strcspn(text, "$");
        must_append(&out, "%.*s", (int)plain, text);
        text += plain;
        if (!*text) break;
        bool braces = text[1] == '{';
        const char *name = text + 1 + braces;
        int length = text_name_length(name);
        const char *value = length > 0 ? value_of(reader, values, name, length) : NULL;
        if (!value) {
            reader->failed = true; /* parameters_check has reported the name */
            free(out);
            return NULL;
        }
        bool number = isdigit((unsigned char)*value) || strchr("+-.", *value);
        must_append(&out, number ? "(%s)" : "\"%s\"", value);
        text = name + length + braces;
    }
    return out;
}

/* For expression_holds: with_values has replaced all parameters, so no name has a value. */
static bool refuse_name(void *context, const char *name, struct scalar *value, char message[200]) {
    (void)context, (void)value;
    snprintf(message, 200, "'%.80s' has no value here", name);
    return false;
}

/* Is the condition `text`, with parameters replaced, true? Reports a fault at `node` and returns false. */
static bool holds(struct job_reader *reader, const struct yaml_node *node, const char *text) {
    struct expression_fault fault = {.message = ""};
    bool is_true = false;
    struct expression *expression = expression_parse(text, &fault);
    bool good = expression && expression_holds(expression, refuse_name, reader, &is_true, &fault);
    if (!good) job_error(reader, node, "'where' cannot be evaluated: %s (%s)", fault.message, text);
    expression_free(expression);
    return is_true;
}

bool job_variant_holds(struct job_reader *reader, const struct yaml_node *map, const struct job_variant *values) {
    const struct yaml_node *where = yaml_get(map, "where");
    int count = !where ? 0 : where->kind == YAML_LIST ? where->count : 1;
    bool all = true;
    for (int i = 0; i < count && all; i++) {
        const struct yaml_node *node = where->kind == YAML_LIST ? where->items[i] : where;
        OWNED char *text = node->text ? with_values(reader, node->text, values) : NULL;
        if (!node->text)
            job_error(reader, node, "'where' must be an expression such as $tile <= 32, or a list of expressions");
        all = text && holds(reader, node, text);
    }
    return all;
}

/* ---- the source -------------------------------------------------------------------------------------------------- */

/* Reads an expression for a number of a launch. Reports a mistake and returns false. */
static bool read_launch_size(struct job_reader *reader, const struct yaml_node *node, const struct job_variant *values,
                             const char *what, struct job_launch_number *number) {
    if (!node->text || node->kind == YAML_NULL)
        return job_error(reader, node,
                         "'%s' must be a number, an expression such as \"ceil(n / $tile)\", or a list of them", what);
    number->where = node;
    number->text = with_values(reader, node->text, values);
    return number->text != NULL;
}

/* Reads one to three numbers of a launch at the key `what`; *count is 0 if the map lacks the key. Reports a mistake and
 * returns false. */
static bool read_numbers(struct job_reader *reader, const struct yaml_node *map, const struct job_variant *values,
                         const char *what, struct job_launch_number numbers[JOB_LAUNCH_AXES], int *count) {
    const struct yaml_node *node = yaml_get(map, what);
    bool list = node && node->kind == YAML_LIST;
    int given = !node ? 0 : list ? node->count : 1;
    if (given > JOB_LAUNCH_AXES || (list && given == 0))
        return job_error(reader, node, "'%s' must have 1 to %d sizes, not %d", what, JOB_LAUNCH_AXES, given);
    for (int i = 0; i < given; i++) {
        if (!read_launch_size(reader, list ? node->items[i] : node, values, what, &numbers[i])) return false;
        *count = i + 1;
    }
    return true;
}

/* Sets the function's name: `kernel`, else the stem of the file's name. Reports a wrong one and returns false. */
static bool read_kernel(struct job_reader *reader, struct job_source *source) {
    const struct yaml_node *kernel = yaml_get(source->map, "kernel");
    source->kernel = kernel ? job_read_text(reader, kernel, "kernel") : path_stem(source->as_written);
    if (!source->kernel || text_is_name(source->kernel)) return source->kernel != NULL;
    return job_error(reader, kernel ? kernel : source->where,
                     "'%s' is not a function's name: set `kernel` to the function in %s", source->kernel,
                     source->as_written);
}

/* Reads `block`, `grid` and `shared`, which a .cu file has, the first two by necessity, and a .c file has not. Reports
 * a mistake and returns false. */
static bool read_launch(struct job_reader *reader, struct job_source *source, const struct job_variant *values) {
    static const char *const keys[] = {"block", "grid", "shared"};
    const struct yaml_node *map = source->map, *shared = yaml_get(map, "shared");
    for (int i = 0; i < 3; i++) {
        const struct yaml_node *node = yaml_get(map, keys[i]);
        if (!node && i < 2 && source->cuda)
            job_error(reader, source->where, "'%s' is missing: a .cu file is launched by `block` and `grid`", keys[i]);
        if (node && !source->cuda)
            job_error(reader, node, "'%s' belongs to a .cu file: a C function divides its work itself", keys[i]);
        if (source->cuda ? !node && i < 2 : node != NULL) return false;
    }
    return read_numbers(reader, map, values, "block", source->block, &source->block_count) &&
           read_numbers(reader, map, values, "grid", source->grid, &source->grid_count) &&
           (!shared || read_launch_size(reader, shared, values, "shared", &source->shared));
}

struct job_source *job_read_source(struct job_reader *reader, const struct yaml_node *map,
                                   const struct job_variant *values) {
    struct job_source *source = must_malloc(sizeof *source);
    *source = (struct job_source){.where = yaml_get(map, "source"), .map = map};
    source->as_written = job_read_text(reader, source->where, "source");
    const char *suffix = source->as_written ? path_suffix(source->as_written) : "";
    source->cuda = strcmp(suffix, ".cu") == 0;
    bool good = source->cuda || strcmp(suffix, ".c") == 0;
    if (source->as_written && !good)
        job_error(reader, source->where,
                  "'source' must be a .c file (for the CPU) or a .cu file (for the GPU), not '%s'", source->as_written);
    for (int i = 0; i < values->count && good; i++)
        if (!text_is_name(values->names[i])) {
            job_error(reader, values->parameter_where[i],
                      "'%s' cannot be a parameter of a source: it becomes a macro, so it must be a name in C",
                      values->names[i]);
            good = false;
        }
    good = good && read_kernel(reader, source) && read_launch(reader, source, values);
    if (good) {
        source->path = path_beside(reader->job->path, source->as_written);
        return source;
    }
    job_source_free(source);
    return NULL;
}

void job_source_free(struct job_source *source) {
    if (!source) return;
    for (int i = 0; i < JOB_LAUNCH_AXES; i++) {
        free(source->block[i].text);
        free(source->grid[i].text);
    }
    free(source->shared.text);
    free(source->path);
    free(source->as_written);
    free(source->kernel);
    free(source);
}
