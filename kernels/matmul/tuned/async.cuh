/* async.cuh - what the matmul variants with asynchronous copies share: operands are copied into stages, tiles are
 * ordered, k is split over blocks, and the blocks' sums are added in a fixed order.
 *
 * Stages. Shared memory holds several stages; each holds one tile of A and one of B for a few k. While one stage is
 * multiplied, copies fill the others (cp.async: from global to shared memory, past the registers). An operand consists
 * of lines (rows of A, columns of B) of k elements each. In memory either k or the lines are adjacent (`enum layout`);
 * a feeder handles both cases.
 *
 * Order. Blocks that run at the same time should share operands in L2. Tiles are numbered in bands of GROUP tile rows,
 * down the columns of each band, so that the few hundred blocks of a wave cover a near-square of C instead of a few of
 * its rows:
 *                0  4  8 12      GROUP = 4: the first 16 blocks read 4 + 4 strips of the operands; numbered along
 *                1  5  9 13      rows of a wide C they would read 1 + 16.
 *                2  6 10 14
 *                3  7 11 15
 *
 * Tiles and pieces of k are chosen in cut.cuh. */
#ifndef KERNELS_MATMUL_ASYNC_CUH
#define KERNELS_MATMUL_ASYNC_CUH

#include "../../core/cluster.cuh"
#include "copies.cuh"
#include "cut.cuh"

/* ---- operands into stages ---------------------------------------------------------------------------------------- */

/* How an operand lies in memory and in a stage. Its lines are rows of A or columns of B. */
enum layout {
    K_KEPT,   /* K-major: k is adjacent in both */
    K_TURNED, /* k is adjacent in memory, lines in the stage */
    LINES     /* MN-major: lines are adjacent in both */
};

/* A layout that is known at compile time, as an argument of a function. */
template <enum layout LAYOUT> using layout_constant = std::integral_constant<enum layout, LAYOUT>;

/* Calls f with the layouts of A and B, each a layout_constant. K_LAYOUT: the layout of an operand whose k is adjacent
 * in memory. */
template <enum layout K_LAYOUT, typename F> int with_layouts(const matmul_args &args, F f) {
    const layout_constant<K_LAYOUT> k_adjacent;
    const layout_constant<LINES> lines;
    if (args.transpose_a) return args.transpose_b ? f(lines, k_adjacent) : f(lines, lines);
    return args.transpose_b ? f(k_adjacent, k_adjacent) : f(k_adjacent, lines);
}

/* Padding elements at the end of a row of a stage. 16 bytes for float and 32 for double put the 8 lines x 4 k that a
 * warp reads together into different banks; 16 bytes for a 16-bit type do so for the 8 rows that ldmatrix reads. */
template <typename T> constexpr int padding = sizeof(T) == 2 ? 8 : 4;

/* What one copy moves. */
template <typename T, int WIDTH> struct alignas(WIDTH * sizeof(T)) feeder_piece { T element[WIDTH]; };

/* One thread's part of copying an operand into shared memory. A stage is TILE lines by STEP of k; the thread makes
 * COPIES copies of WIDTH elements, one below the other along the lines (LINES: along k). Copies are started one by one
 * between the arithmetic, because a burst of copies delays the loads behind it.
 *
 * An asynchronous copy cannot transpose, and copies of single elements cost an instruction and an address each. A
 * K_TURNED operand therefore passes through registers: it is fetched in vectors when the arithmetic of a stage begins,
 * and written element by element towards its end. An asynchronous copy has at least 4 bytes, so a single element of 16
 * bits is copied by an ordinary load and store. */
