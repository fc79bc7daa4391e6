/* units.c - finds finished units and combines those of a run. A unit is a whole run or one panel of it
 * (divide/units.h); its part is a file with one row, its samples and perhaps its output. The row of a run in panels has
 * the sums of the panels' times, and its output is the panels' outputs joined. */
#include "../base/fail.h"
#include "../storage/operand.h"
#include "../storage/raw/rawread.h"
#include "../storage/raw/rawwrite.h"
#include "../storage/untrusted/fence.h"
#include "../storage/untrusted/h5open.h"
#include "results.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- finding one ------------------------------------------------------------------------------------------------- */

/* Is the part undamaged? Linking should take only seconds, so it trusts large parts that were synced to disk without
 * hashing them. */
static bool is_usable(const struct results *results, const char *path) {
    enum trailer trailer = part_trailer(path);
    return part_is_whole(path, results->policy.links && trailer == TRAILER_SYNCED ? PART_LINKED_HASHED : INT64_MAX);
}

bool part_read_row(const struct results *results, const char *path, struct result_row *row, bool *has_output) {
    FENCE(path);
    hid_t file = is_usable(results, path) ? h5_open_unlocked(path) : H5I_INVALID_HID;
    if (file < 0) return false;
    struct result_row *rows = NULL;
    int count = 0;
    struct error ignored = {STATUS_OK, ""};
    bool good = !result_load_rows(file, path, &rows, &count, &ignored) && count == 1;
    if (good) *row = *rows;
    *has_output = H5Lexists(file, "output", H5P_DEFAULT) > 0;
    free(rows);
    H5Fclose(file);
    return good;
}

/* Reads a part if a unit can use it: it has an output, if one is wanted. `any`: the row of a run that made no result is
 * accepted too. */
static bool read_usable_part(const struct results *results, const char *path, bool wants, bool any,
                             struct result_row *row, bool *has_output) {
    *has_output = false;
    if (!part_read_row(results, path, row, has_output)) return false;
    return result_row_done(row) ? *has_output || !wants : any;
}

/* Removes an unusable part, but only from this process's own folder, and not if OUTPUT has virtual data sets that read
 * it. */
static void remove_unusable(const struct results *results, const char *path) {
    size_t own = strlen(results->folder.own);
    if (!results->policy.linked && strncmp(path, results->folder.own, own) == 0 && path[own] == '/') unlink(path);
}

/* Finds a finished part for the unit, its own or the whole run's, fills `row` from it, and notes in `known` what was
 * found. For `merge` a run that made no result counts too, an output is needed only if the results file stores it, and
 * an unusable part stays. */
static bool find(struct results *results, const struct run *unit, bool merge, struct result_row *row) {
    const struct task *task = &results->units->plan.tasks[unit->task];
    bool wants = unit_wants_output(results, unit) && (!merge || task->operation->run.store != STORE_NONE);
    const struct run *whole = units_whole_run(results->units, unit);
    struct result_row held;
    bool has_output;
    char *path = results_unit_path(results, unit);
    bool found = read_usable_part(results, path, wants, merge, &held, &has_output);
    if (!found && !merge) remove_unusable(results, path);
    free(path);
    if (!found && task->panel) { /* if the job was divided otherwise before, one part may have the whole run */
        path = results_run_path(results, whole);
        found = read_usable_part(results, path, wants, merge, &held, &has_output);
        results->known.in_one[whole->number] |= found;
        free(path);
    }
    if (!found) return false;
    *row = held;
    row->run = unit->number;
    results->known.kept[unit->task] |= has_output;
    results->known.reused = true;
    return true;
}

bool store_find(struct results *results, const struct run *unit, struct result_row *row) {
    return find(results, unit, false, row);
}

bool store_find_any(struct results *results, const struct run *unit, struct result_row *row) {
    return find(results, unit, true, row);
}

void results_point_at_output(struct results *results, const struct run *unit) {
    const struct plan *plan = &results->units->plan;
    char *path = results_unit_path(results, unit);
    const struct array *out = &plan->arrays[plan->tasks[unit->task].out], *all[] = {out, out->other};
    for (int i = 0; i < 2 && all[i]; i++)
        reader_set_dataset(&results->readers->of[all[i] - plan->arrays], path, "/output");
    free(path);
}

void results_close_outputs(const struct results *results) {
    const struct readers *readers = results->readers;
    for (int i = 0; i < readers->count; i++)
        if (!readers->of[i].array->input) reader_close(&readers->of[i]);
}

/* ---- the parts of a run ------------------------------------------------------------------------------------------ */

bool run_is_in_panels(const struct results *results, const struct run *whole) {
    int task = whole->task;
    return results->units->first[task + 1] - results->units->first[task] > 1 && !results->known.in_one[whole->number];
}

