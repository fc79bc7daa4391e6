/* cuda_text.c - writes a map's program as CUDA C: one statement per step, after loads of 16 bytes. */
#include "cuda_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Functions that CUDA lacks, and the arguments of struct map_kernel_args. Floats are never contracted (--fmad is
 * false), so that a GPU's results have the CPU's bits. */
static const char prelude[] =
    "#ifndef INFINITY\n"
    "#define INFINITY __int_as_float(0x7f800000)\n"
    "#endif\n"
    "struct arguments {\n"
    "    long long count, extent[3], start[3], stride[8][3];\n"
    "    const void *x[8];\n"
    "    void *y;\n"
    "    long long inner[8], size[8], first[8];\n"
    "    int aligned, zero;\n"
    "};\n"
    "__device__ inline int unknown_zero(const arguments &a) {\n" /* not even two calls are known to be equal */
    "    int zero;\n"
    "    asm volatile(\"mov.b32 %0, %1;\" : \"=r\"(zero) : \"r\"(a.zero));\n"
    "    return zero;\n"
    "}\n"
    "template <typename T, int N> struct __align__(sizeof(T) * N) vector { T of[N]; };\n"
    "__device__ inline float float16(unsigned short bits) {\n"
    "    float value;\n"
    "    asm(\"{.reg .b16 h; mov.b16 h, %1; cvt.f32.f16 %0, h;}\" : \"=f\"(value) : \"h\"(bits));\n"
    "    return value;\n"
    "}\n"
    "__device__ inline unsigned short float16_bits(float value) {\n"
    "    unsigned short bits;\n"
    "    asm(\"{.reg .b16 h; cvt.rn.f16.f32 h, %1; mov.b16 %0, h;}\" : \"=h\"(bits) : \"f\"(value));\n"
    "    return bits;\n"
    "}\n"
    "__device__ inline float bfloat16(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }\n"
    "__device__ inline unsigned short bfloat16_bits(float value) {\n"
    "    unsigned bits = __float_as_uint(value), rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;\n"
    "    return (bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : rounded;\n"
    "}\n"
    "__device__ inline float odd(double value) {\n" /* rounds to odd, as double_to_odd_float (float16.h) */
    "    float near = __double2float_rn(value);\n"
    "    unsigned bits = __float_as_uint(near), zero = bits - (fabs((double)near) > fabs(value));\n"
    "    return __uint_as_float((double)near < value || (double)near > value ? zero | 1u : bits);\n"
    "}\n"
    "__device__ inline long long whole(double value) {\n"
    "    if (value >= -9223372036854775808.0 && value < 9223372036854775808.0) return (long long)value;\n"
    "    if (!(fabs(value) < INFINITY)) return 0;\n"
    "    double rest = fmod(trunc(value), 18446744073709551616.0);\n"
    "    return (long long)(unsigned long long)(rest < 0 ? rest + 18446744073709551616.0 : rest);\n"
    "}\n"
    "__device__ inline float modulo(float a, float b) { return fmodf(a, b); }\n"
    "__device__ inline double modulo(double a, double b) { return fmod(a, b); }\n"
    "__device__ inline float with_sign(float a, float b) { return copysignf(a, b); }\n"
    "__device__ inline double with_sign(double a, double b) { return copysign(a, b); }\n"
    "__device__ inline float lower(float a) { return floorf(a); }\n"
    "__device__ inline double lower(double a) { return floor(a); }\n"
    "template <typename T> __device__ inline T real_remainder(T a, T b) {\n"
    "    T rest = modulo(a, b);\n"
    "    if (b == 0) return rest;\n"
    "    if (rest == 0) return with_sign(T(0), b);\n"
    "    return (b < 0) != (rest < 0) ? rest + b : rest;\n"
    "}\n"
    "template <typename T> __device__ inline T real_floor_divide(T a, T b) {\n"
    "    if (b == 0) return a / b;\n"
    "    T rest = modulo(a, b), quotient = (a - rest) / b;\n"
    "    if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;\n"
    "    if (quotient == 0) return with_sign(T(0), a / b);\n"
    "    T down = lower(quotient);\n"
    "    return quotient - down > T(0.5) ? down + 1 : down;\n"
    "}\n"
    "template <typename T> __device__ inline T floor_divide(T a, T b, int zero) {\n"
    "    if (b == 0) return 0;\n"
    "    if (T(-1) < 0 && b == T(-1)) return T(zero - (unsigned long long)a);\n"
    "    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));\n"
    "}\n"
    "template <typename T> __device__ inline T remainder_of(T a, T b) {\n"
    "    if (b == 0 || (T(-1) < 0 && b == T(-1))) return 0;\n"
    "    T rest = a % b;\n"
    "    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;\n"
    "}\n"
    "template <typename T> __device__ inline T power(T base, T exponent) {\n"
    "    if (exponent < 0) return base == 1 ? 1 : base == T(-1) ? (exponent % 2 ? -1 : 1) : 0;\n"
    "    unsigned long long product = 1, factor = (unsigned long long)base;\n"
    "    for (unsigned long long rest = (unsigned long long)exponent; rest > 0; rest >>= 1, factor *= factor)\n"
    "        if (rest & 1) product *= factor;\n"
    "    return (T)product;\n"
    "}\n";

