/* moments.cuh - lanes of stream.cu (lanes.cuh) for var, std and count_nan, and for operators that skip NaNs.
 *
 * var and std of floats add an element by three operations on doubles: its deviation from the lane's pivot, the sum of
 * the deviations and the sum of their squares (reduce/moments.h). The pivot moves to the mean of the lane's elements
 * after 1, 2, 4 ... batches. Integers have exact sums, for which 64 bits suffice in a lane of types of up to 16 bits.
 *
 * A sum has a neutral element, which replaces those beyond a row's end; a variance has none. So here NaN is neutral:
 * lanes of floats skip NaNs and count the other elements. If NaNs must not be skipped, the result is NaN if the count
 * is not the number of elements. */
#ifndef KERNELS_REDUCE_MOMENTS_CUH
#define KERNELS_REDUCE_MOMENTS_CUH

#include "two_doubles.cuh"

/* A NaN of type T. */
template <typename T> __device__ inline T no_number() {
    return narrow<T>(__int_as_float(0x7fc00000));
}

/* ---- var, std ---------------------------------------------------------------------------------------------------- */

/* The lane of floats: sums of deviations from a pivot, the first number of the first batch with one. The pivot moves to
 * the mean after batches number 0, 1, 2, 4, 8 ... (moments_recentre). */
template <typename T> struct spread_lane {
    using element_type = T;
    double pivot, sum, squares;
    unsigned count;
    static __device__ spread_lane identity() { return {0.0, 0.0, 0.0, 0}; }
    static __device__ T neutral() { return no_number<T>(); }
    template <int COUNT> __device__ void add_batch(const T (&x)[COUNT], unsigned at) {
        if (count == 0)
#pragma unroll
            for (int i = COUNT - 1; i >= 0; i--) {
                const auto first = static_cast<double>(widen(x[i]));
                if (first == first) pivot = first;
            }
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const auto wide_x = static_cast<double>(widen(x[i]));
            if (wide_x == wide_x) {
                const double deviation = wide_x - pivot;
                sum += deviation;
                squares = fma(deviation, deviation, squares);
                count++;
            }
        }
        if ((at & (at - 1)) == 0 && count > 0) moments_recentre(&pivot, double(count), &sum, &squares);
    }
    __device__ spread_of<T> finish(int64_t, int64_t, int64_t, int64_t) const {
        return spread_of<T>::load(moments_of(pivot, count, sum, squares));
    }
};

/* The lane of integers. A lane has fewer than 2^32 elements. */
template <typename T> struct exact_spread_lane {
    using element_type = T;
    std::conditional_t<sizeof(T) == 8, wide_int, int64_t> sum;
    std::conditional_t<sizeof(T) <= 2, uint64_t, wide_uint> squares;
    uint64_t top; /* of the squares, of 64-bit types */
    static __device__ exact_spread_lane identity() { return {0, 0, 0}; }
    static __device__ T neutral() { return 0; }
    template <int COUNT> __device__ void add_batch(const T (&x)[COUNT], unsigned) {
        if constexpr (sizeof(T) <= 2) {
            int batch = 0;
            std::conditional_t<sizeof(T) == 1, unsigned, uint64_t> batch_squares = 0;
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                batch += x[i];
                batch_squares += static_cast<unsigned>(int(x[i])) * static_cast<unsigned>(int(x[i]));
            }
            sum += batch;
            squares += batch_squares;
        } else {
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                const wide_uint before = squares;
                sum += widen(x[i]);
                squares += exact_spread_of<T>::square(x[i]);
                if constexpr (sizeof(T) == 8) top += squares < before;
            }
        }
    }
    __device__ exact_spread_of<T> finish(int64_t, int64_t, int64_t, int64_t) const {
        exact_spread_of<T> a = exact_spread_of<T>::identity();
        a.add(sum, squares, top);
        return a;
    }
};

/* ---- NaNs -------------------------------------------------------------------------------------------------------- */

/* count_nan of floats. */
template <typename T> struct nan_lane {
    using element_type = T;
    unsigned count;
    static __device__ nan_lane identity() { return {0}; }
    static __device__ T neutral() { return narrow<T>(0.0f); }
    template <int COUNT> __device__ void add_batch(const T (&x)[COUNT], unsigned) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) count += widen(x[i]) != widen(x[i]);
    }
    __device__ sum_of<T> finish(int64_t, int64_t, int64_t, int64_t) const {
        return {{count}};
    }
};

