/* shard.c - groups tasks and predicts their cost on the nominal machine; answers which shard has which task. */
#include "shard.h"

#include "../base/fail.h"
#include "../plan/plan_cost.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a task costs on the nominal machine -------------------------------------------------------------------- */

#define NOMINAL_BUDGET (INT64_C(16) << 30) /* bytes of memory for a run */

static const struct device_facts nominal_cpu = {
    .kind = DEVICE_CPU,
    .multiprocessors = 16,
    .host_threads = 16,
    .cache_bytes = INT64_C(32) << 20,
    .copy_bytes_per_s = INFINITY,
    .memory_bytes_per_s = 80e9,
    .read_bytes_per_s = SHARD_READ_BYTES_PER_S,
    .write_bytes_per_s = SHARD_WRITE_BYTES_PER_S,
};
static const struct device_facts nominal_cuda = {
    .kind = DEVICE_CUDA,
    .compute_capability = 80,
    .multiprocessors = 108,
    .host_threads = 16,
    .cache_bytes = INT64_C(40) << 20,
    .copy_bytes_per_s = 25e9,
    .memory_bytes_per_s = 1.5e12,
    .read_bytes_per_s = SHARD_READ_BYTES_PER_S,
    .write_bytes_per_s = SHARD_WRITE_BYTES_PER_S,
};

/* The facts of the nominal device, which computes half as fast in the other types as in float32. */
static struct device_facts nominal_facts(enum kernel_device kind) {
    struct device_facts facts = kind == DEVICE_CUDA ? nominal_cuda : nominal_cpu;
    double float32 = kind == DEVICE_CUDA ? 19e12 : 1e12;
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) facts.flops_per_s[dtype] = float32 / 2;
    facts.flops_per_s[FLOAT32] = float32;
    return facts;
}

/* May the job use a GPU, if there is one? */
static bool may_use_gpu(const struct plan *plan) {
    return plan->job->device != JOB_DEVICE_CPU;
}

/* The plan for the nominal machine, which shares everything with the plan except facts and budget. */
static struct plan nominal_plan(const struct plan *plan) {
    struct plan nominal = *plan;
    for (int kind = 0; kind < 2; kind++) {
        nominal.present[kind] = kind == DEVICE_CPU || may_use_gpu(plan);
        nominal.facts[kind] = nominal_facts((enum kernel_device)kind);
        nominal.budget[kind] = NOMINAL_BUDGET;
    }
    return nominal;
}

const char *shard_machine(const struct plan *plan, char text[96]) {
    enum kernel_device kind = DEVICE_CPU;
    for (int r = 0; r < plan->run_count; r++)
        if (plan->runs[r].kernel && plan->runs[r].device == DEVICE_CUDA && may_use_gpu(plan)) kind = DEVICE_CUDA;
    const struct device_facts facts = nominal_facts(kind);
    char cores[32];
    snprintf(cores, sizeof cores, "%d cores", facts.host_threads);
    snprintf(text, 96, "%s of %g TFLOP/s (float32) and %g GB/s", kind == DEVICE_CUDA ? "a GPU" : cores,
             facts.flops_per_s[FLOAT32] / 1e12, facts.memory_bytes_per_s / 1e9);
    return text;
}

/* The cost of a run in the nominal memory or, if its tiles do not fit there, in the memory that the plan gave it. The
 * cost is 0 if the run has no kernel, no tiles or no prediction, or if the job does not use the kernel's device. */
static struct shard_load load_of(const struct plan *nominal, const struct run *run) {
    struct shard_load load = {.runs = 1};
    struct run copy = *run;
    if (!run->kernel || !nominal->present[run->device] ||
        (!plan_fit(nominal, run, nominal->budget[run->device], &copy.tiling) &&
         !plan_fit(nominal, run, copy.tiling.memory_bytes, &copy.tiling)))
        return load;
    const struct cost cost = plan_cost(nominal, &copy);
    if (!isfinite(cost.total_s)) return load;
    const struct tiling *tiling = &copy.tiling;
    load.seconds = cost.total_s;
    load.pass_s = cost.total_s - cost.repeats_s;
    load.compute_s = fmin(load.seconds, fmax(tiling->generate_s, fmax(tiling->copy_s, tiling->compute_s)) +
                                            cost.repeats_s + cost.verify_s);
    load.read_bytes = tiling->read_bytes;
    load.write_bytes = tiling->write_bytes;
    return load;
}

void shard_load_add(struct shard_load *sum, const struct shard_load *more) {
    sum->runs += more->runs;
    sum->seconds += more->seconds;
    sum->pass_s += more->pass_s;
    sum->compute_s += more->compute_s;
    sum->read_bytes += more->read_bytes;
    sum->write_bytes += more->write_bytes;
}

/* ---- groups of tasks --------------------------------------------------------------------------------------------- */

/* The first task of a task's group (union-find): `first` leads from each task to an earlier one of its group, or to
 * itself. */
static int first_of(int *first, int task) {
    while (first[task] != task) task = first[task] = first[first[task]];
    return task;
}

/* Joins the groups of two tasks. */
static void connect(int *first, int task, int producer) {
    int one = first_of(first, task), other = first_of(first, producer);
    first[one > other ? one : other] = one > other ? other : one;
}

