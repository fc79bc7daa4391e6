/* compare_output.c - compares two stored outputs piece by piece, in bounded memory. */
#include "compare.h"

#include "../../kernels/core/cpu.h"
#include "../../kernels/core/cut.h"
#include "../base/fail.h"
#include "../storage/h5/h5io.h"
#include "../storage/untrusted/fence.h"
#include "../storage/untrusted/h5open.h"
#include <math.h>
#include <string.h>

#define PIECE_BYTES (INT64_C(8) << 20) /* of one output; more if a compressed chunk is larger */

/* What the pieces so far have shown: the largest difference, and the largest magnitude of an element. */
struct extremes {
    double difference, largest;
    bool nonfinite; /* one output has a NaN or an infinity where the other has not */
};

/* Raises the largest finite difference and magnitude to those of `count` more elements, and notes whether a difference
 * is not finite. Two NaNs, or two equal infinities, do not differ. */
static void update_extremes(enum dtype dtype, const void *base, const void *new, int64_t count, struct extremes *seen) {
    double difference = seen->difference, largest = seen->largest;
    int nonfinite = 0;
#pragma omp parallel for reduction(max : difference, largest) reduction(| : nonfinite) if (count > CPU_ALONE)
    for (int64_t i = 0; i < count; i++) {
        double a = dtype_load(dtype, base, i), b = dtype_load(dtype, new, i);
        double size = fmax(fabs(a), fabs(b)), apart = fabs(a - b);
        if (!dtype_is_float(dtype) && dtype_load_integer(dtype, base, i) != dtype_load_integer(dtype, new, i))
            apart = fmax(apart, 1); /* integers beyond 2^53 may be equal as doubles */
        if (isfinite(size) && size > largest) largest = size;
        if (a == b || (isnan(a) && isnan(b))) apart = dtype_is_float(dtype) ? 0 : apart;
        if (!isfinite(apart)) nonfinite = 1;
        if (isfinite(apart) && apart > difference) difference = apart;
    }
    seen->difference = difference;
    seen->largest = largest;
    seen->nonfinite |= nonfinite != 0;
}

struct stored_output {
    const char *path;
    struct h5_dataset *dataset; /* NULL: not open */
};

/* Opens an output as a data set that may lie in other files, as a linked results file has it. */
static enum status open_output(const char *name, struct stored_output *output, struct error *error) {
    FENCE(output->path);
    return h5_open_permitted(EXTERNAL_ALLOW, output->path, name, NULL, &output->dataset,
                             error); /* no pipes, no circles */
}

static void close_output(struct stored_output *output) {
    FENCE(output->path);
    h5_close(&output->dataset);
}

static enum status read_output_piece(const struct stored_output *from, const struct box *piece, void *data,
                                     struct error *error) {
    FENCE(from->path);
    return h5_read(from->dataset, piece, data, error);
}

/* Compares two outputs of the same shape and type piece by piece, and sums up how they differ. */
static enum status compare_pieces(const struct stored_output *base_output, const struct stored_output *new,
                                  struct output_difference *difference, struct error *error) {
    const struct h5_dataset *base = base_output->dataset;
    int64_t size = (int64_t)dtype_size(base->dtype), limit = PIECE_BYTES / size;
    int64_t chunk = base->filtered ? shape_elements(&base->chunk) : 1;
    if (chunk > limit) limit = chunk;
    struct box whole = box_whole(&base->shape);
    struct cut cut = cut_box(&whole, &(struct grid){.grain = base->chunk}, limit);
    OWNED char *data = try_malloc((size_t)(2 * limit * size));
    if (!data) return fail(error, STATUS_IO, "no memory left to compare outputs");
    struct extremes seen = {0};
    difference->identical = true;
    for (int64_t number = 0; number < cut.pieces; number++) {
        struct box piece = cut_piece(&cut, number);
        int64_t elements = box_elements(&piece);
        char *other = data + elements * size;
        TRY(read_output_piece(base_output, &piece, data, error));
        TRY(read_output_piece(new, &piece, other, error));
        difference->identical &= memcmp(data, other, (size_t)(elements * size)) == 0;
        update_extremes(base->dtype, data, other, elements, &seen);
    }
    difference->relative = seen.nonfinite ? INFINITY : seen.difference > 0 ? seen.difference / seen.largest : 0;
    return STATUS_OK;
}

enum status outputs_compare(const char *base_path, const char *base_name, const char *new_path, const char *new_name,
                            struct output_difference *difference, struct error *error) {
    FREED_BY(close_output) struct stored_output base = {base_path, NULL}, new = {new_path, NULL};
    *difference = (struct output_difference){.relative = INFINITY};
    TRY(open_output(base_name, &base, error));
    TRY(open_output(new_name, &new, error));
    difference->known = true;
    difference->elements = shape_elements(&base.dataset->shape);
    difference->alike =
        shape_equal(&base.dataset->shape, &new.dataset->shape) && base.dataset->dtype == new.dataset->dtype;
    return difference->alike ? compare_pieces(&base, &new, difference, error) : STATUS_OK;
}
