/* h5journal.h - keeps the old bytes of a finished file that is changed in place, so that it can be restored: by this
 * process, or, if that is killed, by the next one. */
#ifndef RUNNER_STORAGE_H5JOURNAL_H
#define RUNNER_STORAGE_H5JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#define H5_JOURNAL ".undo" /* what follows the file's name in that of its journal */

struct h5_journal;

/* Begins the journal of the file at `path`. NULL: it cannot be written, and errno says why. The caller frees. */
struct h5_journal *h5_journal_begin(const char *path);
/* Called before `bytes` bytes from `address` on are overwritten or cut off: keeps those that belong to the file as it
 * was. false: they cannot be read or kept, and errno says why; the file must stay as it is. */
bool h5_journal_keep(struct h5_journal *journal, int descriptor, uint64_t address, uint64_t bytes);

/* Restores the file as it was. false: it failed, or the file is final. Call it once, from any thread, even while
 * another thread writes to the file: that thread then waits for ever at its next write. */
bool h5_restore(struct h5_journal *journal);
/* Restores the file at `path` by the journal that a killed process left, and removes that. false: it failed. */
bool h5_restore_leftover(const char *path);

/* Between these two calls the file is neither changed nor restored. A NULL journal: they do nothing. `final`: the file
 * stays as it is from now on. */
void h5_journal_lock(struct h5_journal *journal);
void h5_journal_unlock(struct h5_journal *journal, bool final);
void h5_journal_free(struct h5_journal *journal);

#endif
