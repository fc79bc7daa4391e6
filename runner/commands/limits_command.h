/* limits_command.h - what the commands share of measured limits: those that are kept, and measuring them now. */
#ifndef RUNNER_LIMITS_COMMAND_H
#define RUNNER_LIMITS_COMMAND_H

#include "../base/fail.h"
#include "../plan/plan.h"

/* The limits that are kept of a device for this program; NULL: none. The caller frees with limits_free. */
struct device_limits *command_limits(const struct device_facts *facts);

/* Measures a device (`number` -1: the CPU, else that GPU), says so on stderr with `say`, and keeps the limits for
 * later. Limits that cannot be kept are of use to this process all the same. */
enum status command_measure(const struct device_facts *facts, int number, bool say, struct device_limits **limits,
                            struct error *error);

/* Predicts a plan's times from the limits that are kept of its devices. */
void command_predict(struct plan *plan);
/* The same for a job that is about to run; what is not kept is measured if runs are timed on the device. A device that
 * cannot be measured keeps its assumed limits; only STATUS_INTERRUPTED is a failure. */
enum status command_predict_measured(struct plan *plan, int cuda_number, bool say, struct error *error);

#endif
