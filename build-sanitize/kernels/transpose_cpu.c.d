build-sanitize/kernels/transpose_cpu.c.o: kernels/transpose_cpu.c \
 kernels/kernel.h kernels/registry.def
kernels/kernel.h:
kernels/registry.def:
