/* poison.h - checks user kernels, which may write too little, too much, or nothing while they are timed.
 * Before a launch its output and the guard zones around it are filled with POISON. A launch that writes only a part
 * leaves poison, and one that writes outside its output changes a zone. After the timed launches the output must equal
 * the verified one. */
#ifndef RUNNER_POISON_H
#define RUNNER_POISON_H

#include "device.h"

#define POISON       0xFF /* NaN as a float, -1 as an integer */
#define POISON_GUARD 4096 /* bytes of a guard zone */

/* The output of the launch of a kernel that is not trusted. */
struct poisoned {
    void *memory;         /* on the device; NULL: the kernel is trusted */
    int64_t bytes;        /* of what the launch writes */
    int64_t buffer_bytes; /* of the buffer, without the guard zones around it */
    enum dtype dtype;
};

/* Is the kernel one whose outputs are poisoned? For other kernels the functions below do nothing. */
bool poison_wanted(const struct kernel *kernel);
/* Fills buffer and guard zones, on QUEUE_COMPUTE. */
enum status poison_fill(struct device *device, const struct poisoned *out, struct error *error);
/* Waits for the device, and looks at what lies around the output. STATUS_RUN: it was written. */
enum status poison_check(struct device *device, const struct poisoned *out, struct error *error);

/* Waits for the device, and copies the output to the host. *copy NULL: the host has no memory for it. The caller
 * frees. */
enum status poison_keep(struct device *device, const struct poisoned *out, void **copy, struct error *error);
/* Waits for the device. STATUS_RUN: the output is not `expected`, up to another order of sums; `expected` NULL: it is
 * not compared. */
enum status poison_compare(struct device *device, const struct poisoned *out, const void *expected,
                           struct error *error);
/* Launches the kernel once more, on changed input, then restores input and output. STATUS_RUN: the result is not that
 * of the operation's simplest variant. Large launches are not replayed, because the simplest variant would take long;
 * nor are launches for whose operands the host lacks memory. */
enum status poison_replay(struct device *device, const struct kernel *kernel, const struct launch *launch,
                          const struct poisoned *out, struct error *error);

#endif
