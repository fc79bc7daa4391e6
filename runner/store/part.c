/* part.c - one finished run in a file of its own: written under another name, closed, sealed with the hash of
 * its bytes (trailer.c), renamed. It stays in its folder until the assembly.
 *
 *     /output             the run's result, if something will read it
 *     /seconds            float64[repeats];  beside it, of several samples, /turn and /marks, and where known
 *                         /clock_mhz, /power_w and /temperature_c
 *     /runs               one row
 *     attributes          schema, key; job_runs, job_skipped: runs of the job in all, and those that cannot run;
 *                         job_name, job_sha256, tool_version, git_commit: what made it */
#include "../base/fail.h"
#include "../record/environment.h"
#include "../storage/operand.h"
#include "../storage/raw/rawread.h"
#include "../storage/raw/rawwrite.h"
#include "../storage/untrusted/fence.h"
#include "../storage/untrusted/h5claims.h"
#include "../storage/untrusted/h5open.h"
#include "results.h"
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_AHEAD    (INT64_C(1) << 30)
#define LINKED_HASHED (INT64_C(1) << 20)
enum { LITTLE = 64 << 10 };

struct part {
    struct results *results;
    const struct run *run;
    char *path; /* the temporary name: KEY.h5 may have to wait for the hashes of inputs */
    hid_t file;
    struct h5_dataset *output;
    struct rawwrite *raw;     /* of `output`; NULL: HDF5 writes it */
    struct operand stored;    /* the output as it lies there: perhaps of another type than it is computed in */
    struct casts casts;       /* what the conversion to that type has lost */
    struct rawread *readback; /* of `output`, all of which is written; NULL: not yet, or HDF5 reads it */
    struct trace *trace;
    bool settled, keeps; /* part_settle was called; it decided that the output stays */
};

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void part_free(struct part *part) {
    free(part->path);
    free(part);
}

static void close_output(struct part *part) {
    rawread_close(part->readback);
    rawwrite_close(part->raw);
    h5_close(part->output);
    part->readback = NULL;
    part->raw = NULL;
    part->output = NULL;
}

/* Closes the output and the file. */
static enum status part_close(struct part *part, struct error *error) {
    close_output(part);
    enum status status = part->file >= 0 ? h5_close_file(part->file, error) : STATUS_OK;
    part->file = H5I_INVALID_HID;
    return status;
}

/* Will the output of this run be read, if it is right? A limit's never is. */
static bool wants_output(const struct results *results, const struct run *run) {
    if (run->kernel->is_roof) return false;
    const struct task *task = &results->plan->tasks[run->task];
    enum job_store store = task->operation->run.store;
    if (task->panel) return task->wanted || store == STORE_ALL; /* in another panel an earlier variant may be wrong */
    return store == STORE_ALL || (!results->kept[run->task] && results->plan->tasks[run->task].wanted);
}

static struct part *part_new(struct results *results, const struct run *run) {
    struct part *part = must_malloc(sizeof *part);
    *part = (struct part){.results = results, .run = run, .file = H5I_INVALID_HID};
    part->path = must_printf("%s/run-%d.tmp", results->parts, run->number);
    const struct task *task = &results->plan->tasks[run->task];
    part->stored = task->geometry.out;
    part->stored.dtype = results->plan->arrays[task->out].dtype;
    return part;
}

enum status part_begin(struct results *results, const struct run *run, struct part **part, struct error *error) {
    const struct task *task = &results->plan->tasks[run->task];
    const struct run_options *options = &task->operation->run;
    struct h5_layout layout = plan_layout(options);
    struct part *it = part_new(results, run);
    enum status status = h5_create_file(it->path, &it->file, error);
    bool written = wants_output(results, run) || options->verify != VERIFY_NONE; /* else only its time is wanted */
    if (!status && !written) {
        *part = it;
        return STATUS_OK;
    }
    struct shape shape = operand_array(&it->stored);
    if (!status) status = h5_create(it->file, "/output", it->stored.dtype, &shape, &layout, &it->output, error);
    /* Makes pages ready for as many bytes as the run takes on its device, up to MOST_AHEAD. */
    int64_t ahead = plan_stores_in_order(&task->geometry, &run->tiling) ? run->tiling.memory_bytes : 0;
    if (!status) status = rawwrite_open(it->output, ahead < MOST_AHEAD ? ahead : MOST_AHEAD, &it->raw, error);
    if (status) {
        part_discard(it);
        it = NULL;
    }
    *part = it;
    return status;
}

