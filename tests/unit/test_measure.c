/* test_measure.c - turns, repeats, batches, warm-up and the stopping rule, on a device whose clock is simulated. */
#include "../../runner/base/clock.h"
#include "../../runner/base/fail.h"
#include "../../runner/base/interrupt.h"
#include "../../runner/stream/measure.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- a simulated device: computes nothing, takes a given time ---------------------------------------------------- */

struct event {
    double time_s;
};

struct simulated {
    struct device base;
    struct event events[2 * 3];        /* of three kernels */
    double time_s, launch_s, jitter_s; /* every other launch takes jitter_s longer */
    int created, launches, flushes, clock_readings;
    int interrupt_at; /* the launch during which a signal comes; 0: none */
    double cold_s;    /* how much longer the first launch takes; it halves with each one, */
    double steps;     /* or, unless 0, it falls to a tenth after a launch with this probability */
    double drift;     /* by which part of itself each launch is slower than the one before */
    char order[4096]; /* the kernels' names, one letter a launch */
    int batches, batch_launches;
    double noise, wander; /* relative deviations: of each launch, and of each stretch of 20 launches */
    double stretch;       /* the latest stretch's offset */
    unsigned short seed[3];
    const struct kernel *refused; /* its launches fail */
    const double *probes;         /* the times of probes, by number; NULL: unknown */
};

struct batch {
    const struct kernel *kernel;
    struct launch *launch;
    int count;
};

static struct simulated *simulated_of(struct device *device) {
    return (struct simulated *)device;
}

/* A number from a normal distribution. */
static double normal(unsigned short seed[3]) {
    double u = erand48(seed), v = erand48(seed);
    return sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
}

