/* transpose/padded.cu - the shared tile of transpose/tiled.cu with one column of padding: no bank conflicts.
 *
 *     pitch 32                           pitch 33                    Banks of a 4-byte tile's elements. With a pitch of
 *     0  1  2 ... 31                      0  1  2 ... 31  .          33, element (r, c) lies in bank (33r + c) mod 32 =
 *     0  1  2 ... 31                      1  2  3 ...  0  .          (r + c) mod 32: the 32 elements of a column are in
 *     0  1  2 ... 31                      2  3  4 ...  1  .          32 banks, like those of a row.
 *     ^ a column: one bank, 32 turns      ^ 32 banks, one turn
 *
 * The same pitch serves every size. In tiles of 2-byte and 1-byte elements, row r of a column lies 33r/2 or 33r/4 banks
 * (rounded down) from its top, no two in one bank. Shared memory serves 8-byte elements to 16 threads at a time, also
 * without conflicts.
 *
 * Measured on an H200, float32, 16384 x 16384: 3.50 TB/s (transpose/tiled.cu: 1.65, a plain copy: 4.27). The limit: a
 * row of a tile is one memory line of 128 bytes or less, and where rows begin within a line it is parts of two.
 * transpose/lines.cu has longer rows, and more loads in flight. */
#include "transpose.cuh"

static int transpose_padded_launch(const struct launch *launch) {
    return transpose_tile_launch<TRANSPOSE_TILE + 1>(launch);
}

KERNEL(transpose_padded) = {
    .name = "padded",
    .op = OP_TRANSPOSE,
    .device = DEVICE_CUDA,
    .summary = "32x32 tiles turned in shared memory, padded by a column against bank conflicts",
    .dtypes = DTYPES_ALL,
    .edges = {{TRANSPOSE_TILE}, {TRANSPOSE_TILE}},
    .accuracy = ACCURACY_FULL,
    .compute_capability = 80,
    .launch = transpose_padded_launch,
};
