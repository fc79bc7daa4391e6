/* job_parameters.c - replaces parameters in scalars, and evaluates derived ones. */
#include "job_parameters.h"

#include "../base/fail.h"
#include "../base/spelling.h"
#include "../base/text.h"
#include "../base/texts.h"
#include "expression/expression.h"

#include <string.h>

/* ---- replacing ------------------------------------------------------------------------------------------------- */

char *parameters_escape(const char *text, size_t length) {
    char *escaped = must_malloc(2 * length + 1), *to = escaped;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '$') *to++ = '$';
        *to++ = text[i];
    }
    *to = '\0';
    return escaped;
}

/* A part of a scalar: plain text, or a parameter. */
struct token {
    const char *text; /* the text, or the parameter's name */
    int length;
    bool parameter;
};

/* Reads the next token and advances `*rest`. false: it is a '$' without a name. */
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
    const char *name = text + 1 + braces, *end = name + text_name_length(name);
    *token = (struct token){name, (int)(end - name), true};
    *rest = end + braces;
    return end > name && (!braces || *end == '}');
}

int parameters_find(const struct parameters *parameters, const char *name, int length) {
    for (int i = 0; i < parameters->count; i++)
        if (strncmp(parameters->items[i].name, name, (size_t)length) == 0 && !parameters->items[i].name[length])
            return i;
    return -1;
}

int parameters_alone(const struct parameters *parameters, const struct yaml_node *scalar) {
    const char *text = scalar->text;
    return text && *text == '$' ? parameters_find(parameters, text + 1, (int)strlen(text + 1)) : -1;
}

const struct yaml_node *parameters_written(const struct parameters *parameters, const struct yaml_node *scalar,
                                           const int *choice) {
    int alone = parameters_alone(parameters, scalar);
    const struct parameter *parameter = alone >= 0 ? &parameters->items[alone] : NULL;
    if (!parameter || parameter->count == 0) return scalar;
    const struct yaml_node *value = parameter->values[parameter->swept ? choice[alone] : 0];
    return value->line > 0 ? value : scalar;
}

bool parameters_reported_unset(const struct parameters *parameters, const char *name) {
    OWNED char *used = must_printf("parameter '%s' is not set", name), *zipped = must_printf("'zip' names '%s',", name);
    return yaml_has_message(parameters->document, used) || yaml_has_message(parameters->document, zipped);
}

/* Reports, once, that no parameter is called `name`, which stands behind "$" or "${" in the text of `where`; reports
 * nothing while the list of parameters is incomplete. Returns the set of the parameter with the nearest name, so that
 * it counts as used; 0: there is no near one. */
static uint64_t report_unset(const struct parameters *parameters, const struct yaml_node *where, const char *name,
                             int length) {
    if (parameters->incomplete) return 0;
    char word[128]; /* enough to recognize it: a longer name is cut in the message */
    snprintf(word, sizeof word, "%.*s", length, name);
    const char *names[MAX_PARAMETERS];
    for (int i = 0; i < parameters->count; i++) names[i] = parameters->items[i].name;
    const char *nearest = nearest_name(word, names, parameters->count);
    bool later = yaml_get(yaml_get(yaml_root(parameters->document), "parameters"), word) != NULL;
    bool environment = strncmp(name, "env:", 4) == 0;
    OWNED char *text = later ? must_printf("parameter '%s' is not set yet: a parameter may use those above it", word)
                       : environment ? must_strdup("an environment variable must be in braces: ${env:NAME}")
                       : nearest     ? must_printf("parameter '%s' is not set (did you mean '$%s'?)", word, nearest)
                                     : must_printf("parameter '%s' is not set ('$$' is a plain dollar)", word);
    int at = (int)(name - where->text) - (name[-1] == '{' ? 2 : 1); /* the dollar */
    bool reported = parameters_reported_unset(parameters, word);
    if (!reported && yaml_is_verbatim(parameters->document, where))
        yaml_error_inside(parameters->document, where, at, "%s", text);
    else if (!reported)
        yaml_error(parameters->document, where, "%s", text);
    return nearest ? UINT64_C(1) << parameters_find(parameters, nearest, (int)strlen(nearest)) : 0;
}

