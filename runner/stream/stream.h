/* stream.h - walks a run's steps over a ring of slots: read, upload, launch, download, write, each while the others go
 * on. It never names an operation, a file or a variant. */
#ifndef RUNNER_STREAM_H
#define RUNNER_STREAM_H

#include "../storage/reader.h"
#include "device.h"
#include "measure.h"

/* Device copies of whole arrays that stay from one run to the next: an input that several variants read, a result that
 * the next operation reads. They count against the plan's budget and give way to a run's own buffers. */
struct residents;
struct residents *residents_create(struct device *device, int64_t budget);
void residents_free(struct residents *residents);
/* Gives up copies of arrays that no task from number `task` on reads. `residents` may be NULL. */
void residents_drop_before(struct residents *residents, int task);

/* Where a run's finished output boxes go, and who hears of it. */
struct sink {
    /* In the order of the steps, all from one thread, which is not the one that called stream_run. */
    enum status (*write)(void *context, const struct box *box, const void *data, struct error *error);
    /* After each step, with the bytes that it read and will write, from the caller's thread; may be NULL. */
    void (*step)(void *context, int64_t bytes);
    void *context;
    struct trace *trace; /* NULL: nobody wants it */
};

/* What is streamed: a run, in these tiles, from these readers, of which its inputs' are open. */
struct pass {
    const struct plan *plan;
    const struct run *run;
    const struct tiling *tiling; /* the plan's, or smaller ones where the device is short of memory */
    struct readers *readers;
};

struct stage_times {
    double read_s, h2d_s, kernel_s, d2h_s, write_s, total_s;
};

struct stream_result {
    struct stage_times times; /* busy seconds of each stage of the pass; total_s is its wall time */
    int64_t bytes_read, bytes_written;
};

struct stream; /* the buffers of one run, while it lasts */

/* One pass over all steps: everything the run stores has been handed to `sink` when it returns. STATUS_INTERRUPTED: a
 * signal came between two steps, or on the way of a box in or out. */
enum status stream_run(struct device *device, struct residents *residents, const struct pass *pass,
                       const struct sink *sink, struct stream_result *result, struct stream **stream,
                       struct error *error);
/* After a pass of a single step, whose operands are still in place: times the kernel alone. For several steps, or where
 * no more than one sample is wanted, the pass itself is the one sample. */
enum status stream_measure(struct stream *stream, const struct run_options *options, struct samples *samples,
                           struct error *error);
/* Releases the run's buffers. With `keep`, a whole output that lies on the device becomes a resident. */
void stream_free(struct stream *stream, bool keep);

#endif
