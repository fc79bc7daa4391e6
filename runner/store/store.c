/* store.c - opens and closes a job's results: what may be replaced at OUTPUT. */
#include "../base/fail.h"
#include "../base/hash.h"
#include "../base/path.h"
#include "../base/text.h"
#include "../compile/sources.h"
#include "results.h"
#include "to.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* ---- OUTPUT ---- */

/* May OUTPUT be created or replaced? With --resume, store_resume checks later, when the inputs are hashed, whose
 * results it holds. */
static enum status check_output(struct results *results, struct error *error) {
    bool resume = results->policy.resume;
    struct destination *destination = &results->output;
    TRY(destination_look(destination, error));
    TRY(destination_check(destination, error));
    if (!destination->exists) return STATUS_OK;
    if (!S_ISREG(destination->about.st_mode))
        return fail(error, STATUS_USAGE, "output %s: is not a regular file", destination->name);
    TRY(check_not_an_input(destination, results->plan, error));
    if (results->policy.overwrite) return STATUS_OK;
    char instead[512]; /* what the file is, if not a results file */
    if (results_are_at(destination->path, instead)) {
        if (resume) return STATUS_OK;
        return fail(error, STATUS_USAGE, "output %s: exists; --overwrite replaces it%s", destination->name,
                    results->policy.single ? "" : ", --resume continues its job");
    }
    if (resume)
        return fail(error, STATUS_USAGE,
                    "output %s: %s; --resume replaces nothing but results of its job, --overwrite any file",
                    destination->name, instead);
    return fail(error, STATUS_USAGE, "output %s: exists and %s; --overwrite replaces it", destination->name, instead);
}

/* STATUS_USAGE: the files in OUTPUT.parts must not be used or removed: one is not tilerun's file that its name says, an
 * input lies beside them, or they are finished runs and the call neither resumes nor overwrites. */
static enum status check_parts(const struct results *results, struct error *error) {
    const struct job *job = results->plan->job;
    int parts, foreign;
    struct stat folder;
    TRY(results_count_parts(results, &parts, &foreign, error));
    for (int i = 0; i < job->input_count && stat(results->folder.parts, &folder) == 0; i++) {
        bool inside = false;
        const char *file;
        for (int number = 0; !inside && (file = array_file(&results->plan->arrays[i], number)); number++) {
            OWNED char *real = must_realpath(file), *around = real ? path_folder(real) : NULL;
            inside = path_is_file(around, &folder);
        }
        if (inside)
            return fail(error, STATUS_USAGE,
                        "output %s: the job's input '%s' lies in %s, which is removed when the job is done",
                        results->output.name, job->inputs[i].name, results->folder.parts);
    }
    if (results->policy.resume || results->policy.overwrite || parts == 0) return STATUS_OK;
    return fail(error, STATUS_USAGE,
                "output %s: %s holds %d finished run%s of a job that was not completed; %s--overwrite throws them away",
                results->output.name, results->folder.parts, parts, parts == 1 ? "" : "s",
                results->policy.single ? "" : "--resume continues it, ");
}

/* Removes a linked OUTPUT: its values are in the parts that `overwrite` removes, and it must not exist without them. */
static enum status drop_linked(struct results *results, struct error *error) {
    if (unlink(results->output.path) != 0)
        return fail(error, STATUS_USAGE, "output %s: cannot be removed: %s", results->output.name, strerror(errno));
    text_print_stderr("tilerun: output %s: is removed now, because its outputs are in %s, which --overwrite removes\n",
                      results->output.name, results->folder.root);
    results->linked = false;
    return destination_look(&results->output, error);
}

RELEASED_BY(results, store_close)

