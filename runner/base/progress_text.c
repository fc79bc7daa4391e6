/* progress_text.c - formats the live line for a width; estimates the time left. */
#include "progress_text.h"

#include "fail.h"
#include "text.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- time left --------------------------------------------------------------------------------------------------- */

/* The predicted seconds of a whole run. */
static double total_s(const struct progress_work *work) {
    return work->pass_s + work->verify_s + work->repeat_s * work->repeats;
}

double progress_done_s(const struct progress_work *work, enum progress_phase phase, int64_t done, int64_t total) {
    double share = total > 0 ? fmin(1, (double)done / (double)total) : 0;
    switch (phase) {
    case PHASE_BEGIN:
    case PHASE_WAIT: return 0;
    case PHASE_TILES: return share * work->pass_s;
    case PHASE_VERIFY: return work->pass_s;
    case PHASE_WARM_UP:
    case PHASE_REPEAT: return work->pass_s + work->verify_s + work->repeat_s * work->repeats * share;
    case PHASE_ASSEMBLE: break;
    }
    return total_s(work);
}

/* The ratio of real to predicted time: of the runs of one kind, or of all runs if `kind` is NULL. NaN: no such run has
 * made progress. */
static double slowness(const struct progress_work *work, int runs, const void *kind) {
    double spent = 0, done = 0;
    for (int i = 0; i < runs; i++) {
        if ((kind && work[i].kind != kind) || !(work[i].spent_s > 0) || !(work[i].done_s > 0)) continue;
        spent += work[i].spent_s;
        done += work[i].done_s;
    }
    return done > 0 ? spent / done : NAN;
}

/* A kind of run that has not been seen yet is assumed to be as much slower than predicted as the others were, but by no
 * more than this factor: a single variant may be a hundred times slower than predicted. */
#define UNSEEN_SLOWNESS_MAX 4.0

double progress_left_s(const struct progress_work *work, int runs, int current, double idle_s) {
    double of_all = slowness(work, runs, NULL), remaining = 0;
    if (isnan(of_all)) return NAN;
    for (int i = 0; i < runs; i++) {
        if (work[i].nothing_left) continue;
        double factor = work[i].kind ? slowness(work, runs, work[i].kind) : of_all;
        if (isnan(factor)) factor = fmin(of_all, UNSEEN_SLOWNESS_MAX);
        double rest = fmax(0, total_s(&work[i]) - work[i].done_s) * factor;
        if (work[i].pace_s > 0) rest = work[i].repeats_left * work[i].pace_s;
        if (i == current && rest < idle_s && !(work[i].pace_s > 0))
            return NAN; /* the run already takes longer than estimated */
        remaining += i == current ? fmax(0, rest - idle_s) : rest;
    }
    return isfinite(remaining) ? remaining : NAN;
}

/* ---- the line ---------------------------------------------------------------------------------------------------- */

/* Writes a duration as "1:10" or "12:03:59". */
static const char *clock_text(double seconds, char text[32]) {
    int64_t whole_seconds = seconds > 0 && seconds < 1e9 ? (int64_t)seconds : 0;
    int64_t hours = whole_seconds / 3600;
    if (hours > 0)
        snprintf(text, 32, "%lld:%02d:%02d", (long long)hours, (int)(whole_seconds / 60 % 60),
                 (int)(whole_seconds % 60));
    else
        snprintf(text, 32, "%d:%02d", (int)(whole_seconds / 60), (int)(whole_seconds % 60));
    return text;
}

/* Writes a time with at least two digits: "1.2 s", "35 us". */
static const char *short_time(double seconds, char text[32]) {
    static const char *const units[] = {"s", "ms", "us", "ns"};
    int unit = 0;
    while (unit < 3 && seconds < 0.9995) seconds *= 1000, unit++;
    snprintf(text, 32, seconds < 9.95 ? "%.1f %s" : "%.0f %s", seconds, units[unit]);
    return text;
}

