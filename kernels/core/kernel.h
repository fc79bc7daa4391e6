/* kernel.h - defines the contract between the runner and the kernels; the only header that .c and .cu files share.
 *
 * An operation (op.c in its folder) defines shapes, work and truth. A kernel variant (one file each) only computes: it
 * is a `struct kernel` whose `launch` does one tile, described by a `struct launch`. The runner never looks inside a
 * launch; a kernel never sees a file, a name or a clock.
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

/* `case INTEGER_TYPES: ...` in a switch over enum dtype covers all integer types. A switch over enum dtype has no
 * `default`, so that the compiler names each switch that lacks a new type. */
// clang-format off
#define FLOAT_TYPES   FLOAT32: case FLOAT64: case FLOAT16: case BFLOAT16
#define INTEGER_TYPES INT8: case INT16: case INT32: case INT64: case UINT8: case UINT16: case UINT32: case UINT64
// clang-format on

const char *dtype_name(enum dtype dtype); /* "float32" */
size_t dtype_size(enum dtype dtype);      /* bytes of one element */
bool dtype_is_float(enum dtype dtype);
bool dtype_is_signed(enum dtype dtype);  /* floats and int8..int64 */
double dtype_epsilon(enum dtype dtype);  /* a float's spacing at 1.0; 0 for integers */
double dtype_smallest(enum dtype dtype); /* the smallest positive float (subnormal); 0 for integers */
double dtype_largest(enum dtype dtype);  /* the largest finite float; 0 for integers */
/* Does type `wide` represent every value of type `narrow` exactly? */
bool dtype_holds(enum dtype wide, enum dtype narrow);
/* The first float type among `as`, `others` and float32 that holds `as` and all others; float64 if none does. */
enum dtype dtype_common(enum dtype as, const enum dtype others[], int count);
/* Converts element `index` of an array of any type to float64; exact except for 64-bit integers beyond 2^53. */
double dtype_load(enum dtype dtype, const void *data, int64_t index);
/* Widens an element of an integer type to 64 bits (uint64 keeps its bit pattern). */
int64_t dtype_load_integer(enum dtype dtype, const void *data, int64_t index);
/* Stores a value rounded to nearest, ties to even; integer types get the value modulo 2^bits. */
void dtype_store(enum dtype dtype, void *data, int64_t index, double value);
/* Stores the low bits of a value; for integer types only. */
void dtype_store_integer(enum dtype dtype, void *data, int64_t index, int64_t value);

/* ---- operations ------------------------------------------------------------------------------------------------ */

enum op { OP_MATMUL, OP_REDUCE, OP_TRANSPOSE, OP_SCALE, OP_MAP, OP_COUNT };

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
#define KERNEL_AXES           8         /* the largest number of axes of an array */
#define KERNEL_INPUTS         8         /* the largest number of inputs of an operation */
#define REDUCE_ALL_AXES       INT32_MAX /* `axis: all`; negative axes count from the end */

/* The options of all operations, as the job file gives them. Only the members for the operation at hand have a
 * meaning. */
struct op_options {
    bool transpose_a, transpose_b;     /* matmul */
    double alpha, beta;                /* matmul (alpha), scale */
    enum reduce_operator reduce;       /* reduce */
    int axis;                          /* reduce: REDUCE_ALL_AXES or -rank .. rank-1 */
    int axis_count, axes[KERNEL_AXES]; /* reduce: several axes instead; transpose: the axes in their new order */
    double ddof;                       /* reduce: var and std divide by the number of elements minus ddof */
    bool skip_nan;                     /* reduce: NaNs are ignored */
    bool keepdims;                     /* reduce: the reduced axes stay, with size 1 */
    struct map *map;                   /* map (map.h): the job owns it */
};

/* ---- one launch ------------------------------------------------------------------------------------------------ */

/* C[b] (m x n) = alpha * A[b] (m x k) * B[b] (k x n) for each b. If the sum over k is split, several launches run in
 * order, with `first` set on the first one and `last` on the last one. Between launches the partial sums are in
 * `partial`, in the accumulator's type (float64 for float64, else float32). For float32 and float64 `partial` is C
 * itself. */
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

/* The intermediate result of a reduction for one output: 16 bytes, the same on the CPU and the GPU. */
struct reduce_state {
    union {
        double f;
        int64_t i;
        uint64_t u;
    } value;       /* f: float inputs and mean or norm2 of integers; i, u: integers */
    int64_t index; /* argmin, argmax: position along the reduced axis, -1: none yet; prod and norm2 of floats: an
                      exponent that keeps `f` in range; other operators: variants use it in their own ways */
};

/* The larger intermediate result of var and std, and of sums and means that skip NaNs (reduce_state_size() chooses).
 * reduce/moments.h has the arithmetic. */
struct reduce_moments {
    int64_t count; /* number of elements that are not NaN; unused for integers */
    union {
        struct {
            double sum, lost; /* the sum is sum + lost; variants use `lost` in their own ways */
        } total;
        struct {
            double mean, rest; /* floats: the mean is mean + rest */
            double squares;    /* sum of squared deviations from the mean */
        } spread;
        uint64_t exact[5]; /* integers: sum (two words, signed), sum of squares (three); the lowest word first */
    };
};

/* x[outer][length][inner] -> y[outer][inner]: output (o, i) reduces x[o][0..length-1][i]. If the reduction is split,
 * several launches run in order and pass `state` from one to the next. The operation's geometry states the result types
 * (NumPy's). */
struct reduce_args {
    enum reduce_operator operator_;
    int64_t outer, length, inner;
    int64_t offset; /* position of x[.][0][.] along the whole reduced axis */
    int64_t total;  /* length of the whole reduced axis; mean divides by it */
    double ddof;    /* var and std divide by total - ddof */
    bool skip_nan;  /* floats: NaNs are ignored, and the divisor counts only the other elements */
    const void *x;
    void *state; /* [outer][inner] struct reduce_state or reduce_moments; undefined before the first launch */
    void *y;     /* [outer][inner], written by the last launch */
    bool first, last;
};

/* y[b][c][r] = x[b][r][c], bit for bit. Only the size of the type matters. */
struct transpose_args {
    int64_t batch, rows, cols;
    const void *x;
    void *y;
};

/* y[i] = alpha * x[i] + beta. Integers are computed in 64 bits, modulo 2^64, with integral alpha and beta. Floats of
 * any type are computed by one fused multiply-add in float64, which is then rounded to the type, so alpha and beta need
 * not fit the type. */
struct scale_args {
    int64_t count;
    double alpha, beta;
    const void *x;
    void *y;
};

/* The index of an element along an axis of the result: first + (start[loop] + position along the loop in the tile) /
 * inner modulo size. */
struct map_axis {
    int loop; /* 0, 1, 2: index into `extent` and `start` of struct map_args */
    int64_t inner, size, first;
};

/* y[i0][i1][i2] = map(x0[...], x1[...], ...). An input is packed and has the loops that its mask in `loops` names (bit
 * 0: i0), in this order; along the other loops its elements are repeated. */
struct map_args {
    const struct map *map;
    int64_t extent[3], start[3]; /* the tile's */
    enum dtype dtypes[KERNEL_INPUTS];
    unsigned loops[KERNEL_INPUTS];
    const void *x[KERNEL_INPUTS];
    enum dtype out; /* the result's type; uint8 for truth values */
    void *y;
    struct map_axis axes[KERNEL_AXES];
};

#define KERNEL_MAX_PARAMETERS 4
#define KERNEL_MAX_EDGES      8
/* The largest number of dimensions of a launch: matmul m n k; reduce outer length inner; transpose rows cols; scale and
 * map count. */
#define KERNEL_DIMENSIONS 3

struct launch {
    const struct kernel *kernel; /* the variant that is launched; one that was compiled at run time reads its `own` */
    enum op op;
    enum dtype dtype; /* the inputs' type */
    union {
        struct matmul_args matmul;
        struct reduce_args reduce;
        struct transpose_args transpose;
        struct scale_args scale;
        struct map_args map;
    } args;
    struct map_args before; /* a map whose values are the operation's input (map/before.h); before.map NULL: none */
    int choice[KERNEL_MAX_PARAMETERS]; /* choice[parameter]: the index of the chosen value */
    void *workspace;     /* as many bytes as kernel->workspace returned, 256-byte aligned; zeroed before the run's first
                            launch. A launch must restore the zeros that the next one needs */
    void *stream;        /* a cudaStream_t; NULL on the CPU */
    int multiprocessors; /* number in the device; CPU: worker threads */
    bool timed;          /* many similar launches follow and are timed. So the variant may first try several ways
                            that give the same bits, on its own data, and wait for them (matmul/tuned/ways.cuh) */
    const uint32_t *wanted; /* in device memory: if *wanted is 0 when the launch begins, the launch need not compute.
                               NULL: it must. Only matmul/tuned/dmma.cu reads it */
};

/* ---- a variant ------------------------------------------------------------------------------------------------- */

enum kernel_device { DEVICE_CPU, DEVICE_CUDA };

