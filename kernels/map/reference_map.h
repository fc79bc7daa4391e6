/* reference_map.h - the truth about a map, and how its result's axes are numbered; for this folder only. */
#ifndef KERNELS_MAP_REFERENCE_MAP_H
#define KERNELS_MAP_REFERENCE_MAP_H

#include "../core/operation.h"

/* The arguments of the map's launch for a tile. `result`: the operand that holds the map's values: the output, or
 * the input of the operation that follows the map. */
struct map_args map_args_of(const struct geometry *geometry, const struct operand *result, const struct tile *tile,
                            const void *const in[], void *y);
/* Fills `axes` for the axes of the result's array: for each one the loop that it belongs to, counted so that the
 * operand's last axis is loop 2, and its position among the axes that are merged into that loop. */
void map_axes(const struct operand *result, struct map_axis axes[KERNEL_AXES]);

/* Computes the values of a box of geometry->mapped (before.h), in its data type. */
enum status map_values(const struct geometry *geometry, const struct host_reader *reader, const struct box *box,
                       void *data, struct error *error);

/* Do all right programs give the same values, bit for bit? Not if the map has functions such as exp. */
bool map_is_exact(const struct geometry *geometry);
/* A bound of such values: the least or greatest right value, or its distance from the truth, also relative to it. */
enum map_bound { MAP_LEAST, MAP_GREATEST, MAP_DISTANCE, MAP_RELATIVE };
/* Computes bounds of a box of geometry->mapped; NaN where a right value is. */
enum status map_bounds(const struct geometry *geometry, const struct host_reader *reader, const struct box *box,
                       enum map_bound bound, double *data, struct error *error);

/* operation->reference of map. For integer results it also sets truth->overflow to OVERFLOW_ANY where several
 * results are right, because the value of a function such as exp lies too close to a boundary between them. */
enum status map_reference(const struct geometry *geometry, const struct host_reader *reader, const struct box *box,
                          struct truth *truth, struct error *error);

#endif
