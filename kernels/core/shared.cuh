/* shared.cuh - addresses in shared memory as single instructions take them. */
#ifndef KERNELS_SHARED_CUH
#define KERNELS_SHARED_CUH

#include <cstdint>

__device__ inline uint32_t shared_address(const void *shared) {
    return uint32_t(__cvta_generic_to_shared(shared));
}

#endif
