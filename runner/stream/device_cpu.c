/* device_cpu.c - implements the CPU as a device: a queue is a thread that does its work in order.
 *
 * Device memory is host memory (`unified`), so streaming reads and writes operands in place. An event is recorded on
 * one queue of the device that created it. It counts its records, and a thread that waits for the event waits for the
 * record that was the latest when the wait was requested. A queue without work passes a record, and a wait for an event
 * that has passed, without waking its thread. In tests, several CPU devices in one process stand in for
 * GPUs. */
#include "../../kernels/map/before.h"
#include "../base/clock.h"
#include "../base/cpu_load.h"
#include "../base/fail.h"
#include "../base/host.h"
#include "../base/interrupt.h"
#include "../base/workers.h"
#include "device.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALIGNMENT 256 /* bytes, as device.h promises */

struct cpu_device;

struct event {
    struct cpu_device *cpu; /* the device that created it; its mutex guards the members below */
    int64_t recorded;       /* number of records put into the queue */
    int64_t passed;         /* number of records that the queue has reached */
    double time_s;          /* when the queue reached the latest record */
};

/* An entry of a queue; `run` uses the members that it needs. */
struct queued_work {
    struct queued_work *next;
    void (*run)(struct cpu_device *cpu, const struct queued_work *work);
    struct copy copy; /* do_fill uses `to` and `bytes` only */
    const struct kernel *kernel;
    struct launch launch;
    int value; /* do_fill: of each byte */
    struct event *event;
    int64_t record; /* number of the event's record */
};

struct worker {
    struct cpu_device *cpu;
    pthread_t thread;
    pthread_cond_t wake;              /* signalled: there is work, or the device closes */
    struct queued_work *first, *last; /* the queue; its first entry is being done */
};

struct cpu_device {
    struct device base;
    struct worker workers[QUEUE_COUNT];
    int started;            /* workers whose thread runs */
    pthread_mutex_t mutex;  /* guards the members below, the workers' lists and the events */
    pthread_cond_t changed; /* signalled: an event has passed, or a queue is empty */
    bool closing;
    struct error failure; /* the first failure in a queue; the next wait reports it */
    double probe_s;       /* the latest probe's time */
    void *evictor;        /* memory that flush_cache overwrites */
};

static struct cpu_device *cpu_of(struct device *device) {
    return (struct cpu_device *)device;
}

/* ---- functions of struct queued_work: they run on a worker's thread, without the mutex --------------------- */

static void do_copy(struct cpu_device *cpu, const struct queued_work *work) {
    (void)cpu;
    const struct copy *copy = &work->copy;
    for (int64_t row = 0; row < copy->rows; row++)
        memcpy((char *)copy->to + row * copy->to_pitch, (const char *)copy->from + row * copy->from_pitch,
               (size_t)copy->bytes);
}

static void do_fill(struct cpu_device *cpu, const struct queued_work *work) {
    (void)cpu;
    memset(work->copy.to, work->value, (size_t)work->copy.bytes);
}

/* Runs a kernel. After a signal, launches that are still in the queue fail instead. */
static void do_launch(struct cpu_device *cpu, const struct queued_work *work) {
    struct error error = {.status = STATUS_OK};
    int code = interrupt_check(&error) ? 0 : kernel_launch(work->kernel, &work->launch);
    if (code != 0) fail(&error, STATUS_RUN, "kernel '%s' failed on the CPU with code %d", work->kernel->name, code);
    if (error.status == STATUS_OK) return;
    pthread_mutex_lock(&cpu->mutex);
    if (cpu->failure.status == STATUS_OK) cpu->failure = error;
    pthread_mutex_unlock(&cpu->mutex);
}

/* Marks an event's record as passed. */
static void do_record(struct cpu_device *cpu, const struct queued_work *work) {
    pthread_mutex_lock(&cpu->mutex);
    work->event->passed = work->record;
    work->event->time_s = now_s();
    pthread_mutex_unlock(&cpu->mutex);
    pthread_cond_broadcast(&cpu->changed);
}

/* Probes the cores: how fast are they now? */
static void do_probe(struct cpu_device *cpu, const struct queued_work *work) {
    (void)work;
    double seconds = probe_seconds(cpu->base.facts.multiprocessors);
    pthread_mutex_lock(&cpu->mutex);
    cpu->probe_s = seconds;
    pthread_mutex_unlock(&cpu->mutex);
}

/* Waits until an event of this or another device has passed a record. */
static void do_wait(struct cpu_device *cpu, const struct queued_work *work) {
    (void)cpu;
    struct cpu_device *owner = work->event->cpu;
    pthread_mutex_lock(&owner->mutex);
    while (work->event->passed < work->record) pthread_cond_wait(&owner->changed, &owner->mutex);
    pthread_mutex_unlock(&owner->mutex);
}

/* The thread of a queue: does its work in order, until the device closes. */
static void *worker_main(void *argument) {
    struct worker *worker = argument;
    struct cpu_device *cpu = worker->cpu;
    workers_limit_openmp();
    pthread_mutex_lock(&cpu->mutex);
    for (;;) {
        while (!worker->first && !cpu->closing) pthread_cond_wait(&worker->wake, &cpu->mutex);
        struct queued_work *work = worker->first;
        if (!work) break;
        pthread_mutex_unlock(&cpu->mutex);
        work->run(cpu, work);
        pthread_mutex_lock(&cpu->mutex);
        worker->first = work->next;
        if (!worker->first) pthread_cond_broadcast(&cpu->changed);
        free(work);
    }
    pthread_mutex_unlock(&cpu->mutex);
    return NULL;
}

/* Appends work to a queue. */
static enum status submit(struct device *device, enum queue queue, const struct queued_work *work,
                          struct error *error) {
    (void)error; /* the interface has this parameter; nothing here can fail */
    struct cpu_device *cpu = cpu_of(device);
    struct worker *worker = &cpu->workers[queue];
    struct queued_work *copy = must_malloc(sizeof *copy);
    *copy = *work;
    pthread_mutex_lock(&cpu->mutex);
    if (worker->first)
        worker->last->next = copy;
    else
        worker->first = copy;
    worker->last = copy;
    pthread_mutex_unlock(&cpu->mutex);
    pthread_cond_signal(&worker->wake); /* after the unlock, so that the thread need not wait for the mutex */
    return STATUS_OK;
}

/* Reports and clears the failure of work since the last wait. Called with the mutex held. */
static enum status report_failure(struct cpu_device *cpu, struct error *error) {
    enum status status = cpu->failure.status;
    if (status == STATUS_OK) return STATUS_OK;
    fail(error, status, "%s", cpu->failure.text);
    cpu->failure = (struct error){.status = STATUS_OK};
    return status;
}

/* ---- the device's operations ------------------------------------------------------------------------------------ */