/* As it is computed. */
static const struct operand *output_of(const struct part *part) {
    return &part->results->plan->tasks[part->run->task].geometry.out;
}

static enum status write_box(void *context, const struct box *box, void *data, struct error *error) {
    struct part *part = context;
    const struct write_source source = {data, output_of(part)->dtype, &part->casts};
    if (part->raw) return rawwrite_write(part->raw, box, &source, part->trace, error);
    uint64_t scalar = 0; /* which HDF5 writes; or there is no element at all */
    convert_elements(source.dtype, data, box_elements(box), part->stored.dtype, &scalar, &part->casts);
    return h5_write(part->output, box, &scalar, error);
}

static enum status sink_write(void *context, const struct box *box, const void *data, struct error *error) {
    struct part *part = context;
    const struct operand_each each = {write_box, part};
    if (!part->output) return STATUS_OK;
    return operand_for_each(output_of(part), box, (void *)data, &each, error); /* which only reads it */
}

struct sink part_sink(struct part *part, struct trace *trace) {
    part->trace = trace;
    return (struct sink){.write = sink_write, .context = part, .trace = trace};
}

static int64_t output_bytes(const struct part *part) {
    return shape_elements(&part->stored.shape) * (int64_t)dtype_size(part->stored.dtype);
}

static enum status read_part(void *context, const struct box *box, void *data, struct error *error) {
    struct part *part = context;
    FENCE(part->path);
    if (part->readback) return rawread_read(part->readback, box, data, NULL, NULL, error);
    return h5_read(part->output, box, data, error);
}

/* A large output is read by all cores: verification takes most of its time for that. */
static enum status read_output(struct part *part, const struct box *box, void *data, struct error *error) {
    const struct operand_each each = {read_part, part};
    if (!part->readback && part->raw && output_bytes(part) > LITTLE) {
        TRY(h5_flush(part->output, error));
        TRY(rawread_open(part->output, &part->readback, error));
    }
    TRY(h5_check_writes(part->output, error));
    return operand_for_each(&part->stored, box, data, &each, error);
}

static enum status read_operand(void *context, int input, const struct box *box, void *data, struct error *error) {
    struct part *part = context;
    const struct plan *plan = part->results->plan;
    if (input < 0) return read_output(part, box, data, error);
    const struct task *task = &plan->tasks[part->run->task];
    const struct operand_reading reading = {.reader = &part->results->readers->of[task->in[input]],
                                            .operand = &task->geometry.in[input]};
    return operand_read(&reading, box, data, error);
}

struct casts part_casts(const struct part *part) {
    return part->casts;
}

struct host_reader part_reader(struct part *part) {
    return (struct host_reader){.read = read_operand, .context = part};
}

enum status results_write_vector(hid_t file, const char *path, enum dtype dtype, int64_t count, const void *data,
                                 const char *units, struct error *error) {
    struct shape shape = {1, {count}};
    struct box box = box_whole(&shape);
    struct h5_layout contiguous = {.level = 0};
    struct h5_dataset *dataset;
    enum status status = h5_create(file, path, dtype, &shape, &contiguous, &dataset, error);
    if (!status) status = h5_write(dataset, &box, data, error);
    if (!status) status = h5_set_text(dataset->id, "units", units, error);
    h5_close(dataset);
    return status;
}

