/* trace.c - the spans of a job, kept in memory and written as Chrome's trace event format at the end: a process for
 * each run, a thread for each slot of a stage, times in microseconds since the trace began. */
#include "trace.h"

#include "clock.h"
#include "fail.h"
#include "json.h"
#include "place.h"
#if TILERUN_CUDA
#include <nvtx3/nvToolsExt.h>
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 1000 }; /* of a stage: thread number = stage * SLOTS + slot */

static const char *const stage_names[STAGE_COUNT] = {
    [STAGE_READ] = "read", [STAGE_INFLATE] = "inflate", [STAGE_H2D] = "h2d",     [STAGE_KERNEL] = "kernel",
    [STAGE_D2H] = "d2h",   [STAGE_DEFLATE] = "deflate", [STAGE_WRITE] = "write",
};

double range_begin(enum stage stage) {
#if TILERUN_CUDA
    nvtxRangePushA(stage_names[stage]);
#else
    (void)stage;
#endif
    return now_s();
}

double range_end(void) {
#if TILERUN_CUDA
    nvtxRangePop();
#endif
    return now_s();
}

struct recorded {
    int run;
    enum stage stage;
    int slot;
    int64_t step, bytes;
    double begin_s, end_s;
};

static const char beginning[] = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";

struct trace {
    struct place place;
    int descriptor; /* of a device, pipe or standard stream, written directly; -1: a file, created at the end */
    double started_s;
    pthread_mutex_t mutex; /* guards all below */
    char **runs;
    struct recorded *spans;
    int run_count;
    long count, room;
};

/* May the file be replaced unasked: is it empty, or an earlier trace? */
static bool is_ours(const char *path) {
    char begins[sizeof beginning] = "";
    FILE *file = fopen(path, "re");
    if (!file) return false;
    size_t got = fread(begins, 1, sizeof beginning - 1, file);
    fclose(file);
    return got == 0 || strcmp(begins, beginning) == 0;
}

/* Opens at once what a rename cannot replace: a device, a pipe, or the file that is our standard output or error. */
static enum status open_directly(const struct place *place, int *descriptor, struct error *error) {
    struct stat about;
    for (int standard = 1; standard <= 2 && *descriptor < 0; standard++)
        if (fstat(standard, &about) == 0 && place_is_at(place->name, &about)) *descriptor = dup(standard);
    if (*descriptor >= 0 || S_ISREG(place->about.st_mode)) return STATUS_OK;
    if (!S_ISCHR(place->about.st_mode) && !S_ISFIFO(place->about.st_mode))
        return fail(error, STATUS_USAGE, "trace %s: is not a regular file", place->name);
    *descriptor = open(place->name, O_WRONLY | O_NONBLOCK | O_CLOEXEC); /* does not wait for a pipe's reader */
    if (*descriptor < 0)
        return fail(error, STATUS_USAGE, "trace %s: cannot be written: %s", place->name,
                    errno == ENXIO ? "nobody reads from this pipe" : strerror(errno));
    fcntl(*descriptor, F_SETFL, fcntl(*descriptor, F_GETFL) & ~O_NONBLOCK);
    return STATUS_OK;
}

enum status trace_open(const char *path, bool overwrite, struct trace **trace, struct error *error) {
    struct trace *it = must_malloc(sizeof *it);
    *it = (struct trace){.descriptor = -1, .started_s = now_s()};
    pthread_mutex_init(&it->mutex, NULL);
    enum status status = place_find("trace", path, &it->place, error);
    if (!status && it->place.exists && !S_ISDIR(it->place.about.st_mode))
        status = open_directly(&it->place, &it->descriptor, error);
    if (!status && it->descriptor < 0) {
        status = place_check(&it->place, error);
        if (!status && it->place.exists && !overwrite && !is_ours(path))
            status = fail(error, STATUS_USAGE, "trace %s: exists and is not a trace; --overwrite replaces it", path);
    }
    if (status) {
        trace_discard(it);
        it = NULL;
    }
    *trace = it;
    return status;
}

void trace_run(struct trace *trace, const char *name) {
    if (!trace) return;
    pthread_mutex_lock(&trace->mutex);
    trace->runs = must_realloc(trace->runs, (unsigned long)(trace->run_count + 1) * sizeof *trace->runs);
    trace->runs[trace->run_count++] = must_strdup(name);
    pthread_mutex_unlock(&trace->mutex);
}

