/* clock.h - the time: of day, and between two moments. */
#ifndef RUNNER_CLOCK_H
#define RUNNER_CLOCK_H

/* Now, ISO 8601, UTC: "2026-03-01T12:34:56Z". */
#define TIME_TEXT 32
const char *time_text(char text[TIME_TEXT]);

/* Seconds of a monotonic clock. */
double now_s(void);

#endif
