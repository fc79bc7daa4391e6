/* stream_buffers.c - a run's operand buffers, stages and events: made before its first step, freed after its last. */
#include "stream_buffers.h"

#include "../base/clock.h"

#include <stdlib.h>

enum status stream_copy(struct stream *stream, enum direction direction, const struct box *tile, void *memory,
                        const struct box *piece, void *staged, int64_t element, struct error *error) {
    int last = tile->rank - 1;
    int64_t row = element, tile_row = element; /* bytes of a row of the piece, of the tile */
    int64_t rows = 1, tile_rows = 1, matrices = 1, offset = 0;
    if (last >= 0) row *= piece->count[last], tile_row *= tile->count[last];
    if (last >= 1) rows = piece->count[last - 1], tile_rows = tile->count[last - 1];
    if (last >= 2) matrices = piece->count[0];
    for (int axis = 0; axis <= last; axis++)
        offset = offset * tile->count[axis] + piece->start[axis] - tile->start[axis];
    if (row == tile_row && rows == tile_rows) rows *= matrices, matrices = 1; /* whole matrices: one run */
    const struct device_operations *ops = stream->device->operations;
    for (int64_t i = 0; i < matrices; i++) {
        char *there = (char *)memory + offset * element + i * tile_rows * tile_row;
        char *here = (char *)staged + i * rows * row;
        struct copy copy = {.bytes = row, .rows = rows};
        if (direction == UP) {
            copy.to = there, copy.to_pitch = tile_row, copy.from = here, copy.from_pitch = row;
            TRY(ops->upload(stream->device, &copy, error));
        } else {
            copy.to = here, copy.to_pitch = row, copy.from = there, copy.from_pitch = tile_row;
            TRY(ops->download(stream->device, &copy, error));
        }
    }
    return STATUS_OK;
}

/* ---- spans ------------------------------------------------------------------------------------------------------ */

static enum queue queue_of(enum stage stage) {
    return stage == STAGE_H2D ? QUEUE_UPLOAD : stage == STAGE_D2H ? QUEUE_DOWNLOAD : QUEUE_COMPUTE;
}

enum status span_begin(struct stream *stream, struct span *span, enum stage stage, int64_t step, int64_t bytes,
                       struct error *error) {
    span->stage = stage;
    span->step = step;
    span->bytes = bytes;
    TRY(stream->device->operations->event_record(stream->device, span->begin, queue_of(stage), error));
    range_begin(stage);
    return STATUS_OK;
}

enum status span_end(struct stream *stream, struct span *span, enum status asked, struct error *error) {
    range_end();
    if (asked) return asked;
    span->open = true;
    return stream->device->operations->event_record(stream->device, span->end, queue_of(span->stage), error);
}

enum status span_collect(struct stream *stream, struct span *span, int slot, double *seconds, struct error *error) {
    struct device *device = stream->device;
    const struct device_operations *ops = device->operations;
    if (!span->open) return STATUS_OK;
    double elapsed, since = 0;
    TRY(ops->event_wait(device, span->end, error));
    TRY(ops->event_elapsed(device, span->begin, span->end, &elapsed, error));
    *seconds += elapsed;
    span->open = false;
    if (!stream->sink->trace) return STATUS_OK;
    TRY(ops->event_elapsed(device, stream->epoch, span->begin, &since, error));
    double begin = stream->epoch_s + since;
    trace_span(stream->sink->trace, span->stage, slot, span->step, span->bytes, begin, begin + elapsed);
    return STATUS_OK;
}

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
    int64_t bytes = stream->tiling->in_bytes[i];
    bool whole = in->count == 1;
    if (whole && !in->resident)
        in->resident = residents_find(stream->residents, in->reader->array); /* made just now for the other input */
    if (whole && !in->resident)
        TRY(residents_reserve(stream->residents, in->reader->array, bytes, &in->resident, error));
    for (int b = 0; b < in->count; b++) {
        if (whole)
            in->memory[b] = in->resident->memory;
        else
            TRY(residents_allocate(stream->residents, bytes, &in->memory[b], error));
        TRY(stream->device->operations->event_create(stream->device, &in->loaded[b], error));
        TRY(stream->device->operations->event_create(stream->device, &in->used[b], error));
    }
    if (stream->device->unified) return STATUS_OK;
    return residents_stage(stream->residents, UP, plan_stage_bytes(&stream->tiling->in_storage[i], in->element, bytes),
                           error);
}

