/* kernel.h - the contract between the runner and the kernels; the only header that .c and .cu files share.
 *
 * An operation (op.c in its folder) states shapes, work and truth. A kernel variant (one file each) states only how to
 * compute: it is a `struct kernel` whose `launch` does one tile. The runner never looks inside a launch; a kernel never
 * sees a file, a name or a clock.
 *
 * A tile is packed: rank <= 3, row-major, last axis adjacent, no padding, in the memory of the kernel's own device. All
 * sizes and offsets are int64_t and count elements, unless the name says bytes. */
#ifndef KERNELS_KERNEL_H
#define KERNELS_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- data types ------------------------------------------------------------------------------------------------ */

enum dtype {
    FLOAT32,
    FLOAT64,
    FLOAT16,
    BFLOAT16,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    DTYPE_COUNT
};

/* A set of data types, for a kernel's `dtypes`: DTYPE_BIT(FLOAT32) | DTYPE_BIT(FLOAT64). */
#define DTYPE_BIT(dtype) (1u << (dtype))
#define DTYPES_FLOAT     (DTYPE_BIT(FLOAT32) | DTYPE_BIT(FLOAT64) | DTYPE_BIT(FLOAT16) | DTYPE_BIT(BFLOAT16))
#define DTYPES_UNSIGNED  (DTYPE_BIT(UINT8) | DTYPE_BIT(UINT16) | DTYPE_BIT(UINT32) | DTYPE_BIT(UINT64))
#define DTYPES_ALL       ((1u << DTYPE_COUNT) - 1u)

/* `case INTEGER_TYPES: ...` in a switch over enum dtype: all of a kind. Such a switch has no `default`, so that the
 * compiler names each one that a new type is missing from. */
// clang-format off
#define FLOAT_TYPES   FLOAT32: case FLOAT64: case FLOAT16: case BFLOAT16
#define INTEGER_TYPES INT8: case INT16: case INT32: case INT64: case UINT8: case UINT16: case UINT32: case UINT64
// clang-format on

const char *dtype_name(enum dtype dtype); /* "float32" */
size_t dtype_size(enum dtype dtype);      /* bytes of one element */
bool dtype_is_float(enum dtype dtype);
bool dtype_is_signed(enum dtype dtype); /* floats and int8..int64 */
double dtype_epsilon(enum dtype dtype); /* spacing at 1.0 of a float; 0 for integers */
double dtype_least(enum dtype dtype);   /* the least positive float (subnormal); 0 for integers */
double dtype_largest(enum dtype dtype); /* the largest finite float; 0 for integers */
/* Does a type have every value of another, exactly? */
bool dtype_holds(enum dtype wide, enum dtype narrow);
/* The first float type of `as`, `of` and float32 that holds all of them; float64 where none does. */
enum dtype dtype_common(enum dtype as, const enum dtype of[], int count);
/* Element `index` of an array of any type, widened; exact for all but 64-bit integers beyond 2^53. */
double dtype_load(enum dtype dtype, const void *data, int64_t index);
/* The same for integer types, as 64 bits (uint64 keeps its bit pattern). */
int64_t dtype_load_integer(enum dtype dtype, const void *data, int64_t index);
/* Stores a value rounded to nearest, ties to even; integers take the value modulo 2^bits. */
void dtype_store(enum dtype dtype, void *data, int64_t index, double value);
void dtype_store_integer(enum dtype dtype, void *data, int64_t index, int64_t value);

/* ---- operations ------------------------------------------------------------------------------------------------ */

enum op { OP_MATMUL, OP_REDUCE, OP_TRANSPOSE, OP_SCALE, OP_COUNT };

