/* transpose/thin.cu - strips and stacks of small matrices: a tile's part of x, of y or of both is one run of memory.
 *
 *     wide: few rows            tall: few columns                stack: small matrices
 *     x |---------|.......      x |--|  y |-------|.......       x |---|   y |--|   |---|
 *       |---------|.......        |--|    |-------|.......         |---|     |--| = |---|   ...
 *       |---------|.......        |--|    |-------|.......         |---|     |--|   one after another
 *     y ==============.....     x ================.....          x =====...  y =====...
 *     x: a run per row          x: one run                       x: one run
 *     y: one run                y: a run per column              y: one run
 *
 * The other variants' tiles are 32 to 256 elements wide and high. A matrix with 3 rows fills a tenth or less of such a
 * tile, and rows of x or y that are 3 elements long come as many short accesses. Here a tile has all of the short side:
 * so much of the long one, or so many whole matrices, that it is 16 KiB. What lies in it one after another is one run,
 * in x (tall, stack) as in y (wide, stack); the runs of the other side are as long as 16 KiB allow: 256 bytes where the
 * short side is 64, 5 KiB where it is 3. A vector has nothing to transpose: it is copied.
 *
 * A block brings its tile into shared memory in x's order, in aligned units of 4 bytes (8 for 8-byte elements), all of
 * a thread's loads before its first store. Where a run begins inside a unit, so does its copy, so nothing is shifted:
 * the pitch of the shared tile leaves the same remainder as that of x. Then threads gather the elements of y's units,
 * in y's order: they read shared memory element by element and write whole units. The elements before the first and
 * behind the last whole unit of a run are written one by one, as their units belong to neighbours too.
 *
 * Instructions limit 1-byte elements: a GPU has time for about ten a byte. So positions are found by division only
 * once. wide, stack: as many threads store as make a turn of all of them whole rows of y, so a thread stays in its row
 * of x, and from one unit to the next each of its elements moves by a constant; in a stack, by another one where it
 * enters the next matrix. tall: the threads go through the units of a column, then of the next.
 *
 * Banks: the lanes of a warp read x's rows at a stride of `width` units. If that is odd they lie in different banks. If
 * it is even (tall, stack) the tile is skewed: each 128 bytes move on by one more unit. wide: the pitch is 128 / rows
 * bytes more than a multiple of 128, so that the rows' parts of what a warp reads lie side by side.
 *
 * Measured on an H200, speed against a copy, cache evicted before: vectors 0.97 to 1.01 (transpose/swizzled.cu: 0.01 to
 * 0.05), strips with 5 to 15 rows or columns 0.73 to 0.94, of 8-byte elements 0.85 to 0.99, stacks of 31 x 31 0.86 (1
 * byte) to 0.99, of 12 x 12 0.73 (1 byte).
 *
 * Five blocks of `wide` share a multiprocessor; with four, strips of 4-byte elements had 0.69 (10 rows), 0.90 (3) and
 * 0.88 (15), now 0.73, 0.97 and 0.95. The other shapes lose by a fifth block: 0.75 became 0.62 for 10 columns of bytes.
 *
 * The limit: thin. Where both sides are longer than 64 and a matrix is larger than a tile, the runs would be too short;
 * transpose/swizzled.cu has square tiles for that. */
#include "transpose.cuh"
#include <algorithm>
#include <numeric>
#include <type_traits>

#define THREADS  256
#define TILE     (16 << 10) /* bytes */
#define LIMIT    64         /* elements of the short side, where a matrix is larger than a tile */
#define STACKED  128        /* rows of a stack's matrices; if they have more, y's columns are long enough for `tall` */
#define SECTOR   32         /* bytes that memory reads or writes at once */
#define LINE     128        /* bytes: all banks, and a warp's access */
#define LONG_RUN 2048       /* bytes from which on it pays that a warp's accesses begin where a line does */
/* A tile, and what the skew adds (8 bytes each 128) or the pitch (128 bytes in all, and 7 each row). */
#define SHARED (TILE + TILE / 16 + LINE)

