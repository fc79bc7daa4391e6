/* test_deal.c - tasks dealt out to shards: what a task reads is made by its own shard or a lower one, whole groups go
 * the longest first, and long ones are spread only where all is done sooner. */
#include "../../runner/divide/shard.h"
#include "draws.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 24, INPUTS = 3 };

/* Tasks of which some read others' results, and the groups that these connect. */
static struct {
    struct task tasks[MOST];
    struct job_operation operations[MOST];
    struct plan plan;
    struct shard_groups all;
    struct shard_group groups[MOST];
    struct shard_load loads[MOST];
    int of_task[MOST];
} made;

static int longest_first(const void *one, const void *other) {
    const struct shard_group *a = one, *b = other;
    if (a->load.seconds != b->load.seconds) return a->load.seconds < b->load.seconds ? 1 : -1;
    return (a->first > b->first) - (a->first < b->first);
}

/* Is `producer`, or a panel beside it, read by the task? */
static bool reads(int number, int producer) {
    const struct task *task = &made.tasks[number];
    for (int i = 0; i < task->geometry.inputs; i++) {
        int first = task->in[i] - INPUTS;
        if (first < 0 || producer < first) continue;
        if (producer == first ||
            (made.tasks[first].panel && made.tasks[producer].operation == made.tasks[first].operation))
            return true;
    }
    return false;
}

static void find_groups(void) {
    int count = made.plan.task_count, least[MOST];
    for (int t = 0; t < count; t++) least[t] = t;
    for (int pass = 0; pass < count; pass++)
        for (int t = 0; t < count; t++)
            for (int p = 0; p < t; p++)
                if (reads(t, p)) least[t] = least[p] = least[t] < least[p] ? least[t] : least[p];
    made.all = (struct shard_groups){
        .plan = &made.plan, .groups = made.groups, .group_of_task = made.of_task, .loads = made.loads};
    for (int t = 0; t < count; t++) {
        if (least[t] != t) continue;
        struct shard_group *group = &made.groups[made.all.count++];
        *group = (struct shard_group){.first = t};
        for (int other = t; other < count; other++) {
            if (least[other] != t) continue;
            group->tasks++;
            group->load.seconds += made.loads[other].seconds;
            made.all.seconds += made.loads[other].seconds;
        }
    }
    qsort(made.groups, (size_t)made.all.count, sizeof *made.groups, longest_first);
    for (int g = 0; g < made.all.count; g++)
        for (int t = 0; t < count; t++)
            if (least[t] == made.groups[g].first) made.of_task[t] = g;
}

static void begin_plan(int tasks) {
    memset(&made, 0, sizeof made);
    made.plan = (struct plan){.tasks = made.tasks, .task_count = tasks, .input_count = INPUTS};
    for (int t = 0; t < tasks; t++) made.tasks[t].operation = &made.operations[t];
}

static void draw_plan(void) {
    static char panel[] = "rows 0 to 3 of 8";
    begin_plan(1 + draw_below(MOST));
    int chance = 1 + draw_below(4), stretch = 1 + draw_below(5);
    for (int t = 0; t < made.plan.task_count; t++) {
        struct task *task = &made.tasks[t];
        made.loads[t].seconds = draw_below(3) ? draw_below(10) : 100 * draw();
        task->geometry.inputs = 1 + draw_below(2);
        for (int i = 0; i < 2; i++) task->in[i] = draw_below(INPUTS);
        for (int i = 0; i < task->geometry.inputs; i++) {
            if (t == 0 || draw_below(chance)) continue;
            int producer = t - 1 - draw_below(t < stretch ? t : stretch);
            while (producer > 0 && made.tasks[producer].panel &&
                   made.tasks[producer - 1].operation == made.tasks[producer].operation)
                producer--; /* the first of its panels stands for all, which come before */
            task->in[i] = INPUTS + producer;
        }
        if (t > 0 && draw_below(4) == 0) {
            *task = made.tasks[t - 1]; /* one more panel of the operation before */
            made.tasks[t - 1].panel = task->panel = panel;
        }
    }
    find_groups();
}

/* When each shard ends: every task waits for those before it in its shard, and for what it reads. */
static void simulate(const int *of_task, int shards, double *ends) {
    double done[MOST];
    for (int s = 0; s < shards; s++) ends[s] = 0;
    for (int t = 0; t < made.plan.task_count; t++) {
        double begin = ends[of_task[t]];
        for (int p = 0; p < t; p++)
            if (reads(t, p)) begin = fmax(begin, done[p]);
        ends[of_task[t]] = done[t] = begin + made.loads[t].seconds;
    }
}

