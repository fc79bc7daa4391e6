/* output.c - publishes files, and copies the outputs of runs into them: as values, or as virtual data sets that show
 * the parts. A copy has an output's attributes, and those of the input whose elements the operation only moved. */
#include "output.h"

#include "../../kernels/core/axes.h"
#include "../base/destination.h"
#include "../base/fail.h"
#include "../base/path.h"
#include "../base/text.h"
#include "../base/texts.h"
#include "../record/linked.h"
#include "../storage/h5/h5scale.h"
#include "../storage/h5/h5virtual.h"
#include "../storage/reader.h"
#include "../storage/untrusted/fence.h"
#include "../storage/untrusted/h5cf.h"
#include "../storage/untrusted/h5open.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- attributes of inputs ---------------------------------------------------------------------------------------- */

/* Does an attribute make a data set a dimension scale, label its axes or name the file that has it? The writer of a
 * result sets these attributes itself, so none is copied from an input. */
static bool is_own(const char *name) {
    return IS_ONE_OF(name, "CLASS", "NAME", "DIMENSION_LABELS", "_ARRAY_DIMENSIONS", "axisLabels", "axes", LINK_TO_FILE,
                     LINK_TO_DATASET);
}

/* Is it one of these, or does it state how numbers are packed? */
static bool is_own_or_packing(const char *name) {
    return is_own(name) || h5cf_is_packing(name);
}

/* Is it one of these, or `units`? A result whose numbers changed gets its units from the plan. */
static bool is_own_or_packing_or_units(const char *name) {
    return is_own_or_packing(name) || strcmp(name, "units") == 0;
}

/* Copies the attributes of the input that `array` was moved from, except those that the writer sets itself. If the
 * numbers changed (decoded, or stored numbers in another type) or have several packings, also leaves out units and
 * packing; if they are still packed, packing, which h5cf_write writes. Prints a warning if the attributes cannot be
 * read. */
static void copy_moved_attributes(const struct results *results, const struct array *array, hid_t output) {
    const struct array *input = array->moved_from;
    struct readers *readers = results->readers;
    int number = (int)(input - results->plan->arrays);
    bool cast = input->from_job->stored_numbers && array->dtype != input->stored; /* stored numbers in another type */
    bool mixed = input->from_job->stored_numbers && input->parts && !input->parts->packing; /* its files disagree */
    bool decoded = cast || mixed || (input->decoding && !array->keeps_stored);
    struct error error = {.status = STATUS_OK};
    FENCE(array_file(input, 0));
    enum status status = readers_open(readers, number, &error);
    const struct h5_dataset *dataset = readers->items[number].dataset;
    if (!status && !dataset) status = pieces_open_first(readers->items[number].pieces, &dataset, &error);
    bool (*leave_out)(const char *) = decoded               ? is_own_or_packing_or_units
                                      : array->keeps_stored ? is_own_or_packing
                                                            : is_own;
    if (!status && !h5_copy_attributes(dataset->id, output, leave_out))
        status = fail(&error, STATUS_IO, "this HDF5 cannot read them");
    if (!status && !input->decoding && !cast && dataset->dtype != array->dtype) h5cf_retype(output, array->dtype);
    OWNED char *title = array_title(input);
    if (status) text_print_stderr("tilerun: %s: its attributes cannot be copied to a result: %s\n", title, error.text);
}

/* If `array` is a moved input, copies that input's attributes to the data set `output`, which holds the array. If the
 * numbers are still packed as they were stored, also writes the attributes that state how to decode them. */
static enum status carry_attributes(const struct results *results, const struct array *array, hid_t output,
                                    struct error *error) {
    if (!array->moved_from) return STATUS_OK;
    copy_moved_attributes(results, array, output);
    return array->keeps_stored ? h5cf_write(output, array->decoding, error) : STATUS_OK;
}

/* ---- `merge --link` ---------------------------------------------------------------------------------------------- */

/* `merge --link`: outputs are virtual data sets of the results file, whose values stay in the parts.
 *
 * The mappings name parts by paths relative to OUTPUT's folder ("out.h5.parts/shard-0-of-2/KEY.h5"), where HDF5 looks
 * for them whatever the current folder is, so that both may be moved together. HDF5 shows fill values for a part that
 * is gone: the file's attribute `parts` has tilerun's readers look first (record/linked.h). */

bool link_is_at(const char *path) {
    FENCE(path);
    OWNED_ID hid_t file = H5I_INVALID_HID;
    if (h5_open_file(path, &file, IGNORED)) return false;
    return h5_is_linked(file);
}

/* A path in OUTPUT.parts, relative to OUTPUT's folder. */
static const char *seen_from_output(const struct results *results, const char *path) {
    return path + (path_name(results->folder.root) - results->folder.root);
}

enum status link_mark(const struct results *results, hid_t file, struct error *error) {
    return h5_set_text(file, H5_LINKED, seen_from_output(results, results->folder.root), error);
}

