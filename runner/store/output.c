/* output.c - puts what runs have made into files: values out of their parts, or virtual data sets of these; with the
 * attributes of an output, and those of the input that it was moved out of. */
#include "output.h"

#include "../../kernels/core/axes.h"
#include "../base/fail.h"
#include "../base/text.h"
#include "../record/link.h"
#include "../storage/h5/h5scale.h"
#include "../storage/h5/h5virtual.h"
#include "../storage/pieces.h"
#include "../storage/untrusted/fence.h"
#include "../storage/untrusted/h5cf.h"
#include "../storage/untrusted/h5open.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- attributes of inputs ---------------------------------------------------------------------------------------- */

/* What says that the data set is a dimension scale, labels its axes or says where it lies: the result has its own. */
static bool is_of_itself(const char *name) {
    static const char *const names[] = {"CLASS", "NAME", "DIMENSION_LABELS", LINK_TO_FILE, LINK_TO_DATASET};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

static bool is_of_packing(const char *name) {
    return is_of_itself(name) || h5cf_is_packing(name);
}

/* The plan knows whether the unit is still true. */
static bool is_of_stored(const char *name) {
    return is_of_packing(name) || strcmp(name, "units") == 0;
}

static void copy_from(const struct results *results, const struct array *array, hid_t output) {
    const struct array *input = array->moved;
    struct readers *readers = results->readers;
    int number = (int)(input - results->plan->arrays);
    bool cast = input->input->stored_numbers && array->dtype != input->stored;
    bool decoded = cast || (input->decoding && !array->packed);
    struct error error = {STATUS_OK, ""};
    FENCE(array_file(input, 0));
    enum status status = readers_open(readers, number, &error);
    const struct h5_dataset *dataset = readers->of[number].dataset;
    if (!status && !dataset) status = pieces_open_first(readers->of[number].pieces, &dataset, &error);
    if (!status && !h5_copy_attributes(dataset->id, output,
                                       decoded         ? is_of_stored
                                       : array->packed ? is_of_packing
                                                       : is_of_itself))
        status = fail(&error, STATUS_IO, "this HDF5 cannot read them");
    if (!status && !input->decoding && !cast && dataset->dtype != array->dtype) h5cf_retype(output, array->dtype);
    if (status) text_print_stderr("tilerun: input '%s': a result lacks its attributes: %s\n", input->name, error.text);
}

/* Gives data set `output`, which holds `array`, the attributes of its input, if the array is a moved one: with those
 * that say how the numbers are decoded where these are as stored. What cannot be read any more is left out, with a word
 * on stderr: results must not be lost for it. */
static enum status carry_attributes(const struct results *results, const struct array *array, hid_t output,
                                    struct error *error) {
    if (!array->moved) return STATUS_OK;
    copy_from(results, array, output);
    return array->packed ? h5cf_write(output, array->decoding, error) : STATUS_OK;
}

/* ---- `merge --link` ---------------------------------------------------------------------------------------------- */

/* `merge --link`: outputs are virtual data sets of the results file, whose values stay in the parts.
 *
 * The mappings name parts by paths relative to OUTPUT's folder ("out.h5.parts/shard-0-of-2/KEY.h5"), where HDF5 looks
 * for them whatever the current folder is, so that both may be moved together. HDF5 shows fill values for a part that
 * is gone: the file's attribute `parts` has tilerun's readers look first (record/link.h). */

bool link_is_at(const char *path) {
    FENCE(path);
    struct error ignored = {STATUS_OK, ""};
    hid_t file;
    if (h5_open_file(path, &file, &ignored)) return false;
    bool linked = h5_is_linked(file);
    H5Fclose(file);
    return linked;
}

/* A path in OUTPUT.parts as it is seen from OUTPUT's folder. */
static const char *seen_from_output(const struct results *results, const char *path) {
    const char *slash = strrchr(results->folder.whole, '/');
    return slash ? path + (slash + 1 - results->folder.whole) : path;
}

enum status link_mark(const struct results *results, hid_t file, struct error *error) {
    return h5_set_text(file, H5_LINKED, seen_from_output(results, results->folder.whole), error);
}

static enum status link_output(const struct results *results, const struct run *whole, hid_t file, const char *path,
                               struct error *error) {
    const struct task *task = &results->plan->tasks[whole->task];
    const struct shape shape = operand_array(&task->geometry.out);
    char **parts;
    struct box *places;
    int count = parts_of_run(results, whole, &parts, &places);
    struct h5_source *sources = must_malloc((size_t)count * sizeof *sources);
    for (int i = 0; i < count; i++)
        sources[i] = (struct h5_source){seen_from_output(results, parts[i]), "/output", places[i]};
    enum status status =
        h5_create_virtual(file, path, results->plan->arrays[task->out].dtype, &shape, sources, count, error);
    free(sources);
    parts_of_run_free(parts, places, count);
    return status;
}

/* ---- outputs ----------------------------------------------------------------------------------------------------- */

/* The relative path from an absolute folder to an absolute path; the path itself if they share no folder. */
static char *relative(const char *folder, const char *path) {
    size_t common = 0; /* length of the folders that they share, with the last slash */
    for (size_t i = 0; path[i] && (folder[i] == path[i] || (!folder[i] && path[i] == '/')); i++) {
        if (path[i] == '/') common = i + 1;
        if (!folder[i]) break;
    }
    if (common <= 1) return must_strdup(path);
    char *way = must_strdup("");
    for (const char *rest = strlen(folder) < common ? "" : folder + common; *rest;) {
        char *longer = must_printf("../%s", way);
        free(way);
        way = longer;
        rest += strcspn(rest, "/");
        rest += strspn(rest, "/");
    }
    char *result = must_printf("%s%s", way, path + common);
    free(way);
    return result;
}

char *relative_path(const struct results *results, const char *path) {
    char *folder = results_absolute(results->place.folder), *way = relative(folder, path);
    free(folder);
    return way;
}

/* Copies an object; without the attributes of an output, which are written anew, as the plan has them now. */
static herr_t copy_object(hid_t from, const char *name, hid_t group, const char *new_name, bool attributes) {
    hid_t how = H5Pcreate(H5P_OBJECT_COPY);
    if (!attributes) H5Pset_copy_object(how, H5O_COPY_WITHOUT_ATTR_FLAG);
    herr_t copied = H5Ocopy(from, name, group, new_name, how, H5P_DEFAULT);
    hid_t words = copied < 0 ? H5Eget_current_stack() : H5I_INVALID_HID; /* the next call forgets them */
    H5Pclose(how);
    if (words >= 0) H5Eset_current_stack(words);
    return copied;
}

enum status copy_whole_object(hid_t part, const char *name, hid_t file, const char *path, bool attributes,
                              struct error *error) {
    const char *slash = strrchr(path, '/');
    char *parent = must_printf("%.*s", (int)(slash - path), path);
    hid_t group = H5I_INVALID_HID;
    enum status status = h5_group(file, parent, &group, error);
    herr_t taken = 0;
    if (!status && part == file)
        taken = H5Lmove(part, name, group, slash + 1, H5P_DEFAULT, H5P_DEFAULT);
    else if (!status)
        taken = copy_object(part, name, group, slash + 1, attributes);
    if (taken < 0) {
        char *words = must_strdup(h5_error_text()), from[PATH_MAX] = "its part";
        H5Fget_name(part, from, sizeof from);
        status = fail(error, STATUS_IO, "%s: %s cannot be copied out of it: %s", from, path, words);
        free(words);
    }
    if (group >= 0) H5Gclose(group);
    free(parent);
    return status;
}

/* Writes the attributes of an output. */
static enum status describe_output(hid_t file, const char *path, const struct results *results, int number,
                                   const struct result_row *row, struct error *error) {
    const struct task *task = &results->plan->tasks[number];
    const struct array *array = &results->plan->arrays[task->out];
    const char *operator_ = operation_operator(operations[task->geometry.op], &task->geometry.options);
    hid_t output = H5Dopen2(file, path, H5P_DEFAULT);
    if (output < 0) return FAIL_CALL(error, STATUS_IO, "H5Dopen2", h5_error_text());
    enum status status = carry_attributes(results, array, output, error);
    if (!status) status = h5_set_integer(output, "run", row->run, error);
    if (!status) status = h5_set_text(output, "operation", row->operation, error);
    if (!status) status = h5_set_text(output, "op", row->op, error);
    if (!status && operator_) status = h5_set_text(output, "operator", operator_, error);
    if (!status) status = h5_set_text(output, "parameters", row->parameters, error);
    if (!status) status = h5_set_text(output, "variant", row->variant, error);
    if (!status) status = h5_set_text(output, "dtype", dtype_name(array->dtype), error);
    if (!status && array->units) status = h5_set_text(output, "units", array->units, error);
    if (!status && array->long_name) status = h5_set_text(output, "long_name", array->long_name, error);
    if (!status) status = h5_set_real(output, "error", row->error, error);
    if (!status) status = h5_set_real(output, "tolerance", row->tolerance, error);
    H5Dclose(output);
    return status;
}

/* One without axes, or without elements, cannot be virtual. */
static enum status take_values(const struct stored *from, hid_t file, const struct results *results,
                               const struct run *run, enum taken as, const char *path, struct error *error) {
    const struct shape *shape = &results->plan->tasks[run->task].geometry.out.shape;
    if (as == COPY_LINK_TO_PART && shape->rank > 0 && shape_elements(shape) > 0)
        return link_output(results, run, file, path, error);
    if (from->file < 0) return panels_join(results, run, file, path, error);
    return copy_whole_object(from->file, "output", file, path, false, error);
}

enum status copy_output(const struct stored *from, hid_t file, const struct results *results, const struct run *run,
                        const struct result_row *row, enum taken as, const char *path, struct error *error) {
    if (as != COPY_NOTHING) TRY(take_values(from, file, results, run, as, path, error));
    return describe_output(file, path, results, run->task, row, error);
}

/* ---- where they are ---- */

enum status copy_open(const struct results *results, const struct run *run, struct stored *from, struct error *error) {
    enum status status = STATUS_OK;
    *from = (struct stored){.file = H5I_INVALID_HID};
    from->path = results_run_path(results, run);
    from->outer_fence = fence_enter(from->path, 0);
    if (!run_is_in_panels(results, run)) {
        status = h5_open_file(from->path, &from->file, error); /* as its reader has it, which may still be open */
        if (status && strstr(error->text, "cannot be locked") && (from->file = h5_open_unlocked(from->path)) >= 0) {
            *error = (struct error){.status = STATUS_OK};
            status = STATUS_OK;
        }
        from->opened = !status;
    }
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
