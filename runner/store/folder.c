/* folder.c - recognizes tilerun's files in OUTPUT.parts and in the folders of shards in it; counts, lists, finds and
 * removes them. It never touches foreign files. It fails before anything is removed if an entry has a name of
 * tilerun's but is of another kind, such as a link. */
#include "results.h"

#include "../base/destination.h"
#include "../base/fail.h"
#include "../base/path.h"
#include "../base/text.h"
#include "../base/texts.h"
#include "../storage/untrusted/h5guard.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- folders ----------------------------------------------------------------------------------------------------- */

char *parts_folder_of(const char *output) {
    FREED_BY(destination_free) struct destination destination = {0};
    bool found = destination_find("output", output, &destination, IGNORED) == STATUS_OK;
    return found ? must_printf("%s.parts", destination.path) : NULL;
}

char *shard_folder(const char *root, int index, int count) {
    return must_printf("%s/shard-%d-of-%d", root, index, count);
}

char *shard_own_folder(const char *root, const struct shard *shard) {
    return shard ? shard_folder(root, shard->index, shard->count) : must_strdup(root);
}

bool shard_folder_parse(const char *name, int *index, int *count) {
    int length = 0;
    char again[48];
    if (sscanf(name, "shard-%9d-of-%9d%n", index, count, &length) != 2 || name[length] != '\0') return false;
    snprintf(again, sizeof again, "shard-%d-of-%d", *index, *count);
    return *index >= 0 && *index < *count && strcmp(name, again) == 0; /* no other spelling, such as 01 */
}

struct texts shard_folders(const char *root) {
    OWNED_FOLDER DIR *folder = opendir(root);
    struct texts folders = {0};
    int index, shards;
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (shard_folder_parse(entry->d_name, &index, &shards))
            texts_add(&folders, must_printf("%s/%s", root, entry->d_name));
    if (folders.count > 0) qsort(folders.items, (size_t)folders.count, sizeof *folders.items, text_compare);
    return folders;
}

/* ---- permissions ---- */

char *permission_hint(const char *root, int number) {
    OWNED char *word = text_shell_word(root);
    return number == EACCES ? must_printf("; its owner can run `chmod -R g+rwX %s`", word) : must_strdup("");
}

enum status part_check_readable(const char *root, const char *path, struct error *error) {
    struct stat about;
    int mode = stat(path, &about) == 0 && S_ISDIR(about.st_mode) ? R_OK | X_OK : R_OK;
    if (access(path, mode) == 0 || errno != EACCES) return STATUS_OK;
    OWNED char *hint = permission_hint(root, EACCES);
    return fail(error, STATUS_IO, "%s: cannot be read: %s%s", path, strerror(EACCES), hint);
}

enum status shard_check_readable(const char *root, const char *folder, struct error *error) {
    OWNED char *manifest = must_printf("%s/" SHARD_MANIFEST, folder);
    TRY(part_check_readable(root, folder, error));
    return part_check_readable(root, manifest, error);
}

enum status parts_check_readable(const char *output, struct error *error) {
    OWNED char *root = parts_folder_of(output);
    if (!root) return STATUS_OK;
    TRY(part_check_readable(root, root, error));
    FREED_BY(texts_clear) struct texts folders = shard_folders(root), parts = {0};
    for (int i = 0; i < folders.count; i++) TRY(shard_check_readable(root, folders.items[i], error));
    parts = parts_list(root);
    for (int i = 0; i < parts.count; i++) TRY(part_check_readable(root, parts.items[i], error));
    return STATUS_OK;
}

/* ---- names ---- */

/* OUR_TEMPORARY: a temporary file, which a killed writer left unfinished. OUR_NOTE: a note that a unit timed out. */
enum owner { FOREIGN, OUR_LOCK, OUR_TEMPORARY, OUR_PART, OUR_NOTE, OUR_MANIFEST, OUR_SHARD };

