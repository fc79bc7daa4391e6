/* job_text.c - prints a job as text, with defaults filled in, merges done and parameters chosen. The text is the
 * provenance in results files, and the key by which a resumed job recognizes finished runs. */
#include "job_text.h"

#include "../../kernels/core/map.h"

#include "../base/fail.h"
#include "../base/text.h"
#include "../base/texts.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* ---- one operation, from its fields ---------------------------------------------------------------------------- */

/* Loads an index, a boolean or an integer from a field of any width (store_integer in job_read.c). */
static int64_t load_integer(const void *field, size_t size) {
    switch (size) {
    case sizeof(bool): return *(const bool *)field;
    case sizeof(int): return *(const int *)field;
    default: return *(const int64_t *)field;
    }
}

/* Prints ", NAME: [0, 2]"; nothing if no axes are given. */
static void print_axes(FILE *to, const char *name, const struct op_options *options) {
    for (int i = 0; i < options->axis_count; i++)
        fprintf(to, i ? ", %s%d" : ", %s: [%d", i ? "" : name, options->axes[i]);
    if (options->axis_count > 0) fputc(']', to);
}

/* Prints ", key: value"; nothing if there is no value. */
static void print_field(FILE *to, const struct job_key *key, const void *object) {
    const void *field = (const char *)object + key->offset;
    const struct run_options *run = object;
    const struct op_options *options = object;      /* of a key in SCOPE_OPTION */
    const struct job_operation *operation = object; /* of a key in SCOPE_RESULT */
    const struct shape *shape = field;
    const char *words[KEY_MAX_WORDS];
    switch (key->type) {
    case KEY_BOOL: fprintf(to, ", %s: %s", key->name, *(const bool *)field ? "true" : "false"); break;
    case KEY_INTEGER: fprintf(to, ", %s: %lld", key->name, (long long)load_integer(field, key->size)); break;
    case KEY_REAL:
        if (!isnan(*(const double *)field)) fprintf(to, ", %s: %.17g", key->name, *(const double *)field);
        break;
    case KEY_WORD:
    case KEY_OPERATOR:
        key_words(key, words);
        fprintf(to, ", %s: %s", key->name, words[load_integer(field, key->size)]);
        break;
    case KEY_SHAPE:
        for (int i = 0; i < shape->rank; i++)
            fprintf(to, i ? ", %s%lld" : ", %s: [%lld", i ? "" : key->name, (long long)shape->size[i]);
        if (shape->rank > 0) fputc(']', to);
        break;
    case KEY_DTYPE:
        if (operation->has_dtype) fprintf(to, ", %s: %s", key->name, dtype_name(operation->as));
        break;
    case KEY_AXES: print_axes(to, key->name, object); break;
    case KEY_AXIS:
        if (options->axis_count > 0)
            print_axes(to, key->name, options);
        else if (*(const int *)field == REDUCE_ALL_AXES)
            fprintf(to, ", %s: all", key->name);
        else
            fprintf(to, ", %s: %d", key->name, *(const int *)field);
        break;
    case KEY_REPEAT:
        if (run->repeat_until > 0)
            fprintf(to, ", repeat: {min: %lld, max: %lld, until: %.17g}", (long long)run->repeat_min,
                    (long long)run->repeat_max, run->repeat_until);
        else
            fprintf(to, ", repeat: %lld", (long long)run->repeat_min);
        break;
    case KEY_EXPRESSION:
        if (!options->map) break;
        fprintf(to, ", %s: ", key->name);
        job_print_text(to, options->map->text, true);
        break;
    default: break; /* no option of an operation or a run has this type, or another key implies it */
    }
}

char *job_resolve_operation(const struct job_operation *operation) {
    char *text;
    FILE *to = must_stream(&text);
    const char *name = operations[operation->op]->name;
    fprintf(to, "{op: %s", name);
    for (int i = 0; i < job_key_count; i++) {
        const struct job_key *key = &job_keys[i];
        if (key->harmless || !key_applies(key, name)) continue;
        if (key->scope == SCOPE_OPTION) print_field(to, key, &operation->options);
        if (key->scope == SCOPE_RESULT) print_field(to, key, operation);
        if (key->scope == SCOPE_RUN) print_field(to, key, &operation->run);
    }
    fputc('}', to);
    fclose(to);
    return text;
}

/* ---- the whole job, from its nodes ----------------------------------------------------------------------------- */

