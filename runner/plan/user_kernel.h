/* user_kernel.h - compiles and loads a kernel that the job supplies (`source:`). Its source is read when the job is
 * planned; exactly that text is compiled and loaded before the job runs. */
#ifndef RUNNER_USER_KERNEL_H
#define RUNNER_USER_KERNEL_H

#include "../compile/sources.h"
#include "../job/job.h"

struct launch_inputs;

/* Describes the variant for an operation on these types, and reads its sources. STATUS_USAGE: *where is the node that
 * is wrong. The caller frees *made with user_kernel_free, also after an error. */
enum status user_kernel_make(const struct job_variant *variant, enum op op, enum dtype in, enum dtype out,
                             const struct kernel **made, const struct yaml_node **where, struct error *error);
void user_kernel_free(const struct kernel *kernel);

/* Checks the numbers of a launch (block, grid, shared memory) of a CUDA kernel. STATUS_USAGE: an expression is wrong;
 * STATUS_DEVICE: no device can make the launch. Both set *where. */
enum status user_kernel_check(const struct kernel *kernel, const struct launch *launch, const struct yaml_node **where,
                              struct error *error);
/* Compiles and loads the kernel, unless it is loaded, for a GPU of this compute capability; the thread must have set
 * the device. STATUS_USAGE: a mistake in the source, with its position. `warnings`: compiles it anew and appends the
 * compiler's warnings; NULL: the cache may serve. */
enum status user_kernel_build(const struct kernel *kernel, int capability, char **warnings, struct error *error);

/* Should this launch be rehearsed? Yes if a user kernel runs on the CPU with new sizes, which it remembers; no after
 * MAX_SHAPES of them, or for another kernel. One thread at a time. */
bool user_kernel_wants_rehearsal(const struct kernel *kernel, const struct launch *launch);
/* Runs the launch in a child process, so that a crash, or a write to an input, fails only this run: STATUS_RUN.
 * STATUS_TIMEOUT or STATUS_INTERRUPTED: the child was ended. Without a timeout, prints a line after a minute. */
enum status user_kernel_rehearse(const struct kernel *kernel, const struct launch *launch,
                                 const struct launch_inputs *inputs, bool has_timeout, struct error *error);

/* The kernel's source files; NULL: the kernel is built in. */
const struct sources *user_kernel_sources(const struct kernel *kernel);
/* The path of a user kernel's source as the job names it. */
const char *user_kernel_source_name(const struct kernel *kernel);
/* The first parameter of the kernel's variant whose macro its C source does not use. NULL: it uses all; or it is a CUDA
 * source, whose block and grid may use them instead. */
const char *user_kernel_idle_parameter(const struct kernel *kernel, const struct job_variant *variant);
/* A text of everything that the kernel's result depends on; NULL: the kernel is built in. */
const char *user_kernel_identity(const struct kernel *kernel);

#endif
