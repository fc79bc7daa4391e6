/* environment.h - provenance: on which machine and with what a result was made. */
#ifndef RUNNER_ENVIRONMENT_H
#define RUNNER_ENVIRONMENT_H

#include "../plan/plan.h"

struct environment_entry {
    const char *name; /* "gpu_name", "power_limit_w", "slurm_job_id"; the name of a number ends in its unit */
    char *text;       /* NULL: the value is `number` */
    double number;
    bool integral; /* store the number as int64 */
};
struct environment {
    int count;
    struct environment_entry *entries;
};

/* Collects hostname, os, cpu, cpu_cores, memory_bytes, a GPU's facts if `facts` is one's (then `gpu` is its provenance),
 * hdf5_version, compiler, and slurm_* for the SLURM_ variables worth keeping. Leaves out unknown facts. The caller frees
 * with environment_free. */
void environment_collect(const struct device_facts *facts, const struct device_provenance *gpu,
                         struct environment *environment);
/* Where this process runs, for messages: "node n7, job 1234_3"; the job if Slurm has started it. The caller frees. */
char *environment_place(void);
void environment_free(struct environment *environment);

extern const char tilerun_version[];    /* "0.1.0" */
extern const char tilerun_git_commit[]; /* of the build; "unknown" outside a checkout */
/* The XXH3-128 of the program's file, as 32 hex digits, if the commit does not identify the source (`-dirty`,
 * "unknown"), so that two builds count as two programs; else "". Computed once. */
const char *tilerun_program_hash(void);

/* SHA-256 of bytes as 64 hex digits and a NUL. */
void sha256_hex(const void *data, unsigned long length, char hex[65]);

#endif
