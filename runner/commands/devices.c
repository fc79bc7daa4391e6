/* devices.c - `tilerun devices`: the devices of this machine, and the limits that predictions use. */
#include "../base/interrupt.h"
#include "../stream/device.h"
#include "command.h"

struct devices_settings {
    bool measure;
};

/* Prints ", float32 51.2 TFLOP/s", or nothing if the rate is not known. */
static void print_flops(int product, double flops_per_s) {
    if (!(flops_per_s > 0)) return;
    bool tera = flops_per_s >= 1e12;
    printf(", %s %.3g %s", limits_product_name(product), flops_per_s / (tera ? 1e12 : 1e9),
           tera ? "TFLOP/s" : "GFLOP/s");
}

/* Prints the measured limits of a device. */
static void print_measured(const struct device_limits *limits) {
    printf("    measured limits   memory ");
    if (limits->memory_bytes_per_s > 0)
        printf("%.3g GB/s", limits->memory_bytes_per_s / 1e9);
    else
        printf("unknown");
    for (int product = 0; product < LIMITS_PRODUCTS; product++) print_flops(product, limits->flops_per_s[product]);
    printf("\n");
    if (limits->upload_bytes_per_s > 0)
        printf("                      copies %.3g GB/s to the device, %.3g GB/s back\n",
               limits->upload_bytes_per_s / 1e9, limits->download_bytes_per_s / 1e9);
    printf("                      a launch %.2g us; of %s\n", limits->launch_s * 1e6, limits->measured);
}

/* Prints the limits that are assumed for a device. */
static void print_assumed(const struct device_facts *facts) {
    printf("    assumed limits    memory %.0f GB/s, float32 %.3g TFLOP/s, float64 %.3g TFLOP/s",
           facts->memory_bytes_per_s / 1e9, facts->flops_per_s[FLOAT32] / 1e12, facts->flops_per_s[FLOAT64] / 1e12);
    if (facts->kind == DEVICE_CUDA) printf(", copies %.0f GB/s each way", facts->copy_bytes_per_s / 1e9);
    printf("\n");
}

/* Prints a device's facts and its limits. */
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
    if (facts->limits)
        print_measured(facts->limits);
    else
        print_assumed(facts);
}

/* Prints a device with its stored limits, or with `measure` those measured now. `number` -1: the CPU. Sets *assumed if
 * it has neither. */
static enum status show_device(int number, struct device_facts *facts, bool measure, bool *assumed,
                               struct error *error) {
    if (measure) {
        const bool again = true, verbose = true;
        TRY(command_measure(facts, number, again, verbose, &facts->limits, error));
    } else {
        facts->limits = command_limits(facts);
    }
    print_device(facts);
    *assumed = *assumed || !facts->limits;
    limits_free(facts->limits);
    return STATUS_OK;
}

/* Prints the CPU and all GPUs. */
static enum status devices(const struct invocation *invocation, struct error *error) {
    const struct devices_settings *settings = invocation->settings;
    bool measure = settings->measure, assumed = false;
    if (measure) TRY(interrupt_begin(error));
    struct device_facts facts;
    device_cpu_facts(&facts);
    TRY(show_device(-1, &facts, measure, &assumed, error));
    int count = device_cuda_count();
    for (int i = 0; i < count; i++) {
        TRY(device_cuda_facts(i, &facts, error));
        TRY(show_device(i, &facts, measure, &assumed, error));
    }
    if (count == 0) fprintf(stderr, "tilerun: no CUDA GPU here\n");
    if (assumed) fprintf(stderr, "tilerun: limits are assumed; `tilerun devices --measure` measures them\n");
    return STATUS_OK;
}

static const struct option_row rows[] = {
    {"measure", 0, NULL, "measure the limits, about 1.5 s for each device, and store them for later runs",
     PARSE_FLAG(struct devices_settings, measure)},
    {0},
};

const struct command command_devices = {
    .name = "devices",
    .summary = "List the devices that jobs can run on, with their limits.",
    .operands = {"", WORD_OTHER, .min = 0, .max = 0},
    .rows = rows,
    .settings_bytes = sizeof(struct devices_settings),
    .run = devices,
};
