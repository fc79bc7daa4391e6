/* matmul.cuh - what every matmul variant shares: the accumulator's type, the tile of a block, and the epilogue. */
#ifndef KERNELS_MATMUL_CUH
#define KERNELS_MATMUL_CUH

#include "../core/dtype.cuh"
#include "../core/launch.cuh"

/* Sums are kept in float, for float64 in double. */
template <typename T> using accumulator = widened<T>;

/* An operation on two NaNs keeps one of them, and the compiler chooses their order. So this replaces every NaN by the
 * same one. */
__device__ inline float same_nan(float x) {
    return x;
}
__device__ inline double same_nan(double x) {
    return x != x ? __longlong_as_double(0x7ff8000000000000) : x;
}

/* A 16-bit result takes alpha in float if it lies in float's range with room to spare: rounding the product to 24
 * bits before it is rounded to 11 or 8 does not show, and a conversion to double and back costs more than the store.
 * Other results multiply in double, so that they are rounded only once. */
template <typename T> __host__ __device__ inline bool matmul_in_float(double alpha) {
    return sizeof(T) == 2 && (alpha == 0 || (fabs(alpha) > 0x1p-100 && fabs(alpha) < 0x1p100));
}

/* The epilogue for one sum, C[at] or a part of it. It adds the result of earlier launches; then it scales and stores
 * the sum or, if launches are still to come, leaves it in `partial`. */
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

/* The same product seen from the other side: C^T = B^T A^T. C keeps its place: element (m, n) of it is (n, m) here. */
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

/* The number of square tiles that cover C; each is one block. */
inline int64_t matmul_blocks(const matmul_args &args, int tile) {
    return args.batch * ceil_div(args.m, tile) * ceil_div(args.n, tile);
}

__device__ inline tile_position matmul_tile(const matmul_args &args, int tile) {
    return tile_of_block((args.m + tile - 1) / tile, (args.n + tile - 1) / tile);
}

#endif
