/* test_filters.c - any sequence of filters, up to the most that HDF5 allows, is undone; what lies behind them in memory
 * is none. Whether the bytes are HDF5's is test_rawio.c's. */
#include "../../runner/storage/h5/filters.h"
#include "draws.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 6000 };

/* All places are filled, `count` of them count. */
static struct filters draw_filters(int count) {
    static const H5Z_filter_t ids[] = {H5Z_FILTER_SHUFFLE, H5Z_FILTER_DEFLATE, H5Z_FILTER_FLETCHER32};
    struct filters filters = {.count = count};
    for (int i = 0; i < FILTERS_MAX; i++) {
        filters.id[i] = ids[draw_below(3)];
        filters.values[i][0] = filters.id[i] == H5Z_FILTER_SHUFFLE ? 1u << draw_below(4) : 1;
    }
    return filters;
}

static void what_was_applied_is_undone(void **state) {
    state_of_draws = 1;
    static char plain[MOST], to[MOST];
    struct filter_buffers *room = filter_buffers_create();
    for (int trial = 0; trial < 400; trial++) {
        struct filters filters = draw_filters(trial % 4 ? draw_below(6) : draw_below(FILTERS_MAX + 1));
        size_t bytes = 1 + (size_t)draw_below(MOST), stored = 0;
        for (size_t i = 0; i < bytes; i++) plain[i] = (char)(draw_below(3) ? 7 : draw_below(256));
        char *data = filter_buffers_reserve(room, bytes);
        assert_non_null(data);
        memcpy(data, plain, bytes);
        const char *found = filters_encode(&filters, room, bytes, &stored), *why = "";
        assert_non_null(found);
        char *kept = malloc(stored + 1);
        assert_non_null(kept);
        memcpy(kept, found, stored);
        memcpy(filter_buffers_reserve(room, stored), kept, stored);
        bool there = draw_below(2);
        found = filters_decode(&filters, 0, room, stored, bytes, there ? to : NULL, &why);
        if (!found || why) fail_msg("trial %d, %d filters: %s", trial, filters.count, why);
        assert_memory_equal(found, plain, bytes);
        free(kept);
    }
    filter_buffers_free(room);
}

/* zstd makes a few bytes of what deflate at level 0 has left as long as it was, and of what zstd has. */
static void nearly_nothing_becomes_a_chunk(void **state) {
    const unsigned none[CODEC_VALUES] = {0};
    const char *needs, *why = "";
    if (!codec_can_decode(FILTER_ZSTD, none, &needs)) skip();
    static char plain[1 << 22], kept[1 << 12];
    struct filter_buffers *room = filter_buffers_create();
    for (int first = 0; first < 2; first++)
        for (size_t bytes = 1; bytes <= sizeof plain; bytes *= 4) {
            struct filters filters = {.count = 2, .id = {first ? FILTER_ZSTD : H5Z_FILTER_DEFLATE, FILTER_ZSTD}};
            size_t stored;
            memset(filter_buffers_reserve(room, bytes), 0, bytes);
            const char *found = filters_encode(&filters, room, bytes, &stored);
            assert_non_null(found);
            assert_in_range(stored, 1, sizeof kept);
            memcpy(kept, found, stored);
            memcpy(filter_buffers_reserve(room, stored), kept, stored);
            found = filters_decode(&filters, 0, room, stored, bytes, NULL, &why);
            if (!found || why) fail_msg("%zu bytes of %zu: %s", stored, bytes, why);
            assert_memory_equal(found, plain, bytes);
        }
    filter_buffers_free(room);
}

static void only_filters_that_count_decompress(void **state) {
    state_of_draws = 2;
    for (int count = 0; count <= FILTERS_MAX; count++)
        for (int trial = 0; trial < 20; trial++) {
            struct filters filters = draw_filters(count);
            filters.first_supported = draw_below(count + 1);
            for (int i = 0; i < count; i++)
                if (draw_below(8)) filters.id[i] = H5Z_FILTER_SHUFFLE;
            bool wanted = false;
            for (int i = filters.first_supported; i < count; i++) wanted |= filters.id[i] == H5Z_FILTER_DEFLATE;
            assert_int_equal(filters_have_compressor(&filters), wanted);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_applied_is_undone),
        cmocka_unit_test(nearly_nothing_becomes_a_chunk),
        cmocka_unit_test(only_filters_that_count_decompress),
    };
    return cmocka_run_group_tests_name("filters", tests, NULL, NULL);
}