int parts_of_run(const struct results *results, const struct run *whole, char ***paths, struct box **places) {
    const struct units *units = results->units;
    bool panels = run_is_in_panels(results, whole);
    int count, stride;
    const struct run *first = units_of_run(units, whole, &count, &stride);
    if (!panels) count = 1;
    *paths = must_malloc((size_t)count * sizeof **paths);
    *places = must_malloc((size_t)count * sizeof **places);
    for (int p = 0; p < count; p++) {
        const struct shape shape = operand_array(&results->plan->tasks[whole->task].geometry.out);
        const struct run *unit = first + p * stride;
        (*paths)[p] = panels ? results_unit_path(results, unit) : results_run_path(results, whole);
        (*places)[p] = panels ? units->place[unit->task] : box_whole(&shape);
    }
    return count;
}

void parts_of_run_free(char **paths, struct box *places, int count) {
    for (int p = 0; p < count; p++) free(paths[p]);
    free(paths);
    free(places);
}

/* ---- taking panels together -------------------------------------------------------------------------------------- */

/* Adds a panel's row to the run's. The run's status is that of its first panel that made no result. */
static void add_row(struct result_row *sum, const struct result_row *row, const struct task *panel, bool first) {
    double *const sums[] = {&sum->read_s,  &sum->h2d_s,      &sum->d2h_s,      &sum->write_s, &sum->total_s,
                            &sum->bound_s, &sum->file_bytes, &sum->overflowed, &sum->wrapped, &sum->truncated};
    const double more[] = {row->read_s,  row->h2d_s,      row->d2h_s,      row->write_s, row->total_s,
                           row->bound_s, row->file_bytes, row->overflowed, row->wrapped, row->truncated};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) *sums[i] = first ? more[i] : *sums[i] + more[i];
    if (first || row->error > sum->error) sum->error = row->error;
    if (first || !sum->flags[0]) snprintf(sum->flags, sizeof sum->flags, "%s", row->flags);
    if (first) { /* these are the same for all panels */
        sum->tolerance = row->tolerance;
        snprintf(sum->device, sizeof sum->device, "%s", row->device);
        snprintf(sum->device_name, sizeof sum->device_name, "%s", row->device_name);
        snprintf(sum->verify, sizeof sum->verify, "%s", row->verify);
        snprintf(sum->bound_by, sizeof sum->bound_by, "%s", row->bound_by);
        sum->threads = row->threads;
    }
    if (!first && !result_row_done(sum)) return;
    snprintf(sum->status, sizeof sum->status, "%s", row->status);
    if (strcmp(row->status, "skipped") == 0)
        snprintf(sum->message, sizeof sum->message, "%s", row->message);
    else if (!result_row_done(row))
        snprintf(sum->message, sizeof sum->message, "%.60s: %.180s", panel->panel, row->message);
}

/* Adds sample i of a panel to sample i of the run, as far as all panels have one. */
static void add_samples(struct samples *sum, const char *path, bool first) {
    struct error ignored = {STATUS_OK, ""};
    struct h5_dataset *dataset;
    const struct conditions unknown = {.clock_mhz = NAN, .power_w = NAN, .temperature_c = NAN};
    if (h5_open(path, "/seconds", &dataset, &ignored)) {
        sum->count = 0;
        return;
    }
    struct box all = box_whole(&dataset->shape);
    double *seconds = must_malloc((size_t)all.count[0] * sizeof *seconds + 1);
    int count = h5_read(dataset, &all, seconds, &ignored) ? 0 : (int)all.count[0];
    if (!first && count < sum->count) sum->count = count;
    for (int i = 0; i < (first ? count : sum->count); i++)
        if (first)
            samples_append(sum, seconds[i], &unknown, i);
        else
            sum->seconds[i] += seconds[i];
    free(seconds);
    h5_close(dataset);
}

static struct samples sum_samples(const struct results *results, const struct run *whole) {
    struct samples sum = {.count = 0};
    char **paths;
    struct box *places;
    int count = parts_of_run(results, whole, &paths, &places);
    for (int p = 0; p < count; p++) add_samples(&sum, paths[p], p == 0);
    parts_of_run_free(paths, places, count);
    return sum;
}

static void finish_row(struct result_row *sum, const struct samples *samples, int panels) {
    struct statistics statistics = samples_statistics(samples);
    sum->repeats = samples->count;
    sum->kernel_median_s = statistics.median;
    sum->kernel_min_s = statistics.min;
    sum->kernel_max_s = statistics.max;
    sum->kernel_mad_s = statistics.mad;
    samples_interval(samples, &sum->kernel_ci_low_s, &sum->kernel_ci_high_s);
    sum->gflops = sum->flops / statistics.median * 1e-9;
    sum->gbytes_per_s = sum->bytes / statistics.median * 1e-9;
    sum->percent_of_bound = 100 * sum->bound_s / statistics.median;
    snprintf(sum->message, sizeof sum->message, "done in %d panels (/panels); times are their sums", panels);
}

