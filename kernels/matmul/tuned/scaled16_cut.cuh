/* scaled16_cut.cuh - scales float32 matrices line by line and rounds them to float16, for scaled16.cu, in one pass, by
 * a scale that a sample of each line predicts. */
#ifndef KERNELS_MATMUL_SCALED16_CUT_CUH
#define KERNELS_MATMUL_SCALED16_CUT_CUH

#include "../../core/cluster.cuh"
#include "lines.cuh"
#include <cuda_fp16.h>

#define SAMPLE       64      /* numbers of a line's sample, in 8 groups */
#define SAMPLE_LINES 32      /* lines that a block samples */
#define SAMPLE_TOP   12      /* the exponent given to the largest number of a sample */
#define CUT_TOP      14      /* the exponent given to the largest number of a line that is cut again */
#define TOO_LARGE    65520.f /* the least number that float16 rounds to infinity */
#define MAX_SHIFT    150     /* makes the least float32 2 */

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* Here the members of split_line (lines.cuh) have another meaning. `low`: the bits of the largest magnitude in the
 * sample. `high`: the bits of the line's largest magnitude if that is too large for the sample's scale, else 0. `tiny`:
 * the number of tiny numbers by the sample's scale. `again`: their number by the scale of `high`, if the line is cut
 * again. */

/* The exponent of the power of two by which a line is scaled; `is_final`: after it was cut again. A sample of zeros is
 * scaled as one of the least number. */
__device__ inline int scaled_shift(const split_line &line, bool is_final) {
    const bool by_high = is_final && line.high;
    return min((by_high ? CUT_TOP - float_exponent(line.high) : SAMPLE_TOP - float_exponent(line.low)), MAX_SHIFT);
}

/* x * 2^shift, also if the power alone exceeds float's range. */
__device__ inline float scaled_by(float x, int shift) {
    return x * power_of_two(shift / 2) * power_of_two(shift - shift / 2);
}

/* Samples each line (split_line.low), and zeroes `words` words at `zero`. */
__global__ void __launch_bounds__(8 * SAMPLE_LINES)
    scaled_sample_kernel(const __grid_constant__ split_pair pair, uint32_t *zero, int64_t words) {
    __shared__ uint32_t found[SAMPLE_LINES];
    launch_wait();
    launch_next();
    const split_operand &operand = pair.operand[blockIdx.z];
    const int64_t number = block_number(), blocks = int64_t(gridDim.x) * gridDim.y, threads = 8 * SAMPLE_LINES;
    for (int64_t i = (blockIdx.z * blocks + number) * threads + threadIdx.x; i < words; i += 2 * blocks * threads)
        zero[i] = 0;
    const int64_t lines = operand.lines(), groups = (lines + SAMPLE_LINES - 1) / SAMPLE_LINES;
    const int64_t batch = quotient(number, groups), first = (number - batch * groups) * SAMPLE_LINES;
    if (batch >= operand.count) return;
    if (threadIdx.x < SAMPLE_LINES) found[threadIdx.x] = 0;
    __syncthreads();
    /* Neighbouring threads read adjacent numbers. */
    const int line = int(operand.k_adjacent ? threadIdx.x / 8 : threadIdx.x % SAMPLE_LINES);
    const int group = int(operand.k_adjacent ? threadIdx.x % 8 : threadIdx.x / SAMPLE_LINES);
    const int64_t k = operand.k_adjacent ? operand.columns : operand.rows,
                  step = operand.k_adjacent ? 1 : operand.columns;
    const int64_t begin = k < SAMPLE ? group * 8 : group * (k / 8);
    const float *const x = operand.x + batch * operand.stride + (first + line) * (operand.k_adjacent ? k : 1);
    uint32_t bits[8], high = 0;
#pragma unroll
    for (int i = 0; i < 8; i++)
        bits[i] = first + line < lines && begin + i < k ? __float_as_uint(fabsf(x[(begin + i) * step])) : 0;
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (bits[i] < 0x7f800000) high = max(high, bits[i]);
    atomicMax(&found[line], high);
    __syncthreads();
    if (threadIdx.x < SAMPLE_LINES && first + threadIdx.x < lines)
        operand.line[batch * lines + first + threadIdx.x] = {0, found[threadIdx.x], 0, 0};
}

