/* user_kernel.c - wraps a user kernel in a `struct kernel`, whose member `user_kernel` points to it. */
#include "user_kernel.h"

#include "../../kernels/core/loaded.h"
#include "../../kernels/map/before.h"
#include "../base/fail.h"
#include "../base/hash.h"
#include "../base/interrupt.h"
#include "../base/text.h"
#include "../compile/cache.h"
#include "../compile/cc.h"
#include "../compile/embedded.h"
#include "../compile/nvrtc.h"
#include "../compile/rehearse.h"
#include "../job/expression/expression.h"
#include "../storage/untrusted/fence.h"

#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SHAPES    16 /* of rehearsed launches */
#define MAX_MACROS    16
#define MAX_THREADS   1024      /* of a block */
#define MAX_SHARED    (1 << 20) /* bytes of a block */
#define MAX_GRID      65535     /* blocks along the second and along the third axis */
#define LAUNCH_FAILED 9         /* cudaErrorInvalidConfiguration */

/* The numbers of a launch: block, grid, and shared memory. */
enum { BLOCK = 0, GRID = 3, SHARED = 6, NUMBERS = 7 };
static const char *const number_names[NUMBERS] = {"block", "block", "block", "grid", "grid", "grid", "shared"};

/* The sizes of a launch. Launches of one shape take the same paths of a kernel. */
struct launch_shape {
    int64_t size[10];    /* by name; -1: the operation has no such size */
    int64_t dtype, ends; /* ends: 1 for the first launch of a sum that is cut, plus 2 for the last */
};

struct user_kernel {
    struct kernel kernel;
    const struct job_source *source;
    struct sources sources;
    char *identity;
    int macro_count;
    char *macros[MAX_MACROS];            /* "-DTILE=32" */
    struct expression *numbers[NUMBERS]; /* NULL: 1, of `shared` 0 */
    /* set when it is built: */
    bool built;
    struct cc_code host;
    struct loaded_kernel loaded;
    /* the launches that were rehearsed: */
    int shape_count;
    struct launch_shape shapes[MAX_SHAPES];
};

static const struct user_kernel *user_kernel_of(const struct kernel *kernel) {
    return kernel->user_kernel;
}

/* ---- the numbers of a launch ------------------------------------------------------------------------------------- */

/* The value of a dimension of the launch; false: its operation has none of this name. */
static bool dimension(const struct launch *launch, const char *name, int64_t *value) {
    const struct matmul_args *matmul = &launch->args.matmul;
    const struct reduce_args *reduce = &launch->args.reduce;
    const struct transpose_args *transpose = &launch->args.transpose;
    const struct {
        enum op op;
        const char *name;
        int64_t value;
    } all[] = {
        {OP_MATMUL, "m", matmul->m},
        {OP_MATMUL, "n", matmul->n},
        {OP_MATMUL, "k", matmul->k},
        {OP_MATMUL, "batch", matmul->batch},
        {OP_REDUCE, "outer", reduce->outer},
        {OP_REDUCE, "length", reduce->length},
        {OP_REDUCE, "inner", reduce->inner},
        {OP_TRANSPOSE, "batch", transpose->batch},
        {OP_TRANSPOSE, "rows", transpose->rows},
        {OP_TRANSPOSE, "cols", transpose->cols},
        {OP_SCALE, "count", launch->args.scale.count},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].op == launch->op && strcmp(all[i].name, name) == 0) return *value = all[i].value, true;
    return false;
}

/* Gives an expression the value of a dimension of the launch `context`. */
static bool look_up(void *context, const char *name, struct scalar *value, char message[200]) {
    *value = (struct scalar){.kind = SCALAR_INTEGER};
    if (dimension(context, name, &value->integer)) return true;
    snprintf(message, 200, "'%.80s' is not a size of this operation", name);
    return false;
}

