/* multicast_store.cuh - how multicast.cu stores a consumer's 64 rows of sums.
 *
 *     rows of C begin on 16 bytes     sums go through shared memory, where they lie as C does, in slabs of 64 columns:
 *                                     the copy engine stores one while the consumer writes the next, or goes on with
 *                                     the next tile; a tile of 128 x 256 took 2.4 us when threads stored it
 *     else                            threads store words from registers; a row that begins between two words takes
 *                                     each pair's first half from the next thread
 *     sums are not only scaled        one by one (matmul_store), through shared memory as floats
 *
 * If k is cut, a block stores only the columns that are its own. If the product is `turned` (multicast_work), a thread
 * writes its sums to other addresses. The kernel waits for the last copies before it uses shared memory again. */
#ifndef KERNELS_MATMUL_MULTICAST_STORE_CUH
#define KERNELS_MATMUL_MULTICAST_STORE_CUH

#include "multicast_choice.cuh"

/* What a kernel works on. `turned`: the product was turned (matmul_turn), so element (m, n) lies at (n, m) of C. */
struct multicast_work {
    matmul_args args;
    bool turned;
};

/* The index in C of element (m, n) of the product as the kernel sees it. */
__device__ inline int64_t multicast_index(const multicast_work &work, int64_t batch, int64_t m, int64_t n) {
    return work.turned ? (batch * work.args.n + n) * work.args.m + m : (batch * work.args.m + m) * work.args.n + n;
}

/* Does storing a sum only scale it in float, since no other launch adds to it? */
template <typename T> __host__ __device__ inline bool multicast_plain(const matmul_args &args) {
    return args.first && args.last && matmul_in_float<T>(args.alpha);
}

/* A block's tile: the matrix of the stack, its first row and column. */
struct multicast_tile {
    int batch, row, column;
};

/* How sums are stored in C, as in the table above: by the copy engine, in words from registers, or one by one. */
enum multicast_out { OUT_COPIES, OUT_WORDS, OUT_SINGLY };
/* The number of pieces of k, and the number of this block's piece. Groups of 16 columns are dealt to the pieces in
 * turn. */
struct multicast_owner {
    int pieces, piece;
};
/* A group of 16 columns: the piece that owns it, and its number among that piece's groups. */
struct multicast_columns {
    int owner = 0, index = 0;
    __device__ void advance(int pieces) {
        if (++owner == pieces) owner = 0, index++;
    }
};

/* A consumer's slabs of 64 columns in shared memory: the first one, and the bytes from one to the next. */
struct multicast_staging {
    uint8_t *slab;
    int stride;
    __device__ multicast_staging after(int slabs) const { return {slab + slabs * stride, stride}; }
};

/* ---- words from registers ---------------------------------------------------------------------------------------- */

/* Transposes an 8 x 8 fragment of 16-bit elements, two neighbours of a row per thread. */
__device__ inline uint32_t fragment_transpose(uint32_t word) {
    uint32_t transposed;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(word));
    return transposed;
}

/* Stores four fragments of 8 x 8 in shared memory; thread 8i + j gives the address of row (`columns`: column) j of
 * fragment i. */
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

/* Two sums rounded to T, in one word. */
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

/* Stores a row of a tile in words, from c[line] on; `remaining` elements of the row of C lie there. A quad of threads
 * holds the row, each thread two sums of every eight; sum[at] is the thread's first. `exists`: else nothing is stored,
 * but the thread still takes part in exchanges. */
template <typename T, int SUMS>
__device__ inline void store_row(void *c, int64_t line, int64_t remaining, float scale, bool exists, int at,
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
            store_word<T>(c, line + n, own, remaining - n);
            continue;
        }
        if (j == 0 && lane == 0) store_word<T>(c, line, own, min(remaining, int64_t(1)));
        const bool last = j + 4 == SUMS && lane == 3; /* what follows is another block's */
        store_word<T>(c, line + n + 1, own >> 16 | next << 16,
                      last ? min(remaining - n - 1, int64_t(1)) : remaining - n - 1);
    }
}

