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

/* The facts of the GPU that the job wants: *there is false when it may do without. */
static enum status find_cuda(const struct job *job, bool need_device, struct device_facts *facts, bool *there,
                             struct error *error) {
    *there = false;
    int number = command_cuda_number(job), count = number < 0 ? 0 : device_cuda_count();
    if (number >= 0 && number < count) {
        *there = true;
        return device_cuda_facts(number, facts, error);
    }
    if (job->device != JOB_DEVICE_CUDA || !need_device) return STATUS_OK;
    if (count == 0)
        return fail(error, STATUS_DEVICE,
                    TILERUN_CUDA ? "the job demands a CUDA GPU (device: cuda) and this machine has none that works"
                                 : "the job demands a CUDA GPU (device: cuda) and this tilerun was built without CUDA");
    return fail(error, STATUS_DEVICE, "there is no cuda:%d here; the last is cuda:%d", number, count - 1);
}

enum status command_load(const char *path, const struct job_overrides *overrides, bool need_device, struct job **job,
                         struct plan **plan, struct error *error) {
    *job = job_load(path, overrides);
    return command_plan_job(*job, need_device, plan, error);
}

enum status command_plan_job(const struct job *job, bool need_device, struct plan **plan, struct error *error) {
    struct device_facts cpu, cuda;
    bool there = false;
    *plan = NULL;
    if (yaml_error_count(job->document) == 0) {
        if (job->device_count > 1 || job->device_count < 0)
            return fail(error, STATUS_USAGE, "%s: this version runs a job on one device; name one, such as cuda:0",
                        job->path);
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
    if (stat(path, &about) == 0)
        fprintf(stderr, "tilerun: wrote %s (%s)\n", path, size_text((double)about.st_size, size));
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
