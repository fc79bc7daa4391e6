/* stacks.cu - stacks of small products: a block takes them in groups, so that no thread idles because a matrix is
 * smaller than a tile.
 *
 *     memory       A0 A1 A2 A3 | A4 A5 A6 A7 | ...     the matrices of a stack lie one behind the other:
 *                  B0 B1 B2 B3 | B4 B5 B6 B7 | ...     a group of them is one run of memory
 *                       |             |
 *                    copied,       being copied        cp.async, as many bytes at a time as a row allows
 *                       v             v
 *     shared       +---------+   +---------+           two buffers per block,
 *     memory       | group 0 |   | group 1 |           up to six blocks per multiprocessor
 *                  +---------+   +---------+
 *                   | | | |                            each warp multiplies other products, or other tiles of them
 *                   v v v v
 *                 C0 C1 C2 C3                          written 16 bytes at a time, narrow ones through shared memory
 *
 * The other variants give each C a block of its own, with tiles of at least 64 x 64: for a product of 16 x 16 x 16 such
 * a block does 16 times the necessary multiplications, and waits for its operands with nothing else to do. Here a tile
 * is 16 x 16, 32 x 32 or 64 x 32 and belongs to one warp (float32, 16 x 16: half of one). A block stays and walks from
 * group to group; while one is multiplied the next arrive. Small groups make all blocks end together.
 *
 * The tiles know how to multiply from any of the layouts:
 *
 *     float32     4 x 4 to 8 x 8 sums per thread; loads of 16 bytes bring four k of a line or four lines of a k
 *     float64     tensor cores, 4 of k at a time
 *     16 bits     tensor cores, 16 of k, by ldmatrix: its rows must begin on 16 bytes, which copies see to
 *     odd rows    of 16 bits: their elements are read one by one, because odd rows are copied unpadded (stacks.cuh)
 *
 * For lines beyond the edge of C a tile reads the last line again, or any other data: it does not store their sums.
 * Beyond the last k lie other data, in both operands: zeros replace them in registers, since 0 times a NaN is a NaN. A
 * product that does not fit into shared memory is cut along k; its sums stay in registers. Each element is one chain of
 * additions in the order of k, whatever the tile.
 *
 * Measured on an H200, us, cuBLAS in brackets:
 *
 *                                bfloat16        float32       float64
 *     20000 of 16 x 16 x 16      14.2 (65)       22.6 (51)     33.1 (71)
 *     4096 of 64 x 64 x 64       34.0 (37)       87.6 (79)     142.6 (97)
 *     3000 of 33 x 33 x 33       24.5 (39)       42.4 (37)     46.7 (59)
 *     400 of 128 x 128 x 128     20.9 (9.3)      74.3 (52)     87.3 (48)
 *
 * The limit: memory, below about 48 x 48 x 48 in float32, 96 in float64, and for all 16-bit types that have rows of
 * even width. Above it, what a warp reads from shared memory for each product: async.cu and multicast.cu feed
 * larger tiles from it. */
#include "../../core/fragments.cuh"
#include "stacks_choice.cuh"
#include "ways.cuh"

/* ---- float32: sums in the threads -------------------------------------------------------------------------------- */

/* A thread's COUNT lines of a tile: every THREADS-th line (LAYOUT == LINES: every THREADS-th group of four). */
template <enum layout LAYOUT, int COUNT, int THREADS> struct stacks_lines {
    static constexpr int ADJACENT = LAYOUT == K_KEPT ? 1 : 4, ROWS = LAYOUT == K_KEPT ? COUNT : 1;
    int offset[ROWS]; /* of the lines, in bytes */

    __device__ static int line(int thread, int i) {
        return (i / ADJACENT * THREADS + thread) * ADJACENT + i % ADJACENT;
    }

    /* Finds where the lines begin. LAYOUT == LINES: reads beyond the last line reach into the next row, or behind the
     * buffer (stacks_cut). */
    __device__ stacks_lines(const stacks_operand &o, int first, int thread) {
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            offset[i] = LAYOUT == K_KEPT ? min(first + line(thread, i), o.lines - 1) * o.line_pitch
                                         : (first + line(thread, 0)) * 4;
    }

    /* Loads four of k, from l on. */
    __device__ void load(float (&values)[COUNT][4], const stacks_operand &o, const char *from, int l) const {
        if constexpr (LAYOUT == K_KEPT) {
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                *reinterpret_cast<float4 *>(values[i]) = *reinterpret_cast<const float4 *>(from + offset[i] + l * 4);
        } else {
#pragma unroll
            for (int kk = 0; kk < 4; kk++) {
                const char *const row = from + offset[0] + (l + kk) * o.k_pitch;
#pragma unroll
                for (int i = 0; i < COUNT; i += 4) {
                    const float4 some = *reinterpret_cast<const float4 *>(row + i * THREADS * 4);
                    values[i][kk] = some.x, values[i + 1][kk] = some.y;
                    values[i + 2][kk] = some.z, values[i + 3][kk] = some.w;
                }
            }
        }
    }
};

