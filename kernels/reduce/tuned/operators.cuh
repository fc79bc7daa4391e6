/* operators.cuh - accumulators, which threads, blocks and launches of stream.cu merge; lanes (lanes.cuh) become
 * accumulators.
 *
 * Integers: sums and products in uint64_t, modulo 2^64, which serves signed types too; the greatest value and its
 * position in 64 bits of the type's own signedness. Floats, in double: the greatest value and its position, variances,
 * counts of NaNs; two_doubles.cuh has their sums and products. As in NumPy, a NaN beats every number, and of equal
 * elements the first one's position counts. -0 is the least zero and +0 the greatest, and every NaN result is the same
 * NaN, so that the order never shows. var and std keep moments (reduce/moments.h).
 *
 * Accumulators are plain values without constructors, so that they may lie in shared memory. An accumulator (A) has
 * identity(), the value before any element; merge(other); result(divisor) or result(args), of result_type;
 * shuffled(shuffle), the value of another thread of the warp; save() and load(state), to and from struct reduce_state,
 * or struct reduce_moments if that is too small. */
#ifndef KERNELS_REDUCE_OPERATORS_CUH
#define KERNELS_REDUCE_OPERATORS_CUH

#include "../moments.h"
#include "../rung.cuh"
#include "scaled.cuh"

/* The type in which min and max of T are compared. */
template <typename T> using wide = std::conditional_t<std::is_integral_v<T>, widened<T>, double>;
/* NumPy's result type of a mean, norm or variance. */
template <typename T> using mean_result = std::conditional_t<std::is_integral_v<T>, double, T>;

/* Put a value of the accumulator's type into a state, and take it out. */
__device__ inline void save_value(reduce_state &state, double value) {
    state.value.f = value;
}
__device__ inline void save_value(reduce_state &state, int64_t value) {
    state.value.i = value;
}
__device__ inline void save_value(reduce_state &state, uint64_t value) {
    state.value.u = value;
}
__device__ inline void load_value(const reduce_state &state, double &value) {
    value = state.value.f;
}
__device__ inline void load_value(const reduce_state &state, int64_t &value) {
    value = state.value.i;
}
__device__ inline void load_value(const reduce_state &state, uint64_t &value) {
    value = state.value.u;
}

/* The accumulator of another thread of the warp; shuffled() calls its argument for each member. */
template <typename A> __device__ inline A shuffle_down(const A &a, int lanes) {
    return a.shuffled([&](auto x) { return __shfl_down_sync(~0u, x, lanes); });
}
template <typename A> __device__ inline A shuffle_xor(const A &a, int lanes) {
    return a.shuffled([&](auto x) { return __shfl_xor_sync(~0u, x, lanes); });
}

/* Accumulators that are one value. */
template <typename A, typename V> struct one_value {
    V value;
    __device__ reduce_state save() const {
        reduce_state state = {{0}, -1};
        save_value(state, value);
        return state;
    }
    static __device__ A load(const reduce_state &state) {
        A a;
        load_value(state, a.value);
        return a;
    }
    template <typename F> __device__ A shuffled(F shuffle) const {
        A a;
        a.value = shuffle(value);
        return a;
    }
};

/* Accumulators that are a value and an integer: a position or an exponent. */
template <typename A, typename V> struct indexed_value {
    V value;
    int64_t index;
    __device__ reduce_state save() const {
        reduce_state state = {{0}, index};
        save_value(state, value);
        return state;
    }
    static __device__ A load(const reduce_state &state) {
        A a;
        load_value(state, a.value);
        a.index = state.index;
        return a;
    }
    template <typename F> __device__ A shuffled(F shuffle) const {
        A a;
        a.value = shuffle(value);
        a.index = shuffle(index);
        return a;
    }
};

/* Sum of integers; the number of NaNs. */
template <typename T> struct sum_of : one_value<sum_of<T>, uint64_t> {
    using result_type = uint64_t;
    static __device__ sum_of identity() { return {{0}}; }
    __device__ void merge(const sum_of &other) { this->value += other.value; }
    __device__ result_type result(double) const { return this->value; }
};

/* Product of integers. */
template <typename T> struct product_of : one_value<product_of<T>, uint64_t> {
    using result_type = uint64_t;
    static __device__ product_of identity() { return {{1}}; }
    __device__ void merge(const product_of &other) { this->value *= other.value; }
    __device__ result_type result(double) const { return this->value; }
};

/* Does `a` displace `b` as the extreme value? Never among equals. */
template <bool MAX, typename V> __device__ inline bool beats(V a, V b) {
    if constexpr (std::is_same_v<V, double>)
        if (a != a) return b == b;
    return MAX ? a > b : a < b;
}

/* The extreme one of two values. */
template <bool MAX, typename V> __device__ inline V extreme(V a, V b) {
    bool first = beats<MAX>(a, b);
    if constexpr (!std::is_integral_v<V>) first = first || (a == b && signbit(b) == MAX);
    return first ? a : b;
}

/* The value that no element is worse than. */
template <typename V, bool MAX> __device__ inline V worst_value() {
    if constexpr (std::is_same_v<V, double>)
        return MAX ? -HUGE_VAL : HUGE_VAL;
    else if constexpr (std::is_signed_v<V>)
        return MAX ? INT64_MIN : INT64_MAX;
    else
        return MAX ? 0 : UINT64_MAX;
}

/* min and max. */
template <typename T, bool MAX> struct extreme_of : one_value<extreme_of<T, MAX>, wide<T>> {
    using result_type = T;
    static __device__ extreme_of identity() { return {{worst_value<wide<T>, MAX>()}}; }
    __device__ void merge(const extreme_of &other) { this->value = extreme<MAX>(other.value, this->value); }
    __device__ result_type result(double) const { return quiet(narrow<T>(this->value)); }
};

/* argmin and argmax. index -1: no element yet. */
template <typename T, bool MAX> struct position_of : indexed_value<position_of<T, MAX>, wide<T>> {
    using result_type = int64_t;
    static __device__ position_of identity() { return {{worst_value<wide<T>, MAX>(), -1}}; }
    __device__ void merge(const position_of &other) {
        if (other.index < 0) return;
        const bool earlier = other.index < this->index && !beats<MAX>(this->value, other.value);
        if (this->index < 0 || earlier || beats<MAX>(other.value, this->value)) *this = other;
    }
    __device__ result_type result(double) const { return this->index; }
};

/* ---- moments ----------------------------------------------------------------------------------------------------- */

/* var and std of floats. NaNs are always skipped. If they must not be, the result is NaN unless the number of elements
 * is args.total. */
template <typename T> struct spread_of {
    using result_type = mean_result<T>;
    int64_t count;
    double mean, rest, squares;
    static __device__ spread_of identity() { return {0, 0.0, 0.0, 0.0}; }
    static __device__ spread_of load(const reduce_moments &m) {
        return {m.count, m.spread.mean, m.spread.rest, m.spread.squares};
    }
    __device__ reduce_moments save() const {
        reduce_moments m = {count, {}};
        m.spread.mean = mean, m.spread.rest = rest, m.spread.squares = squares;
        return m;
    }
    __device__ void merge(const spread_of &other) {
        reduce_moments own = save();
        const reduce_moments from = other.save();
        moments_merge(&own, &from);
        *this = load(own);
    }
    __device__ result_type result(const reduce_args &args) const {
        const reduce_moments m = save();
        const bool all = args.skip_nan || count == args.total;
        const double value = moments_result(&m, args.ddof, args.operator_ == REDUCE_STD);
        return quiet(narrow<result_type>(all ? value : nan("")));
    }
    template <typename F> __device__ spread_of shuffled(F shuffle) const {
        return {shuffle(count), shuffle(mean), shuffle(rest), shuffle(squares)};
    }
};

