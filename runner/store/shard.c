/* shard.c - shards of a job: each has a folder in OUTPUT.parts, with its lock, its parts and a manifest of where it
 * ran. A whole job finds their parts where they lie; what is missing for `merge` is told by shard. */
#include "results.h"

#include "../base/fail.h"
#include "../base/text.h"
#include "../record/environment.h"
#include "../storage/untrusted/fence.h"
#include "../storage/untrusted/h5open.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_LINES = 20 }; /* about shards or parts, in one message */

/* ---- folders ----------------------------------------------------------------------------------------------------- */

static char *shard_folder(const char *whole, int index, int count) {
    return must_printf("%s/shard-%d-of-%d", whole, index, count);
}

char *shard_own_folder(const char *whole, const struct shard *shard) {
    return shard ? shard_folder(whole, shard->index, shard->count) : must_strdup(whole);
}

bool shard_folder_parse(const char *name, int *index, int *count) {
    int length = 0;
    char again[48];
    if (sscanf(name, "shard-%9d-of-%9d%n", index, count, &length) != 2 || name[length] != '\0') return false;
    snprintf(again, sizeof again, "shard-%d-of-%d", *index, *count);
    return *index >= 0 && *index < *count && strcmp(name, again) == 0; /* no other spelling, such as 01 */
}

/* ---- where a shard ran ------------------------------------------------------------------------------------------- */

void shard_forget(const struct results *results) {
    char *path = must_printf("%s/" SHARD_MANIFEST, results->parts);
    unlink(path);
    free(path);
}

/* "it ran on node n7, job 1234_3"; the caller frees. */
static char *where_it_ran(const char *folder) {
    char *place = manifest_host(folder), *words = place ? must_printf("it ran on %s", place) : NULL;
    free(place);
    return words ? words : must_strdup("it has not begun");
}

char *shards_running(const char *whole) {
    char *found = NULL;
    DIR *folder = opendir(whole);
    if (!folder) return NULL;
    for (struct dirent *entry; !found && (entry = readdir(folder));) {
        int index, count;
        if (!shard_folder_parse(entry->d_name, &index, &count)) continue;
        char *path = must_printf("%s/%s", whole, entry->d_name);
        if (parts_are_locked(path)) {
            char *place = manifest_host(path);
            found = must_printf("shard %d of %d%s%s%s", index, count, place ? " (" : "", place ? place : "",
                                place ? ")" : "");
            free(place);
        }
        free(path);
    }
    closedir(folder);
    return found;
}

/* ---- the parts of all shards ------------------------------------------------------------------------------------- */

struct found_part {
    char key[33];
    char *path;
    struct timespec written;
};

bool results_later(const struct timespec *one, const struct timespec *other) {
    return one->tv_sec != other->tv_sec ? one->tv_sec > other->tv_sec : one->tv_nsec > other->tv_nsec;
}

/* By key; of two parts of one run the newer first. */
static int compare_found(const void *one, const void *other) {
    const struct found_part *a = one, *b = other;
    int order = strcmp(a->key, b->key);
    if (order != 0) return order;
    return results_later(&b->written, &a->written) - results_later(&a->written, &b->written);
}

static int compare_key(const void *key, const void *found) {
    return strcmp(key, ((const struct found_part *)found)->key);
}

void shards_find_parts(struct results *results) {
    char **paths;
    int count;
    parts_list(results->whole, &paths, &count);
    struct found_part *found = must_malloc((size_t)count * sizeof *found + 1);
    for (int i = 0; i < count; i++) {
        struct stat about = {0};
        snprintf(found[i].key, sizeof found[i].key, "%.32s", strrchr(paths[i], '/') + 1);
        found[i].path = paths[i];
        if (stat(paths[i], &about) == 0) found[i].written = about.st_mtim;
    }
    free(paths);
    qsort(found, (size_t)count, sizeof *found, compare_found);
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (kept > 0 && strcmp(found[kept - 1].key, found[i].key) == 0)
            free(found[i].path);
        else
            found[kept++] = found[i];
    results->found = found;
    results->found_count = kept;
}

void shards_free_parts(struct results *results) {
    for (int i = 0; i < results->found_count; i++) free(results->found[i].path);
    free(results->found);
}

static bool has_key(const struct plan *plan, struct keys *keys, const char *key) {
    for (int r = 0; r < plan->run_count; r++) {
        char ours[33];
        keys_of_run(keys, &plan->runs[r], ours);
        if (strcmp(ours, key) == 0) return true;
    }
    return false;
}

static bool is_of_job(const struct results *results, const char *key) {
    const struct plan *plan;
    struct keys *keys;
    return has_key(results->plan, results->keys, key) ||
           (counterpart_keys(results, &plan, &keys) && has_key(plan, keys, key));
}

bool shards_made_since(const struct results *results, const struct timespec *time) {
    size_t own = strlen(results->whole) + 1; /* a shard's part lies one folder deeper */
    char **paths;
    int count;
    bool made = false;
    parts_list(results->whole, &paths, &count);
    for (int i = 0; i < count; i++) {
        const char *inner = strchr(paths[i] + own, '/');
        struct stat about;
        char key[33];
        snprintf(key, sizeof key, "%.32s", inner ? inner + 1 : "");
        made |= inner && stat(paths[i], &about) == 0 && results_later(&about.st_mtim, time) && is_of_job(results, key);
        free(paths[i]);
    }
    free(paths);
    return made;
}