template <typename T, layout LAYOUT, int WIDTH, int TILE, int STEP, int THREADS> struct feeder {
    static constexpr bool HELD = LAYOUT == K_TURNED, SINGLE = !HELD && WIDTH * sizeof(T) < 4;
    static_assert(!SINGLE || WIDTH == 1, "too little for an asynchronous copy: one by one");
    static constexpr int WHOLE = (LAYOUT == LINES ? TILE : STEP) / WIDTH; /* copies in a row of adjacent memory */
    static constexpr int SIDE = WHOLE % 3 == 0 ? 3 : 1;                   /* copies of one thread in such a row */
    static constexpr int ACROSS = WHOLE / SIDE;                           /* threads per row */
    static constexpr int DOWN = THREADS / ACROSS;                         /* rows that all threads copy at once */
    static constexpr int COPIES = (LAYOUT == LINES ? STEP : TILE) / DOWN * SIDE;
    static_assert(COPIES * DOWN * ACROSS * WIDTH == TILE * STEP, "whole copies per thread");
    static_assert(SIDE == 1 || (LAYOUT == LINES && !SINGLE), "only asynchronous copies stand side by side");
    static constexpr int ROW = (LAYOUT == K_KEPT ? STEP : TILE) + padding<T>;
    static constexpr int ELEMENTS = (LAYOUT == K_KEPT ? TILE : STEP) * ROW; /* per stage */

    feeder_piece<T, WIDTH> held[HELD ? COPIES : 1]; /* K_TURNED: fetched and not written yet */
    const T *from;                                  /* source of the next copy */
    int64_t step;                                   /* elements from row to row that the thread copies */
    int lines; /* lines of the tile that exist, counted from the thread's first one */
    int l;     /* the thread's first k in a stage */
    T *to;     /* destination of its first copy in stage 0 */

    /* `shared`: the operand's part of stage 0. The tile begins at `line` of the matrix's `extent` lines and at k_begin.
     * `ld`: elements from row to row in memory. */
    __device__ feeder(const T *matrix, T *shared, int64_t extent, int64_t line, int64_t ld, int64_t k_begin) {
        const int x = int(threadIdx.x) % ACROSS * WIDTH, y = int(threadIdx.x) / ACROSS;
        const int thread_line = LAYOUT == LINES ? x : y;
        l = LAYOUT == LINES ? y : x;
        lines = int(extent - line < TILE ? extent - line : TILE) - thread_line;
        from = matrix +
               (LAYOUT == LINES ? (k_begin + l) * ld + line + thread_line : (line + thread_line) * ld + k_begin + l);
        step = DOWN * ld;
        to = shared + (LAYOUT == K_KEPT ? thread_line * ROW + l : l * ROW + thread_line);
    }

    /* The number of the thread's lines (LINES: of its k) that exist in a stage when `remaining` of k are left. */
    __device__ int existing(int remaining) const {
        return LAYOUT == LINES ? (lines > 0 ? remaining - l : 0) : l < remaining ? lines : 0;
    }

    /* Starts part number `part` of `parts` of the copies into the stage `offset` bytes from stage 0. `exist`: from
     * existing(). */
    __device__ void copy(int part, int parts, unsigned offset, int exist) {
        if constexpr (HELD) {
            if (part == 0) fetch(exist);
            place(part, parts, offset);
        } else if constexpr (SINGLE) {
            if (part == 0) copy_single(offset, exist);
        } else {
#pragma unroll
            for (int c = COPIES * part / parts; c < COPIES * (part + 1) / parts; c++) {
                const int aside = c % SIDE * ACROSS * WIDTH;
                const unsigned at = offset + unsigned(c / SIDE * DOWN * ROW + aside) * unsigned(sizeof(T));
                const bool exists = c / SIDE * DOWN < exist && (SIDE == 1 || aside < lines);
                copy_async<WIDTH *int(sizeof(T))>(shared_address(to) + at, from, exists);
                advance(c);
            }
        }
    }

    /* Moves on to the next copy; from the last copy of a stage to the first of the next stage (along k). */
    __device__ void advance(int c) {
        if (c % SIDE < SIDE - 1)
            from += ACROSS * WIDTH;
        else if (LAYOUT == LINES)
            from += step - (SIDE - 1) * ACROSS * WIDTH;
        else
            from += c < COPIES - 1 ? step : STEP - (COPIES - 1) * step;
    }

    /* Copies the thread's elements into the stage, one by one. */
    __device__ void copy_single(unsigned offset, int exist) {
        T *const stage = reinterpret_cast<T *>(reinterpret_cast<char *>(to) + offset);
#pragma unroll 8
        for (int c = 0; c < COPIES; c++) {
            stage[c * DOWN * ROW] = c * DOWN < exist ? *from : T(0);
            advance(c);
        }
    }

    /* Fetches the thread's elements into `held`. */
    __device__ void fetch(int exist) {
#pragma unroll
        for (int c = 0; c < COPIES; c++) {
            held[c] =
                c * DOWN < exist ? *reinterpret_cast<const feeder_piece<T, WIDTH> *>(from) : feeder_piece<T, WIDTH>();
            advance(c);
        }
    }

    /* Writes the fetched elements to the stage. Only the later half of the parts does so, when they have arrived. */
    __device__ void place(int part, int parts, unsigned offset) {
        const int late = part - parts / 2, count = parts - parts / 2, all = COPIES * WIDTH;
        if (late < 0) return;
        T *const stage = reinterpret_cast<T *>(reinterpret_cast<char *>(to) + offset);
#pragma unroll
        for (int e = all * late / count; e < all * (late + 1) / count; e++)
            stage[e % WIDTH * ROW + e / WIDTH * DOWN] = held[e / WIDTH].element[e % WIDTH];
    }
};

