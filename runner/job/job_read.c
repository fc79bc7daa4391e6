/* job_read.c - reads values of each type in the table of keys. */
#include "job_read.h"

#include "../base/fail.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors in a value ----------------------------------------------------------------------------------------- */

static const char *kind_name(const struct yaml_node *node) {
    static const char *const names[] = {
        [YAML_NULL] = "nothing", [YAML_BOOL] = "a boolean", [YAML_INT] = "an integer", [YAML_FLOAT] = "a number",
        [YAML_STRING] = "text",  [YAML_LIST] = "a list",    [YAML_MAP] = "a map"};
    return names[node->kind];
}

/* Reports at `where` that `value`, with parameters replaced, is not what is expected. Returns false. */
static bool report_wrong_value(struct job_reader *reader, const struct yaml_node *where, const struct yaml_node *value,
                               const char *what, const char *expected) {
    const struct yaml_node *plain = value->quoted ? yaml_scalar(reader->document, where, value->text, false) : value;
    bool axis = strcmp(what, "axis") == 0 || strcmp(what, "axes") == 0 || strcmp(what, "concatenate") == 0;
    if (where->wrong)
        reader->failed = true;
    else if (plain->kind != value->kind)
        job_error_quoted(reader, where, what, expected, value->text);
    else if (value->text && value->kind != YAML_NULL)
        job_error(reader, where, "'%s' must be %s, not '%s'%s", what, expected, value->text,
                  axis ? ": axes are numbered from 0, as `tilerun inspect FILE` lists them"
                       : yaml_value_hint(value->text, expected));
    else
        job_error(reader, where, "'%s' must be %s, not %s", what, expected, kind_name(value));
    return false;
}

/* Reports that a node is not what is expected. Returns false. */
static bool report_wrong(struct job_reader *reader, const struct yaml_node *node, const char *what,
                         const char *expected) {
    return report_wrong_value(reader, node, node, what, expected);
}

bool job_expect_map(struct job_reader *reader, const struct yaml_node *node, const char *what) {
    return node->kind == YAML_MAP || report_wrong(reader, node, what, "a map");
}

bool job_expect_list(struct job_reader *reader, const struct yaml_node *node, const char *what) {
    return node->kind == YAML_LIST || report_wrong(reader, node, what, "a list");
}

/* ---- scalars --------------------------------------------------------------------------------------------------- */

const struct yaml_node *job_read_scalar(struct job_reader *reader, const struct yaml_node *node, const char *what) {
    if (node->wrong) return reader->failed = true, NULL;
    if (!node->text || node->kind == YAML_NULL) {
        report_wrong(reader, node, what, "a single value");
        return NULL;
    }
    if (parameters_used(&reader->parameters, node) & reader->parameters.swept & ~reader->swept) {
        job_error(reader, node, "'%s' cannot change with a swept parameter", what);
        return NULL;
    }
    const struct yaml_node *value = parameters_replace(&reader->parameters, node, reader->choice);
    reader->failed |= !value;
    return value;
}

char *job_read_text(struct job_reader *reader, const struct yaml_node *node, const char *what) {
    if (!node->text) {
        report_wrong(reader, node, what, "text");
        return NULL;
    }
    const struct yaml_node *value = job_read_scalar(reader, node, what);
    if (!value) return NULL;
    if (value == node && node->kind != YAML_STRING && !node->replaced) {
        job_error(reader, node, "'%s' must be text, not %s: write \"%s\"", what, kind_name(node), node->text);
        return NULL;
    }
    if (*value->text) return must_strdup(value->text);
    job_error(reader, node, "'%s' must not be empty", what);
    return NULL;
}

/* Reads an integer, also one written 1e3 or computed as 1000.0. Reports another value, one out of bounds, or one that
 * YAML 1.1 would read as another number in octal, and returns false. */
