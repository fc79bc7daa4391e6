/* test_result.c - a job's results: refusal, parts, resuming, assembly, reading back; also from full disks. The plan is
 * made by hand: two operations, the second reads the first's result.
 *     double (scale of a file's matrix, variants simple and blocked)     total (reduce of it, store: all) */
#include "../../runner/result/result_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 300, COLUMNS = 400, ELEMENTS = ROWS * COLUMNS };
static const char job_text[] = "version: 1\n# Größe: as the user wrote it\n";

struct fixture {
    char folder[32], output[64], input[64], job_path[64];
    struct job job;
    struct job_input inputs[2];
    struct job_operation operations[2];
    struct job_variant variant;
    struct array arrays[4];
    struct task tasks[2];
    struct run runs[3];
    struct plan plan;
    struct readers readers;
    struct kernel kernel;
    float *values; /* what `double` gives */
};

static void write_files(struct fixture *f) {
    struct error error = {STATUS_OK, ""};
    struct shape shape = {2, {ROWS, COLUMNS}};
    struct box whole = box_whole(&shape);
    struct h5_layout layout = {.gzip = false};
    struct h5_dataset *dataset;
    hid_t file;
    assert_int_equal(h5_create_file(f->input, &file, &error), STATUS_OK);
    assert_int_equal(h5_create(file, "/x", FLOAT32, &shape, &layout, &dataset, &error), STATUS_OK);
    assert_int_equal(h5_write(dataset, &whole, f->values, &error), STATUS_OK);
    h5_close(dataset);
    assert_int_equal(h5_close_file(file, &error), STATUS_OK);
    FILE *job = fopen(f->job_path, "w");
    fputs(job_text, job);
    fclose(job);
}

static void make_plan(struct fixture *f) {
    f->kernel = (struct kernel){.name = "simple", .op = OP_SCALE, .device = DEVICE_CPU};
    f->inputs[0] = (struct job_input){.name = "X", .label = "", .file = f->input, .dataset = "/x"};
    f->inputs[1] = (struct job_input){.name = "R", .label = "n=4", .random = true, .shape = {1, {4}}};
    f->inputs[1].terms = (struct random_terms){.distribution = RANDOM_UNIFORM, .high = 1, .seed = 7};
    f->operations[0] =
        (struct job_operation){.id = "double", .label = "n=4", .op = OP_SCALE, .resolved = "scale alpha=2"};
    f->operations[0].run.fletcher32 = true;
    f->operations[1] = (struct job_operation){.id = "total", .label = "n=4", .op = OP_REDUCE, .resolved = "reduce sum"};
    f->operations[1].run.store = STORE_ALL;
    f->job = (struct job){.document = yaml_parse("job.yaml", job_text, strlen(job_text)), .path = f->job_path};
    f->job.name = "job";
    f->job.resolved = "version: 1\nname: job\n";
    f->job.sync = true;
    f->job.input_count = f->job.operation_count = 2;
    f->job.inputs = f->inputs;
    f->job.operations = f->operations;

    f->arrays[0] = (struct array){.name = "X", .label = "", .dtype = FLOAT32, .shape = {2, {ROWS, COLUMNS}}};
    f->arrays[1] = (struct array){.name = "R", .label = "n=4", .dtype = FLOAT32, .shape = {1, {4}}};
    f->arrays[2] = (struct array){.name = "double", .label = "n=4", .dtype = FLOAT32, .shape = {2, {ROWS, COLUMNS}}};
    f->arrays[3] = (struct array){.name = "total", .label = "n=4", .dtype = FLOAT32, .shape = {0, {0}}};
    f->arrays[0].input = &f->inputs[0];
    f->arrays[1].input = &f->inputs[1];
    struct error error = {STATUS_OK, ""};
    readers_init(&f->readers, f->arrays, 4);
    assert_int_equal(reader_hash(&f->readers.of[0], &error), STATUS_OK);

    struct operand matrix = {.dtype = FLOAT32, .shape = f->arrays[2].shape}, scalar = {.dtype = FLOAT32};
    f->tasks[0] = (struct task){.operation = &f->operations[0], .in = {0, 0}, .out = 2, .run_count = 2, .wanted = true};
    f->tasks[0].geometry = (struct geometry){.op = OP_SCALE, .inputs = 1, .in = {matrix}, .out = matrix};
    f->tasks[1] = (struct task){.operation = &f->operations[1], .in = {2, 2}, .out = 3, .first_run = 2, .run_count = 1};
    f->tasks[1].wanted = true;
    f->tasks[1].geometry = (struct geometry){.op = OP_REDUCE, .inputs = 1, .in = {matrix}, .out = scalar};
    static char *const labels[] = {"simple", "blocked", "tree"};
    for (int i = 0; i < 3; i++)
        f->runs[i] = (struct run){.number = i, .task = i / 2, .label = labels[i], .kernel = &f->kernel};
    f->plan = (struct plan){.job = &f->job, .array_count = 4, .task_count = 2, .run_count = 3};
    f->plan.present[DEVICE_CPU] = true;
    snprintf(f->plan.facts[DEVICE_CPU].id, sizeof f->plan.facts[DEVICE_CPU].id, "cpu");
    f->plan.arrays = f->arrays;
    f->plan.tasks = f->tasks;
    f->plan.runs = f->runs;
}

static int setup(void **state) {
    struct fixture *f = must_malloc(sizeof *f);
    memset(f, 0, sizeof *f);
    snprintf(f->folder, sizeof f->folder, "/tmp/test_result.XXXXXX");
    if (!mkdtemp(f->folder)) return -1;
    snprintf(f->output, sizeof f->output, "%s/out.h5", f->folder);
    snprintf(f->input, sizeof f->input, "%s/in.h5", f->folder);
    snprintf(f->job_path, sizeof f->job_path, "%s/job.yaml", f->folder);
    f->values = must_malloc(ELEMENTS * sizeof *f->values);
    for (int i = 0; i < ELEMENTS; i++) f->values[i] = (float)i;
    write_files(f);
    make_plan(f);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    char command[64];
    readers_free(&f->readers);
    yaml_close(f->job.document);
    assert_int_equal(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
    snprintf(command, sizeof command, "rm -r %s", f->folder);
    free(f->values);
    free(f);
    return system(command);
}

static struct results *open_results(struct fixture *f, bool overwrite, bool resume) {
    struct error error = {STATUS_OK, ""};
    struct results *results;
    if (results_open(f->output, overwrite, resume, &f->plan, &f->readers, &results, &error)) fail_msg("%s", error.text);
    return results;
}

static void assert_refused(struct fixture *f, const char *output, const char *words) {
    struct error error = {STATUS_OK, ""};
    struct results *results;
    assert_int_equal(results_open(output, false, false, &f->plan, &f->readers, &results, &error), STATUS_USAGE);
    assert_null(results);
    if (!strstr(error.text, words)) fail_msg("\"%s\" lacks \"%s\"", error.text, words);
}

/* Does a run as the runner would. */
static enum status do_run(struct fixture *f, struct results *results, int number, const char *outcome,
                          struct result_row *row, struct error *error) {
    const struct run *run = &f->runs[number];
    const struct shape *shape = &f->tasks[run->task].geometry.out.shape;
    double seconds[3] = {1e-3, 2e-3, 3e-3};
    float clock[3] = {1980, NAN, 1980}, first = -1;
    struct samples samples = {.count = 3, .seconds = seconds, .clock_mhz = clock};
    struct box whole = box_whole(shape), one = {shape->rank, {0}, {1, 1}};
    struct part *part;
    enum status status = part_begin(results, run, &part, error);
    if (status) return status;
    struct sink sink = part_sink(part, NULL);
    struct host_reader reader = part_reader(part);
    status = sink.write(sink.context, &whole, f->values, error);
    if (!status) status = reader.read(reader.context, -1, &one, &first, error);
    if (status) {
        part_discard(part);
        return status;
    }
    assert_true(first == 0.0f);
    result_row_init(row, &f->plan, run);
    snprintf(row->status, sizeof row->status, "%s", outcome);
    if (strcmp(outcome, "ok") == 0) row->kernel_median_s = 2e-3;
    row->error = 1e-7;
    return part_finish(part, row, &samples, error);
}

static void run_ok(struct fixture *f, struct results *results, int number, struct result_row *row) {
    struct error error = {STATUS_OK, ""};
    if (do_run(f, results, number, "ok", row, &error)) fail_msg("%s", error.text);
}

static struct result_summary summary_of(const struct result_row *rows, const int *result_run,
                                        const struct environment *environment) {
    return (struct result_summary){.status = "complete",
                                   .command_line = "tilerun run job.yaml",
                                   .created = "2026-03-01T12:34:56Z",
                                   .rows = rows,
                                   .result_run = result_run,
                                   .environment = environment};
}

static void assemble(struct fixture *f, struct results *results, const struct result_row *rows) {
    struct error error = {STATUS_OK, ""};
    struct environment environment;
    int result_run[2] = {0, 2};
    environment_collect(&f->plan.facts[DEVICE_CPU], &environment);
    struct result_summary summary = summary_of(rows, result_run, &environment);
    if (results_assemble(results, &summary, &error)) fail_msg("%s", error.text);
    environment_free(&environment);
}

/* Would --resume find nothing to do? */
static bool is_complete(struct fixture *f) {
    struct error error = {STATUS_OK, ""};
    struct results *results = open_results(f, false, true);
    bool done = false;
    enum status status = results_resume(results, false, &done, &error);
    assert_true(status == STATUS_OK || (status == STATUS_USAGE && strstr(error.text, "--overwrite")));
    results_close(results);
    return done;
}

static bool exists(const char *path) {
    return access(path, F_OK) == 0;
}

static bool has(hid_t file, const char *path) {
    return H5Oexists_by_name(file, path, H5P_DEFAULT) > 0;
}

static void test_whole_way(void **state) {
    struct fixture *f = *state;
    struct result_row rows[3], *back;
    struct results *results = open_results(f, false, false);
    for (int i = 0; i < 3; i++) run_ok(f, results, i, &rows[i]);
    assert_false(exists(f->output));
    struct error error = {STATUS_OK, ""};
    results_load_output(results, &f->runs[0]);
    assert_int_equal(reader_open(&f->readers.of[2], &error), STATUS_OK);
    assemble(f, results, rows);
    results_close(results);
    assert_true(is_complete(f));
    f->operations[1].resolved = "reduce max";
    assert_false(is_complete(f));

    char parts[80];
    int count;
    snprintf(parts, sizeof parts, "%s.parts", f->output);
    assert_false(exists(parts));
    assert_int_equal(results_read_rows(f->output, &back, &count, &error), STATUS_OK);
    assert_int_equal(count, 3);
    assert_memory_equal(&back[1], &rows[1], sizeof *back);
    free(back);

    hid_t file = H5Fopen(f->output, H5F_ACC_RDONLY, H5P_DEFAULT);
    static const char *const there[] = {
        "/job",          "/job_resolved",       "/environment",       "/inputs/X", "/inputs/X/source",
        "/inputs/n=4/R", "/outputs/n=4/double", "/outputs/n=4/total", "/runs",     "/variants/n=4/total/tree",
        "/samples/0",    "/samples/2_clock_mhz"};
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
    h5_close(dataset);
    free(values);
}

static void test_refusals(void **state) {
    struct fixture *f = *state;
    char path[128];
    assert_refused(f, f->folder, "is a directory");
    assert_refused(f, f->input, "is the job's input 'X'");
    assert_refused(f, f->job_path, "is the job file");
    snprintf(path, sizeof path, "%s/absent/out.h5", f->folder);
    assert_refused(f, path, "No such file or directory");
    snprintf(path, sizeof path, "%s/out.h5", f->input);
    assert_refused(f, path, "is not a folder");
    assert_refused(f, "", "names no file");
    assert_refused(f, "/proc/out.h5", "/proc");
    fclose(fopen(f->output, "w"));
    assert_refused(f, f->output, "--overwrite");
    struct results *results = open_results(f, true, false);
    struct error error = {STATUS_OK, ""};
    struct results *second;
    assert_int_equal(results_open(f->output, true, false, &f->plan, &f->readers, &second, &error), STATUS_USAGE);
    assert_non_null(strstr(error.text, "another tilerun"));
    results_close(results);
    snprintf(path, sizeof path, "%s.parts", f->output);
    assert_false(exists(path)); /* no trace of a job that did nothing */
}

/* As if asked for the first time. */
static void key_of(struct fixture *f, const struct run *run, char key[33]) {
    struct keys *keys = keys_create(&f->plan, &f->readers);
    keys_of_run(keys, run, key);
    keys_free(keys);
}

static void test_keys_tell_apart(void **state) {
    struct fixture *f = *state;
    char keys[6][33];
    key_of(f, &f->runs[0], keys[0]);
    key_of(f, &f->runs[1], keys[1]);
    key_of(f, &f->runs[2], keys[2]);
    f->readers.of[0].hash[0] ^= 1;
    key_of(f, &f->runs[0], keys[3]);
    key_of(f, &f->runs[2], keys[4]); /* through the result that it reads */
    f->readers.of[0].hash[0] ^= 1;
    f->operations[1].resolved = "reduce max";
    key_of(f, &f->runs[2], keys[5]);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < i; j++) assert_string_not_equal(keys[i], keys[j]);
}

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
    assert_false(results_find(results, &f->runs[0], &found)); /* was wrong: tried again */
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