enum shape { WIDE, TALL, STACK };

/* Blocks per multiprocessor: 64 or 80 KiB in flight, 64 or 48 registers a thread. */
template <enum shape SHAPE> constexpr int resident = SHAPE == WIDE ? 5 : 4;

template <typename T> using unit = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
template <typename T> constexpr int UNIT = int(sizeof(unit<T>));     /* bytes */
template <typename T> constexpr int EACH = UNIT<T> / int(sizeof(T)); /* elements of a unit */

/* How a launch is cut into tiles. Sizes are those of a whole tile, in elements; the last ones may be smaller. */
struct tiling {
    enum shape shape;
    bool skewed;
    int64_t chunks;              /* tiles of a matrix */
    int matrices, height, width; /* a tile is whole matrices, or a part of one */
    int run;                     /* wide: units of shared memory for a run; divides THREADS or is a multiple */
    int pitch;                   /* wide: bytes from one run to the next, in shared memory */
    int storing;                 /* wide, stack: threads that store */
    int line, slots;             /* tall: a column's units are counted from a multiple of `line` elements; how many */
};

/* A block's tile. */
struct part {
    int64_t x, y; /* its first element */
    int matrices, height, width;
};

/* The place of a byte of the tile. */
template <typename T, bool SKEWED> __device__ inline int place(int byte) {
    return SKEWED ? byte + int(unsigned(byte) / LINE) * UNIT<T> : byte;
}

/* A unit of y: its element j lies at byte at(j) of the tile. */
template <typename T, bool SKEWED, typename F> __device__ inline unit<T> gather(const unsigned char *shared, F &&at) {
    unit<T> all = 0;
#pragma unroll
    for (int j = 0; j < EACH<T>; j++)
        all |= unit<T>(*reinterpret_cast<const T *>(shared + place<T, SKEWED>(at(j)))) << j * 8 * sizeof(T);
    return all;
}

/* ---- from x to shared memory ------------------------------------------------------------------------------------- */

/* A tile's rows, one run each, or all of it as one run. Every unit that holds an element of the tile is loaded whole,
 * but for the end of x: if its last unit is not whole, that one comes element by element. */
template <typename T, enum shape SHAPE, bool SKEWED>
__device__ inline void load(unsigned char *shared, const transpose_args &args, const tiling &tiling, const part &tile) {
    constexpr int U = UNIT<T>, V = EACH<T>, E = int(sizeof(T)), TURNS = TILE / U / THREADS;
    const int thread = int(threadIdx.x), begin = int(tile.x % V) * E; /* of the first run, within its unit */
    const int runs = SHAPE == WIDE ? tile.height : 1, run = SHAPE == WIDE ? tiling.run : TILE / U;
    const int needed = SHAPE == WIDE ? min(run, (tile.width + 2 * (V - 1)) / V) /* wherever the run begins */
                                     : (begin / E + tile.matrices * tile.height * tile.width + V - 1) / V;
    const int64_t elements = args.batch * args.rows * args.cols;
    const int64_t last = (tile.x + (runs - 1) * args.cols) / V, left = elements / V - last; /* the last run's */
    const int units = (runs - 1) * run + int(min(int64_t(needed), left));

    /* A run takes several turns, or a turn takes several runs. */
    const int per_run = run > THREADS ? run / THREADS : 1, per_turn = run > THREADS ? 1 : THREADS / run;
    const int row = run < THREADS ? thread / run : 0, at = thread - row * run; /* in the first turn */
    const int64_t next_run = (per_turn * args.cols * E) - (per_run - 1) * THREADS * U;
    const char *const x = static_cast<const char *>(args.x);
    int64_t from = (tile.x + row * args.cols) * E + at * U;
    unit<T> got[TURNS];
#pragma unroll
    for (int i = 0, turn = 0; i < TURNS; i++) {
        if (thread + i * THREADS < units && at + turn * THREADS < needed)
            got[i] = *reinterpret_cast<const unit<T> *>(x + (from & -U));
        if (SHAPE == WIDE) {
            turn = turn + 1 == per_run ? 0 : turn + 1;
            from += turn == 0 ? next_run : THREADS * U;
        } else {
            turn++, from += THREADS * U;
        }
    }
    const int next_row = per_turn * tiling.pitch - (per_run - 1) * THREADS * U;
    int to = begin + (SHAPE == WIDE ? row * tiling.pitch : 0) + at * U;
#pragma unroll
    for (int i = 0, turn = 0; i < TURNS; i++) {
        if (thread + i * THREADS < units) *reinterpret_cast<unit<T> *>(shared + place<T, SKEWED>(to & -U)) = got[i];
        if (SHAPE == WIDE) {
            turn = turn + 1 == per_run ? 0 : turn + 1;
            to += turn == 0 ? next_row : THREADS * U;
        } else {
            to += THREADS * U;
        }
    }
    if (V > 1 && left < needed && thread < elements % V) {
        const int end = begin + (SHAPE == WIDE ? (runs - 1) * tiling.pitch : 0) + int(left) * U;
        reinterpret_cast<T *>(shared + place<T, SKEWED>(end & -U))[thread] =
            static_cast<const T *>(args.x)[elements - elements % V + thread];
    }
}

