/* stream_buffers.c - a run's operand buffers, stages and events: made before its first step, released
 * after its last. */
#include "stream_buffers.h"

#include <stdlib.h>

static enum status open_span(struct stream *stream, struct span *span, struct error *error) {
    TRY(stream->device->operations->event_create(stream->device, &span->begin, error));
    return stream->device->operations->event_create(stream->device, &span->end, error);
}

static void close_span(struct stream *stream, struct span *span) {
    if (span->begin) stream->device->operations->event_destroy(stream->device, span->begin);
    if (span->end) stream->device->operations->event_destroy(stream->device, span->end);
}

static enum status open_input(struct stream *stream, int i, struct error *error) {
    struct input *in = &stream->in[i];
    int64_t bytes = stream->run->in_bytes[i];
    bool whole = in->count == 1;
    if (whole && !in->resident)
        in->resident = residents_find(stream->residents, in->array); /* new: the other input's */
    if (whole && !in->resident) TRY(residents_reserve(stream->residents, in->array, bytes, &in->resident, error));
    for (int b = 0; b < in->count; b++) {
        if (whole)
            in->memory[b] = in->resident->memory;
        else
            TRY(residents_allocate(stream->residents, bytes, &in->memory[b], error));
        TRY(stream->device->operations->event_create(stream->device, &in->loaded[b], error));
        TRY(stream->device->operations->event_create(stream->device, &in->used[b], error));
    }
    if (stream->device->unified) return STATUS_OK;
    return residents_stage(stream->residents, UP, bytes < STAGE_BYTES ? bytes : STAGE_BYTES, error);
}

static enum status open_output(struct stream *stream, struct error *error) {
    struct output *out = &stream->out;
    int64_t bytes = stream->run->out_bytes;
    for (int b = 0; b < out->count; b++) {
        TRY(residents_allocate(stream->residents, bytes, &out->memory[b], error));
        TRY(stream->device->operations->event_create(stream->device, &out->computed[b], error));
    }
    if (stream->device->unified) return STATUS_OK;
    return residents_stage(stream->residents, DOWN, bytes < STAGE_BYTES ? bytes : STAGE_BYTES, error);
}

enum status stream_open_buffers(struct stream *stream, struct error *error) {
    const struct run *run = stream->run;
    int inputs = stream->task->geometry.inputs;
    /* Residents that this run reads get their user before any room is made. */
    for (int i = 0; i < inputs; i++)
        if (stream->in[i].count == 1) stream->in[i].resident = residents_find(stream->residents, stream->in[i].array);
    for (int i = 0; i < inputs; i++) TRY(open_input(stream, i, error));
    TRY(open_output(stream, error));
    if (run->partial_bytes > 0) TRY(residents_allocate(stream->residents, run->partial_bytes, &stream->partial, error));
    if (run->workspace_bytes > 0) {
        TRY(residents_allocate(stream->residents, run->workspace_bytes, &stream->workspace, error));
        TRY(stream->device->operations->zero(stream->device, stream->workspace, run->workspace_bytes, error));
    }
    for (int i = 0; i < STAGES; i++) {
        TRY(open_span(stream, &stream->uploads[i], error));
        TRY(open_span(stream, &stream->downloads[i], error));
    }
    for (int i = 0; i < BUFFERS; i++) TRY(open_span(stream, &stream->launches[i], error));
    return STATUS_OK;
}

static void close_input(struct stream *stream, int i) {
    struct input *in = &stream->in[i];
    const struct device_operations *ops = stream->device->operations;
    for (int b = 0; b < in->count; b++) {
        if (in->loaded[b]) ops->event_destroy(stream->device, in->loaded[b]);
        if (in->used[b]) ops->event_destroy(stream->device, in->used[b]);
        if (!in->resident && in->memory[b])
            residents_release(stream->residents, in->memory[b], stream->run->in_bytes[i]);
    }
    if (in->resident) residents_leave(stream->residents, in->resident);
}

static void close_output(struct stream *stream, bool keep) {
    struct output *out = &stream->out;
    int64_t bytes = stream->run->out_bytes;
    for (int b = 0; b < out->count; b++) {
        if (out->computed[b]) stream->device->operations->event_destroy(stream->device, out->computed[b]);
        if (!out->memory[b]) continue;
        if (keep && out->count == 1)
            residents_adopt(stream->residents, &stream->plan->arrays[stream->task->out], out->memory[b], bytes);
        else
            residents_release(stream->residents, out->memory[b], bytes);
    }
}

void stream_free(struct stream *stream, bool keep) {
    if (!stream) return;
    struct residents *residents = stream->residents;
    struct error ignored = {.status = STATUS_OK};
    /* Nothing in a queue may still use the buffers. */
    stream->device->operations->synchronize(stream->device, &ignored);
    for (int i = 0; i < stream->task->geometry.inputs; i++) close_input(stream, i);
    close_output(stream, keep);
    if (stream->partial) residents_release(residents, stream->partial, stream->run->partial_bytes);
    if (stream->workspace) residents_release(residents, stream->workspace, stream->run->workspace_bytes);
    for (int i = 0; i < STAGES; i++) {
        close_span(stream, &stream->uploads[i]);
        close_span(stream, &stream->downloads[i]);
    }
    for (int i = 0; i < BUFFERS; i++) close_span(stream, &stream->launches[i]);
    free(stream);
}
