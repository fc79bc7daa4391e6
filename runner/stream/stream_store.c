/* stream_store.c - the writer: a thread that downloads finished tiles piece by piece and passes them to the sink, in
 * the order of the steps.
 *
 *     computed tile -> download -> staging buffer -> sink     (a unified device: computed tile -> sink)
 *
 * Up to STAGING_BUFFERS downloads are queued while one piece is written. An output buffer becomes free when its tile is
 * written. So a slow disk stalls the device only in store_reserve, when all output buffers wait to be written. */
#include "stream_buffers.h"

#include "../base/fail.h"

#include <string.h>

static enum status write_piece(struct stream *stream, const struct finished *tile, int slot, const struct box *piece,
                               const void *data, struct error *error) {
    struct store *store = &stream->store;
    int64_t bytes = box_elements(piece) * stream->out.element;
    double begin = range_begin(STAGE_WRITE);
    enum status status = stream->sink->write(stream->sink->context, piece, data, error);
    double end = range_end();
    if (status) return status;
    trace_span(stream->sink->trace, STAGE_WRITE, slot, tile->step, bytes, begin, end);
    store->write_s += end - begin;
    store->written += bytes;
    return STATUS_OK;
}

static enum status download_piece(struct lane *lane, const struct finished *tile, int slot, const struct box *piece,
                                  struct error *error) {
    const struct stream *stream = lane->stream;
    struct span *span = &lane->downloads[slot];
    int64_t bytes = box_elements(piece) * stream->out.element;
    TRY(span_begin(lane, span, STAGE_D2H, tile->step, bytes, error));
    enum status queued = stream_copy(lane, DOWN, &tile->box[lane->number], lane->out[tile->buffer], piece,
                                     staging_buffer(stream, DOWN, slot), stream->out.element, error);
    return span_end(lane, span, queued, error);
}

static enum status store_band(struct lane *lane, const struct finished *tile, struct error *error) {
    const struct device_operations *ops = lane->device->operations;
    struct stream *stream = lane->stream;
    struct store *store = &stream->store;
    const struct box *box = &tile->box[lane->number];
    if (lane->device->unified) {
        TRY(ops->event_wait(lane->device, lane->computed[tile->buffer], error));
        return write_piece(stream, tile, tile->buffer, box, lane->out[tile->buffer], error);
    }
    TRY(ops->queue_wait_event(lane->device, lane->computed[tile->buffer], QUEUE_DOWNLOAD, error));
    const struct storage *storage = &stream->tiling->out_storage;
    struct grid grid = {.grain = storage->chunk};
    struct cut cut = cut_box(box, &grid, plan_staging_elements(storage, stream->out.element));
    for (int64_t queued = 0, written = 0; written < cut.pieces; written++) {
        for (; queued < cut.pieces && queued - written < STAGING_BUFFERS; queued++) {
            struct box piece = cut_piece(&cut, queued);
            TRY(download_piece(lane, tile, (int)((store->next + queued) % STAGING_BUFFERS), &piece, error));
        }
        int slot = (int)((store->next + written) % STAGING_BUFFERS);
        struct box piece = cut_piece(&cut, written);
        TRY(span_collect(lane, &lane->downloads[slot], slot, &lane->d2h_s, error));
        TRY(write_piece(stream, tile, slot, &piece, staging_buffer(stream, DOWN, slot), error));
    }
    store->next += cut.pieces;
    return STATUS_OK;
}

static enum status store_tile(struct stream *stream, const struct finished *tile, struct error *error) {
    for (int i = 0; i < stream->bands.lanes; i++)
        if (tile->works[i]) TRY(store_band(&stream->lanes[i], tile, error));
    return STATUS_OK;
}

static void *store_main(void *argument) {
    struct stream *stream = argument;
    struct store *store = &stream->store;
    pthread_mutex_lock(&store->mutex);
    for (;;) {
        while (store->pending == 0 && !store->closing) pthread_cond_wait(&store->changed, &store->mutex);
        if (store->pending == 0) break;
        struct finished tile = store->queue[store->first];
        if (store->error.status == STATUS_OK) {
            struct error error = {.status = STATUS_OK};
            pthread_mutex_unlock(&store->mutex);
            enum status status = store_tile(stream, &tile, &error);
            pthread_mutex_lock(&store->mutex);
            if (status != STATUS_OK && store->error.status == STATUS_OK) store->error = error;
        }
        store->first = (store->first + 1) % BUFFERS;
        store->pending--;
        pthread_cond_broadcast(&store->changed);
    }
    pthread_mutex_unlock(&store->mutex);
    return NULL;
}

enum status store_begin(struct stream *stream, struct error *error) {
    struct store *store = &stream->store;
    pthread_mutex_init(&store->mutex, NULL);
    pthread_cond_init(&store->changed, NULL);
    int code = pthread_create(&store->thread, NULL, store_main, stream);
    if (code != 0) return FAIL_CALL(error, STATUS_DEVICE, "pthread_create", strerror(code));
    store->started = true;
    return STATUS_OK;
}

/* Waits until at most `most` tiles are pending. */
static enum status wait_pending(struct store *store, int most, struct error *error) {
    pthread_mutex_lock(&store->mutex);
    while (store->pending > most && store->error.status == STATUS_OK) pthread_cond_wait(&store->changed, &store->mutex);
    if (store->error.status != STATUS_OK) *error = store->error;
    enum status status = store->error.status;
    pthread_mutex_unlock(&store->mutex);
    return status;
}

enum status store_reserve(struct stream *stream, struct error *error) {
    return wait_pending(&stream->store, stream->out.count - 1, error);
}

enum status store_put(struct stream *stream, int buffer, int64_t step, struct error *error) {
    struct store *store = &stream->store;
    struct finished tile = {.buffer = buffer, .step = step};
    for (int i = 0; i < stream->bands.lanes; i++) {
        tile.works[i] = stream->lanes[i].works;
        tile.box[i] = stream->lanes[i].band.store;
    }
    TRY(wait_pending(store, BUFFERS - 1, error));
    pthread_mutex_lock(&store->mutex);
    store->queue[(store->first + store->pending) % BUFFERS] = tile;
    store->pending++;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->mutex);
    return STATUS_OK;
}

enum status store_end(struct stream *stream, bool drop, struct error *error) {
    struct store *store = &stream->store;
    if (!store->started) return STATUS_OK;
    pthread_mutex_lock(&store->mutex);
    store->closing = true;
    if (drop && store->error.status == STATUS_OK) store->error.status = STATUS_INTERRUPTED;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->mutex);
    pthread_join(store->thread, NULL);
    store->started = false;
    pthread_cond_destroy(&store->changed);
    pthread_mutex_destroy(&store->mutex);
    stream->result.times.write_s += store->write_s;
    stream->result.bytes_written += store->written;
    if (!drop && store->error.status != STATUS_OK) *error = store->error;
    return drop ? STATUS_OK : store->error.status;
}
