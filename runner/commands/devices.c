/* devices.c - `tilerun devices`: what a job could run on, and the limits its predictions start from. */
#include "../stream/device.h"
#include "command.h"

static void print_device(const struct device_facts *facts) {
    printf("%s  %s\n", facts->id, facts->name);
    if (facts->kind == DEVICE_CUDA)
        printf("    compute capability %d.%d, %d multiprocessors\n", facts->compute_capability / 10,
               facts->compute_capability % 10, facts->multiprocessors);
    else
        printf("    %d thread%s\n", facts->multiprocessors, facts->multiprocessors == 1 ? "" : "s");
    printf("    memory            %.1f GiB, %.1f GiB free\n", (double)facts->memory_total / 0x1p30,
           (double)facts->memory_free / 0x1p30);
    printf("    last-level cache  %.1f MiB\n", (double)facts->cache_bytes / 0x1p20);
    printf("    assumed limits    memory %.0f GB/s, float32 %.3g TFLOP/s, float64 %.3g TFLOP/s",
           facts->memory_bytes_per_s / 1e9, facts->flops_per_s[FLOAT32] / 1e12, facts->flops_per_s[FLOAT64] / 1e12);
    if (facts->kind == DEVICE_CUDA) printf(", copies %.0f GB/s each way", facts->copy_bytes_per_s / 1e9);
    printf("\n");
}

static enum status devices(int argc, char **argv, struct error *error) {
    enum status status = command_operands_only(&command_devices, argc, argv, 0, error);
    if (status) return status;
    struct device_facts facts;
    device_cpu_facts(&facts);
    print_device(&facts);
    int count = device_cuda_count();
    for (int i = 0; i < count; i++) {
        if ((status = device_cuda_facts(i, &facts, error))) return status;
        print_device(&facts);
    }
    if (count == 0) fprintf(stderr, "tilerun: no CUDA GPU here\n");
    return STATUS_OK;
}

const struct command command_devices = {
    .name = "devices",
    .arguments = "",
    .summary = "the devices that jobs can run on, with their limits",
    .help = "",
    .run = devices,
};
