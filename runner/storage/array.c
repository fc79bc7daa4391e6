/* array.c - describes an input from its file, or a generated input from its job keys. */
#include "array.h"

#include "../base/fail.h"
#include "../base/text.h"
#include "concatenate.h"
#include "h5/h5scale.h"
#include "raw/rawread.h"
#include "untrusted/fence.h"
#include "untrusted/h5cf.h"
#include "untrusted/h5claims.h"
#include "untrusted/h5mapped.h"
#include "untrusted/h5open.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_EMPTY_BYTES (64.0 * 1024 * 1024 * 1024) /* largest mostly empty data set that is read */
#define LEAST_STORED     (1.0 / 65536)               /* smallest stored share of others; zstd of zeros has more */

enum status array_check_enumeration(const struct job_input *input, const char *file, const struct h5_dataset *dataset,
                                    struct error *error) {
    if (!dataset->codes || input->has_dtype) return STATUS_OK;
    return fail(error, STATUS_USAGE, "%s: '%s' holds an enumeration, names for numbers; `dtype: %s` reads the numbers",
                file, input->dataset, dtype_name(dataset->dtype));
}

static void describe_axes(const struct h5_dataset *dataset, struct array *array) {
    if (!h5_has_attributes(dataset->id)) return;
    for (int i = 0; i < array->shape.rank - dataset->inner; i++) {
        char *label = h5_axis_label(dataset->id, i);
        if (label || h5_axis_has_scales(dataset->id, i)) array->axes[i] = (struct array_axis){array, i, label};
    }
}

/* Takes decoding, unit, meaning and type from the attributes of the data set. The unit is that of decoded values. */
static void describe_values(const struct h5_dataset *dataset, struct array *array) {
    const struct job_input *input = array->input;
    bool unit_lost;
    array->decoding = h5cf_decoding(dataset, input, &unit_lost, &array->remark);
    bool any = h5_has_attributes(dataset->id);
    if (any && !unit_lost) array->units = h5_get_trimmed_text(dataset->id, "units");
    if (any) array->long_name = h5_get_trimmed_text(dataset->id, "long_name");
    array->stored = dataset->dtype;
    array->dtype = input->has_dtype ? input->as : array->decoding ? array->decoding->result : dataset->dtype;
}

enum status array_describe(const struct job_input *input, struct array *array, struct error *error) {
    *array = (struct array){.name = input->name, .label = input->label, .input = input};
    if (input->random) {
        array->dtype = input->dtype;
        array->shape = input->shape;
        array->view = view_of_all(&array->shape);
        return STATUS_OK;
    }
    if (input->concatenated) {
        TRY(concatenate_describe(input, array, error));
        if (input->has_dtype) array->dtype = input->as;
        array->view = view_of_all(&array->shape);
        return STATUS_OK;
    }
    FENCE(input->file);
    struct h5_dataset *dataset = NULL;
    stat(input->file, &array->version); /* a failure is ignored: h5_open gives the better message */
    enum status status = h5_open_permitted(input->external, input->file, input->dataset, input->field, &dataset, error);
    if (!status) status = array_check_enumeration(input, input->file, dataset, error);
    if (!status) status = h5_check_claims(dataset, input->file, input->dataset, &array->held, error);
    if (!status) {
        array->shape = dataset->shape;
        array->view = view_of_all(&array->shape);
        describe_values(dataset, array);
        describe_axes(dataset, array);
        array->chunk = dataset->chunk;
        array->filtered = dataset->filtered;
        array->direct = rawread_can_read(dataset);
        array->scattered = dataset->scattered;
    }
    h5_close(dataset);
    return status;
}

static char *copy_text(const char *text) {
    return text ? must_strdup(text) : NULL;
}

struct array array_copy(const struct array *array) {
    struct array copy = *array;
    copy.units = copy_text(array->units);
    copy.long_name = copy_text(array->long_name);
    copy.remark = copy_text(array->remark);
    copy.absent.first = copy_text(array->absent.first);
    copy.decoding = decoding_copy(array->decoding);
    copy.other = NULL;
    copy.first_reader = copy.last_reader = -1; /* array_add_reader sets them */
    return copy;
}

/* Does type `wide` represent every number of type `narrow`? */
static bool represents_all(enum dtype wide, enum dtype narrow) {
    if (wide == narrow) return true;
    if (dtype_is_float(narrow)) return dtype_is_float(wide) && decoding_common(wide, narrow) == wide;
    int bits = 8 * (int)dtype_size(narrow) - dtype_is_signed(narrow);
    if (dtype_is_float(wide))
        return ldexp(1, -bits) >= dtype_epsilon(wide) / 2 && dtype_largest(wide) >= ldexp(1, bits);
    if (dtype_is_signed(narrow) && !dtype_is_signed(wide)) return false;
    return 8 * (int)dtype_size(wide) - dtype_is_signed(wide) >= bits;
}

bool array_can_pack(const struct array *array, enum dtype dtype) {
    const struct decoding *decoding = array->decoding;
    const struct job_input *input = array->input;
    if (array->mixed || (input && (input->has_dtype || input->stored_numbers || input->field))) return false;
    return dtype == decoding->stored ||
           (represents_all(dtype, decoding->stored) && decoding->read_as == decoding->stored);
}

