/* plan_shards.c - prints what each shard of a job would do, how even the shards are, and how many make sense. */
#include "plan_print.h"

#include "../base/fail.h"
#include "../base/json.h"
#include "../base/table.h"
#include "../base/text.h"
#include <stdlib.h>
#include <string.h>

enum {
    MAX_SHARDS_SHOWN = 24, /* with more shards, the table has rows for the longest shards only */
    ROWS_OF_LONGEST = 12   /* the number of these rows */
};

/* ---- the table --------------------------------------------------------------------------------------------------- */

enum { SHARD, RUNS, READS, WRITES, TIME, WAITS, COLUMNS };

static const struct table_column columns[COLUMNS] = {
    [SHARD] = {.name = "shard"},
    [RUNS] = {.name = "runs", .right = true},
    [READS] = {.name = "reads", .right = true},
    [WRITES] = {.name = "writes", .right = true},
    [TIME] = {.name = "predicted", .right = true},
    [WAITS] = {.name = "waits", .right = true}, /* only if a shard waits */
};

/* The texts of a row but for the shard's name; shards with the same texts share a row. */
struct row_texts {
    char cells[COLUMNS][32];
};

/* Formats a shard's row. */
static struct row_texts texts_of(const struct numbered_load *numbered) {
    const struct shard_load *load = &numbered->load;
    struct row_texts texts = {{[TIME] = "-", [WAITS] = "-"}};
    snprintf(texts.cells[RUNS], sizeof texts.cells[RUNS], "%d", load->runs);
    size_text(load->read_bytes, texts.cells[READS]);
    size_text(load->write_bytes, texts.cells[WRITES]);
    if (load->runs > 0) duration_text(load->seconds, texts.cells[TIME]);
    if (numbered->waits_s > 0) duration_text(numbered->waits_s, texts.cells[WAITS]);
    return texts;
}

static bool same_texts(const struct numbered_load *one, const struct numbered_load *other) {
    const struct row_texts a = texts_of(one), b = texts_of(other);
    bool alike = true;
    for (int c = RUNS; c < COLUMNS; c++) alike = alike && strcmp(a.cells[c], b.cells[c]) == 0;
    return alike;
}

/* Adds a row, and frees `name`. */
static void add_row(struct table *table, char *name, const struct numbered_load *load, bool waits) {
    const struct row_texts texts = texts_of(load);
    table_row(table);
    table_cell(table, SHARD, "%s", name);
    for (int c = RUNS; c <= (waits ? WAITS : TIME); c++) table_cell(table, c, "%s", texts.cells[c]);
    free(name);
}

/* Orders the longest shards first, then by number. */
static int compare_longest(const void *one, const void *other) {
    const struct numbered_load *a = one, *b = other;
    double one_s = a->load.seconds + a->waits_s, other_s = b->load.seconds + b->waits_s;
    if (one_s != other_s) return one_s < other_s ? 1 : -1;
    return (a->shard > b->shard) - (a->shard < b->shard);
}

/* Adds rows for the longest shards, and one for the sum of the others. Sorts `loads`. Shards whose rows would look
 * alike share one. */
static void add_longest(struct table *table, struct numbered_load *loads, int shards, bool waits) {
    qsort(loads, (size_t)shards, sizeof *loads, compare_longest);
    int next = 0;
    for (int row = 0; next < shards; row++) {
        bool is_last = next == shards - 1; /* a single remaining shard gets its own row, not one of "others" */
        if (row >= ROWS_OF_LONGEST && !is_last) break;
        int begin = next, min_shard = loads[begin].shard, max_shard = min_shard;
        for (; next < shards && same_texts(&loads[begin], &loads[next]); next++) {
            if (loads[next].shard < min_shard) min_shard = loads[next].shard;
            if (loads[next].shard > max_shard) max_shard = loads[next].shard;
        }
        int alike = next - begin;
        char *name = alike == 1                           ? must_printf("%d", min_shard)
                     : max_shard - min_shard + 1 == alike ? must_printf("%d to %d, each", min_shard, max_shard)
                     : alike == 2                         ? must_printf("%d and %d, each", min_shard, max_shard)
                                                          : must_printf("%d and %d others, each", min_shard, alike - 1);
        add_row(table, name, &loads[begin], waits);
    }
    if (next == shards) return;
    struct numbered_load rest = {0};
    for (int s = next; s < shards; s++) shard_load_add(&rest.load, &loads[s].load);
    add_row(table, must_printf("%d others, together", shards - next), &rest, waits);
}

/* Prints a row for each shard, or for the longest, and one for their sum. */
static void print_table(const struct division *division, int width, FILE *to) {
    int column_count = division->waits ? COLUMNS : WAITS; /* without WAITS, the last column */
    FREED_BY(table_release) struct table *table = table_create(columns, column_count);
    const struct numbered_load sum = {.load = division->sum};
    if (division->shards > MAX_SHARDS_SHOWN)
        add_longest(table, division->loads, division->shards, division->waits);
    else
        for (int s = 0; s < division->shards; s++)
            add_row(table, must_printf("%d", s), &division->loads[s], division->waits);
    add_row(table, must_strdup("all"), &sum, division->waits);
    table_print(table, width, NULL, to);
}

/* ---- the summary ------------------------------------------------------------------------------------------------- */

void plan_print_line(int width, FILE *to, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    OWNED char *line = must_vprintf(format, arguments);
    va_end(arguments);
    text_print_wrapped(line, 0, width, to);
}

static const char *plural(int count) {
    return count == 1 ? "" : "s";
}

/* Prints how even the shards are, what they gain over one process, and how many are idle. */
static void print_balance(const struct division *division, int width, FILE *to) {
    char a[32], b[32];
    plan_print_line(width, to, "longest %s%s, mean %s: longest / mean %.2f", duration_text(division->longest_s, a),
                    division->waits ? " with its waits for results of other shards" : "",
                    duration_text(division->mean_s, b), division->uneven);
    double gain = division->all_at_once_s > 0 ? division->one_process_s / division->all_at_once_s : 1;
    OWNED char *times = gain < 1.005 ? must_strdup("no longer") : must_printf("%.3g times as long", gain);
    plan_print_line(width, to, "all at once: %s; one process: %s, %s", duration_text(division->all_at_once_s, a),
                    duration_text(division->one_process_s, b), times);
    if (division->idle > 0)
        plan_print_line(width, to, "%d shard%s ha%s nothing to do: the job divides into %d", division->idle,
                        plural(division->idle), division->idle == 1 ? "s" : "ve", division->shards - division->idle);
}

/* If the longest group of tasks limits the job: "'product n=4096' alone takes 61 % of the time; more than 2 shards do
 * not help". */
static void print_dominant(const struct division *division, int width, FILE *to) {
    bool more_would_help = division->shards < division->useful_shards, is_even = division->uneven <= UNITS_UNEVEN;
    if (more_would_help || is_even) return;
    const struct shard_group *longest = division->groups->groups;
    const struct task *task = &division->plan->tasks[longest->first];
    const struct job_operation *operation = task->operation;
    int others = longest->tasks - 1;
    double percent = 100 * longest->load.seconds / division->sum.seconds;
    OWNED char *with = others == 0
                           ? must_strdup("alone takes")
                           : must_printf("and the %d operation%s connected with it take", others, plural(others));
    plan_print_line(width, to, "'%s%s%s%s%s' %s %.*f %% of the time; more than %d shard%s do%s not help%s",
                    operation->id, operation->label[0] ? " " : "", operation->label, task->panel ? ", " : "",
                    task->panel ? task->panel : "", with, percent < 9.95 ? 1 : 0, percent, division->useful_shards,
                    plural(division->useful_shards), division->useful_shards == 1 ? "es" : "",
                    division->tiles_help ? "; --by tiles divides it" : "");
}

