/* device_cuda.c - implements a CUDA GPU as a device: four streams, asynchronous copies from pinned memory, events with
 * times. Only this file and kernels/ call the CUDA runtime. NVML (nvml.h) supplies clocks, power and the driver's
 * version. No setting of the card is changed. */
#include "../../kernels/map/before.h"
#include "../base/fail.h"
#include "../base/workers.h"
#include "device.h"
#include "nvml.h"

#include <cuda.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE      INT64_C(4096)
#define HUGE_PAGE (INT64_C(2) << 20)

/* Calls the CUDA runtime; returns from the function with STATUS_DEVICE if the call fails. */
#define CUDA(call)                                                                                                     \
    do {                                                                                                               \
        cudaError_t code_ = (call);                                                                                    \
        if (code_ != cudaSuccess) return FAIL_CALL(error, STATUS_DEVICE, #call, cudaGetErrorString(code_));            \
    } while (0)

/* ---- the device -------------------------------------------------------------------------------------------------- */

struct cuda_device {
    struct device base;
    int number;
    cudaStream_t streams[QUEUE_COUNT];
    void *evictor;   /* memory that flush_cache overwrites */
    bool *preloaded; /* for each kernel of the registry: its code was loaded */
    struct nvml nvml;
};

/* Opens NVML for the GPU that CUDA numbers so. */
static void open_nvml(int number, struct nvml *nvml) {
    char bus[32];
    nvml_open(cudaDeviceGetPCIBusId(bus, sizeof bus, number) == cudaSuccess ? bus : NULL, nvml);
}

static struct cuda_device *cuda_of(struct device *device) {
    return (struct cuda_device *)device;
}
static cudaEvent_t cuda_event(struct event *event) {
    return (cudaEvent_t)event;
}

static void cuda_close(struct device *device) {
    struct cuda_device *cuda = cuda_of(device);
    cudaSetDevice(cuda->number);
    for (int queue = 0; queue < QUEUE_COUNT; queue++)
        if (cuda->streams[queue]) cudaStreamDestroy(cuda->streams[queue]);
    cudaFree(cuda->evictor);
    free(cuda->preloaded);
    nvml_close(&cuda->nvml);
    free(cuda);
}

static enum status cuda_allocate(struct device *device, int64_t bytes, void **memory, struct error *error) {
    CUDA(cudaSetDevice(cuda_of(device)->number));
    cudaError_t code = cudaMalloc(memory, (size_t)bytes);
    if (code == cudaSuccess) return STATUS_OK;
    *memory = NULL;
    cudaGetLastError(); /* clears the error, or a later launch would report it */
    if (code != cudaErrorMemoryAllocation)
        return FAIL_CALL(error, STATUS_DEVICE, "cudaMalloc", cudaGetErrorString(code));
    size_t available = 0, total = 0;
    cudaMemGetInfo(&available, &total);
    return fail(error, STATUS_MEMORY, "%s is out of memory: %lld bytes were requested, %zu of %zu are free",
                device->facts.id, (long long)bytes, available, total);
}

static void cuda_release(struct device *device, void *memory) {
    cudaSetDevice(cuda_of(device)->number);
    cudaFree(memory);
}

/* Touches every page of a block of HUGE_PAGE bytes, which makes the system allocate it. */
static void touch_block(void *memory, int64_t block, int thread) {
    (void)thread;
    volatile char *bytes = (char *)memory + block * HUGE_PAGE;
    for (int64_t at = 0; at < HUGE_PAGE; at += PAGE) bytes[at] = 0;
}

/* STATUS_DEVICE: host memory cannot be pinned; about the process's current subject, if it has one. */
static enum status cannot_pin(const struct device *device, int64_t bytes, const char *why, struct error *error) {
    const char *about = fail_subject();
    return fail(error, STATUS_DEVICE, "%s%s%lld bytes of host memory cannot be pinned for %s: %s", about ? about : "",
                about ? ": " : "", (long long)bytes, device->facts.id, why);
}

/* Allocates pinned memory in huge pages, if the system has them, and touches them from all cores: 0.02 ms per MiB.
 * cudaHostAlloc, which uses small pages, needs 0.6 ms. */
static enum status cuda_allocate_host(struct device *device, int64_t bytes, void **memory, struct error *error) {
    CUDA(cudaSetDevice(cuda_of(device)->number));
    const int64_t blocks = bytes / HUGE_PAGE, pages = (bytes + PAGE - 1) / PAGE;
    *memory = NULL;
    if (posix_memalign(memory, blocks > 0 ? HUGE_PAGE : PAGE, (size_t)(pages * PAGE)) != 0)
        return cannot_pin(device, bytes, strerror(ENOMEM), error);
    madvise(*memory, (size_t)(blocks * HUGE_PAGE), MADV_HUGEPAGE); /* on failure the pages are small */
    workers_run(blocks, touch_block, *memory);
    cudaError_t code = cudaHostRegister(*memory, (size_t)(pages * PAGE), cudaHostRegisterPortable);
    if (code == cudaSuccess) return STATUS_OK;
    free(*memory);
    *memory = NULL;
    cudaGetLastError();
    return cannot_pin(device, bytes, cudaGetErrorString(code), error);
}

static void cuda_release_host(struct device *device, void *memory) {
    (void)device;
    cudaHostUnregister(memory);
    free(memory);
}

/* Queues a copy: as one run if its rows are adjacent, in two dimensions if CUDA takes such pitches, else row by row. */
static enum status cuda_copy(struct device *device, const struct copy *copy, enum queue queue, struct error *error) {
    const int64_t max_pitch = INT32_MAX; /* the largest pitch of cudaMemcpy2DAsync */
    cudaStream_t stream = cuda_of(device)->streams[queue];
    bool one_run = copy->rows == 1 || (copy->to_pitch == copy->bytes && copy->from_pitch == copy->bytes);
    if (one_run) {
        CUDA(cudaMemcpyAsync(copy->to, copy->from, (size_t)(copy->bytes * copy->rows), cudaMemcpyDefault, stream));
        return STATUS_OK;
    }
    if (copy->to_pitch <= max_pitch && copy->from_pitch <= max_pitch) {
        CUDA(cudaMemcpy2DAsync(copy->to, (size_t)copy->to_pitch, copy->from, (size_t)copy->from_pitch,
                               (size_t)copy->bytes, (size_t)copy->rows, cudaMemcpyDefault, stream));
        return STATUS_OK;
    }
    for (int64_t row = 0; row < copy->rows; row++)
        CUDA(cudaMemcpyAsync((char *)copy->to + row * copy->to_pitch, (const char *)copy->from + row * copy->from_pitch,
                             (size_t)copy->bytes, cudaMemcpyDefault, stream));
    return STATUS_OK;
}

/* Lets a device read another's memory. Peer access stays enabled until the process ends. */
static bool cuda_enable_peer(struct device *device, struct device *other) {
    int from = cuda_of(other)->number, can = 0;
    if (cudaDeviceCanAccessPeer(&can, cuda_of(device)->number, from) != cudaSuccess || !can ||
        cudaSetDevice(cuda_of(device)->number) != cudaSuccess)
        return cudaGetLastError(), false;
    cudaError_t code = cudaDeviceEnablePeerAccess(from, 0);
    cudaGetLastError();
    return code == cudaSuccess || code == cudaErrorPeerAccessAlreadyEnabled;
}

static enum status cuda_fill(struct device *device, void *memory, int value, int64_t bytes, struct error *error) {
    CUDA(cudaSetDevice(cuda_of(device)->number));
    CUDA(cudaCtxResetPersistingL2Cache()); /* lines that an earlier launch has made to stay */
    CUDA(cudaMemsetAsync(memory, value, (size_t)bytes, cuda_of(device)->streams[QUEUE_COMPUTE]));
    return STATUS_OK;
}

/* Queues a launch. STATUS_RUN: the kernel refuses the tile, or CUDA the launch. */
static enum status cuda_launch(struct device *device, const struct kernel *kernel, struct launch *launch,
                               struct error *error) {
    CUDA(cudaSetDevice(cuda_of(device)->number));
    launch->kernel = kernel;
    launch->stream = cuda_of(device)->streams[QUEUE_COMPUTE];
    launch->multiprocessors = device->facts.multiprocessors;
    const char *refusal = kernel_refusal(kernel, launch);
    if (refusal) return fail(error, STATUS_RUN, "kernel '%s' refuses this tile: %s", kernel->name, refusal);
    cudaError_t code = (cudaError_t)kernel_launch(kernel, launch), pending = cudaGetLastError();
    if (code == cudaSuccess) code = pending; /* clears the error, or the next launch would report it */
    if (code == cudaSuccess) return STATUS_OK;
    /* A refused launch means that the variant has failed, not the device. */
    return fail(error, STATUS_RUN, "kernel '%s' cannot be launched on %s: %s", kernel->name, device->facts.id,
                cudaGetErrorString(code));
}

/* Marks a kernel as preloaded; false: the kernel is marked already, or is not in the registry. */
static bool mark_preloaded(struct cuda_device *cuda, const struct kernel *kernel) {
    int number = 0;
    while (number < kernel_count && kernel_registry[number] != kernel) number++;
    if (number == kernel_count || cuda->preloaded[number]) return false;
    cuda->preloaded[number] = true;
    return true;
}

/* Captures `count` launches into a graph, which runs nothing. NULL, for instance, if the kernel refuses the tile or its
 * launch waits or allocates. */
static cudaGraph_t capture(struct device *device, cudaStream_t stream, const struct kernel *kernel,
                           struct launch *launch, int count) {
    cudaGraph_t graph = NULL;
    launch->kernel = kernel;
    launch->stream = stream;
    launch->multiprocessors = device->facts.multiprocessors;
    if (kernel_refusal(kernel, launch) ||
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
        return NULL;
    bool good = true;
    for (int i = 0; i < count && good; i++) good = kernel_launch(kernel, launch) == cudaSuccess;
    good = cudaStreamEndCapture(stream, &graph) == cudaSuccess && good;
    if (good || !graph) return graph;
    cudaGraphDestroy(graph);
    return NULL;
}

/* Loads a kernel's code by capturing a launch. Without it the driver would load all kernels of a source file at the
 * first launch of one of them, which blocks the launching thread: for 30 ms if the file is large and has line
 * numbers. */
static void cuda_preload(struct device *device, const struct kernel *kernel, struct launch *launch) {
    cudaStream_t stream;
    if (!mark_preloaded(cuda_of(device), kernel) || cudaSetDevice(cuda_of(device)->number) != cudaSuccess ||
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess)
        return;
    cudaGraph_t graph = capture(device, stream, kernel, launch, 1);
    if (graph) cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    cudaGetLastError();
}

/* Looks up CUDA 12.0's version of a function of the driver, which is not linked. */
static bool driver_function(const char *name, void *function) {
    enum cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    return cudaGetDriverEntryPointByVersion(name, function, 12000, cudaEnableDefault, &found) == cudaSuccess &&
           found == cudaDriverEntryPointSuccess;
#else
    return cudaGetDriverEntryPoint(name, function, cudaEnableDefault, &found) == cudaSuccess &&
           found == cudaDriverEntryPointSuccess;
#endif
}

/* Finds the footprint of a kernel node in a graph, and the number of threads in all its blocks. false: the node is not
 * a kernel. The driver also knows kernels that were compiled at run time; the runtime does not. */
static bool footprint_of_node(cudaGraphNode_t node, struct footprint *footprint, double *threads) {
    CUresult (*params)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS *), (*function)(CUfunction *, CUkernel);
    CUresult (*attribute)(int *, CUfunction_attribute, CUfunction), (*occupancy)(int *, CUfunction, int, size_t);
    enum cudaGraphNodeType type;
    CUDA_KERNEL_NODE_PARAMS launch;
    int device, blocks, max_threads, registers, spilled, shared;
    if (!driver_function("cuGraphKernelNodeGetParams", &params) || !driver_function("cuKernelGetFunction", &function) ||
        !driver_function("cuFuncGetAttribute", &attribute) ||
        !driver_function("cuOccupancyMaxActiveBlocksPerMultiprocessor", &occupancy) ||
        cudaGraphNodeGetType(node, &type) != cudaSuccess || type != cudaGraphNodeTypeKernel ||
        params(node, &launch) != CUDA_SUCCESS ||
        (!launch.func && function(&launch.func, launch.kern) != CUDA_SUCCESS) ||
        attribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, launch.func) != CUDA_SUCCESS ||
        attribute(&spilled, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, launch.func) != CUDA_SUCCESS ||
        attribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, launch.func) != CUDA_SUCCESS ||
        cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&max_threads, cudaDevAttrMaxThreadsPerMultiProcessor, device) != cudaSuccess)
        return false;
    int block_threads = (int)(launch.blockDimX * launch.blockDimY * launch.blockDimZ);
    bool counted = occupancy(&blocks, launch.func, block_threads, launch.sharedMemBytes) == CUDA_SUCCESS;
    *threads = (double)block_threads * launch.gridDimX * launch.gridDimY * launch.gridDimZ;
    *footprint = (struct footprint){registers, spilled, (double)shared + launch.sharedMemBytes,
                                    counted ? (double)blocks * block_threads / max_threads : NAN};
    return true;
}

/* Captures the launch, and takes the footprint of the kernel in it that has the most threads. */
static struct footprint cuda_footprint(struct device *device, const struct kernel *kernel, struct launch *launch) {
    enum { MAX_NODES = 64 };
    struct footprint largest = FOOTPRINT_UNKNOWN, one;
    cudaGraphNode_t nodes[MAX_NODES];
    size_t count = MAX_NODES;
    double max_threads = -1, threads;
    if (cudaSetDevice(cuda_of(device)->number) != cudaSuccess) return largest;
    cudaGraph_t graph = capture(device, cuda_of(device)->streams[QUEUE_COMPUTE], kernel, launch, 1);
    if (graph && cudaGraphGetNodes(graph, nodes, &count) == cudaSuccess)
        for (size_t i = 0; i < count && i < MAX_NODES; i++)
            if (footprint_of_node(nodes[i], &one, &threads) && threads > max_threads) {
                largest = one;
                max_threads = threads;
            }
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError(); /* clears the error of what is not known */
    return largest;
}

static struct batch *cuda_batch_create(struct device *device, const struct kernel *kernel, struct launch *launch,
                                       int count) {
    cudaGraphExec_t batch = NULL;
    if (cudaSetDevice(cuda_of(device)->number) != cudaSuccess) return NULL;
    cudaGraph_t graph = capture(device, cuda_of(device)->streams[QUEUE_COMPUTE], kernel, launch, count);
    if (graph && cudaGraphInstantiate(&batch, graph, 0) != cudaSuccess) batch = NULL;
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError();
    return (struct batch *)batch;
}