/* ---- from shared memory to y ------------------------------------------------------------------------------------- */

/* wide, stack: one run. */
template <typename T, enum shape SHAPE, bool SKEWED>
__device__ inline void store_run(const unsigned char *shared, const transpose_args &args, const tiling &tiling,
                                 const part &tile) {
    constexpr int V = EACH<T>, E = int(sizeof(T));
    const int thread = int(threadIdx.x), storing = tiling.storing;
    const int height = tile.height, width = tile.width, begin = int(tile.x % V) * E;
    const int pitch = SHAPE == WIDE ? tiling.pitch : width * E; /* from one row of x to the next */
    const int on = width * (height - 1) * E;                    /* stack: what a matrix is more than a row */
    const int elements = tile.matrices * height * width, head = min(int(-tile.y & (V - 1)), elements);
    const int units = (elements - head) / V;
    T *const y = static_cast<T *>(args.y) + tile.y;

    if (V > 1 && thread < elements - units * V) { /* before the first unit, behind the last */
        const int number = thread < head ? thread : thread + units * V;
        const int line = int(unsigned(number) / unsigned(height)), row = number - line * height;
        const int before = SHAPE == STACK ? int(unsigned(line) / unsigned(width)) * on : 0; /* in its matrix */
        y[number] = *reinterpret_cast<const T *>(shared + place<T, SKEWED>(begin + before + row * pitch + line * E));
    }

    if (thread >= storing) return;
    int k = thread - int((tile.y + head) / V % (LINE / UNIT<T>)); /* warps begin where a line does */
    if (k < 0) k += storing;
    unsigned at[V]; /* of each element: its byte in the tile; stack: and its column, in the upper half */
    int line = int(unsigned(head + k * V) / unsigned(height)), row = head + k * V - line * height;
    int matrix = SHAPE == STACK ? int(unsigned(line) / unsigned(width)) : 0, column = line - matrix * width;
#pragma unroll
    for (int j = 0; j < V; j++) {
        at[j] = unsigned(begin + matrix * height * width * E + row * pitch + column * E);
        if (SHAPE == STACK) at[j] |= unsigned(column) << 16;
        if (++row == height) row = 0, column++;
        if (SHAPE == STACK && column == width) column = 0, matrix++;
    }
    const unsigned columns = unsigned(storing * V) / unsigned(height), next = SHAPE == STACK ? columns / width : 0;
    const unsigned step = next * height * width * E + (columns - next * width) * (E + (SHAPE == STACK ? 1 << 16 : 0));
    const unsigned wrap = unsigned(on) - (unsigned(width) << 16);
    /* A step, and into the next matrix if the column is past the last: if it is not, it would be negative, so large. */
    const auto advance = [&](unsigned from) {
        return SHAPE == STACK ? min(from + step, from + step + wrap) : from + step;
    };
    const auto byte = [](unsigned from) { return int(SHAPE == STACK ? from & 0xffff : from); };
    auto *to = reinterpret_cast<unit<T> *>(y + head) + k;
    if (SHAPE == STACK && V > 1 && head == 0 && height % V == 0) { /* a unit lies in one column */
        unsigned from = at[0];
#pragma unroll 4
        for (; k < units; k += storing, to += storing, from = advance(from))
            *to = gather<T, SKEWED>(shared, [&](int j) { return byte(from) + j * pitch; });
        return;
    }
#pragma unroll 4
    for (; k < units; k += storing, to += storing) {
        *to = gather<T, SKEWED>(shared, [&](int j) { return byte(at[j]); });
#pragma unroll
        for (int j = 0; j < V; j++) at[j] = advance(at[j]);
    }
}

