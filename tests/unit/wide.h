/* wide.h - for test_exact.c: sums of floats as one wide integer, and the float nearest to a quotient, found by trying:
 * simple, slow, and unlike kernels/reduce/tuned/exact.h in all it does. */
#include "../../kernels/core/kernel.h"

#include <string.h>

/* A number is the integer in `word`, two's complement, lowest word first, times 2^-1152. */
#define WIDE_WORDS 84
#define WIDE_POINT 1152

struct wide {
    uint32_t word[WIDE_WORDS];
};

struct float_format {
    int fraction, exponent; /* bits */
};

static struct float_format format_of(enum dtype dtype) {
    return dtype == FLOAT64   ? (struct float_format){52, 11}
           : dtype == FLOAT32 ? (struct float_format){23, 8}
           : dtype == FLOAT16 ? (struct float_format){10, 5}
                              : (struct float_format){7, 8};
}

static bool wide_is_negative(const struct wide *a) {
    return a->word[WIDE_WORDS - 1] >> 31;
}

static void wide_add(struct wide *a, const struct wide *b) {
    uint64_t carry = 0;
    for (int i = 0; i < WIDE_WORDS; i++) {
        carry += (uint64_t)a->word[i] + b->word[i];
        a->word[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

static void wide_negate(struct wide *a) {
    struct wide one = {{1}};
    for (int i = 0; i < WIDE_WORDS; i++) a->word[i] = ~a->word[i];
    wide_add(a, &one);
}

/* Of non-negative numbers: is a < b (-1), a == b (0) or a > b (1)? */
static int wide_compare(const struct wide *a, const struct wide *b) {
    for (int i = WIDE_WORDS - 1; i >= 0; i--)
        if (a->word[i] != b->word[i]) return a->word[i] < b->word[i] ? -1 : 1;
    return 0;
}

/* The finite float with these bits, without its sign, times `factor`. The bits of an infinity stand for the power of
 * two that would come after the largest number. */
static struct wide wide_of(enum dtype dtype, uint64_t bits, uint64_t factor) {
    const struct float_format format = format_of(dtype);
    const int field = (int)(bits >> format.fraction) & ((1 << format.exponent) - 1);
    uint64_t digits = bits & ((UINT64_C(1) << format.fraction) - 1);
    if (field > 0) digits += UINT64_C(1) << format.fraction;
    const int bias = (1 << (format.exponent - 1)) - 1;
    int at = (field > 0 ? field : 1) - bias - format.fraction + WIDE_POINT;
    struct wide wide = {{0}};
    for (; factor > 0; factor >>= 1, at++) {
        if (!(factor & 1)) continue;
        struct wide part = {{0}};
        for (int bit = 0; bit <= format.fraction; bit++)
            part.word[(at + bit) / 32] |= (uint32_t)(digits >> bit & 1) << (at + bit) % 32;
        wide_add(&wide, &part);
    }
    return wide;
}

/* A sum in progress. */
struct referee {
    struct wide sum;
    bool nan, plus, minus;
};

static void referee_take(struct referee *referee, enum dtype dtype, uint64_t bits) {
    const struct float_format format = format_of(dtype);
    const uint64_t sign = UINT64_C(1) << (format.fraction + format.exponent), magnitude = bits & (sign - 1);
    const uint64_t infinity = sign - (UINT64_C(1) << format.fraction);
    if (magnitude > infinity) {
        referee->nan = true;
    } else if (magnitude == infinity) {
        *(bits & sign ? &referee->minus : &referee->plus) = true;
    } else {
        struct wide number = wide_of(dtype, magnitude, 1);
        if (bits & sign) wide_negate(&number);
        wide_add(&referee->sum, &number);
    }
}

/* The bits of the float that is nearest to the sum / divisor; of two, the even one. */
static uint64_t referee_result(const struct referee *referee, enum dtype dtype, uint64_t divisor) {
    const struct float_format format = format_of(dtype);
    const uint64_t sign = UINT64_C(1) << (format.fraction + format.exponent);
    const uint64_t infinity = sign - (UINT64_C(1) << format.fraction);
    if (referee->nan || divisor == 0 || (referee->plus && referee->minus))
        return infinity | UINT64_C(1) << (format.fraction - 1);
    if (referee->plus || referee->minus) return referee->minus ? sign | infinity : infinity;
    struct wide sum = referee->sum, zero = {{0}};
    const bool negative = wide_is_negative(&sum);
    if (negative) wide_negate(&sum);
    if (wide_compare(&sum, &zero) == 0) return 0;
    /* The largest float that is not above: magnitudes are in the order of their bits. */
    uint64_t below = 0, above = infinity;
    while (above - below > 1) {
        const uint64_t middle = below + (above - below) / 2;
        const struct wide product = wide_of(dtype, middle, divisor);
        if (wide_compare(&product, &sum) <= 0)
            below = middle;
        else
            above = middle;
    }
    struct wide middle = wide_of(dtype, below, divisor), upper = wide_of(dtype, above, divisor);
    wide_add(&middle, &upper);
    wide_add(&sum, &sum);
    const int order = wide_compare(&sum, &middle);
    const uint64_t nearest = order > 0 || (order == 0 && (below & 1)) ? above : below;
    return negative ? sign | nearest : nearest;
}
