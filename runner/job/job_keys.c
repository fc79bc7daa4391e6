/* job_keys.c - the table of keys. A new key is one row here, and a field for it. */
#include "job_keys.h"

#include "../base/text.h"
#include "../base/texts.h"

#include <float.h>
#include <string.h>

#define WORDS(...)                                                                                                     \
    (const char *const[]) {                                                                                            \
        __VA_ARGS__, NULL                                                                                              \
    }
#define FIELD(structure, member)                                                                                       \
    .offset = offsetof(structure, member), .size = sizeof(((const structure *)NULL)->member)
#define JOB(member)    FIELD(struct job, member)
#define INPUT(member)  FIELD(struct job_input, member)
#define OPTION(member) FIELD(struct op_options, member)
#define RUN(member)    FIELD(struct run_options, member)
#define ANY_REAL       .low = -DBL_MAX, .high = DBL_MAX
#define ANY_COUNT      .low = 0, .high = 1e9

#define MATMUL  WORDS("matmul")
#define REDUCE  WORDS("reduce")
#define SCALES  WORDS("matmul", "scale")
#define MAP     WORDS("map")
#define BOUNDED WORDS("uniform", "integer")
#define FILES   WORDS("file")

/* clang-format off */
const struct job_key job_keys[] = {
    {SCOPE_JOB, "version", KEY_CUSTOM, NULL, .words = WORDS("1"), .help = "Version of this format."},
    {SCOPE_JOB, "name", KEY_TEXT, "", JOB(name),
        .help = "Name of the job, of letters, digits, `.`, `_`, `-`. Default: the file's stem."},
    {SCOPE_JOB, "description", KEY_TEXT, "", JOB(description), .help = "What the job is for, in words."},
    {SCOPE_JOB, "output", KEY_TEXT, "", JOB(output),
        .help = "The results file. Default: NAME.h5 in the current directory."},
    {SCOPE_JOB, "device", KEY_DEVICE, "auto",
        .help = "`auto`, `cpu`, `cuda`, `cuda:N`, `cuda:all`, or a list of `cuda:N`. `auto` is the first GPU, else "
                "the CPU; `cuda` requires a GPU. Several GPUs share each run: same bits, less time."},
    {SCOPE_JOB, "memory", KEY_MEMORY, "90%",
        .help = "Device memory that runs may use: bytes, `8GiB`, `500MB`, or a share of the free memory. At least "
                "64KiB."},
    {SCOPE_JOB, "sync", KEY_BOOL, "true", JOB(sync),
        .help = "fsync the finished results file before renaming it to its final name."},
    {SCOPE_JOB, "external", KEY_WORD, "same-folder", .words = WORDS("same-folder", "allow", "deny"), JOB(external),
        .harmless = true,
        .help = "Which other files an input's file may refer to by external links, virtual data sets and external "
                "storage: those in its folder, any, or none."},
    {SCOPE_JOB, "include", KEY_CUSTOM, "",
        .help = "A file, or a list of files, whose maps are merged into this one. The including file wins; of several "
                "included files, the later one."},
    {SCOPE_JOB, "environment", KEY_CUSTOM, "",
        .help = "Environment variables that are recorded in `/environment`: names and patterns, `[OMP_NUM_THREADS, "
                "\"NCCL_*\"]`. Variables in `${env:NAME}` are recorded too."},
    {SCOPE_JOB, "tags", KEY_CUSTOM, "", .help = "Attributes of the results file: names and values."},
    {SCOPE_JOB, "notes", KEY_TEXT, "", JOB(notes), .help = "Text for the results file's attribute `notes`."},
    {SCOPE_JOB, "parameters", KEY_CUSTOM, "",
        .help = "Values for `$name`. A list is swept, and so is a range, `{from, to, step}` or `{from, to, times}`; an "
                "expression of other parameters is derived from them."},
    {SCOPE_JOB, "zip", KEY_CUSTOM, "",
        .help = "Lists of names of swept parameters that advance together, `[[rows, cols]]`."},
    {SCOPE_JOB, "where", KEY_CUSTOM, "",
        .help = "An expression of parameters, or a list of them: combinations for which one is false are not run."},
    {SCOPE_JOB, "inputs", KEY_CUSTOM, "", .help = "Arrays that operations read, by name."},
    {SCOPE_JOB, "defaults", KEY_CUSTOM, "", .help = "Run options for operations that do not give their own."},
    {SCOPE_JOB, "operations", KEY_CUSTOM, NULL, .help = "What to compute, in order."},

    {SCOPE_INPUT, "file", KEY_TEXT, "", INPUT(file_as_written),
        .help = "An HDF5 file, relative to the job file. A pattern with `*`, `?` or `[...]` sweeps over all matches."},
    {SCOPE_INPUT, "dataset", KEY_TEXT, NULL, .applies_to = FILES, INPUT(dataset), .help = "The data set in it."},
    {SCOPE_INPUT, "field", KEY_TEXT, "", .applies_to = FILES, INPUT(field),
        .help = "Read this numeric field of a table (`a/b`: of a nested table), or `r` or `i` of complex numbers."},
    {SCOPE_INPUT, "concatenate", KEY_INTEGER, "", .applies_to = FILES, .low = 0, .high = MAX_RANK - 1,
        INPUT(concatenate),
        .help = "Concatenate all files that match the pattern along this axis into one array."},
    {SCOPE_INPUT, "rows", KEY_ROWS, "", .applies_to = FILES, INPUT(rows),
        .help = "`[first, count]`: read only these indices of the first axis."},
    {SCOPE_INPUT, "select", KEY_SELECT, "", .applies_to = FILES, INPUT(select),
        .help = "The elements to take along each axis, as in Python: `\":\"`, `\"0:100\"`, `\"::2\"`; an index drops "
                "its axis."},
    {SCOPE_INPUT, "dtype", KEY_DTYPE, "", .applies_to = FILES, INPUT(as),
        .help = "Convert elements to this type, as NumPy's `astype`. Default: the data set's."},
    {SCOPE_INPUT, "decode", KEY_WORD, "auto", .applies_to = FILES, .words = WORDS("auto", "none"),
        INPUT(stored_numbers),
        .help = "`auto` applies `scale_factor`, `add_offset`, `_FillValue`, `missing_value`, `valid_min`, `valid_max`, "
                "`valid_range` and `_Unsigned`, as xarray and netCDF4 do; `none` takes the stored numbers."},
    {SCOPE_INPUT, "missing", KEY_NUMBERS, "", .applies_to = FILES, INPUT(missing),
        .help = "Stored numbers that mean \"no value\" and are read as NaN; up to 16."},
    {SCOPE_INPUT, "sources", KEY_WORD, "all", .words = WORDS("all", "fill"), .applies_to = FILES, INPUT(fill),
        .help = "Sources of a virtual data set: `all` must exist, or `fill`: missing ones are read as fill values."},
    {SCOPE_INPUT, "random", KEY_CUSTOM, "", .help = "Generate the array instead of reading it."},

    {SCOPE_RANDOM, "shape", KEY_SHAPE, NULL, .low = 0, INPUT(shape), .help = "Sizes of 1 to 8 axes."},
    {SCOPE_RANDOM, "dtype", KEY_DTYPE, "float32", INPUT(dtype), .help = "Data type."},
    {SCOPE_RANDOM, "distribution", KEY_WORD, "uniform", INPUT(terms.distribution),
        .words = WORDS("uniform", "normal", "integer", "constant", "index"),
        .help = "How values are drawn."},
    {SCOPE_RANDOM, "low", KEY_REAL, "0", .applies_to = BOUNDED, ANY_REAL, INPUT(terms.low), .help = "Least value."},
    {SCOPE_RANDOM, "high", KEY_REAL, "1", .applies_to = BOUNDED, ANY_REAL, INPUT(terms.high),
        .help = "Upper bound: exclusive for `uniform` (so give it for integer types), inclusive for `integer`."},
    {SCOPE_RANDOM, "mean", KEY_REAL, "0", .applies_to = WORDS("normal"), ANY_REAL, INPUT(terms.mean), .help = "Mean."},
    {SCOPE_RANDOM, "std", KEY_REAL, "1", .applies_to = WORDS("normal"), .low = 0, .high = DBL_MAX, INPUT(terms.std),
        .help = "Standard deviation."},
    {SCOPE_RANDOM, "value", KEY_REAL, NULL, .applies_to = WORDS("constant"), ANY_REAL, INPUT(terms.value),
        .help = "The value of every element."},
    {SCOPE_RANDOM, "seed", KEY_INTEGER, "0", .low = 0, .high = 0x1p63, INPUT(terms.seed),
        .help = "Different seeds give different values."},

    {SCOPE_OPERATION, "id", KEY_TEXT, NULL, FIELD(struct job_operation, id),
        .help = "Name, unique among inputs and operations: a letter or `_`, then letters, digits, `_`, `-`."},
    {SCOPE_OPERATION, "op", KEY_OP, NULL, FIELD(struct job_operation, op), .help = "The operation."},
    {SCOPE_OPERATION, "inputs", KEY_CUSTOM, NULL,
        .help = "Names of inputs or of earlier operations: two for matmul, up to 8 for map and for reduce with `map`, "
                "else one."},
    {SCOPE_OPERATION, "variants", KEY_CUSTOM, "[auto]",
        .help = "Kernel variants to run: names, or maps of `name` and the variant's own parameters (a list is "
                "swept; `where` is an expression that chooses among their values; `search` finds the fastest). A map "
                "with `source` is a kernel in a .c or .cu file (kernels/README.md). The first that verifies gives the "
                "result."},
    {SCOPE_RESULT, "dtype", KEY_DTYPE, "", FIELD(struct job_operation, as),
        .help = "The result's type. If it is wider than the operation's own type, the operation computes in it, as "
                "NumPy's functions do with `dtype`; otherwise, and always for an expression, the result is "
                "converted, as by `astype`. Default: as computed."},
    {SCOPE_RESULT, "to", KEY_TO, "",
        .help = "`FILE:/GROUP/NAME`: store the result there, in a file of its own, relative to the job file; the "
                "results file shows it too. For a swept operation it must contain a parameter."},

    {SCOPE_OPTION, "transpose_a", KEY_BOOL, "false", .applies_to = MATMUL, OPTION(transpose_a),
        .help = "Read the first input transposed."},
    {SCOPE_OPTION, "transpose_b", KEY_BOOL, "false", .applies_to = MATMUL, OPTION(transpose_b),
        .help = "Read the second input transposed."},
    {SCOPE_OPTION, "operator", KEY_OPERATOR, NULL, .applies_to = REDUCE, OPTION(reduce),
        .help = "What to reduce with."},
    {SCOPE_OPTION, "axis", KEY_AXIS, NULL, .applies_to = REDUCE, OPTION(axis),
        .help = "The axis that disappears, negative from the end; several, `[0, 2]`; or `all`."},
    {SCOPE_OPTION, "ddof", KEY_REAL, "0", .applies_to = REDUCE, .low = 0, .high = DBL_MAX, OPTION(ddof),
        .help = "`var` and `std` divide by the number of elements minus this; NaN where that leaves none."},
    {SCOPE_OPTION, "skip_nan", KEY_BOOL, "false", .applies_to = REDUCE, OPTION(skip_nan),
        .help = "Ignore NaNs, as NumPy's `nansum`, `nanmean`, ... do; `argmin` and `argmax` of NaNs alone give -1."},
    {SCOPE_OPTION, "keepdims", KEY_BOOL, "false", .applies_to = REDUCE, OPTION(keepdims),
        .help = "Keep the reduced axes, with size 1, so that a map can broadcast the result over its input."},
    {SCOPE_OPTION, "axes", KEY_AXES, "", .applies_to = WORDS("transpose"), OPTION(axes),
        .help = "The input's axes in their new order, as in NumPy. Default: swap the last two."},
    {SCOPE_OPTION, "map", KEY_EXPRESSION, "", .applies_to = REDUCE, OPTION(map),
        .help = "Reduce the values of this expression of up to 8 inputs, `abs(A - B)`, without storing them."},
    {SCOPE_OPTION, "alpha", KEY_REAL, "1", .applies_to = SCALES, ANY_REAL, OPTION(alpha),
        .help = "Factor of the result."},
    {SCOPE_OPTION, "beta", KEY_REAL, "0", .applies_to = WORDS("scale"), ANY_REAL, OPTION(beta),
        .help = "Addend: alpha * x + beta."},
    {SCOPE_OPTION, "expression", KEY_EXPRESSION, NULL, .applies_to = MAP, OPTION(map),
        .help = "What each element becomes: `(raw - dark) / gain`, of the inputs' names, parameters, the indices `i0`, "
                "`i1`, ..., Python's operators and NumPy's functions, with NumPy's types and broadcasting."},

    {SCOPE_RUN, "warmup", KEY_INTEGER, "3", ANY_COUNT, RUN(warmup), 
     .help = "Minimum number of untimed launches before the samples; short kernels warm up until times are steady. 0: "
             "none."},
    {SCOPE_RUN, "repeat", KEY_REPEAT, "20", .help = "Timed launches: a number, or `{min, max, until}`."},
    {SCOPE_RUN, "threads", KEY_CUSTOM, "",
        .help = "Threads of CPU variants, a number or a list of them, which is swept: `[1, 2, 4]`. Default: all that "
                "the process may use."},
    {SCOPE_RUN, "cache", KEY_WORD, "warm", .words = WORDS("warm", "cold"), RUN(cold),
        .help = "`cold` evicts the device's cache before each repeat."},
    {SCOPE_RUN, "verify", KEY_WORD, "auto", .words = WORDS("auto", "full", "sampled", "none"), RUN(verify),
        .help = "How much of a result is checked; `auto`: all of it where that is cheap."},
    {SCOPE_RUN, "tolerance", KEY_REAL, "", .low = 0, .high = DBL_MAX, RUN(tolerance),
        .help = "Largest relative error of a correct result. Default: derived from data type, accuracy class and "
                "length of the sums."},
    {SCOPE_RUN, "store", KEY_WORD, "first", .words = WORDS("first", "all", "none"), RUN(store),
        .help = "Which outputs to store: the operation's result (`first`), every variant's, or none."},
    {SCOPE_RUN, "on_error", KEY_WORD, "continue", .words = WORDS("continue", "stop"), RUN(stop_on_error),
        .harmless = true,
        .help = "What to do after a failed or wrong run."},
    {SCOPE_RUN, "timeout", KEY_DURATION, "none", RUN(timeout_s), .harmless = true,
        .help = "Longest time of a run, with its verification and its repeats: `90s`, `10min`, `1.5h`; or `none`. A "
                "run that takes longer gets the status `timeout`, and the others go on."},
    {SCOPE_RUN, "retries", KEY_INTEGER, "0", .low = 0, .high = 100, RUN(retries), .harmless = true,
        .help = "How often a run is repeated after its device, or a read or write of a file, has failed; a wrong "
                "result is final."},
    {SCOPE_RUN, "keep_tiles", KEY_WORD, "auto", .words = WORDS("auto", "always", "never"), RUN(keep_tiles),
        .harmless = true,
        .help = "Checkpoint the operation panel by panel, so that a signal or a crash loses no finished panel. `auto`: "
                "if it takes long and checkpoints cost less than 2 %."},
    {SCOPE_RUN, "chunks", KEY_SHAPE, "", .low = 1, RUN(chunks),
        .help = "Chunk shape of the stored output. Default: about 1 MiB."},
    {SCOPE_RUN, "compression", KEY_WORD, "none", .words = WORDS("none", "gzip", "lzf", "zstd"), RUN(compression),
        .help = "Compression of the stored output. h5py reads `lzf` natively, `zstd` with hdf5plugin."},
    {SCOPE_RUN, "level", KEY_INTEGER, "4", .low = 0, .high = 9, RUN(level),
        .help = "Compression level of gzip and zstd."},
    {SCOPE_RUN, "shuffle", KEY_BOOL, "false", RUN(shuffle), .help = "Sort bytes by significance before compression."},
    {SCOPE_RUN, "checksum", KEY_WORD, "fletcher32", .words = WORDS("none", "fletcher32"), RUN(fletcher32),
        .help = "Checksum of the stored output's chunks."},

    {SCOPE_REPEAT, "min", KEY_INTEGER, "10", .low = 1, .high = 1e9, RUN(repeat_min), .help = "Fewest repeats."},
    {SCOPE_REPEAT, "max", KEY_INTEGER, "500", .low = 1, .high = 1e9, RUN(repeat_max), .help = "Most repeats."},
    {SCOPE_REPEAT, "until", KEY_FRACTION, "1%", RUN(repeat_until),
        .help = "Stop when half the width of the median's 95 % interval is within this share of the median, but not "
                "before 0.2 s of samples."},

    {SCOPE_SEARCH, "budget", KEY_DURATION, NULL, FIELD(struct job_search, budget_s),
        .help = "How long combinations are tried, compiled and verified; the fastest is then timed in full."},
    {SCOPE_SEARCH, "seed", KEY_INTEGER, "0", .low = 0, .high = 0x1p53, FIELD(struct job_search, seed),
        .help = "Another seed tries them in another order."},
};
/* clang-format on */
const int job_key_count = sizeof job_keys / sizeof *job_keys;

