/* result_place.c - OUTPUT.parts: its lock, and which of its files are tilerun's. A user's files in it are never
 * touched. A file that has one of tilerun's names but cannot be tilerun's is refused before anything is done. */
#include "result_parts.h"

#include "../base/fail.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_TRIES = 1000 }; /* for a lock whose holders come and go */

/* ---- names ---- */

enum owner { FOREIGN, OUR_LOCK, OUR_REST, OUR_PART }; /* a rest: a file that a killed writer left unfinished */

static enum owner owner_of(const char *name) {
    static const char hex[] = "0123456789abcdef", digits[] = "0123456789";
    if (strcmp(name, "lock") == 0) return OUR_LOCK;
    if (strcmp(name, "assembled.tmp") == 0) return OUR_REST;
    if (strspn(name, hex) == 32 && strcmp(name + 32, ".h5") == 0) return OUR_PART;
    size_t number = strncmp(name, "run-", 4) == 0 ? strspn(name + 4, digits) : 0;
    return number > 0 && strcmp(name + 4 + number, ".tmp") == 0 ? OUR_REST : FOREIGN;
}

char *results_part_path(const struct results *results, const struct run *run, const char *suffix) {
    char key[33];
    keys_of_run(results->keys, run, key);
    return must_printf("%s/%s%s", results->parts, key, suffix);
}

char *results_path_of(const char *root, const char *label, const char *name) {
    return must_printf("/%s/%s%s%s", root, label, *label ? "/" : "", name);
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

enum status results_count_parts(const struct results *results, int *parts, int *foreign, struct error *error) {
    enum status status = STATUS_OK;
    *parts = *foreign = 0;
    DIR *folder = opendir(results->parts);
    if (!folder) return fail(error, STATUS_USAGE, "%s: cannot be read: %s", results->parts, strerror(errno));
    for (struct dirent *entry; (entry = readdir(folder));) {
        enum owner owner = owner_of(entry->d_name);
        struct stat about;
        *parts += owner == OUR_PART;
        *foreign += owner == FOREIGN && strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
        if (owner != FOREIGN && !status && fstatat(dirfd(folder), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
            !S_ISREG(about.st_mode))
            status = fail(error, STATUS_USAGE,
                          "%s/%s: has a name of tilerun's but is not a regular file; move it away first",
                          results->parts, entry->d_name);
    }
    closedir(folder);
    return status;
}

void results_clear(struct results *results, bool finished) {
    DIR *folder = opendir(results->parts);
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        enum owner owner = owner_of(entry->d_name);
        struct stat about;
        if ((owner == OUR_REST || (finished && owner == OUR_PART)) &&
            fstatat(dirfd(folder), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(about.st_mode))
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    closedir(folder);
    results->cleared |= finished;
}

void results_list_parts(const char *parts, char ***paths, int *count) {
    *paths = NULL;
    *count = 0;
    DIR *folder = opendir(parts);
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (owner_of(entry->d_name) != OUR_PART) continue;
        *paths = must_realloc(*paths, (size_t)(*count + 1) * sizeof **paths);
        (*paths)[(*count)++] = must_printf("%s/%s", parts, entry->d_name);
    }
    closedir(folder);
}

/* ---- the lock ---- */

/* OUTPUT.parts must be a folder, not a link to one, and files must be renamable from it to OUTPUT. */
static enum status check_folder(const struct results *results, struct error *error) {
    struct stat parts, folder;
    const char *path = results->parts;
    if (lstat(path, &parts) != 0)
        return errno == ENOENT ? STATUS_OK : fail(error, STATUS_USAGE, "%s: %s", path, strerror(errno));
    if (S_ISLNK(parts.st_mode))
        return fail(error, STATUS_USAGE,
                    "%s: is a symbolic link; finished runs are kept beside the output, so remove the link", path);
    if (!S_ISDIR(parts.st_mode))
        return fail(error, STATUS_USAGE, "%s: is not a folder, and finished runs would be kept in one of this name",
                    path);
    /* A rename of "." always fails, but with EXDEV if there is a mount in between. */
    char *from = must_printf("%s/.", path), *to = must_printf("%s/.", results->place.folder);
    bool elsewhere = (stat(results->place.folder, &folder) == 0 && folder.st_dev != parts.st_dev) ||
                     (rename(from, to) != 0 && errno == EXDEV);
    free(from);
    free(to);
    if (elsewhere)
        return fail(error, STATUS_USAGE,
                    "%s: is on another file system than %s, so that finished runs cannot be renamed into place; "
                    "unmount it, or name an output on it",
                    path, results->place.path);
    return STATUS_OK;
}

/* Takes a second lock, of the kind whose holder can be asked for without taking it: for results_lock_is_held. Where
 * there is none of that kind nothing is lost but its answer. */
static void take_visible_lock(int lock) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    fcntl(lock, F_SETLK, &whole);
}

bool results_lock_is_held(const char *parts) {
    struct flock whole = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    char *path = must_printf("%s/lock", parts);
    int lock = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool held = lock >= 0 && fcntl(lock, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
    if (lock >= 0) close(lock);
    free(path);
    return held;
}

/* Opens the lock file and takes the lock. *again: its last holder was just removing the file. */
static enum status try_lock(struct results *results, const char *path, bool *again, struct error *error) {
    struct stat about;
    *again = false;
    if (mkdir(results->parts, 0777) != 0 && errno != EEXIST)
        return fail(error, STATUS_USAGE, "%s: cannot be made: %s", results->parts, strerror(errno));
    TRY(check_folder(results, error));
    int lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (lock < 0) {
        *again = errno == ENOENT;
        return *again ? STATUS_OK : fail(error, STATUS_USAGE, "%s: cannot be made: %s", path, strerror(errno));
    }
    enum status status = STATUS_OK;
    if (fstat(lock, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size > 0)
        status = fail(error, STATUS_USAGE, "%s: has a name of tilerun's but is not its lock; move it away first", path);
    /* Other errors come from file systems without locks: there the user must not start two jobs on one output. */
    else if (flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        status = fail(error, STATUS_USAGE, "output %s: another tilerun is writing it", results->place.name);
    else
        *again = !place_is_at(path, &about);
    if (status || *again)
        close(lock);
    else
        take_visible_lock(results->lock = lock);
    return status;
}

enum status results_take_lock(struct results *results, struct error *error) {
    char *path = must_printf("%s/lock", results->parts);
    enum status status = STATUS_OK;
    bool again = true;
    for (int i = 0; again && i < MOST_TRIES && !status; i++) status = try_lock(results, path, &again, error);
    if (!status && again)
        status = fail(error, STATUS_USAGE, "output %s: other tileruns are starting and ending on it; try again",
                      results->place.name);
    free(path);
    return status;
}

void results_leave(struct results *results) {
    if (results->lock < 0) return;
    /* This may run on the signal's thread while another thread is about to publish the part. If the part cannot be
     * restored, --resume does its run again. */
    struct h5_journal *journal = __atomic_load_n(&results->journal, __ATOMIC_ACQUIRE);
    if (journal) h5_restore(journal);
    /* Without parts there is nothing to resume, so the folder is removed. With parts rmdir fails and the folder
     * stays. */
    char *path = must_printf("%s/lock", results->parts);
    struct error ignored = {STATUS_OK, ""};
    int parts, foreign;
    results_clear(results, false);
    unlink(path);
    close(results->lock); /* before rmdir: network file systems keep an open file under another name */
    results->lock = -1;
    if (rmdir(results->parts) != 0 && results->cleared &&
        results_count_parts(results, &parts, &foreign, &ignored) == STATUS_OK && parts == 0 && foreign > 0)
        fprintf(stderr, "tilerun: %s stays: it holds %d file%s that %s not tilerun's\n", results->parts, foreign,
                foreign == 1 ? "" : "s", foreign == 1 ? "is" : "are");
    free(path);
}
