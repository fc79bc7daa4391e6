/* skinny_dmma.cuh - the workers of skinny.cu for float64 on tensor cores, for more than four lines of S.
 *
 * As in skinny_mma.cuh X is the left operand of the instruction, 16 lines by 4 of k, and vectors are taken as they lie
 * in memory. Thread 4g + t has
 *
 *     k adjacent      2 of k of line "g" and of line "g + 8": the first of each are one instruction's, the second ones
 *                     the next one's
 *     lines adjacent  2 lines of a k: rows g and g + 8 of one instruction
 *
 * Lines two apart begin at the same distance from a boundary of 16 bytes: with k adjacent a warp takes such lines, with
 * lines adjacent every second k. Multiply-adds (skinny_fma.cuh) would read S once for each of its lines, and wait for
 * chains of additions: they are slower than memory. */
#ifndef KERNELS_MATMUL_SKINNY_DMMA_CUH
#define KERNELS_MATMUL_SKINNY_DMMA_CUH

#include "skinny_mma.cuh"

/* The two elements of a vector. */
__device__ inline double2 skinny_doubles(const uint4 &v) {
    double2 d;
    memcpy(&d, &v, sizeof d);
    return d;
}

template <int TILES> constexpr int skinny_dmma_resident = TILES == 1 ? 2 : 1;

/* k adjacent: each warp takes 16 lines. */
template <int TILES, bool ALIGNED_>
struct skinny_dmma_k_adjacent
    : skinny_tensor_k_adjacent<double, TILES, IN_FLIGHT / skinny_dmma_resident<TILES> / 2, ALIGNED_> {
    using base = skinny_tensor_k_adjacent<double, TILES, IN_FLIGHT / skinny_dmma_resident<TILES> / 2, ALIGNED_>;
    using base::g, base::t, base::part, base::phase, base::next, base::end, base::ring, base::line, base::load;
    using base::P, base::SLOTS, base::STEP, base::HALO, base::ALIGNED, base::COLUMNS, base::SUMS;
    static constexpr int RESIDENT = skinny_dmma_resident<TILES>, CLOCKS = 7 + 34 * TILES;

    /* In shared memory rows of S begin 16 banks apart; their last 8 elements stay zero. */
    __host__ __device__ static constexpr int pitch(int chunk) { return chunk + (ALIGNED ? 8 : 24); }
    __host__ __device__ static constexpr int staged(int chunk, int rows) { return rows * pitch(chunk); }
    __device__ static int at(int j, int k, int chunk) { return j * pitch(chunk) + HALO + k; }

    static constexpr int CHAINS = TILES > 1 ? 1 : 2; /* of additions, which do not wait for each other */
    double sums[CHAINS][TILES][4] = {};

    using base::base;

    __device__ void start(const skinny_work &work, const skinny_block &block) {
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++) load(slot);
        if (!ALIGNED && block.split == 0 && part == 0) add_edges(work, block);
    }

    /* Adds the elements that `load` skips, one of each of its lines per thread: threads 0 and 1 of a quad those of the
     * first vector, 2 and 3 those of the last. */
    __device__ void add_edges(const skinny_work &work, const skinny_block &block) {
        const int64_t first = line(work, block.tile, int(threadIdx.x) / 32 % work.abreast);
        const double *const matrix = static_cast<const double *>(work.x) + block.matrix * work.x_stride;
        const int k = skinny_edge<P>(work.k, phase, t >= P, t % P);
        const double x[] = {this->element_of(work, matrix, first, 0, k), this->element_of(work, matrix, first, 1, k)};
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            const int row = 8 * tile + g;
            const double s = k >= 0 && row < work.small ? skinny_small<double>(work, block.matrix, row, k) : 0;
            multiply(sums[0][tile], x, s);
        }
    }

    __device__ void step(const skinny_work &work, const double *small, int l) {
        const int k = next;
        this->advance(work);
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++) {
            const double2 x[] = {skinny_doubles(ring[slot][0]), skinny_doubles(ring[slot][1])};
            int element = HALO + l + part * STEP + slot * 4 * P + t * P - phase;
            /* A vector that was not loaded is zero, and so must be its elements of S: 0 times NaN is NaN. */
            if (!ALIGNED && unsigned(k + slot * 4 * P) >= unsigned(end)) element = work.chunk + HALO;
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                const int row = 8 * tile + g;
                const double *const at = small + row * pitch(work.chunk) + element;
                double2 s = {0, 0};
                if (row < work.small) s = ALIGNED ? *reinterpret_cast<const double2 *>(at) : double2{at[0], at[1]};
                multiply(sums[0][tile], {x[0].x, x[1].x}, s.x);
                multiply(sums[CHAINS - 1][tile], {x[0].y, x[1].y}, s.y);
            }
            load(slot);
        }
    }

    __device__ void leave(const skinny_work &, double *to) const {
        to += int(threadIdx.x) / 32 * SUMS;
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                double2 sum = {sums[0][tile][2 * r], sums[0][tile][2 * r + 1]};
                if (CHAINS > 1) sum.x += sums[CHAINS - 1][tile][2 * r], sum.y += sums[CHAINS - 1][tile][2 * r + 1];
                *reinterpret_cast<double2 *>(to + (g + 8 * r) * COLUMNS + 8 * tile + 2 * t) = sum;
            }
    }
};

