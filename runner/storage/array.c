/* array.c - describes an input from its file, or a generated one from its job keys. */
#include "array.h"

#include "../base/fail.h"
#include "../base/fence.h"
#include "concatenate.h"
#include "h5scale.h"
#include "rawread.h"

#include <stdlib.h>

static void describe_axes(hid_t dataset, struct array *array) {
    for (int i = 0; i < array->shape.rank; i++) {
        char *label = h5_axis_label(dataset, i);
        if (label || h5_axis_has_scales(dataset, i)) array->axes[i] = (struct array_axis){array, i, label};
    }
}

enum status array_describe(const struct job_input *input, struct array *array, struct error *error) {
    *array = (struct array){.name = input->name, .label = input->label, .input = input};
    if (input->random) {
        array->dtype = input->dtype;
        array->shape = input->shape;
        return STATUS_OK;
    }
    if (input->concatenated) return concatenate_describe(input, array, error);
    FENCE(input->file);
    struct h5_dataset *dataset = NULL;
    struct rawread *raw = NULL;
    stat(input->file, &array->version); /* a failure is ignored: h5_open gives the better message */
    enum status status = h5_open(input->file, input->dataset, &dataset, error);
    if (!status) status = rawread_open(dataset, &raw, error);
    if (!status) {
        array->dtype = dataset->dtype;
        array->shape = dataset->shape;
        array->units = h5_get_words(dataset->id, "units");
        array->long_name = h5_get_words(dataset->id, "long_name");
        describe_axes(dataset->id, array);
        array->chunk = dataset->chunk;
        array->filtered = dataset->filtered;
        array->direct = raw != NULL;
    }
    rawread_close(raw);
    h5_close(dataset);
    return status;
}

const char *array_file(const struct array *input, int number) {
    if (input->parts) return number < input->parts->count ? input->parts->of[number].file : NULL;
    return number == 0 && !input->input->random ? input->input->file : NULL;
}

void array_free(struct array *array) {
    free(array->units);
    free(array->long_name);
    array->units = array->long_name = NULL;
    for (int i = 0; array->parts && array->parts->owner == array && i < array->parts->count; i++)
        free(array->parts->of[i].file);
    if (array->parts && array->parts->owner == array) free(array->parts);
    array->parts = NULL;
    for (int i = 0; i < MAX_RANK; i++) {
        if (array->axes[i].of == array) free(array->axes[i].label);
        array->axes[i] = (struct array_axis){NULL, 0, NULL};
    }
}
