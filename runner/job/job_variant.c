/* job_variant.c - reads `variants`: one variant for each combination of its own parameters' values. */
#include "job_parts.h"

#include "../base/fail.h"
#include "../base/path.h"
#include "../base/spelling.h"
#include "../base/texts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_VARIANTS 1024 /* of one operation */

void job_variant_free(struct job_variant *variant) {
    free(variant->name);
    free(variant->label);
    for (int i = 0; i < variant->count; i++) {
        free(variant->names[i]);
        free(variant->values[i]);
    }
    job_source_free(variant->source);
}

/* Does a variant of a built-in kernel, or of a source, have this key besides its parameters? */
static bool is_variant_key(const char *key, bool source) {
    return IS_ONE_OF(key, "name", "where", "search") ||
           (source && IS_ONE_OF(key, "source", "kernel", "block", "grid", "shared"));
}

/* Sets the label from the name and the parameters. */
static void set_label(struct job_variant *variant) {
    free(variant->label);
    variant->label = must_strdup(variant->name);
    for (int i = 0; i < variant->count; i++)
        must_append(&variant->label, ",%s=%s", variant->names[i], variant->values[i]);
}

/* Has the operation a variant with this label? */
static bool has_label(const struct job_operation *operation, const char *label) {
    for (int i = 0; i < operation->variant_count; i++)
        if (strcmp(operation->variants[i].label, label) == 0) return true;
    return false;
}

/* Adds the variant; if its label exists already, reports that and frees the variant. Beside `mine` of mine.c, the
 * variant of mine.cu is called `mine_cu`. */
static void add_variant(struct job_reader *reader, struct job_operation *operation, struct job_variant *variant) {
    set_label(variant);
    if (variant->source && !yaml_get(variant->source->map, "name") && has_label(operation, variant->label)) {
        must_append(&variant->name, "_%s", variant->source->cuda ? "cu" : "c");
        set_label(variant);
    }
    if (has_label(operation, variant->label)) {
        job_error(reader, variant->where, "variant '%s' is listed twice%s", variant->label,
                  variant->source ? ": set `name` to tell them apart" : "");
        job_variant_free(variant);
        return;
    }
    *APPEND(operation->variants, operation->variant_count) = *variant;
}

/* The parameters of a variant, and the lists or values that the job gives them. */
struct given {
    const struct yaml_node *map; /* the variant's map; NULL: the variant is written as a name */
    int count;
    const char *names[JOB_MAX_PARAMETERS + 2]; /* one more than are allowed, then the run option `threads` */
    const struct yaml_node *values[JOB_MAX_PARAMETERS + 2];
};

/* May a variant's parameter have this value? Only `threads` is checked here, others against the kernel (plan/). */
static bool is_allowed(const char *name, const struct yaml_node *value) {
    return strcmp(name, JOB_THREADS) != 0 ||
           (value->real >= 1 && isfinite(value->real) && !strpbrk(value->text, ".eE"));
}

/* Adds a copy of the variant with all of its values, unless its `where` is false for them. */
static void add_swept(struct job_reader *reader, struct job_operation *operation, const struct yaml_node *map,
                      const struct job_variant *values) {
    if (!job_variant_holds(reader, map, values)) return;
    struct job_variant variant = *values;
    if (yaml_get(map, "source") && !(variant.source = job_read_source(reader, map, values))) return;
    variant.name = must_strdup(values->name);
    for (int i = 0; i < variant.count; i++) {
        variant.names[i] = must_strdup(values->names[i]);
        variant.values[i] = must_strdup(values->values[i]);
    }
    add_variant(reader, operation, &variant);
}

/* Adds a variant for each combination of the parameters from index `at` on; `values` has the values of the earlier ones
 * and owns no text. */
