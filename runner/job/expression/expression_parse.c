/* expression_parse.c - parses an expression by recursive descent: one function a level of binding. */
#include "../../base/fail.h"
#include "../../base/spelling.h"
#include "../../base/text.h"
#include "expression_tree.h"

#include "../../../kernels/core/operation.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parser {
    const char *text, *rest; /* the expression; what is not parsed yet */
    struct expression *expression;
    struct expression_fault *fault;
    const struct array_names *names; /* NULL: there are no arrays */
    int depth;                       /* number of open parentheses, calls and unary operators */
};

/* ---- faults and nodes ------------------------------------------------------------------------------------------ */

/* Reports a fault at `at` and returns NULL, which every caller returns too. */
__attribute__((format(printf, 3, 4))) static const struct node *fail_here(struct parser *parser, const char *at,
                                                                          const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start does it
    vsnprintf(parser->fault->message, sizeof parser->fault->message, format, arguments);
    va_end(arguments);
    parser->fault->at = (int)(at - parser->text);
    return NULL;
}

/* Makes a node without operands, which the expression owns; `at`: its place in the text. */
static struct node *new_node(struct parser *parser, enum node_kind kind, const char *at) {
    struct node *node = must_malloc(sizeof *node);
    *node = (struct node){.kind = kind, .at = (int)(at - parser->text), .height = 1, .size = 1};
    node->next = parser->expression->nodes;
    parser->expression->nodes = node;
    return node;
}

/* Makes the node of a function and its operands; `b` and `c` are ignored if the function has fewer. NULL: an operand is
 * NULL, which was reported, or the tree is too large, which is reported. */
static const struct node *apply(struct parser *parser, const char *at, const struct expression_function *function,
                                const struct node *a, const struct node *b, const struct node *c) {
    const struct node *operands[FUNCTION_OPERANDS] = {a, b, c};
    struct node *node = new_node(parser, NODE_FUNCTION, at);
    node->function = function;
    for (int i = 0; i < FUNCTION_OPERANDS && i < function->operands; i++) {
        if (!operands[i]) return NULL;
        node->operands[i] = operands[i];
        if (operands[i]->height >= node->height) node->height = operands[i]->height + 1;
        node->size += operands[i]->size;
    }
    if (node->height > EXPRESSION_DEPTH)
        return fail_here(parser, at, "the expression has more than %d levels", EXPRESSION_DEPTH);
    if (node->size > EXPRESSION_BYTES) /* it would be evaluated for hours */
        return fail_here(parser, at, "the expression has too many comparisons inside chained comparisons");
    return node;
}

/* ---- words ----------------------------------------------------------------------------------------------------- */

static void skip_blanks(struct parser *parser) {
    parser->rest += strspn(parser->rest, " \t\r\n");
}

/* Takes the word and returns true if the word comes next, after blanks. */
static bool accept_word(struct parser *parser, const char *word) {
    skip_blanks(parser);
    size_t length = strlen(word);
    if ((size_t)text_name_length(parser->rest) != length || strncmp(parser->rest, word, length) != 0) return false;
    parser->rest += length;
    return true;
}

/* Takes the character and returns true if the character comes next, after blanks. */
static bool accept_character(struct parser *parser, char character) {
    skip_blanks(parser);
    if (*parser->rest != character) return false;
    parser->rest++;
    return true;
}

/* Takes the first of `operators` that comes next and returns it; NULL: none comes next. Sets *at to its place.
 * `operators` ends at NULL, and a longer one comes before its own beginning ("//" before "/"). */
static const struct expression_function *accept_operator(struct parser *parser, const char *const operators[],
                                                         const char **at) {
    skip_blanks(parser);
    *at = parser->rest;
    for (int i = 0; operators[i]; i++) {
        size_t length = strlen(operators[i]);
        if (strncmp(parser->rest, operators[i], length) != 0) continue;
        if (length == 1 && parser->rest[1] == '*' && *operators[i] == '*') return NULL; /* `**` binds tighter */
        parser->rest += length;
        return operator_find(operators[i]);
    }
    return NULL;
}

/* Reports what stands where an operator is expected, or an operand if `operand`. Returns NULL. */
static const struct node *report_operator(struct parser *parser, bool operand) {
    static const char *const spellings[][2] = {
        {"&", "and"},           {"&&", "and"}, {"|", "or"},  {"||", "or"},  {"~", "not"}, {"!", "not"},  {"^", "**"},
        {"?", "a if c else b"}, {"=", "=="},   {"is", "=="}, {"===", "=="}, {"mod", "%"}, {"div", "//"}, {"xor", "!="}};
    const char *at = parser->rest, *end = at + text_name_length(at);
    if (end == at) end += strspn(at, operand ? "~!" : "&|^<>!~?:;=");
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
        if (strlen(spellings[i][0]) == (size_t)(end - at) && strncmp(at, spellings[i][0], (size_t)(end - at)) == 0)
            return fail_here(parser, at, "'%s' is not an operator: write '%s'", spellings[i][0], spellings[i][1]);
    if (operand && *at && strchr("<>", *at))
        return fail_here(parser, at, "an operand is expected here: unequal is '!=', shifts are '* 2**n' and '// 2**n'");
    if (operand)
        return fail_here(parser, at,
                         *at ? "an operand is expected here" : "the expression ends where an operand is expected");
    if (end == at) end += utf8_length(at, strlen(at));
    if (*at == ')') return fail_here(parser, at, "this ')' closes no '('");
    return fail_here(parser, at, "'%.*s' is not an operator (+ - * / // %% ** == != < <= > >= and or if)",
                     (int)(end - at), at);
}

/* Takes the ')' that closes a call or parentheses. Reports anything else and returns false. */
static bool accept_closing(struct parser *parser) {
    if (accept_character(parser, ')')) return true;
    if (*parser->rest && *parser->rest != ',')
        report_operator(parser, false);
    else
        fail_here(parser, parser->rest, "')' is missing here");
    return false;
}

/* ---- operands -------------------------------------------------------------------------------------------------- */

/* From here on, a function parse_X parses an X at parser->rest and moves behind it; it reports a fault and returns
 * NULL. */

static const struct node *parse_choice(struct parser *parser);
static const struct node *parse_unary(struct parser *parser);

/* Parses a decimal number: an integer if it has neither point nor exponent. */
static const struct node *parse_number(struct parser *parser) {
    const char *at = parser->rest;
    struct node *node = new_node(parser, NODE_VALUE, at);
    char *end_of_integer, *end;
    errno = 0;
    long long integer = strtoll(at, &end_of_integer, 10);
    bool overflow = errno == ERANGE;
    bool hexadecimal = at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
    double real = strtod(at, &end);
    if (hexadecimal || text_name_length(end) > 0) return fail_here(parser, at, "this is not a number");
    node->value = (struct scalar){.kind = SCALAR_REAL, .real = real};
    if (end == end_of_integer) {
        if (overflow) return fail_here(parser, at, "this integer exceeds int64");
        node->value = (struct scalar){.kind = SCALAR_INTEGER, .integer = integer};
    }
    parser->rest = end;
    return node;
}

/* Parses a text in single or double quotes, without escapes. */
static const struct node *parse_text(struct parser *parser) {
    const char *at = parser->rest, *end = strchr(at + 1, *at);
    if (!end) return fail_here(parser, at, "this text has no closing quote");
    const char *dollar = memchr(at, '$', (size_t)(end - at));
    if (dollar && (dollar[1] == '{' || text_name_length(dollar + 1) > 0))
        return fail_here(parser, dollar, "in quotes '$' is plain text: write the parameter without quotes");
    struct node *node = new_node(parser, NODE_VALUE, at);
    node->value = (struct scalar){.kind = SCALAR_TEXT, .text = must_printf("%.*s", (int)(end - at - 1), at + 1)};
    parser->rest = end + 1;
    return node;
}

