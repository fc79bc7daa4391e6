/* facts.h - stores the facts about a device that a plan depends on, as attributes in a file, so that another process
 * makes the same plan.
 *
 *     /devices/cpu, /devices/cuda     a group for each device that the job could use */
#ifndef RUNNER_FACTS_H
#define RUNNER_FACTS_H

#include "../plan/plan.h"
#include "../storage/h5/h5io.h"

/* Writes the facts into an open file. */
enum status facts_write(hid_t file, const struct device_facts *facts, struct error *error);
/* Reads the facts of a kind of device. false: the file lacks them, because the job could not use such a device. */
bool facts_read(hid_t file, enum kernel_device kind, struct device_facts *facts);

#endif
