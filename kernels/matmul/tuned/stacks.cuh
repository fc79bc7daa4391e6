/* stacks.cuh - the frame of stacks.cu: how a stack of products is cut into groups, which a block computes at a time;
 * how operands lie in shared memory; the walk of a block from group to group; and, on the host, the choice of a group's
 * size by a model of the time.
 *
 * A run is what lies together in memory: a group's matrices of one operand, one after the other. Copies keep its order.
 * Rows are spread, so that in shared memory they are an odd number of 16 bytes apart (float64: of 32 bytes). What an
 * instruction reads from several rows then lies in different banks:
 *
 *     memory           r0 r0 r0 | r1 r1 r1 | r2 ...            copies of 16, 8 or 4 bytes, whatever divides a row
 *     shared memory    r0 r0 r0 .  .  | r1 r1 r1 .  .  | ...
 *
 * 16-bit elements in rows of odd width are copied without a change of layout, in units of 16 bytes that ignore the ends
 * of rows, and read singly. */
#ifndef KERNELS_MATMUL_STACKS_CUH
#define KERNELS_MATMUL_STACKS_CUH

#include "async.cuh"
#include <algorithm>

#define STACKS_WARPS 8 /* of a block, at most */

/* ---- what a launch does ------------------------------------------------------------------------------------------ */

/* An operand in memory and in a buffer. A row is what lies together: a line (a row of A, a column of B), or if
 * `by_k` all lines of one k. Sizes are in bytes, but for numbers of rows and units. */
struct stacks_operand {
    const char *from;
    int64_t stride, k_stride; /* in memory, from product to product (0: one matrix for all), from k to k */
    bool by_k;
    int lines;        /* of a matrix */
    int unit;         /* of one copy: 16, 8, 4 or 2; 0: the run is copied as it lies, 16 at a time */
    int width, pitch; /* from row to row, in memory and in a buffer */
    int across;       /* 2^across threads side by side copy a row, 16 bytes each */
    int per_row;      /* copies of a row in a buffer */
    unsigned magic;   /* magic_of(per_row) */
    int line, k;      /* in a buffer, from line to line, from k to k */
    int matrix;       /* in a buffer, from product to product; 0: one for all */
};

struct stacks_work {
    stacks_operand operand[2]; /* A, B */
    int64_t groups;
    int products;            /* of a group */
    int step;                /* of k in a buffer: all, or where a group is one product perhaps less */
    int at[2], buffer, c_at; /* bytes: A and B in a buffer, a buffer, and C behind both */
    bool staged;             /* C goes through shared memory */
    unsigned tiles, columns; /* of a product: tiles, those side by side */
    unsigned tiles_magic, columns_magic;
};

/* u / d, by the magic number of d; exact while u d < 2^31. */
__device__ inline unsigned divided(unsigned u, unsigned magic) {
    return __umulhi(2 * u, magic);
}

