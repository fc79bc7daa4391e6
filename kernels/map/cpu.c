/* map/cpu.c - the CPU variant: threads take vectors of elements through all steps of the map's program. */
#include "../core/cpu.h"
#include "vector.h"

#include <stdlib.h>
#include <string.h>

// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are names that it declares
/* Loops over the runs of elements [at, at + count) that are adjacent along the innermost loop. Sets a run's offset from
 * `at`, its length, and the position of its first element along the three loops. */
#define EACH_RUN(args, at, count, offset, run, position)                                                               \
    for (int64_t offset = 0, run, position[3];                                                                         \
         offset < (count) && (run = run_at(args, (at) + offset, (count)-offset, position), true); offset += run)
// NOLINTEND(bugprone-macro-parentheses)

/* Sets the position of element `at` along the three loops. Returns the number of elements, at most max_count, that are
 * adjacent from it on along the innermost loop. */
static int64_t run_at(const struct map_args *args, int64_t at, int64_t max_count, int64_t position[3]) {
    position[2] = at % args->extent[2];
    position[1] = at / args->extent[2] % args->extent[1];
    position[0] = at / args->extent[2] / args->extent[1];
    return min_int64(max_count, args->extent[2] - position[2]);
}

/* Copies the first of `count` values, each of `bytes` bytes (1, 4 or 8), to all others. */
static void repeat(size_t bytes, void *values, int64_t count) {
    uint8_t *of_1_byte = values;
    uint32_t *of_4_bytes = values;
    uint64_t *of_8_bytes = values;
    for (int64_t i = 1; i < count; i++)
        if (bytes == 8)
            of_8_bytes[i] = of_8_bytes[0];
        else if (bytes == 4)
            of_4_bytes[i] = of_4_bytes[0];
        else
            of_1_byte[i] = of_1_byte[0];
}

static size_t wide_bytes(enum wide_type wide) {
    return wide == WIDE_BOOL ? 1 : wide == WIDE_FLOAT ? 4 : 8;
}

/* Loads elements [at, at + count) of an input, repeated as the result needs them, as values of type `wide`. */
static void load_input(const struct map_args *args, int input, enum wide_type wide, int64_t at, int64_t count,
                       char *values) {
    enum dtype dtype = args->dtypes[input];
    int64_t size = (int64_t)dtype_size(dtype), bytes = (int64_t)wide_bytes(wide), stride[3];
    const char *x = args->x[input];
    if (map_has_result_layout(args, input)) {
        map_load(dtype, count, x + at * size, values);
        return;
    }
    map_strides(args, input, stride);
    EACH_RUN(args, at, count, offset, run, position) {
        int64_t from = position[0] * stride[0] + position[1] * stride[1] + position[2] * stride[2];
        map_load(dtype, stride[2] ? run : 1, x + from * size, values + offset * bytes);
        if (!stride[2]) repeat((size_t)bytes, values + offset * bytes, run);
    }
}

/* Fills `values` with the indices of elements [at, at + count) along an axis of the result. */
static void load_index(const struct map_args *args, const struct map_axis *axis, int64_t at, int64_t count,
                       int64_t *values) {
    const bool moves = axis->loop == 2;
    EACH_RUN(args, at, count, offset, run, position) {
        int64_t along = args->start[axis->loop] + position[axis->loop], index = along / axis->inner % axis->size;
        /* Elements until the index changes. */
        int64_t until_change = moves ? axis->inner - along % axis->inner : run + 1;
        for (int64_t i = 0; i < run; i++) {
            values[offset + i] = axis->first + index;
            if (--until_change > 0) continue;
            until_change = axis->inner;
            index = index + 1 < axis->size ? index + 1 : 0;
        }
    }
}

/* Computes elements [at, at + count) of the tile, by doing each step for all of them, and stores them. `registers` has
 * program->registers vectors, with the constants in theirs. An input that needs no conversion is used where it is. */
static void compute(const struct map_args *args, const struct map_program *program, int64_t at, int64_t count,
                    char *registers) {
    const int64_t bytes = MAP_VECTOR * MAX_WIDE_BYTES;
    const void *results[MAP_STEPS];
    for (int i = 0; i < program->count; i++) {
        const struct map_step *step = &program->steps[i];
        char *target = registers + step->reg * bytes;
        const void *in[MAP_OPERANDS] = {NULL};
        results[i] = target;
        for (int k = 0; k < MAP_OPERANDS; k++)
            if (step->operands[k] >= 0) in[k] = results[step->operands[k]];
        if (step->function == MAP_INPUT) {
            bool in_place = map_has_result_layout(args, step->number) && dtype_size(args->dtypes[step->number]) >= 4 &&
                            dtype_size(args->dtypes[step->number]) == wide_bytes(step->wide);
            if (in_place)
                results[i] = (const char *)args->x[step->number] + at * (int64_t)wide_bytes(step->wide);
            else
                load_input(args, step->number, step->wide, at, count, target);
        } else if (step->function == MAP_INDEX) {
            load_index(args, &args->axes[step->number], at, count, (int64_t *)target);
        } else if (step->function != MAP_CONSTANT) {
            map_vector(step, count, in, target);
        }
    }
    enum dtype stored = map_stored(program->type);
    map_store(program->type == MAP_BOOL ? DTYPE_COUNT : stored, count, results[program->count - 1],
              (char *)args->y + at * (int64_t)dtype_size(stored));
}

/* Writes the constants to their registers, which no other step uses. */
static void fill_constants(const struct map_program *program, char *registers) {
    const void *const none[MAP_OPERANDS] = {NULL};
    for (int i = 0; i < program->count; i++)
        if (program->steps[i].function == MAP_CONSTANT)
            map_vector(&program->steps[i], MAP_VECTOR, none,
                       registers + (int64_t)program->steps[i].reg * MAP_VECTOR * MAX_WIDE_BYTES);
}

/* Makes the program of the map. Then each thread computes vectors of MAP_VECTOR elements, in registers (memory) of
 * its own. Returns 1 if there is too little memory. */
static int map_cpu_launch(const struct launch *launch) {
    const struct map_args *args = &launch->args.map;
    int64_t elements = args->extent[0] * args->extent[1] * args->extent[2], failed = 0;
    struct error ignored = {0};
    struct map_program *program = malloc(sizeof *program);
    if (!program || map_program(args->map, args->dtypes, program, &ignored)) failed = 1;
#pragma omp parallel num_threads(cpu_threads(launch, (double)elements * args->map->count)) reduction(+ : failed)
    {
        char *registers =
            failed ? NULL : aligned_alloc(64, (size_t)(program->registers + 1) * MAP_VECTOR * MAX_WIDE_BYTES);
        if (!registers)
            failed = 1;
        else
            fill_constants(program, registers);
#pragma omp for
        for (int64_t at = 0; at < elements; at += MAP_VECTOR)
            if (registers) compute(args, program, at, min_int64(MAP_VECTOR, elements - at), registers);
        free(registers);
    }
    free(program);
    return failed > 0;
}

KERNEL(map_cpu) = {
    .name = "cpu",
    .op = OP_MAP,
    .device = DEVICE_CPU,
    .summary = "takes vectors of 1024 elements through the steps of the expression, on several threads",
    .dtypes = DTYPES_ALL,
    .edges = {{MAP_VECTOR}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .launch = map_cpu_launch,
};
