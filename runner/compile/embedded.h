/* embedded.h - texts that the build embeds in the program: tilerun.h, and templates of kernels, "matmul.c", in which
 * NAME stands for the kernel's name. */
#ifndef RUNNER_EMBEDDED_H
#define RUNNER_EMBEDDED_H

struct embedded {
    const char *name, *text;
};
extern const struct embedded embedded[]; /* ends with an entry without a name */

/* The text called `name`; NULL: there is none. */
const char *embedded_text(const char *name);

#endif
