/* manifest.c - writes and reads a shard's manifest: an HDF5 file that describes its job and the machine that it runs
 * on. A shard writes it into its folder before its first run. `merge` and `show` find the shards' job in it (struct
 * shard_job).
 *
 *     /job, /job_resolved     as in the results file
 *     /environment            as in the results file
 *     /devices/cpu, /cuda     what the plan knew of each device that the job could use (record/facts.h)
 *     /units                  the numbers of the runs of units that the shard does
 *     attributes              place ("node n7, job 1234_3"), command_line, created; partial: `--only` left something
 *                             out; shards, divided, by: how the job is divided (struct shard_job); busy: how many
 *                             shards have something to do; log: the file of stderr; stopped: why the shard ended
 *                             before its last run
 *
 * It ends in a trailer, as a part does (seal.c). When the shard has done all its units the file is made read-only. */
#include "../base/clock.h"
#include "../base/fail.h"
#include "../base/path.h"
#include "../base/texts.h"
#include "../record/environment.h"
#include "../record/facts.h"
#include "../storage/h5/h5scale.h"
#include "../storage/untrusted/fence.h"
#include "../storage/untrusted/h5open.h"
#include "results.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void results_environment(const struct plan *plan, struct environment *environment) {
    const struct device_facts *facts = &plan->facts[plan->present[DEVICE_CUDA] ? DEVICE_CUDA : DEVICE_CPU];
    const char *colon = strchr(facts->id, ':');
    struct device_provenance gpu;
    if (facts->kind == DEVICE_CUDA) device_cuda_provenance(colon ? atoi(colon + 1) : 0, &gpu);
    environment_collect(facts, facts->kind == DEVICE_CUDA ? &gpu : NULL, environment);
    environment_add_variables(environment, plan->job->variables, plan->job->variable_count);
}

/* ---- a shard's manifest ------------------------------------------------------------------------------------------ */

/* Returns the path of the file that stderr goes to, as under a batch system. If stderr is not a file, returns
 * TILERUN_LOG, which names the file to which srun forwards it; NULL: it is not set. The caller frees. */
static char *log_file(void) {
    char path[4096];
    struct stat about;
    ssize_t length = readlink("/proc/self/fd/2", path, sizeof path - 1);
    const char *named = getenv("TILERUN_LOG");
    if (length <= 0 || fstat(STDERR_FILENO, &about) != 0 || !S_ISREG(about.st_mode))
        return named && *named ? must_strdup(named) : NULL;
    path[length] = '\0';
    return must_strdup(path);
}

/* Writes the numbers of the runs of units that the shard does, because `show` makes no plan. */
static enum status write_units(hid_t file, const struct results *results, struct error *error) {
    const struct plan *plan = &results->units->plan;
    OWNED int32_t *numbers = must_malloc((size_t)plan->run_count * sizeof *numbers + 1);
    int count = 0;
    for (int r = 0; r < plan->run_count; r++)
        if (shard_has(results->shard, plan->runs[r].task)) numbers[count++] = r;
    return results_write_vector(file, "units", INT32, count, numbers, "1", error);
}

/* Writes all that a manifest holds, but for the trailer. */
static enum status write_manifest(hid_t file, const struct results *results, const char *command_line, bool partial,
                                  const char *stopped, struct error *error) {
    const struct plan *plan = results->plan;
    FREED_BY(environment_free) struct environment environment = {0};
    OWNED char *host = environment_host(), *log = NULL;
    char created[TIME_TEXT];
    results_environment(plan, &environment);
    TRY(h5_set_text(file, "place", host, error));
    TRY(h5_set_text(file, "command_line", command_line, error));
    TRY(h5_set_text(file, "created", time_text(created), error));
    TRY(h5_set_integer(file, "partial", partial, error));
    TRY(h5_set_integer(file, "shards", results->shard->count, error));
    TRY(h5_set_integer(file, "divided", results->shard->divided, error));
    TRY(h5_set_integer(file, "by", results->shard->by, error));
    TRY(h5_set_integer(file, "busy", shard_busy(results->shard, &results->units->plan), error));
    if (stopped) TRY(h5_set_text(file, "stopped", stopped, error));
    if ((log = log_file())) TRY(h5_set_text(file, "log", log, error));
    TRY(write_units(file, results, error));
    TRY(provenance_write_job(file, plan->job, NULL, error));
    TRY(provenance_write_environment(file, &environment, error));
    for (int kind = 0; kind < 2; kind++)
        if (plan->present[kind]) TRY(facts_write(file, &plan->facts[kind], error));
    return STATUS_OK;
}

