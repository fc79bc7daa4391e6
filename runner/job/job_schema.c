/* job_schema.c - prints the table of keys as a JSON schema (draft 2020-12, for editors) and as a reference in
 * Markdown. */
#include "job_keys.h"

#include "../base/json.h"

#include <float.h>
#include <string.h>

/* ---- JSON schema ----------------------------------------------------------------------------------------------- */

/* Prints JSON that is written here with single quotes. */
static void print_json(FILE *to, const char *json) {
    for (; *json; json++) putc(*json == '\'' ? '"' : *json, to);
}

/* Prints the schema of a number, without bounds that allow any number. `high` 0: no upper bound. */
static void print_range(FILE *to, const char *type, double low, double high) {
    fprintf(to, "{\"type\": \"%s\"", type);
    if (low > -DBL_MAX) fprintf(to, ", \"minimum\": %.0f", low);
    if (high > 0 && high < 0x1p62) fprintf(to, ", \"maximum\": %.0f", high);
    fputs("}", to);
}

#define SCALAR    "{'$ref': '#/$defs/scalar'}"
#define PARAMETER "{'$ref': '#/$defs/parameter'}"
#define TEXTS     "{'type': 'array', 'items': {'type': 'string'}}"
#define COUNT     "{'type': 'integer', 'minimum': 1}"

/* The schemas of keys that hold a list or a map. */
static const char *const custom_schemas[][2] = {
    {"version", "{'const': 1}"},
    {"parameters", "{'type': 'object', 'additionalProperties': {'anyOf': [" SCALAR
                   ", {'type': 'array', 'minItems': 1, 'items': " SCALAR "}, {'type': 'object', 'required': ['from', "
                   "'to'], 'additionalProperties': false, 'properties': {'from': " SCALAR ", 'to': " SCALAR
                   ", 'step': " SCALAR ", 'times': " SCALAR "}}]}}"},
    {"include", "{'anyOf': [{'type': 'string'}, " TEXTS "]}"},
    {"environment", TEXTS},
    {"tags", "{'type': 'object', 'additionalProperties': " SCALAR "}"},
    {"zip", "{'type': 'array', 'items': {'anyOf': [{'type': 'string'}, " TEXTS "]}}"},
    {"where", "{'anyOf': [{'type': 'string'}, " TEXTS "]}"},
    {"inputs", "{'type': 'object', 'patternProperties': {'^x-': {}}, 'additionalProperties': {'$ref': "
               "'#/$defs/input'}}"},
    {"defaults", "{'$ref': '#/$defs/defaults'}"},
    {"operations", "{'type': 'array', 'minItems': 1, 'items': {'$ref': '#/$defs/operation'}}"},
    {"threads", "{'anyOf': [" COUNT ", " PARAMETER ", {'type': 'array', 'minItems': 1, 'items': {'anyOf': [" COUNT
                ", " PARAMETER "]}}]}"},
    {"random", "{'$ref': '#/$defs/random'}"},
    {"variants", "{'type': 'array', 'minItems': 1, 'items': {'anyOf': [{'type': 'string'}, {'type': 'object', 'anyOf': "
                 "[{'required': ['name']}, {'required': ['source']}], 'properties': {'name': {'type': 'string'}, "
                 "'source': {'type': 'string'}, 'kernel': {'type': 'string'}, 'search': {'$ref': "
                 "'#/$defs/search'}}}]}}"},
};

/* The schemas of keys of the types that have no range and no words. */
static const char *const type_schemas[KEY_TYPE_COUNT] = {
    [KEY_BOOL] = "{'type': 'boolean'}",
    [KEY_TEXT] = "{'type': 'string', 'minLength': 1}",
    [KEY_ROWS] = "{'type': 'array', 'minItems': 2, 'maxItems': 2, 'items': {'anyOf': [{'type': 'integer', 'minimum': "
                 "0}, " PARAMETER "]}}",
    [KEY_SELECT] = "{'type': 'array', 'minItems': 1, 'maxItems': 8, 'items': {'anyOf': [{'type': 'integer'}, {'type': "
                   "'string', 'pattern': '[$]|^(-?[0-9]+|-?[0-9]*:-?[0-9]*(:[0-9]*)?)$'}]}}",
    [KEY_AXIS] = "{'anyOf': [{'type': 'integer'}, {'const': 'all'}, {'type': 'array', 'minItems': 1, 'items': "
                 "{'type': 'integer'}}]}",
    [KEY_AXES] = "{'type': 'array', 'minItems': 2, 'items': {'type': 'integer'}}",
    [KEY_NUMBERS] = "{'type': 'number'}, {'type': 'array', 'minItems': 1, 'maxItems': 16, 'items': {'type': 'number'}}",
    [KEY_FRACTION] = "{'anyOf': [{'type': 'number', 'exclusiveMinimum': 0, 'exclusiveMaximum': 1}, {'type': 'string', "
                     "'pattern': '%$'}]}",
    [KEY_DURATION] = "{'type': 'string', 'pattern': '^(none|[0-9.]+ *(ms|s|min|h))$'}",
    [KEY_REPEAT] = "{'anyOf': [" COUNT ", {'$ref': '#/$defs/repeat'}]}",
    [KEY_DEVICE] = "{'anyOf': [{'type': 'string', 'pattern': '^(auto|cpu|cuda|cuda:[0-9]+|cuda:all)$'}, {'type': "
                   "'array', 'minItems': 1, 'items': {'type': 'string'}}]}",
    [KEY_MEMORY] = "{'anyOf': [{'type': 'integer', 'minimum': 65536}, {'type': 'string', 'pattern': "
                   "'^[0-9.]+ *([KMGT]iB|[kMGT]B|%)?$'}]}",
    [KEY_EXPRESSION] = "{'type': ['string', 'number']}",
    [KEY_TO] = "{'type': 'string', 'pattern': '.:/.'}",
};
_Static_assert(MAX_RANK == 8 && MAX_INPUTS == 8 && JOB_MAX_MISSING == 16,
               "the schemas, and the help in job_keys.c, state these limits");

