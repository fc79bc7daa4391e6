/* folder.c - OUTPUT.parts and the folders of shards in it: which of their files are tilerun's. A user's files are
 * never touched. A file that has one of tilerun's names but cannot be tilerun's is refused before anything is done. */
#include "results.h"

#include "../base/fail.h"
#include "../plan/clash.h"
#include "../storage/h5/h5journal.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- folders ----------------------------------------------------------------------------------------------------- */

char *shard_folder(const char *whole, int index, int count) {
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

/* ---- names ---- */

/* A rest: a file that a killed writer left unfinished. A journal: of a part that was becoming OUTPUT when its writer
 * was killed. A manifest: what a shard says of itself (shard_manifest.c). */
enum owner { FOREIGN, OUR_LOCK, OUR_REST, OUR_PART, OUR_JOURNAL, OUR_MANIFEST, OUR_SHARD };

static enum owner owner_of(const char *name) {
    static const char hex[] = "0123456789abcdef", digits[] = "0123456789";
    if (strcmp(name, "lock") == 0) return OUR_LOCK;
    if (strcmp(name, SHARD_MANIFEST) == 0) return OUR_MANIFEST;
    int index, count;
    if (shard_folder_parse(name, &index, &count)) return OUR_SHARD;
    if (strcmp(name, "assembled.tmp") == 0 || strcmp(name, SHARD_MANIFEST_NEW) == 0) return OUR_REST;
    if (strspn(name, hex) == 32 && strcmp(name + 32, ".h5") == 0) return OUR_PART;
    if (strspn(name, hex) == 32 && strcmp(name + 32, ".h5" H5_JOURNAL) == 0) return OUR_JOURNAL;
    size_t number = strncmp(name, "run-", 4) == 0 ? strspn(name + 4, digits) : 0;
    return number > 0 && strcmp(name + 4 + number, ".tmp") == 0 ? OUR_REST : FOREIGN;
}

/* ---- the files in the folder ---- */

static enum status check_kind(const char *folder, const char *name, enum owner owner, const struct stat *about,
                              struct error *error) {
    if (owner == OUR_SHARD ? S_ISDIR(about->st_mode) : S_ISREG(about->st_mode)) return STATUS_OK;
    return fail(error, STATUS_USAGE, "%s/%s: has a name of tilerun's but is not a %s; move it away first", folder, name,
                owner == OUR_SHARD ? "folder" : "regular file");
}

/* Adds what lies in one folder, and in those of shards in it. */
static enum status count_in(const char *path, int *parts, int *foreign, struct error *error) {
    enum status status = STATUS_OK;
    DIR *folder = opendir(path);
    if (!folder) return fail(error, STATUS_USAGE, "%s: cannot be read: %s", path, strerror(errno));
    for (struct dirent *entry; !status && (entry = readdir(folder));) {
        enum owner owner = owner_of(entry->d_name);
        struct stat about;
        *parts += owner == OUR_PART;
        *foreign += owner == FOREIGN && strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
        if (owner == FOREIGN || fstatat(dirfd(folder), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0) continue;
        status = check_kind(path, entry->d_name, owner, &about, error);
        if (status || owner != OUR_SHARD) continue;
        char *inner = must_printf("%s/%s", path, entry->d_name);
        status = count_in(inner, parts, foreign, error);
        free(inner);
    }
    closedir(folder);
    return status;
}

enum status results_count_parts(const struct results *results, int *parts, int *foreign, struct error *error) {
    *parts = *foreign = 0;
    return count_in(results->folder.own, parts, foreign, error);
}

/* Turns a part that was becoming OUTPUT when its writer was killed into a part again. false: the disk does not let it;
 * the next process on OUTPUT may try again. */
static bool restore_part(const char *folder, const char *journal) {
    char *part = must_printf("%s/%.35s", folder, journal); /* KEY.h5 */
    bool good = access(part, F_OK) != 0 || part_is_whole(part, INT64_MAX) || h5_restore_leftover(part);
    free(part);
    return good;
}

/* `folders`: removes the locks and manifests of shards, which nobody uses now, and their folders; else what killed
 * writers left, and with `parts` the parts too. */
static void clear(const char *path, bool parts, bool folders, bool of_shard) {
    DIR *folder = opendir(path);
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        enum owner owner = owner_of(entry->d_name);
        struct stat about;
        if (owner == FOREIGN || fstatat(dirfd(folder), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (owner == OUR_SHARD && S_ISDIR(about.st_mode)) {
            char *inner = must_printf("%s/%s", path, entry->d_name);
            clear(inner, parts, folders, true);
            if (folders) rmdir(inner);
            free(inner);
        }
        if (owner == OUR_JOURNAL && !parts && !restore_part(path, entry->d_name)) continue;
        bool goes = folders ? of_shard && (owner == OUR_LOCK || owner == OUR_MANIFEST)
                            : owner == OUR_REST || owner == OUR_JOURNAL || (parts && owner == OUR_PART);
        if (goes && S_ISREG(about.st_mode)) unlinkat(dirfd(folder), entry->d_name, 0);
    }
    closedir(folder);
}

void results_clear(struct results *results, bool finished) {
    clear(results->folder.own, finished, false, false);
    if (finished) clear(results->folder.own, true, true, false); /* last: a shard with a manifest may have parts */
    results->folder.cleared |= finished;
}

/* `shard`: the folders of the others of its division are left out, which do other units; NULL: none. */
static void add_parts(const char *parts, const struct shard *shard, char ***paths, int *count) {
    DIR *folder = opendir(parts);
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        enum owner owner = owner_of(entry->d_name);
        if (owner != OUR_PART && owner != OUR_SHARD) continue;
        char *path = must_printf("%s/%s", parts, entry->d_name);
        if (owner == OUR_SHARD) {
            int index, shards;
            shard_folder_parse(entry->d_name, &index, &shards);
            if (!shard || shards != shard->count || index == shard->index) add_parts(path, shard, paths, count);
            free(path);
            continue;
        }
        *paths = must_realloc(*paths, (size_t)(*count + 1) * sizeof **paths);
        (*paths)[(*count)++] = path;
    }
    closedir(folder);
}

void parts_list(const char *parts, char ***paths, int *count) {
    *paths = NULL;
    *count = 0;
    add_parts(parts, NULL, paths, count);
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

/* ---- the parts of all shards ------------------------------------------------------------------------------------- */

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
    int count = 0;
    paths = NULL;
    add_parts(results->folder.whole, results->shard, &paths, &count);
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
    results->found.of = found;
    results->found.count = kept;
}

void shards_free_parts(struct results *results) {
    for (int i = 0; i < results->found.count; i++) free(results->found.of[i].path);
    free(results->found.of);
}

static struct found_part *find_part(const struct results *results, const char key[33]) {
    if (results->found.count == 0) return NULL;
    return bsearch(key, results->found.of, (size_t)results->found.count, sizeof *results->found.of, compare_key);
}

char *results_part_of_key(const struct results *results, const char key[33]) {
    const struct found_part *found = find_part(results, key);
    return found ? must_strdup(found->path) : must_printf("%s/%s.h5", results->folder.own, key);
}

void results_part_made(const struct results *results, const char key[33], const char *path) {
    struct found_part *found = find_part(results, key);
    if (!found || strcmp(found->path, path) == 0) return;
    free(found->path);
    found->path = must_strdup(path);
}

char *results_unit_path(const struct results *results, const struct run *unit) {
    char key[33];
    keys_of_unit(results->keys, unit, key);
    return results_part_of_key(results, key);
}

char *results_run_path(const struct results *results, const struct run *whole) {
    char key[33];
    keys_of_run(results->keys, whole, key);
    return results_part_of_key(results, key);
}

/* ---- where files may go ---- */

enum status results_check_output(const char *output, const struct plan *plan, struct error *error) {
    const struct job *job = plan->job;
    struct destination place;
    enum status status = destination_find("output", output, &place, error);
    if (!status) status = clash_check(&place, plan, error);
    destination_free(&place);
    const char *last = "";
    for (int i = 0; i < job->operation_count && !status; i++) {
        const char *file = job->operations[i].to_file;
        if (file && strcmp(file, last) != 0) status = results_check_other(output, plan, "file", last = file, error);
    }
    return status;
}

/* A file that no result goes to must not be one that results go to. */
static enum status check_results(const struct destination *place, const struct plan *plan, struct error *error) {
    const struct job *job = plan->job;
    enum status status = STATUS_OK;
    const char *last = "";
    for (int i = 0; i < job->operation_count && !status; i++) {
        const char *file = job->operations[i].to_file;
        struct destination other;
        if (!file || strcmp(file, last) == 0) continue;
        status = destination_find("file", last = file, &other, error);
        if (!status && destination_same(place, &other))
            status = fail(error, STATUS_USAGE, "%s %s: the result of '%s' goes there", place->kind, place->name,
                          job->operations[i].id);
        destination_free(&other);
    }
    return status;
}

enum status results_check_other(const char *output, const struct plan *plan, const char *kind, const char *name,
                                struct error *error) {
    struct destination place, target, parts;
    struct stat about;
    enum status status = destination_find(kind, name, &place, error),
                found = destination_find("output", output, &target, error);
    if (!status) status = found;
    char *folder = must_printf("%s.parts", target.path);
    found = destination_find("output", folder, &parts, error);
    if (!status) status = found;
    if (!status) status = clash_check(&place, plan, error);
    if (!status && destination_same(&place, &target))
        status = fail(error, STATUS_USAGE, "%s %s: is the output itself", kind, name);
    if (!status &&
        (destination_same(&place, &parts) || (stat(folder, &about) == 0 && path_is_file(place.folder, &about))))
        status = fail(error, STATUS_USAGE, "%s %s: is kept for finished runs, in %s", kind, name, folder);
    if (!status && strcmp(kind, "trace") == 0) status = check_results(&place, plan, error);
    free(folder);
    destination_free(&place);
    destination_free(&target);
    destination_free(&parts);
    return status;
}
