/* multicast_bfloat16_128x176.cu - kernels of multicast.cu for bfloat16: the group of tiles that begins with 128x176. */
#include "multicast_kernel.cuh"

template int matmul_multicast_group<__nv_bfloat16, 2>(const struct launch *, const multicast_config &);
