/* test_result_resume.c - what is kept of a job that was not completed: finished parts are found again, damaged ones are
 * done again; a writer is killed, a disk is full. */
#include "../../runner/commands/command.h"
#include "result_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void test_resume(void **state) {
    struct fixture *f = *state;
    struct error error = {.status = STATUS_OK};
    struct result_row row, found;
    struct results *results = open_results(f, false, true);
    assert_false(store_find(results, &f->runs[0], &found));
    assert_int_equal(do_run(f, results, 0, "wrong", &row, &error), STATUS_OK);
    run_ok(f, results, 1, &row);
    store_close(results);

    results = open_results(f, false, true);
    assert_false(store_find(results, &f->runs[0], &found)); /* it was wrong, so it is tried again */
    assert_true(store_find(results, &f->runs[1], &found));
    assert_memory_equal(&found, &row, sizeof row);
    results_point_at_output(results, &f->runs[1]);
    assert_int_equal(reader_open(&f->readers.items[2], &error), STATUS_OK);
    assert_false(store_find(results, &f->runs[2], &found));
    store_close(results);

    assert_refused(f, f->output, "holds 1 finished run of a job that was not completed; --resume");
    results = open_results(f, true, false);
    assert_false(store_find(results, &f->runs[1], &found));
    store_close(results);
}

/* The path of run 0's finished part. */
static void first_part(const struct fixture *f, char path[160]) {
    char key[33];
    key_of(f, &f->runs[0], key);
    snprintf(path, 160, "%s/%s.h5", f->parts, key);
}

/* The part of a later variant has no output, so it is of no use alone. */
static void test_resume_without_the_first_part(void **state) {
    struct fixture *f = *state;
    struct result_row row;
    struct results *results = open_results(f, false, false);
    run_ok(f, results, 0, &row);
    run_ok(f, results, 1, &row);
    store_close(results);
    char path[160];
    first_part(f, path);
    results = open_results(f, false, true);
    assert_true(store_find(results, &f->runs[0], &row));
    assert_true(store_find(results, &f->runs[1], &row));
    store_close(results);
    assert_int_equal(unlink(path), 0);
    results = open_results(f, false, true);
    assert_false(store_find(results, &f->runs[0], &row));
    assert_false(store_find(results, &f->runs[1], &row));
    store_close(results);
}

static void test_hurt_part_is_redone(void **state) {
    struct fixture *f = *state;
    for (int hurt = 0; hurt < 3; hurt++) {
        struct result_row row;
        char path[160];
        struct results *results = open_results(f, true, false);
        run_ok(f, results, 0, &row);
        store_close(results);
        first_part(f, path);
        struct stat about;
        assert_int_equal(stat(path, &about), 0);
        if (hurt == 0) assert_int_equal(truncate(path, about.st_size - 100), 0);
        if (hurt == 1) assert_int_equal(truncate(path, 0), 0);
        if (hurt == 2) {
            int descriptor = open(path, O_RDWR);
            assert_int_equal(pwrite(descriptor, "?", 1, about.st_size / 2), 1);
            close(descriptor);
        }
        results = open_results(f, false, true);
        assert_false(store_find(results, &f->runs[0], &row));
        assert_false(exists(path));
        store_close(results);
    }
}

static void test_killed_writer(void **state) {
    struct fixture *f = *state;
    pid_t child = fork();
    if (child == 0) {
        struct error error = {.status = STATUS_OK};
        struct results *results = open_results(f, false, false);
        struct result_row row;
        struct part *part;
        run_ok(f, results, 0, &row);
        unit_begin(results, &f->runs[2], &part, &error);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    struct result_row row;
    struct results *results = open_results(f, false, true); /* the lock ended with its holder */
    assert_true(store_find(results, &f->runs[0], &row));
    assert_false(store_find(results, &f->runs[2], &row));
    DIR *parts = opendir(f->parts);
    for (struct dirent *entry; (entry = readdir(parts));) assert_null(strstr(entry->d_name, ".tmp"));
    closedir(parts);
    store_close(results);
}

/* A limit on file size acts as a full disk: an error, no crash, no partial file; finished parts are kept. */
static void test_full_disk(void **state) {
    struct fixture *f = *state;
    for (rlim_t limit = 1024; limit < 600000; limit = limit * 3 / 2) {
        pid_t child = fork();
        if (child == 0) {
            struct error error = {.status = STATUS_OK};
            struct results *results = open_results(f, true, false);
            struct result_row rows[3];
            signal(SIGXFSZ, SIG_IGN);
            assert_int_equal(do_run(f, results, 2, "ok", &rows[2], &error), STATUS_OK);
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){limit, RLIM_INFINITY});
            enum status status = do_run(f, results, 0, "ok", &rows[0], &error);
            if (status == STATUS_OK) _exit(0);
            if (status != STATUS_IO || error.status != STATUS_IO || !*error.text) _exit(2);
            bool kept = store_find(results, &f->runs[2], &rows[2]);
            store_close(results);
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}); /* for leak reports */
            exit(kept ? STATUS_IO : 4);
        }
        int how;
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFEXITED(how));
        assert_int_equal(WEXITSTATUS(how), limit < ELEMENTS * 4 ? STATUS_IO : WEXITSTATUS(how) ? STATUS_IO : 0);
    }
}

static void test_full_disk_at_assembly(void **state) {
    struct fixture *f = *state;
    struct result_row rows[3];
    struct results *results = open_results(f, false, false);
    for (int i = 0; i < 3; i++) run_ok(f, results, i, &rows[i]);
    store_close(results);
    for (rlim_t limit = 1024; limit < 480000; limit *= 2) {
        pid_t child = fork();
        if (child == 0) {
            struct error error = {.status = STATUS_OK};
            struct environment environment;
            int result_run[2] = {0, 2};
            results = open_results(f, false, true);
            environment_collect(&f->plan.facts[DEVICE_CPU], NULL, &environment);
            struct result_summary summary = summary_of(rows, result_run, &environment);
            signal(SIGXFSZ, SIG_IGN);
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){limit, RLIM_INFINITY});
            enum status status = store_publish(results, &summary, &error);
            store_close(results);
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
            exit(status);
        }
        int how;
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFEXITED(how));
        assert_int_equal(WEXITSTATUS(how), STATUS_IO);
        assert_false(exists(f->output));
    }
    results = open_results(f, false, true);
    for (int i = 0; i < 3; i++) assert_true(store_find(results, &f->runs[i], &rows[i]));
    assemble(f, results, rows);
    store_close(results);
    assert_true(is_complete(f));
}

/* What another process is told of OUTPUT: a holder of the lock does not see it held. */
static void assert_standing(const struct fixture *f, const char *expected) {
    int how;
    pid_t child = fork();
    if (child == 0) {
        struct error error = {.status = STATUS_OK};
        struct results_file *back;
        if (command_results_open(f->output, &back, &error)) _exit(2);
        bool same = expected && back->standing ? strcmp(expected, back->standing) == 0 : !expected == !back->standing;
        if (!same) fprintf(stderr, "'%s', not '%s'\n", back->standing, expected);
        _exit(!same);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

/* OUTPUT is complete, and written anew. */
static void test_standing_beside_an_output(void **state) {
    struct fixture *f = *state;
    struct result_row rows[3];
    char expected[512];
    struct results *results = open_results(f, false, false);
    for (int i = 0; i < 3; i++) run_ok(f, results, i, &rows[i]);
    assemble(f, results, rows);
    store_close(results);
    assert_standing(f, NULL);
    results = open_results(f, true, false);
    for (int i = 0; i < 3; i++) {
        snprintf(expected, sizeof expected, "running: a job is writing this output again; %d run%s finished so far", i,
                 i == 1 ? "" : "s");
        assert_standing(f, expected);
        if (i < 2) run_ok(f, results, i, &rows[i]);
    }
    store_close(results);
    char path[160];
    first_part(f, path);
    for (int left = 2; left > 0; left--) {
        snprintf(expected, sizeof expected, "%s holds %d finished run%s of a job that was not completed", f->parts,
                 left, left == 1 ? "" : "s");
        assert_standing(f, expected);
        assert_int_equal(unlink(path), left == 2 ? 0 : -1);
    }
}

/* Beside the parts lie files of tilerun's, which go, and others whose names are nearly theirs, which stay. */
static void test_what_lies_beside_parts(void **state) {
    struct fixture *f = *state;
#define HEX "0123456789abcdef0123456789abcdef"
    static const struct {
        const char *name;
        bool ours;
    } files[] = {
        {"assembled.tmp", true},
        {"assembled.tmp2", false},
        {"shard.tmp", true},
        {HEX ".h5", true},
        {HEX ".h5.undo", false},
        {HEX ".txt", false},
        {HEX, false},
        {HEX "0.h5", false},
        {&HEX ".h5"[1], false},
        {"G" HEX ".h5", false},
        {"run-0.tmp", true},
        {"run-12345.tmp", true},
        {"run-.tmp", false},
        {"run-1", false},
        {"run-1.tmp~", false},
        {"run-x.tmp", false},
        {"ran-1.tmp", false},
        {"lock", true},
        {"lock2", false},
        {"shard-0-of", false},
        {"notes", false},
    };
#undef HEX
    assert_int_equal(mkdir(f->parts, 0777), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[160];
        snprintf(path, sizeof path, "%s/%s", f->parts, files[i].name);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fclose(file);
    }
    struct result_row rows[3];
    struct results *results = open_results(f, true, false);
    for (int i = 0; i < 3; i++) run_ok(f, results, i, &rows[i]);
    assemble(f, results, rows);
    store_close(results);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[160];
        snprintf(path, sizeof path, "%s/%s", f->parts, files[i].name);
        if (exists(path) == files[i].ours) fail_msg("%s %s", files[i].name, files[i].ours ? "stays" : "is gone");
        unlink(path);
    }
    assert_int_equal(rmdir(f->parts), 0); /* nothing else lies there */
    assert_true(is_complete(f));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_resume),
        TEST(test_resume_without_the_first_part),
        TEST(test_hurt_part_is_redone),
        TEST(test_killed_writer),
        TEST(test_full_disk),
        TEST(test_full_disk_at_assembly),
        TEST(test_standing_beside_an_output),
        TEST(test_what_lies_beside_parts),
    };
    return cmocka_run_group_tests_name("result_resume", tests, NULL, NULL);
}
