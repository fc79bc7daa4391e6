/* clock.h - gives the wall-clock time as text, and a monotonic clock for durations. */
#ifndef RUNNER_CLOCK_H
#define RUNNER_CLOCK_H

#include <pthread.h>
#include <time.h>

/* Writes the current time in UTC as ISO 8601, "2026-03-01T12:34:56Z", and returns `text`. */
#define TIME_TEXT 32
const char *time_text(char text[TIME_TEXT]);

/* The reading of a monotonic clock, in seconds. */
double now_s(void);
/* A reading of now_s, or a duration, as a timespec. */
struct timespec timespec_of(double seconds);
/* Initializes a condition whose timed waits use the clock of now_s. */
void condition_init(pthread_cond_t *condition);

#endif
