/* expression.h - parses the expressions of job files to trees, and evaluates them for scalars. There is one grammar:
 *
 *     $tile * $tile * 8 <= 49152 and $n >= $tile
 *
 * The operators are Python's, from the loosest: `a if c else b`; `or`; `and`; `not`; comparisons, which may be chained;
 * `+ -`; `* / // %`; unary `+ -`; `**`. The functions are NumPy's (expression_functions.c). An operand is a number, a
 * text in quotes, `true`, `false`, `inf`, `nan`, `pi`, `e`, a parameter, `$name` or `${name}`, or an array.
 *
 * Evaluation follows Python: integers have 64 bits and report overflow, `/` gives a real number, `//` and `%` round
 * towards minus infinity; `and`, `or`, `if` and `where` evaluate only what they need. */
#ifndef RUNNER_EXPRESSION_H
#define RUNNER_EXPRESSION_H

#include <stdbool.h>
#include <stdint.h>

#define EXPRESSION_BYTES 65536 /* longest text */
#define EXPRESSION_DEPTH 200   /* most levels of a tree */

enum scalar_kind { SCALAR_BOOL, SCALAR_INTEGER, SCALAR_REAL, SCALAR_TEXT };

/* A value. `text` belongs to the expression or to the parameter. */
struct scalar {
    enum scalar_kind kind;
    int64_t integer; /* SCALAR_BOOL: 0 or 1; SCALAR_INTEGER */
    double real;     /* SCALAR_REAL */
    const char *text;
};

/* An error in an expression. `at` is its offset in bytes into the expression's text. */
struct expression_fault {
    int at;
    char message[200];
};

struct expression;

/* The arrays that an expression may name; it may then also use `i0`, `i1`, ..., an element's index along each axis. */
struct array_names {
    int count;
    const char *const *names;
};

/* Parses a text, which it copies. Returns NULL, and fills `fault`, if the text is not an expression. The caller frees
 * the tree with expression_free. */
struct expression *expression_parse(const char *text, struct expression_fault *fault);
/* Like expression_parse, but the expression may name arrays. */
struct expression *expression_parse_arrays(const char *text, const struct array_names *names,
                                           struct expression_fault *fault);
void expression_free(struct expression *expression);

/* Does the expression name array number `array`? With `array` -1: does it use an index, `i0`, `i1`, ...? */
bool expression_names(const struct expression *expression, int array);

/* Is the whole expression one operand, without an operator, a function or parentheses? */
bool expression_is_operand(const struct expression *expression);

/* Gives the value of the parameter `name`. Returns false, and fills `message`, if it has none; an empty message: the
 * reason was reported. */
typedef bool expression_lookup(void *context, const char *name, struct scalar *value, char message[200]);
/* Evaluates the tree. Returns false, and fills `fault`, if it has no value. */
bool expression_evaluate(const struct expression *expression, expression_lookup *lookup, void *context,
                         struct scalar *value, struct expression_fault *fault);

/* Evaluates a condition. Returns false, and fills `fault`, if it has no value, or a text, which is neither true nor
 * false. */
bool expression_holds(const struct expression *expression, expression_lookup *lookup, void *context, bool *holds,
                      struct expression_fault *fault);

struct map;

/* Makes a map (kernels/core/map.h) of an expression over arrays. A part without arrays becomes a constant, which
 * expression_evaluate computes. The caller frees the map with map_free. Returns NULL, and fills `fault`, if such a part
 * has no value, or the map has too many nodes. */
struct map *expression_map(const struct expression *expression, const struct array_names *names,
                           expression_lookup *lookup, void *context, struct expression_fault *fault);
void map_free(struct map *map);

/* Is the value, which must not be a text, neither false nor zero? NaN is true, as in Python. */
bool scalar_is_true(const struct scalar *value);
/* Writes a value as text: a real number in the fewest digits that read back as the same number, a whole one without a
 * point. Returns `text`, or the value's own text. */
#define SCALAR_TEXT_BYTES 32
const char *scalar_format(const struct scalar *value, char text[SCALAR_TEXT_BYTES]);

#endif
