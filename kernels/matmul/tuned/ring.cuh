/* ring.cuh - the frame of ring.cu: how a stack is cut into tiles, how operands lie in shared memory, and the walk of a
 * block from tile to tile. */
#ifndef KERNELS_MATMUL_RING_CUH
#define KERNELS_MATMUL_RING_CUH

#include "async.cuh"
#include <type_traits>

#define RING_WARPS  8 /* of a block, at most */
#define RING_STAGES 3
#define RING_MAX    (1 << 30) /* m, n and k are less */

#define RING_SIZE  8          /* of an element, float64 */
#define RING_STEP  16         /* k of a stage: 128 bytes of float64 */
#define RING_PITCH (128 + 32) /* bytes from line to line: 128 of data, then padding */

/* ---- what a launch does ------------------------------------------------------------------------------------------ */

/* An operand. Its lines are the rows of A or the columns of B. Memory and stage have the same layout: if k_adjacent,
 * each row holds one line and k is contiguous; else each row holds one k and lines are contiguous. Sizes are in bytes,
 * except `lines` and `tile`. */
struct ring_operand {
    const char *from;
    int64_t stride, row, next; /* in memory: from product to product, row to row, stage to stage */
    bool k_adjacent;
    int lines, tile; /* of a matrix, of a tile */
    int unit;        /* bytes of one asynchronous copy: 16 or 8 */
    int pitch;       /* in a stage, from row to row */
};

/* The division of a launch into tiles, and the layout of a stage. */
struct ring_work {
    ring_operand operand[2]; /* A, B */
    unsigned items;          /* tiles of all products */
    unsigned tiles, columns; /* of one product: tiles, and tiles side by side along n */
    int stage, b_at;         /* bytes of a stage; offset of B's part in it */
    int across;              /* warps of a block along n */
};

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* The thread's number, hidden from the compiler so that it computes nothing from it ahead of time. A block is 32 x
 * across x down. */
__device__ inline int thread_again(const ring_work &work) {
    unsigned lane;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(lane));
    return int(lane + 32 * (threadIdx.y + threadIdx.z * unsigned(work.across)));
}

/* Starts the copies of `rows` rows of `bytes` bytes, UNIT bytes each. Rows from `rows_exist` on, and bytes from
 * `bytes_exist` on, become zeros. */
template <int UNIT>
__device__ inline void ring_copy_rows(const ring_operand &o, int thread, int threads, unsigned to, const char *from,
                                      int rows, int rows_exist, int bytes, int bytes_exist) {
    constexpr int ACROSS = 64 / UNIT;
    const int x = thread % ACROSS * UNIT, y = thread / ACROSS, down = threads / ACROSS;
    from += y * o.row + x, to += y * o.pitch + x;
#pragma unroll 1
    for (int row = y; row < rows; row += down) {
#pragma unroll 1
        for (int at = 0; at < bytes - x; at += 256) {
            const char *const here = from + at;
#pragma unroll
            for (int i = 0; i < 256; i += 64)
                if (at + i < bytes - x)
                    copy_async<UNIT>(to + at + i, here + i, row < rows_exist && at + i < bytes_exist - x);
        }
        from += down * o.row, to += down * o.pitch;
    }
}

/* Starts the copies of the first `k` elements of each of `lines` lines, and fills with zeros up to the next multiple of
 * 4 elements (32 bytes). */
__device__ inline void ring_copy(const ring_work &work, const ring_operand &o, unsigned to, const char *from, int k,
                                 int lines) {
    constexpr int ROUND = 32 / RING_SIZE;
    const int thread = thread_again(work), threads = int(32 * blockDim.y * blockDim.z);
    const int padded_k = (k + ROUND - 1) & -ROUND;
    const int rows = o.k_adjacent ? lines : padded_k, bytes = (o.k_adjacent ? padded_k : lines) * RING_SIZE;
    const int rows_exist = o.k_adjacent ? lines : k, bytes_exist = (o.k_adjacent ? k : lines) * RING_SIZE;
    if (o.unit == 16) return ring_copy_rows<16>(o, thread, threads, to, from, rows, rows_exist, bytes, bytes_exist);
    ring_copy_rows<8>(o, thread, threads, to, from, rows, rows_exist, bytes, bytes_exist);
}

