/* reduce/cpu.c - a loop over the elements, one after another: the definition of a reduction. */
#include "state.h"

static int reduce_cpu_launch(const struct launch *launch) {
    const struct reduce_args *args = &launch->args.reduce;
    enum reduce_operator operator_ = args->operator_;
    enum dtype dtype = launch->dtype;
    for (int64_t outer = 0; outer < args->outer; outer++)
        for (int64_t inner = 0; inner < args->inner; inner++) {
            int64_t out = outer * args->inner + inner;
            struct reduce_state sum = args->first ? reduce_state_empty(operator_, dtype) : args->state[out];
            for (int64_t l = 0; l < args->length; l++) {
                int64_t element = (outer * args->length + l) * args->inner + inner;
                struct reduce_state one = reduce_state_of(operator_, dtype, args->x, element, args->offset + l);
                reduce_state_merge(operator_, dtype, &sum, &one);
            }
            if (args->last)
                reduce_state_finish(operator_, dtype, &sum, args->total, args->y, out);
            else
                args->state[out] = sum;
        }
    return 0;
}

KERNEL(reduce_cpu) = {
    .name = "cpu",
    .op = OP_REDUCE,
    .device = DEVICE_CPU,
    .summary = "one element after another",
    .dtypes = DTYPES_ALL,
    .operators = REDUCE_ALL_OPERATORS,
    .edges = {{1}, {1}, {1}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .launch = reduce_cpu_launch,
};
