/* array.c - describes an input from its file, from the several files that it joins along an axis, or, if it is
 * generated, from its job keys; copies, narrows and checks descriptions. */
#include "array.h"
#include "../base/fail.h"
#include "../base/match.h"
#include "../base/text.h"
#include "h5/h5attribute.h"
#include "h5/h5file.h"
#include "h5/h5io.h"
#include "h5/h5scale.h"
#include "raw/rawread.h"
#include "untrusted/fence.h"
#include "untrusted/h5cf.h"
#include "untrusted/h5claims.h"
#include "untrusted/h5kind.h"
#include "untrusted/h5open.h"
#include "untrusted/h5sources.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EMPTY_BYTES  (64.0 * 1024 * 1024 * 1024) /* largest mostly empty data set that is read */
#define MIN_STORED_SHARE (1.0 / 65536) /* smallest stored share of larger ones; zstd-compressed zeros take more */

struct array array_copy(const struct array *array) {
    struct array copy = *array;
    copy.unreadable = must_strdup(array->unreadable);
    copy.units = must_strdup(array->units);
    copy.long_name = must_strdup(array->long_name);
    copy.remark = must_strdup(array->remark);
    copy.absent.first = must_strdup(array->absent.first);
    copy.decoding = decoding_copy(array->decoding);
    copy.counterpart = NULL;
    copy.first_reader = copy.last_reader = -1; /* array_add_reader sets them */
    return copy;
}

/* Does type `wide` represent every number of type `narrow`? A float represents integers of as many bits as its
 * significand has: epsilon / 2 is 2 to the power of minus that. */
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
    const struct job_input *input = array->from_job;
    if (array->mixed_decoding || (input && (input->has_dtype || input->stored_numbers || input->field))) return false;
    if (dtype == decoding->stored) return true;
    return represents_all(dtype, decoding->stored) && decoding->read_as == decoding->stored &&
           dtype_is_float(dtype) == dtype_is_float(decoding->stored);
}

void array_pack(struct array *array) {
    array->keeps_stored = true;
    array->dtype = array->decoding->stored;
}

void array_unpack(struct array *array) {
    array->keeps_stored = false;
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
        return fail_key(error, "select", -1,
                        "'select' of concatenated files takes slices of step 1: `3:4` for index 3");
    memcpy(axes, array->axes, sizeof axes);
    memset(array->axes, 0, sizeof array->axes);
    for (int source_axis = 0, axis = 0; source_axis < array->view.source.rank; source_axis++)
        if (array->view.dropped[source_axis])
            free(axes[source_axis].label);
        else
            array->axes[axis++] = axes[source_axis];
    return STATUS_OK;
}

enum status array_check_mostly_empty(const struct array *array, struct error *error) {
    double bytes = (double)shape_elements(&array->shape) * (double)dtype_size(array->stored);
    char claimed_text[32], stored_text[32];
    if (bytes < MAX_EMPTY_BYTES || array->stored_bytes >= bytes * MIN_STORED_SHARE) return STATUS_OK;
    return fail(error, STATUS_USAGE, "%s: '%s' claims %s, of which the file holds %s; it is not read",
                array->from_job->file, array->from_job->dataset, size_text(bytes, claimed_text),
                size_text(array->stored_bytes, stored_text));
}

bool array_seen_in_file(const struct array *array, int number, struct selection *seen) {
    struct box all = box_whole(&array->shape);
    *seen = view_selection(&array->view, &all);
    if (!array->parts) return true;
    const struct box *part = &array->parts->items[number].box;
    for (int axis = 0; axis < seen->rank; axis++) { /* the steps of concatenated inputs are 1 */
        int64_t first = seen->start[axis], end = first + seen->count[axis];
        int64_t stop = part->start[axis] + part->count[axis];
        if (first < part->start[axis]) first = part->start[axis];
        if (end > stop) end = stop;
        if (end <= first) return false;
        seen->start[axis] = first - part->start[axis];
        seen->count[axis] = end - first;
    }
    return true;
}

