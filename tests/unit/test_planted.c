/* test_planted.c - plants faults in large results, at places and with weights that are random for each try: all must be
 * found.
 *
 * Small and quick by default. PLANTED=full takes products and transposes of 8192^2, results of 50 million elements and
 * 100 tries of each kind, and prints what verification costs: an hour on two cores, 3 GB. PLANTED_TRIES=20 and
 * PLANTED_ONLY=in_transposes (or another in_*) make it shorter. */
#include "verify_fixture.h"

#include <time.h>

static int64_t side = 1536, many = 5000000;
static int tries = 3;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static uint64_t chance_state = 1;
static int64_t chance(int64_t below) {
    chance_state = chance_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((chance_state >> 17) % (uint64_t)below);
}

/* ---- planting faults and undoing them ---------------------------------------------------------------------------- */

static struct {
    int64_t count, room, *at;
    double *was;
} undone;

static void plant(struct fixture *f, int64_t at, double value) {
    if (undone.count == undone.room) {
        undone.room = 2 * undone.room + 1024;
        undone.at = must_realloc(undone.at, (size_t)undone.room * sizeof *undone.at);
        undone.was = must_realloc(undone.was, (size_t)undone.room * sizeof *undone.was);
    }
    undone.at[undone.count] = at;
    undone.was[undone.count++] = get(f, at);
    set(f, at, value);
}

static void take_back(struct fixture *f) {
    while (undone.count > 0) {
        undone.count--;
        set(f, undone.at[undone.count], undone.was[undone.count]);
    }
}

static void swap(struct fixture *f, int64_t a, int64_t b) {
    double value = get(f, a);
    plant(f, a, get(f, b));
    plant(f, b, value);
}

enum fault { ELEMENT_LOST, ELEMENT_OFF, COLUMN_OFF, COLUMNS_SWAPPED, BLOCK, ROW, TILE_EDGE, CORNER, FAULTS };
static const char *const fault_names[FAULTS] = {
    "an element lost",    "an element 10 % off", "a column 5 % off", "two columns swapped",
    "a block of 16 x 16", "a row 5 % off",       "a tile's edge",    "a corner"};

/* Plants a fault somewhere in a matrix. The element chosen has at least the size that is usual in its line,
 * `typical`. */
static void plant_fault(struct fixture *f, enum fault fault, double (*typical)(int64_t row, int64_t column)) {
    int64_t rows = f->arrays[2].shape.size[0], columns = f->arrays[2].shape.size[1], i, j;
    do {
        i = chance(rows), j = chance(columns);
    } while (!isfinite(get(f, i * columns + j)) || fabs(get(f, i * columns + j)) < typical(i, j));
    switch (fault) {
    case ELEMENT_LOST: plant(f, i * columns + j, 0); break;
    case ELEMENT_OFF: plant(f, i * columns + j, 1.1 * get(f, i * columns + j)); break;
    case COLUMN_OFF:
        for (i = 0; i < rows; i++) plant(f, i * columns + j, 1.05 * get(f, i * columns + j));
        break;
    case COLUMNS_SWAPPED: {
        int64_t other = (j + 1 + chance(columns - 1)) % columns;
        for (i = 0; i < rows; i++) swap(f, i * columns + j, i * columns + other);
        break;
    }
    case BLOCK:
        for (int64_t r = i; r < i + 16 && r < rows; r++)
            for (int64_t c = j; c < j + 16 && c < columns; c++) plant(f, r * columns + c, 0);
        break;
    case ROW:
        for (j = 0; j < columns; j++) plant(f, i * columns + j, 1.05 * get(f, i * columns + j));
        break;
    case TILE_EDGE: /* the last column of a tile of 128 x 128 */
        j = j / 128 * 128 + 127 < columns ? j / 128 * 128 + 127 : columns - 1;
        for (int64_t r = i / 128 * 128; r < i / 128 * 128 + 128 && r < rows; r++) plant(f, r * columns + j, 0);
        break;
    default: plant(f, chance(2) ? rows * columns - 1 : chance(2) ? columns - 1 : 0, 12345); break;
    }
}

static double verify_seconds(struct fixture *f) {
    double start = now();
    assert_true(passes(f));
    return now() - start;
}

static void reseed(struct fixture *f, int number) {
    truth_cache_free(f->cache);
    f->cache = truth_cache_create();
    snprintf(f->resolved, sizeof f->resolved, "try %d", number);
    chance_state += (uint64_t)number;
}

