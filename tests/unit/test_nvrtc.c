/* test_nvrtc.c - CUDA C compiled at run time: code, names, the places of mistakes, headers that are given as text.
 * Skipped where there is no NVRTC. */
#include "../../runner/compile/embedded.h"
#include "../../runner/compile/nvrtc.h"
#include "../../runner/plan/user_kernel.h"

#include "../../kernels/core/loaded.h"
#include "../../runner/base/fail.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scratch.h"

static enum status compile(const char *text, const char *kernel, int capability, struct cubin *cubin,
                           struct error *error) {
    *error = (struct error){.status = STATUS_OK};
    const struct nvrtc_source source = {.name = "mine.cu",
                                        .text = text,
                                        .kernel = kernel,
                                        .options = {"-DTILE=7"},
                                        .option_count = 1,
                                        .header_names = {"own.h"},
                                        .header_texts = {"#define OWN 3\n"},
                                        .header_count = 1,
                                        .capability = capability};
    return nvrtc_compile(&source, cubin, error);
}

static void skip_without(void) {
    struct error error = {.status = STATUS_OK};
    if (!nvrtc_identity(&error)) {
        assert_int_equal(error.status, STATUS_DEVICE);
        assert_non_null(strstr(error.text, "libnvrtc.so"));
        skip();
    }
}

static void code_for_a_device(void **state) {
    skip_without();
    static const char text[] =
        "#include \"own.h\"\n#include <cuda_fp16.h>\nstatic_assert(OWN == 3 && TILE == 7, \"\");\n"
        "template <typename T> __global__ void mine(T *x) { x[0] = 1; int unused; }\n";
    const int capabilities[] = {80, 90};
    for (int i = 0; i < 2; i++) {
        struct cubin cubin;
        struct error error;
        assert_int_equal(compile(text, "mine<__half>", capabilities[i], &cubin, &error), STATUS_OK);
        assert_memory_equal(cubin.bytes, "\177ELF", 4);
        assert_true(cubin.size > 64);
        assert_non_null(strstr(cubin.kernel, "mine"));
        assert_non_null(strstr(cubin.log, "mine.cu(4): warning"));
        char *warnings = must_strdup("");
        nvrtc_warnings(cubin.log, &warnings);
        assert_memory_equal(warnings, "mine.cu:4:66: warning #", 23);
        assert_null(strstr(warnings, "mine.cu("));
        free(warnings);
        cubin_free(&cubin);
    }
}

static void places_of_mistakes(void **state) {
    skip_without();
    static const struct {
        const char *text, *place;
    } cases[] = {
        {"__global__ void mine(float *x) {\n    x[0] = foo;\n}\n", "mine.cu:2:12: "},
        {"#include \"none.h\"\n__global__ void mine(float *x) {}\n", "mine.cu:1:"},
        {"__global__ void other(float *x) {}\n", "mine.cu:1:1: "},
        {"__global__ void mine(float *x) {\n  x[0] = 1\n}\n", "mine.cu:3:1: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cubin cubin;
        struct error error;
        assert_int_equal(compile(cases[i].text, "mine", 90, &cubin, &error), STATUS_USAGE);
        assert_memory_equal(error.text, cases[i].place, strlen(cases[i].place));
        assert_null(cubin.bytes);
        cubin_free(&cubin);
    }
}

static void unknown_devices(void **state) {
    skip_without();
    struct cubin cubin;
    struct error error;
    assert_int_equal(compile("__global__ void mine() {}\n", "mine", 990, &cubin, &error), STATUS_DEVICE);
    assert_non_null(strstr(error.text, "99.0"));
    cubin_free(&cubin);
}

/* What is no code is refused by the driver, or there is none; in both cases with a sentence. */
static void nothing_is_loaded(void **state) {
    struct error error = {.status = STATUS_OK};
    struct loaded_kernel loaded;
    assert_int_equal(loaded_open("no code", 7, "mine", &loaded, &error), STATUS_DEVICE);
    assert_true(error.text[0] != '\0');
    const unsigned one[3] = {1, 1, 1};
    loaded_close(&loaded);
    assert_int_not_equal(loaded_launch(&loaded, one, one, 0, NULL, NULL), 0);
}

/* Compiles the first version of an operation's GPU kernel, as a job would. Without a driver loading fails then. */
static void compile_first_version(enum op op, enum dtype in, enum dtype out) {
    char name[32], *path = must_strdup(in_folder("NAME.cu"));
    snprintf(name, sizeof name, "%s.cu", operations[op]->name);
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    fputs(embedded_text(name), to);
    assert_int_equal(fclose(to), 0);
    struct job_source source = {.path = path, .as_written = path, .kernel = "NAME", .cuda = true};
    const struct job_variant variant = {.source = &source, .name = "mine"};
    const struct kernel *kernel = NULL;
    const struct yaml_node *where = NULL;
    struct error error = {.status = STATUS_OK};
    assert_int_equal(user_kernel_make(&variant, op, in, out, &kernel, &where, &error), STATUS_OK);
    enum status status = user_kernel_build(kernel, 90, NULL, &error);
    if (status == STATUS_USAGE) fail_msg("%s", error.text);
    assert_true(status == STATUS_OK || status == STATUS_DEVICE);
    user_kernel_free(kernel);
    free(path);
}

static void first_versions(void **state) {
    skip_without();
    const enum dtype floats[] = {FLOAT32, FLOAT64, FLOAT16, BFLOAT16};
    setenv("XDG_CACHE_HOME", folder, 1);
    for (int i = 0; i < 4; i++) compile_first_version(OP_MATMUL, floats[i], floats[i]);
    const enum dtype others[][2] = {{BFLOAT16, BFLOAT16}, {INT8, INT64}, {UINT16, UINT64}, {INT32, FLOAT64}};
    for (int i = 0; i < 4; i++) compile_first_version(OP_REDUCE, others[i][0], others[i][1]);
    for (int i = 0; i < 4; i++) compile_first_version(OP_SCALE, others[i][0], others[i][0]);
    compile_first_version(OP_TRANSPOSE, FLOAT16, FLOAT16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_for_a_device),
        cmocka_unit_test(places_of_mistakes),
        cmocka_unit_test(unknown_devices),
        cmocka_unit_test(nothing_is_loaded),
        cmocka_unit_test_setup_teardown(first_versions, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