/* Lines adjacent: a warp takes LINES lines of every second k, and another warp the other k; up to four such pairs stand
 * side by side. */
template <int TILES, bool ALIGNED_> struct skinny_dmma_lines_adjacent {
    using element = double;
    static constexpr bool K_ADJACENT = false, ALIGNED = ALIGNED_;
    static constexpr int P = 2, COLUMNS = 8 * TILES, UNITS = WARPS, WIDEST = WARPS / P, TOGETHER = 1;
    static constexpr int RESIDENT = skinny_dmma_resident<TILES>, SLOTS = 2,
                         LINES = SLOTS * 8 * P; /* 128 bytes of a k per load */
    static constexpr int DEPTH = IN_FLIGHT / RESIDENT / SLOTS, STEP = 4 * DEPTH, HALO = 0;
    static constexpr int SUMS = LINES * COLUMNS, CLOCKS = 26 * TILES;

    /* In shared memory a row of S has its even k, then its odd ones. Rows begin 8 banks apart: no conflicts. */
    __host__ __device__ static constexpr int rows(int small) { return small; }
    __host__ __device__ static constexpr int pitch(int chunk) { return chunk + 4; }
    __host__ __device__ static constexpr int staged(int chunk, int rows) { return rows * pitch(chunk); }
    __device__ static int at(int j, int k, int chunk) { return j * pitch(chunk) + k % 2 * (chunk / 2) + k / 2; }

    const double *from; /* the next loads' first vector */
    int limit[SLOTS];   /* the k at which loads end */
    int next;           /* the k of that first vector */
    int g, t, part;
    uint4 ring[DEPTH][SLOTS];
    double sums[SLOTS][TILES][4] = {};

    /* How far the lines of k lie behind a boundary of 16 bytes, in elements. */
    __device__ static int phase(const skinny_work &work, const skinny_block &block, int k) {
        return skinny_phase<skinny_dmma_lines_adjacent>(block.matrix * work.x_stride + k * work.lines);
    }

    __device__ skinny_dmma_lines_adjacent(const skinny_work &work, const skinny_block &block) {
        const int warp = int(threadIdx.x) / 32;
        g = int(threadIdx.x) % 32 / 4, t = int(threadIdx.x) % 4, part = warp / work.abreast;
        const int64_t first =
            line(work, block.tile, warp % work.abreast * LINES) - phase(work, block, part % P) + P * g;
        next = block.k_begin + part % P + P * (part / P * STEP + t);
        from = static_cast<const double *>(work.x) + block.matrix * work.x_stride + next * work.lines + first;
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++) limit[slot] = first + slot * 8 * P < work.lines ? block.k_end : 0;
    }

    __device__ void load(const skinny_work &work, int deep, int slot) {
        ring[deep][slot] = load_16(from + 4 * P * deep * work.lines + slot * 8 * P, next + 4 * P * deep < limit[slot]);
    }

    __device__ void start(const skinny_work &work, const skinny_block &) {
#pragma unroll
        for (int deep = 0; deep < DEPTH; deep++)
#pragma unroll
            for (int slot = 0; slot < SLOTS; slot++) load(work, deep, slot);
    }

    __device__ void step(const skinny_work &work, const double *small, int l) {
        next += work.parts * STEP;
        from += work.parts * STEP * work.lines;
        const double *const element = small + part % P * (work.chunk / 2) + l / 2 + part / P * STEP + t;
#pragma unroll
        for (int deep = 0; deep < DEPTH; deep++) {
            double s[TILES];
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                const int row = 8 * tile + g;
                s[tile] = row < work.small ? element[row * pitch(work.chunk) + 4 * deep] : 0;
            }
#pragma unroll
            for (int slot = 0; slot < SLOTS; slot++) {
                const double2 x = skinny_doubles(ring[deep][slot]);
#pragma unroll
                for (int tile = 0; tile < TILES; tile++) multiply(sums[slot][tile], {x.x, x.y}, s[tile]);
                load(work, deep, slot);
            }
        }
    }

    __device__ void leave(const skinny_work &, double *to) const {
        to += int(threadIdx.x) / 32 * SUMS;
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++)
#pragma unroll
            for (int tile = 0; tile < TILES; tile++)
#pragma unroll
                for (int r = 0; r < 2; r++)
                    *reinterpret_cast<double2 *>(to + (slot * 8 * P + P * g + r) * COLUMNS + 8 * tile + 2 * t) =
                        double2{sums[slot][tile][2 * r], sums[slot][tile][2 * r + 1]};
    }

    /* The number of line x of a tile among all lines. */
    __device__ static int64_t line(const skinny_work &work, int64_t tile, int x) {
        return tile * work.tile_lines + x;
    }

    /* Adds the sums that the warps have left for line x and column j, in the order of the parts of k. */
    __device__ static double total(const skinny_work &work, const skinny_block &block, const double *sums, int x,
                                   int j) {
        double sum = 0;
        for (int part = 0; part < work.parts; part++) {
            const int index = x + phase(work, block, part % P);
            sum += sums[(part * work.abreast + index / LINES) * SUMS + index % LINES * COLUMNS + j];
        }
        return sum;
    }
};

#endif
