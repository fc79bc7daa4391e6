/* skinny.cuh - the frame of skinny.cu: copies the small operand to shared memory, walks along k, and adds up the sums
 * of warps and blocks. skinny_mma.cuh, skinny_dmma.cuh and skinny_fma.cuh have the workers, which multiply.
 *
 * X is the large operand, of `lines` lines (rows of A or columns of B), S the small one, of at most 16 lines. A worker
 * is one of four: on tensor cores or not, with k or the lines adjacent in X. It states as `W`
 *
 *     element, COLUMNS            its type; lines of S that it computes, those that do not exist included
 *     K_ADJACENT, ALIGNED               is k adjacent in X; does every line (or row of lines) of X begin on 16 bytes
 *     P                           elements of 16 bytes
 *     RESIDENT                    blocks per multiprocessor: one, if its sums need many registers
 *     UNITS                       warps, or parts of them, into which it divides a block
 *     LINES, STEP                 lines of a unit; k that it takes at a time, of its share
 *     TOGETHER                    adjacent lines whose groups interleave (1: they do not)
 *     HALO                        k in shared memory before and behind a chunk, if lines begin anywhere
 *     CLOCKS                      of a scheduler for 512 bytes of X, as measured: sums over threads, reads of S, waits
 *     WIDEST                      the largest number of units side by side along the lines; the others share k
 *     rows(), staged(), at()      lines of S in shared memory, its elements there, the index of an element
 *     SUMS                        sums that a warp leaves in shared memory
 *     start(), step(), leave()    the first loads; STEP of k, and the loads of the next; the sums to shared memory
 *     line(), total()             the number in X of a line of the block's tile; a sum over all warps that share it
 *
 * In functions x is a line of the block's tile, j a line of S, and l a k counted from the chunk's first. */
#ifndef KERNELS_MATMUL_SKINNY_CUH
#define KERNELS_MATMUL_SKINNY_CUH

#include "../../core/cluster.cuh"
#include "../matmul.cuh"
#include "copies.cuh"

#define SKINNY          16 /* the most lines of S */
#define THREADS         256
#define WARPS           8
#define IN_FLIGHT       16    /* a thread's loads times a multiprocessor's blocks: 64 KiB; memory needs 30 KiB */
#define MIN_K           128   /* the least k of a block, if k is split over blocks */
#define MAX_BLOCK_RATIO 4     /* the most blocks over those that fill the device, if k is split over blocks */
#define MAX_LINES       256   /* the most lines of a tile, of any worker */
#define STAGED_BYTES    65536 /* of S in shared memory, unless a single step needs more */
#define EARLY_BYTES     20e6  /* of all operands, up to which a launch begins early */
#define SHARED_BYTES    96000 /* of a block, at most: what 8.6 and 8.9 have */

struct skinny_work {
    const void *x, *s;
    int64_t x_stride, s_stride; /* elements from one matrix to the next */
    int64_t lines, tiles;       /* of a matrix */
    int small, k;
    bool small_k_adjacent, small_last; /* is k adjacent in S; is C [line][small], not [small][line] */
    int abreast, parts;                /* units side by side along the lines; units that share their k */
    int tile_lines;
    int walked;         /* k that workers step through: less the last rows, or P - 1 more, as a line's first vector may
                           begin early */
    int last_rows;      /* of k, added one by one at the end: a vector there could reach past the operand */
    int splits, k_each; /* blocks that share a tile; k of each, the last may have less */
    int chunk;          /* of k, in shared memory at a time */
    unsigned *counters; /* one per tile of all matrices, zero before and after */
    void *planes;       /* [splits][batch][m][n] */
};

template <typename T, int COUNT> struct alignas(COUNT * sizeof(T)) skinny_vector { T x[COUNT]; };

/* The matrix, the tile and the part of k that a block works on. */
struct skinny_block {
    int64_t matrix, tile;
    int split, k_begin, k_end;
};

/* How far the element at `at` lies behind the last boundary of 16 bytes. (The operand begins at one.) */
template <typename W> __device__ inline int skinny_phase(int64_t at) {
    return W::ALIGNED ? 0 : int(at) & (W::P - 1);
}

/* ---- the small operand into shared memory ------------------------------------------------------------------------ */

/* Divides the numbers 0, 1, 2 ... into runs of `length`, and walks from a thread's own number to every THREADS-th after
 * it: number `at` of run `run`. It takes two divisions in all, because every block pays for it before it multiplies. */
struct skinny_walk {
    int length, run, at, runs_on, on; /* runs_on, on: what an advance adds to `run` and to `at` */

    __device__ explicit skinny_walk(int length_) : length(max(length_, 1)) {
        run = int(threadIdx.x / unsigned(length)), at = int(threadIdx.x) - run * length;
        runs_on = int(unsigned(THREADS) / unsigned(length)), on = THREADS - runs_on * length;
    }

