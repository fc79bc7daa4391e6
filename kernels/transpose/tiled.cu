/* transpose/tiled.cu - a 32x32 tile turns in shared memory, so that reads and writes of global memory are both
 * coalesced.
 *
 *       x                shared              y              A warp reads a row of the tile and puts it down as a row.
 *     +-----------+     +--------+         +--------+       After a barrier it picks up a column and writes that as a
 *     |     +--+  |     |########|         |  +--+  |       row of y. Element (r, c) of the tile travels
 *     |     |# |  | ->  |        |  ->     |  |##|  |
 *     |     +--+  |     +--------+         |  +--+  |           x[r][c] -> shared[r][c] -> y[c][r]
 *     +-----------+                        +--------+
 *
 * The kernel is in transpose.cuh; here its rows lie 32 elements apart, as one would write it first. That is what holds
 * it back: shared memory has 32 banks of 4 bytes, and element (r, c) of a 4-byte tile lies in bank (32r + c) mod 32 =
 * c. All of a column is in one bank, and a warp that reads it is served one thread at a time: a 32-way bank conflict.
 * Measured at 16384^2, float32, H200: 1.65 TB/s, against 0.47 of transpose/naive.cu. One more column cures it:
 * transpose/padded.cu. */
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
