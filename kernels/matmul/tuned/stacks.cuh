/* stacks.cuh - the frame of stacks.cu: how a stack of products is cut into groups, which a block computes at a time;
 * how operands lie in shared memory; the walk of a block from group to group; and, on the host, the choice of a group's
 * size by a model of the time.
 *
 * The matrices of an operand of one group lie one after the other in memory, and copies keep their order. In shared
 * memory rows begin an odd number of 16 bytes apart (float64: of 32 bytes), so that what an instruction reads from
 * several rows lies in different banks:
 *
 *     memory           |- row_bytes -|- row_bytes -|        a row: a line of a matrix, which has all of k (or a piece);
 *                      r0 r0 r0 | r1 r1 r1 | r2 ...         if `lines_adjacent`, all lines of one k
 *     a buffer         |-- row_pitch --|-- row_pitch --|
 *                      r0 r0 r0 .  .  | r1 r1 r1 .  .  | .. copies of 16, 8 or 4 bytes, whichever divides a row
 *     a row: a line    line_pitch = row_pitch, k_pitch = an element; a row: a k   the other way round
 *     next product     product_pitch = rows of a matrix * row_pitch
 *
 * If 16-bit elements form rows of odd width, no copy of 4 bytes or more fits both ends of every row. Such matrices are
 * `unpadded`: copied as one run of bytes, 16 at a time, without gaps between rows, and read element by element. */
#ifndef KERNELS_MATMUL_STACKS_CUH
#define KERNELS_MATMUL_STACKS_CUH

#include "async.cuh"
#include <algorithm>

#define STACKS_WARPS 8 /* of a block, at most */

/* ---- what a launch does ------------------------------------------------------------------------------------------ */

/* An operand in memory and in a buffer (see above). Sizes are in bytes. */
struct stacks_operand {
    const char *from;
    int64_t product_stride;   /* in memory, from product to product; 0: one matrix for all products */
    int64_t k_stride;         /* in memory, from k to k */
    bool lines_adjacent;      /* a row holds all lines of one k */
    int lines;                /* number of lines of a matrix */
    int copy_bytes;           /* of one copy: 16, 8, 4 or 2; 0: unpadded */
    int row_bytes, row_pitch; /* from row to row, in memory and in a buffer */
    int threads_log;          /* 2^threads_log threads side by side copy a row, 16 bytes each */
    int copies_per_row;       /* for a row in a buffer */
    unsigned magic;           /* magic_of(copies_per_row) */
    int line_pitch, k_pitch;  /* in a buffer, from line to line and from k to k */
    int product_pitch;        /* in a buffer, from product to product; 0: one matrix for all products */
};

/* The division of a stack into groups, and the layout of a block's shared memory. */
struct stacks_work {
    stacks_operand operand[2]; /* A, B */
    int64_t groups;
    int products;     /* of a group */
    int step;         /* number of k in a buffer: all, or less if a group is one product */
    int begin[2];     /* bytes: where A and B begin in a buffer */
    int buffer_bytes; /* of one of the two buffers */
    int c_begin;      /* bytes: where C begins, behind both buffers */
    bool staged;      /* C goes through shared memory */
    unsigned tiles;   /* of a product */
    unsigned columns; /* tiles side by side in a product */
    unsigned tiles_magic, columns_magic;
};

/* u / d, by magic_of(d); exact while u d < 2^31. */
__device__ inline unsigned divided(unsigned u, unsigned magic) {
    return __umulhi(2 * u, magic);
}

