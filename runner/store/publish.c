/* publish.c - writes the results file: the job, its environment, its inputs, and what the parts hold. It is written as
 * a whole or not at all. */
#include "../base/fail.h"
#include "../base/match.h"
#include "../plan/space.h"
#include "../storage/h5/h5journal.h"
#include "../storage/h5/h5scale.h"
#include "../storage/h5/h5virtual.h"
#include "output.h"
#include "results.h"
#include "scales.h"
#include "to.h"

#include "../base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- inputs ---- */

/* The absolute form of a pattern; its folder exists. The caller frees. */
static char *absolute_pattern(const char *pattern) {
    int length = match_folder_length(pattern);
    char *folder = must_printf("%.*s", length, pattern), *real = length ? must_realpath(folder) : must_realpath(".");
    char *whole = must_printf("%s/%s", real ? real : folder, pattern + length);
    free(real);
    free(folder);
    return whole;
}

/* How the input was decoded, if that has changed its elements. */
static enum status write_decoded(hid_t group, const struct reader *reader, struct error *error) {
    const struct array *array = reader->array;
    int64_t missing;
    if (!array->decoding || array->packed) return STATUS_OK;
    bool known = reader_missing_count(reader, &missing);
    char *said = reader_decoding_text(reader);
    free(said);
    if (known && !said) return STATUS_OK;
    char *how = array->mixed ? must_strdup("each file by its own attributes") : decoding_text(array->decoding);
    enum status status = h5_set_text(group, "decoded", how, error);
    free(how);
    return !status && known ? h5_set_integer(group, "missing", missing, error) : status;
}

/* How much of what the job saw has no source. */
static enum status write_lack(hid_t group, const struct h5_absent *absent, struct error *error) {
    enum status status = h5_set_integer(group, "missing_sources", absent->sources, error);
    if (!status) status = h5_set_integer(group, "missing_source_elements", absent->elements, error);
    if (!status && absent->first) status = h5_set_text(group, "missing_source", absent->first, error);
    return status;
}

/* Names the data; no link leads to them, because netCDF4 and xarray open no file in which one leads nowhere. */
static enum status write_file_input(hid_t group, const struct reader *reader, struct error *error) {
    const struct job_input *input = reader->array->input;
    const struct array_parts *parts = reader->array->parts;
    char *path = parts ? absolute_pattern(input->file) : results_absolute(input->file);
    enum status status = h5_set_text(group, "file", path, error);
    if (!status) status = h5_set_text(group, "dataset", input->dataset, error);
    if (!status && input->field) status = h5_set_text(group, "field", input->field, error);
    if (!status && input->has_rows)
        status = h5_set_shape(group, "rows", &(struct shape){2, {input->rows[0], input->rows[1]}}, error);
    if (!status && input->select.rank) {
        char *select = job_select_text(&input->select);
        status = h5_set_text(group, "select", select, error);
        free(select);
    }
    if (!status) status = write_decoded(group, reader, error);
    if (!status && input->fill) status = h5_set_text(group, "sources", "fill", error);
    if (!status && input->fill) status = write_lack(group, &reader->array->absent, error);
    if (!status && reader->hash[0]) status = h5_set_text(group, "xxh3", reader->hash, error);
    if (!status && parts) status = h5_set_integer(group, "concatenate", input->concatenate, error);
    if (!status && parts) status = h5_set_integer(group, "files", parts->count, error);
    free(path);
    return status;
}

static enum status write_random_input(hid_t group, const struct random_terms *terms, struct error *error) {
    static const char *const names[] = {"uniform", "normal", "integer", "constant", "index"};
    enum distribution distribution = terms->distribution;
    enum status status = h5_set_text(group, "generator", "philox4x32-10", error);
    if (!status) status = h5_set_text(group, "distribution", names[distribution], error);
    if (distribution == RANDOM_UNIFORM || distribution == RANDOM_INTEGER) {
        if (!status) status = h5_set_real(group, "low", terms->low, error);
        if (!status) status = h5_set_real(group, "high", terms->high, error);
    } else if (distribution == RANDOM_NORMAL) {
        if (!status) status = h5_set_real(group, "mean", terms->mean, error);
        if (!status) status = h5_set_real(group, "std", terms->std, error);
    } else if (distribution == RANDOM_CONSTANT) {
        if (!status) status = h5_set_real(group, "value", terms->value, error);
    }
    if (!status) status = h5_set_integer(group, "seed", (int64_t)terms->seed, error);
    return status;
}