/* Creates the virtual data set that shows a run's output in its parts. */
static enum status link_output(const struct results *results, const struct run *whole, hid_t file, const char *path,
                               struct error *error) {
    const struct task *task = &results->plan->tasks[whole->task];
    const struct shape shape = operand_array(&task->geometry.out);
    enum dtype dtype = results->plan->arrays[task->out].dtype;
    FREED_BY(run_parts_free) struct run_parts parts = parts_of_run(results, whole);
    OWNED struct h5_source *sources = must_malloc((size_t)parts.count * sizeof *sources);
    for (int i = 0; i < parts.count; i++)
        sources[i] = (struct h5_source){seen_from_output(results, parts.items[i].path), "/output", parts.items[i].box};
    return h5_create_virtual(file, path, dtype, &shape, sources, parts.count, error);
}

/* ---- outputs ----------------------------------------------------------------------------------------------------- */

/* The relative path from an absolute folder to an absolute path; the path itself if they share no folder. The caller
 * frees. */
static char *relative_to(const char *folder, const char *path) {
    size_t common = 0; /* length of the folders that they share, with the last slash */
    for (size_t i = 0; path[i]; i++) {
        bool folder_ends = folder[i] == '\0' && path[i] == '/';
        if (folder[i] != path[i] && !folder_ends) break;
        if (path[i] == '/') common = i + 1;
        if (folder_ends) break;
    }
    if (common <= 1) return must_strdup(path);
    char *result = must_strdup("");
    for (const char *rest = strlen(folder) < common ? "" : folder + common; *rest;) {
        must_append(&result, "../");
        rest += strcspn(rest, "/");
        rest += strspn(rest, "/");
    }
    must_append(&result, "%s", path + common);
    return result;
}

char *relative_path(const struct results *results, const char *path) {
    OWNED char *folder = path_absolute(results->output.folder);
    return relative_to(folder, path);
}

/* Copies an object. Without `attributes` it leaves these out: those of an output are written anew from the plan. */
static herr_t copy_object(hid_t from, const char *name, hid_t group, const char *new_name, bool attributes) {
    OWNED_ID hid_t how = H5Pcreate(H5P_OBJECT_COPY);
    if (!attributes) H5Pset_copy_object(how, H5O_COPY_WITHOUT_ATTR_FLAG);
    return H5Ocopy(from, name, group, new_name, how, H5P_DEFAULT);
}

enum status copy_whole_object(hid_t part, const char *name, hid_t file, const char *path, bool attributes,
                              struct error *error) {
    const char *slash = strrchr(path, '/');
    OWNED char *parent = must_printf("%.*s", (int)(slash - path), path);
    OWNED_ID hid_t group = H5I_INVALID_HID;
    TRY(h5_group(file, parent, &group, error));
    herr_t taken = part == file ? H5Lmove(part, name, group, slash + 1, H5P_DEFAULT, H5P_DEFAULT)
                                : copy_object(part, name, group, slash + 1, attributes);
    if (taken >= 0) return STATUS_OK;
    OWNED char *words = must_strdup(h5_error_text());
    char from[PATH_MAX] = "its part";
    H5Fget_name(part, from, sizeof from);
    return fail(error, STATUS_IO, "%s: %s cannot be copied out of it: %s", from, path, words);
}

/* Writes the attributes of an output. */
static enum status describe_output(hid_t file, const char *path, const struct results *results, int number,
                                   const struct result_row *row, struct error *error) {
    const struct task *task = &results->plan->tasks[number];
    const struct array *array = &results->plan->arrays[task->out];
    const char *operator_ = operation_operator(operations[task->geometry.op], &task->geometry.options);
    OWNED_ID hid_t output = H5Dopen2(file, path, H5P_DEFAULT);
    if (output < 0) return FAIL_CALL(error, STATUS_IO, "H5Dopen2", h5_error_text());
    TRY(carry_attributes(results, array, output, error));
    TRY(h5_set_integer(output, "run", row->run, error));
    TRY(h5_set_text(output, "operation", row->operation, error));
    TRY(h5_set_text(output, "op", row->op, error));
    if (operator_) TRY(h5_set_text(output, "operator", operator_, error));
    TRY(h5_set_text(output, "parameters", row->parameters, error));
    TRY(h5_set_text(output, "variant", row->variant, error));
    TRY(h5_set_text(output, "dtype", dtype_name(array->dtype), error));
    if (array->units) TRY(h5_set_text(output, "units", array->units, error));
    if (array->long_name) TRY(h5_set_text(output, "long_name", array->long_name, error));
    TRY(h5_set_real(output, "error", row->error, error));
    return h5_set_real(output, "tolerance", row->tolerance, error);
}

