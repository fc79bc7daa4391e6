/* multicast_store.cuh - how matmul/multicast.cu stores: a tile's sums from registers to C, or, where k is cut over the
 * blocks of a cluster, through shared memory, where they are added up.
 *
 * Straight tiles are stored as matmul/wgmma.cu stores them (wgmma_store.cuh). Turned ones lie along columns of sums. A
 * warp holds 16 rows, so 16 neighbours in C, 32 bytes: one sector of memory. Four 8 x 8 fragments, two of these rows
 * by two of columns, are transposed, then exchanged within each quad of threads:
 *
 *     thread of a quad    0                1                2                  3
 *     stores 16 bytes     C[n][m..m+7]     C[n][m+8..m+15]  C[n+8][m..m+7]     C[n+8][m+8..m+15] */
#ifndef KERNELS_MATMUL_MULTICAST_STORE_CUH
#define KERNELS_MATMUL_MULTICAST_STORE_CUH

#include "multicast_choice.cuh"
#include "wgmma_store.cuh"

/* A block's tile: the matrix of the stack, its first row and column. */
struct multicast_tile {
    int64_t batch, row, column;
};

/* Stores a warpgroup's 64 rows of sums; the first sum is C[row][column] of matrix `batch`. */
template <typename T, int SUMS>
__device__ inline void multicast_store(const wgmma_work &work, const multicast_tile &tile, const float (&sum)[SUMS]) {
    const matmul_args &args = work.args;
    if (!work.turned || !wgmma_plain<T>(args)) {
        wgmma_store<T>(work, tile.batch, tile.row, tile.column, sum);
        return;
    }
    if (args.m % 8 != 0) {
        wgmma_store_turned<T>(work, tile.batch, tile.row, tile.column, sum);
        return;
    }
    const int quad = int(threadIdx.x) % 32 / 4, lane = int(threadIdx.x) % 4, warp = int(threadIdx.x) % WARPGROUP / 32;
    const float scale = float(args.alpha);
    const int64_t m = tile.row + warp * 16 + lane % 2 * 8, n = tile.column + lane / 2 * 8 + quad;
    T *const to = static_cast<T *>(args.c) + wgmma_place(work, tile.batch, m, n);
    const int64_t left = m < args.m ? args.n - n : 0;
    constexpr int SQUARES = squares_at_once<SUMS / 8>;
#pragma unroll
    for (int j = 0; j < SUMS; j += 8 * SQUARES) {
        uint32_t word[SQUARES][4];
#pragma unroll
        for (int i = 0; i < SQUARES * 4; i++)
            word[i / 4][i % 4] = fragment_transpose(pack<T>(scale * sum[j + i * 2], scale * sum[j + i * 2 + 1]));
        quad_transpose(word);
#pragma unroll
        for (int i = 0; i < SQUARES; i++) {
            const int line = (j + i * 8) * 2;
            if (line < left)
                *reinterpret_cast<uint4 *>(to + line * args.m) =
                    make_uint4(word[i][0], word[i][1], word[i][2], word[i][3]);
        }
    }
}

/* ---- k cut over the blocks of a cluster -------------------------------------------------------------------------- */

/* A block's sums, in the shared memory that held its stages. With this pitch the four rows that half a warp writes, 8
 * bytes per thread, fall into different banks. */
template <int ROWS, int COLUMNS> struct multicast_sums { alignas(16) float row[ROWS][COLUMNS + 8]; };

/* Leaves a consumer's sums in shared memory, after all consumers have read their last stage. (No copy is still in
 * flight: the consumers waited for each, also for those that other blocks made.) */
template <int ROWS, int COLUMNS>
__device__ inline void multicast_leave(multicast_sums<ROWS, COLUMNS> &sums, int consumer,
                                       const float (&sum)[COLUMNS / 2]) {
    const int quad = int(threadIdx.x) % 32 / 4, lane = int(threadIdx.x) % 4, warp = int(threadIdx.x) % WARPGROUP / 32;
    warpgroups_sync<1, ROWS / 64 * WARPGROUP>();
#pragma unroll
    for (int j = 0; j < COLUMNS / 2; j += 2) {
        float *row = sums.row[consumer * 64 + warp * 16 + j % 4 / 2 * 8 + quad];
        *reinterpret_cast<float2 *>(row + j / 4 * 8 + lane * 2) = make_float2(sum[j], sum[j + 1]);
    }
}

/* Adds up one tile, after all blocks of the cluster have left their sums. Block `piece` adds a share of the rows,
 * reading the shared memory of the others: those whose rank is `place` within their piece, of `sharing` blocks. Pieces
 * are added in order: the same bits every run. Threads go along what is adjacent in C. Another block's memory is far,
 * so a thread has 8 reads under way: with fewer pieces, of several places. */
template <typename T, int PIECES, int ROWS, int COLUMNS>
__device__ inline void multicast_gather(const wgmma_work &work, multicast_sums<ROWS, COLUMNS> &sums,
                                        const multicast_tile &tile, int piece, int sharing, int place) {
    constexpr int FOURS = COLUMNS / 4, SHARE = ROWS / PIECES, ALL = SHARE * FOURS, EACH = 8 / PIECES;
    for (int first = int(threadIdx.x); first < ALL; first += int(blockDim.x) * EACH) {
        float4 part[EACH][PIECES];
        int row[EACH], column[EACH];
#pragma unroll
        for (int each = 0; each < EACH; each++) {
            const int at = first + each * int(blockDim.x), i = min(at, ALL - 1);
            row[each] = at < ALL ? piece * SHARE + (work.turned ? i % SHARE : i / FOURS) : ROWS;
            column[each] = (work.turned ? i / SHARE : i % FOURS) * 4;
            const float *here = &sums.row[min(row[each], ROWS - 1)][column[each]];
#pragma unroll
            for (int other = 0; other < PIECES; other++)
                part[each][other] =
                    *reinterpret_cast<const float4 *>(cluster_shared(here, uint32_t(other * sharing + place)));
        }
#pragma unroll
        for (int each = 0; each < EACH; each++) {
            float sum[4] = {};
#pragma unroll
            for (const float4 &add : part[each]) sum[0] += add.x, sum[1] += add.y, sum[2] += add.z, sum[3] += add.w;
            const int64_t m = tile.row + row[each];
            if (row[each] < ROWS && m < work.args.m)
                wgmma_store_four<T>(work, tile.batch, m, tile.column + column[each], sum);
        }
    }
}

#endif
