/* scales.c - copies dimension scales from inputs and attaches them to outputs. */
#include "scales.h"

#include "../base/fail.h"
#include "../base/text.h"
#include "../storage/h5/h5scale.h"
#include "../storage/reader.h"
#include "../storage/untrusted/h5guard.h"
#include <stdlib.h>
#include <string.h>

/* A scale in the results file: a copy of an input's scale or of a band of it, or a placeholder. */
struct scale_copy {
    char *name;             /* in the group of copies */
    char *placeholder_name; /* preferred name, for a placeholder; NULL: it is a copy */
    /* The original of a copy: its file, and its address there. */
    dev_t device;
    ino_t inode;
    haddr_t address;
    int64_t first, count, step; /* the copied elements of the original */
    hobj_ref_t reference;       /* refers to the copy */
    int attached_count;
    struct h5_attached *attached;
};

/* The scales of an axis of an input. */
struct axis_copies {
    bool known;
    int count;
    int *copies; /* their indices in scales->copies */
};

/* An output without a scale. */
struct bare_output {
    const struct array *array;
    char *path;
};

struct scales {
    const struct results *results;
    hid_t file;
    const char *group; /* the copies go to this group */
    int count;
    struct scale_copy *copies;
    struct axis_copies (*arrays)[MAX_RANK]; /* one for each array of the plan */
    int bare_count;
    struct bare_output *bare_outputs;
};

struct scales *scales_create(const struct results *results, hid_t file, const char *group) {
    struct scales *scales = must_malloc(sizeof *scales);
    *scales = (struct scales){.results = results, .file = file, .group = group};
    scales->arrays = must_zeroed((size_t)results->plan->array_count * sizeof *scales->arrays);
    return scales;
}

void scales_free(struct scales *const *pointer) {
    OWNED struct scales *scales = *pointer;
    for (int i = 0; i < scales->count; i++) {
        free(scales->copies[i].name);
        free(scales->copies[i].placeholder_name);
        free(scales->copies[i].attached);
    }
    for (int i = 0; i < scales->results->plan->array_count; i++)
        for (int axis = 0; axis < MAX_RANK; axis++) free(scales->arrays[i][axis].copies);
    for (int i = 0; i < scales->bare_count; i++) free(scales->bare_outputs[i].path);
    free(scales->bare_outputs);
    free(scales->copies);
    free(scales->arrays);
}

/* ---- copying --------------------------------------------------------------------------------------------------- */

/* Is the name unused in the group of copies, and not the name of an operation, a label or a group of a `to`? */
static bool is_free(const struct scales *scales, hid_t outputs, const char *name) {
    const struct job *job = scales->results->plan->job;
    size_t length = strlen(name);
    if (H5Lexists(outputs, name, H5P_DEFAULT) > 0) return false;
    for (int i = 0; i < job->operation_count; i++) {
        const struct job_operation *operation = &job->operations[i];
        const char *to = operation->to_name;
        if (strcmp(*operation->label ? operation->label : operation->id, name) == 0) return false;
        if (to && strncmp(to + 1, name, length) == 0 && (!to[1 + length] || to[1 + length] == '/')) return false;
    }
    return true;
}

/* The name, with a number if it is taken; the caller frees. */
static char *choose_name(const struct scales *scales, hid_t outputs, const char *preferred_name) {
    char *name = must_strdup(preferred_name);
    for (int i = 2; !is_free(scales, outputs, name); i++) {
        free(name);
        name = must_printf("%s_%d", preferred_name, i);
    }
    return name;
}

/* Records a scale's file and address, so that its copy is found again whichever input leads to it. */
static void identify(hid_t scale, struct scale_copy *copy) {
    char path[4096] = "";
    struct stat file = {.st_ino = 0};
    H5O_info_t about = {.addr = HADDR_UNDEF};
    H5Oget_info2(scale, &about, H5O_INFO_BASIC);
    H5Fget_name(scale, path, sizeof path);
    stat(path, &file);
    copy->device = file.st_dev;
    copy->inode = file.st_ino;
    copy->address = about.addr;
}

/* The number of the copy of the wanted elements of a scale, or of the wanted placeholder; -1: there is no such copy. */
static int find_copy(const struct scales *scales, const struct scale_copy *wanted) {
    for (int i = 0; i < scales->count; i++) {
        const struct scale_copy *copy = &scales->copies[i];
        bool same_scale =
            copy->device == wanted->device && copy->inode == wanted->inode && copy->address == wanted->address;
        bool same_part = copy->first == wanted->first && copy->count == wanted->count && copy->step == wanted->step;
        bool same_wish = copy->placeholder_name && wanted->placeholder_name
                             ? strcmp(copy->placeholder_name, wanted->placeholder_name) == 0
                             : copy->placeholder_name == wanted->placeholder_name;
        if (same_scale && same_part && same_wish) return i;
    }
    return -1;
}

