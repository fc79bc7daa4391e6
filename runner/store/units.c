/* units.c - finds finished units, combines those of a run, and notes those that took too long. A unit is a whole run or
 * one panel of it (divide/units.h). Its part is a file with one row, samples and perhaps an output. The row of a run in
 * panels has the sums of the panels' times; its output is made of the panels' outputs. */
#include "../base/fail.h"
#include "../base/path.h"
#include "../plan/user_kernel.h"
#include "../record/environment.h"
#include "../storage/operand.h"
#include "../storage/untrusted/fence.h"
#include "../storage/untrusted/h5open.h"
#include "results.h"
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* ---- finding one ------------------------------------------------------------------------------------------------- */

/* Reads the row of a part; false: the part is damaged, or gone. Hashes each part only once. Linking should take only
 * seconds, so it trusts large parts that were synced to the disk without hashing them. */
bool part_read_row(const struct results *results, const char *path, struct result_row *row, bool *has_output) {
    FENCE(path);
    bool trusted = results->policy.links && part_trailer(path) == TRAILER_SYNCED;
    off_t max_hashed = trusted ? PART_LINKED_HASHED : ANY_SIZE;
    if (results_part_checked(results, path)) max_hashed = 0;
    OWNED_ID hid_t part = part_open(path, max_hashed);
    if (part < 0) return false;
    bool good = part_row(part, path, row);
    *has_output = H5Lexists(part, "output", H5P_DEFAULT) > 0;
    return good;
}

/* Reads a part if a unit can use it: the run is done, and has an output if one is wanted. Else the part is of use only
 * to a search, which tried the run, or to `merge`, for which the run must have failed. */
static bool read_usable_part(const struct results *results, const char *path, bool wants, bool searched,
                             struct result_row *row, bool *has_output) {
    *has_output = false;
    if (!part_read_row(results, path, row, has_output)) return false;
    if (result_row_done(row)) return *has_output || !wants;
    bool tried = strcmp(row->status, "interrupted") == 0;
    return results->policy.merges ? !tried : searched && (tried || result_row_lost(row));
}

/* Removes an unusable part, but only from this process's own folder, and not if OUTPUT has virtual data sets that read
 * it. */
static void remove_unusable(const struct results *results, const char *path) {
    size_t length = strlen(results->folder.parts);
    if (!results->linked && strncmp(path, results->folder.parts, length) == 0 && path[length] == '/') unlink(path);
}

/* Finds the part of the unit or of the undivided run, and notes in `known` what was found. Removes a part of the unit
 * that cannot be used, except for `merge`. `merge` needs an output only
 * if the results file stores it. */
bool store_find(struct results *results, const struct run *unit, struct result_row *row) {
    const struct task *task = &results->units->plan.tasks[unit->task];
    bool merges = results->policy.merges, has_output;
    bool wants = unit_wants_output(results, unit) && (!merges || task->operation->run.store != STORE_NONE);
    const struct run *whole = units_whole_run(results->units, unit);
    struct result_row found_row;
    OWNED char *unit_path = results_unit_path(results, unit);
    bool found = read_usable_part(results, unit_path, wants, unit->search != 0, &found_row, &has_output);
    if (!found && !merges) remove_unusable(results, unit_path);
    if (!found && task->panel) { /* if the job was divided otherwise before, one part may have the whole run */
        OWNED char *path = results_run_path(results, whole);
        found = read_usable_part(results, path, wants, unit->search != 0, &found_row, &has_output);
        results->known.in_one[whole->number] |= found;
    }
    if (!found) return false;
    *row = found_row;
    row->run = unit->number;
    results->known.kept[unit->task] |= has_output;
    results->known.reused = true;
    return true;
}

void results_point_at_output(struct results *results, const struct run *unit) {
    const struct plan *plan = &results->units->plan;
    OWNED char *path = results_unit_path(results, unit);
    const struct array *out = &plan->arrays[plan->tasks[unit->task].out], *all[] = {out, out->counterpart};
    for (int i = 0; i < 2 && all[i]; i++)
        reader_set_dataset(&results->readers->items[all[i] - plan->arrays], path, "/output");
}

void results_close_outputs(const struct results *results) {
    const struct readers *readers = results->readers;
    for (int i = 0; i < readers->count; i++)
        if (!readers->items[i].array->from_job) reader_close(&readers->items[i]);
}

/* ---- the parts of a run ------------------------------------------------------------------------------------------ */

bool run_is_in_panels(const struct results *results, const struct run *whole) {
    int task = whole->task;
    return results->units->first[task + 1] - results->units->first[task] > 1 && !results->known.in_one[whole->number];
}

