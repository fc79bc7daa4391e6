/* store.h - one job's results: units while the job runs, and the results file at the end.
 *
 *     OUTPUT.parts/lock                  a whole job or `merge` holds it alone; shards share it
 *     OUTPUT.parts/KEY.h5                a part: a finished unit (divide/units.h)
 *     OUTPUT.parts/shard-3-of-8/         the same, of a shard: its lock, its parts, and
 *         shard.h5                       its manifest: which job, how it is divided, where it runs (manifest.c)
 *     OUTPUT                             published: the job, its environment, all rows, copies of what the parts hold
 *
 * A unit is missing, begun, or done:
 *
 *     missing  unit_begin -> run-N.tmp   unit_keep -> sealed, renamed: KEY.h5, done
 *                                        unit_discard, a signal, or the next process after a kill: missing again
 *     done     damaged, or no longer wanted as it is -> missing again: it is done anew
 *
 * and OUTPUT is absent, partial or failed (units are missing, or made no result), or complete. Publishing writes beside
 * it, syncs and renames, so that it is never half a file. The parts stay until OUTPUT is complete; then they are
 * removed, unless OUTPUT shows them (`merge --link`): only an OUTPUT of copies, or --overwrite, lets those go. An
 * OUTPUT that is there when a job goes on is made into parts where these are gone, so that parts are all that counts.
 *
 * A part ends in a seal with a hash of all bytes before it (seal.c). Parts are not synced, so a crash of the machine
 * can damage one; a unit whose part has a wrong hash is done again. Only a shard syncs a large part, before it writes
 * the seal, because who links does not hash that one again. KEY is a hash of the program (version, commit, of changed
 * sources their hash), the operation's resolved text, the variant and the inputs' hashes, and of a panel its place; so
 * a unit is found again whoever made it, and however the job was divided then. A part keeps its output only if
 * something will read it: for the operation's first right run, and for every run with `store: all`. */
#ifndef RUNNER_STORE_H
#define RUNNER_STORE_H

#include "../divide/units.h"
#include "../record/environment.h"
#include "../record/row.h"
#include "../stream/measure.h"
#include "../stream/stream.h"

struct results; /* one job's output while the job runs */

/* Opens a job's place for results: creates OUTPUT.parts/ and takes a lock, so that two jobs do not write one output.
 * STATUS_USAGE: OUTPUT must not be replaced, or cannot be written. A directory, a device, the job file and the files
 * that its inputs read are never replaced. `overwrite` replaces any other file and removes finished parts. `resume`
 * keeps the parts and replaces nothing but results. With both, parts are kept and any file is replaced. With neither,
 * an existing OUTPUT and finished parts are refused. If OUTPUT is a symbolic link, its target is written. A `shard`
 * uses a folder of its own in OUTPUT.parts and a lock of its own, so that shards run beside each other; NULL: the whole
 * job, which is refused while a shard runs. Under Slurm it waits up to `wait_s` for a lock that another machine holds;
 * then STATUS_INTERRUPTED, and the message is printed. The caller frees *results with store_close. */
enum status store_open(const char *output, bool overwrite, bool resume, const struct units *units,
                       const struct shard *shard, double wait_s, struct readers *readers, struct results **results,
                       struct error *error);
void store_close(struct results *results);
/* Releases the lock and removes temporary files as store_close does, but frees nothing, because other threads may
 * still use `results`. */
void store_leave(struct results *results);
/* Removes OUTPUT.parts if no part is left in it and nobody is at work there: a killed process had begun to do so. */
void results_sweep(const char *output);

/* This is `merge`: before store_resume. `link`: instead of copying outputs, OUTPUT shall have virtual data sets that
 * show those in the parts, which then stay. */
void results_join(struct results *results, bool link);
/* Of a shard, before its first run: writes into its folder what it is and where it runs. `partial`: `--only` left
 * something out. After its last run: marks that it has done all. */
enum status results_write_manifest(const struct results *results, const char *command_line, bool partial,
                                   struct error *error);
