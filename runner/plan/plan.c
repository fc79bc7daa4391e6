/* plan.c - makes a plan from a job: opens inputs, fits operations to shapes, chooses variants, numbers the steps. */
#include "plan.h"
#include "../../kernels/map/before.h"

#include "../base/fail.h"
#include "../base/spelling.h"
#include "plan_parts.h"
#include "plan_tiles.h"
#include "plan_user_kernels.h"
#include "user_kernel.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- variants -------------------------------------------------------------------------------------------------- */

/* Why a kernel cannot do this task on any device, which is an error in the job. NULL: it can, as far as is known: its
 * operands' type if `knows_type`, its operator if `knows_operator`. The caller frees. */
static char *kernel_mismatch(const struct kernel *kernel, const struct geometry *geometry, bool knows_type,
                             bool knows_operator) {
    const char *op = operations[geometry->op]->name;
    if (knows_type && !(kernel->dtypes & DTYPE_BIT(first_operand(geometry)->dtype)))
        return must_printf("variant '%s' of %s does not support %s", kernel->name, op,
                           dtype_name(first_operand(geometry)->dtype));
    if (knows_operator && !kernel_has_operator(kernel, &geometry->options))
        return must_printf("variant '%s' of %s has no operator '%s'", kernel->name, op,
                           operation_operator(operations[geometry->op], &geometry->options));
    return NULL;
}

/* Why a kernel cannot run on this machine; NULL: it can. The caller frees. */
static char *kernel_cannot_run(const struct plan *plan, const struct kernel *kernel) {
    const char *left_out = kernel_left_out(kernel);
    if (left_out) return must_strdup(left_out);
    if (!plan->present[kernel->device]) return must_strdup("needs a CUDA GPU");
    const struct device_facts *facts = &plan->facts[kernel->device];
    if (kernel->compute_capability > facts->compute_capability)
        return must_printf("needs compute capability %d.%d; %s has %d.%d", kernel->compute_capability / 10,
                           kernel->compute_capability % 10, facts->name, facts->compute_capability / 10,
                           facts->compute_capability % 10);
    if (kernel->only_below > 0 && kernel->only_below <= facts->compute_capability)
        return must_printf("needs compute capability below %d.%d; %s has %d.%d", kernel->only_below / 10,
                           kernel->only_below % 10, facts->name, facts->compute_capability / 10,
                           facts->compute_capability % 10);
    return NULL;
}

/* Sets the run's device to its kernel's and chooses its tiles. false: the memory is too small for any tiles;
 * run->tiling.memory_bytes is the minimum that is needed. */
static bool choose_tiles(const struct plan *plan, struct run *run) {
    run->device = run->kernel->device;
    return plan_fit(plan, run, plan->budget[run->device], &run->tiling);
}

/* Reports that no tiles of the run fit into the memory, unless the job's `memory` is itself a mistake. */
static void report_small_memory(const struct plan *plan, const struct task *task, const struct run *run) {
    if (plan->job->memory_bytes == 0 && plan->job->memory_fraction == 0) return;
    plan_mistake(plan->job, run->variant->where, task->operation->label,
                 "%s: a memory of %lld bytes is too small for variant '%s', which needs at least %lld bytes",
                 task->operation->id, (long long)plan->budget[run->device], run->kernel->name,
                 (long long)run->tiling.memory_bytes);
}

/* Why the run's kernel refuses its tiles; NULL: it accepts them. */
static const char *refusal_of(const struct plan *plan, const struct task *task, const struct run *run) {
    const struct launch launch = plan_launch(&task->geometry, &plan->facts[run->device], run, &run->tiling);
    return launch_refusal(run->kernel, &launch);
}

/* May `auto` choose this kernel? It must run here, have the data type's full accuracy and not be a roof. */
static bool kernel_eligible(const struct plan *plan, const struct kernel *kernel, const struct geometry *geometry) {
    if (kernel->op != geometry->op || kernel->accuracy != ACCURACY_FULL || kernel->is_roof) return false;
    OWNED char *why = kernel_mismatch(kernel, geometry, true, true);
    if (!why) why = kernel_cannot_run(plan, kernel);
    return !why;
}

/* The time that the run's kernel predicts for one tile; infinite if it has no prediction. */
static double kernel_prediction(const struct plan *plan, const struct task *task, const struct run *run) {
    const struct launch launch = plan_launch(&task->geometry, &plan->facts[run->device], run, &run->tiling);
    return predicted_seconds(&launch, &task->geometry);
}

/* Chooses the kernel for `auto` among those that can run here, fit into the memory and accept their tiles: a GPU kernel
 * before a CPU kernel; then the one that predicts the shortest time for the whole operation; if none predicts a time,
 * the last one in the registry. If all are too large for the memory, chooses one of them and reports that. false: no
 * kernel can do the task here. */
static bool choose_kernel(const struct plan *plan, const struct task *task, struct run *run) {
    const struct kernel *too_large = NULL, *best = NULL;
    double best_s = INFINITY;
    for (int device = DEVICE_CUDA; device >= DEVICE_CPU && !best; device--)
        for (int i = kernel_count - 1; i >= 0; i--) {
            const struct kernel *kernel = kernel_registry[i];
            if ((int)kernel->device != device || !kernel_eligible(plan, kernel, &task->geometry)) continue;
            run->kernel = kernel;
            if (!choose_tiles(plan, run)) {
                too_large = kernel;
                continue;
            }
            double seconds = kernel_prediction(plan, task, run) * (double)run->tiling.steps;
            if (best && seconds >= best_s) continue; /* launch_refusal comes last: it may load a library */
            if (!refusal_of(plan, task, run)) best = kernel, best_s = seconds;
        }
    run->kernel = best ? best : too_large;
    if (run->kernel && !choose_tiles(plan, run)) report_small_memory(plan, task, run);
    return run->kernel != NULL;
}

/* Sets the number of threads of a run on the CPU to parameter number `given` of its variant; reports too many. */
static void choose_threads(const struct plan *plan, const struct job_variant *variant, int given, struct run *run) {
    int available = plan->facts[DEVICE_CPU].host_threads;
    int64_t threads = strtoll(variant->values[given], NULL, 10);
    run->threads = threads <= available ? (int)threads : available;
    if (threads > available)
        yaml_error(plan->job->document, variant->parameter_where[given],
                   "%s threads are more than the %d that this process may use", variant->values[given], available);
}

/* Looks up the job's values of a kernel's parameters and sets run->choice and run->threads. Reports parameters and
 * values that the kernel does not have. */
static void choose_parameters(const struct plan *plan, const struct job_variant *variant, struct run *run) {
    struct yaml_document *document = plan->job->document;
    for (int given = 0; given < variant->count; given++) {
        int p = 0, v = 0;
        const struct kernel_parameter *parameters = run->kernel->parameters;
        if (run->kernel->device == DEVICE_CPU && strcmp(variant->names[given], JOB_THREADS) == 0) {
            choose_threads(plan, variant, given, run);
            continue;
        }
        if (variant->source) continue; /* its parameters are macros */
        const char *names[KERNEL_MAX_PARAMETERS];
        while (p < KERNEL_MAX_PARAMETERS && parameters[p].name &&
               strcmp(parameters[p].name, variant->names[given]) != 0) {
            names[p] = parameters[p].name;
            p++;
        }
        if (p == KERNEL_MAX_PARAMETERS || !parameters[p].name) {
            char hint[HINT_TEXT];
            const struct yaml_node *key = yaml_key(variant->entry, variant->names[given]);
            yaml_error(document, key ? key : variant->parameter_where[given], "variant '%s' has no parameter '%s'%s",
                       run->kernel->name, variant->names[given],
                       name_hint(variant->names[given], names, p, "; `tilerun list` shows those it has", hint));
            continue;
        }
        while (parameters[p].values[v] && strcmp(parameters[p].values[v], variant->values[given]) != 0) v++;
        if (!parameters[p].values[v]) {
            OWNED char *allowed = must_strdup("");
            for (int i = 0; parameters[p].values[i]; i++)
                must_append(&allowed, "%s%s", i ? ", " : "", parameters[p].values[i]);
            yaml_error(document, variant->parameter_where[given], "%s of variant '%s' must be one of %s, not '%s'",
                       parameters[p].name, run->kernel->name, allowed, variant->values[given]);
            continue;
        }
        run->choice[p] = v;
    }
}

/* ---- runs ------------------------------------------------------------------------------------------------------ */

/* Appends a run to the plan and to its last task. */
static struct run *add_run(struct plan *plan, int task, const struct job_variant *variant) {
    struct run *run = APPEND(plan->runs, plan->run_count);
    run->number = plan->run_count - 1;
    run->task = task;
    run->variant = variant;
    plan->tasks[task].run_count++;
    return run;
}

/* The label of an `auto` run: the name of the chosen variant, "blocked", with its threads; or "auto=blocked" if the job
 * lists that variant too, because the labels of an operation's runs must differ. The caller frees. */
