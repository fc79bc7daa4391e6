/* to.c - finds, checks and writes the files that results go to, struct to_files. */
#include "to.h"

#include "../base/clock.h"
#include "../base/destination.h"
#include "../base/fail.h"
#include "../base/path.h"
#include "../base/text.h"
#include "../plan/space.h"
#include "../record/environment.h"
#include "../record/linked.h"
#include "../storage/h5/h5virtual.h"
#include "../storage/operand.h"
#include "../storage/untrusted/fence.h"
#include "../storage/untrusted/h5open.h"
#include "output.h"
#include "scales.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define TO_SCHEMA "tilerun-to"

/* ---- which files there are --------------------------------------------------------------------------------------- */

/* The absolute path of a destination, with links of folders followed. The caller frees. */
static char *real_path(const struct destination *destination) {
    OWNED char *folder = must_realpath(destination->folder);
    return must_printf("%s/%s", folder ? folder : destination->folder, path_name(destination->path));
}

/* The name under which a file is written at first. It depends on OUTPUT, on which only one process can work: so a file
 * of this name was left by an earlier process on it. */
static char *unfinished_path(const struct results *results, const struct to_file *file) {
    OWNED char *output = real_path(&results->output), *both = must_printf("%s\n%s", output, file->real);
    XXH64_hash_t hash = XXH3_64bits(both, strlen(both));
    return must_printf("%s/.tilerun-to-%016llx.tmp", file->destination.folder, (unsigned long long)hash);
}

/* Finds the number of the file that an operation's result goes to; adds the file if it is new. `last`: the file of the
 * previous operation, which is often the same; -1: none. */
static enum status find_file(struct to_files *to, const struct job_operation *operation, int last, int *number,
                             struct error *error) {
    struct to_file file = {.first = 0};
    if (last >= 0 && strcmp(to->items[last].destination.name, operation->to_file) == 0) {
        *number = last;
        return STATUS_OK;
    }
    enum status status = destination_find("file", operation->to_file, &file.destination, error);
    file.real = status ? NULL : real_path(&file.destination);
    for (*number = 0; !status && *number < to->count; ++*number)
        if (strcmp(to->items[*number].real, file.real) == 0) break;
    if (status || *number < to->count) {
        free(file.real);
        destination_free(&file.destination);
        return status;
    }
    *APPEND(to->items, to->count) = file;
    return STATUS_OK;
}

/* Collects the files of all `to`. The operations of a file form a list in the order of the job: first, next,
 * last. */
static enum status find_files(struct results *results, struct error *error) {
    const struct job *job = results->plan->job;
    bool any = false;
    for (int i = 0; i < job->operation_count && !any; i++) any = job->operations[i].to_file != NULL;
    if (!any) return STATUS_OK;
    struct to_files *to = results->to = must_zeroed(sizeof *to);
    to->file_of_operation = must_malloc((size_t)job->operation_count * sizeof *to->file_of_operation);
    to->next = must_malloc((size_t)job->operation_count * sizeof *to->next);
    for (int i = 0, number = -1; i < job->operation_count; i++) {
        to->file_of_operation[i] = to->next[i] = -1;
        if (!job->operations[i].to_file) continue;
        TRY(find_file(to, &job->operations[i], number, &number, error));
        to->file_of_operation[i] = number;
        struct to_file *file = &to->items[number];
        if (file->count == 0)
            file->first = i;
        else
            to->next[file->last] = i;
        file->last = i;
        file->count++;
    }
    for (int i = 0; i < to->count; i++) to->items[i].unfinished = unfinished_path(results, &to->items[i]);
    return STATUS_OK;
}

/* STATUS_USAGE: two results go to one data set, or one into the other as a group, by different names of the file. If
 * the names are spelled alike, the job file's reader has found that. */
static enum status check_names(const struct results *results, const struct to_file *file, struct error *error) {
    const struct job_operation *all = results->plan->job->operations;
    const int *next = results->to->next;
    bool alike = true;
    for (int i = file->first; i >= 0 && alike; i = next[i])
        alike = strcmp(all[i].to_file, all[file->first].to_file) == 0;
    for (int i = file->first; i >= 0 && !alike; i = next[i])
        for (int j = file->first; j >= 0; j = next[j]) {
            const char *one = all[i].to_name, *other = all[j].to_name;
            size_t length = strlen(one);
            if (i == j || strncmp(one, other, length) != 0 || (other[length] && other[length] != '/')) continue;
            if (other[length])
                return fail(error, STATUS_USAGE,
                            "file %s: %s is the result of '%s', so it cannot be the group of %s, the result of '%s'",
                            file->destination.name, one, all[i].id, other, all[j].id);
            return fail(error, STATUS_USAGE, "file %s: the results of '%s' and '%s' both go to %s in it",
                        file->destination.name, all[i].id, all[j].id, one);
        }
    return STATUS_OK;
}

/* ---- may they be written? ---------------------------------------------------------------------------------------- */

/* Opens a finished file that tilerun has written for `to`; negative: the file is something else. Close with
 * H5Fclose. */
static hid_t open_written(const char *path) {
    FENCE(path);
    hid_t id;
    if (h5_open_file(path, &id, IGNORED)) return H5I_INVALID_HID;
    OWNED char *schema = h5_get_text(id, "schema");
    if (schema && strcmp(schema, TO_SCHEMA) == 0) return id;
    H5Fclose(id);
    return H5I_INVALID_HID;
}

/* Fails because a file exists that must not be replaced. */
static enum status refuse_to_file(const struct results *results, const struct to_file *file, struct error *error) {
    return fail(error, STATUS_USAGE, "file %s: exists%s; --overwrite replaces it", file->destination.name,
                results->policy.resume ? " and was not made by this version of the job, its inputs and tilerun" : "");
}

/* STATUS_USAGE: a file must not be replaced, or cannot be written. */
static enum status check_file(const struct results *results, struct to_file *file, struct error *error) {
    TRY(destination_look(&file->destination, error));
    TRY(results_check_other(results->output.name, results->plan, "file", file->destination.name, error));
    TRY(destination_check(&file->destination, error));
    if (!file->destination.exists) return STATUS_OK;
    if (!S_ISREG(file->destination.about.st_mode))
        return fail(error, STATUS_USAGE, "file %s: is not a regular file", file->destination.name);
    if (results->policy.overwrite) return STATUS_OK;
    OWNED_ID hid_t id = results->policy.resume ? open_written(file->destination.path) : H5I_INVALID_HID;
    return id < 0 ? refuse_to_file(results, file, error) : STATUS_OK;
}

static enum status check_files(const struct results *results, struct error *error) {
    for (int i = 0; i < results->to->count; i++) TRY(check_file(results, &results->to->items[i], error));
    return STATUS_OK;
}

enum status to_open(struct results *results, struct error *error) {
    TRY(find_files(results, error));
    if (!results->to) return STATUS_OK;
    for (int i = 0; i < results->to->count; i++) TRY(check_names(results, &results->to->items[i], error));
    return check_files(results, error);
}

enum status to_begin(const struct results *results, struct error *error) {
    if (!results->to) return STATUS_OK;
    to_leave(results); /* what a killed process left */
    return check_files(results, error);
}

void to_leave(const struct results *results) {
    for (int i = 0; results->to && i < results->to->count; i++)
        if (results->to->items[i].unfinished) unlink(results->to->items[i].unfinished);
}

