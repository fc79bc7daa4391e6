/* stream.c - one pass over a run's steps, with all stages at work at once: on the device's three queues, on this thread
 * and on the writer's (stream_store.c).
 *
 *     rehearsal       brings the kernel's code onto the device during the first loads
 *     this thread     read step i+1 into a stage, on all cores
 *     QUEUE_UPLOAD    stage -> operand buffer of step i+1
 *     QUEUE_COMPUTE   launches of steps up to i
 *     QUEUE_DOWNLOAD  output buffer of an earlier step -> stage
 *     writer          stage -> sink
 *
 * Operands that change from step to step have two buffers on the device. Events between the queues guard them: a launch
 * waits for its uploads, an upload for the last launch that read its buffer, a download for the launch that finished
 * its tile. Boxes pass through small pinned stages in pieces, so host memory does not grow with the tiles. Operands
 * whose box never changes are whole arrays and live among the residents.
 *
 * On a unified device operands are read into, and outputs written from, the memory that the kernel uses. */
#include "../base/clock.h"
#include "../base/fail.h"
#include "../base/interrupt.h"
#include "stream_buffers.h"

#include <stdlib.h>
#include <string.h>

/* ---- loading ----------------------------------------------------------------------------------------------------- */

/* Reads a packed box. If the box is fresh and the array's hash is wanted, hashes it while it is in the cache. */
static enum status read_box(struct stream *stream, struct input *in, bool fresh, int64_t step, int slot,
                            const struct box *box, void *memory, struct error *error) {
    struct trace *trace = stream->sink->trace;
    int64_t bytes = box_elements(box) * in->element;
    double begin = range_begin(STAGE_READ);
    enum status status = fresh && in->hashed ? reader_read_hashed(in->reader, box, memory, trace, error)
                                             : reader_read(in->reader, box, memory, trace, error);
    double end = range_end();
    if (status) return status;
    trace_span(trace, STAGE_READ, slot, step, bytes, begin, end);
    stream->result.times.read_s += end - begin;
    stream->result.bytes_read += bytes;
    return STATUS_OK;
}

static enum status load_piece(struct stream *stream, struct input *in, bool fresh, const struct step *step,
                              const struct box *tile, const struct box *piece, struct error *error) {
    int stage = (int)(stream->next_upload++ % STAGES);
    void *staged = stream->residents->stages[UP][stage].memory;
    struct span *span = &stream->uploads[stage];
    TRY(span_collect(stream, span, stage, &stream->result.times.h2d_s, error));
    TRY(read_box(stream, in, fresh, step->number, stage, piece, staged, error));
    TRY(span_begin(stream, span, STAGE_H2D, step->number, box_elements(piece) * in->element, error));
    enum status asked = stream_copy(stream, UP, tile, in->memory[in->current], piece, staged, in->element, error);
    return span_end(stream, span, asked, error);
}

/* Loads a step's box of one input into the operand's next buffer. */
static enum status load(struct stream *stream, int i, const struct step *step, struct error *error) {
    struct device *device = stream->device;
    const struct device_operations *ops = device->operations;
    struct input *in = &stream->in[i];
    const struct box *box = &step->load[i];
    in->current = (in->current + 1) % in->count;
    if (in->resident && in->resident->loaded) return STATUS_OK;
    if (in->resident) in->resident->loaded = true;
    if (box_elements(box) == 0) return STATUS_OK;
    bool fresh = step->fresh[i];
    if (device->unified) {
        TRY(ops->event_wait(device, in->used[in->current], error));
        return read_box(stream, in, fresh, step->number, in->current, box, in->memory[in->current], error);
    }
    TRY(ops->event_order(device, in->used[in->current], QUEUE_UPLOAD, error));
    const struct storage *storage = &stream->tiling->in_storage[i];
    struct grid grid = {.grain = storage->chunk};
    memcpy(grid.shift, in->reader->array->first, sizeof grid.shift);
    struct cut cut = cut_box(box, &grid, plan_stage_elements(storage, in->element));
    for (int64_t number = 0; number < cut.pieces; number++) {
        struct box piece = cut_piece(&cut, number);
        TRY(load_piece(stream, in, fresh, step, box, &piece, error));
    }
    return ops->event_record(device, in->loaded[in->current], QUEUE_UPLOAD, error);
}

