/* split_plain.cuh - the elements of C that slices do not hold, for matmul/split.cu: in plain float32, as fast as
 * matmul/async.cu.
 *
 * These elements are boxes, a list of rows by a list of columns (split_slices.cuh):
 *
 *                            columns  good only   good, strong   wide, strong   unheld
 *     rows   good only                -           -              3              2
 *            good and strong          -           -              -              2
 *            wide but strong          4           -              -              2
 *            unheld                   1           1              1              1
 *
 * A kernel that gathers lines from memory loads single numbers where lines are adjacent. So the lines of a box are
 * first copied next to each other, as k rows of neighbouring lines (pack), into the memory of the slices, which are
 * done with. Then one simple kernel takes all cases, 16 bytes at a time. An operand whose lines are adjacent is read
 * where it lies if all of its lines are wanted: a B of normal numbers beside an A with one NaN is not copied. Unheld
 * rows of such an A, which box 1 has, are computed in vain for box 2 and not stored; that is right while they are few.
 *
 * The sum of an element. k is cut into pieces, 8 for most k, by k alone. A piece is one chain of multiply-adds in the
 * order of k, and the pieces are added in their order. So the bits do not depend on how the work is shared, and there
 * are two ways:
 *
 *     many tiles    a block does all of k for a tile; after each piece it adds its sums to those in shared memory
 *     few tiles     a block does one piece of a tile, waits until the pieces before are in C, and adds its own
 *
 * Blocks draw their work in order from a counter, piece after piece, so the one that a block waits for is running or
 * done. Tiles are of 128 x 128, 8 x 16 sums a thread; at most 32 lines left over get tiles of 32 x 128, so that one odd
 * row costs about what reading B takes.
 *
 * Measured on an H200, products of 1000 to 3500 against cuBLAS: rows of a softmax 0.55 to 0.69, numbers spread over
 * 2^-60 .. 2^60 0.63 to 0.70 (0.19 before), one row in 100 odd 0.90 and more (0.23), with a slower split_measure_kernel
 * than today's. */
#ifndef KERNELS_SPLIT_PLAIN_CUH
#define KERNELS_SPLIT_PLAIN_CUH

#include "async.cuh"
#include "split_slices.cuh"

/* ---- pack ------------------------------------------------------------------------------------------------------ */

/* Floats from one k to the next of a packed operand. */
__host__ __device__ inline int64_t split_packed_pitch(const split_operand &o) {
    return (o.list_room() + 3) / 4 * 4;
}

/* Can it be read where it lies? */
__device__ inline bool split_is_direct(const split_operand &o) {
    return !o.by_row && o.fours;
}

/* Which lines of an operand are packed: the unheld ones, the others. The same for all matrices of a stack. */
struct split_packing {
    bool unheld, others;
};

__device__ inline bool split_has_corners(const split_pair &pair) {
    const uint32_t *a = pair.tally->classes[0], *b = pair.tally->classes[1];
    return (a[LINE_GOOD] && b[LINE_STRONG]) || (a[LINE_STRONG] && b[LINE_GOOD]);
}

__device__ inline split_packing split_packing_of(const split_pair &pair, int which) {
    const split_operand &o = pair.operand[which];
    const int64_t all = o.count * o.lines(), unheld = pair.tally->classes[which][LINE_UNHELD];
    const bool corners = split_has_corners(pair), wanted = pair.tally->classes[1 - which][LINE_UNHELD] > 0 || corners;
    const bool direct = split_is_direct(o) && !corners;
    return {unheld > 0 && !(direct && unheld == all), wanted && !(direct && (unheld * 16 <= all || unheld == all))};
}

#define PACK_LINES   64
#define PACK_K       32
#define PACK_THREADS 256

