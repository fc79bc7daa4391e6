/* residues_cut.cuh - turns the float64 operands of residues.cu into residues. A line is a row of A or a column of B.
 *
 *     residues_measure_kernel   x -> line        the scale of each line, and sums and bounds of its numbers
 *     residues_cut_kernel       x -> cut, line   each number's integer: a byte for each modulus (residues_table.cuh),
 *                                                and a byte with its 7 highest bits, which bounds sums of magnitudes
 *     residues_judge_kernel     line -> words    which lines are dense or exact, and whether all are
 *
 * A line is multiplied by the power of two that puts its Euclidean norm into 2^57 .. 2^58, and rounded to integers. So
 * no element of the product of integers exceeds 2^116 (Cauchy and Schwarz), whatever k is. Rounding moves a number by
 * at most 1/2, an element of the product by at most half of both lines' sums of magnitudes:
 *
 *     error <= (sum |a| + sum |b|) / 2                    in the scale of the lines
 *
 * That is small beside sum |a b| if enough large numbers of both lines meet. A line is "dense" if three quarters of
 * its numbers are at least an eighth of its root mean square. Of two dense lines at least k / 2 such pairs meet, hence
 *
 *     error <= 8 sqrt(k) 2^-53 sum |a b|                  and sqrt(k) is at most k / 16 from k = 256 on
 *
 * This is below the bound of plain float64, which is 2^-53 sum |a b| for each product that is not zero. Practically all
 * numbers are much better: errors of both signs cancel. A line that is "exact" was not rounded at all. An element whose
 * lines are neither both dense nor both exact needs a proof of its own: another product of integers, of 7 bits, is a
 * lower bound of sum |a b|, and the element is right if 2^-48 of that is no less than the error. Otherwise it has
 * failed, and is computed in float64. An element has failed, too, if one of its lines has an infinity or NaN, or a
 * largest magnitude beyond 2^-480 .. 2^480. All this depends on an element's two lines and its own sum only, and so do
 * its bits. */
#ifndef KERNELS_RESIDUES_CUT_CUH
#define KERNELS_RESIDUES_CUT_CUH

#include "../../core/cluster.cuh"
#include "../../core/launch.cuh"
#include "residues_table.cuh"

/* The bits of a line's state. */
#define ROUNDED 1 /* the line is not exact: rounding changed a number */
#define LOOSE   2 /* the line is not dense */
#define BAD     4 /* the line has a number that is not finite, or its largest one is beyond EXPONENT */

#define DENSE_K  256 /* from this k on a line may be dense */
#define EXPONENT 480 /* largest magnitude of the exponent of a line's largest number */

/* What is known of a line. */
struct alignas(16) residues_line {
    double sum;       /* of the scaled magnitudes */
    double min_large; /* least magnitude of a large number: an eighth of the root mean square, before scaling */
    int shift;        /* numbers are scaled by 2^shift */
    int high;         /* exponent of the largest scaled number */
    uint32_t large;   /* number of large numbers */
    uint32_t state;   /* ROUNDED, LOOSE, BAD */
};

/* Lines of one operand: numbers in, residues out. */
struct residues_operand {
    const double *x;         /* the first line */
    int64_t lines, k, pitch; /* pitch: elements from row to row of x */
    bool k_adjacent;         /* lines are rows of x */
    bool pairs;              /* rows of x can be read 16 bytes at a time */
    residues_line *line;     /* [lines] */
    uint8_t *cut;            /* [PLANES][lines][cut_pitch]: a plane for each modulus, and the plane of highest bits */
    int64_t cut_pitch;       /* a multiple of 16, filled up with zeros */
};

/* Both operands; the z index of a block selects one. */
struct residues_pair {
    residues_operand operand[2];
};

/* What later kernels of the launch must know; 0: no, else yes. */
struct residues_words {
    uint32_t rounded, loose; /* is any line ROUNDED, LOOSE? BAD ones count as both */
    uint32_t failed;         /* must any element be computed in float64? */
};

/* Is the plane of highest bits needed? */
__device__ inline bool residues_bounded(const residues_words *words) {
    return words->rounded && words->loose;
}

/* 2^exponent, from -1022 to 1023. */
__device__ inline double double_power(int exponent) {
    return __hiloint2double((1023 + exponent) << 20, 0);
}

/* ---- measure --------------------------------------------------------------------------------------------------- */

/* What a thread has measured of a line: take() includes a number, merge() another thread's part, line() makes the
 * result. */
struct residues_measure {
    double sum, squares;
    uint32_t high; /* the upper half of the largest magnitude */

    __device__ void take(double x) {
        sum += fabs(x);
        squares = fma(x, x, squares);
        high = max(high, uint32_t(__double2hiint(x)) & 0x7fffffff);
    }
    __device__ void merge(const residues_measure &other) {
        sum += other.sum;
        squares += other.squares;
        high = max(high, other.high);
    }
    /* Returns the scale of a line of k numbers, all of which have been taken: BAD if a number is infinite, NaN or out
     * of the range of exponents. */
    __device__ residues_line line(int64_t k) const {
        residues_line line = {0, 0, 0, BITS, 0, 0};
        if (sum == 0) return line;
        const int exponent = int(high >> 20) - 1023; /* of the largest magnitude */
        if (high >= 0x7ff00000 /* infinity or NaN */ || exponent < -EXPONENT || exponent > EXPONENT) {
            line.state = BAD;
            return line;
        }
        /* squares < 2^above */
        const int above = (__double2hiint(squares) >> 20) - 1022;
        line.shift = (2 * BITS - above) >> 1;
        line.high = exponent + line.shift;
        line.sum = sum * double_power(line.shift);
        line.min_large = sqrt(squares / double(k)) / 8; /* see "dense" above */
        return line;
    }
};

#define MEASURE_WARPS 32

/* Measures the lines: rows of x by one warp each, columns by one block for 32. Sums are always added in the same
 * order. */
__global__ void __launch_bounds__(32 * MEASURE_WARPS)
    residues_measure_kernel(const __grid_constant__ residues_pair pair) {
    const residues_operand &operand = pair.operand[blockIdx.z];
    launch_wait();
    launch_next();
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    residues_measure found = {};
    if (operand.k_adjacent) {
        const int64_t line = block_number() * MEASURE_WARPS + warp;
        if (line >= operand.lines) return;
        const double *const x = operand.x + line * operand.pitch;
#pragma unroll 8
        for (int64_t k = lane; k < operand.k; k += 32) found.take(x[k]);
#pragma unroll
        for (int step = 16; step > 0; step /= 2)
            found.merge({__shfl_xor_sync(~0u, found.sum, step), __shfl_xor_sync(~0u, found.squares, step),
                         __shfl_xor_sync(~0u, found.high, step)});
        if (lane == 0) operand.line[line] = found.line(operand.k);
        return;
    }
    __shared__ residues_measure all[MEASURE_WARPS][32];
    const int64_t line = block_number() * 32 + lane;
    if (line < operand.lines)
#pragma unroll 4
        for (int64_t k = warp; k < operand.k; k += MEASURE_WARPS) found.take(operand.x[k * operand.pitch + line]);
    all[warp][lane] = found;
    __syncthreads();
    if (warp > 0 || line >= operand.lines) return;
    for (int i = 1; i < MEASURE_WARPS; i++) found.merge(all[i][lane]);
    operand.line[line] = found.line(operand.k);
}

/* ---- cut ------------------------------------------------------------------------------------------------------- */

#define CUT_LINES   32
#define CUT_K       128
#define CUT_EACH    16 /* k of a thread */
#define CUT_THREADS (CUT_LINES * CUT_K / CUT_EACH)

/* The sum of four products of an unsigned byte of a and a signed byte of b, plus c. */
__device__ inline int bytes_multiply(uint32_t a, uint32_t b, int c) {
    int d;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

/* The lowest bytes of four words, as one word. */
__device__ inline uint32_t bytes_pack(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

/* Loads a thread's 16 numbers of a line from k on, and zeros past its end. */
__device__ inline void residues_load(const residues_operand &operand, int64_t line, int64_t k, double (&x)[CUT_EACH]) {
    const double *const from = operand.x + (operand.k_adjacent ? line * operand.pitch + k : k * operand.pitch + line);
    if (operand.pairs && operand.k_adjacent && k + CUT_EACH <= operand.k) {
#pragma unroll
        for (int i = 0; i < CUT_EACH; i += 2) {
            const double2 pair = *reinterpret_cast<const double2 *>(from + i);
            x[i] = pair.x, x[i + 1] = pair.y;
        }
        return;
    }
    const int64_t step = operand.k_adjacent ? 1 : operand.pitch;
#pragma unroll
    for (int i = 0; i < CUT_EACH; i++) x[i] = k + i < operand.k ? from[i * step] : 0;
}

/* Cuts a thread's share of a patch of 32 lines by 128 of k, 16 of k of one line: writes 16 bytes of each plane, counts
 * the line's large numbers, and records whether rounding changed a number. OPERAND: 0 is A, 1 is B. */
template <int OPERAND> __device__ inline void residues_cut(const residues_operand &operand) {
    constexpr int GROUPS = CUT_K / CUT_EACH;
    const int across = int(threadIdx.x), group = operand.k_adjacent ? across % GROUPS : across / CUT_LINES;
    const int64_t along = (operand.k + CUT_K - 1) / CUT_K, patch = block_number(), down = quotient(patch, along);
    const int64_t line = down * CUT_LINES + (operand.k_adjacent ? across / GROUPS : across % CUT_LINES);
    const int64_t k = (patch - down * along) * CUT_K + group * CUT_EACH;
    if (line >= operand.lines || k >= operand.cut_pitch) return;
    residues_line *const known = &operand.line[line];
    const int shift = known->shift, down_to = known->high - 6 - 32; /* shifts the upper word to 7 bits */
    const double min_large = known->min_large, scale = known->state & BAD ? 0 : double_power(shift);

    /* Scales and rounds the numbers to integers of 64 bits, whose halves are `low` and `high`. */
    double x[CUT_EACH];
    residues_load(operand, line, k, x);
    uint32_t low[CUT_EACH], high[CUT_EACH], top[CUT_EACH], large = 0;
    bool rounded = false;
#pragma unroll
    for (int i = 0; i < CUT_EACH; i++) {
        const double scaled = scale == 0 ? 0 : x[i] * scale;
        const int64_t integer = __double2ll_rn(scaled);
        rounded |= double(integer) != scaled || (scaled == 0 && x[i] != 0);
        large += fabs(x[i]) >= min_large;
        top[i] = min(uint32_t(uint64_t(integer < 0 ? -integer : integer) >> 32) >> down_to, 127);
        const uint64_t positive = uint64_t(integer) + OFFSET;
        low[i] = uint32_t(positive), high[i] = uint32_t(positive >> 32);
    }
    if (large > 0) atomicAdd(&known->large, large);
    if (rounded && !(__ldcg(&known->state) & ROUNDED)) atomicOr(&known->state, ROUNDED);

    /* Writes each plane: the integers' remainders of a modulus, about zero; the last plane: their highest bits. */
    uint8_t *const to = operand.cut + line * operand.cut_pitch + k;
    const int64_t plane = operand.lines * operand.cut_pitch;
    constexpr residues_table table = residues_make_table();
#pragma unroll
    for (int p = 0; p < MODULI; p++) {
        const residues_modulus &m = table.modulus[p];
        uint32_t word[CUT_EACH / 4];
#pragma unroll
        for (int w = 0; w < CUT_EACH / 4; w++) {
            uint32_t rest[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int sum = bytes_multiply(low[w * 4 + i], m.bytes[OPERAND][0], int(m.start[OPERAND]));
                const uint32_t all = uint32_t(bytes_multiply(high[w * 4 + i], m.bytes[OPERAND][1], sum));
                rest[i] = all - __umulhi(all, m.reciprocal) * m.p - m.p / 2;
            }
            word[w] = bytes_pack(rest[0], rest[1], rest[2], rest[3]);
        }
        *reinterpret_cast<uint4 *>(to + p * plane) = make_uint4(word[0], word[1], word[2], word[3]);
    }
    uint32_t word[CUT_EACH / 4];
#pragma unroll
    for (int w = 0; w < CUT_EACH / 4; w++)
        word[w] = bytes_pack(top[w * 4], top[w * 4 + 1], top[w * 4 + 2], top[w * 4 + 3]);
    *reinterpret_cast<uint4 *>(to + MODULI * plane) = make_uint4(word[0], word[1], word[2], word[3]);
}

/* Cuts a patch per block. */
__global__ void __launch_bounds__(CUT_THREADS, 2) residues_cut_kernel(const __grid_constant__ residues_pair pair) {
    launch_wait();
    launch_next();
    if (blockIdx.z == 0)
        residues_cut<0>(pair.operand[0]);
    else
        residues_cut<1>(pair.operand[1]);
}

/* Completes the states of lines, and records whether any is rounded or loose. */
__global__ void __launch_bounds__(256)
    residues_judge_kernel(const __grid_constant__ residues_pair pair, residues_words *words) {
    launch_wait();
    launch_next();
    const residues_operand &operand = pair.operand[blockIdx.z];
    const int64_t line = block_number() * blockDim.x + threadIdx.x;
    if (line >= operand.lines) return;
    residues_line &known = operand.line[line];
    const bool dense = operand.k >= DENSE_K && int64_t(known.large) * 4 >= operand.k * 3;
    const uint32_t state = known.state | (dense ? 0 : LOOSE);
    known.state = state;
    if (state & (ROUNDED | BAD)) words->rounded = 1;
    if (state & (LOOSE | BAD)) words->loose = 1;
}

#endif
