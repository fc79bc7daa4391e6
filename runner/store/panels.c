/* panels.c - runs that were done by panels (divide/panels.h). `merge` finds the parts of all panels, takes their
 * times together as the run's, puts their outputs together, and keeps their own rows in /panels. */
#include "../../kernels/core/cut.h"
#include "../base/fail.h"
#include "../storage/raw/rawread.h"
#include "../storage/raw/rawwrite.h"
#include "../storage/untrusted/h5open.h"
#include "results.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The same job in the plan that `results` does not follow: of a shard the whole, of `merge` the panels. */
struct counterpart {
    const struct plan *plan;
    struct readers readers;
    struct keys *keys;
    bool hashed;             /* its inputs */
    struct result_row *rows; /* of `merge`: of the panels whose parts were found; status "": not found */
};

void results_use_panels(struct results *results, const struct panels *panels) {
    struct counterpart *other = must_malloc(sizeof *other);
    bool follows_panels = results->plan == &panels->plan;
    *other = (struct counterpart){.plan = follows_panels ? panels->whole : &panels->plan};
    readers_init(&other->readers, other->plan->arrays, other->plan->array_count);
    other->keys = keys_create(other->plan, &other->readers);
    keys_use_panels(follows_panels ? results->keys : other->keys, panels);
    other->rows = must_malloc((size_t)other->plan->run_count * sizeof *other->rows + 1);
    for (int i = 0; i < other->plan->run_count; i++) other->rows[i] = (struct result_row){.run = i};
    results->other = other;
    results->panels = panels;
}

void counterpart_free(struct counterpart *other) {
    if (!other) return;
    keys_free(other->keys);
    readers_free(&other->readers);
    free(other->rows);
    free(other);
}

/* Hashes its inputs: those that both plans have are hashed already. */
static bool hash_inputs(const struct results *results) {
    struct counterpart *other = results->other;
    struct error ignored = {STATUS_OK, ""};
    int common = results->panels->whole->input_count;
    for (int i = 0; i < other->plan->input_count && !other->hashed; i++) {
        struct reader *reader = &other->readers.of[i];
        if (i < common) snprintf(reader->hash, sizeof reader->hash, "%s", results->readers->of[i].hash);
        if (reader_hash(reader, &ignored)) return false;
    }
    other->hashed = true;
    return true;
}

