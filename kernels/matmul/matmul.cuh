/* matmul.cuh - what the matmul variants share: the accumulator's type, the tile of a block, the turned product, and the
 * epilogue. */
#ifndef KERNELS_MATMUL_CUH
#define KERNELS_MATMUL_CUH

#include "../core/dtype.cuh"
#include "../core/launch.cuh"

/* The type of sums: float, for float64 double. */
template <typename T> using accumulator = widened<T>;

/* Replaces every NaN by the same one. The sum of two doubles that are NaN has the bits of one of them, and the compiler
 * chooses their order. Floats need nothing: their arithmetic returns one NaN only, 0x7fffffff. */
__device__ inline float same_nan(float x) {
    return x;
}
__device__ inline double same_nan(double x) {
    return x != x ? __longlong_as_double(0x7ff8000000000000) : x;
}

/* Is alpha * sum computed in float? It is for 16-bit results, if alpha lies in float's range with room to spare:
 * rounding the product to 24 bits before it is rounded to 11 or 8 does not show, and a conversion to double and back
 * costs more than the store. Else it is computed in double, so that it is rounded only once. */
template <typename T> __host__ __device__ inline bool matmul_in_float(double alpha) {
    return sizeof(T) == 2 && (alpha == 0 || (fabs(alpha) > 0x1p-100 && fabs(alpha) < 0x1p100));
}

/* The epilogue for the sum of element `at` of C. Adds the sums of earlier launches, if this is not the first; then
 * stores alpha times the sum in C or, if this is not the last launch, the sum in `partial`. */
template <typename T> __device__ inline void matmul_store(const matmul_args &args, int64_t at, accumulator<T> sum) {
    auto *partial = static_cast<accumulator<T> *>(args.partial);
    if (!args.first) sum += partial[at];
    if (!args.last)
        partial[at] = sum;
    else if (matmul_in_float<T>(args.alpha))
        static_cast<T *>(args.c)[at] = narrow<T>(accumulator<T>(args.alpha) * sum);
    else
        static_cast<T *>(args.c)[at] = narrow<T>(args.alpha * sum);
}

/* The product turned: C^T = B^T A^T. C is not moved: the turned product's element (n, m) is element (m, n) of C. */
inline matmul_args matmul_turn(const matmul_args &args) {
    matmul_args turned = args;
    turned.m = args.n;
    turned.n = args.m;
    turned.a = args.b;
    turned.b = args.a;
    turned.a_batch_stride = args.b_batch_stride;
    turned.b_batch_stride = args.a_batch_stride;
    turned.transpose_a = !args.transpose_b;
    turned.transpose_b = !args.transpose_a;
    return turned;
}

/* The number of blocks, one for each tile x tile square of C. */
inline int64_t matmul_blocks(const matmul_args &args, int tile) {
    return args.batch * ceil_div(args.m, tile) * ceil_div(args.n, tile);
}

/* The tile of this block; its batch is args.batch or more in blocks that have none (grid_of). */
__device__ inline tile_position matmul_tile(const matmul_args &args, int tile) {
    return tile_of_block((args.m + tile - 1) / tile, (args.n + tile - 1) / tile);
}

#endif
