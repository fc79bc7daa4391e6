/* command.h - the commands of the program: commands.def lists them, cmd_NAME.c holds each. */
#ifndef RUNNER_COMMAND_H
#define RUNNER_COMMAND_H

#include "../base/fail.h"
#include "../job/job.h"
#include "../plan/plan.h"

struct command {
    const char *name;
    const char *arguments; /* "[OPTION...] JOB", for the usage line */
    const char *summary;   /* one line */
    const char *help;      /* the options, a line each */
    /* argv[0] is the command's name. Fills `error` unless what is wrong has been said (a job's located complaints). */
    enum status (*run)(int argc, char **argv, struct error *error);
};

#define COMMAND(name) extern const struct command command_##name;
#include "commands.def"
#undef COMMAND

/* For a command's getopt_long loop: what to return for '?' and ':'. Says what is wrong and where help is. */
enum status command_misused(const struct command *command, int code, char **argv, struct error *error);
/* Checks how many operands are left after the options. */
enum status command_operands(const struct command *command, int argc, int least, int most, struct error *error);
void command_print_help(const struct command *command);

/* Loads and plans a job for the devices that it wants and that are there; complaints are printed to stderr.
 * `need_device`: a GPU that the job demands and that is missing is STATUS_DEVICE. *job and *plan are set in any case
 * and are the caller's to free. */
enum status command_load(const char *path, const struct job_overrides *overrides, bool need_device, struct job **job,
                         struct plan **plan, struct error *error);
/* The CUDA device number that a job's `device` names; -1: none. */
int command_cuda_number(const struct job *job);

#endif
