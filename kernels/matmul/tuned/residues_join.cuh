/* residues_join.cuh - joins the sums of products of residues to elements of C.
 *
 * A sum is kept as a byte: its value modulo p or, in the plane that bounds magnitudes, a float of 3 bits. A thread that
 * holds 128 sums of a tile writes 8 vectors of 16 bytes to a plane. The thread of residues_join_kernel with the same
 * number has the same elements, and reads these vectors, so that bytes never have to change places. */
#ifndef KERNELS_RESIDUES_JOIN_CUH
#define KERNELS_RESIDUES_JOIN_CUH

#include "../matmul.cuh"
#include "residues_cut.cuh"
#include "wgmma.cuh"

#define UNIT_ROWS    64 /* of C: what a warpgroup holds */
#define UNIT_COLUMNS 256
#define UNIT_VECTORS 8       /* of 16 bytes, that a thread has in a plane */
#define ENOUGH       0x1p-48 /* the admitted error over the sum of magnitudes: half of 32 roundings of float64 */

/* A rectangle of C that is computed at once, and where its sums are: [PLANES][units][UNIT_VECTORS][WARPGROUP]. */
struct residues_rectangle {
    matmul_args args; /* of the whole product; one matrix */
    int64_t row, column, rows, columns;
    const residues_line *a_line, *b_line; /* [rows], [columns] */
    uint4 *sums;
    residues_words *words;
    uint8_t *failed; /* [m][n] of the product */

    __host__ __device__ int64_t unit_columns() const { return (columns + UNIT_COLUMNS - 1) / UNIT_COLUMNS; }
    __host__ __device__ int64_t units() const {
        const int64_t height = WGMMA_CLUSTER * WGMMA_TILE_M;
        return (rows + height - 1) / height * (height / UNIT_ROWS) * unit_columns();
    }
};

/* The address of this thread's first vector of a unit in a plane. */
__device__ inline uint4 *residues_sums(const residues_rectangle &rectangle, int64_t plane, int64_t unit) {
    return rectangle.sums + (plane * rectangle.units() + unit) * (UNIT_VECTORS * WARPGROUP) + threadIdx.x % WARPGROUP;
}

/* ---- a sum as a byte -------------------------------------------------------------------------------------------- */

/* The constants with which a sum is taken modulo p (struct residues_modulus). */
struct residues_divisor {
    uint32_t p, of_sum, sum_start;
};
struct residues_divisors {
    residues_divisor plane[MODULI];
};

/* A float of 3 bits that is no more than the sum; 0 is 0. */
__device__ inline uint32_t bound_byte(int sum) {
    return sum > 0 ? (__float_as_uint(__int2float_rz(sum)) >> 20) - (127 << 3) + 1 : 0;
}
__device__ inline double bound_of(uint32_t byte) {
    return byte ? double(__uint_as_float((byte + (127 << 3) - 1) << 20)) : 0;
}

/* Writes a thread's sums as bytes, byte_of(sum). */
template <typename BYTE> __device__ inline void residues_write(uint4 *to, const int (&sum)[128], BYTE byte_of) {
#pragma unroll
    for (int v = 0; v < UNIT_VECTORS; v++) {
        uint32_t word[4];
#pragma unroll
        for (int w = 0; w < 4; w++) {
            const int *const four = sum + v * 16 + w * 4;
            word[w] = bytes_pack(byte_of(four[0]), byte_of(four[1]), byte_of(four[2]), byte_of(four[3]));
        }
        __stcs(to + v * WARPGROUP, make_uint4(word[0], word[1], word[2], word[3]));
    }
}

/* Stores all sums of a thread, which belong to one plane and unit, as bytes. */
__device__ inline void residues_keep(const residues_rectangle &rectangle, const residues_divisors &divisors, int plane,
                                     int64_t unit, const int (&sum)[128]) {
    uint4 *const to = residues_sums(rectangle, plane, unit);
    if (plane == MODULI) {
        residues_write(to, sum, [](int value) { return bound_byte(value); });
        return;
    }
    const residues_divisor by = divisors.plane[plane];
    residues_write(to, sum, [&](int value) {
        const uint32_t positive = uint32_t(value) + by.sum_start;
        return positive - (__umulhi(positive, by.of_sum) >> 7) * by.p;
    });
}

/* ---- the Chinese remainder theorem ------------------------------------------------------------------------------ */

/* The integer nearest to 0 that has these residues, as a double. `sum`: for each 32-bit word of the quotients, the sum
 * of residues times that word. */
__device__ inline double residues_join(const uint64_t (&sum)[4]) {
    constexpr residues_table table = residues_make_table();
    constexpr double product = table.product[3] * 0x1p32 + table.product[2]; /* in units of 2^64 */
    const uint64_t second = sum[1] + (sum[0] >> 32), third = sum[2] + (second >> 32);
    const uint64_t upper = (sum[3] << 32) + third;
    const uint64_t lower = second << 32 | uint32_t(sum[0]);
    /* The multiple of P to subtract. The difference is less than 0.3 P, so that roundings do not matter. */
    const uint32_t times = uint32_t(__float2int_rn(float(upper >> 26) * float(0x1p26 / product)));
    const unsigned __int128 all = static_cast<unsigned __int128>(upper) << 64 | lower;
    const unsigned __int128 whole = static_cast<unsigned __int128>(table.product[3]) << 96 |
                                    static_cast<unsigned __int128>(table.product[2]) << 64 |
                                    static_cast<unsigned __int128>(table.product[1]) << 32 | table.product[0];
    unsigned __int128 rest = all - whole * times;
    const bool negative = rest >> 127;
    if (negative) rest = -rest;
    /* The upper half converts to double exactly; rounding the lower half matters only if the upper half is 0. */
    const double value = fma(double(uint64_t(rest >> 64)), 0x1p64, double(uint64_t(rest)));
    return negative ? -value : value;
}

