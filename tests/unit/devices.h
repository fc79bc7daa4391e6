/* devices.h - for tests of kernels: the CPU, and the first GPU if there is one. Include after cmocka.h. */
#ifndef TESTS_DEVICES_H
#define TESTS_DEVICES_H

#include "../../runner/stream/device.h"

static struct device *devices[2]; /* by enum kernel_device; NULL: there is none */

static int open_devices(void **state) {
    struct error error = {.status = STATUS_OK};
    if (device_cpu_open(&devices[DEVICE_CPU], &error) != STATUS_OK) fail_msg("%s", error.text);
    if (device_cuda_count() > 0 && device_cuda_open(0, &devices[DEVICE_CUDA], &error) != STATUS_OK)
        fail_msg("%s", error.text);
    return 0;
}

static int close_devices(void **state) {
    for (int i = 0; i < 2; i++)
        if (devices[i]) devices[i]->operations->close(devices[i]);
    return 0;
}

#endif
