/* test_stream.c - values are the same in all tiles, staged or in place; residents keep their promises.
 *
 * Everything runs on the CPU device; with `unified` off it acts as a device that data are copied to and from. */
#include "../../runner/stream/residents.h"
#include "stream_fixture.h"

#include <stdatomic.h>
#include <unistd.h>

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

static const int64_t tilings[][LOOPS] = {
    {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}, /* larger than every shape */
    {3, 20, 30, 40},                              /* as large as some of the shapes below */
    {1, 7, 11, 13},                               /* smaller and ragged */
    {2, 10, 15, 40},                              /* ragged stack, k whole */
    {1, 20, 30, 8},                               /* only k is cut */
    {1, 1, 30, 40},                               /* single rows */
    {1, 5, 1, 1},                                 /* many tiny steps */
};

static void check_tilings(enum op op, struct op_options options, enum dtype dtype, struct shape first,
                          struct shape second) {
    for (int unified = 0; unified < 2; unified++)
        for (size_t i = 0; i < sizeof tilings / sizeof *tilings; i++) {
            struct fixture f;
            struct stream_result result;
            open_fixture(&f, unified, INT64_C(1) << 30);
            set_input(&f, 0, dtype, first);
            set_input(&f, 1, dtype, second);
            set_task(&f, op, options, 0, 1, 2);
            set_run(&f, tilings[i]);
            stream_free(stream_and_compare(&f, &result), false);
            close_fixture(&f);
        }
}

static void matmul_in_tiles(void **state) {
    struct op_options options = {.alpha = 1};
    struct shape a = {2, {20, 40}}, b = {2, {40, 30}}, as = {3, {3, 20, 40}}, bs = {3, {3, 40, 30}};
    check_tilings(OP_MATMUL, options, FLOAT32, a, b);
    check_tilings(OP_MATMUL, options, FLOAT64, as, bs);
    check_tilings(OP_MATMUL, options, BFLOAT16, as, b);
}

static void transposes_in_tiles(void **state) {
    struct op_options options = {.alpha = 1};
    struct shape matrix = {2, {20, 30}}, stack = {3, {5, 31, 17}};
    check_tilings(OP_TRANSPOSE, options, INT16, matrix, matrix);
    check_tilings(OP_TRANSPOSE, options, FLOAT64, stack, stack);
}

static void sums_in_tiles(void **state) {
    struct shape vector = {1, {41}}, matrix = {2, {20, 40}}, stack = {3, {3, 20, 31}};
    for (int axis = -1; axis < 3; axis++) {
        struct op_options options = {.reduce = REDUCE_SUM, .axis = axis < 0 ? REDUCE_ALL_AXES : axis};
        if (axis < 1) check_tilings(OP_REDUCE, options, INT32, vector, vector);
        if (axis < 2) check_tilings(OP_REDUCE, options, UINT8, matrix, matrix);
        check_tilings(OP_REDUCE, options, INT32, stack, stack);
    }
}

/* A tile larger than the pinned buffers passes through them in pieces. */
static void large_tiles_are_staged_in_pieces(void **state) {
    struct fixture f;
    struct stream_result result;
    open_fixture(&f, false, INT64_C(1) << 30);
    set_input(&f, 0, UINT8, (struct shape){2, {5003, 14001}});
    set_task(&f, OP_TRANSPOSE, (struct op_options){.alpha = 1}, 0, 0, 2);
    set_run(&f, whole);
    stream_free(stream_and_compare(&f, &result), false);
    assert_true(result.times.h2d_s > 0 && result.times.d2h_s > 0 && result.times.kernel_s > 0);
    close_fixture(&f);
}

/* ---- nothing ----------------------------------------------------------------------------------------------------- */

static void an_empty_output_is_written_once(void **state) {
    struct fixture f;
    struct stream_result result;
    struct stream *stream;
    struct measurement measurement;
    open_fixture(&f, false, 1 << 20);
    set_input(&f, 0, FLOAT32, (struct shape){2, {0, 5}});
    set_task(&f, OP_TRANSPOSE, (struct op_options){.alpha = 1}, 0, 0, 2);
    set_run(&f, whole);
    struct collected c = {.array = &f.arrays[2], .data = new_values(&f.arrays[2])};
    assert_int_equal(run_stream(&f, &c, &result, &stream), STATUS_OK);
    assert_int_equal(c.boxes, 1);
    assert_int_equal(c.elements, 0);
    assert_false(stream_measurement(stream, &(struct run_options){.repeat_max = 3}, &measurement));
    assert_int_equal(measurement.samples.count, 0);
    stream_free(stream, true);
    free(c.data);
    close_fixture(&f);
}

static void a_sum_of_nothing_is_zero(void **state) {
    for (int unified = 0; unified < 2; unified++) {
        struct fixture f;
        struct stream_result result;
        open_fixture(&f, unified, 1 << 20);
        set_input(&f, 0, INT32, (struct shape){2, {0, 5}});
        set_task(&f, OP_REDUCE, (struct op_options){.reduce = REDUCE_SUM, .axis = 0}, 0, 0, 2);
        set_run(&f, whole);
        assert_int_equal(f.run.tiling.steps, 1);
        stream_free(stream_and_compare(&f, &result), false);
        close_fixture(&f);
    }
}

/* ---- residents --------------------------------------------------------------------------------------------------- */

static void whole_inputs_are_read_once(void **state) {
    for (int unified = 0; unified < 2; unified++) {
        struct fixture f;
        struct stream_result result;
        open_fixture(&f, unified, 1 << 20);
        set_input(&f, 0, FLOAT32, (struct shape){2, {20, 20}});
        set_task(&f, OP_MATMUL, (struct op_options){.alpha = 1}, 0, 0, 2);
        set_run(&f, whole);
        stream_free(stream_and_compare(&f, &result), false);
        assert_int_equal(result.bytes_read, 20 * 20 * 4); /* both inputs are one array */
        stream_free(stream_and_compare(&f, &result), false);
        assert_int_equal(result.bytes_read, 0);
        assert_true(result.times.read_s == 0 && result.times.h2d_s == 0);
        residents_drop(f.residents, &f.arrays[0]);
        stream_free(stream_and_compare(&f, &result), false);
        assert_int_equal(result.bytes_read, 20 * 20 * 4);
        close_fixture(&f);
    }
}

static void a_kept_result_is_the_next_input(void **state) {
    for (int unified = 0; unified < 2; unified++) {
        struct fixture f;
        struct stream_result result;
        open_fixture(&f, unified, 1 << 20);
        set_input(&f, 0, FLOAT32, (struct shape){2, {20, 30}});
        set_task(&f, OP_TRANSPOSE, (struct op_options){.alpha = 1}, 0, 0, 2);
        set_run(&f, whole);
        stream_free(stream_and_compare(&f, &result), true);
        set_task(&f, OP_TRANSPOSE, (struct op_options){.alpha = 1}, 2, 2, 3); /* array 2 is nowhere else */
        set_run(&f, whole);
        struct collected c = {.array = &f.arrays[3], .data = new_values(&f.arrays[3])};
        struct stream *stream;
        assert_int_equal(run_stream(&f, &c, &result, &stream), STATUS_OK);
        void *input = read_whole(&f, 0);
        assert_memory_equal(c.data, input, 20 * 30 * 4);
        stream_free(stream, true);
        free(input);
        free(c.data);
        close_fixture(&f);
    }
}

