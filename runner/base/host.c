/* host.c - reads facts about the machine from /proc, /sys, sysconf and the control groups. */
#include "host.h"

#include "fail.h"
#include "path.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The value of the line NAME of /proc/meminfo, in bytes; 0: there is no such line. */
static int64_t meminfo_bytes(const char *name) {
    OWNED_FILE FILE *file = fopen("/proc/meminfo", "re");
    char line[128], key[64];
    long long kibibytes;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%63[^:]: %lld", key, &kibibytes) == 2 && strcmp(key, name) == 0) return kibibytes * 1024;
    return 0;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Reads the file of a memory limit in bytes; INT64_MAX: there is no such file, or no limit. */
static int64_t read_bytes(const char *path) {
    long long value;
    OWNED_FILE FILE *file = fopen(path, "re");
    return file && fscanf(file, "%lld", &value) == 1 ? value : INT64_MAX;
}

/* Reads a CPU quota as a number of processors, rounded up; INT64_MAX: there is no such file, or no quota. The file is
 * cpu.max ("QUOTA PERIOD" or "max PERIOD"), or cpu.cfs_quota_us, whose period is in cpu.cfs_period_us in the
 * same folder. */
static int64_t read_processors(const char *path) {
    long long quota = 0, period = 0;
    OWNED_FILE FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%lld %lld", &quota, &period) == 1) { /* one number: cpu.cfs_quota_us */
        OWNED char *period_path = path_beside(path, "cpu.cfs_period_us");
        period = read_bytes(period_path);
    }
    // cppcheck-suppress resourceLeak; OWNED_FILE closes it
    return quota > 0 && period > 0 ? quota / period + (quota % period != 0) : INT64_MAX;
}

/* The smallest limit of `group` and its ancestors; `format` makes the path of a limit's file from root and group, and
 * `read` reads it. In a container `root` may be the container's own group while `group` is the path on the host: then
 * only the file in `root` exists. */
static int64_t min_limit(const char *format, const char *root, char *group, int64_t (*read)(const char *path)) {
    int64_t limit = INT64_MAX;
    for (;;) {
        char path[1200];
        snprintf(path, sizeof path, format, root, group);
        limit = smaller(limit, read(path));
        char *last = strrchr(group, '/');
        if (!last) return limit;
        *last = '\0';
    }
}

/* Does a comma-separated list contain `name`? */
static bool list_contains(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0')) return true;
    }
    return false;
}

/* The smallest limit of the control groups of this process, in version 1 only of the groups of `controller`. `v2`,
 * `v1`: the formats (min_limit) of the path of the file that holds a group's limit, in cgroup version 2 and 1. */
static int64_t group_limit(const char *groups, const char *root, const char *controller, const char *v2, const char *v1,
                           int64_t (*read)(const char *path)) {
    int64_t limit = INT64_MAX;
    OWNED_FILE FILE *file = fopen(groups, "re");
    char line[1100];
    /* A line is NUMBER:CONTROLLERS:GROUP. cgroup v2 has the number 0 and no controllers. */
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *controllers++ = *group++ = '\0';
        if (strcmp(line, "0") == 0 && *controllers == '\0')
            limit = smaller(limit, min_limit(v2, root, group, read));
        else if (list_contains(controllers, controller))
            limit = smaller(limit, min_limit(v1, root, group, read));
    }
    return limit;
}

int64_t host_memory_limit(const char *groups, const char *root) {
    return group_limit(groups, root, "memory", "%s%s/memory.max", "%s/memory%s/memory.limit_in_bytes", read_bytes);
}

int64_t host_processor_limit(const char *groups, const char *root) {
    return group_limit(groups, root, "cpu", "%s%s/cpu.max", "%s/cpu%s/cpu.cfs_quota_us", read_processors);
}

/* What the program takes of a control group beside a job's `memory`: chunks, HDF5, verification. */
#define RESERVED_BYTES (INT64_C(128) << 20)

struct host_memory host_memory(void) {
    int64_t limit = host_memory_limit("/proc/self/cgroup", "/sys/fs/cgroup");
    int64_t available = meminfo_bytes("MemAvailable");
    struct host_memory memory;
    memory.total = smaller((int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE), limit);
    memory.free = smaller(available > 0 ? available : memory.total / 2, limit - smaller(limit / 4 * 3, RESERVED_BYTES));
    return memory;
}

