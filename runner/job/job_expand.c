/* job_expand.c - reads inputs and operations under each combination of swept parameters. */
#include "job_parts.h"

#include "../base/fail.h"
#include "../base/match.h"
#include "../base/path.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct yaml_node *job_value(const struct yaml_node *map, const char *key, int item,
                                  const struct yaml_node *where) {
    const struct yaml_node *value = yaml_get(map, key);
    if (!value) return where;
    return value->kind == YAML_LIST && item >= 0 && item < value->count ? value->items[item] : value;
}

/* ---- inputs ---------------------------------------------------------------------------------------------------- */

/* Reports a data type that cannot hold the values of the distribution. The default range, [0, 1), is allowed for
 * integers too: all their values are then 0. */
static void check_terms(struct job_reader *reader, const struct yaml_node *random, const struct job_input *input) {
    char message[256];
    bool standard =
        input->terms.distribution == RANDOM_UNIFORM && !yaml_get(random, "low") && !yaml_get(random, "high");
    const char *term = standard ? NULL : random_unfit(&input->terms, input->dtype, &input->shape, message);
    const struct yaml_node *where = term ? yaml_get(random, term) : NULL;
    if (term) job_error(reader, where ? where : random, "%s", message);
    if (standard && !dtype_is_float(input->dtype))
        job_note(reader, random, "integers from 0 to below 1 are all 0: give 'high', or `distribution: integer`");
}

/* Reads an input's map `random`. Reports keys that its distribution does not have. */
static void read_random(struct job_reader *reader, const struct yaml_node *random, struct job_input *input) {
    if (!job_expect_map(reader, random, "random")) return;
    const struct yaml_node *node = yaml_get(random, "distribution");
    const struct yaml_node *value = node && node->text ? job_read_scalar(reader, node, "distribution") : NULL;
    const char *kind = value ? value->text : "uniform";
    bool known = key_allows(key_find(SCOPE_RANDOM, "distribution"), kind);
    input->terms = (struct random_terms){.low = NAN, .high = NAN, .mean = NAN, .std = NAN, .value = NAN};
    job_check_keys(reader, random, 1u << SCOPE_RANDOM, known ? kind : NULL);
    job_read_keys(reader, SCOPE_RANDOM, known ? kind : "uniform", random, NULL, input);
    if (known) check_terms(reader, random, input);
}

/* Reports that an input has both `file` and `random`; where each stands, if they come from different files. */
static void report_two_sources(struct job_reader *reader, const struct yaml_node *node, const struct yaml_node *file,
                               const struct yaml_node *random) {
    OWNED char *file_position = yaml_place(reader->document, file);
    OWNED char *random_position = yaml_place(reader->document, random);
    if (file->source == random->source)
        job_error(reader, node, "an input must have either 'file' or 'random', not both");
    else /* `include` has merged them */
        job_error(reader, node, "an input must have either 'file' (%s) or 'random' (%s), not both", file_position,
                  random_position);
}

/* Sets input->file from file_as_written. Returns whether it is a pattern; otherwise backslashes before wildcards are
 * removed from both, unless a file has literally this name. */
static bool locate_file(struct job_reader *reader, struct job_input *input) {
    OWNED char *job_path = input->concatenated ? match_escape(reader->job->path) : must_strdup(reader->job->path);
    input->file = path_beside(job_path, input->file_as_written);
    if (match_is_pattern(input->file, input->file_as_written)) return true;
    if (access(input->file, F_OK) == 0) return false;
    char *plain = match_unescape(input->file_as_written);
    free(input->file);
    free(input->file_as_written);
    input->file_as_written = plain;
    input->file = path_beside(reader->job->path, plain);
    return false;
}