void parts_remove_older(const char *parts, const struct timespec *time) {
    char **paths;
    int count;
    parts_list(parts, &paths, &count);
    for (int i = 0; i < count; i++) {
        struct stat about;
        if (stat(paths[i], &about) == 0 && !results_later(&about.st_mtim, time)) unlink(paths[i]);
        free(paths[i]);
    }
    free(paths);
}

char *results_part_of_key(const struct results *results, const char key[33]) {
    const struct found_part *found =
        results->found_count == 0
            ? NULL
            : bsearch(key, results->found, (size_t)results->found_count, sizeof *results->found, compare_key);
    return found ? must_strdup(found->path) : must_printf("%s/%s.h5", results->parts, key);
}

char *results_part_path(const struct results *results, const struct run *run) {
    char key[33];
    keys_of_run(results->keys, run, key);
    return results_part_of_key(results, key);
}

/* ---- what is missing --------------------------------------------------------------------------------------------- */

/* Into how many shards the job was divided; 0: there is none. */
static int find_count(const struct results *results) {
    struct shard_job job;
    shards_find_job(results->place.path, &job);
    int count = job.shards;
    shard_job_free(&job);
    return count;
}

/* Prints a line for each shard that lacks runs. */
static void tell_shards(const struct results *results, const struct plan *plan, const bool *missing, int count) {
    struct tally {
        int runs, lacks, first;
    } *of = must_malloc((size_t)count * sizeof *of);
    int *of_task = shard_split(plan, count), told = 0, more = 0;
    memset(of, 0, (size_t)count * sizeof *of);
    for (int r = plan->run_count - 1; r >= 0; r--) {
        struct tally *tally = &of[of_task[plan->runs[r].task]];
        tally->runs++;
        tally->lacks += missing[r];
        if (missing[r]) tally->first = r;
    }
    for (int s = 0; s < count; s++) {
        if (of[s].lacks == 0) continue;
        if (told++ >= MOST_LINES) {
            more++;
            continue;
        }
        const struct run *first = &plan->runs[of[s].first];
        const struct job_operation *operation = plan->tasks[first->task].operation;
        char *folder = shard_folder(results->whole, s, count), *where = where_it_ran(folder);
        const char *panel = plan->tasks[first->task].panel;
        text_print_stderr("tilerun: shard %d of %d has %d of %d runs; %s; first missing: '%s %s%s%s'%s%s\n", s, count,
                          of[s].runs - of[s].lacks, of[s].runs, where, operation->id, first->label,
                          operation->label[0] ? " " : "", operation->label, panel ? ", " : "", panel ? panel : "");
        free(where);
        free(folder);
    }
    if (more > 0) text_print_stderr("tilerun: and %d more shards lack runs\n", more);
    free(of_task);
    free(of);
}

/* "'product cpu' of job 'x', which is another job than this one, or was edited since"; the caller frees. */
static char *origin_of(const struct results *results, const char *path) {
    FENCE(path);
    struct error ignored = {STATUS_OK, ""};
    struct result_row *rows = NULL;
    int count = 0;
    hid_t file = part_is_whole(path, INT64_MAX) ? h5_open_unlocked(path) : H5I_INVALID_HID;
    if (file < 0) return must_strdup("it is damaged");
    char *name = h5_get_text(file, "job_name"), *sha256 = h5_get_text(file, "job_sha256");
    char *why = results_difference(results, file, sha256);
    bool known = !result_load_rows(file, path, &rows, &count, &ignored) && count == 1;
    char *origin = must_printf("it holds '%s%s%s' of job '%.64s', which %s", known ? rows->operation : "a run",
                               known ? " " : "", known ? rows->variant : "", name ? name : "?", why);
    free(rows);
    free(why);
    free(sha256);
    free(name);
    H5Fclose(file);
    return origin;
}

/* Prints whose parts lie here that are not this job's. */
static void tell_foreign(const struct results *results) {
    int told = 0;
    for (int i = 0; i < results->found_count && told < MOST_LINES; i++) {
        if (is_of_job(results, results->found[i].key)) continue;
        char *origin = origin_of(results, results->found[i].path);
        text_print_stderr("tilerun: %s: refused: %s\n", results->found[i].path, origin);
        free(origin);
        told++;
    }
}

enum status results_lack(const struct results *results, const bool *missing, struct error *error) {
    const struct plan *plan = results->plan;
    int lacks = 0, count = find_count(results);
    bool *panel_missing = NULL;
    const struct plan *dealt = results->other ? panels_missing(results, missing, &panel_missing) : plan;
    for (int r = 0; r < plan->run_count; r++) lacks += missing[r];
    tell_foreign(results);
    tell_shards(results, dealt, panel_missing ? panel_missing : missing, count);
    free(panel_missing);
    return fail(error, STATUS_IO,
                "output %s: %d of %d runs are missing; `tilerun run JOB --shard I/%d --resume` makes those of shard I",
                results->place.name, lacks, plan->run_count, count);
}
