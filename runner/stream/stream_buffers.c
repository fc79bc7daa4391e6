/* stream_buffers.c - copies pieces between buffers, times spans of a queue by events; allocates each lane's operand
 * buffers, staging buffers and events before a run's first step, and frees them after its last. */
#include "stream_buffers.h"

#include "poison.h"

#include "../base/clock.h"

#include <stdlib.h>

void *staging_buffer(const struct stream *stream, enum direction direction, int number) {
    return stream->lanes[0].residents->staging[direction][number].memory;
}

/* A piece of a packed tile as one 2-D copy for each matrix. */
struct copies {
    int64_t row, tile_row;   /* bytes of a row of the piece, and of the tile */
    int64_t rows, tile_rows; /* rows of a matrix of the piece, and of the tile */
    int64_t matrices;
    int64_t offset; /* offset of the piece's first element in the tile, in elements */
};

/* Describes the copies of a piece of a tile; both have at most three axes, the last two of them a matrix's. */
static struct copies copies_of(const struct box *tile, const struct box *piece, int64_t element_bytes) {
    int last = tile->rank - 1;
    struct copies copies = {.row = element_bytes, .tile_row = element_bytes, .rows = 1, .tile_rows = 1, .matrices = 1};
    if (last >= 0) copies.row *= piece->count[last], copies.tile_row *= tile->count[last];
    if (last >= 1) copies.rows = piece->count[last - 1], copies.tile_rows = tile->count[last - 1];
    if (last >= 2) copies.matrices = piece->count[0];
    for (int axis = 0; axis <= last; axis++)
        copies.offset = copies.offset * tile->count[axis] + piece->start[axis] - tile->start[axis];
    if (copies.row == copies.tile_row && copies.rows == copies.tile_rows)
        copies.rows *= copies.matrices, copies.matrices = 1; /* whole matrices: one copy */
    return copies;
}

enum status stream_copy(struct lane *lane, enum queue queue, const struct box *tile, void *memory,
                        const struct box *piece, void *other, int64_t element_bytes, struct error *error) {
    struct copies copies = copies_of(tile, piece, element_bytes);
    /* Pieces lie packed in staging buffers; in the other lane's memory they lie as they do in this one's. */
    bool packed = queue != QUEUE_PEER;
    for (int64_t i = 0; i < copies.matrices; i++) {
        int64_t at = copies.offset * element_bytes + i * copies.tile_rows * copies.tile_row;
        char *here = (char *)memory + at, *there = (char *)other + (packed ? i * copies.rows * copies.row : at);
        int64_t pitch = copies.tile_row, other_pitch = packed ? copies.row : pitch;
        struct copy copy = {here, there, copies.row, copies.rows, pitch, other_pitch};
        if (queue == QUEUE_DOWNLOAD) copy = (struct copy){there, here, copies.row, copies.rows, other_pitch, pitch};
        TRY(lane->device->operations->copy(lane->device, &copy, queue, error));
    }
    return STATUS_OK;
}

/* ---- spans ------------------------------------------------------------------------------------------------------ */

static enum queue queue_of(enum stage stage) {
    return stage == STAGE_H2D ? QUEUE_UPLOAD : stage == STAGE_D2H ? QUEUE_DOWNLOAD : QUEUE_COMPUTE;
}

enum status span_begin(struct lane *lane, struct stage_span *span, enum stage stage, int64_t step, int64_t bytes,
                       struct error *error) {
    span->stage = stage;
    span->step = step;
    span->bytes = bytes;
    TRY(lane->device->operations->event_record(lane->device, span->begin, queue_of(stage), error));
    range_begin(stage);
    return STATUS_OK;
}

enum status span_end(struct lane *lane, struct stage_span *span, enum status queued, struct error *error) {
    range_end();
    if (queued) return queued;
    span->open = true;
    return lane->device->operations->event_record(lane->device, span->end, queue_of(span->stage), error);
}

