/* output.c - takes what runs have made out of their parts, or of those of their panels. */
#include "output.h"

#include "../base/fail.h"
#include "../storage/h5/h5scale.h"
#include "../storage/h5/h5virtual.h"
#include "../storage/untrusted/fence.h"
#include "../storage/untrusted/h5open.h"
#include "carry.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    if (!run_in_panels(results, run)) {
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
