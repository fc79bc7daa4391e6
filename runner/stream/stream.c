/* stream.c - makes one pass over a run's steps. All stages work at once, on the device's queues, on the caller's thread
 * and on the writer's thread (stream_writer.c):
 *
 *     preload         loads the kernel's code onto the device during the first reads
 *     this thread     reads step i+1 into a staging buffer, on all cores
 *     QUEUE_UPLOAD    staging buffer -> operand buffer of step i+1
 *     QUEUE_PEER      another device's operand buffer -> this one's
 *     QUEUE_COMPUTE   launches of steps up to i
 *     QUEUE_DOWNLOAD  output buffer of an earlier step -> staging buffer
 *     writer          staging buffer -> sink
 *
 * Operands that change from step to step have two buffers on the device. Events between the queues guard them: a launch
 * waits for its uploads, an upload for the last launch that read its buffer, a download for the launch that finished
 * its tile. Boxes pass through small pinned staging buffers in pieces, so host memory does not grow with the tiles.
 * Operands whose box never changes are whole arrays; they live among the residents.
 *
 * Each device of a team has a lane: its queues, its buffers and its band of every step (bands.h). A box that all lanes
 * need is read once: its pieces are uploaded to the lanes in turn, and each lane copies the others' pieces from their
 * devices. So the bus carries the box once, not once for each device.
 *
 * On a unified device (the CPU) device memory is host memory: inputs are read into the operands' buffers, and outputs
 * are written from them, without staging buffers. */
#include "../../kernels/map/before.h"
#include "../base/clock.h"
#include "../base/fail.h"
#include "../base/interrupt.h"
#include "../compile/rehearse.h"
#include "../plan/user_kernel.h"
#include "../storage/operand.h"
#include "../storage/raw/rawread.h"
#include "stream_buffers.h"

#include <math.h>
#include <string.h>

/* The number of reading threads when several devices share a run: more of them take memory bandwidth away from the
 * uploads, fewer read too slowly. Measured with a product of 32768^2 on two H200 and 32 cores: kernels and copies are
 * faster than on one H200 by a factor of 1.60 with 32 readers, 1.78 with 16, 1.82 with 8 to 12, 1.90 with 6. With 6
 * readers, though, the whole pass takes a fifth longer. */
#define TEAM_READERS 12

/* ---- loading ----------------------------------------------------------------------------------------------------- */

/* Reads a packed box. If no step has read it before and the array's hash is wanted, hashes it while it is in the
 * cache. */
static enum status read_for_step(struct stream *stream, struct input *in, bool fresh, int64_t step, int slot,
                                 const struct box *box, void *memory, struct error *error) {
    struct trace *trace = stream->sink->trace;
    int64_t bytes = box_elements(box) * in->element_bytes;
    struct read_counts before = in->reader->counts;
    double begin = range_begin(STAGE_READ);
    const struct operand_reading reading = {in->reader, in->operand, fresh, in->counted, in->hashed, trace};
    enum status status = operand_read(&reading, box, memory, error);
    double end = range_end();
    if (status) return status;
    trace_span(trace, STAGE_READ, slot, step, bytes, begin, end);
    stream->result.times.read_s += end - begin;
    stream->result.bytes_read += bytes;
    stream->result.file_bytes += in->reader->counts.bytes - before.bytes;
    if (fresh && stream->observer)
        stream->observer->read(stream->observer->context, (int)(in - stream->in), box, memory);
    return STATUS_OK;
}

/* A box of one input on its way to the lanes that need it. */
struct load {
    int input, buffer;
    const struct step *step;
    struct box box;
    struct cut cut;
    struct lane *lanes[MAX_DEVICES];
    int count;
    bool passed_on; /* lanes copy pieces from each other */
};

/* Loads one piece of a box: reads it into a staging buffer, and uploads it to all lanes that need it. If the piece
 * is passed on, uploads it to one lane only, its owner, from which the other lanes copy it. */
static enum status load_piece(struct stream *stream, const struct load *load, int64_t number, struct error *error) {
    struct input *in = &stream->in[load->input];
    int slot = (int)(stream->next_upload++ % STAGING_BUFFERS);
    void *staged = staging_buffer(stream, UP, slot);
    struct box piece = cut_piece(&load->cut, number);
    int64_t bytes = box_elements(&piece) * in->element_bytes;
    for (int i = 0; i < stream->bands.lanes; i++)
        TRY(span_collect(&stream->lanes[i], &stream->lanes[i].uploads[slot], slot, &stream->lanes[i].h2d_s, error));
    TRY(read_for_step(stream, in, load->step->fresh[load->input], load->step->number, slot, &piece, staged, error));
    struct lane *owner = load->lanes[number % load->count];
    for (int i = 0; i < load->count; i++) {
        struct lane *lane = load->lanes[i];
        void *memory = lane->in[load->input].memory[load->buffer];
        if (load->passed_on && lane != owner) continue;
        TRY(span_begin(lane, &lane->uploads[slot], STAGE_H2D, load->step->number, bytes, error));
        enum status queued =
            stream_copy(lane, QUEUE_UPLOAD, &load->box, memory, &piece, staged, in->element_bytes, error);
        TRY(span_end(lane, &lane->uploads[slot], queued, error));
    }
    for (int i = 0; i < load->count && load->passed_on; i++) {
        struct lane *lane = load->lanes[i];
        if (lane == owner) continue;
        TRY(lane->device->operations->queue_wait_event(lane->device, owner->uploads[slot].end, QUEUE_PEER, error));
        TRY(stream_copy(lane, QUEUE_PEER, &load->box, lane->in[load->input].memory[load->buffer], &piece,
                        owner->in[load->input].memory[load->buffer], in->element_bytes, error));
    }
    return STATUS_OK;
}

/* Orders the uploads into the buffer behind the last launch that reads it and behind the other lanes' copies from
 * it. */
static enum status begin_load(const struct stream *stream, struct load *load, struct error *error) {
    const struct input *in = &stream->in[load->input];
    const struct storage *storage = &stream->tiling->in_storage[load->input];
    struct grid grid = plan_grid(in->reader->array, in->operand, storage);
    load->cut = cut_box(&load->box, &grid, plan_staging_elements(storage, in->element_bytes));
    load->passed_on = load->count > 1 && stream->team->peers;
    for (int i = 0; i < load->count; i++) {
        struct lane *lane = load->lanes[i];
        const struct device_operations *ops = lane->device->operations;
        const struct lane_input *lane_input = &lane->in[load->input];
        TRY(ops->queue_wait_event(lane->device, lane_input->used[load->buffer], QUEUE_UPLOAD, error));
        if (!load->passed_on) continue;
        TRY(ops->queue_wait_event(lane->device, lane_input->used[load->buffer], QUEUE_PEER, error));
        for (int other = 0; other < load->count; other++)
            TRY(ops->queue_wait_event(lane->device, load->lanes[other]->in[load->input].copied_on[load->buffer],
                                      QUEUE_UPLOAD, error));
    }
    return STATUS_OK;
}

/* Records that the box is loaded into each lane's buffer, behind its uploads and its copies from other lanes. */
static enum status end_load(const struct load *load, struct error *error) {
    for (int i = 0; i < load->count; i++) {
        struct lane *lane = load->lanes[i];
        const struct device_operations *ops = lane->device->operations;
        const struct lane_input *lane_input = &lane->in[load->input];
        if (load->passed_on) {
            TRY(ops->event_record(lane->device, lane_input->copied_on[load->buffer], QUEUE_PEER, error));
            TRY(ops->queue_wait_event(lane->device, lane_input->copied_on[load->buffer], QUEUE_UPLOAD, error));
        }
        TRY(ops->event_record(lane->device, lane_input->loaded[load->buffer], QUEUE_UPLOAD, error));
    }
    return STATUS_OK;
}

/* Does the loads piece by piece in turns, so that the uploads of all lanes overlap. */
static enum status do_loads(struct stream *stream, struct load *loads, int count, struct error *error) {
    int64_t max_pieces = 0;
    for (int i = 0; i < count; i++) {
        TRY(begin_load(stream, &loads[i], error));
        if (loads[i].cut.pieces > max_pieces) max_pieces = loads[i].cut.pieces;
    }
    for (int64_t number = 0; number < max_pieces; number++)
        for (int i = 0; i < count; i++)
            if (number < loads[i].cut.pieces) TRY(load_piece(stream, &loads[i], number, error));
    for (int i = 0; i < count; i++) TRY(end_load(&loads[i], error));
    return STATUS_OK;
}

