/* verify_fixture.h - for test_verify*.c and test_planted.c: a task made by hand. Its inputs are generated or in a file;
 * its output is in memory, computed by a CPU kernel. */
#ifndef TESTS_VERIFY_FIXTURE_H
#define TESTS_VERIFY_FIXTURE_H

#include "../../runner/storage/h5/h5io.h"
#include "../../runner/storage/reader.h"
#include "../../runner/verify/verify.h"
#include "scratch.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

struct fixture {
    struct job_input inputs[2];
    struct array arrays[3];
    struct job_operation operation;
    struct kernel kernel;
    struct task task;
    struct run run;
    struct plan plan;
    struct readers readers;
    void *out;
    int64_t elements;
    int64_t reads, input_reads;     /* boxes of the output, and of inputs, that were read */
    int64_t fail_at, input_fail_at; /* the read that fails; 0: none */
    struct truth_cache *cache;
    struct verdict verdict;
    char resolved[64]; /* random choices follow from it */
};

static struct error error;

/* Reads a box of an input or of the output, or fails as asked. */
static inline enum status read_out(void *context, int input, const struct box *box, void *data, struct error *failure) {
    struct fixture *f = context;
    if (input >= 0 && ++f->input_reads == f->input_fail_at) return FAIL_CALL(failure, STATUS_IO, "read", "planted");
    if (input >= 0) return reader_read(&f->readers.items[input], box, data, NULL, failure);
    if (++f->reads == f->fail_at) return FAIL_CALL(failure, STATUS_IO, "read", "planted");
    const struct shape *shape = &f->arrays[2].shape;
    size_t size = dtype_size(f->arrays[2].dtype);
    int64_t count[OPERAND_RANK] = {1, 1, 1}, start[OPERAND_RANK] = {0}, extent[OPERAND_RANK] = {1, 1, 1};
    for (int axis = 0, to = OPERAND_RANK - box->rank; axis < box->rank; axis++, to++) {
        count[to] = box->count[axis], start[to] = box->start[axis], extent[to] = shape->size[axis];
        assert_true(start[to] >= 0 && start[to] + count[to] <= extent[to]);
    }
    char *to = data;
    for (int64_t i = 0; i < count[0]; i++)
        for (int64_t j = 0; j < count[1]; j++, to += (size_t)count[2] * size) {
            int64_t at = ((start[0] + i) * extent[1] + start[1] + j) * extent[2] + start[2];
            memcpy(to, (char *)f->out + (size_t)at * size, (size_t)count[2] * size);
        }
    return STATUS_OK;
}

static inline void set_input(struct fixture *f, int number, enum dtype dtype, struct shape shape,
                             struct random_terms terms) {
    terms.seed = (uint64_t)number;
    f->inputs[number] = (struct job_input){.random = true, .terms = terms, .shape = shape, .dtype = dtype};
    f->arrays[number] =
        (struct array){.name = "input", .label = "", .dtype = dtype, .shape = shape, .from_job = &f->inputs[number]};
}

/* Writes an input's elements to a file of its own, from which they are then read. */
static inline void put_input(struct fixture *f, int number, const void *data) {
    char path[] = "/tmp/test_verify_XXXXXX";
    struct array *array = &f->arrays[number];
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0 && close(descriptor) == 0);
    store_array(path, array->dtype, &array->shape, &(struct h5_layout){.fletcher32 = true}, data);
    array->from_job = NULL;
    reader_set_dataset(&f->readers.items[number], path, "/x");
    assert_int_equal(reader_open(&f->readers.items[number], &error), STATUS_OK);
    unlink(path);
}

static inline void *read_input(struct fixture *f, int number) {
    const struct array *array = &f->arrays[number];
    struct box box = box_whole(&array->shape);
    void *data = malloc((size_t)box_elements(&box) * dtype_size(array->dtype) + 1);
    assert_non_null(data);
    assert_int_equal(reader_read(&f->readers.items[number], &box, data, NULL, &error), STATUS_OK);
    return data;
}

/* Computes the right result, by a CPU kernel in one launch. */
static inline void compute(struct fixture *f) {
    const struct geometry *geometry = &f->task.geometry;
    struct launch launch = {.multiprocessors = 2};
    struct tile tile = {{0}, {0}};
    memcpy(tile.count, geometry->extent, sizeof tile.count);
    void *in[2] = {read_input(f, 0), geometry->inputs > 1 ? read_input(f, 1) : NULL};
    void *partial = malloc((size_t)f->elements * geometry->partial_size + 1);
    const void *operands[2] = {in[0], in[1]};
    operations[geometry->op]->launch(geometry, &tile, true, true, operands, partial, f->out, &launch);
    size_t bytes = kernel_workspace(&f->kernel, &launch) / 256 * 256 + 256;
    launch.workspace = memset(aligned_alloc(256, bytes), 0, bytes);
    assert_int_equal(f->kernel.launch(&launch), 0);
    free(launch.workspace);
    free(partial);
    free(in[0]);
    free(in[1]);
}

/* Stores the generated inputs in a file, because reading is faster than generating. */
static inline void store_inputs(struct fixture *f) {
    for (int i = 0; i < f->task.geometry.inputs; i++) {
        void *data = read_input(f, i);
        put_input(f, i, data);
        free(data);
    }
}

/* Opens everything but the result; afterwards put_input may replace the inputs' elements. */
static inline void open_inputs(struct fixture *f, enum op op, struct op_options options, enum dtype dtype,
                               struct shape a, struct shape b, struct random_terms terms) {
    error = (struct error){.status = STATUS_OK};
    *f = (struct fixture){.operation.run = {.tolerance = NAN, .verify = VERIFY_AUTO}};
    f->operation.resolved = f->resolved;
    set_input(f, 0, dtype, a, terms);
    set_input(f, 1, dtype, b, terms);
    const struct kernel *kernel = kernel_find(op, "blocked");
    f->kernel = *(kernel ? kernel : kernel_find(op, "cpu"));
    struct shape shapes[2] = {a, b};
    enum dtype dtypes[2] = {dtype, dtype};
    f->task = (struct task){.operation = &f->operation, .in = {0, 1}, .out = 2};
    assert_int_equal(operations[op]->geometry(&options, shapes, dtypes, &f->task.geometry, &error), STATUS_OK);
    f->arrays[2] = (struct array){.dtype = f->task.geometry.out.dtype, .shape = f->task.geometry.out.shape};
    f->elements = shape_elements(&f->arrays[2].shape);
    f->out = malloc((size_t)f->elements * dtype_size(f->arrays[2].dtype) + 1);
    assert_non_null(f->out);
    f->run = (struct run){.kernel = &f->kernel, .label = "test"};
    f->plan = (struct plan){.arrays = f->arrays,
                            .array_count = 3,
                            .tasks = &f->task,
                            .task_count = 1,
                            .budget[DEVICE_CPU] = INT64_C(1) << 30};
    f->cache = truth_cache_create();
    readers_init(&f->readers, f->arrays, 3);
}

static inline void open_fixture(struct fixture *f, enum op op, struct op_options options, enum dtype dtype,
                                struct shape a, struct shape b, struct random_terms terms) {
    open_inputs(f, op, options, dtype, a, b, terms);
    compute(f);
}

static inline void close_fixture(struct fixture *f) {
    readers_free(&f->readers);
    truth_cache_free(f->cache);
    free(f->out);
}

static const struct random_terms around_zero = {.distribution = RANDOM_UNIFORM, .low = -1, .high = 1};
static const struct random_terms counting = {.distribution = RANDOM_INDEX};

/* C = A B, [m,k] x [k,n]. */
static inline void open_product(struct fixture *f, enum dtype dtype, int64_t m, int64_t n, int64_t k,
                                struct random_terms terms) {
    open_fixture(f, OP_MATMUL, (struct op_options){.alpha = 1}, dtype, (struct shape){2, {m, k}},
                 (struct shape){2, {k, n}}, terms);
}

static inline enum status verify(struct fixture *f) {
    struct host_reader reader = {.read = read_out, .context = f};
    f->reads = f->input_reads = 0;
    verify_begin(&f->plan, &f->run, f->cache);
    return verify_run(&f->plan, &f->run, &reader, f->cache, &f->verdict, &error);
}

static inline bool passes(struct fixture *f) {
    assert_int_equal(verify(f), STATUS_OK);
    return f->verdict.right;
}

static inline double get(const struct fixture *f, int64_t at) {
    return dtype_load(f->arrays[2].dtype, f->out, at);
}
static inline void set(struct fixture *f, int64_t at, double value) {
    dtype_store(f->arrays[2].dtype, f->out, at, value);
}

static inline bool says(const struct fixture *f, const char *words) {
    if (strstr(f->verdict.message, words)) return true;
    print_message("'%s' does not say '%s'\n", f->verdict.message, words);
    return false;
}

/* Is this value found when it is the only wrong one? */
static inline bool is_found(struct fixture *f, int64_t at, double value) {
    double right = get(f, at);
    set(f, at, value);
    bool found = !passes(f);
    set(f, at, right);
    return found;
}

#endif
