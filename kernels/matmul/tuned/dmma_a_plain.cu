/* dmma_a_plain.cu - kernels of dmma.cu for A that is not transposed (see dmma_a_transposed.cu). */
#include "dmma_kernel.cuh"

int matmul_dmma_a_plain(const struct launch *launch) {
    return launch->args.matmul.transpose_b ? matmul_dmma_with<K_KEPT, K_KEPT>(launch)
                                           : matmul_dmma_with<K_KEPT, LINES>(launch);
}