/* ---- k split over blocks ----------------------------------------------------------------------------------------- */

#define GROUP 16 /* tile rows per band */

struct matmul_piece {
    tile_position tile;
    int64_t split, k_begin, k_end;
};

/* The tile and the range of k of a block. `number`: of the block or, if a cluster shares the tile, of the cluster.
 * Blocks of the last row of a grid may have none: their split is work.splits or more. */
__device__ inline matmul_piece matmul_piece_of_block(const matmul_args &args, const matmul_work &work,
                                                     int64_t number = block_number()) {
    const int64_t tiles = work.rows * work.columns;
    const int64_t matrix = number < tiles ? 0 : quotient(number, tiles), at = number - matrix * tiles;
    const int64_t split = matrix < args.batch ? 0 : quotient(matrix, args.batch);
    const int64_t band = quotient(at, GROUP * work.columns), first = band * GROUP;
    const int64_t height = work.rows - first < GROUP ? work.rows - first : GROUP, within = at - first * work.columns;
    const int64_t column = quotient(within, height);
    const int64_t k_begin = split * work.k_each, k_end = k_begin + work.k_each;
    return {{matrix - split * args.batch, first + within - column * height, column},
            split,
            k_begin,
            k_end < args.k ? k_end : args.k};
}

/* Starts the copies of a piece's first STAGES - 1 stages. */
template <int STAGES, unsigned STAGE_BYTES, int BK, typename A, typename B>
__device__ __forceinline__ void stages_fill(A &a, B &b, const matmul_piece &piece) {
    const int k = int(piece.k_end - piece.k_begin); /* a k beyond 2^31 would not fit a device */
    for (int s = 0; s < STAGES - 1; s++) {
        a.copy(0, 1, s * STAGE_BYTES, a.existing(k - s * BK));
        b.copy(0, 1, s * STAGE_BYTES, b.existing(k - s * BK));
        copy_commit();
    }
}

/* Multiplies a piece's k through a ring of stages of BK each: while one stage is multiplied, STEP of k at a time, the
 * copies into the STAGES - 1 next ones are under way. Call stages_fill first.
 *
 * Registers hold two buffers of operands. `load(buffer, offset, l)` loads STEP of k, from l on in the stage `offset`
 * bytes from stage 0, into a buffer, while `multiply(buffer)` uses the other. So the last multiplication of a stage
 * already needs the next stage: the loop waits for that STEP of k before the stage ends. OWN: the number of a stage's k
 * that this thread multiplies, if warps share them. */
template <int STAGES, unsigned STAGE_BYTES, int BK, int STEP, int OWN = BK, typename A, typename B, typename LOAD,
          typename MULTIPLY>
