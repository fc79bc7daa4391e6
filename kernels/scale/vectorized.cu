/* scale/vectorized.cu - 16 bytes at a time, four loads in flight per thread.
 *
 *     block   |<-- 256 x 16 bytes -->|<-- 256 x 16 bytes -->|<-- ... -->|<-- ... -->|
 *     thread    0 1 2 3 ...             0 1 2 3 ...            load 2      load 3
 *
 * scale/simple.cu has one element in flight per thread. That is enough for 4 and 8 bytes, but a warp that reads 32
 * bytes of int8 at a time cannot keep the memory busy. Here a warp moves 512 bytes per instruction, whatever the type,
 * and all loads of a thread come before its first store. The elements after the last whole 16 bytes are computed one by
 * one. */
#include "scale.cuh"
#include <cstring>

#define THREADS 256
#define LOADS   4 /* 16-byte loads in flight per thread */

/* Computes 16 bytes of elements. */
template <typename T, typename V> __device__ inline uint4 scaled_unit(const uint4 &unit, V alpha, V beta) {
    T element[16 / sizeof(T)];
    memcpy(element, &unit, sizeof unit);
#pragma unroll
    for (int i = 0; i < int(16 / sizeof(T)); i++) element[i] = scaled(element[i], alpha, beta);
    uint4 result;
    memcpy(&result, element, sizeof result);
    return result;
}

/* Computes LOADS units of 16 bytes per thread; the first threads also compute the elements after the last whole
 * unit. */
template <typename T, typename V>
__global__ void __launch_bounds__(THREADS) scale_vectorized_kernel(int64_t count, V alpha, V beta, const T *x, T *y) {
    constexpr int PER_UNIT = 16 / sizeof(T);
    const int64_t units = count / PER_UNIT, first = block_number() * (THREADS * LOADS) + threadIdx.x;
    const auto *from = reinterpret_cast<const uint4 *>(x);
    auto *to = reinterpret_cast<uint4 *>(y);
    uint4 unit[LOADS];
#pragma unroll
    for (int i = 0; i < LOADS; i++)
        if (first + i * THREADS < units) unit[i] = from[first + i * THREADS];
#pragma unroll
    for (int i = 0; i < LOADS; i++)
        if (first + i * THREADS < units) to[first + i * THREADS] = scaled_unit<T>(unit[i], alpha, beta);
    const int64_t last = units * PER_UNIT + first; /* the first block's first threads take the remaining elements */
    if (last < count) y[last] = scaled(x[last], alpha, beta);
}

static int scale_vectorized_launch(const struct launch *launch) {
    const int64_t count = launch->args.scale.count;
    if (count == 0) return 0;
    return dispatch_scale(launch, [&](auto x, auto y, auto alpha, auto beta) -> int {
        const int64_t block = THREADS * LOADS * (16 / sizeof *x);
        scale_vectorized_kernel<<<grid_of(ceil_div(count, block)), THREADS, 0, stream_of(launch)>>>(count, alpha, beta,
                                                                                                    x, y);
        return cudaGetLastError();
    });
}

KERNEL(scale_vectorized) = {
    .name = "vectorized",
    .op = OP_SCALE,
    .device = DEVICE_CUDA,
    .summary = "16-byte loads and stores, four in flight per thread",
    .dtypes = DTYPES_ALL,
    .edges = {{16, THREADS *LOADS * 2, THREADS *LOADS * 4, THREADS *LOADS * 8, THREADS *LOADS * 16}},
    .accuracy = ACCURACY_FULL,
    .near_roof = true,
    .divisible = true,
    .compute_capability = 80,
    .launch = scale_vectorized_launch,
};
