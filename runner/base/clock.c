/* clock.c - reads the system's clocks. */
#include "clock.h"

#include <math.h>

const char *time_text(char text[TIME_TEXT]) {
    time_t now = time(NULL);
    struct tm parts;
    gmtime_r(&now, &parts);
    strftime(text, TIME_TEXT, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct timespec timespec_of(double seconds) {
    double whole_seconds = floor(seconds);
    return (struct timespec){.tv_sec = (time_t)whole_seconds, .tv_nsec = (long)((seconds - whole_seconds) * 1e9)};
}

void condition_init(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}
