/* test_host.c - control groups of either version limit the memory; the trees of groups are fixed ones and random
 * ones. */
#include "../../runner/base/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

struct place {
    char root[64], groups[96];
};

static int make_place(void **state) {
    struct place *place = calloc(1, sizeof *place);
    *state = place;
    if (!place) return -1;
    snprintf(place->root, sizeof place->root, "/tmp/tilerun-cgroup-XXXXXX");
    if (!mkdtemp(place->root)) return -1;
    snprintf(place->groups, sizeof place->groups, "%s/self", place->root);
    return 0;
}

static int remove_place(void **state) {
    struct place *place = *state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", place->root);
    int code = system(command); // NOLINT(cert-env33-c): a folder of our own
    free(place);
    return code;
}

/* Writes ROOT/path, creating its folders. */
static void write_file(const struct place *place, const char *path, const char *text) {
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", place->root, path);
    for (char *slash = strchr(whole + strlen(place->root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(whole, 0777);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int64_t limit(const struct place *place) {
    return host_memory_limit(place->groups, place->root);
}

static void without_groups_there_is_no_limit(void **state) {
    const struct place *place = *state;
    assert_int_equal(limit(place), INT64_MAX);
    write_file(place, "self", "");
    assert_int_equal(limit(place), INT64_MAX);
    write_file(place, "self", "0::/a/b\n9:name=systemd:/\nno colons\n3:memory_not:/a\n");
    write_file(place, "memory/a/memory.limit_in_bytes", "5\n");
    assert_int_equal(limit(place), INT64_MAX);
}

static void version_1_is_read(void **state) {
    const struct place *place = *state;
    write_file(place, "self", "9:name=systemd:/\n4:cpu,memory:/slurm/job\n0::/\n");
    write_file(place, "memory/slurm/job/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(limit(place), INT64_C(9223372036854771712));
    write_file(place, "memory/slurm/memory.limit_in_bytes", "1048576\n");
    assert_int_equal(limit(place), 1 << 20);
    write_file(place, "memory/memory.limit_in_bytes", "4096\n"); /* a container's own group, seen as the root */
    assert_int_equal(limit(place), 4096);
}

static void version_2_is_read(void **state) {
    const struct place *place = *state;
    write_file(place, "self", "0::/a/b/c\n");
    write_file(place, "a/b/c/memory.max", "max\n");
    assert_int_equal(limit(place), INT64_MAX);
    write_file(place, "a/memory.max", "7000\n");
    assert_int_equal(limit(place), 7000);
    write_file(place, "a/b/c/memory.max", "6000\n");
    assert_int_equal(limit(place), 6000);
}

/* Chains of up to 8 groups in both versions, each with a limit, "max" or no file: the least limit counts. */
static void the_least_of_all_counts(void **state) {
    const struct place *place = *state;
    unsigned seed = (unsigned)time(NULL);
    print_message("seed %u\n", seed);
    srand(seed);
    for (int round = 0; round < 100; round++) {
        char one[128] = "", two[128] = "", path[256], text[32];
        int64_t expected = INT64_MAX;
        for (int level = 0; level < 1 + rand() % 8; level++) {
            snprintf(one + strlen(one), sizeof one - strlen(one), "/g%d_%d", round, rand() % 3);
            snprintf(two + strlen(two), sizeof two - strlen(two), "/h%d_%d", round, rand() % 3);
            for (int version = 1; version <= 2; version++) {
                int64_t value = rand();
                if (rand() % 2) continue;
                snprintf(path, sizeof path, version == 1 ? "memory%s/memory.limit_in_bytes" : "%s/memory.max",
                         version == 1 ? one : two + 1);
                snprintf(text, sizeof text, rand() % 4 || version == 1 ? "%lld\n" : "max\n", (long long)value);
                write_file(place, path, text);
                if (text[0] != 'm' && value < expected) expected = value;
            }
        }
        char groups[300];
        snprintf(groups, sizeof groups, "4:memory:%s\n0::%s\n", one, two);
        write_file(place, "self", groups);
        assert_int_equal(limit(place), expected);
    }
}

static void this_machine_has_memory(void **state) {
    (void)state;
    struct host_memory memory = host_memory();
    assert_true(memory.free > 0 && memory.total > 0 && memory.free <= memory.total);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_groups_there_is_no_limit, make_place, remove_place),
        cmocka_unit_test_setup_teardown(version_1_is_read, make_place, remove_place),
        cmocka_unit_test_setup_teardown(version_2_is_read, make_place, remove_place),
        cmocka_unit_test_setup_teardown(the_least_of_all_counts, make_place, remove_place),
        cmocka_unit_test(this_machine_has_memory),
    };
    return cmocka_run_group_tests_name("host_memory", tests, NULL, NULL);
}
