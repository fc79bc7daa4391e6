/* verify.c - checks a run's output against the truth.
 *
 *     full      every element: if that takes no more than reading the inputs once more, is little work, or is asked for
 *     sampled   small boxes, two corners and others drawn at random; and of a product the boxes that Freivalds' check
 *               suspects (freivalds.c), unless it is stored as integers
 *
 * In both ways elements are compared with their truth, in compare.c. */
#include "verify.h"

#include "../../kernels/core/cut.h"
#include "../base/fail.h"
#include "../plan/plan_cost.h"
#include "compare.h"
#include "freivalds.h"
#include "gather.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define BOX_ELEMENTS (INT64_C(1) << 20) /* of one box in a full check: bounds its memory */
#define SAMPLES      24
#define SAMPLE_READS (INT64_C(1) << 28) /* input elements that all samples together may read */

/* ---- truths, kept for the other variants of a task --------------------------------------------------------------- */

struct known {
    int task;
    struct box box;
    struct truth truth;
    struct known *next;
};

struct truth_cache {
    struct known *known;
    struct freivalds *freivalds; /* prepared for `freivalds_task` */
    int freivalds_task;
    int wanted_task;       /* whose inputs are gathered */
    struct gather *gather; /* what is read for the truths */
};

struct truth_cache *truth_cache_create(void) {
    struct truth_cache *cache = must_malloc(sizeof *cache);
    *cache = (struct truth_cache){.freivalds_task = -1, .wanted_task = -1, .gather = gather_create()};
    return cache;
}

static void known_free(struct known *known) {
    truth_free(&known->truth);
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
    gather_free(cache->gather);
    free(cache);
}

