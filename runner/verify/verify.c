/* verify.c - checks a run's output against the truth.
 *
 *     full      every element, where that is cheap or asked for
 *     sampled   small boxes, the corners and others spread by a fixed generator, each element against its truth; and
 * for matmul Freivalds' check of the whole, in freivalds.c
 *
 * An error is |out - truth| / magnitude, the magnitude being what rounding errors scale with (|A||B| for a product). A
 * NaN or infinity where the truth, rounded to the output's type, has none is wrong, and so is the reverse. */
#include "verify.h"

#include "freivalds.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FULL_FLOPS    3e9 /* VERIFY_AUTO: up to this much work every element is checked */
#define FULL_ELEMENTS (INT64_C(1) << 22)
#define BAND_ELEMENTS (INT64_C(1) << 20) /* of one box in a full check: bounds memory */
#define SAMPLE_READS  (INT64_C(1) << 28) /* input elements that samples may read in all */

/* ---- truths, kept for the other variants of a task --------------------------------------------------------------- */

struct known {
    int task;
    struct box box;
    struct truth truth;
    struct known *next;
};

struct truth_cache {
    struct known *known;
    struct freivalds *freivalds; /* of `freivalds_task` */
    int freivalds_task;
};

struct truth_cache *truth_cache_create(void) {
    struct truth_cache *cache = must_malloc(sizeof *cache);
    *cache = (struct truth_cache){.freivalds_task = -1};
    return cache;
}

static void known_free(struct known *known) {
    free(known->truth.value);
    free(known->truth.magnitude);
    free(known->truth.integer);
    free(known);
}

static void truth_cache_clear(struct truth_cache *cache) {
    while (cache->known) {
        struct known *next = cache->known->next;
        known_free(cache->known);
        cache->known = next;
    }
    freivalds_free(cache->freivalds);
    cache->freivalds = NULL;
    cache->freivalds_task = -1;
}

void truth_cache_free(struct truth_cache *cache) {
    if (!cache) return;
    truth_cache_clear(cache);
    free(cache);
}

/* The truth of a box of a task's output, computed once. */
static enum status truth_of(struct truth_cache *cache, int task, const struct geometry *geometry,
                            const struct host_reader *reader, const struct box *box, const struct truth **truth,
                            struct error *error) {
    if (cache->known && cache->known->task != task) truth_cache_clear(cache);
    for (struct known *known = cache->known; known; known = known->next)
        if (box_equal(&known->box, box)) return *truth = &known->truth, STATUS_OK;
    struct known *known = must_malloc(sizeof *known);
    unsigned long elements = (unsigned long)box_elements(box) + 1;
    *known = (struct known){.task = task, .box = *box};
    known->truth.value = must_malloc(elements * sizeof(double));
    known->truth.magnitude = must_malloc(elements * sizeof(double));
    known->truth.integer = must_malloc(elements * sizeof(int64_t));
    enum status status = operations[geometry->op]->reference(geometry, reader, box, &known->truth, error);
    if (status) { /* half a truth must not judge the next variant */
        known_free(known);
        return status;
    }
    known->next = cache->known;
    cache->known = known;
    *truth = &known->truth;
    return STATUS_OK;
}

/* ---- one box ----------------------------------------------------------------------------------------------------- */

static double element_error(enum dtype dtype, const void *data, int64_t i, const struct truth *truth) {
    if (!dtype_is_float(dtype)) return dtype_load_integer(dtype, data, i) == truth->integer[i] ? 0 : INFINITY;
    double out = dtype_load(dtype, data, i), value = truth->value[i], rounded;
    uint64_t room;
    dtype_store(dtype, &room, 0, value);
    rounded = dtype_load(dtype, &room, 0);
    if (out == rounded || (isnan(out) && isnan(rounded))) return 0;
    if (!isfinite(out) || !isfinite(rounded)) return INFINITY;
    double difference = fabs(out - value); /* below the least number a right result may be 0 or that number */
    return difference <= dtype_least(dtype) ? 0 : difference / truth->magnitude[i];
}

/* Row-major index in the box -> "[3, 17]" in the output. */
static void element_place(const struct box *box, int64_t index, char text[96]) {
    int64_t at[MAX_RANK] = {0};
    for (int axis = box->rank - 1; axis >= 0; axis--) {
        at[axis] = box->start[axis] + index % box->count[axis];
        index /= box->count[axis];
    }
    int length = snprintf(text, 96, "[");
    for (int axis = 0; axis < box->rank; axis++)
        length += snprintf(text + length, 96 - (size_t)length, "%s%lld", axis ? ", " : "", (long long)at[axis]);
    snprintf(text + length, 96 - (size_t)length, "]");
}

static void check_box(enum dtype dtype, const void *data, const struct box *box, const struct truth *truth,
                      struct verdict *verdict) {
    int64_t elements = box_elements(box);
    for (int64_t i = 0; i < elements; i++) {
        double wrong = element_error(dtype, data, i, truth);
        if (!(wrong <= verdict->error)) verdict->error = wrong;
        if (wrong <= verdict->tolerance || !verdict->right) continue;
        verdict->right = false;
        char place[96];
        element_place(box, i, place);
        if (dtype_is_float(dtype))
            snprintf(verdict->message, sizeof verdict->message, "%s is %.9g, should be %.9g", place,
                     dtype_load(dtype, data, i), truth->value[i]);
        else
            snprintf(verdict->message, sizeof verdict->message, "%s is %lld, should be %lld", place,
                     (long long)dtype_load_integer(dtype, data, i), (long long)truth->integer[i]);
    }
}

/* ---- which boxes ------------------------------------------------------------------------------------------------- */

/* The next band of a full check, in row-major order; false: there is none. Bands are runs of at most BAND_ELEMENTS. */
static bool next_band(const struct shape *shape, int64_t *done, struct box *box) {
    int64_t total = shape_elements(shape);
    if (*done >= total) return false;
    *box = box_whole(shape);
    int64_t inner = total, rest = *done; /* elements behind the axis; of what is done, those past its start */
    for (int axis = 0; axis < shape->rank; axis++) {
        inner /= shape->size[axis];
        box->start[axis] = rest / inner;
        rest %= inner;
        int64_t rows = BAND_ELEMENTS / inner, left = shape->size[axis] - box->start[axis];
        bool whole_rows = rest == 0 && rows > 0;
        box->count[axis] = whole_rows && rows > 1 ? (rows < left ? rows : left) : 1;
        if (whole_rows) break; /* all axes behind are whole, as box_whole() left them */
    }
    *done += box_elements(box);
    return true;
}

static uint64_t splitmix(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Sample number `number`: the first and last corners, then boxes anywhere. */
static struct box sample_box(const struct geometry *geometry, int number) {
    const struct shape *shape = &geometry->out.shape;
    int64_t edge = geometry->op == OP_MATMUL || geometry->op == OP_REDUCE ? 4 : 64;
    struct box box = {.rank = shape->rank};
    uint64_t state = (uint64_t)number * 7919;
    for (int axis = 0; axis < shape->rank; axis++) {
        int64_t size = shape->size[axis];
        box.count[axis] = shape->rank == 3 && axis == 0 ? 1 : size < edge ? size : edge;
        int64_t room = size - box.count[axis];
        box.start[axis] = number == 0 ? 0 : number == 1 ? room : (int64_t)(splitmix(&state) % (uint64_t)(room + 1));
    }
    return box;
}

static int sample_count(const struct geometry *geometry) {
    struct box box = sample_box(geometry, 0);
    int64_t reads = 0;
    for (int i = 0; i < geometry->inputs; i++) {
        int64_t elements = 1;
        for (int axis = 0; axis < geometry->in[i].shape.rank; axis++) {
            int64_t count = geometry->extent[geometry->in[i].loop[axis]];
            for (int o = 0; o < box.rank; o++)
                if (geometry->out.loop[o] == geometry->in[i].loop[axis]) count = box.count[o];
            elements *= count;
        }
        reads += elements;
    }
    int64_t count = SAMPLE_READS / (reads > 0 ? reads : 1);
    return count < 2 ? 2 : count > 24 ? 24 : (int)count;
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

/* Inputs come from the plan's arrays, the output from the run. */
struct sources {
    const struct plan *plan;
    const struct task *task;
    const struct host_reader *output;
};

static enum status read_source(void *context, int input, const struct box *box, void *data, struct error *error) {
    const struct sources *sources = context;
    if (input < 0) return sources->output->read(sources->output->context, -1, box, data, error);
    return array_read(&sources->plan->arrays[sources->task->in[input]], box, data, NULL, error);
}

static enum status compare_box(const struct run *run, const struct geometry *geometry, const struct host_reader *reader,
                               const struct box *box, struct truth_cache *cache, struct verdict *verdict,
                               struct error *error) {
    const struct truth *truth;
    enum status status = truth_of(cache, run->task, geometry, reader, box, &truth, error);
    if (status) return status;
    void *data = must_malloc((unsigned long)box_elements(box) * dtype_size(geometry->out.dtype) + 8);
    status = reader->read(reader->context, -1, box, data, error);
    if (!status) check_box(geometry->out.dtype, data, box, truth, verdict);
    free(data);
    return status;
}

static enum status check_everything(const struct run *run, const struct geometry *geometry,
                                    const struct host_reader *reader, struct truth_cache *cache,
                                    struct verdict *verdict, struct error *error) {
    bool keep = shape_elements(&geometry->out.shape) <= FULL_ELEMENTS;
    struct box box;
    for (int64_t done = 0; next_band(&geometry->out.shape, &done, &box);) {
        if (!keep) truth_cache_clear(cache);
        enum status status = compare_box(run, geometry, reader, &box, cache, verdict, error);
        if (status) return status;
    }
    return STATUS_OK;
}

static enum status check_samples(const struct run *run, const struct geometry *geometry,
                                 const struct host_reader *reader, struct truth_cache *cache, struct verdict *verdict,
                                 struct error *error) {
    int count = sample_count(geometry);
    for (int i = 0; i < count; i++) {
        struct box box = sample_box(geometry, i);
        enum status status = compare_box(run, geometry, reader, &box, cache, verdict, error);
        if (status) return status;
    }
    return STATUS_OK;
}

/* Freivalds' check of a product, and a direct one of the rows that it cannot judge: as many as work allows. */
static enum status check_product(const struct run *run, const struct geometry *geometry,
                                 const struct host_reader *reader, struct truth_cache *cache, struct verdict *verdict,
                                 struct error *error) {
    enum status status = STATUS_OK;
    if (cache->freivalds_task != run->task) {
        freivalds_free(cache->freivalds);
        cache->freivalds = NULL;
        cache->freivalds_task = -1;
        if ((status = freivalds_prepare(geometry, reader, &cache->freivalds, error))) return status;
        cache->freivalds_task = run->task;
    }
    struct unsure_rows unsure;
    if ((status = freivalds_check(cache->freivalds, geometry, reader, verdict, &unsure, error))) return status;
    int64_t reads = geometry->extent[LOOP_K] * geometry->extent[LOOP_N]; /* of one row: all of a B */
    int64_t rows = SAMPLE_READS / (reads > 0 ? reads : 1);
    rows = rows < 2 ? 2 : rows > UNSURE_ROWS ? UNSURE_ROWS : rows;
    for (int64_t i = 0; i < rows && i < unsure.count && verdict->right && !status; i++)
        status = compare_box(run, geometry, reader, &unsure.row[i], cache, verdict, error);
    return status;
}

enum status verify_run(const struct plan *plan, const struct run *run, const struct host_reader *output,
                       struct truth_cache *cache, struct verdict *verdict, struct error *error) {
    const struct task *task = &plan->tasks[run->task];
    const struct geometry *geometry = &task->geometry;
    const struct run_options *options = &task->operation->run;
    *verdict = (struct verdict){.right = true, .error = NAN, .tolerance = NAN};
    if (run->kernel->limit) return STATUS_OK; /* nothing that it could be compared with */
    *verdict = (struct verdict){.right = true, .error = NAN, .tolerance = options->tolerance};
    if (isnan(verdict->tolerance))
        verdict->tolerance = operations[geometry->op]->tolerance(geometry, run->kernel->accuracy);
    if (options->verify == VERIFY_NONE) return STATUS_OK;

    struct sources sources = {plan, task, output};
    struct host_reader reader = {read_source, &sources};
    verdict->error = 0;
    int64_t elements = shape_elements(&geometry->out.shape);
    double work = geometry->op == OP_MATMUL ? geometry->flops : 0;
    bool full = options->verify == VERIFY_FULL || elements <= 1 ||
                (options->verify == VERIFY_AUTO && elements <= FULL_ELEMENTS && work <= FULL_FLOPS);
    if (full) return check_everything(run, geometry, &reader, cache, verdict, error);
    enum status status = check_samples(run, geometry, &reader, cache, verdict, error);
    if (status || geometry->op != OP_MATMUL || !verdict->right) return status;
    return check_product(run, geometry, &reader, cache, verdict, error);
}
