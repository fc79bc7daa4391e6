/* recorded_inputs.c - finds the input files of an earlier run and compares their hashes. */
#include "recorded.h"

#include "../base/fail.h"
#include "../base/match.h"
#include "../base/path.h"
#include "../base/text.h"
#include "../base/texts.h"
#include "../storage/reader.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_NAMED 3 /* inputs that a message names */

/* Appends a text to *list, after the separator unless it is the first. */
static void append_text(char **list, const char *separator, const char *more) {
    must_append(list, "%s%s", **list ? separator : "", more);
}

/* Appends sentence number `number` (0, 1, ...) to *list, "..." for the first after MAX_NAMED. Frees the sentence. */
static void append_sentence(char **list, int number, char *sentence) {
    if (number < MAX_NAMED) append_text(list, "\n", sentence);
    if (number == MAX_NAMED) append_text(list, "\n", "...");
    free(sentence);
}

/* A relative path without leading "../" and "./". */
static const char *skip_parents(const char *path) {
    while (strncmp(path, "../", 3) == 0 || strncmp(path, "./", 2) == 0) path = strchr(path, '/') + 1;
    return path;
}

/* Can the file be read, or is it a pattern with matches? */
static bool is_readable(const char *path) {
    if (!match_is_pattern(path, path)) return access(path, R_OK) == 0;
    char **found;
    int count = match_files(path, &found);
    texts_free(found, count);
    return count > 0;
}

/* The first readable one of some paths; frees the others. NULL: none is readable. Appends the unreadable ones to
 * *tried. */
static char *first_readable(char *paths[], int count, char **tried) {
    char *found = NULL;
    for (int i = 0; i < count; i++) {
        bool twice = i > 0 && strcmp(paths[i], paths[i - 1]) == 0;
        if (!found && is_readable(paths[i])) {
            found = paths[i];
            continue;
        }
        if (!twice) append_text(tried, ", ", paths[i]);
    }
    for (int i = 0; i < count; i++)
        if (paths[i] != found) free(paths[i]);
    return found;
}

/* The path where an input is found; NULL: nowhere. Appends the paths without a readable file to *tried. The caller
 * frees. */
static char *find_input(const struct results_file *file, const struct job_input *input, const char *folder,
                        char **tried) {
    OWNED char *object = result_path_of("inputs", input->label, input->name);
    char *paths[3];
    OWNED char *recorded = results_file_text(file, object, "file");
    if (!recorded) recorded = must_strdup(input->file);
    int count = 0;
    if (folder && *input->file_as_written != '/')
        paths[count++] = must_printf("%s/%s", folder, skip_parents(input->file_as_written));
    if (folder) paths[count++] = must_printf("%s/%s", folder, path_name(recorded));
    paths[count++] = must_strdup(recorded);
    return first_readable(paths, count, tried);
}

enum status recorded_inputs_find(const struct results_file *file, struct job *job, const char *folder,
                                 struct error *error) {
    OWNED char *missing = must_strdup("");
    int count = 0;
    for (int i = 0; i < job->input_count; i++) {
        struct job_input *input = &job->inputs[i];
        if (input->random) continue;
        OWNED char *tried = must_strdup("");
        char *found = find_input(file, input, folder, &tried);
        if (found) {
            free(input->file);
            input->file = found;
        } else {
            append_sentence(&missing, count++, must_printf("input '%s' was not found; tried: %s", input->name, tried));
        }
    }
    return *missing ? fail(error, STATUS_USAGE, "%s\n--inputs DIR sets the folder of the inputs", missing) : STATUS_OK;
}

/* Computes the hash of an input's present values, as its text. */
static enum status hash_now(const struct array *array, char hash[READER_HASH_TEXT], struct error *error) {
    FREED_BY(reader_free) struct reader reader = {0};
    reader_init(&reader, array);
    enum status status = reader_hash(&reader, error);
    memcpy(hash, reader.hash, READER_HASH_TEXT);
    return status;
}

enum status recorded_inputs_check(const struct results_file *file, const struct plan *plan, struct error *error) {
    OWNED char *changed = must_strdup("");
    int count = 0;
    for (int i = 0; i < plan->array_count; i++) {
        const struct array *array = &plan->arrays[i];
        if (!array->from_job || array->from_job->random) continue;
        char hash[READER_HASH_TEXT];
        OWNED char *title = array_title(array);
        OWNED char *object = result_path_of("inputs", array->label, array->name);
        OWNED char *recorded = results_file_text(file, object, "xxh3");
        if (!recorded) {
            text_print_stderr("tilerun: no hash of %s is recorded, so it may have changed\n", title);
            continue;
        }
        TRY(hash_now(array, hash, error));
        if (strcmp(recorded, hash) != 0)
            append_sentence(&changed, count++,
                            must_printf("%s (%s, %s): its values have changed: xxh3 was %s, is %s", title,
                                        array->from_job->file, array->from_job->dataset, recorded, hash));
    }
    if (!*changed) return STATUS_OK;
    return fail(error, STATUS_RUN, "%s\nnothing was run: other inputs cannot give the same results", changed);
}
