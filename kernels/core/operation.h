/* operation.h - describes an operation independently of its variants: shapes, work, possible tiles, and the truth, its
 * right result. `struct operation` has the functions of an operation, `struct geometry` an operation on given shapes.
 *
 * Every operation is an index expression over at most four loops, b m n k (as in einsum):
 *     matmul             bmk, bkn -> bmn          transpose          bmn -> bnm
 *     reduce axis 1 of 3 bkn -> bn                scale              bmn -> bmn
 *     reduce all         bmk -> (scalar)            map                bmn, bmn, ... -> bmn
 * A loop that the result lacks is a reduction. From the loops alone the plan derives tiles, boxes, traffic and the
 * order of steps; it needs to know nothing else about the operation. */
#ifndef KERNELS_OPERATION_H
#define KERNELS_OPERATION_H

#include "kernel.h"
#include "status.h"

#define MAX_RANK     8
#define OPERAND_RANK 3 /* most axes of an operand, after merging (axes.h) */
#define MAX_INPUTS   KERNEL_INPUTS
#define LOOPS        4

enum loop { LOOP_B, LOOP_M, LOOP_N, LOOP_K }; /* steps run in this order, k fastest */

struct shape {
    int rank;
    int64_t size[MAX_RANK];
};
int64_t shape_elements(const struct shape *shape);
/* Do 64 bits suffice to count the shape's bytes, at 16 bytes per element? A plan has no larger shapes. */
bool shape_countable(const struct shape *shape);
/* Writes "512x512", or "scalar" for rank 0, into `text` and returns it. */
#define SHAPE_TEXT 160
const char *shape_format(const struct shape *shape, char text[SHAPE_TEXT]);

/* A block of elements of an array of rank `rank`. */
struct box {
    int rank;
    int64_t start[MAX_RANK], count[MAX_RANK];
};
int64_t box_elements(const struct box *box);
struct box box_whole(const struct shape *shape);
bool shape_equal(const struct shape *a, const struct shape *b);
bool box_equal(const struct box *a, const struct box *b);
/* Sets *both to the intersection of two boxes of the same rank; false: it is empty. */
bool box_intersect(const struct box *one, const struct box *other, struct box *both);

/* The array's axes that were merged into an operand's axes, in the operand's order (axes.h). */
struct axes {
    int rank;
    int64_t size[MAX_RANK];
    int array_axis[MAX_RANK]; /* number in the array; -1: the array lacks the axis, or repeats one element along it */
    int array_rank;
    int groups, group[OPERAND_RANK]; /* number of axes in each axis of the operand; groups 0: nothing was merged */
    int64_t first[MAX_RANK];         /* if a panel of a map's result is computed: its start along the array's axes */
};

struct operand {
    enum dtype dtype;
    struct shape shape;
    struct axes axes;
    enum loop loop[MAX_RANK]; /* the loop that runs along each axis */
};

/* An operation on concrete shapes. */
struct geometry {
    enum op op;
    struct op_options options; /* the axis is non-negative */
    int64_t extent[LOOPS];     /* length of each loop, possibly 0; 1: a loop that the operation does not use */
    int inputs;
    struct operand in[MAX_INPUTS], out;
    struct operand map_result;   /* the values of a map before the operation (map/before.h) */
    bool reduces[LOOPS];         /* the result lacks this loop */
    size_t partial_size;         /* bytes of an element's intermediate result between the launches of a split
                                    reduction; 0: `out` itself holds the intermediate result */
    bool partial_always;         /* kernels need `partial` even if the reduction is not split (reduce's state) */
    bool row_major_tiles;        /* a tile must be one run of elements in row-major order (reduce over all axes) */
    double flops, bytes;         /* necessary work: each input is read once, the output is written once */
    char shape_text[SHAPE_TEXT]; /* the results file's `shape` column */
};

/* Is there nothing to compute? A sum of no terms is written as 0, but not computed. */
bool geometry_is_empty(const struct geometry *geometry);

/* The part of each loop that one launch covers. */
struct tile {
    int64_t start[LOOPS], count[LOOPS];
};
/* The part of an operand that a tile reads or writes. */
struct box box_of_tile(const struct operand *operand, const struct tile *tile);

/* Reads boxes of an operation's operands into host memory. */
struct host_reader {
    /* Reads a box of input number `input`, or of the output if `input` is -1, packed into `data`. */
    enum status (*read)(void *context, int input, const struct box *box, void *data, struct error *error);
    void *context;
    /* Returns a box that is packed in memory already; the pointer is valid until the next call of either function.
     * NULL: the box must be read. The function itself may be NULL. */
    const void *(*lend)(void *context, int input, const struct box *box);
};
/* Sets *at to the box's elements: where the reader lends them, else to `data`, into which they are read. */
enum status host_reader_get(const struct host_reader *reader, int input, const struct box *box, void *data,
                            const void **at, struct error *error);

/* Results that are also right, because a running sum may leave the range of its type before all terms are added. */
enum overflow {
    OVERFLOW_NONE,
    OVERFLOW_NAN, /* NaN: an input makes the sum infinite, and the other terms may overflow to the other infinity */
    OVERFLOW_ANY, /* NaN and both infinities: the inputs are finite */
};

/* The truth about a box of the output, in arrays of box_elements() elements. Results that are integers or `exact`
 * (below) have `integer` only; all others have the other arrays. */
