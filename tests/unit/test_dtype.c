/* test_dtype.c - conversions of single elements and of rows, compared with each other and with well-known values. */
#include "../../kernels/core/convert.h"
#include "../../kernels/core/float16.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void names_and_sizes(void **state) {
    for (int i = 0; i < DTYPE_COUNT; i++)
        for (int j = 0; j < i; j++) assert_string_not_equal(dtype_name(i), dtype_name(j));
    assert_int_equal(dtype_size(BFLOAT16), 2);
    assert_true(dtype_is_signed(INT8) && !dtype_is_signed(UINT64) && dtype_is_float(FLOAT16));
    assert_true(dtype_epsilon(FLOAT16) == 0x1p-10 && dtype_epsilon(INT32) == 0);
    for (int i = 0; i < DTYPE_COUNT; i++) {
        enum dtype dtype = (enum dtype)i;
        uint64_t room = 0; /* the limits of a type round to themselves; what lies beyond does not */
        double least = dtype_smallest(dtype), largest = dtype_largest(dtype);
        assert_true(!(DTYPES_FLOAT & DTYPE_BIT(dtype)) == !dtype_is_float(dtype));
        assert_true(!(DTYPES_UNSIGNED & DTYPE_BIT(dtype)) == dtype_is_signed(dtype));
        assert_true((least > 0) == dtype_is_float(dtype) && (largest > 0) == dtype_is_float(dtype));
        if (!dtype_is_float(dtype)) continue;
        dtype_store(dtype, &room, 0, least);
        assert_true(dtype_load(dtype, &room, 0) == least && room == 1);
        dtype_store(dtype, &room, 0, largest);
        assert_true(dtype_load(dtype, &room, 0) == largest);
        dtype_store(dtype, &room, 0, largest * (1 + dtype_epsilon(dtype)));
        assert_true(isinf(dtype_load(dtype, &room, 0)));
    }
}

/* Decodes a 16-bit float by the definition of its format. */
static double decode(enum dtype dtype, uint16_t bits) {
    int fraction_bits = dtype == FLOAT16 ? 10 : 7, exponent_bits = 15 - fraction_bits;
    int bias = (1 << (exponent_bits - 1)) - 1, exponent = (bits & 0x7fff) >> fraction_bits;
    int fraction = bits & ((1 << fraction_bits) - 1);
    double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1) return fraction ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

static uint16_t stored(enum dtype dtype, double value) {
    uint16_t bits;
    dtype_store(dtype, &bits, 0, value);
    return bits;
}

/* Every 16-bit pattern is read by the definition of the format and stored back unchanged. A value between two
 * neighbours becomes the nearer one; the value half-way becomes the even one; a value next to half-way, by far less
 * than float32's precision, becomes the nearer one. */
static void sixteen_bits_round_once(void **state) {
    for (int t = 0; t < 2; t++) {
        enum dtype dtype = t ? BFLOAT16 : FLOAT16;
        for (uint32_t pattern = 0; pattern < 0x10000; pattern++) {
            uint16_t bits = (uint16_t)pattern, next = (uint16_t)(bits + 1);
            double value = decode(dtype, bits), loaded = dtype_load(dtype, &bits, 0);
            if (isnan(value)) {
                assert_true(isnan(loaded));
                assert_true(isnan(decode(dtype, stored(dtype, value))));
                continue;
            }
            assert_true(loaded == value && !signbit(loaded) == !signbit(value));
            assert_int_equal(stored(dtype, value), bits);
            if (!isfinite(value) || !isfinite(decode(dtype, next)) || next == 0x8000) continue;
            double half = (value + decode(dtype, next)) / 2;
            assert_int_equal(stored(dtype, half), bits & 1 ? next : bits);
            assert_int_equal(stored(dtype, half * (1 - 0x1p-40)), bits);
            assert_int_equal(stored(dtype, half * (1 + 0x1p-40)), next);
        }
    }
    assert_int_equal(stored(FLOAT16, 65519.99), 0x7bff);
    assert_int_equal(stored(FLOAT16, 65520), 0x7c00);
    assert_int_equal(stored(FLOAT16, -1e300), 0xfc00);
    assert_int_equal(stored(BFLOAT16, 1e300), 0x7f80);
    assert_int_equal(stored(FLOAT16, 1e-300), 0);
}

