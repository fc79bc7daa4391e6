/* limits_measure.c - measures the roofs of a device with the variants that `auto` chooses, with the same functions as
 * jobs: a copy and a sum within the cache and beyond it, and one product of each type. */
#include "limits_measure.h"
#include "../../kernels/map/before.h"

#include "../base/clock.h"
#include "../base/fail.h"
#include "../base/interrupt.h"
#include "../base/workers.h"
#include "../stream/measure.h"
#include <math.h>
#include <string.h>

#define CHUNK_BYTES   (INT64_C(8) << 20) /* of random bytes, which are repeated to fill the operands */
#define SHARE         8                  /* operands take at most 1/SHARE of the free memory */
#define COPIES        6                  /* copies of a chunk in one sample of the bus */
#define MAX_BYTES     0x1p30             /* most bytes of a case's operands, even if the cache is larger */
#define MIN_BEYOND    1.5                /* operands of this many cache sizes count as beyond the cache */
#define PRODUCT_TURNS 3                  /* most sizes of a product that are timed */
#define SPARE_BYTES   256                /* so that no buffer is empty */

/* Sizes and times that differ between CPUs and GPUs. */
static const struct effort {
    int64_t cached;       /* rows of the matrices that fit into the cache */
    int64_t extra_rows;   /* added to rows of products, because powers of two are the cache's worst case */
    int64_t small, large; /* smallest and largest number of rows of products */
    /* Intended bytes of the operands of a case beyond the cache, in sizes of the cache. On a GPU 3 would leave a tenth
     * of the time to launch overhead. */
    double cache_sizes;
    double warm_s;   /* duration of the warm-up */
    double target_s; /* intended time of a product */
} efforts[2] = {
    [DEVICE_CPU] = {.cached = 720, .extra_rows = 8, .small = 64, .large = 2048, .cache_sizes = 3, .target_s = 20e-3},
    [DEVICE_CUDA] = {.cached = 1536, .small = 256, .large = 8192, .cache_sizes = 16, .warm_s = 0.1, .target_s = 1.5e-3},
};

struct buffer {
    void *memory;
    int64_t bytes;
};

struct bench {
    struct device *device;
    const struct effort *effort;
    struct device_limits *limits;
    void *chunk; /* host memory with CHUNK_BYTES random bytes */
    struct buffer in[MAX_INPUTS], out, partial, workspace;
};

/* ---- operands ---------------------------------------------------------------------------------------------------- */

/* Fills a chunk with bytes that are numbers of similar magnitude in any type. Floats lie between 2^-20 and 2, by their
 * top bytes: an exact sum over a wider range would take longer than it does for usual data. */
static void fill_chunk(unsigned char *chunk) {
    uint64_t state = 1;
    for (int64_t i = 0; i < CHUNK_BYTES; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        unsigned random = (unsigned)(state >> 56);
        chunk[i] = (unsigned char)(i % 2 ? 0x3e | (random & 0x81) : 0xc0 | (random & 0x3f));
    }
}

/* A buffer that is filled with copies of the chunk, by several threads. */
struct filling {
    char *to;
    const char *chunk;
    int64_t bytes;
};

static void fill_piece(void *context, int64_t item, int thread) {
    const struct filling *filling = context;
    int64_t at = item * CHUNK_BYTES, remaining = filling->bytes - at;
    (void)thread;
    memcpy(filling->to + at, filling->chunk, (size_t)(remaining < CHUNK_BYTES ? remaining : CHUNK_BYTES));
}

/* Makes a buffer at least `bytes` large: replaces one that is too small, and fills the new one with copies of the
 * chunk. */
static enum status provide_buffer(struct bench *bench, struct buffer *buffer, int64_t bytes, struct error *error) {
    struct device *device = bench->device;
    const struct device_operations *ops = device->operations;
    if (bytes <= buffer->bytes) return STATUS_OK;
    TRY(ops->synchronize(device, error));
    if (buffer->memory) ops->release(device, buffer->memory);
    *buffer = (struct buffer){NULL, 0};
    TRY(ops->allocate(device, bytes, &buffer->memory, error));
    buffer->bytes = bytes;
    if (device->unified) { /* several threads fill it, so that pages are spread over the NUMA nodes */
        struct filling filling = {buffer->memory, bench->chunk, bytes};
        workers_run((bytes + CHUNK_BYTES - 1) / CHUNK_BYTES, fill_piece, &filling);
        return STATUS_OK;
    }
    for (int64_t at = 0; at < bytes; at += CHUNK_BYTES) {
        int64_t size = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;
        struct copy copy = {(char *)buffer->memory + at, bench->chunk, size, 1, size, size};
        TRY(ops->copy(device, &copy, QUEUE_UPLOAD, error));
    }
    return ops->synchronize(device, error);
}

