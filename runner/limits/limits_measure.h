/* limits.h - measures what a device can do: its memory, its arithmetic, its bus, and how fast each variant is. */
#ifndef RUNNER_STREAM_LIMITS_H
#define RUNNER_STREAM_LIMITS_H

#include "../stream/device.h"

/* About how long limits_measure takes, in seconds. What it has not reached by then stays unknown; it begins with what
 * tells most. Where the last-level cache is hundreds of MiB, memory's rate takes half a second more. */
#define LIMITS_SECONDS 1.4

/* Opens a device and measures it: the CPU where `cuda_number` is negative, else that GPU. The caller frees *limits with
 * limits_free. STATUS_INTERRUPTED: a signal came. STATUS_DEVICE: the device fails. A variant that fails is left out. */
enum status limits_measure(int cuda_number, struct device_limits **limits, struct error *error);

#endif
