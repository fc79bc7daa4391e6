/* dtype.cuh - maps the data types to C++ types: dispatches from `enum dtype`, and converts to and from the types that
 * kernels compute in.
 *
 * widen() is exact: 16-bit floats become float, integers become 64 bits of their own signedness, float and double stay.
 * narrow<T>() rounds once, to nearest, ties to even; integers keep their low bits. */
#ifndef KERNELS_DTYPE_CUH
#define KERNELS_DTYPE_CUH

#include "kernel.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <tuple>
#include <type_traits>
#include <utility>

__device__ inline float widen(float x) {
    return x;
}
__device__ inline double widen(double x) {
    return x;
}
__device__ inline float widen(__half x) {
    return __half2float(x);
}
__device__ inline float widen(__nv_bfloat16 x) {
    return __bfloat162float(x);
}
template <typename T>
requires std::is_integral_v<T> __device__ inline auto widen(T x) {
    return static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(x);
}
template <typename T> using widened = decltype(widen(T()));

template <typename T, typename V> __device__ inline T narrow(V value) {
    if constexpr (std::is_same_v<T, __half> && std::is_same_v<V, double>)
        return __double2half(value);
    else if constexpr (std::is_same_v<T, __half>)
        return __float2half_rn(value);
    else if constexpr (std::is_same_v<T, __nv_bfloat16> && std::is_same_v<V, double>)
        return __double2bfloat16(value);
    else if constexpr (std::is_same_v<T, __nv_bfloat16>)
        return __float2bfloat16_rn(value);
    else
        return static_cast<T>(value);
}

/* Returns the value itself, but for each NaN the positive quiet NaN without a payload. */
template <typename T> __device__ inline T quiet(T value) {
    if constexpr (std::is_integral_v<T>)
        return value;
    else if constexpr (std::is_same_v<T, __half>)
        return __hisnan(value) ? __ushort_as_half(0x7e00) : value;
    else if constexpr (std::is_same_v<T, __nv_bfloat16>)
        return __hisnan(value) ? __ushort_as_bfloat16(0x7fc0) : value;
    else if constexpr (std::is_same_v<T, float>)
        return isnan(value) ? __int_as_float(0x7fc00000) : value;
    else
        return isnan(value) ? __longlong_as_double(0x7ff8000000000000) : value;
}

/* A type as a value: `[&](auto type) { using T = typename decltype(type)::type; ... }`. */
template <typename T> struct type_is { using type = T; };

/* Returns f(type_is<T>()) for the C++ type T of a float type; cudaErrorInvalidValue for an integer type. */
template <typename F> int dispatch_float(enum dtype dtype, F &&f) {
    switch (dtype) {
    case FLOAT32: return f(type_is<float>());
    case FLOAT64: return f(type_is<double>());
    case FLOAT16: return f(type_is<__half>());
    case BFLOAT16: return f(type_is<__nv_bfloat16>());
    case INTEGER_TYPES:
    case DTYPE_COUNT: break;
    }
    return cudaErrorInvalidValue;
}

/* Returns f(type_is<T>()) for the C++ type T of any type. */
template <typename F> int dispatch_dtype(enum dtype dtype, F &&f) {
    switch (dtype) {
    case INT8: return f(type_is<int8_t>());
    case INT16: return f(type_is<int16_t>());
    case INT32: return f(type_is<int32_t>());
    case INT64: return f(type_is<int64_t>());
    case UINT8: return f(type_is<uint8_t>());
    case UINT16: return f(type_is<uint16_t>());
    case UINT32: return f(type_is<uint32_t>());
    case UINT64: return f(type_is<uint64_t>());
    case FLOAT_TYPES: return dispatch_float(dtype, f);
    case DTYPE_COUNT: break;
    }
    return cudaErrorInvalidValue;
}

/* Returns f(T()) for T, type number `which` of TYPES, a std::tuple; 0, without a call, if there is no such number. */
template <typename TYPES, typename F> int dispatch_tuple(int which, F f) {
    int code = 0;
    [&]<size_t... I>(std::index_sequence<I...>) {
        ((which == int(I) ? void(code = f(std::tuple_element_t<I, TYPES>())) : void()), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<TYPES>>());
    return code;
}

#endif
