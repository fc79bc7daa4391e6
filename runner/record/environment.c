/* environment.c - collects provenance: the machine and the program with which a result is made. */
#include "environment.h"

#include "../base/fail.h"
#include "../base/host.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifndef TILERUN_COMMIT
#define TILERUN_COMMIT "unknown"
#endif

#ifndef TILERUN_SOURCES
#define TILERUN_SOURCES "unknown"
#endif

const char tilerun_version[] = "0.1.0";
const char tilerun_git_commit[] = TILERUN_COMMIT;

const char tilerun_sources[] = TILERUN_SOURCES;

/* Appends an entry without a value. */
static struct environment_entry *append_entry(struct environment *environment, const char *name) {
    struct environment_entry *entry = APPEND(environment->entries, environment->count);
    entry->name = name;
    return entry;
}

static void add_text(struct environment *environment, const char *name, const char *text) {
    if (text && *text) append_entry(environment, name)->text = must_strdup(text);
}

static void add_integer(struct environment *environment, const char *name, double number) {
    struct environment_entry *entry = append_entry(environment, name);
    entry->number = number;
    entry->integral = true;
}

static void add_real(struct environment *environment, const char *name, double number) {
    if (!isnan(number)) append_entry(environment, name)->number = number;
}

/* Adds the facts about this machine. */
static void add_host(struct environment *environment) {
    struct utsname system;
    if (uname(&system) == 0) {
        OWNED char *distribution = host_file_value("/etc/os-release", "PRETTY_NAME", '=');
        OWNED char *os = must_printf("%s%s%s %s %s", distribution ? distribution : "", distribution ? ", " : "",
                                     system.sysname, system.release, system.machine);
        add_text(environment, "hostname", system.nodename);
        add_text(environment, "os", os);
    }
    char cpu[128];
    host_cpu_name(cpu, sizeof cpu);
    add_text(environment, "cpu", cpu);
    add_integer(environment, "cpu_cores", (double)sysconf(_SC_NPROCESSORS_ONLN));
    add_integer(environment, "memory_bytes", (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE));
    double load;
    if (getloadavg(&load, 1) == 1) add_real(environment, "load_average", load);
}

/* Adds the facts about a GPU. */
static void add_gpu(struct environment *environment, const struct device_facts *facts,
                    const struct device_provenance *gpu) {
    char capability[16];
    snprintf(capability, sizeof capability, "%d.%d", facts->compute_capability / 10, facts->compute_capability % 10);
    add_text(environment, "gpu_name", facts->name);
    add_text(environment, "gpu_uuid", gpu->gpu_uuid);
    add_text(environment, "compute_capability", capability);
    add_integer(environment, "multiprocessors", facts->multiprocessors);
    add_integer(environment, "gpu_memory_bytes", (double)facts->memory_total);
    add_text(environment, "driver_version", gpu->driver_version);
    add_text(environment, "cuda_runtime", gpu->cuda_runtime);
    add_real(environment, "sm_clock_mhz", gpu->sm_clock_mhz);
    add_real(environment, "memory_clock_mhz", gpu->memory_clock_mhz);
    add_real(environment, "power_limit_w", gpu->power_limit_w);
}

/* Variables that become entries. Their values stay text, because some are lists or ranges. */
static const struct {
    const char *variable, *name;
} recorded[] = {
    {"SLURM_JOB_ID", "slurm_job_id"},
    {"SLURM_ARRAY_JOB_ID", "slurm_array_job_id"},
    {"SLURM_ARRAY_TASK_ID", "slurm_array_task_id"},
    {"SLURM_ARRAY_TASK_COUNT", "slurm_array_task_count"},
    {"SLURM_RESTART_COUNT", "slurm_restart_count"},
    {"SLURM_JOB_NAME", "slurm_job_name"},
    {"SLURM_JOB_NODELIST", "slurm_job_nodelist"},
    {"SLURM_JOB_PARTITION", "slurm_job_partition"},
    {"SLURM_CLUSTER_NAME", "slurm_cluster_name"},
    {"SLURM_SUBMIT_DIR", "slurm_submit_dir"},
    {"SLURM_PROCID", "slurm_procid"},
    {"SLURM_LOCALID", "slurm_localid"},
    {"SLURM_NODEID", "slurm_nodeid"},
    {"SLURMD_NODENAME", "slurmd_nodename"},
    {"SLURM_NTASKS", "slurm_ntasks"},
    {"SLURM_GPUS_ON_NODE", "slurm_gpus_on_node"},
    {"SLURM_CPUS_PER_TASK", "slurm_cpus_per_task"},
    {"SLURM_MEM_PER_NODE", "slurm_mem_per_node"},
    {"CUDA_VISIBLE_DEVICES", "cuda_visible_devices"},
};

const char *environment_recorded(int index) {
    return index < (int)(sizeof recorded / sizeof *recorded) ? recorded[index].variable : NULL;
}

static void add_recorded(struct environment *environment) {
    for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++)
        add_text(environment, recorded[i].name, getenv(recorded[i].variable));
}

/* Adds the libraries that the registry's baselines call on this machine, whether the job uses them or not:
 * library_blas, library_cublas, library_cub. */
static void add_libraries(struct environment *environment) {
    for (int i = 0; i < kernel_count; i++) {
        const struct kernel *kernel = kernel_registry[i];
        const char *library = kernel->library ? kernel->library() : NULL;
        if (!library) continue;
        static const char *const names[][2] = {
            {"blas", "library_blas"}, {"cublas", "library_cublas"}, {"cub", "library_cub"}};
        for (size_t n = 0; n < sizeof names / sizeof *names; n++)
            if (strcmp(kernel->name, names[n][0]) == 0) add_text(environment, names[n][1], library);
    }
}

char *environment_host(void) {
    struct utsname system;
    const char *job = getenv("SLURM_JOB_ID"), *array = getenv("SLURM_ARRAY_JOB_ID");
    const char *task = getenv("SLURM_ARRAY_TASK_ID"), *node = uname(&system) == 0 ? system.nodename : "?";
    if (array && task) return must_printf("node %s, job %s_%s", node, array, task);
    return job ? must_printf("node %s, job %s", node, job) : must_printf("node %s", node);
}

void environment_collect(const struct device_facts *facts, const struct device_provenance *gpu,
                         struct environment *environment) {
    *environment = (struct environment){.count = 0};
    add_host(environment);
    if (facts->kind == DEVICE_CUDA && gpu) add_gpu(environment, facts, gpu);
    char version[H5_VERSION_TEXT];
    add_text(environment, "hdf5_version", h5_version(version));
#ifdef __clang__
    add_text(environment, "compiler", __VERSION__);
#else
    add_text(environment, "compiler", "gcc " __VERSION__);
#endif
    add_libraries(environment);
    add_recorded(environment);
}

void environment_add_variables(struct environment *environment, char *const names[], int count) {
    for (int i = 0; i < count; i++) add_text(environment, names[i], getenv(names[i]));
}

void environment_free(struct environment *environment) {
    for (int i = 0; i < environment->count; i++) free(environment->entries[i].text);
    free(environment->entries);
    *environment = (struct environment){.count = 0};
}