/* Prints text as a YAML scalar: plain if YAML reads it back unchanged, else double-quoted. */
static void print_scalar(FILE *to, const char *text, bool quoted) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./$%+-";
    if (!quoted && *text && text[strspn(text, plain)] == '\0') {
        fputs(text, to);
        return;
    }
    fputc('"', to);
    int size;
    for (const char *c = text; *c; c += size) {
        bool shown = text_shown(c, strlen(c)) > 0;
        size = utf8_length(c, strlen(c));
        if (size == 0) size = 1;
        if (*c == '"' || *c == '\\')
            fprintf(to, "\\%c", *c);
        else if (!shown && (size > 1 || (unsigned char)*c < 0x80))
            fprintf(to, size == 1 ? "\\x%02x" : "\\u%04x", text_code(c, size));
        else
            fwrite(c, 1, (size_t)size, to);
    }
    fputc('"', to);
}

void job_print_text(FILE *to, const char *text, bool quoted) {
    OWNED char *escaped = parameters_escape(text, strlen(text));
    print_scalar(to, escaped, quoted);
}

/* Prints a tree as one line of YAML. */
static void print_node(FILE *to, const struct yaml_node *node) {
    if (node->text) {
        print_scalar(to, node->text, node->kind == YAML_STRING && node->quoted);
        return;
    }
    fputc(node->kind == YAML_MAP ? '{' : '[', to);
    for (int i = 0; i < node->count; i++) {
        if (i > 0) fputs(", ", to);
        if (node->kind == YAML_MAP) {
            print_scalar(to, node->keys[i]->text, false);
            fputs(": ", to);
        }
        print_node(to, node->items[i]);
    }
    fputc(node->kind == YAML_MAP ? '}' : ']', to);
}

/* Prints a variant that --only selects, as the job file spells it. `by_label`: it is selected by its label, so it has
 * one value of each parameter, for which its `where` holds. A condition that always holds, "$t == $t", keeps the
 * operation swept by each parameter of the set `uses` that the printed variant does not name (`idle`), so that its
 * results keep their labels. */
static void print_variant(FILE *to, const struct parameters *parameters, const struct job_variant *variant,
                          bool by_label, uint64_t uses) {
    const struct yaml_node *entry = variant->entry, *where = by_label ? NULL : yaml_get(entry, "where");
    bool named = !entry || entry->text;
    uint64_t idle = uses & ~(by_label ? 0 : parameters_used(parameters, entry));
    for (int j = 0; j < variant->count && by_label; j++)
        idle &= ~parameters_used(parameters, variant->parameter_where[j]);
    bool plain = named && idle == 0 && (variant->count == 0 || !by_label);
    if (named) fputs(plain ? "" : "{name: ", to);
    if (named && entry) print_node(to, entry);
    if (named && !entry) fputs(variant->name, to);
    if (plain) return;
    const char *before = named ? ", " : "{";
    for (int i = 0; !named && i < entry->count; i++) {
        const char *key = entry->keys[i]->text;
        bool skip = strcmp(key, "where") == 0 || (by_label && strcmp(key, "search") == 0);
        for (int j = 0; j < variant->count && by_label; j++) skip |= strcmp(variant->names[j], key) == 0;
        if (skip) continue;
        fprintf(to, "%s%s: ", before, key);
        print_node(to, entry->items[i]);
        before = ", ";
    }
    for (int j = 0; j < variant->count && by_label; j++) {
        fprintf(to, "%s%s: ", before, variant->names[j]);
        print_node(to, variant->parameter_where[j]);
        before = ", ";
    }
    before = ", where: [";
    for (int i = 0; where && i < (where->kind == YAML_LIST ? where->count : 1); i++, before = ", ") {
        fputs(before, to);
        print_node(to, where->kind == YAML_LIST ? where->items[i] : where);
    }
    for (int i = 0; i < parameters->count; i++) {
        if (!(idle >> i & 1)) continue;
        fprintf(to, "%s\"$%s == $%s\"", before, parameters->items[i].name, parameters->items[i].name);
        before = ", ";
    }
    fputs(where || idle ? "]}" : "}", to);
}

/* The list of variants that --only selects: those of all combinations, each once. NULL: --only selects none of this
 * definition. The caller frees. */
