/* test_limits_file.c - the file that keeps measured limits survives whatever happens to it. Nothing is measured here.
 */
#include "../../runner/base/fail.h"
#include "../../runner/limits/limits_file.h"
#include "draws.h"
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define PROGRAM "0.1.0 0123456789ab "

static bool signal_comes; /* before the next write */

/* In place of libc's. */
ssize_t pwrite(int fd, const void *buf, size_t n, off_t offset) {
    if (!signal_comes) return syscall(SYS_pwrite64, fd, buf, n, offset);
    signal_comes = false;
    errno = EINTR;
    return -1;
}

static int close_fails; /* the next one, with this errno */

/* In place of libc's. */
int close(int fd) {
    int closed = (int)syscall(SYS_close, fd);
    if (!close_fails) return closed;
    errno = close_fails;
    close_fails = 0;
    return -1;
}

/* A positive number of any size that a measurement could give, or more. */
static double draw_number(void) {
    return draw_below(9) == 0 ? DBL_MAX : exp((draw() - 0.5) * 80);
}

static struct device_facts cpu(void) {
    return (struct device_facts){
        .kind = DEVICE_CPU, .name = "Some (R) processor / 2", .id = "cpu", .multiprocessors = 3};
}

/* What a measurement may give: of a case that the time did not reach, or that a variant refuses, no number. */
static double draw_result(void) {
    static const double none[] = {NAN, 0, -1, INFINITY};
    return draw_below(5) ? draw_number() : none[draw_below(4)];
}

static struct device_limits *draw_limits(void) {
    struct device_limits *limits = limits_create();
    snprintf(limits->measured, sizeof limits->measured, "%s", "2026-03-01T12:34:56Z");
    double *numbers[] = {&limits->memory_bytes_per_s,
                         &limits->upload_bytes_per_s,
                         &limits->download_bytes_per_s,
                         &limits->launch_s,
                         &limits->cache_bytes,
                         &limits->cached_copy_bytes_per_s,
                         &limits->cached_read_bytes_per_s,
                         &limits->flops_per_s[draw_below(LIMITS_PRODUCTS)],
                         &limits->flops_per_s[LIMITS_TF32]};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (draw_below(4)) *numbers[i] = draw_result();
    return limits;
}

/* Written with nine digits. */
static void same_number(double a, double b) {
    if (isnan(b)) /* what is not known */
        assert_true(!(a > 0) || isinf(a));
    else
        assert_true(fabs(a - b) <= 1e-8 * a);
}

static void same_limits(const struct device_limits *a, const struct device_limits *b) {
    assert_string_equal(a->measured, b->measured);
    same_number(a->memory_bytes_per_s, b->memory_bytes_per_s);
    same_number(a->upload_bytes_per_s, b->upload_bytes_per_s);
    same_number(a->download_bytes_per_s, b->download_bytes_per_s);
    same_number(a->launch_s, b->launch_s);
    same_number(a->cache_bytes, b->cache_bytes);
    same_number(a->cached_copy_bytes_per_s, b->cached_copy_bytes_per_s);
    same_number(a->cached_read_bytes_per_s, b->cached_read_bytes_per_s);
    for (int i = 0; i < LIMITS_PRODUCTS; i++) same_number(a->flops_per_s[i], b->flops_per_s[i]);
}

/* Each test has a cache of its own. */
static int make_cache(void **state) {
    state_of_draws = (uint64_t)time(NULL);
    return make_folder(state) || setenv("XDG_CACHE_HOME", folder, 1);
}

static char *read_whole(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = must_malloc(1 << 20);
    *length = fread(text, 1, 1 << 20, file);
    fclose(file);
    return text;
}

