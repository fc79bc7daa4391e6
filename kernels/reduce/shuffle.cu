/* reduce/shuffle.cu - the threads of a warp exchange registers; shared memory holds one value per warp.
 *
 *     lane   0   1   2   3   4   5   6   7           __shfl_down by 4, 2, 1 (of 32 lanes: by 16, 8, 4, 2, 1):
 *            |<--------------+   |   |   |           lane i takes the value of lane i + 4,
 *            |<------+   |<------+                   of lane i + 2,
 *            |<--+                                   of lane i + 1. Lane 0 has the sum of all.
 *
 * Five shuffles replace five barriers and ten accesses to shared memory of reduce/tree.cu. Then each of a block's 8
 * warps stores one value (or one per column) in shared memory, and after a single barrier the first warp adds them in
 * order.
 *
 * Where the reduced axis is contiguous and aligned, threads read 16 bytes at a time, four such loads in flight: a
 * quarter of the load instructions for float32, a sixteenth for int8. Global traffic: each element read once.
 *
 * The limit: only aligned rows are read 16 bytes at a time, and every element is converted to double. tuned/stream.cu
 * lifts both. */
#include "reduce.cuh"

#define LOADS 4 /* 16-byte loads in flight */

struct reduce_shuffle_strategy {
    template <typename A, typename T> __device__ A gather(const T *x, const reduce_walk &walk) const {
        constexpr int PER_LOAD = 16 / sizeof(T);
        if (walk.stride != 1 || reinterpret_cast<uintptr_t>(x) % 16 != 0) return reduce_gather<A>(x, walk);

        /* The walk in units of 16 bytes, then the remaining elements. */
        A a = A::identity();
        const auto *from = reinterpret_cast<const uint4 *>(x);
        const int64_t units = walk.end / PER_LOAD;
        int64_t at = walk.start;
        for (; at + (LOADS - 1) * walk.step < units; at += LOADS * walk.step) {
            uint4 unit[LOADS];
#pragma unroll
            for (int i = 0; i < LOADS; i++) unit[i] = from[at + i * walk.step];
#pragma unroll
            for (int i = 0; i < LOADS; i++) take_unit<T>(a, unit[i], walk.offset + (at + i * walk.step) * PER_LOAD);
        }
        for (; at < units; at += walk.step) take_unit<T>(a, from[at], walk.offset + at * PER_LOAD);
        for (at = units * PER_LOAD + walk.start; at < walk.end; at += walk.step) a.take(x[at], walk.offset + at);
        return a;
    }

    template <typename T, typename A> static __device__ void take_unit(A &a, const uint4 &unit, int64_t index) {
        T element[16 / sizeof(T)];
        memcpy(element, &unit, sizeof unit);
#pragma unroll
        for (int i = 0; i < int(16 / sizeof(T)); i++) a.take(element[i], index + i);
    }

    template <typename A> __device__ A combine(A a, const reduce_layout &layout, int row) const {
        __shared__ A of_warp[REDUCE_THREADS / 32][32];  /* [warp][column] */
        const int group = layout.rows * layout.columns; /* threads that share outputs */
        for (int lanes = min(group, 32) / 2; lanes >= layout.columns; lanes /= 2) a.merge(a.shuffle_down(lanes));
        if (group <= 32) return a;

        const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
        if (lane < layout.columns) of_warp[warp][lane] = a;
        __syncthreads();
        if (row == 0)
            for (int i = 1; i < group / 32; i++) a.merge(of_warp[warp + i][lane]);
        return a;
    }
};

static int reduce_shuffle_launch(const struct launch *launch) {
    return reduce_launch(launch, reduce_shuffle_strategy());
}

KERNEL(reduce_shuffle) = {
    .name = "shuffle",
    .op = OP_REDUCE,
    .device = DEVICE_CUDA,
    .summary = "warp shuffles instead of shared memory, 16-byte loads where x allows them",
    .dtypes = DTYPES_ALL,
    .edges = {{REDUCE_THREADS, 32},
              {REDUCE_THREADS, 16, REDUCE_THREADS *REDUCE_UNROLL, REDUCE_THREADS *LOADS * 4},
              {32}},
    .accuracy = ACCURACY_FULL,
    .compute_capability = 80,
    .traffic = REDUCE_TRAFFIC,
    .traffic_bytes = reduce_bytes,
    .workspace = reduce_workspace,
    .launch = reduce_shuffle_launch,
};
