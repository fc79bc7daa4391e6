/* part.c - one finished unit in a file of its own: written under another name, closed, sealed with the hash of
 * its bytes (seal.c), renamed. It stays in its folder until OUTPUT is complete.
 *
 *     /output             the run's result, if something will read it
 *     /seconds            float64[repeats];  beside it /turn and /marks of several samples, and, if known,
 *                         /clock_mhz, /power_w and /temperature_c
 *     /runs               one row
 *     attributes          schema, key; job_runs, job_skipped: runs of the job in all, and those that cannot run;
 *                         job_name, job_path, job_sha256, tool_version, git_commit: what made it; inputs: of what
 *                         (inputs.c) */
#include "../../kernels/core/cut.h"
#include "../base/fail.h"
#include "../base/path.h"
#include "../record/environment.h"
#include "../storage/operand.h"
#include "../storage/raw/rawread.h"
#include "../storage/raw/rawwrite.h"
#include "../storage/untrusted/fence.h"
#include "../storage/untrusted/h5open.h"
#include "results.h"
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_AHEAD    (INT64_C(1) << 30)  /* bytes whose pages are populated before they are written, at most */
#define PIECE_BYTES  (INT64_C(16) << 20) /* bytes that are copied at a time */
#define SMALL_OUTPUT (64 << 10)          /* bytes; HDF5 reads such an output, and deletes it within its file */

struct part {
    struct results *results;
    const struct plan *plan; /* the units' plan; the whole plan, if the part is made from an earlier OUTPUT */
    const struct run *run;
    char *path; /* its temporary path, run-N.tmp: KEY contains hashes of inputs that may be known only after the run */
    hid_t file;
    struct h5_dataset *output;
    struct rawwrite *raw;     /* writes `output`; NULL: HDF5 writes it */
    struct operand stored;    /* the output as it is stored: its type may differ from the computed one */
    struct casts casts;       /* counts the values that the conversion to that type changed */
    struct rawread *readback; /* reads the complete `output`; NULL: it is not complete, or HDF5 reads it */
    struct trace *trace;
    bool finished, keeps; /* part_finish_output was called; it decided that the output stays */
};

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void part_free(struct part *part) {
    free(part->path);
    free(part);
}

static void close_output(struct part *part) {
    rawread_close(&part->readback);
    rawwrite_close(&part->raw);
    h5_close(&part->output);
}

/* Closes the output and the file. */
static enum status part_close(struct part *part, struct error *error) {
    hid_t file = part->file;
    close_output(part);
    part->file = H5I_INVALID_HID;
    return file >= 0 ? h5_close_file(file, error) : STATUS_OK;
}

bool unit_wants_output(const struct results *results, const struct run *run) {
    if (!run->kernel || run->kernel->is_roof) return false;
    const struct task *task = &results->units->plan.tasks[run->task];
    enum job_store store = task->operation->run.store;
    /* A panel keeps each variant's output: which variant is right in all panels is not known yet. */
    if (task->panel) return task->wanted || store == STORE_ALL;
    return store == STORE_ALL || (!results->known.kept[run->task] && task->wanted);
}

/* A part that has no file yet. */
static struct part *part_new(struct results *results, const struct plan *plan, const struct run *run) {
    struct part *part = must_malloc(sizeof *part);
    *part = (struct part){.results = results, .plan = plan, .run = run, .file = H5I_INVALID_HID};
    part->path = must_printf("%s/run-%d.tmp", results->folder.parts, run->number);
    const struct task *task = &plan->tasks[run->task];
    part->stored = task->geometry.out;
    part->stored.dtype = plan->arrays[task->out].dtype;
    return part;
}

/* Discards a part at the end of its scope (FREED_BY). */
static void part_discard(struct part **part) {
    unit_discard(*part);
}

enum status unit_begin(struct results *results, const struct run *run, struct part **part, struct error *error) {
    const struct task *task = &results->units->plan.tasks[run->task];
    const struct run_options *options = &task->operation->run;
    struct h5_layout layout = plan_layout(options);
    FREED_BY(part_discard) struct part *new = part_new(results, &results->units->plan, run);
    TRY(h5_create_file(new->path, &new->file, error));
    if (unit_wants_output(results, run) || options->verify != VERIFY_NONE) {
        /* A run of which only the time is wanted writes no output. */
        struct shape shape = operand_array(&new->stored);
        TRY(h5_create(new->file, "/output", new->stored.dtype, &shape, &layout, &new->output, error));
        /* Populates pages for as many bytes as the run takes on its device, up to MAX_AHEAD. */
        int64_t ahead = plan_stores_in_order(&task->geometry, &run->tiling) ? run->tiling.memory_bytes : 0;
        TRY(rawwrite_open(new->output, ahead < MAX_AHEAD ? ahead : MAX_AHEAD, &new->raw, error));
    }
    *part = disown(&new);
    return STATUS_OK;
}

