/* limits_command.h - loads, measures and stores the limits of devices. */
#ifndef RUNNER_LIMITS_COMMAND_H
#define RUNNER_LIMITS_COMMAND_H

#include "../base/fail.h"
#include "../plan/plan.h"

/* The stored limits of a device, measured by this build; NULL: none. The caller frees with limits_free. */
struct device_limits *command_limits(const struct device_facts *facts);

/* Measures a device (`number` -1: the CPU, else that GPU) and stores its limits for later runs. If another process has
 * just done so, loads what it stored, unless `again`. `verbose`: reports that on stderr. Fails only if the measurement
 * fails, not if the limits cannot be stored. */
enum status command_measure(const struct device_facts *facts, int number, bool again, bool verbose,
                            struct device_limits **limits, struct error *error);

/* Predicts a plan's times from the stored limits of its devices. */
void command_predict(struct plan *plan);
/* Like command_predict, but for a job that is about to run. Measures a device without stored limits if the job times
 * runs on it. A device that cannot be measured has its assumed limits; only STATUS_INTERRUPTED is a failure. */
enum status command_predict_measured(struct plan *plan, int cuda_number, bool verbose, struct error *error);

#endif