static enum status cpu_allocate(struct device *device, int64_t bytes, void **memory, struct error *error) {
    /* With overcommit, Linux grants more than the host's memory and kills the process when it is used. */
    bool possible = bytes <= device->facts.memory_total;
    *memory = possible ? aligned_alloc(ALIGNMENT, ((size_t)bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT) : NULL;
    if (*memory) return STATUS_OK;
    return fail(error, STATUS_MEMORY, "the host is out of memory: %lld bytes were requested, it has %lld",
                (long long)bytes, (long long)device->facts.memory_total);
}

static void cpu_release(struct device *device, void *memory) {
    (void)device;
    free(memory);
}

static enum status cpu_copy(struct device *device, const struct copy *copy, enum queue queue, struct error *error) {
    return submit(device, queue, &(struct queued_work){.run = do_copy, .copy = *copy}, error);
}

static bool cpu_enable_peer(struct device *device, struct device *other) {
    (void)device, (void)other;
    return true;
}

static enum status cpu_fill(struct device *device, void *memory, int value, int64_t bytes, struct error *error) {
    const struct queued_work work = {.run = do_fill, .copy = {.to = memory, .bytes = bytes}, .value = value};
    return submit(device, QUEUE_COMPUTE, &work, error);
}

static enum status cpu_launch(struct device *device, const struct kernel *kernel, struct launch *launch,
                              struct error *error) {
    launch->kernel = kernel;
    launch->stream = NULL;
    if (launch->multiprocessors == 0) launch->multiprocessors = device->facts.multiprocessors;
    const char *refusal = kernel_refusal(kernel, launch);
    if (refusal) return fail(error, STATUS_RUN, "kernel '%s' refuses this tile: %s", kernel->name, refusal);
    struct queued_work work = {.run = do_launch, .kernel = kernel, .launch = *launch};
    return submit(device, QUEUE_COMPUTE, &work, error);
}

static enum status cpu_flush_cache(struct device *device, struct error *error) {
    struct cpu_device *cpu = cpu_of(device);
    int64_t bytes = 2 * device->facts.cache_bytes;
    if (!cpu->evictor && cpu_allocate(device, bytes, &cpu->evictor, error) != STATUS_OK) return error->status;
    return cpu_fill(device, cpu->evictor, 0, bytes, error);
}

static enum status cpu_event_create(struct device *device, struct event **event, struct error *error) {
    (void)error;
    *event = must_malloc(sizeof **event);
    **event = (struct event){.cpu = cpu_of(device)};
    return STATUS_OK;
}

/* The caller synchronizes first: no queue may still refer to the event. */
static void cpu_event_destroy(struct device *device, struct event *event) {
    (void)device;
    free(event);
}

/* Numbers an event's records in the order of the calls; records at once if the queue is empty. */
static enum status cpu_event_record(struct device *device, struct event *event, enum queue queue, struct error *error) {
    struct cpu_device *cpu = cpu_of(device);
    pthread_mutex_lock(&cpu->mutex);
    const struct queued_work work = {.run = do_record, .event = event, .record = ++event->recorded};
    bool idle = !cpu->workers[queue].first;
    pthread_mutex_unlock(&cpu->mutex);
    if (!idle) return submit(device, queue, &work, error);
    do_record(cpu, &work);
    return STATUS_OK;
}

static enum status cpu_queue_wait_event(struct device *device, struct event *event, enum queue queue,
                                        struct error *error) {
    pthread_mutex_lock(&event->cpu->mutex);
    const struct queued_work work = {.run = do_wait, .event = event, .record = event->recorded};
    bool passed = event->passed >= work.record;
    pthread_mutex_unlock(&event->cpu->mutex);
    return passed ? STATUS_OK : submit(device, queue, &work, error);
}

static enum status cpu_event_wait(struct device *device, struct event *event, struct error *error) {
    struct cpu_device *cpu = cpu_of(device);
    pthread_mutex_lock(&cpu->mutex);
    int64_t record = event->recorded;
    while (event->passed < record) pthread_cond_wait(&cpu->changed, &cpu->mutex);
    enum status status = report_failure(cpu, error);
    pthread_mutex_unlock(&cpu->mutex);
    return status;
}

static enum status cpu_event_elapsed(struct device *device, struct event *from, struct event *to, double *seconds,
                                     struct error *error) {
    struct cpu_device *cpu = cpu_of(device);
    pthread_mutex_lock(&cpu->mutex);
    bool passed = from->passed > 0 && to->passed > 0;
    *seconds = to->time_s - from->time_s;
    pthread_mutex_unlock(&cpu->mutex);
    return passed ? STATUS_OK
                  : fail(error, STATUS_DEVICE, "the time between two events was requested before both have passed");
}

static enum status cpu_synchronize(struct device *device, struct error *error) {
    struct cpu_device *cpu = cpu_of(device);
    pthread_mutex_lock(&cpu->mutex);
    for (int queue = 0; queue < QUEUE_COUNT; queue++)
        while (cpu->workers[queue].first) pthread_cond_wait(&cpu->changed, &cpu->mutex);
    enum status status = report_failure(cpu, error);
    pthread_mutex_unlock(&cpu->mutex);
    return status;
}

/* Finishes the work in the queues, then frees the device. */
static void cpu_close(struct device *device) {
    struct cpu_device *cpu = cpu_of(device);
    pthread_mutex_lock(&cpu->mutex);
    cpu->closing = true;
    for (int queue = 0; queue < cpu->started; queue++) pthread_cond_signal(&cpu->workers[queue].wake);
    pthread_mutex_unlock(&cpu->mutex);
    for (int queue = 0; queue < cpu->started; queue++) pthread_join(cpu->workers[queue].thread, NULL);
    for (int queue = 0; queue < QUEUE_COUNT; queue++) pthread_cond_destroy(&cpu->workers[queue].wake);
    pthread_cond_destroy(&cpu->changed);
    pthread_mutex_destroy(&cpu->mutex);
    free(cpu->evictor);
    free(cpu);
}

/* Tells perf to start or to stop recording, and waits for its answer. Without PERF_CONTROL only waits for the
 * queues. */
static enum status cpu_profile(struct device *device, bool on, struct error *error) {
    const char *descriptors = getenv(PERF_CONTROL), *word = on ? "enable\n" : "disable\n";
    int control, answered;
    char answer[8];
    TRY(cpu_synchronize(device, error));
    if (!descriptors || sscanf(descriptors, "%d,%d", &control, &answered) != 2) return STATUS_OK;
    if (write(control, word, strlen(word)) > 0 && read(answered, answer, sizeof answer) > 0) return STATUS_OK;
    return fail(error, STATUS_IO, "perf cannot be switched on or off: %s", strerror(errno));
}

/* Probes the cores after the launches in the queue, by the thread that made them. */
static struct sample_conditions cpu_conditions(struct device *device) {
    struct cpu_device *cpu = cpu_of(device);
    struct sample_conditions conditions = CONDITIONS_UNKNOWN;
    if (cpu_load_is_ignored()) return conditions;
    submit(device, QUEUE_COMPUTE, &(struct queued_work){.run = do_probe}, IGNORED);
    pthread_mutex_lock(&cpu->mutex);
    while (cpu->workers[QUEUE_COMPUTE].first) pthread_cond_wait(&cpu->changed, &cpu->mutex);
    conditions.probe_s = cpu->probe_s;
    pthread_mutex_unlock(&cpu->mutex);
    return conditions;
}

static const struct device_operations cpu_operations = {
    .close = cpu_close,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .allocate_host = cpu_allocate,
    .release_host = cpu_release,
    .copy = cpu_copy,
    .enable_peer = cpu_enable_peer,
    .fill = cpu_fill,
    .launch = cpu_launch,
    .flush_cache = cpu_flush_cache,
    .event_create = cpu_event_create,
    .event_destroy = cpu_event_destroy,
    .event_record = cpu_event_record,
    .queue_wait_event = cpu_queue_wait_event,
    .event_wait = cpu_event_wait,
    .event_elapsed = cpu_event_elapsed,
    .synchronize = cpu_synchronize,
    .profile = cpu_profile,
};

/* Makes idle OpenMP threads sleep. After a parallel region they would spin for milliseconds on cores that have to read,
 * decode and write. libgomp makes them sleep if it counts more threads than cores: it does so once the queue's thread,
 * which runs the kernels, has a team on all cores, and this thread has one of two. */
static void make_idle_threads_sleep(void) {
    int threads = 0;
#pragma omp parallel reduction(+ : threads) num_threads(2)
    threads++;
    (void)threads;
}

enum status device_cpu_open(struct device **device, struct error *error) {
    struct cpu_device *cpu = must_malloc(sizeof *cpu);
    *cpu = (struct cpu_device){.base = {.operations = &cpu_operations, .unified = true, .conditions = cpu_conditions}};
    device_cpu_facts(&cpu->base.facts);
    make_idle_threads_sleep();
    pthread_mutex_init(&cpu->mutex, NULL);
    pthread_cond_init(&cpu->changed, NULL);
    for (int queue = 0; queue < QUEUE_COUNT; queue++) {
        cpu->workers[queue].cpu = cpu;
        pthread_cond_init(&cpu->workers[queue].wake, NULL);
    }
    for (; cpu->started < QUEUE_COUNT; cpu->started++) {
        struct worker *worker = &cpu->workers[cpu->started];
        int code = pthread_create(&worker->thread, NULL, worker_main, worker);
        if (code == 0) continue;
        cpu_close(&cpu->base);
        return FAIL_CALL(error, STATUS_DEVICE, "pthread_create", strerror(code));
    }
    *device = &cpu->base;
    return STATUS_OK;
}

/* ---- facts ------------------------------------------------------------------------------------------------------ */

void device_host_facts(struct device_facts *facts) {
    int threads = workers_count();
    facts->host_threads = threads;
    /* Interpolated from measurements with 1 to 16 threads on the host of an H200. */
    facts->read_bytes_per_s = threads < 7 ? 6.5e9 * threads : 45e9;
    facts->write_bytes_per_s = threads < 2 ? 3e9 : 5e9;
}

void device_cpu_facts(struct device_facts *facts) {
    const char *team = getenv("TILERUN_CPU_DEVICES"); /* for tests: the number of CPU devices, each with all cores */
    *facts = (struct device_facts){.kind = DEVICE_CPU, .id = "cpu", .team = 1, .multiprocessors = workers_count()};
    if (team && atoi(team) > 1) facts->team = atoi(team) < MAX_DEVICES ? atoi(team) : MAX_DEVICES;
    host_cpu_name(facts->name, sizeof facts->name);
    struct host_memory memory = host_memory();
    facts->memory_total = memory.total;
    facts->memory_free = memory.free;
    facts->cache_bytes = host_cache_bytes("/sys/devices/system/cpu", NULL);
#ifdef __GLIBC__
    if (facts->cache_bytes <= 0) facts->cache_bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    if (facts->cache_bytes <= 0) facts->cache_bytes = INT64_C(32) << 20;
    /* Estimates for an ordinary server, for predictions only. Operands need no copy to this device. */
    facts->copy_bytes_per_s = INFINITY;
    facts->memory_bytes_per_s = facts->multiprocessors < 8 ? 10e9 * facts->multiprocessors : 80e9;
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) facts->flops_per_s[dtype] = 10e9 * facts->multiprocessors;
    facts->flops_per_s[FLOAT32] = 60e9 * facts->multiprocessors;
    facts->flops_per_s[FLOAT64] = 30e9 * facts->multiprocessors;
    device_host_facts(facts);
}

/* ---- a build without CUDA --------------------------------------------------------------------------------------- */

#if !TILERUN_CUDA
int device_cuda_count(void) {
    return 0;
}

enum status device_cuda_facts(int number, struct device_facts *facts, struct error *error) {
    *facts = (struct device_facts){.kind = DEVICE_CUDA};
    return fail(error, STATUS_DEVICE, "cuda:%d cannot be used: tilerun was built without CUDA", number);
}

enum status device_cuda_open(int number, struct device **device, struct error *error) {
    *device = NULL;
    return fail(error, STATUS_DEVICE, "cuda:%d cannot be used: tilerun was built without CUDA", number);
}

void device_cuda_provenance(int number, struct device_provenance *provenance) {
    (void)number;
    *provenance = (struct device_provenance){.power_limit_w = NAN};
}
#endif
