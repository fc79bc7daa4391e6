/* two_doubles.cuh - sums, means, norms and products of floats that hardly depend on order.
 *
 * They are an unevaluated sum hi + lo of two doubles (Knuth's TwoSum; Dekker's and Veltkamp's TwoProduct by fused
 * multiply-add). hi is the result of double arithmetic; lo collects what every addition rounded away. So the error is
 * that of twice the precision, about 2^-104 of the sum of magnitudes, if elements are added one by one. Two orders of
 * the same elements then differ far below the last bit of a float64. Batches of narrow floats are first added in plain
 * double, which is exact if all exponents lie within 26 of each other (float32). Numbers further apart that cancel show
 * the order of their addition, so every launch has one order (stream.cu), and tiles of another size may change
 * the last bits. hi never depends on lo, so infinities and NaNs come out as in plain arithmetic. */
#ifndef KERNELS_REDUCE_TWO_DOUBLES_CUH
#define KERNELS_REDUCE_TWO_DOUBLES_CUH

#include "operators.cuh"

/* What these accumulators share; A: the accumulator that derives from this struct. */
template <typename A> struct two_doubles {
    double hi, lo;

    __device__ void add(double x) {
        const double sum = hi + x, x_in_sum = sum - hi;
        lo += (hi - (sum - x_in_sum)) + (x - x_in_sum);
        hi = sum;
    }
    __device__ double rounded() const {
        const double sum = hi + lo;
        return isnan(sum) ? hi : sum; /* lo has no meaning beside an infinite hi */
    }

    __device__ reduce_state save() const { return {{hi}, __double_as_longlong(lo)}; }
    static __device__ A load(const reduce_state &state) {
        A a;
        a.hi = state.value.f;
        a.lo = __longlong_as_double(state.index);
        return a;
    }
    template <typename F> __device__ A shuffled(F shuffle) const {
        A a;
        a.hi = shuffle(hi);
        a.lo = shuffle(lo);
        return a;
    }
    __device__ void merge(const two_doubles &other) {
        add(other.hi);
        lo += other.lo;
    }
    /* A lane of this type is its own accumulator. */
    __device__ A finish(int64_t, int64_t, int64_t, int64_t) const { return static_cast<const A &>(*this); }
};

/* The part of x that is lost when a 64-bit integer is converted to double; 0 for other types, which lose nothing. */
template <typename T> __device__ inline double lost_by_double(T x) {
    if constexpr (std::is_integral_v<T> && sizeof(T) == 8)
        return static_cast<double>(static_cast<int64_t>(x - static_cast<T>(static_cast<double>(x))));
    else
        return 0.0;
}

/* The sum in plain double of a short row whose elements are narrower than double; it then becomes an L. A thousand
 * elements lose less than 2^-49 of the sum of their magnitudes, far below the last bit of their type. That saves half
 * of a merge's shuffles and seven eighths of its additions. */
template <typename L> struct plain_total {
    double value;
    static __device__ plain_total identity() { return {0.0}; }
    __device__ void merge(const plain_total &other) { value += other.value; }
    template <typename F> __device__ plain_total shuffled(F shuffle) const { return {shuffle(value)}; }
    __device__ L in_two_doubles() const { return {{value, 0.0}}; }
};

/* sum (divisor 1) and mean. A batch of up to 8 narrow elements is first added up, integers in 64 bits, floats in
 * double. float16 loses nothing that way; float32 only if exponents lie more than 26 apart, bfloat16 more than 43,
 * and then 2^-53 of the largest. */