static double last_of(const double *ends, int shards) {
    double last = 0;
    for (int s = 0; s < shards; s++) last = fmax(last, ends[s]);
    return last;
}

/* Whole groups: the first to a shard each, then each to the one that has least. */
static void deal_whole(int shards, int *of_task) {
    double seconds[MOST + 10] = {0};
    for (int g = 0; g < made.all.count; g++) {
        int shard = g < shards ? g : 0;
        for (int s = 0; s < shards && g >= shards; s++)
            if (seconds[s] < seconds[shard]) shard = s;
        seconds[shard] += made.groups[g].load.seconds;
        for (int t = 0; t < made.plan.task_count; t++)
            if (made.of_task[t] == g) of_task[t] = shard;
    }
}

/* Is there a group that may be spread: longer than a shard's share, with a task that reads a result? */
static bool may_spread(int shards) {
    double mean = 0;
    for (int g = 0; g < made.all.count; g++) mean += made.groups[g].load.seconds / shards;
    return shards > 1 && made.groups[0].tasks > 1 && made.groups[0].load.seconds > mean * (1 - 1e-12);
}

static void drawn_plans_are_dealt_out(void **state) {
    int spread = 0, whole = 0;
    state_of_draws = 5;
    for (int trial = 0; trial < 4000; trial++) {
        int shards = 1 + draw_below(9), groups[MOST] = {0};
        double expected[MOST + 10] = {0}, before[MOST + 10] = {0};
        draw_plan();
        int *of_task = shard_deal(&made.all, shards);
        for (int t = 0; t < made.plan.task_count; t++) {
            assert_in_range(of_task[t], 0, shards - 1);
            for (int p = 0; p < t; p++)
                if (reads(t, p)) assert_true(of_task[p] <= of_task[t]);
        }
        double *ends = shard_ends(&made.all, of_task, shards);
        simulate(of_task, shards, expected);
        for (int s = 0; s < shards; s++) assert_true(fabs(ends[s] - expected[s]) <= 1e-9);
        deal_whole(shards, groups);
        simulate(groups, shards, before);
        bool same = memcmp(groups, of_task, (size_t)made.plan.task_count * sizeof *groups) == 0;
        if (!same) { /* only for a gain of 5 % */
            assert_true(may_spread(shards));
            assert_true(last_of(ends, shards) < 0.95 * last_of(before, shards) + 1e-9);
        }
        spread += !same;
        whole += same;
        free(ends);
        free(of_task);
    }
    assert_true(spread > 300 && whole > 300);
}

/* One result that `readers` tasks read. */
static void make_star(int readers, double first_s, double each_s) {
    begin_plan(1 + readers);
    for (int t = 0; t <= readers; t++) {
        made.loads[t].seconds = t ? each_s : first_s;
        made.tasks[t].geometry.inputs = 1;
        made.tasks[t].in[0] = t ? INPUTS : 0;
    }
    find_groups();
}

static double dealt_end(int shards) {
    int *of_task = shard_deal(&made.all, shards);
    double *ends = shard_ends(&made.all, of_task, shards), last = last_of(ends, shards);
    free(of_task);
    free(ends);
    return last;
}

static void a_long_group_is_spread(void **state) {
    make_star(8, 1, 10);
    assert_true(dealt_end(1) == 81);
    assert_true(dealt_end(2) == 41);
    assert_true(dealt_end(4) == 21);
    assert_true(dealt_end(8) == 11);
    assert_true(dealt_end(9) == 11);
    make_star(2, 100, 3); /* 106; 103 is no gain of 5 % */
    assert_true(dealt_end(2) == 106);
    make_star(2, 100, 6); /* 112; 106 is */
    assert_true(dealt_end(2) == 106);
    begin_plan(3); /* a chain: nothing is gained */
    for (int t = 0; t < 3; t++) {
        made.loads[t].seconds = 5;
        made.tasks[t].geometry.inputs = 1;
        made.tasks[t].in[0] = t ? INPUTS + t - 1 : 0;
    }
    find_groups();
    int *of_task = shard_deal(&made.all, 3);
    for (int t = 0; t < 3; t++) assert_int_equal(of_task[t], 0);
    free(of_task);
    begin_plan(0);
    find_groups();
    free(shard_deal(&made.all, 4));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_plans_are_dealt_out),
        cmocka_unit_test(a_long_group_is_spread),
    };
    return cmocka_run_group_tests_name("deal", tests, NULL, NULL);
}
