/* limits_measure.c - measures a device by running the registered variants on it, with the same functions as jobs.
 *
 * Each operation runs on square matrices of each type, with each of its operators; this is a case. A variant whose
 * speed counts in bytes is timed on arrays that fit into the cache; for exact operations, and for the first operator in
 * float32, also on arrays beyond the cache. A variant whose speed counts in flops is timed at a small size, and at the
 * size that takes target_s. The roofs are the best rates among these.
 *
 * A GPU has hundreds of cases, and the time suffices for most of them: the variants that `auto` prefers come first, and
 * floats come before other types. */
#include "limits_measure.h"

#include "../base/clock.h"
#include "../base/fail.h"
#include "../base/interrupt.h"
#include "../base/workers.h"
#include "../stream/measure.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FLOATS        4                  /* number of floats, which come first in `types` */
#define TYPES         8                  /* number of types that limits_dtype returns */
#define CHUNK_BYTES   (INT64_C(8) << 20) /* of random bytes, which are repeated to fill the operands */
#define SHARE         8                  /* operands take at most 1/SHARE of the free memory */
#define COPIES        6                  /* copies of a chunk in one sample of the bus */
#define LARGEST_BYTES 0x1p30             /* operands of a case, at most; larger caches are never exceeded */
#define BEYOND_LEAST  1.5                /* operands of this many cache sizes count as beyond the cache */
#define ROOF_SECONDS  0.2                /* time limit for the start of the case that only shows the memory's rate */
#define LONG_S        15e-3              /* a launch that takes longer is timed once, without warm-up */
#define OVERHEAD      10.0               /* overhead is negligible in launches that take this many times an empty one */

static const enum dtype types[TYPES] = {FLOAT32, FLOAT64, FLOAT16, BFLOAT16, INT32, INT64, INT16, INT8};

/* Sizes and times that differ between CPUs and GPUs. */
static const struct effort {
    int64_t matrix[2];       /* rows of the matrices for byte rates, which fit into the cache */
    int64_t beside;          /* added to rows, because powers of two are the cache's worst case */
    int64_t small, large;    /* least and largest number of rows of the matrices for flop rates */
    double beyond;           /* intended size of operands beyond the cache, in cache sizes */
    double warm_s;           /* duration of the warm-up */
    double target_s, most_s; /* intended and longest time of one launch */
} efforts[2] = {
    [DEVICE_CPU] = {{136, 520}, 8, 64, 2048, 3, 0, 20e-3, 12e-3},
    [DEVICE_CUDA] =
        {{256, 1536}, 0, 256, 8192, 16, 0.1, 1.5e-3, 10e-3}, /* at 3 caches launch overhead is a tenth of the time */
};

struct buffer {
    void *memory;
    int64_t bytes;
};

struct bench {
    struct device *device;
    const struct effort *effort;
    struct device_limits *limits;
    double until;     /* end of the measurement, as time of now_s() */
    void *chunk;      /* host memory with CHUNK_BYTES random bytes */
    bool beyond;      /* a case was measured with operands beyond the cache */
    bool roof_wanted; /* one must be measured, however long it takes */
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

struct filling {
    char *to;
    const char *chunk;
    int64_t bytes;
};

static void fill_piece(void *context, int64_t item, int thread) {
    const struct filling *filling = context;
    int64_t at = item * CHUNK_BYTES, left = filling->bytes - at;
    (void)thread;
    memcpy(filling->to + at, filling->chunk, (size_t)(left < CHUNK_BYTES ? left : CHUNK_BYTES));
}

/* Makes a buffer at least `bytes` large; fills it if it is new. */
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
        TRY(ops->upload(device, &copy, error));
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

struct bench_case {
    const struct kernel *kernel;
    enum dtype dtype;
    int operator_;
};

/* The geometry of a case on matrices of `rows` x `rows`. false: the case does not exist. */
static bool case_geometry(const struct bench_case *one, int64_t rows, struct geometry *geometry) {
    struct op_options options = {.alpha = 1, .reduce = (enum reduce_operator)one->operator_, .axis = REDUCE_ALL_AXES};
    struct shape shapes[MAX_INPUTS];
    enum dtype dtypes[MAX_INPUTS];
    struct error ignored = {.status = STATUS_OK};
    for (int i = 0; i < MAX_INPUTS; i++) shapes[i] = (struct shape){2, {rows, rows}}, dtypes[i] = one->dtype;
    if (operations[one->kernel->op]->geometry(&options, shapes, dtypes, geometry, &ignored)) return false;
    return kernel_has_operator(one->kernel, &options);
}

static int64_t operand_bytes(const struct operand *operand) {
    return shape_elements(&operand->shape) * (int64_t)dtype_size(operand->dtype);
}

/* Makes the launch of a case and its operands. STATUS_RUN: the variant refuses it. */
static enum status prepare_launch(struct bench *bench, const struct bench_case *one, const struct geometry *geometry,
                                  struct launch *launch, struct error *error) {
    struct tile tile = {{0}, {0}};
    const void *in[MAX_INPUTS] = {NULL};
    memcpy(tile.count, geometry->extent, sizeof tile.count);
    for (int i = 0; i < geometry->inputs; i++) {
        TRY(provide_buffer(bench, &bench->in[i], operand_bytes(&geometry->in[i]), error));
        in[i] = bench->in[i].memory;
    }
    TRY(provide_buffer(bench, &bench->out, operand_bytes(&geometry->out) + 256, error));
    int64_t states = geometry->partial_always ? shape_elements(&geometry->out.shape) : 0;
    TRY(provide_buffer(bench, &bench->partial, states * (int64_t)geometry->partial_size + 256, error));
    *launch = (struct launch){.workspace = NULL};
    operations[geometry->op]->launch(geometry, &tile, true, true, in, states > 0 ? bench->partial.memory : NULL,
                                     bench->out.memory, launch);
    launch->multiprocessors = bench->device->facts.multiprocessors;
    const char *refusal = kernel_refusal(one->kernel, launch);
    if (refusal) return fail(error, STATUS_RUN, "%s", refusal);
    int64_t workspace = (int64_t)kernel_workspace(one->kernel, launch) + 256;
    TRY(provide_buffer(bench, &bench->workspace, workspace, error));
    launch->workspace = bench->workspace.memory;
    return bench->device->operations->zero(bench->device, launch->workspace, workspace, error);
}

/* Times a case on matrices of `rows` rows, `once` or as the minimum of a few samples. STATUS_RUN: it cannot be
 * timed. */
static enum status time_case(struct bench *bench, const struct bench_case *one, int64_t rows, bool once, double *work,
                             double *seconds, struct error *error) {
    struct geometry geometry;
    struct launch launch;
    if (!case_geometry(one, rows, &geometry)) return fail(error, STATUS_RUN, "there is no such case");
    TRY(prepare_launch(bench, one, &geometry, &launch, error));
    struct run_options options = {.repeat_min = once ? 1 : 2, .repeat_max = once ? 1 : 2};
    struct measurement measurement = {
        .kernel = one->kernel, .on = {{bench->device, &launch}}, .devices = 1, .options = &options};
    TRY(measure_kernels(&measurement, 1, NULL, error));
    if (measurement.status) return fail(error, measurement.status, "%s", measurement.error.text);
    *seconds = samples_statistics(&measurement.samples).min;
    *work = limits_work(&geometry);
    samples_free(&measurement.samples);
    return STATUS_OK;
}

/* Must a failure end the measurement? If only the variant has failed, or memory was short, clears the error. */
static bool is_fatal(struct error *error) {
    bool is = error->status == STATUS_INTERRUPTED || error->status == STATUS_DEVICE;
    if (!is) *error = (struct error){.status = STATUS_OK};
    return is;
}

/* The size at which a case is timed next; 0: no more. `rows` and `seconds` are those of the previous turn. */
static int64_t next_rows(const struct bench *bench, const struct bench_case *one, int turn, int64_t rows,
                         double seconds) {
    const struct effort *effort = bench->effort;
    if (operations[one->kernel->op]->rate != RATE_FLOPS) {
        bool overhead = seconds < OVERHEAD * bench->limits->launch_s;
        return turn == 0 ? effort->matrix[0] : turn == 1 && overhead ? effort->matrix[1] : 0;
    }
    if (turn == 0) return effort->small;
    double next = fmin((double)effort->large, (double)rows * cbrt(effort->target_s / seconds));
    return next < 1.5 * (double)rows ? 0 : (int64_t)(next / 64) * 64 + effort->beside;
}

/* A size beyond the cache for a case that took `seconds` for `work` bytes; 0: it would take too much time or memory. */
static int64_t rows_beyond(const struct bench *bench, const struct bench_case *one, double work, double seconds) {
    const struct device_facts *facts = &bench->device->facts;
    const int64_t thousand = 1000;
    double cache = (double)facts->cache_bytes, least = BEYOND_LEAST * cache;
    double room = fmin(LARGEST_BYTES, (double)facts->memory_free / SHARE);
    struct geometry geometry;
    if (work > cache || !case_geometry(one, thousand, &geometry)) return 0;
    double most = fmin(room, fmin(bench->effort->beyond * cache, work * bench->effort->most_s / seconds));
    if (bench->roof_wanted) most = fmin(room, 1.01 * least);
    return most < least ? 0 : (int64_t)((double)thousand * sqrt(most / geometry.bytes));
}

/* Times a case and adds the point to its rate. */
static enum status add_point(struct bench *bench, const struct bench_case *one, int64_t rows, bool once,
                             double *seconds, struct error *error) {
    double work = NAN;
    enum status status = time_case(bench, one, rows, once, &work, seconds, error);
    if (status && !is_fatal(error)) return STATUS_OK;
    if (status == STATUS_DEVICE) {
        struct error failure = *error;
        *error = (struct error){.status = STATUS_OK};
        return fail(error, status, "measuring variant '%s' of %s: %.900s", one->kernel->name,
                    operations[one->kernel->op]->name, failure.text);
    }
    if (status) return status;
    limits_add_point(bench->limits, one->kernel, one->dtype, one->operator_, work, *seconds);
    return STATUS_OK;
}

static enum status measure_case(struct bench *bench, const struct bench_case *one, struct error *error) {
    int64_t rows = 0;
    double seconds = 0;
    for (int turn = 0; turn < RATE_POINTS && now_s() < bench->until; turn++) {
        rows = next_rows(bench, one, turn, rows, seconds);
        seconds = NAN;
        if (rows > 0) TRY(add_point(bench, one, rows, false, &seconds, error));
        if (isnan(seconds)) break;
    }
    return STATUS_OK;
}

/* Times a case beyond the cache. There variants differ mostly in how they move elements, so types other than float32
 * are skipped for operations that compute. */
static enum status measure_beyond(struct bench *bench, const struct bench_case *one, struct error *error) {
    const struct operation *operation = operations[one->kernel->op];
    if (operation->rate == RATE_FLOPS || (!operation->exact && one->dtype != FLOAT32)) return STATUS_OK;
    const struct kernel_rate *rate = limits_rate(bench->limits, one->kernel, one->dtype, one->operator_);
    if (!rate || rate->count == RATE_POINTS || now_s() > bench->until) return STATUS_OK;
    double work = rate->work[rate->count - 1], seconds = rate->seconds[rate->count - 1];
    int64_t rows = rows_beyond(bench, one, work, seconds);
    bool slow = seconds / work * bench->effort->beyond * (double)bench->device->facts.cache_bytes > LONG_S;
    seconds = NAN;
    if (rows > 0) TRY(add_point(bench, one, rows, slow, &seconds, error));
    bench->beyond = bench->beyond || !isnan(seconds);
    bench->roof_wanted = bench->roof_wanted && !bench->beyond;
    return STATUS_OK;
}

/* ---- all cases --------------------------------------------------------------------------------------------------- */

static bool fits_device(const struct bench *bench, const struct kernel *kernel) {
    const struct device_facts *facts = &bench->device->facts;
    return !kernel_left_out(kernel) && kernel->device == facts->kind &&
           kernel->compute_capability <= facts->compute_capability &&
           (kernel->only_below == 0 || kernel->only_below > facts->compute_capability);
}

/* The number of variants for this device that come after it in its operation's ladder. */
static int rank_of(const struct bench *bench, int number) {
    int rank = 0;
    for (int i = number + 1; i < kernel_count; i++)
        rank += kernel_registry[i]->op == kernel_registry[number]->op && fits_device(bench, kernel_registry[i]);
    return rank;
}

/* Which cases of a variant to measure: with its first operator, the same beyond the cache, or with all other
 * operators. */
enum part { FIRST, FIRST_BEYOND, OTHERS };

/* Measures a part of a variant's cases with one type. */
static enum status measure_variant(struct bench *bench, const struct kernel *kernel, enum dtype dtype, enum part part,
                                   struct error *error) {
    const struct operation *operation = operations[kernel->op];
    bool seen = false;
    for (int o = 0; o == 0 || (operation->operators && operation->operators[o]); o++) {
        const struct bench_case one = {kernel, dtype, o};
        struct geometry geometry;
        if (!case_geometry(&one, 1, &geometry)) continue;
        TRY(interrupt_check(error));
        if (now_s() > bench->until) return STATUS_OK;
        if (part == FIRST) return measure_case(bench, &one, error);
        if (part == FIRST_BEYOND) return measure_beyond(bench, &one, error);
        if (seen) TRY(measure_case(bench, &one, error));
        seen = true;
    }
    return STATUS_OK;
}

/* The index of a type among the types that are measured for a variant; -1: it is not measured. */
static int type_number(const struct kernel *kernel, int type) {
    int number = 0;
    for (int t = 0; t <= type; t++) {
        bool has = (kernel->dtypes & DTYPE_BIT(types[t])) && limits_dtype(operations[kernel->op], types[t]) == types[t];
        if (t == type) return has ? number : -1;
        number += has;
    }
    return -1;
}

/* Measures a part of the cases of all variants, for the types with indices from types_from to below types_to. Variants
 * that `auto` prefers come first, and so do floats: cases are ordered by the sum of rank and type index. */
static enum status measure_part(struct bench *bench, enum part part, int types_from, int types_to,
                                struct error *error) {
    for (int turn = 0; turn < kernel_count + TYPES; turn++)
        for (int i = 0; i < kernel_count; i++)
            for (int type = 0; type < TYPES && fits_device(bench, kernel_registry[i]); type++) {
                int number = type_number(kernel_registry[i], type);
                if (number < types_from || number >= types_to || rank_of(bench, i) + number != turn) continue;
                TRY(measure_variant(bench, kernel_registry[i], types[type], part, error));
            }
    return STATUS_OK;
}

/* Keeps the device busy for a while: a GPU's clock takes tens of milliseconds to rise. */
static enum status warm_up(struct bench *bench, struct error *error) {
    double work, seconds, until = now_s() + bench->effort->warm_s;
    for (int i = kernel_count - 1; i >= 0; i--) {
        const struct bench_case one = {kernel_registry[i], FLOAT32, 0};
        if (!fits_device(bench, one.kernel)) continue;
        while (now_s() < until && !time_case(bench, &one, bench->effort->matrix[1], false, &work, &seconds, error)) {
        }
        if (is_fatal(error)) return error->status;
    }
    return STATUS_OK;
}

/* Measures one variant beyond the cache, without a time limit. Needed if the cache is so large (480 MiB) that no case
 * has exceeded it within its time. */
static enum status measure_roof(struct bench *bench, struct error *error) {
    bench->roof_wanted = true;
    bench->until = now_s() + ROOF_SECONDS;
    return measure_part(bench, FIRST_BEYOND, 0, 1, error);
}

/* Measures one case of each variant before others, and the other floats, whose roofs are wanted, before the
 * operators. */
static enum status measure_all(struct bench *bench, struct error *error) {
    TRY(measure_part(bench, FIRST, 0, 1, error));
    TRY(measure_part(bench, FIRST_BEYOND, 0, 1, error));
    TRY(measure_part(bench, FIRST, 1, FLOATS, error));
    TRY(measure_part(bench, OTHERS, 0, 1, error));
    TRY(measure_part(bench, FIRST, FLOATS, TYPES, error));
    TRY(measure_part(bench, OTHERS, 1, TYPES, error));
    TRY(measure_part(bench, FIRST_BEYOND, 1, TYPES, error));
    return bench->beyond ? STATUS_OK : measure_roof(bench, error);
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

/* Measures the time of an almost empty launch of the variant that `auto` would choose. */
static enum status measure_launch(struct bench *bench, struct error *error) {
    double work, seconds;
    for (int i = kernel_count - 1; i >= 0 && isnan(bench->limits->launch_s); i--) {
        const struct bench_case one = {kernel_registry[i], FLOAT32, 0};
        if (!fits_device(bench, one.kernel)) continue;
        if (!time_case(bench, &one, 1, false, &work, &seconds, error))
            bench->limits->launch_s = seconds;
        else if (is_fatal(error))
            return error->status;
    }
    return STATUS_OK;
}

/* Measures the rate of copies in one direction. */
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
        for (int i = 0; i < COPIES; i++) TRY((up ? ops->upload : ops->download)(device, &copy, error));
        TRY(ops->synchronize(device, error));
        best = fmin(best, now_s() - begin);
    }
    *bytes_per_s = COPIES * (double)CHUNK_BYTES / best;
    return STATUS_OK;
}

