/* kernel_trial.h - one variant on one random problem, with guard zones around all memory that it is given: the whole
 * result, and a panel of it by itself. */
#ifndef TESTS_KERNEL_TRIAL_H
#define TESTS_KERNEL_TRIAL_H

#include "../../runner/verify/compare.h"

#include "guarded.h"
#include "random_problem.h"

#include <stdio.h>
#include <stdlib.h>

#define TOLD 20 /* failures that are printed in full */

enum role { IN_0, IN_1, OUT, PARTIAL, WORKSPACE, ROLES };
static const char *const role_names[ROLES] = {"the first input", "the second input", "the output", "the partial sums",
                                              "the workspace"};
static const char *const device_names[] = {[DEVICE_CPU] = "cpu", [DEVICE_CUDA] = "cuda"};

/* The variants of an operation on a device, and counts of the outcomes. */
struct suite {
    struct device *device;
    struct variants variants;
    struct guarded memory[ROLES];
    bool planted;                                /* faults are expected: none is printed */
    int64_t cases, runs, refused, wrong, strays; /* strays: runs that wrote out of bounds, or into an input */
    int64_t panels, apart[VARIANTS];             /* panels, and by variant those that have other bits than the whole */
    char *of_auto;                               /* the result of the variant's own choice; NULL: it has none */
    int64_t ways;                                /* results by other choices that have its bits */
};

static uint64_t base_seed;
static int64_t base_cases;
static bool exact, ask_all;

/* ---- one variant on one problem ---------------------------------------------------------------------------------- */

struct trial {
    struct suite *suite;
    struct problem *problem;
    const struct kernel *kernel;
    int index; /* of the kernel among the suite's */
    int choice[KERNEL_MAX_PARAMETERS];
    struct panel {
        int loop;
        int64_t start, count; /* 0: not a panel, but the whole */
    } panel;
};

/* Writes what is tried, and how to try it again: "cuda split,hand_over=no float32 3x128x64x7 ...:
 * TILERUN_CASE=cuda/matmul/57". */
static void describe(const struct trial *trial, char *text, size_t room_for) {
    const struct problem *problem = trial->problem;
    const struct geometry *geometry = &problem->geometry;
    const struct op_options *options = &geometry->options;
    const char *device = device_names[trial->suite->device->facts.kind], *op = operations[geometry->op]->name;
    char choices[128] = "", detail[128] = "";
    int length = 0;
    for (int i = 0; i < KERNEL_MAX_PARAMETERS && trial->kernel->parameters[i].name; i++)
        length += snprintf(choices + length, sizeof choices - (size_t)length, ",%s=%s",
                           trial->kernel->parameters[i].name, trial->kernel->parameters[i].values[trial->choice[i]]);
    if (geometry->op == OP_MATMUL)
        snprintf(detail, sizeof detail, "%s%s alpha %g", options->transpose_a ? " A'" : "",
                 options->transpose_b ? " B'" : "", options->alpha);
    const char *operator_ = operation_operator(operations[geometry->op], options);
    if (operator_) snprintf(detail, sizeof detail, " %s%s axis 1", operator_, options->skip_nan ? " skip_nan" : "");
    if (geometry->op == OP_SCALE) snprintf(detail, sizeof detail, " alpha %g beta %g", options->alpha, options->beta);
    snprintf(text, room_for, "%s %s%s %s %s%s, %s values, %d launches: TILERUN_SEED=%llu TILERUN_CASE=%s/%s/%lld", op,
             trial->kernel->name, choices, dtype_name(geometry->in[0].dtype), geometry->shape_text, detail,
             values_names[problem->values], problem->pieces, (unsigned long long)base_seed, device, op,
             (long long)problem->number);
}

static void tell(const struct trial *trial, const char *finding) {
    char text[512];
    const struct suite *suite = trial->suite;
    if (suite->planted || suite->wrong + suite->strays >= TOLD) return;
    describe(trial, text, sizeof text);
    printf("%s\n    %s\n", text, finding);
}

