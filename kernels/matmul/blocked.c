/* matmul/blocked.c - cache blocks, packed panels and a register tile, after Goto and van de Geijn (2008) and BLIS.
 *
 *        n
 *      +-----+  B panel,          C is summed in blocks of at most MC x NC. For every KC terms of the sum the block's
 *   k  |     |  KC x NC           panels of A and B are packed once: cut into strips as wide as the register tile,
 *      +-----+                    stored in the order in which they are read, widened to the type of the sums, and
 *    +---+-----+                  transposed if needed. Then the threads divide the register tiles among themselves.
 * m | A |  C  |  MC x NC
 *    +---+-----+
 *
 * A register tile of 12 x 2 vectors (AVX-512; 6 x 2 for 16 registers) loads 2 vectors and 12 scalars for 24
 * multiply-adds, so arithmetic and not the cache limits the speed. A strip of A (12 KiB) stays in the L1 cache; GROUP
 * strips of A and the strip of B stay in L2.
 *
 * Sums live in the workspace, padded to whole register tiles, so that only packing and the last step handle edges. */
#ifndef __clang__
#pragma GCC optimize("fp-contract=fast") /* a * b + c is one instruction; clang does so by default */
#endif
#include "../core/convert.h"
#include "../core/cpu.h"
#include <math.h>
#include <string.h>

#define MC    960 /* multiples of both register tiles */
#define NC    1024
#define KC    256
#define GROUP 8  /* strips of A that are multiplied by one strip of B */
#define LINE  16 /* elements: at least one cache line, and one vector */

static int64_t round_up(int64_t count, int64_t multiple) {
    return ceil_div(count, multiple) * multiple;
}

/* A block of C, in elements of matrix number `batch`. */
struct block {
    int64_t batch, row, column, rows, columns;
};

/* The part of an operand that feeds a block: `lines` rows of A or columns of B from `line` on, terms p .. p+k-1. */
struct panel {
    enum dtype dtype;
    const char *matrix;
    int64_t ld;      /* elements from one row in memory to the next */
    bool k_adjacent; /* terms of one line are adjacent, rather than lines of one term */
    int64_t line, lines, p, k;
};

/* Returns the address of term p of a line. */
static const void *panel_element(const struct panel *panel, int64_t line, int64_t p) {
    int64_t element = panel->k_adjacent ? line * panel->ld + p : p * panel->ld + line;
    return panel->matrix + element * (int64_t)dtype_size(panel->dtype);
}

/* The panels of A and of B that feed terms p .. p+k-1 of a block. */
static struct panel panel_of_a(const struct matmul_args *args, enum dtype dtype, const struct block *block, int64_t p,
                               int64_t k) {
    const char *matrix = (const char *)args->a + block->batch * args->a_batch_stride * (int64_t)dtype_size(dtype);
    bool k_adjacent = !args->transpose_a;
    return (struct panel){dtype, matrix, k_adjacent ? args->k : args->m, k_adjacent, block->row, block->rows, p, k};
}

static struct panel panel_of_b(const struct matmul_args *args, enum dtype dtype, const struct block *block, int64_t p,
                               int64_t k) {
    const char *matrix = (const char *)args->b + block->batch * args->b_batch_stride * (int64_t)dtype_size(dtype);
    bool k_adjacent = args->transpose_b;
    return (struct panel){dtype, matrix, k_adjacent ? args->k : args->n, k_adjacent, block->column, block->columns,
                          p,     k};
}

static void widen_to_double(enum dtype dtype, const void *from, int64_t count, double *to) {
    (void)dtype; /* only float64 is summed in double */
    memcpy(to, from, (size_t)count * sizeof *to);
}

#define REAL       float
#define NAME(word) word##_float
#define WIDEN      convert_to_float
#include "blocked.h"
#undef REAL
#undef NAME
#undef WIDEN

#define REAL       double
#define NAME(word) word##_double
#define WIDEN      widen_to_double
#include "blocked.h"

static size_t matmul_blocked_workspace(const struct launch *launch) {
    const struct matmul_args *args = &launch->args.matmul;
    int64_t sizes[3];
    return launch->dtype == FLOAT64 ? (size_t)buffer_sizes_double(args, sizes) * sizeof(double)
                                    : (size_t)buffer_sizes_float(args, sizes) * sizeof(float);
}

static int matmul_blocked_launch(const struct launch *launch) {
    if (launch->dtype == FLOAT64)
        multiply_double(launch);
    else
        multiply_float(launch);
    return 0;
}

/* Predicts the time, which `auto` compares with that of `cpu`, from times that were measured for one thread on a Zen 3
 * core at 3 GHz: of starting, loading and storing rows, scaling, packing, and multiplying whole register tiles (the 12
 * x 32 of AVX-512 and float). The total times 1.5, since a wrong choice of `cpu` costs little if the two are close.
 * Several threads are faster, but the choice, which decides the result's last bits, should not depend on them. */
static double matmul_blocked_seconds(const struct launch *launch) {
    const struct matmul_args *args = &launch->args.matmul;
    const double m = (double)args->m, n = (double)args->n, k = (double)args->k;
    const double padded = (double)round_up(args->m, 12) * (double)round_up(args->n, 32) * k;
    return 1.5 *
           (1.4e-6 + (double)args->batch * (17e-9 * m + 1.1e-9 * m * n + 0.13e-9 * (m + n) * k + 0.04e-9 * padded));
}

KERNEL(matmul_blocked) = {
    .name = "blocked",
    .op = OP_MATMUL,
    .device = DEVICE_CPU,
    .summary = "cache blocks, packed panels, a vectorised register tile, several threads",
    .dtypes = DTYPES_FLOAT,
    .edges = {{12, 6, GROUP * 12, MC}, {32, 16, 8, 4, NC}, {KC}},
    .accuracy = ACCURACY_FULL,
    .near_roof = true,
    .divisible = true,
    .workspace = matmul_blocked_workspace,
    .seconds = matmul_blocked_seconds,
    .launch = matmul_blocked_launch,
};
