/* stream.c - one pass over a run's steps, every stage at work at once on the device's three queues and on this thread.
 *
 *     this thread     read i+1 into a stage | write the tile of step i-1 out of a stage
 *     QUEUE_UPLOAD    stage -> operand buffer of step i+1
 *     QUEUE_COMPUTE   launch of step i
 *     QUEUE_DOWNLOAD  output buffer of step i-1 -> stage
 *
 * Operands that change from step to step have two buffers on the device. Events between the queues guard them: a launch
 * waits for its uploads, an upload for the last launch that read its buffer, a download for the launch that finished
 * its tile. Boxes pass through small pinned stages in pieces, so that host memory does not grow with the tiles.
 * Operands whose box never changes are whole arrays and live among the residents.
 *
 * On a unified device operands are read, and outputs written, straight from where the kernel has them. */
#include "environment.h"
#include "stream_buffers.h"

#include <stdlib.h>
#include <string.h>

/* ---- spans ------------------------------------------------------------------------------------------------------ */

static enum status span_begin(struct stream *stream, struct span *span, enum queue queue, struct error *error) {
    return stream->device->operations->event_record(stream->device, span->begin, queue, error);
}

static enum status span_end(struct stream *stream, struct span *span, enum queue queue, struct error *error) {
    span->open = true;
    return stream->device->operations->event_record(stream->device, span->end, queue, error);
}

/* Waits for the end of the span, if one is open, and adds its time. */
static enum status span_collect(struct stream *stream, struct span *span, double *seconds, struct error *error) {
    const struct device_operations *ops = stream->device->operations;
    if (!span->open) return STATUS_OK;
    double elapsed;
    TRY(ops->event_wait(stream->device, span->end, error));
    TRY(ops->event_elapsed(stream->device, span->begin, span->end, &elapsed, error));
    *seconds += elapsed;
    span->open = false;
    return STATUS_OK;
}

/* ---- boxes ------------------------------------------------------------------------------------------------------ */

/* The piece of a box that begins `done` elements into it (in row-major order), holds at most `limit` elements and is
 * itself one run of elements: some rows along one axis, whole behind it. A power of two of rows, to meet chunks. */
static struct box box_piece(const struct box *box, int64_t done, int64_t limit) {
    struct box piece = *box;
    int64_t row = 1; /* elements of all axes behind `axis` */
    int axis = box->rank - 1;
    while (axis > 0 && row * box->count[axis] <= limit) row *= box->count[axis--];
    if (axis < 0) return piece;
    int64_t at = done / row, rows = limit / row;
    while (rows & (rows - 1)) rows &= rows - 1;
    if (limit / row >= box->count[axis]) rows = box->count[axis];
    int64_t offset = at % box->count[axis];
    piece.start[axis] += offset;
    piece.count[axis] = rows < box->count[axis] - offset ? rows : box->count[axis] - offset;
    at /= box->count[axis];
    for (axis--; axis >= 0; axis--) {
        piece.start[axis] += at % box->count[axis];
        piece.count[axis] = 1;
        at /= box->count[axis];
    }
    return piece;
}

static enum status read_box(struct stream *stream, const struct input *in, const struct box *box, void *memory,
                            struct error *error) {
    double begin = now_s();
    TRY(array_read(in->array, box, memory, error));
    stream->result.times.read_s += now_s() - begin;
    stream->result.bytes_read += box_elements(box) * in->element;
    return STATUS_OK;
}

static enum status write_box(struct stream *stream, const struct box *box, const void *memory, struct error *error) {
    double begin = now_s();
    TRY(stream->sink->write(stream->sink->context, box, memory, error));
    stream->result.times.write_s += now_s() - begin;
    stream->result.bytes_written += box_elements(box) * stream->out.element;
    return STATUS_OK;
}

/* ---- the stages of a step --------------------------------------------------------------------------------------- */

