/* matmul/stacks.cu - stacks of small products: a block takes them in groups, and no thread waits beside a matrix that
 * is smaller than a tile.
 *
 *     memory       A0 A1 A2 A3 | A4 A5 A6 A7 | ...     the matrices of a stack lie one behind the other:
 *                  B0 B1 B2 B3 | B4 B5 B6 B7 | ...     a group of them is one run of memory
 *                       |             |
 *                    copied,       being copied        cp.async, as many bytes at a time as a row allows
 *                       v             v
 *     shared       +---------+   +---------+
 *     memory       | group 0 |   | group 1 |           two or three buffers a block, up to six blocks a multiprocessor
 *                  +---------+   +---------+
 *                   | | | |                            each warp multiplies other products, or other tiles of them
 *                   v v v v
 *                 C0 C1 C2 C3                          written 16 bytes at a time, narrow ones through shared memory
 *
 * The other variants give each C a block of its own, with tiles of at least 64 x 64: of a product of 16 x 16 x 16 that
 * block multiplies 16 times too much, and it waits for its operands with nothing else to do. Here a tile is 16 x 16,
 * 32 x 32, 64 x 32 or 48 x 48, whichever wastes least, and belongs to one warp (float32, 16 x 16: half of one). A block
 * stays and walks from group to group; while one is multiplied the next arrive. Small groups make all blocks end
 * together.
 *
 * The tiles know how to multiply from any of the layouts:
 *
 *     float32     4 x 4 to 8 x 8 or 6 x 12 sums a thread; loads of 16 bytes bring four k of a line or four lines of a k
 *     float64     tensor cores, 4 of k at a time
 *     16 bits     tensor cores, 16 of k, by ldmatrix: its rows must begin on 16 bytes, which copies see to
 *
 * A 16-bit row of odd width begins where no copy of 4 bytes or more can reach it. Such runs arrive as they lie, and are
 * spread from there to rows that begin on 16 bytes: two loads, a byte permute and a store for two elements, once, where
 * reading them singly for the tensor cores costs two loads each time that they are used.
 *
 * Lines beyond the edge of C repeat its last line. Beyond the last k lies the neighbours' data, in both operands: it is
 * replaced by zeros in registers, since 0 times a NaN is a NaN. A product of which too few would fit into shared memory
 * is cut along k; its sums stay in registers. Each element is one chain of additions in the order of k, whatever the
 * tile.
 *
 * Measured on an H200 against cuBLAS (bfloat16, float32, float64), with two buffers, odd rows read singly and every C
 * through shared memory: 20000 of 16 x 16 x 16 3.7, 2.2, 2.2; 3000 of 33 x 33 x 33 0.89, 0.68, 1.37; 4096 of
 * 64 x 64 x 64 0.70, 0.65, 0.75. Of these last, 57 to 72 KiB a multiprocessor could be on their way, which brought 2.6
 * TB/s in bfloat16, 3.0 in float64 and 1.6 in float32, where two warps for each scheduler were too few as well. Hence
 * what stacks.cuh names as not measured: a third buffer, smaller pieces of k, C past shared memory where threads hold
 * 16 bytes of a row, odd rows spread, tiles of 48 x 48. None of it has run on a GPU.
 *
 * The limit: memory, below about 48 x 48 x 48 in float32, 96 in float64, and for all 16-bit types that have rows of
 * even width. Above it, what a warp reads from shared memory for each product: matmul/async.cu and matmul/wgmma.cu feed
 * larger tiles from it. */
#include "fragments.cuh"
#include "stacks.cuh"

/* ---- float32: sums in the threads -------------------------------------------------------------------------------- */

