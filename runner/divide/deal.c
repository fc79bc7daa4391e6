/* deal.c - deals tasks out to shards, and predicts when each shard ends.
 *
 * A shard does its tasks in the plan's order, and waits where one reads a result that another shard has yet to make.
 * That always comes to an end:
 *
 *   - All shards at work at once: of the tasks that are not done take the first in the plan's order. What it reads is
 *     made by earlier tasks, which are done, and so are the earlier ones of its shard. So it is being done.
 *   - Shards one after another, by their numbers, or so many at a time (an array with a limit): a task's producers are
 *     in its own shard or in those of lower numbers. So a shard waits for lower ones alone; shard 0 waits for none, and
 *     each next one finds those below it begun, and ending.
 *
 * Both ways of dealing keep that: a group dealt out whole is in one shard, and of one that is spread each task goes to
 * no lower shard than its producers. */
#include "shard.h"

#include "../base/fail.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A task follows its producer's result to another shard, and a job is dealt out with waits, only for a gain of this
 * share: of a shard's mean time, and of the time until all is done. */
#define GAIN 0.05

/* ---- the seconds that shards have so far ------------------------------------------------------------------------- */

/* A tree: each node has the less of its two children's, `seconds[leaves + s]` is that of shard s, the root is 1. */
struct piles {
    int leaves;
    double *seconds;
};

static struct piles piles_make(int shards) {
    struct piles piles = {.leaves = 1};
    while (piles.leaves < shards) piles.leaves *= 2;
    piles.seconds = must_malloc(2 * (size_t)piles.leaves * sizeof *piles.seconds);
    for (int s = 0; s < piles.leaves; s++) piles.seconds[piles.leaves + s] = s < shards ? 0 : INFINITY;
    for (int node = piles.leaves - 1; node > 0; node--) /* the left child is never the emptier one */
        piles.seconds[node] = piles.seconds[2 * node];
    return piles;
}

static void piles_set(struct piles *piles, int shard, double seconds) {
    int node = piles->leaves + shard;
    piles->seconds[node] = seconds;
    while (node /= 2) piles->seconds[node] = fmin(piles->seconds[2 * node], piles->seconds[2 * node + 1]);
}

/* Of the shards from `from` to before `to` that are below a node, whose first is `first`, the node of the one that has
 * least; of equal ones the first. 0: there are none. */
static int least_below(const struct piles *piles, int node, int first, int shards, int from, int to) {
    if (to <= first || first + shards <= from) return 0;
    if (from <= first && first + shards <= to) {
        while (node < piles->leaves) node = 2 * node + (piles->seconds[2 * node + 1] < piles->seconds[2 * node]);
        return node;
    }
    int left = least_below(piles, 2 * node, first, shards / 2, from, to);
    int right = least_below(piles, 2 * node + 1, first + shards / 2, shards / 2, from, to);
    return left && (!right || piles->seconds[left] <= piles->seconds[right]) ? left : right;
}

static int piles_least(const struct piles *piles, int from, int to) {
    return least_below(piles, 1, 0, piles->leaves, from, to) - piles->leaves;
}

/* ---- whole groups ------------------------------------------------------------------------------------------------ */

/* Deals groups out whole, the longest first; those that are `spread` (may be NULL) are in *piles already. */
static void deal_groups(const struct shard_groups *all, struct piles *piles, int shards, const bool *spread,
                        int *of_task) {
    int *of_group = must_malloc((size_t)(all->count + 1) * sizeof *of_group);
    for (int g = 0; g < all->count; g++) {
        if (spread && spread[g]) continue;
        int shard = !spread && g < shards ? g : piles_least(piles, 0, shards); /* the first go to a shard each */
        of_group[g] = shard;
        piles_set(piles, shard, piles->seconds[piles->leaves + shard] + all->groups[g].load.seconds);
    }
    for (int t = 0; t < all->plan->task_count; t++)
        if (!spread || !spread[all->of_task[t]]) of_task[t] = of_group[all->of_task[t]];
    free(of_group);
}

/* ---- groups that are spread -------------------------------------------------------------------------------------- */

/* When what a task reads is there, and the highest shard that makes some of it; -1: it reads no result. */
static double ready(const struct plan *plan, int number, const int *of_task, const double *done, int *highest) {
    const struct task *task = &plan->tasks[number];
    double seconds = 0;
    *highest = -1;
    for (int i = 0; i < task->geometry.inputs; i++) {
        int producer = plan_producer(plan, task->in[i]);
        int end = producer < 0 ? producer : plan_producers_end(plan, producer);
        for (int p = producer; p < end; p++) {
            seconds = fmax(seconds, done[p]);
            if (of_task[p] > *highest) *highest = of_task[p];
        }
    }
    return seconds;
}

