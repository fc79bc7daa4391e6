/* test_bands.c - several devices share a run: every byte is a lone device's, and what all need is read once.
 *
 * CPU devices stand in for GPUs. Where they are not unified each has memory of its own, which pieces are uploaded to,
 * or passed on to from another's. */
#include "../../runner/stream/bands.h"
#include "draws.h"
#include "stream_fixture.h"

static int64_t size_from(int64_t least, int64_t most) {
    return least + draw_below((int)(most - least + 1));
}

/* An operation on drawn shapes, in drawn tiles. The kernels add integers, so that any order is exact. */
static void draw_run(struct fixture *f, uint64_t seed) {
    state_of_draws = seed * 77 + 5;
    enum op op = (enum op)draw_below(3); /* product, reduction, transpose */
    bool stack = draw_below(3) == 0;
    int64_t m = size_from(1, 90), n = size_from(1, 90), k = size_from(1, 60), b = size_from(1, 5);
    struct shape first = stack ? (struct shape){3, {b, m, k}} : (struct shape){2, {m, k}};
    struct shape second = stack && draw_below(2) ? (struct shape){3, {b, k, n}} : (struct shape){2, {k, n}};
    bool square = op == OP_MATMUL && !stack && draw_below(4) == 0;
    if (square) first = (struct shape){2, {k, k}}, second = first;
    enum dtype dtype = op == OP_REDUCE ? INT32 : draw_below(2) ? FLOAT32 : FLOAT64;
    set_input(f, 0, dtype, first);
    set_input(f, 1, dtype, second);
    struct op_options options = {.alpha = 1, .reduce = REDUCE_SUM, .axis = draw_below(first.rank)};
    if (op == OP_REDUCE && draw_below(4) == 0) options.axis = REDUCE_ALL_AXES;
    set_task(f, op, options, 0, op == OP_MATMUL && !square ? 1 : 0, 2);
    int64_t tile[LOOPS];
    for (int loop = 0; loop < LOOPS; loop++) tile[loop] = draw_below(2) ? INT64_MAX : size_from(1, 70);
    if (op == OP_REDUCE && options.axis == REDUCE_ALL_AXES) memcpy(tile, whole, sizeof tile); /* else not a run */
    set_run(f, tile);
}

static int64_t bytes_read_alone(uint64_t seed, bool unified) {
    struct fixture f;
    struct stream_result result;
    open_fixture(&f, unified, 1 << 24);
    draw_run(&f, seed);
    stream_free(stream_and_compare(&f, &result), false);
    close_fixture(&f);
    return result.bytes_read;
}

static void every_byte_is_a_lone_device_s(void **state) {
    int shared = 0, alone = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct fixture f;
        struct stream_result result;
        int devices = 2 + (int)(seed % 4);
        bool unified = seed % 3 == 0;
        open_team(&f, devices, unified, 1 << 24);
        f.team.peers = seed % 5 != 0;
        draw_run(&f, seed);
        for (int i = 0; i < devices && seed % 2; i++) /* some are faster */
            f.team.devices[i]->facts.flops_per_s[FLOAT32] = 1e12 * (1 + draw_below(9));
        struct stream *stream = stream_and_compare(&f, &result);
        assert_true(result.devices >= 1 && result.devices <= devices);
        bool twice =
            f.task.in[0] == f.task.in[1] && f.task.geometry.inputs == 2; /* bands of one, the whole of the other */
        int64_t expected = bytes_read_alone(seed, unified);
        if (twice && result.devices > 1)
            assert_true(result.bytes_read <= 2 * expected);
        else
            assert_int_equal(result.bytes_read, expected);
        stream_free(stream, false);
        shared += result.devices > 1;
        alone += result.devices == 1;
        /* Whole inputs, and bands of them, are still there. */
        stream_free(stream_and_compare(&f, &result), false);
        if (f.run.tiling.steps == 1) assert_int_equal(result.bytes_read, 0);
        close_fixture(&f);
    }
    assert_true(shared > 100 && alone > 20);
}