/* Brings a box into the operand's next buffer. */
static enum status load(struct stream *stream, struct input *in, const struct box *box, struct error *error) {
    struct device *device = stream->device;
    const struct device_operations *ops = device->operations;
    in->current = (in->current + 1) % in->count;
    if (in->resident && in->resident->loaded) return STATUS_OK;
    if (in->resident) in->resident->loaded = true;
    int64_t total = box_elements(box), count;
    if (total == 0) return STATUS_OK;
    char *memory = in->memory[in->current];
    if (device->unified) {
        TRY(ops->event_wait(device, in->used[in->current], error));
        return read_box(stream, in, box, memory, error);
    }
    TRY(ops->event_order(device, in->used[in->current], QUEUE_UPLOAD, error));
    for (int64_t done = 0; done < total; done += count) {
        int stage = stream->next_upload;
        void *staged = stream->residents->stages[UP][stage].memory;
        struct span *span = &stream->uploads[stage];
        struct box piece = box_piece(box, done, STAGE_BYTES / in->element);
        count = box_elements(&piece);
        TRY(span_collect(stream, span, &stream->result.times.h2d_s, error));
        TRY(read_box(stream, in, &piece, staged, error));
        TRY(span_begin(stream, span, QUEUE_UPLOAD, error));
        TRY(ops->upload(device, memory + done * in->element, staged, count * in->element, error));
        TRY(span_end(stream, span, QUEUE_UPLOAD, error));
        stream->next_upload = (stage + 1) % STAGES;
    }
    return ops->event_record(device, in->loaded[in->current], QUEUE_UPLOAD, error);
}

static enum status compute(struct stream *stream, const struct step *step, struct error *error) {
    struct device *device = stream->device;
    const struct device_operations *ops = device->operations;
    const struct geometry *geometry = &stream->task->geometry;
    struct output *out = &stream->out;
    struct span *span = &stream->launches[step->number % BUFFERS];
    const void *operands[2] = {NULL, NULL};
    TRY(span_collect(stream, span, &stream->result.times.kernel_s, error));
    if (step->first) out->current = (out->current + 1) % out->count;
    for (int i = 0; i < geometry->inputs; i++) {
        struct input *in = &stream->in[i];
        operands[i] = in->memory[in->current];
        TRY(ops->event_order(device, in->loaded[in->current], QUEUE_COMPUTE, error));
    }
    operations[geometry->op]->launch(geometry, &step->tile, step->first, step->last, operands, stream->partial,
                                     out->memory[out->current], &stream->launch);
    memcpy(stream->launch.choice, stream->run->choice, sizeof stream->launch.choice);
    stream->launch.workspace = stream->workspace;
    TRY(span_begin(stream, span, QUEUE_COMPUTE, error));
    TRY(ops->launch(device, stream->run->kernel, &stream->launch, error));
    TRY(span_end(stream, span, QUEUE_COMPUTE, error));
    for (int i = 0; i < geometry->inputs; i++) {
        struct input *in = &stream->in[i];
        TRY(ops->event_record(device, in->used[in->current], QUEUE_COMPUTE, error));
    }
    return ops->event_record(device, out->computed[out->current], QUEUE_COMPUTE, error);
}

/* Queues downloads of the finished tile as far as there are free stages. */
static enum status store_ask(struct stream *stream, struct error *error) {
    struct device *device = stream->device;
    const struct device_operations *ops = device->operations;
    struct store *store = &stream->store;
    int64_t element = stream->out.element;
    while (store->asked < store->total && store->pieces_asked - store->pieces_written < STAGES) {
        int stage = store->pieces_asked++ % STAGES;
        struct span *span = &stream->downloads[stage];
        const char *from = (const char *)stream->out.memory[store->buffer] + store->asked * element;
        store->pieces[stage] = box_piece(&store->box, store->asked, STAGE_BYTES / element);
        int64_t count = box_elements(&store->pieces[stage]);
        TRY(span_begin(stream, span, QUEUE_DOWNLOAD, error));
        TRY(ops->download(device, stream->residents->stages[DOWN][stage].memory, from, count * element, error));
        TRY(span_end(stream, span, QUEUE_DOWNLOAD, error));
        store->asked += count;
    }
    return STATUS_OK;
}

/* Sets the tile that was just computed on its way. */
static enum status store_begin(struct stream *stream, const struct box *box, struct error *error) {
    struct device *device = stream->device;
    int buffer = stream->out.current;
    stream->store = (struct store){.buffer = buffer, .box = *box, .total = box_elements(box)};
    if (device->unified) return STATUS_OK;
    TRY(device->operations->event_order(device, stream->out.computed[buffer], QUEUE_DOWNLOAD, error));
    return store_ask(stream, error);
}