bool counterpart_keys(const struct results *results, const struct plan **plan, struct keys **keys) {
    if (!results->other || !hash_inputs(results)) return false;
    *plan = results->other->plan;
    *keys = results->other->keys;
    return true;
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

static char *part_of(const struct results *results, const struct run *panel) {
    char key[33];
    keys_of_run(results->other->keys, panel, key);
    return results_part_of_key(results, key);
}

/* Adds a panel's row to the run's. The run's status is that of its first panel that made no result. */
static void add_row(struct result_row *sum, const struct result_row *row, const struct task *panel, bool first) {
    double *const sums[] = {&sum->read_s,  &sum->h2d_s,      &sum->d2h_s,      &sum->write_s, &sum->total_s,
                            &sum->bound_s, &sum->file_bytes, &sum->overflowed, &sum->wrapped, &sum->truncated};
    const double more[] = {row->read_s,  row->h2d_s,      row->d2h_s,      row->write_s, row->total_s,
                           row->bound_s, row->file_bytes, row->overflowed, row->wrapped, row->truncated};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) *sums[i] = first ? more[i] : *sums[i] + more[i];
    if (first || row->error > sum->error) sum->error = row->error;
    if (first || !sum->flags[0]) snprintf(sum->flags, sizeof sum->flags, "%s", row->flags);
    if (first) { /* all have the same tolerance */
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

/* Adds a panel's samples to the run's, each to the one of its number. */
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

/* Finds one panel's row; false: there is none, or its output is missing. */
static bool find_panel(const struct results *results, const struct run *panel, bool needs_output) {
    struct result_row *row = &results->other->rows[panel->number];
    char *path = part_of(results, panel);
    const struct run *whole = panels_whole_run(results->panels, panel);
    bool has_output = false, found = part_read_row(results, whole, path, row, &has_output);
    found = found && (has_output || !needs_output || !result_row_done(row));
    if (!found) row->status[0] = '\0';
    row->run = panel->number;
    free(path);
    return found;
}

/* The first of a run's panels, and how many they are. */
static const struct run *panels_of(const struct panels *panels, const struct run *run, int *count) {
    const struct plan *plan = &panels->plan;
    int first = panels->first[run->task];
    *count = panels->first[run->task + 1] - first;
    return &plan->runs[plan->tasks[first].first_run + run->number - panels->whole->tasks[run->task].first_run];
}

static struct samples sum_samples(const struct results *results, const struct run *run) {
    struct samples sum = {.count = 0};
    int count, stride = results->plan->tasks[run->task].run_count;
    const struct run *first = panels_of(results->panels, run, &count);
    for (int p = 0; p < count; p++) {
        char *path = part_of(results, first + p * stride);
        add_samples(&sum, path, p == 0);
        free(path);
    }
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

bool panels_find_row(struct results *results, const struct run *run, bool needs_output, struct result_row *row) {
    if (!results->other || !hash_inputs(results)) return false;
    const struct plan *plan = results->other->plan;
    int count, stride = results->plan->tasks[run->task].run_count, found = 0;
    const struct run *first = panels_of(results->panels, run, &count);
    for (int p = 0; p < count && count > 1; p++) found += find_panel(results, first + p * stride, needs_output);
    if (found < count || count == 1) return false;
    result_row_init(row, results->plan, run);
    for (int p = 0; p < count; p++) {
        const struct run *panel = first + p * stride;
        add_row(row, &results->other->rows[panel->number], &plan->tasks[panel->task], p == 0);
    }
    if (result_row_done(row)) {
        struct samples samples = sum_samples(results, run);
        finish_row(row, &samples, count);
        samples_free(&samples);
    }
    return true;
}

bool panels_were_found(const struct results *results, const struct run *run) {
    int count, stride = results->plan->tasks[run->task].run_count, found = 0;
    if (!results->other) return false;
    const struct run *first = panels_of(results->panels, run, &count);
    for (int p = 0; p < count; p++) found += results->other->rows[first[p * stride].number].status[0] != '\0';
    return count > 1 && found == count;
}

void panels_each_part(const struct results *results, void (*take)(void *context, int run, const char *path),
                      void *context) {
    const struct counterpart *other = results->other;
    for (int i = 0; other && i < other->plan->run_count; i++) {
        const struct run *panel = &other->plan->runs[i];
        if (!panels_were_found(results, panels_whole_run(results->panels, panel))) continue;
        char *path = part_of(results, panel);
        take(context, panels_whole_run(results->panels, panel)->number, path);
        free(path);
    }
}

int panels_count_parts(const struct results *results, bool remove) {
    int count = 0;
    if (!results->other || !hash_inputs(results)) return 0;
    for (int i = 0; i < results->other->plan->run_count; i++) {
        const struct run *panel = &results->other->plan->runs[i];
        if (!results->other->plan->tasks[panel->task].panel) continue;
        char *path = part_of(results, panel);
        count += access(path, F_OK) == 0;
        if (remove) unlink(path);
        free(path);
    }
    return count;
}

/* ---- putting together -------------------------------------------------------------------------------------------- */

/* In pieces that end where chunks end. */
enum status copy_dataset(struct h5_dataset *from, struct rawread *raw, struct h5_dataset *to, struct rawwrite *write,
                         const struct box *place, void *memory, struct error *error) {
    struct box whole = box_whole(&from->shape);
    struct grid grid = {.grain = to->chunk};
    memcpy(grid.shift, place->start, sizeof grid.shift);
    int64_t element = (int64_t)dtype_size(to->dtype);
    struct cut cut = cut_box(&whole, &grid, PIECE_BYTES / element);
    const struct write_source source = {memory, to->dtype, NULL};
    for (int64_t i = 0; i < cut.pieces; i++) {
        struct box piece = cut_piece(&cut, i), target = piece;
        for (int axis = 0; axis < target.rank; axis++) target.start[axis] += place->start[axis];
        TRY(raw ? rawread_read(raw, &piece, memory, NULL, NULL, error) : h5_read(from, &piece, memory, error));
        TRY(write ? rawwrite_write(write, &target, &source, NULL, error) : h5_write(to, &target, memory, error));
    }
    return STATUS_OK;
}

static enum status join_panel(const struct results *results, const struct run *panel, struct h5_dataset *to,
                              struct rawwrite *write, void *memory, struct error *error) {
    char *path = part_of(results, panel);
    struct h5_dataset *from = NULL;
    struct rawread *raw = NULL;
    enum status status = h5_open(path, "/output", &from, error);
    if (!status) status = rawread_open(from, &raw, error);
    if (!status) status = copy_dataset(from, raw, to, write, &results->panels->place[panel->task], memory, error);
    rawread_close(raw);
    h5_close(from);
    free(path);
    return status;
}

enum status panels_join(const struct results *results, const struct run *run, hid_t file, const char *path,
                        struct error *error) {
    const struct task *task = &results->plan->tasks[run->task];
    const struct array *out = &results->plan->arrays[task->out];
    struct h5_layout layout = plan_layout(&task->operation->run);
    struct h5_dataset *to = NULL;
    struct rawwrite *write = NULL;
    int count;
    const struct run *first = panels_of(results->panels, run, &count);
    void *memory = must_malloc(PIECE_BYTES);
    enum status status = h5_create(file, path, out->dtype, &out->shape, &layout, &to, error);
    /* In a file that may have to be restored HDF5 writes, since it keeps the journal. */
    if (!status && !results->journal) status = rawwrite_open(to, 0, &write, error);
    for (int p = 0; p < count && !status; p++)
        status = join_panel(results, first + p * task->run_count, to, write, memory, error);
    if (!status) status = h5_check_writes(to, error);
    rawwrite_close(write);
    h5_close(to);
    free(memory);
    return status;
}

int panels_list(const struct results *results, const struct run *run, char ***paths, struct box **places) {
    int count, stride = results->plan->tasks[run->task].run_count;
    const struct run *first = panels_of(results->panels, run, &count);
    *paths = must_malloc((size_t)count * sizeof **paths);
    *places = must_malloc((size_t)count * sizeof **places);
    for (int p = 0; p < count; p++) {
        const struct run *panel = first + p * stride;
        (*paths)[p] = part_of(results, panel);
        (*places)[p] = results->panels->place[panel->task];
    }
    return count;
}

enum status panels_write_samples(const struct results *results, const struct run *run, hid_t file, const char *path,
                                 struct error *error) {
    struct samples samples = sum_samples(results, run);
    hid_t group = H5I_INVALID_HID;
    enum status status = samples.count > 0 ? h5_group(file, "/samples", &group, error) : STATUS_OK;
    if (!status && samples.count > 0)
        status = results_write_vector(file, path, FLOAT64, samples.count, samples.seconds, "s", error);
    if (group >= 0) H5Gclose(group);
    samples_free(&samples);
    return status;
}

enum status panels_write_rows(hid_t file, const struct results *results, struct error *error) {
    const struct counterpart *other = results->other;
    if (!other) return STATUS_OK;
    struct result_row *rows = must_malloc((size_t)other->plan->run_count * sizeof *rows + 1);
    int count = 0;
    for (int i = 0; i < other->plan->run_count; i++) {
        const struct run *panel = &other->plan->runs[i];
        const struct task *task = &other->plan->tasks[panel->task];
        if (!panels_were_found(results, panels_whole_run(results->panels, panel))) continue;
        char *path = part_of(results, panel), *slash = strrchr(path, '/');
        *slash = '\0';
        rows[count] = other->rows[i];
        rows[count].run = panels_whole_run(results->panels, panel)->number;
        const char *shard = strrchr(path, '/') + 1;
        snprintf(rows[count].message, sizeof rows[count].message, "%.60s; %.40s", task->panel, shard);
        count++;
        free(path);
    }
    enum status status = count > 0 ? result_write_rows(file, "panels", rows, count, error) : STATUS_OK;
    free(rows);
    return status;
}

/* ---- what is missing --------------------------------------------------------------------------------------------- */

const struct plan *panels_missing(const struct results *results, const bool *missing, bool **panel_missing) {
    const struct counterpart *other = results->other;
    *panel_missing = must_malloc((size_t)(other->plan->run_count + 1) * sizeof **panel_missing);
    for (int i = 0; i < other->plan->run_count; i++) {
        const struct run *panel = &other->plan->runs[i];
        bool own = other->plan->tasks[panel->task].panel != NULL;
        (*panel_missing)[i] =
            missing[panels_whole_run(results->panels, panel)->number] && !(own && other->rows[i].status[0]);
    }
    return other->plan;
}
