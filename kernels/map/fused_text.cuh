/* fused_text.cuh - the kernel of fused.cu, as text that follows what cuda_text.c writes for an expression. fused.cu
 * defines the text's constants ALONG (inner is 1), STAGED (rows pass through shared memory), SKIP (NaNs are ignored)
 * and UNROLL, the result's type STORED with stored(), and ACCUMULATOR, one of the structures here. */
#ifndef KERNELS_MAP_FUSED_TEXT_CUH
#define KERNELS_MAP_FUSED_TEXT_CUH

/* An accumulator has empty(), take(x, at, step), which includes the elements x[i] at positions at + i / RUN * step + i
 * % RUN of the reduced axis, merge(), and result(divisor). */
static const char fused_text[] = R"(
struct reduction {
    long long outer, length, inner, offset, chunk, column_tiles, tiles;
    int columns, rows, groups, splits, first, last;
    double divisor;
    void *state, *y, *partial;
    unsigned *tickets;
};
constexpr bool REAL = VALUE(0.5) != 0, SIGNED = VALUE(-1) < 0;
constexpr int WIDTH = ALONG ? 1 : N, TAKEN = ALONG ? N : 1, RUN = STAGED ? 1 : TAKEN;
__device__ inline bool is_number(VALUE x) { return x == x; }

/* A sum in two doubles; SQUARES: of x^2, and the result is its root. */
template <bool SQUARES> struct total {
    double hi, lo;
    __device__ static total empty() { return {0, 0}; }
    __device__ void add(double x) {
        const double sum = hi + x, x_in_sum = sum - hi;
        lo += (hi - (sum - x_in_sum)) + (x - x_in_sum);
        hi = sum;
    }
    template <int COUNT> __device__ void take(const VALUE (&x)[COUNT], long long, long long) {
        double sum = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const double one = SKIP && !is_number(x[i]) ? 0 : (double)x[i], term = SQUARES ? one * one : one;
            if (sizeof(VALUE) == 8) add(term);
            else sum += term;
        }
        if (sizeof(VALUE) < 8) add(sum);
    }
    __device__ void merge(const total &other) {
        add(other.hi);
        lo += other.lo;
    }
    __device__ double result(double divisor) const {
        const double sum = hi + lo, value = (sum == sum ? sum : hi) / divisor;
        return SQUARES ? sqrt(value) : value;
    }
};

struct mean_of_numbers {
    total<false> sum;
    long long count;
    __device__ static mean_of_numbers empty() { return {total<false>::empty(), 0}; }
    template <int COUNT> __device__ void take(const VALUE (&x)[COUNT], long long, long long) {
        sum.take(x, 0, 0);
#pragma unroll
        for (int i = 0; i < COUNT; i++) count += is_number(x[i]);
    }
    __device__ void merge(const mean_of_numbers &other) {
        sum.merge(other.sum);
        count += other.count;
    }
    __device__ double result(double) const { return sum.result((double)count); }
};

/* The squares of float64: sum * 2^(1200 level). */
struct scaled_squares {
    double sum;
    long long level;
    __device__ static scaled_squares empty() { return {0, -1}; }
    __device__ void raise(long long higher) {
        for (; level < higher; level++) sum = sum * 0x1p-600 * 0x1p-600;
    }
    template <int COUNT> __device__ void take(const VALUE (&x)[COUNT], long long, long long) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const double one = SKIP && !is_number(x[i]) ? 0 : fabs((double)x[i]);
            raise(one < 0x1p-400 ? -1 : one < 0x1p480 ? 0 : 1);
            const double scaled = one * (level < 0 ? 0x1p600 : level > 0 ? 0x1p-600 : 1);
            sum += scaled * scaled;
        }
    }
    __device__ void merge(scaled_squares other) {
        raise(other.level);
        other.raise(level);
        sum += other.sum;
    }
    __device__ double result(double) const { return ldexp(sqrt(sum), 600 * (int)level); }
};

/* mantissa * 2^exponent, so that no order of the elements leaves the range. Narrow elements are taken six at a time:
 * the range of double has room for the product of six. */
