/* pack.cuh - a copy of an operand that TMA can read: rows that do not begin on 16 bytes get a longer pitch, and a
 * matrix that lies along the wrong axis is transposed. The copy is one pass over memory, which a product that reads the
 * operand many times repays. */
#ifndef KERNELS_PACK_CUH
#define KERNELS_PACK_CUH

#include "../../core/tma.cuh"

#define PACK_TILE 64 /* side of the square that a block of 256 threads transposes */

/* The stack that a copy of `stack` at `to` forms: rows begin on 16 bytes. Copies nothing. */
inline tma_stack pack_stack(const tma_stack &stack, size_t element, const void *to, bool transposed) {
    const int64_t rows = transposed ? stack.columns : stack.rows, columns = transposed ? stack.rows : stack.columns;
    const int64_t sixteen = int64_t(16 / element), pitch = ceil_div(columns, sixteen) * sixteen;
    return {to, stack.count, rows, columns, pitch, rows * pitch};
}

/* Must the operand be copied, because its rows or matrices do not begin on 16 bytes, or because it must be
 * transposed? */
inline bool pack_needed(const tma_stack &stack, size_t element, bool transposed) {
    return transposed || stack.pitch * element % 16 || (stack.count > 1 && stack.stride * element % 16);
}

/* Bytes to reserve for a copy, a multiple of 256, whether the copy is needed or not: the last, smaller tiles of a run
 * may need one although this tile does not. */
inline size_t pack_bytes(const tma_stack &stack, size_t element, bool transposed) {
    const tma_stack copy = pack_stack(stack, element, nullptr, transposed);
    return (size_t(copy.count * copy.stride) * element + 255) / 256 * 256;
}

/* Copies vector `number` of the copy, 16 bytes, of `vectors` in each row; numbers beyond the last row do nothing. If
 * the source begins within a word of memory, each word of the copy is put together from two; the last elements of a row
 * are copied one by one. */
template <typename T>
__device__ inline void pack_rows(const tma_stack &from, const tma_stack &to, int64_t vectors, int64_t number) {
    constexpr int EACH = 16 / sizeof(T), IN_WORD = 4 / sizeof(T);
    const int64_t line = quotient(number, vectors);
    const int64_t batch = line < from.rows ? 0 : quotient(line, from.rows), row = line - batch * from.rows;
    if (batch >= from.count) return;
    const int64_t column = (number - line * vectors) * EACH;
    const int64_t first = batch * from.stride + row * from.pitch + column;
    const T *in = static_cast<const T *>(from.base);
    T *out = static_cast<T *>(const_cast<void *>(to.base)) + batch * to.stride + row * to.pitch + column;
    const int within = int(first % IN_WORD);
    if (column + EACH + (within > 0) > from.columns) {
        for (int j = 0; j < EACH && column + j < from.columns; j++) out[j] = in[first + j];
        return;
    }
    const uint32_t *word = reinterpret_cast<const uint32_t *>(in) + first / IN_WORD;
    uint32_t got[5] = {};
#pragma unroll
    for (int i = 0; i < 5; i++)
        if (i < 4 || within > 0) got[i] = word[i];
#pragma unroll
    for (int i = 0; i < 4; i++) got[i] = __funnelshift_r(got[i], got[i + 1], unsigned(within * sizeof(T) * 8));
    *reinterpret_cast<uint4 *>(out) = make_uint4(got[0], got[1], got[2], got[3]);
}

/* Copies an operand to a longer pitch, one vector per thread; nothing if *wanted is 0. */
template <typename T>
__global__ void __launch_bounds__(256)
    pack_rows_kernel(const __grid_constant__ tma_stack from, const __grid_constant__ tma_stack to, int64_t vectors,
                     const uint32_t *wanted) {
    if (wanted && *wanted == 0) return;
    pack_rows<T>(from, to, vectors, block_number() * 256 + threadIdx.x);
}

/* An operand and its copy. `vectors`: of 16 bytes, in a row. `blocks`: of 256 vectors, in all; 0: nothing to copy. */
struct pack_job {
    tma_stack from, to;
    int64_t vectors, blocks;
};

/* Copies the rows of two operands in one launch, which may begin while the previous one ends (core/cluster.cuh). */
template <typename T>
__global__ void __launch_bounds__(256)
    pack_both_kernel(const __grid_constant__ pack_job one, const __grid_constant__ pack_job other) {
    launch_wait();
    launch_next();
    const bool second = block_number() >= one.blocks;
    const pack_job &job = second ? other : one;
    const int64_t block = block_number() - (second ? one.blocks : 0);
    if (block < job.blocks) pack_rows<T>(job.from, job.to, job.vectors, block * 256 + threadIdx.x);
}