static enum status measure_bus(struct bench *bench, struct error *error) {
    if (bench->device->unified) return STATUS_OK;
    TRY(provide_buffer(bench, &bench->in[0], CHUNK_BYTES, error));
    TRY(time_copies(bench, QUEUE_UPLOAD, &bench->limits->upload_bytes_per_s, error));
    return time_copies(bench, QUEUE_DOWNLOAD, &bench->limits->download_bytes_per_s, error);
}

static double known_max(double a, double b) {
    return isnan(a) || b > a ? b : a;
}

/* Sets the roofs to the best rate of any variant: for memory beyond the cache, for flops by variants of full
 * accuracy. */
static void find_roofs(struct device_limits *limits) {
    for (int i = 0; i < limits->count; i++) {
        const struct kernel_rate *rate = &limits->rates[i];
        bool by_flops = operations[rate->kernel->op]->rate == RATE_FLOPS;
        if (by_flops && (rate->kernel->accuracy != ACCURACY_FULL || rate->kernel->is_roof)) continue;
        for (int p = 0; p < rate->count; p++) {
            double speed = rate->work[p] / rate->seconds[p];
            if (by_flops)
                limits->flops_per_s[rate->dtype] = known_max(limits->flops_per_s[rate->dtype], speed);
            else if (rate->work[p] > 0.9 * BEYOND_LEAST * limits->cache_bytes)
                limits->memory_bytes_per_s = known_max(limits->memory_bytes_per_s, speed);
        }
    }
}

