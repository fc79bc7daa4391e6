/* await.h - the results that a shard reads and other shards make. */
#ifndef RUNNER_STORE_AWAIT_H
#define RUNNER_STORE_AWAIT_H

#include "store.h"

/* The result of a task that other shards make, whole or by panels. The hashes that the task's key needs must be known.
 * The caller frees with awaited_end. */
struct awaited *awaited_begin(struct results *results, int task);
void awaited_end(struct awaited *const *pointer);
/* Is the awaited result decided? If so, *result_run becomes the run of the first panel that gave it, and later
 * tasks can read it; -1: there is no result, because all variants failed, were wrong or were skipped. */
bool awaited_look(struct awaited *awaited, int *result_run);

/* ---- the first missing part, and the shard that makes it ---- */

/* The shard's number. */
int awaited_shard(const struct awaited *awaited);
/* The name of the part's unit: "'product n=4, rows 0 to 15 of 64'". The caller frees. */
char *awaited_name(const struct awaited *awaited);
/* The host on which the shard works (*at_work) or worked: "node n7, job 12_1"; NULL: it has not begun. The caller
 * frees. */
char *awaited_host(const struct awaited *awaited, bool *at_work);
/* Why the shard has ended before its last run, so that it does not go back into a queue; NULL: it has not. *earlier:
 * the shard ended before this one began, so its next call may be about to begin. The caller frees. */
char *awaited_stop(const struct awaited *awaited, bool *earlier);
/* STATUS_IO: this user may not read the part, or the shard's folder. */
enum status awaited_check_readable(const struct awaited *awaited, struct error *error);

#endif
