/* units.c - decides which operations are divided and along which loop, and makes the plan of the panels. */
#include "units.h"
#include "../../kernels/map/before.h"

#include "../../kernels/core/axes.h"
#include "../base/fail.h"
#include "../plan/plan_tiles.h"
#include "../plan/same_bits.h"
#include "../storage/reader.h"
#include <math.h>
#include <stdlib.h>

/* The fewest elements of a panel along its loop (kernel->divisible); a stack is divided into single matrices. */
#define MIN_PANEL 16
/* An operation that takes more than this share of a shard's mean is divided: otherwise a shard could have more than
 * 1.25 times the mean. */
#define SHARE 0.25
/* The longest MAX_EVEN operations with more than EVEN_SHARE of the mean are divided too, if that adds no more than
 * EVEN_COST to the job: if each shard has a panel of every operation, errors of the prediction do not matter. */
#define EVEN_SHARE (1.0 / 32)
#define MAX_EVEN   32 /* operations */
#define EVEN_COST  0.1
/* Checkpointed panels: the time of a panel in seconds of the nominal machine (shard.h), their number in an operation,
 * and their total cost over the whole's. */
#define CHECKPOINT_S     300.0
#define MIN_CHECKPOINTS  8
#define MAX_CHECKPOINTS  256
#define CHECKPOINTS_COST 1.02
/* Bands of at least this many segments of an input's hash (reader.h) begin at segment boundaries. */
#define ALIGNED_SEGMENTS 16

/* ---- which, and how often ---------------------------------------------------------------------------------------- */

/* The fewest elements of a panel along a loop. */
static int64_t min_panel_along(int loop) {
    return loop == LOOP_B ? 1 : MIN_PANEL;
}

/* The largest number of panels into which a loop can be cut; 1 if it is reduced or unused. */
static int64_t max_panels(const struct geometry *geometry, int loop) {
    const struct operand *out = &geometry->out;
    for (int axis = 0; axis < out->shape.rank; axis++)
        if ((int)out->loop[axis] == loop && geometry->extent[loop] >= 2 * min_panel_along(loop))
            return geometry->extent[loop] / min_panel_along(loop);
    return 1;
}

/* The axis of an operand along which a loop runs; -1: the loop does not run along it. */
static int axis_of(const struct operand *operand, int loop) {
    for (int axis = 0; axis < operand->shape.rank; axis++)
        if ((int)operand->loop[axis] == loop) return axis;
    return -1;
}

/* Is a band along a loop also a band of the array, along one of its axes? It is not if axes are merged or reordered. */
static bool has_own_axes(const struct geometry *geometry, const struct operand *operand) {
    if (operand_is_plain(operand)) return true;
    for (int group = 0; group < operand->axes.groups; group++)
        if (operand->axes.group[group] > 1) return false;
    return geometry->options.map && !operand_is_rearranged(operand);
}

/* The (first) axis of the operand's array along which a loop runs; -1: the loop runs along none. */
static int array_axis_of(const struct operand *operand, int loop) {
    int axis = axis_of(operand, loop), before = 0;
    if (axis < 0 || operand_is_plain(operand)) return axis;
    for (int group = 0; group < axis; group++) before += operand->axes.group[group];
    return operand->axes.group[axis] > 0 ? operand->axes.array_axis[before] : -1;
}

/* Counts the operands whose panels are contiguous, so that one read or write moves each; inputs count twice. */
static int operands_in_rows(const struct geometry *geometry, int loop) {
    int rows = 0;
    for (int i = 0; i < geometry->inputs; i++) rows += 2 * (axis_of(&geometry->in[i], loop) == 0);
    return rows + (axis_of(&geometry->out, loop) == 0);
}

/* The loop that allows `wanted` panels, or else the most; of equal loops the one with most operands in rows. */
static int choose_loop(const struct geometry *geometry, int wanted) {
    int best = 0, best_rows = -1;
    int64_t best_panels = 0;
    for (int loop = 0; loop < LOOPS; loop++) {
        int64_t max = max_panels(geometry, loop), panels = max < wanted ? max : wanted;
        int rows = operands_in_rows(geometry, loop);
        if (panels < best_panels || (panels == best_panels && rows <= best_rows)) continue;
        best = loop, best_rows = rows, best_panels = panels;
    }
    return best;
}