enum reduce_operator {
    REDUCE_SUM,
    REDUCE_PROD,
    REDUCE_MIN,
    REDUCE_MAX,
    REDUCE_MEAN,
    REDUCE_NORM2,
    REDUCE_ARGMIN,
    REDUCE_ARGMAX,
    REDUCE_VAR,
    REDUCE_STD,
    REDUCE_COUNT_NAN,
    REDUCE_OPERATOR_COUNT
};
#define REDUCE_BIT(operator_) (1u << (operator_))
#define REDUCE_ALL_OPERATORS  ((1u << REDUCE_OPERATOR_COUNT) - 1u)
#define KERNEL_AXES           8         /* of an array, at most */
#define REDUCE_ALL_AXES       INT32_MAX /* `axis: all`; negative axes count from the end */

/* An operation's own options, as the job file gives them. Only the members that belong to the operation have a
 * meaning. */
struct op_options {
    bool transpose_a, transpose_b;     /* matmul */
    double alpha, beta;                /* matmul (alpha), scale */
    enum reduce_operator reduce;       /* reduce */
    int axis;                          /* reduce: REDUCE_ALL_AXES or -rank .. rank-1 */
    int axis_count, axes[KERNEL_AXES]; /* reduce: several axes instead; transpose: the axes in their new order */
    double ddof;                       /* reduce: var and std divide by the number of elements less this */
    bool skip_nan;                     /* reduce: NaNs take no part */
};

/* ---- one launch ------------------------------------------------------------------------------------------------ */

/* C[b] (m x n) = alpha * A[b] (m x k) * B[b] (k x n) for each b. Where the reduction over k is split into several
 * launches, they come in order, with `first` and `last` set on the first and last. Between launches the partial sums
 * are in `partial`, in the accumulator's type (float64 for float64, else float32). For float32 and float64 `partial` is
 * C itself. */
struct matmul_args {
    int64_t batch, m, n, k;
    const void *a, *b; /* [batch or 1][m][k] ([k][m] if transpose_a);  [batch or 1][k][n] ([n][k] if transpose_b) */
    int64_t a_batch_stride,
        b_batch_stride; /* elements from one matrix to the next; 0: one matrix for the whole stack */
    bool transpose_a, transpose_b;
    double alpha;
    void *partial; /* [batch][m][n], accumulator type */
    void *c;       /* [batch][m][n] */
    bool first, last;
};

/* The intermediate result of a reduction for one output: 16 bytes, on the CPU and the GPU alike. */
struct reduce_state {
    union {
        double f;
        int64_t i;
        uint64_t u;
    } value;       /* f: float inputs and mean or norm2 of integers; i, u: integers */
    int64_t index; /* argmin, argmax: position along the reduced axis, -1: none yet; prod and norm2 of floats: the
                      exponent that keeps `f` in range; else private to a variant */
};

/* The same for what needs more (reduce_state_size()): var and std, and sums and means that skip NaNs. reduce/moments.h
 * has the arithmetic. */
struct reduce_moments {
    int64_t count; /* of the elements that are no NaN; not kept for integers */
    union {
        struct {
            double sum, lost; /* their sum is both; `lost` is private to a variant */
        } total;
        struct {
            double mean, rest; /* of floats: the mean is both */
            double squares;    /* sum of squared deviations from it */
        } spread;
        uint64_t exact[5]; /* of integers: sum (two words, signed), sum of squares (three); the lowest word first */
    } of;
};

/* x[outer][length][inner] -> y[outer][inner]: output (o, i) reduces x[o][0..length-1][i]. Where the reduction is split
 * into several launches, they come in order and `state` passes from one to the next. The operation's geometry states
 * the result types (NumPy's). */
struct reduce_args {
    enum reduce_operator operator_;
    int64_t outer, length, inner;
    int64_t offset; /* position of x[.][0][.] along the whole reduced axis */
    int64_t total;  /* length of the whole reduced axis (mean divides by it) */
    double ddof;    /* var and std divide by total - ddof */
    bool skip_nan;  /* of floats: NaNs take no part, and are not counted where that divides */
    const void *x;
    void *state; /* [outer][inner] struct reduce_state or reduce_moments; undefined before the first launch */
    void *y;     /* [outer][inner], written by the last launch */
    bool first, last;
};

