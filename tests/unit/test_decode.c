/* test_decode.c - what stored numbers become, bit by bit; e2e/test_decode.py asks NumPy, netCDF4 and xarray. */
#include "../../runner/storage/elements/decode.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct cf_number real(enum dtype dtype, double value) {
    return (struct cf_number){true, dtype, value, 0};
}

static struct cf_number integer(enum dtype dtype, int64_t value) {
    return (struct cf_number){true, dtype, dtype == UINT64 ? (double)(uint64_t)value : (double)value, value};
}

/* Decodes to float64, and returns how many elements are missing. */
static int64_t decode(const struct cf *said, enum dtype stored, const void *from, int64_t count, double *to) {
    struct decoding decoding;
    struct casts casts = {0};
    char *useless;
    assert_true(decoding_make(said, stored, &decoding, &useless));
    assert_null(useless);
    decode_elements(&decoding, from, count, FLOAT64, to, &casts);
    return casts.missing;
}

static bool changes(const struct cf *said, enum dtype stored, bool *useless) {
    struct decoding decoding;
    char *words;
    bool does = decoding_make(said, stored, &decoding, &words);
    *useless = words != NULL;
    free(words);
    return does;
}

static void stored_numbers_are_scaled_and_masked(void **state) {
    const int16_t from[] = {100, 200, -32767, 300};
    const struct cf said = {
        .factor = real(FLOAT64, 0.01), .offset = real(FLOAT64, 273.15), .fill = integer(INT16, -32767)};
    double to[4];
    assert_int_equal(decode(&said, INT16, from, 4, to), 1);
    for (int i = 0; i < 4; i++) {
        volatile double product = from[i] * 0.01; /* no fused multiply-add here either */
        if (i != 2) assert_true(to[i] == product + 273.15);
    }
    assert_true(isnan(to[2]));
}

static void the_type_follows_the_attributes(void **state) {
    static const struct {
        enum dtype stored, factor, offset; /* DTYPE_COUNT: not there */
        enum dtype result, computed;
    } cases[] = {
        {INT16, FLOAT32, DTYPE_COUNT, FLOAT32, FLOAT32},   {INT16, FLOAT32, FLOAT32, FLOAT32, FLOAT32},
        {INT32, FLOAT32, FLOAT32, FLOAT32, FLOAT64},       {INT16, FLOAT32, FLOAT64, FLOAT64, FLOAT64},
        {INT16, FLOAT64, FLOAT32, FLOAT64, FLOAT64},       {UINT8, INT16, DTYPE_COUNT, FLOAT64, FLOAT64},
        {FLOAT32, FLOAT64, FLOAT64, FLOAT64, FLOAT64},     {FLOAT32, FLOAT32, FLOAT32, FLOAT32, FLOAT32},
        {FLOAT64, FLOAT32, DTYPE_COUNT, FLOAT64, FLOAT64},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cf said = {.factor = real(cases[i].factor, 2)};
        if (cases[i].factor == INT16) said.factor = integer(INT16, 2);
        if (cases[i].offset != DTYPE_COUNT) said.offset = real(cases[i].offset, 5);
        struct decoding decoding;
        char *useless;
        assert_true(decoding_make(&said, cases[i].stored, &decoding, &useless));
        assert_int_equal(decoding.result, cases[i].result);
        assert_int_equal(decoding.computed, cases[i].computed);
    }
}

static void signs_are_read_another_way_with_their_attributes(void **state) {
    const int16_t from[] = {-1, -2, 5};
    struct cf said = {.sign = CF_SIGN_UNSIGNED, .fill = integer(INT16, -1)};
    double to[3];
    assert_int_equal(decode(&said, INT16, from, 3, to), 1);
    assert_true(isnan(to[0]) && to[1] == 65534 && to[2] == 5);
    said.fill = integer(INT32, 65534);
    assert_int_equal(decode(&said, INT16, from, 3, to), 1);
    assert_true(to[0] == 65535 && isnan(to[1]));
    const uint8_t bytes[] = {255, 3};
    said = (struct cf){.sign = CF_SIGN_SIGNED};
    assert_int_equal(decode(&said, UINT8, bytes, 2, to), 0);
    assert_true(to[0] == -1 && to[1] == 3);
}

static void bounds_are_in_the_units_of_their_type(void **state) {
    const int16_t from[] = {-10, 0, 10, 20};
    struct cf said = {.factor = real(FLOAT64, 0.1), .low = integer(INT16, 0), .high = integer(INT16, 10)};
    double to[4];
    assert_int_equal(decode(&said, INT16, from, 4, to), 2); /* packed */
    assert_true(isnan(to[0]) && !isnan(to[1]) && !isnan(to[2]) && isnan(to[3]));
    said.low = real(FLOAT64, -1.0), said.high = real(FLOAT64, 1.0);
    assert_int_equal(decode(&said, INT16, from, 4, to), 1); /* decoded */
    assert_true(to[0] == -1 && isnan(to[3]));
}