enum status span_collect(struct lane *lane, struct stage_span *span, int slot, double *seconds, struct error *error) {
    struct device *device = lane->device;
    const struct device_operations *ops = device->operations;
    struct trace *trace = lane->stream->sink->trace;
    if (!span->open) return STATUS_OK;
    double elapsed, since = 0;
    TRY(ops->event_wait(device, span->end, error));
    TRY(ops->event_elapsed(device, span->begin, span->end, &elapsed, error));
    *seconds += elapsed;
    span->open = false;
    if (!trace) return STATUS_OK;
    TRY(ops->event_elapsed(device, lane->epoch, span->begin, &since, error));
    double begin = lane->epoch_s + since;
    trace_span(trace, span->stage, lane->number * LAUNCHES + slot, span->step, span->bytes, begin, begin + elapsed);
    return STATUS_OK;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Creates an event, which close_lane destroys. */
static enum status create_event(struct lane *lane, struct event **event, struct error *error) {
    TRY(lane->device->operations->event_create(lane->device, event, error));
    lane->events[lane->event_count++] = *event;
    return STATUS_OK;
}

/* Creates the events of `count` spans. */
static enum status open_spans(struct lane *lane, struct stage_span *spans, int count, struct error *error) {
    for (int i = 0; i < count; i++) {
        TRY(create_event(lane, &spans[i].begin, error));
        TRY(create_event(lane, &spans[i].end, error));
    }
    return STATUS_OK;
}

/* Allocates the buffers of an input. An input with a single buffer has one box in all steps, and becomes a resident. */
static enum status open_input(struct lane *lane, int i, struct error *error) {
    const struct stream *stream = lane->stream;
    const struct input *in = &stream->in[i];
    struct lane_input *lane_input = &lane->in[i];
    int64_t bytes = stream->tiling->in_bytes[i];
    if (in->buffers == 1 && !lane_input->borrows && !lane_input->resident)
        TRY(residents_reserve(lane->residents, in->reader->array, in->operand, &lane->band.load[i], bytes,
                              &lane_input->resident, error));
    for (int b = 0; b < in->buffers; b++) {
        if (lane_input->borrows)
            lane_input->memory[b] = stream->lanes[0].in[i].memory[b];
        else if (lane_input->resident)
            lane_input->memory[b] = lane_input->resident->memory;
        else
            TRY(residents_allocate(lane->residents, bytes, &lane_input->memory[b], error));
        TRY(create_event(lane, &lane_input->loaded[b], error));
        TRY(create_event(lane, &lane_input->used[b], error));
        TRY(create_event(lane, &lane_input->copied_on[b], error));
    }
    if (lane->device->unified || lane->number > 0) return STATUS_OK;
    return residents_reserve_staging(
        lane->residents, UP, plan_staging_bytes(&stream->tiling->in_storage[i], in->element_bytes, bytes), error);
}

/* The bytes of the guard zone before an output buffer, and of the one behind it. */
static int64_t guard_bytes(const struct stream *stream) {
    return poison_wanted(stream->run->kernel) ? POISON_GUARD : 0;
}

/* Allocates the output's buffers, with guard zones around them if the kernel is not trusted. */
static enum status open_output(struct lane *lane, struct error *error) {
    const struct stream *stream = lane->stream;
    const struct output *out = &stream->out;
    int64_t bytes = stream->tiling->out_bytes, guard = guard_bytes(stream);
    for (int b = 0; b < out->buffers; b++) {
        TRY(residents_allocate(lane->residents, bytes + 2 * guard, &lane->out[b], error));
        lane->out[b] = (char *)lane->out[b] + guard;
        TRY(create_event(lane, &lane->computed[b], error));
    }
    if (lane->device->unified || lane->number > 0) return STATUS_OK;
    return residents_reserve_staging(
        lane->residents, DOWN, plan_staging_bytes(&stream->tiling->out_storage, out->element_bytes, bytes), error);
}

/* Finds the residents of a lane, allocates its buffers and events, and records its epoch. */
static enum status open_lane(struct lane *lane, struct error *error) {
    const struct stream *stream = lane->stream;
    const struct tiling *tiling = stream->tiling;
    const struct device_operations *ops = lane->device->operations;
    int inputs = stream->task->geometry.inputs;
    /* Adds a user to each resident that this run reads, before an allocation can evict it. */
    for (int i = 0; i < inputs; i++) {
        const struct input *in = &stream->in[i];
        struct lane_input *lane_input = &lane->in[i];
        lane_input->borrows = in->shared && lane->number > 0 && lane->device->unified;
        if (in->buffers == 1 && !lane_input->borrows)
            lane_input->resident = residents_find(lane->residents, in->reader->array, in->operand, &lane->band.load[i]);
    }
    for (int i = 0; i < inputs; i++) TRY(open_input(lane, i, error));
    TRY(open_output(lane, error));
    if (tiling->partial_bytes > 0)
        TRY(residents_allocate(lane->residents, tiling->partial_bytes, &lane->partial, error));
    if (tiling->workspace_bytes > 0) {
        TRY(residents_allocate(lane->residents, tiling->workspace_bytes, &lane->workspace, error));
        TRY(ops->fill(lane->device, lane->workspace, 0, tiling->workspace_bytes, error));
    }
    TRY(open_spans(lane, lane->uploads, STAGING_BUFFERS, error));
    TRY(open_spans(lane, lane->downloads, STAGING_BUFFERS, error));
    TRY(open_spans(lane, lane->launches, LAUNCHES, error));
    TRY(create_event(lane, &lane->epoch, error));
    TRY(ops->event_record(lane->device, lane->epoch, QUEUE_UPLOAD, error));
    TRY(ops->event_wait(lane->device, lane->epoch, error));
    lane->epoch_s = now_s();
    return STATUS_OK;
}

enum status stream_open_buffers(struct stream *stream, struct error *error) {
    struct step first;
    plan_step(&stream->task->geometry, stream->tiling, 0, &first);
    for (int i = 0; i < stream->bands.lanes; i++) {
        struct lane *lane = &stream->lanes[i];
        lane->works = bands_step_of_lane(&stream->bands, &stream->task->geometry, &first, i, &lane->band);
        TRY(open_lane(lane, error));
    }
    return STATUS_OK;
}

/* ---- closing ----------------------------------------------------------------------------------------------------- */

/* Frees an input's buffers, or leaves its resident. */
static void close_input(struct lane *lane, int i) {
    struct lane_input *lane_input = &lane->in[i];
    for (int b = 0; b < lane->stream->in[i].buffers; b++)
        if (!lane_input->resident && !lane_input->borrows && lane_input->memory[b])
            residents_release(lane->residents, lane_input->memory[b], lane->stream->tiling->in_bytes[i]);
    if (lane_input->resident) residents_leave(lane->residents, lane_input->resident);
}

/* Does the output's buffer hold the whole output, or the lane's whole band? Otherwise it serves several tiles in
 * turn. */
static bool output_is_whole(const struct stream *stream) {
    const struct operand *out = &stream->task->geometry.out;
    for (int axis = 0; axis < out->shape.rank; axis++)
        if (stream->tiling->tiles[out->loop[axis]] > 1) return false;
    return stream->out.buffers == 1;
}

/* Frees the output's buffers; `keep`: makes a resident of one that holds the whole output as it is stored. */
static void close_output(struct lane *lane, bool keep) {
    const struct stream *stream = lane->stream;
    const struct operand *out = &stream->task->geometry.out;
    const struct array *array = &stream->plan->arrays[stream->task->out];
    int64_t bytes = stream->tiling->out_bytes, guard = guard_bytes(stream);
    bool as_stored = array->dtype == out->dtype; /* later runs read the result in the type that it is stored in */
    for (int b = 0; b < stream->out.buffers; b++) {
        if (!lane->out[b]) continue;
        if (keep && guard == 0 && lane->works && output_is_whole(stream) && as_stored)
            residents_adopt(lane->residents, array, out, &lane->band.store, lane->out[b], bytes);
        else
            residents_release(lane->residents, (char *)lane->out[b] - guard, bytes + 2 * guard);
    }
}

static void close_lane(struct lane *lane, bool keep) {
    const struct stream *stream = lane->stream;
    for (int i = 0; i < stream->task->geometry.inputs; i++) close_input(lane, i);
    close_output(lane, keep);
    if (lane->partial) residents_release(lane->residents, lane->partial, stream->tiling->partial_bytes);
    if (lane->workspace) residents_release(lane->residents, lane->workspace, stream->tiling->workspace_bytes);
    for (int i = 0; i < lane->event_count; i++) lane->device->operations->event_destroy(lane->device, lane->events[i]);
}

void stream_free(struct stream *stream, bool keep) {
    if (!stream) return;
    /* No queue of any device may still use the buffers. */
    for (int i = 0; i < stream->bands.lanes; i++)
        stream->lanes[i].device->operations->synchronize(stream->lanes[i].device, IGNORED);
    for (int i = 0; i < stream->bands.lanes; i++) close_lane(&stream->lanes[i], keep);
    free(stream);
}
