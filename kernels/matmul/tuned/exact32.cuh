/* exact32.cuh - the two roles of exact32.cu: loaders that bring floats in and cut those of B into slices, and
 * consumers that cut those of A and multiply the slices.
 *
 * Shared memory holds rings of slots, 32 of k each: floats of A and of B as copies leave them (exact_index), and slices
 * of B as tensor cores read them (tma.cuh): slabs of 64 rows of 128 bytes, of each slice. Two slots share slabs: where
 * k is adjacent, the left and right half of each row; elsewhere the upper and lower half of the rows. */
#ifndef KERNELS_EXACT32_CUH
#define KERNELS_EXACT32_CUH

#include "shares.cuh"
#include "wgmma.cuh"
#include <cfloat>
#include <cuda_bf16.h>

#define SLICES 3
#define SLOT_K 32 /* k of a slot: the tensor core adds up the products of one slot */
#define AHEAD  2  /* slots by which copies are ahead of the cutting */

/* Two warpgroups load; two consume, that is, multiply and add to their sums, with ADDER_REGISTERS. Afterwards all add
 * the parts of other blocks, with the SHARED_REGISTERS that they began with. */
#define EXACT_THREADS    (4 * WARPGROUP)
#define LOADERS          (2 * WARPGROUP)
#define CONSUMERS        (2 * WARPGROUP)
#define LOADER_REGISTERS 72
#define SHARED_REGISTERS 128
#define ADDER_REGISTERS  184

/* A block's tile. In a tile of 128 rows each of the two consumers has 64 rows. In a tile of 64 rows each has all rows
 * and every other slot: then PARTS is 2, and an element is the sum of two sums. */
template <int ROWS_, int COLUMNS_> struct exact_shape {
    static constexpr int ROWS = ROWS_, COLUMNS = COLUMNS_, PARTS = 128 / ROWS, SLOTS = 4;
    static constexpr int PITCH = COLUMNS + 8; /* of a row of sums: the four rows that half a warp writes, 8 bytes per
                                                 thread, fall into different banks */
    static constexpr int PLANE = ROWS * PITCH;
    struct shared_t {
        uint8_t b[SLOTS / 2][SLICES][COLUMNS / 64][SLAB_BYTES];
        float a[SLOTS][ROWS * SLOT_K], raw[AHEAD + 1][COLUMNS * SLOT_K]; /* copies of A; of B */
        uint64_t full[SLOTS], empty[SLOTS];                              /* barriers of the slots of a and b */
        uint64_t cut; /* barrier: every loader has cut all slots. `full` implies it, but racecheck cannot see that */
        uint2 line[ROWS + COLUMNS]; /* the extremes of A's lines, then of B's (exact_widen) */
        uint32_t tiny;              /* has any line tiny numbers? */
    };
    static_assert(sizeof(float) * PARTS * PLANE <= offsetof(shared_t, a), "sums take the place of slices");

    static constexpr matmul_cut cut(double flops, double start) {
        /* rows, columns, slots, step, min_k, flops, alone, start, order, shares, even, waits: struct matmul_cut. */
        return {ROWS, COLUMNS, 1, SLOT_K, 2 * SLOT_K, flops, 1, start, PARTS, true, 0, true};
    }
};

/* ---- what is known of a line ------------------------------------------------------------------------------------- */

/* A line's extremes are a uint2. x: 2 * bits(largest magnitude); y: ~(2 * bits(least non-zero magnitude) - 1); both 0:
 * nothing seen yet. exact_widen merges two of a line. */
__device__ inline void exact_widen(uint2 &line, uint2 more) {
    line.x = max(line.x, more.x);
    line.y = max(line.y, more.y);
}

__device__ inline bool exact_has_nan(uint2 line) {
    return line.x > 0xff000000;
}

__device__ inline float exact_largest(uint2 line) {
    return __uint_as_float(line.x >> 1);
}

/* The exponent of the line's least number, or one less. */
__device__ inline int exact_least(uint2 line) {
    return int(~line.y >> 24) - 127;
}

#define TINY -102 /* exponent: below it the third slice may not be a normal number */

/* ---- floats ------------------------------------------------------------------------------------------------------ */

/* Includes a number in a thread's extremes of a line: `high` is x above, `low` the complement of y. */
__device__ inline void exact_include(float x, uint32_t &high, uint32_t &low) {
    const uint32_t twice = __float_as_uint(x) * 2;
    high = max(high, twice);
    low = __viaddmin_u32(twice, ~0u, low);
}

/* Merges a thread's extremes of a line into the block's, and sets `tiny` if the line has tiny numbers. */
__device__ inline void exact_report(uint2 *line, uint32_t &tiny, uint32_t high, uint32_t low) {
    atomicMax(&line->x, high);
    atomicMax(&line->y, ~low);
    if (exact_least({0, ~low}) < TINY) tiny = 1;
}

/* Cuts the next slice off two numbers, and returns both slices, x's in the lower half; x and y become what remains. */
__device__ inline uint32_t exact_slice(float &x, float &y) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(x, y);
    uint32_t word;
    memcpy(&word, &both, sizeof both);
    x -= __uint_as_float(word << 16);
    y -= __uint_as_float(word & 0xffff0000);
    return word;
}

/* The index of element (line, l) in a slot of floats, which holds COUNT lines of an operand. Vectors of four floats are
 * permuted so that the vectors that threads read at once lie in different banks: every other vector of a row of k, or
 * of two lines whose numbers differ in the third bit; two vectors each of four lines, or of rows 0, 2, 4 and 6 of k. */
template <enum layout LAYOUT, int COUNT> __device__ inline uint32_t exact_index(int line, int l) {
    if constexpr (LAYOUT == LINES)
        return l * COUNT + (line / 4 ^ (line / 32 & 1) ^ (l / 2 % 4) * 2) * 4 + line % 4;
    else
        return line * SLOT_K + (l / 4 ^ (line % 4 * 2 | (line / 4 & 1))) * 4 + l % 4;
}

/* The index of the element `lines` lines and `ks` of k after the one at `index`. Neither step may carry into the bits
 * that are permuted. */
template <enum layout LAYOUT, int COUNT> __device__ inline uint32_t exact_offset(uint32_t index, int lines, int ks) {
    return LAYOUT == LINES ? (index ^ lines ^ ks / 2 % 4 * 8) + ks * COUNT : (index ^ ks) + lines * SLOT_K;
}

/* ---- loaders ----------------------------------------------------------------------------------------------------- */

/* One thread's part in copying an operand's slots, four floats at a time if rows in memory consist of aligned groups
 * of four (FOURS), else one. What does not exist becomes zero. */
template <enum layout LAYOUT, bool FOURS, int COUNT> struct exact_copy {
    static constexpr int EACH = FOURS ? 4 : 1, COPIES = COUNT * SLOT_K / EACH / LOADERS;
    static constexpr int ABREAST = (LAYOUT == LINES ? COUNT : SLOT_K) / EACH; /* threads along adjacent memory */
    static constexpr int DOWN = LOADERS / ABREAST; /* lines (LINES: k) from one copy to the next */

    const float *matrix, *from; /* the whole operand; the source of this slot's first copy */
    int64_t step, next;         /* elements from copy to copy, from slot to slot */
    int lines, k;               /* that exist from the first copy on */
    uint32_t to;                /* index of the first copy in a slot */

    __device__ exact_copy(const float *matrix, int64_t extent, int64_t first, int64_t depth, int64_t k_begin,
                          int64_t k_end)
        : matrix(matrix) {
        const int along = int(threadIdx.x) % ABREAST * EACH, down = int(threadIdx.x) / ABREAST;
        const int line = LAYOUT == LINES ? along : down, l = LAYOUT == LINES ? down : along;
        to = exact_index<LAYOUT, COUNT>(line, l);
        lines = int(min(extent - first, int64_t(COUNT))) - line;
        k = int(k_end - k_begin) - l;
        const int64_t ld = LAYOUT == LINES ? extent : depth;
        from = matrix + (LAYOUT == LINES ? (k_begin + l) * ld + first + line : (first + line) * ld + k_begin + l);
        step = DOWN * ld;
        next = LAYOUT == LINES ? SLOT_K * ld : SLOT_K;
    }

    /* Starts to copy this slot, and goes to the next. */
    __device__ void slot(const float *slot) {
#pragma unroll
        for (int i = 0; i < COPIES; i++) {
            const int lines_down = LAYOUT == LINES ? 0 : i * DOWN, k_down = LAYOUT == LINES ? i * DOWN : 0;
            const bool exists = lines_down < lines && k_down < k;
            const uint32_t index = exact_offset<LAYOUT, COUNT>(to, lines_down, k_down);
            copy_async<EACH * 4>(shared_address(slot) + index * 4, exists ? from + i * step : matrix, exists);
        }
        from += next;
        k -= SLOT_K;
    }
};

