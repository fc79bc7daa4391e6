/* previous_output.c - examines an existing OUTPUT (struct previous): whether it belongs to this job, and which of
 * its runs are finished. --resume makes parts from these (previous_import); from then on only parts count. */
#include "../base/destination.h"
#include "../base/fail.h"
#include "../base/path.h"
#include "../base/text.h"
#include "../compile/sources.h"
#include "../plan/plan_user_kernels.h"
#include "../record/environment.h"
#include "../record/linked.h"
#include "../record/provenance.h"
#include "../storage/h5/h5virtual.h"
#include "../storage/operand.h"
#include "../storage/untrusted/fence.h"
#include "../storage/untrusted/h5open.h"
#include "results.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Opens a results file. false: the file is something else; `instead` becomes what it is: h5_open_file's sentence
 * without the path. */
static bool open_results(const char *path, hid_t *file, char instead[512]) {
    struct error error = {.status = STATUS_OK};
    struct stat about;
    *file = H5I_INVALID_HID;
    if (stat(path, &about) == 0 && about.st_size == 0) {
        snprintf(instead, 512, "is empty");
        return false;
    }
    if (h5_open_file(path, file, &error)) {
        const char *words = fail_without_path(&error, path);
        int length = (int)strcspn(words, ":"); /* without the remedy: it is to be replaced, not read */
        if (!strstr(words, "not an HDF5 file")) length = (int)strlen(words);
        snprintf(instead, 512, "%s%.*s",
                 strncmp(words, "is ", 3) == 0 ? "" : "cannot be read: ", length < 400 ? length : 400, words);
        return false;
    }
    OWNED char *schema = h5_get_text(*file, "schema");
    bool ours = schema && strcmp(schema, RESULT_SCHEMA) == 0;
    OWNED char *broken = ours ? link_broken(*file, path) : NULL;
    if (ours && !broken) return true;
    H5Fclose(*file);
    *file = H5I_INVALID_HID;
    snprintf(instead, 512, "%s", broken ? broken : "is an HDF5 file, but not one of tilerun's results");
    return false;
}

bool results_are_at(const char *path, char instead[512]) {
    FENCE(path);
    OWNED_ID hid_t file = H5I_INVALID_HID;
    return open_results(path, &file, instead);
}

/* ---- comparing with the job ------------------------------------------------------------------------------------- */

/* Are the rows of runs of the same task? */
static bool same_task(const struct result_row *row, const struct result_row *wanted) {
    return strcmp(row->operation, wanted->operation) == 0 && strcmp(row->parameters, wanted->parameters) == 0;
}

/* Are all runs of the previous OUTPUT runs of this job, with operations, inputs and program unchanged? The job may have
 * more runs: other operations, or variants after the first of an operation, whose result stays. */
static bool is_ours(const struct previous *previous, const struct plan *plan, struct keys *keys) {
    OWNED bool *marked = must_malloc((unsigned long)plan->run_count + 1);
    int row = 0;
    for (int i = 0; i < plan->run_count; i++) { /* runs and rows are in the same order */
        const struct task *task = &plan->tasks[plan->runs[i].task];
        struct result_row wanted;
        result_row_init(&wanted, plan, &plan->runs[i]);
        marked[i] = row < previous->count && same_task(&previous->rows[row], &wanted) &&
                    strcmp(previous->rows[row].variant, wanted.variant) == 0 &&
                    (i == task->first_run || marked[task->first_run]);
        row += marked[i];
    }
    char key[33];
    OWNED char *stored = h5_get_text_of(previous->file, "job_resolved", "key");
    keys_of_runs(keys, marked, key);
    return row == previous->count && row > 0 && stored && strcmp(stored, key) == 0;
}

static bool is_text(const char *text, const char *expected) {
    return text && strcmp(text, expected) == 0;
}

/* The name of a kernel source of this job that the file records with another text; NULL: there is none. The caller
 * frees. */
static char *changed_source(const struct results *results, hid_t file) {
    FREED_BY(kernel_files_clear) struct kernel_files files = plan_kernel_files(results->plan);
    for (int i = 0; i < files.count; i++)
        for (int k = 0;; k++) {
            OWNED char *object = must_printf("%s/%d", OWN_SOURCES, k), *name = h5_get_text_of(file, object, "name");
            OWNED char *sha256 = name ? h5_get_text_of(file, object, "sha256") : NULL;
            if (!name) break;
            if (strcmp(name, files.items[i].name) == 0 && !is_text(sha256, files.items[i].file->sha256))
                return must_strdup(name);
        }
    return NULL;
}

#define MAX_SHOWN 60 /* bytes of a key and its value in a message */

/* Does "KEY: " begin there? */
static bool begins_key(const char *text) {
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz_");
    return length > 0 && strncmp(text + length, ": ", 2) == 0;
}