/* COUNT lines, of which LANES threads each hold every LANES-th (LINES: every LANES-th group of four or two). */
template <enum layout LAYOUT, int COUNT, int LANES> struct stacks_lines {
    static constexpr int BESIDE = LAYOUT == K_KEPT ? 1 : COUNT % 4 == 0 ? 4 : 2, ROWS = COUNT / BESIDE;
    int at[ROWS]; /* in bytes */

    __device__ static int line(int own, int i) { return (i / BESIDE * LANES + own) * BESIDE + i % BESIDE; }

    __device__ stacks_lines(const stacks_operand &o, int first, int own) {
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            at[i] = min(first + line(own, BESIDE * i), (o.lines - 1) & ~(BESIDE - 1)) * o.line;
    }

    /* Four of k, from l on. */
    __device__ void load(float (&values)[COUNT][4], const stacks_operand &o, const char *from, int l) const {
        if constexpr (LAYOUT == K_KEPT) {
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                *reinterpret_cast<float4 *>(values[i]) = *reinterpret_cast<const float4 *>(from + at[i] + l * 4);
        } else {
#pragma unroll
            for (int i = 0; i < COUNT; i += BESIDE)
#pragma unroll
                for (int kk = 0; kk < 4; kk++) {
                    using group = feeder_piece<float, BESIDE>;
                    const group some = *reinterpret_cast<const group *>(from + at[i / BESIDE] + (l + kk) * o.k);
#pragma unroll
                    for (int e = 0; e < BESIDE; e++) values[i + e][kk] = some.element[e];
                }
        }
    }
};

/* ROWS x COLUMNS sums a thread, DOWN x 4 threads. Neighbours in a warp share lines of A, those two on share lines of B:
 * so both halves of a warp read few banks. */
template <int ROWS, int COLUMNS, int DOWN, enum layout A, enum layout B> struct stacks_floats {
    using type = float;
    using a_lines = stacks_lines<A, ROWS, DOWN>;
    using b_lines = stacks_lines<B, COLUMNS, 4>;
    static constexpr int TEAM = DOWN * 4, TILE_M = ROWS * DOWN, TILE_N = COLUMNS * 4;
    static constexpr int BLOCKS = ROWS * COLUMNS > 16 ? 1 : 2;
    float sums[ROWS][COLUMNS];
    int y, x;

    __device__ stacks_floats() {
        const int lane = int(threadIdx.x) % TEAM;
        x = (lane & 1) | (lane >> 1 & 2), y = (lane >> 1 & 1) | (lane >> 2 & 6);
    }

    __device__ void clear() {
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) sums[i][j] = 0;
    }

    __device__ void multiply_add(const stacks_work &work, const char *a, const char *b, int row, int column, int k) {
        const a_lines rows(work.a, row, y);
        const b_lines columns(work.b, column, x);
#pragma unroll 1
        for (int l = 0; l < k; l += 4) {
            float left[ROWS][4], right[COLUMNS][4];
            rows.load(left, work.a, a, l);
            columns.load(right, work.b, b, l);
            if (k - l < 4) {
#pragma unroll
                for (int kk = 1; kk < 4; kk++) {
                    if (l + kk < k) continue;
#pragma unroll
                    for (int i = 0; i < ROWS; i++) left[i][kk] = 0;
#pragma unroll
                    for (int j = 0; j < COLUMNS; j++) right[j][kk] = 0;
                }
            }
#pragma unroll
            for (int kk = 0; kk < 4; kk++)
#pragma unroll
                for (int j = 0; j < COLUMNS; j++)
#pragma unroll
                    for (int i = 0; i < ROWS; i++) sums[i][j] += left[i][kk] * right[j][kk];
        }
    }

    __device__ void leave(const stacks_end<float> &end, int row, int column) const {
        constexpr int COUNT = B == LINES ? 4 : 1; /* neighbours in a row of C */
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j += COUNT)
                end.leave<COUNT>(row + a_lines::line(y, i), column + b_lines::line(x, j), &sums[i][j]);
    }
};

/* ---- sums in the layout of mma.sync ------------------------------------------------------------------------------ */

