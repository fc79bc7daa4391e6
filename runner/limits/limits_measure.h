/* limits_measure.h - measures the limits of a device: the rates of its memory, its arithmetic and its bus, and the
 * speed of each variant. */
#ifndef RUNNER_LIMITS_MEASURE_H
#define RUNNER_LIMITS_MEASURE_H

#include "../stream/device.h"

/* The approximate duration of limits_measure, in seconds. It measures the most informative cases first; cases that it
 * does not reach in this time stay unknown. If the last-level cache has hundreds of MiB, the memory rate takes another
 * half second. */
#define LIMITS_SECONDS 1.4

/* Opens and measures a device: the CPU if `cuda_number` is negative, else that GPU. Skips variants that fail. The
 * caller frees *limits with limits_free. STATUS_INTERRUPTED: a signal came. STATUS_DEVICE: the device failed. */
enum status limits_measure(int cuda_number, struct device_limits **limits, struct error *error);

#endif
