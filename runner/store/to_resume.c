/* to_resume.c - compares the files of `to` that an earlier process has written with what the job does now. */
#include "to.h"

#include "../base/fail.h"
#include "../record/link.h"
#include "../storage/untrusted/fence.h"
#include "output.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What lies in the place of a file: nothing, a file of which all results are this job's, and whether it lacks some. */
enum earlier { NOTHING, FOREIGN, SOME_OF_OURS, ALL_OF_OURS };

static enum earlier look_at(const struct results *results, const struct job *job, struct keys *keys,
                            const struct to_file *file) {
    FENCE(file->place.path);
    if (access(file->place.path, F_OK) != 0) return NOTHING;
    hid_t id = to_open_written(file->place.path);
    if (id < 0) return FOREIGN;
    int64_t there = 0, ours = 0;
    h5_get_number(id, "results", INT64, &there);
    for (int i = 0; i < file->count; i++) {
        int number = results->to->sorted[file->first + i];
        char wanted[33];
        keys_of_task(keys, number, wanted);
        hid_t dataset = H5Oopen(id, job->operations[number].to_name, H5P_DEFAULT);
        char *key = dataset < 0 ? NULL : h5_get_text(dataset, "key");
        ours += key && strcmp(key, wanted) == 0;
        free(key);
        if (dataset >= 0) H5Oclose(dataset);
    }
    H5Fclose(id);
    return ours == 0 || ours < there ? FOREIGN : ours < file->count ? SOME_OF_OURS : ALL_OF_OURS;
}

/* What the previous OUTPUT has in the place of a task's result. */
enum held { HELD_NOT, HELD_INSIDE, HELD_THERE, HELD_ELSEWHERE };

static enum held held_by(const struct results *results, const struct job_operation *operation,
                         const struct to_file *file) {
    FENCE(results->place.path);
    char *path = results_path_of("outputs", operation->label, operation->id);
    hid_t previous = previous_file(results), output = previous < 0 ? previous : H5Oopen(previous, path, H5P_DEFAULT);
    free(path);
    if (output < 0) return HELD_NOT;
    char *name = h5_get_text(output, LINK_TO_FILE), *object = h5_get_text(output, LINK_TO_DATASET);
    char *way = file ? relative_path(results, file->real) : NULL;
    enum held held = name ? HELD_ELSEWHERE : HELD_INSIDE;
    if (name && object && way && strcmp(way, name) == 0 && strcmp(object, operation->to_name) == 0) held = HELD_THERE;
    free(way);
    free(object);
    free(name);
    H5Oclose(output);
    return held;
}

/* Does the previous OUTPUT say of all results of the file that they lie there, or else of none? */
static bool is_held(const struct results *results, const struct job *job, const struct to_file *file,
                    enum earlier earlier) {
    int there = 0, inside = 0, not = 0;
    for (int i = 0; i < file->count; i++) {
        enum held held = held_by(results, &job->operations[results->to->sorted[file->first + i]], file);
        there += held == HELD_THERE;
        inside += held == HELD_INSIDE;
        not += held == HELD_NOT;
    }
    return (there == file->count && earlier == ALL_OF_OURS) || (not > 0 && inside + not == file->count);
}

enum status to_resume(const struct results *results, bool *done, struct error *error) {
    const struct plan *plan = results->plan;
    struct keys *keys = results->keys;
    const struct job *job = plan->job;
    if (results->shard && !results->place.exists) return STATUS_OK; /* its inputs are not all hashed */
    for (int i = 0; *done && i < job->operation_count && previous_file(results) >= 0; i++)
        if (!job->operations[i].to_file) *done = held_by(results, &job->operations[i], NULL) != HELD_ELSEWHERE;
    for (int i = 0; results->to && i < results->to->count; i++) {
        const struct to_file *file = &results->to->of[i];
        enum earlier earlier = look_at(results, job, keys, file);
        if (earlier == FOREIGN && !results->policy.overwrite) return to_refuse(file, true, error);
        if (*done && previous_file(results) >= 0) *done = is_held(results, job, file, earlier);
    }
    return STATUS_OK;
}
