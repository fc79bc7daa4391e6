/* survey.c - what there is of a job and what is missing: whose parts lie in OUTPUT.parts, and which shards lack which
 * units. */
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

static bool is_of_job(const struct results *results, const char *key) {
    const struct plan *whole = results->plan, *plan = &results->units->plan;
    char ours[33];
    for (int r = 0; r < whole->run_count; r++)
        if (keys_of_run(results->keys, &whole->runs[r], ours), strcmp(ours, key) == 0) return true;
    for (int r = 0; r < plan->run_count; r++)
        if (keys_of_unit(results->keys, &plan->runs[r], ours), strcmp(ours, key) == 0) return true;
    return false;
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

void results_print_missing(const struct results *results, const bool *missing) {
    int count = find_count(results);
    tell_foreign(results);
    tell_shards(results, &results->units->plan, missing, count);
    text_print_stderr("tilerun: `tilerun run JOB --shard I/%d --resume` makes those of shard I\n", count);
}
