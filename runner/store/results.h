/* results.h - what the files of store/ share. From the bottom up: key.c (keys), seal.c (what makes a file durable and
 * shows that it is whole), folder.c (what lies in OUTPUT.parts), manifest.c (what a shard is, and where it ran),
 * lock.c, part.c (one unit's file), units.c (units found, and taken together), previous_output.c (an OUTPUT that is
 * there already), await.c (units that other shards make), survey.c (what is missing), scales.c, output.c (data that go
 * from parts to files), to.c and to_resume.c (files that results go to), publish.c (OUTPUT), store.c (opening and
 * closing). */
#ifndef RUNNER_RESULTS_H
#define RUNNER_RESULTS_H

#include "../base/destination.h"
#include "../record/origin.h"
#include "store.h"

struct keys;     /* keys of a job's units and runs, each computed once */
struct previous; /* an existing OUTPUT of this job */
struct rawread;
struct rawwrite;
struct stored;

/* In the folder of a shard: what job it does, and where. */
#define SHARD_MANIFEST     "shard.h5"
#define SHARD_MANIFEST_NEW "shard.tmp"

/* A part that lies in OUTPUT.parts. */
struct found_part {
    char key[33];
    char *path;
    struct timespec written;
};

/* OUTPUT.parts, and what this process has in it. */
struct parts_folder {
    char *whole;     /* its path, beside the target if OUTPUT is a link */
    char *own;       /* the folder that parts are written to: `whole`, or a shard's own in it */
    int lock;        /* descriptor of `own`/lock; -1: not taken */
    int shared_lock; /* of a shard: of `whole`/lock; -1: not taken */
    bool cleared;    /* all parts were removed */
};
/* With --resume: the parts that lay there at the start, those of shards too, by key. */
struct found_parts {
    int count;
    struct found_part *of;
};
/* What may be replaced, and how OUTPUT shall be. */
struct policy {
    bool overwrite;     /* OUTPUT may be replaced whatever it holds */
    bool linked;        /* the OUTPUT that is there shows the parts, which must stay */
    bool merges;        /* this is `merge`, */
    bool links;         /* with --link: OUTPUT shall show the parts */
    double lock_wait_s; /* under Slurm, for a lock that another machine holds */
};
/* What is known of units. */
struct known_units {
    bool *kept;   /* for each unit: a part holds its result */
    bool *seen;   /* for each run of a unit: it was finished before */
    bool *in_one; /* for each run of the whole: one part has all of it, whatever its units are */
    bool reused;  /* a finished unit was found */
};