/* Copies lines in the order of their list: packed[k][place]. A block moves tiles of 32 of k by 64 places. */
__global__ void __launch_bounds__(PACK_THREADS) split_pack_kernel(const __grid_constant__ split_pair pair) {
    __shared__ float tile[PACK_K][PACK_LINES + 1];
    if (!split_listed(pair)) return;
    const split_packing packing = split_packing_of(pair, int(blockIdx.z));
    if (!packing.unheld && !packing.others) return;
    const split_operand &o = pair.operand[blockIdx.z];
    const int64_t pitch = split_packed_pitch(o), k = o.k(), down = (k + PACK_K - 1) / PACK_K;
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    for (int64_t matrix = blockIdx.y; matrix < o.count; matrix += gridDim.y) {
        const split_ranges &ranges = o.ranges[matrix];
        const int from = packing.others ? 0 : ranges.begin[LINE_UNHELD];
        const int to = ranges.begin[LINE_UNHELD] + (packing.unheld ? ranges.count[LINE_UNHELD] : 0);
        const int64_t across = to > from ? (to - from + PACK_LINES - 1) / PACK_LINES : 0;
        const float *x = o.x + matrix * o.stride;
        const int32_t *list = o.list + matrix * o.list_room();
        float *packed = reinterpret_cast<float *>(o.slice) + matrix * k * pitch;
        for (int64_t number = blockIdx.x; number < across * down; number += gridDim.x) {
            const int64_t tile_k = quotient(number, across), l = tile_k * PACK_K;
            const int64_t place = from + (number - tile_k * across) * PACK_LINES;
            if (o.by_row) {
#pragma unroll
                for (int i = warp; i < PACK_LINES; i += PACK_THREADS / 32) {
                    const int32_t line = place + i < to ? list[place + i] : -1;
                    tile[lane][i] = line >= 0 && l + lane < k ? x[line * k + l + lane] : 0;
                }
                __syncthreads();
            }
#pragma unroll
            for (int j = 0; j < PACK_LINES; j += 32) {
                const int32_t line = place + j + lane < to ? list[place + j + lane] : -1;
#pragma unroll
                for (int i = warp; i < PACK_K; i += PACK_THREADS / 32) {
                    if (place + j + lane >= to || l + i >= k) continue;
                    const float here = o.by_row ? tile[i][j + lane] : line >= 0 ? x[(l + i) * o.columns + line] : 0;
                    packed[(l + i) * pitch + place + j + lane] = here;
                }
            }
            if (o.by_row) __syncthreads();
        }
    }
}

/* ---- boxes ----------------------------------------------------------------------------------------------------- */

/* Lines of one operand, as k rows of neighbours. */
struct plain_side {
    const float *x;
    int64_t ld;
    const int32_t *list; /* their numbers; NULL: first, first + 1 ... */
    int first, count;
};

enum plain_shape { PLAIN_SQUARE, PLAIN_FLAT, PLAIN_TALL }; /* 128 x 128, 32 x 128, 128 x 32 */

struct plain_box {
    plain_side a, b;
    bool held_rows_only; /* unheld ones are in another box, too */
    int shape;
    int64_t rows, columns; /* tiles */
};

#define PLAIN_BOXES   8
#define PLAIN_TILE    128
#define PLAIN_THIN    32
#define PLAIN_THREADS 128
#define PLAIN_BK      8
#define PLAIN_STAGES  3
#define PLAIN_DONE    4096 /* tiles whose pieces different blocks may do */
#define PLAIN_LEAST   128  /* of k in a piece that is worth a block's start */

/* What a matrix of C needs. */
struct plain_plan {
    plain_box box[PLAIN_BOXES];
    int boxes;
    int64_t tiles, items;
    int64_t each; /* of k, in a piece */
    bool apart;   /* pieces are done by different blocks */
};

/* The last box of a list that is no multiple of 128 may be thin. */
__device__ inline plain_side plain_part(plain_side side, int begin, int count) {
    side.x += begin;
    if (side.list) side.list += begin;
    side.first += begin;
    side.count = count;
    return side;
}

__device__ inline void plain_add_box(plain_plan &plan, const plain_box &box, int shape) {
    if (box.a.count == 0 || box.b.count == 0) return;
    plain_box &to = plan.box[plan.boxes++];
    to = box;
    to.shape = shape;
    const int tall = shape == PLAIN_FLAT ? PLAIN_THIN : PLAIN_TILE,
              wide = shape == PLAIN_TALL ? PLAIN_THIN : PLAIN_TILE;
    to.rows = (box.a.count + tall - 1) / tall;
    to.columns = (box.b.count + wide - 1) / wide;
    plan.tiles += to.rows * to.columns;
}

