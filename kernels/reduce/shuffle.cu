/* reduce/shuffle.cu - the threads of a warp exchange registers; shared memory holds one value per warp.
 *
 *     lane   0   1   2   3   4   5   6   7           __shfl_down by 4, 2, 1 (of 32 lanes: by 16, 8, 4, 2, 1):
 *            |<--------------+   |   |   |           lane i takes the value of lane i + 4,
 *            |<------+   |<------+                   of lane i + 2,
 *            |<--+                                   of lane i + 1. Lane 0 has the sum of all.
 *
 * Five shuffles replace five barriers and ten accesses to shared memory of reduce/tree.cu. Then each of a block's 8
 * warps stores one value (or one per column) in shared memory, and after a single barrier one thread per column adds
 * them in order. With 32 columns each lane is a column, and nothing is shuffled.
 *
 * Measured on an H100: the sum of 2^20 floats takes 5.96 us, by reduce/tree.cu 6.02, mostly for the launch; the mean of
 * each row of 8192 x 8192 takes 106 us, by tuned/stream.cu 89.
 *
 * The limit: loads are of one element, and each element is converted to double. tuned/stream.cu loads 16 bytes at a
 * time and computes in narrower types. */
#include "rung.cuh"

/* The RUNG of rung.cuh: merges the rows' accumulators by shuffles within warps, then one per warp in order. */
struct shuffle_rung {
    /* Returns the column's result to the thread of row 0. */
    template <typename A> __device__ A combine(A a, const rung_layout &layout, int row) const {
        __shared__ A of_warp[RUNG_THREADS / 32][32]; /* [warp][column] */
        for (int lanes = 16; lanes >= layout.columns; lanes /= 2) a.merge(a.shuffle_down(lanes));
        const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
        if (lane < layout.columns) of_warp[warp][lane] = a;
        __syncthreads();
        if (row == 0)
            for (int i = 1; i < int(blockDim.x) / 32; i++) a.merge(of_warp[i][lane]);
        return a;
    }
};

static int reduce_shuffle_launch(const struct launch *launch) {
    return rung_launch(launch, shuffle_rung());
}

KERNEL(reduce_shuffle) = {
    .name = "shuffle",
    .op = OP_REDUCE,
    .device = DEVICE_CUDA,
    .summary = "warp shuffles instead of shared memory, one value per warp",
    .dtypes = DTYPES_FLOAT,
    .operators = REDUCE_BIT(REDUCE_SUM) | REDUCE_BIT(REDUCE_MEAN) | REDUCE_BIT(REDUCE_MIN) | REDUCE_BIT(REDUCE_MAX) |
                 REDUCE_BIT(REDUCE_ARGMIN) | REDUCE_BIT(REDUCE_ARGMAX),
    .edges = {{1}, {RUNG_THREADS, 8, RUNG_THREADS *RUNG_UNROLL}, {32}},
    .accuracy = ACCURACY_FULL,
    .compute_capability = 80,
    .traffic = REDUCE_TRAFFIC,
    .traffic_bytes = reduce_bytes,
    .workspace = rung_workspace,
    .refuses = reduce_skips_no_nan,
    .launch = reduce_shuffle_launch,
};
