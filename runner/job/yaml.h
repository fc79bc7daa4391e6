/* yaml.h - a YAML document as a tree whose nodes know their line and column; the only module that includes <yaml.h>.
 *
 * Scalars are text with the type that YAML 1.2's core schema gives them (`yes` and `on` are strings). An alias shares
 * the node that it refers to, merge keys (`<<`) are resolved, keys that begin with `x-` are ignored. All errors are
 * collected in one list with their positions, so that a file's errors are reported together. */
#ifndef RUNNER_YAML_H
#define RUNNER_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum yaml_kind { YAML_NULL, YAML_BOOL, YAML_INT, YAML_FLOAT, YAML_STRING, YAML_LIST, YAML_MAP };

struct yaml_source; /* the file that a node comes from */

struct yaml_node {
    enum yaml_kind kind;
    const struct yaml_source *source;
    int line, column;         /* from 1, in characters; where the node begins */
    char *text;               /* scalars: as written, quotes and escapes resolved; else NULL */
    bool quoted;              /* scalars: it was quoted, so it is a string */
    bool replaced;            /* scalars: yaml_set_text has set the text */
    bool wrong;               /* a reported mistake: a scalar's value is unknown, a map has an unknown key */
    int64_t integer;          /* YAML_INT; YAML_BOOL: 0 or 1 */
    double real;              /* YAML_FLOAT, YAML_INT */
    int count;                /* entries of a list or map */
    struct yaml_node **keys;  /* maps: count scalars, no two alike */
    struct yaml_node **items; /* lists and maps: count nodes, owned by the document */
};

struct yaml_document; /* owns the nodes, the file's text and the errors */

#define YAML_MAX_BYTES    (16 << 20)
#define YAML_MAX_DEPTH    64
#define YAML_MAX_NODES    100000 /* after aliases are expanded */
#define YAML_MAX_INCLUDES 256    /* included files of a document; one that is named twice counts twice */
#define YAML_MAX_ERRORS   50     /* further ones are only counted */

#define YAML_STDIN "<stdin>" /* as a path: the standard input */

/* Reads and parses the file `path`, which messages show as given. Never returns NULL: if the file cannot be read or
 * parsed, the document has an error, and its root may be NULL. */
struct yaml_document *yaml_load(const char *path);
/* Like yaml_load, but parses a copy of a text in memory, which messages call `name`. */
struct yaml_document *yaml_parse(const char *name, const char *text, size_t length);
void yaml_close(struct yaml_document *document); /* not yaml_free: libyaml exports one */

/* ---- reading ---- */

struct yaml_node *yaml_root(const struct yaml_document *document);
/* The file's text, unchanged. */
const char *yaml_text(const struct yaml_document *document, size_t *length);
/* The value of `key` in a map; NULL: the map lacks the key, or is NULL or no map. */
struct yaml_node *yaml_get(const struct yaml_node *map, const char *key);
/* The node of the key itself; NULL as yaml_get. */
const struct yaml_node *yaml_key(const struct yaml_node *map, const char *key);
/* The value that an integer of YAML 1.2 has in YAML 1.1, where 010 is 8. */
int64_t yaml_octal(const char *text);
/* Where a node is: "job.yaml:12:16". The caller frees. */
char *yaml_place(const struct yaml_document *document, const struct yaml_node *node);
/* Does the file hold a scalar's text, letter for letter, where the scalar begins? */
bool yaml_is_verbatim(const struct yaml_document *document, const struct yaml_node *scalar);

/* ---- making and changing nodes ---- */

/* A new scalar, which the document owns, with the type that this text would have in a file and the position of `where`.
 * NULL: it has no position. */
struct yaml_node *yaml_scalar(struct yaml_document *document, const struct yaml_node *where, const char *text,
                              bool quoted);
/* Parses a text as one YAML value, whose nodes the document owns; they have no position. NULL: the text is not YAML,
 * which is not reported. */
const struct yaml_node *yaml_value(struct yaml_document *document, const char *text);
/* Reads another file, whose nodes the document then owns, and returns its root. NULL: it could not be read, or is not
 * YAML. Errors are reported at `where`, or in that file. */
struct yaml_node *yaml_include(struct yaml_document *document, const struct yaml_node *where, const char *path);
/* Adds the entries of `more` to a map, before its own. If both have a key, the map keeps its own value; if both values
 * are maps, they are merged recursively. */
void yaml_merge(struct yaml_node *map, const struct yaml_node *more);
/* Marks a scalar whose value is unknown, or a map with an unknown key, so that consequences are not reported. */
void yaml_set_wrong(const struct yaml_node *node);
/* Makes a scalar a real number, whatever its text: the `2` that `$n / 2` gives. */
void yaml_set_real(struct yaml_node *scalar, double real);
/* Replaces a scalar's text; its type is then that of the new text, also if it was quoted. */
void yaml_set_text(struct yaml_node *scalar, const char *text);

/* Sets a map's key to a new scalar with the position of `where`, if that is not NULL. */
void yaml_set(struct yaml_document *document, const struct yaml_node *where, struct yaml_node *map, const char *key,
              const char *text);

/* ---- errors ---- */

/* Adds an error at a node (NULL: about the file as a whole), unless the same text was added there. Returns false, as do
 * yaml_error_at and yaml_error_inside. */
bool yaml_error(struct yaml_document *document, const struct yaml_node *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds an error at a position in the document's own file. */
bool yaml_error_at(struct yaml_document *document, int line, int column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Adds an error at the byte `offset` of a scalar's text, wherever escapes and line breaks put it in the file. */
bool yaml_error_inside(struct yaml_document *document, const struct yaml_node *where, int offset, const char *format,
                       ...) __attribute__((format(printf, 4, 5)));
/* Was an error reported at this node? */
bool yaml_has_error(const struct yaml_document *document, const struct yaml_node *where);
/* Was an error with this beginning reported anywhere? */
bool yaml_has_message(const struct yaml_document *document, const char *beginning);
/* The number of errors; 0: the document is valid. */
int yaml_error_count(const struct yaml_document *document);
/* Prints all errors in the order of the file:
 *     job.yaml:12:16: unknown variant 'tild' of matmul (did you mean 'tiled'?)
 *        12 |     variants: [tild]
 *           |                ^ */
void yaml_print_errors(const struct yaml_document *document, FILE *to);

/* ---- hints ---- */

/* A hint that text after ' #' is a comment, if a comment follows this scalar on its line and the scalar is not quoted;
 * else "". */
const char *yaml_comment_hint(const struct yaml_document *document, const struct yaml_node *scalar);
/* Does a text begin with a key and a colon that no space follows? */
bool yaml_lacks_space(const char *text);
/* Does a text begin with a key and the full-width colon, U+FF1A? */
bool yaml_has_wide_colon(const char *text);
#define YAML_WIDE_COLON ": its colon is the full-width '\uff1a'; write ': '"
/* A hint about a text that is not what is expected: that `yes` is no truth value, where expressions stand; "": there is
 * none. */
const char *yaml_value_hint(const char *text, const char *expected);

#endif
