/* split_slices.cuh - float32 matrices cut into float16 slices for matmul/split.cu.
 *
 * Each line (a row of A, a column of B) is scaled by a power of two, which is exact, so that its largest number lies in
 * 2^14 .. 2^15, just below float16's limit. A scaled number x is then written as
 *
 *     x = hi + lo / 4096 + rest       hi = float16(x), lo = float16((x - hi) * 4096)
 *
 * hi has 11 bits and lo the next 11. lo is scaled up into hi's range: unscaled, it would be subnormal and lose bits
 * already for numbers 2^-15 of the line's largest. A product a b loses lo lo / 2^24 and the products with a rest. The
 * loss depends on whether hi is a normal float16 number:
 *
 *     x, scaled                  of the largest       |lo / 4096|   |rest|         a b loses at most
 *     from 2^-14 on: normal      down to 2^-28        2^-11 |x|     2^-23 |x|      2^-21 |a b|, both being normal
 *     below: "tiny"              below                2^-25         2^-37          2^-49 of its lines' largest
 *
 * A line without tiny numbers is "good". The products of two good lines are each right to 2^-21 of themselves, wherever
 * zeros are. A line with tiny numbers is "wide". Tiny numbers do not matter in a sum that also has a product of two
 * large numbers. A number is large if it is within 2^-4 of its line's largest. The product of two large numbers is at
 * least 2^-8 of the product of the lines' largest, and k tiny products beside it lose at most k 2^-41 of it. A row and
 * a column that together have more than k large numbers must have such a product. So each line's large numbers are
 * counted, and the rule (lines_held) is
 *
 *     slices give C[i][j]    if row i and column j are both good, or if together they have more than k large numbers
 *
 * A line with Inf or NaN, or with nothing above 2^-112, is "odd": slices never give its elements of C. The elements
 * that slices do not give are computed in plain float32 (matmul/split.cu).
 *
 * Slices give practically every element of a product of random matrices. A number of N(0,1) is tiny with a probability
 * of 1e-8, so of lines with 16384 numbers one in 5000 is wide. In each of 36,000 lines drawn, at least 0.72 of the
 * numbers were large, where half is enough. Numbers of very different size are not all held: with N(0,1), each number
 * times its own random 2^(-8..8), 3 elements of C in 10 are computed in float32 at k = 4096 and 8 in 10 at 16384.
 *
 * Two passes read the operand, because a line's scale is known only at its end: 8 bytes read and 4 written per element.
 * At 8192 the two passes take 0.5 ms of 5.2 ms on an H200. */
#ifndef KERNELS_SPLIT_SLICES_CUH
#define KERNELS_SPLIT_SLICES_CUH

#include "../core/launch.cuh"
#include <cuda_fp16.h>

enum { HI, LO, SLICES };

#define LO_SCALE 4096.f /* brings what is left after 11 bits into hi's range */
#define TOP      14     /* exponent that a line's largest number is scaled to */
#define SPAN     28     /* exponents below a line's largest number; further below, hi is subnormal */
#define NEAR     4      /* exponents below a line's largest number; down to there, a number is large */

/* ---- lines: rows of A, columns of B ---------------------------------------------------------------------------- */

/* What is known of a line: the bits of its largest magnitude, the negated bits of its least non-zero magnitude, and the
 * number of its large numbers. All zero: nothing yet. */
struct alignas(16) split_line {
    uint32_t high, low, large;
};

__device__ inline int float_exponent(uint32_t bits) {
    return bits >> 23 ? int(bits >> 23) - 127 : -118 - __clz(int(bits));
}

/* The exponent of the power of two by which a line is scaled; `high` holds the bits of its largest number. For an odd
 * line the result has no meaning. */
__device__ inline int line_shift(uint32_t high) {
    return high == 0 ? 0 : min(TOP - float_exponent(high), 126);
}

/* Is x large in a line whose largest number has the bits `high`? In a line of zeros every number is. */
__device__ inline bool is_large(float x, uint32_t high) {
    return __float_as_uint(fabsf(x)) + (NEAR << 23) >= high;
}

#define LINE_GOOD (1u << 31)

/* A line's weight in the rule (lines_held): the count of its large numbers, and LINE_GOOD if it is good; 0 for an odd
 * line. */
__device__ inline uint32_t line_weight(split_line line) {
    if (line.high == 0) return line.large | LINE_GOOD;
    const int exponent = float_exponent(line.high);
    if (exponent == 128 || exponent < TOP - 126) return 0;
    return exponent - float_exponent(0 - line.low) > SPAN ? line.large : line.large | LINE_GOOD;
}

/* Do slices hold the product of a row and a column with these weights? */
__device__ inline bool lines_held(uint32_t a, uint32_t b, int64_t k) {
    return (a & b & LINE_GOOD) || int64_t(a & ~LINE_GOOD) + (b & ~LINE_GOOD) > k;
}

/* Merges what a block found. Most blocks find nothing new, and a load is cheaper than an atomic. */
__device__ inline void line_widen(split_line *line, split_line by) {
    const uint2 known = __ldcg(reinterpret_cast<const uint2 *>(line));
    if (known.x < by.high) atomicMax(&line->high, by.high);
    if (known.y < by.low) atomicMax(&line->low, by.low);
}

__device__ inline float power_of_two(int exponent) {
    return __int_as_float((127 + exponent) << 23);
}

/* ---- the slices ------------------------------------------------------------------------------------------------ */

/* One operand: x as the launch is given it; slices as the tensor core reads them, first hi of every matrix of the
 * stack, then lo of every matrix. */
struct split_operand {
    const float *x;
    __half *slice;    /* [SLICES][count][rows][pitch] */
    split_line *line; /* [count][rows or columns] */
    int64_t count, rows, columns, stride, pitch;
    bool by_row; /* lines are rows in memory */
    bool fours;  /* x can be read 16 bytes at a time */
};

/* Both operands; a launch's z axis picks one. */
struct split_pair {
    split_operand operand[2];
};

/* A block of 256 threads cuts a patch of 32 rows by 256 columns, each thread 8 rows of 4 columns. */
#define PATCH_ROWS    32
#define PATCH_COLUMNS 256
#define PATCH_THREADS 256
#define PATCH_EACH    8

/* Where in the operand a thread begins. */
struct split_place {
    int64_t batch, row, column;
};

__device__ inline split_place split_patch(const split_operand &operand) {
    const tile_place patch = tile_of_block((operand.rows + PATCH_ROWS - 1) / PATCH_ROWS,
                                           (operand.columns + PATCH_COLUMNS - 1) / PATCH_COLUMNS);
    return {patch.batch, patch.row * PATCH_ROWS + threadIdx.x / 64 * PATCH_EACH,
            patch.column * PATCH_COLUMNS + threadIdx.x % 64 * 4};
}

/* Four numbers of a row, from `column` on; zeros beyond the edge. */
__device__ inline float4 split_load(const split_operand &operand, const split_place &at, int i) {
    if (at.row + i >= operand.rows || at.column >= operand.columns) return float4();
    const float *x = operand.x + at.batch * operand.stride + (at.row + i) * operand.columns + at.column;
    if (operand.fours) return __ldg(reinterpret_cast<const float4 *>(x));
    const auto take = [&](int j) { return at.column + j < operand.columns ? x[j] : 0; };
    return make_float4(take(0), take(1), take(2), take(3));
}

