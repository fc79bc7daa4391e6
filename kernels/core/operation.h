/* operation.h - what an operation is, whoever computes it: shapes, work, how it may be tiled, and the truth.
 *
 * Every operation is an index expression over at most four loops, b m n k (as in einsum):
 *     matmul             bmk, bkn -> bmn          transpose          bmn -> bnm
 *     reduce axis 1 of 3 bkn -> bn                scale              bmn -> bmn
 *     reduce all         bmk -> (scalar)
 * A loop that the result lacks is a reduction. From this alone the plan derives tiles, regions, traffic and the order
 * of steps, without knowing which operation it is. */
#ifndef KERNELS_OPERATION_H
#define KERNELS_OPERATION_H

#include "kernel.h"
#include "status.h"

#define MAX_RANK 3
#define LOOPS    4

enum loop { LOOP_B, LOOP_M, LOOP_N, LOOP_K }; /* steps run in this order, k fastest */

struct shape {
    int rank;
    int64_t size[MAX_RANK];
};
int64_t shape_elements(const struct shape *shape);
/* Can 64 bits count its bytes, with 16 to an element, and those of any part of it? No other shape gets into a plan. */
bool shape_countable(const struct shape *shape);
/* "512x512", "scalar" for rank 0; into `text`, which is returned. */
#define SHAPE_TEXT 64
const char *shape_format(const struct shape *shape, char text[SHAPE_TEXT]);

/* A box of elements of an array of rank `rank`. */
struct box {
    int rank;
    int64_t start[MAX_RANK], count[MAX_RANK];
};
int64_t box_elements(const struct box *box);
struct box box_whole(const struct shape *shape);
bool box_equal(const struct box *a, const struct box *b);

/* A box cut into pieces, in row-major order. */
struct cut {
    struct box whole;
    int64_t step[MAX_RANK]; /* elements of a piece along each axis; those at the end may have fewer */
    int64_t pieces;         /* 0: the box is empty */
};
/* Pieces of at most `elements`: as much of the last axes as fits, in whole grains (rank 0: a grain is one element; a
 * chunk, so that each is read once). A piece is a grain at least. */
struct cut box_cut(const struct box *box, const struct shape *grain, int64_t elements);
struct box cut_piece(const struct cut *cut, int64_t number);

struct operand {
    enum dtype dtype;
    struct shape shape;
    enum loop loop[MAX_RANK]; /* which loop runs along each axis */
};

/* An operation on concrete shapes. */
struct geometry {
    enum op op;
    struct op_options options; /* axis made non-negative */
    int64_t extent[LOOPS];     /* 1 for a loop that is not used; 0 where a dimension is */
    int inputs;
    struct operand in[2], out;
    bool reduces[LOOPS];         /* loops that the result lacks */
    size_t partial_size;         /* bytes an output element needs between launches of a split reduction; 0: none
                                    (`out` itself holds it) */
    bool partial_always;         /* the kernel wants `partial` even when nothing is split (reduce's state) */
    bool row_major_tiles;        /* a tile must be one run of elements in row-major order (reduce over all axes) */
    double flops, bytes;         /* necessary work: each input read once, the output written once */
    char shape_text[SHAPE_TEXT]; /* the results file's `shape` column */
};

/* What one launch covers: part of each loop. */
struct tile {
    int64_t start[LOOPS], count[LOOPS];
};
/* The part of an operand that a tile reads or writes. */
struct box box_of_tile(const struct operand *operand, const struct tile *tile);

/* Reads a box of an operation's input number `input` (or, input -1, of its output) into packed host memory. */
struct host_reader {
    enum status (*read)(void *context, int input, const struct box *box, void *data, struct error *error);
    void *context;
};

/* The truth about a box of the output, arrays of box_elements(): for results that are integers or `exact` (below)
 * `integer` alone, else the others. A magnitude is what an error is measured by (|A||B| for matmul, sum |x| for a sum),
 * but never more than what a running value can be without overflow. */
struct truth {
    double *value, *magnitude; /* both finite, unless the inputs make an infinity or a NaN */
    bool *overflows;           /* a running value may leave its type's range: an infinity or a NaN is right, too */
    int64_t *integer;          /* the element; of an `exact` operation its bits, those above its size 0 */
};

/* An element is right where |out - value| <= relative * magnitude + absolute. */
struct tolerance {
    double relative;
    double absolute; /* what roundings below the types' least normal numbers come to */
};

#define UNITS_TEXT 128

struct operation {
    const char *name; /* "matmul" */
    const char *summary;
    int inputs;
    /* Checks shapes and types and fills `geometry`. A user's mistake (inner dimensions differ, an axis that is not
     * there) is STATUS_USAGE with a sentence that names shapes. */
    enum status (*geometry)(const struct op_options *options, const struct shape shapes[], const enum dtype dtypes[],
                            struct geometry *geometry, struct error *error);
    /* Fills op, dtype and args of `launch` for a tile whose operands lie packed at these places. `partial` may be NULL
     * where the geometry wants none. */
    void (*launch)(const struct geometry *geometry, const struct tile *tile, bool first, bool last,
                   const void *const in[], void *partial, void *out, struct launch *launch);
    /* Computes the truth for a box of the output from the inputs, in float64 (64-bit integers for integer results),
     * straightforwardly, reading each input in pieces of bounded size. */
    enum status (*reference)(const struct geometry *geometry, const struct host_reader *reader, const struct box *box,
                             struct truth *truth, struct error *error);
    /* The unit of the result, from those of the inputs (NULL: unknown), into `text`. false: unknown. */
    bool (*units)(const struct op_options *options, const char *const in[], char text[UNITS_TEXT]);
    /* What a right result of a variant of that accuracy class may be off by. */
    struct tolerance (*tolerance)(const struct geometry *geometry, enum accuracy accuracy);
    bool exact;   /* it moves elements: every bit counts, a NaN's and a zero's sign too */
    bool product; /* it is bilinear: too much work to be done again, and Freivalds' check can do without */
};

/* Room for the truth about so many elements of an operation's result. STATUS_RUN: the host has none. */
enum status truth_allocate(const struct geometry *geometry, int64_t elements, struct truth *truth, struct error *error);
void truth_free(struct truth *truth);

extern const struct operation *const operations[OP_COUNT]; /* by enum op */
const struct operation *operation_find(const char *name);
/* For operations whose result has its input's unit. */
bool units_of_input(const struct op_options *options, const char *const in[], char text[UNITS_TEXT]);
const char *reduce_operator_name(enum reduce_operator operator_);

#endif
