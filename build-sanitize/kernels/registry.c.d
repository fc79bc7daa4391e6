build-sanitize/kernels/registry.c.o: kernels/registry.c \
 kernels/operation.h kernels/../runner/fail.h kernels/kernel.h \
 kernels/registry.def
kernels/operation.h:
kernels/../runner/fail.h:
kernels/kernel.h:
kernels/registry.def:
