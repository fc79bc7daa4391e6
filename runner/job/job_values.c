/* job_values.c - parses devices, sizes, durations and slices of the job file and the command line. */
#include "job.h"

#include "../base/fail.h"
#include "../base/text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_MEMORY (64 << 10)

/* ---- device ---------------------------------------------------------------------------------------------------- */

/* Parses "cuda:N" and adds N to the job's devices. */
static bool add_number(struct job *job, const char *text, char message[256]) {
    const char *digits = text + strlen("cuda:");
    bool good = strncmp(text, "cuda:", 5) == 0 && strlen(digits) >= 1 && strlen(digits) <= 4 &&
                digits[strspn(digits, "0123456789")] == '\0';
    if (!good) {
        static const char *const names[] = {"auto", "cpu", "cuda", "cuda:0", "cuda:all"};
        const char *nearest = nearest_name(text, names, sizeof names / sizeof *names);
        if (strcasecmp(text, "gpu") == 0) nearest = "cuda"; /* by edit distance it would be "cpu" */
        if (nearest && strcmp(nearest, text) == 0)
            snprintf(message, 256, "'%s' is not allowed in a list of devices: only cuda:N is", text);
        else if (nearest)
            snprintf(message, 256, "unknown device '%.80s' (did you mean '%s'?)", text, nearest);
        else
            snprintf(message, 256, "unknown device '%.80s' (one of: auto, cpu, cuda, cuda:N, cuda:all)", text);
        return false;
    }
    int number = atoi(digits);
    for (int i = 0; i < job->device_count; i++)
        if (job->device_numbers[i] == number) {
            snprintf(message, 256, "device 'cuda:%d' is listed twice", number);
            return false;
        }
    *APPEND(job->device_numbers, job->device_count) = number;
    return true;
}

bool job_parse_device(const char *text, struct job *job, char message[256]) {
    free(job->device_numbers);
    job->device_numbers = NULL;
    job->device_count = 0;
    job->device = JOB_DEVICE_CUDA;
    if (strcmp(text, "auto") == 0)
        job->device = JOB_DEVICE_AUTO;
    else if (strcmp(text, "cpu") == 0)
        job->device = JOB_DEVICE_CPU;
    else if (strcmp(text, "cuda:all") == 0)
        job->device_count = -1;
    else if (strcmp(text, "cuda") != 0) {
        bool good = true;
        for (const char *rest = text; good;) {
            size_t length = strcspn(rest, ",");
            OWNED char *one = must_printf("%.*s", (int)length, rest);
            good = add_number(job, one, message);
            if (!rest[length]) break;
            rest += length + 1;
        }
        return good;
    }
    return true;
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

/* The bytes of a unit; 0: there is no such unit. */
static double unit_bytes(const char *unit) {
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1},     {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
                 {"kB", 1e3}, {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(units[i].name, unit) == 0) return units[i].bytes;
    return 0;
}

bool job_parse_memory(const char *text, int64_t *bytes, double *fraction, char message[256]) {
    size_t digits = strspn(text, "0123456789.");
    char *end;
    double number = strtod(text, &end);
    const char *unit = text + digits + strspn(text + digits, " ");
    if (digits == 0 || end != text + digits) {
        snprintf(message, 256, "'%.80s' is not a size: write bytes, 512MiB, 8GiB, 500MB or 90%%", text);
        return false;
    }
    if (strcmp(unit, "%") == 0) {
        *bytes = 0;
        *fraction = number / 100;
        if (number > 0 && number <= 100) return true;
        snprintf(message, 256, "'%.80s' is not between 0%% and 100%%", text);
        return false;
    }
    double scale = unit_bytes(unit);
    if (scale == 0) {
        static const char *const names[] = {"KiB", "MiB", "GiB", "TiB", "kB", "MB", "GB", "TB"};
        char hint[HINT_TEXT];
        bool bare = strlen(unit) == 1 && strchr("kKMGT", *unit);
        if (bare)
            snprintf(message, 256, "'%.80s' is ambiguous: did you mean %.*s%ciB (1024) or %.*s%cB (1000)?", text,
                     (int)digits, text, *unit == 'k' ? 'K' : *unit, (int)digits, text, *unit == 'K' ? 'k' : *unit);
        else
            snprintf(message, 256, "unknown unit '%.80s'%s", unit,
                     name_hint(unit, names, sizeof names / sizeof *names,
                               " (one of: KiB, MiB, GiB, TiB, kB, MB, GB, TB, %)", hint));
        return false;
    }
    if (!(number * scale < 0x1p62)) {
        snprintf(message, 256, "'%.80s' is larger than any memory", text);
        return false;
    }
    if (number * scale < LEAST_MEMORY) {
        snprintf(message, 256, "'%.80s' is too small: the minimum is 64KiB", text);
        return false;
    }
    *bytes = (int64_t)(number * scale);
    *fraction = 0;
    return true;
}

/* ---- durations ------------------------------------------------------------------------------------------------- */

bool job_parse_duration(const char *text, double *seconds, char message[256]) {
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}};
    static const char *const names[] = {"ms", "s", "min", "h"};
    size_t digits = strspn(text, "0123456789.");
    char *end;
    double number = strtod(text, &end);
    const char *unit = text + digits + strspn(text + digits, " ");
    *seconds = INFINITY;
    if (strcmp(text, "none") == 0) return true;
    if (digits == 0 || end != text + digits) {
        snprintf(message, 256, "'%.80s' is not a duration: write 500ms, 90s, 10min, 1.5h or none", text);
        return false;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(units[i].name, unit) == 0) *seconds = number * units[i].seconds;
    if (*seconds >= 1e-3 && *seconds <= 1e9) return true;
    const char *nearest = strcmp(unit, "m") == 0 ? "min" : nearest_name(unit, names, 4);
    if (!*unit)
        snprintf(message, 256, "'%.80s' has no unit: did you mean %.60ss or %.60smin?", text, text, text);
    else if (*seconds != INFINITY)
        snprintf(message, 256, "'%.80s' is not between 1ms and 1e9s; `none` is no limit", text);
    else if (nearest)
        snprintf(message, 256, "unknown unit '%.80s' (did you mean '%s'?)", unit, nearest);
    else
        snprintf(message, 256, "unknown unit '%.80s' (one of: ms, s, min, h)", unit);
    return false;
}

/* ---- slices ---------------------------------------------------------------------------------------------------- */

/* Reads an integer at *text and moves *text past it; false: there is none. */
static bool take_integer(const char **text, int64_t *integer) {
    char *end;
    errno = 0;
    *integer = strtoll(*text, &end, 10);
    bool taken = end > *text && errno == 0 && !isspace((unsigned char)**text) && **text != '+';
    if (taken) *text = end;
    return taken;
}

bool job_parse_slice(const char *text, struct job_slice *slice) {
    *slice = (struct job_slice){.step = 1};
    bool has_first = take_integer(&text, &slice->first);
    slice->index = has_first && !*text;
    if (slice->index) return true;
    if (*text++ != ':') return false;
    slice->has_end = take_integer(&text, &slice->end);
    if (*text == ':' && text++ && *text) take_integer(&text, &slice->step);
    return !*text;
}
