/* job_schema.c - prints the table of keys as a JSON schema (draft 2020-12, for editors) and as a reference in
 * Markdown. */
#include "job_keys.h"

#include "../base/json.h"

#include <float.h>
#include <string.h>

/* ---- JSON schema ----------------------------------------------------------------------------------------------- */

static void print_range(FILE *to, const char *type, double low, double high) {
    fprintf(to, "{\"type\": \"%s\"", type);
    if (low > -DBL_MAX) fprintf(to, ", \"minimum\": %.0f", low);
    if (high > 0 && high < 0x1p62) fprintf(to, ", \"maximum\": %.0f", high);
    fputs("}", to);
}

/* The schema of a key that holds a list or a map. */
static const char *custom_schema(const struct job_key *key) {
    static const char *const parts[][2] = {
        {"version", "{\"const\": 1}"},
        {"parameters", "{\"type\": \"object\", \"additionalProperties\": {\"anyOf\": [{\"$ref\": \"#/$defs/scalar\"}, "
                       "{\"type\": \"array\", \"minItems\": 1, \"items\": {\"$ref\": \"#/$defs/scalar\"}}]}}"},
        {"inputs", "{\"type\": \"object\", \"patternProperties\": {\"^x-\": {}}, "
                   "\"additionalProperties\": {\"$ref\": \"#/$defs/input\"}}"},
        {"defaults", "{\"$ref\": \"#/$defs/defaults\"}"},
        {"operations", "{\"type\": \"array\", \"minItems\": 1, \"items\": {\"$ref\": \"#/$defs/operation\"}}"},
        {"random", "{\"$ref\": \"#/$defs/random\"}"},
        {"variants",
         "{\"type\": \"array\", \"minItems\": 1, \"items\": {\"anyOf\": [{\"type\": \"string\"}, {\"type\": "
         "\"object\", \"required\": [\"name\"], \"properties\": {\"name\": {\"type\": \"string\"}}}]}}"},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(parts[i][0], key->name) == 0) return parts[i][1];
    return "{}";
}