/* A later variant's part lies without its output; it is no use alone. */
static void test_resume_without_the_first_part(void **state) {
    struct fixture *f = *state;
    struct result_row row;
    struct results *results = open_results(f, false, false);
    run_ok(f, results, 0, &row);
    run_ok(f, results, 1, &row);
    results_close(results);
    char key[33], path[160];
    key_of(f, &f->runs[0], key);
    snprintf(path, sizeof path, "%s.parts/%s.h5", f->output, key);
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
        char key[33], path[160];
        struct results *results = open_results(f, true, false);
        run_ok(f, results, 0, &row);
        results_close(results);
        key_of(f, &f->runs[0], key);
        snprintf(path, sizeof path, "%s.parts/%s.h5", f->output, key);
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
    struct results *results = open_results(f, false, true); /* the lock went with its holder */
    assert_true(results_find(results, &f->runs[0], &row));
    assert_false(results_find(results, &f->runs[2], &row));
    char parts[80];
    snprintf(parts, sizeof parts, "%s.parts", f->output);
    DIR *folder = opendir(parts);
    for (struct dirent *entry; (entry = readdir(folder));) assert_null(strstr(entry->d_name, ".tmp"));
    closedir(folder);
    results_close(results);
}

enum { RIVALS = 6, TURNS = 400 };