/* The run's output as it is computed. */
static const struct operand *output_of(const struct part *part) {
    return &part->plan->tasks[part->run->task].geometry.out;
}

/* Writes a packed box of the output's array, converted to the stored type. */
static enum status write_box(void *context, const struct box *box, void *data, struct error *error) {
    struct part *part = context;
    const struct write_source source = {data, output_of(part)->dtype, &part->casts};
    if (part->raw) return rawwrite_write(part->raw, box, &source, part->trace, error);
    uint64_t scalar = 0; /* HDF5 writes scalars and empty arrays */
    convert_elements(source.dtype, data, box_elements(box), part->stored.dtype, &scalar, &part->casts);
    return h5_write(part->output, box, &scalar, error);
}

/* Writes a box of the operand, whose axes may be merged; nothing if the part has no output. */
static enum status sink_write(void *context, const struct box *box, const void *data, struct error *error) {
    struct part *part = context;
    const struct operand_visitor visitor = {write_box, part};
    if (!part->output) return STATUS_OK;
    return operand_for_each(output_of(part), box, (void *)data, &visitor,
                            error); /* write_box does not change the data */
}

struct sink part_sink(struct part *part, struct trace *trace) {
    part->trace = trace;
    return (struct sink){.write = sink_write, .context = part, .trace = trace};
}

static int64_t output_bytes(const struct part *part) {
    return shape_elements(&part->stored.shape) * (int64_t)dtype_size(part->stored.dtype);
}

/* Reads a packed box of the output's array. */
static enum status read_back(void *context, const struct box *box, void *data, struct error *error) {
    struct part *part = context;
    FENCE(part->path);
    if (part->readback) return rawread_read(part->readback, box, data, error);
    return h5_read(part->output, box, data, error);
}

/* Reads a box of the output for verification. A large output is read on all cores, because reading takes most of the
 * time. */
static enum status read_output(struct part *part, const struct box *box, void *data, struct error *error) {
    const struct operand_visitor visitor = {read_back, part};
    if (!part->readback && part->raw && output_bytes(part) > SMALL_OUTPUT) {
        TRY(h5_flush(part->output, error));
        part->readback = rawread_open(part->output);
    }
    TRY(h5_check_writes(part->output, error));
    return operand_for_each(&part->stored, box, data, &visitor, error);
}