struct product {
    double mantissa;
    long long exponent;
    __device__ static product empty() { return {1, 0}; }
    __device__ void multiply(double by) {
        int binary = 0;
        const double all = mantissa * by;
        mantissa = all != 0 && fabs(all) < INFINITY ? frexp(all, &binary) : all;
        exponent += binary;
    }
    template <int COUNT> __device__ void take(const VALUE (&x)[COUNT], long long, long long) {
        const int together = sizeof(VALUE) < 8 ? 6 : 1;
#pragma unroll
        for (int i = 0; i < COUNT; i += together) {
            double some = 1;
#pragma unroll
            for (int j = i; j < COUNT && j < i + together; j++)
                if (!SKIP || is_number(x[j])) some *= x[j];
            multiply(some);
        }
    }
    __device__ void merge(const product &other) {
        multiply(other.mantissa);
        exponent += other.exponent;
    }
    __device__ double result(double) const {
        return ldexp(mantissa, exponent < -4096 ? -4096 : exponent > 4096 ? 4096 : (int)exponent);
    }
};

/* Integers modulo 2^64: sums, products, and the number of NaNs. */
enum { SUM, PRODUCT, NANS };
template <int KIND> struct whole_number {
    unsigned long long value;
    __device__ static whole_number empty() { return {KIND == PRODUCT}; }
    template <int COUNT> __device__ void take(const VALUE (&x)[COUNT], long long, long long) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            if (KIND == NANS) value += !is_number(x[i]);
            else merge({(unsigned long long)x[i]});
        }
    }
    __device__ void merge(const whole_number &other) {
        value = KIND == PRODUCT ? value * other.value : value + other.value;
    }
    __device__ long long result(double) const { return (long long)value; }
};

/* A NaN is the extreme one, or no value with SKIP; -0 is less than 0. */
template <bool MAX, typename T> __device__ inline T extreme_of(T a, T b) {
    return (MAX ? a > b : a < b) ? a : b;
}
template <bool MAX> __device__ inline double extreme_of(double a, double b) {
    const bool first = (MAX ? a > b : a < b) | (a == b & (__double2hiint(b) < 0) == MAX);
    return first | (SKIP ? b != b : a != a) ? a : b;
}
template <bool MAX> __device__ inline float extreme_of(float a, float b) {
    float value;
    if (MAX && SKIP) asm("max.f32 %0, %1, %2;" : "=f"(value) : "f"(a), "f"(b));
    if (MAX && !SKIP) asm("max.NaN.f32 %0, %1, %2;" : "=f"(value) : "f"(a), "f"(b));
    if (!MAX && SKIP) asm("min.f32 %0, %1, %2;" : "=f"(value) : "f"(a), "f"(b));
    if (!MAX && !SKIP) asm("min.NaN.f32 %0, %1, %2;" : "=f"(value) : "f"(a), "f"(b));
    return value;
}
template <bool MAX> struct extreme {
    VALUE value;
    __device__ static extreme empty() {
        if (REAL) return {VALUE(SKIP ? 0 * INFINITY : MAX ? -INFINITY : INFINITY)};
        const VALUE least = SIGNED ? VALUE(~0ull << (8 * sizeof(VALUE) - 1)) : 0;
        return {MAX ? least : VALUE(-1 - least)};
    }
    template <int COUNT> __device__ void take(const VALUE (&x)[COUNT], long long, long long) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) value = extreme_of<MAX>(x[i], value);
    }
    __device__ void merge(const extreme &other) { value = extreme_of<MAX>(other.value, value); }
    __device__ auto result(double) const {
        if constexpr (REAL) return (double)value;
        else return (long long)value;
    }
};

/* The first of the extreme elements; index -1: none yet. */
template <bool MAX> struct position {
    VALUE value;
    long long index;
    __device__ static position empty() { return {0, -1}; }
    __device__ static bool displaces(VALUE a, VALUE b) { return (MAX ? a > b : a < b) || (!SKIP && a != a && b == b); }
    template <int COUNT> __device__ void take(const VALUE (&x)[COUNT], long long at, long long step) {
        int best = -1;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if ((index < 0 && best < 0 && (!SKIP || is_number(x[i]))) || displaces(x[i], value)) value = x[i], best = i;
        if (best >= 0) index = at + best / RUN * step + best % RUN;
    }
    __device__ void merge(const position &other) {
        const bool earlier = other.index < index && !displaces(value, other.value);
        if (other.index >= 0 && (index < 0 || earlier || displaces(other.value, value))) *this = other;
    }
    __device__ long long result(double) const { return index; }
};

