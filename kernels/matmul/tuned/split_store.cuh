/* split_store.cuh - stores the sums of split.cu in C: undoes the scaling, and finds the elements for which two slices
 * do not suffice; later stores these elements from three slices, or from a plain sum.
 *
 * split_slices.cuh has the rule for which elements fail. A thread holds 64 sums of a tile in the layout of wgmma.cuh,
 * the same with two slices and with three: so a word of 64 bits marks which of its sums have failed, and the same
 * thread of a later launch stores them. */
#ifndef KERNELS_SPLIT_STORE_CUH
#define KERNELS_SPLIT_STORE_CUH

#include "split_slices.cuh"
#include "wgmma.cuh"

#define TILE_N 128

/* The elements that failed with two slices: a list of the clusters' tiles that have any, and for each thread of a tile
 * a bit for each of its 64 sums. The order of the list depends on timing, its content does not. `count` NULL: all
 * elements are computed from three slices. */
#define FAILED_EACH (WGMMA_CLUSTER * 2 * WARPGROUP) /* threads with sums of a tile */
struct split_failed {
    uint32_t *count;  /* number of listed tiles */
    uint32_t *listed; /* [tiles]: is the tile in the list? */
    uint64_t *sums;   /* [tiles][FAILED_EACH]: which sums failed, of listed tiles */
    uint32_t *list;   /* [tiles] */
};

/* The index in split_failed.sums of this thread, for tile `number`. */
__device__ inline int64_t failed_at(int64_t number, int consumer) {
    return number * FAILED_EACH + (cluster_column() * 2 + consumer) * WARPGROUP + threadIdx.x % WARPGROUP;
}

/* ---- where a thread's 64 sums are ------------------------------------------------------------------------------ */

/* The position in C of a thread's first sum, from which wgmma.cuh's layout places the others: sums 0 and 1 are
 * neighbours in a row, 2 and 3 lie 8 rows below them, 4 to 7 lie 8 columns to the right of 0 to 3, and so on. */
struct split_corner {
    int64_t batch, m, n;
};

/* The row and the column of sum i. */
__device__ inline int64_t split_row(const split_corner &corner, int i) {
    return corner.m + i / 2 % 2 * 8;
}

__device__ inline int64_t split_column(const split_corner &corner, int i) {
    return corner.n + i / 4 * 8 + i % 2;
}

/* Loads the lines at, at + STEP ...; a line that does not exist is loaded as one of zeros. */
template <int COUNT, int STEP>
__device__ inline void split_lines(const split_line *line, int64_t at, int64_t lines, split_line (&found)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) found[i] = at + i * STEP < lines ? line_load(line + at + i * STEP) : split_line();
}

/* sum * 2^shift, which undoes the scaling of its lines. In two factors, because the power may exceed float's range
 * though the product does not. */
__device__ inline float split_unscale(float sum, int shift) {
    return sum * power_of_two(shift / 2) * power_of_two(shift - shift / 2);
}

/* Stores a warpgroup's 64 x 128 sums, except those that have failed, and returns these, a bit each. All loads come
 * before the first store and without branches between them, so that they overlap: each lane loads four of the warp's
 * 128 columns and shares them by shuffles. */