inline unsigned magic_of(int64_t d) {
    return d > 0 ? unsigned(ceil_div(int64_t(1) << 31, d)) : 0;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* Copies the first `units` times 16 bytes of each of `rows` rows. */
__device__ inline void stacks_copy_rows(const stacks_operand &o, char *to, const char *from, int rows, int units) {
    const int across = 1 << o.threads_log, down = int(blockDim.x) >> o.threads_log,
              y = int(threadIdx.x) >> o.threads_log;
    for (int x = int(threadIdx.x) & (across - 1); x < units; x += across) {
        const char *here = from + int64_t(y) * o.row_bytes + x * 16;
        char *there = to + y * o.row_pitch + x * 16;
#pragma unroll 2
        for (int row = y; row < rows; row += down) {
            copy_async<16>(shared_address(there), here, true);
            here += int64_t(down) * o.row_bytes, there += down * o.row_pitch;
        }
    }
}

/* Copies the first `units` times UNIT bytes of each of `rows` rows, UNIT bytes at a time. A row of odd width takes many
 * copies, so the threads are numbered through all copies of all rows: eight threads per row would leave others idle,
 * and would not read adjacent memory. */
template <int UNIT>
__device__ inline void stacks_copy_short(const stacks_operand &o, char *to, const char *from, int rows, int units) {
    const int first = int(divided(threadIdx.x, o.magic)), down = int(divided(blockDim.x, o.magic));
    const int across = int(blockDim.x) - down * o.copies_per_row;
    int x = int(threadIdx.x) - first * o.copies_per_row;
    const char *here = from + int64_t(first) * o.row_bytes + x * UNIT;
    char *there = to + first * o.row_pitch + x * UNIT;
#pragma unroll 2
    for (int row = first; row < rows; row += down) {
        if (x < units) {
            if constexpr (UNIT >= 4)
                copy_async<UNIT>(shared_address(there), here, true);
            else
                *reinterpret_cast<uint16_t *>(there) = *reinterpret_cast<const uint16_t *>(here);
        }
        x += across, here += int64_t(down) * o.row_bytes + across * UNIT, there += down * o.row_pitch + across * UNIT;
        if (x >= o.copies_per_row)
            x -= o.copies_per_row, row++, here += o.row_bytes - o.copies_per_row * UNIT,
                there += o.row_pitch - o.copies_per_row * UNIT;
    }
}

/* The bytes from the last boundary of 16 bytes to `run`; unpadded matrices lie equally far behind one in a buffer. */
__device__ inline int stacks_skew(const void *run) {
    return int(reinterpret_cast<uintptr_t>(run) & 15);
}

/* The address of a group's first matrix of an operand. */
__device__ inline const char *stacks_run(const stacks_operand &o, const stacks_work &work, int64_t group) {
    return o.from + group * work.products * o.product_stride;
}

/* The bytes from the operand's begin in a buffer to product 0. */
__device__ inline int stacks_begin(const stacks_operand &o, const stacks_work &work, int64_t group) {
    return o.copy_bytes ? 0 : stacks_skew(stacks_run(o, work, group));
}

/* Starts the copies of an operand for `count` products of a group: `k` of k, from number `begin` on. */
template <typename T>
__device__ inline void stacks_copy(const stacks_operand &o, const stacks_work &work, char *to, int64_t group,
                                   int64_t begin, int count, int k) {
    const char *const from = stacks_run(o, work, group) + begin * o.k_stride;
    const int rows = (o.lines_adjacent ? k : o.lines) * (o.product_stride ? count : 1),
              bytes = o.lines_adjacent ? o.row_bytes : k * int(sizeof(T));
    if (o.copy_bytes == 16) return stacks_copy_rows(o, to, from, rows, bytes / 16);
    if (o.copy_bytes == 8) return stacks_copy_short<8>(o, to, from, rows, bytes / 8);
    if constexpr (sizeof(T) <= 4)
        if (o.copy_bytes == 4) return stacks_copy_short<4>(o, to, from, rows, bytes / 4);
    if constexpr (sizeof(T) == 2) {
        if (o.copy_bytes == 2) return stacks_copy_short<2>(o, to, from, rows, bytes / 2);
        const int skew = stacks_skew(from), end = skew + rows * o.row_bytes;
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

/* Stores a tile's sums in C of one product, which begins at element `first` of the array C. `to`: where C is written,
 * in memory or, if it is staged, in shared memory.
 *
 *     case                                                   stores
 *     several launches add to C, or alpha is not exact       one by one, by store()
 *     rows of C have a multiple of COUNT elements            COUNT neighbours at once
 *     else                                                   one by one
 *
 * store_all() chooses the case, and calls `tile` with a function store_sums(row, column, sums) that stores COUNT
 * neighbours of a row of C; `tile` calls this for all of its sums. Three functions keep the frequent cases short: each
 * runs once for a product, and most of its time goes into fetching its instructions. */
template <typename T> struct stacks_output {
    using S = accumulator<T>;
    const matmul_args &args;
    T *to;
    int64_t first;

    template <int COUNT, typename F> __device__ void store_all(F tile) const {
        const int m = int(args.m), n = int(args.n);
        const S factor = S(args.alpha);
        const bool rounds_once = factor == args.alpha && (std::is_same_v<T, S> || factor == 1); /* see matmul_store() */
        if (!args.first || !args.last || !rounds_once)
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
                const int count = row < m ? n - column : 0;
#pragma unroll
                for (int i = 0; i < COUNT; i++)
                    if (i < count) here[i] = narrow<T>(factor * sums[i]);
            });
    }

    __device__ void store(int element, S sum) const {
        if (args.first && args.last)
            to[element] = narrow<T>(args.alpha * sum);
        else
            matmul_store<T>(args, first + element, sum);
    }
};

/* Computes group after group in each block. While the block multiplies the group in one buffer, copies fill the other.
 * If k is cut into pieces, a team has at most one tile, and keeps its sums from piece to piece.
 *
 * A TILE (stacks.cu has four) has:
 *     type                              the element type
 *     TEAM, TILE_M, TILE_N              the number of threads that hold the sums of TILE_M x TILE_N elements of C
 *     BLOCKS                            blocks that share the registers of a multiprocessor, for the compiler
 *     clear()                           sets the sums to zero
 * multiply_add(a_operand, b_operand, a, b, row, column, k) adds `k` of k for the tile that begins at (row, column)
 *                                       of C; a and b: the product's matrices in a buffer
 *     store_tile(output, row, column)   stores the sums */
template <typename TILE>
__global__ void __launch_bounds__(STACKS_WARPS * 32, TILE::BLOCKS)
    matmul_stacks_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ stacks_work work) {
    using T = typename TILE::type;
    extern __shared__ uint4 shared[];
    char *const memory = reinterpret_cast<char *>(shared);
    const int mn = int(args.m) * int(args.n);
    const unsigned team = threadIdx.x / TILE::TEAM, teams = blockDim.x / TILE::TEAM;
    const auto products_of = [&](int64_t group) {
        const int64_t remaining = args.batch - group * work.products;
        return remaining < work.products ? int(remaining) : work.products;
    };
    const auto k_of = [&](int64_t begin) { return args.k - begin < work.step ? int(args.k - begin) : work.step; };

    TILE tile;
    int64_t group = -1, begin = 0, next = blockIdx.x, next_begin = 0; /* of what is multiplied, and of what is copied */
    for (int64_t round = 0; group < work.groups; round++) {
        copy_wait<0>();
        __syncthreads(); /* `group` has arrived; the other buffer and C's are no longer read */
        if (next < work.groups) {
            const int count = products_of(next), k = k_of(next_begin);
            char *const to = memory + (round & 1) * work.buffer_bytes;
            /* A matrix for all products is in both buffers by now. */
            const bool stays = round >= 2 && work.step >= args.k;
#pragma unroll 1
            for (int i = 0; i < 2; i++)
                if (work.operand[i].product_stride || !stays)
                    stacks_copy<T>(work.operand[i], work, to + work.begin[i], next, next_begin, count, k);
            copy_commit();
        }
        if (group >= 0) {
            const stacks_operand &a_operand = work.operand[0], &b_operand = work.operand[1];
            const int count = products_of(group), k = k_of(begin);
            const bool last = begin + work.step >= args.k;
            const char *const buffer = memory + (~round & 1) * work.buffer_bytes;
            const char *const a = buffer + stacks_begin(a_operand, work, group);
            const char *const b = buffer + work.begin[1] + stacks_begin(b_operand, work, group);
            const int64_t first = group * work.products * mn; /* the group's first element of C */
            T *const c = static_cast<T *>(args.c) + first;
            T *const to = work.staged ? reinterpret_cast<T *>(memory + work.c_begin + stacks_skew(c)) : c;
            for (unsigned item = team; item < unsigned(count) * work.tiles; item += teams) {
                const unsigned product = divided(item, work.tiles_magic), inside = item - product * work.tiles;
                const unsigned y = divided(inside, work.columns_magic), x = inside - y * work.columns;
                const int row = int(y) * TILE::TILE_M, column = int(x) * TILE::TILE_N, element = int(product) * mn;
                if (begin == 0) tile.clear();
                tile.multiply_add(a_operand, b_operand, a + int(product) * a_operand.product_pitch,
                                  b + int(product) * b_operand.product_pitch, row, column, k);
                if (last) tile.store_tile(stacks_output<T>{args, to + element, first + element}, row, column);
            }
            if (last && work.staged) {
                __syncthreads();
                stacks_copy_out<T>(reinterpret_cast<char *>(c), memory + work.c_begin, count * mn * int(sizeof(T)));
            }
        }
        group = next, begin = next_begin;
        next_begin += work.step;
        if (next_begin >= args.k) next += gridDim.x, next_begin = 0;
    }
}

