/* stream.h - walks a run's steps over a ring of slots: reads, uploads, launches, downloads and writes, all at the same
 * time. It never names an operation, a file or a variant. */
#ifndef RUNNER_STREAM_H
#define RUNNER_STREAM_H

#include "../storage/reader.h"
#include "measure.h"

/* Device copies of whole arrays that stay from one run to the next: an input that several variants read, a result that
 * the next operation reads. They count against the plan's budget and are evicted when a run's own buffers need room. */
struct residents;
struct residents *residents_create(struct device *device, int64_t budget);
void residents_free(struct residents *residents);
/* Frees copies of arrays that no task from number `task` on reads. `residents` may be NULL. */
void residents_drop_before(struct residents *residents, int task);

/* Devices of one kind that share runs, with the residents of each. The first does what cannot be divided. */
struct team {
    int count;
    struct device *devices[MOST_DEVICES];
    struct residents *residents[MOST_DEVICES];
    bool peers; /* each reaches the memory of all others (device.h) */
};

/* Takes a run's finished output boxes and progress reports. */
struct sink {
    /* Called in the order of the steps, always from one thread, which is not the caller of stream_run. */
    enum status (*write)(void *context, const struct box *box, const void *data, struct error *error);
    /* Called after each step, from the caller's thread, with the bytes it read and will write; may be NULL. */
    void (*step)(void *context, int64_t bytes);
    void *context;
    struct trace *trace; /* NULL: not wanted */
};

/* Sees each box of an input once, packed, when it has been read and before a kernel can have written it; from the
 * thread that calls stream_run. What is on the device already is not seen. */
struct watch {
    void (*begin)(void *context); /* of a pass: what an earlier one has shown comes again */
    void (*seen)(void *context, int input, const struct box *box, const void *data);
    void *context;
};

/* What is streamed: a run, in these tiles, from these readers. The readers of its inputs must be open. */
struct pass {
    const struct plan *plan;
    const struct run *run;
    const struct tiling *tiling; /* the plan's, or smaller tiles if the device is short of memory */
    struct readers *readers;
    const struct watch *watch; /* NULL: not wanted */
};

struct stage_times {
    double read_s, h2d_s, kernel_s, d2h_s, write_s, total_s;
};

struct stream_result {
    /* Busy seconds of each stage of the pass, of the device that was busy longest; total_s is its wall time. */
    struct stage_times times;
    int64_t bytes_read, bytes_written;
    int64_t file_bytes; /* that inputs' files were asked for; of encoded chunks, the stored bytes */
    int devices;        /* of the team, that took part */
};

struct stream; /* the buffers of one run */

/* Makes one pass over all steps. When it returns STATUS_OK, `sink` has received all that the run stores and *stream
 * must be freed with stream_free; else *stream is NULL. STATUS_INTERRUPTED: a signal came between two steps, or while a
 * box was read or written. STATUS_MEMORY: the device lacks memory for these tiles. */
enum status stream_run(const struct team *team, const struct pass *pass, const struct sink *sink,
                       struct stream_result *result, struct stream **stream, struct error *error);
/* Describes how to time the kernel, with measure_kernels, before stream_free: after a pass of a single step its
 * operands are still in place. false: after several steps, or if one sample without warm-up is wanted, the pass itself
 * was the one sample, and measurement->samples has it. */
bool stream_measurement(struct stream *stream, const struct run_options *options, struct measurement *measurement);
/* Frees the run's buffers. With `keep`, an output that is whole on the device, in the
 * type that it is stored in, becomes a resident. */
void stream_free(struct stream *stream, bool keep);

#endif