__device__ inline void plain_add(plain_plan &plan, const plain_side &a, const plain_side &b, bool done = false) {
    plain_box box = {a, b, done, PLAIN_SQUARE, 0, 0};
    const int a_left = a.count % PLAIN_TILE, b_left = b.count % PLAIN_TILE;
    if (a_left > 0 && a_left <= PLAIN_THIN) {
        box.a = plain_part(a, 0, a.count - a_left);
        plain_add_box(plan, box, PLAIN_SQUARE);
        box.a = plain_part(a, a.count - a_left, a_left);
        plain_add_box(plan, box, PLAIN_FLAT);
    } else if (b_left > 0 && b_left <= PLAIN_THIN) {
        box.b = plain_part(b, 0, b.count - b_left);
        plain_add_box(plan, box, PLAIN_SQUARE);
        box.b = plain_part(b, b.count - b_left, b_left);
        plain_add_box(plan, box, PLAIN_TALL);
    } else
        plain_add_box(plan, box, PLAIN_SQUARE);
}

/* Places [begin, begin + count) of the list, packed. */
__device__ inline plain_side plain_packed(const split_operand &o, int64_t matrix, int begin, int count) {
    const int64_t pitch = split_packed_pitch(o);
    return {reinterpret_cast<const float *>(o.slice) + matrix * o.k() * pitch + begin, pitch,
            o.list + matrix * o.list_room() + begin, 0, count};
}

/* All lines where they lie. */
__device__ inline plain_side plain_direct(const split_operand &o, int64_t matrix) {
    return {o.x + matrix * o.stride, o.columns, nullptr, 0, int(o.lines())};
}

/* Sums are cut by k alone: in 8 pieces, but none longer than 2048 or shorter than 32. */
__host__ __device__ inline int64_t plain_piece(int64_t k) {
    const int64_t eighth = (k + 63) / 64 * 8;
    return eighth < 32 ? 32 : eighth > 2048 ? 2048 : eighth;
}

__device__ inline void plain_make(plain_plan &plan, const matmul_args &args, const split_pair &pair, int64_t batch) {
    const split_operand &a = pair.operand[0], &b = pair.operand[1];
    const int64_t i = a.count > 1 ? batch : 0, j = b.count > 1 ? batch : 0;
    const split_packing pack_a = split_packing_of(pair, 0), pack_b = split_packing_of(pair, 1);
    const split_ranges of_a = a.ranges[i], of_b = b.ranges[j];
    const int a_held = of_a.begin[LINE_UNHELD], a_left = of_a.count[LINE_UNHELD]; /* held: places with holes */
    const int b_held = of_b.begin[LINE_UNHELD], b_left = of_b.count[LINE_UNHELD];
    plan.boxes = 0;
    plan.tiles = 0;
    if (a_left > 0)
        plain_add(plan, pack_a.unheld ? plain_packed(a, i, a_held, a_left) : plain_direct(a, i),
                  !pack_b.others ? plain_direct(b, j)
                                 : plain_packed(b, j, 0, pack_b.unheld ? b_held + b_left : b_held));
    if (b_left > 0 && a_held > 0)
        plain_add(plan, pack_a.others ? plain_packed(a, i, 0, a_held) : plain_direct(a, i),
                  pack_b.unheld ? plain_packed(b, j, b_held, b_left) : plain_direct(b, j), true);
    if (split_has_corners(pair)) {
        for (int c = LINE_GOOD; c <= LINE_STRONG; c++) {
            const int other = LINE_GOOD + LINE_STRONG - c;
            plain_add(plan, plain_packed(a, i, of_a.begin[c], of_a.count[c]),
                      plain_packed(b, j, of_b.begin[other], of_b.count[other]));
        }
    }
    plan.each = plain_piece(args.k);
    const int64_t pieces = (args.k + plan.each - 1) / plan.each, rounds = (plan.tiles + gridDim.x - 1) / gridDim.x;
    plan.apart = pair.single && pieces > 1 && plan.each >= PLAIN_LEAST && plan.tiles <= PLAIN_DONE &&
                 plan.tiles * 10 < rounds * gridDim.x * 9;
    plan.items = plan.tiles * (plan.apart ? pieces : 1);
}