/* Loads and stores of elements that are used once. KEEPS (form->spares_l2): these leave L2 first. */
static const char once[] = "template <typename V> __device__ inline V load_once(const V *from) {\n"
                           "    union { int4 bits; V value; } x;\n"
                           "    if (KEEPS && sizeof x.value == 16) x.bits = __ldcs((const int4 *)from);\n"
                           "    else x.value = *from;\n"
                           "    return x.value;\n"
                           "}\n"
                           "template <typename V> __device__ inline void store_once(V *to, const V &value) {\n"
                           "    union { int4 bits; V value; } x;\n"
                           "    x.value = value;\n"
                           "    if (KEEPS && sizeof value == 16) __stcs((int4 *)to, x.bits);\n"
                           "    else *to = value;\n"
                           "}\n";

/* ---- types ------------------------------------------------------------------------------------------------------- */

/* The type of a value in a register. Integers of up to 16 bits, and int32, are computed in 32 bits, which is faster
 * than 64. */
static const char *value_type(int type) {
    switch (type) {
    case FLOAT64: return "double";
    case FLOAT32:
    case FLOAT16:
    case BFLOAT16: return "float";
    case INT64:
    case UINT32: return "long long";
    case UINT64: return "unsigned long long";
    case MAP_BOOL: return "bool";
    default: return "int";
    }
}

const char *map_memory_type(int type) {
    switch (type) {
    case FLOAT64: return "double";
    case FLOAT32: return "float";
    case INT8: return "signed char";
    case INT16: return "short";
    case INT32: return "int";
    case INT64: return "long long";
    case UINT32: return "unsigned";
    case UINT64: return "unsigned long long";
    case FLOAT16:
    case BFLOAT16:
    case UINT16: return "unsigned short";
    default: return "unsigned char"; /* uint8 and bool */
    }
}

/* The function that turns an element into a value; map_storing is its inverse. */
static const char *loading(int type) {
    return type == FLOAT16 ? "float16" : type == BFLOAT16 ? "bfloat16" : "";
}

const char *map_storing(int type) {
    return type == FLOAT16 ? "float16_bits" : type == BFLOAT16 ? "bfloat16_bits" : "";
}

