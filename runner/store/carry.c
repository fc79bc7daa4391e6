/* carry.c - copies an input's attributes to the results that were moved out of it. */
#include "carry.h"

#include "../base/fail.h"
#include "../base/text.h"
#include "../record/link.h"
#include "../storage/h5/h5scale.h"
#include "../storage/pieces.h"
#include "../storage/untrusted/fence.h"
#include "../storage/untrusted/h5cf.h"
#include <string.h>

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

enum status carry_attributes(const struct results *results, const struct array *array, hid_t output,
                             struct error *error) {
    if (!array->moved) return STATUS_OK;
    copy_from(results, array, output);
    return array->packed ? h5cf_write(output, array->decoding, error) : STATUS_OK;
}
