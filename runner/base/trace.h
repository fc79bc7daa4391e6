/* trace.h - a job's timeline: every stage of every step, as Perfetto and chrome://tracing open it, and as NVTX ranges
 * of the same names for Nsight and whoever else listens.
 *
 * Any thread may add spans. A NULL trace is one that nobody wants: every call takes it and does nothing. */
#ifndef RUNNER_TRACE_H
#define RUNNER_TRACE_H

#include "fail.h"

#include <stdbool.h>
#include <stdint.h>

enum stage { STAGE_READ, STAGE_INFLATE, STAGE_H2D, STAGE_KERNEL, STAGE_D2H, STAGE_DEFLATE, STAGE_WRITE, STAGE_COUNT };

struct trace;
/* Tries the place at once, so that nobody runs for an hour to learn that it cannot be written, but changes nothing
 * there. STATUS_USAGE: that, or a file that is neither empty nor an earlier trace, and not to be overwritten. */
enum status trace_open(const char *path, bool overwrite, struct trace **trace, struct error *error);
/* Writes it: a file under another name in the same folder, then renamed (a symbolic link is written through); a
 * character device, a pipe, and whatever our own standard output or error is, directly. Frees the trace whatever the
 * status. */
enum status trace_close(struct trace *trace, struct error *error);
/* Frees it unwritten. */
void trace_discard(struct trace *trace);
/* What follows belongs to this run: a process of its own in the viewer. */
void trace_run(struct trace *trace, const char *name);
/* A stage was busy from `begin_s` to `end_s` of now_s(), with `bytes` of step number `step` (-1: none in particular).
 * `slot` tells apart what may be busy at the same time: a buffer, a thread. */
void trace_span(struct trace *trace, enum stage stage, int slot, int64_t step, int64_t bytes, double begin_s,
                double end_s);

/* A stage's NVTX range on this thread, around the work itself or around asking a device for it; ranges nest. Each
 * returns the time by now_s(). Without a listener, and in a build without CUDA's headers, that is all they do. */
double range_begin(enum stage stage);
double range_end(void);

#endif
