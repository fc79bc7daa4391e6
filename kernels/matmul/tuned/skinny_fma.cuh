/* skinny_fma.cuh - the workers of skinny.cu for float32 and float64, by multiply-adds.
 *
 *     k adjacent      8 lanes read 128 bytes of a line, the other lanes 128 bytes of three neighbours; then the warp
 *                     reads ROWS - 1 more groups of four lines. An element of S, read once, is used for ROWS lines.
 *     lines adjacent  a warp reads 512 bytes of a k. All lanes use the same elements of S, 16 bytes in one read.
 *
 * If rows of X are no whole vectors, they begin anywhere. With k adjacent, lines four apart begin at the same distance
 * from a boundary of 16 bytes, and a lane's lines are four apart. With lines adjacent, every fourth k (float64: second)
 * begins at the same distance, and a warp takes such k. */
#ifndef KERNELS_MATMUL_SKINNY_FMA_CUH
#define KERNELS_MATMUL_SKINNY_FMA_CUH

#include "skinny.cuh"

/* Adds up the arrays `v` of COUNT sums of eight lanes. Each exchange between lanes halves the number of sums that a
 * lane holds, down to one. A lane's remaining sums are in v[0], v[1] ...; returns the index that v[0] had at first.
 * BIT: the exchange to begin with, 1. */
template <int COUNT, int BIT, typename S> __device__ inline int skinny_halve(S *v, int lane) {
    if constexpr (BIT == 8) {
        return 0;
    } else if constexpr (COUNT > 1) {
        const bool upper = lane & BIT;
#pragma unroll
        for (int i = 0; i < COUNT / 2; i++) {
            const S give = upper ? v[i] : v[i + COUNT / 2], keep = upper ? v[i + COUNT / 2] : v[i];
            v[i] = keep + __shfl_xor_sync(~0u, give, BIT);
        }
        return (upper ? COUNT / 2 : 0) + skinny_halve<COUNT / 2, 2 * BIT>(v, lane);
    } else {
        v[0] += __shfl_xor_sync(~0u, v[0], BIT);
        return skinny_halve<1, 2 * BIT>(v, lane);
    }
}

/* The elements of a vector. */
template <typename T> __device__ inline skinny_vector<T, 16 / int(sizeof(T))> skinny_elements(const uint4 &v) {
    skinny_vector<T, 16 / int(sizeof(T))> x;
    memcpy(&x, &v, sizeof v);
    return x;
}

