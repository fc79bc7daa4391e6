/* key.c - keys: everything that a run's result depends on, as one hash, by which a finished run is found
 * again. */
#include "results.h"

#include "../base/fail.h"
#include "../record/environment.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* A task's key. The task's result is that of the first variant that is right, so the key covers all runs. */
struct task_key {
    bool known;
    XXH128_hash_t base; /* program, operation and inputs, common to all its runs */
    XXH128_hash_t key;  /* `base` and all runs */
};

struct keys {
    const struct plan *plan;
    const struct readers *readers;
    XXH3_state_t *state;
    const struct panels *panels; /* of whose plan these are the keys; NULL: of a whole job's */
    struct keys *whole;          /* then of the whole */
    struct task_key tasks[];
};

struct keys *keys_create(const struct plan *plan, const struct readers *readers) {
    unsigned long tasks = (unsigned long)plan->task_count * sizeof(struct task_key);
    struct keys *keys = must_malloc(sizeof *keys + tasks);
    memset(keys, 0, sizeof *keys + tasks);
    keys->plan = plan;
    keys->readers = readers;
    keys->state = must_have(XXH3_createState());
    return keys;
}

void keys_free(struct keys *keys) {
    if (!keys) return;
    keys_free(keys->whole);
    XXH3_freeState(keys->state);
    free(keys);
}

/* The whole's inputs are the first ones of the panels' plan. */
void keys_use_panels(struct keys *keys, const struct panels *panels) {
    keys->panels = panels;
    keys->whole = keys_create(panels->whole, keys->readers);
}

static void hash_text(XXH3_state_t *state, const char *text) {
    XXH3_128bits_update(state, text, strlen(text) + 1);
}

static void hash_input(XXH3_state_t *state, const struct reader *reader) {
    const struct array *array = reader->array;
    const struct random_terms *terms = &array->input->terms;
    char text[512], shape[SHAPE_TEXT];
    snprintf(text, sizeof text, "%s %s ", dtype_name(array->dtype), shape_format(&array->shape, shape));
    hash_text(state, text);
    XXH3_128bits_update(state, array->view.first, sizeof array->view.first);
    XXH3_128bits_update(state, array->view.step, sizeof array->view.step);
    XXH3_128bits_update(state, array->input->shape.size, sizeof array->input->shape.size);
    if (array->input->random)
        snprintf(text, sizeof text, "random %d %a %a %a %a %a %llu", (int)terms->distribution, terms->low, terms->high,
                 terms->mean, terms->std, terms->value, (unsigned long long)terms->seed);
    else
        snprintf(text, sizeof text, "file %s", reader->hash);
    hash_text(state, text);
    char *decoding = array->decoding ? decoding_key(array->decoding) : NULL;
    if (decoding) hash_text(state, decoding);
    free(decoding);
}

static void hash_run(XXH3_state_t *state, const struct run *run) {
    hash_text(state, run->label);
    hash_text(state, run->kernel ? run->kernel->name : "");
    XXH3_128bits_update(state, run->choice, sizeof run->choice);
    int device = run->kernel ? (int)run->kernel->device : -1;
    XXH3_128bits_update(state, &device, sizeof device);
}

static const struct task_key *task_key(struct keys *keys, int number) {
    const struct plan *plan = keys->plan;
    const struct task *task = &plan->tasks[number];
    struct task_key *known = &keys->tasks[number];
    if (known->known) return known;
    if (keys->panels && !task->panel) return task_key(keys->whole, keys->panels->whole_task[number]);
    const XXH128_hash_t *results[2] = {NULL, NULL};
    for (int i = 0; i < task->geometry.inputs; i++) /* a result is identified by the key of its task */
        if (task->in[i] >= plan->input_count) results[i] = &task_key(keys, plan_producer(plan, task->in[i]))->key;
    XXH3_state_t *state = keys->state;
    XXH3_128bits_reset(state);
    hash_text(state, tilerun_version);
    hash_text(state, tilerun_git_commit);
    hash_text(state, tilerun_program_hash());
    hash_text(state, task->operation->id);
    hash_text(state, task->operation->label);
    hash_text(state, task->operation->resolved);
    if (task->panel) hash_text(state, task->panel);
    for (int i = 0; i < task->geometry.inputs; i++)
        if (results[i])
            XXH3_128bits_update(state, results[i], sizeof *results[i]);
        else
            hash_input(state, &keys->readers->of[task->in[i]]);
    known->base = XXH3_128bits_digest(state);
    for (int i = 0; i < task->run_count; i++) hash_run(state, &plan->runs[task->first_run + i]);
    known->key = XXH3_128bits_digest(state);
    known->known = true;
    return known;
}

static void key_text(XXH128_hash_t hash, char key[33]) {
    snprintf(key, 33, "%016llx%016llx", (unsigned long long)hash.high64, (unsigned long long)hash.low64);
}

void keys_of_run(struct keys *keys, const struct run *run, char key[33]) {
    XXH128_hash_t base = task_key(keys, run->task)->base;
    XXH3_128bits_reset(keys->state);
    XXH3_128bits_update(keys->state, &base, sizeof base);
    hash_run(keys->state, run);
    key_text(XXH3_128bits_digest(keys->state), key);
}

void keys_of_task(struct keys *keys, int number, char key[33]) {
    key_text(task_key(keys, number)->key, key);
}

void keys_of_tasks(struct keys *keys, const bool *tasks, char key[33]) {
    XXH3_state_t *state = must_have(XXH3_createState());
    XXH3_128bits_reset(state);
    for (int i = 0; i < keys->plan->task_count; i++) {
        const XXH128_hash_t *of_task = &task_key(keys, i)->key;
        if (!tasks || tasks[i]) XXH3_128bits_update(state, of_task, sizeof *of_task);
    }
    key_text(XXH3_128bits_digest(state), key);
    XXH3_freeState(state);
}
