/* command.h - declares the commands of the program: commands.def lists them, NAME.c has each. */
#ifndef RUNNER_COMMAND_H
#define RUNNER_COMMAND_H

#include "../base/fail.h"
#include "../execute/execute.h"
#include "../show/result_file.h"
#include "option.h"

struct invocation;

/* The words of a command line that are no options. */
struct operands {
    const char *names;   /* "BASE NEW..."; "": the command takes none */
    enum word_kind kind; /* of every operand */
    int min, max;        /* the smallest and largest number; max -1: no limit */
};

struct command {
    const char *name;
    const char *summary;     /* a verb and its object, on one line */
    const char *description; /* paragraphs, a line each; an empty line sets them apart; NULL: the command has none */
    struct operands operands;
    const struct option_row *rows;
    unsigned long settings_bytes; /* the size of the struct that the rows fill */
    const void *defaults;         /* its initial value; NULL: zeros */
    /* Refuses options that do not go together; NULL: all options do. A failure reads "--NAME ...". */
    enum status (*validate)(const void *settings, struct error *error);
    /* Fills `error`, except for mistakes in a job, which are printed already with their lines. */
    enum status (*run)(const struct invocation *invocation, struct error *error);
    bool stops_early; /* `run` begins with interrupt_begin */
};

/* A command line, parsed. Parsing allocates nothing, so that any message about memory can name the first operand. */
#define SETTINGS_BYTES 4096 /* at least the largest settings_bytes of a command */
struct invocation {
    const struct command *command;
    void *settings;  /* the struct that the command's rows fill; it lies in `storage` */
    char **operands; /* points into argv */
    int count;       /* number of operands */
    char *line;      /* from command_line, for provenance and for the advice to continue */
    max_align_t storage[SETTINGS_BYTES / sizeof(max_align_t)];
};

#define COMMAND(name) extern const struct command command_##name;
#include "commands.def"
#undef COMMAND
extern const struct command *const commands[]; /* sorted like commands.def; ends with NULL */

/* "tilerun run [OPTION...] JOB"; the caller frees. */
char *command_usage(const struct command *command);
/* Finds a command by its name. STATUS_USAGE, with a hint: there is no such command. */
enum status command_find(const char *name, const struct command **command, struct error *error);
/* Joins the words from the command's name on: "tilerun run job.yaml --overwrite". The caller frees. */
char *command_line(int argc, char **argv);
/* Parses argv, whose first word is the command's name; options may follow operands, and argv is reordered so that they
 * do not. `line` stays NULL. STATUS_USAGE: an option is unknown or has a wrong argument. */
enum status command_parse(const struct command *command, int argc, char **argv, struct invocation *invocation,
                          struct error *error);
/* Checks that the options go together, and the number of operands. STATUS_USAGE: not so. */
enum status command_validate(const struct invocation *invocation, struct error *error);

/* ---- options of several commands ---- */

/* Options that override a job: the member `job` of the struct that the command's rows fill. */
struct job_settings {
    struct job_overrides overrides; /* without `sets` */
    struct option_list sets;
    bool once; /* results are wanted, not times */
};
/* For the row of `--once`, with a `struct job_settings` as field: sets `once` and the overrides that it stands for. */
enum status command_once(const struct option_row *row, const char *argument, void *field, struct error *error);

// clang-format off
#define PARSE_OVERRIDE(structure, member) PARSE_TEXT(structure, job.overrides.member)
#define ROW_SET(structure)                                                                                             \
    {"set", 0, "NAME=VALUE", "replace a parameter (repeatable); VALUE may be a list: 512,1024",                        \
     PARSE_LIST(structure, job.sets)}
#define ROW_DEVICE(structure)                                                                                          \
    {"device", 0, "D", "run on D: auto, cpu, cuda, cuda:all, cuda:N or cuda:N,cuda:M",                           \
     PARSE_OVERRIDE(structure, device),      CHOICES("auto", "cpu", "cuda", "cuda:all")}
#define ROWS_JOB(structure)                                                                                            \
    ROW_SET(structure), ROW_DEVICE(structure),                                                                         \
    {"memory", 0, "SIZE", "use at most this much memory of the device: 8GiB, 500MB or 90%",                            \
     PARSE_OVERRIDE(structure, memory)},                                                                               \
    {"only", 0, "ID[:VARIANT],...", "run only these operations, by that variant alone, and those whose results they "  \
     "read", PARSE_OVERRIDE(structure, only)},                                                                         \
    {"once", 0, NULL, "run without warm-up, one pass, with a sampled check: for results, not for times",               \
     .parse = command_once, FIELD_OF(structure, job, struct job_settings)},                                            \
    {"repeat", 0, "N", "time N launches of every operation, whatever the job says",                                    \
     PARSE_OVERRIDE(structure, repeat)},                                                                               \
    {"warmup", 0, "N", "launch every operation N times before it is timed, whatever the job says",                     \
     PARSE_OVERRIDE(structure, warmup)},                                                                               \
    {"verify", 0, "MODE", "verify by MODE: auto, full, sampled or none, whatever the job says",                        \
     PARSE_OVERRIDE(structure, verify), CHOICES("auto", "full", "sampled", "none")}
