/* list.c - `tilerun list [OPERATION]`: prints the variants of the registry. */
#include "../base/spelling.h"
#include "../stream/device.h"
#include "command.h"

#include <string.h>

static const char *const accuracy_names[ACCURACY_COUNT] = {"full", "tf32", "float16", "bfloat16"};

static void print_dtypes(unsigned dtypes) {
    if (dtypes == DTYPES_ALL) {
        printf("all");
        return;
    }
    const char *separator = "";
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (dtypes & DTYPE_BIT(i)) printf("%s%s", separator, dtype_name((enum dtype)i)), separator = " ";
}

/* Prints the operators that the kernel has, unless it has all of its operation's, `names` (NULL: there are none). */
static void print_operators(const struct kernel *kernel, const char *const *names) {
    int count = 0;
    while (names && names[count]) count++;
    if (kernel->operators == 0 || kernel->operators == (1u << count) - 1u) return;
    printf("; operators:");
    for (int i = 0; i < count; i++)
        if (kernel->operators >> i & 1) printf(" %s", names[i]);
}

/* Why the kernel cannot run here; NULL: it can run. `cuda`: the GPU, or NULL. The caller frees. */
static char *missing_for(const struct kernel *kernel, const struct device_facts *cuda) {
    const int needs = kernel->compute_capability, below = kernel->only_below;
    const int here = cuda ? cuda->compute_capability : 0;
    if (kernel_left_out(kernel)) return must_strdup(kernel_left_out(kernel));
    if (kernel->device == DEVICE_CUDA && !cuda) return must_strdup("needs a CUDA GPU");
    if (needs > here) return must_printf("needs compute capability %d.%d", needs / 10, needs % 10);
    if (below > 0 && below <= here) return must_printf("needs compute capability below %d.%d", below / 10, below % 10);
    return must_strdup(kernel_missing(kernel));
}

static void print_availability(const struct kernel *kernel, const struct device_facts *cuda) {
    OWNED char *missing = missing_for(kernel, cuda);
    if (missing)
        printf("            cannot run here: %s\n", missing);
    else
        printf("            runs here, on %s\n", kernel->device == DEVICE_CPU ? "the CPU" : cuda->name);
    if (!missing && kernel->library && kernel->library()) printf("            library: %s\n", kernel->library());
}

/* Prints a variant: what it does, its types, operators, accuracy and parameters, and whether it runs here. */
static void print_kernel(const struct kernel *kernel, const struct device_facts *cuda) {
    printf("  %-10s %s\n", kernel->name, kernel->summary);
    printf("            types: ");
    print_dtypes(kernel->dtypes);
    print_operators(kernel, operations[kernel->op]->operators);
    if (kernel->is_roof)
        printf("; a roof: timed beside the others, never verified, never a result\n");
    else
        printf("; accuracy: %s; %s\n", accuracy_names[kernel->accuracy],
               kernel->atomic_order ? "last bits may differ between runs" : "the same bits every run");
    for (int p = 0; p < KERNEL_MAX_PARAMETERS && kernel->parameters[p].name; p++) {
        printf("            %s:", kernel->parameters[p].name);
        for (int v = 0; kernel->parameters[p].values[v]; v++) printf(" %s", kernel->parameters[p].values[v]);
        printf(" (%s)\n", kernel->parameters[p].help);
    }
    if (kernel->traffic) printf("            traffic: %s\n", kernel->traffic);
    print_availability(kernel, cuda);
}

/* Prints the variants of one operation, or of all. */
static enum status list(const struct invocation *invocation, struct error *error) {
    const char *wanted = invocation->count > 0 ? invocation->operands[0] : NULL;
    if (wanted && !operation_find(wanted)) {
        const char *names[OP_COUNT];
        for (int i = 0; i < OP_COUNT; i++) names[i] = operations[i]->name;
        const char *near = nearest_name(wanted, names, OP_COUNT);
        if (near) return fail(error, STATUS_USAGE, "list: unknown operation '%s' (did you mean '%s'?)", wanted, near);
        return fail(error, STATUS_USAGE, "list: unknown operation '%s'; `tilerun list` lists all", wanted);
    }
    struct device_facts cuda;
    bool has_gpu = device_cuda_count() > 0 && device_cuda_facts(0, &cuda, error) == STATUS_OK;
    error->text[0] = '\0';
    for (int op = 0; op < OP_COUNT; op++) {
        if (wanted && strcmp(wanted, operations[op]->name) != 0) continue;
        printf("%s: %s\n", operations[op]->name, operations[op]->summary);
        for (int i = 0; i < kernel_count; i++)
            if ((int)kernel_registry[i]->op == op) print_kernel(kernel_registry[i], has_gpu ? &cuda : NULL);
    }
    return STATUS_OK;
}

const struct command command_list = {
    .name = "list",
    .summary = "List the variants of each operation: what they do, which types they take, what they need, and whether "
               "they run here.",
    .operands = {"[OPERATION]", WORD_OPERATION, .min = 0, .max = 1},
    .rows = no_options,
    .run = list,
};
