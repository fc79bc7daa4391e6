/* job_check.c - checks the keys of a map: unknown ones, and those that belong to another map or another operation. */
#include "job_read.h"

#include "../base/fail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes the kinds that have the key: "matmul", "matmul or scale". */
static void join_kinds(const struct job_key *key, char text[128]) {
    size_t length = 0;
    for (int i = 0; key->applies_to[i] && length < 128; i++)
        length += (size_t)snprintf(text + length, 128 - length, "%s%s", i ? " or " : "", key->applies_to[i]);
}

/* Writes where keys of that name belong: "an input or an operation"; "": nowhere. */
static void find_homes(const char *name, char text[128]) {
    static const char *const homes[SCOPE_COUNT] = {
        [SCOPE_JOB] = "the top level",      [SCOPE_INPUT] = "an input",      [SCOPE_RANDOM] = "'random'",
        [SCOPE_OPERATION] = "an operation", [SCOPE_OPTION] = "an operation", [SCOPE_RESULT] = "an operation",
        [SCOPE_RUN] = "'defaults'",         [SCOPE_REPEAT] = "'repeat'",     [SCOPE_SEARCH] = "'search'",
    };
    *text = '\0';
    for (int i = 0; i < job_key_count; i++) {
        const char *home = strcmp(job_keys[i].name, name) == 0 ? homes[job_keys[i].scope] : NULL;
        size_t length = strlen(text);
        if (home && !strstr(text, home)) snprintf(text + length, 128 - length, "%s%s", *text ? " or " : "", home);
        if (home && job_keys[i].scope == SCOPE_RUN) snprintf(text, 128, "an operation or 'defaults'");
    }
    bool parameter = strcmp(name, JOB_THREADS) == 0;
    for (int k = 0; k < kernel_count; k++)
        for (int p = 0; p < KERNEL_MAX_PARAMETERS && kernel_registry[k]->parameters[p].name; p++)
            parameter = parameter || strcmp(kernel_registry[k]->parameters[p].name, name) == 0;
    if (!*text && parameter) snprintf(text, 128, "an entry of 'variants'");
}

#define MAX_KEYS 64 /* of one map */

/* Reports the key `node` if a map of this kind (job_check_keys) cannot have it: the key applies to another kind,
 * belongs to another map, or is unknown. A misspelt key is renamed in the tree to the one that is probably meant,
 * unless the map has that one too, so that its value is read and it is not reported as missing. If no name is near, the
 * map is marked as wrong (yaml_set_wrong), because any of its keys may be meant. */
static void check_key(struct job_reader *reader, const struct yaml_node *map, struct yaml_node *node, unsigned scopes,
                      const char *kind) {
    const char *names[MAX_KEYS];
    int count = 0;
    for (int i = 0; i < job_key_count; i++) {
        const struct job_key *key = &job_keys[i];
        if (!(scopes >> key->scope & 1)) continue;
        if (strcmp(key->name, node->text) != 0) {
            if (key_applies(key, kind)) names[count++] = key->name;
            continue;
        }
        if (key_applies(key, kind)) return;
        char kinds[128];
        join_kinds(key, kinds);
        job_error(reader, node, "'%s' does not apply to %s (only to %s)", key->name, kind, kinds);
        return;
    }
    char homes[128];
    find_homes(node->text, homes);
    if (*homes) {
        job_error(reader, node, "'%s' belongs to %s, not here", node->text, homes);
        return;
    }
    const char *meant = job_error_unknown(reader, node, "key", node->text, names, count);
    if (!meant) yaml_set_wrong(map);
    if (!meant || yaml_get(map, meant)) return;
    free(node->text);
    node->text = must_strdup(meant);
}

void job_check_keys(struct job_reader *reader, const struct yaml_node *map, unsigned scopes, const char *kind) {
    bool failed = reader->failed;
    for (int i = 0; i < map->count; i++) check_key(reader, map, map->keys[i], scopes, kind);
    reader->failed = failed; /* a wrong key does not affect the values of others */
}