/* Stores a warpgroup's 64 rows of sums, each of which is a column of C: a thread stores two neighbours at a time. */
template <typename T, int SUMS>
__device__ inline void multicast_store_turned(const multicast_work &work, int64_t batch, int64_t row, int64_t column,
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
                store_word<T>(args.c, multicast_index(work, batch, m + half * 8, n), word, args.m - m - half * 8);
        }
    }
}

/* ---- through shared memory --------------------------------------------------------------------------------------- */

/* Leaves 64 rows and WIDE columns of a consumer's sums in shared memory, from column `first` on: in boxes of WIDTH
 * columns or, turned, in lines of 64 rows; swizzled (tma.cuh). A warp writes 16 x 16 at a time: each of its threads
 * gives the address of 8 neighbours in C. */
template <typename T, int WIDTH, int WIDE, int SUMS>
__device__ inline void multicast_write_slab(const multicast_work &work, uint8_t *slab, int first,
                                            const float (&sum)[SUMS]) {
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) % WARPGROUP / 32;
    const float scale = float(work.args.alpha);
    const int row = warp * 16 + lane / 8 % 2 * 8 + (work.turned ? 0 : lane % 8);
    const int column = lane / 16 * 8 + (work.turned ? lane % 8 : 0);
#pragma unroll
    for (int j = 0; j < WIDE && first + j < SUMS * 2; j += 16) {
        uint32_t word[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int at = ((first + j) / 2 + i * 2) % SUMS;
            word[i] = pack<T>(scale * sum[at], scale * sum[at + 1]);
        }
        const int offset = work.turned ? (j + column) * 128 + row * 2
                                       : j / WIDTH * WIDTH * 128 + row * WIDTH * 2 + (j % WIDTH + column) * 2;
        fragments_store(slab + (offset ^ (offset >> 7 & (work.turned ? 7 : WIDTH / 8 - 1)) << 4), word, work.turned);
    }
    tma_store_fence();
}

/* Starts copies of a slab's boxes to C; for one thread. */
template <int WIDTH, int WIDE, int COLUMNS>
__device__ inline void multicast_copy_slab(const multicast_work &work, const multicast_tile &tile,
                                           const CUtensorMap *c_map, const uint8_t *slab, int first) {
    if (tile.row >= work.args.m) return;
#pragma unroll
    for (int j = 0; j < WIDE && first + j < COLUMNS; j += WIDTH) {
        const int row = tile.row, column = tile.column + first + j;
        if (column < work.args.n)
            tma_store(c_map, slab + j * 128, work.turned ? row : column, work.turned ? column : row, tile.batch);
    }
}

/* Stores 16 columns of sums one by one: they go through shared memory as floats. */
template <typename T, int SUMS>
__device__ inline void multicast_store_singly(const multicast_work &work, const multicast_tile &tile, float *staging,
                                              int first, int barrier, const float (&sum)[SUMS]) {
    const int thread = int(threadIdx.x) % WARPGROUP, quad = thread % 32 / 4, lane = thread % 4, warp = thread / 32;
    warpgroup_sync(barrier);
#pragma unroll
    for (int j = 0; j < 8; j += 2)
        *reinterpret_cast<float2 *>(staging + (warp * 16 + j % 4 / 2 * 8 + quad) * 16 + j / 4 * 8 + lane * 2) =
            make_float2(sum[(first / 2 + j) % SUMS], sum[(first / 2 + j) % SUMS + 1]);
    warpgroup_sync(barrier);
    for (int i = thread; i < 64 * 16; i += WARPGROUP) {
        const int row = work.turned ? i % 64 : i / 16, column = work.turned ? i / 64 : i % 16;
        const int64_t m = tile.row + row, n = tile.column + first + column;
        if (m < work.args.m && n < work.args.n)
            matmul_store<T>(work.args, multicast_index(work, tile.batch, m, n), staging[row * 16 + column]);
    }
}

