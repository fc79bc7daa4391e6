/* units.c - which operations are divided, along which loop, and the plan of the panels. */
#include "units.h"

#include "../../kernels/core/axes.h"
#include "../base/fail.h"
#include "../plan/plan_tiles.h"
#include "../plan/same_bits.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Elements of a panel along its loop, at least (kernel->divisible); a stack is divided into single matrices. */
#define LEAST 16
/* An operation that takes more than this share of what a shard has to do on average is divided: else a shard could have
 * more than 1.25 times the mean. */
#define SHARE 0.25
/* So are those that take more than this share, the longest of them, if dividing them adds no more than this to the job.
 * If each shard has a panel of every operation, it does not matter how well one machine's times predict another's. */
#define EVEN_SHARE (1.0 / 32)
#define EVEN_MOST  32 /* operations */
#define EVEN_COST  0.1
/* Panels that are kept take so long by themselves, in seconds of the nominal machine (shard.h); there are so many of an
 * operation; and all together may cost so much more than the whole. */
#define KEEP_S     300.0
#define KEEP_LEAST 8
#define KEEP_MOST  256
#define KEEP_COST  1.02

/* ---- which, and how often ---------------------------------------------------------------------------------------- */

static int64_t least_along(int loop) {
    return loop == LOOP_B ? 1 : LEAST;
}

/* Into how many panels a loop can be cut: 1 if it is reduced, or unused. */
static int64_t most_panels(const struct geometry *geometry, int loop) {
    const struct operand *out = &geometry->out;
    for (int axis = 0; axis < out->shape.rank; axis++)
        if ((int)out->loop[axis] == loop && geometry->extent[loop] >= 2 * least_along(loop))
            return geometry->extent[loop] / least_along(loop);
    return 1;
}

static int axis_of(const struct operand *operand, int loop) {
    for (int axis = 0; axis < operand->shape.rank; axis++)
        if ((int)operand->loop[axis] == loop) return axis;
    return -1;
}

/* Operands of which a panel is a run of rows: those are read and written in one go. */
static int operands_in_rows(const struct geometry *geometry, int loop) {
    int rows = 0;
    for (int i = 0; i < geometry->inputs; i++) rows += 2 * (axis_of(&geometry->in[i], loop) == 0);
    return rows + (axis_of(&geometry->out, loop) == 0);
}

/* The loop that gives `wanted` panels, or the most, and of those the one with most operands in rows. */
static int choose_loop(const struct geometry *geometry, int wanted) {
    int best = 0, best_rows = -1;
    int64_t best_panels = 0;
    for (int loop = 0; loop < LOOPS; loop++) {
        int64_t most = most_panels(geometry, loop), panels = most < wanted ? most : wanted;
        int rows = operands_in_rows(geometry, loop);
        if (panels < best_panels || (panels == best_panels && rows <= best_rows)) continue;
        best = loop, best_rows = rows, best_panels = panels;
    }
    return best;
}

static bool is_read(const struct plan *plan, const struct task *task) {
    const struct array *out = &plan->arrays[task->out];
    return out->last_reader >= 0 || out->other;
}

/* May the task be divided into so many panels? */
static bool is_divisible(const struct plan *plan, const struct task *task, int panels) {
    for (int i = 0; i < task->geometry.inputs; i++)
        if (task->in[i] >= plan->input_count) return false;
    int loop = choose_loop(&task->geometry, panels);
    if (!operand_is_plain(&task->geometry.out)) return false; /* a band of merged axes is no band of the array */
    for (int i = 0; i < task->geometry.inputs; i++)
        if (!operand_is_plain(&task->geometry.in[i])) return false;
    for (int r = task->first_run; r < task->first_run + task->run_count; r++)
        if (!same_bits_in_parts(&task->geometry, &plan->runs[r], loop, panels)) return false;
    return true;
}

static int at_most(const struct task *task, int wanted) {
    int64_t most = most_panels(&task->geometry, choose_loop(&task->geometry, wanted));
    return most < wanted ? (int)most : wanted;
}