/* How many bytes "KEY: VALUE" has: it ends before the next key, at the end of the line, or before the braces that close
 * what it stands in. */
static size_t key_and_value(const char *text) {
    const char *end = text;
    while (*end && *end != '\n' && (strncmp(end, ", ", 2) != 0 || !begins_key(end + 2))) end++;
    while (end > text && end[-1] == '}') end--;
    return (size_t)(end - text);
}

/* The first difference of two texts; NULL: there is none, or it is in no value. Values that are too long to be read in
 * a message are left out. The caller frees. */
static char *first_difference(const char *there, const char *here) {
    size_t at = 0, key;
    while (there[at] && there[at] == here[at]) at++;
    if (there[at] == here[at]) return NULL;
    for (key = at; key > 0 && here[key - 1] != '\n' && !(strchr(" {", here[key - 1]) && begins_key(here + key));) key--;
    if (!begins_key(here + key) || !begins_key(there + key)) return NULL;
    size_t then = key_and_value(there + key), now = key_and_value(here + key);
    if (then > MAX_SHOWN || now > MAX_SHOWN)
        return must_printf("`%.*s` differs", (int)strcspn(here + key, ":"), here + key);
    return must_printf("`%.*s` there, `%.*s` here", (int)then, there + key, (int)now, here + key);
}

char *resolved_difference(const char *there, const char *here) {
    const char *inputs = there ? strstr(there, "\ninputs:") : NULL, *own_inputs = strstr(here, "\ninputs:");
    char *found = inputs && own_inputs ? first_difference(inputs, own_inputs) : NULL; /* the others matter less */
    return found || !there ? found : first_difference(there, here);
}

char *results_difference(const struct results *results, hid_t file, const char *sha256, const char *resolved) {
    OWNED char *version = h5_get_text(file, "tool_version"), *commit = h5_get_text(file, "git_commit");
    OWNED char *source = changed_source(results, file);
    OWNED char *difference = resolved_difference(resolved, results->plan->job->resolved);
    bool same_tool = is_text(version, tilerun_version) && is_text(commit, tilerun_git_commit);
    return !same_tool ? must_printf("was made by tilerun %s (%s)", version ? version : "?", commit ? commit : "?")
           : !is_text(sha256, results->job_sha256)
               ? must_printf("is another job, or an earlier version of this one%s%s%s", difference ? " (" : "",
                             difference ? difference : "", difference ? ")" : "")
           : source ? must_printf("was run before its kernel source %s changed", source)
                    : must_strdup("had other values in its inputs, other kernel sources, or another build of tilerun");
}

/* Fails with a sentence that names the job whose results OUTPUT holds, and the difference to this job. */
static enum status refuse_output(const struct results *results, hid_t file, struct error *error) {
    OWNED char *state = h5_get_text(file, "status"), *name = h5_get_text_of(file, "job", "name");
    OWNED char *sha256 = h5_get_text_of(file, "job_resolved", "sha256");
    OWNED char *resolved = provenance_read_text(file, "job_resolved");
    OWNED char *why = results_difference(results, file, sha256, resolved);
    return fail(
        error, STATUS_USAGE,
        "output %s: holds the %s results of job '%.64s', which %s; `--resume --overwrite` replaces them, another -o "
        "keeps them",
        results->output.name, state ? state : "unfinished", name ? name : "?", why);
}

void previous_close(struct previous *previous) {
    if (!previous) return;
    if (previous->file >= 0) H5Fclose(previous->file);
    free(previous->rows);
    free(previous);
}

/* The file of a `to` whose data set *name the output shows; NULL: it has values of its own. The caller frees both. */
static char *shown_file(const struct results *results, const struct previous *previous, const char *path, char **name) {
    OWNED_ID hid_t output = H5Oopen(previous->file, path, H5P_DEFAULT);
    bool is_shown = output >= 0 && H5Iget_type(output) == H5I_DATASET && h5_is_virtual(output);
    OWNED char *file = is_shown ? h5_get_text(output, LINK_TO_FILE) : NULL, *folder = path_folder(results->output.path);
    *name = is_shown ? h5_get_text(output, LINK_TO_DATASET) : NULL;
    if (!file) return NULL;
    return *file == '/' ? must_strdup(file) : must_printf("%s/%s", folder, file);
}

/* Does the previous OUTPUT hold the output of a run, as this job makes it? If OUTPUT has only a virtual data set of
 * the file of a `to`, that file must still hold the data set that this task wrote. */
static bool holds(const struct results *results, const struct previous *previous, const struct run *run,
                  const char *path) {
    const struct task *task = &results->plan->tasks[run->task];
    const struct shape shape = operand_array(&task->geometry.out);
    enum dtype dtype = results->plan->arrays[task->out].dtype;
    if (!h5_is_array(previous->file, path, dtype, &shape)) return false;
    char wanted[33];
    OWNED char *name = NULL, *shown = shown_file(results, previous, path, &name);
    if (!shown) return true;
    FENCE(shown);
    OWNED_ID hid_t file = H5I_INVALID_HID;
    OWNED char *key = name && !h5_open_file(shown, &file, IGNORED) ? h5_get_text_of(file, name, "key") : NULL;
    keys_of_task(results->keys, run->task, wanted);
    return is_text(key, wanted) && h5_is_array(file, name, dtype, &shape);
}

/* Does the previous OUTPUT, which has a row for each run of the job, hold all outputs of a task? Prints which outputs
 * it lacks. */
static bool holds_outputs(const struct results *results, const struct previous *previous, const struct task *task) {
    const struct job_operation *operation = task->operation;
    enum job_store store = operation->run.store;
    bool all = true, first = true;
    if (store == STORE_NONE) return true;
    OWNED char *result = result_path_of("outputs", operation->label, operation->id);
    OWNED char *variants = result_path_of("variants", operation->label, operation->id);
    for (int i = task->first_run; i < task->first_run + task->run_count; i++) {
        const struct run *run = &results->plan->runs[i];
        if (!result_row_done(&previous->rows[i]) || !run->kernel || run->kernel->is_roof) continue;
        OWNED char *path = store == STORE_ALL ? must_printf("%s/%s", variants, run->label) : must_strdup(result);
        bool there = (!first || holds(results, previous, run, result)) &&
                     (store == STORE_FIRST || holds(results, previous, run, path));
        if ((first || store == STORE_ALL) && !there) {
            text_print_stderr("tilerun: output %s: %s is gone, or has another type or shape, and must be made again\n",
                              results->output.name, path);
            all = false;
        }
        first = false;
    }
    return all;
}

/* The line of a resolved job that begins with `key`, and its length; "": there is none. */
static const char *line_of(const char *resolved, const char *key, size_t *length) {
    const char *line = strstr(resolved, key);
    if (!line) line = "";
    *length = strcspn(*line ? line + 1 : line, "\n");
    return line;
}

/* Has the previous OUTPUT the tags and notes of this job? Nothing else in it depends on them. */
static bool holds_tags(const struct results *results, const struct previous *previous) {
    static const char *const keys[] = {"\nnotes: ", "\ntags: "};
    OWNED char *resolved = provenance_read_text(previous->file, "job_resolved");
    bool same = resolved != NULL;
    for (int i = 0; i < 2 && same; i++) {
        size_t length, other_length;
        const char *line = line_of(resolved, keys[i], &length);
        const char *other = line_of(results->plan->job->resolved, keys[i], &other_length);
        same = length == other_length && strncmp(line, other, length + 1) == 0;
    }
    return same;
}

enum status previous_open(struct results *results, bool restricted, bool *done, struct error *error) {
    const struct plan *plan = results->plan;
    struct destination *output = &results->output;
    struct previous *previous = must_malloc(sizeof *previous);
    char instead[512];
    *previous = (struct previous){.file = H5I_INVALID_HID};
    *done = false;
    FENCE(output->path);
    enum status status = STATUS_OK;
    bool is_results = open_results(output->path, &previous->file, instead);
    bool ours =
        is_results &&
        result_load_rows(previous->file, output->path, &previous->rows, &previous->count, IGNORED) == STATUS_OK &&
        is_ours(previous, plan, results->keys);
    if (!ours) {
        if (!results->policy.overwrite)
            status = is_results ? refuse_output(results, previous->file, error)
                                : fail(error, STATUS_USAGE, "output %s: %s", output->name, instead);
        previous_close(previous);
        return status;
    }
    OWNED char *state = h5_get_text(previous->file, "status");
    previous->complete = is_text(state, "complete");
    *done = previous->count == plan->run_count && (previous->complete || (restricted && is_text(state, "partial")));
    *done &= holds_tags(results, previous);
    for (int i = 0; i < previous->count; i++) /* `merge --partial` lacked units */
        *done &= strcmp(previous->rows[i].status, "interrupted") != 0;
    for (int i = 0, complete = *done; i < plan->task_count && complete; i++)
        *done &= holds_outputs(results, previous, &plan->tasks[i]);
    results->previous = previous;
    return STATUS_OK;
}

/* ---- parts made of its runs -------------------------------------------------------------------------------------- */

const struct result_row *results_finished_rows(const struct results *results, int *count) {
    *count = results->previous ? results->previous->count : 0;
    return *count > 0 ? results->previous->rows : NULL;
}

