/* job_expand.c - reads inputs and operations under each combination of swept parameters. */
#include "job_expand.h"

#include "../base/destination.h"
#include "../base/fail.h"
#include "../base/match.h"
#include "../base/text.h"
#include "job_only.h"
#include "job_to.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct definition *definition_find(const struct definitions *definitions, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(definitions->items[i].name, name) == 0) return &definitions->items[i];
    return NULL;
}

#define MAX_VARIANTS 1024 /* of one operation */

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
}

static void read_random(struct job_reader *reader, const struct yaml_node *random, struct job_input *input) {
    if (!job_expect_map(reader, random, "random")) return;
    const struct yaml_node *node = yaml_get(random, "distribution");
    const struct yaml_node *value = node && node->text ? job_read_scalar(reader, node, "distribution") : NULL;
    const char *kind = value ? value->text : "uniform";
    bool known = key_allows(SCOPE_RANDOM, "distribution", kind);
    input->terms = (struct random_terms){.low = NAN, .high = NAN, .mean = NAN, .std = NAN, .value = NAN};
    job_check_keys(reader, random, 1u << SCOPE_RANDOM, known ? kind : NULL);
    job_read_keys(reader, SCOPE_RANDOM, known ? kind : "uniform", random, NULL, input);
    if (known) check_terms(reader, random, input);
}

static void read_input(struct job_reader *reader, const struct definition *definition, struct job_input *input) {
    const struct yaml_node *node = definition->node, *random = yaml_get(node, "random");
    *input = (struct job_input){.where = definition->where, .name = must_strdup(definition->name)};
    input->label = combination_label(&reader->parameters, reader->swept, reader->choice);
    if (!job_expect_map(reader, node, definition->name)) return;
    bool file = yaml_get(node, "file") != NULL;
    if (!file && !random) {
        job_check_keys(reader, node, 1u << SCOPE_INPUT, NULL);
        job_error(reader, node, "an input needs 'file' and 'dataset', or 'random'");
        return;
    }
    if (file && random) {
        job_error(reader, node, "an input has either 'file' or 'random', not both");
        return;
    }
    const char *kind = random ? "random" : "file";
    job_check_keys(reader, node, 1u << SCOPE_INPUT, kind);
    job_read_keys(reader, SCOPE_INPUT, kind, node, NULL, input);
    input->random = random != NULL;
    input->has_rows = yaml_get(node, "rows") != NULL;
    input->has_dtype = !random && yaml_get(node, "dtype") != NULL;
    if (input->has_rows && input->select.rank)
        job_error(reader, input->select.where, "an input has either 'rows' or 'select', not both");
    if (random) read_random(reader, random, input);
    input->concatenated = yaml_get(node, "concatenate") != NULL;
    char *job_path = input->concatenated ? match_escape(reader->job->path) : must_strdup(reader->job->path);
    if (input->file_as_written) input->file = path_beside(job_path, input->file_as_written);
    free(job_path);
}

/* ---- variants -------------------------------------------------------------------------------------------------- */

/* Adds the variant; if its label exists already, reports that and frees the variant. */
static void add_variant(struct job_reader *reader, struct job_operation *operation, struct job_variant *variant) {
    variant->label = must_strdup(variant->name);
    for (int i = 0; i < variant->count; i++) {
        must_append(&variant->label, ",%s=%s", variant->names[i], variant->values[i]);
    }
    for (int i = 0; i < operation->variant_count; i++) {
        if (strcmp(operation->variants[i].label, variant->label) != 0) continue;
        job_error(reader, variant->where, "variant '%s' is listed twice", variant->label);
        job_variant_free(variant);
        return;
    }
    operation->variants = must_realloc(operation->variants, sizeof *variant * (size_t)(operation->variant_count + 1));
    operation->variants[operation->variant_count++] = *variant;
}

/* Adds a variant for each combination of the parameters from index `at` on; `given` has the values of the earlier
 * ones. */