/* Reads a box directly into the operand's memory. Lanes may share this memory, so it waits for all of them. */
static enum status load_in_place(struct stream *stream, const struct load *load, struct error *error) {
    struct input *in = &stream->in[load->input];
    for (int i = 0; i < stream->bands.lanes; i++) {
        struct lane *lane = &stream->lanes[i];
        TRY(lane->device->operations->event_wait(lane->device, lane->in[load->input].used[load->buffer], error));
    }
    return read_for_step(stream, in, load->step->fresh[load->input], load->step->number, load->buffer, &load->box,
                         load->lanes[0]->in[load->input].memory[load->buffer], error);
}

/* Loads a step's box of one input into the next buffers: if the input is shared, all lanes need the whole box, which is
 * read once; else each lane that has work loads its band. Skips lanes that borrow a buffer or have it in a resident. */
static enum status load_input(struct stream *stream, int i, const struct step *step, struct error *error) {
    struct input *in = &stream->in[i];
    struct load loads[MAX_DEVICES];
    int count = 0;
    in->current = (in->current + 1) % in->buffers;
    for (int l = 0; l < stream->bands.lanes; l++) {
        struct lane *lane = &stream->lanes[l];
        struct lane_input *lane_input = &lane->in[i];
        if (!(lane->works || in->shared) || lane_input->borrows ||
            (lane_input->resident && lane_input->resident->loaded))
            continue;
        if (lane_input->resident) lane_input->resident->loaded = true;
        if (box_elements(&lane->band.load[i]) == 0) continue;
        if (count == 0 || !in->shared)
            loads[count++] = (struct load){.input = i, .buffer = in->current, .step = step, .box = lane->band.load[i]};
        loads[count - 1].lanes[loads[count - 1].count++] = lane;
    }
    if (!stream->lanes[0].device->unified) return do_loads(stream, loads, count, error);
    for (int n = 0; n < count; n++) TRY(load_in_place(stream, &loads[n], error));
    return STATUS_OK;
}

/* ---- computing --------------------------------------------------------------------------------------------------- */

/* Describes the launch of a lane's band with the current buffers as operands. */
static void describe_launch(const struct lane *lane, const struct step *step, struct launch *launch) {
    const struct stream *stream = lane->stream;
    const struct geometry *geometry = &stream->task->geometry;
    const void *operands[MAX_INPUTS] = {NULL};
    for (int i = 0; i < geometry->inputs; i++) operands[i] = lane->in[i].memory[stream->in[i].current];
    operation_launch(geometry, &step->tile, step->first, step->last, operands, lane->partial,
                     lane->out[stream->out.current], launch);
    memcpy(launch->choice, stream->run->choice, sizeof launch->choice);
    launch->workspace = lane->workspace;
    if (launch->before.map)
        launch->before.y = (char *)lane->workspace + stream->tiling->workspace_bytes - stream->tiling->mapped_bytes;
    launch->multiprocessors = stream->run->threads;
    launch->timed = job_is_timed(&stream->task->operation->run);
}

/* The preload's thread of a lane. */
static void *preload_main(void *argument) {
    struct lane *lane = argument;
    lane->device->operations->preload(lane->device, lane->stream->run->kernel, &lane->preload.launch);
    return NULL;
}

/* Starts the preload of each lane that has work, on devices that need it; without a thread the launch loads the
 * code. */
static void preloads_begin(struct stream *stream) {
    for (int i = 0; i < stream->bands.lanes; i++) {
        struct lane *lane = &stream->lanes[i];
        if (!lane->device->operations->preload || !lane->works) continue;
        describe_launch(lane, &lane->band, &lane->preload.launch);
        lane->preload.started = pthread_create(&lane->preload.thread, NULL, preload_main, lane) == 0;
    }
}

/* Waits for the preloads. */
static void preloads_end(struct stream *stream) {
    for (int i = 0; i < stream->bands.lanes; i++) {
        struct preload *preload = &stream->lanes[i].preload;
        if (preload->started) pthread_join(preload->thread, NULL);
        preload->started = false;
    }
}

/* The lane's output, for the functions of poison.h; its memory is NULL if the kernel is trusted. */
static struct poisoned poisoned_output(const struct lane *lane) {
    const struct stream *stream = lane->stream;
    if (!poison_wanted(stream->run->kernel)) return (struct poisoned){.memory = NULL};
    return (struct poisoned){.memory = lane->out[stream->out.current],
                             .bytes = box_elements(&lane->band.store) * stream->out.element_bytes,
                             .buffer_bytes = stream->tiling->out_bytes,
                             .dtype = stream->task->geometry.out.dtype};
}

/* On the CPU: before a user kernel is first launched with new sizes, makes the same launch in a child
 * process, so that a crash fails only this run. */
static enum status rehearse_band(struct lane *lane, struct error *error) {
    const struct stream *stream = lane->stream;
    struct device *device = lane->device;
    if (!poison_wanted(stream->run->kernel) || !user_kernel_wants_rehearsal(stream->run->kernel, &lane->launch))
        return STATUS_OK;
    for (int i = 0; i < stream->task->geometry.inputs; i++) {
        struct lane *owner = lane->in[i].borrows ? &lane->stream->lanes[0] : lane;
        TRY(owner->device->operations->event_wait(owner->device, owner->in[i].loaded[stream->in[i].current], error));
    }
    TRY(device->operations->synchronize(device, error));
    struct launch launch = lane->launch;
    struct launch_inputs inputs = {stream->task->geometry.inputs, {NULL}, {0}};
    for (int i = 0; i < inputs.count; i++) {
        inputs.memory[i] = lane->in[i].memory[stream->in[i].current];
        inputs.bytes[i] = box_elements(&lane->band.load[i]) * stream->in[i].element_bytes;
    }
    if (launch.multiprocessors == 0) launch.multiprocessors = device->facts.multiprocessors;
    const bool has_timeout = isfinite(stream->task->operation->run.timeout_s);
    return user_kernel_rehearse(stream->run->kernel, &launch, &inputs, has_timeout, error);
}

/* Queues the kernel for the lane's band: makes it wait for the inputs' uploads, launches it, and records the events
 * "inputs no longer in use" and "output computed". For a user kernel, first fills the output with poison,
 * at the first step of an output tile, and rehearses the launch. */
static enum status compute_band(struct lane *lane, struct error *error) {
    const struct stream *stream = lane->stream;
    struct device *device = lane->device;
    const struct device_operations *ops = device->operations;
    int inputs = stream->task->geometry.inputs, slot = (int)(lane->band.number % LAUNCHES);
    struct stage_span *span = &lane->launches[slot];
    for (int i = 0; i < inputs; i++) {
        struct lane *owner = lane->in[i].borrows ? &lane->stream->lanes[0] : lane;
        TRY(ops->queue_wait_event(device, owner->in[i].loaded[stream->in[i].current], QUEUE_COMPUTE, error));
    }
    describe_launch(lane, &lane->band, &lane->launch);
    const struct poisoned out = poisoned_output(lane);
    if (lane->band.first) TRY(poison_fill(device, &out, error));
    TRY(rehearse_band(lane, error));
    TRY(span_begin(lane, span, STAGE_KERNEL, lane->band.number, 0, error));
    bool profiled = stream->profiled && lane->band.number == 0;
    if (profiled) TRY(ops->profile(device, true, error));
    enum status queued = ops->launch(device, stream->run->kernel, &lane->launch, error);
    if (profiled && !queued) queued = ops->profile(device, false, error);
    TRY(span_end(lane, span, queued, error));
    for (int i = 0; i < inputs; i++)
        TRY(ops->event_record(device, lane->in[i].used[stream->in[i].current], QUEUE_COMPUTE, error));
    return ops->event_record(device, lane->computed[stream->out.current], QUEUE_COMPUTE, error);
}