static void write_whole(const char *path, const char *text, size_t length) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static void assert_none(const struct device_facts *facts, const char *program) {
    struct device_limits *limits = limits_load(facts, program);
    assert_null(limits);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static void what_is_kept_comes_back(void **state) {
    struct device_facts facts = cpu();
    assert_none(&facts, PROGRAM);
    for (int round = 0; round < 200; round++) {
        struct device_limits *limits = draw_limits();
        assert_true(limits_save(&facts, PROGRAM, limits));
        struct device_limits *back = limits_load(&facts, PROGRAM);
        assert_non_null(back);
        same_limits(limits, back);
        limits_free(limits);
        limits_free(back);
    }
}

static void a_signal_costs_no_limits(void **state) {
    struct device_facts facts = cpu();
    struct device_limits *limits = draw_limits();
    signal_comes = true;
    assert_true(limits_save(&facts, PROGRAM, limits));
    assert_false(signal_comes);
    struct device_limits *back = limits_load(&facts, PROGRAM);
    assert_non_null(back);
    same_limits(limits, back);
    limits_free(limits);
    limits_free(back);
}

static void only_for_this_device_and_program(void **state) {
    struct device_facts facts = cpu(), other;
    struct device_limits *limits = draw_limits();
    assert_true(limits_save(&facts, PROGRAM, limits));
    assert_none(&facts, "0.1.1 0123456789ab ");
    assert_none(&facts, "");
    other = facts, other.multiprocessors = 4;
    assert_none(&other, PROGRAM);
    other = facts, other.cache_bytes = 1 << 20; /* of another part of the host */
    assert_none(&other, PROGRAM);
    other = facts, other.name[0] = 's';
    assert_none(&other, PROGRAM);
    other = facts, snprintf(other.uuid, sizeof other.uuid, "%s", "GPU-00");
    assert_none(&other, PROGRAM);
    /* Not even under the name of this one's. */
    char *from = limits_path(&facts, PROGRAM), *to = limits_path(&other, PROGRAM);
    assert_int_equal(rename(from, to), 0);
    assert_none(&other, PROGRAM);
    free(from);
    free(to);
    limits_free(limits);
}

static void damage_is_noticed(void **state) {
    struct device_facts facts = cpu();
    struct device_limits *limits = draw_limits();
    assert_true(limits_save(&facts, PROGRAM, limits));
    size_t length;
    char *path = limits_path(&facts, PROGRAM), *text = read_whole(path, &length);
    for (int round = 0; round < 500; round++) {
        char *damaged = must_malloc(2 * length + 1);
        memcpy(damaged, text, length);
        size_t size = length, at = (size_t)draw_below((int)length);
        switch (draw_below(4)) {
        case 0: damaged[at] = (char)(damaged[at] ^ (1 << draw_below(8))); break;
        case 1: size = at; break;
        case 2: memcpy(damaged + length, text, at + 1), size += at + 1; break;
        default: memmove(damaged + at, damaged + at + 1, --size - at); break;
        }
        write_whole(path, damaged, size);
        assert_none(&facts, PROGRAM);
        free(damaged);
    }
    /* What is damaged is written anew. */
    assert_true(limits_save(&facts, PROGRAM, limits));
    struct device_limits *back = limits_load(&facts, PROGRAM);
    assert_non_null(back);
    limits_free(back);
    limits_free(limits);
    free(text);
    free(path);
}

/* Lines that no program of ours writes, with a good checksum. */
static void nonsense_is_refused(void **state) {
    static const char *const lines[] = {
        "launch_s 1e999",
        "launch_s -1",
        "launch_s 0",
        "launch_s nan",
        "launch_s inf",
        "launch_s 1x",
        "launch_s",
        "launch_s ",
        "speed 5",
        "float33 1",
        "measured 2026-03-01T12:34:56Z and much more than there is room for",
    };
    struct device_facts facts = cpu();
    struct device_limits *limits = limits_create();
    snprintf(limits->measured, sizeof limits->measured, "%s", "2026-03-01T12:34:56Z");
    char *path = limits_path(&facts, PROGRAM);
    for (size_t i = 0; i <= sizeof lines / sizeof *lines; i++) {
        bool good = i == sizeof lines / sizeof *lines;
        assert_true(limits_save(&facts, PROGRAM, limits));
        size_t length;
        char *text = read_whole(path, &length);
        text[length] = '\0';
        *strstr(text, "checksum ") = '\0';
        char *more = must_printf("%s%s\n", text, good ? "tf32 1e14" : lines[i]);
        char *all = must_printf("%schecksum %016llx\n", more, (unsigned long long)XXH3_64bits(more, strlen(more)));
        write_whole(path, all, strlen(all));
        struct device_limits *back = limits_load(&facts, PROGRAM);
        if (good != (back != NULL))
            fail_msg("'%s' was %s", good ? "a good line" : lines[i], good ? "refused" : "taken");
        limits_free(back);
        free(all);
        free(more);
        free(text);
    }
    free(path);
    limits_free(limits);
}

static void folders_are_made_or_done_without(void **state) {
    struct device_facts facts = cpu();
    struct device_limits *limits = draw_limits(), *back;
    char *home = must_strdup(getenv("HOME") ? getenv("HOME") : "");
    setenv("XDG_CACHE_HOME", in_folder("some/way"), 1); /* whose parent is missing */
    assert_false(limits_save(&facts, PROGRAM, limits));
    assert_int_equal(errno, ENOENT);
    assert_int_not_equal(access(in_folder("some"), F_OK), 0);
    setenv("XDG_CACHE_HOME", in_folder("some"), 1);
    assert_true(limits_save(&facts, PROGRAM, limits));
    limits_free(back = limits_load(&facts, PROGRAM));
    assert_non_null(back);

    write_whole(in_folder("file"), "", 0); /* where the folder should be */
    setenv("XDG_CACHE_HOME", in_folder("file"), 1);
    assert_false(limits_save(&facts, PROGRAM, limits));
    assert_int_equal(errno, ENOTDIR);
    assert_none(&facts, PROGRAM);

    setenv("XDG_CACHE_HOME", "relative", 1); /* counts for nothing */
    setenv("HOME", in_folder("home"), 1);
    char *path = limits_path(&facts, PROGRAM), *wanted = must_printf("%s/.cache/tilerun/", in_folder("home"));
    assert_memory_equal(path, wanted, strlen(wanted));
    assert_false(limits_save(&facts, PROGRAM, limits)); /* HOME is missing, and stays so */
    assert_int_not_equal(access(in_folder("home"), F_OK), 0);
    assert_int_equal(mkdir(in_folder("home"), 0777), 0);
    assert_true(limits_save(&facts, PROGRAM, limits));
    free(wanted);
    free(path);
    unsetenv("HOME");
    assert_null(limits_path(&facts, PROGRAM));
    assert_false(limits_save(&facts, PROGRAM, limits));
    assert_none(&facts, PROGRAM);
    setenv("HOME", home, 1);
    setenv("XDG_CACHE_HOME", folder, 1);
    free(home);
    limits_free(limits);
}

/* A folder, a pipe without a writer, a file larger than any of ours, whatever it begins with, and a folder that must
 * not be written, where the file should be. */
static void whatever_lies_there(void **state) {
    struct device_facts facts = cpu();
    struct device_limits *limits = draw_limits(), *back;
    assert_true(limits_save(&facts, PROGRAM, limits));
    char *path = limits_path(&facts, PROGRAM);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_none(&facts, PROGRAM);
    assert_false(limits_save(&facts, PROGRAM, limits));
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0666), 0);
    assert_none(&facts, PROGRAM);
    assert_true(limits_save(&facts, PROGRAM, limits));
    limits_free(back = limits_load(&facts, PROGRAM));
    assert_non_null(back);
    for (off_t size = 1 << 20; size <= 1 << 30; size *= 32) {
        assert_int_equal(truncate(path, size), 0);
        assert_none(&facts, PROGRAM);
    }
    assert_true(limits_save(&facts, PROGRAM, limits));
    char *parent = must_printf("%s/tilerun", folder);
    chmod(parent, 0555);
    bool saved = limits_save(&facts, PROGRAM, limits);
    if (!saved) assert_int_equal(errno, EACCES); /* root writes all the same */
    chmod(parent, 0755);
    char *command = must_printf("test \"$(ls '%s' | wc -l)\" = 1", parent); /* no temporary file is left */
    assert_int_equal(system(command), 0);
    free(command);
    free(parent);
    free(path);
    limits_free(limits);
}

