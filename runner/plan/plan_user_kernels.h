/* plan_user_kernels.h - user kernels (`source:`) in a plan. */
#ifndef RUNNER_PLAN_USER_KERNELS_H
#define RUNNER_PLAN_USER_KERNELS_H

#include "plan.h"

/* Describes the kernel of a variant with a source, for a task; the plan owns the kernel. NULL: reports a mistake in it,
 * or the task's types are unknown. */
const struct kernel *plan_user_kernel(struct plan *plan, const struct task *task, const struct job_variant *variant);
/* Checks the numbers of the run's launches (block, grid, shared memory). false: reports wrong numbers; or no device can
 * launch them, and the run, one of a search, is now skipped. */
bool plan_user_kernel_check(const struct plan *plan, const struct task *task, struct run *run);

/* Compiles and loads the kernels of all runs, but of a search only the first combination's. STATUS_USAGE: a mistake in
 * a source, with its position. Prints parameters that a source does not use. `verbose`: compiles all anew and prints
 * the compilers' warnings. */
enum status plan_user_kernels_build(const struct plan *plan, bool verbose, struct error *error);

struct kernel_file {
    char *name; /* as the job names the source, or beside it */
    const struct source_file *file;
};
struct kernel_files {
    int count;
    struct kernel_file *items;
};
/* Lists the source files of all user kernels, also of skipped ones, each file once. The caller clears. */
struct kernel_files plan_kernel_files(const struct plan *plan);
void kernel_files_clear(struct kernel_files *files);

#endif
