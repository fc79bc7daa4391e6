/* freivalds.c - compares weighted sums of C with those of f A B, where f is the product's factor. */
#include "freivalds.h"

#include "../../kernels/core/cpu.h"
#include "../base/fail.h"
#include "projection.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK    512 /* lines; longer blocks are halved until there are PROJECTION_BLOCKS of them */
#define EXPONENT 500 /* scales are powers of 2 up to 2^EXPONENT, so that a product of two scales stays within float64 */
#define SQUARE   256 /* rows and columns of the square that is compared around an overflow */
#define MAX_SUMS (INT64_C(1) << 22) /* of one side of one matrix of the stack: bounds memory */

#define NO_MEMORY "no host memory left for Freivalds' check of the product"

uint64_t splitmix(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* ---- weights and sums of the rows and the columns of C ----------------------------------------------------------- */

/* One side of the product: its lines are the rows of A and C, or the columns of B and C. The other side's sums run over
 * blocks of these lines. */
struct side {
    int64_t lines, block_length; /* number of lines of one matrix of the stack, and of each block of them */
    int blocks;
    double *weights;    /* [batch][line]; 0 if the line is not finite */
    double *truth;      /* [batch][line][block of the other side]: weighted sums of f A B */
    double *magnitudes; /* [batch][line]: the same with absolute values, weighted sums of |f| |A||B| */
    bool *nonfinite;    /* [batch][line]: the operand's line, and so C's, holds a NaN or an infinity */
};

struct freivalds {
    int64_t batch;
    uint64_t seed;
    double *scale;        /* [batch]: scale of C, the product of the scales of A and B */
    struct side sides[2]; /* rows, columns */
};

/* NULL: out of memory. The caller frees. */
static double *zeros(int64_t count) {
    return try_zeroed(((size_t)count + 1) * sizeof(double));
}

/* false: out of memory; freivalds_free frees what was allocated. */
static bool allocate_side(struct side *side, int64_t batch, int other_blocks) {
    side->weights = zeros(batch * side->lines);
    side->truth = zeros(batch * side->lines * other_blocks);
    side->magnitudes = zeros(batch * side->lines);
    side->nonfinite = calloc((size_t)(batch * side->lines) + 1, sizeof *side->nonfinite);
    return side->weights && side->truth && side->magnitudes && side->nonfinite;
}

/* Chooses the blocks into which sums over `lines` are cut. The more blocks there are, the smaller is the rounding error
 * of a sum, in which a wrong element could hide. `longest`: the most lines for which there are sums of all blocks. */
static void choose_blocks(struct side *side, int64_t lines, int64_t longest) {
    *side = (struct side){.lines = lines, .blocks = 1};
    while (side->blocks < PROJECTION_BLOCKS && lines > side->blocks * BLOCK && 2 * side->blocks * longest <= MAX_SUMS)
        side->blocks *= 2;
    side->block_length = (lines + side->blocks - 1) / side->blocks;
    if (side->block_length < 1) side->block_length = 1;
}

void freivalds_free(struct freivalds *freivalds) {
    if (!freivalds) return;
    for (int s = 0; s < 2; s++) {
        struct side *side = &freivalds->sides[s];
        free(side->weights);
        free(side->truth);
        free(side->magnitudes);
        free(side->nonfinite);
    }
    free(freivalds->scale);
    free(freivalds);
}

RELEASED_BY(freivalds, freivalds_free)

/* ---- the operands ------------------------------------------------------------------------------------------------ */

/* Matrix b of the stack in an input, or in the output (input < 0). */
static struct matrix matrix_of(const struct geometry *geometry, const struct host_reader *reader, const struct run *run,
                               int input, int64_t b) {
    const struct operand *operand = input < 0 ? &geometry->out : &geometry->in[input];
    const struct storage *storage = input < 0 ? &run->tiling.out_storage : &run->tiling.in_storage[input];
    const int64_t *size = operand->shape.size + operand->shape.rank - 2;
    struct matrix matrix = {reader, input, operand, {0}, b, {size[0], size[1]}, 1};
    if (storage->filtered) matrix.chunk = storage->chunk;
    return matrix;
}

/* The axis of a matrix that a loop runs along: 0 (its rows) or 1 (its columns). */
static int axis_of(const struct operand *operand, enum loop loop) {
    return operand->loop[operand->shape.rank - 1] == loop;
}

/* The largest element of each line along `axis`, and which lines hold a NaN or an infinity. */
struct line_extremes {
    int axis;
    double *largest;
    bool *nonfinite;
};

/* Raises *largest to the largest magnitude of `count` numbers. The comparison replaces fmax, which would be a function
 * call for each number. */
CPU_BODY raise_largest_body(const double *x, int64_t count, double *largest) {
    double maximum = *largest;
#pragma omp simd reduction(max : maximum)
    for (int64_t i = 0; i < count; i++) maximum = fabs(x[i]) > maximum ? fabs(x[i]) : maximum;
    *largest = maximum;
}
CPU_VERSIONS(raise_largest, (const double *x, int64_t count, double *largest), (x, count, largest))

/* Raises each of `count` numbers to the magnitude of its partner in x. */
CPU_BODY raise_each_body(const double *x, int64_t count, double *largest) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) largest[i] = largest[i] > fabs(x[i]) ? largest[i] : fabs(x[i]);
}
CPU_VERSIONS(raise_each, (const double *x, int64_t count, double *largest), (x, count, largest))

