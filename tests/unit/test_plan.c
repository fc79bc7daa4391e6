/* test_plan.c - tiles keep within memory, cover everything once, and move no more bytes than they must. */
#include "../../runner/plan/plan_tiles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#define GIB (INT64_C(1) << 30)

/* A GPU about as fast as an H200, in a host with 16 cores. */
static struct device_facts gpu(void) {
    struct device_facts facts = {.kind = DEVICE_CUDA, .multiprocessors = 132, .host_threads = 16};
    facts.copy_bytes_per_s = 55e9;
    facts.memory_bytes_per_s = 4e12;
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) facts.flops_per_s[dtype] = 50e12;
    return facts;
}

static const struct kernel kernel = {.name = "any", .near_roof = true};

struct fixture {
    struct geometry geometry;
    struct task task;
    struct plan plan;
    struct run run;
};

static void set_op(struct fixture *f, enum op op, struct op_options options, enum dtype dtype, struct shape first,
                   struct shape second) {
    struct error error = {.status = STATUS_OK};
    memset(f, 0, sizeof *f);
    struct shape shapes[2] = {first, second};
    enum dtype dtypes[2] = {dtype, dtype};
    assert_int_equal(operations[op]->geometry(&options, shapes, dtypes, &f->task.geometry, &error), STATUS_OK);
    f->geometry = f->task.geometry;
    f->plan = (struct plan){.tasks = &f->task, .task_count = 1};
    f->run.kernel = &kernel;
    for (int i = 0; i < 2; i++) f->run.tiling.in_storage[i].bytes_per_s = 45e9;
    f->run.tiling.out_storage.bytes_per_s = 5e9;
}

static void set_matmul(struct fixture *f, int64_t m, int64_t k, int64_t n) {
    set_op(f, OP_MATMUL, (struct op_options){.alpha = 1}, FLOAT32, (struct shape){2, {m, k}},
           (struct shape){2, {k, n}});
}

static bool fit(struct fixture *f, int64_t budget, bool whole) {
    struct device_facts facts = gpu();
    bool fits = plan_tiles(&f->geometry, &facts, &f->run, budget, whole, &f->run.tiling);
    if (fits) assert_true(f->run.tiling.memory_bytes <= budget);
    return fits;
}

static int64_t distance(const struct box *box) {
    return box->rank ? box->start[box->rank - 1] : 0;
}

/* The index in a row-major array at which a box begins, if its elements are one run there; else -1. */
static int64_t run_start(const struct shape *shape, const struct box *box) {
    int64_t start = 0;
    bool wide = false;
    for (int axis = 0; axis < shape->rank; axis++) {
        if (wide && box->count[axis] < shape->size[axis]) return -1;
        wide = wide || box->count[axis] > 1;
        start = start * shape->size[axis] + box->start[axis];
    }
    return start;
}

/* Checks that fresh loads bring every input element once and that stores bring every output element once. Returns all
 * bytes loaded. */
static double check_steps(struct fixture *f) {
    int64_t fresh[2] = {0, 0}, stored = 0, sum = 0;
    double loaded = 0;
    bool in_order = true;
    for (int64_t number = 0; number < f->run.tiling.steps; number++) {
        struct step step;
        plan_step(&f->geometry, &f->run.tiling, number, &step);
        if (step.last) in_order = in_order && run_start(&f->geometry.out.shape, &step.store) == stored;
        for (int i = 0; i < 2 && i < f->geometry.inputs; i++) {
            if (step.reuse[i]) continue;
            loaded += (double)box_elements(&step.load[i]) * (double)dtype_size(f->geometry.in[i].dtype);
            if (step.fresh[i]) fresh[i] += box_elements(&step.load[i]);
        }
        if (step.last) stored += box_elements(&step.store), sum += distance(&step.store);
    }
    for (int i = 0; i < 2 && i < f->geometry.inputs; i++)
        assert_int_equal(fresh[i], shape_elements(&f->geometry.in[i].shape));
    assert_int_equal(stored, shape_elements(&f->geometry.out.shape));
    assert_int_equal(plan_stores_in_order(&f->geometry, &f->run.tiling), in_order);
    return loaded;
}

/* ------------------------------------------------------------------------------------------------------------------ */