void to_close(struct results *results) {
    struct to_files *to = results->to;
    if (!to) return;
    for (int i = 0; i < to->count; i++) {
        destination_free(&to->items[i].destination);
        free(to->items[i].real);
        free(to->items[i].unfinished);
    }
    free(to->items);
    free(to->next);
    free(to->file_of_operation);
    free(to);
    results->to = NULL;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Writes a task's result into the open file `id`. `adopted`: the run whose part has become the file; NULL: none has. */
static enum status write_result(const struct results *results, const struct result_summary *summary, int task,
                                const struct run *adopted, hid_t id, struct scales *scales, struct error *error) {
    const struct plan *plan = results->plan;
    const struct run *run = &plan->runs[summary->result_run[task]];
    const char *name = plan->tasks[task].operation->to_name;
    char key[33];
    FREED_BY(copy_close) struct stored from = {0};
    bool is_adopted = adopted && adopted->number == run->number;
    TRY(copy_open(results, run, is_adopted ? id : H5I_INVALID_HID, &from, error));
    TRY(copy_output(&from, id, results, run, &summary->rows[run->number], COPY_VALUES, name, error));
    OWNED_ID hid_t dataset = H5Dopen2(id, name, H5P_DEFAULT);
    keys_of_task(results->keys, task, key);
    if (dataset < 0) return FAIL_CALL(error, STATUS_IO, "H5Dopen2", h5_error_text());
    TRY(h5_set_text(dataset, "key", key, error));
    return scales_attach(scales, &plan->arrays[plan->tasks[task].out], name, error);
}

/* Writes the attributes of a file. */
static enum status write_head(const struct results *results, const struct result_summary *summary,
                              const struct to_file *file, hid_t id, struct error *error) {
    char finished[TIME_TEXT];
    TRY(h5_set_text(id, "schema", TO_SCHEMA, error));
    TRY(h5_set_integer(id, "schema_version", 1, error));
    TRY(h5_set_integer(id, "results", file->count, error));
    TRY(h5_set_text(id, "job_name", results->plan->job->name, error));
    TRY(h5_set_text(id, "tool_version", tilerun_version, error));
    TRY(h5_set_text(id, "git_commit", tilerun_git_commit, error));
    TRY(h5_set_text(id, "created", summary->created, error));
    TRY(h5_set_text(id, "finished", time_text(finished), error));
    return h5_set_text(id, "command_line", summary->command_line, error);
}

/* Writes attributes, results and scales into the open file `id`. `adopted`: the run whose part has become the file,
 * from which the samples are removed; NULL: the file is new. */
static enum status fill_file(const struct results *results, const struct result_summary *summary,
                             const struct to_file *file, const struct run *adopted, hid_t id, struct error *error) {
    FREED_BY(scales_free) struct scales *scales = scales_create(results, id, "/");
    TRY(write_head(results, summary, file, id, error));
    for (int i = 0; i < SAMPLE_KINDS && adopted; i++)
        if (H5Lexists(id, sample_kinds[i].in_part, H5P_DEFAULT) > 0 &&
            H5Ldelete(id, sample_kinds[i].in_part, H5P_DEFAULT) < 0)
            return FAIL_CALL(error, STATUS_IO, "H5Ldelete", h5_error_text());
    for (int task = file->first; task >= 0; task = results->to->next[task])
        TRY(write_result(results, summary, task, adopted, id, scales, error));
    return scales_finish(scales, error);
}

/* Writes one unfinished file. `adopted`: the run whose part becomes the file; NULL: the file is new. */
static enum status write_file(const struct results *results, const struct result_summary *summary,
                              const struct to_file *file, const struct run *adopted, struct error *error) {
    hid_t id;
    enum status status = publish_begin(results, file->unfinished, &adopted, &id, error);
    if (!status) {
        status = fill_file(results, summary, file, adopted, id, error);
        status = publish_end(results, file->unfinished, id, status, error);
    }
    return status ? fail_prefix(error, "file", file->destination.name) : STATUS_OK;
}

/* The first of a file's operations that made no result; NULL: all made one. */
static const char *first_without_result(const struct results *results, const struct result_summary *summary,
                                        const struct to_file *file) {
    for (int task = file->first; task >= 0; task = results->to->next[task])
        if (summary->result_run[task] < 0) return results->plan->tasks[task].operation->id;
    return NULL;
}

void to_select(struct results *results, const struct result_summary *summary) {
    for (int i = 0; results->to && i < results->to->count; i++) {
        struct to_file *file = &results->to->items[i];
        const char *lacks = first_without_result(results, summary, file);
        file->written = !lacks;
        if (lacks)
            text_print_stderr("tilerun: file %s is not written, because '%s' has no result%s\n", file->destination.name,
                              lacks, file->count > 1 ? "; the output holds the results of the others" : "");
    }
}

bool to_takes(const struct results *results, const struct result_summary *summary, const struct run *run) {
    return run && summary->result_run[run->task] == run->number && to_has(results, run->task);
}

enum status to_write(const struct results *results, const struct result_summary *summary, bool adopting,
                     struct error *error) {
    const struct run *adopted = to_takes(results, summary, results->adopted) ? results->adopted : NULL;
    int adopter = adopted ? results->to->file_of_operation[adopted->task] : -1;
    for (int i = 0; results->to && i < results->to->count; i++)
        if (results->to->items[i].written && (i == adopter) == adopting &&
            write_file(results, summary, &results->to->items[i], adopting ? adopted : NULL, error))
            return error->status = STATUS_IO;
    return STATUS_OK;
}

bool to_has(const struct results *results, int task) {
    int number = results->to ? results->to->file_of_operation[task] : -1;
    return number >= 0 && results->to->items[number].written;
}

bool to_shows(const struct results *results, int task) {
    const struct task *made = &results->plan->tasks[task];
    const struct shape *shape = &made->geometry.out.shape;
    int64_t bytes = shape_elements(shape) * (int64_t)dtype_size(results->plan->arrays[made->out].dtype);
    return to_has(results, task) && bytes > SPACE_COPIED_BYTES;
}

enum status to_show(const struct results *results, int task, hid_t file, const char *path, struct error *error) {
    const struct task *made = &results->plan->tasks[task];
    const struct shape shape = operand_array(&made->geometry.out);
    OWNED char *link = relative_path(results, results->to->items[results->to->file_of_operation[task]].real);
    const struct h5_source source = {link, made->operation->to_name, box_whole(&shape)};
    return h5_create_virtual(file, path, results->plan->arrays[made->out].dtype, &shape, &source, 1, error);
}

enum status to_name(const struct results *results, int task, hid_t file, const char *path, struct error *error) {
    OWNED char *link = relative_path(results, results->to->items[results->to->file_of_operation[task]].real);
    OWNED_ID hid_t output = H5Dopen2(file, path, H5P_DEFAULT);
    TRY(output < 0 ? FAIL_CALL(error, STATUS_IO, "H5Dopen2", h5_error_text())
                   : h5_set_text(output, LINK_TO_FILE, link, error));
    return h5_set_text(output, LINK_TO_DATASET, results->plan->tasks[task].operation->to_name, error);
}

enum status to_put(const struct results *results, struct error *error) {
    const struct to_files *to = results->to;
    for (int i = 0; to && i < to->count; i++)
        if (to->items[i].written) TRY(publish_check(results, &to->items[i].destination, error));
    for (int i = 0; to && i < to->count; i++)
        if (to->items[i].written) TRY(publish_put(results, &to->items[i].destination, to->items[i].unfinished, error));
    return STATUS_OK;
}

/* ---- files that an earlier process has written ------------------------------------------------------------------- */

/* The state of a file's path: no file, a file of another job, or one with some or all of this job's results. */
enum earlier { NOTHING, FOREIGN, SOME_OF_OURS, ALL_OF_OURS };

/* Finds the state of the path that a file will be renamed to. */
static enum earlier look_at(const struct results *results, const struct job *job, struct keys *keys,
                            const struct to_file *file) {
    FENCE(file->destination.path);
    if (access(file->destination.path, F_OK) != 0) return NOTHING;
    OWNED_ID hid_t id = open_written(file->destination.path);
    if (id < 0) return FOREIGN;
    int64_t there = h5_get_integer(id, "results", 0), ours = 0;
    for (int number = file->first; number >= 0; number = results->to->next[number]) {
        char wanted[33];
        keys_of_task(keys, number, wanted);
        OWNED char *key = h5_get_text_of(id, job->operations[number].to_name, "key");
        ours += key && strcmp(key, wanted) == 0;
    }
    return ours == 0 || ours < there ? FOREIGN : ours < file->count ? SOME_OF_OURS : ALL_OF_OURS;
}

/* Where the previous OUTPUT has an operation's result: nowhere, in OUTPUT itself, in the file of its `to`, in another
 * file. */
enum held { HELD_NOT, HELD_INSIDE, HELD_IN_FILE, HELD_ELSEWHERE };

/* Finds where the previous OUTPUT has an operation's result. `file`: of its `to`; NULL: it has no `to`. */
static enum held held_by(const struct results *results, const struct job_operation *operation,
                         const struct to_file *file) {
    FENCE(results->output.path);
    OWNED char *path = result_path_of("outputs", operation->label, operation->id);
    OWNED_ID hid_t output = results->previous ? H5Oopen(results->previous->file, path, H5P_DEFAULT) : H5I_INVALID_HID;
    if (output < 0) return HELD_NOT;
    OWNED char *name = h5_get_text(output, LINK_TO_FILE), *object = h5_get_text(output, LINK_TO_DATASET);
    OWNED char *link = file ? relative_path(results, file->real) : NULL;
    if (!name) return HELD_INSIDE;
    bool in_file = object && link && strcmp(link, name) == 0 && strcmp(object, operation->to_name) == 0;
    return in_file ? HELD_IN_FILE : HELD_ELSEWHERE;
}

/* Is the file of a `to` finished? Yes if it has all of its results, also by the previous OUTPUT; or if it was not
 * written because one of its results was not made. */
static bool is_finished(const struct results *results, const struct job *job, const struct to_file *file,
                        enum earlier earlier) {
    int in_file = 0, inside = 0, missing = 0;
    for (int i = file->first; i >= 0; i = results->to->next[i]) {
        enum held held = held_by(results, &job->operations[i], file);
        in_file += held == HELD_IN_FILE;
        inside += held == HELD_INSIDE;
        missing += held == HELD_NOT;
    }
    return (in_file == file->count && earlier == ALL_OF_OURS) || (missing > 0 && inside + missing == file->count);
}

enum status to_resume(const struct results *results, bool *done, struct error *error) {
    const struct plan *plan = results->plan;
    struct keys *keys = results->keys;
    const struct job *job = plan->job;
    const bool has_previous = results->previous != NULL;             /* an OUTPUT of this job */
    if (results->shard && !results->output.exists) return STATUS_OK; /* its inputs are not all hashed */
    for (int i = 0; *done && i < job->operation_count && has_previous; i++)
        if (!job->operations[i].to_file) *done = held_by(results, &job->operations[i], NULL) != HELD_ELSEWHERE;
    for (int i = 0; results->to && i < results->to->count; i++) {
        const struct to_file *file = &results->to->items[i];
        enum earlier earlier = look_at(results, job, keys, file);
        if (earlier == FOREIGN && !results->policy.overwrite) return refuse_to_file(results, file, error);
        if (*done && has_previous) *done = is_finished(results, job, file, earlier);
    }
    return STATUS_OK;
}