/* One thread's part in cutting B: UNITS times eight neighbours of a slot, of one column or (LINES) of one k. */
template <enum layout LAYOUT, int COUNT> struct exact_cutter {
    static constexpr int ABREAST = (LAYOUT == LINES ? COUNT : SLOT_K) / 8, DOWN = LOADERS / ABREAST;
    static constexpr int UNITS = COUNT * SLOT_K / 8 / LOADERS, KNOWN = LAYOUT == LINES ? 8 : UNITS;

    int line;                         /* of the first unit */
    uint32_t from, to;                /* the first unit's index in a slot; its offset in the slabs of a slice */
    uint32_t high[KNOWN], low[KNOWN]; /* extremes of the thread's lines (exact_include) */

    __device__ exact_cutter() {
        const int across = int(threadIdx.x) % ABREAST * 8, down = int(threadIdx.x) / ABREAST;
        /* Eight threads read or write at a time: two lines whose numbers differ in the third bit. */
        line = LAYOUT == LINES ? across : down & ~7 | (down & 1) << 2 | (down & 6) >> 1;
        const int l = LAYOUT == LINES ? down : across;
        from = exact_index<LAYOUT, COUNT>(line, l);
        to = LAYOUT == LINES ? line / 64 * SLAB_BYTES + l * 128 + (line % 64 / 8 ^ l % 8) * 16
                             : line * 128 + (l / 8 ^ line % 8) * 16;
#pragma unroll
        for (int i = 0; i < KNOWN; i++) high[i] = 0, low[i] = ~0u;
    }

    /* Cuts a slot. `slices`: the address of the first slice's first slab; `half`: the half of the slabs to fill. */
    __device__ void slot(const float *slot, uint32_t slices, int half) {
#pragma unroll
        for (int unit = 0; unit < UNITS; unit++) {
            float x[8];
#pragma unroll
            for (int i = 0; i < 8; i += 4) {
                const int lines_on = LAYOUT == LINES ? i : unit * DOWN, k_on = LAYOUT == LINES ? unit * DOWN : i;
                const uint32_t index = exact_offset<LAYOUT, COUNT>(from, lines_on, k_on);
                const float4 four = *reinterpret_cast<const float4 *>(slot + index);
                x[i] = four.x, x[i + 1] = four.y, x[i + 2] = four.z, x[i + 3] = four.w;
            }
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const int which = LAYOUT == LINES ? i : unit;
                exact_include(x[i], high[which], low[which]);
            }
            const uint32_t at = slices + (LAYOUT == LINES ? to + half * 32 * 128 : to ^ half * 64) + unit * DOWN * 128;
#pragma unroll
            for (int s = 0; s < SLICES; s++) {
                uint32_t word[4];
#pragma unroll
                for (int i = 0; i < 4; i++) word[i] = exact_slice(x[i * 2], x[i * 2 + 1]);
                asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at + s * (COUNT / 64 * SLAB_BYTES)),
                             "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3])
                             : "memory");
            }
        }
    }

    /* Merges the extremes of the thread's lines into the block's, `lines`. */
    __device__ void report(uint2 *lines, uint32_t &tiny) const {
#pragma unroll
        for (int i = 0; i < KNOWN; i++)
            exact_report(lines + line + (LAYOUT == LINES ? i : i * DOWN), tiny, high[i], low[i]);
    }
};

/* Arrives at a barrier of this block. */
__device__ inline void exact_arrive(uint64_t *barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

/* A loader copies the slots of both operands, and cuts those of B, AHEAD slots later. */
template <typename SHAPE, enum layout B, typename A_COPY, typename B_COPY>
__device__ inline void exact_load(typename SHAPE::shared_t &shared, A_COPY a, B_COPY b, int slots) {
    exact_cutter<B, SHAPE::COLUMNS> cutter;
    ring_position<SHAPE::SLOTS> to, at;
    ring_position<AHEAD + 1> raw_to, raw;
    int remaining = slots;
    const auto copy = [&] {
        if (remaining-- > 0) {
            mbarrier_wait(&shared.empty[to.stage], to.phase ^ 1);
            a.slot(shared.a[to.stage]);
            b.slot(shared.raw[raw_to.stage]);
            to.advance();
            raw_to.advance();
        }
        copy_commit();
    };
    for (int i = 0; i < AHEAD; i++) copy();
    for (int i = 0; i < slots; i++) {
        copy_wait<AHEAD - 1>();
        /* All copies into this slot have arrived, and all loaders have cut the previous slot. */
        warpgroups_sync<2, LOADERS>();
        cutter.slot(shared.raw[raw.stage], shared_address(shared.b[at.stage / 2]), at.stage % 2);
        __syncwarp();
        if (threadIdx.x % 32 == 0) exact_arrive(&shared.full[at.stage]);
        at.advance();
        raw.advance();
        copy();
    }
    cutter.report(shared.line + SHAPE::ROWS, shared.tiny);
}

/* ---- consumers --------------------------------------------------------------------------------------------------- */

/* The text of one instruction with A in registers; the numbers are those of the asm operands after the sums. B_MN: is B
 * MN-major (core/wgmma.cuh)? */
#define EXACT_WGMMA(SHAPE, NAMES, A0, A1, A2, A3, B, ACCUMULATE, B_MN)                                                 \
    "{ .reg .pred accumulate; setp.ne.b32 accumulate, %" #ACCUMULATE ", 0;\n"                                          \
    "wgmma.mma_async.sync.aligned." SHAPE ".f32.bf16.bf16 {" NAMES "}, "                                               \
    "{%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B ", accumulate, 1, 1, %" #B_MN "; }"

/* Multiplies 64 x 16 of A by 16 x 128 (below: 64) of B. `accumulate`: adds to d; else the product replaces d. */
template <bool B_MN>
__device__ inline void exact_wgmma(float (&d)[64], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
    asm volatile(EXACT_WGMMA("m64n128k16", WGMMA_NAMES_64, 64, 65, 66, 67, 68, 69, 70)
                 : WGMMA_SUMS_64(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(accumulate)), "n"(B_MN));
}
template <bool B_MN>
__device__ inline void exact_wgmma(float (&d)[32], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
    asm volatile(EXACT_WGMMA("m64n64k16", WGMMA_NAMES_32, 32, 33, 34, 35, 36, 37, 38)
                 : WGMMA_SUMS_32(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(accumulate)), "n"(B_MN));
}

/* A consumer computes the sums of 64 rows: the tensor core adds up the products of a slot, the smallest first, and
 * float32 additions add up the slots. A thread supplies the elements of A in rows `row` and `row` + 8. */
