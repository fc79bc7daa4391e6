/* command.h - the commands of the program: commands.def lists them, NAME.c holds each. */
#ifndef RUNNER_COMMAND_H
#define RUNNER_COMMAND_H

#include "../base/fail.h"
#include "../job/job.h"
#include "../plan/plan.h"

struct command {
    const char *name;
    const char *arguments; /* "[OPTION...] JOB", for the usage line */
    const char *summary;   /* one line */
    const char *help;      /* the options, a line each, in the form that help.h states */
    /* argv[0] is the command's name. Fills `error` unless what is wrong has been said (a job's located complaints). */
    enum status (*run)(int argc, char **argv, struct error *error);
};

#define COMMAND(name) extern const struct command command_##name;
#include "commands.def"
#undef COMMAND

/* ---- the command line, with getopt_long ---- */

/* Options by which several commands override a job: their rows in a command's table, and their lines of help. */
enum {
    OPTION_SET = 256,
    OPTION_DEVICE,
    OPTION_MEMORY,
    OPTION_ONLY,
    OPTION_ONCE,
    OPTION_REPEAT,
    OPTION_WARMUP,
    OPTION_VERIFY,
    OPTION_OWN /* the first of a command's own */
};
#define OVERRIDE_SET                                                                                                   \
    { "set", required_argument, NULL, OPTION_SET }
#define OVERRIDE_ALL                                                                                                   \
    OVERRIDE_SET, {"device", required_argument, NULL, OPTION_DEVICE},                                                  \
        {"memory", required_argument, NULL, OPTION_MEMORY}, {"only", required_argument, NULL, OPTION_ONLY},            \
        {"once", no_argument, NULL, OPTION_ONCE}, {"repeat", required_argument, NULL, OPTION_REPEAT},                  \
        {"warmup", required_argument, NULL, OPTION_WARMUP}, {                                                          \
        "verify", required_argument, NULL, OPTION_VERIFY                                                               \
    }
#define HELP_SET    "  --set NAME=VALUE   replace a parameter (repeatable; VALUE may be a list: 512,1024)\n"
#define HELP_DEVICE "  --device D         auto, cpu, cuda, cuda:all, cuda:N or cuda:N,cuda:M\n"
#define HELP_MEMORY "  --memory SIZE      working set on the device: 8GiB, 500MB or 90%\n"
#define HELP_ONLY                                                                                                      \
    "  --only ID[:VARIANT],...\n"                                                                                      \
    "                     these operations, by that variant alone, and what they read\n"
#define HELP_RUNS                                                                                                      \
    "  --once             no warm-up, one pass, a sampled check: for results, not for times\n"                         \
    "  --repeat N         timed launches of every operation, whatever the job says\n"                                  \
    "  --warmup N         launches before those, whatever the job says\n"                                              \
    "  --verify HOW       auto, full, sampled or none, whatever the job says\n"

#define COMMAND_MAX_SETS 64
struct command_overrides {
    struct job_overrides job; /* its `sets` is the array below: not to be copied */
    const char *sets[COMMAND_MAX_SETS];
    bool once; /* --once: results are wanted, not times */
};
/* Takes one of these options; any other code is command_misused. */
enum status command_override(const struct command *command, int code, char **argv, struct command_overrides *overrides,
                             struct error *error);
/* What to return for '?' and ':'. Says what is wrong and where help is. */
enum status command_misused(const struct command *command, int code, char **argv, struct error *error);
/* Checks how many operands are left after the options. */
enum status command_operands(const struct command *command, int argc, int least, int most, struct error *error);
/* The same for a command without options. */
enum status command_operands_only(const struct command *command, int argc, char **argv, int most, struct error *error);

/* Loads and plans a job for the devices that it wants and that are there; complaints are printed to stderr.
 * `need_device`: a GPU that the job demands and that is missing is STATUS_DEVICE. *job and *plan are set in any case
 * and are the caller's to free. */
enum status command_load(const char *path, const struct job_overrides *overrides, bool need_device, struct job **job,
                         struct plan **plan, struct error *error);
/* The same for a job that is loaded already; its complaints are printed. */
enum status command_plan_job(const struct job *job, bool need_device, struct plan **plan, struct error *error);
/* The same for devices that are somewhere else; `cuda` NULL: there is none. */
enum status command_plan_for(const struct job *job, const struct device_facts *cpu, const struct device_facts *cuda,
                             struct plan **plan, struct error *error);
/* The last line on stderr: where the results are, and how large. */
void command_name_output(const char *path);
/* "tilerun run job.yaml --overwrite", as provenance; call it before getopt reorders the arguments. The caller frees. */
char *command_line(int argc, char **argv);
/* The CUDA device number that a job's `device` names; -1: none. */
int command_cuda_number(const struct job *job);

#endif
