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

#define MAX_RANK     8
#define OPERAND_RANK 3 /* axes that an operation sees of an array, at most */
#define MAX_INPUTS   2 /* of an operation */
#define LOOPS        4

enum loop { LOOP_B, LOOP_M, LOOP_N, LOOP_K }; /* steps run in this order, k fastest */

struct shape {
    int rank;
    int64_t size[MAX_RANK];
};
int64_t shape_elements(const struct shape *shape);
/* Can 64 bits count its bytes, with 16 to an element, and those of any part of it? No other shape gets into a plan. */
bool shape_countable(const struct shape *shape);
/* "512x512", "scalar" for rank 0; into `text`, which is returned. */
#define SHAPE_TEXT 160
const char *shape_format(const struct shape *shape, char text[SHAPE_TEXT]);

/* A box of elements of an array of rank `rank`. */
struct box {
    int rank;
    int64_t start[MAX_RANK], count[MAX_RANK];
};
int64_t box_elements(const struct box *box);
struct box box_whole(const struct shape *shape);
bool box_equal(const struct box *a, const struct box *b);

/* The array's axes behind those of an operand (axes.h). groups 0: they are the operand's own. */
struct axes {
    int rank;
    int64_t size[MAX_RANK];
    int of[MAX_RANK]; /* the axis of the array; -1: it has none, or one element there, which is repeated */
    int array_rank;
    int groups, group[OPERAND_RANK]; /* how many each axis of the operand merges */
};

struct operand {
    enum dtype dtype;
    struct shape shape;
    struct axes axes;
    enum loop loop[MAX_RANK]; /* which loop runs along each axis */
};

/* An operation on concrete shapes. */
struct geometry {
    enum op op;
    struct op_options options; /* axis made non-negative */
    int64_t extent[LOOPS];     /* 1 for a loop that is not used; 0 where a dimension is */
    int inputs;
    struct operand in[MAX_INPUTS], out;
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
    /* A box that lies packed in memory already, valid until the next call of either; NULL: it has to be read. The
     * function may be NULL. */
    const void *(*lend)(void *context, int input, const struct box *box);
};
/* Lends the box, or reads it into `data`: *at is where it lies. */
enum status host_reader_get(const struct host_reader *reader, int input, const struct box *box, void *data,
                            const void **at, struct error *error);

/* What else is right because the terms may leave their type's range on the way to their sum. */
enum overflow {
    OVERFLOW_NONE,
    OVERFLOW_NAN, /* a NaN: the sum is infinite by its inputs, and others overflow to the other side */
    OVERFLOW_ANY, /* either infinity, too: the inputs are finite */
};

/* The truth about a box of the output, arrays of box_elements(): for results that are integers or `exact` (below)
 * `integer` alone, else the others. A magnitude is what an error is measured by (|A||B| for matmul, sum |x| for a sum),
 * but never more than what a running value can be without overflow. */
struct truth {
    double *value, *magnitude; /* both finite, unless the inputs make an infinity or a NaN */
    unsigned char *overflow;   /* an enum overflow */
    int64_t *integer;          /* the element; of an `exact` operation its bits, those above its size 0 */
};

/* An element is right where |out - value| <= relative * magnitude + absolute. */
struct tolerance {
    double relative;
    double absolute; /* what roundings below the types' least normal numbers come to */
};

#define UNITS_TEXT     128
#define LONG_NAME_TEXT 256

/* What people compare an operation's speed by. */
enum rate { RATE_BYTES, RATE_FLOPS };

struct merged;

struct operation {
    const char *name; /* "matmul" */
    const char *summary;
    int inputs;
    int dimensions; /* of a launch, at whose sizes a variant has edges (kernel.h) */
    enum rate rate;
    /* Where one operation stands for several, as reduce does: their names, up to a NULL, and which of them the options
     * choose. A variant states which it does (kernel->operators). NULL: it is just one. */
    const char *const *operators;
    int (*operator_of)(const struct op_options *options);
    /* Checks shapes and types and fills `geometry`. A user's mistake (inner dimensions differ, an axis that is not
     * there) is STATUS_USAGE with a sentence that names shapes. */
    enum status (*geometry)(const struct op_options *options, const struct shape shapes[], const enum dtype dtypes[],
                            struct geometry *geometry, struct error *error);
    /* The type that inputs of these types are read as, so that the operation computes in `as`, its result's type, or in
     * one that is wider still. DTYPE_COUNT: as they are. NULL: it computes nothing. */
    enum dtype (*computes_in)(const struct op_options *options, const enum dtype dtypes[], enum dtype as);
    /* For shapes that `geometry` does not take: merges axes into ones that it does (axes.h). */
    enum status (*merge)(const struct op_options *options, const struct shape shapes[], struct merged *merged,
                         struct error *error);
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
    /* What the result is, in words, from what the inputs are (NULL: unknown), into `text`: "sum of load over axis 0".
     * The options are a geometry's. false: unknown. */
    bool (*long_name)(const struct op_options *options, const char *const in[], char text[LONG_NAME_TEXT]);
    /* What a right result of a variant of that accuracy class may be off by. */
    struct tolerance (*tolerance)(const struct geometry *geometry, enum accuracy accuracy);
    bool exact; /* it moves elements: every bit counts, a NaN's and a zero's sign too */
    /* Of a product, out[b,m,n] = factor * sum over k of in0[b,m,k] in1[b,k,n], the factor. It is too much work to be
     * done again, and Freivalds' check can do without. NULL: it is none. */
    double (*product)(const struct op_options *options);
    /* For the plan's prediction: how much longer than its flops it takes a GPU in `tiles` tiles of size `tile`, by a
     * variant of that `speed` (kernel.h). NULL: no longer. */
    double (*slowdown)(const int64_t tile[LOOPS], const int64_t tiles[LOOPS], int multiprocessors, double speed);
};

/* Room for the truth about so many elements of an operation's result. STATUS_RUN: the host has none. */
enum status truth_allocate(const struct geometry *geometry, int64_t elements, struct truth *truth, struct error *error);
void truth_free(struct truth *truth);

extern const struct operation *const operations[OP_COUNT]; /* by enum op */
const struct operation *operation_find(const char *name);
/* For operations whose result has its input's unit. */
bool units_of_input(const struct op_options *options, const char *const in[], char text[UNITS_TEXT]);
/* For operations whose result is what its input is. */
bool long_name_of_input(const struct op_options *options, const char *const in[], char text[LONG_NAME_TEXT]);
/* The name of the operator that the options choose; NULL: the operation has none. */
const char *operation_operator(const struct operation *operation, const struct op_options *options);
/* Does the variant do the operator that the options choose? */
bool kernel_has_operator(const struct kernel *kernel, const struct op_options *options);

#endif