/* The precision of a variant's arithmetic, which bounds a result's error. `auto` takes ACCURACY_FULL only. */
enum accuracy {
    ACCURACY_FULL,     /* the accuracy of the data type: accumulation in at least float32 */
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
    const char *name; /* the name in the job file: "tiled" */
    enum op op;
    enum kernel_device device;
    const char *summary; /* one line, for `tilerun list` */
    unsigned dtypes;     /* the types of inputs that it takes: a set of DTYPE_BIT */
    unsigned operators;  /* the operators that it implements (reduce: set of REDUCE_BIT); 0: all */
    /* For each dimension of a launch (KERNEL_DIMENSIONS) the sizes, in elements, at whose multiples the code behaves
     * differently: a tile, a vector or a slice of k ends, or another kernel is used. The list covers all types and
     * parameters of the variant, in any order, up to the first 0; {1} if there is no such size. Tests draw sizes at
     * these edges, one below and one above. */
    int edges[KERNEL_DIMENSIONS][KERNEL_MAX_EDGES];
    enum accuracy accuracy;
    double speed;      /* a multiple of the data type's ordinary flops, for the plan's prediction; 0 means 1 */
    bool atomic_order; /* the result's last bits depend on timing; false: the same bits every run */
    bool near_roof;    /* its launches take about as long as the device's measured roofs allow, so that `plan` predicts
                          their time from the roofs */
    double roof_share; /* the share of the memory's roof that its launches reach; 0 means all */
    bool divisible;    /* an element of the result has the same bits, whatever else the launch computes (at least 16
                               elements along each axis). So panels and several GPUs may divide a task */
    bool fuses;        /* computes the map before the operation itself (launch->before), as its only input */
    bool is_roof; /* measures a bound on the speed instead of computing: timed, but never verified, kept or `auto` */
    int compute_capability; /* the lowest compute capability that can run it, 80 for 8.0; 0: any, or the CPU */
    int only_below;         /* the lowest compute capability that can no longer run it; 0: every higher one can */
    /* The global memory traffic of a model without caches: a description, and the bytes of a launch (which must not
     * depend on `args` pointers). NULL: not stated. */
    const char *traffic;
    double (*traffic_bytes)(const struct launch *launch);
    struct kernel_parameter parameters[KERNEL_MAX_PARAMETERS]; /* ends at the first without a name */
    /* For variants whose launches give the same bits (`divisible`) only if they split their sums in the same way:
     * returns a number that identifies the way of a launch. NULL: `divisible` holds among all launches. Must not depend
     * on `args` pointers. */
    uint64_t (*way)(const struct launch *launch);
    /* Bytes of device memory that a launch needs besides its operands; NULL: none. Must not depend on `args` pointers,
     * and must suffice for any smaller launch of the same run (the last tiles). */
    size_t (*workspace)(const struct launch *launch);
    /* Names something that the variant needs and this machine lacks, such as a library; NULL: nothing. */
    const char *(*missing)(void);
    /* The third-party library that a baseline calls: its name, version, threads and file. NULL, as member or as
     * result: there is none, or it is not open yet. */
    const char *(*library)(void);
    /* The reason why this variant cannot do this launch, such as its shape; NULL: it can. Called before a run with the
     * run's largest tile, without pointers. A kernel that accepts this tile should accept every smaller one. */
    const char *(*refuses)(const struct launch *launch);
    /* The predicted time of this launch in seconds; no dimension is 0. `auto` takes the variant that predicts the
     * shortest time. NULL: not stated. */
    double (*seconds)(const struct launch *launch);
    /* Starts the work on launch->stream and returns without waiting. Returns 0 or a cudaError_t. On the CPU: returns 0
     * when done. The stream may be under capture, to preload the launch (device.h). */
    int (*launch)(const struct launch *launch);
    const void *user_kernel; /* struct user_kernel, if the job supplies the kernel (`source:`); else NULL */
};

/* Declares a descriptor that another file defines, for a variant that calls it: `DECLARE_KERNEL(matmul_async);`. */
#ifdef __cplusplus
#define DECLARE_KERNEL(name) extern "C" const struct kernel name
#else
#define DECLARE_KERNEL(name) extern const struct kernel name
#endif
/* Begins the definition of a descriptor: `KERNEL(matmul_naive) = {...};`. It also declares the descriptor, because in
 * CUDA C an undeclared `const` is local to its file. Each KERNEL needs a line in registry.def, or the build fails. */
#define KERNEL(name)                                                                                                   \
    DECLARE_KERNEL(name);                                                                                              \
    const struct kernel name

/* The registry: every variant, grouped by operation, each group from the simplest to the fastest (registry.def). `auto`
 * takes the variant that predicts the shortest time; if none predicts a time, the last one that can run. A CUDA variant
 * that this build did not compile has no functions, edges or traffic. registry.awk copies its other members from the
 * .cu file, so they may use only the names of this header. */
extern const struct kernel *const kernel_registry[];
extern const int kernel_count;
/* Finds the variant of `op` called `name`; NULL: there is none. */
const struct kernel *kernel_find(enum op op, const char *name);
/* Sets `names` to the names of an operation's variants, at most `max_count`. Returns their number. */
#define MAX_KERNELS 64 /* variants of an operation */
int kernel_names(enum op op, const char *names[], int max_count);
/* The reason why this build has no code for the variant; NULL: it has the code. */
const char *kernel_left_out(const struct kernel *kernel);
/* Returns the bytes of device memory that a launch of the variant needs besides its operands. */
size_t kernel_workspace(const struct kernel *kernel, const struct launch *launch);
/* Do two launches give the same bits to the elements that both compute? Decides by kernel->divisible and
 * kernel->way. */
bool kernel_same_bits(const struct kernel *kernel, const struct launch *one, const struct launch *other);
/* Names something that this build or this machine lacks for the variant; NULL: nothing. */
const char *kernel_missing(const struct kernel *kernel);
/* The reason why the variant cannot do this launch on this machine; NULL: it can. */
const char *kernel_refusal(const struct kernel *kernel, const struct launch *launch);

#ifdef __cplusplus
}
#endif
#endif
