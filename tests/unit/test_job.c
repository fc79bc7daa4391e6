/* test_job.c - job files as structures: expansions, labels, overrides, defaults, paths, sizes, and resolved text that
 * loads as the same job. tests/jobs/bad tests the messages for bad files. */
#include "../../runner/job/job.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Writes `text` to the file DIRECTORY/NAME and loads it as a job. */
static struct job *load_as(const char *name, const char *text, const struct job_overrides *overrides) {
    char directory[] = "/tmp/tilerun-test-XXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    fputs(text, to);
    fclose(to);
    struct job *job = job_load(path, overrides);
    unlink(path);
    rmdir(directory);
    return job;
}

static struct job *load(const char *text, const struct job_overrides *overrides) {
    struct job *job = load_as("job.yaml", text, overrides);
    if (yaml_error_count(job->document) > 0) yaml_print_errors(job->document, stderr);
    assert_int_equal(yaml_error_count(job->document), 0);
    return job;
}

static void assert_mistake(const char *text, const struct job_overrides *overrides, const char *words) {
    struct job *job = load_as("job.yaml", text, overrides);
    char *errors = NULL;
    size_t length;
    FILE *to = open_memstream(&errors, &length);
    yaml_print_errors(job->document, to);
    fclose(to);
    if (!strstr(errors, words)) fail_msg("'%s' is not in:\n%s", words, errors);
    free(errors);
    job_free(job);
}

static const char sweep[] = "version: 1\n"
                            "parameters: {n: [4, 6], dtype: [float32, float64], alpha: [1, 2, 3]}\n"
                            "inputs:\n"
                            "  A: {random: {shape: [$n, 5], dtype: $dtype}}\n"
                            "  C: {random: {shape: [3]}}\n"
                            "operations:\n"
                            "  - {id: gram, op: matmul, inputs: [A, A], transpose_b: true}\n"
                            "  - {id: scaled, op: scale, inputs: [gram], alpha: $alpha}\n"
                            "  - {id: other, op: scale, inputs: [C], alpha: $alpha}\n"
                            "  - {id: once, op: transpose, inputs: [C]}\n";

static void test_expansion(void **state) {
    struct job *job = load(sweep, NULL);
    assert_int_equal(job->input_count, 4 + 1);
    assert_int_equal(job->operation_count, 4 + 12 + 3 + 1);
    assert_string_equal(job->inputs[1].label, "n=4,dtype=float64");
    assert_int_equal(job->inputs[1].dtype, FLOAT64);
    assert_int_equal(job->inputs[2].shape.size[0], 6);
    assert_string_equal(job->operations[19].label, "");
    for (int i = 0; i < 12; i++) {
        const struct job_operation *scaled = &job->operations[4 + i];
        const struct job_operation *gram = &job->operations[scaled->inputs[0].index];
        assert_false(scaled->inputs[0].is_input);
        assert_string_equal(scaled->id, "scaled");
        assert_true(scaled->options.alpha == 1 + i % 3);
        assert_memory_equal(scaled->label, gram->label, strlen(gram->label));
        assert_int_equal(gram->inputs[0].index, scaled->inputs[0].index);
    }
    assert_string_equal(job->operations[4 + 11].label, "n=6,dtype=float64,alpha=3");
    assert_string_equal(job->operations[16].label, "alpha=1");
    job_free(job);
}

