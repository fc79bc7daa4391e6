/* split_slices.cuh - cuts float32 matrices into slices of 16 bits, for split.cu.
 *
 * A line is a row of A or a column of B. Each is scaled by a power of two, which is exact, and each of its numbers is
 * written as a sum of slices, in one of two ways:
 *
 *     two of float16        x = hi + lo / 4096 + rest      the largest of a line in 2^14 .. 2^15, float16's limit
 *     three of bfloat16     x = a + b + c                  the largest of a line in 2^47 .. 2^48
 *
 * Two of float16: three products of slices, fast. hi has 11 bits and lo the next 11. lo is scaled up into hi's range:
 * unscaled, it would be subnormal and lose bits already for numbers 2^-15 of the line's largest. A product x y loses
 * lo lo / 2^24 and the products with a rest. The loss depends on whether hi is a normal float16 number:
 *
 *     x, scaled                  of the largest       |lo / 4096|   |rest|         x y loses at most
 *     from 2^-14 on: normal      down to 2^-28        2^-12 |x|     2^-23 |x|      2^-21 |x y|, both being normal
 *     below: "tiny"              below                2^-25         2^-37          2^-21 |x y| and 2^-21
 *
 * (|y| is 2^15 at most, so a tiny x loses 2^-37 2^15 with its rest and 2^-25 2^3 with lo lo.) An element of C whose
 * lines have no tiny numbers is right, wherever zeros are. If its lines have t tiny numbers, it has lost at most t
 * 2^-21 more, in the scale of its lines. If the sum is at least 2 t, that is 2^-22 of the sum, less than its own
 * rounding. The largest product of two lines may be 2^30, so practically all sums of ordinary numbers are that large,
 * even if one of the lines is a row of a softmax or holds numbers spread over 2^-60 .. 2^60. A smaller sum has failed,
 * and is computed again.
 *
 * Three of bfloat16: six products, slower. All 24 bits of a float are there, and bfloat16 has the range of float32. The
 * products left out, b c, c b and c c, are below 2^-25 of x y. A bit of c is lost only if x, scaled, is below 2^-96;
 * and a product of slices only if x y is. Lines where two such may meet are "hard"; the same test by the sum, which
 * must be 2^-55 k, holds all but products of which nearly all are zero. Such an element is computed by one thread.
 *
 * Infinities and NaN do not count for a line's scale. They are themselves in the first slice and make NaN of the
 * others, so of a sum that is not finite only the part from first slices counts. That part is what arithmetic makes of
 * the numbers, unless a tiny number has become a zero first slice: then the sum is NaN, and has failed.
 *
 * Whether an element fails depends on its two lines and its sum alone. So its bits do not depend on other elements: a
 * panel of C has the same bits as the whole. Two slices give practically every element: a number of N(0,1) is tiny with
 * a probability of 1e-8.
 *
 * In memory, 8 bytes are read and 4 written per element: one pass measures the lines, one writes slices. */
#ifndef KERNELS_SPLIT_SLICES_CUH
#define KERNELS_SPLIT_SLICES_CUH

#include "lines.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

/* ---- ways to cut ----------------------------------------------------------------------------------------------- */

/* A WAY has `type`, the type of its SLICES slices; TOP, the exponent of a line's largest number, once scaled; LO_SCALE,
 * by which products of a first slice with another one are divided; and cut(), which finds the slices of a number. This
 * way: two of float16. */
struct split_two {
    using type = __half;
    static constexpr int SLICES = 2, TOP = 14;
    static constexpr float LO_SCALE = 4096;

    __device__ static void cut(float x, __half (&slice)[2]) {
        slice[0] = __float2half_rn(x);
        slice[1] = __float2half_rn((x - __half2float(slice[0])) * LO_SCALE);
    }
};

/* The other way: three of bfloat16. */
struct split_three {
    using type = __nv_bfloat16;
    static constexpr int SLICES = 3, TOP = 47;
    static constexpr float LO_SCALE = 1;

    __device__ static void cut(float x, __nv_bfloat16 (&slice)[3]) {
#pragma unroll
        for (int i = 0; i < 3; i++) {
            slice[i] = __float2bfloat16_rn(x);
            x -= __bfloat162float(slice[i]);
        }
    }
};

#define MAX_SLICES 3

/* The exponent of the power of two by which a line is scaled; `high`: split_line's. */
template <typename WAY> __device__ inline int line_shift(uint32_t high) {
    return high == 0 ? 0 : min(WAY::TOP - float_exponent(high), 126);
}

/* The exponent of a line's least number, once scaled. */
template <typename WAY> __device__ inline int line_least(const split_line &line) {
    return line.high == 0 ? WAY::TOP : float_exponent(0 - line.low) + line_shift<WAY>(line.high);
}

/* Does the line, scaled for two slices, have tiny numbers, below float16's smallest normal number 2^-14? */
__device__ inline bool line_has_tiny(const split_line &line) {
    return line_least<split_two>(line) < -14;
}

/* May three slices lose bits of a product of these lines (see above), because a number, or a product of two, is below
 * 2^-96? */
__device__ inline bool lines_hard(const split_line &a, const split_line &b) {
    const int i = line_least<split_three>(a), j = line_least<split_three>(b);
    return min(min(i, j), i + j) < -96;
}

/* ---- measure --------------------------------------------------------------------------------------------------- */

/* Finds the extremes of each line (split_line), a patch per block: of a row each warp finds those of its part, of a
 * column the block. Maxima do not depend on the order of blocks. */
__global__ void __launch_bounds__(PATCH_THREADS) split_measure_kernel(const __grid_constant__ split_pair pair) {
    __shared__ uint2 column_line[PATCH_COLUMNS];
    const split_operand &operand = pair.operand[blockIdx.z];
    const split_place at = split_patch(operand, block_number());
    if (at.batch >= operand.count) return;
    uint32_t bits[PATCH_EACH][4]; /* of magnitudes; 0 if not finite */
#pragma unroll
    for (int i = 0; i < PATCH_EACH; i++) {
        const float4 four = split_load(operand, at, i);
        bits[i][0] = __float_as_uint(fabsf(four.x));
        bits[i][1] = __float_as_uint(fabsf(four.y));
        bits[i][2] = __float_as_uint(fabsf(four.z));
        bits[i][3] = __float_as_uint(fabsf(four.w));
    }
#pragma unroll
    for (int i = 0; i < PATCH_EACH; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (bits[i][j] >= 0x7f800000) bits[i][j] = 0;
    if (operand.k_adjacent) { /* lines are rows: of `low`, the least non-zero magnitude has the largest value */
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
                line_widen(&operand.line[at.batch * operand.rows + at.row + i], high, low);
        }
        return;
    }
    column_line[threadIdx.x] = make_uint2(0, 0);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 4; j++) {
        uint32_t high = 0, low = 0;
#pragma unroll
        for (int i = 0; i < PATCH_EACH; i++) {
            high = max(high, bits[i][j]);
            low = max(low, 0 - bits[i][j]);
        }
        atomicMax(&column_line[threadIdx.x % 64 * 4 + j].x, high);
        atomicMax(&column_line[threadIdx.x % 64 * 4 + j].y, low);
    }
    __syncthreads();
    const int64_t column = at.patch_column * PATCH_COLUMNS + threadIdx.x;
    if (column < operand.columns)
        line_widen(&operand.line[at.batch * operand.columns + column], column_line[threadIdx.x].x,
                   column_line[threadIdx.x].y);
}

/* ---- cut ------------------------------------------------------------------------------------------------------- */

/* Cuts a thread's share of a patch, of which a warp has 8 rows of 128 columns; in two, also counts the lines' tiny
 * numbers. K_ADJACENT: lines are rows of the operand in memory, not columns. */
template <typename WAY, bool K_ADJACENT>
__device__ inline void split_cut(const split_operand &operand, const split_place &at,
                                 const float4 (&four)[PATCH_EACH]) {
    using T = typename WAY::type;
    constexpr int LINES = K_ADJACENT ? PATCH_EACH : 4;
    const int64_t first = K_ADJACENT ? at.row : at.column, lines = operand.lines();
    split_line *const line = operand.line + at.batch * lines + first;
    T *const to = static_cast<T *>(operand.slice) + (at.batch * operand.rows + at.row) * operand.pitch + at.column;
    const int64_t slice_stride = operand.count * operand.rows * operand.pitch;
    int shift[LINES] = {};
    uint32_t have_tiny = 0, tiny = 0; /* do lines have tiny numbers, a bit each; the thread's number, four bits each */
#pragma unroll
    for (int i = 0; i < LINES; i++) {
        if (first + i >= lines) continue;
        const split_line known = line_load(line + i);
        shift[i] = line_shift<WAY>(known.high);
        have_tiny |= uint32_t(line_has_tiny(known)) << i;
    }
#pragma unroll
    for (int i = 0; i < PATCH_EACH; i++) {
        const float number[] = {four[i].x, four[i].y, four[i].z, four[i].w};
        struct alignas(8) {
            T x[4];
        } slices[WAY::SLICES];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int l = K_ADJACENT ? i : j;
            const float scaled = number[j] * power_of_two(shift[l]);
            T found[WAY::SLICES];
            WAY::cut(scaled, found);
#pragma unroll
            for (int s = 0; s < WAY::SLICES; s++) slices[s].x[j] = found[s];
            tiny += uint32_t(is_tiny(number[j], scaled)) << l * 4;
        }
        if (at.row + i >= operand.rows || at.column >= operand.columns) continue;
#pragma unroll
        for (int s = 0; s < WAY::SLICES; s++)
            *reinterpret_cast<uint2 *>(to + i * operand.pitch + s * slice_stride) =
                *reinterpret_cast<const uint2 *>(slices[s].x);
    }
#pragma unroll
    for (int i = 0; i < LINES; i++) {
        if (WAY::SLICES != 2 || !(have_tiny >> i & 1)) continue; /* the same for the whole warp if it has one row */
        uint32_t count = tiny >> i * 4 & 15;
        if (K_ADJACENT) count = __reduce_add_sync(~0u, count);
        if (count > 0 && (!K_ADJACENT || threadIdx.x % 32 == 0)) atomicAdd(&line[i].tiny, count);
    }
}

/* Cuts a patch per block. If `wanted` is not NULL, a block does patch after patch, and nothing if *wanted is 0. */
template <typename WAY>
__global__ void __launch_bounds__(PATCH_THREADS, 3)
    split_cut_kernel(const __grid_constant__ split_pair pair, const uint32_t *wanted) {
    if (wanted && *wanted == 0) return;
    const split_operand &operand = pair.operand[blockIdx.z];
    int64_t number = block_number();
    const int64_t patches = split_patches(operand);
    while (number < patches) {
        const split_place at = split_patch(operand, number);
        float4 four[PATCH_EACH];
#pragma unroll
        for (int i = 0; i < PATCH_EACH; i++) four[i] = split_load(operand, at, i);
        if (operand.k_adjacent)
            split_cut<WAY, true>(operand, at, four);
        else
            split_cut<WAY, false>(operand, at, four);
        if (!wanted) return;
        number += int64_t(gridDim.x) * gridDim.y;
    }
}

#endif