struct run_parts parts_of_run(const struct results *results, const struct run *whole) {
    const struct units *units = results->units;
    const struct shape shape = operand_array(&results->plan->tasks[whole->task].geometry.out);
    bool panels = run_is_in_panels(results, whole);
    struct run_parts parts;
    int stride;
    const struct run *first = units_of_run(units, whole, &parts.count, &stride);
    if (!panels) parts.count = 1;
    parts.items = must_malloc((size_t)parts.count * sizeof *parts.items);
    for (int p = 0; p < parts.count; p++) {
        const struct run *unit = first + p * stride;
        parts.items[p].path = panels ? results_unit_path(results, unit) : results_run_path(results, whole);
        parts.items[p].box = panels ? units->boxes[unit->task] : box_whole(&shape);
    }
    return parts;
}

void run_parts_free(struct run_parts *parts) {
    for (int i = 0; i < parts->count; i++) free(parts->items[i].path);
    free(parts->items);
}

/* ---- the row of a run in panels ---------------------------------------------------------------------------------- */

/* Adds the words of a panel's flags to those of the run. */
static void add_flags(char *sum, size_t size, const char *flags) {
    char words[FLAGS_TEXT], *rest = words;
    snprintf(words, sizeof words, "%s", flags);
    for (const char *word; (word = strsep(&rest, ","));) {
        size_t length = strlen(sum);
        if (*word && !strstr(sum, word)) snprintf(sum + length, size - length, "%s%s", length ? "," : "", word);
    }
}

/* Adds a panel's row to the run's. The run's status is that of its first panel that made no result. */
static void add_row(struct result_row *sum, const struct result_row *row, const struct task *panel, bool first) {
    double *const sums[] = {&sum->read_s,  &sum->h2d_s,      &sum->d2h_s,      &sum->write_s, &sum->total_s,
                            &sum->bound_s, &sum->file_bytes, &sum->overflowed, &sum->wrapped, &sum->truncated};
    const double more[] = {row->read_s,  row->h2d_s,      row->d2h_s,      row->write_s, row->total_s,
                           row->bound_s, row->file_bytes, row->overflowed, row->wrapped, row->truncated};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) *sums[i] = first ? more[i] : *sums[i] + more[i];
    if (first || row->error > sum->error) sum->error = row->error;
    if (row->busy_samples > sum->busy_samples) sum->busy_samples = row->busy_samples;
    add_flags(sum->flags, sizeof sum->flags, row->flags);
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

/* Adds sample i of a panel to sample i of the run, for each i that all panels have. */
static void add_samples(struct samples *sum, const char *path, bool first) {
    OWNED_DATASET struct h5_dataset *dataset = NULL;
    const struct sample_conditions unknown = CONDITIONS_UNKNOWN;
    if (h5_open(path, "/seconds", &dataset, IGNORED)) {
        sum->count = 0;
        return;
    }
    struct box all = box_whole(&dataset->shape);
    OWNED double *seconds = must_malloc((size_t)all.count[0] * sizeof *seconds + 1);
    int count = h5_read(dataset, &all, seconds, IGNORED) ? 0 : (int)all.count[0];
    if (!first && count < sum->count) sum->count = count;
    for (int i = 0; i < (first ? count : sum->count); i++)
        if (first)
            samples_append(sum, seconds[i], &unknown, i);
        else
            sum->seconds[i] += seconds[i];
}

/* The samples of a run in panels: the sums of its panels' samples. The caller frees. */
static struct samples sum_samples(const struct results *results, const struct run *whole) {
    struct samples sum = {.count = 0};
    FREED_BY(run_parts_free) struct run_parts parts = parts_of_run(results, whole);
    for (int p = 0; p < parts.count; p++) add_samples(&sum, parts.items[p].path, p == 0);
    return sum;
}

/* Sets the times and the message of a run in panels that made a result. */
static void finish_row(struct result_row *sum, const struct samples *samples, int panels) {
    result_row_times(sum, samples);
    sum->percent_of_bound = 100 * sum->bound_s / sum->kernel_median_s;
    snprintf(sum->message, sizeof sum->message,
             "computed in %d panels (table /panels); each time is the sum over the panels", panels);
}

/* Reads the row of a run that is in one part. */
static bool whole_row(const struct results *results, const struct run *whole, struct result_row *row) {
    bool has_output;
    OWNED char *path = results_run_path(results, whole);
    return part_read_row(results, path, row, &has_output);
}

