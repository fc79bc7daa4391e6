/* survey.c - finds out which units of a job are done and which are missing: the parts in OUTPUT.parts, and the shards
 * that lack units. `merge` prints the missing units; `show` gets a struct survey. */
#include "results.h"

#include "../base/fail.h"
#include "../base/path.h"
#include "../base/text.h"
#include "../base/texts.h"
#include "../storage/untrusted/fence.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_LINES = 20 }; /* about shards or parts, in one message */

/* ---- whose parts they are ---------------------------------------------------------------------------------------- */

/* Is `key` the key of a unit, or of an undivided run, of the job? */
static bool is_of_job(const struct results *results, const char *key) {
    const struct plan *job_plan = results->plan, *plan = &results->units->plan;
    char ours[33];
    for (int r = 0; r < job_plan->run_count; r++)
        if (keys_of_run(results->keys, &job_plan->runs[r], ours), strcmp(ours, key) == 0) return true;
    for (int r = 0; r < plan->run_count; r++)
        if (keys_of_unit(results->keys, &plan->runs[r], ours), strcmp(ours, key) == 0) return true;
    return false;
}

bool shards_made_since(const struct results *results, const struct timespec *time) {
    size_t root_length = strlen(results->folder.root) + 1; /* a shard's part is one folder deeper */
    FREED_BY(texts_clear) struct texts paths = parts_list(results->folder.root);
    bool made = false;
    for (int i = 0; i < paths.count; i++) {
        const char *inner = strchr(paths.items[i] + root_length, '/');
        struct stat about;
        char key[33];
        snprintf(key, sizeof key, "%.32s", inner ? inner + 1 : "");
        made |= inner && stat(paths.items[i], &about) == 0 && results_later(&about.st_mtim, time) &&
                is_of_job(results, key);
    }
    return made;
}

/* ---- what is missing --------------------------------------------------------------------------------------------- */

/* Prints a line for each shard that lacks runs, at most MAX_LINES, and how many more shards there are. */
static void print_shards(const struct plan *plan, const bool *missing, const struct shard_job *job) {
    int count = job->shards;
    struct shard_tally {
        int runs, lacks, first;
    };
    OWNED struct shard_tally *tallies = must_zeroed((size_t)count * sizeof *tallies);
    OWNED int *shard_of_task = shard_split(plan, count);
    int printed = 0;
    for (int r = plan->run_count - 1; r >= 0; r--) {
        struct shard_tally *tally = &tallies[shard_of_task[plan->runs[r].task]];
        tally->runs++;
        tally->lacks += missing[r];
        if (missing[r]) tally->first = r;
    }
    for (int s = 0; s < count; s++) {
        if (tallies[s].lacks == 0 || printed++ >= MAX_LINES) continue;
        const struct run *first = &plan->runs[tallies[s].first];
        const struct job_operation *operation = plan->tasks[first->task].operation;
        const char *panel = plan->tasks[first->task].panel, *host = job->states[s].host;
        const char *stopped = job->states[s].stopped;
        text_print_stderr("tilerun: shard %d of %d has %d of %d runs; %s%s; first missing: '%s %s%s%s'%s%s%s%s\n", s,
                          count, tallies[s].runs - tallies[s].lacks, tallies[s].runs,
                          host ? "it ran on " : "it has not begun", host ? host : "", operation->id, first->label,
                          operation->label[0] ? " " : "", operation->label, panel ? ", " : "", panel ? panel : "",
                          stopped ? "; it stopped: " : "", stopped ? stopped : "");
    }
    if (printed > MAX_LINES) text_print_stderr("tilerun: and %d more shards lack runs\n", printed - MAX_LINES);
}

/* "it holds 'product cpu' of job 'x', which is another job, or an earlier version of this one (...)".
 * The caller frees. */
static char *origin_of(const struct results *results, const char *path) {
    FENCE(path);
    struct result_row row;
    OWNED_ID hid_t part = part_open(path, ANY_SIZE);
    if (part < 0) return must_strdup("it is damaged");
    OWNED char *name = h5_get_text(part, "job_name"), *sha256 = h5_get_text(part, "job_sha256");
    OWNED char *folder = path_folder(path), *resolved = sha256 ? manifest_resolved(folder, sha256) : NULL;
    OWNED char *why = results_difference(results, part, sha256, resolved);
    bool known = part_row(part, path, &row);
    OWNED char *run = known ? must_printf("'%s %s'", row.operation, row.variant) : must_strdup("a run");
    return must_printf("it holds %s of job '%.64s', which %s", run, name ? name : "?", why);
}

/* Prints which job made each part that is not of this job, in at most MAX_LINES lines. */
static void print_other_jobs(const struct results *results) {
    int printed = 0;
    for (int i = 0; i < results->found.count && printed < MAX_LINES; i++) {
        if (is_of_job(results, results->found.items[i].key)) continue;
        OWNED char *origin = origin_of(results, results->found.items[i].path);
        text_print_stderr("tilerun: %s: refused: %s\n", results->found.items[i].path, origin);
        printed++;
    }
}

char *job_resume_command(const char *job_path, const char *output) {
    bool known = job_path && access(job_path, F_OK) == 0;
    OWNED char *job = known ? text_shell_word(job_path) : must_strdup("JOB"), *word = text_shell_word(output);
    return must_printf("tilerun run %s -o %s --resume", job, word);
}

void results_print_missing(const struct results *results, const bool *missing) {
    FREED_BY(shard_job_free) struct shard_job job = {0};
    manifests_find_job(results->folder.root, &job);
    print_other_jobs(results);
    print_shards(&results->units->plan, missing, &job);
    OWNED char *command = job_resume_command(job.path, results->output.name);
    text_print_stderr("tilerun: `%s --shard I/%d` makes the missing runs of shard I\n", command, job.shards);
}

/* ---- for `show` -------------------------------------------------------------------------------------------------- */

/* Parts up to this size are hashed, so that no damaged part is shown; of larger parts only the trailer is checked. */
#define HASHED_BYTES (INT64_C(256) << 20)

/* Reads a part's row; false: the part is damaged, or gone. */
static bool read_unit_part(struct survey_part *part) {
    FENCE(part->path);
    struct stat about;
    bool regular = stat(part->path, &about) == 0 && S_ISREG(about.st_mode);
    OWNED_ID hid_t file = regular ? part_open(part->path, HASHED_BYTES) : H5I_INVALID_HID;
    if (file < 0) return false;
    bool good = part_row(file, part->path, &part->row);
    part->written = about.st_mtim;
    part->runs = (int)h5_get_integer(file, "job_runs", -1);
    part->skipped = (int)h5_get_integer(file, "job_skipped", -1);
    return good;
}

/* Orders by number of run; of two parts of one run (an edited job leaves such parts) the newer comes first. */
static int compare_parts(const void *one, const void *other) {
    const struct survey_part *a = one, *b = other;
    if (a->row.run != b->row.run) return (a->row.run > b->row.run) - (a->row.run < b->row.run);
    return results_later(&b->written, &a->written) - results_later(&a->written, &b->written);
}

/* Reads the parts in OUTPUT.parts. Keeps only the newest part of each run, and counts those with a result. Returns the
 * newest of all; NULL: there is none. */
static const struct survey_part *survey_parts(const char *root, struct survey *survey) {
    const struct survey_part *newest = NULL;
    struct texts paths = parts_list(root);
    int count = 0;
    survey->parts = must_malloc((size_t)paths.count * sizeof *survey->parts + 1);
    for (int i = 0; i < paths.count; i++) {
        survey->parts[count].path = paths.items[i];
        if (read_unit_part(&survey->parts[count]))
            count++;
        else
            free(paths.items[i]);
    }
    free(paths.items); /* not the paths */
    qsort(survey->parts, (size_t)count, sizeof *survey->parts, compare_parts);
    for (int i = 0; i < count; i++)
        if (survey->count > 0 && survey->parts[survey->count - 1].row.run == survey->parts[i].row.run)
            free(survey->parts[i].path);
        else
            survey->parts[survey->count++] = survey->parts[i];
    for (int i = 0; i < survey->count; i++) {
        const struct survey_part *part = &survey->parts[i];
        survey->results += result_row_done(&part->row);
        if (!newest || !results_later(&newest->written, &part->written)) newest = part;
    }
    survey->runs = newest ? newest->runs : -1; /* the newest part knows the job */
    survey->skipped = newest ? newest->skipped : -1;
    return newest;
}

/* Is there a part of that run of a unit? */
static bool has_run(const struct survey *survey, int run) {
    for (int i = 0; i < survey->count; i++)
        if (survey->parts[i].row.run == run) return true;
    return false;
}

/* Finds the shards' job and the state of each shard, and decides whether `merge` can join the parts. */
static void survey_shards(const char *root, struct survey *survey) {
    struct shard_job *job = &survey->job;
    int units = 0;
    survey->shard_count = manifests_find_job(root, job) ? job->shards : 0;
    survey->complete = survey->shard_count > 0 && !job->later;
    for (int i = 0; i < survey->shard_count; i++) {
        struct shard_state *shard = &job->states[i];
        OWNED char *folder = shard_folder(root, i, job->shards);
        shard->at_work = parts_are_locked(folder);
        for (int k = 0; k < shard->unit_count; k++) shard->lacks += !has_run(survey, shard->units[k]);
        if (shard->begun) survey->complete &= shard->done && shard->lacks == 0;
        units += shard->unit_count;
    }
    survey->complete &= units == survey->runs; /* those that have not begun have nothing to do */
}

/* The path of the job that made a part; NULL: the part does not record it. The caller frees. */
static char *job_path_of(const char *part) {
    FENCE(part);
    OWNED_ID hid_t file = part_open(part, HASHED_BYTES);
    return file < 0 ? NULL : h5_get_text(file, "job_path");
}

bool store_survey(const char *output, struct survey *survey) {
    *survey = (struct survey){.runs = -1, .skipped = -1};
    OWNED char *root = parts_folder_of(output);
    if (!root) return false;
    OWNED char *lock = must_printf("%s/lock", root);
    const struct survey_part *newest = survey_parts(root, survey);
    survey_shards(root, survey);
    if (survey->shard_count == 0 && newest) survey->job.path = job_path_of(newest->path);
    survey->at_work = parts_are_locked(root);
    return survey->count > 0 || survey->shard_count > 0 || access(lock, F_OK) == 0;
}

void survey_free(struct survey *survey) {
    for (int i = 0; i < survey->count; i++) free(survey->parts[i].path);
    free(survey->parts);
    shard_job_free(&survey->job);
}