/* To whom does an entry of OUTPUT.parts, or of a shard's folder, belong by its name? */
static enum owner owner_of(const char *name) {
    static const char hex[] = "0123456789abcdef", digits[] = "0123456789";
    if (strcmp(name, "lock") == 0) return OUR_LOCK;
    if (strcmp(name, SHARD_MANIFEST) == 0) return OUR_MANIFEST;
    int index, count;
    if (shard_folder_parse(name, &index, &count)) return OUR_SHARD;
    if (strcmp(name, "assembled.tmp") == 0 || strcmp(name, SHARD_MANIFEST_NEW) == 0) return OUR_TEMPORARY;
    if (strspn(name, hex) == 32 && strcmp(name + 32, ".h5") == 0) return OUR_PART;
    if (strspn(name, hex) == 32 && strcmp(name + 32, TIMEOUT_NOTE) == 0) return OUR_NOTE;
    size_t number = strncmp(name, "run-", 4) == 0 ? strspn(name + 4, digits) : 0;
    return number > 0 && strcmp(name + 4 + number, ".tmp") == 0 ? OUR_TEMPORARY : FOREIGN;
}

/* ---- the files in the folder ---- */

/* STATUS_USAGE: an entry with one of our names is not a regular file or, for a shard's, not a folder. */
static enum status check_kind(const char *folder, const char *name, enum owner owner, const struct stat *about,
                              struct error *error) {
    if (owner == OUR_SHARD ? S_ISDIR(about->st_mode) : S_ISREG(about->st_mode)) return STATUS_OK;
    return fail(error, STATUS_USAGE, "%s/%s: has a name of tilerun's but is not a %s; move it away first", folder, name,
                owner == OUR_SHARD ? "folder" : "regular file");
}

/* Adds the parts, and the entries without one of our names, in a folder and in the shards' folders in it to the counts.
 * STATUS_USAGE: a folder cannot be read, or check_kind's. */
