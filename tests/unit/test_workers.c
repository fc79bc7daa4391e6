/* test_workers.c - every item is done once, by different threads, for several callers at once and after a fork. */
#include "../../runner/base/workers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ITEMS = 1000 };

struct counted {
    atomic_int done[ITEMS];
    atomic_int busy[1024]; /* by thread */
    atomic_bool shared;    /* two items had the same thread number at the same time */
};

static void count(void *context, int64_t item, int thread) {
    struct counted *counted = context;
    if (atomic_fetch_add(&counted->busy[thread], 1) != 0) counted->shared = true;
    counted->done[item]++;
    if (item % 100 == 0) usleep(100);
    counted->busy[thread]--;
}

static bool run_and_check(void) {
    struct counted *counted = calloc(1, sizeof *counted);
    workers_run(ITEMS, count, counted);
    bool good = !counted->shared;
    for (int i = 0; i < ITEMS; i++) good = good && counted->done[i] == 1;
    free(counted);
    return good;
}

static void every_item_is_done_once(void **state) {
    assert_true(workers_count() >= 1 && workers_count() <= 1024);
    for (int round = 0; round < 50; round++) assert_true(run_and_check());
    workers_run(0, count, NULL);
}

/* Scratch memory is sized by workers_count(), so the count must not follow a change of affinity during a run. */
static void the_count_outlives_a_change_of_affinity(void **state) {
    cpu_set_t all, one;
    int count = workers_count();
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    for (int round = 0; round < 20; round++) {
        assert_int_equal(sched_setaffinity(0, sizeof one, round % 2 ? &all : &one), 0);
        assert_int_equal(workers_count(), count);
        assert_true(run_and_check());
    }
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

static void *several_rounds(void *good) {
    for (int round = 0; round < 50; round++)
        if (!run_and_check()) *(bool *)good = false;
    return NULL;
}

static void callers_do_not_meet(void **state) {
    pthread_t callers[3];
    bool good[3] = {true, true, true};
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&callers[i], NULL, several_rounds, &good[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(callers[i], NULL);
        assert_true(good[i]);
    }
}

static void a_forked_child_works_alone(void **state) {
    for (int round = 0; round < 20; round++) {
        assert_true(run_and_check());
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            _exit(run_and_check() ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_is_done_once),
        cmocka_unit_test(the_count_outlives_a_change_of_affinity),
        cmocka_unit_test(callers_do_not_meet),
        cmocka_unit_test(a_forked_child_works_alone),
    };
    return cmocka_run_group_tests_name("workers", tests, NULL, NULL);
}