/* Libraries choose their own way to compute: their results are judged only where every way is exact, their bounds
 * always. */
static bool is_library(const struct kernel *kernel) {
    return strcmp(kernel->name, "cublas") == 0 || strcmp(kernel->name, "cub") == 0;
}

static bool can_judge(const struct trial *trial) {
    if (trial->kernel->is_roof) return false;
    return trial->problem->values == VALUES_INTEGERS || !is_library(trial->kernel);
}

static bool takes(const struct trial *trial) {
    const struct kernel *kernel = trial->kernel;
    const struct geometry *geometry = &trial->problem->geometry;
    if (!(kernel->dtypes & DTYPE_BIT(geometry->in[0].dtype))) return false;
    if (!kernel_has_operator(kernel, &geometry->options)) return false;
    /* Inputs below TF32's least number are rounded to zero. */
    if (trial->problem->values == VALUES_SUBNORMAL && kernel->accuracy != ACCURACY_FULL) return false;
    /* A library tries its algorithms on each new problem, which takes long, so it gets every eighth problem only. */
    return !is_library(kernel) || trial->problem->number % 8 == 0 || trial->suite->variants.count == 1;
}

/* What one launch covers: a piece of the reduction, of the whole or of a panel. */
static struct tile tile_of(const struct trial *trial, int piece) {
    const struct problem *problem = trial->problem;
    struct tile tile = {.start = {0}};
    memcpy(tile.count, problem->geometry.extent, sizeof tile.count);
    if (trial->panel.count > 0) {
        tile.start[trial->panel.loop] = trial->panel.start;
        tile.count[trial->panel.loop] = trial->panel.count;
    }
    if (!problem->geometry.reduces[LOOP_K]) return tile;
    tile.start[LOOP_K] = problem->cut[piece];
    tile.count[LOOP_K] = problem->cut[piece + 1] - problem->cut[piece];
    return tile;
}

static bool wants_partial(const struct problem *problem) {
    return problem->geometry.partial_size > 0 && (problem->geometry.partial_always || problem->pieces > 1);
}

static struct launch launch_of(const struct trial *trial, const struct tile *tile, bool first, bool last) {
    const struct guarded *memory = trial->suite->memory;
    const void *const in[2] = {memory[IN_0].payload, memory[IN_1].payload};
    struct launch launch = {.workspace = NULL};
    operations[trial->suite->variants.op]->launch(&trial->problem->geometry, tile, first, last, in,
                                                  wants_partial(trial->problem) ? memory[PARTIAL].payload : NULL,
                                                  memory[OUT].payload, &launch);
    memcpy(launch.choice, trial->choice, sizeof launch.choice);
    launch.workspace = memory[WORKSPACE].bytes > 0 ? memory[WORKSPACE].payload : NULL;
    launch.multiprocessors = trial->problem->multiprocessors;
    return launch;
}

static bool has_loop(const struct geometry *geometry, int loop) {
    for (int i = 0; i <= geometry->inputs; i++) {
        const struct operand *operand = i < geometry->inputs ? &geometry->in[i] : &geometry->out;
        for (int axis = 0; axis < operand->shape.rank; axis++)
            if ((int)operand->loop[axis] == loop) return true;
    }
    return false;
}

/* The largest launch of a run, which decides the size of the workspace. */
static struct launch largest_launch(const struct trial *trial) {
    const struct problem *problem = trial->problem;
    struct tile tile = tile_of(trial, 0);
    for (int piece = 1; piece < problem->pieces; piece++) {
        int64_t count = tile_of(trial, piece).count[LOOP_K];
        if (count > tile.count[LOOP_K]) tile.count[LOOP_K] = count;
    }
    for (int loop = 0; loop < LOOPS && problem->grown; loop++)
        if (has_loop(&problem->geometry, loop))
            tile.count[loop] +=
                (int64_t)(mixed(problem->draws.seed, 1000 + (uint64_t)loop) % (loop == LOOP_B ? 4 : 64));
    /* None of several launches is as long as the whole. */
    const struct geometry *geometry = &problem->geometry;
    if (problem->pieces > 1 && tile.count[LOOP_K] >= geometry->extent[LOOP_K])
        tile.count[LOOP_K] = geometry->extent[LOOP_K] - 1;
    return launch_of(trial, &tile, true, true);
}