/* The worker with k adjacent (skinny.cuh says what members mean). */
template <typename T, int COLUMNS_, bool ALIGNED_> struct skinny_fma_k_adjacent {
    using element = T;
    using S = accumulator<T>;
    static constexpr bool K_ADJACENT = true, ALIGNED = ALIGNED_;
    static constexpr int P = 16 / sizeof(T), COLUMNS = COLUMNS_, UNITS = WARPS, WIDEST = WARPS, TOGETHER = 1;
    static constexpr int ROWS = COLUMNS * sizeof(S) <= 64 ? 4 : 2; /* of a lane: at most 64 registers of sums */
    static constexpr int RESIDENT = ROWS * COLUMNS * sizeof(S) < 256 ? 2 : 1;
    static constexpr int LINES = 4 * ROWS, SLOTS = RESIDENT == 1 && ROWS == 4 ? 3 : IN_FLIGHT / RESIDENT / ROWS,
                         STEP = SLOTS * 8 * P;
    static constexpr int HALO = ALIGNED ? 0 : P;
    static constexpr int SUMS = LINES * COLUMNS, CLOCKS = sizeof(T) == 2 ? 36 : 4 + 11 * COLUMNS;

    /* In shared memory S is [vector of k][COLUMNS][P], or [k][COLUMNS] if lines begin anywhere: then it ends in P
     * zeros of each column. One more column keeps lanes in different banks. All distances are constants. */
    static constexpr int PITCH = COLUMNS > 1 ? COLUMNS + 1 : 1;
    __host__ __device__ static constexpr int rows(int) { return COLUMNS; }
    __host__ __device__ static constexpr int staged(int chunk, int) { return (chunk + 2 * HALO) * PITCH; }
    __device__ static int at(int j, int k, int) {
        return ALIGNED ? (k / P * PITCH + j) * P + k % P : (k + HALO) * PITCH + j;
    }

    const T *from;   /* the next loads' vector in slot 0, of the first line */
    int limit[ROWS]; /* a line's vector exists if its k, as unsigned, is less */
    int next, end;   /* k of that vector; k from which on no whole vector begins */
    int part, phase; /* number of the warp's share of k; elements by which a line's first vector begins early */
    uint4 ring[SLOTS][ROWS];
    S sums[ROWS][COLUMNS] = {};

    __device__ static int lane() { return int(threadIdx.x) % 8; }

    __device__ skinny_fma_k_adjacent(const skinny_work &work, const skinny_block &block) {
        const int warp = int(threadIdx.x) / 32;
        const int64_t first = own_line(work, block);
        part = warp / work.abreast;
        phase = skinny_phase<skinny_fma_k_adjacent>(block.matrix * work.x_stride + first * work.k);
        next = block.k_begin + part * STEP + lane() * P - phase;
        end = max(work.k - P + 1, 0);
        from = static_cast<const T *>(work.x) + block.matrix * work.x_stride + first * work.k + next;
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            limit[r] = first + 4 * r < work.lines ? max(min(end, block.k_begin + work.k_each - phase), 0) : 0;
    }

    /* The thread's first line. */
    __device__ static int64_t own_line(const skinny_work &work, const skinny_block &block) {
        const int warp = int(threadIdx.x) / 32;
        return line(work, block.tile, warp % work.abreast * LINES) + int(threadIdx.x) % 32 / 8;
    }

    __device__ void load(const skinny_work &work, int slot) {
        const T *at = from + slot * 8 * P;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            ring[slot][r] = load_16(at, unsigned(next + slot * 8 * P) < unsigned(limit[r]));
            at += 4 * int64_t(work.k);
        }
    }

    __device__ void start(const skinny_work &work, const skinny_block &block) {
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++) load(work, slot);
        if constexpr (!ALIGNED)
            if (block.split == 0 && part == 0) add_edges(work, block);
    }

    /* Adds the elements that `load` skips, at the ends of the lines, in vectors that other lines share: one of each of
     * its lines per lane. */
    __device__ void add_edges(const skinny_work &work, const skinny_block &block) {
        const int k = lane() < 2 * P ? skinny_edge<P>(work.k, phase, lane() >= P, lane() % P) : -1;
        if (k < 0) return;
        const T *const matrix = static_cast<const T *>(work.x) + block.matrix * work.x_stride;
        const int64_t first = own_line(work, block);
        T x[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) x[r] = first + 4 * r < work.lines ? matrix[(first + 4 * r) * work.k + k] : T(0);
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            const T s = j < work.small ? skinny_small<T>(work, block.matrix, j, k) : T(0);
#pragma unroll
            for (int r = 0; r < ROWS; r++) sums[r][j] += x[r] * s;
        }
    }

    __device__ void step(const skinny_work &work, const T *small, int l) {
        const int k = next;
        next += work.parts * STEP;
        from += work.parts * STEP;
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++) {
            int k_staged = l + part * STEP + slot * 8 * P + lane() * P - phase;
            /* A vector that was not loaded is zero, and so must be its elements of S: 0 times NaN is NaN. */
            if (!ALIGNED && unsigned(k + slot * 8 * P) >= unsigned(end)) k_staged = work.chunk;
            const T *const from_small = small + at(0, k_staged, 0);
            skinny_vector<T, P> x[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; r++) x[r] = skinny_elements<T>(ring[slot][r]);
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                skinny_vector<T, P> s;
                if constexpr (ALIGNED) {
                    s = skinny_elements<T>(load_shared_16(from_small + j * P));
                } else {
#pragma unroll
                    for (int p = 0; p < P; p++) s.x[p] = from_small[p * PITCH + j];
                }
#pragma unroll
                for (int p = 0; p < P; p++)
#pragma unroll
                    for (int r = 0; r < ROWS; r++) sums[r][j] += S(widen(x[r].x[p])) * S(widen(s.x[p]));
            }
            load(work, slot);
        }
    }

    __device__ void leave(const skinny_work &, S *to) {
        constexpr int COUNT = ROWS * COLUMNS, LEFT = COUNT > 8 ? COUNT / 8 : 1;
        const int first = skinny_halve<COUNT, 1>(&sums[0][0], lane());
        to += int(threadIdx.x) / 32 * SUMS;
#pragma unroll
        for (int i = 0; i < LEFT; i++) {
            const int r = (first + i) / COLUMNS, j = (first + i) % COLUMNS;
            to[(4 * r + int(threadIdx.x) % 32 / 8) * COLUMNS + j] = sums[i / COLUMNS][i % COLUMNS];
        }
    }

    __device__ static int64_t line(const skinny_work &work, int64_t tile, int x) {
        return tile * work.tile_lines + x;
    }

    __device__ static S total(const skinny_work &work, const skinny_block &, const S *sums, int x, int j) {
        S sum = 0;
        for (int part = 0; part < work.parts; part++) sum += sums[part * work.abreast * SUMS + x * COLUMNS + j];
        return sum;
    }
};

/* The worker with lines adjacent. A team of 4 to 256 / P threads reads the lines of one k, 16 bytes each; all teams of
 * a block read the same lines, of other k. The k of all teams of a warp have the same remainder by P; the teams with
 * this remainder take such k in turn. */
template <typename T, int COLUMNS_, bool ALIGNED_> struct skinny_fma_lines_adjacent {
    using element = T;
    using S = accumulator<T>;
    static constexpr bool K_ADJACENT = false, ALIGNED = ALIGNED_;
    static constexpr int P = 16 / sizeof(T), COLUMNS = COLUMNS_, LEAST = 4, LINES = LEAST * P, UNITS = THREADS / LEAST,
                         WIDEST = UNITS / P, TOGETHER = 1;
    static constexpr int RESIDENT = 2, HALO = 0;
    static constexpr int STEP = COLUMNS * P < 64 ? IN_FLIGHT / RESIDENT : 6; /* 64 sums leave few registers */
    static constexpr int WARP_LINES = 32 * P, SUMS = WARP_LINES * COLUMNS;
    static constexpr int CLOCKS = sizeof(T) == 8 ? 12 : 8 * COLUMNS;
    static constexpr int UNIT = COLUMNS < P ? COLUMNS : P; /* of S, in one read */

    /* In shared memory S is [k % P][k / P][COLUMNS]: what teams of a warp read is adjacent. */
    __host__ __device__ static constexpr int rows(int) { return COLUMNS; }
    __host__ __device__ static constexpr int pitch(int chunk) { return chunk / P + 8; }
    __host__ __device__ static constexpr int staged(int chunk, int rows) { return rows * P * pitch(chunk); }
    __device__ static int at(int j, int k, int chunk) { return (k % P * pitch(chunk) + k / P) * COLUMNS + j; }

    const T *from; /* the next load's vector */
    int left;      /* k that are left from there on */
    uint4 ring[STEP];
    S sums[COLUMNS][P] = {};

    __device__ static int threads(const skinny_work &work) { return LEAST * work.abreast; } /* of a team */

    /* The thread's first k, of the block's. Extents here are powers of two. */
    __device__ static int first_k(const skinny_work &work) {
        const unsigned beside = max(32 / threads(work), 1), team = threadIdx.x >> (31 - __clz(threads(work)));
        const unsigned group = team >> (31 - __clz(int(beside)));
        return int(group % P + (group / P * beside + team % beside) * P);
    }

    /* How far the lines of k lie behind a boundary of 16 bytes, in elements. */
    __device__ static int phase(const skinny_work &work, const skinny_block &block, int k) {
        return skinny_phase<skinny_fma_lines_adjacent>(block.matrix * work.x_stride + k * work.lines);
    }

    __device__ skinny_fma_lines_adjacent(const skinny_work &work, const skinny_block &block) {
        const int k = block.k_begin + first_k(work);
        const int64_t first =
            line(work, block.tile, 0) - phase(work, block, k) + (int(threadIdx.x) & (threads(work) - 1)) * P;
        from = static_cast<const T *>(work.x) + block.matrix * work.x_stride + k * work.lines + first;
        left = first < work.lines ? block.k_end - k : 0;
    }

    __device__ void load(const skinny_work &work, int i) {
        ring[i] = load_16(from, left > 0);
        from += work.parts * work.lines;
        left -= work.parts;
    }

    __device__ void start(const skinny_work &work, const skinny_block &) {
#pragma unroll
        for (int i = 0; i < STEP; i++) load(work, i);
    }

    __device__ void step(const skinny_work &work, const T *small, int l) {
        const T *at = small + skinny_fma_lines_adjacent::at(0, l + first_k(work), work.chunk);
#pragma unroll
        for (int i = 0; i < STEP; i++) {
            const skinny_vector<T, P> x = skinny_elements<T>(ring[i]);
#pragma unroll
            for (int j = 0; j < COLUMNS; j += UNIT) {
                skinny_vector<T, UNIT> s;
                if constexpr (sizeof s == 16)
                    s = skinny_elements<T>(load_shared_16(at + j));
                else
                    s = *reinterpret_cast<const skinny_vector<T, UNIT> *>(at + j);
#pragma unroll
                for (int u = 0; u < UNIT; u++)
#pragma unroll
                    for (int p = 0; p < P; p++) sums[j + u][p] += S(widen(x.x[p])) * S(widen(s.x[u]));
            }
            at += work.parts / P * COLUMNS;
            load(work, i);
        }
    }

    __device__ void leave(const skinny_work &work, S *to) {
        const int lane = int(threadIdx.x) % 32;
#pragma unroll 1
        for (int other = threads(work); other < 32; other *= 2)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
#pragma unroll
                for (int p = 0; p < P; p++) sums[j][p] += __shfl_xor_sync(~0u, sums[j][p], other);
        if (lane >= threads(work)) return;
        to += int(threadIdx.x) / 32 * SUMS + lane * P;
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            skinny_vector<S, P> v;
#pragma unroll
            for (int p = 0; p < P; p++) v.x[p] = sums[j][p];
            *reinterpret_cast<skinny_vector<S, P> *>(to + j * WARP_LINES) = v;
        }
    }

    __device__ static int64_t line(const skinny_work &work, int64_t tile, int x) {
        return tile * work.tile_lines + x;
    }

    __device__ static S total(const skinny_work &work, const skinny_block &block, const S *sums, int x, int j) {
        const int warps = max(threads(work) / 32, 1); /* of a team */
        S sum = 0;
#pragma unroll 4
        for (int warp = 0, k = 0; warp < WARPS; warp += warps, k = (k + 1) % P) {
            const unsigned index = unsigned(x + phase(work, block, k));
            sum += sums[(warp + index / WARP_LINES) * SUMS + j * WARP_LINES + index % WARP_LINES];
        }
        return sum;
    }
};

#endif