/* How many panels the operation is kept in whose passes take so long, for the sake of those that are finished. Repeats
 * do not count: who times an operation wants it timed whole. A result that is read later stays on its device, whole. */
static int count_checkpoints(const struct plan *plan, const struct task *task, double seconds) {
    enum job_keep keep = is_read(plan, task) ? KEEP_NEVER : task->operation->run.keep_tiles;
    int wanted = seconds > 2 * KEEP_S ? (int)fmin(ceil(seconds / KEEP_S), KEEP_MOST) : 1;
    if (keep == KEEP_ALWAYS && wanted < KEEP_LEAST) wanted = KEEP_LEAST;
    return keep == KEEP_NEVER ? 1 : wanted;
}

/* When all shards are done. */
static double end_of(const struct shard_groups *groups, int shards) {
    int *of_task = shard_deal(groups, shards);
    double *ends = shard_ends(groups, of_task, shards), last = 0;
    for (int s = 0; s < shards; s++) last = fmax(last, ends[s]);
    free(of_task);
    free(ends);
    return last;
}

static double mean_of(const struct shard_groups *groups, int shards) {
    double all = 0;
    for (int g = 0; g < groups->count; g++) all += groups->groups[g].load.seconds;
    return all / shards;
}

bool units_uneven(const struct shard_groups *groups, int shards) {
    return end_of(groups, shards) > UNITS_UNEVEN * mean_of(groups, shards);
}

static int compare_seconds(const void *one, const void *other) {
    const double *a = one, *b = other;
    return (*a < *b) - (*a > *b);
}

/* Operations that take longer are divided for the sake of balance. */
static double longest_whole(const struct shard_groups *groups, double mean) {
    int count = groups->plan->task_count;
    double *seconds = must_malloc((size_t)count * sizeof *seconds + 1);
    for (int t = 0; t < count; t++) seconds[t] = groups->loads[t].seconds;
    qsort(seconds, (size_t)count, sizeof *seconds, compare_seconds);
    double least = count > EVEN_MOST ? seconds[EVEN_MOST] : 0;
    free(seconds);
    return fmin(SHARE * mean, fmax(EVEN_SHARE * mean, least));
}

/* For each task the number of its panels. The caller frees. */
static int *count_panels(const struct plan *plan, int shards, enum shard_by by) {
    int *counts = must_malloc((size_t)plan->task_count * sizeof *counts + 1);
    struct shard_groups *groups = shard_groups_find(plan);
    bool deals = by == SHARD_BY_TILES || (by == SHARD_AUTO && (groups->count < shards || units_uneven(groups, shards)));
    double mean = mean_of(groups, shards), whole = longest_whole(groups, mean);
    for (int t = 0; t < plan->task_count; t++) {
        const struct task *task = &plan->tasks[t];
        const struct shard_load *load = &groups->loads[t];
        double group_s = groups->groups[groups->of_task[t]].load.seconds;
        bool is_long = load->seconds > whole && (!is_read(plan, task) || group_s > mean);
        int wanted = by == SHARD_CHECKPOINTED ? count_checkpoints(plan, task, load->pass_s)
                     : deals && is_long       ? shards
                                              : 1;
        if (wanted > 1) wanted = at_most(task, wanted);
        counts[t] = wanted > 1 && is_divisible(plan, task, wanted) ? wanted : 1;
    }
    shard_groups_free(groups);
    return counts;
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

static char *copy_text(const char *text) {
    return text ? must_strdup(text) : NULL;
}

/* Elements first .. first + count - 1 of a loop. */
struct band {
    int loop;
    int64_t first, count;
};

static struct band band_of(int64_t extent, int loop, int panel, int panels) {
    int64_t first = extent / panels * panel + extent % panels * panel / panels;
    int64_t end = extent / panels * (panel + 1) + extent % panels * (panel + 1) / panels;
    return (struct band){loop, first, end - first};
}

/* Appends the band of an input and returns its number; of an input that lacks the loop, returns the input's own. */
static int take_band(struct plan *plan, const struct plan *whole, int input, const struct operand *operand,
                     const struct band *band) {
    int axis = axis_of(operand, band->loop);
    if (axis < 0) return input;
    struct array *array = &plan->arrays[plan->input_count];
    *array = array_copy(&whole->arrays[input]);
    array_narrow(array, axis, band->first, band->count);
    return plan->input_count++;
}

/* ---- tasks and runs ---------------------------------------------------------------------------------------------- */

static void copy_run(struct plan *plan, const struct run *from, int task, bool part) {
    struct run *run = &plan->runs[plan->run_count];
    *run = *from;
    run->number = plan->run_count++;
    run->task = task;
    run->label = copy_text(from->label);
    run->skip = copy_text(from->skip);
    run->note = copy_text(from->note);
    if (part && !run->skip)
        plan_tiles_of_part(&plan->tasks[task].geometry, &plan->facts[run->device], run, &from->tiling, &run->tiling);
}

/* "rows 16 to 31 of 64", by the axis of the result, from 0. */
static char *panel_words(const struct operand *out, const struct box *place, int axis) {
    static const char *const one[OPERAND_RANK] = {"matrix", "row", "column"};
    static const char *const many[OPERAND_RANK] = {"matrices", "rows", "columns"};
    int rank = out->shape.rank, what = rank == 1 ? 1 : OPERAND_RANK - rank + axis;
    int64_t first = place->start[axis], count = place->count[axis], size = out->shape.size[axis];
    if (count == 1) return must_printf("%s %lld of %lld", one[what], (long long)first, (long long)size);
    return must_printf("%s %lld to %lld of %lld", rank == 1 ? "elements" : many[what], (long long)first,
                       (long long)(first + count - 1), (long long)size);
}

/* Makes a panel of a task: bands of its inputs, and the geometry that follows from their shapes. */
static void make_panel(struct units *units, int number, const struct task *from, const struct band *band) {
    struct plan *plan = &units->plan;
    struct task *task = &plan->tasks[number];
    struct shape shapes[MAX_INPUTS];
    enum dtype dtypes[MAX_INPUTS];
    struct error error = {STATUS_OK, ""};
    for (int i = 0; i < from->geometry.inputs; i++) {
        task->in[i] = take_band(plan, units->whole, from->in[i], &from->geometry.in[i], band);
        shapes[i] = plan->arrays[task->in[i]].shape;
        dtypes[i] = from->geometry.in[i].dtype;
    }
    const struct operand *out = &from->geometry.out;
    int axis = axis_of(out, band->loop);
    operations[from->geometry.op]->geometry(&from->geometry.options, shapes, dtypes, &task->geometry, &error);
    units->place[number].start[axis] = band->first;
    units->place[number].count[axis] = band->count;
    task->panel = panel_words(out, &units->place[number], axis);
}

static void make_tasks(struct units *units, const int *counts) {
    const struct plan *whole = units->whole;
    struct plan *plan = &units->plan;
    for (int t = 0; t < whole->task_count; t++) {
        const struct task *from = &whole->tasks[t];
        int loop = choose_loop(&from->geometry, counts[t]);
        units->first[t] = plan->task_count;
        for (int p = 0; p < counts[t]; p++) {
            int number = plan->task_count++;
            plan->tasks[number] = *from;
            units->whole_task[number] = t;
            struct shape shape = operand_array(&from->geometry.out);
            units->place[number] = box_whole(&shape);
            struct band band = band_of(from->geometry.extent[loop], loop, p, counts[t]);
            if (counts[t] > 1) make_panel(units, number, from, &band);
        }
    }
    units->first[whole->task_count] = plan->task_count;
}

/* The number that an array of the whole has here: of a result in panels, that of the first. */
static int number_of(const struct units *units, int array) {
    const struct plan *plan = &units->plan, *whole = units->whole;
    int results_end = whole->input_count + whole->task_count;
    if (array < whole->input_count) return array;
    if (array >= results_end) return plan->input_count + plan->task_count + array - results_end;
    return plan->input_count + units->first[array - whole->input_count];
}

static struct array *other_of(const struct units *units, const struct array *array) {
    return array->other ? &units->plan.arrays[number_of(units, (int)(array->other - units->whole->arrays))] : NULL;
}

/* The results, and those that are read a second way, follow the inputs, of which there are now as many as there will
 * be. */
static void make_results(struct units *units) {
    struct plan *plan = &units->plan;
    const struct plan *whole = units->whole;
    plan->array_count = plan->input_count + plan->task_count;
    for (int i = 0; i < whole->input_count; i++) plan->arrays[i].other = other_of(units, &whole->arrays[i]);
    for (int i = whole->input_count + whole->task_count; i < whole->array_count; i++) {
        struct array *array = &plan->arrays[plan->array_count++];
        *array = array_copy(&whole->arrays[i]);
        array->other = other_of(units, &whole->arrays[i]);
    }
    for (int t = 0; t < plan->task_count; t++) {
        struct task *task = &plan->tasks[t];
        struct array *out = &plan->arrays[plan->input_count + t];
        *out = array_copy(&whole->arrays[task->out]);
        out->other = other_of(units, &whole->arrays[task->out]);
        out->shape = operand_array(&task->geometry.out);
        task->out = plan->input_count + t;
        for (int i = 0; i < task->geometry.inputs; i++) {
            bool is_result = !task->panel && task->in[i] >= whole->input_count;
            int from_in = task->in[i];
            if (is_result) {
                task->in[i] = number_of(units, from_in);
                plan->arrays[task->in[i]].shape =
                    whole->arrays[from_in].shape; /* the first panel's array stands for all */
            }
            array_add_reader(&plan->arrays[task->in[i]], t);
        }
    }
}

static void make_runs(struct units *units) {
    struct plan *plan = &units->plan;
    for (int t = 0; t < plan->task_count; t++) {
        const struct task *from = &units->whole->tasks[units->whole_task[t]];
        plan->tasks[t].first_run = plan->run_count;
        for (int r = 0; r < from->run_count; r++)
            copy_run(plan, &units->whole->runs[from->first_run + r], t, plan->tasks[t].panel != NULL);
    }
}

static struct units *divide(const struct plan *whole, const int *counts) {
    struct units *units = must_malloc(sizeof *units);
    size_t tasks = 0, bands = 0, runs = 0;
    for (int t = 0; t < whole->task_count; t++) {
        tasks += (size_t)counts[t];
        bands += counts[t] > 1 ? (size_t)(counts[t] * MAX_INPUTS) : 0;
        runs += (size_t)(counts[t] * whole->tasks[t].run_count);
    }
    *units = (struct units){.whole = whole, .plan = *whole};
    struct plan *plan = &units->plan;
    plan->task_count = plan->run_count = 0;
    size_t others = (size_t)(whole->array_count - whole->task_count);
    plan->arrays = must_malloc((others + bands + tasks) * sizeof *plan->arrays + 1);
    plan->tasks = must_malloc(tasks * sizeof *plan->tasks + 1);
    plan->runs = must_malloc(runs * sizeof *plan->runs + 1);
    units->whole_task = must_malloc(tasks * sizeof *units->whole_task + 1);
    units->place = must_malloc(tasks * sizeof *units->place + 1);
    units->first = must_malloc((size_t)(whole->task_count + 1) * sizeof *units->first);
    for (int i = 0; i < whole->input_count; i++) plan->arrays[i] = array_copy(&whole->arrays[i]);
    make_tasks(units, counts);
    make_results(units);
    make_runs(units);
    return units;
}

static double seconds_of_panels(const struct units *units, const struct shard_groups *parts, int task) {
    double seconds = 0;
    for (int p = units->first[task]; p < units->first[task + 1]; p++) seconds += parts->loads[p].seconds;
    return seconds;
}

/* Halves the panels of operations that cost too much by panels. false: none does. */
static bool halve_panels(const struct units *units, int shards, int *counts) {
    struct shard_groups *parts = shard_groups_find(&units->plan), *groups = shard_groups_find(units->whole);
    bool reduced = false;
    (void)shards;
    for (int t = 0; t < units->whole->task_count; t++) {
        if (counts[t] == 1 || units->whole->tasks[t].operation->run.keep_tiles == KEEP_ALWAYS) continue;
        if (seconds_of_panels(units, parts, t) <= KEEP_COST * groups->loads[t].seconds) continue;
        counts[t] /= 2;
        reduced = true;
    }
    shard_groups_free(parts);
    shard_groups_free(groups);
    return reduced;
}

/* Leaves those short operations whole that add more than their part of EVEN_COST. false: none does. */
static bool leave_whole(const struct units *units, int shards, int *counts) {
    struct shard_groups *parts = shard_groups_find(&units->plan), *groups = shard_groups_find(units->whole);
    double mean = mean_of(groups, shards);
    int divided = 0;
    bool reduced = false;
    for (int t = 0; t < units->whole->task_count; t++)
        divided += counts[t] > 1 && groups->loads[t].seconds <= SHARE * mean;
    for (int t = 0; t < units->whole->task_count && divided > 0; t++) {
        double whole_s = groups->loads[t].seconds, more_s = seconds_of_panels(units, parts, t) - whole_s;
        if (counts[t] == 1 || whole_s > SHARE * mean || more_s * divided <= EVEN_COST * mean * shards) continue;
        counts[t] = 1;
        reduced = true;
    }
    shard_groups_free(parts);
    shard_groups_free(groups);
    return reduced;
}

/* Is a job of enough operations for all shards done so much sooner by panels that operations are divided for it? */
static bool pays(const struct units *units, int shards) {
    struct shard_groups *parts = shard_groups_find(&units->plan), *groups = shard_groups_find(units->whole);
    bool pays = groups->count < shards || end_of(parts, shards) < UNITS_GAIN * end_of(groups, shards);
    shard_groups_free(parts);
    shard_groups_free(groups);
    return pays;
}

struct units *units_make(const struct plan *whole, int shards, enum shard_by by) {
    int *counts = count_panels(whole, shards, by);
    struct units *units = divide(whole, counts);
    bool (*cheaper)(const struct units *, int, int *) = by == SHARD_CHECKPOINTED ? halve_panels : leave_whole;
    while (units_divide(units) && cheaper(units, shards, counts)) {
        units_free(units);
        units = divide(whole, counts);
    }
    if (by == SHARD_AUTO && units_divide(units) && !pays(units, shards)) {
        units_free(units);
        for (int t = 0; t < whole->task_count; t++) counts[t] = 1;
        units = divide(whole, counts);
    }
    free(counts);
    return units;
}

void units_free(struct units *units) {
    if (!units) return;
    struct plan *plan = &units->plan;
    for (int t = 0; t < plan->task_count; t++) free(plan->tasks[t].panel);
    for (int kind = 0; kind < 2; kind++) plan->facts[kind].limits = NULL; /* the whole's */
    plan_clear(plan);
    free(units->whole_task);
    free(units->place);
    free(units->first);
    free(units);
}

bool units_divide(const struct units *units) {
    return units->plan.task_count > units->whole->task_count;
}

const struct run *units_whole_run(const struct units *units, const struct run *run) {
    const struct task *own = &units->plan.tasks[run->task];
    const struct task *whole = &units->whole->tasks[units->whole_task[run->task]];
    return &units->whole->runs[whole->first_run + run->number - own->first_run];
}

const struct run *units_of_run(const struct units *units, const struct run *whole, int *count, int *stride) {
    int first = units->first[whole->task];
    const struct task *unit = &units->plan.tasks[first];
    *count = units->first[whole->task + 1] - first;
    *stride = unit->run_count;
    return &units->plan.runs[unit->first_run + whole->number - units->whole->tasks[whole->task].first_run];
}
