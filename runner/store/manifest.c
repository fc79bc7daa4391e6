/* manifest.c - where results come from, in HDF5: the job, and the machine that it ran on. A shard leaves it in its
 * folder before its first run; from there `merge` takes the job again, as the shards ran it.
 *
 *     /job, /job_resolved     as in the results file
 *     /environment            as in the results file
 *     /devices/cpu, /cuda     what the plan knew of each device that the job could use (record/facts.h)
 *     attributes              place ("node n7, job 1234_3"), command_line, created; partial: `--only` left something
 *                             out; shards, by: how the job is divided; busy: how many shards have something to do
 *
 * It ends in a hash of its bytes, as a part does. When the shard has done all its units the file is made read-only. */
#include "../base/clock.h"
#include "../base/fail.h"
#include "../record/environment.h"
#include "../record/facts.h"
#include "../storage/h5/h5scale.h"
#include "../storage/untrusted/fence.h"
#include "../storage/untrusted/h5open.h"
#include "results.h"
#include <dirent.h>
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
}

/* ---- a shard's manifest ------------------------------------------------------------------------------------------ */

/* The file that stderr goes to, as a batch system has it; NULL: it is no file. The caller frees. */
static char *log_file(void) {
    char path[4096];
    struct stat about;
    ssize_t length = readlink("/proc/self/fd/2", path, sizeof path - 1);
    if (length <= 0 || fstat(STDERR_FILENO, &about) != 0 || !S_ISREG(about.st_mode)) return NULL;
    path[length] = '\0';
    return must_strdup(path);
}

/* The numbers of the runs of units that the shard does: for `show`, which makes no plan. */
static enum status write_units(hid_t file, const struct results *results, struct error *error) {
    const struct plan *plan = &results->units->plan;
    int32_t *numbers = must_malloc((size_t)plan->run_count * sizeof *numbers + 1);
    int count = 0;
    for (int r = 0; r < plan->run_count; r++)
        if (shard_has(results->shard, plan->runs[r].task)) numbers[count++] = r;
    enum status status = results_write_vector(file, "units", INT32, count, numbers, "1", error);
    free(numbers);
    return status;
}

static enum status write_manifest(hid_t file, const struct results *results, const char *command_line, bool partial,
                                  struct error *error) {
    const struct plan *plan = results->plan;
    struct environment environment;
    char *place = environment_place(), *log = NULL, created[TIME_TEXT];
    results_environment(plan, &environment);
    enum status status = h5_set_text(file, "place", place, error);
    if (!status) status = h5_set_text(file, "command_line", command_line, error);
    if (!status) status = h5_set_text(file, "created", time_text(created), error);
    if (!status) status = h5_set_integer(file, "partial", partial, error);
    if (!status) status = h5_set_integer(file, "shards", results->shard->count, error);
    if (!status) status = h5_set_integer(file, "divided", results->shard->divided, error);
    if (!status) status = h5_set_integer(file, "by", results->shard->by, error);
    if (!status) status = h5_set_integer(file, "busy", shard_busy(results->shard, &results->units->plan), error);
    if (!status && (log = log_file())) status = h5_set_text(file, "log", log, error);
    if (!status) status = write_units(file, results, error);
    if (!status) status = results_write_job(file, plan->job, NULL, error);
    if (!status) status = results_write_environment(file, &environment, error);
    for (int kind = 0; kind < 2 && !status; kind++)
        if (plan->present[kind]) status = facts_write(file, &plan->facts[kind], error);
    environment_free(&environment);
    free(place);
    free(log);
    return status;
}

enum status results_write_manifest(const struct results *results, const char *command_line, bool partial,
                                   struct error *error) {
    char *path = must_printf("%s/" SHARD_MANIFEST, results->folder.own),
         *new = must_printf("%s/" SHARD_MANIFEST_NEW, results->folder.own);
    hid_t file;
    enum status status = h5_create_file(new, &file, error);
    if (!status) {
        status = write_manifest(file, results, command_line, partial, error);
        enum status closed = h5_close_file(file, error);
        if (!status) status = closed;
    }
    if (!status) status = part_seal(new, false, error);
    if (!status && rename(new, path) != 0)
        status = fail(error, STATUS_IO, "%s: cannot be renamed: %s", new, strerror(errno));
    if (status) unlink(new);
    free(new);
    free(path);
    return status;
}

void results_finish_manifest(const struct results *results) {
    char *path = must_printf("%s/" SHARD_MANIFEST, results->folder.own);
    struct stat about;
    if (stat(path, &about) == 0) chmod(path, about.st_mode & ~(mode_t)(S_IWUSR | S_IWGRP | S_IWOTH) & 07777);
    free(path);
}

