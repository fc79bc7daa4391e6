/* multicast_float16_128x112.cu - kernels of multicast.cu for float16: the group of tiles that begins with 128x112. */
#include "multicast_kernel.cuh"

template int matmul_multicast_group<__half, 3>(const struct launch *, const multicast_config &);
