/* matmul/stacks.cuh - the frame of matmul/stacks.cu: how a stack is cut into groups, how operands lie in shared memory,
 * and the walk of a block from group to group.
 *
 * A run is what lies together in memory: a group's matrices of one operand, one after the other. Copies keep its order.
 * Rows are spread, so that in shared memory they are an odd number of 16 bytes apart (float64: of 32 bytes). What an
 * instruction reads from several rows then lies in different banks:
 *
 *     memory           r0 r0 r0 | r1 r1 r1 | r2 ...            copies of 16, 8 or 4 bytes, whatever divides a row
 *     shared memory    r0 r0 r0 .  .  | r1 r1 r1 .  .  | ...
 *
 * 16-bit elements in rows of odd width are copied as they lie, by 16 bytes that do not heed rows, and read singly. */
#ifndef KERNELS_MATMUL_STACKS_CUH
#define KERNELS_MATMUL_STACKS_CUH

#include "async.cuh"
#include <algorithm>

#define STACKS_WARPS 8 /* of a block, at most */

/* What has not been measured, each switched by its line. */
#define STACKS_SPREAD true /* 16-bit rows of odd width are spread in shared memory; false: read by elements */
#define STACKS_DEEP   true /* single products by stacks_plan_single(); false: by stacks_plan_ruled() */
#define STACKS_STAGES 3    /* buffers, at most (4 at most) */

/* ---- what a launch does ------------------------------------------------------------------------------------------ */

/* An operand in memory and in a buffer. Its rows, as they lie, are its lines or (by_k) its k. Sizes in bytes, but for
 * numbers of rows and units. */
struct stacks_operand {
    const char *from;
    int64_t stride, k_stride; /* in memory, from product to product (0: one matrix for all), from k to k */
    bool by_k;
    int lines;               /* of a matrix */
    int unit;                /* a copy: 16, 8, 4 or 2; 0: the run as it lies, 16 at a time */
    int width;               /* of a row, in memory */
    unsigned per_row, magic; /* units of a row of a piece; for divided() */
    unsigned gap, pad;       /* what lies behind such a row in memory, and in a buffer */
    int rows;                /* of a matrix, in a buffer */
    int line, k;             /* in a buffer, from line to line, from k to k */
    int matrix;              /* in a buffer, from product to product; 0: one for all */
};

struct stacks_work {
    stacks_operand a, b;
    int64_t groups;
    int products;                   /* of a group */
    int step;                       /* of k in a buffer: all, or where a group is one product perhaps less */
    int stages;                     /* buffers */
    int spread_at, spread_b;        /* where runs are spread, if they come as they lie; B there */
    int b_at, buffer, c_at, staged; /* bytes: B in a buffer, a buffer, and C behind both, if it is to go that way */
    unsigned tiles, columns;        /* of a product: tiles, those side by side */
    unsigned tiles_magic, columns_magic;
};

/* u / d by the magic number of d: exact while u d < 2^31. */
__device__ inline unsigned divided(unsigned u, unsigned magic) {
    return __umulhi(2 * u, magic);
}