static bool read_integer(struct job_reader *reader, const struct yaml_node *node, const char *what, double low,
                         double high, int64_t *integer) {
    if (!node->text || node->kind == YAML_NULL) return report_wrong(reader, node, what, "an integer");
    const struct yaml_node *value = job_read_scalar(reader, node, what);
    if (!value) return false;
    bool digits = !value->text[strspn(value->text, "+-0123456789")];
    if (value->kind == YAML_FLOAT && digits && fabs(value->real) >= 0x1p63)
        return job_error(reader, node, "'%s' does not fit into signed 64 bits: %s", what, value->text);
    bool is_integral = value->kind == YAML_FLOAT && (digits || strpbrk(value->text, "eE")) &&
                       fabs(value->real) <= 0x1p53 && value->real == floor(value->real);
    if (value->kind != YAML_INT && !is_integral) return report_wrong_value(reader, node, value, what, "an integer");
    int64_t octal = yaml_octal(value->text);
    if (value->kind == YAML_INT && octal != value->integer)
        return job_error(reader, node,
                         "'%s' is ambiguous: %s is %lld in YAML 1.2 and %lld in YAML 1.1; write the one that is meant",
                         what, value->text, (long long)value->integer, (long long)octal);
    *integer = is_integral ? (int64_t)value->real : value->integer; /* 1e3 is 1000, and `$n / 2` too */
    if (value->real < low)
        job_error(reader, node, "'%s' must be at least %.0f, not %s", what, low, value->text);
    else if (value->real > high)
        job_error(reader, node, "'%s' must be at most %.0f, not %s", what, high, value->text);
    return value->real >= low && value->real <= high;
}

/* Is the value an integer, written with digits only, that float64 cannot represent exactly? An integer of more than 64
 * bits in another base counts as one. */
static bool is_inexact_integer(const struct yaml_node *value) {
    const char *text = value->text + strspn(value->text, "+-");
    if (value->kind == YAML_INT) return value->real >= 0x1p63 || (int64_t)value->real != value->integer;
    if (strncmp(text, "0x", 2) == 0 || strncmp(text, "0o", 2) == 0) return true; /* more than 64 bits */
    if (text[strspn(text, "0123456789")]) return false;
    char digits[400]; /* of the largest double, which has 309, and more */
    snprintf(digits, sizeof digits, "%.0f", fabs(value->real));
    while (*text == '0' && text[1]) text++;
    return strcmp(digits, text) != 0;
}

/* Reads a finite number of at least `low`. Reports another value and returns false. */
static bool read_real(struct job_reader *reader, const struct yaml_node *node, const char *what, double low,
                      double *real) {
    if (!node->text || node->kind == YAML_NULL) return report_wrong(reader, node, what, "a number");
    const struct yaml_node *value = job_read_scalar(reader, node, what);
    if (!value) return false;
    if (value->kind != YAML_INT && value->kind != YAML_FLOAT)
        return report_wrong_value(reader, node, value, what, "a number");
    if (!isfinite(value->real)) return report_wrong_value(reader, node, value, what, "a finite number");
    if (is_inexact_integer(value))
        return job_error(reader, node, "'%s' is stored as float64, which cannot represent %s exactly", what,
                         value->text);
    *real = value->real;
    if (!(*real < low)) return true;
    return job_error(reader, node, "'%s' must be at least %g, not %s", what, low, value->text);
}

/* Reads a number between 0 and 1, or a percentage. Reports another value and returns false. */
static bool read_fraction(struct job_reader *reader, const struct yaml_node *node, const char *what, double *fraction) {
    if (!node->text || node->kind == YAML_NULL) return report_wrong(reader, node, what, "a number or a percentage");
    const struct yaml_node *value = job_read_scalar(reader, node, what);
    if (!value) return false;
    char *end;
    bool percent = strchr(value->text, '%') != NULL;
    *fraction = percent ? strtod(value->text, &end) / 100 : value->real;
    bool number =
        percent ? end > value->text && strcmp(end, "%") == 0 : value->kind == YAML_INT || value->kind == YAML_FLOAT;
    if (!number) return report_wrong_value(reader, node, value, what, "a number or a percentage");
    if (*fraction > 0 && *fraction < 1) return true;
    char hint[128];
    snprintf(hint, sizeof hint, "between 0 and 1, or between 0%% and 100%% (did you mean %g%%?)", *fraction);
    if (!percent && *fraction >= 1 && *fraction < 100) return report_wrong_value(reader, node, value, what, hint);
    return report_wrong_value(reader, node, value, what, "between 0 and 1, or between 0% and 100%");
}

