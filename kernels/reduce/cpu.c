/* reduce/cpu.c - a loop over the elements, one after another: the definition of a reduction. */
#include "state.h"

/* kernel->launch: continues each output's state, element by element. */
static int reduce_cpu_launch(const struct launch *launch) {
    const struct reduce_args *args = &launch->args.reduce;
    const struct reduction reduction = {args, launch->dtype};
    for (int64_t outer = 0; outer < args->outer; outer++)
        for (int64_t inner = 0; inner < args->inner; inner++) {
            int64_t out = outer * args->inner + inner;
            union reduce_any sum = reduce_load(&reduction, out);
            for (int64_t l = 0; l < args->length; l++)
                reduce_add(&reduction, &sum, (outer * args->length + l) * args->inner + inner, args->offset + l);
            reduce_store(&reduction, &sum, out);
        }
    return 0;
}

KERNEL(reduce_cpu) = {
    .name = "cpu",
    .op = OP_REDUCE,
    .device = DEVICE_CPU,
    .summary = "one element after another, one thread",
    .dtypes = DTYPES_ALL,
    .operators = REDUCE_ALL_OPERATORS,
    .edges = {{1}, {1}, {1}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .launch = reduce_cpu_launch,
};
