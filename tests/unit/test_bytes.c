/* test_bytes.c - shuffling, its inverse, byte order and fletcher32 beside plain loops, for elements of any size. */
#include "../../runner/storage/elements/bytes.h"
#include "draws.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 5000, GUARD = 16 };

static void draw_bytes(uint8_t *to, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) to[i] = (uint8_t)draw_below(256);
}

/* By the definition in bytes.h. */
static void shuffle(const uint8_t *from, uint8_t *to, size_t bytes, size_t size) {
    size_t elements = bytes / size;
    for (size_t i = 0; i < elements; i++)
        for (size_t b = 0; b < size; b++) to[b * elements + i] = from[i * size + b];
    memcpy(to + elements * size, from + elements * size, bytes - elements * size);
}

static void shuffling_goes_by_its_definition_and_back(void **state) {
    for (int trial = 0; trial < 2000; trial++) {
        size_t size = trial % 2 ? (size_t)2 << trial / 2 % 3 : 1 + (size_t)draw_below(20),
               bytes = (size_t)draw_below(MOST);
        uint8_t *from = malloc(MOST + GUARD), *to = malloc(MOST + GUARD), wanted[MOST + GUARD];
        draw_bytes(from, bytes);
        memset(to, 0xa5, MOST + GUARD);
        memset(wanted, 0xa5, sizeof wanted);
        shuffle(from, wanted, bytes, size);
        bytes_shuffle(from, to, bytes, size);
        if (memcmp(to, wanted, bytes + GUARD) != 0) fail_msg("%zu bytes, elements of %zu", bytes, size);
        memset(to, 0xa5, MOST + GUARD);
        memcpy(wanted, from, bytes);
        shuffle(wanted, from, bytes, size);
        bytes_unshuffle(from, to, bytes, size);
        if (memcmp(to, wanted, bytes + GUARD) != 0) fail_msg("back: %zu bytes, elements of %zu", bytes, size);
        free(from);
        free(to);
    }
}

static void bytes_of_elements_are_reversed(void **state) {
    for (size_t size = 1; size <= 8; size *= 2)
        for (int64_t elements = 0; elements < 70; elements++) {
            uint8_t *data = malloc(70 * 8 + GUARD), before[70 * 8 + GUARD];
            draw_bytes(before, sizeof before);
            memcpy(data, before, sizeof before);
            swap_bytes(data, elements, size);
            for (size_t i = 0; i < sizeof before; i++) {
                size_t element = i / size, inside = (int64_t)element < elements;
                assert_int_equal(data[i], before[inside ? element * size + size - 1 - i % size : i]);
            }
            free(data);
        }
}

/* Of big-endian words of 16 bits, a last byte alone is the high one; both sums are taken modulo 65535. */
static void checksums_are_those_of_fletcher(void **state) {
    for (int trial = 0; trial < 300; trial++) {
        size_t bytes = trial < 10 ? (size_t)trial : (size_t)draw_below(MOST);
        uint8_t data[MOST];
        uint64_t one = 0, two = 0;
        draw_bytes(data, bytes);
        for (size_t i = 0; i < bytes; i += 2) {
            one = (one + (uint64_t)(data[i] << 8 | (i + 1 < bytes ? data[i + 1] : 0))) % 65535;
            two = (two + one) % 65535;
        }
        uint32_t sum = bytes_fletcher32(data, bytes);
        assert_int_equal((sum & 0xffff) % 65535, one);
        assert_int_equal((sum >> 16) % 65535, two);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffling_goes_by_its_definition_and_back),
        cmocka_unit_test(bytes_of_elements_are_reversed),
        cmocka_unit_test(checksums_are_those_of_fletcher),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