static void lay(const struct trial *trial, enum role role, int64_t bytes) {
    guarded_resize(&trial->suite->memory[role], bytes, (int64_t)(mixed(trial->problem->draws.seed, 2000 + role) % 16));
}

/* Fills output and partial sums with bits that are NaN in any float type, so that elements that are not written
 * show. */
static void spoil(struct guarded *guarded) {
    if (guarded->bytes > 0) memset(guarded->host, 0xff, (size_t)guarded->bytes);
    guarded_upload(guarded, true);
}

static void load_inputs(const struct trial *trial, const struct tile *tile) {
    const struct geometry *geometry = &trial->problem->geometry;
    for (int i = 0; i < geometry->inputs; i++) {
        struct guarded *in = &trial->suite->memory[i];
        struct box box = box_of_tile(&geometry->in[i], tile);
        lay(trial, (enum role)i, box_elements(&box) * (int64_t)dtype_size(geometry->in[i].dtype));
        pack(&geometry->in[i], trial->problem->in[i], &box, in->host);
        guarded_upload(in, true);
    }
}

/* Copies back the memory that a launch may have changed. true: the launch kept within its bounds. */
static bool keeps_bounds(const struct trial *trial) {
    struct guarded *memory = trial->suite->memory;
    int inputs = trial->problem->geometry.inputs;
    char finding[160];
    for (int role = 0; role < ROLES; role++)
        if (role >= OUT || role < inputs) guarded_download(&memory[role], role <= OUT);
    device_wait(trial->suite->device);
    for (int role = 0; role < ROLES; role++) {
        int64_t from = 0, strays;
        if (role < OUT && role >= inputs) continue;
        if ((strays = guarded_strays(&memory[role], &from)) > 0)
            snprintf(finding, sizeof finding, "%lld bytes written outside %s, the first one %lld bytes %s",
                     (long long)strays, role_names[role], (long long)(from < 0 ? -from : from),
                     from < 0 ? "before its begin" : "from its end on");
        else if (role < OUT && !guarded_same(&memory[role]))
            snprintf(finding, sizeof finding, "%s is changed", role_names[role]);
        else
            continue;
        tell(trial, finding);
        return false;
    }
    return true;
}

static bool is_right(const struct trial *trial) {
    const struct problem *problem = trial->problem;
    const struct geometry *geometry = &problem->geometry;
    const char *out = trial->suite->memory[OUT].seen;
    const struct shape *shape = &geometry->out.shape;
    struct verdict verdict = {.right = true};
    if (problem->turned) {
        verdict.right =
            memcmp(out, problem->turned, (size_t)shape_elements(shape) * dtype_size(geometry->out.dtype)) == 0;
        snprintf(verdict.message, sizeof verdict.message, "bits differ");
    } else {
        struct tolerance tolerance = operations[geometry->op]->tolerance(geometry, trial->kernel->accuracy);
        struct box box = box_whole(shape);
        compare_elements(geometry, geometry->out.dtype, out, &box, &problem->truth, &tolerance, &verdict);
    }
    if (!verdict.right) tell(trial, verdict.message);
    return verdict.right;
}