/* Opens and closes again and again; the exit status says what went wrong. `holders` counts who holds the lock now. */
static int take_turns(struct fixture *f, atomic_int *holders) {
    int held = 0;
    for (int i = 0; i < TURNS; i++) {
        struct error error = {STATUS_OK, ""};
        struct results *results;
        enum status status = results_open(f->output, false, false, &f->plan, &f->readers, &results, &error);
        if (status && !strstr(error.text, "another tilerun is writing it")) return fputs(error.text, stderr), 2;
        if (status) continue;
        held++;
        if (atomic_fetch_add(holders, 1) != 0) return 3;
        atomic_fetch_sub(holders, 1);
        results_close(results);
    }
    return held > 0 ? 0 : 4;
}

/* Whoever comes while the last holder removes the lock and its folder gets it, or meets who did. */
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
    char parts[80];
    snprintf(parts, sizeof parts, "%s.parts", f->output);
    assert_false(exists(parts));
}

/* A full disk, played by a limit on file size: an error, no crash, nothing half left, what is finished kept. */
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
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}); /* for a report of leaks */
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

static void test_read_rows_refuses(void **state) {
    struct fixture *f = *state;
    struct error error = {STATUS_OK, ""};
    struct result_row *rows;
    int count;
    assert_int_equal(results_read_rows(f->input, &rows, &count, &error), STATUS_USAGE);
    assert_non_null(strstr(error.text, "not one of tilerun's results"));
    error = (struct error){STATUS_OK, ""};
    assert_int_equal(results_read_rows(f->job_path, &rows, &count, &error), STATUS_USAGE);
    assert_non_null(strstr(error.text, "is not an HDF5 file"));
}

static int begin(void **state) {
    (void)state;
    h5_quiet();
    return 0;
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_whole_way),
        TEST(test_refusals),
        TEST(test_keys_tell_apart),
        TEST(test_resume),
        TEST(test_resume_without_the_first_part),
        TEST(test_hurt_part_is_redone),
        TEST(test_killed_writer),
        TEST(test_rivals_for_the_lock),
        TEST(test_full_disk),
        TEST(test_full_disk_at_assembly),
        TEST(test_read_rows_refuses),
    };
    return cmocka_run_group_tests_name("result", tests, begin, NULL);
}
