/* job_read.h - reads located YAML nodes into typed fields by the table of keys, and replaces parameters on the way. */
#ifndef RUNNER_JOB_READ_H
#define RUNNER_JOB_READ_H

#include "job_keys.h"
#include "job_sweep.h"

/* The state of reading a job file. */
struct job_reader {
    struct job *job;
    struct yaml_document *document;
    const struct yaml_node *defaults; /* NULL: the job has none */
    struct parameters parameters;
    struct where_conditions conditions; /* `where` */
    /* The combination of swept parameters under which values are read. */
    uint64_t swept; /* the set of swept parameters that may be used here */
    int choice[MAX_PARAMETERS];
    bool failed;      /* a value could not be read since this was last cleared */
    uint64_t unknown; /* the set of parameters for patterns that match no file: their value is a placeholder */
    bool nameless;    /* an operation's id is wrong, which was reported: a name that seems unknown may be it */
    bool lost;        /* an operation reads what is not defined: a parameter that nothing uses may belong there */
    int64_t instance; /* number of the current instance; an error at one position is reported for the first only */
    int seen_count;   /* positions of reported errors */
    struct {
        const struct yaml_source *source;
        int line, column;
        int64_t instance;
    } seen[YAML_MAX_ERRORS];
};

/* Reports an error at a node, with the current combination. It reports each position for one instance only, and a
 * wrong value of a parameter at one position only. Returns false. */
bool job_error(struct job_reader *reader, const struct yaml_node *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Reports that `what` must be `expected`, but is `text` because of its quotes. If the node is a parameter, the error is
 * reported where the parameter's value is written. */
bool job_error_quoted(struct job_reader *reader, const struct yaml_node *where, const char *what, const char *expected,
                      const char *text);

/* Adds a line about a probable slip at a node to the job's remarks, once for all combinations. */
void job_note(struct job_reader *reader, const struct yaml_node *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Reports that `word` is not one of `names`: "unknown WHAT 'word' (did you mean ...?)", or lists the names if they are
 * few. Returns the name that was probably meant; NULL: no name is near. */
const char *job_error_unknown(struct job_reader *reader, const struct yaml_node *where, const char *what,
                              const char *word, const char *const names[], int count);

/* Is the node a map, or a list? Reports another node, which messages call `what`. */
bool job_expect_map(struct job_reader *reader, const struct yaml_node *node, const char *what);
bool job_expect_list(struct job_reader *reader, const struct yaml_node *node, const char *what);

/* Reports keys of `map` that are in none of `scopes` (a set, 1 << SCOPE_), or that do not apply to `kind`. A misspelt
 * key gets the name that is meant, so that its value is read. */
void job_check_keys(struct job_reader *reader, const struct yaml_node *map, unsigned scopes, const char *kind);

/* Reads every key of `scope` that applies to `kind`, except those of type KEY_CUSTOM, into `object`: from `map`, else
 * from `fallback`, else the default. Reports missing and malformed keys. */
void job_read_keys(struct job_reader *reader, enum key_scope scope, const char *kind, const struct yaml_node *map,
                   const struct yaml_node *fallback, void *object);

/* A scalar with its parameters replaced; messages call it `what`. Reports that the node is not a scalar, is empty, or
 * that a parameter cannot be replaced; then sets reader->failed and returns NULL. */
const struct yaml_node *job_read_scalar(struct job_reader *reader, const struct yaml_node *node, const char *what);
/* A copy of a scalar's text, which the caller frees. Reports an empty text, and a number that no parameter gave, and
 * returns NULL. */
char *job_read_text(struct job_reader *reader, const struct yaml_node *node, const char *what);

#endif
