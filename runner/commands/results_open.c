/* results_open.c - opens results for commands that read them. If an output is unfinished or being written, it reads the
 * finished runs in OUTPUT.parts and reports how far the job is. It creates, locks and changes nothing there. */
#include "results_open.h"
#include "../base/destination.h"
#include "../base/fail.h"
#include "../storage/h5/h5virtual.h"
#include "../storage/untrusted/fence.h"
#include "../storage/untrusted/h5open.h"
#include "../store/store.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Parts up to this size are hashed, so that damaged ones are not shown. Of larger parts only the trailer is checked. */
#define HASHED_BYTES (INT64_C(256) << 20)

struct found_part {
    char *path;
    struct timespec written;
    struct result_row row;
    int runs, skipped; /* of the job; -1: a part of an earlier version */
};

struct found_parts {
    int count;
    struct found_part *of; /* ordered by number of run */
    int fruitless;         /* parts of runs without a result, which shards keep for `merge` */
};

static int integer_of(hid_t file, const char *name) {
    int value = -1;
    if (H5Aexists(file, name) <= 0) return -1;
    hid_t held = H5Aopen(file, name, H5P_DEFAULT);
    if (H5Aread(held, H5T_NATIVE_INT, &value) < 0) value = -1;
    H5Aclose(held);
    return value;
}

