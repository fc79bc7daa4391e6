/* job_only.c - --only: keeps some operations, and some of their variants. */
#include "job_only.h"

#include "../base/fail.h"
#include "../base/text.h"
#include "job_expand.h"

#include <stdlib.h>
#include <string.h>

/* ---- which operations ------------------------------------------------------------------------------------------ */

/* The operation called `name`; NULL: there is none, which it reports. */
static struct definition *find_named(struct job_reader *reader, struct definitions *definitions, const char *name) {
    const char **ids = must_malloc(sizeof *ids * (size_t)(definitions->count + 1));
    struct definition *found = NULL;
    int count = 0;
    for (int i = 0; i < definitions->count && !found; i++) {
        struct definition *definition = &definitions->items[i];
        if (definition->is_input) continue;
        ids[count++] = definition->name;
        if (strcmp(definition->name, name) == 0) found = definition;
    }
    const char *nearest = found ? NULL : nearest_name(name, ids, count);
    if (nearest)
        yaml_error(reader->document, NULL, "--only: no operation '%s' (did you mean '%s'?)", name, nearest);
    else if (!found)
        yaml_error(reader->document, NULL, "--only: no operation '%s'", name);
    free(ids);
    return found;
}

/* The length of the VARIANT at the beginning of `text`: it ends at the first comma whose next entry has no '='. */
static size_t variant_length(const char *text) {
    size_t length = strcspn(text, ",");
    while (text[length]) {
        size_t next = strcspn(text + length + 1, ",");
        if (!memchr(text + length + 1, '=', next)) break;
        length += 1 + next;
    }
    return length;
}

static void add_variant(struct job_reader *reader, struct definition *definition, const char *text, size_t length) {
    if (length == 0) {
        yaml_error(reader->document, NULL, "--only %s: names no variant: write %s:VARIANT, or %s for all",
                   definition->name, definition->name, definition->name);
        return;
    }
    definition->only = must_realloc(definition->only, sizeof *definition->only * (size_t)(definition->only_count + 1));
    definition->only[definition->only_count++] = (struct only_variant){must_printf("%.*s", (int)length, text), false};
}

static void keep_all_variants(struct definition *definition) {
    for (int i = 0; i < definition->only_count; i++) free(definition->only[i].label);
    free(definition->only);
    definition->only = NULL;
    definition->only_count = 0;
}

void only_keep(struct job_reader *reader, struct definitions *definitions, const char *list) {
    bool *whole = must_malloc((size_t)definitions->count * sizeof *whole + 1); /* listed without a variant */
    memset(whole, 0, (size_t)definitions->count * sizeof *whole);
    for (int i = 0; i < definitions->count; i++) definitions->items[i].kept = false;
    for (const char *rest = list;;) {
        size_t length = strcspn(rest, ",:");
        char *name = must_printf("%.*s", (int)length, rest);
        struct definition *definition = find_named(reader, definitions, name);
        free(name);
        bool restricted = rest[length] == ':';
        const char *variant = rest + length + restricted;
        size_t labelled = restricted ? variant_length(variant) : 0;
        if (definition) definition->kept = true;
        if (definition && restricted) add_variant(reader, definition, variant, labelled);
        if (definition && !restricted) whole[definition - definitions->items] = true;
        rest = variant + labelled;
        if (!*rest) break;
        rest++;
    }
    for (int i = 0; i < definitions->count; i++)
        if (whole[i]) keep_all_variants(&definitions->items[i]);
    free(whole);
    for (int i = definitions->count - 1; i >= 0; i--) {
        const struct definition *definition = &definitions->items[i];
        for (int j = 0; definition->kept && j < definition->read_count; j++)
            definitions->items[definition->reads[j]].kept = true;
    }
}

/* ---- which variants -------------------------------------------------------------------------------------------- */

static void report_unknown_variant(struct job_reader *reader, const struct definition *definition, const char *wanted,
                                   const struct job_operation *operation) {
    const char **known = must_malloc(2 * sizeof *known * (size_t)operation->variant_count);
    char list[200] = "";
    size_t length = 0;
    for (int i = 0; i < operation->variant_count; i++) {
        known[2 * i] = operation->variants[i].label;
        known[2 * i + 1] = operation->variants[i].name;
        if (length < sizeof list)
            length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", i ? ", " : "",
                                       operation->variants[i].label);
    }
    /* Names the combination that lacks the variant, if combinations differ in their variants. */
    uint64_t used = parameters_used(&reader->parameters, NULL, yaml_get(definition->node, "variants"));
    char *label = combination_label(&reader->parameters, used & reader->swept, reader->choice);
    const char *nearest = nearest_name(wanted, known, 2 * operation->variant_count);
    if (nearest)
        yaml_error(reader->document, NULL, "--only %s:%s: no such variant in the job%s%s (did you mean '%s'?)",
                   definition->name, wanted, *label ? " with " : "", label, nearest);
    else
        yaml_error(reader->document, NULL, "--only %s:%s: no such variant in the job%s%s; it has %s%s",
                   definition->name, wanted, *label ? " with " : "", label, list, length < sizeof list ? "" : "...");
    free(label);
    free(known);
}

void only_choose(struct job_reader *reader, const struct definition *definition, struct job_operation *operation) {
    if (definition->only_count == 0 || operation->variant_count == 0) return;
    bool *wanted = must_malloc((size_t)operation->variant_count * sizeof *wanted);
    memset(wanted, 0, (size_t)operation->variant_count * sizeof *wanted);
    for (int i = 0; i < definition->only_count; i++) {
        struct only_variant *only = &definition->only[i];
        bool found = false;
        for (int v = 0; v < operation->variant_count; v++) {
            const struct job_variant *variant = &operation->variants[v];
            if (strcmp(variant->label, only->label) != 0 && strcmp(variant->name, only->label) != 0) continue;
            wanted[v] = found = true;
        }
        if (!found && !only->reported) report_unknown_variant(reader, definition, only->label, operation);
        only->reported = only->reported || !found;
    }
    int left = 0;
    for (int v = 0; v < operation->variant_count; v++)
        if (wanted[v])
            operation->variants[left++] = operation->variants[v];
        else
            job_variant_free(&operation->variants[v]);
    operation->variant_count = left;
    free(wanted);
}
