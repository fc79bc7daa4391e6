/* host.h - the machine: its processor and caches, and how much of its memory this process may use. */
#ifndef RUNNER_HOST_H
#define RUNNER_HOST_H

#include <sched.h>
#include <stdint.h>

/* The machine's memory and how much of it is free now, in bytes; neither exceeds what the control group allows. */
struct host_memory {
    int64_t total, free;
};
struct host_memory host_memory(void);

/* The memory that a container or a batch system allows: the least limit of this process's control group and those above
 * it, cgroup v2 or v1. INT64_MAX: no limit. `groups` is /proc/self/cgroup and `root` is /sys/fs/cgroup, except in
 * tests. */
int64_t host_memory_limit(const char *groups, const char *root);

/* The model of the processor, as Linux names it; "CPU" where it has no name. */
void host_cpu_name(char *name, unsigned long size);

/* The bytes of the last-level caches of the processors that this process may run on; 0: Linux does not say. Where
 * several processors share a cache it counts once. glibc's sysconf gives all caches of the machine on some processors
 * and one of them on others. `root` is /sys/devices/system/cpu and `processors` are NULL, except in tests. */
int64_t host_cache_bytes(const char *root, const cpu_set_t *processors);

/* The value of the first line `key <separator> value` of a file, without quotes; NULL: none. The caller frees. */
char *host_file_value(const char *path, const char *key, char separator);

#endif