/* var and std of integers: sum and sum of squares. Squares of up to 32 bits need two words. */
template <typename T> struct exact_spread_of {
    using result_type = double;
    static constexpr int WORDS = sizeof(T) == 8 ? 5 : 4;
    uint64_t word[WORDS];
    static __device__ exact_spread_of identity() { return {}; }
    static __device__ exact_spread_of load(const reduce_moments &m) {
        exact_spread_of a;
#pragma unroll
        for (int i = 0; i < WORDS; i++) a.word[i] = m.exact[i];
        return a;
    }
    __device__ reduce_moments save() const {
        reduce_moments m = {};
#pragma unroll
        for (int i = 0; i < WORDS; i++) m.exact[i] = word[i];
        return m;
    }
    __device__ void add(wide_int sum, wide_uint squares, uint64_t top) {
        reduce_moments m = save();
        moments_add_exact(&m, sum, squares, top);
        *this = load(m);
    }
    __device__ void merge(const exact_spread_of &other) {
        reduce_moments own = save();
        const reduce_moments from = other.save();
        moments_merge_exact(&own, &from);
        *this = load(own);
    }
    static __device__ wide_uint square(T x) {
        auto magnitude = static_cast<uint64_t>(widen(x));
        if constexpr (std::is_signed_v<T>)
            if (x < 0) magnitude = -magnitude;
        return wide_uint(magnitude) * magnitude;
    }
    __device__ double result(const reduce_args &args) const {
        const reduce_moments m = save();
        return quiet(moments_result_exact(&m, args.total, args.ddof, args.operator_ == REDUCE_STD));
    }
    template <typename F> __device__ exact_spread_of shuffled(F shuffle) const {
        exact_spread_of a;
#pragma unroll
        for (int i = 0; i < WORDS; i++) a.word[i] = shuffle(word[i]);
        return a;
    }
};

/* ---- NaNs -------------------------------------------------------------------------------------------------------- */

/* min and max that skip NaNs. NaN: no number yet. */
template <typename T, bool MAX> struct extreme_number_of : one_value<extreme_number_of<T, MAX>, double> {
    using result_type = T;
    static __device__ extreme_number_of identity() { return {{nan("")}}; }
    __device__ void merge(const extreme_number_of &other) {
        if (other.value != other.value) return;
        this->value = this->value != this->value ? other.value : extreme<MAX>(other.value, this->value);
    }
    __device__ result_type result(double) const { return quiet(narrow<T>(this->value)); }
};

/* ---- for all ----------------------------------------------------------------------------------------------------- */

/* The type that save() returns. */
template <typename A> using state_of = decltype(A::identity().save());

/* States in memory, as an array of the type that A saves. */
template <typename A> __device__ inline state_of<A> *states_of(void *states) {
    return static_cast<state_of<A> *>(states);
}

/* Returns a.result(args), or a.result(divisor) if A needs only the divisor of a mean. */
template <typename A>
__device__ inline typename A::result_type result_for(const A &a, const reduce_args &args, double divisor) {
    if constexpr (requires { a.result(args); })
        return a.result(args);
    else
        return a.result(divisor);
}

/* Does a launch of count_nan of integers: all results are zero. */
inline int reduce_no_nans(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    if (!args.last) return 0;
    return cudaMemsetAsync(args.y, 0, size_t(args.outer * args.inner) * sizeof(int64_t),
                           static_cast<cudaStream_t>(launch->stream));
}

/* Is the launch a count_nan of integers? */
inline bool reduce_has_no_nans(const struct launch *launch) {
    return launch->args.reduce.operator_ == REDUCE_COUNT_NAN && !dtype_is_float(launch->dtype);
}

/* The divisor of a mean; 1 for other operators. */
inline double reduce_divisor(const reduce_args &args) {
    return args.operator_ == REDUCE_MEAN ? double(args.total) : 1.0;
}

#endif
