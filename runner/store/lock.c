/* lock.c - locks OUTPUT.parts. A whole job or `merge` holds the folder's lock alone. Shards share it, and each holds
 * the lock of its own folder alone. So shards run beside each other, no shard runs twice at once, and none runs while a
 * whole job or `merge` does. */
#include "results.h"

#include "../base/clock.h"
#include "../base/fail.h"
#include "../base/interrupt.h"
#include "../base/path.h"
#include "../base/text.h"
#include "../base/texts.h"
#include "../record/environment.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_TRIES = 1000, /* attempts to open and lock a file that its holders remove */
    /* How many times a shard tries to share the lock, and the nanoseconds between two attempts. A shard that leaves
     * holds the lock alone for a moment. */
    MAX_WAITS = 50,
    WAIT_NS = 10000000,
    OTHER_NS = 250000000 /* nanoseconds between attempts while another machine holds the lock */
};

/* Checks OUTPUT.parts, or a shard's folder in it: it must be a folder, not a link to one, and it must be possible to
 * rename files from it to OUTPUT. */
static enum status check_folder(const struct results *results, const char *path, struct error *error) {
    struct stat parts, folder;
    if (lstat(path, &parts) != 0)
        return errno == ENOENT ? STATUS_OK : fail(error, STATUS_USAGE, "%s: %s", path, strerror(errno));
    if (S_ISLNK(parts.st_mode))
        return fail(error, STATUS_USAGE,
                    "%s: is a symbolic link; finished runs are kept beside the output, so remove the link", path);
    if (!S_ISDIR(parts.st_mode))
        return fail(error, STATUS_USAGE,
                    "%s: is not a folder; move it away, because finished runs go to a folder of this name", path);
    OWNED char *around = path_folder(path);
    bool open_to_all = stat(around, &folder) == 0 && folder.st_mode & S_IWOTH;
    if (open_to_all && parts.st_uid != geteuid())
        return fail(error, STATUS_USAGE,
                    "%s: belongs to another user, in a folder in which everybody may write; name an output elsewhere",
                    path);
    /* A rename of "." always fails, but with EXDEV if there is a mount in between. */
    OWNED char *from = must_printf("%s/.", path), *to = must_printf("%s/.", results->output.folder);
    bool elsewhere = (stat(results->output.folder, &folder) == 0 && folder.st_dev != parts.st_dev) ||
                     (rename(from, to) != 0 && errno == EXDEV);
    if (elsewhere)
        return fail(error, STATUS_USAGE,
                    "%s: is on another file system than %s, so that finished runs cannot be renamed into place; "
                    "unmount it, or name an output on it",
                    path, results->output.path);
    return STATUS_OK;
}

/* Takes a second lock, by fcntl, because parts_are_locked can ask for its holder without taking it. On a file system
 * without such locks parts_are_locked returns false. */
static void acquire_visible_lock(int lock, bool shared) {
    struct flock all_bytes = {.l_type = shared ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET};
    fcntl(lock, F_SETLK, &all_bytes);
}

bool parts_are_locked(const char *parts) {
    struct flock all_bytes = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    OWNED char *path = must_printf("%s/lock", parts);
    OWNED_DESCRIPTOR int lock = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return lock >= 0 && fcntl(lock, F_GETLK, &all_bytes) == 0 && all_bytes.l_type != F_UNLCK;
}

/* The first shard that is running: "shard 3 of 8 (node n7, job 1234_3)"; NULL: no shard is. The caller frees. */
static char *running_shard(const char *root) {
    FREED_BY(texts_clear) struct texts folders = shard_folders(root);
    char *found = NULL;
    int index, shards;
    for (int i = 0; i < folders.count && !found; i++) {
        if (!parts_are_locked(folders.items[i])) continue;
        OWNED char *host = manifest_text(folders.items[i], "place");
        shard_folder_parse(strrchr(folders.items[i], '/') + 1, &index, &shards);
        found = must_printf("shard %d of %d%s%s%s", index, shards, host ? " (" : "", host ? host : "", host ? ")" : "");
    }
    return found;
}

