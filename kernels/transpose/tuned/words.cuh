/* words.cuh - defines the kernel of words.cu. swizzled.cu uses it for rows that do not begin on 16 bytes.
 *
 * A column of a tile is contiguous in y. Memory is to write whole sectors, so a tile stores from the start of the
 * sector that holds its row 0. For this it loads up to ROWS_BEFORE rows above it, and it leaves as many of its last
 * rows to the tile below. E is the number of elements in a word.
 *
 *     y in memory     |--sector--|--sector--|--sector--|--  ...  --|--sector--|--sector--|
 *     rows            |       0 ..............................................127           tile.height is 128
 *     loaded      -32 ........................................................127           tile.begin is -32
 *     stored          |====================================================|                128 rows, 128 / E words
 *                     |<----->|
 *                     words_back words, then elements_before elements: here the sector starts before row 0
 *
 * In the top tile of a matrix tile.begin is 0, and in the last one tile.height may be less. If sectors need no care
 * (transpose_words_of), ROWS_BEFORE is E, and words take the part of sectors. */
#ifndef KERNELS_TRANSPOSE_WORDS_CUH
#define KERNELS_TRANSPOSE_WORDS_CUH

#include "../transpose.cuh"

#define WORDS_THREADS    256
#define WORDS_WARPS      (WORDS_THREADS / 32)
#define WORDS_RESIDENT   5          /* blocks per multiprocessor */
#define WORDS_ROW        64         /* words of x per row of a tile: two for each thread of a warp */
#define WORDS_HEIGHT     128        /* elements of a row of y */
#define WORDS_SECTOR     32         /* bytes that memory writes at once */
#define WORDS_MAX_CACHED (24 << 20) /* bytes of a y that stays in the cache until its sectors are whole */

template <typename T> constexpr int elements_per_word = 4 / int(sizeof(T)); /* E in the functions below */
/* The columns of a tile: one word less than a row has, because a row may begin within a word. */
template <typename T> constexpr int words_width = (WORDS_ROW - 1) * elements_per_word<T>;

/* Words in shared memory from one group of E rows to the next: an odd number, which avoids bank conflicts. */
template <typename T> constexpr int words_per_row_group = WORDS_ROW *elements_per_word<T> + 1;
/* The bytes of a tile in shared memory, with ROWS_BEFORE rows above it. */
template <typename T, int ROWS_BEFORE>
constexpr int words_bytes = (WORDS_HEIGHT + ROWS_BEFORE) / elements_per_word<T> *words_per_row_group<T> * 4;

/* The number of tiles that cover a column of the matrix. A tile may leave its last ROWS_BEFORE - 1 rows to the tile
 * below, so the last rows may need one more tile, unless every column begins with a whole sector (or word). */
template <int ROWS_BEFORE> __host__ __device__ inline int64_t words_tiles_high(int64_t rows) {
    const int64_t last = rows % ROWS_BEFORE == 0 ? rows : rows + ROWS_BEFORE - 1;
    return (last + WORDS_HEIGHT - 1) / WORDS_HEIGHT;
}

/* A block's tile. */
struct words_tile {
    int64_t x, y;      /* number of its first element in x and in y */
    int begin, height; /* rows to load, counted from the tile's row 0: from begin to height - 1, all in the matrix */
    int width;         /* columns */
};

/* Loads rows of x into shared memory, in whole words. END: the last of x's `elements` may lie in a word that x fills
 * only in part. NO_CHECKS: the tile is complete, with ROWS_BEFORE rows above it, and enough of x follows that complete
 * rows of words may be read. */
