/* mma_float16.cu - kernels of mma.cu for float16. */
#include "mma_kernel.cuh"

int matmul_mma_float16(const struct launch *launch) {
    return matmul_mma_of<__half>(launch);
}
