/* to.c - files that results go to. */
#include "to.h"

#include "../base/clock.h"
#include "../base/fail.h"
#include "../base/text.h"
#include "../plan/space.h"
#include "../record/environment.h"
#include "../record/link.h"
#include "../storage/h5/h5virtual.h"
#include "../storage/operand.h"
#include "../storage/untrusted/fence.h"
#include "../storage/untrusted/h5open.h"
#include "output.h"
#include "scales.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define TO_SCHEMA "tilerun-to"

/* ---- which files there are --------------------------------------------------------------------------------------- */

/* The file's real path. The caller frees. */
static char *real_path(const struct destination *place) {
    const char *slash = strrchr(place->path, '/');
    char *folder = must_realpath(place->folder);
    char *real = must_printf("%s/%s", folder ? folder : place->folder, slash ? slash + 1 : place->path);
    free(folder);
    return real;
}

/* The name under which a file is written at first. Only one process at a time can be on OUTPUT; so none but the one
 * that may have left it there has this name. */
static char *unfinished_path(const struct results *results, const struct to_file *file) {
    char *output = real_path(&results->place), *both = must_printf("%s\n%s", output, file->real);
    XXH64_hash_t hash = XXH3_64bits(both, strlen(both));
    free(both);
    free(output);
    return must_printf("%s/.tilerun-to-%016llx.tmp", file->place.folder, (unsigned long long)hash);
}

/* The number of the file that an operation's result goes to. Operations of one file often follow one another. */
static enum status find_file(struct to_files *to, const struct job_operation *operation, int last, int *number,
                             struct error *error) {
    struct to_file file = {.first = 0};
    if (last >= 0 && strcmp(to->of[last].place.name, operation->to_file) == 0) {
        *number = last;
        return STATUS_OK;
    }
    enum status status = destination_find("file", operation->to_file, &file.place, error);
    file.real = status ? NULL : real_path(&file.place);
    for (*number = 0; !status && *number < to->count; ++*number)
        if (strcmp(to->of[*number].real, file.real) == 0) break;
    if (status || *number < to->count) {
        free(file.real);
        destination_free(&file.place);
        return status;
    }
    to->of = must_realloc(to->of, (size_t)(to->count + 1) * sizeof *to->of);
    to->of[to->count++] = file;
    return STATUS_OK;
}

/* Lists the operations of each file. */
static void sort_operations(struct to_files *to, int most) {
    int at = 0;
    for (int i = 0; i < most; i++)
        if (to->of_operation[i] >= 0) to->of[to->of_operation[i]].count++;
    for (int i = 0; i < to->count; i++) {
        to->of[i].first = at;
        at += to->of[i].count;
        to->of[i].count = 0;
    }
    for (int i = 0; i < most; i++) {
        struct to_file *file = to->of_operation[i] >= 0 ? &to->of[to->of_operation[i]] : NULL;
        if (file) to->sorted[file->first + file->count++] = i;
    }
}

static enum status find_files(struct results *results, struct error *error) {
    const struct job *job = results->plan->job;
    bool any = false;
    for (int i = 0; i < job->operation_count && !any; i++) any = job->operations[i].to_file != NULL;
    if (!any) return STATUS_OK;
    struct to_files *to = must_malloc(sizeof *to);
    size_t bytes = (size_t)job->operation_count * sizeof(int);
    *to = (struct to_files){.sorted = must_malloc(bytes), .of_operation = must_malloc(bytes)};
    results->to = to;
    for (int i = 0, last = -1; i < job->operation_count; i++) {
        to->of_operation[i] = -1;
        if (!job->operations[i].to_file) continue;
        TRY(find_file(to, &job->operations[i], last, &last, error));
        to->of_operation[i] = last;
    }
    sort_operations(to, job->operation_count);
    for (int i = 0; i < to->count; i++) to->of[i].unfinished = unfinished_path(results, &to->of[i]);
    return STATUS_OK;
}

