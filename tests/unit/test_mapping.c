/* test_mapping.c - what is written through a mapping is in the file, whether the writer or the thread that makes pages
 * ready is ahead. */
#include "../../runner/storage/raw/mapping.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB    (INT64_C(1) << 20)
#define BYTES  (40 * MIB + 12345)
#define BEFORE 6789 /* bytes of the file before the mapping */

static char path[] = "/tmp/test_mapping.XXXXXX";
static int file;

static unsigned char byte_at(int64_t i) {
    return (unsigned char)(i * 7 + (i >> 13));
}

/* Writes bytes [begin, end) of the mapping. */
static void write_piece(struct file_mapping *mapping, int64_t begin, int64_t end) {
    char *from = malloc((size_t)(end - begin));
    for (int64_t i = begin; i < end; i++) from[i - begin] = (char)byte_at(i);
    assert_true(mapping_write(mapping, (uint64_t)(BEFORE + begin), from, end - begin));
    free(from);
    mapping_written(mapping, (uint64_t)(BEFORE + begin), (uint64_t)(BEFORE + end));
}

static void compare(void) {
    unsigned char *found = malloc(BEFORE + BYTES);
    assert_int_equal(pread(file, found, BEFORE + BYTES, 0), BEFORE + BYTES);
    for (int64_t i = 0; i < BEFORE; i++) assert_int_equal(found[i], 0);
    for (int64_t i = 0; i < BYTES; i++)
        if (found[BEFORE + i] != byte_at(i)) fail_msg("byte %lld", (long long)i);
    free(found);
}

static void write_all(int64_t ahead, int64_t piece, unsigned pause_us) {
    assert_int_equal(ftruncate(file, 0), 0);
    assert_int_equal(posix_fallocate(file, 0, BEFORE + BYTES), 0);
    struct file_mapping *mapping = mapping_open(file, BEFORE, BYTES, ahead);
    assert_non_null(mapping);
    for (int64_t at = 0; at < BYTES; at += piece) {
        write_piece(mapping, at, at + piece < BYTES ? at + piece : BYTES);
        if (pause_us) usleep(pause_us);
    }
    mapping_close(mapping);
    compare();
}

static void pieces_in_order(void **state) {
    write_all(BYTES, MIB, 0);
    write_all(BYTES, MIB, 500); /* slowly: the thread is ahead */
    write_all(4 * MIB, 100001, 0);
    write_all(0, 3 * MIB + 1, 0);
}

static void pieces_backwards(void **state) {
    assert_int_equal(ftruncate(file, 0), 0);
    assert_int_equal(posix_fallocate(file, 0, BEFORE + BYTES), 0);
    struct file_mapping *mapping = mapping_open(file, BEFORE, BYTES, BYTES);
    for (int64_t at = BYTES; at > 0; at -= MIB) write_piece(mapping, at > MIB ? at - MIB : 0, at);
    mapping_close(mapping);
    compare();
}

static void closed_before_anything_is_written(void **state) {
    assert_int_equal(posix_fallocate(file, 0, BEFORE + BYTES), 0);
    mapping_close(mapping_open(file, BEFORE, BYTES, BYTES));
    mapping_close(NULL);
    assert_null(mapping_open(-1, 0, MIB, MIB));
}

/* A file is cut short while it is mapped: every write beyond its new end fails, in any thread, and writes before it
 * succeed. */
static void cut_short(void **state) {
#ifdef __SANITIZE_THREAD__
    skip(); /* TSan blocks SIGBUS while a handler runs, and the jump out of the handler leaves it blocked */
#endif
    char page[4096] = {1};
    bool written[64];
    int64_t step = BYTES / 64;
    assert_int_equal(posix_fallocate(file, 0, BEFORE + BYTES), 0);
    struct file_mapping *mapping = mapping_open(file, BEFORE, BYTES, 4 * MIB);
    assert_int_equal(ftruncate(file, BEFORE + BYTES / 2), 0);
#pragma omp parallel for
    for (int i = 0; i < 64; i++) written[i] = mapping_write(mapping, (uint64_t)(BEFORE + i * step), page, sizeof page);
    for (int i = 0; i < 64; i++)
        if (written[i] != (i < 32)) fail_msg("piece %d of 64: %d", i, written[i]);
    mapping_close(mapping);
}

static int make_file(void **state) {
    file = mkstemp(path);
    return file >= 0 ? 0 : -1;
}

static int remove_file(void **state) {
    close(file);
    return unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_in_order),
        cmocka_unit_test(pieces_backwards),
        cmocka_unit_test(closed_before_anything_is_written),
        cmocka_unit_test(cut_short),
    };
    return cmocka_run_group_tests_name("mapping", tests, make_file, remove_file);
}