static void integers_of_64_bits_are_compared_as_such(void **state) {
    const int64_t from[] = {INT64_MAX, INT64_MAX - 1, INT64_MIN, INT64_MIN + 2};
    struct cf said = {.fill = integer(INT64, INT64_MAX)};
    double to[4];
    assert_int_equal(decode(&said, INT64, from, 4, to), 1);
    said = (struct cf){.fill = cf_netcdf_fill(INT64)};
    assert_int_equal(decode(&said, INT64, from, 4, to), 1);
    assert_true(isnan(to[3]));
    said = (struct cf){.low = integer(INT64, INT64_MIN + 1), .high = integer(INT64, INT64_MAX - 1)};
    assert_int_equal(decode(&said, INT64, from, 4, to), 2);
    assert_true(isnan(to[0]) && isnan(to[2]));
    const uint64_t large[] = {UINT64_MAX, UINT64_MAX - 1};
    said = (struct cf){.fill = cf_netcdf_fill(UINT64)};
    assert_int_equal(decode(&said, UINT64, large, 2, to), 1);
    assert_true(isnan(to[1]));
}

static void what_changes_nothing_changes_nothing(void **state) {
    const struct {
        struct cf said;
        enum dtype stored;
        bool useless; /* and is said */
    } cases[] = {
        {{.missing_count = 0}, INT16, false},
        {{.fill = real(FLOAT32, NAN)}, FLOAT32, false},
        {{.fill = real(FLOAT64, NAN)}, INT16, false},
        {{.factor = real(FLOAT64, 1), .offset = real(FLOAT64, 0)}, INT16, false},
        {{.low = integer(INT16, INT16_MIN), .high = integer(INT16, INT16_MAX)}, INT16, false},
        {{.low = real(FLOAT32, -INFINITY), .high = real(FLOAT32, INFINITY)}, FLOAT32, false},
        {{.low = integer(INT64, INT64_MIN), .high = integer(INT64, INT64_MAX)}, INT64, false},
        {{.sign = CF_SIGN_UNSIGNED}, UINT8, false},
        {{.sign = CF_SIGN_UNSIGNED}, FLOAT32, false},
        {{.fill = real(FLOAT64, 1e20)}, INT16, true},
        {{.fill = real(FLOAT64, 1e20)}, FLOAT32, true}, /* of which the nearest is another number */
        {{.fill = real(FLOAT64, 0.5)}, UINT8, true},
        {{.fill = integer(INT32, -1)}, UINT8, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool useless;
        assert_false(changes(&cases[i].said, cases[i].stored, &useless));
        assert_int_equal(useless, cases[i].useless);
    }
}

static void floats_keep_their_bits(void **state) {
    enum { COUNT = 2000 };
    uint16_t from[COUNT], to[COUNT];
    struct cf said = {.fill = real(FLOAT16, -999)};
    struct decoding decoding;
    struct casts casts = {0};
    char *useless;
    for (int i = 0; i < COUNT; i++) from[i] = (uint16_t)(i * 33);
    from[7] = 0xe3ce; /* -999 */
    from[8] = 0x7c01; /* a signalling NaN */
    assert_true(decoding_make(&said, FLOAT16, &decoding, &useless));
    decode_elements(&decoding, from, COUNT, FLOAT16, to, &casts);
    assert_int_equal(casts.missing, 1);
    assert_true(isnan(dtype_load(FLOAT16, to, 7)));
    to[7] = from[7];
    assert_memory_equal(from, to, sizeof to);
}

static void it_says_what_it_does(void **state) {
    static const struct {
        struct cf said;
        const char *text;
    } cases[] = {
        {{.factor = {true, FLOAT64, 0.01, 0}, .offset = {true, FLOAT64, 273.15, 0}, .fill = {true, INT16, -1, -1}},
         "stored * 0.01 + 273.15, missing where -1"},
        {{.offset = {true, FLOAT32, -40, 0}, .sign = CF_SIGN_UNSIGNED}, "read as uint16, stored - 40"},
        {{.low = {true, INT16, 0, 0}, .high = {true, INT16, 9, 9}}, "missing outside 0 to 9"},
        {{.factor = {true, FLOAT32, 0.5, 0}, .high = {true, FLOAT32, 9, 0}}, "stored * 0.5, missing above decoded 9"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct decoding decoding;
        char *useless, *text;
        assert_true(decoding_make(&cases[i].said, INT16, &decoding, &useless));
        text = decoding_text(&decoding);
        assert_string_equal(text, cases[i].text);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_numbers_are_scaled_and_masked),
        cmocka_unit_test(the_type_follows_the_attributes),
        cmocka_unit_test(signs_are_read_another_way_with_their_attributes),
        cmocka_unit_test(bounds_are_in_the_units_of_their_type),
        cmocka_unit_test(integers_of_64_bits_are_compared_as_such),
        cmocka_unit_test(what_changes_nothing_changes_nothing),
        cmocka_unit_test(floats_keep_their_bits),
        cmocka_unit_test(it_says_what_it_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
