/* transpose_words.cu - narrow elements four bytes at a time, wherever rows begin.
 *
 *     memory      |....|....|....|....|....|....|          words of 4 bytes
 *     row of x        .=====================.              of a tile: its first and last word only in part its own
 *     column of y     |####|####|####|####|                always whole words: what precedes the first is the last rows
 *                                                          of the tile above, which are loaded as well
 *
 * transpose_lines.cu moves elements one by one: of 1 byte a request is a quarter of a line, and there is one of each
 * kind for every element. Here a row of x goes into shared memory as the words it lies in, and a word of y is put
 * together from E = 4 / element rows. Where in its word an element of x lies depends on its row and on where x's row
 * begins; but rows E apart begin alike, and so do columns 8 apart in y. So each of the E bytes (or halves) of a word
 * has one address for all the columns that a warp writes, plus a constant: a word costs E loads and E - 1 combinations.
 *
 * Threads of a warp read E rows apart. A group of E rows takes an odd number of words, so they do not meet in a bank.
 *
 * Measured on the H200, speed against a copy of the same bytes, the cache evicted before (transpose_lines.cu's), while
 * every word was still checked for the matrix's ends, which tiles inside it now do without:
 *                       8193           100 x 10^7      10^7 x 100
 *     2-byte elements   0.81 (0.65)    0.76 (0.73)     0.81 (0.73)
 *     1-byte            0.68 (0.52)    0.67 (0.37)     0.46 (0.38)
 *
 * Tried at 8193 x 8193, 2 and 1 byte: addresses worked out anew for every word, 0.31 and 0.20; columns that end where
 * the tile does, in part with single bytes, 0.69 and 0.56; cut at sectors of 32 bytes instead of words, 0.76 and 0.57;
 * warps that begin at a line, 0.64 and 0.38; squares of E x E turned in registers, words handed from thread to thread
 * to shift them, 0.77 and 0.69, but 0.66 and 0.54 for 100 x 10^7. What is left: of 1-byte elements a word takes some
 * 16 instructions. */
#include "transpose_words.cuh"

static int transpose_words_launch(const struct launch *launch) {
    return dtype_size(launch->dtype) == 1 ? transpose_words_of<uint8_t>(launch) : transpose_words_of<uint16_t>(launch);
}

const struct kernel transpose_words = {
    .name = "words",
    .op = OP_TRANSPOSE,
    .device = DEVICE_CUDA,
    .summary = "1- and 2-byte elements four bytes at a time, wherever rows begin",
    .dtypes = DTYPE_BIT(FLOAT16) | DTYPE_BIT(BFLOAT16) | DTYPE_BIT(INT8) | DTYPE_BIT(INT16) | DTYPE_BIT(UINT8) |
              DTYPE_BIT(UINT16),
    .accuracy = ACCURACY_FULL,
    .compute_capability = 80,
    .launch = transpose_words_launch,
};