static enum status sim_launch(struct device *device, const struct kernel *kernel, struct launch *launch,
                              struct error *error) {
    (void)launch;
    struct simulated *sim = simulated_of(device);
    if (kernel == sim->refused) return (fail)(error, STATUS_RUN, "refused");
    if (sim->launches + 1 == sim->interrupt_at) interrupt_request(15);
    sim->time_s += (sim->launch_s + (sim->launches % 2 ? sim->jitter_s : 0)) * pow(1 + sim->drift, sim->launches);
    if (sim->launches % 20 == 0) sim->stretch = sim->wander * normal(sim->seed);
    sim->time_s += sim->launch_s * (sim->noise * normal(sim->seed) + sim->stretch);
    sim->time_s += sim->cold_s;
    sim->cold_s /= sim->steps == 0 ? 2 : erand48(sim->seed) < sim->steps ? 10 : 1;
    if (sim->launches < (int)sizeof sim->order - 1) sim->order[sim->launches] = kernel->name[0];
    sim->launches++;
    return STATUS_OK;
}
static struct batch *sim_batch_create(struct device *device, const struct kernel *kernel, struct launch *launch,
                                      int count) {
    struct batch *batch = must_malloc(sizeof *batch);
    *batch = (struct batch){kernel, launch, count};
    simulated_of(device)->batches++;
    return batch;
}
static enum status sim_batch_launch(struct device *device, struct batch *batch, struct error *error) {
    simulated_of(device)->batch_launches++;
    for (int i = 0; i < batch->count; i++) TRY(sim_launch(device, batch->kernel, batch->launch, error));
    return STATUS_OK;
}
static void sim_batch_destroy(struct device *device, struct batch *batch) {
    simulated_of(device)->batches--;
    free(batch);
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
    assert_true(sim->created < 2 * 3);
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
static struct sample_conditions sim_conditions(struct device *device) {
    struct sample_conditions now = CONDITIONS_UNKNOWN;
    struct simulated *sim = simulated_of(device);
    if (sim->probes) now.probe_s = sim->probes[sim->clock_readings];
    now.clock_mhz = (float)(1000 + sim->clock_readings++);
    return now;
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
    return (struct simulated){.base = {.operations = &sim_operations, .conditions = sim_conditions},
                              .launch_s = launch_s};
}

static void assert_near(double value, double expected, double tolerance) {
    assert_true(fabs(value - expected) <= tolerance);
}

static const struct kernel kernel = {.name = "nothing"};

static struct samples measured(struct simulated *sim, const struct run_options *options) {
    struct launch launch = {.op = OP_SCALE};
    struct measurement measurement = {
        .kernel = &kernel, .on = {{&sim->base, &launch}}, .devices = 1, .options = options};
    struct error error = {.status = STATUS_OK};
    assert_int_equal(measure_kernels(&measurement, 1, NULL, &error), STATUS_OK);
    assert_int_equal(measurement.status, STATUS_OK);
    assert_int_equal(sim->created, 0);
    return measurement.samples;
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static void a_fixed_count_is_kept(void **state) {
    struct simulated sim = simulate(0.25);
    struct samples samples = measured(&sim, &(struct run_options){.warmup = 3, .repeat_min = 20, .repeat_max = 20});
    assert_int_equal(samples.count, 20);
    assert_int_equal(sim.launches, 23);
    for (int i = 0; i < 20; i++) assert_near(samples.seconds[i], 0.25, 1e-12);
    samples_free(&samples);
    assert_int_equal(samples.count, 0);
}

static void short_launches_go_in_batches(void **state) {
    struct simulated sim = simulate(2e-6);
    struct samples samples = measured(&sim, &(struct run_options){.repeat_min = 5, .repeat_max = 5});
    assert_int_equal(samples.count, 5);
    assert_true(sim.launches >= 5 * 25); /* at least 50 us a sample */
    for (int i = 0; i < 5; i++) assert_near(samples.seconds[i], 2e-6, 1e-12);
    samples_free(&samples);
}

static void a_cold_cache_is_flushed_before_each_launch(void **state) {
    struct simulated sim = simulate(2e-6);
    struct samples samples = measured(&sim, &(struct run_options){.repeat_min = 7, .repeat_max = 7, .cold = true});
    assert_int_equal(samples.count, 7);
    assert_int_equal(sim.flushes, 7);
    assert_int_equal(sim.launches, 7);
    char flags[FLAGS_TEXT];
    assert_string_equal(samples_flags(&samples, flags), "below_resolution");
    assert_near(samples.seconds[6], 2e-6, 1e-9);
    samples_free(&samples);
}

/* Threads that wake up, a clock that rises: launches may become much shorter at any time, and more than once. */
static void launches_that_become_shorter_go_in_larger_batches(void **state) {
    static const double launches_s[] = {80e-9, 1e-6, 3e-6, 20e-6, 60e-6};
    for (int i = 0; i < 1000; i++) {
        struct simulated sim = simulate(launches_s[i % 5]);
        sim.base.unified = true; /* a CPU */
        sim.seed[0] = (unsigned short)i;
        sim.cold_s = 1e-5 * pow(10, 4 * erand48(sim.seed));
        sim.steps = pow(10, -3 * erand48(sim.seed));
        struct samples samples =
            measured(&sim, &(struct run_options){.warmup = i % 2, .repeat_min = 9, .repeat_max = 9});
        char flags[FLAGS_TEXT];
        assert_null(strstr(samples_flags(&samples, flags), "below_resolution"));
        assert_true(samples.min_s >= 50e-6);
        samples_free(&samples);
    }
}

static void turns_on_a_shared_core_are_busy(void **state) {
    static const double probes[] = {1.05e-5, 1.5e-5,  1.04e-5,
                                    1e-5,    1.12e-5, 1.09e-5}; /* the first one: of the warm-up */
    struct simulated sim = simulate(2e-3);
    sim.probes = probes;
    struct samples samples = measured(&sim, &(struct run_options){.warmup = 1, .repeat_min = 15, .repeat_max = 15});
    assert_int_equal(samples.count, 15);
    for (int i = 0; i < 15; i++) assert_int_equal(samples.conditions[i].busy, i / 3 == 0 || i / 3 == 3);
    assert_near(samples_probe_s(&samples), 1.09e-5, 1e-9);
    samples_free(&samples);
}

static void steady_times_stop_early(void **state) {
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
    struct simulated sim = simulate(0.1);
    struct samples samples = measured(&sim, &(struct run_options){.repeat_min = 10, .repeat_max = 30});
    assert_int_equal(samples.count, 30);
    samples_free(&samples);
}

static void each_turn_asks_for_the_conditions(void **state) {
    struct simulated sim = simulate(1e-3);
    struct samples samples = measured(&sim, &(struct run_options){.repeat_min = 200, .repeat_max = 200});
    assert_int_equal(sim.clock_readings, 68); /* the first sample, then turns of three */
    assert_near(samples.conditions[0].clock_mhz, 1000, 0);
    assert_near(samples.conditions[199].clock_mhz, 1067, 0);
    samples_free(&samples);
}

/* ---- turns, warm-up, batches ------------------------------------------------------------------------------------- */

static const struct kernel several[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};

/* Measures all three; their samples are the caller's to free. */
static void measure_several(struct simulated *sim, const struct run_options *options, struct measurement of[3]) {
    struct launch launch = {.op = OP_SCALE};
    struct error error = {.status = STATUS_OK};
    for (int i = 0; i < 3; i++)
        of[i] = (struct measurement){
            .kernel = &several[i], .on = {{&sim->base, &launch}}, .devices = 1, .options = options};
    assert_int_equal(measure_kernels(of, 3, NULL, &error), STATUS_OK);
}

static void expire_second(void *context, int which, bool begins) {
    int *turns = context;
    interrupt_set_deadline(begins && which == 1 && ++*turns == 3 ? now_s() : INFINITY, 10);
}

static void ignore_sample(void *context, int which, int done, int most, double seconds_each) {
    (void)context, (void)which, (void)done, (void)most, (void)seconds_each;
}

/* Its deadline ends a kernel in its third turn, the warm-up being the first, and not the others. */
static void a_deadline_ends_one_kernel(void **state) {
    struct simulated sim = simulate(2e-3);
    struct run_options options = {.repeat_min = 30, .repeat_max = 30};
    struct launch launch = {.op = OP_SCALE};
    struct error error = {.status = STATUS_OK};
    struct measurement of[3];
    int turns = 0;
    const struct measure_watch watch = {ignore_sample, expire_second, &turns};
    for (int i = 0; i < 3; i++)
        of[i] = (struct measurement){
            .kernel = &several[i], .on = {{&sim.base, &launch}}, .devices = 1, .options = &options};
    assert_int_equal(measure_kernels(of, 3, &watch, &error), STATUS_OK);
    assert_int_equal(turns, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(of[i].status, i == 1 ? STATUS_TIMEOUT : STATUS_OK);
        assert_int_equal(of[i].samples.count, i == 1 ? 0 : 30);
        samples_free(&of[i].samples);
    }
    assert_int_equal(interrupt_check(&error), STATUS_OK);
}

/* Three kernels, three samples a turn; an untimed launch begins each turn. */
static void kernels_take_turns(void **state) {
    struct simulated sim = simulate(2e-3);
    struct run_options options = {.repeat_min = 7, .repeat_max = 7};
    struct measurement of[3];
    measure_several(&sim, &options, of);
    assert_string_equal(sim.order, "abc" /* the first sample */
                                   "aaaabbbbccccaaaabbbbcccc");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(of[i].samples.count, 7);
        assert_true(of[i].samples.turn[0] == 0 && of[i].samples.turn[1] == 1 && of[i].samples.turn[6] == 2);
        samples_free(&of[i].samples);
    }
}

/* A drift of the device shows in all kernels alike: one after the other, the last would seem 60 % slower. */
static void a_drift_hits_all_alike(void **state) {
    struct simulated sim = simulate(2e-3);
    sim.drift = 0.002;
    struct run_options options = {.repeat_min = 60, .repeat_max = 60};
    struct measurement of[3];
    measure_several(&sim, &options, of);
    double first = samples_statistics(&of[0].samples).median;
    for (int i = 0; i < 3; i++) {
        char flags[FLAGS_TEXT];
        assert_near(samples_statistics(&of[i].samples).median, first, 0.03 * first);
        assert_non_null(strstr(samples_flags(&of[i].samples, flags), "drift"));
        samples_free(&of[i].samples);
    }
}

static void a_kernel_that_fails_leaves_the_others(void **state) {
    for (int bad = 0; bad < 3; bad++) {
        struct simulated sim = simulate(2e-3);
        sim.refused = &several[bad];
        struct run_options options = {.warmup = 1, .repeat_min = 5, .repeat_max = 5};
        struct measurement of[3];
        measure_several(&sim, &options, of);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(of[i].status, i == bad ? STATUS_RUN : STATUS_OK);
            assert_int_equal(of[i].samples.count, i == bad ? 0 : 5);
            samples_free(&of[i].samples);
        }
        assert_string_equal(of[bad].error.text, "refused");
    }
}