/* Reads one of a key's words, as its index. Reports any other word; returns true even then if it is a misspelt `op`. */
static bool read_word(struct job_reader *reader, const struct job_key *key, const struct yaml_node *node,
                      int64_t *index) {
    const char *words[KEY_MAX_WORDS];
    int count = key_words(key, words);
    const struct yaml_node *value = job_read_scalar(reader, node, key->name);
    if (!value) return false;
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], value->text) == 0) return *index = i, true;
    char value_of[64];
    snprintf(value_of, sizeof value_of, "value of '%s':", key->name);
    const char *what = key->type == KEY_DTYPE ? "data type" : key->type == KEY_OP ? "operation" : value_of;
    if (key->type == KEY_OP && key_allows(key_find(SCOPE_OPTION, "operator"), value->text)) {
        job_error(reader, node, "'%s' is an operator: write op: reduce, operator: %s", value->text, value->text);
        return *index = OP_REDUCE, true;
    }
    const char *meant = job_error_unknown(reader, node, what, value->text, words, count);
    if (key->type != KEY_OP) return false;
    for (int i = 0; i < count && meant; i++) /* the other keys are read as those of the operation that is meant */
        if (words[i] == meant) *index = i;
    return meant != NULL;
}

/* ---- lists and maps -------------------------------------------------------------------------------------------- */

/* From here on, a function read_X stores an X into its last argument, or reports what is wrong. */

/* Reads integer number `i` of a list, which messages call 'shape[0]', for example. */
static bool read_item(struct job_reader *reader, const struct yaml_node *list, int i, const struct job_key *key,
                      double low, int64_t *integer) {
    char name[64];
    snprintf(name, sizeof name, "%s[%d]", key->name, i);
    return read_integer(reader, list->items[i], name, low, 0x1p62, integer);
}

/* Reads a list of one to MAX_RANK sizes of at least key->low. */
static void read_shape(struct job_reader *reader, const struct job_key *key, const struct yaml_node *node,
                       struct shape *shape) {
    if (!job_expect_list(reader, node, key->name)) return;
    if (node->count < 1 || node->count > MAX_RANK) {
        job_error(reader, node, "'%s' must have 1 to %d sizes, not %d", key->name, MAX_RANK, node->count);
        return;
    }
    struct shape read = {.rank = node->count};
    for (int i = 0; i < node->count; i++)
        if (!read_item(reader, node, i, key, key->low, &read.size[i])) return;
    if (shape_countable(&read))
        *shape = read;
    else
        job_error(reader, node, "'%s' has more elements than 64 bits can count", key->name);
}

/* Reads `rows`, [first, count]. */
static void read_rows(struct job_reader *reader, const struct job_key *key, const struct yaml_node *node,
                      int64_t rows[2]) {
    if (node->kind != YAML_LIST) {
        report_wrong(reader, node, key->name, "a list, [first, count]");
        return;
    }
    if (node->count != 2) {
        job_error(reader, node, "'%s' must be [first, count]", key->name);
        return;
    }
    for (int i = 0; i < 2; i++) read_item(reader, node, i, key, 0, &rows[i]);
}

/* Reads an entry of `select`. */
static void read_slice(struct job_reader *reader, const struct yaml_node *node, struct job_slice *slice) {
    if (node->kind == YAML_LIST) {
        job_error(
            reader, node,
            "'select' must be an index or a slice for each axis, not a list of indices: write \"first:end:step\"");
        return;
    }
    const struct yaml_node *value = job_read_scalar(reader, node, "select");
    if (!value) return;
    if (!job_parse_slice(value->text, slice))
        job_error(reader, node,
                  "'select' must be an index or a slice such as \"0:100\" or \"::2\" for each axis, not '%s'",
                  value->text);
    else if (slice->step < 1)
        job_error(reader, node, "'select' must have steps of at least 1, not %lld", (long long)slice->step);
}

/* Reads `select`, an entry for each axis. */
static void read_select(struct job_reader *reader, const struct yaml_node *node, struct job_select *select) {
    if (!job_expect_list(reader, node, "select")) return;
    if (node->count < 1 || node->count > MAX_RANK) {
        job_error(reader, node, "'select' must have an entry for each axis, 1 to %d, not %d", MAX_RANK, node->count);
        return;
    }
    select->where = node;
    select->rank = node->count;
    for (int i = 0; i < node->count; i++) read_slice(reader, node->items[i], &select->slices[i]);
}

