/* test_codecs.c - chunks as the filters' definitions have them, put together here byte by byte: bitshuffle alone and
 * over LZ4 and zstd, LZ4's blocks, zstd; and what was cut short or made up. Blosc's are h5py's in e2e/test_codecs.py.
 */
#include "../../runner/storage/elements/codecs.h"
#include "draws.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 1 << 16, OVER_NOTHING = 0, OVER_LZ4 = 2, OVER_ZSTD = 3 };

static unsigned char data[MOST], stored[2 * MOST + 4096], back[MOST];

static void draw_data(size_t bytes) {
    for (size_t i = 0; i < bytes; i++) data[i] = (unsigned char)(draw_below(3) ? draw_below(256) : 7);
}

/* Of a block of `count` elements bit b of all of their bytes number k is in row 8 * k + b. */
static void shuffle_bits(const unsigned char *from, unsigned char *to, size_t count, size_t size) {
    memset(to, 0, count * size);
    for (size_t element = 0; element < count; element++)
        for (size_t bit = 0; bit < 8 * size; bit++)
            if (from[element * size + bit / 8] >> bit % 8 & 1)
                to[bit * (count / 8) + element / 8] |= (unsigned char)(1 << element % 8);
}

static size_t put_number(unsigned char *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) to[i] = (unsigned char)(value >> 8 * (bytes - 1 - i));
    return (size_t)bytes;
}

/* An LZ4 block of literals alone. */
static size_t put_literals(unsigned char *to, const unsigned char *from, size_t bytes) {
    unsigned char *at = to;
    *at++ = (unsigned char)((bytes < 15 ? bytes : 15) << 4);
    for (size_t rest = bytes; rest >= 15; rest -= 255) {
        *at++ = (unsigned char)(rest - 15 < 255 ? rest - 15 : 255);
        if (rest - 15 < 255) break;
    }
    memcpy(at, from, bytes);
    return (size_t)(at - to) + bytes;
}

/* A chunk of `bytes` of data by bitshuffle, `block` elements at a time. Returns its stored bytes. */
static size_t bitshuffle(size_t bytes, size_t size, size_t block, unsigned over) {
    static unsigned char bits[MOST];
    size_t grouped = bytes / size / 8 * 8, at = 0;
    if (over) at += put_number(stored, bytes, 8), at += put_number(stored + at, block * size, 4);
    for (size_t i = 0; i < grouped; i += block) {
        size_t count = grouped - i < block ? grouped - i : block, length = count * size;
        shuffle_bits(data + i * size, over ? bits : stored + i * size, count, size);
        if (!over) continue;
        length = over == OVER_LZ4 ? put_literals(stored + at + 4, bits, length)
                                  : codec_compress(bits, length, stored + at + 4, codec_bound(length), 1);
        assert_true(length > 0);
        at += 4 + (put_number(stored + at, length, 4), length);
    }
    if (!over) at = grouped * size;
    memcpy(stored + at, data + grouped * size, bytes - grouped * size);
    return at + bytes - grouped * size;
}

static void bits_are_put_back(void **state) {
    static const unsigned compressors[] = {OVER_NOTHING, OVER_LZ4, OVER_ZSTD};
    state_of_draws = 3;
    for (int trial = 0; trial < 400; trial++) {
        static const size_t sizes[] = {1, 2, 4, 8, 3, 7, 9, 16, 24};
        const unsigned over = compressors[trial % 3];
        size_t size = sizes[draw_below(9)], own = 8192 / size / 8 * 8, block = 8 * (size_t)(1 + draw_below(200)),
               length;
        if (own < 128) own = 128;
        size_t bytes = (size_t)draw_below(trial % 20 ? 2000 : 30000);
        bool by_itself = over == OVER_NOTHING && draw_below(2);
        unsigned values[CODEC_VALUES] = {0, 0, (unsigned)size, by_itself ? 0 : (unsigned)block, over};
        const char *needs;
        if (!codec_can_decode(FILTER_BITSHUFFLE, values, &needs)) {
            assert_non_null(needs);
            continue;
        }
        if (over) bytes -= bytes % size; /* whole elements */
        if (over && bytes == 0) continue;
        draw_data(bytes);
        length = bitshuffle(bytes, size, by_itself ? own : block, over);
        assert_int_equal(codec_decoded_bytes(FILTER_BITSHUFFLE, values, stored, length), bytes);
        memset(back, 0xEE, sizeof back);
        assert_int_equal(codec_decompress(FILTER_BITSHUFFLE, values, stored, length, back, bytes), bytes);
        if (memcmp(back, data, bytes) != 0) fail_msg("trial %d: %zu bytes of %zu", trial, bytes, size);
        assert_int_equal(back[bytes], 0xEE);
        if (bytes == 0) continue;
        assert_true(codec_decompress(FILTER_BITSHUFFLE, values, stored, length, back, bytes - 1) == CODEC_TOO_SMALL);
        if (over == OVER_NOTHING) continue;
        size_t less = (size_t)draw_below((int)length);
        assert_int_equal(codec_decompress(FILTER_BITSHUFFLE, values, stored, less, back, MOST), CODEC_DAMAGED);
        stored[length] = 0; /* more than there should be */
        assert_int_equal(codec_decompress(FILTER_BITSHUFFLE, values, stored, length + 1, back, MOST), CODEC_DAMAGED);
    }
}

