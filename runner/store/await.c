/* await.c - finds, for a shard, the result of a task that other shards make, whole or by panels (struct awaited). It
 * looks for parts in the folders of the shards that make them.
 *
 * The task's result is the result of the first variant that has one in every panel. Variants are tried in their order.
 * The next one is tried only when a part records that the one before made no result. */
#include "await.h"
#include "results.h"

#include "../base/fail.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The part that holds the result of a panel, or of the whole task. */
struct awaited_part {
    char *path;
    struct stat version; /* identifies the file, once it is `found` */
    struct stat refused; /* identifies a file that is damaged or out of date; it may be replaced */
    bool found;
};

struct awaited {
    struct results *results;
    int task, count; /* the task of the first panel, and the number of panels */
    int variant;     /* the number of the awaited run in each panel's task */
    bool in_one;     /* one part, parts[0], has the result of the whole run */
    struct awaited_part parts[];
};

/* The awaited run in the task of panel `number`. */
static const struct run *awaited_run(const struct awaited *awaited, int number) {
    const struct plan *plan = &awaited->results->units->plan;
    return &plan->runs[plan->tasks[awaited->task + number].first_run + awaited->variant];
}

/* The folder of the shard that makes a panel. The caller frees. */
static char *folder_of(const struct awaited *awaited, int number) {
    const struct shard *shard = awaited->results->shard;
    if (!shard) return must_strdup(awaited->results->folder.root);
    const struct shard maker = {.index = shard->shard_of_task[awaited->task + number], .count = shard->count};
    return shard_own_folder(awaited->results->folder.root, &maker);
}

/* Returns the path where a unit's part is or will be: in its maker's folder, unless another folder has it. The caller
 * frees. */
static char *path_of(const struct awaited *awaited, int number) {
    OWNED char *folder = folder_of(awaited, number);
    char key[33];
    keys_of_unit(awaited->results->keys, awaited_run(awaited, number), key);
    char *path = must_printf("%s/%s.h5", folder, key), *other = results_part_of_key(awaited->results, key);
    bool elsewhere = access(path, F_OK) != 0 && access(other, F_OK) == 0;
    free(elsewhere ? path : other);
    return elsewhere ? other : path;
}

/* Sets the paths of the parts of the awaited variant: one part may hold the result of the undivided run. */
static void find_paths(struct awaited *awaited) {
    struct results *results = awaited->results;
    struct result_row row;
    bool panel = results->units->plan.tasks[awaited->task].panel != NULL, has_output = false;
    OWNED char *run_path = results_run_path(results, units_whole_run(results->units, awaited_run(awaited, 0)));
    awaited->in_one = panel && part_read_row(results, run_path, &row, &has_output) && has_output;
    for (int i = 0; i < awaited->count; i++) {
        char *path = awaited->in_one && i == 0 ? must_strdup(run_path) : path_of(awaited, i);
        free(awaited->parts[i].path);
        awaited->parts[i] = (struct awaited_part){.path = path};
    }
}

struct awaited *awaited_begin(struct results *results, int task) {
    int count = plan_producers_end(&results->units->plan, task) - task;
    struct awaited *awaited = must_zeroed(sizeof *awaited + (size_t)count * sizeof *awaited->parts);
    awaited->results = results;
    awaited->task = task;
    awaited->count = count;
    find_paths(awaited);
    return awaited;
}