static void what_is_timed_is_one_step(void **state) {
    struct fixture f;
    set_matmul(&f, 16384, 16384, 16384);
    assert_true(fit(&f, 64 * GIB, true));
    assert_int_equal(f.run.tiling.steps, 1);
    assert_int_equal(f.run.tiling.memory_bytes, 3 * GIB);
}

/* Sums of 16 bits that are cut are kept in float32 meanwhile; of those that are not there is only the result. */
static void cut_sums_have_memory_of_their_own(void **state) {
    const struct shape side = {2, {4096, 4096}};
    for (int cut = 0; cut < 2; cut++) {
        struct fixture f;
        set_op(&f, OP_MATMUL, (struct op_options){.alpha = 1}, BFLOAT16, side, side);
        assert_true(fit(&f, cut ? GIB / 64 : GIB, true));
        const struct tiling *tiling = &f.run.tiling;
        int64_t m = tiling->tile[LOOP_M], n = tiling->tile[LOOP_N], k = tiling->tile[LOOP_K];
        assert_int_equal(k < 4096, cut);
        assert_int_equal(tiling->partial_bytes, cut ? m * n * 4 : 0);
        assert_int_equal(tiling->memory_bytes,
                         2 * (tiling->in_slots[0] * m * k + tiling->in_slots[1] * k * n + tiling->out_slots * m * n) +
                             tiling->partial_bytes);
    }
}

/* A run that is not timed is cut although it would fit as a whole, so that writing begins before the last launch. */
static void what_is_not_timed_overlaps(void **state) {
    struct fixture one, several;
    set_matmul(&one, 16384, 16384, 16384);
    set_matmul(&several, 16384, 16384, 16384);
    assert_true(fit(&one, 64 * GIB, true) && fit(&several, 64 * GIB, false));
    assert_true(several.run.tiling.steps >= 4);
    assert_true(several.run.tiling.predicted_s < 0.8 * one.run.tiling.predicted_s);
    assert_true(several.run.tiling.predicted_s >= several.run.tiling.bound_s);
    assert_true(check_steps(&several) < 2.01 * GIB); /* inputs are still read once */
}

/* The memory is an eighth of the working set: C stays in large tiles while panels of k pass, and the bus keeps up with
 * 50 TFLOP/s. */
static void a_large_product_keeps_c_on_the_device(void **state) {
    struct fixture f;
    set_matmul(&f, 16384, 16384, 16384);
    assert_true(fit(&f, 3 * GIB / 8, true));
    assert_true(f.run.tiling.tile[LOOP_K] < 16384);
    assert_true(f.run.tiling.copy_s < f.run.tiling.compute_s);
    assert_true(f.run.tiling.predicted_s < 1.3 * fmax(f.run.tiling.compute_s, f.run.tiling.write_s));
    assert_true(fabs(check_steps(&f) + GIB - f.run.tiling.traffic_bytes) < 1e-6 * f.run.tiling.traffic_bytes);
}

static void a_stream_is_read_once(void **state) {
    struct fixture f;
    set_op(&f, OP_TRANSPOSE, (struct op_options){.alpha = 1}, FLOAT32, (struct shape){2, {30000, 50000}},
           (struct shape){0, {0}});
    assert_true(fit(&f, GIB, false));
    assert_true(check_steps(&f) == 30000.0 * 50000 * 4);
    /* Both reads and writes are runs of kilobytes: small runs cost more than their bytes. */
    assert_true(f.run.tiling.tile[LOOP_M] >= 512 && f.run.tiling.tile[LOOP_N] >= 512);
    for (int axis = -1; axis < 2; axis++) {
        struct op_options options = {.reduce = REDUCE_SUM, .axis = axis < 0 ? REDUCE_ALL_AXES : axis};
        set_op(&f, OP_REDUCE, options, FLOAT32, (struct shape){2, {30001, 50003}}, (struct shape){0, {0}});
        assert_true(fit(&f, GIB, false));
        assert_true(check_steps(&f) == 30001.0 * 50003 * 4);
    }
}

static void tiles_end_where_chunks_do(void **state) {
    struct fixture f;
    set_matmul(&f, 9000, 9000, 9000);
    f.run.tiling.in_storage[0].chunk = (struct shape){2, {1000, 300}};
    f.run.tiling.in_storage[0].filtered = true;
    f.run.tiling.out_storage.chunk = (struct shape){2, {1000, 512}};
    f.run.tiling.out_storage.filtered = true;
    assert_true(fit(&f, GIB / 8, false));
    assert_true(f.run.tiling.tile[LOOP_M] % 1000 == 0);
    assert_true(f.run.tiling.tile[LOOP_N] % 512 == 0 || f.run.tiling.tile[LOOP_N] == 9000);
    assert_true(f.run.tiling.tile[LOOP_K] % 300 == 0 || f.run.tiling.tile[LOOP_K] == 9000);
}

/* A run of `f` is predicted for a GPU, or for two that share it. */
static struct tiling predict(struct fixture *f, int team) {
    struct device_facts facts = gpu();
    facts.team = team;
    plan_predict(&f->geometry, &facts, &f->run, &f->run.tiling);
    return f->run.tiling;
}

static void assert_near(double value, double expected) {
    if (!(fabs(value - expected) <= 1e-9 * fabs(expected))) fail_msg("%.17g, not %.17g", value, expected);
}

static void stages_are_predicted(void **state) {
    struct fixture f;
    const double mib = 1 << 20;
    set_matmul(&f, 1024, 2048, 512);
    for (int i = 0; i < 2; i++) f.run.tiling.in_storage[i].file_share = 0.5;
    f.run.tiling.out_storage.file_share = 2;
    assert_true(fit(&f, GIB, false) && f.run.tiling.steps == 1);
    struct tiling files = predict(&f, 1);
    assert_near(files.read_bytes, (8 + 4) * mib / 2);
    assert_near(files.write_bytes, 2 * 2 * mib);
    assert_near(files.traffic_bytes, (8 + 4 + 2) * mib);
    assert_near(files.copy_s, (8 + 4) * mib / 55e9);
    assert_true(files.generate_s == 0 && files.read_s > 12 * mib / 45e9 && files.read_s < 1.1 * 12 * mib / 45e9);
    assert_true(files.write_s > 2 * mib / 5e9 && files.write_s < 1.1 * 2 * mib / 5e9);
    /* What is made and not read counts as generated: each input its part, both of them all. */
    double parts = 0;
    for (int i = 0; i < 2; i++) {
        f.run.tiling.in_storage[i].generated = true;
        struct tiling one = predict(&f, 1);
        assert_near(one.read_bytes, (i ? 8 : 4) * mib / 2);
        assert_true(one.generate_s > 0 && one.generate_s < one.read_s && one.read_s == files.read_s);
        parts += one.generate_s;
        f.run.tiling.in_storage[i].generated = false;
    }
    assert_near(parts, files.read_s);
    f.run.tiling.in_storage[0].generated = f.run.tiling.in_storage[1].generated = true;
    struct tiling generated = predict(&f, 1);
    assert_near(generated.generate_s, generated.read_s);
    assert_true(generated.read_bytes == 0 && generated.predicted_s == files.predicted_s);
    /* Two devices share what a kernel that can be divided does; a result that is not stored is not written. */
    struct tiling alone = predict(&f, 2);
    assert_true(alone.copy_s == files.copy_s && alone.kernel_s == files.kernel_s);
    const struct kernel divisible = {.name = "any", .divisible = true};
    f.run.kernel = &divisible;
    struct tiling shared = predict(&f, 2);
    assert_near(shared.copy_s, files.copy_s / 2);
    assert_near(shared.kernel_s, files.kernel_s / 2);
    f.run.tiling.out_storage.bytes_per_s = INFINITY;
    struct tiling dropped = predict(&f, 1);
    assert_true(dropped.write_s == 0 && dropped.write_bytes == 0 && dropped.predicted_s < files.predicted_s);
}

/* A tile that ends within compressed chunks is read with all of these; others, and chunks as they are, with no more. */
static void cut_chunks_are_read_whole(void **state) {
    struct fixture f;
    set_op(&f, OP_TRANSPOSE, (struct op_options){.alpha = 1}, FLOAT32, (struct shape){2, {4000, 5000}},
           (struct shape){0, {0}});
    assert_true(fit(&f, GIB >> 6, false) && f.run.tiling.steps > 4);
    const double plain = predict(&f, 1).read_s;
    struct storage *storage = &f.run.tiling.in_storage[0];
    for (int axis = 0; axis < 2; axis++) {
        const int64_t size = f.geometry.in[0].shape.size[axis], tile = f.run.tiling.tile[f.geometry.in[0].loop[axis]];
        for (int64_t chunk = 1; chunk <= size; chunk++) {
            bool whole = tile >= size || tile % chunk == 0;
            storage->chunk = (struct shape){2, {1, 1}};
            storage->chunk.size[axis] = chunk;
            storage->grain.rank = 0;
            assert_true(predict(&f, 1).read_s == plain);
            storage->grain = storage->chunk; /* they are filtered */
            double read = predict(&f, 1).read_s;
            assert_true(whole ? read == plain : read > plain);
            assert_true(read <= plain * (double)(tile + 2 * chunk) / (double)tile);
        }
    }
}