static void integers_wrap(void **state) {
    int8_t small;
    dtype_store(INT8, &small, 0, 300.5);
    assert_int_equal(small, 300 - 256);
    dtype_store(INT8, &small, 0, -129);
    assert_int_equal(small, 127);
    uint64_t large;
    dtype_store(UINT64, &large, 0, 0x1.8p63);
    assert_true(large == UINT64_C(3) << 62);
    assert_true(dtype_load(UINT64, &large, 0) == 0x1.8p63);
    dtype_store(UINT64, &large, 0, -1);
    assert_true(large == UINT64_MAX && dtype_load_integer(UINT64, &large, 0) == -1);
    static const struct {
        double value;
        uint64_t bits;
    } beyond[] = {{0x1p63, UINT64_C(1) << 63},
                  {-0x1p63, UINT64_C(1) << 63},
                  {0x1p64, 0},
                  {-0x1p64, 0},
                  {0x1.8p64, UINT64_C(1) << 63},
                  {-0x1.4p64, UINT64_C(3) << 62},
                  {0x1p1000, 0},
                  {INFINITY, 0},
                  {NAN, 0},
                  {0.5, 0},
                  {1.5, 2},
                  {-0.5, 0}};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        large = 7;
        dtype_store(UINT64, &large, 0, beyond[i].value);
        assert_true(large == beyond[i].bits);
    }
    uint16_t unsigned_small = 65535;
    assert_true(dtype_load(UINT16, &unsigned_small, 0) == 65535);
    assert_true(dtype_load_integer(INT16, &unsigned_small, 0) == -1);
}

/* An integer of 64 bits that lies between two bfloat16 goes to the even one only from the very middle. */
static void integers_round_once(void **state) {
    for (int top = 53; top < 63; top++) {
        const int64_t even = INT64_C(1) << top, middle = even + (even >> 8);
        for (int bit = -1; bit < top - 8; bit++) {
            const int64_t above = middle + (bit < 0 ? 0 : INT64_C(1) << bit),
                          from[3] = {above, -above, even - above + middle};
            uint16_t to[3];
            struct casts casts = {0};
            convert_elements(INT64, from, 3, BFLOAT16, to, &casts);
            const double nearer = bit < 0 ? (double)even : (double)(even + (even >> 7));
            assert_true(dtype_load(BFLOAT16, to, 0) == nearer && dtype_load(BFLOAT16, to, 1) == -nearer);
            assert_true(dtype_load(BFLOAT16, to, 2) == (double)even);
        }
    }
}

/* A row is converted like its elements one by one. It is long enough for every vector width and a remainder. */
static void rows_are_like_elements(void **state) {
    enum { COUNT = 77 };
    for (int t = 0; t < DTYPE_COUNT; t++) {
        enum dtype dtype = (enum dtype)t;
        uint64_t row[COUNT], back[COUNT];
        double values[COUNT];
        float floats[COUNT];
        int64_t integers[COUNT];
        for (int i = 0; i < COUNT; i++)
            dtype_store(dtype, row, i, ldexp((i * 37) % 101 - (dtype_is_signed(dtype) ? 50 : 0), i % 20 - 10));
        convert_to_double(dtype, row, COUNT, values);
        for (int i = 0; i < COUNT; i++) assert_true(values[i] == dtype_load(dtype, row, i));
        convert_from_double(dtype, values, COUNT, back);
        for (int i = 0; i < COUNT; i++) assert_true(values[i] == dtype_load(dtype, back, i));
        if (!dtype_is_float(dtype)) {
            convert_to_integer(dtype, row, COUNT, integers);
            for (int i = 0; i < COUNT; i++) assert_true(integers[i] == dtype_load_integer(dtype, row, i));
        } else if (dtype != FLOAT64) {
            convert_to_float(dtype, row, COUNT, floats);
            for (int i = 0; i < COUNT; i++) assert_true(floats[i] == values[i]);
        }
    }
}