/* Raises the largest magnitude of each line to that of its elements in a band. */
static void measure_lines(void *context, const struct matrix_band *band, int64_t first, int64_t count) {
    const struct line_extremes *extremes = context;
    int64_t columns = band->count[1];
    double *largest = extremes->largest + band->start[extremes->axis] + first;
    if (extremes->axis == 0)
        for (int64_t r = 0; r < count; r++) raise_largest(band->x + (first + r) * columns, columns, largest + r);
    else
        for (int64_t r = 0; r < band->count[0]; r++) raise_each(band->x + r * columns + first, count, largest);
}

/* Marks the lines of a band that hold a NaN or an infinity. */
static void mark_nonfinite(void *context, const struct matrix_band *band) {
    const struct line_extremes *extremes = context;
    for (int64_t r = 0; r < band->count[0]; r++)
        for (int64_t c = 0; c < band->count[1]; c++)
            if (!isfinite(band->x[r * band->count[1] + c]))
                extremes->nonfinite[extremes->axis == 0 ? band->start[0] + r : band->start[1] + c] = true;
}

/* The exponent of a magnitude, cut to -EXPONENT .. EXPONENT; 0 for 0. */
static int exponent_of(double value) {
    int exponent = value > 0 ? ilogb(value) : 0;
    return exponent < -EXPONENT ? -EXPONENT : exponent > EXPONENT ? EXPONENT : exponent;
}

/* Sets the operand's scale, and replaces the largest element of each line by the line's weight: a random number of 1/2
 * to 1 in size, of either sign, divided by the power of 2 of the largest element; 0 for a line with a NaN or an
 * infinity. */
static void weigh_lines(struct matrix *matrix, const struct line_extremes *extremes, uint64_t *state) {
    int64_t lines = matrix->size[extremes->axis];
    double *weights = extremes->largest, largest = 0;
    for (int64_t i = 0; i < lines; i++) largest = fmax(largest, weights[i]);
    int exponent = exponent_of(largest);
    matrix->scale = ldexp(1, -exponent);
    for (int64_t i = 0; i < lines; i++) {
        uint64_t bits = splitmix(state);
        double weight = 0.5 + ldexp((double)(bits >> 12), -53);
        int line_exponent = weights[i] > 0 ? exponent_of(weights[i]) - exponent : 0;
        if (line_exponent < -EXPONENT) line_exponent = -EXPONENT;
        weights[i] = extremes->nonfinite[i] ? 0 : ldexp(bits & 1 ? weight : -weight, -line_exponent);
    }
}

/* Vectors along k: weighted sums of A's rows, or of B's columns. */
struct vectors {
    double *sums, *magnitudes;
};

/* Describes sums over the side's lines in matrix b, which run along `axis`, into the vectors. */
static struct weighing weighing_of(const struct side *side, int64_t b, int axis, const struct vectors *vectors) {
    return (struct weighing){axis,          side->blocks,       side->block_length, side->weights + b * side->lines,
                             vectors->sums, vectors->magnitudes};
}