/* Does a later task read the task's result, as stored or decoded? */
static bool is_read(const struct plan *plan, const struct task *task) {
    const struct array *out = &plan->arrays[task->out];
    return out->last_reader >= 0 || out->counterpart;
}

/* May the task be divided into this many panels? Not if it reads a result, searches for a variant, or has a variant
 * whose panels give other bits, nor if panels are no bands of its arrays. */
static bool is_divisible(const struct plan *plan, const struct task *task, int panels) {
    for (int i = 0; i < task->geometry.inputs; i++)
        if (task->in[i] >= plan->input_count) return false;
    int loop = choose_loop(&task->geometry, panels);
    if (!has_own_axes(&task->geometry, &task->geometry.out)) return false;
    for (int i = 0; i < task->geometry.inputs; i++)
        if (!has_own_axes(&task->geometry, &task->geometry.in[i])) return false;
    for (int r = task->first_run; r < task->first_run + task->run_count; r++)
        if (plan->runs[r].search || !same_bits_in_parts(&task->geometry, &plan->runs[r], loop, panels)) return false;
    return true;
}

/* The number of panels, at most `wanted`, into which a task can be divided. */
static int limit_panels(const struct task *task, int wanted) {
    int64_t max = max_panels(&task->geometry, choose_loop(&task->geometry, wanted));
    return max < wanted ? (int)max : wanted;
}

/* The number of checkpointed panels of an operation whose passes take `seconds`. Repeats do not count: an operation
 * that is timed is timed whole. A result that is read later stays whole on its device. */
static int count_checkpoints(const struct plan *plan, const struct task *task, double seconds) {
    enum job_keep keep = is_read(plan, task) ? KEEP_NEVER : task->operation->run.keep_tiles;
    int wanted = seconds > 2 * CHECKPOINT_S ? (int)fmin(ceil(seconds / CHECKPOINT_S), MAX_CHECKPOINTS) : 1;
    if (keep == KEEP_ALWAYS && wanted < MIN_CHECKPOINTS) wanted = MIN_CHECKPOINTS;
    return keep == KEEP_NEVER ? 1 : wanted;
}

/* The time in seconds at which all shards are done. */
static double end_of(const struct shard_groups *groups, int shards) {
    OWNED int *shard_of_task = shard_deal(groups, shards);
    return shard_last_end(groups, shard_of_task, shards);
}

bool units_uneven(const struct shard_groups *groups, int shards) {
    return end_of(groups, shards) > UNITS_UNEVEN * groups->seconds / shards;
}

/* Sorts the longest time first. */
static int compare_seconds(const void *one, const void *other) {
    const double *a = one, *b = other;
    return (*a < *b) - (*a > *b);
}

/* The longest time of an operation that stays whole; longer ones are divided for balance. */
static double longest_whole(const struct shard_groups *groups, double mean) {
    int count = groups->plan->task_count;
    OWNED double *seconds = must_malloc((size_t)count * sizeof *seconds + 1);
    for (int t = 0; t < count; t++) seconds[t] = groups->loads[t].seconds;
    qsort(seconds, (size_t)count, sizeof *seconds, compare_seconds);
    double next_longest = count > MAX_EVEN ? seconds[MAX_EVEN] : 0; /* after the MAX_EVEN longest */
    return fmin(SHARE * mean, fmax(EVEN_SHARE * mean, next_longest));
}

