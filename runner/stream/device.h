/* device.h - what streaming needs of a device: memory, copies, ordered queues, events. device_cuda.c and device_cpu.c
 * implement it; no other code depends on which of them it calls.
 *
 * A device has four queues. Work on one queue happens in the order in which it was put there. Between queues, those of
 * other devices of the kind too, only events order work. Calls return at once unless their comment says that they
 * wait. */
#ifndef RUNNER_DEVICE_H
#define RUNNER_DEVICE_H

#include "../plan/plan.h"

#include <math.h>

enum queue { QUEUE_UPLOAD, QUEUE_COMPUTE, QUEUE_DOWNLOAD, QUEUE_PEER, QUEUE_COUNT };

/* Copies `rows` runs of `bytes` each; successive runs begin to_pitch and from_pitch bytes apart. If both pitches equal
 * `bytes` the copy is one run. */
struct copy {
    void *to;
    const void *from;
    int64_t bytes, rows, to_pitch, from_pitch;
};

/* Why a device runs slower than it could; bits. */
enum throttle {
    THROTTLE_POWER = 1, /* to stay within its power limit */
    THROTTLE_HEAT = 2,  /* because of its temperature */
    THROTTLE_OTHER = 4, /* because of its power supply, or for another reason of the hardware */
};
/* What a device is like now; unknown numbers are NaN. */
struct conditions {
    float clock_mhz, power_w, temperature_c; /* graphics clock */
    unsigned throttle;                       /* enum throttle */
};
#define CONDITIONS_UNKNOWN ((struct conditions){NAN, NAN, NAN, 0})

struct device;
struct event; /* a point in a queue's work; reusable */
struct batch; /* launches of one kernel that are started together */

struct device_operations {
    void (*close)(struct device *device);
    /* Device memory, 256-byte aligned. STATUS_MEMORY: there is not enough. */
    enum status (*allocate)(struct device *device, int64_t bytes, void **memory, struct error *error);
    void (*release)(struct device *device, void *memory);
    /* Pinned host memory, from and to which copies run at full speed. */
    enum status (*allocate_host)(struct device *device, int64_t bytes, void **memory, struct error *error);
    void (*release_host)(struct device *device, void *memory);
    enum status (*upload)(struct device *device, const struct copy *copy, struct error *error);
    enum status (*download)(struct device *device, const struct copy *copy, struct error *error);
    /* Copies from the memory of another device into this one's, on QUEUE_PEER. */
    enum status (*copy_from_peer)(struct device *device, const struct copy *copy, struct error *error);
    /* Lets `share` read the other device's memory without passing through the host's; false: it cannot. */
    bool (*enable_peer)(struct device *device, struct device *other);
    enum status (*zero)(struct device *device, void *memory, int64_t bytes, struct error *error); /* QUEUE_COMPUTE */
    /* Sets launch->stream and multiprocessors and starts the kernel on QUEUE_COMPUTE. STATUS_RUN, now or at the next
     * wait: the kernel did not start, and the device still works. STATUS_INTERRUPTED, likewise: a signal came before
     * the queue reached the launch. */
    enum status (*launch)(struct device *device, const struct kernel *kernel, struct launch *launch,
                          struct error *error);
    /* Brings a kernel's code onto the device before its first launch, without running it; from one thread at a time.
     * NULL: the device needs no such call. An error here is not reported: it comes again at the launch. */
    void (*preload)(struct device *device, const struct kernel *kernel, struct launch *launch);
    /* Prepares `count` launches of a kernel, one after the other, to be started by one call, so that the host's time
     * for each launch does not count. NULL, also for the functions: they can only be launched one by one. */
    struct batch *(*batch_create)(struct device *device, const struct kernel *kernel, struct launch *launch, int count);
    enum status (*batch_launch)(struct device *device, struct batch *batch, struct error *error); /* QUEUE_COMPUTE */
    void (*batch_destroy)(struct device *device, struct batch *batch);
    /* Evicts everything from the device's cache, on QUEUE_COMPUTE. */
    enum status (*flush_cache)(struct device *device, struct error *error);
    enum status (*event_create)(struct device *device, struct event **event, struct error *error);
    void (*event_destroy)(struct device *device, struct event *event);
    enum status (*event_record)(struct device *device, struct event *event, enum queue queue, struct error *error);
    /* Later work on this device's `queue` waits for the latest record of the event, which may be another device's. An
     * event that was never recorded counts as passed. */
    enum status (*queue_wait_event)(struct device *device, struct event *event, enum queue queue, struct error *error);
    enum status (*event_wait)(struct device *device, struct event *event, struct error *error); /* the host waits */
    /* Seconds from one event to another; both must have passed. */
    enum status (*event_elapsed)(struct device *device, struct event *from, struct event *to, double *seconds,
                                 struct error *error);
    enum status (*synchronize)(struct device *device, struct error *error); /* the host waits for all queues */
};

struct device {
    const struct device_operations *operations;
    struct device_facts facts;
    bool unified; /* device memory is host memory: operands are read straight into place, nothing is copied */
    struct conditions (*conditions)(struct device *device);
};

/* Number of CUDA GPUs, counted without opening one; 0: no driver, no GPU or a build without CUDA. */
int device_cuda_count(void);
/* Facts of a device, which need not be open. STATUS_DEVICE: there is no such GPU, or it fails. */
enum status device_cuda_facts(int number, struct device_facts *facts, struct error *error);
void device_cpu_facts(struct device_facts *facts);
/* Estimates for predictions only: bytes per second that all threads together read from the page cache, and that a file
 * system takes. */
double host_read_bytes_per_s(void);
double host_write_bytes_per_s(void);
/* Opens a device. STATUS_DEVICE: it is missing or fails. */
enum status device_cuda_open(int number, struct device **device, struct error *error);
enum status device_cpu_open(struct device **device, struct error *error);
void device_cuda_provenance(int number, struct device_provenance *provenance);

#endif
