/* transpose/tiled.cu - a 32 x 32 tile is transposed in shared memory, so that both reads and writes of global memory
 * are coalesced.
 *
 *       x                shared              y              A warp reads a row of the tile and stores it as a row of
 *     +-----------+     +--------+         +--------+       shared memory. After a barrier it reads a column and writes
 *     |     +--+  |     |########|         |  +--+  |       that as a row of y. Element (r, c) of the tile travels
 *     |     |# |  | ->  |        |  ->     |  |##|  |
 *     |     +--+  |     +--------+         |  +--+  |           x[r][c] -> shared[r][c] -> y[c][r]
 *     +-----------+                        +--------+
 *
 * The kernel is in transpose.cuh. Here its pitch is 32 elements, the obvious first choice, and that is its limit:
 * shared memory has 32 banks of 4 bytes, and element (r, c) of a 4-byte tile lies in bank (32r + c) mod 32 = c. A whole
 * column lies in one bank, so the threads of a warp read it one after another: a 32-way bank conflict. Measured on an
 * H200, float32, 16384 x 16384: 1.65 TB/s (transpose/naive.cu: 0.47). transpose/padded.cu removes the conflict with one
 * more column. */
#include "transpose.cuh"

static int transpose_tiled_launch(const struct launch *launch) {
    return transpose_tile_launch<TRANSPOSE_TILE>(launch);
}

KERNEL(transpose_tiled) = {
    .name = "tiled",
    .op = OP_TRANSPOSE,
    .device = DEVICE_CUDA,
    .summary = "32x32 tiles turned in shared memory, coalesced both ways, with bank conflicts",
    .dtypes = DTYPES_ALL,
    .edges = {{TRANSPOSE_TILE}, {TRANSPOSE_TILE}},
    .accuracy = ACCURACY_FULL,
    .compute_capability = 80,
    .launch = transpose_tiled_launch,
};
