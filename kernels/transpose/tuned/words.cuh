/* words.cuh - defines the kernel of words.cu. swizzled.cu uses it for rows that do not begin on 16 bytes. */
#ifndef KERNELS_TRANSPOSE_WORDS_CUH
#define KERNELS_TRANSPOSE_WORDS_CUH

#include "../transpose.cuh"

#define WORDS_THREADS  256
#define WORDS_WARPS    (WORDS_THREADS / 32)
#define WORDS_RESIDENT 5          /* blocks per multiprocessor */
#define WORDS_ROW      64         /* words of x per row of a tile: two for each thread of a warp */
#define WORDS_HEIGHT   128        /* elements of a row of y */
#define WORDS_SECTOR   32         /* bytes that memory writes at once */
#define WORDS_CACHED   (24 << 20) /* most bytes of a y that stays in the cache until its sectors are whole */

template <typename T> constexpr int in_word = 4 / int(sizeof(T));
template <typename T> constexpr int words_width = (WORDS_ROW - 1) * in_word<T>;

/* Words in shared memory from one group of in_word rows to the next: an odd number. The tile has ABOVE rows more than
 * its height, those above it: where a column begins, up to ABOVE of them are in its first sector. */
template <typename T> constexpr int words_group = WORDS_ROW *in_word<T> + 1;
template <typename T, int ABOVE> constexpr int words_bytes = (WORDS_HEIGHT + ABOVE) / in_word<T> *words_group<T> * 4;

/* The number of tiles that cover a row of y. What a tile stores of a row may end up to ABOVE - 1 elements before the
 * tile does (words_tile), so the row's end may need one more tile, unless all rows of y begin with a whole word or
 * sector. */
template <int ABOVE> __host__ __device__ inline int64_t words_tiles_high(int64_t rows) {
    const int64_t last = rows % ABOVE == 0 ? rows : rows + ABOVE - 1;
    return (last + WORDS_HEIGHT - 1) / WORDS_HEIGHT;
}

/* The position of a tile. What it stores of a column begins up to ABOVE - 1 rows before the tile, and ends as many rows
 * before the tile's end. Rows outside the matrix are excluded. */
struct words_tile {
    int64_t x, y;      /* its first element */
    int begin, height; /* rows of the matrix, counted from the tile's first */
    int width;
};

/* Loads rows of x into shared memory, in whole words. END: the last of x's `elements` may lie in a word that x fills
 * only in part. WHOLE: the tile lies inside the matrix, with all rows and columns, rows above it, and enough of x
 * behind it that whole rows of words may be read: no bounds checks. */
template <typename T, int ABOVE, bool WHOLE, bool END>
__device__ inline void words_load(uint32_t *shared, const transpose_args &args, const words_tile &tile,
                                  int64_t elements) {
    constexpr int E = in_word<T>, TURNS = WORDS_ROW / 32, ROWS = WORDS_HEIGHT + ABOVE;
    constexpr int BATCH = (ROWS / WORDS_WARPS + 1) / 2; /* rows that a warp has in flight */
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    const int64_t first = tile.x + warp * args.cols, word = first / E - ABOVE / E * args.cols;
    const uint32_t *x = static_cast<const uint32_t *>(args.x) + word + lane;
    const uint32_t *const end = static_cast<const uint32_t *>(args.x) + elements / E;
    const int words = (tile.width + int(first % E) + E - 1) / E;
#pragma unroll 1
    for (int r0 = warp; r0 < ROWS; r0 += BATCH * WORDS_WARPS) {
        uint32_t got[BATCH][TURNS];
#pragma unroll
        for (int i = 0; i < BATCH; i++, x += args.cols * WORDS_WARPS / E)
#pragma unroll
            for (int k = 0; k < TURNS; k++) {
                const int r = r0 + i * WORDS_WARPS - ABOVE;
                const bool there =
                    r < (WHOLE ? WORDS_HEIGHT : tile.height) && (WHOLE || (r >= tile.begin && lane + k * 32 < words));
                if (END && there && x + k * 32 == end) {
                    got[i][k] = 0;
                    for (int j = 0; j < elements % E; j++)
                        got[i][k] |= uint32_t(reinterpret_cast<const T *>(end)[j]) << j * 8 * sizeof(T);
                } else if (there) {
                    got[i][k] = x[k * 32];
                }
            }
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            const int r = r0 + i * WORDS_WARPS;
            uint32_t *const row = shared + r / E * words_group<T> + r % E * WORDS_ROW + lane;
#pragma unroll
            for (int k = 0; k < TURNS; k++)
                if (r < ROWS) row[k * 32] = got[i][k];
        }
    }
}

/* Stores rows of y; each word is assembled from in_word rows of x. A warp's columns lie 8 apart, so every thread and
 * column shares the same shifts: which element of a word comes from which row of a group, and its place in the word of
 * x. INSIDE: all words are whole. */
template <typename T, int ABOVE, bool INSIDE>
__device__ inline void words_store(const uint32_t *shared, const transpose_args &args, const words_tile &tile) {
    constexpr int E = in_word<T>, TURNS = WORDS_HEIGHT / E / 32;
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    const int64_t first = tile.y + warp * args.rows;
    const int before = int(first % E); /* elements of a column's first word that precede the tile */
    uint32_t *y = static_cast<uint32_t *>(args.y) + first / E + lane;
    unsigned start = unsigned(first); /* first element of a column, modulo 2^32 */
    const T *element[E];              /* the elements of word `lane` in column `warp` */
#pragma unroll
    for (int j = 0; j < E; j++) {
        const int row = (j - before + E) % E, group = ABOVE / E + lane - (j < before);
        const int within = int((unsigned(tile.x) + unsigned(row) * unsigned(args.cols)) % E);
        element[j] = reinterpret_cast<const T *>(shared + group * words_group<T> + row * WORDS_ROW) + within + warp;
    }
#pragma unroll 8
    for (int c = warp, i = 0; c < tile.width; c += WORDS_WARPS, i += WORDS_WARPS) {
        const int back = int(start % ABOVE) / E; /* words from where the column's first sector begins */
#pragma unroll
        for (int k = 0; k < TURNS; k++) {
            const int word = k * 32 - back, r = (lane + word) * E - before, at = word * words_group<T> * E + i;
            if (INSIDE || (r >= tile.begin && r + E <= tile.height)) {
                uint32_t together = 0;
#pragma unroll
                for (int j = 0; j < E; j++) together |= uint32_t(element[j][at]) << j * 8 * sizeof(T);
                y[word] = together;
            } else if (r + E > tile.begin && r < tile.height) { /* the matrix begins or ends within the word */
#pragma unroll
                for (int j = 0; j < E; j++)
                    if (r + j >= tile.begin && r + j < tile.height) reinterpret_cast<T *>(y + word)[j] = element[j][at];
            }
        }
        y += args.rows * WORDS_WARPS / E;
        start += unsigned(args.rows) * WORDS_WARPS;
    }
}

/* Does the same where a tile holds whole columns of the matrix and these are whole words: the tile's part of y is then
 * contiguous. */
