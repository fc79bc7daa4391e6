/* cache.c - names and moves files of the cache. */
#include "cache.h"

#include "../base/fail.h"
#include "../base/path.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folder of the cache, made if it is missing. NULL: there is none that only this user writes. The caller frees. */
static char *cache_folder(void) {
    OWNED char *folder = path_cache();
    if (!folder) return NULL;
    OWNED char *parent = path_folder(folder);
    mkdir(parent, 0700);
    struct stat about;
    mkdir(folder, 0700);
    bool owned = stat(folder, &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == geteuid();
    return owned && !(about.st_mode & 0022) ? disown(&folder) : NULL;
}

void cache_name(const char *key, const char *suffix, struct cache_entry *entry) {
    OWNED char *folder = cache_folder();
    *entry = (struct cache_entry){.path = folder ? must_printf("%s/%s.%s", folder, key, suffix) : NULL};
}

bool cache_holds(const struct cache_entry *entry) {
    struct stat about;
    return entry->path && stat(entry->path, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0 &&
           about.st_uid == geteuid() && access(entry->path, R_OK) == 0;
}

char *cache_temporary_folder(void) {
    const char *root = getenv("TMPDIR");
    OWNED char *folder = must_printf("%s/tilerun-compile-XXXXXX", root && *root ? root : "/tmp");
    return mkdtemp(folder) ? disown(&folder) : NULL;
}

enum status cache_begin(struct cache_entry *entry, struct error *error) {
    if (entry->path) {
        entry->temporary = must_printf("%s.XXXXXX", entry->path);
        int descriptor = mkstemp(entry->temporary);
        if (descriptor >= 0) return close(descriptor), STATUS_OK;
        free(entry->temporary);
        entry->temporary = NULL;
    }
    entry->folder = cache_temporary_folder();
    if (!entry->folder)
        return fail(error, STATUS_IO,
                    "cannot make a folder for compiled code, neither in XDG_CACHE_HOME nor in TMPDIR");
    entry->temporary = must_printf("%s/code", entry->folder);
    return STATUS_OK;
}

void cache_put(struct cache_entry *entry) {
    if (!entry->temporary) return;
    bool kept = false;
    if (!entry->folder) {
        OWNED_DESCRIPTOR int descriptor = open(entry->temporary, O_RDONLY | O_CLOEXEC);
        kept = descriptor >= 0 && fsync(descriptor) == 0 && rename(entry->temporary, entry->path) == 0;
    }
    if (kept) {
        free(entry->temporary);
        entry->temporary = NULL;
    }
}

void cache_end(struct cache_entry *entry) {
    if (entry->temporary) unlink(entry->temporary);
    if (entry->folder) rmdir(entry->folder);
    free(entry->path);
    free(entry->temporary);
    free(entry->folder);
    *entry = (struct cache_entry){.path = NULL};
}
