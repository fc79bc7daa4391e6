/* stream_writer.c - the writer: a thread that downloads finished tiles piece by piece and passes them to the sink, in
 * the order of the steps. A pass of one step needs no such thread: writer_put writes its tile.
 *
 *     computed tile -> download -> staging buffer -> sink     (a unified device: computed tile -> sink)
 *
 * Up to STAGING_BUFFERS downloads are queued while one piece is written. An output buffer becomes free when its tile is
 * written. So a slow disk delays the device only in writer_reserve, when all output buffers wait to be written. */
#include "stream_buffers.h"

#include "../base/fail.h"
#include "../base/workers.h"

#include <string.h>

/* Passes a piece to the sink, and records its time. */
static enum status write_piece(struct stream *stream, const struct finished *tile, int slot, const struct box *piece,
                               const void *data, struct error *error) {
    struct writer *writer = &stream->writer;
    int64_t bytes = box_elements(piece) * stream->out.element_bytes;
    double begin = range_begin(STAGE_WRITE);
    enum status status = stream->sink->write(stream->sink->context, piece, data, error);
    double end = range_end();
    if (status) return status;
    trace_span(stream->sink->trace, STAGE_WRITE, slot, tile->step, bytes, begin, end);
    writer->write_s += end - begin;
    writer->written += bytes;
    return STATUS_OK;
}

/* Queues the download of a piece of a lane's band into staging buffer `slot`. */
static enum status download_piece(struct lane *lane, const struct finished *tile, int slot, const struct box *piece,
                                  struct error *error) {
    const struct stream *stream = lane->stream;
    struct stage_span *span = &lane->downloads[slot];
    int64_t bytes = box_elements(piece) * stream->out.element_bytes;
    TRY(span_begin(lane, span, STAGE_D2H, tile->step, bytes, error));
    enum status queued = stream_copy(lane, QUEUE_DOWNLOAD, &tile->box[lane->number], lane->out[tile->buffer], piece,
                                     staging_buffer(stream, DOWN, slot), stream->out.element_bytes, error);
    return span_end(lane, span, queued, error);
}

/* Writes a lane's band of a finished tile, piece by piece; up to STAGING_BUFFERS pieces are downloaded ahead. */
static enum status write_band(struct lane *lane, const struct finished *tile, struct error *error) {
    const struct device_operations *ops = lane->device->operations;
    struct stream *stream = lane->stream;
    struct writer *writer = &stream->writer;
    const struct box *box = &tile->box[lane->number];
    if (lane->device->unified) {
        TRY(ops->event_wait(lane->device, lane->computed[tile->buffer], error));
        return write_piece(stream, tile, tile->buffer, box, lane->out[tile->buffer], error);
    }
    TRY(ops->queue_wait_event(lane->device, lane->computed[tile->buffer], QUEUE_DOWNLOAD, error));
    const struct storage *storage = &stream->tiling->out_storage;
    struct grid grid = {.grain = storage->chunk};
    struct cut cut = cut_box(box, &grid, plan_staging_elements(storage, stream->out.element_bytes));
    for (int64_t queued = 0, written = 0; written < cut.pieces; written++) {
        for (; queued < cut.pieces && queued - written < STAGING_BUFFERS; queued++) {
            struct box piece = cut_piece(&cut, queued);
            TRY(download_piece(lane, tile, (int)((writer->next + queued) % STAGING_BUFFERS), &piece, error));
        }
        int slot = (int)((writer->next + written) % STAGING_BUFFERS);
        struct box piece = cut_piece(&cut, written);
        TRY(span_collect(lane, &lane->downloads[slot], slot, &lane->d2h_s, error));
        TRY(write_piece(stream, tile, slot, &piece, staging_buffer(stream, DOWN, slot), error));
    }
    writer->next += cut.pieces;
    return STATUS_OK;
}

/* Writes the bands of a finished tile, one lane after the other. */
static enum status write_tile(struct stream *stream, const struct finished *tile, struct error *error) {
    for (int i = 0; i < stream->bands.lanes; i++)
        if (tile->works[i]) TRY(write_band(&stream->lanes[i], tile, error));
    return STATUS_OK;
}

