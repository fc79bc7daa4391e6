/* results_open.c - opens results for commands that read them. If an output is unfinished or being written, it reads the
 * finished runs in OUTPUT.parts and reports how far the job is. It creates, locks and changes nothing there. */
#include "../base/fail.h"
#include "../base/path.h"
#include "../base/text.h"
#include "../base/texts.h"
#include "../storage/h5/h5attribute.h"
#include "../storage/h5/h5virtual.h"
#include "../store/survey.h"
#include "command.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "2 of 4 runs are done (3 more cannot run here)"; the caller frees. */
static char *progress_counts(const struct survey *survey) {
    int wanted = survey->runs - survey->skipped;
    if (survey->results == 0) return must_strdup("no run is finished yet");
    bool was_edited = wanted < survey->results; /* the job file then has fewer runs than the results */
    if (survey->runs < 0 || survey->skipped < 0 || was_edited)
        return must_printf("%d run%s done so far", survey->results, survey->results == 1 ? " is" : "s are");
    if (survey->skipped == 0) return must_printf("%d of %d runs are done", survey->results, wanted);
    return must_printf("%d of %d runs are done (%d more cannot run here)", survey->results, wanted, survey->skipped);
}

static const char *units_noun(const struct survey *survey) {
    return survey->job.by == SHARD_BY_RUNS ? "runs" : "runs and panels";
}

/* Describes how much of the job the shards have done. Runs that cannot run, or made no result, count as done. The
 * caller frees. */
static char *shards_state_text(const struct survey *survey, const char *output) {
    bool known = survey->runs >= survey->count;
    const char *what = units_noun(survey);
    OWNED char *word = text_shell_word(output);
    OWNED char *progress = known ? must_printf("%d of %d %s", survey->count, survey->runs, what)
                                 : must_printf("%d %s so far", survey->count, what);
    if (survey->at_work) return must_printf("running: shards have done %s", progress);
    if (survey->complete)
        return must_printf("not merged: shards have done all %d %s; `tilerun merge %s` joins them", survey->count, what,
                           word);
    return must_printf(
        "unfinished: shards have done %s; repeat each shard's command with --resume, then run `tilerun merge %s`",
        progress, word);
}

/* A line for each shard that lacks runs: "shard 1 of 3 lacks 2 of 4 runs and panels; it is running on node n7, job
 * 12_1; log: /x/12_1.out". NULL: no shard lacks any. The caller frees. */
static char *missing_of(const struct survey *survey) {
    enum { MAX_LINES = 20 };
    OWNED char *text = NULL;
    FILE *to = must_stream(&text);
    int lines = 0;
    for (int i = 0; i < survey->shard_count; i++) {
        const struct shard_state *shard = &survey->job.states[i];
        /* In a complete survey, a shard that has not begun has nothing to do. */
        bool needs_no_line = shard->begun ? shard->lacks == 0 && !shard->stopped : survey->complete;
        if (needs_no_line) continue;
        if (++lines > MAX_LINES) continue;
        fprintf(to, "shard %d of %d ", i, survey->shard_count);
        if (!shard->begun) {
            fputs("has not begun\n", to);
            continue;
        }
        fprintf(to, "lacks %d of %d %s; it %s on %s", shard->lacks, shard->unit_count, units_noun(survey),
                shard->at_work ? "is running" : "ran", shard->host ? shard->host : "an unknown node");
        fprintf(to, "%s%s", shard->log ? "; log: " : "", shard->log ? shard->log : "");
        text_print(to, "%s%s\n", shard->stopped ? "; it stopped: " : "", shard->stopped ? shard->stopped : "");
    }
    if (lines > MAX_LINES) fprintf(to, "and %d more shards\n", lines - MAX_LINES);
    fclose(to);
    return lines > 0 ? disown(&text) : NULL;
}

/* Describes how far the job is, "running: ..." or "unfinished: ...". The caller frees. */
static char *state_text(const struct survey *survey, const char *output) {
    if (survey->shard_count > 0) return shards_state_text(survey, output);
    OWNED char *progress = progress_counts(survey);
    OWNED char *command = job_resume_command(survey->job.path, output);
    return survey->at_work ? must_printf("running: %s", progress)
                           : must_printf("unfinished: %s; `%s` continues", progress, command);
}

/* Fills `file` from OUTPUT.parts: the rows of finished runs, and how far the job is. false: no job has left parts
 * there. */
static bool read_parts(struct results_file *file) {
    FREED_BY(survey_free) struct survey survey = {0};
    if (!store_survey(file->path, &survey)) return false;
    file->standing = state_text(&survey, file->path);
    file->missing = missing_of(&survey);
    file->rows = must_malloc((size_t)survey.count * sizeof *file->rows + 1);
    file->parts = must_malloc((size_t)survey.count * sizeof *file->parts + 1);
    file->count = survey.count;
    for (int i = 0; i < survey.count; i++) {
        file->rows[i] = survey.parts[i].row;
        file->parts[i] = must_strdup(survey.parts[i].path);
    }
    return true;
}

/* Sets file->standing if the job of an existing OUTPUT is not complete, or if OUTPUT.parts has runs beside it. */
static void read_standing(struct results_file *file) {
    OWNED char *state = h5_get_text(file->id, "status");
    OWNED char *folder = parts_folder_of(file->path), *word = text_shell_word(file->path);
    OWNED char *job = h5_get_text_of(file->id, "job", "path"), *command = job_resume_command(job, file->path);
    char *beside = NULL; /* a sentence about the runs in OUTPUT.parts */
    int done = 0, timed_out = 0, interrupted = 0;
    FREED_BY(texts_clear) struct texts paths = {0};
    for (int i = 0; i < file->count; i++) {
        done += result_row_done(&file->rows[i]);
        timed_out += strcmp(file->rows[i].status, "timeout") == 0;
        interrupted += strcmp(file->rows[i].status, "interrupted") == 0;
    }
    if (folder && !h5_is_linked(file->id)) paths = parts_list(folder); /* a linked file keeps its parts */
    int listed = paths.count;
    if (folder && parts_are_locked(folder))
        beside = must_printf("running: a job is writing this output again; %d run%s finished so far", listed,
                             listed == 1 ? "" : "s");
    else if (listed > 0 && state && strcmp(state, "complete") == 0)
        beside = must_printf("%s holds %d finished run%s of a job that was not completed", folder, listed,
                             listed == 1 ? "" : "s");
    if (state && strcmp(state, "failed") == 0)
        file->standing = must_printf("unfinished: %d of %d runs are done; `%s` redoes the others%s", done, file->count,
                                     command, timed_out ? "; those that took too long need a longer timeout" : "");
    else if (interrupted > 0)
        file->standing = must_printf("unfinished: %d of %d runs are done; repeat each shard's command with --resume, "
                                     "then run `tilerun merge %s`",
                                     done, file->count, word);
    else if (state && strcmp(state, "partial") == 0)
        file->standing = must_printf("unfinished: --only left operations out; `%s` does them", command);
    if (beside && file->standing) {
        char *both = must_printf("%s. %s", file->standing, beside);
        free(file->standing);
        free(beside);
        beside = both;
    }
    if (beside) file->standing = beside;
}

char *command_output_of(const char *path) {
    static const char suffix[] = ".parts";
    struct stat about;
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    bool parts = length > sizeof suffix && strncmp(path + length - strlen(suffix), suffix, strlen(suffix)) == 0;
    if (!parts || stat(path, &about) != 0 || !S_ISDIR(about.st_mode)) return must_strdup(path);
    return must_printf("%.*s", (int)(length - strlen(suffix)), path);
}

enum status command_results_open(const char *path, struct results_file **file, struct error *error) {
    struct results_file *new = must_malloc(sizeof *new);
    *new = (struct results_file){.path = command_output_of(path), .id = H5I_INVALID_HID};
    *file = NULL;
    enum status status = access(new->path, F_OK) == 0 ? STATUS_OK : parts_check_readable(new->path, error);
    if (status) {
        results_file_close(new);
        return status;
    }
    *file = new;
    /* A job that ends meanwhile publishes OUTPUT before it removes its parts. */
    if (access(new->path, F_OK) != 0 && read_parts(new) && (new->count > 0 || access(new->path, F_OK) != 0))
        return STATUS_OK;
    status = results_file_open(new->path, file, error);
    const char *suffix = path_suffix(path);
    if (!status) read_standing(*file);
    if (status == STATUS_USAGE && (strcmp(suffix, ".yaml") == 0 || strcmp(suffix, ".yml") == 0)) {
        *error = (struct error){.status = STATUS_OK};
        fail(error, status, "%s: is not an HDF5 file; if it is a job, `tilerun run` runs it", path);
    }
    results_file_close(new);
    return status;
}