/* The schema of a key of type KEY_CUSTOM; "{}": anything is allowed. */
static const char *custom_schema(const struct job_key *key) {
    for (size_t i = 0; i < sizeof custom_schemas / sizeof *custom_schemas; i++)
        if (strcmp(custom_schemas[i][0], key->name) == 0) return custom_schemas[i][1];
    return "{}";
}

/* Prints the schemas of a key's values, as entries of a list `anyOf`. */
static void print_value_schema(FILE *to, const struct job_key *key) {
    const char *words[KEY_MAX_WORDS];
    int count = key->type == KEY_CUSTOM ? 0 : key_words(key, words);
    for (int i = 0; i < count; i++)
        fprintf(to, "%s\"%s\"%s", i ? ", " : "{\"enum\": [", words[i], i == count - 1 ? "]}" : "");
    if (key->type == KEY_SHAPE) {
        print_json(to, "{'type': 'array', 'minItems': 1, 'maxItems': 8, 'items': {'anyOf': [");
        print_range(to, "integer", key->low, 0);
        print_json(to, ", " PARAMETER "]}}");
    } else if (key->type == KEY_INTEGER || key->type == KEY_REAL) {
        print_range(to, key->type == KEY_REAL ? "number" : "integer", key->low, key->high);
    } else if (count == 0) {
        print_json(to, key->type == KEY_CUSTOM ? custom_schema(key) : type_schemas[key->type]);
    }
}

/* Prints ", " before each entry of a list but the first. */
static void separate(FILE *to, bool *any) {
    if (*any) fputs(", ", to);
    *any = true;
}

/* Prints the schema of a map with the keys of `scopes`, a set. */
static void print_properties(FILE *to, unsigned scopes, const char *indent) {
    bool any = false;
    fprintf(to,
            "%s\"type\": \"object\",\n%s\"additionalProperties\": false,\n%s\"patternProperties\": {\"^x-\": {}},\n",
            indent, indent, indent);
    fprintf(to, "%s\"required\": [", indent);
    for (int i = 0; i < job_key_count; i++) {
        const struct job_key *key = &job_keys[i];
        if (!(scopes >> key->scope & 1) || key->standard || key->applies_to) continue;
        separate(to, &any);
        fprintf(to, "\"%s\"", key->name);
    }
    fprintf(to, "],\n%s\"properties\": {\n", indent);
    const char *before = "";
    for (int i = 0; i < job_key_count; i++) {
        const struct job_key *key = &job_keys[i];
        if (!(scopes >> key->scope & 1)) continue;
        fprintf(to, "%s%s  \"%s\": {\"description\": ", before, indent, key->name);
        json_write_string(to, key->help, strlen(key->help));
        fputs(", \"anyOf\": [", to);
        if (key->scope == SCOPE_OPERATION && strcmp(key->name, "inputs") == 0)
            print_json(to, "{'type': 'array', 'minItems': 1, 'maxItems': 8, 'items': {'type': 'string'}}");
        else
            print_value_schema(to, key);
        print_json(to, key->type == KEY_CUSTOM ? "]}" : ", " PARAMETER "]}");
        before = ",\n";
    }
    fprintf(to, "\n%s}", indent);
}

