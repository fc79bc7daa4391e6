/* thin.cu - transposes strips and stacks of small matrices: a tile's part of x, of y or of both is one run of memory.
 *
 *     wide: few rows            tall: few columns                stack: small matrices
 *     x |---------|.......      x |--|  y |-------|.......       x |---|   y |--|   |---|
 *       |---------|.......        |--|    |-------|.......         |---|     |--| = |---|   ...
 *       |---------|.......        |--|    |-------|.......         |---|     |--|   one after another
 *     y ==============.....     x ================.....          x =====...  y =====...
 *     x: a run per row          x: one run                       x: one run
 *     y: one run                y: a run per column              y: one run
 *
 * The other variants' tiles are 32 to 256 elements wide and high, of which a matrix with 3 rows fills a tenth or less.
 * Here a tile has all of the short side, and so much of the long one, or so many whole matrices, that it takes 16 or 24
 * KiB. Rows of x (tall, stack) or of y (wide, stack) that follow each other in the tile are one run of memory. A vector
 * is only copied, as there is nothing to transpose.
 *
 * A block copies its tile into shared memory in x's order, past the registers, in aligned units of 4 bytes (8 for
 * 8-byte elements). If a run begins inside a unit, so does its copy, so nothing is shifted. Then threads gather the
 * elements of y's units, in y's order: they read shared memory element by element and write whole units. The elements
 * before the first and behind the last whole unit of a run are written one by one, as their units belong to neighbours
 * too. (tall: only where a column of y begins or ends. Inside, a tile has a few rows more than it stores, so that its
 * last units are whole.)
 *
 * Instructions limit 1-byte elements: a GPU has time for 17 per byte, with which it must also find every address. So
 * positions are found by division only once. wide, stack: the number of threads that store is such that all of them
 * together store whole rows of y in each turn. So a thread stays in its row of x, and from one unit to the next each of
 * its elements moves by a constant; in a stack, by another constant when it enters the next matrix. tall: threads stand
 * side by side along a column, and the relative places of a unit's elements are found once per column.
 *
 * Banks: the lanes of a warp read x's rows at a stride of `width` units. If that is odd they lie in different banks. If
 * it is even, tall pads each `width` units by one, and in a stack each 128 bytes move on by one more unit. wide: the
 * pitch is 128 / rows bytes more than a multiple of 128, so that the rows' parts of what a warp reads lie side by side.
 *
 * Measured on an H200, speed against a copy, cache evicted before, mean (least) of 2 to 64 rows: 1-byte elements 0.96
 * (0.87), 2-byte 0.95 (0.88), 4-byte 0.95 (0.89), 8-byte 1.00 (0.95); stacks of 8 x 8 to 56 x 56: 1-byte 0.86 (0.81),
 * 2-byte 0.94 (0.88).
 *
 * The limit: if both sides are longer than 64, the runs of 4- and 8-byte elements are too short; swizzled.cu has
 * square tiles for that. Narrow elements are faster here up to 256 rows, and bytes up to 96 columns. There cannot be
 * more rows than threads, since threads store whole rows of y in a turn. */
#include "../../core/shared.cuh"
#include "../transpose.cuh"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>

#define THREADS  256
#define RESIDENT 6          /* blocks per multiprocessor */
#define TILE     (16 << 10) /* bytes of whole matrices */
#define COLUMN   2          /* to begin a column takes as long as to store this many units */
#define STACKED  128        /* most rows of a stack's matrices: with more, y's columns are long enough for `tall` */
#define SECTOR   32         /* bytes that memory reads or writes at once */
#define LINE     128        /* bytes: all banks, and a warp's access */
/* The bytes of a tile that is a part of a matrix. */
template <typename T> constexpr int STRIP = sizeof(T) <= 2 ? 24 << 10 : TILE;
/* The most elements of the short side, if a matrix is larger than a tile: rows of `wide` (storing_of has room for
 * THREADS), columns of `tall`. */