/* Negative: the shard has not begun, or a crash of the machine has damaged its manifest. */
static hid_t open_manifest(const char *folder) {
    char *path = must_printf("%s/" SHARD_MANIFEST, folder);
    hid_t file = part_is_whole(path, INT64_MAX) ? h5_open_unlocked(path) : H5I_INVALID_HID;
    free(path);
    return file;
}

char *manifest_host(const char *folder) {
    FENCE(folder);
    hid_t file = open_manifest(folder);
    char *place = file < 0 ? NULL : h5_get_text(file, "place");
    if (file >= 0) H5Fclose(file);
    return place;
}

/* ---- for `merge`: the job of the shards -------------------------------------------------------------------------- */

void shard_job_free(struct shard_job *job) {
    free(job->path);
    free(job->text);
    free(job->resolved);
    free(job->later);
    *job = (struct shard_job){.path = NULL};
}

static bool read_shard_job(const char *folder, struct shard_job *job) {
    FENCE(folder);
    hid_t file = open_manifest(folder);
    int64_t partial = 0, shards = 0, divided = 0, by = 0;
    *job = (struct shard_job){.partial = false};
    if (file < 0) return false;
    hid_t verbatim = H5Dopen2(file, "job", H5P_DEFAULT);
    job->path = verbatim < 0 ? NULL : h5_get_text(verbatim, "path");
    if (verbatim >= 0) H5Dclose(verbatim);
    job->text = results_read_text(file, "job");
    job->resolved = results_read_text(file, "job_resolved");
    h5_get_number(file, "partial", INT64, &partial);
    h5_get_number(file, "shards", INT64, &shards);
    h5_get_number(file, "divided", INT64, &divided);
    h5_get_number(file, "by", INT64, &by);
    job->partial = partial != 0;
    job->shards = shards >= 1 && shards <= MOST_SHARDS ? (int)shards : 1;
    job->divided = divided >= 1 && divided <= MOST_SHARDS ? (int)divided : job->shards;
    job->by = (enum shard_by)by;
    for (int kind = 0; kind < 2; kind++)
        job->present[kind] = facts_read(file, (enum kernel_device)kind, &job->facts[kind]);
    H5Fclose(file);
    return job->path && job->text && job->resolved && job->present[DEVICE_CPU];
}

/* The SHA-256 of the resolved job of a shard; NULL: it has not begun. The caller frees. */
static char *job_hash(const char *folder) {
    FENCE(folder);
    hid_t file = open_manifest(folder), resolved = file < 0 ? file : H5Dopen2(file, "job_resolved", H5P_DEFAULT);
    char *sha256 = resolved < 0 ? NULL : h5_get_text(resolved, "sha256");
    if (resolved >= 0) H5Dclose(resolved);
    if (file >= 0) H5Fclose(file);
    return sha256;
}

static int compare_texts(const void *one, const void *other) {
    return strcmp(*(char *const *)one, *(char *const *)other);
}

/* The folders of shards, in the order of their names. The caller frees each and the list. */
static char **list_folders(const char *whole, int *count) {
    char **folders = must_malloc(1);
    DIR *folder = opendir(whole);
    *count = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        int index, shards;
        if (!shard_folder_parse(entry->d_name, &index, &shards)) continue;
        folders = must_realloc(folders, (size_t)(*count + 1) * sizeof *folders);
        folders[(*count)++] = must_printf("%s/%s", whole, entry->d_name);
    }
    if (folder) closedir(folder);
    qsort(folders, (size_t)*count, sizeof *folders, compare_texts);
    return folders;
}

/* What a shard's manifest says of the job. */
struct manifest {
    char *folder, *job; /* the job's SHA-256; NULL: it has not begun */
    int64_t shards, divided, by, busy;
    struct timespec begun;
    int alike; /* manifests of the same job, divided alike, this one too */
};

static struct manifest read_manifest(char *folder) {
    FENCE(folder);
    struct manifest manifest = {.folder = folder, .job = job_hash(folder)};
    char *path = must_printf("%s/" SHARD_MANIFEST, folder);
    struct stat about = {0};
    hid_t file = manifest.job ? open_manifest(folder) : H5I_INVALID_HID;
    if (stat(path, &about) == 0) manifest.begun = about.st_mtim;
    if (file >= 0) {
        h5_get_number(file, "shards", INT64, &manifest.shards);
        h5_get_number(file, "divided", INT64, &manifest.divided);
        h5_get_number(file, "by", INT64, &manifest.by);
        if (!h5_get_number(file, "busy", INT64, &manifest.busy)) manifest.busy = manifest.shards;
        H5Fclose(file);
    }
    free(path);
    return manifest;
}

static bool same_division(const struct manifest *one, const struct manifest *other) {
    return one->job && other->job && strcmp(one->job, other->job) == 0 && one->shards == other->shards &&
           one->divided == other->divided && one->by == other->by;
}

