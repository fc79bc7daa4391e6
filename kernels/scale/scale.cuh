/* scale.cuh - what the scales share: computes alpha x + beta in double or uint64_t, with alpha and beta converted to
 * that type, and rounds to the type of x. */
#ifndef KERNELS_SCALE_CUH
#define KERNELS_SCALE_CUH

#include "../core/dtype.cuh"
#include "../core/launch.cuh"

/* Rounds a double to T. On most GPUs conversions from and to double limit the speed. narrow() takes two conversions for
 * bfloat16; here one suffices: the value is truncated to float, with the last bit set if bits were lost, and rounding
 * that to 8 bits gives the same as rounding the double. (Below float's normal numbers truncation loses more bits than
 * the test examines.) */
template <typename T> __device__ inline T rounded(double value) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>) {
        if (fabs(value) < 0x1p-126) return narrow<T>(value);
        const bool inexact = __double2loint(value) & 0x1fffffff;
        return narrow<T>(__uint_as_float(__float_as_uint(__double2float_rz(value)) | inexact));
    } else {
        return narrow<T>(value);
    }
}

/* alpha x + beta, in the type of the arithmetic V: double for floats; for integers uint64_t, which serves either sign
 * modulo 2^64. */
template <typename T, typename V> __device__ inline T scaled(T x, V alpha, V beta) {
    const V value = static_cast<V>(widen(x));
    if constexpr (std::is_integral_v<V>)
        return narrow<T>(alpha * value + beta);
    else
        return rounded<T>(fma(alpha, value, beta));
}

/* The value modulo 2^64; it must be an integer in the range of int64_t or uint64_t. */
inline uint64_t modulo_2_64(double value) {
    return value < 0 ? uint64_t(int64_t(value)) : uint64_t(value);
}

/* Calls f(x, y, alpha, beta) with pointers to the launch's type and factors in the type of its arithmetic. Returns what
 * f returns. */
template <typename F> int dispatch_scale(const struct launch *launch, F &&f) {
    const scale_args &args = launch->args.scale;
    return dispatch_dtype(launch->dtype, [&](auto type) -> int {
        using T = typename decltype(type)::type;
        const auto *x = static_cast<const T *>(args.x);
        auto *y = static_cast<T *>(args.y);
        if constexpr (std::is_integral_v<T>)
            return f(x, y, modulo_2_64(args.alpha), modulo_2_64(args.beta));
        else
            return f(x, y, args.alpha, args.beta);
    });
}

#endif
