/* transpose/words.cu - narrow elements four bytes at a time, wherever rows begin.
 *
 *     memory      |....|....|....|....|....|....|          words of 4 bytes
 *     row of x        .=====================.              of a tile: its first and last word only in part its own
 *     column of y     |####|####|####|####|                always whole words: what precedes the first is the last rows
 *                                                          of the tile above, which are loaded as well
 *
 * transpose/lines.cu moves elements one by one: of 1 byte a request is a quarter of a line, and there is one of each
 * kind for every element. Here a row of x goes into shared memory as the words it lies in, and a word of y is put
 * together from E = 4 / element rows. Where in its word an element of x lies depends on its row and on where x's row
 * begins; but rows E apart begin alike, and so do columns 8 apart in y. So each of the E bytes (or halves) of a word
 * has one address for all the columns that a warp writes, plus a constant: a word costs E loads and E - 1 combinations.
 *
 * Threads of a warp read E rows apart. A group of E rows takes an odd number of words, so they do not meet in a bank.
 *
 * Most tiles have all their rows and columns: those are loaded without asking whether anything is there, which had
 * been half of the instructions (1-byte elements at 8193: 0.66 to 0.73). Where a tile has columns of the matrix whole,
 * and they are whole words, its part of y is one run, and a warp's request is full of it (100 x 10^7, 1 byte: 0.73 to
 * 0.77). And there, as wherever all columns begin with a whole word, 5 blocks on a multiprocessor are faster than 6
 * (0.77 to 0.85; 2-byte elements 0.77 to 0.87), while of columns that begin anywhere they are slower.
 *
 * Measured on the H200, speed against a copy of the same bytes, the cache evicted before (transpose/lines.cu's):
 *                       8193           100 x 10^7     10^7 x 100
 *     2-byte elements   0.78 (0.63)    0.87 (0.69)    0.93 (0.73)
 *     1-byte            0.74 (0.62)    0.85 (0.49)    0.69 (0.49)
 *
 * Tried at 8193 x 8193, 2 and 1 byte, when they stood at 0.81 and 0.68: addresses worked out anew for every word, 0.31
 * and 0.20; columns that end where the tile does, in part with single bytes, 0.69 and 0.56; cut at sectors of 32 bytes
 * instead of words, 0.76 and 0.57; warps that begin at a line, 0.64 and 0.38; squares of E x E turned in registers,
 * words handed from thread to thread to shift them, 0.82 and 0.68, but 0.64 and 0.51 for 100 x 10^7. Since then, at
 * 0.78 and 0.71 in one run: tiles half as wide and twice as high 0.69 and 0.69, only twice as high 0.76 and 0.72, 4
 * blocks 0.77 and 0.68, 7 blocks' registers 0.76 and 0.68, 16 rows on their way instead of 8 0.77 and 0.73, blocks
 * placed without a division 0.78 and 0.70. What is left: 1-byte elements at 32767 x 32767, 0.54, where tiles twice as
 * high would reach 0.67; why is not known. */
#include "words.cuh"

static int transpose_words_launch(const struct launch *launch) {
    return dtype_size(launch->dtype) == 1 ? transpose_words_of<uint8_t>(launch) : transpose_words_of<uint16_t>(launch);
}

KERNEL(transpose_words) = {
    .name = "words",
    .op = OP_TRANSPOSE,
    .device = DEVICE_CUDA,
    .summary = "1- and 2-byte elements four bytes at a time, wherever rows begin",
    .dtypes = DTYPE_BIT(FLOAT16) | DTYPE_BIT(BFLOAT16) | DTYPE_BIT(INT8) | DTYPE_BIT(INT16) | DTYPE_BIT(UINT8) |
              DTYPE_BIT(UINT16),
    .edges = {{WORDS_HEIGHT, 4, 2}, {words_width<uint8_t>, words_width<uint16_t>, 4, 2}},
    .accuracy = ACCURACY_FULL,
    .compute_capability = 80,
    .launch = transpose_words_launch,
};