/* The truth of a box that all variants of a task compare with, computed once. *truth belongs to the cache. */
static enum status truth_of(struct truth_cache *cache, int task, const struct geometry *geometry,
                            const struct host_reader *reader, const struct box *box, const struct truth **truth,
                            struct error *error) {
    if (cache->known && cache->known->task != task) truth_cache_clear(cache);
    for (struct known *known = cache->known; known; known = known->next)
        if (box_equal(&known->box, box)) return *truth = &known->truth, STATUS_OK;
    struct known *known = must_malloc(sizeof *known);
    *known = (struct known){.task = task, .box = *box};
    enum status status = truth_allocate(geometry, box_elements(box), &known->truth, error);
    if (!status) status = operations[geometry->op]->reference(geometry, reader, box, &known->truth, error);
    if (status) { /* an incomplete truth must not judge the next variant */
        known_free(known);
        return status;
    }
    known->next = cache->known;
    cache->known = known;
    *truth = &known->truth;
    return STATUS_OK;
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

static uint64_t splitmix(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Is an element of the output computed from more than one element of an input? */
static bool sums_up(const struct geometry *geometry) {
    for (int loop = 0; loop < LOOPS; loop++)
        if (geometry->reduces[loop]) return true;
    return false;
}

/* Sample number `number`: the box at the first corner, the one at the last corner, then boxes anywhere. */
static struct box sample_box(const struct geometry *geometry, uint64_t seed, int number) {
    const struct shape *shape = &geometry->out.shape;
    int64_t edge = sums_up(geometry) ? 4 : 64;
    struct box box = {.rank = shape->rank};
    uint64_t state = seed + (uint64_t)number * 7919;
    for (int axis = 0; axis < shape->rank; axis++) {
        int64_t size = shape->size[axis];
        box.count[axis] = shape->rank == 3 && axis == 0 ? 1 : size < edge ? size : edge;
        int64_t room = size - box.count[axis];
        box.start[axis] = number == 0 ? 0 : number == 1 ? room : (int64_t)(splitmix(&state) % (uint64_t)(room + 1));
    }
    return box;
}

/* What an input must hold for a box of the output. */
static struct box input_box(const struct geometry *geometry, int input, const struct box *out) {
    const struct operand *operand = &geometry->in[input];
    struct box box = box_whole(&operand->shape);
    for (int axis = 0; axis < box.rank; axis++)
        for (int o = 0; o < out->rank; o++)
            if (geometry->out.loop[o] == operand->loop[axis])
                box.start[axis] = out->start[o], box.count[axis] = out->count[o];
    return box;
}

static int sample_count(const struct geometry *geometry) {
    struct box box = sample_box(geometry, 0, 0);
    int64_t reads = 0;
    for (int i = 0; i < geometry->inputs; i++) {
        struct box in = input_box(geometry, i, &box);
        reads += box_elements(&in);
    }
    int64_t count = SAMPLE_READS / (reads > 0 ? reads : 1);
    return count < 2 ? 2 : count > SAMPLES ? SAMPLES : (int)count;
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

/* A run under examination. */
struct examination {
    const struct run *run;
    const struct geometry *geometry;
    enum dtype stored;               /* the result's type where it is read */
    bool same;                       /* both inputs are one array */
    struct host_reader reader;       /* of what is held, and of files */
    const struct host_reader *files; /* alone */
    struct tolerance tolerance;
    uint64_t seed;
    struct truth_cache *cache;
    struct verdict *verdict;
};

/* Compares one box. `keep`: its truth stays in the cache for the task's other variants. */
static enum status compare_box(const struct examination *exam, const struct box *box, bool keep, struct error *error) {
    const struct geometry *geometry = exam->geometry;
    struct truth own = {0};
    const struct truth *truth = &own;
    enum status status = STATUS_OK;
    if (keep) {
        status = truth_of(exam->cache, exam->run->task, geometry, &exam->reader, box, &truth, error);
    } else if (!(status = truth_allocate(geometry, box_elements(box), &own, error))) {
        status = operations[geometry->op]->reference(geometry, &exam->reader, box, &own, error);
    }
    size_t bytes = (size_t)box_elements(box) * dtype_size(exam->stored) + 8;
    void *data = status ? NULL : malloc(bytes);
    if (!status && !data) status = fail(error, STATUS_RUN, "no host memory to verify %zu bytes", bytes);
    if (!status) status = exam->reader.read(exam->reader.context, -1, box, data, error);
    if (!status) compare_elements(geometry, exam->stored, data, box, truth, &exam->tolerance, exam->verdict);
    free(data);
    truth_free(&own);
    return status;
}

static enum status check_everything(const struct examination *exam, struct error *error) {
    const struct shape *shape = &exam->geometry->out.shape;
    const struct storage *storage = &exam->run->tiling.out_storage;
    bool keep = shape_elements(shape) <= WHOLE_ELEMENTS;
    struct box whole = box_whole(shape);
    struct grid grid = {.grain = storage->chunk, .whole = true};
    struct cut cut = cut_box(&whole, storage->filtered ? &grid : NULL, BOX_ELEMENTS);
    for (int64_t number = 0; number < cut.pieces; number++) {
        struct box box = cut_piece(&cut, number);
        TRY(compare_box(exam, &box, keep, error));
    }
    return STATUS_OK;
}

/* Compares boxes, whose part of the output is read in one walk over its chunks. */
static enum status compare_boxes(const struct examination *exam, const struct box *boxes, int count, bool keep,
                                 struct error *error) {
    struct gather *gather = exam->cache->gather;
    for (int i = 0; i < count; i++) gather_want(gather, GATHER_OUT, &boxes[i]);
    enum status status = gather_fill(gather, exam->files, error);
    for (int i = 0; i < count && !status && (keep || exam->verdict->right); i++)
        status = compare_box(exam, &boxes[i], keep, error);
    gather_forget_output(gather);
    return status;
}

static enum status check_samples(const struct examination *exam, struct error *error) {
    struct box boxes[SAMPLES];
    int count = sample_count(exam->geometry);
    for (int i = 0; i < count; i++) boxes[i] = sample_box(exam->geometry, exam->seed, i);
    return compare_boxes(exam, boxes, count, true, error);
}

static enum status check_suspects(const struct examination *exam, struct error *error) {
    struct truth_cache *cache = exam->cache;
    if (cache->freivalds_task != exam->run->task) {
        freivalds_free(cache->freivalds);
        cache->freivalds = NULL;
        cache->freivalds_task = -1;
        TRY(freivalds_prepare(exam->geometry, &exam->reader, exam->run, exam->same, exam->seed, &cache->freivalds,
                              error));
        cache->freivalds_task = exam->run->task;
    }
    struct suspects suspects;
    struct geometry stored = *exam->geometry;
    stored.out.dtype = exam->stored;
    TRY(freivalds_suspects(cache->freivalds, &stored, &exam->reader, exam->run, &suspects, error));
    return compare_boxes(exam, suspects.box, suspects.count, false, error);
}

static uint64_t seed_of(const struct plan *plan, const struct task *task) {
    const char *text = task->operation->resolved ? task->operation->resolved : "";
    uint64_t seed = XXH3_64bits(text, strlen(text));
    for (int i = 0; i < task->geometry.inputs; i++) {
        const struct job_input *input = plan->arrays[task->in[i]].input;
        if (input && input->random) seed = XXH3_64bits_withSeed(&input->terms.seed, sizeof input->terms.seed, seed);
    }
    return seed;
}

/* Wants what the samples are computed from: all of the inputs, if that is less. */
static void want_samples(struct gather *gather, const struct geometry *geometry, uint64_t seed) {
    int count = sample_count(geometry);
    double wanted = 0, all = 0;
    for (int input = 0; input < geometry->inputs; input++) {
        struct box box = sample_box(geometry, seed, 0), in = input_box(geometry, input, &box);
        wanted += (double)count * (double)box_elements(&in);
        all += (double)shape_elements(&geometry->in[input].shape);
    }
    if (all <= wanted && gather_want_whole(gather)) return;
    for (int i = 0; i < count; i++)
        for (int input = 0; input < geometry->inputs; input++) {
            struct box box = sample_box(geometry, seed, i), in = input_box(geometry, input, &box);
            gather_want(gather, input, &in);
        }
}

/* Does the truth take more than one reading of the inputs, or one that is slow? */
static bool reads_dearly(const struct task *task, const struct run *run) {
    bool dear = operations[task->geometry.op]->product || task->operation->run.verify == VERIFY_SAMPLED;
    for (int i = 0; i < task->geometry.inputs; i++)
        dear = dear || run->tiling.in_storage[i].filtered || run->tiling.in_storage[i].generated;
    return dear;
}

struct watch verify_begin(const struct plan *plan, const struct run *run, struct truth_cache *cache) {
    const struct task *task = &plan->tasks[run->task];
    const struct geometry *geometry = &task->geometry;
    struct gather *gather = cache->gather;
    bool whole = plan_checks_whole(task) || operations[geometry->op]->product, later = false;
    for (int i = 0; i < geometry->inputs; i++) later = later || plan->arrays[task->in[i]].last_reader > run->task;
    gather_begin(gather, plan, run);
    if (run->kernel->is_roof || task->operation->run.verify == VERIFY_NONE || cache->wanted_task == run->task)
        return gather_watch(gather);
    cache->wanted_task = run->task;
    bool held = (whole || later) && reads_dearly(task, run) && gather_want_whole(gather);
    if (!held && !plan_checks_whole(task)) want_samples(gather, geometry, seed_of(plan, task));
    return gather_watch(gather);
}

enum status verify_run(const struct plan *plan, const struct run *run, const struct host_reader *reader,
                       struct truth_cache *cache, struct verdict *verdict, struct error *error) {
    const struct task *task = &plan->tasks[run->task];
    const struct geometry *geometry = &task->geometry;
    const struct operation *operation = operations[geometry->op];
    const struct run_options *options = &task->operation->run;
    *verdict = (struct verdict){.right = true, .error = NAN, .tolerance = NAN, .how = "none"};
    if (run->kernel->is_roof) return STATUS_OK; /* a limit has no truth */
    struct tolerance tolerance = operation->tolerance(geometry, run->kernel->accuracy);
    if (!isnan(options->tolerance)) tolerance.relative = options->tolerance;
    verdict->tolerance = tolerance.relative;
    if (options->verify == VERIFY_NONE) return STATUS_OK;

    verdict->error = 0;
    struct examination exam = {.run = run,
                               .geometry = geometry,
                               .stored = plan->arrays[task->out].dtype,
                               .same = task->in[0] == task->in[1],
                               .reader = gather_reader(cache->gather, reader),
                               .files = reader,
                               .tolerance = tolerance,
                               .seed = seed_of(plan, task),
                               .cache = cache,
                               .verdict = verdict};
    TRY(gather_fill(cache->gather, reader, error));
    bool whole = plan_checks_whole(task);
    verdict->how = whole ? "full" : "sampled";
    if (whole) return check_everything(&exam, error);
    enum status status = check_samples(&exam, error);
    /* Sums of floats that were rounded once more still tell where to look, those of integers modulo 2^bits do not. */
    bool sums = operation->product && dtype_is_float(exam.stored);
    return status || !sums || !verdict->right ? status : check_suspects(&exam, error);
}