/* Puts a '$' before each size that the text names, as the grammar of expressions asks. The caller frees. */
static char *with_dollars(enum op op, const char *text) {
    const struct launch launch = {.op = op};
    char *out = must_strdup("");
    while (*text) {
        size_t length = 0;
        int64_t value;
        while (isalnum((unsigned char)text[length]) || text[length] == '_') length++;
        OWNED char *word = must_printf("%.*s", (int)(length ? length : 1), text);
        must_append(&out, "%s%s", length && dimension(&launch, word, &value) ? "$" : "", word);
        text += length ? length : 1;
    }
    return out;
}

/* Evaluates number `which` of a launch. false: *fault says why it has no value. */
static bool evaluate_number(const struct user_kernel *user, const struct launch *launch, int which, int64_t *number,
                            struct expression_fault *fault) {
    *number = which != SHARED;
    if (!user->numbers[which]) return true;
    struct scalar value;
    if (!expression_evaluate(user->numbers[which], look_up, (void *)launch, &value, fault)) return false;
    double real = value.kind == SCALAR_REAL ? value.real : (double)value.integer;
    if (value.kind == SCALAR_TEXT || !(real >= 0) || real > 0x1p31 - 1 || real != floor(real)) {
        snprintf(fault->message, sizeof fault->message, "it is %g, but must be a whole number from 0 to 2^31 - 1",
                 real);
        return false;
    }
    *number = (int64_t)real;
    return true;
}

static const struct job_launch_number *number_of(const struct job_source *source, int which) {
    return which == SHARED ? &source->shared : which < GRID ? &source->block[which] : &source->grid[which - GRID];
}

/* Parses the expressions of the launch's numbers. STATUS_USAGE: *where is the node of a wrong one. */
static enum status parse_numbers(struct user_kernel *user, const struct yaml_node **where, struct error *error) {
    struct expression_fault fault;
    for (int i = 0; i < NUMBERS; i++) {
        const struct job_launch_number *number = number_of(user->source, i);
        if (!number->text) continue;
        OWNED char *text = with_dollars(user->kernel.op, number->text);
        user->numbers[i] = expression_parse(text, &fault);
        if (user->numbers[i]) continue;
        *where = number->where;
        return fail(error, STATUS_USAGE, "'%s': %s", number_names[i], fault.message);
    }
    return STATUS_OK;
}

enum status user_kernel_check(const struct kernel *kernel, const struct launch *launch, const struct yaml_node **where,
                              struct error *error) {
    const struct user_kernel *user = user_kernel_of(kernel);
    struct expression_fault fault = {.message = ""};
    int64_t numbers[NUMBERS];
    if (!user->source->cuda) return STATUS_OK;
    for (int i = 0; i < NUMBERS; i++) {
        *where = number_of(user->source, i)->where;
        if (!evaluate_number(user, launch, i, &numbers[i], &fault))
            return fail(error, STATUS_USAGE, "'%s': %s", number_names[i], fault.message);
        if (i > GRID && i < SHARED && numbers[i] > MAX_GRID)
            return fail(error, STATUS_DEVICE,
                        "'grid' must have at most %d blocks along its second and third axis, not %lld", MAX_GRID,
                        (long long)numbers[i]);
    }
    *where = user->source->block[0].where;
    int64_t threads = numbers[0] * numbers[1] * numbers[2];
    if (threads < 1 || threads > MAX_THREADS)
        return fail(error, STATUS_DEVICE, "'block' has %lld threads; 1 to %d are allowed", (long long)threads,
                    MAX_THREADS);
    *where = user->source->shared.where;
    if (numbers[SHARED] <= MAX_SHARED) return STATUS_OK;
    return fail(error, STATUS_DEVICE, "'shared' is %lld bytes; a block can have at most %d", (long long)numbers[SHARED],
                MAX_SHARED);
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

bool user_kernel_wants_rehearsal(const struct kernel *kernel, const struct launch *launch) {
    static const char *const names[] = {"m", "n", "k", "batch", "outer", "length", "inner", "rows", "cols", "count"};
    struct user_kernel *user = (struct user_kernel *)kernel->user_kernel;
    struct launch_shape shape = {.dtype = launch->dtype};
    if (!user || user->source->cuda || user->shape_count == MAX_SHAPES) return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!dimension(launch, names[i], &shape.size[i])) shape.size[i] = -1;
    if (launch->op == OP_MATMUL) shape.ends = launch->args.matmul.first + 2 * launch->args.matmul.last;
    if (launch->op == OP_REDUCE) shape.ends = launch->args.reduce.first + 2 * launch->args.reduce.last;
    for (int i = 0; i < user->shape_count; i++)
        if (memcmp(&user->shapes[i], &shape, sizeof shape) == 0) return false;
    user->shapes[user->shape_count++] = shape;
    return true;
}

/* Ends the process because the kernel has ended its thread, for which others would wait for ever. */
static void end_process(void *unused) {
    (void)unused;
    exit(STATUS_DEVICE);
}

/* Launches a kernel in C. Only the first launch of a shape was rehearsed: a later one may end the process, which the
 * fence then reports. */
static int launch_host(const struct launch *launch) {
    const struct user_kernel *user = user_kernel_of(launch->kernel);
    int (*function)(const struct launch *launch);
    volatile int code = 1; /* volatile: pthread_cleanup_push may be a setjmp */
    *(void **)&function = user->host.function;
    fence_set_kernel(launch->kernel->name);
    pthread_cleanup_push(end_process, NULL);
    if (function) code = function(launch);
    pthread_cleanup_pop(false);
    fence_set_kernel(NULL);
    return code;
}

/* Launches the kernel, after the map whose values it takes, if there is one. */
static int launch_whole(const struct launch *launch) {
    return kernel_launch(launch->kernel, launch);
}

enum status user_kernel_rehearse(const struct kernel *kernel, const struct launch *launch,
                                 const struct launch_inputs *inputs, bool has_timeout, struct error *error) {
    struct launch copy = *launch;
    copy.kernel = kernel;
    OWNED char *late = must_printf("kernel '%s' has not returned from its first launch for 1 min; Ctrl-C ends the job, "
                                   "`timeout: 30s` ends such a run",
                                   kernel->name);
    int code = rehearse(launch_whole, &copy, inputs, has_timeout ? NULL : late);
    if (code == 0) return STATUS_OK;
    if (code == REHEARSE_STOPPED) return interrupt_check(error);
    const char *wrong = code == REHEARSE_EXITED    ? "ends the process that it runs in"
                        : code == REHEARSE_CHANGED ? "writes to its inputs"
                        : code == REHEARSE_FORKED  ? "leaves a process running that it forked"
                        : code == REHEARSE_MODES   ? "changes rounding or flush-to-zero and does not restore it"
                                                   : NULL;
    if (wrong) return fail(error, STATUS_RUN, "kernel '%s' %s", kernel->name, wrong);
    return fail(error, STATUS_RUN, "kernel '%s' crashes: %s%s", kernel->name, strsignal(-code),
                code == -SIGKILL ? ", as by a system that lacks memory" : "");
}

