/* wgmma_float16_256.cu - kernels of wgmma.cu for float16: the tile of 256 columns. */
#include "wgmma_kernel.cuh"

template int matmul_wgmma_tile<256, __half>(const struct launch *, const wgmma_config &);