/* ---- the walk ---------------------------------------------------------------------------------------------------- */

/* Part of the C of a product: its first element, and how many rows and columns of C there are from it on. The
 * constructor finds the part at (y, x) of tile number `item`. */
struct ring_place {
    unsigned product;
    int row, column, rows, columns;

    __device__ ring_place(const ring_work &work, unsigned item, int y, int x) {
        product = item / work.tiles;
        const unsigned inside = item - product * work.tiles, tile = inside / work.columns;
        row = int(tile) * work.operand[0].tile + y;
        column = int(inside - tile * work.columns) * work.operand[1].tile + x;
        rows = work.operand[0].lines - row;
        columns = work.operand[1].lines - column;
    }
};

/* The next stage that a block copies. */
struct ring_ahead {
    unsigned item;               /* its tile */
    int begin;                   /* its first k */
    const char *from_a, *from_b; /* where it begins in memory */
    int a_lines, b_lines;        /* of the tile that exist */

    /* Goes to the first stage of tile `item`. */
    __device__ void enter(const ring_work &work) {
        const ring_place at(work, item, 0, 0);
        const ring_operand &a = work.operand[0], &b = work.operand[1];
        from_a = a.from + int64_t(at.product) * a.stride + at.row * (a.k_adjacent ? a.row : int64_t(RING_SIZE));
        from_b = b.from + int64_t(at.product) * b.stride + at.column * (b.k_adjacent ? b.row : int64_t(RING_SIZE));
        a_lines = min(a.tile, at.rows), b_lines = min(b.tile, at.columns);
        begin = 0;
    }

    /* Starts the copies of this stage, if there is one, and goes to the next; commits them in any case. */
    __device__ void copy(const ring_work &work, int k, unsigned to) {
        if (item < work.items) {
            const int k_count = min(k - begin, RING_STEP);
#pragma unroll 1
            for (int i = 0; i < 2; i++)
                ring_copy(work, work.operand[i], to + i * work.b_at, i ? from_b : from_a, k_count,
                          i ? b_lines : a_lines);
            from_a += work.operand[0].next, from_b += work.operand[1].next;
            begin += RING_STEP;
            if (begin >= k) {
                item += gridDim.x;
                if (item < work.items) enter(work);
            }
        }
        copy_commit();
    }
};

/* Each block computes one tile after another, RING_STEP of k at a time. Copies are always RING_STAGES - 1 stages ahead
 * of the multiplication, also across the end of a tile: while the last stages of one tile are multiplied, the first
 * stages of the next are copied, which may belong to another product.
 *
 * A WORKER (ring.cu has it) has:
 *     WARP_M, WARP_N, REGISTERS             rows and columns of a warp's tile; registers of a thread
 *     clear()                               sets the sums to zero
 *     multiply_add(work, stage, k)          adds the products of `k` of k of a stage
 *     leave(args, place)                    stores the sums */
template <typename WORKER>
__global__ void __maxnreg__(WORKER::REGISTERS)
    matmul_ring_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ ring_work work) {
    extern __shared__ uint4 ring_shared[];
    char *const memory = reinterpret_cast<char *>(ring_shared);
    const int k = int(args.k);

    /* Lines beyond the edge of a matrix are never copied: they hold these zeros or values of an earlier tile, and their
     * sums are not stored. */
#pragma unroll 1
    for (int at = thread_again(work) * 16; at < RING_STAGES * work.stage; at += int(blockDim.y * blockDim.z) * 512)
        *reinterpret_cast<uint4 *>(memory + at) = make_uint4(0, 0, 0, 0);
    __syncthreads();

    ring_ahead ahead = {.item = blockIdx.x};
    if (ahead.item < work.items) ahead.enter(work);
    for (int s = 0; s < RING_STAGES - 1; s++) ahead.copy(work, k, shared_address(memory) + s * work.stage);
    int read = 0;
    for (unsigned item = blockIdx.x; item < work.items; item += gridDim.x) {
        WORKER worker;
        worker.clear();
        const ring_place place =
            ring_place(work, item, int(threadIdx.z) * WORKER::WARP_M, int(threadIdx.y) * WORKER::WARP_N);
        const bool exists = place.rows > 0 && place.columns > 0;
        int begin = 0;
        do {
            copy_wait<RING_STAGES - 2>();
            __syncthreads();
            ahead.copy(work, k,
                       shared_address(memory) + (read == 0 ? (RING_STAGES - 1) * work.stage : read - work.stage));
            if (exists) worker.multiply_add(work, memory + read, min(k - begin, RING_STEP));
            read = read == (RING_STAGES - 1) * work.stage ? 0 : read + work.stage;
            begin += RING_STEP;
        } while (begin < k);
        if (exists) {
            /* Computed again, so that `place` needs no registers in the loop. */
            const ring_place own =
                ring_place(work, item, int(threadIdx.z) * WORKER::WARP_M, int(threadIdx.y) * WORKER::WARP_N);
            worker.leave(args, own);
        }
    }
    copy_wait<0>();
}

