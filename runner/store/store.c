/* store.c - opens and closes a job's results: what may be replaced at OUTPUT. */
#include "../base/fail.h"
#include "../base/text.h"
#include "../plan/clash.h"
#include "../record/environment.h"
#include "../storage/h5/h5journal.h"
#include "results.h"
#include "to.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* ---- OUTPUT ---- */

/* May OUTPUT be created or replaced? With --resume, store_resume checks later, when the inputs are hashed, whose
 * results it holds. */
static enum status check_output(struct results *results, bool overwrite, bool resume, struct error *error) {
    struct destination *place = &results->place;
    TRY(destination_look(place, error));
    TRY(destination_check(place, error));
    if (!place->exists) return STATUS_OK;
    if (!S_ISREG(place->about.st_mode))
        return fail(error, STATUS_USAGE, "output %s: is not a regular file", place->name);
    TRY(clash_check(place, results->plan, error));
    if (overwrite) return STATUS_OK;
    char foreign[512];
    if (results_are_at(place->path, foreign)) {
        if (resume) return STATUS_OK;
        return fail(error, STATUS_USAGE, "output %s: exists; --overwrite replaces it, --resume continues its job",
                    place->name);
    }
    if (resume)
        return fail(error, STATUS_USAGE,
                    "output %s: %s; --resume replaces nothing but results of its job, --overwrite any file",
                    place->name, foreign);
    return fail(error, STATUS_USAGE, "output %s: exists and %s; --overwrite replaces it", place->name, foreign);
}

/* May the files in OUTPUT.parts be used or removed? `asked`: `resume` or `overwrite` was given. */
static enum status check_parts(const struct results *results, bool asked, struct error *error) {
    const struct job *job = results->plan->job;
    int parts, foreign;
    struct stat folder;
    TRY(results_count_parts(results, &parts, &foreign, error));
    for (int i = 0; i < job->input_count && stat(results->folder.own, &folder) == 0; i++) {
        bool inside = false;
        const char *file;
        for (int number = 0; !inside && (file = array_file(&results->plan->arrays[i], number)); number++) {
            char *real = must_realpath(file), *around = real ? path_folder(real) : NULL;
            inside = path_is_file(around, &folder);
            free(around);
            free(real);
        }
        if (inside)
            return fail(error, STATUS_USAGE, "output %s: the job's input '%s' lies in %s, which goes when it is done",
                        results->place.name, job->inputs[i].name, results->folder.own);
    }
    if (asked || parts == 0) return STATUS_OK;
    return fail(error, STATUS_USAGE,
                "output %s: %s holds %d finished run%s of a job that was not completed; --resume continues it, "
                "--overwrite throws them away",
                results->place.name, results->folder.own, parts, parts == 1 ? "" : "s");
}

/* The values of a linked OUTPUT lie in the parts that `overwrite` throws away: it must not be there without them. */
static enum status drop_linked(struct results *results, struct error *error) {
    if (unlink(results->place.path) != 0)
        return fail(error, STATUS_USAGE, "output %s: cannot be removed: %s", results->place.name, strerror(errno));
    text_print_stderr(
        "tilerun: output %s: is removed now, because its outputs lie in %s, which --overwrite throws away\n",
        results->place.name, results->folder.whole);
    results->policy.linked = false;
    return destination_look(&results->place, error);
}

static bool *no_flags(int count) {
    bool *flags = must_malloc((size_t)count + 1);
    memset(flags, 0, (size_t)count + 1);
    return flags;
}