/* How the tasks of long groups are spread. */
struct spread {
    const bool *groups; /* which they are */
    double mean;        /* seconds of a shard */
    int shards;
    int first; /* so many shards are for tasks that read no result: what reads these can go to several others then */
};

/* Deals out the tasks of groups one by one, in the plan's order: each to the shard that can begin it first. */
static void spread_groups(const struct shard_groups *all, const struct spread *spread, struct piles *piles,
                          int *of_task) {
    const struct plan *plan = all->plan;
    double *done = must_malloc((size_t)(plan->task_count + 1) * sizeof *done);
    for (int t = 0; t < plan->task_count; t++) {
        if (!spread->groups[all->of_task[t]]) continue;
        int highest;
        double from = ready(plan, t, of_task, done, &highest);
        int shard = highest < 0 ? piles_least(piles, 0, spread->first) : piles_least(piles, highest, spread->shards);
        double begin = fmax(from, piles->seconds[piles->leaves + shard]);
        if (highest >= 0 && fmax(from, piles->seconds[piles->leaves + highest]) <= begin + GAIN * spread->mean) {
            shard = highest;
            begin = fmax(from, piles->seconds[piles->leaves + shard]);
        }
        of_task[t] = shard;
        done[t] = begin + all->loads[t].seconds;
        piles_set(piles, shard, done[t]);
    }
    free(done);
}

/* ---- the better of the two --------------------------------------------------------------------------------------- */

double *shard_ends(const struct shard_groups *all, const int *of_task, int shards) {
    const struct plan *plan = all->plan;
    double *ends = must_malloc((size_t)shards * sizeof *ends);
    double *done = must_malloc((size_t)(plan->task_count + 1) * sizeof *done);
    for (int s = 0; s < shards; s++) ends[s] = 0;
    for (int t = 0; t < plan->task_count; t++) {
        int unused;
        done[t] = fmax(ends[of_task[t]], ready(plan, t, of_task, done, &unused)) + all->loads[t].seconds;
        ends[of_task[t]] = done[t];
    }
    free(done);
    return ends;
}

static double last_end(const struct shard_groups *all, const int *of_task, int shards) {
    double *ends = shard_ends(all, of_task, shards), last = 0;
    for (int s = 0; s < shards; s++) last = fmax(last, ends[s]);
    free(ends);
    return last;
}

/* Marks the groups of several tasks that are longer than the mean. Returns how many tasks of theirs read a result. */
static int mark_long(const struct shard_groups *all, double mean, bool *marks) {
    const struct plan *plan = all->plan;
    int readers = 0;
    for (int g = 0; g < all->count; g++) marks[g] = all->groups[g].tasks > 1 && all->groups[g].load.seconds > mean;
    for (int t = 0; t < plan->task_count; t++) {
        const struct task *task = &plan->tasks[t];
        bool reads = false;
        for (int i = 0; i < task->geometry.inputs; i++) reads |= task->in[i] >= plan->input_count;
        readers += reads && marks[all->of_task[t]];
    }
    return readers;
}

/* Spreads the long groups in several ways, and takes one of them if that ends soon enough before `of_task`. */
static void spread_if_sooner(const struct shard_groups *all, struct spread *spread, int readers, int *of_task) {
    int shards = spread->shards;
    size_t bytes = (size_t)(all->plan->task_count + 1) * sizeof *of_task;
    double soonest = (1 - GAIN) * last_end(all, of_task, shards);
    int *tried = must_malloc(bytes);
    for (int others = 0; others < readers && others < shards; others = others ? 2 * others : 1) {
        struct piles piles = piles_make(shards);
        spread->first = shards - others;
        spread_groups(all, spread, &piles, tried);
        deal_groups(all, &piles, shards, spread->groups, tried);
        free(piles.seconds);
        double end = last_end(all, tried, shards);
        if (end >= soonest) continue;
        soonest = end;
        memcpy(of_task, tried, bytes);
    }
    free(tried);
}

int *shard_deal(const struct shard_groups *all, int shards) {
    int *of_task = must_malloc((size_t)(all->plan->task_count + 1) * sizeof *of_task);
    bool *groups = must_malloc((size_t)(all->count + 1) * sizeof *groups);
    struct piles piles = piles_make(shards);
    struct spread spread = {.groups = groups, .shards = shards};
    for (int g = 0; g < all->count; g++) spread.mean += all->groups[g].load.seconds / shards;
    deal_groups(all, &piles, shards, NULL, of_task);
    int readers = shards > 1 ? mark_long(all, spread.mean, groups) : 0;
    if (readers > 0) spread_if_sooner(all, &spread, readers, of_task);
    free(piles.seconds);
    free(groups);
    return of_task;
}
