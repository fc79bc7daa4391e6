/* job_environment.c - merges included files, and replaces environment variables and the home directory. */
#include "job_parts.h"

#include "../base/fail.h"
#include "../base/path.h"
#include "../base/spelling.h"
#include "../base/texts.h"
#include "job_parameters.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

#define MAX_INCLUDES 16 /* files of a chain in which each includes the next */

/* ---- variables --------------------------------------------------------------------------------------------------- */

/* Adds a variable to those that the job records, once. */
static void record_variable(struct job *job, const char *name) {
    for (int i = 0; i < job->variable_count; i++)
        if (strcmp(job->variables[i], name) == 0) return;
    *APPEND(job->variables, job->variable_count) = must_strdup(name);
}

/* The name in "NAME=VALUE"; the caller frees. */
static char *variable_name(const char *entry) {
    return must_printf("%.*s", (int)strcspn(entry, "="), entry);
}

static void report_unset(struct job *job, const struct yaml_node *where, int at, const char *name) {
    FREED_BY(texts_clear) struct texts names = {0};
    char hint[HINT_TEXT];
    for (int i = 0; environ[i]; i++) texts_add(&names, variable_name(environ[i]));
    yaml_error_inside(job->document, where, at, "the environment has no variable '%s'%s", name,
                      name_hint(name, (const char *const *)names.items, names.count, "", hint));
}

/* Appends an environment variable's value, in which a '$' begins no parameter. */
static void append_value(char **text, const char *value) {
    OWNED char *escaped = parameters_escape(value, strlen(value));
    must_append(text, "%s", escaped);
}

#define BEGIN "${env:"

/* The next `${env:` whose dollar is not doubled; NULL: the text has no more. */
static const char *find_variable(const char *text) {
    while ((text = strchr(text, '$')) && strncmp(text, BEGIN, strlen(BEGIN)) != 0) text += 1 + (text[1] == '$');
    return text;
}

/* Replaces a leading `~/` and each `${env:NAME}`, and records the variables. Reports those that are not set and marks
 * the scalar as wrong. */
static void replace_in_scalar(struct job *job, struct yaml_node *scalar) {
    const char *rest = scalar->text, *found, *home = getenv("HOME");
    OWNED char *text = NULL;
    if (strncmp(rest, "~/", 2) == 0) {
        if (!home || !*home) yaml_error(job->document, scalar, "'~/' is the home directory, and HOME is not set");
        text = must_strdup("");
        if (home) append_value(&text, home);
        rest++;
    }
    while ((found = find_variable(rest))) {
        const char *name = found + strlen(BEGIN);
        int length = (int)strcspn(name, "}"), at = (int)(found - scalar->text);
        OWNED char *variable = must_printf("%.*s", length, name);
        const char *value = getenv(variable);
        if (!text) text = must_strdup("");
        must_append(&text, "%.*s", (int)(found - rest), rest);
        if (name[length] != '}' || length == 0)
            yaml_error_inside(job->document, scalar, at, "an environment variable must be written ${env:NAME}");
        else if (!value)
            report_unset(job, scalar, at, variable), yaml_set_wrong(scalar);
        else
            append_value(&text, value);
        if (length > 0) record_variable(job, variable);
        rest = name + length + (name[length] == '}');
    }
    if (text) must_append(&text, "%s", rest);
    if (text) yaml_set_text(scalar, text);
}

/* ---- include ---------------------------------------------------------------------------------------------------- */

static bool include_into(struct job *job, struct yaml_node *root, const char *chain[], int depth);

/* Merges the file that `where` names, and those that it includes, into `root`. `chain`: the depth + 1 files from the
 * job to the file with `where`; each includes the next. false: a file could not be merged, which was reported. */
static bool include_file(struct job *job, struct yaml_node *root, struct yaml_node *where, const char *chain[],
                         int depth) {
    if (!where->text || where->kind == YAML_NULL || !*where->text)
        return yaml_error(job->document, where, "'include' must be the path of a file, or a list of paths");
    replace_in_scalar(job, where);
    OWNED char *path = path_beside(chain[depth], where->text), *real = must_realpath(path);
    bool merged = false;
    int same = -1; /* the last file of the chain that is the included one */
    for (int i = 0; real && i <= depth; i++) {
        OWNED char *other = must_realpath(chain[i]);
        if (other && strcmp(other, real) == 0) same = i;
    }
    if (same >= 0)
        yaml_error(job->document, where, "this file includes itself%s", same < depth ? " through others" : "");
    else if (depth + 1 == MAX_INCLUDES)
        yaml_error(job->document, where, "files include each other more than %d levels deep", MAX_INCLUDES);
    else {
        struct yaml_node *included = yaml_include(job->document, where, path);
        chain[depth + 1] = path;
        merged = included && include_into(job, included, chain, depth + 1);
        if (included && included->kind == YAML_MAP) yaml_merge(root, included);
    }
    return merged;
}

/* Merges the files that the map `root` includes into it, the last one first, because a merge keeps what is there. See
 * include_file. */
static bool include_into(struct job *job, struct yaml_node *root, const char *chain[], int depth) {
    struct yaml_node *include = yaml_get(root, "include");
    if (root->kind != YAML_MAP && depth > 0)
        return yaml_error(job->document, root, "an included file must be a map, like a job file");
    bool list = include && include->kind == YAML_LIST, all = true;
    for (int i = list ? include->count - 1 : 0; include && i >= 0; i--)
        all = include_file(job, root, list ? include->items[i] : include, chain, depth) && all;
    return all;
}

bool job_include(struct job *job) {
    const char *chain[MAX_INCLUDES] = {job->path};
    return include_into(job, yaml_root(job->document), chain, 0);
}

/* ---- the whole document ----------------------------------------------------------------------------------------- */

/* Replaces what comes from the environment in every scalar of a tree. */
static void replace(struct job *job, struct yaml_node *node) {
    if (node->text) replace_in_scalar(job, node);
    for (int i = 0; i < node->count; i++) replace(job, node->items[i]);
}

static void report_environment(struct job *job, const struct yaml_node *where) {
    yaml_error(job->document, where,
               "'environment' must be a list of names of variables, such as [OMP_NUM_THREADS, \"NCCL_*\"]");
}

/* Records the variables whose names match a pattern of `environment`; one without wildcards counts if it is set. */
static void record_matches(struct job *job, const struct yaml_node *pattern) {
    if (!pattern->text || pattern->kind == YAML_NULL) {
        report_environment(job, pattern);
        return;
    }
    for (int i = 0; environ[i]; i++) {
        OWNED char *name = variable_name(environ[i]);
        if (fnmatch(pattern->text, name, 0) == 0) record_variable(job, name);
    }
}

void job_read_environment(struct job *job) {
    struct yaml_node *root = yaml_root(job->document), *environment = yaml_get(root, "environment");
    replace(job, root);
    if (environment && environment->kind != YAML_LIST) report_environment(job, environment);
    for (int i = 0; environment && environment->kind == YAML_LIST && i < environment->count; i++)
        record_matches(job, environment->items[i]);
    if (job->variable_count > 1)
        qsort(job->variables, (size_t)job->variable_count, sizeof *job->variables, text_compare);
}