static void a_kept_result_is_read_in_the_same_bands_or_again(void **state) {
    for (int devices = 2; devices <= 4; devices++)
        for (int unified = 0; unified < 2; unified++) {
            struct fixture f;
            struct stream_result result;
            open_team(&f, devices, unified, 1 << 20);
            set_input(&f, 0, FLOAT64, (struct shape){3, {8, 20, 30}});
            set_task(&f, OP_TRANSPOSE, (struct op_options){.alpha = 1}, 0, 0, 2);
            set_run(&f, whole);
            stream_free(stream_and_compare(&f, &result), true);
            assert_int_equal(result.devices, devices);
            set_task(&f, OP_TRANSPOSE, (struct op_options){.alpha = 1}, 2, 2, 3); /* array 2 is nowhere else */
            set_run(&f, whole);
            struct collected c = {.array = &f.arrays[3], .data = new_values(&f.arrays[3])};
            struct stream *stream;
            assert_int_equal(run_stream(&f, &c, &result, &stream), STATUS_OK);
            assert_int_equal(result.bytes_read, 0);
            void *input = read_whole(&f, 0);
            assert_memory_equal(c.data, input, 8 * 20 * 30 * 8);
            stream_free(stream, false);
            free(input);
            free(c.data);
            close_fixture(&f);
        }
}

/* The CPU devices' functions, with two that count. */
static struct {
    struct device_operations operations;
    const struct device_operations *real;
    int64_t bytes; /* passed on */
    int orders;    /* of the queue that passes on */
} watch;

static enum status watched_copy(struct device *device, const struct copy *copy, enum queue queue, struct error *why) {
    assert_ptr_not_equal(copy->to, copy->from); /* no device copies from itself */
    if (queue == QUEUE_PEER) watch.bytes += copy->bytes * copy->rows;
    return watch.real->copy(device, copy, queue, why);
}

static enum status watched_order(struct device *device, struct event *event, enum queue queue, struct error *why) {
    watch.orders += queue == QUEUE_PEER;
    return watch.real->queue_wait_event(device, event, queue, why);
}

/* Of what all need each device uploads a part, and gets the rest from the others; a lone one has nobody to wait for. */
static void pieces_are_passed_on_to_the_others(void **state) {
    for (int devices = 1; devices <= 4; devices++)
        for (int reach = 0; reach < 2; reach++) {
            struct fixture f;
            struct stream_result result;
            open_team(&f, devices, false, 1 << 24);
            f.team.peers = reach;
            watch.real = f.team.devices[0]->operations;
            watch.operations = *watch.real;
            watch.operations.copy = watched_copy;
            watch.operations.queue_wait_event = watched_order;
            watch.bytes = watch.orders = 0;
            for (int i = 0; i < devices; i++) f.team.devices[i]->operations = &watch.operations;
            set_input(&f, 0, FLOAT32, (struct shape){2, {320, 200}});
            set_input(&f, 1, FLOAT32, (struct shape){2, {200, 100}});
            set_task(&f, OP_MATMUL, (struct op_options){.alpha = 1}, 0, 1, 2);
            set_run(&f, whole);
            stream_free(stream_and_compare(&f, &result), false);
            assert_int_equal(result.devices, devices);
            assert_int_equal(watch.bytes, reach ? (devices - 1) * 200 * 100 * 4 : 0);
            assert_int_equal(watch.orders > 0, reach && devices > 1);
            close_fixture(&f);
        }
}

/* A kernel that sums narrow launches in another way. */
static uint64_t way_of_width(const struct launch *launch) {
    return launch->args.matmul.m < 40;
}

