/* cublas.cu - the vendor's library as a baseline: cuBLASLt, opened at run time, so that neither the build nor a
 * machine without it needs it.
 *
 * The library gets its best algorithm. It proposes algorithms for a problem, best guess first; the first launch of a
 * problem times the first CANDIDATES of them (if the run is not timed, ONCE) on the job's own data, in turns and for
 * TRIAL_MS each, long ones also for LASTING_MS at a stretch, and later launches take the fastest. The library gets up
 * to 64 MiB of workspace (but at most eight times the bytes of the operands, so that a small memory budget is
 * respected) and computes in the type's own arithmetic: float32 is never TF32, whatever NVIDIA_TF32_OVERRIDE says; sums
 * are in float32, for float64 in float64.
 *
 * The library stores matrices column by column: a row-major C is its transpose C' = B' A', so the operands change
 * places and nothing moves in memory.
 *
 * The library's handles and the chosen algorithms outlive a launch: one static object holds them, guarded by its mutex
 * and never freed. */
#include "../../core/cublas.cuh"
#include "../../core/trial.cuh"
#include "../matmul.cuh"
#include "recent.cuh"

#include <cublasLt.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#define CANDIDATES 100 /* proposals that are tried for a timed run: as a baseline it must be the library's best */
#define ONCE       12  /* proposals that are tried for a run that is not timed */
#define ROUNDS     5
#define TRIAL_MS   3.0f /* of one candidate in one round; less than a launch: one launch */
#define LONG_MS    5.0f /* candidates that take longer... */
#define LASTING_MS 300  /* ...are also timed at a stretch of this length */
#define WORKSPACE  (size_t(64) << 20)

/* cuBLASLt: its functions, its handles, and the algorithms chosen so far. */
struct lt_library {
    decltype(&cublasLtCreate) create;
    decltype(&cublasLtMatmul) matmul;
    decltype(&cublasLtMatmulAlgoGetHeuristic) propose;
    decltype(&cublasLtMatmulDescInit_internal) describe;
    decltype(&cublasLtMatmulDescSetAttribute) describe_set;
    decltype(&cublasLtMatrixLayoutInit_internal) layout;
    decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
    decltype(&cublasLtMatmulPreferenceInit_internal) prefer;
    decltype(&cublasLtMatmulPreferenceSetAttribute) prefer_set;

    bool complete;  /* all of these were found */
    char name[512]; /* name, version and file; "": not open yet */
    pthread_mutex_t mutex;
    cublasLtHandle_t handles[CUBLAS_DEVICES];
    recent<cublasLtMatmulAlgo_t> chosen;
};

static struct lt_library one = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Opens cuBLASLt and finds its functions; lt_library.complete: all exist. */
static void library_load() {
    unsetenv("NVIDIA_TF32_OVERRIDE"); /* the library reads this variable when it starts */
    void *const file =
        cublas_open("libcublasLt.so." CUBLAS_MAJOR, "/usr/local/cuda/lib64/libcublasLt.so." CUBLAS_MAJOR);
    one.complete = cublas_find(file, "cublasLtCreate", one.create) && cublas_find(file, "cublasLtMatmul", one.matmul) &&
                   cublas_find(file, "cublasLtMatmulAlgoGetHeuristic", one.propose) &&
                   cublas_find(file, "cublasLtMatmulDescInit_internal", one.describe) &&
                   cublas_find(file, "cublasLtMatmulDescSetAttribute", one.describe_set) &&
                   cublas_find(file, "cublasLtMatrixLayoutInit_internal", one.layout) &&
                   cublas_find(file, "cublasLtMatrixLayoutSetAttribute", one.layout_set) &&
                   cublas_find(file, "cublasLtMatmulPreferenceInit_internal", one.prefer) &&
                   cublas_find(file, "cublasLtMatmulPreferenceSetAttribute", one.prefer_set);
    decltype(&cublasLtGetVersion) version;
    if (one.complete && cublas_find(file, "cublasLtGetVersion", version))
        cublas_name("cuBLASLt", version(), reinterpret_cast<const void *>(version), one.name);
}

static lt_library &library_open() {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, library_load);
    return one;
}

/* ---- one product, in the library's terms ------------------------------------------------------------------------- */

struct lt_product {
    cublasLtMatmulDescOpaque_t description;
    cublasLtMatrixLayoutOpaque_t a, b, c;
    union {
        float f;
        double d;
    } alpha, beta; /* d for float64, else f */
    void *out;     /* C, or the partial sums if k is split over several launches */
};

static cudaDataType_t type_of(enum dtype dtype) {
    switch (dtype) {
    case FLOAT32: return CUDA_R_32F;
    case FLOAT64: return CUDA_R_64F;
    case FLOAT16: return CUDA_R_16F;
    case BFLOAT16: return CUDA_R_16BF;
    case INTEGER_TYPES:
    case DTYPE_COUNT: break; /* not among its dtypes */
    }
    return CUDA_R_32F;
}