inline unsigned magic_of(int64_t d) {
    return d > 0 ? unsigned(ceil_div(int64_t(1) << 31, d)) : 0;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* Copies the first `units` times 16 bytes of each of `rows` rows. */
__device__ inline void stacks_copy_rows(const stacks_operand &o, char *to, const char *from, int rows, int units) {
    const int across = 1 << o.across, down = int(blockDim.x) >> o.across, y = int(threadIdx.x) >> o.across;
    for (int x = int(threadIdx.x) & (across - 1); x < units; x += across) {
        const char *here = from + int64_t(y) * o.width + x * 16;
        char *there = to + y * o.pitch + x * 16;
#pragma unroll 2
        for (int row = y; row < rows; row += down) {
            copy_async<16>(shared_address(there), here, true);
            here += int64_t(down) * o.width, there += down * o.pitch;
        }
    }
}

/* The same by shorter copies. A row of odd width takes many of them, so the threads are numbered through all copies of
 * all rows: eight threads a row would leave others idle, and would not read adjacent memory. */
template <int UNIT>
__device__ inline void stacks_copy_short(const stacks_operand &o, char *to, const char *from, int rows, int units) {
    const int first = int(divided(threadIdx.x, o.magic)), down = int(divided(blockDim.x, o.magic));
    const int across = int(blockDim.x) - down * o.per_row;
    int x = int(threadIdx.x) - first * o.per_row;
    const char *here = from + int64_t(first) * o.width + x * UNIT;
    char *there = to + first * o.pitch + x * UNIT;
#pragma unroll 2
    for (int row = first; row < rows; row += down) {
        if (x < units) {
            if constexpr (UNIT >= 4)
                copy_async<UNIT>(shared_address(there), here, true);
            else
                *reinterpret_cast<uint16_t *>(there) = *reinterpret_cast<const uint16_t *>(here);
        }
        x += across, here += int64_t(down) * o.width + across * UNIT, there += down * o.pitch + across * UNIT;
        if (x >= o.per_row)
            x -= o.per_row, row++, here += o.width - o.per_row * UNIT, there += o.pitch - o.per_row * UNIT;
    }
}

/* The bytes from the last boundary of 16 bytes to the begin of a run, in memory and in a buffer. */
__device__ inline int stacks_skew(const void *run) {
    return int(reinterpret_cast<uintptr_t>(run) & 15);
}

__device__ inline const char *stacks_run(const stacks_operand &o, const stacks_work &work, int64_t group) {
    return o.from + group * work.products * o.stride;
}

/* Where product 0 begins in the operand's part of a buffer. */
__device__ inline int stacks_begin(const stacks_operand &o, const stacks_work &work, int64_t group) {
    return o.unit ? 0 : stacks_skew(stacks_run(o, work, group));
}

/* Starts the copies of an operand for `count` products of a group: `k` elements of k, from `begin` on. */
template <typename T>
__device__ inline void stacks_copy(const stacks_operand &o, const stacks_work &work, char *to, int64_t group,
                                   int64_t begin, int count, int k) {
    const char *const from = stacks_run(o, work, group) + begin * o.k_stride;
    const int rows = (o.by_k ? k : o.lines) * (o.stride ? count : 1), bytes = o.by_k ? o.width : k * int(sizeof(T));
    if (o.unit == 16) return stacks_copy_rows(o, to, from, rows, bytes / 16);
    if (o.unit == 8) return stacks_copy_short<8>(o, to, from, rows, bytes / 8);
    if constexpr (sizeof(T) <= 4)
        if (o.unit == 4) return stacks_copy_short<4>(o, to, from, rows, bytes / 4);
    if constexpr (sizeof(T) == 2) {
        if (o.unit == 2) return stacks_copy_short<2>(o, to, from, rows, bytes / 2);
        const int skew = stacks_skew(from), end = skew + rows * o.width;
        for (int at = int(threadIdx.x) * 16; at < end; at += int(blockDim.x) * 16) {
            if (at + 16 <= end)
                copy_async<16>(shared_address(to + at), from - skew + at, true);
            else /* memory may end here */
                for (int i = at; i < end; i += 2)
                    *reinterpret_cast<uint16_t *>(to + i) = *reinterpret_cast<const uint16_t *>(from - skew + i);
        }
    }
}

/* Copies a run of `bytes` from shared memory to C; the run begins as far behind a boundary of 16 bytes as C does. */
template <typename T> __device__ inline void stacks_copy_out(char *c, const char *run, int bytes) {
    const int begin = stacks_skew(c), end = begin + bytes;
    c -= begin;
    for (int at = int(threadIdx.x) * 16; at < end; at += int(blockDim.x) * 16) {
        if (at >= begin && at + 16 <= end)
            *reinterpret_cast<uint4 *>(c + at) = *reinterpret_cast<const uint4 *>(run + at);
        else
            for (int i = max(at, begin); i < min(at + 16, end); i += int(sizeof(T)))
                *reinterpret_cast<T *>(c + i) = *reinterpret_cast<const T *>(run + i);
    }
}

/* ---- the walk ---------------------------------------------------------------------------------------------------- */

/* Where a tile's sums go: C of one product, at element `at` of C, or if it is staged at `run` in shared memory.
 *
 * each() calls `tile` with a function `put(row, column, sums)`, which stores COUNT neighbours of a row of C; `tile`
 * calls it for all of its sums. There are three such functions, so that the frequent ones are short: storing runs once
 * a product, and fetching its instructions takes most of its time. */
template <typename T> struct stacks_end {
    using S = accumulator<T>;
    const matmul_args &args;
    T *to;
    int64_t at;

    template <int COUNT, typename F> __device__ void each(F tile) const {
        const int m = int(args.m), n = int(args.n);
        const S factor = S(args.alpha);
        const bool once = factor == args.alpha && (std::is_same_v<T, S> || factor == 1); /* see matmul_store() */
        if (!args.first || !args.last || !once)
            tile([&](int row, int column, const S *sums) {
#pragma unroll
                for (int i = 0; i < COUNT; i++)
                    if (row < m && column + i < n) store(row * n + column + i, sums[i]);
            });
        else if (n % COUNT == 0)
            tile([&](int row, int column, const S *sums) {
                feeder_piece<T, COUNT> values;
#pragma unroll
                for (int i = 0; i < COUNT; i++) values.element[i] = narrow<T>(factor * sums[i]);
                if (row < m && column < n) *reinterpret_cast<feeder_piece<T, COUNT> *>(to + row * n + column) = values;
            });
        else
            tile([&](int row, int column, const S *sums) {
                T *const here = to + row * n + column;
                const int exist = row < m ? n - column : 0;
#pragma unroll
                for (int i = 0; i < COUNT; i++)
                    if (i < exist) here[i] = narrow<T>(factor * sums[i]);
            });
    }

    __device__ void store(int place, S sum) const {
        if (args.first && args.last)
            to[place] = narrow<T>(args.alpha * sum);
        else
            matmul_store<T>(args, at + place, sum);
    }
};

/* A block does group after group. While it multiplies what lies in one buffer, copies fill the other. A TILE
 * multiplies: the sums of its TILE_M x TILE_N elements of C are held by TILE::TEAM threads. Where k is cut into pieces,
 * a team has at most one tile, and keeps its sums from piece to piece. TILE::BLOCKS tells the compiler how many blocks
 * share the registers of a multiprocessor. */
template <typename TILE>
__global__ void __launch_bounds__(STACKS_WARPS * 32, TILE::BLOCKS)
    matmul_stacks_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ stacks_work work) {
    using T = typename TILE::type;
    extern __shared__ uint4 shared[];
    char *const memory = reinterpret_cast<char *>(shared);
    const int mn = int(args.m) * int(args.n);
    const unsigned team = threadIdx.x / TILE::TEAM, teams = blockDim.x / TILE::TEAM;
    const auto products_of = [&](int64_t group) {
        const int64_t left = args.batch - group * work.products;
        return left < work.products ? int(left) : work.products;
    };
    const auto k_of = [&](int64_t begin) { return args.k - begin < work.step ? int(args.k - begin) : work.step; };

    TILE tile;
    int64_t group = -1, begin = 0, next = blockIdx.x, next_begin = 0; /* what is multiplied, and what is copied */
    for (int64_t turn = 0; group < work.groups; turn++) {
        copy_wait<0>();
        __syncthreads(); /* `group` has arrived; the other buffer and C's are no longer read */
        if (next < work.groups) {
            const int count = products_of(next), k = k_of(next_begin);
            char *const to = memory + (turn & 1) * work.buffer;
            const bool stays = turn >= 2 && work.step >= args.k; /* what serves all products is in both buffers */
#pragma unroll 1
            for (int i = 0; i < 2; i++)
                if (work.operand[i].stride || !stays)
                    stacks_copy<T>(work.operand[i], work, to + work.at[i], next, next_begin, count, k);
            copy_commit();
        }
        if (group >= 0) {
            const stacks_operand &left = work.operand[0], &right = work.operand[1];
            const int count = products_of(group), k = k_of(begin);
            const bool last = begin + work.step >= args.k;
            const char *const buffer = memory + (~turn & 1) * work.buffer;
            const char *const a = buffer + stacks_begin(left, work, group);
            const char *const b = buffer + work.at[1] + stacks_begin(right, work, group);
            const int64_t at = group * work.products * mn; /* the group's C, in elements */
            T *const c = static_cast<T *>(args.c) + at;
            T *const to = work.staged ? reinterpret_cast<T *>(memory + work.c_at + stacks_skew(c)) : c;
            for (unsigned item = team; item < unsigned(count) * work.tiles; item += teams) {
                const unsigned product = divided(item, work.tiles_magic), inside = item - product * work.tiles;
                const unsigned y = divided(inside, work.columns_magic), x = inside - y * work.columns;
                const int row = int(y) * TILE::TILE_M, column = int(x) * TILE::TILE_N, place = int(product) * mn;
                if (begin == 0) tile.clear();
                tile.multiply_add(left, right, a + int(product) * left.matrix, b + int(product) * right.matrix, row,
                                  column, k);
                if (last) tile.leave(stacks_end<T>{args, to + place, at + place}, row, column);
            }
            if (last && work.staged) {
                __syncthreads();
                stacks_copy_out<T>(reinterpret_cast<char *>(c), memory + work.c_at, count * mn * int(sizeof(T)));
            }
        }
        group = next, begin = next_begin;
        next_begin += work.step;
        if (next_begin >= args.k) next += gridDim.x, next_begin = 0;
    }
}

/* ---- host: the cut ----------------------------------------------------------------------------------------------- */

#define STACKS_SMALL  (36 << 10)  /* bytes of a block's shared memory: six share a multiprocessor */
#define STACKS_STAGED (48 << 10)  /* C is staged up to this many bytes, because long rows need no staging; */
#define STACKS_SINGLY (160 << 10) /* up to this many if 16-bit elements would be written singly */
#define STACKS_MOST   (1 << 16)   /* most elements of one C */
#define STACKS_K      (1 << 28)   /* largest k: offsets from row to row take 32 bits */

/* How a kernel's teams tile C. */
struct stacks_shape {
    int m, n, team;       /* a tile; its threads */
    int resident;         /* warps that registers leave room for on a multiprocessor */
    double idle;          /* warps of a scheduler that wait, on average */
    double each_k, whole; /* issue slots of a warp for each k of its tile (or two tiles), and in addition; fitted */
};

struct stacks_plan {
    stacks_work work;
    int64_t bytes; /* of shared memory; 0: it does not fit */
    int64_t products;
    bool as_they_lie;
    int threads;
};

/* The bytes from row to row in a buffer: other banks for each of eight rows (float64: four). */
inline int64_t stacks_pitch(int64_t bytes, int64_t size) {
    return size == 8 ? ceil_div(bytes + 32, 64) * 64 - 32 : (ceil_div(bytes, 16) | 1) * 16;
}

