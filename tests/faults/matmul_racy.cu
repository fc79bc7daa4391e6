/* matmul_racy.cu - a planted fault: shared-memory tiles without barriers. Threads read elements that others have not
 * written yet or have already overwritten. Square tiles, nothing transposed. */
#include "matmul.cuh"

#define TILE 16

__global__ void matmul_racy_kernel(const __grid_constant__ matmul_args args) {
    __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
    const tile_position tile = matmul_tile(args, TILE);
    if (tile.batch >= args.batch) return;
    const int x = int(threadIdx.x), y = int(threadIdx.y);
    const int64_t row = tile.row * TILE + y, column = tile.column * TILE + x;
    const auto *a = static_cast<const float *>(args.a);
    const auto *b = static_cast<const float *>(args.b);
    float sum = 0;
    for (int64_t k0 = 0; k0 < args.k; k0 += TILE) {
        a_tile[y][x] = row < args.m && k0 + x < args.k ? a[row * args.k + k0 + x] : 0;
        b_tile[y][x] = column < args.n && k0 + y < args.k ? b[(k0 + y) * args.n + column] : 0;
        for (int l = 0; l < TILE; l++) sum += a_tile[y][l] * b_tile[l][x];
    }
    if (row < args.m && column < args.n) matmul_store<float>(args, row * args.n + column, sum);
}

static int matmul_racy_launch(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    matmul_racy_kernel<<<grid_of(matmul_blocks(args, TILE)), dim3(TILE, TILE), 0, stream_of(launch)>>>(args);
    return cudaGetLastError();
}

KERNEL(matmul_racy) = {
    .name = "racy",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "a planted fault: missing barriers",
    .dtypes = DTYPE_BIT(FLOAT32),
    .launch = matmul_racy_launch,
};