/* tall: a run per column, of whole matrices one after another. */
template <typename T, bool SKEWED>
__device__ inline void store_columns(const unsigned char *shared, const transpose_args &args, const tiling &tiling,
                                     const part &tile) {
    constexpr int V = EACH<T>, E = int(sizeof(T));
    const int thread = int(threadIdx.x), height = tile.height, width = tile.width, slots = tiling.slots;
    const int begin = int(tile.x % V) * E, columns = tile.matrices * width;
    const int on = width * (height - 1); /* what a matrix is more than a row */
    const unsigned reciprocal = ~0u / unsigned(width) + 1, rows = unsigned(args.rows), first = unsigned(tile.y);
    T *const y = static_cast<T *>(args.y) + tile.y;
    const auto byte = [&](int row, int column) {
        const int matrix = int(__umulhi(unsigned(column), reciprocal)); /* exact: columns and width are below 2^16 */
        return begin + (row * width + column + matrix * on) * E;
    };

    if (slots >= 4 * THREADS) { /* one column after another: little to do for a unit, more for a column */
        for (int column = 0; column < columns; column++) {
            const int before = int((first + unsigned(column) * rows) & unsigned(tiling.line - 1));
            const int units = (height + before) / V; /* since a line began; the last one whole */
            int slot = thread * V < before ? thread + THREADS : thread, at = byte(slot * V - before, column);
            auto *to = reinterpret_cast<unit<T> *>(y + (column * args.rows - before)) + slot;
#pragma unroll 1
            for (; slot < units; slot += THREADS, to += THREADS, at += THREADS * V * width * E)
                *to = gather<T, SKEWED>(shared, [&](int j) { return at + j * width * E; });
        }
    } else {
        const unsigned whole = unsigned(max(height - V + 1, 0)); /* rows where a whole unit may begin */
        unsigned column = unsigned(thread) / unsigned(slots), slot = thread - column * slots;
        const unsigned columns_on = unsigned(THREADS) / unsigned(slots), slots_on = THREADS - columns_on * slots;
#pragma unroll 2
        while (column < unsigned(columns)) {
            const unsigned row = slot * V - ((first + column * rows) & unsigned(tiling.line - 1));
            if (row < whole) {
                const int at = byte(int(row), int(column));
                *reinterpret_cast<unit<T> *>(y + (column * uint64_t(args.rows) + row)) =
                    gather<T, SKEWED>(shared, [&](int j) { return at + j * width * E; });
            }
            slot += slots_on, column += columns_on;
            if (slot >= unsigned(slots)) slot -= slots, column++;
        }
    }

    if constexpr (V == 1) return;
    if ((tile.y | args.rows | height) % V == 0) return;
    for (int i = thread; i < columns * 2 * V; i += THREADS) { /* before a column's first unit, behind its last */
        const int c = i / (2 * V), j = i % V, head = min(int(-(first + unsigned(c) * rows) & (V - 1)), height);
        const bool before = i % (2 * V) < V;
        const int row = before ? j : height - 1 - j;
        if (j < (before ? head : (height - head) % V))
            y[c * args.rows + row] = *reinterpret_cast<const T *>(shared + place<T, SKEWED>(byte(row, c)));
    }
}