/* ---- host: the cut ----------------------------------------------------------------------------------------------- */

#define STACKS_SMALL          (36 << 10)  /* bytes of a block's shared memory: six blocks share a multiprocessor */
#define STACKS_GROUP_WARPS    4           /* of a block that has several products, at most */
#define STACKS_MAX_STAGED     (48 << 10)  /* bytes of a staged C; a longer C has long rows, which need no staging */
#define STACKS_MAX_STAGED_ODD (160 << 10) /* the same if 16-bit elements would else be written singly */
#define STACKS_MAX_C          (1 << 16)   /* elements of one C */
#define STACKS_MAX_K          (1 << 28)   /* offsets from row to row have 32 bits */

/* How a kernel's teams tile C. */
struct stacks_shape {
    int m, n, team;                     /* the size of a tile; its threads */
    int resident;                       /* warps for which a multiprocessor has registers */
    double idle;                        /* warps of a scheduler that wait, on average */
    double slots_per_k, slots_per_tile; /* issue slots of a warp, for each k of a tile (or of two) and in addition */
};

/* A launch: its division, and the blocks' size. */
struct stacks_plan {
    stacks_work work;
    int64_t bytes;    /* of shared memory; 0: it does not fit */
    int64_t products; /* of a group */
    bool unpadded;    /* the operands are */
    int threads;      /* of a block */
};

