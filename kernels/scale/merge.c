/* scale/merge.c - lets `scale` take arrays of up to 8 axes: merges all axes before the last two into one. */
#include "../core/reference.h"

#include "../core/axes.h"

enum status scale_merge_axes(const struct op_options *options, const struct shape shapes[], struct merged *merged,
                             struct error *error) {
    (void)options, (void)error;
    int rank = shapes[0].rank;
    for (int axis = 0; axis < rank; axis++) {
        if (axis == 0 || axis >= rank - 2) axes_begin(&merged->in[0]);
        axes_append(&merged->in[0], shapes[0].size[axis], axis);
    }
    merged->out = merged->in[0];
    return STATUS_OK;
}
