/* matmul.cuh - what every matmul variant shares: the accumulator's type, the tile of a block, and the epilogue. */
#ifndef KERNELS_MATMUL_CUH
#define KERNELS_MATMUL_CUH

#include "../core/dtype.cuh"
#include "../core/launch.cuh"

/* Sums are kept in float, for float64 in double. */
template <typename T> using accumulator = widened<T>;

/* The epilogue for one sum, C[at] or a part of it. It adds the result of earlier launches; then it scales and stores
 * the sum or, if launches are still to come, leaves it in `partial`. alpha multiplies in double, so that the result is
 * rounded only once. */
template <typename T> __device__ inline void matmul_store(const matmul_args &args, int64_t at, accumulator<T> sum) {
    auto *partial = static_cast<accumulator<T> *>(args.partial);
    if (!args.first) sum += partial[at];
    if (args.last)
        static_cast<T *>(args.c)[at] = narrow<T>(args.alpha * sum);
    else
        partial[at] = sum;
}

/* The number of square tiles that cover C; each is one block. */
inline int64_t matmul_blocks(const matmul_args &args, int tile) {
    return args.batch * ceil_div(args.m, tile) * ceil_div(args.n, tile);
}

__device__ inline tile_place matmul_tile(const matmul_args &args, int tile) {
    return tile_of_block((args.m + tile - 1) / tile, (args.n + tile - 1) / tile);
}

#endif