/* Returns the number of the copy of a scale, or of a placeholder, and makes it if it does not exist yet. -1: it
 * cannot be made; *why has the reason. `scale`: the scale to copy, of an axis of this length in the input's data set;
 * negative: make a placeholder. */
static int make_scale(struct scales *scales, hid_t scale, int64_t length, const struct scale_copy *wanted,
                      const char **why) {
    int found = find_copy(scales, wanted);
    if (found >= 0) return found;
    struct scale_copy copy = *wanted;
    struct error error = {.status = STATUS_OK};
    OWNED_ID hid_t outputs = H5Gopen2(scales->file, scales->group, H5P_DEFAULT);
    OWNED char *preferred_name = copy.placeholder_name ? must_strdup(copy.placeholder_name) : h5_scale_name(scale);
    copy.name = choose_name(scales, outputs, preferred_name);
    if (!copy.placeholder_name)
        *why = h5_copy_scale(scale, length, copy.first, copy.count, copy.step, outputs, copy.name);
    else
        *why = h5_create_placeholder(outputs, copy.name, copy.count, &error) ? h5_error_text() : NULL;
    if (!*why && H5Rcreate(&copy.reference, outputs, copy.name, H5R_OBJECT, -1) < 0) *why = h5_error_text();
    if (*why) {
        free(copy.name);
        return -1;
    }
    if (copy.placeholder_name) copy.placeholder_name = must_strdup(copy.placeholder_name);
    *APPEND(scales->copies, scales->count) = copy;
    return scales->count - 1;
}

/* Prints why a scale of an input's axis is not copied. */
static void print_left_out(const struct array *input, int axis, const char *why) {
    OWNED char *title = array_title(input);
    text_print_stderr("tilerun: %s: the results lack a dimension scale of axis %d, which cannot be copied: %s\n", title,
                      axis, why);
}

/* The copies of the scales of an input's axis, which the first call makes. Prints which scales cannot be copied. */
static const struct axis_copies *copies_of(struct scales *scales, const struct array_axis *axis) {
    const struct array *input = axis->input;
    int number = (int)(input - scales->results->plan->arrays);
    struct axis_copies *copies = &scales->arrays[number][axis->number];
    if (copies->known) return copies;
    copies->known = true;
    struct readers *readers = scales->results->readers;
    struct error error = {.status = STATUS_OK};
    if (readers_open(readers, number, &error)) {
        print_left_out(input, axis->number, error.text);
        return copies;
    }
    const struct h5_dataset *dataset = readers->items[number].dataset;
    if (!dataset && pieces_open_first(readers->items[number].pieces, &dataset, &error)) {
        print_left_out(input, axis->number, error.text);
        return copies;
    }
    int64_t length = dataset->shape.size[axis->number];
    int axis_of_view = 0;
    while (input->axes[axis_of_view].number != axis->number || input->axes[axis_of_view].input != input) axis_of_view++;
    const struct data_view *view = &input->view;
    bool is_part = input->shape.size[axis_of_view] != length;
    OWNED hid_t *opened = NULL;
    int count = h5_axis_scales(dataset->id, axis->number, &opened);
    copies->copies = must_malloc((size_t)count * sizeof *copies->copies + 1);
    for (int i = 0; i < count; i++) {
        if (opened[i] < 0) {
            print_left_out(input, axis->number, "this HDF5 cannot open it");
            continue;
        }
        struct scale_copy wanted = {.first = is_part ? view->first[axis->number] : 0,
                                    .count = is_part ? input->shape.size[axis_of_view] : length,
                                    .step = is_part ? view->step[axis->number] : 1};
        identify(opened[i], &wanted);
        H5_GUARD(guard, input->from_job->external, input->from_job->file, "scale");
        error = (struct error){.status = STATUS_OK};
        enum status refused = h5_guard_check_open(&guard, opened[i], &error);
        const char *why = error.text;
        int copy = refused ? -1 : make_scale(scales, opened[i], length, &wanted, &why);
        if (copy >= 0)
            copies->copies[copies->count++] = copy;
        else
            print_left_out(input, axis->number, why);
        H5Dclose(opened[i]);
    }
    return copies;
}

/* ---- attaching ------------------------------------------------------------------------------------------------- */

/* Adds a copy to the list of an axis, and the axis to those that the copy is attached to. */
static void attach(struct scales *scales, int number, hobj_ref_t dataset, int axis, struct h5_axis_list *list) {
    struct scale_copy *copy = &scales->copies[number];
    *APPEND(list->scales, list->count) = copy->reference;
    *APPEND(copy->attached, copy->attached_count) = (struct h5_attached){dataset, axis};
}

