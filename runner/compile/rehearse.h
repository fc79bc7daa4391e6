/* rehearse.h - loads and launches a user kernel in a child process first, so that a crash, or a write to an
 * input, costs only that run and not the process with all others. */
#ifndef RUNNER_REHEARSE_H
#define RUNNER_REHEARSE_H

#include "../../kernels/core/kernel.h"

/* What a kernel did in its rehearsal. */
#define REHEARSE_EXITED  (-1000) /* ended its process */
#define REHEARSE_CHANGED (-1001) /* changed an input */
#define REHEARSE_FORKED  (-1002) /* left a process running */
#define REHEARSE_MODES   (-1003) /* changed rounding or flush-to-zero, which other kernels would inherit */
#define REHEARSE_STOPPED (-1004) /* had not ended when a signal or the deadline came: interrupt_check says which */
#define REHEARSE_LATE    (-1005) /* its constructors did not return for REHEARSE_LOAD_S */
#define REHEARSE_LOAD_S  60

/* The inputs of a launch, in the host's memory. */
struct launch_inputs {
    int count;
    const void *memory[KERNEL_INPUTS];
    int64_t bytes[KERNEL_INPUTS];
};

/* Runs the launch in a child, a copy of this process, so that the launch cannot change this one's memory. Returns 0 if
 * it finished, or if the child could not be started or a SIGINT or SIGTERM ended it, as it does the job; else the
 * negative number of the signal that ended the child (SIGKILL: for lack of memory, most often), or one of REHEARSE_.
 * It finds only what depends on this launch alone. `late`: a sentence to print when the launch has lasted for a minute,
 * or NULL. */
int rehearse(int (*function)(const struct launch *launch), const struct launch *launch,
             const struct launch_inputs *inputs, const char *late);
/* Loads a shared library, which runs its constructors, in a child; returns as rehearse does, or REHEARSE_LATE. */
int rehearse_load(const char *path);

#endif