void awaited_end(struct awaited *const *pointer) {
    OWNED struct awaited *awaited = *pointer;
    for (int i = 0; i < awaited->count; i++) free(awaited->parts[i].path);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

enum finding { MISSING, MADE, NOT_MADE };

/* Will the shard of a panel make it again, although there is a part without a result? Yes if the part is not in its
 * folder, or if the shard has begun again since. */
static bool is_out_of_date(const struct awaited *awaited, int number, const struct stat *about) {
    OWNED char *folder = folder_of(awaited, number), *path = must_printf("%s/" SHARD_MANIFEST, folder);
    struct stat manifest;
    return strncmp(awaited->parts[number].path, folder, strlen(folder)) != 0 ||
           (stat(path, &manifest) == 0 && results_later(&manifest.st_mtim, &about->st_mtim));
}

/* Looks for the part of a panel. MADE: it is intact and has the result. NOT_MADE: it is intact, its run made no result,
 * and its shard will not make it again. MISSING: anything else. A part is renamed into place, so it does not change
 * while it is hashed; but another may take its name. */
static enum finding look_for(struct awaited *awaited, int number) {
    struct awaited_part *part = &awaited->parts[number];
    struct stat before, after;
    struct result_row row;
    bool has_output = false;
    if (part->found) return MADE;
    if (stat(part->path, &before) != 0) return MISSING;
    if (reader_same_version(&before, &part->refused)) return MISSING;
    bool intact = part_read_row(awaited->results, part->path, &row, &has_output);
    bool done = intact && result_row_done(&row);
    if (stat(part->path, &after) != 0 || !reader_same_version(&before, &after)) return MISSING;
    if (intact && !done && strcmp(row.status, "interrupted") != 0 && !is_out_of_date(awaited, number, &before))
        return NOT_MADE;
    part->found = done && has_output;
    if (part->found)
        part->version = before;
    else
        part->refused = before;
    return part->found ? MADE : MISSING;
}

/* Looks for all panels of one variant. If one made no result, the variant made none, whatever the others do. */
static enum finding look_for_all(struct awaited *awaited) {
    enum finding all = MADE;
    for (int i = 0; i < (awaited->in_one ? 1 : awaited->count); i++) {
        enum finding found = look_for(awaited, i);
        if (found == NOT_MADE) return NOT_MADE;
        if (found == MISSING) all = MISSING;
    }
    return all;
}

/* Makes the reader of `array` read the result from the parts. */
static void point_reader(const struct awaited *awaited, const struct array *array) {
    const struct results *results = awaited->results;
    const struct plan *plan = &results->units->plan;
    struct reader *reader = &results->readers->items[array - plan->arrays];
    const struct awaited_part *first = &awaited->parts[0];
    if (awaited->in_one || !plan->tasks[awaited->task].panel) {
        reader_set_dataset(reader, first->path, "/output");
        reader->version = first->version;
    } else {
        struct pieces *pieces = pieces_create(array, awaited->count);
        for (int i = 0; i < awaited->count; i++)
            pieces_set(pieces, i, &results->units->boxes[awaited->task + i], awaited->parts[i].path, "/output",
                       &awaited->parts[i].version);
        reader_set_pieces(reader, pieces);
    }
}

/* Makes the readers of the result read it from the parts. */
static void point_readers(const struct awaited *awaited) {
    const struct plan *plan = &awaited->results->units->plan;
    const struct array *out = &plan->arrays[plan->tasks[awaited->task].out];
    point_reader(awaited, out);
    if (out->counterpart) point_reader(awaited, out->counterpart);
}

bool awaited_look(struct awaited *awaited, int *result_run) {
    *result_run = -1;
    for (int runs = awaited->results->units->plan.tasks[awaited->task].run_count; awaited->variant < runs;) {
        const struct run *run = awaited_run(awaited, 0);
        enum finding found = run->skip || run->kernel->is_roof ? NOT_MADE : look_for_all(awaited);
        if (found == MISSING) return false;
        if (found == MADE) {
            point_readers(awaited);
            *result_run = run->number;
            return true;
        }
        if (++awaited->variant < runs) find_paths(awaited);
    }
    return true;
}

/* ---- the missing part -------------------------------------------------------------------------------------------- */

/* The first panel whose part was not found; the last panel if all were. */
static int first_missing(const struct awaited *awaited) {
    int number = 0;
    while (number < awaited->count - 1 && awaited->parts[number].found) number++;
    return number;
}

int awaited_shard(const struct awaited *awaited) {
    return awaited->results->shard->shard_of_task[awaited->task + first_missing(awaited)];
}

char *awaited_name(const struct awaited *awaited) {
    const struct task *task = &awaited->results->units->plan.tasks[awaited->task + first_missing(awaited)];
    const struct job_operation *operation = task->operation;
    return must_printf("'%s%s%s%s%s'", operation->id, operation->label[0] ? " " : "", operation->label,
                       task->panel ? ", " : "", task->panel ? task->panel : "");
}

enum status awaited_check_readable(const struct awaited *awaited, struct error *error) {
    const char *root = awaited->results->folder.root;
    int number = first_missing(awaited);
    OWNED char *folder = folder_of(awaited, number);
    TRY(shard_check_readable(root, folder, error));
    return part_check_readable(root, awaited->parts[number].path, error);
}

char *awaited_host(const struct awaited *awaited, bool *at_work) {
    OWNED char *folder = folder_of(awaited, first_missing(awaited));
    *at_work = parts_are_locked(folder);
    return manifest_text(folder, "place");
}

char *awaited_stop(const struct awaited *awaited, bool *earlier) {
    const char *own_folder = awaited->results->folder.parts;
    OWNED char *folder = folder_of(awaited, first_missing(awaited)), *path = must_printf("%s/" SHARD_MANIFEST, folder);
    OWNED char *own_path = must_printf("%s/" SHARD_MANIFEST, own_folder);
    struct stat about, own;
    if (parts_are_locked(folder) || stat(path, &about) != 0 || stat(own_path, &own) != 0) return NULL;
    *earlier = results_later(&own.st_mtim, &about.st_mtim);
    char *stopped = manifest_text(folder, "stopped");
    OWNED char *resolved = stopped ? NULL : manifest_resolved(folder, NULL);
    OWNED char *difference = resolved_difference(resolved, awaited->results->plan->job->resolved);
    return difference ? must_printf("it does another job: %s", difference) : stopped;
}
