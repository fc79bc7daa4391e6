/* reference_map.h - the truth about a map, and how its result's axes are numbered; for this folder only. */
#ifndef KERNELS_MAP_REFERENCE_MAP_H
#define KERNELS_MAP_REFERENCE_MAP_H

#include "../core/operation.h"

/* The arguments of the map's launch for a tile. `result`: the operand that the map's values form, which is the output,
 * or the input of the operation after the map. */
struct map_args map_args_of(const struct geometry *geometry, const struct operand *result, const struct tile *tile,
                            const void *const in[], void *y);
/* Fills `axes` for the axes of the result's array: for each one the loop that it belongs to, counted so that the
 * operand's last axis is loop 2, and its position among the axes that are merged into that loop. */
void map_axes(const struct operand *result, struct map_axis axes[KERNEL_AXES]);

/* Computes the values of a box of geometry->map_result (before.h), in its data type. */
enum status map_values(const struct geometry *geometry, const struct host_reader *reader, const struct box *box,
                       void *data, struct error *error);

/* Do all right programs give the same values, bit for bit? Not if the map has functions such as exp. */
bool map_is_exact(const struct geometry *geometry);
/* A bound of the values that are right for an element: the smallest or largest of them, their largest distance from the
 * true value, or this distance divided by the true value. */
enum map_bound { MAP_SMALLEST, MAP_LARGEST, MAP_DISTANCE, MAP_RELATIVE };
/* Computes such bounds for a box of geometry->map_result. The bound of an element whose right value is NaN is NaN. */
enum status map_bounds(const struct geometry *geometry, const struct host_reader *reader, const struct box *box,
                       enum map_bound bound, double *data, struct error *error);

/* operation->reference of map. If several integers are right for an element, because the value of a function such as
 * exp lies too close to the boundary between them, its truth->overflow is OVERFLOW_ANY. */
enum status map_reference(const struct geometry *geometry, const struct host_reader *reader, const struct box *box,
                          struct truth *truth, struct error *error);

#endif