void array_pack(struct array *array) {
    array->packed = true;
    array->dtype = array->decoding->stored;
}

void array_unpack(struct array *array) {
    array->packed = false;
    array->dtype = array->decoding->result;
}

void array_narrow(struct array *array, int axis, int64_t first, int64_t count) {
    view_begin(&array->view, axis, first);
    array->shape.size[axis] = count;
}

enum status array_select(struct array *array, const struct job_select *select, struct error *error) {
    struct array_axis axes[MAX_RANK];
    TRY(view_select(select, &array->view, &array->shape, error));
    if (array->parts && !view_is_box(&array->view))
        return fail(error, STATUS_USAGE, "'select' of files that are concatenated takes no steps and no indices");
    memcpy(axes, array->axes, sizeof axes);
    memset(array->axes, 0, sizeof array->axes);
    for (int of = 0, axis = 0; of < array->view.source.rank; of++)
        if (array->view.dropped[of])
            free(axes[of].label);
        else
            array->axes[axis++] = axes[of];
    return STATUS_OK;
}

enum status array_check_mostly_empty(const struct array *array, struct error *error) {
    double bytes = (double)shape_elements(&array->shape) * (double)dtype_size(array->stored);
    char claimed[32], held[32];
    if (bytes < MOST_EMPTY_BYTES || array->held >= bytes * LEAST_STORED) return STATUS_OK;
    return fail(error, STATUS_USAGE, "%s: '%s' claims %s, of which the file holds %s; it is not read",
                array->input->file, array->input->dataset, size_text(bytes, claimed), size_text(array->held, held));
}

bool array_seen_in_file(const struct array *array, int number, struct selection *seen) {
    struct box whole = box_whole(&array->shape);
    *seen = view_selection(&array->view, &whole);
    if (!array->parts) return true;
    const struct box *place = &array->parts->of[number].place;
    for (int axis = 0; axis < seen->rank; axis++) { /* the steps of concatenated inputs are 1 */
        int64_t first = seen->start[axis], end = first + seen->count[axis],
                stop = place->start[axis] + place->count[axis];
        if (first < place->start[axis]) first = place->start[axis];
        if (end > stop) end = stop;
        if (end <= first) return false;
        seen->start[axis] = first - place->start[axis];
        seen->count[axis] = end - first;
    }
    return true;
}

/* Adds the absent sources of the data set in one file. */
static enum status add_absent(struct array *array, int number, struct error *error) {
    const char *file = array_file(array, number), *name = array->input->dataset;
    struct h5_dataset *dataset = NULL;
    struct h5_absent absent = {0};
    struct selection seen;
    if (!array_seen_in_file(array, number, &seen)) return STATUS_OK;
    FENCE(file);
    enum status status = h5_open_chunks(file, name, &dataset, error);
    if (!status) status = h5_find_absent(dataset->id, file, name, &seen, &absent, error);
    h5_close(dataset);
    if (!status && absent.sources > 0 && !array->input->fill)
        status = fail(error, STATUS_USAGE,
                      "%s: '%s' is a virtual data set of %s; `sources: fill` of the input takes what is there", file,
                      name, absent.first);
    array->absent.elements += absent.elements;
    array->absent.sources += absent.sources;
    array->absent.files = absent.files > array->absent.files ? absent.files : array->absent.files;
    array->absent.read_by_source |= absent.read_by_source;
    if (!array->absent.first)
        array->absent.first = absent.first;
    else
        free(absent.first);
    return status;
}

enum status array_check_sources(struct array *array, struct error *error) {
    if (!array->scattered) return STATUS_OK;
    for (int i = 0; array_file(array, i); i++) TRY(add_absent(array, i, error));
    return STATUS_OK;
}

struct grid array_grid(const struct array *array) {
    struct grid grid = {.grain = view_grain(&array->view, &array->chunk)};
    view_shift(&array->view, grid.shift);
    return grid;
}

const char *array_file(const struct array *input, int number) {
    if (input->parts) return number < input->parts->count ? input->parts->of[number].file : NULL;
    return number == 0 && !input->input->random ? input->input->file : NULL;
}

void array_add_reader(struct array *array, int task) {
    if (array->first_reader < 0) array->first_reader = task;
    array->last_reader = task;
}

void array_free(struct array *array) {
    free(array->units);
    free(array->long_name);
    free(array->decoding);
    free(array->remark);
    free(array->absent.first);
    array->absent.first = NULL;
    array->units = array->long_name = array->remark = NULL;
    array->decoding = NULL;
    for (int i = 0; array->parts && array->parts->owner == array && i < array->parts->count; i++) {
        free(array->parts->of[i].file);
        free(array->parts->of[i].decoding);
    }
    if (array->parts && array->parts->owner == array) free(array->parts);
    array->parts = NULL;
    for (int i = 0; i < MAX_RANK; i++) {
        if (array->axes[i].of == array) free(array->axes[i].label);
        array->axes[i] = (struct array_axis){NULL, 0, NULL};
    }
}