static void release_buffers(struct bench *bench) {
    struct buffer *all[] = {&bench->in[0], &bench->in[1], &bench->out, &bench->partial, &bench->workspace};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->memory) bench->device->operations->release(bench->device, all[i]->memory);
    if (bench->chunk) bench->device->operations->release_host(bench->device, bench->chunk);
}

/* ---- one case ---------------------------------------------------------------------------------------------------- */

/* A case to time: an operation on float32, or a product in any type. */
struct bench_case {
    enum op op;
    enum dtype dtype;
    enum accuracy accuracy;
};

/* The geometry of a case on matrices of `rows` x `rows`. */
static enum status case_geometry(const struct bench_case *one, int64_t rows, struct geometry *geometry,
                                 struct error *error) {
    struct op_options options = {.alpha = 1, .reduce = REDUCE_SUM, .axis = REDUCE_ALL_AXES};
    struct shape shapes[MAX_INPUTS];
    enum dtype dtypes[MAX_INPUTS];
    for (int i = 0; i < MAX_INPUTS; i++) shapes[i] = (struct shape){2, {rows, rows}}, dtypes[i] = one->dtype;
    return operations[one->op]->geometry(&options, shapes, dtypes, geometry, error);
}

/* Can the kernel do the case on this device, with the case's accuracy? Never true for a roof. */
static bool can_run(const struct bench *bench, const struct kernel *kernel, const struct bench_case *one) {
    const struct device_facts *facts = &bench->device->facts;
    return kernel->op == one->op && kernel->accuracy == one->accuracy && (kernel->dtypes & DTYPE_BIT(one->dtype)) &&
           !kernel->is_roof && !kernel_left_out(kernel) && kernel->device == facts->kind &&
           kernel->compute_capability <= facts->compute_capability &&
           (kernel->only_below == 0 || kernel->only_below > facts->compute_capability);
}

/* Sets the launch's kernel to the variant that predicts the shortest time, else to the last one that can run, and
 * returns it. NULL: no variant can run. */
static const struct kernel *choose_variant(const struct bench *bench, const struct bench_case *one,
                                           struct launch *launch) {
    const struct kernel *best = NULL;
    double shortest_s = INFINITY;
    for (int i = kernel_count - 1; i >= 0; i--) {
        const struct kernel *kernel = launch->kernel = kernel_registry[i];
        if (!can_run(bench, kernel, one)) continue;
        double seconds = kernel->seconds ? kernel->seconds(launch) : INFINITY;
        if (best && seconds >= shortest_s) continue; /* kernel_refusal comes last: it may load a library */
        if (kernel_refusal(kernel, launch)) continue;
        best = kernel;
        shortest_s = seconds;
    }
    launch->kernel = best;
    return best;
}

static int64_t operand_bytes(const struct operand *operand) {
    return shape_elements(&operand->shape) * (int64_t)dtype_size(operand->dtype);
}

/* Makes the launch of a case and its operands. STATUS_RUN: no variant can do the case. */
static enum status prepare_launch(struct bench *bench, const struct bench_case *one, const struct geometry *geometry,
                                  struct launch *launch, struct error *error) {
    struct tile tile = {{0}, {0}};
    const void *in[MAX_INPUTS] = {NULL};
    memcpy(tile.count, geometry->extent, sizeof tile.count);
    for (int i = 0; i < geometry->inputs; i++) {
        TRY(provide_buffer(bench, &bench->in[i], operand_bytes(&geometry->in[i]), error));
        in[i] = bench->in[i].memory;
    }
    TRY(provide_buffer(bench, &bench->out, operand_bytes(&geometry->out) + SPARE_BYTES, error));
    int64_t states = geometry->partial_always ? shape_elements(&geometry->out.shape) : 0;
    TRY(provide_buffer(bench, &bench->partial, states * (int64_t)geometry->partial_size + SPARE_BYTES, error));
    *launch = (struct launch){.workspace = NULL};
    operation_launch(geometry, &tile, true, true, in, states > 0 ? bench->partial.memory : NULL, bench->out.memory,
                     launch);
    launch->multiprocessors = bench->device->facts.multiprocessors;
    if (!choose_variant(bench, one, launch)) return fail(error, STATUS_RUN, "no variant can do this");
    int64_t workspace = (int64_t)kernel_workspace(launch->kernel, launch) + SPARE_BYTES;
    TRY(provide_buffer(bench, &bench->workspace, workspace, error));
    launch->workspace = bench->workspace.memory;
    return bench->device->operations->fill(bench->device, launch->workspace, 0, workspace, error);
}

