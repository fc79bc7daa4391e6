/* plan_shards.c - what each shard of a job would do. Two things end the gain from more shards: the group that takes the
 * longest, since one shard does it whatever their number; and files, since all shards share one file system: reading
 * and writing everything takes the same time however many do it. */
#include "plan_shards.h"

#include "../base/fail.h"
#include "../base/json.h"
#include "../base/table.h"
#include "../base/text.h"
#include "shard.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define UNEVEN 1.25 /* longest over mean from which on a reason is given */
enum {
    ALL_ROWS = 24, /* of more shards, */
    MOST_ROWS = 12 /* so many rows of the longest ones are shown */
};

struct numbered_load {
    int shard;
    struct shard_load load;
};

struct division {
    const struct plan *plan;
    int shards, idle;
    struct shard_groups *groups;
    struct numbered_load *of; /* in the order of their numbers */
    struct shard_load sum;
    double longest_s, mean_s;
    double read_bytes_per_s, write_bytes_per_s, files_s; /* of all shards together */
    int useful_shards; /* the fewest whose longest does nothing beside the longest group: more gain nothing */
    int files_shards;  /* the fewest that compute no longer than all files take; 0: no number does */
};

/* ---- the figures ------------------------------------------------------------------------------------------------- */

static double all_seconds(const struct shard_load *load) {
    return load->seconds;
}

static double compute_seconds(const struct shard_load *load) {
    return load->compute_s;
}

/* What each of `shards` shards has to do. The caller frees. */
static struct numbered_load *deal(const struct shard_groups *groups, int shards) {
    struct numbered_load *of = must_malloc((unsigned long)shards * sizeof *of);
    int *of_group = shard_deal(groups, shards);
    for (int s = 0; s < shards; s++) of[s] = (struct numbered_load){.shard = s};
    for (int g = 0; g < groups->count; g++) shard_load_add(&of[of_group[g]].load, &groups->groups[g].load);
    free(of_group);
    return of;
}

static double longest_of(const struct shard_groups *groups, int shards, double (*seconds)(const struct shard_load *)) {
    struct numbered_load *of = deal(groups, shards);
    double longest = 0;
    for (int s = 0; s < shards; s++) longest = fmax(longest, seconds(&of[s].load));
    free(of);
    return longest;
}

/* A number of shards of which none takes longer than `limit`, while with one shard less one does; 0: there is none. */
static int least_shards(const struct shard_groups *groups, double limit, double (*seconds)(const struct shard_load *)) {
    int over = 0, within = groups->count;
    if (within == 0 || longest_of(groups, within, seconds) > limit) return 0;
    while (within - over > 1) {
        int middle = over + (within - over) / 2;
        if (longest_of(groups, middle, seconds) > limit)
            over = middle;
        else
            within = middle;
    }
    return within;
}

static struct division divide(const struct plan *plan, int shards, double bytes_per_s) {
    struct division division = {.plan = plan, .shards = shards, .groups = shard_groups_find(plan)};
    division.of = deal(division.groups, shards);
    for (int s = 0; s < shards; s++) {
        const struct shard_load *load = &division.of[s].load;
        shard_load_add(&division.sum, load);
        division.longest_s = fmax(division.longest_s, load->seconds);
        division.idle += load->runs == 0;
    }
    division.mean_s = division.sum.seconds / shards;
    division.read_bytes_per_s = bytes_per_s > 0 ? bytes_per_s : SHARD_READ_BYTES_PER_S;
    division.write_bytes_per_s = bytes_per_s > 0 ? bytes_per_s : SHARD_WRITE_BYTES_PER_S;
    division.files_s =
        division.sum.read_bytes / division.read_bytes_per_s + division.sum.write_bytes / division.write_bytes_per_s;
    if (division.groups->count > 0)
        division.useful_shards =
            least_shards(division.groups, division.groups->groups[0].load.seconds * (1 + 1e-9), all_seconds);
    division.files_shards = least_shards(division.groups, division.files_s, compute_seconds);
    return division;
}

static void division_free(struct division *division) {
    shard_groups_free(division->groups);
    free(division->of);
}

/* The longest over the mean. */
static double unevenness(const struct division *division) {
    return division->mean_s > 0 ? division->longest_s / division->mean_s : 1;
}