/* Reads a part's row; false: the part is damaged or gone. */
static bool read_part(struct found_part *part) {
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

/* Orders by number of run; two parts of one run, which an edited job leaves, newer first. */
static int compare_parts(const void *one, const void *other) {
    const struct found_part *a = one, *b = other;
    if (a->row.run != b->row.run) return (a->row.run > b->row.run) - (a->row.run < b->row.run);
    if (a->written.tv_sec != b->written.tv_sec) return a->written.tv_sec < b->written.tv_sec ? 1 : -1;
    return (a->written.tv_nsec < b->written.tv_nsec) - (a->written.tv_nsec > b->written.tv_nsec);
}

static struct found_parts find_parts(const char *folder) {
    struct found_parts parts = {0};
    char **paths;
    int count, kept = 0;
    parts_list(folder, &paths, &count);
    parts.of = must_malloc((size_t)count * sizeof *parts.of + 1);
    for (int i = 0; i < count; i++) {
        struct found_part *part = &parts.of[parts.count];
        part->path = paths[i];
        bool whole = read_part(part), result = whole && result_row_done(&part->row);
        parts.count += result;
        parts.fruitless += whole && !result;
        if (!result) free(paths[i]);
    }
    free(paths);
    qsort(parts.of, (size_t)parts.count, sizeof *parts.of, compare_parts);
    for (int i = 0; i < parts.count; i++)
        if (kept > 0 && parts.of[kept - 1].row.run == parts.of[i].row.run)
            free(parts.of[i].path);
        else
            parts.of[kept++] = parts.of[i];
    parts.count = kept;
    return parts;
}

/* The newest part, which records the size of the job; NULL: there is none. */
static const struct found_part *newest_of(const struct found_parts *parts) {
    const struct found_part *newest = NULL;
    for (int i = 0; i < parts->count; i++) {
        const struct found_part *part = &parts->of[i];
        bool newer =
            !newest || part->written.tv_sec > newest->written.tv_sec ||
            (part->written.tv_sec == newest->written.tv_sec && part->written.tv_nsec >= newest->written.tv_nsec);
        if (newer) newest = part;
    }
    return newest;
}

/* "2 of 4 runs (3 more cannot run here)". */
static char *how_far(const struct found_parts *parts) {
    const struct found_part *newest = newest_of(parts);
    if (!newest) return must_strdup("no run is finished yet");
    int wanted = newest->runs - newest->skipped;
    if (newest->runs < 0 || newest->skipped < 0 || wanted < parts->count) /* the last: the job was edited */
        return must_printf("%d run%s finished so far", parts->count, parts->count == 1 ? "" : "s");
    if (newest->skipped == 0) return must_printf("%d of %d runs", parts->count, wanted);
    return must_printf("%d of %d runs (%d more cannot run here)", parts->count, wanted, newest->skipped);
}

static char *folder_of(const char *output) {
    struct destination place;
    struct error ignored = {STATUS_OK, ""};
    char *folder = destination_find("output", output, &place, &ignored) ? NULL : must_printf("%s.parts", place.path);
    destination_free(&place);
    return folder;
}

static bool find_shards(const char *output, enum shard_by *by) {
    struct shard_job job;
    bool found = shards_find_job(output, &job);
    *by = job.by;
    shard_job_free(&job);
    return found;
}

/* The same for shards, whose parts hold runs or panels of runs. */
static char *how_far_shards(const struct found_parts *parts, enum shard_by by, const char *output, bool running) {
    const struct found_part *newest = newest_of(parts);
    const char *what = by == SHARD_BY_RUNS ? "runs" : "runs and panels";
    int done = parts->count + parts->fruitless, wanted = newest ? newest->runs - newest->skipped : -1;
    bool known = newest && newest->runs >= 0 && newest->skipped >= 0 && wanted >= done;
    char *far =
             known ? must_printf("%d of %d %s", done, wanted, what) : must_printf("%d %s finished so far", done, what),
         *text;
    if (running)
        text = must_printf("running: shards have done %s", far);
    else if (known && wanted == done)
        text = must_printf("not merged: shards have done all %d %s; `tilerun merge %s` joins them", done, what, output);
    else
        text = must_printf("unfinished: shards have done %s; each shard's command with --resume continues, then "
                           "`tilerun merge %s` joins them",
                           far, output);
    free(far);
    return text;
}

static char *standing_of(const struct found_parts *parts, const char *output, const char *folder) {
    bool running = parts_are_locked(folder);
    enum shard_by by;
    if (find_shards(output, &by)) return how_far_shards(parts, by, output, running);
    char *far = how_far(parts);
    char *text = running ? must_printf("running: %s", far)
                         : must_printf("unfinished: %s; `tilerun run JOB --resume` continues", far);
    free(far);
    return text;
}

static bool read_parts(struct results_file *file) {
    char *folder = folder_of(file->path), *lock = must_printf("%s/lock", folder ? folder : "");
    bool ours = folder && access(lock, F_OK) == 0;
    struct found_parts parts = {0};
    if (folder) parts = find_parts(folder);
    if (parts.count > 0 || ours) {
        file->standing = standing_of(&parts, file->path, folder);
        file->rows = must_malloc((size_t)parts.count * sizeof *file->rows + 1);
        file->parts = must_malloc((size_t)parts.count * sizeof *file->parts + 1);
        file->count = parts.count;
        for (int i = 0; i < parts.count; i++) {
            file->rows[i] = parts.of[i].row;
            file->parts[i] = parts.of[i].path;
        }
    }
    bool found = file->standing != NULL;
    free(parts.of);
    free(lock);
    free(folder);
    return found;
}

static void read_standing(struct results_file *file) {
    char *state = h5_get_text(file->id, "status"), *folder = folder_of(file->path), *beside = NULL;
    int done = 0, left = 0, listed = 0;
    char **paths = NULL;
    for (int i = 0; i < file->count; i++) {
        done += result_row_done(&file->rows[i]);
        left += strcmp(file->rows[i].status, "interrupted") == 0;
    }
    if (folder && !h5_is_linked(file->id)) parts_list(folder, &paths, &listed); /* a linked file keeps its parts */
    if (folder && parts_are_locked(folder))
        beside = must_printf("running: a job is writing this output again; %d run%s finished so far", listed,
                             listed == 1 ? "" : "s");
    else if (listed > 0 && state && strcmp(state, "complete") == 0)
        beside = must_printf("%s holds %d finished run%s of a job that was not completed", folder, listed,
                             listed == 1 ? "" : "s");
    if (state && strcmp(state, "failed") == 0)
        file->standing =
            must_printf("unfinished: %d of %d runs; `tilerun run JOB --resume` redoes the others", done, file->count);
    else if (left > 0)
        file->standing = must_printf("unfinished: %d of %d runs; each shard's command with --resume continues, then "
                                     "`tilerun merge %s` joins them",
                                     done, file->count, file->path);
    else if (state && strcmp(state, "partial") == 0)
        file->standing = must_strdup("unfinished: --only left operations out; `tilerun run JOB --resume` does them");
    if (beside && file->standing) {
        char *both = must_printf("%s. %s", file->standing, beside);
        free(file->standing);
        free(beside);
        beside = both;
    }
    if (beside) file->standing = beside;
    for (int i = 0; i < listed; i++) free(paths[i]);
    free(paths);
    free(folder);
    free(state);
}

/* OUTPUT for OUTPUT.parts, if that is a folder; else the path itself. The caller frees. */
static char *output_of(const char *path) {
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
    *new = (struct results_file){.path = output_of(path), .id = H5I_INVALID_HID};
    *file = new;
    /* A job that ends meanwhile publishes OUTPUT before it removes its parts. */
    if (access(new->path, F_OK) != 0 && read_parts(new) && (new->count > 0 || access(new->path, F_OK) != 0))
        return STATUS_OK;
    enum status status = results_file_open(new->path, file, error);
    const char *ending = strrchr(path, '.');
    if (!status) read_standing(*file);
    if (status == STATUS_USAGE && ending && (strcmp(ending, ".yaml") == 0 || strcmp(ending, ".yml") == 0)) {
        *error = (struct error){.status = STATUS_OK};
        fail(error, status, "%s: is not an HDF5 file; a job? `tilerun run` runs it", path);
    }
    results_file_close(new);
    return status;
}