static char *chosen_variants(const struct job_reader *reader, const struct definition *definition) {
    const struct parameters *parameters = &reader->parameters;
    uint64_t uses = parameters_used(parameters, yaml_get(definition->node, "variants")) & parameters->swept;
    struct texts printed = {0};
    char *chosen = NULL;
    for (int i = 0; definition->only_count && i < definition->count; i++) {
        if (definition->instances[i] < 0) continue;
        const struct job_operation *operation = &reader->job->operations[definition->instances[i]];
        for (int v = 0; v < operation->variant_count; v++) {
            const struct job_variant *variant = &operation->variants[v];
            bool by_label = true;
            for (int k = 0; k < definition->only_count; k++)
                by_label &= strcmp(definition->only[k].label, variant->name) != 0;
            char *text;
            FILE *to = must_stream(&text);
            print_variant(to, parameters, variant, by_label, uses);
            fclose(to);
            int same = 0;
            while (same < printed.count && strcmp(printed.items[same], text) != 0) same++;
            if (same == printed.count) must_append(&chosen, "%s%s", chosen ? ", " : "", text);
            texts_add(&printed, text);
        }
    }
    texts_clear(&printed);
    return chosen;
}

/* Prints "key: value" for each key that is given, or that has a default and applies to `kind` (NULL: unknown before
 * parameters are replaced). `chosen`: the variants of an operation that --only selects; NULL: all. */
static void print_keys(FILE *to, enum key_scope scope, const char *kind, const struct yaml_node *map,
                       const struct yaml_node *fallback, const char *chosen, const char *before) {
    for (int i = 0; i < job_key_count; i++) {
        const struct job_key *key = &job_keys[i];
        if (key->scope != scope) continue;
        if (chosen && strcmp(key->name, "variants") == 0) {
            fprintf(to, "%svariants: [%s]", before, chosen);
            continue;
        }
        const struct yaml_node *node = yaml_get(map, key->name);
        if (!node) node = yaml_get(fallback, key->name);
        bool applies = !key->applies_to || (kind && key_applies(key, kind));
        if (!node && !(applies && key->standard && *key->standard)) continue;
        fprintf(to, "%s%s: ", before, key->name);
        if (node)
            print_node(to, node);
        else
            fputs(key->standard, to);
        before = ", ";
    }
}

/* Prints an input or an operation of the resolved job as one line of YAML. */
static void print_definition(FILE *to, const struct job_reader *reader, const struct definition *definition) {
    const struct yaml_node *node = definition->node, *random = yaml_get(node, "random");
    if (!definition->is_input) {
        const char *op = operations[definition->op]->name;
        OWNED char *chosen = chosen_variants(reader, definition);
        print_keys(to, SCOPE_OPERATION, NULL, node, NULL, chosen, "  - {");
        print_keys(to, SCOPE_OPTION, op, node, NULL, NULL, ", ");
        print_keys(to, SCOPE_RESULT, NULL, node, NULL, NULL, ", ");
        print_keys(to, SCOPE_RUN, NULL, node, reader->defaults, NULL, ", ");
    } else if (random) {
        const struct yaml_node *distribution = yaml_get(random, "distribution");
        bool by_parameter = distribution && strchr(distribution->text, '$');
        const char *kind = by_parameter ? NULL : distribution ? distribution->text : "uniform";
        fprintf(to, "  %s: {random: ", definition->name);
        print_keys(to, SCOPE_RANDOM, kind, random, NULL, NULL, "{");
        fputc('}', to);
    } else {
        fprintf(to, "  %s: ", definition->name);
        print_keys(to, SCOPE_INPUT, "file", node, NULL, NULL, "{");
    }
    fputs("}\n", to);
}

/* Prints the value of a parameter or a tag, with !!float if its text alone would not be the real number that it is. */
static void print_value(FILE *to, const struct yaml_node *value, bool quoted) {
    if (value->kind == YAML_FLOAT && !strpbrk(value->text, ".eE")) fputs("!!float ", to);
    job_print_text(to, value->text, quoted);
}

/* Prints a derived parameter. An expression is not quoted, because quotes would make it a text. It is put into
 * parentheses if its first character could mean something else in YAML. */
static void print_derived(FILE *to, const struct parameter *parameter) {
    const char *text = parameter->derived->text;
    if (!parameter->expression)
        print_node(to, parameter->derived);
    else if (*text == '$' || *text == '(' || isalnum((unsigned char)*text))
        fputs(text, to);
    else
        fprintf(to, "(%s)", text);
}

/* Prints the sweep: the parameters in the set `used`, `zip`, and `where`. */
static void print_sweep(FILE *to, const struct job_reader *reader, uint64_t used) {
    const struct parameters *parameters = &reader->parameters;
    const struct yaml_node *where = yaml_get(yaml_root(reader->document), "where");
    used |= parameters_used(parameters, where);
    for (int i = parameters->count - 1; i >= 0; i--)
        if (used >> i & 1) used |= parameters_used(parameters, parameters->items[i].derived);
    if (used) fputs("parameters:\n", to);
    bool zipped = false;
    for (int i = 0; i < parameters->count; i++) {
        const struct parameter *parameter = &parameters->items[i];
        if (!(used >> i & 1)) continue;
        fprintf(to, "  %s: %s", parameter->name, parameter->swept ? "[" : "");
        for (int j = 0; j < parameter->count; j++) {
            if (j > 0) fputs(", ", to);
            print_value(to, parameter->values[j], parameter->values[j]->quoted);
        }
        if (parameter->derived) print_derived(to, parameter);
        fputs(parameter->swept ? "]\n" : "\n", to);
        zipped |= parameter->zipped != 0;
    }
    if (zipped) fputs("zip: [", to);
    const char *before = "[";
    for (int i = 0; zipped && i < parameters->count; i++) {
        uint64_t set = parameters->items[i].zipped;
        if (!(used >> i & 1) || set == 0 || __builtin_ctzll(set) != i) continue;
        for (int j = i; j < parameters->count; j++)
            if (set >> j & 1) fprintf(to, "%s%s", j == i ? before : ", ", parameters->items[j].name);
        fputc(']', to);
        before = ", [";
    }
    if (zipped) fputs("]\n", to);
    if (where) {
        fputs("where: ", to);
        print_node(to, where);
        fputc('\n', to);
    }
}

/* Prints the top-level keys that hold one value, where overrides replace those of the file, then `environment` and
 * `tags`. Returns the set of parameters that the values use. */
static uint64_t print_head(FILE *to, const struct job_reader *reader, const struct job_overrides *overrides) {
    const struct yaml_node *root = yaml_root(reader->document);
    uint64_t used = 0;
    fputs("version: 1\nname: ", to);
    job_print_text(to, reader->job->name, true);
    fputc('\n', to);
    for (int i = 0; i < job_key_count; i++) {
        const struct job_key *key = &job_keys[i];
        if (key->scope != SCOPE_JOB || key->type == KEY_CUSTOM || strcmp(key->name, "name") == 0) continue;
        const char *override = !overrides                         ? NULL
                               : strcmp(key->name, "output") == 0 ? overrides->output
                               : key->type == KEY_DEVICE          ? overrides->device
                               : key->type == KEY_MEMORY          ? overrides->memory
                                                                  : NULL;
        const struct yaml_node *node = yaml_get(root, key->name);
        if (!override && !node && !*key->standard) continue;
        OWNED char *path = NULL;
        if (override && key->type == KEY_TEXT) { /* relative to the current directory, unlike a path in a job file */
            OWNED char *directory = *override == '/' ? must_strdup("") : getcwd(NULL, 0);
            path = must_printf("%s%s%s", directory ? directory : ".", *override == '/' ? "" : "/", override);
            /* YAML cannot hold such a path. `merge` and `reproduce` set another one. */
            if (text_not_utf8(path)) continue;
        }
        fprintf(to, "%s: ", key->name);
        if (override) { /* a size may read as a number, a path must not */
            job_print_text(to, path ? path : override, path != NULL);
        } else if (node) {
            used |= parameters_used(&reader->parameters, node);
            print_node(to, node);
        } else {
            fputs(key->standard, to);
        }
        fputc('\n', to);
    }
    const struct job *job = reader->job;
    for (int i = 0; i < job->variable_count; i++) fprintf(to, "%s%s", i ? ", " : "environment: [", job->variables[i]);
    if (job->variable_count) fputs("]\n", to);
    for (int i = 0; i < job->tag_count; i++) {
        fprintf(to, "%s%s: ", i ? ", " : "tags: {", job->tags[i].name);
        print_value(to, job->tags[i].value, job->tags[i].value->kind == YAML_STRING);
    }
    if (job->tag_count) fputs("}\n", to);
    return used;
}

char *job_resolve(const struct job_reader *reader, const struct definitions *definitions,
                  const struct job_overrides *overrides) {
    char *text;
    FILE *to = must_stream(&text);
    uint64_t used = print_head(to, reader, overrides);
    bool has_inputs = false;
    for (int i = 0; i < definitions->count; i++) {
        if (!definitions->items[i].kept) continue;
        used |= definitions->items[i].uses;
        has_inputs |= definitions->items[i].is_input;
    }
    print_sweep(to, reader, used);
    if (has_inputs) fputs("inputs:\n", to);
    for (int i = 0; i < definitions->count; i++)
        if (definitions->items[i].kept && definitions->items[i].is_input)
            print_definition(to, reader, &definitions->items[i]);
    fputs("operations:\n", to);
    for (int i = 0; i < definitions->count; i++)
        if (definitions->items[i].kept && !definitions->items[i].is_input)
            print_definition(to, reader, &definitions->items[i]);
    fclose(to);
    return text;
}
