/* residents.h - what stays on a device from one run to the next: copies of whole arrays (where several devices share a
 * run, of the device's bands of them) and the pinned host buffers that all runs copy through. Streams allocate their
 * device memory here, so that residents are evicted when a run needs room. */
#ifndef RUNNER_RESIDENTS_H
#define RUNNER_RESIDENTS_H

#include "stream.h"

enum direction { UP, DOWN, DIRECTIONS };

struct pinned {
    void *memory;
    int64_t bytes;
};

struct resident {
    struct resident *next;
    const struct array *array;
    struct operand as; /* how its axes are merged */
    struct box box;    /* the part of it that is there */
    void *memory;
    int64_t bytes;
    bool loaded; /* the array's values are there or being uploaded */
    int users;   /* operands of the run under way that use this memory */
};

struct residents {
    struct device *device;
    int64_t budget, used;   /* bytes: the most, and those that residents and streams take now */
    struct resident *first; /* the most recently used first */
    struct pinned staging[DIRECTIONS][STAGING_BUFFERS];
};

/* Allocates device memory for a run. When the budget or the device is full, residents without users are evicted, the
 * least recently used first. STATUS_MEMORY: still not enough. */
enum status residents_allocate(struct residents *residents, int64_t bytes, void **memory, struct error *error);
void residents_release(struct residents *residents, void *memory, int64_t bytes);

/* The copy of a box of an array as that operand, with one more user; NULL: there is none. */
struct resident *residents_find(struct residents *residents, const struct array *array, const struct operand *as,
                                const struct box *box);
/* Makes a copy that is not loaded yet and has one user. Owned by `residents`, as all copies are. */
enum status residents_reserve(struct residents *residents, const struct array *array, const struct operand *as,
                              const struct box *box, int64_t bytes, struct resident **resident, struct error *error);
/* Ends one use. A copy that was never loaded is freed with its last user. */
void residents_leave(struct residents *residents, struct resident *resident);
/* Frees an array's copies, because the array's contents changed. */
void residents_drop(struct residents *residents, const struct array *array);
/* Makes memory from residents_allocate a copy of a box of an array, replacing older ones. */
void residents_adopt(struct residents *residents, const struct array *array, const struct operand *as,
                     const struct box *box, void *memory, int64_t bytes);

/* Makes the pinned host buffers of one direction at least `bytes` large each. */
enum status residents_reserve_staging(struct residents *residents, enum direction direction, int64_t bytes,
                                      struct error *error);

#endif
