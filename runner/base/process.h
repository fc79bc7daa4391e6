/* process.h - makes a process independent of how it was called: open descriptors, handling of signals, limits of files,
 * stacks and memory, and the stacks of OpenMP's threads. */
#ifndef RUNNER_PROCESS_H
#define RUNNER_PROCESS_H

#include "fail.h"

/* For .preinit_array: runs before the constructors of libraries, which take most of the time before main. Blocks
 * signals, and drops sizes of stacks that are too small from the environment, which OpenMP's constructor reads. */
void process_prepare_first(int argc, char **argv, char **environment);
/* Prepares the rest, before any thread starts. STATUS_USAGE: stacks are limited to less than tilerun needs. */
enum status process_prepare(struct error *error);
/* Sends to stderr what kernels and libraries print to stdout, which is for results alone, until process_restore_stdout.
 * Does nothing if no descriptor is free. */
void process_divert_stdout(void);
void process_restore_stdout(void);
/* Where another thread writes results meanwhile: the process's own stdout. */
int process_results_descriptor(void);
/* Called before main returns `code`: ends the process with this code after a few seconds, even if a library hangs in
 * its clean-up, as OpenBLAS does if its threads got no memory. */
void process_limit_exit(int code);

#endif
