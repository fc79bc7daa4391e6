/* job_parameter_values.c - reads the values of parameters: words, lists, ranges, expressions, and those of --set. */
#include "../base/fail.h"
#include "../base/spelling.h"
#include "../base/text.h"
#include "expression/expression.h"
#include "job_parameters.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- labels ---------------------------------------------------------------------------------------------------- */

/* A '/' would split a name in the results file, a ',' separates the parameters of a label, and a control character
 * could break a line of the table: each becomes '_'. */
char label_character(char c) {
    return c == '/' || c == ',' || iscntrl((unsigned char)c) ? '_' : c;
}

bool same_in_label(const char *a, const char *b) {
    while (*a && *b && label_character(*a) == label_character(*b)) a++, b++;
    return !*a && !*b;
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

void parameters_check_values(const struct parameters *parameters, const struct parameter *parameter) {
    for (int i = 1; i < parameter->count; i++) {
        const struct yaml_node *value = parameter->values[i];
        for (int j = 0; j < i; j++) {
            const char *other = parameter->values[j]->text;
            if (!same_in_label(other, value->text)) continue;
            if (strcmp(other, value->text) == 0)
                yaml_error(parameters->document, value, "value '%s' is already in the list of '%s'", other,
                           parameter->name);
            else
                yaml_error(parameters->document, value,
                           "values '%s' and '%s' of '%s' give the same label ('/' and ',' become '_')", other,
                           value->text, parameter->name);
            break;
        }
    }
}

/* Adds a value without parameters in it. */
static void append_value(const struct parameters *parameters, struct parameter *parameter,
                         const struct yaml_node *value) {
    if (parameter->count == MAX_VALUES) {
        yaml_error(parameters->document, parameter->where, "parameter '%s' has more than %d values", parameter->name,
                   MAX_VALUES);
        return;
    }
    *APPEND(parameter->values, parameter->count) = value;
}

/* Adds a value as written: replaces the parameters in it, or evaluates it. A single value that depends on swept
 * parameters is derived for each of their combinations instead. */
static void add_value(struct parameters *parameters, struct parameter *parameter, const struct yaml_node *value) {
    if (value->wrong) return;
    if (!value->text || value->kind == YAML_NULL) {
        yaml_error(parameters->document, value, "parameter '%s' must be a word, a number, a list of them, or a range%s",
                   parameter->name,
                   value->kind == YAML_LIST ? "; for pairs of numbers write two parameters and `zip` them" : "");
        parameter->failed = true;
        return;
    }
    uint64_t uses = parameters_check(parameters, value);
    bool good = true;
    struct expression *expression = parameters_expression(parameters, value, &good);
    if (uses & parameters->swept && !parameter->swept) {
        parameter->derived = value;
        parameter->expression = expression;
        parameter->uses = uses & parameters->swept;
        parameter->failed = !good;
        return;
    }
    if (uses & parameters->swept) {
        yaml_error(parameters->document, value,
                   "a list cannot use a swept parameter; write one expression, which is derived from it");
        good = false;
    }
    struct scalar scalar;
    if (good && expression) {
        good = parameters_evaluate(parameters, value, expression, NULL, &scalar);
        if (good) value = parameters_node(parameters, value, &scalar);
    } else if (good) {
        value = parameters_replace(parameters, value, NULL);
    }
    expression_free(expression);
    if (good && value)
        append_value(parameters, parameter, value);
    else
        parameter->failed = true;
}

/* ---- ranges ---------------------------------------------------------------------------------------------------- */

/* Reads the number at `key` of a range. Reports a missing key or another value and returns false. */
static bool read_bound(struct parameters *parameters, const struct yaml_node *map, const char *key,
                       struct scalar *number) {
    const struct yaml_node *node = yaml_get(map, key);
    struct parameter scratch = {.name = key, .swept = true};
    if (node) add_value(parameters, &scratch, node);
    const struct yaml_node *value = scratch.count > 0 ? scratch.values[0] : NULL;
    free(scratch.values);
    if (value && value->kind == YAML_INT) {
        *number = (struct scalar){.kind = SCALAR_INTEGER, .integer = value->integer, .real = (double)value->integer};
        return true;
    }
    if (value && value->kind == YAML_FLOAT && isfinite(value->real)) {
        *number = (struct scalar){.kind = SCALAR_REAL, .real = value->real};
        return true;
    }
    /* If there is a node without a value, add_value has reported it. */
    if (value || !node)
        yaml_error(parameters->document, node ? node : map,
                   node ? "'%s' of a range must be a finite number" : "'%s' of a range is missing", key);
    return false;
}

/* Does the step or factor (`times`) `by` lead from one number to another? Between equal numbers any but 0 does. */
static bool leads_to(double from, double to, double by, bool times) {
    if (by == 0 || from == to) return by != 0;
    if (times && (by <= 0 || by == 1 || from == 0 || (from > 0) != (to > 0))) return false;
    return times ? (by > 1) == (fabs(to) > fabs(from)) : (by > 0) == (to > from);
}

/* Computes value `i` of a range: an integer from *value, which is value i - 1, a real number from the first one, so
 * that rounding errors do not add up. false: the integer has more than 64 bits. */
static bool next_value(const struct scalar *from, const struct scalar *by, bool times, int i, struct scalar *value) {
    if (from->kind == SCALAR_REAL || by->kind == SCALAR_REAL) {
        double real = times ? from->real * pow(by->real, i) : from->real + i * by->real;
        *value = (struct scalar){.kind = SCALAR_REAL, .real = real};
        return true;
    }
    bool overflow = times ? __builtin_mul_overflow(value->integer, by->integer, &value->integer)
                          : __builtin_add_overflow(value->integer, by->integer, &value->integer);
    value->real = (double)value->integer;
    return !overflow;
}

/* Adds the values of a range, from + i * step or from * times^i, up to and with `to`. Rounding may take a real value
 * slightly beyond `to`. */
static void load_range(struct parameters *parameters, struct parameter *parameter, const struct yaml_node *map) {
    struct scalar from, to, by;
    bool times = yaml_get(map, "times") != NULL;
    const char *by_key = times ? "times" : "step";
    const struct yaml_node *by_node = yaml_get(map, by_key);
    parameter->swept = true;
    for (int i = 0; i < map->count; i++) {
        const char *key = map->keys[i]->text;
        if (strcmp(key, "from") == 0 || strcmp(key, "to") == 0 || strcmp(key, by_key) == 0) continue;
        yaml_error(parameters->document, map->keys[i],
                   strcmp(key, "step") == 0 ? "a range must have '%s' or 'times', not both"
                                            : "unknown key '%s': a range must be {from, to, step} or {from, to, times}",
                   key);
        return;
    }
    if (!read_bound(parameters, map, "from", &from) || !read_bound(parameters, map, "to", &to)) return;
    bool up = to.real >= from.real;
    by = (struct scalar){.kind = SCALAR_INTEGER, .integer = up ? 1 : -1, .real = up ? 1 : -1};
    if (by_node && !read_bound(parameters, map, by_key, &by)) return;
    if (!leads_to(from.real, to.real, by.real, times)) {
        yaml_error(parameters->document, by_node ? by_node : map, "this %s does not lead from %.15g to %.15g",
                   times ? "factor" : "step", from.real, to.real);
        return;
    }
    bool integer = from.kind == SCALAR_INTEGER && by.kind == SCALAR_INTEGER;
    double slack = integer ? 0 : 1e-9 * fabs(times ? to.real : by.real);
    struct scalar value = from;
    for (int i = 0; i <= MAX_VALUES; i++) {
        char text[SCALAR_TEXT_BYTES];
        if (up ? value.real > to.real + slack : value.real < to.real - slack) return;
        /* A digit less than doubles have: 0.3, not 0.30000000000000004. */
        snprintf(text, sizeof text, "%.15g", value.real);
        if (integer) scalar_format(&value, text);
        struct yaml_node *node = yaml_scalar(parameters->document, map, text, false);
        if (!integer) yaml_set_real(node, node->real);
        append_value(parameters, parameter, node);
        if (from.real == to.real || !next_value(&from, &by, times, i + 1, &value)) return;
    }
}

/* Reads a parameter's value: a single one, a list or a range. */
static void load_values(struct parameters *parameters, struct parameter *parameter, const struct yaml_node *value) {
    if (value->kind == YAML_MAP) {
        load_range(parameters, parameter, value);
        return;
    }
    if (value->kind != YAML_LIST) {
        add_value(parameters, parameter, value);
        return;
    }
    parameter->swept = true;
    if (value->count == 0) yaml_error(parameters->document, value, "parameter '%s' is an empty list", parameter->name);
    for (int i = 0; i < value->count; i++) add_value(parameters, parameter, value->items[i]);
}

/* Moves *text past leading blanks and returns the length without blanks at either end. */
static size_t trim(const char **text, size_t length) {
    while (length > 0 && (*text)[0] == ' ') ++*text, length--;
    while (length > 0 && (*text)[length - 1] == ' ') length--;
    return length;
}

/* Reads the values of --set n=512,1024, or of a list or range in YAML, n=["a,b", c]. They have no line in the file.
 * `swept`: the parameter is swept in the job file, so a single value still counts as a sweep, and results keep their
 * labels. */
static void set_values(struct parameters *parameters, struct parameter *parameter, const char *text, bool swept) {
    size_t length = trim(&text, strlen(text));
    parameter->swept = swept || memchr(text, ',', length) != NULL;
    if (*text == '[' || *text == '{') {
        const struct yaml_node *value = yaml_value(parameters->document, text);
        if (value)
            load_values(parameters, parameter, value);
        else
            yaml_error(parameters->document, NULL, "--set: the value of '%s' is not a list or range in YAML",
                       parameter->name);
        return;
    }
    for (;;) {
        const char *comma = memchr(text, ',', length), *begin = text;
        size_t value_length = comma ? (size_t)(comma - text) : length, trimmed = trim(&begin, value_length);
        OWNED char *value = must_printf("%.*s", (int)trimmed, begin);
        if (trimmed == 0)
            yaml_error(parameters->document, NULL, "--set: parameter '%s' has an empty value", parameter->name);
        else
            add_value(parameters, parameter, yaml_scalar(parameters->document, NULL, value, false));
        if (!comma) return;
        text = comma + 1;
        length -= value_length + 1;
    }
}

/* The value that --set gives to a parameter, the last one of several; NULL: --set gives it none. */
static const char *find_set(const struct parameters *parameters, const char *name) {
    size_t length = strlen(name);
    for (int i = parameters->set_count - 1; i >= 0; i--) {
        const char *set = parameters->sets[i];
        if (strncmp(set, name, length) == 0 && set[length] == '=') return set + length + 1;
    }
    return NULL;
}

void parameters_check_sets(const struct parameters *parameters) {
    const char *names[MAX_PARAMETERS];
    for (int i = 0; i < parameters->count; i++) names[i] = parameters->items[i].name;
    for (int i = 0; i < parameters->set_count; i++) {
        const char *set = parameters->sets[i];
        int length = (int)strcspn(set, "=");
        char hint[HINT_TEXT];
        OWNED char *name = must_printf("%.*s", length, set);
        if (!set[length])
            yaml_error(parameters->document, NULL, "--set %s: write NAME=VALUE", set);
        else if (parameters_find(parameters, name, length) < 0)
            yaml_error(parameters->document, NULL, "--set %s: the job has no parameter '%s'%s", set, name,
                       name_hint(name, names, parameters->count, "", hint));
    }
}

/* Clears the next parameter, which finish_parameter then counts. Reports too many and returns NULL. */
static struct parameter *begin_parameter(struct parameters *parameters, const struct yaml_node *key) {
    if (parameters->count == MAX_PARAMETERS) {
        yaml_error(parameters->document, key, "a job can have at most %d parameters", MAX_PARAMETERS);
        return NULL;
    }
    struct parameter *parameter = &parameters->items[parameters->count];
    *parameter = (struct parameter){.where = key, .name = key->text};
    return parameter;
}

/* Counts the parameter that begin_parameter has cleared. Until its value is read it does not count, so that the value
 * cannot refer to its own parameter. */
static void finish_parameter(struct parameters *parameters, const struct parameter *parameter) {
    if (parameter->swept) parameters->swept |= UINT64_C(1) << parameters->count;
    parameters->count++;
}

void parameters_load(struct parameters *parameters, const struct yaml_node *map) {
    if (map && map->kind != YAML_MAP) {
        parameters->incomplete = true;
        if (!map->wrong) yaml_error(parameters->document, map, "'parameters' must be a map of names to values");
    }
    for (int i = 0; map && map->kind == YAML_MAP && i < map->count; i++) {
        const struct yaml_node *key = map->keys[i], *value = map->items[i];
        if (value->kind == YAML_NULL && !text_is_name(key->text)) {
            yaml_error(parameters->document, key,
                       "'%s' is not a parameter: in { } a comma ends a value; write each parameter on its own line",
                       key->text);
            continue;
        }
        struct parameter *parameter = begin_parameter(parameters, key);
        if (!parameter) return;
        if (!text_is_name(key->text)) {
            parameters->incomplete = true;
            yaml_error(parameters->document, key,
                       "'%s' is not a parameter name: use a letter or '_', then letters, digits, '_'", key->text);
        }
        const char *set = find_set(parameters, key->text);
        if (set)
            set_values(parameters, parameter, set, value->kind == YAML_LIST || value->kind == YAML_MAP);
        else
            load_values(parameters, parameter, value);
        finish_parameter(parameters, parameter);
    }
}

void parameters_add(struct parameters *parameters, const struct yaml_node *key, char *const *values, int count) {
    struct parameter *parameter = begin_parameter(parameters, key);
    if (!parameter) return;
    const char *set = find_set(parameters, key->text);
    parameter->swept = true;
    if (set) set_values(parameters, parameter, set, true);
    for (int i = 0; i < count && !set; i++)
        add_value(parameters, parameter, yaml_scalar(parameters->document, key, values[i], true));
    finish_parameter(parameters, parameter);
}

void parameters_free(struct parameters *parameters) {
    for (int i = 0; i < parameters->count; i++) {
        free(parameters->items[i].values);
        expression_free(parameters->items[i].expression);
    }
}