/* Is this manifest's job, divided as it says, rather the one to join? */
static bool rather(const struct manifest *one, const struct manifest *other) {
    bool complete = one->alike >= one->busy, other_complete = other->alike >= other->busy;
    if (complete != other_complete) return complete;
    if (!complete && one->alike != other->alike) return one->alike > other->alike;
    return results_later(&one->begun, &other->begun);
}

/* The manifest of the job to join that was written last; NULL: there is none. */
static const struct manifest *choose(struct manifest *manifests, int count) {
    const struct manifest *best = NULL;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++) manifests[i].alike += same_division(&manifests[i], &manifests[k]);
    for (int i = 0; i < count; i++)
        if (manifests[i].job && (!best || rather(&manifests[i], best))) best = &manifests[i];
    return best;
}

/* The folder of a shard that has begun another job than `best`, after it; NULL: none has. The caller frees. */
static char *find_later(const struct manifest *manifests, int count, const struct manifest *best) {
    for (int i = 0; i < count; i++)
        if (manifests[i].job && strcmp(manifests[i].job, best->job) != 0 &&
            results_later(&manifests[i].begun, &best->begun))
            return must_strdup(manifests[i].folder);
    return NULL;
}

/* `whole`: OUTPUT.parts. */
bool manifests_find_job(const char *whole, struct shard_job *job) {
    *job = (struct shard_job){.partial = false};
    int count;
    char **folders = list_folders(whole, &count);
    struct manifest *manifests = must_malloc((size_t)count * sizeof *manifests + 1);
    for (int i = 0; i < count; i++) manifests[i] = read_manifest(folders[i]);
    const struct manifest *best = choose(manifests, count);
    bool found = best && read_shard_job(best->folder, job);
    if (found) job->later = find_later(manifests, count, best);
    for (int i = 0; i < count; i++) free(manifests[i].folder), free(manifests[i].job);
    free(manifests);
    free(folders);
    return found;
}

/* All of a vector; NULL: there is none of that type. The caller frees. */
static void *read_all(const char *path, const char *name, enum dtype dtype, int *count) {
    struct error ignored = {STATUS_OK, ""};
    struct h5_dataset *dataset = NULL;
    void *data = NULL;
    *count = 0;
    if (!h5_open(path, name, &dataset, &ignored) && dataset->shape.rank == 1 && dataset->dtype == dtype) {
        struct box all = box_whole(&dataset->shape);
        data = must_malloc((size_t)all.count[0] * dtype_size(dtype) + 1);
        if (!h5_read(dataset, &all, data, &ignored)) *count = (int)all.count[0];
    }
    h5_close(dataset);
    return data;
}

static void read_state(const char *folder, struct shard_state *state) {
    FENCE(folder);
    char *path = must_printf("%s/" SHARD_MANIFEST, folder);
    hid_t file = open_manifest(folder);
    if ((state->begun = file >= 0)) {
        state->place = h5_get_text(file, "place");
        state->log = h5_get_text(file, "log");
        H5Fclose(file);
    }
    state->units = state->begun ? read_all(path, "/units", INT32, &state->unit_count) : NULL;
    struct stat about;
    state->done = state->begun && stat(path, &about) == 0 && !(about.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH));
    free(path);
}

int manifests_read_states(const char *whole, const struct shard_job *job, struct shard_state **states) {
    *states = must_malloc((size_t)job->shards * sizeof **states + 1);
    for (int i = 0; i < job->shards; i++) {
        char *folder = shard_folder(whole, i, job->shards);
        (*states)[i] = (struct shard_state){.begun = false};
        read_state(folder, &(*states)[i]);
        free(folder);
    }
    return job->shards;
}

void shard_states_free(struct shard_state *states, int count) {
    for (int i = 0; i < count; i++) {
        free(states[i].place);
        free(states[i].log);
        free(states[i].units);
    }
    free(states);
}

bool shards_find_job(const char *output, struct shard_job *job) {
    struct error ignored = {STATUS_OK, ""};
    struct destination place;
    *job = (struct shard_job){.partial = false};
    if (destination_find("output", output, &place, &ignored)) return false;
    char *whole = must_printf("%s.parts", place.path);
    bool found = manifests_find_job(whole, job);
    free(whole);
    destination_free(&place);
    return found;
}

/* Is there a folder of a shard of another number than `shards`? */
static bool has_other_shards(const char *output, int shards) {
    struct error ignored = {STATUS_OK, ""};
    struct destination place;
    bool found = false;
    if (destination_find("output", output, &place, &ignored)) return false;
    char *whole = must_printf("%s.parts", place.path);
    DIR *folder = opendir(whole);
    for (struct dirent *entry; folder && !found && (entry = readdir(folder));) {
        int index, count;
        found = shard_folder_parse(entry->d_name, &index, &count) && count != shards;
    }
    if (folder) closedir(folder);
    free(whole);
    destination_free(&place);
    return found;
}