/* ---- tiles ----------------------------------------------------------------------------------------------------- */

/* A tile of a box and its part of k. */
struct plain_item {
    int64_t row, column; /* of the box */
    int64_t k_begin, k_end;
    bool first, last; /* of the pieces of k */
};

/* Finds the box and the tile in it. Bands of GROUP tile rows, as in matmul/async.cuh. */
__device__ inline const plain_box &plain_find(const plain_plan &plan, int64_t number, plain_item &item) {
    int at = 0;
    while (number >= plan.box[at].rows * plan.box[at].columns) {
        number -= plan.box[at].rows * plan.box[at].columns;
        at++;
    }
    const plain_box &box = plan.box[at];
    const int64_t band = quotient(number, GROUP * box.columns), first = band * GROUP;
    const int64_t height = min(box.rows - first, int64_t(GROUP)), within = number - first * box.columns;
    const int64_t column = quotient(within, height);
    item.row = (first + within - column * height) * (box.shape == PLAIN_FLAT ? PLAIN_THIN : PLAIN_TILE);
    item.column = column * (box.shape == PLAIN_TALL ? PLAIN_THIN : PLAIN_TILE);
    return box;
}

/* The number of a line of a box; -1: there is none. */
__device__ inline int plain_line(const plain_side &side, int64_t at) {
    if (at >= side.count) return -1;
    return side.list ? __ldg(side.list + at) : side.first + int(at);
}

/* One item, by a block: four warps of WARP_M x WARP_N, WARPS_N of them side by side; see matmul/async.cu. `kept` holds
 * the sums of earlier pieces, `number` the tile's rows and columns of C. `turn` is called before C is touched. */
