/* shard_option.c - which shard this process is: from the command line, or from the variables of a batch system. */
#include "shard_option.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Reads a number of at most nine digits and no sign at *text, and moves *text past it. */
static bool read_number(const char **text, int *number) {
    char *end;
    if (!isdigit((unsigned char)**text)) return false;
    long value = strtol(*text, &end, 10);
    if (end - *text > 9) return false;
    *text = end;
    *number = (int)value;
    return true;
}

/* The number in a variable; false: it is not set, or is no number. */
static bool variable(const char *name, int *number) {
    const char *text = getenv(name);
    return text && read_number(&text, number) && *text == '\0';
}

/* Slurm numbers an array as the user likes (--array=1-8): its least number is shard 0. With a step (0-6:2) the numbers
 * are that far apart. */
static bool from_array(int *index, int *count) {
    int number, least, step = 1;
    if (!variable("SLURM_ARRAY_TASK_ID", &number) || !variable("SLURM_ARRAY_TASK_MIN", &least) ||
        !variable("SLURM_ARRAY_TASK_COUNT", count))
        return false;
    if (!variable("SLURM_ARRAY_TASK_STEP", &step) || step < 1) step = 1;
    *index = number < least ? -1 : (number - least) / step;
    return true;
}

static bool from_batch_system(int *index, int *count, const char **source) {
    static const char *const ranks[][2] = {
        {"SLURM_PROCID", "SLURM_NTASKS"}, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}};
    *source = "SLURM_ARRAY_TASK_ID";
    if (from_array(index, count)) return true;
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        *source = ranks[i][0];
        if (variable(ranks[i][0], index) && variable(ranks[i][1], count)) return true;
    }
    return false;
}

static enum status check_count(const struct command *command, const char *option, const char *text, int count,
                               struct error *error) {
    if (count >= 1 && count <= MOST_SHARDS) return STATUS_OK;
    return fail(error, STATUS_USAGE, "%s: %s %s: the number of shards is from 1 to %d", command->name, option, text,
                MOST_SHARDS);
}

enum status command_shard_count(const struct command *command, const char *option, const char *text, int *count,
                                struct error *error) {
    const char *rest = text;
    if (!read_number(&rest, count) || *rest != '\0')
        return fail(error, STATUS_USAGE, "%s: %s is a number of shards, such as 8, not '%s'", command->name, option,
                    text);
    return check_count(command, option, text, *count, error);
}

enum status command_shard(const struct command *command, const char *text, int *index, int *count,
                          struct error *error) {
    const char *rest = text, *source = NULL;
    if (strcmp(text, "auto") == 0) {
        if (!from_batch_system(index, count, &source))
            return fail(error, STATUS_USAGE,
                        "%s: --shard auto: no batch system says which shard this is; set are neither "
                        "SLURM_ARRAY_TASK_ID, _MIN and _COUNT nor SLURM_PROCID and SLURM_NTASKS, "
                        "OMPI_COMM_WORLD_RANK and _SIZE, PMI_RANK and PMI_SIZE",
                        command->name);
        if (*index >= 0 && *index < *count && *count <= MOST_SHARDS) return STATUS_OK;
        return fail(error, STATUS_USAGE,
                    "%s: --shard auto: %s makes this shard %d of %d; shards are numbered without gaps, from 0",
                    command->name, source, *index, *count);
    }
    bool form = read_number(&rest, index) && *rest++ == '/' && read_number(&rest, count) && *rest == '\0';
    if (!form)
        return fail(error, STATUS_USAGE, "%s: --shard is I/N, such as 0/4, or auto, not '%s'", command->name, text);
    TRY(check_count(command, "--shard", text, *count, error));
    if (*index >= *count)
        return fail(error, STATUS_USAGE, "%s: --shard %s: shards are numbered from 0, so the last of %d is %d/%d",
                    command->name, text, *count, *count - 1, *count);
    return STATUS_OK;
}

enum status command_shard_by(const struct command *command, const char *text, enum shard_by *by, struct error *error) {
    if (strcmp(text, "runs") == 0)
        *by = SHARD_BY_RUNS;
    else if (strcmp(text, "tiles") == 0)
        *by = SHARD_BY_TILES;
    else
        return fail(error, STATUS_USAGE, "%s: --by is runs or tiles, not '%s'", command->name, text);
    return STATUS_OK;
}

enum status command_shard_wait(const struct command *command, const char *text, double *seconds, struct error *error) {
    int number;
    const char *rest = text;
    if (!read_number(&rest, &number) || *rest != '\0')
        return fail(error, STATUS_USAGE, "%s: --wait is a whole number of seconds, such as 3600, not '%s'",
                    command->name, text);
    *seconds = number;
    return STATUS_OK;
}
