/* plan_table.c - prints the predictions of each run and their sum, as a table or as JSON. */
#include "../base/fail.h"
#include "../base/json.h"
#include "../base/table.h"
#include "../base/text.h"
#include "../plan/plan_cost.h"
#include "../plan/space.h"
#include "plan_print.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OPERATION, PARAMETERS, VARIANT, SHAPE, DEVICE, PASS, KERNEL, TOTAL, MEMORY, ROOF, COLUMNS };

static const struct table_column columns[COLUMNS] = {
    [OPERATION] = {.name = "operation"},
    [PARAMETERS] = {.name = "parameters", .priority = 1},
    [VARIANT] = {.name = "variant"},
    [SHAPE] = {.name = "shape", .priority = 2},
    [DEVICE] = {.name = "device", .priority = 5},
    [PASS] = {.name = "pass", .right = true, .priority = 4},
    [KERNEL] = {.name = "kernel", .right = true},
    [TOTAL] = {.name = "total", .right = true},
    [MEMORY] = {.name = "memory", .right = true, .priority = 3},
    [ROOF] = {.name = "of roof", .right = true, .priority = 1},
};

static void add_row(struct table *table, const struct plan *plan, const struct run *run, const struct cost *cost) {
    const struct task *task = &plan->tasks[run->task];
    char text[32];
    table_row(table);
    table_cell(table, OPERATION, "%s", task->operation->id);
    table_cell(table, PARAMETERS, "%s", task->operation->label);
    table_cell(table, VARIANT, "%s", run->label);
    table_cell(table, SHAPE, "%s", task->geometry.shape_text);
    table_cell(table, DEVICE, "%s", plan->facts[run->device].id);
    table_cell(table, PASS, "%s", duration_text(cost->pass_s, text));
    table_cell(table, KERNEL, "%s", duration_text(cost->kernel_s, text));
    table_cell(table, TOTAL, "%s", duration_text(cost->total_s, text));
    table_cell(table, MEMORY, "%s", size_text((double)run->tiling.memory_bytes, text));
    double share = cost->bound_s / cost->kernel_s;
    if (share >= 0 && isfinite(share)) table_cell(table, ROOF, share < 0.1 ? "%.1f%%" : "%.0f%%", 100 * share);
    if (run->note) table_remark(table, run->note);
}

/* Is an earlier run skipped for the same reason? */
static bool printed_before(const struct plan *plan, int number) {
    for (int i = 0; i < number; i++)
        if (plan->runs[i].skip && strcmp(plan->runs[i].skip, plan->runs[number].skip) == 0) return true;
    return false;
}

/* "4 runs skipped: needs a CUDA GPU (naive, tiled)" */
static void print_skipped(const struct plan *plan, int number, int width, FILE *to) {
    const char *why = plan->runs[number].skip;
    char *names = must_strdup("");
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
    char *line = must_printf("%d run%s skipped: %s (%s)", count, count == 1 ? "" : "s", why, names);
    text_print_wrapped(line, 0, width, to);
    free(line);
    free(names);
}

static void print_line(char *line, int width, FILE *to) {
    text_print_wrapped(line, 0, width, to);
    free(line);
}

static bool measured(const struct plan *plan) {
    for (int i = 0; i < plan->run_count; i++)
        if (!plan->runs[i].skip && !plan->facts[plan->runs[i].device].limits) return false;
    return true;
}

static struct cost sum_of(const struct plan *plan, int *runs, bool *least) {
    struct cost sum = {0};
    for (int i = 0; i < plan->run_count; i++) {
        const struct run *run = &plan->runs[i];
        if (run->skip) continue;
        struct cost cost = plan_cost(plan, run);
        const struct run_options *options = &plan->tasks[run->task].operation->run;
        sum.pass_s += cost.pass_s;
        sum.repeats_s += cost.repeats_s;
        sum.verify_s += cost.verify_s;
        sum.total_s += cost.total_s;
        *least = *least || (options->repeat_until > 0 && options->repeat_min < options->repeat_max);
        ++*runs;
    }
    return sum;
}

