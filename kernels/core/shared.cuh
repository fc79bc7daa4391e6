/* shared.cuh - addresses in shared memory as single instructions take them, and copies to it past the registers. */
#ifndef KERNELS_SHARED_CUH
#define KERNELS_SHARED_CUH

#include <cstdint>

/* Returns the address within shared memory that a generic pointer into it stands for. */
__device__ inline uint32_t shared_address(const void *shared) {
    return uint32_t(__cvta_generic_to_shared(shared));
}

/* Returns the address unchanged, but makes the compiler keep it in a register. Otherwise it computes the address of an
 * array in shared memory again for every use, from the block's rank in its cluster. */
__device__ inline uint8_t *in_register(uint8_t *shared) {
    asm volatile("" : "+l"(shared));
    return shared;
}

/* Makes the compiler compute these values here, for example while copies are under way, and not at first use. */
template <typename... INTS> __device__ inline void compute_here(INTS &...x) {
    (..., [](auto &each) {
        if constexpr (sizeof each == 8)
            asm volatile("" : "+l"(each));
        else
            asm volatile("" : "+r"(each));
    }(x));
}

/* Starts a copy of BYTES (4, 8 or 16) from global memory to a shared address, past the registers; writes zeros if the
 * source does not exist. copy_commit and copy_wait await it. */
template <int BYTES> __device__ inline void copy_async(unsigned to, const void *from, bool exists) {
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(exists ? 16 : 0)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES),
                     "r"(exists ? BYTES : 0)
                     : "memory");
}

/* Ends a group: the copies that this thread started since its last commit. */
__device__ inline void copy_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until all groups of this thread but the latest LATER have arrived. */
template <int LATER> __device__ inline void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
}

#endif
