/* wgmma_store.cuh - how wgmma.cu stores: a tile's sums from registers to C, or, where k is cut over the pairs of
 * a cluster, through shared memory, where they are added up.
 *
 * 16-bit results are narrower than a store should be, and rows of C may begin anywhere. Sums lie in fragments
 * (wgmma.cuh): a quad of threads holds 8 neighbours of a row, two each. They are moved between the threads first:
 *
 *     rows begin on 16 bytes      32 neighbours of a row: each thread of the quad gathers 8, one 16-byte store
 *     elsewhere                   a row that begins between two words takes each pair's first half from the next
 *                                 thread: 4-byte stores, but for the first and the last element
 *     C seen from the side        8 x 8 fragments are transposed: each thread holds two neighbours of a column of sums,
 *     (`turned`)                  which is a row of C
 *
 * Elsewhere, 16-byte stores of what is shifted together from two threads' vectors took 17 to 36 % longer (2003 x 2005 x
 * 101 and 3001 x 3003 x 15, H200). */
#ifndef KERNELS_MATMUL_WGMMA_STORE_CUH
#define KERNELS_MATMUL_WGMMA_STORE_CUH

#include "wgmma.cuh"

/* What a kernel works on. `turned`: the product was turned (matmul_turn), so element (m, n) lies at (n, m) of C. */
struct wgmma_work {
    matmul_args args;
    bool turned;
};

__device__ inline int64_t wgmma_place(const wgmma_work &work, int64_t batch, int64_t m, int64_t n) {
    return work.turned ? (batch * work.args.n + n) * work.args.m + m : (batch * work.args.m + m) * work.args.n + n;
}

/* Is a sum only scaled, in float, and stored? */
template <typename T> __host__ __device__ inline bool wgmma_plain(const matmul_args &args) {
    return args.first && args.last && matmul_in_float<T>(args.alpha);
}

/* Transposes 4 x 4 squares of words between the four threads of a quad. Before: each thread holds word i of four
 * 16-byte vectors. After: each thread holds one whole vector. An exchange takes some 25 cycles, and few warps
 * run beside each other here: those of all squares are under way together. */
template <int SQUARES> __device__ inline void quad_transpose(uint32_t (&word)[SQUARES][4]) {
    const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
    uint32_t got[SQUARES][2];
#pragma unroll
    for (int i = 0; i < SQUARES * 2; i++) {
        const int at = i % 2 * 2;
        got[i / 2][i % 2] = __shfl_xor_sync(~0u, odd ? word[i / 2][at] : word[i / 2][at + 1], 1);
    }
#pragma unroll
    for (int i = 0; i < SQUARES * 2; i++)
        (odd ? word[i / 2][i % 2 * 2] : word[i / 2][i % 2 * 2 + 1]) = got[i / 2][i % 2];
#pragma unroll
    for (int i = 0; i < SQUARES * 2; i++)
        got[i / 2][i % 2] = __shfl_xor_sync(~0u, high ? word[i / 2][i % 2] : word[i / 2][i % 2 + 2], 2);
#pragma unroll
    for (int i = 0; i < SQUARES * 2; i++) (high ? word[i / 2][i % 2] : word[i / 2][i % 2 + 2]) = got[i / 2][i % 2];
}

/* How many squares, of so many, are transposed at a time. */
template <int ALL>
constexpr int squares_at_once = ALL % 4 == 0   ? 4
                                : ALL % 5 == 0 ? 5
                                : ALL % 3 == 0 ? 3
                                : ALL % 2 == 0 ? 2
                                               : 1;

/* Transposes an 8 x 8 fragment of 16-bit elements, two neighbours of a row per thread. */
__device__ inline uint32_t fragment_transpose(uint32_t word) {
    uint32_t transposed;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(word));
    return transposed;
}

/* Four fragments of 8 x 8 to shared memory; thread 8i + j says where row j of fragment i lies, or column j. */
__device__ inline void fragments_store(void *to, const uint32_t (&word)[4], bool columns) {
    if (columns)
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(to)),
                     "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3])
                     : "memory");
    else
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(to)),
                     "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3])
                     : "memory");
}

template <typename T> __device__ inline uint32_t pack(float low, float high) {
    const T both[] = {narrow<T>(low), narrow<T>(high)};
    uint32_t word;
    memcpy(&word, both, sizeof word);
    return word;
}

