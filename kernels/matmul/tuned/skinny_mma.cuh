/* skinny_mma.cuh - the workers of skinny.cu for 16-bit types, on tensor cores.
 *
 * X is the left operand of the instruction, 16 lines by 16 of k, S the right one, 16 of k by 8 lines. Any 16 of k will
 * do, in any order, if both operands have the same. So a vector of 16 bytes of X goes into the instruction's registers
 * as it lies in memory. Thread 4g + t has
 *
 *     k adjacent      8 of k of line "g" and 8 of line "g + 8": both operands' words 0, 1 are one instruction's,
 *                     words 2, 3 the next one's
 *     lines adjacent  8 lines of four k: byte permutes pair the k; lines 2i and 2i + 1 are rows g and g + 8 of
 *                     instruction i
 *
 * Rows of X begin on 16 bytes only if their length is a multiple of 8. Lines 8 apart always begin at the same
 * distance from a boundary of 16 bytes. So with k adjacent a warp takes lines 8 apart, with lines adjacent every eighth
 * k. It reads aligned vectors, and begins its walk up to 7 elements early: `phase`. */
#ifndef KERNELS_MATMUL_SKINNY_MMA_CUH
#define KERNELS_MATMUL_SKINNY_MMA_CUH

#include "../../core/fragments.cuh"
#include "skinny.cuh"

/* Two elements in a register, the first in the low half. */
template <typename T> __device__ inline uint32_t skinny_pair(T low, T high) {
    const T both[] = {low, high};
    uint32_t word;
    memcpy(&word, both, sizeof word);
    return word;
}

/* What both tensor core workers with k adjacent do alike (skinny.cuh says what members mean). TILES: 8 lines of S each.
 * Thread 4g + t has vectors of lines "g" and "g + 8". */
template <typename T, int TILES, int SLOTS_, bool ALIGNED_> struct skinny_tensor_k_adjacent {
    using element = T;
    using S = accumulator<T>;
    static constexpr bool K_ADJACENT = true, ALIGNED = ALIGNED_;
    static constexpr int P = 16 / sizeof(T), COLUMNS = 8 * TILES, LINES = 16, UNITS = WARPS, WIDEST = WARPS;
    static constexpr int TOGETHER = LINES * P, SLOTS = SLOTS_, STEP = SLOTS * 4 * P, SUMS = LINES * COLUMNS;
    static constexpr int HALO = ALIGNED ? 0 : P;
    __host__ __device__ static constexpr int rows(int small) { return small; }

    const uint4 *from[2]; /* the next loads' vector in slot 0, of the two lines */
    int limit[2];         /* the vector exists if its k, as unsigned, is less */
    int next, end;        /* k of that vector; k from which on no whole vector begins */
    int g, t, part, phase;
    uint4 ring[SLOTS][2];

    __device__ skinny_tensor_k_adjacent(const skinny_work &work, const skinny_block &block) {
        const int warp = int(threadIdx.x) / 32;
        g = int(threadIdx.x) % 32 / 4, t = int(threadIdx.x) % 4, part = warp / work.abreast;
        const int64_t first = line(work, block.tile, warp % work.abreast);
        phase = skinny_phase<skinny_tensor_k_adjacent>(block.matrix * work.x_stride + first * work.k);
        next = block.k_begin + part * STEP + t * P - phase;
        end = max(work.k - P + 1, 0);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int64_t own_line = first + P * (g + 8 * r);
            from[r] = reinterpret_cast<const uint4 *>(static_cast<const T *>(work.x) + block.matrix * work.x_stride +
                                                      own_line * work.k + next);
            limit[r] = own_line < work.lines ? max(min(end, block.k_begin + work.k_each - phase), 0) : 0;
        }
    }

    /* Starts the loads of vector `slot` of both lines. */
    __device__ void load(int slot) {
#pragma unroll
        for (int r = 0; r < 2; r++)
            ring[slot][r] = load_16(from[r] + slot * 4, unsigned(next + slot * 4 * P) < unsigned(limit[r]));
    }

    /* Moves on by a step of all units that share k. */
    __device__ void advance(const skinny_work &work) {
        next += work.parts * STEP;
#pragma unroll
        for (int r = 0; r < 2; r++) from[r] += work.parts * (STEP / P);
    }

    /* Element k of line "g + 8r"; 0 if k is negative or the line does not exist. `matrix`: of X; `first`: the warp's
     * first line. */
    __device__ T element_of(const skinny_work &work, const T *matrix, int64_t first, int r, int k) const {
        const int64_t own_line = first + P * (g + 8 * r);
        return k >= 0 && own_line < work.lines ? matrix[own_line * work.k + k] : narrow<T>(0.0f);
    }

    /* The number in X of line `x` of a tile. Each 16 P adjacent lines form P groups of 16 lines that are P apart. A
     * warp takes a group; consecutive x belong to the groups of the block in turn. */
    __device__ static int64_t line(const skinny_work &work, int64_t tile, int x) {
        const int64_t group = tile * work.abreast + x % work.abreast;
        return group / P * TOGETHER + group % P + P * (x / work.abreast);
    }

    __device__ static S total(const skinny_work &work, const skinny_block &, const S *sums, int x, int j) {
        S sum = 0;
        for (int part = 0; part < work.parts; part++)
            sum += sums[(part * work.abreast + x % work.abreast) * SUMS + x / work.abreast * COLUMNS + j];
        return sum;
    }
};

template <typename T, int TILES, bool ALIGNED_>
struct skinny_mma_k_adjacent : skinny_tensor_k_adjacent<T, TILES, IN_FLIGHT / 4, ALIGNED_> {
    using base = skinny_tensor_k_adjacent<T, TILES, IN_FLIGHT / 4, ALIGNED_>; /* 256 bytes of a line in a step */
    using base::g, base::t, base::part, base::phase, base::next, base::end, base::ring, base::line, base::load;
    using base::P, base::SLOTS, base::STEP, base::HALO, base::ALIGNED, base::COLUMNS, base::SUMS;
    static constexpr int RESIDENT = 2, CLOCKS = 42 * TILES;

    /* In shared memory a row of S begins 16 banks, or an odd number of banks, after the previous row: there are no or
     * few conflicts. Its last 10 elements stay zero. */
    __host__ __device__ static constexpr int pitch(int chunk) { return chunk + (ALIGNED ? 32 : HALO + 10); }
    __host__ __device__ static constexpr int staged(int chunk, int rows) { return (rows * pitch(chunk) + 7) / 8 * 8; }
    __device__ static int at(int j, int k, int chunk) { return j * pitch(chunk) + HALO + k; }

    float sums[2][TILES][4] = {};

    using base::base;

    /* Adds the products of vectors x of both lines with s, by two instructions. */
    __device__ void multiply_vectors(const uint4 (&x)[2], int tile, const uint32_t (&s)[4]) {
        multiply<T>(sums[0][tile], {x[0].x, x[1].x, x[0].y, x[1].y}, s[0], s[1]);
        multiply<T>(sums[1][tile], {x[0].z, x[1].z, x[0].w, x[1].w}, s[2], s[3]);
    }

    __device__ void start(const skinny_work &work, const skinny_block &block) {
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++) load(slot);
        if (!ALIGNED && block.split == 0 && part == 0) add_edges(work, block);
    }

    /* Adds the vectors that `load` skips, by halves: thread 0 of a quad has the first vectors of its lines, thread 1
     * the last ones. */
    __device__ void add_edges(const skinny_work &work, const skinny_block &block) {
        const int64_t first = line(work, block.tile, int(threadIdx.x) / 32 % work.abreast);
        const T *const matrix = static_cast<const T *>(work.x) + block.matrix * work.x_stride;
        const T zero = narrow<T>(0.0f);
#pragma unroll 1
        for (int half = 0; half < P; half += P / 2) {
            T x[2][4], s[TILES][4];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int k = t < 2 ? skinny_edge<P>(work.k, phase, t == 1, half + e) : -1;
#pragma unroll
                for (int r = 0; r < 2; r++) x[r][e] = this->element_of(work, matrix, first, r, k);
#pragma unroll
                for (int tile = 0; tile < TILES; tile++) {
                    const int row = 8 * tile + g;
                    s[tile][e] = k >= 0 && row < work.small ? skinny_small<T>(work, block.matrix, row, k) : zero;
                }
            }
#pragma unroll
            for (int tile = 0; tile < TILES; tile++)
                multiply<T>(sums[0][tile],
                            {skinny_pair(x[0][0], x[0][1]), skinny_pair(x[1][0], x[1][1]),
                             skinny_pair(x[0][2], x[0][3]), skinny_pair(x[1][2], x[1][3])},
                            skinny_pair(s[tile][0], s[tile][1]), skinny_pair(s[tile][2], s[tile][3]));
        }
    }

    /* Sets `s` to the elements of S, the small operand, by which vector `slot` is multiplied. `l`: where the block's
     * step begins in the chunk. */
    __device__ void fetch(const skinny_work &work, const T *small, int tile, int slot, int l, int k,
                          uint32_t (&s)[4]) const {
        const int row = 8 * tile + g;
        int from_element = HALO + l + part * STEP + slot * 4 * P + t * P - phase;
        if constexpr (ALIGNED) {
            uint4 v = {0, 0, 0, 0};
            if (row < work.small) v = *reinterpret_cast<const uint4 *>(small + row * pitch(work.chunk) + from_element);
            s[0] = v.x, s[1] = v.y, s[2] = v.z, s[3] = v.w;
        } else {
            /* A vector that was not loaded is zero, and so must be its elements of S: 0 times NaN is NaN. */
            if (unsigned(k) >= unsigned(end)) from_element = work.chunk + HALO;
            const unsigned order = from_element % 2 ? 0x5432 : 0x3210;
            const uint32_t *const words =
                reinterpret_cast<const uint32_t *>(small + row * pitch(work.chunk)) + from_element / 2;
            uint32_t w[5];
#pragma unroll
            for (int i = 0; i < 5; i++) w[i] = row < work.small ? words[i] : 0;
#pragma unroll
            for (int i = 0; i < 4; i++) s[i] = __byte_perm(w[i], w[i + 1], order);
        }
    }

    __device__ void step(const skinny_work &work, const T *small, int l) {
        const int k = next;
        this->advance(work);
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++) {
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                uint32_t s[4];
                fetch(work, small, tile, slot, l, k + slot * 4 * P, s);
                multiply_vectors(ring[slot], tile, s);
            }
            load(slot);
        }
    }

    __device__ void leave(const skinny_work &, float *to) const {
        to += int(threadIdx.x) / 32 * SUMS;
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const float low = sums[0][tile][2 * r] + sums[1][tile][2 * r];
                const float high = sums[0][tile][2 * r + 1] + sums[1][tile][2 * r + 1];
                *reinterpret_cast<float2 *>(to + (g + 8 * r) * COLUMNS + 8 * tile + 2 * t) = make_float2(low, high);
            }
    }
};