static void sweep_variant(struct job_reader *reader, struct job_operation *operation, const struct given *given, int at,
                          struct job_variant *values) {
    values->count = at;
    if (at == given->count) {
        add_swept(reader, operation, given->map, values);
        return;
    }
    const char *name = given->names[at];
    const struct yaml_node *node = given->values[at];
    bool list = node->kind == YAML_LIST;
    if (list && node->count == 0) job_error(reader, node, "'%s' is an empty list", name);
    for (int i = 0; i < (list ? node->count : 1); i++) {
        const struct yaml_node *item = list ? node->items[i] : node;
        const struct yaml_node *value = job_read_scalar(reader, item, name);
        if (!value) break;
        if (!is_allowed(name, value)) {
            static const char expected[] = "a whole number of at least 1";
            if (value->quoted)
                job_error_quoted(reader, item, name, expected, value->text);
            else
                job_error(reader, item, "'%s' must be %s, not '%s'", name, expected, value->text);
            continue;
        }
        values->names[at] = (char *)name;
        values->values[at] = value->text;
        values->parameter_where[at] = item;
        sweep_variant(reader, operation, given, at + 1, values);
    }
}

/* The run option `threads`, for a variant that may use it; NULL: it is not given, or the variant runs on a GPU. */
static const struct yaml_node *threads_of(struct job_reader *reader, const struct job_operation *operation,
                                          const struct yaml_node *map, const char *name) {
    const struct yaml_node *value = yaml_get(operation->node, JOB_THREADS);
    if (!value) value = yaml_get(reader->defaults, JOB_THREADS);
    const struct yaml_node *source = yaml_get(map, "source");
    if (source) return source->text && strcmp(path_suffix(source->text), ".c") == 0 ? value : NULL;
    const struct kernel *kernel = kernel_find(operation->op, name);
    return (kernel && kernel->device == DEVICE_CPU) || strcmp(name, "auto") == 0 ? value : NULL;
}

/* Collects the parameters of a variant: its own, and the run option `threads` if it has none of its own. Stops at the
 * first parameter beyond the maximum, which the caller reports. */
static struct given collect_given(struct job_reader *reader, const struct job_operation *operation,
                                  const struct yaml_node *map, const char *name) {
    struct given given = {.map = map};
    const struct yaml_node *threads = threads_of(reader, operation, map, name);
    for (int i = 0; map && i < map->count; i++) {
        if (is_variant_key(map->keys[i]->text, yaml_get(map, "source"))) continue;
        if (given.count > JOB_MAX_PARAMETERS) break;
        if (strcmp(map->keys[i]->text, JOB_THREADS) == 0) threads = NULL;
        given.names[given.count] = map->keys[i]->text;
        given.values[given.count++] = map->items[i];
    }
    if (threads) {
        given.names[given.count] = JOB_THREADS;
        given.values[given.count++] = threads;
    }
    return given;
}

/* The name of a variant with a source: its `name`, else its `kernel`, else the file's name without suffix. Reports a
 * name that is malformed or taken and returns NULL. The caller frees. */
static char *source_name(struct job_reader *reader, const struct yaml_node *map, enum op op) {
    const struct yaml_node *given = yaml_get(map, "name"), *source = yaml_get(map, "source");
    if (!given) given = yaml_get(map, "kernel");
    char *name = job_read_text(reader, given ? given : source, given ? "name" : "source");
    if (!name) return NULL;
    if (!given) {
        OWNED char *path = name;
        name = path_stem(path);
    }
    bool good = is_identifier(name), taken = kernel_find(op, name) || strcmp(name, "auto") == 0;
    if (good && !taken) return name;
    if (!good)
        job_error(reader, given ? given : source,
                  "'%s' is not a variant's name: use a letter or '_', then letters, digits, '_', '-'", name);
    else
        job_error(reader, given ? given : source, "%s already has a variant '%s': give this one another `name`",
                  operations[op]->name, name);
    free(name);
    return NULL;
}