/* Describes a row-major rows x columns matrix, or a stack of them, as a column-major columns x rows one. */
static cudaError_t layout_fill(const lt_library &lt, cublasLtMatrixLayoutOpaque_t *layout, cudaDataType_t type,
                               int64_t rows, int64_t columns, int64_t batch, int64_t stride) {
    const int32_t count = int32_t(batch);
    CUBLAS(lt.layout(layout, sizeof *layout, type, uint64_t(columns), uint64_t(rows), columns));
    CUBLAS(lt.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    CUBLAS(lt.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
    return cudaSuccess;
}

/* Describes C^T = B^T A^T, because cuBLAS is column-major. */
static cudaError_t product_fill(const lt_library &lt, const struct launch *launch, struct lt_product *product) {
    const matmul_args &args = launch->args.matmul;
    const bool in_one_launch = args.first && args.last;
    const enum dtype sums = launch->dtype == FLOAT64 ? FLOAT64 : FLOAT32;
    const cudaDataType_t type = type_of(launch->dtype);
    const int32_t a_op = args.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                  b_op = args.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    CUBLAS(lt.describe(&product->description, sizeof product->description,
                       sums == FLOAT64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, type_of(sums)));
    CUBLAS(lt.describe_set(&product->description, CUBLASLT_MATMUL_DESC_TRANSA, &b_op, sizeof b_op));
    CUBLAS(lt.describe_set(&product->description, CUBLASLT_MATMUL_DESC_TRANSB, &a_op, sizeof a_op));
    CUDART(layout_fill(lt, &product->a, type, args.transpose_a ? args.k : args.m, args.transpose_a ? args.m : args.k,
                       args.batch, args.a_batch_stride));
    CUDART(layout_fill(lt, &product->b, type, args.transpose_b ? args.n : args.k, args.transpose_b ? args.k : args.n,
                       args.batch, args.b_batch_stride));
    CUDART(layout_fill(lt, &product->c, in_one_launch ? type : type_of(sums), args.m, args.n, args.batch,
                       args.m * args.n));
    product->out = in_one_launch ? args.c : args.partial;
    /* The last launch also scales the sums of earlier launches. */
    const double alpha = args.last ? args.alpha : 1, beta = args.first ? 0 : alpha;
    if (sums == FLOAT64)
        product->alpha.d = alpha, product->beta.d = beta;
    else
        product->alpha.f = float(alpha), product->beta.f = float(beta);
    return cudaSuccess;
}

/* ---- which algorithm --------------------------------------------------------------------------------------------- */

/* Returns WORKSPACE, but at most 8 times the bytes of the operands: small products get no large workspace. */
static size_t matmul_cublas_workspace(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const double elements = double(args.batch) * (double(args.m) * double(args.k) + double(args.k) * double(args.n) +
                                                  double(args.m) * double(args.n));
    const double bytes = 8 * elements * double(dtype_size(launch->dtype));
    return bytes < double(WORKSPACE) ? size_t(bytes) : WORKSPACE;
}

/* Starts the product by this algorithm. B comes first, since cuBLAS computes C^T = B^T A^T. */
static cudaError_t run(const lt_library &lt, cublasLtHandle_t handle, const struct launch *launch,
                       const struct lt_product *product, const cublasLtMatmulAlgo_t *algorithm) {
    const matmul_args &args = launch->args.matmul;
    CUBLAS(lt.matmul(handle, const_cast<cublasLtMatmulDescOpaque_t *>(&product->description), &product->alpha, args.b,
                     const_cast<cublasLtMatrixLayoutOpaque_t *>(&product->b), args.a,
                     const_cast<cublasLtMatrixLayoutOpaque_t *>(&product->a), &product->beta, product->out,
                     const_cast<cublasLtMatrixLayoutOpaque_t *>(&product->c), product->out,
                     const_cast<cublasLtMatrixLayoutOpaque_t *>(&product->c), algorithm, launch->workspace,
                     matmul_cublas_workspace(launch), stream_of(launch)));
    return cudaSuccess;
}

/* Chooses an algorithm: if this is the first launch over k, the fastest of the proposed ones by trials, for which it
 * waits; else the first proposed one, because a trial overwrites C, to which a later launch adds. */
static cudaError_t choose(lt_library &lt, cublasLtHandle_t handle, const struct launch *launch,
                          const struct lt_product *product, cublasLtMatmulAlgo_t *algorithm) {
    const size_t workspace = matmul_cublas_workspace(launch);
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t results[CANDIDATES];
    /* Partial sums of a split k stay in the accumulator's type and are not rounded to 16 bits. */
    const uint32_t reduction =
        dtype_size(launch->dtype) > 2 ? CUBLASLT_REDUCTION_SCHEME_MASK : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    int found = 0;
    CUBLAS(lt.prefer(&preference, sizeof preference));
    CUBLAS(lt.prefer_set(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace));
    CUBLAS(lt.prefer_set(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction, sizeof reduction));
    CUBLAS(lt.propose(handle, const_cast<cublasLtMatmulDescOpaque_t *>(&product->description),
                      const_cast<cublasLtMatrixLayoutOpaque_t *>(&product->b),
                      const_cast<cublasLtMatrixLayoutOpaque_t *>(&product->a),
                      const_cast<cublasLtMatrixLayoutOpaque_t *>(&product->c),
                      const_cast<cublasLtMatrixLayoutOpaque_t *>(&product->c), &preference,
                      launch->timed ? CANDIDATES : ONCE, results, &found));
    if (found == 0) return cudaErrorNotSupported;
    *algorithm = results[0].algo;
    if (!launch->args.matmul.first || found == 1) return cudaSuccess;
    const auto start = [&](int which) { return int(run(lt, handle, launch, product, &results[which].algo)); };
    *algorithm = results[trial_fastest(stream_of(launch), found, ROUNDS, TRIAL_MS, LONG_MS, LASTING_MS, start)].algo;
    return cudaSuccess;
}

/* ---- the launch -------------------------------------------------------------------------------------------------- */

/* Starts the product by the algorithm that an equal launch has chosen, or chooses one. The caller holds lt.mutex. */
static cudaError_t multiply(lt_library &lt, const struct launch *launch) {
    int device;
    CUDART(cudaGetDevice(&device));
    if (device >= CUBLAS_DEVICES) return cudaErrorInvalidDevice;
    struct lt_product product;
    CUDART(product_fill(lt, launch, &product));
    const matmul_key key = matmul_cache_key(launch, device);
    if (const auto *known = lt.chosen.find(key)) /* only a known algorithm can be captured */
        return run(lt, lt.handles[device], launch, &product, known);
    CUDART(cublas_can_run(launch));
    if (!lt.handles[device]) CUBLAS(lt.create(&lt.handles[device]));
    cublasLtMatmulAlgo_t algorithm;
    CUDART(choose(lt, lt.handles[device], launch, &product, &algorithm));
    return run(lt, lt.handles[device], launch, &product, lt.chosen.keep(key, algorithm));
}

#define NARROW_THREADS 256

/* Rounds scaled sums, which several launches over k of a 16-bit type have left in `from`, to C. */
template <typename T>
static __global__ void __launch_bounds__(NARROW_THREADS) narrow_kernel(const float *from, T *to, int64_t elements) {
    const int64_t at = block_number() * NARROW_THREADS + threadIdx.x;
    if (at < elements) to[at] = narrow<T>(from[at]);
}

/* kernel->launch. If k is split, the launches over k of a 16-bit type add scaled float sums in `partial`, and the last
 * one rounds them to C. */
static int matmul_cublas_launch(const struct launch *launch) {
    lt_library &lt = library_open();
    if (!lt.complete) return cudaErrorSharedObjectInitFailed;
    const matmul_args &args = launch->args.matmul;
    const int64_t elements = args.batch * args.m * args.n;
    if (elements == 0) return 0;
    const size_t size = args.last || launch->dtype == FLOAT64 ? dtype_size(launch->dtype) : sizeof(float);
    if (args.k > 0) {
        pthread_mutex_lock(&lt.mutex);
        const cudaError_t code = multiply(lt, launch);
        pthread_mutex_unlock(&lt.mutex);
        CUDART(code);
    } else if (args.first) /* the library refuses an empty sum */
        CUDART(cudaMemsetAsync(args.last ? args.c : args.partial, 0, size_t(elements) * size, stream_of(launch)));
    if (!args.last || args.first || args.partial == args.c) return cudaGetLastError();
    return dispatch_float(launch->dtype, [&](auto type) -> int {
        using T = typename decltype(type)::type;
        narrow_kernel<T><<<grid_of(ceil_div(elements, NARROW_THREADS)), NARROW_THREADS, 0, stream_of(launch)>>>(
            static_cast<const float *>(args.partial), static_cast<T *>(args.c), elements);
        return cudaGetLastError();
    });
}

static const char *matmul_cublas_missing() {
    return library_open().complete ? nullptr : "cuBLAS " CUBLAS_MAJOR " is not installed here";
}

static const char *matmul_cublas_library() {
    return one.name[0] ? one.name : nullptr;
}

static const char *matmul_cublas_refuses(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    if (args.batch > INT32_MAX) return "cuBLAS takes at most 2^31 - 1 matrices at once";
    const double alpha = fabs(args.alpha);
    if (alpha == 0) return "cuBLAS leaves the product out where alpha is 0, with its NaNs and infinities";
    if (launch->dtype != FLOAT64 && !(alpha >= FLT_MIN && alpha <= FLT_MAX))
        return "cuBLAS takes alpha as a float32, and this alpha is beyond float32's range";
    return nullptr;
}

KERNEL(matmul_cublas) = {
    .name = "cublas",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "the vendor's library, the fastest of its own proposals; a baseline",
    .dtypes = DTYPES_FLOAT,
    .edges = {{1}, {1}, {1}}, /* unknown: the library does not report its tiles */
    .accuracy = ACCURACY_FULL,
    .atomic_order = true, /* which algorithm is the fastest may differ from run to run */
    .compute_capability = 80,
    .workspace = matmul_cublas_workspace,
    .missing = matmul_cublas_missing,
    .library = matmul_cublas_library,
    .refuses = matmul_cublas_refuses,
    .launch = matmul_cublas_launch,
};
