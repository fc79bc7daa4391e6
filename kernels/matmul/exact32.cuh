/* exact32.cuh - the two roles of matmul/exact32.cu: loaders that cut floats into slices on their way into shared
 * memory, and consumers that multiply the slices.
 *
 * Shared memory holds a ring of stages, 64 of k each, as tensor cores read them (tma.cuh): slabs of 64 rows of 128
 * bytes, of each operand and each slice. A slot is half a stage, 32 of k: where k is adjacent, the left or right half
 * of each row; elsewhere the upper or lower half of the rows. */
#ifndef KERNELS_EXACT32_CUH
#define KERNELS_EXACT32_CUH

#include "shares.cuh"
#include "wgmma.cuh"
#include <cfloat>
#include <cuda_bf16.h>

#define SLICES 3
#define SLOT_K 32 /* of k that the tensor core sums */

/* Two warpgroups load, one operand each; two consume. Of 4 * 128 registers. */
#define EXACT_THREADS    (4 * WARPGROUP)
#define LOADER_REGISTERS 112
#define ADDER_REGISTERS  144

/* A tile of a block. Two consumers have 64 rows each; or, of a tile of 64 rows, every other slot each. */
template <int ROWS_, int COLUMNS_> struct exact_shape {
    static constexpr int ROWS = ROWS_, COLUMNS = COLUMNS_, PARTS = 128 / ROWS;
    static constexpr int STAGES = 512 / (ROWS + COLUMNS), SLOTS = 2 * STAGES;
    static constexpr int PITCH = COLUMNS + 8; /* of a row of sums: the four rows that half a warp writes, 8 bytes a
                                                 thread, fall into different banks */
    static constexpr int PLANE = ROWS * PITCH;
    struct stage_t {
        uint8_t a[SLICES][ROWS / 64][SLAB_BYTES], b[SLICES][COLUMNS / 64][SLAB_BYTES];
    };
    struct shared_t {
        stage_t stage[STAGES];
        uint64_t full[SLOTS], empty[SLOTS];
        uint2 line[ROWS + COLUMNS]; /* of A, then of B: exact_line */
        uint32_t tiny;              /* has any of them tiny numbers? */
    };
    static_assert(sizeof(float) * PARTS * PLANE <= sizeof(stage_t) * STAGES, "sums take the place of stages");

    static constexpr matmul_cut cut(double flops, double start) {
        return {ROWS, COLUMNS, 1, SLOT_K, 2 * SLOT_K, flops, 1, start, PARTS, true};
    }
};

/* ---- what is known of a line ------------------------------------------------------------------------------------- */

/* Twice the bits of its largest magnitude; the complement of the least, zeros apart, less one. Zeros: nothing yet. */
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

/* The exponent of its least number, or one less. */
__device__ inline int exact_least(uint2 line) {
    return int(~line.y >> 24) - 127;
}

#define TINY -102 /* exponent: the third slice of less may be no normal number */

/* ---- loaders ----------------------------------------------------------------------------------------------------- */

/* One thread's part of an operand's slots: UNITS times eight neighbours, of one line or of one k (LINES). FOURS_: rows,
 * as they lie, consist of aligned groups of four. Else the eight lie in three such groups. */
template <enum layout LAYOUT, bool FOURS_, int COUNT> struct exact_loader {
    static constexpr bool FOURS = FOURS_;
    static constexpr int UNITS = COUNT / 32, VECTORS = FOURS ? 2 : 3;
    static constexpr int ABREAST = LAYOUT == LINES ? COUNT / 8 : SLOT_K / 8; /* threads along adjacent memory */
    static constexpr int DOWN = WARPGROUP / ABREAST; /* lines (LINES: k) from one unit to the next */
    static constexpr int KNOWN = LAYOUT == LINES ? 8 : UNITS;

    float4 held[UNITS][VECTORS];
    const float *from;                   /* the first unit of this slot */
    int64_t step, next;                  /* from unit to unit, from slot to slot */
    int line, l;                         /* of the thread's first element */
    int lines, k;                        /* that exist from there on */
    int slot = 0, first_slot, last_slot; /* from, to: those whose groups lie inside the operand */
    uint32_t high[KNOWN], low[KNOWN];
    uint32_t to; /* the place in a slot of the first unit's first slice */

    __device__ exact_loader(const float *matrix, int64_t extent, int64_t first, int64_t depth, int64_t k_begin,
                            int64_t k_end) {
        const int thread = int(threadIdx.x) % WARPGROUP, across = thread % ABREAST * 8, down = thread / ABREAST;
        /* Eight threads write at a time: two lines whose numbers differ in the third bit lie in different banks. */
        const int turned = down & ~7 | (down & 1) << 2 | (down & 6) >> 1;
        line = LAYOUT == LINES ? across : turned;
        l = LAYOUT == LINES ? down : across;
        lines = int(min(extent - first, int64_t(COUNT))) - line;
        k = int(k_end - k_begin) - l;
        const int64_t ld = LAYOUT == LINES ? extent : depth;
        from = matrix + (LAYOUT == LINES ? (k_begin + l) * ld + first + line : (first + line) * ld + k_begin + l);
        step = DOWN * ld;
        next = LAYOUT == LINES ? SLOT_K * ld : SLOT_K;
        to = LAYOUT == LINES ? line / 64 * SLAB_BYTES + l * 128 + (line % 64 / 8 ^ l % 8) * 16
                             : line * 128 + (l / 8 ^ line % 8) * 16;
#pragma unroll
        for (int i = 0; i < KNOWN; i++) high[i] = 0, low[i] = ~0u;
        const bool few = min(extent, depth)<12, end = first + COUNT + 12> extent;
        first_slot = first == 0 && k_begin == 0;
        last_slot = few ? -1 : end ? int((depth - k_begin - 4) / SLOT_K) - 1 : INT_MAX;
    }

    /* How many of a unit's elements exist, when so many of k are left; none: 0 or less. */
    __device__ int existing(int unit, int k_left) const {
        return LAYOUT == LINES ? (unit * DOWN < k_left ? lines : 0) : unit * DOWN < lines ? k_left : 0;
    }

    __device__ static unsigned aside(const float *x) {
        return unsigned(uintptr_t(x)) / 4 % 4;
    }

    /* Asks for a unit, counted from this slot's first. */
    __device__ void fetch(int number) {
        const int unit = number % UNITS, ahead = number / UNITS;
        const float *const x = from + unit * step + ahead * next;
        const int left = existing(unit, k - ahead * SLOT_K);
        float4(&to_hold)[VECTORS] = held[unit];
        if constexpr (FOURS) {
#pragma unroll
            for (int i = 0; i < 2; i++)
                to_hold[i] = i * 4 < left ? __ldg(reinterpret_cast<const float4 *>(x) + i) : float4();
        } else {
            const float *const group = x - aside(x);
            if (slot + ahead >= first_slot && slot + ahead <= last_slot) {
#pragma unroll
                for (int i = 0; i < 3; i++)
                    to_hold[i] = left > 0 ? __ldg(reinterpret_cast<const float4 *>(group) + i) : float4();
            } else {
                const auto single = [&](int i) {
                    return x <= group + i && group + i < x + left ? __ldg(group + i) : 0;
                };
#pragma unroll
                for (int i = 0; i < 3; i++)
                    to_hold[i] = make_float4(single(i * 4), single(i * 4 + 1), single(i * 4 + 2), single(i * 4 + 3));
            }
        }
    }

    /* Goes on to the next slot. */
    __device__ void advance() {
        from += next;
        k -= SLOT_K;
        slot++;
    }

    /* Takes a unit out of its groups; what does not exist is zero. */
    __device__ void take(int unit, float (&x)[8]) const {
        float all[VECTORS * 4];
#pragma unroll
        for (int i = 0; i < VECTORS; i++) {
            const float4 four = held[unit][i];
            all[i * 4] = four.x, all[i * 4 + 1] = four.y, all[i * 4 + 2] = four.z, all[i * 4 + 3] = four.w;
        }
        if constexpr (!FOURS) {
            const float *const at = from + unit * step;
            const unsigned shift = aside(at);
#pragma unroll
            for (int i = 0; i < 10; i++) all[i] = shift & 1 ? all[i + 1] : all[i];
#pragma unroll
            for (int i = 0; i < 8; i++) all[i] = shift & 2 ? all[i + 2] : all[i];
            const int left = existing(unit, k);
            if (left < 8) {
#pragma unroll
                for (int i = 0; i < 8; i++) all[i] = i < left ? all[i] : 0;
            }
        }
#pragma unroll
        for (int i = 0; i < 8; i++) x[i] = all[i];
    }

    /* Cuts a unit and writes its slices. `slices`: the first slab of the first of them. */
    __device__ void place(int unit, uint32_t slices, int half) {
        float x[8];
        take(unit, x);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int which = LAYOUT == LINES ? i : unit;
            const uint32_t twice = __float_as_uint(x[i]) * 2;
            high[which] = max(high[which], twice);
            low[which] = __viaddmin_u32(twice, ~0u, low[which]);
        }
        const uint32_t at = slices + (LAYOUT == LINES ? (to + half * 32 * 128) + unit * DOWN * 128
                                                      : (to ^ half * 64) + unit * DOWN * 128);
#pragma unroll
        for (int s = 0; s < SLICES; s++) {
            uint32_t word[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const __nv_bfloat162 both = __floats2bfloat162_rn(x[i * 2], x[i * 2 + 1]);
                memcpy(&word[i], &both, sizeof both);
                x[i * 2] -= __uint_as_float(word[i] << 16);
                x[i * 2 + 1] -= __uint_as_float(word[i] & 0xffff0000);
            }
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at + s * (COUNT / 64 * SLAB_BYTES)),
                         "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3])
                         : "memory");
        }
    }

    /* Tells what it has seen of its lines. */
    __device__ void report(uint2 *of, uint32_t &tiny) const {
#pragma unroll
        for (int i = 0; i < KNOWN; i++) {
            uint2 *const known = of + line + (LAYOUT == LINES ? i : i * DOWN);
            atomicMax(&known->x, high[i]);
            atomicMax(&known->y, ~low[i]);
            if (exact_least({0, ~low[i]}) < TINY) tiny = 1;
        }
    }
};

__device__ inline void exact_arrive(uint64_t *barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

/* Cuts an operand's slots one after the other. While one is cut, the next is on its way into registers. It is asked for
 * unit by unit, or, where a unit is three groups, after the whole slot was cut: 1049x1573x2355 took 162 us instead of
 * 185 so, while 2048^3, in fours, took 198 instead of 183. `slices`: the operand's in the first stage. */
template <typename SHAPE, typename LOADER>
__device__ inline void exact_load(typename SHAPE::shared_t &shared, LOADER &own, const void *slices, uint2 *lines,
                                  int slots) {
    ring_position<SHAPE::SLOTS> at;
#pragma unroll
    for (int u = 0; u < LOADER::UNITS; u++) own.fetch(u);
    for (int i = 0; i < slots; i++, at.advance()) {
        const uint32_t to = shared_address(slices) + at.stage / 2 * unsigned(sizeof(typename SHAPE::stage_t));
        mbarrier_wait(&shared.empty[at.stage], at.phase ^ 1);
#pragma unroll
        for (int u = 0; u < LOADER::UNITS; u++) {
            own.place(u, to, at.stage % 2);
            if (LOADER::FOURS) own.fetch(u + LOADER::UNITS);
        }
        __syncwarp();
        if (threadIdx.x % 32 == 0) exact_arrive(&shared.full[at.stage]);
#pragma unroll
        for (int u = 0; u < LOADER::UNITS; u++)
            if (!LOADER::FOURS) own.fetch(u + LOADER::UNITS);
        own.advance();
    }
    own.report(lines, shared.tiny);
}

/* ---- consumers --------------------------------------------------------------------------------------------------- */

template <bool A_MN, bool B_MN>
__device__ inline void exact_wgmma(float (&d)[64], uint64_t a, uint64_t b, bool accumulate) {
    asm volatile(WGMMA_SHARED("m64n128k16", "bf16", WGMMA_NAMES_64, 64, 65, 66, 67, 68)
                 : WGMMA_SUMS_64(d)
                 : "l"(a), "l"(b), "r"(int(accumulate)), "n"(A_MN), "n"(B_MN));
}
template <bool A_MN, bool B_MN>
__device__ inline void exact_wgmma(float (&d)[32], uint64_t a, uint64_t b, bool accumulate) {
    asm volatile(WGMMA_SHARED("m64n64k16", "bf16", WGMMA_NAMES_32, 32, 33, 34, 35, 36)
                 : WGMMA_SUMS_32(d)
                 : "l"(a), "l"(b), "r"(int(accumulate)), "n"(A_MN), "n"(B_MN));
}

/* The sums of 64 rows: the tensor core adds the products of a slot, the smallest first, and float32 additions the
 * slots. */
template <typename SHAPE, bool A_MN, bool B_MN>
__device__ inline void exact_consume(typename SHAPE::shared_t &shared, int consumer, int slots,
                                     float (&sum)[SHAPE::COLUMNS / 2]) {
    constexpr int PARTS = SHAPE::PARTS;
    float part[SHAPE::COLUMNS / 2];
#pragma unroll
    for (float &each : sum) each = 0;
    ring_position<SHAPE::SLOTS> at;
    if (PARTS == 2 && consumer == 1) at.advance();
    for (int i = PARTS == 2 ? consumer : 0; i < slots; i += PARTS) {
        mbarrier_wait(&shared.full[at.stage], at.phase);
        /* So that the tensor core sees what threads wrote. Not in the loaders, which would wait for their loads. */
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        const typename SHAPE::stage_t &stage = shared.stage[at.stage / 2];
        const int half = at.stage % 2 * (SLOT_K / 16);
        uint64_t a[SLICES], b[SLICES];
#pragma unroll
        for (int s = 0; s < SLICES; s++) {
            a[s] = wgmma_operand(stage.a[s][PARTS == 2 ? 0 : consumer]) + half * wgmma_step<A_MN>;
            b[s] = wgmma_operand(stage.b[s][0]) + half * wgmma_step<B_MN>;
        }
        const auto multiply = [&](int j, int of_a, int of_b, bool accumulate) {
            exact_wgmma<A_MN, B_MN>(part, a[of_a] + j * wgmma_step<A_MN>, b[of_b] + j * wgmma_step<B_MN>, accumulate);
        };
        wgmma_fence();
#pragma unroll
        for (int j = 0; j < SLOT_K / 16; j++) {
            multiply(j, 2, 0, j > 0);
            multiply(j, 0, 2, true);
            multiply(j, 1, 1, true);
            multiply(j, 1, 0, true);
            multiply(j, 0, 1, true);
        }
#pragma unroll
        for (int j = 0; j < SLOT_K / 16; j++) multiply(j, 0, 0, true);
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
}

/* Leaves a consumer's sums in its plane. */
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