static char *chosen_label(const struct job_operation *operation, const struct run *run) {
    char *label = must_strdup(run->kernel->name), *longer = NULL;
    if (run->threads) must_append(&label, "," JOB_THREADS "=%d", run->threads);
    for (int i = 0; i < operation->variant_count && !longer; i++)
        if (strcmp(operation->variants[i].label, label) == 0) longer = must_printf("auto=%s", label);
    if (longer) free(label);
    return longer ? longer : label;
}

/* Did an earlier `auto` run of the task, which lists other thread counts, choose the same kernel? */
static bool is_already_chosen(const struct plan *plan, const struct task *task, const struct run *run) {
    for (int i = task->first_run; i < run->number; i++)
        if (strcmp(plan->runs[i].variant->name, "auto") == 0 && plan->runs[i].kernel == run->kernel) return true;
    return false;
}

/* Chooses the kernel and the label of an `auto` run. The run is skipped if no kernel can run here, or if it only gives
 * another number of threads and the task already has a run by the chosen GPU kernel, which takes none. */
static void make_auto_run(struct plan *plan, const struct task *task, struct run *run) {
    const struct job_variant *variant = run->variant;
    bool chosen = choose_kernel(plan, task, run);
    bool threads = variant->count == 1 && strcmp(variant->names[0], JOB_THREADS) == 0;
    if (chosen && (run->kernel->device == DEVICE_CPU || !threads)) {
        choose_parameters(plan, variant, run);
        run->label = chosen_label(task->operation, run);
    } else if (chosen && !is_already_chosen(plan, task, run)) {
        run->label = chosen_label(task->operation, run); /* without `threads`, which does not apply on a GPU */
    } else {
        run->skip = chosen ? must_printf("`threads` is for a CPU, but auto has chosen '%s' on a GPU", run->kernel->name)
                           : must_strdup("no variant of this operation can run here");
        run->label = must_strdup(variant->label);
    }
}

/* Makes the run of a variant: finds its kernel, checks that the kernel can do the task, and chooses tiles. The run is
 * skipped if the kernel cannot run here or refuses its tiles. */
static void make_run(struct plan *plan, int task_index, const struct job_variant *variant) {
    const struct task *task = &plan->tasks[task_index];
    const struct geometry *geometry = &task->geometry;
    struct run *run = add_run(plan, task_index, variant);
    run->search = variant->search.group;
    if (strcmp(variant->name, "auto") == 0) {
        if (task->known) make_auto_run(plan, task, run);
        return;
    }
    run->kernel = variant->source ? plan_user_kernel(plan, task, variant) : kernel_find(geometry->op, variant->name);
    run->label = must_strdup(variant->label);
    if (!run->kernel) return; /* reported when the job was read */
    run->device = run->kernel->device;
    OWNED char *unfit = kernel_mismatch(run->kernel, geometry, task->typed, !task->operation->options_unread);
    if (unfit) plan_mistake(plan->job, variant->where, task->operation->label, "%s", unfit);
    choose_parameters(plan, variant, run);
    run->skip = kernel_cannot_run(plan, run->kernel);
    if (run->skip || !task->known) return;
    if (!choose_tiles(plan, run)) {
        report_small_memory(plan, task, run);
        return;
    }
    if (variant->source && !plan_user_kernel_check(plan, task, run)) return;
    run->skip = must_strdup(refusal_of(plan, task, run));
}

/* If no listed variant other than a roof can run here, adds a run by the variant that `auto` would choose, if there is
 * one, so that later tasks have their input. */
static void add_fallback(struct plan *plan, int task_index) {
    struct task *task = &plan->tasks[task_index];
    int skipped = 0;
    for (int i = 0; i < task->run_count; i++) {
        const struct run *run = &plan->runs[task->first_run + i];
        if (!run->skip && !run->kernel->is_roof) return;
        skipped += run->skip != NULL;
    }
    if (skipped == 0) return; /* all listed variants are roofs: the job wants no result */
    struct run *run = add_run(plan, task_index, &task->operation->variants[0]);
    if (!choose_kernel(plan, task, run)) {
        plan->run_count--;
        task->run_count--;
        return;
    }
    run->label = must_strdup(run->kernel->name);
    run->note = must_printf("no listed variant can run here: '%s' runs on the %s instead", run->kernel->name,
                            plan->facts[run->device].name);
}

/* The bytes of a device's memory that the job may use. */
static int64_t budget_of(const struct job *job, const struct device_facts *facts) {
    if (job->memory_bytes > 0) return job->memory_bytes;
    return (int64_t)(job->memory_fraction * (double)facts->memory_free);
}

