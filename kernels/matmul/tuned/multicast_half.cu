/* multicast_half.cu - multicast.cu's kernels for float16. */
#include "multicast_kernel.cuh"

int matmul_multicast_half(const struct launch *launch, const multicast_config &config);

int matmul_multicast_half(const struct launch *launch, const multicast_config &config) {
    return matmul_multicast_of<__half>(launch, config);
}
