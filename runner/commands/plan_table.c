/* plan_table.c - prints the predictions of each run and their sum, as a table or as JSON. */
#include "../base/fail.h"
#include "../base/json.h"
#include "../base/path.h"
#include "../base/table.h"
#include "../base/text.h"
#include "../plan/plan_cost.h"
#include "../plan/space.h"
#include "plan_print.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OPERATION, PARAMETERS, VARIANT, SHAPE, DEVICE, PASS, KERNEL, WALL, MEMORY, ROOF, COLUMNS };

static const struct table_column columns[COLUMNS] = {
    [OPERATION] = {.name = "operation"},
    [PARAMETERS] = {.name = "parameters", .priority = 1},
    [VARIANT] = {.name = "variant"},
    [SHAPE] = {.name = "shape", .priority = 2},
    [DEVICE] = {.name = "device", .priority = 5},
    [PASS] = {.name = "pass", .right = true, .priority = 4},
    [KERNEL] = {.name = "kernel", .right = true},
    [WALL] = {.name = "wall", .right = true},
    [MEMORY] = {.name = "memory", .right = true, .priority = 3},
    [ROOF] = {.name = "of roof", .right = true, .priority = 1},
};

/* Adds a run's row, with the note as its remark. */
static void add_row(struct table *table, const struct plan *plan, const struct run *run, const struct cost *cost) {
    const struct task *task = &plan->tasks[run->task];
    char text[32];
    table_row(table);
    table_cell(table, OPERATION, "%s", task->operation->id);
    table_cell(table, PARAMETERS, "%s", task->operation->label);
    table_cell(table, VARIANT, "%s", run->label);
    table_cell(table, SHAPE, "%s", task->geometry.shape_text);
    table_cell(table, DEVICE, "%s", plan->facts[run->device].id);
    const bool unknown = run->tiling.unknown;
    table_cell(table, PASS, "%s", unknown ? "unknown" : duration_text(cost->pass_s, text));
    table_cell(table, KERNEL, "%s", unknown ? "unknown" : duration_text(cost->kernel_s, text));
    table_cell(table, WALL, "%s", unknown ? "unknown" : duration_text(cost->total_s, text));
    table_cell(table, MEMORY, "%s", size_text((double)run->tiling.memory_bytes, text));
    double share = cost->bound_s / cost->kernel_s;
    if (!unknown && share >= 0 && isfinite(share))
        table_cell(table, ROOF, share < 0.1 ? "%.1f%%" : "%.0f%%", 100 * share);
    if (run->note) table_remark(table, run->note);
}

/* Is an earlier run skipped for the same reason? */
static bool printed_before(const struct plan *plan, int number) {
    for (int i = 0; i < number; i++)
        if (plan->runs[i].skip && strcmp(plan->runs[i].skip, plan->runs[number].skip) == 0) return true;
    return false;
}

/* Prints about run `number` and the later ones skipped for its reason: "4 runs skipped: needs a CUDA GPU (naive,
 * tiled)". Each variant is named once. */
static void print_skipped(const struct plan *plan, int number, int width, FILE *to) {
    const char *why = plan->runs[number].skip;
    OWNED char *names = must_strdup("");
    int count = 0;
    for (int i = number; i < plan->run_count; i++) {
        const struct run *run = &plan->runs[i];
        if (!run->skip || strcmp(run->skip, why) != 0) continue;
        count++;
        bool named = false;
        for (int before = number; before < i && !named; before++)
            named = plan->runs[before].skip && strcmp(plan->runs[before].skip, why) == 0 &&
                    strcmp(plan->runs[before].label, run->label) == 0;
        if (named) continue;
        must_append(&names, "%s%s", *names ? ", " : "", run->label);
    }
    plan_print_line(width, to, "%d run%s skipped: %s (%s)", count, count == 1 ? "" : "s", why, names);
}

static bool limits_are_measured(const struct plan *plan) {
    for (int i = 0; i < plan->run_count; i++)
        if (!plan->runs[i].skip && !plan->facts[plan->runs[i].device].limits) return false;
    return true;
}

/* The sum over the runs whose times are known. *runs: the number of runs that are not skipped; *unknown: those of them
 * without a known time; *is_lower_bound: `until` may make the sum larger. */
static struct cost sum_of(const struct plan *plan, int *runs, int *unknown, bool *is_lower_bound) {
    struct cost sum = {0};
    *runs = *unknown = 0;
    *is_lower_bound = false;
    for (int i = 0; i < plan->run_count; i++) {
        const struct run *run = &plan->runs[i];
        if (run->skip) continue;
        ++*runs;
        *unknown += run->tiling.unknown;
        if (run->tiling.unknown) continue;
        struct cost cost = plan_cost(plan, run);
        const struct run_options *options = &plan->tasks[run->task].operation->run;
        sum.pass_s += cost.pass_s;
        sum.repeats_s += cost.repeats_s;
        sum.verify_s += cost.verify_s;
        sum.total_s += cost.total_s;
        *is_lower_bound = *is_lower_bound || (options->repeat_until > 0 && options->repeat_min < options->repeat_max);
    }
    return sum;
}