/* No stage takes longer than all, and all no longer than one stage after the other; `bound_by` is the slowest. */
static void stages_overlap(void **state) {
    for (int slow = 0; slow < 4; slow++)
        for (int tiles = 0; tiles < 3; tiles++) {
            static const char *const names[] = {"read", "copy", "compute", "write"};
            struct device_facts facts = gpu();
            struct fixture f;
            set_op(&f, OP_TRANSPOSE, (struct op_options){.alpha = 1}, FLOAT32, (struct shape){2, {4000, 5000}},
                   (struct shape){0, {0}});
            for (int i = 0; i < 2; i++) f.run.tiling.in_storage[i].bytes_per_s = slow == 0 ? 1e9 : 1e12;
            facts.copy_bytes_per_s = slow == 1 ? 1e9 : 1e12;
            facts.memory_bytes_per_s = slow == 2 ? 1e9 : 1e13;
            f.run.tiling.out_storage.bytes_per_s = slow == 3 ? 1e9 : 1e12;
            assert_true(fit(&f, GIB >> 3 * tiles, false));
            plan_predict(&f.geometry, &facts, &f.run, &f.run.tiling);
            const struct tiling *t = &f.run.tiling;
            const double stages[] = {t->read_s, t->copy_s, t->compute_s, t->write_s};
            for (int i = 0; i < 4; i++) assert_true(t->predicted_s >= stages[i] * 0.999 && t->bound_s >= stages[i]);
            assert_true(t->predicted_s <= t->read_s + 2 * t->copy_s + t->compute_s + t->write_s);
            assert_true(t->bound_s == stages[slow] && t->cost_s > t->predicted_s);
            assert_string_equal(t->bound_by, names[slow]);
        }
}

/* One copy of an input serves all its readers, so each bears its part of what that costs; not of what is loaded anew.
 */
static void readers_share_what_is_loaded_once(void **state) {
    for (int again = 0; again < 2; again++) {
        struct fixture f;
        set_matmul(&f, 2048, 2048, 2048);
        assert_true(fit(&f, again ? GIB >> 7 : GIB, true) && (f.run.tiling.steps > 1) == again);
        double costs[9];
        for (int readers = 1; readers <= 8; readers++) {
            for (int i = 0; i < 2; i++) f.run.tiling.in_storage[i].readers = readers;
            costs[readers] = predict(&f, 1).cost_s;
        }
        const double shared = 2 * (costs[1] - costs[2]), read = predict(&f, 1).read_s;
        assert_true(again ? shared == 0 : shared > 0.99 * read && shared < 1.5 * read);
        for (int readers = 1; readers <= 8; readers++)
            assert_near(costs[readers], costs[1] - shared * (1 - 1.0 / readers));
    }
}

static void any_shape_fits_into_64_kib(void **state) {
    struct fixture f;
    static const int64_t sizes[][3] = {{1, INT64_C(1) << 33, 1}, {INT64_C(1) << 32, 1, 1}, {70000, 70000, 70000}};
    for (int i = 0; i < 3; i++) {
        set_matmul(&f, sizes[i][0], sizes[i][1], sizes[i][2]);
        assert_true(fit(&f, 64 << 10, true));
    }
    set_op(&f, OP_TRANSPOSE, (struct op_options){.alpha = 1}, FLOAT64, (struct shape){3, {7, 3, INT64_C(1) << 31}},
           (struct shape){0, {0}});
    assert_true(fit(&f, 64 << 10, true));
}

static void too_little_memory_says_what_is_needed(void **state) {
    struct fixture f;
    set_matmul(&f, 100, 100, 100);
    assert_false(fit(&f, 700, true));
    int64_t least = f.run.tiling.memory_bytes;
    assert_true(least > 700);
    set_matmul(&f, 100, 100, 100);
    assert_true(fit(&f, least, true));
}

