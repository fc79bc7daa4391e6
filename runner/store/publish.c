/* publish.c - publishes a job's results. OUTPUT gets the job, its environment, a description of its inputs, and copies
 * of the parts. Results with the key `to` go to files of their own (to.c). Each file is complete before it gets
 * its name. */
#include "../base/clock.h"
#include "../base/fail.h"
#include "../base/match.h"
#include "../base/path.h"
#include "../base/text.h"
#include "../base/texts.h"
#include "../plan/space.h"
#include "../record/provenance.h"
#include "../storage/h5/h5scale.h"
#include "../storage/h5/h5virtual.h"
#include "output.h"
#include "scales.h"
#include "to.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- inputs ---- */

/* The absolute form of a pattern. If its folder no longer exists, the folder is named as in the job. The caller
 * frees. */
static char *absolute_pattern(const char *pattern) {
    int length = match_folder_length(pattern);
    OWNED char *folder = must_printf("%.*s", length, pattern);
    OWNED char *real = length ? must_realpath(folder) : must_realpath(".");
    return must_printf("%s/%s", real ? real : folder, pattern + length);
}

/* Writes how the input was decoded, if that changed an element or if that is not known, and how many of its elements
 * are missing. */
static enum status write_decoded(hid_t group, const struct reader *reader, struct error *error) {
    const struct array *array = reader->array;
    int64_t missing;
    if (!array->decoding || array->keeps_stored) return STATUS_OK;
    bool known = reader_missing_count(reader, &missing);
    OWNED char *change = reader_decoding_text(reader);
    if (known && !change) return STATUS_OK;
    OWNED char *how =
        array->mixed_decoding ? must_strdup("each file by its own attributes") : decoding_text(array->decoding);
    TRY(h5_set_text(group, "decoded", how, error));
    return known ? h5_set_integer(group, "missing", missing, error) : STATUS_OK;
}

/* Writes how much of the input has no source file. */
static enum status write_missing_sources(hid_t group, const struct h5_absent *absent, struct error *error) {
    TRY(h5_set_integer(group, "missing_sources", absent->sources, error));
    TRY(h5_set_integer(group, "missing_source_elements", absent->elements, error));
    if (absent->first) TRY(h5_set_text(group, "missing_source", absent->first, error));
    return STATUS_OK;
}

/* Writes from where an input was read, and how. The path and the data set are text attributes, not an external link,
 * because netCDF4 and xarray cannot open a file with a dangling link. */
static enum status write_file_input(hid_t group, const struct reader *reader, struct error *error) {
    const struct job_input *input = reader->array->from_job;
    const struct concatenated_files *parts = reader->array->parts;
    OWNED char *path = parts ? absolute_pattern(input->file) : path_absolute(input->file);
    OWNED char *select = input->select.rank ? job_select_text(&input->select) : NULL;
    TRY(h5_set_text(group, "file", path, error));
    TRY(h5_set_text(group, "dataset", input->dataset, error));
    if (input->field) TRY(h5_set_text(group, "field", input->field, error));
    if (input->has_rows) TRY(h5_set_shape(group, "rows", &(struct shape){2, {input->rows[0], input->rows[1]}}, error));
    if (select) TRY(h5_set_text(group, "select", select, error));
    TRY(write_decoded(group, reader, error));
    if (input->fill) TRY(h5_set_text(group, "sources", "fill", error));
    if (input->fill) TRY(write_missing_sources(group, &reader->array->absent, error));
    if (reader->hash[0]) TRY(h5_set_text(group, "xxh3", reader->hash, error));
    if (!parts) return STATUS_OK;
    TRY(h5_set_integer(group, "concatenate", input->concatenate, error));
    return h5_set_integer(group, "files", parts->count, error);
}