void results_finish_manifest(const struct results *results);
/* Where and with what a plan is carried out now. The caller frees with environment_free. */
void results_environment(const struct plan *plan, struct environment *environment);
/* The job that shards have begun beside OUTPUT, as they run it, and the devices that they may use. */
struct shard_job {
    char *path, *text, *resolved; /* of the job file: its path, its text, and what that came to on the command line */
    bool partial;
    int shards; /* into how many it is dealt out, for how many its units were made, */
    int divided;
    enum shard_by by; /* and what is dealt out */
    bool present[2];  /* by enum kernel_device, as `facts` */
    struct device_facts facts[2];
    char *later; /* the folder of a shard that has begun another job since; NULL: none has */
};
/* Finds the job of the shards whose manifests lie beside OUTPUT: of those all of whose shards have begun, the one that
 * a shard began last; if there is none, the one that most shards have. false: there are no manifests, or that one lacks
 * something. Free with shard_job_free, whatever it returns. */
bool shards_find_job(const char *output, struct shard_job *job);
void shard_job_free(struct shard_job *job);
/* The division of this job that shards of another number have begun beside OUTPUT: with these units, units_make(plan,
 * *divided, *by), what they have finished is found again. false: there is none, or another than *by asks for. */
bool shards_find_division(const char *output, const struct job *job, int shards, int *divided, enum shard_by *by);

/* Must all inputs be hashed before store_resume, or only those that the shard reads? */
bool results_need_inputs(const struct results *results);
/* For `resume`, after inputs have been hashed: looks at an existing OUTPUT. STATUS_USAGE: some of its runs are not
 * this job's, with the job, its inputs and this program as they are now, and `overwrite` was not given. *done: OUTPUT
 * lacks no run; with `restricted` its status may be "partial". If not done, store_find will find its runs. */
enum status store_resume(struct results *results, bool restricted, bool *done, struct error *error);

/* The rows of the existing OUTPUT, plan->run_count once store_resume says that it lacks none. */
const struct result_row *results_finished_rows(const struct results *results, int *count);

/* For each run of a unit, whether store_resume saw its finished part. */
const bool *results_seen(const struct results *results);

/* STATUS_USAGE if OUTPUT, or a file that a result goes to, is the job file or a file that its inputs read, or if they
 * are one file; changes nothing. */
enum status results_check_output(const char *output, const struct plan *plan, struct error *error);
/* STATUS_USAGE if the file `name`, which is to be written, is the job file, a file that its inputs read, OUTPUT,
 * OUTPUT.parts or in that folder, or if it is a trace and a file that a result goes to. `kind` says in messages what
 * the file is. */
enum status results_check_other(const char *output, const struct plan *plan, const char *kind, const char *name,
                                struct error *error);

/* A part that is being written. */
struct part;
/* Finds a finished unit that made a result, in an undamaged part, whoever made it (after store_open with resume). true:
 * fills its row. An unusable part is removed. Runs must be asked for, or done, in the order of the plan. */
bool store_find(struct results *results, const struct run *unit, struct result_row *row);
/* For `merge`: the same, whatever became of the run; nothing is removed. */
bool store_find_any(struct results *results, const struct run *unit, struct result_row *row);
/* Fills the row of a run of the whole from those of its units. false: one has no row; then it has no status. */
bool results_run_row(const struct results *results, const struct run *whole, const struct result_row *of_units,
                     struct result_row *row);
/* For `merge`: prints to stderr, by shard, which units have no part, and whose the parts are that are not this job's.
 * `missing`: for each run of a unit. */
void results_print_missing(const struct results *results, const bool *missing);
enum status unit_begin(struct results *results, const struct run *run, struct part **part, struct error *error);
/* A sink for stream_run that writes into the part. */
struct sink part_sink(struct part *part, struct trace *trace);
/* What the sink has lost where the output is stored as another type than it is computed in. */
struct casts part_casts(const struct part *part);
/* A reader, for verification, of the run's inputs and of the output that the sink has written. */
struct host_reader part_reader(struct part *part);
/* Once the output is whole and verified: `right` says whether the run made a result. If nothing will read the output,
 * removes it; else closes it, and later runs of the task need not keep theirs unless unit_discard follows. */