template <typename T, int ROWS_BEFORE, bool NO_CHECKS, bool END>
__device__ inline void words_load(uint32_t *shared, const transpose_args &args, const words_tile &tile,
                                  int64_t elements) {
    constexpr int E = elements_per_word<T>, WORDS_PER_THREAD = WORDS_ROW / 32, ROWS = WORDS_HEIGHT + ROWS_BEFORE;
    constexpr int BATCH = (ROWS / WORDS_WARPS + 1) / 2; /* rows that a warp has in flight */
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    const int64_t first = tile.x + warp * args.cols, word = first / E - ROWS_BEFORE / E * args.cols;
    const uint32_t *x = static_cast<const uint32_t *>(args.x) + word + lane;
    const uint32_t *const end = static_cast<const uint32_t *>(args.x) + elements / E;
    const int words = (tile.width + int(first % E) + E - 1) / E;
#pragma unroll 1
    for (int r0 = warp; r0 < ROWS; r0 += BATCH * WORDS_WARPS) {
        uint32_t loaded[BATCH][WORDS_PER_THREAD];
#pragma unroll
        for (int i = 0; i < BATCH; i++, x += args.cols * WORDS_WARPS / E)
#pragma unroll
            for (int k = 0; k < WORDS_PER_THREAD; k++) {
                const int r = r0 + i * WORDS_WARPS - ROWS_BEFORE;
                const bool exists = r < (NO_CHECKS ? WORDS_HEIGHT : tile.height) &&
                                    (NO_CHECKS || (r >= tile.begin && lane + k * 32 < words));
                if (END && exists && x + k * 32 == end) {
                    loaded[i][k] = 0;
                    for (int j = 0; j < elements % E; j++)
                        loaded[i][k] |= uint32_t(reinterpret_cast<const T *>(end)[j]) << j * 8 * sizeof(T);
                } else if (exists) {
                    loaded[i][k] = x[k * 32];
                }
            }
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            const int r = r0 + i * WORDS_WARPS;
            uint32_t *const row = shared + r / E * words_per_row_group<T> + r % E * WORDS_ROW + lane;
#pragma unroll
            for (int k = 0; k < WORDS_PER_THREAD; k++)
                if (r < ROWS) row[k * 32] = loaded[i][k];
        }
    }
}

/* Stores columns of the tile; each word is assembled from the E rows that it spans. A warp's columns lie 8 apart, so
 * elements_before is the same for all of them, and so is the byte of a word of x from which an element comes. INSIDE:
 * all words lie within the tile's rows. */
template <typename T, int ROWS_BEFORE, bool INSIDE>
__device__ inline void words_store(const uint32_t *shared, const transpose_args &args, const words_tile &tile) {
    constexpr int E = elements_per_word<T>, WORDS_PER_THREAD = WORDS_HEIGHT / E / 32;
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    const int64_t first = tile.y + warp * args.rows;
    const int elements_before = int(first % E); /* elements in the word of row 0 that precede row 0 */
    uint32_t *y = static_cast<uint32_t *>(args.y) + first / E + lane;
    unsigned start = unsigned(first); /* number of a column's row 0 in y, modulo 2^32 */
    const T *element[E];              /* where the elements of word `lane` of column `warp` lie in shared memory */
#pragma unroll
    for (int j = 0; j < E; j++) {
        const int row = (j - elements_before + E) % E, group = ROWS_BEFORE / E + lane - (j < elements_before);
        const int in_word = int((unsigned(tile.x) + unsigned(row) * unsigned(args.cols)) % E);
        element[j] =
            reinterpret_cast<const T *>(shared + group * words_per_row_group<T> + row * WORDS_ROW) + in_word + warp;
    }
#pragma unroll 8
    for (int c = warp, i = 0; c < tile.width; c += WORDS_WARPS, i += WORDS_WARPS) {
        const int words_back = int(start % ROWS_BEFORE) / E; /* words from the sector's start to the word of row 0 */
#pragma unroll
        for (int k = 0; k < WORDS_PER_THREAD; k++) {
            const int word = k * 32 - words_back, r = (lane + word) * E - elements_before,
                      offset = word * words_per_row_group<T> * E + i;
            if (INSIDE || (r >= tile.begin && r + E <= tile.height)) {
                uint32_t assembled = 0;
#pragma unroll
                for (int j = 0; j < E; j++) assembled |= uint32_t(element[j][offset]) << j * 8 * sizeof(T);
                y[word] = assembled;
            } else if (r + E > tile.begin && r < tile.height) { /* the rows to store begin or end within the word */
#pragma unroll
                for (int j = 0; j < E; j++)
                    if (r + j >= tile.begin && r + j < tile.height)
                        reinterpret_cast<T *>(y + word)[j] = element[j][offset];
            }
        }
        y += args.rows * WORDS_WARPS / E;
        start += unsigned(args.rows) * WORDS_WARPS;
    }
}

/* Stores a tile that holds complete columns of the matrix, which consist of whole words: its part of y is one
 * contiguous run. */
