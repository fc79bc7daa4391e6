/* transpose/lines.cu - whole lines of memory, several at a time, both ways.
 *
 *     x                              y                    Rows of a tile are what is read and written in one piece:
 *     |----------------|  W          |--------|  H        W elements of x, H of y. A line of memory has 128 bytes, and
 *     |----------------|             |--------|           where rows begin anywhere (8193 columns, say) every piece
 * ends
 *     |----------------|             |--------|           in the middle of a sector of 32 bytes, which the next block
 *       H rows                         W rows             completes. The longer the pieces, the fewer such ends.
 *
 * transpose/padded.cu has pieces of 32 elements: of float32 one line. Here they are longer, and each thread has 16 or
 * 32 loads in flight instead of 4. A sector that is read in two pieces is found in the second-level cache; one that is
 * written in two costs more: tiles of 4-byte elements are 64 wide but 128 high, and a warp's stores begin where a line
 * of y does. (Where x has no more than 128 columns, 128 wide and 64 high: a tile has its rows whole.) Blocks go down
 * the columns of x, so that those which run together write neighbouring pieces of y's rows and complete each other's
 * sectors in the cache.
 *
 * Measured on the H200, speed against a copy of the same bytes, the cache evicted before:
 *                       8192     8193     32768    100 x 10^7    10^7 x 100
 *     4-byte elements   0.96     0.91     0.94     0.95          0.92
 *     8-byte            0.98     0.91     0.95     0.95          0.88
 *     2-byte            0.85     0.63     0.85     0.69          0.73
 *     1-byte            0.50     0.62     0.48     0.49          0.49
 *
 * Tried for 4-byte elements at 8193 (and 100 x 10^7): 128 x 64 tiles 0.76 (0.88); 128 x 128 0.83 (0.91), of which too
 * few fit a multiprocessor; 32 x 128 0.88 (0.92); 64 x 256 0.78 (0.83); loads that begin where lines do, too, 0.85
 * (0.79); bands of tiles, 10 % less; loads marked to leave the cache first, a seventh less.
 *
 * What is left: 1- and 2-byte elements, which move one by one and are bound by their instructions. transpose/words.cu
 * moves those 4 bytes at a time, transpose/swizzled.cu 16 where rows begin on 16 bytes. */
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
