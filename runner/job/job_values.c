/* job_values.c - parses devices and sizes of the job file and the command line. */
#include "job.h"

#include "../base/fail.h"
#include "../base/text.h"

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
    job->device_numbers = must_realloc(job->device_numbers, sizeof(int) * (size_t)(job->device_count + 1));
    job->device_numbers[job->device_count++] = number;
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
            char *one = must_printf("%.*s", (int)length, rest);
            good = add_number(job, one, message);
            free(one);
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
    const char *unit = text + digits;
    if (digits == 0 || end != unit) {
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
        const char *nearest = nearest_name(unit, names, sizeof names / sizeof *names);
        bool bare = strlen(unit) == 1 && strchr("kKMGT", *unit);
        if (bare)
            snprintf(message, 256, "'%.80s' is ambiguous: did you mean %.*s%ciB (1024) or %.*s%cB (1000)?", text,
                     (int)digits, text, *unit == 'k' ? 'K' : *unit, (int)digits, text, *unit == 'K' ? 'k' : *unit);
        else if (nearest)
            snprintf(message, 256, "unknown unit '%.80s' (did you mean '%s'?)", unit, nearest);
        else
            snprintf(message, 256, "unknown unit '%.80s' (one of: KiB, MiB, GiB, TiB, kB, MB, GB, TB, %%)", unit);
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