/* ---- computing --------------------------------------------------------------------------------------------------- */

/* Describes the launch of a step, from and into the current buffers. */
static void describe_launch(struct stream *stream, const struct step *step, struct launch *launch) {
    const struct geometry *geometry = &stream->task->geometry;
    const void *operands[MAX_INPUTS] = {NULL};
    for (int i = 0; i < geometry->inputs; i++) operands[i] = stream->in[i].memory[stream->in[i].current];
    operations[geometry->op]->launch(geometry, &step->tile, step->first, step->last, operands, stream->partial,
                                     stream->out.memory[stream->out.current], launch);
    memcpy(launch->choice, stream->run->choice, sizeof launch->choice);
    launch->workspace = stream->workspace;
}

static void *rehearse(void *argument) {
    struct stream *stream = argument;
    struct device *device = stream->device;
    device->operations->rehearse(device, stream->run->kernel, &stream->rehearsal.launch);
    return NULL;
}

static void rehearsal_begin(struct stream *stream) {
    struct step step;
    if (!stream->device->operations->rehearse) return;
    plan_step(&stream->task->geometry, stream->tiling, 0, &step);
    describe_launch(stream, &step, &stream->rehearsal.launch);
    stream->rehearsal.started = pthread_create(&stream->rehearsal.thread, NULL, rehearse, stream) == 0;
}

static void rehearsal_end(struct stream *stream) {
    if (stream->rehearsal.started) pthread_join(stream->rehearsal.thread, NULL);
    stream->rehearsal.started = false;
}

static enum status compute(struct stream *stream, const struct step *step, struct error *error) {
    struct device *device = stream->device;
    const struct device_operations *ops = device->operations;
    const struct geometry *geometry = &stream->task->geometry;
    struct output *out = &stream->out;
    int slot = (int)(step->number % LAUNCHES);
    struct span *span = &stream->launches[slot];
    rehearsal_end(stream);
    TRY(span_collect(stream, span, slot, &stream->result.times.kernel_s, error));
    if (step->first) {
        out->current = (out->current + 1) % out->count;
        TRY(store_reserve(stream, error));
    }
    for (int i = 0; i < geometry->inputs; i++) {
        struct input *in = &stream->in[i];
        TRY(ops->event_order(device, in->loaded[in->current], QUEUE_COMPUTE, error));
    }
    describe_launch(stream, step, &stream->launch);
    TRY(span_begin(stream, span, STAGE_KERNEL, step->number, 0, error));
    enum status asked = ops->launch(device, stream->run->kernel, &stream->launch, error);
    TRY(span_end(stream, span, asked, error));
    for (int i = 0; i < geometry->inputs; i++) {
        struct input *in = &stream->in[i];
        TRY(ops->event_record(device, in->used[in->current], QUEUE_COMPUTE, error));
    }
    return ops->event_record(device, out->computed[out->current], QUEUE_COMPUTE, error);
}

