/* decode.c - scaling and masking, block by block. */
#include "decode.h"

#include "../../base/fail.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 512 /* elements that are decoded at a time */

/* ---- what follows from the attributes ---------------------------------------------------------------------------- */

/* The bounds of an integer type as float64: exact, but the upper bound of 64-bit types is rounded up by one. */
static double minimum_of(enum dtype dtype) {
    return dtype_is_signed(dtype) ? -ldexp(1, 8 * (int)dtype_size(dtype) - 1) : 0;
}

static double largest_of(enum dtype dtype) {
    return ldexp(1, 8 * (int)dtype_size(dtype) - dtype_is_signed(dtype)) - 1;
}

struct cf_number cf_netcdf_fill(enum dtype dtype) {
    const double floats = 9.9692099683868690e+36; /* netcdf.h: NC_FILL_FLOAT, NC_FILL_DOUBLE */
    struct cf_number fill = {.dtype = dtype, .given = dtype_size(dtype) > 1};
    if (dtype == FLOAT16 || dtype == BFLOAT16) return (struct cf_number){.given = false};
    if (dtype_is_float(dtype))
        fill.real = dtype == FLOAT32 ? (double)(float)floats : floats;
    else if (dtype == INT64 || dtype == UINT64)
        fill.integer = dtype == INT64 ? -INT64_C(9223372036854775806) : -2; /* NC_FILL_INT64, NC_FILL_UINT64 */
    else
        fill.integer = (int64_t)(dtype_is_signed(dtype) ? minimum_of(dtype) + 1 : largest_of(dtype));
    if (!dtype_is_float(dtype)) fill.real = dtype == UINT64 ? (double)(uint64_t)fill.integer : (double)fill.integer;
    return fill;
}

enum dtype cf_integer_dtype(size_t bytes, bool is_signed) {
    static const enum dtype integers[2][4] = {{UINT8, UINT16, UINT32, UINT64}, {INT8, INT16, INT32, INT64}};
    int width = 0;
    while (width < 3 && (size_t)1 << width < bytes) width++;
    return integers[is_signed][width];
}

/* Is the number an integer? */
static bool is_whole(const struct cf_number *number) {
    return !dtype_is_float(number->dtype) || (number->real == floor(number->real) && isfinite(number->real));
}

/* Is the number between the bounds of an integer type? Of a type of 64 bits largest_of is rounded up, beyond it. */
static bool is_within(double real, enum dtype dtype) {
    return real >= minimum_of(dtype) &&
           (real <= largest_of(dtype) && (dtype_size(dtype) < 8 || real < largest_of(dtype)));
}

/* Does the integer type represent the number? */
static bool represents(enum dtype dtype, const struct cf_number *number) {
    if (dtype_is_float(number->dtype) || dtype_size(dtype) < 8)
        return is_whole(number) && is_within(number->real, dtype);
    return number->integer >= 0 || dtype_is_signed(number->dtype) == dtype_is_signed(dtype);
}

/* Converts an integer to the type that elements are read as. A number that the stored type represents keeps its bits:
 * -1 of an int16 that is read as unsigned becomes 65535. */
static struct decode_mark integer_mark(const struct decoding *decoding, const struct cf_number *number) {
    int64_t element = 0, integer = number->integer;
    if (dtype_is_float(number->dtype))
        integer = number->real < 0x1p63 ? (int64_t)number->real : (int64_t)(uint64_t)number->real;
    dtype_store_integer(decoding->read_as, &element, 0, integer);
    integer = dtype_load_integer(decoding->read_as, &element, 0);
    bool bits = decoding->read_as == UINT64, wide = dtype_size(decoding->read_as) == 8;
    bool exact = wide && (!dtype_is_float(number->dtype) || decoding->read_as != decoding->stored);
    return (struct decode_mark){
        .exact = exact, .real = bits ? (double)(uint64_t)integer : (double)integer, .integer = integer};
}

/* Sets *mark for comparing elements with the number; false: no element can equal it. */
static bool make_mark(const struct decoding *decoding, const struct cf_number *number, struct decode_mark *mark) {
    enum dtype read_as = decoding->read_as;
    if (!dtype_is_float(read_as)) {
        if (!represents(decoding->stored, number) && !represents(read_as, number)) return false;
        *mark = integer_mark(decoding, number);
        return true;
    }
    uint64_t element = 0;
    dtype_store(read_as, &element, 0, number->real);
    *mark = (struct decode_mark){.real = number->real};
    return dtype_load(read_as, &element, 0) == number->real;
}

