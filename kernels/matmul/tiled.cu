/* matmul/tiled.cu - shared memory as a cache that the program fills: blocks fetch square tiles of A and B once.
 *
 *                  B  +----+         A block computes a TILE x TILE tile of C, one element per thread. It walks along k
 *                  k0 | Bt |         tile by tile. For each tile every thread fetches an element of A's tile and one of
 *                     +----+         B's, the block meets at a barrier, and all threads multiply from shared memory:
 *       A  k0         |    |
 *     +----+----+   C +----+             sum += At[y][l] * Bt[l][x],  l = 0 .. TILE-1
 *     | At | -> |     |tile|
 *     +----+----+     +----+         After a second barrier the next tile may overwrite this one.
 *
 * The elements of the next tile are fetched into registers while this one is multiplied, so that no barrier waits for
 * memory.
 *
 * An element fetched once serves TILE threads. Global traffic as modelled: 2k/TILE elements read for each element of C,
 * TILE times less than matmul/naive.cu. Elements beyond an edge are fetched as zeros, which add nothing, so the inner
 * loop needs no bounds check.
 *
 * TILE 32: 1024 threads per block and two blocks per multiprocessor. TILE 16 (256 threads) and 8 (64) fetch two and
 * four times as much. With TILE 32 a warp is one row of the tile: it reads At as a broadcast, four l at once (a row of
 * At begins on 16 bytes and has 16 bytes of padding), and Bt without bank conflicts. A transposed operand is fetched
 * along its own rows, which keeps global accesses coalesced, and is transposed as it is stored in shared memory;
 * padding spreads these stores over banks.
 *
 * Measured on an H200, float32, at 4096: 15.1 ms (9.1 TFLOP/s), matmul/naive.cu 67.6 ms. The limit: every multiply-add
 * still needs operands from shared memory, because a thread computes only one element of C. matmul/registers.cu
 * computes 64. */
#include "matmul.cuh"

/* Computes one TILE x TILE tile of C per block. */
template <typename T, int TILE>
__global__ void __launch_bounds__(TILE *TILE) matmul_tiled_kernel(const __grid_constant__ matmul_args args) {
    __shared__ alignas(16) accumulator<T> a_tile[TILE][TILE + 16 / sizeof(accumulator<T>)];
    __shared__ accumulator<T> b_tile[TILE][TILE + 1];

    const tile_position tile = matmul_tile(args, TILE);
    if (tile.batch >= args.batch) return;
    const int x = int(threadIdx.x), y = int(threadIdx.y);
    const int64_t row = tile.row * TILE, column = tile.column * TILE;

    /* This thread fetches element (a_row, a_l) of each tile of A and (b_l, b_column) of B. x runs along memory. */
    const int a_row = args.transpose_a ? x : y, a_l = args.transpose_a ? y : x;
    const int b_l = args.transpose_b ? x : y, b_column = args.transpose_b ? y : x;
    const T *a = static_cast<const T *>(args.a) + tile.batch * args.a_batch_stride +
                 (args.transpose_a ? a_l * args.m + row + a_row : (row + a_row) * args.k + a_l);
    const T *b = static_cast<const T *>(args.b) + tile.batch * args.b_batch_stride +
                 (args.transpose_b ? (column + b_column) * args.k + b_l : b_l * args.n + column + b_column);
    const int64_t a_step = args.transpose_a ? TILE * args.m : TILE, b_step = args.transpose_b ? TILE : TILE * args.n;
    /* How much of k the thread may fetch: nothing if its row or column lies beyond the edge. */
    const int64_t a_end = row + a_row < args.m ? args.k - a_l : 0;
    const int64_t b_end = column + b_column < args.n ? args.k - b_l : 0;

    accumulator<T> sum = 0, a_next = 0 < a_end ? widen(*a) : 0, b_next = 0 < b_end ? widen(*b) : 0;
    for (int64_t k0 = 0; k0 < args.k; k0 += TILE) {
        a_tile[a_row][a_l] = a_next;
        b_tile[b_l][b_column] = b_next;
        __syncthreads();
        a += a_step;
        b += b_step;
        a_next = k0 + TILE < a_end ? widen(*a) : 0;
        b_next = k0 + TILE < b_end ? widen(*b) : 0;
#pragma unroll
        for (int l = 0; l < TILE; l++) sum += a_tile[y][l] * b_tile[l][x];
        __syncthreads();
    }
    if (row + y < args.m && column + x < args.n)
        matmul_store<T>(args, (tile.batch * args.m + row + y) * args.n + column + x, sum);
}

/* Starts the kernel with tiles of TILE x TILE. Returns 0 or a cudaError_t. */
template <int TILE> static int matmul_tiled_launch_tile(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const int64_t blocks = matmul_blocks(args, TILE);
    if (blocks == 0) return 0;
    return dispatch_float(launch->dtype, [&](auto type) -> int {
        using T = typename decltype(type)::type;
        matmul_tiled_kernel<T, TILE><<<grid_of(blocks), dim3(TILE, TILE), 0, stream_of(launch)>>>(args);
        return cudaGetLastError();
    });
}

static int matmul_tiled_launch(const struct launch *launch) {
    switch (launch->choice[0]) {
    case 0: return matmul_tiled_launch_tile<32>(launch);
    case 1: return matmul_tiled_launch_tile<16>(launch);
    default: return matmul_tiled_launch_tile<8>(launch);
    }
}

/* The bytes that a launch moves. Each row of tiles of A is read once per column of tiles of B, and the reverse:
 * 2k / tile elements per element of C. */
static double matmul_tiled_bytes(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const int64_t tile = 32 >> launch->choice[0];
    const double of_a = double(args.m) * args.k * ceil_div(args.n, tile);
    const double of_b = double(args.k) * args.n * ceil_div(args.m, tile);
    return args.batch * (of_a + of_b + double(args.m) * args.n) * dtype_size(launch->dtype);
}

KERNEL(matmul_tiled) = {
    .name = "tiled",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "square tiles of both operands in shared memory, one thread per element",
    .dtypes = DTYPES_FLOAT,
    .edges = {{32, 16, 8}, {32, 16, 8}, {32, 16, 8}},
    .accuracy = ACCURACY_FULL,
    .speed = 0.17,
    .divisible = true,
    .compute_capability = 80,
    .traffic = "2k / tile elements read for each element of the result",
    .traffic_bytes = matmul_tiled_bytes,
    .parameters = {{.name = "tile", .values = {"32", "16", "8"}, .help = "side of a tile, in elements"}},
    .launch = matmul_tiled_launch,
};
