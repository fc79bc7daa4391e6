/* job.c - reads a job file: the top level, parameters, and the definitions of inputs and operations. */
#include "job.h"

#include "../base/path.h"
#include "../base/spelling.h"
#include "../base/text.h"
#include "../base/texts.h"
#include "job_parts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- top level ------------------------------------------------------------------------------------------------- */

static bool is_in_job_names(char c) {
    return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '-';
}

static bool is_job_name(const char *text) {
    while (is_in_job_names(*text)) text++;
    return !*text;
}

/* The stem of the job file's name; '_' replaces characters that a job name must not contain. */
static char *name_from_path(const char *path) {
    char *name = strcmp(path, YAML_STDIN) == 0 ? must_strdup("stdin") : path_stem(path);
    for (char *c = name; *c; c++)
        if (!is_in_job_names(*c)) *c = '_';
    return name;
}

static void check_version(struct job_reader *reader, const struct yaml_node *root) {
    const struct yaml_node *version = yaml_get(root, "version");
    if (version && (version->kind != YAML_INT || version->integer != 1))
        job_error(reader, version, "'version' must be 1: this program reads no other%s",
                  version->quoted ? "; the quotes make it text" : "");
}

/* Replaces values of the file by those of the command line. */
static void apply_overrides(struct job_reader *reader, const struct job_overrides *overrides) {
    struct job *job = reader->job;
    struct error device = {.status = STATUS_OK}, memory = {.status = STATUS_OK};
    if (overrides->output) {
        free(job->output);
        job->output = must_strdup(overrides->output);
    }
    if (overrides->device && job_parse_device(overrides->device, job, &device))
        yaml_error(reader->document, NULL, "--device: %s", device.text);
    if (overrides->memory && job_parse_memory(overrides->memory, &job->memory_bytes, &job->memory_fraction, &memory))
        yaml_error(reader->document, NULL, "--memory: %s", memory.text);
}

/* Reads `tags`. The results file has attributes of its own, whose names tags must not take. */
static void read_tags(struct job_reader *reader, const struct yaml_node *tags) {
    struct job *job = reader->job;
    if (!tags || !job_expect_map(reader, tags, "tags")) return;
    job->tags = must_malloc(sizeof *job->tags * (unsigned long)(tags->count + 1));
    for (int i = 0; i < tags->count; i++) {
        const char *name = tags->keys[i]->text;
        const struct yaml_node *value = job_read_scalar(reader, tags->items[i], name);
        if (IS_ONE_OF(name, "schema", "schema_version", "status", "tool_version", "git_commit", "program_hash",
                      "created", "finished", "command_line", "mixed_conditions", "notes"))
            job_error(reader, tags->keys[i], "'%s' is an attribute of every results file: choose another name", name);
        if (!is_identifier(name))
            job_error(reader, tags->keys[i],
                      "'%s' is not a tag's name: use a letter or '_', then letters, digits, '_', '-'", name);
        if (value) job->tags[job->tag_count++] = (struct job_tag){must_strdup(name), value};
    }
}

/* Reads the keys of the top level that are no definitions, and applies the overrides. */
static void read_head(struct job_reader *reader, const struct yaml_node *root, const struct job_overrides *overrides) {
    struct job *job = reader->job;
    check_version(reader, root);
    job_read_keys(reader, SCOPE_JOB, NULL, root, NULL, job);
    if (job->name && !is_job_name(job->name))
        job_error(reader, yaml_get(root, "name"), "'%s' is not a job name: use letters, digits, '.', '_', '-'",
                  job->name);
    if (!job->name) job->name = name_from_path(job->path);
    if (!job->description) job->description = must_strdup("");
    if (job->output) {
        OWNED char *written = job->output;
        job->output = path_beside(job->path, written);
    }
    if (!job->output) job->output = must_printf("%s.h5", job->name);
    read_tags(reader, yaml_get(root, "tags"));
    apply_overrides(reader, overrides);
}

/* Reads `defaults` to find its errors, even if no operation uses them. */
static void check_defaults(struct job_reader *reader, const struct yaml_node *defaults) {
    struct run_options scratch = {0};
    if (!job_expect_map(reader, defaults, "defaults")) return;
    reader->swept = parameters_used(&reader->parameters, defaults) & reader->parameters.swept;
    combination_at(&reader->parameters, reader->swept, 0, reader->choice);
    job_check_keys(reader, defaults, 1u << SCOPE_RUN, NULL);
    job_read_keys(reader, SCOPE_RUN, NULL, defaults, NULL, &scratch);
    reader->swept = 0;
}

/* ---- definitions ----------------------------------------------------------------------------------------------- */