#define ROW_PROGRESS(structure, member)                                                                                \
    {"progress", 0, "MODE", "show progress on stderr: auto, plain or none", PARSE_CHOICE(structure, member),           \
     CHOICES("auto", "plain", "none")}
#define ROW_THRESHOLD(structure, member)                                                                               \
    {"threshold", 0, "T", "report times that differ by more than T: 5% or 0.05 (default: 3%)",                   \
     PARSE_SHARE(structure, member)}
#define ROW_RETRY(structure, member, when)                                                                             \
    {"retry", 0, "N", "measure a run again, up to N times, while it is " when "; the last time counts",               \
     .parse = option_integer, FIELD_OF(structure, member, int)}
#define ROW_ALLOW_SOURCE(structure, member)                                                                            \
    {"allow-source", 0, NULL, "allow a job with `source:`, which compiles and runs code of its own; "                  \
     "TILERUN_ALLOW_SOURCE=1 does too", PARSE_FLAG(structure, member)}
// clang-format on

/* ---- a job and its plan ---- */

/* Loads a job and plans it for the devices that it asks for and that exist. STATUS_USAGE: the job has mistakes, which
 * are printed to stderr, or the disk has too little space for its results. STATUS_DEVICE: with `need_device`, the job
 * demands a GPU that is missing. Sets *job and *plan in any case; the caller frees them. */
enum status command_load(const char *path, const struct job_settings *settings, bool need_device, struct job **job,
                         struct plan **plan, struct error *error);
/* Like command_load, but for a job that is loaded already. */
enum status command_plan_job(struct job *job, bool need_device, struct plan **plan, struct error *error);
/* Like command_plan_job, but for the devices of another machine; `cuda` NULL: it has no GPU. If job->tolerant, leaves
 * out the operations whose inputs cannot be read, unless that leaves none; job->unreadable and job->remarks name these
 * inputs. */
enum status command_plan_for(struct job *job, const struct device_facts *cpu, const struct device_facts *cuda,
                             struct plan **plan, struct error *error);
/* Refuses a job that runs code of its own, which neither `allowed` nor the environment allows: STATUS_USAGE, after
 * printing the names and hashes of its files. */
enum status command_allow_source(const struct plan *plan, bool allowed, struct error *error);
/* Prints the job's remarks, and what each `search` has to choose from, to stderr. */
void command_report_remarks(const struct job *job);
/* Like command_report_remarks, and prints how many combinations the job's `where` leaves out, if any. */
void command_report_excluded(const struct job *job);
/* The number of the first GPU that a job wants, if there is one; -1: the job wants the CPU. */
int command_cuda_number(const struct job *job);
/* If stdout and stderr go to one log, prints its first line: the program, the time, the host, the devices (`plan` NULL:
 * the CPU alone), and the shard (NULL, or of count 0: the process does the whole job). */
void command_begin_log(const struct plan *plan, const struct shard *shard);
/* Executes a plan (execute/execute.h); then reports on stderr the path and the size of a new results file, or how far
 * this shard is. */
enum status command_execute(const struct units *units, const struct execute_options *options, struct error *error);

/* ---- limits of devices (limits_command.c) ---- */

/* The stored limits of a device, measured by this build; NULL: none are stored. The caller frees with limits_free. */
struct device_limits *command_limits(const struct device_facts *facts);
/* Measures a device (`number` -1: the CPU, else that GPU) and stores its limits for later runs. If another process has
 * just done so, loads what that process stored, unless `again`. `verbose`: reports the measurement on stderr. Fails
 * only if the measurement fails, not if the limits cannot be stored. */
enum status command_measure(const struct device_facts *facts, int number, bool again, bool verbose,
                            struct device_limits **limits, struct error *error);
/* Predicts a plan's times from the stored limits of its devices. */
void command_predict(struct plan *plan);
/* Like command_predict, but for a job that is about to run. Measures a device without stored limits if the job times
 * runs on it. A device that cannot be measured has its assumed limits; only STATUS_INTERRUPTED is a failure. */
enum status command_predict_measured(struct plan *plan, int cuda_number, bool verbose, struct error *error);

/* ---- results (results_open.c) ---- */

/* Returns OUTPUT for OUTPUT.parts, if that is a folder; else the path itself. The caller frees. */
char *command_output_of(const char *path);

/* Opens a results file; `standing` reports how far its job is. If OUTPUT does not exist but OUTPUT.parts does, the rows
 * are the finished runs of a running or interrupted job, and the file has samples but no attributes, job or outputs.
 * Changes and locks nothing that a running job uses. STATUS_USAGE: neither exists. results_file_close frees *file. */
enum status command_results_open(const char *path, struct results_file **file, struct error *error);

#endif
