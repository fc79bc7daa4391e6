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
/* The run has moved `bytes` more. */
void progress_bytes(struct progress *progress, double bytes);
/* Prints a line for the user in every mode. */
void progress_note(const struct progress *progress, const char *text);
/* A run is over, not always the latest that began; `outcome` is its status or time: "ok, 1.2 ms". */
void progress_outcome(struct progress *progress, const char *what, const char *outcome);
/* The characters that clear the live line, "" where there is none: to be printed before any other text. */
const char *progress_clear(const struct progress *progress);
/* Clears the live line and draws it no more; call this before printing anything else. */
void progress_end(struct progress *progress);

#endif