/* Writes the terms by which an input is generated. */
static enum status write_random_input(hid_t group, const struct random_terms *terms, struct error *error) {
    static const char *const names[] = {"uniform", "normal", "integer", "constant", "index"};
    enum distribution distribution = terms->distribution;
    TRY(h5_set_text(group, "generator", "philox4x32-10", error));
    TRY(h5_set_text(group, "distribution", names[distribution], error));
    if (distribution == RANDOM_UNIFORM || distribution == RANDOM_INTEGER) {
        TRY(h5_set_real(group, "low", terms->low, error));
        TRY(h5_set_real(group, "high", terms->high, error));
    } else if (distribution == RANDOM_NORMAL) {
        TRY(h5_set_real(group, "mean", terms->mean, error));
        TRY(h5_set_real(group, "std", terms->std, error));
    } else if (distribution == RANDOM_CONSTANT) {
        TRY(h5_set_real(group, "value", terms->value, error));
    }
    return h5_set_integer(group, "seed", (int64_t)terms->seed, error);
}

/* Writes /inputs/NAME: the shape and type of an input, and its origin. */
static enum status write_input(hid_t file, const struct reader *reader, struct error *error) {
    const struct array *array = reader->array;
    OWNED char *path = result_path_of("inputs", array->label, array->name);
    OWNED_ID hid_t group = H5I_INVALID_HID;
    TRY(h5_group(file, path, &group, error));
    TRY(h5_set_shape(group, "shape", &array->shape, error));
    TRY(h5_set_text(group, "dtype", dtype_name(array->dtype), error));
    return array->from_job->random ? write_random_input(group, &array->from_job->terms, error)
                                   : write_file_input(group, reader, error);
}

/* ---- copies of what the parts hold ------------------------------------------------------------------------------- */

/* Copies a run's output, unless `store` leaves it out; a linked OUTPUT, or one that shows the file of a `to`, gets a
 * virtual data set instead. With `store: all` each output goes to /variants, and the one that is the task's result also
 * gets a hard link in /outputs. */
static enum status copy_outputs(const struct stored *from, hid_t file, const struct results *results,
                                const struct run *run, const struct result_row *row, bool is_result,
                                struct scales *scales, struct error *error) {
    const struct job_operation *operation = results->plan->tasks[run->task].operation;
    enum job_store store = operation->run.store;
    if (store == STORE_NONE || (store == STORE_FIRST && !is_result) || run->kernel->is_roof) return STATUS_OK;
    OWNED char *variants = result_path_of("variants", operation->label, operation->id);
    OWNED char *variant = must_printf("%s/%s", variants, run->label);
    OWNED char *result = result_path_of("outputs", operation->label, operation->id);
    const char *path = store == STORE_ALL ? variant : result;
    bool to = is_result && to_has(results, run->task), shows = to && to_shows(results, run->task);
    enum copied_as as = shows ? COPY_NOTHING : results->policy.links && !to ? COPY_LINK_TO_PART : COPY_VALUES;
    TRY(shows ? to_show(results, run->task, file, path, error) : STATUS_OK);
    TRY(copy_output(from, file, results, run, row, as, path, error));
    if (to) TRY(to_name(results, run->task, file, path, error));
    TRY(scales_attach(scales, &results->plan->arrays[results->plan->tasks[run->task].out], path, error));
    if (!is_result || store != STORE_ALL) return STATUS_OK;
    OWNED_ID hid_t parent = H5I_INVALID_HID;
    result[strlen(result) - strlen(operation->id) - 1] = '\0';
    TRY(h5_group(file, result, &parent, error));
    if (H5Lcreate_hard(file, variant, parent, operation->id, H5P_DEFAULT, H5P_DEFAULT) < 0)
        return FAIL_CALL(error, STATUS_IO, "H5Lcreate_hard", h5_error_text());
    return STATUS_OK;
}

/* Copies the samples of a run. `path` names the samples in seconds; names of other data about them begin with it. */
static enum status copy_samples(const struct stored *from, hid_t file, const char *path, struct error *error) {
    for (int i = 0; i < SAMPLE_KINDS; i++) {
        if (H5Lexists(from->file, sample_kinds[i].in_part, H5P_DEFAULT) <= 0) continue;
        OWNED char *copy = must_printf("%s%s", path, sample_kinds[i].suffix);
        TRY(copy_whole_object(from->file, sample_kinds[i].in_part, file, copy, true, error));
    }
    return STATUS_OK;
}

/* Copies output and samples of a run that is ok. `adopted`: the file that is being written, if it was this run's part
 * before; else negative. */