static void sweep_variant(struct job_reader *reader, struct job_operation *operation, const struct yaml_node *map,
                          int at, const struct job_variant *given) {
    struct job_variant variant = {.where = given->where, .name = must_strdup(given->name), .count = given->count};
    for (int i = 0; i < given->count; i++) {
        variant.names[i] = must_strdup(given->names[i]);
        variant.values[i] = must_strdup(given->values[i]);
        variant.parameter_where[i] = given->parameter_where[i];
    }
    if (at < map->count && strcmp(map->keys[at]->text, "name") == 0) at++;
    if (at >= map->count) {
        add_variant(reader, operation, &variant);
        return;
    }
    const struct yaml_node *key = map->keys[at], *node = map->items[at];
    bool list = node->kind == YAML_LIST;
    int slot = variant.count;
    if (list && node->count == 0) job_error(reader, node, "'%s' is an empty list", key->text);
    for (int i = 0; i < (list ? node->count : 1); i++) {
        const struct yaml_node *item = list ? node->items[i] : node;
        const struct yaml_node *value = job_read_scalar(reader, item, key->text);
        if (!value) break;
        variant.names[slot] = must_strdup(key->text);
        variant.values[slot] = must_strdup(value->text);
        variant.parameter_where[slot] = item;
        variant.count = slot + 1;
        sweep_variant(reader, operation, map, at + 1, &variant);
        free(variant.names[slot]);
        free(variant.values[slot]);
        variant.count = slot;
    }
    job_variant_free(&variant);
}

/* Reports a name that no variant of the operation has. */
static void check_variant(struct job_reader *reader, const struct yaml_node *where, const char *name, enum op op) {
    const char *names[KERNELS_MOST], *kind = operations[op]->name;
    if (kernel_find(op, name)) return;
    int count = kernel_names(op, names, KERNELS_MOST);
    const char *near = nearest_name(name, names, count);
    if (near)
        job_error(reader, where, "unknown variant '%s' of %s (did you mean '%s'?)", name, kind, near);
    else
        job_error(reader, where, "unknown variant '%s' of %s; `tilerun list %s` shows them", name, kind, kind);
}

static void read_variant(struct job_reader *reader, struct job_operation *operation, const struct yaml_node *node) {
    struct job_variant variant = {.where = node};
    const struct yaml_node *name = node->kind == YAML_MAP ? yaml_get(node, "name") : node;
    if (!name) {
        job_error(reader, node, "'name' is missing: a variant is a name, or {name: NAME, PARAMETER: VALUE}");
        return;
    }
    if (node->kind == YAML_MAP && node->count > 1 + KERNEL_MAX_PARAMETERS) {
        job_error(reader, node, "a variant has at most %d parameters", KERNEL_MAX_PARAMETERS);
        return;
    }
    int64_t sweep = 1;
    for (int i = 0; i < node->count && sweep <= MAX_VARIANTS; i++)
        if (node->items[i]->kind == YAML_LIST) sweep *= node->items[i]->count;
    if (operation->variant_count + sweep > MAX_VARIANTS) {
        job_error(reader, node, "more than %d variants of one operation", MAX_VARIANTS);
        return;
    }
    variant.where = name;
    variant.name = job_read_text(reader, name, "variant");
    if (!variant.name) return;
    if (strcmp(variant.name, "auto") != 0) check_variant(reader, name, variant.name, operation->op);
    if (node->kind == YAML_MAP) {
        sweep_variant(reader, operation, node, 0, &variant);
        free(variant.name);
    } else {
        add_variant(reader, operation, &variant);
    }
}

static void read_variants(struct job_reader *reader, const struct yaml_node *list, struct job_operation *operation) {
    if (!list) {
        struct job_variant variant = {.where = operation->where, .name = must_strdup("auto")};
        add_variant(reader, operation, &variant);
        return;
    }
    if (!job_expect_list(reader, list, "variants")) return;
    if (list->count == 0) job_error(reader, list, "'variants' is an empty list: leave it out for 'auto'");
    for (int i = 0; i < list->count; i++) read_variant(reader, operation, list->items[i]);
}