/* A warp's sums: ROWS x COLUMNS of 16 x 8 elements. Thread 4g + t has two neighbours in rows g and g + 8 of each. */
template <typename T, int ROWS, int COLUMNS> struct stacks_sums {
    using type = T;
    static constexpr int TEAM = 32, TILE_M = ROWS * 16, TILE_N = COLUMNS * 8;
    static constexpr int BLOCKS = ROWS > 2 ? 1 : ROWS > 1 ? 2 : 3;
    accumulator<T> sums[ROWS][COLUMNS][4];

    __device__ void clear() {
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) sums[i][j][e] = 0;
    }

    __device__ void leave(const stacks_end<T> &end, int row, int column) const {
        const int g = int(threadIdx.x) % 32 / 4, t = int(threadIdx.x) % 4;
#pragma unroll
        for (int i = 0; i < 2 * ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                end.template leave<2>(row + i * 8 + g, column + j * 8 + t * 2, &sums[i / 2][j][i % 2 * 2]);
    }
};

template <int ROWS, int COLUMNS> struct stacks_doubles : stacks_sums<double, ROWS, COLUMNS> {
    __device__ void multiply_add(const stacks_work &work, const char *a, const char *b, int row, int column, int k) {
        const int g = int(threadIdx.x) % 32 / 4, t = int(threadIdx.x) % 4;
        int a_at[2 * ROWS], b_at[COLUMNS];
#pragma unroll
        for (int i = 0; i < 2 * ROWS; i++)
            a_at[i] = min(row + i * 8 + g, work.a.lines - 1) * work.a.line + t * work.a.k;
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            b_at[j] = min(column + j * 8 + g, work.b.lines - 1) * work.b.line + t * work.b.k;
#pragma unroll 1
        for (int l = 0; l < k; l += 4) {
            const bool exists = l + t < k;
            double left[ROWS][2], right[COLUMNS];
#pragma unroll
            for (int i = 0; i < 2 * ROWS; i++) {
                const double value = *reinterpret_cast<const double *>(a + a_at[i] + l * work.a.k);
                left[i / 2][i % 2] = exists ? value : 0;
            }
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                const double value = *reinterpret_cast<const double *>(b + b_at[j] + l * work.b.k);
                right[j] = exists ? value : 0;
            }
#pragma unroll
            for (int i = 0; i < ROWS; i++)
#pragma unroll
                for (int j = 0; j < COLUMNS; j++) multiply(this->sums[i][j], left[i], right[j]);
        }
    }
};

/* ---- 16 bits ----------------------------------------------------------------------------------------------------- */

/* Two neighbours along k, packed; `count` of them exist. */
__device__ inline uint32_t pair_mask(int count) {
    return count >= 2 ? 0xffffffffu : count == 1 ? 0xffffu : 0;
}

template <typename T, int ROWS, int COLUMNS> struct stacks_halves : stacks_sums<T, ROWS, COLUMNS> {
    uint32_t rows[ROWS][4], columns[COLUMNS / 2][4]; /* operands of 16 k, as multiply() takes them */

    /* Multiplies them, of which `left` of k exist. */
    __device__ void multiply_loaded(int left) {
        if (left < 16) {
            const int t = int(threadIdx.x) % 4;
            const uint32_t low = pair_mask(left - 2 * t), high = pair_mask(left - 2 * t - 8);
#pragma unroll
            for (int i = 0; i < ROWS; i++)
#pragma unroll
                for (int e = 0; e < 4; e++) rows[i][e] &= e < 2 ? low : high;
#pragma unroll
            for (int j = 0; j < COLUMNS / 2; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) columns[j][e] &= e % 2 == 0 ? low : high;
        }
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                multiply<T>(this->sums[i][j], rows[i], columns[j / 2][j % 2 * 2], columns[j / 2][j % 2 * 2 + 1]);
    }
};

/* Rows begin on 16 bytes: ldmatrix. */
template <typename T, int ROWS, int COLUMNS, enum layout A, enum layout B>
struct stacks_matrices : stacks_halves<T, ROWS, COLUMNS> {
    /* Where a thread's row for load_matrices() begins: of 16 lines by 16 k, from `first` on. LINE_FIRST: the second
     * matrix is 8 lines on (A); else 8 k on (B). */
    template <enum layout LAYOUT, bool LINE_FIRST> __device__ static int begin(const stacks_operand &o, int first) {
        const int lane = int(threadIdx.x) % 32, row = lane % 8, second = lane / 8 % 2 * 8, third = lane / 16 * 8;
        const int line = first + (LINE_FIRST ? second : third), k = LINE_FIRST ? third : second;
        return LAYOUT == LINES ? (k + row) * o.k + min(line, (o.lines - 1) & ~7) * 2
                               : min(line + row, o.lines - 1) * o.line + k * 2;
    }

    __device__ void multiply_add(const stacks_work &work, const char *a, const char *b, int row, int column, int k) {
        unsigned a_at[ROWS], b_at[COLUMNS / 2];
#pragma unroll
        for (int i = 0; i < ROWS; i++) a_at[i] = shared_address(a) + begin<A, true>(work.a, row + i * 16);
#pragma unroll
        for (int j = 0; j < COLUMNS / 2; j++) b_at[j] = shared_address(b) + begin<B, false>(work.b, column + j * 16);
#pragma unroll 1
        for (int l = 0; l < k; l += 16) {
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                load_matrices<A == LINES>(this->rows[i], a_at[i] + l * (A == LINES ? work.a.k : 2));
#pragma unroll
            for (int j = 0; j < COLUMNS / 2; j++)
                load_matrices<B == LINES>(this->columns[j], b_at[j] + l * (B == LINES ? work.b.k : 2));
            this->multiply_loaded(k - l);
        }
    }
};

/* Rows begin anywhere: element by element, from either layout. */
template <typename T, int ROWS, int COLUMNS> struct stacks_elements : stacks_halves<T, ROWS, COLUMNS> {
    /* Two neighbours along k. */
    __device__ static uint32_t pair(const char *from, int k_step) {
        const uint32_t low = *reinterpret_cast<const uint16_t *>(from);
        return low | uint32_t(*reinterpret_cast<const uint16_t *>(from + k_step)) << 16;
    }

    __device__ void multiply_add(const stacks_work &work, const char *a, const char *b, int row, int column, int k) {
        const int g = int(threadIdx.x) % 32 / 4, t = int(threadIdx.x) % 4, a_k = work.a.k, b_k = work.b.k;
        int a_at[2 * ROWS], b_at[COLUMNS];
#pragma unroll
        for (int i = 0; i < 2 * ROWS; i++) a_at[i] = min(row + i * 8 + g, work.a.lines - 1) * work.a.line + 2 * t * a_k;
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            b_at[j] = min(column + j * 8 + g, work.b.lines - 1) * work.b.line + 2 * t * b_k;
#pragma unroll 1
        for (int l = 0; l < k; l += 16) {
#pragma unroll
            for (int i = 0; i < 2 * ROWS; i++) {
                this->rows[i / 2][i % 2] = pair(a + a_at[i] + l * a_k, a_k);
                this->rows[i / 2][i % 2 + 2] = pair(a + a_at[i] + (l + 8) * a_k, a_k);
            }
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                this->columns[j / 2][j % 2 * 2] = pair(b + b_at[j] + l * b_k, b_k);
                this->columns[j / 2][j % 2 * 2 + 1] = pair(b + b_at[j] + (l + 8) * b_k, b_k);
            }
            this->multiply_loaded(k - l);
        }
    }
};

/* ---- the choice of a tile ---------------------------------------------------------------------------------------- */

#define SHAPES 4 /* 3: without 48 x 48, which has not been measured */
/* The shares are estimates of what waiting for shared memory leaves. */
static constexpr stacks_shape float_shapes[] = {
    {16, 16, 16, 24, 0.5}, {32, 32, 32, 16, 0.8}, {64, 32, 32, 12, 0.9}, {48, 48, 32, 10, 0.9}};
