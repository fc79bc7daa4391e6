/* wgmma_bfloat16_192.cu - kernels of wgmma.cu for bfloat16: the tiles of 192, 128 and 64 columns. */
#include "wgmma_kernel.cuh"

template int matmul_wgmma_tile<192, __nv_bfloat16>(const struct launch *, const wgmma_config &);
template int matmul_wgmma_tile<128, __nv_bfloat16>(const struct launch *, const wgmma_config &);
template int matmul_wgmma_tile<64, __nv_bfloat16>(const struct launch *, const wgmma_config &);