/* Puts the values into the file, or links to them; an output without axes or elements cannot be virtual. */
static enum status copy_values(const struct stored *from, hid_t file, const struct results *results,
                               const struct run *run, enum copied_as as, const char *path, struct error *error) {
    const struct shape *shape = &results->plan->tasks[run->task].geometry.out.shape;
    if (as == COPY_LINK_TO_PART && shape->rank > 0 && shape_elements(shape) > 0)
        return link_output(results, run, file, path, error);
    if (from->file >= 0) return copy_whole_object(from->file, "output", file, path, false, error);
    FREED_BY(run_parts_free) struct run_parts parts = parts_of_run(results, run);
    return output_join(results->plan, run->task, &parts, "/output", file, path, error);
}

enum status copy_output(const struct stored *from, hid_t file, const struct results *results, const struct run *run,
                        const struct result_row *row, enum copied_as as, const char *path, struct error *error) {
    if (as != COPY_NOTHING) TRY(copy_values(from, file, results, run, as, path, error));
    return describe_output(file, path, results, run->task, row, error);
}

/* ---- opening a part ---- */

enum status copy_open(const struct results *results, const struct run *run, hid_t adopted, struct stored *from,
                      struct error *error) {
    *from = (struct stored){.file = adopted};
    from->path = results_run_path(results, run);
    from->outer_fence = fence_enter(from->path, 0);
    if (adopted >= 0 || run_is_in_panels(results, run)) return STATUS_OK;
    enum status status = h5_open_file(from->path, &from->file, error); /* its reader may still have it open */
    if (status && strstr(error->text, "cannot be locked") && (from->file = h5_open_unlocked(from->path)) >= 0) {
        *error = (struct error){.status = STATUS_OK};
        status = STATUS_OK;
    }
    from->opened = !status;
    return status;
}

void copy_close(struct stored *from) {
    if (from->opened) H5Fclose(from->file);
    from->opened = false;
    if (!from->path) return;
    fence_leave(&from->outer_fence);
    free(from->path);
    from->path = NULL;
}

/* ---- how a file is published ------------------------------------------------------------------------------------- */

/* Removes the group and the attributes that a part has and a results file has not. */
static enum status strip_part(hid_t file, struct error *error) {
    /* A part of an earlier version has only some of them. */
    static const char *const names[] = {"schema",   "key",        "job_runs",     "job_skipped", "job_name",
                                        "job_path", "job_sha256", "tool_version", "git_commit",  "inputs"};
    bool failed = H5Ldelete(file, "runs", H5P_DEFAULT) < 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && !failed; i++)
        failed = H5Aexists(file, names[i]) > 0 && H5Adelete(file, names[i]) < 0;
    return failed ? FAIL_CALL(error, STATUS_IO, "H5Ldelete", h5_error_text()) : STATUS_OK;
}

/* Renames the part of a run. Syncs it before, so that a signal during the long sync loses nothing. */
static bool rename_part(const struct results *results, const struct run *run, const char *path) {
    OWNED char *part = results_run_path(results, run);
    results_close_outputs(results);
    return (!results->plan->job->sync || !results_sync_file(part, IGNORED)) && rename(part, path) == 0;
}

enum status publish_begin(const struct results *results, const char *path, const struct run **adopted, hid_t *file,
                          struct error *error) {
    if (*adopted && !rename_part(results, *adopted, path)) *adopted = NULL;
    if (!*adopted) return h5_create_file(path, file, error);
    TRY(h5_reopen_file(path, file, error));
    enum status status = strip_part(*file, error);
    if (status) h5_close_file(*file, IGNORED);
    return status;
}

enum status publish_end(const struct results *results, const char *path, hid_t file, enum status status,
                        struct error *error) {
    enum status closed = h5_close_file(file, error);
    if (!status) status = closed;
    return !status && results->plan->job->sync ? results_sync_file(path, error) : status;
}

/* Has the file been written or replaced since destination_look, while the job ran? Not if it is gone. */
static bool has_changed(const struct destination *destination) {
    struct stat now;
    if (stat(destination->path, &now) != 0) return false;
    return !destination->exists || now.st_ino != destination->about.st_ino ||
           now.st_mtim.tv_sec != destination->about.st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != destination->about.st_mtim.tv_nsec;
}

enum status publish_check(const struct results *results, const struct destination *destination, struct error *error) {
    if (results->policy.overwrite || !has_changed(destination)) return STATUS_OK;
    return fail(error, STATUS_IO,
                "%s %s: another process has written it while the job ran; move it away and %s, or replace it with "
                "%s--overwrite",
                destination->kind, destination->name, results->policy.merges ? "merge again" : "--resume",
                results->policy.merges ? "" : "--resume ");
}

enum status publish_put(const struct results *results, const struct destination *destination, const char *path,
                        struct error *error) {
    TRY(destination_put(destination, path, error));
    if (results->plan->job->sync && results_sync_folder(destination->folder, error))
        return fail_prefix(error, destination->kind, destination->name);
    return STATUS_OK;
}
