/* job_values.c - parses devices, sizes, durations and slices of the job file and the command line. */
#include "job.h"

#include "../base/fail.h"
#include "../base/spelling.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- device ---------------------------------------------------------------------------------------------------- */

/* Parses "cuda:N", where N has at most four digits, and adds N to the job's devices. STATUS_USAGE: the text is not
 * cuda:N, or N is listed already. */
static enum status add_device_number(struct job *job, const char *text, struct error *error) {
    const char *digits = strncmp(text, "cuda:", strlen("cuda:")) == 0 ? text + strlen("cuda:") : "";
    if (!*digits || strlen(digits) > 4 || digits[strspn(digits, "0123456789")] != '\0') {
        static const char *const names[] = {"auto", "cpu", "cuda", "cuda:0", "cuda:all"};
        const char *nearest = nearest_name(text, names, sizeof names / sizeof *names);
        if (strcasecmp(text, "gpu") == 0) nearest = "cuda"; /* by edit distance it would be "cpu" */
        if (nearest && strcmp(nearest, text) == 0)
            return fail(error, STATUS_USAGE, "'%s' is not allowed in a list of devices: only cuda:N is", text);
        if (nearest) return fail(error, STATUS_USAGE, "unknown device '%.80s' (did you mean '%s'?)", text, nearest);
        return fail(error, STATUS_USAGE, "unknown device '%.80s' (one of: auto, cpu, cuda, cuda:N, cuda:all)", text);
    }
    int number = atoi(digits);
    for (int i = 0; i < job->device_count; i++)
        if (job->device_numbers[i] == number)
            return fail(error, STATUS_USAGE, "device 'cuda:%d' is listed twice", number);
    *APPEND(job->device_numbers, job->device_count) = number;
    return STATUS_OK;
}

enum status job_parse_device(const char *text, struct job *job, struct error *error) {
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
    else if (strcmp(text, "cuda") != 0)
        for (const char *rest = text; rest;) {
            size_t length = strcspn(rest, ",");
            OWNED char *one = must_printf("%.*s", (int)length, rest);
            TRY(add_device_number(job, one, error));
            rest = rest[length] ? rest + length + 1 : NULL;
        }
    return STATUS_OK;
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

enum status job_parse_memory(const char *text, int64_t *bytes, double *fraction, struct error *error) {
    size_t digits = strspn(text, "0123456789.");
    char *end;
    double number = strtod(text, &end);
    const char *unit = text + digits + strspn(text + digits, " ");
    if (digits == 0 || end != text + digits)
        return fail(error, STATUS_USAGE, "'%.80s' is not a size: write bytes, 512MiB, 8GiB, 500MB or 90%%", text);
    if (strcmp(unit, "%") == 0) {
        *bytes = 0;
        *fraction = number / 100;
        if (number > 0 && number <= 100) return STATUS_OK;
        return fail(error, STATUS_USAGE, "'%.80s' is not between 0%% and 100%%", text);
    }
    double scale = unit_bytes(unit);
    if (scale == 0) {
        static const char *const names[] = {"KiB", "MiB", "GiB", "TiB", "kB", "MB", "GB", "TB"};
        char hint[HINT_TEXT];
        bool bare = strlen(unit) == 1 && strchr("kKMGT", *unit);
        if (bare)
            return fail(error, STATUS_USAGE, "'%.80s' is ambiguous: did you mean %.*s%ciB (1024) or %.*s%cB (1000)?",
                        text, (int)digits, text, *unit == 'k' ? 'K' : *unit, (int)digits, text,
                        *unit == 'K' ? 'k' : *unit);
        return fail(error, STATUS_USAGE, "unknown unit '%.80s'%s", unit,
                    name_hint(unit, names, sizeof names / sizeof *names,
                              " (one of: KiB, MiB, GiB, TiB, kB, MB, GB, TB, %)", hint));
    }
    if (!(number * scale < 0x1p62)) return fail(error, STATUS_USAGE, "'%.80s' is larger than any memory", text);
    if (number * scale < JOB_MIN_MEMORY)
        return fail(error, STATUS_USAGE, "'%.80s' is too small: the minimum is %dKiB", text, JOB_MIN_MEMORY >> 10);
    *bytes = (int64_t)(number * scale);
    *fraction = 0;
    return STATUS_OK;
}

/* ---- durations ------------------------------------------------------------------------------------------------- */

enum status job_parse_duration(const char *text, double *seconds, struct error *error) {
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
    if (strcmp(text, "none") == 0) return STATUS_OK;
    if (digits == 0 || end != text + digits)
        return fail(error, STATUS_USAGE, "'%.80s' is not a duration: write 500ms, 90s, 10min, 1.5h or none", text);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(units[i].name, unit) == 0) *seconds = number * units[i].seconds;
    if (*seconds >= 1e-3 && *seconds <= 1e9) return STATUS_OK;
    const char *nearest = strcmp(unit, "m") == 0 ? "min" : nearest_name(unit, names, 4);
    if (!*unit)
        return fail(error, STATUS_USAGE, "'%.80s' has no unit: did you mean %.60ss or %.60smin?", text, text, text);
    if (*seconds != INFINITY)
        return fail(error, STATUS_USAGE, "'%.80s' is not between 1ms and 1e9s; `none` is no limit", text);
    if (nearest) return fail(error, STATUS_USAGE, "unknown unit '%.80s' (did you mean '%s'?)", unit, nearest);
    return fail(error, STATUS_USAGE, "unknown unit '%.80s' (one of: ms, s, min, h)", unit);
}

/* ---- slices ---------------------------------------------------------------------------------------------------- */

/* Reads an integer at *text and moves *text past it; false: no integer of 64 bits stands there. */
static bool parse_integer(const char **text, int64_t *integer) {
    char *end;
    errno = 0;
    *integer = strtoll(*text, &end, 10);
    bool taken = end > *text && errno == 0 && !isspace((unsigned char)**text) && **text != '+';
    if (taken) *text = end;
    return taken;
}

bool job_parse_slice(const char *text, struct job_slice *slice) {
    *slice = (struct job_slice){.step = 1};
    bool has_first = parse_integer(&text, &slice->first);
    slice->index = has_first && !*text;
    if (slice->index) return true;
    if (*text++ != ':') return false;
    slice->has_end = parse_integer(&text, &slice->end);
    if (*text == ':' && text++ && *text) parse_integer(&text, &slice->step);
    return !*text;
}