static void print_sum(const struct plan *plan, int width, FILE *to) {
    char a[32], b[32], c[32], d[32];
    int runs = 0;
    bool least = false;
    struct cost sum = sum_of(plan, &runs, &least);
    print_line(must_printf("%d run%s: %s%s (passes %s, warm-up and repeats %s, verification %s)", runs,
                           runs == 1 ? "" : "s", least ? "at least " : "", duration_text(sum.total_s, a),
                           duration_text(sum.pass_s, b), duration_text(sum.repeats_s, c),
                           duration_text(sum.verify_s, d)),
               width, to);
    double free_bytes;
    char *folder = space_folder(plan->job->output);
    bool known = space_free(folder, &free_bytes);
    print_line(must_printf("disk: %s needed, %s free in %s", size_text(space_needed(plan), a),
                           known ? size_text(free_bytes, b) : "an unknown number of bytes", folder),
               width, to);
    free(folder);
    double elsewhere = space_elsewhere(plan, &folder);
    if (folder) {
        known = space_free(folder, &free_bytes);
        print_line(must_printf("disk: %s needed, %s free in %s", size_text(elsewhere, a),
                               known ? size_text(free_bytes, b) : "an unknown number of bytes", folder),
                   width, to);
    }
    free(folder);
    if (runs > 0)
        print_line(must_strdup(measured(plan) ? "Times are predicted from measured limits of this machine."
                                              : "Times are predicted from assumed limits; `tilerun devices --measure` "
                                                "measures them."),
                   width, to);
}

void plan_print_table(const struct plan *plan, int width, FILE *to) {
    struct table *table = table_create(columns, COLUMNS);
    for (int i = 0; i < plan->run_count; i++) {
        const struct run *run = &plan->runs[i];
        if (run->skip) continue;
        struct cost cost = plan_cost(plan, run);
        add_row(table, plan, run, &cost);
    }
    table_print(table, width, NULL, to);
    table_free(table);
    for (int i = 0; i < plan->run_count; i++)
        if (plan->runs[i].skip && !printed_before(plan, i)) print_skipped(plan, i, width, to);
    print_sum(plan, width, to);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void put_text(const char *name, const char *text, FILE *to) {
    fprintf(to, ", \"%s\": ", name);
    json_write_string(to, text, strlen(text));
}

static void put_number(const char *name, double value, FILE *to) {
    if (isfinite(value))
        fprintf(to, ", \"%s\": %.9g", name, value);
    else
        fprintf(to, ", \"%s\": null", name);
}

static void put_cost(const struct plan *plan, const struct run *run, FILE *to) {
    struct cost cost = plan_cost(plan, run);
    put_number("pass_s", cost.pass_s, to);
    put_number("kernel_s", cost.kernel_s, to);
    put_number("repeats_s", cost.repeats_s, to);
    put_number("verify_s", cost.verify_s, to);
    put_number("total_s", cost.total_s, to);
    put_number("bound_s", cost.bound_s, to);
    put_text("bound_by", cost.bound_by, to);
    put_number("memory_bytes", (double)run->tiling.memory_bytes, to);
    put_number("steps", (double)run->tiling.steps, to);
    put_number("traffic_bytes", run->tiling.traffic_bytes, to);
}

void plan_print_json(const struct plan *plan, FILE *to) {
    int runs = 0;
    bool least = false;
    struct cost sum = sum_of(plan, &runs, &least);
    fprintf(to, "{\"runs\": [");
    for (int i = 0; i < plan->run_count; i++) {
        const struct run *run = &plan->runs[i];
        const struct task *task = &plan->tasks[run->task];
        fprintf(to, "%s\n  {\"run\": %d", i ? "," : "", run->number);
        put_text("operation", task->operation->id, to);
        put_text("op", operations[task->geometry.op]->name, to);
        put_text("variant", run->label, to);
        put_text("parameters", task->operation->label, to);
        put_text("shape", task->geometry.shape_text, to);
        put_text("dtype", dtype_name(task->geometry.in[0].dtype), to);
        if (run->skip) {
            put_text("skipped", run->skip, to);
        } else {
            put_text("device", plan->facts[run->device].id, to);
            put_cost(plan, run, to);
        }
        fprintf(to, "}");
    }
    double free_bytes = NAN;
    char *folder = space_folder(plan->job->output);
    if (!space_free(folder, &free_bytes)) free_bytes = NAN;
    free(folder);
    fprintf(to, "\n],\n\"limits\": \"%s\"", measured(plan) ? "measured" : "assumed");
    put_text("output", plan->job->output, to);
    put_number("total_s", sum.total_s, to);
    put_number("disk_bytes", space_needed(plan), to);
    put_number("disk_free_bytes", free_bytes, to);
    fprintf(to, "}\n");
}
