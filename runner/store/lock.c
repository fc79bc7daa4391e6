/* lock.c - the locks of OUTPUT.parts: a whole job holds that of the folder alone; shards share it, and each
 * holds that of its own folder alone. So shards do not hinder each other, the same shard does not run twice at once,
 * and none runs while a whole job or `merge` does. */
#include "results.h"

#include "../base/fail.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_TRIES = 1000 }; /* for a lock whose holders come and go */
/* How often, and how many nanoseconds apart, a shard tries to share the lock: another that leaves has it alone for a
 * moment. */
enum { MOST_WAITS = 50, WAIT_NS = 10000000 };

/* OUTPUT.parts, and a shard's folder in it, must be a folder, not a link to one, and files must be renamable from it to
 * OUTPUT. */
static enum status check_folder(const struct results *results, const char *path, struct error *error) {
    struct stat parts, folder;
    if (lstat(path, &parts) != 0)
        return errno == ENOENT ? STATUS_OK : fail(error, STATUS_USAGE, "%s: %s", path, strerror(errno));
    if (S_ISLNK(parts.st_mode))
        return fail(error, STATUS_USAGE,
                    "%s: is a symbolic link; finished runs are kept beside the output, so remove the link", path);
    if (!S_ISDIR(parts.st_mode))
        return fail(error, STATUS_USAGE, "%s: is not a folder, and finished runs would be kept in one of this name",
                    path);
    char *around = path_folder(path);
    bool open_to_all = stat(around, &folder) == 0 && folder.st_mode & S_IWOTH;
    free(around);
    if (open_to_all && parts.st_uid != geteuid())
        return fail(error, STATUS_USAGE,
                    "%s: belongs to another user, in a folder in which everybody may write; name an output elsewhere",
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

/* Takes a second lock, of the kind whose holder can be asked for without taking it: for parts_are_locked. Where
 * there is none of that kind nothing is lost but its answer. */
static void take_visible_lock(int lock, bool shared) {
    struct flock whole = {.l_type = shared ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET};
    fcntl(lock, F_SETLK, &whole);
}

bool parts_are_locked(const char *parts) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char *path = must_printf("%s/lock", parts);
    int lock = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool held = lock >= 0 && fcntl(lock, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
    if (lock >= 0) close(lock);
    free(path);
    return held;
}

char *shards_running(const char *whole) {
    char *found = NULL;
    DIR *folder = opendir(whole);
    if (!folder) return NULL;
    for (struct dirent *entry; !found && (entry = readdir(folder));) {
        int index, count;
        if (!shard_folder_parse(entry->d_name, &index, &count)) continue;
        char *path = must_printf("%s/%s", whole, entry->d_name);
        if (parts_are_locked(path)) {
            char *place = manifest_host(path);
            found = must_printf("shard %d of %d%s%s%s", index, count, place ? " (" : "", place ? place : "",
                                place ? ")" : "");
            free(place);
        }
        free(path);
    }
    closedir(folder);
    return found;
}

/* Says that another process has the lock of a folder. */
static enum status refuse(const struct results *results, bool shared, struct error *error) {
    char *shard = results->shard ? NULL : shards_running(results->parts);
    enum status status = STATUS_USAGE;
    if (shard)
        fail(error, status, "output %s: %s is still at work", results->place.name, shard);
    else if (results->shard && !shared)
        fail(error, status, "output %s: another tilerun is at work on shard %d of %d", results->place.name,
             results->shard->index, results->shard->count);
    else
        fail(error, status, "output %s: another tilerun is writing it", results->place.name);
    free(shard);
    return status;
}

/* Takes the lock of an open file: STATUS_USAGE if another process has it. Other errors come from file systems without
 * locks: there the user must not start two jobs on one output. */
static enum status hold(const struct results *results, bool shared, int lock, struct error *error) {
    const struct timespec pause = {0, WAIT_NS};
    for (int i = 0; flock(lock, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0 && errno == EWOULDBLOCK; i++) {
        if (!shared || i == MOST_WAITS) return refuse(results, shared, error);
        nanosleep(&pause, NULL);
    }
    return STATUS_OK;
}

/* Opens the lock file and takes the lock. *again: its last holder was just removing the file. */
static enum status try_lock(const struct results *results, const char *folder, bool shared, int *taken, bool *again,
                            struct error *error) {
    struct stat about;
    *again = false;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return fail(error, STATUS_USAGE, "%s: cannot be made: %s", folder, strerror(errno));
    TRY(check_folder(results, folder, error));
    char *path = must_printf("%s/lock", folder);
    enum status status = STATUS_OK;
    int lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    *again = lock < 0 && errno == ENOENT;
    if (lock < 0 && !*again)
        status = fail(error, STATUS_USAGE, "%s: cannot be made: %s", path, strerror(errno));
    else if (lock >= 0 && (fstat(lock, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size > 0))
        status = fail(error, STATUS_USAGE, "%s: has a name of tilerun's but is not its lock; move it away first", path);
    else if (lock >= 0 && !(status = hold(results, shared, lock, error)))
        *again = !path_is_file(path, &about);
    if (lock >= 0 && (status || *again))
        close(lock);
    else if (lock >= 0)
        take_visible_lock(*taken = lock, shared);
    free(path);
    return status;
}

static enum status take_lock(const struct results *results, const char *folder, bool shared, int *lock,
                             struct error *error) {
    bool again = true;
    for (int i = 0; again && i < MOST_TRIES; i++) TRY(try_lock(results, folder, shared, lock, &again, error));
    if (again)
        return fail(error, STATUS_USAGE, "output %s: other tileruns are starting and ending on it; try again",
                    results->place.name);
    return STATUS_OK;
}

enum status results_take_lock(struct results *results, struct error *error) {
    if (results->shard) TRY(take_lock(results, results->whole, true, &results->shared_lock, error));
    return take_lock(results, results->parts, false, &results->lock, error);
}
