/* result_key.c - what a run's result depends on, as one hash: by it a finished run is known again. */
#include "result_parts.h"

#include "../base/fail.h"
#include "environment.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static void hash_text(XXH3_state_t *state, const char *text) {
    XXH3_128bits_update(state, text, strlen(text) + 1);
}

static void hash_array(XXH3_state_t *state, const struct plan *plan, int index, const XXH128_hash_t task_keys[]) {
    const struct array *array = &plan->arrays[index];
    char text[512], shape[SHAPE_TEXT];
    if (!array->input) { /* a result is known by the task that makes it */
        const XXH128_hash_t *key = &task_keys[index - plan->job->input_count];
        XXH3_128bits_update(state, key, sizeof *key);
        return;
    }
    const struct random_terms *terms = &array->input->terms;
    snprintf(text, sizeof text, "%s %s ", dtype_name(array->dtype), shape_format(&array->shape, shape));
    hash_text(state, text);
    if (array->input->random)
        snprintf(text, sizeof text, "random %d %a %a %a %a %a %llu", (int)terms->distribution, terms->low, terms->high,
                 terms->mean, terms->std, terms->value, (unsigned long long)terms->seed);
    else
        snprintf(text, sizeof text, "file %s", array->hash);
    hash_text(state, text);
}

static void hash_run(XXH3_state_t *state, const struct run *run) {
    hash_text(state, run->label);
    hash_text(state, run->kernel ? run->kernel->name : "");
    XXH3_128bits_update(state, run->choice, sizeof run->choice);
    int device = run->kernel ? (int)run->kernel->device : -1;
    XXH3_128bits_update(state, &device, sizeof device);
}

/* A task's key: program, operation, inputs and all its variants, for its result is that of the first that is right.
 * `state` is left holding what the task's runs have in common. */
static XXH128_hash_t hash_task(XXH3_state_t *state, const struct plan *plan, int number, const XXH128_hash_t keys[]) {
    const struct task *task = &plan->tasks[number];
    XXH3_128bits_reset(state);
    hash_text(state, tilerun_version);
    hash_text(state, tilerun_git_commit);
    hash_text(state, tilerun_program_hash());
    hash_text(state, task->operation->id);
    hash_text(state, task->operation->label);
    hash_text(state, task->operation->resolved);
    for (int i = 0; i < task->geometry.inputs; i++) hash_array(state, plan, task->in[i], keys);
    XXH3_state_t *all = XXH3_createState();
    XXH3_copyState(all, state);
    for (int i = 0; i < task->run_count; i++) hash_run(all, &plan->runs[task->first_run + i]);
    XXH128_hash_t key = XXH3_128bits_digest(all);
    XXH3_freeState(all);
    return key;
}

static void key_text(XXH128_hash_t hash, char key[33]) {
    snprintf(key, 33, "%016llx%016llx", (unsigned long long)hash.high64, (unsigned long long)hash.low64);
}

/* Those tasks up to `last` whose results it reads, directly or through others, and itself. */
static bool *sources_of(const struct plan *plan, int last) {
    bool *needed = must_malloc((unsigned long)(last + 1) * sizeof *needed);
    memset(needed, 0, (size_t)(last + 1) * sizeof *needed);
    needed[last] = true;
    for (int i = last; i >= 0; i--)
        for (int k = 0; needed[i] && k < plan->tasks[i].geometry.inputs; k++)
            if (plan->tasks[i].in[k] >= plan->job->input_count)
                needed[plan->tasks[i].in[k] - plan->job->input_count] = true;
    return needed;
}

void results_key(const struct plan *plan, const struct run *run, char key[33]) {
    XXH128_hash_t *keys = must_malloc((unsigned long)(run->task + 1) * sizeof *keys);
    XXH3_state_t *state = XXH3_createState();
    bool *needed = sources_of(plan, run->task);
    for (int i = 0; i <= run->task; i++)
        if (needed[i]) keys[i] = hash_task(state, plan, i, keys);
    hash_run(state, run);
    key_text(XXH3_128bits_digest(state), key);
    XXH3_freeState(state);
    free(needed);
    free(keys);
}

void results_plan_key(const struct plan *plan, const bool *tasks, char key[33]) {
    XXH128_hash_t *keys = must_malloc((unsigned long)(plan->task_count + 1) * sizeof *keys);
    XXH3_state_t *state = XXH3_createState(), *whole = XXH3_createState();
    XXH3_128bits_reset(whole);
    for (int i = 0; i < plan->task_count; i++) {
        keys[i] = hash_task(state, plan, i, keys);
        if (!tasks || tasks[i]) XXH3_128bits_update(whole, &keys[i], sizeof *keys);
    }
    key_text(XXH3_128bits_digest(whole), key);
    XXH3_freeState(whole);
    XXH3_freeState(state);
    free(keys);
}