template <typename T> struct total_of : two_doubles<total_of<T>> {
    using element_type = T;
    using result_type = mean_result<T>;
    static __device__ total_of identity() { return {{0.0, 0.0}}; }
    static __device__ T neutral() { return narrow<T>(0.0f); }
    static constexpr bool plain_in_rows = sizeof(T) <= 4;
    template <int COUNT> static __device__ plain_total<total_of> in_row(const T (&x)[COUNT]) {
        std::conditional_t<std::is_integral_v<T>, int64_t, double> sum = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++) sum += widen(x[i]);
        return {static_cast<double>(sum)};
    }
    template <int COUNT> __device__ void add_batch(const T (&x)[COUNT], unsigned) {
        if constexpr (sizeof(T) <= 4) {
            std::conditional_t<std::is_integral_v<T>, int64_t, double> sum = 0;
#pragma unroll
            for (int i = 0; i < COUNT; i++) sum += widen(x[i]);
            this->add(static_cast<double>(sum));
        } else {
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                this->add(static_cast<double>(widen(x[i])));
                this->lo += lost_by_double(x[i]);
            }
        }
    }
    __device__ result_type result(double divisor) const {
        const double sum = this->rounded();
        if (divisor == 1.0) return quiet(narrow<result_type>(sum));
        const double quotient = sum / divisor, rest = fma(-quotient, divisor, sum) + ((this->hi - sum) + this->lo);
        const double corrected = quotient + rest / divisor;
        return quiet(narrow<result_type>(isnan(corrected) ? quotient : corrected));
    }
};

/* norm2: the root of the sum of squares. No square leaves double's range. */
template <typename T> struct norm_of : two_doubles<norm_of<T>> {
    using element_type = T;
    using result_type = mean_result<T>;
    static __device__ norm_of identity() { return {{0.0, 0.0}}; }
    static __device__ T neutral() { return narrow<T>(0.0f); }
    static constexpr bool plain_in_rows = std::is_integral_v<T> ? sizeof(T) <= 2 : sizeof(T) <= 4;
    template <int COUNT> static __device__ plain_total<norm_of> in_row(const T (&x)[COUNT]) {
        double sum = 0.0;
#pragma unroll
        for (int i = 0; i < COUNT; i++) sum += static_cast<double>(widen(x[i])) * static_cast<double>(widen(x[i]));
        return {sum};
    }
    template <int COUNT> __device__ void add_batch(const T (&x)[COUNT], unsigned) {
        if constexpr (std::is_integral_v<T> && sizeof(T) <= 2) {
            uint64_t sum = 0;
#pragma unroll
            for (int i = 0; i < COUNT; i++) sum += static_cast<uint64_t>(widen(x[i]) * widen(x[i]));
            this->add(static_cast<double>(sum));
        } else if constexpr (std::is_integral_v<T> && sizeof(T) == 4) {
            uint64_t high = 0, low = 0; /* upper and lower halves of the squares: exact */
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                const auto square = static_cast<uint64_t>(widen(x[i]) * widen(x[i]));
                high += square >> 32;
                low += static_cast<uint32_t>(square);
            }
            this->add(static_cast<double>(high) * 0x1p32);
            this->add(static_cast<double>(low));
        } else if constexpr (sizeof(T) <= 2) {
            double sum = 0.0;
#pragma unroll
            for (int i = 0; i < COUNT; i++) sum += static_cast<double>(widen(x[i])) * static_cast<double>(widen(x[i]));
            this->add(sum);
        } else {
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                const auto wide_x = static_cast<double>(widen(x[i]));
                this->add(wide_x * wide_x);
                if constexpr (!std::is_same_v<T, float>)
                    this->lo += fma(wide_x, wide_x, -(wide_x * wide_x)) + 2.0 * wide_x * lost_by_double(x[i]);
            }
        }
    }
    __device__ result_type result(double) const {
        return quiet(narrow<result_type>(sqrt(this->rounded())));
    }
};

/* norm2 of float64, at the level of the largest element so far (scaled.cuh). */
template <> struct norm_of<double> : two_doubles<norm_of<double>> {
    using element_type = double;
    using result_type = double;
    int level;
    static __device__ norm_of identity() { return {{0.0, 0.0}, -1}; }
    static __device__ double neutral() { return 0.0; }
    static constexpr bool plain_in_rows = false;
    __device__ void raise(int higher) {
        if (higher <= level) return;
        hi = square_sum(hi, level, higher);
        lo = square_sum(lo, level, higher);
        level = higher;
    }
    template <int COUNT> __device__ void add_batch(const double (&x)[COUNT], unsigned) {
        int largest = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++) largest = max(largest, __double2hiint(x[i]) & 0x7fffffff);
        raise(square_level(largest));
        const double scale = square_scale(level);
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const double scaled = x[i] * scale, square = scaled * scaled;
            add(square);
            lo += fma(scaled, scaled, -square);
        }
    }
    __device__ void merge(norm_of other) {
        raise(other.level);
        other.raise(level);
        two_doubles::merge(other);
    }
    __device__ double result(double) const {
        return quiet(with_exponent(sqrt(rounded()), SQUARE_SHIFT * level));
    }

    /* Saves the level in the last two bits of lo. */
    __device__ reduce_state save() const {
        return {{hi}, (__double_as_longlong(lo) & ~int64_t(3)) | (level + 1)};
    }
    static __device__ norm_of load(const reduce_state &state) {
        return {{state.value.f, __longlong_as_double(state.index & ~int64_t(3))}, int(state.index & 3) - 1};
    }
    template <typename F> __device__ norm_of shuffled(F shuffle) const {
        return {two_doubles::shuffled(shuffle), shuffle(level)};
    }
};

