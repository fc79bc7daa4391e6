/* yaml_types.c - types and values of scalars: by YAML 1.2's core schema (section 10.3.2 of its specification), by the
 * tag !!float, and the integer that YAML 1.1 would have read. */
#include "../base/texts.h"
#include "yaml_parts.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The number of digits that a text begins with. */
static size_t count_digits(const char *text) {
    return strspn(text, "0123456789");
}

/* Does the text match [-+]? ( . [0-9]+ | [0-9]+ ( . [0-9]* )? ) ( [eE] [-+]? [0-9]+ )? */
static bool is_decimal_float(const char *text) {
    text += *text == '-' || *text == '+';
    size_t integer = count_digits(text), fraction = 0;
    text += integer;
    if (*text == '.') {
        fraction = count_digits(++text);
        text += fraction;
    }
    if (integer + fraction == 0) return false;
    if (*text == 'e' || *text == 'E') {
        text++;
        text += *text == '-' || *text == '+';
        size_t exponent = count_digits(text);
        if (exponent == 0) return false;
        text += exponent;
    }
    return *text == '\0';
}

/* Reads an integer of the core schema: decimal, 0o octal, 0x hexadecimal. *fits: 64 bits hold it. false: the text is no
 * integer. */
static bool parse_integer(const char *text, int64_t *integer, bool *fits) {
    bool hexadecimal = strncmp(text, "0x", 2) == 0, octal = strncmp(text, "0o", 2) == 0;
    const char *sign_skipped = text + (*text == '-' || *text == '+');
    const char *digits = hexadecimal || octal ? text + 2 : sign_skipped;
    const char *allowed = hexadecimal ? "0123456789abcdefABCDEF" : octal ? "01234567" : "0123456789";
    if (*digits == '\0' || digits[strspn(digits, allowed)] != '\0') return false;
    errno = 0;
    *integer = strtoll(hexadecimal || octal ? digits : text, NULL, hexadecimal ? 16 : octal ? 8 : 10);
    *fits = errno == 0;
    return true;
}

void yaml_resolve_type(struct yaml_node *node) {
    const char *text = node->text;
    bool fits;
    node->kind = YAML_STRING;
    if (node->quoted) return;
    if (IS_ONE_OF(text, "", "~", "null", "Null", "NULL")) {
        node->kind = YAML_NULL;
    } else if (IS_ONE_OF(text, "true", "True", "TRUE", "false", "False", "FALSE")) {
        node->kind = YAML_BOOL;
        node->integer = *text == 't' || *text == 'T';
    } else if (parse_integer(text, &node->integer, &fits)) {
        node->kind = fits ? YAML_INT : YAML_FLOAT;
        node->real = fits ? (double)node->integer : strtod(text, NULL);
    } else if (is_decimal_float(text)) {
        node->kind = YAML_FLOAT;
        node->real = strtod(text, NULL);
    } else if (IS_ONE_OF(text, ".nan", ".NaN", ".NAN")) {
        node->kind = YAML_FLOAT;
        node->real = NAN;
    } else if (IS_ONE_OF(text + (*text == '-' || *text == '+'), ".inf", ".Inf", ".INF")) {
        node->kind = YAML_FLOAT;
        node->real = *text == '-' ? -INFINITY : INFINITY;
    }
}

void yaml_set_real(struct yaml_node *scalar, double real) {
    scalar->kind = YAML_FLOAT;
    scalar->real = real;
}

bool yaml_read_real(struct yaml_node *node) {
    char *end;
    if (node->kind == YAML_FLOAT) return true; /* .inf and .nan, which strtod does not know */
    double real = strtod(node->text, &end);
    if (end == node->text || *end) return false;
    node->quoted = false;
    yaml_set_real(node, real);
    return true;
}

int64_t yaml_octal(const char *text) {
    const char *digits = text + (*text == '-' || *text == '+');
    bool fits, octal = digits[0] == '0' && digits[1 + strspn(digits + 1, "01234567")] == '\0';
    int64_t integer = 0;
    if (octal) return strtoll(text, NULL, 8);
    parse_integer(text, &integer, &fits);
    return integer;
}
