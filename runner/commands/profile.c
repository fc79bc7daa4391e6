/* profile.c - `tilerun profile JOB ID:VARIANT`: starts a profiler on this program, which does the run (--here) with the
 * profiler on for its first launch only, and records the report in a results file of that run.
 *
 *     tilerun profile JOB product:tiled
 *         ncu --profile-from-start off ... tilerun profile JOB product:tiled --here      for a variant on a GPU
 *         perf record --delay=-1 --control=fd:... tilerun profile ... --here             for one on the CPU */
#include "../base/hash.h"
#include "../base/interrupt.h"
#include "../base/path.h"
#include "../base/text.h"
#include "../compile/sources.h"
#include "../plan/plan_user_kernels.h"
#include "../record/provenance.h"
#include "../show/result_view.h"
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_WORDS 192 /* further ones are dropped: the fixed words, and 64 of --set */

struct profile_settings {
    struct job_settings job;
    bool here, overwrite, allow_source;
};

struct profile {
    const struct profile_settings *settings;
    const char *job, *name; /* "job.yaml", "product:tiled" */
    const struct run *run;
    char *results, *running, *report; /* the results file, its name while the profiler runs, the profiler's report */
    int control[2], acknowledge[2];   /* pipes: the run starts and stops perf, which acknowledges */
    int word_count;
    char *words[MAX_WORDS + 1]; /* the profiler's command line, then NULL; words[0]: the profiler, "ncu" or "perf" */
};

/* ---- the run ----------------------------------------------------------------------------------------------------- */

/* Finds the one run that ID:VARIANT names. STATUS_USAGE: it names none or several, or the run cannot run here. */
static enum status find_run(const struct plan *plan, const char *name, const struct run **found, struct error *error) {
    int count = 0;
    size_t length = strcspn(name, ":");
    for (int i = 0; i < plan->run_count; i++) {
        const char *id = plan->tasks[plan->runs[i].task].operation->id;
        if (strlen(id) != length || strncmp(id, name, length) != 0 || plan->runs[i].note) continue;
        *found = &plan->runs[i];
        count++;
    }
    if (count != 1 || !*found)
        return fail(error, STATUS_USAGE,
                    "%s: matches %d runs, but a profile is of one: write ID:VARIANT,PARAMETER=VALUE, and --set swept "
                    "parameters",
                    name, count);
    return (*found)->skip ? fail(error, STATUS_USAGE, "%s: cannot run here: %s", name, (*found)->skip) : STATUS_OK;
}

/* Does the run, and those whose results it reads, in this process. */
static enum status run_here(const struct plan *plan, const struct run *run, const char *line, struct error *error) {
    const struct execute_options options = {.overwrite = true,
                                            .single = true,
                                            .progress = PROGRESS_NONE,
                                            .print = result_print_table,
                                            .profile = plan->tasks[run->task].operation->id,
                                            .command_line = line};
    TRY(plan_user_kernels_build(plan, false, error));
    FREED_BY(units_release) struct units *units = units_make(plan, 1, SHARD_BY_RUNS);
    return execute_plan(units, &options, NULL, error);
}

/* ---- the profiler ------------------------------------------------------------------------------------------------ */

/* Appends a word to the command; the profile owns it then. */
static void add_word(struct profile *profile, char *word) {
    if (profile->word_count < MAX_WORDS)
        profile->words[profile->word_count++] = word;
    else
        free(word);
}

static void add_words(struct profile *profile, const char *const *words) {
    while (*words) add_word(profile, must_strdup(*words++));
}

/* Makes the command line: the profiler, then this program with --here and the options of this call. For perf also makes
 * the pipes, and passes the run's ends to it in the environment. STATUS_IO: a pipe cannot be made. */
static enum status make_command(struct profile *profile, struct error *error) {
    const struct profile_settings *settings = profile->settings;
    const struct job_overrides *overrides = &settings->job.overrides;
    bool cuda = profile->run->device == DEVICE_CUDA;
    int *control = profile->control, *acknowledge = profile->acknowledge; /* each: the end to read, the end to write */
    char *program = must_realpath("/proc/self/exe");
    if (cuda) {
        add_words(profile,
                  (const char *const[]){"ncu", "--profile-from-start", "off", "--set", "full", "-f", "-o", NULL});
    } else {
        if (pipe(control) != 0 || pipe(acknowledge) != 0)
            return fail(error, STATUS_IO, "a pipe cannot be made: %s", strerror(errno));
        add_words(profile, (const char *const[]){"perf", "record", "-q", "-g", "-F", "20000", "--delay=-1", NULL});
        add_word(profile, must_printf("--control=fd:%d,%d", control[0], acknowledge[1]));
        add_word(profile, must_strdup("-o"));
        OWNED char *descriptors = must_printf("%d,%d", control[1], acknowledge[0]);
        setenv(PERF_CONTROL, descriptors, 1);
    }
    add_word(profile, must_strdup(profile->report));
    add_word(profile, program ? program : must_strdup("tilerun"));
    add_words(profile, (const char *const[]){"profile", profile->job, profile->name, "--here", "-o", NULL});
    add_word(profile, must_strdup(profile->running));
    for (int i = 0; i < settings->job.sets.count; i++)
        add_word(profile, must_printf("--set=%s", settings->job.sets.items[i]));
    if (overrides->device) add_word(profile, must_printf("--device=%s", overrides->device));
    if (settings->allow_source) add_word(profile, must_strdup("--allow-source"));
    profile->words[profile->word_count] = NULL;
    return STATUS_OK;
}

