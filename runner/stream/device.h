/* device.h - the interface of a device: memory, copies, ordered queues, events. device_cuda.c and device_cpu.c
 * implement it; no other code depends on which of them it calls.
 *
 * A device has four queues. Work on one queue runs in order. Work on different queues, and on queues of other devices
 * of the same kind, is ordered by events only. Functions return at once unless their comment says that they wait. */
#ifndef RUNNER_DEVICE_H
#define RUNNER_DEVICE_H

#include "../base/samples.h"
#include "../plan/plan.h"

#include <math.h>

/* QUEUE_PEER is for copies from other devices. */
enum queue { QUEUE_UPLOAD, QUEUE_COMPUTE, QUEUE_DOWNLOAD, QUEUE_PEER, QUEUE_COUNT };

/* A 2-D copy of `rows` rows of `bytes` bytes, which begin to_pitch and from_pitch bytes apart. If both pitches equal
 * `bytes` the copy is contiguous. */
struct copy {
    void *to;
    const void *from;
    int64_t bytes, rows, to_pitch, from_pitch;
};

/* The resources of a multiprocessor that a launch uses, according to the compiled code. If a launch starts several
 * kernels: of the one with the most threads. NaN: unknown. */
struct footprint {
    double registers;    /* for each thread */
    double spill_bytes;  /* local memory of a thread, for values that do not fit into registers */
    double shared_bytes; /* shared memory of a block, static and dynamic */
    double occupancy;    /* the fraction of a multiprocessor's threads that can be resident at the same time, 0 to 1 */
};
#define FOOTPRINT_UNKNOWN ((struct footprint){NAN, NAN, NAN, NAN})

/* "7,8": the descriptors to write commands to perf and to read its answers; unset: perf does not profile. */
#define PERF_CONTROL "TILERUN_PERF_CONTROL"

struct device;
struct event; /* marks a point in a queue's work; may be recorded again */
struct batch; /* several launches of a kernel that one call starts (a CUDA graph) */

struct device_operations {
    void (*close)(struct device *device);
    /* Allocates device memory, 256-byte aligned. STATUS_MEMORY: the device has too little. */
    enum status (*allocate)(struct device *device, int64_t bytes, void **memory, struct error *error);
    void (*release)(struct device *device, void *memory);
    /* Allocates pinned host memory, which copies at full speed. */
    enum status (*allocate_host)(struct device *device, int64_t bytes, void **memory, struct error *error);
    void (*release_host)(struct device *device, void *memory);
    /* Copies on one of the queues for copies: between pinned host memory and this device, or from another device's
     * memory into this one's (QUEUE_PEER). */
    enum status (*copy)(struct device *device, const struct copy *copy, enum queue queue, struct error *error);
    /* Enables direct copies from the other device's memory, without a detour through the host; false: impossible. */
    bool (*enable_peer)(struct device *device, struct device *other);
    /* Sets each byte to `value`, on QUEUE_COMPUTE. */
    enum status (*fill)(struct device *device, void *memory, int value, int64_t bytes, struct error *error);
    /* Sets launch->stream and multiprocessors (on the CPU only if it is 0), and launches the kernel on
     * QUEUE_COMPUTE. The launch or the next wait returns these statuses. STATUS_RUN: the kernel did not start; the
     * device still works. STATUS_INTERRUPTED, STATUS_TIMEOUT: a signal or the deadline came before the queue reached
     * the launch. */
    enum status (*launch)(struct device *device, const struct kernel *kernel, struct launch *launch,
                          struct error *error);
    /* Loads a kernel's code onto the device before its first launch, without running it; one thread at a time. NULL:
     * not needed. It reports no errors; the launch will report them. */
    void (*preload)(struct device *device, const struct kernel *kernel, struct launch *launch);
    /* Prepares `count` consecutive launches of a kernel that batch_launch starts with one call, so that launch overhead
     * on the host does not show in the times. If it returns NULL, or the functions are NULL, launches must be started
     * one by one. */
    struct batch *(*batch_create)(struct device *device, const struct kernel *kernel, struct launch *launch, int count);
    enum status (*batch_launch)(struct device *device, struct batch *batch, struct error *error); /* QUEUE_COMPUTE */
    void (*batch_destroy)(struct device *device, struct batch *batch);
    /* What a launch takes, without running it. The function is NULL if the device cannot tell. */
    struct footprint (*footprint)(struct device *device, const struct kernel *kernel, struct launch *launch);
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
    /* Waits for all queues; then makes a profiler start (`on`) or stop recording. On a CPU the profiler is `perf
     * record`, which is controlled by the descriptors in the environment variable PERF_CONTROL. */
    enum status (*profile)(struct device *device, bool on, struct error *error);
};

struct device {
    const struct device_operations *operations;
    struct device_facts facts;
    bool unified; /* device memory is host memory: operands are read directly into it, without copies */
    /* Reads what may disturb a sample: clock, heat, load. */
    struct sample_conditions (*conditions)(struct device *device);
};

/* The number of CUDA GPUs, without opening one; 0: no driver, no GPU or a build without CUDA. */
int device_cuda_count(void);
/* Read the facts of a device, which need not be open. STATUS_DEVICE: the GPU is missing or fails. */
enum status device_cuda_facts(int number, struct device_facts *facts, struct error *error);
void device_cpu_facts(struct device_facts *facts);
/* Sets the members that describe the host: its threads, and estimates, for predictions only, of the bytes per second
 * that all threads together read from the page cache and write to a file system. */
void device_host_facts(struct device_facts *facts);
/* Open a device, which its operation `close` closes. STATUS_DEVICE: it is missing or fails. */
enum status device_cuda_open(int number, struct device **device, struct error *error);
enum status device_cpu_open(struct device **device, struct error *error);
/* Sets the facts of a GPU for provenance; those that cannot be read stay unknown. */
void device_cuda_provenance(int number, struct device_provenance *provenance);

#endif