/* Hands the rest of the tile under way, if there is one, to the sink. */
static enum status store_finish(struct stream *stream, struct error *error) {
    struct device *device = stream->device;
    struct store *store = &stream->store;
    if (device->unified && store->written < store->total) {
        TRY(device->operations->event_wait(device, stream->out.computed[store->buffer], error));
        TRY(write_box(stream, &store->box, stream->out.memory[store->buffer], error));
        store->written = store->total;
    }
    while (store->written < store->total) {
        int stage = store->pieces_written % STAGES;
        const struct box *piece = &store->pieces[stage];
        TRY(span_collect(stream, &stream->downloads[stage], &stream->result.times.d2h_s, error));
        TRY(write_box(stream, piece, stream->residents->stages[DOWN][stage].memory, error));
        store->written += box_elements(piece);
        store->pieces_written++;
        TRY(store_ask(stream, error));
    }
    return STATUS_OK;
}

static enum status take_step(struct stream *stream, int64_t number, struct error *error) {
    struct step step;
    int64_t before = stream->result.bytes_read + stream->result.bytes_written;
    plan_step(stream->plan, stream->run, number, &step);
    for (int i = 0; i < stream->task->geometry.inputs; i++)
        if (!step.reuse[i]) TRY(load(stream, &stream->in[i], &step.load[i], error));
    TRY(compute(stream, &step, error));
    TRY(store_finish(stream, error)); /* the tile before this one, while the device computes */
    if (step.last) TRY(store_begin(stream, &step.store, error));
    if (number == stream->run->steps - 1) TRY(store_finish(stream, error));
    int64_t after = stream->result.bytes_read + stream->result.bytes_written;
    if (stream->sink->step) stream->sink->step(stream->sink->context, after - before);
    return STATUS_OK;
}

/* ---- the pass --------------------------------------------------------------------------------------------------- */

static enum status pass(struct stream *stream, struct error *error) {
    struct stage_times *times = &stream->result.times;
    if (stream->run->steps == 0) { /* an empty output still has to come to be */
        struct box nothing = box_whole(&stream->task->geometry.out.shape);
        return write_box(stream, &nothing, "", error);
    }
    TRY(stream_open_buffers(stream, error));
    for (int64_t number = 0; number < stream->run->steps; number++) TRY(take_step(stream, number, error));
    for (int i = 0; i < STAGES; i++) TRY(span_collect(stream, &stream->uploads[i], &times->h2d_s, error));
    for (int i = 0; i < BUFFERS; i++) TRY(span_collect(stream, &stream->launches[i], &times->kernel_s, error));
    return stream->device->operations->synchronize(stream->device, error);
}

enum status stream_run(struct device *device, struct residents *residents, const struct plan *plan,
                       const struct run *run, const struct sink *sink, struct stream_result *result,
                       struct stream **stream, struct error *error) {
    const struct task *task = &plan->tasks[run->task];
    struct stream *new = must_malloc(sizeof *new);
    *new =
        (struct stream){.device = device, .residents = residents, .plan = plan, .run = run, .task = task, .sink = sink};
    for (int i = 0; i < task->geometry.inputs; i++) {
        new->in[i].array = &plan->arrays[task->in[i]];
        new->in[i].element = (int64_t)dtype_size(task->geometry.in[i].dtype);
        new->in[i].count = run->in_slots[i];
    }
    new->out.element = (int64_t)dtype_size(task->geometry.out.dtype);
    new->out.count = run->out_slots;
    double begin = now_s();
    enum status status = pass(new, error);
    new->result.times.total_s = now_s() - begin;
    *result = new->result;
    *stream = new;
    if (status == STATUS_OK) return STATUS_OK;
    for (int i = 0; i < task->geometry.inputs; i++)
        if (new->in[i].resident) new->in[i].resident->loaded = false; /* who knows how far it came */
    stream_free(new, false);
    *stream = NULL;
    return status;
}

enum status stream_measure(struct stream *stream, const struct run_options *options, const volatile int *interrupted,
                           struct samples *samples, struct error *error) {
    *samples = (struct samples){.count = 0};
    if (stream->run->steps == 1)
        return measure_kernel(stream->device, stream->run->kernel, &stream->launch, options, interrupted, samples,
                              error);
    if (stream->run->steps > 1)
        samples_append(samples, stream->result.times.kernel_s, (float)stream->device->clock_mhz(stream->device));
    return STATUS_OK;
}
