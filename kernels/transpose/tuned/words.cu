/* words.cu - moves narrow elements four bytes at a time, wherever rows begin.
 *
 *     memory      |....|....|....|....|....|....|          words of 4 bytes
 *     row of x        .=====================.              of a tile; its first and last word may hold other elements
 *     column of y     |####|####|####|####|                whole words: the first one may begin in rows above the tile,
 *                                                          which are loaded too (words.cuh has a picture)
 *
 * transpose/lines.cu moves elements one by one: of 1-byte elements a warp's access fills only a quarter of a memory
 * line. Here a row of x goes into shared memory as the words that hold it, and each word of y is assembled from E = 4 /
 * element size rows. The position of an element in its word depends on its row and on where that row of x begins. Rows
 * E apart begin at the same place in a word, and so do columns 8 apart in y. So for all the columns that a warp writes,
 * each of the E elements of a word has one address plus a constant: a word costs E loads and E - 1 combinations.
 *
 * The threads of a warp read rows that lie E apart. A group of E rows takes an odd number of words, so these reads fall
 * into different banks.
 *
 * Most tiles lie wholly inside the matrix; they are loaded without bounds checks, which were half of the instructions.
 * If a tile holds complete columns of the matrix, and these consist of whole words, its part of y is contiguous, and
 * every access of a warp is full.
 *
 * Memory writes sectors of 32 bytes. A tile also reads rows above it, so that it begins each column of y with a whole
 * sector. 2-byte elements then have 0.86 of a copy's speed (8193 x 8193), bytes 0.73.
 *
 * The limit: bytes in rows of odd length have 0.65 to 0.75 of a copy's speed. */
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
    .edges = {{WORDS_HEIGHT, WORDS_SECTOR, WORDS_SECTOR / 2, 4, 2},
              {words_width<uint8_t>, words_width<uint16_t>, 4, 2}},
    .accuracy = ACCURACY_FULL,
    .near_roof = true,
    .compute_capability = 80,
    .launch = transpose_words_launch,
};
