/* host.c - reads facts about the machine from /proc, /sys, sysconf and the control groups. */
#include "host.h"

#include "fail.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The value of the line NAME of /proc/meminfo, in bytes; 0: there is no such line. */
static int64_t meminfo_bytes(const char *name) {
    FILE *file = fopen("/proc/meminfo", "re");
    if (!file) return 0;
    char line[128], key[64];
    long long kibibytes = 0, value;
    while (kibibytes == 0 && fgets(line, sizeof line, file))
        if (sscanf(line, "%63[^:]: %lld", key, &value) == 2 && strcmp(key, name) == 0) kibibytes = value;
    fclose(file);
    return (int64_t)kibibytes * 1024;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The smallest limit of `group` and its ancestors; `format` makes the path of a limit's file from root and group. In a
 * container `root` may be the container's own group while `group` is the path on the host: then only the file in `root`
 * exists. */
static int64_t least_limit(const char *format, const char *root, char *group) {
    int64_t limit = INT64_MAX;
    for (;;) {
        char path[1200];
        long long value;
        snprintf(path, sizeof path, format, root, group);
        FILE *file = fopen(path, "re");
        if (file && fscanf(file, "%lld", &value) == 1) limit = least(limit, value);
        if (file) fclose(file);
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

int64_t host_memory_limit(const char *groups, const char *root) {
    int64_t limit = INT64_MAX;
    FILE *file = fopen(groups, "re");
    if (!file) return limit;
    char line[1100];
    /* A line is NUMBER:CONTROLLERS:GROUP. cgroup v2 has the number 0 and no controllers. */
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *controllers++ = *group++ = '\0';
        if (strcmp(line, "0") == 0 && *controllers == '\0')
            limit = least(limit, least_limit("%s%s/memory.max", root, group));
        else if (list_contains(controllers, "memory"))
            limit = least(limit, least_limit("%s/memory%s/memory.limit_in_bytes", root, group));
    }
    fclose(file);
    return limit;
}

struct host_memory host_memory(void) {
    int64_t limit = host_memory_limit("/proc/self/cgroup", "/sys/fs/cgroup");
    int64_t available = meminfo_bytes("MemAvailable");
    struct host_memory memory;
    memory.total = least((int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE), limit);
    memory.free = least(available > 0 ? available : memory.total / 2, limit);
    return memory;
}

/* ---- caches ------------------------------------------------------------------------------------------------------ */

/* Reads the first line of ROOT/cpuCPU/cache/indexINDEX/NAME; false: there is no such file. */
static bool read_cache(const char *root, int cpu, int index, const char *name, char *line, int size) {
    char path[512];
    snprintf(path, sizeof path, "%s/cpu%d/cache/index%d/%s", root, cpu, index, name);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    bool read = fgets(line, size, file) != NULL;
    fclose(file);
    return read;
}

/* The index of a processor's highest-level cache; -1: none. */
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

int64_t host_cache_bytes(const char *root, const cpu_set_t *processors) {
    cpu_set_t set;
    int64_t sum = 0;
    if (processors)
        set = *processors;
    else if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 0;
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

/* ---- names ------------------------------------------------------------------------------------------------------- */

char *host_file_value(const char *path, const char *key, char separator) {
    FILE *file = fopen(path, "re");
    if (!file) return NULL;
    char *line = NULL, *found = NULL;
    size_t room = 0;
    while (!found && getline(&line, &room, file) >= 0) {
        char *value = strchr(line, separator);
        if (strncmp(line, key, strlen(key)) != 0 || !value) continue;
        value += 1 + strspn(value + 1, " \t\"");
        char *end = value + strlen(value);
        while (end > value && (isspace((unsigned char)end[-1]) || end[-1] == '"')) *--end = '\0';
        found = must_strdup(value);
    }
    free(line);
    fclose(file);
    return found;
}

void host_cpu_name(char *name, unsigned long size) {
    char *model = host_file_value("/proc/cpuinfo", "model name", ':');
    snprintf(name, size, "%s", model ? model : "CPU");
    free(model);
}
