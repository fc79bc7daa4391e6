/* lanes.cuh - lanes: what a thread of stream.cu keeps in registers, and adds elements to.
 *
 * A thread that reads 16 bytes at a time has one lane per element of the 16 bytes, and gives each lane a batch of
 * elements at once. A lane computes in the narrowest type that is right. In the end it becomes an accumulator of
 * operators.cuh; accumulators of lanes, threads, blocks and launches merge. A lane type (L) is made for an operator and
 * an element type.
 *
 * Every lane type has the same functions: identity() is a lane without elements; neutral() is an element that changes
 * no result; add_batch(x, count) adds a batch whose first element is number `count` of the lane; finish(...) returns
 * the accumulator. Only positions need the arguments of finish (position_lane) and `count`.
 *
 * Sums, means, norms and products of floats are kept in two doubles (two_doubles.cuh).
 *
 * Every search for the smallest or largest value, or its position, is a search for the largest mirrored value. Flipping
 * the sign bit of a float, or some or all bits of an integer, turns either order of signed or unsigned numbers into the
 * rising order of floats or unsigned integers. So four operators on twelve types need two kinds of lane and eight
 * types. */
#ifndef KERNELS_REDUCE_LANES_CUH
#define KERNELS_REDUCE_LANES_CUH

#include "moments.cuh"

/* ---- exact lanes ------------------------------------------------------------------------------------------------ */

/* Sums and products of integers, modulo 2^64. The sum of a batch of narrow integers fits in 32 bits. */
template <typename T, bool PRODUCT> struct modular_lane {
    using element_type = T;
    uint64_t value;
    static __device__ modular_lane identity() { return {PRODUCT ? 1u : 0u}; }
    static __device__ T neutral() { return PRODUCT ? 1 : 0; }
    template <int COUNT> __device__ void add_batch(const T (&x)[COUNT], unsigned) {
        std::conditional_t<sizeof(T) <= 2 && !PRODUCT, int, uint64_t> batch = PRODUCT;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if constexpr (PRODUCT)
                batch *= static_cast<uint64_t>(x[i]);
            else
                batch += static_cast<decltype(batch)>(x[i]);
        value = PRODUCT ? value * static_cast<uint64_t>(batch) : value + static_cast<uint64_t>(batch);
    }
    __device__ auto finish(int64_t, int64_t, int64_t, int64_t) const {
        return std::conditional_t<PRODUCT, product_of<T>, sum_of<T>>{{value}};
    }
};

/* The greater of two. +0 is greater than -0, and a NaN greater than any number. */
template <typename T> __device__ inline T greater(T a, T b) {
    if constexpr (std::is_integral_v<T>)
        return max(a, b);
    else if constexpr (sizeof(T) == 2)
        return __hmax_nan(a, b);
    else if constexpr (sizeof(T) == 4) { /* one instruction that follows both rules */
        float greatest;
        asm("max.NaN.f32 %0, %1, %2;" : "=f"(greatest) : "f"(a), "f"(b));
        return greatest;
    } else /* no && and ||: they would be branches */
        return (a > b) | ((a == b) & (__double2hiint(b) < 0)) | (a != a) ? a : b;
}

/* The type in which positions of greatest values are compared: the element's own, but float for 16-bit floats. */
template <typename T> using compared = std::conditional_t<sizeof(T) <= 2 && !std::is_integral_v<T>, float, T>;

/* Like beats() of operators.cuh, but in the element's own type. */
template <typename V> __device__ inline bool displaces(V a, V b) {
    if constexpr (std::is_integral_v<V>)
        return a > b;
    else
        return !(a <= b) & (b == b); /* no &&: a branch for every element */
}

/* The mirrored value that no element is below. */
template <typename V> __device__ inline V worst() {
    if constexpr (std::is_integral_v<V>)
        return 0;
    else
        return -HUGE_VAL;
}

/* min, max: the greatest mirrored element. T is a float or unsigned type. */
template <typename T> struct extreme_lane {
    using element_type = T;
    T value;
    static __device__ extreme_lane identity() { return {neutral()}; }
    static __device__ T neutral() { return narrow<T>(worst<compared<T>>()); }
    template <int COUNT> __device__ void add_batch(const T (&x)[COUNT], unsigned) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) value = greater(x[i], value);
    }
    __device__ void merge(const extreme_lane &other) {
        value = greater(other.value, value);
    }
    template <typename F> __device__ extreme_lane shuffled(F shuffle) const {
        return {static_cast<T>(shuffle(value))};
    }
    __device__ extreme_of<T, true> finish(int64_t, int64_t, int64_t, int64_t) const {
        return {{static_cast<wide<T>>(widen(value))}};
    }
};