void trace_span(struct trace *trace, enum stage stage, int slot, int64_t step, int64_t bytes, double begin_s,
                double end_s) {
    if (!trace) return;
    pthread_mutex_lock(&trace->mutex);
    if (trace->count == trace->room) {
        trace->room = trace->room ? 2 * trace->room : 1024;
        trace->spans = must_realloc(trace->spans, (unsigned long)trace->room * sizeof *trace->spans);
    }
    trace->spans[trace->count++] = (struct recorded){trace->run_count - 1, stage, slot, step, bytes, begin_s, end_s};
    pthread_mutex_unlock(&trace->mutex);
}

/* Run -1 holds the spans from before the first run. */
static const char *run_name(const struct trace *trace, int run) {
    return run < 0 ? "before the first run" : trace->runs[run];
}

/* Begins the next event. */
static void write_event(FILE *file, bool *any, const char *phase, const char *name, int run, int thread) {
    fprintf(file, "%s{\"ph\":\"%s\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d", *any ? ",\n" : "", phase, name, run + 1,
            thread);
    *any = true;
}

static int thread_of(const struct recorded *span) {
    return (int)span->stage * SLOTS + span->slot % SLOTS;
}

/* The names of those processes and threads that have spans. */
static void write_names(const struct trace *trace, FILE *file, bool *any) {
    size_t threads = STAGE_COUNT * SLOTS, runs = (size_t)trace->run_count + 1;
    bool *thread_named = must_malloc(runs * threads), *run_named = must_malloc(runs);
    memset(thread_named, 0, runs * threads);
    memset(run_named, 0, runs);
    for (long i = 0; i < trace->count; i++) {
        const struct recorded *span = &trace->spans[i];
        size_t run = (size_t)span->run + 1, thread = (size_t)thread_of(span); /* -1 + 1 is 0 */
        if (!run_named[run]) {
            write_event(file, any, "M", "process_name", span->run, 0);
            fputs(",\"args\":{\"name\":", file);
            const char *name = run_name(trace, span->run);
            json_write_string(file, name, strlen(name));
            fputs("}}", file);
        }
        if (!thread_named[run * threads + thread]) {
            write_event(file, any, "M", "thread_name", span->run, (int)thread);
            fprintf(file, ",\"args\":{\"name\":\"%s %d\"}}", stage_names[span->stage], span->slot);
        }
        run_named[run] = thread_named[run * threads + thread] = true;
    }
    free(thread_named);
    free(run_named);
}

static void write_spans(const struct trace *trace, FILE *file, bool *any) {
    for (long i = 0; i < trace->count; i++) {
        const struct recorded *span = &trace->spans[i];
        write_event(file, any, "X", stage_names[span->stage], span->run, thread_of(span));
        fprintf(file, ",\"cat\":\"stage\",\"ts\":%.3f,\"dur\":%.3f,\"args\":{",
                (span->begin_s - trace->started_s) * 1e6, (span->end_s - span->begin_s) * 1e6);
        if (span->step >= 0) fprintf(file, "\"step\":%lld,", (long long)span->step);
        fprintf(file, "\"bytes\":%lld}}", (long long)span->bytes);
    }
}

static bool write_all(const struct trace *trace, FILE *file) {
    bool any = false;
    fputs(beginning, file);
    write_names(trace, file, &any);
    write_spans(trace, file, &any);
    fputs("\n]}\n", file);
    bool failed = ferror(file) != 0;
    errno = 0;
    failed = fclose(file) != 0 || failed;
    if (failed && errno == 0) errno = EIO;
    return !failed;
}

/* Creates a file of an unused name in the folder that the trace goes to. */
static int make_file(const struct place *place, char **path) {
    int descriptor = -1;
    for (int number = 0; descriptor < 0; number++) {
        *path = must_printf("%s/.tilerun-trace-%d-%d", place->folder, (int)getpid(), number);
        descriptor = open(*path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor >= 0 || errno != EEXIST) break;
        free(*path);
    }
    return descriptor;
}

enum status trace_close(struct trace *trace, struct error *error) {
    if (!trace) return STATUS_OK;
    char *path = NULL;
    int descriptor = trace->descriptor >= 0 ? trace->descriptor : make_file(&trace->place, &path);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    enum status status = STATUS_OK;
    trace->descriptor = -1; /* fclose closes it */
    if (!file || !write_all(trace, file))
        status = fail(error, STATUS_IO, "trace %s: cannot be written: %s", trace->place.name, strerror(errno));
    if (!status && path) status = place_put(&trace->place, path, error);
    if (status && path) unlink(path);
    free(path);
    trace_discard(trace);
    return status;
}

void trace_discard(struct trace *trace) {
    if (!trace) return;
    if (trace->descriptor >= 0) close(trace->descriptor);
    for (int i = 0; i < trace->run_count; i++) free(trace->runs[i]);
    free(trace->runs);
    free(trace->spans);
    place_free(&trace->place);
    pthread_mutex_destroy(&trace->mutex);
    free(trace);
}