/* ---- host: the cut ----------------------------------------------------------------------------------------------- */

/* A warp's tile. */
struct ring_shape {
    int m, n, registers; /* of C; of a thread */
};

/* A launch: its division, and the blocks' size. */
struct ring_plan {
    ring_work work;
    int down;      /* warps one below the other */
    int64_t bytes; /* of shared memory */
};

/* Describes an operand (0: A, 1: B) for blocks whose tile has `tile` lines. */
inline ring_operand ring_operand_of(const struct launch *launch, int which, int tile) {
    const matmul_args &args = launch->args.matmul;
    const int64_t lines = which ? args.n : args.m;
    ring_operand o = {};
    o.from = static_cast<const char *>(which ? args.b : args.a);
    o.stride = (which ? args.b_batch_stride : args.a_batch_stride) * RING_SIZE;
    o.k_adjacent = which ? args.transpose_b : !args.transpose_a;
    o.row = (o.k_adjacent ? args.k : lines) * RING_SIZE;
    o.next = o.k_adjacent ? RING_STEP * RING_SIZE : RING_STEP * o.row;
    o.lines = int(lines);
    o.tile = tile;
    const int64_t all = o.row | o.stride | int64_t(uintptr_t(o.from));
    o.unit = all % 16 == 0 ? 16 : 8;
    /* The 4 lines x 4 k that half a warp reads at once lie in different banks. */
    o.pitch = !o.k_adjacent ? (tile * RING_SIZE) | 32 : RING_PITCH;
    return o;
}

/* Divides the launch for blocks of `down` x `across` warps with tiles of this shape. */
inline ring_plan ring_plan_for(const struct launch *launch, const ring_shape &shape, int down, int across) {
    const matmul_args &args = launch->args.matmul;
    ring_plan plan = {};
    ring_work &work = plan.work;
    ring_operand &a = work.operand[0], &b = work.operand[1];
    a = ring_operand_of(launch, 0, shape.m * down);
    b = ring_operand_of(launch, 1, shape.n * across);
    work.columns = unsigned(ceil_div(args.n, b.tile));
    work.tiles = unsigned(ceil_div(args.m, a.tile)) * work.columns;
    work.items = unsigned(work.tiles * args.batch);
    work.b_at = (a.k_adjacent ? a.tile : RING_STEP) * a.pitch;
    work.stage = work.b_at + (b.k_adjacent ? b.tile : RING_STEP) * b.pitch;
    work.across = across;
    plan.down = down;
    plan.bytes = RING_STAGES * work.stage;
    return plan;
}

/* Starts as many blocks as run at once, but at most one per tile. Returns 0 or a cudaError_t. */
template <typename WORKER> int ring_start(const struct launch *launch, const ring_plan &plan) {
    const matmul_args &args = launch->args.matmul;
    const auto kernel = matmul_ring_kernel<WORKER>;
    const dim3 threads(32, unsigned(plan.work.across), unsigned(plan.down));
    int64_t blocks;
    const int code = blocks_at_once(launch, kernel, 32 * plan.work.across * plan.down, plan.bytes, &blocks);
    if (code) return code;
    kernel<<<unsigned(std::min(blocks, int64_t(plan.work.items))), threads, size_t(plan.bytes), stream_of(launch)>>>(
        args, plan.work);
    return cudaGetLastError();
}

#endif
