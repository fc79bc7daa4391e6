/* multicast_float16_128x256.cu - kernels of multicast.cu for float16: the group of tiles that begins with 128x256. */
#include "multicast_kernel.cuh"

template int matmul_multicast_group<__half, 0>(const struct launch *, const multicast_config &);