/* Prints the command line, for a machine that has the profiler. Leaves out the pipe over which tilerun starts and stops
 * perf: without the pipe perf records the whole process. */
static void print_command(const struct profile *profile) {
    OWNED char *line = must_strdup("");
    for (int i = 0; i < profile->word_count; i++) {
        const char *word = profile->words[i];
        bool needs_pipe = strncmp(word, "--control", 9) == 0 || strcmp(word, "--delay=-1") == 0;
        if (!needs_pipe) must_append(&line, " %s", word);
    }
    text_print_stderr("tilerun: there is no %s in PATH; where there is:\n", profile->words[0]);
    text_print_stderr("   %s\n", line);
}

/* Runs the profiler and waits for its end. *found: the profiler is installed; otherwise prints its command line. */
static enum status run_profiler(struct profile *profile, bool *found, struct error *error) {
    pid_t child;
    int state = 0;
    int number = posix_spawnp(&child, profile->words[0], NULL, NULL, profile->words, environ);
    *found = number != ENOENT;
    if (!*found) {
        print_command(profile);
        return STATUS_OK;
    }
    if (number) return fail(error, STATUS_IO, "%s cannot be started: %s", profile->words[0], strerror(number));
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
    }
    return STATUS_OK;
}

/* ---- the report -------------------------------------------------------------------------------------------------- */

/* Computes the SHA-256 of a file. STATUS_RUN: it is missing or empty. */
static enum status hash_file(const char *path, char sha256[65], struct error *error) {
    struct stat about;
    OWNED_DESCRIPTOR int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    bool good = descriptor >= 0 && fstat(descriptor, &about) == 0 && about.st_size > 0;
    void *bytes = good ? mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0) : MAP_FAILED;
    if (bytes == MAP_FAILED) return fail(error, STATUS_RUN, "the profiler has left no report at %s", path);
    sha256_hex(bytes, (size_t)about.st_size, sha256);
    munmap(bytes, (size_t)about.st_size);
    return STATUS_OK;
}

/* Checks that the profiled run reached its end and its result was right; otherwise STATUS_RUN. */
static enum status check_row(const struct profile *profile, struct error *error) {
    FREED_BY(results_file_release) struct results_file *file = NULL;
    const char *label = profile->run->label;
    if (access(profile->running, R_OK) != 0) return fail(error, STATUS_RUN, "%s has not run to its end", profile->name);
    TRY(results_file_open(profile->running, &file, error));
    /* The profiled run has the last row; the runs whose results it reads have the others. */
    const struct result_row *row = file->count > 0 ? &file->rows[file->count - 1] : NULL;
    if (row && result_row_done(row)) return STATUS_OK;
    return fail(error, STATUS_RUN, "%s: %s is %s: %s", profile->name, label, row ? row->status : "missing",
                row ? row->message : "");
}

/* Checks the run's row, records the report's path and hash in the results file, renames that file from `running` to
 * `results`, and prints where both are. */
static enum status record_report(const struct profile *profile, struct error *error) {
    char sha256[65];
    TRY(check_row(profile, error));
    TRY(hash_file(profile->report, sha256, error));
    TRY(provenance_write_report(profile->running, profile->words[0], profile->report, sha256, error));
    if (rename(profile->running, profile->results) != 0)
        return fail(error, STATUS_IO, "%s cannot be renamed to %s: %s", profile->running, profile->results,
                    strerror(errno));
    text_print(stdout, "%s: the profile of one verified launch is in %s\n", profile->name, profile->report);
    text_print(stdout, "sha256 %s, recorded in %s\n", sha256, profile->results);
    return STATUS_OK;
}

/* Sets the names of the files: "product.tiled,tile=32.profile.h5" in the current folder, or the file that -o names, and
 * the report beside it. */