/* Keeps names that seem unknown from being reported: they may be the one whose mistake was reported. */
static void allow_unknown_names(struct job_reader *reader) {
    reader->parameters.incomplete = true;
}

/* Lists the inputs, before any is expanded. */
static void define_inputs(struct job_reader *reader, const struct yaml_node *map, struct definitions *definitions) {
    if (!job_expect_map(reader, map, "inputs")) {
        allow_unknown_names(reader);
        return;
    }
    for (int i = 0; i < map->count; i++) {
        const struct yaml_node *key = map->keys[i];
        if (!is_identifier(key->text)) {
            allow_unknown_names(reader);
            job_error(reader, key, "'%s' is not an input name: use a letter or '_', then letters, digits, '_', '-'",
                      key->text);
        }
        *APPEND(definitions->items, definitions->count) =
            (struct definition){.where = key,
                                .node = map->items[i],
                                .name = must_strdup(key->text),
                                .is_input = true,
                                .uses = parameters_used(&reader->parameters, map->items[i]),
                                .kept = true};
    }
}

/* Reports that the last definition, an operation, reads `name`, which is neither an input nor an earlier operation.
 * `list`: all operations of the file. */
static void report_unknown_input(struct job_reader *reader, const struct yaml_node *list,
                                 const struct definitions *definitions, const struct yaml_node *where,
                                 const char *name) {
    const struct definition *self = &definitions->items[definitions->count - 1];
    if (strcmp(self->name, name) == 0) {
        job_error(reader, where, "'%s' reads itself", name);
        return;
    }
    for (int i = 0; i < list->count; i++) {
        const struct yaml_node *id = yaml_get(list->items[i], "id");
        if (!id || !id->text || strcmp(id->text, name) != 0) continue;
        job_error(reader, where, "'%s' is defined later (line %d): an operation reads inputs and earlier operations",
                  name, id->line);
        return;
    }
    OWNED char *unknown = must_printf("unknown input '%s'", name);
    if (yaml_has_message(reader->document, unknown)) return;
    OWNED const char **names = must_malloc(sizeof *names * (size_t)definitions->count);
    for (int i = 0; i < definitions->count - 1; i++) names[i] = definitions->items[i].name;
    if (reader->nameless && !nearest_name(name, names, definitions->count - 1)) return;
    if (!job_error_unknown(reader, where, "input", name, names, definitions->count - 1)) reader->lost = true;
}

/* Adds definition number `found` to those that a definition reads, once. */
static void add_dependency(struct definition *definition, const struct definitions *definitions, int found) {
    for (int i = 0; i < definition->read_count; i++)
        if (definition->reads[i] == found) return;
    *APPEND(definition->reads, definition->read_count) = found;
    definition->uses |= definitions->items[found].uses;
}

/* Finds all definitions that the last one, an operation, reads under some combination: the names in `inputs` may depend
 * on swept parameters. */
static void find_dependencies(struct job_reader *reader, const struct yaml_node *list,
                              struct definitions *definitions) {
    int self = definitions->count - 1;
    struct definition *definition = &definitions->items[self];
    const struct yaml_node *inputs = yaml_get(definition->node, "inputs");
    if (!inputs || !job_expect_list(reader, inputs, "inputs")) return;
    const struct operation *operation = definition->op < OP_COUNT ? operations[definition->op] : NULL;
    int max_inputs = operation ? job_max_inputs(definition->op, definition->node) : 0;
    if (operation && (inputs->count < operation->min_inputs || inputs->count > max_inputs))
        job_error(reader, inputs, "%s reads %s%d input%s, not %d", operation->name,
                  operation->min_inputs < max_inputs ? "1 to " : "", max_inputs, max_inputs == 1 ? "" : "s",
                  inputs->count);
    for (int i = 0; i < inputs->count; i++) {
        const struct yaml_node *item = inputs->items[i];
        reader->swept = parameters_used(&reader->parameters, item) & reader->parameters.swept;
        int64_t count = combinations_count(&reader->parameters, reader->swept);
        for (int64_t number = 0; number < count && number < MAX_INSTANCES; number++) {
            combination_at(&reader->parameters, reader->swept, number, reader->choice);
            OWNED char *name = job_read_text(reader, item, "inputs");
            const struct definition *found = name ? definition_find(definitions, self, name) : NULL;
            if (found)
                add_dependency(definition, definitions, (int)(found - definitions->items));
            else if (name && !reader->parameters.incomplete) {
                report_unknown_input(reader, list, definitions, item, name);
                break;
            }
        }
    }
    reader->swept = 0;
}

