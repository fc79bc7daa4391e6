/* job_keys.h - the table of all keys of a job file. One row has a key's name, type, default, allowed values, help and
 * the field that its value goes to. The parser (job_read.c), the JSON schema and the reference (job_schema.c) are
 * generated from it. */
#ifndef RUNNER_JOB_KEYS_H
#define RUNNER_JOB_KEYS_H

#include "job.h"

/* The maps of a job file, each with the structure that it is read into. */
enum key_scope {
    SCOPE_JOB,       /* top level: struct job */
    SCOPE_INPUT,     /* an entry of `inputs`: struct job_input */
    SCOPE_RANDOM,    /* its `random`: struct job_input */
    SCOPE_OPERATION, /* an entry of `operations`: struct job_operation */
    SCOPE_OPTION,    /* ...the operation's own options: struct op_options */
    SCOPE_RESULT,    /* ...and where its result goes: struct job_operation */
    SCOPE_RUN,       /* ...and under `defaults`: struct run_options */
    SCOPE_REPEAT,    /* `repeat` as a map: struct run_options */
    SCOPE_SEARCH,    /* `search` of a variant: struct job_search */
    SCOPE_COUNT
};

enum key_type {
    KEY_CUSTOM, /* a list or map with its own reader in job.c */
    KEY_BOOL,
    KEY_INTEGER,
    KEY_REAL,
    KEY_TEXT,
    KEY_WORD,     /* one of `words`; the field gets its index */
    KEY_OP,       /* the name of an operation */
    KEY_OPERATOR, /* the name of an operator of the key's operation */
    KEY_DTYPE,    /* the name of a data type */
    KEY_SHAPE,    /* 1 to 8 sizes of at least `low` */
    KEY_ROWS,     /* [first, count] */
    KEY_SELECT,   /* one entry for each axis: an index or first:end:step */
    KEY_AXIS,     /* an integer, several, or `all` */
    KEY_AXES,     /* axes in a new order */
    KEY_NUMBERS,  /* a number, or a list of them: struct job_missing */
    KEY_FRACTION, /* 0.01 or 1% */
    KEY_DURATION, /* 90s, 10min, or `none`, which is INFINITY: seconds */
    KEY_REPEAT,   /* a number, or a map of SCOPE_REPEAT */
    KEY_DEVICE,
    KEY_MEMORY,
    KEY_EXPRESSION, /* over arrays; job_expression.c reads it: struct map */
    KEY_TO,         /* FILE:/GROUP/NAME; job_to.c reads it */
    KEY_TYPE_COUNT
};

struct job_key {
    enum key_scope scope;
    const char *name;
    enum key_type type;
    const char *standard;          /* the default, as text; "": optional without a default; NULL: required */
    const char *const *words;      /* KEY_WORD: the allowed words; ends at NULL */
    const char *const *applies_to; /* the operations, distributions or kinds of input that have this key; NULL: all */
    double low, high;              /* KEY_INTEGER, KEY_REAL, KEY_SHAPE: the range */
    size_t offset, size;           /* of the field in its structure */
    bool harmless;                 /* a change of it leaves finished runs valid */
    const char *help;
};

extern const struct job_key job_keys[];
extern const int job_key_count;

/* Does the key apply to `kind`, an operation, distribution or kind of input? NULL: not known yet, true. */
bool key_applies(const struct job_key *key, const char *kind);

/* Lists the words that a key of type KEY_WORD, KEY_OP, KEY_OPERATOR or KEY_DTYPE allows. Returns their number. */
#define KEY_MAX_WORDS 16
int key_words(const struct job_key *key, const char *words[KEY_MAX_WORDS]);

/* Is `word` one of the key's words? */
bool key_allows(const struct job_key *key, const char *word);
/* The key of that name, which must exist. */
const struct job_key *key_find(enum key_scope scope, const char *name);

/* The name of a type in messages and in the reference: "an integer". */
extern const char *const key_type_name[KEY_TYPE_COUNT];

#endif
