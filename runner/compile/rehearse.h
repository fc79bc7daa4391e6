/* rehearse.h - loads and launches a user kernel in a child process first, so that a crash, or a write to an
 * input, costs only that run and not the process with all others. */
#ifndef RUNNER_REHEARSE_H
#define RUNNER_REHEARSE_H

#include "../../kernels/core/kernel.h"

#define REHEARSE_EXITED  (-1000) /* the function ended its process */
#define REHEARSE_CHANGED (-1001) /* it changed an input */
#define REHEARSE_FORKED  (-1002) /* it left a process running */
#define REHEARSE_MODES   (-1003) /* it changed rounding or flush-to-zero, which other kernels would inherit */
#define REHEARSE_STOPPED (-1004) /* a signal or the deadline came before it ended: interrupt_check says which */

/* The inputs of a launch, in the host's memory. */
struct launch_inputs {
    int count;
    const void *memory[KERNEL_INPUTS];
    int64_t bytes[KERNEL_INPUTS];
};

/* Runs the launch in a copy of this process, whose memory it cannot change. Returns 0 if it finished, or if the child
 * could not be started or was killed from outside; else the negative number of the signal that ended it, or
 * one of the above. It finds only what depends on this launch alone. `late`: a sentence to print when it has lasted for
 * a minute; NULL: none. */
int rehearse(int (*function)(const struct launch *launch), const struct launch *launch,
             const struct launch_inputs *inputs, const char *late);
/* Loads a shared library, which runs its constructors, in the same way, and returns the same. */
int rehearse_load(const char *path, const char *late);

#endif