template <int WARP_M, int WARP_N, int WARPS_N, typename TURN>
__device__ __forceinline__ void plain_tile(const matmul_args &args, const split_line *a_line, const plain_plan &plan,
                                           const plain_box &box, const plain_item &item, float *c, float *stages,
                                           float4 *kept, int (*number)[PLAIN_TILE], TURN turn) {
    constexpr int TILE_M = WARP_M * (4 / WARPS_N), TILE_N = WARP_N * WARPS_N;
    constexpr int ROWS = WARP_M / 8, COLUMNS = WARP_N / 4;
    constexpr int A_ROW = TILE_M + padding<float>, B_ROW = TILE_N + padding<float>;
    constexpr unsigned STAGE_BYTES = PLAIN_BK * (A_ROW + B_ROW) * sizeof(float);
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    const int y = warp / WARPS_N * WARP_M + lane / 4 * 4, x = warp % WARPS_N * WARP_N + lane % 4 * 4;
    const auto row_of = [&](int i) { return number[0][y + i / 4 * 32 + i % 4]; };
    const auto column_of = [&](int j) { return number[1][x + j / 4 * 16 + j % 4]; };
    const auto kept_at = [&](int i, int j) -> float4 & {
        return kept[(i * COLUMNS + j) / 4 * PLAIN_THREADS + threadIdx.x];
    };
    const bool aligned = args.n % 4 == 0 && !box.b.list; /* four columns are one vector of C */

    int line = plain_line(box.a, item.row + threadIdx.x);
    if (line >= 0 && box.held_rows_only && line_class(line_load(a_line + line), args.k) == LINE_UNHELD) line = -1;
    number[0][threadIdx.x] = line;
    number[1][threadIdx.x] = plain_line(box.b, item.column + threadIdx.x);
    __syncthreads();
    const bool into_c = plan.apart && !(item.first && args.first); /* sums of others are in C */
#pragma unroll 1
    for (int i = 0; i < ROWS; i++) {
        const int row = plan.apart || args.first ? -1 : row_of(i);
#pragma unroll
        for (int j = 0; j < COLUMNS; j += 4) {
            float before[4];
#pragma unroll
            for (int e = 0; e < 4; e++)
                before[e] = row >= 0 && column_of(j + e) >= 0 ? c[row * args.n + column_of(j + e)] : 0;
            kept_at(i, j) = make_float4(before[0], before[1], before[2], before[3]);
        }
    }

    constexpr int A_WIDTH = TILE_M == PLAIN_TILE ? 4 : 2, B_WIDTH = TILE_N == PLAIN_TILE ? 4 : 2;
    feeder<float, LINES, A_WIDTH, TILE_M, PLAIN_BK, PLAIN_THREADS> a(box.a.x, stages, box.a.count, item.row, box.a.ld,
                                                                     item.k_begin);
    feeder<float, LINES, B_WIDTH, TILE_N, PLAIN_BK, PLAIN_THREADS> b(box.b.x, stages + PLAIN_BK * A_ROW, box.b.count,
                                                                     item.column, box.b.ld, item.k_begin);
    float sums[ROWS][COLUMNS] = {};
    float rows[2][ROWS], columns[2][COLUMNS];
    int until = int(plan.each); /* of k, to the end of the piece */
    const auto keep = [&] {
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j += 4) {
                const float4 before = kept_at(i, j);
                kept_at(i, j) = make_float4(before.x + sums[i][j], before.y + sums[i][j + 1], before.z + sums[i][j + 2],
                                            before.w + sums[i][j + 3]);
                sums[i][j] = sums[i][j + 1] = sums[i][j + 2] = sums[i][j + 3] = 0;
            }
    };
    const auto load = [&](int buffer, unsigned offset, int l) {
        if (l == 1) { /* sums hold whole stages */
            if (until == 0) {
                keep();
                until = int(plan.each);
            }
            until -= PLAIN_BK;
        }
        const char *const a_stage = reinterpret_cast<const char *>(stages + y) + offset;
        const char *const b_stage = reinterpret_cast<const char *>(stages + PLAIN_BK * A_ROW + x) + offset;
#pragma unroll
        for (int i = 0; i < ROWS; i += 4)
            *reinterpret_cast<float4 *>(&rows[buffer][i]) =
                *reinterpret_cast<const float4 *>(a_stage + (l * A_ROW + i * 8) * 4);
#pragma unroll
        for (int j = 0; j < COLUMNS; j += 4)
            *reinterpret_cast<float4 *>(&columns[buffer][j]) =
                *reinterpret_cast<const float4 *>(b_stage + (l * B_ROW + j * 4) * 4);
    };
    const matmul_piece piece = {{}, 0, item.k_begin, item.k_end};
    stages_walk<PLAIN_STAGES, STAGE_BYTES, PLAIN_BK, 1>(a, b, piece, load, [&](int buffer) {
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                const int zigzag = j % 2 ? ROWS - 1 - i : i;
                sums[zigzag][j] += rows[buffer][zigzag] * columns[buffer][j];
            }
    });

    keep(); /* from here on the sums need no registers */
    turn();
    const bool scale = item.last && args.last && args.alpha != 1;
    constexpr int EACH = 32 / COLUMNS; /* rows at a time, whose loads overlap */
#pragma unroll 1
    for (int i = 0; i < ROWS; i += EACH) {
        float sum[EACH][COLUMNS], before[EACH][COLUMNS];
        float *to[EACH][COLUMNS];
#pragma unroll
        for (int r = 0; r < EACH; r++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                const bool exists = row_of(i + r) >= 0 && column_of(j) >= 0;
                to[r][j] = exists ? c + row_of(i + r) * args.n + column_of(j) : nullptr;
            }
#pragma unroll
        for (int r = 0; r < EACH; r++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j += 4) {
                float4 four = {};
                if (into_c && aligned) {
                    if (to[r][j]) four = __ldcg(reinterpret_cast<const float4 *>(to[r][j]));
                }
                before[r][j] = four.x, before[r][j + 1] = four.y, before[r][j + 2] = four.z, before[r][j + 3] = four.w;
            }
        if (into_c && !aligned)
#pragma unroll
            for (int r = 0; r < EACH; r++)
#pragma unroll
                for (int j = 0; j < COLUMNS; j++) before[r][j] = to[r][j] ? __ldcg(to[r][j]) : 0;
#pragma unroll
        for (int r = 0; r < EACH; r++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j += 4) {
                const float4 four = kept_at(i + r, j);
                sum[r][j] = four.x, sum[r][j + 1] = four.y, sum[r][j + 2] = four.z, sum[r][j + 3] = four.w;
            }
        if (into_c)
#pragma unroll
            for (int r = 0; r < EACH; r++)
#pragma unroll
                for (int j = 0; j < COLUMNS; j++) sum[r][j] += before[r][j];
        if (scale)
#pragma unroll
            for (int r = 0; r < EACH; r++)
#pragma unroll
                for (int j = 0; j < COLUMNS; j++) sum[r][j] = float(args.alpha * sum[r][j]);
#pragma unroll
        for (int r = 0; r < EACH; r++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j += 4) {
                if (aligned) {
                    if (to[r][j])
                        *reinterpret_cast<float4 *>(to[r][j]) =
                            make_float4(sum[r][j], sum[r][j + 1], sum[r][j + 2], sum[r][j + 3]);
                } else {
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        if (to[r][j + e]) *to[r][j + e] = sum[r][j + e];
                }
            }
    }
}