__device__ inline uint64_t split_store(const matmul_args &args, const split_line *a_line, const split_line *b_line,
                                       const split_corner &corner, float (&sum)[64]) {
    const int lane = int(threadIdx.x) % 4;
    const auto holder = [&](int i) { return i / 4 % 4 * 8 + lane * 2 + i % 2; }; /* the lane with sum i's column */
    split_line row[2], column[TILE_N / 32];
    split_lines<2, 8>(a_line, corner.m, args.m, row);
    split_lines<TILE_N / 32, 32>(b_line, corner.n - lane * 2 + threadIdx.x % 32, args.n, column);
    int up[2], along[TILE_N / 32];
    uint32_t tiny = 0; /* in any of the lines */
#pragma unroll
    for (int i = 0; i < 2; i++) up[i] = -line_shift<split_two>(row[i].high), tiny |= row[i].tiny;
#pragma unroll
    for (int i = 0; i < TILE_N / 32; i++) along[i] = -line_shift<split_two>(column[i].high), tiny |= column[i].tiny;
    uint64_t failed = 0;
    if (__any_sync(~0u, tiny > 0)) {
#pragma unroll
        for (int i = 0; i < 64; i++) {
            const uint32_t both = row[i / 2 % 2].tiny + __shfl_sync(~0u, column[i / 16].tiny, holder(i));
            const bool exists = split_row(corner, i) < args.m && split_column(corner, i) < args.n;
            if (exists && both > 0 && !(fabsf(sum[i]) >= 2 * float(both))) failed |= uint64_t(1) << i;
        }
    }
#pragma unroll
    for (int i = 0; i < 64; i++)
        sum[i] = split_unscale(sum[i], up[i / 2 % 2] + __shfl_sync(~0u, along[i / 16], holder(i)));
    /* Are all sums of the thread stored, and two at a time? */
    const bool inside = corner.m + 8 < args.m && corner.n - lane * 2 + TILE_N <= args.n && args.n % 2 == 0;
    if (!__all_sync(~0u, inside && !failed)) {
#pragma unroll
        for (int i = 0; i < 64; i++) {
            const int64_t m = split_row(corner, i), n = split_column(corner, i);
            if (m < args.m && n < args.n && !(failed >> i & 1))
                matmul_store<float>(args, (corner.batch * args.m + m) * args.n + n, sum[i]);
        }
        return failed;
    }

    const int64_t element = (corner.batch * args.m + corner.m) * args.n + corner.n;
    float *const to = static_cast<float *>(args.last ? args.c : args.partial) + element;
    if (!args.first) {
        const float *const partial = static_cast<const float *>(args.partial) + element;
        float2 earlier[32];
#pragma unroll
        for (int i = 0; i < 32; i++)
            earlier[i] = *reinterpret_cast<const float2 *>(partial + i % 2 * 8 * args.n + i / 2 * 8);
#pragma unroll
        for (int i = 0; i < 32; i++) sum[i * 2] += earlier[i].x, sum[i * 2 + 1] += earlier[i].y;
    }
    if (args.last && args.alpha != 1)
#pragma unroll
        for (int i = 0; i < 64; i++) sum[i] = float(args.alpha * sum[i]);
#pragma unroll
    for (int i = 0; i < 32; i++)
        *reinterpret_cast<float2 *>(to + i % 2 * 8 * args.n + i / 2 * 8) = make_float2(sum[i * 2], sum[i * 2 + 1]);
    return 0;
}

/* Computes an element in float32, by one multiply-add after the other. */
__device__ inline float split_dot(const split_pair &pair, const matmul_args &args, const split_corner &corner,
                                  int64_t m, int64_t n) {
    const split_operand &a = pair.operand[0], &b = pair.operand[1];
    const float *x = a.x + (a.count > 1 ? corner.batch * a.stride : 0) + m * (a.k_adjacent ? a.columns : 1);
    const float *y = b.x + (b.count > 1 ? corner.batch * b.stride : 0) + n * (b.k_adjacent ? b.columns : 1);
    const int64_t x_step = a.k_adjacent ? 1 : a.columns, y_step = b.k_adjacent ? 1 : b.columns;
    float sum = 0;
#pragma unroll 8
    for (int64_t l = 0; l < args.k; l++) sum = fmaf(x[l * x_step], y[l * y_step], sum);
    return sum;
}

/* A bit for each of a thread's sums that lies in C. */
__device__ inline uint64_t split_existing(const matmul_args &args, const split_corner &corner) {
    uint64_t exist = 0;
#pragma unroll
    for (int i = 0; i < 64; i++)
        exist |= uint64_t(split_row(corner, i) < args.m && split_column(corner, i) < args.n) << i;
    return exist;
}

/* Stores the sums of three slices that failed with two (`failed`: bit i for sum i). A sum that may still be wrong is
 * computed again, as a dot product. */
__device__ inline void split_mend(const split_pair &pair, const matmul_args &args, const split_line *a_line,
                                  const split_line *b_line, const split_corner &corner, const float (&sum)[64],
                                  uint64_t failed) {
    const float smallest = 0x1p-55f * float(args.k);
    uint64_t again = 0;
    const auto element = [&](int i) {
        return (corner.batch * args.m + split_row(corner, i)) * args.n + split_column(corner, i);
    };
#pragma unroll
    for (int i = 0; i < 64; i++) {
        if (!(failed >> i & 1)) continue;
        const split_line row = line_load(a_line + split_row(corner, i));
        const split_line column = line_load(b_line + split_column(corner, i));
        if (lines_hard(row, column) && !(fabsf(sum[i]) >= smallest)) {
            again |= uint64_t(1) << i;
            continue;
        }
        const int shift = -line_shift<split_three>(row.high) - line_shift<split_three>(column.high);
        matmul_store<float>(args, element(i), split_unscale(sum[i], shift));
    }
#pragma unroll 1
    for (; again; again &= again - 1) {
        const int i = __ffsll(int64_t(again)) - 1;
        const float dot = split_dot(pair, args, corner, split_row(corner, i), split_column(corner, i));
        matmul_store<float>(args, element(i), dot);
    }
}

#endif
