/* scale/simple.cu - y = alpha x + beta, one thread per element: the first CUDA program.
 *
 * Thread number i computes element i; threads beyond the end do nothing. Neighbouring threads touch neighbouring
 * elements, so each access of a warp is contiguous in memory. No data is used twice: one element is read and one
 * written, as modelled and as needed, so memory bandwidth limits the speed. Narrow types do not reach it: a warp reads
 * only 32 bytes of int8 at a time. scale/vectorized.cu reads 512.
 *
 * Integers compute modulo 2^64 and keep the low bits of their own size. Floats take one fused multiply-add in double,
 * whose time hides behind the memory's, and are rounded once more, to their own type. */
#include "scale.cuh"

#define THREADS 256

/* Computes one element per thread. */
template <typename T, typename V>
__global__ void __launch_bounds__(THREADS) scale_simple_kernel(int64_t count, V alpha, V beta, const T *x, T *y) {
    const int64_t i = block_number() * THREADS + threadIdx.x;
    if (i >= count) return;
    y[i] = scaled(x[i], alpha, beta);
}

static int scale_simple_launch(const struct launch *launch) {
    const int64_t count = launch->args.scale.count;
    if (count == 0) return 0;
    return dispatch_scale(launch, [&](auto x, auto y, auto alpha, auto beta) -> int {
        scale_simple_kernel<<<grid_of(ceil_div(count, THREADS)), THREADS, 0, stream_of(launch)>>>(count, alpha, beta, x,
                                                                                                  y);
        return cudaGetLastError();
    });
}

KERNEL(scale_simple) = {
    .name = "simple",
    .op = OP_SCALE,
    .device = DEVICE_CUDA,
    .summary = "one thread per element",
    .dtypes = DTYPES_ALL,
    .edges = {{THREADS}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .compute_capability = 80,
    .launch = scale_simple_launch,
};
