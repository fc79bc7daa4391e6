/* test_nvrtc_traps.c - what goes wrong where CUDA C is compiled: no NVRTC, one that is too new for the driver, headers
 * that are missing or of another version, names of architectures, and caches that are shared, changed or cannot be
 * written. A library that is built here stands in for NVRTC, and notes what it is asked for. Each case is a process,
 * because NVRTC is looked for once. */
#include "../../runner/compile/nvrtc.h"
#include "../../runner/plan/user_kernel.h"

#include "../../runner/base/fail.h"

#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "scratch.h"

static const char library_text[] =
    "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
    "static char log_text[] = \"invalid value for --gpu-architecture\";\n"
    "const char *nvrtcGetErrorString(int r) { return \"stand-in\"; }\n"
    "int nvrtcVersion(int *major, int *minor) { *major = atoi(getenv(\"FAKE_VERSION\")); *minor = 9; return 0; }\n"
    "int nvrtcCreateProgram(void **p) { *p = log_text; return 0; }\n"
    "int nvrtcDestroyProgram(void **p) { return 0; }\n"
    "int nvrtcAddNameExpression(void *p, const char *n) { return 0; }\n"
    "int nvrtcGetLoweredName(void *p, const char *n, const char **l) { *l = n; return 0; }\n"
    "int nvrtcCompileProgram(void *p, int n, const char *const *o) {\n"
    "    FILE *to = fopen(getenv(\"FAKE_LOG\"), \"a\");\n"
    "    fprintf(to, \"%s \", o[0] + strlen(\"--gpu-architecture=\"));\n    fclose(to);\n"
    "    return getenv(\"FAKE_REFUSES\") && strstr(o[0], getenv(\"FAKE_REFUSES\")) ? 5 : 0;\n}\n"
    "int nvrtcGetProgramLogSize(void *p, size_t *s) { *s = sizeof log_text; return 0; }\n"
    "int nvrtcGetProgramLog(void *p, char *t) { memcpy(t, log_text, sizeof log_text); return 0; }\n"
    "int nvrtcGetCUBINSize(void *p, size_t *s) { *s = 100000; return 0; }\n"
    "int nvrtcGetCUBIN(void *p, char *b) { memset(b, 7, 100000); return 0; }\n"
    "int cuDriverGetVersion(int *version) { *version = 1000 * atoi(getenv(\"FAKE_DRIVER\")); return 0; }\n";

/* ---- what the code under test sees ------------------------------------------------------------------------------- */

static const char *driver_path, *hidden_file;
static bool no_nvrtc, is_full;
static int locks;

void *dlopen(const char *file, int mode) {
    void *(*real)(const char *, int);
    *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
    if (file && strcmp(file, "libcuda.so.1") == 0) return driver_path ? real(driver_path, mode) : NULL;
    return file && no_nvrtc && strstr(file, "libnvrtc") ? NULL : real(file, mode);
}

int access(const char *name, int type) {
    int (*real)(const char *, int);
    *(void **)&real = dlsym(RTLD_NEXT, "access");
    return hidden_file && strstr(name, hidden_file) ? (errno = ENOENT, -1) : real(name, type);
}

int mkstemp(char *template) {
    int (*real)(char *);
    *(void **)&real = dlsym(RTLD_NEXT, "mkstemp");
    return is_full ? (errno = EROFS, -1) : real(template);
}

int flock(int fd, int operation) {
    (void)fd, (void)operation;
    locks++;
    return errno = ENOLCK, -1;
}

int lockf(int fd, int cmd, off_t len) {
    return (void)cmd, (void)len, flock(fd, LOCK_EX);
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

static void put(const char *name, const char *text) {
    FILE *to = fopen(in_folder(name), "w");
    assert_non_null(to);
    fputs(text, to);
    assert_int_equal(fclose(to), 0);
}

static int make_library(void **state) {
    if (make_folder(state)) return -1;
    char command[400];
    put("nvrtc.c", library_text);
    snprintf(command, sizeof command,
             "cd %s && mkdir -p home/lib64 home/include cache && cc -w -shared -fPIC -o home/lib64/libnvrtc.so.13 "
             "nvrtc.c",
             folder);
    if (system(command)) return -1;
    put("home/include/cuda_fp16.h", "#error headers of another version\n");
    put("mine.cu", "#include \"mine.h\"\n");
    put("mine.h", "/* 1 */\n");
    setenv("CUDA_HOME", in_folder("home"), 1);
    setenv("FAKE_LOG", in_folder("log"), 1);
    setenv("FAKE_VERSION", "13", 1);
    setenv("FAKE_DRIVER", "13", 1);
    setenv("XDG_CACHE_HOME", in_folder("cache"), 1);
    return 0;
}

/* Runs a case in a process of its own; it ends by a failed assertion, or well. */
static void in_process(void (*run)(void)) {
    pid_t child = fork();
    int state = 1;
    if (child == 0) {
        driver_path = must_strdup(in_folder("home/lib64/libnvrtc.so.13"));
        run();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &state, 0), child);
    assert_true(WIFEXITED(state) && WEXITSTATUS(state) == 0);
}

