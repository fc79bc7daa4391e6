/* matmul/copies.cuh - single instructions that move data: copies past the registers, reads of 16 bytes; and a counter
 * of blocks. */
#ifndef KERNELS_MATMUL_COPIES_CUH
#define KERNELS_MATMUL_COPIES_CUH

#include "../core/shared.cuh"
#include <cuda_runtime.h>

/* ---- asynchronous copies: global to shared memory, past the registers, awaited in commit order ------------------- */

/* Copies BYTES (4, 8 or 16) to a shared address; writes zeros if the source does not exist. */
template <int BYTES> __device__ inline void copy_async(unsigned to, const void *from, bool exists) {
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(exists ? 16 : 0)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES),
                     "r"(exists ? BYTES : 0)
                     : "memory");
}

__device__ inline void copy_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until all but the latest LATER commits have arrived. */
template <int LATER> __device__ inline void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
}

/* ---- reads and counters ------------------------------------------------------------------------------------------ */

/* Reads 16 bytes that no one writes during the launch; zeros if they do not exist. Volatile, so that loads are issued
 * where they stand, long before their use. */
__device__ inline uint4 load_16(const void *from, bool exists) {
    uint4 v;
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "setp.ne.s32 p, %5, 0;\n\t"
                 "mov.b32 %0, 0;\n\tmov.b32 %1, 0;\n\tmov.b32 %2, 0;\n\tmov.b32 %3, 0;\n\t"
                 "@p ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];\n\t}"
                 : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
                 : "l"(from), "r"(int(exists)));
    return v;
}

/* Reads 16 bytes of shared memory, in order with other such reads: not earlier than registers allow. */
__device__ inline uint4 load_shared_16(const void *from) {
    uint4 v;
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(shared_address(from))
                 : "memory");
    return v;
}

/* Counts one up, releases this block's writes and acquires the others': half the time of separate fences. */
__device__ inline unsigned count_arrival(unsigned *counter) {
    unsigned before;
    asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
}

#endif
