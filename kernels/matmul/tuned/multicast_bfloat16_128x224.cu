/* multicast_bfloat16_128x224.cu - kernels of multicast.cu for bfloat16: the group of tiles that begins with 128x224. */
#include "multicast_kernel.cuh"

template int matmul_multicast_group<__nv_bfloat16, 1>(const struct launch *, const multicast_config &);