/* Plants all faults, `tries` times. In every try the right result must pass and each spoiled one must not. */
static void try_matrix(struct fixture *f, const char *what, double (*typical)(int64_t row, int64_t column)) {
    double first = 0, more = 0;
    int found[FAULTS] = {0};
    for (int number = 0; number < tries; number++) {
        reseed(f, number);
        first += verify_seconds(f);
        more += verify_seconds(f);
        for (int fault = 0; fault < FAULTS; fault++) {
            plant_fault(f, (enum fault)fault, typical);
            found[fault] += !passes(f);
            take_back(f);
        }
    }
    print_message("%s, %lld x %lld: %.2f s to verify the first variant, %.2f s another\n", what,
                  (long long)f->arrays[2].shape.size[0], (long long)f->arrays[2].shape.size[1], first / tries,
                  more / tries);
    for (int fault = 0; fault < FAULTS; fault++)
        print_message("    %-20s found %d of %d times\n", fault_names[fault], found[fault], tries);
    for (int fault = 0; fault < FAULTS; fault++) assert_int_equal(found[fault], tries);
}

/* ---- products and transposes ------------------------------------------------------------------------------------- */

static double *row_scale, *column_scale;

static double typical_plain(int64_t row, int64_t column) {
    (void)row, (void)column;
    return 0.1 * sqrt((double)side); /* a standard deviation is sqrt(side) / 3 */
}

/* For a 16-bit result, whose roundings are larger: verification promises less for it (configs/results.md). */
static double typical_large(int64_t row, int64_t column) {
    return 3.4 * typical_plain(row, column);
}

static double typical_scaled(int64_t row, int64_t column) {
    return typical_plain(row, column) * row_scale[row] * column_scale[column];
}

static double anything(int64_t row, int64_t column) {
    (void)row, (void)column;
    return 1e-3;
}

static void in_products(void **state) {
    struct fixture f;
    open_product(&f, FLOAT32, side, side, side, around_zero);
    store_inputs(&f);
    f.operation.run.verify = VERIFY_SAMPLED;
    try_matrix(&f, "float32 product", typical_plain);
    close_fixture(&f);
    open_product(&f, FLOAT16, side / 4, side, side / 2, around_zero);
    store_inputs(&f);
    f.operation.run.verify = VERIFY_SAMPLED;
    side /= 2;
    try_matrix(&f, "float16 product", typical_large);
    side *= 2;
    close_fixture(&f);
}

/* Rows and columns have sizes from 2^-20 to 2^20: faults in small ones are not hidden by large ones. */
static void in_products_of_all_sizes(void **state) {
    struct fixture f;
    struct shape shape = {2, {side, side}};
    size_t elements = (size_t)(side * side);
    float *a = must_malloc(elements * sizeof(float)), *b = must_malloc(elements * sizeof(float));
    row_scale = must_malloc((size_t)side * sizeof(double));
    column_scale = must_malloc((size_t)side * sizeof(double));
    for (int64_t i = 0; i < side; i++) {
        row_scale[i] = ldexp(1, (int)chance(41) - 20);
        column_scale[i] = ldexp(1, (int)chance(41) - 20);
    }
    for (int64_t i = 0; i < side * side; i++) {
        a[i] = (float)(row_scale[i / side] * ((double)chance(1 << 20) * 0x1p-19 - 1));
        b[i] = (float)(column_scale[i % side] * ((double)chance(1 << 20) * 0x1p-19 - 1));
    }
    open_inputs(&f, OP_MATMUL, (struct op_options){.alpha = -3}, FLOAT32, shape, shape, around_zero);
    put_input(&f, 0, a);
    put_input(&f, 1, b);
    compute(&f);
    f.operation.run.verify = VERIFY_SAMPLED;
    try_matrix(&f, "float32 product of lines of all sizes", typical_scaled);
    close_fixture(&f);
    free(a);
    free(b);
    free(row_scale);
    free(column_scale);
}

/* A NaN or an infinity in an input makes a whole row or column of the result not finite; faults elsewhere must be
 * found. */