/* Stores the two elements of a word at c[at] and c[at + 1], of which `count` exist. */
template <typename T> __device__ inline void store_word(void *c, int64_t at, uint32_t word, int64_t count) {
    uint16_t *const to = static_cast<uint16_t *>(c) + at;
    if (count >= 2 && at % 2 == 0) {
        *reinterpret_cast<uint32_t *>(to) = word;
        return;
    }
    if (count >= 1) to[0] = uint16_t(word);
    if (count >= 2) to[1] = uint16_t(word >> 16);
}

/* A row's sums, of which a quad holds two in every eight; sum `at` is the thread's first one. The rest of the row, from
 * `column` on, has `left` elements. */
template <typename T, int SUMS>
__device__ inline void store_row(void *c, int64_t line, int64_t left, float scale, bool exists, int at,
                                 const float (&sum)[SUMS]) {
    const int lane = int(threadIdx.x) % 4;
    const bool between = line % 2; /* the row begins between two words */
#pragma unroll
    for (int j = 0; j < SUMS; j += 4) {
        const uint32_t own = pack<T>(scale * sum[j + at], scale * sum[j + at + 1]);
        const uint32_t ahead = j + 4 < SUMS ? pack<T>(scale * sum[(j + 4) % SUMS + at], 0) : 0;
        const uint32_t next = __shfl_sync(~0u, lane == 0 ? ahead : own, (lane + 1) % 4, 4);
        const int n = j * 2 + lane * 2;
        if (!exists) continue;
        if (!between) {
            store_word<T>(c, line + n, own, left - n);
            continue;
        }
        if (j == 0 && lane == 0) store_word<T>(c, line, own, min(left, int64_t(1)));
        const bool last = j + 4 == SUMS && lane == 3; /* what follows is another block's */
        store_word<T>(c, line + n + 1, own >> 16 | next << 16, last ? min(left - n - 1, int64_t(1)) : left - n - 1);
    }
}

/* A warpgroup's 64 rows of sums, which lie along columns of C: each thread of a quad stores two neighbours. */
template <typename T, int SUMS>
__device__ inline void wgmma_store_turned(const wgmma_work &work, int64_t batch, int64_t row, int64_t column,
                                          const float (&sum)[SUMS]) {
    const matmul_args &args = work.args;
    const int quad = int(threadIdx.x) % 32 / 4, lane = int(threadIdx.x) % 4, warp = int(threadIdx.x) % WARPGROUP / 32;
    const float scale = float(args.alpha);
    const int64_t m = row + warp * 16 + lane * 2;
#pragma unroll
    for (int j = 0; j < SUMS; j += 4) {
        const int64_t n = column + j * 2 + quad;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint32_t word = fragment_transpose(pack<T>(scale * sum[j + half * 2], scale * sum[j + half * 2 + 1]));
            if (n < args.n)
                store_word<T>(args.c, wgmma_place(work, batch, m + half * 8, n), word, args.m - m - half * 8);
        }
    }
}

/* Stores a warpgroup's 64 rows of sums; the first sum is C[row][column] of matrix `batch`. */
template <typename T, int SUMS>
__device__ inline void wgmma_store(const wgmma_work &work, int64_t batch, int64_t row, int64_t column,
                                   const float (&sum)[SUMS]) {
    const matmul_args &args = work.args;
    const int quad = int(threadIdx.x) % 32 / 4, lane = int(threadIdx.x) % 4, warp = int(threadIdx.x) % WARPGROUP / 32;
    const float scale = float(args.alpha);
    if (!wgmma_plain<T>(args)) {
#pragma unroll
        for (int i = 0; i < SUMS; i++) {
            const int64_t m = row + warp * 16 + i / 2 % 2 * 8 + quad, n = column + i / 4 * 8 + lane * 2 + i % 2;
            if (m < args.m && n < args.n) matmul_store<T>(args, wgmma_place(work, batch, m, n), sum[i]);
        }
        return;
    }
    if constexpr (SUMS <= 64) /* wider tiles are not turned: they would be the same */
        if (work.turned) {
            wgmma_store_turned<T>(work, batch, row, column, sum);
            return;
        }
    constexpr int SQUARES = squares_at_once<(SUMS + 15) / 16>;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int64_t m = row + warp * 16 + half * 8 + quad, line = (batch * args.m + m) * args.n + column;
        if (args.n % 8 == 0) {
#pragma unroll
            for (int j = 0; j < SUMS; j += 16 * SQUARES) {
                uint32_t word[SQUARES][4];
#pragma unroll
                for (int i = 0; i < SQUARES * 4; i++) {
                    const int at = j + i * 4 + half * 2;
                    word[i / 4][i % 4] = pack<T>(scale * sum[at % SUMS], scale * sum[at % SUMS + 1]);
                }
                quad_transpose(word);
#pragma unroll
                for (int i = 0; i < SQUARES; i++) {
                    const int at = (j + i * 16) * 2 + lane * 8;
                    if (m < args.m && column + at < args.n && at < SUMS * 2)
                        *reinterpret_cast<uint4 *>(static_cast<T *>(args.c) + line + at) =
                            make_uint4(word[i][0], word[i][1], word[i][2], word[i][3]);
                }
            }
        } else {
            store_row<T>(args.c, line, args.n - column, scale, m < args.m, half * 2, sum);
        }
    }
}