static void set_names(struct profile *profile) {
    const char *given = profile->settings->job.overrides.output;
    OWNED char *plain = must_strdup(profile->name);
    for (char *c = plain; *c; c++)
        if (*c == ':' || *c == '/') *c = '.';
    profile->results = given ? must_strdup(given) : must_printf("%s.profile.h5", plain);
    profile->running = must_printf("%s.running", profile->results);
    size_t suffix = strcmp(path_suffix(profile->results), ".h5") == 0 ? strlen(".h5") : 0;
    profile->report = must_printf("%.*s.%s", (int)(strlen(profile->results) - suffix), profile->results,
                                  profile->run->device == DEVICE_CUDA ? "ncu-rep" : "perf.data");
}

/* Runs the profiler on this program, and records its report. */
static enum status profile_with_profiler(struct profile *profile, const struct plan *plan, struct error *error) {
    bool found = false; /* the profiler is installed */
    set_names(profile);
    const char *taken = access(profile->results, F_OK) == 0  ? profile->results
                        : access(profile->report, F_OK) == 0 ? profile->report
                                                             : NULL;
    enum status status = results_check_output(profile->results, plan, error);
    if (!status) status = results_check_other(profile->results, plan, "report", profile->report, error);
    if (!status && taken && !profile->settings->overwrite)
        status = fail(error, STATUS_USAGE, "%s exists; --overwrite replaces it", taken);
    if (!status) status = make_command(profile, error);
    if (!status) status = run_profiler(profile, &found, error);
    if (!status && found) status = record_report(profile, error);
    if (found) unlink(profile->running);
    for (int i = 0; i < profile->word_count; i++) free(profile->words[i]);
    free(profile->results);
    free(profile->running);
    free(profile->report);
    return status;
}

/* Starts a profiler on a second tilerun, whose hidden option --here does the run in its own process. */
static enum status profile_command(const struct invocation *invocation, struct error *error) {
    struct profile_settings settings = *(const struct profile_settings *)invocation->settings;
    struct profile profile = {&settings, invocation->operands[0], invocation->operands[1], .control = {-1, -1},
                              .acknowledge = {-1, -1}};
    FREED_BY(job_release) struct job *job = NULL;
    FREED_BY(plan_release) struct plan *plan = NULL;
    settings.job.overrides.only = profile.name;
    settings.job.overrides.warmup = "0";
    settings.job.overrides.repeat = "1";
    if (settings.here)
        TRY(interrupt_begin(error));
    else
        interrupt_release(); /* a signal ends this process; the profiled one handles its own */
    if (!strchr(profile.name, ':') || strchr(profile.name, ':') == profile.name)
        return fail(error, STATUS_USAGE, "'%s' is not a run: write ID:VARIANT, an operation and its variant",
                    profile.name);
    TRY(command_load(profile.job, &settings.job, true, &job, &plan, error));
    TRY(find_run(plan, profile.name, &profile.run, error));
    TRY(command_allow_source(plan, settings.allow_source, error));
    if (!profile.run) return STATUS_USAGE; /* find_run has set it, which clang's analyzer does not see */
    return settings.here ? run_here(plan, profile.run, invocation->line, error)
                         : profile_with_profiler(&profile, plan, error);
}

static const struct option_row rows[] = {
    ROW_SET(struct profile_settings),
    ROW_DEVICE(struct profile_settings),
    {"output", 'o', "FILE", "record the run in FILE, and write the report beside it (default: ID.VARIANT.profile.h5)",
     PARSE_TEXT(struct profile_settings, job.overrides.output), .kind = WORD_FILE},
    {"overwrite", 0, NULL, "replace an existing FILE and report", PARSE_FLAG(struct profile_settings, overwrite)},
    {"here", 0, NULL, "do the run in this process, for a profiler that has started it",
     PARSE_FLAG(struct profile_settings, here)},
    ROW_ALLOW_SOURCE(struct profile_settings, allow_source),
    {0},
};

const struct command command_profile = {
    .name = "profile",
    .summary = "Profile one verified launch of a run, by ncu on a GPU and by perf on a CPU.",
    .description =
        "ID:VARIANT is a run as --only names it: product:tiled,tile=32. The inputs are read and the result is "
        "verified as always, but the profiler records the first launch alone: between cudaProfilerStart "
        "and cudaProfilerStop. The report's path and SHA-256 become attributes of the results file. Where the "
        "profiler is not installed, its command line is printed.\n",
    .operands = {"JOB ID:VARIANT", WORD_JOB, .min = 2, .max = 2},
    .rows = rows,
    .settings_bytes = sizeof(struct profile_settings),
    .stops_early = true,
    .run = profile_command,
};
