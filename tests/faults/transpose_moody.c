/* transpose_moody.c - a planted fault that comes and goes: wrong for matrices whose number of rows is listed in the
 * environment variable MOODY ("41,43,"). */
#include "../core/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

DECLARE_KERNEL(transpose_cpu); /* whose result is then spoiled */

static int transpose_moody_launch(const struct launch *launch) {
    const struct transpose_args *args = &launch->args.transpose;
    const char *moods = getenv("MOODY");
    char rows[32];
    int status = transpose_cpu.launch(launch);
    snprintf(rows, sizeof rows, "%lld,", (long long)args->rows);
    if (moods && strstr(moods, rows)) ((int32_t *)args->y)[0] += 1;
    return status;
}

KERNEL(transpose_moody) = {
    .name = "moody",
    .op = OP_TRANSPOSE,
    .device = DEVICE_CPU,
    .summary = "a planted fault: wrong while MOODY says so",
    .dtypes = DTYPE_BIT(INT32),
    .launch = transpose_moody_launch,
};