/* Prints the time that the file system needs, and from how many shards on it limits the job. */
static void print_files(const struct division *division, int width, FILE *to) {
    char a[32], b[32], c[32];
    if (division->files_s <= 0) return;
    plan_print_line(width, to,
                    "files: reading %s and writing %s takes at least %s, because the file system reads %.3g GB/s "
                    "and writes %.3g GB/s for all shards together (--bandwidth)",
                    size_text(division->sum.read_bytes, a), size_text(division->sum.write_bytes, b),
                    duration_text(division->files_s, c), division->read_bytes_per_s / 1e9,
                    division->write_bytes_per_s / 1e9);
    if (division->files_shards == 0)
        plan_print_line(width, to,
                        "With any number of shards the files take less time than the longest shard "
                        "computes: they do not limit the job.");
    else if (division->files_shards == 1)
        plan_print_line(width, to, "The files take longer than one shard computes: more shards gain nothing.");
    else
        plan_print_line(width, to,
                        "From %d shards on, files take longer than the longest shard computes, and more shards "
                        "gain nothing.",
                        division->files_shards);
}

void plan_print_shards(const struct plan *plan, const struct division_terms *terms, int width, FILE *to) {
    FREED_BY(division_release) struct division *division = division_make(plan, terms);
    char machine[96];
    print_table(division, width, to);
    print_balance(division, width, to);
    print_dominant(division, width, to);
    print_files(division, width, to);
    plan_print_line(width, to, "Times are for the machine that the division assumes, %s, not for this one.",
                    shard_machine(plan, machine));
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void print_load(const struct shard_load *load, FILE *to) {
    fprintf(to, "\"runs\": %d, \"read_bytes\": %.0f, \"write_bytes\": %.0f, \"compute_s\": %.9g, \"wall_s\": %.9g",
            load->runs, load->read_bytes, load->write_bytes, load->compute_s, load->seconds);
}

static void print_longest(const struct division *division, FILE *to) {
    const struct shard_group *longest = division->groups->groups;
    const struct job_operation *operation = division->plan->tasks[longest->first].operation;
    json_write_text(to, "\"longest_group\": {", "operation", operation->id);
    json_write_text(to, ", ", "parameters", operation->label);
    fprintf(to, ", \"operations\": %d, \"wall_s\": %.9g},\n", longest->tasks, longest->load.seconds);
}

void plan_print_shards_json(const struct plan *plan, const struct division_terms *terms, FILE *to) {
    FREED_BY(division_release) struct division *division = division_make(plan, terms);
    fprintf(to, "{\"shards\": [");
    for (int s = 0; s < division->shards; s++) {
        fprintf(to, "%s\n  {\"shard\": %d, ", s ? "," : "", s);
        print_load(&division->loads[s].load, to);
        fprintf(to, ", \"waits_s\": %.9g}", division->loads[s].waits_s);
    }
    fprintf(to, "\n],\n");
    print_load(&division->sum, to);
    fprintf(to,
            ",\n\"longest_s\": %.9g, \"mean_s\": %.9g, \"longest_over_mean\": %.9g, \"all_at_once_s\": %.9g, "
            "\"one_process_s\": %.9g,\n",
            division->longest_s, division->mean_s, division->uneven, division->all_at_once_s, division->one_process_s);
    fprintf(to, "\"by\": \"%s\", \"idle\": %d, \"groups\": %d, \"useful_shards\": %d,\n",
            units_divide(division->units) ? "tiles" : "runs", division->idle, division->groups->count,
            division->useful_shards);
    if (division->groups->count > 0) print_longest(division, to);
    fprintf(to, "\"read_bytes_per_s\": %.9g, \"write_bytes_per_s\": %.9g, \"files_s\": %.9g, \"files_limit_from\": ",
            division->read_bytes_per_s, division->write_bytes_per_s, division->files_s);
    if (division->files_s > 0 && division->files_shards > 0)
        fprintf(to, "%d}\n", division->files_shards);
    else
        fprintf(to, "null}\n");
}
