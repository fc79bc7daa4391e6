/* launch.cuh - what most kernels share: grids made from numbers of blocks, tiles from the number of a block, the last
 * block of a launch to arrive, and the shared memory that a block may have.
 *
 * A grid has at most 2^31 - 1 blocks along x and 65535 along y. Blocks are numbered along both axes, so that memory is
 * the only limit in practice. */
#ifndef KERNELS_LAUNCH_CUH
#define KERNELS_LAUNCH_CUH

#include "kernel.h"
#include <cuda_runtime.h>

inline int64_t ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

/* The least power of two that is `count` or more, but at most `limit`, a power of two. */
inline int power_of_two_up_to(int64_t count, int limit) {
    int power = 1;
    while (power < count && power < limit) power *= 2;
    return power;
}

/* A grid of at least `blocks` blocks. Above 2^30 it is a whole number of rows of 2^30 blocks; the kernel must let the
 * blocks from number `blocks` on return at once. */
inline dim3 grid_of(int64_t blocks) {
    const int64_t row = int64_t(1) << 30;
    return blocks <= row ? dim3(unsigned(blocks)) : dim3(unsigned(row), unsigned(ceil_div(blocks, row)));
}

/* This block's number in the grid, counted along x first. */
__device__ inline int64_t block_number() {
    return int64_t(blockIdx.y) * gridDim.x + blockIdx.x;
}

/* a / b for non-negative a and positive b, by a 32-bit division where that suffices: it takes twenty instructions, one
 * of 64 bits a hundred. */
__device__ inline int64_t quotient(int64_t a, int64_t b) {
    return (a | b) >> 32 ? a / b : int64_t(uint32_t(a) / uint32_t(b));
}

/* A tile of a stack of matrices. */
struct tile_position {
    int64_t batch, row, column;
};

/* The tile that this block works on, of matrices of tile_rows x tile_columns tiles. Tiles are numbered along rows of
 * tiles, matrix after matrix; `batch` may lie beyond the last matrix (grid_of). */
__device__ inline tile_position tile_of_block(int64_t tile_rows, int64_t tile_columns) {
    const int64_t number = block_number();
    const int64_t line = quotient(number, tile_columns);
    const int64_t batch = line < tile_rows ? 0 : quotient(line, tile_rows);
    return {batch, line - batch * tile_rows, number - line * tile_columns};
}

/* Counts this block's arrival, and returns true to the last of `blocks` blocks, whose threads then see what the others
 * wrote before. The counter must be zero before the first arrival, and is zero after the last. All threads of a block
 * call this. */
__device__ inline bool last_block(unsigned *counter, int blocks) {
    __shared__ bool is_last;
    __syncthreads();
    if (threadIdx.x == 0) {
        /* One instruction counts, releases this block's writes and acquires the others': half the time of separate
         * fences. */
        unsigned before;
        asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
        is_last = before == unsigned(blocks - 1);
        if (is_last) *counter = 0;
    }
    __syncthreads();
    return is_last;
}

#define SYSTEM_SHARED 1024 /* bytes of shared memory that the system takes for each block on a multiprocessor */

/* Returns the bytes of shared memory that a block may have; without a device, those of compute capability 9.0. */
inline int64_t max_shared_bytes() {
    static const int64_t limit = [] {
        int device = 0, bytes = 0;
        const bool known =
            cudaGetDevice(&device) == cudaSuccess &&
            cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess;
        return int64_t(known ? bytes : 227 << 10);
    }();
    return limit;
}

inline cudaStream_t stream_of(const struct launch *launch) {
    return static_cast<cudaStream_t>(launch->stream);
}

#endif
