/* reduce/operators.cuh - what each reduction accumulates: its identity, how it takes an element, how two merge, the
 * result.
 *
 * Floats accumulate in double. Products, and squares of float64, are scaled so that no order of the elements leaves the
 * range (reduce/scaled.cuh). Integers: sums and products in uint64_t, modulo 2^64, which serves signed types too; mean
 * and norm2 in double; min, max and their positions in 64 bits of the type's own signedness. As in NumPy, a NaN beats
 * every number in min, max, argmin and argmax, and of equal elements the first one's position counts. -0 is the least
 * zero and +0 the greatest, and every NaN result is the same NaN, so that the order never shows.
 *
 * var and std keep moments (reduce/moments.h). With skip_nan an accumulator takes no NaN, and one that divides counts
 * what it takes.
 *
 * Accumulators are plain values without constructors, so that they may lie in shared memory. save() and load() convert
 * them to and from struct reduce_state, or struct reduce_moments where that is not enough. */
#ifndef KERNELS_REDUCE_OPERATORS_CUH
#define KERNELS_REDUCE_OPERATORS_CUH

#include "../core/dtype.cuh"
#include "moments.h"
#include "scaled.cuh"

/* The type in which min and max of T are compared. */
template <typename T> using wide = std::conditional_t<std::is_integral_v<T>, widened<T>, double>;
/* The type in which sum and product of T accumulate. */
template <typename T> using modular = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
/* Result types, NumPy's: of a sum or product; of a mean or norm. */
template <typename T> using sum_result = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
template <typename T> using mean_result = std::conditional_t<std::is_integral_v<T>, double, T>;

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
    __device__ A shuffle_down(int lanes) const {
        A a;
        a.value = __shfl_down_sync(~0u, value, lanes);
        return a;
    }
    __device__ A shuffle_xor(int lanes) const {
        A a;
        a.value = __shfl_xor_sync(~0u, value, lanes);
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
    __device__ A shuffle_down(int lanes) const {
        A a;
        a.value = __shfl_down_sync(~0u, value, lanes);
        a.index = __shfl_down_sync(~0u, index, lanes);
        return a;
    }
    __device__ A shuffle_xor(int lanes) const {
        A a;
        a.value = __shfl_xor_sync(~0u, value, lanes);
        a.index = __shfl_xor_sync(~0u, index, lanes);
        return a;
    }
};

/* The value itself; a NaN becomes the quiet NaN without sign and payload. */
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

/* sum, and mean: V is double for the mean of integers. `divisor` is 1 for a sum. */
template <typename T, typename V> struct sum_of : one_value<sum_of<T, V>, V> {
    using result_type = std::conditional_t<std::is_same_v<V, double>, mean_result<T>, sum_result<T>>;
    static __device__ sum_of identity() { return {{V(0)}}; }
    __device__ void take(T x, int64_t) { this->value += static_cast<V>(widen(x)); }
    __device__ void merge(const sum_of &other) { this->value += other.value; }
    __device__ result_type result(double divisor) const {
        if constexpr (std::is_same_v<V, double>)
            return quiet(narrow<result_type>(this->value / divisor));
        else
            return this->value;
    }
};

/* norm2: the root of the sum of squares. */
template <typename T> struct squares_of : one_value<squares_of<T>, double> {
    using result_type = mean_result<T>;
    static __device__ squares_of identity() { return {{0.0}}; }
    __device__ void take(T x, int64_t) {
        const auto wide_x = static_cast<double>(widen(x));
        this->value += wide_x * wide_x;
    }
    __device__ void merge(const squares_of &other) { this->value += other.value; }
    __device__ result_type result(double) const { return quiet(narrow<result_type>(sqrt(this->value))); }
};

/* norm2 of float64, whose squares may leave the range; `index` is the level. */
template <> struct squares_of<double> : indexed_value<squares_of<double>, double> {
    using result_type = double;
    static __device__ squares_of identity() { return {{0.0, -1}}; }
    __device__ void take(double x, int64_t) {
        const int level = square_level(__double2hiint(x) & 0x7fffffff);
        const double scaled = x * square_scale(level);
        merge({{scaled * scaled, level}});
    }
    __device__ void merge(const squares_of &other) {
        const int level = int(max(index, other.index));
        value = square_sum(value, int(index), level) + square_sum(other.value, int(other.index), level);
        index = level;
    }
    __device__ double result(double) const { return quiet(with_exponent(sqrt(value), SQUARE_SHIFT * index)); }
};