/* Finds each line's largest and least magnitude. The order of blocks does not matter to a maximum. */
__global__ void __launch_bounds__(PATCH_THREADS) split_measure_kernel(const __grid_constant__ split_pair pair) {
    __shared__ split_line column_line[PATCH_COLUMNS];
    const split_operand &operand = pair.operand[blockIdx.z];
    const split_place at = split_patch(operand);
    if (at.batch >= operand.count) return;
    uint32_t bits[PATCH_EACH][4];
#pragma unroll
    for (int i = 0; i < PATCH_EACH; i++) {
        const float4 four = split_load(operand, at, i);
        bits[i][0] = __float_as_uint(fabsf(four.x));
        bits[i][1] = __float_as_uint(fabsf(four.y));
        bits[i][2] = __float_as_uint(fabsf(four.z));
        bits[i][3] = __float_as_uint(fabsf(four.w));
    }
    if (operand.by_row) {
#pragma unroll
        for (int i = 0; i < PATCH_EACH; i++) {
            uint32_t high = 0, low = 0;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                high = max(high, bits[i][j]);
                low = max(low, 0 - bits[i][j]);
            }
            high = __reduce_max_sync(~0u, high);
            low = __reduce_max_sync(~0u, low);
            if (threadIdx.x % 32 == 0 && at.row + i < operand.rows)
                line_widen(&operand.line[at.batch * operand.rows + at.row + i], {high, low, 0});
        }
    } else {
        column_line[threadIdx.x] = {};
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 4; j++) {
            split_line line = {};
#pragma unroll
            for (int i = 0; i < PATCH_EACH; i++) {
                line.high = max(line.high, bits[i][j]);
                line.low = max(line.low, 0 - bits[i][j]);
            }
            atomicMax(&column_line[threadIdx.x % 64 * 4 + j].high, line.high);
            atomicMax(&column_line[threadIdx.x % 64 * 4 + j].low, line.low);
        }
        __syncthreads();
        const int64_t column = at.column - threadIdx.x % 64 * 4 + threadIdx.x;
        if (column < operand.columns)
            line_widen(&operand.line[at.batch * operand.columns + column], column_line[threadIdx.x]);
    }
}

/* Cuts each number into hi and lo, and counts each line's large numbers. */
__global__ void __launch_bounds__(PATCH_THREADS) split_cut_kernel(const __grid_constant__ split_pair pair) {
    __shared__ uint32_t patch_large[PATCH_COLUMNS];
    const split_operand &operand = pair.operand[blockIdx.z];
    const split_place at = split_patch(operand);
    if (at.batch >= operand.count) return;
    split_line *line = operand.line + at.batch * (operand.by_row ? operand.rows : operand.columns);
    __half *hi = operand.slice + (at.batch * operand.rows + at.row) * operand.pitch + at.column;
    __half *lo = hi + operand.count * operand.rows * operand.pitch;
    patch_large[threadIdx.x] = 0;
    __syncthreads();

    float4 four[PATCH_EACH];
    uint32_t row_high[PATCH_EACH] = {}, column_high[4] = {};
    uint32_t row_large[PATCH_EACH] = {}, column_large[4] = {};
#pragma unroll
    for (int i = 0; i < PATCH_EACH; i++) {
        four[i] = split_load(operand, at, i);
        if (operand.by_row && at.row + i < operand.rows) row_high[i] = line[at.row + i].high;
    }
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (!operand.by_row && at.column + j < operand.columns) column_high[j] = line[at.column + j].high;
#pragma unroll
    for (int i = 0; i < PATCH_EACH; i++) {
        const float number[] = {four[i].x, four[i].y, four[i].z, four[i].w};
        alignas(8) __half upper[4], lower[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const uint32_t high = operand.by_row ? row_high[i] : column_high[j];
            const float scaled = number[j] * power_of_two(line_shift(high));
            const bool large = is_large(number[j], high);
            upper[j] = __float2half_rn(scaled);
            lower[j] = __float2half_rn((scaled - __half2float(upper[j])) * LO_SCALE);
            row_large[i] += large, column_large[j] += large;
        }
        if (at.row + i >= operand.rows || at.column >= operand.columns) continue;
        *reinterpret_cast<uint2 *>(hi + i * operand.pitch) = *reinterpret_cast<const uint2 *>(upper);
        *reinterpret_cast<uint2 *>(lo + i * operand.pitch) = *reinterpret_cast<const uint2 *>(lower);
    }

    if (operand.by_row) {
#pragma unroll
        for (int i = 0; i < PATCH_EACH; i++) {
            const uint32_t sum = __reduce_add_sync(~0u, row_large[i]);
            if (threadIdx.x % 32 == 0 && at.row + i < operand.rows) atomicAdd(&line[at.row + i].large, sum);
        }
    } else {
#pragma unroll
        for (int j = 0; j < 4; j++) atomicAdd(&patch_large[threadIdx.x % 64 * 4 + j], column_large[j]);
        __syncthreads();
        const int64_t column = at.column - threadIdx.x % 64 * 4 + threadIdx.x;
        if (column < operand.columns) atomicAdd(&line[column].large, patch_large[threadIdx.x]);
    }
}

#endif
