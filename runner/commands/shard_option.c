/* shard_option.c - reads the number of this process's shard from the command line or from a batch system's
 * variables. */
#include "shard_option.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Reads a number of at most nine digits and no sign at *text, and moves *text past it. false: no such number stands
 * there. */
static bool read_count(const char **text, int *number) {
    char *end;
    if (!isdigit((unsigned char)**text)) return false;
    long value = strtol(*text, &end, 10);
    if (end - *text > 9) return false;
    *text = end;
    *number = (int)value;
    return true;
}

/* Reads the number in an environment variable; false: it is not set, or is not a number. */
static bool read_variable(const char *name, int *number) {
    const char *text = getenv(name);
    return text && read_count(&text, number) && *text == '\0';
}

/* Reads the shard of a Slurm array, whose numbers the user chooses (--array=1-8): the smallest is shard 0. The numbers
 * may have a step (0-6:2). *index -1: this task's number is below the smallest. false: this is no array. */
static bool from_array(int *index, int *count) {
    int number, first, step = 1;
    if (!read_variable("SLURM_ARRAY_TASK_ID", &number) || !read_variable("SLURM_ARRAY_TASK_MIN", &first) ||
        !read_variable("SLURM_ARRAY_TASK_COUNT", count))
        return false;
    if (!read_variable("SLURM_ARRAY_TASK_STEP", &step) || step < 1) step = 1;
    *index = number < first ? -1 : (number - first) / step;
    return true;
}

/* STATUS_USAGE: the numbers of a Slurm array have gaps (--array=4,8,15), as of a part of an array that is submitted
 * again. Then even those below their count do not say which shards they are. */
static enum status check_gaps(struct error *error) {
    int first, last, count, step = 1;
    if (!read_variable("SLURM_ARRAY_TASK_MIN", &first) || !read_variable("SLURM_ARRAY_TASK_MAX", &last) ||
        !read_variable("SLURM_ARRAY_TASK_COUNT", &count))
        return STATUS_OK;
    if (!read_variable("SLURM_ARRAY_TASK_STEP", &step) || step < 1) step = 1;
    if ((last - first) / step < count) return STATUS_OK;
    return fail(
        error, STATUS_USAGE,
        "--shard auto: this array has %d tasks from %d to %d: shards are numbered without gaps; submit the whole "
        "array again, which keeps what is finished, or one shard by --shard I/N",
        count, first, last);
}

/* Reads the shard from the first batch system whose variables are set; *source: the variable of the index. false: none
 * are set. */
static bool from_batch_system(int *index, int *count, const char **source) {
    static const char *const ranks[][2] = {
        {"SLURM_PROCID", "SLURM_NTASKS"}, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}};
    *source = "SLURM_ARRAY_TASK_ID";
    if (from_array(index, count)) return true;
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        *source = ranks[i][0];
        if (read_variable(ranks[i][0], index) && read_variable(ranks[i][1], count)) return true;
    }
    return false;
}

static enum status check_count(const struct option_row *row, const char *argument, int count, struct error *error) {
    if (count >= 1 && count <= MAX_SHARDS) return STATUS_OK;
    return fail(error, STATUS_USAGE, "--%s %s: the number of shards must be from 1 to %d", row->name, argument,
                MAX_SHARDS);
}

enum status option_shard_count(const struct option_row *row, const char *argument, void *field, struct error *error) {
    const char *rest = argument;
    int *count = field;
    if (!read_count(&rest, count) || *rest != '\0')
        return fail(error, STATUS_USAGE, "--%s must be a number of shards, such as 8, not '%s'", row->name, argument);
    return check_count(row, argument, *count, error);
}

/* Sets the shard from the batch system's variables. STATUS_USAGE: they are not set, or not the numbers of a shard. */
static enum status shard_of_environment(struct shard *shard, struct error *error) {
    const char *source = NULL;
    TRY(check_gaps(error));
    if (!from_batch_system(&shard->index, &shard->count, &source))
        return fail(error, STATUS_USAGE,
                    "--shard auto: no batch system says which shard this is; none of these sets is complete: "
                    "SLURM_ARRAY_TASK_ID, _MIN and _COUNT; SLURM_PROCID and SLURM_NTASKS; OMPI_COMM_WORLD_RANK and "
                    "_SIZE; PMI_RANK and PMI_SIZE");
    if (shard->index >= 0 && shard->index < shard->count && shard->count <= MAX_SHARDS) return STATUS_OK;
    return fail(error, STATUS_USAGE,
                "--shard auto: %s makes this shard %d of %d; shards are numbered without gaps, from 0", source,
                shard->index, shard->count);
}

enum status option_shard(const struct option_row *row, const char *argument, void *field, struct error *error) {
    struct shard *shard = field;
    const char *rest = argument;
    if (strcmp(argument, "auto") == 0) return shard_of_environment(shard, error);
    bool form = read_count(&rest, &shard->index) && *rest++ == '/' && read_count(&rest, &shard->count) && !*rest;
    if (!form) return fail(error, STATUS_USAGE, "--shard must be I/N, such as 0/4, or auto, not '%s'", argument);
    TRY(check_count(row, argument, shard->count, error));
    if (shard->index >= shard->count)
        return fail(error, STATUS_USAGE, "--shard %s: shards are numbered from 0, so the last of %d is %d/%d", argument,
                    shard->count, shard->count - 1, shard->count);
    return STATUS_OK;
}