/* Launches a CUDA kernel with the numbers that its job states; a grid without blocks is no launch. */
static int launch_cuda(const struct launch *launch) {
    const struct user_kernel *user = user_kernel_of(launch->kernel);
    struct expression_fault fault;
    int64_t numbers[NUMBERS];
    unsigned block[3], grid[3];
    for (int i = 0; i < NUMBERS; i++)
        if (!evaluate_number(user, launch, i, &numbers[i], &fault)) return LAUNCH_FAILED;
    bool empty = false;
    for (int i = 0; i < 3; i++) {
        block[i] = (unsigned)numbers[BLOCK + i];
        grid[i] = (unsigned)numbers[GRID + i];
        empty = empty || grid[i] == 0;
    }
    if (empty) return 0;
    void *args[] = {(void *)&launch->args};
    return loaded_launch(&user->loaded, grid, block, (size_t)numbers[SHARED], launch->stream, args);
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

/* The type of an element in a source. C has no bfloat16: there it is an integer with the bits. */
static const char *type_name(enum dtype dtype, bool cuda) {
    switch (dtype) {
    case FLOAT32: return "float";
    case FLOAT64: return "double";
    case FLOAT16: return cuda ? "__half" : "_Float16";
    case BFLOAT16: return cuda ? "__nv_bfloat16" : "uint16_t";
    case INT8: return "int8_t";
    case INT16: return "int16_t";
    case INT32: return "int32_t";
    case INT64: return "int64_t";
    case UINT8: return "uint8_t";
    case UINT16: return "uint16_t";
    case UINT32: return "uint32_t";
    case UINT64: return "uint64_t";
    case DTYPE_COUNT: break;
    }
    return "void";
}

/* Sets the macros that the source is compiled with: types, and the variant's parameters in upper case. */
static void set_macros(struct user_kernel *user, const struct job_variant *variant, enum dtype in, enum dtype out) {
    bool cuda = user->source->cuda;
    char **macros = user->macros;
    int count = 0;
    macros[count++] = must_printf("-DTILERUN_T=%s", type_name(in, cuda));
    macros[count++] = must_printf("-DTILERUN_T_OUT=%s", type_name(out, cuda));
    macros[count++] = must_printf("-DT_IS_FLOAT=%d", dtype_is_float(in));
    macros[count++] = must_printf("-DT_IS_FLOAT64=%d", in == FLOAT64);
    macros[count++] = must_printf("-DT_IS_FLOAT16=%d", in == FLOAT16);
    macros[count++] = must_printf("-DT_IS_BFLOAT16=%d", in == BFLOAT16);
    macros[count++] = must_printf("-DT_IS_SIGNED=%d", dtype_is_signed(in));
    for (int i = 0; i < variant->count; i++) {
        macros[count] = must_printf("-D%s=%s", variant->names[i], variant->values[i]);
        for (char *c = macros[count] + 2; *c != '='; c++) *c = (char)toupper((unsigned char)*c);
        count++;
    }
    user->macro_count = count;
}

/* Does a C text use the macro of a parameter, its name in upper case, outside comments? */
static bool uses_macro(const char *text, const char *name) {
    for (const char *c = text; *c;) {
        const char *comment_end = strncmp(c, "/*", 2) == 0 ? strstr(c, "*/") : NULL;
        int length = text_name_length(c), same = 0;
        while (same < length && c[same] == toupper((unsigned char)name[same])) same++;
        if (length > 0 && same == length && !name[same]) return true;
        c = comment_end ? comment_end + 2 : c + (length ? length : 1);
    }
    return false;
}

/* Returns a text of all that the kernel's result depends on: files, name, macros and launch numbers. */
static char *identity_of(const struct user_kernel *user) {
    char hash[65], *text;
    sources_hash(&user->sources, NULL, hash);
    text = must_printf("%s %s", hash, user->source->kernel);
    for (int i = 0; i < user->macro_count; i++) must_append(&text, " %s", user->macros[i]);
    for (int i = 0; i < NUMBERS; i++) {
        const char *number = number_of(user->source, i)->text;
        must_append(&text, " [%s]", number ? number : "");
    }
    return text;
}

enum status user_kernel_make(const struct job_variant *variant, enum op op, enum dtype in, enum dtype out,
                             const struct kernel **made, const struct yaml_node **where, struct error *error) {
    struct user_kernel *user = must_malloc(sizeof *user);
    *user = (struct user_kernel){.source = variant->source};
    bool cuda = variant->source->cuda;
    user->kernel = (struct kernel){.name = variant->name,
                                   .op = op,
                                   .device = cuda ? DEVICE_CUDA : DEVICE_CPU,
                                   .summary = "a kernel of the job's own",
                                   .dtypes = DTYPES_ALL,
                                   .edges = {{1}, {1}, {1}},
                                   .accuracy = ACCURACY_FULL,
                                   .atomic_order = true, /* nothing is known about it */
                                   .launch = cuda ? launch_cuda : launch_host,
                                   .user_kernel = user};
    *made = &user->kernel;
    *where = variant->source->where;
    int64_t size;
    const struct launch launch = {.op = op};
    if (!dimension(&launch, "m", &size) && !dimension(&launch, "outer", &size) && !dimension(&launch, "rows", &size) &&
        !dimension(&launch, "count", &size))
        return fail(error, STATUS_USAGE, "a map runs its expression, not a kernel from a source file");
    for (int i = 0; i < variant->count; i++) {
        if (!uses_macro(embedded_text("tilerun.h"), variant->names[i])) continue; /* it would replace that */
        *where = variant->parameter_where[i];
        return fail(error, STATUS_USAGE, "'%s' cannot be a parameter of a source: tilerun.h uses its macro's name",
                    variant->names[i]);
    }
    TRY(sources_read(variant->source->path, &user->sources, error));
    set_macros(user, variant, in, out);
    user->identity = identity_of(user);
    return parse_numbers(user, where, error);
}

const char *user_kernel_idle_parameter(const struct kernel *kernel, const struct job_variant *variant) {
    const struct sources *sources = user_kernel_sources(kernel);
    for (int i = 0; i < variant->count && !variant->source->cuda; i++) {
        bool used = strcmp(variant->names[i], JOB_THREADS) == 0;
        for (int j = 0; j < sources->count && !used; j++) used = uses_macro(sources->files[j].text, variant->names[i]);
        if (!used) return variant->names[i];
    }
    return NULL;
}

void user_kernel_free(const struct kernel *kernel) {
    if (!kernel || !kernel->user_kernel) return;
    struct user_kernel *user = (struct user_kernel *)kernel->user_kernel;
    cc_code_free(&user->host);
    loaded_close(&user->loaded);
    sources_free(&user->sources);
    for (int i = 0; i < user->macro_count; i++) free(user->macros[i]);
    for (int i = 0; i < NUMBERS; i++) expression_free(user->numbers[i]);
    free(user->identity);
    free(user);
}

const struct sources *user_kernel_sources(const struct kernel *kernel) {
    return kernel && kernel->user_kernel ? &user_kernel_of(kernel)->sources : NULL;
}

const char *user_kernel_source_name(const struct kernel *kernel) {
    return user_kernel_of(kernel)->source->as_written;
}

const char *user_kernel_identity(const struct kernel *kernel) {
    return kernel && kernel->user_kernel ? user_kernel_of(kernel)->identity : NULL;
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

#define CACHE_VERSION "1" /* of what is compiled, and of the cached file */

/* Headers that NVRTC lacks. */
static const char *const nvrtc_headers[][2] = {
    {"stdbool.h", "\n"},
    {"stddef.h", "typedef decltype(sizeof(0)) size_t;\n#ifndef NULL\n#define NULL 0\n#endif\n"},
    {"stdint.h", "typedef signed char int8_t;\ntypedef short int16_t;\ntypedef int int32_t;\ntypedef long int64_t;\n"
                 "typedef unsigned char uint8_t;\ntypedef unsigned short uint16_t;\ntypedef unsigned uint32_t;\n"
                 "typedef unsigned long uint64_t;\n#define INT32_MAX 2147483647\n#define INT64_C(x) x##L\n"
                 "#define UINT64_C(x) x##UL\n#define INT64_MAX 9223372036854775807L\n"},
};
enum { NVRTC_HEADERS = sizeof nvrtc_headers / sizeof *nvrtc_headers };

/* Describes a CUDA source to NVRTC, with the headers and macros that it may use. */
static void describe_source(const struct user_kernel *user, int capability, struct nvrtc_source *source) {
    *source = (struct nvrtc_source){.name = user->sources.files[0].path,
                                    .text = user->sources.files[0].text,
                                    .kernel = user->source->kernel,
                                    .options = {"--std=c++17", "-lineinfo"},
                                    .option_count = 2,
                                    .header_names = {"tilerun.h"},
                                    .header_texts = {embedded_text("tilerun.h")},
                                    .header_count = 1,
                                    .capability = capability};
    for (int i = 0; i < NVRTC_HEADERS; i++) {
        source->header_names[source->header_count] = nvrtc_headers[i][0];
        source->header_texts[source->header_count++] = nvrtc_headers[i][1];
    }
    for (int i = 0; i < user->macro_count; i++) source->options[source->option_count++] = user->macros[i];
}

/* Reads a cached file: the kernel's name in the code, a newline, and the code. false: absent or damaged. */
static bool read_cached(const struct cache_entry *entry, struct cubin *cubin) {
    OWNED_FILE FILE *from = cache_holds(entry) ? fopen(entry->path, "rb") : NULL;
    char name[1024] = "";
    *cubin = (struct cubin){.bytes = NULL};
    if (!from) return false;
    char *end = fgets(name, sizeof name, from) ? strchr(name, '\n') : NULL;
    long begin = ftell(from), size = fseek(from, 0, SEEK_END) == 0 ? ftell(from) : 0;
    bool good = end && begin > 0 && size > begin && fseek(from, begin, SEEK_SET) == 0;
    if (good) {
        *end = '\0';
        cubin->size = (size_t)(size - begin);
        cubin->bytes = must_malloc(cubin->size);
        cubin->kernel = must_strdup(name);
        good = fread(cubin->bytes, 1, cubin->size, from) == cubin->size;
    }
    if (!good) cubin_free(cubin);
    return good;
}

/* Writes a file for read_cached. Ignores errors: the cache only saves time. */
static void write_cached(struct cache_entry *entry, const struct cubin *cubin) {
    if (cache_begin(entry, IGNORED) != STATUS_OK) return;
    FILE *to = fopen(entry->temporary, "wb");
    bool good = to && fprintf(to, "%s\n", cubin->kernel) > 0 && fwrite(cubin->bytes, 1, cubin->size, to) == cubin->size;
    good = to && fclose(to) == 0 && good;
    if (good) cache_put(entry);
}

/* Compiles a CUDA source, or takes the code from the cache unless `warnings` are wanted, and loads it. */
static enum status build_cuda(struct user_kernel *user, int capability, char **warnings, struct error *error) {
    struct nvrtc_source source;
    FREED_BY(cache_end) struct cache_entry entry = {.path = NULL};
    FREED_BY(cubin_free) struct cubin cubin = {.bytes = NULL};
    char hash[65], header_hash[65], key[65];
    const char *identity = nvrtc_identity(error);
    if (!identity) return error->status;
    describe_source(user, capability, &source);
    sources_hash(&user->sources, nvrtc_include_folder(), hash);
    OWNED char *key_text = must_printf(CACHE_VERSION " %s %s %d %s", identity, hash, capability, user->identity);
    sha256_hex(source.header_texts[0], strlen(source.header_texts[0]), header_hash);
    must_append(&key_text, " %s %s", header_hash, source.name);
    sha256_hex(key_text, strlen(key_text), key);
    cache_name(key, "cubin", &entry);
    if (warnings || !read_cached(&entry, &cubin)) {
        TRY(nvrtc_compile(&source, &cubin, error));
        if (warnings) nvrtc_warnings(cubin.log, warnings);
        write_cached(&entry, &cubin);
    }
    return loaded_open(cubin.bytes, cubin.size, cubin.kernel, &user->loaded, error);
}

/* Compiles and loads a C source. STATUS_USAGE also if its files changed since the job was planned. */
static enum status build_host(struct user_kernel *user, char **warnings, struct error *error) {
    struct cc_source source = {.path = user->sources.files[0].path, .kernel = user->source->kernel};
    for (int i = 0; i < user->macro_count; i++) source.macros[source.macro_count++] = user->macros[i];
    TRY(cc_compile(&source, warnings, &user->host, error));
    /* The compiler has read the files itself: did they change since they were read here? */
    FREED_BY(sources_free) struct sources now = {.count = 0};
    char before[65], after[65];
    TRY(sources_read(source.path, &now, error));
    sources_hash(&user->sources, NULL, before);
    sources_hash(&now, NULL, after);
    if (strcmp(before, after) == 0) return STATUS_OK;
    return fail(error, STATUS_USAGE, "%s has changed while it was compiled: run the job again", source.path);
}

enum status user_kernel_build(const struct kernel *kernel, int capability, char **warnings, struct error *error) {
    struct user_kernel *user = (struct user_kernel *)kernel->user_kernel;
    if (user->built) return STATUS_OK;
    TRY(user->source->cuda ? build_cuda(user, capability, warnings, error) : build_host(user, warnings, error));
    user->built = true;
    return STATUS_OK;
}