void plan_device_text(const struct device_facts *facts, int count, char *text, size_t size) {
    if (facts->kind == DEVICE_CPU) {
        snprintf(text, size, count > 1 ? "cpu x %d" : "cpu", count);
        return;
    }
    size_t length = (size_t)snprintf(text, size, "cuda:");
    for (int i = 0, end; i < count && length < size; i = end) {
        for (end = i + 1; end < count && facts->numbers[end] == facts->numbers[end - 1] + 1;) end++;
        length += (size_t)snprintf(text + length, size - length, "%s%d", i > 0 ? "," : "", facts->numbers[i]);
        if (end > i + 1 && length < size)
            length += (size_t)snprintf(text + length, size - length, "%c%d", end > i + 2 ? '-' : ',',
                                       facts->numbers[end - 1]);
    }
}

enum status plan_make(const struct job *job, const struct device_facts *cpu, const struct device_facts *cuda,
                      struct plan **made) {
    struct plan *plan = must_zeroed(sizeof *plan);
    *made = plan;
    plan->job = job;
    plan->present[DEVICE_CPU] = true;
    plan->facts[DEVICE_CPU] = *cpu;
    plan->budget[DEVICE_CPU] = budget_of(job, cpu);
    if (cuda) {
        plan->present[DEVICE_CUDA] = true;
        plan->facts[DEVICE_CUDA] = *cuda;
        plan->budget[DEVICE_CUDA] = budget_of(job, cuda);
    }
    plan->task_count = job->operation_count;
    plan->array_count = plan->input_count = job->input_count;
    /* The inputs and results, and a second entry for each (plan_decode.c). */
    size_t max_arrays = 2 * (size_t)(job->input_count + plan->task_count);
    plan->arrays = must_zeroed(max_arrays * sizeof *plan->arrays);
    plan->tasks = must_zeroed((unsigned long)plan->task_count * sizeof *plan->tasks);
    for (int i = 0; i < job->input_count; i++) plan_input(job, &job->inputs[i], &plan->arrays[i]);
    plan_pack_inputs(plan);
    plan->array_count = plan->input_count + plan->task_count;
    for (int i = 0; i < plan->task_count; i++) plan_task(plan, i);
    for (int i = 0; i < plan->task_count; i++) {
        plan->tasks[i].first_run = plan->run_count;
        for (int v = 0; v < job->operations[i].variant_count; v++) make_run(plan, i, &job->operations[i].variants[v]);
        if (yaml_error_count(job->document) == 0 && plan->tasks[i].known) add_fallback(plan, i);
    }
    return yaml_error_count(job->document) > 0 ? STATUS_USAGE : STATUS_OK;
}

void plan_free(struct plan *plan) {
    if (!plan) return;
    plan_clear(plan);
    free(plan);
}

void plan_clear(struct plan *plan) {
    for (int i = 0; i < plan->array_count; i++) array_free(&plan->arrays[i]);
    for (int i = 0; i < plan->run_count; i++) {
        free(plan->runs[i].label);
        free(plan->runs[i].skip);
        free(plan->runs[i].note);
    }
    for (int i = 0; i < plan->user_kernel_count; i++) user_kernel_free(plan->user_kernels[i]);
    free(plan->user_kernels);
    for (int kind = 0; kind < 2; kind++) limits_free(plan->facts[kind].limits);
    free(plan->arrays);
    free(plan->tasks);
    free(plan->runs);
}

int plan_producers_end(const struct plan *plan, int task) {
    int end = task + 1;
    while (plan->tasks[task].panel && end < plan->task_count &&
           plan->tasks[end].operation == plan->tasks[task].operation)
        end++;
    return end;
}

/* ---- steps ----------------------------------------------------------------------------------------------------- */

/* The tile of step `number`: loops advance like the digits of a number, the last one fastest. */
static void step_tile(const struct geometry *geometry, const struct tiling *tiling, int64_t number, struct tile *tile) {
    for (int loop = LOOPS - 1; loop >= 0; loop--) {
        int64_t index = number % tiling->tiles[loop];
        number /= tiling->tiles[loop];
        tile->start[loop] = index * tiling->tile[loop];
        int64_t rest = geometry->extent[loop] - tile->start[loop];
        tile->count[loop] = rest < tiling->tile[loop] ? rest : tiling->tile[loop];
    }
}