static enum status write_inputs(hid_t file, const struct results *results, struct error *error) {
    enum status status = STATUS_OK;
    for (int i = 0; i < results->plan->job->input_count && !status; i++) {
        const struct array *array = &results->plan->arrays[i];
        char *path = results_path_of("inputs", array->label, array->name);
        hid_t group = H5I_INVALID_HID;
        status = h5_group(file, path, &group, error);
        free(path);
        if (status) break;
        status = h5_set_shape(group, "shape", &array->shape, error);
        if (!status) status = h5_set_text(group, "dtype", dtype_name(array->dtype), error);
        if (!status)
            status = array->input->random ? write_random_input(group, &array->input->terms, error)
                                          : write_file_input(group, &results->readers->of[i], error);
        H5Gclose(group);
    }
    return status;
}

/* ---- data from the parts ---- */

/* Takes a run's output. With `store: all` a task's result is one of the variants' outputs, and two names lead to one
 * data set. */
static enum status take_outputs(const struct stored *from, hid_t file, const struct results *results,
                                const struct run *run, const struct result_row *row, bool is_result,
                                struct scales *scales, struct error *error) {
    const struct job_operation *operation = results->plan->tasks[run->task].operation;
    enum job_store store = operation->run.store;
    if (store == STORE_NONE || (store == STORE_FIRST && !is_result) || run->kernel->is_roof) return STATUS_OK;
    char *variants = results_path_of("variants", operation->label, operation->id);
    char *variant = must_printf("%s/%s", variants, run->label);
    char *result = results_path_of("outputs", operation->label, operation->id);
    const char *path = store == STORE_ALL ? variant : result;
    bool to = is_result && to_has(results, run->task), shows = to && to_shows(results, run->task);
    enum taken as = shows ? COPY_NOTHING : results->policy.links && !to ? COPY_LINK_TO_PART : COPY_VALUES;
    enum status status = shows ? to_show(results, run->task, file, path, error) : STATUS_OK;
    if (!status) status = copy_output(from, file, results, run, row, as, path, error);
    if (!status && to) status = to_name(results, run->task, file, path, error);
    if (!status)
        status = scales_attach(scales, &results->plan->arrays[results->plan->tasks[run->task].out], path, error);
    if (!status && is_result && store == STORE_ALL) {
        hid_t parent = H5I_INVALID_HID;
        result[strlen(result) - strlen(operation->id) - 1] = '\0';
        status = h5_group(file, result, &parent, error);
        if (!status && H5Lcreate_hard(file, variant, parent, operation->id, H5P_DEFAULT, H5P_DEFAULT) < 0)
            status = FAIL_CALL(error, STATUS_IO, "H5Lcreate_hard", h5_error_text());
        if (parent >= 0) H5Gclose(parent);
    }
    free(result);
    free(variant);
    free(variants);
    return status;
}

static enum status take_samples(const struct stored *from, hid_t file, int32_t run, struct error *error) {
    enum status status = STATUS_OK;
    for (int i = 0; i < SAMPLE_KINDS && !status; i++) {
        char path[64];
        if (H5Lexists(from->file, sample_kinds[i].in_part, H5P_DEFAULT) <= 0) continue;
        snprintf(path, sizeof path, "/samples/%d%s", run, sample_kinds[i].suffix);
        status = copy_whole_object(from->file, sample_kinds[i].in_part, file, path, true, error);
    }
    return status;
}

static enum status take_all(const struct stored *from, hid_t file, const struct results *results, const struct run *run,
                            const struct result_row *row, bool is_result, struct scales *scales, struct error *error) {
    TRY(take_outputs(from, file, results, run, row, is_result, scales, error));
    if (from->file >= 0) return take_samples(from, file, row->run, error);
    char path[64];
    snprintf(path, sizeof path, "/samples/%d", row->run);
    return panels_write_samples(results, run, file, path, error);
}