template <typename SHAPE, enum layout A, bool B_MN>
__device__ inline void exact_consume(typename SHAPE::shared_t &shared, int consumer, int slots,
                                     float (&sum)[SHAPE::COLUMNS / 2]) {
    constexpr int PARTS = SHAPE::PARTS, STEPS = SLOT_K / 16;
    const int row = (PARTS == 2 ? 0 : consumer * 64) + int(threadIdx.x) % WARPGROUP / 32 * 16 + threadIdx.x % 32 / 4;
    const uint32_t index = exact_index<A, SHAPE::ROWS>(row, int(threadIdx.x) % 4 * 2);
    uint32_t high[2] = {}, low[2] = {~0u, ~0u};
    float part[SHAPE::COLUMNS / 2];
#pragma unroll
    for (float &value : sum) value = 0;
    ring_position<SHAPE::SLOTS> at;
    if (PARTS == 2 && consumer == 1) at.advance();
    for (int i = PARTS == 2 ? consumer : 0; i < slots; i += PARTS) {
        mbarrier_wait(&shared.full[at.stage], at.phase);
        uint32_t a[SLICES][STEPS][4];
#pragma unroll
        for (int j = 0; j < STEPS; j++)
#pragma unroll
            for (int r = 0; r < 4; r++) {
                const auto at_k = [&](int k_on) {
                    return &shared.a[at.stage][exact_offset<A, SHAPE::ROWS>(index, r % 2 * 8, k_on)];
                };
                const int k_on = j * 16 + r / 2 * 8;
                const float2 two = A == LINES ? make_float2(*at_k(k_on), *at_k(k_on + 1))
                                              : *reinterpret_cast<const float2 *>(at_k(k_on));
                float x = two.x, y = two.y;
                exact_include(x, high[r % 2], low[r % 2]);
                exact_include(y, high[r % 2], low[r % 2]);
#pragma unroll
                for (int s = 0; s < SLICES; s++) a[s][j][r] = exact_slice(x, y);
            }
        /* Makes what the loaders wrote visible to the tensor core. They do not call it themselves, because it would
         * wait for their copies. */
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        const int half = at.stage % 2 * STEPS;
        const auto multiply = [&](int j, int of_a, int of_b, bool accumulate) {
            const uint64_t b = wgmma_operand(shared.b[at.stage / 2][of_b][0]) + (half + j) * wgmma_step<B_MN>;
            exact_wgmma<B_MN>(part, a[of_a][j], b, accumulate);
        };
        wgmma_fence();
#pragma unroll
        for (int j = 0; j < STEPS; j++) {
            multiply(j, 2, 0, j > 0);
            multiply(j, 0, 2, true);
            multiply(j, 1, 1, true);
            multiply(j, 1, 0, true);
            multiply(j, 0, 1, true);
        }
#pragma unroll
        for (int j = 0; j < STEPS; j++) multiply(j, 0, 0, true);
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_pin(part);
        if (threadIdx.x % 32 == 0) exact_arrive(&shared.empty[at.stage]);
#pragma unroll
        for (int j = 0; j < SHAPE::COLUMNS / 2; j++) sum[j] += part[j];
        wgmma_pin(sum);
#pragma unroll
        for (int j = 0; j < PARTS; j++) at.advance();
    }
#pragma unroll
    for (int i = 0; i < 2; i++) exact_report(&shared.line[row + i * 8], shared.tiny, high[i], low[i]);
}

/* Leaves a consumer's sums in its plane. Four by four, a thread's sums are two neighbours in a row of the tile, and the
 * two below them by 8 rows; the next four are 8 columns to the right (wgmma). */
template <typename SHAPE>
__device__ inline void exact_leave(float *planes, int consumer, const float (&sum)[SHAPE::COLUMNS / 2]) {
    const int quad = int(threadIdx.x) % 32 / 4, lane = int(threadIdx.x) % 4, warp = int(threadIdx.x) % WARPGROUP / 32;
    float *const corner = planes + (consumer * 64 + warp * 16 + quad) * SHAPE::PITCH + lane * 2;
#pragma unroll
    for (int j = 0; j < SHAPE::COLUMNS / 2; j += 2)
        *reinterpret_cast<float2 *>(corner + j % 4 / 2 * 8 * SHAPE::PITCH + j / 4 * 8) =
            make_float2(sum[j], sum[j + 1]);
}

#endif