/* ---- k cut over the pairs of a cluster --------------------------------------------------------------------------- */

/* A block's sums, in the shared memory that held its stages. With this pitch the four rows that half a warp writes, 8
 * bytes per thread, fall into different banks. */
template <int TILE_N> struct wgmma_sums { alignas(16) float row[WGMMA_TILE_M][TILE_N + 8]; };

/* Leaves a consumer's sums in shared memory, after both consumers have read their last stage. (No copy is still in
 * flight: the consumers waited for each.) */
template <int TILE_N>
__device__ inline void wgmma_leave(wgmma_sums<TILE_N> &sums, int consumer, const float (&sum)[TILE_N / 2]) {
    const int quad = int(threadIdx.x) % 32 / 4, lane = int(threadIdx.x) % 4, warp = int(threadIdx.x) % WARPGROUP / 32;
    warpgroups_sync<1, 2 * WARPGROUP>();
#pragma unroll
    for (int j = 0; j < TILE_N / 2; j += 2) {
        float *row = sums.row[consumer * 64 + warp * 16 + j % 4 / 2 * 8 + quad];
        *reinterpret_cast<float2 *>(row + j / 4 * 8 + lane * 2) = make_float2(sum[j], sum[j + 1]);
    }
}

/* Stores four neighbours in a row of sums, from (m, n) on. (__stwb is an ordinary store that the compiler does not
 * split.) */
template <typename T>
__device__ inline void wgmma_store_four(const wgmma_work &work, int64_t batch, int64_t m, int64_t n,
                                        const float (&sum)[4]) {
    const matmul_args &args = work.args;
    const float scale = float(args.alpha);
    if (!work.turned && args.n % 4 == 0 && wgmma_plain<T>(args)) {
        if (n < args.n)
            __stwb(reinterpret_cast<uint2 *>(static_cast<T *>(args.c) + wgmma_place(work, batch, m, n)),
                   make_uint2(pack<T>(scale * sum[0], scale * sum[1]), pack<T>(scale * sum[2], scale * sum[3])));
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (n + i < args.n) matmul_store<T>(args, wgmma_place(work, batch, m, n + i), sum[i]);
}

/* Adds up one tile, after all blocks of the cluster have left their sums. Each block adds a share of the rows, reading
 * the shared memory of the others. Pieces are added in order: the same bits every run. Threads go along what is
 * adjacent in C. */
template <typename T, int PIECES, int TILE_N>
__device__ inline void wgmma_gather(const wgmma_work &work, wgmma_sums<TILE_N> &sums) {
    constexpr int FOURS = TILE_N / 4;
    const tile_place tile = wgmma_tile(work.args, TILE_N, blockIdx.x / WGMMA_CLUSTER);
    const int pieces = int(gridDim.y), rows = WGMMA_TILE_M / pieces;
    for (int i = int(threadIdx.x); i < rows * FOURS; i += WGMMA_THREADS) {
        const int within = work.turned ? i % rows : i / FOURS, column = (work.turned ? i / rows : i % FOURS) * 4;
        const int row = int(blockIdx.y) * rows + within;
        float4 part[PIECES];
#pragma unroll
        for (int piece = 0; piece < PIECES; piece++) {
            const unsigned rank = unsigned(piece) * WGMMA_CLUSTER + cluster_column();
            part[piece] = piece < pieces
                              ? *reinterpret_cast<const float4 *>(cluster_shared(&sums.row[row][column], rank))
                              : float4();
        }
        float sum[4] = {};
#pragma unroll
        for (const float4 &add : part) sum[0] += add.x, sum[1] += add.y, sum[2] += add.z, sum[3] += add.w;
        const int64_t m = tile.row + row;
        if (m < work.args.m) wgmma_store_four<T>(work, tile.batch, m, tile.column + column, sum);
    }
}

#endif