template <typename T, int ROWS_BEFORE>
__device__ inline void words_store_run(const uint32_t *shared, const transpose_args &args, const words_tile &tile) {
    constexpr int E = elements_per_word<T>;
    const int words = int(args.rows) / E, total = tile.width * words; /* of a column, of the tile */
    uint32_t *const y = static_cast<uint32_t *>(args.y) + tile.y / E;
    const T *element[E]; /* the elements of column 0 */
#pragma unroll
    for (int j = 0; j < E; j++) {
        const int in_word = int((unsigned(tile.x) + unsigned(j) * unsigned(args.cols)) % E);
        element[j] =
            reinterpret_cast<const T *>(shared + ROWS_BEFORE / E * words_per_row_group<T> + j * WORDS_ROW) + in_word;
    }
    int column = int(threadIdx.x) / words, word = int(threadIdx.x) % words;
    const int columns_on = WORDS_THREADS / words, words_on = WORDS_THREADS % words;
#pragma unroll 4
    for (int i = int(threadIdx.x); i < total; i += WORDS_THREADS) {
        const int offset = word * words_per_row_group<T> * E + column;
        uint32_t assembled = 0;
#pragma unroll
        for (int j = 0; j < E; j++) assembled |= uint32_t(element[j][offset]) << j * 8 * sizeof(T);
        y[i] = assembled;
        word += words_on, column += columns_on;
        if (word >= words) word -= words, column++;
    }
}

/* Transposes one tile per block. ROWS_BEFORE: rows above the tile that it loads too. */
template <typename T, int ROWS_BEFORE>
__global__ void __launch_bounds__(WORDS_THREADS, WORDS_RESIDENT)
    transpose_words_kernel(const __grid_constant__ transpose_args args) {
    constexpr int W = words_width<T>, H = WORDS_HEIGHT, E = elements_per_word<T>;
    extern __shared__ uint32_t words_shared[];
    const int64_t tiles_high = words_tiles_high<ROWS_BEFORE>(args.rows);
    const tile_position of_y = tile_of_block((args.cols + W - 1) / W, tiles_high);
    if (of_y.batch >= args.batch) return;
    const int64_t matrix = of_y.batch * args.rows * args.cols, row = of_y.column * H, column = of_y.row * W;
    const words_tile tile = {matrix + row * args.cols + column, matrix + column * args.rows + row,
                             row ? -ROWS_BEFORE : 0, int(min(int64_t(H), args.rows - row)),
                             int(min(int64_t(W), args.cols - column))};
    const int64_t elements = args.batch * args.rows * args.cols;
    const bool inside = tile.begin < 0 && tile.height == H, many_after = elements - tile.x >= H * args.cols + E;
    if (inside && tile.width == W && many_after)
        words_load<T, ROWS_BEFORE, true, false>(words_shared, args, tile, elements);
    else if (many_after || elements % E == 0)
        words_load<T, ROWS_BEFORE, false, false>(words_shared, args, tile, elements);
    else
        words_load<T, ROWS_BEFORE, false, true>(words_shared, args, tile, elements);
    __syncthreads();
    if (inside)
        words_store<T, ROWS_BEFORE, true>(words_shared, args, tile);
    else if (tiles_high == 1 && args.rows % E == 0)
        words_store_run<T, ROWS_BEFORE>(words_shared, args, tile);
    else
        words_store<T, ROWS_BEFORE, false>(words_shared, args, tile);
}

/* Starts the kernel. Returns 0 or a cudaError_t. */
template <typename T, int ROWS_BEFORE> int transpose_words_with(const struct launch *launch) {
    const transpose_args &args = launch->args.transpose;
    const int64_t tiles = words_tiles_high<ROWS_BEFORE>(args.rows) * ceil_div(args.cols, words_width<T>);
    if (args.batch * args.rows * args.cols == 0) return 0;
    const auto kernel = transpose_words_kernel<T, ROWS_BEFORE>;
    constexpr int BYTES = words_bytes<T, ROWS_BEFORE>;
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
    if (error != cudaSuccess) return error;
    kernel<<<grid_of(args.batch * tiles), WORDS_THREADS, BYTES, stream_of(launch)>>>(args);
    return cudaGetLastError();
}

/* Chooses ROWS_BEFORE, and starts the kernel: the elements of a sector, or of a word if whole sectors gain nothing.
 * That is so if every column of y begins with a sector; and for bytes, whose sectors take twice as many rows as those
 * of 2-byte elements, also if y stays in the cache until its sectors are whole. */
template <typename T> int transpose_words_of(const struct launch *launch) {
    constexpr int SECTOR = WORDS_SECTOR / int(sizeof(T));
    const transpose_args &args = launch->args.transpose;
    const bool cached = sizeof(T) == 1 && args.batch * args.rows * args.cols <= WORDS_MAX_CACHED;
    return args.rows % SECTOR == 0 || cached ? transpose_words_with<T, elements_per_word<T>>(launch)
                                             : transpose_words_with<T, SECTOR>(launch);
}

#endif
