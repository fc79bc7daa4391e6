/* swizzled.cu - moves 16 bytes at a time in x and in y, without bank conflicts and without padding.
 *
 *     x: 16 x 16 squares of V x V elements            V = 16 bytes / element: 2, 4, 8 or 16
 *     +--+--+--+-   -+--+
 *     |##|  |  | ... |  |   Thread (i, j) loads square (i, j) as V vectors of 16 bytes, transposes it in registers and
 *     +--+--+--+-   -+--+   stores the V vectors of the result in shared memory, at square (j, i).
 *     |  |  |  | ... |  |   Then 16 threads write each row of the transposed tile as 16 vectors: 256 bytes of memory.
 *
 * words.cu moves 4 bytes at a time. Here a tile has 16 vectors per row whatever the type: 256 bytes, two whole memory
 * lines, both in x and in y, for one V-th of transpose/lines.cu's instructions. 1- and 2-byte elements need that.
 *
 * Swizzle: a row of the shared tile is 256 bytes, so all vectors of a column would lie in the same 4 banks. Vector v of
 * row r is therefore stored at position v ^ (r / V). Eight threads whose stores are served together write rows r, r +
 * V, ... r + 7V, so at 8 different positions; reading a row only permutes its positions.
 *
 * Rows must begin on 16 bytes in x and in y. If they do not (8193 columns, say), words.cu's kernel takes over. Elements
 * of 4 and 8 bytes gain nothing, so transpose/lines.cu's kernel moves them.
 *
 * Measured on an H200, speed against a copy of the same bytes, cache evicted before: 0.95 for 2-byte elements and 0.94
 * for 1-byte elements at 8192 x 8192. */
#include "../lines.cuh"
#include "words.cuh"

#define SIDE    16 /* squares along a side of a tile; 256 threads */
#define BAND    8  /* tile rows per band */
#define THREADS (SIDE * SIDE)

/* V rows of a square, as vectors and as elements. */
template <typename T> union square {
    static constexpr int V = 16 / sizeof(T);
    uint4 vector[V];
    T element[V][V];
};

/* The tile that a block works on. Tiles are numbered in bands of BAND tile rows, down each column of the band. Blocks
 * that run together then write contiguous runs of BAND * 256 bytes of y. */
__device__ inline tile_position banded_tile(int64_t tile_rows, int64_t tile_columns) {
    const int64_t number = block_number();
    const int64_t batch = quotient(number, tile_rows * tile_columns);
    const int64_t inside = number - batch * tile_rows * tile_columns;
    const int64_t first = quotient(inside, BAND * tile_columns) * BAND;
    const int64_t height = min(int64_t(BAND), tile_rows - first);
    const int64_t place = inside - first * tile_columns;
    const int64_t column = quotient(place, height);
    return {batch, first + place - column * height, column};
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    transpose_swizzled_kernel(const __grid_constant__ transpose_args args, int64_t tile_rows, int64_t tile_columns) {
    constexpr int V = square<T>::V, TILE = SIDE * V;
    extern __shared__ uint4 shared[]; /* [TILE][SIDE] */
    const tile_position tile = banded_tile(tile_rows, tile_columns);
    if (tile.batch >= args.batch) return;
    const int thread = int(threadIdx.x), i = thread / SIDE, j = thread % SIDE;
    const int64_t matrix = tile.batch * args.rows * args.cols;
    const int64_t row = tile.row * TILE, column = tile.column * TILE;

    square<T> in, out;
    const T *const x = static_cast<const T *>(args.x) + matrix + (row + i * V) * args.cols + column + j * V;
    if (row + i * V < args.rows && column + j * V < args.cols)
#pragma unroll
        for (int r = 0; r < V; r++) in.vector[r] = *reinterpret_cast<const uint4 *>(x + r * args.cols);
#pragma unroll
    for (int r = 0; r < V; r++)
#pragma unroll
        for (int c = 0; c < V; c++) out.element[c][r] = in.element[r][c];
#pragma unroll
    for (int c = 0; c < V; c++) shared[(j * V + c) * SIDE + (i ^ j)] = out.vector[c];
    __syncthreads();

    T *const y = static_cast<T *>(args.y) + matrix + column * args.rows + row + j * V;
#pragma unroll
    for (int r = 0; r < V; r++) {
        const int at = i + r * SIDE; /* row of y's tile */
        if (row + j * V < args.rows && column + at < args.cols)
            *reinterpret_cast<uint4 *>(y + at * args.rows) = shared[at * SIDE + (j ^ (at / V))];
    }
}

/* Starts the kernel of this file, for rows and columns of whole units. Returns 0 or a cudaError_t. */
template <typename T> static int launch_aligned(const struct launch *launch) {
    constexpr int TILE = SIDE * square<T>::V, BYTES = TILE * SIDE * int(sizeof(uint4));
    const transpose_args &args = launch->args.transpose;
    const int64_t tile_rows = ceil_div(args.rows, TILE), tile_columns = ceil_div(args.cols, TILE);
    const int64_t blocks = args.batch * tile_rows * tile_columns;
    if (blocks == 0) return 0;
    const cudaError_t error =
        cudaFuncSetAttribute(transpose_swizzled_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
    if (error != cudaSuccess) return error;
    transpose_swizzled_kernel<T><<<grid_of(blocks), THREADS, BYTES, stream_of(launch)>>>(args, tile_rows, tile_columns);
    return cudaGetLastError();
}

/* kernel->launch: elements of 4 or 8 bytes go by lines, and small ones by words unless rows and columns are of whole
 * units. */
static int transpose_swizzled_launch(const struct launch *launch) {
    const transpose_args &args = launch->args.transpose;
    return dispatch_size(launch->dtype, [&](auto element) -> int {
        using T = decltype(element);
        if constexpr (sizeof(T) >= 4)
            return transpose_lines_of<T>(launch);
        else
            return (args.rows | args.cols) % square<T>::V == 0 ? launch_aligned<T>(launch)
                                                               : transpose_words_of<T>(launch);
    });
}

KERNEL(transpose_swizzled) = {
    .name = "swizzled",
    .op = OP_TRANSPOSE,
    .device = DEVICE_CUDA,
    .summary = "16-byte accesses both ways, squares turned in registers, swizzled shared tile",
    .dtypes = DTYPES_ALL,
    .edges = {{256, 128, 64, 16, 8, BAND * 128}, {256, 128, 64, 16, 8, words_width<uint8_t>, words_width<uint16_t>}},
    .accuracy = ACCURACY_FULL,
    .near_roof = true,
    .compute_capability = 80,
    .launch = transpose_swizzled_launch,
};
