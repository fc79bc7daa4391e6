/* trace.h - a job's timeline: every stage of every step, as Perfetto and chrome://tracing open it, and as NVTX ranges
 * of the same names for Nsight and other listeners.
 *
 * Any thread may add spans. Without --trace the trace is NULL: every call accepts that and does nothing. */
#ifndef RUNNER_TRACE_H
#define RUNNER_TRACE_H

#include "fail.h"

#include <stdbool.h>
#include <stdint.h>

enum stage { STAGE_READ, STAGE_INFLATE, STAGE_H2D, STAGE_KERNEL, STAGE_D2H, STAGE_DEFLATE, STAGE_WRITE, STAGE_COUNT };

struct trace;
/* Checks at once that the place can be written, rather than after an hour's run, but changes nothing there.
 * STATUS_USAGE: it cannot, or it holds a file that is neither empty nor a trace and may not be overwritten. */
enum status trace_open(const char *path, bool overwrite, struct trace **trace, struct error *error);
/* Writes the trace: into a file of another name in the same folder, which is then renamed (a symbolic link stays, its
 * target is replaced). A character device, a pipe and our own standard output or error are written directly. Frees the
 * trace whatever the status. */
enum status trace_close(struct trace *trace, struct error *error);
/* Frees it unwritten. */
void trace_discard(struct trace *trace);
/* The spans that follow belong to this run, which the viewer shows as a process. */
void trace_run(struct trace *trace, const char *name);
/* A stage was busy from `begin_s` to `end_s` of now_s(), with `bytes` of step number `step` (-1: none in particular).
 * `slot` numbers the buffer or thread, of those that may be busy in one stage at the same time. */
void trace_span(struct trace *trace, enum stage stage, int slot, int64_t step, int64_t bytes, double begin_s,
                double end_s);

/* A stage's NVTX range on this thread, around the work itself or around asking a device for it; ranges nest. Each
 * returns the time by now_s(). Without a listener, and in a build without CUDA's headers, that is all they do. */
double range_begin(enum stage stage);
double range_end(void);

#endif