/* Takes elements of an output: of a contiguous row (ALONG), or of WIDTH neighbouring columns from c on. */
__device__ inline void gather(const arguments &a, const reduction &r, long long o, long long c, int split, int row,
                              ACCUMULATOR (&of)[WIDTH]) {
    const INDEX rows = r.rows, begin = (o * r.length) * r.inner + c, end = begin + (INDEX)r.length;
    const INDEX base = (begin + N - 1) / N, stride = ALONG ? 1 : (INDEX)r.inner / N;
    const INDEX steps = !ALONG ? (INDEX)r.length : end / N > base ? end / N - base : 0;
    const INDEX from = split * (INDEX)r.chunk, to = from + (INDEX)r.chunk < steps ? from + (INDEX)r.chunk : steps;
    const long long step = (long long)rows * TAKEN;
    for (INDEX l = from + row; l < to; l += UNROLL * rows) {
        const long long at = r.offset + (ALONG ? (long long)((base + l) * N - begin) : (long long)l);
        const INDEX k = base + l * stride;
        loaded in[UNROLL];
        if (l + (UNROLL - 1) * rows < to) {
            VALUE x[WIDTH][UNROLL * TAKEN];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) load(a, k + u * rows * stride, in[u]);
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                VALUE unit[N];
                values(a, k + u * rows * stride, in[u], unit);
#pragma unroll
                for (int j = 0; j < N; j++) x[ALONG ? 0 : j][ALONG ? u * N + j : u] = unit[j];
            }
#pragma unroll
            for (int w = 0; w < WIDTH; w++) of[w].take(x[w], at, step);
            continue;
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (l + u * rows < to) load(a, k + u * rows * stride, in[u]);
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            if (l + u * rows >= to) continue;
            VALUE unit[N], x[WIDTH][TAKEN];
            values(a, k + u * rows * stride, in[u], unit);
#pragma unroll
            for (int j = 0; j < N; j++) x[ALONG ? 0 : j][ALONG ? j : 0] = unit[j];
#pragma unroll
            for (int w = 0; w < WIDTH; w++) of[w].take(x[w], at + u * step, 0);
        }
    }
    if (!ALONG || split > 0) return;
    const INDEX head = base * N < end ? base * N : end, tail = (base + steps) * N;
    for (INDEX e = begin + row; e < end; e += rows) {
        if (e >= head && e < tail) e += (tail - e + rows - 1) / rows * rows;
        if (e >= end) break;
        const VALUE x[1] = {value(a, e)};
        ACCUMULATOR one = ACCUMULATOR::empty();
        one.take(x, r.offset + (long long)(e - begin), 0);
        of[0].merge(one);
    }
}

/* Merges the accumulators of a block's rows; row 0 has the result. */
__device__ inline void combine(const reduction &r, int row, ACCUMULATOR (&of)[WIDTH]) {
    __shared__ ACCUMULATOR slots[BLOCK];
    ACCUMULATOR &own = slots[threadIdx.x];
#pragma unroll
    for (int w = 0; w < WIDTH; w++) {
        __syncthreads();
        own = of[w];
        for (int half = r.rows / 2; half > 0; half /= 2) {
            __syncthreads();
            if (row < half) own.merge(slots[threadIdx.x + half * r.columns]);
        }
        of[w] = own;
    }
}

/* Is this the last of the blocks that share a tile to arrive? It then sees what the others wrote. */
__device__ inline bool is_last(unsigned *ticket, unsigned blocks) {
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned before;
        asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], 1;" : "=r"(before) : "l"(ticket) : "memory");
        last = before == blocks - 1;
        if (last) *ticket = 0;
    }
    __syncthreads();
    return last;
}

/* Merges what the launches before have of an output, and stores the result, or keeps it for the next launch. */
__device__ inline void finish(const reduction &r, long long output, ACCUMULATOR &of) {
    ACCUMULATOR *state = (ACCUMULATOR *)r.state + output;
    if (!r.first) {
        ACCUMULATOR all = *state;
        all.merge(of);
        of = all;
    }
    if (r.last) ((STORED *)r.y)[output] = stored(of.result(r.divisor));
    else *state = of;
}

/* Where shared memory holds value e of a block: with gaps, so that rows of 32 values lie in different banks. */
__device__ constexpr int slot(int e) { return e + e / 32; }