/* Writes the phase and how far it is: "  tile 3/8"; leaves `text` as it is outside a run. */
static void phase_text(const struct progress_view *view, char text[96]) {
    const char *name = view->phase == PHASE_TILES ? "tile" : "repeat";
    int64_t number = view->done + 1 < view->total ? view->done + 1 : view->total;
    switch (view->phase) {
    case PHASE_TILES:
    case PHASE_REPEAT:
        if (view->total > 0) snprintf(text, 96, "  %s %lld/%lld", name, (long long)number, (long long)view->total);
        break;
    case PHASE_VERIFY: snprintf(text, 96, "  verify"); break;
    case PHASE_WARM_UP: snprintf(text, 96, "  warm-up"); break;
    case PHASE_BEGIN:
    case PHASE_WAIT:
    case PHASE_ASSEMBLE: break;
    }
}

/* Writes the details of a phase. While tiles are streamed: bytes and their rate; while the kernel is timed: the time of
 * a repeat. */
static void detail_text(const struct progress_view *view, char text[96]) {
    char each[32];
    double rate = view->bytes / view->phase_s * 1e-9, all = fmax(view->bytes, view->bytes_total);
    if (view->phase == PHASE_TILES && view->bytes >= 0.1e9 && all < 1e21) {
        int length = snprintf(text, 96, "  %.1f of %.1f GB", view->bytes / 1e9, all / 1e9);
        if (rate >= 0.005 && rate < 1e6)
            snprintf(text + length, 96 - (size_t)length, "  %.*f GB/s", rate < 10 ? 2 : rate < 100 ? 1 : 0, rate);
    } else if (view->phase == PHASE_REPEAT && view->seconds_each > 0 && view->seconds_each < 1e9) {
        snprintf(text, 96, "  %s each", short_time(view->seconds_each, each));
    }
}

/* Writes how long the job has run and, if it is known, how long it will still run: "  job 0:41, ~1:10 left". */
static void time_left_text(const struct progress_view *view, char text[96]) {
    char spent[32], remaining[32];
    bool endless = view->phase == PHASE_ASSEMBLE || view->phase == PHASE_WAIT; /* of unknown length */
    bool known = view->left_s >= 0 && view->left_s < 1e8 && !endless;
    int length = snprintf(text, 96, "  job %s", clock_text(view->job_s, spent));
    if (known) snprintf(text + length, 96 - (size_t)length, ", ~%s left", clock_text(view->left_s, remaining));
}

#define NAME_COLUMNS 16 /* other parts are omitted before a name is shortened below this */

char *progress_line(const struct progress_view *view, int width) {
    char head[32], tails[3][96] = {"", "", ""};
    const char *ellipsis = "";
    const char *outside_runs = view->phase == PHASE_BEGIN ? "reading inputs" : "assembling";
    bool in_run = view->phase != PHASE_BEGIN && view->phase != PHASE_ASSEMBLE;
    OWNED char *name = text_clean(in_run ? view->what : outside_runs);
    snprintf(head, sizeof head, "[%d/%d] ", view->run, view->runs);
    phase_text(view, tails[0]);
    detail_text(view, tails[1]);
    time_left_text(view, tails[2]);
    int full_name = text_width(name), min_name = full_name < NAME_COLUMNS ? full_name : NAME_COLUMNS, name_columns;
    /* Omits, in this order, until the name fits: nothing, the detail, the times, the phase. */
    static const int order[] = {-1, 1, 2, 0};
    for (int i = 0; i < 4; i++) {
        if (order[i] >= 0) tails[order[i]][0] = '\0';
        name_columns = width - (int)(strlen(head) + strlen(tails[0]) + strlen(tails[1]) + strlen(tails[2]));
        if (name_columns >= min_name) break;
    }
    if (full_name > name_columns && name_columns > 3) {
        name[text_fitting(name, name_columns - 2)] = '\0';
        ellipsis = "..";
    }
    char *line = must_printf("%s%s%s%s%s%s", head, name, ellipsis, tails[0], tails[1], tails[2]);
    line[text_fitting(line, width)] = '\0';
    return line;
}
