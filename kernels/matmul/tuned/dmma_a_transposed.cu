/* dmma_a_transposed.cu - kernels of dmma.cu for A transposed: a file of its own, because they take long to compile. */
#include "dmma_kernel.cuh"

int matmul_dmma_a_transposed(const struct launch *launch) {
    return launch->args.matmul.transpose_b ? matmul_dmma_with<LINES, K_KEPT>(launch)
                                           : matmul_dmma_with<LINES, LINES>(launch);
}