/* Reports a name that no variant of the operation has. */
static void check_variant(struct job_reader *reader, const struct yaml_node *where, const char *name, enum op op) {
    const char *names[MAX_KERNELS], *kind = operations[op]->name;
    if (kernel_find(op, name)) return;
    int count = kernel_names(op, names, MAX_KERNELS);
    char hint[HINT_TEXT], list[HINT_TEXT];
    snprintf(list, sizeof list, "; `tilerun list %s` shows them", kind);
    job_error(reader, where, "unknown variant '%s' of %s%s", name, kind, name_hint(name, names, count, list, hint));
}

/* Reads `search` of a variant's map into the variants that the map's lists have given: those from number `before`
 * on. */
static void read_search(struct job_reader *reader, const struct yaml_node *map, int64_t combinations,
                        struct job_operation *operation, int before) {
    const struct yaml_node *node = yaml_get(map, "search");
    struct job_search search = {.group = before + 1};
    if (!node) return;
    if (node->kind != YAML_MAP) {
        job_error(reader, node, "'search' must be a map such as {budget: 60s}");
        return;
    }
    job_check_keys(reader, node, 1u << SCOPE_SEARCH, NULL);
    job_read_keys(reader, SCOPE_SEARCH, NULL, node, NULL, &search);
    if (combinations < 2)
        job_error(reader, node, "'search' has nothing to choose from: no parameter of this variant is a list");
    for (int i = before; i < operation->variant_count; i++) operation->variants[i].search = search;
}

/* Reads an entry of `variants`: adds a variant for each combination of the lists among its parameters. */
static void read_variant(struct job_reader *reader, struct job_operation *operation, const struct yaml_node *node) {
    struct job_variant variant = {.where = node, .entry = node};
    const struct yaml_node *source = yaml_get(node, "source");
    const struct yaml_node *name = node->kind == YAML_MAP ? yaml_get(node, "name") : node;
    if (!name && !source) {
        job_error(reader, node, "'name' is missing: a variant must be a name, or {name: NAME, PARAMETER: VALUE}");
        return;
    }
    variant.where = name ? name : source;
    OWNED char *called = source ? source_name(reader, node, operation->op) : job_read_text(reader, name, "variant");
    if (!(variant.name = called)) return;
    struct given given = collect_given(reader, operation, node->kind == YAML_MAP ? node : NULL, variant.name);
    if (given.count > JOB_MAX_PARAMETERS) {
        job_error(reader, node, "a variant can have at most %d parameters besides its threads", KERNEL_MAX_PARAMETERS);
        return;
    }
    int64_t sweep = 1;
    for (int i = 0; i < given.count && sweep <= MAX_VARIANTS; i++)
        if (given.values[i]->kind == YAML_LIST) sweep *= given.values[i]->count;
    if (operation->variant_count + sweep > MAX_VARIANTS) {
        job_error(reader, node, "more than %d variants of one operation", MAX_VARIANTS);
        return;
    }
    if (!source && strcmp(variant.name, "auto") != 0) check_variant(reader, name, variant.name, operation->op);
    int before = operation->variant_count;
    sweep_variant(reader, operation, &given, 0, &variant);
    read_search(reader, node, sweep, operation, before);
    if (operation->variant_count == before && yaml_error_count(reader->document) == 0)
        job_error(reader, node, "'where' is false for all values of this variant: nothing is left to run");
}

void job_read_variants(struct job_reader *reader, const struct yaml_node *list, struct job_operation *operation) {
    if (!list) {
        struct job_variant variant = {.where = operation->where, .name = "auto"};
        const struct given given = collect_given(reader, operation, NULL, "auto");
        sweep_variant(reader, operation, &given, 0, &variant);
        return;
    }
    if (!job_expect_list(reader, list, "variants")) return;
    if (list->count == 0) job_error(reader, list, "'variants' is an empty list: leave it out for 'auto'");
    for (int i = 0; i < list->count; i++) read_variant(reader, operation, list->items[i]);
}
