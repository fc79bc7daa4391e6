/* environment.h - provenance: the machine and the program with which a result was made. */
#ifndef RUNNER_ENVIRONMENT_H
#define RUNNER_ENVIRONMENT_H

#include "../plan/plan.h"

/* A fact: a text or a number. */
struct environment_entry {
    const char *name; /* "gpu_name", "power_limit_w", "slurm_job_id"; a number's name ends in its unit */
    char *text;       /* NULL: the value is `number` */
    double number;
    bool integral; /* the number is stored as int64 */
};
struct environment {
    int count;
    struct environment_entry *entries;
};

/* Collects hostname, os, cpu, cpu_cores, memory_bytes, facts about the GPU if `facts` describes one (then `gpu` is its
 * provenance), hdf5_version, compiler, and slurm_* for a selection of SLURM_ variables. Omits unknown facts. The caller
 * frees with environment_free. */
void environment_collect(const struct device_facts *facts, const struct device_provenance *gpu,
                         struct environment *environment);
/* Adds environment variables, each by its own name, but not those that are not set. `names` must outlive the
 * environment. */
void environment_add_variables(struct environment *environment, char *const names[], int count);
/* The name of the environment variable number `index` (0, 1, ...) whose value is recorded; NULL: there are no more. */
const char *environment_recorded(int index);
/* The node and, under Slurm, the job of this process, for messages: "node n7, job 1234_3". The caller frees. */
char *environment_host(void);
void environment_free(struct environment *environment);

extern const char tilerun_version[];    /* "0.1.0" */
extern const char tilerun_git_commit[]; /* the build's; "unknown" outside a checkout and a release archive */
/* A hash of the sources, as 32 hex digits. With the version it identifies the program: builds of the same source have
 * the same hash, also those for different processors. */
extern const char tilerun_sources[];

#endif