struct truth {
    double *value;           /* the right result: finite, unless infinities or NaNs of the inputs decide it */
    double *magnitude;       /* what errors are relative to: |A||B| of a product, sum |x| of a sum. At most the largest
                                running value that does not overflow; infinite if any result is right */
    unsigned char *overflow; /* an enum overflow */
    int64_t *integer;        /* the element, or for an `exact` operation its bits, with zeros above them */
    double *slack;           /* the additional error of a map before the operation that has functions such as exp;
                                NULL: none */
};

/* An element is right if |out - value| <= relative * magnitude + absolute + slack. */
struct tolerance {
    double relative;
    double absolute; /* the sum of possible roundings of numbers below the smallest normal ones */
};

#define UNITS_TEXT     128
#define LONG_NAME_TEXT 256

/* The unit of an operation's speed. */
enum rate { RATE_BYTES, RATE_FLOPS };

struct merged;

struct operation {
    const char *name; /* "matmul" */
    const char *summary;
    int min_inputs, inputs; /* the smallest and the largest number of inputs */
    int dimensions;         /* number of dimensions of a launch for which a variant lists edges (kernel.h) */
    enum rate rate;
    /* The names of the operation's operators (reduce has sum, min and others), up to a NULL, and the number of the one
     * that the options choose. A variant states the operators that it implements (kernel->operators). NULL: the
     * operation has no operators. */
    const char *const *operators;
    int (*operator_of)(const struct op_options *options);
    /* Checks shapes and types and fills `geometry`. STATUS_USAGE: the user made a mistake (inner dimensions differ, an
     * axis does not exist), and the message names the shapes. */
    enum status (*geometry)(const struct op_options *options, const struct shape shapes[], const enum dtype dtypes[],
                            struct geometry *geometry, struct error *error);
    /* The type to which inputs of these types are converted, so that the operation computes in the result's type `as`
     * or in a wider one. DTYPE_COUNT: inputs are not converted. NULL: the operation computes nothing. */
    enum dtype (*computes_in)(const struct op_options *options, const enum dtype dtypes[], enum dtype as);
    /* Merges axes of shapes that `geometry` does not accept into shapes that it accepts (axes.h). */
    enum status (*merge)(const struct op_options *options, const struct shape shapes[], struct merged *merged,
                         struct error *error);
    /* Fills op, dtype and args of `launch` for a tile whose packed operands are at these addresses. `partial` may be
     * NULL if the geometry needs none. */
    void (*launch)(const struct geometry *geometry, const struct tile *tile, bool first, bool last,
                   const void *const in[], void *partial, void *out, struct launch *launch);
    /* Computes the truth about a box of the output by plain loops, in float64 (for integer results in 64-bit integers).
     * Reads each input in pieces of bounded size. */
    enum status (*reference)(const struct geometry *geometry, const struct host_reader *reader, const struct box *box,
                             struct truth *truth, struct error *error);
    /* Writes the unit of the result into `text`, given the units of the inputs (NULL: unknown). false: unknown. */
    bool (*unit)(const struct op_options *options, const char *const in[], char text[UNITS_TEXT]);
    /* Writes a description of the result into `text`, such as "sum of load over axis 0", given descriptions of the
     * inputs (NULL: unknown) and the options of a geometry. false: unknown. */
    bool (*long_name)(const struct op_options *options, const char *const in[], char text[LONG_NAME_TEXT]);
    /* The largest error of a right result of a variant in this accuracy class. */
    struct tolerance (*tolerance)(const struct geometry *geometry, enum accuracy accuracy);
    bool ambiguous_integers; /* integers of functions such as exp may have several right values; truth->overflow then
                                is OVERFLOW_ANY, and any value passes */
    bool exact; /* the operation only moves elements, so every bit must be right, also those of NaNs and zeros */
    /* The factor of a product, out[b,m,n] = factor * sum over k of in0[b,m,k] in1[b,k,n]. Freivalds' check verifies a
     * product without computing it again, which would be too much work. NULL: the operation is not a product. */
    double (*product)(const struct op_options *options);
    /* For the plan's prediction: the factor by which a GPU needs longer than the flops predict, in `tiles` tiles of
     * size `tile`, by a variant of this `speed` (kernel.h). NULL: the factor is 1. */
    double (*slowdown)(const int64_t tile[LOOPS], const int64_t tiles[LOOPS], int multiprocessors, double speed);
};

/* Allocates the truth about `elements` elements of an operation's result. STATUS_RUN: no host memory. */
enum status truth_allocate(const struct geometry *geometry, int64_t elements, struct truth *truth, struct error *error);
void truth_free(struct truth *truth);

extern const struct operation *const operations[OP_COUNT]; /* indexed by enum op */
/* The number of inputs of an operation with these options. */
int operation_inputs(const struct operation *operation, const struct op_options *options);
const struct operation *operation_find(const char *name);
/* `unit` of operations whose result has the unit of the input. */
bool unit_of_input(const struct op_options *options, const char *const in[], char text[UNITS_TEXT]);
/* `long_name` of operations whose result is described as the input is. */
bool long_name_of_input(const struct op_options *options, const char *const in[], char text[LONG_NAME_TEXT]);
/* The name of the operator that the options choose; NULL: the operation has none. */
const char *operation_operator(const struct operation *operation, const struct op_options *options);
/* Does the variant implement the operator that the options choose? */
bool kernel_has_operator(const struct kernel *kernel, const struct op_options *options);

#endif
