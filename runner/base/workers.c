/* workers.c - runs the thread pool: threads start at the first use and claim items of a few batches.
 *
 * A batch comes every 0.3 ms and takes about as long, so waiting for a lock or for a thread to wake up would dominate.
 * So a worker claims an item with one compare-and-swap, and an idle worker spins for SPIN_S before it sleeps. */
#include "workers.h"

#include "clock.h"
#include "host.h"
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#define BATCHES 8     /* at one time; a caller that finds no free batch does its work alone */
#define SPIN_S  50e-6 /* the next batch usually comes sooner than 15 threads can wake up */
#define CLOSED  UINT32_MAX

/* A slot that batches use one after another. `claim` holds the batch's generation and its next item (CLOSED: none yet).
 * A compare-and-swap of `claim` succeeds only while the slot holds the same batch, which then stays until the claimed
 * item is done. */
struct batch {
    _Atomic(uint64_t) claim; /* generation << 32 | item */
    _Atomic(uint32_t) count;
    void (*_Atomic work)(void *context, int64_t item, int thread);
    void *_Atomic context;
    atomic_llong remaining; /* items not yet done */
    bool taken;             /* guarded by the mutex */
};

struct thread {
    pthread_t id;
    int number; /* 1, 2, ...; the caller of workers_run is 0 */
};

/* Threads that sleep until a condition changes. */
struct wait_queue {
    atomic_int sleepers;
    pthread_cond_t changed;
};

static struct {
    struct batch batches[BATCHES];
    atomic_uint posted; /* counts batches */
    pthread_mutex_t mutex;
    struct wait_queue idle, callers; /* idle: workers wait for a batch; callers: wait for their batch to be done */
    struct thread *threads;
    int started;
    atomic_bool closing;
} pool = {.mutex = PTHREAD_MUTEX_INITIALIZER,
          .idle.changed = PTHREAD_COND_INITIALIZER,
          .callers.changed = PTHREAD_COND_INITIALIZER};

/* Unbinds the calling thread: with OMP_PROC_BIND or OMP_PLACES, OpenMP binds the first thread to one place (a set of
 * processors) before main begins, and every thread that starts later inherits the binding. OpenMP still binds its own
 * threads. */
static void unbind_thread(void) {
    int omp_places = omp_get_num_places(), processors[CPU_SETSIZE];
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int omp_place = 0; omp_place < omp_places; omp_place++) {
        int count = omp_get_place_num_procs(omp_place);
        if (count > CPU_SETSIZE) return;
        omp_get_place_proc_ids(omp_place, processors);
        for (int i = 0; i < count; i++)
            if (processors[i] < CPU_SETSIZE) CPU_SET(processors[i], &set);
    }
    if (CPU_COUNT(&set) > 0) sched_setaffinity(0, sizeof set, &set);
}

static int thread_count;

/* Sets thread_count (workers_count). */
static void count_threads(void) {
    unbind_thread();
    cpu_set_t set;
    int threads = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : omp_get_num_procs();
    int64_t quota = host_processor_limit("/proc/self/cgroup", "/sys/fs/cgroup");
    if (quota < threads) threads = (int)quota;
    static const char *const limits[] = {"SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS"};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const char *text = getenv(limits[i]);
        long limit = text ? strtol(text, NULL, 10) : 0;
        if (limit > 0 && limit < threads) threads = (int)limit;
    }
    thread_count = threads > 0 ? threads : 1;
}

int workers_count(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, count_threads);
    return thread_count;
}

void workers_limit_openmp(void) {
    omp_set_num_threads(workers_count());
}

/* Wakes the sleeping threads; spinning threads see the change themselves. */
static void wake(struct wait_queue *queue) {
    if (atomic_load(&queue->sleepers) == 0) return;
    pthread_mutex_lock(&pool.mutex);
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&pool.mutex);
}

/* Waits until ready(context): spins for SPIN_S, then sleeps. */
static void wait_until(struct wait_queue *queue, bool (*ready)(const void *context), const void *context) {
    double until = now_s() + SPIN_S;
    while (!ready(context)) {
        if (now_s() < until) {
            sched_yield();
            continue;
        }
        pthread_mutex_lock(&pool.mutex);
        atomic_fetch_add(&queue->sleepers, 1);
        while (!ready(context)) pthread_cond_wait(&queue->changed, &pool.mutex);
        atomic_fetch_sub(&queue->sleepers, 1);
        pthread_mutex_unlock(&pool.mutex);
    }
}

