/* reduce/tree.cu - partial results combine pairwise in shared memory: log2(256) = 8 steps instead of 255 atomics.
 *
 *     sequential: s = 128, 64 ... 1                       interleaved: s = 1, 2 ... 128
 *     thread r < s adds slot r + s to slot r              thread r adds slot 2sr + s to slot 2sr
 *
 *     0 1 2 3 4 5 6 7                                     0 1 2 3 4 5 6 7
 *     |<------+ | | |   s = 4                             |<+ |<+ |<+ |<+   s = 1
 *     |<--+ |<--+       s = 2                             |<--+   |<--+     s = 2
 *     |<+               s = 1                             |<------+         s = 4
 *
 * First each thread adds its own elements in registers, so that thousands of elements need one tree. Both orders do the
 * same work with as many threads. In the sequential order neighbours use neighbouring slots, without bank conflicts. In
 * the interleaved order slots lie 2s apart: shared memory serves 16 threads at once with 8-byte values, and 2s of them
 * meet in the same bank, up to all 16. The parameter `stride` chooses, for comparison.
 *
 * Global traffic: each element is read once. Measured on an H100: the sum of 2^20 floats takes 6.0 us, by
 * reduce/atomic.cu 1.85 ms. The limit: each step is a barrier and a round trip through shared memory, although in the
 * last steps only one warp works. reduce/shuffle.cu avoids both. */
#include "rung.cuh"

/* The RUNG of rung.cuh: merges the rows' accumulators by a tree in shared memory. */
struct tree_rung {
    bool interleaved;

    /* Returns the column's result to the thread of row 0. */
    template <typename A> __device__ A combine(const A &a, const rung_layout &layout, int row) const {
        __shared__ A slot[RUNG_THREADS];
        const int thread = int(threadIdx.x), columns = layout.columns;
        slot[thread] = a;
        if (interleaved) {
            for (int s = 1; s < layout.rows; s *= 2) {
                __syncthreads();
                const int to = thread + (2 * s - 1) * row * columns; /* slot of row 2s * row */
                if (2 * s * row < layout.rows) slot[to].merge(slot[to + s * columns]);
            }
        } else {
            for (int s = layout.rows / 2; s > 0; s /= 2) {
                __syncthreads();
                if (row < s) slot[thread].merge(slot[thread + s * columns]);
            }
        }
        return slot[thread]; /* the thread of row 0 has made this sum itself, so no barrier is needed */
    }
};

static int reduce_tree_launch(const struct launch *launch) {
    return rung_launch(launch, tree_rung{.interleaved = launch->choice[0] == 1});
}

KERNEL(reduce_tree) = {
    .name = "tree",
    .op = OP_REDUCE,
    .device = DEVICE_CUDA,
    .summary = "a tree in shared memory, blocks of 256 threads; the last block finishes",
    .dtypes = DTYPES_FLOAT,
    .operators = REDUCE_BIT(REDUCE_SUM) | REDUCE_BIT(REDUCE_MEAN) | REDUCE_BIT(REDUCE_MIN) | REDUCE_BIT(REDUCE_MAX) |
                 REDUCE_BIT(REDUCE_ARGMIN) | REDUCE_BIT(REDUCE_ARGMAX),
    .edges = {{1}, {RUNG_THREADS, 8, RUNG_THREADS *RUNG_UNROLL}, {32}},
    .accuracy = ACCURACY_FULL,
    .compute_capability = 80,
    .traffic = REDUCE_TRAFFIC,
    .traffic_bytes = reduce_bytes,
    .parameters = {{.name = "stride",
                    .values = {"sequential", "interleaved"},
                    .help = "which slots a step combines: far ones first, or near ones first, with bank conflicts"}},
    .workspace = rung_workspace,
    .refuses = reduce_skips_no_nan,
    .launch = reduce_tree_launch,
};