template <typename T> constexpr int MAX_ROWS = sizeof(T) <= 2 ? THREADS : 64;
template <typename T> constexpr int MAX_COLUMNS = sizeof(T) == 1 ? 96 : 64;
/* The units of a run that a thread copies in a turn. */
constexpr int AHEAD = 4;

enum shape { WIDE, TALL, STACK };

/* In the functions below U is UNIT<T>, V is EACH<T>, and E the bytes of an element. */
template <typename T> using unit = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
template <typename T> constexpr int UNIT = int(sizeof(unit<T>));     /* bytes */
template <typename T> constexpr int EACH = UNIT<T> / int(sizeof(T)); /* elements of a unit */

/* Describes the tiles of a launch. Sizes are those of a whole tile, in elements; the last tiles may be smaller. */
struct thin_tiling {
    enum shape shape;
    bool skewed;                 /* stack */
    int64_t chunks;              /* tiles of a matrix */
    int matrices, height, width; /* a tile is whole matrices, or a part of one */
    int pitch;                   /* bytes of shared memory; wide: from one run to the next, tall: from EACH rows on */
    int across;                  /* wide: threads that copy a run together, a power of two */
    int storing;                 /* wide, stack: threads that store */
    int along, units_each;       /* tall: threads that store a column together, a power of two; units of each */
    int bytes;                   /* of shared memory */
};

/* A block's tile. */
struct thin_tile {
    int64_t x, y; /* its first element */
    int matrices, height, width;
    int more;   /* tall: rows behind the tile that are copied too */
    bool first; /* tall: y's columns begin with the tile */
};

/* The offset of a byte of the tile in shared memory. SKEWED: each 128 bytes move on by one more unit, against bank
 * conflicts (of a stack whose rows are an even number of units). */
template <typename T, bool SKEWED> __device__ inline int skewed(int byte) {
    return SKEWED ? byte + int(unsigned(byte) / LINE) * UNIT<T> : byte;
}

/* A unit from its elements. */
template <typename T> __device__ inline unit<T> unit_of_elements(const T (&x)[EACH<T>]) {
    if constexpr (sizeof(T) == 1)
        return __byte_perm(__byte_perm(x[0], x[1], 0x0040), __byte_perm(x[2], x[3], 0x0040), 0x5410);
    else if constexpr (sizeof(T) == 2)
        return __byte_perm(x[0], x[1], 0x5410);
    else
        return x[0];
}

/* A unit of y: its element j lies at byte at(j) of the tile. */
template <typename T, bool SKEWED, typename F> __device__ inline unit<T> gather(const unsigned char *shared, F &&at) {
    T x[EACH<T>];
#pragma unroll
    for (int j = 0; j < EACH<T>; j++) x[j] = *reinterpret_cast<const T *>(shared + skewed<T, SKEWED>(at(j)));
    return unit_of_elements<T>(x);
}

/* ---- from x to shared memory ------------------------------------------------------------------------------------- */

/* Starts the copy of a unit. */
template <typename T> __device__ inline void copy_unit(unsigned char *to, const char *from) {
    copy_async<UNIT<T>>(shared_address(to), from, true);
}

/* wide: starts the copies of the units of a tile's rows, wherever these begin; of the last row only `last_units` units,
 * because nothing past the end of x may be read (load). */
template <typename T>
__device__ inline void copy_rows(unsigned char *shared, const transpose_args &args, const thin_tiling &tiling,
                                 const thin_tile &tile, int last_units) {
    constexpr int U = UNIT<T>, V = EACH<T>, E = int(sizeof(T));
    const int across = tiling.across, at = int(threadIdx.x) & (across - 1), side = THREADS / across;
    const int begin = int(tile.x % V) * E;
    int row = int(threadIdx.x) / across;
    int64_t first = tile.x + row * args.cols;
#pragma unroll 1
    for (; row < tile.height; row += side, first += side * args.cols) {
        const int phase = int(first) & (V - 1); /* elements of the first unit that lie before the row */
        const int units = row < tile.height - 1 ? (phase + tile.width + V - 1) / V : last_units;
        const char *const from = static_cast<const char *>(args.x) + (first - phase) * E;
        unsigned char *const to = shared + ((begin + row * tiling.pitch) & -U);
#pragma unroll 1
        for (int u = at; u < units; u += AHEAD * across)
#pragma unroll
            for (int k = 0; k < AHEAD; k++)
                if (const int next = u + k * across; next < units)
                    copy_unit<T>(to + next * U, from + next * int64_t(U));
    }
}

