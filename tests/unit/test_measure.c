/* test_measure.c - repeats, batches, the stopping rule and the statistics, on a device whose clock is simulated. */
#include "../../runner/base/interrupt.h"
#include "../../runner/stream/measure.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>

/* ---- a simulated device: computes nothing, takes a given time ---------------------------------------------------- */

struct event {
    double time_s;
};

struct simulated {
    struct device base;
    struct event events[2];
    double time_s, launch_s, jitter_s; /* every other launch takes jitter_s longer */
    int created, launches, flushes, clock_readings;
    int interrupt_at; /* the launch during which a signal comes; 0: none */
};

static struct simulated *simulated_of(struct device *device) {
    return (struct simulated *)device;
}

static enum status sim_launch(struct device *device, const struct kernel *kernel, struct launch *launch,
                              struct error *error) {
    (void)kernel, (void)launch, (void)error;
    struct simulated *sim = simulated_of(device);
    if (sim->launches + 1 == sim->interrupt_at) interrupt_ask(15);
    sim->time_s += sim->launch_s + (sim->launches++ % 2 ? sim->jitter_s : 0);
    return STATUS_OK;
}
static enum status sim_flush(struct device *device, struct error *error) {
    (void)error;
    simulated_of(device)->flushes++;
    simulated_of(device)->time_s += 1;
    return STATUS_OK;
}
static enum status sim_create(struct device *device, struct event **event, struct error *error) {
    (void)error;
    struct simulated *sim = simulated_of(device);
    *event = &sim->events[sim->created++];
    return STATUS_OK;
}
static void sim_destroy(struct device *device, struct event *event) {
    (void)event;
    simulated_of(device)->created--;
}
static enum status sim_record(struct device *device, struct event *event, enum queue queue, struct error *error) {
    (void)error;
    assert_int_equal(queue, QUEUE_COMPUTE);
    event->time_s = simulated_of(device)->time_s;
    return STATUS_OK;
}
static enum status sim_wait(struct device *device, struct event *event, struct error *error) {
    (void)device, (void)event, (void)error;
    return STATUS_OK;
}
static enum status sim_elapsed(struct device *device, struct event *from, struct event *to, double *seconds,
                               struct error *error) {
    (void)device, (void)error;
    *seconds = to->time_s - from->time_s;
    return STATUS_OK;
}
static enum status sim_synchronize(struct device *device, struct error *error) {
    (void)device, (void)error;
    return STATUS_OK;
}
static double sim_clock(struct device *device) {
    return 1000 + simulated_of(device)->clock_readings++;
}

static const struct device_operations sim_operations = {
    .launch = sim_launch,
    .flush_cache = sim_flush,
    .event_create = sim_create,
    .event_destroy = sim_destroy,
    .event_record = sim_record,
    .event_wait = sim_wait,
    .event_elapsed = sim_elapsed,
    .synchronize = sim_synchronize,
};

static struct simulated simulate(double launch_s) {
    return (struct simulated){.base = {.operations = &sim_operations, .clock_mhz = sim_clock}, .launch_s = launch_s};
}

static void assert_near(double value, double expected, double tolerance) {
    assert_true(fabs(value - expected) <= tolerance);
}

static const struct kernel kernel = {.name = "nothing"};