static enum status open_output(struct stream *stream, struct error *error) {
    struct output *out = &stream->out;
    int64_t bytes = stream->tiling->out_bytes;
    for (int b = 0; b < out->count; b++) {
        TRY(residents_allocate(stream->residents, bytes, &out->memory[b], error));
        TRY(stream->device->operations->event_create(stream->device, &out->computed[b], error));
    }
    if (stream->device->unified) return STATUS_OK;
    return residents_stage(stream->residents, DOWN, plan_stage_bytes(&stream->tiling->out_storage, out->element, bytes),
                           error);
}

enum status stream_open_buffers(struct stream *stream, struct error *error) {
    const struct tiling *tiling = stream->tiling;
    int inputs = stream->task->geometry.inputs;
    /* Residents that this run reads get their user before any allocation can evict them. */
    for (int i = 0; i < inputs; i++)
        if (stream->in[i].count == 1)
            stream->in[i].resident = residents_find(stream->residents, stream->in[i].reader->array);
    for (int i = 0; i < inputs; i++) TRY(open_input(stream, i, error));
    TRY(open_output(stream, error));
    if (tiling->partial_bytes > 0)
        TRY(residents_allocate(stream->residents, tiling->partial_bytes, &stream->partial, error));
    if (tiling->workspace_bytes > 0) {
        TRY(residents_allocate(stream->residents, tiling->workspace_bytes, &stream->workspace, error));
        TRY(stream->device->operations->zero(stream->device, stream->workspace, tiling->workspace_bytes, error));
    }
    for (int i = 0; i < STAGES; i++) {
        TRY(open_span(stream, &stream->uploads[i], error));
        TRY(open_span(stream, &stream->store.downloads[i], error));
    }
    for (int i = 0; i < LAUNCHES; i++) TRY(open_span(stream, &stream->launches[i], error));
    const struct device_operations *ops = stream->device->operations;
    TRY(ops->event_create(stream->device, &stream->epoch, error));
    TRY(ops->event_record(stream->device, stream->epoch, QUEUE_UPLOAD, error));
    TRY(ops->event_wait(stream->device, stream->epoch, error));
    stream->epoch_s = now_s();
    return STATUS_OK;
}

static void close_input(struct stream *stream, int i) {
    struct input *in = &stream->in[i];
    const struct device_operations *ops = stream->device->operations;
    for (int b = 0; b < in->count; b++) {
        if (in->loaded[b]) ops->event_destroy(stream->device, in->loaded[b]);
        if (in->used[b]) ops->event_destroy(stream->device, in->used[b]);
        if (!in->resident && in->memory[b])
            residents_release(stream->residents, in->memory[b], stream->tiling->in_bytes[i]);
    }
    if (in->resident) residents_leave(stream->residents, in->resident);
}

/* Does the output's buffer hold all of it? A single one may serve several tiles, one after the other. */
static bool output_is_whole(const struct stream *stream) {
    const struct operand *out = &stream->task->geometry.out;
    for (int axis = 0; axis < out->shape.rank; axis++)
        if (stream->tiling->tiles[out->loop[axis]] > 1) return false;
    return stream->out.count == 1;
}

static void close_output(struct stream *stream, bool keep) {
    struct output *out = &stream->out;
    int64_t bytes = stream->tiling->out_bytes;
    for (int b = 0; b < out->count; b++) {
        if (out->computed[b]) stream->device->operations->event_destroy(stream->device, out->computed[b]);
        if (!out->memory[b]) continue;
        if (keep && output_is_whole(stream))
            residents_adopt(stream->residents, &stream->plan->arrays[stream->task->out], out->memory[b], bytes);
        else
            residents_release(stream->residents, out->memory[b], bytes);
    }
}

void stream_free(struct stream *stream, bool keep) {
    if (!stream) return;
    struct residents *residents = stream->residents;
    struct error ignored = {.status = STATUS_OK};
    /* No work in a queue may still use the buffers. */
    stream->device->operations->synchronize(stream->device, &ignored);
    for (int i = 0; i < stream->task->geometry.inputs; i++) close_input(stream, i);
    close_output(stream, keep);
    if (stream->partial) residents_release(residents, stream->partial, stream->tiling->partial_bytes);
    if (stream->workspace) residents_release(residents, stream->workspace, stream->tiling->workspace_bytes);
    for (int i = 0; i < STAGES; i++) {
        close_span(stream, &stream->uploads[i]);
        close_span(stream, &stream->store.downloads[i]);
    }
    for (int i = 0; i < LAUNCHES; i++) close_span(stream, &stream->launches[i]);
    if (stream->epoch) stream->device->operations->event_destroy(stream->device, stream->epoch);
    free(stream);
}
