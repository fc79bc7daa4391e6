/* limits_measure.h - measures the limits of a device: the rates of its memory, its arithmetic and its bus. */
#ifndef RUNNER_LIMITS_MEASURE_H
#define RUNNER_LIMITS_MEASURE_H

#include "../stream/device.h"

/* The approximate duration of limits_measure, in seconds. With a last-level cache of hundreds of MiB, the memory's rate
 * takes another second. */
#define LIMITS_SECONDS 1.4

/* Opens, measures and closes a device: the CPU if `cuda_number` is negative, else that GPU. A limit that cannot be
 * measured stays unknown. The caller frees *limits with limits_free; it is NULL after an error. STATUS_INTERRUPTED: a
 * signal came. STATUS_DEVICE: the device failed or has too little memory. */
enum status limits_measure(int cuda_number, struct device_limits **limits, struct error *error);

#endif