/* The set of parameters in an operation's map, and in the `defaults` that it takes. */
static uint64_t used_by_operation(struct job_reader *reader, const struct definition *definition) {
    uint64_t uses = parameters_used(&reader->parameters, definition->node);
    for (int i = 0; i < job_key_count; i++)
        if (job_keys[i].scope == SCOPE_RUN)
            uses |= parameters_used(&reader->parameters, definition_get(reader, definition, job_keys[i].name));
    return uses;
}

/* Is the id well-formed, short enough and new? Reports it if not. */
static bool check_id(struct job_reader *reader, const struct yaml_node *where, const char *id,
                     const struct definitions *definitions) {
    const struct definition *other = definition_find(definitions, definitions->count, id);
    if (!is_identifier(id))
        return job_error(reader, where, "'%s' is not an id: use a letter or '_', then letters, digits, '_', '-'", id);
    if (strlen(id) >= JOB_NAME_BYTES)
        return job_error(reader, where, "an id must have at most %d characters, not %zu", JOB_NAME_BYTES - 1,
                         strlen(id));
    return !other || job_error(reader, where, "'%s' is already the name of an %s on line %d", id,
                               other->is_input ? "input" : "operation", other->where->line);
}

/* Lists the operations with their ids, kinds and the definitions that they read, before any is expanded. */
static void define_operations(struct job_reader *reader, const struct yaml_node *list,
                              struct definitions *definitions) {
    if (list->count == 0) allow_unknown_names(reader);
    if (!job_expect_list(reader, list, "operations")) return;
    if (list->count == 0) job_error(reader, list, "'operations' is an empty list: nothing to do");
    for (int i = 0; i < list->count; i++) {
        const struct yaml_node *node = list->items[i], *id = yaml_get(node, "id");
        if (node->kind != YAML_MAP) {
            job_error(reader, node, "an operation must be a map such as {id: NAME, op: OPERATION, inputs: [NAME]}");
            continue;
        }
        struct job_operation scratch = {.op = OP_COUNT};
        unsigned scopes = 1u << SCOPE_OPERATION | 1u << SCOPE_OPTION | 1u << SCOPE_RESULT | 1u << SCOPE_RUN;
        if (!id || !yaml_get(node, "op") || !yaml_get(node, "inputs")) job_check_keys(reader, node, scopes, NULL);
        id = yaml_get(node, "id");
        job_read_keys(reader, SCOPE_OPERATION, NULL, node, NULL, &scratch);
        job_check_keys(reader, node, scopes, scratch.op < OP_COUNT ? operations[scratch.op]->name : NULL);
        if (scratch.id)
            reader->nameless |= !check_id(reader, id, scratch.id, definitions);
        else
            allow_unknown_names(reader);
        struct definition *definition = APPEND(definitions->items, definitions->count);
        *definition = (struct definition){.where = id ? id : node,
                                          .node = node,
                                          .name = scratch.id ? scratch.id : must_strdup(""),
                                          .op = scratch.op,
                                          .kept = true};
        definition->uses = used_by_operation(reader, definition);
        find_dependencies(reader, list, definitions);
    }
}