static bool has_key(const struct yaml_node *map, const char *name, int length) {
    for (int i = 0; map && i < map->count; i++)
        if (strncmp(map->keys[i]->text, name, (size_t)length) == 0 && !map->keys[i]->text[length]) return true;
    return false;
}

/* The set of parameters that a scalar uses. `variant`: the map of the variant that it belongs to, whose parameters hide
 * the job's of the same names; NULL: it belongs to no variant. `reports`: reports names that are not set. A '$' without
 * a name marks the scalar as wrong. */
static uint64_t used_by_scalar(const struct parameters *parameters, const struct yaml_node *scalar,
                               const struct yaml_node *variant, bool reports) {
    uint64_t used = 0;
    struct token token;
    for (const char *rest = scalar->text; *rest;) {
        if (!next_token(&rest, &token)) {
            if (reports)
                yaml_error(parameters->document, scalar,
                           "'$' must begin a parameter, $name or ${name}; '$$' is a plain dollar");
            yaml_set_wrong(scalar);
            return used;
        }
        if (!token.parameter || has_key(variant, token.text, token.length)) continue;
        int found = parameters_find(parameters, token.text, token.length);
        if (found >= 0)
            used |= UINT64_C(1) << found | parameters->items[found].uses;
        else if (reports)
            used |= report_unset(parameters, scalar, token.text, token.length);
    }
    uint64_t zipped = 0;
    for (int i = 0; used && i < parameters->count; i++)
        if (used >> i & 1) zipped |= parameters->items[i].zipped;
    return used | zipped;
}

/* Is the item an expression of a variant, which may name the variant's own parameters? */
static bool is_of_variant(const struct yaml_node *map, int item) {
    bool variant = map->kind == YAML_MAP && (yaml_get(map, "source") || yaml_get(map, "name"));
    return variant && IS_ONE_OF(map->keys[item]->text, "where", "block", "grid", "shared");
}

/* The set of parameters that a tree uses; see used_by_scalar. */
static uint64_t used_by_tree(const struct parameters *parameters, const struct yaml_node *tree,
                             const struct yaml_node *variant, bool reports) {
    if (tree->text) return used_by_scalar(parameters, tree, variant, reports);
    uint64_t used = 0;
    for (int i = 0; i < tree->count; i++)
        used |= used_by_tree(parameters, tree->items[i], is_of_variant(tree, i) ? tree : variant, reports);
    return used;
}

uint64_t parameters_used(const struct parameters *parameters, const struct yaml_node *tree) {
    return tree ? used_by_tree(parameters, tree, NULL, false) : 0;
}