/* Claims an item of the batch and does it, unless another thread was faster. false: no item is left. */
static bool do_item(struct batch *batch, int thread) {
    uint64_t claim = atomic_load(&batch->claim);
    void (*work)(void *, int64_t, int) = atomic_load(&batch->work);
    void *context = atomic_load(&batch->context);
    uint32_t count = atomic_load(&batch->count), item = (uint32_t)claim;
    if (item == CLOSED || item >= count) return false;
    if (!atomic_compare_exchange_strong(&batch->claim, &claim, claim + 1)) return true; /* another thread claimed it */
    work(context, item, thread);
    if (atomic_fetch_sub(&batch->remaining, 1) == 1) wake(&pool.callers);
    return true;
}

static bool is_done(const void *batch) {
    return atomic_load(&((const struct batch *)batch)->remaining) == 0;
}

static bool is_posted(const void *seen) {
    return atomic_load(&pool.posted) != *(const unsigned *)seen || atomic_load(&pool.closing);
}

/* A worker thread: does items of all batches until none is left, then waits for the next batch. */
static void *worker_main(void *argument) {
    int thread = ((const struct thread *)argument)->number;
    workers_limit_openmp();
    while (!atomic_load(&pool.closing)) {
        unsigned seen = atomic_load(&pool.posted);
        for (int i = 0; i < BATCHES; i++)
            while (do_item(&pool.batches[i], thread)) {
            }
        wait_until(&pool.idle, is_posted, &seen);
    }
    return NULL;
}

/* Ends and joins the worker threads, at the exit of the process. */
static void stop(void) {
    atomic_store(&pool.closing, true);
    wake(&pool.idle);
    for (int i = 0; i < pool.started; i++) pthread_join(pool.threads[i].id, NULL);
    free(pool.threads);
}

/* A forked child has no worker threads, so its callers do the work alone. The forking thread holds the mutex across the
 * fork: had another thread held it, it would stay locked in the child. */
static void before_fork(void) {
    pthread_mutex_lock(&pool.mutex);
}

static void after_fork_in_parent(void) {
    pthread_mutex_unlock(&pool.mutex);
}

static void after_fork_in_child(void) {
    pool.started = 0;
    pthread_mutex_unlock(&pool.mutex);
}

/* Starts the worker threads. If none can be created, the callers do the work alone. */
static void start(void) {
    int count = workers_count() - 1;
    pool.threads = malloc((size_t)(count + 1) * sizeof *pool.threads);
    while (pool.threads && pool.started < count) {
        struct thread *thread = &pool.threads[pool.started];
        thread->number = pool.started + 1;
        if (pthread_create(&thread->id, NULL, worker_main, thread) != 0) break;
        pool.started++;
    }
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    atexit(stop);
}

/* Takes a free batch slot; NULL: all are taken, or there are no workers. */
static struct batch *acquire_slot(void) {
    struct batch *free_one = NULL;
    pthread_mutex_lock(&pool.mutex);
    for (int i = 0; i < BATCHES && pool.started > 0 && !free_one; i++)
        if (!pool.batches[i].taken) free_one = &pool.batches[i];
    if (free_one) free_one->taken = true;
    pthread_mutex_unlock(&pool.mutex);
    return free_one;
}

/* Puts a batch into a slot and wakes the workers. The slot is closed first, under a new generation, so that no worker
 * claims an item before all members are set. */
static void post(struct batch *batch, uint32_t count, void (*work)(void *context, int64_t item, int thread),
                 void *context) {
    uint64_t generation = (atomic_load(&batch->claim) >> 32) + 1;
    atomic_store(&batch->claim, generation << 32 | CLOSED);
    atomic_store(&batch->work, work);
    atomic_store(&batch->context, context);
    atomic_store(&batch->count, count);
    atomic_store(&batch->remaining, count);
    atomic_store(&batch->claim, generation << 32);
    atomic_fetch_add(&pool.posted, 1);
    wake(&pool.idle);
}

void workers_run(int64_t count, void (*work)(void *context, int64_t item, int thread), void *context) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (count > 1) pthread_once(&once, start);
    struct batch *batch = count > 1 && count < CLOSED ? acquire_slot() : NULL;
    if (!batch) {
        for (int64_t item = 0; item < count; item++) work(context, item, 0);
        return;
    }
    post(batch, (uint32_t)count, work, context);
    while (do_item(batch, 0)) {
    }
    wait_until(&pool.callers, is_done, batch);
    pthread_mutex_lock(&pool.mutex);
    batch->taken = false;
    pthread_mutex_unlock(&pool.mutex);
}
