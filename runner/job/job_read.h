/* job_read.h - from located nodes to typed fields, by the table of keys; parameters are replaced on the way. */
#ifndef RUNNER_JOB_READ_H
#define RUNNER_JOB_READ_H

#include "job_keys.h"
#include "job_parameters.h"

/* What a job file's reader knows while it reads. */
struct reader {
    struct job *job;
    struct yaml_document *document;
    struct parameters parameters;
    /* The combination of swept parameters under which values are read. */
    uint64_t swept; /* the set that may be used here */
    int choice[MAX_PARAMETERS];
    int64_t instance; /* counts what is expanded; a place wrong in several instances is reported for the first */
    int seen_count;
    struct {
        int line, column;
        int64_t instance;
    } seen[YAML_MAX_ERRORS];
};

/* Complains at a node, naming the combination; once a place for all combinations. */
void reader_error(struct reader *reader, const struct yaml_node *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Complains that `word` is not one of `names`: "unknown WHAT 'word' (did you mean ...?)", or lists them when few. */
void reader_unknown(struct reader *reader, const struct yaml_node *where, const char *what, const char *word,
                    const char *const names[], int count);

/* Is it a map? Complains. */
bool reader_is_map(struct reader *reader, const struct yaml_node *node, const char *what);
bool reader_is_list(struct reader *reader, const struct yaml_node *node, const char *what);

/* Complains about keys of `map` that are in none of `scopes` (a set, 1 << SCOPE_), or that `kind` does not know. */
void reader_check_keys(struct reader *reader, const struct yaml_node *map, unsigned scopes, const char *kind);

/* Reads every key of `scope` that applies to `kind`, but those of type KEY_PART, into `object`: out of `map`, else out
 * of `fallback`, else the default. Complains about what is missing or malformed. */
void reader_read_keys(struct reader *reader, enum key_scope scope, const char *kind, const struct yaml_node *map,
                      const struct yaml_node *fallback, void *object);

/* A scalar's value, parameters replaced. NULL: it is not a scalar, empty, or a parameter cannot be replaced
 * (complained). */
const struct yaml_node *reader_scalar(struct reader *reader, const struct yaml_node *node, const char *what);
/* A copy of a scalar's text, that the caller frees. NULL: complained. A number where text should be is a mistake,
 * unless a parameter put it there. */
char *reader_text(struct reader *reader, const struct yaml_node *node, const char *what);

/* A letter or '_', then letters, digits, '_', '-'. */
bool is_identifier(const char *text);

#endif