/* Runs all pieces, one after another, and judges the result. false: something is wrong. */
static bool run_pass(const struct trial *trial) {
    struct suite *suite = trial->suite;
    const struct problem *problem = trial->problem;
    spoil(&suite->memory[OUT]);
    spoil(&suite->memory[PARTIAL]);
    for (int piece = 0; piece < problem->pieces; piece++) {
        struct tile tile = tile_of(trial, piece);
        load_inputs(trial, &tile);
        device_wait(suite->device);
        struct launch launch = launch_of(trial, &tile, piece == 0, piece == problem->pieces - 1);
        struct error error = {.status = STATUS_OK};
        int there = suite->device->facts.multiprocessors;
        suite->device->facts.multiprocessors = problem->multiprocessors; /* the launch reads it */
        enum status status = suite->device->operations->launch(suite->device, trial->kernel, &launch, &error);
        suite->device->facts.multiprocessors = there;
        if (status != STATUS_OK) return tell(trial, error.text), suite->wrong++, false;
        device_wait(suite->device);
        if (!keeps_bounds(trial)) return suite->strays++, false;
    }
    if (trial->panel.count > 0 || !can_judge(trial) || is_right(trial)) return true;
    return suite->wrong++, false;
}

static bool refuses(const struct trial *trial, const struct launch *largest) {
    bool refused = kernel_refusal(trial->kernel, largest) != NULL;
    for (int piece = 0; piece < trial->problem->pieces && !refused; piece++) {
        struct tile tile = tile_of(trial, piece);
        struct launch launch = launch_of(trial, &tile, piece == 0, piece == trial->problem->pieces - 1);
        refused = kernel_refusal(trial->kernel, &launch) != NULL;
    }
    return refused;
}

/* ---- the same, of a part of the result --------------------------------------------------------------------------- */

/* Draws a part of the result along one of its loops, as large as runner/divide/panels.h cuts them. false: it is too
 * small. */
static bool draw_panel(const struct trial *trial, struct panel *panel) {
    const struct geometry *geometry = &trial->problem->geometry;
    const struct operand *out = &geometry->out;
    uint64_t seed = trial->problem->draws.seed;
    if (out->shape.rank == 0) return false;
    int loop = (int)out->loop[mixed(seed, 3000) % (uint64_t)out->shape.rank];
    int64_t least = loop == LOOP_B ? 1 : 16, extent = geometry->extent[loop];
    if (extent < 2 * least) return false;
    int64_t count = least + (int64_t)(mixed(seed, 3001) % (uint64_t)(extent - 2 * least + 1));
    *panel = (struct panel){loop, (int64_t)(mixed(seed, 3002) % (uint64_t)(extent - count + 1)), count};
    return true;
}

/* After a pass over the whole: does a panel by itself have the same bits? Kernels that do not say so are only
 * counted. */
static void run_panel(const struct trial *whole) {
    struct suite *suite = whole->suite;
    const struct geometry *geometry = &whole->problem->geometry;
    struct trial trial = *whole;
    struct guarded *out = &suite->memory[OUT];
    bool says = operations[geometry->op]->exact;
    if (whole->kernel->is_roof || !draw_panel(whole, &trial.panel)) return;
    struct tile tile = tile_of(&trial, 0);
    if (!says) { /* of each piece of the reduction */
        says = true;
        for (int piece = 0; piece < whole->problem->pieces; piece++) {
            struct tile of_whole = tile_of(whole, piece), of_panel = tile_of(&trial, piece);
            struct launch one = launch_of(whole, &of_whole, true, true),
                          other = launch_of(&trial, &of_panel, true, true);
            says = says && kernel_same_bits(whole->kernel, &one, &other);
        }
    }
    if (!says && !ask_all) return;
    struct box box = box_of_tile(&geometry->out, &tile);
    size_t bytes = (size_t)box_elements(&box) * dtype_size(geometry->out.dtype);
    char *expected = malloc(bytes + 1);
    pack(&geometry->out, out->seen, &box, expected);
    lay(&trial, OUT, (int64_t)bytes);
    lay(&trial, PARTIAL, wants_partial(trial.problem) ? box_elements(&box) * (int64_t)geometry->partial_size : 0);
    struct launch largest = launch_of(&trial, &tile, true, true);
    if (!refuses(&trial, &largest) && run_pass(&trial)) {
        bool same = memcmp(out->seen, expected, bytes) == 0;
        suite->panels++;
        suite->apart[whole->index] += !same;
        if (!same && says) tell(&trial, "a panel has other bits than the whole"), suite->wrong++;
    }
    free(expected);
}