/* Do these lines and this bound fail to prove the element right? */
__device__ inline bool residues_fails(const residues_line &a, const residues_line &b, uint32_t byte) {
    const uint32_t state = a.state | b.state;
    if (state & BAD) return true;
    if (!(state & ROUNDED) || !(state & LOOSE)) return false;
    return !((a.sum + b.sum) / 2 <= ENOUGH * bound_of(byte) * double_power(a.high - 6) * double_power(b.high - 6));
}

/* Joins a unit of C per block, of one warpgroup. Stores the elements that are proven right, and records the others in
 * rectangle.failed. */
__global__ void __launch_bounds__(WARPGROUP, 4)
    residues_join_kernel(const __grid_constant__ residues_rectangle rectangle) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL /* other GPUs never run it, and the registers of some do not suffice */
    constexpr residues_table table = residues_make_table();
    launch_wait();
    launch_next();
    const matmul_args &args = rectangle.args;
    const int64_t unit = block_number(), down = quotient(unit, rectangle.unit_columns());
    const int thread = int(threadIdx.x);
    const int64_t row = down * UNIT_ROWS + thread / 32 * 16 + thread % 32 / 4;
    const int64_t column = (unit - down * rectangle.unit_columns()) * UNIT_COLUMNS + thread % 4 * 2;
    if (row >= rectangle.rows) return;
    const bool bounded = residues_bounded(rectangle.words), pairs = args.first && args.last && args.n % 2 == 0;
    const residues_line *const a_line = rectangle.a_line + row;
    const double up[2] = {double_power(-a_line->shift), row + 8 < rectangle.rows ? double_power(-a_line[8].shift) : 0};
    for (int v = 0; v < UNIT_VECTORS; v++) {
        if (column + v * 32 >= rectangle.columns) return;
        uint4 from[MODULI], bound = {};
#pragma unroll
        for (int p = 0; p < MODULI; p++) from[p] = __ldcs(residues_sums(rectangle, p, unit) + v * WARPGROUP);
        if (bounded) bound = __ldcs(residues_sums(rectangle, MODULI, unit) + v * WARPGROUP);
#pragma unroll
        for (int w = 0; w < 4; w++) {
            const auto word = [&](const uint4 &of) { return w == 0 ? of.x : w == 1 ? of.y : w == 2 ? of.z : of.w; };
            const int64_t n = column + v * 32 + w * 8;
            if (n >= rectangle.columns) return;
            const bool two = n + 1 < rectangle.columns;
            const residues_line *const b_line = rectangle.b_line + n;
            const double along[2] = {double_power(-b_line->shift), two ? double_power(-b_line[1].shift) : 0};
            double value[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                uint64_t sum[4] = {};
#pragma unroll
                for (int p = 0; p < MODULI; p++) {
                    const uint32_t byte = word(from[p]) >> i * 8 & 255;
#pragma unroll
                    for (int l = 0; l < 4; l++) sum[l] += uint64_t(byte) * table.modulus[p].quotient[l];
                }
                value[i] = residues_join(sum) * up[i / 2] * along[i % 2];
            }
            uint32_t failed = 0;
            if (bounded)
                for (int i = 0; i < 4; i++) {
                    if (row + i / 2 * 8 >= rectangle.rows || (i % 2 && !two)) continue;
                    if (residues_fails(a_line[i / 2 * 8], b_line[i % 2], word(bound) >> i * 8 & 255)) failed |= 1u << i;
                }
#pragma unroll
            for (int h = 0; h < 2; h++) {
                if (row + h * 8 >= rectangle.rows) continue;
                const int64_t at = (rectangle.row + row + h * 8) * args.n + rectangle.column + n;
                const uint32_t both = failed >> h * 2 & 3;
                if (two && pairs && !both) {
                    *reinterpret_cast<double2 *>(static_cast<double *>(args.c) + at) =
                        make_double2(args.alpha * value[h * 2], args.alpha * value[h * 2 + 1]);
                    continue;
                }
                if (!(both & 1)) matmul_store<double>(args, at, value[h * 2]);
                if (two && !(both & 2)) matmul_store<double>(args, at + 1, value[h * 2 + 1]);
                if (both & 1) rectangle.failed[at] = 1;
                if (both & 2) rectangle.failed[at + 1] = 1;
                if (both) rectangle.words->failed = 1;
            }
        }
    }
#endif
}

/* Stores the elements that failed; `sums` holds their float64 results. */
__global__ void __launch_bounds__(256)
    residues_mend_kernel(const __grid_constant__ residues_rectangle rectangle, const double *sums) {
    launch_wait();
    if (rectangle.words->failed == 0) return;
    const int64_t elements = rectangle.args.m * rectangle.args.n;
    for (int64_t at = block_number() * blockDim.x + threadIdx.x; at < elements; at += int64_t(gridDim.x) * blockDim.x)
        if (rectangle.failed[at]) matmul_store<double>(rectangle.args, at, sums[at]);
}

#endif