static struct conditions unknown_conditions(struct device *device) {
    (void)device;
    return CONDITIONS_UNKNOWN;
}

enum status limits_measure(int cuda_number, struct device_limits **limits, struct error *error) {
    struct device *device = NULL;
    *limits = NULL;
    double begin = now_s();
    TRY(cuda_number < 0 ? device_cpu_open(&device, error) : device_cuda_open(cuda_number, &device, error));
    device->conditions = unknown_conditions; /* NVML would take longer than most samples */
    struct bench bench = {.device = device,
                          .effort = &efforts[device->facts.kind],
                          .limits = limits_create(),
                          .until = begin + LIMITS_SECONDS};
    bench.limits->cache_bytes = (double)device->facts.cache_bytes;
    enum status status = device->operations->allocate_host(device, CHUNK_BYTES, &bench.chunk, error);
    if (!status) fill_chunk(bench.chunk);
    if (!status) status = measure_launch(&bench, error);
    if (!status) status = measure_bus(&bench, error);
    if (!status) status = warm_up(&bench, error);
    if (!status) status = measure_all(&bench, error);
    struct error ignored = {.status = STATUS_OK};
    device->operations->synchronize(device, status ? &ignored : error);
    release_buffers(&bench);
    device->operations->close(device);
    find_roofs(bench.limits);
    time_text(bench.limits->measured);
    if (status == STATUS_MEMORY) status = error->status = STATUS_DEVICE;
    if (status) {
        limits_free(bench.limits);
        return status;
    }
    *limits = bench.limits;
    return STATUS_OK;
}
