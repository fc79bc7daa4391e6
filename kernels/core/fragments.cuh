/* fragments.cuh - wraps the tensor cores' instructions of compute capability 8.0, by which a warp multiplies small
 * matrices that are spread over its threads. */
#ifndef KERNELS_FRAGMENTS_CUH
#define KERNELS_FRAGMENTS_CUH

#include <cstdint>
#include <cuda_fp16.h>
#include <type_traits>

/* Loads four 8 x 8 matrices. Thread i gives the address of row i % 8 of matrix i / 8. From each matrix it receives two
 * neighbours of row i / 4 (TRANSPOSED: of column i / 4). */
template <bool TRANSPOSED> __device__ inline void load_matrices(uint32_t (&r)[4], unsigned address) {
    if constexpr (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(address)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(address)
                     : "memory");
}

/* D += A B for a 16 x 8 tile of D and 16 of k. Thread 4g + t of the warp holds (g, 2t), (g, 2t + 1), (g + 8, 2t),
 * (g + 8, 2t + 1) of D; the same elements of A, and those with k + 8; rows 2t, 2t + 1, 2t + 8 and 2t + 9 in column g
 * of B. */
template <typename T>
__device__ inline void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b_low, uint32_t b_high) {
    if constexpr (std::is_same_v<T, __half>)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
}

/* D += A B for a 16 x 8 tile of D and 4 of k. Thread 4g + t of the warp holds (row, column)
 *     A  (g, t), (g + 8, t)      B  (t, g)      D  (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1) */
__device__ inline void multiply(double (&d)[4], const double (&a)[2], double b) {
#if __CUDA_ARCH__ >= 900
    asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
        : "d"(a[0]), "d"(a[1]), "d"(b));
#else
#pragma unroll
    for (int half = 0; half < 2; half++)
        asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
            : "+d"(d[2 * half]), "+d"(d[2 * half + 1])
            : "d"(a[half]), "d"(b));
#endif
}

/* A warp's sums: ROWS x COLUMNS tiles of D, each of 16 x 8, spread over the threads as multiply() has them. */
template <typename S, int ROWS, int COLUMNS> struct fragment_sums {
    S sums[ROWS][COLUMNS][4];

    __device__ void clear() {
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) sums[i][j][e] = 0;
    }

    /* Calls put(row, column, sums) for each two neighbours of a row that the thread holds. Rows and columns are counted
     * from the thread's first sum, (g, 2t). */
    template <typename F> __device__ void each(F put) const {
#pragma unroll
        for (int i = 0; i < 2 * ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) put(i * 8, j * 8, &sums[i / 2][j][i % 2 * 2]);
    }
};

#endif
