/* result.c - where a job's results go: the output's place, its lock, the keys of its runs, and rows to begin with. */
#include "result_parts.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* ---- rows ---- */

/* Longer texts are cut: a column has a fixed width. */
static void copy(char *to, size_t size, const char *from) {
    size_t length = strnlen(from, size - 1);
    memcpy(to, from, length);
    to[length] = '\0';
}

void result_row_init(struct result_row *row, const struct plan *plan, const struct run *run) {
    const struct task *task = &plan->tasks[run->task];
    const struct geometry *geometry = &task->geometry;
    memset(row, 0, sizeof *row);
    row->run = run->number;
    copy(row->operation, sizeof row->operation, task->operation->id);
    copy(row->op, sizeof row->op, operations[geometry->op]->name);
    copy(row->variant, sizeof row->variant, run->label);
    copy(row->parameters, sizeof row->parameters, task->operation->label);
    const char *absent = run->device == DEVICE_CUDA ? "cuda" : "cpu";
    copy(row->device, sizeof row->device, plan->present[run->device] ? plan->facts[run->device].id : absent);
    copy(row->dtype, sizeof row->dtype, dtype_name(geometry->in[0].dtype));
    copy(row->shape, sizeof row->shape, geometry->shape_text);
    double *const unknown[] = {
        &row->kernel_median_s, &row->kernel_min_s, &row->kernel_max_s, &row->kernel_mad_s, &row->read_s,
        &row->h2d_s,           &row->d2h_s,        &row->write_s,      &row->total_s,      &row->gflops,
        &row->gbytes_per_s,    &row->error,        &row->tolerance,
    };
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) *unknown[i] = NAN;
    row->flops = geometry->flops;
    row->bytes = geometry->bytes;
}

/* ---- keys ---- */

static void hash_text(XXH3_state_t *state, const char *text) {
    XXH3_128bits_update(state, text, strlen(text) + 1);
}

static void hash_array(XXH3_state_t *state, const struct plan *plan, int index, const XXH128_hash_t task_keys[]) {
    const struct array *array = &plan->arrays[index];
    char text[512], shape[SHAPE_TEXT];
    if (!array->input) { /* a result is known by the task that makes it */
        int task = 0;
        while (plan->tasks[task].out != index) task++;
        XXH3_128bits_update(state, &task_keys[task], sizeof task_keys[task]);
        return;
    }
    const struct random_terms *terms = &array->input->terms;
    snprintf(text, sizeof text, "%s %s ", dtype_name(array->dtype), shape_format(&array->shape, shape));
    hash_text(state, text);
    if (array->input->random)
        snprintf(text, sizeof text, "random %d %a %a %a %a %a %llu", (int)terms->distribution, terms->low, terms->high,
                 terms->mean, terms->std, terms->value, (unsigned long long)terms->seed);
    else
        snprintf(text, sizeof text, "file %s", array->hash);
    hash_text(state, text);
}

static void hash_run(XXH3_state_t *state, const struct run *run) {
    hash_text(state, run->label);
    hash_text(state, run->kernel ? run->kernel->name : "");
    XXH3_128bits_update(state, run->choice, sizeof run->choice);
    int device = run->kernel ? (int)run->kernel->device : -1;
    XXH3_128bits_update(state, &device, sizeof device);
}

/* A task's key: version, operation, inputs and all its variants, for its result is that of the first that is right.
 * `state` is left holding what the task's runs have in common. */
static XXH128_hash_t hash_task(XXH3_state_t *state, const struct plan *plan, int number, const XXH128_hash_t keys[]) {
    const struct task *task = &plan->tasks[number];
    XXH3_128bits_reset(state);
    hash_text(state, tilerun_version);
    hash_text(state, tilerun_git_commit);
    hash_text(state, task->operation->id);
    hash_text(state, task->operation->label);
    hash_text(state, task->operation->resolved);
    for (int i = 0; i < task->geometry.inputs; i++) hash_array(state, plan, task->in[i], keys);
    XXH3_state_t *all = XXH3_createState();
    XXH3_copyState(all, state);
    for (int i = 0; i < task->run_count; i++) hash_run(all, &plan->runs[task->first_run + i]);
    XXH128_hash_t key = XXH3_128bits_digest(all);
    XXH3_freeState(all);
    return key;
}

static void key_text(XXH128_hash_t hash, char key[33]) {
    snprintf(key, 33, "%016llx%016llx", (unsigned long long)hash.high64, (unsigned long long)hash.low64);
}

void results_key(const struct plan *plan, const struct run *run, char key[33]) {
    XXH128_hash_t *keys = must_malloc((unsigned long)(run->task + 1) * sizeof *keys);
    XXH3_state_t *state = XXH3_createState();
    for (int i = 0; i <= run->task; i++) keys[i] = hash_task(state, plan, i, keys);
    hash_run(state, run);
    key_text(XXH3_128bits_digest(state), key);
    XXH3_freeState(state);
    free(keys);
}

void results_plan_key(const struct plan *plan, char key[33]) {
    XXH128_hash_t *keys = must_malloc((unsigned long)(plan->task_count + 1) * sizeof *keys);
    XXH3_state_t *state = XXH3_createState();
    for (int i = 0; i < plan->task_count; i++) keys[i] = hash_task(state, plan, i, keys);
    key_text(XXH3_128bits(keys, (size_t)plan->task_count * sizeof *keys), key);
    XXH3_freeState(state);
    free(keys);
}

/* ---- the place ---- */

char *results_part_path(const struct results *results, const struct run *run, const char *suffix) {
    char key[33];
    results_key(results->plan, run, key);
    return must_printf("%s/%s%s", results->parts, key, suffix);
}

enum status results_sync_folder(const char *folder, struct error *error) {
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Some file systems cannot sync a folder and say EINVAL: nothing more can be done there. */
    bool failed = descriptor < 0 || (fsync(descriptor) != 0 && errno != EINVAL);
    enum status status =
        failed ? fail(error, STATUS_IO, "%s: cannot be synced: %s", folder, strerror(errno)) : STATUS_OK;
    if (descriptor >= 0) close(descriptor);
    return status;
}

static bool has_suffix(const char *name, const char *suffix) {
    size_t length = strlen(name), tail = strlen(suffix);
    return length >= tail && strcmp(name + length - tail, suffix) == 0;
}

void results_clear(const struct results *results, bool finished) {
    DIR *folder = opendir(results->parts);
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (has_suffix(entry->d_name, ".tmp") || (finished && has_suffix(entry->d_name, ".h5")))
            unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
}

static bool same_file(const char *path, const struct stat *other) {
    struct stat about;
    return path && stat(path, &about) == 0 && about.st_dev == other->st_dev && about.st_ino == other->st_ino;
}

/* May OUTPUT be made or replaced? */
static enum status check_output(const struct results *results, bool replace, struct error *error) {
    const char *output = results->output;
    const struct job *job = results->plan->job;
    struct stat about;
    if (stat(output, &about) == 0) {
        if (S_ISDIR(about.st_mode)) return fail(error, STATUS_USAGE, "output %s: is a directory", output);
        if (!S_ISREG(about.st_mode)) return fail(error, STATUS_USAGE, "output %s: is not a regular file", output);
        if (same_file(job->path, &about)) return fail(error, STATUS_USAGE, "output %s: is the job file itself", output);
        for (int i = 0; i < job->input_count; i++)
            if (!job->inputs[i].random && same_file(job->inputs[i].file, &about))
                return fail(error, STATUS_USAGE, "output %s: is the job's input '%s'", output, job->inputs[i].name);
        if (!replace)
            return fail(error, STATUS_USAGE, "output %s: exists; --overwrite replaces it, --resume continues its job",
                        output);
    } else if (errno != ENOENT && errno != ENOTDIR) {
        return fail(error, STATUS_USAGE, "output %s: %s", output, strerror(errno));
    }
    if (output[0] == '\0' || has_suffix(output, "/"))
        return fail(error, STATUS_USAGE, "output '%s': names no file", output);
    if (stat(results->folder, &about) != 0)
        return fail(error, STATUS_USAGE, "output %s: folder %s: %s", output, results->folder, strerror(errno));
    if (!S_ISDIR(about.st_mode))
        return fail(error, STATUS_USAGE, "output %s: %s is not a folder", output, results->folder);
    if (access(results->folder, W_OK | X_OK) != 0)
        return fail(error, STATUS_USAGE, "output %s: cannot write in %s: %s", output, results->folder, strerror(errno));
    return STATUS_OK;
}