static void test_sets(void **state) {
    const char *one[] = {"n=7", "dtype=[float64]"}, *list[] = {"alpha=2,4.5"};
    struct job *job = load(sweep, &(struct job_overrides){.sets = one, .set_count = 2});
    assert_int_equal(job->input_count, 2);
    assert_string_equal(job->inputs[0].label, "n=7,dtype=float64"); /* one value of a list is still swept */
    assert_int_equal(job->inputs[0].shape.size[0], 7);
    job_free(job);
    job = load(sweep, &(struct job_overrides){.sets = list, .set_count = 1});
    assert_string_equal(job->operations[5].label, "n=4,dtype=float32,alpha=4.5");
    job_free(job);
    const char *unknown[] = {"alhpa=1"}, *bare[] = {"n"}, *empty[] = {"n=1,,2"}, *typed[] = {"n=yes"};
    assert_mistake(sweep, &(struct job_overrides){.sets = unknown, .set_count = 1},
                   "job.yaml: --set alhpa=1: the job has no parameter 'alhpa' (did you mean 'alpha'?)");
    assert_mistake(sweep, &(struct job_overrides){.sets = bare, .set_count = 1}, "--set n: write NAME=VALUE");
    assert_mistake(sweep, &(struct job_overrides){.sets = empty, .set_count = 1}, "parameter 'n' has an empty value");
    assert_mistake(sweep, &(struct job_overrides){.sets = typed, .set_count = 1},
                   "4:24: 'shape[0]' must be an integer, not 'yes'");
}

static void test_only(void **state) {
    struct job *job = load(sweep, &(struct job_overrides){.only = "scaled"});
    assert_int_equal(job->input_count, 4);
    assert_int_equal(job->operation_count, 16);
    job_free(job);
    job = load(sweep, &(struct job_overrides){.only = "once,other"});
    assert_int_equal(job->input_count, 1);
    assert_int_equal(job->operation_count, 4);
    assert_string_equal(job->operations[3].id, "once");
    job_free(job);
    assert_mistake(sweep, &(struct job_overrides){.only = "onec"},
                   "--only: no operation 'onec' (did you mean 'once'?)");
}

static const char choices[] = "version: 1\n"
                              "parameters: {n: [4, 6], t: [8, 16]}\n"
                              "inputs: {A: {random: {shape: [$n, $n]}}}\n"
                              "operations:\n"
                              "  - id: p\n"
                              "    op: matmul\n"
                              "    inputs: [A, A]\n"
                              "    variants: [naive, {name: tiled, tile: [16, 32]}, {name: split, a: 1, b: [2, 3]}]\n"
                              "  - {id: q, op: scale, inputs: [p], variants: [cpu, {name: simple, tile: $t}]}\n";

/* The labels of the variants of an operation that --only leaves, each followed by a blank. */
static char *chosen(const char *only, const char *id, const char *const *sets, int set_count) {
    const struct job_overrides overrides = {.only = only, .sets = sets, .set_count = set_count};
    struct job *job = load(choices, &overrides);
    static char text[200];
    text[0] = '\0';
    for (int i = 0; i < job->operation_count; i++) {
        if (strcmp(job->operations[i].id, id) != 0) continue;
        for (int v = 0; v < job->operations[i].variant_count; v++) {
            size_t length = strlen(text);
            snprintf(text + length, sizeof text - length, "%s ", job->operations[i].variants[v].label);
        }
        break;
    }
    struct job *again = load(job->resolved, NULL); /* the job that is run can be written down */
    assert_int_equal(again->operation_count, job->operation_count);
    for (int i = 0; i < job->operation_count; i++) {
        assert_int_equal(again->operations[i].variant_count, job->operations[i].variant_count);
        for (int v = 0; v < job->operations[i].variant_count; v++)
            assert_string_equal(again->operations[i].variants[v].label, job->operations[i].variants[v].label);
    }
    job_free(again);
    job_free(job);
    return text;
}

