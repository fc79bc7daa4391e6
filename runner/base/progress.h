/* progress.h - what a person sees on stderr while a job runs: one live line on a terminal, else a line a finished run.
 */
#ifndef RUNNER_PROGRESS_H
#define RUNNER_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

enum progress_mode { PROGRESS_AUTO, PROGRESS_PLAIN, PROGRESS_NONE };
bool progress_parse(const char *text, enum progress_mode *mode);

struct progress {
    bool live, plain;
    int runs, done;
    double bytes_total, bytes_done; /* of all runs' traffic, as planned and as moved */
    double started, drawn;          /* seconds of now_s() */
    char what[160];                 /* "product tiled n=512" */
};

void progress_begin(struct progress *progress, enum progress_mode mode, int runs, double bytes_total);
/* A run begins. */
void progress_run(struct progress *progress, const char *what);
/* It has moved so many bytes more. */
void progress_bytes(struct progress *progress, double bytes);
/* Something a person should know, on a line of its own, whatever the mode. */
void progress_note(const struct progress *progress, const char *text);
/* It is over; `outcome` is its status or time: "ok, 1.2 ms". */
void progress_outcome(struct progress *progress, const char *outcome);
/* What clears the live line, if there is one: printed before anything else is. */
const char *progress_clear(const struct progress *progress);
/* Clears it for good; to be called before anything else is printed. */
void progress_end(struct progress *progress);

#endif
