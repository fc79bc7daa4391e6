/* stream_fixture.h - for test_stream.c: plans made by hand, a sink that assembles boxes, and the truth by plain loops.
 *
 * Inputs are generated integers, so every sum is exact and results can be compared bit for bit. */
#include "../../runner/base/interrupt.h"
#include "../../runner/stream/stream.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARRAYS = 4 };

static struct error error;

/* ---- plans made by hand ------------------------------------------------------------------------------------------ */

struct fixture {
    struct team team;
    struct residents *residents; /* of its first device */
    struct job_input inputs[MAX_ARRAYS];
    struct array arrays[MAX_ARRAYS];
    struct task task;
    struct run run;
    struct plan plan;
    struct readers readers;
};

/* A team of CPU devices; if they are not unified they have memory of their own, as GPUs have. */
static void open_team(struct fixture *f, int devices, bool unified, int64_t budget) {
    memset(f, 0, sizeof *f);
    error = (struct error){.status = STATUS_OK};
    f->team = (struct team){.count = devices, .peers = true};
    for (int i = 0; i < devices; i++) {
        assert_int_equal(device_cpu_open(&f->team.devices[i], &error), STATUS_OK);
        f->team.devices[i]->unified = unified;
        f->team.residents[i] = residents_create(f->team.devices[i], budget);
    }
    f->residents = f->team.residents[0];
    f->plan = (struct plan){.arrays = f->arrays, .array_count = MAX_ARRAYS, .tasks = &f->task, .task_count = 1};
    readers_init(&f->readers, f->arrays, MAX_ARRAYS);
}

static void open_fixture(struct fixture *f, bool unified, int64_t budget) {
    open_team(f, 1, unified, budget);
}

static void close_fixture(struct fixture *f) {
    readers_free(&f->readers);
    for (int i = 0; i < f->team.count; i++) {
        residents_free(f->team.residents[i]);
        f->team.devices[i]->operations->close(f->team.devices[i]);
    }
}

static void set_input(struct fixture *f, int index, enum dtype dtype, struct shape shape) {
    struct random_terms terms = {.distribution = RANDOM_INTEGER, .low = 0, .high = 7, .seed = (uint64_t)index};
    f->inputs[index] = (struct job_input){.random = true, .terms = terms, .shape = shape, .dtype = dtype};
    f->arrays[index] =
        (struct array){.name = "input", .label = "", .dtype = dtype, .shape = shape, .from_job = &f->inputs[index]};
}

static void set_task(struct fixture *f, enum op op, struct op_options options, int in0, int in1, int out) {
    struct shape shapes[2] = {f->arrays[in0].shape, f->arrays[in1].shape};
    enum dtype dtypes[2] = {f->arrays[in0].dtype, f->arrays[in1].dtype};
    static const struct job_operation untimed;
    f->task = (struct task){.operation = &untimed, .in = {in0, in1}, .out = out};
    assert_int_equal(operations[op]->geometry(&options, shapes, dtypes, &f->task.geometry, &error), STATUS_OK);
    f->arrays[out] = (struct array){
        .name = "output", .label = "", .dtype = f->task.geometry.out.dtype, .shape = f->task.geometry.out.shape};
}

static int64_t tile_bytes(const struct operand *operand, const struct tiling *tiling, int64_t element, int *slots) {
    int64_t bytes = element;
    *slots = 1;
    for (int axis = 0; axis < operand->shape.rank; axis++) {
        bytes *= tiling->tile[operand->loop[axis]];
        if (tiling->tiles[operand->loop[axis]] > 1) *slots = 2;
    }
    return bytes > 256 ? bytes : 256;
}

