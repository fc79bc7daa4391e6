/* concatenate.c - finds the files of a concatenated input and the position of each in the array. */
#include "concatenate.h"

#include "../base/fail.h"
#include "../base/match.h"
#include "h5/h5io.h"
#include "h5/h5scale.h"
#include "raw/rawread.h"
#include "untrusted/fence.h"
#include "untrusted/h5cf.h"
#include "untrusted/h5claims.h"
#include "untrusted/h5open.h"

#include <stdlib.h>
#include <string.h>

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

/* Describes the axes that are not joined, from the first file. */
static void describe_axes(const struct h5_dataset *dataset, int along, struct array *array) {
    for (int i = 0; i < array->shape.rank - dataset->inner; i++) {
        if (i == along) continue;
        char *label = h5_axis_label(dataset->id, i);
        if (label || h5_axis_has_scales(dataset->id, i)) array->axes[i] = (struct array_axis){array, i, label};
    }
}

static enum status describe_from_first(const struct h5_dataset *dataset, const struct job_input *input,
                                       struct array *array, struct error *error) {
    if (dataset->shape.rank <= input->concatenate)
        return fail(error, STATUS_USAGE, "%s: '%s' has %d ax%s, and cannot be concatenated along axis %d",
                    array->parts->of[0].file, input->dataset, dataset->shape.rank,
                    dataset->shape.rank == 1 ? "is" : "es", input->concatenate);
    array->stored = dataset->dtype;
    array->shape = dataset->shape;
    array->shape.size[input->concatenate] = 0;
    array->direct = true;
    describe_axes(dataset, input->concatenate, array);
    return STATUS_OK;
}

/* Does the data set have the type and the other axes of the first file? */
static enum status check_fits(const struct h5_dataset *dataset, const struct job_input *input,
                              const struct array *array, const char *file, struct error *error) {
    bool fits = dataset->dtype == array->stored && dataset->shape.rank == array->shape.rank;
    for (int i = 0; fits && i < array->shape.rank; i++)
        fits = i == input->concatenate || dataset->shape.size[i] == array->shape.size[i];
    if (fits) return STATUS_OK;
    char own[SHAPE_TEXT], first[SHAPE_TEXT];
    struct shape shape = array->shape;
    shape.size[input->concatenate] = array->parts->of[0].place.count[input->concatenate];
    return fail(error, STATUS_USAGE,
                "%s: '%s' is %s %s, but %s %s in %s: to be concatenated along axis %d they need one type, and the same "
                "sizes of the other axes",
                file, input->dataset, dtype_name(dataset->dtype), shape_format(&dataset->shape, own),
                dtype_name(array->stored), shape_format(&shape, first), array->parts->of[0].file, input->concatenate);
}

/* Reads unit, meaning and decoding from the attributes of one file. */
static void add_attributes(const struct h5_dataset *dataset, int number, struct array *array) {
    struct array_part *part = &array->parts->of[number];
    char *remark, *units = h5_get_trimmed_text(dataset->id, "units"),
                  *long_name = h5_get_trimmed_text(dataset->id, "long_name");
    bool unit_lost;
    part->decoding = h5cf_decoding(dataset, array->input, &unit_lost, &remark);
    if (unit_lost) free(units), units = NULL;
    if (array->remark)
        free(remark);
    else
        array->remark = remark;
    if (number > 0) {
        keep_if_equal(&array->units, units);
        keep_if_equal(&array->long_name, long_name);
        return;
    }
    array->units = units;
    array->long_name = long_name;
}

static bool decoded_equally(const struct decoding *one, const struct decoding *other) {
    if (!one || !other) return !one && !other;
    char *key = decoding_key(one), *other_key = decoding_key(other);
    bool same = strcmp(key, other_key) == 0;
    free(key);
    free(other_key);
    return same;
}

/* Finds the type that represents the values of all files, and whether all files are decoded equally. */
static void find_common_type(struct array *array) {
    const struct array_parts *parts = array->parts;
    const struct decoding *first = parts->of[0].decoding;
    array->dtype = first ? first->result : array->stored;
    for (int i = 0; i < parts->count; i++) {
        const struct decoding *own = parts->of[i].decoding;
        array->mixed |= !decoded_equally(own, first);
        array->dtype = decoding_common(array->dtype, own ? own->result : array->stored);
        if (own && !array->decoding) array->decoding = decoding_copy(own);
    }
}

static enum status add_file(const struct job_input *input, int number, struct array *array, struct error *error) {
    struct array_part *part = &array->parts->of[number];
    FENCE(part->file);
    struct h5_dataset *dataset = NULL;
    struct rawread *raw = NULL;
    int along = input->concatenate;
    double held = 0;
    stat(part->file, &part->version); /* a failure is ignored: h5_open gives the better message */
    enum status status = h5_open_permitted(input->external, part->file, input->dataset, input->field, &dataset, error);
    if (!status) status = array_check_enumeration(input, part->file, dataset, error);
    if (!status) status = h5_check_claims(dataset, part->file, input->dataset, &held, error);
    if (!status) status = rawread_open(dataset, &raw, error);
    if (!status && number == 0) status = describe_from_first(dataset, input, array, error);
    if (!status && number > 0) status = check_fits(dataset, input, array, part->file, error);
    if (!status) {
        part->place = box_whole(&dataset->shape);
        part->place.start[along] = array->shape.size[along];
        array->shape.size[along] += dataset->shape.size[along];
        array->held += held;
        if (number == 0 || (dataset->filtered && !array->filtered)) array->chunk = dataset->chunk;
        array->filtered |= dataset->filtered;
        array->scattered |= dataset->scattered;
        array->direct &= raw != NULL || shape_elements(&dataset->shape) == 0;
    }
    if (!status) add_attributes(dataset, number, array);
    rawread_close(raw);
    h5_close(dataset);
    return status;
}

enum status concatenate_describe(const struct job_input *input, struct array *array, struct error *error) {
    char **paths = NULL;
    int count = 1;
    if (match_is_pattern(input->file)) {
        count = match_files(input->file, &paths);
        if (count == 0) {
            char *none = match_none(input->file);
            fail(error, STATUS_USAGE, "%s", none);
            free(none);
            free(paths);
            return STATUS_USAGE;
        }
    } else {
        paths = must_malloc(sizeof *paths);
        paths[0] = must_strdup(input->file);
    }
    size_t bytes = sizeof *array->parts + (size_t)count * sizeof *array->parts->of;
    array->parts = memset(must_malloc(bytes), 0, bytes);
    array->parts->owner = array;
    array->parts->count = count;
    for (int i = 0; i < count; i++) array->parts->of[i].file = paths[i];
    free(paths);
    enum status status = STATUS_OK;
    for (int i = 0; i < count && !status; i++) status = add_file(input, i, array, error);
    if (!status) find_common_type(array);
    if (!status && !shape_countable(&array->shape))
        status = fail(error, STATUS_USAGE, "%s: the concatenated '%s' has more elements than 64 bits can count",
                      input->file, input->dataset);
    return status;
}