/* Stores a consumer's 64 rows of sums at `tile`, through its slabs in shared memory. `next_slab`: the number of the
 * slab to use next, if tile after tile is stored; `once`: there is one tile, and a slab for each 64 of its columns. */
template <typename T, int SUMS>
__device__ inline void multicast_store(const multicast_work &work, const multicast_tile &tile, const CUtensorMap *c_map,
                                       enum multicast_out out, bool once, const multicast_owner &owns,
                                       const multicast_staging &staging, int &next_slab, const float (&sum)[SUMS]) {
    constexpr int COLUMNS = SUMS * 2, WIDTH = multicast_box<COLUMNS>, SLABS = multicast_slabs<COLUMNS>;
    const int barrier = 1 + int(threadIdx.x) / WARPGROUP;
    const bool first_warp = threadIdx.x % WARPGROUP < 32;
    if (out == OUT_SINGLY) {
        multicast_columns columns16;
#pragma unroll
        for (int first = 0; first < COLUMNS; first += 16, columns16.advance(owns.pieces))
            if (columns16.owner == owns.piece)
                multicast_store_singly<T>(work, tile, reinterpret_cast<float *>(staging.slab), first, barrier, sum);
    } else if (owns.pieces > 1) {
        const auto offset = [&](int i) { return staging.slab + i / 4 * staging.stride + i % 4 * 2048; };
        multicast_columns columns16;
#pragma unroll
        for (int first = 0; first < COLUMNS; first += 16, columns16.advance(owns.pieces))
            if (columns16.owner == owns.piece)
                multicast_write_slab<T, 16, 16>(work, offset(columns16.index), first, sum);
        warpgroup_sync(barrier);
        if (!first_warp || !elect_one()) return;
        for (int first = owns.piece * 16, i = 0; first < COLUMNS; first += owns.pieces * 16, i++)
            multicast_copy_slab<16, 16, COLUMNS>(work, tile, c_map, offset(i), first);
        tma_store_commit();
    } else if (out == OUT_COPIES && once) {
#pragma unroll
        for (int first = 0; first < COLUMNS; first += 64)
            multicast_write_slab<T, WIDTH, 64>(work, staging.slab + first / 64 * staging.stride, first, sum);
        warpgroup_sync(barrier);
        if (!first_warp || !elect_one()) return;
#pragma unroll
        for (int first = 0; first < COLUMNS; first += 64)
            multicast_copy_slab<WIDTH, 64, COLUMNS>(work, tile, c_map, staging.slab + first / 64 * staging.stride,
                                                    first);
        tma_store_commit();
    } else if (out == OUT_COPIES) {
#pragma unroll
        for (int first = 0; first < COLUMNS; first += 64) {
            uint8_t *const slab = staging.slab + next_slab * staging.stride;
            next_slab = (next_slab + 1) % SLABS;
            if (first_warp && elect_one()) tma_store_wait<SLABS - 1>();
            warpgroup_sync(barrier);
            multicast_write_slab<T, WIDTH, 64>(work, slab, first, sum);
            warpgroup_sync(barrier);
            if (!first_warp || !elect_one()) continue;
            multicast_copy_slab<WIDTH, 64, COLUMNS>(work, tile, c_map, slab, first);
            tma_store_commit();
        }
    } else if (work.turned) {
        multicast_store_turned<T>(work, tile.batch, tile.row, tile.column, sum);
    } else {
        const matmul_args &args = work.args;
        const int64_t row = tile.row + int(threadIdx.x) % WARPGROUP / 32 * 16 + int(threadIdx.x) % 32 / 4;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int64_t m = row + half * 8;
            store_row<T>(args.c, multicast_index(work, tile.batch, m, tile.column), args.n - tile.column,
                         float(args.alpha), m < args.m, half * 2, sum);
        }
    }
}

#endif
