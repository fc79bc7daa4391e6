/* cluster.cuh - two features of compute capability 9.0 and later: blocks of a cluster run at the same time, wait for
 * each other and access each other's shared memory; and a launch may begin before the one before it has ended. */
#ifndef KERNELS_CLUSTER_CUH
#define KERNELS_CLUSTER_CUH

#include <cstdint>
#include <cuda_runtime.h>

/* The block's index in its cluster, along x. */
__device__ inline uint32_t cluster_column() {
    uint32_t column;
    asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(column));
    return column;
}

/* The block's number in its cluster; blocks are counted along x first. */
__device__ inline uint32_t cluster_rank() {
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* Returns the address, in block `rank` of the cluster, of the object whose address in this block is `shared`. Blocks
 * are counted along x first. */
template <typename T> __device__ inline T *cluster_shared(T *shared, uint32_t rank) {
    uint64_t there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(shared), "r"(rank));
    return reinterpret_cast<T *>(there);
}

/* A barrier for all threads of all blocks of the cluster: after cluster_wait a thread sees what all wrote before
 * cluster_arrive. Between the two calls a thread may do work that does not depend on other threads. */
__device__ inline void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ inline void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ inline void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}

/* Like cluster_arrive, but does not wait until this thread's writes are visible to others. For threads that have only
 * read, or have initialised barriers and called mbarrier_init_fence (tma.cuh), which makes those visible. */
__device__ inline void cluster_arrive_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
/* Waits until all threads of the cluster have read what they read before. */
__device__ inline void cluster_have_read() {
    cluster_arrive_relaxed();
    cluster_wait();
}

/* ---- launches that overlap -------------------------------------------------------------------------------------- */

/* Are launches that begin early and clusters available, on this device and in this build? */
inline bool launch_overlaps() {
    int device = 0, major = 0;
    const bool known = cudaGetDevice(&device) == cudaSuccess &&
                       cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess;
    return TILERUN_SM90A && known && major == 9;
}

/* Starts a kernel on clusters of `cluster` blocks (1: no clusters), and returns 0 or a cudaError_t. `early`: its blocks
 * may begin, as soon as there is room, while the previous kernel of the stream still runs; the kernel must call
 * launch_wait. */
template <typename... PARAMETERS, typename... ARGUMENTS>
int launch_clusters_of(bool early, void (*kernel)(PARAMETERS...), dim3 grid, int threads, size_t shared_bytes,
                       int cluster, cudaStream_t stream, const ARGUMENTS &...arguments) {
    cudaLaunchAttribute attributes[2] = {};
    unsigned count = 0;
    if (early && launch_overlaps()) {
        attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[count++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (cluster > 1) {
        attributes[count].id = cudaLaunchAttributeClusterDimension;
        attributes[count++].val.clusterDim = {unsigned(cluster), 1, 1};
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = unsigned(threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = count;
    return cudaLaunchKernelEx(&config, kernel, arguments...);
}

/* launch_clusters_of with `early`. */
template <typename... PARAMETERS, typename... ARGUMENTS>
int launch_early(void (*kernel)(PARAMETERS...), dim3 grid, int threads, size_t shared_bytes, int cluster,
                 cudaStream_t stream, const ARGUMENTS &...arguments) {
    return launch_clusters_of(true, kernel, grid, threads, shared_bytes, cluster, stream, arguments...);
}

/* Returns the number of a kernel's clusters that run at the same time; 0: unknown. */
template <typename FUNCTION> int launch_clusters(FUNCTION *kernel, int threads, size_t shared_bytes, int cluster) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {unsigned(cluster), 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = unsigned(cluster);
    config.blockDim = unsigned(threads);
    config.dynamicSmemBytes = shared_bytes;
    config.attrs = &attribute;
    config.numAttrs = 1;
    int clusters = 0;
    return cudaOccupancyMaxActiveClusters(&clusters, kernel, &config) == cudaSuccess ? clusters : 0;
}

/* Waits until the previous kernel has ended and its writes can be read. Before this call, a kernel touches no memory
 * but its parameters and its own shared memory. */
__device__ inline void launch_wait() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Lets the next kernel of the stream begin, once all blocks of this one have called this. */
__device__ inline void launch_next() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#endif
