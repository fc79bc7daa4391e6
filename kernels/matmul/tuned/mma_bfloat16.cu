/* mma_bfloat16.cu - kernels of mma.cu for bfloat16. */
#include "mma_kernel.cuh"

int matmul_mma_bfloat16(const struct launch *launch) {
    return matmul_mma_of<__nv_bfloat16>(launch);
}