/* Copies the transposes of a stack's matrices, a square of PACK_TILE per block; nothing if *wanted is 0. */
template <typename T>
__global__ void __launch_bounds__(256)
    pack_transposed_kernel(const __grid_constant__ tma_stack from, const __grid_constant__ tma_stack to,
                           const uint32_t *wanted) {
    if (wanted && *wanted == 0) return;
    __shared__ T tile[PACK_TILE][PACK_TILE + 4 / sizeof(T)];
    const tile_position place =
        tile_of_block((from.rows + PACK_TILE - 1) / PACK_TILE, (from.columns + PACK_TILE - 1) / PACK_TILE);
    if (place.batch >= from.count) return;
    const int x = int(threadIdx.x) % 32, y = int(threadIdx.x) / 32;
    const int64_t row = place.row * PACK_TILE, column = place.column * PACK_TILE;
    const T *in = static_cast<const T *>(from.base) + place.batch * from.stride;
    T *out = static_cast<T *>(const_cast<void *>(to.base)) + place.batch * to.stride;
#pragma unroll
    for (int i = y; i < PACK_TILE; i += 8)
#pragma unroll
        for (int j = x; j < PACK_TILE; j += 32)
            if (row + i < from.rows && column + j < from.columns) tile[i][j] = in[(row + i) * from.pitch + column + j];
    __syncthreads();
#pragma unroll
    for (int i = y; i < PACK_TILE; i += 8)
#pragma unroll
        for (int j = x; j < PACK_TILE; j += 32)
            if (column + i < from.columns && row + j < from.rows) out[(column + i) * to.pitch + row + j] = tile[j][i];
}

/* Returns the stack that TMA reads: the operand as it is or, if TMA cannot read that, a copy, which this starts to make
 * at `*free_memory`; moves `*free_memory` past the copy. `wanted`: a word on the device; if it is 0, nothing is
 * copied. */
template <typename T>
tma_stack pack(const struct launch *launch, const tma_stack &stack, bool transposed, uint8_t **free_memory,
               const uint32_t *wanted = nullptr) {
    if (!pack_needed(stack, sizeof(T), transposed)) return stack;
    const tma_stack copy = pack_stack(stack, sizeof(T), *free_memory, transposed);
    *free_memory += pack_bytes(stack, sizeof(T), transposed);
    const cudaStream_t stream = stream_of(launch);
    if (stack.count * stack.rows * stack.columns == 0) return copy;
    if (transposed) {
        const int64_t tiles = stack.count * ceil_div(stack.rows, PACK_TILE) * ceil_div(stack.columns, PACK_TILE);
        pack_transposed_kernel<T><<<grid_of(tiles), 256, 0, stream>>>(stack, copy, wanted);
    } else {
        const int64_t vectors = ceil_div(stack.columns, int64_t(16 / sizeof(T)));
        const int64_t blocks = ceil_div(stack.count * stack.rows * vectors, 256);
        pack_rows_kernel<T><<<grid_of(blocks), 256, 0, stream>>>(stack, copy, vectors, wanted);
    }
    return copy;
}

/* Starts to copy those of two operands that need a longer pitch, into the workspace, in one launch, before whose end
 * the next kernel may begin. Replaces *one and *other by their copies. Returns 0 or a cudaError_t. */
template <typename T> int pack_both(const struct launch *launch, tma_stack *one, tma_stack *other) {
    uint8_t *free_memory = static_cast<uint8_t *>(launch->workspace);
    pack_job jobs[2] = {};
    for (int i = 0; i < 2; i++) {
        tma_stack &stack = i ? *other : *one;
        if (!pack_needed(stack, sizeof(T), false)) continue;
        const tma_stack copy = pack_stack(stack, sizeof(T), free_memory, false);
        free_memory += pack_bytes(stack, sizeof(T), false);
        const int64_t vectors = ceil_div(stack.columns, int64_t(16 / sizeof(T)));
        jobs[i] = {stack, copy, vectors, ceil_div(stack.count * stack.rows * vectors, 256)};
        stack = copy;
    }
    const int64_t blocks = jobs[0].blocks + jobs[1].blocks;
    return blocks ? launch_early(pack_both_kernel<T>, grid_of(blocks), 256, 0, 1, stream_of(launch), jobs[0], jobs[1])
                  : 0;
}

#endif
