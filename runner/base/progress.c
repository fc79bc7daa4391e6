/* progress.c - the live line and the plain lines. */
#include "progress.h"

#include "clock.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define REDRAW_SECONDS 0.1

bool progress_parse(const char *text, enum progress_mode *mode) {
    static const char *const names[] = {"auto", "plain", "none"};
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) return *mode = (enum progress_mode)i, true;
    return false;
}

void progress_begin(struct progress *progress, enum progress_mode mode, int runs, double bytes_total) {
    bool terminal = isatty(STDERR_FILENO);
    *progress = (struct progress){.live = mode == PROGRESS_AUTO && terminal,
                                  .plain = mode == PROGRESS_PLAIN || (mode == PROGRESS_AUTO && !terminal),
                                  .runs = runs,
                                  .bytes_total = bytes_total,
                                  .started = now_s()};
}

static void draw(struct progress *progress) {
    double now = now_s(), elapsed = now - progress->started;
    if (!progress->live || now - progress->drawn < REDRAW_SECONDS) return;
    progress->drawn = now;
    fprintf(stderr, "\r\033[K[%d/%d] %s", progress->done + 1, progress->runs, progress->what);
    if (progress->bytes_done > 0 && elapsed > 0) {
        double rate = progress->bytes_done / elapsed;
        double left =
            progress->bytes_total > progress->bytes_done ? (progress->bytes_total - progress->bytes_done) / rate : 0;
        fprintf(stderr, "  %.1f of %.1f GB  %.2f GB/s  ETA %d:%02d", progress->bytes_done / 1e9,
                progress->bytes_total / 1e9, rate / 1e9, (int)left / 60, (int)left % 60);
    }
    fflush(stderr);
}

void progress_run(struct progress *progress, const char *what) {
    snprintf(progress->what, sizeof progress->what, "%s", what);
    progress->drawn = 0;
    draw(progress);
}

void progress_bytes(struct progress *progress, double bytes) {
    progress->bytes_done += bytes;
    draw(progress);
}

const char *progress_clear(const struct progress *progress) {
    return progress->live ? "\r\033[K" : "";
}

void progress_note(const struct progress *progress, const char *text) {
    fprintf(stderr, "%stilerun: %s\n", progress_clear(progress), text);
}

void progress_outcome(struct progress *progress, const char *what, const char *outcome) {
    progress->done++;
    if (progress->plain) fprintf(stderr, "[%d/%d] %s: %s\n", progress->done, progress->runs, what, outcome);
}

void progress_end(struct progress *progress) {
    fputs(progress_clear(progress), stderr);
    progress->live = false;
}
