/* device.h - what streaming needs of a device: memory, copies, ordered queues, events. device_cuda.c and device_cpu.c
 * implement it; nobody else knows which it is.
 *
 * A device has three queues. Work on one queue happens in the order it was put there; between queues only where an
 * event says so. Calls return at once unless they say that they wait. */
#ifndef RUNNER_DEVICE_H
#define RUNNER_DEVICE_H

#include "../plan/plan.h"

enum queue { QUEUE_UPLOAD, QUEUE_COMPUTE, QUEUE_DOWNLOAD, QUEUE_COUNT };

/* `rows` runs of `bytes` each, so many bytes apart at either end. Where both pitches equal `bytes` it is one run. */
struct copy {
    void *to;
    const void *from;
    int64_t bytes, rows, to_pitch, from_pitch;
};

struct device;
struct event; /* a point in a queue's work; reusable */

struct device_operations {
    void (*close)(struct device *device);
    /* Device memory, 256-byte aligned. STATUS_MEMORY when there is not enough. */
    enum status (*allocate)(struct device *device, int64_t bytes, void **memory, struct error *error);
    void (*release)(struct device *device, void *memory);
    /* Host memory that copies run at full speed from and to (pinned). */
    enum status (*allocate_host)(struct device *device, int64_t bytes, void **memory, struct error *error);
    void (*release_host)(struct device *device, void *memory);
    enum status (*upload)(struct device *device, const struct copy *copy, struct error *error);
    enum status (*download)(struct device *device, const struct copy *copy, struct error *error);
    enum status (*zero)(struct device *device, void *memory, int64_t bytes, struct error *error); /* QUEUE_COMPUTE */
    /* Sets launch->stream and multiprocessors and starts the kernel on QUEUE_COMPUTE. STATUS_RUN, now or at the next
     * wait: the kernel would not start, and the device is as good as before. STATUS_INTERRUPTED likewise: a signal
     * came before the queue had got to it. */
    enum status (*launch)(struct device *device, const struct kernel *kernel, struct launch *launch,
                          struct error *error);
    /* Brings a kernel's code onto the device before its first launch, without running it; from any one thread. NULL: it
     * is there. What fails here will fail again, and be told, when it is launched. */
    void (*rehearse)(struct device *device, const struct kernel *kernel, struct launch *launch);
    /* Evicts the device's cache, on QUEUE_COMPUTE. */
    enum status (*flush_cache)(struct device *device, struct error *error);
    enum status (*event_create)(struct device *device, struct event **event, struct error *error);
    void (*event_destroy)(struct device *device, struct event *event);
    enum status (*event_record)(struct device *device, struct event *event, enum queue queue, struct error *error);
    /* Further work on `queue` waits for the event's last record. An event never recorded counts as passed. */
    enum status (*event_order)(struct device *device, struct event *event, enum queue queue, struct error *error);
    enum status (*event_wait)(struct device *device, struct event *event, struct error *error); /* host waits */
    /* Seconds from one passed event to another. */
    enum status (*event_elapsed)(struct device *device, struct event *from, struct event *to, double *seconds,
                                 struct error *error);
    enum status (*synchronize)(struct device *device, struct error *error); /* host waits for all queues */
};

struct device {
    const struct device_operations *operations;
    struct device_facts facts;
    bool unified; /* device memory is host memory: operands are read straight into place, nothing is copied */
    /* Graphics clock in MHz; NaN where nobody tells. */
    double (*clock_mhz)(struct device *device);
};

/* What is there, without opening it: 0 when there is no driver or no GPU (or the build is CPU-only). */
int device_cuda_count(void);
/* Facts of a device that is there. */
enum status device_cuda_facts(int number, struct device_facts *facts, struct error *error);
void device_cpu_facts(struct device_facts *facts);
/* What all its threads read out of the page cache, and a file system takes; estimates, for predicted bounds only. */
double host_read_bytes_per_s(void);
double host_write_bytes_per_s(void);
/* Opens it. STATUS_DEVICE when it is missing or fails. */
enum status device_cuda_open(int number, struct device **device, struct error *error);
enum status device_cpu_open(struct device **device, struct error *error);
/* For provenance; "" or 0 where unknown. */
struct device_provenance {
    char gpu_uuid[64], driver_version[64], cuda_runtime[32];
    double sm_clock_mhz, memory_clock_mhz, power_limit_w; /* NaN: unknown */
};
void device_cuda_provenance(int number, struct device_provenance *provenance);

#endif
