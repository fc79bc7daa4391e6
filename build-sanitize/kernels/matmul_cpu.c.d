build-sanitize/kernels/matmul_cpu.c.o: kernels/matmul_cpu.c \
 kernels/convert.h kernels/kernel.h kernels/registry.def
kernels/convert.h:
kernels/kernel.h:
kernels/registry.def:
