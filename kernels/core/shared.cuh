/* shared.cuh - addresses in shared memory as single instructions take them. */
#ifndef KERNELS_SHARED_CUH
#define KERNELS_SHARED_CUH

#include <cstdint>

__device__ inline uint32_t shared_address(const void *shared) {
    return uint32_t(__cvta_generic_to_shared(shared));
}

/* The same address, which the compiler then keeps in a register. That of an array in shared memory it computes anew
 * from the block's place in its cluster, every time. */
__device__ inline uint8_t *in_register(uint8_t *shared) {
    asm volatile("" : "+l"(shared));
    return shared;
}

#endif