/* A TILE of ROWS x COLUMNS sums per thread, by HEIGHT x 4 threads. Threads 2 i and 2 i + 1 read the same lines of A,
 * threads i and i + 2 the same lines of B, so that each half of a warp reads few banks. */
template <int ROWS, int COLUMNS, int HEIGHT, enum layout A, enum layout B> struct stacks_floats {
    using type = float;
    using a_lines = stacks_lines<A, ROWS, HEIGHT>;
    using b_lines = stacks_lines<B, COLUMNS, 4>;
    static constexpr int TEAM = HEIGHT * 4, TILE_M = ROWS * HEIGHT, TILE_N = COLUMNS * 4;
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

    __device__ void multiply_add(const stacks_operand &a_operand, const stacks_operand &b_operand, const char *a,
                                 const char *b, int row, int column, int k) {
        const a_lines rows(a_operand, row, y);
        const b_lines columns(b_operand, column, x);
#pragma unroll 1
        for (int begin = 0; begin < k; begin += 8)
#pragma unroll
            for (int l = begin; l < begin + 8; l += 4) {
                if (l >= k) break;
                float left[ROWS][4], right[COLUMNS][4];
                rows.load(left, a_operand, a, l);
                columns.load(right, b_operand, b, l);
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

    __device__ void store_tile(const stacks_output<float> &output, int row, int column) const {
        constexpr int COUNT = B == LINES ? 4 : 1; /* neighbours in a row of C */
        output.store_all<COUNT>([&](auto store_sums) {
#pragma unroll
            for (int i = 0; i < ROWS; i++)
#pragma unroll
                for (int j = 0; j < COLUMNS; j += COUNT)
                    store_sums(row + a_lines::line(y, i), column + b_lines::line(x, j), &sums[i][j]);
        });
    }
};

/* ---- sums in the layout of mma.sync ------------------------------------------------------------------------------ */

/* The sums of a TILE of ROWS x COLUMNS times 16 x 8, and how they are stored. */
template <typename T, int ROWS, int COLUMNS> struct stacks_sums : fragment_sums<accumulator<T>, ROWS, COLUMNS> {
    using type = T;
    static constexpr int TEAM = 32, TILE_M = ROWS * 16, TILE_N = COLUMNS * 8;
    static constexpr int BLOCKS = ROWS > 2 ? 1 : ROWS > 1 ? 2 : 3;

    __device__ void store_tile(const stacks_output<T> &output, int row, int column) const {
        const int g = int(threadIdx.x) % 32 / 4, t = int(threadIdx.x) % 4;
        output.template store_all<2>([&](auto store_sums) {
            this->each(
                [&](int i, int j, const accumulator<T> *two) { store_sums(row + i + g, column + j + t * 2, two); });
        });
    }
};

/* A TILE of float64. */
template <int ROWS, int COLUMNS> struct stacks_doubles : stacks_sums<double, ROWS, COLUMNS> {
    __device__ void multiply_add(const stacks_operand &a_operand, const stacks_operand &b_operand, const char *a,
                                 const char *b, int row, int column, int k) {
        const int g = int(threadIdx.x) % 32 / 4, t = int(threadIdx.x) % 4;
        int a_at[2 * ROWS], b_at[COLUMNS];
#pragma unroll
        for (int i = 0; i < 2 * ROWS; i++)
            a_at[i] = min(row + i * 8 + g, a_operand.lines - 1) * a_operand.line_pitch + t * a_operand.k_pitch;
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            b_at[j] = min(column + j * 8 + g, b_operand.lines - 1) * b_operand.line_pitch + t * b_operand.k_pitch;
#pragma unroll 1
        for (int l = 0; l < k; l += 4) {
            double left[ROWS][2], right[COLUMNS];
#pragma unroll
            for (int i = 0; i < 2 * ROWS; i++)
                left[i / 2][i % 2] = *reinterpret_cast<const double *>(a + a_at[i] + l * a_operand.k_pitch);
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                right[j] = *reinterpret_cast<const double *>(b + b_at[j] + l * b_operand.k_pitch);
            if (l + t >= k) {
#pragma unroll
                for (int i = 0; i < 2 * ROWS; i++) left[i / 2][i % 2] = 0;
#pragma unroll
                for (int j = 0; j < COLUMNS; j++) right[j] = 0;
            }
#pragma unroll
            for (int i = 0; i < ROWS; i++)
#pragma unroll
                for (int j = 0; j < COLUMNS; j++) multiply(this->sums[i][j], left[i], right[j]);
        }
    }
};

/* ---- 16 bits ----------------------------------------------------------------------------------------------------- */

/* The mask that keeps the first `count` of two neighbours along k, packed into 32 bits. */
__device__ inline uint32_t pair_mask(int count) {
    return count >= 2 ? 0xffffffffu : count == 1 ? 0xffffu : 0;
}

/* What both TILEs of 16-bit types share: they differ in how they load operands. */
template <typename T, int ROWS, int COLUMNS> struct stacks_halves : stacks_sums<T, ROWS, COLUMNS> {
    uint32_t rows[ROWS][4], columns[COLUMNS / 2][4]; /* operands of 16 k, as multiply() takes them */

    /* Multiplies the loaded operands, of which `remaining_k` of k exist. */
    __device__ void multiply_loaded(int remaining_k) {
        if (remaining_k < 16) {
            const int t = int(threadIdx.x) % 4;
            const uint32_t low = pair_mask(remaining_k - 2 * t), high = pair_mask(remaining_k - 2 * t - 8);
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

/* A TILE for matrices whose rows begin on 16 bytes, which ldmatrix loads. */
template <typename T, int ROWS, int COLUMNS, enum layout A, enum layout B>
struct stacks_matrices : stacks_halves<T, ROWS, COLUMNS> {
    /* The offset of a thread's row for load_matrices(), which loads 16 lines by 16 k from line `first` on. LINE_FIRST:
     * the second of its four matrices lies 8 lines further (A); else 8 k further (B). */
    template <enum layout LAYOUT, bool LINE_FIRST> __device__ static int begin(const stacks_operand &o, int first) {
        const int lane = int(threadIdx.x) % 32, row = lane % 8, second = lane / 8 % 2 * 8, third = lane / 16 * 8;
        const int line = first + (LINE_FIRST ? second : third), k = LINE_FIRST ? third : second;
        return LAYOUT == LINES ? (k + row) * o.k_pitch + min(line, (o.lines - 1) & ~7) * 2
                               : min(line + row, o.lines - 1) * o.line_pitch + k * 2;
    }

    __device__ void multiply_add(const stacks_operand &a_operand, const stacks_operand &b_operand, const char *a,
                                 const char *b, int row, int column, int k) {
        unsigned a_at[ROWS], b_at[COLUMNS / 2];
#pragma unroll
        for (int i = 0; i < ROWS; i++) a_at[i] = shared_address(a) + begin<A, true>(a_operand, row + i * 16);
#pragma unroll
        for (int j = 0; j < COLUMNS / 2; j++) b_at[j] = shared_address(b) + begin<B, false>(b_operand, column + j * 16);
#pragma unroll 1
        for (int l = 0; l < k; l += 16) {
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                load_matrices<A == LINES>(this->rows[i], a_at[i] + l * (A == LINES ? a_operand.k_pitch : 2));
#pragma unroll
            for (int j = 0; j < COLUMNS / 2; j++)
                load_matrices<B == LINES>(this->columns[j], b_at[j] + l * (B == LINES ? b_operand.k_pitch : 2));
            this->multiply_loaded(k - l);
        }
    }
};

/* A TILE for matrices whose rows begin anywhere: loads element by element, from either layout. */
template <typename T, int ROWS, int COLUMNS> struct stacks_elements : stacks_halves<T, ROWS, COLUMNS> {
    static constexpr int BLOCKS = ROWS > 1 ? 1 : 3;

    /* Loads two neighbours along k. */
    __device__ static uint32_t pair(const char *from, int k_step) {
        const uint32_t low = *reinterpret_cast<const uint16_t *>(from);
        return low | uint32_t(*reinterpret_cast<const uint16_t *>(from + k_step)) << 16;
    }

    __device__ void multiply_add(const stacks_operand &a_operand, const stacks_operand &b_operand, const char *a,
                                 const char *b, int row, int column, int k) {
        const int g = int(threadIdx.x) % 32 / 4, t = int(threadIdx.x) % 4, a_k = a_operand.k_pitch,
                  b_k = b_operand.k_pitch;
        int a_at[2 * ROWS], b_at[COLUMNS];
#pragma unroll
        for (int i = 0; i < 2 * ROWS; i++)
            a_at[i] = min(row + i * 8 + g, a_operand.lines - 1) * a_operand.line_pitch + 2 * t * a_k;
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            b_at[j] = min(column + j * 8 + g, b_operand.lines - 1) * b_operand.line_pitch + 2 * t * b_k;
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

/* ---- launch ------------------------------------------------------------------------------------------------------ */

static const char *matmul_stacks_refuses(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    if (args.m == 0 || args.n == 0 || args.batch == 0) return nullptr;
    return stacks_choose(launch).plan.bytes > 0 ? nullptr : "the matrices are too large: a block cannot hold a product";
}

static double matmul_stacks_seconds(const struct launch *launch) {
    return stacks_seconds(launch);
}

/* Starts the kernel for this TILE on as many blocks as run at once, with groups that keep all of them busy. */
template <typename TILE> static int stacks_start(const struct launch *launch, const stacks_choice &choice) {
    const matmul_args &args = launch->args.matmul;
    const auto kernel = matmul_stacks_kernel<TILE>;
    stacks_plan plan = choice.plan;
    int64_t blocks;
    const int code = blocks_at_once(launch, kernel, plan.threads, plan.bytes, &blocks);
    if (code) return code;
    stacks_even_out(plan, launch, stacks_shapes(launch)[choice.shape], blocks);
    kernel<<<unsigned(std::min(blocks, plan.work.groups)), plan.threads, size_t(plan.bytes), stream_of(launch)>>>(
        args, plan.work);
    return cudaGetLastError();
}

/* Starts the kernel of the shape that was chosen. */
template <typename SMALL, typename MIDDLE, typename LARGE>
static int stacks_start_one(const struct launch *launch, const stacks_choice &choice) {
    switch (choice.shape) {
    case 0: return stacks_start<SMALL>(launch, choice);
    case 1: return stacks_start<MIDDLE>(launch, choice);
    default: return stacks_start<LARGE>(launch, choice);
    }
}

/* Starts the kernel of the tile that the model chooses, for the operands' type and layouts. */
static int matmul_stacks_begin(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    if (args.m == 0 || args.n == 0 || args.batch == 0) return 0;
    const stacks_choice choice = stacks_choose(launch);
    if (choice.plan.bytes == 0) return cudaErrorInvalidConfiguration;
    return dispatch_float(launch->dtype, [&](auto type) -> int {
        using T = typename decltype(type)::type;
        if constexpr (std::is_same_v<T, double>) {
            return stacks_start_one<stacks_doubles<1, 2>, stacks_doubles<2, 4>, stacks_doubles<4, 4>>(launch, choice);
        } else if constexpr (std::is_same_v<T, float>) {
            return with_layouts<K_KEPT>(args, [&](auto a, auto b) {
                constexpr enum layout A = a, B = b;
                return stacks_start_one<stacks_floats<4, 4, 4, A, B>, stacks_floats<4, 8, 8, A, B>,
                                        stacks_floats<8, 8, 8, A, B>>(launch, choice);
            });
        } else {
            if (choice.plan.unpadded)
                return stacks_start_one<stacks_elements<T, 1, 2>, stacks_elements<T, 2, 4>, stacks_elements<T, 4, 4>>(
                    launch, choice);
            return with_layouts<K_KEPT>(args, [&](auto a, auto b) {
                constexpr enum layout A = a, B = b;
                return stacks_start_one<stacks_matrices<T, 1, 2, A, B>, stacks_matrices<T, 2, 4, A, B>,
                                        stacks_matrices<T, 4, 4, A, B>>(launch, choice);
            });
        }
    });
}

DECLARE_KERNEL(matmul_stacks);
static int matmul_stacks_launch(const struct launch *launch) {
    return ways_launch(&matmul_stacks, launch, matmul_stacks_begin);
}

KERNEL(matmul_stacks) = {
    .name = "stacks",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "stacks of small products, in groups: one tile per warp, while the next group is copied",
    .dtypes = DTYPES_FLOAT,
    .edges = {{64, 48, 32, 16, 8, 4}, {48, 32, 16, 8, 4}, {64, 32, 16, 8, 4}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .compute_capability = 80,
    .parameters = {{.name = "tile",
                    .values = {"auto", "16x16", "32x32", "64x32"},
                    .help = "rows and columns of C per warp; auto: as a model predicts"}},
    .refuses = matmul_stacks_refuses,
    .seconds = matmul_stacks_seconds,
    .launch = matmul_stacks_launch,
};