/* Returns for each task the first task of its group. The caller frees. */
static int *connect_tasks(const struct plan *plan) {
    int *first = must_malloc((unsigned long)(plan->task_count + 1) * sizeof *first);
    for (int t = 0; t < plan->task_count; t++) {
        const struct task *task = &plan->tasks[t];
        first[t] = t;
        for (int i = 0; i < task->geometry.inputs; i++) {
            int producer = plan_producer(plan, task->in[i]);
            if (producer < 0) continue;
            for (int p = producer, end = plan_producers_end(plan, producer); p < end; p++) connect(first, t, p);
        }
    }
    for (int t = 0; t < plan->task_count; t++) first[t] = first_of(first, t);
    return first;
}

/* Sorts the longest group first; of equally long ones the one whose first task is earlier. */
static int compare_groups(const void *one, const void *other) {
    const struct shard_group *a = one, *b = other;
    if (a->load.seconds != b->load.seconds) return a->load.seconds < b->load.seconds ? 1 : -1;
    return (a->first > b->first) - (a->first < b->first);
}

/* An earlier panel of the task's operation and of its size, whose runs cost the same, so that N panels do not need N
 * searches for tiles. -1: there is none, or the task is no panel. `panels`: the latest panel of each of the two sizes
 * that an operation has at most. */
static int find_equal_panel(const struct plan *plan, int number, const int panels[2]) {
    const struct task *task = &plan->tasks[number];
    for (int i = 0; i < 2 && task->panel; i++) {
        const struct task *other = panels[i] < 0 ? NULL : &plan->tasks[panels[i]];
        if (other && other->operation == task->operation &&
            memcmp(other->geometry.extent, task->geometry.extent, sizeof task->geometry.extent) == 0)
            return panels[i];
    }
    return -1;
}

/* The cost of the runs of each task. The caller frees. */
static struct shard_load *find_loads(const struct plan *plan) {
    struct shard_load *loads = must_malloc((unsigned long)(plan->task_count + 1) * sizeof *loads);
    const struct plan nominal = nominal_plan(plan);
    int panels[2] = {-1, -1}, next = 0;
    for (int t = 0; t < plan->task_count; t++) {
        const struct task *task = &plan->tasks[t];
        int equal = find_equal_panel(plan, t, panels);
        loads[t] = equal >= 0 ? loads[equal] : (struct shard_load){0};
        for (int r = task->first_run; r < task->first_run + task->run_count && equal < 0; r++) {
            const struct shard_load load = load_of(&nominal, &plan->runs[r]);
            shard_load_add(&loads[t], &load);
        }
        if (equal < 0 && task->panel) panels[next] = t, next = !next;
    }
    return loads;
}

struct shard_groups *shard_groups_find(const struct plan *plan) {
    struct shard_groups *all = must_malloc(sizeof *all);
    struct shard_group *groups = must_malloc((unsigned long)(plan->task_count + 1) * sizeof *groups);
    struct shard_load *loads = find_loads(plan);
    OWNED int *first = connect_tasks(plan);
    int count = 0;
    for (int t = 0; t < plan->task_count; t++) groups[t] = (struct shard_group){.first = t};
    for (int t = 0; t < plan->task_count; t++) {
        groups[first[t]].tasks++;
        shard_load_add(&groups[first[t]].load, &loads[t]);
    }
    for (int t = 0; t < plan->task_count; t++)
        if (first[t] == t) groups[count++] = groups[t];
    qsort(groups, (size_t)count, sizeof *groups, compare_groups);
    int *group_of_task = must_malloc((unsigned long)(plan->task_count + 1) * sizeof *group_of_task);
    for (int g = 0; g < count; g++) group_of_task[groups[g].first] = g;
    for (int t = 0; t < plan->task_count; t++) group_of_task[t] = group_of_task[first[t]];
    *all = (struct shard_groups){
        .plan = plan, .count = count, .groups = groups, .group_of_task = group_of_task, .loads = loads};
    for (int g = 0; g < count; g++) all->seconds += groups[g].load.seconds;
    return all;
}

void shard_groups_free(struct shard_groups *all) {
    if (!all) return;
    free(all->groups);
    free(all->group_of_task);
    free(all->loads);
    free(all);
}

int *shard_split(const struct plan *plan, int shards) {
    FREED_BY(shard_groups_release) struct shard_groups *all = shard_groups_find(plan);
    return shard_deal(all, shards);
}

/* ---- one shard --------------------------------------------------------------------------------------------------- */

bool shard_has(const struct shard *shard, int task) {
    return !shard || shard->shard_of_task[task] == shard->index;
}

int shard_runs(const struct shard *shard, const struct plan *plan) {
    int runs = 0;
    for (int r = 0; r < plan->run_count; r++) runs += shard_has(shard, plan->runs[r].task);
    return runs;
}

int shard_busy(const struct shard *shard, const struct plan *plan) {
    OWNED bool *busy = must_zeroed((unsigned long)shard->count * sizeof *busy);
    int count = 0;
    for (int t = 0; t < plan->task_count; t++) busy[shard->shard_of_task[t]] = true;
    for (int s = 0; s < shard->count; s++) count += busy[s];
    return count;
}

bool shard_reads(const struct shard *shard, const struct plan *plan, int input) {
    if (!shard) return true;
    for (int t = 0; t < plan->task_count; t++)
        for (int i = 0; i < plan->tasks[t].geometry.inputs; i++)
            if (plan->tasks[t].in[i] == input && shard_has(shard, t)) return true;
    return false;
}
