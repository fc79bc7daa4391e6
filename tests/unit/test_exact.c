/* test_exact.c - the reduce variants that round once: every bit of drawn sums and means of difficult numbers, in any
 * launches, by any number of threads, beside a referee of wide integers (wide.h).
 *
 *     TILERUN_SEED=1 TILERUN_CASES=5000     other cases, more of them
 *     TILERUN_CASE=57                       only this case */
#include "../../kernels/reduce/tuned/exact_bins.h"
#include "kernel_draws.h"
#include "wide.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "devices.h"

#define LAUNCHES 5 /* of one reduction, at most */

static const enum dtype dtypes[] = {FLOAT32, FLOAT64, FLOAT16, BFLOAT16};

/* ---- difficult numbers ------------------------------------------------------------------------------------------- */

enum kind {
    ORDINARY,
    ANY_BITS,     /* infinities and NaNs included */
    ANY_FINITE,   /* of any exponent */
    GRADED,       /* each a little smaller than the one before */
    ALTERNATING,  /* +-2^e, with small ones between them */
    SUBNORMAL,    /* and few that are not */
    TIES,         /* halves of the last place, and sometimes a trace more or less */
    OVERFLOWING,  /* the largest ones of both signs: partial sums overflow */
    THRESHOLD,    /* what is half a last place above the largest, and traces */
    SPOILED,      /* ordinary ones with infinities, and rarely a NaN */
    ZEROS,        /* of both signs */
    TWO_SCALES,   /* further apart than any window */
    WINDOW_EDGES, /* exponents as far apart as bins of 40 bits reach, and one more or less */
    KINDS
};

/* The float sign * (1 + fraction / 2^bits) * 2^exponent, as near as the type has it. */
static uint64_t float_of(enum dtype dtype, bool negative, int exponent, uint64_t random) {
    const struct float_format format = format_of(dtype);
    const int bias = (1 << (format.exponent - 1)) - 1, most = 2 * bias;
    int field = exponent + bias;
    uint64_t bits = random & ((UINT64_C(1) << format.fraction) - 1);
    if (field > most) field = most;
    if (field < 1) { /* subnormal */
        bits = field < -format.fraction ? 1 : (bits | UINT64_C(1) << format.fraction) >> (1 - field);
        field = 0;
    }
    return bits | (uint64_t)field << format.fraction | (uint64_t)negative << (format.fraction + format.exponent);
}

static uint64_t infinity_of(enum dtype dtype) {
    const struct float_format format = format_of(dtype);
    return ((UINT64_C(1) << format.exponent) - 1) << format.fraction;
}

