/* split_slices.cuh - float32 matrices cut into float16 slices for matmul_split.cu.
 *
 * Each line (a row of A, a column of B) is scaled by a power of two, which is exact, so that its largest number comes
 * to lie in 2^14 .. 2^15, just below float16's end. A scaled number x is then written as
 *
 *     x = hi + lo / 2048 + rest       hi = float16(x), lo = float16((x - hi) * 2048), |rest| <= 2^-23 |x|
 *
 * hi has 11 bits and lo the next 11. Scaling lo by 2^11 gives it hi's own range: unscaled it would be subnormal, short
 * of bits, already for numbers 2^-15 of the line's largest. So: all 22 bits down to 2^-28 of the largest, then one less
 * with each power of two. A line that has something (but zero) below 2^-34, or Inf or NaN, or nothing above 2^-112, is
 * "odd": its slices are worthless, and matmul_split.cu computes its part of C another way.
 *
 * Two passes over an operand, since a line's scale is known only at its end: 8 bytes read and 4 written an element. At
 * 8192 measuring takes 0.23 ms and cutting 0.27, of 5.2 ms with the product. */
#ifndef KERNELS_SPLIT_SLICES_CUH
#define KERNELS_SPLIT_SLICES_CUH

#include "../core/launch.cuh"
#include <cuda_fp16.h>

enum { HI, LO, SLICES };

#define LO_SCALE 2048.f /* what 11 bits less leave of a number, in hi's range again */
#define TOP      14     /* exponent that a line's largest number is scaled to */
#define SPAN     34     /* exponents below a line's largest number, down to which the slices hold what counts */

/* ---- lines: rows of A, columns of B ---------------------------------------------------------------------------- */

/* What is known of a line: bits of its largest magnitude, and minus those of its least but zero. Zeroed: nothing yet.
 */
struct alignas(8) split_line {
    uint32_t high, low;
};

__device__ inline int float_exponent(uint32_t bits) {
    return bits >> 23 ? int(bits >> 23) - 127 : -118 - __clz(int(bits));
}

/* Is the line beyond what slices can hold: Inf or NaN, too wide, or too small to be scaled to the top? */
__device__ inline bool line_odd(split_line line) {
    if (line.high == 0) return false;
    const int exponent = float_exponent(line.high);
    return exponent == 128 || exponent < TOP - 126 || exponent - float_exponent(0 - line.low) > SPAN;
}

/* The power of two that the line was multiplied with; of an odd line anything. */
__device__ inline int line_shift(split_line line) {
    return line.high == 0 ? 0 : min(TOP - float_exponent(line.high), 126);
}

/* Takes in what another block found. Most find nothing new, and a look is cheaper than an atomic. */
__device__ inline void line_widen(split_line *line, split_line by) {
    const uint2 known = __ldcg(reinterpret_cast<const uint2 *>(line));
    if (known.x < by.high) atomicMax(&line->high, by.high);
    if (known.y < by.low) atomicMax(&line->low, by.low);
}

__device__ inline float power_of_two(int exponent) {
    return __int_as_float((127 + exponent) << 23);
}

/* ---- the slices ------------------------------------------------------------------------------------------------ */

/* One operand: as it comes, and as it goes into the tensor core: hi of each matrix of the stack, then lo of each. */
struct split_operand {
    const float *x;
    __half *slice;    /* [SLICES][count][rows][pitch] */
    split_line *line; /* [count][rows or columns] */
    int64_t count, rows, columns, stride, pitch;
    bool by_row; /* lines are rows as stored */
    bool fours;  /* x can be read in 16-byte pieces */
};

/* Both operands; a launch's z axis picks one. */
struct split_pair {
    split_operand operand[2];
};

/* A block of 256 threads works on a patch of 32 rows by 256 columns: a thread on 8 rows of 4 columns. */
#define PATCH_ROWS    32
#define PATCH_COLUMNS 256
#define PATCH_THREADS 256
#define PATCH_EACH    8

/* Where in its operand a thread begins. */
struct split_place {
    int64_t batch, row, column;
};

__device__ inline split_place split_patch(const split_operand &operand) {
    const tile_place patch = tile_of_block((operand.rows + PATCH_ROWS - 1) / PATCH_ROWS,
                                           (operand.columns + PATCH_COLUMNS - 1) / PATCH_COLUMNS);
    return {patch.batch, patch.row * PATCH_ROWS + threadIdx.x / 64 * PATCH_EACH,
            patch.column * PATCH_COLUMNS + threadIdx.x % 64 * 4};
}

/* Four numbers of a row from `column` on; beyond the edge zeros. */
__device__ inline float4 split_load(const split_operand &operand, const split_place &at, int i) {
    if (at.row + i >= operand.rows || at.column >= operand.columns) return float4();
    const float *x = operand.x + at.batch * operand.stride + (at.row + i) * operand.columns + at.column;
    if (operand.fours) return __ldg(reinterpret_cast<const float4 *>(x));
    const auto take = [&](int j) { return at.column + j < operand.columns ? x[j] : 0; };
    return make_float4(take(0), take(1), take(2), take(3));
}

/* Finds each line's largest and least magnitude. Maxima do not depend on the order in which blocks come. */
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
                line_widen(&operand.line[at.batch * operand.rows + at.row + i], {high, low});
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

/* Cuts each number into hi and lo, and counts odd lines. */
__global__ void __launch_bounds__(PATCH_THREADS)
    split_cut_kernel(const __grid_constant__ split_pair pair, uint32_t *odd_lines) {
    const split_operand &operand = pair.operand[blockIdx.z];
    const split_place at = split_patch(operand);
    if (at.batch >= operand.count || at.column >= operand.columns) return;
    const split_line *line = operand.line + at.batch * (operand.by_row ? operand.rows : operand.columns);
    __half *hi = operand.slice + (at.batch * operand.rows + at.row) * operand.pitch + at.column;
    __half *lo = hi + operand.count * operand.rows * operand.pitch;
    float scale[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const bool mine = !operand.by_row && at.column + j < operand.columns;
        scale[j] = mine ? power_of_two(line_shift(line[at.column + j])) : 0;
        if (mine && at.row == 0 && line_odd(line[at.column + j])) atomicAdd(odd_lines, 1);
    }
#pragma unroll
    for (int i = 0; i < PATCH_EACH; i++) {
        if (at.row + i >= operand.rows) return;
        if (operand.by_row) {
            const split_line row_line = line[at.row + i];
            scale[0] = scale[1] = scale[2] = scale[3] = power_of_two(line_shift(row_line));
            if (at.column == 0 && line_odd(row_line)) atomicAdd(odd_lines, 1);
        }
        const float4 four = split_load(operand, at, i);
        const float number[] = {four.x * scale[0], four.y * scale[1], four.z * scale[2], four.w * scale[3]};
        alignas(8) __half upper[4], lower[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            upper[j] = __float2half_rn(number[j]);
            lower[j] = __float2half_rn((number[j] - __half2float(upper[j])) * LO_SCALE);
        }
        *reinterpret_cast<uint2 *>(hi + i * operand.pitch) = *reinterpret_cast<const uint2 *>(upper);
        *reinterpret_cast<uint2 *>(lo + i * operand.pitch) = *reinterpret_cast<const uint2 *>(lower);
    }
}

#endif
