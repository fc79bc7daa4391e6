/* test_host.c - control groups of either version limit memory and processors, and caches count once each; the trees
 * of files are fixed ones and random ones. */
#include "../../runner/base/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

struct destination {
    char root[64], groups[96];
};

static int make_place(void **state) {
    struct destination *place = calloc(1, sizeof *place);
    *state = place;
    if (!place) return -1;
    snprintf(place->root, sizeof place->root, "/tmp/tilerun-cgroup-XXXXXX");
    if (!mkdtemp(place->root)) return -1;
    snprintf(place->groups, sizeof place->groups, "%s/self", place->root);
    return 0;
}

static int remove_place(void **state) {
    struct destination *place = *state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", place->root);
    int code = system(command); // NOLINT(cert-env33-c): a folder of our own
    free(place);
    return code;
}

/* Writes ROOT/path, creating its folders. */
static void write_file(const struct destination *place, const char *path, const char *text) {
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

static int64_t limit(const struct destination *place) {
    return host_memory_limit(place->groups, place->root);
}

static int64_t processors(const struct destination *place) {
    return host_processor_limit(place->groups, place->root);
}

/* A random chain of groups, of either version, some with a quota: the smallest counts, rounded up. */
static void quotas_of_all_groups_count(void **state) {
    const struct destination *place = *state;
    for (int round = 0; round < 200; round++) {
        char group[160] = "", path[256], text[64], chain[400];
        bool v2 = rand() % 2;
        int64_t least = INT64_MAX;
        for (int depth = 0, most = rand() % 5; depth <= most; depth++) {
            long period = 1000 + rand() % 200000, quota = rand() % 3 ? 1000 + rand() % 3000000 : -1;
            int64_t whole = quota < 0 ? INT64_MAX : (quota + period - 1) / period;
            if (depth > 0) snprintf(group + strlen(group), 24, "/r%d-%d", round, depth);
            if (whole < least) least = whole;
            if (v2) {
                if (quota < 0)
                    snprintf(text, sizeof text, "max %ld\n", period);
                else
                    snprintf(text, sizeof text, "%ld %ld\n", quota, period);
                snprintf(path, sizeof path, ".%s/cpu.max", group);
                write_file(place, path, text);
                continue;
            }
            snprintf(text, sizeof text, "%ld\n", quota);
            snprintf(path, sizeof path, "cpu%s/cpu.cfs_quota_us", group);
            write_file(place, path, text);
            snprintf(text, sizeof text, "%ld\n", period);
            snprintf(path, sizeof path, "cpu%s/cpu.cfs_period_us", group);
            write_file(place, path, text);
        }
        snprintf(chain, sizeof chain, "%s:%s\n3:cpuset:/\n", v2 ? "0:" : "4:cpuacct,cpu", *group ? group : "/");
        write_file(place, "self", chain);
        assert_int_equal(processors(place), least);
    }
}

static void without_groups_there_is_no_limit(void **state) {
    const struct destination *place = *state;
    assert_int_equal(limit(place), INT64_MAX);
    write_file(place, "self", "");
    assert_int_equal(limit(place), INT64_MAX);
    write_file(place, "self", "0::/a/b\n9:name=systemd:/\nno colons\n3:memory_not:/a\n");
    write_file(place, "memory/a/memory.limit_in_bytes", "5\n");
    assert_int_equal(limit(place), INT64_MAX);
}

static void version_1_is_read(void **state) {
    const struct destination *place = *state;
    write_file(place, "self", "9:name=systemd:/\n4:cpu,memory:/slurm/job\n0::/\n");
    write_file(place, "memory/slurm/job/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(limit(place), INT64_C(9223372036854771712));
    write_file(place, "memory/slurm/memory.limit_in_bytes", "1048576\n");
    assert_int_equal(limit(place), 1 << 20);
    write_file(place, "memory/memory.limit_in_bytes", "4096\n"); /* a container's own group, seen as the root */
    assert_int_equal(limit(place), 4096);
}

static void version_2_is_read(void **state) {
    const struct destination *place = *state;
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
    const struct destination *place = *state;
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

/* A machine of which neighbours or every so many processors share a last-level cache; levels 0: Linux tells of none. */
struct machine {
    int number, processors, caches, levels;
    bool neighbours;
    int size[12];
};

static int cache_of(const struct machine *machine, int cpu) {
    return machine->neighbours ? cpu * machine->caches / machine->processors : cpu % machine->caches;
}

static void write_cache(const struct destination *place, const struct machine *machine, int cpu, int index,
                        const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "m%d/cpu%d/cache/index%d/%s", machine->number, cpu, index, name);
    write_file(place, path, text);
}

/* "0-3,8\n": the processors of a cache. */
static void list_processors(const struct machine *machine, int cache, char text[128]) {
    int length = 0;
    for (int cpu = 0, from = -1; cpu <= machine->processors; cpu++) {
        bool has = cpu < machine->processors && cache_of(machine, cpu) == cache;
        if (has && from < 0) from = cpu;
        if (has || from < 0) continue;
        length += snprintf(text + length, 128 - (size_t)length, from == cpu - 1 ? "%s%d" : "%s%d-%d", length ? "," : "",
                           from, cpu - 1);
        from = -1;
    }
    snprintf(text + length, 128 - (size_t)length, "\n");
}

/* Index 0 and 1 are of level 1, the last is of the last level. */
static void write_caches(const struct destination *place, const struct machine *machine, int cpu) {
    int size = machine->size[cache_of(machine, cpu)];
    char text[128];
    for (int index = 0; index <= machine->levels; index++) {
        bool last = index == machine->levels;
        snprintf(text, sizeof text, "%d\n", index > 1 ? index : 1);
        write_cache(place, machine, cpu, index, "level", text);
        snprintf(text, sizeof text, last && size % 2 ? "%dM\n" : "%dK\n", last ? size : 32);
        write_cache(place, machine, cpu, index, "size", text);
        snprintf(text, sizeof text, "%d\n", cpu);
        if (last) list_processors(machine, cache_of(machine, cpu), text);
        write_cache(place, machine, cpu, index, "shared_cpu_list", text);
    }
}

/* Drawn machines of up to 12 processors, some of which a process may run on: each cache of these counts once. */
static void caches_count_once(void **state) {
    const struct destination *place = *state;
    unsigned seed = (unsigned)time(NULL);
    print_message("seed %u\n", seed);
    srand(seed);
    for (int round = 0; round < 100; round++) {
        struct machine machine = {.number = round, .processors = 1 + rand() % 12, .neighbours = rand() % 2};
        machine.caches = 1 + rand() % machine.processors;
        machine.levels = rand() % 4 ? 2 + rand() % 2 : 0;
        for (int i = 0; i < 12; i++) machine.size[i] = 1 + rand() % 4096;
        bool counted[12] = {false};
        int64_t expected = 0;
        char root[96];
        cpu_set_t set;
        CPU_ZERO(&set);
        for (int cpu = 0; cpu < machine.processors; cpu++) {
            int cache = cache_of(&machine, cpu), size = machine.size[cache];
            if (machine.levels) write_caches(place, &machine, cpu);
            if (rand() % 3 == 0) continue;
            CPU_SET((size_t)cpu, &set);
            if (machine.levels && !counted[cache]) expected += (int64_t)size << (size % 2 ? 20 : 10);
            counted[cache] = true;
        }
        snprintf(root, sizeof root, "%s/m%d", place->root, round);
        assert_int_equal(host_cache_bytes(root, &set), expected);
    }
}

/* Drawn machines of cores with one, two or four threads. */
static void cores_count_once(void **state) {
    const struct destination *place = *state;
    for (int threads = 1; threads <= 4; threads *= 2)
        for (int allowed = 0; allowed < 256; allowed++) {
            char path[128], text[32], root[96];
            bool counted[8] = {false};
            int expected = 0;
            cpu_set_t set;
            CPU_ZERO(&set);
            for (int cpu = 0; cpu < 8; cpu++) {
                int core = cpu / threads;
                snprintf(path, sizeof path, "c%d/cpu%d/topology/thread_siblings_list", threads, cpu);
                snprintf(text, sizeof text, "%d-%d\n", core * threads, core * threads + threads - 1);
                if (allowed == 0) write_file(place, path, text);
                if (!(allowed >> cpu & 1)) continue;
                CPU_SET((size_t)cpu, &set);
                expected += !counted[core];
                counted[core] = true;
            }
            snprintf(root, sizeof root, "%s/c%d", place->root, threads);
            assert_int_equal(host_core_count(root, &set), expected);
        }
}

/* Linux may tell of no other. */
static void a_first_level_alone_is_the_last(void **state) {
    const struct destination *place = *state;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    write_file(place, "cpu0/cache/index0/level", "1\n");
    write_file(place, "cpu0/cache/index0/size", "48K\n");
    assert_int_equal(host_cache_bytes(place->root, &set), 48 << 10);
}

/* As in /proc/cpuinfo and /etc/os-release. */
static void values_are_found_by_key(void **state) {
    const struct destination *place = *state;
    char path[96];
    snprintf(path, sizeof path, "%s/facts", place->root);
    assert_null(host_file_value(path, "NAME", '='));
    write_file(place, "facts", "PRETTY_NAME=\"A system 12\"\nmodel name\t: Some CPU \nmodel name\t: Another\n");
    char *system = host_file_value(path, "PRETTY_NAME", '='), *model = host_file_value(path, "model name", ':');
    assert_string_equal(system, "A system 12");
    assert_string_equal(model, "Some CPU");
    assert_null(host_file_value(path, "NAME", '='));
    free(system);
    free(model);
}

static void this_machine_has_memory(void **state) {
    struct host_memory memory = host_memory();
    assert_true(host_cache_bytes("/sys/devices/system/cpu", NULL) >= 0);
    assert_true(memory.free > 0 && memory.total > 0 && memory.free <= memory.total);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_groups_there_is_no_limit, make_place, remove_place),
        cmocka_unit_test_setup_teardown(version_1_is_read, make_place, remove_place),
        cmocka_unit_test_setup_teardown(version_2_is_read, make_place, remove_place),
        cmocka_unit_test_setup_teardown(the_least_of_all_counts, make_place, remove_place),
        cmocka_unit_test_setup_teardown(quotas_of_all_groups_count, make_place, remove_place),
        cmocka_unit_test_setup_teardown(caches_count_once, make_place, remove_place),
        cmocka_unit_test_setup_teardown(cores_count_once, make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_first_level_alone_is_the_last, make_place, remove_place),
        cmocka_unit_test_setup_teardown(values_are_found_by_key, make_place, remove_place),
        cmocka_unit_test(this_machine_has_memory),
    };
    return cmocka_run_group_tests_name("host", tests, NULL, NULL);
}
