/* store.h - keeps one job's results, `struct results`: units while the job runs, and the results file at the end.
 *
 *     OUTPUT.parts/lock                  a whole job or `merge` holds it alone; shards share it
 *     OUTPUT.parts/KEY.h5                a part: a finished unit (divide/units.h)
 *     OUTPUT.parts/shard-3-of-8/         a shard's folder: its lock, its parts, and
 *         shard.h5                       its manifest: which job, how it is divided, where it runs (manifest.c)
 *     OUTPUT                             published: the job, its environment, all rows, copies of what the parts hold
 *
 * | of a    | state     | what there is           | what ends the state                                        |
 * |---------|-----------|-------------------------|------------------------------------------------------------|
 * | unit    | missing   | no file                 | unit_begin; a part made of what an older OUTPUT holds      |
 * |         | begun     | run-N.tmp               | unit_keep: done; unit_discard, a signal or a kill: missing |
 * |         | done      | KEY.h5, sealed          | damage, another job, or publication as OUTPUT: missing     |
 * |         | timed out | KEY.timeout (a note)    | a longer timeout; the removal of the parts                 |
 * | shard   | not begun | no shard.h5             | results_write_manifest                                     |
 * |         | begun     | shard.h5                | results_finish_manifest                                    |
 * |         | done      | shard.h5, read-only     | its next start; the removal of the parts                   |
 * | OUTPUT  | absent    | no file                 | store_publish                                              |
 * |         | partial   | lacks units             | store_publish, when more units are done                    |
 * |         | failed    | units made no result    | store_publish, after they were done again                  |
 * |         | complete  | copies; the parts go    | --overwrite, or a job with more runs                       |
 * |         | linked    | shows parts, which stay | `merge --overwrite` makes a complete one of it             |
 *
 * Publishing writes OUTPUT under a temporary name, syncs and renames it (output.h), so that it is never half a file. If
 * a job continues and its parts are gone, they are first made again from OUTPUT; after that only parts count.
 *
 * A part ends in a trailer with a hash of all bytes before it (seal.c). Parts are not synced, so a crash of the machine
 * can damage one; a unit whose part has a wrong hash is done again. Only a shard syncs a large part, before it writes
 * the trailer, because merge does not hash a large part again if it only links it. KEY is a hash of the program (its
 * version and sources), the operation's resolved text, the variant, the inputs' hashes and, for a panel, its place. So
 * a finished unit is found again, whichever process made it and however the job was divided. A part keeps its output
 * only if something will read it: for the operation's first right run, and for every run with `store: all`. */
#ifndef RUNNER_STORE_H
#define RUNNER_STORE_H

#include "../base/texts.h"
#include "../divide/units.h"
#include "../record/environment.h"
#include "../record/row.h"
#include "../stream/measure.h"
#include "../stream/stream.h"

struct results; /* one job's output while the job runs */

/* Decides what may be replaced, and how OUTPUT is made. With neither `overwrite` nor `resume`, an existing OUTPUT and
 * finished parts are refused. */
struct store_policy {
    bool overwrite;     /* replace any file at OUTPUT; without `resume` remove finished parts */
    bool resume;        /* keep the parts; without `overwrite` replace nothing but results of this job */
    bool merges;        /* this is `merge`: no unit is made */
    bool links;         /* OUTPUT gets virtual data sets that show the outputs in the parts, which then stay */
    bool single;        /* no later call can continue this job: a refusal does not advise --resume */
    double lock_wait_s; /* under Slurm: longest wait for a lock that another machine holds */
};
/* Opens a job's results: creates OUTPUT.parts/ and takes a lock, so that two jobs do not write one output.
 * STATUS_USAGE: OUTPUT must not be replaced, or cannot be written. A directory, a device, the job file and the files
 * that its inputs read are never replaced. If OUTPUT is a symbolic link, its target is written. A `shard` uses a folder
 * of its own in OUTPUT.parts and a lock of its own, so that shards run beside each other; NULL: the whole job, which is
 * refused while a shard runs. STATUS_INTERRUPTED: another machine held the lock too long, and the message is printed.
 * The caller frees *results with store_close. */
enum status store_open(const char *output, const struct store_policy *policy, const struct units *units,
                       const struct shard *shard, struct readers *readers, struct results **results,
                       struct error *error);
void store_close(struct results *results);
/* Releases the lock and removes temporary files as store_close does, but frees nothing, because other threads may
 * still use `results`. */
void store_leave(struct results *results);
/* Removes an OUTPUT.parts that has no parts and that no process uses. It remains if a process was killed while it
 * removed the folder. */
void results_sweep(const char *output);

/* Writes a shard's manifest before its first run. `partial`: `--only` left out a part of the job. `stopped`: NULL, or
 * why the shard ends before its last run; the manifest then stays, even if the shard has kept no unit. STATUS_IO: it
 * cannot be written. */
enum status results_write_manifest(struct results *results, const char *command_line, bool partial, const char *stopped,
                                   struct error *error);
/* Marks in the manifest, after the last run, that the shard has done all units. */
void results_finish_manifest(const struct results *results);
/* Forgets all keys, so that they are computed anew when they are next asked for. */
void results_forget_keys(struct results *results);
/* Describes the machine, the devices and the program that carry out a plan now. The caller frees with
 * environment_free. */
void results_environment(const struct plan *plan, struct environment *environment);
/* For `resume`: takes the hashes of inputs from the parts that were made of them, if the inputs' files have not changed
 * since, so that they need not be read. */
void store_recall_inputs(struct results *results);
/* Must all inputs be hashed before store_resume? If not, only those that the shard reads. */
bool results_need_inputs(const struct results *results);
/* For `resume`, after inputs have been hashed: looks at an existing OUTPUT. STATUS_USAGE: some of its runs are not
 * this job's, with the job, its inputs and this program as they are now, and `overwrite` was not given. *done: OUTPUT
 * lacks no run; with `restricted` its status may be "partial". If not done, store_find will find its runs. */
enum status store_resume(struct results *results, bool restricted, bool *done, struct error *error);

/* The rows of the existing OUTPUT. *count: their number, plan->run_count if store_resume found that no run is missing;
 * 0, and NULL: there is no OUTPUT of this job. */
const struct result_row *results_finished_rows(const struct results *results, int *count);

/* For each run of a unit, whether store_resume saw its finished part. */
const bool *results_seen(const struct results *results);

/* STATUS_USAGE: OUTPUT or a result's file is the job file or a file from which the inputs are read, or OUTPUT is a
 * result's file. Changes nothing. */
enum status results_check_output(const char *output, const struct plan *plan, struct error *error);
/* STATUS_USAGE: the file `name`, which is to be written, is the job file, a file from which its inputs are read,
 * OUTPUT, OUTPUT.parts or a file in that folder; or, for a trace, a result goes to it. `kind` names the kind of file in
 * messages. */
enum status results_check_other(const char *output, const struct plan *plan, const char *kind, const char *name,
                                struct error *error);

/* A part that is being written. */
struct part;
/* Finds a finished unit that made a result, in an undamaged part, whoever made it (after store_open with `resume`).
 * true: fills its row. An unusable part is removed. Runs must be asked for, or done, in the order of the plan. `merge`
 * also finds units that made no result, and removes nothing. */
bool store_find(struct results *results, const struct run *unit, struct result_row *row);
/* Fills the row of a run of the job from the rows of its units. false: a unit has no row; the filled row then has no
 * status. */
bool results_run_row(const struct results *results, const struct run *whole, const struct result_row *unit_rows,
                     struct result_row *row);
/* For `merge`: prints to stderr, by shard, which units have no part, and which parts belong to other jobs.
 * `missing`: for each run of a unit. */
void results_print_missing(const struct results *results, const bool *missing);
/* Begins the part of a unit under a temporary name, with an output if something will read or verify it. End it with
 * unit_keep or unit_discard. */
enum status unit_begin(struct results *results, const struct run *run, struct part **part, struct error *error);
/* A sink for stream_run that writes into the part. */
struct sink part_sink(struct part *part, struct trace *trace);
/* Counts the values that the sink changed because the output is stored as another type than it is computed in. */
struct casts part_casts(const struct part *part);
/* A reader, for verification, of the run's inputs and of the output that the sink has written. */
struct host_reader part_reader(struct part *part);
/* Call it when the output is complete and verified. `right`: the run made a result. If nothing will read the output,
 * removes it; else closes it, and later runs of the task need not keep their outputs unless unit_discard follows. */
enum status part_finish_output(struct part *part, bool right, struct error *error);
/* Completes the part: stores row and samples, then closes, seals and renames the file (seal.h). The file is not synced,
 * but for a shard's large ones: its hash shows whether a crash of the machine damaged it. Frees the part, also after an
 * error. */
enum status unit_keep(struct part *part, const struct result_row *row, const struct samples *samples,
                      struct error *error);
/* Keeps the row of a run that made no result as a part without output, for `merge`. */
enum status unit_keep_row(struct results *results, const struct run *run, const struct result_row *row,
                          struct error *error);
/* Removes the part's file and frees the part; NULL: does nothing. */
void unit_discard(struct part *part);

/* Notes that a unit took longer than its timeout of `seconds`. Any thread may call it at any time. */
void store_note_timeout(const struct results *results, const struct run *unit, double seconds);
/* The timeout in seconds that a note says the unit has exceeded; NaN: there is no note. */
double store_timed_out(const struct results *results, const struct run *unit);

/* Lets later tasks read the result of a unit's task in the unit's stored output. */
void results_point_at_output(struct results *results, const struct run *unit);

/* The contents of OUTPUT besides the parts. */
struct result_summary {
    const char *status; /* complete | partial | failed */
    const char *command_line, *created;
    const struct result_row *rows;      /* plan->run_count rows of the whole, in the plan's order */
    const struct result_row *unit_rows; /* by run of a unit */
    const int *result_run;              /* result_run[task]: the run whose output is the task's result; -1: none */
    const struct environment *environment;
};
/* Writes OUTPUT and the files of `to` from the parts. If OUTPUT is complete, then removes the parts, unless OUTPUT
 * shows them (`links`). STATUS_IO: OUTPUT is as it was; so are all parts, but for the one that was to become a file. */
enum status store_publish(struct results *results, const struct result_summary *summary, struct error *error);

#endif
