/* test_kernels_random.c - every variant on random problems, with guard zones around all memory that it is given.
 *
 * A case is one problem: random types, options and values, and shapes at the edges that one of the variants names. Each
 * variant that takes the problem computes it with each choice of its parameters, on the device that the runner uses; a
 * reduction in one launch or several; sometimes all of it a second time on the same workspace. After every launch the
 * guards and the inputs must be unchanged. After the last launch the result must be right as verify.c judges it, or for
 * a transpose have the same bits.
 *
 *     TILERUN_SEED=1 TILERUN_CASES=5000     other cases, more of them (of each operation, on each device)
 *     TILERUN_CASE=cuda/matmul/57           only this case; a case that fails prints this line
 *     TILERUN_EXACT=1                       operands without guards, each in an allocation of its own: for memcheck */
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
};

static uint64_t base_seed;
static int64_t base_cases;
static bool exact;

/* ---- one variant on one problem ---------------------------------------------------------------------------------- */

struct trial {
    struct suite *suite;
    struct problem *problem;
    const struct kernel *kernel;
    int choice[KERNEL_MAX_PARAMETERS];
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
    if (operator_) snprintf(detail, sizeof detail, " %s axis 1", operator_);
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
    if (trial->kernel->limit) return false;
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

static struct tile tile_of(const struct problem *problem, int piece) {
    struct tile tile = {.start = {0}};
    memcpy(tile.count, problem->geometry.extent, sizeof tile.count);
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

/* The largest launch of a run, which decides the size of the workspace. */
static struct launch largest_launch(const struct trial *trial) {
    const struct problem *problem = trial->problem;
    struct tile tile = tile_of(problem, 0);
    for (int piece = 1; piece < problem->pieces; piece++) {
        int64_t count = tile_of(problem, piece).count[LOOP_K];
        if (count > tile.count[LOOP_K]) tile.count[LOOP_K] = count;
    }
    for (int loop = 0; loop < LOOPS && problem->grown; loop++)
        if (problem->geometry.extent[loop] > 1)
            tile.count[loop] +=
                (int64_t)(mixed(problem->draws.seed, 1000 + (uint64_t)loop) % (loop == LOOP_B ? 4 : 64));
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
        int64_t from, strays;
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
        compare_elements(geometry, out, &box, &problem->truth, &tolerance, &verdict);
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
        struct tile tile = tile_of(problem, piece);
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
    if (!can_judge(trial) || is_right(trial)) return true;
    return suite->wrong++, false;
}

static bool refuses(const struct trial *trial, const struct launch *largest) {
    bool refused = kernel_refusal(trial->kernel, largest) != NULL;
    for (int piece = 0; piece < trial->problem->pieces && !refused; piece++) {
        struct tile tile = tile_of(trial->problem, piece);
        struct launch launch = launch_of(trial, &tile, piece == 0, piece == trial->problem->pieces - 1);
        refused = kernel_refusal(trial->kernel, &launch) != NULL;
    }
    return refused;
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
    if (workspace->bytes > 0) DEVICE(suite->device, zero, workspace->payload, workspace->bytes);
    suite->runs++;
    for (int pass = 0; pass < trial->problem->passes && run_pass(trial); pass++) continue;
}

/* Tries a kernel with each choice of its parameters. */
static void try_variant(struct suite *suite, struct problem *problem, const struct kernel *kernel) {
    struct trial trial = {suite, problem, kernel, {0}};
    if (!takes(&trial)) return;
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
    for (int i = 0; i < suite->variants.count; i++) try_variant(suite, &problem, suite->variants.kernels[i]);
    problem_close(&problem);
    suite->cases++;
}

/* ---- the tests --------------------------------------------------------------------------------------------------- */

static struct device *devices[2]; /* by enum kernel_device; NULL: not present */

static void suite_open(struct suite *suite, enum kernel_device device, enum op op) {
    *suite = (struct suite){.device = devices[device], .variants = {.op = op, .facts = &devices[device]->facts}};
    for (int role = 0; role < ROLES; role++)
        suite->memory[role] = (struct guarded){.device = suite->device, .exact = exact};
    int capability = suite->device->facts.compute_capability;
    for (int i = 0; i < kernel_count; i++) {
        const struct kernel *kernel = kernel_registry[i];
        bool able =
            kernel->compute_capability <= capability && (!kernel->only_below || capability < kernel->only_below);
        if (kernel->op != op || kernel->device != device || !able) continue;
        assert_true(suite->variants.count < VARIANTS);
        suite->variants.kernels[suite->variants.count++] = kernel;
    }
}

static void suite_close(struct suite *suite) {
    for (int role = 0; role < ROLES; role++) guarded_release(&suite->memory[role]);
}

static void check_variants(enum kernel_device device, enum op op) {
    struct suite suite;
    const char *alone = getenv("TILERUN_CASE");
    char here[32];
    snprintf(here, sizeof here, "%s/%s/", device_names[device], operations[op]->name);
    if (!devices[device] || (alone && strncmp(alone, here, strlen(here)) != 0)) skip();
    suite_open(&suite, device, op);
    if (alone)
        try_case(&suite, strtoll(alone + strlen(here), NULL, 10));
    else
        for (int64_t number = 0; number < base_cases; number++) try_case(&suite, number);
    suite_close(&suite);
    printf("%s %s: %lld cases, %lld runs of %d variants (%lld refused): %lld wrong, %lld out of bounds\n",
           device_names[device], operations[op]->name, (long long)suite.cases, (long long)suite.runs,
           suite.variants.count, (long long)suite.refused, (long long)suite.wrong, (long long)suite.strays);
    assert_int_equal(suite.wrong, 0);
    assert_int_equal(suite.strays, 0);
}

#define TEST(device, name, op)                                                                                         \
    static void name(void **state) {                                                                                   \
        (void)state;                                                                                                   \
        check_variants(device, op);                                                                                    \
    }
TEST(DEVICE_CPU, matmul_on_the_cpu, OP_MATMUL)
TEST(DEVICE_CPU, reduce_on_the_cpu, OP_REDUCE)
TEST(DEVICE_CPU, transpose_on_the_cpu, OP_TRANSPOSE)
TEST(DEVICE_CPU, scale_on_the_cpu, OP_SCALE)
TEST(DEVICE_CUDA, matmul_on_a_gpu, OP_MATMUL)
TEST(DEVICE_CUDA, reduce_on_a_gpu, OP_REDUCE)
TEST(DEVICE_CUDA, transpose_on_a_gpu, OP_TRANSPOSE)
TEST(DEVICE_CUDA, scale_on_a_gpu, OP_SCALE)

/* A variant that names no edges would be tested at none. */
static void all_variants_name_their_edges(void **state) {
    (void)state;
    for (int i = 0; i < kernel_count; i++)
        for (int dimension = 0; dimension < KERNEL_DIMENSIONS; dimension++) {
            const struct kernel *kernel = kernel_registry[i];
            const int *edges = kernel->edges[dimension];
            bool wanted = dimension < operations[kernel->op]->dimensions, ended = !wanted;
            if ((edges[0] > 0) != wanted)
                fail_msg("%s of %s names %s edges for dimension %d", kernel->name, operations[kernel->op]->name,
                         wanted ? "no" : "needless", dimension);
            for (int e = 0; e < KERNEL_MAX_EDGES; e++) {
                if (edges[e] < 0 || (ended && edges[e] != 0))
                    fail_msg("%s of %s: edge %d behind the list's end", kernel->name, operations[kernel->op]->name, e);
                ended = ended || edges[e] == 0;
            }
        }
}

/* ---- planted faults must be found -------------------------------------------------------------------------------- */

static enum {
    BEHIND_AN_EXACT_FIT,
    BEFORE_WORKSPACE,
    BEHIND_PARTIAL,
    INTO_INPUT,
    UNWRITTEN,
    NAN_FOR_ONE,
    LEAVES_NO_ZERO,
    FAULTS
} fault;
static bool fault_strays(void) {
    return fault <= INTO_INPUT;
}

/* Runs the CPU variant, then plants the fault. */
static int faulty_launch(const struct launch *launch) {
    const struct reduce_args *args = &launch->args.reduce;
    struct reduce_args shorter = *args;
    struct launch kept = *launch;
    char *out = args->y, *x = (char *)args->x;
    int64_t outputs = args->outer * args->inner, size = (int64_t)dtype_size(launch->dtype),
            *counter = launch->workspace;
    int64_t elements = outputs * args->length;
    shorter.outer -= fault == UNWRITTEN && args->outer > 0;
    kept.args.reduce = shorter;
    int code = kernel_find(OP_REDUCE, "blocked")->launch(&kept);
    if (fault == BEHIND_AN_EXACT_FIT && args->length % 128 == 0) out[outputs * size] = 1;
    if (fault == BEFORE_WORKSPACE) ((char *)counter)[-1] = 1;
    if (fault == BEHIND_PARTIAL) *(char *)(args->state + outputs) = 1;
    if (fault == INTO_INPUT && elements > 0) x[elements * size - 1] ^= 1;
    if (fault == NAN_FOR_ONE && args->last && outputs > 0) dtype_store(launch->dtype, out, outputs / 2, NAN);
    if (fault == LEAVES_NO_ZERO && args->last && outputs > 0 && (*counter)++ > 0)
        dtype_store(launch->dtype, out, outputs - 1, 1e4);
    return code;
}

static size_t faulty_workspace(const struct launch *launch) {
    (void)launch;
    return sizeof(int64_t);
}

/* Each kind of fault must be found at least once in 100 cases. */
static void planted_faults_are_found(void **state) {
    (void)state;
    static const struct kernel faulty = {.name = "faulty",
                                         .op = OP_REDUCE,
                                         .device = DEVICE_CPU,
                                         .dtypes = DTYPE_BIT(FLOAT32) | DTYPE_BIT(FLOAT16),
                                         .operators = REDUCE_BIT(REDUCE_SUM) | REDUCE_BIT(REDUCE_MAX),
                                         .edges = {{1}, {128}, {1}},
                                         .workspace = faulty_workspace,
                                         .launch = faulty_launch};
    if (getenv("TILERUN_CASE") || exact) skip();
    for (fault = 0; fault < FAULTS; fault++) {
        struct suite suite;
        suite_open(&suite, DEVICE_CPU, OP_REDUCE);
        suite.variants.kernels[0] = &faulty;
        suite.variants.count = 1;
        suite.planted = true;
        for (int64_t number = 0; number < 100; number++) try_case(&suite, number);
        suite_close(&suite);
        if (fault_strays() != (suite.strays > 0) || fault_strays() == (suite.wrong > 0))
            fail_msg("fault %d: %lld runs, %lld wrong, %lld out of bounds", fault, (long long)suite.runs,
                     (long long)suite.wrong, (long long)suite.strays);
    }
}

static int open_devices(void **state) {
    (void)state;
    struct error error = {.status = STATUS_OK};
    device_call(device_cpu_open(&devices[DEVICE_CPU], &error), &error);
    if (device_cuda_count() > 0) device_call(device_cuda_open(0, &devices[DEVICE_CUDA], &error), &error);
    return 0;
}

static int close_devices(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++)
        if (devices[i]) devices[i]->operations->close(devices[i]);
    return 0;
}

static int64_t number_from(const char *name, int64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

int main(void) {
    base_seed = (uint64_t)number_from("TILERUN_SEED", 1);
    base_cases = number_from("TILERUN_CASES", 500);
    exact = number_from("TILERUN_EXACT", 0) != 0;
    printf("TILERUN_SEED=%llu TILERUN_CASES=%lld\n", (unsigned long long)base_seed, (long long)base_cases);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_variants_name_their_edges),
        cmocka_unit_test(planted_faults_are_found),
        cmocka_unit_test(matmul_on_the_cpu),
        cmocka_unit_test(reduce_on_the_cpu),
        cmocka_unit_test(transpose_on_the_cpu),
        cmocka_unit_test(scale_on_the_cpu),
        cmocka_unit_test(matmul_on_a_gpu),
        cmocka_unit_test(reduce_on_a_gpu),
        cmocka_unit_test(transpose_on_a_gpu),
        cmocka_unit_test(scale_on_a_gpu),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