/* Writes one number of each sample; not if none is known. */
static enum status write_known(hid_t file, const char *path, const struct samples *samples, size_t member,
                               const char *units, struct error *error) {
    float *values = must_malloc((size_t)samples->count * sizeof *values);
    bool known = false;
    for (int i = 0; i < samples->count; i++) {
        memcpy(&values[i], (const char *)&samples->conditions[i] + member, sizeof values[i]);
        known |= !isnan(values[i]);
    }
    enum status status =
        known ? results_write_vector(file, path, FLOAT32, samples->count, values, units, error) : STATUS_OK;
    free(values);
    return status;
}

static enum status write_marks(hid_t file, const struct samples *samples, struct error *error) {
    unsigned char *marks = samples_marks(samples);
    enum status status =
        results_write_vector(file, "/marks", UINT8, samples->count, marks,
                             "bits: 1 throttled for power, 2 for heat, 4 for another reason, 8 outlier", error);
    free(marks);
    return status;
}

static enum status write_samples(hid_t file, const struct samples *samples, struct error *error) {
    if (!samples || samples->count == 0) return STATUS_OK;
    enum status status = results_write_vector(file, "/seconds", FLOAT64, samples->count, samples->seconds, "s", error);
    if (status || samples->count == 1) return status; /* the row says the rest */
    status = results_write_vector(file, "/turn", INT32, samples->count, samples->turn, "1", error);
    if (!status)
        status = write_known(file, "/clock_mhz", samples, offsetof(struct conditions, clock_mhz), "MHz", error);
    if (!status) status = write_known(file, "/power_w", samples, offsetof(struct conditions, power_w), "W", error);
    if (!status)
        status =
            write_known(file, "/temperature_c", samples, offsetof(struct conditions, temperature_c), "degC", error);
    return status ? status : write_marks(file, samples, error);
}

/* For who looks at an output that is not finished, or finds the part of another job. */
static enum status write_origin(const struct part *part, struct error *error) {
    const struct plan *plan = part->results->plan;
    int skipped = 0;
    for (int i = 0; i < plan->run_count; i++) skipped += plan->runs[i].skip != NULL;
    TRY(h5_set_integer(part->file, "job_runs", plan->run_count, error));
    TRY(h5_set_integer(part->file, "job_skipped", skipped, error));
    TRY(h5_set_text(part->file, "job_name", plan->job->name, error));
    TRY(h5_set_text(part->file, "job_sha256", part->results->job_sha256, error));
    TRY(h5_set_text(part->file, "tool_version", tilerun_version, error));
    return h5_set_text(part->file, "git_commit", tilerun_git_commit, error);
}

/* Removes the output. HDF5 does not free space within a file, so for a large output a new file is begun. */
static enum status drop_output(struct part *part, struct error *error) {
    if (!part->output) return STATUS_OK;
    bool little = output_bytes(part) <= LITTLE;
    struct error ignored = {STATUS_OK, ""};
    if (!little) {
        part_close(part, &ignored);
        return h5_create_file(part->path, &part->file, error);
    }
    close_output(part);
    if (H5Ldelete(part->file, "output", H5P_DEFAULT) < 0) return FAIL_CALL(error, STATUS_IO, "H5Ldelete", h5_words());
    return STATUS_OK;
}

enum status part_settle(struct part *part, bool right, struct error *error) {
    if (part->settled) return STATUS_OK;
    part->settled = true;
    part->keeps = right && wants_output(part->results, part->run);
    if (!part->keeps) return drop_output(part, error);
    part->results->kept[part->run->task] = true;
    close_output(part);
    return STATUS_OK;
}

enum status part_finish(struct part *part, const struct result_row *row, const struct samples *samples,
                        struct error *error) {
    enum status status = part_settle(part, result_row_done(row), error);
    const struct results *results = part->results;
    char key[33];
    keys_of_run(results->keys, part->run, key);
    if (!status) status = h5_set_text(part->file, "schema", PART_SCHEMA, error);
    if (!status) status = h5_set_text(part->file, "key", key, error);
    if (!status) status = write_origin(part, error);
    if (!status) status = write_samples(part->file, samples, error);
    if (!status) status = result_write_row(part->file, row, error);
    enum status closed = part_close(part, error);
    if (!status) status = closed;
    bool sync = results->shard && results->plan->job->sync && part->keeps && output_bytes(part) > LINKED_HASHED;
    if (!status) status = part_seal(part->path, sync, error);
    char *finished = results_part_path(results, part->run);
    if (!status && rename(part->path, finished) != 0)
        status = fail(error, STATUS_IO, "%s: cannot be renamed: %s", part->path, strerror(errno));
    free(finished);
    if (status) {
        part_discard(part);
        return status;
    }
    part_free(part);
    return STATUS_OK;
}