static enum status cuda_batch_launch(struct device *device, struct batch *batch, struct error *error) {
    CUDA(cudaSetDevice(cuda_of(device)->number));
    CUDA(cudaGraphLaunch((cudaGraphExec_t)batch, cuda_of(device)->streams[QUEUE_COMPUTE]));
    return STATUS_OK;
}

static void cuda_batch_destroy(struct device *device, struct batch *batch) {
    cudaSetDevice(cuda_of(device)->number);
    cudaGraphExecDestroy((cudaGraphExec_t)batch);
}

static enum status cuda_flush_cache(struct device *device, struct error *error) {
    struct cuda_device *cuda = cuda_of(device);
    int64_t bytes = 2 * device->facts.cache_bytes;
    if (!cuda->evictor && cuda_allocate(device, bytes, &cuda->evictor, error) != STATUS_OK) return error->status;
    return cuda_fill(device, cuda->evictor, 0, bytes, error);
}

static enum status cuda_event_create(struct device *device, struct event **event, struct error *error) {
    CUDA(cudaSetDevice(cuda_of(device)->number));
    cudaEvent_t created;
    CUDA(cudaEventCreateWithFlags(&created, cudaEventDefault));
    *event = (struct event *)created;
    return STATUS_OK;
}

static void cuda_event_destroy(struct device *device, struct event *event) {
    (void)device;
    cudaEventDestroy(cuda_event(event));
}