static void residents_give_way(void **state) {
    struct fixture f;
    struct stream_result result;
    open_fixture(&f, true, 3 * 1024);
    for (int i = 0; i < 2; i++) set_input(&f, i, INT32, (struct shape){2, {16, 16}}); /* 1 KiB each, as is the output */
    const struct {
        int input;
        int64_t read;
    } uses[] = {{0, 1024}, {1, 1024}, {0, 0}, {1, 0}};
    for (size_t i = 0; i < 4; i++) {
        set_task(&f, OP_TRANSPOSE, (struct op_options){.alpha = 1}, uses[i].input, uses[i].input, 2);
        set_run(&f, whole);
        stream_free(stream_and_compare(&f, &result), false);
        assert_int_equal(result.bytes_read, uses[i].read);
    }
    /* A run needs all the room: both residents must be evicted. */
    set_input(&f, 3, INT32, (struct shape){2, {16, 24}});
    set_task(&f, OP_TRANSPOSE, (struct op_options){.alpha = 1}, 3, 3, 2);
    set_run(&f, whole);
    stream_free(stream_and_compare(&f, &result), false);
    set_task(&f, OP_TRANSPOSE, (struct op_options){.alpha = 1}, 1, 1, 2);
    set_run(&f, whole);
    stream_free(stream_and_compare(&f, &result), false);
    assert_int_equal(result.bytes_read, 1024);
    close_fixture(&f);
}

/* ---- preload --------------------------------------------------------------------------------------------------- */

/* The CPU device with two functions replaced, so that it acts as a device that kernel code must be brought to. */
static struct {
    struct device_operations operations;
    const struct device_operations *real;
    atomic_int preloads, over, launches; /* preloads: begun; over: ended */
    int64_t rows, cols;                  /* of the launch that was preloaded */
    bool early;                          /* a launch came before the preload was over */
} stage;

static void slow_preload(struct device *device, const struct kernel *kernel, struct launch *launch) {
    (void)device;
    (void)kernel;
    stage.preloads++;
    stage.rows = launch->args.transpose.rows;
    stage.cols = launch->args.transpose.cols;
    usleep(20000);
    stage.over++;
}

static enum status watched_launch(struct device *device, const struct kernel *kernel, struct launch *launch,
                                  struct error *why) {
    stage.launches++;
    if (stage.over != stage.preloads) stage.early = true;
    return stage.real->launch(device, kernel, launch, why);
}

