/* destination.c - follows links, checks folders, compares destinations, moves finished files into place. */
#include "destination.h"

#include "path.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_LINKS = 40 }; /* the limit of the Linux kernel */

bool path_is_file(const char *path, const struct stat *file) {
    struct stat about;
    return path && stat(path, &about) == 0 && about.st_dev == file->st_dev && about.st_ino == file->st_ino;
}

/* Is this a link that another user has put into a world-writable folder? The kernel refuses to follow such a link in a
 * sticky folder, but readlink does not. */
static bool is_planted(const char *path, const struct stat *link) {
    struct stat about;
    OWNED char *folder = path_folder(path);
    return link->st_uid != geteuid() && stat(folder, &about) == 0 && about.st_mode & S_IWOTH &&
           about.st_uid != link->st_uid;
}

/* The path that a name leads to: follows the symbolic links of its last component, even to where nothing exists. Sets
 * *planted if one of the links is_planted. The caller frees. */
static char *follow(const char *name, bool *planted) {
    char *path = must_strdup(name), target[PATH_MAX];
    struct stat about;
    for (int i = 0; i < MAX_LINKS && lstat(path, &about) == 0 && S_ISLNK(about.st_mode); i++) {
        *planted |= is_planted(path, &about);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length < 0) break;
        target[length] = '\0';
        OWNED char *folder = path_folder(path);
        char *next = target[0] == '/' ? must_strdup(target) : must_printf("%s/%s", folder, target);
        free(path);
        path = next;
    }
    return path;
}

enum status destination_find(const char *kind, const char *name, struct destination *destination, struct error *error) {
    bool planted = false;
    *destination = (struct destination){.kind = kind, .name = must_strdup(name), .path = follow(name, &planted)};
    destination->folder = path_folder(destination->path);
    if (planted)
        return fail(error, STATUS_USAGE,
                    "%s %s: is a symbolic link that another user has put into a world-writable folder", kind, name);
    return destination_look(destination, error);
}

enum status destination_look(struct destination *destination, struct error *error) {
    destination->exists = stat(destination->name, &destination->about) == 0;
    if (!destination->exists && errno != ENOENT && errno != ENOTDIR)
        return fail(error, STATUS_USAGE, "%s %s: %s", destination->kind, destination->name, strerror(errno));
    return STATUS_OK;
}

void destination_free(struct destination *destination) {
    free(destination->name);
    free(destination->path);
    free(destination->folder);
    *destination = (struct destination){.exists = false};
}

enum status destination_check(const struct destination *destination, struct error *error) {
    const char *kind = destination->kind, *name = destination->name, *folder = destination->folder;
    size_t length = strlen(destination->path);
    struct stat about;
    if (destination->exists && S_ISDIR(destination->about.st_mode))
        return fail(error, STATUS_USAGE, "%s %s: is a directory", kind, name);
    if (length == 0 || destination->path[length - 1] == '/')
        return fail(error, STATUS_USAGE, "%s '%s': names no file", kind, name);
    if (stat(folder, &about) != 0)
        return fail(error, STATUS_USAGE, "%s %s: folder %s: %s", kind, name, folder, strerror(errno));
    if (!S_ISDIR(about.st_mode)) return fail(error, STATUS_USAGE, "%s %s: %s is not a folder", kind, name, folder);
    if (access(folder, W_OK | X_OK) != 0)
        return fail(error, STATUS_USAGE, "%s %s: cannot write in %s: %s", kind, name, folder, strerror(errno));
    uid_t user = geteuid();
    if (destination->exists && about.st_mode & S_ISVTX && user != 0 && user != about.st_uid &&
        user != destination->about.st_uid)
        return fail(error, STATUS_USAGE, "%s %s: belongs to another user, and %s is sticky: it cannot be replaced",
                    kind, name, folder);
    return STATUS_OK;
}

bool destination_same(const struct destination *one, const struct destination *other) {
    struct stat folder;
    if (one->exists && other->exists)
        return one->about.st_dev == other->about.st_dev && one->about.st_ino == other->about.st_ino;
    return strcmp(path_name(one->path), path_name(other->path)) == 0 && stat(one->folder, &folder) == 0 &&
           path_is_file(other->folder, &folder);
}

enum status destination_put(const struct destination *destination, const char *finished, struct error *error) {
    struct stat about; /* what exists there by now */
    if (stat(destination->path, &about) == 0 && S_ISREG(about.st_mode) && chmod(finished, about.st_mode & 07777) != 0)
        return fail(error, STATUS_IO, "%s %s: its permissions cannot be kept: %s", destination->kind, destination->name,
                    strerror(errno));
    if (rename(finished, destination->path) != 0)
        return fail(error, STATUS_IO, "%s %s: the finished file %s cannot be renamed to it: %s", destination->kind,
                    destination->name, finished, strerror(errno));
    return STATUS_OK;
}