static void a_warm_up_goes_on_until_times_are_steady(void **state) {
    const double cold[] = {0, 0.05, 0.2};
    for (int i = 0; i < 3; i++) {
        struct simulated sim = simulate(0.9e-3);
        sim.cold_s = cold[i];
        struct samples samples = measured(&sim, &(struct run_options){.warmup = 8, .repeat_min = 9, .repeat_max = 9});
        assert_near(samples_statistics(&samples).max, 0.9e-3, 1e-5);
        assert_false(samples.unsteady);
        assert_true(sim.launches < 500);
        samples_free(&samples);
    }
    /* Each block is faster than the one before, for longer than a warm-up may take. */
    struct simulated sim = simulate(0.9e-3);
    sim.drift = -0.0016; /* 0.56 s in all */
    char flags[FLAGS_TEXT];
    struct samples samples = measured(&sim, &(struct run_options){.warmup = 1, .repeat_min = 3, .repeat_max = 3});
    assert_true(samples.unsteady);
    assert_string_equal(samples_flags(&samples, flags), "unsteady");
    samples_free(&samples);
    /* Without a warm-up, as asked, there is none. */
    sim = simulate(0.9e-3);
    samples = measured(&sim, &(struct run_options){.repeat_min = 4, .repeat_max = 4});
    assert_int_equal(sim.launches, 1 + 2 * 4);
    samples_free(&samples);
}

