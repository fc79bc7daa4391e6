/* yaml_join.c - takes nodes of another document into a document: included files, and values from elsewhere. */
#include "../base/fail.h"
#include "yaml_parts.h"

#include <stdlib.h>
#include <string.h>

/* Moves the nodes and sources of `other` to the document, and numbers the sources on. */
static void adopt_nodes(struct yaml_document *document, struct yaml_document *other) {
    struct owned_node **end = &other->nodes;
    struct yaml_source *last = document->source;
    while (*end) end = &(*end)->next;
    *end = document->nodes;
    document->nodes = other->nodes;
    while (last->next) last = last->next;
    last->next = other->source;
    for (struct yaml_source *source = other->source; source; source = source->next) {
        source->number = last->number + 1;
        last = source;
    }
    other->nodes = NULL;
    other->source = NULL;
}

const struct yaml_node *yaml_value(struct yaml_document *document, const char *text) {
    struct yaml_document *other = yaml_parse("", text, strlen(text));
    const struct yaml_node *root = other->root;
    for (struct owned_node *owned = other->nodes; owned; owned = owned->next) {
        owned->node.line = owned->node.column = 0;
        owned->node.source = document->source;
    }
    if (root) adopt_nodes(document, other);
    yaml_close(other);
    return root;
}

struct yaml_node *yaml_include(struct yaml_document *document, const struct yaml_node *where, const char *path) {
    int included = 0;
    for (const struct yaml_source *source = document->source->next; source; source = source->next) included++;
    if (included == YAML_MAX_INCLUDES) {
        yaml_error(document, where, "more than %d files are included", YAML_MAX_INCLUDES);
        return NULL;
    }
    struct yaml_document *other = yaml_load(path);
    struct yaml_node *root = other->diagnostics.count == 0 ? other->root : NULL;
    const struct diagnostics faults = other->diagnostics;
    adopt_nodes(document, other);
    for (int i = 0; i < faults.count && i < YAML_MAX_ERRORS; i++) {
        const struct diagnostic *fault = &faults.items[i];
        const struct yaml_node position = {.source = fault->source, .line = fault->line, .column = fault->column};
        if (fault->line > 0)
            yaml_error(document, &position, "%s", fault->text);
        else
            yaml_error(document, where, "%s: %s", path, fault->text);
    }
    yaml_close(other);
    return root;
}

void yaml_merge(struct yaml_node *map, const struct yaml_node *more) {
    size_t bytes = sizeof *map->keys * (size_t)(map->count + more->count + 1);
    struct yaml_node **keys = must_malloc(bytes), **items = must_malloc(bytes);
    int count = 0;
    for (int i = 0; i < more->count; i++) {
        struct yaml_node *value = yaml_get(map, more->keys[i]->text);
        if (value && value->kind == YAML_MAP && more->items[i]->kind == YAML_MAP) yaml_merge(value, more->items[i]);
        keys[count] = more->keys[i]; /* no error is reported at a key that the map has too */
        items[count++] = value ? value : more->items[i];
    }
    for (int i = 0; i < map->count; i++) {
        if (yaml_get(more, map->keys[i]->text)) continue;
        keys[count] = map->keys[i];
        items[count++] = map->items[i];
    }
    free(map->keys);
    free(map->items);
    map->keys = keys;
    map->items = items;
    map->count = count;
}

void yaml_set_wrong(const struct yaml_node *node) {
    ((struct yaml_node *)node)->wrong = true; /* a note of the reader, not a part of what the file says */
}

void yaml_set_text(struct yaml_node *scalar, const char *text) {
    free(scalar->text);
    scalar->text = must_strdup(text);
    scalar->kind = YAML_STRING;
    scalar->quoted = false;
    scalar->replaced = true;
    yaml_resolve_type(scalar);
}
