/* part.c - one finished unit in a file of its own: written under another name, closed, sealed with the hash of
 * its bytes (seal.c), renamed. It stays in its folder until OUTPUT is complete.
 *
 *     /output             the run's result, if something will read it
 *     /seconds            float64[repeats];  beside it, of several samples, /turn and /marks, and where known
 *                         /clock_mhz, /power_w and /temperature_c
 *     /runs               one row
 *     attributes          schema, key; job_runs, job_skipped: runs of the job in all, and those that cannot run;
 *                         job_name, job_sha256, tool_version, git_commit: what made it */
#include "../../kernels/core/cut.h"
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

#define MOST_AHEAD (INT64_C(1) << 30)
enum { LITTLE = 64 << 10 };

struct part {
    struct results *results;
    const struct plan *plan; /* of the units; of a part that is made of an earlier OUTPUT, the whole */
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

bool unit_wants_output(const struct results *results, const struct run *run) {
    if (!run->kernel || run->kernel->is_roof) return false;
    const struct task *task = &results->units->plan.tasks[run->task];
    enum job_store store = task->operation->run.store;
    if (task->panel) return task->wanted || store == STORE_ALL; /* in another panel an earlier variant may be wrong */
    return store == STORE_ALL || (!results->known.kept[run->task] && task->wanted);
}

static struct part *part_new(struct results *results, const struct plan *plan, const struct run *run) {
    struct part *part = must_malloc(sizeof *part);
    *part = (struct part){.results = results, .plan = plan, .run = run, .file = H5I_INVALID_HID};
    part->path = must_printf("%s/run-%d.tmp", results->folder.own, run->number);
    const struct task *task = &plan->tasks[run->task];
    part->stored = task->geometry.out;
    part->stored.dtype = plan->arrays[task->out].dtype;
    return part;
}

enum status unit_begin(struct results *results, const struct run *run, struct part **part, struct error *error) {
    const struct task *task = &results->units->plan.tasks[run->task];
    const struct run_options *options = &task->operation->run;
    struct h5_layout layout = plan_layout(options);
    struct part *it = part_new(results, &results->units->plan, run);
    enum status status = h5_create_file(it->path, &it->file, error);
    bool written = unit_wants_output(results, run) || options->verify != VERIFY_NONE; /* else only its time is wanted */
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
        unit_discard(it);
        it = NULL;
    }
    *part = it;
    return status;
}

/* As it is computed. */
static const struct operand *output_of(const struct part *part) {
    return &part->plan->tasks[part->run->task].geometry.out;
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
    const struct plan *plan = part->plan;
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
    const struct plan *plan = &part->results->units->plan;
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
    if (H5Ldelete(part->file, "output", H5P_DEFAULT) < 0)
        return FAIL_CALL(error, STATUS_IO, "H5Ldelete", h5_error_text());
    return STATUS_OK;
}

enum status part_settle(struct part *part, bool right, struct error *error) {
    if (part->settled) return STATUS_OK;
    part->settled = true;
    part->keeps = right && unit_wants_output(part->results, part->run);
    if (!part->keeps) return drop_output(part, error);
    part->results->known.kept[part->run->task] = true;
    close_output(part);
    return STATUS_OK;
}

/* Writes the row and what made it, closes the file, seals and renames it. Frees the part. */
static enum status part_complete(struct part *part, const struct result_row *row, struct error *error) {
    const struct results *results = part->results;
    char key[33];
    (part->plan == results->plan ? keys_of_run : keys_of_unit)(results->keys, part->run, key);
    enum status status = h5_set_text(part->file, "schema", PART_SCHEMA, error);
    if (!status) status = h5_set_text(part->file, "key", key, error);
    if (!status) status = write_origin(part, error);
    if (!status) status = result_write_row(part->file, row, error);
    enum status closed = part_close(part, error);
    if (!status) status = closed;
    bool sync = results->shard && results->plan->job->sync && part->keeps && output_bytes(part) > PART_LINKED_HASHED;
    if (!status) status = part_seal(part->path, sync, error);
    char *finished = must_printf("%s/%s.h5", results->folder.own, key);
    if (!status && rename(part->path, finished) != 0)
        status = fail(error, STATUS_IO, "%s: cannot be renamed: %s", part->path, strerror(errno));
    if (!status) results_part_made(results, key, finished);
    free(finished);
    if (status)
        unit_discard(part);
    else
        part_free(part);
    return status;
}

enum status unit_keep(struct part *part, const struct result_row *row, const struct samples *samples,
                      struct error *error) {
    enum status status = part_settle(part, result_row_done(row), error);
    if (!status) status = write_samples(part->file, samples, error);
    if (!status) return part_complete(part, row, error);
    unit_discard(part);
    return status;
}

enum status unit_keep_row(struct results *results, const struct run *run, const struct result_row *row,
                          struct error *error) {
    struct part *part = part_new(results, &results->units->plan, run);
    enum status status = h5_create_file(part->path, &part->file, error);
    if (!status) return unit_keep(part, row, NULL, error);
    unit_discard(part);
    return status;
}

void unit_discard(struct part *part) {
    if (!part) return;
    if (part->keeps) part->results->known.kept[part->run->task] = false;
    struct error ignored = {STATUS_OK, ""};
    part_close(part, &ignored);
    unlink(part->path);
    part_free(part);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* In pieces that end where chunks end. */
enum status copy_dataset(struct h5_dataset *from, struct rawread *raw, struct h5_dataset *to, struct rawwrite *write,
                         const struct box *place, void *memory, struct error *error) {
    struct box whole = box_whole(&from->shape);
    if (!place) place = &whole;
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

/* Copies what an earlier OUTPUT holds of a run: its samples and, `output` not NULL, its output. */
static enum status copy_data(const struct part *part, hid_t from, const char *path, int run, const char *output,
                             struct error *error) {
    enum status status = STATUS_OK;
    for (int i = 0; i < SAMPLE_KINDS && !status; i++) {
        char name[64];
        snprintf(name, sizeof name, "/samples/%d%s", run, sample_kinds[i].suffix);
        bool there = H5Lexists(from, name, H5P_DEFAULT) > 0;
        if (there && H5Ocopy(from, name, part->file, sample_kinds[i].in_part, H5P_DEFAULT, H5P_DEFAULT) < 0)
            status = fail(error, STATUS_IO, "%s: %s cannot be copied: %s", path, name, h5_error_text());
    }
    if (status || !output) return status;
    struct h5_layout layout = plan_layout(&part->plan->tasks[part->run->task].operation->run);
    struct h5_dataset *source = NULL, *to = NULL;
    struct rawread *raw = NULL;
    void *memory = must_malloc(PIECE_BYTES);
    status = h5_open(path, output, &source, error);
    if (!status) status = rawread_open(source, &raw, error);
    if (!status) status = h5_create(part->file, "/output", source->dtype, &source->shape, &layout, &to, error);
    if (!status) status = copy_dataset(source, raw, to, NULL, NULL, memory, error);
    if (!status) status = h5_check_writes(to, error);
    rawread_close(raw);
    h5_close(to);
    h5_close(source);
    free(memory);
    return status;
}

enum status part_import(struct results *results, const struct run *whole, const struct result_row *row, hid_t from,
                        const char *output, struct error *error) {
    struct part *part = part_new(results, results->plan, whole);
    FENCE(results->place.path);
    enum status status = h5_create_file(part->path, &part->file, error);
    if (!status) status = copy_data(part, from, results->place.path, row->run, output, error);
    struct result_row own = *row;
    own.run = whole->number;
    if (!status) return part_complete(part, &own, error);
    unit_discard(part);
    return status;
}
