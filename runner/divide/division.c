/* division.c - divides a job, and divides it among other numbers of shards to find what these would gain. */
#include "division.h"

#include "../base/fail.h"
#include <math.h>
#include <stdlib.h>

/* The work of each of `shards` shards if the groups are dealt out to them, and its waits. The caller frees. */
static struct numbered_load *find_shard_loads(const struct shard_groups *groups, int shards) {
    struct numbered_load *loads = must_malloc((unsigned long)shards * sizeof *loads);
    OWNED int *shard_of_task = shard_deal(groups, shards);
    OWNED double *ends = shard_ends(groups, shard_of_task, shards);
    for (int s = 0; s < shards; s++) loads[s] = (struct numbered_load){.shard = s};
    for (int t = 0; t < groups->plan->task_count; t++) shard_load_add(&loads[shard_of_task[t]].load, &groups->loads[t]);
    for (int s = 0; s < shards; s++) {
        double waits = ends[s] - loads[s].load.seconds;
        loads[s].waits_s = waits > 1e-9 * ends[s] ? waits : 0; /* a smaller one is a rounding error */
    }
    return loads;
}

/* ---- other numbers of shards ------------------------------------------------------------------------------------- */

/* A job that can be divided among any number of shards. */
struct divisible {
    const struct plan *plan;
    const struct shard_groups *groups; /* of whole operations */
    enum shard_by by;
    double read_bytes_per_s, write_bytes_per_s;
};

struct division_outcome {
    double longest_s,
        compute_s;  /* the longest total, and the longest computing time, of a shard, both with its waits */
    double files_s; /* the time that the shared file system takes for all shards */
};

/* The time that the file system takes to read and write everything. */
static double files_seconds(const struct divisible *job, const struct shard_load *sum) {
    return sum->read_bytes / job->read_bytes_per_s + sum->write_bytes / job->write_bytes_per_s;
}

/* What becomes of the job if these groups are dealt out to so many shards. */
static struct division_outcome outcome_of(const struct divisible *job, const struct shard_groups *groups, int shards) {
    OWNED struct numbered_load *loads = find_shard_loads(groups, shards);
    struct division_outcome outcome = {0};
    struct shard_load sum = {0};
    for (int s = 0; s < shards; s++) {
        outcome.longest_s = fmax(outcome.longest_s, loads[s].load.seconds + loads[s].waits_s);
        outcome.compute_s = fmax(outcome.compute_s, loads[s].load.compute_s + loads[s].waits_s);
        shard_load_add(&sum, &loads[s].load);
    }
    outcome.files_s = files_seconds(job, &sum);
    return outcome;
}

/* What becomes of the job among so many shards. Where operations are divided into panels, it divides the job anew,
 * because the panels depend on the number of shards. */
static struct division_outcome outcome_among(const struct divisible *job, int shards) {
    if (job->by == SHARD_BY_RUNS ||
        (job->by == SHARD_AUTO && shards <= job->groups->count && !units_uneven(job->groups, shards)))
        return outcome_of(job, job->groups, shards);
    FREED_BY(units_release) struct units *units = units_make(job->plan, shards, job->by);
    FREED_BY(shard_groups_release) struct shard_groups *groups = shard_groups_find(&units->plan);
    return outcome_of(job, groups, shards);
}

/* The smallest number of shards with which the files take as long as the longest shard computes; 0: no number has been
 * found before more shards ceased to help. Doubles the number, then bisects. */
static int find_files_shards(const struct divisible *job) {
    int too_few = 0, enough = 1;
    double last = INFINITY;
    for (;; enough = enough > MAX_SHARDS / 2 ? MAX_SHARDS : 2 * enough) {
        const struct division_outcome outcome = outcome_among(job, enough);
        if (outcome.files_s >= outcome.compute_s) break;
        bool no_faster = enough > job->groups->count && outcome.compute_s > 0.99 * last;
        if (enough == MAX_SHARDS || no_faster) return 0;
        too_few = enough;
        last = outcome.compute_s;
    }
    while (enough - too_few > 1) {
        int middle = too_few + (enough - too_few) / 2;
        const struct division_outcome outcome = outcome_among(job, middle);
        *(outcome.files_s >= outcome.compute_s ? &enough : &too_few) = middle;
    }
    return enough;
}

/* The smallest number of shards that end as soon, but for rounding errors, as one shard for each task would. */
static int find_useful_shards(const struct divisible *job, const struct shard_groups *groups) {
    int too_few = 0, enough = groups->plan->task_count < MAX_SHARDS ? groups->plan->task_count : MAX_SHARDS;
    if (enough == 0) return 0;
    double longest_s = outcome_of(job, groups, enough).longest_s * (1 + 1e-9);
    while (enough - too_few > 1) {
        int middle = too_few + (enough - too_few) / 2;
        *(outcome_of(job, groups, middle).longest_s <= longest_s ? &enough : &too_few) = middle;
    }
    return enough;
}

/* ---- the division ------------------------------------------------------------------------------------------------ */

/* Sets the totals over the shards' loads. */
static void add_up_loads(struct division *division) {
    for (int s = 0; s < division->shards; s++) {
        const struct shard_load *load = &division->loads[s].load;
        shard_load_add(&division->sum, load);
        division->longest_s = fmax(division->longest_s, load->seconds + division->loads[s].waits_s);
        division->waits |= division->loads[s].waits_s > 0;
        division->idle += load->runs == 0;
    }
    division->mean_s = division->sum.seconds / division->shards;
    division->uneven = division->mean_s > 0 ? division->longest_s / division->mean_s : 1;
}

/* Sets what the job would gain from other numbers of shards, and from panels. */
static void compare_division(struct division *division, const struct divisible *job) {
    const struct division_outcome one_process = outcome_of(job, job->groups, 1);
    division->files_s = files_seconds(job, &division->sum);
    division->all_at_once_s = fmax(division->longest_s, division->files_s);
    division->one_process_s = fmax(one_process.longest_s, one_process.files_s);
    division->useful_shards = find_useful_shards(job, division->groups);
    division->files_shards = division->files_s > 0 ? find_files_shards(job) : 0;
    struct divisible tiles = *job;
    tiles.by = SHARD_BY_TILES;
    if (division->uneven > UNITS_UNEVEN && !units_divide(division->units))
        division->tiles_help = outcome_among(&tiles, division->shards).longest_s < UNITS_GAIN * division->longest_s;
}

struct division *division_make(const struct plan *whole, const struct division_terms *terms) {
    struct division *division = must_malloc(sizeof *division);
    FREED_BY(shard_groups_release) struct shard_groups *groups = shard_groups_find(whole);
    struct units *units = units_make(whole, terms->shards, terms->by);
    *division = (struct division){.shards = terms->shards, .units = units};
    division->plan = units_divide(units) ? &units->plan : whole;
    division->groups = shard_groups_find(division->plan);
    division->loads = find_shard_loads(division->groups, division->shards);
    division->read_bytes_per_s = terms->bytes_per_s > 0 ? terms->bytes_per_s : SHARD_READ_BYTES_PER_S;
    division->write_bytes_per_s = terms->bytes_per_s > 0 ? terms->bytes_per_s : SHARD_WRITE_BYTES_PER_S;
    const struct divisible job = {whole, groups, terms->by, division->read_bytes_per_s, division->write_bytes_per_s};
    add_up_loads(division);
    compare_division(division, &job);
    return division;
}

void division_free(struct division *division) {
    shard_groups_free(division->groups);
    units_free(division->units);
    free(division->loads);
    free(division);
}