/* Takes the data of a run that is ok from its parts. */
static enum status take_run(hid_t file, const struct results *results, const struct run *run,
                            const struct result_row *row, bool is_result, struct scales *scales, struct error *error) {
    if (!result_row_done(row)) return STATUS_OK;
    struct stored from;
    enum status status = copy_open(results, run, &from, error);
    if (!status) status = take_all(&from, file, results, run, row, is_result, scales, error);
    if (status) error->status = status = STATUS_IO;
    copy_close(&from);
    return status;
}

/* ---- the part that becomes the file ---- */

/* Finds the part that becomes the results file, because copying a large output takes as long as writing it did: the
 * largest stored part of at least SPACE_ADOPT_BYTES; NULL: none. Its objects are moved to their places within the file,
 * and everything else is added. If that fails, as on a full disk, the part is restored; after a kill the next process
 * on OUTPUT does that. */
static const struct run *find_adopted(const struct results *results, const struct result_summary *summary) {
    const struct run *largest = NULL;
    if (results->policy.links || results->policy.linked) return NULL; /* parts that an OUTPUT shows do not change */
    if (to_adopts(results) || strcmp(summary->status, "complete") != 0) return NULL; /* the parts stay */
    off_t most = SPACE_ADOPT_BYTES - 1;
    for (int i = 0; i < results->plan->run_count; i++) {
        const struct run *run = &results->plan->runs[i];
        enum job_store store = results->plan->tasks[run->task].operation->run.store;
        bool result = summary->result_run[run->task] == i;
        bool stored = result ? store != STORE_NONE && !to_has(results, run->task) : store == STORE_ALL;
        struct stat about;
        char *path = results_run_path(results, run);
        if (stored && !run_is_in_panels(results, run) && result_row_done(&summary->rows[i]) &&
            stat(path, &about) == 0 && about.st_size > most) {
            most = about.st_size;
            largest = run;
        }
        free(path);
    }
    return largest;
}

/* Removes what only a part has. */
static enum status strip_part(hid_t file, struct error *error) {
    static const char *const names[] = {"schema",   "key",        "job_runs",     "job_skipped",
                                        "job_name", "job_sha256", "tool_version", "git_commit"};
    bool failed = H5Ldelete(file, "runs", H5P_DEFAULT) < 0;
    for (int i = 0; i < 8 && !failed; i++) /* a part of an earlier version has only some */
        failed = H5Aexists(file, names[i]) > 0 && H5Adelete(file, names[i]) < 0;
    if (failed) return FAIL_CALL(error, STATUS_IO, "H5Ldelete", h5_error_text());
    return STATUS_OK;
}

/* ---- the whole file ---- */

/* `adopted`: the run whose part became the file; NULL: none. */
static enum status write_all(hid_t file, const struct results *results, const struct result_summary *summary,
                             const struct run *adopted, struct error *error) {
    static const char *const groups[] = {"/outputs", "/samples"}; /* these groups exist even if they are empty */
    const struct plan *plan = results->plan;
    char finished[TIME_TEXT], *mixed = result_mixed_conditions(summary->rows, plan->run_count);
    enum status status = adopted ? strip_part(file, error) : STATUS_OK;
    if (!status) status = h5_set_text(file, "schema", RESULT_SCHEMA, error);
    if (!status) status = h5_set_integer(file, "schema_version", 1, error);
    if (!status) status = h5_set_text(file, "status", summary->status, error);
    if (!status && results->policy.links) status = link_mark(results, file, error);
    if (!status) status = h5_set_text(file, "tool_version", tilerun_version, error);
    if (!status) status = h5_set_text(file, "git_commit", tilerun_git_commit, error);
    if (!status && *tilerun_program_hash()) status = h5_set_text(file, "program_hash", tilerun_program_hash(), error);
    if (!status) status = h5_set_text(file, "created", summary->created, error);
    if (!status) status = h5_set_text(file, "finished", time_text(finished), error);
    if (!status) status = h5_set_text(file, "command_line", summary->command_line, error);
    if (!status && mixed) status = h5_set_text(file, "mixed_conditions", mixed, error);
    free(mixed);
    char key[33];
    keys_of_tasks(results->keys, NULL, key);
    if (!status) status = results_write_job(file, plan->job, key, error);
    if (!status) status = results_write_environment(file, summary->environment, error);
    if (!status) status = shards_write_origins(file, results, error);
    if (!status) status = write_inputs(file, results, error);
    for (int i = 0; i < 2 && !status; i++) {
        hid_t group = H5I_INVALID_HID;
        status = h5_group(file, groups[i], &group, error);
        if (group >= 0) H5Gclose(group);
    }
    struct scales *scales = scales_create(results, file, "/outputs");
    for (int i = 0; i < plan->run_count && !status; i++) {
        const struct run *run = &plan->runs[i];
        const struct result_row *row = &summary->rows[i];
        bool is_result = summary->result_run[run->task] == i;
        const struct stored own = {.file = file};
        status = run == adopted ? take_all(&own, file, results, run, row, is_result, scales, error)
                                : take_run(file, results, run, row, is_result, scales, error);
    }
    if (!status) status = scales_finish(scales, error);
    scales_free(scales);
    if (!status) status = result_write_rows(file, "runs", summary->rows, plan->run_count, error);
    if (!status) status = panels_write_rows(file, results, summary->unit_rows, error);
    return status;
}

