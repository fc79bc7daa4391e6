/* test_result.c - a job's results: what is refused, who holds the lock, keys, the assembled file, reading it back. */
#include "../../runner/commands/command.h"
#include "../../runner/storage/h5/h5file.h"
#include "../../runner/storage/untrusted/h5open.h"
#include "../../runner/store/output.h"
#include "result_fixture.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

static bool has(hid_t file, const char *path) {
    return H5Oexists_by_name(file, path, H5P_DEFAULT) > 0;
}

static void test_whole_way(void **state) {
    struct fixture *f = *state;
    struct result_row rows[3];
    struct results *results = open_results(f, false, false);
    for (int i = 0; i < 3; i++) run_ok(f, results, i, &rows[i]);
    assert_false(exists(f->output));
    struct error error = {.status = STATUS_OK};
    results_point_at_output(results, &f->runs[0]);
    assert_int_equal(reader_open(&f->readers.items[2], &error), STATUS_OK);
    assemble(f, results, rows);
    store_close(results);
    assert_true(is_complete(f));
    f->operations[1].resolved = "reduce max";
    assert_false(is_complete(f));

    assert_false(exists(f->parts));
    struct results_file *back;
    struct samples samples;
    assert_int_equal(command_results_open(f->output, &back, &error), STATUS_OK);
    assert_int_equal(back->count, 3);
    assert_memory_equal(&back->rows[1], &rows[1], sizeof *rows);
    assert_int_equal(results_file_samples(back, &back->rows[2], &samples, &error), STATUS_OK);
    assert_int_equal(samples.count, 3);
    assert_true(samples.seconds[1] == 2e-3 && isnan(samples.conditions[1].clock_mhz) && samples.turn[2] == 2);
    assert_true(samples.conditions[2].power_w == 310 && samples.conditions[2].throttle == THROTTLE_HEAT);
    samples_free(&samples);
    char *output = results_file_output(back, &back->rows[2]), *tool = results_file_text(back, "/", "tool_version");
    assert_string_equal(output, "/variants/n=4/total/tree");
    assert_string_equal(tool, tilerun_version);
    assert_null(results_file_text(back, "/absent/at/all", "x"));
    assert_true(results_file_number(back, output, "run") == 2);
    free(tool);
    free(output);
    results_file_close(back);

    hid_t file = H5Fopen(f->output, H5F_ACC_RDONLY, H5P_DEFAULT);
    static const char *const there[] = {"/job",
                                        "/job_resolved",
                                        "/environment",
                                        "/inputs/X",
                                        "/inputs/n=4/R",
                                        "/outputs/n=4/double",
                                        "/outputs/n=4/total",
                                        "/runs",
                                        "/variants/n=4/total/tree",
                                        "/samples/0",
                                        "/samples/2_clock_mhz"};
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        if (!has(file, there[i])) fail_msg("no %s", there[i]);
    H5Fclose(file);
    struct h5_dataset *dataset;
    float *values = must_malloc(ELEMENTS * sizeof *values);
    assert_int_equal(h5_open(f->output, "/outputs/n=4/double", &dataset, &error), STATUS_OK);
    struct box whole = box_whole(&dataset->shape);
    assert_true(dataset->filtered);
    assert_int_equal(h5_read(dataset, &whole, values, &error), STATUS_OK);
    assert_memory_equal(values, f->values, ELEMENTS * sizeof *values);
    h5_close(&dataset);
    free(values);
}

static void test_refusals(void **state) {
    struct fixture *f = *state;
    char path[128];
    assert_refused(f, folder, "is a directory");
    assert_refused(f, f->input, "is the job's input 'X'");
    assert_refused(f, f->job_path, "is the job file");
    snprintf(path, sizeof path, "%s/absent/out.h5", folder);
    assert_refused(f, path, "No such file or directory");
    snprintf(path, sizeof path, "%s/out.h5", f->input);
    assert_refused(f, path, "is not a folder");
    assert_refused(f, "", "names no file");
    assert_refused(f, "/proc/out.h5", "/proc");
    fclose(fopen(f->output, "w"));
    assert_refused(f, f->output, "--overwrite");
    struct results *results = open_results(f, true, false);
    struct error error = {.status = STATUS_OK};
    struct results *second;
    const struct store_policy policy = {.overwrite = true};
    assert_int_equal(store_open(f->output, &policy, &f->units, NULL, &f->readers, &second, &error), STATUS_USAGE);
    assert_non_null(strstr(error.text, "another tilerun"));
    store_close(results);
    assert_false(exists(f->parts)); /* a job that did nothing leaves no trace */
}

static void test_keys_tell_apart(void **state) {
    struct fixture *f = *state;
    char keys[6][33];
    key_of(f, &f->runs[0], keys[0]);
    key_of(f, &f->runs[1], keys[1]);
    key_of(f, &f->runs[2], keys[2]);
    f->readers.items[0].hash[0] ^= 1;
    key_of(f, &f->runs[0], keys[3]);
    key_of(f, &f->runs[2], keys[4]); /* it changes through the result that the run reads */
    f->readers.items[0].hash[0] ^= 1;
    f->operations[1].resolved = "reduce max";
    key_of(f, &f->runs[2], keys[5]);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < i; j++) assert_string_not_equal(keys[i], keys[j]);
}