/* tall, stack: starts the copies of the units of one run, with gaps between them that keep lanes in different banks. */
template <typename T, enum shape SHAPE, bool SKEWED>
__device__ inline void copy_run(unsigned char *shared, const transpose_args &args, const thin_tiling &tiling,
                                const thin_tile &tile, int units) {
    constexpr int U = UNIT<T>, STEP = THREADS * U, SKEW = SKEWED ? STEP / LINE * U : 0;
    const int thread = int(threadIdx.x), width = tile.width, pad = tiling.pitch - width * U;
    const char *from = static_cast<const char *>(args.x) + tile.x / EACH<T> * U + thread * U;
    const int on = THREADS / width, rest_on = THREADS - on * width; /* tall: pads a turn, units behind the last */
    const int pads = SHAPE == TALL ? thread / width : 0;
    int rest = thread - pads * width;
    unsigned char *to = shared + skewed<T, SKEWED>(thread * U) + pads * pad;
#pragma unroll AHEAD
    for (int u = thread; u < units; u += THREADS, from += STEP, to += STEP + SKEW) {
        copy_unit<T>(to, from);
        if constexpr (SHAPE == TALL) {
            to += on * pad, rest += rest_on;
            if (rest >= width) rest -= width, to += pad;
        }
    }
}

/* Starts to load the tile. Every unit that holds an element of the tile is copied whole, except the last unit of x if x
 * does not fill it: its elements are loaded one by one. */
template <typename T, enum shape SHAPE, bool SKEWED>
__device__ inline void load(unsigned char *shared, const transpose_args &args, const thin_tiling &tiling,
                            const thin_tile &tile) {
    constexpr int U = UNIT<T>, V = EACH<T>, E = int(sizeof(T));
    const int begin = int(tile.x % V) * E, thread = int(threadIdx.x); /* offset of the first run within its unit */
    const int runs = SHAPE == WIDE ? tile.height : 1;
    const int run = SHAPE == WIDE ? tile.width : tile.matrices * (tile.height + tile.more) * tile.width;
    const int64_t elements = args.batch * args.rows * args.cols, last = tile.x + (runs - 1) * args.cols;
    const int needed = (int(last % V) + run + V - 1) / V; /* units of the last run */
    const int last_units = int(min(elements / V - last / V, int64_t(needed)));
    if constexpr (SHAPE == WIDE)
        copy_rows<T>(shared, args, tiling, tile, last_units);
    else
        copy_run<T, SHAPE, SKEWED>(shared, args, tiling, tile, last_units);
    if (const int behind = int(elements % V); V > 1 && last_units < needed && thread < behind) {
        int to = begin + int(elements - behind - last) * E;
        if (SHAPE == WIDE) to += (runs - 1) * tiling.pitch;
        if (SHAPE == TALL) to += to / (tile.width * U) * (tiling.pitch - tile.width * U);
        reinterpret_cast<T *>(shared + skewed<T, SKEWED>(to))[thread] =
            static_cast<const T *>(args.x)[elements - behind + thread];
    }
}

/* ---- from shared memory to y ------------------------------------------------------------------------------------- */