/* One file may have several names: the job's reader knows only those that are spelled alike. */
static enum status check_names(const struct results *results, const struct to_file *file, struct error *error) {
    const struct job_operation *all = results->plan->job->operations;
    const int *members = &results->to->sorted[file->first];
    bool alike = true;
    for (int i = 1; i < file->count && alike; i++)
        alike = strcmp(all[members[i]].to_file, all[members[0]].to_file) == 0;
    for (int i = 0; i < file->count && !alike; i++)
        for (int j = 0; j < file->count; j++) {
            const char *one = all[members[i]].to_name, *other = all[members[j]].to_name;
            size_t length = strlen(one);
            if (i == j || strncmp(one, other, length) != 0 || (other[length] && other[length] != '/')) continue;
            return fail(error, STATUS_USAGE, "file %s: the results of '%s' and '%s' both go to %s in it",
                        file->place.name, all[members[i]].id, all[members[j]].id, one);
        }
    return STATUS_OK;
}

/* ---- may they be written? ---------------------------------------------------------------------------------------- */

hid_t to_open_written(const char *path) {
    FENCE(path);
    struct error ignored = {STATUS_OK, ""};
    hid_t id;
    if (h5_open_file(path, &id, &ignored)) return H5I_INVALID_HID;
    char *schema = h5_get_text(id, "schema");
    bool is = schema && strcmp(schema, TO_SCHEMA) == 0;
    free(schema);
    if (is) return id;
    H5Fclose(id);
    return H5I_INVALID_HID;
}

enum status to_refuse(const struct to_file *file, bool resume, struct error *error) {
    return fail(error, STATUS_USAGE, "file %s: exists%s; --overwrite replaces it", file->place.name,
                resume ? " and has not been made by this job as it, its inputs and tilerun are now" : "");
}

static enum status check_file(const struct results *results, struct to_file *file, bool resume, struct error *error) {
    TRY(destination_look(&file->place, error));
    TRY(results_check_other(results->place.name, results->plan, "file", file->place.name, error));
    TRY(destination_check(&file->place, error));
    if (!file->place.exists) return STATUS_OK;
    if (!S_ISREG(file->place.about.st_mode))
        return fail(error, STATUS_USAGE, "file %s: is not a regular file", file->place.name);
    if (results->policy.overwrite) return STATUS_OK;
    hid_t id = resume ? to_open_written(file->place.path) : H5I_INVALID_HID;
    if (id < 0) return to_refuse(file, resume, error);
    H5Fclose(id);
    return STATUS_OK;
}

static enum status check_files(const struct results *results, bool resume, struct error *error) {
    for (int i = 0; i < results->to->count; i++) TRY(check_file(results, &results->to->of[i], resume, error));
    return STATUS_OK;
}

enum status to_open(struct results *results, bool resume, struct error *error) {
    TRY(find_files(results, error));
    if (!results->to) return STATUS_OK;
    for (int i = 0; i < results->to->count; i++) TRY(check_names(results, &results->to->of[i], error));
    return check_files(results, resume, error);
}

enum status to_begin(struct results *results, bool resume, struct error *error) {
    if (!results->to) return STATUS_OK;
    to_leave(results); /* what a killed process left */
    return check_files(results, resume, error);
}

void to_leave(const struct results *results) {
    for (int i = 0; results->to && i < results->to->count; i++)
        if (results->to->of[i].unfinished) unlink(results->to->of[i].unfinished);
}

