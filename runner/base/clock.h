/* clock.h - the wall-clock time as text, and a monotonic clock for durations. */
#ifndef RUNNER_CLOCK_H
#define RUNNER_CLOCK_H

/* Writes the current time in UTC as ISO 8601, "2026-03-01T12:34:56Z", and returns `text`. */
#define TIME_TEXT 32
const char *time_text(char text[TIME_TEXT]);

/* The reading of a monotonic clock, in seconds. */
double now_s(void);

#endif