enum status results_write_manifest(struct results *results, const char *command_line, bool partial, const char *stopped,
                                   struct error *error) {
    OWNED char *path = must_printf("%s/" SHARD_MANIFEST, results->folder.parts);
    OWNED char *new = must_printf("%s/" SHARD_MANIFEST_NEW, results->folder.parts);
    hid_t file;
    enum status status = h5_create_file(new, &file, error);
    if (!status) {
        status = write_manifest(file, results, command_line, partial, stopped, error);
        enum status closed = h5_close_file(file, error);
        if (!status) status = closed;
    }
    if (!status) status = part_seal(new, false, error);
    if (!status && rename(new, path) != 0)
        status = fail(error, STATUS_IO, "%s: cannot be renamed to %s: %s", new, path, strerror(errno));
    if (status) unlink(new);
    results->known.stopped = !status && stopped;
    return status;
}

void results_finish_manifest(const struct results *results) {
    OWNED char *path = must_printf("%s/" SHARD_MANIFEST, results->folder.parts);
    struct stat about;
    if (stat(path, &about) == 0) chmod(path, about.st_mode & ~(mode_t)(S_IWUSR | S_IWGRP | S_IWOTH) & 07777);
}

/* Opens the manifest of a shard. Negative: the shard has not begun, or a crash of the machine damaged the file. */
static hid_t open_manifest(const char *folder) {
    OWNED char *path = must_printf("%s/" SHARD_MANIFEST, folder);
    return part_open(path, ANY_SIZE);
}

char *manifest_text(const char *folder, const char *attribute) {
    FENCE(folder);
    OWNED_ID hid_t file = open_manifest(folder);
    return file < 0 ? NULL : h5_get_text(file, attribute);
}

char *manifest_resolved(const char *folder, const char *sha256) {
    FENCE(folder);
    OWNED_ID hid_t file = open_manifest(folder);
    OWNED char *found = file < 0 ? NULL : h5_get_text_of(file, "job_resolved", "sha256");
    return found && (!sha256 || strcmp(found, sha256) == 0) ? provenance_read_text(file, "job_resolved") : NULL;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* The contents of a manifest. */
struct manifest {
    struct shard_job job;
    struct shard_state state;
    char *sha256; /* the job's; NULL: the shard has not begun */
    int busy;
    struct timespec begun;
    int alike; /* manifests of the same job, divided alike, this one too */
};

/* An integer attribute from 1 to MAX_SHARDS; otherwise `missing`. */
static int get_count(hid_t file, const char *name, int missing) {
    int64_t value = h5_get_integer(file, name, 0);
    return value >= 1 && value <= MAX_SHARDS ? (int)value : missing;
}

/* Reads what a manifest states of the job; members that it lacks become NULL or false. */
static void read_job(hid_t file, struct shard_job *job) {
    *job = (struct shard_job){.partial = h5_get_integer(file, "partial", 0) != 0,
                              .by = (enum shard_by)h5_get_integer(file, "by", 0)};
    job->path = h5_get_text_of(file, "job", "path");
    job->text = provenance_read_text(file, "job");
    job->resolved = provenance_read_text(file, "job_resolved");
    job->shards = get_count(file, "shards", 1);
    job->divided = get_count(file, "divided", job->shards);
    for (int kind = 0; kind < 2; kind++)
        job->present[kind] = facts_read(file, (enum kernel_device)kind, &job->facts[kind]);
}

/* Reads the numbers of the shard's units. */
static void read_units(const char *path, struct shard_state *state) {
    OWNED_DATASET struct h5_dataset *dataset = NULL;
    if (!h5_open(path, "/units", &dataset, IGNORED) && dataset->shape.rank == 1 && dataset->dtype == INT32) {
        struct box all = box_whole(&dataset->shape);
        state->units = must_malloc((size_t)all.count[0] * sizeof *state->units + 1);
        if (!h5_read(dataset, &all, state->units, IGNORED)) state->unit_count = (int)all.count[0];
    }
}

/* Reads the manifest in a shard's folder; `sha256` is NULL if the folder has none that can be read. */
static struct manifest read_manifest(const char *folder) {
    FENCE(folder);
    struct manifest manifest = {.alike = 0};
    OWNED char *path = must_printf("%s/" SHARD_MANIFEST, folder);
    struct stat about = {0};
    hid_t file = stat(path, &about) == 0 ? open_manifest(folder) : H5I_INVALID_HID;
    if (file >= 0) {
        read_job(file, &manifest.job);
        manifest.busy = get_count(file, "busy", manifest.job.shards);
        manifest.begun = about.st_mtim;
        manifest.sha256 = h5_get_text_of(file, "job_resolved", "sha256");
        manifest.state = (struct shard_state){.begun = true,
                                              .done = !(about.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)),
                                              .host = h5_get_text(file, "place"),
                                              .log = h5_get_text(file, "log"),
                                              .stopped = h5_get_text(file, "stopped")};
        H5Fclose(file);
        read_units(path, &manifest.state);
    }
    return manifest;
}

