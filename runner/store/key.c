/* key.c - computes keys. A key is one hash of all that a result depends on; a finished unit is found by it. A unit that
 * is a whole run has the key of that run. */
#include "results.h"

#include "../base/fail.h"
#include "../plan/user_kernel.h"
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
    const struct units *units;
    const struct readers *readers; /* of the units' plan, whose first inputs are the job's */
    XXH3_state_t *state;
    struct task_key *tasks;      /* by task of the job, then by task of the units: */
    struct task_key *unit_tasks; /* points to the first of the latter */
    const bool *only;            /* the runs of the whole that count, while keys_of_runs works; NULL: all */
};

struct keys *keys_create(const struct units *units, const struct readers *readers) {
    struct keys *keys = must_malloc(sizeof *keys);
    size_t task_count = (size_t)units->whole->task_count, unit_task_count = (size_t)units->plan.task_count;
    *keys = (struct keys){.units = units, .readers = readers};
    keys->tasks = must_zeroed((task_count + unit_task_count) * sizeof *keys->tasks);
    keys->unit_tasks = keys->tasks + task_count;
    keys->state = must_have(XXH3_createState());
    return keys;
}

void results_forget_keys(struct results *results) {
    struct keys *keys = results->keys;
    size_t tasks = (size_t)keys->units->whole->task_count + (size_t)keys->units->plan.task_count;
    memset(keys->tasks, 0, tasks * sizeof *keys->tasks);
}

void keys_free(struct keys *keys) {
    if (!keys) return;
    XXH3_freeState(keys->state);
    free(keys->tasks);
    free(keys);
}

static void hash_text(XXH3_state_t *state, const char *text) {
    XXH3_128bits_update(state, text, strlen(text) + 1);
}

/* Hashes what a result depends on in an input: type, shape, view, values (by their hash or their generator) and
 * decoding. */
static void hash_input(XXH3_state_t *state, const struct reader *reader) {
    const struct array *array = reader->array;
    const struct random_terms *terms = &array->from_job->terms;
    char text[512], shape[SHAPE_TEXT];
    snprintf(text, sizeof text, "%s %s ", dtype_name(array->dtype), shape_format(&array->shape, shape));
    hash_text(state, text);
    XXH3_128bits_update(state, array->view.first, sizeof array->view.first);
    XXH3_128bits_update(state, array->view.step, sizeof array->view.step);
    XXH3_128bits_update(state, array->from_job->shape.size, sizeof array->from_job->shape.size);
    if (array->from_job->random)
        snprintf(text, sizeof text, "random %d %a %a %a %a %a %llu", (int)terms->distribution, terms->low, terms->high,
                 terms->mean, terms->std, terms->value, (unsigned long long)terms->seed);
    else
        snprintf(text, sizeof text, "file %s", reader->hash);
    hash_text(state, text);
    OWNED char *decoding = array->decoding ? decoding_key(array->decoding) : NULL;
    if (decoding) hash_text(state, decoding);
}

/* Hashes what the results of a task's runs depend on besides the task. */
static void hash_run(XXH3_state_t *state, const struct run *run) {
    hash_text(state, run->label);
    hash_text(state, run->kernel ? run->kernel->name : "");
    XXH3_128bits_update(state, run->choice, sizeof run->choice);
    int device = run->kernel ? (int)run->kernel->device : -1;
    XXH3_128bits_update(state, &device, sizeof device);
    const char *user_kernel = user_kernel_identity(run->kernel);
    if (user_kernel) hash_text(state, user_kernel);
}

/* Computes a task's keys at the first call, of the runs in keys->only. Inputs that are results count by the keys of
 * their tasks, recursively. */
static const struct task_key *task_key(struct keys *keys, const struct plan *plan, int number) {
    const struct task *task = &plan->tasks[number];
    bool is_unit = plan == &keys->units->plan;
    struct task_key *known = is_unit ? &keys->unit_tasks[number] : &keys->tasks[number];
    if (known->known) return known;
    if (is_unit && !task->panel) return task_key(keys, keys->units->whole, keys->units->whole_task[number]);
    const XXH128_hash_t *results[MAX_INPUTS] = {NULL};
    for (int i = 0; i < task->geometry.inputs; i++) /* a result is identified by the key of its task */
        if (task->in[i] >= plan->input_count) results[i] = &task_key(keys, plan, plan_producer(plan, task->in[i]))->key;
    XXH3_state_t *state = keys->state;
    XXH3_128bits_reset(state);
    hash_text(state, tilerun_version);
    hash_text(state, tilerun_sources);
    hash_text(state, task->operation->id);
    hash_text(state, task->operation->label);
    hash_text(state, task->operation->resolved);
    if (task->panel) hash_text(state, task->panel);
    for (int i = 0; i < task->geometry.inputs; i++)
        if (results[i])
            XXH3_128bits_update(state, results[i], sizeof *results[i]);
        else
            hash_input(state, &keys->readers->items[task->in[i]]);
    known->base = XXH3_128bits_digest(state);
    for (int i = task->first_run; i < task->first_run + task->run_count; i++)
        if (!keys->only || keys->only[i]) hash_run(state, &plan->runs[i]);
    known->key = XXH3_128bits_digest(state);
    known->known = true;
    return known;
}

static void key_text(XXH128_hash_t hash, char key[33]) {
    snprintf(key, 33, "%016llx%016llx", (unsigned long long)hash.high64, (unsigned long long)hash.low64);
}

/* The key of a run of the plan: of its task's base and of the run itself. */
static void run_key(struct keys *keys, const struct plan *plan, const struct run *run, char key[33]) {
    XXH128_hash_t base = task_key(keys, plan, run->task)->base;
    XXH3_128bits_reset(keys->state);
    XXH3_128bits_update(keys->state, &base, sizeof base);
    hash_run(keys->state, run);
    key_text(XXH3_128bits_digest(keys->state), key);
}

void keys_of_unit(struct keys *keys, const struct run *unit, char key[33]) {
    run_key(keys, &keys->units->plan, unit, key);
}

void keys_of_run(struct keys *keys, const struct run *whole, char key[33]) {
    run_key(keys, keys->units->whole, whole, key);
}

void keys_of_task(struct keys *keys, int number, char key[33]) {
    key_text(task_key(keys, keys->units->whole, number)->key, key);
}

/* Computes the key of the runs that `runs` marks (NULL: all). With `runs` the tasks' keys depend on which runs count,
 * so they are computed in a temporary table. */
void keys_of_runs(struct keys *keys, const bool *runs, char key[33]) {
    const struct plan *plan = keys->units->whole;
    struct task_key *all = keys->tasks;
    XXH3_state_t *state = must_have(XXH3_createState());
    XXH3_128bits_reset(state);
    if (runs) keys->tasks = must_zeroed((size_t)plan->task_count * sizeof *all);
    keys->only = runs;
    for (int i = 0; i < plan->task_count; i++) {
        const struct task *task = &plan->tasks[i];
        bool counts = !runs;
        for (int run = task->first_run; run < task->first_run + task->run_count && !counts; run++) counts = runs[run];
        if (!counts) continue;
        const XXH128_hash_t *task_hash = &task_key(keys, plan, i)->key;
        XXH3_128bits_update(state, task_hash, sizeof *task_hash);
    }
    keys->only = NULL;
    if (runs) free(keys->tasks);
    keys->tasks = all;
    key_text(XXH3_128bits_digest(state), key);
    XXH3_freeState(state);
}