/* Products of floats: (hi + lo) * 2^exponent. EXACT elements, whose product double holds exactly, are multiplied with
 * each other first. */
template <typename T> struct float_product_of : two_doubles<float_product_of<T>> {
    using element_type = T;
    using result_type = T;
    int64_t exponent;
    static constexpr int EXACT = sizeof(T) == 8 ? 1 : sizeof(T) == 4 ? 2 : 4;
    static __device__ float_product_of identity() { return {{1.0, 0.0}, 0}; }
    static __device__ T neutral() { return narrow<T>(1.0f); }
    /* The mantissa, rounded; a zero keeps its sign. */
    __device__ double mantissa() const { return this->hi == 0 ? this->hi : this->rounded(); }
    __device__ void multiply(double x) {
        const double product = this->hi * x;
        this->lo = fma(this->lo, x, fma(this->hi, x, -product));
        this->hi = product;
    }
    /* Turns hi into a mantissa. */
    __device__ void normalise() {
        int64_t by = 0;
        this->hi = split_exponent(this->hi, by);
        this->lo *= power_of_two(int(-by));
        exponent += by;
    }
    template <int COUNT> __device__ void add_batch(const T (&x)[COUNT], unsigned) {
#pragma unroll
        for (int i = 0; i < COUNT; i += EXACT) {
            auto product = static_cast<double>(widen(x[i]));
#pragma unroll
            for (int k = i + 1; k < i + EXACT && k < COUNT; k++) product *= static_cast<double>(widen(x[k]));
            if constexpr (EXACT == 1) product = split_exponent(product, exponent);
            multiply(product);
            if constexpr (EXACT > 1) normalise(); /* |hi| is 0 or at least 2^-532, so lo stays in range */
        }
        if constexpr (EXACT == 1) normalise();
    }
    __device__ void merge(const float_product_of &other) {
        const double other_lo = this->hi * other.lo;
        multiply(other.hi);
        this->lo += other_lo;
        exponent += other.exponent;
        normalise();
    }
    __device__ result_type result(double) const {
        return quiet(narrow<T>(with_exponent(mantissa(), exponent)));
    }

    /* Saves nine bits of the exponent in hi. The state's index has the rest of the exponent in its upper 40 bits,
     * enough for 2^38 elements of any size, and lo in its lower 24, in units of 2^-75. */
    __device__ reduce_state save() const {
        float_product_of saved = {{mantissa(), 0.0}, exponent};
        saved.lo = this->lo - (saved.hi - this->hi);
        saved.normalise();
        const int64_t low = isnan(saved.lo) ? 0 : __double2ll_rn(saved.lo * 0x1p75);
        return {{saved.hi * power_of_two(int(saved.exponent & 511))}, (saved.exponent >> 9) * (1 << 24) + low};
    }
    /* Restores what save() has packed. */
    static __device__ float_product_of load(const reduce_state &state) {
        const int64_t low = int64_t(uint64_t(state.index) << 40) >> 40;
        float_product_of a = {{0.0, static_cast<double>(low) * 0x1p-75}, ((state.index - low) >> 24) * 512};
        a.hi = split_exponent(state.value.f, a.exponent);
        return a;
    }
    template <typename F> __device__ float_product_of shuffled(F shuffle) const {
        return {two_doubles<float_product_of>::shuffled(shuffle), shuffle(exponent)};
    }
};

#endif