/* ---- operations ------------------------------------------------------------------------------------------------ */

/* Finds the instances that the operation reads under this combination. find_dependencies has already reported wrong
 * names. */
static void read_references(struct job_reader *reader, const struct definitions *definitions, int self,
                            struct job_operation *operation) {
    const struct yaml_node *list = operation->inputs_where;
    int most = operations[operation->op]->inputs;
    if (list->kind != YAML_LIST || list->count != most) return;
    for (int i = 0; i < most; i++) {
        if (!list->items[i]->text) return;
        const struct yaml_node *name = job_read_scalar(reader, list->items[i], "inputs");
        const struct definition *read = name ? definition_find(definitions, self, name->text) : NULL;
        if (!read) return;
        uint64_t swept = read->uses & reader->parameters.swept;
        int number = (int)combination_number(&reader->parameters, swept, reader->choice);
        operation->inputs[operation->input_count++] = (struct job_reference){read->is_input, read->first + number};
    }
}

static void read_operation(struct job_reader *reader, const struct definitions *definitions, int self,
                           struct job_operation *operation) {
    const struct definition *definition = &definitions->items[self];
    const struct yaml_node *node = definition->node;
    const struct yaml_node *defaults = yaml_get(yaml_root(reader->document), "defaults");
    const char *kind = operations[definition->op]->name;
    const struct yaml_node *inputs = yaml_get(node, "inputs");
    *operation = (struct job_operation){.where = definition->where,
                                        .inputs_where = inputs ? inputs : node,
                                        .id = must_strdup(definition->name),
                                        .op = definition->op,
                                        .run.tolerance = NAN};
    operation->label = combination_label(&reader->parameters, reader->swept, reader->choice);
    if (strlen(operation->label) >= JOB_LABEL_BYTES)
        job_error(reader, operation->where, "the label of its swept values has %zu bytes; at most %d are allowed",
                  strlen(operation->label), JOB_LABEL_BYTES - 1);
    read_references(reader, definitions, self, operation);
    read_variants(reader, yaml_get(node, "variants"), operation);
    only_choose(reader, definition, operation);
    job_read_keys(reader, SCOPE_OPTION, kind, node, NULL, &operation->options);
    job_read_keys(reader, SCOPE_RUN, NULL, node, defaults, &operation->run);
    job_read_keys(reader, SCOPE_RESULT, NULL, node, NULL, operation);
    operation->has_dtype = yaml_get(node, "dtype") != NULL;
    job_read_to(reader, yaml_get(node, "to"), operation);
    operation->resolved = job_resolve_operation(operation);
}

/* ---- inputs and operations ------------------------------------------------------------------------------------- */

/* Reserves memory for a definition's instances; none if there are too many, which it reports, or if the definition
 * cannot be read. */
static void reserve_instances(struct job_reader *reader, struct definition *definition) {
    struct job *job = reader->job;
    uint64_t swept = definition->uses & reader->parameters.swept;
    int64_t count = combinations_count(&reader->parameters, swept);
    if (!definition->kept || (!definition->is_input && definition->op == OP_COUNT)) return;
    if (count + job->input_count + job->operation_count > MAX_INSTANCES) {
        yaml_error(reader->document, definition->where, "the sweep expands to more than %d inputs and operations",
                   MAX_INSTANCES);
        return;
    }
    definition->first = definition->is_input ? job->input_count : job->operation_count;
    definition->count = (int)count;
    if (definition->is_input)
        job->inputs = must_realloc(job->inputs, sizeof *job->inputs * (size_t)(definition->first + definition->count));
    else
        job->operations =
            must_realloc(job->operations, sizeof *job->operations * (size_t)(definition->first + definition->count));
}

void job_expand(struct job_reader *reader, struct definitions *definitions) {
    struct job *job = reader->job;
    for (int i = 0; i < definitions->count; i++) {
        struct definition *definition = &definitions->items[i];
        reserve_instances(reader, definition);
        reader->swept = definition->uses & reader->parameters.swept;
        for (int number = 0; number < definition->count; number++) {
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