static uint64_t draw_number(struct draws *draws, enum dtype dtype, enum kind kind, int scale, int64_t i,
                            int64_t count) {
    const struct float_format format = format_of(dtype);
    const int bias = (1 << (format.exponent - 1)) - 1, span = 2 * bias + format.fraction;
    const uint64_t random = draw(draws), infinity = infinity_of(dtype);
    const bool negative = one_in(draws, 2), odd = one_in(draws, 8);
    const int any = 1 - bias - format.fraction + (int)draw_below(draws, span);
    const int small = scale - (int)draw_below(draws, 12);
    switch (kind) {
    case ANY_BITS: return random & (infinity << 2 | ~(UINT64_MAX << (format.fraction + 1)) | infinity);
    case ANY_FINITE: return float_of(dtype, negative, any, random);
    case GRADED: return float_of(dtype, odd, bias - (int)(i * span / count), random);
    case ALTERNATING:
        if (i % 2) return float_of(dtype, negative, any % 8, random);
        return float_of(dtype, i % 4 == 0, scale, 0);
    case SUBNORMAL:
        return float_of(dtype, negative, odd ? 1 - bias : 0 - bias - (int)draw_below(draws, format.fraction), random);
    case TIES:
        if (i == 0) return float_of(dtype, negative, scale, random);
        if (i < 3) return float_of(dtype, negative, scale - format.fraction - 1, 0);
        return odd && i == 3 ? float_of(dtype, negative, any, 0) : 0;
    case OVERFLOWING: return float_of(dtype, i % 4 < 2, bias, odd ? random : UINT64_MAX);
    case THRESHOLD:
        if (i < 2) return float_of(dtype, false, i ? bias - format.fraction - 1 : bias, i ? 0 : UINT64_MAX);
        return i == 2 && odd ? float_of(dtype, negative, any, random) : 0;
    case SPOILED:
        if (one_in(draws, 4 + count / 2)) return infinity | (uint64_t)negative << (format.fraction + format.exponent);
        if (one_in(draws, 16 * count)) return infinity | random >> (64 - format.fraction) | 1;
        return float_of(dtype, negative, small, random);
    case ZEROS:
        if (one_in(draws, 64)) return float_of(dtype, negative, any, random);
        return (uint64_t)negative << (format.fraction + format.exponent);
    case TWO_SCALES: return float_of(dtype, negative, odd ? scale : -scale, random);
    case WINDOW_EDGES: {
        static const int steps[] = {0, 16, 17, 28, 29, 40, 41, 56, 57, 58, 68, 69, 80, 81, 120, 121};
        return float_of(dtype, negative, scale - steps[draw_below(draws, 16)] + (int)draw_below(draws, 3) - 1, random);
    }
    default: return odd ? 0 : float_of(dtype, negative, small, random);
    }
}

/* The numbers of one output. */
static void draw_sequence(struct draws *draws, enum dtype dtype, enum kind kind, int64_t count, uint64_t *numbers) {
    const struct float_format format = format_of(dtype);
    const int bias = (1 << (format.exponent - 1)) - 1;
    const bool cancels = one_in(draws, 4);
    const int scale = one_in(draws, 4) ? 0 : (int)draw_below(draws, 2 * bias) - bias + 1;
    for (int64_t i = 0; i < count; i++) {
        numbers[i] = draw_number(draws, dtype, kind, scale, i, count);
        /* The second half takes the first half back: what is left is 0, or the middle one. */
        if (cancels && i >= (count + 1) / 2)
            numbers[i] = numbers[count - 1 - i] ^ UINT64_C(1) << (format.fraction + format.exponent);
    }
    for (int64_t i = count - 1; i > 0 && one_in(draws, 2); i--) { /* some of the order is lost */
        int64_t j = draw_below(draws, i + 1);
        uint64_t number = numbers[i];
        numbers[i] = numbers[j], numbers[j] = number;
    }
}

/* ---- one case ---------------------------------------------------------------------------------------------------- */

struct problem {
    enum dtype dtype;
    enum kind kind;
    enum reduce_operator operator_;
    int64_t outer, length, inner;
    uint64_t *x, *expected; /* bits: [outer][length][inner], [outer][inner] */
};

static void draw_shape(struct draws *draws, struct problem *problem) {
    static const int outputs[KERNEL_MAX_EDGES] = {16, 32, 64}, lengths[KERNEL_MAX_EDGES] = {64, 256, 1024, 2048};
    const bool large = one_in(draws, 64);
    const int64_t elements = large ? 1 << 18 : 1 << 12;
    problem->outer = one_in(draws, 2) ? 1 : draw_size(draws, outputs, 64);
    problem->inner = one_in(draws, 2) ? 1 : draw_size(draws, outputs, elements / 64 / (problem->outer + 1) + 1);
    const int64_t most = elements / (problem->outer * problem->inner + 1) + 1;
    problem->length = large ? most : draw_size(draws, lengths, most);
}

static void open_problem(struct draws *draws, struct problem *problem) {
    *problem = (struct problem){.dtype = dtypes[draw_below(draws, 4)],
                                .kind = (enum kind)draw_below(draws, KINDS),
                                .operator_ = one_in(draws, 3) ? REDUCE_MEAN : REDUCE_SUM};
    draw_shape(draws, problem);
    const int64_t outer = problem->outer, length = problem->length, inner = problem->inner;
    problem->x = calloc((size_t)(outer * length * inner) + 1, sizeof *problem->x);
    problem->expected = calloc((size_t)(outer * inner) + 1, sizeof *problem->expected);
    uint64_t *numbers = calloc((size_t)length + 1, sizeof *numbers);
    for (int64_t output = 0; output < outer * inner; output++) {
        draw_sequence(draws, problem->dtype, problem->kind, length, numbers);
        struct referee referee = {.nan = false};
        for (int64_t i = 0; i < length; i++) {
            problem->x[(output / inner * length + i) * inner + output % inner] = numbers[i];
            referee_take(&referee, problem->dtype, numbers[i]);
        }
        const uint64_t divisor = problem->operator_ == REDUCE_MEAN ? (uint64_t)length : 1;
        problem->expected[output] = referee_result(&referee, problem->dtype, divisor);
    }
    free(numbers);
}

/* ---- by one variant ---------------------------------------------------------------------------------------------- */

/* Memory of a device, filled from and read into the host's. */
struct room {
    void *there;
    char *here;
    int64_t bytes;
};

#define CALL(device, name, ...)                                                                                        \
    do {                                                                                                               \
        struct error error_ = {.status = STATUS_OK};                                                                   \
        if ((device)->operations->name((device), __VA_ARGS__, &error_) != STATUS_OK) fail_msg("%s", error_.text);      \
    } while (0)

static void wait_for(struct device *device) {
    struct error error = {.status = STATUS_OK};
    if (device->operations->synchronize(device, &error) != STATUS_OK) fail_msg("%s", error.text);
}

static struct room room_open(struct device *device, int64_t bytes) {
    struct room operand = {.bytes = bytes};
    CALL(device, allocate, bytes + 256, &operand.there);
    CALL(device, allocate_host, bytes + 256, (void **)&operand.here);
    memset(operand.here, 0xff, (size_t)bytes);
    return operand;
}

static void room_close(struct device *device, struct room *operand) {
    device->operations->release(device, operand->there);
    device->operations->release_host(device, operand->here);
}

static void room_copy(struct device *device, const struct room *operand, bool up) {
    struct copy copy = {.bytes = operand->bytes, .rows = 1, .to_pitch = operand->bytes, .from_pitch = operand->bytes};
    copy.to = up ? operand->there : operand->here;
    copy.from = up ? operand->here : operand->there;
    wait_for(device);
    if (operand->bytes == 0) return;
    if (up)
        CALL(device, copy, &copy, QUEUE_UPLOAD);
    else
        CALL(device, copy, &copy, QUEUE_DOWNLOAD);
    wait_for(device);
}

struct memory {
    struct room x, y, state, workspace;
};

static struct launch describe(const struct problem *problem, const struct memory *memory, int64_t from, int64_t to) {
    struct launch launch = {.op = OP_REDUCE, .dtype = problem->dtype, .workspace = memory->workspace.there};
    launch.args.reduce = (struct reduce_args){.operator_ = problem->operator_,
                                              .outer = problem->outer,
                                              .length = to - from,
                                              .inner = problem->inner,
                                              .offset = from,
                                              .total = problem->length,
                                              .x = memory->x.there,
                                              .state = memory->state.there,
                                              .y = memory->y.there,
                                              .first = from == 0,
                                              .last = to == problem->length};
    return launch;
}

/* Reduces elements [from, to) along the axis. */
static void launch_part(struct device *device, const struct kernel *kernel, const struct problem *problem,
                        struct memory *memory, int64_t from, int64_t to) {
    const size_t size = dtype_size(problem->dtype);
    int64_t count = 0;
    for (int64_t o = 0; o < problem->outer; o++)
        for (int64_t i = from * problem->inner; i < to * problem->inner; i++)
            memcpy(memory->x.here + (size_t)count++ * size, &problem->x[o * problem->length * problem->inner + i],
                   size);
    room_copy(device, &memory->x, true);
    struct launch launch = describe(problem, memory, from, to);
    struct error error = {.status = STATUS_OK};
    if (device->operations->launch(device, kernel, &launch, &error) != STATUS_OK) fail_msg("%s", error.text);
    wait_for(device);
}

static void try_variant(struct draws *draws, const struct kernel *kernel, const struct problem *problem,
                        int64_t number) {
    struct device *device = devices[kernel->device];
    const int64_t size = (int64_t)dtype_size(problem->dtype), outputs = problem->outer * problem->inner;
    const int launches = problem->length < 2 || one_in(draws, 2) ? 1 : 2 + (int)draw_below(draws, LAUNCHES - 1);
    int64_t cut[LAUNCHES + 1] = {0}, longest = 0;
    for (int i = 1; i <= launches; i++) {
        const int64_t left = problem->length - cut[i - 1];
        cut[i] = i == launches || left < 2 ? problem->length : cut[i - 1] + 1 + draw_below(draws, left - 1);
        if (cut[i] - cut[i - 1] > longest) longest = cut[i] - cut[i - 1];
    }
    struct memory memory = {.x = room_open(device, problem->outer * longest * problem->inner * size),
                            .y = room_open(device, outputs * size),
                            .state = room_open(device, outputs * (int64_t)sizeof(struct reduce_state))};
    const int there = device->facts.multiprocessors;
    device->facts.multiprocessors = 1 + (int)draw_below(draws, kernel->device == DEVICE_CUDA ? 200 : 5);
    struct launch largest = describe(problem, &memory, 0, longest);
    largest.args.reduce.first = largest.args.reduce.last = true; /* as the plan asks */
    largest.multiprocessors = device->facts.multiprocessors;
    memory.workspace = room_open(device, (int64_t)kernel_workspace(kernel, &largest));
    CALL(device, fill, memory.workspace.there, 0, memory.workspace.bytes + 256);
    for (int pass = 0; pass < 2; pass++) {
        room_copy(device, &memory.state, true);
        memset(memory.y.here, 0xff, (size_t)memory.y.bytes);
        room_copy(device, &memory.y, true);
        for (int i = 0; i < launches && (i == 0 || cut[i] < problem->length); i++)
            launch_part(device, kernel, problem, &memory, cut[i], cut[i + 1]);
        room_copy(device, &memory.y, false);
        for (int64_t output = 0; output < outputs; output++) {
            uint64_t bits = 0;
            memcpy(&bits, memory.y.here + output * size, (size_t)size);
            if (bits == problem->expected[output]) continue;
            fail_msg("%s %s %s of %lldx%lldx%lld, numbers of kind %d, %d launches, pass %d: output %lld is %#llx, "
                     "should be %#llx: TILERUN_CASE=%lld",
                     kernel->name, dtype_name(problem->dtype), problem->operator_ == REDUCE_SUM ? "sum" : "mean",
                     (long long)problem->outer, (long long)problem->length, (long long)problem->inner, problem->kind,
                     launches, pass, (long long)output, (unsigned long long)bits,
                     (unsigned long long)problem->expected[output], (long long)number);
        }
    }
    room_copy(device, &memory.workspace, false);
    for (int64_t i = 0; i < memory.workspace.bytes; i++)
        if (memory.workspace.here[i]) fail_msg("the workspace is not zero: TILERUN_CASE=%lld", (long long)number);
    device->facts.multiprocessors = there;
    room_close(device, &memory.x);
    room_close(device, &memory.y);
    room_close(device, &memory.state);
    room_close(device, &memory.workspace);
}

static void try_case(uint64_t seed, int64_t number) {
    struct draws draws = {.seed = mixed(seed, (uint64_t)number)};
    struct problem problem;
    open_problem(&draws, &problem);
    for (int i = 0; i < kernel_count; i++) {
        const struct kernel *kernel = kernel_registry[i];
        if (kernel->op == OP_REDUCE && strncmp(kernel->name, "exact", 5) == 0 && devices[kernel->device])
            try_variant(&draws, kernel, &problem, number);
    }
    free(problem.x);
    free(problem.expected);
}