static enum status cuda_event_record(struct device *device, struct event *event, enum queue queue,
                                     struct error *error) {
    CUDA(cudaEventRecord(cuda_event(event), cuda_of(device)->streams[queue]));
    return STATUS_OK;
}

static enum status cuda_queue_wait_event(struct device *device, struct event *event, enum queue queue,
                                         struct error *error) {
    CUDA(cudaStreamWaitEvent(cuda_of(device)->streams[queue], cuda_event(event), 0));
    return STATUS_OK;
}

static enum status cuda_event_wait(struct device *device, struct event *event, struct error *error) {
    (void)device;
    CUDA(cudaEventSynchronize(cuda_event(event)));
    return STATUS_OK;
}

static enum status cuda_event_elapsed(struct device *device, struct event *from, struct event *to, double *seconds,
                                      struct error *error) {
    (void)device;
    float milliseconds;
    CUDA(cudaEventElapsedTime(&milliseconds, cuda_event(from), cuda_event(to)));
    *seconds = (double)milliseconds * 1e-3;
    return STATUS_OK;
}

static enum status cuda_synchronize(struct device *device, struct error *error) {
    for (int queue = 0; queue < QUEUE_COUNT; queue++) CUDA(cudaStreamSynchronize(cuda_of(device)->streams[queue]));
    return STATUS_OK;
}