static void kernel_code_is_loaded_before_the_first_launch(void **state) {
    struct fixture f;
    struct stream_result result;
    open_fixture(&f, false, 1 << 20);
    stage.real = f.team.devices[0]->operations;
    stage.operations = *stage.real;
    stage.operations.preload = slow_preload;
    stage.operations.launch = watched_launch;
    f.team.devices[0]->operations = &stage.operations;
    set_input(&f, 0, INT32, (struct shape){2, {20, 30}});
    set_task(&f, OP_TRANSPOSE, (struct op_options){.alpha = 1}, 0, 0, 2);
    set_run(&f, tilings[2]);
    stream_free(stream_and_compare(&f, &result), false);
    assert_int_equal(stage.preloads, 1);
    assert_int_equal(stage.launches, f.run.tiling.steps);
    assert_true(f.run.tiling.steps > 1 && !stage.early);
    struct step first;
    plan_step(&f.task.geometry, &f.run.tiling, 0, &first);
    assert_int_equal(stage.rows * stage.cols, box_elements(&first.store));

    /* The preload has ended when a pass has failed. */
    struct collected c = {.array = &f.arrays[2], .data = new_values(&f.arrays[2]), .fail_at = 1};
    struct stream *stream;
    assert_int_equal(run_stream(&f, &c, &result, &stream), STATUS_IO);
    assert_int_equal(stage.preloads, 2);
    assert_int_equal(stage.over, 2);
    free(c.data);
    close_fixture(&f);
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

static int failing_launch(const struct launch *launch) {
    (void)launch;
    return 9;
}
static const struct kernel failing = {.name = "failing", .op = OP_TRANSPOSE, .launch = failing_launch};

static void failures_leave_a_usable_device(void **state) {
    for (int unified = 0; unified < 2; unified++) {
        struct fixture f;
        struct stream_result result;
        struct stream *stream;
        open_fixture(&f, unified, 1 << 20);
        set_input(&f, 0, INT32, (struct shape){2, {16, 16}});
        set_task(&f, OP_TRANSPOSE, (struct op_options){.alpha = 1}, 0, 0, 2);
        set_run(&f, tilings[2]);
        const struct kernel *good = f.run.kernel;
        struct collected c = {.array = &f.arrays[2], .data = new_values(&f.arrays[2]), .fail_at = 3};
        assert_int_equal(run_stream(&f, &c, &result, &stream), STATUS_IO);
        assert_non_null(strstr(error.text, "disk full"));
        assert_null(stream);
        error = (struct error){.status = STATUS_OK};
        f.run.kernel = &failing;
        assert_int_equal(run_stream(&f, &c, &result, &stream), STATUS_RUN);
        assert_non_null(strstr(error.text, "failing"));
        error = (struct error){.status = STATUS_OK};
        f.run.kernel = good;
        stream_free(stream_and_compare(&f, &result), false);
        free(c.data);
        close_fixture(&f);
    }
}

/* The step under way is the last; launches still in the queue are not computed. */
static void a_signal_ends_a_pass_between_steps(void **state) {
    for (int unified = 0; unified < 2; unified++)
        for (int at = 1; at < 7; at++) {
            struct fixture f;
            struct stream_result result;
            struct stream *stream;
            open_fixture(&f, unified, 1 << 20);
            set_input(&f, 0, INT32, (struct shape){2, {20, 30}});
            set_task(&f, OP_TRANSPOSE, (struct op_options){.alpha = 1}, 0, 0, 2);
            set_run(&f, tilings[2]);
            struct collected c = {.array = &f.arrays[2], .data = new_values(&f.arrays[2]), .interrupt_at = at};
            assert_true(f.run.tiling.steps > 7);
            assert_int_equal(run_stream(&f, &c, &result, &stream), STATUS_INTERRUPTED);
            assert_null(stream);
            assert_int_equal(c.steps, at);
            assert_true(c.boxes <= at);
            interrupt_request(0);
            error = (struct error){.status = STATUS_OK};
            stream_free(stream_and_compare(&f, &result), false);
            free(c.data);
            close_fixture(&f);
        }
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static void a_single_step_is_repeated_and_a_pass_is_one_sample(void **state) {
    struct run_options options = {.warmup = 1, .repeat_min = 7, .repeat_max = 7};
    for (int unified = 0; unified < 2; unified++) {
        struct fixture f;
        struct stream_result result;
        struct measurement measurement;
        struct samples *samples = &measurement.samples;
        open_fixture(&f, unified, 1 << 20);
        set_input(&f, 0, FLOAT32, (struct shape){2, {40, 40}});
        set_task(&f, OP_MATMUL, (struct op_options){.alpha = 1}, 0, 0, 2);
        set_run(&f, whole);
        struct stream *stream = stream_and_compare(&f, &result);
        assert_true(stream_measurement(stream, &options, &measurement));
        assert_int_equal(measure_kernels(&measurement, 1, NULL, &error), STATUS_OK);
        assert_int_equal(samples->count, 7);
        assert_true(samples_statistics(samples).min > 0);
        samples_free(samples);
        stream_free(stream, false);
        set_run(&f, tilings[2]);
        stream = stream_and_compare(&f, &result);
        assert_false(stream_measurement(stream, &options, &measurement));
        assert_int_equal(samples->count, 1);
        assert_true(samples->seconds[0] == result.times.kernel_s);
        samples_free(samples);
        stream_free(stream, false);
        close_fixture(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matmul_in_tiles),
        cmocka_unit_test(transposes_in_tiles),
        cmocka_unit_test(sums_in_tiles),
        cmocka_unit_test(large_tiles_are_staged_in_pieces),
        cmocka_unit_test(an_empty_output_is_written_once),
        cmocka_unit_test(a_sum_of_nothing_is_zero),
        cmocka_unit_test(whole_inputs_are_read_once),
        cmocka_unit_test(a_kept_result_is_the_next_input),
        cmocka_unit_test(residents_give_way),
        cmocka_unit_test(kernel_code_is_loaded_before_the_first_launch),
        cmocka_unit_test(failures_leave_a_usable_device),
        cmocka_unit_test(a_signal_ends_a_pass_between_steps),
        cmocka_unit_test(a_single_step_is_repeated_and_a_pass_is_one_sample),
    };
    return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
