/* box_cache.h - caches in host memory the boxes that verification reads of a run's inputs and output, so that a chunk
 * is not decoded once for each sample. Boxes of inputs are copied during the pass, right after they are read and before
 * any kernel could overwrite them. Boxes that the pass does not read (those of a resident) are read in one walk over
 * the chunks. */
#ifndef RUNNER_BOX_CACHE_H
#define RUNNER_BOX_CACHE_H

#include "../plan/plan.h"
#include "../stream/stream.h"

struct box_cache;

#define CACHED_OUTPUT (-1) /* a value of parameters called `input`: the output */

/* The caller frees with box_cache_free. */
struct box_cache *box_cache_create(void);
void box_cache_free(struct box_cache *cache);
/* Switches to a run. If it is of the last run's task, keeps all boxes; if not, keeps the complete inputs that it reads
 * too. The cache holds at most plan_held_bytes. */
void box_cache_begin(struct box_cache *cache, const struct plan *plan, const struct run *run);

/* Requests a box of an input, or of the output. false: the box does not fit. */
bool box_cache_request(struct box_cache *cache, int input, const struct box *box);
/* Requests all inputs completely. false: they do not fit, and nothing was requested. */
bool box_cache_request_inputs(struct box_cache *cache);
/* Frees the boxes of the output. */
void box_cache_drop_output(struct box_cache *cache);

/* Copies requested boxes during a pass. */
struct box_observer box_cache_observer(struct box_cache *cache);
/* Reads requested boxes that the pass has not read. Returns the reader's status; STATUS_RUN: no host memory. */
enum status box_cache_fill(struct box_cache *cache, const struct host_reader *reader, struct error *error);

/* A reader that serves cached boxes from memory and all others by `reader`, which must outlive it. If chunks are
 * encoded, it reads and keeps all that a box touches: the next box is usually in these chunks. */
struct host_reader box_cache_reader(struct box_cache *cache, const struct host_reader *reader);

#endif
