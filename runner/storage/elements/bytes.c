/* bytes.c - shuffle, fletcher32 and byte order, as loops that the compiler vectorises. */
#include "bytes.h"

#include <stdbool.h>
#include <string.h>

/* ---- shuffle: byte b of element i is at b * elements + i; bytes of an incomplete element stay at the end ------------
 *
 * Elements are joined from halves, and halves from smaller halves. Each step is a loop that compiles to instructions
 * that interleave two registers: ten times as fast as byte by byte. Blocks keep the intermediate halves in the
 * first-level cache. */

enum { BLOCK = 1024 }; /* elements */

#define HALVES(BITS, TWICE)                                                                                            \
    static void join_##BITS(const uint##BITS##_t *restrict low, const uint##BITS##_t *restrict high,                   \
                            uint##TWICE##_t *restrict joined, size_t count) {                                          \
        _Pragma("omp simd") for (size_t i = 0; i < count; i++) joined[i] =                                             \
            (uint##TWICE##_t)(low[i] | (uint##TWICE##_t)((uint##TWICE##_t)high[i] << (BITS)));                         \
    }                                                                                                                  \
    static void split_##BITS(const uint##TWICE##_t *restrict joined, uint##BITS##_t *restrict low,                     \
                             uint##BITS##_t *restrict high, size_t count) {                                            \
        _Pragma("omp simd") for (size_t i = 0; i < count; i++) low[i] = (uint##BITS##_t)joined[i];                     \
        _Pragma("omp simd") for (size_t i = 0; i < count; i++) high[i] = (uint##BITS##_t)(joined[i] >> (BITS));        \
    }
HALVES(8, 16)
HALVES(16, 32)
HALVES(32, 64)

/* join_N, unshuffle_block: make `count` elements of N, or `size`, bytes from their byte planes, which begin `plane`
 * bytes apart. split_N, shuffle_block: the reverse. */
static void join_2(const uint8_t *from, size_t plane, uint16_t *to, size_t count) {
    join_8(from, from + plane, to, count);
}

static void join_4(const uint8_t *from, size_t plane, uint32_t *to, size_t count) {
    uint16_t half[2][BLOCK];
    join_2(from, plane, half[0], count);
    join_2(from + 2 * plane, plane, half[1], count);
    join_16(half[0], half[1], to, count);
}

static void split_2(const uint16_t *from, uint8_t *to, size_t plane, size_t count) {
    split_8(from, to, to + plane, count);
}

static void split_4(const uint32_t *from, uint8_t *to, size_t plane, size_t count) {
    uint16_t half[2][BLOCK];
    split_16(from, half[0], half[1], count);
    split_2(half[0], to, plane, count);
    split_2(half[1], to + 2 * plane, plane, count);
}

static void unshuffle_block(const uint8_t *from, size_t plane, uint8_t *to, size_t count, size_t size) {
    uint32_t half[2][BLOCK];
    if (size == 2) join_2(from, plane, (uint16_t *)to, count);
    if (size == 4) join_4(from, plane, (uint32_t *)to, count);
    if (size != 8) return;
    join_4(from, plane, half[0], count);
    join_4(from + 4 * plane, plane, half[1], count);
    join_32(half[0], half[1], (uint64_t *)to, count);
}

static void shuffle_block(const uint8_t *from, uint8_t *to, size_t plane, size_t count, size_t size) {
    uint32_t half[2][BLOCK];
    if (size == 2) split_2((const uint16_t *)from, to, plane, count);
    if (size == 4) split_4((const uint32_t *)from, to, plane, count);
    if (size != 8) return;
    split_32((const uint64_t *)from, half[0], half[1], count);
    split_4(half[0], to, plane, count);
    split_4(half[1], to + 4 * plane, plane, count);
}

static bool has_halves(size_t size) {
    return size == 2 || size == 4 || size == 8;
}

void bytes_unshuffle(const uint8_t *restrict from, uint8_t *restrict to, size_t bytes, size_t size) {
    size_t elements = bytes / size;
    for (size_t i = 0; has_halves(size) && i < elements; i += BLOCK)
        unshuffle_block(from + i, elements, to + i * size, elements - i < BLOCK ? elements - i : BLOCK, size);
    for (size_t b = 0; !has_halves(size) && b < size; b++)
        for (size_t i = 0; i < elements; i++) to[i * size + b] = from[b * elements + i];
    memcpy(to + elements * size, from + elements * size, bytes - elements * size);
}

void bytes_shuffle(const uint8_t *restrict from, uint8_t *restrict to, size_t bytes, size_t size) {
    size_t elements = bytes / size;
    for (size_t i = 0; has_halves(size) && i < elements; i += BLOCK)
        shuffle_block(from + i * size, to + i, elements, elements - i < BLOCK ? elements - i : BLOCK, size);
    for (size_t b = 0; !has_halves(size) && b < size; b++)
        for (size_t i = 0; i < elements; i++) to[b * elements + i] = from[i * size + b];
    memcpy(to + elements * size, from + elements * size, bytes - elements * size);
}

/* ---- fletcher32: two sums of 16-bit words, most significant byte first, in ones' complement -------------------------
 *
 *     first = w[0] + ... + w[n-1]        second = n w[0] + (n - 1) w[1] + ... + w[n-1]        (modulo 65535)
 *
 * Words are added in this machine's byte order; swapping the bytes of a word, and so of a sum, multiplies it by 256
 * modulo 65535. LANES columns are summed side by side, ROWS rows at a time: more would overflow 32 bits. Word l of row
 * r has weight (ROWS - r) LANES - l; the second sum of a column already contains the factor ROWS - r. */

enum { LANES = 8, ROWS = 256 };

/* The sum modulo 65535, with 65535 for 0 unless all words are 0. */
static uint32_t fold(uint64_t sum) {
    return sum ? (uint32_t)((sum - 1) % 65535 + 1) : 0;
}

/* Adds ROWS rows of LANES words at a time, so that the compiler uses vector instructions. A lane is a column here. */
uint32_t bytes_fletcher32(const uint8_t *data, size_t bytes) {
    uint64_t first = 0, second = 0;
    const uint8_t *end = data + bytes;
    uint16_t word[LANES];
    for (; end - data >= (ptrdiff_t)(ROWS * sizeof word); data += ROWS * sizeof word) {
        uint32_t firsts[LANES] = {0}, seconds[LANES] = {0};
        for (size_t r = 0; r < ROWS; r++) {
            memcpy(word, data + r * sizeof word, sizeof word);
            for (int l = 0; l < LANES; l++) {
                firsts[l] += word[l];
                seconds[l] += firsts[l];
            }
        }
        second += first * ROWS * LANES;
        for (unsigned l = 0; l < LANES; l++) {
            first += firsts[l];
            second += (uint64_t)LANES * seconds[l] - (uint64_t)l * firsts[l];
        }
        first = fold(first);
        second = fold(second);
    }
    for (; end - data >= 2; data += 2) {
        memcpy(word, data, 2);
        first += word[0];
        second += first;
    }
    if (data < end) {
        first += *data;
        second += first;
    }
    return fold(UINT64_C(256) * fold(second)) << 16 | fold(UINT64_C(256) * fold(first));
}

/* ---- byte order -------------------------------------------------------------------------------------------------- */

#define SWAP(TYPE, SWAPPED)                                                                                            \
    for (int64_t i = 0; i < elements; i++) {                                                                           \
        TYPE value;                                                                                                    \
        memcpy(&value, bytes + i * (int64_t)sizeof value, sizeof value);                                               \
        value = (TYPE)SWAPPED(value);                                                                                  \
        memcpy(bytes + i * (int64_t)sizeof value, &value, sizeof value);                                               \
    }

void swap_bytes(void *data, int64_t elements, size_t size) {
    unsigned char *bytes = data;
    if (size == 2) SWAP(uint16_t, __builtin_bswap16)
    if (size == 4) SWAP(uint32_t, __builtin_bswap32)
    if (size == 8) SWAP(uint64_t, __builtin_bswap64)
}