/* Chooses the weights of matrix b of the stack and computes its sums. If both operands are the `same` array, each
 * reading serves both. */
static enum status prepare_matrix(struct freivalds *freivalds, const struct geometry *geometry,
                                  const struct host_reader *reader, const struct run *run, bool same, int64_t b,
                                  uint64_t *state, const struct vectors vectors[2], struct error *error) {
    struct matrix matrices[2]; /* A and B */
    struct line_extremes extremes[2];
    struct weighing weighing[2];
    struct multiplication multiplication[2]; /* a side's lines times the other side's vectors */
    struct visitor measure[2], weigh[2], multiply[2];
    int64_t k = geometry->extent[LOOP_K];
    for (int s = 0; s < 2; s++) {
        const struct side *side = &freivalds->sides[s], *other = &freivalds->sides[!s];
        int axis = axis_of(&geometry->in[s], s == 0 ? LOOP_M : LOOP_N);
        int64_t line = b * side->lines; /* the first line of this matrix */
        memset(vectors[s].sums, 0, (size_t)(k * side->blocks) * sizeof(double));
        memset(vectors[s].magnitudes, 0, (size_t)k * sizeof(double));
        matrices[s] = matrix_of(geometry, reader, run, s, b);
        extremes[s] = (struct line_extremes){axis, side->weights + line, side->nonfinite + line};
        weighing[s] = weighing_of(side, b, axis, &vectors[s]);
        multiplication[s] = (struct multiplication){!axis,
                                                    other->blocks,
                                                    vectors[!s].sums,
                                                    vectors[!s].magnitudes,
                                                    side->truth + line * other->blocks,
                                                    side->magnitudes + line};
        measure[s] = (struct visitor){mark_nonfinite, measure_lines, &extremes[s], axis};
        weigh[s] = visit_weighing(&weighing[s]);
        multiply[s] = visit_multiplication(&multiplication[s]);
    }
    TRY(matrix_visit(&matrices[0], measure, same ? 2 : 1, error));
    if (!same) TRY(matrix_visit(&matrices[1], measure + 1, 1, error));
    for (int s = 0; s < 2; s++) weigh_lines(&matrices[s], &extremes[s], state);

    if (same) {
        TRY(matrix_visit(&matrices[0], weigh, 2, error));
        TRY(matrix_visit(&matrices[0], multiply, 2, error));
    } else { /* one reading of the larger operand serves both the weighing and the multiplication */
        int large = freivalds->sides[0].lines < freivalds->sides[1].lines;
        struct visitor both[2] = {weigh[large], multiply[large]};
        TRY(matrix_visit(&matrices[!large], &weigh[!large], 1, error));
        TRY(matrix_visit(&matrices[large], both, 2, error));
        TRY(matrix_visit(&matrices[!large], &multiply[!large], 1, error));
    }

    double factor = operations[geometry->op]->product(&geometry->options);
    for (int s = 0; s < 2; s++) {
        int64_t lines = freivalds->sides[s].lines;
        for (int64_t i = 0; i < lines * multiplication[s].blocks; i++) multiplication[s].sums[i] *= factor;
        for (int64_t i = 0; i < lines; i++) multiplication[s].magnitudes[i] *= fabs(factor);
    }
    freivalds->scale[b] = matrices[0].scale * matrices[1].scale;
    return STATUS_OK;
}

