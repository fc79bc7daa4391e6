/* cache.h - compiled code, kept from one process to the next in XDG_CACHE_HOME/tilerun or ~/.cache/tilerun. A file is
 * written under a temporary name and then renamed, so that several processes need no lock. Without a writable folder
 * each process uses a temporary one of its own. */
#ifndef RUNNER_CACHE_H
#define RUNNER_CACHE_H

#include "../../kernels/core/status.h"

#include <stdbool.h>
#include <stddef.h>

/* A file of compiled code. */
struct cache_entry {
    char *path;      /* of the file named by its key; NULL: there is no folder that only this user writes */
    char *temporary; /* of the temporary file to write; NULL: cache_begin was not called */
    char *folder;    /* the temporary folder of `temporary`, which cache_end removes; NULL: it is in the cache's */
};

/* Names the entry for a key (hexadecimal) and a suffix, "so". The caller calls cache_end. */
void cache_name(const char *key, const char *suffix, struct cache_entry *entry);
/* Is there such a file, and may it be used: does it belong to this user, and can nobody else write to its folder? */
bool cache_holds(const struct cache_entry *entry);
/* Names the file to write, entry->temporary. STATUS_IO: no folder can be made. */
enum status cache_begin(struct cache_entry *entry, struct error *error);
/* Renames the written file to its key if possible; otherwise cache_end removes the file. A process that has opened it
 * can still use it. */
void cache_put(struct cache_entry *entry);
/* Removes what is temporary, and frees the entry's members. */
void cache_end(struct cache_entry *entry);

/* Makes a new temporary folder; the caller frees the name and removes the folder. NULL, with errno: it failed. */
char *cache_temporary_folder(void);

#endif
