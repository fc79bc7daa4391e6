/* test_kernels_random.c - every variant on random problems, with guard zones around all memory that it is given.
 *
 * A case is one problem: random types, options and values, and shapes at the edges that one of the variants names. Each
 * variant that takes the problem computes it with each choice of its parameters, on the device that the runner uses; a
 * reduction in one launch or several; sometimes all of it a second time on the same workspace. After every launch the
 * guards and the inputs must be unchanged. After the last launch the result must be right as verify.c judges it, or for
 * a transpose have the same bits. A panel of it, and the whole by another tile, must have its bits where the variant
 * says so.
 *
 *     TILERUN_SEED=1 TILERUN_CASES=5000     other cases, more of them (of each operation, on each device)
 *     TILERUN_CASE=cuda/matmul/57           only this case; a case that fails prints this line
 *     TILERUN_CASE=cuda/matmul/             only the cases of this operation on this device
 *     TILERUN_DIVISIBLE=1                   panels of all variants, and which of them have other bits than the whole
 *     TILERUN_EXACT=1                       operands without guards, each in an allocation of its own: for memcheck */
#include "kernel_trial.h"

#include "devices.h"

/* ---- the tests --------------------------------------------------------------------------------------------------- */

static void suite_open(struct suite *suite, enum kernel_device device, enum op op) {
    *suite = (struct suite){.device = devices[device], .variants = {.op = op, .facts = &devices[device]->facts}};
    for (int role = 0; role < ROLES; role++)
        suite->memory[role] = (struct guarded){.device = suite->device, .exact = exact};
    int capability = suite->device->facts.compute_capability;
    for (int i = 0; i < kernel_count; i++) {
        const struct kernel *kernel = kernel_registry[i];
        bool able = !kernel_left_out(kernel) && kernel->compute_capability <= capability &&
                    (!kernel->only_below || capability < kernel->only_below);
        if (kernel->op != op || kernel->device != device || !able) continue;
        assert_true(suite->variants.count < VARIANTS);
        suite->variants.kernels[suite->variants.count++] = kernel;
    }
}

static void suite_close(struct suite *suite) {
    for (int role = 0; role < ROLES; role++) guarded_release(&suite->memory[role]);
    free(suite->of_auto);
}

static void check_variants(enum kernel_device device, enum op op) {
    struct suite suite;
    const char *alone = getenv("TILERUN_CASE");
    char here[32];
    snprintf(here, sizeof here, "%s/%s/", device_names[device], operations[op]->name);
    if (!devices[device] || (alone && strncmp(alone, here, strlen(here)) != 0)) skip();
    suite_open(&suite, device, op);
    const char *one = alone ? alone + strlen(here) : "";
    if (*one)
        try_case(&suite, strtoll(one, NULL, 10));
    else
        for (int64_t number = 0; number < base_cases; number++) try_case(&suite, number);
    suite_close(&suite);
    printf("%s %s: %lld cases, %lld runs of %d variants (%lld refused), %lld panels, %lld other ways: "
           "%lld wrong, %lld out of bounds\n",
           device_names[device], operations[op]->name, (long long)suite.cases, (long long)suite.runs,
           suite.variants.count, (long long)suite.refused, (long long)suite.panels, (long long)suite.ways,
           (long long)suite.wrong, (long long)suite.strays);
    for (int i = 0; i < suite.variants.count && ask_all; i++)
        printf("    %s: %lld panels with other bits than the whole\n", suite.variants.kernels[i]->name,
               (long long)suite.apart[i]);
    assert_int_equal(suite.wrong, 0);
    assert_int_equal(suite.strays, 0);
}

#define TEST(device, name, op)                                                                                         \
    static void name(void **state) {                                                                                   \
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

#ifdef __x86_64__
/* What __builtin_cpu_supports looks at: it stands in every program. */
extern struct {
    unsigned vendor, type, subtype, features;
} __cpu_model; // NOLINT(bugprone-reserved-identifier): the compiler's own

/* The variants that choose their instructions when they run, on processors without AVX-512, and without AVX2. */
static void variants_on_older_processors(void **state) {
    const unsigned real = __cpu_model.features, avx2_and_fma = 1u << 10 | 1u << 14;
    static const enum op chosen[] = {OP_MATMUL, OP_REDUCE, OP_SCALE};
    int64_t wrong = 0;
    if (getenv("TILERUN_CASE") || exact) skip();
    for (int level = 0; level < 2; level++)
        for (int i = 0; i < 3; i++) {
            struct suite suite;
            __cpu_model.features = level == 0 ? real & avx2_and_fma : 0;
            suite_open(&suite, DEVICE_CPU, chosen[i]);
            for (int64_t number = 0; number < (base_cases + 4) / 5; number++) try_case(&suite, number);
            suite_close(&suite);
            __cpu_model.features = real;
            wrong += suite.wrong + suite.strays;
        }
    assert_int_equal(wrong, 0);
}
#else
static void variants_on_older_processors(void **state) {
    skip();
}
#endif

/* A variant that names no edges would be tested at none. */
static void all_variants_name_their_edges(void **state) {
    for (int i = 0; i < kernel_count; i++)
        for (int dimension = 0; dimension < KERNEL_DIMENSIONS; dimension++) {
            const struct kernel *kernel = kernel_registry[i];
            const int *edges = kernel->edges[dimension];
            if (kernel_left_out(kernel)) continue;
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
    MINDS_ITS_NEIGHBOURS,
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
    if (fault == BEHIND_PARTIAL) ((char *)args->state)[outputs * (int64_t)sizeof(struct reduce_state)] = 1;
    if (fault == INTO_INPUT && elements > 0) x[elements * size - 1] ^= 1;
    if (fault == NAN_FOR_ONE && args->last && outputs > 0) dtype_store(launch->dtype, out, outputs / 2, NAN);
    if (fault == LEAVES_NO_ZERO && args->last && outputs > 0 && (*counter)++ > 0)
        dtype_store(launch->dtype, out, outputs - 1, 1e4);
    if (fault == MINDS_ITS_NEIGHBOURS && args->last && outputs % 2 == 1) out[0] ^= 1; /* the last bit */
    return code;
}

static size_t faulty_workspace(const struct launch *launch) {
    (void)launch;
    return sizeof(int64_t);
}

/* Each kind of fault must be found at least once in 100 cases. */
static void planted_faults_are_found(void **state) {
    static const struct kernel faulty = {.name = "faulty",
                                         .op = OP_REDUCE,
                                         .device = DEVICE_CPU,
                                         .dtypes = DTYPE_BIT(FLOAT32) | DTYPE_BIT(FLOAT16),
                                         .operators = REDUCE_BIT(REDUCE_SUM) | REDUCE_BIT(REDUCE_MAX),
                                         .edges = {{1}, {128}, {1}},
                                         .divisible = true,
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

static int64_t number_from(const char *name, int64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

int main(void) {
    base_seed = (uint64_t)number_from("TILERUN_SEED", 1);
    base_cases = number_from("TILERUN_CASES", 500);
    exact = number_from("TILERUN_EXACT", 0) != 0;
    ask_all = number_from("TILERUN_DIVISIBLE", 0) != 0;
    printf("TILERUN_SEED=%llu TILERUN_CASES=%lld\n", (unsigned long long)base_seed, (long long)base_cases);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_variants_name_their_edges),
        cmocka_unit_test(planted_faults_are_found),
        cmocka_unit_test(variants_on_older_processors),
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