enum status freivalds_prepare(const struct geometry *geometry, const struct host_reader *reader, const struct run *run,
                              bool same, uint64_t seed, struct freivalds **result, struct error *error) {
    int64_t lines[2] = {geometry->extent[LOOP_M], geometry->extent[LOOP_N]}, k = geometry->extent[LOOP_K];
    FREED_BY(freivalds_release) struct freivalds *freivalds = must_malloc(sizeof *freivalds);
    *freivalds = (struct freivalds){.batch = geometry->extent[LOOP_B], .seed = seed};
    struct side *sides = freivalds->sides;
    for (int s = 0; s < 2; s++) choose_blocks(&sides[s], lines[s], k > lines[!s] ? k : lines[!s]);
    freivalds->scale = zeros(freivalds->batch);
    OWNED double *magnitudes = zeros(2 * k), *sums = zeros(k * (sides[0].blocks + sides[1].blocks));
    bool allocated = freivalds->scale && magnitudes && sums;
    for (int s = 0; s < 2; s++) allocated = allocate_side(&sides[s], freivalds->batch, sides[!s].blocks) && allocated;
    if (!allocated) return fail(error, STATUS_RUN, NO_MEMORY);
    const struct vectors vectors[2] = {{sums, magnitudes}, {sums + k * sides[0].blocks, magnitudes + k}};
    uint64_t state = seed;
    for (int64_t b = 0; b < freivalds->batch; b++)
        TRY(prepare_matrix(freivalds, geometry, reader, run, same, b, &state, vectors, error));
    *result = disown(&freivalds);
    return STATUS_OK;
}

/* ---- the product ------------------------------------------------------------------------------------------------- */

/* A sum that differs from its truth, and by how much relative to its allowed rounding error. */
struct suspect {
    double ratio;
    struct box box;
};

/* The search through all matrices of the stack, one after another. */
struct suspect_search {
    const struct freivalds *freivalds;
    const struct geometry *geometry;
    int64_t b;
    uint64_t state;
    struct suspect worst[2][SUSPECT_LINES]; /* sums of rows, and of columns; the worst first */
    int nonfinites, overflows;              /* number of boxes kept */
    struct box nonfinite[SUSPECT_NONFINITE], overflow[SUSPECT_OVERFLOWS];
    int64_t overflows_seen;
    int64_t *nonfinite_count[2]; /* [side][line]: number of non-finite elements in each non-finite line */
};

/* The box of these rows and columns of matrix search->b of C. */
static struct box part_of(const struct suspect_search *search, int64_t row, int64_t rows, int64_t column,
                          int64_t columns) {
    struct box box = box_whole(&search->geometry->out.shape);
    int axis = 0;
    if (box.rank == 3) box.start[axis] = search->b, box.count[axis++] = 1;
    box.start[axis] = row, box.count[axis++] = rows;
    box.start[axis] = column, box.count[axis] = columns;
    return box;
}

/* The box of elements [start, start + count) of a line: of a row if s is 0, else of a column. */
static struct box part_of_line(const struct suspect_search *search, int s, int64_t line, int64_t start, int64_t count) {
    return s == 0 ? part_of(search, line, 1, start, count) : part_of(search, start, count, line, 1);
}

/* Keeps a suspect box of non-finite elements. If there is no room, one that is certainly wrong replaces the first. */
static void add_nonfinite(struct suspect_search *search, struct box box, bool certain) {
    if (search->nonfinites < SUSPECT_NONFINITE)
        search->nonfinite[search->nonfinites++] = box;
    else if (certain)
        search->nonfinite[0] = box;
}

/* Keeps the square that contains an overflow. If all places are taken, it may replace a random square (reservoir
 * sampling); a square that was dropped counts again with its next overflow, so that squares with many overflows are
 * kept more often. */
static void add_overflow(struct suspect_search *search, int64_t row, int64_t column) {
    const struct side *sides = search->freivalds->sides;
    row -= row % SQUARE, column -= column % SQUARE;
    int64_t rows = sides[0].lines - row, columns = sides[1].lines - column;
    struct box box = part_of(search, row, rows < SQUARE ? rows : SQUARE, column, columns < SQUARE ? columns : SQUARE);
    for (int i = 0; i < search->overflows; i++)
        if (box_equal(&search->overflow[i], &box)) return;
    int64_t at = search->overflows_seen++;
    if (at < SUSPECT_OVERFLOWS)
        search->overflows++;
    else
        at = (int64_t)(splitmix(&search->state) % (uint64_t)search->overflows_seen);
    if (at < SUSPECT_OVERFLOWS) search->overflow[at] = box;
}

/* Can element (i, j) have overflowed? The magnitude of row i contains (|A||B|)(i, j) times the weight of column j, and
 * the magnitude of column j contains it times the weight of row i. So each magnitude divided by that weight is an upper
 * bound; half of the largest number leaves a margin. */
