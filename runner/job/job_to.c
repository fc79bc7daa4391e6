/* job_to.c - reads `to: FILE:/GROUP/NAME`, and checks that no two results go to the same data set. */
#include "job_parts.h"

#include "../base/fail.h"
#include "../base/path.h"

#include <stdlib.h>
#include <string.h>

/* Is `name` a path such as "/group/name", without empty components, "." and ".."? */
static bool is_path(const char *name) {
    for (const char *part = name; *part == '/';) {
        size_t length = strcspn(++part, "/");
        if (length == 0 || (length <= 2 && strspn(part, ".") == length)) return false;
        part += length;
        if (!*part) return true;
    }
    return false;
}

void job_read_to(struct job_reader *reader, const struct yaml_node *node, struct job_operation *operation) {
    OWNED char *text = node ? job_read_text(reader, node, "to") : NULL;
    if (!text) return;
    char *colon = strstr(text, ":/");
    if (!colon || colon == text || colon[-1] == '/' || !is_path(colon + 1)) {
        job_error(reader, node, "'to' must be FILE:/NAME or FILE:/GROUP/NAME, not '%s'", text);
    } else if (operation->run.store == STORE_NONE) {
        job_error(reader, node, "'to' stores the result and 'store: none' does not: remove one of them");
    } else {
        *colon = '\0';
        operation->to_where = node;
        operation->to_file = path_beside(reader->job->path, text);
        operation->to_name = must_strdup(colon + 1);
    }
}

/* Orders by file, then by name so that names inside a group follow a result of the group's name: '/' sorts first. */
static int compare_targets(const void *a, const void *b) {
    const struct job_operation *one = *(const struct job_operation *const *)a;
    const struct job_operation *other = *(const struct job_operation *const *)b;
    int files = strcmp(one->to_file, other->to_file);
    if (files != 0) return files;
    const unsigned char *name = (const unsigned char *)one->to_name;
    const unsigned char *other_name = (const unsigned char *)other->to_name;
    while (*name && *name == *other_name) name++, other_name++;
    int order = (*name == '/' ? 1 : *name * 2) - (*other_name == '/' ? 1 : *other_name * 2);
    return order != 0 ? order : (one > other) - (one < other);
}

/* The first swept parameter in the operation's label that its `to` does not contain, else "PARAMETER"; *length: of the
 * name. */
static const char *unused_parameter(const struct job_operation *operation, int *length) {
    const char *part = operation->label;
    while (*part) {
        *length = (int)strcspn(part, "=");
        OWNED char *plain = must_printf("$%.*s", *length, part), *braces = must_printf("${%.*s}", *length, part);
        bool used = strstr(operation->to_where->text, plain) || strstr(operation->to_where->text, braces);
        if (!used) return part;
        part += strcspn(part, ",");
        part += *part == ',';
    }
    *length = (int)strlen("PARAMETER");
    return "PARAMETER";
}

/* Does `other`, which is sorted after `one`, go to the same data set, or into a group of its name? Reports it if so. */
static bool report_collision(struct job_reader *reader, const struct job_operation *one,
                             const struct job_operation *other) {
    size_t length = strlen(one->to_name);
    bool within = strncmp(one->to_name, other->to_name, length) == 0 && other->to_name[length] == '/';
    if (strcmp(one->to_file, other->to_file) != 0 || (!within && strcmp(one->to_name, other->to_name) != 0))
        return false;
    const struct job_operation *later = one > other ? one : other;
    int length_of_name;
    const char *name = unused_parameter(later, &length_of_name);
    if (within)
        yaml_error(reader->document, later->to_where,
                   "%s in %s is the result of '%s', so it cannot be the group of %s, the result of '%s'", one->to_name,
                   one->to_file, one->id, other->to_name, other->id);
    else if (strcmp(one->id, other->id) == 0)
        yaml_error(reader->document, later->to_where,
                   "'%s' is swept, and several of its results would go to the same data set: put $%.*s into the name "
                   "of the file or of the group",
                   one->id, length_of_name, name);
    else
        yaml_error(reader->document, later->to_where, "%s in %s already holds the result of '%s'", one->to_name,
                   one->to_file, (later == one ? other : one)->id);
    return true;
}

void job_check_to(struct job_reader *reader) {
    const struct job *job = reader->job;
    OWNED const struct job_operation **found = must_malloc(((size_t)job->operation_count + 1) * sizeof(*found));
    int count = 0;
    for (int i = 0; i < job->operation_count; i++)
        if (job->operations[i].to_file) found[count++] = &job->operations[i];
    qsort(found, (size_t)count, sizeof(*found), compare_targets);
    const struct yaml_node *last = NULL; /* reports a swept operation once */
    for (int i = 1; i < count; i++)
        if (found[i]->to_where != last && report_collision(reader, found[i - 1], found[i])) last = found[i]->to_where;
}
