/* multicast_bfloat16_128x112.cu - kernels of multicast.cu for bfloat16: the group of tiles that begins with 128x112. */
#include "multicast_kernel.cuh"

template int matmul_multicast_group<__nv_bfloat16, 3>(const struct launch *, const multicast_config &);
