/* results.h - for the files of store/ alone: open.c (opening and closing), place.c (the folder of parts), lock.c (its
 * locks), shard.c (shards of a job), shard_manifest.c (where they ran), key.c (keys), part.c (one run's file), trailer.c (the
 * hash at its end), panels.c (runs that were done by panels), wait.c (results that other shards make), previous_output.c (an
 * earlier, unfinished OUTPUT), assemble.c (the final file), copy_run.c (its data, out of parts), to.c (files that results
 * go to), link.c (...whose outputs stay in the parts), scales.c (dimension scales in it), carry.c
 * (attributes of inputs in it). */
#ifndef RUNNER_RESULTS_H
#define RUNNER_RESULTS_H

#include "../base/destination.h"
#include "../record/origin.h"
#include "store.h"

struct keys;     /* keys of a job's tasks and runs, each computed once */
struct previous; /* an existing OUTPUT of this job */
struct found_part;
struct counterpart;
struct rawread;
struct rawwrite;
struct stored;

/* In the folder of a shard: what job it does, and where. */
#define SHARD_MANIFEST     "shard.h5"
#define SHARD_MANIFEST_NEW "shard.tmp"

struct results {
    struct destination place; /* OUTPUT */
    char *whole;              /* path of OUTPUT.parts, beside the target if OUTPUT is a link */
    char *parts;              /* the folder that parts are written to: `whole`, or a shard's own in it */
    int lock;                 /* descriptor of `parts`/lock; -1: not taken */
    int shared_lock;          /* of a shard: of `whole`/lock; -1: not taken */
    char job_sha256[65];
    bool overwrite; /* OUTPUT may be replaced whatever it holds */
    bool cleared;   /* all parts were removed */
    bool linked;    /* OUTPUT's values lie in the parts, which must stay */
    bool joins;     /* this is `merge`, */
    bool links;     /* with --link: OUTPUT shall be linked */
    const struct plan *plan;
    const struct shard *shard; /* NULL: the whole job */
    struct readers *readers;
    struct keys *keys;
    struct found_part *found; /* a whole job that goes on: the parts that lie here, those of shards too, by key */
    int found_count;
    struct previous *previous;   /* NULL: none */
    struct to_files *to;         /* files that results go to; NULL: none */
    const struct panels *panels; /* NULL: the job is not done by panels; */
    struct counterpart *other;   /* else the other of its two plans */
    struct h5_journal *journal;  /* of the part that becomes OUTPUT; NULL: none */
    bool *kept;                  /* for each task: an earlier run's part holds its result */
    bool *seen;                  /* for each run: it was finished before */
};

/* Creates the folders and takes the locks. STATUS_USAGE: another process has a lock, or a folder is unusable. */
enum status results_take_lock(struct results *results, struct error *error);

/* Counts the parts and the foreign files in results->parts, with the folders of shards in it. STATUS_USAGE: something
 * has one of tilerun's names but is not a regular file. */
enum status results_count_parts(const struct results *results, int *parts, int *foreign, struct error *error);
/* Removes tilerun's own files from there: what killed writers left, and with `finished` the parts too. */
void results_clear(struct results *results, bool finished);

/* "shard-3-of-8": is it the name of a shard's folder? */
bool shard_folder_parse(const char *name, int *index, int *count);
/* The folder that a shard writes its parts to; NULL: `whole` itself. The caller frees. */
char *shard_own_folder(const char *whole, const struct shard *shard);
/* Removes the manifest that results_write_manifest wrote. */
void shard_forget(const struct results *results);
/* From a shard's folder: where it ran, "node n7, job 1234_3"; NULL: it has not begun. The caller frees. */
char *manifest_host(const char *folder);
/* Copies what the shards say of themselves to /shards, with the numbers of the runs that came from each. */
enum status shards_write_origins(hid_t file, const struct results *results, struct error *error);
/* A shard that is at work: "shard 3 of 8 (node n7, job 1234_3)"; NULL: none. The caller frees. */
char *shards_running(const char *whole);
/* Fills results->found. */
void shards_find_parts(struct results *results);
void shards_free_parts(struct results *results);
bool results_later(const struct timespec *one, const struct timespec *other);
/* Has a shard made one of the job's results since that time? */
bool shards_made_since(const struct results *results, const struct timespec *time);
/* Removes the parts that are no later than OUTPUT, which is complete: a killed process had not done so yet. */
void parts_remove_older(const char *parts, const struct timespec *time);

/* Where the part of a run lies, or shall lie. The caller frees. */
char *results_part_path(const struct results *results, const struct run *run);
/* The same by its key; KEY.h5. */
char *results_part_of_key(const struct results *results, const char key[33]);
/* Appends a trailer to a closed file: the hash of its bytes, for part_is_whole. `sync`: once they are on the disk. */
enum status part_seal(const char *path, bool sync, struct error *error);
/* What a file's trailer says. SYNCED: a crash of the machine after that has not damaged the file. */
enum trailer { TRAILER_NONE, TRAILER_HASH, TRAILER_SYNCED };
enum trailer part_trailer(const char *path);
/* Reads the row of a run's part that is undamaged; false: there is none. *has_output: the part holds its output. */
bool part_read_row(const struct results *results, const struct run *run, const char *path, struct result_row *row,
                   bool *has_output);