/* argmin, argmax. `at` counts a lane's elements, from the first that it could have. If no element displaced the initial
 * value, all elements equal that worst value, and the first one is the result. */
template <typename T> struct position_lane {
    using element_type = T;
    using V = compared<T>;
    static constexpr unsigned NONE = ~0u;
    V value;
    unsigned at;
    static __device__ position_lane identity() { return {worst<V>(), NONE}; }
    static __device__ T neutral() { return narrow<T>(worst<V>()); }
    template <int COUNT> __device__ void add_batch(const T (&x)[COUNT], unsigned count) {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (const V v = static_cast<V>(x[i]); displaces(v, value)) {
                value = v;
                at = count + i;
            }
    }
    /* Element 0 of the lane is element `origin` of the reduced axis (negative: before its start), and the next ones are
     * `step` apart. The axis has `length` elements here and begins at `offset`. */
    __device__ position_of<T, true> finish(int64_t origin, int64_t step, int64_t length, int64_t offset) const {
        int64_t index = origin + int64_t(at) * step;
        if (at == NONE) index = origin >= 0 ? origin : step == 1 ? 0 : origin + step;
        return {{static_cast<wide<T>>(value), index < length ? offset + index : -1}};
    }
};

/* Does the lane search for the greatest mirrored element? */
template <typename L> constexpr bool mirrors = false;
template <typename T> constexpr bool mirrors<extreme_lane<T>> = true;
template <typename T> constexpr bool mirrors<position_lane<T>> = true;
template <typename T> constexpr bool mirrors<extreme_number_lane<T>> = true;
template <typename T> constexpr bool mirrors<number_position_lane<T>> = true;
/* Is the result of lane L a mirrored element? */
template <typename L> constexpr bool result_is_mirrored = false;
template <typename T> constexpr bool result_is_mirrored<extreme_lane<T>> = true;
template <typename T> constexpr bool result_is_mirrored<extreme_number_lane<T>> = true;

/* The bits to flip in each element to mirror it, repeated over 8 bytes. */
inline uint64_t reduce_mirror(enum dtype dtype, enum reduce_operator operator_) {
    const bool smallest = operator_ == REDUCE_MIN || operator_ == REDUCE_ARGMIN;
    const int bits = int(dtype_size(dtype)) * 8;
    const uint64_t ones = ~UINT64_C(0), each = ones / (bits == 64 ? ones : (UINT64_C(1) << bits) - 1);
    const uint64_t sign = each << (bits - 1);
    if (dtype_is_float(dtype)) return smallest ? sign : 0;
    return (smallest ? ones : 0) ^ (dtype_is_signed(dtype) ? sign : 0);
}

/* Flips the bits of `mirror` (reduce_mirror) in an element: mirrors it, or turns it back. */
template <typename T> __device__ inline T mirrored(T x, uint64_t mirror) {
    std::conditional_t<
        sizeof(T) == 1, uint8_t,
        std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>
        bits;
    memcpy(&bits, &x, sizeof bits);
    bits ^= static_cast<decltype(bits)>(mirror);
    memcpy(&x, &bits, sizeof bits);
    return x;
}

/* ---- lane types and their accumulators --------------------------------------------------------------------------- */

/* The accumulator that a lane becomes. */
template <typename L> using accumulator_of = decltype(L::identity().finish(0, 0, 0, 0));

/* Is the result the same, bit for bit, whatever the order in which lanes add their elements? Selections, integers and
 * sums of up to 2^38 narrow integers are exact. */
template <typename L> constexpr bool any_order = true;
template <typename T> constexpr bool any_order<total_of<T>> = std::is_integral_v<T> && sizeof(T) <= 4;
template <typename T> constexpr bool any_order<norm_of<T>> = std::is_integral_v<T> && sizeof(T) <= 2;
template <typename T> constexpr bool any_order<float_product_of<T>> = false;
template <typename T> constexpr bool any_order<spread_lane<T>> = false;
template <typename T> constexpr bool any_order<counted_total_lane<T>> = false;

/* Do lanes merge by themselves, in the element's type? */
template <typename L> constexpr bool lanes_merge = false;
template <typename T> constexpr bool lanes_merge<extreme_lane<T>> = true;

/* Do lanes of short rows sum in one double instead of two (plain_total)? */
template <typename L> constexpr bool plain_in_rows = false;
template <typename T> constexpr bool plain_in_rows<total_of<T>> = total_of<T>::plain_in_rows;
template <typename T> constexpr bool plain_in_rows<norm_of<T>> = norm_of<T>::plain_in_rows;

