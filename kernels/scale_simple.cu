/* scale_simple.cu - y = alpha x + beta, one thread an element: the first CUDA program.
 *
 * Thread number i computes element i, and the threads beyond the end do nothing. Neighbouring threads touch
 * neighbouring elements, so each access of a warp is one run of memory. There is nothing to reuse: 1 element read and 1
 * written, as modelled and as needed; memory bandwidth is the whole story.
 *
 * Integers compute modulo 2^64 and keep the low bits of their own size. Floats take one fused multiply-add: in float
 * for float32 and the 16-bit floats, in double for float64. */
#include "dtype.cuh"
#include "launch.cuh"

#define THREADS 256

/* V: what the arithmetic is done in; uint64_t for integers of either sign, since modulo 2^64 they are the same. */
template <typename T, typename V>
__global__ void __launch_bounds__(THREADS) scale_simple_kernel(int64_t count, V alpha, V beta, const T *x, T *y) {
    const int64_t i = block_number() * THREADS + threadIdx.x;
    if (i >= count) return;
    const V value = static_cast<V>(widen(x[i]));
    if constexpr (std::is_integral_v<V>)
        y[i] = narrow<T>(alpha * value + beta);
    else
        y[i] = narrow<T>(fma(alpha, value, beta));
}

/* An integral value of either sign, modulo 2^64. */
static uint64_t modulo_2_64(double value) {
    return value < 0 ? uint64_t(int64_t(value)) : uint64_t(value);
}

static int scale_simple_launch(const struct launch *launch) {
    const scale_args &args = launch->args.scale;
    if (args.count == 0) return 0;
    return dispatch_dtype(launch->dtype, [&](auto type) -> int {
        using T = typename decltype(type)::type;
        const dim3 grid = grid_of(ceil_div(args.count, THREADS));
        const auto *x = static_cast<const T *>(args.x);
        auto *y = static_cast<T *>(args.y);
        if constexpr (std::is_integral_v<T>) {
            const uint64_t alpha = modulo_2_64(args.alpha), beta = modulo_2_64(args.beta);
            scale_simple_kernel<<<grid, THREADS, 0, stream_of(launch)>>>(args.count, alpha, beta, x, y);
        } else {
            const auto alpha = static_cast<widened<T>>(args.alpha), beta = static_cast<widened<T>>(args.beta);
            scale_simple_kernel<<<grid, THREADS, 0, stream_of(launch)>>>(args.count, alpha, beta, x, y);
        }
        return cudaGetLastError();
    });
}

const struct kernel scale_simple = {
    .name = "simple",
    .op = OP_SCALE,
    .device = DEVICE_CUDA,
    .summary = "one thread an element",
    .dtypes = DTYPES_ALL,
    .accuracy = ACCURACY_FULL,
    .compute_capability = 80,
    .launch = scale_simple_launch,
};