/* Parses `$name` or `${name}`. */
static const struct node *parse_parameter(struct parser *parser) {
    const char *at = parser->rest, *name = at + 1 + (at[1] == '{');
    int length = text_name_length(name);
    bool braces = at[1] == '{';
    if (length == 0 || (braces && name[length] != '}'))
        return fail_here(parser, at, "'$' must begin a parameter, $name or ${name}");
    struct node *node = new_node(parser, NODE_PARAMETER, at);
    node->name = must_printf("%.*s", length, name);
    parser->rest = name + length + braces;
    return node;
}

/* Parses the operands of a call, from behind its '('; `at`: the function's name. */
static const struct node *parse_call(struct parser *parser, const char *at,
                                     const struct expression_function *function) {
    const struct node *operands[FUNCTION_OPERANDS] = {0};
    int count = 0;
    if (!accept_character(parser, ')')) {
        do {
            const struct node *operand = parse_choice(parser);
            if (!operand) return NULL;
            if (count < FUNCTION_OPERANDS) operands[count] = operand;
            count++;
        } while (accept_character(parser, ','));
        if (!accept_closing(parser)) return NULL;
    }
    if (count != function->operands)
        return fail_here(parser, at, "%s takes %d operand%s, not %d", function->name, function->operands,
                         function->operands == 1 ? "" : "s", count);
    return apply(parser, at, function, operands[0], operands[1], operands[2]);
}

/* Makes the node of the array, or of the index of an element, that a name means; NULL: it means neither. */
static const struct node *array_node(struct parser *parser, const char *at, int length) {
    for (int i = 0; parser->names && i < parser->names->count; i++) {
        const char *name = parser->names->names[i];
        if ((int)strlen(name) != length || strncmp(name, at, (size_t)length) != 0) continue;
        struct node *node = new_node(parser, NODE_INPUT, at);
        node->number = i;
        return node;
    }
    if (!parser->names || length != 2 || at[0] != 'i' || at[1] < '0' || at[1] >= '0' + MAX_RANK) return NULL;
    struct node *node = new_node(parser, NODE_INDEX, at);
    node->number = at[1] - '0';
    return node;
}

/* Reports a name that means nothing, with a hint. Returns NULL. */
static const struct node *report_name(struct parser *parser, const char *at, int length) {
    if (!parser->names)
        return fail_here(parser, at, "'%.*s' is not a number; write $%.*s for a parameter, '%.*s' in quotes for a text",
                         length, at, length, at, length, at);
    char hint[HINT_TEXT];
    OWNED char *name = must_printf("%.*s", length, at), *parameter = must_printf("; a parameter is $%s", name);
    if (type_of_text(name) >= 0) return fail_here(parser, at, "put the type in quotes: '%s'", name);
    if (at[length] == '.' && (strcmp(name, "np") == 0 || strcmp(name, "numpy") == 0 || strcmp(name, "math") == 0))
        return fail_here(parser, at, "functions are written without '%s.'", name);
    for (int i = 0; i < parser->names->count; i++) {
        const char *array = parser->names->names[i];
        if ((int)strlen(array) > length && strncmp(array, at, strlen(array)) == 0)
            return fail_here(parser, at, "an expression cannot name '%s', for '-' subtracts: rename the input", array);
    }
    return fail_here(parser, at, "'%s' is not an input of the operation%s", name,
                     name_hint(name, parser->names->names, parser->names->count, parameter, hint));
}