/* Reduces one load of a short row, which begins at element `at` of `length`. Returns the type that merges fastest: a
 * plain_total, a lane or an accumulator. accumulator_of_row() converts the merged one to an accumulator. */
template <typename L, typename T, int COUNT>
__device__ inline auto partial_of_row(const T (&x)[COUNT], int at, int length, int64_t offset) {
    if constexpr (plain_in_rows<L>) {
        return L::in_row(x);
    } else {
        L lane = L::identity();
        lane.add_batch(x, 0);
        if constexpr (lanes_merge<L>)
            return lane;
        else
            return lane.finish(at, 1, length, offset);
    }
}
template <typename L> __device__ inline L accumulator_of_row(const plain_total<L> &partial) {
    return partial.in_two_doubles();
}
template <typename T> __device__ inline extreme_of<T, true> accumulator_of_row(const extreme_lane<T> &partial) {
    return partial.finish(0, 0, 0, 0);
}
template <typename A> __device__ inline A accumulator_of_row(const A &partial) {
    return partial;
}

/* Calls f(type_is<T>) with the unsigned or float type that has the order of mirrored elements. */
template <typename F> int dispatch_mirrored(enum dtype dtype, F &&f) {
    switch (dtype) {
    case INT8:
    case UINT8: return f(type_is<uint8_t>());
    case INT16:
    case UINT16: return f(type_is<uint16_t>());
    case INT32:
    case UINT32: return f(type_is<uint32_t>());
    case INT64:
    case UINT64: return f(type_is<uint64_t>());
    case FLOAT_TYPES: return dispatch_float(dtype, f);
    case DTYPE_COUNT: break;
    }
    return cudaErrorInvalidValue;
}

/* Calls f(type_is<L>) with the lane of sums and means. */
template <typename F> int dispatch_sum_lanes(enum dtype dtype, enum reduce_operator operator_, F &&f) {
    return dispatch_dtype(dtype, [&](auto type) -> int {
        using T = typename decltype(type)::type;
        using M = std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, T>; /* the same modulo 2^64 */
        if (operator_ == REDUCE_MEAN) return f(type_is<total_of<T>>());
        return f(type_is<std::conditional_t<std::is_integral_v<T>, modular_lane<M, false>, total_of<T>>>());
    });
}

/* Calls f(type_is<L>) with the lane of norms. */
template <typename F> int dispatch_norm_lanes(enum dtype dtype, F &&f) {
    return dispatch_dtype(dtype,
                          [&](auto type) -> int { return f(type_is<norm_of<typename decltype(type)::type>>()); });
}

/* Calls f(type_is<L>) with the lane of products. */
template <typename F> int dispatch_product_lanes(enum dtype dtype, F &&f) {
    return dispatch_dtype(dtype, [&](auto type) -> int {
        using T = typename decltype(type)::type;
        using M = std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, T>; /* the same modulo 2^64 */
        return f(type_is<std::conditional_t<std::is_integral_v<T>, modular_lane<M, true>, float_product_of<T>>>());
    });
}

/* Calls f(type_is<L>) with the lane of min, max, argmin or argmax. */
template <typename F> int dispatch_extreme_lanes(enum dtype dtype, enum reduce_operator operator_, F &&f) {
    return dispatch_mirrored(dtype, [&](auto type) -> int {
        using T = typename decltype(type)::type;
        const bool value = operator_ == REDUCE_MIN || operator_ == REDUCE_MAX;
        return value ? f(type_is<extreme_lane<T>>()) : f(type_is<position_lane<T>>());
    });
}

/* Calls f(type_is<L>) with the lane type of a reduction. */
template <typename F> int dispatch_lanes(enum dtype dtype, const reduce_args &args, F &&f) {
    const enum reduce_operator operator_ = args.operator_;
    if (operator_ == REDUCE_COUNT_NAN || reduce_is_variance(operator_))
        return dispatch_moment_lanes(dtype, operator_, f);
    if (args.skip_nan) return dispatch_skipping_lanes(dtype, operator_, f);
    switch (operator_) {
    case REDUCE_SUM:
    case REDUCE_MEAN: return dispatch_sum_lanes(dtype, operator_, f);
    case REDUCE_NORM2: return dispatch_norm_lanes(dtype, f);
    case REDUCE_PROD: return dispatch_product_lanes(dtype, f);
    default: return dispatch_extreme_lanes(dtype, operator_, f);
    }
}

#endif