/* How long all shards take if they begin at once. */
static double wall_seconds(const struct division *division, double longest_s) {
    return fmax(longest_s, division->files_s);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

enum { SHARD, RUNS, READS, WRITES, TIME, COLUMNS };

static const struct table_column columns[COLUMNS] = {
    [SHARD] = {.name = "shard"},
    [RUNS] = {.name = "runs", .right = true},
    [READS] = {.name = "reads", .right = true},
    [WRITES] = {.name = "writes", .right = true},
    [TIME] = {.name = "predicted", .right = true},
};

/* How a load is shown: those that look alike share a row. */
struct shown {
    char runs[16], reads[32], writes[32], seconds[32];
};

static struct shown show(const struct shard_load *load) {
    struct shown shown = {.seconds = "-"};
    snprintf(shown.runs, sizeof shown.runs, "%d", load->runs);
    size_text(load->read_bytes, shown.reads);
    size_text(load->write_bytes, shown.writes);
    if (load->runs > 0) time_words(load->seconds, shown.seconds);
    return shown;
}

static bool look_alike(const struct shard_load *one, const struct shard_load *other) {
    const struct shown a = show(one), b = show(other);
    return strcmp(a.runs, b.runs) == 0 && strcmp(a.reads, b.reads) == 0 && strcmp(a.writes, b.writes) == 0 &&
           strcmp(a.seconds, b.seconds) == 0;
}

static void add_row(struct table *table, char *name, const struct shard_load *load) {
    const struct shown shown = show(load);
    table_row(table);
    table_cell(table, SHARD, "%s", name);
    table_cell(table, RUNS, "%s", shown.runs);
    table_cell(table, READS, "%s", shown.reads);
    table_cell(table, WRITES, "%s", shown.writes);
    table_cell(table, TIME, "%s", shown.seconds);
    free(name);
}

static int compare_longest(const void *one, const void *other) {
    const struct numbered_load *a = one, *b = other;
    if (a->load.seconds != b->load.seconds) return a->load.seconds < b->load.seconds ? 1 : -1;
    return (a->shard > b->shard) - (a->shard < b->shard);
}

/* The longest shards, those that look alike in one row, and what the others have together. */
static void add_longest(struct table *table, struct numbered_load *of, int shards) {
    qsort(of, (size_t)shards, sizeof *of, compare_longest);
    int next = 0;
    for (int row = 0; next < shards && (row < MOST_ROWS || next == shards - 1); row++) {
        int begin = next, least = of[begin].shard, most = least;
        for (; next < shards && look_alike(&of[begin].load, &of[next].load); next++) {
            if (of[next].shard < least) least = of[next].shard;
            if (of[next].shard > most) most = of[next].shard;
        }
        int alike = next - begin;
        char *name = alike == 1                  ? must_printf("%d", least)
                     : most - least + 1 == alike ? must_printf("%d to %d, each", least, most)
                     : alike == 2                ? must_printf("%d and %d, each", least, most)
                                                 : must_printf("%d and %d others, each", least, alike - 1);
        add_row(table, name, &of[begin].load);
    }
    if (next == shards) return;
    struct shard_load rest = {0};
    for (int s = next; s < shards; s++) shard_load_add(&rest, &of[s].load);
    add_row(table, must_printf("%d others, together", shards - next), &rest);
}

static void print_table(const struct division *division, int width, FILE *to) {
    struct table *table = table_create(columns, COLUMNS);
    if (division->shards > ALL_ROWS)
        add_longest(table, division->of, division->shards);
    else
        for (int s = 0; s < division->shards; s++) add_row(table, must_printf("%d", s), &division->of[s].load);
    add_row(table, must_strdup("all"), &division->sum);
    table_print(table, width, NULL, to);
    table_free(table);
}

/* ---- the sentences ----------------------------------------------------------------------------------------------- */

static void print_line(char *line, int width, FILE *to) {
    text_print_wrapped(line, 0, width, to);
    free(line);
}

static const char *plural(int count) {
    return count == 1 ? "" : "s";
}

static void print_balance(const struct division *division, int width, FILE *to) {
    char a[32], b[32];
    double wall_s = wall_seconds(division, division->longest_s);
    double alone_s = wall_seconds(division, division->sum.seconds);
    print_line(must_printf("longest %s, mean %s: longest / mean %.2f", time_words(division->longest_s, a),
                           time_words(division->mean_s, b), unevenness(division)),
               width, to);
    print_line(must_printf("all at once: %s; one process: %s, %.3g times as long", time_words(wall_s, a),
                           time_words(alone_s, b), wall_s > 0 ? alone_s / wall_s : 1),
               width, to);
    if (division->idle > 0)
        print_line(must_printf("%d shard%s ha%s nothing to do: the job divides into %d", division->idle,
                               plural(division->idle), division->idle == 1 ? "s" : "ve", division->groups->count),
                   width, to);
}

/* "'product n=4096' alone takes 61 % of the time; more than 2 shards do not help" */
static void print_dominant(const struct division *division, int width, FILE *to) {
    const struct shard_group *longest = division->groups->groups;
    if (division->shards < division->useful_shards || unevenness(division) <= UNEVEN) return;
    const struct job_operation *operation = division->plan->tasks[longest->first].operation;
    int others = longest->tasks - 1;
    double percent = 100 * longest->load.seconds / division->sum.seconds;
    char *with = others == 0 ? must_strdup("alone takes")
                             : must_printf("and the %d operation%s connected with it take", others, plural(others));
    print_line(must_printf("'%s%s%s' %s %.*f %% of the time; more than %d shard%s do%s not help", operation->id,
                           operation->label[0] ? " " : "", operation->label, with, percent < 9.95 ? 1 : 0, percent,
                           division->useful_shards, plural(division->useful_shards),
                           division->useful_shards == 1 ? "es" : ""),
               width, to);
    free(with);
}

static void print_files(const struct division *division, int width, FILE *to) {
    char a[32], b[32], c[32];
    if (division->files_s <= 0) return;
    print_line(must_printf("files: reading %s and writing %s takes %s, whatever the number of shards, where the file "
                           "system reads %.3g GB/s and writes %.3g GB/s for all of them together (--bandwidth)",
                           size_text(division->sum.read_bytes, a), size_text(division->sum.write_bytes, b),
                           time_words(division->files_s, c), division->read_bytes_per_s / 1e9,
                           division->write_bytes_per_s / 1e9),
               width, to);
    if (division->files_shards == 0)
        print_line(must_strdup("That is less than the longest part of the job computes, so files never limit it."),
                   width, to);
    else if (division->files_shards == 1)
        print_line(must_strdup("That is longer than one shard computes: files limit any number of shards."), width, to);
    else
        print_line(must_printf("From %d shards on that is longer than the longest one computes: there files stop the "
                               "gain from more shards.",
                               division->files_shards),
                   width, to);
}

void plan_print_shards(const struct plan *plan, int shards, double bytes_per_s, int width, FILE *to) {
    struct division division = divide(plan, shards, bytes_per_s);
    char machine[96];
    print_table(&division, width, to);
    print_balance(&division, width, to);
    print_dominant(&division, width, to);
    print_files(&division, width, to);
    print_line(must_printf("Times are those of the machine that the division assumes, %s, not of this one.",
                           shard_machine(plan, machine)),
               width, to);
    division_free(&division);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void put_load(const struct shard_load *load, FILE *to) {
    fprintf(to, "\"runs\": %d, \"read_bytes\": %.0f, \"write_bytes\": %.0f, \"compute_s\": %.9g, \"total_s\": %.9g",
            load->runs, load->read_bytes, load->write_bytes, load->compute_s, load->seconds);
}

static void put_longest(const struct division *division, FILE *to) {
    const struct shard_group *longest = division->groups->groups;
    const struct job_operation *operation = division->plan->tasks[longest->first].operation;
    fprintf(to, "\"longest_group\": {\"operation\": ");
    json_write_string(to, operation->id, strlen(operation->id));
    fprintf(to, ", \"parameters\": ");
    json_write_string(to, operation->label, strlen(operation->label));
    fprintf(to, ", \"operations\": %d, \"total_s\": %.9g},\n", longest->tasks, longest->load.seconds);
}

void plan_print_shards_json(const struct plan *plan, int shards, double bytes_per_s, FILE *to) {
    struct division division = divide(plan, shards, bytes_per_s);
    fprintf(to, "{\"shards\": [");
    for (int s = 0; s < shards; s++) {
        fprintf(to, "%s\n  {\"shard\": %d, ", s ? "," : "", s);
        put_load(&division.of[s].load, to);
        fprintf(to, "}");
    }
    fprintf(to, "\n],\n");
    put_load(&division.sum, to);
    fprintf(to, ",\n\"longest_s\": %.9g, \"mean_s\": %.9g, \"longest_over_mean\": %.9g, \"all_at_once_s\": %.9g,\n",
            division.longest_s, division.mean_s, unevenness(&division), wall_seconds(&division, division.longest_s));
    fprintf(to, "\"idle\": %d, \"groups\": %d, \"useful_shards\": %d,\n", division.idle, division.groups->count,
            division.useful_shards);
    if (division.groups->count > 0) put_longest(&division, to);
    fprintf(to, "\"read_bytes_per_s\": %.9g, \"write_bytes_per_s\": %.9g, \"files_s\": %.9g, \"files_limit_from\": ",
            division.read_bytes_per_s, division.write_bytes_per_s, division.files_s);
    if (division.files_s > 0 && division.files_shards > 0)
        fprintf(to, "%d}\n", division.files_shards);
    else
        fprintf(to, "null}\n");
    division_free(&division);
}