enum status part_settle(struct part *part, bool right, struct error *error);
/* Completes the part: stores row and samples, then closes, checksums and renames the file. The file is not synced: its
 * checksum shows whether a crash of the machine damaged it. Frees the part, also on failure. */
enum status unit_keep(struct part *part, const struct result_row *row, const struct samples *samples,
                      struct error *error);
/* Keeps the row of a run that made no result as a part without output, for `merge`. */
enum status unit_keep_row(struct results *results, const struct run *run, const struct result_row *row,
                          struct error *error);
/* Removes the part's file and frees the part; NULL: does nothing. */
void unit_discard(struct part *part);

/* Makes the stored output of a finished unit the place of its task's result, for later tasks to read. */
void results_point_at_output(struct results *results, const struct run *unit);

/* For a shard: the result of a task that other shards make, whole or by panels. The hashes that the task's key needs
 * must be known. The caller frees with awaited_end. */
struct awaited *awaited_begin(struct results *results, int task);
void awaited_end(struct awaited *awaited);
/* Is it decided what the result is? Then *result_run is the run that gave it, of the first panel, and later tasks can
 * read it; -1: there is none, since all variants failed, were wrong or were skipped. */
bool awaited_look(struct awaited *awaited, int *result_run);
/* Of what is missing, the first: the shard that makes it; its name, "'product n=4, rows 0 to 15 of 64'"; and where that
 * shard is or was at work, "node n7, job 12_1", NULL: it has not begun. The caller frees the texts. */
int awaited_shard(const struct awaited *awaited);
char *awaited_name(const struct awaited *awaited);
char *awaited_place(const struct awaited *awaited, bool *at_work);

/* What the assembly writes besides the parts. */
struct result_summary {
    const char *status; /* complete | partial | failed */
    const char *command_line, *created;
    const struct result_row *rows; /* of the whole: plan->run_count rows, in the order of the plan */
    const struct result_row *unit_rows;
    const int *result_run; /* for each task: the run whose output is its result; -1: none */
    const struct environment *environment;
};
/* Writes OUTPUT from the parts, then removes them, unless it links. STATUS_IO: it failed, and all parts are as they
 * were. */
enum status store_publish(struct results *results, const struct result_summary *summary, struct error *error);

/* ---- for who looks at a job that is not done; nothing is locked or changed ---- */

struct survey_part {
    char *path;
    struct timespec written;
    struct result_row row;
    int runs, skipped; /* of the job, in units; those that cannot run; -1: a part of an earlier version */
};
struct survey_shard {
    bool begun, at_work;
    int units, lacks;  /* 0 units: not known */
    char *place, *log; /* NULL: not known */
};
/* What lies in OUTPUT.parts of the job that was begun there last. */
struct survey {
    int count, results;     /* parts that are whole, and how many of them made a result */
    struct survey_part *of; /* by number of run: of two parts of one run the newer */
    int runs, skipped;      /* of the job; -1: not known */
    bool at_work;
    bool whole_runs;             /* no operation is divided into panels */
    int shard_count;             /* 0: there are no shards */
    struct survey_shard *shards; /* by number */
    bool complete;               /* all shards have done all, and all of that is there: `merge` joins it */
};
/* false: there is no such folder of tilerun's. Free with survey_free, whatever it returns. */
bool store_survey(const char *output, struct survey *survey);
void survey_free(struct survey *survey);

/* Is the lock in the folder `parts` held by a process, not this one? Takes no lock, since another tilerun that starts
 * at that moment would find it taken. */
bool parts_are_locked(const char *parts);
/* The paths of the finished parts in that folder and in those of shards in it, in no order. The caller frees each and
 * *paths. */
void parts_list(const char *parts, char ***paths, int *count);
/* Is the hash in a part's trailer that of the bytes before it? Of a file of more than `most` bytes only the trailer
 * itself is looked at. */
bool part_is_whole(const char *path, off_t most);

#endif
