/* test_cpu_load.c - the work of other processes makes a measurement busy, this process's own work does not. */
#include "../../runner/base/cpu_load.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Is a time busy in which this process used `own` of the CPUs, and others `others`? */
static bool busy(double seconds, int cpus, double own, double others) {
    const struct cpu_load before = {.now_s = 100, .working_s = 1e4, .own_s = 3, .cpus = cpus};
    const struct cpu_load after = {100 + seconds, 1e4 + (own + others) * cpus * seconds, 3 + own * cpus * seconds,
                                   cpus};
    return cpu_load_is_busy(&before, &after);
}

static void only_others_count(void **state) {
    unsetenv("TILERUN_LOAD");
    for (int cpus = 1; cpus <= 128; cpus *= 2)
        for (int step = 0; step < 5 * 6; step++) {
            const int tenths = step / 6;
            const double own = 0.1 * tenths, seconds = 0.2 * pow(3, step % 6);
            assert_false(busy(seconds, cpus, own, 0));
            assert_false(busy(seconds, cpus, own, 0.9 * CPU_LOAD_BUSY));
            assert_true(busy(seconds, cpus, own, 0.5));
            if (seconds > 10) assert_true(busy(seconds, cpus, own, 1.2 * CPU_LOAD_BUSY));
        }
    assert_false(busy(0.001, 2, 0.5, 0.5)); /* less than a tick: not known */
    assert_false(busy(1, 2, NAN, NAN));
    setenv("TILERUN_LOAD", "ignore", 1);
    assert_false(busy(1, 2, 0.5, 0.5));
}

static void a_short_time_looks_back(void **state) {
    struct cpu_load now = {.now_s = 1000};
    assert_true(cpu_load_earlier(&now).now_s == 1000);
    for (int call = 1; call < 100; call++) {
        now.now_s = 1000 + 0.03 * call;
        double back = now.now_s - cpu_load_earlier(&now).now_s;
        assert_true(back >= fmin(CPU_LOAD_MIN_S, 0.03 * call) - 1e-9 && back < 3 * CPU_LOAD_MIN_S);
    }
    now.now_s += 100;
    assert_true(cpu_load_earlier(&now).now_s == now.now_s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_others_count),
        cmocka_unit_test(a_short_time_looks_back),
    };
    return cmocka_run_group_tests_name("cpu_load", tests, NULL, NULL);
}
