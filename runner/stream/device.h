/* device.h - the interface of a device: memory, copies, ordered queues, events. device_cuda.c and device_cpu.c
 * implement it; no other code depends on which of them it calls.
 *
 * A device has four queues. Work on one queue runs in order. Work on different queues, and on queues of other devices
 * of the same kind, is ordered by events only. Functions return at once unless their comment says that they wait. */
#ifndef RUNNER_DEVICE_H
#define RUNNER_DEVICE_H

#include "../plan/plan.h"

#include <math.h>

enum queue { QUEUE_UPLOAD, QUEUE_COMPUTE, QUEUE_DOWNLOAD, QUEUE_PEER, QUEUE_COUNT };

/* A 2-D copy of `rows` rows of `bytes` bytes, which begin to_pitch and from_pitch bytes apart. If both pitches equal
 * `bytes` the copy is contiguous. */
struct copy {
    void *to;
    const void *from;
    int64_t bytes, rows, to_pitch, from_pitch;
};

/* Why a device has lowered its clock; bits. */
enum throttle {
    THROTTLE_POWER = 1, /* to stay within its power limit */
    THROTTLE_HEAT = 2,  /* because of its temperature */
    THROTTLE_OTHER = 4, /* because of its power supply, or for another hardware reason */
};
/* A device's clock, power and temperature at a moment; unknown numbers are NaN. */
struct conditions {
    float clock_mhz, power_w, temperature_c; /* graphics clock */
    unsigned throttle;                       /* enum throttle */
};
#define CONDITIONS_UNKNOWN ((struct conditions){NAN, NAN, NAN, 0})

struct device;
struct event; /* a point in a queue's work; reusable */
struct batch; /* launches of one kernel that start with one call: a CUDA graph */

struct device_operations {
    void (*close)(struct device *device);
    /* Device memory, 256-byte aligned. STATUS_MEMORY: there is not enough. */
    enum status (*allocate)(struct device *device, int64_t bytes, void **memory, struct error *error);
    void (*release)(struct device *device, void *memory);
    /* Allocates pinned host memory, which copies at full speed. */
    enum status (*allocate_host)(struct device *device, int64_t bytes, void **memory, struct error *error);
    void (*release_host)(struct device *device, void *memory);
    enum status (*upload)(struct device *device, const struct copy *copy, struct error *error);
    enum status (*download)(struct device *device, const struct copy *copy, struct error *error);
    /* Copies from the memory of another device into this one's, on QUEUE_PEER. */
    enum status (*copy_from_peer)(struct device *device, const struct copy *copy, struct error *error);
    /* Enables direct copies from the other device's memory, without a detour through the host; false: impossible. */
    bool (*enable_peer)(struct device *device, struct device *other);
    enum status (*zero)(struct device *device, void *memory, int64_t bytes, struct error *error); /* QUEUE_COMPUTE */
    /* Sets launch->stream and multiprocessors, and launches the kernel on QUEUE_COMPUTE. These statuses may come at
     * once or from the next wait. STATUS_RUN: the kernel did not start; the device still works. STATUS_INTERRUPTED: a
     * signal came before the queue reached the launch. */
    enum status (*launch)(struct device *device, const struct kernel *kernel, struct launch *launch,
                          struct error *error);
    /* Loads a kernel's code onto the device before its first launch, without running it; one thread at a time. NULL:
     * not needed. It reports no errors: they come again at the launch. */
    void (*preload)(struct device *device, const struct kernel *kernel, struct launch *launch);
    /* Prepares `count` consecutive launches of a kernel that batch_launch starts with one call, so that launch overhead
     * on the host does not show in the times. Returns NULL, or the functions are NULL: launches are only possible one
     * by one. */
    struct batch *(*batch_create)(struct device *device, const struct kernel *kernel, struct launch *launch, int count);
    enum status (*batch_launch)(struct device *device, struct batch *batch, struct error *error); /* QUEUE_COMPUTE */
    void (*batch_destroy)(struct device *device, struct batch *batch);
    /* Evicts all data from the device's cache, on QUEUE_COMPUTE. */
    enum status (*flush_cache)(struct device *device, struct error *error);
    enum status (*event_create)(struct device *device, struct event **event, struct error *error);
    void (*event_destroy)(struct device *device, struct event *event);
    enum status (*event_record)(struct device *device, struct event *event, enum queue queue, struct error *error);
    /* Makes later work on this device's `queue` wait for the latest record of the event, which may be another device's.
     * An event that was never recorded counts as passed. */
    enum status (*queue_wait_event)(struct device *device, struct event *event, enum queue queue, struct error *error);
    enum status (*event_wait)(struct device *device, struct event *event,
                              struct error *error); /* waits until the event has passed */
    /* Seconds from one event to another; both must have passed. */
    enum status (*event_elapsed)(struct device *device, struct event *from, struct event *to, double *seconds,
                                 struct error *error);
    enum status (*synchronize)(struct device *device, struct error *error); /* waits for all queues */
};

struct device {
    const struct device_operations *operations;
    struct device_facts facts;
    bool unified; /* device memory is host memory: operands are read directly into it, without copies */
    struct conditions (*conditions)(struct device *device);
};

/* The number of CUDA GPUs, without opening one; 0: no driver, no GPU or a build without CUDA. */
int device_cuda_count(void);
/* Facts of a device, which need not be open. STATUS_DEVICE: there is no such GPU, or it fails. */
enum status device_cuda_facts(int number, struct device_facts *facts, struct error *error);
void device_cpu_facts(struct device_facts *facts);
/* Estimates for predictions only: the bytes per second that all threads together read from the page cache, and write to
 * a file system. */
double host_read_bytes_per_s(void);
double host_write_bytes_per_s(void);
/* Opens a device. STATUS_DEVICE: it is missing or fails. */
enum status device_cuda_open(int number, struct device **device, struct error *error);
enum status device_cpu_open(struct device **device, struct error *error);
void device_cuda_provenance(int number, struct device_provenance *provenance);

#endif
