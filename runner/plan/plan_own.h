/* plan_own.h - the job's own kernels (`source:`) in a plan. */
#ifndef RUNNER_PLAN_OWN_H
#define RUNNER_PLAN_OWN_H

#include "plan.h"

/* Describes the kernel of a variant with a source, for a task; the plan owns it. NULL: it has a mistake, which was
 * reported, or the task's types are unknown. */
const struct kernel *plan_own_kernel(struct plan *plan, const struct task *task, const struct job_variant *variant);
/* Checks the numbers of the run's launches (block, grid, shared memory). false: they are wrong, which was reported; or
 * no device can launch them and the run, one of a search, is skipped. */
bool plan_own_check(const struct plan *plan, const struct task *task, struct run *run);

/* Compiles and loads the kernels of all runs, but of a search only the first combination's. STATUS_USAGE: a mistake in
 * a source, with its position. `verbose`: compiles them anew and prints the compilers' warnings. */
enum status plan_own_build(const struct plan *plan, bool verbose, struct error *error);

struct own_file {
    char *name; /* as the job names the source, or beside it */
    const struct source_file *file;
};
struct own_files {
    int count;
    struct own_file *of;
};
/* Lists the source files of all of the job's own kernels, also of skipped ones, each file once. The caller clears. */
struct own_files plan_own_files(const struct plan *plan);
void own_files_clear(struct own_files *files);

#endif
