/* copies.cuh - reads of 16 bytes by one instruction, at the place where they are written. */
#ifndef KERNELS_MATMUL_COPIES_CUH
#define KERNELS_MATMUL_COPIES_CUH

#include "../../core/shared.cuh"
#include <cuda_runtime.h>

/* Reads 16 bytes that no one writes during the launch; zeros if they do not exist. Volatile, so that the compiler
 * issues loads where they are written, long before their use. */
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

/* Reads 16 bytes of shared memory. Volatile, so that the compiler keeps the order of such reads and moves none ahead,
 * which would take more registers. */
__device__ inline uint4 load_shared_16(const void *from) {
    uint4 v;
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(shared_address(from))
                 : "memory");
    return v;
}

#endif