/* The binary logarithm of the number of threads side by side that a row of `units` copies keeps busy; at least eight
 * threads if the row is that long, so that they read adjacent memory. */
inline int stacks_across(int64_t units) {
    int best = 0;
    int64_t least = INT64_MAX;
    for (int power = 0; power <= 5; power++) {
        const int64_t taken = ceil_div(units, int64_t(1) << power) << power;
        if ((power < 3 && units > 1 << power) || taken > least) continue;
        least = taken, best = power;
    }
    return best;
}

/* Describes an operand for `step` of k in a buffer; returns the bytes of a buffer for this many products. */
inline int64_t stacks_describe(stacks_operand &o, const void *x, bool by_k, int64_t lines, int64_t k, int64_t stride,
                               int64_t size, int64_t step, bool as_it_lies, int64_t products) {
    const int64_t width = (by_k ? lines : k) * size, rows = by_k ? std::min(step, k) : lines;
    const int64_t part = by_k ? width : std::min(step, k) * size; /* of a row, in a piece */
    const int64_t unit = width ? std::min<int64_t>(16, width & -width) : 16;
    const int64_t pitch = as_it_lies ? width : stacks_pitch(part, size), matrices = stride ? products : 1;
    o = {.from = static_cast<const char *>(x),
         .stride = stride * size,
         .k_stride = by_k ? width : size,
         .by_k = by_k,
         .lines = int(lines),
         .unit = as_it_lies ? 0 : int(unit),
         .width = int(width),
         .pitch = int(pitch),
         .across = stacks_across(part / unit),
         .per_row = int(part / unit),
         .magic = magic_of(part / unit),
         .line = int(by_k ? size : pitch),
         .k = int(by_k ? pitch : size),
         .matrix = int(stride ? rows * pitch : 0)};
    return ceil_div(matrices * rows * pitch + (as_it_lies ? 32 : 0), 16) * 16;
}