void to_close(struct results *results) {
    struct to_files *to = results->to;
    if (!to) return;
    for (int i = 0; i < to->count; i++) {
        destination_free(&to->of[i].place);
        free(to->of[i].real);
        free(to->of[i].unfinished);
    }
    free(to->of);
    free(to->sorted);
    free(to->of_operation);
    free(to);
    results->to = NULL;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* `adopted`: the run whose part has become the file `id`; NULL: none. */
static enum status write_result(const struct results *results, const struct result_summary *summary, int task,
                                const struct run *adopted, hid_t id, struct scales *scales, struct error *error) {
    const struct plan *plan = results->plan;
    const struct run *run = &plan->runs[summary->result_run[task]];
    const char *name = plan->tasks[task].operation->to_name;
    char key[33];
    struct stored from = {.file = id};
    bool own = adopted && adopted->number == run->number;
    enum status status = own ? STATUS_OK : copy_open(results, run, &from, error);
    if (!status) status = copy_output(&from, id, results, run, &summary->rows[run->number], COPY_VALUES, name, error);
    copy_close(&from);
    hid_t dataset = status ? H5I_INVALID_HID : H5Dopen2(id, name, H5P_DEFAULT);
    keys_of_task(results->keys, task, key);
    if (!status && dataset < 0) status = FAIL_CALL(error, STATUS_IO, "H5Dopen2", h5_error_text());
    if (!status) status = h5_set_text(dataset, "key", key, error);
    if (dataset >= 0) H5Dclose(dataset);
    return status ? status : scales_attach(scales, &plan->arrays[plan->tasks[task].out], name, error);
}

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

/* Writes all into an open file and closes it. */
static enum status fill_file(const struct results *results, const struct result_summary *summary,
                             const struct to_file *file, hid_t id, const char *path, struct error *error) {
    struct scales *scales = scales_create(results, id, "/");
    enum status status = write_head(results, summary, file, id, error);
    for (int i = 0; i < file->count && !status; i++)
        status = write_result(results, summary, results->to->sorted[file->first + i], file->adopted, id, scales, error);
    if (!status) status = scales_finish(scales, error);
    scales_free(scales);
    enum status closed = h5_close_file(id, error);
    if (!status) status = closed;
    return !status && results->plan->job->sync ? results_sync_file(path, error) : status;
}

static enum status write_file(struct results *results, const struct result_summary *summary, struct to_file *file,
                              struct error *error) {
    hid_t id;
    enum status status = h5_create_file(file->unfinished, &id, error);
    if (!status) status = fill_file(results, summary, file, id, file->unfinished, error);
    file->written = !status;
    return status ? fail_prefix(error, "file", file->place.name) : status;
}

/* The first of a file's operations that made no result; NULL: all did. */
static const char *lacking(const struct results *results, const struct result_summary *summary,
                           const struct to_file *file) {
    for (int i = 0; i < file->count; i++) {
        int task = results->to->sorted[file->first + i];
        if (summary->result_run[task] < 0) return results->plan->tasks[task].operation->id;
    }
    return NULL;
}

/* ---- the part that becomes a file -------------------------------------------------------------------------------- */

/* Of all results that have a `to` on the file system of the parts, the largest, if a part of at least SPACE_ADOPT_BYTES
 * has it: to copy it would take as long as writing it did. */
static void choose_adopted(const struct results *results, const struct result_summary *summary) {
    struct to_file *best = NULL;
    const struct run *largest = NULL;
    off_t most = SPACE_ADOPT_BYTES - 1;
    struct stat folder, about;
    /* Parts that an OUTPUT shows, or that stay beside it, do not change. */
    if (results->policy.links || results->policy.linked || strcmp(summary->status, "complete") != 0) return;
    for (int i = 0; i < results->to->count; i++) {
        struct to_file *file = &results->to->of[i];
        if (lacking(results, summary, file) || stat(file->place.folder, &folder) != 0) continue;
        for (int j = 0; j < file->count; j++) {
            const struct run *run = &results->plan->runs[summary->result_run[results->to->sorted[file->first + j]]];
            char *path = results_run_path(results, run);
            if (!run_is_in_panels(results, run) && stat(path, &about) == 0 && about.st_dev == folder.st_dev &&
                about.st_size > most) {
                most = about.st_size;
                largest = run;
                best = file;
            }
            free(path);
        }
    }
    if (best) best->adopted = largest;
}

/* Removes what only a part has. */
static enum status strip_part(hid_t id, struct error *error) {
    static const char *const attributes[] = {"key", "job_runs", "job_skipped", "job_sha256"};
    bool failed = H5Ldelete(id, "runs", H5P_DEFAULT) < 0;
    for (int i = 0; i < SAMPLE_KINDS && !failed; i++)
        failed = H5Lexists(id, sample_kinds[i].in_part, H5P_DEFAULT) > 0 &&
                 H5Ldelete(id, sample_kinds[i].in_part, H5P_DEFAULT) < 0;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes && !failed; i++)
        failed = H5Aexists(id, attributes[i]) > 0 && H5Adelete(id, attributes[i]) < 0;
    return failed ? FAIL_CALL(error, STATUS_IO, "H5Ldelete", h5_error_text()) : STATUS_OK;
}

enum status to_adopt(struct results *results, const struct result_summary *summary, struct error *error) {
    int number = 0;
    if (!to_adopts(results)) return STATUS_OK;
    while (!results->to->of[number].adopted) number++;
    const struct to_file *file = &results->to->of[number];
    char *path = results_run_path(results, file->adopted);
    hid_t id;
    results_close_outputs(results);
    enum status status = h5_reopen_file(path, &results->journal, &id, error);
    struct error later = {STATUS_OK, ""};
    if (!status && (status = strip_part(id, error)))
        h5_close_file(id, &later);
    else if (!status)
        status = fill_file(results, summary, file, id, path, error);
    free(path);
    return status;
}

enum status to_write(struct results *results, const struct result_summary *summary, struct error *error) {
    enum status status = STATUS_OK;
    if (results->to) choose_adopted(results, summary);
    for (int i = 0; results->to && i < results->to->count && !status; i++) {
        struct to_file *file = &results->to->of[i];
        const char *lacks = lacking(results, summary, file);
        if (lacks)
            text_print_stderr("tilerun: file %s: is not written, because '%s' has no result%s\n", file->place.name,
                              lacks, file->count > 1 ? "; what there is of the others lies in the output" : "");
        else if (file->adopted)
            file->written = true; /* to_adopt writes it, when all else has been taken out of the part */
        else
            status = write_file(results, summary, file, error);
    }
    if (!status) return STATUS_OK;
    to_leave(results);
    return error->status = STATUS_IO;
}

bool to_adopts(const struct results *results) {
    for (int i = 0; results->to && i < results->to->count; i++)
        if (results->to->of[i].adopted) return true;
    return false;
}

bool to_has(const struct results *results, int task) {
    int number = results->to ? results->to->of_operation[task] : -1;
    return number >= 0 && results->to->of[number].written;
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
    char *way = relative_path(results, results->to->of[results->to->of_operation[task]].real);
    const struct h5_source source = {way, made->operation->to_name, box_whole(&shape)};
    enum status status =
        h5_create_virtual(file, path, results->plan->arrays[made->out].dtype, &shape, &source, 1, error);
    free(way);
    return status;
}

enum status to_name(const struct results *results, int task, hid_t file, const char *path, struct error *error) {
    char *way = relative_path(results, results->to->of[results->to->of_operation[task]].real);
    hid_t output = H5Dopen2(file, path, H5P_DEFAULT);
    enum status status = output < 0 ? FAIL_CALL(error, STATUS_IO, "H5Dopen2", h5_error_text())
                                    : h5_set_text(output, LINK_TO_FILE, way, error);
    if (!status) status = h5_set_text(output, LINK_TO_DATASET, results->plan->tasks[task].operation->to_name, error);
    if (output >= 0) H5Dclose(output);
    free(way);
    return status;
}

/* A file that came there, or was changed, while the job ran. */
static bool is_new(const struct destination *place) {
    struct stat now;
    if (stat(place->path, &now) != 0) return false;
    return !place->exists || now.st_ino != place->about.st_ino || now.st_mtim.tv_sec != place->about.st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != place->about.st_mtim.tv_nsec;
}

enum status to_put(const struct results *results, bool *final, struct error *error) {
    const struct to_files *to = results->to;
    for (int i = 0; to && i < to->count; i++)
        if (to->of[i].written && !results->policy.overwrite && is_new(&to->of[i].place))
            return fail(error, STATUS_IO,
                        "file %s: another process has written it while the job ran; move it away and --resume, or "
                        "replace it with --resume --overwrite",
                        to->of[i].place.name);
    for (int i = 0; to && i < to->count; i++) {
        const struct to_file *file = &to->of[i];
        if (!file->written) continue;
        char *part = file->adopted ? results_run_path(results, file->adopted) : NULL;
        enum status status = destination_put(&file->place, part ? part : file->unfinished, error);
        *final |= part && !status;
        free(part);
        if (status) return status;
    }
    for (int i = 0; to && i < to->count && results->plan->job->sync; i++)
        if (to->of[i].written && results_sync_folder(to->of[i].place.folder, error))
            return fail_prefix(error, "file", to->of[i].place.name);
    return STATUS_OK;
}
