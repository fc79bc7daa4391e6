/* shard.c - which shard does which task. */
#include "shard.h"

#include "../base/fail.h"
#include "plan_cost.h"
#include <math.h>
#include <stdlib.h>

/* ---- what a task costs on the nominal machine -------------------------------------------------------------------- */

#define NOMINAL_BUDGET (INT64_C(16) << 30)

static const struct device_facts nominal_cpu = {
    .kind = DEVICE_CPU,
    .multiprocessors = 16,
    .host_threads = 16,
    .cache_bytes = INT64_C(32) << 20,
    .copy_bytes_per_s = INFINITY,
    .memory_bytes_per_s = 80e9,
    .read_bytes_per_s = 3e9,
    .write_bytes_per_s = 1.5e9,
};
static const struct device_facts nominal_cuda = {
    .kind = DEVICE_CUDA,
    .compute_capability = 80,
    .multiprocessors = 108,
    .host_threads = 16,
    .cache_bytes = INT64_C(40) << 20,
    .copy_bytes_per_s = 25e9,
    .memory_bytes_per_s = 1.5e12,
    .read_bytes_per_s = 3e9,
    .write_bytes_per_s = 1.5e9,
};

static struct device_facts nominal_facts(enum kernel_device kind) {
    struct device_facts facts = kind == DEVICE_CUDA ? nominal_cuda : nominal_cpu;
    double float32 = kind == DEVICE_CUDA ? 19e12 : 1e12;
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) facts.flops_per_s[dtype] = float32 / 2;
    facts.flops_per_s[FLOAT32] = float32;
    return facts;
}

/* The plan as the nominal machine would have it; it shares everything with the plan but facts and budget. */
static struct plan nominal_plan(const struct plan *plan) {
    struct plan nominal = *plan;
    for (int kind = 0; kind < 2; kind++) {
        nominal.present[kind] = true;
        nominal.facts[kind] = nominal_facts((enum kernel_device)kind);
        nominal.budget[kind] = NOMINAL_BUDGET;
    }
    return nominal;
}

/* Predicted seconds of a run; 0 if no kernel could be chosen for it. */
static double run_seconds(const struct plan *nominal, const struct run *run) {
    if (!run->kernel) return 0;
    struct run copy = *run;
    if (!plan_fit(nominal, run, nominal->budget[run->device], &copy.tiling) &&
        !plan_fit(nominal, run, copy.tiling.memory_bytes, &copy.tiling))
        return 0;
    double seconds = plan_cost(nominal, &copy).total_s;
    return isfinite(seconds) ? seconds : 0;
}

/* ---- groups of tasks --------------------------------------------------------------------------------------------- */

struct group {
    int first; /* the number of its first task, which stands for the group */
    double seconds;
};

/* The first task of a task's group; `first` leads from each task to an earlier one of its group, or to itself. */
static int first_of(int *first, int task) {
    while (first[task] != task) task = first[task] = first[first[task]];
    return task;
}

/* For each task the first task of its group. The caller frees. */
static int *connect_tasks(const struct plan *plan) {
    int *first = must_malloc((unsigned long)(plan->task_count + 1) * sizeof *first);
    for (int t = 0; t < plan->task_count; t++) {
        const struct task *task = &plan->tasks[t];
        first[t] = t;
        for (int i = 0; i < task->geometry.inputs; i++) {
            int producer = task->in[i] - plan->input_count;
            if (producer < 0) continue;
            int one = first_of(first, t), other = first_of(first, producer);
            first[one > other ? one : other] = one > other ? other : one;
        }
    }
    for (int t = 0; t < plan->task_count; t++) first[t] = first_of(first, t);
    return first;
}

/* The longest first; of equal ones the earlier. */
static int compare_groups(const void *one, const void *other) {
    const struct group *a = one, *b = other;
    if (a->seconds != b->seconds) return a->seconds < b->seconds ? 1 : -1;
    return (a->first > b->first) - (a->first < b->first);
}

/* The groups, the longest first; *count of them. The caller frees. */
static struct group *find_groups(const struct plan *plan, const int *first, int *count) {
    struct group *groups = must_malloc((unsigned long)(plan->task_count + 1) * sizeof *groups);
    const struct plan nominal = nominal_plan(plan);
    int kept = 0;
    for (int t = 0; t < plan->task_count; t++) groups[t] = (struct group){t, 0};
    for (int r = 0; r < plan->run_count; r++)
        groups[first[plan->runs[r].task]].seconds += run_seconds(&nominal, &plan->runs[r]);
    for (int t = 0; t < plan->task_count; t++)
        if (first[t] == t) groups[kept++] = groups[t];
    qsort(groups, (size_t)kept, sizeof *groups, compare_groups);
    *count = kept;
    return groups;
}

int *shard_split(const struct plan *plan, int shards) {
    int *first = connect_tasks(plan), count;
    struct group *groups = find_groups(plan, first, &count);
    int *of_task = must_malloc((unsigned long)(plan->task_count + 1) * sizeof *of_task);
    struct load {
        double seconds;
        int groups;
    } *loads = must_malloc((unsigned long)shards * sizeof *loads);
    for (int s = 0; s < shards; s++) loads[s] = (struct load){0, 0};
    for (int g = 0; g < count; g++) {
        int least = 0;
        for (int s = 1; s < shards && loads[least].groups > 0; s++)
            if (loads[s].groups == 0 || loads[s].seconds < loads[least].seconds) least = s;
        loads[least].seconds += groups[g].seconds;
        loads[least].groups++;
        of_task[groups[g].first] = least;
    }
    for (int t = 0; t < plan->task_count; t++) of_task[t] = of_task[first[t]];
    free(loads);
    free(groups);
    free(first);
    return of_task;
}

/* ---- one shard --------------------------------------------------------------------------------------------------- */

bool shard_has(const struct shard *shard, int task) {
    return !shard || shard->of_task[task] == shard->index;
}

int shard_runs(const struct shard *shard, const struct plan *plan) {
    int runs = 0;
    for (int r = 0; r < plan->run_count; r++) runs += shard_has(shard, plan->runs[r].task);
    return runs;
}

bool shard_reads(const struct shard *shard, const struct plan *plan, int input) {
    if (!shard) return true;
    for (int t = 0; t < plan->task_count; t++)
        for (int i = 0; i < plan->tasks[t].geometry.inputs; i++)
            if (plan->tasks[t].in[i] == input && shard_has(shard, t)) return true;
    return false;
}