/* ---- casts ------------------------------------------------------------------------------------------------------- */

/* Of every two types: nothing is written behind the last element, however many blocks they make. */
static void casts_stay_within_their_room(void **state) {
    enum { MOST = 1030 };
    static const int counts[] = {0, 1, 511, 512, 513, 1024, 1025};
    static uint64_t from[MOST], to[MOST + 1];
    memset(from, 0x31, sizeof from);
    for (int t = 0; t < DTYPE_COUNT * DTYPE_COUNT; t++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            enum dtype from_type = (enum dtype)(t % DTYPE_COUNT), to_type = (enum dtype)(t / DTYPE_COUNT);
            struct casts casts = {0};
            char *bytes = (char *)to;
            memset(to, 0x5a, sizeof to);
            convert_elements(from_type, from, counts[c], to_type, to, &casts);
            for (size_t i = (size_t)counts[c] * dtype_size(to_type); i < sizeof to; i++)
                if (bytes[i] != 0x5a) fail_msg("%s to %s", dtype_name(from_type), dtype_name(to_type));
        }
}

/* From 65520 on integers are infinite as float16, all others are not; in every block. */
static void casts_count_overflows_of_integers(void **state) {
    enum { COUNT = 1200 };
    static uint64_t from[COUNT], to[COUNT];
    for (int t = 0; t < DTYPE_COUNT; t++) {
        enum dtype dtype = (enum dtype)t;
        if (dtype_is_float(dtype) || dtype_size(dtype) < 2 || dtype == INT16) continue;
        for (int64_t size = 65518; size < 65523 && size < (dtype == UINT16 ? 65536 : 65523); size++) {
            struct casts casts = {0}, wide = {0};
            for (int i = 0; i < COUNT; i++)
                dtype_store_integer(dtype, from, i, i % 3 ? 0 : dtype_is_signed(dtype) && i % 2 ? -size : size);
            convert_elements(dtype, from, COUNT, FLOAT16, to, &casts);
            assert_int_equal(casts.overflowed, size < 65520 ? 0 : COUNT / 3);
            for (int i = 0; i < COUNT; i++)
                assert_int_equal(isinf(dtype_load(FLOAT16, to, i)) != 0, i % 3 == 0 && size >= 65520);
            convert_elements(dtype, from, COUNT, BFLOAT16, to, &wide);
            assert_true(wide.overflowed == 0 && casts.wrapped == 0 && casts.truncated == 0);
        }
    }
}

/* Infinities and NaNs are 0 as integers of any type, and are counted once. */
static void casts_have_no_infinite_integers(void **state) {
    static const double from[3] = {INFINITY, -INFINITY, NAN};
    for (int f = FLOAT32; f <= BFLOAT16; f++)
        for (int t = 0; t < DTYPE_COUNT; t++) {
            enum dtype from_type = (enum dtype)f, to_type = (enum dtype)t;
            uint64_t stored[3], to[3] = {1, 1, 1};
            struct casts casts = {0};
            if (dtype_is_float(to_type)) continue;
            for (int i = 0; i < 3; i++) dtype_store(from_type, stored, i, from[i]);
            convert_elements(from_type, stored, 3, to_type, to, &casts);
            for (int i = 0; i < 3; i++) assert_int_equal(dtype_load_integer(to_type, to, i), 0);
            assert_true(casts.wrapped == 3 && casts.truncated == 0 && casts.overflowed == 0);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_sizes),
        cmocka_unit_test(sixteen_bits_round_once),
        cmocka_unit_test(integers_wrap),
        cmocka_unit_test(integers_round_once),
        cmocka_unit_test(rows_are_like_elements),
        cmocka_unit_test(casts_stay_within_their_room),
        cmocka_unit_test(casts_count_overflows_of_integers),
        cmocka_unit_test(casts_have_no_infinite_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