static bool can_overflow(const struct suspect_search *search, int64_t i, int64_t j) {
    const struct side *rows = &search->freivalds->sides[0], *columns = &search->freivalds->sides[1];
    i += search->b * rows->lines, j += search->b * columns->lines;
    double by_row = rows->magnitudes[i] / fabs(columns->weights[j]);
    double by_column = columns->magnitudes[j] / fabs(rows->weights[i]);
    double max_product = fmin(by_row, by_column) / search->freivalds->scale[search->b];
    return !(max_product < dtype_largest(search->geometry->out.dtype) / 2);
}

/* Visits the infinities and NaNs in a band of C. Counts those that non-finite inputs explain, and keeps the others as
 * possible overflows or as suspects. */
static void search_nonfinite(void *context, const struct matrix_band *band) {
    struct suspect_search *search = context;
    const struct side *sides = search->freivalds->sides;
    const bool *nonfinite_row = sides[0].nonfinite + search->b * sides[0].lines;
    const bool *nonfinite_column = sides[1].nonfinite + search->b * sides[1].lines;
    for (int64_t r = 0; r < band->count[0]; r++)
        for (int64_t c = 0; c < band->count[1]; c++) {
            if (isfinite(band->x[r * band->count[1] + c])) continue;
            int64_t i = band->start[0] + r, j = band->start[1] + c;
            search->nonfinite_count[0][i] += nonfinite_row[i];
            search->nonfinite_count[1][j] += nonfinite_column[j];
            if (nonfinite_row[i] || nonfinite_column[j]) continue;
            if (can_overflow(search, i, j))
                add_overflow(search, i, j);
            else
                add_nonfinite(search, part_of(search, i, 1, j, 1), true);
        }
}

/* Inserts a suspect into the list of the worst, if it is worse than the last. */
static void keep_suspect(struct suspect worst[SUSPECT_LINES], double ratio, struct box box) {
    int at = SUSPECT_LINES;
    while (at > 0 && ratio > worst[at - 1].ratio) at--;
    if (at == SUSPECT_LINES) return;
    memmove(worst + at + 1, worst + at, (size_t)(SUSPECT_LINES - 1 - at) * sizeof *worst);
    worst[at] = (struct suspect){ratio, box};
}

/* Ranks the rows (s = 0) or columns (s = 1) of C by how far their weighted sums are from the truth, in units of the
 * rounding error that the tolerance allows: relative to the magnitude, plus `absolute` for elements below the smallest
 * normal number. The sum over a block is measured by what is allowed for its whole line: blocks have no magnitudes, and
 * only the order of the suspects depends on it. */
static void rank_lines(struct suspect_search *search, int s, const double *sums) {
    const struct freivalds *freivalds = search->freivalds;
    const struct side *side = &freivalds->sides[s], *other = &freivalds->sides[!s];
    struct tolerance tolerance = operations[search->geometry->op]->tolerance(search->geometry, ACCURACY_FULL);
    const double *truth = side->truth + search->b * side->lines * other->blocks;
    const double *magnitudes = side->magnitudes + search->b * side->lines;
    const double *weights = side->weights + search->b * side->lines;
    const double *other_weights = other->weights + search->b * other->lines;
    double sum_of_weights = 0;
    for (int64_t i = 0; i < other->lines; i++) sum_of_weights += fabs(other_weights[i]);
    double absolute = tolerance.absolute * freivalds->scale[search->b] * sum_of_weights;
    for (int64_t line = 0; line < side->lines; line++) {
        if (weights[line] == 0) continue; /* not finite: check_nonfinite_lines */
        double allowed = tolerance.relative * magnitudes[line] + absolute;
        for (int block = 0; block < other->blocks; block++) {
            int64_t at = line * other->blocks + block, start = block * other->block_length;
            int64_t count = other->lines - start < other->block_length ? other->lines - start : other->block_length;
            double deviation = fabs(sums[at] - truth[at]);
            if (count <= 0 || deviation == 0) continue;
            double ratio = isfinite(deviation) ? deviation / allowed : INFINITY;
            keep_suspect(search->worst[s], ratio, part_of_line(search, s, line, start, count));
        }
    }
}

/* Checks that every element of a non-finite line is NaN or infinite. If one is not, the line is certainly wrong. In
 * about a quarter of the other non-finite lines, up to SQUARE elements become suspects. */