/* Times a case on matrices of `rows` rows, `once` or as the minimum of two samples. *seconds is NaN if no variant can
 * do the case or if the run fails. Fails only with STATUS_DEVICE or STATUS_INTERRUPTED. */
static enum status time_case(struct bench *bench, const struct bench_case *one, int64_t rows, bool once,
                             double *seconds, struct error *error) {
    struct geometry geometry;
    struct launch launch = {.kernel = NULL};
    struct run_options options = {.repeat_min = once ? 1 : 2, .repeat_max = once ? 1 : 2};
    *seconds = NAN;
    TRY(interrupt_check(error));
    enum status status = case_geometry(one, rows, &geometry, error);
    if (!status) status = prepare_launch(bench, one, &geometry, &launch, error);
    struct measurement measurement = {.kernel = launch.kernel,
                                      .on = {{.device = bench->device, .launch = &launch}},
                                      .devices = 1,
                                      .options = &options};
    if (!status) status = measure_kernels(&measurement, 1, NULL, error);
    if (!status && !measurement.status) *seconds = samples_statistics(&measurement.samples).min;
    samples_free(&measurement.samples);
    if (status == STATUS_DEVICE && launch.kernel) {
        struct error failure = *error;
        *error = (struct error){.status = STATUS_OK};
        return fail(error, status, "measuring variant '%s' of %s: %.900s", launch.kernel->name,
                    operations[one->op]->name, failure.text);
    }
    if (status == STATUS_DEVICE || status == STATUS_INTERRUPTED) return status;
    *error = (struct error){.status = STATUS_OK};
    return STATUS_OK;
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static const struct bench_case copy_case = {OP_SCALE, FLOAT32, ACCURACY_FULL};
static const struct bench_case read_case = {OP_REDUCE, FLOAT32, ACCURACY_FULL};

/* Keeps the device busy for a while: a GPU's clock takes tens of milliseconds to rise. */
static enum status warm_up(struct bench *bench, struct error *error) {
    double seconds = 0, until = now_s() + bench->effort->warm_s;
    while (now_s() < until && !isnan(seconds))
        TRY(time_case(bench, &copy_case, bench->effort->cached, false, &seconds, error));
    return STATUS_OK;
}

/* Measures the rate of copies in one direction: the fastest of three samples. */
static enum status time_copies(struct bench *bench, enum queue queue, double *bytes_per_s, struct error *error) {
    struct device *device = bench->device;
    const struct device_operations *ops = device->operations;
    bool up = queue == QUEUE_UPLOAD;
    double best = INFINITY;
    struct copy copy = {up ? bench->in[0].memory : bench->chunk,
                        up ? bench->chunk : bench->in[0].memory,
                        CHUNK_BYTES,
                        1,
                        CHUNK_BYTES,
                        CHUNK_BYTES};
    for (int sample = 0; sample < 3; sample++) {
        double begin = now_s();
        for (int i = 0; i < COPIES; i++) TRY(ops->copy(device, &copy, queue, error));
        TRY(ops->synchronize(device, error));
        best = fmin(best, now_s() - begin);
    }
    *bytes_per_s = COPIES * (double)CHUNK_BYTES / best;
    return STATUS_OK;
}

/* Measures copies to and from a device with memory of its own. */
static enum status measure_bus(struct bench *bench, struct error *error) {
    if (bench->device->unified) return STATUS_OK;
    TRY(provide_buffer(bench, &bench->in[0], CHUNK_BYTES, error));
    TRY(time_copies(bench, QUEUE_UPLOAD, &bench->limits->upload_bytes_per_s, error));
    return time_copies(bench, QUEUE_DOWNLOAD, &bench->limits->download_bytes_per_s, error);
}

/* Measures the rate of a copy or a sum within the cache, and raises the memory's rate to that beyond the cache, if
 * operands may be large enough for it. */
static enum status measure_memory(struct bench *bench, const struct bench_case *one, double *cached,
                                  struct error *error) {
    const struct device_facts *facts = &bench->device->facts;
    const int64_t thousand = 1000;
    double cache = (double)facts->cache_bytes, seconds;
    double max_bytes = fmin(MAX_BYTES, (double)facts->memory_free / SHARE);
    double bytes = fmin(max_bytes, bench->effort->cache_sizes * cache);
    struct geometry geometry;
    TRY(case_geometry(one, bench->effort->cached, &geometry, error));
    TRY(time_case(bench, one, bench->effort->cached, false, &seconds, error));
    *cached = geometry.bytes / seconds;
    if (bytes < MIN_BEYOND * cache) return STATUS_OK;
    TRY(case_geometry(one, thousand, &geometry, error));
    int64_t rows = (int64_t)((double)thousand * sqrt(bytes / geometry.bytes));
    TRY(case_geometry(one, rows, &geometry, error));
    TRY(time_case(bench, one, rows, bench->device->unified, &seconds, error));
    bench->limits->memory_bytes_per_s = fmax(bench->limits->memory_bytes_per_s, geometry.bytes / seconds);
    return STATUS_OK;
}

/* Measures a type of product at growing sizes, up to the one that takes target_s. Its roof is the best rate. */
static enum status measure_product(struct bench *bench, int product, struct error *error) {
    const struct effort *effort = bench->effort;
    const bool tf32 = product == LIMITS_TF32;
    const struct bench_case one = {OP_MATMUL, tf32 ? FLOAT32 : (enum dtype)product,
                                   tf32 ? ACCURACY_TF32 : ACCURACY_FULL};
    double *roof = &bench->limits->flops_per_s[product], seconds;
    int64_t rows = effort->small;
    for (int turn = 0; turn < PRODUCT_TURNS; turn++) {
        TRY(time_case(bench, &one, rows, false, &seconds, error));
        if (isnan(seconds)) return STATUS_OK;
        *roof = fmax(*roof, 2 * pow((double)rows, 3) / seconds); /* fmax skips NaN */
        double next = fmin((double)effort->large, (double)rows * cbrt(effort->target_s / seconds));
        if (next < 1.5 * (double)rows) return STATUS_OK;
        rows = (int64_t)(next / 64) * 64 + effort->extra_rows;
    }
    return STATUS_OK;
}

/* Measures all limits: the launch first, then bus, products and memory on a warm device. */
static enum status measure_all(struct bench *bench, struct error *error) {
    struct device_limits *limits = bench->limits;
    TRY(time_case(bench, &copy_case, 1, false, &limits->launch_s, error));
    TRY(measure_bus(bench, error));
    TRY(warm_up(bench, error));
    for (int product = 0; product < LIMITS_PRODUCTS; product++)
        if (product == LIMITS_TF32 || dtype_is_float((enum dtype)product)) TRY(measure_product(bench, product, error));
    TRY(measure_memory(bench, &copy_case, &limits->cached_copy_bytes_per_s, error));
    return measure_memory(bench, &read_case, &limits->cached_read_bytes_per_s, error);
}

static struct sample_conditions unknown_conditions(struct device *device) {
    (void)device;
    return CONDITIONS_UNKNOWN;
}

enum status limits_measure(int cuda_number, struct device_limits **limits, struct error *error) {
    struct device *device = NULL;
    *limits = NULL;
    TRY(cuda_number < 0 ? device_cpu_open(&device, error) : device_cuda_open(cuda_number, &device, error));
    device->conditions = unknown_conditions; /* NVML would take longer than most samples */
    struct bench bench = {.device = device, .effort = &efforts[device->facts.kind], .limits = limits_create()};
    bench.limits->cache_bytes = (double)device->facts.cache_bytes;
    enum status status = device->operations->allocate_host(device, CHUNK_BYTES, &bench.chunk, error);
    if (!status) fill_chunk(bench.chunk);
    if (!status) status = measure_all(&bench, error);
    device->operations->synchronize(device, status ? IGNORED : error);
    release_buffers(&bench);
    device->operations->close(device);
    time_text(bench.limits->measured);
    if (status == STATUS_MEMORY) status = error->status = STATUS_DEVICE;
    if (status) {
        limits_free(bench.limits);
        return status;
    }
    *limits = bench.limits;
    return STATUS_OK;
}