template <typename T, enum shape SHAPE, bool SKEWED>
__global__ void __launch_bounds__(THREADS, resident<SHAPE>)
    transpose_thin_kernel(const __grid_constant__ transpose_args args, const __grid_constant__ tiling tiling) {
    __shared__ alignas(16) unsigned char shared[SHARED];
    const int64_t group = quotient(block_number(), tiling.chunks), chunk = block_number() - group * tiling.chunks;
    const int64_t matrix = group * tiling.matrices, row = SHAPE == TALL ? chunk * tiling.height : 0;
    const int64_t column = SHAPE == WIDE ? chunk * tiling.width : 0, first = matrix * args.rows * args.cols;
    if (matrix >= args.batch) return;
    const part tile = {first + row * args.cols + column, first + column * args.rows + row,
                       int(min(int64_t(tiling.matrices), args.batch - matrix)),
                       int(min(int64_t(tiling.height), args.rows - row)),
                       int(min(int64_t(tiling.width), args.cols - column))};
    load<T, SHAPE, SKEWED>(shared, args, tiling, tile);
    __syncthreads();
    if constexpr (SHAPE == TALL)
        store_columns<T, SKEWED>(shared, args, tiling, tile);
    else
        store_run<T, SHAPE, SKEWED>(shared, args, tiling, tile);
}

/* ---- the host's side --------------------------------------------------------------------------------------------- */

static int64_t align(int64_t size, int64_t to) {
    return ceil_div(size, to) * to;
}

/* Equal chunks of at most `most` elements, whole sectors each. */
static int chunk_of(int64_t length, int64_t most, int size, int64_t *chunks) {
    const int chunk = int(align(ceil_div(length, ceil_div(length, most)), SECTOR / size));
    *chunks = ceil_div(length, chunk);
    return chunk;
}

/* Bytes of a tile that one run of whole matrices, or of rows of one, may fill: it may begin within a unit. */
static int64_t room(const transpose_args &args, int size) {
    return TILE - (args.rows % 4 * (args.cols % 4) * size % 4 == 0 ? 0 : 4);
}

/* Does a tile hold whole matrices? (Their size may be more than int64_t holds.) */
static bool is_small(const transpose_args &args, int size) {
    return std::max(args.rows, args.cols) <= TILE && args.rows * args.cols * size <= room(args, size);
}

/* As many whole matrices as fit; a few less if tiles then begin on lines, or on sectors. */
static int matrices_of(int64_t bytes, int64_t room, int64_t batch) {
    const int64_t fit = room / bytes;
    int64_t matrices = 0;
    for (int64_t to = LINE; matrices * 8 < fit * 7; to /= 2) matrices = fit - fit % (to / std::gcd(to, bytes));
    return int(std::min(matrices, batch));
}

/* Threads that store whole rows of y together; whole sectors too, if not too few are left. */
static int storing_of(int height, int each) {
    const int rows = height / std::gcd(height, each), sectors = std::lcm(rows, SECTOR / 4);
    const int threads = THREADS / sectors * sectors;
    return threads >= THREADS * 3 / 4 ? threads : THREADS / rows * rows;
}