/* Reads a box of an input, or of the output (input < 0). */
static enum status read_operand(void *context, int input, const struct box *box, void *data, struct error *error) {
    struct part *part = context;
    const struct plan *plan = part->plan;
    if (input < 0) return read_output(part, box, data, error);
    const struct task *task = &plan->tasks[part->run->task];
    const struct operand_reading reading = {.reader = &part->results->readers->items[task->in[input]],
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
    OWNED_DATASET struct h5_dataset *dataset = NULL;
    TRY(h5_create(file, path, dtype, &shape, &contiguous, &dataset, error));
    TRY(h5_write(dataset, &box, data, error));
    return h5_set_text(dataset->id, "units", units, error);
}

/* Writes one member of the conditions of all samples as a data set, unless no value is known. */
static enum status write_known(hid_t file, const char *path, const struct samples *samples, size_t member,
                               const char *units, struct error *error) {
    OWNED float *values = must_malloc((size_t)samples->count * sizeof *values);
    bool known = false;
    for (int i = 0; i < samples->count; i++) {
        memcpy(&values[i], (const char *)&samples->conditions[i] + member, sizeof values[i]);
        known |= !isnan(values[i]);
    }
    return known ? results_write_vector(file, path, FLOAT32, samples->count, values, units, error) : STATUS_OK;
}

/* Writes the samples and what was known about each: its turn, the clock, power, heat and marks. */
static enum status write_samples(hid_t file, const struct samples *samples, struct error *error) {
    static const struct {
        const char *path, *unit;
        size_t member;
    } known[] = {{"/clock_mhz", "MHz", offsetof(struct sample_conditions, clock_mhz)},
                 {"/power_w", "W", offsetof(struct sample_conditions, power_w)},
                 {"/temperature_c", "degC", offsetof(struct sample_conditions, temperature_c)}};
    if (!samples || samples->count == 0) return STATUS_OK;
    TRY(results_write_vector(file, "/seconds", FLOAT64, samples->count, samples->seconds, "s", error));
    if (samples->count == 1) return STATUS_OK; /* a single sample has no turns, and the row has its clock */
    TRY(results_write_vector(file, "/turn", INT32, samples->count, samples->turn, "1", error));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        TRY(write_known(file, known[i].path, samples, known[i].member, known[i].unit, error));
    OWNED unsigned char *marks = samples_marks(samples);
    return results_write_vector(file, "/marks", UINT8, samples->count, marks,
                                "bits: 1 throttled for power, 2 for heat, 4 for another reason, 8 outlier, 16 busy",
                                error);
}

/* Writes which job made the part: `show` prints it, and `merge` names that job if it is another one. */
static enum status write_origin(const struct part *part, struct error *error) {
    const struct plan *plan = &part->results->units->plan;
    int skipped = 0;
    for (int i = 0; i < plan->run_count; i++) skipped += plan->runs[i].skip != NULL;
    TRY(h5_set_integer(part->file, "job_runs", plan->run_count, error));
    TRY(h5_set_integer(part->file, "job_skipped", skipped, error));
    OWNED char *path = path_absolute(plan->job->path);
    TRY(h5_set_text(part->file, "job_name", plan->job->name, error));
    TRY(h5_set_text(part->file, "job_path", path, error));
    TRY(h5_set_text(part->file, "job_sha256", part->results->job_sha256, error));
    TRY(h5_set_text(part->file, "tool_version", tilerun_version, error));
    TRY(inputs_write(part->file, part->results, &part->plan->tasks[part->run->task], error));
    return h5_set_text(part->file, "git_commit", tilerun_git_commit, error);
}

/* Removes the output, if there is one. HDF5 does not free space within a file, so for a large output a new file is
 * begun. */
static enum status drop_output(struct part *part, struct error *error) {
    if (!part->output) return STATUS_OK;
    bool little = output_bytes(part) <= SMALL_OUTPUT;
    if (!little) {
        part_close(part, IGNORED);
        return h5_create_file(part->path, &part->file, error);
    }
    close_output(part);
    if (H5Ldelete(part->file, "output", H5P_DEFAULT) < 0)
        return FAIL_CALL(error, STATUS_IO, "H5Ldelete", h5_error_text());
    return STATUS_OK;
}

enum status part_finish_output(struct part *part, bool right, struct error *error) {
    if (part->finished) return STATUS_OK;
    part->finished = true;
    part->keeps = right && unit_wants_output(part->results, part->run);
    if (!part->keeps) return drop_output(part, error);
    part->results->known.kept[part->run->task] = true;
    close_output(part);
    return STATUS_OK;
}

/* Writes the row and the attributes, closes the file, seals it and renames it to KEY.h5. If it succeeds it frees the
 * part and sets *held to NULL; else the caller discards the part. */
static enum status part_complete(struct part **held, const struct result_row *row, struct error *error) {
    struct part *part = *held;
    const struct results *results = part->results;
    char key[33];
    (part->plan == results->plan ? keys_of_run : keys_of_unit)(results->keys, part->run, key);
    TRY(h5_set_text(part->file, "schema", PART_SCHEMA, error));
    TRY(h5_set_text(part->file, "key", key, error));
    TRY(write_origin(part, error));
    TRY(result_write_row(part->file, row, error));
    TRY(part_close(part, error));
    bool sync = results->shard && results->plan->job->sync && part->keeps && output_bytes(part) > PART_LINKED_HASHED;
    TRY(part_seal(part->path, sync, error));
    OWNED char *finished = must_printf("%s/%s.h5", results->folder.parts, key);
    if (rename(part->path, finished) != 0)
        return fail(error, STATUS_IO, "%s: cannot be renamed to %s: %s", part->path, finished, strerror(errno));
    results_part_made(results, key, finished);
    part_free(part);
    *held = NULL;
    return STATUS_OK;
}

enum status unit_keep(struct part *part, const struct result_row *row, const struct samples *samples,
                      struct error *error) {
    FREED_BY(part_discard) struct part *held = part;
    TRY(part_finish_output(part, result_row_done(row), error));
    TRY(write_samples(part->file, samples, error));
    return part_complete(&held, row, error);
}

enum status unit_keep_row(struct results *results, const struct run *run, const struct result_row *row,
                          struct error *error) {
    FREED_BY(part_discard) struct part *part = part_new(results, &results->units->plan, run);
    TRY(h5_create_file(part->path, &part->file, error));
    struct part *kept = part;
    part = NULL;
    return unit_keep(kept, row, NULL, error);
}

void unit_discard(struct part *part) {
    if (!part) return;
    if (part->keeps) part->results->known.kept[part->run->task] = false;
    part_close(part, IGNORED);
    unlink(part->path);
    part_free(part);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* Copies data set `name` of a file to `box` in the data set `to`, in pieces that end where its chunks end. `write`
 * writes it; NULL: HDF5 does. */
static enum status copy_dataset(const char *file, const char *name, struct h5_dataset *to, struct rawwrite *write,
                                const struct box *box, struct error *error) {
    OWNED_DATASET struct h5_dataset *from = NULL;
    TRY(h5_open(file, name, &from, error));
    FREED_BY(rawread_close) struct rawread *raw = rawread_open(from);
    OWNED void *memory = must_malloc(PIECE_BYTES);
    struct box full = box_whole(&from->shape);
    struct grid grid = {.grain = to->chunk};
    memcpy(grid.shift, box->start, sizeof grid.shift);
    struct cut cut = cut_box(&full, &grid, PIECE_BYTES / (int64_t)dtype_size(to->dtype));
    const struct write_source source = {memory, to->dtype, NULL};
    for (int64_t i = 0; i < cut.pieces; i++) {
        struct box piece = cut_piece(&cut, i), target = piece;
        for (int axis = 0; axis < target.rank; axis++) target.start[axis] += box->start[axis];
        TRY(raw ? rawread_read(raw, &piece, memory, error) : h5_read(from, &piece, memory, error));
        TRY(write ? rawwrite_write(write, &target, &source, NULL, error) : h5_write(to, &target, memory, error));
    }
    return STATUS_OK;
}

enum status output_join(const struct plan *plan, int number, const struct run_parts *parts, const char *name,
                        hid_t file, const char *path, struct error *error) {
    const struct task *task = &plan->tasks[number];
    const struct array *out = &plan->arrays[task->out];
    struct h5_layout layout = plan_layout(&task->operation->run);
    OWNED_DATASET struct h5_dataset *to = NULL;
    FREED_BY(rawwrite_close) struct rawwrite *write = NULL;
    TRY(h5_create(file, path, out->dtype, &out->shape, &layout, &to, error));
    TRY(rawwrite_open(to, 0, &write, error));
    for (int p = 0; p < parts->count; p++)
        TRY(copy_dataset(parts->items[p].path, name, to, write, &parts->items[p].box, error));
    return h5_check_writes(to, error);
}

/* Copies what an earlier OUTPUT holds of a run: its samples and, unless `output` is NULL, its output. */
static enum status copy_data(const struct part *part, hid_t from, char *path, int run, const char *output,
                             struct error *error) {
    for (int i = 0; i < SAMPLE_KINDS; i++) {
        char name[64];
        snprintf(name, sizeof name, "/samples/%d%s", run, sample_kinds[i].suffix);
        bool there = H5Lexists(from, name, H5P_DEFAULT) > 0;
        if (there && H5Ocopy(from, name, part->file, sample_kinds[i].in_part, H5P_DEFAULT, H5P_DEFAULT) < 0)
            return fail(error, STATUS_IO, "%s: %s cannot be copied: %s", path, name, h5_error_text());
    }
    const struct shape shape = operand_array(&part->plan->tasks[part->run->task].geometry.out);
    struct run_part output_part = {path, box_whole(&shape)};
    const struct run_parts parts = {1, &output_part};
    return output ? output_join(part->plan, part->run->task, &parts, output, part->file, "/output", error) : STATUS_OK;
}

enum status part_import(struct results *results, const struct run *whole, const struct result_row *row, hid_t from,
                        const char *output, struct error *error) {
    FREED_BY(part_discard) struct part *part = part_new(results, results->plan, whole);
    FENCE(results->output.path);
    TRY(h5_create_file(part->path, &part->file, error));
    TRY(copy_data(part, from, results->output.path, row->run, output, error));
    struct result_row copy = *row;
    copy.run = whole->number;
    return part_complete(&part, &copy, error);
}
