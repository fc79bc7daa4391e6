/* pack.cuh - a copy of an operand that TMA can read: rows that do not begin on 16 bytes get a longer pitch, and a
 * matrix that lies along the wrong axis is transposed. The copy is one pass over memory, which a product that reads the
 * operand many times repays. */
#ifndef KERNELS_PACK_CUH
#define KERNELS_PACK_CUH

#include "../core/tma.cuh"

#define PACK_TILE 64 /* side of the square that a block of 32 x 8 threads moves */

/* The copy of `stack` in `to`. */
inline tma_stack pack_stack(const tma_stack &stack, size_t element, const void *to, bool transposed) {
    const int64_t rows = transposed ? stack.columns : stack.rows, columns = transposed ? stack.rows : stack.columns;
    const int64_t sixteen = int64_t(16 / element), pitch = ceil_div(columns, sixteen) * sixteen;
    return {to, stack.count, rows, columns, pitch, rows * pitch};
}

inline bool pack_needed(const tma_stack &stack, size_t element, bool transposed) {
    return transposed || stack.pitch * element % 16 || (stack.count > 1 && stack.stride * element % 16);
}

/* Bytes to reserve for a copy, a multiple of 256, whether the copy is needed or not: the last, smaller tiles of a run
 * may need one although this tile does not. */
inline size_t pack_bytes(const tma_stack &stack, size_t element, bool transposed) {
    const tma_stack copy = pack_stack(stack, element, nullptr, transposed);
    return (size_t(copy.count * copy.stride) * element + 255) / 256 * 256;
}

template <typename T, bool TRANSPOSED>
__global__ void __launch_bounds__(256)
    pack_kernel(const __grid_constant__ tma_stack from, const __grid_constant__ tma_stack to) {
    __shared__ T tile[PACK_TILE][PACK_TILE + 4 / sizeof(T)];
    const tile_place place =
        tile_of_block((from.rows + PACK_TILE - 1) / PACK_TILE, (from.columns + PACK_TILE - 1) / PACK_TILE);
    if (place.batch >= from.count) return;
    const int x = int(threadIdx.x), y = int(threadIdx.y);
    const int64_t row = place.row * PACK_TILE, column = place.column * PACK_TILE;
    const T *in = static_cast<const T *>(from.base) + place.batch * from.stride;
    T *out = static_cast<T *>(const_cast<void *>(to.base)) + place.batch * to.stride;
#pragma unroll
    for (int i = y; i < PACK_TILE; i += 8)
#pragma unroll
        for (int j = x; j < PACK_TILE; j += 32) {
            if (row + i >= from.rows || column + j >= from.columns) continue;
            const T element = in[(row + i) * from.pitch + column + j];
            if constexpr (TRANSPOSED)
                tile[i][j] = element;
            else
                out[(row + i) * to.pitch + column + j] = element;
        }
    if constexpr (TRANSPOSED) {
        __syncthreads();
#pragma unroll
        for (int i = y; i < PACK_TILE; i += 8)
#pragma unroll
            for (int j = x; j < PACK_TILE; j += 32)
                if (column + i < from.columns && row + j < from.rows)
                    out[(column + i) * to.pitch + row + j] = tile[j][i];
    }
}

/* The stack that TMA reads: the operand as it is or, where that cannot be read, its copy in `*room`, which is moved
 * past the copy. */
template <typename T>
tma_stack pack(const struct launch *launch, const tma_stack &stack, bool transposed, uint8_t **room) {
    if (!pack_needed(stack, sizeof(T), transposed)) return stack;
    const tma_stack copy = pack_stack(stack, sizeof(T), *room, transposed);
    *room += pack_bytes(stack, sizeof(T), transposed);
    const int64_t blocks = stack.count * ceil_div(stack.rows, PACK_TILE) * ceil_div(stack.columns, PACK_TILE);
    const auto kernel = transposed ? pack_kernel<T, true> : pack_kernel<T, false>;
    if (blocks > 0) kernel<<<grid_of(blocks), dim3(32, 8), 0, stream_of(launch)>>>(stack, copy);
    return copy;
}

#endif