static enum status count_in(const char *path, int *parts, int *foreign, struct error *error) {
    OWNED_FOLDER DIR *folder = opendir(path);
    if (!folder) return fail(error, STATUS_USAGE, "%s: cannot be read: %s", path, strerror(errno));
    for (struct dirent *entry; (entry = readdir(folder));) {
        enum owner owner = owner_of(entry->d_name);
        struct stat about;
        *parts += owner == OUR_PART;
        *foreign += owner == FOREIGN && strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
        if (owner == FOREIGN || fstatat(dirfd(folder), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0) continue;
        TRY(check_kind(path, entry->d_name, owner, &about, error));
        if (owner != OUR_SHARD) continue;
        OWNED char *inner = must_printf("%s/%s", path, entry->d_name);
        TRY(count_in(inner, parts, foreign, error));
    }
    return STATUS_OK;
}

enum status results_count_parts(const struct results *results, int *parts, int *foreign, struct error *error) {
    *parts = *foreign = 0;
    return count_in(results->folder.parts, parts, foreign, error);
}

/* CLEAR_TEMPORARY: temporary files that killed writers left. CLEAR_PARTS: these, parts and notes. CLEAR_SHARDS: the
 * folders of shards with their locks and manifests, which nobody uses any more. */
enum clearing { CLEAR_TEMPORARY, CLEAR_PARTS, CLEAR_SHARDS };

/* Does `clearing` remove the files of that owner? `in_shard`: they lie in the folder of a shard. */
static bool is_cleared(enum owner owner, enum clearing clearing, bool in_shard) {
    if (clearing == CLEAR_SHARDS) return in_shard && (owner == OUR_LOCK || owner == OUR_MANIFEST);
    return owner == OUR_TEMPORARY || (clearing == CLEAR_PARTS && (owner == OUR_PART || owner == OUR_NOTE));
}

/* Removes the files of `clearing` from a folder and from the folders of shards in it; CLEAR_SHARDS: these folders too,
 * if they are empty then. `in_shard`: `path` is the folder of a shard. Ignores failures. */
static void clear_folder(const char *path, enum clearing clearing, bool in_shard) {
    OWNED_FOLDER DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        enum owner owner = owner_of(entry->d_name);
        struct stat about;
        if (owner == FOREIGN || fstatat(dirfd(folder), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (owner == OUR_SHARD && S_ISDIR(about.st_mode)) {
            OWNED char *inner = must_printf("%s/%s", path, entry->d_name);
            clear_folder(inner, clearing, true);
            if (clearing == CLEAR_SHARDS) rmdir(inner);
        }
        if (is_cleared(owner, clearing, in_shard) && S_ISREG(about.st_mode)) unlinkat(dirfd(folder), entry->d_name, 0);
    }
}

void results_clear(struct results *results, bool finished) {
    clear_folder(results->folder.parts, finished ? CLEAR_PARTS : CLEAR_TEMPORARY, false);
    /* last: a shard with a manifest may have parts */
    if (finished) clear_folder(results->folder.parts, CLEAR_SHARDS, false);
    results->folder.cleared |= finished;
}

/* Adds the paths of the parts in a folder, and in the folders of shards within it. With a `shard` it skips the
 * folders of the other shards of the same division, because these do other units. */
static void add_parts(const char *parts, const struct shard *shard, struct texts *paths) {
    OWNED_FOLDER DIR *folder = opendir(parts);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        enum owner owner = owner_of(entry->d_name);
        if (owner == OUR_PART) texts_add(paths, must_printf("%s/%s", parts, entry->d_name));
        if (owner != OUR_SHARD) continue;
        OWNED char *path = must_printf("%s/%s", parts, entry->d_name);
        int index, shards;
        shard_folder_parse(entry->d_name, &index, &shards);
        if (!shard || shards != shard->count || index == shard->index) add_parts(path, shard, paths);
    }
}

struct texts parts_list(const char *parts) {
    struct texts paths = {0};
    add_parts(parts, NULL, &paths);
    return paths;
}

void parts_remove_older(const char *parts, const struct timespec *time) {
    FREED_BY(texts_clear) struct texts paths = parts_list(parts);
    for (int i = 0; i < paths.count; i++) {
        struct stat about;
        if (stat(paths.items[i], &about) == 0 && !results_later(&about.st_mtim, time)) unlink(paths.items[i]);
    }
}

/* ---- the parts of all shards ------------------------------------------------------------------------------------- */

bool results_later(const struct timespec *one, const struct timespec *other) {
    return one->tv_sec != other->tv_sec ? one->tv_sec > other->tv_sec : one->tv_nsec > other->tv_nsec;
}

/* Orders parts by key; of two parts of one run the newer comes first. */
static int compare_found(const void *one, const void *other) {
    const struct found_part *a = one, *b = other;
    int order = strcmp(a->key, b->key);
    if (order != 0) return order;
    return results_later(&b->written, &a->written) - results_later(&a->written, &b->written);
}

static int compare_key(const void *key, const void *found) {
    return strcmp(key, ((const struct found_part *)found)->key);
}

/* Keeps only the newest of several parts with one key. */
void found_parts_fill(struct results *results) {
    struct texts paths = {0};
    add_parts(results->folder.root, results->shard, &paths);
    int count = paths.count;
    struct found_part *found = must_malloc((size_t)count * sizeof *found + 1);
    for (int i = 0; i < count; i++) {
        struct stat about = {0};
        found[i] = (struct found_part){.path = paths.items[i]};
        snprintf(found[i].key, sizeof found[i].key, "%.32s", strrchr(paths.items[i], '/') + 1);
        if (stat(paths.items[i], &about) == 0) found[i].written = about.st_mtim;
    }
    free(paths.items); /* `found` owns the paths themselves */
    qsort(found, (size_t)count, sizeof *found, compare_found);
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (kept > 0 && strcmp(found[kept - 1].key, found[i].key) == 0)
            free(found[i].path);
        else
            found[kept++] = found[i];
    results->found.items = found;
    results->found.count = kept;
}

void found_parts_free(struct results *results) {
    for (int i = 0; i < results->found.count; i++) free(results->found.items[i].path);
    free(results->found.items);
}

/* NULL: there was no part of that key. */
static struct found_part *find_part(const struct results *results, const char key[33]) {
    if (results->found.count == 0) return NULL;
    return bsearch(key, results->found.items, (size_t)results->found.count, sizeof *results->found.items, compare_key);
}

char *results_part_of_key(const struct results *results, const char key[33]) {
    const struct found_part *found = find_part(results, key);
    return found ? must_strdup(found->path) : must_printf("%s/%s.h5", results->folder.parts, key);
}

bool results_part_checked(const struct results *results, const char *path) {
    char key[33];
    snprintf(key, sizeof key, "%.32s", path_name(path));
    const struct found_part *found = find_part(results, key);
    return found && found->checked && strcmp(found->path, path) == 0;
}

void results_part_made(const struct results *results, const char key[33], const char *path) {
    struct found_part *found = find_part(results, key);
    if (!found || strcmp(found->path, path) == 0) return;
    free(found->path);
    found->path = must_strdup(path);
    found->checked = false;
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

enum status check_not_an_input(const struct destination *destination, const struct plan *plan, struct error *error) {
    const struct job *job = plan->job;
    if (!destination->exists) return STATUS_OK;
    if (path_is_file(job->path, &destination->about))
        return fail(error, STATUS_USAGE, "%s %s: is the job file itself", destination->kind, destination->name);
    for (int i = 0; i < job->input_count; i++) {
        const struct job_input *input = &job->inputs[i];
        if (input->random) continue;
        const char *file;
        for (int number = 0; (file = array_file(&plan->arrays[i], number)); number++) {
            if (path_is_file(file, &destination->about))
                return fail(error, STATUS_USAGE,
                            "%s %s: is the job's input '%s'; give another name, with 'output' or -o", destination->kind,
                            destination->name, input->name);
            if (h5_reads_file(file, input->dataset, &destination->about))
                return fail(error, STATUS_USAGE, "%s %s: the job's input '%s' in %s reads from it", destination->kind,
                            destination->name, input->name, file);
        }
    }
    return STATUS_OK;
}

enum status results_check_output(const char *output, const struct plan *plan, struct error *error) {
    const struct job *job = plan->job;
    FREED_BY(destination_free) struct destination destination = {0};
    TRY(destination_find("output", output, &destination, error));
    TRY(check_not_an_input(&destination, plan, error));
    const char *last = ""; /* neighbouring operations often have the same file */
    for (int i = 0; i < job->operation_count; i++) {
        const char *file = job->operations[i].to_file;
        if (!file || strcmp(file, last) == 0) continue;
        TRY(results_check_other(output, plan, "file", file, error));
        last = file;
    }
    return STATUS_OK;
}

/* STATUS_USAGE: a result of the job goes to `destination`, a file for something else. */
static enum status check_not_a_result(const struct destination *destination, const struct plan *plan,
                                      struct error *error) {
    const struct job *job = plan->job;
    const char *last = "";
    for (int i = 0; i < job->operation_count; i++) {
        const char *file = job->operations[i].to_file;
        FREED_BY(destination_free) struct destination other = {0};
        if (!file || strcmp(file, last) == 0) continue;
        TRY(destination_find("file", file, &other, error));
        last = file;
        if (destination_same(destination, &other))
            return fail(error, STATUS_USAGE, "%s %s: the result of '%s' goes there", destination->kind,
                        destination->name, job->operations[i].id);
    }
    return STATUS_OK;
}

enum status results_check_other(const char *output, const struct plan *plan, const char *kind, const char *name,
                                struct error *error) {
    FREED_BY(destination_free) struct destination destination = {0}, target = {0}, parts = {0};
    struct stat about;
    TRY(destination_find(kind, name, &destination, error));
    TRY(destination_find("output", output, &target, error));
    OWNED char *folder = must_printf("%s.parts", target.path);
    TRY(destination_find("output", folder, &parts, error));
    TRY(check_not_an_input(&destination, plan, error));
    if (destination_same(&destination, &target))
        return fail(error, STATUS_USAGE, "%s %s: is the output itself", kind, name);
    if (destination_same(&destination, &parts) ||
        (stat(folder, &about) == 0 && path_is_file(destination.folder, &about)))
        return fail(error, STATUS_USAGE, "%s %s: the folder %s is for finished runs", kind, name, folder);
    return strcmp(kind, "trace") == 0 ? check_not_a_result(&destination, plan, error) : STATUS_OK;
}