uint64_t parameters_check(struct parameters *parameters, const struct yaml_node *tree) {
    uint64_t used = used_by_tree(parameters, tree, NULL, true);
    parameters->used |= used;
    return used;
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

const struct yaml_node *parameters_node(const struct parameters *parameters, const struct yaml_node *where,
                                        const struct scalar *scalar) {
    char text[SCALAR_TEXT_BYTES];
    struct yaml_node *node =
        yaml_scalar(parameters->document, where, scalar_format(scalar, text), scalar->kind == SCALAR_TEXT);
    if (scalar->kind == SCALAR_REAL) yaml_set_real(node, scalar->real);
    return node;
}

const struct yaml_node *parameters_value(struct parameters *parameters, int index, const int *choice) {
    struct parameter *parameter = &parameters->items[index];
    if (parameter->failed) return NULL;
    if (!parameter->derived) return parameter->count > 0 ? parameter->values[choice ? choice[index] : 0] : NULL;
    bool again = parameter->latest && choice;
    for (int i = 0; i < parameters->count && again; i++)
        again = !(parameter->uses >> i & 1) || parameter->choice[i] == choice[i];
    if (again) /* else n parameters, each of which uses the one before it twice, would need 2^n evaluations */
        return parameter->latest;
    const struct yaml_node *value = NULL;
    struct scalar scalar;
    parameter->failed = true; /* until it has a value: it may use itself, which was reported */
    if (!parameter->expression)
        value = parameters_replace(parameters, parameter->derived, choice);
    else if (parameters_evaluate(parameters, parameter->derived, parameter->expression, choice, &scalar))
        value = parameters_node(parameters, parameter->derived, &scalar);
    parameter->failed = !value;
    parameter->latest = choice ? value : NULL;
    for (int i = 0; i < parameters->count && choice; i++) parameter->choice[i] = choice[i];
    return value;
}

const struct yaml_node *parameters_replace(struct parameters *parameters, const struct yaml_node *scalar,
                                           const int *choice) {
    if (!strchr(scalar->text, '$')) return scalar;
    OWNED char *text = NULL;
    FILE *to = must_stream(&text);
    size_t length = 0;
    int tokens = 0;
    bool good = true, has_parameter = false;
    const struct yaml_node *value = NULL;
    struct token token;
    for (const char *rest = scalar->text; good && *rest; tokens++) {
        good = next_token(&rest, &token);
        if (good && token.parameter) {
            int found = parameters_find(parameters, token.text, token.length);
            value = found >= 0 ? parameters_value(parameters, found, choice) : NULL;
            good = value != NULL;
            if (!good) break;
            has_parameter = true;
            token.text = value->text;
            token.length = (int)strlen(value->text);
        }
        if (good) fwrite(token.text, 1, (size_t)token.length, to);
        if (good && (length += (size_t)token.length) > MAX_PARAMETER_BYTES) {
            yaml_error(parameters->document, scalar, "this text grows beyond %d KiB when its parameters are replaced",
                       MAX_PARAMETER_BYTES >> 10);
            good = false;
        }
    }
    fclose(to);
    bool quoted = has_parameter ? tokens == 1 && value && value->quoted : scalar->quoted;
    struct yaml_node *replaced = good ? yaml_scalar(parameters->document, scalar, text, quoted) : NULL;
    if (replaced && tokens == 1 && value && value->kind == YAML_FLOAT) yaml_set_real(replaced, value->real);
    return replaced;
}

/* ---- expressions ----------------------------------------------------------------------------------------------- */

struct expression *parameters_parse(const struct parameters *parameters, const struct yaml_node *where) {
    struct expression_fault fault;
    struct expression *expression = where->wrong ? NULL : expression_parse(where->text, &fault);
    if (!expression && !where->wrong) yaml_error_inside(parameters->document, where, fault.at, "%s", fault.message);
    return expression;
}

/* The context of look_up: where it finds values. */
struct lookup {
    struct parameters *parameters;
    const int *choice;
};

/* Gives an expression the value of a parameter; for expression_evaluate. */
static bool look_up(void *context, const char *name, struct scalar *value, char message[200]) {
    const struct lookup *lookup = context;
    int found = parameters_find(lookup->parameters, name, (int)strlen(name));
    const struct yaml_node *node = found < 0 ? NULL : parameters_value(lookup->parameters, found, lookup->choice);
    message[0] = '\0'; /* it was reported where the parameter is defined, or as not set */
    if (!node) return false;
    *value = (struct scalar){.kind = SCALAR_TEXT, .text = node->text};
    if (node->kind == YAML_BOOL) *value = (struct scalar){.kind = SCALAR_BOOL, .integer = node->integer};
    if (node->kind == YAML_INT) *value = (struct scalar){.kind = SCALAR_INTEGER, .integer = node->integer};
    if (node->kind == YAML_FLOAT) *value = (struct scalar){.kind = SCALAR_REAL, .real = node->real};
    return true;
}

/* Reports why an expression has no value under a choice, unless the reason or a wrong value of a parameter was
 * reported. Counts the values that are texts as wrong, because they are a probable cause. */
static void report_fault(struct parameters *parameters, const struct yaml_node *where, const int *choice,
                         const struct expression_fault *fault) {
    uint64_t used = parameters_used(parameters, where);
    if (!*fault->message || used & parameters->wrong) return;
    OWNED char *with = must_strdup("");
    for (int i = 0; i < parameters->count; i++) {
        const struct parameter *parameter = &parameters->items[i];
        if (!(used >> i & 1) || parameter->count == 0) continue;
        const struct yaml_node *value = parameter->values[choice ? choice[i] : 0];
        if (value->kind == YAML_STRING) parameters->wrong |= UINT64_C(1) << i;
        if (choice && parameter->swept)
            must_append(&with, "%s%s=%.40s", *with ? "," : " (with ", parameter->name, value->text);
    }
    yaml_error_inside(parameters->document, where, fault->at, "%s%s%s", fault->message, with, *with ? ")" : "");
}

bool parameters_evaluate(struct parameters *parameters, const struct yaml_node *where,
                         const struct expression *expression, const int *choice, struct scalar *value) {
    struct expression_fault fault;
    struct lookup context = {parameters, choice};
    bool good = expression_evaluate(expression, look_up, &context, value, &fault);
    if (!good) report_fault(parameters, where, choice, &fault);
    return good;
}

bool parameters_hold(struct parameters *parameters, const struct yaml_node *where, const struct expression *expression,
                     const int *choice, bool *holds) {
    struct expression_fault fault;
    struct lookup context = {parameters, choice};
    bool good = expression_holds(expression, look_up, &context, holds, &fault);
    if (!good) report_fault(parameters, where, choice, &fault);
    return good;
}

struct map *parameters_map(struct parameters *parameters, const struct yaml_node *where,
                           const struct expression *expression, const struct array_names *arrays, const int *choice) {
    struct expression_fault fault = {.message = ""};
    struct lookup context = {parameters, choice};
    struct map *map = expression_map(expression, arrays, look_up, &context, &fault);
    if (!map) report_fault(parameters, where, choice, &fault);
    return map;
}

/* Does the text look like an expression: has it an operator between blanks, or a call? Then a fault in it is reported.
 * A text without them, like `data-$n.h5`, is an expression only if it parses as one. */
static bool looks_like_expression(const char *text) {
    static const char *const operators[] = {"+",  "-",  "*",   "/",  "//", "%", "**", "<",  "<=", ">",  ">=",
                                            "==", "!=", "and", "or", "if", "=", "&",  "&&", "|",  "||", "^"};
    for (const char *word = strchr(text, ' '); word; word = strchr(word + 1, ' '))
        for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
            size_t length = strlen(operators[i]);
            if (strncmp(word + 1, operators[i], length) == 0 && word[1 + length] == ' ') return true;
        }
    return text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789")] == '(' && *text != '(';
}