/* The bytes from row to row in a buffer, so that eight rows (float64: four) lie in different banks. */
inline int64_t stacks_pitch(int64_t bytes, int64_t size) {
    return size == 8 ? ceil_div(bytes + 32, 64) * 64 - 32 : (ceil_div(bytes, 16) | 1) * 16;
}

/* The binary logarithm of the number of threads that copy a row side by side: the power of two that leaves the fewest
 * threads idle in a row of `units` copies, but eight threads or more in long rows, so that they read adjacent
 * memory. */
inline int stacks_across(int64_t units) {
    int best = 0;
    int64_t fewest = INT64_MAX;
    for (int power = 0; power <= 5; power++) {
        const int64_t slots = ceil_div(units, int64_t(1) << power) << power;
        if ((power < 3 && units > 1 << power) || slots > fewest) continue;
        fewest = slots, best = power;
    }
    return best;
}

/* Describes an operand for `step` of k in a buffer; returns the bytes of a buffer for this many products. */
inline int64_t stacks_describe(stacks_operand &o, const void *x, bool lines_adjacent, int64_t lines, int64_t k,
                               int64_t stride, int64_t size, int64_t step, bool unpadded, int64_t products) {
    const int64_t width = (lines_adjacent ? lines : k) * size, rows = lines_adjacent ? std::min(step, k) : lines;
    const int64_t row_part = lines_adjacent ? width : std::min(step, k) * size; /* the bytes of a row in a buffer */
    const int64_t unit = width ? std::min<int64_t>(16, width & -width) : 16;
    const int64_t pitch = unpadded ? width : stacks_pitch(row_part, size), matrices = stride ? products : 1;
    o = {.from = static_cast<const char *>(x),
         .product_stride = stride * size,
         .k_stride = lines_adjacent ? width : size,
         .lines_adjacent = lines_adjacent,
         .lines = int(lines),
         .copy_bytes = unpadded ? 0 : int(unit),
         .row_bytes = int(width),
         .row_pitch = int(pitch),
         .threads_log = stacks_across(row_part / unit),
         .copies_per_row = int(row_part / unit),
         .magic = magic_of(row_part / unit),
         .line_pitch = int(lines_adjacent ? size : pitch),
         .k_pitch = int(lines_adjacent ? pitch : size),
         .product_pitch = int(stride ? rows * pitch : 0)};
    return ceil_div(matrices * rows * pitch + (unpadded ? 32 : 0), 16) * 16;
}

/* Cuts a stack into groups of `products`, `step` of k at a time. Returns the bytes of shared memory; 0: it does not
 * fit. */
inline int64_t stacks_cut(stacks_work &work, const struct launch *launch, const stacks_shape &shape, int64_t products,
                          int64_t step, bool unpadded) {
    const matmul_args &args = launch->args.matmul;
    const int64_t size = int64_t(dtype_size(launch->dtype)), max_bytes = max_shared_bytes();
    if ((args.m + args.n) * std::min(step, args.k) * size > max_bytes) return 0;
    work = {
        .groups = ceil_div(args.batch, products), .products = int(products), .step = int(std::max<int64_t>(step, 1))};
    stacks_operand &a = work.operand[0], &b = work.operand[1];
    const int64_t a_bytes = stacks_describe(a, args.a, args.transpose_a, args.m, args.k, args.a_batch_stride, size,
                                            step, unpadded, products);
    const int64_t b_bytes = stacks_describe(b, args.b, !args.transpose_b, args.n, args.k, args.b_batch_stride, size,
                                            step, unpadded, products);
    work.columns = unsigned(ceil_div(args.n, shape.n));
    work.tiles = unsigned(ceil_div(args.m, shape.m)) * work.columns;
    work.tiles_magic = magic_of(work.tiles), work.columns_magic = magic_of(work.columns);
    /* A tile reads 16 of k at a time (or four) and all of its adjacent lines (up to 64 floats: 288 bytes suffice), so
     * up to `behind` bytes behind a buffer are read too. They are not used, but this memory must exist, and must not be
     * C's, which other warps may be writing. */
    const int64_t max_pitch = std::max({a.line_pitch, a.k_pitch, b.line_pitch, b.k_pitch});
    const int64_t behind = ceil_div((size == 2 ? 16 : 4) * max_pitch + 288, 16) * 16;
    work.begin[1] = int(a_bytes), work.buffer_bytes = int(a_bytes + b_bytes),
    work.c_begin = int(2 * work.buffer_bytes + behind);
    const int64_t c_bytes = ceil_div(products * args.m * args.n * size, 16) * 16 + 16;
    /* Threads that hold 16 bytes of a row of C write them just as fast themselves. */
    const bool stores_16_bytes = size == 4 ? args.n % 4 == 0 && !args.transpose_b : size == 8 && args.n % 2 == 0;
    const int64_t max_staged = size == 2 && args.n % 2 ? STACKS_MAX_STAGED_ODD : STACKS_MAX_STAGED;
    work.staged = args.first && args.last && c_bytes <= max_staged && work.c_begin + c_bytes <= max_bytes &&
                  !(products == 1 && stores_16_bytes);
    const int64_t bytes = work.c_begin + (work.staged ? c_bytes : 0);
    return bytes <= max_bytes ? bytes : 0;
}

/* Are there rows of odd width, of a 16-bit type? */
inline bool stacks_odd(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    return dtype_size(launch->dtype) == 2 &&
           ((args.transpose_a ? args.m : args.k) % 2 || (args.transpose_b ? args.k : args.n) % 2);
}

/* Groups products, if two or more fit while six blocks share a multiprocessor. `plan` has one product in a group. */
inline void stacks_group(stacks_plan &plan, const struct launch *launch, const stacks_shape &shape, int64_t tiles,
                         int64_t step) {
    const matmul_args &args = launch->args.matmul;
    const int64_t c_bytes = args.m * args.n * int64_t(dtype_size(launch->dtype));
    const int64_t product_bytes = 2 * int64_t(plan.work.buffer_bytes) + c_bytes;
    const int64_t available = STACKS_SMALL - (plan.work.c_begin - 2 * plan.work.buffer_bytes);
    if (plan.bytes == 0 || available / product_bytes < 2) return;
    plan.products = available / product_bytes;
    plan.threads = 32 * int(std::min<int64_t>(STACKS_GROUP_WARPS, ceil_div(plan.products * tiles * shape.team, 32)));
    plan.bytes = stacks_cut(plan.work, launch, shape, plan.products, step, plan.unpadded);
}

/* Cuts products along k if they do not fit, or (float32 and float64) if a block would be alone on a multiprocessor; but
 * only if a block has threads for all of its C, which takes `warps`. Pieces are then so small that as many blocks fit
 * as registers allow, three at most: while one waits, the others work. In float32, 1020 of 65 x 19 x 181 took 104 us
 * uncut and 66.6 us in pieces. Pieces are padded, and copied by elements if rows are odd. */