/* Writes the value `text` narrowed to a type that is narrower than its register. */
static void narrow(FILE *to, int type, const char *text) {
    switch (type) {
    case INT8: fprintf(to, "(signed char)(%s)", text); return;
    case INT16: fprintf(to, "(short)(%s)", text); return;
    case UINT8: fprintf(to, "(unsigned char)(%s)", text); return;
    case UINT16: fprintf(to, "(unsigned short)(%s)", text); return;
    case UINT32: fprintf(to, "(unsigned)(%s)", text); return;
    case INT32: fprintf(to, "(int)(%s)", text); return;
    case FLOAT16:
    case BFLOAT16: fprintf(to, "%s(%s(%s))", loading(type), map_storing(type), text); return;
    default: fprintf(to, "%s", text);
    }
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* The operators of C and CUDA; NULL: a function is none. */
static const char *const infix[MAP_FUNCTION_COUNT] = {
    [MAP_ADD] = "+",     [MAP_SUBTRACT] = "-",       [MAP_MULTIPLY] = "*", [MAP_DIVIDE] = "/",
    [MAP_EQUAL] = "==",  [MAP_UNEQUAL] = "!=",       [MAP_LESS] = "<",     [MAP_LESS_EQUAL] = "<=",
    [MAP_GREATER] = ">", [MAP_GREATER_EQUAL] = ">=", [MAP_AND] = "&",      [MAP_OR] = "|",
};

/* The names of functions on doubles and on floats in CUDA; NULL: there is none. Powers, tangents and hypotenuses of
 * float32 are computed in float64, because CUDA's own are up to 4 units in the last place off. */
static const char *const real_names[MAP_FUNCTION_COUNT][2] = {
    [MAP_FLOOR] = {"floor", "floorf"},
    [MAP_CEIL] = {"ceil", "ceilf"},
    [MAP_RINT] = {"rint", "rintf"},
    [MAP_SQRT] = {"sqrt", "sqrtf"},
    [MAP_EXP] = {"exp", "expf"},
    [MAP_LOG] = {"log", "logf"},
    [MAP_LOG2] = {"log2", "log2f"},
    [MAP_LOG10] = {"log10", "log10f"},
    [MAP_SIN] = {"sin", "sinf"},
    [MAP_COS] = {"cos", "cosf"},
    [MAP_TAN] = {"tan", "tan"},
    [MAP_TANH] = {"tanh", "tanhf"},
    [MAP_ABS] = {"fabs", "fabsf"},
    [MAP_POWER] = {"pow", "pow"},
    [MAP_HYPOT] = {"hypot", "hypot"},
    [MAP_FLOOR_DIVIDE] = {"real_floor_divide", "real_floor_divide"},
    [MAP_REMAINDER] = {"real_remainder", "real_remainder"},
};

/* May the compiler turn a difference from this whole constant, or a product with it, into a negation (write_integer)?
 * It may if the constant, read as a signed number of its type's width, is 0 or less. */
static bool negates(const struct map_step *step) {
    int unused = step->type == MAP_BOOL ? 0 : 64 - 8 * (int)dtype_size((enum dtype)step->type);
    return step->type != MAP_BOOL && (int64_t)((uint64_t)step->integer << unused) <= 0;
}

/* Writes a constant. CUDA's assembler loses some negations (write_integer). If the compiler may turn the constant's use
 * into one, adds a zero that the compiler cannot see to be zero. */
static void write_constant(const struct map_step *step, char text[128]) {
    uint64_t bits;
    double real = step->real;
    memcpy(&bits, &real, sizeof bits);
    if (wide_is_real(step->wide)) {
        snprintf(text, 128, "(%s)__longlong_as_double(0x%llxll)", value_type(step->type), (unsigned long long)bits);
        return;
    }
    snprintf(text, 128, "(%s)(0x%llxull%s)", value_type(step->type), (unsigned long long)step->integer,
             negates(step) ? " + unknown_zero(a)" : "");
}

/* Writes the conversion of a value to step->type. A real value becomes an integer by whole(), modulo 2^64. */
static void write_cast(const struct map_step *step, char text[256]) {
    int a = step->operands[0], type = step->type;
    bool half = type == FLOAT16 || type == BFLOAT16, to_real = wide_is_real(wide_type_of(type));
    if (type == MAP_BOOL)
        snprintf(text, 256, "s%d != 0", a);
    else if (half && step->wide == WIDE_DOUBLE)
        snprintf(text, 256, "odd(s%d)", a);
    else if (wide_is_real(step->wide) && !to_real)
        snprintf(text, 256, "whole(s%d)", a);
    else
        snprintf(text, 256, "(%s)s%d", value_type(type), a);
}

/* Writes a function of integers; unsigned arithmetic wraps. Instead of a negation it writes a subtraction from a 0 that
 * the compiler does not know, for two reasons: CUDA 13.0's compiler assumes that the negative and the absolute value of
 * an integer are in range, though the smallest integer's are not; and on compute capability 9.0 it loses a negation in
 * min(min(a, -b), c). */
static void write_integer(const struct map_step *step, const char *type, char text[256]) {
    int a = step->operands[0], b = step->operands[1];
    enum map_function function = step->function;
    const char *name = function == MAP_REMAINDER ? "remainder_of" : "power";
    if (function == MAP_NEGATIVE)
        snprintf(text, 256, "(%s)(unknown_zero(a) - (unsigned long long)s%d)", type, a);
    else if (function == MAP_ABS)
        snprintf(text, 256, "s%d > 0 ? s%d : (%s)(unknown_zero(a) - (unsigned long long)s%d)", a, a, type, a);
    else if (function == MAP_SIGN)
        snprintf(text, 256, "(%s)((s%d > 0) - (s%d < 0))", type, a, a);
    else if (function == MAP_ADD || function == MAP_SUBTRACT || function == MAP_MULTIPLY)
        snprintf(text, 256, "(%s)((unsigned long long)s%d %s (unsigned long long)s%d)", type, a, infix[function], b);
    else if (function == MAP_FLOOR_DIVIDE)
        snprintf(text, 256, "floor_divide<%s>(s%d, s%d, unknown_zero(a))", type, a, b);
    else
        snprintf(text, 256, "%s<%s>(s%d, s%d)", name, type, a, b);
}

/* Writes the expression in CUDA C for the value of a step; the values of earlier steps are variables s0, s1, ... */
static void write_value(const struct map_step *step, char text[256]) {
    int a = step->operands[0], b = step->operands[1];
    enum map_function function = step->function;
    bool real = wide_is_real(step->wide), is_float = step->wide == WIDE_FLOAT;
    const char *operand_type = real ? (is_float ? "float" : "double") : value_type(step->type);
    const char *operator_ = infix[function], *name = real ? real_names[function][is_float] : NULL;
    bool compares = function >= MAP_EQUAL && function <= MAP_GREATER_EQUAL;
    if (function == MAP_CAST)
        write_cast(step, text);
    else if (function == MAP_WHERE)
        snprintf(text, 256, "s%d ? s%d : s%d", a, b, step->operands[2]);
    else if (function == MAP_MINIMUM || function == MAP_MAXIMUM)
        snprintf(text, 256, "s%d %s s%d || s%d != s%d ? s%d : s%d", a, function == MAP_MINIMUM ? "<" : ">", b, a, a, a,
                 b);
    else if (function == MAP_NOT)
        snprintf(text, 256, "!s%d", a);
    else if (function == MAP_ISNAN)
        snprintf(text, 256, "s%d != s%d", a, a);
    else if (function == MAP_ISFINITE)
        snprintf(text, 256, "fabs(s%d) < INFINITY", a);
    else if (operator_ && (real || compares || step->wide == WIDE_BOOL))
        snprintf(text, 256, "s%d %s s%d", a, operator_, b);
    else if (real && function == MAP_NEGATIVE)
        snprintf(text, 256, "-s%d", a);
    else if (real && function == MAP_SIGN)
        snprintf(text, 256, "s%d > 0 ? (%s)1 : s%d < 0 ? (%s)-1 : s%d == 0 ? (%s)0 : s%d", a, operand_type, a,
                 operand_type, a, operand_type, a);
    else if (name && (function == MAP_POWER || function == MAP_HYPOT))
        snprintf(text, 256, "(%s)%s((double)s%d, (double)s%d)", operand_type, name, a, b);
    else if (name && function == MAP_TAN)
        snprintf(text, 256, "(%s)tan((double)s%d)", operand_type, a);
    else if (name && b >= 0)
        snprintf(text, 256, "%s<%s>(s%d, s%d)", name, operand_type, a, b);
    else if (name)
        snprintf(text, 256, "%s(s%d)", name, a);
    else
        write_integer(step, operand_type, text);
}

/* Writes the index along an axis, in `loop`. Only the index along a merged axis takes divisions, a hundred instructions
 * each. */
static void write_index(FILE *to, int axis, int loop, bool merged) {
    if (merged)
        fprintf(to, "a.first[%d] + (a.start[%d] + p%d) / a.inner[%d] %% a.size[%d];\n", axis, loop, loop, axis, axis);
    else
        fprintf(to, "a.first[%d] + a.start[%d] + p%d;\n", axis, loop, loop);
}

/* Writes the function of one element: its inputs' values and its position along the three loops. */
static void write_element(FILE *to, const struct map_program *program, const struct map_args *args,
                          const struct map_form *form) {
    fprintf(to, "typedef %s VALUE;\n__device__ inline VALUE element(const arguments &a, INDEX p0, INDEX p1, INDEX p2",
            value_type((int)map_stored(program->type)));
    for (int i = 0; i < args->map->inputs; i++) fprintf(to, ", %s x%d", value_type(args->dtypes[i]), i);
    fprintf(to, ") {\n");
    for (int i = 0; i < program->count; i++) {
        const struct map_step *step = &program->steps[i];
        char text[256];
        fprintf(to, "    const %s s%d = ", value_type(step->type), i);
        if (step->function == MAP_INPUT)
            fprintf(to, "x%d;\n", step->number);
        else if (step->function == MAP_INDEX)
            write_index(to, step->number, form->axes[step->number], form->merged[step->number]);
        else {
            if (step->function == MAP_CONSTANT)
                write_constant(step, text);
            else
                write_value(step, text);
            narrow(to, step->function == MAP_CONSTANT ? FLOAT32 : step->type, text); /* FLOAT32: not narrowed */
            fprintf(to, ";\n");
        }
    }
    fprintf(to, "    return s%d;\n}\n", program->count - 1);
}

/* ---- vectors ----------------------------------------------------------------------------------------------------- */

/* Writes the position of element `index` of the result: variables p0, p1 and p2, which later text may change. */
static void write_position(FILE *to, const char *index) {
    fprintf(to,
            "    const INDEX at = %s, row = at / (INDEX)a.extent[2];\n"
            "    INDEX p2 = at %% (INDEX)a.extent[2], p1 = row %% (INDEX)a.extent[1], p0 = row / (INDEX)a.extent[1];\n",
            index);
}

/* Writes the address of an input's element at position p0, p1, p2; `loops`: those that the input has. */
static void write_address(FILE *to, int input, const char *type, unsigned loops) {
    fprintf(to, "((const %s *)a.x[%d] + (0", type, input);
    for (int loop = 0; loop < 3; loop++)
        if (loops >> loop & 1) fprintf(to, " + p%d * (INDEX)a.stride[%d][%d]", loop, input, loop);
    fprintf(to, "))");
}

/* Writes value(), of one element of the result. */
static void write_one(FILE *to, const struct map_args *args, const struct map_form *form) {
    fprintf(to, "__device__ inline VALUE value(const arguments &a, INDEX e) {\n");
    write_position(to, "e");
    fprintf(to, "    return element(a, p0, p1, p2");
    for (int i = 0; i < args->map->inputs; i++) {
        const char *type = map_memory_type(args->dtypes[i]);
        fprintf(to, ", %s(*", loading(args->dtypes[i]));
        if (form->has_result_layout[i])
            fprintf(to, "((const %s *)a.x[%d] + e)", type, i);
        else
            write_address(to, i, type, form->loops[i]);
        fprintf(to, ")");
    }
    fprintf(to, ");\n}\n");
}

/* Is the input loaded a vector at a time (else an element at a time)? If rows consist of whole vectors, also a
 * broadcast input that varies along the last loop. */
static bool loads_vectors(const struct map_form *form, int input) {
    return form->has_result_layout[input] || (form->rows && form->loops[input] >> 2 & 1);
}

/* Writes the struct that load() fills: a vector, or a repeated element, of each input. An input that is missing there
 * is loaded by values(): it is broadcast, and a vector may reach into the next row. */
static void write_loaded(FILE *to, const struct map_args *args, const struct map_form *form) {
    fprintf(to, "struct loaded {\n");
    for (int i = 0; i < args->map->inputs; i++) {
        const char *type = map_memory_type(args->dtypes[i]);
        if (loads_vectors(form, i))
            fprintf(to, "    vector<%s, N> x%d;\n", type, i);
        else if (form->rows)
            fprintf(to, "    %s x%d;\n", type, i);
    }
    fprintf(to, "};\n");
}

/* Writes load(), which loads what vector k needs, so that the loads of several vectors are in flight together. */
static void write_load(FILE *to, const struct map_args *args, const struct map_form *form, bool broadcasts) {
    fprintf(to, "__device__ inline void load(const arguments &a, INDEX k, loaded &in) {\n");
    if (broadcasts && form->rows) write_position(to, "k * N");
    for (int i = 0; i < args->map->inputs; i++) {
        const char *type = map_memory_type(args->dtypes[i]);
        if (form->has_result_layout[i]) {
            fprintf(to, "    in.x%d = load_once((const vector<%s, N> *)a.x[%d] + k);\n", i, type, i);
        } else if (form->rows) {
            fprintf(to, "    in.x%d = *", i);
            if (loads_vectors(form, i)) fprintf(to, "(const vector<%s, N> *)", type);
            write_address(to, i, type, form->loops[i]);
            fprintf(to, ";\n");
        }
    }
    fprintf(to, "}\n");
}

/* Writes values(), which makes the values of the elements of vector k from what load() has loaded. `indexes`: the map
 * uses the elements' indices. */
static void write_values(FILE *to, const struct map_args *args, const struct map_form *form, bool broadcasts,
                         bool indexes) {
    bool positions = indexes || (broadcasts && !form->rows);
    fprintf(to, "__device__ inline void values(const arguments &a, INDEX k, const loaded &in, VALUE (&value)[N]) {\n");
    if (positions) write_position(to, "k * N");
    fprintf(to, "#pragma unroll\n    for (int j = 0; j < N; j++) {\n    value[j] = element(a, %s",
            positions ? "p0, p1, p2" : "0, 0, 0");
    for (int i = 0; i < args->map->inputs; i++) {
        fprintf(to, ", %s(", loading(args->dtypes[i]));
        if (form->has_result_layout[i] || form->rows) {
            fprintf(to, loads_vectors(form, i) ? "in.x%d.of[j])" : "in.x%d)", i);
        } else {
            fprintf(to, "*");
            write_address(to, i, map_memory_type(args->dtypes[i]), form->loops[i]);
            fprintf(to, ")");
        }
    }
    fprintf(to, ");\n");
    if (positions)
        fprintf(to, "    if (++p2 == (INDEX)a.extent[2]) {\n        p2 = 0;\n"
                    "        if (++p1 == (INDEX)a.extent[1]) p1 = 0, p0++;\n    }\n");
    fprintf(to, "    }\n}\n");
}

/* Writes what a kernel needs to compute vectors: struct loaded, load() and values(). */
static void write_vector(FILE *to, const struct map_program *program, const struct map_args *args,
                         const struct map_form *form) {
    bool broadcasts = false, indexes = false;
    for (int i = 0; i < args->map->inputs; i++) broadcasts = broadcasts || !form->has_result_layout[i];
    for (int i = 0; i < program->count; i++) indexes = indexes || program->steps[i].function == MAP_INDEX;
    write_loaded(to, args, form);
    write_load(to, args, form, broadcasts);
    write_values(to, args, form, broadcasts, indexes);
}

char *map_cuda_text(const struct map_program *program, const struct map_args *args, const struct map_form *form,
                    const char *constants, const char *kernel) {
    char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    if (!to) return NULL;
    fprintf(to, "constexpr bool KEEPS = %d;\n%s%stypedef %s INDEX;\nconstexpr int N = %d, BLOCK = %d;\n",
            form->spares_l2, prelude, once, form->wide_index ? "unsigned long long" : "unsigned", form->elements,
            MAP_BLOCK);
    write_element(to, program, args, form);
    write_one(to, args, form);
    write_vector(to, program, args, form);
    fprintf(to, "%s%s", constants, kernel);
    bool bad = ferror(to);
    if (fclose(to) != 0 || bad) {
        free(text);
        return NULL;
    }
    return text;
}