/* Makes a mark from each fill value and missing value that the stored type can represent. *useless: a sentence about
 * the first one that it cannot represent; the caller frees. */
static void make_marks(struct decoding *decoding, char **useless) {
    const struct cf *attributes = &decoding->attributes;
    for (int i = -1; i < attributes->missing_count; i++) {
        const struct cf_number *number = i < 0 ? &attributes->fill : &attributes->missing[i];
        if (!number->given || isnan(number->real)) continue; /* NaN elements count as missing anyway */
        if (make_mark(decoding, number, &decoding->marks[decoding->mark_count])) {
            decoding->mark_count++;
            continue;
        }
        if (*useless) continue;
        char text[CF_NUMBER_TEXT];
        const char *whose = i < 0                                               ? "_FillValue"
                            : i < attributes->missing_count - attributes->asked ? "missing_value"
                                                                                : "missing";
        *useless =
            must_printf("%s %s equals no %s", whose, cf_number_text(number, text), dtype_name(decoding->read_as));
    }
}

/* Sets the bounds of valid values. A bound of a wider type than the stored one applies to decoded values; this is a
 * convention of netCDF. */
static void find_bounds(struct decoding *decoding) {
    const struct cf_number *bounds[] = {&decoding->attributes.low, &decoding->attributes.high};
    bool *has[] = {&decoding->has_low, &decoding->has_high};
    struct decode_mark *marks[] = {&decoding->low, &decoding->high};
    enum dtype read_as = decoding->read_as;
    for (int i = 0; i < 2; i++) {
        enum dtype type = bounds[i]->dtype;
        if (!bounds[i]->given || !isfinite(bounds[i]->real)) continue;
        bool wider = dtype_is_float(type) && (!dtype_is_float(read_as) || dtype_size(type) > dtype_size(read_as));
        *has[i] = true;
        *marks[i] = (struct decode_mark){.real = bounds[i]->real};
        marks[i]->decoded = decoding->scales && wider;
        marks[i]->narrow = marks[i]->decoded && (type == FLOAT32 || decoding->result == FLOAT32);
        if (marks[i]->decoded || dtype_is_float(read_as)) continue;
        if (is_whole(bounds[i]) && (represents(decoding->stored, bounds[i]) || represents(read_as, bounds[i])))
            *marks[i] = integer_mark(decoding, bounds[i]);
        /* The bits of the bound of the 64-bit type. */
        int64_t extreme = dtype_is_signed(read_as) ? (i ? INT64_MAX : INT64_MIN) : -i;
        bool excludes = i == 0 ? marks[i]->real > minimum_of(read_as) : marks[i]->real < largest_of(read_as);
        *has[i] = excludes || (marks[i]->exact && marks[i]->integer != extreme);
    }
}

enum dtype decoding_common(enum dtype one, enum dtype other) {
    if (one == other) return one;
    bool float32_suffices = dtype_is_float(one) && dtype_is_float(other) && one != FLOAT64 && other != FLOAT64;
    return float32_suffices ? FLOAT32 : FLOAT64;
}

/* The type of scaled elements, as in NumPy: float64 if a term is float64 or an integer, or if float64 is read. */
static enum dtype type_of_scaling(const struct cf *attributes, enum dtype read_as) {
    const struct cf_number *terms[] = {&attributes->factor, &attributes->offset};
    enum dtype type = FLOAT32;
    for (int i = 0; i < 2; i++)
        if (terms[i]->given && (terms[i]->dtype == FLOAT64 || !dtype_is_float(terms[i]->dtype))) type = FLOAT64;
    return dtype_is_float(read_as) ? decoding_common(type, read_as) : type;
}

bool decoding_make(const struct cf *attributes, enum dtype stored, struct decoding *decoding, char **useless) {
    *useless = NULL;
    *decoding = (struct decoding){.attributes = *attributes, .stored = stored, .read_as = stored, .result = stored};
    bool is_integer = !dtype_is_float(stored);
    if (is_integer && attributes->sign)
        decoding->read_as = cf_integer_dtype(dtype_size(stored), attributes->sign == CF_SIGN_SIGNED);
    enum dtype read_as = decoding->result = decoding->read_as;
    decoding->scales = (attributes->factor.given && attributes->factor.real != 1) ||
                       (attributes->offset.given && attributes->offset.real != 0);
    if (decoding->scales) decoding->result = type_of_scaling(attributes, read_as);
    make_marks(decoding, useless);
    find_bounds(decoding);
    bool masks = decoding->mark_count > 0 || decoding->has_low || decoding->has_high;
    if (masks && !dtype_is_float(decoding->result)) decoding->result = FLOAT64;
    /* NumPy multiplies integers of more than 16 bits in float64. */
    bool in_float32 = decoding->result != FLOAT64 && (!is_integer || dtype_size(stored) <= 2);
    decoding->computed = in_float32 ? FLOAT32 : FLOAT64;
    return decoding->scales || masks || read_as != stored;
}

