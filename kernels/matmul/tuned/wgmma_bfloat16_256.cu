/* wgmma_bfloat16_256.cu - kernels of wgmma.cu for bfloat16: the tile of 256 columns. */
#include "wgmma_kernel.cuh"

template int matmul_wgmma_tile<256, __nv_bfloat16>(const struct launch *, const wgmma_config &);