static void what_would_have_other_bits_is_not_shared(void **state) {
    struct kernel kernel = *kernel_find(OP_MATMUL, "cpu");
    for (int kind = 0; kind < 3; kind++) {
        struct fixture f;
        struct stream_result result;
        open_team(&f, 2, false, 1 << 20);
        set_input(&f, 0, FLOAT32, (struct shape){2, {kind == 2 ? 160 : 64, 16}});
        set_input(&f, 1, FLOAT32, (struct shape){2, {16, 16}});
        set_task(&f, OP_MATMUL, (struct op_options){.alpha = 1}, 0, 1, 2);
        set_run(&f, whole);
        kernel.divisible = kind > 0;
        kernel.way = way_of_width;
        f.run.kernel = &kernel;
        stream_free(stream_and_compare(&f, &result), false);
        assert_int_equal(result.devices, kind == 2 ? 2 : 1);
        close_fixture(&f);
    }
}

static void a_faster_device_gets_more(void **state) {
    struct fixture f;
    open_team(&f, 3, false, 1 << 20);
    set_input(&f, 0, FLOAT32, (struct shape){2, {1600, 16}});
    set_input(&f, 1, FLOAT32, (struct shape){2, {16, 16}});
    set_task(&f, OP_MATMUL, (struct op_options){.alpha = 1}, 0, 1, 2);
    set_run(&f, whole);
    const double rates[] = {3e12, 1e12, 4e12};
    for (int i = 0; i < 3; i++) f.team.devices[i]->facts.flops_per_s[FLOAT32] = rates[i];
    struct bands bands = bands_divide(&f.team, &f.task.geometry, &f.run, &f.run.tiling);
    struct step step, band;
    plan_step(&f.task.geometry, &f.run.tiling, 0, &step);
    assert_int_equal(bands.lanes, 3);
    int64_t next = 0;
    for (int i = 0; i < 3; i++) {
        assert_true(bands_step_of_lane(&bands, &f.task.geometry, &step, i, &band));
        assert_int_equal(band.tile.start[LOOP_M], next);
        assert_true(llabs(band.tile.count[LOOP_M] - (int64_t)(1600 * rates[i] / 8e12)) <= 16);
        next += band.tile.count[LOOP_M];
    }
    assert_int_equal(next, 1600);
    close_fixture(&f);
}

/* Where a lane's bands end: at chunks that are decoded or encoded whole, of any operand along the divided loop; else at
 * what kernels like. */
static void bands_end_where_whole_chunks_do(void **state) {
    enum { A, B, C };
    static const struct {
        int operand;
        struct shape chunk;
        bool filtered;
        int64_t rows, grain, beside; /* the last: where others have chunks of 18 */
    } cases[] = {
        {C, {0}, false, 1600, 16, 18},
        {C, {0}, false, 4095, 16, 18},
        {C, {0}, false, 4096, 128, 128}, /* 16 wide bands for each of two */
        {A, {2, {200, 16}}, true, 1600, 200, 200},
        {A, {2, {200, 16}}, false, 1600, 16, 18},
        {A, {2, {800, 16}}, true, 1600, 800, 800},
        {A, {2, {801, 16}}, true, 1600, 16, 16}, /* one lane alone would have work */
        {A, {2, {17, 16}}, true, 1600, 17, 18},
        {A, {2, {16, 200}}, true, 1600, 16, 18},
        {A, {2, {200, 16}}, true, 4096, 200, 200},
        {A, {2, {100, 16}}, true, 4096, 128, 128},
        {B, {2, {200, 300}}, true, 1600, 16, 18}, /* not along the rows of the result */
        {C, {2, {300, 16}}, true, 1600, 300, 300},
        {C, {2, {16, 300}}, true, 1600, 16, 18},
        {C, {2, {300, 16}}, false, 1600, 16, 18},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int beside = 0; beside < 2; beside++) {
            struct fixture f;
            open_team(&f, 2, false, 1 << 20);
            set_input(&f, A, FLOAT32, (struct shape){2, {cases[i].rows, 16}});
            set_input(&f, B, FLOAT32, (struct shape){2, {16, 16}});
            set_task(&f, OP_MATMUL, (struct op_options){.alpha = 1}, A, B, C);
            set_run(&f, whole);
            struct tiling *tiling = &f.run.tiling;
            if (beside) tiling->in_storage[A] = tiling->out_storage = (struct storage){{2, {18, 18}}, .filtered = true};
            *(cases[i].operand == C ? &tiling->out_storage : &tiling->in_storage[cases[i].operand]) =
                (struct storage){cases[i].chunk, .filtered = cases[i].filtered};
            struct bands bands = bands_divide(&f.team, &f.task.geometry, &f.run, tiling);
            assert_int_equal(bands.lanes, 2);
            assert_int_equal(bands.loop, LOOP_M);
            if (bands.grain != (beside ? cases[i].beside : cases[i].grain))
                fail_msg("case %zu, %d: %lld", i, beside, (long long)bands.grain);
            close_fixture(&f);
        }
}