static void free_state(struct shard_state *state) {
    free(state->host);
    free(state->log);
    free(state->stopped);
    free(state->units);
    *state = (struct shard_state){.begun = false};
}

void shard_job_free(struct shard_job *job) {
    for (int i = 0; job->states && i < job->shards; i++) free_state(&job->states[i]);
    free(job->states);
    free(job->path);
    free(job->text);
    free(job->resolved);
    free(job->later);
    *job = (struct shard_job){.path = NULL};
}

/* ---- for `merge` and `show`: the job of the shards --------------------------------------------------------------- */

/* Are the manifests of one job, divided alike? */
static bool same_division(const struct manifest *one, const struct manifest *other) {
    return one->sha256 && other->sha256 && strcmp(one->sha256, other->sha256) == 0 &&
           one->job.shards == other->job.shards && one->job.divided == other->job.divided &&
           one->job.by == other->job.by;
}

/* Should `merge` take the job of `one` rather than that of `other`? Prefers a job whose busy shards all have manifests,
 * then the one with more manifests, then the later one. */
static bool is_preferred(const struct manifest *one, const struct manifest *other) {
    bool complete = one->alike >= one->busy, other_complete = other->alike >= other->busy;
    if (complete != other_complete) return complete;
    if (!complete && one->alike != other->alike) return one->alike > other->alike;
    return results_later(&one->begun, &other->begun);
}

/* Chooses among the manifests the preferred job's last one; sets `alike` of all. NULL: none can be read. */
static struct manifest *choose_manifest(struct manifest *manifests, int count) {
    struct manifest *best = NULL;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++) manifests[i].alike += same_division(&manifests[i], &manifests[k]);
    for (int i = 0; i < count; i++)
        if (manifests[i].sha256 && (!best || is_preferred(&manifests[i], best))) best = &manifests[i];
    return best;
}

/* Moves the states of the job's shards from the manifests into `job`. Sets job->later to the folder of a shard that
 * belongs to a later job, if there is one. */
static void complete_job(struct shard_job *job, const struct manifest *best, struct manifest *manifests,
                         const struct texts *folders) {
    job->states = must_malloc((size_t)job->shards * sizeof *job->states);
    for (int i = 0; i < job->shards; i++) job->states[i] = (struct shard_state){.begun = false};
    for (int i = 0; i < folders->count; i++) {
        int index, shards;
        bool since = manifests[i].sha256 && results_later(&manifests[i].begun, &best->begun);
        if (since && !job->later && strcmp(manifests[i].sha256, best->sha256) != 0)
            job->later = must_strdup(folders->items[i]);
        if (!shard_folder_parse(strrchr(folders->items[i], '/') + 1, &index, &shards) || shards != job->shards)
            continue;
        job->states[index] = manifests[i].state;
        manifests[i].state = (struct shard_state){.begun = false};
    }
}

bool manifests_find_job(const char *root, struct shard_job *job) {
    *job = (struct shard_job){.partial = false};
    FREED_BY(texts_clear) struct texts folders = shard_folders(root);
    OWNED struct manifest *manifests = must_malloc((size_t)folders.count * sizeof *manifests + 1);
    for (int i = 0; i < folders.count; i++) manifests[i] = read_manifest(folders.items[i]);
    struct manifest *best = choose_manifest(manifests, folders.count);
    if (best) {
        *job = best->job;
        best->job = (struct shard_job){.partial = false};
        complete_job(job, best, manifests, &folders);
    }
    for (int i = 0; i < folders.count; i++) {
        shard_job_free(&manifests[i].job);
        free_state(&manifests[i].state);
        free(manifests[i].sha256);
    }
    return job->path && job->text && job->resolved && job->present[DEVICE_CPU];
}

bool shards_find_job(const char *output, struct shard_job *job) {
    OWNED char *root = parts_folder_of(output);
    *job = (struct shard_job){.partial = false};
    return root && manifests_find_job(root, job);
}

/* Is there a folder of a shard of a division into more or fewer than `shards`? */
static bool has_other_shards(const char *output, int shards) {
    OWNED char *folder = parts_folder_of(output);
    if (!folder) return false;
    FREED_BY(texts_clear) struct texts folders = shard_folders(folder);
    bool found = false;
    for (int i = 0, index, count; i < folders.count; i++)
        found |= shard_folder_parse(strrchr(folders.items[i], '/') + 1, &index, &count) && count != shards;
    return found;
}

bool shards_find_division(const char *output, const struct job *job, int shards, int *divided, enum shard_by *by) {
    FREED_BY(shard_job_free) struct shard_job found = {.partial = false};
    bool same = has_other_shards(output, shards) && shards_find_job(output, &found) &&
                strcmp(found.resolved, job->resolved) == 0 && (*by == SHARD_AUTO || *by == found.by);
    if (same) *divided = found.divided, *by = found.by;
    return same;
}

/* ---- in the results file ----------------------------------------------------------------------------------------- */

/* Writes /shards/I-of-N: the attributes of the manifest and of its environment, and the runs. */
static enum status write_origin(hid_t to, hid_t manifest, const char *name, int count, const int32_t *runs,
                                struct error *error) {
    OWNED char *path = must_printf("/shards/%s", name), *list = must_printf("/shards/%s/runs", name);
    OWNED_ID hid_t group = H5I_INVALID_HID, environment = H5Gopen2(manifest, "environment", H5P_DEFAULT);
    TRY(h5_group(to, path, &group, error));
    if (environment < 0 || H5Aiterate2(manifest, H5_INDEX_NAME, H5_ITER_INC, NULL, h5_copy_attribute, &group) < 0 ||
        H5Aiterate2(environment, H5_INDEX_NAME, H5_ITER_INC, NULL, h5_copy_attribute, &group) < 0)
        return fail(error, STATUS_IO, "the manifest of shard %s cannot be copied to %s: %s", name, path,
                    h5_error_text());
    return results_write_vector(to, list, INT32, count, runs, "1", error);
}

/* The runs of which a shard's folder has parts. */
struct folder_runs {
    int count;
    int32_t *numbers;
};

/* Appends a run, unless it was appended last. */
static void note_run(struct folder_runs *runs, int run) {
    if (runs->count > 0 && runs->numbers[runs->count - 1] == run) return; /* another panel of it */
    *APPEND(runs->numbers, runs->count) = run;
}

/* Returns the runs of each folder. The caller frees. */
static struct folder_runs *runs_of_folders(const struct results *results, const struct texts *folders) {
    struct folder_runs *runs = must_zeroed((size_t)folders->count * sizeof *runs + 1);
    for (int r = 0; r < results->plan->run_count && folders->count > 0; r++) {
        FREED_BY(run_parts_free) struct run_parts parts = parts_of_run(results, &results->plan->runs[r]);
        for (int p = 0; p < parts.count; p++) {
            OWNED char *folder = path_folder(parts.items[p].path);
            char **found = bsearch(&folder, folders->items, (size_t)folders->count, sizeof folder, text_compare);
            if (found) note_run(&runs[found - folders->items], r);
        }
    }
    return runs;
}

enum status shards_write_origins(hid_t file, const struct results *results, struct error *error) {
    FREED_BY(texts_clear) struct texts folders = shard_folders(results->folder.root);
    OWNED struct folder_runs *runs = runs_of_folders(results, &folders);
    enum status status = STATUS_OK;
    for (int i = 0; i < folders.count; i++) {
        FENCE(folders.items[i]);
        OWNED int32_t *numbers = runs[i].numbers;
        OWNED_ID hid_t manifest = status ? H5I_INVALID_HID : open_manifest(folders.items[i]);
        OWNED char *job = manifest < 0 ? NULL : h5_get_text_of(manifest, "job_resolved", "sha256");
        const char *name = strrchr(folders.items[i], '/') + 1 + strlen("shard-");
        if (manifest >= 0 && (numbers || (job && strcmp(job, results->job_sha256) == 0)))
            status = write_origin(file, manifest, name, runs[i].count, numbers, error);
    }
    return status;
}