/* Where blocks meet: the next item of each matrix; of each tile, how many pieces of k are in C. Zero at first. */
struct plain_counters {
    uint32_t *next, *done;
};

#define PLAIN_STAGE_FLOATS (PLAIN_BK * 2 * (PLAIN_TILE + padding<float>))
#define PLAIN_SHARED                                                                                                   \
    (PLAIN_STAGES * PLAIN_STAGE_FLOATS * sizeof(float) + size_t(PLAIN_TILE) * PLAIN_TILE * sizeof(float))

__global__ void __launch_bounds__(PLAIN_THREADS, 2)
    split_plain_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ split_pair pair,
                       const plain_counters counters) {
    extern __shared__ float4 plain_memory[];
    __shared__ plain_plan plan;
    __shared__ uint32_t drawn;
    __shared__ int number[2][PLAIN_TILE];
    if (!split_listed(pair)) return;
    float *const stages = reinterpret_cast<float *>(plain_memory);
    float4 *const kept = plain_memory + PLAIN_STAGES * PLAIN_STAGE_FLOATS / 4;
    for (int64_t batch = blockIdx.y; batch < args.batch; batch += gridDim.y) {
        __syncthreads();
        if (threadIdx.x == 0) plain_make(plan, args, pair, batch);
        const split_line *const a_line = pair.operand[0].line + (pair.operand[0].count > 1 ? batch * args.m : 0);
        float *const c = static_cast<float *>(args.c) + batch * args.m * args.n;
        for (;;) {
            __syncthreads();
            if (threadIdx.x == 0) drawn = atomicAdd(&counters.next[batch], 1);
            __syncthreads();
            if (drawn >= plan.items) break;
            const int64_t piece = plan.apart ? quotient(drawn, plan.tiles) : 0, tile = drawn - piece * plan.tiles;
            plain_item item = {0, 0, 0, args.k, true, true};
            const plain_box &box = plain_find(plan, tile, item);
            if (plan.apart) {
                item.k_begin = piece * plan.each;
                item.k_end = min(item.k_begin + plan.each, args.k);
                item.first = piece == 0;
                item.last = item.k_end == args.k;
            }
            const auto turn = [&] {
                if (!plan.apart || item.first) return;
                if (threadIdx.x == 0) {
                    while (*const_cast<volatile uint32_t *>(counters.done + tile) < piece) __nanosleep(100);
                    __threadfence();
                }
                __syncthreads();
            };
            if (box.shape == PLAIN_SQUARE)
                plain_tile<64, 64, 2>(args, a_line, plan, box, item, c, stages, kept, number, turn);
            else if (box.shape == PLAIN_FLAT)
                plain_tile<32, 32, 4>(args, a_line, plan, box, item, c, stages, kept, number, turn);
            else
                plain_tile<32, 32, 1>(args, a_line, plan, box, item, c, stages, kept, number, turn);
            if (plan.apart && !item.last) {
                __threadfence();
                __syncthreads();
                if (threadIdx.x == 0) *const_cast<volatile uint32_t *>(counters.done + tile) = uint32_t(piece) + 1;
            }
        }
    }
}

#endif
