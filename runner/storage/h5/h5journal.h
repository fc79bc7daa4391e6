/* h5journal.h - an undo journal: keeps the old bytes of a finished file that is changed in place, so that the file can
 * be restored, by this process or, if it is killed, by the next one. */
#ifndef RUNNER_STORAGE_H5JOURNAL_H
#define RUNNER_STORAGE_H5JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#define H5_JOURNAL ".undo" /* suffix of the name of a journal */

struct h5_journal;

/* Creates the journal of the file at `path`. NULL: it cannot be written, and errno says why. The caller frees. */
struct h5_journal *h5_journal_begin(const char *path);
/* Saves `bytes` bytes from `address` on, as far as the original file has them; call it before they are overwritten or
 * cut off. false: they cannot be read or saved, and errno says why; the file must not be changed. */
bool h5_journal_keep(struct h5_journal *journal, int descriptor, uint64_t address, uint64_t bytes);

/* Restores the original file. false: it failed, or the file is final. Call it once, from any thread, even while another
 * thread writes to the file: that thread then blocks for ever at its next write. */
bool h5_restore(struct h5_journal *journal);
/* Restores the file at `path` from the journal that a killed process left, and removes the journal. false: it failed.
 */
bool h5_restore_leftover(const char *path);

/* Lock and unlock the file: while it is locked it is neither changed nor restored by others. Do nothing for a NULL
 * journal. `final`: h5_restore no longer restores the file. */
void h5_journal_lock(struct h5_journal *journal);
void h5_journal_unlock(struct h5_journal *journal, bool final);
void h5_journal_free(struct h5_journal *journal);

#endif