/* ---- the holder -------------------------------------------------------------------------------------------------- */

/* The text of a lock file whose lock one process holds alone. It is followed by "node n7, job 1234_3" and a newline. */
static const char holder_head[] = "tilerun: held on ";
enum { HOLDER_BYTES = 256 };

/* Writes this process as the holder into a lock file: the same number of bytes each time, so that nothing is left of
 * the last holder's text. */
static enum status write_holder(const char *path, int lock, struct error *error) {
    OWNED char *host = environment_host();
    char text[HOLDER_BYTES] = {0};
    int length = snprintf(text, sizeof text, "%s%.200s\n", holder_head, host);
    memset(text + length, ' ', sizeof text - (size_t)length);
    errno = 0;
    if (pwrite(lock, text, HOLDER_BYTES, 0) == HOLDER_BYTES) return STATUS_OK;
    return fail_write(error, path, errno ? errno : ENOSPC);
}

/* Reads the holder from a lock file. false: the file is neither empty nor as write_holder left it (a crash of the
 * machine may leave zeros). *holder becomes the text, which the caller frees; NULL: there is none. */
static bool read_holder(int lock, char **holder) {
    char text[512];
    size_t head = sizeof holder_head - 1;
    ssize_t length = pread(lock, text, sizeof text - 1, 0);
    *holder = NULL;
    if (length <= 0) return length == 0;
    if (length == HOLDER_BYTES && text[0] == '\0' && memcmp(text, text + 1, HOLDER_BYTES - 1) == 0) return true;
    text[length] = '\0';
    if (strncmp(text, holder_head, head) != 0) return false;
    text[strcspn(text, "\n")] = '\0';
    *holder = must_strdup(text + head);
    return true;
}

/* Describes the holder of the lock: "shard 3 of 8 (node n7, job 1234_3)", "node n7, job 1234"; NULL: not known. The
 * caller frees. */
static char *holder_of(const struct results *results, int lock) {
    char *holder = results->shard ? NULL : running_shard(results->folder.root);
    if (!holder) read_holder(lock, &holder);
    return holder;
}

/* Does the holder run on another machine? Not if it is unknown. */
static bool is_elsewhere(const char *holder) {
    OWNED char *here = environment_host();
    here[strcspn(here, ",")] = '\0';
    const char *node = holder ? strstr(holder, "node ") : NULL;
    size_t length = strlen(here);
    bool same = node && strncmp(node, here, length) == 0 && strchr(",)", node[length]);
    return node && !same;
}

/* Fails because another process has the lock of a folder. */
static enum status refuse_locked(const struct results *results, bool shared, const char *holder, struct error *error) {
    enum status status = STATUS_USAGE;
    const char *where = holder ? holder : "", *open = holder ? " (" : "", *close = holder ? ")" : "";
    if (holder && strncmp(holder, "shard ", 6) == 0)
        return fail(error, status, "output %s: %s is still running", results->output.name, holder);
    if (results->shard && !shared)
        return fail(error, status, "output %s: another tilerun is running shard %d of %d%s%s%s", results->output.name,
                    results->shard->index, results->shard->count, open, where, close);
    return fail(error, status, "output %s: another tilerun is writing it%s%s%s", results->output.name, open, where,
                close);
}

/* The seconds since the lock file was written; 0: unknown. */
static double age_of(int lock) {
    struct stat about;
    return fstat(lock, &about) == 0 ? difftime(time(NULL), about.st_mtime) : 0;
}

/* Waits a moment for the lock of a process on another machine: Slurm may have ended that process, but the file
 * system has not noticed yet. The first time, prints that it waits. STATUS_INTERRUPTED: it has waited long enough, and
 * has printed that. */
