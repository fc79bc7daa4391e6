/* workers.h - runs work on a thread pool with a thread for each core of the process: reading, decoding, encoding.
 *
 * Kernels use OpenMP, whose threads meet at barriers. When more threads than cores are busy (a reader, a writer, a
 * driver that spins), each barrier waits for a thread that lost its core. This pool has no barriers: a batch is done
 * when its items are done, by whichever threads, and several batches may run at once. */
#ifndef RUNNER_WORKERS_H
#define RUNNER_WORKERS_H

#include <stdint.h>

/* Calls work(context, i, thread) for i = 0 .. count-1, in any order and in parallel, on the caller's thread too, and
 * returns when all calls are done. `thread` is below workers_count(). Within one workers_run no two concurrent calls
 * have the same `thread`, so it can index scratch memory; two concurrent callers of workers_run are both thread 0. */
void workers_run(int64_t count, void (*work)(void *context, int64_t item, int thread), void *context);

/* The number of threads that may work on one batch: the processors in the affinity mask at the first call, or fewer
 * if a CPU quota, SLURM_CPUS_PER_TASK or OMP_NUM_THREADS is lower. It does not change afterwards, so scratch memory
 * may be sized by it. The first call must come from the main thread, which it unbinds from the OpenMP place that
 * OMP_PROC_BIND chose. */
int workers_count(void);

/* Limits the parallel regions of the calling thread to workers_count() threads. Each thread begins with OpenMP's own
 * number, that of OMP_NUM_THREADS (libgomp crashes at 100000) or of all processors: a thread that runs regions calls
 * this first. */
void workers_limit_openmp(void);

#endif