/* What a disk says only at the end: the former file stays, and nothing else. */
static void a_close_that_fails(void **state) {
    static const int numbers[] = {EIO, ENOSPC, EDQUOT};
    struct device_facts facts = cpu();
    struct device_limits *limits = draw_limits(), *back;
    char *path = limits_path(&facts, PROGRAM), *command = must_printf("test \"$(ls '%s/tilerun' | wc -l)\" = ", folder);
    for (int there = 0; there < 2; there++) {
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            limits->launch_s = 2;
            close_fails = numbers[i];
            assert_false(limits_save(&facts, PROGRAM, limits));
            assert_int_equal(errno, numbers[i]);
            assert_int_equal(close_fails, 0);
            char *count = must_printf("%s%d", command, there);
            assert_int_equal(system(count), 0);
            free(count);
            back = limits_load(&facts, PROGRAM);
            assert_true(there ? back && back->launch_s == 1 : !back);
            limits_free(back);
        }
        limits->launch_s = 1;
        assert_true(limits_save(&facts, PROGRAM, limits));
    }
    free(command);
    free(path);
    limits_free(limits);
}

/* Whoever reads while others write finds one or the other's limits, whole. */
static void many_writers(void **state) {
    enum { WRITERS = 3, ROUNDS = 60 };
    struct device_facts facts = cpu();
    struct device_limits *limits = draw_limits();
    assert_true(limits_save(&facts, PROGRAM, limits));
    pid_t writers[WRITERS];
    for (int w = 0; w < WRITERS; w++) {
        writers[w] = fork();
        if (writers[w] > 0) continue;
        bool good = writers[w] == 0;
        limits->launch_s = w + 1;
        for (int round = 0; round < ROUNDS && good; round++) good = limits_save(&facts, PROGRAM, limits);
        _exit(good ? 0 : 1);
    }
    for (int round = 0; round < ROUNDS; round++) {
        struct device_limits *back = limits_load(&facts, PROGRAM);
        assert_non_null(back);
        limits_free(back);
    }
    for (int w = 0; w < WRITERS; w++) {
        int status;
        assert_int_equal(waitpid(writers[w], &status, 0), writers[w]);
        assert_int_equal(status, 0);
    }
    limits_free(limits);
}

