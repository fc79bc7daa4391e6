/* deal.c - deals tasks out to shards, and predicts when each shard ends.
 *
 * A shard does its tasks in the plan's order. It waits when a task reads a result that another shard has yet to make.
 * There is no deadlock:
 *
 *   - If all shards run at once: consider the first task in the plan's order that is not done. The tasks that it reads
 *     come earlier, so they are done, and so are the earlier tasks of its shard. So it is being done.
 *   - If shards run in the order of their numbers, one or a few at a time (a job array with a limit): a task's
 *     producers are in its own shard or in shards with lower numbers. So a shard waits only for lower ones, all of
 *     which have begun and will end; shard 0 waits for none.
 *
 * Both ways of dealing keep this rule: a whole group is in one shard, and in a group that is spread no task goes to a
 * lower shard than its producers. */
#include "shard.h"

#include "../base/fail.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A task goes to another shard than its producer only if it then begins this share of a shard's mean time sooner;
 * groups are spread only if the job then ends this share of its time sooner. */
#define GAIN 0.05

/* ---- the work of each shard so far ------------------------------------------------------------------------------- */

/* A binary tree of minima: each node has the lesser value of its two children; seconds[leaves + s] belongs to shard s;
 * the root is node 1. */
struct load_tree {
    int leaves;
    double *seconds;
};

/* A tree in which all shards have 0 seconds. The caller frees its `seconds`. */
static struct load_tree load_tree_make(int shards) {
    struct load_tree tree = {.leaves = 1};
    while (tree.leaves < shards) tree.leaves *= 2;
    tree.seconds = must_malloc(2 * (size_t)tree.leaves * sizeof *tree.seconds);
    for (int s = 0; s < tree.leaves; s++) tree.seconds[tree.leaves + s] = s < shards ? 0 : INFINITY;
    for (int node = tree.leaves - 1; node > 0; node--) /* no right child is less: all shards have 0 */
        tree.seconds[node] = tree.seconds[2 * node];
    return tree;
}

static void load_tree_set(struct load_tree *tree, int shard, double seconds) {
    int node = tree->leaves + shard;
    tree->seconds[node] = seconds;
    while (node /= 2) tree->seconds[node] = fmin(tree->seconds[2 * node], tree->seconds[2 * node + 1]);
}

/* The leaf of the shard with the least seconds among shards from .. to - 1 below a node; of equal ones the first. The
 * node covers `shards` shards from `first` on. 0: there are none. */
static int min_below(const struct load_tree *tree, int node, int first, int shards, int from, int to) {
    if (to <= first || first + shards <= from) return 0;
    if (from <= first && first + shards <= to) {
        while (node < tree->leaves) node = 2 * node + (tree->seconds[2 * node + 1] < tree->seconds[2 * node]);
        return node;
    }
    int lower = min_below(tree, 2 * node, first, shards / 2, from, to);
    int upper = min_below(tree, 2 * node + 1, first + shards / 2, shards / 2, from, to);
    return lower && (!upper || tree->seconds[lower] <= tree->seconds[upper]) ? lower : upper;
}

/* The shard with the least seconds among from .. to - 1, of which there is at least one. */
static int load_tree_min(const struct load_tree *tree, int from, int to) {
    return min_below(tree, 1, 0, tree->leaves, from, to) - tree->leaves;
}

/* ---- whole groups ------------------------------------------------------------------------------------------------ */

/* Deals out whole groups, the longest first. It skips groups marked in `spread` (NULL: none is), which are dealt out
 * and counted in *tree already. */
static void deal_groups(const struct shard_groups *all, struct load_tree *tree, int shards, const bool *spread,
                        int *shard_of_task) {
    OWNED int *shard_of_group = must_malloc((size_t)(all->count + 1) * sizeof *shard_of_group);
    for (int g = 0; g < all->count; g++) {
        if (spread && spread[g]) continue;
        int shard = !spread && g < shards ? g : load_tree_min(tree, 0, shards); /* each shard gets one first */
        shard_of_group[g] = shard;
        load_tree_set(tree, shard, tree->seconds[tree->leaves + shard] + all->groups[g].load.seconds);
    }
    for (int t = 0; t < all->plan->task_count; t++)
        if (!spread || !spread[all->group_of_task[t]]) shard_of_task[t] = shard_of_group[all->group_of_task[t]];
}

/* ---- groups that are spread -------------------------------------------------------------------------------------- */

/* The time in seconds at which all results that a task reads exist. *highest: the highest number of a shard that makes
 * one of these results; -1: the task reads none. */
static double inputs_ready(const struct plan *plan, int number, const int *shard_of_task, const double *done,
                           int *highest) {
    const struct task *task = &plan->tasks[number];
    double seconds = 0;
    *highest = -1;
    for (int i = 0; i < task->geometry.inputs; i++) {
        int producer = plan_producer(plan, task->in[i]);
        int end = producer < 0 ? producer : plan_producers_end(plan, producer);
        for (int p = producer; p < end; p++) {
            seconds = fmax(seconds, done[p]);
            if (shard_of_task[p] > *highest) *highest = shard_of_task[p];
        }
    }
    return seconds;
}

