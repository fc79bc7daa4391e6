/* replay.h - detects user kernels that replay an earlier result instead of computing: after the timed
 * launches the first input is changed, and a launch must then give the same result as the operation's simplest
 * variant. */
#ifndef RUNNER_REPLAY_H
#define RUNNER_REPLAY_H

#include "../../kernels/core/kernel.h"
#include "../../kernels/core/status.h"

/* A launch for the simplest variant on the host. Before replay_judge the caller points *in and *out to copies of the
 * operands. The structure must not be moved, because these point into it. */
struct replay {
    const struct kernel *simplest;
    struct launch launch;
    /* Members of launch.args, at first those of the kernel's launch. in[1] NULL: there is one input. */
    const void **in[2];
    void **out;
    int64_t in_bytes[2];
    int64_t summed; /* elements that are added to an output; 0: not a reduction */
};
/* Makes the replay of a launch. false: the launch cannot be checked, because the simplest variant cannot do it or would
 * take long. */
bool replay_make(const struct launch *launch, struct replay *replay);
/* Changes every third element of `data`: the sign of a float, the lowest bit of an integer. */
void replay_change(enum dtype dtype, char *data, int64_t bytes);
/* Runs the simplest variant and compares `got`, a result of `out_bytes` bytes in type `out`, with its result.
 * STATUS_RUN: they differ. */
enum status replay_judge(const struct replay *replay, const void *got, enum dtype out, int64_t out_bytes,
                         struct error *error);

#endif
