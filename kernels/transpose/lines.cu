/* transpose/lines.cu - rows of a tile that span several memory lines, in x and in y.
 *
 *     x                              y
 *     |----------------|  W          |--------|  H        A row of a tile is read or written in one piece:
 *     |----------------|             |--------|           W elements of x, H elements of y.
 *     |----------------|             |--------|
 *       H rows                         W rows
 *
 * A memory line has 128 bytes, in sectors of 32. If rows begin anywhere (8193 columns, say), every piece ends inside
 * a sector, which another block completes. Longer pieces have fewer such ends.
 *
 * transpose/padded.cu has pieces of 32 elements, one line of float32. Here pieces are longer, and each thread has 16 or
 * 32 loads in flight instead of 4. A sector that is read in two pieces is found in the L2 cache; one that is written in
 * two pieces costs more. So tiles of 4-byte elements are 64 wide but 128 high, and a warp's stores begin where a line
 * of y does. (If x has at most 128 columns, tiles are 128 wide and 64 high, so that a tile holds whole rows.) Blocks go
 * down the columns of x: blocks that run together write neighbouring pieces of y's rows and complete each other's
 * sectors in the cache.
 *
 * Measured on an H200, float32, speed against a copy of the same bytes, cache evicted before: 0.96 at 8192 x 8192, 0.91
 * at 8193 x 8193.
 *
 * The limit: 1- and 2-byte elements move one by one, and the number of instructions limits their speed (0.50 and 0.85
 * at 8192). tuned/words.cu moves 4 bytes at a time; tuned/swizzled.cu 16, if rows begin on 16 bytes. */
#include "lines.cuh"

static int transpose_lines_launch(const struct launch *launch) {
    return dispatch_size(launch->dtype,
                         [&](auto element) -> int { return transpose_lines_of<decltype(element)>(launch); });
}

KERNEL(transpose_lines) = {
    .name = "lines",
    .op = OP_TRANSPOSE,
    .device = DEVICE_CUDA,
    .summary = "padded tiles several memory lines wide and high",
    .dtypes = DTYPES_ALL,
    .edges = {{128, 64}, {128, 64}},
    .accuracy = ACCURACY_FULL,
    .compute_capability = 80,
    .launch = transpose_lines_launch,
};