static enum status wait_for_other(const struct results *results, const char *holder, int lock, double waited,
                                  struct error *error) {
    const struct timespec pause = {0, OTHER_NS};
    if (waited >= results->policy.lock_wait_s) {
        text_print_stderr("tilerun: output %s: has waited %.0f s for %s, which has held the lock for %.0f s; the same "
                          "command continues\n",
                          results->output.name, waited, holder, age_of(lock));
        return fail(error, STATUS_INTERRUPTED, "waited too long");
    }
    if (waited == 0)
        text_print_stderr("tilerun: output %s: waits up to %.0f s for %s, which has held the lock for %.0f s\n",
                          results->output.name, results->policy.lock_wait_s, holder, age_of(lock));
    nanosleep(&pause, NULL);
    return interrupt_check(error);
}

/* Takes the lock of an open file. If another process has it, waits as wait_for_other does (under Slurm, for another
 * machine), or for a shared lock MAX_WAITS times; then STATUS_USAGE. Succeeds without the lock if the file system has
 * no locks: there the user must not start two jobs on one output. */
static enum status hold(const struct results *results, bool shared, int lock, struct error *error) {
    const struct timespec pause = {0, WAIT_NS};
    double begun = -1;
    enum status status = STATUS_OK;
    for (int i = 0; !status && flock(lock, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0 && errno == EWOULDBLOCK; i++) {
        OWNED char *holder = holder_of(results, lock);
        if (getenv("SLURM_JOB_ID") && is_elsewhere(holder)) {
            double waited = begun < 0 ? 0 : now_s() - begun;
            if (begun < 0) begun = now_s();
            status = wait_for_other(results, holder, lock, waited, error);
        } else if (!shared || i >= MAX_WAITS) {
            status = refuse_locked(results, shared, holder, error);
        } else {
            nanosleep(&pause, NULL);
        }
    }
    return status;
}

/* Makes the folder, opens and locks its lock file and, unless the lock is `shared`, writes the holder into it. *held:
 * its descriptor. *again: its last holder was just removing the file, so nothing is held. */
static enum status try_lock(const struct results *results, const char *folder, bool shared, int *held, bool *again,
                            struct error *error) {
    struct stat about;
    OWNED char *holder = NULL;
    *again = false;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return fail(error, STATUS_USAGE, "%s: cannot be made: %s", folder, strerror(errno));
    TRY(check_folder(results, folder, error));
    OWNED char *path = must_printf("%s/lock", folder);
    enum status status = STATUS_OK;
    int descriptor = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    *again = descriptor < 0 && errno == ENOENT;
    if (descriptor < 0 && !*again) {
        int number = errno;
        OWNED char *hint = permission_hint(results->folder.root, number);
        status = fail(error, STATUS_USAGE, "%s: cannot be opened: %s%s", path, strerror(number), hint);
    } else if (descriptor >= 0 &&
               (fstat(descriptor, &about) != 0 || !S_ISREG(about.st_mode) || !read_holder(descriptor, &holder)))
        status = fail(error, STATUS_USAGE, "%s: has a name of tilerun's but is not its lock; move it away first", path);
    else if (descriptor >= 0 && !(status = hold(results, shared, descriptor, error)))
        *again = !path_is_file(path, &about);
    if (descriptor >= 0 && !status && !*again && !shared) status = write_holder(path, descriptor, error);
    if (descriptor >= 0 && (status || *again))
        close(descriptor);
    else if (descriptor >= 0)
        acquire_visible_lock(*held = descriptor, shared);
    return status;
}

/* Tries until the lock file is not one that its last holder removes; STATUS_USAGE after MAX_TRIES times. */
static enum status acquire_lock(const struct results *results, const char *folder, bool shared, int *lock,
                                struct error *error) {
    bool again = true;
    for (int i = 0; again && i < MAX_TRIES; i++) TRY(try_lock(results, folder, shared, lock, &again, error));
    if (again)
        return fail(error, STATUS_USAGE, "output %s: other tileruns are starting and ending on it; try again",
                    results->output.name);
    return STATUS_OK;
}

enum status results_acquire_lock(struct results *results, struct error *error) {
    if (results->shard) TRY(acquire_lock(results, results->folder.root, true, &results->folder.shared_lock, error));
    return acquire_lock(results, results->folder.parts, false, &results->folder.lock, error);
}