/* ---- caches ------------------------------------------------------------------------------------------------------ */

/* Reads the first line of ROOT/cpuCPU/NAME; false: there is no such file. */
static bool read_first_line(const char *root, int cpu, const char *name, char *line, int size) {
    char path[512];
    snprintf(path, sizeof path, "%s/cpu%d/%s", root, cpu, name);
    OWNED_FILE FILE *file = fopen(path, "re");
    return file && fgets(line, size, file);
}

/* Reads the first line of ROOT/cpuCPU/cache/indexINDEX/NAME; false: there is no such file. */
static bool read_cache(const char *root, int cpu, int index, const char *name, char *line, int size) {
    char path[64];
    snprintf(path, sizeof path, "cache/index%d/%s", index, name);
    return read_first_line(root, cpu, path, line, size);
}

/* The index of a processor's highest-level cache; -1: no cache is known. */
static int last_level(const char *root, int cpu) {
    char line[32];
    int found = -1, highest = 0;
    for (int index = 0; read_cache(root, cpu, index, "level", line, sizeof line); index++)
        if (atoi(line) > highest) highest = atoi(line), found = index;
    return found;
}

/* Converts "32768K" or "8M" to bytes. */
static int64_t cache_size(const char *text) {
    char *unit;
    int64_t size = strtoll(text, &unit, 10);
    return *unit == 'K' ? size << 10 : *unit == 'M' ? size << 20 : *unit == 'G' ? size << 30 : size;
}

/* Removes the processors of a list such as "0-3,8,10-11" from the set. */
static void remove_processors(cpu_set_t *set, const char *list) {
    while (isdigit((unsigned char)*list)) {
        char *end;
        long first = strtol(list, &end, 10), last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        for (long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++) CPU_CLR((size_t)cpu, set);
        list = end + (*end == ',');
    }
}

/* The processors, else those that this process may run on. */
static cpu_set_t processors_or_own(const cpu_set_t *processors) {
    cpu_set_t set;
    if (processors) return *processors;
    if (sched_getaffinity(0, sizeof set, &set) != 0) CPU_ZERO(&set);
    return set;
}

int64_t host_cache_bytes(const char *root, const cpu_set_t *processors) {
    cpu_set_t set = processors_or_own(processors);
    int64_t sum = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char size[32], shared[4096];
        if (!CPU_ISSET((size_t)cpu, &set)) continue;
        int index = last_level(root, cpu);
        if (index < 0 || !read_cache(root, cpu, index, "size", size, sizeof size)) continue;
        sum += cache_size(size);
        if (read_cache(root, cpu, index, "shared_cpu_list", shared, sizeof shared)) remove_processors(&set, shared);
    }
    return sum;
}

int host_core_count(const char *root, const cpu_set_t *processors) {
    cpu_set_t set = processors_or_own(processors);
    int cores = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char siblings[4096];
        if (!CPU_ISSET((size_t)cpu, &set)) continue;
        if (!read_first_line(root, cpu, "topology/thread_siblings_list", siblings, sizeof siblings)) continue;
        remove_processors(&set, siblings);
        cores++;
    }
    return cores;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

char *host_file_value(const char *path, const char *key, char separator) {
    OWNED_FILE FILE *file = fopen(path, "re");
    OWNED char *line = NULL;
    size_t capacity = 0;
    while (file && getline(&line, &capacity, file) >= 0) {
        char *value = strchr(line, separator);
        if (strncmp(line, key, strlen(key)) != 0 || !value) continue;
        value += 1 + strspn(value + 1, " \t\"");
        char *end = value + strlen(value);
        while (end > value && (isspace((unsigned char)end[-1]) || end[-1] == '"')) *--end = '\0';
        return must_strdup(value);
    }
    return NULL;
}

void host_cpu_name(char *name, unsigned long size) {
    OWNED char *model = host_file_value("/proc/cpuinfo", "model name", ':');
    snprintf(name, size, "%s", model ? model : "CPU");
}
