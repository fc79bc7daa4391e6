/* test_result_resume.c - what is kept of a job that was not completed: finished parts are found again, damaged ones are
 * done again; a writer is killed, a disk is full. */
#include "result_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void test_resume(void **state) {
    struct fixture *f = *state;
    struct error error = {STATUS_OK, ""};
    struct result_row row, found;
    struct results *results = open_results(f, false, true);
    assert_false(results_find(results, &f->runs[0], &found));
    assert_int_equal(do_run(f, results, 0, "wrong", &row, &error), STATUS_OK);
    run_ok(f, results, 1, &row);
    results_close(results);

    results = open_results(f, false, true);
    assert_false(results_find(results, &f->runs[0], &found)); /* it was wrong, so it is tried again */
    assert_true(results_find(results, &f->runs[1], &found));
    assert_memory_equal(&found, &row, sizeof row);
    results_load_output(results, &f->runs[1]);
    assert_int_equal(reader_open(&f->readers.of[2], &error), STATUS_OK);
    assert_false(results_find(results, &f->runs[2], &found));
    results_close(results);

    assert_refused(f, f->output, "holds 1 finished run of a job that was not completed; --resume");
    results = open_results(f, true, false);
    assert_false(results_find(results, &f->runs[1], &found));
    results_close(results);
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
    results_close(results);
    char path[160];
    first_part(f, path);
    results = open_results(f, false, true);
    assert_true(results_find(results, &f->runs[0], &row));
    assert_true(results_find(results, &f->runs[1], &row));
    results_close(results);
    assert_int_equal(unlink(path), 0);
    results = open_results(f, false, true);
    assert_false(results_find(results, &f->runs[0], &row));
    assert_false(results_find(results, &f->runs[1], &row));
    results_close(results);
}

static void test_hurt_part_is_redone(void **state) {
    struct fixture *f = *state;
    for (int hurt = 0; hurt < 3; hurt++) {
        struct result_row row;
        char path[160];
        struct results *results = open_results(f, true, false);
        run_ok(f, results, 0, &row);
        results_close(results);
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
        assert_false(results_find(results, &f->runs[0], &row));
        assert_false(exists(path));
        results_close(results);
    }
}

static void test_killed_writer(void **state) {
    struct fixture *f = *state;
    pid_t child = fork();
    if (child == 0) {
        struct error error = {STATUS_OK, ""};
        struct results *results = open_results(f, false, false);
        struct result_row row;
        struct part *part;
        run_ok(f, results, 0, &row);
        part_begin(results, &f->runs[2], &part, &error);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    struct result_row row;
    struct results *results = open_results(f, false, true); /* the lock ended with its holder */
    assert_true(results_find(results, &f->runs[0], &row));
    assert_false(results_find(results, &f->runs[2], &row));
    DIR *parts = opendir(f->parts);
    for (struct dirent *entry; (entry = readdir(parts));) assert_null(strstr(entry->d_name, ".tmp"));
    closedir(parts);
    results_close(results);
}

/* A limit on file size acts as a full disk: an error, no crash, no partial file; finished parts are kept. */
static void test_full_disk(void **state) {
    struct fixture *f = *state;
    for (rlim_t limit = 1024; limit < 600000; limit = limit * 3 / 2) {
        pid_t child = fork();
        if (child == 0) {
            struct error error = {STATUS_OK, ""};
            struct results *results = open_results(f, true, false);
            struct result_row rows[3];
            signal(SIGXFSZ, SIG_IGN);
            assert_int_equal(do_run(f, results, 2, "ok", &rows[2], &error), STATUS_OK);
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){limit, RLIM_INFINITY});
            enum status status = do_run(f, results, 0, "ok", &rows[0], &error);
            if (status == STATUS_OK) _exit(0);
            if (status != STATUS_IO || error.status != STATUS_IO || !*error.text) _exit(2);
            bool kept = results_find(results, &f->runs[2], &rows[2]);
            results_close(results);
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
    results_close(results);
    for (rlim_t limit = 1024; limit < 480000; limit *= 2) {
        pid_t child = fork();
        if (child == 0) {
            struct error error = {STATUS_OK, ""};
            struct environment environment;
            int result_run[2] = {0, 2};
            results = open_results(f, false, true);
            environment_collect(&f->plan.facts[DEVICE_CPU], &environment);
            struct result_summary summary = summary_of(rows, result_run, &environment);
            signal(SIGXFSZ, SIG_IGN);
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){limit, RLIM_INFINITY});
            enum status status = results_assemble(results, &summary, &error);
            results_close(results);
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
    for (int i = 0; i < 3; i++) assert_true(results_find(results, &f->runs[i], &rows[i]));
    assemble(f, results, rows);
    results_close(results);
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
    };
    return cmocka_run_group_tests_name("result_resume", tests, NULL, NULL);
}