/* Most parts are not synced when they are made: a linked file needs them all, and the folders that lead to them. */
static enum status sync_parts(const struct results *results, struct error *error) {
    char **paths, *last = must_strdup("");
    int count;
    enum status status = STATUS_OK;
    parts_list(results->folder.whole, &paths, &count);
    for (int i = 0; i < count; i++) {
        char *folder = path_folder(paths[i]);
        if (!status) status = results_sync_file(paths[i], error);
        if (!status && strcmp(folder, last) != 0) status = results_sync_folder(folder, error);
        free(last);
        last = folder;
        free(paths[i]);
    }
    free(last);
    free(paths);
    if (!status) status = results_sync_folder(results->folder.whole, error);
    return status ? status : results_sync_folder(results->place.folder, error);
}

/* Removes the parts. It closes their readers first, because NFS keeps the files that are open. */
static void remove_parts(struct results *results) {
    results_close_outputs(results);
    results_clear(results, true);
}

/* Writes the file at `path`, closes it and renames it to OUTPUT. */
static enum status write_and_name(hid_t file, const char *path, struct results *results,
                                  const struct result_summary *summary, const struct run *adopted,
                                  struct error *error) {
    enum status status = write_all(file, results, summary, adopted, error), closed = h5_close_file(file, error);
    if (!status) status = closed;
    if (!status && results->plan->job->sync && results->policy.links) status = sync_parts(results, error);
    if (!status && results->plan->job->sync) status = results_sync_file(path, error);
    if (!status) status = to_adopt(results, summary, error);
    if (status) return status;
    bool final = false;
    h5_journal_lock(results->journal); /* from here on a signal must not turn OUTPUT back into a part */
    status = to_put(results, &final, error);
    if (!status) status = destination_put(&results->place, path, error);
    h5_journal_unlock(results->journal, !status || final);
    return status;
}

enum status store_publish(struct results *results, const struct result_summary *summary, struct error *error) {
    hid_t file = H5I_INVALID_HID;
    TRY(to_write(results, summary, error));
    const struct run *adopted = find_adopted(results, summary);
    char *path = adopted ? results_run_path(results, adopted) : must_printf("%s/assembled.tmp", results->folder.own);
    if (adopted) results_close_outputs(results);
    enum status status =
        adopted ? h5_reopen_file(path, &results->journal, &file, error) : h5_create_file(path, &file, error);
    if (!status) status = write_and_name(file, path, results, summary, adopted, error);
    if (status && !adopted) unlink(path); /* else store_leave restores the part */
    free(path);
    if (!status && results->plan->job->sync && (status = results_sync_folder(results->place.folder, error)))
        fail_prefix(error, "output", results->place.name);
    if (!status && !results->policy.links && strcmp(summary->status, "complete") == 0) remove_parts(results);
    return status;
}
