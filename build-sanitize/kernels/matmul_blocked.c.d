build-sanitize/kernels/matmul_blocked.c.o: kernels/matmul_blocked.c \
 kernels/convert.h kernels/kernel.h kernels/registry.def kernels/cpu.h \
 kernels/matmul_blocked.h
kernels/convert.h:
kernels/kernel.h:
kernels/registry.def:
kernels/cpu.h:
kernels/matmul_blocked.h:
