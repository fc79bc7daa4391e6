/* plan_work.c - converts the plan's predictions for the progress display. */
#include "plan_cost.h"

#include "../base/fail.h"

struct progress_work *plan_work(const struct plan *plan) {
    struct progress_work *work = must_malloc((unsigned long)plan->run_count * sizeof *work + 1);
    for (int i = 0; i < plan->run_count; i++) {
        const struct run *run = &plan->runs[i];
        const struct tiling *tiling = &run->tiling;
        const struct run_options *options = &plan->tasks[run->task].operation->run;
        bool repeated = tiling->steps == 1 && job_is_timed(options);
        work[i] = (struct progress_work){.kind = run->kernel, .over = run->skip != NULL};
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
