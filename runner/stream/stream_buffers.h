/* stream_buffers.h - what one run has on its device and in host memory while stream.c and stream_store.c walk its
 * steps. */
#ifndef RUNNER_STREAM_BUFFERS_H
#define RUNNER_STREAM_BUFFERS_H

#include "../../kernels/core/cut.h"
#include "../base/trace.h"
#include "residents.h"

#include <pthread.h>

#define BUFFERS  2 /* of an operand at most, as the plan has it */
#define LAUNCHES 8 /* in flight at most */

/* Work of a stage on its queue between two events, to be timed once it is over. */
struct span {
    struct event *begin, *end;
    enum stage stage;
    int64_t step, bytes;
    bool open; /* recorded, its time not yet collected */
};

struct input {
    struct reader *reader;
    int64_t element; /* bytes */
    int count, current;
    void *memory[BUFFERS];
    struct event *loaded[BUFFERS], *used[BUFFERS]; /* by the last upload into it, by the last launch that read it */
    struct resident *resident;                     /* whose memory this is; NULL: the stream's own */
    bool hashed;                                   /* its hash is taken along as its boxes pass */
};

struct output {
    int64_t element; /* bytes */
    int count, current;
    void *memory[BUFFERS];
    struct event *computed[BUFFERS]; /* the last launch into it */
};

/* A finished tile on its way out. */
struct finished {
    int buffer;
    int64_t step;
    struct box box;
};

/* The writer: a thread that brings finished tiles to the host and hands them to the sink, while the others go on. */
struct store {
    pthread_t thread;
    bool started;
    pthread_mutex_t mutex; /* guards what is below up to `error` */
    pthread_cond_t changed;
    struct finished queue[BUFFERS]; /* a ring */
    int first, pending;             /* the one under way included */
    bool closing;
    struct error error; /* the first failure: from then on tiles are dropped */
    /* The thread's own. */
    struct span downloads[STAGES];
    int64_t next; /* stage */
    double d2h_s, write_s;
    int64_t written; /* bytes */
};

/* A thread that has the kernel's code brought to the device while the first step is loaded. */
struct rehearsal {
    pthread_t thread;
    bool started;
    struct launch launch;
};

struct stream {
    struct device *device;
    struct residents *residents;
    const struct plan *plan;
    const struct run *run;
    const struct tiling *tiling;
    const struct task *task;
    const struct sink *sink;
    struct stream_result result;
    struct input in[MAX_INPUTS];
    struct output out;
    struct store store;
    struct rehearsal rehearsal;
    void *partial, *workspace;
    struct span uploads[STAGES], launches[LAUNCHES];
    int64_t next_upload;  /* stage */
    struct launch launch; /* the latest */
    struct event *epoch;  /* passed when the host's clock said epoch_s */
    double epoch_s;
};

/* Allocates everything but leaves what was allocated before a failure to stream_free. */
enum status stream_open_buffers(struct stream *stream, struct error *error);

/* A piece of a tile between its place in the packed tile and a packed stage, on the queue of that direction. */
enum status stream_copy(struct stream *stream, enum direction direction, const struct box *tile, void *memory,
                        const struct box *piece, void *staged, int64_t element, struct error *error);

/* Begins a span of STAGE_H2D, STAGE_KERNEL or STAGE_D2H on that stage's queue. */
enum status span_begin(struct stream *stream, struct span *span, enum stage stage, int64_t step, int64_t bytes,
                       struct error *error);
/* `asked` says how asking for the work went, and if badly is the result. */
enum status span_end(struct stream *stream, struct span *span, enum status asked, struct error *error);
/* Waits for the end of the span, if one is open, adds its time and tells the trace. */
enum status span_collect(struct stream *stream, struct span *span, int slot, double *seconds, struct error *error);

/* stream_store.c. Begin after the buffers are there; end waits for all that was put, or with `drop` forgets it. */
enum status store_begin(struct stream *stream, struct error *error);
/* Waits until the next output buffer may be written again. */
enum status store_reserve(struct stream *stream, struct error *error);
enum status store_put(struct stream *stream, int buffer, int64_t step, const struct box *box, struct error *error);
enum status store_end(struct stream *stream, bool drop, struct error *error);

#endif
