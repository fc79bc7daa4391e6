/* key.h - keys: a key is a hash of everything that a result depends on, as 32 hex digits. The inputs that a task reads,
 * directly or through results, must have been hashed before its key, or that of one of its runs, is asked for. */
#ifndef RUNNER_STORE_KEY_H
#define RUNNER_STORE_KEY_H

#include "../divide/units.h"
#include "../storage/reader.h"

struct keys; /* keys of a job's units and runs, each computed once */

/* The caller frees with keys_free. */
struct keys *keys_create(const struct units *units, const struct readers *readers);
void keys_free(struct keys *keys);
/* The key of a unit's run, or of a whole run, which names its part. The two keys are the same if a run is one unit. */
void keys_of_unit(struct keys *keys, const struct run *unit, char key[33]);
void keys_of_run(struct keys *keys, const struct run *whole, char key[33]);
/* The key of a task of the whole, which its result depends on. */
void keys_of_task(struct keys *keys, int number, char key[33]);
/* The key of a results file: one hash of the keys of all tasks. `runs`: marks the runs of the whole that count, as
 * if the job had no others; NULL: all. */
void keys_of_runs(struct keys *keys, const bool *runs, char key[33]);

#endif