const char *const key_type_name[KEY_TYPE_COUNT] = {
    [KEY_CUSTOM] = "a list or map",
    [KEY_BOOL] = "true or false",
    [KEY_INTEGER] = "an integer",
    [KEY_REAL] = "a number",
    [KEY_TEXT] = "text",
    [KEY_WORD] = "a word",
    [KEY_OP] = "an operation",
    [KEY_OPERATOR] = "an operator",
    [KEY_DTYPE] = "a data type",
    [KEY_SHAPE] = "a list of 1 to 8 integers",
    [KEY_ROWS] = "a list [first, count]",
    [KEY_SELECT] = "a list of indices and slices",
    [KEY_AXIS] = "an integer, a list of them or 'all'",
    [KEY_AXES] = "a list of integers",
    [KEY_NUMBERS] = "a number or a list of them",
    [KEY_FRACTION] = "a number or a percentage",
    [KEY_DURATION] = "a duration or none",
    [KEY_REPEAT] = "an integer or a map {min, max, until}",
    [KEY_DEVICE] = "a device or a list of devices",
    [KEY_MEMORY] = "a size",
    [KEY_EXPRESSION] = "an expression",
    [KEY_TO] = "FILE:/GROUP/NAME",
};

bool key_applies(const struct job_key *key, const char *kind) {
    if (!key->applies_to || !kind) return true;
    for (int i = 0; key->applies_to[i]; i++)
        if (strcmp(key->applies_to[i], kind) == 0) return true;
    return false;
}

int key_words(const struct job_key *key, const char *words[KEY_MAX_WORDS]) {
    int count = 0;
    switch (key->type) {
    case KEY_CUSTOM:
    case KEY_WORD:
        while (key->words && key->words[count]) words[count] = key->words[count], count++;
        return count;
    case KEY_OP:
        for (; count < OP_COUNT; count++) words[count] = operations[count]->name;
        return count;
    case KEY_OPERATOR:
        for (const char *const *names = operation_find(key->applies_to[0])->operators; names[count]; count++)
            words[count] = names[count];
        return count;
    case KEY_DTYPE:
        for (; count < DTYPE_COUNT; count++) words[count] = dtype_name(count);
        return count;
    default: return count;
    }
}

const struct job_key *key_find(enum key_scope scope, const char *name) {
    const struct job_key *key = job_keys;
    while (key->scope != scope || strcmp(key->name, name) != 0) key++;
    return key;
}

bool key_allows(const struct job_key *key, const char *word) {
    const char *words[KEY_MAX_WORDS];
    return text_is_one_of(word, words, (size_t)key_words(key, words));
}
