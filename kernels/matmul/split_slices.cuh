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
 * A line without tiny numbers is "good", one with some is "wide". The products of two good lines are each right to
 * 2^-21 of themselves, wherever zeros are. Tiny numbers do not matter in a sum that also has a product of two large
 * numbers. A number is large if it is within 2^-4 of its line's largest. The product of two large numbers is at least
 * 2^-8 of the product of the lines' largest, and k tiny products beside it lose at most k 2^-41 of it. A line is
 * "strong" if more than half of its k numbers are large; two strong lines have such a product, because two halves and
 * more must meet. So an element is decided by what is known of its two lines, each by itself (lines_held):
 *
 *                            columns  good only   good, strong   wide, strong   neither
 *     rows   good only                slices      slices         plain          plain
 *            good and strong          slices      slices         slices         plain
 *            wide but strong          plain       slices         slices         plain
 *            neither                  plain       plain          plain          plain
 *
 * A good line beside a wide one must be strong, too: a row with a single 1 may meet just the tiny number of a column.
 * An earlier rule, "together more than k large numbers", held a few elements more, but not in whole lines. The plain
 * part is fast only on whole lines: what it does not get so, it would compute in vain (matmul/split_plain.cuh).
 *
 * A line with Inf or NaN, or with nothing above 2^-112, is "odd": neither good nor strong. A line's class never depends
 * on other lines, so neither do the bits of an element: a panel of C has the same as the whole.
 *
 * Slices give practically every element of a product of random matrices. A number of N(0,1) is tiny with a probability
 * of 1e-8, so of lines with 16384 numbers one in 5000 is wide. In each of 36,000 lines drawn, at least 0.72 of the
 * numbers were large, where half is enough. Numbers of very different size are not all held: with N(0,1), each number
 * times its own random 2^(-8..8), 3 elements of C in 10 are computed in float32 at k = 4096 and 8 in 10 at 16384.
 *
 * Passes over the operands:
 *
 *     measure    each line's largest and least magnitude
 *     tally      how many lines are not good
 *     list       only if some are not: counts large numbers, if some are wide, and lists the lines of each class
 *                (split_lists.cuh)
 *     cut        writes the slices; where few lines or none are unheld, each at its own place, else held lines only,
 *                close together, so that the tensor cores have little more to do than they give
 *
 * The lines of a stack of matrices always stay at their places.
 *
 * In memory, 8 bytes are read and 4 written per element. At 8192 two passes take 0.5 ms of 5.2 ms on an H200. Measuring
 * must do nothing else: when it also bounded the large numbers and each block counted itself in for the tally, a
 * product at 2000 took 188 us instead of 140. */
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

/* What is known of a line: the bits of its largest magnitude, the negated bits of its least non-zero magnitude; if they
 * were counted, the number of its large numbers; its place in the list, if there is one. All zero: nothing yet. */
struct alignas(16) split_line {
    uint32_t high, low, large, place;
};

__device__ inline split_line line_load(const split_line *line) {
    const uint4 four = __ldcg(reinterpret_cast<const uint4 *>(line));
    return {four.x, four.y, four.z, four.w};
}

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

/* A line's class: a set of these. */
#define LINE_UNHELD 0
#define LINE_GOOD   1
#define LINE_STRONG 2
#define CLASSES     4

__device__ inline bool line_is_odd(uint32_t high) {
    const int exponent = float_exponent(high);
    return high != 0 && (exponent == 128 || exponent < TOP - 126);
}

/* Of a line that is not odd. */
__device__ inline bool line_is_wide(const split_line &line) {
    return line.high != 0 && float_exponent(line.high) - float_exponent(0 - line.low) > SPAN;
}

/* Where no line of either operand is wide, large numbers are not counted: then no other line's strength matters. */
__device__ inline int line_class(const split_line &line, int64_t k) {
    if (line.high == 0) return LINE_GOOD | LINE_STRONG;
    if (line_is_odd(line.high)) return LINE_UNHELD;
    return (line_is_wide(line) ? 0 : LINE_GOOD) | (2 * int64_t(line.large) > k ? LINE_STRONG : 0);
}

/* Do slices hold the product of a row and a column of these classes? */
__device__ inline bool lines_held(int a, int b) {
    return a & b;
}

/* Merges what a block found. Most blocks find nothing new, and a load is cheaper than an atomic. */
__device__ inline void line_widen(split_line *line, uint32_t high, uint32_t low) {
    const uint2 known = __ldcg(reinterpret_cast<const uint2 *>(line));
    if (known.x < high) atomicMax(&line->high, high);
    if (known.y < low) atomicMax(&line->low, low);
}

__device__ inline float power_of_two(int exponent) {
    return __int_as_float((127 + exponent) << 23);
}

/* ---- operands -------------------------------------------------------------------------------------------------- */

/* A list holds the lines of a matrix by classes: good only, good and strong, wide but strong, unheld. Each class begins
 * at a multiple of 4; places between two of them hold -1. Within a class lines are in their order. */
#define LIST_SLACK 12

struct split_ranges {
    int begin[CLASSES], count[CLASSES]; /* by class */
};

