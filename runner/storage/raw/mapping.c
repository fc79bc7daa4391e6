/* mapping.c - maps a part of a file with mmap, and populates its pages in a thread, step by step, up to `ahead` bytes
 * beyond the written bytes.
 *
 * Writing to a page that is no longer in the file, or that the disk cannot provide, raises SIGBUS. write() would return
 * an error instead, but is half as fast (rawwrite.c). So the signal handler jumps back into mapping_write of that
 * thread, which returns false. */
#include "mapping.h"

#include "../../base/fail.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STEP_BYTES (INT64_C(2) << 20)  /* size of one madvise call, which locks the address space */
#define MIN_BYTES  (INT64_C(16) << 20) /* pages of smaller ranges are not populated ahead */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older kernels refuse it, and pages are populated by their first write */
#endif

struct file_mapping {
    char *memory;     /* start of the page in which the range begins */
    uint64_t address; /* position of that page in the file */
    int64_t bytes, ahead;
    bool started;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards the members below */
    pthread_cond_t changed;
    int64_t written; /* bytes, anywhere in the range */
    bool closing;
};

/* ---- missing pages ---- */

/* Where mapping_write continues after SIGBUS; NULL: the thread is not in it. */
static _Thread_local sigjmp_buf *volatile writing;

/* The handler of SIGBUS. */
static void bus_error(int number) {
    if (writing) siglongjmp(*writing, 1);
    signal(number, SIG_DFL); /* not caused by mapping_write: the process repeats the instruction and ends */
}

/* Installs the handler of SIGBUS. Called by each mapping_open, because other libraries may replace it. */
static void install_handler(void) {
    /* SA_NODEFER: otherwise the jump out of the handler leaves the signal blocked. */
    struct sigaction action = {.sa_handler = bus_error, .sa_flags = SA_NODEFER};
    sigaction(SIGBUS, &action, NULL);
}

bool mapping_write(const struct file_mapping *mapping, uint64_t address, const void *from, int64_t bytes) {
    sigjmp_buf back;
    volatile bool written = false;
    writing = &back;
    if (sigsetjmp(back, 0) == 0) {
        memcpy(mapping->memory + (address - mapping->address), from, (size_t)bytes);
        written = true;
    }
    writing = NULL;
    return written;
}

/* ---- populating pages ---- */

/* Waits until `offset` is less than `ahead` bytes beyond the written bytes. Returns the next offset: a later one if the
 * writers overtook it, the end if the mapping closes. */
static int64_t wait_for_room(struct file_mapping *mapping, int64_t offset) {
    pthread_mutex_lock(&mapping->mutex);
    while (!mapping->closing && offset - mapping->written >= mapping->ahead)
        pthread_cond_wait(&mapping->changed, &mapping->mutex);
    if (mapping->closing) offset = mapping->bytes;
    if (offset < mapping->written) offset = mapping->written / STEP_BYTES * STEP_BYTES;
    pthread_mutex_unlock(&mapping->mutex);
    return offset;
}

/* The thread that populates pages, until the end of the range, the close or a failure. */
static void *populate(void *argument) {
    struct file_mapping *mapping = argument;
    for (int64_t offset = 0; (offset = wait_for_room(mapping, offset)) < mapping->bytes; offset += STEP_BYTES) {
        int64_t remaining = mapping->bytes - offset;
        if (madvise(mapping->memory + offset, (size_t)(remaining < STEP_BYTES ? remaining : STEP_BYTES),
                    MADV_POPULATE_WRITE))
            break;
    }
    return NULL;
}

struct file_mapping *mapping_open(int descriptor, uint64_t address, int64_t bytes, int64_t ahead) {
    int64_t page = sysconf(_SC_PAGESIZE), before = (int64_t)(address % (uint64_t)page);
    void *memory =
        mmap(NULL, (size_t)(before + bytes), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, (off_t)address - before);
    if (memory == MAP_FAILED) return NULL;
    install_handler();
    struct file_mapping *mapping = must_malloc(sizeof *mapping);
    *mapping = (struct file_mapping){
        .memory = memory, .address = address - (uint64_t)before, .bytes = before + bytes, .ahead = ahead};
    pthread_mutex_init(&mapping->mutex, NULL);
    pthread_cond_init(&mapping->changed, NULL);
    if (ahead > 0 && bytes >= MIN_BYTES)
        mapping->started = pthread_create(&mapping->thread, NULL, populate, mapping) == 0;
    return mapping;
}

void mapping_close(struct file_mapping *mapping) {
    if (!mapping) return;
    pthread_mutex_lock(&mapping->mutex);
    mapping->closing = true;
    pthread_cond_broadcast(&mapping->changed);
    pthread_mutex_unlock(&mapping->mutex);
    if (mapping->started) pthread_join(mapping->thread, NULL);
    munmap(mapping->memory, (size_t)mapping->bytes);
    pthread_cond_destroy(&mapping->changed);
    pthread_mutex_destroy(&mapping->mutex);
    free(mapping);
}

void mapping_written(struct file_mapping *mapping, uint64_t begin, uint64_t end) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), first = begin - begin % page;
    madvise(mapping->memory + (first - mapping->address), (size_t)(end - first), MADV_DONTNEED);
    pthread_mutex_lock(&mapping->mutex);
    mapping->written += (int64_t)(end - begin);
    pthread_cond_broadcast(&mapping->changed);
    pthread_mutex_unlock(&mapping->mutex);
}