/* An operand that begins with a name: a constant, an index, an array or the call of a function. */
static const struct node *parse_name(struct parser *parser) {
    static const struct {
        const char *name;
        struct scalar value;
    } constants[] = {
        {"true", {.kind = SCALAR_BOOL, .integer = 1}},    {"false", {.kind = SCALAR_BOOL}},
        {"True", {.kind = SCALAR_BOOL, .integer = 1}},    {"False", {.kind = SCALAR_BOOL}},
        {"inf", {.kind = SCALAR_REAL, .real = INFINITY}}, {"nan", {.kind = SCALAR_REAL, .real = NAN}},
        {"pi", {.kind = SCALAR_REAL, .real = M_PI}},      {"e", {.kind = SCALAR_REAL, .real = M_E}},
    };
    const char *at = parser->rest;
    int length = text_name_length(at);
    parser->rest += length;
    if (accept_character(parser, '(')) {
        const struct expression_function *function = function_find(at, length);
        if (function) return parse_call(parser, at, function);
    } else {
        const struct node *array = array_node(parser, at, length);
        if (array) return array;
        for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
            if ((int)strlen(constants[i].name) != length || strncmp(constants[i].name, at, (size_t)length) != 0)
                continue;
            struct node *node = new_node(parser, NODE_VALUE, at);
            node->value = constants[i].value;
            return node;
        }
        if (!function_find(at, length)) return report_name(parser, at, length);
        return fail_here(parser, at, "%.*s is a function: write %.*s(...)", length, at, length, at);
    }
    OWNED char *name = must_printf("%.*s", length, at);
    char hint[FUNCTION_HINT];
    return fail_here(parser, at, "unknown function '%.30s'%s", name, function_hint(name, hint));
}

/* Parses an operand: parentheses, a parameter, a text, a number or a name. */
static const struct node *parse_operand(struct parser *parser) {
    skip_blanks(parser);
    const char *at = parser->rest;
    if (*at == '(') {
        parser->rest++;
        const struct node *inner = parse_choice(parser);
        return inner && accept_closing(parser) ? inner : NULL;
    }
    if (*at == '$') return parse_parameter(parser);
    if (*at == '\'' || *at == '"') return parse_text(parser);
    if (isdigit((unsigned char)*at) || (*at == '.' && isdigit((unsigned char)at[1]))) return parse_number(parser);
    if (text_name_length(at) > 0) return parse_name(parser);
    return report_operator(parser, true);
}

/* ---- operators, from the tightest ------------------------------------------------------------------------------- */

/* Parses an operand with an optional power, which is joined from the right: 2 ** 3 ** 2 is 2 ** 9. */
static const struct node *parse_power(struct parser *parser) {
    static const char *const power[] = {"**", NULL};
    const struct node *base = parse_operand(parser);
    const char *at;
    const struct expression_function *function = base ? accept_operator(parser, power, &at) : NULL;
    return function ? apply(parser, at, function, base, parse_unary(parser), NULL) : base;
}

/* Parses an operand with any signs before it, which bind less tightly than `**`. */
static const struct node *parse_unary(struct parser *parser) {
    const char *at;
    skip_blanks(parser);
    at = parser->rest;
    if (*at != '-' && *at != '+') return parse_power(parser);
    if (++parser->depth > EXPRESSION_DEPTH)
        return fail_here(parser, at, "the expression has more than %d levels", EXPRESSION_DEPTH);
    parser->rest++;
    const struct node *node =
        apply(parser, at, operator_find(*at == '-' ? "unary -" : "unary +"), parse_unary(parser), NULL, NULL);
    parser->depth--;
    return node;
}

typedef const struct node *parse_level(struct parser *parser);

/* Parses operands of the level `next`, joined from the left by any of `operators`. */
static const struct node *parse_joined(struct parser *parser, const char *const operators[], parse_level *next) {
    const struct node *node = next(parser);
    const char *at;
    const struct expression_function *function;
    while (node && (function = accept_operator(parser, operators, &at)))
        node = apply(parser, at, function, node, next(parser), NULL);
    return node;
}

static const struct node *parse_product(struct parser *parser) {
    static const char *const operators[] = {"//", "/", "%", "*", NULL};
    return parse_joined(parser, operators, parse_unary);
}

static const struct node *parse_sum(struct parser *parser) {
    static const char *const operators[] = {"+", "-", NULL};
    return parse_joined(parser, operators, parse_product);
}

/* Parses comparisons: `a < b < c` is `a < b and b < c`. */
static const struct node *parse_comparison(struct parser *parser) {
    static const char *const operators[] = {"<=", ">=", "==", "!=", "<", ">", NULL};
    const struct node *left = parse_sum(parser), *conjunction = NULL;
    const char *at;
    const struct expression_function *function;
    while (left && (function = accept_operator(parser, operators, &at))) {
        const struct node *right = parse_sum(parser);
        const struct node *comparison = apply(parser, at, function, left, right, NULL);
        conjunction = conjunction && comparison ? apply(parser, at, operator_find("and"), conjunction, comparison, NULL)
                                                : comparison;
        if (!conjunction) return NULL;
        left = right;
    }
    return conjunction ? conjunction : left;
}