static enum status take_step(struct stream *stream, int64_t number, struct error *error) {
    struct step step;
    int64_t before = stream->result.bytes_read, stored = 0;
    TRY(interrupt_check(error));
    plan_step(&stream->task->geometry, stream->tiling, number, &step);
    for (int i = 0; i < stream->task->geometry.inputs; i++)
        if (!step.reuse[i]) TRY(load(stream, i, &step, error));
    TRY(compute(stream, &step, error));
    if (step.last) {
        stored = box_elements(&step.store) * stream->out.element;
        TRY(store_put(stream, stream->out.current, number, &step.store, error));
    }
    int64_t moved = stream->result.bytes_read - before + stored;
    if (stream->sink->step) stream->sink->step(stream->sink->context, moved);
    return STATUS_OK;
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

static enum status take_all_steps(struct stream *stream, struct error *error) {
    struct stage_times *times = &stream->result.times;
    for (int64_t number = 0; number < stream->tiling->steps; number++) TRY(take_step(stream, number, error));
    for (int i = 0; i < STAGES; i++) TRY(span_collect(stream, &stream->uploads[i], i, &times->h2d_s, error));
    for (int i = 0; i < LAUNCHES; i++) TRY(span_collect(stream, &stream->launches[i], i, &times->kernel_s, error));
    return STATUS_OK;
}

static enum status take_pass(struct stream *stream, struct error *error) {
    if (stream->tiling->steps == 0) { /* an empty output must still be created */
        struct box nothing = box_whole(&stream->task->geometry.out.shape);
        return stream->sink->write(stream->sink->context, &nothing, "", error);
    }
    TRY(stream_open_buffers(stream, error));
    TRY(store_begin(stream, error));
    rehearsal_begin(stream);
    enum status status = take_all_steps(stream, error);
    rehearsal_end(stream);
    enum status stored = store_end(stream, status != STATUS_OK, error);
    if (status == STATUS_OK) status = stored;
    return status == STATUS_OK ? stream->device->operations->synchronize(stream->device, error) : status;
}

/* Begins the inputs' hashes. Two operands that are one array share its hash. */
static void begin_hashes(struct stream *stream) {
    for (int i = 0; i < stream->task->geometry.inputs; i++) {
        struct input *in = &stream->in[i];
        in->hashed = reader_hash_missing(in->reader) && (i == 0 || in->reader != stream->in[0].reader);
        if (in->hashed) reader_hash_begin(in->reader);
    }
}

enum status stream_run(struct device *device, struct residents *residents, const struct pass *pass,
                       const struct sink *sink, struct stream_result *result, struct stream **stream,
                       struct error *error) {
    const struct tiling *tiling = pass->tiling;
    const struct task *task = &pass->plan->tasks[pass->run->task];
    struct stream *new = must_malloc(sizeof *new);
    *new = (struct stream){.device = device,
                           .residents = residents,
                           .plan = pass->plan,
                           .run = pass->run,
                           .tiling = tiling,
                           .task = task,
                           .sink = sink};
    for (int i = 0; i < task->geometry.inputs; i++) {
        new->in[i].reader = &pass->readers->of[task->in[i]];
        new->in[i].element = (int64_t)dtype_size(task->geometry.in[i].dtype);
        new->in[i].count = tiling->in_slots[i];
    }
    new->out.element = (int64_t)dtype_size(task->geometry.out.dtype);
    new->out.count = tiling->out_slots;
    begin_hashes(new);
    double begin = now_s();
    enum status status = take_pass(new, error);
    new->result.times.total_s = now_s() - begin;
    *result = new->result;
    *stream = new;
    for (int i = 0; i < task->geometry.inputs && status == STATUS_OK; i++)
        if (new->in[i].hashed) reader_hash_end(new->in[i].reader);
    if (status == STATUS_OK) return STATUS_OK;
    for (int i = 0; i < task->geometry.inputs; i++)
        if (new->in[i].resident) new->in[i].resident->loaded = false; /* it may be loaded in part only */
    stream_free(new, false);
    *stream = NULL;
    return status;
}

bool stream_measurement(struct stream *stream, const struct run_options *options, struct measurement *measurement) {
    bool once = options->warmup == 0 && options->repeat_max == 1; /* the pass has timed it already */
    *measurement = (struct measurement){.kernel = stream->run->kernel, .launch = &stream->launch, .options = options};
    if (stream->tiling->steps == 1 && !once) return true;
    struct conditions now = stream->device->conditions(stream->device);
    if (stream->tiling->steps >= 1) samples_append(&measurement->samples, stream->result.times.kernel_s, &now, 0);
    return false;
}
