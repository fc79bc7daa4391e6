/* workers.h - the process's threads for reading, decoding and encoding: one for each core that it may use.
 *
 * Kernels use OpenMP. An OpenMP team meets at a barrier. When more threads than cores are busy (a reader, a writer, a
 * driver that spins), each barrier waits for a thread that lost its core. Here a batch is done when its items are done,
 * by whichever threads, and several batches may be under way at once. */
#ifndef RUNNER_WORKERS_H
#define RUNNER_WORKERS_H

#include <stdint.h>

/* Calls work(context, i, thread) for i = 0 .. count-1, in any order, many at once, the caller's thread among them, and
 * returns when all are done. `thread` is below workers_count(). No two calls of one workers_run have the same `thread`
 * at the same time, so it can number scratch memory; two callers of workers_run at the same time are both thread 0. */
void workers_run(int64_t count, void (*work)(void *context, int64_t item, int thread), void *context);

/* The number of threads that may work on one batch: the processors that the affinity mask allowed at the first call, or
 * fewer where Slurm or OpenMP say so. It does not change afterwards, so it may size scratch memory. The first call must
 * come from the main thread, which it unbinds from the place that OMP_PROC_BIND gave it. */
int workers_count(void);

#endif
