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
    char *path = must_printf("%s/" SHARD_MANIFEST, results->folder.own);
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
    size_t own = strlen(results->folder.whole) + 1; /* a shard's part lies one folder deeper */
    char **paths;
    int count;
    bool made = false;
    parts_list(results->folder.whole, &paths, &count);
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
        char *folder = shard_folder(results->folder.whole, s, count), *where = where_it_ran(folder);
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
    for (int i = 0; i < results->found.count && told < MOST_LINES; i++) {
        if (is_of_job(results, results->found.of[i].key)) continue;
        char *origin = origin_of(results, results->found.of[i].path);
        text_print_stderr("tilerun: %s: refused: %s\n", results->found.of[i].path, origin);
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

/* ---- for who looks ----------------------------------------------------------------------------------------------- */

/* A part up to this size is hashed whole, so that a damaged one is not shown; of a larger one the trailer must do. */
#define HASHED_BYTES (INT64_C(256) << 20)

static int integer_of(hid_t file, const char *name) {
    int64_t value;
    return h5_get_number(file, name, INT64, &value) ? (int)value : -1;
}

/* Reads a part's row; false: the part is damaged, or gone. */
static bool read_part(struct survey_part *part) {
    FENCE(part->path);
    struct stat about;
    struct error ignored = {STATUS_OK, ""};
    struct result_row *rows = NULL;
    int count = 0;
    if (stat(part->path, &about) != 0 || !S_ISREG(about.st_mode) || !part_is_whole(part->path, HASHED_BYTES))
        return false;
    hid_t file = h5_open_unlocked(part->path);
    if (file < 0) return false;
    bool good = !result_load_rows(file, part->path, &rows, &count, &ignored) && count == 1;
    if (good) part->row = *rows;
    part->written = about.st_mtim;
    part->runs = integer_of(file, "job_runs");
    part->skipped = integer_of(file, "job_skipped");
    free(rows);
    H5Fclose(file);
    return good;
}

/* By number of run; of two parts of one run (an edited job leaves such) the newer first. */
static int compare_parts(const void *one, const void *other) {
    const struct survey_part *a = one, *b = other;
    if (a->row.run != b->row.run) return (a->row.run > b->row.run) - (a->row.run < b->row.run);
    return results_later(&b->written, &a->written) - results_later(&a->written, &b->written);
}

static void survey_parts(const char *whole, struct survey *survey) {
    const struct survey_part *newest = NULL;
    char **paths;
    int listed, count = 0;
    parts_list(whole, &paths, &listed);
    survey->of = must_malloc((size_t)listed * sizeof *survey->of + 1);
    for (int i = 0; i < listed; i++) {
        survey->of[count].path = paths[i];
        if (read_part(&survey->of[count]))
            count++;
        else
            free(paths[i]);
    }
    free(paths);
    qsort(survey->of, (size_t)count, sizeof *survey->of, compare_parts);
    for (int i = 0; i < count; i++)
        if (survey->count > 0 && survey->of[survey->count - 1].row.run == survey->of[i].row.run)
            free(survey->of[i].path);
        else
            survey->of[survey->count++] = survey->of[i];
    for (int i = 0; i < survey->count; i++) {
        const struct survey_part *part = &survey->of[i];
        survey->results += result_row_done(&part->row);
        if (!newest || !results_later(&newest->written, &part->written)) newest = part;
    }
    survey->runs = newest ? newest->runs : -1; /* the newest part knows the job */
    survey->skipped = newest ? newest->skipped : -1;
}

static bool has_run(const struct survey *survey, int run) {
    for (int i = 0; i < survey->count; i++)
        if (survey->of[i].row.run == run) return true;
    return false;
}

static void survey_shards(const char *whole, struct survey *survey) {
    struct shard_job job;
    struct shard_state *states = NULL;
    if (manifests_find_job(whole, &job)) survey->shard_count = manifests_read_states(whole, &job, &states);
    survey->shards = must_malloc((size_t)survey->shard_count * sizeof *survey->shards + 1);
    survey->whole_runs = job.by == SHARD_BY_RUNS;
    survey->complete = survey->shard_count > 0 && !job.later;
    int units = 0;
    for (int i = 0; i < survey->shard_count && states; i++) {
        struct shard_state *state = &states[i];
        char *folder = shard_folder(whole, i, job.shards);
        struct survey_shard *shard = &survey->shards[i];
        *shard = (struct survey_shard){state->begun, parts_are_locked(folder), state->unit_count, 0, state->place,
                                       state->log};
        for (int k = 0; k < state->unit_count; k++) shard->lacks += !has_run(survey, state->units[k]);
        if (state->begun) survey->complete &= state->done && shard->lacks == 0;
        units += state->unit_count;
        state->place = state->log = NULL;
        free(folder);
    }
    survey->complete &= units == survey->runs; /* those that have not begun have nothing to do */
    shard_states_free(states, survey->shard_count);
    shard_job_free(&job);
}

bool store_survey(const char *output, struct survey *survey) {
    struct destination place;
    struct error ignored = {STATUS_OK, ""};
    *survey = (struct survey){.runs = -1, .skipped = -1};
    bool found = destination_find("output", output, &place, &ignored) == STATUS_OK;
    if (found) {
        char *whole = must_printf("%s.parts", place.path), *lock = must_printf("%s/lock", whole);
        survey_parts(whole, survey);
        survey_shards(whole, survey);
        survey->at_work = parts_are_locked(whole);
        found = survey->count > 0 || survey->shard_count > 0 || access(lock, F_OK) == 0;
        free(lock);
        free(whole);
    }
    destination_free(&place);
    return found;
}

void survey_free(struct survey *survey) {
    for (int i = 0; i < survey->count; i++) free(survey->of[i].path);
    for (int i = 0; i < survey->shard_count; i++) {
        free(survey->shards[i].place);
        free(survey->shards[i].log);
    }
    free(survey->of);
    free(survey->shards);
}
