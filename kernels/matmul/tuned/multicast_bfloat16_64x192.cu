/* multicast_bfloat16_64x192.cu - kernels of multicast.cu for bfloat16: the group of tiles that begins with 64x192. */
#include "multicast_kernel.cuh"

template int matmul_multicast_group<__nv_bfloat16, 4>(const struct launch *, const multicast_config &);