/* Adds the absent sources of the data set in file number `number`. STATUS_USAGE: there are some, and the job does not
 * say `sources: fill`; or h5_find_absent's. */
static enum status add_absent(struct array *array, int number, struct error *error) {
    const char *file = array_file(array, number), *name = array->from_job->dataset;
    struct h5_absent absent = {0};
    struct selection seen;
    if (!array_seen_in_file(array, number, &seen)) return STATUS_OK;
    FENCE(file);
    OWNED_DATASET struct h5_dataset *dataset = NULL;
    enum status status = h5_open_chunks(file, name, &dataset, error);
    if (!status) status = h5_find_absent(dataset->id, file, name, &seen, &absent, error);
    if (!status && absent.sources > 0 && !array->from_job->fill)
        status = fail(error, STATUS_USAGE,
                      "%s: '%s' is a virtual data set of %s; `sources: fill` of the input reads fill values instead",
                      file, name, absent.first);
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
    if (input->parts) return number < input->parts->count ? input->parts->items[number].file : NULL;
    return number == 0 && !input->from_job->random ? input->from_job->file : NULL;
}

void array_add_reader(struct array *array, int task) {
    if (array->first_reader < 0) array->first_reader = task;
    array->last_reader = task;
}

void array_free(struct array *array) {
    free(array->unreadable);
    free(array->units);
    free(array->long_name);
    free(array->decoding);
    free(array->remark);
    free(array->absent.first);
    array->absent.first = NULL;
    array->unreadable = array->units = array->long_name = array->remark = NULL;
    array->decoding = NULL;
    for (int i = 0; array->parts && array->parts->owner == array && i < array->parts->count; i++) {
        free(array->parts->items[i].file);
        free(array->parts->items[i].decoding);
    }
    if (array->parts && array->parts->owner == array) {
        for (int i = 0; i < MAX_RANK; i++) free(array->parts->coordinates[i]);
        free(array->parts->packing);
        free(array->parts);
    }
    array->parts = NULL;
    for (int i = 0; i < MAX_RANK; i++) {
        if (array->axes[i].input == array) free(array->axes[i].label);
        array->axes[i] = (struct array_axis){NULL, 0, NULL};
    }
}

char *array_title(const struct array *array) {
    return must_printf("%s '%s%s%s'", array->from_job ? "input" : "result of", array->name, *array->label ? " " : "",
                       array->label);
}

/* ---- descriptions ------------------------------------------------------------------------------------------------ */

/* Checks the type. STATUS_USAGE: the data set is an enumeration and the job sets no `dtype`. */
static enum status check_enumeration(const struct job_input *input, const char *file, const struct h5_dataset *dataset,
                                     struct error *error) {
    if (!dataset->codes || input->has_dtype) return STATUS_OK;
    return fail(error, STATUS_USAGE, "%s: '%s' holds an enumeration, names for numbers; `dtype: %s` reads the numbers",
                file, input->dataset, dtype_name(dataset->dtype));
}

/* Checks a data set that may stand for an array. STATUS_USAGE: its elements are not those of the array that it stands
 * for. */
static enum status check_stand_in(const struct job_input *input, const char *file, const struct h5_dataset *dataset,
                                  struct error *error) {
    OWNED char *text = h5_stand_in_text(dataset->file, input->dataset, dataset->id);
    return text ? fail(error, STATUS_USAGE, "%s: '%s' %s", file, input->dataset, text) : STATUS_OK;
}

/* ---- several files ---- */

/* Keeps `*all` if `one` is equal to it; else sets it to NULL. Frees `one`. */
static void keep_if_equal(char **all, char *one) {
    if (*all && one && strcmp(*all, one) == 0) {
        free(one);
        return;
    }
    free(*all);
    free(one);
    *all = NULL;
}

/* Describes the axes of the data set itself, not those of arrays in its elements. Skips axis `along`, along which files
 * are joined; -1: there is one file. */
static void describe_axes(const struct h5_dataset *dataset, int along, struct array *array) {
    if (!h5_has_attributes(dataset->id)) return;
    for (int i = 0; i < array->shape.rank - dataset->inner; i++) {
        if (i == along) continue;
        char *label = h5_axis_label(dataset->id, i);
        if (label || h5_axis_has_scales(dataset->id, i)) array->axes[i] = (struct array_axis){array, i, label};
    }
}

/* Describes what all files of a concatenated input share, by the first of them. STATUS_USAGE: it lacks the axis along
 * which the files are joined. */
static enum status describe_from_first(const struct h5_dataset *dataset, const struct job_input *input,
                                       struct array *array, struct error *error) {
    if (dataset->shape.rank <= input->concatenate)
        return fail_key(error, "concatenate", 0, "%s: '%s' has %d ax%s, and cannot be concatenated along axis %d",
                        array->parts->items[0].file, input->dataset, dataset->shape.rank,
                        dataset->shape.rank == 1 ? "is" : "es", input->concatenate);
    array->stored = dataset->dtype;
    array->shape = dataset->shape;
    array->shape.size[input->concatenate] = 0;
    array->direct = true;
    describe_axes(dataset, input->concatenate, array);
    return STATUS_OK;
}

/* STATUS_USAGE: the data set has another type, or other sizes of the other axes, than that of the first file. */
static enum status check_fits(const struct h5_dataset *dataset, const struct job_input *input,
                              const struct array *array, const char *file, struct error *error) {
    bool fits = dataset->dtype == array->stored && dataset->shape.rank == array->shape.rank;
    for (int i = 0; fits && i < array->shape.rank; i++)
        fits = i == input->concatenate || dataset->shape.size[i] == array->shape.size[i];
    if (fits) return STATUS_OK;
    char sizes[SHAPE_TEXT], first_sizes[SHAPE_TEXT];
    struct shape shape = array->shape;
    shape.size[input->concatenate] = array->parts->items[0].box.count[input->concatenate];
    return fail_key(
        error, "file", 0,
        "%s: '%s' is %s %s, but %s %s in %s: to be concatenated along axis %d they need one type, and the same "
        "sizes of the other axes",
        file, input->dataset, dtype_name(dataset->dtype), shape_format(&dataset->shape, sizes),
        dtype_name(array->stored), shape_format(&shape, first_sizes), array->parts->items[0].file, input->concatenate);
}

/* The meaning of a data set's elements, from its attributes. The caller owns all members. */
struct meaning {
    struct decoding *decoding;
    char *units, *long_name, *remark;
};

/* Reads the meaning. The attribute `units` is for decoded values, so it is left out if the job reads stored numbers in
 * another unit. */
static struct meaning read_meaning(const struct h5_dataset *dataset, const struct job_input *input) {
    struct meaning meaning = {0};
    bool unit_lost, any = h5_has_attributes(dataset->id);
    meaning.decoding = h5cf_decoding(dataset, input, &unit_lost, &meaning.remark);
    if (any && !unit_lost) meaning.units = h5_get_trimmed_text(dataset->id, "units");
    if (any) meaning.long_name = h5_get_trimmed_text(dataset->id, "long_name");
    return meaning;
}

/* What the attributes of a data set state of its packing, whether or not the job applies them. The caller frees. */
static char *stated_packing(const struct h5_dataset *dataset, const struct job_input *input) {
    struct job_input decoded = *input;
    bool unit_lost;
    OWNED char *remark = NULL;
    decoded.stored_numbers = false;
    OWNED struct decoding *decoding = h5cf_decoding(dataset, &decoded, &unit_lost, &remark);
    return decoding ? decoding_key(decoding) : must_strdup("");
}

/* A remark if a file's units differ from those of the files before it; NULL: they do not. The caller frees. */
static char *units_remark(const struct array *array, const char *units, const char *file) {
    if (!array->units || !units || strcmp(array->units, units) == 0) return NULL;
    return must_printf("units differ: '%s' in %s, '%s' in %s; the numbers are joined without conversion", array->units,
                       array->parts->items[0].file, units, file);
}

