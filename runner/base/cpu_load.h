/* cpu_load.h - finds out whether other processes used the CPUs while this process measured times.
 *
 *     struct cpu_load before = cpu_load_now();
 *     ...
 *     struct cpu_load after = cpu_load_now();
 *     bool busy = cpu_load_is_busy(&before, &after);
 *
 * What counts is the time that the CPUs of the affinity mask worked, less the CPU time of this process. The kernel
 * counts it in ticks of 10 ms, with what a hypervisor took. (Involuntary context switches do not count: threads of one
 * process make thousands of them in a second among themselves.) If the system reports neither, or with
 * TILERUN_LOAD=ignore in the environment, no time is busy.
 *
 * A virtual machine does not see who uses the other hardware thread of its cores: the kernels take up to twice as long
 * and no counter shows it. probe_seconds does. */
#ifndef RUNNER_CPU_LOAD_H
#define RUNNER_CPU_LOAD_H

#include <stdbool.h>

struct cpu_load {
    double now_s;     /* time of the monotonic clock */
    double working_s; /* CPU time of all processes on the CPUs of the affinity mask; NaN: unknown */
    double own_s;     /* CPU time of this process */
    int cpus;         /* number of CPUs in the mask */
};

struct cpu_load cpu_load_now(void);
/* Returns the load of an earlier call, at least CPU_LOAD_MIN_S before `now`, to judge a measurement that is shorter
 * than that. Returns `now` if this is the first call or the earlier one was many seconds before. Keeps `now` for later
 * calls; not for several threads at once. */
struct cpu_load cpu_load_earlier(const struct cpu_load *now);
/* Did other processes use more than the share CPU_LOAD_BUSY of the CPUs between the two? */
#define CPU_LOAD_BUSY  0.05
#define CPU_LOAD_MIN_S 0.2 /* over less time, ticks are coarse */
bool cpu_load_is_busy(const struct cpu_load *before, const struct cpu_load *after);

/* Times a fixed loop of about 10 us that uses its core fully: if another thread of the core is busy, the loop takes 1.2
 * to 1.8 times as long. Returns the longest time over `threads` threads of OpenMP. */
double probe_seconds(int threads);
bool cpu_load_is_ignored(void); /* TILERUN_LOAD=ignore */
/* A core is shared, or clocked lower, if its probe takes longer than this times the fastest. */
#define PROBE_SHARED 1.1

#endif
