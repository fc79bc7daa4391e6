/* map/compiled.cu - the map as a kernel of its own, compiled at run time: each element is loaded once, goes through all
 * steps in registers, and is stored once.
 *
 *     A  ----load---\
 *     B  ----load----  (A - B) * gain  ---store---> y      16 bytes per load of a thread; all loads are in flight
 *
 * An interpreter would fetch and decode a step for each few elements; a library of prepared kernels would write every
 * intermediate array to memory. cuda_text.c writes the kernel, and the runner's compiler compiles it, once per process
 * for each expression, types and shape of broadcasting. So the limit is the memory: the rate of a copy of the same
 * bytes. */
#include "compiled.cuh"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

/* The text of the kernel; cuda_text.h says what comes before it. A thread computes UNROLL vectors, then, if the tile
 * does not end with a whole vector or is not aligned, single elements. */
static const char map_text[] = R"(
extern "C" __global__ void __launch_bounds__(BLOCK) map(const arguments a) {
    const INDEX block = (INDEX)blockIdx.y * gridDim.x + blockIdx.x, threads = (INDEX)gridDim.x * gridDim.y * BLOCK;
    const INDEX vectors = a.aligned ? (INDEX)a.count / N : 0, first = block * (BLOCK * UNROLL) + threadIdx.x;
    loaded in[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
        if (first + u * BLOCK < vectors) load(a, first + u * BLOCK, in[u]);
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        const INDEX k = first + u * BLOCK;
        if (k >= vectors) continue;
        VALUE x[N];
        vector<STORED, N> result;
        values(a, k, in[u], x);
#pragma unroll
        for (int j = 0; j < N; j++) result.of[j] = stored(x[j]);
        store_once((vector<STORED, N> *)a.y + k, result);
    }
    for (INDEX e = vectors * N + block * BLOCK + threadIdx.x; e < (INDEX)a.count; e += threads)
        ((STORED *)a.y)[e] = stored(value(a, e));
}
)";

#define KERNELS 256 /* the largest number of kernels; they are kept to the end of the process */

/* A kernel that was compiled, and what it was compiled for. */
struct compiled_kernel {
    char *expression;
    int capability;
    struct map_form form;
    struct loaded_kernel loaded;
};

static std::mutex kernels_mutex; /* guards `kernels` and `compiled_count` */
static compiled_kernel kernels[KERNELS];
static int compiled_count;

const char *map_missing() {
    return map_compiler ? map_compiler->missing() : "a compiler at run time";
}

/* Writes, compiles and loads a kernel, and fills *kernel. Returns 0 or a cudaError_t. */
static int compile(const struct map_args *args, const struct map_form *form, const char *constants,
                   const char *kernel_text, int capability, compiled_kernel *kernel) {
    struct error error = {};
    auto *program = static_cast<struct map_program *>(malloc(sizeof(struct map_program)));
    char *text = NULL, *expression = strdup(args->map->text);
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed; /* a capture of the launch must not forbid loading */
    bool good = program && expression && map_compiler && !map_program(args->map, args->dtypes, program, &error);
    if (good) text = map_cuda_text(program, args, form, constants, kernel_text);
    cudaThreadExchangeStreamCaptureMode(&mode);
    good = good && text && !map_compiler->compile(text, capability, &kernel->loaded, &error);
    cudaThreadExchangeStreamCaptureMode(&mode);
    free(program);
    free(text);
    if (!good) {
        free(expression);
        return cudaErrorInvalidSource;
    }
    kernel->expression = expression;
    kernel->capability = capability;
    kernel->form = *form;
    return 0;
}

/* Was the kernel compiled for this expression, form and compute capability? */
static bool serves(const compiled_kernel *kernel, const struct map_args *args, const struct map_form *form,
                   int capability) {
    return kernel->capability == capability && memcmp(&kernel->form, form, sizeof *form) == 0 &&
           strcmp(kernel->expression, args->map->text) == 0;
}

int map_kernel(const struct map_args *args, const struct map_form *form, const char *constants, const char *kernel_text,
               const struct loaded_kernel **found) {
    int device, major, minor;
    cudaError_t code = cudaGetDevice(&device);
    if (!code) code = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (!code) code = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    if (code) return code;
    const int capability = 10 * major + minor;
    kernels_mutex.lock();
    int number = 0, failed = 0;
    while (number < compiled_count && !serves(&kernels[number], args, form, capability)) number++;
    if (number == KERNELS) failed = cudaErrorMemoryAllocation;
    if (!failed && number == compiled_count)
        failed = compile(args, form, constants, kernel_text, capability, &kernels[number]);
    if (!failed && number == compiled_count) compiled_count++;
    kernels_mutex.unlock();
    *found = failed ? NULL : &kernels[number].loaded;
    return failed;
}

/* kernel->launch: starts the kernel that is compiled for this expression, after compiling it if there is none. */
static int map_compiled_launch(const struct launch *launch) {
    const struct map_args *args = &launch->args.map;
    struct map_form form = map_form(args, /* max_elements */ 16);
    struct map_kernel_args values = map_kernel_args(args);
    const struct loaded_kernel *kernel = NULL;
    const int inputs = args->map->inputs;
    char constants[256];
    form.unroll = inputs == 1 ? 4 : inputs <= 3 ? 2 : 1; /* 4 to 8 loads of a thread are in flight */
    if (values.count == 0) return 0;
    snprintf(constants, sizeof constants,
             "typedef %s STORED;\nconstexpr int UNROLL = %d;\n"
             "__device__ inline STORED stored(VALUE x) { return %s(x); }\n",
             map_memory_type(args->out), form.unroll, map_storing(args->out));
    const int failed = map_kernel(args, &form, constants, map_text, &kernel);
    if (failed) return failed;
    const dim3 grid = grid_of(ceil_div(values.count, int64_t(MAP_BLOCK) * form.unroll * form.elements));
    const unsigned blocks[3] = {grid.x, grid.y, 1}, threads[3] = {MAP_BLOCK, 1, 1};
    void *arguments[] = {&values};
    return loaded_launch(kernel, blocks, threads, 0, launch->stream, arguments);
}

KERNEL(map_compiled) = {
    .name = "compiled",
    .op = OP_MAP,
    .device = DEVICE_CUDA,
    .summary = "computes the expression by a kernel of its own, which is compiled at run time",
    .dtypes = DTYPES_ALL,
    .edges = {{16, 1024, 2048, 4096, 8192, 16384}},
    .accuracy = ACCURACY_FULL,
    .near_roof = true,
    .divisible = true,
    .compute_capability = 80,
    .missing = map_missing,
    .launch = map_compiled_launch,
};
