build-sanitize/kernels/scale_cpu.c.o: kernels/scale_cpu.c \
 kernels/convert.h kernels/kernel.h kernels/registry.def kernels/cpu.h
kernels/convert.h:
kernels/kernel.h:
kernels/registry.def:
kernels/cpu.h:
