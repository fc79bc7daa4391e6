/* job_parameters.c - reads parameters, replaces them in scalars, and combines swept ones. */
#include "job_parameters.h"

#include "../base/fail.h"
#include "../base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- replacing ------------------------------------------------------------------------------------------------- */

static bool is_name_start(char c) {
    return isalpha((unsigned char)c) || c == '_';
}
static bool is_name_part(char c) {
    return is_name_start(c) || isdigit((unsigned char)c);
}

/* A part of a scalar: plain text, or a parameter. */
struct token {
    const char *text; /* the text, or the parameter's name */
    int length;
    bool parameter;
};

/* Reads the next token and advances `*rest`. false: a '$' without a name. */
static bool next_token(const char **rest, struct token *token) {
    const char *text = *rest;
    if (*text != '$') {
        *token = (struct token){text, (int)strcspn(text, "$"), false};
        *rest = text + token->length;
        return true;
    }
    if (text[1] == '$') {
        *token = (struct token){text, 1, false};
        *rest = text + 2;
        return true;
    }
    bool braces = text[1] == '{';
    const char *name = text + 1 + braces, *end = name;
    if (is_name_start(*end))
        while (is_name_part(*end)) end++;
    *token = (struct token){name, (int)(end - name), true};
    *rest = end + braces;
    return end > name && (!braces || *end == '}');
}

static int find_parameter(const struct parameters *parameters, const char *name, int length) {
    for (int i = 0; i < parameters->count; i++)
        if (strncmp(parameters->items[i].name, name, (size_t)length) == 0 && !parameters->items[i].name[length])
            return i;
    return -1;
}

static void report_unset(const struct parameters *parameters, struct yaml_document *document,
                         const struct yaml_node *where, const char *name, int length) {
    char word[128];
    snprintf(word, sizeof word, "%.*s", length, name);
    const char *names[MAX_PARAMETERS];
    for (int i = 0; i < parameters->count; i++) names[i] = parameters->items[i].name;
    const char *nearest = nearest_name(word, names, parameters->count);
    if (nearest)
        yaml_error(document, where, "parameter '%s' is not set (did you mean '$%s'?)", word, nearest);
    else
        yaml_error(document, where, "parameter '%s' is not set ('$$' is a plain dollar)", word);
}

static uint64_t used_by_scalar(const struct parameters *parameters, struct yaml_document *document,
                               const struct yaml_node *scalar) {
    uint64_t used = 0;
    struct token token;
    for (const char *rest = scalar->text; *rest;) {
        if (!next_token(&rest, &token)) {
            if (document)
                yaml_error(document, scalar, "'$' begins a parameter, $name or ${name}; '$$' is a plain dollar");
            return used;
        }
        if (!token.parameter) continue;
        int found = find_parameter(parameters, token.text, token.length);
        if (found >= 0)
            used |= UINT64_C(1) << found;
        else if (document)
            report_unset(parameters, document, scalar, token.text, token.length);
    }
    return used;
}

uint64_t parameters_used(const struct parameters *parameters, struct yaml_document *document,
                         const struct yaml_node *tree) {
    if (!tree) return 0;
    if (tree->text) return used_by_scalar(parameters, document, tree);
    uint64_t used = 0;
    for (int i = 0; i < tree->count; i++) used |= parameters_used(parameters, document, tree->items[i]);
    return used;
}

