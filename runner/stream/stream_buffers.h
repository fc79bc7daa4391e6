/* stream_buffers.h - a run's device and host memory, events and threads while stream.c and stream_store.c walk its
 * steps. */
#ifndef RUNNER_STREAM_BUFFERS_H
#define RUNNER_STREAM_BUFFERS_H

#include "../../kernels/core/cut.h"
#include "../base/trace.h"
#include "bands.h"
#include "residents.h"

#include <pthread.h>

#define BUFFERS  2 /* of an operand, at most; the plan decides */
#define LAUNCHES 8 /* in flight, at most */

/* A stage's work on its queue between two events; its time is collected when it is over. */
struct span {
    struct event *begin, *end;
    enum stage stage;
    int64_t step, bytes;
    bool open; /* both events are recorded, the time is not yet collected */
};

struct input {
    struct reader *reader;
    const struct operand *operand;
    int64_t element; /* bytes */
    int count, current;
    bool hashed;  /* its boxes are hashed as they are read */
    bool counted; /* what their conversion loses is counted */
    bool shared;  /* all lanes need the same box of it */
};

struct output {
    int64_t element; /* bytes */
    int count, current;
};

/* One device's part in the run: its buffers, and its own band of each step. */
struct lane_input {
    void *memory[BUFFERS];
    /* After the last upload into it; after its last reading launch; after the last copy into it from another device. */
    struct event *loaded[BUFFERS], *used[BUFFERS], *shared[BUFFERS];
    struct resident *resident; /* owner of the memory; NULL: the lane owns it, or `borrows` */
    bool borrows;              /* on a unified device: the first lane's memory */
};

/* A thread that brings the kernel's code onto the device while the first step is loaded. */
struct preload {
    pthread_t thread;
    bool started;
    struct launch launch;
};

struct lane {
    struct stream *stream;
    int number;
    struct device *device;
    struct residents *residents;
    struct lane_input in[MAX_INPUTS];
    void *out[BUFFERS];
    struct event *computed[BUFFERS]; /* after the last launch into it */
    void *partial, *workspace;
    struct step band;     /* of the step under way */
    bool works;           /* the band is not empty */
    struct launch launch; /* the latest */
    struct span uploads[STAGING_BUFFERS], downloads[STAGING_BUFFERS], launches[LAUNCHES];
    struct preload preload;
    struct event *epoch; /* passed when the host's clock read epoch_s */
    double epoch_s;
    double h2d_s, kernel_s;
    double d2h_s; /* used by the writer alone */
};

/* A finished tile that waits for the writer: a box of each lane that worked. */
struct finished {
    int buffer;
    int64_t step;
    bool works[MOST_DEVICES];
    struct box box[MOST_DEVICES];
};

/* The writer: a thread that brings finished tiles to the host and hands them to the sink. */
struct store {
    pthread_t thread;
    bool started;
    pthread_mutex_t mutex; /* guards the members below, up to `error` */
    pthread_cond_t changed;
    struct finished queue[BUFFERS]; /* a ring */
    int first, pending;             /* pending: tiles in the ring, the one under way included */
    bool closing;
    struct error error; /* the first failure; after it tiles are dropped */
    /* Used by the thread alone. */
    int64_t next; /* number of the next stage, counted without end */
    double write_s;
    int64_t written; /* bytes */
};

struct stream {
    const struct team *team;
    struct bands bands;
    struct lane lanes[MOST_DEVICES]; /* bands.lanes of them */
    const struct plan *plan;
    const struct run *run;
    const struct tiling *tiling;
    const struct task *task;
    const struct sink *sink;
    const struct watch *watch; /* NULL: none */
    struct stream_result result;
    struct input in[MAX_INPUTS];
    struct output out;
    struct store store;
    int64_t next_upload; /* number of the next stage, counted without end */
};

/* The pinned host buffers, which all lanes copy through. */
void *staging_buffer(const struct stream *stream, enum direction direction, int number);

/* Allocates buffers, spans and events. After a failure stream_free frees what was allocated. */
enum status stream_open_buffers(struct stream *stream, struct error *error);

/* Copies a piece of a tile between its place in the packed tile and a packed stage, on the direction's queue. */
enum status stream_copy(struct lane *lane, enum direction direction, const struct box *tile, void *memory,
                        const struct box *piece, void *staged, int64_t element, struct error *error);
/* Copies the piece from the same tile in another lane's memory. */
enum status stream_copy_from_peer(struct lane *lane, const struct box *tile, void *memory, const struct box *piece,
                                  const void *other, int64_t element, struct error *error);

/* Begins a span of STAGE_H2D, STAGE_KERNEL or STAGE_D2H on that stage's queue. */
enum status span_begin(struct lane *lane, struct span *span, enum stage stage, int64_t step, int64_t bytes,
                       struct error *error);
/* Ends a span. `asked` is the status of putting the work into the queue; a failure is returned as it is. */
enum status span_end(struct lane *lane, struct span *span, enum status asked, struct error *error);
/* If the span is open: waits for its end, adds its time to *seconds and reports it to the trace. */
enum status span_collect(struct lane *lane, struct span *span, int slot, double *seconds, struct error *error);

/* stream_store.c. store_begin needs the buffers. store_end waits for all tiles put, or drops them. */
enum status store_begin(struct stream *stream, struct error *error);
/* Waits until the next output buffer is free. */
enum status store_reserve(struct stream *stream, struct error *error);
/* Puts the bands of the step that the lanes have just computed. */
enum status store_put(struct stream *stream, int buffer, int64_t step, struct error *error);
enum status store_end(struct stream *stream, bool drop, struct error *error);

#endif