/* For each word of the key `chooser`: forbids the keys that do not apply to it and requires those that it needs. */
static void print_conditions(FILE *to, unsigned scopes, const struct job_key *chooser) {
    const char *words[KEY_MAX_WORDS];
    int count = key_words(chooser, words);
    fputs(",\n      \"allOf\": [", to);
    for (int w = 0; w < count; w++) {
        bool standard = chooser->standard && strcmp(chooser->standard, words[w]) == 0, any = false;
        fprintf(to, "%s\n        {\"if\": {\"properties\": {\"%s\": {\"const\": \"%s\"}}", w ? "," : "", chooser->name,
                words[w]);
        if (!standard) fprintf(to, ", \"required\": [\"%s\"]", chooser->name);
        print_json(to, "}, 'then': {'properties': {");
        for (int i = 0; i < job_key_count; i++) {
            if (!(scopes >> job_keys[i].scope & 1) || key_applies(&job_keys[i], words[w])) continue;
            separate(to, &any);
            fprintf(to, "\"%s\": false", job_keys[i].name);
        }
        print_json(to, "}, 'required': [");
        any = false;
        for (int i = 0; i < job_key_count; i++) {
            const struct job_key *key = &job_keys[i];
            if (!(scopes >> key->scope & 1) || !key->applies_to || key->standard || !key_applies(key, words[w]))
                continue;
            separate(to, &any);
            fprintf(to, "\"%s\"", key->name);
        }
        print_json(to, "]}}");
    }
    print_json(to, "\n      ]");
}

/* Prints the definition of a map, "NAME": {...}. */
static void print_map(FILE *to, const char *name, unsigned scopes) {
    fprintf(to, ",\n    \"%s\": {\n", name);
    print_properties(to, scopes, "      ");
}

void job_print_schema(FILE *to) {
    const unsigned operation = 1u << SCOPE_OPERATION | 1u << SCOPE_OPTION | 1u << SCOPE_RESULT | 1u << SCOPE_RUN;
    print_json(to, "{\n  '$schema': 'https://json-schema.org/draft/2020-12/schema',\n  'title': 'tilerun job file',\n");
    print_properties(to, 1u << SCOPE_JOB, "  ");
    print_json(to, ",\n  '$defs': {\n"
                   "    'parameter': {'type': 'string', 'pattern': '[$]'},\n"
                   "    'scalar': {'type': ['string', 'number', 'boolean']}");
    print_map(to, "input", 1u << SCOPE_INPUT);
    print_json(
        to, ",\n      'oneOf': [\n        {'required': ['file', 'dataset'], 'properties': {'random': false}},\n"
            "        {'required': ['random'], 'properties': {'file': false, 'dataset': false, 'rows': false, 'select': "
            "false, 'dtype': false, 'field': false, 'decode': false, 'missing': false}}\n      ]\n    }");
    print_map(to, "random", 1u << SCOPE_RANDOM);
    print_conditions(to, 1u << SCOPE_RANDOM, key_find(SCOPE_RANDOM, "distribution"));
    print_json(to, "\n    }");
    print_map(to, "defaults", 1u << SCOPE_RUN);
    print_json(to, "\n    }");
    print_map(to, "repeat", 1u << SCOPE_REPEAT);
    print_json(to, "\n    }");
    print_map(to, "search", 1u << SCOPE_SEARCH);
    print_json(to, "\n    }");
    print_map(to, "operation", operation);
    print_conditions(to, operation, key_find(SCOPE_OPERATION, "op"));
    print_json(to, "\n    }\n  }\n}\n");
}

/* ---- reference ------------------------------------------------------------------------------------------------- */

/* Prints a key's row of the reference. */
static void print_row(FILE *to, const struct job_key *key) {
    const char *words[KEY_MAX_WORDS];
    int count = key_words(key, words);
    fprintf(to, "| `%s` | ", key->name);
    for (int i = 0; i < count; i++) fprintf(to, "%s`%s`", i ? " " : "", words[i]);
    if (count == 0) fputs(key_type_name[key->type], to);
    if (!key->standard)
        fputs(" | *required* | ", to);
    else
        fprintf(to, *key->standard ? " | `%s` | " : " |%s | ", key->standard);
    if (key->applies_to) fputc('(', to);
    for (int i = 0; key->applies_to && key->applies_to[i]; i++) fprintf(to, "%s%s", i ? ", " : "", key->applies_to[i]);
    fprintf(to, "%s%s |\n", key->applies_to ? ") " : "", key->help);
}

void job_print_reference(FILE *to) {
    static const char *const titles[SCOPE_COUNT] = {
        [SCOPE_JOB] = "Top level",
        [SCOPE_INPUT] = "An entry of `inputs`",
        [SCOPE_RANDOM] = "`random`",
        [SCOPE_OPERATION] = "An entry of `operations`",
        [SCOPE_OPTION] = "An entry of `operations`: options of its operation",
        [SCOPE_RESULT] = "An entry of `operations`: its result",
        [SCOPE_RUN] = "An entry of `operations`: run options, also under `defaults`",
        [SCOPE_REPEAT] = "`repeat` as a map",
        [SCOPE_SEARCH] = "`search` of a variant",
    };
    for (enum key_scope scope = 0; scope < SCOPE_COUNT; scope++) {
        fprintf(to, "%s### %s\n\n| key | value | default | meaning |\n|---|---|---|---|\n", scope ? "\n" : "",
                titles[scope]);
        for (int i = 0; i < job_key_count; i++)
            if (job_keys[i].scope == scope) print_row(to, &job_keys[i]);
    }
}