static int64_t number_from(const char *name, int64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

/* ---- the tests --------------------------------------------------------------------------------------------------- */

static void drawn_sums_are_rounded_once(void **state) {
    const uint64_t seed = (uint64_t)number_from("TILERUN_SEED", 1);
    const int64_t cases = number_from("TILERUN_CASES", 3000), alone = number_from("TILERUN_CASE", -1);
    printf("TILERUN_SEED=%llu TILERUN_CASES=%lld\n", (unsigned long long)seed, (long long)cases);
    for (int64_t number = alone < 0 ? 0 : alone; number < (alone < 0 ? cases : alone + 1); number++)
        try_case(seed, number);
}

/* Means of up to 2^63 elements, of which only the last launch's are not zero. */
static void means_of_any_number(void **state) {
    enum { COUNT = 30 };
    for (int64_t number = 0; number < 3000; number++) {
        struct draws draws = {.seed = mixed(97, (uint64_t)number)};
        struct problem problem = {
            dtypes[draw_below(&draws, 4)], (enum kind)draw_below(&draws, KINDS), REDUCE_MEAN, 1, COUNT, 1, NULL, NULL};
        uint64_t numbers[COUNT], x[COUNT], y = 0;
        int64_t sum[EXACT_MAX_WORDS] = {0};
        struct referee referee = {.nan = false};
        draw_sequence(&draws, problem.dtype, problem.kind, COUNT, numbers);
        for (int i = 0; i < COUNT; i++) {
            memcpy((char *)x + (size_t)i * dtype_size(problem.dtype), &numbers[i], dtype_size(problem.dtype));
            referee_take(&referee, problem.dtype, numbers[i]);
        }
        struct memory memory = {{x, NULL, 0}, {&y, NULL, 0}, {NULL, NULL, 0}, {sum, NULL, 0}};
        struct launch launch = describe(&problem, &memory, 0, COUNT);
        launch.args.reduce.total = (int64_t)(draw(&draws) >> (1 + draw_below(&draws, 57))) + COUNT + 1;
        assert_int_equal(kernel_find(OP_REDUCE, "exact_cpu")->launch(&launch), 0);
        if (y != referee_result(&referee, problem.dtype, (uint64_t)launch.args.reduce.total))
            fail_msg("case %lld, %s / %lld: %#llx", (long long)number, dtype_name(problem.dtype),
                     (long long)launch.args.reduce.total, (unsigned long long)y);
    }
}

/* Adds a word to the referee's sum from its word number `at` on. */
static void add_word(struct referee *referee, int at, int64_t word) {
    struct wide wide = {{0}};
    for (int i = at; i < WIDE_WORDS; i++)
        wide.word[i] = i == at ? (uint32_t)word : i == at + 1 ? (uint32_t)(word >> 32) : word < 0 ? UINT32_MAX : 0;
    wide_add(&referee->sum, &wide);
}

/* Whatever the limbs hold, by whatever number they are divided: more than launches can make of them. Of half of the
 * cases the quotient is the middle between two floats, or next to it by less than any bit of a limb. */
static void accumulators_are_rounded(void **state) {
    for (int64_t number = 0; number < 20000; number++) {
        struct draws draws = {.seed = mixed(99, (uint64_t)number)};
        const enum dtype dtype = dtypes[draw_below(&draws, 4)];
        const struct exact_type type = exact_type_of(dtype);
        const int first = (type.base + WIDE_POINT) / 32;
        const uint64_t divisor = one_in(&draws, 3) ? 1 : draw(&draws) >> (1 + draw_below(&draws, 63)) | 1;
        int64_t limbs[EXACT_MAX_WORDS] = {0};
        struct referee referee = {.nan = false};
        if (one_in(&draws, 2)) {
            for (int i = (int)draw_below(&draws, 3); i < type.limbs; i += 1 + (int)draw_below(&draws, type.limbs))
                limbs[i] = (int64_t)draw(&draws) >> (1 + draw_below(&draws, 63));
        } else {
            const uint64_t below = (uint64_t)draw_below(&draws, (int64_t)infinity_of(dtype));
            const struct wide one = wide_of(dtype, below, divisor), other = wide_of(dtype, below + 1, divisor);
            struct wide twice = one;
            wide_add(&twice, &other);
            for (int i = 0; i < type.limbs; i++)
                limbs[i] = twice.word[first + i] >> 1 | (uint32_t)(twice.word[first + i + 1] << 31);
            limbs[type.limbs - 1] |= (int64_t)(twice.word[first + type.limbs] >> 1) << 32;
            limbs[0] += draw_below(&draws, 3) - 1;
            for (int i = 0; i < type.limbs && number % 2; i++) limbs[i] = -limbs[i];
        }
        for (int i = 0; i < type.limbs; i++) add_word(&referee, first + i, limbs[i]);
        const uint64_t found = exact_round(type, limbs, 1, (int64_t)divisor);
        const uint64_t expected = referee_result(&referee, dtype, divisor);
        if (found != expected)
            fail_msg("case %lld, %s / %llu: %#llx, should be %#llx", (long long)number, dtype_name(dtype),
                     (unsigned long long)divisor, (unsigned long long)found, (unsigned long long)expected);
    }
}

/* No bin overflows, though it takes the largest numbers of its window, or those that leave most for the next bin. */
static void bins_hold_what_fits(void **state) {
    for (int64_t number = 0; number < 300; number++) {
        struct draws draws = {.seed = mixed(98, (uint64_t)number)};
        const enum dtype dtype = dtypes[draw_below(&draws, 4)];
        const struct exact_type type = exact_type_of(dtype);
        const struct float_format format = format_of(dtype);
        const int lowest = exact_lowest_unit(type),
                  top = dtype == FLOAT64 ? 1023 - 53 : (1 << (format.exponent - 1)) - BIN_BITS;
        const int unit = dtype == FLOAT16 ? lowest : lowest + (int)draw_below(&draws, top - lowest);
        const int exponent =
            unit + BIN_BITS - 1 - (one_in(&draws, 3) ? 0 : (int)draw_below(&draws, BIN_BITS + format.fraction));
        const int split = unit - BIN_BITS * (int)draw_below(&draws, type.bins) - 1; /* the rest's highest bit */
        uint64_t fraction = UINT64_MAX;
        if (exponent > split && exponent - split <= format.fraction)
            fraction ^= UINT64_C(1) << (format.fraction - (exponent - split));
        const uint64_t bits = float_of(dtype, number % 2, exponent, fraction);
        const double x = dtype_load(dtype, &bits, 0);
        const uint32_t key = exact_key(type, x);
        int64_t limbs[EXACT_MAX_WORDS] = {0}, count = 1 + draw_below(&draws, 40000);
        struct exact_bins bins;
        struct referee referee = {.sum = wide_of(dtype, float_of(dtype, false, exponent, fraction), (uint64_t)count)};
        if (number % 2) wide_negate(&referee.sum);
        exact_bins_reset(type, &bins, unit);
        if (key == 0 || !exact_bins_fit(&bins, key, key - 1)) continue;
        for (int64_t i = 0; i < count; i++) {
            exact_bins_reserve(type, &bins, limbs, 1, 1);
            exact_bins_add(type, &bins, x);
        }
        exact_bins_empty(type, &bins, limbs, 1);
        const uint64_t found = exact_round(type, limbs, 1, count),
                       expected = referee_result(&referee, dtype, (uint64_t)count);
        assert_int_equal(expected, bits); /* the mean of equal numbers */
        if (found != expected)
            fail_msg("case %lld, %lld times %a as %s, unit %d: the mean is %#llx", (long long)number, (long long)count,
                     x, dtype_name(dtype), unit, (unsigned long long)found);
    }
}

/* The referee itself: numbers whose sums are known. */
static uint64_t sum_of(enum dtype dtype, const double *x, int count, uint64_t divisor) {
    struct referee referee = {.nan = false};
    for (int i = 0; i < count; i++) {
        uint64_t bits = 0;
        dtype_store(dtype, &bits, 0, x[i]);
        referee_take(&referee, dtype, bits);
    }
    return referee_result(&referee, dtype, divisor);
}

static void the_referee_is_right(void **state) {
    static const struct {
        double x[4];
        uint64_t divisor;
        double sum;
    } known[] = {
        {{1, 0x1p-53}, 1, 1},
        {{1, 0x1p-53, 0x1p-1074}, 1, 1 + 0x1p-52},
        {{1 + 0x1p-52, 0x1p-53}, 1, 1 + 0x1p-51},
        {{1, -0x1p-54, -0x1p-1074}, 1, 1 - 0x1p-53},
        {{0x1p1023, 0x1p1023, -0x1p1023}, 1, 0x1p1023},
        {{0x1.fffffffffffffp1023, 0x1p970}, 1, INFINITY},
        {{0x1.fffffffffffffp1023, 0x1p970, -0x1p-1074}, 1, 0x1.fffffffffffffp1023},
        {{-1, 1, -0.0}, 1, 0},
        {{-0.0, -0.0, -0.0, -0.0}, 1, 0},
        {{INFINITY, -1}, 1, INFINITY},
        {{1}, 3, 1.0 / 3},
        {{-2}, 3, -2.0 / 3},
        {{0x1p-1074}, 2, 0},
        {{-0x1p-1074}, 2, -0.0},
        {{0x1p-1074, 0x1p-1073}, 2, 0x1p-1073},
        {{0x1p1023, 0x1p1023}, 2, 0x1p1023},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint64_t bits;
        memcpy(&bits, &known[i].sum, sizeof bits);
        assert_int_equal(sum_of(FLOAT64, known[i].x, 4, known[i].divisor), bits);
    }
    for (int i = 0; i < 4; i++) {
        int64_t limbs[EXACT_MAX_WORDS] = {0};
        exact_add_number(exact_type_of(dtypes[i]), limbs, 1, i % 2 ? 0.0 : -0.0);
        for (int word = 0; word < EXACT_MAX_WORDS; word++) assert_int_equal(limbs[word], 0);
        exact_add_number(exact_type_of(dtypes[i]), limbs, 1, i % 2 ? INFINITY : -INFINITY); /* only a flag */
        assert_int_equal(limbs[exact_type_of(dtypes[i]).limbs], i % 2 ? EXACT_PLUS : EXACT_MINUS);
        exact_add_number(exact_type_of(dtypes[i]), limbs, 1, NAN);
        for (int word = 0; word < EXACT_MAX_WORDS; word++)
            assert_int_equal(limbs[word] != 0, word == exact_type_of(dtypes[i]).limbs);
    }
    assert_int_equal(sum_of(FLOAT32, (double[]){1, 0x1p-24, 0x1p-149}, 3, 1), 0x3f800001);
    assert_int_equal(sum_of(FLOAT16, (double[]){65504, 16}, 2, 1), 0x7c00);
    assert_int_equal(sum_of(FLOAT16, (double[]){65504, 16, -0x1p-24}, 3, 1), 0x7bff);
    assert_int_equal(sum_of(BFLOAT16, (double[]){INFINITY, -INFINITY}, 2, 1), 0x7fc0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_referee_is_right),        cmocka_unit_test(accumulators_are_rounded),
        cmocka_unit_test(bins_hold_what_fits),         cmocka_unit_test(means_of_any_number),
        cmocka_unit_test(drawn_sums_are_rounded_once),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