enum { RIVALS = 6, TURNS = 400, MOST_TURNS = 1000 * TURNS };

/* Opens and closes the results repeatedly, and until it has had them once, for a refusal is quicker than a turn; the
 * exit status says what went wrong. `holders` counts the present holders of the lock. */
static int take_turns(struct fixture *f, atomic_int *holders) {
    int held = 0;
    for (int i = 0; i < TURNS || (held == 0 && i < MOST_TURNS); i++) {
        struct error error = {.status = STATUS_OK};
        struct results *results;
        const struct store_policy policy = {.overwrite = false};
        enum status status = store_open(f->output, &policy, &f->units, NULL, &f->readers, &results, &error);
        if (status && !strstr(error.text, "another tilerun is writing it")) return fputs(error.text, stderr), 2;
        if (status) continue;
        held++;
        if (atomic_fetch_add(holders, 1) != 0) return 3;
        atomic_fetch_sub(holders, 1);
        store_close(results);
    }
    return held > 0 ? 0 : 4;
}

/* A process that comes while the last holder removes the lock and its folder either gets the lock or is told of the
 * process that got it. */
static void test_rivals_for_the_lock(void **state) {
    struct fixture *f = *state;
    atomic_int *holders = mmap(NULL, sizeof *holders, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[RIVALS];
    atomic_init(holders, 0);
    for (int i = 0; i < RIVALS; i++)
        if ((children[i] = fork()) == 0) _exit(take_turns(f, holders));
    for (int i = 0; i < RIVALS; i++) {
        int how;
        assert_int_equal(waitpid(children[i], &how, 0), children[i]);
        assert_true(WIFEXITED(how));
        assert_int_equal(WEXITSTATUS(how), 0);
    }
    munmap(holders, sizeof *holders);
    assert_false(exists(f->parts));
}

static void test_other_files_are_refused(void **state) {
    struct fixture *f = *state;
    struct error error = {.status = STATUS_OK};
    struct results_file *file;
    assert_int_equal(command_results_open(f->input, &file, &error), STATUS_USAGE);
    assert_non_null(strstr(error.text, "not a results file of tilerun"));
    error = (struct error){.status = STATUS_OK};
    assert_int_equal(command_results_open(f->job_path, &file, &error), STATUS_USAGE);
    assert_non_null(strstr(error.text, "is not an HDF5 file"));
}

/* What lies in OUTPUT.parts is read where OUTPUT is missing. */
static void test_unfinished(void **state) {
    struct fixture *f = *state;
    struct error error = {.status = STATUS_OK};
    struct results *results = open_results(f, false, false);
    struct results_file *back;
    struct result_row rows[2];
    struct samples samples;
    assert_int_equal(command_results_open(f->output, &back, &error), STATUS_OK);
    assert_true(back->count == 0 && strstr(back->standing, "no run is finished yet"));
    results_file_close(back);
    run_ok(f, results, 0, &rows[0]);
    run_ok(f, results, 1, &rows[1]);
    assert_int_equal(command_results_open(f->output, &back, &error), STATUS_OK);
    assert_int_equal(back->count, 2);
    assert_memory_equal(back->rows, rows, sizeof rows);
    OWNED char *command = job_resume_command(f->job_path, f->output);
    OWNED char *said = must_printf("unfinished: 2 of 3 runs are done; `%s` continues", command);
    assert_string_equal(back->standing, said);
    assert_int_equal(results_file_samples(back, &back->rows[1], &samples, &error), STATUS_OK);
    assert_true(samples.count == 3 && samples.seconds[1] == 2e-3 && isnan(samples.conditions[1].clock_mhz));
    samples_free(&samples);
    assert_null(results_file_output(back, &back->rows[0]));
    assert_null(results_file_text(back, "/", "schema"));
    assert_null(results_file_job(back, false));
    results_file_close(back);
    store_close(results);
}

/* What is not in the part, and what the file has already: HDF5's own words tell which. */
static void test_what_cannot_be_copied(void **state) {
    struct fixture *f = *state;
    static const char *const cases[][3] = {{"absent", "/outputs/new", "object 'absent' doesn't exist"},
                                           {"x", "/outputs/old", "destination object already exists"}};
    for (int attributes = 0; attributes < 2; attributes++)
        for (int i = 0; i < 2; i++) {
            struct error error = {.status = STATUS_OK};
            hid_t part, file;
            assert_int_equal(h5_open_file(f->input, &part, &error), STATUS_OK);
            assert_int_equal(h5_create_file(f->output, &file, &error), STATUS_OK);
            assert_int_equal(copy_whole_object(part, "x", file, "/outputs/old", attributes, &error), STATUS_OK);
            assert_int_equal(copy_whole_object(part, cases[i][0], file, cases[i][1], attributes, &error), STATUS_IO);
            if (!strstr(error.text, cases[i][2]) || !strstr(error.text, f->input) || !strstr(error.text, cases[i][1]))
                fail_msg("%s", error.text);
            H5Fclose(part);
            H5Fclose(file);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_whole_way),
        TEST(test_refusals),
        TEST(test_keys_tell_apart),
        TEST(test_rivals_for_the_lock),
        TEST(test_other_files_are_refused),
        TEST(test_unfinished),
        TEST(test_what_cannot_be_copied),
    };
    return cmocka_run_group_tests_name("result", tests, NULL, NULL);
}