static void impossible_parameters_are_damage(void **state) {
    const unsigned no_size[CODEC_VALUES] = {0, 0, 0, 8, OVER_NOTHING}, odd[CODEC_VALUES] = {0, 0, 4, 12, OVER_NOTHING},
                   lz4[CODEC_VALUES] = {0, 0, 4, 0, OVER_LZ4}, unknown[CODEC_VALUES] = {0, 0, 4, 0, 1};
    const char *needs;
    memset(stored, 0, 100);
    assert_int_equal(codec_decompress(FILTER_BITSHUFFLE, no_size, stored, 64, back, MOST), CODEC_DAMAGED);
    assert_int_equal(codec_decompress(FILTER_BITSHUFFLE, odd, stored, 64, back, MOST), CODEC_DAMAGED);
    for (size_t length = 0; length < 40; length++) /* its blocks have no bytes */
        assert_int_equal(codec_decompress(FILTER_BITSHUFFLE, lz4, stored, length, back, MOST), CODEC_DAMAGED);
    put_number(stored, 64, 8), put_number(stored + 8, 36, 4); /* 9 elements are no whole groups */
    assert_int_equal(codec_decompress(FILTER_BITSHUFFLE, lz4, stored, 90, back, MOST), CODEC_DAMAGED);
    assert_false(codec_can_decode(FILTER_BITSHUFFLE, unknown, &needs));
    assert_null(needs);
    assert_false(codec_can_decode(FILTER_SZ, lz4, &needs) || codec_can_decode_all(FILTER_SZ));
    assert_null(needs);
    assert_string_equal(codec_name(FILTER_BITSHUFFLE), "bitshuffle");
    assert_null(codec_name(12345));
}

static void blocks_of_lz4(void **state) {
    const unsigned none[CODEC_VALUES] = {0};
    const char *needs;
    bool here = codec_can_decode(FILTER_LZ4, none, &needs);
    assert_true(here == !needs);
    state_of_draws = 9;
    for (int trial = 0; trial < 300; trial++) {
        size_t bytes = 1 + (size_t)draw_below(5000), block = 1 + (size_t)draw_below(3000), at = 0;
        draw_data(bytes);
        at += put_number(stored, bytes, 8);
        at += put_number(stored + at, block, 4);
        for (size_t done = 0; done < bytes; done += block) { /* what does not shrink is stored as it is */
            size_t part = bytes - done < block ? bytes - done : block, length = part;
            if (here && draw_below(2))
                length = put_literals(stored + at + 4, data + done, part);
            else
                memcpy(stored + at + 4, data + done, part);
            at += 4 + (put_number(stored + at, length, 4), length);
        }
        assert_int_equal(codec_decoded_bytes(FILTER_LZ4, none, stored, at), bytes);
        memset(back, 0xEE, sizeof back);
        assert_int_equal(codec_decompress(FILTER_LZ4, none, stored, at, back, bytes), bytes);
        assert_memory_equal(back, data, bytes);
        assert_int_equal(back[bytes], 0xEE);
        assert_true(codec_decompress(FILTER_LZ4, none, stored, at, back, bytes - 1) == CODEC_TOO_SMALL);
        size_t less = (size_t)draw_below((int)at);
        if (here) assert_int_equal(codec_decompress(FILTER_LZ4, none, stored, less, back, bytes), CODEC_DAMAGED);
    }
}

static void zstd_both_ways(void **state) {
    const unsigned none[CODEC_VALUES] = {0};
    const char *needs;
    if (!codec_can_decode(FILTER_ZSTD, none, &needs)) skip();
    state_of_draws = 11;
    for (int trial = 0; trial < 100; trial++) {
        size_t bytes = 1 + (size_t)draw_below(20000);
        draw_data(bytes);
        assert_true(codec_bound(bytes) > bytes && codec_bound(bytes) < sizeof stored);
        size_t length = codec_compress(data, bytes, stored, codec_bound(bytes), 1 + draw_below(5));
        assert_in_range(length, 1, codec_bound(bytes));
        assert_int_equal(codec_decoded_bytes(FILTER_ZSTD, none, stored, length), bytes);
        assert_int_equal(codec_decompress(FILTER_ZSTD, none, stored, length, back, bytes), bytes);
        assert_memory_equal(back, data, bytes);
        assert_true(codec_decompress(FILTER_ZSTD, none, stored, length, back, bytes - 1) == CODEC_TOO_SMALL);
        assert_int_equal(codec_decompress(FILTER_ZSTD, none, stored, length / 2, back, bytes), CODEC_DAMAGED);
        assert_int_equal(codec_compress(data, bytes, stored, length / 2, 1), 0); /* no room */
    }
    memset(stored, 0, 20);
    assert_int_equal(codec_decoded_bytes(FILTER_ZSTD, none, stored, 20), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_put_back),
        cmocka_unit_test(impossible_parameters_are_damage),
        cmocka_unit_test(blocks_of_lz4),
        cmocka_unit_test(zstd_both_ways),
    };
    return cmocka_run_group_tests_name("codecs", tests, NULL, NULL);
}
