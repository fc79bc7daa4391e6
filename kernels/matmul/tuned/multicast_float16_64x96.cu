/* multicast_float16_64x96.cu - kernels of multicast.cu for float16: the group of tiles that begins with 64x96. */
#include "multicast_kernel.cuh"

template int matmul_multicast_group<__half, 5>(const struct launch *, const multicast_config &);
