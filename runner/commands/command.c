/* command.c - does what several commands need: parses a command line, and loads a job for the existing devices. */
#include "command.h"

#include "../base/clock.h"
#include "../base/spelling.h"
#include "../base/text.h"
#include "../compile/sources.h"
#include "../plan/plan_user_kernels.h"
#include "../plan/space.h"
#include "../record/environment.h"
#include "../stream/device.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const struct command *const commands[] = {
#define COMMAND(name) &command_##name,
#include "commands.def"
#undef COMMAND
    NULL,
};

/* ---- the command line -------------------------------------------------------------------------------------------- */

enum status command_find(const char *name, const struct command **command, struct error *error) {
    const char *names[sizeof commands / sizeof *commands];
    int count = 0;
    for (; commands[count]; count++) {
        names[count] = commands[count]->name;
        if (strcmp(names[count], name) == 0) {
            *command = commands[count];
            return STATUS_OK;
        }
    }
    const char *near = nearest_name(name, names, count);
    if (near) return fail(error, STATUS_USAGE, "unknown command '%s' (did you mean '%s'?)", name, near);
    return fail(error, STATUS_USAGE, "unknown command '%s'; `tilerun --help` lists them", name);
}

char *command_line(int argc, char **argv) {
    char *line = must_strdup("tilerun");
    for (int i = 0; i < argc; i++) {
        OWNED char *word = text_shell_word(argv[i]);
        must_append(&line, " %s", word);
    }
    return line;
}

enum status command_parse(const struct command *command, int argc, char **argv, struct invocation *invocation,
                          struct error *error) {
    *invocation = (struct invocation){.command = command};
    invocation->settings = invocation->storage;
    if (command->defaults) memcpy(invocation->settings, command->defaults, command->settings_bytes);
    int first = argc;
    enum status status = options_parse(command->rows, command->name, argc, argv, invocation->settings, &first, error);
    invocation->operands = argv + first;
    invocation->count = argc - first;
    return status;
}

char *command_usage(const struct command *command) {
    return must_printf("tilerun %s%s%s%s", command->name, command->rows[0].name ? " [OPTION...]" : "",
                       command->operands.names[0] ? " " : "", command->operands.names);
}

enum status command_validate(const struct invocation *invocation, struct error *error) {
    const struct command *command = invocation->command;
    struct error wrong = {.status = STATUS_OK};
    if (command->validate && command->validate(invocation->settings, &wrong))
        return fail(error, wrong.status, "%s: %s", command->name, wrong.text);
    const struct operands *operands = &command->operands;
    bool missing = invocation->count < operands->min;
    if (!missing && (operands->max < 0 || invocation->count <= operands->max)) return STATUS_OK;
    OWNED char *usage = command_usage(command);
    fail(error, STATUS_USAGE, "%s: %s\nusage: %s", command->name,
         missing ? "an operand is missing" : "too many operands", usage);
    return STATUS_USAGE;
}

enum status command_once(const struct option_row *row, const char *argument, void *field, struct error *error) {
    struct job_settings *settings = field;
    (void)row, (void)argument, (void)error;
    settings->once = true;
    settings->overrides.warmup = "0";
    settings->overrides.repeat = "1";
    settings->overrides.verify = "sampled";
    return STATUS_OK;
}

/* ---- a job and its plan ------------------------------------------------------------------------------------------ */

int command_cuda_number(const struct job *job) {
    if (job->device == JOB_DEVICE_CPU) return -1;
    return job->device_count > 0 ? job->device_numbers[0] : 0;
}

/* Lists the numbers of the GPUs that the job wants on a machine with `gpu_count` GPUs. Returns how many it wants, at
 * most MAX_DEVICES. */
static int cuda_numbers(const struct job *job, int gpu_count, int numbers[MAX_DEVICES]) {
    int count = job->device_count < 0 ? gpu_count : job->device_count == 0 ? 1 : job->device_count;
    if (count > MAX_DEVICES) count = MAX_DEVICES;
    for (int i = 0; i < count; i++) numbers[i] = job->device_count > 0 ? job->device_numbers[i] : i;
    return count;
}