/* Queues the launches of a step on all lanes. At the first step of an output tile waits for a free output buffer. */
static enum status compute_step(struct stream *stream, const struct step *step, struct error *error) {
    struct output *out = &stream->out;
    int slot = (int)(step->number % LAUNCHES);
    preloads_end(stream);
    for (int i = 0; i < stream->bands.lanes; i++) {
        struct lane *lane = &stream->lanes[i];
        TRY(span_collect(lane, &lane->launches[slot], slot, &lane->kernel_s, error));
    }
    if (step->first) {
        out->current = (out->current + 1) % out->buffers;
        TRY(writer_reserve(stream, error));
    }
    for (int i = 0; i < stream->bands.lanes; i++)
        if (stream->lanes[i].works) TRY(compute_band(&stream->lanes[i], error));
    return STATUS_OK;
}

/* Does one step: loads the boxes that differ from those of the step before, computes, and passes a finished tile to
 * the writer. */
static enum status run_step(struct stream *stream, int64_t number, struct error *error) {
    const struct geometry *geometry = &stream->task->geometry;
    struct step step;
    int64_t before = stream->result.bytes_read, stored = 0;
    TRY(interrupt_check(error));
    plan_step(geometry, stream->tiling, number, &step);
    for (int i = 0; i < stream->bands.lanes; i++)
        stream->lanes[i].works = bands_step_of_lane(&stream->bands, geometry, &step, i, &stream->lanes[i].band);
    for (int i = 0; i < geometry->inputs; i++)
        if (!step.reuse[i]) TRY(load_input(stream, i, &step, error));
    TRY(compute_step(stream, &step, error));
    if (step.last) {
        stored = box_elements(&step.store) * stream->out.element_bytes;
        TRY(writer_put(stream, stream->out.current, number, error));
    }
    int64_t moved = stream->result.bytes_read - before + stored;
    if (stream->sink->step) stream->sink->step(stream->sink->context, moved);
    return STATUS_OK;
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

/* Does all steps, then collects the times of uploads and launches. */
static enum status run_steps(struct stream *stream, struct error *error) {
    for (int64_t number = 0; number < stream->tiling->steps; number++) TRY(run_step(stream, number, error));
    for (int l = 0; l < stream->bands.lanes; l++) {
        struct lane *lane = &stream->lanes[l];
        for (int i = 0; i < STAGING_BUFFERS; i++) TRY(span_collect(lane, &lane->uploads[i], i, &lane->h2d_s, error));
        for (int i = 0; i < LAUNCHES; i++) TRY(span_collect(lane, &lane->launches[i], i, &lane->kernel_s, error));
    }
    return STATUS_OK;
}

/* Does all steps, with the writer and the preloads at work meanwhile; then waits for the devices. */
static enum status run_pass(struct stream *stream, struct error *error) {
    if (stream->tiling->steps == 0) { /* creates the empty output */
        struct box nothing = box_whole(&stream->task->geometry.out.shape);
        return stream->sink->write(stream->sink->context, &nothing, "", error);
    }
    TRY(stream_open_buffers(stream, error));
    TRY(writer_begin(stream, error));
    preloads_begin(stream);
    rawread_limit_plain(stream->bands.lanes > 1 && !stream->lanes[0].device->unified ? TEAM_READERS : 0);
    enum status status = run_steps(stream, error);
    rawread_limit_plain(0);
    preloads_end(stream);
    enum status stored = writer_end(stream, status != STATUS_OK, error);
    if (status == STATUS_OK) status = stored;
    for (int i = 0; i < stream->bands.lanes && status == STATUS_OK; i++) {
        struct lane *lane = &stream->lanes[i];
        const struct poisoned out = poisoned_output(lane);
        status = lane->device->operations->synchronize(lane->device, error);
        if (!status && lane->works && stream->out.current >= 0) status = poison_check(lane->device, &out, error);
    }
    return status;
}

/* Begins the hashes of the inputs and the counts of their lossy conversions. Operands that are the same array share
 * them. */
static void begin_hashes(struct stream *stream) {
    for (int i = 0; i < stream->task->geometry.inputs; i++) {
        struct input *in = &stream->in[i];
        bool first = true;
        for (int earlier = 0; earlier < i; earlier++) first &= in->reader != stream->in[earlier].reader;
        in->counted = first && reader_needs_casts(in->reader);
        if (in->counted) reader_casts_begin(in->reader);
        in->hashed = first && reader_needs_hash(in->reader);
        if (in->hashed) reader_hash_begin(in->reader);
    }
}

/* Does the loop run along the operand? */
static bool has_loop(const struct operand *operand, int loop) {
    for (int axis = 0; axis < operand->shape.rank; axis++)
        if ((int)operand->loop[axis] == loop) return true;
    return false;
}

/* Creates the state of a pass; run_pass allocates its buffers. */
static struct stream *stream_create(const struct team *team, const struct pass *pass, const struct sink *sink) {
    const struct tiling *tiling = pass->tiling;
    const struct task *task = &pass->plan->tasks[pass->run->task];
    struct stream *new = must_malloc(sizeof *new);
    *new = (struct stream){.team = team,
                           .bands = bands_divide(team, &task->geometry, pass->run, tiling),
                           .plan = pass->plan,
                           .run = pass->run,
                           .tiling = tiling,
                           .task = task,
                           .sink = sink,
                           .observer = pass->observer,
                           .profiled = pass->profiled};
    for (int i = 0; i < new->bands.lanes; i++)
        new->lanes[i] =
            (struct lane){.stream = new, .number = i, .device = team->devices[i], .residents = team->residents[i]};
    for (int i = 0; i < task->geometry.inputs; i++) {
        new->in[i].operand = &task->geometry.in[i];
        new->in[i].reader = &pass->readers->items[task->in[i]];
        new->in[i].element_bytes = (int64_t)dtype_size(task->geometry.in[i].dtype);
        new->in[i].buffers = tiling->in_slots[i];
        new->in[i].shared = new->bands.lanes > 1 && !has_loop(&task->geometry.in[i], new->bands.loop);
    }
    new->out.element_bytes = (int64_t)dtype_size(task->geometry.out.dtype);
    new->out.buffers = tiling->out_slots;
    return new;
}

/* Sets the times of upload, kernel and download, each to the longest of all lanes. */
static void collect_times(struct stream *stream) {
    struct stage_times *times = &stream->result.times;
    stream->result.devices = stream->bands.lanes;
    for (int i = 0; i < stream->bands.lanes; i++) {
        times->h2d_s = fmax(times->h2d_s, stream->lanes[i].h2d_s);
        times->kernel_s = fmax(times->kernel_s, stream->lanes[i].kernel_s);
        times->d2h_s = fmax(times->d2h_s, stream->lanes[i].d2h_s);
    }
}

enum status stream_run(const struct team *team, const struct pass *pass, const struct sink *sink,
                       struct stream_result *result, struct stream **stream, struct error *error) {
    struct stream *new = stream_create(team, pass, sink);
    int inputs = new->task->geometry.inputs;
    begin_hashes(new);
    if (pass->observer) pass->observer->begin(pass->observer->context);
    double begin = now_s();
    enum status status = run_pass(new, error);
    new->result.times.total_s = now_s() - begin;
    collect_times(new);
    *result = new->result;
    *stream = new;
    for (int i = 0; i < inputs && status == STATUS_OK; i++)
        if (new->in[i].hashed) reader_hash_end(new->in[i].reader);
    if (status == STATUS_OK) return STATUS_OK;
    for (int l = 0; l < new->bands.lanes; l++)
        for (int i = 0; i < inputs; i++)
            if (new->lanes[l].in[i].resident)
                new->lanes[l].in[i].resident->loaded = false; /* only a part of it may have been loaded */
    stream_free(new, false);
    *stream = NULL;
    return status;
}

bool stream_measurement(struct stream *stream, const struct run_options *options, struct measurement *measurement) {
    bool once = options->warmup == 0 && options->repeat_max == 1; /* the pass was the sample */
    *measurement = (struct measurement){.kernel = stream->run->kernel, .options = options};
    for (int i = 0; i < stream->bands.lanes; i++)
        if (stream->lanes[i].works)
            measurement->on[measurement->devices++] = (struct measured_launch){
                stream->lanes[i].device, &stream->lanes[i].launch, poisoned_output(&stream->lanes[i])};
    if (stream->tiling->steps == 1 && !once) return true;
    struct device *first = stream->team->devices[0];
    struct sample_conditions now = once ? CONDITIONS_UNKNOWN : first->conditions(first);
    if (stream->tiling->steps >= 1) samples_append(&measurement->samples, stream->result.times.kernel_s, &now, 0);
    return false;
}
