/* gather.h - holds in host memory what a check reads of a run's inputs and of its output, so that no chunk is decoded
 * once for each sample: boxes of inputs are copied out of the pass, right behind the reader and before any kernel;
 * what the pass has not read (a resident) is read in one walk over the chunks. */
#ifndef RUNNER_GATHER_H
#define RUNNER_GATHER_H

#include "../plan/plan.h"
#include "../stream/stream.h"

struct gather;

#define GATHER_OUT (-1) /* the output, as an `input` */

struct gather *gather_create(void);
void gather_free(struct gather *gather);
/* From now on inputs are those of this run. Keeps whole inputs that it reads too, frees everything else. At most
 * 256 MiB are held, and no more than the job's memory. */
void gather_begin(struct gather *gather, const struct plan *plan, const struct run *run);

/* Wants a box of an input, packed, or of the output. false: there is no room for it. */
bool gather_want(struct gather *gather, int input, const struct box *box);
/* Wants all of each input. false: there is no room, and nothing more is wanted than before. */
bool gather_want_whole(struct gather *gather);
/* Frees the boxes of the output. */
void gather_forget_output(struct gather *gather);

/* Takes wanted boxes out of a pass. */
struct watch gather_watch(struct gather *gather);
/* Reads wanted boxes that no pass has brought. The status is the reader's; STATUS_RUN: no host memory. */
enum status gather_fill(struct gather *gather, const struct host_reader *reader, struct error *error);

/* Reads what is held from memory, all else by `reader`, which must live as long: of chunks that are encoded, those
 * that a box of an input touches, whole, because the next box is mostly of the same. */
struct host_reader gather_reader(struct gather *gather, const struct host_reader *reader);

#endif
