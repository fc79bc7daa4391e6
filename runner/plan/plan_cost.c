/* plan_cost.c - predicts the time of a run besides its pass: warm-up, samples, verification; and what the progress
 * display needs. */
#include "plan_cost.h"

#include "../base/fail.h"

#include <math.h>

/* Every element of a product is compared if it takes at most this many flops: with `verify: auto`, and with `sampled`,
 * where samples would take longer (measured with float32: equal at 80 x 80 x 80). */
#define FULL_CHECK_FLOPS    3e9
#define SAMPLED_CHECK_FLOPS 6e5

/* How stream/measure.c times kernels: launches shorter than BATCH_BELOW_S in batches of BATCH_S; one untimed launch
 * before a sample of launches shorter than LEAD_BELOW_S; before all samples, for launches shorter than LONG_S, a
 * warm-up of WARM_BLOCKS blocks. */
#define BATCH_BELOW_S 50e-6
#define BATCH_S       500e-6
#define LEAD_BELOW_S  1e-3
#define LONG_S        20e-3
#define WARM_BLOCKS   3
#define CPU_BLOCK_S   1e-3
#define CUDA_BLOCK_S  10e-3
#define MIN_SAMPLES_S 0.2 /* minimum total time of the samples with `until` */

/* The speed of verify/, measured on two cores: one thread's flops per second for the truth of a product, and its
 * seconds for an element that it compares, reads for a truth, sums in Freivalds' check, or reads for a suspect. About a
 * third of Freivalds' check of a large product is serial (ONE_THREAD). */
#define TRUTH_FLOPS_PER_S 0.9e9
#define COMPARED_S        25e-9
#define TRUTH_S           5.5e-9
#define SUMMED_S          9e-9
#define SUSPECTED_S       7e-9
#define SUSPECTS          8   /* suspect rows, and as many columns */
#define SUSPECT_ELEMENTS  400 /* elements in a suspect, on average: 256 to 512 */
#define ONE_THREAD        0.35
#define VISITS            2.5 /* times that Freivalds' check reads an operand that is not cached */
#define SAMPLES           24
#define SAMPLE_EDGE       64.0  /* elements of a sample along each of the last two axes... */
#define SAMPLE_EDGE_SUMS  4.0   /* ...and if each is a sum of elements */
#define SAMPLE_BYTES      2e6   /* maximum of bytes of the output's file that one sample reads */
#define SAMPLE_READ       3e9   /* bytes per second of an output... */
#define SAMPLE_DECODE     0.4e9 /* ...and, if it is compressed, at most so many per thread */

int64_t plan_held_bytes(const struct plan *plan) {
    int64_t budget = plan->budget[DEVICE_CPU];
    return budget < HELD_BYTES ? budget : HELD_BYTES;
}

/* The number of input elements that are read to compute the suspect rows and columns of a product, or the samples of
 * another result. */
static double sampled_elements(const struct geometry *geometry) {
    const int64_t *extent = geometry->extent;
    double lines = fmin(SUSPECT_ELEMENTS, (double)extent[LOOP_M]) + fmin(SUSPECT_ELEMENTS, (double)extent[LOOP_N]);
    double out = (double)shape_elements(&geometry->out.shape), in = (double)shape_elements(&geometry->in[0].shape);
    if (operations[geometry->op]->product) return SUSPECTS * (double)extent[LOOP_K] * lines;
    if (!(out > 0)) return 0;
    double sample = 1, edge = in > out ? SAMPLE_EDGE_SUMS : SAMPLE_EDGE;
    const struct shape *shape = &geometry->out.shape;
    for (int axis = shape->rank > 2 ? shape->rank - 2 : 0; axis < shape->rank; axis++)
        sample *= fmin(edge, (double)shape->size[axis]);
    return SAMPLES * sample * fmax(1, in / out);
}

bool plan_checks_all_elements(const struct task *task) {
    const struct geometry *geometry = &task->geometry;
    enum job_verify how = task->operation->run.verify;
    int64_t elements = shape_elements(&geometry->out.shape);
    bool cheap =
        !operations[geometry->op]->product || (elements <= FULL_CHECK_ELEMENTS && geometry->flops <= FULL_CHECK_FLOPS);
    double edge = shape_elements(&geometry->in[0].shape) > elements ? SAMPLE_EDGE_SUMS : SAMPLE_EDGE;
    bool samples_cost_more = operations[geometry->op]->product ? geometry->flops <= SAMPLED_CHECK_FLOPS
                                                               : (double)elements <= SAMPLES * edge * edge;
    return how == VERIFY_FULL || elements <= 1 || (how == VERIFY_AUTO && cheap) ||
           (how == VERIFY_SAMPLED && samples_cost_more);
}

/* The time of warm-up and samples; 0: the pass is the only sample. */
static double repeats_seconds(const struct run_options *options, const struct device_facts *facts,
                              const struct tiling *tiling) {
    bool once = options->warmup == 0 && options->repeat_max == 1;
    if (tiling->steps != 1 || once) return 0;
    double launch = tiling->kernel_s, sample = fmax(launch, launch < BATCH_BELOW_S ? BATCH_S : 0);
    double flush_s = 2 * (double)facts->cache_bytes / facts->memory_bytes_per_s; /* before each cold launch */
    double warm_up = (double)options->warmup * launch, block = facts->kind == DEVICE_CUDA ? CUDA_BLOCK_S : CPU_BLOCK_S;
    if (options->warmup > 0 && !options->cold && launch < LONG_S) warm_up += WARM_BLOCKS * fmax(block, sample);
    double sample_s = options->cold ? launch + flush_s : sample + (launch < LEAD_BELOW_S ? launch : 0);
    double samples = (double)options->repeat_max * sample_s;
    if (options->repeat_until > 0) samples = fmin(samples, fmax(MIN_SAMPLES_S, (double)options->repeat_min * sample_s));
    return warm_up + samples;
}

/* Is the run the first of its task that is neither skipped nor a roof? */
static bool first_of_task(const struct plan *plan, const struct run *run) {
    for (int r = plan->tasks[run->task].first_run; r < run->number; r++)
        if (!plan->runs[r].skip && !plan->runs[r].kernel->is_roof) return false;
    return true;
}

/* The time to verify a run. The cases, in this order: the run is not verified; an earlier variant has left the truth in
 * a cache; all elements are compared; Freivalds' check of a product; samples. `in`, `out`: elements. */
static double verify_seconds(const struct plan *plan, const struct run *run) {
    const struct task *task = &plan->tasks[run->task];
    const struct geometry *geometry = &task->geometry;
    double threads = fmax(1, plan->facts[DEVICE_CPU].host_threads), out = (double)shape_elements(&geometry->out.shape);
    double in = 0, bytes = 0, reread_s = 0, out_bytes = out * (double)dtype_size(geometry->out.dtype);
    if (task->operation->run.verify == VERIFY_NONE || run->kernel->is_roof) return 0;
    for (int i = 0; i < geometry->inputs; i++) {
        double elements = (double)shape_elements(&geometry->in[i].shape);
        in += elements;
        bytes += elements * (double)dtype_size(geometry->in[i].dtype);
        reread_s += elements * (double)dtype_size(geometry->in[i].dtype) / run->tiling.in_storage[i].bytes_per_s;
    }
    bool product = operations[geometry->op]->product;
    bool checks_all = plan_checks_all_elements(task);
    if (bytes <= (double)plan_held_bytes(plan)) reread_s = 0; /* the pass has left the inputs in the cache */
    if (!first_of_task(plan, run) && (!checks_all || out <= FULL_CHECK_ELEMENTS)) return out * COMPARED_S / threads;
    double flops_s = product ? geometry->flops / TRUTH_FLOPS_PER_S : 0;
    if (checks_all) return reread_s + (in * TRUTH_S + out * COMPARED_S + flops_s) / threads;
    double sampled = sampled_elements(geometry);
    if (product)
        return VISITS * reread_s +
               ((in + out) * SUMMED_S + sampled * SUSPECTED_S) * (ONE_THREAD + (1 - ONE_THREAD) / threads);
    bool compressed = task->operation->run.compression != COMPRESSION_NONE;
    double rate = compressed ? fmin(SAMPLE_READ, threads * SAMPLE_DECODE) : SAMPLE_READ;
    /* A sum has to be computed from its elements; another element is read once and compared. */
    return sampled * (in > out ? TRUTH_S : COMPARED_S) / threads + fmin(out_bytes, SAMPLES * SAMPLE_BYTES) / rate;
}

struct cost plan_cost(const struct plan *plan, const struct run *run) {
    const struct task *task = &plan->tasks[run->task];
    const struct device_facts *facts = &plan->facts[run->device];
    struct cost cost = {.pass_s = run->tiling.predicted_s, .kernel_s = run->tiling.kernel_s};
    cost.repeats_s = repeats_seconds(&task->operation->run, facts, &run->tiling);
    cost.verify_s = verify_seconds(plan, run);
    cost.total_s = cost.pass_s + cost.repeats_s + cost.verify_s;
    cost.bound_s = limits_bound(facts->limits, run->kernel, &task->geometry, &cost.bound_by);
    return cost;
}

struct progress_work *plan_work(const struct plan *plan) {
    struct progress_work *work = must_malloc((unsigned long)plan->run_count * sizeof *work + 1);
    for (int i = 0; i < plan->run_count; i++) {
        const struct run *run = &plan->runs[i];
        const struct tiling *tiling = &run->tiling;
        const struct run_options *options = &plan->tasks[run->task].operation->run;
        bool repeated = tiling->steps == 1 && job_is_timed(options);
        work[i] = (struct progress_work){.kind = run->kernel, .nothing_left = run->skip != NULL};
        if (run->skip) continue;
        const struct cost cost = plan_cost(plan, run);
        work[i].bytes = tiling->traffic_bytes;
        work[i].pass_s = cost.pass_s;
        work[i].verify_s = cost.verify_s;
        if (!repeated) continue;
        work[i].repeats = (int)(options->repeat_until > 0 ? options->repeat_min : options->repeat_max);
        work[i].repeat_s = cost.kernel_s;
        work[i].verify_s += (double)options->warmup * cost.kernel_s;
    }
    return work;
}