const struct yaml_node *parameters_replace(const struct parameters *parameters, struct yaml_document *document,
                                           const struct yaml_node *scalar, const int *choice) {
    if (!strchr(scalar->text, '$')) return scalar;
    char *text = NULL;
    size_t length = 0;
    FILE *to = must_stream(&text, &length);
    int tokens = 0;
    bool good = true, has_parameter = false;
    const struct yaml_node *value = NULL;
    struct token token;
    for (const char *rest = scalar->text; good && *rest; tokens++) {
        good = next_token(&rest, &token);
        if (good && token.parameter) {
            int found = find_parameter(parameters, token.text, token.length);
            good = found >= 0 && parameters->items[found].count > 0;
            if (!good) break;
            has_parameter = true;
            value = parameters->items[found].values[choice ? choice[found] : 0];
            token.text = value->text;
            token.length = (int)strlen(value->text);
        }
        if (good) fwrite(token.text, 1, (size_t)token.length, to);
        if (good) fflush(to);
        if (good && length > MAX_PARAMETER_BYTES) {
            yaml_error(document, scalar, "grows beyond 64 KiB when its parameters are replaced");
            good = false;
        }
    }
    fclose(to);
    bool quoted = has_parameter ? tokens == 1 && value->quoted : scalar->quoted;
    const struct yaml_node *replaced = good ? yaml_scalar(document, scalar, text, quoted) : NULL;
    free(text);
    return replaced;
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

/* A '/' would split a name in the results file, a ',' separates the parameters of a label, and a control character
 * could break a line of the table: each becomes '_'. */
char label_character(char c) {
    return c == '/' || c == ',' || iscntrl((unsigned char)c) ? '_' : c;
}

static bool same_in_label(const char *a, const char *b) {
    while (*a && *b && label_character(*a) == label_character(*b)) a++, b++;
    return !*a && !*b;
}

/* Does the parameter have this value already, or one with the same label? Reports it if so. */
static bool is_duplicate(struct yaml_document *document, const struct parameter *parameter,
                         const struct yaml_node *value) {
    for (int i = 0; i < parameter->count; i++) {
        const char *other = parameter->values[i]->text;
        if (!same_in_label(other, value->text)) continue;
        if (strcmp(other, value->text) == 0)
            yaml_error(document, value, "value '%s' is already in the list of '%s'", other, parameter->name);
        else
            yaml_error(document, value, "values '%s' and '%s' of '%s' give the same label ('/' and ',' become '_')",
                       other, value->text, parameter->name);
        return true;
    }
    return false;
}

/* Replaces the parameters in a value and adds it. */
static void add_value(struct parameters *parameters, struct yaml_document *document, struct parameter *parameter,
                      const struct yaml_node *value, uint64_t *used) {
    if (!value->text || value->kind == YAML_NULL) {
        yaml_error(document, value, "parameter '%s' must be a word, a number, or a list of them", parameter->name);
        return;
    }
    uint64_t uses = parameters_used(parameters, document, value);
    *used |= uses;
    if (uses & parameters->swept) {
        yaml_error(document, value, "parameter '%s' uses a swept parameter; only operations and inputs may do that",
                   parameter->name);
        return;
    }
    value = parameters_replace(parameters, document, value, NULL);
    if (!value) return;
    if (parameter->count == MAX_VALUES) {
        yaml_error(document, parameter->where, "parameter '%s' has more than %d values", parameter->name, MAX_VALUES);
        return;
    }
    if (is_duplicate(document, parameter, value)) return;
    parameter->values = must_realloc(parameter->values, sizeof *parameter->values * (size_t)(parameter->count + 1));
    parameter->values[parameter->count++] = value;
}

static void load_values(struct parameters *parameters, struct yaml_document *document, struct parameter *parameter,
                        const struct yaml_node *value, uint64_t *used) {
    if (value->kind != YAML_LIST) {
        add_value(parameters, document, parameter, value, used);
        return;
    }
    parameter->swept = true;
    if (value->count == 0) yaml_error(document, value, "parameter '%s' is an empty list", parameter->name);
    for (int i = 0; i < value->count; i++) add_value(parameters, document, parameter, value->items[i], used);
}

/* Moves *text behind leading blanks and returns the length without blanks at either end. */
static size_t trim(const char **text, size_t length) {
    while (length > 0 && (*text)[0] == ' ') ++*text, length--;
    while (length > 0 && (*text)[length - 1] == ' ') length--;
    return length;
}

/* Reads the values of --set n=512,1024 or n=[512, 1024]. They have no line in the file. `swept`: the job file has a
 * list, so a single value still counts as a sweep, and results keep their labels. */
static void set_values(struct parameters *parameters, struct yaml_document *document, struct parameter *parameter,
                       const char *text, bool swept, uint64_t *used) {
    size_t left = trim(&text, strlen(text));
    bool list = left > 1 && text[0] == '[' && text[left - 1] == ']';
    if (list) text++, left -= 2;
    parameter->swept = swept || list || memchr(text, ',', left) != NULL;
    for (;;) {
        const char *comma = memchr(text, ',', left), *begin = text;
        size_t whole = comma ? (size_t)(comma - text) : left, length = trim(&begin, whole);
        char *value = must_printf("%.*s", (int)length, begin);
        if (length == 0)
            yaml_error(document, NULL, "--set: parameter '%s' has an empty value", parameter->name);
        else
            add_value(parameters, document, parameter, yaml_scalar(document, NULL, value, false), used);
        free(value);
        if (!comma) return;
        text = comma + 1;
        left -= whole + 1;
    }
}

/* The value that --set gives to a parameter, the last one of several; NULL: none. */
static const char *find_set(const char *name, const char *const *sets, int set_count) {
    size_t length = strlen(name);
    for (int i = set_count - 1; i >= 0; i--)
        if (strncmp(sets[i], name, length) == 0 && sets[i][length] == '=') return sets[i] + length + 1;
    return NULL;
}

void parameters_check_sets(const struct parameters *parameters, struct yaml_document *document, const char *const *sets,
                           int set_count) {
    const char *names[MAX_PARAMETERS];
    for (int i = 0; i < parameters->count; i++) names[i] = parameters->items[i].name;
    for (int i = 0; i < set_count; i++) {
        const char *equals = strchr(sets[i], '=');
        if (!equals) {
            yaml_error(document, NULL, "--set %s: write NAME=VALUE", sets[i]);
            continue;
        }
        if (find_parameter(parameters, sets[i], (int)(equals - sets[i])) >= 0) continue;
        char *name = must_printf("%.*s", (int)(equals - sets[i]), sets[i]);
        const char *nearest = nearest_name(name, names, parameters->count);
        if (nearest)
            yaml_error(document, NULL, "--set %s: the job has no parameter '%s' (did you mean '%s'?)", sets[i], name,
                       nearest);
        else
            yaml_error(document, NULL, "--set %s: the job has no parameter '%s'", sets[i], name);
        free(name);
    }
}

static bool is_name(const char *text) {
    if (!is_name_start(*text)) return false;
    while (is_name_part(*text)) text++;
    return !*text;
}

uint64_t parameters_load(struct parameters *parameters, struct yaml_document *document, const struct yaml_node *map,
                         const char *const *sets, int set_count) {
    uint64_t used = 0;
    parameters->count = 0;
    parameters->swept = 0;
    if (map && map->kind != YAML_MAP) yaml_error(document, map, "'parameters' must be a map of names to values");
    for (int i = 0; map && map->kind == YAML_MAP && i < map->count; i++) {
        const struct yaml_node *key = map->keys[i];
        if (parameters->count == MAX_PARAMETERS) {
            yaml_error(document, key, "more than 64 parameters");
            break;
        }
        if (!is_name(key->text))
            yaml_error(document, key, "'%s' is not a parameter name: use a letter or '_', then letters, digits, '_'",
                       key->text);
        struct parameter *parameter = &parameters->items[parameters->count];
        *parameter = (struct parameter){.where = key, .name = key->text};
        const char *set = find_set(key->text, sets, set_count);
        if (set)
            set_values(parameters, document, parameter, set, map->items[i]->kind == YAML_LIST, &used);
        else
            load_values(parameters, document, parameter, map->items[i], &used);
        if (parameter->swept) parameters->swept |= UINT64_C(1) << parameters->count;
        parameters->count++;
    }
    return used;
}

void parameters_add(struct parameters *parameters, struct yaml_document *document, const struct yaml_node *key,
                    char *const *values, int count, const char *const *sets, int set_count) {
    uint64_t used = 0;
    if (parameters->count == MAX_PARAMETERS) {
        yaml_error(document, key, "more than 64 parameters");
        return;
    }
    struct parameter *parameter = &parameters->items[parameters->count];
    *parameter = (struct parameter){.where = key, .name = key->text, .swept = true};
    const char *set = find_set(key->text, sets, set_count);
    if (set) set_values(parameters, document, parameter, set, true, &used);
    for (int i = 0; i < count && !set; i++)
        add_value(parameters, document, parameter, yaml_scalar(document, key, values[i], true), &used);
    parameters->swept |= UINT64_C(1) << parameters->count++;
}

void parameters_free(struct parameters *parameters) {
    for (int i = 0; i < parameters->count; i++) free(parameters->items[i].values);
}

/* ---- combining ------------------------------------------------------------------------------------------------- */

int64_t combinations_count(const struct parameters *parameters, uint64_t set) {
    int64_t count = 1;
    for (int i = 0; i < parameters->count; i++) {
        if (set >> i & 1) count *= parameters->items[i].count;
        if (count > INT32_MAX) return INT32_MAX;
    }
    return count;
}

void combination_at(const struct parameters *parameters, uint64_t set, int64_t number, int choice[MAX_PARAMETERS]) {
    for (int i = parameters->count - 1; i >= 0; i--) {
        int count = parameters->items[i].count;
        bool chosen = (set >> i & 1) && count > 0;
        choice[i] = chosen ? (int)(number % count) : 0;
        if (chosen) number /= count;
    }
}

int64_t combination_number(const struct parameters *parameters, uint64_t set, const int choice[MAX_PARAMETERS]) {
    int64_t number = 0;
    for (int i = 0; i < parameters->count; i++)
        if (set >> i & 1) number = number * parameters->items[i].count + choice[i];
    return number;
}

char *combination_label(const struct parameters *parameters, uint64_t set, const int choice[MAX_PARAMETERS]) {
    char *label = must_strdup("");
    for (int i = 0; i < parameters->count; i++) {
        const struct parameter *parameter = &parameters->items[i];
        if (!(set >> i & 1) || parameter->count == 0) continue;
        const char *value = parameter->values[choice[i]]->text;
        char *longer = must_printf("%s%s%s=%s", label, *label ? "," : "", parameter->name, value);
        for (char *c = longer + strlen(longer) - strlen(value); *c; c++) *c = label_character(*c);
        free(label);
        label = longer;
    }
    return label;
}