/* Makes a file's data durable. */
enum status results_sync_file(const char *path, struct error *error);
/* Makes renames in a folder durable. */
enum status results_sync_folder(const char *folder, struct error *error);

/* Keys: a hash of everything that a result depends on, as 32 hex digits. The inputs that a task reads, directly or
 * through results, must have been hashed before its key, or that of one of its runs, is asked for. */
struct keys *keys_create(const struct plan *plan, const struct readers *readers);
void keys_free(struct keys *keys);
/* The keys are those of a job's panels: what is not divided has the key that it has in the whole job. */
void keys_use_panels(struct keys *keys, const struct panels *panels);
/* The key of a run, which names its part. */
void keys_of_run(struct keys *keys, const struct run *run, char key[33]);
/* The key of a task, which its result depends on. */
void keys_of_task(struct keys *keys, int number, char key[33]);
/* One hash of the keys of all tasks (NULL), or of the tasks that `tasks` marks: it identifies a results file. */
void keys_of_tasks(struct keys *keys, const bool *tasks, char key[33]);

/* Of a job that is done by panels (panels.c). The other plan with its keys; false: there is none. */
bool counterpart_keys(const struct results *results, const struct plan **plan, struct keys **keys);
void counterpart_free(struct counterpart *other);
/* For `merge`: finds all panels of a run and fills its row from theirs; false: some are missing. */
bool panels_find_row(struct results *results, const struct run *run, bool needs_output, struct result_row *row);
/* Calls `take` with the path of each panel's part that was found, and the number of the run of the whole. */
void panels_each_part(const struct results *results, void (*take)(void *context, int run, const char *path),
                      void *context);
/* How many parts of panels there are; with `remove` they are removed. */
int panels_count_parts(const struct results *results, bool remove);
/* Did it find them? Then the run has no part of its own. */
bool panels_were_found(const struct results *results, const struct run *run);
/* Puts the panels' outputs together in a new data set. */
enum status panels_join(const struct results *results, const struct run *run, hid_t file, const char *path,
                        struct error *error);
/* The parts of a run's panels and their places in its output. The caller frees each path, *paths and *places. */
int panels_list(const struct results *results, const struct run *run, char ***paths, struct box **places);
/* Writes the sums of their samples. */
enum status panels_write_samples(const struct results *results, const struct run *run, hid_t file, const char *path,
                                 struct error *error);
/* Writes the rows of the panels that were found as the table /panels. */
enum status panels_write_rows(hid_t file, const struct results *results, struct error *error);
/* The plan of the panels and, for each of its runs, whether it is missing, where `missing` says so of the runs of the
 * whole. The caller frees *panel_missing. */
const struct plan *panels_missing(const struct results *results, const bool *missing, bool **panel_missing);

/* Does the results file at `path` need its parts? */
bool link_is_at(const char *path);
/* Makes the output of a run a virtual data set: of its part, or (`panels`) of those of its panels. */
enum status link_output(const struct results *results, const struct run *run, bool panels, hid_t file, const char *path,
                        struct error *error);
/* Writes the name of the folder of parts to a linked file. */
enum status link_mark(const struct results *results, hid_t file, struct error *error);
/* Copies an output from a linked file. */
enum status link_resolve(const struct results *results, const struct run *run, const struct stored *from, hid_t file,
                         const char *path, struct error *error);
/* Copies a data set, or what `raw` reads of it, to its place in another one; `memory` has PIECE_BYTES. */
#define PIECE_BYTES (INT64_C(16) << 20)
enum status copy_dataset(struct h5_dataset *from, struct rawread *raw, struct h5_dataset *to, struct rawwrite *write,
                         const struct box *place, void *memory, struct error *error);

/* Is the file at `path` a results file? If not, `instead` says what it is: "is not an HDF5 file". */
bool results_are_at(const char *path, char instead[512]);
/* Opens the existing OUTPUT if all its runs are runs of this job. *done: it lacks none. STATUS_USAGE: it is not this
 * job's, and `overwrite` was not given. */
enum status previous_open(struct results *results, bool restricted, bool *done, struct error *error);
void previous_close(struct previous *previous);
/* The open file; negative: there is none. */
hid_t previous_file(const struct results *results);
/* In what an open file, made of the job with that resolved text, differs from this job: "is another job than this one,
 * or was edited since". `sha256` may be NULL. The caller frees. */
char *results_difference(const struct results *results, hid_t file, const char *sha256);
/* Finds the row of a run that was `ok`; then *has_output tells whether its output is stored. */
bool previous_find(const struct results *results, const struct run *run, struct result_row *row, bool *has_output);

/* Writes a data set of one dimension. */
enum status results_write_vector(hid_t file, const char *path, enum dtype dtype, int64_t count, const void *data,
                                 const char *units, struct error *error);

/* Where the data of a run are in an open file; objects that do not exist may be named. */
struct stored {
    hid_t file;
    char output[512];
    int run;     /* the number under which /samples has them; -1: the file is a part */
    bool opened; /* by copy_open, which also puts up a fence around the file at `path` */
    char *path;
    const char *outer_fence;
};
/* Finds where the previous OUTPUT holds the data of a run; false: it has no such run that was `ok`. */
bool previous_stored(const struct results *results, const struct run *run, struct stored *stored);

#endif