static struct sample_conditions cuda_conditions(struct device *device) {
    return nvml_conditions(&cuda_of(device)->nvml);
}

static enum status cuda_profile(struct device *device, bool on, struct error *error) {
    TRY(cuda_synchronize(device, error));
    CUDA(on ? cudaProfilerStart() : cudaProfilerStop());
    return STATUS_OK;
}

static const struct device_operations cuda_operations = {
    .close = cuda_close,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .allocate_host = cuda_allocate_host,
    .release_host = cuda_release_host,
    .copy = cuda_copy,
    .enable_peer = cuda_enable_peer,
    .fill = cuda_fill,
    .launch = cuda_launch,
    .preload = cuda_preload,
    .footprint = cuda_footprint,
    .batch_create = cuda_batch_create,
    .batch_launch = cuda_batch_launch,
    .batch_destroy = cuda_batch_destroy,
    .flush_cache = cuda_flush_cache,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .queue_wait_event = cuda_queue_wait_event,
    .event_wait = cuda_event_wait,
    .event_elapsed = cuda_event_elapsed,
    .synchronize = cuda_synchronize,
    .profile = cuda_profile,
};

/* Reads the facts of cuda->number and opens its queues and NVML; cuda_close releases what is open, also after a
 * failure. */
static enum status cuda_start(struct cuda_device *cuda, struct error *error) {
    enum status status = device_cuda_facts(cuda->number, &cuda->base.facts, error);
    if (status != STATUS_OK) return status;
    for (int queue = 0; queue < QUEUE_COUNT; queue++)
        CUDA(cudaStreamCreateWithFlags(&cuda->streams[queue], cudaStreamNonBlocking));
    open_nvml(cuda->number, &cuda->nvml);
    return STATUS_OK;
}

enum status device_cuda_open(int number, struct device **device, struct error *error) {
    struct cuda_device *cuda = must_malloc(sizeof *cuda);
    *cuda =
        (struct cuda_device){.base = {.operations = &cuda_operations, .conditions = cuda_conditions}, .number = number};
    cuda->preloaded = must_malloc((unsigned long)kernel_count * sizeof *cuda->preloaded);
    for (int i = 0; i < kernel_count; i++) cuda->preloaded[i] = false;
    enum status status = cuda_start(cuda, error);
    if (status != STATUS_OK) cuda_close(&cuda->base);
    *device = status == STATUS_OK ? &cuda->base : NULL;
    return status;
}

/* ---- facts ------------------------------------------------------------------------------------------------------- */

int device_cuda_count(void) {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
    cudaGetLastError();
    return 0;
}

/* Sustained flops per clock and multiprocessor, by compute capability: about three quarters of the data sheet's peak.
 * On the H200 that is 51, 58 and 700 TFLOP/s (float32, float64, float16), the speed of the vendor's library. Estimates
 * for predictions only. */