static void check_nonfinite_lines(struct suspect_search *search, int s) {
    const struct side *side = &search->freivalds->sides[s], *other = &search->freivalds->sides[!s];
    const bool *nonfinite = side->nonfinite + search->b * side->lines;
    for (int64_t line = 0; line < side->lines; line++) {
        if (!nonfinite[line]) continue;
        bool wrong = search->nonfinite_count[s][line] != other->lines;
        int64_t count = wrong || other->lines < SQUARE ? other->lines : SQUARE;
        int64_t start = (int64_t)(splitmix(&search->state) % (uint64_t)(other->lines - count + 1));
        if (wrong || (splitmix(&search->state) & 3) == 0)
            add_nonfinite(search, part_of_line(search, s, line, start, count), wrong);
    }
}

/* Reads matrix search->b of the output once: ranks its lines by their errors, and finds its non-finite elements. */
static enum status search_matrix(struct suspect_search *search, const struct host_reader *reader, const struct run *run,
                                 double *const sums[2], struct error *error) {
    const struct side *sides = search->freivalds->sides;
    struct matrix matrix = matrix_of(search->geometry, reader, run, -1, search->b);
    matrix.scale = search->freivalds->scale[search->b];
    struct weighing weighing[2];
    struct visitor visitors[3] = {[2] = {search_nonfinite, NULL, search, 0}};
    for (int s = 0; s < 2; s++) { /* sums a side's lines with the weights of the other side */
        const struct side *other = &sides[!s];
        // NOLINTBEGIN(clang-analyzer-core.NonNullParamChecker): the caller has allocated both
        memset(search->nonfinite_count[s], 0, (size_t)sides[s].lines * sizeof *search->nonfinite_count[s]);
        memset(sums[s], 0, (size_t)(sides[s].lines * other->blocks) * sizeof(double));
        // NOLINTEND(clang-analyzer-core.NonNullParamChecker)
        weighing[s] = weighing_of(other, search->b, !s, &(struct vectors){sums[s], NULL});
        visitors[s] = visit_weighing(&weighing[s]);
    }
    TRY(matrix_visit(&matrix, visitors, 3, error));
    for (int s = 0; s < 2; s++) {
        rank_lines(search, s, sums[s]);
        check_nonfinite_lines(search, s);
    }
    return STATUS_OK;
}

/* Lists what the search has found: non-finite elements, the worst rows and columns in turns, then overflows. */
static void list_suspects(const struct suspect_search *search, struct suspects *suspects) {
    suspects->count = 0;
    for (int i = 0; i < search->nonfinites; i++) suspects->box[suspects->count++] = search->nonfinite[i];
    for (int i = 0; i < SUSPECT_LINES; i++)
        for (int s = 0; s < 2; s++)
            if (search->worst[s][i].ratio > 0) suspects->box[suspects->count++] = search->worst[s][i].box;
    for (int i = 0; i < search->overflows; i++) suspects->box[suspects->count++] = search->overflow[i];
}

enum status freivalds_suspects(const struct freivalds *freivalds, const struct geometry *geometry,
                               const struct host_reader *reader, const struct run *run, struct suspects *suspects,
                               struct error *error) {
    const struct side *rows = &freivalds->sides[0], *columns = &freivalds->sides[1];
    struct suspect_search search = {.freivalds = freivalds, .geometry = geometry, .state = ~freivalds->seed};
    OWNED double *row_sums = zeros(rows->lines * columns->blocks), *column_sums = zeros(columns->lines * rows->blocks);
    OWNED int64_t *counts = try_zeroed(((size_t)(rows->lines + columns->lines) + 1) * sizeof *counts);
    if (!row_sums || !column_sums || !counts) return fail(error, STATUS_RUN, NO_MEMORY);
    double *const sums[2] = {row_sums, column_sums};
    search.nonfinite_count[0] = counts;
    search.nonfinite_count[1] = counts + rows->lines;
    for (search.b = 0; search.b < freivalds->batch; search.b++) TRY(search_matrix(&search, reader, run, sums, error));
    list_suspects(&search, suspects);
    return STATUS_OK;
}
