/* atomic_file.c - writes a temporary file and renames it, or writes directly where a rename cannot replace the
 * target. */
#include "atomic_file.h"

#include "fail.h"
#include "path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* May the file be replaced without --overwrite: is it empty, or does it begin with `beginning`, of which the first 256
 * bytes count? */
static bool is_replaceable(const char *path, const char *beginning) {
    char begins[256] = "";
    size_t length = strlen(beginning);
    OWNED_FILE FILE *file = fopen(path, "re");
    if (!file) return false;
    size_t got = fread(begins, 1, length < sizeof begins ? length : sizeof begins, file);
    // cppcheck-suppress resourceLeak; OWNED_FILE closes it
    return got == 0 || (got == length && memcmp(begins, beginning, length) == 0);
}

/* Opens what a rename cannot replace: a device, a pipe, or the file that is the process's standard output or error. */
static enum status open_directly(const struct destination *destination, int *descriptor, struct error *error) {
    struct stat about;
    for (int standard = 1; standard <= 2 && *descriptor < 0; standard++)
        if (fstat(standard, &about) == 0 && path_is_file(destination->name, &about)) *descriptor = dup(standard);
    if (*descriptor >= 0 || S_ISREG(destination->about.st_mode)) return STATUS_OK;
    if (!S_ISCHR(destination->about.st_mode) && !S_ISFIFO(destination->about.st_mode))
        return fail(error, STATUS_USAGE, "%s %s: is not a regular file", destination->kind, destination->name);
    /* O_NONBLOCK: does not wait for a pipe's reader */
    *descriptor = open(destination->name, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (*descriptor < 0)
        return fail(error, STATUS_USAGE, "%s %s: cannot be written: %s", destination->kind, destination->name,
                    errno == ENXIO ? "the pipe has no reader" : strerror(errno));
    fcntl(*descriptor, F_SETFL, fcntl(*descriptor, F_GETFL) & ~O_NONBLOCK);
    return STATUS_OK;
}

enum status atomic_file_open(const char *kind, const char *name, const char *beginning, bool overwrite,
                             struct atomic_file *file, struct error *error) {
    *file = (struct atomic_file){.descriptor = -1};
    TRY(destination_find(kind, name, &file->destination, error));
    const struct destination *destination = &file->destination;
    if (destination->exists && !S_ISDIR(destination->about.st_mode))
        TRY(open_directly(destination, &file->descriptor, error));
    if (file->descriptor >= 0) return STATUS_OK;
    TRY(destination_check(destination, error));
    if (destination->exists && !overwrite && !is_replaceable(destination->path, beginning))
        return fail(error, STATUS_USAGE, "%s %s: exists and is not a %s; --overwrite replaces it", kind, name, kind);
    return STATUS_OK;
}

/* Creates a temporary file of an unused name in the destination's folder and sets *path to it. Returns a descriptor;
 * -1, with errno set and *path NULL: it failed. */
static int create_temporary(const struct destination *destination, char **path) {
    int descriptor = -1;
    for (int number = 0; descriptor < 0; number++) {
        *path = must_printf("%s/.tilerun-%s-%d-%d", destination->folder, destination->kind, (int)getpid(), number);
        descriptor = open(*path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor >= 0) break;
        int why = errno;
        free(*path);
        *path = NULL;
        errno = why;
        if (why != EEXIST) break;
    }
    return descriptor;
}

/* Reports that the errno `number` ended the writing. */
static enum status cannot_write(const struct atomic_file *file, int number, struct error *error) {
    return fail(error, STATUS_IO, "%s %s: cannot be written: %s", file->destination.kind, file->destination.name,
                strerror(number));
}

enum status atomic_file_begin(struct atomic_file *file, struct error *error) {
    if (file->descriptor < 0) file->descriptor = create_temporary(&file->destination, &file->path);
    file->to = file->descriptor >= 0 ? fdopen(file->descriptor, "w") : NULL;
    if (!file->to) return cannot_write(file, errno, error);
    file->descriptor = -1; /* fclose closes it */
    return STATUS_OK;
}

enum status atomic_file_close(struct atomic_file *file, struct error *error) {
    enum status status = STATUS_OK;
    bool failed = ferror(file->to) != 0;
    errno = 0;
    failed = fclose(file->to) != 0 || failed;
    file->to = NULL;
    if (failed) status = cannot_write(file, errno ? errno : EIO, error);
    if (!status && file->path) status = destination_put(&file->destination, file->path, error);
    if (!status) {
        free(file->path); /* renamed: no temporary file is left to remove */
        file->path = NULL;
    }
    atomic_file_discard(file);
    return status;
}

void atomic_file_discard(struct atomic_file *file) {
    if (file->to) fclose(file->to);
    if (file->descriptor >= 0) close(file->descriptor);
    if (file->path) unlink(file->path);
    free(file->path);
    destination_free(&file->destination);
    *file = (struct atomic_file){.descriptor = -1};
}
