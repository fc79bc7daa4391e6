/* transpose_lines.cu - whole lines of memory, several at a time, both ways.
 *
 *     x                              y                    Rows of a tile are what is read and written in one piece:
 *     |----------------|  W          |--------|  H        W elements of x, H of y. A line of memory has 128 bytes, and
 *     |----------------|             |--------|           where rows begin anywhere (8193 columns, say) every piece
 * ends
 *     |----------------|             |--------|           in the middle of a sector of 32 bytes, which the next block
 *       H rows                         W rows             completes. The longer the pieces, the fewer such ends.
 *
 * transpose_padded.cu has pieces of 32 elements: of float32 one line. Here tiles are 64 elements high and 64 or 128
 * wide, and each thread has 16 or 32 loads in flight instead of 4; all else is the same. Blocks go down the columns of
 * x, so that those which run together write neighbouring pieces of y's rows and complete each other's sectors in the
 * second-level cache. Tried: bands of tiles instead, 10 % less for unaligned shapes; tiles cut at y's own sectors, for
 * up to 7 more rows of x to read, 0.79 at 8193 float32 but 0.75 at 100 x 10^7; loads marked to leave the cache first, a
 * seventh less.
 *
 * Measured on the H200, speed against a copy of the same bytes, the cache evicted before:
 *                       8192     8193     32768    100 x 10^7    10^7 x 100
 *     4-byte elements   0.96     0.76     0.95     0.89          0.78
 *     8-byte            0.99     0.92     0.96     0.95          0.86
 *     2-byte            0.85     0.65     0.85     0.74          0.73
 *     1-byte            0.50     0.52     0.48     0.38          0.38
 *
 * What is left: unaligned pieces of 4-byte elements, and 1- and 2-byte elements, which move one by one and are bound by
 * their instructions. transpose_swizzled.cu moves those 16 bytes at a time where rows begin on 16 bytes. */
#include "transpose_lines.cuh"

static int transpose_lines_launch(const struct launch *launch) {
    return dispatch_size(launch->dtype,
                         [&](auto element) -> int { return transpose_lines_of<decltype(element)>(launch); });
}

const struct kernel transpose_lines = {
    .name = "lines",
    .op = OP_TRANSPOSE,
    .device = DEVICE_CUDA,
    .summary = "padded tiles several memory lines wide and high",
    .dtypes = DTYPES_ALL,
    .accuracy = ACCURACY_FULL,
    .compute_capability = 80,
    .launch = transpose_lines_launch,
};
