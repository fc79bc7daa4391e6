/* wgmma.cuh - Hopper's tensor core instruction: four warps together multiply a 64-row slice of A by a slice of B. Both
 * lie in shared memory; the sums are spread over the warps' registers.
 *
 *     D (64 x N, float) += A (64 x 16) * B (16 x N)        N: a multiple of 16, at most 256
 *
 * The 16 elements of k are 32 bytes.
 *
 * Each operand lies in slabs (tma.cuh), 64 rows of 128 bytes. A row-major A or a transposed B is "K-major": a slab is
 * 64 rows of m or n with 64 of k each. The others are "MN-major": a slab is 64 rows of k with 64 of m or n each. The
 * instruction reads 16-bit types either way, so transposition costs nothing. TF32 (8 of k per instruction) needs both
 * operands K-major.
 *
 * Of D, warp w of the four holds rows 16w .. 16w+15. Thread t of that warp holds two rows of these, and two of every 8
 * columns:
 *
 *     d[4j], d[4j+1]    row t/4,     columns 8j + t%4 * 2, + 1
 *     d[4j+2], d[4j+3]  row t/4 + 8, the same columns
 *
 * Names, layouts and descriptors: PTX ISA, "Asynchronous warpgroup level matrix instructions". */
#ifndef KERNELS_WGMMA_CUH
#define KERNELS_WGMMA_CUH

#if defined __CUDA_ARCH__ && __CUDA_ARCH__ == 900 && !defined __CUDA_ARCH_FEAT_SM90_ALL
#error "wgmma needs 9.0a: the Makefile compiles for it what says `.only_below = 100`, and the NAME_*.cu beside it"
#endif

#include "../../core/tma.cuh"
#include "../matmul.cuh"
#include <algorithm>

/* ---- operands in shared memory --------------------------------------------------------------------------------- */

/* The descriptor of an operand whose first slab is at `slab`, with the 128-byte swizzle. Groups of 8 rows are 1024
 * bytes apart; along m or n the next 64 elements are one slab away. */
__device__ inline uint64_t wgmma_operand(const void *slab) {
    const uint64_t leading = SLAB_BYTES >> 4, stride = 1024 >> 4, swizzle_128 = 1;
    return uint64_t((shared_address(slab) & 0x3ffff) >> 4) | leading << 16 | stride << 32 | swizzle_128 << 62;
}

/* The amount to add to a descriptor for the next instruction (32 bytes further along k). */
template <bool MN_MAJOR> constexpr uint64_t wgmma_step = MN_MAJOR ? 16 * 128 >> 4 : 32 >> 4;

/* ---- the instructions ------------------------------------------------------------------------------------------ */

__device__ inline void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Waits until all but the last `PENDING` groups are done. */
template <int PENDING> __device__ inline void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/* Keeps the compiler from moving arithmetic on these registers across this point. Moved past the next instruction, it
 * would need twice the registers, and the compiler would then serialize the instructions (ptxas C7511). */
