/* matmul/naive.cu - the first lesson: one thread for each element of C.
 *
 *               column                A thread walks along its row of A and down its column of B:
 *             B +--#---+
 *               |  #   | k                for l in 0 .. k-1:  sum += A[row][l] * B[l][column]
 *               +--#---+
 *     A           |               Threads of a warp are neighbours along a row of C. They read the same element of A
 *     +-----+   +--|---+          (one broadcast) and 32 adjacent ones of B (one 128-byte access), so every access
 * row |#####|---|--C   | m        is coalesced, except in a transposed B: there each thread reads a row of its own.
 *     +-----+   +------+
 *        k          n
 *
 * The limit: an element of C costs 2k reads, and threads do not share what they read. Global traffic as modelled,
 * before any cache: 2k elements read for each element of C. The caches catch most of it, but every multiply-add still
 * waits for two loads, so the load units, not the multipliers, limit the speed. In matmul/tiled.cu the threads of a
 * block share what they read. */
#include "matmul.cuh"

#define SIDE 32 /* of a block: 1024 threads, the maximum */

/* Computes one element of C per thread. a and b are parameters beside args so that they can be __restrict__: no store
 * changes what they point to, so the compiler may move loads ahead. */
template <typename T, bool TRANSPOSE_A, bool TRANSPOSE_B>
__global__ void __launch_bounds__(SIDE *SIDE)
    matmul_naive_kernel(const __grid_constant__ matmul_args args, const T *__restrict__ a, const T *__restrict__ b) {
    const tile_position tile = matmul_tile(args, SIDE);
    const int64_t row = tile.row * SIDE + threadIdx.y, column = tile.column * SIDE + threadIdx.x;
    if (tile.batch >= args.batch || row >= args.m || column >= args.n) return;

    /* Distance in elements along k, in a row of A and in a column of B. */
    const int64_t a_step = TRANSPOSE_A ? args.m : 1, b_step = TRANSPOSE_B ? 1 : args.n;
    a += tile.batch * args.a_batch_stride + row * (TRANSPOSE_A ? 1 : args.k);
    b += tile.batch * args.b_batch_stride + column * (TRANSPOSE_B ? args.k : 1);

    accumulator<T> sum = 0;
    for (int64_t l = 0; l < args.k; l++) sum += widen(a[l * a_step]) * widen(b[l * b_step]);
    /* The runner may split k over several launches; matmul_store adds their sums, and stores C in the last one. */
    matmul_store<T>(args, (tile.batch * args.m + row) * args.n + column, sum);
}

/* Returns the kernel that is compiled for these operands: the template's parameters must be known at compile time. */
template <typename T, bool TRANSPOSE_A> static auto matmul_naive_choose(bool transpose_b) {
    return transpose_b ? matmul_naive_kernel<T, TRANSPOSE_A, true> : matmul_naive_kernel<T, TRANSPOSE_A, false>;
}

static int matmul_naive_launch(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const int64_t blocks = matmul_blocks(args, SIDE);
    if (blocks == 0) return 0;
    return dispatch_float(launch->dtype, [&](auto type) -> int {
        using T = typename decltype(type)::type;
        const auto kernel = args.transpose_a ? matmul_naive_choose<T, true>(args.transpose_b)
                                             : matmul_naive_choose<T, false>(args.transpose_b);
        kernel<<<grid_of(blocks), dim3(SIDE, SIDE), 0, stream_of(launch)>>>(args, static_cast<const T *>(args.a),
                                                                            static_cast<const T *>(args.b));
        return cudaGetLastError();
    });
}

/* The bytes that a launch moves: every element of C reads a row and a column. */
static double matmul_naive_bytes(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    return double(args.batch) * args.m * args.n * (2.0 * args.k + 1) * dtype_size(launch->dtype);
}

KERNEL(matmul_naive) = {
    .name = "naive",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "one thread per element, 32x32 blocks, operands straight from global memory",
    .dtypes = DTYPES_FLOAT,
    .edges = {{SIDE}, {SIDE}, {1}},
    .accuracy = ACCURACY_FULL,
    .speed = 0.1,
    .divisible = true,
    .compute_capability = 80,
    .traffic = "2k elements read for each element of the result",
    .traffic_bytes = matmul_naive_bytes,
    .launch = matmul_naive_launch,
};