bool shards_find_division(const char *output, const struct job *job, int shards, int *divided, enum shard_by *by) {
    struct shard_job found = {.partial = false};
    bool same = has_other_shards(output, shards) && shards_find_job(output, &found) &&
                strcmp(found.resolved, job->resolved) == 0 && (*by == SHARD_AUTO || *by == found.by);
    if (same) *divided = found.divided, *by = found.by;
    shard_job_free(&found);
    return same;
}

/* ---- in the results file ----------------------------------------------------------------------------------------- */

/* Writes /shards/I-of-N: the attributes of the manifest and of its environment, and the runs. */
static enum status write_origin(hid_t to, hid_t manifest, const char *name, int count, const int32_t *runs,
                                struct error *error) {
    char *path = must_printf("/shards/%s", name), *list = must_printf("/shards/%s/runs", name);
    hid_t group = H5I_INVALID_HID, environment = H5Gopen2(manifest, "environment", H5P_DEFAULT);
    enum status status = h5_group(to, path, &group, error);
    bool copied = !status && environment >= 0 &&
                  H5Aiterate2(manifest, H5_INDEX_NAME, H5_ITER_INC, NULL, h5_copy_attribute, &group) >= 0 &&
                  H5Aiterate2(environment, H5_INDEX_NAME, H5_ITER_INC, NULL, h5_copy_attribute, &group) >= 0;
    if (!status && !copied)
        status = fail(error, STATUS_IO, "%s cannot be copied from its shard: %s", path, h5_error_text());
    if (!status) status = results_write_vector(to, list, INT32, count, runs, "1", error);
    if (environment >= 0) H5Gclose(environment);
    if (group >= 0) H5Gclose(group);
    free(list);
    free(path);
    return status;
}

/* Which runs have parts in which folders. */
struct provenance {
    char *const *folders;
    int count, listed;
    struct part_origin {
        int folder, run;
    } * parts;
};

static void list_part(struct provenance *provenance, int run, const char *path) {
    char *folder = path_folder(path);
    char *const *found = bsearch(&folder, provenance->folders, (size_t)provenance->count, sizeof folder, compare_texts);
    free(folder);
    if (!found) return;
    provenance->parts = must_realloc(provenance->parts, (size_t)(provenance->listed + 1) * sizeof *provenance->parts);
    provenance->parts[provenance->listed++] = (struct part_origin){(int)(found - provenance->folders), run};
}

/* By folder, then by run. */
static int compare_origins(const void *one, const void *other) {
    const struct part_origin *a = one, *b = other;
    if (a->folder != b->folder) return a->folder < b->folder ? -1 : 1;
    return (a->run > b->run) - (a->run < b->run);
}

static void list_parts(const struct results *results, struct provenance *provenance) {
    const struct plan *plan = results->plan;
    for (int r = 0; r < plan->run_count; r++) {
        char **paths;
        struct box *places;
        int count = parts_of_run(results, &plan->runs[r], &paths, &places);
        for (int p = 0; p < count; p++) list_part(provenance, r, paths[p]);
        parts_of_run_free(paths, places, count);
    }
    qsort(provenance->parts, (size_t)provenance->listed, sizeof *provenance->parts, compare_origins);
}

enum status shards_write_origins(hid_t file, const struct results *results, struct error *error) {
    int count, next = 0;
    char **folders = list_folders(results->folder.whole, &count);
    struct provenance provenance = {.folders = folders, .count = count, .parts = must_malloc(1)};
    list_parts(results, &provenance);
    int32_t *runs = must_malloc((size_t)provenance.listed * sizeof *runs + 1);
    enum status status = STATUS_OK;
    for (int i = 0; i < count; i++) {
        FENCE(folders[i]);
        hid_t manifest = status ? H5I_INVALID_HID : open_manifest(folders[i]);
        char *job = manifest < 0 ? NULL : job_hash(folders[i]);
        int own = 0;
        for (; next < provenance.listed && provenance.parts[next].folder == i; next++)
            if (own == 0 || runs[own - 1] != provenance.parts[next].run) runs[own++] = provenance.parts[next].run;
        if (manifest >= 0 && (own > 0 || (job && strcmp(job, results->job_sha256) == 0)))
            status = write_origin(file, manifest, strrchr(folders[i], '/') + 1 + strlen("shard-"), own, runs, error);
        if (manifest >= 0) H5Fclose(manifest);
        free(job);
        free(folders[i]);
    }
    free(runs);
    free(provenance.parts);
    free(folders);
    return status;
}