/* Returns for each task the number of its panels. The caller frees. */
static int *count_panels(const struct shard_groups *groups, int shards, enum shard_by by) {
    const struct plan *plan = groups->plan;
    int *counts = must_malloc((size_t)plan->task_count * sizeof *counts + 1);
    bool for_balance =
        by == SHARD_BY_TILES || (by == SHARD_AUTO && (groups->count < shards || units_uneven(groups, shards)));
    double mean = groups->seconds / shards, whole = longest_whole(groups, mean);
    for (int t = 0; t < plan->task_count; t++) {
        const struct task *task = &plan->tasks[t];
        const struct shard_load *load = &groups->loads[t];
        double group_s = groups->groups[groups->group_of_task[t]].load.seconds;
        bool is_long = load->seconds > whole && (!is_read(plan, task) || group_s > mean);
        int wanted = by == SHARD_CHECKPOINTED ? count_checkpoints(plan, task, load->pass_s)
                     : for_balance && is_long ? shards
                                              : 1;
        if (wanted > 1) wanted = limit_panels(task, wanted);
        counts[t] = wanted > 1 && is_divisible(plan, task, wanted) ? wanted : 1;
    }
    return counts;
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

/* Elements first .. first + count - 1 of a loop. */
struct loop_band {
    int loop;
    int64_t first, count;
};

/* The first element of panel number `panel` of a loop, rounded to a multiple of `grain`, which must be much shorter
 * than a panel; the loop's end if `panel` is `panels`. */
static int64_t panel_begin(int64_t extent, int panel, int panels, int64_t grain) {
    int64_t first = extent / panels * panel + extent % panels * panel / panels; /* extent * panel may overflow */
    return panel < panels ? (first + grain / 2) / grain * grain : extent;
}

/* The elements of panel number `panel`. Long panels begin where segments of the inputs' hashes begin, if the loop runs
 * along the last axis of an input. */
static struct loop_band band_of(const struct geometry *geometry, int loop, int panel, int panels) {
    int64_t extent = geometry->extent[loop], grain = 1;
    for (int i = 0; i < geometry->inputs; i++)
        if (axis_of(&geometry->in[i], loop) == geometry->in[i].shape.rank - 1 &&
            extent / panels >= ALIGNED_SEGMENTS * READER_SEGMENT)
            grain = READER_SEGMENT;
    int64_t first = panel_begin(extent, panel, panels, grain);
    return (struct loop_band){loop, first, panel_begin(extent, panel + 1, panels, grain) - first};
}

/* Appends the band of an input and returns its number; returns the input's own number if it lacks the loop. */
static int add_band(struct plan *plan, const struct plan *whole, int input, const struct operand *operand,
                    const struct loop_band *band) {
    int axis = array_axis_of(operand, band->loop);
    if (axis < 0) return input;
    struct array *array = &plan->arrays[plan->input_count];
    *array = array_copy(&whole->arrays[input]);
    array_narrow(array, axis, band->first, band->count);
    array->band = (struct array_band){&plan->arrays[input], axis, band->first};
    plan->arrays[input].has_bands = true;
    return plan->input_count++;
}

/* ---- tasks and runs ---------------------------------------------------------------------------------------------- */

/* Appends a run of the whole as one of a unit's task; `panel`: its tiles are cut to the panel. */
static void copy_run(struct plan *plan, const struct run *from, int task, bool panel) {
    struct run *run = &plan->runs[plan->run_count];
    *run = *from;
    run->number = plan->run_count++;
    run->task = task;
    run->label = must_strdup(from->label);
    run->skip = must_strdup(from->skip);
    run->note = must_strdup(from->note);
    if (panel && !run->skip)
        plan_tiles_of_part(&plan->tasks[task].geometry, &plan->facts[run->device], run, &from->tiling, &run->tiling);
}

/* "rows 16 to 31 of 64": the panel's place along the result's axis, counted from 0. The caller frees. */
static char *panel_text(const struct operand *out, const struct box *box, int axis) {
    enum { ELEMENTS = OPERAND_RANK };
    static const char *const one[ELEMENTS + 1] = {"matrix", "row", "column", "element"};
    static const char *const many[ELEMENTS + 1] = {"matrices", "rows", "columns", "elements"};
    int rank = out->shape.rank, what = rank == 1 ? ELEMENTS : OPERAND_RANK - rank + axis;
    int64_t first = box->start[axis], count = box->count[axis], size = out->shape.size[axis];
    if (count == 1) return must_printf("%s %lld of %lld", one[what], (long long)first, (long long)size);
    return must_printf("%s %lld to %lld of %lld", many[what], (long long)first, (long long)(first + count - 1),
                       (long long)size);
}

/* Makes a panel of a task: bands of its inputs, the geometry that follows from their shapes, its box in the whole's
 * result, and its text. */
static void make_panel(struct units *units, int number, const struct task *from, const struct loop_band *band) {
    struct plan *plan = &units->plan;
    struct task *task = &plan->tasks[number];
    struct shape shapes[MAX_INPUTS];
    enum dtype dtypes[MAX_INPUTS];
    struct error error = {.status = STATUS_OK};
    for (int i = 0; i < from->geometry.inputs; i++) {
        task->in[i] = add_band(plan, units->whole, from->in[i], &from->geometry.in[i], band);
        shapes[i] = plan->arrays[task->in[i]].shape;
        dtypes[i] = from->geometry.in[i].dtype;
    }
    const struct operand *out = &from->geometry.out;
    int axis = array_axis_of(out, band->loop);
    if (from->geometry.options.map) {
        struct geometry *geometry = &task->geometry;
        operation_geometry(from->geometry.op, &from->geometry.options, shapes, dtypes, geometry, &error);
        struct operand *values = has_map_before(geometry) ? &geometry->map_result : &geometry->out;
        values->axes.first[array_axis_of(values, band->loop)] = band->first;
    } else
        operations[from->geometry.op]->geometry(&from->geometry.options, shapes, dtypes, &task->geometry, &error);
    units->boxes[number].start[axis] = band->first;
    units->boxes[number].count[axis] = band->count;
    task->panel = panel_text(out, &units->boxes[number], axis);
}

/* Makes counts[t] tasks of task t of the whole: panels if there are several. */
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
            units->boxes[number] = box_whole(&shape);
            struct loop_band band = band_of(&from->geometry, loop, p, counts[t]);
            if (counts[t] > 1) make_panel(units, number, from, &band);
        }
    }
    units->first[whole->task_count] = plan->task_count;
}