static void test_only_a_variant(void **state) {
    const char *one[] = {"t=8"};
    assert_string_equal(chosen("p:naive", "p", NULL, 0), "naive ");
    assert_string_equal(chosen("p:tiled", "p", NULL, 0), "tiled,tile=16 tiled,tile=32 ");
    assert_string_equal(chosen("p:tiled,tile=32", "p", NULL, 0), "tiled,tile=32 ");
    assert_string_equal(chosen("p:split,a=1,b=3,p:naive", "p", NULL, 0), "naive split,a=1,b=3 ");
    assert_string_equal(chosen("p:tiled,tile=16,q", "p", NULL, 0), "tiled,tile=16 ");
    assert_string_equal(chosen("p:naive,p:naive", "p", NULL, 0), "naive ");
    assert_string_equal(chosen("p:naive,p", "p", NULL, 0),
                        "naive tiled,tile=16 tiled,tile=32 split,a=1,b=2 split,a=1,b=3 "); /* named without: all */
    assert_string_equal(chosen("q:simple", "p", one, 1),
                        "naive tiled,tile=16 tiled,tile=32 split,a=1,b=2 split,a=1,b=3 ");
    assert_string_equal(chosen("q:simple", "q", one, 1), "simple,tile=8 ");
    assert_string_equal(chosen("q:simple", "q", NULL, 0), "simple,tile=8 ");
    assert_string_equal(chosen("q:simple,tile=8", "q", one, 1), "simple,tile=8 ");
    static const char *const mistakes[][2] = {
        {"p:naiv", "--only p:naiv: no such variant in the job (did you mean 'naive'?)"},
        {"p:tiled,tile=17", "--only p:tiled,tile=17: no such variant in the job (did you mean 'tiled,tile=16'?)"},
        {"p:zzzzzzzz",
         "--only p:zzzzzzzz: no such variant in the job; it has naive, tiled,tile=16, tiled,tile=32, split"},
        {"p:", "--only p: names no variant: write p:VARIANT, or p for all"},
        {"P:naive", "--only: no operation 'P'"},
        {"tile=16", "--only: no operation 'tile=16'"},
        {"q:simple,tile=8",
         "--only q:simple,tile=8: no such variant in the job with t=16 (did you mean 'simple,tile=16'?)"}};
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        assert_mistake(choices, &(struct job_overrides){.only = mistakes[i][0]}, mistakes[i][1]);
}

static void test_defaults(void **state) {
    struct job *job = load_as("my job.v2.yaml",
                              "version: 1\ninputs: {A: {random: {shape: [2]}}}\n"
                              "operations: [{id: t, op: reduce, inputs: [A], operator: max, axis: -1}]\n",
                              NULL);
    assert_int_equal(yaml_error_count(job->document), 0);
    assert_string_equal(job->name, "my_job.v2");
    assert_string_equal(job->output, "my_job.v2.h5");
    assert_string_equal(job->description, "");
    assert_int_equal(job->device, JOB_DEVICE_AUTO);
    assert_true(job->memory_bytes == 0 && job->memory_fraction == 0.9);
    assert_true(job->sync);
    assert_int_equal(job->inputs[0].dtype, FLOAT32);
    assert_true(job->inputs[0].terms.low == 0 && job->inputs[0].terms.high == 1 && job->inputs[0].terms.seed == 0);
    const struct job_operation *operation = &job->operations[0];
    assert_int_equal(operation->options.reduce, REDUCE_MAX);
    assert_int_equal(operation->options.axis, -1);
    assert_int_equal(operation->variant_count, 1);
    assert_string_equal(operation->variants[0].label, "auto");
    const struct run_options *run = &operation->run;
    assert_int_equal(run->warmup, 3);
    assert_true(run->repeat_min == 20 && run->repeat_max == 20 && run->repeat_until == 0);
    assert_false(run->cold);
    assert_int_equal(run->verify, VERIFY_AUTO);
    assert_true(isnan(run->tolerance));
    assert_int_equal(run->store, STORE_FIRST);
    assert_false(run->stop_on_error);
    assert_int_equal(run->chunks.rank, 0);
    assert_true(!run->compression && run->level == 4 && !run->shuffle && run->fletcher32);
    job_free(job);
}

/* What is wrong in `defaults` is said with the swept parameters that it uses, not with one of a single value. */
static void test_mistakes_in_defaults(void **state) {
    static const char *const cases[][2] = {{"-1", "not -1\n"},
                                           {"$one", "not -1\n"},
                                           {"$many", "not -2 (with many=-2)\n"},
                                           {"$one$many", "'-1-2' (with many=-2)\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "version: 1\nparameters: {one: -1, many: [-2, 3]}\n"
                 "inputs: {A: {random: {shape: [2]}}}\ndefaults: {warmup: %s}\n"
                 "operations: [{id: a, op: transpose, inputs: [A]}]\n",
                 cases[i][0]);
        assert_mistake(text, NULL, cases[i][1]);
    }
}

static void test_run_options(void **state) {
    struct job *job = load("version: 1\ninputs: {A: {random: {shape: [2, 2]}}}\n"
                           "defaults: {warmup: 0, repeat: {min: 2, max: 9, until: 5%}, tolerance: 1e-3, cache: cold}\n"
                           "operations:\n"
                           "  - {id: a, op: transpose, inputs: [A]}\n"
                           "  - {id: b, op: transpose, inputs: [a], repeat: 4, cache: warm, on_error: stop, chunks: "
                           "[1, 2], checksum: none}\n",
                           NULL);
    const struct run_options *a = &job->operations[0].run, *b = &job->operations[1].run;
    assert_true(a->repeat_min == 2 && a->repeat_max == 9 && a->repeat_until == 0.05 && a->warmup == 0 && a->cold);
    assert_true(b->repeat_min == 4 && b->repeat_max == 4 && b->repeat_until == 0 && b->warmup == 0 && !b->cold);
    assert_true(b->tolerance == 1e-3 && b->stop_on_error && !b->fletcher32);
    assert_true(b->chunks.rank == 2 && b->chunks.size[1] == 2);
    job_free(job);
}

static void test_variants(void **state) {
    struct job *job =
        load("version: 1\nparameters: {t: [8, 16]}\ninputs: {A: {random: {shape: [2, 2]}}}\n"
             "operations:\n"
             "  - {id: a, op: transpose, inputs: [A], variants: [cpu, {tile: [16, 32], name: tiled, pad: true}]}\n"
             "  - {id: b, op: transpose, inputs: [A], variants: [{name: tiled, tile: $t}]}\n",
             NULL);
    const struct job_operation *a = &job->operations[0];
    assert_int_equal(a->variant_count, 3);
    assert_string_equal(a->variants[0].label, "cpu");
    assert_string_equal(a->variants[2].label, "tiled,tile=32,pad=true");
    assert_string_equal(a->variants[2].values[0], "32");
    assert_int_equal(a->variants[2].parameter_where[1]->line, 5);
    assert_string_equal(job->operations[2].label, "t=16");
    assert_string_equal(job->operations[2].variants[0].label, "tiled,tile=16");
    job_free(job);
}

static void test_paths(void **state) {
    const char text[] = "version: 1\noutput: out/x.h5\n"
                        "inputs:\n"
                        "  A: {file: ../data/a.h5, dataset: /a, rows: [3, 4]}\n"
                        "  B: {file: /data/b.h5, dataset: b}\n"
                        "operations: [{id: t, op: matmul, inputs: [A, B]}]\n";
    struct job *job = load(text, NULL);
    assert_memory_equal(job->output, "/tmp/tilerun-test-", 18);
    assert_string_equal(strrchr(job->output, '-') + 7, "/out/x.h5");
    assert_string_equal(strrchr(job->inputs[0].file, '-') + 7, "/../data/a.h5");
    assert_string_equal(job->inputs[0].file_as_written, "../data/a.h5");
    assert_true(job->inputs[0].has_rows && job->inputs[0].rows[0] == 3 && job->inputs[0].rows[1] == 4);
    assert_string_equal(job->inputs[1].file, "/data/b.h5");
    assert_false(job->inputs[1].has_rows);
    job_free(job);
    job = load(text, &(struct job_overrides){.output = "here.h5", .device = "cuda:2", .memory = "2GiB"});
    assert_string_equal(job->output, "here.h5");
    assert_true(job->device == JOB_DEVICE_CUDA && job->device_count == 1 && job->device_numbers[0] == 2);
    assert_true(job->memory_bytes == INT64_C(2) << 30);
    job_free(job);
    assert_mistake(text, &(struct job_overrides){.device = "gpu"}, "--device: unknown device 'gpu'");
    assert_mistake(text, &(struct job_overrides){.memory = "4G"}, "--memory: '4G' is ambiguous");
}

static void test_parameter_types(void **state) {
    struct job *job = load("version: 1\nname: v$n\ndescription: \"${n}0 costs $$5 $word\"\n"
                           "parameters: {n: 4, word: \"007\", m: \"${n}2\"}\n"
                           "inputs: {A: {random: {shape: [\"$n\", $m], low: -$n}}}\n"
                           "operations: [{id: t, op: transpose, inputs: [A]}]\n",
                           NULL);
    assert_string_equal(job->name, "v4");
    assert_string_equal(job->description, "40 costs $5 007");
    assert_int_equal(job->inputs[0].shape.size[0], 4);
    assert_int_equal(job->inputs[0].shape.size[1], 42);
    assert_true(job->inputs[0].terms.low == -4);
    job_free(job);
    assert_mistake("version: 1\nparameters: {w: \"4\"}\ninputs: {A: {random: {shape: [$w]}}}\n"
                   "operations: [{id: t, op: scale, inputs: [A]}]\n",
                   NULL, "'shape[0]' must be an integer, not '4'");
}

static void assert_same_runs(const struct job *a, const struct job *b) {
    assert_int_equal(a->input_count, b->input_count);
    assert_int_equal(a->operation_count, b->operation_count);
    assert_true(a->memory_bytes == b->memory_bytes && a->memory_fraction == b->memory_fraction && a->sync == b->sync);
    assert_string_equal(a->name, b->name);
    for (int i = 0; i < a->input_count; i++) {
        assert_string_equal(a->inputs[i].label, b->inputs[i].label);
        assert_memory_equal(&a->inputs[i].shape, &b->inputs[i].shape, sizeof a->inputs[i].shape);
        assert_true(a->inputs[i].terms.seed == b->inputs[i].terms.seed);
    }
    for (int i = 0; i < a->operation_count; i++) {
        const struct job_operation *x = &a->operations[i], *y = &b->operations[i];
        assert_string_equal(x->label, y->label);
        assert_string_equal(x->resolved, y->resolved);
        assert_int_equal(x->variant_count, y->variant_count);
        for (int j = 0; j < x->variant_count; j++) assert_string_equal(x->variants[j].label, y->variants[j].label);
    }
}

/* The resolved text loads as the same job, and that job's resolved text is the same text. */
static void test_resolved(void **state) {
    const char *sets[] = {"n=4,8"};
    const struct job_overrides overrides[] = {
        {0}, {.sets = sets, .set_count = 1}, {.only = "other"}, {.memory = "1MiB", .device = "cuda:0,cuda:1"}};
    for (size_t i = 0; i < sizeof overrides / sizeof *overrides; i++) {
        struct job *job = load(sweep, &overrides[i]), *again = load(job->resolved, NULL);
        assert_same_runs(job, again);
        assert_string_equal(job->resolved, again->resolved);
        job_free(job);
        job_free(again);
    }
    struct job *job =
        load("version: 1\nname: \"12\"\ndescription: \"a: \\\"b\\\" # $$5\\n\\\\\"\n"
             "parameters: {w: \"007, $$\", v: tiled}\n"
             "inputs: {A: {random: {shape: [2, 2]}}, B: {file: \"{$w}\", dataset: /x}}\n"
             "operations: [{id: t, op: transpose, inputs: [A], variants: [{name: $v, note: \"[1, 2]\"}]}]\n",
             NULL);
    struct job *again = load(job->resolved, NULL);
    assert_same_runs(job, again);
    assert_string_equal(again->description, "a: \"b\" # $5\n\\");
    assert_string_equal(again->inputs[1].file_as_written, "{007, $}");
    assert_string_equal(again->operations[0].variants[0].label, "tiled,note=[1, 2]");
    job_free(job);
    job_free(again);
}