static bool numbers_equal(const double one[], const double other[], int64_t count) {
    bool equal = true; /* but for what float32 rounds */
    for (int64_t i = 0; i < count && equal; i++)
        equal =
            fabs(one[i] - other[i]) <= 1e-6 * fabs(one[i]) || one[i] == other[i] || (isnan(one[i]) && isnan(other[i]));
    return equal;
}

/* Removes the label and the scales of an axis along which two files have different coordinates. */
static void drop_axis(struct array *array, int axis, int number) {
    struct concatenated_files *parts = array->parts;
    if (!array->remark)
        array->remark = must_printf("coordinates of axis %d differ in %s and %s, and are left out", axis,
                                    parts->items[0].file, parts->items[number].file);
    free(array->axes[axis].label);
    array->axes[axis] = (struct array_axis){NULL, 0, NULL};
    free(parts->coordinates[axis]);
    parts->coordinates[axis] = NULL;
}

/* Compares the coordinates of one file along the other axes with those of the first. */
static void add_coordinates(const struct h5_dataset *dataset, int number, struct array *array) {
    double **first = array->parts->coordinates;
    for (int axis = 0; axis < array->shape.rank - dataset->inner; axis++) {
        if (!array->axes[axis].input || (number > 0 && !first[axis])) continue;
        int64_t length = dataset->shape.size[axis];
        OWNED double *numbers = h5_axis_numbers(dataset->id, axis, length);
        if (number == 0)
            first[axis] = disown(&numbers);
        else if (numbers && !numbers_equal(first[axis], numbers, length))
            drop_axis(array, axis, number);
    }
}

/* Adds the decoding of one file, and keeps only texts that are the same in all files so far. */
static void add_meaning(const struct h5_dataset *dataset, int number, struct array *array) {
    struct meaning meaning = read_meaning(dataset, array->from_job);
    array->parts->items[number].decoding = meaning.decoding;
    if (!meaning.remark) meaning.remark = units_remark(array, meaning.units, array->parts->items[number].file);
    if (array->remark)
        free(meaning.remark);
    else
        array->remark = meaning.remark;
    if (number == 0) {
        array->units = meaning.units;
        array->long_name = meaning.long_name;
        array->parts->packing = stated_packing(dataset, array->from_job);
    } else {
        keep_if_equal(&array->parts->packing, stated_packing(dataset, array->from_job));
        keep_if_equal(&array->units, meaning.units);
        keep_if_equal(&array->long_name, meaning.long_name);
    }
}

/* Do both decode each element equally? NULL: the elements are used as they are stored. */
static bool decoded_equally(const struct decoding *one, const struct decoding *other) {
    if (!one || !other) return !one && !other;
    OWNED char *key = decoding_key(one), *other_key = decoding_key(other);
    return strcmp(key, other_key) == 0;
}

/* Finds the type that represents the values of all files, and whether all files are decoded equally. */
static void find_common_type(struct array *array) {
    const struct concatenated_files *parts = array->parts;
    const struct decoding *first = parts->items[0].decoding;
    array->dtype = first ? first->result : array->stored;
    for (int i = 0; i < parts->count; i++) {
        const struct decoding *decoding = parts->items[i].decoding;
        array->mixed_decoding |= !decoded_equally(decoding, first);
        array->dtype = decoding_common(array->dtype, decoding ? decoding->result : array->stored);
        if (decoding && !array->decoding) array->decoding = decoding_copy(decoding);
    }
}

/* Opens the data set of an input in a file, and checks its type and its claims. */
static enum status open_input(const struct job_input *input, const char *file, struct stat *version,
                              struct h5_dataset **dataset, double *stored_bytes, struct error *error) {
    stat(file, version); /* a failure is ignored: h5_open gives the better message */
    TRY(h5_open_permitted(input->external, file, input->dataset, input->field, dataset, error));
    TRY(check_enumeration(input, file, *dataset, error));
    TRY(check_stand_in(input, file, *dataset, error));
    return h5_check_claims(*dataset, file, input->dataset, stored_bytes, error);
}