/* The number in the units' plan of an array of the whole; for a result in panels, of the first panel. */
static int number_of(const struct units *units, int array) {
    const struct plan *plan = &units->plan, *whole = units->whole;
    int results_end = whole->input_count + whole->task_count;
    if (array < whole->input_count) return array;
    if (array >= results_end) return plan->input_count + plan->task_count + array - results_end;
    return plan->input_count + units->first[array - whole->input_count];
}

/* The entry in the units' plan of the counterpart of an array of the whole; NULL: it has none. */
static struct array *counterpart_of(const struct units *units, const struct array *array) {
    return array->counterpart ? &units->plan.arrays[number_of(units, (int)(array->counterpart - units->whole->arrays))]
                              : NULL;
}

/* Appends the results to the complete list of inputs, then the decoded entries of results. Lets all arrays point to
 * their counterparts in the units' plan, numbers the tasks' results and inputs in it, and records which tasks read
 * which array. */
static void make_results(struct units *units) {
    struct plan *plan = &units->plan;
    const struct plan *whole = units->whole;
    plan->array_count = plan->input_count + plan->task_count;
    for (int i = 0; i < whole->input_count; i++) plan->arrays[i].counterpart = counterpart_of(units, &whole->arrays[i]);
    for (int i = whole->input_count + whole->task_count; i < whole->array_count; i++) {
        struct array *array = &plan->arrays[plan->array_count++];
        *array = array_copy(&whole->arrays[i]);
        array->counterpart = counterpart_of(units, &whole->arrays[i]);
    }
    for (int t = 0; t < plan->task_count; t++) {
        struct task *task = &plan->tasks[t];
        struct array *out = &plan->arrays[plan->input_count + t];
        *out = array_copy(&whole->arrays[task->out]);
        out->counterpart = counterpart_of(units, &whole->arrays[task->out]);
        out->shape = operand_array(&task->geometry.out);
        task->out = plan->input_count + t;
        for (int i = 0; i < task->geometry.inputs; i++) {
            bool is_result = !task->panel && task->in[i] >= whole->input_count;
            int from_in = task->in[i];
            if (is_result) {
                task->in[i] = number_of(units, from_in); /* the first panel's array stands for all */
                plan->arrays[task->in[i]].shape = whole->arrays[from_in].shape;
            }
            array_add_reader(&plan->arrays[task->in[i]], t);
        }
    }
}

/* Makes the runs of all units from those of the whole's tasks. */
static void make_runs(struct units *units) {
    struct plan *plan = &units->plan;
    for (int t = 0; t < plan->task_count; t++) {
        const struct task *from = &units->whole->tasks[units->whole_task[t]];
        plan->tasks[t].first_run = plan->run_count;
        for (int r = 0; r < from->run_count; r++)
            copy_run(plan, &units->whole->runs[from->first_run + r], t, plan->tasks[t].panel != NULL);
    }
}

