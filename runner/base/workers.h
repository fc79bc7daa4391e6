/* workers.h - the process's threads for reading, decoding and encoding: one for each core that it may use.
 *
 * Kernels have OpenMP. Its teams meet at a barrier, and where more threads than cores are busy, as when a reader, a
 * writer and a driver's spinning wait share the machine, each such meeting waits for whoever lost its core. Here a job
 * is over when its items are done, whoever did them, and several jobs may be under way at once. */
#ifndef RUNNER_WORKERS_H
#define RUNNER_WORKERS_H

#include <stdint.h>

/* Calls work(context, i, thread) for i = 0 .. count-1, in any order, many at once, the caller's thread among them, and
 * returns when all are done. `thread` is below workers_count(), and no two calls that run at the same time have the
 * same, so it can name scratch memory; but a job that is run by several callers at once has it from each. */
void workers_run(int64_t count, void (*work)(void *context, int64_t item, int thread), void *context);

/* The processors that this process could use when it first asked, by its affinity, and less where Slurm or OpenMP say
 * so: the threads that may work on one job. The number does not change afterwards, so scratch memory may be sized by
 * it. To be called first from the main thread, which it frees from the place that OMP_PROC_BIND gave it. */
int workers_count(void);

#endif
