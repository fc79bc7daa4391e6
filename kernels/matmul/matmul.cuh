/* matmul.cuh - what every matmul variant shares: the accumulator's type, where a block works, and the one epilogue. */
#ifndef KERNELS_MATMUL_CUH
#define KERNELS_MATMUL_CUH

#include "../core/dtype.cuh"
#include "../core/launch.cuh"

/* Sums are kept in float, of float64 in double. */
template <typename T> using accumulator = widened<T>;

/* Disposes of one sum, C[at] or a part of it: adds what earlier launches found, then leaves it for later ones or, the
 * reduction being complete, scales and stores it. alpha multiplies in double, so that it is rounded only once. */
template <typename T> __device__ inline void matmul_store(const matmul_args &args, int64_t at, accumulator<T> sum) {
    auto *partial = static_cast<accumulator<T> *>(args.partial);
    if (!args.first) sum += partial[at];
    if (args.last)
        static_cast<T *>(args.c)[at] = narrow<T>(args.alpha * sum);
    else
        partial[at] = sum;
}

/* Blocks that cover C in square tiles. */
inline int64_t matmul_blocks(const matmul_args &args, int tile) {
    return args.batch * ceil_div(args.m, tile) * ceil_div(args.n, tile);
}

__device__ inline tile_place matmul_tile(const matmul_args &args, int tile) {
    return tile_of_block((args.m + tile - 1) / tile, (args.n + tile - 1) / tile);
}

#endif
