/* stacks_choice.cuh - chooses the tile for a stack, by a model of stacks.cu's time. */
#ifndef KERNELS_MATMUL_STACKS_CHOICE_CUH
#define KERNELS_MATMUL_STACKS_CHOICE_CUH

#include "stacks.cuh"

/* In the order of struct stacks_shape. `idle` and the issue slots here and below are fitted to the times of all tiles
 * of 62 stacks on an H200; nine predictions of ten for the chosen tiles are within 13 %. */
#define SHAPES 3
static constexpr stacks_shape float_shapes[SHAPES] = {
    {16, 16, 16, 28, 1.6, 23, 140}, {32, 32, 32, 20, 1.6, 38, 225}, {64, 32, 32, 12, 1.6, 58, 570}};
static constexpr stacks_shape double_shapes[SHAPES] = {
    {16, 16, 32, 24, 1.7, 11, 42}, {32, 32, 32, 16, 1.7, 34, 250}, {64, 32, 32, 10, 1.7, 69, 0}};
static constexpr stacks_shape half_shapes[SHAPES] = {
    {16, 16, 32, 24, 1.25, 0, 240}, {32, 32, 32, 16, 1.25, 2.1, 450}, {64, 32, 32, 8, 1.25, 3.25, 890}};
static constexpr stacks_shape element_shapes[SHAPES] = {
    {16, 16, 32, 24, 0.5, 1.2, 170}, {32, 32, 32, 12, 0.5, 0, 430}, {64, 32, 32, 8, 0.5, 11.8, 1260}};

/* The shapes of the tiles that multiply this stack's type and rows. */
inline const stacks_shape *stacks_shapes(const struct launch *launch) {
    return launch->dtype == FLOAT32   ? float_shapes
           : launch->dtype == FLOAT64 ? double_shapes
           : stacks_odd(launch)       ? element_shapes
                                      : half_shapes;
}

struct stacks_choice {
    int shape;
    stacks_plan plan;
    double clocks; /* of a multiprocessor, for a product */
};

/* Issue slots of a warp, fitted to measurements. */
#define PIECE_SLOTS         295 /* for the start of a piece */
#define UNPADDED_READ_SLOTS 2.5 /* for a read of unpadded rows */
#define STAGE_SLOTS         70  /* to stage STAGE_BYTES of C */
#define STAGE_BYTES         512
#define SINGLE_SLOTS        3.1 /* to write an element of C singly */

/* Returns the clocks that a multiprocessor takes for a product: the issue slots that its warps take, divided by its
 * four schedulers. A warp waits after most instructions, so a scheduler needs several warps to use all of its
 * clocks. */
inline double stacks_clocks(const struct launch *launch, const stacks_shape &shape, const stacks_plan &plan) {
    const matmul_args &args = launch->args.matmul;
    const double warps = plan.threads / 32, pieces = double(ceil_div(std::max<int64_t>(args.k, 1), plan.work.step));
    const int64_t items = plan.products * plan.work.tiles, teams = plan.threads / shape.team;
    /* Other blocks fill the gaps of the last round. */
    const double rounds = double(ceil_div(items, teams) * teams + items) / 2 / double(teams);
    const stacks_operand *const o = plan.work.operand;
    double slots = rounds * warps * (double(args.k) * shape.slots_per_k + shape.slots_per_tile);
    slots += warps * pieces * PIECE_SLOTS;
    if (plan.unpadded)
        slots += UNPADDED_READ_SLOTS * double(items * ceil_div(args.k, 16)) *
                 (shape.m / 2 * stacks_reads(o[0]) + shape.n / 2 * stacks_reads(o[1]));
    for (int i = 0; i < 2; i++)
        if (o[i].product_stride) slots += stacks_copy_slots(o[i], plan, args.k);
    const double elements = double(plan.products * args.m * args.n), size = double(dtype_size(launch->dtype));
    if (plan.work.staged) slots += elements * size / STAGE_BYTES * STAGE_SLOTS;
    if (!plan.work.staged && size == 2 && args.n % 2) slots += elements * SINGLE_SLOTS;
    const double fit = double((max_shared_bytes() + SYSTEM_SHARED) / (plan.bytes + SYSTEM_SHARED));
    const double blocks = std::max(1.0, std::min(fit, std::floor(shape.resident / warps)));
    const double each_scheduler = blocks * warps / 4;
    return slots / double(plan.products) / 4 * (each_scheduler + shape.idle) / each_scheduler;
}

/* Products whose C exceeds the fitted sizes, 96 x 96 (128 x 128 for even rows of 16 bits), take longer than
 * stacks_clocks says: by this factor. It grows with C, by the slope below for each further C of that size, because the
 * tiles of a product wait for each other's reads; measured on 20 stacks. Odd rows of 16 bits are hardly slowed, since C
 * is staged: 300 of 251 x 253 x 25 take 51.5 us in tiles of 32 x 32. */
inline double stacks_large_c_factor(const struct launch *launch, int shape) {
    static const double floats[SHAPES] = {0.33, 0.8, 0.8}, doubles[SHAPES] = {0.05, 0.33, 0.15},
                        halves[SHAPES] = {0.6, 0.6, 0.6}, odd_halves[SHAPES] = {0.05, 0.07, 0.025};
    const matmul_args &args = launch->args.matmul;
    const size_t size = dtype_size(launch->dtype);
    const bool even = size == 2 && !stacks_odd(launch);
    const double *const slope = size == 4 ? floats : size == 8 ? doubles : even ? halves : odd_halves;
    const double fitted_size = even ? 128 * 128 : 96 * 96;
    return 1 + slope[shape] * std::max(0.0, double(args.m) * double(args.n) / fitted_size - 1);
}

/* Returns the shape that the parameter `tile` names, or the fastest. plan.bytes is 0 if none fits. */
inline stacks_choice stacks_choose(const struct launch *launch) {
    stacks_choice best = {};
    for (int i = 0; i < SHAPES; i++) {
        const stacks_shape &shape = stacks_shapes(launch)[i];
        if (launch->choice[0] > 0 && launch->choice[0] - 1 != i) continue;
        const stacks_plan plan = stacks_plan_for(launch, shape);
        if (plan.bytes == 0) continue;
        const double clocks = stacks_clocks(launch, shape, plan) * stacks_large_c_factor(launch, i);
        if (best.plan.bytes == 0 || clocks < best.clocks) best = {i, plan, clocks};
    }
    return best;
}

#define SECONDS_PER_K 8e-8 /* of a warp, even if no other warp runs */

/* The predicted time on a GPU at 1.9 GHz: the longest of what memory takes, what the multiprocessor with the most
 * products takes, and what a single product takes; and 2.7 us for the launch. */
inline double stacks_seconds(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const double a = double(args.m) * double(args.k) * (args.a_batch_stride ? double(args.batch) : 1);
    const double b = double(args.k) * double(args.n) * (args.b_batch_stride ? double(args.batch) : 1);
    const double c = double(args.m) * double(args.n) * double(args.batch);
    const double products = double(ceil_div(args.batch, std::max(1, launch->multiprocessors)));
    const double alone = double(args.k) * SECONDS_PER_K; /* 31 x 80 x 1152 of 16 bits, once, took 94 us */
    return 2.7e-6 + std::max({alone, (a + b + c) * double(dtype_size(launch->dtype)) / 4.06e12,
                              products * stacks_choose(launch).clocks / 1.9e9});
}

#endif