bool results_run_row(const struct results *results, const struct run *whole, const struct result_row *unit_rows,
                     struct result_row *row) {
    const struct units *units = results->units;
    int count, stride;
    const struct run *first = units_of_run(units, whole, &count, &stride);
    bool complete = true;
    if (count == 1)
        *row = unit_rows[first->number];
    else if (results->known.in_one[whole->number])
        complete = whole_row(results, whole, row);
    else
        result_row_init(row, results->plan, whole);
    row->run = whole->number;
    if (!run_is_in_panels(results, whole)) return complete && row->status[0];
    for (int p = 0; p < count; p++) {
        const struct result_row *unit_row = &unit_rows[first[p * stride].number];
        if (!unit_row->status[0]) complete = false;
        add_row(row, unit_row, &units->plan.tasks[first[p * stride].task], p == 0);
    }
    if (!complete) row->status[0] = '\0';
    if (!complete || !result_row_done(row)) return complete;
    FREED_BY(samples_free) struct samples samples = sum_samples(results, whole);
    finish_row(row, &samples, count);
    return true;
}

enum status panels_write_samples(const struct results *results, const struct run *whole, hid_t file, const char *path,
                                 struct error *error) {
    FREED_BY(samples_free) struct samples samples = sum_samples(results, whole);
    OWNED_ID hid_t group = H5I_INVALID_HID;
    TRY(samples.count > 0 ? h5_group(file, "/samples", &group, error) : STATUS_OK);
    if (samples.count > 0) TRY(results_write_vector(file, path, FLOAT64, samples.count, samples.seconds, "s", error));
    return STATUS_OK;
}

/* Sets the message of a panel's row to the panel's name and, if a shard made it, the shard's folder. */
static void set_panel_message(const struct results *results, const struct run *unit, struct result_row *row) {
    OWNED char *path = results_unit_path(results, unit), *folder = path_folder(path);
    const char *shard = strlen(folder) > strlen(results->folder.root) ? path_name(folder) : "";
    snprintf(row->message, sizeof row->message, "%.60s%s%.40s", results->units->plan.tasks[unit->task].panel,
             *shard ? "; " : "", shard);
}

enum status panels_write_rows(hid_t file, const struct results *results, const struct result_row *unit_rows,
                              struct error *error) {
    const struct units *units = results->units;
    OWNED struct result_row *rows = must_malloc((size_t)units->plan.run_count * sizeof *rows + 1);
    int count = 0;
    for (int i = 0; i < units->plan.run_count; i++) {
        const struct run *unit = &units->plan.runs[i], *whole = units_whole_run(units, unit);
        if (!run_is_in_panels(results, whole) || !unit_rows[i].status[0]) continue;
        rows[count] = unit_rows[i];
        rows[count].run = whole->number;
        set_panel_message(results, unit, &rows[count++]);
    }
    return count > 0 ? result_write_rows(file, "panels", rows, count, error) : STATUS_OK;
}

/* ---- timeouts ---------------------------------------------------------------------------------------------------- */

/* A note of a timeout is written when a kernel that never ends is about to be ended with its process: other threads may
 * be inside HDF5, and the inputs may not be hashed yet. So it is a text file, KEY.timeout, whose KEY needs neither. */

/* Returns the path of a unit's timeout note. The caller frees. */
static char *note_path(const struct results *results, const struct run *unit) {
    const struct task *task = &results->units->plan.tasks[unit->task];
    const struct job_operation *operation = task->operation;
    const struct geometry *geometry = &task->geometry;
    const char *user_kernel = user_kernel_identity(unit->kernel);
    OWNED char *text = must_printf("%s\n%s\n%s\n%s\n%s\n%s\n%s\n%s\n%s\n%s\n%d", tilerun_version, tilerun_sources,
                                   operation->id, operation->label, operation->resolved, task->panel ? task->panel : "",
                                   unit->label, user_kernel ? user_kernel : "", geometry->shape_text,
                                   dtype_name(geometry->in[0].dtype), (int)unit->device);
    XXH128_hash_t hash = XXH3_128bits(text, strlen(text));
    return must_printf("%s/%016llx%016llx%s", results->folder.parts, (unsigned long long)hash.high64,
                       (unsigned long long)hash.low64, TIMEOUT_NOTE);
}

void store_note_timeout(const struct results *results, const struct run *unit, double seconds) {
    OWNED char *path = note_path(results, unit);
    char text[48];
    int length = snprintf(text, sizeof text, "%.17g\n", seconds);
    OWNED_DESCRIPTOR int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file >= 0 && write(file, text, (size_t)length) != length) unlink(path);
}

double store_timed_out(const struct results *results, const struct run *unit) {
    OWNED char *path = note_path(results, unit);
    OWNED_FILE FILE *file = fopen(path, "r");
    double seconds;
    return file && fscanf(file, "%lf", &seconds) == 1 ? seconds : NAN;
}
