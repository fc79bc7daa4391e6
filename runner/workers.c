/* workers.c - a pool of threads, started when first needed, that take items off a list of batches. */
#include "workers.h"

#include "environment.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#define SPIN_S 50e-6 /* the next batch mostly comes at once: waking 15 threads takes as long as some batches */

struct batch {
    void (*work)(void *context, int64_t item, int thread);
    void *context;
    int64_t count, next, left; /* items; the next to be taken; those not yet done */
    struct batch *following;
};

struct thread {
    pthread_t id;
    int number; /* from 1: 0 is whoever calls */
};

/* Guarded by the mutex, but for `posted`, which idle workers look at as well. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t posting, finishing;
    struct batch *first;
    struct thread *threads;
    int started;
    bool closing;
    atomic_uint posted; /* counts batches */
} pool = {
    .mutex = PTHREAD_MUTEX_INITIALIZER, .posting = PTHREAD_COND_INITIALIZER, .finishing = PTHREAD_COND_INITIALIZER};

int workers_count(void) {
    cpu_set_t set;
    long threads = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
    static const char *const limits[] = {"SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS"};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const char *text = getenv(limits[i]);
        long limit = text ? strtol(text, NULL, 10) : 0;
        if (limit > 0 && limit < threads) threads = limit;
    }
    return threads > 0 ? (int)threads : 1;
}

/* With the mutex, which is given up meanwhile. */
static void do_item(struct batch *batch, int thread) {
    int64_t item = batch->next++;
    if (batch->next == batch->count) /* nothing left to take: off the list */
        for (struct batch **link = &pool.first; *link; link = &(*link)->following)
            if (*link == batch) {
                *link = batch->following;
                break;
            }
    pthread_mutex_unlock(&pool.mutex);
    batch->work(batch->context, item, thread);
    pthread_mutex_lock(&pool.mutex);
    if (--batch->left == 0) pthread_cond_broadcast(&pool.finishing);
}

/* With the mutex, which is given up meanwhile: until there may be work. */
static void wait_for_batch(unsigned seen) {
    pthread_mutex_unlock(&pool.mutex);
    double until = now_s() + SPIN_S;
    while (atomic_load(&pool.posted) == seen && now_s() < until) sched_yield();
    pthread_mutex_lock(&pool.mutex);
    while (!pool.first && !pool.closing) pthread_cond_wait(&pool.posting, &pool.mutex);
}

static void *worker_main(void *argument) {
    int thread = ((const struct thread *)argument)->number;
    pthread_mutex_lock(&pool.mutex);
    for (;;) {
        unsigned seen = atomic_load(&pool.posted);
        if (pool.first)
            do_item(pool.first, thread);
        else if (pool.closing)
            break;
        else
            wait_for_batch(seen);
    }
    pthread_mutex_unlock(&pool.mutex);
    return NULL;
}

static void stop(void) {
    pthread_mutex_lock(&pool.mutex);
    pool.closing = true;
    pthread_cond_broadcast(&pool.posting);
    pthread_mutex_unlock(&pool.mutex);
    for (int i = 0; i < pool.started; i++) pthread_join(pool.threads[i].id, NULL);
    free(pool.threads);
}

/* A forked child has none of the threads: there its callers do the work alone. The mutex is held over the fork, so that
 * nobody else holds it in the child, where nobody could give it back. */
static void before_fork(void) {
    pthread_mutex_lock(&pool.mutex);
}

static void after_fork_in_parent(void) {
    pthread_mutex_unlock(&pool.mutex);
}

static void after_fork_in_child(void) {
    pool.first = NULL;
    pool.started = 0;
    pthread_mutex_unlock(&pool.mutex);
}

/* Where threads cannot be had, the callers do the work alone. */
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

void workers_run(int64_t count, void (*work)(void *context, int64_t item, int thread), void *context) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (count == 1) work(context, 0, 0);
    if (count <= 1) return;
    pthread_once(&once, start);
    struct batch batch = {.work = work, .context = context, .count = count, .left = count};
    pthread_mutex_lock(&pool.mutex);
    struct batch **last = &pool.first;
    while (*last) last = &(*last)->following;
    *last = &batch;
    atomic_fetch_add(&pool.posted, 1);
    pthread_cond_broadcast(&pool.posting);
    while (batch.next < batch.count) do_item(&batch, 0);
    while (batch.left > 0) pthread_cond_wait(&pool.finishing, &pool.mutex);
    pthread_mutex_unlock(&pool.mutex);
}
