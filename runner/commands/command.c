/* command.c - what the commands share: usage errors, and loading a job for the devices that are there. */
#include "help.h"

#include "../base/text.h"
#include "../plan/space.h"
#include "../stream/device.h"
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum status command_misused(const struct command *command, int code, char **argv, struct error *error) {
    char option[64]; /* "--repaet=3" */
    if (optopt > 0 && optopt < 256)
        snprintf(option, sizeof option, "-%c", optopt);
    else
        snprintf(option, sizeof option, "%s", argv[optind - 1]);
    if (code == ':') return fail(error, STATUS_USAGE, "%s: option '%s' needs a value", command->name, option);
    char near[HELP_NAME_BYTES];
    if (help_nearest(command, option, near))
        return fail(error, STATUS_USAGE, "%s: unknown option '%s' (did you mean '--%s'?)", command->name, option, near);
    return fail(error, STATUS_USAGE, "%s: unknown option '%s'; `tilerun %s --help` lists them", command->name, option,
                command->name);
}

enum status command_override(const struct command *command, int code, char **argv, struct command_overrides *overrides,
                             struct error *error) {
    struct job_overrides *job = &overrides->job;
    switch (code) {
    case OPTION_SET:
        if (job->set_count == COMMAND_MAX_SETS)
            return fail(error, STATUS_USAGE, "%s: more than %d --set", command->name, COMMAND_MAX_SETS);
        overrides->sets[job->set_count++] = optarg;
        job->sets = overrides->sets;
        return STATUS_OK;
    case OPTION_DEVICE: job->device = optarg; return STATUS_OK;
    case OPTION_MEMORY: job->memory = optarg; return STATUS_OK;
    case OPTION_ONLY: job->only = optarg; return STATUS_OK;
    case OPTION_REPEAT: job->repeat = optarg; return STATUS_OK;
    case OPTION_WARMUP: job->warmup = optarg; return STATUS_OK;
    case OPTION_VERIFY: job->verify = optarg; return STATUS_OK;
    case OPTION_ONCE:
        overrides->once = true;
        job->warmup = "0";
        job->repeat = "1";
        job->verify = "sampled";
        return STATUS_OK;
    default: return command_misused(command, code, argv, error);
    }
}

enum status command_operands(const struct command *command, int argc, int least, int most, struct error *error) {
    int count = argc - optind;
    if (count >= least && (most < 0 || count <= most)) return STATUS_OK;
    return fail(error, STATUS_USAGE, "%s: %s\nusage: tilerun %s %s", command->name,
                count < least ? "a file is missing" : "too many files", command->name, command->arguments);
}

enum status command_operands_only(const struct command *command, int argc, char **argv, int most, struct error *error) {
    static const struct option none[] = {{0}};
    int code = getopt_long(argc, argv, ":", none, NULL);
    if (code != -1) return command_misused(command, code, argv, error);
    return command_operands(command, argc, 0, most, error);
}

int command_cuda_number(const struct job *job) {
    if (job->device == JOB_DEVICE_CPU) return -1;
    return job->device_count > 0 ? job->device_numbers[0] : 0;
}

/* The numbers of the GPUs that the job wants, of the `there` that are here; returns how many. */
static int cuda_numbers(const struct job *job, int there, int numbers[MOST_DEVICES]) {
    int count = job->device_count < 0 ? there : job->device_count == 0 ? 1 : job->device_count;
    if (count > MOST_DEVICES) count = MOST_DEVICES;
    for (int i = 0; i < count; i++) numbers[i] = job->device_count > 0 ? job->device_numbers[i] : i;
    return count;
}

/* Facts of a team: the first one's, and the least memory of them all. */
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

/* The facts of the GPUs that the job wants: *there is false when it may do without. */
static enum status find_cuda(const struct job *job, bool need_device, struct device_facts *facts, bool *there,
                             struct error *error) {
    *there = false;
    if (job->device == JOB_DEVICE_CPU) return STATUS_OK;
    int numbers[MOST_DEVICES], here = device_cuda_count(), count = cuda_numbers(job, here, numbers), missing = -1;
    for (int i = 0; i < count; i++)
        if (numbers[i] >= here) missing = numbers[i];
    if (count > 0 && missing < 0) {
        *there = true;
        return facts_of_team(numbers, count, facts, error);
    }
    if (job->device != JOB_DEVICE_CUDA || !need_device) return STATUS_OK;
    if (here == 0)
        return fail(error, STATUS_DEVICE,
                    TILERUN_CUDA ? "the job demands a CUDA GPU (device: cuda) and this machine has none that works"
                                 : "the job demands a CUDA GPU (device: cuda) and this tilerun was built without CUDA");
    return fail(error, STATUS_DEVICE, "there is no cuda:%d here; the last is cuda:%d", missing, here - 1);
}

enum status command_load(const char *path, const struct job_overrides *overrides, bool need_device, struct job **job,
                         struct plan **plan, struct error *error) {
    fail_about(path);
    *job = job_load(path, overrides);
    return command_plan_job(*job, need_device, plan, error);
}

enum status command_plan_job(const struct job *job, bool need_device, struct plan **plan, struct error *error) {
    struct device_facts cpu = {.kind = DEVICE_CPU}, cuda = {.kind = DEVICE_CUDA};
    bool there = false;
    *plan = NULL;
    if (yaml_error_count(job->document) == 0) {
        device_cpu_facts(&cpu);
        TRY(find_cuda(job, need_device, &cuda, &there, error));
    }
    return command_plan_for(job, &cpu, there ? &cuda : NULL, plan, error);
}

enum status command_plan_for(const struct job *job, const struct device_facts *cpu, const struct device_facts *cuda,
                             struct plan **plan, struct error *error) {
    *plan = NULL;
    enum status status = yaml_error_count(job->document) > 0 ? STATUS_USAGE : plan_make(job, cpu, cuda, plan);
    yaml_print_errors(job->document, stderr);
    return status ? status : space_check(*plan, error);
}

void command_name_output(const char *path) {
    struct stat about;
    char size[32];
    if (stat(path, &about) == 0) text_say("tilerun: wrote %s (%s)\n", path, size_text((double)about.st_size, size));
}

char *command_line(int argc, char **argv) {
    char *line = must_strdup("tilerun");
    for (int i = 0; i < argc; i++) {
        char *longer = must_printf("%s %s", line, argv[i]);
        free(line);
        line = longer;
    }
    return line;
}