/* y[b][c][r] = x[b][r][c], bit for bit; only the element's size matters. */
struct transpose_args {
    int64_t batch, rows, cols;
    const void *x;
    void *y;
};

/* y[i] = alpha * x[i] + beta. Integers compute in 64 bits, modulo 2^64, with integral alpha and beta. Floats of any
 * type take one fused multiply-add in float64, which is then rounded to the type: alpha and beta need not fit it. */
struct scale_args {
    int64_t count;
    double alpha, beta;
    const void *x;
    void *y;
};

#define KERNEL_MAX_PARAMETERS 4
#define KERNEL_MAX_EDGES      8
/* The dimensions of a launch, at most: matmul m n k; reduce outer length inner; transpose rows cols; scale count. */
#define KERNEL_DIMENSIONS 3

struct launch {
    enum op op;
    enum dtype dtype; /* of the inputs */
    union {
        struct matmul_args matmul;
        struct reduce_args reduce;
        struct transpose_args transpose;
        struct scale_args scale;
    } args;
    int choice[KERNEL_MAX_PARAMETERS]; /* per kernel parameter: the index of the chosen value */
    void *workspace;     /* the bytes that kernel->workspace asked for, 256-byte aligned; zeroed before the run's first
                            launch. What a launch needs as zero, the launch before must leave as zero */
    void *stream;        /* a cudaStream_t; NULL on the CPU */
    int multiprocessors; /* of the device; CPU: worker threads */
    bool timed;          /* many like it follow, for their times: a variant may first try a few ways of doing it, which
                            give the same bits, on its own data, and wait for them (matmul/tuned/ways.cuh) */
};

/* ---- a variant ------------------------------------------------------------------------------------------------- */

enum kernel_device { DEVICE_CPU, DEVICE_CUDA };

/* How far a result may be from the exact one. `auto` never leaves ACCURACY_FULL. */
enum accuracy {
    ACCURACY_FULL,     /* the data type's own: accumulation in at least float32 */
    ACCURACY_TF32,     /* inputs rounded to 10 bits of fraction */
    ACCURACY_FLOAT16,  /* inputs rounded to float16 */
    ACCURACY_BFLOAT16, /* inputs rounded to bfloat16 */
    ACCURACY_COUNT
};

/* A variant's parameter: a word or number from a fixed list, because a kernel is compiled for each value. */
struct kernel_parameter {
    const char *name;       /* "tile" */
    const char *values[18]; /* "32", "16", "8", NULL...: the first is the default */
    const char *help;
};

