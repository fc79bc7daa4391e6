/* stream_buffers.h - what one run has on its device and in host memory while stream.c walks its steps. */
#ifndef RUNNER_STREAM_BUFFERS_H
#define RUNNER_STREAM_BUFFERS_H

#include "residents.h"

#define BUFFERS     2                   /* of an operand at most, as the plan has it */
#define STAGE_BYTES (INT64_C(32) << 20) /* a stage at most: 0.6 ms on the bus, and cheap to pin */

/* Work on one queue between two events, to be timed once it is over. */
struct span {
    struct event *begin, *end;
    bool open; /* recorded, its time not yet collected */
};

struct input {
    struct array *array;
    int64_t element; /* bytes */
    int count, current;
    void *memory[BUFFERS];
    struct event *loaded[BUFFERS], *used[BUFFERS]; /* by the last upload into it, by the last launch that read it */
    struct resident *resident;                     /* whose memory this is; NULL: the stream's own */
};

struct output {
    int64_t element; /* bytes */
    int count, current;
    void *memory[BUFFERS];
    struct event *computed[BUFFERS]; /* the last launch into it */
};

/* A finished tile on its way out, in pieces. */
struct store {
    int buffer;
    struct box box;
    int64_t total, asked, written; /* elements: of the box, of which a download is queued, of which the sink has */
    struct box pieces[STAGES];
    int pieces_asked, pieces_written;
};

struct stream {
    struct device *device;
    struct residents *residents;
    const struct plan *plan;
    const struct run *run;
    const struct task *task;
    const struct sink *sink;
    struct stream_result result;
    struct input in[2];
    struct output out;
    struct store store;
    void *partial, *workspace;
    struct span uploads[STAGES], downloads[STAGES], launches[BUFFERS];
    int next_upload;      /* stage */
    struct launch launch; /* the latest */
};

/* Allocates everything but leaves what was allocated before a failure to stream_free. */
enum status stream_open_buffers(struct stream *stream, struct error *error);

#endif
