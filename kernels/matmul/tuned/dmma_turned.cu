/* dmma_turned.cu - kernels of dmma.cu for A transposed. */
#include "dmma_kernel.cuh"

int matmul_dmma_turned(const struct launch *launch) {
    return launch->args.matmul.transpose_b ? matmul_dmma_with<LINES, K_KEPT>(launch)
                                           : matmul_dmma_with<LINES, LINES>(launch);
}