static enum status copy_run(const struct results *results, const struct run *run, hid_t adopted, hid_t file,
                            const struct result_row *row, bool is_result, struct scales *scales, struct error *error) {
    FREED_BY(copy_close) struct stored from = {0};
    char path[64];
    if (!result_row_done(row)) return STATUS_OK;
    snprintf(path, sizeof path, "/samples/%d", row->run);
    TRY(copy_open(results, run, adopted, &from, error));
    TRY(copy_outputs(&from, file, results, run, row, is_result, scales, error));
    return from.file >= 0 ? copy_samples(&from, file, path, error)
                          : panels_write_samples(results, run, file, path, error);
}

/* ---- the part that becomes a file -------------------------------------------------------------------------------- */

/* Estimated bytes of OUTPUT besides copies of the parts: OWN_BYTES for the job and its environment, RUN_BYTES for the
 * rows of each run. */
#define OWN_BYTES 1e6
#define RUN_BYTES 8e3

/* Is there room for copies of all parts but the adopted one? Yes if the file system does not tell its free space. */
static bool has_room(const struct results *results, double adopted_bytes) {
    double free_bytes, wanted = OWN_BYTES + RUN_BYTES * results->plan->run_count - adopted_bytes;
    FREED_BY(texts_clear) struct texts paths = parts_list(results->folder.root);
    for (int i = 0; i < paths.count; i++) {
        struct stat about;
        if (stat(paths.items[i], &about) == 0) wanted += (double)about.st_size;
    }
    return !space_available(results->output.folder, &free_bytes) || free_bytes >= wanted;
}

/* Chooses the part that becomes OUTPUT or a file of a `to`: the largest with an output that is published, if it has at
 * least SPACE_ADOPT_BYTES; NULL: none. Chooses none if the disk might not hold the other files, because the renamed
 * part would be lost with them; and none for `merge`, which cannot compute a lost part again. */
static const struct run *choose_adopted(const struct results *results, const struct result_summary *summary) {
    const struct run *largest = NULL;
    off_t largest_bytes = SPACE_ADOPT_BYTES - 1;
    /* An OUTPUT that refers to the parts by virtual data sets needs them unchanged. */
    if (results->policy.merges || results->linked || strcmp(summary->status, "complete") != 0) return NULL;
    for (int i = 0; i < results->plan->run_count; i++) {
        const struct run *run = &results->plan->runs[i];
        enum job_store store = results->plan->tasks[run->task].operation->run.store;
        bool is_result = summary->result_run[run->task] == i;
        bool published = is_result ? store != STORE_NONE || to_has(results, run->task) : store == STORE_ALL;
        struct stat about;
        OWNED char *path = results_run_path(results, run);
        if (published && !run_is_in_panels(results, run) && result_row_done(&summary->rows[i]) &&
            stat(path, &about) == 0 && about.st_size > largest_bytes) {
            largest_bytes = about.st_size;
            largest = run;
        }
    }
    return largest && has_room(results, (double)largest_bytes) ? largest : NULL;
}

/* ---- the whole file ---- */

/* Writes all that OUTPUT holds. `adopted`: the run whose part was renamed to become this file; NULL: the file is new.
 * STATUS_IO also if a part cannot be read. */
