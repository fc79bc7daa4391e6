/* lines.cuh - operands of float32 that are scaled line by line and cut to 16 bits, for split.cu and scaled16.cu. A line
 * is a row of A or a column of B. */
#ifndef KERNELS_MATMUL_LINES_CUH
#define KERNELS_MATMUL_LINES_CUH

#include "../../core/launch.cuh"

/* ---- lines: rows of A, columns of B ---------------------------------------------------------------------------- */

/* What is known of a line. In split.cu: its extremes and, after it was cut in two, the number of its tiny numbers; all
 * zero: nothing seen yet. scaled16_cut.cuh gives the members another meaning. */
struct alignas(16) split_line {
    uint32_t high;  /* the bits of its largest finite magnitude */
    uint32_t low;   /* the negated bits of its smallest non-zero magnitude */
    uint32_t tiny;  /* the number of its tiny numbers (is_tiny) */
    uint32_t again; /* scaled16_cut.cuh only */
};

/* Reads a line from L2, where atomics change it. */
__device__ inline split_line line_load(const split_line *line) {
    const uint4 four = __ldcg(reinterpret_cast<const uint4 *>(line));
    return {four.x, four.y, four.z, four.w};
}

/* The exponent of a positive float with these bits, subnormal ones included: 2^exponent <= x < 2^(exponent + 1). */
__device__ inline int float_exponent(uint32_t bits) {
    return bits >> 23 ? int(bits >> 23) - 127 : -118 - __clz(int(bits));
}

/* Merges a block's extremes of a line. Most blocks find no new ones, and a load is cheaper than an atomic. */
__device__ inline void line_widen(split_line *line, uint32_t high, uint32_t low) {
    const uint2 known = __ldcg(reinterpret_cast<const uint2 *>(line));
    if (known.x < high) atomicMax(&line->high, high);
    if (known.y < low) atomicMax(&line->low, low);
}

/* 2^exponent, from -126 to 127. */
__device__ inline float power_of_two(int exponent) {
    return __int_as_float((127 + exponent) << 23);
}

/* Is x tiny: does float16 hold fewer than 11 bits of it, once it is scaled? `scaled`: x times the power of two of its
 * line, which is zero if x underflows. */
#define TINY 0x1p-14f /* float16's smallest normal number */
__device__ inline bool is_tiny(float x, float scaled) {
    return x != 0 && fabsf(scaled) < TINY;
}

/* ---- operands -------------------------------------------------------------------------------------------------- */

/* One operand: x as the launch gives it, and its slices as the tensor core reads them: the first slices of all matrices
 * of the stack, then the second ones. */
struct split_operand {
    const float *x;
    void *slice;      /* [SLICES][count][rows][pitch] */
    split_line *line; /* [count][lines] */
    int64_t count, rows, columns, stride, pitch;
    bool k_adjacent; /* lines are rows in memory */
    bool fours;      /* x can be read 16 bytes at a time */

    __host__ __device__ int64_t lines() const { return k_adjacent ? rows : columns; }
};

/* Describes A or B. Its lines are rows in memory if exactly one of `is_a` and `transposed` is true. */
inline split_operand split_describe(const void *x, bool transposed, bool is_a, int64_t lines, int64_t k, int64_t count,
                                    int64_t stride) {
    split_operand o = {};
    o.x = static_cast<const float *>(x);
    o.k_adjacent = is_a != transposed;
    o.rows = o.k_adjacent ? lines : k;
    o.columns = o.k_adjacent ? k : lines;
    o.count = count;
    o.stride = stride;
    o.pitch = ceil_div(o.columns, 8) * 8;
    o.fours = o.columns % 4 == 0 && stride % 4 == 0 && uintptr_t(x) % 16 == 0;
    return o;
}

/* Both operands; the z index of a block selects one. */
struct split_pair {
    split_operand operand[2];
};

/* A block of 256 threads cuts a patch of 32 rows by 256 columns, each thread 8 rows of 4 columns. */
#define PATCH_ROWS    32
#define PATCH_COLUMNS 256
#define PATCH_THREADS 256
#define PATCH_EACH    8

/* The numbers of rows of patches, of columns of patches, and of patches of all matrices. */
__host__ __device__ inline int64_t split_patch_rows(const split_operand &o) {
    return (o.rows + PATCH_ROWS - 1) / PATCH_ROWS;
}

__host__ __device__ inline int64_t split_patch_columns(const split_operand &o) {
    return (o.columns + PATCH_COLUMNS - 1) / PATCH_COLUMNS;
}

__host__ __device__ inline int64_t split_patches(const split_operand &o) {
    return o.count * split_patch_rows(o) * split_patch_columns(o);
}

/* The position in the operand at which a thread begins. */
struct split_place {
    int64_t batch, row, column, patch_column;
};

/* Where this thread begins in patch `number`; its batch is operand.count or more if there is no such patch. */
__device__ inline split_place split_patch(const split_operand &operand, int64_t number) {
    const int64_t rows = split_patch_rows(operand), columns = split_patch_columns(operand);
    const int64_t down = quotient(number, columns), batch = down < rows ? 0 : quotient(down, rows);
    const int64_t row = down - batch * rows, column = number - down * columns;
    return {batch, row * PATCH_ROWS + threadIdx.x / 64 * PATCH_EACH, column * PATCH_COLUMNS + threadIdx.x % 64 * 4,
            column};
}

/* Loads four numbers of row at.row + i, from at.column on; zeros beyond the edge. LAST: the numbers are not read again,
 * so L2 need not keep them. */
template <bool LAST = false>
__device__ inline float4 split_load(const split_operand &operand, const split_place &at, int i) {
    if (at.row + i >= operand.rows || at.column >= operand.columns) return float4();
    const float *x = operand.x + at.batch * operand.stride + (at.row + i) * operand.columns + at.column;
    if (operand.fours && LAST) return __ldcs(reinterpret_cast<const float4 *>(x));
    if (operand.fours) return __ldg(reinterpret_cast<const float4 *>(x));
    const auto take = [&](int j) { return at.column + j < operand.columns ? x[j] : 0; };
    return make_float4(take(0), take(1), take(2), take(3));
}

#endif
