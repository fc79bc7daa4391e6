/* clock.c - reads the system's clocks. */
#include "clock.h"

#include <time.h>

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
