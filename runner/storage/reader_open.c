/* reader_open.c - opens and checks readers: if a file was written while the job ran, the hash decides whether it still
 * holds the values that were read. Lists the open readers of a job; whoever opens a reader closes it. */
#include "reader.h"

#include "../base/fail.h"
#include "untrusted/fence.h"
#include <stdlib.h>
#include <string.h>

#define MAX_REHASHES 4 /* of a file that is written again and again */

/* Does the plan's description of an input still fit its file? Asked while nothing was read. No for a result, a
 * concatenated input and a field, which are not described again. */
static bool described_alike(const struct array *array) {
    FREED_BY(array_free) struct array again = {0};
    if (!array->from_job || array->parts || array->from_job->field) return false;
    bool alike = !array_describe(array->from_job, &again, IGNORED) && again.stored == array->stored &&
                 again.shape.rank == array->shape.rank && again.filtered == array->filtered &&
                 shape_equal(&again.chunk, &array->chunk) && !again.decoding == !array->decoding;
    for (int i = 0; alike && i < array->shape.rank; i++)
        alike = array->view.first[i] + (array->shape.size[i] - 1) * array->view.step[i] < again.shape.size[i];
    OWNED char *one = alike && array->decoding ? decoding_key(array->decoding) : NULL;
    OWNED char *other = one ? decoding_key(again.decoding) : NULL;
    alike = alike && (!one || strcmp(one, other) == 0);
    return alike;
}

/* Do the files hold the values whose hash is known? `now`: the version of the only file; NULL: the array has pieces.
 * Not if no hash is known, or if the files change again during each of MAX_REHASHES attempts. */
static bool holds_its_values(const struct reader *reader, const struct stat *now) {
    FREED_BY(reader_free) struct reader again = {0};
    if (!reader->hash[0] || reader->rehashes == MAX_REHASHES) return false;
    reader_init(&again, reader->array);
    if (now) again.version = *now;
    for (int i = 0; again.pieces && reader->pieces && i < again.pieces->count; i++)
        again.pieces->items[i].reader.version = reader->pieces->items[i].reader.version;
    again.rehashes = reader->rehashes + 1;
    return !reader_hash(&again, IGNORED) && strcmp(again.hash, reader->hash) == 0;
}

/* Accepts another version of the file if it holds the values that were read or, while nothing was read, if the plan's
 * description fits it. STATUS_IO: does not accept it. */
static enum status accept_version(struct reader *reader, const struct stat *now, struct error *error) {
    const struct stat *version = &reader->version;
    bool good = !reader->foreign || now->st_ino != version->st_ino || now->st_dev != version->st_dev ? false
                : reader->used || reader->hash[0] ? holds_its_values(reader, now)
                                                  : described_alike(reader->array);
    if (!good) return reader_fail_changed(reader, error);
    reader->version = *now;
    return STATUS_OK;
}

/* Checks the values of an array in pieces if the file of one was written after it was read. */
static enum status check_pieces(struct reader *reader, struct error *error) {
    const struct reader *doubted = NULL;
    for (int i = 0; i < reader->pieces->count; i++)
        if (reader->pieces->items[i].reader.doubted) doubted = &reader->pieces->items[i].reader;
    if (!doubted || !reader->foreign) return STATUS_OK;
    if (!holds_its_values(reader, NULL)) return reader_fail_changed(doubted, error);
    for (int i = 0; i < reader->pieces->count; i++) reader->pieces->items[i].reader.doubted = false;
    return STATUS_OK;
}

enum status reader_check(struct reader *reader, struct error *error) {
    struct stat now;
    if (reader->pieces) return check_pieces(reader, error);
    return reader_is_written(reader, &now) ? accept_version(reader, &now, error) : STATUS_OK;
}

enum status reader_open(struct reader *reader, struct error *error) {
    /* An input that could not be read stays unreadable, because keys may have been computed without its hash. */
    if (reader->unreadable) return fail(error, STATUS_IO, "%s", reader->unreadable);
    if (reader->dataset || !reader->file) return reader_check(reader, error);
    FENCE(reader->file);
    struct stat version;
    enum status status = reader_open_dataset(reader, &version, error);
    if (!status && !reader_same_version(&version, &reader->version)) status = accept_version(reader, &version, error);
    if (!status) status = reader_prepare(reader, error);
    return status ? reader_fail_open(reader, error) : STATUS_OK;
}

/* ---- the readers of a job ---- */

void readers_init(struct readers *readers, const struct array *arrays, int count) {
    *readers = (struct readers){.count = count};
    readers->items = must_malloc((unsigned long)count * sizeof *readers->items + 1);
    for (int i = 0; i < count; i++) reader_init(&readers->items[i], &arrays[i]);
}

void readers_free(struct readers *readers) {
    for (int i = 0; i < readers->count; i++) reader_free(&readers->items[i]);
    free(readers->items);
}

/* Removes an entry from the list of open readers. */
static void remove_open(struct readers *readers, int entry) {
    int behind = --readers->open_count - entry;
    memmove(&readers->open[entry], &readers->open[entry + 1], (size_t)behind * sizeof *readers->open);
}

enum status readers_open(struct readers *readers, int array, struct error *error) {
    struct reader *reader = &readers->items[array];
    int entry = 0;
    while (entry < readers->open_count && readers->open[entry] != reader) entry++;
    if (entry == READERS_OPEN) {
        entry = 0;
        reader_close(readers->open[entry]);
    }
    if (entry < readers->open_count) remove_open(readers, entry);
    readers->open[readers->open_count++] = reader;
    return reader_open(reader, error);
}

void readers_forgive(struct readers *readers) {
    for (int i = 0; i < readers->count; i++) {
        free(readers->items[i].unreadable);
        readers->items[i].unreadable = NULL;
    }
}

void readers_close_before(struct readers *readers, int task) {
    for (int entry = readers->open_count - 1; entry >= 0; entry--) {
        if (readers->open[entry]->array->last_reader >= task) continue;
        reader_close(readers->open[entry]);
        remove_open(readers, entry);
    }
}