/* Applies --repeat, --warmup and --verify: sets these keys in each operation. */
static void override_run_options(struct job_reader *reader, const struct yaml_node *list,
                                 const struct job_overrides *overrides) {
    const struct {
        const char *key, *text;
    } options[] = {{"repeat", overrides->repeat}, {"warmup", overrides->warmup}, {"verify", overrides->verify}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        for (int op = 0; options[i].text && list->kind == YAML_LIST && op < list->count; op++)
            if (list->items[op]->kind == YAML_MAP)
                yaml_set(reader->document, NULL, list->items[op], options[i].key, options[i].text);
}

/* Reports parameters that nothing uses, unless mistakes may hide their uses. */
static void check_unused(const struct job_reader *reader) {
    const struct parameters *parameters = &reader->parameters;
    for (int i = 0; i < parameters->count && !parameters->incomplete && !reader->lost; i++)
        if (!(parameters->used >> i & 1) && text_is_name(parameters->items[i].name) && /* else it was reported */
            !parameters_reported_unset(parameters, parameters->items[i].name))
            yaml_error(reader->document, parameters->items[i].where, "nothing uses parameter '%s': write $%s to use it",
                       parameters->items[i].name, parameters->items[i].name);
}

/* Notes inputs that no operation reads. This is no error: an operation may be commented out for a while. */
static void note_unread_inputs(struct job_reader *reader, const struct definitions *definitions) {
    for (int i = 0; i < definitions->count; i++) {
        const struct definition *input = &definitions->items[i];
        bool read = !input->is_input;
        for (int k = 0; k < definitions->count && !read; k++)
            for (int r = 0; r < definitions->items[k].read_count && !read; r++)
                read = definitions->items[k].reads[r] == i;
        if (!read) job_note(reader, input->where, "no operation reads input '%s'", input->name);
    }
}

/* ---- the job --------------------------------------------------------------------------------------------------- */

/* Reads the merged document in the order of dependence: parameters, sweeps, definitions, then their combinations. */
static void read_job(struct job_reader *reader, const struct yaml_node *root, const struct job_overrides *overrides,
                     struct definitions *definitions) {
    job_check_keys(reader, root, 1u << SCOPE_JOB, NULL);
    if (root->wrong) allow_unknown_names(reader);
    const struct yaml_node *parameters = yaml_get(root, "parameters"), *inputs = yaml_get(root, "inputs");
    const struct yaml_node *defaults = yaml_get(root, "defaults"), *list = yaml_get(root, "operations");
    const struct yaml_node *where = yaml_get(root, "where");
    reader->defaults = defaults;
    parameters_load(&reader->parameters, parameters);
    patterns_expand(reader, inputs);
    sweep_zip(&reader->parameters, yaml_get(root, "zip"));
    sweep_where(&reader->parameters, where, &reader->conditions);
    sweep_check_derived(&reader->parameters, &reader->conditions);
    reader->job->combinations = reader->conditions.count;
    reader->job->excluded = reader->conditions.dropped;
    for (int i = 0; i < root->count; i++)
        if (root->items[i] != parameters && root->items[i] != where)
            parameters_check(&reader->parameters, root->items[i]);
    read_head(reader, root, overrides);
    if (defaults) check_defaults(reader, defaults);
    if (inputs) define_inputs(reader, inputs, definitions);
    if (list) override_run_options(reader, list, overrides);
    if (list) define_operations(reader, list, definitions);
    note_unread_inputs(reader, definitions);
    if (overrides->only) only_keep(reader, definitions, overrides->only, overrides->winners);
    job_expand(reader, definitions);
    check_unused(reader);
    for (int i = 0; i < reader->job->input_count; i++) reader->job->inputs[i].external = reader->job->external;
    if (yaml_error_count(reader->document) > 0) return;
    char *resolved = reader->job->resolved = job_resolve(reader, definitions, overrides);
    const char *wrong = text_not_utf8(resolved), *line = wrong;
    while (line > resolved && line[-1] != '\n') line--;
    if (wrong)
        yaml_error(reader->document, NULL,
                   "is resolved to a text that is not UTF-8, which no results file can hold: %.*s",
                   (int)strcspn(line, "\n"), line);
}

/* Reads the job in a document; the job then owns the document. */
static struct job *read_document(struct yaml_document *document, const char *path,
                                 const struct job_overrides *overrides) {
    static const struct job_overrides none;
    struct job *job = must_malloc(sizeof *job);
    if (!overrides) overrides = &none;
    *job = (struct job){.document = document, .path = must_strdup(path), .tolerant = overrides->tolerant};
    const struct yaml_node *root = yaml_root(document);
    if (!root) return job;
    if (root->kind != YAML_MAP) {
        yaml_error(document, root, "a job file must be a map that begins with 'version: 1'%s",
                   root->text && yaml_lacks_space(root->text)      ? ": a space must follow the colon"
                   : root->text && yaml_has_wide_colon(root->text) ? YAML_WIDE_COLON
                                                                   : "");
        return job;
    }
    bool incomplete = !job_include(job);
    job_read_environment(job);
    OWNED struct job_reader *reader = must_malloc(sizeof *reader);
    *reader = (struct job_reader){.job = job,
                                  .document = document,
                                  .parameters = {.document = document,
                                                 .sets = overrides->sets,
                                                 .set_count = overrides->set_count,
                                                 .incomplete = incomplete}};
    struct definitions definitions = {0};
    read_job(reader, root, overrides, &definitions);
    for (int i = 0; i < definitions.count; i++) {
        only_forget(&definitions.items[i]);
        free(definitions.items[i].name);
        free(definitions.items[i].reads);
        free(definitions.items[i].instances);
    }
    free(definitions.items);
    free(reader->conditions.holds);
    parameters_free(&reader->parameters);
    return job;
}

struct job *job_load(const char *path, const struct job_overrides *overrides) {
    if (strcmp(path, "-") == 0) path = YAML_STDIN;
    return read_document(yaml_load(path), path, overrides);
}

struct job *job_parse(const char *path, const char *text, const struct job_overrides *overrides) {
    return read_document(yaml_parse(path, text, strlen(text)), path, overrides);
}
