/* residents.h - keeps device copies of whole arrays from one run to the next (if several devices share runs, copies of
 * each device's bands), and the pinned staging buffers that all runs use. Streams allocate their device memory here
 * too, so that residents can be evicted when a run needs memory. */
#ifndef RUNNER_RESIDENTS_H
#define RUNNER_RESIDENTS_H

#include "stream.h"

enum direction { UP, DOWN, DIRECTIONS }; /* to the device, from it */

struct pinned {
    void *memory;
    int64_t bytes;
};

struct resident {
    struct resident *next;
    const struct array *array;
    struct operand as; /* the operand whose merged axes it has */
    struct box box;    /* the part of the array that is in `memory` */
    void *memory;
    int64_t bytes;
    bool loaded; /* the array's values are in `memory` or being uploaded */
    int users;   /* number of operands of the current run that use `memory` */
};

struct residents {
    struct device *device;
    int64_t budget, used;   /* bytes that residents and streams may use, and use now */
    struct resident *first; /* list of all residents, the most recently used first */
    struct pinned staging[DIRECTIONS][STAGING_BUFFERS];
};

/* Allocates device memory for a run. If the budget or the device is full, it evicts residents without users, the least
 * recently used first. STATUS_MEMORY: still not enough. */
enum status residents_allocate(struct residents *residents, int64_t bytes, void **memory, struct error *error);
/* Frees memory from residents_allocate. */
void residents_release(struct residents *residents, void *memory, int64_t bytes);

/* Finds the copy of a box of an array, with axes merged as in `as`, and adds a user; NULL: there is none. */
struct resident *residents_find(struct residents *residents, const struct array *array, const struct operand *as,
                                const struct box *box);
/* Finds a copy as residents_find does, or creates one that is not loaded yet, with one user. `residents` owns
 * *resident. Fails as residents_allocate does. */
enum status residents_reserve(struct residents *residents, const struct array *array, const struct operand *as,
                              const struct box *box, int64_t bytes, struct resident **resident, struct error *error);
/* Removes a user. A copy that was never loaded is freed with its last user. */
void residents_leave(struct residents *residents, struct resident *resident);
/* Frees an array's copies. Call it when the array's contents change. */
void residents_drop(struct residents *residents, const struct array *array);
/* Turns memory from residents_allocate into a copy of a box of an array, and frees older copies of the array. */
void residents_adopt(struct residents *residents, const struct array *array, const struct operand *as,
                     const struct box *box, void *memory, int64_t bytes);

/* Makes each staging buffer of a direction at least `bytes` large. */
enum status residents_reserve_staging(struct residents *residents, enum direction direction, int64_t bytes,
                                      struct error *error);

#endif