/* Reads an input under the current choice of swept parameters. Reports mistakes; the input then stays `unread`. */
static void read_input(struct job_reader *reader, const struct definition *definition, struct job_input *input) {
    const struct yaml_node *node = definition->node;
    *input = (struct job_input){
        .where = definition->where, .node = node, .unread = true, .name = must_strdup(definition->name)};
    input->label = combination_label(&reader->parameters, reader->swept, reader->choice);
    if (!job_expect_map(reader, node, definition->name)) return;
    if (!yaml_get(node, "file") && !yaml_get(node, "random")) job_check_keys(reader, node, 1u << SCOPE_INPUT, NULL);
    const struct yaml_node *random = yaml_get(node, "random");
    const struct yaml_node *file = yaml_get(node, "file");
    if (!file && !random) {
        job_error(reader, node, "an input needs 'file' and 'dataset', or 'random'");
        return;
    }
    if (file && random) {
        report_two_sources(reader, node, file, random);
        return;
    }
    const char *kind = random ? "random" : "file";
    reader->failed = false;
    job_check_keys(reader, node, 1u << SCOPE_INPUT, kind);
    job_read_keys(reader, SCOPE_INPUT, kind, node, NULL, input);
    input->random = random != NULL;
    input->has_rows = yaml_get(node, "rows") != NULL;
    input->has_dtype = !random && yaml_get(node, "dtype") != NULL;
    if (input->has_rows && input->select.rank)
        job_error(reader, input->select.where, "an input must have either 'rows' or 'select', not both");
    if (random) read_random(reader, random, input);
    input->concatenated = yaml_get(node, "concatenate") != NULL;
    bool is_pattern = input->file_as_written && locate_file(reader, input);
    bool not_expanded = is_pattern && !input->concatenated; /* by patterns_expand */
    input->unread = reader->failed || node->wrong || (random && random->wrong) ||
                    (definition->uses & reader->unknown) || not_expanded;
}

/* ---- operations ------------------------------------------------------------------------------------------------ */

/* Finds the instances that the operation reads under this combination. find_dependencies has already reported wrong
 * names. */
static void read_references(struct job_reader *reader, const struct definitions *definitions, int self,
                            struct job_operation *operation) {
    const struct yaml_node *list = yaml_get(operation->node, "inputs");
    const struct operation *op = operations[operation->op];
    if (!list || list->kind != YAML_LIST || list->count < op->min_inputs ||
        list->count > job_max_inputs(operation->op, operation->node))
        return;
    for (int i = 0; i < list->count; i++) {
        if (!list->items[i]->text) return;
        const struct yaml_node *name = job_read_scalar(reader, list->items[i], "inputs");
        const struct definition *read = name ? definition_find(definitions, self, name->text) : NULL;
        if (!read || read->count == 0) return;
        uint64_t swept = read->uses & reader->parameters.swept;
        int number = (int)combination_number(&reader->parameters, swept, reader->choice);
        if (number >= read->count) return; /* --only does not keep this definition */
        operation->inputs[operation->input_count++] = (struct job_reference){read->is_input, read->instances[number]};
    }
}

/* Notes a `ddof` that has no effect. Ignores 0, which each resolved reduction has, and a swept operator, of which
 * another value may use `ddof`. */
static void note_idle_ddof(struct job_reader *reader, const struct job_operation *operation) {
    const struct yaml_node *ddof = yaml_get(operation->node, "ddof"), *name = yaml_get(operation->node, "operator");
    enum reduce_operator reduction = operation->options.reduce;
    if (operation->op != OP_REDUCE || operation->options.ddof == 0 || !name || !name->text || strchr(name->text, '$'))
        return;
    if (reduction != REDUCE_VAR && reduction != REDUCE_STD)
        job_note(reader, ddof, "only var and std use 'ddof', not %s", name->text);
}

/* Reads the operation's own options and its expression, and notes which of them have mistakes. */
static void read_options(struct job_reader *reader, struct job_operation *operation) {
    const struct yaml_node *node = operation->node, *inputs = yaml_get(node, "inputs");
    reader->failed = false;
    job_read_keys(reader, SCOPE_OPTION, operations[operation->op]->name, node, NULL, &operation->options);
    note_idle_ddof(reader, operation);
    job_read_expression(reader, operation);
    operation->options_unread = reader->failed || node->wrong;
    operation->unread =
        operation->input_count < operations[operation->op]->min_inputs || operation->input_count < inputs->count;
    if (operation->op == OP_MAP || (operation->op == OP_REDUCE && yaml_get(node, "map")))
        operation->unread = operation->unread || !operation->options.map;
}

