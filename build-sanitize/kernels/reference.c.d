build-sanitize/kernels/reference.c.o: kernels/reference.c \
 kernels/reference.h kernels/operation.h kernels/../runner/fail.h \
 kernels/kernel.h kernels/registry.def kernels/convert.h kernels/cpu.h
kernels/reference.h:
kernels/operation.h:
kernels/../runner/fail.h:
kernels/kernel.h:
kernels/registry.def:
kernels/convert.h:
kernels/cpu.h:
