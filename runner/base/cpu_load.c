/* cpu_load.c - compares the CPU time of the machine with that of this process. */
#include "cpu_load.h"

#include "clock.h"
#include "fail.h"
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TICK_ERROR_S 0.012 /* three standard deviations of the difference of two counts of ticks, on one CPU */
#define TICK_S       0.01  /* the kernel's unit of CPU time: one tick of other programs is no load */
#define RECENT_S     5.0   /* an older load is not used: other processes may have stopped since */
#define PROBE_ROUNDS 12000 /* about 10 us */

/* The CPU time of all processes on the CPUs of `mask`, from the lines "cpu3 user nice system idle iowait irq softirq
 * steal" of /proc/stat. NaN: there are none. */
static double working_seconds(const cpu_set_t *mask) {
    OWNED_FILE FILE *from = fopen("/proc/stat", "re");
    char line[512];
    double ticks = NAN;
    while (from && fgets(line, sizeof line, from)) {
        int cpu;
        unsigned long long user, nice, system, idle, wait, irq, soft, steal;
        if (sscanf(line, "cpu%d %llu %llu %llu %llu %llu %llu %llu %llu", &cpu, &user, &nice, &system, &idle, &wait,
                   &irq, &soft, &steal) != 9 ||
            cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, mask))
            continue;
        ticks = (isnan(ticks) ? 0 : ticks) + (double)(user + nice + system + irq + soft + steal);
    }
    return ticks / (double)sysconf(_SC_CLK_TCK);
}

struct cpu_load cpu_load_now(void) {
    struct cpu_load load = {.now_s = now_s(), .working_s = NAN, .cpus = 1};
    struct timespec cpu_time;
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask) == 0) {
        load.cpus = CPU_COUNT(&mask);
        load.working_s = working_seconds(&mask);
    }
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_time) == 0)
        load.own_s = (double)cpu_time.tv_sec + 1e-9 * (double)cpu_time.tv_nsec;
    return load;
}

struct cpu_load cpu_load_earlier(const struct cpu_load *now) {
    static struct cpu_load recent, older; /* `older` is older than CPU_LOAD_MIN_S; recent.now_s 0: not set yet */
    if (recent.now_s == 0) recent = older = *now;
    if (now->now_s - recent.now_s >= CPU_LOAD_MIN_S) {
        older = recent;
        recent = *now;
    }
    return now->now_s - older.now_s < RECENT_S ? older : *now;
}

bool cpu_load_is_ignored(void) {
    const char *load = getenv("TILERUN_LOAD");
    return load && strcmp(load, "ignore") == 0;
}

bool cpu_load_is_busy(const struct cpu_load *before, const struct cpu_load *after) {
    if (cpu_load_is_ignored()) return false;
    double seconds = after->now_s - before->now_s, cpus = after->cpus;
    double others = after->working_s - before->working_s - (after->own_s - before->own_s);
    return others > CPU_LOAD_BUSY * cpus * seconds + TICK_S + TICK_ERROR_S * sqrt(cpus);
}

/* Measures the time of a loop of integer operations: six independent chains of additions and exclusive ors keep all
 * integer units of a core busy. The empty assembly keeps the compiler from computing the sums at compile time or with
 * vector instructions. */
static double time_loop(void) {
    double begun = now_s();
    unsigned long a = 1, b = 2, c = 3, d = 4, e = 5, f = 6;
    for (unsigned long i = 0; i < PROBE_ROUNDS; i++) {
        a += i, b ^= i, c += i, d ^= i, e += i, f ^= i;
        __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
    }
    return now_s() - begun;
}

double probe_seconds(int threads) {
    if (threads <= 1) return time_loop();
    double longest = 0;
#pragma omp parallel num_threads(threads) reduction(max : longest)
    longest = time_loop();
    return longest;
}