#define CHECK(condition)                                                                                               \
    do                                                                                                                 \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    while (0)

static enum status compile(const char *text, int capability, struct error *error) {
    struct cubin cubin;
    *error = (struct error){.status = STATUS_OK};
    const struct nvrtc_source source = {.name = "mine.cu", .text = text, .kernel = "mine", .capability = capability};
    enum status status = nvrtc_compile(&source, &cubin, error);
    cubin_free(&cubin);
    return status;
}

/* What the library was asked to compile for since the last call. */
static const char *asked(void) {
    static char text[4096];
    FILE *from = fopen(in_folder("log"), "r");
    size_t length = from ? fread(text, 1, sizeof text - 1, from) : 0;
    text[length] = '\0';
    if (from) fclose(from);
    unlink(in_folder("log"));
    return text;
}

/* Builds mine.cu as a job would; without a GPU its code is not loaded, but it is in the cache by then. */
static void build(void) {
    char path[128], name[] = "mine";
    snprintf(path, sizeof path, "%s", in_folder("mine.cu"));
    struct job_source source = {.path = path, .as_written = path, .kernel = name, .cuda = true};
    const struct job_variant variant = {.source = &source, .name = name};
    const struct kernel *kernel = NULL;
    const struct yaml_node *where = NULL;
    struct error error = {.status = STATUS_OK};
    CHECK(user_kernel_make(&variant, OP_SCALE, FLOAT32, FLOAT32, &kernel, &where, &error) == STATUS_OK);
    enum status status = user_kernel_build(kernel, 90, NULL, &error);
    if (status != STATUS_DEVICE) fprintf(stderr, "%s\n", error.text);
    CHECK(status == STATUS_DEVICE);
    user_kernel_free(kernel);
}

static int cached(void) {
    char command[200], text[16] = "";
    snprintf(command, sizeof command, "ls %s/tilerun 2>/dev/null | grep -c 'cubin$'", in_folder("cache"));
    FILE *from = popen(command, "r");
    if (from && fgets(text, sizeof text, from)) pclose(from);
    return atoi(text);
}

static void absent(void) {
    struct error error;
    no_nvrtc = true;
    CHECK(compile("", 90, &error) == STATUS_DEVICE);
    CHECK(strstr(error.text, "home/lib64") && strstr(error.text, "libnvrtc.so.13, libnvrtc.so.12, libnvrtc.so"));
    CHECK(strstr(error.text, "CUDA_HOME"));
}

static void too_new_for_the_driver(void) {
    struct error error;
    setenv("FAKE_DRIVER", "12", 1);
    compile("", 90, &error);
    CHECK(strcmp(asked(), "") == 0); /* it was passed over */
}

/* A driver of the same major version loads code of a newer minor one, if it is no PTX. */
static void a_newer_minor_version(void) {
    struct error error;
    CHECK(compile("", 80, &error) == STATUS_OK && strcmp(asked(), "sm_80 ") == 0);
    CHECK(compile("", 90, &error) == STATUS_OK && strcmp(asked(), "sm_90a ") == 0);
    CHECK(compile("", 120, &error) == STATUS_OK && strcmp(asked(), "sm_120a ") == 0);
}

static void names_of_architectures(void) {
    struct error error;
    setenv("FAKE_REFUSES", "sm_90a", 1);
    CHECK(compile("", 90, &error) == STATUS_OK && strcmp(asked(), "sm_90a sm_90 ") == 0);
    setenv("FAKE_REFUSES", "sm_90", 1);
    CHECK(compile("", 90, &error) == STATUS_DEVICE && strcmp(asked(), "sm_90a sm_90 ") == 0);
    CHECK(strstr(error.text, "9.0"));
}