static void test_operation_resolved(void **state) {
    struct job *job = load("version: 1\ninputs: {A: {random: {shape: [2, 2]}}}\n"
                           "operations:\n"
                           "  - {id: a, op: scale, inputs: [A], alpha: 0x10, repeat: {until: 1%}, on_error: stop}\n"
                           "  - {id: b, op: scale, inputs: [A], alpha: 16.0, repeat: {min: 10, until: 0.01}}\n"
                           "  - {id: c, op: scale, inputs: [A], alpha: 16, beta: 1, repeat: {until: 1%}}\n",
                           NULL);
    assert_string_equal(job->operations[0].resolved, job->operations[1].resolved);
    assert_string_not_equal(job->operations[0].resolved, job->operations[2].resolved);
    assert_null(strchr(job->operations[0].resolved, '\n'));
    job_free(job);
}

/* Parts are kept by what is resolved: each key that a result or its times depend on must be there, and no other. What
 * is resolved reads as an operation that is the same. */
static void test_each_key_is_resolved(void **state) {
    static const char begin[] = "version: 1\ninputs: {A: {random: {shape: [2, 2]}}}\noperations:\n";
    static const struct {
        const char *with, *key;
        bool harmless;
    } cases[] = {
        {"op: scale, inputs: [A]", "alpha: 2", false},
        {"op: scale, inputs: [A]", "beta: 2", false},
        {"op: scale, inputs: [A]", "dtype: float64", false},
        {"op: scale, inputs: [A]", "chunks: [1, 2]", false},
        {"op: scale, inputs: [A]", "warmup: 1", false},
        {"op: scale, inputs: [A]", "repeat: 7", false},
        {"op: scale, inputs: [A]", "repeat: {max: 400}", false},
        {"op: scale, inputs: [A], repeat: {min: 5}", "chunks: [2, 1]", false},
        {"op: scale, inputs: [A]", "cache: cold", false},
        {"op: scale, inputs: [A]", "verify: full", false},
        {"op: scale, inputs: [A]", "tolerance: 0.1", false},
        {"op: scale, inputs: [A]", "store: all", false},
        {"op: scale, inputs: [A]", "compression: gzip", false},
        {"op: scale, inputs: [A], compression: gzip", "level: 5", false},
        {"op: scale, inputs: [A], compression: gzip", "shuffle: true", false},
        {"op: scale, inputs: [A]", "checksum: none", false},
        {"op: scale, inputs: [A]", "to: 'x.h5:/x'", true},
        {"op: scale, inputs: [A]", "on_error: stop", true},
        {"op: scale, inputs: [A]", "keep_tiles: always", true},
        {"op: matmul, inputs: [A, A]", "transpose_a: true", false},
        {"op: matmul, inputs: [A, A]", "transpose_b: true", false},
        {"op: matmul, inputs: [A, A]", "alpha: 3", false},
        {"op: transpose, inputs: [A]", "axes: [0, 1]", false},
        {"op: reduce, inputs: [A], operator: var, axis: 0", "ddof: 1", false},
        {"op: reduce, inputs: [A], operator: var, axis: 0", "skip_nan: true", false},
        {"op: reduce, inputs: [A], operator: sum", "axis: 0", false},
        {"op: reduce, inputs: [A], axis: 1", "operator: sum", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *with = cases[i].with, *key = cases[i].key;
        const char *other = strstr(key, "axis:") ? ", axis: all" : strstr(key, "operator:") ? ", operator: max" : "";
        char text[1024];
        snprintf(text, sizeof text, "%s  - {id: a, %s%s}\n  - {id: b, %s, %s}\n", begin, with, other, with, key);
        struct job *job = load(text, NULL);
        const char *resolved = job->operations[1].resolved, *inputs = strstr(with, "A, A") ? "A, A" : "A";
        if ((strcmp(job->operations[0].resolved, resolved) == 0) != cases[i].harmless) fail_msg("%s", resolved);
        snprintf(text, sizeof text, "%s  - {id: b, inputs: [%s], %s\n", begin, inputs, resolved + 1);
        struct job *again = load(text, NULL);
        assert_string_equal(again->operations[0].resolved, resolved);
        job_free(again);
        job_free(job);
    }
}

static void test_sizes(void **state) {
    static const struct {
        const char *text;
        int64_t bytes;
        double fraction;
    } good[] = {{"65536", 65536, 0},    {"64KiB", 65536, 0},
                {"1.5MiB", 3 << 19, 0}, {"500MB", 500000000, 0},
                {"100kB", 100000, 0},   {"2TiB", INT64_C(2) << 40, 0},
                {"90%", 0, 0.9},        {"100%", 0, 1},
                {"1GB", 1000000000, 0}, {"2 GiB", INT64_C(2) << 30, 0},
                {"90 %", 0, 0.9}};
    int64_t bytes;
    double fraction;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_false(job_parse_memory(good[i].text, &bytes, &fraction, IGNORED));
        assert_true(bytes == good[i].bytes && fraction == good[i].fraction);
    }
    static const char *const bad[] = {"",   "4G",    "4K",  "65535", "0%",   "101%", "-1", "1e9",  "GiB", "1.2.3MB",
                                      " 1", "1 gib", "nan", "inf",   "0x10", "1gib", "1B", "1e3%", "."};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_true(job_parse_memory(bad[i], &bytes, &fraction, IGNORED));
    assert_false(job_parse_memory("4611686018427387392", &bytes, &fraction, IGNORED)); /* the number before 2^62 */
    assert_true(bytes == (INT64_C(1) << 62) - 512);
    assert_true(job_parse_memory("4194304TiB", &bytes, &fraction, IGNORED)); /* 2^62 */
}

