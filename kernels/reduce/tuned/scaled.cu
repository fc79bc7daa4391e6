/* scaled.cu - products and norms of floats whose running value stays in range, whatever the order; NaNs may be skipped.
 *
 * If elements alternate 2, 1/2, 2, 1/2 ..., a thread that takes every 256th of them takes all the 2s, and the product
 * of these alone overflows. So a product is a mantissa and an exponent apart from it. A sum of squares has a level: its
 * elements were multiplied by 2^(-600 level) before they were squared (scaled.cuh). Whatever the threads take, the
 * result is right if the exact one is in range.
 *
 * The frame is that of the lessons (reduce/rung.cuh), with a tree in shared memory. The limit: each element is taken
 * apart by a dozen instructions, and loads are of one element. stream.cu is faster, but does not skip NaNs here. */
#include "../rung.cuh"
#include "scaled.cuh"

/* The product is value * 2^index, 1 <= |value| < 2. */
template <bool SKIPS_NAN> struct scaled_product {
    static constexpr bool POSITION = false;
    double value;
    int64_t index;
    static __device__ scaled_product identity() { return {1, 0}; }
    __device__ void add(double x, int64_t) {
        if (!SKIPS_NAN || x == x) merge({split_exponent(x, index), 0});
    }
    __device__ void merge(const scaled_product &other) {
        index += other.index;
        value = split_exponent(value * other.value, index);
    }
    __device__ double result(double) const { return with_exponent(value, index); }
};

/* The sum of squares is `value`, at level `index`. */
template <bool SKIPS_NAN> struct scaled_squares {
    static constexpr bool POSITION = false;
    double value;
    int64_t index;
    static __device__ scaled_squares identity() { return {0, -1}; }
    __device__ void add(double x, int64_t) {
        if (SKIPS_NAN && x != x) return;
        const int level = square_level(__double2hiint(x) & 0x7fffffff);
        const double scaled = x * square_scale(level);
        merge({scaled * scaled, level});
    }
    __device__ void merge(const scaled_squares &other) {
        const int level = int(max(index, other.index));
        value = square_sum(value, int(index), level) + square_sum(other.value, int(other.index), level);
        index = level;
    }
    __device__ double result(double) const { return with_exponent(sqrt(value), SQUARE_SHIFT * index); }
};

/* The RUNG of rung.cuh: a tree in shared memory, as in reduce/tree.cu. */
struct scaled_rung {
    /* Returns the column's result to the thread of row 0. */
    template <typename A> __device__ A combine(const A &a, const rung_layout &layout, int row) const {
        __shared__ A slot[RUNG_THREADS];
        const int thread = int(threadIdx.x);
        slot[thread] = a;
        for (int s = layout.rows / 2; s > 0; s /= 2) {
            __syncthreads();
            if (row < s) slot[thread].merge(slot[thread + s * layout.columns]);
        }
        return slot[thread];
    }
};

/* Starts the kernel for the launch's operator. Returns 0 or a cudaError_t. */
template <typename T, bool SKIPS_NAN> static int scaled_start(const struct launch *launch) {
    return launch->args.reduce.operator_ == REDUCE_PROD
               ? rung_start<T, scaled_product<SKIPS_NAN>>(launch, scaled_rung())
               : rung_start<T, scaled_squares<SKIPS_NAN>>(launch, scaled_rung());
}

static int reduce_scaled_launch(const struct launch *launch) {
    return dispatch_float(launch->dtype, [&](auto type) -> int {
        using T = typename decltype(type)::type;
        return launch->args.reduce.skip_nan ? scaled_start<T, true>(launch) : scaled_start<T, false>(launch);
    });
}

KERNEL(reduce_scaled) = {
    .name = "scaled",
    .op = OP_REDUCE,
    .device = DEVICE_CUDA,
    .summary = "products and norms of floats whose running value has an exponent of its own; can skip NaNs",
    .dtypes = DTYPES_FLOAT,
    .operators = REDUCE_BIT(REDUCE_PROD) | REDUCE_BIT(REDUCE_NORM2),
    .edges = {{1}, {RUNG_THREADS, 8, RUNG_THREADS *RUNG_UNROLL}, {32}},
    .accuracy = ACCURACY_FULL,
    .compute_capability = 80,
    .traffic = REDUCE_TRAFFIC,
    .traffic_bytes = reduce_bytes,
    .workspace = rung_workspace,
    .launch = reduce_scaled_launch,
};
