/* yaml.h - a YAML document as a tree whose nodes know their line and column; the only module that includes <yaml.h>.
 *
 * Scalars are kept as text with the type that YAML 1.2's core schema gives them (`yes` and `on` are strings). Aliases
 * share the node they name, merge keys (`<<`) are resolved, keys that begin with `x-` are left out. All that is wrong
 * is collected in one list of located complaints, so that a file's errors are reported together. */
#ifndef RUNNER_YAML_H
#define RUNNER_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum yaml_kind { YAML_NULL, YAML_BOOL, YAML_INT, YAML_FLOAT, YAML_STRING, YAML_LIST, YAML_MAP };

struct yaml_node {
    enum yaml_kind kind;
    int line, column;         /* from 1, in characters; where the node begins */
    char *text;               /* scalars: as written, quotes and escapes resolved; else NULL */
    bool quoted;              /* scalars: was it quoted (then it is a string whatever it looks like) */
    int64_t integer;          /* YAML_INT; YAML_BOOL: 0 or 1 */
    double real;              /* YAML_FLOAT, YAML_INT */
    int count;                /* entries of a list or map */
    struct yaml_node **keys;  /* maps: count scalars, no two alike */
    struct yaml_node **items; /* lists and maps: count nodes, owned by the document */
};

struct yaml_document; /* owns the nodes, the file's text and the complaints */

#define YAML_MAX_BYTES  (16 << 20)
#define YAML_MAX_DEPTH  64
#define YAML_MAX_NODES  100000 /* after aliases are expanded */
#define YAML_MAX_ERRORS 50     /* further ones are counted, not kept */

/* Reads and parses `path` (as given: it is what messages show). Never NULL: what cannot be read or parsed is a
 * complaint, and the root may then be NULL. */
struct yaml_document *yaml_load(const char *path);
/* The same for text in memory, that messages call `name`. The text is copied. */
struct yaml_document *yaml_parse(const char *name, const char *text, size_t length);
void yaml_close(struct yaml_document *document); /* not yaml_free: libyaml exports one */

const struct yaml_node *yaml_root(const struct yaml_document *document);
/* The file, byte for byte. */
const char *yaml_text(const struct yaml_document *document, size_t *length);
/* The value of `key` in a map; NULL: absent (or not a map). */
const struct yaml_node *yaml_get(const struct yaml_node *map, const char *key);
/* A new scalar that the document owns, typed as the same text in a file would be; placed where `where` is (NULL:
 * nowhere). */
const struct yaml_node *yaml_scalar(struct yaml_document *document, const struct yaml_node *where, const char *text,
                                    bool quoted);

/* Gives a map's key a scalar without a place, instead of the value that it has, if any. */
void yaml_set(struct yaml_document *document, const struct yaml_node *map, const char *key, const char *text);

/* Adds a complaint at a node (NULL: about the file as a whole). */
void yaml_error(struct yaml_document *document, const struct yaml_node *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void yaml_error_at(struct yaml_document *document, int line, int column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int yaml_error_count(const struct yaml_document *document);
/* Prints all complaints in the order of the file:
 *     job.yaml:12:16: unknown variant 'tild' of matmul (did you mean 'tiled'?)
 *        12 |     variants: [tild]
 *           |                ^ */
void yaml_print_errors(const struct yaml_document *document, FILE *to);

#endif