/* Reads a number that stays exact if it is an integer of 64 bits. */
static void read_job_number(struct job_reader *reader, const struct yaml_node *node, const char *what,
                            struct job_number *number) {
    const struct yaml_node *value = node->text ? job_read_scalar(reader, node, what) : NULL;
    number->is_integer = value && value->kind == YAML_INT;
    if (number->is_integer)
        *number = (struct job_number){true, value->integer, value->real};
    else
        read_real(reader, node, what, -DBL_MAX, &number->real);
}

/* Reads `missing`: a number, or a list of up to JOB_MAX_MISSING. */
static void read_numbers(struct job_reader *reader, const struct yaml_node *node, const char *what,
                         struct job_missing *missing) {
    int count = node->kind == YAML_LIST ? node->count : 1;
    if (count < 1 || count > JOB_MAX_MISSING) {
        job_error(reader, node, "'%s' must have 1 to %d numbers, not %d", what, JOB_MAX_MISSING, count);
        return;
    }
    for (int i = 0; i < count; i++)
        read_job_number(reader, node->kind == YAML_LIST ? node->items[i] : node, what, &missing->numbers[i]);
    missing->count = count;
}

/* Reads `repeat`: a number, or a map {min, max, until}. */
static void read_repeat(struct job_reader *reader, const struct yaml_node *node, struct run_options *run) {
    run->repeat_until = 0;
    if (node->kind != YAML_MAP) {
        if (node->kind == YAML_LIST)
            report_wrong(reader, node, "repeat", "an integer or a map {min, max, until}");
        else if (read_integer(reader, node, "repeat", 1, 1e9, &run->repeat_min))
            run->repeat_max = run->repeat_min;
        return;
    }
    job_check_keys(reader, node, 1u << SCOPE_REPEAT, NULL);
    job_read_keys(reader, SCOPE_REPEAT, NULL, node, NULL, run);
    if (!node->wrong && run->repeat_max > 0 && run->repeat_max < run->repeat_min)
        job_error(reader, node, "'max' (%lld) is less than 'min' (%lld)", (long long)run->repeat_max,
                  (long long)run->repeat_min);
}

/* Reads a list of one to KERNEL_AXES axes. */
static void read_axes(struct job_reader *reader, const struct yaml_node *node, const char *what,
                      struct op_options *options) {
    int64_t axis = 0;
    if (!job_expect_list(reader, node, what)) return;
    if (node->count < 1 || node->count > KERNEL_AXES) {
        job_error(reader, node, "'%s' must name 1 to %d axes, not %d", what, KERNEL_AXES, node->count);
        return;
    }
    for (int i = 0; i < node->count; i++) {
        if (!read_integer(reader, node->items[i], what, -MAX_RANK, MAX_RANK - 1, &axis)) return;
        options->axes[i] = (int)axis;
    }
    options->axis_count = node->count;
}

/* Reads `axis`. A list of one axis means that axis. */
static void read_axis(struct job_reader *reader, const struct yaml_node *node, struct op_options *options) {
    if (node->kind == YAML_LIST && node->count != 1) {
        read_axes(reader, node, "axis", options);
        return;
    }
    if (node->kind == YAML_LIST) node = node->items[0];
    int *axis = &options->axis;
    int64_t integer = 0;
    const struct yaml_node *value = node->text ? job_read_scalar(reader, node, "axis") : NULL;
    if (node->text && !value) return;
    if (value && strcmp(value->text, "all") == 0)
        *axis = REDUCE_ALL_AXES;
    else if (!value || (value->kind != YAML_INT && value->kind != YAML_FLOAT))
        report_wrong_value(reader, node, value ? value : node, "axis", "an integer or 'all'");
    else if (read_integer(reader, node, "axis", -MAX_RANK, MAX_RANK - 1, &integer))
        *axis = (int)integer;
}

/* Reads `device`: one, or a list of them. */
static void read_device(struct job_reader *reader, const struct yaml_node *node, struct job *job) {
    struct error wrong = {.status = STATUS_OK};
    OWNED char *joined = must_strdup("");
    for (int i = 0; i < (node->kind == YAML_LIST ? node->count : 1); i++) {
        const struct yaml_node *item = node->kind == YAML_LIST ? node->items[i] : node;
        const struct yaml_node *value = job_read_scalar(reader, item, "device");
        if (!value) return;
        must_append(&joined, "%s%s", i ? "," : "", value->text);
    }
    if (job_parse_device(joined, job, &wrong)) job_error(reader, node, "%s", wrong.text);
}

