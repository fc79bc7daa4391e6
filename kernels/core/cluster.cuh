/* cluster.cuh - blocks of a cluster (compute capability 9.0 and later): they run at the same time, wait for each other
 * and access each other's shared memory. */
#ifndef KERNELS_CLUSTER_CUH
#define KERNELS_CLUSTER_CUH

#include <cstdint>

/* The block's place in its cluster, along x. */
__device__ inline uint32_t cluster_column() {
    uint32_t column;
    asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(column));
    return column;
}

/* The address, in block `rank` of the cluster, of the object that lies at `shared` in this block. Blocks are counted
 * along x first. */
template <typename T> __device__ inline T *cluster_shared(T *shared, uint32_t rank) {
    uint64_t there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(shared), "r"(rank));
    return reinterpret_cast<T *>(there);
}

/* A barrier for all threads of all blocks; their earlier writes are visible after it. */
__device__ inline void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

#endif
