/* transpose/cublas.cu - the vendor's library, as a baseline. Its geam adds two matrices, each of which may be
 * transposed; here the factor of the second one is 0, so the library does not read it.
 *
 * The library stores matrices column by column: to it a row-major x of rows x cols is a cols x rows matrix, and y a
 * rows x cols one. It takes one matrix at a time; a stack takes one call per matrix.
 *
 * The library's handles outlive a launch: one static object holds them. It is loaded at first use, guarded by its
 * mutex, and never freed. */
#include "../core/cublas.cuh"
#include "transpose.cuh"

#include <pthread.h>

/* cuBLAS: its functions, and a handle for each device. */
struct blas_library {
    decltype(&cublasCreate_v2) create;
    decltype(&cublasSetStream_v2) set_stream;
    decltype(&cublasSgeam_64) add_float;
    decltype(&cublasDgeam_64) add_double;
    bool complete; /* all of these functions were found */
    pthread_mutex_t mutex;
    cublasHandle_t handles[CUBLAS_DEVICES];
};

static struct blas_library one = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Opens cuBLAS and finds its functions. */
static void library_load() {
    void *const file = cublas_open("libcublas.so." CUBLAS_MAJOR, "/usr/local/cuda/lib64/libcublas.so." CUBLAS_MAJOR);
    one.complete =
        cublas_find(file, "cublasCreate_v2", one.create) && cublas_find(file, "cublasSetStream_v2", one.set_stream) &&
        cublas_find(file, "cublasSgeam_64", one.add_float) && cublas_find(file, "cublasDgeam_64", one.add_double);
}

static blas_library &library_open() {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, library_load);
    return one;
}

/* Transposes all matrices of a launch by `add`, the geam of type T. */
template <typename T, typename F>
static cudaError_t transpose_stack(F add, cublasHandle_t handle, const transpose_args &args) {
    const T one = 1, zero = 0;
    const int64_t elements = args.rows * args.cols;
    for (int64_t b = 0; b < args.batch; b++) {
        const T *const x = static_cast<const T *>(args.x) + b * elements;
        T *const y = static_cast<T *>(args.y) + b * elements;
        CUBLAS(add(handle, CUBLAS_OP_T, CUBLAS_OP_N, args.rows, args.cols, &one, x, args.cols, &zero, y, args.rows, y,
                   args.rows));
    }
    return cudaSuccess;
}

/* Does the launch with the handle of the current device, which it creates if there is none. */
static cudaError_t transpose_on_device(blas_library &blas, const struct launch *launch) {
    int device;
    CUDART(cudaGetDevice(&device));
    if (device >= CUBLAS_DEVICES) return cudaErrorInvalidDevice;
    cublasHandle_t &handle = blas.handles[device];
    if (!handle) CUBLAS(blas.create(&handle));
    CUBLAS(blas.set_stream(handle, stream_of(launch)));
    return launch->dtype == FLOAT64 ? transpose_stack<double>(blas.add_double, handle, launch->args.transpose)
                                    : transpose_stack<float>(blas.add_float, handle, launch->args.transpose);
}

static int transpose_cublas_launch(const struct launch *launch) {
    const transpose_args &args = launch->args.transpose;
    blas_library &blas = library_open();
    if (!blas.complete) return cudaErrorSharedObjectInitFailed;
    if (args.batch * args.rows * args.cols == 0) return 0;
    CUDART(cublas_can_run(launch));
    pthread_mutex_lock(&blas.mutex);
    const cudaError_t code = transpose_on_device(blas, launch);
    pthread_mutex_unlock(&blas.mutex);
    return code;
}

static const char *transpose_cublas_missing() {
    return library_open().complete ? nullptr : "cuBLAS " CUBLAS_MAJOR " is not installed here";
}

KERNEL(transpose_cublas) = {
    .name = "cublas",
    .op = OP_TRANSPOSE,
    .device = DEVICE_CUDA,
    .summary = "the vendor's library (geam); a baseline",
    .dtypes = DTYPE_BIT(FLOAT32) | DTYPE_BIT(FLOAT64),
    .edges = {{1}, {1}}, /* unknown: the library does not report its tiles */
    .accuracy = ACCURACY_FULL,
    .compute_capability = 80,
    .missing = transpose_cublas_missing,
    .launch = transpose_cublas_launch,
};
