/* scales.h - copies dimension scales from inputs to a published file. An axis of an output that is an axis of an input
 * gets the scales and the label of that axis.
 *
 *     /outputs/NAME       one copy of each scale of an input, whichever outputs have it; for an input's band of rows,
 *                         that band of the scale. NAME is the scale's own, "NAME_2" if that is taken
 *     /variants/NAME      hard links to these copies, if there are variants' outputs
 *
 * In a file of a `to` (to.h) they lie in its root.
 *
 * netCDF and xarray refuse data sets with scales on some axes only, and scales of another shape than their axis; they
 * take an axis without a scale for another axis that has a scale and the same length. So if a file has a scale,
 * each other axis of an output has netCDF's placeholder, which is named after the axis's label, else "axis_1".
 *
 * Scales are read from the inputs when the file is written. A scale that cannot be read any more is left out, and a
 * line on stderr reports that, so that no result is lost. */
#ifndef RUNNER_SCALES_H
#define RUNNER_SCALES_H

#include "results.h"

struct scales;
/* `group`: where the copies of scales go, such as "/outputs". The caller frees with scales_free. */
struct scales *scales_create(const struct results *results, hid_t file, const char *group);
void scales_free(struct scales *const *pointer);

/* Gives the data set at `path`, which holds `array`, the scales and labels of its axes. */
enum status scales_attach(struct scales *scales, const struct array *array, const char *path, struct error *error);
/* Gives placeholders to outputs without scales, if others have some, and writes into each scale what it was attached
 * to. Call it once, when all outputs are there. */
enum status scales_finish(struct scales *scales, struct error *error);

#endif
