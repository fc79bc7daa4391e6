/* verify.c - verifies a run's output by comparing it with the truth.
 *
 *     full      every element: if that takes no more than reading the inputs once more, is little work, or is requested
 *     sampled   small boxes, two at corners and others at random; of a product also the boxes that Freivalds' check
 *               suspects (freivalds.c), unless it is stored as integers
 *
 * compare.c compares the elements. */
#include "verify.h"
#include "../../kernels/map/before.h"

#include "../../kernels/core/cut.h"
#include "../base/fail.h"
#include "../plan/plan_cost.h"
#include "box_cache.h"
#include "compare.h"
#include "freivalds.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define BOX_ELEMENTS (INT64_C(1) << 20) /* largest box in a full check: bounds memory */
/* As in plan/plan_cost.c, which predicts the time of samples: their number, and their elements along an axis if each is
 * computed from one element of an input, or from many. */
#define SAMPLES          24
#define SAMPLE_EDGE      64
#define SAMPLE_EDGE_SUMS 4
#define SAMPLE_READS     (INT64_C(1) << 28) /* input elements that all samples together may read */

/* ---- the truths of a task, cached for its other variants --------------------------------------------------------- */

/* The truth of a box, in a list. */
struct known_truth {
    int task;
    struct box box;
    struct truth truth;
    struct known_truth *next;
};

struct truth_cache {
    struct known_truth *known;
    struct freivalds *freivalds; /* prepared for `freivalds_task` */
    int freivalds_task;
    int wanted_task;         /* the task whose inputs are requested from the box cache */
    struct box_cache *boxes; /* boxes that are read for the truths */
};

struct truth_cache *truth_cache_create(void) {
    struct truth_cache *cache = must_malloc(sizeof *cache);
    *cache = (struct truth_cache){.freivalds_task = -1, .wanted_task = -1, .boxes = box_cache_create()};
    return cache;
}

/* Frees all truths, and what was prepared for Freivalds' check. */
static void truth_cache_clear(struct truth_cache *cache) {
    while (cache->known) {
        struct known_truth *next = cache->known->next;
        truth_free(&cache->known->truth);
        free(cache->known);
        cache->known = next;
    }
    freivalds_free(cache->freivalds);
    cache->freivalds = NULL;
    cache->freivalds_task = -1;
}

void truth_cache_free(struct truth_cache *cache) {
    if (!cache) return;
    truth_cache_clear(cache);
    box_cache_free(cache->boxes);
    free(cache);
}

/* Allocates and computes the truth of a box. After a failure *truth holds nothing. */
static enum status compute_truth(const struct geometry *geometry, const struct host_reader *reader,
                                 const struct box *box, struct truth *truth, struct error *error) {
    TRY(truth_allocate(geometry, box_elements(box), truth, error));
    enum status status = operation_reference(geometry, reader, box, truth, error);
    if (status) truth_free(truth);
    return status;
}

/* The truth of a box, computed once for all variants of a task; drops another task's truths. *truth belongs to the
 * cache. */
static enum status cached_truth(struct truth_cache *cache, int task, const struct geometry *geometry,
                                const struct host_reader *reader, const struct box *box, const struct truth **truth,
                                struct error *error) {
    if (cache->known && cache->known->task != task) truth_cache_clear(cache);
    for (struct known_truth *known = cache->known; known; known = known->next)
        if (box_equal(&known->box, box)) {
            *truth = &known->truth;
            return STATUS_OK;
        }
    struct known_truth known = {.task = task, .box = *box, .next = cache->known};
    TRY(compute_truth(geometry, reader, box, &known.truth, error));
    cache->known = must_malloc(sizeof *cache->known);
    *cache->known = known;
    *truth = &cache->known->truth;
    return STATUS_OK;
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

/* Is an element of the output computed from several elements of an input? */
static bool is_reduction(const struct geometry *geometry) {
    for (int loop = 0; loop < LOOPS; loop++)
        if (geometry->reduces[loop]) return true;
    return false;
}

/* The box of sample number `number`: at the first corner, at the last corner, then at random positions. It lies in one
 * matrix of a stack. */
static struct box sample_box(const struct geometry *geometry, uint64_t seed, int number) {
    const struct shape *shape = &geometry->out.shape;
    int64_t edge = is_reduction(geometry) ? SAMPLE_EDGE_SUMS : SAMPLE_EDGE;
    struct box box = {.rank = shape->rank};
    uint64_t state = seed + (uint64_t)number * 7919; /* any odd factor gives each sample its own sequence */
    for (int axis = 0; axis < shape->rank; axis++) {
        int64_t size = shape->size[axis];
        box.count[axis] = shape->rank == 3 && axis == 0 ? 1 : size < edge ? size : edge;
        int64_t max_start = size - box.count[axis];
        box.start[axis] = number == 0   ? 0
                          : number == 1 ? max_start
                                        : (int64_t)(splitmix(&state) % (uint64_t)(max_start + 1));
    }
    return box;
}

/* The box of an input from which a box of the output is computed. */
static struct box input_box(const struct geometry *geometry, int input, const struct box *out) {
    const struct operand *operand = &geometry->in[input];
    struct box box = box_whole(&operand->shape);
    for (int axis = 0; axis < box.rank; axis++)
        for (int o = 0; o < out->rank; o++)
            if (geometry->out.loop[o] == operand->loop[axis])
                box.start[axis] = out->start[o], box.count[axis] = out->count[o];
    return box;
}

/* The number of samples: fewer, but at least the two corners, if SAMPLES would read more than SAMPLE_READS. */
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

/* The verification of one run. */
struct verification {
    const struct run *run;
    const struct geometry *geometry;
    enum dtype stored;               /* the stored type of the result */
    bool same;                       /* both inputs are the same array */
    struct host_reader reader;       /* reads from the cache and from files */
    const struct host_reader *files; /* reads from files only */
    struct tolerance tolerance;
    uint64_t seed;
    struct truth_cache *cache;
    struct verdict *verdict;
};

/* Compares one box. `keep`: caches its truth for the task's other variants. */
static enum status compare_box(const struct verification *check, const struct box *box, bool keep,
                               struct error *error) {
    const struct geometry *geometry = check->geometry;
    FREED_BY(truth_free) struct truth computed = {0};
    const struct truth *truth = &computed;
    TRY(keep ? cached_truth(check->cache, check->run->task, geometry, &check->reader, box, &truth, error)
             : compute_truth(geometry, &check->reader, box, &computed, error));
    size_t bytes = (size_t)box_elements(box) * dtype_size(check->stored);
    OWNED void *data = try_malloc(bytes + 1);
    if (!data) return fail(error, STATUS_RUN, "no host memory to verify %zu bytes", bytes);
    TRY(check->reader.read(check->reader.context, -1, box, data, error));
    compare_elements(geometry, check->stored, data, box, truth, &check->tolerance, check->verdict);
    return STATUS_OK;
}

/* Compares all elements box by box, and keeps their truth if it is small. */
static enum status check_everything(const struct verification *check, struct error *error) {
    const struct shape *shape = &check->geometry->out.shape;
    const struct storage *storage = &check->run->tiling.out_storage;
    bool keep = shape_elements(shape) <= FULL_CHECK_ELEMENTS;
    struct box whole = box_whole(shape);
    struct grid grid = {.grain = storage->chunk, .keep_grains = true};
    struct cut cut = cut_box(&whole, storage->filtered ? &grid : NULL, BOX_ELEMENTS);
    for (int64_t number = 0; number < cut.pieces; number++) {
        struct box box = cut_piece(&cut, number);
        TRY(compare_box(check, &box, keep, error));
    }
    return STATUS_OK;
}

/* Compares boxes. Reads their parts of the output in one walk over its chunks. With `keep`, caches all their truths;
 * without it, stops at the first wrong box. */
static enum status compare_boxes(const struct verification *check, const struct box *boxes, int count, bool keep,
                                 struct error *error) {
    struct box_cache *cache = check->cache->boxes;
    for (int i = 0; i < count; i++) box_cache_request(cache, CACHED_OUTPUT, &boxes[i]);
    enum status status = box_cache_fill(cache, check->files, error);
    for (int i = 0; i < count && !status && (keep || check->verdict->right); i++)
        status = compare_box(check, &boxes[i], keep, error);
    box_cache_drop_output(cache);
    return status;
}

static enum status check_samples(const struct verification *check, struct error *error) {
    struct box boxes[SAMPLES];
    int count = sample_count(check->geometry);
    for (int i = 0; i < count; i++) boxes[i] = sample_box(check->geometry, check->seed, i);
    return compare_boxes(check, boxes, count, true, error);
}

/* Compares the boxes that Freivalds' check suspects; prepares the check for the task's first variant. */
static enum status check_suspects(const struct verification *check, struct error *error) {
    struct truth_cache *cache = check->cache;
    if (cache->freivalds_task != check->run->task) {
        freivalds_free(cache->freivalds);
        cache->freivalds = NULL;
        cache->freivalds_task = -1;
        TRY(freivalds_prepare(check->geometry, &check->reader, check->run, check->same, check->seed, &cache->freivalds,
                              error));
        cache->freivalds_task = check->run->task;
    }
    struct suspects suspects;
    struct geometry stored = *check->geometry;
    stored.out.dtype = check->stored;
    TRY(freivalds_suspects(cache->freivalds, &stored, &check->reader, check->run, &suspects, error));
    return compare_boxes(check, suspects.box, suspects.count, false, error);
}

/* A seed that depends only on the operation's resolved text and the seeds of its random inputs. */
static uint64_t seed_of(const struct plan *plan, const struct task *task) {
    const char *text = task->operation->resolved ? task->operation->resolved : "";
    uint64_t seed = XXH3_64bits(text, strlen(text));
    for (int i = 0; i < task->geometry.inputs; i++) {
        const struct job_input *input = plan->arrays[task->in[i]].from_job;
        if (input && input->random) seed = XXH3_64bits_withSeed(&input->terms.seed, sizeof input->terms.seed, seed);
    }
    return seed;
}

/* Requests the boxes from which the samples are computed, or the complete inputs if they are smaller. */
static void request_samples(struct box_cache *boxes, const struct geometry *geometry, uint64_t seed) {
    int count = sample_count(geometry);
    double wanted = 0, all = 0;
    for (int input = 0; input < geometry->inputs; input++) {
        struct box box = sample_box(geometry, seed, 0), in = input_box(geometry, input, &box);
        wanted += (double)count * (double)box_elements(&in);
        all += (double)shape_elements(&geometry->in[input].shape);
    }
    if (all <= wanted && box_cache_request_inputs(boxes)) return;
    for (int i = 0; i < count; i++)
        for (int input = 0; input < geometry->inputs; input++) {
            struct box box = sample_box(geometry, seed, i), in = input_box(geometry, input, &box);
            box_cache_request(boxes, input, &in);
        }
}

/* Does the truth need several readings of the inputs, or a slow one? */
static bool is_costly_to_read(const struct task *task, const struct run *run) {
    bool costly = operations[task->geometry.op]->product || task->operation->run.verify == VERIFY_SAMPLED;
    for (int i = 0; i < task->geometry.inputs; i++)
        costly = costly || run->tiling.in_storage[i].filtered || run->tiling.in_storage[i].generated;
    return costly;
}

/* Requests boxes for the first verified run of a task: the complete inputs if they will be read more than once, reading
 * is costly, and they fit; else the boxes from which the samples are computed. */
struct box_observer verify_begin(const struct plan *plan, const struct run *run, struct truth_cache *cache) {
    const struct task *task = &plan->tasks[run->task];
    const struct geometry *geometry = &task->geometry;
    struct box_cache *boxes = cache->boxes;
    bool check_reads_all = plan_checks_all_elements(task) || operations[geometry->op]->product;
    bool later_task_reads = false;
    for (int i = 0; i < geometry->inputs; i++)
        later_task_reads = later_task_reads || plan->arrays[task->in[i]].last_reader > run->task;
    box_cache_begin(boxes, plan, run);
    bool is_verified = !run->kernel->is_roof && task->operation->run.verify != VERIFY_NONE;
    if (!is_verified || cache->wanted_task == run->task) return box_cache_observer(boxes);
    cache->wanted_task = run->task;
    bool held =
        (check_reads_all || later_task_reads) && is_costly_to_read(task, run) && box_cache_request_inputs(boxes);
    if (!held && !plan_checks_all_elements(task)) request_samples(boxes, geometry, seed_of(plan, task));
    return box_cache_observer(boxes);
}

enum status verify_run(const struct plan *plan, const struct run *run, const struct host_reader *reader,
                       struct truth_cache *cache, struct verdict *verdict, struct error *error) {
    const struct task *task = &plan->tasks[run->task];
    const struct geometry *geometry = &task->geometry;
    const struct operation *operation = operations[geometry->op];
    const struct run_options *options = &task->operation->run;
    *verdict = (struct verdict){.right = true, .error = NAN, .tolerance = NAN, .how = "none"};
    if (run->kernel->is_roof) return STATUS_OK; /* a roof has no truth */
    struct tolerance tolerance = operation->tolerance(geometry, run->kernel->accuracy);
    if (!isnan(options->tolerance)) tolerance.relative = options->tolerance;
    verdict->tolerance = tolerance.relative;
    if (options->verify == VERIFY_NONE) return STATUS_OK;

    verdict->error = 0;
    struct verification check = {.run = run,
                                 .geometry = geometry,
                                 .stored = plan->arrays[task->out].dtype,
                                 .same = task->in[0] == task->in[1],
                                 .reader = box_cache_reader(cache->boxes, reader),
                                 .files = reader,
                                 .tolerance = tolerance,
                                 .seed = seed_of(plan, task),
                                 .cache = cache,
                                 .verdict = verdict};
    TRY(box_cache_fill(cache->boxes, reader, error));
    bool checks_all = plan_checks_all_elements(task);
    verdict->how = checks_all ? "full" : "sampled";
    enum status status = checks_all ? check_everything(&check, error) : check_samples(&check, error);
    /* Sums of floats still locate errors after the conversion to another float type; sums of integers, which wrap
     * modulo 2^bits, do not. */
    bool sums = operation->product && dtype_is_float(check.stored);
    if (!status && !checks_all && sums && verdict->right) status = check_suspects(&check, error);
    compare_finish(verdict);
    return status;
}