template <typename T, int ABOVE>
__device__ inline void words_store_run(const uint32_t *shared, const transpose_args &args, const words_tile &tile) {
    constexpr int E = in_word<T>;
    const int words = int(args.rows) / E, total = tile.width * words; /* per column, in all */
    uint32_t *const y = static_cast<uint32_t *>(args.y) + tile.y / E;
    const T *element[E]; /* the elements of column 0 */
#pragma unroll
    for (int j = 0; j < E; j++) {
        const int within = int((unsigned(tile.x) + unsigned(j) * unsigned(args.cols)) % E);
        element[j] = reinterpret_cast<const T *>(shared + ABOVE / E * words_group<T> + j * WORDS_ROW) + within;
    }
    int column = int(threadIdx.x) / words, word = int(threadIdx.x) % words;
    const int columns_on = WORDS_THREADS / words, words_on = WORDS_THREADS % words;
#pragma unroll 4
    for (int i = int(threadIdx.x); i < total; i += WORDS_THREADS) {
        const int at = word * words_group<T> * E + column;
        uint32_t together = 0;
#pragma unroll
        for (int j = 0; j < E; j++) together |= uint32_t(element[j][at]) << j * 8 * sizeof(T);
        y[i] = together;
        word += words_on, column += columns_on;
        if (word >= words) word -= words, column++;
    }
}

template <typename T, int ABOVE>
__global__ void __launch_bounds__(WORDS_THREADS, WORDS_RESIDENT)
    transpose_words_kernel(const __grid_constant__ transpose_args args) {
    constexpr int W = words_width<T>, H = WORDS_HEIGHT, E = in_word<T>;
    extern __shared__ uint32_t words_shared[];
    const int64_t tiles_high = words_tiles_high<ABOVE>(args.rows);
    const tile_place of_y = tile_of_block((args.cols + W - 1) / W, tiles_high);
    if (of_y.batch >= args.batch) return;
    const int64_t matrix = of_y.batch * args.rows * args.cols, row = of_y.column * H, column = of_y.row * W;
    const words_tile tile = {matrix + row * args.cols + column, matrix + column * args.rows + row, row ? -ABOVE : 0,
                             int(min(int64_t(H), args.rows - row)), int(min(int64_t(W), args.cols - column))};
    const int64_t elements = args.batch * args.rows * args.cols;
    const bool inside = tile.begin < 0 && tile.height == H, many_after = elements - tile.x >= H * args.cols + E;
    if (inside && tile.width == W && many_after)
        words_load<T, ABOVE, true, false>(words_shared, args, tile, elements);
    else if (many_after || elements % E == 0)
        words_load<T, ABOVE, false, false>(words_shared, args, tile, elements);
    else
        words_load<T, ABOVE, false, true>(words_shared, args, tile, elements);
    __syncthreads();
    if (inside)
        words_store<T, ABOVE, true>(words_shared, args, tile);
    else if (tiles_high == 1 && args.rows % E == 0)
        words_store_run<T, ABOVE>(words_shared, args, tile);
    else
        words_store<T, ABOVE, false>(words_shared, args, tile);
}

template <typename T, int ABOVE> int transpose_words_with(const struct launch *launch) {
    const transpose_args &args = launch->args.transpose;
    const int64_t tiles = words_tiles_high<ABOVE>(args.rows) * ceil_div(args.cols, words_width<T>);
    if (args.batch * args.rows * args.cols == 0) return 0;
    const auto kernel = transpose_words_kernel<T, ABOVE>;
    constexpr int BYTES = words_bytes<T, ABOVE>;
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
    if (error != cudaSuccess) return error;
    kernel<<<grid_of(args.batch * tiles), WORDS_THREADS, BYTES, stream_of(launch)>>>(args);
    return cudaGetLastError();
}

/* Chooses ABOVE: the rows of a sector or, if they are not worth reading, of a word. They are not if every column of y
 * begins with a whole sector, or if y stays in the cache until its sectors are whole; the latter counts for bytes,
 * whose sectors take twice as many rows as those of 2-byte elements. */
template <typename T> int transpose_words_of(const struct launch *launch) {
    constexpr int SECTOR = WORDS_SECTOR / int(sizeof(T));
    const transpose_args &args = launch->args.transpose;
    const bool cached = sizeof(T) == 1 && args.batch * args.rows * args.cols <= WORDS_CACHED;
    return args.rows % SECTOR == 0 || cached ? transpose_words_with<T, in_word<T>>(launch)
                                             : transpose_words_with<T, SECTOR>(launch);
}

#endif