/* One job at a time may write an output; the lock goes with the process however it ends. */
static enum status take_lock(struct results *results, struct error *error) {
    if (mkdir(results->parts, 0777) != 0 && errno != EEXIST)
        return fail(error, STATUS_USAGE, "%s: cannot be made: %s", results->parts, strerror(errno));
    char *path = must_printf("%s/lock", results->parts);
    struct stat about;
    enum status status = STATUS_OK;
    results->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (results->lock < 0)
        status = fail(error, STATUS_USAGE, "%s: cannot be made: %s", path, strerror(errno));
    else if ((flock(results->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) ||
             fstat(results->lock, &about) != 0 || !same_file(path, &about)) /* its holder was just removing it */
        status = fail(error, STATUS_USAGE, "output %s: another tilerun is writing it", results->output);
    /* Other errors are those of file systems without locks: there the user is the lock. */
    if (status && results->lock >= 0) {
        close(results->lock);
        results->lock = -1;
    }
    free(path);
    return status;
}

enum status results_open(const char *output, bool overwrite, bool resume, const struct plan *plan,
                         struct results **result, struct error *error) {
    struct results *results = must_malloc(sizeof *results);
    const char *slash = strrchr(output, '/');
    *results = (struct results){.output = must_strdup(output), .lock = -1, .plan = plan};
    results->folder =
        slash ? must_printf("%.*s", slash == output ? 1 : (int)(slash - output), output) : must_strdup(".");
    results->parts = must_printf("%s.parts", output);
    results->kept = must_malloc((unsigned long)(plan->task_count + 1) * sizeof *results->kept);
    memset(results->kept, 0, (size_t)(plan->task_count + 1) * sizeof *results->kept);
    enum status status = check_output(results, overwrite || resume, error);
    if (!status) status = take_lock(results, error);
    if (!status) results_clear(results, !resume);
    if (status) {
        results_close(results);
        results = NULL;
    }
    *result = results;
    return status;
}

void results_close(struct results *results) {
    if (!results) return;
    if (results->lock >= 0) {
        /* Without parts there is nothing to resume: leave no trace. With them the folder stays, and rmdir says no. */
        char *path = must_printf("%s/lock", results->parts);
        results_clear(results, false);
        unlink(path);
        rmdir(results->parts);
        close(results->lock);
        free(path);
    }
    free(results->output);
    free(results->folder);
    free(results->parts);
    free(results->kept);
    free(results);
}

bool results_is_complete(const char *output, const struct plan *plan) {
    hid_t file = access(output, R_OK) == 0 ? H5Fopen(output, H5F_ACC_RDONLY, H5P_DEFAULT) : H5I_INVALID_HID;
    if (file < 0) return false;
    char *state = h5_get_text(file, "status"), *stored = NULL, key[33];
    if (H5Lexists(file, "job_resolved", H5P_DEFAULT) > 0) {
        hid_t job = H5Dopen2(file, "job_resolved", H5P_DEFAULT);
        stored = h5_get_text(job, "key");
        H5Dclose(job);
    }
    H5Fclose(file);
    results_plan_key(plan, key);
    bool complete = state && stored && strcmp(state, "complete") == 0 && strcmp(stored, key) == 0;
    free(state);
    free(stored);
    return complete;
}
