/* stream.h - makes a pass over a run's steps with a ring of buffers: reads, uploads, launches, downloads and writes
 * overlap. It knows no particular operation, file or variant. */
#ifndef RUNNER_STREAM_H
#define RUNNER_STREAM_H

#include "../storage/reader.h"
#include "measure.h"

/* Device copies of whole arrays that stay from one run to the next: an input that several variants read, a result that
 * the next operation reads. They count towards the plan's budget and are evicted when a run needs memory. */
struct residents;
/* `budget`: bytes of device memory for residents and runs together. */
struct residents *residents_create(struct device *device, int64_t budget);
void residents_free(struct residents *residents);
/* Frees copies of arrays that neither task number `task` nor a later one reads. `residents` may be NULL. */
void residents_drop_before(struct residents *residents, int task);

/* Devices of one kind that share runs, with the residents of each. The first does the runs that cannot be divided. */
struct team {
    int count;
    struct device *devices[MAX_DEVICES];
    struct residents *residents[MAX_DEVICES];
    bool peers; /* each can copy directly from the memory of all others (enable_peer in device.h) */
};

/* Receives a run's finished output boxes and its progress. */
struct sink {
    /* Called in the order of the steps, always from the same thread: the writer's, or for a run without steps the
     * caller's. */
    enum status (*write)(void *context, const struct box *box, const void *data, struct error *error);
    /* Called after each step, from the caller's thread, with the bytes that it has read and will write; may be NULL. */
    void (*step)(void *context, int64_t bytes);
    void *context;
    struct trace *trace; /* NULL: none */
};

/* Receives each box of an input once, packed, after the box was read and before a kernel could overwrite it; called
 * from the thread that calls stream_run. Boxes that are resident on the device are not read, so they are not
 * reported. */
struct box_observer {
    void (*begin)(void *context); /* called when a pass begins, which reports all boxes anew */
    void (*read)(void *context, int input, const struct box *box, const void *data);
    void *context;
};

/* The arguments of a pass. The readers of the run's inputs must be open. */
struct pass {
    const struct plan *plan;
    const struct run *run;
    const struct tiling *tiling; /* the plan's, or smaller tiles if the device is short of memory */
    struct readers *readers;
    const struct box_observer *observer; /* NULL: none */
    bool profiled;                       /* a profiler records the first launch */
};

struct stage_times {
    double read_s, h2d_s, kernel_s, d2h_s, write_s, total_s;
};

struct stream_result {
    /* Busy seconds of each stage in the pass; total_s is the wall time. With several devices, h2d_s, kernel_s and d2h_s
     * are each the longest time of any device. */
    struct stage_times times;
    int64_t bytes_read, bytes_written;
    int64_t file_bytes; /* bytes read from the inputs' files; of encoded chunks, the stored bytes */
    int devices;        /* number of devices that took part */
};

struct stream; /* the buffers of one run */

/* Makes one pass over all steps. STATUS_OK: `sink` has received the whole output, and the caller frees *stream with
 * stream_free. After an error *stream is NULL; *result is set in any case. STATUS_INTERRUPTED: a signal came between
 * two steps, or while a box was read or written. STATUS_MEMORY: the device has too little memory for these tiles. */
enum status stream_run(const struct team *team, const struct pass *pass, const struct sink *sink,
                       struct stream_result *result, struct stream **stream, struct error *error);
/* Prepares a measurement for measure_kernels, to be called before stream_free: after a pass of a single step its
 * operands are still on the device. false: the pass itself was the only sample, because it had several steps or one
 * sample without warm-up is wanted; measurement->samples has it. */
bool stream_measurement(struct stream *stream, const struct run_options *options, struct measurement *measurement);
/* Frees the run's buffers. With `keep`, the output becomes a resident if all of it is on the device, in the type in
 * which it is stored. */
void stream_free(struct stream *stream, bool keep);

#endif