static constexpr stacks_shape double_shapes[] = {
    {16, 16, 32, 24, 0.5}, {32, 32, 32, 16, 0.9}, {64, 32, 32, 10, 0.9}, {48, 48, 32, 8, 0.9}};
static constexpr stacks_shape half_shapes[] = {
    {16, 16, 32, 24, 0.5}, {32, 32, 32, 20, 0.9}, {64, 32, 32, 16, 0.9}, {48, 48, 32, 12, 0.9}};

static const stacks_shape *stacks_shapes(enum dtype dtype) {
    return dtype == FLOAT32 ? float_shapes : dtype == FLOAT64 ? double_shapes : half_shapes;
}

struct stacks_choice {
    int shape;
    stacks_plan plan;
    double each; /* multiply-adds of a product, those beside C and those of waiting threads included */
};

/* The shape that `tile` names, or the one that wastes least. Without a plan where no shape fits. */
static stacks_choice stacks_choose(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    stacks_choice best = {};
    for (int i = 0; i < SHAPES; i++) {
        const stacks_shape &shape = stacks_shapes(launch->dtype)[i];
        if (launch->choice[0] > 0 && launch->choice[0] - 1 != i) continue;
        const stacks_plan plan = stacks_plan_for(launch, shape);
        int64_t tiles = ceil_div(args.m, shape.m) * ceil_div(args.n, shape.n);
        if (plan.products == 1) tiles = ceil_div(tiles, plan.threads / shape.team) * (plan.threads / shape.team);
        const double each = double(tiles) * shape.m * shape.n * double(args.k) / (shape.rate * plan.share);
        if (plan.bytes > 0 && (best.plan.bytes == 0 || each < best.each)) best = {i, plan, each};
    }
    return best;
}

static const char *matmul_stacks_refuses(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    if (args.m == 0 || args.n == 0 || args.batch == 0) return nullptr;
    return stacks_choose(launch).plan.bytes > 0 ? nullptr : "its matrices are not small: a block cannot hold a product";
}

/* Of a GPU at 1.7 GHz: memory, or the multiprocessor that has most products; a few of them wait for themselves. */
static double matmul_stacks_seconds(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const double a = double(args.m) * double(args.k) * (args.a_batch_stride ? double(args.batch) : 1);
    const double b = double(args.k) * double(args.n) * (args.b_batch_stride ? double(args.batch) : 1);
    const double c = double(args.m) * double(args.n) * double(args.batch);
    const double per_clock = dtype_size(launch->dtype) == 2 ? 512 : 128; /* multiply-adds of a multiprocessor */
    const double each = double(ceil_div(args.batch, std::max(1, launch->multiprocessors)));
    const double share = std::min(1.0, 0.15 + each / 8);
    return 3e-6 + std::max((a + b + c) * double(dtype_size(launch->dtype)) / 3.6e12,
                           each * stacks_choose(launch).each / (per_clock * 1.7e9 * share));
}

/* ---- launch ------------------------------------------------------------------------------------------------------ */

template <typename TILE> static int stacks_start(const struct launch *launch, const stacks_choice &choice) {
    const matmul_args &args = launch->args.matmul;
    const auto kernel = matmul_stacks_kernel<TILE>;
    stacks_plan plan = choice.plan;
    int resident = 0;
    cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(plan.bytes));
    if (code == cudaSuccess)
        code = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, plan.threads, size_t(plan.bytes));
    if (code != cudaSuccess) return code;
    const int64_t blocks = int64_t(std::max(1, resident)) * std::max(1, launch->multiprocessors);
    stacks_even_out(plan, launch, stacks_shapes(launch->dtype)[choice.shape], blocks);
    kernel<<<unsigned(std::min(blocks, plan.work.groups)), plan.threads, size_t(plan.bytes), stream_of(launch)>>>(
        args, plan.work);
    return cudaGetLastError();
}