static void test_devices(void **state) {
    struct job job = {0};
    assert_true(!job_parse_device("cuda:all", &job, IGNORED) && job.device_count == -1);
    assert_true(!job_parse_device("cuda:3,cuda:0", &job, IGNORED) && job.device_count == 2 &&
                job.device_numbers[0] == 3);
    assert_true(!job_parse_device("cuda", &job, IGNORED) && job.device_count == 0 && job.device == JOB_DEVICE_CUDA);
    assert_true(!job_parse_device("cpu", &job, IGNORED) && job.device == JOB_DEVICE_CPU);
    static const char *const bad[] = {"",        "cuda:",    "cuda:-1", "cuda:0,cuda:0",
                                      "cuda:0,", "auto,cpu", "CPU",     "cuda:99999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_true(job_parse_device(bad[i], &job, IGNORED));
    free(job.device_numbers);
}

static void test_text_of_a_selection(void **state) {
    struct job_select select = {.rank = 5,
                                .slices = {{.first = 3, .index = true},
                                           {.step = 1},
                                           {.first = -2, .end = 7, .has_end = true, .step = 1},
                                           {.end = 0, .has_end = true, .step = 3},
                                           {.first = 0, .index = true}}};
    char *text = job_select_text(&select);
    assert_string_equal(text, "[3, :, -2:7, :0:3, 0]");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_of_a_selection),
        cmocka_unit_test(test_expansion),
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_only),
        cmocka_unit_test(test_only_a_variant),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_mistakes_in_defaults),
        cmocka_unit_test(test_run_options),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_parameter_types),
        cmocka_unit_test(test_resolved),
        cmocka_unit_test(test_operation_resolved),
        cmocka_unit_test(test_each_key_is_resolved),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