__device__ __forceinline__ void stages_follow(A &a, B &b, const matmul_piece &piece, LOAD load, MULTIPLY multiply) {
    static_assert(OWN / STEP % 2 == 0, "buffers take turns");
    const int k = int(piece.k_end - piece.k_begin);
    unsigned read = 0, write = (STAGES - 1) * STAGE_BYTES;
    copy_wait<STAGES - 2>();
    __syncthreads();
    load(0, read, 0);
    for (int remaining = k; remaining > 0; remaining -= BK) {
        const int a_exist = a.existing(remaining - (STAGES - 1) * BK),
                  b_exist = b.existing(remaining - (STAGES - 1) * BK);
#pragma unroll
        for (int l = 0; l < OWN; l += STEP) {
            if (l == OWN - STEP) {
                write = read;
                read = read == (STAGES - 1) * STAGE_BYTES ? 0 : read + STAGE_BYTES;
                copy_wait<STAGES - 2>();
                __syncthreads();
            }
            load((l / STEP + 1) % 2, read, (l + STEP) % OWN);
            if (l < OWN - STEP) {
                a.copy(l / STEP, OWN / STEP - 1, write, a_exist);
                b.copy(l / STEP, OWN / STEP - 1, write, b_exist);
                if (l == OWN - 2 * STEP) copy_commit();
            }
            multiply(l / STEP % 2);
        }
    }
    copy_wait<0>();
}

/* stages_fill and stages_follow. */
template <int STAGES, unsigned STAGE_BYTES, int BK, int STEP, int OWN = BK, typename A, typename B, typename LOAD,
          typename MULTIPLY>
__device__ __forceinline__ void stages_walk(A &a, B &b, const matmul_piece &piece, LOAD load, MULTIPLY multiply) {
    stages_fill<STAGES, STAGE_BYTES, BK>(a, b, piece);
    stages_follow<STAGES, STAGE_BYTES, BK, STEP, OWN>(a, b, piece, load, multiply);
}

/* Stores COUNT neighbouring sums of a row of C, or the first `count` if that is fewer: into plane `split` if k is split
 * (matmul_work), else through the epilogue to C. `at`: the index of the first. Uses one vector store if `aligned`
 * permits and the only step between sum and C is a scale that is exact in the accumulator's type. (The scale also moves
 * the sums to new registers. This matters: a vector store needs aligned groups of registers, while the loop needs the
 * sums in other register banks than its operands.) */
template <typename T, int COUNT>
__device__ inline void matmul_leave(const matmul_args &args, const matmul_work &work, int64_t split, int64_t at,
                                    const accumulator<T> *sums, int64_t count, bool aligned) {
    using S = accumulator<T>;
    struct alignas(COUNT * sizeof(S)) vector {
        S x[COUNT];
    };
    S *const plane = static_cast<S *>(work.planes) + split * args.batch * args.m * args.n;
    const S scale = work.planes ? S(1) : S(args.alpha);
    const bool plain = work.planes || (std::is_same_v<T, S> && args.first && args.last && scale == args.alpha);
    if constexpr (!std::is_same_v<T, S>) {
        struct alignas(COUNT * sizeof(T)) narrowed {
            T x[COUNT];
        };
        if (!work.planes && args.first && args.last && matmul_in_float<T>(args.alpha) && aligned && count >= COUNT) {
            narrowed whole;
#pragma unroll
            for (int i = 0; i < COUNT; i++) whole.x[i] = narrow<T>(scale * sums[i]);
            *reinterpret_cast<narrowed *>(static_cast<T *>(args.c) + at) = whole;
            return;
        }
    }
    if (plain && aligned && count >= COUNT) {
        vector whole;
#pragma unroll
        for (int i = 0; i < COUNT; i++) whole.x[i] = scale * sums[i];
        *reinterpret_cast<vector *>((work.planes ? plane : static_cast<S *>(args.c)) + at) = whole;
        return;
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        if (i >= count) break;
        if (work.planes)
            plane[at + i] = sums[i];
        else if (plain) /* the same product as above: of a NaN even the sign */
            static_cast<S *>(args.c)[at + i] = scale * sums[i];
        else
            matmul_store<T>(args, at + i, sums[i]);
    }
}

/* Stores a warp's sums in the layout of mma.sync, 16 x 8 at a time: thread t of the four in group g has two neighbours
 * in rows g and g + 8. `row` and `column` are those of the warp's first sum. */