static void less_memory_is_never_predicted_to_be_faster(void **state) {
    double before = INFINITY;
    for (int64_t budget = 64 << 20; budget <= 8 * GIB; budget *= 2) {
        struct fixture f;
        set_matmul(&f, 20000, 10000, 30000);
        assert_true(fit(&f, budget, false));
        assert_true(f.run.tiling.predicted_s <= before * 1.06); /* TRAFFIC_WEIGHT allows it */
        before = f.run.tiling.predicted_s;
        check_steps(&f);
    }
}

/* A traffic model whose value depends on everything that a launch knows of its tile. */
static double traffic(const struct launch *launch) {
    const struct matmul_args *args = &launch->args.matmul;
    return (double)(args->m * 3 + args->n * 5) * (double)args->k + (args->first ? 1000 : 0) + (args->last ? 10 : 0);
}

static void modelled_traffic_is_the_sum_over_all_steps(void **state) {
    static const struct kernel modelled = {.name = "any", .traffic_bytes = traffic};
    for (int64_t budget = 1 << 16; budget <= 1 << 24; budget *= 4) {
        struct fixture f;
        set_matmul(&f, 1000, 700, 300);
        f.run.kernel = &modelled;
        assert_true(fit(&f, budget, false));
        double sum = 0;
        for (int64_t number = 0; number < f.run.tiling.steps; number++) {
            struct step step;
            struct launch launch = {.workspace = NULL};
            const void *const nowhere[2] = {NULL, NULL};
            plan_step(&f.geometry, &f.run.tiling, number, &step);
            operations[OP_MATMUL]->launch(&f.geometry, &step.tile, step.first, step.last, nowhere, NULL, NULL, &launch);
            sum += traffic(&launch);
        }
        assert_true(plan_modelled_bytes(&f.plan, &f.run) == sum);
    }
    struct fixture f;
    set_matmul(&f, 0, 700, 300);
    f.run.kernel = &modelled;
    assert_true(fit(&f, GIB, false));
    assert_true(plan_modelled_bytes(&f.plan, &f.run) == 0);
}

/* Tilings whose steps cannot be counted in 64 bits are skipped. */
static void steps_can_be_counted(void **state) {
    struct fixture f;
    set_matmul(&f, 500000000, 500000000, 1000000000);
    assert_true(fit(&f, GIB, false));
    assert_true(f.run.tiling.steps > 0 && f.run.tiling.steps == f.run.tiling.tiles[LOOP_M] *
                                                                    f.run.tiling.tiles[LOOP_N] *
                                                                    f.run.tiling.tiles[LOOP_K]);
    static const struct kernel modelled = {.name = "any", .traffic_bytes = traffic};
    f.run.kernel = &modelled;
    assert_true(plan_modelled_bytes(&f.plan, &f.run) > 0); /* returns at once */
    assert_false(fit(&f, 1 << 10, false));
}

/* Where tiles end may show in the last bits of a sum; a measurement must not. */
static void limits_change_times_and_no_tiles(void **state) {
    struct device_limits *limits = limits_create();
    limits->launch_s = 1e-6;
    limits->memory_bytes_per_s = limits->upload_bytes_per_s = limits->download_bytes_per_s = 1e6;
    limits->flops_per_s[FLOAT32] = 1e6 / 3;
    for (int64_t size = 100; size < 40000; size = size * 3 + 7) {
        struct fixture assumed, measured;
        struct device_facts facts = gpu();
        set_matmul(&assumed, size, size + 11, size + 5);
        set_matmul(&measured, size, size + 11, size + 5);
        facts.limits = limits;
        const int64_t budget = INT64_C(3) << 20;
        assert_true(fit(&assumed, budget, false));
        assert_true(plan_tiles(&measured.geometry, &facts, &measured.run, budget, false, &measured.run.tiling));
        assert_memory_equal(assumed.run.tiling.tile, measured.run.tiling.tile, sizeof assumed.run.tiling.tile);
        assert_int_equal(assumed.run.tiling.memory_bytes, measured.run.tiling.memory_bytes);
        plan_predict(&measured.geometry, &facts, &measured.run, &measured.run.tiling);
        double kernel_s = 3e-6 * measured.geometry.flops;
        assert_true(measured.run.tiling.kernel_s > 0.99 * kernel_s && measured.run.tiling.kernel_s < 1.01 * kernel_s);
        assert_true(measured.run.tiling.predicted_s >= measured.run.tiling.kernel_s);
        assert_memory_equal(assumed.run.tiling.tile, measured.run.tiling.tile, sizeof assumed.run.tiling.tile);
    }
    limits_free(limits);
}