static enum status write_all(hid_t file, const struct results *results, const struct result_summary *summary,
                             const struct run *adopted, struct error *error) {
    static const char *const groups[] = {"/outputs", "/samples"}; /* these groups exist even if they are empty */
    const struct plan *plan = results->plan;
    char finished[TIME_TEXT];
    OWNED char *mixed = result_mixed_conditions(summary->rows, plan->run_count);
    char key[33];
    TRY(h5_set_text(file, "schema", RESULT_SCHEMA, error));
    TRY(h5_set_integer(file, "schema_version", 1, error));
    TRY(h5_set_text(file, "status", summary->status, error));
    if (results->policy.links) TRY(link_mark(results, file, error));
    TRY(h5_set_text(file, "tool_version", tilerun_version, error));
    TRY(h5_set_text(file, "git_commit", tilerun_git_commit, error));
    TRY(h5_set_text(file, "program_hash", tilerun_sources, error));
    TRY(h5_set_text(file, "created", summary->created, error));
    TRY(h5_set_text(file, "finished", time_text(finished), error));
    TRY(h5_set_text(file, "command_line", summary->command_line, error));
    if (mixed) TRY(h5_set_text(file, "mixed_conditions", mixed, error));
    keys_of_runs(results->keys, NULL, key);
    TRY(provenance_write_job(file, plan->job, key, error));
    TRY(provenance_write_sources(file, plan, error));
    TRY(provenance_write_environment(file, summary->environment, error));
    TRY(shards_write_origins(file, results, error));
    for (int i = 0; i < plan->job->input_count; i++) TRY(write_input(file, &results->readers->items[i], error));
    for (int i = 0; i < 2; i++) {
        OWNED_ID hid_t group = H5I_INVALID_HID;
        TRY(h5_group(file, groups[i], &group, error));
    }
    FREED_BY(scales_free) struct scales *scales = scales_create(results, file, "/outputs");
    for (int i = 0; i < plan->run_count; i++) {
        const struct run *run = &plan->runs[i];
        bool is_result = summary->result_run[run->task] == i;
        hid_t adopted_file = run == adopted ? file : H5I_INVALID_HID;
        if (copy_run(results, run, adopted_file, file, &summary->rows[i], is_result, scales, error))
            return error->status = STATUS_IO;
    }
    TRY(scales_finish(scales, error));
    TRY(result_write_rows(file, "runs", summary->rows, plan->run_count, error));
    return panels_write_rows(file, results, summary->unit_rows, error);
}

/* For a linked file, syncs all parts and the folders that lead to them: most are not synced when they are made. */
static enum status sync_parts(const struct results *results, struct error *error) {
    FREED_BY(texts_clear) struct texts paths = parts_list(results->folder.root);
    OWNED char *last = must_strdup("");
    for (int i = 0; i < paths.count; i++) {
        char *folder = path_folder(paths.items[i]);
        bool same = strcmp(folder, last) == 0;
        free(last);
        last = folder;
        TRY(results_sync_file(paths.items[i], error));
        if (!same) TRY(results_sync_folder(folder, error));
    }
    TRY(results_sync_folder(results->folder.root, error));
    return results_sync_folder(results->output.folder, error);
}

/* Writes OUTPUT under its temporary name. */
static enum status write_output(const struct results *results, const struct result_summary *summary, const char *path,
                                struct error *error) {
    const struct run *adopted = to_takes(results, summary, results->adopted) ? NULL : results->adopted;
    hid_t file;
    TRY(publish_begin(results, path, &adopted, &file, error));
    enum status status = write_all(file, results, summary, adopted, error);
    return publish_end(results, path, file, status, error);
}

/* Writes all files and gives them their names. OUTPUT is renamed last, so that an OUTPUT under its own name proves that
 * all files of `to` exist. */
static enum status write_and_name(struct results *results, const struct result_summary *summary, const char *path,
                                  struct error *error) {
    TRY(publish_check(results, &results->output, error)); /* before a part is taken over */
    TRY(to_write(results, summary, false, error));
    TRY(write_output(results, summary, path, error));
    TRY(to_write(results, summary, true, error)); /* true: the file that takes over the chosen part, last, because
                                                     OUTPUT copies from it too */
    if (results->plan->job->sync && results->policy.links) TRY(sync_parts(results, error));
    TRY(publish_check(results, &results->output, error));
    TRY(to_put(results, error));
    return publish_put(results, &results->output, path, error);
}

/* Reports parts that could not be removed, because they lie in another user's folder. */
static void report_remains(const struct results *results) {
    int parts, foreign;
    if (results_count_parts(results, &parts, &foreign, IGNORED) || parts == 0) return;
    text_print_stderr("tilerun: %s stays: %d finished run%s in it cannot be removed by this user\n",
                      results->folder.parts, parts, parts == 1 ? "" : "s");
}

enum status store_publish(struct results *results, const struct result_summary *summary, struct error *error) {
    OWNED char *path = must_printf("%s/assembled.tmp", results->folder.parts);
    to_select(results, summary);
    results->adopted = choose_adopted(results, summary);
    enum status status = write_and_name(results, summary, path, error);
    if (status) {
        unlink(path);
        to_leave(results);
    }
    if (!status && !results->policy.links && strcmp(summary->status, "complete") == 0) {
        results_close_outputs(results); /* NFS keeps files that are open */
        results_clear(results, true);
        report_remains(results);
    }
    return status;
}