    __device__ void advance() {
        run += runs_on, at += on;
        if (at >= length) at -= length, run++;
    }
};

/* Copies S, `chunk` of k from k0 - HALO on, into the worker's layout in shared memory, with zeros beyond its ends. Few
 * registers are free, because X's loads are in flight. Copies past the registers take at least 4 bytes, so elements of
 * 16 bits are read in aligned vectors of 16 bytes and taken apart. */
template <typename W, typename T = typename W::element>
__device__ inline void skinny_stage(const skinny_work &work, const skinny_block &block, int k0, T *to) {
    const int begin = max(k0 - W::HALO, 0), end = min(min(k0 + work.chunk, block.k_end), work.k);
    const int count = max(end - begin, 0), rows = W::rows(work.small), thread = int(threadIdx.x);
    if (W::HALO > 0 || count < work.chunk || work.small < rows) { /* the copies do not fill all of `to` */
        const int words = int(W::staged(work.chunk, rows) * sizeof(T) / sizeof(uint4));
#pragma unroll 1
        for (int i = thread; i < words; i += THREADS) reinterpret_cast<uint4 *>(to)[i] = uint4{0, 0, 0, 0};
        __syncthreads();
    }
    if (count == 0) return;
    /* Either the k of a line are adjacent, or the lines of a k and then all of S. */
    const bool k_adjacent = work.small_k_adjacent;
    const int ahead = begin - k0;
    const int64_t first = block.matrix * work.s_stride + int64_t(begin) * (k_adjacent ? 1 : work.small);
    const T *const from = static_cast<const T *>(work.s) + first;
    const bool in_vectors = first % W::P == 0 && work.k % W::P == 0 && count % W::P == 0;
    if (W::K_ADJACENT && W::ALIGNED && k_adjacent && in_vectors) { /* whole vectors, in the same order as in memory */
#pragma unroll 1
        for (skinny_walk walk(count / W::P); walk.run < work.small; walk.advance())
            copy_async<16>(shared_address(to + W::at(walk.run, walk.at * W::P + ahead, work.chunk)),
                           from + int64_t(walk.run) * work.k + walk.at * W::P, true);
        copy_commit();
        copy_wait<0>();
    } else if constexpr (sizeof(T) > 2) { /* single elements */
        if (k_adjacent)
#pragma unroll 1
            for (skinny_walk walk(count); walk.run < work.small; walk.advance())
                copy_async<int(sizeof(T))>(shared_address(to + W::at(walk.run, walk.at + ahead, work.chunk)),
                                           from + int64_t(walk.run) * work.k + walk.at, true);
        else
#pragma unroll 1
            for (skinny_walk walk(work.small); walk.run < count; walk.advance())
                copy_async<int(sizeof(T))>(shared_address(to + W::at(walk.at, walk.run + ahead, work.chunk)),
                                           from + walk.run * work.small + walk.at, true);
        copy_commit();
        copy_wait<0>();
    } else { /* vectors of each run of adjacent elements, two at a time, whose elements are stored one by one */
        const int runs = k_adjacent ? work.small : 1, length = k_adjacent ? count : count * work.small;
        skinny_walk walk(length / W::P + 2); /* vectors, with those at both ends that are not whole */
#pragma unroll 1
        while (walk.run < runs) {
            uint4 v[2];
            int i[2], run[2];
#pragma unroll
            for (int u = 0; u < 2; u++) {
                run[u] = walk.run;
                i[u] =
                    walk.run < runs ? walk.at * W::P - (int(first + int64_t(walk.run) * work.k) & (W::P - 1)) : length;
                v[u] = load_16(from + int64_t(run[u]) * work.k + i[u], i[u] >= 0 && i[u] + W::P <= length);
                walk.advance();
            }
#pragma unroll
            for (int u = 0; u < 2; u++) {
                const bool loaded = i[u] >= 0 && i[u] + W::P <= length;
                int k = max(i[u], 0), j = run[u];
                if (!k_adjacent) j = k, k = int(unsigned(k) / unsigned(work.small)), j -= k * work.small;
                T x[W::P];
                memcpy(x, &v[u], sizeof x);
#pragma unroll
                for (int p = 0; p < W::P; p++) {
                    if (i[u] + p < 0 || i[u] + p >= length) continue;
                    to[W::at(j, k + ahead, work.chunk)] = loaded ? x[p] : from[int64_t(run[u]) * work.k + i[u] + p];
                    if (k_adjacent)
                        k++;
                    else if (++j == work.small)
                        j = 0, k++;
                }
            }
        }
    }
}

/* An element of S in global memory. */
template <typename T> __device__ inline T skinny_small(const skinny_work &work, int64_t matrix, int j, int k) {
    return static_cast<const T *>(
        work.s)[matrix * work.s_stride +
                (work.small_k_adjacent ? int64_t(j) * work.k + k : int64_t(k) * work.small + j)];
}

/* ---- lines that begin anywhere ----------------------------------------------------------------------------------- */