/* Parses a comparison with any `not` before it. */
static const struct node *parse_not(struct parser *parser) {
    skip_blanks(parser);
    const char *at = parser->rest;
    if (!accept_word(parser, "not")) return parse_comparison(parser);
    if (++parser->depth > EXPRESSION_DEPTH)
        return fail_here(parser, at, "the expression has more than %d levels", EXPRESSION_DEPTH);
    const struct node *node = apply(parser, at, operator_find("not"), parse_not(parser), NULL, NULL);
    parser->depth--;
    return node;
}

/* Parses operands of the level `next`, joined by the word `word`. */
static const struct node *parse_worded(struct parser *parser, const char *word, parse_level *next) {
    const struct node *node = next(parser);
    while (node) {
        skip_blanks(parser);
        const char *at = parser->rest;
        if (!accept_word(parser, word)) break;
        node = apply(parser, at, operator_find(word), node, next(parser), NULL);
    }
    return node;
}

static const struct node *parse_and(struct parser *parser) {
    return parse_worded(parser, "and", parse_not);
}

static const struct node *parse_or(struct parser *parser) {
    return parse_worded(parser, "or", parse_and);
}

/* Parses `a if c else b`, the loosest level, at which the inside of parentheses begins again. */
static const struct node *parse_choice(struct parser *parser) {
    if (++parser->depth > EXPRESSION_DEPTH)
        return fail_here(parser, parser->rest, "the expression has more than %d levels", EXPRESSION_DEPTH);
    const struct node *node = parse_or(parser);
    skip_blanks(parser);
    const char *at = parser->rest;
    if (node && accept_word(parser, "if")) {
        const struct node *condition = parse_or(parser);
        if (!condition) return NULL;
        if (!accept_word(parser, "else"))
            return *parser->rest && !strchr("),", *parser->rest)
                       ? report_operator(parser, false)
                       : fail_here(parser, parser->rest, "'else' is missing here");
        node = apply(parser, at, operator_find("if"), condition, node, parse_choice(parser));
    }
    parser->depth--;
    return node;
}

/* ---- expressions ----------------------------------------------------------------------------------------------- */

struct expression *expression_parse(const char *text, struct expression_fault *fault) {
    return expression_parse_arrays(text, NULL, fault);
}

struct expression *expression_parse_arrays(const char *text, const struct array_names *names,
                                           struct expression_fault *fault) {
    struct expression *expression = must_zeroed(sizeof *expression);
    struct parser parser = {.text = text, .rest = text, .expression = expression, .fault = fault, .names = names};
    if (strlen(text) > EXPRESSION_BYTES)
        fail_here(&parser, text, "the expression is longer than %d KiB", EXPRESSION_BYTES >> 10);
    else
        expression->root = parse_choice(&parser);
    skip_blanks(&parser);
    if (expression->root && *parser.rest) expression->root = report_operator(&parser, false);
    if (expression->root) return expression;
    expression_free(expression);
    return NULL;
}

void expression_free(struct expression *expression) {
    if (!expression) return;
    for (struct node *node = expression->nodes, *next; node; node = next) {
        next = node->next;
        if (node->kind == NODE_PARAMETER) free(node->name);
        if (node->kind == NODE_VALUE && node->value.kind == SCALAR_TEXT) free((char *)node->value.text);
        free(node);
    }
    free(expression);
}

bool expression_names(const struct expression *expression, int array) {
    for (const struct node *node = expression->nodes; node; node = node->next)
        if (array < 0 ? node->kind == NODE_INDEX : node->kind == NODE_INPUT && node->number == array) return true;
    return false;
}

bool expression_is_operand(const struct expression *expression) {
    return expression->root->kind != NODE_FUNCTION && expression->root->at == 0;
}