struct kernel {
    const char *name; /* as in the job file: "tiled" */
    enum op op;
    enum kernel_device device;
    const char *summary; /* one line, for `tilerun list` */
    unsigned dtypes;     /* set of DTYPE_BIT */
    unsigned operators;  /* of the operation's those that it does (reduce: set of REDUCE_BIT); 0: all */
    /* For each dimension of a launch (KERNEL_DIMENSIONS) the sizes, in elements, at whose multiples something changes:
     * a tile, a vector or a piece of k ends, or another kernel takes over. The list covers all types and parameters of
     * the variant, in any order, up to the first 0; {1} if there is no such size. Tests draw sizes at these edges, one
     * below and one above. */
    int edges[KERNEL_DIMENSIONS][KERNEL_MAX_EDGES];
    enum accuracy accuracy;
    double speed;      /* for the plan's prediction: a multiple of the data type's ordinary flops; 0 means 1 */
    bool atomic_order; /* the result's last bits depend on timing; false: the same bits every run */
    bool divisible;    /* an element of the result has the same bits, whatever others a launch computes beside it
                               (16 at least along each axis): so panels and several GPUs may divide a task */
    bool is_roof; /* a bound on the speed, not the operation: timed, but never verified, kept or chosen by `auto` */
    int compute_capability; /* the least that it needs: 80 is 8.0; 0: any, or the CPU */
    int only_below;         /* the first compute capability that can no longer run it; 0: none */
    /* Modelled global memory traffic, without caches: in words, and the bytes of a launch (which must not depend on
     * `args` pointers). NULL: not stated. */
    const char *traffic;
    double (*traffic_bytes)(const struct launch *launch);
    struct kernel_parameter parameters[KERNEL_MAX_PARAMETERS]; /* ends at the first without a name */
    /* Where `divisible` holds only among launches of like shape: a number that they share, for how sums are cut. NULL:
     * it holds among all. Must not depend on `args` pointers. */
    uint64_t (*way)(const struct launch *launch);
    /* Bytes of device memory needed beside the operands; NULL: none. Must not depend on `args` pointers, and must be
     * enough for any smaller launch of the same run (the last tiles). */
    size_t (*workspace)(const struct launch *launch);
    /* What it needs that this machine lacks, such as a library; NULL: nothing. */
    const char *(*missing)(void);
    /* The reason why this variant cannot do this launch (a shape it does not take); NULL: it can. Asked about a run's
     * largest tile before the run begins, without pointers: a kernel that takes that tile should take every smaller
     * one. */
    const char *(*refuses)(const struct launch *launch);
    /* The predicted time of this launch in seconds, beside the other variants' that state one: `auto` takes the least.
     * NULL: not stated. */
    double (*seconds)(const struct launch *launch);
    /* Starts the work on launch->stream and returns without waiting. Returns 0 or a cudaError_t. On the CPU: returns 0
     * when done. The stream may be under capture, to preload the launch (device.h). */
    int (*launch)(const struct launch *launch);
};

/* A descriptor that another file defines: `DECLARE_KERNEL(matmul_async);` where a variant hands over to it. */
#ifdef __cplusplus
#define DECLARE_KERNEL(name) extern "C" const struct kernel name
#else
#define DECLARE_KERNEL(name) extern const struct kernel name
#endif
/* Begins the definition of a descriptor: `KERNEL(matmul_naive) = {...};`. The declaration in it is for CUDA C, where a
 * `const` without one is local to its file. Each KERNEL needs a line in registry.def: without it the build fails. */
#define KERNEL(name)                                                                                                   \
    DECLARE_KERNEL(name);                                                                                              \
    const struct kernel name

/* The registry: every variant, grouped by operation, each group from the simplest to the fastest (registry.def). `auto`
 * takes the one that predicts the least time; of those that predict none, the last that can run. A CUDA variant that
 * this build did not compile has no functions, edges or traffic. For its other members registry.awk reads the .cu file,
 * so they may use only the words of this header. */
extern const struct kernel *const kernel_registry[];
extern const int kernel_count;
/* The variant of `op` called `name`; NULL: there is none. */
const struct kernel *kernel_find(enum op op, const char *name);
/* Sets `names` to those of an operation's variants, at most `most`; returns how many. */
#define KERNELS_MOST 64 /* of an operation */
int kernel_names(enum op op, const char *names[], int most);
/* Why this build has no code for the variant; NULL: it has. */
const char *kernel_left_out(const struct kernel *kernel);
/* The bytes that one launch of the kernel needs beside its operands. */
size_t kernel_workspace(const struct kernel *kernel, const struct launch *launch);
/* Have the elements that two launches share the same bits? As kernel->divisible and kernel->way say. */
bool kernel_same_bits(const struct kernel *kernel, const struct launch *one, const struct launch *other);
/* What this build or this machine lacks for it; NULL: nothing. */
const char *kernel_missing(const struct kernel *kernel);
/* The reason why it cannot do this launch here; NULL: it can. */
const char *kernel_refusal(const struct kernel *kernel, const struct launch *launch);

#ifdef __cplusplus
}
#endif
#endif