/* After a pass: has another choice of tiles the bits of the variant's own, where the variant says so? It may then take
 * either (kernels/matmul/tuned/ways.cuh). */
static void check_way(const struct trial *trial) {
    struct suite *suite = trial->suite;
    const struct kernel *kernel = trial->kernel;
    const struct guarded *out = &suite->memory[OUT];
    struct trial first = *trial;
    bool is_first = true, same = true;
    for (int i = 0; i < KERNEL_MAX_PARAMETERS && kernel->parameters[i].name; i++) {
        if (strcmp(kernel->parameters[i].values[0], "auto") != 0) return;
        is_first = is_first && trial->choice[i] == 0;
        first.choice[i] = 0;
    }
    if (is_first) {
        suite->of_auto = realloc(suite->of_auto, (size_t)out->bytes + 1);
        memcpy(suite->of_auto, out->seen, (size_t)out->bytes);
        return;
    }
    for (int piece = 0; piece < trial->problem->pieces && same; piece++) {
        struct tile tile = tile_of(trial, piece);
        struct launch one = launch_of(trial, &tile, true, true), other = launch_of(&first, &tile, true, true);
        same = kernel_same_bits(kernel, &one, &other);
    }
    if (!same || !suite->of_auto) return;
    suite->ways++;
    if (memcmp(out->seen, suite->of_auto, (size_t)out->bytes) == 0) return;
    tell(trial, "other bits than by the variant's own choice");
    suite->wrong++;
}

static void run_trial(const struct trial *trial) {
    struct suite *suite = trial->suite;
    const struct geometry *geometry = &trial->problem->geometry;
    int64_t outputs = shape_elements(&geometry->out.shape);
    describe(trial, guarded_context, sizeof guarded_context);
    lay(trial, OUT, outputs * (int64_t)dtype_size(geometry->out.dtype));
    lay(trial, PARTIAL, wants_partial(trial->problem) ? outputs * (int64_t)geometry->partial_size : 0);
    struct launch largest = largest_launch(trial);
    if (refuses(trial, &largest)) {
        suite->refused++;
        return;
    }
    struct guarded *workspace = &suite->memory[WORKSPACE];
    lay(trial, WORKSPACE, (int64_t)kernel_workspace(trial->kernel, &largest));
    guarded_upload(workspace, false);
    if (workspace->bytes > 0) DEVICE(suite->device, fill, workspace->payload, 0, workspace->bytes);
    suite->runs++;
    int pass = 0;
    while (pass < trial->problem->passes && run_pass(trial)) pass++;
    if (pass != trial->problem->passes) return;
    check_way(trial);
    run_panel(trial);
}

/* Tries a kernel with each choice of its parameters. */
static void try_variant(struct suite *suite, struct problem *problem, int index) {
    const struct kernel *kernel = suite->variants.kernels[index];
    struct trial trial = {.suite = suite, .problem = problem, .kernel = kernel, .index = index};
    if (!takes(&trial)) return;
    free(suite->of_auto);
    suite->of_auto = NULL;
    for (int carried = 0; !carried;) {
        run_trial(&trial);
        carried = 1;
        for (int i = 0; i < KERNEL_MAX_PARAMETERS && kernel->parameters[i].name && carried; i++) {
            carried = kernel->parameters[i].values[++trial.choice[i]] == NULL;
            if (carried) trial.choice[i] = 0;
        }
    }
}

static void try_case(struct suite *suite, int64_t number) {
    struct problem problem;
    problem_open(&suite->variants, base_seed, number, &problem);
    for (int i = 0; i < suite->variants.count; i++) try_variant(suite, &problem, i);
    problem_close(&problem);
    suite->cases++;
}

#endif
