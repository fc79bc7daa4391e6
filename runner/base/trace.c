/* trace.c - keeps a job's spans in memory and writes them at the end in Chrome's trace event format: a process for each
 * run, a thread for each slot of a stage, times in microseconds since the trace began. */
#include "trace.h"

#include "atomic_file.h"
#include "clock.h"
#include "json.h"
#if TILERUN_CUDA
#include <nvtx3/nvToolsExt.h>
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1000 }; /* thread number = stage * SLOTS + slot; slots beyond SLOTS share their threads' lines */

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

struct traced_span {
    int run;
    enum stage stage;
    int slot;
    int64_t step, bytes;
    double begin_s, end_s;
};

static const char beginning[] = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";

struct trace {
    struct atomic_file file; /* checked at the start, written at the end */
    double started_s;
    pthread_mutex_t mutex; /* guards the members below */
    char **runs;
    struct traced_span *spans;
    int run_count;
    long count, capacity;
};

enum status trace_open(const char *path, bool overwrite, struct trace **trace, struct error *error) {
    struct trace *made = must_malloc(sizeof *made);
    *made = (struct trace){.started_s = now_s()};
    pthread_mutex_init(&made->mutex, NULL);
    enum status status = atomic_file_open("trace", path, beginning, overwrite, &made->file, error);
    if (status) {
        trace_discard(made);
        made = NULL;
    }
    *trace = made;
    return status;
}

void trace_run(struct trace *trace, const char *name) {
    if (!trace) return;
    pthread_mutex_lock(&trace->mutex);
    *APPEND(trace->runs, trace->run_count) = must_strdup(name);
    pthread_mutex_unlock(&trace->mutex);
}

void trace_span(struct trace *trace, enum stage stage, int slot, int64_t step, int64_t bytes, double begin_s,
                double end_s) {
    if (!trace) return;
    pthread_mutex_lock(&trace->mutex);
    if (trace->count == trace->capacity) {
        trace->capacity = trace->capacity ? 2 * trace->capacity : 1024;
        trace->spans = must_realloc(trace->spans, (unsigned long)trace->capacity * sizeof *trace->spans);
    }
    trace->spans[trace->count++] = (struct traced_span){trace->run_count - 1, stage, slot, step, bytes, begin_s, end_s};
    pthread_mutex_unlock(&trace->mutex);
}

/* The name under which a run's spans are shown. `run` -1: the spans before the first run. */
static const char *run_name(const struct trace *trace, int run) {
    return run < 0 ? "before the first run" : trace->runs[run];
}

/* Writes the beginning of an event, after a comma if *any, and sets *any; the caller writes the event's arguments and
 * closes it. `phase`: "M" for a name, "X" for a span with a duration. */
static void write_event(FILE *file, bool *any, const char *phase, const char *name, int run, int thread) {
    fprintf(file, "%s{\"ph\":\"%s\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d", *any ? ",\n" : "", phase, name, run + 1,
            thread);
    *any = true;
}

static int thread_of(const struct traced_span *span) {
    return (int)span->stage * SLOTS + span->slot % SLOTS;
}

/* Writes the names of the processes and threads that have spans. */
static void write_names(const struct trace *trace, FILE *file, bool *any) {
    size_t threads = STAGE_COUNT * SLOTS, runs = (size_t)trace->run_count + 1;
    OWNED bool *thread_named = must_zeroed(runs * threads), *run_named = must_zeroed(runs);
    for (long i = 0; i < trace->count; i++) {
        const struct traced_span *span = &trace->spans[i];
        size_t run = (size_t)span->run + 1, thread = (size_t)thread_of(span); /* run -1 becomes 0 */
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
}

/* Writes a complete event for each span. */
static void write_spans(const struct trace *trace, FILE *file, bool *any) {
    for (long i = 0; i < trace->count; i++) {
        const struct traced_span *span = &trace->spans[i];
        write_event(file, any, "X", stage_names[span->stage], span->run, thread_of(span));
        fprintf(file, ",\"cat\":\"stage\",\"ts\":%.3f,\"dur\":%.3f,\"args\":{",
                (span->begin_s - trace->started_s) * 1e6, (span->end_s - span->begin_s) * 1e6);
        if (span->step >= 0) fprintf(file, "\"step\":%lld,", (long long)span->step);
        fprintf(file, "\"bytes\":%lld}}", (long long)span->bytes);
    }
}

enum status trace_close(struct trace *trace, struct error *error) {
    if (!trace) return STATUS_OK;
    enum status status = atomic_file_begin(&trace->file, error);
    if (!status) {
        FILE *to = trace->file.to;
        bool any = false;
        fputs(beginning, to);
        write_names(trace, to, &any);
        write_spans(trace, to, &any);
        fputs("\n]}\n", to);
        status = atomic_file_close(&trace->file, error);
    }
    trace_discard(trace);
    return status;
}

void trace_discard(struct trace *trace) {
    if (!trace) return;
    for (int i = 0; i < trace->run_count; i++) free(trace->runs[i]);
    free(trace->runs);
    free(trace->spans);
    atomic_file_discard(&trace->file);
    pthread_mutex_destroy(&trace->mutex);
    free(trace);
}