/* Does this process need the runs of a task? A shard needs its own tasks, and tasks whose results they read. */
static bool needs(const struct results *results, int task) {
    const struct units *units = results->units;
    const struct plan *plan = &units->plan;
    int unit = units->first[task];
    if (!results->shard) return true;
    if (units->first[task + 1] - unit > 1) return false; /* it does panels for others */
    if (shard_has(results->shard, unit)) return true;
    for (int t = 0; t < plan->task_count; t++)
        for (int i = 0; i < plan->tasks[t].geometry.inputs && shard_has(results->shard, t); i++)
            if (plan_producer(plan, plan->tasks[t].in[i]) == unit) return true;
    return false;
}

/* Returns the run of this job that a row describes; NULL: there is none. *next: the run at which to begin the
 * search; becomes the run after the one found. */
static const struct run *run_of(const struct plan *plan, const struct result_row *row, int *next) {
    for (int i = 0; i < plan->run_count; i++) {
        const struct run *run = &plan->runs[(*next + i) % plan->run_count];
        struct result_row wanted;
        result_row_init(&wanted, plan, run);
        if (!same_task(row, &wanted) || strcmp(row->variant, wanted.variant) != 0) continue;
        *next = run->number + 1;
        return run;
    }
    return NULL;
}

/* Returns the path of a run's output in OUTPUT. The caller frees. */
static char *output_path(const struct plan *plan, const struct run *run) {
    const struct job_operation *operation = plan->tasks[run->task].operation;
    bool all = operation->run.store == STORE_ALL;
    OWNED char *path = result_path_of(all ? "variants" : "outputs", operation->label, operation->id);
    return must_printf("%s%s%s", path, all ? "/" : "", all ? run->label : "");
}

/* Makes a part of a run of the previous OUTPUT, with its output if OUTPUT holds it. */
static enum status import_run(struct results *results, const struct run *run, const struct result_row *row,
                              struct error *error) {
    const struct previous *previous = results->previous;
    OWNED char *output = output_path(results->plan, run);
    FENCE(results->output.path);
    /* An operation's result is stored under the operation's name; the attribute says of which variant it is. */
    OWNED char *variant = h5_get_text_of(previous->file, output, "variant");
    bool has = is_text(variant, row->variant) && holds(results, previous, run, output);
    return part_import(results, run, row, previous->file, has ? output : NULL, error);
}

/* Callback of h5_each_source: seals a part that OUTPUT shows, if the part has lost its trailer. Always returns true,
 * so that all sources are visited. */
static bool seal_source(void *context, const char *file, const char *dataset) {
    const struct results *results = context;
    const char *name = path_name(results->folder.root);
    OWNED char *path = path_beside(results->folder.root, file);
    (void)dataset;
    bool is_part = strncmp(file, name, strlen(name)) == 0 && access(path, F_OK) == 0;
    if (is_part && part_trailer(path) == TRAILER_NONE) part_seal(path, false, IGNORED);
    return true;
}

/* Seals the parts that a linked OUTPUT shows. When a program opens a linked file for writing, HDF5 cuts the trailers
 * off these parts, which were intact when they were linked. A part without a trailer that OUTPUT does not show is
 * damaged, and stays as it is. */
static void seal_shown(struct results *results, const struct run *run) {
    OWNED char *output = output_path(results->plan, run);
    FENCE(results->output.path);
    OWNED_ID hid_t id = H5Oopen(results->previous->file, output, H5P_DEFAULT);
    if (id >= 0 && H5Iget_type(id) == H5I_DATASET) {
        OWNED_ID hid_t creation = H5Dget_create_plist(id);
        h5_each_source(creation, NULL, seal_source, results);
    }
}

/* Are the run's parts there? */
static bool parts_are_there(const struct results *results, const struct run *run) {
    FREED_BY(run_parts_free) struct run_parts parts = parts_of_run(results, run);
    bool there = true;
    for (int p = 0; p < parts.count; p++) there &= access(parts.items[p].path, F_OK) == 0;
    return there;
}

enum status previous_import(struct results *results, struct error *error) {
    const struct previous *previous = results->previous;
    for (int i = 0, next = 0; previous && i < previous->count; i++) {
        const struct result_row *row = &previous->rows[i];
        bool timed_out = strcmp(row->status, "timeout") == 0, finished = result_row_done(row) || result_row_lost(row);
        const struct run *run = finished || timed_out ? run_of(results->plan, row, &next) : NULL;
        if (!run || !needs(results, run->task)) continue;
        int units, stride;
        const struct run *unit = units_of_run(results->units, run, &units, &stride);
        /* The row of a run in panels does not state which panel timed out. */
        if (timed_out && units == 1) store_note_timeout(results, unit, row->timeout_s);
        if (timed_out) continue;
        if (results->linked) seal_shown(results, run);
        OWNED char *part_path = results_run_path(results, run);
        if (!parts_are_there(results, run) && access(part_path, F_OK) != 0) TRY(import_run(results, run, row, error));
    }
    return STATUS_OK;
}
