/* plan_parts.h - the steps by which plan.c makes a plan, in their order; for this folder only. */
#ifndef RUNNER_PLAN_PARTS_H
#define RUNNER_PLAN_PARTS_H

#include "plan.h"

/* ---- plan_mistake.c: errors at their position in the job file ---- */

/* Reports a mistake at a node, with the combination `label` of swept parameters. A position gets no second error: it
 * would follow from the first, or repeat it for another combination. */
#define plan_mistake(job, where, ...) plan_mistake_inside(job, where, -1, __VA_ARGS__)
/* Reports a mistake, as plan_mistake does, at the offset `at` in the node's text; -1: at the node. */
void plan_mistake_inside(const struct job *job, const struct yaml_node *where, int at, const char *label,
                         const char *format, ...) __attribute__((format(printf, 5, 6)));

/* ---- plan_input.c: inputs ---- */

/* Describes an input and applies its keys `select` and `rows`. Reports errors at their position in the job file, but in
 * a tolerant job keeps one about an unreadable file in array->unreadable. Chunks larger than both the job's memory and
 * 64 MiB are an error too. */
void plan_input(const struct job *job, const struct job_input *input, struct array *array);

/* ---- plan_decode.c: which operations read an input's decoded values, and which its stored numbers ----
 *
 * An operation that only moves elements moves the stored numbers, and its result gets the attributes for decoding them;
 * all other operations read decoded values. If both kinds read an array, the plan has two entries for it. */

/* Lets inputs that are only moved keep their stored numbers; for inputs that are moved and computed with, appends a
 * second entry that keeps stored numbers. */
void plan_pack_inputs(struct plan *plan);
/* The index of the array entry, stored or decoded, that the operation reads where the job names array `array`. Appends
 * a decoded second entry for a result that keeps stored numbers. */
int plan_operand(struct plan *plan, const struct job_operation *operation, int array);
/* Describes the result of an operation that only moves elements of `in`: where its elements come from, and, if `in`
 * keeps stored numbers, how they are decoded. Changes nothing for other operations. */
void plan_describe_moved(const struct job_operation *operation, const struct array *in, struct array *out);

/* ---- plan_storage.c: how operands are stored ---- */

/* Sets the storages of the run's operands in `tiling`. */
void plan_storages(const struct plan *plan, const struct run *run, struct tiling *tiling);

/* ---- plan_task.c: tasks ---- */

/* Makes the task of operation `index`, after the tasks that it reads, and describes its result. Reports mistakes. */
void plan_task(struct plan *plan, int index);

#endif