static bool whole_row(const struct results *results, const struct run *whole, struct result_row *row) {
    bool has_output;
    char *path = results_run_path(results, whole);
    bool found = part_read_row(results, path, row, &has_output);
    free(path);
    return found;
}

bool results_run_row(const struct results *results, const struct run *whole, const struct result_row *of_units,
                     struct result_row *row) {
    const struct units *units = results->units;
    int count, stride;
    const struct run *first = units_of_run(units, whole, &count, &stride);
    bool there = true;
    if (count == 1)
        *row = of_units[first->number];
    else if (results->known.in_one[whole->number])
        there = whole_row(results, whole, row);
    else
        result_row_init(row, results->plan, whole);
    row->run = whole->number;
    if (!run_is_in_panels(results, whole)) return there && row->status[0];
    for (int p = 0; p < count; p++) {
        const struct result_row *own = &of_units[first[p * stride].number];
        if (!own->status[0]) there = false;
        add_row(row, own, &units->plan.tasks[first[p * stride].task], p == 0);
    }
    if (!there) row->status[0] = '\0';
    if (!there || !result_row_done(row)) return there;
    struct samples samples = sum_samples(results, whole);
    finish_row(row, &samples, count);
    samples_free(&samples);
    return true;
}

/* ---- putting outputs together ------------------------------------------------------------------------------------ */

static enum status join_panel(const char *path, const struct box *place, struct h5_dataset *to, struct rawwrite *write,
                              void *memory, struct error *error) {
    struct h5_dataset *from = NULL;
    struct rawread *raw = NULL;
    enum status status = h5_open(path, "/output", &from, error);
    if (!status) status = rawread_open(from, &raw, error);
    if (!status) status = copy_dataset(from, raw, to, write, place, memory, error);
    rawread_close(raw);
    h5_close(from);
    return status;
}

enum status panels_join(const struct results *results, const struct run *whole, hid_t file, const char *path,
                        struct error *error) {
    const struct task *task = &results->plan->tasks[whole->task];
    const struct array *out = &results->plan->arrays[task->out];
    struct h5_layout layout = plan_layout(&task->operation->run);
    struct h5_dataset *to = NULL;
    struct rawwrite *write = NULL;
    char **paths;
    struct box *places;
    int count = parts_of_run(results, whole, &paths, &places);
    void *memory = must_malloc(PIECE_BYTES);
    enum status status = h5_create(file, path, out->dtype, &out->shape, &layout, &to, error);
    /* With a journal all writes go through HDF5, which records them; raw writes would bypass it. */
    if (!status && !results->journal) status = rawwrite_open(to, 0, &write, error);
    for (int p = 0; p < count && !status; p++) status = join_panel(paths[p], &places[p], to, write, memory, error);
    if (!status) status = h5_check_writes(to, error);
    rawwrite_close(write);
    h5_close(to);
    free(memory);
    parts_of_run_free(paths, places, count);
    return status;
}

enum status panels_write_samples(const struct results *results, const struct run *whole, hid_t file, const char *path,
                                 struct error *error) {
    struct samples samples = sum_samples(results, whole);
    hid_t group = H5I_INVALID_HID;
    enum status status = samples.count > 0 ? h5_group(file, "/samples", &group, error) : STATUS_OK;
    if (!status && samples.count > 0)
        status = results_write_vector(file, path, FLOAT64, samples.count, samples.seconds, "s", error);
    if (group >= 0) H5Gclose(group);
    samples_free(&samples);
    return status;
}

/* Sets the message of a panel's row to the panel's name and, if a shard made it, the shard's folder. */
static void set_panel_message(const struct results *results, const struct run *unit, struct result_row *row) {
    char *path = results_unit_path(results, unit), *slash = strrchr(path, '/');
    *slash = '\0';
    const char *shard = strlen(path) > strlen(results->folder.whole) ? strrchr(path, '/') + 1 : "";
    snprintf(row->message, sizeof row->message, "%.60s%s%.40s", results->units->plan.tasks[unit->task].panel,
             *shard ? "; " : "", shard);
    free(path);
}

enum status panels_write_rows(hid_t file, const struct results *results, const struct result_row *of_units,
                              struct error *error) {
    const struct units *units = results->units;
    struct result_row *rows = must_malloc((size_t)units->plan.run_count * sizeof *rows + 1);
    int count = 0;
    for (int i = 0; i < units->plan.run_count; i++) {
        const struct run *unit = &units->plan.runs[i], *whole = units_whole_run(units, unit);
        if (!run_is_in_panels(results, whole) || !of_units[i].status[0]) continue;
        rows[count] = of_units[i];
        rows[count].run = whole->number;
        set_panel_message(results, unit, &rows[count++]);
    }
    enum status status = count > 0 ? result_write_rows(file, "panels", rows, count, error) : STATUS_OK;
    free(rows);
    return status;
}