static const struct peak {
    int capability;
    double float32, float64, float16;
} peaks[] = {
    {120, 195, 3, 780}, {100, 195, 100, 6000}, {90, 195, 222, 2680}, {89, 195, 3, 780},
    {86, 195, 3, 390},  {80, 98, 98, 1560},    {0, 98, 3, 390},
};

/* Sets the flops per second of each type by the device's compute capability, multiprocessors and clock. */
static void estimate_flops(struct device_facts *facts, double clock_hz) {
    const struct peak *peak = peaks;
    while (facts->compute_capability < peak->capability) peak++;
    double clocks = clock_hz * facts->multiprocessors;
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) facts->flops_per_s[dtype] = 50 * clocks; /* for integers */
    facts->flops_per_s[FLOAT32] = peak->float32 * clocks;
    facts->flops_per_s[FLOAT64] = peak->float64 * clocks;
    facts->flops_per_s[FLOAT16] = facts->flops_per_s[BFLOAT16] = peak->float16 * clocks;
}

/* An attribute of a GPU; 0: unknown. */
static int attribute(int number, enum cudaDeviceAttr which) {
    int value = 0;
    return cudaDeviceGetAttribute(&value, which, number) == cudaSuccess ? value : 0;
}

/* "GPU-5a...", as NVIDIA's tools write it. */
static void uuid_text(const struct cudaDeviceProp *properties, char text[64]) {
    const unsigned char *u = (const unsigned char *)properties->uuid.bytes;
    snprintf(text, 64, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2],
             u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

enum status device_cuda_facts(int number, struct device_facts *facts, struct error *error) {
    *facts = (struct device_facts){.kind = DEVICE_CUDA, .team = 1, .numbers = {number}};
    snprintf(facts->id, sizeof facts->id, "cuda:%d", number);
    int count = device_cuda_count();
    if (number < 0 || number >= count)
        return fail(error, STATUS_DEVICE, "there is no %s: %s", facts->id,
                    count == 0 ? "no CUDA driver or no GPU was found" : "the GPUs of this machine have lower numbers");
    struct cudaDeviceProp properties;
    size_t available, total;
    CUDA(cudaSetDevice(number));
    CUDA(cudaGetDeviceProperties(&properties, number));
    CUDA(cudaMemGetInfo(&available, &total));
    snprintf(facts->name, sizeof facts->name, "%.127s", properties.name);
    uuid_text(&properties, facts->uuid);
    facts->compute_capability = properties.major * 10 + properties.minor;
    facts->multiprocessors = properties.multiProcessorCount;
    facts->memory_free = (int64_t)available;
    facts->memory_total = (int64_t)total;
    facts->cache_bytes = properties.l2CacheSize;
    /* Estimates for predictions only. The bus rate is that of PCIe 5, measured on the host of an H200. Kernels reach
     * about 87 % of the memory's peak rate (two transfers per clock, clock in kHz, width in bits). */
    facts->copy_bytes_per_s = 50e9;
    facts->memory_bytes_per_s = 0.87 * 2e3 * attribute(number, cudaDevAttrMemoryClockRate) *
                                attribute(number, cudaDevAttrGlobalMemoryBusWidth) / 8;
    if (!(facts->memory_bytes_per_s > 0)) facts->memory_bytes_per_s = 1e12;
    double clock_hz = 1e3 * attribute(number, cudaDevAttrClockRate);
    estimate_flops(facts, clock_hz > 0 ? clock_hz : 1.5e9);
    device_host_facts(facts);
    return STATUS_OK;
}

void device_cuda_provenance(int number, struct device_provenance *provenance) {
    *provenance = (struct device_provenance){.cuda_runtime = ""};
    struct cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, number) == cudaSuccess) uuid_text(&properties, provenance->gpu_uuid);
    int version;
    if (cudaRuntimeGetVersion(&version) == cudaSuccess)
        snprintf(provenance->cuda_runtime, sizeof provenance->cuda_runtime, "%d.%d", version / 1000,
                 version % 1000 / 10);
    struct nvml nvml;
    open_nvml(number, &nvml);
    nvml_provenance(&nvml, provenance);
    nvml_close(&nvml);
    cudaGetLastError();
}
