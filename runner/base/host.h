/* host.h - facts about the machine: its CPU, its caches, and how much memory this process may use. */
#ifndef RUNNER_HOST_H
#define RUNNER_HOST_H

#include <sched.h>
#include <stdint.h>

/* The machine's memory in bytes, total and free now; neither exceeds the control group's limit, and `free` leaves a
 * part of that to the program itself. */
struct host_memory {
    int64_t total, free;
};
struct host_memory host_memory(void);

/* The memory in bytes that a container or a batch system allows: the smallest limit of this process's control group and
 * its ancestors, cgroup v2 or v1. INT64_MAX: no limit. `groups` is /proc/self/cgroup and `root` is /sys/fs/cgroup,
 * except in tests. */
int64_t host_memory_limit(const char *groups, const char *root);

/* The processors whose time these control groups allow (cpu.max of cgroup v2, cpu.cfs_quota_us of v1), rounded up to a
 * whole number. INT64_MAX: no quota. `groups` and `root` are those of host_memory_limit. */
int64_t host_processor_limit(const char *groups, const char *root);

/* Writes the CPU's model name as Linux reports it; "CPU": Linux reports none. */
void host_cpu_name(char *name, unsigned long size);

/* The total size in bytes of the last-level caches of the processors that this process may run on; 0: unknown. A cache
 * that several processors share counts once. sysconf cannot replace this: on some CPUs glibc returns the sum over the
 * machine, on others a single cache. `root` is /sys/devices/system/cpu and `processors` is NULL, except in tests. */
int64_t host_cache_bytes(const char *root, const cpu_set_t *processors);

/* The number of cores to which the processors that this process may run on belong: threads of one core count once. 0:
 * unknown. `root` and `processors` are those of host_cache_bytes. */
int host_core_count(const char *root, const cpu_set_t *processors);

/* The value in the first line `key <separator> value` of a file, without quotes; NULL: no such line. The caller
 * frees. */
char *host_file_value(const char *path, const char *key, char separator);

#endif
