/* split_lists.cuh - the lines of matmul/split.cu's operands, listed by what slices can do with them.
 *
 * Which elements slices give is a matter of two lines' classes (split_slices.cuh). Where some lines are not good, all
 * are listed, class by class, so that what is held and what is not are boxes of neighbouring lines. Places are counted,
 * not drawn: the list is the same every run. */
#ifndef KERNELS_SPLIT_LISTS_CUH
#define KERNELS_SPLIT_LISTS_CUH

#include "split_slices.cuh"

#define LIST_EACH 8 /* neighbouring lines a thread */

/* Lists the lines of a matrix: by the whole block. Counts of the four classes travel in 16 bits each. */
__device__ inline void split_list(const split_pair &pair, int which, int64_t matrix) {
    __shared__ uint32_t total[CLASSES];
    __shared__ uint64_t of_warp[PATCH_THREADS / 32];
    const split_operand &operand = pair.operand[which];
    const int64_t lines = operand.lines(), k = operand.k();
    split_line *line = operand.line + matrix * lines;
    int32_t *list = operand.list + matrix * operand.list_room();
    const int thread = int(threadIdx.x), lane = thread % 32, warp = thread / 32;
    __syncthreads();
    if (thread < CLASSES) total[thread] = 0;
    __syncthreads();
    uint32_t seen[CLASSES] = {};
#pragma unroll 4
    for (int64_t i = thread; i < lines; i += PATCH_THREADS) {
        const int found = line_class(line_load(line + i), k);
#pragma unroll
        for (int c = 0; c < CLASSES; c++) seen[c] += found == c;
    }
#pragma unroll
    for (int c = 0; c < CLASSES; c++) {
        const uint32_t sum = __reduce_add_sync(~0u, seen[c]);
        if (lane == 0 && sum > 0) atomicAdd(&total[c], sum);
    }
    __syncthreads();

    const int order[CLASSES] = {LINE_GOOD, LINE_GOOD | LINE_STRONG, LINE_STRONG, LINE_UNHELD};
    int next[CLASSES]; /* where the next line of each class goes */
    int begin = 0;
#pragma unroll
    for (int s = 0; s < CLASSES; s++) {
        const int c = order[s], count = int(total[c]), end = begin + count, round = (end + 3) / 4 * 4;
        next[c] = begin;
        if (thread == 0) {
            operand.ranges[matrix].begin[c] = begin;
            operand.ranges[matrix].count[c] = count;
            if (count > 0) atomicAdd(&pair.tally->classes[which][c], unsigned(count));
        }
        if (s < CLASSES - 1 && thread < round - end) list[end + thread] = -1;
        begin = round;
    }
    for (int64_t base = 0; base < lines; base += PATCH_THREADS * LIST_EACH) {
        const int64_t first = base + thread * LIST_EACH;
        int of[LIST_EACH];
        uint64_t own = 0;
#pragma unroll
        for (int i = 0; i < LIST_EACH; i++) {
            of[i] = first + i < lines ? line_class(line_load(line + first + i), k) : -1;
            if (of[i] >= 0) own += uint64_t(1) << 16 * of[i];
        }
        uint64_t up_to = own; /* of the warp, this thread included */
#pragma unroll
        for (int i = 1; i < 32; i *= 2) {
            const uint64_t before = __shfl_up_sync(~0u, up_to, i);
            if (lane >= i) up_to += before;
        }
        if (lane == 31) of_warp[warp] = up_to;
        __syncthreads();
        uint64_t place = up_to - own, all = 0;
#pragma unroll
        for (int i = 0; i < PATCH_THREADS / 32; i++) {
            if (i < warp) place += of_warp[i];
            all += of_warp[i];
        }
#pragma unroll
        for (int i = 0; i < LIST_EACH; i++)
#pragma unroll
            for (int c = 0; c < CLASSES; c++)
                if (of[i] == c) {
                    const int to = next[c] + int(place >> 16 * c & 0xffff);
                    line[first + i].place = unsigned(to);
                    list[to] = int32_t(first + i);
                    place += uint64_t(1) << 16 * c;
                }
#pragma unroll
        for (int c = 0; c < CLASSES; c++) next[c] += int(all >> 16 * c & 0xffff);
        __syncthreads();
    }
}

/* Counts the large numbers of a patch's lines. */
__device__ inline void split_count(const split_operand &operand, const split_place &at) {
    __shared__ uint32_t patch_large[PATCH_COLUMNS];
    split_line *line = operand.line + at.batch * operand.lines();
    patch_large[threadIdx.x] = 0;
    __syncthreads();
    uint32_t column_high[4] = {}, column_large[4] = {};
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (!operand.by_row && at.column + j < operand.columns) column_high[j] = line[at.column + j].high;
#pragma unroll
    for (int i = 0; i < PATCH_EACH; i++) {
        const float4 four = split_load(operand, at, i);
        const float number[] = {four.x, four.y, four.z, four.w};
        const bool inside = at.row + i < operand.rows;
        const uint32_t row_high = operand.by_row && inside ? line[at.row + i].high : 0;
        uint32_t row_large = 0;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const bool exists = inside && at.column + j < operand.columns;
            const bool large = exists && is_large(number[j], operand.by_row ? row_high : column_high[j]);
            row_large += large, column_large[j] += large;
        }
        if (!operand.by_row) continue;
        row_large = __reduce_add_sync(~0u, row_large);
        if (threadIdx.x % 32 == 0 && inside) atomicAdd(&line[at.row + i].large, row_large);
    }
    if (!operand.by_row) {
#pragma unroll
        for (int j = 0; j < 4; j++) atomicAdd(&patch_large[threadIdx.x % 64 * 4 + j], column_large[j]);
        __syncthreads();
        const int64_t column = at.patch_column * PATCH_COLUMNS + threadIdx.x;
        if (column < operand.columns) atomicAdd(&line[column].large, patch_large[threadIdx.x]);
    }
    __syncthreads();
}

/* Adds the block to those that have come here; true: it is the last of `all`, and sees what they wrote. */
__device__ inline bool split_is_last(uint32_t *arrived, int64_t all) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(arrived, 1) + 1 == all;
    __syncthreads();
    const bool is = last;
    __syncthreads();
    __threadfence();
    return is;
}

/* Counts large numbers, if a line is wide, and lists the lines of every matrix. Nothing to do if all are
 * good. */
__global__ void __launch_bounds__(PATCH_THREADS) split_list_kernel(const __grid_constant__ split_pair pair) {
    if (!split_listed(pair)) return;
    const bool count = pair.tally->wide > 0;
    for (int which = 0; which < 2; which++) {
        const split_operand &operand = pair.operand[which];
        const int64_t patches = split_patch_rows(operand) * split_patch_columns(operand);
        const int64_t tasks = operand.count * (count ? patches : 1);
        for (int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
            int64_t matrix = task;
            if (count) {
                const split_place at = split_patch(operand, task);
                split_count(operand, at);
                matrix = at.batch;
                if (!split_is_last(&operand.counted[matrix], patches)) continue;
            }
            split_list(pair, which, matrix);
        }
    }
}

#endif
