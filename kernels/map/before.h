/* before.h - geometry, launch and reference of any operation: also of one whose only input is the values of a map, such
 * as a reduction of abs(A - B). These values exist for one tile at a time, in the workspace of a launch; in a variant
 * that fuses the map, only in registers.
 *
 * If there is such a map before the operation, the inputs in the geometry are the map's inputs, and
 * geometry->map_result is the operation's own input. */
#ifndef KERNELS_BEFORE_H
#define KERNELS_BEFORE_H

#include "../core/operation.h"

/* Does a map come before the geometry's operation? */
bool has_map_before(const struct geometry *geometry);
/* The first input of the operation itself: the map's result, if there is a map before it. */
const struct operand *first_operand(const struct geometry *geometry);

/* Like geometry_make (axes.h). If a map comes before the operation, `shapes` and `dtypes` describe the map's inputs. */
enum status operation_geometry(enum op op, const struct op_options *options, const struct shape shapes[],
                               const enum dtype dtypes[], struct geometry *geometry, struct error *error);

/* operation->launch and operation->reference; `in` and the reader are of the map's inputs, if there is a map. */
void operation_launch(const struct geometry *geometry, const struct tile *tile, bool first, bool last,
                      const void *const in[], void *partial, void *out, struct launch *launch);
enum status operation_reference(const struct geometry *geometry, const struct host_reader *reader,
                                const struct box *box, struct truth *truth, struct error *error);

/* Like kernel_refusal, also for the map before the operation. */
const char *launch_refusal(const struct kernel *kernel, const struct launch *launch);
/* Launches the map before the operation, if the kernel does not fuse it, then the kernel. Returns 0 or an error of
 * kernel->launch. */
int kernel_launch(const struct kernel *kernel, const struct launch *launch);
/* Bytes that the map's values of a launch need, at `launch->before.y`; 0: there is no map before it, or it is fused. */
int64_t mapped_bytes(const struct kernel *kernel, const struct launch *launch);

#endif