/* `until: 1%`: the true median is within 1 % of the one found in 19 of 20 measurements, also where launches that follow
 * one another are alike. */
static void until_keeps_its_promise(void **state) {
    static const double noise[][2] = {{0.01, 0}, {0.05, 0}, {0.01, 0.02}, {0.002, 0.03}};
    struct run_options options = {.warmup = 1, .repeat_min = 10, .repeat_max = 5000, .repeat_until = 0.01};
    for (int kind = 0; kind < 4; kind++) {
        int held = 0, tries = 300, repeats = 0;
        for (int i = 0; i < tries; i++) {
            struct simulated sim = simulate(2e-3);
            sim.noise = noise[kind][0];
            sim.wander = noise[kind][1];
            sim.seed[0] = (unsigned short)i;
            sim.seed[1] = (unsigned short)kind;
            struct samples samples = measured(&sim, &options);
            held += fabs(samples_statistics(&samples).median / 2e-3 - 1) <= 0.01;
            repeats += samples.count;
            samples_free(&samples);
        }
        print_message("noise %g, wander %g: %d of %d within 1 %%, %d repeats each\n", noise[kind][0], noise[kind][1],
                      held, tries, repeats / tries);
        assert_true(20 * held >= 19 * tries);
    }
}

static void short_launches_are_started_together(void **state) {
    struct device_operations with_batches = sim_operations;
    with_batches.batch_create = sim_batch_create;
    with_batches.batch_launch = sim_batch_launch;
    with_batches.batch_destroy = sim_batch_destroy;
    struct simulated sim = simulate(2e-6);
    sim.base.operations = &with_batches;
    struct samples samples = measured(&sim, &(struct run_options){.repeat_min = 5, .repeat_max = 5});
    assert_int_equal(sim.batches, 0);            /* each is destroyed */
    assert_int_equal(sim.batch_launches, 2 * 5); /* one ahead of each, untimed */
    for (int i = 0; i < 5; i++) assert_near(samples.seconds[i], 2e-6, 1e-12);
    samples_free(&samples);
    sim = simulate(2e-3); /* long ones are not */
    sim.base.operations = &with_batches;
    samples = measured(&sim, &(struct run_options){.repeat_min = 5, .repeat_max = 5});
    assert_int_equal(sim.batch_launches, 0);
    samples_free(&samples);
}

/* If a signal comes before all samples there are none; a signal during the last launch comes too late. */
static void a_signal_ends_it_without_samples(void **state) {
    struct run_options options = {.warmup = 3, .repeat_min = 20, .repeat_max = 20};
    struct launch launch = {.op = OP_SCALE};
    for (int at = 1; at <= 23; at++) {
        struct simulated sim = simulate(0.1);
        struct error error = {.status = STATUS_OK};
        struct measurement measurement = {
            .kernel = &kernel, .on = {{&sim.base, &launch}}, .devices = 1, .options = &options};
        sim.interrupt_at = at;
        enum status status = measure_kernels(&measurement, 1, NULL, &error);
        interrupt_request(0);
        assert_int_equal(status, at < 23 ? STATUS_INTERRUPTED : STATUS_OK);
        assert_int_equal(sim.launches, at);
        assert_int_equal(sim.created, 0);
        assert_int_equal(measurement.samples.count, at < 23 ? 0 : 20);
        samples_free(&measurement.samples);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fixed_count_is_kept),
        cmocka_unit_test(short_launches_go_in_batches),
        cmocka_unit_test(a_cold_cache_is_flushed_before_each_launch),
        cmocka_unit_test(launches_that_become_shorter_go_in_larger_batches),
        cmocka_unit_test(turns_on_a_shared_core_are_busy),
        cmocka_unit_test(steady_times_stop_early),
        cmocka_unit_test(without_a_rule_all_repeats_are_done),
        cmocka_unit_test(each_turn_asks_for_the_conditions),
        cmocka_unit_test(kernels_take_turns),
        cmocka_unit_test(a_deadline_ends_one_kernel),
        cmocka_unit_test(a_drift_hits_all_alike),
        cmocka_unit_test(a_kernel_that_fails_leaves_the_others),
        cmocka_unit_test(a_warm_up_goes_on_until_times_are_steady),
        cmocka_unit_test(until_keeps_its_promise),
        cmocka_unit_test(short_launches_are_started_together),
        cmocka_unit_test(a_signal_ends_it_without_samples),
    };
    setenv("TILERUN_LOAD", "ignore", 1); /* the times are simulated */
    return cmocka_run_group_tests_name("measure", tests, NULL, NULL);
}
