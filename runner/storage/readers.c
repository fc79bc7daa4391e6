/* readers.c - lists the open readers of a job; whoever opens a reader closes it. */
#include "reader.h"

#include "../base/fail.h"
#include <stdlib.h>
#include <string.h>

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