struct decoding *decoding_copy(const struct decoding *decoding) {
    return decoding ? memcpy(must_malloc(sizeof *decoding), decoding, sizeof *decoding) : NULL;
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

/* Elements that are decoded together. */
struct decoded_block {
    int64_t count;
    const void *from;
    double doubles[BLOCK];   /* values */
    int64_t integers[BLOCK]; /* where marks are exact */
    float floats[BLOCK];     /* values, while they are scaled in float32 */
    unsigned char missing[BLOCK];
};

/* Is a mark compared as an integer? */
static bool has_exact(const struct decoding *decoding) {
    bool exact = (decoding->has_low && decoding->low.exact) || (decoding->has_high && decoding->high.exact);
    for (int i = 0; i < decoding->mark_count; i++) exact = exact || decoding->marks[i].exact;
    return exact;
}

/* Marks the elements that equal a fill value or a missing value as missing. */
static void mask_missing_numbers(const struct decoding *decoding, struct decoded_block *block) {
    for (int m = 0; m < decoding->mark_count; m++) {
        const struct decode_mark mark = decoding->marks[m];
        if (mark.exact)
            for (int64_t i = 0; i < block->count; i++) block->missing[i] |= block->integers[i] == mark.integer;
        else
            for (int64_t i = 0; i < block->count; i++) block->missing[i] |= block->doubles[i] == mark.real;
    }
}

/* Maps integers to uint64_t in their order: adding 2^63 does so for signed ones. */
static uint64_t ordered(int64_t integer, enum dtype read_as) {
    return (uint64_t)integer + (dtype_is_signed(read_as) ? UINT64_C(1) << 63 : 0);
}

static double round_if(bool to_float32, double value) {
    return to_float32 ? (double)(float)value : value;
}

/* Marks the elements beyond a bound as missing. For the upper bound both sides are turned round (-x, ~x), so that
 * one comparison serves both bounds. */
static void mask_beyond(const struct decoding *decoding, const struct decode_mark *bound, bool is_low,
                        struct decoded_block *block) {
    uint64_t flip = is_low ? 0 : ~UINT64_C(0), limit = ordered(bound->integer, decoding->read_as) ^ flip;
    double sign = is_low ? 1 : -1, minimum = sign * round_if(bound->narrow, bound->real);
    if (bound->exact)
        for (int64_t i = 0; i < block->count; i++)
            block->missing[i] |= (ordered(block->integers[i], decoding->read_as) ^ flip) < limit;
    else
        for (int64_t i = 0; i < block->count; i++)
            block->missing[i] |= sign * round_if(bound->narrow, block->doubles[i]) < minimum;
}

/* Applies the bounds of stored elements, or those of decoded ones. */
static void mask_outside(const struct decoding *decoding, bool decoded, struct decoded_block *block) {
    if (decoding->has_low && decoding->low.decoded == decoded) mask_beyond(decoding, &decoding->low, true, block);
    if (decoding->has_high && decoding->high.decoded == decoded) mask_beyond(decoding, &decoding->high, false, block);
}

/* Do 64-bit integers pass through float64 only because values may be missing? */
static bool may_round(const struct decoding *decoding, enum dtype wanted) {
    return !decoding->scales && !dtype_is_float(decoding->read_as) && dtype_size(decoding->read_as) == 8 &&
           dtype_size(wanted) == 8;
}

/* The number of integers of a block that differ from their float64. */
static int64_t count_rounded(const struct decoding *decoding, const struct decoded_block *block) {
    const bool is_signed = dtype_is_signed(decoding->read_as);
    const double end = is_signed ? 0x1p63 : 0x1p64; /* float64 may round up to it, beyond the integer's range */
    int64_t rounded = 0;
    for (int64_t i = 0; i < block->count; i++) {
        double value = block->doubles[i];
        bool same = value < end && (is_signed ? (int64_t)value : (int64_t)(uint64_t)value) == block->integers[i];
        rounded += !same && !block->missing[i];
    }
    return rounded;
}

/* Rounds after each operation, in the type of the arithmetic: NumPy uses no fused multiply-add. */
static void scale(const struct decoding *decoding, struct decoded_block *block) {
    const struct cf_number *factor = &decoding->attributes.factor, *offset = &decoding->attributes.offset;
    int64_t count = block->count;
    if (decoding->computed == FLOAT64) {
        for (int64_t i = 0; i < count && factor->given; i++) block->doubles[i] *= factor->real;
        for (int64_t i = 0; i < count && offset->given; i++) block->doubles[i] += offset->real;
        return;
    }
    float multiplier = (float)factor->real, addend = (float)offset->real;
    for (int64_t i = 0; i < count; i++) block->floats[i] = (float)block->doubles[i];
    for (int64_t i = 0; i < count && factor->given; i++) block->floats[i] *= multiplier;
    for (int64_t i = 0; i < count && offset->given; i++) block->floats[i] += addend;
    for (int64_t i = 0; i < count; i++) block->doubles[i] = (double)block->floats[i];
}

/* Decodes a block to `to`. Elements are compared with missing numbers and bounds before they are scaled, and with
 * bounds of decoded values after that. `exact`: marks are compared as integers. */
static void decode_block(const struct decoding *decoding, bool exact, struct decoded_block *block, enum dtype wanted,
                         void *to, struct casts *casts) {
    int64_t count = block->count, missing = 0;
    enum dtype result = decoding->result;
    bool copies_bits = result == decoding->read_as && !decoding->scales; /* of valid elements; others are masked */
    char buffer[BLOCK * sizeof(double)], *values = result == wanted ? to : buffer;
    memset(block->missing, 0, (size_t)count);
    convert_to_double(decoding->read_as, block->from, count, block->doubles);
    bool rounds = may_round(decoding, wanted);
    if (exact || rounds) convert_to_integer(decoding->read_as, block->from, count, block->integers);
    mask_missing_numbers(decoding, block);
    mask_outside(decoding, false, block);
    if (rounds) casts->rounded += count_rounded(decoding, block);
    if (copies_bits)
        memcpy(values, block->from, (size_t)count * dtype_size(result));
    else
        scale(decoding, block);
    if (decoding->low.decoded || decoding->high.decoded) {
        if (result == FLOAT32)
            for (int64_t i = 0; i < count; i++) block->doubles[i] = (double)(float)block->doubles[i];
        mask_outside(decoding, true, block);
    }
    if (!copies_bits) convert_from_double(result, block->doubles, count, values);
    for (int64_t i = 0; i < count; i++) missing += block->missing[i];
    for (int64_t i = 0; i < count && missing; i++)
        if (block->missing[i]) dtype_store(result, values, i, NAN);
    casts->missing += missing;
    if (values != to) convert_elements(result, values, count, wanted, to, casts);
}

void decode_elements(const struct decoding *decoding, const void *from, int64_t count, enum dtype wanted, void *to,
                     struct casts *casts) {
    if (!dtype_is_float(decoding->result)) { /* decoding only changes the sign */
        convert_elements(decoding->read_as, from, count, wanted, to, casts);
        return;
    }
    struct decoded_block block;
    bool exact = has_exact(decoding);
    for (int64_t at = 0; at < count; at += BLOCK) {
        block.count = count - at < BLOCK ? count - at : BLOCK;
        block.from = (const char *)from + at * (int64_t)dtype_size(decoding->stored);
        decode_block(decoding, exact, &block, wanted, (char *)to + at * (int64_t)dtype_size(wanted), casts);
    }
}

char *decoding_key(const struct decoding *decoding) {
    const struct cf *attributes = &decoding->attributes;
    const struct cf_number *fixed[] = {&attributes->factor, &attributes->offset, &attributes->fill, &attributes->low,
                                       &attributes->high};
    const int fixed_count = sizeof fixed / sizeof *fixed;
    char *key = must_printf("%s %d", dtype_name(decoding->stored), (int)attributes->sign);
    for (int i = 0; i < fixed_count + attributes->missing_count; i++) {
        const struct cf_number *number = i < fixed_count ? fixed[i] : &attributes->missing[i - fixed_count];
        must_append(&key, ", %s %a %lld", number->given ? dtype_name(number->dtype) : "-", number->real,
                    (long long)number->integer);
    }
    return key;
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

const char *cf_number_text(const struct cf_number *number, char text[CF_NUMBER_TEXT]) {
    if (!dtype_is_float(number->dtype)) {
        if (number->dtype == UINT64)
            snprintf(text, CF_NUMBER_TEXT, "%llu", (unsigned long long)number->integer);
        else
            snprintf(text, CF_NUMBER_TEXT, "%lld", (long long)number->integer);
        return text;
    }
    if (fabs(number->real) < 1e15 && number->real == floor(number->real)) {
        snprintf(text, CF_NUMBER_TEXT, "%.0f", number->real);
        return text;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, CF_NUMBER_TEXT, "%.*g", digits, number->real);
        double back = strtod(text, NULL);
        if (number->dtype == FLOAT64 ? back == number->real : (float)back == (float)number->real) break;
    }
    return text;
}

/* Appends `more` to *text, separated by a comma, and frees it. */
static void append_freed(char **text, char *more) {
    must_append(text, "%s%s", **text ? ", " : "", more);
    free(more);
}

/* Appends which numbers count as missing: "missing where -999 or 1e+20", "missing below decoded 0". */
static void append_missing(const struct decoding *decoding, char **text) {
    const struct cf *attributes = &decoding->attributes;
    OWNED char *list = must_strdup("");
    char number_text[CF_NUMBER_TEXT], other[CF_NUMBER_TEXT];
    struct decode_mark mark;
    for (int i = -1, shown = 0; i < attributes->missing_count; i++) {
        const struct cf_number *number = i < 0 ? &attributes->fill : &attributes->missing[i];
        bool again = i >= 0 && attributes->fill.given &&
                     strcmp(cf_number_text(number, number_text), cf_number_text(&attributes->fill, other)) == 0;
        if (!number->given || again || isnan(number->real) || !make_mark(decoding, number, &mark)) continue;
        must_append(&list, "%s%s", shown++ ? " or " : "", cf_number_text(number, number_text));
    }
    const char *low = cf_number_text(&attributes->low, number_text), *high = cf_number_text(&attributes->high, other);
    const char *where[] = {decoding->low.decoded ? "decoded " : "", decoding->high.decoded ? "decoded " : ""};
    if (*list) append_freed(text, must_printf("missing where %s", list));
    if (decoding->has_low && decoding->has_high && decoding->low.decoded == decoding->high.decoded) {
        append_freed(text, must_printf("missing outside %s%s to %s", where[0], low, high));
        return;
    }
    if (decoding->has_low) append_freed(text, must_printf("missing below %s%s", where[0], low));
    if (decoding->has_high) append_freed(text, must_printf("missing above %s%s", where[1], high));
}

char *decoding_text(const struct decoding *decoding) {
    const struct cf *attributes = &decoding->attributes;
    char *text = must_strdup(""), number[CF_NUMBER_TEXT], *product, *sum;
    if (decoding->read_as != decoding->stored)
        append_freed(&text, must_printf("read as %s", dtype_name(decoding->read_as)));
    if (decoding->scales) {
        bool factor = attributes->factor.given && attributes->factor.real != 1;
        bool offset = attributes->offset.given && attributes->offset.real != 0;
        product =
            factor ? must_printf("stored * %s", cf_number_text(&attributes->factor, number)) : must_strdup("stored");
        struct cf_number magnitude = attributes->offset;
        bool negative = magnitude.real < 0;
        magnitude.real = fabs(magnitude.real);
        magnitude.integer = negative ? -magnitude.integer : magnitude.integer;
        sum = offset ? must_printf("%s %c %s", product, negative ? '-' : '+', cf_number_text(&magnitude, number))
                     : must_strdup(product);
        free(product);
        append_freed(&text, sum);
    }
    append_missing(decoding, &text);
    return text;
}
