/* tma.cuh - Hopper's bulk tensor copies (TMA): one instruction of one thread copies a tile of a matrix to shared
 * memory, and other threads learn at a barrier that it has arrived.
 *
 * The host describes a stack of matrices once, in a tensor map. A thread then names the place of a box in it, a place
 * in shared memory and an mbarrier. The copy engine computes addresses, fills zeros beyond an edge, swizzles, and
 * reports the bytes to the barrier. With multicast it writes the same box into several blocks of a cluster.
 *
 * A box here is rows of 128 bytes, for some results of less; 64 rows make a slab. The 128-byte swizzle stores the
 * 16-byte vector p of row r at position p ^ r % 8 of the same row, so that eight rows of one column lie in different
 * banks. Tensor cores read that pattern directly. Names and semantics: PTX ISA, "Asynchronous copies" and "mbarrier".
 */
#ifndef KERNELS_TMA_CUH
#define KERNELS_TMA_CUH

#include "cluster.cuh"
#include "launch.cuh"
#include "shared.cuh"
#include <cuda.h>

#define SLAB_BYTES (64 * 128) /* a slab's address is a multiple of 1024, which the swizzle requires */

/* ---- host: tensor maps ----------------------------------------------------------------------------------------- */

/* A stack of `count` row-major matrices, `rows` x `columns`, as TMA sees it. */
struct tma_stack {
    const void *base;
    int64_t count, rows, columns;
    int64_t pitch, stride; /* elements from row to row, from matrix to matrix */
};

/* Fills `map` for a stack of elements of `element` bytes. Its boxes are `box_rows` rows of `row_bytes` bytes, 128, 64
 * or 32, swizzled. Returns 0 or a cudaError_t. The encoder is a function of the driver, which is not linked, so its
 * address is looked up. */
inline int tma_encode(CUtensorMap *map, CUtensorMapDataType type, size_t element, const tma_stack &stack, int box_rows,
                      size_t row_bytes = 128) {
    using encoder = decltype(cuTensorMapEncodeTiled) *;
    static const encoder encode = [] {
        void *symbol = nullptr;
        cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &symbol, 12000, cudaEnableDefault, &found);
#else
        cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &symbol, cudaEnableDefault, &found);
#endif
        return reinterpret_cast<encoder>(symbol);
    }();
    if (!encode) return cudaErrorNotSupported;

    const cuuint64_t size[] = {cuuint64_t(stack.columns), cuuint64_t(stack.rows), cuuint64_t(stack.count)};
    /* The stride of a single matrix has no meaning, but must be valid. */
    const cuuint64_t pitch = cuuint64_t(stack.pitch) * element;
    const cuuint64_t step[] = {pitch, stack.count > 1 ? cuuint64_t(stack.stride) * element : pitch};
    const cuuint32_t box[] = {cuuint32_t(row_bytes / element), cuuint32_t(box_rows), 1}, every[] = {1, 1, 1};
    const CUtensorMapSwizzle swizzle = row_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                                       : row_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                         : CU_TENSOR_MAP_SWIZZLE_32B;
    /* L2 asks for 128 bytes at a time: with 256, products whose rows begin within a line took 12 % longer. */
    const CUresult result =
        encode(map, type, 3, const_cast<void *>(stack.base), size, step, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE,
               swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

/* ---- device ---------------------------------------------------------------------------------------------------- */

/* Makes a barrier whose phases are complete after `arrivals` arrivals and the bytes that these announce. */
__device__ inline void mbarrier_init(uint64_t *barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

/* Makes the barriers that this thread has initialised visible to other blocks of the cluster and the copy engine. */
__device__ inline void mbarrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* Arrives, and announces `bytes` that copies will deliver before the phase is complete. */
__device__ inline void mbarrier_expect(uint64_t *barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

/* Arrives at the same barrier in block `rank` of the cluster. */
__device__ inline void mbarrier_arrive(uint64_t *barrier, uint32_t rank) {
    asm volatile("{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [remote]; }" ::"r"(shared_address(barrier)),
                 "r"(rank)
                 : "memory");
}

/* Waits until the barrier's phase of this parity is complete: phases have parity 0, 1, 0, 1 ... */
__device__ inline void mbarrier_wait(uint64_t *barrier, uint32_t parity) {
    asm volatile("{ .reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again; }" ::"r"(shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

/* Copies `bytes` of this block's shared memory to block `rank`'s. `to` and `barrier` are addresses in this block; the
 * bytes go to, and are reported to, the same addresses in the other. All threads that wrote `from` call tma_store_fence
 * before, and a barrier comes in between. `from` must not change until the other block's barrier is complete. */
__device__ inline void shared_copy(void *to, const void *from, uint32_t bytes, uint64_t *barrier, uint32_t rank) {
    asm volatile(
        "{ .reg .b32 there, report;\n"
        "mapa.shared::cluster.u32 there, %0, %4;\n"
        "mapa.shared::cluster.u32 report, %3, %4;\n"
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [there], [%1], %2, [report]; }" ::"r"(
            shared_address(to)),
        "r"(shared_address(from)), "r"(bytes), "r"(shared_address(barrier)), "r"(rank)
        : "memory");
}

/* Returns true for one thread of a warp, the same one every time; all of the warp's threads must call it. Copies are
 * started under this condition: if the compiler does not know that a single thread starts a copy, it makes a loop over
 * threads, which took 63 ns per copy. */
__device__ inline bool elect_one() {
    uint32_t elected;
    asm volatile("{ .reg .pred one;\n"
                 "elect.sync _|one, 0xffffffff;\n"
                 "selp.u32 %0, 1, 0, one; }"
                 : "=r"(elected));
    return elected;
}

/* Prefetches a tensor map, so that the first copy does not wait for it. */
__device__ inline void tma_prefetch(const CUtensorMap *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Copies the box at (column, row) of matrix `matrix` to `to`, in each block of the cluster whose bit is set in
 * `blocks`. */
__device__ inline void tma_load(const CUtensorMap *map, void *to, uint64_t *barrier, int column, int row, int matrix,
                                uint16_t blocks) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(shared_address(to)),
                 "l"(map), "r"(shared_address(barrier)), "r"(column), "r"(row), "r"(matrix), "h"(blocks)
                 : "memory");
}

/* Copies the box at (column, row) of matrix `matrix` to `to` in this block's shared memory only. */
__device__ inline void tma_load(const CUtensorMap *map, void *to, uint64_t *barrier, int column, int row, int matrix) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(shared_address(to)),
                 "l"(map), "r"(shared_address(barrier)), "r"(column), "r"(row), "r"(matrix)
                 : "memory");
}

/* Stores the box at `from` to (column, row) of matrix `matrix`, without the elements beyond an edge. All threads that
 * wrote the box call tma_store_fence before, and a barrier comes in between. A thread's stores since its last
 * tma_store_commit form a group. */
__device__ inline void tma_store(const CUtensorMap *map, const void *from, int column, int row, int matrix) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
                 "r"(shared_address(from)), "r"(column), "r"(row), "r"(matrix)
                 : "memory");
}
__device__ inline void tma_store_fence() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void tma_store_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/* Waits until all but the last `PENDING` groups of this thread have been read from shared memory. */
template <int PENDING> __device__ inline void tma_store_wait() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

/* ---- a ring of stages ------------------------------------------------------------------------------------------ */

/* One producer fills stages, consumers empty them. `full` expects one arrival: the producer's, which announces the
 * bytes. `empty` expects `consumers` arrivals: one from each warpgroup that reads what the producer copies. */
template <int STAGES> struct ring_barriers {
    uint64_t full[STAGES], empty[STAGES];

    __device__ void init(int consumers) {
        for (int i = 0; i < STAGES; i++) {
            mbarrier_init(&full[i], 1);
            mbarrier_init(&empty[i], consumers);
        }
        mbarrier_init_fence();
    }
};

/* A thread's position in the ring. It waits at `full` for parity `phase`, at `empty` for the opposite parity, which
 * passes at once in the first round. */
template <int STAGES> struct ring_position {
    int stage = 0;
    uint32_t phase = 0;

    __device__ void advance() {
        if (++stage == STAGES) {
            stage = 0;
            phase ^= 1;
        }
    }
};

#endif