static void an_include_changes(void) {
    build();
    CHECK(strcmp(asked(), "sm_90a ") == 0 && cached() == 1);
    build();
    CHECK(strcmp(asked(), "") == 0);
    put("mine.h", "/* 2 */\n");
    build();
    CHECK(strcmp(asked(), "sm_90a ") == 0 && cached() == 2);
    put("mine.h", "/* 1 */\n");
    build();
    CHECK(strcmp(asked(), "") == 0);
}

static void several_processes(void) {
    enum { PROCESSES = 8 };
    char go[128];
    int state, left = PROCESSES;
    snprintf(go, sizeof go, "%s", in_folder("go"));
    for (int i = 0; i < PROCESSES; i++)
        if (fork() == 0) {
            while (access(go, F_OK) != 0) usleep(100);
            build();
            _exit(0);
        }
    put("go", "");
    for (; left > 0; left--) CHECK(wait(&state) > 0 && WIFEXITED(state) && WEXITSTATUS(state) == 0);
    CHECK(cached() == 1);
    asked();
    build();
    CHECK(strcmp(asked(), "") == 0);
}

static void no_place_in_the_cache(void) {
    is_full = true;
    for (int i = 0; i < 2; i++) {
        build();
        CHECK(strcmp(asked(), "sm_90a ") == 0 && cached() == 0);
    }
}

static void no_locks(void) {
    build();
    build();
    CHECK(strcmp(asked(), "sm_90a ") == 0 && cached() == 1 && locks == 0);
}

/* ---- the real NVRTC, its headers --------------------------------------------------------------------------------- */

static const char with_header[] = "#include <cuda_fp16.h>\nextern \"C\" __global__ void mine(__half *x) { *x = 1; }\n";

static void no_headers(void) {
    struct error error;
    hidden_file = "cuda_fp16.h";
    if (!nvrtc_identity(&error)) _exit(0);
    CHECK(compile(with_header, 90, &error) == STATUS_USAGE);
    CHECK(strncmp(error.text, "mine.cu:1:", 10) == 0 && strstr(error.text, "set CUDA_HOME"));
}

/* CUDA_HOME has headers of another version, and a link to the library: those that lie beside the library count. */
static void other_headers(void) {
    struct error error;
    struct stat about;
    if (!nvrtc_identity(&error)) _exit(0);
    bool of_home = strstr(nvrtc_include_folder(), folder) != NULL;
    bool is_link = lstat(in_folder("home/lib64/libnvrtc.so.13"), &about) == 0 && S_ISLNK(about.st_mode);
    CHECK(!is_link || (!of_home && compile(with_header, 90, &error) == STATUS_OK));
}

#define CASE(name)                                                                                                     \
    static void test_##name(void **state) {                                                                            \
        in_process(name);                                                                                              \
    }
CASE(absent)
CASE(too_new_for_the_driver)
CASE(a_newer_minor_version)
CASE(names_of_architectures)
CASE(an_include_changes)
CASE(several_processes)
CASE(no_place_in_the_cache)
CASE(no_locks)

/* The folder of the real library, if there is one. */
static void use_real_library(void) {
    char command[400];
    snprintf(command, sizeof command,
             "cd %s/home/lib64 && rm libnvrtc.so.13 && for f in /usr/local/cuda*/lib64/libnvrtc.so.1[0-9]; do "
             "[ ! -e $f ] || ln -sf $f .; done",
             folder);
    if (system(command)) fail();
}

static void test_no_headers(void **state) {
    use_real_library();
    unsetenv("CUDA_HOME");
    in_process(no_headers);
}

static void test_other_headers(void **state) {
    use_real_library();
    in_process(other_headers);
}

#define TRAP(name) cmocka_unit_test_setup_teardown(test_##name, make_library, remove_folder)
int main(void) {
    const struct CMUnitTest tests[] = {TRAP(absent),
                                       TRAP(too_new_for_the_driver),
                                       TRAP(a_newer_minor_version),
                                       TRAP(names_of_architectures),
                                       TRAP(an_include_changes),
                                       TRAP(several_processes),
                                       TRAP(no_place_in_the_cache),
                                       TRAP(no_locks),
                                       TRAP(no_headers),
                                       TRAP(other_headers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
