/* transpose/words.cuh - the kernel of transpose/words.cu. transpose/swizzled.cu uses it for rows that do not begin on
 * 16 bytes. */
#ifndef KERNELS_TRANSPOSE_WORDS_CUH
#define KERNELS_TRANSPOSE_WORDS_CUH

#include "transpose.cuh"

#define WORDS_THREADS 256
#define WORDS_WARPS   (WORDS_THREADS / 32)
#define WORDS_ROW     64  /* words of x per row of a tile: two for each thread of a warp */
#define WORDS_HEIGHT  128 /* elements of a row of y */
#define WORDS_BATCH   9   /* rows that a warp has in flight: half of its part of a tile, and one above */

template <typename T> constexpr int in_word = 4 / int(sizeof(T));
template <typename T> constexpr int words_width = (WORDS_ROW - 1) * in_word<T>;

/* Words in shared memory from one group of in_word rows to the next: an odd number. The tile has one group more than
 * its height, for the rows above it: the first word of a column may need the last of them. */
template <typename T> constexpr int words_group = WORDS_ROW *in_word<T> + 1;
template <typename T> constexpr int words_bytes = (WORDS_HEIGHT / in_word<T> + 1) * words_group<T> * 4;

/* The number of tiles that cover a row of y. Its last word may begin up to in_word - 1 elements late and then needs a
 * tile of its own, unless all rows of y are whole words. */
template <typename T> __host__ __device__ inline int64_t words_tiles_high(int64_t rows) {
    const int64_t last = rows % in_word<T> == 0 ? rows : rows + in_word<T> - 1;
    return (last + WORDS_HEIGHT - 1) / WORDS_HEIGHT;
}

/* Where a tile lies. The words of a column begin at a word of y, up to in_word - 1 rows before the tile, and end as
 * much before the tile's end. Rows outside the matrix are excluded. */
struct words_tile {
    int64_t x, y;      /* its first element */
    int begin, height; /* rows of the matrix, counted from the tile's first */
    int width;
};

/* Loads rows of x into shared memory, in whole words. END: the last of x's `elements` may lie in a word that x fills
 * only in part. */
template <typename T, bool END>
__device__ inline void words_load(uint32_t *shared, const transpose_args &args, const words_tile &tile,
                                  int64_t elements) {
    constexpr int E = in_word<T>, TURNS = WORDS_ROW / 32;
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    const int64_t first = tile.x + (warp - E) * args.cols, word = (first + E * args.cols) / E - args.cols;
    const uint32_t *x = static_cast<const uint32_t *>(args.x) + word + lane;
    const uint32_t *const end = static_cast<const uint32_t *>(args.x) + elements / E;
    const int words = (tile.width + int(first - word * E) + E - 1) / E;
#pragma unroll 1
    for (int r0 = warp - E; r0 < tile.height; r0 += WORDS_BATCH * WORDS_WARPS) {
        uint32_t got[WORDS_BATCH][TURNS];
#pragma unroll
        for (int i = 0; i < WORDS_BATCH; i++, x += args.cols * WORDS_WARPS / E)
#pragma unroll
            for (int k = 0; k < TURNS; k++) {
                const int r = r0 + i * WORDS_WARPS;
                const bool there = r >= tile.begin && r < tile.height && lane + k * 32 < words;
                if (END && there && x + k * 32 == end) {
                    got[i][k] = 0;
                    for (int j = 0; j < elements % E; j++)
                        got[i][k] |= uint32_t(reinterpret_cast<const T *>(end)[j]) << j * 8 * sizeof(T);
                } else if (there) {
                    got[i][k] = x[k * 32];
                }
            }
#pragma unroll
        for (int i = 0; i < WORDS_BATCH; i++) {
            const int r = r0 + i * WORDS_WARPS + E;
            uint32_t *const row = shared + r / E * words_group<T> + r % E * WORDS_ROW + lane;
#pragma unroll
            for (int k = 0; k < TURNS; k++)
                if (r < WORDS_HEIGHT + E) row[k * 32] = got[i][k];
        }
    }
}

/* Does the same for a tile inside the matrix: it has all rows and columns, rows above it, and enough of x behind it
 * that whole rows of words may be read. No bounds checks. */
template <typename T>
__device__ inline void words_load_whole(uint32_t *shared, const transpose_args &args, const words_tile &tile) {
    constexpr int E = in_word<T>, TURNS = WORDS_ROW / 32, ROWS = WORDS_HEIGHT / WORDS_WARPS, BATCH = ROWS / 2;
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    const uint32_t *x = static_cast<const uint32_t *>(args.x) + uint64_t(tile.x + warp * args.cols) / E + lane;
    uint32_t *row = shared + (warp / E + 1) * words_group<T> + warp % E * WORDS_ROW + lane;
    uint32_t above[TURNS];
    if (warp < E)
#pragma unroll
        for (int k = 0; k < TURNS; k++) above[k] = (x - args.cols)[k * 32];
#pragma unroll 1
    for (int b = 0; b < ROWS / BATCH; b++) {
        uint32_t got[BATCH][TURNS];
#pragma unroll
        for (int i = 0; i < BATCH; i++, x += args.cols * WORDS_WARPS / E)
#pragma unroll
            for (int k = 0; k < TURNS; k++) got[i][k] = x[k * 32];
#pragma unroll
        for (int i = 0; i < BATCH; i++, row += WORDS_WARPS / E * words_group<T>)
#pragma unroll
            for (int k = 0; k < TURNS; k++) row[k * 32] = got[i][k];
    }
    if (warp < E)
#pragma unroll
        for (int k = 0; k < TURNS; k++) row[k * 32 - (ROWS * WORDS_WARPS / E + 1) * words_group<T>] = above[k];
}

/* Stores rows of y; each word is assembled from in_word rows of x. A warp's columns lie 8 apart, so every thread and
 * column shares the same shifts: which element of a word comes from which row of a group, and its place in the word of
 * x. INSIDE: all words are whole. */
template <typename T, bool INSIDE>
__device__ inline void words_store(const uint32_t *shared, const transpose_args &args, const words_tile &tile) {
    constexpr int E = in_word<T>, TURNS = WORDS_HEIGHT / E / 32;
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    const int64_t first = tile.y + warp * args.rows;
    const int before = int(first % E); /* elements of a column's first word that precede the tile */
    uint32_t *y = static_cast<uint32_t *>(args.y) + first / E + lane;
    const T *element[E]; /* of word `lane` in column `warp` */
#pragma unroll
    for (int j = 0; j < E; j++) {
        const int row = (j - before + E) % E, group = lane + (j < before ? 0 : 1);
        const int within = int((unsigned(tile.x) + unsigned(row) * unsigned(args.cols)) % E);
        element[j] = reinterpret_cast<const T *>(shared + group * words_group<T> + row * WORDS_ROW) + within + warp;
    }
#pragma unroll 8
    for (int c = warp, i = 0; c < tile.width; c += WORDS_WARPS, i += WORDS_WARPS, y += args.rows * WORDS_WARPS / E)
#pragma unroll
        for (int k = 0; k < TURNS; k++) {
            const int r = (lane + k * 32) * E - before, at = k * 32 * words_group<T> * E + i;
            if (INSIDE || (r >= tile.begin && r + E <= tile.height)) {
                uint32_t word = 0;
#pragma unroll
                for (int j = 0; j < E; j++) word |= uint32_t(element[j][at]) << j * 8 * sizeof(T);
                y[k * 32] = word;
            } else if (r + E > tile.begin && r < tile.height) { /* the matrix begins or ends within the word */
#pragma unroll
                for (int j = 0; j < E; j++)
                    if (r + j >= tile.begin && r + j < tile.height)
                        reinterpret_cast<T *>(y + k * 32)[j] = element[j][at];
            }
        }
}

/* Does the same where a tile holds whole columns of the matrix and these are whole words: the tile's part of y is then
 * contiguous. */
template <typename T>
__device__ inline void words_store_run(const uint32_t *shared, const transpose_args &args, const words_tile &tile) {
    constexpr int E = in_word<T>;
    const int words = int(args.rows) / E, total = tile.width * words; /* per column, in all */
    uint32_t *const y = static_cast<uint32_t *>(args.y) + tile.y / E;
    const T *element[E]; /* of column 0 */
#pragma unroll
    for (int j = 0; j < E; j++) {
        const int within = int((unsigned(tile.x) + unsigned(j) * unsigned(args.cols)) % E);
        element[j] = reinterpret_cast<const T *>(shared + words_group<T> + j * WORDS_ROW) + within;
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

/* RESIDENT: blocks per multiprocessor. */
template <typename T, int RESIDENT>
__global__ void __launch_bounds__(WORDS_THREADS, RESIDENT)
    transpose_words_kernel(const __grid_constant__ transpose_args args) {
    constexpr int W = words_width<T>, H = WORDS_HEIGHT, E = in_word<T>;
    extern __shared__ uint32_t words_shared[];
    const int64_t tiles_high = words_tiles_high<T>(args.rows);
    const tile_place of_y = tile_of_block((args.cols + W - 1) / W, tiles_high);
    if (of_y.batch >= args.batch) return;
    const int64_t matrix = of_y.batch * args.rows * args.cols, row = of_y.column * H, column = of_y.row * W;
    const words_tile tile = {matrix + row * args.cols + column, matrix + column * args.rows + row, row == 0 ? 0 : -E,
                             int(min(int64_t(H), args.rows - row)), int(min(int64_t(W), args.cols - column))};
    const int64_t elements = args.batch * args.rows * args.cols;
    const bool inside = tile.begin < 0 && tile.height == H, many_after = elements - tile.x >= H * args.cols + E;
    if (inside && tile.width == W && many_after)
        words_load_whole<T>(words_shared, args, tile);
    else if (many_after || elements % E == 0)
        words_load<T, false>(words_shared, args, tile, elements);
    else
        words_load<T, true>(words_shared, args, tile, elements);
    __syncthreads();
    if (inside)
        words_store<T, true>(words_shared, args, tile);
    else if (tiles_high == 1 && args.rows % E == 0)
        words_store_run<T>(words_shared, args, tile);
    else
        words_store<T, false>(words_shared, args, tile);
}

template <typename T, int RESIDENT> int transpose_words_resident(const struct launch *launch) {
    const transpose_args &args = launch->args.transpose;
    const int64_t tiles = words_tiles_high<T>(args.rows) * ceil_div(args.cols, words_width<T>);
    if (args.batch * args.rows * args.cols == 0) return 0;
    const auto kernel = transpose_words_kernel<T, RESIDENT>;
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, words_bytes<T>);
    if (error != cudaSuccess) return error;
    kernel<<<grid_of(args.batch * tiles), WORDS_THREADS, words_bytes<T>, stream_of(launch)>>>(args);
    return cudaGetLastError();
}

/* Where every column of y begins with a whole word, 5 blocks per multiprocessor are faster than 6, by a seventh;
 * elsewhere 6 are. */
template <typename T> int transpose_words_of(const struct launch *launch) {
    return launch->args.transpose.rows % in_word<T> == 0 ? transpose_words_resident<T, 5>(launch)
                                                         : transpose_words_resident<T, 6>(launch);
}

#endif