template <typename T, int ROWS, int COLUMNS>
__device__ inline void matmul_leave_warp(const matmul_args &args, const matmul_work &work, const matmul_piece &piece,
                                         int64_t row, int64_t column, const accumulator<T> (&sums)[ROWS][COLUMNS][4]) {
    const int g = int(threadIdx.x) % 32 / 4, t = int(threadIdx.x) % 4;
    const bool aligned = args.n % 2 == 0;
#pragma unroll
    for (int i = 0; i < 2 * ROWS; i++) {
        const int64_t r = row + i * 8 + g;
        if (r >= args.m) break;
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            const int64_t c = column + j * 8 + t * 2;
            matmul_leave<T, 2>(args, work, piece.split, (piece.tile.batch * args.m + r) * args.n + c,
                               &sums[i / 2][j][i % 2 * 2], args.n - c, aligned);
        }
    }
}

/* Adds the planes of each element, first to last, and stores the sum in C. A block has blockDim.x elements; each y of a
 * block adds a range of consecutive planes, and y 0 then adds these sums in order. */
template <typename T>
static __global__ void __launch_bounds__(512)
    matmul_gather_kernel(const __grid_constant__ matmul_args args, const __grid_constant__ matmul_work work) {
    __shared__ accumulator<T> sums[512];
    const int64_t at = block_number() * blockDim.x + threadIdx.x, elements = args.batch * args.m * args.n;
    const int64_t planes_each = (work.splits + blockDim.y - 1) / blockDim.y;
    const int64_t begin = threadIdx.y * planes_each, end = min(begin + planes_each, work.splits);
    const auto *plane = static_cast<const accumulator<T> *>(work.planes) + at;
    accumulator<T> sum = 0;
    if (at < elements) {
#pragma unroll 8
        for (int64_t split = begin; split < end; split++) sum += plane[split * elements];
    }
    if (blockDim.y > 1) {
        sums[threadIdx.y * blockDim.x + threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.y > 0) return;
        for (unsigned i = 1; i < blockDim.y; i++) sum += sums[i * blockDim.x + threadIdx.x];
    }
    if (at < elements) matmul_store<T>(args, at, sum);
}

/* Launches `kernel` with a block for each piece of the work; pieces that share a plane form a cluster. Then launches
 * the addition of the planes, if there are any. `bytes`: shared memory per block. Returns 0 or a cudaError_t. */
template <typename T>
int matmul_pieces(const struct launch *launch, void (*kernel)(matmul_args, matmul_work), const matmul_cut &cut,
                  const matmul_choice &choice, int threads, int bytes) {
    const matmul_args &args = launch->args.matmul;
    const matmul_work work = matmul_divide(launch, cut, choice);
    const int64_t blocks = choice.splits * choice.shares * matmul_tiles(args, cut);
    const int64_t elements = args.batch * args.m * args.n;
    if (blocks == 0) return 0;
    int code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (code != cudaSuccess) return code;
    if (cut.shares && matmul_cluster() > 1) {
        code = launch_clusters_of(matmul_early(launch, cut, blocks, choice.shares), kernel, grid_of(blocks), threads,
                                  size_t(bytes), int(work.shares), stream_of(launch), args, work);
    } else {
        kernel<<<grid_of(blocks), threads, bytes, stream_of(launch)>>>(args, work);
        code = cudaGetLastError();
    }
    if (code != cudaSuccess) return code;
    if (work.splits > 1) {
        const dim3 block = work.splits > 16 ? dim3(32, 16) : dim3(256); /* of many planes, 16 threads per element */
        matmul_gather_kernel<T><<<grid_of(ceil_div(elements, block.x)), block, 0, stream_of(launch)>>>(args, work);
    }
    return cudaGetLastError();
}

/* Sets *blocks to the number of a kernel's blocks that run at the same time, for kernels whose blocks take tile after
 * tile. Returns 0 or a cudaError_t. */
template <typename KERNEL>
int blocks_at_once(const struct launch *launch, KERNEL *kernel, int threads, int64_t bytes, int64_t *blocks) {
    int resident = 0;
    int code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes));
    if (!code) code = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, size_t(bytes));
    *blocks = int64_t(std::max(1, resident)) * std::max(1, launch->multiprocessors);
    return code;
}

#endif
