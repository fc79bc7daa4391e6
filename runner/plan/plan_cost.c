/* plan_cost.c - what a run takes beside its pass: warm-up, samples, verification. */
#include "plan_cost.h"

#include <math.h>

#define WHOLE_FLOPS 3e9 /* `verify: auto` compares a product whole if it takes no more flops than this */

/* As stream/measure.c does it: a short launch is timed in batches, one more goes ahead of each sample, and warm-up goes
 * on for two blocks at least. */
#define BATCH_BELOW_S 50e-6
#define BATCH_S       500e-6
#define LEAD_BELOW_S  1e-3
#define LONG_S        20e-3
#define LEAST_S       0.2 /* of samples, where `until` decides */

/* Of verify/, measured on two cores: what one thread computes of the truth of a product, and how long it takes for an
 * element of an operand. Samples of a product take about as long whatever its size. */
#define TRUTH_FLOPS_PER_S 0.4e9
#define ELEMENT_S         25e-9
#define SAMPLES_S         0.8

bool plan_checks_whole(const struct task *task) {
    const struct geometry *geometry = &task->geometry;
    enum job_verify how = task->operation->run.verify;
    int64_t elements = shape_elements(&geometry->out.shape);
    bool cheap = !operations[geometry->op]->product || (elements <= WHOLE_ELEMENTS && geometry->flops <= WHOLE_FLOPS);
    return how == VERIFY_FULL || elements <= 1 || (how == VERIFY_AUTO && cheap);
}

static double repeats_seconds(const struct run_options *options, const struct device_facts *facts,
                              const struct tiling *tiling) {
    bool once = options->warmup == 0 && options->repeat_max == 1;
    if (tiling->steps != 1 || once) return 0; /* the pass was the sample */
    double launch = tiling->kernel_s, sample = fmax(launch, launch < BATCH_BELOW_S ? BATCH_S : 0);
    double cold = 2 * (double)facts->cache_bytes / facts->memory_bytes_per_s;
    double warm_up = (double)options->warmup * launch, block = facts->kind == DEVICE_CUDA ? 10e-3 : 1e-3;
    if (options->warmup > 0 && !options->cold && launch < LONG_S) warm_up += 3 * fmax(block, sample);
    double each = options->cold ? launch + cold : sample + (launch < LEAD_BELOW_S ? launch : 0);
    double samples = (double)options->repeat_max * each;
    if (options->repeat_until > 0) samples = fmin(samples, fmax(LEAST_S, (double)options->repeat_min * each));
    return warm_up + samples;
}

/* Is it the first of its task's runs that is not skipped? */
static bool first_of_task(const struct plan *plan, const struct run *run) {
    for (int r = plan->tasks[run->task].first_run; r < run->number; r++)
        if (!plan->runs[r].skip && !plan->runs[r].kernel->limit) return false;
    return true;
}

static double verify_seconds(const struct plan *plan, const struct run *run) {
    const struct task *task = &plan->tasks[run->task];
    const struct geometry *geometry = &task->geometry;
    const struct operation *operation = operations[geometry->op];
    double threads = fmax(1, plan->facts[DEVICE_CPU].host_threads), out = (double)shape_elements(&geometry->out.shape);
    double in = 0;
    if (task->operation->run.verify == VERIFY_NONE || run->kernel->limit) return 0;
    for (int i = 0; i < geometry->inputs; i++) in += (double)shape_elements(&geometry->in[i].shape);
    bool whole = plan_checks_whole(task), known = !first_of_task(plan, run) && (!whole || out <= WHOLE_ELEMENTS);
    if (known) return out * ELEMENT_S / threads;
    double truth = (in + out) * ELEMENT_S / threads;
    if (whole) return truth + (operation->product ? geometry->flops / TRUTH_FLOPS_PER_S / threads : 0);
    return SAMPLES_S / threads + (operation->product ? truth : 0);
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