/* Are the values of all parameters that a scalar names numbers or booleans? */
static bool uses_numbers(const struct parameters *parameters, const struct yaml_node *scalar) {
    struct token token;
    for (const char *rest = scalar->text; *rest;) {
        int found =
            next_token(&rest, &token) && token.parameter ? parameters_find(parameters, token.text, token.length) : -1;
        if (found < 0) continue;
        const struct parameter *parameter = &parameters->items[found];
        if (parameter->derived && !parameter->expression) return false;
        for (int i = 0; i < parameter->count; i++)
            if (parameter->values[i]->kind == YAML_STRING) return false;
    }
    return true;
}

struct expression *parameters_expression(const struct parameters *parameters, const struct yaml_node *value,
                                         bool *good) {
    *good = !value->wrong;
    if (value->quoted || value->wrong || !strchr(value->text, '$')) return NULL;
    struct expression_fault fault;
    struct expression *expression = expression_parse(value->text, &fault);
    bool meant = looks_like_expression(value->text);
    if (!expression && meant) {
        yaml_error_inside(parameters->document, value, fault.at, "%s%s", fault.message,
                          strstr(fault.message, "quotes") ? "" : "; if the whole value is text, put it in quotes");
        *good = false;
    }
    if (expression && (expression_is_operand(expression) || (!meant && !uses_numbers(parameters, value)))) {
        expression_free(expression);
        expression = NULL;
    }
    return expression;
}