/* Sets up a run of the simplest CPU variant in tiles of this size. */
static void set_run(struct fixture *f, const int64_t tile[LOOPS]) {
    const struct geometry *geometry = &f->task.geometry;
    struct tiling *tiling = &f->run.tiling;
    bool split = false;
    int ignored;
    f->run = (struct run){.kernel = kernel_find(geometry->op, "cpu"), .label = "cpu", .tiling.steps = 1};
    for (int loop = 0; loop < LOOPS; loop++) {
        int64_t extent = geometry->extent[loop];
        tiling->tile[loop] = tile[loop] < extent ? tile[loop] : extent;
        tiling->tiles[loop] =
            extent > 0 ? (extent + tiling->tile[loop] - 1) / tiling->tile[loop] : geometry->reduces[loop];
        tiling->steps *= tiling->tiles[loop];
        if (geometry->reduces[loop] && tiling->tiles[loop] > 1) split = true;
    }
    for (int i = 0; i < geometry->inputs; i++)
        tiling->in_bytes[i] =
            tile_bytes(&geometry->in[i], tiling, (int64_t)dtype_size(geometry->in[i].dtype), &tiling->in_slots[i]);
    tiling->out_bytes =
        tile_bytes(&geometry->out, tiling, (int64_t)dtype_size(geometry->out.dtype), &tiling->out_slots);
    if (geometry->partial_size > 0 && (split || geometry->partial_always))
        tiling->partial_bytes = tile_bytes(&geometry->out, tiling, (int64_t)geometry->partial_size, &ignored);
}

static const int64_t whole[LOOPS] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};

/* ---- a sink that assembles boxes --------------------------------------------------------------------------------- */

struct collected {
    const struct array *array;
    char *data;
    int boxes, steps;
    int64_t elements, step_bytes;
    int fail_at;      /* the box whose writing fails; 0: none */
    int interrupt_at; /* the step after which a signal comes; 0: none */
};

static enum status collect(void *context, const struct box *box, const void *data, struct error *failure) {
    struct collected *c = context;
    if (++c->boxes == c->fail_at) return FAIL_CALL(failure, STATUS_IO, "write", "disk full");
    int64_t size = (int64_t)dtype_size(c->array->dtype), count[OPERAND_RANK] = {1, 1, 1}, start[OPERAND_RANK] = {0},
            extent[OPERAND_RANK] = {1, 1, 1};
    for (int axis = 0; axis < box->rank; axis++) {
        int to = axis + OPERAND_RANK - box->rank;
        count[to] = box->count[axis];
        start[to] = box->start[axis];
        extent[to] = c->array->shape.size[axis];
    }
    const char *from = data;
    for (int64_t i = 0; i < count[0]; i++)
        for (int64_t j = 0; j < count[1]; j++, from += count[2] * size) {
            int64_t at = ((start[0] + i) * extent[1] + start[1] + j) * extent[2] + start[2];
            memcpy(c->data + at * size, from, (size_t)(count[2] * size));
        }
    c->elements += box_elements(box);
    return STATUS_OK;
}

static void collect_step(void *context, int64_t bytes) {
    struct collected *c = context;
    if (++c->steps == c->interrupt_at) interrupt_request(15);
    c->step_bytes += bytes;
}

static void *new_values(const struct array *array) {
    size_t bytes = (size_t)shape_elements(&array->shape) * dtype_size(array->dtype);
    void *data = malloc(bytes + 1);
    assert_non_null(data);
    memset(data, 0xEE, bytes);
    return data;
}

static enum status run_stream(struct fixture *f, struct collected *c, struct stream_result *result,
                              struct stream **stream) {
    struct sink sink = {.write = collect, .step = collect_step, .context = c};
    struct pass pass = {&f->plan, &f->run, &f->run.tiling, &f->readers, NULL, false};
    return stream_run(&f->team, &pass, &sink, result, stream, &error);
}

/* ---- the truth, by plain loops ----------------------------------------------------------------------------------- */

static void *read_whole(struct fixture *f, int number) {
    const struct array *array = &f->arrays[number];
    void *data = new_values(array);
    struct box box = box_whole(&array->shape);
    if (box_elements(&box) > 0)
        assert_int_equal(reader_read(&f->readers.items[number], &box, data, NULL, &error), STATUS_OK);
    return data;
}

static int64_t rows_of(const struct array *array) {
    return array->shape.size[array->shape.rank - 2];
}
static int64_t columns_of(const struct array *array) {
    return array->shape.size[array->shape.rank - 1];
}
static int64_t matrices_of(const struct array *array) {
    return array->shape.rank == 3 ? array->shape.size[0] : 1;
}

static void *matmul_truth(struct fixture *f) {
    struct array *a = &f->arrays[f->task.in[0]], *b = &f->arrays[f->task.in[1]], *c = &f->arrays[f->task.out];
    int64_t m = rows_of(a), k = columns_of(a), n = columns_of(b);
    void *x = read_whole(f, f->task.in[0]), *y = read_whole(f, f->task.in[1]), *z = new_values(c);
    for (int64_t s = 0; s < matrices_of(c); s++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = 0;
                for (int64_t p = 0; p < k; p++)
                    sum += dtype_load(a->dtype, x, (s * m + i) * k + p) *
                           dtype_load(b->dtype, y, (matrices_of(b) > 1 ? s * k : 0) * n + p * n + j);
                dtype_store(c->dtype, z, (s * m + i) * n + j, sum);
            }
    free(x);
    free(y);
    return z;
}

static void *transpose_truth(struct fixture *f) {
    struct array *in = &f->arrays[f->task.in[0]];
    size_t size = dtype_size(in->dtype);
    int64_t rows = rows_of(in), columns = columns_of(in);
    char *x = read_whole(f, f->task.in[0]), *y = new_values(&f->arrays[f->task.out]);
    for (int64_t s = 0; s < matrices_of(in); s++)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++)
                memcpy(y + (size_t)((s * columns + c) * rows + r) * size,
                       x + (size_t)((s * rows + r) * columns + c) * size, size);
    free(x);
    return y;
}

/* The sum along one axis (or all) of integers. */
static void *sum_truth(struct fixture *f) {
    struct array *in = &f->arrays[f->task.in[0]], *out = &f->arrays[f->task.out];
    int axis = f->task.geometry.options.axis;
    int64_t inner = 1, length = shape_elements(&in->shape);
    if (axis != REDUCE_ALL_AXES) {
        length = in->shape.size[axis];
        for (int later = axis + 1; later < in->shape.rank; later++) inner *= in->shape.size[later];
    }
    void *x = read_whole(f, f->task.in[0]), *y = new_values(out);
    for (int64_t o = 0; o < shape_elements(&out->shape); o++) {
        int64_t sum = 0;
        for (int64_t l = 0; l < length; l++)
            sum += dtype_load_integer(in->dtype, x, (o / inner * length + l) * inner + o % inner);
        dtype_store_integer(out->dtype, y, o, sum);
    }
    free(x);
    return y;
}

static void *truth_of(struct fixture *f) {
    switch (f->task.geometry.op) {
    case OP_MATMUL: return matmul_truth(f);
    case OP_TRANSPOSE: return transpose_truth(f);
    default: return sum_truth(f);
    }
}

/* Streams the fixture's run and compares every byte; the stream stays open. */
static struct stream *stream_and_compare(struct fixture *f, struct stream_result *result) {
    struct array *out = &f->arrays[f->task.out];
    struct collected c = {.array = out, .data = new_values(out)};
    struct stream *stream;
    void *truth = truth_of(f);
    assert_int_equal(run_stream(f, &c, result, &stream), STATUS_OK);
    assert_int_equal(c.elements, shape_elements(&out->shape));
    assert_int_equal(c.steps, f->run.tiling.steps);
    assert_int_equal(c.step_bytes, result->bytes_read + result->bytes_written);
    assert_memory_equal(c.data, truth, (size_t)c.elements * dtype_size(out->dtype));
    free(truth);
    free(c.data);
    return stream;
}
