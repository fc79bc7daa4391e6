/* job_definition.c - finds definitions and their values. */
#include "job_definition.h"

#include <ctype.h>
#include <string.h>

bool is_identifier(const char *text) {
    if (!isalpha((unsigned char)*text) && *text != '_') return false;
    while (isalnum((unsigned char)*text) || *text == '_' || *text == '-') text++;
    return !*text;
}

const struct definition *definition_find(const struct definitions *definitions, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(definitions->items[i].name, name) == 0) return &definitions->items[i];
    return NULL;
}

const struct yaml_node *definition_get(const struct job_reader *reader, const struct definition *definition,
                                       const char *key) {
    const struct yaml_node *value = yaml_get(definition->node, key);
    return value ? value : yaml_get(reader->defaults, key);
}
