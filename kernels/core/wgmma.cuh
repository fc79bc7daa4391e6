/* wgmma.cuh - Hopper's tensor core instruction: four warps together multiply a 64-row slice of A by a slice of B. Both
 * are in shared memory; the sums are spread over the warps' registers.
 *
 *     D (64 x N, float) += A (64 x 16) * B (16 x N)        N: a multiple of 16, at most 256
 *
 * The 16 elements of k are 32 bytes.
 *
 * Each operand lies in slabs (tma.cuh), 64 rows of 128 bytes. A row-major A or a transposed B is "K-major": a slab is
 * 64 rows of m or n with 64 of k each. The others are "MN-major": a slab is 64 rows of k with 64 of m or n each. The
 * bools A_MN and B_MN (MN, of one operand) tell templates whether A and B are MN-major. The instruction reads 16-bit
 * types either way, so transposition costs nothing. TF32 (8 of k per instruction) needs both operands K-major.
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
#error "wgmma needs 9.0a: the Makefile compiles for it the files with `.only_below = 100` and their NAME_*.cu"
#endif

#include "tma.cuh"
#include <cuda_fp16.h>
#include <type_traits>

/* ---- operands in shared memory --------------------------------------------------------------------------------- */

/* The descriptor of an operand whose first slab is at `slab`, with the 128-byte swizzle. Groups of 8 rows are 1024
 * bytes apart; along m or n the next 64 elements are one slab away. */
__device__ inline uint64_t wgmma_operand(const void *slab) {
    const uint64_t leading = SLAB_BYTES >> 4, stride = 1024 >> 4, swizzle_128 = 1;
    return uint64_t((shared_address(slab) & 0x3ffff) >> 4) | leading << 16 | stride << 32 | swizzle_128 << 62;
}

/* The amount to add to a descriptor for the next instruction (32 bytes further along k). */
template <bool MN> constexpr uint64_t wgmma_step = MN ? 16 * 128 >> 4 : 32 >> 4;

/* ---- the instructions ------------------------------------------------------------------------------------------ */

/* Orders a thread's earlier accesses to registers before the instructions that follow. */
__device__ inline void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/* Closes a group: all instructions that this warp has issued since the last group. */
__device__ inline void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Waits until all but the last PENDING groups are done. */
template <int PENDING> __device__ inline void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/* Keeps the compiler from moving arithmetic on these registers across this point. Arithmetic that it moved past the
 * next instruction would need twice the registers, and the instructions would then be serialized (ptxas C7511). */
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

/* The text of one instruction with both operands in shared memory; the last five arguments are numbers of asm
 * operands. */
#define WGMMA_SHARED(SHAPE, TYPE, NAMES, A, B, ACCUMULATE, A_MN, B_MN)                                                 \
    "{ .reg .pred accumulate; setp.ne.b32 accumulate, %" #ACCUMULATE ", 0;\n"                                          \
    "wgmma.mma_async.sync.aligned." SHAPE ".f32." TYPE "." TYPE " {" NAMES "}, "                                       \
    "%" #A ", %" #B ", accumulate, 1, 1, %" #A_MN ", %" #B_MN "; }"

/* Defines wgmma(d, a, b): adds the product of 64 x 16 of A and 16 x N of B to d, N = 2 * COUNT. `a` and `b` are
 * descriptors. The numbers are those of the asm operands after the sums. */
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

/* Adds the product of 64 x 8 of A and 8 x 256 of B to d, in TF32. A comes from registers: thread t of a warp holds rows
 * t/4 and t/4 + 8 in column t%4, then in column t%4 + 4. B comes from shared memory, K-major. */
__device__ inline void wgmma_tf32(float (&d)[128], const uint32_t (&a)[4], uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32 {" WGMMA_NAMES_128 "}, "
                 "{%128, %129, %130, %131}, %132, 1, 1, 1;"
                 : WGMMA_SUMS_128(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/* Adds the product of 64 x 32 of A and 32 x 256 of B to d, of signed bytes: sums are integers modulo 2^32. Both
 * operands are in shared memory, K-major. */
#define WGMMA_INTS_8(d, i)                                                                                             \
    "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), "+r"(d[i + 4]), "+r"(d[i + 5]), "+r"(d[i + 6]),        \
        "+r"(d[i + 7])
#define WGMMA_INTS_32(d, i) WGMMA_INTS_8(d, i), WGMMA_INTS_8(d, i + 8), WGMMA_INTS_8(d, i + 16), WGMMA_INTS_8(d, i + 24)
__device__ inline void wgmma_bytes(int (&d)[128], uint64_t a, uint64_t b) {
    asm volatile("{ .reg .pred accumulate; setp.ne.b32 accumulate, 1, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {" WGMMA_NAMES_128 "}, %128, %129, accumulate; }"
                 : WGMMA_INTS_32(d, 0), WGMMA_INTS_32(d, 32), WGMMA_INTS_32(d, 64), WGMMA_INTS_32(d, 96)
                 : "l"(a), "l"(b));
}

/* Multiplies 64 x 16 of A by 16 x 128 of B, in float16. `accumulate`: adds to d; else the product replaces d. */
template <typename T, bool A_MN, bool B_MN>
__device__ inline void wgmma(float (&d)[64], uint64_t a, uint64_t b, bool accumulate) {
    static_assert(std::is_same_v<T, __half>);
    asm volatile(WGMMA_SHARED("m64n128k16", "f16", WGMMA_NAMES_64, 64, 65, 66, 67, 68)
                 : WGMMA_SUMS_64(d)
                 : "l"(a), "l"(b), "r"(int(accumulate)), "n"(A_MN), "n"(B_MN));
}

#endif