/* Describes one file of a concatenated input and appends it to the array along the concatenated axis. */
static enum status add_file(const struct job_input *input, int number, struct array *array, struct error *error) {
    struct concatenated_file *part = &array->parts->items[number];
    FENCE(part->file);
    OWNED_DATASET struct h5_dataset *dataset = NULL;
    int along = input->concatenate;
    double stored_bytes = 0;
    TRY(open_input(input, part->file, &part->version, &dataset, &stored_bytes, error));
    TRY(number == 0 ? describe_from_first(dataset, input, array, error)
                    : check_fits(dataset, input, array, part->file, error));
    part->box = box_whole(&dataset->shape);
    part->box.start[along] = array->shape.size[along];
    array->shape.size[along] += dataset->shape.size[along];
    array->stored_bytes += stored_bytes;
    if (number == 0 || (dataset->filtered && !array->filtered)) array->chunk = dataset->chunk;
    array->filtered |= dataset->filtered;
    array->scattered |= dataset->scattered;
    array->settled = (number == 0 || array->settled) && h5_is_settled(dataset, &part->version);
    array->direct &= rawread_can_read(dataset) || shape_elements(&dataset->shape) == 0;
    add_meaning(dataset, number, array);
    add_coordinates(dataset, number, array);
    return STATUS_OK;
}

/* Finds and describes the files of a concatenated input. Units and long_name are kept if all files agree; labels and
 * scales of the other axes are those of the first file. STATUS_USAGE: no file matches, a file cannot be read or differs
 * from the first in its type or in the size of another axis, or all have too many elements. */
static enum status concatenate_describe(const struct job_input *input, struct array *array, struct error *error) {
    char **paths = NULL;
    int count = match_is_pattern(input->file, input->file) ? match_files(input->file, &paths) : 1;
    if (count == 0) {
        OWNED char *none = match_none(input->file);
        free(paths);
        return fail_key(error, "file", 0, "%s", none);
    }
    array->parts = must_zeroed(sizeof *array->parts + (size_t)count * sizeof *array->parts->items);
    array->parts->owner = array;
    array->parts->count = count;
    for (int i = 0; i < count; i++) array->parts->items[i].file = paths ? paths[i] : must_strdup(input->file);
    free(paths);
    for (int i = 0; i < count; i++) TRY(add_file(input, i, array, error));
    find_common_type(array);
    if (shape_countable(&array->shape)) return STATUS_OK;
    return fail(error, STATUS_USAGE, "%s: the concatenated '%s' has more elements than 64 bits can count", input->file,
                input->dataset);
}

/* ---- any input ---- */

enum status array_describe(const struct job_input *input, struct array *array, struct error *error) {
    *array = (struct array){.name = input->name, .label = input->label, .from_job = input};
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
    OWNED_DATASET struct h5_dataset *dataset = NULL;
    TRY(open_input(input, input->file, &array->version, &dataset, &array->stored_bytes, error));
    struct meaning meaning = read_meaning(dataset, input);
    array->decoding = meaning.decoding;
    array->units = meaning.units;
    array->long_name = meaning.long_name;
    array->remark = meaning.remark;
    array->stored = dataset->dtype;
    array->dtype = input->has_dtype ? input->as : array->decoding ? array->decoding->result : dataset->dtype;
    array->shape = dataset->shape;
    array->view = view_of_all(&array->shape);
    describe_axes(dataset, -1, array);
    array->chunk = dataset->chunk;
    array->filtered = dataset->filtered;
    array->direct = rawread_can_read(dataset);
    array->scattered = dataset->scattered;
    array->settled = h5_is_settled(dataset, &array->version);
    return STATUS_OK;
}