/* The writer's thread: writes finished tiles in order. After a failure it drops them. */
static void *writer_main(void *argument) {
    struct stream *stream = argument;
    struct writer *writer = &stream->writer;
    workers_limit_openmp();
    pthread_mutex_lock(&writer->mutex);
    for (;;) {
        while (writer->pending == 0 && !writer->closing) pthread_cond_wait(&writer->changed, &writer->mutex);
        if (writer->pending == 0) break;
        struct finished tile = writer->queue[writer->first];
        if (writer->error.status == STATUS_OK) {
            struct error error = {.status = STATUS_OK};
            pthread_mutex_unlock(&writer->mutex);
            enum status status = write_tile(stream, &tile, &error);
            pthread_mutex_lock(&writer->mutex);
            if (status != STATUS_OK && writer->error.status == STATUS_OK) writer->error = error;
        }
        writer->first = (writer->first + 1) % BUFFERS;
        writer->pending--;
        pthread_cond_broadcast(&writer->changed);
    }
    pthread_mutex_unlock(&writer->mutex);
    return NULL;
}

enum status writer_begin(struct stream *stream, struct error *error) {
    struct writer *writer = &stream->writer;
    if (stream->tiling->steps == 1) return STATUS_OK;
    pthread_mutex_init(&writer->mutex, NULL);
    pthread_cond_init(&writer->changed, NULL);
    int code = pthread_create(&writer->thread, NULL, writer_main, stream);
    if (code != 0) return FAIL_CALL(error, STATUS_DEVICE, "pthread_create", strerror(code));
    writer->started = true;
    return STATUS_OK;
}

/* Waits until at most `max_pending` tiles are pending. */
static enum status wait_pending(struct writer *writer, int max_pending, struct error *error) {
    if (!writer->started) return STATUS_OK;
    pthread_mutex_lock(&writer->mutex);
    while (writer->pending > max_pending && writer->error.status == STATUS_OK)
        pthread_cond_wait(&writer->changed, &writer->mutex);
    if (writer->error.status != STATUS_OK) *error = writer->error;
    enum status status = writer->error.status;
    pthread_mutex_unlock(&writer->mutex);
    return status;
}

enum status writer_reserve(struct stream *stream, struct error *error) {
    return wait_pending(&stream->writer, stream->out.buffers - 1, error);
}

enum status writer_put(struct stream *stream, int buffer, int64_t step, struct error *error) {
    struct writer *writer = &stream->writer;
    struct finished tile = {.buffer = buffer, .step = step};
    for (int i = 0; i < stream->bands.lanes; i++) {
        tile.works[i] = stream->lanes[i].works;
        tile.box[i] = stream->lanes[i].band.store;
    }
    if (!writer->started) return write_tile(stream, &tile, error);
    TRY(wait_pending(writer, BUFFERS - 1, error));
    pthread_mutex_lock(&writer->mutex);
    writer->queue[(writer->first + writer->pending) % BUFFERS] = tile;
    writer->pending++;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->mutex);
    return STATUS_OK;
}

/* Ends the thread, after all pending tiles or, with `drop`, without them. */
static enum status end_thread(struct writer *writer, bool drop, struct error *error) {
    if (!writer->started) return STATUS_OK;
    pthread_mutex_lock(&writer->mutex);
    writer->closing = true;
    if (drop && writer->error.status == STATUS_OK) writer->error.status = STATUS_INTERRUPTED;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->mutex);
    pthread_join(writer->thread, NULL);
    writer->started = false;
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->mutex);
    if (!drop && writer->error.status != STATUS_OK) *error = writer->error;
    return drop ? STATUS_OK : writer->error.status;
}

enum status writer_end(struct stream *stream, bool drop, struct error *error) {
    struct writer *writer = &stream->writer;
    enum status status = end_thread(writer, drop, error);
    stream->result.times.write_s += writer->write_s;
    stream->result.bytes_written += writer->written;
    return status;
}