/* One GPU, several, and nodes of any number of cores must find the same tiles, for the same bits. */
static void devices_and_threads_change_no_tiles(void **state) {
    struct kernel slow = kernel;
    slow.divisible = true;
    for (int trial = 0; trial < 600; trial++) {
        struct fixture one, other;
        struct device_facts alone = gpu(), team = gpu();
        int64_t m = 64 << trial % 9, n = 100 + 37 * (trial % 61), k = 16 << trial % 11,
                budget = INT64_C(1) << (18 + trial % 7);
        slow.speed = trial % 3 == 0 ? 1 : trial % 3 == 1 ? 0.1 : 0.003;
        team.team = 2 + trial % 5;
        team.host_threads = 1 + trial % 40;
        set_matmul(&one, m, n, k);
        set_matmul(&other, m, n, k);
        one.run.kernel = other.run.kernel = &slow;
        bool fits = plan_tiles(&one.geometry, &alone, &one.run, budget, false, &one.run.tiling);
        assert_int_equal(plan_tiles(&other.geometry, &team, &other.run, budget, false, &other.run.tiling), fits);
        assert_memory_equal(one.run.tiling.tile, other.run.tiling.tile, sizeof one.run.tiling.tile);
    }
}

static void devices_have_a_text(void **state) {
    static const struct {
        int count, numbers[6];
        const char *text;
    } cases[] = {{1, {4}, "cuda:4"},
                 {2, {0, 1}, "cuda:0,1"},
                 {2, {3, 5}, "cuda:3,5"},
                 {3, {0, 1, 2}, "cuda:0-2"},
                 {4, {7, 0, 1, 2}, "cuda:7,0-2"},
                 {4, {0, 1, 2, 7}, "cuda:0-2,7"},
                 {4, {0, 1, 4, 5}, "cuda:0,1,4,5"},
                 {6, {0, 2, 3, 5, 6, 7}, "cuda:0,2,3,5-7"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct device_facts facts = gpu();
        char text[40];
        memcpy(facts.numbers, cases[i].numbers, sizeof cases[i].numbers);
        plan_device_text(&facts, cases[i].count, text, sizeof text);
        assert_string_equal(text, cases[i].text);
        for (size_t room = strlen(text); room > 0; room--) { /* what has no room is cut */
            char cut[40];
            memset(cut, '#', sizeof cut);
            plan_device_text(&facts, cases[i].count, cut, room);
            assert_true(strncmp(cut, text, room - 1) == 0 && cut[room - 1] == '\0' && cut[room] == '#');
        }
    }
    struct device_facts facts = {.kind = DEVICE_CPU};
    char text[40];
    plan_device_text(&facts, 1, text, sizeof text);
    assert_string_equal(text, "cpu");
    plan_device_text(&facts, 3, text, sizeof text);
    assert_string_equal(text, "cpu x 3");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_have_a_text),
        cmocka_unit_test(what_is_timed_is_one_step),
        cmocka_unit_test(cut_sums_have_memory_of_their_own),
        cmocka_unit_test(what_is_not_timed_overlaps),
        cmocka_unit_test(a_large_product_keeps_c_on_the_device),
        cmocka_unit_test(a_stream_is_read_once),
        cmocka_unit_test(tiles_end_where_chunks_do),
        cmocka_unit_test(stages_are_predicted),
        cmocka_unit_test(cut_chunks_are_read_whole),
        cmocka_unit_test(stages_overlap),
        cmocka_unit_test(readers_share_what_is_loaded_once),
        cmocka_unit_test(any_shape_fits_into_64_kib),
        cmocka_unit_test(too_little_memory_says_what_is_needed),
        cmocka_unit_test(less_memory_is_never_predicted_to_be_faster),
        cmocka_unit_test(modelled_traffic_is_the_sum_over_all_steps),
        cmocka_unit_test(steps_can_be_counted),
        cmocka_unit_test(limits_change_times_and_no_tiles),
        cmocka_unit_test(devices_and_threads_change_no_tiles),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