enum status part_keep_row(struct results *results, const struct run *run, const struct result_row *row,
                          struct error *error) {
    struct part *part = part_new(results, run);
    enum status status = h5_create_file(part->path, &part->file, error);
    if (!status) return part_finish(part, row, NULL, error);
    part_discard(part);
    return status;
}

void part_discard(struct part *part) {
    if (!part) return;
    if (part->keeps) part->results->kept[part->run->task] = false;
    struct error ignored = {STATUS_OK, ""};
    part_close(part, &ignored);
    unlink(part->path);
    part_free(part);
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

/* To link costs seconds, so that large parts are not hashed then if they were synced. A program that opens a linked
 * file for writing has HDF5 cut off the trailers of the parts that it shows, which were whole when they were linked. */
static bool is_usable(const struct results *results, const struct run *run, const char *path) {
    struct stored shown;
    enum trailer trailer = part_trailer(path);
    if (trailer == TRAILER_NONE) return results->linked && previous_stored(results, run, &shown);
    return part_is_whole(path, results->links && trailer == TRAILER_SYNCED ? LINKED_HASHED : INT64_MAX);
}

bool part_read_row(const struct results *results, const struct run *run, const char *path, struct result_row *row,
                   bool *has_output) {
    FENCE(path);
    hid_t file = is_usable(results, run, path) ? h5_open_unlocked(path) : H5I_INVALID_HID;
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

/* Must a run's output be there, if it made a result? For `merge` only what the results file stores. */
static bool needs_output(const struct results *results, const struct run *run, bool merge) {
    bool stored = results->plan->tasks[run->task].operation->run.store != STORE_NONE;
    return wants_output(results, run) && (stored || !merge);
}

/* `merge`: a run that made no result counts too, and an unusable part stays. */
static bool find(struct results *results, const struct run *run, bool merge, struct result_row *row) {
    char *path = results_part_path(results, run);
    struct result_row held;
    bool wants = run->kernel && needs_output(results, run, merge), has_output = false;
    bool found = part_read_row(results, run, path, &held, &has_output) && (merge || result_row_done(&held));
    /* If the part of an earlier variant is missing or damaged, this run becomes the result, so its part must have the
     * output. */
    if (found && result_row_done(&held) && !has_output && wants) found = false;
    if (!found) {
        if (!merge && !results->linked) unlink(path);
        found = merge && panels_find_row(results, run, wants, &held);
        has_output = found && wants && result_row_done(&held);
    }
    if (!found) found = previous_find(results, run, &held, &has_output) && (has_output || !wants);
    if (found) {
        *row = held;
        row->run = run->number;
        results->kept[run->task] |= has_output;
    }
    free(path);
    return found;
}

bool results_find(struct results *results, const struct run *run, struct result_row *row) {
    return find(results, run, false, row);
}

bool results_find_row(struct results *results, const struct run *run, struct result_row *row) {
    return find(results, run, true, row);
}

void results_load_output(struct results *results, const struct run *run) {
    char *path = results_part_path(results, run);
    struct stored previous;
    bool in_part = access(path, F_OK) == 0 || !previous_stored(results, run, &previous);
    const struct plan *plan = results->plan;
    const struct array *out = &plan->arrays[plan->tasks[run->task].out], *all[] = {out, out->other};
    for (int i = 0; i < 2 && all[i]; i++)
        reader_place(&results->readers->of[all[i] - plan->arrays], in_part ? path : results->place.path,
                     in_part ? "/output" : previous.output);
    free(path);
}
