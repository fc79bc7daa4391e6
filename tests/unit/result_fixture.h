/* result_fixture.h - for test_result.c and test_result_resume.c: a plan made by hand of two operations, the second of
 * which reads the first's result, and what a runner does with it.
 *     double (scale of a file's matrix, variants simple and blocked)     total (reduce of it, store: all) */
#include "../../runner/store/results.h"
#include "scratch.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 300, COLUMNS = 400, ELEMENTS = ROWS * COLUMNS };
static const char job_text[] = "version: 1\n# Größe: as the user wrote it\n";

struct fixture {
    char output[64], parts[80], input[64], job_path[64];
    struct job job;
    struct job_input inputs[2];
    struct job_operation operations[2];
    struct job_variant variant;
    struct array arrays[4];
    struct task tasks[2];
    struct run runs[3];
    struct plan plan;
    struct units units; /* a task each */
    int of_task[3];
    struct box places[2];
    struct readers readers;
    struct kernel kernel;
    float *values; /* what `double` gives */
};

static inline void write_files(struct fixture *f) {
    struct shape shape = {2, {ROWS, COLUMNS}};
    store_array(f->input, FLOAT32, &shape, &(struct h5_layout){.level = 0}, f->values);
    FILE *job = fopen(f->job_path, "w");
    fputs(job_text, job);
    fclose(job);
}

static inline void make_plan(struct fixture *f) {
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
    f->arrays[0].from_job = &f->inputs[0];
    f->arrays[1].from_job = &f->inputs[1];
    readers_init(&f->readers, f->arrays, 4);
    /* Not computed: that would start worker threads here, and what they own counts as leaked in a forked child. */
    snprintf(f->readers.items[0].hash, sizeof f->readers.items[0].hash, "%032d", 1);

    struct operand matrix = {.dtype = FLOAT32, .shape = f->arrays[2].shape}, scalar = {.dtype = FLOAT32};
    f->tasks[0] = (struct task){.operation = &f->operations[0], .in = {0, 0}, .out = 2, .run_count = 2, .wanted = true};
    f->tasks[0].geometry = (struct geometry){.op = OP_SCALE, .inputs = 1, .in = {matrix}, .out = matrix};
    f->tasks[1] = (struct task){.operation = &f->operations[1], .in = {2, 2}, .out = 3, .first_run = 2, .run_count = 1};
    f->tasks[1].wanted = true;
    f->tasks[1].geometry = (struct geometry){.op = OP_REDUCE, .inputs = 1, .in = {matrix}, .out = scalar};
    static char *const labels[] = {"simple", "blocked", "tree"};
    for (int i = 0; i < 3; i++)
        f->runs[i] = (struct run){.number = i, .task = i / 2, .label = labels[i], .kernel = &f->kernel};
    f->plan = (struct plan){.job = &f->job, .input_count = 2, .array_count = 4, .task_count = 2, .run_count = 3};
    f->plan.present[DEVICE_CPU] = true;
    snprintf(f->plan.facts[DEVICE_CPU].id, sizeof f->plan.facts[DEVICE_CPU].id, "cpu");
    f->plan.arrays = f->arrays;
    f->plan.tasks = f->tasks;
    f->plan.runs = f->runs;
    for (int i = 0; i < 3; i++) f->of_task[i] = i;
    for (int i = 0; i < 2; i++) f->places[i] = box_whole(&f->arrays[2 + i].shape);
    f->units = (struct units){&f->plan, f->plan, f->of_task, f->places, f->of_task};
}

static inline int setup(void **state) {
    struct fixture *f = must_malloc(sizeof *f);
    memset(f, 0, sizeof *f);
    if (make_folder(state) != 0) return -1;
    snprintf(f->output, sizeof f->output, "%s/out.h5", folder);
    snprintf(f->parts, sizeof f->parts, "%s.parts", f->output);
    snprintf(f->input, sizeof f->input, "%s/in.h5", folder);
    snprintf(f->job_path, sizeof f->job_path, "%s/job.yaml", folder);
    f->values = must_malloc(ELEMENTS * sizeof *f->values);
    for (int i = 0; i < ELEMENTS; i++) f->values[i] = (float)i;
    write_files(f);
    make_plan(f);
    *state = f;
    return 0;
}