enum status store_open(const char *output, const struct store_policy *policy, const struct units *units,
                       const struct shard *shard, struct readers *readers, struct results **result,
                       struct error *error) {
    bool resume = policy->resume;
    FREED_BY(results_release) struct results *results = must_malloc(sizeof *results);
    *result = NULL;
    *results =
        (struct results){.folder = {.lock = -1, .shared_lock = -1}, .units = units, .shard = shard, .readers = readers};
    results->plan = units->whole;
    results->policy = *policy;
    results->keys = keys_create(units, readers);
    enum status status = destination_find("output", output, &results->output, error);
    results->folder.root = must_printf("%s.parts", results->output.path);
    results->folder.parts = shard_own_folder(results->folder.root, shard);
    const char *resolved = results->plan->job->resolved;
    sha256_hex(resolved, strlen(resolved), results->job_sha256);
    results->known.kept = must_zeroed((size_t)units->plan.task_count);
    results->known.seen = must_zeroed((size_t)units->plan.run_count);
    results->known.in_one = must_zeroed((size_t)results->plan->run_count);
    TRY(status);
    TRY(check_output(results, error));
    TRY(to_open(results, error));
    TRY(results_acquire_lock(results, error));
    TRY(check_output(results, error)); /* the last holder may have written it */
    TRY(to_begin(results, error));
    TRY(check_parts(results, error));
    results->linked = results->output.exists && link_is_at(results->output.path);
    if (results->linked && !resume) TRY(drop_linked(results, error));
    results_clear(results, !resume);
    if (resume) found_parts_fill(results);
    if (results->output.exists && results->output.about.st_nlink > 1)
        text_print_stderr("tilerun: output %s: has %ld names (hard links); the others keep what is there now\n", output,
                          (long)results->output.about.st_nlink);
    *result = disown(&results);
    return STATUS_OK;
}

bool results_need_inputs(const struct results *results) {
    return !results->shard || results->output.exists;
}

/* Decides whether a complete OUTPUT is really done; clears *done if it is not. It is not done if a shard made a part
 * after it; older parts may remain from a job that was killed before it removed them. A linked OUTPUT keeps its parts,
 * and is not done if `merge --overwrite` should turn it into a file with copies. */
static enum status check_done(struct results *results, bool *done, struct error *error) {
    const struct store_policy *policy = &results->policy;
    bool turn_into_copies = results->linked && policy->merges && policy->overwrite && !policy->links;
    if (turn_into_copies) *done = false;
    if (!*done || results->linked || !shards_made_since(results, &results->output.about.st_mtim)) return STATUS_OK;
    if (!results->policy.overwrite)
        return fail(error, STATUS_USAGE,
                    "output %s: is complete, and shards have run its job again since; --overwrite replaces it by "
                    "what they made",
                    results->output.name);
    previous_close(results->previous);
    results->previous = NULL;
    *done = false;
    return STATUS_OK;
}

/* Removes the parts of a complete OUTPUT that a job left which was killed between publishing OUTPUT and removing them:
 * those of this job's units and those older than OUTPUT; if no part is left, the folders too. */
static enum status clear_done(struct results *results, struct error *error) {
    int parts, foreign;
    for (int i = 0; i < results->units->plan.run_count; i++) {
        char key[33];
        keys_of_unit(results->keys, &results->units->plan.runs[i], key);
        OWNED char *path = must_printf("%s/%s.h5", results->folder.parts, key);
        if (shard_has(results->shard, results->units->plan.runs[i].task)) unlink(path);
    }
    parts_remove_older(results->folder.parts, &results->output.about.st_mtim);
    TRY(results_count_parts(results, &parts, &foreign, error));
    if (parts == 0) results_clear(results, true); /* the folders of shards too */
    return STATUS_OK;
}

/* Counts the parts that belong to this job, or to this shard's share, and marks their runs as seen. */
static int count_own(struct results *results) {
    const struct plan *whole = results->plan, *plan = &results->units->plan;
    int parts = 0;
    for (int r = 0; r < whole->run_count; r++) {
        int count, stride;
        const struct run *first = units_of_run(results->units, &whole->runs[r], &count, &stride);
        OWNED char *in_whole = count > 1 ? results_run_path(results, &whole->runs[r]) : NULL;
        bool in_one = in_whole && access(in_whole, F_OK) == 0;
        parts += in_one;
        for (int p = 0; p < count; p++) {
            const struct run *unit = &plan->runs[first[p * stride].number];
            if (!shard_has(results->shard, unit->task)) continue;
            OWNED char *path = results_unit_path(results, unit);
            bool there = access(path, F_OK) == 0;
            parts += there;
            results->known.seen[unit->number] = there || in_one;
        }
    }
    return parts;
}