/* Writes the values of vectors `from` on to shared memory, to the last that begins before element `end`. */
__device__ inline void stage(const arguments &a, const reduction &r, INDEX from, INDEX end, VALUE *staged) {
    const INDEX count = (INDEX)(r.outer * r.length);
    loaded in[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        const INDEX k = from + u * BLOCK + threadIdx.x;
        if (k * N < end && (k + 1) * N <= count) load(a, k, in[u]);
    }
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        const int vector = u * BLOCK + threadIdx.x;
        const INDEX k = from + vector;
        if (k * N >= end) continue;
        VALUE unit[N];
        if ((k + 1) * N <= count) values(a, k, in[u], unit);
        else
            for (int j = 0; j < N; j++) unit[j] = k * N + j < count ? value(a, k * N + j) : VALUE(0);
#pragma unroll
        for (int j = 0; j < N; j++) staged[slot(vector * N + j)] = unit[j];
    }
}

/* Takes elements l, l + step, ... of a row that begins at staged[slot(base)]: BATCH at a time, then half as many. */
template <int BATCH>
__device__ inline void take_row(const reduction &r, const VALUE *staged, int base, int l, ACCUMULATOR &of) {
    const int step = r.rows, length = (int)r.length;
    for (; l + (BATCH - 1) * step < length; l += BATCH * step) {
        VALUE x[BATCH];
#pragma unroll
        for (int i = 0; i < BATCH; i++) x[i] = staged[slot(base + l + i * step)];
        of.take(x, r.offset + l, step);
    }
    if constexpr (BATCH > 1) take_row<BATCH / 2>(r, staged, base, l, of);
}

/* Reduces the short rows of a tile, which are contiguous: `groups` rows, of which r.rows threads each take one. */
__device__ inline void reduce_short_rows(const arguments &a, const reduction &r, long long tile) {
    __shared__ VALUE staged[slot(BLOCK * UNROLL * N)];
    const long long o = tile * r.groups, rows = r.outer - o < r.groups ? r.outer - o : r.groups;
    const INDEX begin = o * r.length, from = begin / N;
    const int row = threadIdx.x % r.rows, first = threadIdx.x / r.rows, together = BLOCK / r.rows;
    stage(a, r, from, begin + (INDEX)(rows * r.length), staged);
    __syncthreads();
    for (int group = first; group - first < rows; group += together) {
        ACCUMULATOR of[WIDTH] = {ACCUMULATOR::empty()};
        if (group < rows) take_row<8>(r, staged, (int)(begin - from * N) + group * (int)r.length, row, of[0]);
        combine(r, row, of);
        if (group < rows && row == 0) finish(r, o + group, of[0]);
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK, 2)
    map(const __grid_constant__ arguments a, const __grid_constant__ reduction r) {
    const long long block = (long long)blockIdx.y * gridDim.x + blockIdx.x, tile = block / r.splits;
    if (tile >= r.tiles) return;
    if constexpr (STAGED) return reduce_short_rows(a, r, tile);
    const int split = (int)(block - tile * r.splits), thread = threadIdx.x;
    const int column = thread % r.columns, row = thread / r.columns % r.rows;
    const long long o = tile / r.column_tiles * r.groups + thread / (r.columns * r.rows);
    const long long c = (tile % r.column_tiles * r.columns + column) * WIDTH, outputs = r.outer * r.inner;
    const long long output = o * r.inner + c;
    const bool inside = o < r.outer && c < r.inner;
    ACCUMULATOR of[WIDTH];
#pragma unroll
    for (int w = 0; w < WIDTH; w++) of[w] = ACCUMULATOR::empty();
    if (inside) gather(a, r, o, c, split, row, of);
    combine(r, row, of);
    if (r.splits > 1) {
        ACCUMULATOR *partial = (ACCUMULATOR *)r.partial + output;
#pragma unroll
        for (int w = 0; w < WIDTH; w++) {
            if (inside && row == 0) partial[split * outputs + w] = of[w];
            of[w] = ACCUMULATOR::empty();
        }
        if (!is_last(r.tickets + tile, r.splits)) return;
        if (inside)
#pragma unroll 4
            for (int s = row; s < r.splits; s += r.rows)
#pragma unroll
                for (int w = 0; w < WIDTH; w++) of[w].merge(partial[s * outputs + w]);
        combine(r, row, of);
    }
    if (!inside || row > 0) return;
#pragma unroll
    for (int w = 0; w < WIDTH; w++) finish(r, output + w, of[w]);
}
)";

#endif