static void print_disk(const char *folder, double needed, int width, FILE *to) {
    double free_bytes;
    char a[32], b[32];
    bool known = space_available(folder, &free_bytes);
    plan_print_line(width, to, "disk: %s needed, %s free in %s", size_text(needed, a),
                    known ? size_text(free_bytes, b) : "an unknown number of bytes", folder);
}

/* Prints the total of the predicted times, the disk space that is needed, and whether limits were measured. */
static void print_sum(const struct plan *plan, int width, FILE *to) {
    char a[32], b[32], c[32], d[32];
    int runs, unknown;
    bool is_lower_bound;
    struct cost sum = sum_of(plan, &runs, &unknown, &is_lower_bound);
    plan_print_line(width, to, "%d run%s: %s%s (passes %s, warm-up and repeats %s, verification %s)", runs,
                    runs == 1 ? "" : "s", is_lower_bound ? "at least " : "", duration_text(sum.total_s, a),
                    duration_text(sum.pass_s, b), duration_text(sum.repeats_s, c), duration_text(sum.verify_s, d));
    if (unknown)
        plan_print_line(width, to,
                        "%d of them not counted: neither the limits of this machine nor a model predicts their times",
                        unknown);
    OWNED char *folder = path_folder(plan->job->output), *other = NULL;
    print_disk(folder, space_needed(plan), width, to);
    double elsewhere = space_elsewhere(plan, &other);
    if (other) print_disk(other, elsewhere, width, to);
    if (runs > 0)
        plan_print_line(width, to, "%s",
                        limits_are_measured(plan)
                            ? "Times are predicted from measured limits of this machine."
                            : "Times are predicted from assumed limits; `tilerun devices --measure` measures them.");
}

void plan_print_table(const struct plan *plan, int width, FILE *to) {
    FREED_BY(table_release) struct table *table = table_create(columns, COLUMNS);
    for (int i = 0; i < plan->run_count; i++) {
        const struct run *run = &plan->runs[i];
        if (run->skip) continue;
        struct cost cost = plan_cost(plan, run);
        add_row(table, plan, run, &cost);
    }
    table_print(table, width, NULL, to);
    for (int i = 0; i < plan->run_count; i++)
        if (plan->runs[i].skip && !printed_before(plan, i)) print_skipped(plan, i, width, to);
    print_sum(plan, width, to);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Prints a run's predictions as members of its object. */
static void print_cost(const struct plan *plan, const struct run *run, FILE *to) {
    struct cost cost = plan_cost(plan, run);
    if (run->tiling.unknown) cost.pass_s = cost.kernel_s = cost.repeats_s = cost.total_s = NAN;
    json_write_number(to, "pass_s", cost.pass_s, 9);
    json_write_number(to, "kernel_s", cost.kernel_s, 9);
    json_write_number(to, "repeats_s", cost.repeats_s, 9);
    json_write_number(to, "verify_s", cost.verify_s, 9);
    json_write_number(to, "wall_s", cost.total_s, 9);
    json_write_number(to, "bound_s", cost.bound_s, 9);
    json_write_text(to, ", ", "bound_by", cost.bound_by);
    json_write_number(to, "memory_bytes", (double)run->tiling.memory_bytes, 9);
    json_write_number(to, "steps", (double)run->tiling.steps, 9);
    json_write_number(to, "traffic_bytes", run->tiling.traffic_bytes, 9);
}

void plan_print_json(const struct plan *plan, FILE *to) {
    int runs, unknown;
    bool is_lower_bound;
    struct cost sum = sum_of(plan, &runs, &unknown, &is_lower_bound);
    fprintf(to, "{\"runs\": [");
    for (int i = 0; i < plan->run_count; i++) {
        const struct run *run = &plan->runs[i];
        const struct task *task = &plan->tasks[run->task];
        fprintf(to, "%s\n  {\"run\": %d", i ? "," : "", run->number);
        json_write_text(to, ", ", "operation", task->operation->id);
        json_write_text(to, ", ", "op", operations[task->geometry.op]->name);
        json_write_text(to, ", ", "variant", run->label);
        json_write_text(to, ", ", "parameters", task->operation->label);
        json_write_text(to, ", ", "shape", task->geometry.shape_text);
        json_write_text(to, ", ", "dtype", dtype_name(task->geometry.in[0].dtype));
        if (run->skip) {
            json_write_text(to, ", ", "skipped", run->skip);
        } else {
            json_write_text(to, ", ", "device", plan->facts[run->device].id);
            print_cost(plan, run, to);
        }
        fprintf(to, "}");
    }
    double free_bytes = NAN;
    OWNED char *folder = path_folder(plan->job->output);
    if (!space_available(folder, &free_bytes)) free_bytes = NAN;
    fprintf(to, "\n],\n\"limits\": \"%s\"", limits_are_measured(plan) ? "measured" : "assumed");
    json_write_text(to, ", ", "output", plan->job->output);
    json_write_number(to, "wall_s", sum.total_s, 9);
    json_write_number(to, "disk_bytes", space_needed(plan), 9);
    json_write_number(to, "disk_free_bytes", free_bytes, 9);
    fprintf(to, "}\n");
}