template <typename T> static tiling tiling_of(const transpose_args &args) {
    constexpr int U = UNIT<T>, V = EACH<T>, E = int(sizeof(T));
    const bool small = is_small(args, E);
    tiling t = {};
    t.chunks = 1, t.matrices = 1, t.height = int(std::min(args.rows, int64_t(TILE)));
    t.width = int(std::min(args.cols, int64_t(TILE))), t.skewed = args.cols % 2 == 0;
    if (small) t.matrices = matrices_of(args.rows * args.cols * E, room(args, E), args.batch);
    if (small && args.rows <= STACKED) {
        t.shape = STACK;
        t.storing = storing_of(t.height, V);
    } else if (small || args.cols <= LIMIT) {
        t.shape = TALL;
        if (!small) {
            const int64_t most = room(args, E) / (args.cols * E);
            t.height = chunk_of(args.rows, most - most % (LINE / E), E, &t.chunks);
        }
        t.line = t.height * E >= LONG_RUN ? LINE / E : V;
        t.slots = int(ceil_div(t.height + t.line - V, V));
        if (t.line > V) t.slots = int(align(t.slots, LINE / U));
    } else {
        const int most = TILE / U / t.height;
        t.shape = WIDE, t.skewed = false;
        for (t.run = 1; t.run * 2 <= std::min(most, THREADS);) t.run *= 2;
        if (most > THREADS) t.run = most - most % THREADS;
        t.width = chunk_of(args.cols, t.run * V - (args.cols % V == 0 ? 0 : SECTOR / E), E, &t.chunks);
        /* Runs begin within units as those of x do: the pitch leaves the same remainder. */
        t.pitch = t.run * U + int(ceil_div(LINE, t.height));
        while ((t.pitch - args.cols * E) % U != 0) t.pitch++;
        t.storing = storing_of(t.height, V);
    }
    return t;
}

template <typename T, enum shape SHAPE, bool SKEWED>
static int launch_tiles(const struct launch *launch, const tiling &tiling) {
    const transpose_args &args = launch->args.transpose;
    const int64_t blocks = ceil_div(args.batch, tiling.matrices) * tiling.chunks;
    transpose_thin_kernel<T, SHAPE, SKEWED><<<grid_of(blocks), THREADS, 0, stream_of(launch)>>>(args, tiling);
    return cudaGetLastError();
}

static int transpose_thin_launch(const struct launch *launch) {
    const transpose_args &args = launch->args.transpose;
    const int64_t elements = args.batch * args.rows * args.cols;
    if (elements == 0) return 0;
    if (args.rows == 1 || args.cols == 1)
        return cudaMemcpyAsync(args.y, args.x, size_t(elements) * dtype_size(launch->dtype), cudaMemcpyDeviceToDevice,
                               stream_of(launch));
    return dispatch_size(launch->dtype, [&](auto element) -> int {
        using T = decltype(element);
        const tiling tiling = tiling_of<T>(args);
        if (tiling.shape == WIDE) return launch_tiles<T, WIDE, false>(launch, tiling);
        if (tiling.shape == TALL)
            return tiling.skewed ? launch_tiles<T, TALL, true>(launch, tiling)
                                 : launch_tiles<T, TALL, false>(launch, tiling);
        return tiling.skewed ? launch_tiles<T, STACK, true>(launch, tiling)
                             : launch_tiles<T, STACK, false>(launch, tiling);
    });
}

static const char *transpose_thin_refuses(const struct launch *launch) {
    const transpose_args &args = launch->args.transpose;
    return std::min(args.rows, args.cols) <= LIMIT || is_small(args, int(dtype_size(launch->dtype)))
               ? nullptr
               : "rows and columns are more than 64, and a matrix more than 16 KiB";
}

KERNEL(transpose_thin) = {
    .name = "thin",
    .op = OP_TRANSPOSE,
    .device = DEVICE_CUDA,
    .summary = "strips and stacks of small matrices: whole runs of memory, vectors copied",
    .dtypes = DTYPES_ALL,
    .edges = {{LIMIT, STACKED, 32, 16, 8, 4, 2, 4096}, {LIMIT, THREADS, 32, 16, 8, 4, 2, 4096}},
    .accuracy = ACCURACY_FULL,
    .compute_capability = 80,
    .refuses = transpose_thin_refuses,
    .launch = transpose_thin_launch,
};