/* How the tasks of long groups are spread. */
struct spread {
    const bool *groups; /* marks the groups to spread */
    double mean;        /* mean seconds of a shard */
    int shards;
    int first_shards; /* only this many shards get tasks that read no result; the others are free for their readers */
};

/* Deals out the tasks of the marked groups one by one, in the plan's order: each to the shard that can begin it first,
 * but to its highest producer's if that begins it hardly later (GAIN). */
static void spread_groups(const struct shard_groups *all, const struct spread *spread, struct load_tree *tree,
                          int *shard_of_task) {
    const struct plan *plan = all->plan;
    OWNED double *done = must_malloc((size_t)(plan->task_count + 1) * sizeof *done);
    for (int t = 0; t < plan->task_count; t++) {
        if (!spread->groups[all->group_of_task[t]]) continue;
        int highest;
        double ready = inputs_ready(plan, t, shard_of_task, done, &highest);
        int shard =
            highest < 0 ? load_tree_min(tree, 0, spread->first_shards) : load_tree_min(tree, highest, spread->shards);
        double begin = fmax(ready, tree->seconds[tree->leaves + shard]);
        if (highest >= 0 && fmax(ready, tree->seconds[tree->leaves + highest]) <= begin + GAIN * spread->mean) {
            shard = highest;
            begin = fmax(ready, tree->seconds[tree->leaves + shard]);
        }
        shard_of_task[t] = shard;
        done[t] = begin + all->loads[t].seconds;
        load_tree_set(tree, shard, done[t]);
    }
}

/* ---- the better of the two --------------------------------------------------------------------------------------- */

double *shard_ends(const struct shard_groups *all, const int *shard_of_task, int shards) {
    const struct plan *plan = all->plan;
    double *ends = must_zeroed((size_t)shards * sizeof *ends);
    OWNED double *done = must_malloc((size_t)(plan->task_count + 1) * sizeof *done);
    for (int t = 0; t < plan->task_count; t++) {
        int unused;
        done[t] =
            fmax(ends[shard_of_task[t]], inputs_ready(plan, t, shard_of_task, done, &unused)) + all->loads[t].seconds;
        ends[shard_of_task[t]] = done[t];
    }
    return ends;
}

double shard_last_end(const struct shard_groups *all, const int *shard_of_task, int shards) {
    OWNED double *ends = shard_ends(all, shard_of_task, shards);
    double last = 0;
    for (int s = 0; s < shards; s++) last = fmax(last, ends[s]);
    return last;
}

/* Marks the groups of several tasks that take longer than the mean. Returns the number of their tasks that read a
 * result. */
static int mark_long_groups(const struct shard_groups *all, double mean, bool *marks) {
    const struct plan *plan = all->plan;
    int readers = 0;
    for (int g = 0; g < all->count; g++) marks[g] = all->groups[g].tasks > 1 && all->groups[g].load.seconds > mean;
    for (int t = 0; t < plan->task_count; t++) {
        const struct task *task = &plan->tasks[t];
        bool reads = false;
        for (int i = 0; i < task->geometry.inputs; i++) reads |= task->in[i] >= plan->input_count;
        readers += reads && marks[all->group_of_task[t]];
    }
    return readers;
}

/* Spreads the long groups with 0, 1, 2, 4 ... shards kept free for tasks that read a result (`readers`: their number).
 * The best of these deals replaces `shard_of_task` if it ends sooner by GAIN. */
static void spread_if_sooner(const struct shard_groups *all, struct spread *spread, int readers, int *shard_of_task) {
    int shards = spread->shards;
    size_t bytes = (size_t)(all->plan->task_count + 1) * sizeof *shard_of_task;
    double soonest = (1 - GAIN) * shard_last_end(all, shard_of_task, shards);
    OWNED int *tried = must_malloc(bytes);
    for (int kept_free = 0; kept_free < readers && kept_free < shards; kept_free = kept_free ? 2 * kept_free : 1) {
        struct load_tree tree = load_tree_make(shards);
        spread->first_shards = shards - kept_free;
        spread_groups(all, spread, &tree, tried);
        deal_groups(all, &tree, shards, spread->groups, tried);
        free(tree.seconds);
        double end = shard_last_end(all, tried, shards);
        if (end >= soonest) continue;
        soonest = end;
        memcpy(shard_of_task, tried, bytes);
    }
}

int *shard_deal(const struct shard_groups *all, int shards) {
    int *shard_of_task = must_malloc((size_t)(all->plan->task_count + 1) * sizeof *shard_of_task);
    OWNED bool *is_long = must_malloc((size_t)(all->count + 1) * sizeof *is_long); /* for each group */
    struct load_tree tree = load_tree_make(shards);
    struct spread spread = {.groups = is_long, .mean = all->seconds / shards, .shards = shards};
    deal_groups(all, &tree, shards, NULL, shard_of_task);
    int readers = shards > 1 ? mark_long_groups(all, spread.mean, is_long) : 0;
    if (readers > 0) spread_if_sooner(all, &spread, readers, shard_of_task);
    free(tree.seconds);
    return shard_of_task;
}
