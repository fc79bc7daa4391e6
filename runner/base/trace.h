/* trace.h - records a job's timeline: every stage of every step. Perfetto and chrome://tracing open the file; Nsight
 * and other listeners see NVTX ranges of the same names.
 *
 * Any thread may add spans. Without --trace the trace is NULL: every function accepts that and does nothing. */
#ifndef RUNNER_TRACE_H
#define RUNNER_TRACE_H

#include "fail.h"

#include <stdbool.h>
#include <stdint.h>

enum stage { STAGE_READ, STAGE_INFLATE, STAGE_H2D, STAGE_KERNEL, STAGE_D2H, STAGE_DEFLATE, STAGE_WRITE, STAGE_COUNT };

struct trace;
/* Checks that the file can be written, so that a job fails before its first run and not after its last; changes nothing
 * there. STATUS_USAGE: it cannot be written, or is neither empty nor a trace and may not be overwritten. */
enum status trace_open(const char *path, bool overwrite, struct trace **trace, struct error *error);
/* Writes the trace as an atomic file (atomic_file.h) and frees it, whatever the status. */
enum status trace_close(struct trace *trace, struct error *error);
/* Frees the trace without writing it. */
void trace_discard(struct trace *trace);
/* Assigns all following spans to this run, which the viewer shows as a process. */
void trace_run(struct trace *trace, const char *name);
/* Records that a stage was busy from `begin_s` to `end_s` (times of now_s()) with `bytes` of step `step` (-1: no single
 * step). `slot`: the number of the buffer or thread, among those that may be busy in one stage at the same time. */
void trace_span(struct trace *trace, enum stage stage, int slot, int64_t step, int64_t bytes, double begin_s,
                double end_s);

/* Begins and ends a stage's NVTX range on this thread, around the work itself or around the call that queues it on a
 * device; ranges nest. Both return now_s(). Without a listener, and in a build without CUDA, they do nothing else. */
double range_begin(enum stage stage);
double range_end(void);

#endif