struct results {
    struct destination place; /* OUTPUT */
    struct parts_folder folder;
    struct policy policy;
    char job_sha256[65];
    const struct units *units;
    const struct plan *plan;   /* the whole: what OUTPUT is of */
    const struct shard *shard; /* NULL: the whole job */
    struct readers *readers;
    struct keys *keys;
    struct found_parts found;
    struct known_units known;
    struct previous *previous;  /* NULL: none */
    struct to_files *to;        /* files that results go to; NULL: none */
    struct h5_journal *journal; /* of the part that becomes OUTPUT; NULL: none */
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
/* The folder of a shard. The caller frees. */
char *shard_folder(const char *whole, int index, int count);
/* The folder that a shard writes its parts to; NULL: `whole` itself. The caller frees. */
char *shard_own_folder(const char *whole, const struct shard *shard);
/* Removes the manifest that results_write_manifest wrote. */
void shard_forget(const struct results *results);
/* What a shard's folder says of it. */
struct shard_state {
    bool begun;
    char *place, *log; /* where it ran, and the file that its stderr went to; NULL: not known */
    int32_t *units;    /* the runs of units that it does, by number */
    int unit_count;
    bool done; /* it has done all of them */
};
/* The job to join of those that were begun in OUTPUT.parts; false: there is none. Free with shard_job_free. */
bool manifests_find_job(const char *whole, struct shard_job *job);
/* Of all its shards, by number. Free with shard_states_free. */
int manifests_read_states(const char *whole, const struct shard_job *job, struct shard_state **states);
void shard_states_free(struct shard_state *states, int count);
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

/* Where the part of a unit, or of a whole run, lies or shall lie. The caller frees. */
char *results_unit_path(const struct results *results, const struct run *unit);
char *results_run_path(const struct results *results, const struct run *whole);
/* The same by its key; KEY.h5. */
char *results_part_of_key(const struct results *results, const char key[33]);
/* From now on the part of that key is this one, which takes the place of a damaged one elsewhere. */
void results_part_made(const struct results *results, const char key[33], const char *path);
/* Appends a trailer to a closed file: the hash of its bytes, for part_is_whole. `sync`: once they are on the disk. */
enum status part_seal(const char *path, bool sync, struct error *error);
/* What a file's trailer says. SYNCED: a crash of the machine after that has not damaged the file. */
enum trailer { TRAILER_NONE, TRAILER_HASH, TRAILER_SYNCED };
enum trailer part_trailer(const char *path);
/* Makes a file's data durable. */
enum status results_sync_file(const char *path, struct error *error);
/* Makes renames in a folder durable. */
enum status results_sync_folder(const char *folder, struct error *error);

/* Keys: a hash of everything that a result depends on, as 32 hex digits. The inputs that a task reads, directly or
 * through results, must have been hashed before its key, or that of one of its runs, is asked for. */
struct keys *keys_create(const struct units *units, const struct readers *readers);
void keys_free(struct keys *keys);
/* The key of a unit's run, or of a whole run, which names its part. They are the same where a run is one unit. */
void keys_of_unit(struct keys *keys, const struct run *unit, char key[33]);
void keys_of_run(struct keys *keys, const struct run *whole, char key[33]);
/* The key of a task of the whole, which its result depends on. */
void keys_of_task(struct keys *keys, int number, char key[33]);
/* One hash of the keys of all tasks (NULL), or of the tasks that `tasks` marks: it identifies a results file. */
void keys_of_tasks(struct keys *keys, const bool *tasks, char key[33]);

/* Will the output of this run be read, if it is right? A limit's never is. */
bool unit_wants_output(const struct results *results, const struct run *unit);
/* Reads the row of a part that is undamaged; false: there is none. *has_output: the part holds its output. */
bool part_read_row(const struct results *results, const char *path, struct result_row *row, bool *has_output);
/* A linked file needs seconds: larger parts that were synced are then not hashed. */
#define PART_LINKED_HASHED (INT64_C(1) << 20)
/* Makes a part of what an earlier OUTPUT, the open file `from`, holds of a run of the whole; `output`: its data set
 * there, NULL: none. */
enum status part_import(struct results *results, const struct run *whole, const struct result_row *row, hid_t from,
                        const char *output, struct error *error);
/* Copies a data set, or what `raw` reads of it, to its place in another one (NULL: to all of it), in pieces that end
 * where chunks end; `memory` has PIECE_BYTES. */
#define PIECE_BYTES (INT64_C(16) << 20)
enum status copy_dataset(struct h5_dataset *from, struct rawread *raw, struct h5_dataset *to, struct rawwrite *write,
                         const struct box *place, void *memory, struct error *error);

/* Closes what later tasks would have read of parts. */
void results_close_outputs(const struct results *results);
/* Has each unit of the run a part of its own, a panel? */
bool run_is_in_panels(const struct results *results, const struct run *whole);
/* The parts that a run is in, one or those of its panels, and their places in its output. Free with parts_of_run_free.
 */
int parts_of_run(const struct results *results, const struct run *whole, char ***paths, struct box **places);
void parts_of_run_free(char **paths, struct box *places, int count);
/* Puts the panels' outputs together in a new data set. */
enum status panels_join(const struct results *results, const struct run *whole, hid_t file, const char *path,
                        struct error *error);
/* Writes the sums of their samples. */
enum status panels_write_samples(const struct results *results, const struct run *whole, hid_t file, const char *path,
                                 struct error *error);
/* Writes the rows of panels as the table /panels; `of_units`: by run of a unit. */
enum status panels_write_rows(hid_t file, const struct results *results, const struct result_row *of_units,
                              struct error *error);

/* Does the results file at `path` need its parts? */
bool link_is_at(const char *path);
/* Writes the name of the folder of parts to a linked file. */
enum status link_mark(const struct results *results, hid_t file, struct error *error);
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
/* Makes parts of the finished runs that OUTPUT holds and that have none. */
enum status previous_import(struct results *results, struct error *error);
/* Is its status "complete"? */
bool previous_complete(const struct results *results);

/* Writes a data set of one dimension. */
enum status results_write_vector(hid_t file, const char *path, enum dtype dtype, int64_t count, const void *data,
                                 const char *units, struct error *error);

/* The part of a run, opened by copy_open, which also puts up a fence around it, or the file that it has become. */
struct stored {
    hid_t file; /* negative: the run is in panels */
    bool opened;
    char *path;
    const char *outer_fence;
};

#endif