inline unsigned magic_of(int64_t d) {
    return d > 0 ? unsigned(ceil_div(int64_t(1) << 31, d)) : 0;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* The first `width` units of each of `rows` rows. */
template <int UNIT>
__device__ inline void stacks_copy_rows(const stacks_operand &o, char *to, const char *from, int rows, unsigned width) {
    const unsigned units = unsigned(rows) * o.per_row;
#pragma unroll 4
    for (unsigned u = threadIdx.x; u < units; u += blockDim.x) {
        const unsigned row = divided(u, o.magic);
        char *const there = to + u * UNIT + row * o.pad;
        const char *const here = from + u * UNIT + row * uint64_t(o.gap);
        if (u - row * o.per_row >= width) continue;
        if constexpr (UNIT >= 4)
            copy_async<UNIT>(shared_address(there), here, true);
        else
            *reinterpret_cast<uint16_t *>(there) = *reinterpret_cast<const uint16_t *>(here);
    }
}

/* How far behind a boundary of 16 bytes a run begins, in memory and in a buffer. */
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

/* Starts the copies of an operand: of `count` products, `k` of k from `begin` on. */
template <typename T>
__device__ inline void stacks_copy(const stacks_operand &o, const stacks_work &work, char *to, int64_t group,
                                   int64_t begin, int count, int k) {
    const char *const from = stacks_run(o, work, group) + begin * o.k_stride;
    const int rows = (o.by_k ? k : o.lines) * (o.stride ? count : 1), width = k * int(sizeof(T));
    const auto units = [&](int unit) { return o.by_k ? o.per_row : unsigned(width / unit); };
    if (o.unit == 16) return stacks_copy_rows<16>(o, to, from, rows, units(16));
    if (o.unit == 8) return stacks_copy_rows<8>(o, to, from, rows, units(8));
    if constexpr (sizeof(T) <= 4)
        if (o.unit == 4) return stacks_copy_rows<4>(o, to, from, rows, units(4));
    if constexpr (sizeof(T) == 2) {
        if (o.unit == 2) return stacks_copy_rows<2>(o, to, from, rows, units(2));
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

/* Spreads the rows of a run that lies in a buffer as it did in memory: two elements at a time, wherever they begin. */
__device__ inline void stacks_spread(const stacks_operand &o, char *to, const char *run, int count) {
    const unsigned words = unsigned(o.rows * (o.stride ? count : 1)) * o.per_row;
    const unsigned pitch = unsigned(o.by_k ? o.k : o.line), skew = unsigned(stacks_skew(run)),
                   width = unsigned(o.width);
#pragma unroll 4
    for (unsigned u = threadIdx.x; u < words; u += blockDim.x) {
        const unsigned row = divided(u, o.magic), word = u - row * o.per_row, at = skew + row * width + 4 * word;
        const uint32_t *const from = reinterpret_cast<const uint32_t *>(run - skew + (at & ~3u));
        *reinterpret_cast<uint32_t *>(to + row * pitch + 4 * word) =
            __byte_perm(from[0], from[1], at & 2 ? 0x5432 : 0x3210);
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

/* Where a tile's sums go: C of one product, at element `at` of C, or if it is staged at `run` in shared memory. */
template <typename T> struct stacks_end {
    const matmul_args &args;
    bool staged;
    T *run;
    int64_t at;
    int m, n;
    accumulator<T> factor;
    bool once; /* sum times factor, rounded to T, is as matmul_store() has it */

    __device__ stacks_end(const matmul_args &args_, bool staged_, T *run_, int64_t at_)
        : args(args_), staged(staged_), run(run_), at(at_), m(int(args_.m)), n(int(args_.n)),
          factor(accumulator<T>(args_.alpha)),
          once(factor == args_.alpha && (std::is_same_v<T, accumulator<T>> || factor == 1)) {}

    /* COUNT neighbours of a row of C. */
    template <int COUNT> __device__ void leave(int row, int column, const accumulator<T> *sums) const {
        if (row >= m || column >= n) return;
        const int place = row * n + column;
        if (!args.first || !args.last) {
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                if (column + i < n) matmul_store<T>(args, at + place + i, sums[i]);
            return;
        }
        feeder_piece<T, COUNT> values;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            values.element[i] = once ? narrow<T>(factor * sums[i]) : narrow<T>(args.alpha * sums[i]);
        if (staged)
            put(run + place, n - column, values);
        else
            put(static_cast<T *>(args.c) + at + place, n - column, values);
    }

    /* As many as exist. */
    template <int COUNT> __device__ void put(T *to, int count, const feeder_piece<T, COUNT> &values) const {
        if (n % COUNT == 0) {
            *reinterpret_cast<feeder_piece<T, COUNT> *>(to) = values;
            return;
        }
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (i < count) to[i] = values.element[i];
    }
};

/* A block does group after group. While it multiplies what lies in one buffer, copies fill the other. TILE multiplies:
 * TILE::TEAM threads hold the sums of TILE_M x TILE_N elements of C. Where k is cut into pieces no team has more than
 * one tile, and keeps its sums from piece to piece. BLOCKS is for the compiler, which may use that share of the
 * registers. */
template <typename TILE>
__global__ void __launch_bounds__(STACKS_WARPS * 32, TILE::BLOCKS)
    matmul_stacks_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ stacks_work work) {
    using T = typename TILE::type;
    extern __shared__ uint4 shared[];
    char *const memory = reinterpret_cast<char *>(shared);
    const int m = int(args.m), n = int(args.n), mn = m * n;
    const unsigned team = threadIdx.x / TILE::TEAM, teams = blockDim.x / TILE::TEAM;
    const auto products_of = [&](int64_t group) {
        const int64_t left = args.batch - group * work.products;
        return left < work.products ? int(left) : work.products;
    };
    const auto k_of = [&](int64_t begin) { return args.k - begin < work.step ? int(args.k - begin) : work.step; };

    TILE tile;
    int64_t group = blockIdx.x, begin = 0, next = blockIdx.x,
            next_begin = 0; /* what is multiplied, and what is copied */
    int from = 0, to_buffer = 0;
    int64_t copied = 0;
    const auto copy_next = [&] {
        if (next < work.groups) {
            const int count = products_of(next), k = k_of(next_begin);
            char *const to = memory + to_buffer * work.buffer;
            const bool stays =
                copied >= work.stages && work.step >= args.k; /* what serves all products is in all buffers */
            if (work.a.stride || !stays) stacks_copy<T>(work.a, work, to, next, next_begin, count, k);
            if (work.b.stride || !stays) stacks_copy<T>(work.b, work, to + work.b_at, next, next_begin, count, k);
            next_begin += work.step;
            if (next_begin >= args.k) next += gridDim.x, next_begin = 0;
            copied++;
            if (++to_buffer == work.stages) to_buffer = 0;
        }
        copy_commit();
    };
    for (int i = 1; i < work.stages; i++) copy_next();
    while (group < work.groups) {
        if (work.stages == 2)
            copy_wait<0>();
        else if (work.stages == 3)
            copy_wait<1>();
        else
            copy_wait<2>();
        __syncthreads(); /* `group` has arrived; the buffer before it and C's are no longer read */
        copy_next();
        {
            const int count = products_of(group), k = k_of(begin);
            const bool last = begin + work.step >= args.k;
            const char *const buffer = memory + from * work.buffer;
            const char *a = buffer + stacks_begin(work.a, work, group);
            const char *b = buffer + work.b_at + stacks_begin(work.b, work, group);
            if constexpr (sizeof(T) == 2 && STACKS_SPREAD)
                if (work.spread_at) {
                    char *const spread = memory + work.spread_at;
                    stacks_spread(work.a, spread, a, count);
                    stacks_spread(work.b, spread + work.spread_b, b, count);
                    a = spread, b = spread + work.spread_b;
                    __syncthreads();
                }
            const int64_t at = group * work.products * mn; /* the group's C, in elements */
            char *const c = static_cast<char *>(args.c) + at * int64_t(sizeof(T));
            T *const run = reinterpret_cast<T *>(memory + work.c_at + stacks_skew(c));
            for (unsigned item = team; item < unsigned(count) * work.tiles; item += teams) {
                const unsigned product = divided(item, work.tiles_magic), inside = item - product * work.tiles;
                const unsigned y = divided(inside, work.columns_magic), x = inside - y * work.columns;
                const int row = int(y) * TILE::TILE_M, column = int(x) * TILE::TILE_N, place = int(product) * mn;
                if (begin == 0) tile.clear();
                tile.multiply_add(work, a + int(product) * work.a.matrix, b + int(product) * work.b.matrix, row, column,
                                  k);
                const stacks_end<T> end(args, work.staged, run + place, at + place);
                if (last) tile.leave(end, row, column);
            }
            if (last && work.staged) {
                __syncthreads();
                stacks_copy_out<T>(c, memory + work.c_at, count * mn * int(sizeof(T)));
            }
        }
        begin += work.step;
        if (begin >= args.k) group += gridDim.x, begin = 0;
        if (++from == work.stages) from = 0;
    }
}

/* ---- host: the cut ----------------------------------------------------------------------------------------------- */

#define STACKS_SMALL  (36 << 10) /* bytes of a block's shared memory: six share a multiprocessor */
#define STACKS_FLIGHT (96 << 10) /* bytes on their way to a multiprocessor: 72 KiB gave 3 TB/s */
#define STACKS_BUSY   10         /* its warps */
#define STACKS_STAGED (48 << 10) /* of them for C, at most: long rows of C need no staging */
#define STACKS_MOST   (1 << 16)  /* elements of a C */
#define STACKS_K      (1 << 28)  /* of k: offsets from row to row take 32 bits */

/* How a kernel's teams tile C. */
struct stacks_shape {
    int m, n, team; /* a tile; its threads */
    int warps;      /* whose registers a multiprocessor holds */
    double rate;    /* the share of the arithmetic's peak that the loop may reach */
};

struct stacks_plan {
    stacks_work work;
    int64_t bytes; /* of shared memory; 0: it does not fit */
    int64_t products;
    double share; /* of memory's rate */
    bool as_they_lie;
    int threads;
};

/* The shared memory that a block may have; without a device, that of compute capability 9.0. */
inline int64_t stacks_room() {
    static const int64_t room = [] {
        int device = 0, bytes = 0;
        const bool known =
            cudaGetDevice(&device) == cudaSuccess &&
            cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess;
        return int64_t(known ? bytes : 227 << 10);
    }();
    return room;
}

/* The bytes from row to row in a buffer: other banks for each of eight rows (float64: four). */
inline int64_t stacks_pitch(int64_t bytes, int64_t size) {
    return size == 8 ? ceil_div(bytes + 32, 64) * 64 - 32 : (ceil_div(bytes, 16) | 1) * 16;
}

/* Describes an operand for `step` of k in a buffer; returns the buffer's bytes for so many products. */
inline int64_t stacks_describe(stacks_operand &o, const void *x, bool by_k, int64_t lines, int64_t k, int64_t stride,
                               int64_t size, int64_t step, bool as_it_lies, int64_t products, int64_t *spread) {
    const int64_t width = (by_k ? lines : k) * size, rows = by_k ? std::min(step, k) : lines;
    const int64_t part = by_k ? width : std::min(step, k) * size; /* of a row, in a piece */
    const int64_t unit = width ? std::min<int64_t>(16, width & -width) : 16;
    const int64_t pitch = as_it_lies && !STACKS_SPREAD ? width : stacks_pitch(part, size),
                  matrices = stride ? products : 1;
    o = {.from = static_cast<const char *>(x),
         .stride = stride * size,
         .k_stride = by_k ? width : size,
         .by_k = by_k,
         .lines = int(lines),
         .unit = as_it_lies ? 0 : int(unit),
         .width = int(width),
         .per_row = unsigned(as_it_lies ? ceil_div(width, 4) : part / unit),
         .magic = magic_of(as_it_lies ? ceil_div(width, 4) : part / unit),
         .gap = unsigned(width - part),
         .pad = unsigned(pitch - part),
         .rows = int(rows),
         .line = int(by_k ? size : pitch),
         .k = int(by_k ? pitch : size),
         .matrix = int(stride ? rows * pitch : 0)};
    *spread = ceil_div(matrices * rows * pitch, 16) * 16;
    return as_it_lies ? ceil_div(matrices * rows * width + 32, 16) * 16 : *spread;
}

/* Groups of so many products, so much of k at a time, in so many buffers. Returns the bytes of shared memory, or 0:
 * there is no room. */
inline int64_t stacks_cut(stacks_work &work, const struct launch *launch, const stacks_shape &shape, int64_t products,
                          int64_t step, int64_t stages, bool as_they_lie) {
    const matmul_args &args = launch->args.matmul;
    const int64_t size = int64_t(dtype_size(launch->dtype)), most = stacks_room();
    if ((args.m + args.n) * std::min(step, args.k) * size > most) return 0;
    work = {.groups = ceil_div(args.batch, products),
            .products = int(products),
            .step = int(std::max<int64_t>(step, 1)),
            .stages = int(stages)};
    int64_t a_spread, b_spread;
    const int64_t a_bytes = stacks_describe(work.a, args.a, args.transpose_a, args.m, args.k, args.a_batch_stride, size,
                                            step, as_they_lie, products, &a_spread);
    const int64_t b_bytes = stacks_describe(work.b, args.b, !args.transpose_b, args.n, args.k, args.b_batch_stride,
                                            size, step, as_they_lie, products, &b_spread);
    work.columns = unsigned(ceil_div(args.n, shape.n));
    work.tiles = unsigned(ceil_div(args.m, shape.m)) * work.columns;
    work.tiles_magic = magic_of(work.tiles), work.columns_magic = magic_of(work.columns);
    work.b_at = int(a_bytes), work.buffer = int(a_bytes + b_bytes), work.c_at = int(stages) * work.buffer;
    if (as_they_lie && STACKS_SPREAD)
        work.spread_at = work.c_at, work.spread_b = int(a_spread), work.c_at += int(a_spread + b_spread);
    /* Tensor cores take 16 of k at a time: what they read behind the last is not used, but must be there. */
    const int64_t behind = 16 * std::max(std::max(work.a.line, work.a.k), std::max(work.b.line, work.b.k)) + 32;
    const int64_t c_bytes = ceil_div(products * args.m * args.n * size, 16) * 16 + 16, operands = work.c_at;
    /* Threads that hold 16 bytes of a row of C write them as well themselves. */
    const bool in_16 = size == 4 ? args.n % 4 == 0 && !args.transpose_b : size == 8 && args.n % 2 == 0;
    work.staged = args.first && args.last && c_bytes <= STACKS_STAGED && operands + std::max(c_bytes, behind) <= most &&
                  !(STACKS_DEEP && products == 1 && in_16);
    const int64_t bytes = operands + (work.staged ? std::max(c_bytes, behind) : behind);
    return bytes <= most ? bytes : 0;
}

/* A row of odd width, of a 16-bit type. */
inline bool stacks_odd(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    return dtype_size(launch->dtype) == 2 &&
           ((args.transpose_a ? args.m : args.k) % 2 || (args.transpose_b ? args.k : args.n) % 2);
}

/* The share of memory's rate that a plan may reach: bytes on their way, and warps that hide what each waits for. */
inline double stacks_share(const stacks_plan &plan, const stacks_shape &shape, int64_t warps) {
    const int64_t resident = std::clamp<int64_t>(stacks_room() / (plan.bytes + 1024), 1,
                                                 std::max<int64_t>(1, shape.warps / std::max<int64_t>(1, warps)));
    const double on_their_way = double(std::max<int64_t>(1, resident * (plan.work.stages - 1) * plan.work.buffer));
    return std::min(1.0, on_their_way / STACKS_FLIGHT) * std::min(1.0, double(resident * warps) / STACKS_BUSY);
}

/* One product a group, in the way that has the largest share. Only if a block has threads for all of its C is it cut
 * along k; rows of odd width only where they do not fit, since their pieces can only be copied element by element. */
inline stacks_plan stacks_plan_single(const struct launch *launch, const stacks_shape &shape, int64_t warps) {
    const int64_t whole = std::max<int64_t>(launch->args.matmul.k, 1), threads = std::min<int64_t>(STACKS_WARPS, warps);
    const bool odd = stacks_odd(launch);
    stacks_plan best = {};
    for (const bool as_they_lie : {true, false})
        for (const int64_t piece : {INT64_MAX, INT64_C(64), INT64_C(32), INT64_C(16)}) {
            const int64_t step = std::min(piece, whole);
            if (as_they_lie ? !odd || step < whole : odd && best.bytes > 0) continue;
            if (piece < INT64_MAX && (step == whole || warps > STACKS_WARPS)) continue;
            for (int stages = 2; stages <= STACKS_STAGES; stages++) {
                stacks_plan plan = {.products = 1, .as_they_lie = as_they_lie, .threads = 32 * int(threads)};
                plan.bytes = stacks_cut(plan.work, launch, shape, 1, step, stages, as_they_lie);
                plan.share = (step < whole ? 0.95 : 1) * stacks_share(plan, shape, threads);
                if (plan.bytes > 0 && plan.share > best.share) best = plan;
            }
        }
    return best;
}

/* The same by rule: whole, or in the largest piece that leaves room for as many blocks as their registers, three at
 * most. */
inline stacks_plan stacks_plan_ruled(const struct launch *launch, const stacks_shape &shape, int64_t warps) {
    const int64_t whole = std::max<int64_t>(launch->args.matmul.k, 1);
    stacks_plan plan = {.products = 1, .share = 1, .threads = 32 * int(std::min<int64_t>(STACKS_WARPS, warps))};
    plan.as_they_lie = stacks_odd(launch);
    plan.bytes = stacks_cut(plan.work, launch, shape, 1, whole, 2, plan.as_they_lie);
    if (plan.bytes == 0 && plan.as_they_lie) {
        plan.as_they_lie = false;
        plan.bytes = stacks_cut(plan.work, launch, shape, 1, whole, 2, false);
    }
    const int64_t blocks = std::clamp<int64_t>(shape.warps / std::max<int64_t>(1, warps), 1, 3);
    const int64_t enough = plan.as_they_lie ? stacks_room() : stacks_room() / blocks - 1024;
    if ((plan.bytes == 0 || plan.bytes > enough) && warps <= STACKS_WARPS)
        for (int64_t step = 64; step >= 16 && (plan.bytes == 0 || plan.bytes > enough); step /= 2) {
            stacks_plan pieces = plan;
            pieces.as_they_lie = false;
            pieces.bytes = stacks_cut(pieces.work, launch, shape, 1, step, 2, false);
            if (pieces.bytes > 0 && (plan.bytes == 0 || pieces.bytes < plan.bytes)) plan = pieces;
        }
    return plan;
}

/* Cuts a stack for tiles of this shape: as many products a group as leave room for six blocks, if that is two or more.
 */
inline stacks_plan stacks_plan_for(const struct launch *launch, const stacks_shape &shape) {
    const matmul_args &args = launch->args.matmul;
    if (double(args.m) * double(args.n) > STACKS_MOST || args.k > STACKS_K) return {};
    const int64_t whole = std::max<int64_t>(args.k, 1), c_bytes = args.m * args.n * int64_t(dtype_size(launch->dtype));
    const int64_t tiles = ceil_div(args.m, shape.m) * ceil_div(args.n, shape.n);
    const int64_t warps = std::max<int64_t>(1, ceil_div(tiles * shape.team, 32));
    stacks_plan plan = {.share = 1, .as_they_lie = stacks_odd(launch)};
    plan.bytes = stacks_cut(plan.work, launch, shape, 1, whole, 2, plan.as_they_lie);
    const int64_t each = 2 * int64_t(plan.work.buffer) + c_bytes;
    if (plan.bytes > 0 && STACKS_SMALL / each > 1) {
        plan.products = STACKS_SMALL / each;
        plan.threads = 32 * int(std::min<int64_t>(4, ceil_div(plan.products * tiles * shape.team, 32)));
        plan.bytes = stacks_cut(plan.work, launch, shape, plan.products, whole, 2, plan.as_they_lie);
        return plan;
    }
    return STACKS_DEEP ? stacks_plan_single(launch, shape, warps) : stacks_plan_ruled(launch, shape, warps);
}

/* Makes groups smaller, so that all of so many blocks have work in the last turn, too. */
inline void stacks_even_out(stacks_plan &plan, const struct launch *launch, const stacks_shape &shape, int64_t blocks) {
    const matmul_args &args = launch->args.matmul;
    const int64_t turns = ceil_div(args.batch, plan.products * blocks);
    plan.products = ceil_div(args.batch, turns * blocks);
    plan.bytes =
        stacks_cut(plan.work, launch, shape, plan.products, plan.work.step, plan.work.stages, plan.as_they_lie);
}

#endif
