/* residents.h - what outlives a run on its device: copies of whole arrays, and the pinned host buffers that all runs
 * copy through. Streams take their device memory here, so that residents give way to it. */
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
    void *memory;
    int64_t bytes;
    bool loaded; /* the array's values are there, or on their way */
    int users;   /* operands of the run under way that lie here */
};

struct residents {
    struct device *device;
    int64_t budget, used;   /* bytes: what may be, and what is taken by residents and streams together */
    struct resident *first; /* the latest used first */
    struct pinned stages[DIRECTIONS][STAGES];
};

/* Device memory for a run. Where the budget or the device is full, residents without users go, the longest unused
 * first. */
enum status residents_allocate(struct residents *residents, int64_t bytes, void **memory, struct error *error);
void residents_release(struct residents *residents, void *memory, int64_t bytes);

/* The copy of an array, for one more user; NULL: there is none. */
struct resident *residents_find(struct residents *residents, const struct array *array);
/* Makes room for one, not yet loaded, with one user. */
enum status residents_reserve(struct residents *residents, const struct array *array, int64_t bytes,
                              struct resident **resident, struct error *error);
/* Ends one use; a copy that was never loaded goes with its last user. */
void residents_leave(struct residents *residents, struct resident *resident);
/* Forgets an array (its contents changed). */
void residents_drop(struct residents *residents, const struct array *array);
/* Makes memory from residents_allocate an array's copy, in place of any older one. */
void residents_adopt(struct residents *residents, const struct array *array, void *memory, int64_t bytes);

/* Sees to it that the host buffers of one direction hold at least `bytes` each. */
enum status residents_stage(struct residents *residents, enum direction direction, int64_t bytes, struct error *error);

#endif