/* Product of integers. */
template <typename T> struct product_of : one_value<product_of<T>, uint64_t> {
    using result_type = uint64_t;
    static __device__ product_of identity() { return {{1}}; }
    __device__ void take(T x, int64_t) { this->value *= static_cast<uint64_t>(widen(x)); }
    __device__ void merge(const product_of &other) { this->value *= other.value; }
    __device__ result_type result(double) const { return this->value; }
};

/* Product of floats: a mantissa and its exponent. */
template <typename T>
requires(!std::is_integral_v<T>) struct product_of<T> : indexed_value<product_of<T>, double> {
    using result_type = T;
    static __device__ product_of identity() { return {{1.0, 0}}; }
    __device__ void take(T x, int64_t) {
        auto wide_x = static_cast<double>(widen(x));
        if constexpr (std::is_same_v<T, double>) wide_x = split_exponent(wide_x, this->index);
        this->value = split_exponent(this->value * wide_x, this->index);
    }
    __device__ void merge(const product_of &other) {
        this->index += other.index;
        this->value = split_exponent(this->value * other.value, this->index);
    }
    __device__ result_type result(double) const { return quiet(narrow<T>(with_exponent(this->value, this->index))); }
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

template <typename T, bool MAX> struct extreme_of : one_value<extreme_of<T, MAX>, wide<T>> {
    using result_type = T;
    static __device__ extreme_of identity() { return {{worst_value<wide<T>, MAX>()}}; }
    __device__ void take(T x, int64_t) { this->value = extreme<MAX>(static_cast<wide<T>>(widen(x)), this->value); }
    __device__ void merge(const extreme_of &other) { this->value = extreme<MAX>(other.value, this->value); }
    __device__ result_type result(double) const { return quiet(narrow<T>(this->value)); }
};

/* argmin, argmax. index -1: nothing taken yet. A thread takes elements in rising order of index. */
template <typename T, bool MAX> struct position_of : indexed_value<position_of<T, MAX>, wide<T>> {
    using result_type = int64_t;
    static __device__ position_of identity() { return {{worst_value<wide<T>, MAX>(), -1}}; }
    __device__ void take(T x, int64_t at) {
        const auto wide_x = static_cast<wide<T>>(widen(x));
        if (this->index < 0 || beats<MAX>(wide_x, this->value)) *this = {{wide_x, at}};
    }
    __device__ void merge(const position_of &other) {
        if (other.index < 0) return;
        const bool earlier = other.index < this->index && !beats<MAX>(this->value, other.value);
        if (this->index < 0 || earlier || beats<MAX>(other.value, this->value)) *this = other;
    }
    __device__ result_type result(double) const { return this->index; }
};

/* ---- moments ----------------------------------------------------------------------------------------------------- */

/* var and std of floats. NaNs are not taken: where they count, a number of elements that is not `total` shows them. */
template <typename T> struct spread_of {
    using result_type = mean_result<T>;
    int64_t count;
    double mean, rest, squares;
    static __device__ spread_of identity() { return {0, 0.0, 0.0, 0.0}; }
    static __device__ spread_of load(const reduce_moments &m) {
        return {m.count, m.of.spread.mean, m.of.spread.rest, m.of.spread.squares};
    }
    __device__ reduce_moments save() const {
        reduce_moments m = {count, {}};
        m.of.spread.mean = mean, m.of.spread.rest = rest, m.of.spread.squares = squares;
        return m;
    }
    __device__ void merge(const spread_of &other) {
        reduce_moments own = save();
        const reduce_moments from = other.save();
        moments_merge(&own, &from);
        *this = load(own);
    }
    __device__ void take(T x, int64_t) {
        const auto wide_x = static_cast<double>(widen(x));
        if (wide_x == wide_x) merge({1, wide_x, 0.0, wide_x - wide_x}); /* infinities have no variance */
    }
    __device__ result_type result(const reduce_args &args) const {
        const reduce_moments m = save();
        const bool all = args.skip_nan || count == args.total;
        const double value = moments_result(&m, args.ddof, args.operator_ == REDUCE_STD);
        return quiet(narrow<result_type>(all ? value : nan("")));
    }
    __device__ spread_of shuffle_down(int lanes) const {
        return {__shfl_down_sync(~0u, count, lanes), __shfl_down_sync(~0u, mean, lanes),
                __shfl_down_sync(~0u, rest, lanes), __shfl_down_sync(~0u, squares, lanes)};
    }
    __device__ spread_of shuffle_xor(int lanes) const {
        return {__shfl_xor_sync(~0u, count, lanes), __shfl_xor_sync(~0u, mean, lanes),
                __shfl_xor_sync(~0u, rest, lanes), __shfl_xor_sync(~0u, squares, lanes)};
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
        for (int i = 0; i < WORDS; i++) a.word[i] = m.of.exact[i];
        return a;
    }
    __device__ reduce_moments save() const {
        reduce_moments m = {};
#pragma unroll
        for (int i = 0; i < WORDS; i++) m.of.exact[i] = word[i];
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
    __device__ void take(T x, int64_t) {
        add(widen(x), square(x), 0);
    }
    __device__ double result(const reduce_args &args) const {
        const reduce_moments m = save();
        return quiet(moments_result_exact(&m, args.total, args.ddof, args.operator_ == REDUCE_STD));
    }
    __device__ exact_spread_of shuffle_down(int lanes) const {
        exact_spread_of a;
#pragma unroll
        for (int i = 0; i < WORDS; i++) a.word[i] = __shfl_down_sync(~0u, word[i], lanes);
        return a;
    }
    __device__ exact_spread_of shuffle_xor(int lanes) const {
        exact_spread_of a;
#pragma unroll
        for (int i = 0; i < WORDS; i++) a.word[i] = __shfl_xor_sync(~0u, word[i], lanes);
        return a;
    }
};

/* ---- NaNs -------------------------------------------------------------------------------------------------------- */

template <typename T> struct nans_of : one_value<nans_of<T>, uint64_t> {
    using result_type = uint64_t;
    static __device__ nans_of identity() { return {{0}}; }
    __device__ void take(T x, int64_t) { this->value += widen(x) != widen(x); }
    __device__ void merge(const nans_of &other) { this->value += other.value; }
    __device__ result_type result(double) const { return this->value; }
};

/* An accumulator that takes no NaN. */
template <typename A> struct skipping : A {
    skipping() = default;
    __device__ skipping(const A &a) : A(a) {}
    template <typename T> __device__ void take(T x, int64_t at) {
        if (widen(x) == widen(x)) A::take(x, at);
    }
};

/* sum and mean of what is no NaN. */
template <typename T> struct counted_sum_of {
    using result_type = mean_result<T>;
    double value;
    int64_t count;
    static __device__ counted_sum_of identity() { return {0.0, 0}; }
    static __device__ counted_sum_of load(const reduce_moments &m) { return {m.of.total.sum, m.count}; }
    __device__ reduce_moments save() const {
        reduce_moments m = {count, {}};
        m.of.total.sum = value;
        return m;
    }
    __device__ void take(T x, int64_t) {
        if (widen(x) == widen(x)) merge({static_cast<double>(widen(x)), 1});
    }
    __device__ void merge(const counted_sum_of &other) { value += other.value, count += other.count; }
    __device__ result_type result(const reduce_args &args) const {
        return quiet(narrow<result_type>(value / (args.operator_ == REDUCE_MEAN ? double(count) : 1.0)));
    }
    __device__ counted_sum_of shuffle_down(int lanes) const {
        return {__shfl_down_sync(~0u, value, lanes), __shfl_down_sync(~0u, count, lanes)};
    }
    __device__ counted_sum_of shuffle_xor(int lanes) const {
        return {__shfl_xor_sync(~0u, value, lanes), __shfl_xor_sync(~0u, count, lanes)};
    }
};

/* The extreme number. NaN: none yet. */
template <typename T, bool MAX> struct extreme_number_of : one_value<extreme_number_of<T, MAX>, double> {
    using result_type = T;
    static __device__ extreme_number_of identity() { return {{nan("")}}; }
    __device__ void take(T x, int64_t) { merge({{static_cast<double>(widen(x))}}); }
    __device__ void merge(const extreme_number_of &other) {
        if (other.value != other.value) return;
        this->value = this->value != this->value ? other.value : extreme<MAX>(other.value, this->value);
    }
    __device__ result_type result(double) const { return quiet(narrow<T>(this->value)); }
};

/* ---- dispatch ---------------------------------------------------------------------------------------------------- */

/* What an accumulator is saved as. */
template <typename A> using state_of = decltype(A::identity().save());

template <typename A> __device__ inline state_of<A> *states_of(void *states) {
    return static_cast<state_of<A> *>(states);
}

template <typename A>
__device__ inline typename A::result_type result_for(const A &a, const reduce_args &args, double divisor) {
    if constexpr (requires { a.result(args); })
        return a.result(args);
    else
        return a.result(divisor);
}

/* Calls f(type_is<T>, type_is<A>) with the accumulator of a sum, mean or norm2. */
template <typename F> int dispatch_sum(enum dtype dtype, enum reduce_operator operator_, F &&f) {
    return dispatch_dtype(dtype, [&](auto type) -> int {
        using T = typename decltype(type)::type;
        switch (operator_) {
        case REDUCE_SUM: return f(type, type_is<sum_of<T, modular<T>>>());
        case REDUCE_MEAN: return f(type, type_is<sum_of<T, double>>());
        case REDUCE_NORM2: return f(type, type_is<squares_of<T>>());
        default: return cudaErrorInvalidValue;
        }
    });
}

/* The same for every operator on floats whose NaNs are skipped. */
template <typename F> int dispatch_skipping(enum dtype dtype, enum reduce_operator operator_, F &&f) {
    return dispatch_float(dtype, [&](auto type) -> int {
        using T = typename decltype(type)::type;
        switch (operator_) {
        case REDUCE_SUM:
        case REDUCE_MEAN: return f(type, type_is<counted_sum_of<T>>());
        case REDUCE_NORM2: return f(type, type_is<skipping<squares_of<T>>>());
        case REDUCE_PROD: return f(type, type_is<skipping<product_of<T>>>());
        case REDUCE_MIN: return f(type, type_is<extreme_number_of<T, false>>());
        case REDUCE_MAX: return f(type, type_is<extreme_number_of<T, true>>());
        case REDUCE_ARGMIN: return f(type, type_is<skipping<position_of<T, false>>>());
        case REDUCE_ARGMAX: return f(type, type_is<skipping<position_of<T, true>>>());
        default: return cudaErrorInvalidValue;
        }
    });
}

/* The same for every operator. Integers have no NaNs to count (reduce_no_nans). */
template <typename F> int dispatch_reduce(enum dtype dtype, enum reduce_operator operator_, bool skip_nan, F &&f) {
    if (operator_ == REDUCE_COUNT_NAN)
        return dispatch_float(
            dtype, [&](auto type) -> int { return f(type, type_is<nans_of<typename decltype(type)::type>>()); });
    if (skip_nan && !reduce_spreads(operator_)) return dispatch_skipping(dtype, operator_, f);
    if (operator_ == REDUCE_SUM || operator_ == REDUCE_MEAN || operator_ == REDUCE_NORM2)
        return dispatch_sum(dtype, operator_, f);
    return dispatch_dtype(dtype, [&](auto type) -> int {
        using T = typename decltype(type)::type;
        switch (operator_) {
        case REDUCE_PROD: return f(type, type_is<product_of<T>>());
        case REDUCE_MIN: return f(type, type_is<extreme_of<T, false>>());
        case REDUCE_MAX: return f(type, type_is<extreme_of<T, true>>());
        case REDUCE_ARGMIN: return f(type, type_is<position_of<T, false>>());
        case REDUCE_ARGMAX: return f(type, type_is<position_of<T, true>>());
        case REDUCE_VAR:
        case REDUCE_STD:
            return f(type, type_is<std::conditional_t<std::is_integral_v<T>, exact_spread_of<T>, spread_of<T>>>());
        default: return cudaErrorInvalidValue;
        }
    });
}

/* Modelled traffic: every element read once, every result written once, counted with an element's size. */
inline double reduce_bytes(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    const double outputs = double(args.outer) * args.inner;
    return outputs * (double(args.length) + 1) * dtype_size(launch->dtype);
}
#define REDUCE_TRAFFIC "each element read once"

/* count_nan of integers: zeros. */
inline int reduce_no_nans(const struct launch *launch) {
    const reduce_args &args = launch->args.reduce;
    if (!args.last) return 0;
    return cudaMemsetAsync(args.y, 0, size_t(args.outer * args.inner) * sizeof(int64_t),
                           static_cast<cudaStream_t>(launch->stream));
}

inline bool reduce_has_no_nans(const struct launch *launch) {
    return launch->args.reduce.operator_ == REDUCE_COUNT_NAN && !dtype_is_float(launch->dtype);
}

/* For kernel->refuses of variants that cannot skip NaNs. */
inline const char *reduce_skips_no_nan(const struct launch *launch) {
    return launch->args.reduce.skip_nan ? "this variant does not skip NaNs" : NULL;
}

inline double reduce_divisor(const reduce_args &args) {
    return args.operator_ == REDUCE_MEAN ? double(args.total) : 1.0;
}

#endif