static struct samples measured(struct simulated *sim, const struct run_options *options) {
    struct samples samples;
    struct launch launch = {.op = OP_SCALE};
    struct error error = {.status = STATUS_OK};
    assert_int_equal(measure_kernel(&sim->base, &kernel, &launch, options, &samples, &error), STATUS_OK);
    return samples;
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static void a_fixed_count_is_kept(void **state) {
    (void)state;
    struct simulated sim = simulate(0.25);
    struct samples samples = measured(&sim, &(struct run_options){.warmup = 3, .repeat_min = 20, .repeat_max = 20});
    assert_int_equal(samples.count, 20);
    assert_int_equal(sim.launches, 23);
    for (int i = 0; i < 20; i++) assert_near(samples.seconds[i], 0.25, 1e-12);
    samples_free(&samples);
    assert_int_equal(samples.count, 0);
}

static void short_launches_go_in_batches(void **state) {
    (void)state;
    struct simulated sim = simulate(2e-6);
    struct samples samples = measured(&sim, &(struct run_options){.repeat_min = 5, .repeat_max = 5});
    assert_int_equal(samples.count, 5);
    assert_true(sim.launches >= 5 * 25); /* at least 50 us a sample */
    for (int i = 0; i < 5; i++) assert_near(samples.seconds[i], 2e-6, 1e-12);
    samples_free(&samples);
}

static void a_cold_cache_is_flushed_before_each_launch(void **state) {
    (void)state;
    struct simulated sim = simulate(2e-6);
    struct samples samples = measured(&sim, &(struct run_options){.repeat_min = 7, .repeat_max = 7, .cold = true});
    assert_int_equal(samples.count, 7);
    assert_int_equal(sim.flushes, 7);
    assert_int_equal(sim.launches, 7);
    assert_near(samples.seconds[6], 2e-6, 1e-9);
    samples_free(&samples);
}

static void steady_times_stop_early(void **state) {
    (void)state;
    struct simulated sim = simulate(0.1);
    struct run_options options = {.repeat_min = 10, .repeat_max = 500, .repeat_until = 0.01};
    struct samples samples = measured(&sim, &options);
    assert_int_equal(samples.count, 10);
    samples_free(&samples);
    sim = simulate(0.1);
    sim.jitter_s = 0.1; /* half the launches take twice as long: the median stays uncertain */
    samples = measured(&sim, &options);
    assert_int_equal(samples.count, 500);
    samples_free(&samples);
}

static void without_a_rule_all_repeats_are_done(void **state) {
    (void)state;
    struct simulated sim = simulate(0.1);
    struct samples samples = measured(&sim, &(struct run_options){.repeat_min = 10, .repeat_max = 30});
    assert_int_equal(samples.count, 30);
    samples_free(&samples);
}

static void the_clock_is_not_asked_without_end(void **state) {
    (void)state;
    struct simulated sim = simulate(0.1);
    struct samples samples = measured(&sim, &(struct run_options){.repeat_min = 200, .repeat_max = 200});
    assert_int_equal(sim.clock_readings, 64);
    assert_near(samples.clock_mhz[0], 1000, 0);
    assert_near(samples.clock_mhz[199], 1063, 0);
    samples_free(&samples);
}

/* If a signal comes before all samples there are none; a signal during the last launch comes too late. */
static void a_signal_ends_it_without_samples(void **state) {
    (void)state;
    struct run_options options = {.warmup = 3, .repeat_min = 20, .repeat_max = 20};
    struct launch launch = {.op = OP_SCALE};
    for (int at = 1; at <= 23; at++) {
        struct simulated sim = simulate(0.1);
        struct error error = {.status = STATUS_OK};
        struct samples samples;
        sim.interrupt_at = at;
        enum status status = measure_kernel(&sim.base, &kernel, &launch, &options, &samples, &error);
        interrupt_ask(0);
        assert_int_equal(status, at < 23 ? STATUS_INTERRUPTED : STATUS_OK);
        assert_int_equal(sim.launches, at);
        assert_int_equal(sim.created, 0);
        assert_int_equal(samples.count, at < 23 ? 0 : 20);
        samples_free(&samples);
    }
}

/* ---- statistics -------------------------------------------------------------------------------------------------- */

static void statistics_are_right(void **state) {
    (void)state;
    double odd[] = {5, 1, 4, 2, 30}, even[] = {4, 1, 3, 2};
    struct statistics s = samples_statistics(&(struct samples){.count = 5, .seconds = odd});
    assert_near(s.median, 4, 0);
    assert_near(s.min, 1, 0);
    assert_near(s.max, 30, 0);
    assert_near(s.mad, 1.4826 * 2, 1e-12);
    s = samples_statistics(&(struct samples){.count = 4, .seconds = even});
    assert_near(s.median, 2.5, 0);
    assert_near(s.mad, 1.4826, 1e-12);
    assert_near(odd[0], 5, 0); /* the order is unchanged */
}

static void precision_is_that_of_order_statistics(void **state) {
    (void)state;
    double values[100];
    for (int i = 0; i < 100; i++) values[99 - i] = i + 1;
    struct samples samples = {.count = 5, .seconds = values};
    assert_true(isinf(samples_precision(&samples)));
    samples.count = 100; /* ranks 40 and 61 (from the table of the binomial distribution) */
    assert_near(samples_precision(&samples), (61. - 40) / 2 / 50.5, 1e-12);
    samples.count = 6; /* the values are 95..100: the outermost two */
    assert_near(samples_precision(&samples), 2.5 / 97.5, 1e-12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fixed_count_is_kept),
        cmocka_unit_test(short_launches_go_in_batches),
        cmocka_unit_test(a_cold_cache_is_flushed_before_each_launch),
        cmocka_unit_test(steady_times_stop_early),
        cmocka_unit_test(without_a_rule_all_repeats_are_done),
        cmocka_unit_test(the_clock_is_not_asked_without_end),
        cmocka_unit_test(a_signal_ends_it_without_samples),
        cmocka_unit_test(statistics_are_right),
        cmocka_unit_test(precision_is_that_of_order_statistics),
    };
    return cmocka_run_group_tests_name("measure", tests, NULL, NULL);
}