/* sum and mean that skip NaNs: the sum in two doubles, and the number of elements. */
template <typename T> struct counted_total_of : two_doubles<counted_total_of<T>> {
    using result_type = mean_result<T>;
    int64_t count;
    static __device__ counted_total_of identity() { return {{0.0, 0.0}, 0}; }
    static __device__ counted_total_of load(const reduce_moments &m) { return {{m.total.sum, m.total.lost}, m.count}; }
    __device__ reduce_moments save() const {
        reduce_moments m = {count, {}};
        m.total.sum = this->hi, m.total.lost = this->lo;
        return m;
    }
    __device__ void merge(const counted_total_of &other) {
        two_doubles<counted_total_of>::merge(other);
        count += other.count;
    }
    __device__ result_type result(const reduce_args &args) const {
        return total_of<T>{{this->hi, this->lo}}.result(args.operator_ == REDUCE_MEAN ? double(count) : 1.0);
    }
    template <typename F> __device__ counted_total_of shuffled(F shuffle) const {
        return {two_doubles<counted_total_of>::shuffled(shuffle), shuffle(count)};
    }
};

/* The lane of counted_total_of. */
template <typename T> struct counted_total_lane {
    using element_type = T;
    total_of<T> total;
    unsigned count;
    static __device__ counted_total_lane identity() { return {total_of<T>::identity(), 0}; }
    static __device__ T neutral() { return no_number<T>(); }
    template <int COUNT> __device__ void add_batch(const T (&x)[COUNT], unsigned) {
        T numbers[COUNT];
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const bool is_number = widen(x[i]) == widen(x[i]);
            numbers[i] = is_number ? x[i] : total_of<T>::neutral();
            count += is_number;
        }
        total.add_batch(numbers, 0);
    }
    __device__ counted_total_of<T> finish(int64_t, int64_t, int64_t, int64_t) const {
        return {{total.hi, total.lo}, count};
    }
};

/* The greater number of two; NaN if there is none. +0 is greater than -0. */
template <typename T> __device__ inline T greater_number(T a, T b) {
    if constexpr (sizeof(T) == 2)
        return __hmax(a, b);
    else if constexpr (sizeof(T) == 4) {
        float greatest;
        asm("max.f32 %0, %1, %2;" : "=f"(greatest) : "f"(a), "f"(b));
        return greatest;
    } else
        return a > b || (a == b && signbit(b)) || b != b ? a : b;
}

/* min and max that skip NaNs. */
template <typename T> struct extreme_number_lane {
    using element_type = T;
    T value;
    static __device__ extreme_number_lane identity() { return {neutral()}; }
    static __device__ T neutral() { return no_number<T>(); }
    template <int COUNT> __device__ void add_batch(const T (&x)[COUNT], unsigned) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) value = greater_number(x[i], value);
    }
    __device__ extreme_number_of<T, true> finish(int64_t, int64_t, int64_t, int64_t) const {
        return {{static_cast<double>(widen(value))}};
    }
};

/* argmin and argmax that skip NaNs; like position_lane in lanes.cuh. NONE: no number yet. */
template <typename T> struct number_position_lane {
    using element_type = T;
    using V = std::conditional_t<sizeof(T) <= 2, float, T>;
    static constexpr unsigned NONE = ~0u;
    V value;
    unsigned at;
    static __device__ number_position_lane identity() { return {-HUGE_VAL, NONE}; }
    static __device__ T neutral() { return no_number<T>(); }
    template <int COUNT> __device__ void add_batch(const T (&x)[COUNT], unsigned count) {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (const V v = static_cast<V>(x[i]); v > value || (at == NONE && v == v)) {
                value = v;
                at = count + i;
            }
    }
    __device__ position_of<T, true> finish(int64_t origin, int64_t step, int64_t, int64_t offset) const {
        return {{static_cast<double>(value), at == NONE ? -1 : offset + origin + int64_t(at) * step}};
    }
};

/* Calls f(type_is<L>) with the lane of an operator on floats whose NaNs are skipped; for the usual operators only,
 * because compiling takes long. */
template <typename F> int dispatch_skipping_lanes(enum dtype dtype, enum reduce_operator operator_, F &&f) {
    return dispatch_float(dtype, [&](auto type) -> int {
        using T = typename decltype(type)::type;
        switch (operator_) {
        case REDUCE_SUM:
        case REDUCE_MEAN: return f(type_is<counted_total_lane<T>>());
        case REDUCE_MIN:
        case REDUCE_MAX: return f(type_is<extreme_number_lane<T>>());
        case REDUCE_ARGMIN:
        case REDUCE_ARGMAX: return f(type_is<number_position_lane<T>>());
        default: return cudaErrorInvalidValue;
        }
    });
}

/* Calls f(type_is<L>) with the lane of var, std or count_nan. */
template <typename F> int dispatch_moment_lanes(enum dtype dtype, enum reduce_operator operator_, F &&f) {
    if (operator_ == REDUCE_COUNT_NAN)
        return dispatch_float(dtype,
                              [&](auto type) -> int { return f(type_is<nan_lane<typename decltype(type)::type>>()); });
    return dispatch_dtype(dtype, [&](auto type) -> int {
        using T = typename decltype(type)::type;
        return f(type_is<std::conditional_t<std::is_integral_v<T>, exact_spread_lane<T>, spread_lane<T>>>());
    });
}

#endif
