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

#include "../../runner/base/fail.h"
#include "kernel.h"

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

/* The truth about a box of the output: for integer results `integer`, else `value` in float64 and `magnitude`, by which
 * an error is measured (|A||B| for matmul, sum |x| for a sum). Arrays of box_elements(), owned by the caller. */
struct truth {
    double *value, *magnitude;
    int64_t *integer;
};

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
    /* Largest acceptable |out - value| / magnitude for a variant of that accuracy class. 0: exact, bit for bit. */
    double (*tolerance)(const struct geometry *geometry, enum accuracy accuracy);
};

extern const struct operation *const operations[OP_COUNT]; /* by enum op */
const struct operation *operation_find(const char *name);
const char *reduce_operator_name(enum reduce_operator operator_);
bool reduce_operator_parse(const char *name, enum reduce_operator *operator_);

#endif