/* Finds the facts of one or several GPUs: those of the first, with the smallest memory of all. */
static enum status facts_of_team(const int *numbers, int count, struct device_facts *facts, struct error *error) {
    TRY(device_cuda_facts(numbers[0], facts, error));
    for (int i = 1; i < count; i++) {
        struct device_facts other;
        TRY(device_cuda_facts(numbers[i], &other, error));
        if (other.memory_free < facts->memory_free) facts->memory_free = other.memory_free;
        if (other.memory_total < facts->memory_total) facts->memory_total = other.memory_total;
        facts->numbers[i] = numbers[i];
    }
    facts->team = count;
    plan_device_text(facts, count, facts->id, sizeof facts->id);
    return STATUS_OK;
}

/* Finds the GPUs that the job wants and their facts. *found: the machine has them. STATUS_DEVICE: with `need_device`,
 * it lacks one that the job demands. */
static enum status find_cuda(const struct job *job, bool need_device, struct device_facts *facts, bool *found,
                             struct error *error) {
    *found = false;
    if (job->device == JOB_DEVICE_CPU) return STATUS_OK;
    int numbers[MAX_DEVICES], here = device_cuda_count(), count = cuda_numbers(job, here, numbers), missing = -1;
    for (int i = 0; i < count; i++)
        if (numbers[i] >= here) missing = numbers[i];
    if (count > 0 && missing < 0) {
        *found = true;
        return facts_of_team(numbers, count, facts, error);
    }
    if (job->device != JOB_DEVICE_CUDA || !need_device) return STATUS_OK;
    if (here == 0)
        return fail(error, STATUS_DEVICE,
                    TILERUN_CUDA
                        ? "the job demands a CUDA GPU (device: cuda), and no GPU works on this machine"
                        : "the job demands a CUDA GPU (device: cuda), and this tilerun was built without CUDA");
    return fail(error, STATUS_DEVICE, "there is no cuda:%d here; the last is cuda:%d", missing, here - 1);
}

enum status command_load(const char *path, const struct job_settings *settings, bool need_device, struct job **job,
                         struct plan **plan, struct error *error) {
    struct job_overrides overrides = settings->overrides;
    overrides.sets = settings->sets.items;
    overrides.set_count = settings->sets.count;
    fail_set_subject(path);
    *job = job_load(path, &overrides);
    return command_plan_job(*job, need_device, plan, error);
}

/* Prints what each `search` of the job has to choose from. */
static void report_searches(const struct job *job) {
    for (int i = 0; i < job->operation_count; i++) {
        const struct job_operation *operation = &job->operations[i];
        if (i > 0 && strcmp(operation[-1].id, operation->id) == 0)
            continue; /* the same operation with other swept parameters */
        for (int v = 0, count; v < operation->variant_count; v += count) {
            const struct job_variant *first = &operation->variants[v];
            char budget[32];
            const bool ends = isfinite(first->search.budget_s);
            for (count = 1; v + count < operation->variant_count && first[count].search.group == first->search.group;)
                count++;
            if (first->search.group && job_is_timed(&operation->run))
                text_print_stderr("tilerun: %s: %d combinations of '%s' to search%s%s%s\n", operation->id, count,
                                  first->name, ends ? ", in " : "",
                                  ends ? duration_text(first->search.budget_s, budget) : "", ends ? " at most" : "");
        }
    }
}

void command_report_remarks(const struct job *job) {
    for (const char *line = job->remarks; line && *line; line += strcspn(line, "\n") + 1)
        text_print_stderr("%.*s\n", (int)strcspn(line, "\n"), line);
    report_searches(job);
}

void command_report_excluded(const struct job *job) {
    command_report_remarks(job);
    if (job->excluded > 0)
        text_print_stderr("tilerun: 'where' leaves out %lld of %lld combinations of its parameters\n",
                          (long long)job->excluded, (long long)job->combinations);
}

enum status command_plan_job(struct job *job, bool need_device, struct plan **plan, struct error *error) {
    struct device_facts cpu = {.kind = DEVICE_CPU}, cuda = {.kind = DEVICE_CUDA};
    bool has_gpu = false;
    *plan = NULL;
    device_cpu_facts(&cpu);
    enum status found =
        yaml_error_count(job->document) ? STATUS_OK : find_cuda(job, need_device, &cuda, &has_gpu, error);
    if (found && found != STATUS_DEVICE) return found;
    struct error mistake = {.status = STATUS_OK}; /* mistakes of the job come before the device that it lacks */
    enum status planned = command_plan_for(job, &cpu, has_gpu ? &cuda : NULL, plan, found ? &mistake : error);
    return found && planned != STATUS_USAGE ? found : planned;
}