static void read_duration(struct job_reader *reader, const struct yaml_node *node, const char *what, double *seconds) {
    struct error wrong = {.status = STATUS_OK};
    const struct yaml_node *value = job_read_scalar(reader, node, what);
    if (value && job_parse_duration(value->text, seconds, &wrong)) job_error(reader, node, "%s", wrong.text);
}

/* Reads `memory`: bytes, or a size with a unit. */
static void read_memory(struct job_reader *reader, const struct yaml_node *node, struct job *job) {
    struct error wrong = {.status = STATUS_OK};
    const struct yaml_node *value = job_read_scalar(reader, node, "memory");
    if (!value) return;
    OWNED char *text =
        value->kind == YAML_INT ? must_printf("%lld", (long long)value->integer) : must_strdup(value->text);
    if (job_parse_memory(text, &job->memory_bytes, &job->memory_fraction, &wrong))
        job_error(reader, node, "%s", wrong.text);
}

/* ---- keys ------------------------------------------------------------------------------------------------------ */

/* Stores an index, a boolean or an integer into a field of any width. */
static void store_integer(void *field, size_t size, int64_t integer) {
    switch (size) {
    case sizeof(bool): *(bool *)field = integer != 0; break;
    case sizeof(int): *(int *)field = (int)integer; break;
    default: *(int64_t *)field = integer;
    }
}

/* Reads the value of a key into its member of `object`, or reports what is wrong with it. */
static void read_value(struct job_reader *reader, const struct job_key *key, const struct yaml_node *node,
                       void *object) {
    void *field = (char *)object + key->offset;
    int64_t integer = 0;
    switch (key->type) {
    case KEY_BOOL: {
        const struct yaml_node *value = job_read_scalar(reader, node, key->name);
        if (value && value->kind != YAML_BOOL)
            report_wrong_value(reader, node, value, key->name, "true or false");
        else if (value)
            store_integer(field, key->size, value->integer);
        break;
    }
    case KEY_INTEGER:
        if (read_integer(reader, node, key->name, key->low, key->high, &integer))
            store_integer(field, key->size, integer);
        break;
    case KEY_WORD:
    case KEY_OP:
    case KEY_OPERATOR:
    case KEY_DTYPE:
        if (read_word(reader, key, node, &integer)) store_integer(field, key->size, integer);
        break;
    case KEY_TEXT: *(char **)field = job_read_text(reader, node, key->name); break;
    case KEY_REAL: read_real(reader, node, key->name, key->low, field); break;
    case KEY_FRACTION: read_fraction(reader, node, key->name, field); break;
    case KEY_SHAPE: read_shape(reader, key, node, field); break;
    case KEY_ROWS: read_rows(reader, key, node, field); break;
    case KEY_SELECT: read_select(reader, node, field); break;
    case KEY_AXIS: read_axis(reader, node, object); break;
    case KEY_AXES: read_axes(reader, node, key->name, object); break;
    case KEY_NUMBERS: read_numbers(reader, node, key->name, field); break;
    case KEY_REPEAT: read_repeat(reader, node, object); break;
    case KEY_DURATION: read_duration(reader, node, key->name, field); break;
    case KEY_DEVICE: read_device(reader, node, object); break;
    case KEY_MEMORY: read_memory(reader, node, object); break;
    default: break; /* another reader reads it */
    }
}

void job_read_keys(struct job_reader *reader, enum key_scope scope, const char *kind, const struct yaml_node *map,
                   const struct yaml_node *fallback, void *object) {
    for (int i = 0; i < job_key_count; i++) {
        const struct job_key *key = &job_keys[i];
        if (key->scope != scope || !key_applies(key, kind)) continue;
        const struct yaml_node *node = yaml_get(map, key->name);
        if (!node) node = yaml_get(fallback, key->name);
        bool hidden = map->wrong || (reader->parameters.incomplete && map == yaml_root(reader->document));
        if (!node && !key->standard && !hidden) job_error(reader, map, "'%s' is missing", key->name);
        if (!node && key->standard && *key->standard && key->type != KEY_CUSTOM)
            node = yaml_scalar(reader->document, map, key->standard, false);
        if (node) read_value(reader, key, node, object);
    }
}
