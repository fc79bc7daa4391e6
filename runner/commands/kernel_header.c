/* kernel_header.c - `tilerun kernel-header`: prints tilerun.h. */
#include "../compile/embedded.h"
#include "command.h"

static enum status kernel_header(const struct invocation *invocation, struct error *error) {
    (void)invocation, (void)error;
    fputs(embedded_text("tilerun.h"), stdout);
    return STATUS_OK;
}

const struct command command_kernel_header = {
    .name = "kernel-header",
    .summary = "Print tilerun.h, which declares what a kernel in a job (`source:`) is given.",
    .description = "tilerun compiles kernels with this header: `#include \"tilerun.h\"` works without a file. An "
                   "editor's completion needs one: `tilerun kernel-header > tilerun.h`.\n",
    .operands = {"", WORD_OTHER, .min = 0, .max = 0},
    .rows = no_options,
    .run = kernel_header,
};