void plan_step(const struct geometry *geometry, const struct tiling *tiling, int64_t number, struct step *step) {
    memset(step, 0, sizeof *step);
    step->number = number;
    step_tile(geometry, tiling, number, &step->tile);
    step->first = step->last = true;
    for (int loop = 0; loop < LOOPS; loop++)
        if (geometry->reduces[loop]) {
            step->first = step->first && step->tile.start[loop] == 0;
            step->last = step->last && step->tile.start[loop] + step->tile.count[loop] == geometry->extent[loop];
        }
    struct tile before = {{0}, {0}};
    if (number > 0) step_tile(geometry, tiling, number - 1, &before);
    for (int i = 0; i < geometry->inputs; i++) {
        step->load[i] = box_of_tile(&geometry->in[i], &step->tile);
        if (number > 0) {
            struct box previous = box_of_tile(&geometry->in[i], &before);
            step->reuse[i] = box_equal(&step->load[i], &previous);
        }
        /* A box was loaded before if a loop that does not run along the operand has advanced. */
        bool runs_along[LOOPS] = {false};
        for (int axis = 0; axis < geometry->in[i].shape.rank; axis++) runs_along[geometry->in[i].loop[axis]] = true;
        step->fresh[i] = true;
        for (int loop = 0; loop < LOOPS; loop++)
            if (!runs_along[loop] && step->tile.start[loop] > 0) step->fresh[i] = false;
    }
    step->store = box_of_tile(&geometry->out, &step->tile);
}

bool plan_stores_in_order(const struct geometry *geometry, const struct tiling *tiling) {
    const struct operand *out = &geometry->out;
    int last_cut = -1;    /* the loop of the last axis so far that is cut into several tiles */
    bool several = false; /* tiles have several elements along an axis so far: later axes must not be cut */
    for (int axis = 0; axis < out->shape.rank; axis++) {
        int loop = (int)out->loop[axis];
        if (tiling->tiles[loop] > 1 && (several || loop < last_cut)) return false;
        if (tiling->tiles[loop] > 1) last_cut = loop;
        several = several || tiling->tile[loop] > 1;
    }
    return true;
}

bool plan_fit(const struct plan *plan, const struct run *run, int64_t budget, struct tiling *tiling) {
    const struct task *task = &plan->tasks[run->task];
    plan_storages(plan, run, tiling);
    return plan_tiles(&task->geometry, &plan->facts[run->device], run, budget, job_is_timed(&task->operation->run),
                      tiling);
}

void plan_use_limits(struct plan *plan, enum kernel_device kind, struct device_limits *limits) {
    if (!limits) return;
    limits_free(plan->facts[kind].limits);
    plan->facts[kind].limits = limits;
    for (int i = 0; i < plan->run_count; i++) {
        struct run *run = &plan->runs[i];
        if (!run->skip && run->device == kind)
            plan_predict(&plan->tasks[run->task].geometry, &plan->facts[kind], run, &run->tiling);
    }
}

double plan_modelled_bytes(const struct plan *plan, const struct run *run) {
    /* The kinds of tiles along a loop. All tiles between the first and the last have the same size, and there may be
     * billions, so only one is evaluated. */
    enum { FIRST, LAST, BETWEEN, KINDS };
    const struct geometry *geometry = &plan->tasks[run->task].geometry;
    const struct tiling *tiling = &run->tiling;
    const void *const nowhere[MAX_INPUTS] = {NULL};
    double bytes = 0;
    for (int kinds = 0; kinds < KINDS * KINDS * KINDS * KINDS; kinds++) {
        int64_t number = 0; /* of a step whose tile is of these kinds */
        double alike = 1;   /* the number of such steps */
        for (int loop = 0, rest = kinds; loop < LOOPS; loop++, rest /= KINDS) {
            int64_t tiles = tiling->tiles[loop];
            int kind = rest % KINDS;
            if (tiles <= kind) alike = 0; /* FIRST needs one tile, LAST two, BETWEEN three */
            if (kind == BETWEEN) alike *= (double)(tiles - 2);
            number = number * tiles + (kind == FIRST ? 0 : kind == LAST ? tiles - 1 : 1);
        }
        if (alike == 0) continue;
        struct step step;
        struct launch launch = {.workspace = NULL};
        plan_step(geometry, tiling, number, &step);
        operation_launch(geometry, &step.tile, step.first, step.last, nowhere, NULL, NULL, &launch);
        memcpy(launch.choice, run->choice, sizeof launch.choice);
        bytes += alike * run->kernel->traffic_bytes(&launch);
    }
    return bytes;
}