/* Cuts a stack into groups of `products`, `step` of k at a time. Returns the bytes of shared memory; 0: there is no
 * room. */
inline int64_t stacks_cut(stacks_work &work, const struct launch *launch, const stacks_shape &shape, int64_t products,
                          int64_t step, bool as_they_lie) {
    const matmul_args &args = launch->args.matmul;
    const int64_t size = int64_t(dtype_size(launch->dtype)), most = shared_room();
    if ((args.m + args.n) * std::min(step, args.k) * size > most) return 0;
    work = {
        .groups = ceil_div(args.batch, products), .products = int(products), .step = int(std::max<int64_t>(step, 1))};
    stacks_operand &a = work.operand[0], &b = work.operand[1];
    const int64_t a_bytes = stacks_describe(a, args.a, args.transpose_a, args.m, args.k, args.a_batch_stride, size,
                                            step, as_they_lie, products);
    const int64_t b_bytes = stacks_describe(b, args.b, !args.transpose_b, args.n, args.k, args.b_batch_stride, size,
                                            step, as_they_lie, products);
    work.columns = unsigned(ceil_div(args.n, shape.n));
    work.tiles = unsigned(ceil_div(args.m, shape.m)) * work.columns;
    work.tiles_magic = magic_of(work.tiles), work.columns_magic = magic_of(work.columns);
    /* A tile reads 16 of k at a time (or four) and all of its adjacent lines (up to 64 floats), so it reads up to
     * `behind` bytes behind a buffer. It does not use them, but the memory must exist, and C must not lie there: other
     * warps may be writing it. */
    const int64_t behind =
        ceil_div((size == 2 ? 16 : 4) * std::max(std::max(a.line, a.k), std::max(b.line, b.k)) + 288, 16) * 16;
    work.at[1] = int(a_bytes), work.buffer = int(a_bytes + b_bytes), work.c_at = int(2 * work.buffer + behind);
    const int64_t c_bytes = ceil_div(products * args.m * args.n * size, 16) * 16 + 16;
    /* Threads that hold 16 bytes of a row of C write them just as fast themselves. */
    const bool in_16 = size == 4 ? args.n % 4 == 0 && !args.transpose_b : size == 8 && args.n % 2 == 0;
    const int64_t most_staged = size == 2 && args.n % 2 ? STACKS_SINGLY : STACKS_STAGED;
    work.staged =
        args.first && args.last && c_bytes <= most_staged && work.c_at + c_bytes <= most && !(products == 1 && in_16);
    const int64_t bytes = work.c_at + (work.staged ? c_bytes : 0);
    return bytes <= most ? bytes : 0;
}

/* A row of odd width, of a 16-bit type. */
inline bool stacks_odd(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    return dtype_size(launch->dtype) == 2 &&
           ((args.transpose_a ? args.m : args.k) % 2 || (args.transpose_b ? args.k : args.n) % 2);
}

/* Cuts a stack for tiles of this shape. A group has as many products as leave room for six blocks, if that is two or
 * more. A single product is cut along k if it does not fit, or (float32 and float64) if its block would be alone on a
 * multiprocessor; but only where a block has threads for all of its C. The pieces are then so small that as many blocks
 * fit as registers allow, three at most: while one waits, the others work. In float32, 1020 of 65 x 19 x 181 took 104
 * us whole and 66.6 in pieces. Pieces of odd rows are copied by elements. */