static void matrices_of_a_stack_are_divided_singly(void **state) {
    for (int chunk = 1; chunk <= 4; chunk++) {
        struct fixture f;
        open_team(&f, 2, false, 1 << 20);
        set_input(&f, 0, FLOAT32, (struct shape){3, {6, 20, 30}});
        set_task(&f, OP_TRANSPOSE, (struct op_options){.alpha = 1}, 0, 0, 2);
        set_run(&f, whole);
        f.run.tiling.in_storage[0] = (struct storage){.chunk = {3, {chunk, 20, 30}}, .filtered = true};
        struct bands bands = bands_divide(&f.team, &f.task.geometry, &f.run, &f.run.tiling);
        assert_true(bands.lanes == 2 && bands.loop == LOOP_B);
        assert_int_equal(bands.grain, chunk <= 3 ? chunk : 1);
        close_fixture(&f);
    }
}

static void failures_leave_usable_devices(void **state) {
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct fixture f;
        struct stream_result result;
        open_team(&f, 3, seed % 2, 1 << 24);
        draw_run(&f, seed);
        struct collected c = {.array = &f.arrays[2], .data = new_values(&f.arrays[2]), .fail_at = 1 + (int)(seed % 3)};
        struct stream *stream;
        enum status status = run_stream(&f, &c, &result, &stream);
        assert_true(status == STATUS_IO || status == STATUS_OK);
        assert_true((stream != NULL) == (status == STATUS_OK));
        stream_free(stream, false);
        free(c.data);
        error = (struct error){.status = STATUS_OK};
        stream_free(stream_and_compare(&f, &result), false);
        close_fixture(&f);
    }
}

/* The slowest of the devices decides. */
static void all_devices_are_timed(void **state) {
    struct fixture f;
    struct stream_result result;
    struct measurement measurement;
    struct run_options options = {.warmup = 1, .repeat_min = 5, .repeat_max = 5};
    open_team(&f, 3, false, 1 << 24);
    set_input(&f, 0, FLOAT32, (struct shape){2, {320, 200}});
    set_input(&f, 1, FLOAT32, (struct shape){2, {200, 100}});
    set_task(&f, OP_MATMUL, (struct op_options){.alpha = 1}, 0, 1, 2);
    set_run(&f, whole);
    struct stream *stream = stream_and_compare(&f, &result);
    assert_true(stream_measurement(stream, &options, &measurement));
    assert_int_equal(measurement.devices, 3);
    assert_int_equal(measure_kernels(&measurement, 1, NULL, &error), STATUS_OK);
    assert_int_equal(measurement.samples.count, 5);
    samples_free(&measurement.samples);
    stream_free(stream, false);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_is_a_lone_device_s),
        cmocka_unit_test(a_kept_result_is_read_in_the_same_bands_or_again),
        cmocka_unit_test(pieces_are_passed_on_to_the_others),
        cmocka_unit_test(what_would_have_other_bits_is_not_shared),
        cmocka_unit_test(a_faster_device_gets_more),
        cmocka_unit_test(bands_end_where_whole_chunks_do),
        cmocka_unit_test(matrices_of_a_stack_are_divided_singly),
        cmocka_unit_test(failures_leave_usable_devices),
        cmocka_unit_test(all_devices_are_timed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