/* One operand: x as the launch is given it; slices as the tensor core reads them, first hi of every matrix of the
 * stack, then lo of every matrix. When slices have done their part, the plain part's copies take their place. */
struct split_operand {
    const float *x;
    __half *slice;        /* [SLICES][count][rows][pitch] */
    split_line *line;     /* [count][lines] */
    int32_t *list;        /* [count][lines + LIST_SLACK] */
    split_ranges *ranges; /* [count] */
    uint32_t *counted;    /* [count]: patches whose large numbers are counted */
    int64_t count, rows, columns, stride, pitch;
    bool by_row; /* lines are rows in memory */
    bool fours;  /* x can be read 16 bytes at a time */

    __host__ __device__ int64_t lines() const { return by_row ? rows : columns; }
    __host__ __device__ int64_t k() const { return by_row ? columns : rows; }
    __host__ __device__ int64_t list_room() const { return lines() + LIST_SLACK; }
};

/* What all lines together are. */
struct split_tally {
    uint32_t uneven, wide;        /* lines that are not good; wide ones among them */
    uint32_t classes[2][CLASSES]; /* of each operand, if listed */
};

/* Both operands; a launch's z axis picks one. */
struct split_pair {
    split_operand operand[2];
    split_tally *tally;
    bool single; /* one matrix, not a stack */
};

/* Were lines listed? If not, all are good. */
__device__ inline bool split_listed(const split_pair &pair) {
    return pair.tally->uneven > 0;
}

/* Do slices give any element at all? */
__device__ inline bool split_holds_any(const split_pair &pair) {
    const uint32_t *a = pair.tally->classes[0], *b = pair.tally->classes[1];
    const bool good = (a[1] || a[3]) && (b[1] || b[3]), strong = (a[2] || a[3]) && (b[2] || b[3]);
    return !split_listed(pair) || good || strong;
}

/* Do slices of this operand hold only the held lines, in the order of the list? That pays where many are unheld. */
__device__ inline bool split_is_dense(const split_pair &pair, int which) {
    const int64_t unheld = pair.tally->classes[which][LINE_UNHELD];
    return pair.single && split_listed(pair) && unheld > LIST_SLACK && unheld * 16 >= pair.operand[which].lines();
}

/* A block of 256 threads cuts a patch of 32 rows by 256 columns, each thread 8 rows of 4 columns. */
#define PATCH_ROWS    32
#define PATCH_COLUMNS 256
#define PATCH_THREADS 256
#define PATCH_EACH    8

__host__ __device__ inline int64_t split_patch_rows(const split_operand &o) {
    return (o.rows + PATCH_ROWS - 1) / PATCH_ROWS;
}

__host__ __device__ inline int64_t split_patch_columns(const split_operand &o) {
    return (o.columns + PATCH_COLUMNS - 1) / PATCH_COLUMNS;
}

inline int64_t split_patches(const split_operand &o) {
    return o.count * split_patch_rows(o) * split_patch_columns(o);
}

/* Where in the operand a thread begins. */
struct split_place {
    int64_t batch, row, column;
    int64_t patch_row, patch_column;
};

__device__ inline split_place split_patch(const split_operand &operand, int64_t number) {
    const int64_t rows = split_patch_rows(operand), columns = split_patch_columns(operand);
    const int64_t down = quotient(number, columns), batch = down < rows ? 0 : quotient(down, rows);
    const int64_t row = down - batch * rows, column = number - down * columns;
    return {batch, row * PATCH_ROWS + threadIdx.x / 64 * PATCH_EACH, column * PATCH_COLUMNS + threadIdx.x % 64 * 4, row,
            column};
}

/* Four numbers of a row, from `column` on; zeros beyond the edge. */
__device__ inline float4 split_load(const split_operand &operand, const split_place &at, int i) {
    if (at.row + i >= operand.rows || at.column >= operand.columns) return float4();
    const float *x = operand.x + at.batch * operand.stride + (at.row + i) * operand.columns + at.column;
    if (operand.fours) return __ldg(reinterpret_cast<const float4 *>(x));
    const auto take = [&](int j) { return at.column + j < operand.columns ? x[j] : 0; };
    return make_float4(take(0), take(1), take(2), take(3));
}

/* ---- measure --------------------------------------------------------------------------------------------------- */