template <int N> __device__ inline void wgmma_pin(float (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}

#define WGMMA_SUMS_8(d, i)                                                                                             \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]),        \
        "+f"(d[i + 7])
#define WGMMA_SUMS_16(d)  WGMMA_SUMS_8(d, 0), WGMMA_SUMS_8(d, 8)
#define WGMMA_SUMS_24(d)  WGMMA_SUMS_16(d), WGMMA_SUMS_8(d, 16)
#define WGMMA_SUMS_32(d)  WGMMA_SUMS_24(d), WGMMA_SUMS_8(d, 24)
#define WGMMA_SUMS_40(d)  WGMMA_SUMS_32(d), WGMMA_SUMS_8(d, 32)
#define WGMMA_SUMS_48(d)  WGMMA_SUMS_40(d), WGMMA_SUMS_8(d, 40)
#define WGMMA_SUMS_56(d)  WGMMA_SUMS_48(d), WGMMA_SUMS_8(d, 48)
#define WGMMA_SUMS_64(d)  WGMMA_SUMS_56(d), WGMMA_SUMS_8(d, 56)
#define WGMMA_SUMS_72(d)  WGMMA_SUMS_64(d), WGMMA_SUMS_8(d, 64)
#define WGMMA_SUMS_80(d)  WGMMA_SUMS_72(d), WGMMA_SUMS_8(d, 72)
#define WGMMA_SUMS_88(d)  WGMMA_SUMS_80(d), WGMMA_SUMS_8(d, 80)
#define WGMMA_SUMS_96(d)  WGMMA_SUMS_88(d), WGMMA_SUMS_8(d, 88)
#define WGMMA_SUMS_104(d) WGMMA_SUMS_96(d), WGMMA_SUMS_8(d, 96)
#define WGMMA_SUMS_112(d) WGMMA_SUMS_104(d), WGMMA_SUMS_8(d, 104)
#define WGMMA_SUMS_120(d) WGMMA_SUMS_112(d), WGMMA_SUMS_8(d, 112)
#define WGMMA_SUMS_128(d) WGMMA_SUMS_120(d), WGMMA_SUMS_8(d, 120)

#define WGMMA_NAMES_8   "%0, %1, %2, %3, %4, %5, %6, %7"
#define WGMMA_NAMES_16  WGMMA_NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_NAMES_24  WGMMA_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_NAMES_32  WGMMA_NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_NAMES_40  WGMMA_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_NAMES_48  WGMMA_NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_NAMES_56  WGMMA_NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_NAMES_64  WGMMA_NAMES_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_NAMES_72  WGMMA_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define WGMMA_NAMES_80  WGMMA_NAMES_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_NAMES_88  WGMMA_NAMES_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define WGMMA_NAMES_96  WGMMA_NAMES_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_NAMES_104 WGMMA_NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define WGMMA_NAMES_112 WGMMA_NAMES_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_NAMES_120 WGMMA_NAMES_112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define WGMMA_NAMES_128 WGMMA_NAMES_120 ", %120, %121, %122, %123, %124, %125, %126, %127"

/* One instruction with both operands in shared memory; the last five arguments are numbers of asm operands. */
#define WGMMA_SHARED(SHAPE, TYPE, NAMES, A, B, ACCUMULATE, A_MN, B_MN)                                                 \
    "{ .reg .pred accumulate; setp.ne.b32 accumulate, %" #ACCUMULATE ", 0;\n"                                          \
    "wgmma.mma_async.sync.aligned." SHAPE ".f32." TYPE "." TYPE " {" NAMES "}, "                                       \
    "%" #A ", %" #B ", accumulate, 1, 1, %" #A_MN ", %" #B_MN "; }"

/* N = 2 * COUNT; the numbers are those of the operands after the sums. */
#define WGMMA_OF(COUNT, SHAPE, SUMS, NAMES, ...)                                                                       \
    template <typename T, bool A_MN, bool B_MN>                                                                        \
    __device__ inline void wgmma(float(&d)[COUNT], uint64_t a, uint64_t b) {                                           \
        if constexpr (std::is_same_v<T, __half>)                                                                       \
            asm volatile(WGMMA_SHARED(SHAPE, "f16", NAMES, __VA_ARGS__)                                                \
                         : SUMS                                                                                        \
                         : "l"(a), "l"(b), "n"(1), "n"(A_MN), "n"(B_MN));                                              \
        else                                                                                                           \
            asm volatile(WGMMA_SHARED(SHAPE, "bf16", NAMES, __VA_ARGS__)                                               \
                         : SUMS                                                                                        \
                         : "l"(a), "l"(b), "n"(1), "n"(A_MN), "n"(B_MN));                                              \
    }
WGMMA_OF(8, "m64n16k16", WGMMA_SUMS_8(d, 0), WGMMA_NAMES_8, 8, 9, 10, 11, 12)
WGMMA_OF(16, "m64n32k16", WGMMA_SUMS_16(d), WGMMA_NAMES_16, 16, 17, 18, 19, 20)
WGMMA_OF(24, "m64n48k16", WGMMA_SUMS_24(d), WGMMA_NAMES_24, 24, 25, 26, 27, 28)
WGMMA_OF(32, "m64n64k16", WGMMA_SUMS_32(d), WGMMA_NAMES_32, 32, 33, 34, 35, 36)
WGMMA_OF(40, "m64n80k16", WGMMA_SUMS_40(d), WGMMA_NAMES_40, 40, 41, 42, 43, 44)
WGMMA_OF(48, "m64n96k16", WGMMA_SUMS_48(d), WGMMA_NAMES_48, 48, 49, 50, 51, 52)
WGMMA_OF(56, "m64n112k16", WGMMA_SUMS_56(d), WGMMA_NAMES_56, 56, 57, 58, 59, 60)
WGMMA_OF(64, "m64n128k16", WGMMA_SUMS_64(d), WGMMA_NAMES_64, 64, 65, 66, 67, 68)
WGMMA_OF(72, "m64n144k16", WGMMA_SUMS_72(d), WGMMA_NAMES_72, 72, 73, 74, 75, 76)
WGMMA_OF(80, "m64n160k16", WGMMA_SUMS_80(d), WGMMA_NAMES_80, 80, 81, 82, 83, 84)
WGMMA_OF(88, "m64n176k16", WGMMA_SUMS_88(d), WGMMA_NAMES_88, 88, 89, 90, 91, 92)
WGMMA_OF(96, "m64n192k16", WGMMA_SUMS_96(d), WGMMA_NAMES_96, 96, 97, 98, 99, 100)
WGMMA_OF(104, "m64n208k16", WGMMA_SUMS_104(d), WGMMA_NAMES_104, 104, 105, 106, 107, 108)
WGMMA_OF(112, "m64n224k16", WGMMA_SUMS_112(d), WGMMA_NAMES_112, 112, 113, 114, 115, 116)
WGMMA_OF(120, "m64n240k16", WGMMA_SUMS_120(d), WGMMA_NAMES_120, 120, 121, 122, 123, 124)
WGMMA_OF(128, "m64n256k16", WGMMA_SUMS_128(d), WGMMA_NAMES_128, 128, 129, 130, 131, 132)

/* N = 256, TF32. A comes from registers: a thread's four values of a 64 x 8 slice are rows t/4 and t/4 + 8 in column
 * t%4, then the same rows in column t%4 + 4. B comes from shared memory, K-major. */
__device__ inline void wgmma_tf32(float (&d)[128], const uint32_t (&a)[4], uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32 {" WGMMA_NAMES_128 "}, "
                 "{%128, %129, %130, %131}, %132, 1, 1, 1;"
                 : WGMMA_SUMS_128(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/* N = 128. Without `accumulate` the sums start at zero. */
template <typename T, bool A_MN, bool B_MN>
__device__ inline void wgmma(float (&d)[64], uint64_t a, uint64_t b, bool accumulate) {
    static_assert(std::is_same_v<T, __half>);
    asm volatile(WGMMA_SHARED("m64n128k16", "f16", WGMMA_NAMES_64, 64, 65, 66, 67, 68)
                 : WGMMA_SUMS_64(d)
                 : "l"(a), "l"(b), "r"(int(accumulate)), "n"(A_MN), "n"(B_MN));
}

/* ---- the roles of warps ----------------------------------------------------------------------------------------- */

/* A block of 384 threads is three warpgroups: a producer, of which one thread starts copies, and two consumers, each of
 * which multiplies 64 rows of the block's tile. The producer gives registers to the consumers. Registers are allotted
 * in multiples of 8, and the sum must stay what 384 threads start with, 168 each: 56 + 2 * 224 = 3 * 168. With two
 * blocks per multiprocessor a thread has 80 registers, enough for a narrow tile's 32 sums, and none change hands. */
#define WGMMA_THREADS      384
#define WARPGROUP          128
#define PRODUCER_REGISTERS 56
#define CONSUMER_REGISTERS 224

template <int REGISTERS> __device__ inline void registers_release() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS> __device__ inline void registers_take() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

/* So many threads of a block, of whole warpgroups, wait for each other. */
template <int BARRIER, int THREADS> __device__ inline void warpgroups_sync() {
    asm volatile("bar.sync %0, %1;" ::"n"(BARRIER), "n"(THREADS) : "memory");
}

/* The threads of this warpgroup wait for each other. */
__device__ inline void warpgroup_sync(int barrier) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(WARPGROUP) : "memory");
}

/* The two blocks of a pair lie one below the other in C and share their tile of B: each fetches half of it for both.
 *
 *        B  | half 0 | half 1 |          TILE_N = 64 * B_SLABS
 *     A 0   |    block 0      |  128 rows, two consumers of 64
 *     A 1   |    block 1      |  128 rows
 *
 * Half of B is half of its slabs; if B has an odd number of slabs, it is counted in halves of a slab, 32 of its 64 rows
 * of 128 bytes.
 *
 * A cluster may hold several pairs, which then work on one tile, each on its own piece of k (wgmma_piece). In the
 * cluster, x is a block's place in its pair and y is the number of the pair; the grid is as high as the cluster.
 *
 * Operands may come in slices (split.cu): all matrices of the first slice, then all of the next. */
#define WGMMA_CLUSTER 2
#define WGMMA_TILE_M  128

template <int SLICES_, int B_SLABS_> struct wgmma_stage {
    static constexpr int SLICES = SLICES_, B_SLABS = B_SLABS_;
    static constexpr int B_BOX = B_SLABS % WGMMA_CLUSTER ? 64 / WGMMA_CLUSTER : 64; /* rows of 128 bytes per copy */
    uint8_t a[SLICES][WGMMA_TILE_M / 64][SLAB_BYTES], b[SLICES][B_SLABS][SLAB_BYTES];
};

template <typename STAGE, int STAGES> struct wgmma_shared {
    STAGE stage[STAGES];
    ring_barriers<STAGES> ring;
};

/* The operands as memory holds them. */
inline tma_stack wgmma_stack_a(const matmul_args &args) {
    const int64_t rows = args.transpose_a ? args.k : args.m, columns = args.transpose_a ? args.m : args.k;
    return {args.a, args.a_batch_stride ? args.batch : 1, rows, columns, columns, args.a_batch_stride};
}

inline tma_stack wgmma_stack_b(const matmul_args &args) {
    const int64_t rows = args.transpose_b ? args.n : args.k, columns = args.transpose_b ? args.k : args.n;
    return {args.b, args.b_batch_stride ? args.batch : 1, rows, columns, columns, args.b_batch_stride};
}

inline int64_t wgmma_tiles(const matmul_args &args, int tile_n) {
    return args.batch * ceil_div(args.m, WGMMA_CLUSTER * WGMMA_TILE_M) * ceil_div(args.n, tile_n);
}

/* This block's place in the cluster's tile `number`: batch, row and column of C. Clusters walk down bands of 8 tiles,
 * so that clusters running at the same time share operands in L2. */
__device__ inline tile_place wgmma_tile(const matmul_args &args, int tile_n, int64_t number) {
    const int64_t band = 8, height = WGMMA_CLUSTER * WGMMA_TILE_M;
    const int64_t rows = (args.m + height - 1) / height, columns = (args.n + tile_n - 1) / tile_n;
    /* A small product has one matrix and one band, and no time to divide. */
    const int64_t batch = number < rows * columns ? 0 : quotient(number, rows * columns);
    const int64_t place = number - batch * rows * columns;
    const int64_t first = place < band * columns ? 0 : quotient(place, band * columns) * band;
    const int64_t tall = min(band, rows - first);
    const int64_t in_band = place - first * columns, column = quotient(in_band, tall);
    const int64_t row = first + in_band - column * tall;
    return {batch, row * height + cluster_column() * WGMMA_TILE_M, column * tile_n};
}

/* A block's piece of k, and the rank in the cluster of the first block of its pair. */
struct wgmma_piece {
    int64_t begin, end;
    uint32_t pair;
};

__device__ inline wgmma_piece wgmma_all_of_k(const matmul_args &args) {
    return {0, args.k, 0};
}

/* A block's piece of k: all of it, unless the grid is several pairs high. Every piece but the last is a whole number of
 * steps; the last may be empty. */
__device__ inline wgmma_piece wgmma_piece_of_block(const matmul_args &args, int step) {
    if (gridDim.y == 1) return wgmma_all_of_k(args);
    const int64_t each = quotient(args.k + gridDim.y * step - 1, gridDim.y * step) * step, begin = blockIdx.y * each;
    return {begin, min(begin + each, args.k), blockIdx.y * WGMMA_CLUSTER};
}

/* The producer thread keeps the ring full: it copies this block's tile of A, and this block's half of B for both. */
template <int TILE_K, bool A_MN, bool B_MN, typename STAGE, int STAGES>
__device__ inline void wgmma_produce(const matmul_args &args, const CUtensorMap *a_map, const CUtensorMap *b_map,
                                     wgmma_shared<STAGE, STAGES> &shared, int64_t tiles, const wgmma_piece &piece) {
    constexpr int B_BOX = STAGE::B_BOX, HALF = STAGE::B_SLABS * 64 / B_BOX / WGMMA_CLUSTER;
    constexpr int B_BOXES = 64 / B_BOX; /* in a slab; where B lies along n, the next one of a slab is further along k */
    constexpr int A_BOX = A_MN ? TILE_K : 64; /* rows of A (m) per copy; each takes 128 bytes of the tile */
    const int half = int(cluster_column()) * HALF;
    const uint16_t both = uint16_t(((1 << WGMMA_CLUSTER) - 1) << piece.pair);
    const int a_count = args.a_batch_stride ? int(args.batch) : 1, b_count = args.b_batch_stride ? int(args.batch) : 1;
    ring_position<STAGES> at;
    for (int64_t number = blockIdx.x / WGMMA_CLUSTER; number < tiles; number += gridDim.x / WGMMA_CLUSTER) {
        const tile_place tile = wgmma_tile(args, STAGE::B_SLABS * 64, number);
        const int row = int(tile.row), column = int(tile.column);
        const int a_matrix = a_count > 1 ? int(tile.batch) : 0, b_matrix = b_count > 1 ? int(tile.batch) : 0;
        for (int64_t k = piece.begin; k < piece.end; k += TILE_K, at.advance()) {
            STAGE &stage = shared.stage[at.stage];
            uint64_t *full = &shared.ring.full[at.stage];
            mbarrier_wait(&shared.ring.empty[at.stage], at.phase ^ 1);
            mbarrier_expect(full, sizeof stage);
            for (int slice = 0; slice < STAGE::SLICES; slice++) {
                for (int i = 0; i < WGMMA_TILE_M; i += A_BOX) {
                    const int m = row + i;
                    tma_load(a_map, stage.a[slice][0] + i * 128, full, A_MN ? m : int(k), A_MN ? int(k) : m,
                             slice * a_count + a_matrix);
                }
#pragma unroll(HALF % 2 ? 1 : HALF) /* an odd number, unrolled, would need more registers than the producer has */
                for (int i = half; i < half + HALF; i++) {
                    const int n = column + (B_MN ? i / B_BOXES * 64 : i * B_BOX);
                    const int l = int(k) + (B_MN ? i % B_BOXES * B_BOX : 0);
                    tma_load(b_map, stage.b[slice][0] + i * B_BOX * 128, full, B_MN ? n : l, B_MN ? l : n,
                             slice * b_count + b_matrix, both);
                }
            }
        }
    }
}

/* A consumer releases a stage in both blocks of the pair, because the producers of both write to it. Two threads signal
 * one block each. */
template <int STAGES> __device__ inline void wgmma_release(ring_barriers<STAGES> &ring, int stage, uint32_t pair = 0) {
    const unsigned thread = threadIdx.x % WARPGROUP;
    if (thread < WGMMA_CLUSTER) mbarrier_arrive(&ring.empty[stage], pair + thread);
}

/* The frame of a kernel: barriers, roles, and a last cluster barrier, because a block must stay until the other one's
 * copies and signals to it have arrived. BLOCKS: per multiprocessor. */
template <int BLOCKS = 1, int STAGES, typename PRODUCE, typename CONSUME>
__device__ inline void wgmma_roles(ring_barriers<STAGES> &ring, PRODUCE &&produce, CONSUME &&consume) {
    if (threadIdx.x == 0) ring.init(2 * WGMMA_CLUSTER);
    cluster_sync();
    if (threadIdx.x < WARPGROUP) {
        if constexpr (BLOCKS == 1) registers_release<PRODUCER_REGISTERS>();
        if (threadIdx.x < 32 && elect_one()) produce();
        __syncwarp();
    } else {
        if constexpr (BLOCKS == 1) registers_take<CONSUMER_REGISTERS>();
        consume(int(threadIdx.x) / WARPGROUP - 1);
    }
    cluster_sync();
}

/* The reason why such a kernel cannot do a product of these sizes; NULL: it can. Only 9.0a has these instructions; for
 * other architectures the kernel is compiled empty. TMA counts in 32 bits. */
inline const char *wgmma_refuses(std::initializer_list<int64_t> sizes) {
    if (!TILERUN_SM90A) return "this build has no code for compute capability 9.0a (CUDA_ARCHS)";
    return std::max(sizes) > INT32_MAX ? "a dimension is beyond 2^31 - 1" : nullptr;
}

struct wgmma_grid {
    int64_t tiles;
    int blocks = 1; /* per multiprocessor */
    int pieces = 1; /* of k: pairs in a cluster; above 1, a cluster does one tile */
};

/* Starts a kernel on one cluster per tile; where clusters can take tile after tile, on no more than run at the same
 * time. */
template <typename... PARAMETERS, typename... ARGUMENTS>
int wgmma_start(const struct launch *launch, const wgmma_grid &grid, size_t shared_bytes, void (*kernel)(PARAMETERS...),
                const ARGUMENTS &...arguments) {
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared_bytes));
    if (error) return error;
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {WGMMA_CLUSTER, unsigned(grid.pieces), 1};
    cudaLaunchConfig_t config = {};
    const int64_t room = std::max(1, launch->multiprocessors * grid.blocks / WGMMA_CLUSTER);
    const int64_t clusters = grid.pieces > 1 ? grid.tiles : std::min(grid.tiles, room);
    config.gridDim = dim3(unsigned(clusters * WGMMA_CLUSTER), unsigned(grid.pieces));
    config.blockDim = WGMMA_THREADS;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream_of(launch);
    config.attrs = &cluster;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, arguments..., grid.tiles);
}

#endif
