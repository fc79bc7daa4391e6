/* place.c - OUTPUT.parts and the folders of shards in it: which of their files are tilerun's. A user's files are
 * never touched. A file that has one of tilerun's names but cannot be tilerun's is refused before anything is done. */
#include "results.h"

#include "../base/fail.h"
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

enum status results_sync_folder(const char *folder, struct error *error) {
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Some file systems cannot sync a folder and return EINVAL: there nothing more can be done. */
    bool failed = descriptor < 0 || (fsync(descriptor) != 0 && errno != EINVAL);
    enum status status =
        failed ? fail(error, STATUS_IO, "%s: cannot be synced: %s", folder, strerror(errno)) : STATUS_OK;
    if (descriptor >= 0) close(descriptor);
    return status;
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
    return count_in(results->parts, parts, foreign, error);
}

/* Turns a part that was becoming OUTPUT when its writer was killed into a part again. false: the disk does not let it;
 * the next process on OUTPUT may try again. */
static bool restore_part(const char *folder, const char *journal) {
    char *part = must_printf("%s/%.35s", folder, journal); /* KEY.h5 */
    bool good = access(part, F_OK) != 0 || part_is_whole(part, INT64_MAX) || h5_restore_left(part);
    free(part);
    return good;
}

/* `folders`: removes the locks and manifests of shards, which nobody uses now, and their folders; else what killed writers
 * left, and with `parts` the parts too. */
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
    clear(results->parts, finished, false, false);
    if (finished) clear(results->parts, true, true, false); /* last: a shard with a manifest may have parts */
    results->cleared |= finished;
}

void results_sweep(const char *output) {
    struct error ignored = {STATUS_OK, ""};
    struct results results = {.lock = -1, .shared_lock = -1};
    int parts, foreign;
    if (destination_find("output", output, &results.place, &ignored) == STATUS_OK) {
        results.whole = must_printf("%s.parts", results.place.path);
        results.parts = results.whole;
        if (access(results.parts, F_OK) == 0 && !results_take_lock(&results, &ignored) &&
            !results_count_parts(&results, &parts, &foreign, &ignored) && parts == 0)
            results_clear(&results, true);
        results_leave(&results);
        free(results.whole);
    }
    destination_free(&results.place);
}

static void add_parts(const char *parts, char ***paths, int *count) {
    DIR *folder = opendir(parts);
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        enum owner owner = owner_of(entry->d_name);
        if (owner != OUR_PART && owner != OUR_SHARD) continue;
        char *path = must_printf("%s/%s", parts, entry->d_name);
        if (owner == OUR_SHARD) {
            add_parts(path, paths, count);
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
    add_parts(parts, paths, count);
}