/* A warp takes 64 lines, 128 bytes of every eighth k. */
template <typename T, int TILES, bool ALIGNED_> struct skinny_mma_lines_adjacent {
    using element = T;
    static constexpr bool K_ADJACENT = false, ALIGNED = ALIGNED_;
    static constexpr int P = 8, COLUMNS = 8 * TILES, UNITS = WARPS, WIDEST = 1, TOGETHER = 1;
    static constexpr int RESIDENT = 2, LINES = 8 * P, DEPTH = IN_FLIGHT / RESIDENT / 4, STEP = 16 * DEPTH, HALO = 0;
    static constexpr int SUMS = LINES * COLUMNS + LINES; /* 8 more after every 8 lines: other banks */
    static constexpr int CLOCKS = 32 * TILES;

    /* In shared memory the k of a warp, which are 8 apart, are adjacent. Rows of S begin 8 banks apart: no
     * conflicts. */
    __host__ __device__ static constexpr int rows(int small) { return small; }
    __host__ __device__ static constexpr int pitch(int chunk) { return chunk + 16; }
    __host__ __device__ static constexpr int staged(int chunk, int rows) { return rows * pitch(chunk); }
    __device__ static int at(int j, int k, int chunk) { return j * pitch(chunk) + k % 8 * (chunk / 8) + k / 8; }

    const T *from;   /* the next loads' first vector */
    int limit, next; /* the k at which loads end; the k of that first vector */
    int g, t, warp;
    uint4 ring[DEPTH][4];
    float sums[4][TILES][4] = {};

    /* How far the lines of k lie behind a boundary of 16 bytes, in elements. */
    __device__ static int phase(const skinny_work &work, const skinny_block &block, int k) {
        return skinny_phase<skinny_mma_lines_adjacent>(block.matrix * work.x_stride + k * work.lines);
    }

    __device__ skinny_mma_lines_adjacent(const skinny_work &work, const skinny_block &block) {
        warp = int(threadIdx.x) / 32, g = int(threadIdx.x) % 32 / 4, t = int(threadIdx.x) % 4;
        const int64_t first = line(work, block.tile, 0) - phase(work, block, warp) + P * g;
        next = block.k_begin + warp + 32 * t;
        from = static_cast<const T *>(work.x) + block.matrix * work.x_stride + next * work.lines + first;
        limit = first < work.lines ? block.k_end : 0;
    }

    __device__ void load(const skinny_work &work, int deep) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            ring[deep][i] = load_16(from + (128 * deep + 8 * i) * work.lines, next + 128 * deep + 8 * i < limit);
    }

    __device__ void start(const skinny_work &work, const skinny_block &) {
#pragma unroll
        for (int deep = 0; deep < DEPTH; deep++) load(work, deep);
    }

    __device__ void step(const skinny_work &work, const T *small, int l) {
        next += DEPTH * 128;
        from += DEPTH * 128 * work.lines;
#pragma unroll
        for (int deep = 0; deep < DEPTH; deep++) {
            uint2 s[TILES];
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                const int row = 8 * tile + g;
                s[tile] = uint2{0, 0};
                if (row < work.small)
                    s[tile] =
                        *reinterpret_cast<const uint2 *>(small + at(row, warp, work.chunk) + l / 8 + 16 * deep + 4 * t);
            }
            multiply_vectors(ring[deep], s);
            load(work, deep);
        }
    }

    /* Adds the products of four k of eight lines. */
    __device__ void multiply_vectors(const uint4 (&v)[4], const uint2 (&s)[TILES]) {
        const uint32_t x[4][4] = {{v[0].x, v[0].y, v[0].z, v[0].w},
                                  {v[1].x, v[1].y, v[1].z, v[1].w},
                                  {v[2].x, v[2].y, v[2].z, v[2].w},
                                  {v[3].x, v[3].y, v[3].z, v[3].w}};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t a[4] = {__byte_perm(x[0][i], x[1][i], 0x5410), __byte_perm(x[0][i], x[1][i], 0x7632),
                                   __byte_perm(x[2][i], x[3][i], 0x5410), __byte_perm(x[2][i], x[3][i], 0x7632)};
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) multiply<T>(sums[i][tile], a, s[tile].x, s[tile].y);
        }
    }

    /* The index of a line's first sum in shared memory. */
    __device__ static int position(int line) {
        return line * COLUMNS + line / 8 * 8;
    }

    __device__ void leave(const skinny_work &, float *to) const {
        to += warp * SUMS + 2 * t;
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                const float(&sum)[4] = sums[i][tile];
                const int row = 8 * g + 2 * i;
                *reinterpret_cast<float2 *>(to + position(row) + 8 * tile) = make_float2(sum[0], sum[1]);
                *reinterpret_cast<float2 *>(to + position(row + 1) + 8 * tile) = make_float2(sum[2], sum[3]);
            }
    }

    __device__ static int64_t line(const skinny_work &work, int64_t tile, int x) {
        return tile * work.tile_lines + x;
    }

    __device__ static float total(const skinny_work &work, const skinny_block &block, const float *sums, int x, int j) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) sum += sums[w * SUMS + position(x + phase(work, block, w)) + j];
        return sum;
    }
};

#endif