/* ---- cut --------------------------------------------------------------------------------------------------------- */

/* Cuts a thread's share of a patch (lines.cuh). AGAIN: only lines with a number that was too large, by their
 * largest. K_ADJACENT: lines are rows of the operand in memory, not columns. */
template <bool K_ADJACENT, bool AGAIN>
__device__ inline void scaled_cut(const split_operand &operand, const split_place &at, uint32_t *again) {
    constexpr int LINES = K_ADJACENT ? PATCH_EACH : 4;
    const int64_t first = K_ADJACENT ? at.row : at.column, lines = operand.lines();
    split_line *const line = operand.line + at.batch * lines + first;
    __half *const to =
        static_cast<__half *>(operand.slice) + (at.batch * operand.rows + at.row) * operand.pitch + at.column;
    int shift[LINES];
    uint32_t taken = 0; /* the lines to cut, a bit each */
#pragma unroll
    for (int i = 0; i < LINES; i++) {
        const split_line known = first + i < lines ? line_load(line + i) : split_line();
        shift[i] = scaled_shift(known, AGAIN);
        taken |= uint32_t(!AGAIN || known.high) << i;
    }
    if (AGAIN && !__any_sync(~0u, taken)) return;

    /* Scales, rounds and stores the numbers. */
    float4 four[PATCH_EACH];
#pragma unroll
    for (int i = 0; i < PATCH_EACH; i++) four[i] = split_load<true>(operand, at, i);
    uint32_t tiny = 0;         /* the thread's number of tiny numbers of each line, four bits each */
    uint32_t high[LINES] = {}; /* the bits of the thread's largest number of each line that is too large */
#pragma unroll
    for (int i = 0; i < PATCH_EACH; i++) {
        const float number[] = {four[i].x, four[i].y, four[i].z, four[i].w};
        struct alignas(8) {
            __half x[4];
        } cut;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int l = K_ADJACENT ? i : j;
            const float x = number[j], scaled = scaled_by(x, shift[l]);
            cut.x[j] = __float2half_rn(scaled);
            tiny += uint32_t(is_tiny(x, scaled)) << l * 4;
            if (fabsf(scaled) >= TOO_LARGE && __float_as_uint(fabsf(x)) < 0x7f800000)
                high[l] = max(high[l], __float_as_uint(fabsf(x)));
        }
        if (at.row + i < operand.rows && at.column < operand.columns)
            *reinterpret_cast<uint2 *>(to + i * operand.pitch) = *reinterpret_cast<const uint2 *>(cut.x);
    }

    /* Records in the lines what the warp has found: if a line is a row, by one thread. */
#pragma unroll
    for (int i = 0; i < LINES; i++) {
        uint32_t count = tiny >> i * 4 & 15;
        if (!__any_sync(~0u, count | high[i])) continue;
        if (K_ADJACENT) count = __reduce_add_sync(~0u, count), high[i] = __reduce_max_sync(~0u, high[i]);
        if ((K_ADJACENT && threadIdx.x % 32 > 0) || !(taken >> i & 1)) continue;
        if (count) atomicAdd(AGAIN ? &line[i].again : &line[i].tiny, count);
        if (!AGAIN && high[i]) line_widen(line + i, high[i], 0), *again = 1;
    }
}

/* Cuts a patch in each block; AGAIN: a block takes patch after patch. */
template <bool AGAIN>
__global__ void __launch_bounds__(PATCH_THREADS, AGAIN ? 2 : 4)
    scaled_cut_kernel(const __grid_constant__ split_pair pair, uint32_t *again) {
    launch_wait();
    launch_next();
    if (AGAIN && *again == 0) return;
    const split_operand &operand = pair.operand[blockIdx.z];
    const int64_t patches = split_patches(operand);
    for (int64_t number = block_number(); number < patches; number += int64_t(gridDim.x) * gridDim.y) {
        const split_place at = split_patch(operand, number);
        if (operand.k_adjacent)
            scaled_cut<true, AGAIN>(operand, at, again);
        else
            scaled_cut<false, AGAIN>(operand, at, again);
        if (!AGAIN) return;
    }
}

#endif