/* Reads an operation under the current choice of swept parameters. */
static void read_operation(struct job_reader *reader, const struct definitions *definitions, int self,
                           struct job_operation *operation) {
    const struct definition *definition = &definitions->items[self];
    const struct yaml_node *node = definition->node;
    *operation = (struct job_operation){.where = definition->where,
                                        .node = node,
                                        .id = must_strdup(definition->name),
                                        .op = definition->op,
                                        .run.tolerance = NAN};
    operation->label = combination_label(&reader->parameters, reader->swept, reader->choice);
    if (strlen(operation->label) >= JOB_LABEL_BYTES)
        job_error(reader, operation->where, "its swept values make a label of %zu bytes, more than %d: shorten them",
                  strlen(operation->label), JOB_LABEL_BYTES - 1);
    read_references(reader, definitions, self, operation);
    job_read_variants(reader, yaml_get(node, "variants"), operation);
    only_choose(reader, definition, operation);
    job_read_keys(reader, SCOPE_RUN, NULL, node, reader->defaults, &operation->run);
    read_options(reader, operation);
    reader->failed = false;
    job_read_keys(reader, SCOPE_RESULT, NULL, node, NULL, operation);
    operation->result_unread = reader->failed;
    operation->has_dtype = yaml_get(node, "dtype") != NULL;
    job_read_to(reader, yaml_get(node, "to"), operation);
    operation->resolved = job_resolve_operation(operation);
}

/* Reads what an operation of unknown kind has in common with others, to find its mistakes. */
static void read_unknown(struct job_reader *reader, const struct definition *definition) {
    struct job_operation scratch = {.op = OP_COUNT};
    combination_at(&reader->parameters, reader->swept, 0, reader->choice);
    job_read_keys(reader, SCOPE_RUN, NULL, definition->node, reader->defaults, &scratch.run);
    job_read_keys(reader, SCOPE_RESULT, NULL, definition->node, NULL, &scratch);
}

/* ---- inputs and operations ------------------------------------------------------------------------------------- */

/* Numbers a definition's instances and reserves memory for them. Reports too many combinations or instances; then, or
 * if the definition is not kept or its operation is unknown, the definition gets no instances. */
static void reserve_instances(struct job_reader *reader, struct definition *definition) {
    struct job *job = reader->job;
    int64_t count = combinations_count(&reader->parameters, reader->swept);
    if (!definition->kept || (!definition->is_input && definition->op == OP_COUNT)) return;
    int first = definition->is_input ? job->input_count : job->operation_count, next = first;
    int max_new = MAX_INSTANCES - job->input_count - job->operation_count;
    if (count > MAX_COMBINATIONS) {
        yaml_error(reader->document, definition->where,
                   "the sweep has more than %d combinations before 'where': shorten its lists, or 'zip' them",
                   MAX_COMBINATIONS);
        return;
    }
    definition->count = (int)count;
    definition->instances = must_malloc(sizeof(int) * ((unsigned long)definition->count + 1));
    for (int number = 0; number < definition->count && next - first <= max_new; number++) {
        combination_at(&reader->parameters, reader->swept, number, reader->choice);
        bool kept = sweep_keeps(&reader->parameters, &reader->conditions, reader->swept, reader->choice);
        definition->instances[number] = kept ? next++ : -1;
    }
    if (next - first > max_new) {
        yaml_error(reader->document, definition->where, "the sweep expands to more than %d inputs and operations",
                   MAX_INSTANCES);
        definition->count = 0;
        return;
    }
    if (definition->is_input)
        job->inputs = must_realloc(job->inputs, sizeof *job->inputs * (size_t)next);
    else
        job->operations = must_realloc(job->operations, sizeof *job->operations * (size_t)next);
}

void job_expand(struct job_reader *reader, struct definitions *definitions) {
    struct job *job = reader->job;
    for (int i = 0; i < definitions->count; i++) {
        struct definition *definition = &definitions->items[i];
        reader->swept = definition->uses & reader->parameters.swept;
        reserve_instances(reader, definition);
        if (definition->kept && !definition->is_input && definition->op == OP_COUNT) read_unknown(reader, definition);
        for (int number = 0; number < definition->count; number++) {
            if (definition->instances[number] < 0) continue;
            combination_at(&reader->parameters, reader->swept, number, reader->choice);
            reader->instance++;
            if (definition->is_input)
                read_input(reader, definition, &job->inputs[job->input_count++]);
            else
                read_operation(reader, definitions, i, &job->operations[job->operation_count++]);
        }
    }
    reader->swept = 0;
    job_check_to(reader);
}
