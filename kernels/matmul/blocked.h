/* matmul/blocked.h - the blocked product for one real type. matmul/blocked.c includes this file twice, for float and
 * for double, with REAL, NAME(word) and WIDEN (converts rows of elements to REAL) defined. */

/* ---- micro-kernel ------------------------------------------------------------------------------------------------ */

/* Defines micro_isa, which adds a register tile's product to C: c[rows][2 vectors] += a[k][rows] b[k][2 vectors], with
 * strips as pack() stores them. Keeps the sums in registers; a row of C has `ldc` elements. */

#define MICRO_KERNEL(isa, attribute, vector_bytes, rows)                                                               \
    attribute static void NAME(micro_##isa)(int64_t k, const REAL *a, const REAL *b, REAL *c, int64_t ldc) {           \
        typedef REAL vector __attribute__((vector_size(vector_bytes), may_alias));                                     \
        enum { LANES = (vector_bytes) / sizeof(REAL) };                                                                \
        vector sum[rows][2] = {0};                                                                                     \
        for (int64_t p = 0; p < k; p++, a += (rows), b += 2 * LANES) {                                                 \
            const vector left = *(const vector *)b, right = *(const vector *)(b + LANES);                              \
            _Pragma("GCC unroll 16") for (int i = 0; i < (rows); i++) {                                                \
                sum[i][0] += a[i] * left;                                                                              \
                sum[i][1] += a[i] * right;                                                                             \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("GCC unroll 16") for (int i = 0; i < (rows); i++) {                                                    \
            *(vector *)(c + i * ldc) += sum[i][0];                                                                     \
            *(vector *)(c + i * ldc + LANES) += sum[i][1];                                                             \
        }                                                                                                              \
    }

#ifdef CPU_AVX512
MICRO_KERNEL(avx512, CPU_AVX512, 64, 12)
MICRO_KERNEL(avx2, CPU_AVX2, 32, 6)
#endif
MICRO_KERNEL(any, , 16, 6)

struct NAME(micro) {
    int64_t rows, columns; /* the register tile's, which are also the widths of the strips of A and B */
    void (*multiply)(int64_t k, const REAL *a, const REAL *b, REAL *c, int64_t ldc);
};

/* Returns the micro-kernel for the widest vectors of this processor. Its columns are two vectors. */
static struct NAME(micro) NAME(micro_kernel)(void) {
#ifdef CPU_AVX512
    if (CPU_HAS_AVX512()) return (struct NAME(micro)){12, 128 / sizeof(REAL), NAME(micro_avx512)};
    if (CPU_HAS_AVX2()) return (struct NAME(micro)){6, 64 / sizeof(REAL), NAME(micro_avx2)};
#endif
    return (struct NAME(micro)){6, 32 / sizeof(REAL), NAME(micro_any)};
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* Packs strip number `strip` of an operand, `width` lines (rows of A or columns of B) over k terms of the sum, as
 * packed[k][width]. Lines past the end become zeros, so that no micro-kernel has to handle an edge. */
static void NAME(pack)(const struct panel *panel, int64_t strip, int64_t width, REAL *packed) {
    int64_t line = panel->line + strip * width, lines = min_int64(width, panel->line + panel->lines - line);
    REAL run[KC];
    if (lines < width) memset(packed, 0, (size_t)(width * panel->k) * sizeof *packed);
    if (panel->k_adjacent) {
        for (int64_t i = 0; i < lines; i++) {
            WIDEN(panel->dtype, panel_element(panel, line + i, panel->p), panel->k, run);
            for (int64_t p = 0; p < panel->k; p++) packed[p * width + i] = run[p];
        }
    } else {
        for (int64_t p = 0; p < panel->k; p++)
            WIDEN(panel->dtype, panel_element(panel, line, panel->p + p), lines, packed + p * width);
    }
}

/* ---- one block of C ---------------------------------------------------------------------------------------------- */

/* The parts of the workspace in which a launch packs and sums. */
struct NAME(buffers) {
    REAL *a, *b, *sum;
};

/* Sets the numbers of elements of the buffers a, b and sum, in whole cache lines, and returns their sum. */
static int64_t NAME(buffer_sizes)(const struct matmul_args *args, int64_t sizes[3]) {
    struct NAME(micro) micro = NAME(micro_kernel)();
    int64_t m = round_up(min_int64(args->m, MC), micro.rows), n = round_up(min_int64(args->n, NC), micro.columns);
    int64_t k = min_int64(args->k, KC);
    sizes[0] = round_up(m * k, LINE);
    sizes[1] = round_up(n * k, LINE);
    sizes[2] = round_up(m * n, LINE);
    return sizes[0] + sizes[1] + sizes[2];
}

/* Begins a row of sums: with zeros in the first launch over k, else with the sums that the launch before left in
 * `partial`, from element `at` on. */
static void NAME(load_row)(const struct matmul_args *args, int64_t at, int64_t columns, REAL *sum) {
    if (args->first)
        memset(sum, 0, (size_t)columns * sizeof *sum);
    else
        memcpy(sum, (const REAL *)args->partial + at, (size_t)columns * sizeof *sum);
}

/* Stores a row of sums, from element `at` on: in the last launch over k times alpha to C, else to `partial`. */
static void NAME(store_row)(const struct matmul_args *args, enum dtype dtype, int64_t at, int64_t columns,
                            const REAL *sum) {
    if (!args->last) {
        memcpy((REAL *)args->partial + at, sum, (size_t)columns * sizeof *sum);
        return;
    }
    double run[KC]; /* alpha may need double's range */
    for (int64_t start = 0; start < columns; start += KC) {
        const int64_t count = min_int64(KC, columns - start);
#pragma omp simd
        for (int64_t j = 0; j < count; j++) {
            const double scaled = args->alpha * (double)sum[start + j];
            run[j] = scaled == scaled ? scaled : (double)NAN; /* one NaN: which of two a sum keeps, compilers decide */
        }
        convert_from_double(dtype, run, count, (char *)args->c + (at + start) * (int64_t)dtype_size(dtype));
    }
}

/* Computes C[block] over all of k. Runs inside a parallel region. The threads divide each loop and meet at a barrier
 * after it, with two exceptions: the barrier after packing B also covers loading rows and packing A. (If k is 0 there
 * is no such barrier, but each thread stores the rows that it loaded.) */
static void NAME(block)(const struct matmul_args *args, enum dtype dtype, const struct block *block,
                        const struct NAME(buffers) * buffers) {
    struct NAME(micro) micro = NAME(micro_kernel)();
    int64_t a_strips = ceil_div(block->rows, micro.rows), b_strips = ceil_div(block->columns, micro.columns);
    int64_t ldc = b_strips * micro.columns, c = (block->batch * args->m + block->row) * args->n + block->column;
#pragma omp for schedule(static) nowait
    for (int64_t i = 0; i < block->rows; i++)
        NAME(load_row)(args, c + i * args->n, block->columns, buffers->sum + i * ldc);
    for (int64_t p = 0; p < args->k; p += KC) {
        int64_t k = min_int64(KC, args->k - p);
        struct panel a = panel_of_a(args, dtype, block, p, k), b = panel_of_b(args, dtype, block, p, k);
#pragma omp for nowait
        for (int64_t strip = 0; strip < a_strips; strip++)
            NAME(pack)(&a, strip, micro.rows, buffers->a + strip * micro.rows * k);
#pragma omp for
        for (int64_t strip = 0; strip < b_strips; strip++)
            NAME(pack)(&b, strip, micro.columns, buffers->b + strip * micro.columns * k);
#pragma omp for collapse(2) schedule(dynamic)
        for (int64_t group = 0; group < a_strips; group += GROUP)
            for (int64_t j = 0; j < b_strips; j++)
                for (int64_t i = group; i < min_int64(group + GROUP, a_strips); i++)
                    micro.multiply(k, buffers->a + i * micro.rows * k, buffers->b + j * micro.columns * k,
                                   buffers->sum + i * micro.rows * ldc + j * micro.columns, ldc);
    }
#pragma omp for schedule(static)
    for (int64_t i = 0; i < block->rows; i++)
        NAME(store_row)(args, dtype, c + i * args->n, block->columns, buffers->sum + i * ldc);
}

/* Computes a launch: one block of C after the other, with all threads on each block. */
static void NAME(multiply)(const struct launch *launch) {
    const struct matmul_args *args = &launch->args.matmul;
    int64_t sizes[3];
    NAME(buffer_sizes)(args, sizes);
    REAL *memory = launch->workspace;
    struct NAME(buffers) buffers = {memory, memory + sizes[0], memory + sizes[0] + sizes[1]};
    const double work = (double)args->batch * (double)args->m * (double)args->n * (double)args->k;
    (void)work; /* without OpenMP nothing uses it */
#pragma omp parallel num_threads(cpu_threads(launch, work))
    for (int64_t batch = 0; batch < args->batch; batch++)
        for (int64_t row = 0; row < args->m; row += MC)
            for (int64_t column = 0; column < args->n; column += NC) {
                struct block block = {batch, row, column, min_int64(MC, args->m - row),
                                      min_int64(NC, args->n - column)};
                NAME(block)(args, launch->dtype, &block, &buffers);
            }
}

#undef MICRO_KERNEL
