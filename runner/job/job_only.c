/* job_only.c - --only: keeps some operations, and some of their variants. */
#include "job_parts.h"

#include "../base/fail.h"
#include "../base/spelling.h"

#include <stdlib.h>
#include <string.h>

#define MAX_LIST 211 /* bytes of a list of variants in a message */

/* ---- which operations ------------------------------------------------------------------------------------------ */

/* The operation called `name`. Reports that there is none and returns NULL. */
static struct definition *find_named(struct job_reader *reader, struct definitions *definitions, const char *name) {
    OWNED const char **ids = must_malloc(sizeof *ids * (size_t)(definitions->count + 1));
    struct definition *found = NULL;
    int count = 0;
    for (int i = 0; i < definitions->count && !found; i++) {
        struct definition *definition = &definitions->items[i];
        if (definition->is_input) continue;
        ids[count++] = definition->name;
        if (strcmp(definition->name, name) == 0) found = definition;
    }
    char hint[HINT_TEXT];
    if (!found)
        yaml_error(reader->document, NULL, "--only: no operation '%s'%s", name, name_hint(name, ids, count, "", hint));
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

/* Adds the VARIANT in the first `length` bytes of a text to those that --only selects of a definition. */
static void add_variant(struct job_reader *reader, struct definition *definition, const char *text, size_t length,
                        bool winners) {
    if (length == 0) {
        yaml_error(reader->document, NULL, "--only %s: names no variant: write %s:VARIANT, or %s for all",
                   definition->name, definition->name, definition->name);
        return;
    }
    *APPEND(definition->only, definition->only_count) =
        (struct only_variant){.label = must_printf("%.*s", (int)length, text), .silent = winners};
}

void only_forget(struct definition *definition) {
    for (int i = 0; i < definition->only_count; i++) free(definition->only[i].label);
    free(definition->only);
    definition->only = NULL;
    definition->only_count = 0;
}

void only_keep(struct job_reader *reader, struct definitions *definitions, const char *list, bool winners) {
    OWNED bool *without_variant = must_zeroed((size_t)definitions->count * sizeof *without_variant);
    for (int i = 0; i < definitions->count; i++) definitions->items[i].kept = false;
    for (const char *rest = list;;) {
        size_t length = strcspn(rest, ",:");
        OWNED char *name = must_printf("%.*s", (int)length, rest);
        struct definition *definition = find_named(reader, definitions, name);
        bool restricted = rest[length] == ':';
        const char *variant = rest + length + restricted;
        size_t labelled = restricted ? variant_length(variant) : 0;
        if (definition) definition->kept = true;
        if (definition && restricted) add_variant(reader, definition, variant, labelled, winners);
        if (definition && !restricted) without_variant[definition - definitions->items] = true;
        rest = variant + labelled;
        if (!*rest) break;
        rest++;
    }
    for (int i = 0; i < definitions->count; i++)
        if (without_variant[i]) only_forget(&definitions->items[i]);
    for (int i = definitions->count - 1; i >= 0; i--) {
        const struct definition *definition = &definitions->items[i];
        for (int j = 0; definition->kept && j < definition->read_count; j++)
            definitions->items[definition->reads[j]].kept = true;
    }
}

/* ---- which variants -------------------------------------------------------------------------------------------- */

/* Reports that an operation has no variant with the label or name `wanted`, and lists those that it has. */
static void report_unknown_variant(struct job_reader *reader, const struct definition *definition, const char *wanted,
                                   const struct job_operation *operation) {
    OWNED const char **known = must_malloc(2 * sizeof *known * (size_t)operation->variant_count);
    OWNED char *list = must_strdup("; it has ");
    for (int i = 0; i < operation->variant_count; i++) {
        known[2 * i] = operation->variants[i].label;
        known[2 * i + 1] = operation->variants[i].name;
        must_append(&list, "%s%s", i ? ", " : "", operation->variants[i].label);
    }
    if (strlen(list) > MAX_LIST) memcpy(list + MAX_LIST - 3, "...", 4);
    /* Names the combination that lacks the variant, if combinations differ in their variants. */
    uint64_t used = parameters_used(&reader->parameters, yaml_get(definition->node, "variants"));
    OWNED char *label = combination_label(&reader->parameters, used & reader->swept, reader->choice);
    char hint[HINT_TEXT];
    yaml_error(reader->document, NULL, "--only %s:%s: no such variant in the job%s%s%s", definition->name, wanted,
               *label ? " with " : "", label, name_hint(wanted, known, 2 * operation->variant_count, list, hint));
}

void only_choose(struct job_reader *reader, const struct definition *definition, struct job_operation *operation) {
    if (definition->only_count == 0 || operation->variant_count == 0) return;
    OWNED bool *wanted = must_zeroed((size_t)operation->variant_count * sizeof *wanted);
    for (int i = 0; i < definition->only_count; i++) {
        struct only_variant *only = &definition->only[i];
        bool found = false;
        for (int v = 0; v < operation->variant_count; v++) {
            struct job_variant *variant = &operation->variants[v];
            if (strcmp(variant->label, only->label) == 0) variant->search.group = 0; /* it is chosen already */
            if (strcmp(variant->label, only->label) != 0 && strcmp(variant->name, only->label) != 0) continue;
            wanted[v] = found = true;
        }
        if (!found && !only->silent) report_unknown_variant(reader, definition, only->label, operation);
        only->silent = only->silent || !found;
    }
    int count = 0;
    for (int v = 0; v < operation->variant_count; v++)
        if (wanted[v])
            operation->variants[count++] = operation->variants[v];
        else
            job_variant_free(&operation->variants[v]);
    operation->variant_count = count;
}