static void print_value_schema(FILE *to, const struct job_key *key) {
    const char *words[KEY_MAX_WORDS];
    switch (key->type) {
    case KEY_BOOL: fputs("{\"type\": \"boolean\"}", to); break;
    case KEY_INTEGER: print_range(to, "integer", key->low, key->high); break;
    case KEY_REAL: print_range(to, "number", key->low, key->high); break;
    case KEY_TEXT: fputs("{\"type\": \"string\", \"minLength\": 1}", to); break;
    case KEY_WORD:
    case KEY_OP:
    case KEY_OPERATOR:
    case KEY_DTYPE:
        for (int i = 0, count = key_words(key, words); i < count; i++)
            fprintf(to, "%s\"%s\"%s", i ? ", " : "{\"enum\": [", words[i], i == count - 1 ? "]}" : "");
        break;
    case KEY_SHAPE:
        fputs("{\"type\": \"array\", \"minItems\": 1, \"maxItems\": 8, \"items\": {\"anyOf\": [", to);
        print_range(to, "integer", key->low, 0);
        fputs(", {\"$ref\": \"#/$defs/parameter\"}]}}", to);
        break;
    case KEY_ROWS:
        fputs("{\"type\": \"array\", \"minItems\": 2, \"maxItems\": 2, \"items\": {\"anyOf\": [{\"type\": \"integer\", "
              "\"minimum\": 0}, {\"$ref\": \"#/$defs/parameter\"}]}}",
              to);
        break;
    case KEY_SELECT:
        fprintf(
            to,
            "{\"type\": \"array\", \"minItems\": 1, \"maxItems\": %d, \"items\": {\"anyOf\": [{\"type\": \"integer\"}, "
            "{\"type\": \"string\", \"pattern\": \"[$]|^(-?[0-9]+|-?[0-9]*:-?[0-9]*(:[0-9]*)?)$\"}]}}",
            MAX_RANK);
        break;
    case KEY_AXIS:
        fputs("{\"anyOf\": [{\"type\": \"integer\"}, {\"const\": \"all\"}, {\"type\": \"array\", "
              "\"minItems\": 1, \"items\": {\"type\": \"integer\"}}]}",
              to);
        break;
    case KEY_AXES: fputs("{\"type\": \"array\", \"minItems\": 2, \"items\": {\"type\": \"integer\"}}", to); break;
    case KEY_NUMBERS:
        fprintf(to,
                "{\"type\": \"number\"}, {\"type\": \"array\", \"minItems\": 1, \"maxItems\": %d, \"items\": "
                "{\"type\": \"number\"}}",
                JOB_MISSING_MOST);
        break;
    case KEY_FRACTION:
        fputs("{\"anyOf\": [{\"type\": \"number\", \"exclusiveMinimum\": 0, \"exclusiveMaximum\": 1}, "
              "{\"type\": \"string\", \"pattern\": \"%$\"}]}",
              to);
        break;
    case KEY_REPEAT:
        fputs("{\"anyOf\": [{\"type\": \"integer\", \"minimum\": 1}, {\"$ref\": \"#/$defs/repeat\"}]}", to);
        break;
    case KEY_DEVICE:
        fputs(
            "{\"anyOf\": [{\"type\": \"string\", \"pattern\": \"^(auto|cpu|cuda|cuda:[0-9]+|cuda:all)$\"}, {\"type\": "
            "\"array\", \"minItems\": 1, \"items\": {\"type\": \"string\"}}]}",
            to);
        break;
    case KEY_MEMORY:
        fputs("{\"anyOf\": [{\"type\": \"integer\", \"minimum\": 65536}, {\"type\": \"string\", "
              "\"pattern\": \"^[0-9.]+([KMGT]iB|[kMGT]B|%)?$\"}]}",
              to);
        break;
    case KEY_TO: fputs("{\"type\": \"string\", \"pattern\": \".:/.\"}", to); break;
    case KEY_CUSTOM:
    case KEY_TYPE_COUNT: fputs(custom_schema(key), to); break;
    }
}

/* Prints the schema of a map with the keys of `scopes`, a set. */
static void print_properties(FILE *to, unsigned scopes, const char *indent) {
    const char *before = "";
    fprintf(to,
            "%s\"type\": \"object\",\n%s\"additionalProperties\": false,\n%s\"patternProperties\": {\"^x-\": {}},\n",
            indent, indent, indent);
    fprintf(to, "%s\"required\": [", indent);
    for (int i = 0; i < job_key_count; i++) {
        const struct job_key *key = &job_keys[i];
        if (!(scopes >> key->scope & 1) || key->standard || key->of) continue;
        fprintf(to, "%s\"%s\"", before, key->name);
        before = ", ";
    }
    fprintf(to, "],\n%s\"properties\": {\n", indent);
    before = "";
    for (int i = 0; i < job_key_count; i++) {
        const struct job_key *key = &job_keys[i];
        if (!(scopes >> key->scope & 1)) continue;
        bool part = key->type == KEY_CUSTOM && strcmp(key->name, "inputs") == 0 && key->scope == SCOPE_OPERATION;
        fprintf(to, "%s%s  \"%s\": {\"description\": ", before, indent, key->name);
        json_write_string(to, key->help, strlen(key->help));
        fputs(", \"anyOf\": [", to);
        if (part)
            fprintf(to, "{\"type\": \"array\", \"minItems\": 1, \"maxItems\": %d, \"items\": {\"type\": \"string\"}}",
                    MAX_INPUTS);
        else
            print_value_schema(to, key);
        fprintf(to, "%s]}", key->type == KEY_CUSTOM ? "" : ", {\"$ref\": \"#/$defs/parameter\"}");
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
        bool standard = chooser->standard && strcmp(chooser->standard, words[w]) == 0;
        fprintf(to, "%s\n        {\"if\": {\"properties\": {\"%s\": {\"const\": \"%s\"}}%s", w ? "," : "",
                chooser->name, words[w], standard ? "" : ", \"required\": [\"");
        if (!standard) fprintf(to, "%s\"]", chooser->name);
        fputs("}, \"then\": {\"properties\": {", to);
        const char *before = "";
        for (int i = 0; i < job_key_count; i++) {
            if (!(scopes >> job_keys[i].scope & 1) || key_applies(&job_keys[i], words[w])) continue;
            fprintf(to, "%s\"%s\": false", before, job_keys[i].name);
            before = ", ";
        }
        fputs("}, \"required\": [", to);
        before = "";
        for (int i = 0; i < job_key_count; i++) {
            const struct job_key *key = &job_keys[i];
            if (!(scopes >> key->scope & 1) || !key->of || key->standard || !key_applies(key, words[w])) continue;
            fprintf(to, "%s\"%s\"", before, key->name);
            before = ", ";
        }
        fputs("]}}", to);
    }
    fputs("\n      ]", to);
}

