/* stream_buffers.h - the state of a stream: a run's device and host memory, events and threads. For stream.c,
 * stream_buffers.c and stream_writer.c only. */
#ifndef RUNNER_STREAM_BUFFERS_H
#define RUNNER_STREAM_BUFFERS_H

#include "../../kernels/core/cut.h"
#include "../base/trace.h"
#include "bands.h"
#include "residents.h"

#include <pthread.h>

#define BUFFERS  2 /* maximum for an operand; the plan chooses */
#define LAUNCHES 8 /* maximum in flight */
#define SPANS    (2 * STAGING_BUFFERS + LAUNCHES)
/* The events of a lane: three for each buffer of an input, one for each buffer of the output, two for each span, and
 * the epoch. */
#define EVENTS (MAX_INPUTS * BUFFERS * 3 + BUFFERS + 2 * SPANS + 1)

/* Work of a stage on its queue, between two events. Its time is collected when the work is done. */
struct stage_span {
    struct event *begin, *end;
    enum stage stage;
    int64_t step, bytes;
    bool open; /* both events are recorded, the time is not yet collected */
};

struct input {
    struct reader *reader;
    const struct operand *operand;
    int64_t element_bytes; /* bytes of an element */
    int buffers, current;  /* number of buffers; index of the current one */
    bool hashed;           /* each box is hashed when it is read */
    bool counted;          /* elements that the type conversion changes are counted */
    bool shared;           /* all lanes need its whole box */
};

struct output {
    int64_t element_bytes; /* bytes of an element */
    int buffers, current;
};

/* A lane's buffers of one input, and events for each buffer. */
struct lane_input {
    void *memory[BUFFERS];
    struct event *loaded[BUFFERS];    /* recorded after the last upload into the buffer */
    struct event *used[BUFFERS];      /* recorded after the last launch that reads it */
    struct event *copied_on[BUFFERS]; /* recorded after the last copy into it from another device */
    struct resident *resident;        /* owns the memory; NULL: the lane owns it, or `borrows` */
    bool borrows;                     /* uses the first lane's memory, on a unified device */
};

/* A thread that loads the kernel's code onto the device while the first step is read. */
struct preload {
    pthread_t thread;
    bool started;
    struct launch launch;
};

/* One device's share of the run: its buffers, events and band of each step. */
struct lane {
    struct stream *stream;
    int number;
    struct device *device;
    struct residents *residents;
    struct lane_input in[MAX_INPUTS];
    void *out[BUFFERS];
    struct event *computed[BUFFERS]; /* recorded after the last launch that writes the buffer */
    void *partial, *workspace;
    struct step band;     /* its band of the current step */
    bool works;           /* the band is not empty */
    struct launch launch; /* the latest launch */
    struct stage_span uploads[STAGING_BUFFERS], downloads[STAGING_BUFFERS], launches[LAUNCHES];
    struct preload preload;
    struct event *events[EVENTS]; /* all events that were created for the lane */
    int event_count;
    struct event *epoch; /* passed at time epoch_s of now_s(): maps device times to host times */
    double epoch_s;
    double h2d_s, kernel_s;
    double d2h_s; /* only the writer uses it */
};

/* A finished tile in the writer's queue: a box for each lane that has a band. */
struct finished {
    int buffer;
    int64_t step;
    bool works[MAX_DEVICES];
    struct box box[MAX_DEVICES];
};

/* The writer: a thread that downloads finished tiles and passes them to the sink. */
struct writer {
    pthread_t thread;
    bool started;
    pthread_mutex_t mutex; /* guards the members below, up to `error` */
    pthread_cond_t changed;
    struct finished queue[BUFFERS]; /* a ring buffer */
    int first, pending;             /* pending: number of tiles in the ring, including the one being written */
    bool closing;
    struct error error; /* the first failure; later tiles are dropped */
    /* Only the writer's thread uses the members below. */
    int64_t next; /* running number of the next staging buffer, modulo STAGING_BUFFERS its index */
    double write_s;
    int64_t written; /* bytes written */
};

struct stream {
    const struct team *team;
    struct bands bands;
    struct lane lanes[MAX_DEVICES]; /* bands.lanes of them */
    const struct plan *plan;
    const struct run *run;
    const struct tiling *tiling;
    const struct task *task;
    const struct sink *sink;
    const struct box_observer *observer; /* NULL: none */
    bool profiled;                       /* as in struct pass */
    struct stream_result result;
    struct input in[MAX_INPUTS];
    struct output out;
    struct writer writer;
    int64_t next_upload; /* running number of the next staging buffer */
};

/* A staging buffer; all lanes use the same ones. */
void *staging_buffer(const struct stream *stream, enum direction direction, int number);

/* Allocates buffers, spans and events. After a failure stream_free frees what was allocated. */
enum status stream_open_buffers(struct stream *stream, struct error *error);

/* Copies a piece of a tile whose packed elements are in the lane's `memory`: on QUEUE_UPLOAD from the staging buffer
 * `other`, on QUEUE_DOWNLOAD to it, and on QUEUE_PEER from the same tile in another lane's memory `other`. */
enum status stream_copy(struct lane *lane, enum queue queue, const struct box *tile, void *memory,
                        const struct box *piece, void *other, int64_t element_bytes, struct error *error);

/* Begins a span of STAGE_H2D, STAGE_KERNEL or STAGE_D2H on that stage's queue. */
enum status span_begin(struct lane *lane, struct stage_span *span, enum stage stage, int64_t step, int64_t bytes,
                       struct error *error);
/* Ends a span. `queued`: the status of queueing the work; if that failed, returns it. */
enum status span_end(struct lane *lane, struct stage_span *span, enum status queued, struct error *error);
/* If the span is open: waits for its end, adds its time to *seconds and reports it to the trace. */
enum status span_collect(struct lane *lane, struct stage_span *span, int slot, double *seconds, struct error *error);

/* The writer (stream_writer.c). Starts its thread if there are several steps; the buffers must be open. */
enum status writer_begin(struct stream *stream, struct error *error);
/* Waits until the next output buffer is free. This function and the next two also return a failure of the writer. */
enum status writer_reserve(struct stream *stream, struct error *error);
/* Queues the bands of the step that the lanes have just computed; without a thread, writes them. */
enum status writer_put(struct stream *stream, int buffer, int64_t step, struct error *error);
/* Waits until all queued tiles are written, or with `drop` discards them; then ends the thread. */
enum status writer_end(struct stream *stream, bool drop, struct error *error);

#endif