static inline int teardown(void **state) {
    struct fixture *f = *state;
    readers_free(&f->readers);
    yaml_close(f->job.document);
    assert_int_equal(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
    free(f->values);
    free(f);
    return remove_folder(state);
}

static inline struct results *open_results(struct fixture *f, bool overwrite, bool resume) {
    struct error error = {.status = STATUS_OK};
    struct results *results;
    const struct store_policy policy = {.overwrite = overwrite, .resume = resume};
    if (store_open(f->output, &policy, &f->units, NULL, &f->readers, &results, &error)) fail_msg("%s", error.text);
    return results;
}

static inline void assert_refused(struct fixture *f, const char *output, const char *words) {
    struct error error = {.status = STATUS_OK};
    struct results *results;
    const struct store_policy policy = {.overwrite = false};
    assert_int_equal(store_open(output, &policy, &f->units, NULL, &f->readers, &results, &error), STATUS_USAGE);
    assert_null(results);
    if (!strstr(error.text, words)) fail_msg("\"%s\" lacks \"%s\"", error.text, words);
}

/* Does a run as the runner would. */
static inline enum status do_run(struct fixture *f, struct results *results, int number, const char *outcome,
                                 struct result_row *row, struct error *error) {
    const struct run *run = &f->runs[number];
    const struct shape *shape = &f->tasks[run->task].geometry.out.shape;
    double seconds[3] = {1e-3, 2e-3, 3e-3};
    struct sample_conditions conditions[3] = {
        {1980, 300, 40, 0, false, NAN}, CONDITIONS_UNKNOWN, {1980, 310, 41, THROTTLE_HEAT, false, NAN}};
    int turn[3] = {1, 1, 2};
    float first = -1;
    struct samples samples = {.count = 3, .seconds = seconds, .conditions = conditions, .turn = turn};
    struct box whole = box_whole(shape), one = {shape->rank, {0}, {1, 1}};
    struct part *part;
    enum status status = unit_begin(results, run, &part, error);
    if (status) return status;
    struct sink sink = part_sink(part, NULL);
    struct host_reader reader = part_reader(part);
    status = sink.write(sink.context, &whole, f->values, error);
    if (!status) status = reader.read(reader.context, -1, &one, &first, error);
    if (status) {
        unit_discard(part);
        return status;
    }
    assert_true(first == 0.0f);
    result_row_init(row, &f->plan, run);
    snprintf(row->status, sizeof row->status, "%s", outcome);
    if (strcmp(outcome, "ok") == 0) row->kernel_median_s = 2e-3;
    row->error = 1e-7;
    return unit_keep(part, row, &samples, error);
}

static inline void run_ok(struct fixture *f, struct results *results, int number, struct result_row *row) {
    struct error error = {.status = STATUS_OK};
    if (do_run(f, results, number, "ok", row, &error)) fail_msg("%s", error.text);
}

static inline struct result_summary summary_of(const struct result_row *rows, const int *result_run,
                                               const struct environment *environment) {
    return (struct result_summary){.status = "complete",
                                   .command_line = "tilerun run job.yaml",
                                   .created = "2026-03-01T12:34:56Z",
                                   .rows = rows,
                                   .unit_rows = rows,
                                   .result_run = result_run,
                                   .environment = environment};
}

static inline void assemble(struct fixture *f, struct results *results, const struct result_row *rows) {
    struct error error = {.status = STATUS_OK};
    struct environment environment;
    int result_run[2] = {0, 2};
    environment_collect(&f->plan.facts[DEVICE_CPU], NULL, &environment);
    struct result_summary summary = summary_of(rows, result_run, &environment);
    if (store_publish(results, &summary, &error)) fail_msg("%s", error.text);
    environment_free(&environment);
}

/* Would --resume find nothing to do? */
static inline bool is_complete(struct fixture *f) {
    struct error error = {.status = STATUS_OK};
    struct results *results = open_results(f, false, true);
    bool done = false;
    enum status status = store_resume(results, false, &done, &error);
    assert_true(status == STATUS_OK || (status == STATUS_USAGE && strstr(error.text, "--overwrite")));
    store_close(results);
    return done;
}

/* A run's key, as if asked for the first time. */
static inline void key_of(const struct fixture *f, const struct run *run, char key[33]) {
    struct keys *keys = keys_create(&f->units, &f->readers);
    keys_of_run(keys, run, key);
    keys_free(keys);
}

static inline bool exists(const char *path) {
    return access(path, F_OK) == 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
