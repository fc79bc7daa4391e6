/* environment.h - provenance: where and with what a result was made. */
#ifndef RUNNER_ENVIRONMENT_H
#define RUNNER_ENVIRONMENT_H

#include "../stream/device.h"

struct environment_entry {
    const char *name; /* "gpu_name", "power_limit_w", "slurm_job_id": a number's unit is in its name */
    char *text;       /* NULL: the number counts */
    double number;
    bool integral; /* store the number as int64 */
};
struct environment {
    int count;
    struct environment_entry *entries;
};

/* hostname, os, cpu, cpu_cores, memory_bytes, the GPU's facts when `facts` is one, hdf5_version, compiler, and slurm_*
 * for each SLURM_ variable worth keeping. Unknown facts are left out. */
void environment_collect(const struct device_facts *facts, struct environment *environment);
void environment_free(struct environment *environment);

extern const char tilerun_version[];    /* "0.1.0" */
extern const char tilerun_git_commit[]; /* as built; "unknown" outside a checkout */
/* The XXH3-128 of the program's file, where the commit does not say what it was built from (`-dirty`, "unknown"): two
 * builds then are two programs. Else "". Read once. */
const char *tilerun_program_hash(void);

/* SHA-256 of bytes as 64 hex digits and a NUL. */
void sha256_hex(const void *data, unsigned long length, char hex[65]);

#endif