/* Gives an axis of an output a placeholder, named after its label if that can be a name. */
static enum status attach_placeholder(struct scales *scales, const struct array *array, hobj_ref_t dataset, int axis,
                                      const char *label, struct h5_axis_list *list, struct error *error) {
    bool names = label && !strchr(label, '/') && strcmp(label, ".") != 0;
    OWNED char *preferred_name = names ? must_strdup(label) : must_printf("axis_%d", axis);
    struct scale_copy wanted = {.placeholder_name = preferred_name, .count = array->shape.size[axis]};
    const char *why = NULL;
    int number = make_scale(scales, H5I_INVALID_HID, 0, &wanted, &why);
    if (number < 0) return FAIL_CALL(error, STATUS_IO, "H5Dcreate2", why);
    attach(scales, number, dataset, axis, list);
    return STATUS_OK;
}

/* Attaches the scales of an array. `placeholders`: an output without scales of its own gets placeholders; otherwise it
 * is noted as bare. */
static enum status attach_all(struct scales *scales, const struct array *array, const char *path, bool placeholders,
                              struct error *error) {
    struct h5_axis_list lists[MAX_RANK] = {{0, NULL}};
    char *labels[MAX_RANK] = {NULL};
    bool any = placeholders, labelled = false;
    int rank = array->shape.rank;
    hobj_ref_t reference;
    OWNED_ID hid_t output = H5Dopen2(scales->file, path, H5P_DEFAULT);
    if (output < 0 || H5Rcreate(&reference, scales->file, path, H5R_OBJECT, -1) < 0)
        return FAIL_CALL(error, STATUS_IO, "H5Dopen2", h5_error_text());
    for (int axis = 0; axis < rank; axis++) {
        if (!array->axes[axis].input) continue;
        const struct axis_copies *copies = copies_of(scales, &array->axes[axis]);
        for (int i = 0; i < copies->count; i++) attach(scales, copies->copies[i], reference, axis, &lists[axis]);
        labels[axis] = array->axes[axis].label;
        any = any || copies->count > 0;
        labelled = labelled || labels[axis];
    }
    if (!any && rank > 0)
        *APPEND(scales->bare_outputs, scales->bare_count) = (struct bare_output){array, must_strdup(path)};
    enum status status = STATUS_OK;
    for (int axis = 0; axis < rank && any && !status; axis++)
        if (lists[axis].count == 0)
            status = attach_placeholder(scales, array, reference, axis, labels[axis], &lists[axis], error);
    if (!status && any) status = h5_set_scales(output, rank, lists, error);
    if (!status && labelled) status = h5_set_axis_labels(output, rank, labels, error);
    for (int axis = 0; axis < rank; axis++) free(lists[axis].scales);
    return status;
}

enum status scales_attach(struct scales *scales, const struct array *array, const char *path, struct error *error) {
    return attach_all(scales, array, path, false, error);
}

/* Links the scales of /outputs into /variants: netCDF looks for the dimensions of a data set in its group and those
 * above. */
static enum status link_from_variants(const struct scales *scales, struct error *error) {
    if (strcmp(scales->group, "/outputs") != 0 || H5Lexists(scales->file, "variants", H5P_DEFAULT) <= 0)
        return STATUS_OK;
    OWNED_ID hid_t outputs = H5Gopen2(scales->file, "outputs", H5P_DEFAULT);
    OWNED_ID hid_t variants = H5Gopen2(scales->file, "variants", H5P_DEFAULT);
    for (int i = 0; i < scales->count; i++) {
        const char *name = scales->copies[i].name;
        if (H5Lcreate_hard(outputs, name, variants, name, H5P_DEFAULT, H5P_DEFAULT) < 0)
            return FAIL_CALL(error, STATUS_IO, "H5Lcreate_hard", h5_error_text());
    }
    return STATUS_OK;
}

/* Gives outputs without any scale their placeholders, as some outputs have scales; links the scales to where netCDF
 * looks for them; and writes into each scale the list of outputs that it is attached to. */
enum status scales_finish(struct scales *scales, struct error *error) {
    if (scales->count > 0)
        for (int i = 0; i < scales->bare_count; i++)
            TRY(attach_all(scales, scales->bare_outputs[i].array, scales->bare_outputs[i].path, true, error));
    TRY(link_from_variants(scales, error));
    for (int i = 0; i < scales->count; i++) {
        const struct scale_copy *copy = &scales->copies[i];
        OWNED_ID hid_t scale = H5Rdereference2(scales->file, H5P_DEFAULT, H5R_OBJECT, &copy->reference);
        if (scale < 0) return FAIL_CALL(error, STATUS_IO, "H5Rdereference2", h5_error_text());
        TRY(h5_set_attached(scale, copy->attached_count, copy->attached, error));
    }
    return STATUS_OK;
}