enum status store_resume(struct results *results, bool restricted, bool *done, struct error *error) {
    int parts, foreign;
    *done = false;
    if (results->output.exists) TRY(previous_open(results, restricted, done, error));
    TRY(to_resume(results, done, error));
    TRY(check_done(results, done, error));
    if (!*done) TRY(previous_import(results, error));
    TRY(results_count_parts(results, &parts, &foreign, error));
    int counted = parts > 0 ? count_own(results) : 0;
    if (*done && results->previous && results->previous->complete && !results->linked)
        return clear_done(results, error);
    if (parts > counted && !results->linked)
        text_print_stderr(
            "tilerun: %s: holds %d finished run%s of another version of the job, its inputs or tilerun%s\n",
            results->folder.parts, parts - counted, parts - counted == 1 ? "" : "s",
            *done ? "" : "; removed when it is complete");
    return STATUS_OK;
}

const bool *results_seen(const struct results *results) {
    return results->known.seen;
}

/* Removes and releases the lock of a folder, and removes the folder if it holds nothing else. Returns whether the
 * folder is gone. */
static bool leave_folder(const char *folder, int *lock) {
    OWNED char *path = must_printf("%s/lock", folder);
    unlink(path);
    close(*lock); /* before rmdir: network file systems keep an open file under another name */
    *lock = -1;
    return rmdir(folder) == 0;
}

/* Releases the lock that shards share. A shard whose folder is `gone` removes OUTPUT.parts as well, if no other shard
 * is running. */
static void leave_shared(struct results *results, bool gone) {
    if (results->folder.shared_lock < 0) return;
    if (gone && flock(results->folder.shared_lock, LOCK_EX | LOCK_NB) == 0) {
        leave_folder(results->folder.root, &results->folder.shared_lock);
    } else {
        close(results->folder.shared_lock);
        results->folder.shared_lock = -1;
    }
}

void store_leave(struct results *results) {
    int parts = 0, foreign = 0;
    bool gone = false;
    if (results->folder.lock >= 0) {
        to_leave(results);
        results_clear(results, false);
        bool counted = results_count_parts(results, &parts, &foreign, IGNORED) == STATUS_OK;
        /* Without parts there is nothing to resume, so the folder is removed. With parts rmdir fails and the folder
         * stays. */
        OWNED char *manifest = must_printf("%s/" SHARD_MANIFEST, results->folder.parts);
        bool no_parts = counted && parts == 0;
        bool manifest_is_useless = results->shard && no_parts && !results->known.reused && !results->known.stopped;
        if (manifest_is_useless) unlink(manifest);
        gone = leave_folder(results->folder.parts, &results->folder.lock);
        if (!gone && results->folder.cleared && no_parts && foreign > 0)
            text_print_stderr("tilerun: %s stays: it holds %d file%s that %s not tilerun's\n", results->folder.parts,
                              foreign, foreign == 1 ? "" : "s", foreign == 1 ? "is" : "are");
    }
    leave_shared(results, gone);
}

void results_sweep(const char *output) {
    FREED_BY(destination_free) struct destination destination = {0};
    int parts, foreign;
    if (destination_find("output", output, &destination, IGNORED)) return;
    OWNED char *folder = must_printf("%s.parts", destination.path);
    struct results results = {.output = destination, .folder = {folder, folder, .lock = -1, .shared_lock = -1}};
    if (access(folder, F_OK) == 0 && !results_acquire_lock(&results, IGNORED) &&
        !results_count_parts(&results, &parts, &foreign, IGNORED) && parts == 0)
        results_clear(&results, true);
    store_leave(&results);
}

void store_close(struct results *results) {
    if (!results) return;
    previous_close(results->previous);
    store_leave(results);
    to_close(results);
    keys_free(results->keys);
    destination_free(&results->output);
    found_parts_free(results);
    free(results->folder.root);
    free(results->folder.parts);
    free(results->known.kept);
    free(results->known.seen);
    free(results->known.in_one);
    free(results);
}