/* Makes the units that divide task t of the plan into counts[t] panels; 1: the task stays whole. */
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
    plan->user_kernel_count = 0; /* `whole` owns the user's kernels */
    plan->user_kernels = NULL;
    size_t others = (size_t)(whole->array_count - whole->task_count);
    plan->arrays = must_malloc((others + bands + tasks) * sizeof *plan->arrays + 1);
    plan->tasks = must_malloc(tasks * sizeof *plan->tasks + 1);
    plan->runs = must_malloc(runs * sizeof *plan->runs + 1);
    units->whole_task = must_malloc(tasks * sizeof *units->whole_task + 1);
    units->boxes = must_malloc(tasks * sizeof *units->boxes + 1);
    units->first = must_malloc((size_t)(whole->task_count + 1) * sizeof *units->first);
    for (int i = 0; i < whole->input_count; i++) plan->arrays[i] = array_copy(&whole->arrays[i]);
    make_tasks(units, counts);
    make_results(units);
    make_runs(units);
    return units;
}

/* The time that all panels of a task of the whole take. */
static double seconds_of_panels(const struct units *units, const struct shard_groups *parts, int task) {
    double seconds = 0;
    for (int p = units->first[task]; p < units->first[task + 1]; p++) seconds += parts->loads[p].seconds;
    return seconds;
}

/* Halves the number of panels of operations whose panels cost more than CHECKPOINTS_COST of the whole. false: changes
 * no number. */
static bool halve_panels(const struct units *units, const struct shard_groups *groups, const struct shard_groups *parts,
                         int shards, int *counts) {
    bool reduced = false;
    (void)shards; /* one process does all */
    for (int t = 0; t < units->whole->task_count; t++) {
        if (counts[t] == 1 || units->whole->tasks[t].operation->run.keep_tiles == KEEP_ALWAYS) continue;
        if (seconds_of_panels(units, parts, t) <= CHECKPOINTS_COST * groups->loads[t].seconds) continue;
        counts[t] /= 2;
        reduced = true;
    }
    return reduced;
}

/* Leaves short operations whole if dividing them costs more than their share of EVEN_COST. false: changes no number. */
static bool leave_whole(const struct units *units, const struct shard_groups *groups, const struct shard_groups *parts,
                        int shards, int *counts) {
    double mean = groups->seconds / shards;
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
    return reduced;
}

struct units *units_make(const struct plan *whole, int shards, enum shard_by by) {
    FREED_BY(shard_groups_release) struct shard_groups *groups = shard_groups_find(whole);
    OWNED int *counts = count_panels(groups, shards, by);
    struct units *units = divide(whole, counts);
    for (bool again = true; again && units_divide(units);) {
        FREED_BY(shard_groups_release) struct shard_groups *parts = shard_groups_find(&units->plan);
        again = (by == SHARD_CHECKPOINTED ? halve_panels : leave_whole)(units, groups, parts, shards, counts);
        /* If the job has enough operations for all shards, they are divided only if it ends much sooner. */
        bool pays = again || by != SHARD_AUTO || groups->count < shards ||
                    end_of(parts, shards) < UNITS_GAIN * end_of(groups, shards);
        for (int t = 0; t < whole->task_count && !pays; t++) counts[t] = 1;
        if (!again && pays) break;
        units_free(units);
        units = divide(whole, counts);
    }
    return units;
}

void units_free(struct units *units) {
    if (!units) return;
    struct plan *plan = &units->plan;
    for (int t = 0; t < plan->task_count; t++) free(plan->tasks[t].panel);
    for (int kind = 0; kind < 2; kind++) plan->facts[kind].limits = NULL; /* the whole's */
    plan_clear(plan);
    free(units->whole_task);
    free(units->boxes);
    free(units->first);
    free(units);
}

bool units_divide(const struct units *units) {
    return units->plan.task_count > units->whole->task_count;
}

const struct run *units_whole_run(const struct units *units, const struct run *run) {
    const struct task *unit_task = &units->plan.tasks[run->task];
    const struct task *whole_task = &units->whole->tasks[units->whole_task[run->task]];
    return &units->whole->runs[whole_task->first_run + run->number - unit_task->first_run];
}

const struct run *units_of_run(const struct units *units, const struct run *whole, int *count, int *stride) {
    int first = units->first[whole->task];
    const struct task *unit = &units->plan.tasks[first];
    *count = units->first[whole->task + 1] - first;
    *stride = unit->run_count;
    return &units->plan.runs[unit->first_run + whole->number - units->whole->tasks[whole->task].first_run];
}