template <enum layout A, enum layout B>
static int stacks_start_floats(const struct launch *launch, const stacks_choice &choice) {
    switch (choice.shape) {
    case 0: return stacks_start<stacks_floats<4, 4, 4, A, B>>(launch, choice);
    case 1: return stacks_start<stacks_floats<4, 8, 8, A, B>>(launch, choice);
    case 2: return stacks_start<stacks_floats<8, 8, 8, A, B>>(launch, choice);
    default: return stacks_start<stacks_floats<6, 12, 8, A, B>>(launch, choice);
    }
}

static int stacks_start_doubles(const struct launch *launch, const stacks_choice &choice) {
    switch (choice.shape) {
    case 0: return stacks_start<stacks_doubles<1, 2>>(launch, choice);
    case 1: return stacks_start<stacks_doubles<2, 4>>(launch, choice);
    case 2: return stacks_start<stacks_doubles<4, 4>>(launch, choice);
    default: return stacks_start<stacks_doubles<3, 6>>(launch, choice);
    }
}

template <typename T> static int stacks_start_elements(const struct launch *launch, const stacks_choice &choice) {
    switch (choice.shape) {
    case 0: return stacks_start<stacks_elements<T, 1, 2>>(launch, choice);
    case 1: return stacks_start<stacks_elements<T, 2, 4>>(launch, choice);
    case 2: return stacks_start<stacks_elements<T, 4, 4>>(launch, choice);
    default: return stacks_start<stacks_elements<T, 3, 6>>(launch, choice);
    }
}

template <typename T, enum layout A, enum layout B>
static int stacks_start_matrices(const struct launch *launch, const stacks_choice &choice) {
    switch (choice.shape) {
    case 0: return stacks_start<stacks_matrices<T, 1, 2, A, B>>(launch, choice);
    case 1: return stacks_start<stacks_matrices<T, 2, 4, A, B>>(launch, choice);
    case 2: return stacks_start<stacks_matrices<T, 4, 4, A, B>>(launch, choice);
    default: return stacks_start<stacks_matrices<T, 3, 6, A, B>>(launch, choice);
    }
}

template <typename T, enum layout A, enum layout B>
static int stacks_start_with(const struct launch *launch, const stacks_choice &choice) {
    if constexpr (std::is_same_v<T, float>)
        return stacks_start_floats<A, B>(launch, choice);
    else
        return stacks_start_matrices<T, A, B>(launch, choice);
}

static int matmul_stacks_launch(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    if (args.m == 0 || args.n == 0 || args.batch == 0) return 0;
    const stacks_choice choice = stacks_choose(launch);
    if (choice.plan.bytes == 0) return cudaErrorInvalidConfiguration;
    return dispatch_float(launch->dtype, [&](auto type) -> int {
        using T = typename decltype(type)::type;
        if constexpr (std::is_same_v<T, double>) {
            return stacks_start_doubles(launch, choice);
        } else {
            if constexpr (sizeof(T) == 2 && !STACKS_SPREAD)
                if (choice.plan.as_they_lie) return stacks_start_elements<T>(launch, choice);
            if (args.transpose_a)
                return args.transpose_b ? stacks_start_with<T, LINES, K_KEPT>(launch, choice)
                                        : stacks_start_with<T, LINES, LINES>(launch, choice);
            return args.transpose_b ? stacks_start_with<T, K_KEPT, K_KEPT>(launch, choice)
                                    : stacks_start_with<T, K_KEPT, LINES>(launch, choice);
        }
    });
}

KERNEL(matmul_stacks) = {
    .name = "stacks",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "stacks of small products: groups of them, a tile a warp, the next group's copies under way",
    .dtypes = DTYPES_FLOAT,
    .edges = {{64, 48, 32, 16, 8, 4}, {48, 32, 16, 8, 4}, {64, 32, 16, 8, 4}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .compute_capability = 80,
    .parameters = {{.name = "tile",
                    .values = {"auto", "16x16", "32x32", "64x32", "48x48"},
                    .help = "of C, that a warp computes; auto: the one that wastes least"}},
    .refuses = matmul_stacks_refuses,
    .seconds = matmul_stacks_seconds,
    .launch = matmul_stacks_launch,
};