inline stacks_plan stacks_plan_for(const struct launch *launch, const stacks_shape &shape) {
    const matmul_args &args = launch->args.matmul;
    if (double(args.m) * double(args.n) > STACKS_MOST || args.k > STACKS_K) return {};
    const int64_t whole = std::max<int64_t>(args.k, 1), c_bytes = args.m * args.n * int64_t(dtype_size(launch->dtype));
    const int64_t tiles = ceil_div(args.m, shape.m) * ceil_div(args.n, shape.n);
    const int64_t warps = std::max<int64_t>(1, ceil_div(tiles * shape.team, 32));
    stacks_plan plan = {.products = 1, .as_they_lie = stacks_odd(launch)};
    plan.bytes = stacks_cut(plan.work, launch, shape, 1, whole, plan.as_they_lie);
    plan.threads = 32 * int(std::min<int64_t>(STACKS_WARPS, warps));
    const int64_t each = 2 * int64_t(plan.work.buffer) + c_bytes;
    const int64_t room = STACKS_SMALL - (plan.work.c_at - 2 * plan.work.buffer);
    if (plan.bytes > 0 && room / each > 1) {
        plan.products = room / each;
        plan.threads = 32 * int(std::min<int64_t>(4, ceil_div(plan.products * tiles * shape.team, 32)));
        plan.bytes = stacks_cut(plan.work, launch, shape, plan.products, whole, plan.as_they_lie);
    }
    const auto room_for = [](int64_t blocks) { return (shared_room() + 1024) / blocks - 1024; };
    const bool alone = dtype_size(launch->dtype) >= 4 && plan.bytes > room_for(2);
    const int64_t enough = room_for(alone ? std::clamp<int64_t>(shape.resident / warps, 1, 3) : 1);
    for (const int64_t step : {whole, INT64_C(64), INT64_C(32), INT64_C(16)})
        if ((plan.bytes == 0 || plan.bytes > enough) && step <= whole && (step == whole || warps <= STACKS_WARPS)) {
            stacks_plan pieces = plan;
            pieces.as_they_lie = false;
            pieces.bytes = stacks_cut(pieces.work, launch, shape, 1, step, false);
            if (pieces.bytes > 0) plan = pieces;
        }
    return plan;
}

/* The issue slots that a group's copies of an operand take; fitted, like those of stacks_clocks. */
inline double stacks_copy_turns(const stacks_operand &o, const stacks_plan &plan, int64_t k) {
    const int64_t step = plan.work.step, across = int64_t(1) << o.across;
    const int64_t rows = (o.by_k ? std::min(step, k) : o.lines) * (o.stride ? plan.products : 1);
    if (o.unit == 0) return double(rows * o.width) / 512 * 88;
    const double each =
        o.unit < 16 ? 30 * double(ceil_div(rows * o.per_row, plan.threads))
                    : (26 + 19 * double(ceil_div(rows * across, plan.threads))) * double(ceil_div(o.per_row, across));
    return each * double(plan.threads / 32 * ceil_div(std::max<int64_t>(k, 1), step));
}

/* The reads of shared memory, with bank conflicts, for an element of each of 8 lines and of every second of 8 k. */
inline int stacks_reads(const stacks_operand &o) {
    int words[32], of_bank[32] = {}, most = 1;
    for (int lane = 0; lane < 32; lane++) {
        words[lane] = (lane / 4 * o.line + lane % 4 * 2 * o.k) / 4;
        if (std::find(words, words + lane, words[lane]) == words + lane)
            most = std::max(most, ++of_bank[unsigned(words[lane]) % 32]);
    }
    return most;
}

/* Makes groups smaller, so that all `blocks` have work in the last turn too. */
inline void stacks_even_out(stacks_plan &plan, const struct launch *launch, const stacks_shape &shape, int64_t blocks) {
    const matmul_args &args = launch->args.matmul;
    const int64_t turns = ceil_div(args.batch, plan.products * blocks);
    plan.products = ceil_div(args.batch, turns * blocks);
    plan.bytes = stacks_cut(plan.work, launch, shape, plan.products, plan.work.step, plan.as_they_lie);
}

#endif