/* Processes that prove different things at once leave the best of them, and what no run has proved as it was. */
static void runs_raise_what_is_stored(void **state) {
    enum { WRITERS = 4, ROUNDS = 20 };
    const struct kernel *kernel = kernel_find(OP_MATMUL, "cpu");
    const struct op_options options = {.alpha = 1};
    struct shape shapes[2] = {{2, {500, 500}}, {2, {500, 500}}};
    enum dtype dtypes[2] = {FLOAT32, FLOAT32};
    struct error error = {.status = STATUS_OK};
    struct device_facts facts = cpu();
    struct geometry geometry;
    char text[64];
    assert_int_equal(operations[OP_MATMUL]->geometry(&options, shapes, dtypes, &geometry, &error), STATUS_OK);
    struct device_limits *limits = limits_create();
    snprintf(limits->measured, sizeof limits->measured, "2026-01-01T00:00:00Z");
    limits->flops_per_s[FLOAT32] = 1e9;
    limits->flops_per_s[FLOAT64] = 7e8;
    assert_true(limits_save(&facts, PROGRAM, limits));
    assert_false(limits_prove(&facts, PROGRAM, limits, kernel, &geometry, geometry.flops / 1.04e9, text));
    pid_t writers[WRITERS];
    for (int w = 0; w < WRITERS; w++) {
        writers[w] = fork();
        if (writers[w] > 0) continue;
        for (int round = 1; round <= ROUNDS; round++)
            limits_prove(&facts, PROGRAM, limits, kernel, &geometry,
                         geometry.flops / (1e9 * (1 + round) * (1 + 0.1 * w)), text);
        _exit(0);
    }
    for (int w = 0; w < WRITERS; w++) assert_int_equal(waitpid(writers[w], NULL, 0), writers[w]);
    struct device_limits *back = limits_load(&facts, PROGRAM);
    assert_non_null(back);
    double best = 1e9 * (1 + ROUNDS) * (1 + 0.1 * (WRITERS - 1));
    assert_true(back->flops_per_s[FLOAT32] <= 1.001 * best);
    assert_true(back->flops_per_s[FLOAT32] >=
                best / ROOF_PROVEN / 1.001); /* what exceeds a roof by less proves nothing */
    assert_true(fabs(back->flops_per_s[FLOAT64] - 7e8) < 1);
    assert_true(isnan(back->memory_bytes_per_s));
    limits_free(back);
    limits_free(limits);
}

/* Of other builds: long after they were replaced. */
static void old_files_go(void **state) {
    struct device_facts facts = cpu(), gpu = cpu();
    snprintf(gpu.name, sizeof gpu.name, "%s", "another device");
    struct device_limits *limits = draw_limits();
    const struct device_facts *of[] = {&facts, &facts, &gpu};
    const char *const programs[] = {"old", "young", "old"};
    char *paths[3];
    struct timespec month_ago[2] = {{time(NULL) - 30 * 86400, 0}, {time(NULL) - 30 * 86400, 0}};
    for (int i = 0; i < 3; i++) {
        assert_true(limits_save(of[i], programs[i], limits));
        paths[i] = limits_path(of[i], programs[i]);
    }
    utimensat(AT_FDCWD, paths[0], month_ago, 0);
    utimensat(AT_FDCWD, paths[2], month_ago, 0);
    assert_true(limits_save(&facts, PROGRAM, limits));
    assert_int_not_equal(access(paths[0], F_OK), 0);
    assert_int_equal(access(paths[1], F_OK), 0);
    assert_int_equal(access(paths[2], F_OK), 0);
    for (int i = 0; i < 3; i++) free(paths[i]);
    limits_free(limits);
}

int main(void) {
#define IN_CACHE(test) cmocka_unit_test_setup_teardown(test, make_cache, remove_folder)
    const struct CMUnitTest tests[] = {
        IN_CACHE(what_is_kept_comes_back),
        IN_CACHE(a_signal_costs_no_limits),
        IN_CACHE(only_for_this_device_and_program),
        IN_CACHE(damage_is_noticed),
        IN_CACHE(nonsense_is_refused),
        IN_CACHE(folders_are_made_or_done_without),
        IN_CACHE(whatever_lies_there),
        IN_CACHE(a_close_that_fails),
        IN_CACHE(many_writers),
        IN_CACHE(runs_raise_what_is_stored),
        IN_CACHE(old_files_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