enum status store_open(const char *output, bool overwrite, bool resume, const struct units *units,
                       const struct shard *shard, double wait_s, struct readers *readers, struct results **result,
                       struct error *error) {
    struct results *results = must_malloc(sizeof *results);
    *results =
        (struct results){.folder = {.lock = -1, .shared_lock = -1}, .units = units, .shard = shard, .readers = readers};
    results->plan = units->whole;
    results->policy.lock_wait_s = wait_s;
    results->policy.overwrite = overwrite;
    results->keys = keys_create(units, readers);
    enum status status = destination_find("output", output, &results->place, error);
    results->folder.whole = must_printf("%s.parts", results->place.path);
    results->folder.own = shard_own_folder(results->folder.whole, shard);
    const char *resolved = results->plan->job->resolved;
    sha256_hex(resolved, strlen(resolved), results->job_sha256);
    results->known.kept = no_flags(units->plan.task_count);
    results->known.seen = no_flags(units->plan.run_count);
    results->known.in_one = no_flags(results->plan->run_count);
    if (!status) status = check_output(results, overwrite, resume, error);
    if (!status) status = to_open(results, resume, error);
    if (!status) status = results_take_lock(results, error);
    if (!status) status = check_output(results, overwrite, resume, error); /* the last holder may have written it */
    if (!status) status = to_begin(results, resume, error);
    if (!status) status = check_parts(results, overwrite || resume, error);
    if (!status) results->policy.linked = results->place.exists && link_is_at(results->place.path);
    if (!status && results->policy.linked && !resume) status = drop_linked(results, error);
    if (!status) results_clear(results, !resume);
    if (!status && resume) shards_find_parts(results);
    if (!status && results->place.exists && results->place.about.st_nlink > 1)
        text_print_stderr("tilerun: output %s: has %ld names (hard links); the others keep what is there now\n", output,
                          (long)results->place.about.st_nlink);
    if (status) {
        store_close(results);
        results = NULL;
    }
    *result = results;
    return status;
}

void results_join(struct results *results, bool link) {
    results->policy.merges = true;
    results->policy.links = link;
}

bool results_need_inputs(const struct results *results) {
    return !results->shard || results->place.exists;
}

/* OUTPUT is complete. Parts of it are still there if its job was killed before it removed them; but if a shard made one
 * since, OUTPUT is not done. A linked one keeps its parts, and `merge --overwrite` makes a copied one of it. */
static enum status settle_done(struct results *results, bool *done, struct error *error) {
    if (results->policy.linked && results->policy.merges && results->policy.overwrite && !results->policy.links)
        *done = false;
    if (!*done || results->policy.linked || !shards_made_since(results, &results->place.about.st_mtim))
        return STATUS_OK;
    if (!results->policy.overwrite)
        return fail(error, STATUS_USAGE,
                    "output %s: is complete, and shards have run its job again since; --overwrite replaces it by "
                    "what they made",
                    results->place.name);
    previous_close(results->previous);
    results->previous = NULL;
    *done = false;
    return STATUS_OK;
}

/* Removes the parts of a complete OUTPUT: a killed job had given it its name but not removed them. */
static enum status clear_done(struct results *results, struct error *error) {
    int parts, foreign;
    for (int i = 0; i < results->units->plan.run_count; i++) {
        char key[33], *path;
        keys_of_unit(results->keys, &results->units->plan.runs[i], key);
        path = must_printf("%s/%s.h5", results->folder.own, key);
        if (shard_has(results->shard, results->units->plan.runs[i].task)) unlink(path);
        free(path);
    }
    parts_remove_older(results->folder.own, &results->place.about.st_mtim);
    TRY(results_count_parts(results, &parts, &foreign, error));
    if (parts == 0) results_clear(results, true); /* the folders of shards too */
    return STATUS_OK;
}

/* How many of the parts that lie here are of this job, or of this shard's share; marks these runs as seen. */
static int count_own(struct results *results) {
    const struct plan *whole = results->plan, *plan = &results->units->plan;
    int own = 0;
    for (int r = 0; r < whole->run_count; r++) {
        int count, stride;
        const struct run *first = units_of_run(results->units, &whole->runs[r], &count, &stride);
        char *path = count > 1 ? results_run_path(results, &whole->runs[r]) : NULL;
        bool in_one = path && access(path, F_OK) == 0;
        own += in_one;
        free(path);
        for (int p = 0; p < count; p++) {
            const struct run *unit = &plan->runs[first[p * stride].number];
            if (!shard_has(results->shard, unit->task)) continue;
            path = results_unit_path(results, unit);
            bool there = access(path, F_OK) == 0;
            own += there;
            results->known.seen[unit->number] = there || in_one;
            free(path);
        }
    }
    return own;
}