inline void stacks_cut_k(stacks_plan &plan, const struct launch *launch, const stacks_shape &shape, int64_t warps,
                         int64_t all_k) {
    const auto bytes_for = [](int64_t blocks) { return (max_shared_bytes() + SYSTEM_SHARED) / blocks - SYSTEM_SHARED; };
    const bool alone = dtype_size(launch->dtype) >= 4 && plan.bytes > bytes_for(2);
    const int64_t target_bytes = bytes_for(alone ? std::clamp<int64_t>(shape.resident / warps, 1, 3) : 1);
    for (const int64_t step : {all_k, INT64_C(64), INT64_C(32), INT64_C(16)}) {
        if (plan.bytes > 0 && plan.bytes <= target_bytes) return;
        if (step > all_k || (step < all_k && warps > STACKS_WARPS)) continue;
        stacks_plan pieces = plan;
        pieces.unpadded = false;
        pieces.bytes = stacks_cut(pieces.work, launch, shape, 1, step, false);
        if (pieces.bytes > 0) plan = pieces;
    }
}

/* Cuts a stack for tiles of this shape: into groups of small products, or else into single products, along k if they
 * are large. The plan's `bytes` is 0 if the products are too large for this variant. */
inline stacks_plan stacks_plan_for(const struct launch *launch, const stacks_shape &shape) {
    const matmul_args &args = launch->args.matmul;
    if (double(args.m) * double(args.n) > STACKS_MAX_C || args.k > STACKS_MAX_K) return {};
    const int64_t all_k = std::max<int64_t>(args.k, 1);
    const int64_t tiles = ceil_div(args.m, shape.m) * ceil_div(args.n, shape.n);
    const int64_t warps = std::max<int64_t>(1, ceil_div(tiles * shape.team, 32));
    stacks_plan plan = {.products = 1, .unpadded = stacks_odd(launch)};
    plan.threads = 32 * int(std::min<int64_t>(STACKS_WARPS, warps));
    plan.bytes = stacks_cut(plan.work, launch, shape, 1, all_k, plan.unpadded);
    stacks_group(plan, launch, shape, tiles, all_k);
    stacks_cut_k(plan, launch, shape, warps, all_k);
    return plan;
}

/* The issue slots that a group's copies of an operand take; fitted, like those of stacks_clocks. */
inline double stacks_copy_slots(const stacks_operand &o, const stacks_plan &plan, int64_t k) {
    const int64_t step = plan.work.step, across = int64_t(1) << o.threads_log;
    const int64_t rows = (o.lines_adjacent ? std::min(step, k) : o.lines) * (o.product_stride ? plan.products : 1);
    if (o.copy_bytes == 0) return double(rows * o.row_bytes) / 512 * 88;
    const double each = o.copy_bytes < 16 ? 30 * double(ceil_div(rows * o.copies_per_row, plan.threads))
                                          : (26 + 19 * double(ceil_div(rows * across, plan.threads))) *
                                                double(ceil_div(o.copies_per_row, across));
    return each * double(plan.threads / 32 * ceil_div(std::max<int64_t>(k, 1), step));
}

/* The reads of shared memory, because of bank conflicts, that bring an element of each of 8 lines and of every second
 * of 8 k. */
inline int stacks_reads(const stacks_operand &o) {
    int words[32], bank_reads[32] = {}, conflicts = 1;
    for (int lane = 0; lane < 32; lane++) {
        words[lane] = (lane / 4 * o.line_pitch + lane % 4 * 2 * o.k_pitch) / 4;
        if (std::find(words, words + lane, words[lane]) == words + lane)
            conflicts = std::max(conflicts, ++bank_reads[unsigned(words[lane]) % 32]);
    }
    return conflicts;
}

/* Makes groups smaller, so that all `blocks` have work in the last round too. */
inline void stacks_even_out(stacks_plan &plan, const struct launch *launch, const stacks_shape &shape, int64_t blocks) {
    const matmul_args &args = launch->args.matmul;
    const int64_t rounds = ceil_div(args.batch, plan.products * blocks);
    plan.products = ceil_div(args.batch, rounds * blocks);
    plan.bytes = stacks_cut(plan.work, launch, shape, plan.products, plan.work.step, plan.unpadded);
}

#endif