static const struct job_key *find_key(enum key_scope scope, const char *name) {
    for (int i = 0; i < job_key_count; i++)
        if (job_keys[i].scope == scope && strcmp(job_keys[i].name, name) == 0) return &job_keys[i];
    return NULL;
}

void job_print_schema(FILE *to) {
    const unsigned operation = 1u << SCOPE_OPERATION | 1u << SCOPE_OPTION | 1u << SCOPE_RESULT | 1u << SCOPE_RUN;
    fputs("{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n  \"title\": \"tilerun job file\",\n",
          to);
    print_properties(to, 1u << SCOPE_JOB, "  ");
    fputs(",\n  \"$defs\": {\n"
          "    \"parameter\": {\"type\": \"string\", \"pattern\": \"[$]\"},\n"
          "    \"scalar\": {\"type\": [\"string\", \"number\", \"boolean\"]},\n    \"input\": {\n",
          to);
    print_properties(to, 1u << SCOPE_INPUT, "      ");
    fputs(
        ",\n      \"oneOf\": [\n        {\"required\": [\"file\", \"dataset\"], \"properties\": {\"random\": false}},\n"
        "        {\"required\": [\"random\"], \"properties\": {\"file\": false, \"dataset\": false, \"rows\": false, "
        "\"select\": false, \"dtype\": false, \"field\": false, \"decode\": false, "
        "\"missing\": false}}\n"
        "      ]\n    },\n    \"random\": {\n",
        to);
    print_properties(to, 1u << SCOPE_RANDOM, "      ");
    print_conditions(to, 1u << SCOPE_RANDOM, find_key(SCOPE_RANDOM, "distribution"));
    fputs("\n    },\n    \"defaults\": {\n", to);
    print_properties(to, 1u << SCOPE_RUN, "      ");
    fputs("\n    },\n    \"repeat\": {\n", to);
    print_properties(to, 1u << SCOPE_REPEAT, "      ");
    fputs("\n    },\n    \"operation\": {\n", to);
    print_properties(to, operation, "      ");
    print_conditions(to, operation, find_key(SCOPE_OPERATION, "op"));
    fputs("\n    }\n  }\n}\n", to);
}

/* ---- reference ------------------------------------------------------------------------------------------------- */

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
    if (key->of) fputc('(', to);
    for (int i = 0; key->of && key->of[i]; i++) fprintf(to, "%s%s", i ? ", " : "", key->of[i]);
    fprintf(to, "%s%s |\n", key->of ? ") " : "", key->help);
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
    };
    for (enum key_scope scope = 0; scope < SCOPE_COUNT; scope++) {
        fprintf(to, "%s### %s\n\n| key | value | default | meaning |\n|---|---|---|---|\n", scope ? "\n" : "",
                titles[scope]);
        for (int i = 0; i < job_key_count; i++)
            if (job_keys[i].scope == scope) print_row(to, &job_keys[i]);
    }
}
