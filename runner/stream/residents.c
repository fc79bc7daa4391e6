/* residents.c - allocates device memory within a budget that the current run and the residents share. */
#include "residents.h"

#include "../../kernels/core/axes.h"

#include "../base/fail.h"

#include <stdlib.h>

struct residents *residents_create(struct device *device, int64_t budget) {
    struct residents *residents = must_malloc(sizeof *residents);
    *residents = (struct residents){.device = device, .budget = budget};
    return residents;
}

/* Removes an entry from the list and frees it. */
static void remove_entry(struct residents *residents, struct resident **link) {
    struct resident *resident = *link;
    *link = resident->next;
    residents_release(residents, resident->memory, resident->bytes);
    free(resident);
}

/* Puts a copy of `entry` at the head of the list. */
static struct resident *add_entry(struct residents *residents, struct resident entry) {
    struct resident *resident = must_malloc(sizeof *resident);
    *resident = entry;
    resident->next = residents->first;
    residents->first = resident;
    return resident;
}

/* Frees the least recently used resident without users; false: all have users. */
static bool evict_oldest(struct residents *residents) {
    struct resident **oldest = NULL;
    for (struct resident **link = &residents->first; *link; link = &(*link)->next)
        if ((*link)->users == 0) oldest = link;
    if (oldest) remove_entry(residents, oldest);
    return oldest != NULL;
}

void residents_free(struct residents *residents) {
    if (!residents) return;
    struct device *device = residents->device;
    while (residents->first) remove_entry(residents, &residents->first);
    for (int direction = 0; direction < DIRECTIONS; direction++)
        for (int i = 0; i < STAGING_BUFFERS; i++) {
            struct pinned *stage = &residents->staging[direction][i];
            if (stage->memory) device->operations->release_host(device, stage->memory);
        }
    free(residents);
}

enum status residents_allocate(struct residents *residents, int64_t bytes, void **memory, struct error *error) {
    struct device *device = residents->device;
    bool evicted = true;
    while (evicted && residents->used > residents->budget - bytes) evicted = evict_oldest(residents);
    for (;;) {
        struct error full = {.status = STATUS_OK};
        enum status status = device->operations->allocate(device, bytes, memory, &full);
        if (status == STATUS_OK) break;
        if (!evict_oldest(residents)) return fail(error, status, "%s", full.text);
    }
    residents->used += bytes;
    return STATUS_OK;
}

void residents_release(struct residents *residents, void *memory, int64_t bytes) {
    residents->device->operations->release(residents->device, memory);
    residents->used -= bytes;
}

struct resident *residents_find(struct residents *residents, const struct array *array, const struct operand *as,
                                const struct box *box) {
    for (struct resident **link = &residents->first; *link; link = &(*link)->next) {
        struct resident *found = *link;
        if (found->array != array || !operands_alike(&found->as, as) || !box_equal(&found->box, box)) continue;
        *link = found->next;
        found->next = residents->first;
        residents->first = found;
        found->users++;
        return found;
    }
    return NULL;
}

enum status residents_reserve(struct residents *residents, const struct array *array, const struct operand *as,
                              const struct box *box, int64_t bytes, struct resident **resident, struct error *error) {
    *resident = residents_find(residents, array, as, box);
    if (*resident) return STATUS_OK;
    struct resident entry = {.array = array, .as = *as, .box = *box, .bytes = bytes, .users = 1};
    TRY(residents_allocate(residents, bytes, &entry.memory, error));
    *resident = add_entry(residents, entry);
    return STATUS_OK;
}

void residents_drop(struct residents *residents, const struct array *array) {
    for (struct resident **link = &residents->first; *link;)
        if ((*link)->array == array)
            remove_entry(residents, link);
        else
            link = &(*link)->next;
}

void residents_drop_before(struct residents *residents, int task) {
    if (!residents) return;
    for (struct resident **link = &residents->first; *link;)
        if ((*link)->users == 0 && (*link)->array->last_reader < task)
            remove_entry(residents, link);
        else
            link = &(*link)->next;
}

void residents_leave(struct residents *residents, struct resident *resident) {
    if (--resident->users > 0 || resident->loaded) return;
    struct resident **link = &residents->first;
    while (*link != resident) link = &(*link)->next;
    remove_entry(residents, link);
}

void residents_adopt(struct residents *residents, const struct array *array, const struct operand *as,
                     const struct box *box, void *memory, int64_t bytes) {
    residents_drop(residents, array);
    add_entry(residents, (struct resident){
                             .array = array, .as = *as, .box = *box, .memory = memory, .bytes = bytes, .loaded = true});
}

enum status residents_reserve_staging(struct residents *residents, enum direction direction, int64_t bytes,
                                      struct error *error) {
    const struct device_operations *ops = residents->device->operations;
    for (int i = 0; i < STAGING_BUFFERS; i++) {
        struct pinned *stage = &residents->staging[direction][i];
        if (stage->bytes >= bytes) continue;
        if (stage->memory) ops->release_host(residents->device, stage->memory);
        *stage = (struct pinned){.memory = NULL};
        TRY(ops->allocate_host(residents->device, bytes, &stage->memory, error));
        stage->bytes = bytes;
    }
    return STATUS_OK;
}