enum status store_resume(struct results *results, bool restricted, bool *done, struct error *error) {
    int parts, foreign;
    *done = false;
    if (results->place.exists) TRY(previous_open(results, restricted, done, error));
    TRY(to_resume(results, done, error));
    TRY(settle_done(results, done, error));
    if (!*done) TRY(previous_import(results, error));
    TRY(results_count_parts(results, &parts, &foreign, error));
    int own = parts > 0 ? count_own(results) : 0;
    if (*done && previous_complete(results) && !results->policy.linked) return clear_done(results, error);
    if (parts > own && !results->policy.linked)
        text_print_stderr("tilerun: %s: holds %d finished run%s of no use to this job as it, its inputs and tilerun "
                          "are now%s\n",
                          results->folder.own, parts - own, parts - own == 1 ? "" : "s",
                          *done ? "" : "; removed when it is complete");
    return STATUS_OK;
}

const bool *results_seen(const struct results *results) {
    return results->known.seen;
}

/* Removes the lock and the folder, if it holds nothing else. Returns whether it is gone. */
static bool leave_folder(const char *folder, int *lock) {
    char *path = must_printf("%s/lock", folder);
    unlink(path);
    free(path);
    close(*lock); /* before rmdir: network file systems keep an open file under another name */
    *lock = -1;
    return rmdir(folder) == 0;
}

/* A shard that leaves nothing removes OUTPUT.parts as well, if no other is at work there. */
static void leave_shared(struct results *results, bool gone) {
    if (results->folder.shared_lock < 0) return;
    if (gone && flock(results->folder.shared_lock, LOCK_EX | LOCK_NB) == 0) {
        leave_folder(results->folder.whole, &results->folder.shared_lock);
    } else {
        close(results->folder.shared_lock);
        results->folder.shared_lock = -1;
    }
}

void store_leave(struct results *results) {
    struct error ignored = {STATUS_OK, ""};
    int parts = 0, foreign = 0;
    bool gone = false;
    if (results->folder.lock >= 0) {
        /* This may run on the signal's thread while another thread is about to publish the part. If the part cannot be
         * restored, --resume does its run again. */
        struct h5_journal *journal = __atomic_load_n(&results->journal, __ATOMIC_ACQUIRE);
        if (journal) h5_restore(journal);
        to_leave(results);
        results_clear(results, false);
        bool counted = results_count_parts(results, &parts, &foreign, &ignored) == STATUS_OK;
        /* Without parts there is nothing to resume, so the folder is removed. With parts rmdir fails and the folder
         * stays. */
        if (results->shard && counted && parts == 0 && !results->known.reused) shard_forget(results);
        gone = leave_folder(results->folder.own, &results->folder.lock);
        if (!gone && results->folder.cleared && counted && parts == 0 && foreign > 0)
            text_print_stderr("tilerun: %s stays: it holds %d file%s that %s not tilerun's\n", results->folder.own,
                              foreign, foreign == 1 ? "" : "s", foreign == 1 ? "is" : "are");
    }
    leave_shared(results, gone);
}

void results_sweep(const char *output) {
    struct error ignored = {STATUS_OK, ""};
    struct results results = {.folder = {.lock = -1, .shared_lock = -1}};
    int parts, foreign;
    if (destination_find("output", output, &results.place, &ignored) == STATUS_OK) {
        results.folder.whole = must_printf("%s.parts", results.place.path);
        results.folder.own = results.folder.whole;
        if (access(results.folder.own, F_OK) == 0 && !results_take_lock(&results, &ignored) &&
            !results_count_parts(&results, &parts, &foreign, &ignored) && parts == 0)
            results_clear(&results, true);
        store_leave(&results);
        free(results.folder.whole);
    }
    destination_free(&results.place);
}

void store_close(struct results *results) {
    if (!results) return;
    previous_close(results->previous);
    store_leave(results);
    to_close(results);
    keys_free(results->keys);
    h5_journal_free(results->journal);
    destination_free(&results->place);
    shards_free_parts(results);
    free(results->folder.whole);
    free(results->folder.own);
    free(results->known.kept);
    free(results->known.seen);
    free(results->known.in_one);
    free(results);
}