/* Removes the operations that need inputs which cannot be read, and remarks on these inputs. If no operation is left,
 * the inputs become mistakes. */
static void remove_unreadable(struct job *job, const struct plan *plan) {
    OWNED bool *inputs = must_zeroed((size_t)job->input_count * sizeof *inputs + 1);
    int all = job->operation_count, readable = 0;
    for (int t = 0; t < plan->task_count; t++) readable += plan->tasks[t].known;
    job->tolerant = readable > 0;
    for (int i = job->input_count - 1; i >= 0 && readable > 0; i--) {
        const char *why = plan->arrays[i].unreadable;
        inputs[i] = why != NULL;
        if (!why) continue;
        must_append(&job->remarks, "tilerun: %s; the operations that need input '%s'%s%s are left out\n", why,
                    job->inputs[i].name, *job->inputs[i].label ? " " : "", job->inputs[i].label);
        free(job->unreadable);
        job->unreadable = must_strdup(why);
    }
    int removed = readable > 0 ? job_remove(job, inputs) : 0;
    if (job->unreadable) must_append(&job->unreadable, ": %d of %d operations need it", removed, all);
}

enum status command_plan_for(struct job *job, const struct device_facts *cpu, const struct device_facts *cuda,
                             struct plan **plan, struct error *error) {
    *plan = NULL;
    enum status status = plan_make(job, cpu, cuda, plan);
    bool readable = true;
    for (int i = 0; i < job->input_count && !status && job->tolerant; i++)
        readable &= (*plan)->arrays[i].unreadable == NULL;
    if (job->tolerant && (status || !readable)) { /* if the job has mistakes, unreadable inputs are among them */
        if (status) job->tolerant = false;
        if (!status) remove_unreadable(job, *plan);
        plan_free(*plan);
        status = plan_make(job, cpu, cuda, plan);
    }
    yaml_print_errors(job->document, stderr);
    return status ? status : space_check(*plan, error);
}

enum status command_allow_source(const struct plan *plan, bool allowed, struct error *error) {
    const char *given = getenv("TILERUN_ALLOW_SOURCE");
    FREED_BY(kernel_files_clear) struct kernel_files files = plan_kernel_files(plan);
    if (files.count == 0 || allowed || (given && strcmp(given, "1") == 0)) return STATUS_OK;
    text_print_stderr("tilerun: the job compiles and runs code of its own. SHA-256 of its files:\n");
    for (int i = 0; i < files.count; i++)
        text_print_stderr("    %s  %s\n", files.items[i].file->sha256, files.items[i].name);
    return fail(error, STATUS_USAGE,
                "this code can do all that you can: read it, then give --allow-source, or set TILERUN_ALLOW_SOURCE=1");
}

void command_begin_log(const struct plan *plan, const struct shard *shard) {
    if (!text_is_log()) return;
    char when[TIME_TEXT], shard_text[64] = "";
    OWNED char *environment = environment_host();
    struct device_facts cpu;
    device_cpu_facts(&cpu);
    const char *gpu = plan && plan->present[DEVICE_CUDA] ? plan->facts[DEVICE_CUDA].name : NULL;
    if (shard && shard->count > 0)
        snprintf(shard_text, sizeof shard_text, ", shard %d of %d", shard->index, shard->count);
    text_print_stderr("tilerun %s (%s), %s, %s, %s%s%s with %d core%s%s\n", tilerun_version, tilerun_git_commit,
                      time_text(when), environment, gpu ? gpu : "", gpu ? " and " : "", cpu.name, cpu.host_threads,
                      cpu.host_threads == 1 ? "" : "s", shard_text);
}

enum status command_execute(const struct units *units, const struct execute_options *options, struct error *error) {
    bool wrote;
    enum status status = execute_plan(units, options, &wrote, error);
    const char *path = units->whole->job->output;
    struct stat about;
    char size[32];
    bool done = (status == STATUS_OK || status == STATUS_RUN) && wrote && options->progress != PROGRESS_NONE;
    OWNED char *word = text_shell_word(path);
    if (done && options->shard)
        text_print_stderr("tilerun: shard %d of %d has done %d of %d runs; `tilerun merge %s` joins them\n",
                          options->shard->index, options->shard->count, shard_runs(options->shard, &units->plan),
                          units->plan.run_count, word);
    else if (done && stat(path, &about) == 0)
        text_print_stderr("tilerun: wrote %s (%s)\n", path, size_text((double)about.st_size, size));
    return status;
}