static void in_products_beside_nans(void **state) {
    struct fixture f;
    struct shape shape = {2, {side / 2, side / 2}};
    int64_t rows = side / 2, odd_row = rows / 3, odd_column = rows / 5;
    open_inputs(&f, OP_MATMUL, (struct op_options){.alpha = 1}, FLOAT32, shape, shape, around_zero);
    float *a = read_input(&f, 0), *b = read_input(&f, 1);
    a[odd_row * rows + 7] = NAN, a[(odd_row + 300) * rows + 8] = INFINITY, b[9 * rows + odd_column] = -INFINITY;
    put_input(&f, 0, a);
    put_input(&f, 1, b);
    free(a);
    free(b);
    compute(&f);
    f.operation.run.verify = VERIFY_SAMPLED;
    side /= 2;
    try_matrix(&f, "float32 product beside NaNs", typical_plain);
    side *= 2;
    for (int number = 0; number < tries; number++) {
        reseed(&f, number);
        assert_true(is_found(&f, odd_row * rows + chance(rows), 1));
        assert_true(is_found(&f, chance(rows) * rows + odd_column, 1));
    }
    close_fixture(&f);
}

static void in_transposes(void **state) {
    struct fixture f;
    struct shape shape = {2, {side + 513, side - 1}}, none = {1, {1}};
    open_fixture(&f, OP_TRANSPOSE, (struct op_options){0}, FLOAT32, shape, none, around_zero);
    store_inputs(&f);
    try_matrix(&f, "transpose", anything);
    close_fixture(&f);
}

/* ---- scale and reduce: many results ------------------------------------------------------------------------------ */

enum line_fault { ONE, TWO_SWAPPED, A_THOUSAND, THE_LAST, LINE_FAULTS };
static const char *const line_fault_names[LINE_FAULTS] = {"an element 10 % off", "two elements swapped",
                                                          "a thousand lost", "the last lost"};

static void plant_in_line(struct fixture *f, enum line_fault fault) {
    int64_t at = chance(f->elements - 1000);
    while (get(f, at) == 0 || get(f, at) == get(f, at + 1)) at++;
    switch (fault) {
    case ONE: plant(f, at, get(f, at) * 1.1 + 1); break;
    case TWO_SWAPPED: swap(f, at, at + 1); break;
    case A_THOUSAND:
        for (int64_t i = at; i < at + 999; i++) plant(f, i, 0);
        break;
    default: plant(f, f->elements - 1, 1e-30); break;
    }
}

static void try_line(struct fixture *f, const char *what) {
    double seconds = 0;
    int found[LINE_FAULTS] = {0}, lines = (tries + 2) / 3; /* each is compared whole, so that the place matters less */
    for (int number = 0; number < lines; number++) {
        reseed(f, number);
        seconds += verify_seconds(f);
        for (int fault = 0; fault < LINE_FAULTS; fault++) {
            plant_in_line(f, (enum line_fault)fault);
            found[fault] += !passes(f);
            take_back(f);
        }
    }
    print_message("%s, %lld results: %.2f s to verify\n", what, (long long)f->elements, seconds / lines);
    for (int fault = 0; fault < LINE_FAULTS; fault++) {
        print_message("    %-20s found %d of %d times\n", line_fault_names[fault], found[fault], lines);
        assert_int_equal(found[fault], lines);
    }
}

static void in_many_results(void **state) {
    struct fixture f;
    struct shape line = {1, {many}}, pairs = {2, {many, 2}}, columns = {2, {3, many}}, none = {1, {1}};
    open_fixture(&f, OP_SCALE, (struct op_options){.alpha = 2.5, .beta = 1}, FLOAT32, line, none, around_zero);
    store_inputs(&f);
    try_line(&f, "scale");
    close_fixture(&f);
    struct op_options sum = {.reduce = REDUCE_SUM, .axis = 1};
    open_fixture(&f, OP_REDUCE, sum, FLOAT32, pairs, none, around_zero);
    store_inputs(&f);
    try_line(&f, "sums of pairs");
    close_fixture(&f);
    struct op_options most = {.reduce = REDUCE_MAX, .axis = 0};
    open_fixture(&f, OP_REDUCE, most, FLOAT64, columns, none, around_zero);
    store_inputs(&f);
    try_line(&f, "the largest of three");
    close_fixture(&f);
}

int main(void) {
    const char *form = getenv("PLANTED"), *wanted = getenv("PLANTED_TRIES");
    if (form && strcmp(form, "full") == 0) side = 8192, many = 50000000, tries = 100;
    if (wanted) tries = atoi(wanted);
    if (getenv("PLANTED_ONLY")) cmocka_set_test_filter(getenv("PLANTED_ONLY"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_products),
        cmocka_unit_test(in_products_of_all_sizes),
        cmocka_unit_test(in_products_beside_nans),
        cmocka_unit_test(in_transposes),
        cmocka_unit_test(in_many_results),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(undone.at);
    free(undone.was);
    return failed;
}