/* wide, stack: stores the tile's part of y, one run: whole units, and elements one by one at both ends. */
template <typename T, enum shape SHAPE, bool SKEWED>
__device__ inline void store_run(const unsigned char *shared, const transpose_args &args, const thin_tiling &tiling,
                                 const thin_tile &tile) {
    constexpr int V = EACH<T>, E = int(sizeof(T));
    const int thread = int(threadIdx.x), storing = tiling.storing;
    const int height = tile.height, width = tile.width, begin = int(tile.x % V) * E;
    const int pitch = SHAPE == WIDE ? tiling.pitch : width * E; /* bytes from one row of x to the next */
    const int on = width * (height - 1) * E; /* stack: bytes from behind a matrix's first row to the next matrix */
    const int elements = tile.matrices * height * width, head = min(int(-tile.y & (V - 1)), elements);
    const int units = (elements - head) / V;
    T *const y = static_cast<T *>(args.y) + tile.y;

    if (V > 1 && thread < elements - units * V) { /* before the first unit, behind the last */
        const int number = thread < head ? thread : thread + units * V;
        const int line = int(unsigned(number) / unsigned(height)), row = number - line * height;
        const int before = SHAPE == STACK ? int(unsigned(line) / unsigned(width)) * on : 0; /* in its matrix */
        y[number] = *reinterpret_cast<const T *>(shared + skewed<T, SKEWED>(begin + before + row * pitch + line * E));
    }

    if (thread >= storing) return;
    int k = thread - int((tile.y + head) / V % (LINE / UNIT<T>)); /* warps begin where a line does */
    if (k < 0) k += storing;
    unsigned at[V]; /* each element's byte in the tile; stack: its column too, in the upper half */
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
    /* Moves a step on, and into the next matrix if the column is past the last one. If it is not, the second sum has a
     * negative column, which is large as an unsigned number, so that min() chooses the first sum. */
    const auto advance = [&](unsigned from) { return min(from + step, from + step + wrap); };
    const auto byte = [](unsigned from) { return int(from & 0xffff); };
    auto *to = reinterpret_cast<unit<T> *>(y + head) + k;
    if (SHAPE == WIDE) { /* all elements move alike */
        unsigned moved = 0;
#pragma unroll 4
        for (; k < units; k += storing, to += storing, moved += step)
            *to = gather<T, SKEWED>(shared, [&](int j) { return int(at[j] + moved); });
        return;
    }
    if (V > 1 && head == 0 && height % V == 0) { /* each unit is in one column */
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

/* tall: stores a run per column, of whole matrices one after another. A column's units begin up to EACH - 1 rows behind
 * the tile's first one; the tile before stores these rows. */
template <typename T>
__device__ inline void store_columns(const unsigned char *shared, const transpose_args &args, const thin_tiling &tiling,
                                     const thin_tile &tile) {
    constexpr int U = UNIT<T>, V = EACH<T>, E = int(sizeof(T));
    const int along = tiling.along, side = THREADS / along, width = tile.width, rows = tile.height + tile.more;
    const int begin = int(tile.x % V) * E, pitch = tiling.pitch, pad = pitch - width * U, step = along * pitch;
    const bool inside = !tile.first && tile.more == V - 1 && tile.height == tiling.height;
    const bool alike = begin == 0 && tile.matrices == 1 && side % V == 0; /* columns, but for their place in a row */
    const int before = tile.first && V > 1 ? 1 : 0;                       /* a unit that a column's first rows end */
    const int columns = tile.matrices * width, units_each = tiling.units_each + before;
    const int number = (int(threadIdx.x) & (along - 1)) - before; /* number of the thread's first unit */
    int column = int(threadIdx.x) / along, matrix = tile.matrices > 1 ? column / width : 0, c = column - matrix * width;
    int64_t first = tile.y + column * args.rows;
    const int found = c; /* the column for which x is right */
    const unsigned char *x[V];
    for (bool known = false; column < columns; column += side, first += side * args.rows, known = alike) {
        const int late = -int(first) & (V - 1);
        if (!known) {
            const unsigned start = unsigned(matrix * tile.height + late); /* among all rows of the tile */
#pragma unroll
            for (int j = 0; j < V; j++) {
                const int byte = begin + (int(start % V + j) * width + c) * E;
                x[j] = shared + (number + int(start / V)) * pitch + byte;
                x[j] += (byte >= width * U ? pad : 0) + (byte >= 2 * width * U ? pad : 0);
            }
        }
        int from = known ? (c - found) * E : 0, row = late + number * V;
        T *to = static_cast<T *>(args.y) + first + row;
        const auto load_unit = [&] {
            T element[V];
#pragma unroll
            for (int j = 0; j < V; j++) element[j] = *reinterpret_cast<const T *>(x[j] + from);
            return unit_of_elements<T>(element);
        };
        if (inside) {
#pragma unroll 2
            for (int i = 0; i < units_each; i++, to += along * V, from += step)
                *reinterpret_cast<unit<T> *>(to) = load_unit();
        } else {
#pragma unroll 1
            for (int i = 0; i < units_each; i++, row += along * V, to += along * V, from += step)
                if (row >= 0 && row + V <= rows && row < tile.height + late) {
                    *reinterpret_cast<unit<T> *>(to) = load_unit();
                } else if (V > 1 && row < tile.height + late) {
#pragma unroll
                    for (int j = 0; j < V; j++)
                        if (row + j >= 0 && row + j < rows) to[j] = *reinterpret_cast<const T *>(x[j] + from);
                }
        }
        c += side;
        if (tile.matrices > 1)
            while (c >= width) c -= width, matrix++;
    }
}

/* Transposes one tile per block. */
template <typename T, enum shape SHAPE, bool SKEWED>
__global__ void __launch_bounds__(THREADS, RESIDENT)
    transpose_thin_kernel(const __grid_constant__ transpose_args args, const __grid_constant__ thin_tiling tiling) {
    extern __shared__ __align__(16) unsigned char shared[];
    const int64_t group = quotient(block_number(), tiling.chunks), chunk = block_number() - group * tiling.chunks;
    const int64_t matrix = group * tiling.matrices, row = SHAPE == TALL ? chunk * tiling.height : 0;
    const int64_t column = SHAPE == WIDE ? chunk * tiling.width : 0, first = matrix * args.rows * args.cols;
    if (matrix >= args.batch) return;
    const int height = int(min(int64_t(tiling.height), args.rows - row));
    const thin_tile tile = {first + row * args.cols + column,
                            first + column * args.rows + row,
                            int(min(int64_t(tiling.matrices), args.batch - matrix)),
                            height,
                            int(min(int64_t(tiling.width), args.cols - column)),
                            SHAPE == TALL ? int(min(int64_t(EACH<T> - 1), args.rows - row - height)) : 0,
                            row == 0};
    load<T, SHAPE, SKEWED>(shared, args, tiling, tile);
    copy_commit();
    copy_wait<0>();
    __syncthreads();
    if constexpr (SHAPE == TALL)
        store_columns<T>(shared, args, tiling, tile);
    else
        store_run<T, SHAPE, SKEWED>(shared, args, tiling, tile);
}

/* ---- the host's side --------------------------------------------------------------------------------------------- */

/* `size` rounded up to a multiple of `to`. */
static int64_t align(int64_t size, int64_t to) {
    return ceil_div(size, to) * to;
}

/* The length of the chunks that divide `length`, equal ones of whole sectors and at most `max_elements` elements of
 * `size` bytes. Sets *chunks to their number. */
static int chunk_of(int64_t length, int64_t max_elements, int size, int64_t *chunks) {
    const int chunk = int(align(ceil_div(length, ceil_div(length, max_elements)), SECTOR / size));
    *chunks = ceil_div(length, chunk);
    return chunk;
}

/* The bytes of a tile that whole matrices may fill: less than TILE if their run may begin within a unit. */
static int64_t capacity(const transpose_args &args, int size) {
    return TILE - (args.rows % 4 * (args.cols % 4) * size % 4 == 0 ? 0 : 4);
}

/* Does a tile hold whole matrices? (Their size may be more than int64_t holds.) */
static bool is_small(const transpose_args &args, int size) {
    return std::max(args.rows, args.cols) <= TILE && args.rows * args.cols * size <= capacity(args, size);
}

/* The number of whole matrices of a tile, each of `bytes`: all that fit, or a few less if tiles then begin on lines, or
 * on sectors. */
static int matrices_of(int64_t bytes, int64_t capacity, int64_t batch) {
    const int64_t fit = capacity / bytes;
    int64_t matrices = 0;
    for (int64_t to = LINE; matrices * 8 < fit * 7; to /= 2) matrices = fit - fit % (to / std::gcd(to, bytes));
    return int(std::min(matrices, batch));
}

/* The number of threads that store: all of them store one unit each, together whole rows of y of `height` elements, and
 * whole sectors unless that leaves fewer than 3/4 of the threads. */
static int storing_of(int height, int unit_elements) {
    const int rows = height / std::gcd(height, unit_elements), sectors = std::lcm(rows, SECTOR / 4);
    const int threads = THREADS / sectors * sectors;
    return threads >= THREADS * 3 / 4 ? threads : THREADS / rows * rows;
}

/* tall: chooses how many threads go along a column and how many units each of them stores, for the least time per row
 * of the tile. To begin a column takes a thread as long as to store COLUMN units. */
static void lay_along(thin_tiling &t, int64_t rows, int64_t columns, int unit_elements) {
    double shortest = HUGE_VAL;
    for (int along = THREADS; along >= 32; along /= 2) {
        const int64_t units_each = std::max<int64_t>(rows / (along * unit_elements), along == 32),
                      side = THREADS / along;
        const double time = double(ceil_div(columns, side) * (COLUMN + units_each)) / double(units_each * along);
        if (time < shortest) shortest = time, t.along = along, t.units_each = int(units_each);
    }
}

/* Lays out a tile of whole matrices, whose rows of y are stored one after the other. */
template <typename T> static void lay_stack(thin_tiling &t, const transpose_args &args) {
    t.shape = STACK, t.skewed = args.cols % 2 == 0;
    t.storing = storing_of(t.height, EACH<T>);
    t.bytes = TILE + (t.skewed ? TILE / LINE * UNIT<T> : 0);
}

/* Lays out a tile that has all columns: of whole matrices (`small`), or of a part of the rows. */
template <typename T> static void lay_tall(thin_tiling &t, const transpose_args &args, bool small) {
    constexpr int V = EACH<T>;
    const int64_t max_length = small ? align(args.rows, V) : STRIP<T> / (args.cols * int(sizeof(T)));
    t.shape = TALL;
    lay_along(t, max_length, t.matrices * args.cols, V);
    if (small) t.units_each = int(ceil_div(args.rows, t.along * V));
    if (!small) t.height = t.along * V * t.units_each, t.chunks = ceil_div(args.rows, t.height);
    t.pitch = int(args.cols + (args.cols % 2 == 0 ? 1 : 0)) * UNIT<T>;
    t.bytes = int(ceil_div(t.matrices * t.height + V - 1, V) + 2) * t.pitch;
}

/* Lays out a tile that has all rows, and a part of the columns. */
template <typename T> static void lay_wide(thin_tiling &t, const transpose_args &args) {
    constexpr int U = UNIT<T>, V = EACH<T>, E = int(sizeof(T));
    const int spare = args.cols % V == 0 ? 0 : 1; /* units of a run that begins within one */
    const int64_t max_length = (STRIP<T> / U / t.height - spare) * V;
    t.shape = WIDE;
    t.width = chunk_of(args.cols, max_length - max_length % (SECTOR / E), E, &t.chunks);
    const int run = (t.width + V - 1) / V + spare;
    for (t.across = 8; t.across * 2 * AHEAD <= std::min(run, THREADS * AHEAD);) t.across *= 2;
    /* Runs begin in a unit at the same offset as in x: the pitch leaves the same remainder. */
    t.pitch = int(align(run * U, LINE) + ceil_div(LINE, t.height));
    while ((t.pitch - args.cols * E) % U != 0) t.pitch++;
    t.storing = storing_of(t.height, V);
    t.bytes = t.pitch * t.height;
}

/* Chooses the kind of tile (stack, tall, wide), its size, and how a block's threads share it. */
template <typename T> static thin_tiling tiling_of(const transpose_args &args) {
    constexpr int E = int(sizeof(T));
    const bool small = is_small(args, E);
    thin_tiling t = {};
    t.chunks = 1, t.matrices = 1, t.height = int(std::min(args.rows, int64_t(TILE)));
    t.width = int(std::min(args.cols, int64_t(TILE)));
    if (small) t.matrices = matrices_of(args.rows * args.cols * E, capacity(args, E), args.batch);
    if (small && args.rows <= STACKED)
        lay_stack<T>(t, args);
    else if (small || args.cols <= MAX_COLUMNS<T>)
        lay_tall<T>(t, args, small);
    else
        lay_wide<T>(t, args);
    return t;
}

/* Starts the kernel for this kind of tile. Returns 0 or a cudaError_t. */
template <typename T, enum shape SHAPE, bool SKEWED>
static int launch_tiles(const struct launch *launch, const thin_tiling &tiling) {
    const transpose_args &args = launch->args.transpose;
    const int64_t blocks = ceil_div(args.batch, tiling.matrices) * tiling.chunks;
    transpose_thin_kernel<T, SHAPE, SKEWED>
        <<<grid_of(blocks), THREADS, tiling.bytes, stream_of(launch)>>>(args, tiling);
    return cudaGetLastError();
}

/* kernel->launch: a matrix of one row or column keeps its order; others go by the kernel for their shape. */
static int transpose_thin_launch(const struct launch *launch) {
    const transpose_args &args = launch->args.transpose;
    const int64_t elements = args.batch * args.rows * args.cols;
    if (elements == 0) return 0;
    if (args.rows == 1 || args.cols == 1)
        return cudaMemcpyAsync(args.y, args.x, size_t(elements) * dtype_size(launch->dtype), cudaMemcpyDeviceToDevice,
                               stream_of(launch));
    return dispatch_size(launch->dtype, [&](auto element) -> int {
        using T = decltype(element);
        const thin_tiling tiling = tiling_of<T>(args);
        if (tiling.shape == WIDE) return launch_tiles<T, WIDE, false>(launch, tiling);
        if (tiling.shape == TALL) return launch_tiles<T, TALL, false>(launch, tiling);
        return tiling.skewed ? launch_tiles<T, STACK, true>(launch, tiling)
                             : launch_tiles<T, STACK, false>(launch, tiling);
    });
}

static const char *transpose_thin_refuses(const struct launch *launch) {
    const transpose_args &args = launch->args.transpose;
    const bool fits = dispatch_size(launch->dtype, [&](auto element) -> int {
        using T = decltype(element);
        return args.rows <= MAX_ROWS<T> || args.cols <= MAX_COLUMNS<T> || is_small(args, int(sizeof(T)));
    });
    return fits ? nullptr : "a matrix is more than 16 KiB, and neither its rows nor its columns are few";
}

KERNEL(transpose_thin) = {
    .name = "thin",
    .op = OP_TRANSPOSE,
    .device = DEVICE_CUDA,
    .summary = "strips and stacks of small matrices: whole runs of memory, vectors copied",
    .dtypes = DTYPES_ALL,
    .edges = {{64, MAX_ROWS<uint8_t>, STACKED, 32, 16, 8, 4, 2},
              {64, MAX_COLUMNS<uint8_t>, THREADS, 32, 16, 4, 2, 4096}},
    .accuracy = ACCURACY_FULL,
    .near_roof = true,
    .compute_capability = 80,
    .refuses = transpose_thin_refuses,
    .launch = transpose_thin_launch,
};