/* Finds each line's largest and least magnitude. The order of blocks does not matter to a maximum. */
__global__ void __launch_bounds__(PATCH_THREADS) split_measure_kernel(const __grid_constant__ split_pair pair) {
    __shared__ uint2 column_line[PATCH_COLUMNS];
    const split_operand &operand = pair.operand[blockIdx.z];
    const split_place at = split_patch(operand, block_number());
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

/* Tells how many lines are not good, and how many of these are wide. */
__global__ void __launch_bounds__(PATCH_THREADS) split_tally_kernel(const __grid_constant__ split_pair pair) {
    const split_operand &operand = pair.operand[blockIdx.z];
    const int64_t at = block_number() * PATCH_THREADS + threadIdx.x;
    bool odd = false, wide = false;
    if (at < operand.count * operand.lines()) {
        const split_line line = line_load(&operand.line[at]);
        odd = line_is_odd(line.high);
        wide = !odd && line_is_wide(line);
    }
    const int uneven = __syncthreads_count(odd || wide), of_these = __syncthreads_count(wide);
    if (threadIdx.x == 0 && uneven > 0) atomicAdd(&pair.tally->uneven, unsigned(uneven));
    if (threadIdx.x == 0 && of_these > 0) atomicAdd(&pair.tally->wide, unsigned(of_these));
}

/* ---- cut ------------------------------------------------------------------------------------------------------- */

/* Cuts four numbers into hi and lo, each scaled by its line's shift. */
__device__ inline void split_four(const float4 &four, const int (&shift)[4], __half (&hi)[4], __half (&lo)[4]) {
    const float number[] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float scaled = number[j] * power_of_two(shift[j]);
        hi[j] = __float2half_rn(scaled);
        lo[j] = __float2half_rn((scaled - __half2float(hi[j])) * LO_SCALE);
    }
}

/* Cuts the lines where they are. */
__device__ inline void split_cut_all(const split_operand &operand, const split_place &at,
                                     const float4 (&four)[PATCH_EACH]) {
    const split_line *line = operand.line + at.batch * operand.lines();
    __half *to = operand.slice + (at.batch * operand.rows + at.row) * operand.pitch + at.column;
    const int64_t slice = operand.count * operand.rows * operand.pitch;
    uint32_t row_high[PATCH_EACH] = {}, column_high[4] = {};
#pragma unroll
    for (int i = 0; i < PATCH_EACH; i++) {
        if (operand.by_row && at.row + i < operand.rows) row_high[i] = line[at.row + i].high;
    }
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (!operand.by_row && at.column + j < operand.columns) column_high[j] = line[at.column + j].high;
#pragma unroll
    for (int i = 0; i < PATCH_EACH; i++) {
        alignas(8) __half hi[4], lo[4];
        int shift[4];
#pragma unroll
        for (int j = 0; j < 4; j++) shift[j] = line_shift(operand.by_row ? row_high[i] : column_high[j]);
        split_four(four[i], shift, hi, lo);
        if (at.row + i >= operand.rows || at.column >= operand.columns) continue;
        *reinterpret_cast<uint2 *>(to + i * operand.pitch) = *reinterpret_cast<const uint2 *>(hi);
        *reinterpret_cast<uint2 *>(to + i * operand.pitch + slice) = *reinterpret_cast<const uint2 *>(lo);
    }
}

/* Cuts held lines only, each to its place in the list. */
__device__ inline void split_cut_held(const split_operand &operand, const split_place &at) {
    const split_line *line = operand.line + at.batch * operand.lines();
    const int64_t slice = operand.count * operand.rows * operand.pitch;
    int shift[4] = {}, place[4] = {-1, -1, -1, -1}; /* of the columns; -1: nowhere */
    const auto look = [&](int64_t number, int &by, int &to) {
        const split_line known = line_load(&line[number]);
        by = line_shift(known.high);
        to = line_class(known, operand.k()) == LINE_UNHELD ? -1 : int(known.place);
    };
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (!operand.by_row && at.column + j < operand.columns) look(at.column + j, shift[j], place[j]);
#pragma unroll 2
    for (int i = 0; i < PATCH_EACH; i++) {
        if (at.row + i >= operand.rows || at.column >= operand.columns) break;
        const float4 four = split_load(operand, at, i);
        alignas(8) __half hi[4], lo[4];
        if (operand.by_row) {
            int row;
            look(at.row + i, shift[0], row);
            if (row < 0) continue;
            shift[1] = shift[2] = shift[3] = shift[0];
            split_four(four, shift, hi, lo);
            __half *to = operand.slice + row * operand.pitch + at.column;
            *reinterpret_cast<uint2 *>(to) = *reinterpret_cast<const uint2 *>(hi);
            *reinterpret_cast<uint2 *>(to + slice) = *reinterpret_cast<const uint2 *>(lo);
        } else {
            split_four(four, shift, hi, lo);
            __half *to = operand.slice + (at.row + i) * operand.pitch;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                if (place[j] < 0) continue;
                to[place[j]] = hi[j];
                to[place[j] + slice] = lo[j];
            }
        }
    }
}

__global__ void __launch_bounds__(PATCH_THREADS, 3) split_cut_kernel(const __grid_constant__ split_pair pair) {
    const split_operand &operand = pair.operand[blockIdx.z];
    const split_place at = split_patch(operand, block_number());
    if (at.batch >= operand.count) return;
    float4 four[PATCH_EACH]; /* on their way while the tally is */
#pragma unroll
    for (int i = 0; i < PATCH_EACH; i++) four[i] = split_load(operand, at, i);
    if (split_listed(pair)) {
        if (!split_holds_any(pair)) return;
        if (split_is_dense(pair, int(blockIdx.z))) {
            split_cut_held(operand, at); /* of a single matrix */
            return;
        }
    }
    split_cut_all(operand, at, four);
}

#endif