/* A worker walks the vectors that belong to one line of X alone (k adjacent). Up to two vectors belong to others too:
 * the line's first, if it begins within a vector, and its last. Returns the k of element e of the first vector (`last`:
 * of the last one); -1: the line has no such element, or the vector is walked. */
template <int P> __device__ inline int skinny_edge(int k, int phase, bool last, int e) {
    const int tail = (k + phase) / P; /* the number of the last vector, if it is not whole */
    const int at = (last ? tail * P : 0) - phase + e;
    const bool cut = last ? (k + phase) % P != 0 && (phase == 0 || tail > 0) : phase > 0;
    return cut && at >= 0 && at < k ? at : -1;
}

/* ---- the sums ---------------------------------------------------------------------------------------------------- */

/* Calls `f(x, j, at)` for every output of the block's tile: the tile's line, the line of S, and where it lies in C. */
template <typename W, typename F>
__device__ inline void skinny_outputs(const matmul_args &args, const skinny_work &work, const skinny_block &block,
                                      F f) {
    for (int i = int(threadIdx.x); i < work.tile_lines * work.small; i += THREADS) {
        const int across = work.small_last ? work.small : work.tile_lines;
        const int first = int(unsigned(i) / unsigned(across)), second = i - first * across;
        const int x = work.small_last ? first : second, j = work.small_last ? second : first;
        const int64_t line = W::line(work, block.tile, x);
        if (line < work.lines)
            f(x, j, line,
              block.matrix * args.m * args.n + (work.small_last ? line * work.small + j : j * work.lines + line));
    }
}

/* Adds the warps' sums and the last rows, and stores the results, or leaves them in this block's plane if k is split;
 * then the last block of a tile adds the planes and stores the results. */
template <typename W>
__device__ inline void skinny_finish(const matmul_args &args, const skinny_work &work, const skinny_block &block,
                                     const accumulator<typename W::element> *sums) {
    using T = typename W::element;
    using S = accumulator<T>;
    const int64_t elements = args.batch * args.m * args.n;
    S *const planes = static_cast<S *>(work.planes);
    skinny_outputs<W>(args, work, block, [&](int x, int j, int64_t line, int64_t at) {
        S sum = W::total(work, block, sums, x, j);
        const T *const matrix = static_cast<const T *>(work.x) + block.matrix * work.x_stride;
        if (block.split == 0)
            for (int k = work.k - work.last_rows; k < work.k; k++)
                sum += S(widen(matrix[k * work.lines + line])) * S(widen(skinny_small<T>(work, block.matrix, j, k)));
        if (work.splits == 1)
            matmul_store<T>(args, at, sum);
        else
            planes[block.split * elements + at] = sum;
    });
    if (work.splits == 1 || !last_block(work.counters + block.matrix * work.tiles + block.tile, work.splits)) return;
    skinny_outputs<W>(args, work, block, [&](int, int, int64_t, int64_t at) {
        S sum = 0;
#pragma unroll 8
        for (int split = 0; split < work.splits; split++) sum += planes[split * elements + at];
        matmul_store<T>(args, at, sum);
    });
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

/* Blocks per multiprocessor; the compiler needs more registers for 8.0. */
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ < 900
template <typename W> constexpr int skinny_resident = 1;
#else
template <typename W> constexpr int skinny_resident = W::RESIDENT;
#endif

/* Computes a share of k of one tile per block. */
template <typename W>
__global__ void __launch_bounds__(THREADS, skinny_resident<W>)
    skinny_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ skinny_work work) {
    using T = typename W::element;
    extern __shared__ uint4 shared[]; /* S; at the end, the sums of all warps */
    const int64_t number = block_number(), tiles = work.tiles * args.batch;
    const int64_t split = number < tiles ? 0 : quotient(number, tiles), at = number - split * tiles;
    if (split >= work.splits) return;
    const int64_t matrix = at < work.tiles ? 0 : quotient(at, work.tiles);
    const int k_begin = int(split) * work.k_each, k_end = min(k_begin + work.k_each, work.walked);
    const skinny_block block = {matrix, at - matrix * work.tiles, int(split), k_begin, k_end};
    const int block_step = work.parts * W::STEP;

    T *const small = reinterpret_cast<T *>(shared);
    W worker(work, block);
    launch_wait();
    launch_next();
    worker.start(work, block);
#pragma unroll 1
    for (int k = k_begin; k < k_end; k += work.chunk) {
        if (k > k_begin) __syncthreads();
        skinny_stage<W>(work, block, k, small);
        __syncthreads();
        const int count = min(work.chunk, k_end - k);
#pragma unroll 1
        for (int l = 0; l < count; l += block_step) worker.step(work, small, l);
    }
    auto *const sums = reinterpret_cast<accumulator<T> *>(shared);
    __syncthreads();
    worker.leave(work, sums);
    __syncthreads();
    skinny_finish<W>(args, work, block, sums);
}

#endif
