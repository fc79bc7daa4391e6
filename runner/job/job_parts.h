/* job_parts.h - the steps by which job.c reads a job file, in their order; for this folder only. */
#ifndef RUNNER_JOB_PARTS_H
#define RUNNER_JOB_PARTS_H

#include "job_text.h"

/* ---- job_environment.c: what the file takes from outside before it is read ---- */

/* Merges the files that `include` names into the root of the job's document, map by map. A value of the including file
 * wins; of several files the later one wins. false: a file is missing, so its contents are unknown. */
bool job_include(struct job *job);
/* Replaces `${env:NAME}` and a leading `~/` in every scalar of the document, and lists in the job the variables to
 * record: those and the ones that match `environment`. */
void job_read_environment(struct job *job);

/* ---- job_pattern.c: inputs whose `file` is a glob pattern ---- */

/* Makes each such input a swept parameter of the same name, with one value for each match, applies --set to it, and
 * replaces the pattern by a path with the parameter. If the `file` of input A is `../run-*.h5` and ../run-7.h5 matches,
 * parameter A has the value "run-7" and the file becomes `../${A}.h5`. A value is the part of the match between the
 * folders without wildcards and the common extension. Inputs with `concatenate` stay as they are. Reports
 * patterns without matches. */
void patterns_expand(struct job_reader *reader, const struct yaml_node *inputs);

/* ---- job_only.c: --only ID[:VARIANT],... ---- */

/* Keeps the operations that a list names, and the definitions that they read. A VARIANT is a label, or a name that
 * stands for all its labels. IDs contain no '=', so a text after a comma that does belongs to the label before it:
 * "product:tiled,tile=16,total" has two entries. Reports unknown IDs. `winners`: see struct job_overrides. */
void only_keep(struct job_reader *reader, struct definitions *definitions, const char *list, bool winners);
/* Makes --only select all variants of a definition; frees what only_keep has stored in it. */
void only_forget(struct definition *definition);
/* Removes the variants that --only does not select from an operation that has been read. Reports a VARIANT that the
 * operation does not have, once for all its combinations. */
void only_choose(struct job_reader *reader, const struct definition *definition, struct job_operation *operation);

/* ---- job_expand.c: one instance of a definition for each combination of swept parameters ---- */

#define MAX_INSTANCES 100000 /* of all inputs and operations together */

/* Reads the instances of all kept definitions into the job. */
void job_expand(struct job_reader *reader, struct definitions *definitions);

/* ---- job_variant.c, job_source.c: `variants` ---- */

/* Reads the list `variants` into the operation; NULL: the operation has the variant `auto`. */
void job_read_variants(struct job_reader *reader, const struct yaml_node *list, struct job_operation *operation);
void job_variant_free(struct job_variant *variant);
/* Reads the keys of a variant that belong to its source, which the map has. `values`: the values of its parameters.
 * Reports a mistake and returns NULL. The caller frees with job_source_free. */
struct job_source *job_read_source(struct job_reader *reader, const struct yaml_node *map,
                                   const struct job_variant *values);
void job_source_free(struct job_source *source);
/* Does the variant's `where` hold for its values? true if it has no `where`. */
bool job_variant_holds(struct job_reader *reader, const struct yaml_node *map, const struct job_variant *values);

/* ---- job_expression.c: expressions over arrays ---- */

/* The largest number of inputs of the operation that a map in the job describes. */
int job_max_inputs(enum op op, const struct yaml_node *node);
/* Reads the operation's `expression`, or a reduction's `map`, into options.map, with the values of the current
 * combination. Reports a mistake; then there is no map. */
void job_read_expression(struct job_reader *reader, struct job_operation *operation);

/* ---- job_to.c: results in files of their own ---- */

/* Reads the value of an operation's `to`; NULL: the operation has none. Called after its run options are read. */
void job_read_to(struct job_reader *reader, const struct yaml_node *node, struct job_operation *operation);
/* Reports results that go to the same data set, or into another result. Call it after all operations are read. */
void job_check_to(struct job_reader *reader);

#endif
