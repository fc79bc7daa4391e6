/* folder.h - the files and folders in OUTPUT.parts: their names, lists of them, and who may read them. */
#ifndef RUNNER_STORE_FOLDER_H
#define RUNNER_STORE_FOLDER_H

#include "../base/text.h"
#include "../divide/shard.h"
#include <time.h>

/* The manifest in the folder of a shard: what job it does, and where; its name while it is written. */
#define SHARD_MANIFEST     "shard.h5"
#define SHARD_MANIFEST_NEW "shard.tmp"

/* The end of the name of a note that a unit took too long. */
#define TIMEOUT_NOTE ".timeout"

/* "shard-3-of-8": is it the name of a shard's folder? */
bool shard_folder_parse(const char *name, int *index, int *count);
/* The folders of shards in OUTPUT.parts, sorted. */
struct texts shard_folders(const char *root);
/* The folder of a shard. The caller frees. */
char *shard_folder(const char *root, int index, int count);
/* The folder that a shard writes its parts to; a shard that is NULL: `root` itself. The caller frees. */
char *shard_own_folder(const char *root, const struct shard *shard);

/* The path of OUTPUT.parts; NULL: `output` is no place for a file. The caller frees. */
char *parts_folder_of(const char *output);
/* STATUS_IO: this user may not read a folder or a file in OUTPUT.parts, which another user has made, and which would
 * seem to be missing. */
enum status parts_check_readable(const char *output, struct error *error);
/* Is the lock in the folder `parts` held by a process, not this one? Takes no lock, since another tilerun that starts
 * at that moment would find it taken. */
bool parts_are_locked(const char *parts);
/* The paths of the finished parts in the folder `parts` and in those of shards in it, in no order. */
struct texts parts_list(const char *parts);

/* What helps against errno `number` in OUTPUT.parts: "; its owner can run `chmod -R g+rwX out.h5.parts`"; "": it is not
 * a matter of permissions. The caller frees. */
char *permission_hint(const char *root, int number);
/* STATUS_IO: this user may not read `path`, a folder or a file in OUTPUT.parts, which is `root`. That it does not exist
 * is no error. shard_check_readable checks a shard's folder and its manifest. */
enum status part_check_readable(const char *root, const char *path, struct error *error);
enum status shard_check_readable(const char *root, const char *folder, struct error *error);

/* Is the time `one` later than `other`? */
bool results_later(const struct timespec *one, const struct timespec *other);

/* Removes the parts in the folder `parts` that are not later than `time`, that of a complete OUTPUT: a killed process
 * had not removed them yet. */
void parts_remove_older(const char *parts, const struct timespec *time);

#endif
