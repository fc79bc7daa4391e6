build-sanitize/kernels/transpose_blocked.c.o: kernels/transpose_blocked.c \
 kernels/cpu.h kernels/kernel.h kernels/registry.def
kernels/cpu.h:
kernels/kernel.h:
kernels/registry.def:
